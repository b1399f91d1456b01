//! Piton reads what git writes, and writes it back as git would.

use std::fmt::Write;
use std::fs;

use proptest::prelude::*;

use super::super::super::error::CheckpointError;
use super::super::{EntryLayout, Stamp};
use super::repository::Repository;
use super::*;

fn version(bytes: &[u8]) -> u8 {
    bytes[7]
}

fn holds(bytes: &[u8], name: [u8; 4]) -> bool {
    bytes.windows(4).any(|window| *window == name)
}

#[test]
fn version_2_is_written_byte_for_byte_as_git_does() {
    let repository = Repository::with_files();
    let bytes = repository.bytes();
    assert_eq!(version(&bytes), 2);
    assert!(holds(&bytes, *b"TREE"));
    assert_eq!(repository.load().to_bytes(), bytes);
    repository.assert_survives();
}

#[test]
fn version_3_keeps_its_flags() {
    let repository = Repository::with_files();
    repository.write(b"later", b"later");
    repository.git(&["add", "-N", "later"]);
    repository.git(&["update-index", "--skip-worktree", "a/one"]);
    repository.git(&["update-index", "--assume-unchanged", "a/two"]);
    let bytes = repository.bytes();
    assert_eq!(version(&bytes), 3);
    let index = repository.load();
    let flagged = |path: &[u8]| {
        let entry = index.get(index.find(path).unwrap()).unwrap();
        (
            entry.intent_to_add,
            entry.skip_worktree,
            entry.assume_unchanged,
        )
    };
    assert_eq!(flagged(b"later"), (true, false, false));
    assert_eq!(flagged(b"a/one"), (false, true, false));
    assert_eq!(flagged(b"a/two"), (false, false, true));
    assert_eq!(flagged(b"five"), (false, false, false));
    assert_eq!(index.to_bytes(), bytes);
    repository.assert_survives();
}

#[test]
fn version_3_becomes_2_when_nothing_needs_it_and_2_becomes_3_when_something_does() {
    let repository = Repository::with_files();
    let path = RepoPath::from("a/one");
    let old = repository.load();
    let mut entry = *old.get(old.find(b"a/one").unwrap()).unwrap();
    entry.skip_worktree = true;
    let flagged = old.edited(&Edits::from([(path.clone(), Some(entry))]));
    assert_eq!(version(&flagged.to_bytes()), 3);
    repository.replace(&flagged);
    assert!(repository.git(&["ls-files", "-t"]).contains("S a/one"));

    entry.skip_worktree = false;
    let plain = repository
        .load()
        .edited(&Edits::from([(path, Some(entry))]));
    assert_eq!(version(&plain.to_bytes()), 2);
}

#[test]
fn version_4_stays_version_4() {
    let repository = Repository::with_files();
    repository.git(&["update-index", "--index-version", "4"]);
    let bytes = repository.bytes();
    assert_eq!(version(&bytes), 4);
    let index = repository.load();
    assert_eq!(index.layout, EntryLayout::Compressed);
    assert_eq!(
        paths(&index),
        ["a-b", "a/one", "a/two", "b/c/three", "b/four", "five"]
    );
    assert_eq!(index.to_bytes(), bytes);
    repository.assert_survives();
}

#[test]
fn the_sides_of_a_conflict_are_kept() {
    let repository = Repository::in_conflict();
    let index = repository.load();
    assert_eq!(
        index.unmerged(),
        [RepoPath::from("a/one"), RepoPath::from("b/four")]
    );
    let stages: Vec<(String, u8)> = index
        .entries(0..index.len())
        .filter(|(_, entry)| entry.stage > 0)
        .map(|(path, entry)| (String::from_utf8_lossy(path).into_owned(), entry.stage))
        .collect();
    let expected = [
        ("a/one", 1),
        ("a/one", 2),
        ("a/one", 3),
        ("b/four", 1),
        ("b/four", 3),
    ];
    assert_eq!(
        stages,
        expected.map(|(path, stage)| (path.to_owned(), stage))
    );
    assert_eq!(index.find(b"a/one"), None);
    assert!(index.find(b"a/two").is_some());
    assert_eq!(index.to_bytes(), repository.bytes());
    repository.assert_survives();
}

#[test]
fn a_resolved_conflict_can_still_be_brought_back() {
    let repository = Repository::in_conflict();
    let conflict = repository.git(&["ls-files", "--unmerged", "a/one"]);
    repository.write(b"a/one", b"resolved\n");
    repository.git(&["add", "a/one"]);
    let bytes = repository.bytes();
    assert!(holds(&bytes, *b"REUC"));
    assert_eq!(repository.load().to_bytes(), bytes);
    repository.assert_survives();
    repository.git(&["checkout", "-m", "--", "a/one"]);
    assert_eq!(
        repository.git(&["ls-files", "--unmerged", "a/one"]),
        conflict
    );
}

