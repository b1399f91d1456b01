//! Linked worktrees: further work trees of the same repository, each on its own branch.
//!
//! The `git` program creates and removes them, without the user's hooks and never by force:
//! uncommitted changes are not removed with a worktree. [`LinkedWorktree`] is the type to read
//! first.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::WorktreeLockStatus;
use rustix::fs::FlockOperation;

use super::error::CheckpointError;
use super::git_cli::{GitOutput, GitProgram};
use super::object::{FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::reference::{move_ref, remove_refs, sync_ref};
use super::repository::Repository;
use super::tree;
use crate::system_call::flock;

/// Checking out a large repository takes time, with filters even more.
const LIMIT: Duration = Duration::from_mins(30);

/// How long to wait before `git worktree add` is tried again. Other programs add and remove
/// worktrees too, and git fails when it reads an incomplete one.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

type Variables = BTreeMap<OsString, OsString>;

/// A work tree beside the main one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedWorktree {
    pub path: PathBuf,
    /// Its git folder: index, HEAD, and piton's own folder.
    pub git_dir: PathBuf,
    /// The full name of its branch; `None` if HEAD is detached or unreadable.
    pub branch: Option<String>,
    /// Whether its folder exists.
    pub exists: bool,
    /// Whether it is locked (`git worktree lock`).
    pub is_locked: bool,
}

/// The result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// It has uncommitted changes.
    Uncommitted(Vec<RepoPath>),
    /// Git refuses.
    Refused(String),
}

impl Repository {
    /// The worktrees beside the main one.
    pub fn linked_worktrees(&self) -> Result<Vec<LinkedWorktree>, CheckpointError> {
        let reading = || CheckpointError::git("read the worktrees");
        let mut found = Vec::new();
        for name in self
            .git
            .worktrees()
            .map_err(reading())?
            .iter()
            .flatten()
            .flatten()
        {
            // Another process may have removed it since.
            let Ok(worktree) = self.git.find_worktree(name) else {
                continue;
            };
            let git_dir = self.git.commondir().join("worktrees").join(name);
            let path = worktree.path();
            found.push(LinkedWorktree {
                path: std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
                branch: self.head_of(&git_dir)?,
                git_dir,
                exists: path.is_dir(),
                is_locked: !matches!(worktree.is_locked(), Ok(WorktreeLockStatus::Unlocked)),
            });
        }
        Ok(found)
    }

    /// The work trees of this repository besides this one, without symlinks.
    pub fn other_worktrees(&self) -> Vec<PathBuf> {
        let (own, common_dir) = (self.worktree_name(), self.git.commondir());
        // Most repositories have no others.
        let names = std::fs::read_dir(common_dir.join("worktrees"));
        let names = names.into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let others = std::iter::once(String::new()).chain(names);
        others
            .filter(|name| *name != own)
            .filter_map(|name| root_of(common_dir, &name))
            .collect()
    }

    /// The folder that all work trees of this repository share.
    pub fn common_dir(&self) -> &Path {
        self.git.commondir()
    }

    /// Creates a worktree on a new branch at a commit. On failure neither is left behind.
    pub fn add_worktree(
        &self,
        variables: &Variables,
        path: &Path,
        branch: &str,
        commit: ObjectId,
    ) -> Result<(), CheckpointError> {
        if self.find_branch(branch)?.is_some() {
            let reason = format!("branch `{branch}` already exists");
            return Err(CheckpointError::GitProgram {
                doing: "worktree add",
                reason,
            });
        }
        let id = commit.to_string();
        let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        // Git runs here without hooks. If the user has a `reference-transaction` hook, create the
        // branch first, so that the hook runs.
        let is_made_before = self.has_ref_hook();
        let mut arguments: Vec<&OsStr> = vec!["worktree".as_ref(), "add".as_ref()];
        if is_made_before {
            arguments.extend([path.as_os_str(), short.as_ref()]);
        } else {
            let branch: [&OsStr; 3] = ["--no-track".as_ref(), "-b".as_ref(), short.as_ref()];
            arguments.extend(branch);
            arguments.extend([path.as_os_str(), id.as_ref()]);
        }
        let _turn = self.lock_worktrees()?;
        let mut pauses = PAUSES.iter();
        loop {
            if is_made_before {
                move_ref(self, branch, None, commit, "piton: worktree")?;
            }
            let output = run_git(
                variables,
                self.git_dir(),
                self.top(),
                "worktree add",
                &arguments,
            )?;
            if output.succeeded {
                return sync_ref(self, branch);
            }
            // Git creates the branch first, and leaves it when the rest fails.
            self.remove_branch(branch, commit)?;
            match pauses.next() {
                Some(pause) => std::thread::sleep(*pause),
                None => {
                    return Err(CheckpointError::GitProgram {
                        doing: "worktree add",
                        reason: output.reason,
                    });
                }
            }
        }
    }

    /// Lets one piton process at a time add or remove worktrees, until the returned file is closed.
    ///
    /// `git worktree add` reads the data of all other worktrees and fails ("failed to read
    /// …/commondir") if another process has created only half of one.
    fn lock_worktrees(&self) -> Result<File, CheckpointError> {
        let folder = self.git.commondir().join("piton");
        let path = folder.join("worktrees.lock");
        let locking = || CheckpointError::io("lock", &path);
        std::fs::create_dir_all(&folder).map_err(locking())?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(locking())?;
        flock(&file, FlockOperation::LockExclusive).map_err(|err| locking()(err.into()))?;
        Ok(file)
    }

