//! `piton finish`: closing a run.

use std::ffi::OsString;
use std::time::Duration;

use super::exec::words;
use super::render;
use super::ui::{Format, Ui};
use crate::audit::reference;
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::journal;
use crate::journal::event::{Event, FinishHow};
use crate::journal::summary::RunStatus;
use crate::run::error::RunError;
use crate::run::finish::{self, FinishPreview, FinishRequest};
use crate::run::recovery;
use crate::run::session::{RunRequest, open_repository};

/// Closes a run: its commits come to the current branch, or stay on a branch of their own
///
/// A run that worked in a worktree of its own is brought home with `--keep` (its commits, merged where
/// the branch has moved on) or `--squash` (one commit; the steps stay reachable). Your own uncommitted
/// work stays as it is. If the run and the branch changed the same lines, or the run and you did,
/// nothing is changed and every file is named, with who changed it. Afterwards the worktree is removed,
/// unless it holds work that is in no commit.
///
/// For a run on the current branch, `--keep` only closes it, `--squash` makes one commit of its newest
/// commits if they are published nowhere, and `--branch` makes a branch where it ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton finish 01k9 --keep               Its commits become part of the current branch
  piton finish 01k9 --squash -m 'feat: import of prices'
  piton finish 01k9 --branch             Leave them on `piton/RUN`, to be merged by hand
  piton finish 01k9 --keep --dry-run     See what would be done")]
pub(super) struct FinishArguments {
    /// The run, or the beginning of its name; `piton log` lists them.
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    how: HowArguments,
    /// The message of the commit, instead of a generated one.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "branch")]
    message: Option<String>,
    /// Says what would be done and does nothing.
    #[arg(long)]
    dry_run: bool,
    /// How many seconds to wait for another run in this worktree.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lock_timeout: u64,
}

/// What becomes of the commits: exactly one of these.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct HowArguments {
    /// Brings the commits of the run to the current branch.
    #[arg(long)]
    keep: bool,
    /// Brings all changes of the run to the current branch as one commit.
    #[arg(long)]
    squash: bool,
    /// Leaves the commits on a branch of their own.
    #[arg(long)]
    branch: bool,
}

pub(super) fn run(arguments: &FinishArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let repository = open_repository(ctx).map_err(RunError::from)?;
    let runs = journal::list(&repository.runs_folder()).map_err(RunError::from)?;
    let run = reference::find_run(&runs, &arguments.run).map_err(RunError::from)?;
    let how = match (arguments.how.keep, arguments.how.squash) {
        (true, _) => FinishHow::Keep,
        (_, true) => FinishHow::Squash,
        _ => FinishHow::Branch,
    };
    let request = FinishRequest { run, how, message: arguments.message.as_deref().map(redacted) };
    if arguments.dry_run {
        return show(ui, &finish::preview(ctx, &request)?);
    }
    // What was cut off here comes first: it may be this very finish.
    recovery::recover_now(ctx, &mut |event| render::event(ui, event))?;
    let flag = OsString::from(format!("--{}", how.name()));
    let started = RunRequest {
        name: "finish".to_owned(),
        command: words("finish", &[OsString::from(run.to_string()), flag]),
        mode: CheckpointMode::Auto,
        lock_timeout: Duration::from_secs(arguments.lock_timeout),
        directive: None,
    };
    let done = finish::finish(ctx, &request, &started, &mut |event| {
        // That nothing had to be committed is no news for people: the last line says what was done.
        if ui.format() == Format::Json || !matches!(event, Event::CheckpointSkipped { .. }) {
            render::event(ui, event);
        }
    })?;
    if ui.format() == Format::Human && done.summary.status == RunStatus::Succeeded {
        ui.success(&format!("run {run} is {}", done.way));
    }
    for note in &done.notes {
        ui.note(note);
    }
    Ok(render::end(ui, &done.summary))
}

fn show(ui: &mut Ui, preview: &FinishPreview) -> Result<ExitStatus, Error> {
    if ui.format() == Format::Json {
        ui.json(preview)?;
        return Ok(ExitStatus::Success);
    }
    ui.line(&format!("run {} would be {}", preview.run, preview.way))?;
    for commit in &preview.commits {
        ui.line(&format!("  commit {}", commit.short()))?;
    }
    for file in &preview.files {
        ui.line(&format!("  write {file}"))?;
    }
    for note in &preview.notes {
        ui.note(note);
    }
    Ok(ExitStatus::Success)
}
