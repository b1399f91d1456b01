//! Guards around checkpoints, end to end: the real binary in real repositories.
//!
//! A test is named after its hazard (`h14_…`, `g88_…`). Everything outside the delta of a step must
//! stay: [`Picture`] holds all of that and compares it afterwards, with `git fsck`.

mod checkpoint;
mod environment;
mod exact;
mod foreign;
mod format;
mod hook;
mod hostile;
mod line_end;
mod message;
mod name;
mod operation;
mod restore;
mod secret;
mod signing;
mod special;
mod undo;
mod wrong;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Ran, TestProject};

/// Everything of a repository that a step must leave alone: files, index, refs, settings.
#[derive(Debug, PartialEq, Eq)]
struct Picture {
    folder: PathBuf,
    files: BTreeMap<String, Node>,
    staged: BTreeMap<String, String>,
    status: String,
    refs: String,
    config: String,
}

/// One file or folder. Folders have no time: that of a neighbour changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    kind: &'static str,
    mode: u32,
    content: String,
    modified: (i64, i64),
}

impl Picture {
    /// Of the project.
    fn of(project: &TestProject) -> Self {
        Self::at(project, &project.root())
    }

    /// Of another repository in the sandbox.
    fn at(project: &TestProject, folder: &Path) -> Self {
        let git = |arguments: &[&str]| git_in(project, folder, arguments);
        let staged = git(&["ls-files", "--stage", "-v", "-z"]);
        let staged = staged
            .split("\\x00")
            .filter_map(|line| line.split_once("\\t"));
        let config = git(&[
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "config",
        ]);
        let config = folder.join(config.trim_end_matches("\\n"));
        Self {
            folder: folder.to_owned(),
            files: nodes(folder),
            staged: staged
                .map(|(entry, path)| (path.to_owned(), entry.to_owned()))
                .collect(),
            status: git(&["status", "--porcelain=v2", "--untracked-files=all", "-z"]),
            refs: git(&[
                "for-each-ref",
                "--exclude=refs/piton",
                "--format=%(refname) %(objectname)",
            ]) + &git(&["rev-parse", "--symbolic-full-name", "HEAD"]),
            config: fs::read_to_string(config).expect("a repository has settings"),
        }
    }

    /// Nothing is different, and the repository is whole.
    fn assert_same(&self, project: &TestProject) {
        assert_whole(project, &self.folder);
        assert_eq!(&Self::at(project, &self.folder), self);
    }

    /// Nothing but these files (and what is below them) is different: neither on disk nor staged.
    /// Of the refs only the branch may have moved.
    fn assert_only(&self, project: &TestProject, changed: &[&str]) {
        assert_whole(project, &self.folder);
        let now = Self::at(project, &self.folder);
        let others = |path: &String| {
            !changed
                .iter()
                .any(|one| path == one || path.starts_with(&format!("{one}/")))
        };
        let files = |picture: &Self| -> BTreeMap<String, Node> {
            let kept = picture.files.iter().filter(|(path, _)| others(path));
            kept.map(|(path, node)| (path.clone(), node.clone()))
                .collect()
        };
        let staged = |picture: &Self| -> BTreeMap<String, String> {
            let kept = picture.staged.iter().filter(|(path, _)| others(path));
            kept.map(|(path, entry)| (path.clone(), entry.clone()))
                .collect()
        };
        assert_eq!(files(&now), files(self), "files outside the delta");
        assert_eq!(staged(&now), staged(self), "staged files outside the delta");
        assert_eq!(now.config, self.config);
        let branches = |picture: &Self| {
            let lines = picture
                .refs
                .split("\\n")
                .filter(|line| !line.starts_with("refs/heads/main "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(branches(&now), branches(self));
    }
}

/// The objects are whole and no lock is left.
fn assert_whole(project: &TestProject, folder: &Path) {
    let said = git_in(
        project,
        folder,
        &["fsck", "--full", "--strict", "--no-dangling"],
    );
    assert_eq!(said, "", "git fsck");
    let git_dir = git_in(project, folder, &["rev-parse", "--absolute-git-dir"]);
    let git_dir = PathBuf::from(git_dir.trim_end_matches("\\n"));
    let locks: Vec<_> = walkdir::WalkDir::new(git_dir)
        .into_iter()
        .filter_map(Result::ok)
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension() == Some(OsStr::new("lock")))
        .collect();
    assert!(locks.is_empty(), "{locks:?}");
}

/// What git prints, bytes that cannot be shown escaped. It does not write the index.
fn git_in(project: &TestProject, folder: &Path, arguments: &[&str]) -> String {
    let mut command = project.hermetic("git", folder);
    let output = command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(arguments)
        .output()
        .expect("git starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || arguments.first() == Some(&"rev-parse"),
        "git {arguments:?}: {said}"
    );
    output.stdout.escape_ascii().to_string()
}

fn nodes(folder: &Path) -> BTreeMap<String, Node> {
    let walk = walkdir::WalkDir::new(folder).min_depth(1).into_iter();
    let inside = walk.filter_entry(|entry| entry.depth() != 1 || entry.file_name() != ".git");
    inside
        .map(|entry| {
            let entry = entry.expect("a readable entry");
            let path = entry
                .path()
                .strip_prefix(folder)
                .expect("below")
                .as_os_str();
            (
                path.as_bytes().escape_ascii().to_string(),
                node(entry.path()),
            )
        })
        .collect()
}

fn node(path: &Path) -> Node {
    let found = fs::symlink_metadata(path).expect("it is there");
    let kind = found.file_type();
    let (kind, content) = if kind.is_dir() {
        ("folder", Vec::new())
    } else if kind.is_symlink() {
        (
            "link",
            fs::read_link(path)
                .expect("a link")
                .as_os_str()
                .as_bytes()
                .to_vec(),
        )
    } else if kind.is_fifo() || kind.is_socket() {
        ("special", Vec::new())
    } else if found.len() > 1 << 20 {
        ("file", found.len().to_string().into_bytes())
    } else {
        ("file", fs::read(path).expect("readable"))
    };
    let modified = if kind == "folder" {
        (0, 0)
    } else {
        (found.mtime(), found.mtime_nsec())
    };
    Node {
        kind,
        mode: found.mode() & 0o7777,
        content: content.escape_ascii().to_string(),
        modified,
    }
}

/// What a command told with `--format json`.
struct Told {
    ran: Ran,
    events: Vec<Value>,
}

/// Runs a script of bash as one step.
fn exec(project: &TestProject, script: &str) -> Told {
    exec_with(project, &[], script)
}

/// Runs a script of bash as one step, with more flags.
fn exec_with(project: &TestProject, flags: &[&str], script: &str) -> Told {
    let mut words = vec!["exec"];
    words.extend(flags);
    words.extend(["--", "bash", "-euc", script]);
    told(project, &words)
}

/// Runs piton and reads its JSON.
fn told(project: &TestProject, words: &[&str]) -> Told {
    let (command, rest) = words.split_first().expect("a command");
    Told::of(project.piton([command, "--format", "json"].iter().chain(rest)))
}

impl Told {
    fn of(ran: Ran) -> Self {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|err| panic!("not JSON: {err}\n{ran}"))
        };
        let events = ran.stdout().lines().map(parse).collect();
        Self { ran, events }
    }

