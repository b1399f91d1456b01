//! What is kept of a journal.

use jiff::Timestamp;

use super::*;
use crate::disk::Disk;
use crate::item::directive::CheckpointMode;
use crate::journal::{Durability, Journal, Salt};

const RUN: &str = "01kdz3gqc80000000000000001";

fn started(step: u32, name: &str) -> Event {
    let kind = StepKind::Directive {
        id: "inner".to_owned(),
    };
    Event::StepStarted {
        step,
        name: name.to_owned(),
        kind,
        tool: None,
        before: None,
        writes: Vec::new(),
        order: None,
    }
}

fn ended(step: u32, status: StepStatus) -> Event {
    Event::StepFinished {
        step,
        status,
        error: None,
    }
}

fn running(step: u32, pid: u32) -> Event {
    Event::ToolStarted {
        step,
        pid,
        started: 7,
        boot: "boot".to_owned(),
        supervised: false,
    }
}

/// The progress of a run with these events.
fn resume_point(events: &[Event]) -> ResumePoint {
    let folder = tempfile::tempdir().unwrap();
    let run: RunId = RUN.parse().unwrap();
    let mut journal = Journal::create(
        folder.path(),
        run,
        Salt::new(7),
        Durability::LastLine,
        &Disk::unsynced(),
    )
    .unwrap();
    let first = Event::RunStarted {
        name: "long".to_owned(),
        command: Vec::new(),
        mode: CheckpointMode::Auto,
        directive: Some("long@1.0.0".to_owned()),
        root: "/".to_owned(),
        worktree: None,
        pinned: Some("the hash".to_owned()),
        beside: None,
        steps: Vec::new(),
        atomic: false,
        order: None,
        repository: None,
    };
    for event in [&first].into_iter().chain(events) {
        journal.append(Timestamp::UNIX_EPOCH, event).unwrap();
    }
    ResumePoint::load(folder.path(), run).unwrap()
}

#[test]
fn only_the_newest_step_is_kept_and_all_are_listed_in_order() {
    let skipped = Event::StepSkipped {
        name: "b".to_owned(),
        reason: "why not".to_owned(),
    };
    let (one, two) = (
        ended(1, StepStatus::Succeeded),
        ended(2, StepStatus::CutOff),
    );
    let found = resume_point(&[
        started(1, "a"),
        one,
        skipped,
        started(2, "c"),
        two,
        started(3, "c"),
    ]);
    let run = found.run().unwrap();
    assert_eq!(
        run.steps
            .iter()
            .map(|step| step.id.step)
            .collect::<Vec<_>>(),
        [3]
    );
    assert!(run.skipped.is_empty());
    assert_eq!(found.pinned.as_deref(), Some("the hash"));
    let (listed, ..) = found.steps.into_parts();
    let listed: Vec<_> = listed
        .iter()
        .map(|step| (step.name.as_str(), step.status))
        .collect();
    assert_eq!(
        listed,
        [
            ("a", StepStatus::Succeeded),
            ("b", StepStatus::Skipped),
            ("c", StepStatus::CutOff)
        ]
    );
}

#[test]
fn a_process_is_known_until_its_end_and_only_by_a_number() {
    assert_eq!(
        resume_point(&[started(1, "a"), running(1, 42)])
            .process
            .map(|process| process.pid),
        Some(42)
    );
    assert!(
        resume_point(&[started(1, "a"), running(1, 0)])
            .process
            .is_none()
    );
    let finished = Event::ToolFinished {
        step: 1,
        exit_code: Some(0),
        signal: None,
        duration_ms: 1,
        timed_out: false,
        stdout: None,
        stderr: None,
        leftovers: 0,
        git_changed: Vec::new(),
    };
    assert!(
        resume_point(&[started(1, "a"), running(1, 42), finished])
            .process
            .is_none()
    );
}

#[test]
fn a_run_without_a_journal_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let err = ResumePoint::load(folder.path(), RUN.parse().unwrap()).unwrap_err();
    assert!(matches!(err, JournalError::NoRun(_)), "{err}");
}
