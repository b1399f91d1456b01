//! Compares edits with the real git, and with a simple model.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::super::EntryLayout;
use super::repository::Repository;
use super::*;

/// The edits for `git update-index --index-info`: removals first, because git needs free paths.
fn instructions(edits: &Edits) -> Vec<u8> {
    let mut removed = Vec::new();
    let mut added = Vec::new();
    for (path, entry) in edits {
        match entry {
            None => removed
                .extend(format!("0 {}\t{path}\n", ObjectId::zero(ObjectFormat::Sha1)).into_bytes()),
            Some(entry) => {
                added.extend(format!("{} {}\t{path}\n", entry.mode, entry.id).into_bytes());
            }
        }
    }
    [removed, added].concat()
}

/// Makes the same edits with piton and with git, and compares what git reports.
fn assert_edits_like_git(repository: &Repository, edits: &Edits) {
    let before = repository.bytes();
    let edited = repository.load().edited(edits);
    repository.git_with(&["update-index", "--index-info"], &instructions(edits));
    let expected = (
        repository.git(&["ls-files", "--stage"]),
        repository.git(&["write-tree", "--missing-ok"]),
    );
    assert_fills_trees_like_git(repository, &edited, &repository.load());

    fs::write(repository.index(), before).unwrap();
    repository.replace(&edited);
    assert_eq!(
        repository.git(&["ls-files", "--stage"]),
        expected.0,
        "{edits:?}"
    );
    assert_eq!(
        repository.git(&["write-tree", "--missing-ok"]),
        expected.1,
        "{edits:?}"
    );
    repository.assert_sound();
}

/// Fills in the trees that an edit has invalidated, and compares them with those of git, which
/// `git write-tree` has left in its index.
fn assert_fills_trees_like_git(repository: &Repository, edited: &Index, gits: &Index) {
    let exists = |id: ObjectId| repository.has(id);
    let mut filled = edited.clone();
    filled.fill_trees(&exists);
    assert_eq!(tree_bytes(&filled), tree_bytes(gits));
    let mut new = Index {
        trees: None,
        ..edited.clone()
    };
    new.fill_trees(&exists);
    assert_eq!(tree_bytes(&new), tree_bytes(gits));
}

fn blob(repository: &Repository, content: &[u8]) -> IndexEntry {
    let entry = Entry {
        mode: FileMode::Regular,
        id: repository.blob(content),
    };
    IndexEntry::new(entry, Stat::default())
}

#[test]
fn files_are_added_changed_and_removed() {
    for version in ["2", "4"] {
        let repository = Repository::with_files();
        repository.git(&["update-index", "--index-version", version]);
        let edits = Edits::from([
            (RepoPath::from("a/one"), Some(blob(&repository, b"changed"))),
            (RepoPath::from("a/three"), Some(blob(&repository, b"new"))),
            (RepoPath::from("0"), Some(blob(&repository, b"first"))),
            (RepoPath::from("z/z/z"), Some(blob(&repository, b"last"))),
            (RepoPath::from("b/c/three"), None),
            (RepoPath::from("not there"), None),
        ]);
        assert_edits_like_git(&repository, &edits);
        let index = repository.load();
        assert_eq!(index.find(b"b/c/three"), None);
        assert_eq!(
            paths(&index),
            [
                "0", "a-b", "a/one", "a/three", "a/two", "b/four", "five", "z/z/z"
            ]
        );
    }
}

#[test]
fn a_commit_of_an_edited_index_is_clean() {
    let repository = Repository::with_files();
    repository.write(b"a/one", b"changed");
    fs::remove_file(repository.folder().join("five")).unwrap();
    let edits = Edits::from([
        (RepoPath::from("a/one"), Some(blob(&repository, b"changed"))),
        (RepoPath::from("five"), None),
    ]);
    repository.replace(&repository.load().edited(&edits));
    let status: Vec<String> = repository
        .status()
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(status, ["1 M.", "1 D."]);
    repository.git(&["commit", "-q", "-m", "edited"]);
    assert_eq!(repository.status(), "");
    assert_eq!(
        repository.git(&["write-tree"]),
        repository.git(&["rev-parse", "HEAD^{tree}"])
    );
    repository.assert_sound();
}

