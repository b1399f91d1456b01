//! Reading knowledge; signing, validating, creating, updating and deleting items.

use std::sync::Arc;

use crate::mcp::arguments::Arguments;
use crate::mcp::call::{Caller, Reply};
use crate::mcp::desk::Desk;
use crate::mcp::failure::Failure;

/// Not there yet.
pub(super) async fn read(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn sign(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn validate(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn create(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn update(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}

/// Not there yet.
pub(super) async fn delete(_desk: &Arc<Desk>, _arguments: Arguments, _caller: &Caller) -> Result<Reply, Failure> {
    Err(Failure::argument("this action is not there yet"))
}
