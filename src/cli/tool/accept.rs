//! `piton tool accept`: accepts a changed definition of an MCP tool.

use crate::cli::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::run::tool;

/// Accept a changed tool of an MCP server
///
/// piton records the description of an MCP tool when you first call it. If the server later describes
/// the tool differently, piton refuses the call and shows the difference. This command accepts exactly
/// that difference. It does not call the server. Agents and directives cannot run it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton tool accept say_hello             Accept a refused tool
  piton tool accept files read_file       Accept one tool of a server
  piton tool accept files                 Accept all refused tools of a server
  piton tool accept files --format json   Print what was accepted as JSON")]
pub(super) struct AcceptArguments {
    /// Tool, or its MCP server: `id` or `category/id`.
    #[arg(value_name = "ID")]
    id: String,
    /// Name of the tool on the server; by default all refused tools.
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(super) fn run(
    arguments: &AcceptArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let accepted = tool::accept(ctx, &store, &arguments.id, arguments.name.as_deref())?;
    if ui.format() == Format::Json {
        ui.json(&accepted)?;
        return Ok(ExitStatus::Success);
    }
    for changed in &accepted {
        ui.line(&format!(
            "accepted: the tool `{}` of `{}`",
            changed.tool, changed.server
        ))?;
        for change in &changed.changes {
            ui.line(&format!("  {change}"))?;
        }
    }
    Ok(ExitStatus::Success)
}