#[test]
fn paths_beyond_the_length_in_the_flags_are_kept() {
    for version in ["2", "4"] {
        let repository = Repository::with_files();
        let blob = repository.blob(b"deep");
        let mut lines = String::new();
        for length in [4093, 4094, 4095, 4096, 4097, 9000, 70000] {
            let mut path = "d/".repeat(length / 2 - 1);
            path.push_str(&"f".repeat(length - path.len()));
            writeln!(lines, "100644 {blob}\t{path}").unwrap();
        }
        repository.git_with(&["update-index", "--index-info"], lines.as_bytes());
        repository.git(&["update-index", "--index-version", version]);
        let index = repository.load();
        let longest = index
            .entries(0..index.len())
            .map(|(path, _)| path.len())
            .max();
        assert_eq!(longest, Some(70000));
        assert_eq!(index.to_bytes(), repository.bytes(), "version {version}");
        let before = repository.listing();
        repository.replace(&index);
        assert_eq!(repository.listing(), before);
    }
}

#[test]
fn names_are_bytes() {
    for version in ["2", "4"] {
        let repository = Repository::with_files();
        for name in [
            &b"bad\xff\xfe"[..],
            b"two\nlines",
            b"\"quoted\\\"",
            b" ",
            b"-rf",
            b"\x01",
            "größe".as_bytes(),
        ] {
            repository.write(name, b"odd");
        }
        repository.git(&["add", "."]);
        repository.git(&["update-index", "--index-version", version]);
        let index = repository.load();
        assert!(index.find(b"bad\xff\xfe").is_some());
        assert!(index.find(b"two\nlines").is_some());
        assert_eq!(index.to_bytes(), repository.bytes());
        repository.assert_survives();
    }
}

#[test]
fn every_kind_of_file_is_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let repository = Repository::with_files();
    symlink("nowhere", repository.folder().join("link")).unwrap();
    fs::set_permissions(
        repository.folder().join("five"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    repository.git(&["add", "."]);
    let head = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{head},module"),
    ]);
    let index = repository.load();
    let mode = |path: &[u8]| index.get(index.find(path).unwrap()).unwrap().mode;
    assert_eq!(mode(b"link"), FileMode::Symlink);
    assert_eq!(mode(b"five"), FileMode::Executable);
    assert_eq!(mode(b"module"), FileMode::Gitlink);
    assert_eq!(mode(b"a/one"), FileMode::Regular);
    assert_eq!(index.to_bytes(), repository.bytes());
    repository.assert_survives();
}

#[test]
fn an_index_without_files_is_read() {
    let repository = Repository::with_files();
    repository.git(&["read-tree", "--empty"]);
    // Git names the empty tree before it was written, and then reports it as missing.
    repository.git(&["hash-object", "-t", "tree", "-w", "--stdin"]);
    let index = repository.load();
    assert_eq!(index.len(), 0);
    assert_eq!(index.to_bytes(), repository.bytes());
    repository.assert_survives();
}

#[test]
fn a_missing_index_is_one_without_files() {
    let repository = Repository::new();
    let index = repository.load();
    assert_eq!(index.len(), 0);
    assert_eq!(index.modified(), None);
    assert_eq!(index.path(0), b"");
    assert_eq!(index.find(b"a"), None);
    repository.replace(&index);
    assert_eq!(repository.git(&["ls-files"]), "");
    assert_eq!(version(&repository.bytes()), 2);
}

#[test]
fn an_index_without_checksum_is_read() {
    let repository = Repository::with_files();
    repository.git(&[
        "-c",
        "index.skipHash=true",
        "update-index",
        "--force-write-index",
    ]);
    assert!(repository.bytes().ends_with(&[0; 20]));
    repository.assert_survives();
    assert!(!repository.bytes().ends_with(&[0; 20]));
}

#[test]
fn what_describes_the_old_file_is_dropped() {
    let repository = Repository::with_files();
    repository.write(b"untracked", b"");
    repository.git(&["config", "core.untrackedCache", "true"]);
    repository.git(&["update-index", "--force-untracked-cache"]);
    let settings = [
        "index.threads=4",
        "index.recordEndOfIndexEntries=true",
        "index.recordOffsetTable=true",
    ];
    let settings = settings.map(|setting| ["-c", setting]).concat();
    repository.git(&[&settings[..], &["update-index", "--force-write-index"]].concat());
    let extensions = [*b"UNTR", *b"EOIE"];
    assert!(
        extensions
            .iter()
            .all(|name| holds(&repository.bytes(), *name))
    );
    repository.assert_survives();
    assert!(
        !extensions
            .iter()
            .any(|name| holds(&repository.bytes(), *name))
    );
    assert!(holds(&repository.bytes(), *b"TREE"));
}

