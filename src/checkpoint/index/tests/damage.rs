//! Invalid index files are refused with a reason, without a panic or a hang.

use std::fs;

use super::super::super::error::CheckpointError;
use super::super::tree_cache::TreeCache;
use super::repository::Repository;
use super::*;

/// An index with all features, in both layouts.
fn samples() -> [Vec<u8>; 2] {
    let repository = Repository::in_conflict();
    repository.write(b"later", b"later");
    repository.git(&["add", "-N", "later"]);
    repository.git(&["rm", "-q", "b/four"]);
    let padded = repository.bytes();
    repository.git(&["update-index", "--index-version", "4"]);
    [padded, repository.bytes()]
}

#[test]
fn a_torn_file_is_refused_at_every_length() {
    for bytes in samples() {
        for length in 0..bytes.len() {
            refusal(&bytes[..length]);
        }
    }
}

#[test]
fn a_file_that_ends_early_with_the_right_checksum_is_refused_or_sound() {
    for bytes in samples() {
        let whole = Index::parse(&bytes, ObjectFormat::Sha1).unwrap();
        for length in 0..unsealed(&bytes).len() {
            // Only a cut between two extensions leaves a valid file.
            if let Ok(index) = Index::parse(&sealed(&bytes[..length]), ObjectFormat::Sha1) {
                assert_eq!(paths(&index), paths(&whole), "at {length}");
            }
        }
    }
}

#[test]
fn a_flipped_byte_breaks_the_checksum() {
    for mut bytes in samples() {
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                bytes[at] ^= bit;
                assert_eq!(refusal(&bytes), "its checksum does not match");
                bytes[at] ^= bit;
            }
        }
    }
}

#[test]
fn a_flipped_byte_under_the_right_checksum_is_refused_or_round_trips() {
    for bytes in samples() {
        let mut inside = unsealed(&bytes).to_vec();
        for at in 0..inside.len() {
            for flip in [1, 0x40, 0x80, 0xff] {
                inside[at] ^= flip;
                if let Ok(index) = Index::parse(&sealed(&inside), ObjectFormat::Sha1) {
                    let again = Index::parse(&index.to_bytes(), ObjectFormat::Sha1).unwrap();
                    assert_eq!(content(&again), content(&index), "at {at}");
                    assert!(index.edited(&Edits::new()).len() == index.len());
                }
                inside[at] ^= flip;
            }
        }
    }
}

#[test]
fn disorder_and_duplicates_are_refused() {
    let staged = |stage| IndexEntry { stage, ..entry(1) };
    let cases: [(&[(&str, IndexEntry)], &str); 7] = [
        (
            &[("b", entry(1)), ("a", entry(1))],
            "its entries are out of order",
        ),
        (
            &[("a/b", entry(1)), ("a", entry(1))],
            "its entries are out of order",
        ),
        (
            &[("a", entry(1)), ("a", entry(2))],
            "an entry is there twice",
        ),
        (
            &[("a", staged(2)), ("a", staged(1))],
            "an entry is there twice",
        ),
        (
            &[("a", staged(2)), ("a", staged(2))],
            "an entry is there twice",
        ),
        (
            &[("a", entry(1)), ("a", staged(1))],
            "an entry is there twice",
        ),
        (&[("", entry(1))], "an entry has no path"),
    ];
    for (entries, reason) in cases {
        for layout in [
            super::super::EntryLayout::Padded,
            super::super::EntryLayout::Compressed,
        ] {
            let index = Index {
                layout,
                ..index_of(entries)
            };
            assert_eq!(refusal(&index.to_bytes()), reason, "{entries:?}");
        }
    }
    let sides = index_of(&[
        ("a", staged(1)),
        ("a", staged(2)),
        ("a", staged(3)),
        ("b", entry(1)),
    ]);
    assert_eq!(
        content(&Index::parse(&sides.to_bytes(), ObjectFormat::Sha1).unwrap()),
        content(&sides)
    );
}

