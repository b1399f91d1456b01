//! Tests of journals with real files.

use crate::problem::{Code, Explain as _};
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::event::tests::{every_sample, samples};
use super::*;

const RUN: &str = "01kdz3gqc80000000000000001";

struct Ground {
    home: TempDir,
    run: RunId,
}

impl Ground {
    fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            run: RUN.parse().unwrap(),
        }
    }

    /// A scratch folder with a journal of `count` lines.
    fn with_lines(count: usize) -> Self {
        let ground = Self::new();
        let mut journal = Journal::create(
            &ground.folder(),
            ground.run,
            salt(),
            Durability::Decisions,
            &Disk::unsynced(),
        )
        .unwrap();
        for (second, event) in samples().iter().cycle().take(count).enumerate() {
            journal.append(at(second), event).unwrap();
        }
        ground
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("piton/runs")
    }

    fn path(&self) -> PathBuf {
        path_of(&self.folder(), self.run)
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.path())
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Replaces the lines of the journal and verifies the chain.
    fn judge(&self, lines: &[String]) -> Result<Digest, Break> {
        fs::write(self.path(), lines.join("\n") + "\n").unwrap();
        verify(&read(&self.path()).unwrap().records, self.run)
    }
}

/// Opens a journal for appending; also returns what it held.
fn reopen(ground: &Ground) -> Result<(Journal, Contents), JournalError> {
    let torn = read(&ground.path()).ok().and_then(|contents| contents.torn);
    let mut records = Vec::new();
    let journal = Journal::open(
        &ground.folder(),
        ground.run,
        &Disk::unsynced(),
        &Continuation {
            key: None,
            demand: TagDemand::Authenticated,
        },
        &mut |record| records.push(record.clone()),
    )?;
    Ok((journal, Contents { records, torn }))
}

fn salt() -> Salt {
    Salt::new(0x5a17)
}

fn at(second: usize) -> Timestamp {
    Timestamp::from_second(1_767_323_045 + i64::try_from(second).unwrap()).unwrap()
}

fn broken(line: usize, reason: BreakReason) -> Result<Digest, Break> {
    Err(Break { line, reason })
}

#[test]
fn what_is_appended_is_read_and_verified() {
    let ground = Ground::new();
    let mut journal = Journal::create(
        &ground.folder(),
        ground.run,
        salt(),
        Durability::Decisions,
        &Disk::unsynced(),
    )
    .unwrap();
    assert_eq!(
        read(&ground.path()).unwrap(),
        Contents {
            records: vec![],
            torn: None
        }
    );
    let mut heads = vec![journal.head()];
    for (second, event) in samples().iter().enumerate() {
        heads.push(journal.append(at(second), event).unwrap());
        assert_eq!(heads.last(), Some(&journal.head()));
    }
    let Contents { records, torn } = read(&ground.path()).unwrap();
    assert_eq!(torn, None);
    assert_eq!(
        records
            .iter()
            .map(|record| record.event.clone())
            .collect::<Vec<_>>(),
        samples()
    );
    assert_eq!(
        records.iter().map(|record| record.prev).collect::<Vec<_>>(),
        heads[..records.len()]
    );
    assert_eq!(
        records.iter().map(|record| record.seq).collect::<Vec<_>>(),
        (1..=14).collect::<Vec<_>>()
    );
    assert_eq!(
        records
            .iter()
            .map(|record| record.line.clone())
            .collect::<Vec<_>>(),
        ground.lines()
    );
    assert_eq!(verify(&records, ground.run), Ok(journal.head()));
    assert_eq!(records[1].at, at(1));
}

#[test]
fn a_line_has_the_documented_format() {
    let ground = Ground::new();
    let mut journal = Journal::create(
        &ground.folder(),
        ground.run,
        salt(),
        Durability::Decisions,
        &Disk::unsynced(),
    )
    .unwrap();
    journal
        .append(
            at(0),
            &Event::NoChanges {
                step: 1,
                not_captured: Vec::new(),
                too_large: Vec::new(),
            },
        )
        .unwrap();
    // printf %s 01kdz3gqc80000000000000001 | sha256sum
    let prev = "sha256:1d46f892ba5b3cc1f5738eb239fcd9b75f12bc1d56a02dd74f355ee10c9fbf26";
    let event = r#"{"type":"no_changes","step":1}"#;
    let line = format!(
        r#"{{"v":2,"seq":1,"at":"2026-01-02T03:04:05Z","run":"{RUN}","prev":"{prev}","event":{event}}}"#
    );
    assert_eq!(ground.lines(), [line]);
}

