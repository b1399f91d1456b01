//! The state of a work tree at one moment, as data.
//!
//! The journal stores a [`Snapshot`]. Its content is a tree of the raw bytes on disk; uncommitted
//! content is in the private store, which keeps it because the journal refers to it. The record
//! itself has what a tree cannot express (permission bits other than `x`, empty folders). A delta
//! or a roll back needs only two records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::object::{FileMode, ObjectId};
use super::path::RepoPath;

/// The work tree, the index and HEAD at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The files of the work tree with their raw bytes.
    pub tree: ObjectId,
    /// The staged files.
    pub index_tree: ObjectId,
    pub head: Head,
    /// The commit that kept the objects reachable, in journals of versions that pinned snapshots by
    /// refs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<ObjectId>,
    /// The permission bits of files and folders.
    pub permissions: Permissions,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty_folders: Vec<RepoPath>,
    /// `git add -N` entries, which the tree of the index does not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced: Vec<RepoPath>,
    /// Files outside of checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The full name of the branch, e.g. `refs/heads/main`; `None` if detached.
    pub branch: Option<String>,
    /// The commit; `None` on an unborn branch.
    pub commit: Option<ObjectId>,
}

impl Head {
    /// How HEAD has moved, if it has.
    pub(crate) fn moved_to(&self, now: &Self) -> Option<CheckpointError> {
        if self.branch != now.branch {
            let name = |head: &Self| {
                head.branch
                    .clone()
                    .unwrap_or_else(|| "detached HEAD".to_owned())
            };
            return Some(CheckpointError::BranchSwitched {
                expected: name(self),
                found: name(now),
            });
        }
        (self.commit != now.commit).then_some(CheckpointError::HeadMoved {
            expected: self.commit,
            found: now.commit,
        })
    }
}

/// The permission bits (`0o7777`) of a work tree: defaults and exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// For non-executable files.
    pub file: u32,
    /// For executable files.
    pub executable: u32,
    /// For folders.
    pub folder: u32,
    /// Files and folders with other bits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exceptions: BTreeMap<RepoPath, u32>,
}

/// Something in the work tree that commits of steps neither contain nor touch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    pub path: RepoPath,
    /// Whether the tree has its files all the same, because the snapshot before the step has them:
    /// a roll back restores them, a commit never contains them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
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
        /// When it was last changed, in nanoseconds since 1970, to detect changes.
        modified: i64,
    },
    /// A nested repository.
    NestedRepository,
    /// A pipe, socket or device.
    SpecialFile,
    /// The user told git to overlook it (skip-worktree or assume-unchanged), and it differs.
    Overlooked,
    /// An untracked file or folder that piton may not read.
    Unreadable,
}

/// The kinds of paths with permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionKind {
    File,
    Executable,
    Folder,
}

impl PermissionKind {
    /// The kind of a file; links and gitlinks have no bits.
    pub(crate) fn of(mode: FileMode) -> Option<Self> {
        match mode {
            FileMode::Regular => Some(Self::File),
            FileMode::Executable => Some(Self::Executable),
            FileMode::Symlink | FileMode::Gitlink => None,
        }
    }
}

impl Permissions {
    pub(crate) fn of(&self, path: &RepoPath, kind: PermissionKind) -> u32 {
        self.exceptions.get(path).copied().unwrap_or(match kind {
            PermissionKind::File => self.file,
            PermissionKind::Executable => self.executable,
            PermissionKind::Folder => self.folder,
        })
    }
}
