//! Watches over everything that piton must leave alone while it acts.
//!
//! A [`Guard`] records a repository before the act: every file with bytes, mode, target and time, the
//! index, the stash, refs, settings, hooks, and all folders beside the work tree. Afterwards the test
//! says what may have changed ([`Guard::refused`], [`Guard::rolled_back`], [`Guard::committed`],
//! [`Guard::left`]); everything else has to be as it was. Each of them ends by asking the real git
//! whether the repository is whole and still usable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::harness::TestProject;

/// What a repository was like before the act.
pub(crate) struct Guard<'p> {
    project: &'p TestProject,
    root: PathBuf,
    before: State,
}

#[derive(Debug, Default)]
struct State {
    files: Files,
    beside: Files,
    settings: Files,
    locks: BTreeSet<PathBuf>,
    status: Vec<String>,
    index: Vec<String>,
    head: String,
    branch: String,
    refs: BTreeMap<String, String>,
}

/// What git calls no files at all.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

type Files = BTreeMap<String, Seen>;

/// One file, link or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// Escaped bytes of a file, the target of a link; nothing for folders and special files.
    content: String,
    mode: u32,
    /// Not of folders: their time changes with any temporary file.
    modified: Option<(i64, i64)>,
}

impl<'p> Guard<'p> {
    /// Records the project.
    pub(crate) fn of(project: &'p TestProject) -> Self {
        Self::at(project, &project.root())
    }

    /// Records a work tree that may be elsewhere in the sandbox.
    pub(crate) fn at(project: &'p TestProject, root: &Path) -> Self {
        let guard = Self {
            project,
            root: root.to_path_buf(),
            before: State::default(),
        };
        let before = guard.look();
        Self { before, ..guard }
    }

    /// Nothing at all has happened: no ref of piton either.
    pub(crate) fn refused(&self) {
        assert_eq!(self.before.refs, self.look().refs, "refs");
        self.rolled_back(&[]);
    }

    /// Everything is as it was; only these files were written anew.
    pub(crate) fn rolled_back(&self, rewritten: &[&str]) {
        let now = self.look();
        let timeless = |files: &Files| -> Files {
            files
                .iter()
                .map(|(path, seen)| (path.clone(), seen.without_time_if(rewritten, path)))
                .collect()
        };
        self.same_files(&timeless(&self.before.files), &timeless(&now.files));
        assert_eq!(self.before.index, now.index, "index");
        assert_eq!(self.before.status, now.status, "status");
        assert_eq!(
            (&self.before.head, &self.before.branch),
            (&now.head, &now.branch),
            "HEAD"
        );
        self.same_rest(&now);
    }

    /// One commit on top of the old HEAD holds exactly these files; nothing else moved, and what the
    /// user had not committed is shown by git as before.
    pub(crate) fn committed(&self, delta: &[&str]) {
        self.committed_with(delta, &[]);
    }

    /// As [`Self::committed`], while the act also changed files of other repositories.
    pub(crate) fn committed_but(&self, delta: &[&str], elsewhere: &[&str]) {
        self.commits(delta);
        self.left_at(&self.look(), &[delta, elsewhere].concat(), &[]);
    }

    /// As [`Self::committed`], while git sees some unchanged files in another way.
    pub(crate) fn committed_with(&self, delta: &[&str], seen_otherwise: &[&str]) {
        self.commits(delta);
        self.left_at(&self.look(), delta, seen_otherwise);
    }

    fn commits(&self, delta: &[&str]) {
        let now = self.look();
        let parents = self.git(["rev-list", "--parents", "--max-count=1", "HEAD"]);
        let parent = parents.split_whitespace().nth(1);
        assert_eq!(
            parent.unwrap_or("(initial)"),
            self.before.head,
            "the parent"
        );
        let parent = parent.unwrap_or(EMPTY_TREE);
        let changed = self.git(["diff", "--name-only", "--no-renames", "-z", parent, "HEAD"]);
        let mut changed: Vec<&str> = changed.split_terminator('\0').collect();
        changed.sort_unstable();
        let mut wanted = delta.to_vec();
        wanted.sort_unstable();
        assert_eq!(changed, wanted, "the files of the commit");
        assert_eq!(self.before.branch, now.branch, "the branch");
    }

