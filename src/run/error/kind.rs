//! Classifies errors: what is at fault, and whether a run can continue.

use super::RunError;
use crate::audit::error::AuditError;
use crate::authoring::ItemStepError;
use crate::checkpoint::error::CheckpointError;
use crate::exec::call::CallError;
use crate::exec::subprocess::SubprocessError;

impl RunError {
    /// Whether the repository or the machine is the cause.
    pub fn is_unsafe(&self) -> bool {
        match self {
            Self::Checkpoint(err) => err.is_unsafe(),
            Self::Worktree(err) => err.is_unsafe(),
            Self::Finish(err) => err.is_unsafe(),
            Self::Foreseen { first, .. } => first.is_unsafe(),
            Self::Journal(_)
            | Self::Lock(_)
            | Self::InsideRun(_)
            | Self::Signals(_)
            | Self::Recovery { .. }
            | Self::Sandbox { .. }
            | Self::RunWaits(_)
            | Self::Pin(_)
            | Self::PinDamaged { .. }
            | Self::Marker(_)
            | Self::Subprocess(SubprocessError::Hidden(_))
            | Self::Supervisor(_) => true,
            Self::Call(CallError::Failed(failure)) => failure.kind.is_of_machine(),
            Self::InStep { source, .. } => source.is_unsafe(),
            _ => false,
        }
    }

    /// Whether the run still waits for the same answer.
    pub fn is_asked_again(&self) -> bool {
        matches!(self, Self::ShownChanged { .. })
    }

    /// Whether the user or the caller asked to stop.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Self::Author(err) => err.is_interrupted(),
            Self::Checkpoint(err) => err.is_interrupted(),
            _ => matches!(self, Self::Call(CallError::Interrupted)),
        }
    }

    /// Whether a permission or the signature policy forbids it.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Lower(err) => err.is_denied(),
            Self::Author(err) => err.is_denied(),
            Self::Cache(_) => true,
            Self::Value(err) => err.is_denied(),
            Self::Foreseen { first, .. } => first.is_denied(),
            Self::InStep { source, .. } => source.is_denied(),
            _ => false,
        }
    }

    /// Whether a run cannot continue after it, because nothing more can be recorded.
    pub(in crate::run) fn ends_run(&self) -> bool {
        matches!(
            self,
            Self::Journal(_)
                | Self::Lock(_)
                | Self::Signals(_)
                | Self::Unfinished(_)
                | Self::Unsettled { .. }
                | Self::Marker(_)
        )
    }

    /// Whether the request is invalid.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Worktree(err) => return err.is_usage(),
            Self::Finish(err) => return err.is_usage(),
            Self::Author(err) => return err.is_usage(),
            Self::Foreseen { first, .. } => return first.is_usage(),
            // The operation ran: a file was invalid or could not be written.
            Self::Item(ItemStepError::NotSignable { .. } | ItemStepError::Unwritable { .. }) => {
                return false;
            }
            _ => {}
        }
        matches!(
            self,
            Self::InvalidGlob { .. }
                | Self::NothingToRollBack
                | Self::Elsewhere { .. }
                | Self::NoDirective(_)
                | Self::InvalidDirective { .. }
                | Self::NoSteps { .. }
                | Self::Reference(_)
                | Self::OutsidePath(_)
                | Self::NoSuchPath(_)
                | Self::NoSuchFile { .. }
                | Self::NotConfirmed(_)
                | Self::Acceptance(_)
                | Self::Subprocess(_)
                | Self::Lookup(_)
                | Self::Lower(_)
                | Self::Requirements { .. }
                | Self::Call(CallError::NotInstalled { .. })
                | Self::NotResumable { .. }
                | Self::Restart(_)
                | Self::NothingWaits
                | Self::WrongAnswer(_)
                | Self::NothingAsked(_)
                | Self::Inputs { .. }
                | Self::Value(_)
                | Self::Item(_)
                | Self::AgentCommand(_)
                | Self::RelativeAgent { .. }
                | Self::Required { .. }
                | Self::InStep { .. }
                | Self::Audit(AuditError::StaysHere { .. } | AuditError::NoSuchLine { .. })
                | Self::Checkpoint(
                    CheckpointError::InvalidMessage { .. }
                        | CheckpointError::InvalidAllowance { .. }
                        | CheckpointError::UnknownRemote { .. }
                )
        )
    }
}
