//! `piton verify`: whether journals, commits and refs still tell the same story.

use std::collections::BTreeSet;

use super::ui::{Format, Ui};
use crate::audit::reference;
use crate::audit::trail;
use crate::audit::verification::{self, Scope, Verification};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal;
use crate::journal::event::Acceptance;
use crate::run::acceptance;
use crate::run::error::RunError;
use crate::run::session::open_repository;

/// Checks what was recorded against git's objects, offline
///
/// Every line of a journal names the hash of the one before it, and every commit of piton names the
/// head of the journal from before it was made. Checked are the chain, that the recorded changes are
/// the difference of the snapshots, that each commit is its parent and the recorded changes, that it
/// is still in HEAD, a local branch or a tag, and that the refs of piton are where they were. Runs that
/// `piton fetch` brought are checked by their logs: the same, without what stays where they were run.
///
/// A checkpoint that git rewrote is found again by its changes: moved to another parent, reworded, or squashed
/// with others. One whose changes are not there is reported as REWRITTEN until a person accepts it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton verify                 The runs of this work tree
  piton verify 01k9x2bf        One run
  piton verify --all           Every run, fetched ones as well
  piton verify --all --format json
  piton verify --accept 01k9x2bf/1 --reason 'conflict resolved by hand'
                               Record that you accept what became of a checkpoint

Exit codes: 0 everything fits, 1 something does not")]
pub(super) struct VerifyArguments {
    /// A run, or the beginning of its name.
    #[arg(value_name = "RUN", conflicts_with = "all")]
    run: Option<String>,
    /// Every run of the repository, those of other worktrees and of other clones as well.
    #[arg(long)]
    all: bool,
    /// Accept what became of the checkpoint of a step, or of a commit that names one; may be repeated.
    #[arg(long, value_name = "STEP", requires = "reason", conflicts_with_all = ["run", "all"])]
    accept: Vec<String>,
    /// The reason; later verifications show it with your name, in clones as well.
    #[arg(long, value_name = "TEXT", requires = "accept")]
    reason: Option<String>,
}

pub(super) fn run(arguments: &VerifyArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    if let Some(reason) = &arguments.reason {
        return accept(&arguments.accept, reason, ctx, ui);
    }
    let repository = open_repository(ctx).map_err(RunError::from)?;
    let scope = match &arguments.run {
        Some(name) => {
            let mut runs = journal::list(&repository.runs_folder()).map_err(RunError::from)?;
            runs.extend(trail::foreign(&repository, &runs).map_err(RunError::from)?.into_iter().map(|(run, _)| run));
            Scope::Run(reference::find_run(&runs, name).map_err(RunError::from)?)
        }
        None if arguments.all => Scope::All,
        None => Scope::WorkTree(repository.top().to_string_lossy().into_owned()),
    };
    let found = verification::verify(&repository, &scope).map_err(RunError::from)?;
    match ui.format() {
        Format::Json => ui.json(&found)?,
        _ => show(ui, &found)?,
    }
    Ok(if found.breaks.is_empty() { ExitStatus::Success } else { ExitStatus::Failure })
}

fn accept(steps: &[String], reason: &str, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let recorded = acceptance::accept(ctx, steps, reason)?;
    if ui.format() == Format::Json {
        ui.json(&recorded)?;
        return Ok(ExitStatus::Success);
    }
    for Acceptance { of, instead, by, .. } in &recorded.accepted {
        let commits: Vec<String> = instead.iter().map(|accepted| accepted.commit.short()).collect();
        let what = if commits.is_empty() { "that its commit is gone".to_owned() } else { commits.join(", ") };
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
        ui.note(&format!("note: {} {runs} of other clones: `piton verify --all` looks at them", found.elsewhere));
    }
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (runs, checkpoints) = (plural(found.runs, "run"), plural(found.checkpoints, "checkpoint"));
    if found.breaks.is_empty() {
        ui.success(&format!("{runs}, {checkpoints} verified"));
    } else {
        let breaks = plural(found.breaks.len() as u64, "break");
        ui.complaint(&format!("{breaks} in {runs}, {checkpoints}"));
        // Each way out once: the first of its kind shows how.
        let mut told = BTreeSet::new();
        for one in &found.breaks {
            if let Some(suggestion) = one.suggestion.as_ref().filter(|_| told.insert(one.code)) {
                ui.hint(suggestion);
            }
        }
    }
    Ok(())
}
