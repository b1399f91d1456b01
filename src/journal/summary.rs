//! The result of a run: the last line of its journal and of `--format json`.
//!
//! The list of steps in [`RunSummary`] is limited, so that a run with ten thousand steps needs no
//! more memory than one with a thousand. [`StepList`] keeps the newest steps and counts all of
//! them. The journal holds every step.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::RunId;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::problem::Problem;

/// The largest number of steps in a summary.
pub const MOST_LISTED: usize = 1000;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    pub run_id: RunId,
    /// None for a single command.
    pub directive: Option<String>,
    pub status: RunStatus,
    /// In order; of a long run only the newest [`MOST_LISTED`].
    pub steps: Vec<StepSummary>,
    /// How many earlier steps are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_omitted: u64,
    /// The numbers of all steps by status, if not all of them are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_totals: Option<StepTotals>,
    #[serde(default)]
    pub outputs: Map<String, Value>,
    /// Files that its steps changed and that are not committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<RepoPath>,
    /// Why it did not succeed.
    pub error: Option<Problem>,
}

/// How a run ended, or that it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Succeeded,
    /// A step or a checkpoint failed.
    Failed,
    /// A permission or the signature policy forbade it.
    Denied,
    /// The run needs an agent, a person or a decision.
    Waiting,
    Cancelled,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSummary {
    pub name: String,
    pub status: StepStatus,
    pub tool: Option<String>,
    /// The exit status of its command; none if a signal ended it.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The signal that ended its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What happened to its changes.
    pub checkpoint: Option<CheckpointSummary>,
}

/// The numbers of steps by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepTotals {
    pub succeeded: u64,
    /// Steps that failed, or whose checkpoint failed.
    pub failed: u64,
    pub denied: u64,
    pub cancelled: u64,
    /// Steps whose condition was false.
    pub skipped: u64,
    /// Steps that wait for a person or an agent.
    pub waiting: u64,
    /// Steps during which piton died, and that were run again.
    pub cut_off: u64,
    /// Steps whose changes were committed.
    pub committed: u64,
}

/// Collects the steps of a run: lists the newest and counts all.
#[derive(Clone, Debug, Default)]
pub struct StepList {
    newest: VecDeque<StepSummary>,
    omitted: u64,
    totals: StepTotals,
}

impl StepList {
    /// Adds a step that has ended, was skipped, or waits.
    pub fn push(&mut self, step: StepSummary) {
        self.totals.count(&step);
        if self.newest.len() >= MOST_LISTED {
            self.newest.pop_front();
            self.omitted += 1;
        }
        self.newest.push_back(step);
    }

    /// Returns the listed steps, the number of omitted steps and, if there are any, the totals.
    pub fn into_parts(self) -> (Vec<StepSummary>, u64, Option<StepTotals>) {
        let totals = (self.omitted > 0).then_some(self.totals);
        (self.newest.into(), self.omitted, totals)
    }
}

impl Extend<StepSummary> for StepList {
    fn extend<I: IntoIterator<Item = StepSummary>>(&mut self, steps: I) {
        steps.into_iter().for_each(|step| self.push(step));
    }
}

impl StepTotals {
    /// The number of steps that were not skipped.
    pub fn ran(&self) -> u64 {
        self.succeeded + self.failed + self.denied + self.cancelled + self.waiting + self.cut_off
    }

    fn count(&mut self, step: &StepSummary) {
        *match step.status {
            StepStatus::Succeeded => &mut self.succeeded,
            StepStatus::Failed => &mut self.failed,
            StepStatus::Denied => &mut self.denied,
            StepStatus::Cancelled => &mut self.cancelled,
            StepStatus::Skipped => &mut self.skipped,
            StepStatus::Waiting => &mut self.waiting,
            StepStatus::CutOff => &mut self.cut_off,
        } += 1;
        let is_commit = |made: &CheckpointSummary| made.status == CheckpointStatus::Committed;
        self.committed += u64::from(step.checkpoint.as_ref().is_some_and(is_commit));
    }
}

impl RunSummary {
    /// The totals of all steps, including those that are not listed.
    pub fn totals(&self) -> StepTotals {
        self.step_totals.unwrap_or_else(|| {
            let mut totals = StepTotals::default();
            self.steps.iter().for_each(|step| totals.count(step));
            totals
        })
    }
}

impl StepSummary {
    /// A step without a checkpoint.
    pub fn without_changes(name: String, status: StepStatus) -> Self {
        Self {
            name,
            status,
            tool: None,
            exit_code: None,
            signal: None,
            checkpoint: None,
        }
    }
}

impl RunStatus {
    /// A phrase that completes "it has …".
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Succeeded,
    /// The step or its checkpoint failed.
    Failed,
    /// A permission or the signature policy forbade it.
    Denied,
    Cancelled,
    /// Its condition was false.
    Skipped,
    /// The step waits for a person or an agent.
    Waiting,
    /// piton died during the step; the step was rolled back and is run again.
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

/// What happened to the changes of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSummary {
    pub status: CheckpointStatus,
    pub commit_sha: Option<ObjectId>,
    pub files_changed: u64,
    pub insertions: u64,
    pub deletions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointStatus {
    Committed,
    NoChanges,
    RolledBack,
    /// They were left on disk.
    Skipped,
    /// They should have been committed and are still on disk.
    Failed,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
