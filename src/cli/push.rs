//! `piton push`: pushes the logs of runs.

use super::history;
use super::ui::{Format, Ui};
use crate::audit::reference;
use crate::audit::sync::{self, OnSecret, Pushed};
use crate::audit::trail;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::remote::Remote;
use crate::checkpoint::secret::SecretScanner;
use crate::config::SecretPolicy;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal;
use crate::run::error::RunError;
use crate::run::rewrite;
use crate::workspace::open_repository;

/// Push run logs to another repository
///
/// A log is a run's journal without private data: `refs/piton/runs/RUN/log` has the steps, tools,
/// permissions, changed files and commits, with hashes instead of parameters, inputs and outputs.
/// Command lines, local paths and snapshots are not pushed. Use `git push` to push branches. A push
/// only appends to logs and never replaces them. piton stops the push if it finds something that looks
/// like a secret.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton push origin              All finished runs
  piton push origin 01k9x2bf     One run
  piton push origin --format json

Then, in a clone:
  piton fetch origin
  piton verify --all")]
pub(super) struct PushArguments {
    /// Git remote or URL.
    #[arg(value_name = "REMOTE")]
    remote: String,
    /// Run ids or prefixes of them; all runs by default.
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
}

pub(super) fn run(
    arguments: &PushArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let repository = open_repository(ctx).map_err(RunError::from)?;
    if arguments.runs.is_empty() {
        // Record this first: the new journal is one of the pushed runs.
        let found = rewrite::record_found(ctx, &repository)?;
        if found > 0 {
            let what = if found == 1 {
                "checkpoint is"
            } else {
                "checkpoints are"
            };
            ui.note(&format!("note: recorded where {found} rewritten {what}"));
        }
    }
    let mut known = journal::list(&repository.runs_folder()).map_err(RunError::from)?;
    known.extend(
        trail::foreign(&repository, &known)
            .map_err(RunError::from)?
            .into_iter()
            .map(|(run, _)| run),
    );
    let runs = arguments
        .runs
        .iter()
        .map(|name| reference::find_run(&known, name))
        .collect::<Result<Vec<_>, _>>();
    let runs = runs.map_err(RunError::from)?;
    let allowed = ctx.config.secrets_allowed();
    let scanner =
        SecretScanner::allowing(allowed.iter().map(String::as_str)).map_err(|invalid| {
            RunError::from(CheckpointError::InvalidAllowance {
                entry: invalid.entry,
                reason: invalid.reason,
            })
        })?;
    let on_secret = match ctx.config.secrets() {
        SecretPolicy::Block => OnSecret::Refuse,
        SecretPolicy::Warn => OnSecret::Tell,
    };
    let address = history::remote_address(ctx, &arguments.remote);
    let remote =
        Remote::open(&repository, ctx.environment.variables(), &address).map_err(RunError::from)?;
    let done =
        sync::push(&repository, &remote, &runs, &scanner, on_secret).map_err(RunError::from)?;
    for (run, hit) in &done.secrets {
        ui.warning(&format!(
            "{} in {} of the log of run `{run}` ({})",
            hit.rule, hit.place, hit.fingerprint
        ));
    }
    match ui.format() {
        Format::Json => ui.json(&done)?,
        _ => show(ui, &done),
    }
    Ok(ExitStatus::Success)
}

fn show(ui: &mut Ui, done: &Pushed) {
    let mut reasons: Vec<&str> = done.withheld.values().copied().collect();
    reasons.sort_unstable();
    for some in reasons.chunk_by(|one, other| one == other) {
        let reason = some.first().copied().unwrap_or_default();
        ui.note(&format!(
            "note: {} not pushed: {reason}",
            history::runs(some.len())
        ));
    }
    if done.pushed.is_empty() && done.attestations == 0 {
        ui.success(&format!(
            "already up to date at `{}`: {}",
            done.remote,
            history::runs(done.up_to_date)
        ));
        return;
    }
    ui.success(&format!(
        "pushed {} to `{}`",
        history::travellers(done.pushed.len(), done.attestations),
        done.remote
    ));
}
