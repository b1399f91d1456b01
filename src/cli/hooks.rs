//! `piton hooks`: installs and inspects git hooks.

use std::ffi::OsString;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::{Format, Ui, hook_entry};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::hooks::{self, Hook, HookState, HooksReport, HooksSummary};

/// Install and inspect piton's git hooks.
#[derive(Debug, clap::Args)]
pub(super) struct HooksArguments {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Debug, clap::Subcommand)]
enum HooksCommand {
    Install(HooksInstallArguments),
    Uninstall(UninstallArguments),
    Status(HooksStatusArguments),
    Run(HookRunArguments),
}

/// Install git hooks that run existing hooks first, then piton
///
/// piton writes a stub for each hook where git looks for hooks, with respect to `core.hooksPath` and
/// linked worktrees. An existing hook is kept beside the stub and runs first. If a hook manager (husky,
/// lefthook, pre-commit, prek) owns the hooks, or the folder is shared or tracked, piton writes nothing
/// and prints the lines to add there. In a bare repository the only hook is `pre-receive`; elsewhere
/// piton installs all others. Exits with 1 if only some hooks could be installed, and with 5 if none
/// could.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton hooks install                           Install all hooks
  piton hooks install --hook pre-commit         Only this one
  piton hooks install --hook commit-msg --hook pre-push
  PITON_HOOKS_FAIL_CLOSED=true piton hooks install    Block git if piton is missing")]
pub(super) struct HooksInstallArguments {
    #[command(flatten)]
    which: Which,
}

/// Remove piton's hooks and restore the previous ones
///
/// The previous hooks are restored byte for byte. piton leaves a stub or a kept hook alone if it was
/// edited, and says so. Exits with 1 if only some hooks could be removed, and with 5 if none could.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton hooks uninstall                   All of them
  piton hooks uninstall --hook pre-push   Only this one")]
pub(super) struct UninstallArguments {
    #[command(flatten)]
    which: Which,
}

/// Show the state of each hook
///
/// Exits with 1 if something needs attention: another manager replaced a stub, a stub is outdated or
/// edited, its program is missing, or no hook is installed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton hooks status
  piton hooks status --hook pre-commit
  piton hooks status --format json")]
pub(super) struct HooksStatusArguments {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Hook name; can be repeated.
    #[arg(long = "hook", value_name = "NAME")]
    hooks: Vec<Hook>,
}

/// Does what a hook is for; git's hooks call this
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(super) struct HookRunArguments {
    #[arg(value_name = "HOOK")]
    hook: Hook,
    /// The arguments from git.
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

pub(super) fn run(
    arguments: &HooksArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    match &arguments.command {
        HooksCommand::Install(install) => changed(&hooks::install(ctx, &install.which.hooks)?, ui),
        HooksCommand::Uninstall(uninstall) => {
            changed(&hooks::uninstall(ctx, &uninstall.which.hooks)?, ui)
        }
        HooksCommand::Status(status) => {
            let asked = &status.which.hooks;
            let report = hooks::status(ctx, asked)?;
            print_report(&report, ui)?;
            match hooks::summary(&report, asked) {
                HooksSummary::Well => return Ok(ExitStatus::Success),
                HooksSummary::Nothing => ui.hint("`piton hooks install` installs them"),
                HooksSummary::Attention => {}
            }
            Ok(ExitStatus::Failure)
        }
        HooksCommand::Run(run) => Ok(hook_entry::run(run.hook, &run.arguments, &ctx.environment)),
    }
}

/// Prints what was done; if only a part or nothing could be done, that is a failure.
fn changed(report: &HooksReport, ui: &mut Ui) -> Result<ExitStatus, Error> {
    print_report(report, ui)?;
    let refused = report
        .hooks
        .iter()
        .filter(|hook| hook.state == HookState::Refused)
        .count();
    if refused == 0 {
        return Ok(ExitStatus::Success);
    }
    if !report.snippets.is_empty() && ui.format() == Format::Human {
        snippets(report, ui)?;
    }
    Ok(if refused == report.hooks.len() {
        ExitStatus::Unsafe
    } else {
        ExitStatus::Failure
    })
}

fn print_report(report: &HooksReport, ui: &mut Ui) -> Result<(), Error> {
    if ui.format() == Format::Json {
        return Ok(ui.json(report)?);
    }
    ui.detail(&format!("git looks for hooks in `{}`", report.folder));
    let names = report
        .hooks
        .iter()
        .map(|hook| hook.hook.name().len())
        .max()
        .unwrap_or_default();
    let words = report
        .hooks
        .iter()
        .map(|hook| hook.state.label().len())
        .max()
        .unwrap_or_default();
    for hook in &report.hooks {
        let line = format!(
            "{:names$}  {:words$}  {}",
            hook.hook.name(),
            hook.state.label(),
            hook.detail
        );
        ui.line(line.trim_end())?;
    }
    let mut hints: Vec<&str> = report
        .hooks
        .iter()
        .filter_map(|hook| hook.hint.as_deref())
        .collect();
    hints.dedup();
    for hint in hints {
        ui.hint(hint);
    }
    Ok(())
}

fn snippets(report: &HooksReport, ui: &mut Ui) -> Result<(), Error> {
    for snippet in &report.snippets {
        ui.note(&format!(
            "write this into `{}`, {}:",
            snippet.file, snippet.place
        ));
        ui.rendered(&snippet.text)?;
        if let Some(then) = &snippet.then {
            ui.note(&format!("and then: {then}"));
        }
    }
    ui.hint(
        "teammates without piton are not affected; `piton hooks status` shows whether it works",
    );
    Ok(())
}