#[test]
fn a_second_journal_of_the_same_run_is_refused() {
    let ground = Ground::with_lines(1);
    let before = ground.bytes();
    let err = Journal::create(
        &ground.folder(),
        ground.run,
        salt(),
        Durability::Decisions,
        &Disk::unsynced(),
    )
    .unwrap_err();
    assert_eq!(
        (err.code(), err.to_string()),
        (Code::RunExists, format!("there is a run `{RUN}` already"))
    );
    assert_eq!(ground.bytes(), before);
}

#[test]
fn a_run_that_does_not_exist_is_not_made_by_opening_it() {
    let ground = Ground::new();
    let err = reopen(&ground).unwrap_err();
    assert_eq!(err.code(), Code::RunNotFound);
    assert!(!ground.folder().exists());
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_off_and_the_chain_continues() {
    let ground = Ground::with_lines(3);
    let whole = ground.bytes();
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for end in last..whole.len() {
        fs::write(ground.path(), &whole[..end]).unwrap();
        let (mut journal, contents) = reopen(&ground).unwrap();
        let torn = Torn {
            offset: last as u64,
            bytes: (end - last) as u64,
        };
        assert_eq!(contents.torn, (end > last).then_some(torn));
        assert_eq!(contents.records.len(), 2);
        assert_eq!(ground.bytes(), &whole[..last]);
        let head = journal
            .append(
                at(9),
                &Event::NoChanges {
                    step: 1,
                    not_captured: Vec::new(),
                    too_large: Vec::new(),
                },
            )
            .unwrap();
        let contents = read(&ground.path()).unwrap();
        assert_eq!(verify(&contents.records, ground.run), Ok(head));
        assert_eq!((contents.records.len(), contents.torn), (3, None));
    }
}

#[test]
fn garbage_as_the_last_line_is_torn_and_elsewhere_it_is_damage() {
    let ground = Ground::with_lines(2);
    let whole = ground.bytes();
    for garbage in [
        &b"\0\0\0\0"[..],
        b"\0\0\n",
        b"\n",
        b"{\"v\":1,\"seq\"\n",
        b"\xff\xfe\n",
    ] {
        fs::write(ground.path(), [&whole[..], garbage].concat()).unwrap();
        let contents = read(&ground.path()).unwrap();
        let torn = Torn {
            offset: whole.len() as u64,
            bytes: garbage.len() as u64,
        };
        assert_eq!((contents.records.len(), contents.torn), (2, Some(torn)));
    }
    fs::write(ground.path(), [b"garbage\n", &whole[..]].concat()).unwrap();
    for err in [
        read(&ground.path()).unwrap_err(),
        reopen(&ground).unwrap_err(),
    ] {
        assert!(
            matches!(err, JournalError::Damaged { line: 1, .. }),
            "{err}"
        );
    }
}

#[test]
fn json_that_is_no_record_is_damage_even_at_the_end() {
    let ground = Ground::with_lines(1);
    let whole = ground.bytes();
    for line in ["{}", "[]", "{\"v\":1}", "{\"v\":1,\"seq\":-1}"] {
        fs::write(ground.path(), [&whole[..], line.as_bytes(), b"\n"].concat()).unwrap();
        let err = read(&ground.path()).unwrap_err();
        assert!(
            matches!(err, JournalError::Damaged { line: 2, .. }),
            "{line}: {err}"
        );
    }
}

#[test]
fn a_newer_format_is_named() {
    let ground = Ground::with_lines(1);
    fs::write(ground.path(), "{\"v\":3,\"sequence\":\"i\"}\n").unwrap();
    let err = read(&ground.path()).unwrap_err();
    assert!(
        matches!(err, JournalError::Newer { version: 3, .. }),
        "{err}"
    );
}

#[test]
fn an_edited_line_breaks_the_chain() {
    let ground = Ground::with_lines(6);
    let lines = ground.lines();
    for line in 1..lines.len() {
        let mut edited = lines.clone();
        edited[line - 1] = edited[line - 1].replacen("\"event\":", "\"event\": ", 1);
        assert_eq!(
            ground.judge(&edited),
            broken(line, BreakReason::Edited),
            "line {line}"
        );
    }
    // Here the link to the previous line is edited.
    let mut edited = lines.clone();
    let link = serde_json::to_string(&Digest::of(public(&lines[2]).as_bytes())).unwrap();
    edited[3] = edited[3].replace(&link, &serde_json::to_string(&Digest::of(b"else")).unwrap());
    assert_eq!(ground.judge(&edited), broken(4, BreakReason::Edited));
    let mut edited = lines.clone();
    edited[5] = edited[5].replace("\"seq\":6", "\"seq\":7");
    assert_eq!(ground.judge(&edited), broken(6, BreakReason::Edited));
    assert!(ground.judge(&lines).is_ok());
}

#[test]
fn the_head_differs_when_the_end_is_edited_or_missing() {
    let ground = Ground::with_lines(3);
    let lines = ground.lines();
    let head = ground.judge(&lines).unwrap();
    let mut edited = lines.clone();
    edited[2] = edited[2].replacen("\"event\":", "\"event\": ", 1);
    assert_ne!(ground.judge(&edited).unwrap(), head);
    assert_ne!(ground.judge(&lines[..2]).unwrap(), head);
}

#[test]
fn a_dropped_line_breaks_the_chain() {
    let ground = Ground::with_lines(6);
    let lines = ground.lines();
    for line in 1..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(line - 1);
        assert_eq!(
            ground.judge(&fewer),
            broken(line, BreakReason::Dropped),
            "line {line}"
        );
    }
    let fewer = [&lines[..1], &lines[4..]].concat();
    assert_eq!(ground.judge(&fewer), broken(2, BreakReason::Dropped));
}

