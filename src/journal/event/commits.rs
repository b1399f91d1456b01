//! Commits that piton did not make: by hand while a step was open, and in the place of its own.

use serde::{Deserialize, Serialize};

use crate::checkpoint::delta::Change;
use crate::checkpoint::object::ObjectId;
use crate::journal::id::StepId;

/// A commit that was made with git itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandCommit {
    /// The commit.
    pub commit: ObjectId,
    /// Who made it.
    pub by: Maker,
}

/// Who made a commit while a step was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Maker {
    /// A process of the step: its tool, its command, its agent.
    Step,
    /// Somebody at work in the same worktree.
    Somebody,
    /// Whom a newer piton knows.
    #[serde(other)]
    Unknown,
}

/// A commit of a checkpoint that another one has replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenCommit {
    /// The step whose checkpoint it is.
    pub step: StepId,
    /// The commit that was replaced.
    pub old: ObjectId,
    /// The commit in its place.
    pub new: ObjectId,
    /// What that one changes against its parent.
    #[serde(default)]
    pub delta: Vec<Change>,
    /// Whether that is, on another base, what the old one changed.
    pub same_changes: bool,
}

/// What becomes of the commits of a run that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishHow {
    /// They become part of the current branch.
    Keep,
    /// The current branch gets one commit with all of their changes; a ref keeps them.
    Squash,
    /// They stay on a branch of their own.
    Branch,
}

impl FinishHow {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Squash => "squash",
            Self::Branch => "branch",
        }
    }
}
