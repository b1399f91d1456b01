//! Converts errors of lower modules to errors of a run.

use super::RunError;
use crate::audit::error::AuditError;
use crate::audit::reference::MomentError;
use crate::authoring::ItemStepError;
use crate::exec::ResolveError;
use crate::exec::ssh::SshError;
use crate::trust::keys::TrustError;

impl From<MomentError> for RunError {
    fn from(err: MomentError) -> Self {
        match err {
            MomentError::Reference(err) => err.into(),
            MomentError::Checkpoint(err) => err.into(),
        }
    }
}

impl From<AuditError> for RunError {
    fn from(err: AuditError) -> Self {
        match err {
            AuditError::Checkpoint(err) => err.into(),
            AuditError::Journal(err) => err.into(),
            err => Self::Audit(err),
        }
    }
}

impl From<ResolveError> for RunError {
    fn from(err: ResolveError) -> Self {
        Self::Lower(Box::new(err))
    }
}

impl From<TrustError> for RunError {
    fn from(err: TrustError) -> Self {
        Self::Author(err.into())
    }
}

impl From<SshError> for RunError {
    fn from(err: SshError) -> Self {
        Self::Author(err.into())
    }
}

impl From<ItemStepError> for RunError {
    fn from(err: ItemStepError) -> Self {
        match err {
            ItemStepError::Author(err) => err.into(),
            err => Self::Item(err),
        }
    }
}
