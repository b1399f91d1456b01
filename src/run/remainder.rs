//! The uncommitted changes of steps, compared with the disk and HEAD as they are now.
//!
//! Journals record the changes at the time of the step. Checkpoints, `diff`, `status`, `log` and
//! the end of a run ask this module which of them are still uncommitted. [`Left`] lists the files
//! and the steps.

use super::error::RunError;
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::remainder::{EditsSince, RecordedChanges, Remainder};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::journal::StepId;
use crate::workspace::open_checkpointer;

/// A step with uncommitted changes.
#[derive(Clone, Debug)]
pub(super) struct KeptStep {
    pub(super) id: StepId,
    /// HEAD before the step.
    pub(super) head: Option<ObjectId>,
    pub(super) delta: Delta,
}

impl KeptStep {
    /// Returns `None` for a step without recorded changes.
    pub(super) fn of(step: &StepRecord) -> Option<Self> {
        let delta = step
            .delta
            .clone()
            .filter(|delta| !delta.changes.is_empty())?;
        let head = step.before.as_ref().and_then(|before| before.head.commit);
        Some(Self {
            id: step.id,
            head,
            delta,
        })
    }

    fn recorded(&self) -> RecordedChanges<'_> {
        RecordedChanges {
            head: self.head,
            delta: &self.delta,
        }
    }
}

/// The uncommitted rest of the changes of steps.
#[derive(Clone, Debug, Default)]
pub struct Left {
    pub files: Remainder,
    /// The steps with uncommitted changes.
    pub steps: Vec<StepId>,
    /// The steps whose changes are all gone.
    pub dropped: Vec<StepId>,
}

/// Finds the uncommitted rest of `kept`, oldest first, and of later changes.
pub(super) fn left_of(
    checkpointer: &Checkpointer,
    now: &Snapshot,
    kept: &[KeptStep],
    later: Option<RecordedChanges<'_>>,
    edits: EditsSince,
) -> Result<Left, CheckpointError> {
    let recorded: Vec<RecordedChanges<'_>> =
        kept.iter().map(KeptStep::recorded).chain(later).collect();
    let files = checkpointer.remainder(now, &recorded, edits)?;
    let mut left = Left::default();
    for (at, step) in kept.iter().enumerate() {
        let steps = if files.left.contains(&at) {
            &mut left.steps
        } else {
            &mut left.dropped
        };
        steps.push(step.id);
    }
    Ok(Left { files, ..left })
}

/// The steps of this work tree with uncommitted changes, oldest first.
pub(super) fn kept_here(history: &History, root: &str) -> Vec<KeptStep> {
    history
        .pending(root)
        .into_iter()
        .filter_map(KeptStep::of)
        .collect()
}

/// The uncommitted changes of steps in a project; read-only.
pub fn left_here(ctx: &Context, history: &History) -> Result<Left, RunError> {
    let mut checkpointer = match open_checkpointer(ctx) {
        Ok(checkpointer) => checkpointer,
        Err(CheckpointError::NoRepository(_)) => return Ok(Left::default()),
        Err(err) => return Err(err.into()),
    };
    let root = checkpointer
        .repository()
        .top()
        .to_string_lossy()
        .into_owned();
    let kept = kept_here(history, &root);
    if kept.is_empty() {
        return Ok(Left::default());
    }
    let now = checkpointer.before()?;
    Ok(left_of(
        &checkpointer,
        &now,
        &kept,
        None,
        EditsSince::LeaveOut,
    )?)
}
