//! A step during which the disk failed: full, over quota or broken.
//!
//! After that piton can write nothing, so the end of the step is not recorded. The step stays open
//! as if piton had been killed, and the next recovery ends it. [`RecoveryAction`] predicts what the
//! recovery will do.

use super::error::RunError;
use super::recorder::Recorder;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{AfterFailure, Decision, StepKind};

/// What a recovery does with the changes of an open step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Rolls them back.
    PutBack,
    /// Makes the commit that was decided.
    Commit,
    /// Records them and leaves them on disk.
    Keep,
    /// Asks the person again.
    Ask,
    /// The step changed nothing.
    Nothing,
}

impl RecoveryAction {
    /// For a step without a recorded decision.
    pub(super) fn of_undecided(
        kind: &StepKind,
        mode: CheckpointMode,
        in_directive: InDirective,
    ) -> Self {
        match kind {
            StepKind::Checkpoint { .. } | StepKind::Human { .. } => Self::Nothing,
            StepKind::Prose { .. } => Self::Ask,
            // A directive repeats the step from its start.
            _ if in_directive == InDirective::Yes => Self::PutBack,
            StepKind::Command {
                on_failure: Some(AfterFailure::Keep),
                ..
            } => Self::Keep,
            StepKind::Command {
                on_failure: Some(AfterFailure::Rollback),
                ..
            } => Self::PutBack,
            // Only commands and tools may leave their changes: half an undo is useless.
            StepKind::Command { .. } | StepKind::Tool(_) if mode != CheckpointMode::Auto => {
                Self::Keep
            }
            _ => Self::PutBack,
        }
    }

    /// For a step with a recorded decision.
    pub(super) fn of_decision(decision: &Decision) -> Self {
        match decision {
            Decision::Commit { .. } => Self::Commit,
            Decision::RollBack { .. } => Self::PutBack,
            _ => Self::Keep,
        }
    }

    /// What to do, and what happens then.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::PutBack => {
                "its changes are on disk and not committed; once the disk works, `piton recover` or the next command rolls them back"
            }
            Self::Commit => {
                "once the disk works, `piton recover` or the next command commits its changes"
            }
            Self::Keep => {
                "its changes are on disk and stay; once the disk works, `piton recover` records them and `piton undo` reverts them"
            }
            Self::Ask => {
                "its changes are on disk and stay; once the disk works, `piton recover` makes the run wait for you"
            }
            Self::Nothing => "nothing was committed; once the disk works, try again",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InDirective {
    Yes,
    No,
}

/// Wraps an error in the middle of a step with the recovery action, if the disk is at fault.
pub(super) fn explain(recorder: &Recorder<'_>, err: RunError) -> RunError {
    let is_of_disk = match &err {
        RunError::Checkpoint(err) => err.is_fault_of_system(),
        RunError::Journal(_) => true,
        _ => false,
    };
    match recorder.open_recovery {
        Some(recovery) if is_of_disk && recorder.open_step.is_some() => RunError::Unsettled {
            recovery,
            source: Box::new(err),
        },
        _ => err,
    }
}
