//! `piton hooks install`, `uninstall` and `status`, with the real git and existing hooks.
//!
//! A [`Yard`] is a repository with its own `piton` on the search path, so that a test can remove or
//! replace the program.

#[path = "hooks_install/faults.rs"]
mod faults;
#[path = "hooks_install/hooks_folder.rs"]
mod hooks_folder;
#[path = "hooks_install/plain.rs"]
mod plain;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Ran, TestProject};

/// Records each call in `calls` beside the project: the arguments, then the input.
const WITNESS: &str = r#"#!/bin/sh
{ printf 'piton'; printf ' [%s]' "$@"; echo; cat; } >> "${0%/*}/../calls"
"#;

/// Every hook that is installed by default.
pub(crate) const USUAL: [&str; 6] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-rewrite",
    "pre-push",
];

/// A repository, and a `piton` that is the first on the search path.
pub(crate) struct Yard {
    pub(crate) project: TestProject,
    bin: PathBuf,
}

impl Yard {
    pub(crate) fn new() -> Self {
        Self::with_path(TestProject::new(), "")
    }

    /// Like [`Self::new`], with more folders on the search path.
    pub(crate) fn with_path(project: TestProject, more: &str) -> Self {
        let bin = project.root().parent().expect("a sandbox").join("bin");
        fs::create_dir(&bin).expect("a folder");
        let path = format!("{}:{more}:{}", bin.display(), usual_path());
        let yard = Self {
            project: project.variable("PATH", &path),
            bin,
        };
        yard.real();
        yard
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.bin.join("piton")
    }

    /// Installs the real program.
    pub(crate) fn real(&self) {
        let _ = fs::remove_file(self.program());
        let real = env!("CARGO_BIN_EXE_piton");
        if fs::hard_link(real, self.program()).is_err() {
            fs::copy(real, self.program()).expect("a copy of piton");
        }
    }

    /// Installs a script as piton.
    pub(crate) fn pretend(&self, script: &str) {
        let _ = fs::remove_file(self.program());
        program(&self.program(), script);
    }

    /// Installs a piton that only records its calls, and simulates a running run, so that every
    /// hook calls it.
    pub(crate) fn witness(&self) {
        self.pretend(WITNESS);
        be_at_work(&self.project.root());
    }

    /// The recorded calls, which are then removed.
    pub(crate) fn calls(&self) -> String {
        let file = self.bin.parent().expect("a sandbox").join("calls");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(file);
        text
    }

    /// Runs the real piton at the top of the project.
    pub(crate) fn piton(&self, words: &[&str]) -> Ran {
        self.piton_in(&self.project.root(), words)
    }

    pub(crate) fn piton_in(&self, folder: &Path, words: &[&str]) -> Ran {
        let mut command = self.command(folder);
        self.project
            .ran(command.args(words).output().expect("piton starts"))
    }

    pub(crate) fn command(&self, folder: &Path) -> Command {
        self.real();
        self.project
            .hermetic(self.program().to_str().expect("text"), folder)
    }

    /// The states of all hooks, each as `name state`.
    pub(crate) fn states(&self, words: &[&str]) -> Vec<String> {
        let words: Vec<&str> = ["hooks"]
            .iter()
            .chain(words)
            .copied()
            .chain(["--format", "json"])
            .collect();
        states(&self.piton(&words))
    }

    pub(crate) fn hook(&self, name: &str, script: &str) {
        program(&self.hooks().join(name), script);
    }

    pub(crate) fn hooks(&self) -> PathBuf {
        let said = self.project.git(["rev-parse", "--git-path", "hooks"]);
        self.project
            .root()
            .join(said.strip_suffix('\n').expect("a line"))
    }

    /// All entries in the hooks folder: name, mode, and content or link target.
    pub(crate) fn picture(&self) -> Vec<(String, u32, Vec<u8>)> {
        picture(&self.hooks())
    }

    /// Runs git; it may fail.
    pub(crate) fn git(&self, words: &[&str]) -> Ran {
        let mut command = self.project.hermetic("git", &self.project.root());
        self.project
            .ran(command.args(words).output().expect("git starts"))
    }

    pub(crate) fn commit(&self) -> Ran {
        let file = self.project.root().join("file.txt");
        let text = fs::read_to_string(&file).unwrap_or_default();
        fs::write(&file, text + "line\n").expect("a file");
        self.project.git(["add", "file.txt"]);
        self.git(&["commit", "--quiet", "--message", "a change"])
    }

    pub(crate) fn commits(&self) -> usize {
        self.git(&["rev-list", "--all", "--count"])
            .stdout()
            .trim()
            .parse()
            .expect("a number")
    }
}

/// The search path of the tests themselves.
#[expect(
    clippy::disallowed_methods,
    reason = "the programs of the machine are on it"
)]
fn usual_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

pub(crate) fn states(ran: &Ran) -> Vec<String> {
    let report = ran.json();
    let hooks = report["hooks"]
        .as_array()
        .unwrap_or_else(|| panic!("no hooks: {ran}"));
    let word =
        |hook: &serde_json::Value, name: &str| hook[name].as_str().expect("a word").to_owned();
    hooks
        .iter()
        .map(|hook| format!("{} {}", word(hook, "hook"), word(hook, "state")))
        .collect()
}

/// The same state for each of some hooks.
pub(crate) fn all(names: &[&str], state: &str) -> Vec<String> {
    names.iter().map(|name| format!("{name} {state}")).collect()
}

pub(crate) fn program(file: &Path, script: &str) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(file, script).expect("a script");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("a mode");
}

pub(crate) fn picture(folder: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| {
            let file = entry.expect("an entry").path();
            let found = fs::symlink_metadata(&file).expect("a file");
            let holds = if found.is_symlink() {
                fs::read_link(&file)
                    .expect("a link")
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                fs::read(&file).unwrap_or_default()
            };
            let name = file
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, found.permissions().mode(), holds)
        })
        .collect();
    entries.sort();
    entries
}

fn link(target: &str, file: &Path) {
    symlink(target, file).expect("a link");
}

/// Makes a worktree look as if a run were active in it.
pub(crate) fn be_at_work(folder: &Path) {
    let own = folder.join(".git/piton");
    fs::create_dir_all(&own).expect("a folder");
    fs::write(own.join("lock"), "a holder").expect("a lock");
}