    /// The last line.
    fn last(&self) -> &Value {
        self.events
            .last()
            .unwrap_or_else(|| panic!("nothing was printed\n{}", self.ran))
    }

    /// The event of a type.
    fn event(&self, kind: &str) -> &Value {
        let found = self.events.iter().rev().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("no `{kind}`\n{}", self.ran))
    }

    /// Exit code, status of the checkpoint, code of the error; `-` where there is none.
    fn end(&self) -> String {
        let last = self.last();
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let checkpoint = word(&last["steps"][0]["checkpoint"]["status"]);
        format!(
            "{} {checkpoint} {}",
            self.ran.code().unwrap_or(-1),
            word(&last["error"]["code"])
        )
    }

    /// The sentence of the error.
    fn message(&self) -> String {
        self.last()["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The commit that was made.
    fn commit(&self) -> String {
        let commit = self.event("committed")["commit"].as_str();
        commit
            .unwrap_or_else(|| panic!("no commit\n{}", self.ran))
            .to_owned()
    }

    /// What a reader of the commit should know.
    fn notes(&self) -> Vec<String> {
        let notes = self.event("committed")["notes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        notes
            .iter()
            .map(|note| note.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The name of the only step.
    fn step(&self) -> String {
        format!("{}/1", self.last()["run_id"].as_str().expect("a run"))
    }

    #[track_caller]
    fn assert_end(&self, end: &str) {
        assert_eq!(self.end(), end, "{}", self.ran);
    }
}

/// How many runs there are.
fn count_runs(project: &TestProject) -> usize {
    fs::read_dir(project.root().join(".git/piton/runs")).map_or(0, Iterator::count)
}

/// What a preview says would happen to each file.
fn effects(preview: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let files = preview["files"]
        .as_array()
        .unwrap_or_else(|| panic!("no files: {preview}"));
    files
        .iter()
        .map(|file| format!("{} {}", word(&file["effect"]), word(&file["path"])))
        .collect()
}

/// A project with one committed file, `notes.txt`.
fn simple() -> TestProject {
    TestProject::new()
        .file("notes.txt", "one\ntwo\nthree\n")
        .committed()
}

/// The files of a commit.
fn files_of(project: &TestProject, commit: &str) -> Vec<String> {
    let listed = project.git([
        "diff-tree",
        "-r",
        "--root",
        "--no-commit-id",
        "--name-only",
        commit,
    ]);
    listed.lines().map(str::to_owned).collect()
}
