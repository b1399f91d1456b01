use std::cell::RefCell;
use std::collections::BTreeMap;

use git2::{ObjectType, Oid};
use proptest::prelude::*;

use super::*;

/// Contents by their object id.
#[derive(Default)]
struct Contents(RefCell<BTreeMap<ObjectId, Vec<u8>>>);

impl Contents {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "a file stands beside no file in every test"
    )]
    fn file(&self, text: &str) -> Option<Entry> {
        Some(self.entry(FileMode::Regular, text.as_bytes()))
    }

    fn entry(&self, mode: FileMode, bytes: &[u8]) -> Entry {
        let id = Oid::hash_object(ObjectType::Blob, bytes).unwrap().into();
        self.0.borrow_mut().insert(id, bytes.to_vec());
        Entry { mode, id }
    }

    fn judge(
        &self,
        steps: &[(Option<Entry>, Option<Entry>)],
        head_then: Option<Entry>,
        head: Option<Entry>,
        disk: Option<Entry>,
    ) -> (FileRemainder, Range<usize>) {
        let read = |entry: Entry| Ok(self.0.borrow().get(&entry.id).cloned().unwrap());
        judge(
            &Story {
                head_then,
                steps,
                head,
                disk,
            },
            &read,
        )
        .unwrap()
    }

    /// A single step on a file of HEAD; `None` means no file.
    fn one(
        &self,
        before: Option<&str>,
        after: Option<&str>,
        head: Option<&str>,
        disk: Option<&str>,
    ) -> FileRemainder {
        let file = |text: Option<&str>| text.and_then(|text| self.file(text));
        self.judge(
            &[(file(before), file(after))],
            file(before),
            file(head),
            file(disk),
        )
        .0
    }
}

fn merged(text: &str) -> FileRemainder {
    FileRemainder::Left(CommitContent::Merged {
        mode: FileMode::Regular,
        bytes: text.as_bytes().to_vec(),
    })
}

const DISK: FileRemainder = FileRemainder::Left(CommitContent::Disk);

#[test]
fn what_is_as_the_step_left_it_is_left() {
    let files = Contents::default();
    assert_eq!(
        files.one(Some("1\n"), Some("2\n"), Some("1\n"), Some("2\n")),
        DISK
    );
    assert_eq!(files.one(None, Some("2\n"), None, Some("2\n")), DISK);
    assert_eq!(files.one(None, Some(""), None, Some("")), DISK);
    assert_eq!(
        files.one(Some("1\n"), None, Some("1\n"), None),
        FileRemainder::Left(CommitContent::Gone)
    );
}

#[test]
fn what_head_has_or_was_rolled_back_is_dropped() {
    let files = Contents::default();
    for (before, after, head, disk) in [
        // Committed, reverted, removed.
        (Some("1\n"), Some("2\n"), Some("2\n"), Some("2\n")),
        (Some("1\n"), Some("2\n"), Some("1\n"), Some("1\n")),
        (Some("1\n"), Some("2\n"), Some("0\n"), Some("1\n")),
        (None, Some("2\n"), None, None),
        (Some("1\n"), Some("2\n"), Some("1\n"), None),
        // Committed and edited since, in the same lines or in others.
        (None, Some("2\n"), Some("2\n"), Some("2\n3\n")),
        (None, Some("2\n"), Some("two\n"), Some("zwei\n")),
        (
            Some("1\n2\n3\n"),
            Some("1\ntwo\n3\n"),
            Some("1\nzwei\n3\n"),
            Some("1\ndos\n3\n"),
        ),
        (
            Some("1\n2\n3\n"),
            Some("1\ntwo\n3\n"),
            Some("1\ntwo\n3\n"),
            Some("1\ntwo\n3\nfour\n"),
        ),
        // The step removed the file, and another one was created there.
        (Some("1\n"), None, Some("1\n"), Some("new\n")),
    ] {
        assert_eq!(
            files.one(before, after, head, disk),
            FileRemainder::Dropped,
            "{before:?} {after:?} {head:?} {disk:?}"
        );
    }
}

#[test]
fn edits_in_other_lines_stay_out() {
    let files = Contents::default();
    let (before, after) = ("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n");
    assert_eq!(
        files.one(
            Some(before),
            Some(after),
            Some(before),
            Some("one\n2\n3\n4\nfive\n")
        ),
        merged(after)
    );
}

#[test]
fn a_part_that_was_rolled_back_stays_out() {
    let files = Contents::default();
    let (before, after) = ("1\n2\n3\n4\n5\n", "one\n2\n3\n4\nfive\n");
    assert_eq!(
        files.one(
            Some(before),
            Some(after),
            Some(before),
            Some("1\n2\n3\n4\nfive\n")
        ),
        DISK
    );
}

#[test]
fn a_part_that_was_committed_is_not_committed_again() {
    let files = Contents::default();
    let (before, after) = ("1\n2\n3\n4\n5\n", "one\n2\n3\n4\nfive\n");
    assert_eq!(
        files.one(
            Some(before),
            Some(after),
            Some("one\n2\n3\n4\n5\n"),
            Some(after)
        ),
        DISK
    );
}

#[test]
fn edits_in_the_lines_of_the_step_are_named() {
    let files = Contents::default();
    assert_eq!(
        files.one(Some("1\n"), Some("2\n"), Some("1\n"), Some("3\n")),
        FileRemainder::Edited
    );
    assert_eq!(
        files.one(None, Some("1\n2\n"), None, Some("1\ntwo\n")),
        FileRemainder::Edited
    );
}

