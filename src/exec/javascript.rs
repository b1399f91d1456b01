//! Running a function in JavaScript, in a worker.

use serde::{Deserialize, Serialize};

use super::worker::{End, Failure, FailureKind};

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {}

impl Job {
    /// Does it.
    pub(super) fn carry_out(self) -> End {
        Failure::new(FailureKind::Job, "cannot be done").into()
    }
}
