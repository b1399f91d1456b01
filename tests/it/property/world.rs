//! A repository for random actions, and what git reports about it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use piton::checkpoint::checkpointer::{CheckpointOptions, Checkpointer};
use piton::checkpoint::error::CheckpointError;
use piton::checkpoint::repository::Repository;
use piton::checkpoint::snapshot::Snapshot;
use piton::config::{HookPolicy, SecretPolicy};
use piton::disk::Fsync;
use proptest::prelude::TestCaseError;
use tempfile::TempDir;

/// A name of any bytes, printed in a readable form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(pub(super) Vec<u8>);

/// The bytes of a file.
#[derive(Clone, Debug)]
pub(super) struct Content(pub(super) String);

/// Where a link points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target(pub(super) &'static str);

/// The text of a `.gitignore`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule(pub(super) &'static str);

/// A change of a work tree or its index.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Writes a file, replacing what is there.
    Write(Vec<Name>, Content),
    /// Changes a byte of a file; its size and time stay as they are.
    Flip(Vec<Name>),
    /// Creates a link, replacing what is there.
    Link(Vec<Name>, Target),
    /// Changes permission bits.
    Mode(Vec<Name>, u32),
    /// Removes a file, or a folder with everything in it.
    Remove(Vec<Name>),
    /// Creates a folder, replacing a file.
    MakeFolder(Vec<Name>),
    /// Moves a file or folder.
    Rename(Vec<Name>, Vec<Name>),
    /// Writes the `.gitignore` of a folder.
    Ignore(Vec<Name>, Rule),
    /// Enables conversion of line ends.
    Convert,
    /// `git add`
    Stage(Vec<Name>),
    /// `git rm --cached`
    Unstage(Vec<Name>),
    /// `git add --intent-to-add`
    Announce(Vec<Name>),
}

/// A repository beside an unrelated folder.
pub(super) struct World {
    sandbox: Rc<TempDir>,
    root: PathBuf,
}

/// Everything that a user can see.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Picture {
    files: BTreeMap<Name, String>,
    git: String,
}

impl World {
    pub(super) fn new() -> Self {
        crate::crash::chance::tally("random histories", 1);
        let sandbox = TempDir::with_prefix("piton-property-").expect("a temporary folder");
        let root = sandbox.path().join("project");
        fs::create_dir(&root).expect("a folder");
        fs::create_dir(sandbox.path().join("outside")).expect("a folder");
        fs::write(sandbox.path().join("outside/file"), "outside\n").expect("a file");
        let world = Self {
            sandbox: Rc::new(sandbox),
            root,
        };
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        world
    }

    /// A copy of the repository with another name.
    pub(super) fn copy(&self, name: &str) -> Self {
        let root = self.sandbox.path().join(name);
        let copied = command("cp", self.sandbox.path())
            .arg("-a")
            .args([&self.root, &root])
            .status();
        assert!(copied.expect("cp starts").success());
        Self {
            sandbox: Rc::clone(&self.sandbox),
            root,
        }
    }