#[test]
fn the_users_own_lines_from_before_stay_out_or_overlap() {
    let files = Contents::default();
    let judged = |before: &str, after: &str, head: &str| {
        let (head, before, after) = (files.file(head), files.file(before), files.file(after));
        files.judge(&[(before, after)], head, head, after).0
    };
    assert_eq!(
        judged("mine\n2\n3\n4\n", "mine\n2\n3\nfour\n", "1\n2\n3\n4\n"),
        merged("1\n2\n3\nfour\n")
    );
    assert_eq!(judged("mine\n", "step\n", "1\n"), FileRemainder::Overlap);
}

#[test]
fn a_file_of_the_users_that_no_commit_has_overlaps_until_it_is_committed() {
    let files = Contents::default();
    let (before, after) = (files.file("mine\n"), files.file("step\n"));
    assert_eq!(
        files.judge(&[(before, after)], None, None, after).0,
        FileRemainder::Overlap
    );
    assert_eq!(
        files.judge(&[(before, after)], None, after, after).0,
        FileRemainder::Dropped
    );
}

#[test]
fn of_two_steps_the_one_that_was_discarded_is_dropped() {
    let files = Contents::default();
    let [zero, one, two] = ["0\n", "1\n", "2\n"].map(|text| files.file(text));
    // The first was reverted before the second ran.
    assert_eq!(
        files.judge(&[(zero, one), (zero, two)], zero, zero, two),
        (DISK, 1..2)
    );
    // The second was reverted.
    assert_eq!(
        files.judge(&[(zero, one), (one, two)], zero, zero, one),
        (DISK, 0..1)
    );
    assert_eq!(
        files.judge(&[(zero, one), (zero, two)], zero, zero, zero),
        (FileRemainder::Dropped, 0..0)
    );
    // A step that restores what the user had committed in between.
    assert_eq!(
        files.judge(&[(zero, one), (one, zero)], zero, one, zero),
        (DISK, 1..2)
    );
}

#[test]
fn modes_belong_to_the_author_who_set_them() {
    let files = Contents::default();
    let plain = Some(files.entry(FileMode::Regular, b"1\n"));
    let script = Some(files.entry(FileMode::Executable, b"1\n"));
    assert_eq!(
        files.judge(&[(plain, script)], plain, plain, script).0,
        DISK
    );
    assert_eq!(
        files.judge(&[(plain, script)], plain, plain, plain).0,
        FileRemainder::Dropped
    );
    // The user made it executable after the step had changed a line.
    let (changed, both) = (
        files.file("2\n"),
        Some(files.entry(FileMode::Executable, b"2\n")),
    );
    assert_eq!(
        files.judge(&[(plain, changed)], plain, plain, both).0,
        merged("2\n")
    );
}

#[test]
fn what_is_no_text_is_taken_as_a_whole_or_not_at_all() {
    let files = Contents::default();
    let [one, two, three] =
        [b"\0one", b"\0two", b"\0thr"].map(|bytes| Some(files.entry(FileMode::Regular, bytes)));
    assert_eq!(files.judge(&[(one, two)], one, one, two).0, DISK);
    assert_eq!(
        files.judge(&[(one, two)], one, one, three).0,
        FileRemainder::Edited
    );
    assert_eq!(
        files.judge(&[(one, two)], one, two, three).0,
        FileRemainder::Dropped
    );
    let (link, other) = (
        Some(files.entry(FileMode::Symlink, b"a")),
        Some(files.entry(FileMode::Symlink, b"b")),
    );
    assert_eq!(files.judge(&[(None, link)], None, None, link).0, DISK);
    assert_eq!(
        files.judge(&[(None, link)], None, None, other).0,
        FileRemainder::Edited
    );
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof!["a", "b", "c", "d", "e"], 0..7).prop_map(|lines| {
        lines
            .iter()
            .flat_map(|line| [line.as_str(), "\n"])
            .collect()
    })
}

fn version() -> impl Strategy<Value = Option<String>> {
    proptest::option::weighted(0.85, text())
}

proptest! {
    #[test]
    fn steps_alone_are_taken_whole(versions in proptest::collection::vec(version(), 2..5)) {
        let files = Contents::default();
        let entries: Vec<Option<Entry>> =
            versions.iter().map(|text| text.as_deref().and_then(|text| files.file(text))).collect();
        let steps: Vec<_> = entries.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let (head, disk) = (entries[0], *entries.last().unwrap());
        let expected = match (head == disk, disk) {
            (true, _) => FileRemainder::Dropped,
            (false, Some(_)) => DISK,
            (false, None) => FileRemainder::Left(CommitContent::Gone),
        };
        prop_assert_eq!(files.judge(&steps, head, head, disk).0, expected);
    }

    #[test]
    fn nothing_is_left_of_what_is_in_head_or_was_rolled_back(
        before in version(), after in version(), head in version()
    ) {
        let files = Contents::default();
        let file = |text: &Option<String>| text.as_deref().and_then(|text| files.file(text));
        let step = [(file(&before), file(&after))];
        prop_assert_eq!(files.judge(&step, file(&before), file(&head), file(&head)).0, FileRemainder::Dropped);
        if before != after {
            prop_assert_eq!(files.judge(&step, file(&before), file(&head), file(&before)).0, FileRemainder::Dropped);
        }
    }

    #[test]
    fn no_line_is_committed_that_is_neither_on_disk_nor_in_head(
        before in text(), after in text(), head in text(), disk in text()
    ) {
        let files = Contents::default();
        let file = |text: &String| files.file(text);
        let found = files.judge(&[(file(&before), file(&after))], file(&head), file(&head), file(&disk)).0;
        if let FileRemainder::Left(CommitContent::Merged { bytes, .. }) = found {
            let committed = String::from_utf8(bytes).unwrap();
            for line in committed.lines() {
                prop_assert!(disk.lines().chain(head.lines()).any(|known| known == line), "{}", committed);
            }
        }
    }
}