#[test]
fn a_large_index_is_read_and_verified() {
    let repository = Repository::new();
    let blob = repository.blob(b"same");
    let mut lines = String::new();
    for number in 0..5000 {
        writeln!(
            lines,
            "100644 {blob}\tfolder {}/a file with quite a long name {number:05}",
            number % 70
        )
        .unwrap();
    }
    for version in ["2", "4"] {
        repository.git_with(&["update-index", "--index-info"], lines.as_bytes());
        repository.git(&["update-index", "--index-version", version]);
        repository.git(&["read-tree", &repository.git(&["write-tree"])]);
        let bytes = repository.bytes();
        let index = repository.load();
        assert_eq!(index.len(), 5000);
        assert_eq!(index.to_bytes(), bytes);
        let mut torn = bytes.clone();
        torn[200_000] ^= 1;
        assert_eq!(refusal(&torn), "its checksum does not match");

        let settings = [
            "-c",
            "index.threads=2",
            "-c",
            "index.recordOffsetTable=true",
        ];
        repository.git(&[&settings[..], &["update-index", "--force-write-index"]].concat());
        assert!(holds(&repository.bytes(), *b"IEOT"));
        assert_eq!(repository.load().to_bytes(), bytes);
    }
}

#[test]
fn cached_trees_are_those_of_git() {
    let repository = Repository::with_files();
    let index = repository.load();
    assert_eq!(
        index.cached_tree().unwrap().to_string(),
        repository.git(&["write-tree"])
    );
    for folder in ["a", "b", "b/c"] {
        let tree = repository.git(&["rev-parse", &format!("HEAD:{folder}")]);
        assert_eq!(
            index.cached_tree_of(folder.as_bytes()).unwrap().to_string(),
            tree
        );
    }
    assert_eq!(index.cached_tree_of(b"none"), None);
    assert_eq!(index.cached_tree_of(b"a/one"), None);

    repository.write(b"b/c/new", b"new");
    repository.git(&["add", "b/c/new"]);
    let index = repository.load();
    assert_eq!(index.cached_tree(), None);
    assert_eq!(index.cached_tree_of(b"b"), None);
    assert_eq!(index.cached_tree_of(b"b/c"), None);
    assert!(index.cached_tree_of(b"a").is_some());
    assert_eq!(index.to_bytes(), repository.bytes());
    repository.assert_survives();
}

#[test]
fn a_cached_tree_of_another_number_of_files_is_not_believed() {
    let repository = Repository::with_files();
    let mut index = repository.load();
    assert!(index.cached_tree().is_some());
    index.entries.pop();
    index.ends.pop();
    assert_eq!(index.cached_tree(), None);
}

#[test]
fn a_split_index_is_joined_with_its_shared_part() {
    for version in ["2", "4"] {
        let repository = Repository::with_files();
        repository.git(&["update-index", "--index-version", version]);
        // More entries than a bitmap word has bits, in runs and alone.
        for number in 0..300 {
            repository.write(format!("many/{number:03}").as_bytes(), b"many");
        }
        repository.git(&["add", "many"]);
        repository.git(&["config", "splitIndex.maxPercentChange", "100"]);
        repository.git(&["update-index", "--split-index"]);
        assert_eq!(repository.load().len(), 306);
        repository.write(b"a/one", b"changed");
        repository.write(b"a/new", b"new");
        repository.write(b"zebra", b"new");
        for number in 100..250 {
            repository.write(format!("many/{number:03}").as_bytes(), b"changed");
        }
        repository.git(&["add", "."]);
        repository.git(&["rm", "-q", "--cached", "b/four", "many/007", "many/299"]);
        repository.git(&["update-index", "--skip-worktree", "five"]);
        let split = repository.load();
        let listed = repository.git(&["ls-files", "-s"]);
        repository.git(&["update-index", "--no-split-index"]);
        assert_eq!(repository.git(&["ls-files", "-s"]), listed);
        let whole = repository.load();
        assert!(whole.find(b"a/new").is_some() && whole.find(b"b/four").is_none());
        assert_eq!(content(&split), content(&whole), "version {version}");
    }
}