    /// These files changed on disk and nothing else, in no commit and not in the index.
    pub(crate) fn left(&self, delta: &[&str]) {
        let now = self.look();
        assert_eq!(
            (&self.before.head, &self.before.branch),
            (&now.head, &now.branch),
            "HEAD"
        );
        assert_eq!(self.before.index, now.index, "index");
        self.left_at(&now, delta, &[]);
    }

    /// As [`Self::left`], wherever HEAD and the index are.
    pub(crate) fn left_besides_head(&self, delta: &[&str]) {
        self.left_at(&self.look(), delta, &[]);
    }

    fn left_at(&self, now: &State, delta: &[&str], seen_otherwise: &[&str]) {
        let others = |files: &Files| -> Files {
            files
                .iter()
                .filter(|(path, _)| !touches(delta, path))
                .map(|(path, seen)| (path.clone(), seen.clone()))
                .collect()
        };
        self.same_files(&others(&self.before.files), &others(&now.files));
        let lines = |lines: &[String]| -> Vec<String> {
            lines
                .iter()
                .filter(|line| {
                    !delta
                        .iter()
                        .chain(seen_otherwise)
                        .any(|path| names(line, path))
                })
                .cloned()
                .collect()
        };
        assert_eq!(
            lines(&self.before.index),
            lines(&now.index),
            "index outside of the delta"
        );
        assert_eq!(
            lines(&self.before.status),
            lines(&now.status),
            "status outside of the delta"
        );
        self.same_rest(now);
    }

    fn same_files(&self, before: &Files, now: &Files) {
        for path in before.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
            assert_eq!(
                before.get(path),
                now.get(path),
                "`{path}` in {}",
                self.root.display()
            );
        }
    }

    fn same_rest(&self, now: &State) {
        self.same_files(&self.before.beside, &now.beside);
        self.same_files(&self.before.settings, &now.settings);
        let others = |refs: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let ours = |name: &str| name == self.before.branch || name.starts_with("refs/piton/");
            refs.iter()
                .filter(|(name, _)| !ours(name))
                .map(|(name, id)| (name.clone(), id.clone()))
                .collect()
        };
        assert_eq!(
            others(&self.before.refs),
            others(&now.refs),
            "refs of the user"
        );
        assert_eq!(self.before.locks, now.locks, "locks");
        self.git(["fsck", "--full", "--strict"]);
        self.is_usable();
    }

    /// The user can go on: unless something of theirs is in the way, adding and committing works.
    fn is_usable(&self) {
        let in_the_way = [
            "MERGE_HEAD",
            "CHERRY_PICK_HEAD",
            "REVERT_HEAD",
            "rebase-merge",
            "rebase-apply",
        ];
        let git_dir = self.git_dir();
        if !self.before.locks.is_empty()
            || in_the_way.iter().any(|name| git_dir.join(name).exists())
        {
            return;
        }
        if self.before.status.iter().any(|line| line.starts_with("u ")) {
            return;
        }
        let file = self.root.join("by-hand.txt");
        let old = fs::read_to_string(&file).unwrap_or_default();
        fs::write(&file, format!("{old}by hand\n")).expect("a file");
        self.git(["add", "--force", "by-hand.txt"]);
        self.git([
            "commit",
            "--quiet",
            "--no-verify",
            "--message",
            "by hand",
            "--",
            "by-hand.txt",
        ]);
    }

    fn look(&self) -> State {
        let root = &self.root;
        let git_dir = self.git_dir();
        let common = PathBuf::from(
            self.git(["rev-parse", "--path-format=absolute", "--git-common-dir"])
                .trim_end(),
        );
        let mut settings = Files::new();
        for place in ["config", "hooks", "info", "logs/refs/stash"] {
            record(&common, &common.join(place), &mut settings);
        }
        let mut beside = Files::new();
        let sandbox = root.parent().expect("a work tree lies in the sandbox");
        for entry in fs::read_dir(sandbox)
            .expect("the sandbox")
            .map(|entry| entry.expect("an entry").path())
        {
            if entry != *root
                && !entry.ends_with("tmp")
                && !git_dir.starts_with(&entry)
                && !common.starts_with(&entry)
            {
                record(sandbox, &entry, &mut beside);
            }
        }
        // The first run of a user makes the key of journals, and each notes where its journal ends.
        let key = Path::new("home/.config/piton/keys/journal.key");
        let is_note = |path: &str| path.starts_with("home/.config/piton/keys/ends");
        beside.retain(|path, _| path == "home" || !key.starts_with(path) && !is_note(path));
        let mut files = Files::new();
        record(root, root, &mut files);
        files.retain(|path, _| path != ".git" && !path.starts_with(".git/") && !path.is_empty());
        let locks = walkdir::WalkDir::new(&common)
            .into_iter()
            .filter_map(Result::ok)
            .map(walkdir::DirEntry::into_path)
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "lock")
            })
            .collect();
        let listed = self.git([
            "status",
            "--porcelain=v2",
            "--branch",
            "--untracked-files=all",
            "--no-renames",
            "-z",
        ]);
        let (about, status): (Vec<String>, Vec<String>) = lines(&listed)
            .into_iter()
            .partition(|line| line.starts_with("# "));
        let told = |key: &str| {
            about
                .iter()
                .find_map(|line| line.strip_prefix(key))
                .unwrap_or_default()
        };
        let refs = self.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
        State {
            files,
            beside,
            settings,
            locks,
            status,
            index: lines(&self.git(["ls-files", "--stage", "-v", "-z"])),
            head: told("# branch.oid ").to_owned(),
            branch: format!("refs/heads/{}", told("# branch.head ")),
            refs: refs
                .lines()
                .filter_map(|line| line.split_once(' '))
                .map(owned)
                .collect(),
        }
    }

    fn git_dir(&self) -> PathBuf {
        PathBuf::from(
            self.git(["rev-parse", "--path-format=absolute", "--absolute-git-dir"])
                .trim_end(),
        )
    }

    fn git<const N: usize>(&self, arguments: [&str; N]) -> String {
        let root = self.root.to_str().expect("a plain path");
        self.project.git(
            ["--no-optional-locks", "-C", root]
                .into_iter()
                .chain(arguments),
        )
    }
}

