//! `piton recover`: recovers interrupted runs, and reports what was done; accepts the journal of a run.

use super::ui::{Format, Ui, YesOrNo};
use super::{history, render};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::error::RunError;
use crate::run::journal_trust;
use crate::run::recovery::{self, OnFault};

/// Recover from an interrupted run
///
/// Every command that changes something recovers first; this command does nothing else. piton rolls
/// back a step that was still running and completes a commit or rollback that was already recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton recover               After a crash, before you edit files by hand
  piton recover --give-up     When the disk fails at a file for good
  piton recover --trust-journal 01k9x2bf
                              Read and accept the lines of a journal that piton did not authenticate")]
pub(super) struct RecoverArguments {
    /// End interrupted steps although the disk fails. Files that cannot be put back stay as they are and
    /// are named; `piton show PATH@STEP:before` prints them as they were.
    #[arg(long)]
    give_up: bool,
    /// Show the lines of this run's journal that piton cannot authenticate, and accept them, so that
    /// the run can continue.
    #[arg(long, value_name = "RUN", conflicts_with = "give_up")]
    trust_journal: Option<String>,
    /// Do not ask for confirmation.
    #[arg(long, requires = "trust_journal")]
    yes: bool,
}

pub(super) fn run(
    arguments: &RecoverArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    if let Some(run) = &arguments.trust_journal {
        return trust_journal(run, arguments.yes, ctx, ui);
    }
    let on_fault = if arguments.give_up {
        OnFault::GiveUp
    } else {
        OnFault::Retry
    };
    let told = recovery::recover_now(ctx, on_fault, &mut |event| {
        if ui.format() == Format::Human {
            render::event(ui, event);
        }
    })?;
    if ui.format() == Format::Json {
        ui.json(&serde_json::json!({ "recovered": told }))?;
    } else if told.is_empty() {
        ui.success("there is no interrupted run");
    }
    Ok(ExitStatus::Success)
}

/// Lets a person accept the lines of a journal that piton cannot authenticate.
fn trust_journal(
    name: &str,
    is_confirmed: bool,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let (run, ctx) = &history::load(ctx, ui)?.find_run(ctx, name)?;
    let Some(unknown) = journal_trust::inspect(ctx, *run)? else {
        if ui.format() == Format::Json {
            ui.json(&serde_json::json!({ "run_id": run, "accepted": 0 }))?;
        } else {
            ui.success(&format!("every line of run {run} is authenticated"));
        }
        return Ok(ExitStatus::Success);
    };
    if !is_confirmed {
        for (number, line) in &unknown.lines {
            ui.note(&format!("line {number}: {line}"));
        }
        if let Some(missing) = unknown.missing {
            ui.note(&format!("line {missing} was written and is missing"));
        }
        match ui.confirm("Continue the run with these lines?")? {
            Some(YesOrNo::Yes) => {}
            Some(YesOrNo::No) => {
                ui.note("nothing was accepted");
                return Ok(ExitStatus::Failure);
            }
            None => return Err(RunError::NotConfirmed("recover --trust-journal").into()),
        }
    }
    let count = unknown.lines.len();
    let recorded = journal_trust::accept(ctx, &unknown)?;
    if ui.format() == Format::Json {
        ui.json(&serde_json::json!({ "run_id": run, "accepted": count, "recorded": recorded }))?;
    } else {
        let lines = if count == 1 { "line" } else { "lines" };
        ui.success(&format!("accepted {count} {lines} of run {run}"));
    }
    Ok(ExitStatus::Success)
}
