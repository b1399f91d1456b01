mod doubt;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::super::ignore::Letters;
use super::super::index::IndexEntry;
use super::super::object::{Entry, ObjectFormat};
use super::super::snapshot::LeftOutReason;
use super::*;
use crate::disk::Fsync;

struct Repo {
    folder: tempfile::TempDir,
}

type Files = BTreeMap<RepoPath, Entry>;

const OPTIONS: ScanOptions = ScanOptions {
    large: super::Large::LeaveOut,
    max_file_size: 1 << 20,
    executable: Executable::FromDisk,
    symlinks: Symlinks::Links,
    trust_index: TrustIndex::Trust,
};

impl Repo {
    fn new() -> Self {
        let repo = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        repo.git(&["init", "-q"]);
        repo
    }

    fn at(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.folder.path().join(OsStr::from_bytes(path.as_ref()))
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn pipe(&self, path: &str) {
        let mode = rustix::fs::Mode::from_bits_truncate(0o644);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            self.at(path),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
    }

    fn git(&self, args: &[&str]) -> Vec<u8> {
        self.git_with(&self.at(".git/index"), args)
    }

    #[expect(clippy::disallowed_methods, reason = "the real git is the oracle")]
    fn git_with(&self, index: &Path, args: &[&str]) -> Vec<u8> {
        let output = Command::new("git")
            .current_dir(self.folder.path())
            .envs([
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ])
            .envs([
                ("GIT_AUTHOR_NAME", "a"),
                ("GIT_AUTHOR_EMAIL", "a@b"),
                ("GIT_COMMITTER_NAME", "a"),
            ])
            .envs([("GIT_COMMITTER_EMAIL", "a@b")])
            .env("GIT_INDEX_FILE", index)
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    fn index(&self) -> Index {
        Index::load(&self.at(".git/index"), ObjectFormat::Sha1, &|_| {
            Ok(Vec::new())
        })
        .unwrap()
    }

    fn rules(&self) -> IgnoreRules {
        let exclude = fs::read(self.at(".git/info/exclude")).ok();
        IgnoreRules::to_collect(None, exclude.as_deref(), Letters::Distinct)
    }

    fn scan(&self) -> WorkTreeScan {
        self.scan_with(&StatCache::default(), &self.rules(), &OPTIONS)
            .unwrap()
            .0
    }

    /// The scan, and the ids of stored objects.
    fn scan_with(
        &self,
        cache: &StatCache,
        rules: &IgnoreRules,
        options: &ScanOptions,
    ) -> Result<(WorkTreeScan, Vec<ObjectId>), CheckpointError> {
        let tree = WorkTree::open(self.folder.path(), &self.at(".git/piton/tmp"), Fsync::Auto)?;
        let stored = RefCell::new(Vec::new());
        let mut store = |blobs: &[Blob]| {
            for blob in blobs {
                assert_eq!(
                    ObjectId::from(
                        git2::Oid::hash_object(git2::ObjectType::Blob, &blob.bytes).unwrap()
                    ),
                    blob.id
                );
                stored.borrow_mut().push(blob.id);
            }
            Ok(())
        };
        let mut holds = |_| true;
        let mut sink = Sink {
            holds: &mut holds,
            store: &mut store,
            keep_large: &mut |_| Ok(None),
        };
        let scan = scan(&tree, &self.index(), cache, rules, options, &mut sink)?;
        Ok((scan, stored.into_inner()))
    }

    /// The index with the changes of the scan.
    fn laid_over(&self, scan: &WorkTreeScan) -> Files {
        let index = self.index();
        let entries = index
            .entries(0..index.len())
            .filter(|(_, entry)| !entry.intent_to_add);
        let mut files: Files = entries
            .map(|(path, entry)| {
                (
                    RepoPath::from_bytes(path),
                    Entry {
                        mode: entry.mode,
                        id: entry.id,
                    },
                )
            })
            .collect();
        for (path, seen) in &scan.files {
            match seen {
                Some(seen) => files.insert(
                    path.clone(),
                    Entry {
                        mode: seen.mode,
                        id: seen.id,
                    },
                ),
                None => Some(files.remove(path).expect("only a tracked file can be gone")),
            };
        }
        files
    }

    /// The result of `git add -A` in a separate index.
    fn truth(&self) -> Files {
        let index = self.at(".git/truth");
        if let Ok(metadata) = fs::metadata(self.at(".git/index")) {
            fs::copy(self.at(".git/index"), &index).unwrap();
            // Keep the time of the original, by which git detects racy entries.
            fs::File::options()
                .write(true)
                .open(&index)
                .unwrap()
                .set_modified(metadata.modified().unwrap())
                .unwrap();
        }
        self.git_with(&index, &["add", "-A"]);
        let listed = self.git_with(&index, &["ls-files", "-s", "-z"]);
        let lines = listed
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty());
        let entry = |line: &[u8]| {
            let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
            let words: Vec<&str> = std::str::from_utf8(&line[..tab])
                .unwrap()
                .split(' ')
                .collect();
            let mode = FileMode::from_bits(u32::from_str_radix(words[0], 8).unwrap()).unwrap();
            (
                RepoPath::from_bytes(&line[tab + 1..]),
                Entry {
                    mode,
                    id: words[1].parse().unwrap(),
                },
            )
        };
        lines.map(entry).collect()
    }

    fn assert_as_git(&self) -> WorkTreeScan {
        let scan = self.scan();
        assert_eq!(self.laid_over(&scan), self.truth());
        scan
    }
}

fn changed(scan: &WorkTreeScan) -> Vec<String> {
    scan.files
        .iter()
        .map(|(path, seen)| format!("{}{path}", if seen.is_some() { "" } else { "-" }))
        .collect()
}

fn left_out(scan: &WorkTreeScan) -> Vec<(String, LeftOutReason)> {
    scan.left_out
        .iter()
        .map(|left| (left.path.to_string(), left.reason.clone()))
        .collect()
}

/// An action of a random user.
#[derive(Clone, Debug)]
enum Act {
    Write(&'static [u8], u8),
    Link(&'static [u8], &'static str),
    Folder(&'static [u8]),
    Remove(&'static [u8]),
    Executable(&'static [u8]),
    Ignore(&'static [u8], &'static str),
    Stage(&'static [&'static str]),
}

const NAMES: [&[u8]; 16] = [
    b"a",
    b"a.c",
    b"a/b",
    b"a/b/c",
    b"a0",
    b"a-",
    b"b",
    b"b/x",
    b"b/x.o",
    b"b/y/z.o",
    b"new\nline",
    b"bad\xff/\xfe",
    b"k/a",
    b"k/k/a",
    b"k.o",
    b"\"quoted\"",
];

fn act() -> impl Strategy<Value = Act> {
    let name = || proptest::sample::select(&NAMES[..]);
    prop_oneof![
        6 => (name(), 0..3u8).prop_map(|(path, content)| Act::Write(path, content)),
        2 => (name(), prop_oneof![Just("a"), Just("nowhere"), Just("../.."), Just("b")]).prop_map(|(path, target)| Act::Link(path, target)),
        1 => name().prop_map(Act::Folder),
        4 => name().prop_map(Act::Remove),
        1 => name().prop_map(Act::Executable),
        2 => (prop_oneof![Just(&b""[..]), Just(&b"b"[..]), Just(&b"k"[..])],
              prop_oneof![Just("*.o\n"), Just("k/\n"), Just("!*.o\n"), Just("*\n!a\n"), Just("/b/*\n!/b/x\n"), Just("")])
            .prop_map(|(folder, rules)| Act::Ignore(folder, rules)),
        2 => proptest::sample::select(vec![&["add", "-A"][..], &["add", "-f", "."], &["add", "-N", "."], &["add", "-u"]]).prop_map(Act::Stage),
    ]
}

/// Performs it as far as possible without leaving the work tree.
fn perform(repo: &Repo, act: &Act) {
    let clear = |path: &[u8]| {
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let folder = repo.at(&path[..at]);
            if fs::symlink_metadata(&folder).is_ok_and(|metadata| !metadata.is_dir()) {
                fs::remove_file(&folder).unwrap();
            }
        }
        remove(&repo.at(path));
        fs::create_dir_all(repo.at(path).parent().unwrap()).unwrap();
    };
    match act {
        Act::Write(path, content) => {
            clear(path);
            fs::write(repo.at(path), format!("content {content}\n")).unwrap();
        }
        Act::Link(path, target) => {
            clear(path);
            symlink(target, repo.at(path)).unwrap();
        }
        Act::Folder(path) => {
            clear(path);
            fs::create_dir(repo.at(path)).unwrap();
        }
        Act::Remove(path) => {
            if let Ok(parent) = repo.at(path).parent().unwrap().canonicalize()
                && parent == repo.at(path).parent().unwrap()
            {
                remove(&repo.at(path));
            }
        }
        Act::Executable(path) => {
            if fs::symlink_metadata(repo.at(path)).is_ok_and(|metadata| metadata.is_file()) {
                fs::set_permissions(repo.at(path), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        Act::Ignore(folder, rules) => {
            let folder = if folder.is_empty() {
                repo.folder.path().to_owned()
            } else {
                repo.at(folder)
            };
            if fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir()) {
                fs::write(folder.join(".gitignore"), rules).unwrap();
            }
        }
        Act::Stage(args) => {
            repo.git(args);
        }
    }
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
    #[test]
    fn a_scan_of_any_tree_says_what_git_would_add(acts in proptest::collection::vec(act(), 1..30)) {
        let repo = Repo::new();
        for act in &acts {
            perform(&repo, act);
        }
        let (first, _) = repo.scan_with(&StatCache::default(), &repo.rules(), &OPTIONS).unwrap();
        let truth = repo.truth();
        prop_assert_eq!(repo.laid_over(&first), truth.clone());
        // The cache, the frozen rules, and a scan without trust in the index give the same.
        let (second, _) = repo.scan_with(&first.cache, &first.ignore_rules, &OPTIONS).unwrap();
        prop_assert_eq!(&second.files, &first.files);
        prop_assert_eq!(&second.permissions, &first.permissions);
        prop_assert_eq!(&second.empty_folders, &first.empty_folders);
        let raw = ScanOptions { trust_index: TrustIndex::RawOnly, ..OPTIONS };
        let (raw, _) = repo.scan_with(&StatCache::default(), &repo.rules(), &raw).unwrap();
        prop_assert_eq!(repo.laid_over(&raw), truth);
    }
}

#[test]
fn files_and_folders_that_change_places_are_seen() {
    let repo = Repo::new();
    for path in ["a", "b/c", "b/d/e", "l/x", "a.b", "b-"] {
        repo.write(path, path);
    }
    repo.git(&["add", "-A"]);
    remove(&repo.at("a"));
    repo.write("a/new", "new");
    remove(&repo.at("b"));
    repo.write("b", "file");
    remove(&repo.at("l"));
    symlink("a", repo.at("l")).unwrap();
    let scan = repo.assert_as_git();
    assert_eq!(
        changed(&scan),
        ["-a", "a/new", "b", "-b/c", "-b/d/e", "l", "-l/x"]
    );
}

#[test]
fn nothing_is_hashed_or_reported_in_a_clean_tree_of_many_files() {
    let repo = Repo::new();
    for number in 0..5000 {
        repo.write(&format!("{}/{}/{number}", number % 7, number % 31), "text");
    }
    repo.git(&["add", "-A"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    // The rewritten index is younger than all files.
    repo.git(&["update-index", "--force-write-index"]);
    let (scan, stored) = repo
        .scan_with(&StatCache::default(), &repo.rules(), &OPTIONS)
        .unwrap();
    assert_eq!((changed(&scan), stored), (vec![], vec![]));
    repo.write("3/3/3", "more");
    remove(&repo.at("0/0/0"));
    let scan = repo.assert_as_git();
    assert_eq!(changed(&scan), ["-0/0/0", "3/3/3"]);
}

#[test]
fn one_folder_with_many_files_is_read_in_the_right_order() {
    let repo = Repo::new();
    for number in 0..3000 {
        repo.write(&format!("f{number}"), "text");
    }
    repo.git(&["add", "-A"]);
    remove(&repo.at("f77"));
    repo.write("f77/x", "x");
    assert_eq!(changed(&repo.assert_as_git()), ["-f77", "f77/x"]);
}

#[test]
fn special_files_are_named_and_never_opened() {
    let repo = Repo::new();
    repo.write("tracked", "x");
    repo.write(".gitignore", "ignored\n");
    repo.git(&["add", "-A"]);
    remove(&repo.at("tracked"));
    for path in ["tracked", "pipe", "ignored"] {
        repo.pipe(path);
    }
    repo.write(".GIT/config", "x");
    repo.write("git~1", "x");
    let scan = repo.scan();
    assert_eq!(changed(&scan), ["-tracked"]);
    let special = |path: &str| (path.to_owned(), LeftOutReason::SpecialFile);
    assert_eq!(
        left_out(&scan),
        [".GIT", "git~1", "pipe", "tracked"].map(special)
    );
}

#[test]
fn a_linked_folder_is_a_link() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "x").unwrap();
    let repo = Repo::new();
    repo.write("d/secret", "tracked");
    repo.git(&["add", "-A"]);
    remove(&repo.at("d"));
    symlink(outside.path(), repo.at("d")).unwrap();
    symlink(outside.path().join("secret"), repo.at(".gitignore")).unwrap();
    assert_eq!(
        changed(&repo.assert_as_git()),
        [".gitignore", "d", "-d/secret"]
    );
}

#[test]
fn a_large_file_is_left_out_when_it_would_have_to_be_read() {
    let repo = Repo::new();
    let options = ScanOptions {
        max_file_size: 10,
        ..OPTIONS
    };
    repo.write("tracked", "more than ten bytes");
    repo.git(&["add", "-A"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    repo.git(&["update-index", "--force-write-index"]);
    repo.write("large", "more than ten bytes, too");
    repo.write("small", "ten bytes.");
    let scan = repo
        .scan_with(&StatCache::default(), &repo.rules(), &options)
        .unwrap()
        .0;
    assert_eq!(changed(&scan), ["small"]);
    let metadata = fs::metadata(repo.at("large")).unwrap();
    let modified = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
    assert_eq!(
        left_out(&scan),
        [(
            "large".to_owned(),
            LeftOutReason::TooLarge { size: 24, modified }
        )]
    );
}

#[test]
fn repositories_inside_are_left_out_and_submodules_are_named() {
    let repo = Repo::new();
    repo.write("README", "x");
    for nested in ["nested", "sub", "with tracked"] {
        fs::create_dir(repo.at(nested)).unwrap();
        repo.git(&["init", "-q", nested]);
        repo.write(&format!("{nested}/file"), "x");
        repo.git(&["-C", nested, "-c", "core.worktree=..", "config", "a.b", "c"]);
    }
    let link = format!("160000,{},sub", ObjectId::empty_tree(ObjectFormat::Sha1));
    let absent = format!("160000,{},absent", ObjectId::empty_tree(ObjectFormat::Sha1));
    let missing = format!(
        "160000,{},missing",
        ObjectId::empty_tree(ObjectFormat::Sha1)
    );
    repo.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &link,
        "--cacheinfo",
        &absent,
        "--cacheinfo",
        &missing,
    ]);
    let blob = String::from_utf8(repo.git(&["hash-object", "-w", "README"])).unwrap();
    repo.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("100644,{},with tracked/file", blob.trim()),
    ]);
    repo.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("100644,{},with tracked/gone", blob.trim()),
    ]);
    repo.write("with tracked/new", "x");
    fs::create_dir(repo.at("absent")).unwrap();
    repo.write("sub.c", "x");
    let scan = repo.scan();
    assert_eq!(
        changed(&scan),
        ["README", "-missing", "sub.c", "-with tracked/gone"]
    );
    assert_eq!(scan.submodules, [RepoPath::from("sub")]);
    let nested = |path: &str| (path.to_owned(), LeftOutReason::NestedRepository);
    assert_eq!(left_out(&scan), ["nested", "with tracked"].map(nested));
    assert_eq!(scan.empty_folders, []);
}

#[test]
fn what_the_user_told_git_to_overlook_is_recorded_as_it_is_on_disk() {
    let repo = Repo::new();
    for path in [
        "skipped",
        "assumed",
        "same",
        "absent",
        "becomes folder",
        "f/skipped",
    ] {
        repo.write(path, "x");
    }
    repo.git(&["add", "-A"]);
    repo.git(&[
        "update-index",
        "--skip-worktree",
        "skipped",
        "absent",
        "becomes folder",
        "same",
        "f/skipped",
    ]);
    repo.git(&["update-index", "--assume-unchanged", "assumed"]);
    for path in ["skipped", "assumed"] {
        repo.write(path, "changed by the user");
    }
    for path in ["absent", "becomes folder", "f"] {
        remove(&repo.at(path));
    }
    repo.write("becomes folder/file", "x");
    repo.write("f", "now a file");
    let scan = repo.scan();
    // The file on disk is recorded, and so is a missing file.
    assert_eq!(
        changed(&scan),
        ["-absent", "assumed", "-f/skipped", "skipped"]
    );
    let overlooked = |path: &str| (path.to_owned(), LeftOutReason::Overlooked);
    assert_eq!(left_out(&scan), ["becomes folder", "f"].map(overlooked));
}

#[test]
fn tracked_files_in_ignored_folders_count_and_others_there_do_not() {
    let repo = Repo::new();
    repo.write("build/deep/tracked", "x");
    repo.write("build/deep/gone", "x");
    repo.git(&["add", "-A"]);
    repo.write(".gitignore", "build\n");
    repo.write("build/deep/tracked", "changed");
    repo.write("build/deep/untracked", "x");
    repo.write("build/other/untracked", "x");
    fs::create_dir(repo.at("build/empty")).unwrap();
    remove(&repo.at("build/deep/gone"));
    let scan = repo.assert_as_git();
    assert_eq!(
        changed(&scan),
        [".gitignore", "-build/deep/gone", "build/deep/tracked"]
    );
    assert_eq!(scan.empty_folders, []);
}

#[test]
fn rules_are_those_from_before() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.log\n");
    repo.write("d/.gitignore", "keep\n");
    repo.write("d/keep", "precious");
    repo.write("a.log", "precious");
    let before = repo.scan();
    assert_eq!(changed(&before), [".gitignore", "d/.gitignore"]);
    repo.write(".gitignore", "hidden\n");
    remove(&repo.at("d/.gitignore"));
    repo.write("hidden", "x");
    repo.write("new/.gitignore", "*\n");
    repo.write("new/file", "x");
    let after = repo
        .scan_with(&before.cache, &before.ignore_rules, &OPTIONS)
        .unwrap()
        .0;
    assert_eq!(
        changed(&after),
        [".gitignore", "hidden", "new/.gitignore", "new/file"]
    );
}

