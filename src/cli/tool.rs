//! `piton tool`: lists, shows and runs tools.

mod accept;
mod run;
mod show;

use std::ffi::OsString;

use super::items::SourceArgument;
use super::{Format, Ui, search};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::store::ItemKind;
use crate::run::tool::ToolResult;

pub(super) use run::read_values;
pub(super) use show::{author_of, signature_text, with_author};

/// List, show and run tools.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton tool list                        List the tools of this project
  piton tool show greet                  Show a tool
  piton tool run greet --param who=Ada   Run a tool")]
pub(super) struct ToolArguments {
    #[command(subcommand)]
    command: ToolSubcommand,
}

#[derive(Debug, clap::Subcommand)]
enum ToolSubcommand {
    List(ToolListArguments),
    Run(Box<run::ToolRunArguments>),
    Show(show::ToolShowArguments),
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
struct ToolListArguments {
    /// Where to look.
    #[arg(long, value_enum, default_value_t)]
    source: SourceArgument,
}

/// Guesses before parsing whether a command line calls a tool; a wrong guess costs little.
pub(super) fn is_call(words: &[OsString]) -> bool {
    let says = |at: usize, word: &str| words.get(at).is_some_and(|found| found == word);
    let only_asks = words
        .iter()
        .any(|word| word == "--dry-run" || word == "--help" || word == "-h");
    says(1, "tool") && says(2, "run") && !only_asks
}

impl ToolArguments {
    /// The last line of `--format json` for a failed command, if it has a special form.
    pub(super) fn failure(&self, err: &Error) -> Option<ToolResult> {
        match &self.command {
            ToolSubcommand::Run(run) => Some(run::failure(run, err)),
            ToolSubcommand::List(_) | ToolSubcommand::Show(_) | ToolSubcommand::Accept(_) => None,
        }
    }

    /// The supported output formats.
    pub(super) fn formats(&self) -> &'static [Format] {
        match self.command {
            ToolSubcommand::List(_) | ToolSubcommand::Run(_) | ToolSubcommand::Accept(_) => {
                &[Format::Human, Format::Json]
            }
            ToolSubcommand::Show(_) => {
                &[Format::Human, Format::Json, Format::Markdown, Format::Yaml]
            }
        }
    }
}

pub(super) fn run(
    arguments: &ToolArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    match &arguments.command {
        ToolSubcommand::List(list) => search::list(ItemKind::Tool, list.source, ctx, ui),
        ToolSubcommand::Run(run) => run::run(run, ctx, ui),
        ToolSubcommand::Show(show) => show::run(show, ctx, ui),
        ToolSubcommand::Accept(accept) => accept::run(accept, ctx, ui),
    }
}
