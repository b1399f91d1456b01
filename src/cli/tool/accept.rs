//! `piton tool accept`: a person's word that a tool of an MCP server may be what it is now.

use crate::cli::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::run::tool;

/// Accepts that a tool of an MCP server is not what it was
///
/// What a server says about a tool is kept when that is called first. When it says something else later the call is
/// refused, and shows what is different; this accepts exactly what was refused. It calls no server. Agents and
/// directives cannot do it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton tool accept say_hello             The tool of a server that was refused
  piton tool accept files read_file       One tool of a server
  piton tool accept files                 All of its tools that were refused
  piton tool accept files --format json   What was accepted, with all that changed")]
pub(super) struct AcceptArguments {
    /// The tool, or the MCP server that has it: `id` or `category/id`.
    #[arg(value_name = "ID")]
    id: String,
    /// What the server calls the tool; all that were refused, by default.
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(super) fn run(arguments: &AcceptArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let accepted = tool::accept(ctx, &store, &arguments.id, arguments.name.as_deref())?;
    if ui.format() == Format::Json {
        ui.json(&accepted)?;
        return Ok(ExitStatus::Success);
    }
    for changed in &accepted {
        ui.line(&format!("accepted: the tool `{}` of `{}`", changed.tool, changed.server))?;
        for change in &changed.changes {
            ui.line(&format!("  {change}"))?;
        }
    }
    Ok(ExitStatus::Success)
}