impl Seen {
    fn of(path: &Path) -> Self {
        let found =
            fs::symlink_metadata(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        let bytes = if found.is_symlink() {
            fs::read_link(path)
                .expect("a link")
                .as_os_str()
                .as_bytes()
                .to_vec()
        } else if found.is_file() {
            fs::read(path).expect("a file")
        } else {
            Vec::new()
        };
        let modified = (!found.is_dir()).then(|| (found.mtime(), found.mtime_nsec()));
        Self {
            content: bytes.escape_ascii().to_string(),
            mode: found.mode(),
            modified,
        }
    }

    fn without_time_if(&self, rewritten: &[&str], path: &str) -> Self {
        let modified = self.modified.filter(|_| !rewritten.contains(&path));
        Self {
            modified,
            ..self.clone()
        }
    }
}

fn record(base: &Path, place: &Path, files: &mut Files) {
    for entry in walkdir::WalkDir::new(place)
        .into_iter()
        .filter_map(Result::ok)
    {
        let path = entry.path().strip_prefix(base).expect("below");
        files.insert(
            path.as_os_str().as_bytes().escape_ascii().to_string(),
            Seen::of(entry.path()),
        );
    }
}

/// Whether a path is one of the delta, inside one of it, or a folder around one.
fn touches(delta: &[&str], path: &str) -> bool {
    let is_inside = |one: &str, other: &str| {
        one.strip_prefix(other)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    delta
        .iter()
        .any(|changed| *changed == path || is_inside(changed, path) || is_inside(path, changed))
}

/// Whether a line of `git status` or `git ls-files` is about a path.
fn names(line: &str, path: &str) -> bool {
    line.strip_suffix(path)
        .is_some_and(|rest| rest.ends_with([' ', '\t']))
}

fn lines(text: &str) -> Vec<String> {
    text.split_terminator('\0').map(str::to_owned).collect()
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