    /// Removes a worktree, unless that would lose changes. Ignored files are removed with it.
    pub fn remove_worktree(
        &self,
        variables: &Variables,
        worktree: &LinkedWorktree,
    ) -> Result<Removal, CheckpointError> {
        if worktree.exists {
            let uncommitted = self.uncommitted_in(variables, worktree)?;
            if !uncommitted.is_empty() {
                return Ok(Removal::Uncommitted(uncommitted));
            }
        }
        let arguments: [&OsStr; 3] = [
            "worktree".as_ref(),
            "remove".as_ref(),
            worktree.path.as_os_str(),
        ];
        let _turn = self.lock_worktrees()?;
        let output = run_git(
            variables,
            self.git_dir(),
            self.top(),
            "worktree remove",
            &arguments,
        )?;
        Ok(if output.succeeded {
            Removal::Removed
        } else {
            Removal::Refused(output.reason)
        })
    }

    /// The uncommitted files of a worktree: modified, staged, or neither tracked nor ignored.
    pub fn uncommitted_in(
        &self,
        variables: &Variables,
        worktree: &LinkedWorktree,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let arguments = [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=normal",
            "--ignore-submodules=none",
        ]
        .map(OsStr::new);
        let output = run_git(
            variables,
            &worktree.git_dir,
            &worktree.path,
            "status",
            &arguments,
        )?;
        if !output.succeeded {
            return Err(CheckpointError::GitProgram {
                doing: "status",
                reason: output.reason,
            });
        }
        let lines = output
            .stdout
            .split(|byte| *byte == 0)
            .filter_map(|line| line.get(3..));
        Ok(lines
            .filter(|path| !path.is_empty())
            .map(RepoPath::from_bytes)
            .collect())
    }

    /// Whether a commit contains submodules, which a new worktree does not check out.
    pub fn has_submodules(&self, commit: ObjectId) -> Result<bool, CheckpointError> {
        let objects = Objects::of(self)?;
        let tree = self.tree_of(Some(commit))?;
        let modules = tree::find(
            &objects,
            tree,
            &RepoPath::from_bytes(b".gitmodules".as_slice()),
        )?;
        Ok(modules.is_some_and(|entry| entry.mode != FileMode::Gitlink))
    }

    /// The commit of a branch.
    pub fn find_branch(&self, name: &str) -> Result<Option<ObjectId>, CheckpointError> {
        self.find_ref(name, "read the branch")
    }

    /// Creates a branch; succeeds if it already exists at the same commit.
    pub fn make_branch(&self, name: &str, commit: ObjectId) -> Result<(), CheckpointError> {
        match self.find_branch(name)? {
            Some(found) if found == commit => Ok(()),
            Some(found) => Err(CheckpointError::HeadMoved {
                expected: None,
                found: Some(found),
            }),
            None => {
                move_ref(self, name, None, commit, "piton: finish")?;
                sync_ref(self, name)
            }
        }
    }

    /// The name of this worktree below `worktrees/`; empty for the main one.
    pub fn worktree_name(&self) -> String {
        let name = self
            .git
            .path()
            .strip_prefix(self.git.commondir().join("worktrees"))
            .ok();
        name.map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Removes a branch if it is still at a commit and no worktree has it checked out.
    pub fn remove_branch(&self, name: &str, commit: ObjectId) -> Result<(), CheckpointError> {
        let is_used = self
            .linked_worktrees()?
            .iter()
            .any(|worktree| worktree.branch.as_deref() == Some(name))
            || self.head_of(self.git.commondir())?.as_deref() == Some(name);
        if is_used {
            Ok(())
        } else {
            remove_refs(self, &[(name, commit)])
        }
    }
}

/// The current work tree of a linked worktree, or of the main one for an empty name; `None` if it
/// is gone.
pub fn root_of(common_dir: &Path, name: &str) -> Option<PathBuf> {
    let root = if name.is_empty() {
        // In other layouts git's settings contain the path, which may be outdated.
        common_dir
            .parent()
            .filter(|_| common_dir.ends_with(".git"))
            .map(Path::to_path_buf)
    } else {
        let link =
            std::fs::read_to_string(common_dir.join("worktrees").join(name).join("gitdir")).ok()?;
        Path::new(link.trim_end()).parent().map(Path::to_path_buf)
    };
    root.and_then(|root| root.canonicalize().ok())
}

fn run_git(
    variables: &Variables,
    git_dir: &Path,
    work_tree: &Path,
    doing: &'static str,
    arguments: &[&OsStr],
) -> Result<GitOutput, CheckpointError> {
    // Without hooks; with paths that any git understands; and count untracked files even if the
    // user's settings hide them, because `git worktree remove` asks `git status`.
    let settings = [
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "worktree.useRelativePaths=false",
        "-c",
        "status.showUntrackedFiles=normal",
    ]
    .map(OsStr::new);
    let arguments = [settings.as_slice(), arguments].concat();
    GitProgram::new(variables.clone(), git_dir, work_tree).run(doing, &arguments, &[], None, LIMIT)
}