#[test]
fn a_file_takes_the_place_of_a_folder_and_back() {
    let repository = Repository::with_files();
    // `a-b` is between `a` and `a/one` in the order of the index.
    let edits = Edits::from([(RepoPath::from("a"), Some(blob(&repository, b"a file")))]);
    assert_edits_like_git(&repository, &edits);
    assert_eq!(
        paths(&repository.load()),
        ["a", "a-b", "b/c/three", "b/four", "five"]
    );

    let edits = Edits::from([(RepoPath::from("a/b/c"), Some(blob(&repository, b"deep")))]);
    assert_edits_like_git(&repository, &edits);
    assert_eq!(
        paths(&repository.load()),
        ["a-b", "a/b/c", "b/c/three", "b/four", "five"]
    );
}

#[test]
fn of_a_file_and_what_is_inside_it_the_inside_wins() {
    let edits = Edits::from([
        (RepoPath::from("a"), Some(entry(1))),
        (RepoPath::from("a-b"), Some(entry(2))),
        (RepoPath::from("a/b"), Some(entry(3))),
        (RepoPath::from("c"), Some(entry(4))),
        (RepoPath::from("c/d"), None),
    ]);
    let old = index_of(&[("a/old", entry(9)), ("c/d", entry(9))]);
    assert_eq!(paths(&old.edited(&edits)), ["a-b", "a/b", "c"]);
    assert_eq!(
        paths(&Index::empty(ObjectFormat::Sha1).edited(&edits)),
        ["a-b", "a/b", "c"]
    );
}

#[test]
fn all_sides_of_a_conflict_give_way() {
    let repository = Repository::in_conflict();
    let resolved = blob(&repository, b"resolved");
    let edits = Edits::from([
        (RepoPath::from("a/one"), Some(resolved)),
        (RepoPath::from("b/four"), None),
    ]);
    let index = repository.load().edited(&edits);
    assert_eq!(index.unmerged(), []);
    assert_eq!(index.find(b"b/four"), None);
    assert_edits_like_git(&repository, &edits);
}

#[test]
fn only_the_trees_around_an_edit_are_forgotten() {
    let repository = Repository::with_files();
    let old = repository.load();
    let new = old.edited(&Edits::from([(RepoPath::from("b/c/new"), Some(entry(1)))]));
    for changed in ["", "b", "b/c"] {
        assert_eq!(new.cached_tree_of(changed.as_bytes()), None);
    }
    assert_eq!(new.cached_tree_of(b"a"), old.cached_tree_of(b"a"));
    assert!(new.cached_tree_of(b"a").is_some());

    let nothing = old.edited(&Edits::from([(RepoPath::from("not there"), None)]));
    assert!(nothing.cached_tree().is_some());
}

#[test]
fn a_tree_that_git_does_not_have_is_not_filled_in() {
    let repository = Repository::with_files();
    let edits = Edits::from([
        (
            RepoPath::from("b/c/three"),
            Some(blob(&repository, b"changed")),
        ),
        (RepoPath::from("a/one"), Some(blob(&repository, b"changed"))),
    ]);
    let edited = repository.load().edited(&edits);
    let mut complete = edited.clone();
    complete.fill_trees(&|_| true);
    let missing = complete.cached_tree_of(b"b/c").unwrap();
    let mut filled = edited.clone();
    filled.fill_trees(&|tree| tree != missing);
    for unknown in ["", "b", "b/c"] {
        assert_eq!(filled.cached_tree_of(unknown.as_bytes()), None);
    }
    assert_eq!(filled.cached_tree_of(b"a"), complete.cached_tree_of(b"a"));
    assert!(filled.cached_tree_of(b"a").is_some());
}

#[test]
fn a_folder_with_an_announced_file_has_no_cached_tree_as_in_git() {
    let repository = Repository::with_files();
    repository.write(b"b/announced", b"");
    repository.git(&["add", "-N", "b/announced"]);
    let edits = Edits::from([(RepoPath::from("a/one"), Some(blob(&repository, b"changed")))]);
    assert_edits_like_git(&repository, &edits);
    let mut filled = repository.load();
    filled.fill_trees(&|_| true);
    assert_eq!(filled.cached_tree(), None);
    assert_eq!(filled.cached_tree_of(b"b"), None);
    assert!(filled.cached_tree_of(b"b/c").is_some());
    assert!(filled.cached_tree_of(b"a").is_some());
}

