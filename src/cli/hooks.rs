//! `piton hooks`: git hooks.

use std::ffi::OsString;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::{Ui, hook_entry};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::hooks::Hook;

/// Puts piton's checks into the git hooks of a repository
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(super) struct HooksArguments {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Debug, clap::Subcommand)]
enum HooksCommand {
    Run(RunArguments),
}

/// Does what a hook is for; git's hooks call this
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(super) struct RunArguments {
    /// The hook.
    #[arg(value_name = "HOOK")]
    hook: Hook,
    /// What git gave to it.
    #[arg(value_name = "ARG", last = true)]
    arguments: Vec<OsString>,
}

impl ValueEnum for Hook {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

pub(super) fn run(arguments: &HooksArguments, ctx: &Context, _ui: &mut Ui) -> Result<ExitStatus, Error> {
    match &arguments.command {
        HooksCommand::Run(run) => Ok(hook_entry::run(run.hook, &run.arguments, &ctx.environment)),
    }
}
