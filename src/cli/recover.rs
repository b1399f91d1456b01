//! `piton recover`: bringing a run that was cut off to an end, and saying what was done.

use super::render;
use super::ui::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::recovery;

/// Recover from an interrupted run
///
/// Every command that changes something recovers first; this command does nothing else. piton rolls
/// back a step that was still running and completes a commit or rollback that was already recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton recover               After a crash, before you edit files by hand")]
pub(super) struct RecoverArguments {}

pub(super) fn run(ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let told = recovery::recover_now(ctx, &mut |event| {
        if ui.format() == Format::Human {
            render::event(ui, event);
        }
    })?;
    if ui.format() == Format::Json {
        ui.json(&serde_json::json!({ "recovered": told }))?;
    } else if told.is_empty() {
        ui.success("nothing was cut off");
    }
    Ok(ExitStatus::Success)
}
