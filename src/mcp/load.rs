//! `load`: reading an item, and copying it between project and user.

use super::arguments::Arguments;
use super::call::{Answered, Work};
use super::desk::Desk;
use super::failure::Failure;

/// The arguments that it knows.
pub(crate) const ARGUMENTS: [&str; 7] =
    ["item_type", "item_id", "source", "destination", "overwrite", "dry_run", "project_path"];

/// Reads or copies an item.
pub(crate) fn answer(_desk: &Desk, _arguments: &Arguments, _work: &Work) -> Answered {
    Err(Failure::argument("`load` is not there yet"))
}