#[test]
fn an_inserted_line_breaks_the_chain() {
    let ground = Ground::with_lines(6);
    let lines = ground.lines();
    let records = read(&ground.path()).unwrap().records;
    for line in 1..=lines.len() {
        let original = &records[line - 1];
        let event = Event::NoChanges {
            step: 77,
            not_captured: Vec::new(),
            too_large: Vec::new(),
        };
        // The best possible forgery without changing the lines that follow.
        let place = ChainPosition {
            seq: original.seq,
            at: original.at,
            run: ground.run,
            prev: original.prev,
        };
        let forged = NewLine::new(place, &event, Some(&salt())).unwrap();
        let mut more = lines.clone();
        more.insert(line - 1, forged.text);
        assert_eq!(
            ground.judge(&more),
            broken(line, BreakReason::Inserted),
            "line {line}"
        );
        let stray = NewLine::new(
            ChainPosition {
                seq: 99,
                prev: Digest::of(b"?"),
                ..place
            },
            &event,
            Some(&salt()),
        )
        .unwrap();
        let mut more = lines.clone();
        more.insert(line - 1, stray.text);
        assert_eq!(
            ground.judge(&more),
            broken(line, BreakReason::Inserted),
            "line {line}"
        );
    }
    let mut twice = lines.clone();
    twice.insert(4, lines[1].clone());
    assert_eq!(ground.judge(&twice), broken(5, BreakReason::Inserted));
}

#[test]
fn lines_in_another_order_break_the_chain() {
    let ground = Ground::with_lines(6);
    let lines = ground.lines();
    for (one, other) in [(0, 1), (1, 2), (2, 5), (4, 5)] {
        let mut moved = lines.clone();
        moved.swap(one, other);
        assert_eq!(
            ground.judge(&moved),
            broken(one + 1, BreakReason::Reordered),
            "{one} and {other}"
        );
    }
}

#[test]
fn a_line_of_another_run_breaks_the_chain() {
    let ground = Ground::with_lines(3);
    let mut lines = ground.lines();
    lines[1] = lines[1].replace("000001\",\"prev", "000002\",\"prev");
    assert_eq!(ground.judge(&lines), broken(2, BreakReason::WrongRun));
    let records = read(&ground.path()).unwrap().records;
    assert_eq!(
        verify(&records, "01kdz3gqc80000000000000009".parse().unwrap()),
        broken(1, BreakReason::WrongRun)
    );
}

