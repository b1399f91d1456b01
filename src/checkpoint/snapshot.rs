//! The state of a work tree at one moment, as data.
//!
//! A [`Snapshot`] is what the journal stores. The content is a tree of the raw bytes on disk; what of
//! it is in no commit lies in the private store, which keeps it because the journal names it. What a tree cannot hold (permission bits beyond `x`, empty folders) is in
//! the record itself. Two records are all that a delta or a roll back needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::object::{FileMode, ObjectId};
use super::path::RepoPath;

/// The work tree, the index and HEAD at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The files of the work tree with their bytes as they are on disk.
    pub tree: ObjectId,
    /// What was staged.
    pub index_tree: ObjectId,
    /// Where HEAD was.
    pub head: Head,
    /// The commit that kept all of it reachable, in journals of versions that pinned snapshots by refs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<ObjectId>,
    /// The permission bits of files and folders.
    pub permissions: Permissions,
    /// The folders without anything in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty_folders: Vec<RepoPath>,
    /// The files that were only announced (`git add -N`), which no tree of the index shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced: Vec<RepoPath>,
    /// What lies in the work tree and is outside of checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// Where HEAD points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The full name of the branch, e.g. `refs/heads/main`; none when detached.
    pub branch: Option<String>,
    /// The commit; none on an unborn branch.
    pub commit: Option<ObjectId>,
}

impl Head {
    /// How HEAD has moved, if it has.
    pub(crate) fn moved_to(&self, now: &Self) -> Option<CheckpointError> {
        if self.branch != now.branch {
            let name = |head: &Self| head.branch.clone().unwrap_or_else(|| "detached HEAD".to_owned());
            return Some(CheckpointError::BranchSwitched { expected: name(self), found: name(now) });
        }
        (self.commit != now.commit).then_some(CheckpointError::HeadMoved { expected: self.commit, found: now.commit })
    }
}

/// The permission bits (`0o7777`) of a work tree: the usual ones and the exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// Of most files that are not executable.
    pub file: u32,
    /// Of most executable files.
    pub executable: u32,
    /// Of most folders.
    pub folder: u32,
    /// Files and folders that differ from those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exceptions: BTreeMap<RepoPath, u32>,
}

/// Something in the work tree that checkpoints neither hold nor touch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    /// Where it is.
    pub path: RepoPath,
    /// Why.
    #[serde(flatten)]
    pub reason: LeftOutReason,
}

/// Why something is outside of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum LeftOutReason {
    /// A file over `checkpoint.max_file_size`.
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// When it was last changed, in nanoseconds since 1970: a change of it can be told.
        modified: i64,
    },
    /// A repository of its own inside the work tree.
    NestedRepository,
    /// A pipe, socket or device.
    SpecialFile,
    /// The user told git to overlook it (skip-worktree or assume-unchanged), and it differs.
    Overlooked,
    /// An untracked file or folder that piton may not read.
    Unreadable,
}

/// What permission bits are recorded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionKind {
    File,
    Executable,
    Folder,
}

impl PermissionKind {
    /// The kind of a file; links and other repositories have no bits of their own.
    pub(crate) fn of(mode: FileMode) -> Option<Self> {
        match mode {
            FileMode::Regular => Some(Self::File),
            FileMode::Executable => Some(Self::Executable),
            FileMode::Symlink | FileMode::Gitlink => None,
        }
    }
}

impl Permissions {
    /// The bits of a file or folder.
    pub(crate) fn of(&self, path: &RepoPath, kind: PermissionKind) -> u32 {
        self.exceptions.get(path).copied().unwrap_or(match kind {
            PermissionKind::File => self.file,
            PermissionKind::Executable => self.executable,
            PermissionKind::Folder => self.folder,
        })
    }
}