#[test]
fn permissions_empty_folders_and_attributes_are_noted() {
    let repo = Repo::new();
    for (path, mode) in [
        ("a", 0o640),
        ("b", 0o640),
        ("c", 0o644),
        ("x", 0o750),
        ("d/y", 0o4755),
        ("d/z", 0o750),
    ] {
        repo.write(path, "x");
        fs::set_permissions(repo.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    repo.write(".gitignore", "/ignored\n");
    repo.write("e/.gitattributes", "* text\n");
    for path in [".gitignore", "e/.gitattributes"] {
        fs::set_permissions(repo.at(path), fs::Permissions::from_mode(0o640)).unwrap();
    }
    for (path, mode) in [
        ("empty", 0o700),
        ("ignored", 0o755),
        ("d", 0o755),
        ("e", 0o755),
    ] {
        fs::create_dir_all(repo.at(path)).unwrap();
        fs::set_permissions(repo.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    repo.git(&["add", "a", "x"]);
    let scan = repo.assert_as_git();
    let exceptions = [("c", 0o644), ("d/y", 0o4755), ("empty", 0o700)]
        .map(|(path, bits)| (RepoPath::from(path), bits));
    let expected = Permissions {
        file: 0o640,
        executable: 0o750,
        folder: 0o755,
        exceptions: exceptions.into(),
    };
    assert_eq!(scan.permissions, expected);
    assert_eq!(scan.empty_folders, [RepoPath::from("empty")]);
    assert_eq!(scan.attribute_files, [RepoPath::from("e/.gitattributes")]);
}
