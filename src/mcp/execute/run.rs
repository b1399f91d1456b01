//! Going on with a run, looking at it, ending it, taking a step back.

use std::sync::Arc;

use crate::mcp::arguments::Arguments;
use crate::mcp::call::{Caller, Reply};
use crate::mcp::desk::Desk;
use crate::mcp::failure::Failure;

/// Not there yet.
pub(super) async fn go_on(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn status(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn cancel(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn undo(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}
