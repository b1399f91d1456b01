//! A step in whose middle the disk failed: full, over a quota, broken.
//!
//! Nothing more may be written then, so that no end of the step is recorded. The step stays open as if piton had been
//! killed, and the next recovery brings it to an end. [`RecoveryAction`] says beforehand what that is going to do.

use super::error::RunError;
use super::session::Session;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{AfterFailure, Decision, StepKind};

/// What a recovery does with the changes of a step that was left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// It puts them back.
    PutBack,
    /// It makes the commit that was decided.
    Commit,
    /// It records them and leaves them on disk.
    Keep,
    /// It asks again what becomes of the step.
    Ask,
    /// The step changed nothing.
    Nothing,
}

impl RecoveryAction {
    /// For a step about which nothing was decided.
    pub(super) fn of_undecided(kind: &StepKind, mode: CheckpointMode, in_directive: InDirective) -> Self {
        match kind {
            StepKind::Checkpoint { .. } | StepKind::Human { .. } => Self::Nothing,
            StepKind::Prose { .. } => Self::Ask,
            // A directive runs the step again, from where it began.
            _ if in_directive == InDirective::Yes => Self::PutBack,
            StepKind::Command { on_failure: Some(AfterFailure::Keep), .. } => Self::Keep,
            StepKind::Command { on_failure: Some(AfterFailure::Rollback), .. } => Self::PutBack,
            // Only a command of the user's may leave its work: half an undo is of no use.
            StepKind::Command { .. } | StepKind::Tool(_) if mode != CheckpointMode::Auto => Self::Keep,
            _ => Self::PutBack,
        }
    }

    /// For a step about which something was decided.
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
                "its changes are on disk and not committed; once the disk works, `piton recover` or the next command puts them back"
            }
            Self::Commit => "once the disk works, `piton recover` or the next command commits its changes",
            Self::Keep => {
                "its changes are on disk and stay; once the disk works, `piton recover` records them and `piton undo` takes them back"
            }
            Self::Ask => {
                "its changes are on disk and stay; once the disk works, `piton recover` lets the run wait for you"
            }
            Self::Nothing => "nothing was committed; once the disk works, try again",
        }
    }
}

/// Whether a step belongs to a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InDirective {
    Yes,
    No,
}

impl Session<'_, '_> {
    /// An error in the middle of a step, with what becomes of its changes if the disk is at fault.
    pub(super) fn unsettled(&self, err: RunError) -> RunError {
        let is_of_disk = match &err {
            RunError::Checkpoint(err) => err.is_fault_of_system(),
            RunError::Journal(_) => true,
            _ => false,
        };
        match self.open_recovery {
            Some(recovery) if is_of_disk && self.open_step.is_some() => {
                RunError::Unsettled { recovery, source: Box::new(err) }
            }
            _ => err,
        }
    }
}
