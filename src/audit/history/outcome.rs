//! What became of the changes of a step.

use serde::Serialize;

use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::journal::Event;
use crate::problem::Code;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepOutcome {
    /// Not recorded yet.
    Open,
    Committed {
        commit: ObjectId,
        message: String,
        files_changed: u64,
        insertions: u64,
        deletions: u64,
    },
    RolledBack {
        /// Where the undone work is kept.
        rescue: Option<String>,
        /// Files that another process or a person had changed since.
        kept: Vec<RepoPath>,
    },
    NoChanges,
    /// The checkpoint failed, and the changes are on disk.
    Failed {
        /// The stable code.
        code: Code,
        /// Why.
        message: String,
    },
    /// The changes are on disk as requested.
    Kept {
        reason: String,
    },
}

impl StepOutcome {
    /// The outcome that an event tells of.
    pub(super) fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Committed {
                commit,
                message,
                files_changed,
                insertions,
                deletions,
                ..
            } => Self::Committed {
                commit: *commit,
                message: message.clone(),
                files_changed: *files_changed,
                insertions: *insertions,
                deletions: *deletions,
            },
            Event::RolledBack { rescue, kept, .. } => Self::RolledBack {
                rescue: rescue.clone(),
                kept: kept.clone(),
            },
            Event::NoChanges { .. } => Self::NoChanges,
            Event::CheckpointFailed { code, message, .. } => Self::Failed {
                code: *code,
                message: message.clone(),
            },
            Event::CheckpointSkipped { reason, .. } => Self::Kept {
                reason: reason.clone(),
            },
            _ => return None,
        })
    }
}
