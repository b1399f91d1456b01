//! Calling tools of other MCP servers, in a worker.

use serde::{Deserialize, Serialize};

use super::call::Machine;
use super::invocation::{Invocation, Mcp};
use super::worker::{End, Failure, FailureKind};

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {}

impl Job {
    /// The job of a call.
    pub(super) fn new(_mcp: &Mcp, _invocation: &Invocation, _machine: &Machine) -> Self {
        Self {}
    }

    /// Does it.
    pub(super) fn carry_out(self) -> End {
        Failure::new(FailureKind::Job, "cannot be done").into()
    }
}