    pub(super) fn commit_all(&self, actions: &[Action]) {
        self.act(actions);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "start"]);
        self.git(&["tag", "start"]);
    }

    pub(super) fn act(&self, actions: &[Action]) {
        for action in actions {
            // An impossible action, e.g. with a link to itself in the way, does nothing.
            let _ = self.try_to(action);
        }
    }

    fn try_to(&self, action: &Action) -> std::io::Result<()> {
        match action {
            Action::Write(path, content) => {
                let path = self.make_way(path)?;
                if !is_file(&path) {
                    remove(&path)?;
                }
                fs::write(path, &content.0)
            }
            Action::Flip(path) => {
                let Some(path) = self.reach(path).filter(|path| is_file(path)) else {
                    return Ok(());
                };
                let (mut bytes, time) = (fs::read(&path)?, fs::metadata(&path)?.modified()?);
                bytes.iter_mut().take(1).for_each(|byte| *byte ^= 1);
                fs::write(&path, bytes)?;
                fs::File::options()
                    .write(true)
                    .open(&path)?
                    .set_modified(time)
            }
            Action::Link(path, target) => {
                let path = self.make_way(path)?;
                remove(&path)?;
                symlink(target.0, path)
            }
            Action::Mode(path, mode) => {
                let Some(path) = self.reach(path) else {
                    return Ok(());
                };
                let mode = if is_folder(&path) {
                    mode | ((mode & 0o444) >> 2)
                } else {
                    *mode
                };
                if is_file(&path) || is_folder(&path) {
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
                }
                Ok(())
            }
            Action::Remove(path) => self.reach(path).map_or(Ok(()), |path| remove(&path)),
            Action::MakeFolder(path) => fs::create_dir_all(self.make_way(path)?),
            Action::Rename(from, to) => {
                let Some(old) = self.reach(from) else {
                    return Ok(());
                };
                if to.starts_with(from)
                    || from.starts_with(to)
                    || fs::symlink_metadata(&old).is_err()
                {
                    return Ok(());
                }
                let new = self.make_way(to)?;
                remove(&new)?;
                fs::rename(old, new)
            }
            Action::Ignore(folder, rule) => {
                let file = [folder.as_slice(), &[Name(b".gitignore".to_vec())]].concat();
                fs::write(self.make_way(&file)?, rule.0)
            }
            Action::Convert => fs::write(self.root.join(".gitattributes"), "* text=auto\n"),
            Action::Stage(path) => self.try_git(&["add"], path),
            Action::Unstage(path) => self.try_git(&["rm", "-r", "--quiet", "--cached"], path),
            Action::Announce(path) => self.try_git(&["add", "--intent-to-add"], path),
        }
    }

    /// Creates the folders of a path, replacing files and links.
    fn make_way(&self, path: &[Name]) -> std::io::Result<PathBuf> {
        let mut full = self.root.clone();
        let (last, folders) = path.split_last().expect("a path has a name");
        for name in folders {
            full.push(OsStr::from_bytes(&name.0));
            if !is_folder(&full) {
                remove(&full)?;
                fs::create_dir(&full)?;
            }
        }
        Ok(full.join(OsStr::from_bytes(&last.0)))
    }

    /// The full path, if no link is on the way.
    fn reach(&self, path: &[Name]) -> Option<PathBuf> {
        let mut full = self.root.clone();
        let (last, folders) = path.split_last()?;
        for name in folders {
            full.push(OsStr::from_bytes(&name.0));
            if !is_folder(&full) {
                return None;
            }
        }
        Some(full.join(OsStr::from_bytes(&last.0)))
    }

    fn try_git(&self, words: &[&str], path: &[Name]) -> std::io::Result<()> {
        let path = OsString::from_vec(joined(path).0);
        self.git_command()
            .args(words)
            .arg("--")
            .arg(path)
            .output()
            .map(|_| ())
    }

    pub(super) fn git(&self, words: &[&str]) -> Vec<u8> {
        let output = self.git_command().args(words).output().expect("git starts");
        assert!(
            output.status.success(),
            "git {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    fn git_command(&self) -> Command {
        let mut git = command("git", &self.root);
        git.arg("--literal-pathspecs");
        git
    }

    pub(super) fn engine(&self) -> Checkpointer {
        let environment: BTreeMap<OsString, OsString> = variables()
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let repository =
            Repository::open(&self.root, None, &environment, Fsync::Auto).expect("a repository");
        let options = CheckpointOptions {
            max_file_size: 1 << 20,
            max_total_size: 1 << 30,
            lock_wait: Duration::from_secs(10),
            hooks: HookPolicy::Skip,
            secrets: SecretPolicy::Block,
            secrets_allowed: Vec::new(),
            environment,
        };
        Checkpointer::open(repository, options).expect("an engine")
    }

    pub(super) fn picture(&self) -> Picture {
        self.picture_below("")
    }

    /// What is visible in a folder at the top.
    pub(super) fn picture_below(&self, folder: &str) -> Picture {
        let mut files = BTreeMap::new();
        let mut add = |top: &Path, prefix: &str| {
            let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
            for entry in walk
                .filter_entry(|entry| entry.file_name() != ".git")
                .flatten()
            {
                let path = entry
                    .path()
                    .strip_prefix(top)
                    .expect("below")
                    .as_os_str()
                    .as_bytes();
                if folder.is_empty() || path.starts_with(folder.as_bytes()) {
                    files.insert(
                        Name([prefix.as_bytes(), path].concat()),
                        describe(entry.path()),
                    );
                }
            }
        };
        add(&self.root, "");
        add(&self.sandbox.path().join("outside"), "../outside/");
        let below = if folder.is_empty() { "." } else { folder };
        let ask = |words: &[&str]| {
            let answer = self.git(&[words, &["--", below]].concat());
            String::from_utf8_lossy(&answer).into_owned()
        };
        let git = [
            ask(&["ls-files", "--stage"]),
            ask(&["status", "--porcelain=v2"]),
            ask(&["diff", "--cached"]),
            ask(&["diff"]),
        ];
        Picture {
            files,
            git: git.join("\n"),
        }
    }

    /// The files and folders that git ignores.
    pub(super) fn ignored(&self) -> BTreeSet<Name> {
        self.ask_ignored(&["check-ignore"], self.picture().files.iter())
    }

    fn ask_ignored<'a>(
        &self,
        words: &[&str],
        files: impl Iterator<Item = (&'a Name, &'a String)>,
    ) -> BTreeSet<Name> {
        let mut asked = Vec::new();
        for (name, described) in files.filter(|(name, _)| !name.0.starts_with(b"../")) {
            asked.extend_from_slice(&name.0);
            asked.extend_from_slice(if described.ends_with(FOLDER) {
                b"/\0"
            } else {
                b"\0"
            });
        }
        let mut git = command("git", &self.root);
        git.args(words)
            .args(["-z", "--stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = git.spawn().expect("git starts");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(&asked)
            .expect("git reads");
        let answer = child.wait_with_output().expect("git ends").stdout;
        let names = answer
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        names
            .map(|name| Name(name.strip_suffix(b"/").unwrap_or(name).to_vec()))
            .collect()
    }

    /// New files that are ignored, and their folders.
    pub(super) fn newly_ignored(&self, before: &Picture, now: &Picture) -> BTreeSet<Name> {
        let extras: Vec<(&Name, &String)> = now
            .files
            .iter()
            .filter(|(name, _)| !before.files.contains_key(name))
            .collect();
        if extras.is_empty() {
            return BTreeSet::new();
        }
        let mut ignored = self.ask_ignored(&["check-ignore"], extras.iter().copied());
        let holds_ignored = |name: &Name| ignored.iter().any(|file| file.is_inside(name));
        let folders: Vec<Name> = extras
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| holds_ignored(name))
            .cloned()
            .collect();
        ignored.extend(folders);
        ignored
    }

    /// Whether the rules ignore the file of a line of [`Self::committed_files`].
    pub(super) fn ignores_file_of(&self, line: &Name) -> bool {
        let at = line
            .0
            .iter()
            .position(|byte| *byte == b'\t')
            .expect("a tab before the path");
        let name = Name(line.0[at + 1..].to_vec());
        let asked = [(&name, &String::new())];
        !self
            .ask_ignored(&["check-ignore", "--no-index"], asked.into_iter())
            .is_empty()
    }

    /// Whether line ends are converted and HEAD has a link at the path of a line of [`Self::committed_files`].
    pub(super) fn has_converted_link(&self, line: &Name) -> bool {
        let path = |line: &Name| {
            line.0
                .splitn(2, |byte| *byte == b'\t')
                .nth(1)
                .map(<[u8]>::to_vec)
        };
        let is_link = |other: &Name| other.0.starts_with(b"120000") && path(other) == path(line);
        self.converts() && self.committed_files().iter().any(is_link)
    }

    /// The files of HEAD: mode, id and path.
    pub(super) fn committed_files(&self) -> BTreeSet<Name> {
        lines(&self.git(&["ls-tree", "-r", "-z", "HEAD"]))
    }

    pub(super) fn status(&self) -> String {
        String::from_utf8_lossy(&self.git(&["status", "--porcelain=v2"])).into_owned()
    }

    /// The files in a folder that differ from HEAD.
    pub(super) fn pending(&self, folder: &str) -> BTreeSet<Name> {
        let words = [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--",
            folder,
        ];
        lines(&self.git(&words))
            .into_iter()
            .map(|line| Name(line.0[3..].to_vec()))
            .collect()
    }

    /// The files that were committed since the start.
    pub(super) fn files_since_start(&self) -> BTreeSet<Name> {
        lines(&self.git(&[
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--name-only",
            "start",
            "HEAD",
        ]))
    }

    /// How many loose objects there are.
    pub(super) fn objects(&self) -> usize {
        let files = walkdir::WalkDir::new(self.root.join(".git/objects"))
            .into_iter()
            .flatten();
        files.filter(|entry| entry.file_type().is_file()).count()
    }

    /// Whether git stores other bytes than those on disk.
    pub(super) fn converts(&self) -> bool {
        self.root.join(".gitattributes").exists()
    }

    /// The tree of the work tree according to git, with an index without stat data.
    pub(super) fn tree_by_git(&self) -> String {
        let index = self.sandbox.path().join("index");
        let ask = |words: &[&str]| {
            let output = self
                .git_command()
                .env("GIT_INDEX_FILE", &index)
                .args(words)
                .output()
                .expect("git starts");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        ask(&["read-tree", "HEAD"]);
        ask(&["add", "--all"]);
        ask(&["write-tree"])
    }
}

impl Action {
    /// The same action in a folder at the top.
    pub(super) fn below(&self, folder: &str) -> Self {
        let inside =
            |path: &Vec<Name>| [&[Name(folder.as_bytes().to_vec())], path.as_slice()].concat();
        match self {
            Self::Write(path, content) => Self::Write(inside(path), content.clone()),
            Self::Flip(path) => Self::Flip(inside(path)),
            Self::Link(path, target) => Self::Link(inside(path), *target),
            Self::Mode(path, mode) => Self::Mode(inside(path), *mode),
            Self::Remove(path) => Self::Remove(inside(path)),
            Self::MakeFolder(path) => Self::MakeFolder(inside(path)),
            Self::Rename(from, to) => Self::Rename(inside(from), inside(to)),
            Self::Ignore(path, rule) => Self::Ignore(inside(path), *rule),
            Self::Convert => Self::Convert,
            Self::Stage(path) => Self::Stage(inside(path)),
            Self::Unstage(path) => Self::Unstage(inside(path)),
            Self::Announce(path) => Self::Announce(inside(path)),
        }
    }

    /// Whether the action would affect any of these files.
    pub(super) fn touches(&self, files: &BTreeSet<Name>) -> bool {
        let meets =
            |one: &Name, other: &Name| one == other || one.is_inside(other) || other.is_inside(one);
        self.paths()
            .iter()
            .any(|path| files.iter().any(|file| meets(path, file)))
    }

    fn paths(&self) -> Vec<Name> {
        match self {
            Self::Convert => vec![Name(b".gitattributes".to_vec())],
            Self::Ignore(folder, _) => vec![joined(
                &[folder.as_slice(), &[Name(b".gitignore".to_vec())]].concat(),
            )],
            Self::Rename(from, to) => vec![joined(from), joined(to)],
            Self::Write(path, _)
            | Self::Flip(path)
            | Self::Link(path, _)
            | Self::Mode(path, _)
            | Self::Remove(path)
            | Self::MakeFolder(path)
            | Self::Stage(path)
            | Self::Unstage(path)
            | Self::Announce(path) => vec![joined(path)],
        }
    }
}

impl Picture {
    pub(super) fn forget(&mut self, names: &BTreeSet<Name>) {
        self.files.retain(|name, _| !names.contains(name));
    }

    /// The differences between two pictures.
    pub(super) fn difference(&self, other: &Self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let names: BTreeSet<&Name> = self.files.keys().chain(other.files.keys()).collect();
        for name in names {
            let (expected, found) = (self.files.get(name), other.files.get(name));
            if expected != found {
                writeln!(text, "{name:?}: expected {expected:?}, found {found:?}").expect("room");
            }
        }
        if self.git != other.git {
            writeln!(text, "git says\n{}\nand not\n{}", other.git, self.git).expect("room");
        }
        text
    }
}

impl Name {
    fn is_inside(&self, folder: &Self) -> bool {
        self.0
            .strip_prefix(folder.0.as_slice())
            .is_some_and(|rest| rest.starts_with(b"/"))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`", self.0.escape_ascii())
    }
}

/// Commits the changes since a snapshot.
pub(super) fn commit_step(
    engine: &mut Checkpointer,
    before: &Snapshot,
) -> Result<(), TestCaseError> {
    let mut commit = || -> Result<(), CheckpointError> {
        let after = engine.after(before)?;
        let delta = engine.delta(before, &after)?;
        let plan = engine.plan_commit(&before.head, &delta)?;
        if plan.is_empty() {
            return Ok(());
        }
        let prepared = engine.prepare_commit(&plan, "step\n", Timestamp::UNIX_EPOCH)?;
        prepared.move_branch()?;
        prepared.finish()
    };
    commit().map_err(|err| TestCaseError::fail(format!("no commit: {err}")))
}

const FOLDER: &str = " folder";

fn describe(path: &Path) -> String {
    let found = fs::symlink_metadata(path).expect("metadata");
    let mode = found.permissions().mode() & 0o7777;
    if found.is_dir() {
        format!("{mode:o}{FOLDER}")
    } else if found.is_symlink() {
        format!("link to {}", fs::read_link(path).expect("a link").display())
    } else {
        format!(
            "{mode:o} \"{}\"",
            fs::read(path).expect("a file").escape_ascii()
        )
    }
}

fn joined(path: &[Name]) -> Name {
    Name(
        path.iter()
            .map(|name| name.0.as_slice())
            .collect::<Vec<_>>()
            .join(&b'/'),
    )
}

fn lines(bytes: &[u8]) -> BTreeSet<Name> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty())
        .map(|line| Name(line.to_vec()))
        .collect()
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

fn variables() -> [(&'static str, &'static str); 8] {
    [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_AUTHOR_NAME", "Test"),
        ("GIT_AUTHOR_EMAIL", "test@example.com"),
        ("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z"),
        ("GIT_COMMITTER_NAME", "Test"),
        ("GIT_COMMITTER_EMAIL", "test@example.com"),
        ("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z"),
    ]
}

#[expect(clippy::disallowed_methods, reason = "tests start the real git")]
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(variables());
    command.stdin(Stdio::null()).current_dir(folder);
    command
}