#[test]
fn a_wrong_header_is_refused() {
    let bytes = index_of(&[("abc", entry(1))]).to_bytes();
    let changed = |at: usize, to: &[u8]| {
        let mut inside = unsealed(&bytes).to_vec();
        inside[at..at + to.len()].copy_from_slice(to);
        refusal(&sealed(&inside))
    };
    assert_eq!(changed(0, b"CRID"), "it does not begin with `DIRC`");
    assert_eq!(changed(7, &[1]), "it has the unknown version 1");
    assert_eq!(changed(7, &[5]), "it has the unknown version 5");
    assert_eq!(changed(8, &[0xff; 4]), "it cannot hold 4294967295 entries");
    assert_eq!(changed(11, &[2]), "it cannot hold 2 entries");
    // The mode of a folder, which only a sparse index has.
    assert_eq!(
        changed(12 + 24, &0o040_000_u32.to_be_bytes()),
        "an entry has the mode 40000"
    );
    // A wrong length, and a path that continues in the padding.
    assert_eq!(changed(12 + 61, &[2]), "a path has a wrong length");
    assert_eq!(changed(12 + 61, &[4]), "a path has a wrong length");
    assert_eq!(changed(12 + 66, b"x"), "a path has a wrong length");
    assert_eq!(refusal(b""), "it is only 0 bytes long");

    let bytes = index_of(&[(
        "a",
        IndexEntry {
            skip_worktree: true,
            ..entry(1)
        },
    )])
    .to_bytes();
    let mut inside = unsealed(&bytes).to_vec();
    inside[7] = 2;
    assert_eq!(
        refusal(&sealed(&inside)),
        "an entry has flags that version 2 does not know"
    );
    inside[7] = 3;
    inside[12 + 62] |= 0x80;
    assert_eq!(refusal(&sealed(&inside)), "an entry has unknown flags");
}

#[test]
fn extensions_that_must_be_understood_are_refused_and_others_dropped() {
    let bytes = index_of(&[("a", entry(1))]).to_bytes();
    let with = |name: &[u8; 4]| sealed(&[unsealed(&bytes), name, &[0, 0, 0, 2], b"xx"].concat());
    assert_eq!(refusal(&with(b"link")), "it ends in the middle");
    assert_eq!(
        refusal(&with(b"news")),
        "an unknown extension of the index (news)"
    );
    assert_eq!(
        refusal(&with(b"\0EWS")),
        "an unknown extension of the index (\\x00EWS)"
    );
    for name in [b"NEWS", b"FSMN", b"TREE", b"sdir"] {
        assert_eq!(
            Index::parse(&with(name), ObjectFormat::Sha1)
                .unwrap()
                .to_bytes(),
            bytes
        );
    }
}

#[test]
fn hostile_trees_are_dropped_without_harm() {
    let bad: [&[u8]; 9] = [
        b"",
        b"\0",
        b"\0-1 1\n",
        b"\0-1 99999999999\n",
        b"\0-1 18446744073709551615\n",
        b"name\0-1 0\n",
        b"\0-1 2\na\0-1 0\na\0-1 0\n",
        b"\0-1 1\na/b\0-1 0\n",
        b"\0-1 0\nrest",
    ];
    for data in bad {
        assert_eq!(
            TreeCache::parse(data, ObjectFormat::Sha1),
            None,
            "{}",
            data.escape_ascii()
        );
    }
    // Each level claims as many subfolders as possible.
    let greedy = [b"\0-1 1000\n".to_vec(), b"a\0-1 1000\n".repeat(5000)].concat();
    assert_eq!(TreeCache::parse(&greedy, ObjectFormat::Sha1), None);
    // Deeper than any stack allows.
    let deep = [
        b"\0-1 1\n".to_vec(),
        b"a\0-1 1\n".repeat(200_000),
        b"a\0-1 0\n".to_vec(),
    ]
    .concat();
    let mut written = Vec::new();
    TreeCache::parse(&deep, ObjectFormat::Sha1)
        .unwrap()
        .write(&mut written);
    assert!(written == deep);
}

#[test]
fn trees_in_another_order_are_found_and_written_in_that_of_git() {
    let mut trees = TreeCache::parse(
        b"\0-1 3\nb\0-1 1\nx\0-1 0\naa\0-1 0\na\0-1 1\ny\0-1 0\n",
        ObjectFormat::Sha1,
    )
    .unwrap();
    let mut written = Vec::new();
    trees.write(&mut written);
    assert_eq!(
        written,
        b"\0-1 3\na\0-1 1\ny\0-1 0\nb\0-1 1\nx\0-1 0\naa\0-1 0\n"
    );
    trees.invalidate(b"a");
    written.clear();
    trees.write(&mut written);
    assert_eq!(written, b"\0-1 2\nb\0-1 1\nx\0-1 0\naa\0-1 0\n");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "only a program can make a pipe with a name"
)]
fn what_is_no_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("index");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for path in [pipe.as_path(), folder.path()] {
        let refused = Index::load(path, ObjectFormat::Sha1, &no_files).unwrap_err();
        assert!(
            matches!(&refused, CheckpointError::InvalidIndex { reason, .. } if reason == "it is not a file")
        );
    }
    fs::write(folder.path().join("short"), b"DIRC").unwrap();
    let refused =
        Index::load(&folder.path().join("short"), ObjectFormat::Sha1, &no_files).unwrap_err();
    assert!(matches!(refused, CheckpointError::InvalidIndex { .. }));
    let refused = Index::load(
        &folder.path().join("short/index"),
        ObjectFormat::Sha1,
        &no_files,
    )
    .unwrap_err();
    assert!(matches!(refused, CheckpointError::Io { .. }));
}
