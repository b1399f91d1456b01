//! Which journal lines must be on disk before the run continues.

use super::event::Event;

/// How recovery after a power loss depends on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reliance {
    /// Recovery can find out the same by itself, or it restarts the step from an earlier line.
    Nothing,
    /// The line states that something is on disk. That must be synced first; the line itself may be
    /// lost.
    Reports,
    /// The line announces the next action, or records what a person or a server said. The line and
    /// the objects it names must be on disk before anything else happens.
    Announces,
}

impl Event {
    pub(super) fn reliance(&self) -> Reliance {
        match self {
            // The work tree is untouched until the step is announced.
            Self::RunStarted { .. }
            | Self::DirectiveStarted { .. }
            | Self::LoopStarted { .. }
            | Self::StepSkipped { .. }
            // Processes do not survive a power loss.
            | Self::ToolStarted { .. }
            | Self::HooksStarted { .. }
            // Recovery compares the work tree again; the decision repeats the result.
            | Self::ToolFinished { .. }
            | Self::ChangesFound { .. }
            | Self::RemainderFound { .. }
            | Self::NoChanges { .. }
            | Self::CheckpointSkipped { .. }
            | Self::CheckpointFailed { .. }
            | Self::StepFinished { .. }
            | Self::DirectiveFinished { .. }
            | Self::RunFinished(_) => Reliance::Nothing,
            Self::Committed { .. } | Self::RolledBack { .. } => Reliance::Reports,
            Self::Answered { .. }
            | Self::Resolved { .. }
            | Self::Waiting { .. }
            | Self::BaseMoved { .. }
            | Self::SentBack { .. }
            | Self::Repinned { .. }
            | Self::RunResumed { .. }
            | Self::StepStarted { .. }
            | Self::ToolDenied { .. }
            | Self::CallStarted { .. }
            | Self::CallFinished { .. }
            | Self::Approved { .. }
            | Self::HandCommitted { .. }
            | Self::Decided { .. }
            | Self::Recovered { .. }
            | Self::SnapshotsDropped { .. }
            | Self::SnapshotsMoved { .. }
            | Self::Rewritten { .. }
            | Self::Accepted(_)
            | Self::Consented(_)
            | Self::Unknown => Reliance::Announces,
        }
    }
}
