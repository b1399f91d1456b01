//! `piton undo`, `piton redo` and `piton restore`.

use std::ffi::OsString;
use std::time::Duration;

use super::exec::words;
use super::render;
use super::ui::{Format, Ui};
use crate::audit::reference;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::run::error::RunError;
use crate::run::past::repo_paths;
use crate::run::recovery;
use crate::run::session::RunRequest;
use crate::run::undo::{self, Direction, Preview};

/// Takes the newest step back, or the one that is named
///
/// Only the step's own changes are taken back, on top of whatever is there now. If the step was
/// committed, so is its undoing: a new commit, branches never move backwards. A file that was changed
/// in the same lines since stops everything before anything is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton undo                   The newest step of this work tree
  piton undo 01k9/1            A step in the middle; `piton log` lists them
  piton redo                   Take the newest undo back")]
pub(super) struct UndoArguments {
    /// A step, a run with one step, or a commit that piton made.
    #[arg(value_name = "STEP")]
    step: Option<String>,
}

/// Takes the newest undo back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton redo                  The step that was undone last counts again")]
pub(super) struct RedoArguments {}

/// Brings the files that later steps changed back to how they were after a step
///
/// Only files that steps of piton changed since are written; everything else stays. A restore is a
/// step of its own: `piton undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton restore 01k9/1 --dry-run        See what would be written and deleted
  piton restore 01k9/1 --paths src      Only below `src`")]
pub(super) struct RestoreArguments {
    /// A step, a run with one step, or a commit that piton made.
    #[arg(value_name = "STEP")]
    step: String,
    /// Only these files and folders.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    paths: Vec<OsString>,
    /// Says what would be done and does nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run_undo(arguments: &UndoArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    reverse(ctx, ui, Direction::Undo, arguments.step.as_deref())
}

pub(super) fn run_redo(ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    reverse(ctx, ui, Direction::Redo, None)
}

fn reverse(ctx: &Context, ui: &mut Ui, direction: Direction, step: Option<&str>) -> Result<ExitStatus, Error> {
    let request = request(direction.as_str(), &[]);
    let summary = undo::undo_named(ctx, direction, step, &request, &mut |event| match (ui.format(), event) {
        // There was no commit to take back; what was done is said below.
        (Format::Human, Event::CheckpointSkipped { .. }) => {}
        _ => render::event(ui, event),
    })?;
    let status = render::end(ui, &summary);
    if let (Format::Human, ExitStatus::Success, Some(step)) = (ui.format(), status, summary.steps.first())
        && let Some(changed) = step.checkpoint.as_ref().filter(|it| it.commit_sha.is_none() && it.files_changed > 0)
    {
        ui.success(&format!("{} ({})", step.name, render::files(changed.files_changed)));
    }
    Ok(status)
}

pub(super) fn run_restore(arguments: &RestoreArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    if !arguments.dry_run {
        recover(ctx, ui)?;
    }
    let history = undo::history(ctx)?;
    let step = reference::find_step(&history, &arguments.step).map_err(RunError::from)?;
    let paths = repo_paths(ctx, &arguments.paths)?;
    let preview = undo::preview_restore(ctx, &history, step, &paths)?;
    if ui.format() == Format::Human {
        show_preview(ui, &preview, arguments.dry_run)?;
    }
    if arguments.dry_run {
        if ui.format() == Format::Json {
            ui.json(&preview)?;
        }
        return Ok(ExitStatus::Success);
    }
    let request = request("restore", &[OsString::from(step.to_string())]);
    let show = &mut |event: &_| render::event(ui, event);
    let summary = undo::restore(ctx, &history, step, &paths, &request, show)?;
    Ok(render::end(ui, &summary))
}

fn show_preview(ui: &mut Ui, preview: &Preview, is_result: bool) -> Result<(), Error> {
    let parts =
        [("write", &preview.write), ("delete", &preview.delete), ("keep", &preview.keep), ("skip", &preview.skip)];
    for (what, paths) in parts {
        for path in paths {
            let line = format!("{what:<7}{path}");
            if is_result { ui.line(&line)? } else { ui.note(&line) }
        }
    }
    let counts: Vec<String> = parts.iter().map(|(what, paths)| format!("{} to {what}", paths.len())).collect();
    ui.note(&counts.join(", "));
    Ok(())
}

/// Brings what was cut off to an end first: it decides which step is the newest.
fn recover(ctx: &Context, ui: &mut Ui) -> Result<(), Error> {
    recovery::recover_now(ctx, &mut |event| render::event(ui, event))?;
    Ok(())
}

fn request(name: &str, more: &[OsString]) -> RunRequest {
    RunRequest {
        name: name.to_owned(),
        command: words(name, more),
        mode: CheckpointMode::Auto,
        lock_timeout: Duration::ZERO,
        directive: None,
    }
}
