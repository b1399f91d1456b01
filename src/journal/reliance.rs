//! Which lines of a journal have to be on disk before the run goes on.

use super::event::Event;

/// What a line of the journal is for, once the power is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reliance {
    /// A recovery finds out by itself what the line says, or starts the step again from an earlier line.
    Nothing,
    /// It says that something is on disk: that comes first. The line itself may be lost.
    Reports,
    /// It announces what is done next, or repeats what a person or a server said: what it names and the
    /// line are on disk before anything else happens.
    Announces,
}

impl Event {
    /// What the line of this event is for.
    pub(super) fn reliance(&self) -> Reliance {
        match self {
            // The work tree is untouched until the step is announced.
            Self::RunStarted { .. }
            | Self::DirectiveStarted { .. }
            | Self::LoopStarted { .. }
            | Self::StepSkipped { .. }
            // A process does not survive a power loss.
            | Self::ToolStarted { .. }
            | Self::HooksStarted { .. }
            // A recovery compares the work tree again; what was compared is announced with the decision.
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
            | Self::Unknown => Reliance::Announces,
        }
    }
}
