//! `piton quickstart`: an example project in a fresh temporary folder.
//!
//! Works from any folder and needs neither git identity nor network. The folder is kept, so that it
//! can be looked at afterwards.

use serde_json::json;

use super::init::write_example;
use super::{Format, Ui, directive, tool, validate};
use crate::context::{Context, Environment};
use crate::error::{Error, ExitStatus};
use crate::item::store::ItemStore;
use crate::validation;

/// Makes an example project in a temporary folder and shows what is in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton quickstart            Make the example and look at it")]
pub(super) struct QuickstartArguments {}

pub(super) fn run(ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let options = validate::options(ctx);
    let store = ItemStore::open(ctx.roots(), options.strength);
    let report = validation::validate_items(&store, &options);
    if ui.format() == Format::Json {
        ui.json(&json!({"project": ctx.root.to_string_lossy(), "validation": report}))?;
        return Ok(ExitStatus::Success);
    }
    ui.note(&format!("An example project, in `{}`\n", ctx.root.display()));
    ui.note("$ piton validate");
    validate::human(&report, ctx, ui)?;
    ui.note("\n$ piton directive show hello");
    directive::show("hello", ctx, ui)?;
    ui.note("\n$ piton tool show greet");
    tool::show("greet", ctx, ui)?;
    ui.note("");
    ui.hint(&format!("look around in `{}`, or make your own with `piton init`", ctx.root.display()));
    Ok(ExitStatus::Success)
}

/// Makes the project and opens it.
pub(super) fn make_project(environment: Environment) -> Result<Context, Error> {
    let parent = environment.temporary_folder();
    let folder = tempfile::Builder::new()
        .prefix("piton-quickstart-")
        .tempdir_in(&parent)
        .map_err(|source| Error::Write { file: parent, source })?
        .keep();
    write_example(&folder)?;
    Ok(Context::at(environment, &folder)?)
}