#[test]
fn new_stat_fields_alone_leave_the_trees_valid() {
    let repository = Repository::with_files();
    let old = repository.load();
    let mut entry = *old.get(old.find(b"a/one").unwrap()).unwrap();
    entry.stat.inode = entry.stat.inode.wrapping_add(1);
    let path = RepoPath::from("a/one");
    let new = old.edited(&Edits::from([(path.clone(), Some(entry))]));
    assert_eq!(new.cached_tree(), old.cached_tree());
    assert_eq!(new.get(new.find(b"a/one").unwrap()), Some(&entry));

    entry.mode = FileMode::Executable;
    let new = old.edited(&Edits::from([(path, Some(entry))]));
    assert_eq!(new.cached_tree(), None);
}

/// A repository with a change that git detects only because the file is as young as the index.
fn with_racy_change() -> Repository {
    let repository = Repository::new();
    // The ctime cannot be set, so git must not compare it.
    repository.git(&["config", "core.trustctime", "false"]);
    let file = repository.folder().join("racy");
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let age = |path: &std::path::Path| {
        File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(then)
            .unwrap();
    };
    repository.write(b"other", b"other");
    repository.write(b"racy", b"one");
    age(&file);
    repository.git(&["add", "."]);
    repository.git(&["commit", "-q", "-m", "racy"]);
    fs::write(&file, "two").unwrap();
    age(&file);
    age(&repository.index());
    assert!(repository.status().ends_with(" racy"));
    repository
}

#[test]
fn a_change_in_the_second_of_the_old_index_is_still_seen() {
    let repository = with_racy_change();
    repository.replace(&repository.load().edited(&Edits::new()));
    assert!(repository.status().ends_with(" racy"));

    // Also if the next rewrite finds no racy entry.
    repository.replace(&repository.load().edited(&Edits::new()));
    assert!(repository.status().ends_with(" racy"));
    repository.assert_sound();
}

#[test]
fn without_the_mark_the_change_would_be_lost() {
    let repository = with_racy_change();
    let index = repository.load();
    repository.replace(&index);
    assert_eq!(repository.status(), "");
    // The two tests differ only in the marked size.
    let marked = index.edited(&Edits::new());
    assert_eq!(
        marked.get(marked.find(b"racy").unwrap()).unwrap().stat.size,
        0
    );
}

#[test]
fn a_file_that_the_caller_vouches_for_keeps_its_size() {
    let repository = with_racy_change();
    let index = repository.load();
    let entry = *index.get(index.find(b"racy").unwrap()).unwrap();
    let vouched = index.edited(&Edits::from([(RepoPath::from("racy"), Some(entry))]));
    assert_eq!(vouched.get(vouched.find(b"racy").unwrap()), Some(&entry));
    assert!(vouched.cached_tree().is_some());
}

#[test]
fn an_old_entry_keeps_its_stat_fields() {
    let repository = Repository::with_files();
    let then = fs::metadata(repository.index())
        .unwrap()
        .modified()
        .unwrap()
        - Duration::from_secs(100);
    for path in ["a/one", "a/two", "a-b", "b/c/three", "b/four", "five"] {
        File::options()
            .append(true)
            .open(repository.folder().join(path))
            .unwrap()
            .set_modified(then)
            .unwrap();
    }
    repository.git(&["update-index", "--refresh"]);
    let before = repository.listing();
    repository.replace(&repository.load().edited(&Edits::new()));
    assert_eq!(repository.listing(), before);
}