#[test]
fn a_split_index_without_its_shared_part_is_refused() {
    let repository = Repository::with_files();
    repository.git(&["update-index", "--split-index"]);
    let git_dir = repository.folder().join(".git");
    for entry in fs::read_dir(&git_dir).unwrap().flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("sharedindex.")
        {
            let mut bytes = fs::read(entry.path()).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(entry.path(), bytes).unwrap();
            let refused =
                Index::load(&repository.index(), ObjectFormat::Sha1, &no_files).unwrap_err();
            assert!(
                matches!(refused, CheckpointError::InvalidIndex { .. }),
                "{refused:?}"
            );
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let refused = Index::load(&repository.index(), ObjectFormat::Sha1, &no_files).unwrap_err();
    assert!(matches!(refused, CheckpointError::Io { .. }), "{refused:?}");
}

#[test]
fn the_folders_of_a_sparse_index_are_expanded() {
    let repository = Repository::with_files();
    repository.git(&["sparse-checkout", "set", "--cone", "--no-sparse-index", "a"]);
    let whole = repository.load();
    repository.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "a"]);
    assert!(
        Index::parse(&repository.bytes(), ObjectFormat::Sha1).is_err(),
        "git wrote folders"
    );
    let expanded = repository.load();
    let entries = |index: &Index| -> Vec<(Vec<u8>, ObjectId, bool)> {
        index
            .entries(0..index.len())
            .map(|(path, entry)| (path.to_vec(), entry.id, entry.skip_worktree))
            .collect()
    };
    assert_eq!(entries(&expanded), entries(&whole));
    assert_eq!(expanded.cached_tree(), whole.cached_tree());
    assert_eq!(expanded.cached_tree_of(b"b"), whole.cached_tree_of(b"b"));
    // Git reads the written file, and collapses it again.
    let listed = repository.git(&["ls-files", "-s", "-v"]);
    repository.replace(&expanded);
    assert_eq!(repository.git(&["ls-files", "-s", "-v"]), listed);
    repository.git(&["status"]);
    repository.git(&["fsck", "--strict"]);
    repository.git(&["sparse-checkout", "reapply"]);
    assert!(
        Index::parse(&repository.bytes(), ObjectFormat::Sha1).is_err(),
        "git wrote folders"
    );
}

#[test]
fn the_file_is_told_from_a_later_one() {
    let repository = Repository::new();
    let missing = repository.load();
    assert!(missing.is_current(&repository.index()).unwrap());
    repository.write(b"a", b"a");
    repository.git(&["add", "a"]);
    assert!(!missing.is_current(&repository.index()).unwrap());
    let index = repository.load();
    assert!(index.is_current(&repository.index()).unwrap());
    repository.replace(&index);
    assert!(!index.is_current(&repository.index()).unwrap());
    fs::remove_file(repository.index()).unwrap();
    assert!(!index.is_current(&repository.index()).unwrap());
}

#[test]
fn a_file_as_young_as_the_index_is_racy() {
    let (seconds, nanos) = (1_600_000_000, 500);
    let stamp = Stamp {
        device: 1,
        inode: 1,
        size: 1,
        changed: (1, 1),
        modified: (seconds, nanos),
    };
    let index = Index {
        stamp: Some(stamp),
        ..Index::empty(ObjectFormat::Sha1)
    };
    let racy = |modified_seconds, modified_nanos, mode| {
        let stat = Stat {
            modified_seconds,
            modified_nanos,
            ..Stat::default()
        };
        let entry = IndexEntry::new(
            Entry {
                mode,
                id: ObjectId::zero(ObjectFormat::Sha1),
            },
            stat,
        );
        (index.is_racy(&entry), index.is_racy_to_git(&entry))
    };
    let regular = FileMode::Regular;
    assert_eq!(racy(seconds, nanos, regular), (true, true));
    assert_eq!(racy(seconds, nanos - 1, regular), (false, true));
    assert_eq!(racy(seconds, nanos + 1, regular), (true, true));
    // Zero nanoseconds mean a file system with whole seconds.
    assert_eq!(racy(seconds, 0, regular), (true, true));
    assert_eq!(racy(seconds + 1, 1, regular), (true, true));
    assert_eq!(racy(seconds - 1, 999_999_999, regular), (false, false));
    assert_eq!(racy(seconds + 1, 1, FileMode::Gitlink), (false, false));
}

proptest! {
    #[test]
    fn lookups_find_what_a_search_from_the_start_finds(
        names in proptest::collection::btree_set("[ab.0](/?[ab.0]){0,4}", 0..30),
        wanted in "[ab.0](/?[ab.0]){0,3}",
    ) {
        let entries: Vec<(&str, IndexEntry)> = names.iter().map(|name| (name.as_str(), entry(1))).collect();
        let index = index_of(&entries);
        prop_assert_eq!(index.find(wanted.as_bytes()), names.iter().position(|name| *name == wanted));
        let inside = format!("{wanted}/");
        let below = index.below(0..index.len(), wanted.as_bytes());
        let expected: Vec<&String> = names.iter().filter(|name| name.starts_with(&inside)).collect();
        let found: Vec<String> = index.entries(below.clone()).map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect();
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        // Narrowing step by step gives the same.
        let first = wanted.split('/').next().unwrap();
        let narrowed = index.below(index.below(0..index.len(), b""), first.as_bytes());
        if first != wanted && !below.is_empty() {
            prop_assert_eq!(index.below(narrowed, wanted.as_bytes()), below);
        }
    }
}
