//! `piton mcp`: the MCP server, for agents.

use std::path::PathBuf;

use super::ui::Ui;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::mcp::desk::Desk;
use crate::mcp::server::Server;

/// Serves agents over MCP, on standard input and output
///
/// Agents find and read items, run tools and directives, and are led through directives step by step; what
/// they change becomes checkpoints. Only the project here and those below `--root` are served.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton mcp                           On standard input and output, as clients start it
  piton mcp --root ~/work             All projects below a folder as well")]
pub(super) struct McpArguments {
    /// A folder whose projects are served as well; may be given several times.
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Lets tools that are called by themselves do no more than this directive allows.
    #[arg(long = "as", value_name = "DIRECTIVE")]
    directive: Option<String>,
}

impl McpArguments {
    /// Whether there are projects to serve besides the one here.
    pub(super) fn names_roots(&self) -> bool {
        !self.roots.is_empty()
    }
}

pub(super) fn run(arguments: &McpArguments, ctx: &Context, _ui: &mut Ui) -> Result<ExitStatus, Error> {
    let server = Server::new(Desk::new(ctx, &arguments.roots, arguments.directive.clone())?);
    crate::mcp::serve_stdio(server)?;
    Ok(ExitStatus::Success)
}
