//! A repository in a temporary folder, with the real git.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::super::super::object::ObjectFormat;
use super::super::Index;
use super::super::lock::IndexLock;
use super::{Entry, FileMode, ObjectId, RepoPath};
use crate::disk::Disk;

pub(super) struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    pub(super) fn new() -> Self {
        let repository = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        repository.git(&["init", "-q", "-b", "main"]);
        // Fewer extensions, so that git's bytes can be compared with piton's.
        repository.git(&["config", "index.threads", "1"]);
        repository
    }

    /// With two committed folders.
    pub(super) fn with_files() -> Self {
        let repository = Self::new();
        for path in ["a/one", "a/two", "a-b", "b/c/three", "b/four", "five"] {
            repository.write(path.as_bytes(), path.as_bytes());
        }
        repository.git(&["add", "."]);
        repository.git(&["commit", "-q", "-m", "files"]);
        repository
    }

    /// In the middle of a merge with conflicts.
    pub(super) fn in_conflict() -> Self {
        let repository = Self::with_files();
        repository.git(&["checkout", "-q", "-b", "side"]);
        repository.write(b"a/one", b"side\n");
        repository.write(b"b/four", b"side\n");
        repository.git(&["commit", "-q", "-am", "side"]);
        repository.git(&["checkout", "-q", "main"]);
        repository.write(b"a/one", b"main\n");
        repository.git(&["rm", "-q", "b/four"]);
        repository.git(&["commit", "-q", "-am", "main"]);
        assert!(!repository.run(&["merge", "side"], b"").status.success());
        repository
    }

    /// The files of a tree.
    fn files_of(&self, tree: ObjectId) -> Vec<(RepoPath, Entry)> {
        let listed = self
            .run(&["ls-tree", "-r", "-z", &tree.to_string()], b"")
            .stdout;
        let lines = listed
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty());
        lines
            .map(|line| {
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
                        id: words[2].parse().unwrap(),
                    },
                )
            })
            .collect()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn index(&self) -> PathBuf {
        self.folder().join(".git/index")
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        fs::read(self.index()).unwrap()
    }

    pub(super) fn load(&self) -> Index {
        Index::load(&self.index(), ObjectFormat::Sha1, &|tree| {
            Ok(self.files_of(tree))
        })
        .unwrap()
    }

    /// The folder for piton's lock files.
    pub(super) fn own(&self) -> PathBuf {
        self.folder().join(".git")
    }

    /// Replaces the repository's index.
    pub(super) fn replace(&self, index: &Index) {
        let lock = IndexLock::acquire(
            &self.index(),
            &self.own(),
            Duration::ZERO,
            &Disk::unsynced(),
        )
        .unwrap();
        lock.write(&index.to_bytes()).unwrap().commit().unwrap();
    }

    pub(super) fn write(&self, path: &[u8], content: &[u8]) {
        let path = self.folder().join(OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Whether git has an object.
    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.run(&["cat-file", "-e", &id.to_string()], b"")
            .status
            .success()
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    pub(super) fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let output = self.run(arguments, input);
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
            .stdout
            .escape_ascii()
            .to_string()
            .replace("\\n", "\n")
            .trim_end()
            .to_owned()
    }

    #[expect(clippy::disallowed_methods, reason = "the real git is the oracle")]
    pub(super) fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new("git");
        command
            .current_dir(self.folder())
            .args(arguments)
            .env("LC_ALL", "C")
            .env("HOME", self.folder());
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        // Reading must not change the index.
        command.env("GIT_OPTIONAL_LOCKS", "0");
        for (name, value) in [
            ("NAME", "Somebody"),
            ("EMAIL", "somebody@example.org"),
            ("DATE", "@1700000000 +0000"),
        ] {
            command
                .env(format!("GIT_AUTHOR_{name}"), value)
                .env(format!("GIT_COMMITTER_{name}"), value);
        }
        for name in [
            "GIT_DIR",
            "GIT_INDEX_FILE",
            "GIT_WORK_TREE",
            "GIT_INDEX_VERSION",
        ] {
            command.env_remove(name);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git starts");
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Stores content.
    pub(super) fn blob(&self, content: &[u8]) -> ObjectId {
        self.git_with(&["hash-object", "-w", "--stdin"], content)
            .parse()
            .unwrap()
    }

    /// Everything that git reads from the index.
    pub(super) fn listing(&self) -> String {
        self.git(&["ls-files", "--stage", "--debug"])
            + "\n"
            + &self.git(&["ls-files", "-t", "-v", "--resolve-undo"])
    }

    /// Git's status of the index and the files.
    pub(super) fn status(&self) -> String {
        self.git(&["status", "--porcelain=v2", "--untracked-files=all"])
    }

    /// Asserts that git reads the same index after piton has read and written it.
    pub(super) fn assert_survives(&self) {
        let before = (self.listing(), self.status());
        let index = self.load();
        self.replace(&index);
        assert_eq!((self.listing(), self.status()), before);
        assert_eq!(super::content(&self.load()), super::content(&index));
        self.assert_sound();
    }

    pub(super) fn assert_sound(&self) {
        self.git(&["fsck", "--strict", "--no-dangling"]);
        assert!(!self.index().with_extension("lock").exists());
    }
}
