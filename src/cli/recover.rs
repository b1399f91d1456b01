//! `piton recover`: bringing a run that was cut off to an end, and saying what was done.

use super::render;
use super::ui::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::recovery;

/// Brings a run that was cut off to an end and says what was done
///
/// Every command that changes something does this first; this one does nothing else. A step that was
/// running is rolled back, a decision that was written down is carried out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton recover               After a crash, before you go on by hand")]
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
