//! Beginning the run of a directive.

use std::sync::Arc;

use crate::mcp::arguments::Arguments;
use crate::mcp::call::{Caller, Reply};
use crate::mcp::desk::Desk;
use crate::mcp::failure::Failure;

/// Not there yet.
pub(super) async fn run(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}
