//! Logs written from real journals into real repositories.

use crate::problem::{Code, Explain as _};
use std::collections::BTreeMap;

use jiff::Timestamp;
use tempfile::TempDir;

use super::*;
use crate::checkpoint::repository::create_repository;
use crate::disk::{Disk, Fsync};
use crate::journal::event::StepKind;
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::journal::{Durability, Event, Journal, Salt};

struct Ground {
    _home: TempDir,
    repository: Repository,
    folder: PathBuf,
    run: RunId,
}

impl Ground {
    fn new() -> (Self, Journal) {
        let home = tempfile::tempdir().unwrap();
        create_repository(home.path()).unwrap();
        let repository =
            Repository::open(home.path(), None, &BTreeMap::new(), Fsync::Never).unwrap();
        let (folder, run) = (
            repository.runs_folder(),
            "01kdz3gqc80000000000000001".parse().unwrap(),
        );
        let mut journal = Journal::create(
            &folder,
            run,
            Salt::new(1),
            Durability::LastLine,
            &Disk::unsynced(),
        )
        .unwrap();
        let started = Event::RunStarted {
            name: "long".to_owned(),
            command: vec!["private".to_owned()],
            mode: CheckpointMode::Auto,
            directive: None,
            root: "/private".to_owned(),
            worktree: None,
            pinned: None,
            beside: None,
            steps: Vec::new(),
            atomic: false,
            order: None,
            repository: None,
        };
        journal.append(Timestamp::UNIX_EPOCH, &started).unwrap();
        (
            Self {
                _home: home,
                repository,
                folder,
                run,
            },
            journal,
        )
    }

    fn publish(&self) -> Result<Publication, AuditError> {
        publish(&self.repository, &self.folder, self.run)
    }

    fn tip(&self) -> Option<ObjectId> {
        self.repository.find_trail(&self.run.to_string()).unwrap()
    }

    fn commits(&self) -> usize {
        self.repository
            .commits_between(None, self.tip())
            .unwrap()
            .len()
    }

    /// Checks that the log equals the journal without its private parts.
    fn assert_equal(&self) {
        let records = journal::read(&journal::path_of(&self.folder, self.run))
            .unwrap()
            .records;
        let tip = self.tip().unwrap();
        let mut lines = Vec::new();
        self.repository
            .read_trail(tip, &TrailBudget::default(), &mut |line| {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        let public = |record: &Record| format!("{}\n", record.public());
        assert_eq!(lines, records.iter().map(public).collect::<Vec<_>>());
        assert!(!lines.concat().contains("private"));
        let log = load(&self.repository, self.run, tip, &TrailBudget::default());
        assert_eq!(log.fault, None);
        assert_eq!(log.into_record().unwrap().source, RecordSource::Log);
    }
}

fn steps(journal: &mut Journal, numbers: std::ops::RangeInclusive<u32>) {
    for step in numbers {
        let started = Event::StepStarted {
            step,
            name: format!("s{step}"),
            kind: StepKind::Command {
                argv: vec!["private".to_owned()],
                on_failure: None,
                isolation: None,
            },
            tool: None,
            before: None,
            writes: Vec::new(),
            order: None,
        };
        let finished = Event::StepFinished {
            step,
            status: StepStatus::Succeeded,
            error: None,
        };
        for event in [
            started,
            Event::NoChanges {
                step,
                not_captured: Vec::new(),
                too_large: Vec::new(),
            },
            finished,
        ] {
            journal.append(Timestamp::UNIX_EPOCH, &event).unwrap();
        }
    }
}

fn end(journal: &mut Journal, status: RunStatus) {
    let summary = RunSummary {
        run_id: journal.run(),
        directive: None,
        status,
        steps: Vec::new(),
        steps_omitted: 0,
        step_totals: None,
        outputs: serde_json::Map::new(),
        uncommitted: Vec::new(),
        error: None,
    };
    journal
        .append(Timestamp::UNIX_EPOCH, &Event::RunFinished(summary))
        .unwrap();
}

#[test]
fn a_run_that_waited_is_continued() {
    let (ground, mut journal) = Ground::new();
    steps(&mut journal, 1..=2);
    assert_eq!(
        ground.publish().unwrap(),
        Publication::Withheld("it has not ended")
    );
    assert_eq!(ground.tip(), None);
    end(&mut journal, RunStatus::Waiting);
    assert_eq!(ground.publish().unwrap(), Publication::Complete);
    ground.assert_equal();
    assert_eq!(ground.commits(), 3);
    let waiting = ground.tip();
    assert_eq!(ground.publish().unwrap(), Publication::Complete);
    assert_eq!(ground.tip(), waiting);
    journal
        .append(
            Timestamp::UNIX_EPOCH,
            &Event::RunResumed {
                with: "an answer".to_owned(),
                restart: None,
            },
        )
        .unwrap();
    steps(&mut journal, 3..=3);
    assert_eq!(
        ground.publish().unwrap(),
        Publication::Withheld("it has not ended")
    );
    assert_eq!(ground.tip(), waiting);
    end(&mut journal, RunStatus::Succeeded);
    assert_eq!(ground.publish().unwrap(), Publication::Complete);
    ground.assert_equal();
    assert_eq!(ground.commits(), 5);
    assert!(
        ground
            .repository
            .leads_to(ground.tip().unwrap(), waiting.unwrap())
    );
}

#[test]
fn a_long_run_makes_few_commits() {
    let (ground, mut journal) = Ground::new();
    steps(&mut journal, 1..=450);
    end(&mut journal, RunStatus::Succeeded);
    assert_eq!(ground.publish().unwrap(), Publication::Complete);
    ground.assert_equal();
    assert_eq!(ground.commits(), 151);
    let tip = ground
        .repository
        .find_commit(ground.tip().unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(tip.message, "run: succeeded\n");
    let last = ground
        .repository
        .find_commit(tip.parents[0])
        .unwrap()
        .unwrap();
    assert_eq!(last.message, "steps 448 to 450\n");
}

#[test]
fn a_log_that_is_not_the_beginning_of_the_journal_is_left_alone() {
    let (ground, mut journal) = Ground::new();
    steps(&mut journal, 1..=1);
    end(&mut journal, RunStatus::Succeeded);
    let name = ground.run.to_string();
    let batch = Batch {
        subject: "forged\n".to_owned(),
        at: 0,
        lines: b"{}\n".to_vec(),
    };
    let mut writer = ground.repository.extend_trail(None).unwrap();
    writer.add(&batch).unwrap();
    writer.finish(&name).unwrap();
    let forged = ground.tip();
    let err = ground.publish().unwrap_err();
    assert!(
        matches!(err, AuditError::Diverged { entry: 1, .. }),
        "{err}"
    );
    assert_eq!(ground.tip(), forged);
}

#[test]
fn a_tampered_journal_has_no_log() {
    let (ground, mut journal) = Ground::new();
    steps(&mut journal, 1..=1);
    end(&mut journal, RunStatus::Succeeded);
    let path = journal::path_of(&ground.folder, ground.run);
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to, told) in [
        ("\"s1\"", "\"s2\"", "line 2 was edited"),
        (
            "\"/private\"",
            "\"/other\"",
            "the private part of line 1 was edited",
        ),
    ] {
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let err = ground.publish().unwrap_err();
        assert_eq!(err.code(), Code::JournalBroken);
        assert!(err.to_string().ends_with(told), "{err}");
        assert_eq!(ground.tip(), None);
    }
    std::fs::write(&path, text + "torn").unwrap();
    assert_eq!(ground.publish().unwrap(), Publication::Complete);
}
