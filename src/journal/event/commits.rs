//! Commits that piton did not make, replacements of its own commits, and what happens to the
//! commits it made.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::checkpoint::delta::Change;
use crate::checkpoint::object::ObjectId;
use crate::journal::id::StepId;

/// A commit that was made with git, not by piton.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandCommit {
    pub commit: ObjectId,
    pub by: CommitMaker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitMaker {
    /// A process of the step: its tool, its command or its agent.
    Step,
    /// Another process or a person in the same worktree.
    #[serde(rename = "somebody")]
    Other,
    /// A kind that a newer piton writes.
    #[serde(other)]
    Unknown,
}

/// A checkpoint commit that was replaced by another commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenCommit {
    /// The step of the checkpoint.
    pub step: StepId,
    pub old: ObjectId,
    pub new: ObjectId,
    /// What the new commit changes against its parent.
    #[serde(default)]
    pub delta: Vec<Change>,
    /// Whether the new commit makes the same changes as the old one, on another base.
    pub same_changes: bool,
}

/// A person's acceptance of a checkpoint whose changes were not found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The step of the checkpoint.
    pub of: StepId,
    /// The recorded commit; none if the step made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<ObjectId>,
    /// The commits that name the step but change something else. Empty when the commit is only
    /// gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<AcceptedCommit>,
    /// The person's name and address, as git has them.
    pub by: String,
    /// Where the person was asked, e.g. `terminal`.
    pub channel: String,
    pub at: Timestamp,
    pub reason: String,
}

/// A commit that a person accepts instead of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedCommit {
    pub commit: ObjectId,
    /// The tree that was accepted.
    pub tree: ObjectId,
    /// What the commit changes against its parent.
    #[serde(default)]
    pub delta: Vec<Change>,
}

/// What happens to the commits of a run that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishHow {
    Keep,
    /// The current branch gets one commit with all of their changes; a ref keeps the originals.
    Squash,
    Branch,
}

impl FinishHow {
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Squash => "squash",
            Self::Branch => "branch",
        }
    }
}
