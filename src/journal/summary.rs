//! What came of a run: the last line of its journal and of `--format json`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::RunId;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// The directive; none for a single command.
    pub directive: Option<String>,
    /// How it ended.
    pub status: RunStatus,
    /// Its steps, in order.
    pub steps: Vec<StepSummary>,
    /// What the directive returns.
    #[serde(default)]
    pub outputs: Map<String, Value>,
    /// Files that its steps changed and no commit holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<RepoPath>,
    /// Why it did not succeed.
    pub error: Option<ErrorSummary>,
}

/// How a run ended, or that it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Everything was done.
    Succeeded,
    /// A step or a checkpoint failed.
    Failed,
    /// A permission or the signature policy forbade it.
    Denied,
    /// An agent, a person or a decision is needed.
    Waiting,
    /// It was interrupted.
    Cancelled,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSummary {
    /// Its name.
    pub name: String,
    /// How it ended.
    pub status: StepStatus,
    /// The tool it ran.
    pub tool: Option<String>,
    /// The status its command ended with, where it ended by itself.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// What became of its changes.
    pub checkpoint: Option<CheckpointSummary>,
}

impl StepSummary {
    /// Of a step about whose changes there is nothing to say.
    pub fn without_changes(name: String, status: StepStatus) -> Self {
        Self { name, status, tool: None, exit_code: None, checkpoint: None }
    }
}

impl RunStatus {
    /// How it ended, after "it has".
    pub fn as_participle(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded already",
            Self::Failed => "failed",
            Self::Denied => "been denied",
            Self::Waiting => "to wait",
            Self::Cancelled => "been cancelled",
        }
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// It was done.
    Succeeded,
    /// It or its checkpoint failed.
    Failed,
    /// A permission or the signature policy forbade it.
    Denied,
    /// It was interrupted.
    Cancelled,
    /// Its condition did not hold.
    Skipped,
    /// It waits for somebody.
    Waiting,
    /// piton died in the middle of it; it was put back and is run again.
    CutOff,
}

impl From<StepStatus> for RunStatus {
    /// The status of a run that consists of one step.
    fn from(status: StepStatus) -> Self {
        match status {
            StepStatus::Succeeded | StepStatus::Skipped => Self::Succeeded,
            StepStatus::Failed | StepStatus::CutOff => Self::Failed,
            StepStatus::Waiting => Self::Waiting,
            StepStatus::Denied => Self::Denied,
            StepStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// What became of a step's changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSummary {
    /// In one word.
    pub status: CheckpointStatus,
    /// The commit that holds them.
    pub commit_sha: Option<ObjectId>,
    /// How many files.
    pub files_changed: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
}

/// What became of a step's changes, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointStatus {
    /// They are a commit.
    Committed,
    /// There were none.
    NoChanges,
    /// They were undone.
    RolledBack,
    /// They were left as they are.
    Skipped,
    /// They should have been a commit and are still on disk.
    Failed,
}

/// Why a run did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// The stable code.
    pub code: String,
    /// What happened.
    pub message: String,
    /// The way out.
    pub suggestion: Option<String>,
}
