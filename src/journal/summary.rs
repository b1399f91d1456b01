//! What came of a run: the last line of its journal and of `--format json`.
//!
//! [`RunSummary`] is that line. Its list of steps has a bound, so that a run of ten thousand steps needs no more memory
//! than one of a thousand: [`StepList`] keeps the newest and counts them all. The journal holds every step.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::RunId;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::problem::Problem;

/// So many steps are listed at most, the newest.
pub const MOST_LISTED: usize = 1000;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// The directive; none for a single command.
    pub directive: Option<String>,
    /// How it ended.
    pub status: RunStatus,
    /// Its steps, in order; of a long run the newest [`MOST_LISTED`].
    pub steps: Vec<StepSummary>,
    /// How many earlier steps are not listed. The journal has them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_omitted: u64,
    /// What came of all steps, in numbers, where not all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_totals: Option<StepTotals>,
    /// What the directive returns.
    #[serde(default)]
    pub outputs: Map<String, Value>,
    /// Files that its steps changed and no commit holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<RepoPath>,
    /// Why it did not succeed.
    pub error: Option<Problem>,
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
    /// The signal that ended its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What became of its changes.
    pub checkpoint: Option<CheckpointSummary>,
}

/// What came of the steps of a run, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepTotals {
    /// Steps that were done.
    pub succeeded: u64,
    /// Steps that failed, or whose checkpoint did.
    pub failed: u64,
    /// Steps that were not allowed.
    pub denied: u64,
    /// Steps that were interrupted.
    pub cancelled: u64,
    /// Steps whose condition did not hold.
    pub skipped: u64,
    /// Steps that wait for somebody.
    pub waiting: u64,
    /// Steps in whose middle piton died, and that were run again.
    pub cut_off: u64,
    /// Steps whose changes are a commit.
    pub committed: u64,
}

/// The steps of a run as they end: the newest in a list, all of them in numbers.
#[derive(Clone, Debug, Default)]
pub struct StepList {
    newest: VecDeque<StepSummary>,
    omitted: u64,
    totals: StepTotals,
}

impl StepList {
    /// Takes in a step that has ended, was skipped, or waits.
    pub fn push(&mut self, step: StepSummary) {
        self.totals.count(&step);
        if self.newest.len() >= MOST_LISTED {
            self.newest.pop_front();
            self.omitted += 1;
        }
        self.newest.push_back(step);
    }

    /// What a summary says about them: those that are listed, how many are not, and then all in numbers.
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
    /// Steps that were not skipped.
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
    /// What came of all its steps, those that are not listed as well.
    pub fn totals(&self) -> StepTotals {
        self.step_totals.unwrap_or_else(|| {
            let mut totals = StepTotals::default();
            self.steps.iter().for_each(|step| totals.count(step));
            totals
        })
    }
}

impl StepSummary {
    /// Of a step about whose changes there is nothing to say.
    pub fn without_changes(name: String, status: StepStatus) -> Self {
        Self { name, status, tool: None, exit_code: None, signal: None, checkpoint: None }
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