#[test]
fn a_broken_chain_is_not_continued() {
    let ground = Ground::with_lines(3);
    let mut lines = ground.lines();
    lines.remove(1);
    ground.judge(&lines).unwrap_err();
    let before = ground.bytes();
    let err = reopen(&ground).unwrap_err();
    assert_eq!(err.code(), Code::JournalBroken);
    assert!(
        err.to_string().ends_with("lines before line 2 are missing"),
        "{err}"
    );
    assert_eq!(ground.bytes(), before);
}

#[test]
fn a_line_of_a_newer_piton_still_verifies() {
    let ground = Ground::with_lines(1);
    let prev = Digest::of(public(&ground.lines()[0]).as_bytes());
    let new = format!(
        r#"{{"v":2,"seq":2,"at":"2026-01-02T03:04:06Z","run":"{RUN}","prev":"{prev}","zone":1,"event":{{"type":"danced","x":[1]}}}}"#
    );
    let lines = [&ground.lines()[..], std::slice::from_ref(&new)].concat();
    assert_eq!(ground.judge(&lines), Ok(Digest::of(new.as_bytes())));
    let (mut journal, contents) = reopen(&ground).unwrap();
    assert_eq!(contents.records[1].event, Event::Unknown);
    assert_eq!(contents.records[1].line, new);
    journal
        .append(
            at(3),
            &Event::NoChanges {
                step: 1,
                not_captured: Vec::new(),
                too_large: Vec::new(),
            },
        )
        .unwrap();
    assert!(verify(&read(&ground.path()).unwrap().records, ground.run).is_ok());
}

fn public(line: &str) -> &str {
    line.split_once('\t').map_or(line, |(public, _)| public)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/journal")
        .join(name)
}

#[test]
fn the_first_format_is_still_read_and_continued() {
    let path = fixture("v1.jsonl");
    let Contents { records, torn } = read(&path).unwrap();
    assert_eq!(torn, None);
    let head = verify(&records, RUN.parse().unwrap()).unwrap();
    assert_eq!(
        records
            .iter()
            .map(|record| record.event.clone())
            .collect::<Vec<_>>(),
        samples()
    );
    assert_eq!(
        head.to_string(),
        "sha256:616b02097e70b8ac96b0f3be2c3c13e82aac368c56915c86638d6de8bcbe99e3"
    );
    let ground = Ground::with_lines(1);
    fs::copy(&path, ground.path()).unwrap();
    let (mut journal, _) = reopen(&ground).unwrap();
    let head = journal.append(at(20), &samples()[2]).unwrap();
    let records = read(&ground.path()).unwrap().records;
    assert_eq!(
        records.last().map(|record| &record.privacy),
        Some(&Privacy::Unknown)
    );
    assert_eq!(verify(&records, ground.run), Ok(head));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "only a person who changes the format sets the variable"
)]
fn the_second_format_is_what_is_written() {
    let ground = Ground::new();
    let mut journal = Journal::create(
        &ground.folder(),
        ground.run,
        salt(),
        Durability::Decisions,
        &Disk::unsynced(),
    )
    .unwrap();
    for (second, event) in every_sample().iter().enumerate() {
        journal.append(at(second), event).unwrap();
    }
    let path = fixture("v2.jsonl");
    // To change the format on purpose, rewrite the fixture with `PITON_WRITE_FIXTURE=1 cargo test
    // the_second_format`.
    if std::env::var_os("PITON_WRITE_FIXTURE").is_some() {
        fs::write(&path, ground.bytes()).unwrap();
    }
    assert_eq!(
        String::from_utf8(ground.bytes()).unwrap(),
        fs::read_to_string(&path).unwrap()
    );
    let records = read(&path).unwrap().records;
    assert_eq!(
        records
            .iter()
            .map(|record| record.event.clone())
            .collect::<Vec<_>>(),
        every_sample()
    );
    assert_eq!(verify(&records, ground.run), Ok(journal.head()));
}

