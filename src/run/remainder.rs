//! What steps left on disk and no commit has, judged by the disk and by HEAD as they are now.
//!
//! Journals say what steps recorded. Checkpoints, `diff`, `status`, `log` and the end of a run ask here what is
//! really left of it. [`Left`] names the files and the steps.

use super::error::RunError;
use super::session::open_checkpointer;
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::remainder::{EditsSince, Recorded, Remainder};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::journal::StepId;

/// A step whose changes were left on disk.
#[derive(Clone, Debug)]
pub(super) struct KeptStep {
    pub(super) id: StepId,
    /// Where HEAD was before it.
    pub(super) head: Option<ObjectId>,
    pub(super) delta: Delta,
}

impl KeptStep {
    /// Of a step that has recorded changes.
    pub(super) fn of(step: &StepRecord) -> Option<Self> {
        let delta = step.delta.clone().filter(|delta| !delta.changes.is_empty())?;
        let head = step.before.as_ref().and_then(|before| before.head.commit);
        Some(Self { id: step.id, head, delta })
    }

    fn recorded(&self) -> Recorded<'_> {
        Recorded { head: self.head, delta: &self.delta }
    }
}

/// What is left of the changes of steps.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// The files.
    pub files: Remainder,
    /// The steps of which something is left.
    pub steps: Vec<StepId>,
    /// The steps of which nothing is left.
    pub dropped: Vec<StepId>,
}

/// Judges steps, oldest first, and changes that came after them.
pub(super) fn left_of(
    checkpointer: &Checkpointer,
    now: &Snapshot,
    kept: &[KeptStep],
    later: Option<Recorded<'_>>,
    edits: EditsSince,
) -> Result<Left, CheckpointError> {
    let recorded: Vec<Recorded<'_>> = kept.iter().map(KeptStep::recorded).chain(later).collect();
    let files = checkpointer.remainder(now, &recorded, edits)?;
    let mut left = Left::default();
    for (at, step) in kept.iter().enumerate() {
        let steps = if files.left.contains(&at) { &mut left.steps } else { &mut left.dropped };
        steps.push(step.id);
    }
    Ok(Left { files, ..left })
}

/// The steps of this work tree that left changes on disk, oldest first.
pub(super) fn kept_here(history: &History, root: &str) -> Vec<KeptStep> {
    history.pending(root).into_iter().filter_map(KeptStep::of).collect()
}

/// What is left on disk in the work tree of a project; nothing is changed.
pub fn left_here(ctx: &Context, history: &History) -> Result<Left, RunError> {
    let mut checkpointer = match open_checkpointer(ctx) {
        Ok(checkpointer) => checkpointer,
        Err(CheckpointError::NoRepository(_)) => return Ok(Left::default()),
        Err(err) => return Err(err.into()),
    };
    let root = checkpointer.repository().top().to_string_lossy().into_owned();
    let kept = kept_here(history, &root);
    if kept.is_empty() {
        return Ok(Left::default());
    }
    let now = checkpointer.before()?;
    Ok(left_of(&checkpointer, &now, &kept, None, EditsSince::LeaveOut)?)
}
