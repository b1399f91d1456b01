//! `piton tool`: listing, showing and running tools.

mod accept;
mod run;
mod show;

use std::ffi::OsString;

use super::items::Source;
use super::{Format, Ui, search};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::store::ItemKind;
use crate::run::tool::ToolResult;

pub(super) use run::read_values;
pub(super) use show::{author_of, told_signature, with_author};

/// List, show and run tools.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton tool list                        List the tools of this project
  piton tool show greet                  Show a tool
  piton tool run greet --param who=Ada   Run a tool")]
pub(super) struct ToolArguments {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ToolCommand {
    List(ListArguments),
    Run(Box<run::RunArguments>),
    Show(show::ShowArguments),
    Accept(accept::AcceptArguments),
}

/// List tools
///
/// Lists the tools of the project and your own, by name. `piton search` finds tools by words and has more filters.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton tool list                  Tools of this project and your own
  piton tool list --source all     Include built-in tools
  piton tool list --format json    Print JSON")]
struct ListArguments {
    /// Where to look.
    #[arg(long, value_enum, default_value_t)]
    source: Source,
}

/// Whether a command line will call a tool, seen before it is parsed; a wrong guess costs little.
pub(super) fn is_call(words: &[OsString]) -> bool {
    let says = |at: usize, word: &str| words.get(at).is_some_and(|found| found == word);
    let only_asks = words.iter().any(|word| word == "--dry-run" || word == "--help" || word == "-h");
    says(1, "tool") && says(2, "run") && !only_asks
}

impl ToolArguments {
    /// What `--format json` ends with when the command could not be done, where that has a shape of its own.
    pub(super) fn failure(&self, err: &Error) -> Option<ToolResult> {
        match &self.command {
            ToolCommand::Run(run) => Some(run::failure(run, err)),
            ToolCommand::List(_) | ToolCommand::Show(_) | ToolCommand::Accept(_) => None,
        }
    }

    /// The formats in which the result can be written.
    pub(super) fn formats(&self) -> &'static [Format] {
        match self.command {
            ToolCommand::List(_) | ToolCommand::Run(_) | ToolCommand::Accept(_) => &[Format::Human, Format::Json],
            ToolCommand::Show(_) => &[Format::Human, Format::Json, Format::Markdown, Format::Yaml],
        }
    }
}

pub(super) fn run(arguments: &ToolArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    match &arguments.command {
        ToolCommand::List(list) => search::list(ItemKind::Tool, list.source, ctx, ui),
        ToolCommand::Run(run) => run::run(run, ctx, ui),
        ToolCommand::Show(show) => show::run(show, ctx, ui),
        ToolCommand::Accept(accept) => accept::run(accept, ctx, ui),
    }
}