#[test]
fn an_edited_or_dropped_private_part_is_reported() {
    let ground = Ground::with_lines(6);
    let lines = ground.lines();
    let mut edited = lines.clone();
    edited[0] = edited[0].replace(r#""/root":"/work""#, r#""/root":"/home""#);
    assert_ne!(edited, lines);
    assert_eq!(ground.judge(&edited), broken(1, BreakReason::PrivateEdited));
    let mut dropped = lines.clone();
    dropped[2] = public(&lines[2]).to_owned();
    assert_eq!(
        ground.judge(&dropped),
        broken(3, BreakReason::PrivateDropped)
    );
    let records = read(&ground.path()).unwrap().records;
    assert!(verify_public(&records, ground.run).is_ok());
    assert_eq!(reopen(&ground).unwrap_err().code(), Code::JournalBroken);
    // A private part that nothing speaks of.
    let mut added = lines.clone();
    let (_, private) = lines[2].split_once('\t').unwrap();
    added[3] = format!("{}\t{private}", lines[3]);
    assert_eq!(ground.judge(&added), broken(4, BreakReason::PrivateEdited));
    assert!(ground.judge(&lines).is_ok());
}

#[test]
fn the_public_lines_verify_without_the_private_parts() {
    let ground = Ground::with_lines(14);
    let lines = ground.lines();
    let lines = lines
        .iter()
        .map(|line| public(line))
        .collect::<Vec<_>>()
        .join("\n")
        + "\n";
    for private in ["/work", "\"all\"", "\"pid\"", "big", "empty"] {
        assert!(!lines.contains(private), "{private}");
    }
    let whole = read(&ground.path()).unwrap().records;
    let mut public = PublicLines::default();
    let records: Vec<Record> = lines
        .split_inclusive('\n')
        .map(|line| public.take(line.as_bytes()).unwrap().unwrap())
        .collect();
    public.finish().unwrap();
    assert_eq!(
        verify_public(&records, ground.run),
        verify(&whole, ground.run)
    );
    assert_eq!(
        verify(&records, ground.run),
        broken(1, BreakReason::PrivateDropped)
    );
}

#[test]
fn runs_are_listed_newest_first() {
    let ground = Ground::new();
    assert_eq!(list(&ground.folder()).unwrap(), []);
    let runs: Vec<RunId> = [3, 1, 2]
        .iter()
        .map(|second| RunId::new(at(*second), 7))
        .collect();
    for run in &runs {
        Journal::create(
            &ground.folder(),
            *run,
            salt(),
            Durability::Decisions,
            &Disk::unsynced(),
        )
        .unwrap();
    }
    fs::create_dir(ground.folder().join("not a run")).unwrap();
    assert_eq!(list(&ground.folder()).unwrap(), [runs[0], runs[2], runs[1]]);
}

#[test]
fn a_journal_that_is_not_a_regular_file_is_an_error() {
    let ground = Ground::with_lines(1);
    fs::rename(ground.path(), ground.home.path().join("moved")).unwrap();
    symlink(ground.home.path().join("moved"), ground.path()).unwrap();
    assert_eq!(
        read(&ground.path()).unwrap_err().code(),
        Code::JournalFailed
    );
    fs::remove_file(ground.path()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, ground.path(), rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(
        read(&ground.path()).unwrap_err().code(),
        Code::JournalFailed
    );
}

#[test]
fn a_full_disk_leaves_a_journal_that_can_be_continued() {
    // Every write to this device fails as on a full disk, and the device cannot be truncated.
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let ground = Ground::with_lines(2);
    let (mut journal, _) = reopen(&ground).unwrap();
    let good = std::mem::replace(&mut journal.file, full);
    let (path, length) = (
        std::mem::replace(&mut journal.path, "/dev/full".into()),
        std::mem::take(&mut journal.length),
    );
    let head = journal.head();
    let err = journal
        .append(
            at(2),
            &Event::NoChanges {
                step: 1,
                not_captured: Vec::new(),
                too_large: Vec::new(),
            },
        )
        .unwrap_err();
    assert_eq!(
        (err.code(), err.hint().map(String::from).as_deref()),
        (Code::JournalFailed, Some("free some disk space"))
    );
    assert_eq!(journal.head(), head);
    // How much was written is unknown, so only a reopened journal may continue.
    (journal.file, journal.path, journal.length) = (good, path, length);
    let err = journal
        .append(
            at(2),
            &Event::NoChanges {
                step: 1,
                not_captured: Vec::new(),
                too_large: Vec::new(),
            },
        )
        .unwrap_err();
    assert!(matches!(err, JournalError::Unsure(_)), "{err}");
    let (mut journal, contents) = reopen(&ground).unwrap();
    assert_eq!(contents.torn, None);
    journal
        .append(
            at(2),
            &Event::NoChanges {
                step: 1,
                not_captured: Vec::new(),
                too_large: Vec::new(),
            },
        )
        .unwrap();
}
