//! What became of the changes of a step.

use serde::Serialize;

use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::problem::Code;

/// What became of the changes of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was written about it yet.
    Open,
    /// They are a commit.
    Committed {
        /// The commit.
        commit: ObjectId,
        /// Its message.
        message: String,
        /// How many files it changed.
        files_changed: u64,
        /// Lines added.
        insertions: u64,
        /// Lines removed.
        deletions: u64,
    },
    /// They were put back.
    RolledBack {
        /// Where the undone work is pinned.
        rescue: Option<String>,
        /// Files that another process or a person had changed since.
        kept: Vec<RepoPath>,
    },
    /// There were none.
    NoChanges,
    /// They are on disk, because the checkpoint failed.
    Failed {
        /// The stable code.
        code: Code,
        /// Why.
        message: String,
    },
    /// They are on disk, as was wanted.
    Kept {
        /// Why.
        reason: String,
    },
}
