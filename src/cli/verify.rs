//! `piton verify`: checks that journals, commits and refs match.

use std::collections::BTreeSet;

use super::ui::{Format, Ui};
use crate::audit::reference;
use crate::audit::trail;
use crate::audit::verification::{self, Verification, VerificationScope};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::event::Acceptance;
use crate::journal::{self, KeyFile};
use crate::run::acceptance;
use crate::run::error::RunError;
use crate::workspace::open_repository;

/// Verify the recorded history against git, offline
///
/// Each journal line contains the hash of the line before it, and each commit made by piton names the
/// head of the journal at that time. piton checks the hash chain, that the recorded changes match the
/// snapshots, that each commit is its parent plus the recorded changes, that the commit is still in
/// HEAD, a local branch or a tag, and that piton's refs have not moved. For runs from `piton fetch`,
/// piton checks their logs the same way, except for data that stays in the original repository.
///
/// If git rewrote a checkpoint (rebased, reworded or squashed it), piton finds it again by its changes.
/// If its changes are missing, piton reports it as REWRITTEN until a person accepts that.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton verify                 Runs of this worktree
  piton verify 01k9x2bf        One run
  piton verify --all           All runs, including fetched ones
  piton verify --all --format json
  piton verify --accept 01k9x2bf/1 --reason 'conflict resolved by hand'

Exit codes: 0 verified, 1 a check failed")]
pub(super) struct VerifyArguments {
    /// Run id or a prefix of it.
    #[arg(value_name = "RUN", conflicts_with = "all")]
    run: Option<String>,
    /// Verify every run of the repository, including other worktrees and fetched runs.
    #[arg(long)]
    all: bool,
    /// Accept a rewritten checkpoint, named by step or commit; can be repeated.
    #[arg(long, value_name = "STEP", requires = "reason", conflicts_with_all = ["run", "all"])]
    accept: Vec<String>,
    /// Reason for accepting; later verifications show it with your name, also in clones.
    #[arg(long, value_name = "TEXT", requires = "accept")]
    reason: Option<String>,
}

pub(super) fn run(
    arguments: &VerifyArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    if let Some(reason) = &arguments.reason {
        return accept(&arguments.accept, reason, ctx, ui);
    }
    let repository = open_repository(ctx).map_err(RunError::from)?;
    let scope = match &arguments.run {
        Some(name) => {
            let mut runs = journal::list(&repository.runs_folder()).map_err(RunError::from)?;
            runs.extend(
                trail::foreign(&repository, &runs)
                    .map_err(RunError::from)?
                    .into_iter()
                    .map(|(run, _)| run),
            );
            VerificationScope::Run(reference::find_run(&runs, name).map_err(RunError::from)?)
        }
        None if arguments.all => VerificationScope::All,
        None => VerificationScope::WorkTree(repository.top().to_string_lossy().into_owned()),
    };
    let key = KeyFile::of(ctx.settings_folder().as_deref())
        .read()
        .map_err(RunError::from)?;
    let found = verification::verify(&repository, &scope, key.as_ref()).map_err(RunError::from)?;
    match ui.format() {
        Format::Json => ui.json(&found)?,
        _ => show(ui, &found)?,
    }
    Ok(if found.breaks.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::Failure
    })
}

fn accept(steps: &[String], reason: &str, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let recorded = acceptance::accept(ctx, steps, reason)?;
    if ui.format() == Format::Json {
        ui.json(&recorded)?;
        return Ok(ExitStatus::Success);
    }
    for Acceptance {
        of, instead, by, ..
    } in &recorded.accepted
    {
        let commits: Vec<String> = instead
            .iter()
            .map(|accepted| accepted.commit.short())
            .collect();
        let what = if commits.is_empty() {
            "that its commit is gone".to_owned()
        } else {
            commits.join(", ")
        };
        ui.success(&format!("{of}: {by} accepts {what}"));
    }
    Ok(ExitStatus::Success)
}

fn show(ui: &mut Ui, found: &Verification) -> Result<(), Error> {
    for note in &found.notes {
        ui.note(&format!("note: {note}"));
    }
    for one in &found.breaks {
        let place = match (one.step, one.run) {
            (Some(step), _) => step.to_string(),
            (None, Some(run)) => run.to_string(),
            (None, None) => "history".to_owned(),
        };
        ui.line(&format!("{place}: {} [{}]", one.message, one.code))?;
    }
    if found.elsewhere > 0 {
        let runs = if found.elsewhere == 1 { "run" } else { "runs" };
        ui.note(&format!(
            "note: {} {runs} of other clones: `piton verify --all` checks them",
            found.elsewhere
        ));
    }
    let plural =
        |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (runs, checkpoints) = (
        plural(found.runs, "run"),
        plural(found.checkpoints, "checkpoint"),
    );
    if found.breaks.is_empty() {
        ui.success(&format!("{runs}, {checkpoints} verified"));
    } else {
        let breaks = plural(found.breaks.len() as u64, "break");
        ui.complaint(&format!("{breaks} in {runs}, {checkpoints}"));
        // Print each kind of hint once.
        let mut told = BTreeSet::new();
        for one in &found.breaks {
            if let Some(suggestion) = one.suggestion.as_ref().filter(|_| told.insert(one.code)) {
                ui.hint(suggestion);
            }
        }
    }
    Ok(())
}