fn any_entry() -> impl Strategy<Value = IndexEntry> {
    let modes = [
        FileMode::Regular,
        FileMode::Executable,
        FileMode::Symlink,
        FileMode::Gitlink,
    ];
    (
        any::<[u32; 9]>(),
        proptest::sample::select(modes.to_vec()),
        any::<[u8; 20]>(),
        any::<[bool; 3]>(),
    )
        .prop_map(
            |([cs, cn, ms, mn, device, inode, user, group, size], mode, id, flags)| IndexEntry {
                stat: Stat {
                    changed_seconds: cs,
                    changed_nanos: cn,
                    modified_seconds: ms,
                    modified_nanos: mn,
                    device,
                    inode,
                    user,
                    group,
                    size,
                },
                mode,
                id: ObjectId::from_bytes(&id).unwrap(),
                stage: 0,
                assume_unchanged: flags[0],
                skip_worktree: flags[1],
                intent_to_add: flags[2],
            },
        )
}

/// Paths that are often inside of each other.
fn any_path() -> impl Strategy<Value = RepoPath> {
    proptest::collection::vec("[ab]|a-|a0|\\PC{1,3}", 1..4)
        .prop_map(|parts| RepoPath::from_bytes(parts.join("/").replace('\0', "_").into_bytes()))
        .prop_filter("git does not store such", |path| {
            !path.as_bytes().starts_with(b"/") && !path.as_bytes().ends_with(b"/")
        })
}

fn any_edits() -> impl Strategy<Value = Edits> {
    proptest::collection::btree_map(any_path(), proptest::option::of(any_entry()), 0..20)
}

/// Applies edits to a simple map, one after the other.
fn model(map: &mut BTreeMap<RepoPath, IndexEntry>, edits: &Edits) {
    for (path, entry) in edits {
        map.remove(path);
        if let Some(entry) = entry {
            map.retain(|other, _| !other.is_inside(path) && !path.is_inside(other));
            map.insert(path.clone(), *entry);
        }
    }
}

proptest! {
    #[test]
    fn edits_do_what_a_map_does_and_survive_the_file(
        first in any_edits(),
        second in any_edits(),
        layout in proptest::sample::select(vec![EntryLayout::Padded, EntryLayout::Compressed]),
    ) {
        let mut index = Index { layout, ..Index::empty(ObjectFormat::Sha1) };
        let mut map = BTreeMap::new();
        for edits in [first, second] {
            index = index.edited(&edits);
            // Without a file, all earlier entries are racy.
            for (path, entry) in &mut map {
                let path: &RepoPath = path;
                let entry: &mut IndexEntry = entry;
                if !edits.contains_key(path) && entry.mode != FileMode::Gitlink {
                    entry.stat.size = 0;
                }
            }
            model(&mut map, &edits);
            let found: Vec<_> = index.entries(0..index.len()).map(|(path, entry)| (path.to_vec(), *entry)).collect();
            let expected: Vec<_> = map.iter().map(|(path, entry)| (path.as_bytes().to_vec(), *entry)).collect();
            prop_assert_eq!(found, expected);
            let again = Index::parse(&index.to_bytes(), ObjectFormat::Sha1).unwrap();
            prop_assert_eq!(content(&again), content(&index));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn random_edits_make_the_tree_that_git_makes(
        base in proptest::collection::btree_set("[ab](/[ab]){0,3}", 1..12),
        edits in proptest::collection::btree_map("[ab](/[ab]){0,3}", any::<Option<bool>>(), 1..8),
    ) {
        let repository = Repository::new();
        let blobs = [blob(&repository, b"base"), blob(&repository, b"one"), blob(&repository, b"two")];
        let base: Edits = base.iter().map(|path| (RepoPath::from(path.as_str()), Some(blobs[0]))).collect();
        repository.replace(&repository.load().edited(&base));
        // Let git write the trees, so that edits must invalidate the right ones.
        repository.git(&["read-tree", &repository.git(&["write-tree"])]);
        prop_assert!(repository.load().cached_tree().is_some());
        let mut files: Vec<(RepoPath, Option<IndexEntry>)> = edits
            .iter()
            .map(|(path, kind)| (RepoPath::from(path.as_str()), kind.map(|second| blobs[1 + usize::from(second)])))
            .collect();
        // If a path is both a file and a folder, the result depends on the order.
        let added: Vec<RepoPath> = files.iter().filter(|(_, entry)| entry.is_some()).map(|(path, _)| path.clone()).collect();
        files.retain(|(path, entry)| entry.is_none() || !added.iter().any(|other| other.is_inside(path)));
        assert_edits_like_git(&repository, &files.into_iter().collect());
    }
}
