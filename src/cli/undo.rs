//! `piton undo`, `piton redo` and `piton restore`.

use std::ffi::OsString;
use std::time::Duration;

use super::exec::words;
use super::render;
use super::ui::{Format, Ui};
use crate::checkpoint::object::ObjectId;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::journal::summary::CheckpointStatus;
use crate::run::past::repo_paths;
use crate::run::recovery;
use crate::run::session::RunRequest;
use crate::run::undo::{self, Action, Effect, Preview};

/// Take back the newest operation, or the one that is named
///
/// An operation is a step, a checkpoint, a restore, a hard roll back or a finish of this work tree. Only its own changes
/// are taken back, on top of what is there now. If it was committed, a new commit takes it back: branches never move
/// backwards. Undoing a checkpoint takes its commit back and leaves the content on disk, uncommitted as it was before. A
/// file that was changed in the same lines since stops everything before anything is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton undo                   The newest operation; again, and the one before it
  piton undo --dry-run         See which files would change
  piton undo 01k9/1            A step in the middle; `piton log` lists them
  piton undo 01k9              All steps of a run, as one commit
  piton undo HEAD~2            The step that made a commit
  piton undo --to 01k9/1       Everything that was done after a step
  piton redo                   Redo the last undo")]
pub(super) struct UndoArguments {
    /// A step, a run, a commit that piton made, or a `Piton-Run` or `Piton-Step` trailer of one.
    #[arg(value_name = "REF")]
    name: Option<String>,
    /// Take back everything that was done after this step.
    #[arg(long, value_name = "STEP", conflicts_with = "name")]
    to: Option<String>,
    /// Show what would happen to which files, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Redo the last undo, or apply an undone step again
///
/// As in an editor: once something new was done, there is nothing to redo. An undone step that is named is applied again
/// on top of what is there now, as a new step.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton redo                  The operation that was undone last counts again
  piton redo 01k9/1           Apply an undone step again, whatever was done since")]
pub(super) struct RedoArguments {
    /// An undone step or run to apply again.
    #[arg(value_name = "REF")]
    name: Option<String>,
    /// Show what would happen to which files, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Bring the files that later steps changed back to how they were after a step
///
/// Only files that steps of piton changed since are written; everything else stays. A restore is a
/// step of its own: `piton undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton restore 01k9/1 --dry-run        See which files would change
  piton restore 01k9/1 --paths src      Only below `src`")]
pub(super) struct RestoreArguments {
    /// A step, a run (its last step), or a commit that piton made.
    #[arg(value_name = "REF")]
    name: String,
    /// Only these files and folders.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    paths: Vec<OsString>,
    /// Show what would happen to which files, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run_undo(arguments: &UndoArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let action = match (&arguments.name, &arguments.to) {
        (_, Some(to)) => Action::UndoTo(to),
        (Some(name), None) => Action::UndoNamed(name),
        (None, None) => Action::Undo,
    };
    perform(ctx, ui, action, arguments.dry_run)
}

pub(super) fn run_redo(arguments: &RedoArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let action = arguments.name.as_deref().map_or(Action::Redo, Action::RedoNamed);
    perform(ctx, ui, action, arguments.dry_run)
}

fn perform(ctx: &Context, ui: &mut Ui, action: Action<'_>, is_dry: bool) -> Result<ExitStatus, Error> {
    if is_dry {
        return show_preview(ui, &undo::preview(ctx, action)?);
    }
    let more: Vec<OsString> = match action {
        Action::Undo | Action::Redo => Vec::new(),
        Action::UndoTo(name) => vec!["--to".into(), name.into()],
        Action::UndoNamed(name) | Action::UndoRun(name) | Action::RedoNamed(name) => vec![name.into()],
    };
    let request = request(action.as_str(), &more);
    let summary = undo::perform(ctx, action, &request, &mut |event| match (ui.format(), event) {
        // What was done is said below.
        (Format::Human, Event::CheckpointSkipped { .. } | Event::NoChanges { .. }) => {}
        _ => render::event(ui, event),
    })?;
    let status = render::end(ui, &summary);
    if let (Format::Human, ExitStatus::Success, Some(step)) = (ui.format(), status, summary.steps.first())
        && let Some(changed) = &step.checkpoint
    {
        match changed.status {
            CheckpointStatus::NoChanges => {
                ui.note(&format!("{}: nothing to do, its changes are not there any more", step.name));
            }
            CheckpointStatus::Skipped => {
                ui.success(&format!("{} ({})", step.name, render::files(changed.files_changed)));
            }
            _ => {}
        }
    }
    Ok(status)
}

pub(super) fn run_restore(arguments: &RestoreArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let paths = repo_paths(ctx, &arguments.paths)?;
    if arguments.dry_run {
        return show_preview(ui, &undo::preview_restore(ctx, &arguments.name, &paths)?);
    }
    // What was cut off is brought to an end first: the preview is about what follows.
    recovery::recover_now(ctx, &mut |event| render::event(ui, event))?;
    if ui.format() == Format::Human {
        for file in undo::preview_restore(ctx, &arguments.name, &paths)?.files {
            ui.note(&format!("{:<12}{}", file.effect.as_str(), file.path));
        }
    }
    let request = request("restore", &[OsString::from(&arguments.name)]);
    let show = &mut |event: &_| render::event(ui, event);
    let summary = undo::restore(ctx, &arguments.name, &paths, &request, show)?;
    Ok(render::end(ui, &summary))
}

fn show_preview(ui: &mut Ui, preview: &Preview) -> Result<ExitStatus, Error> {
    let status = if preview.has_conflicts() { ExitStatus::Failure } else { ExitStatus::Success };
    if ui.format() == Format::Json {
        ui.json(preview)?;
        return Ok(status);
    }
    for step in &preview.steps {
        ui.note(&format!("{} {}", step.step, step.name));
    }
    for file in &preview.files {
        ui.line(&format!("{:<12}{}", file.effect.as_str(), file.path))?;
    }
    if !preview.commits.is_empty() {
        let commits: Vec<String> = preview.commits.iter().map(ObjectId::short).collect();
        ui.note(&format!("a new commit would take back {}", commits.join(", ")));
    }
    if preview.has_conflicts() {
        ui.warning("files have changed in the same lines since: nothing would be done");
    } else if preview.files.iter().all(|file| file.effect == Effect::Unchanged) {
        ui.note("nothing to do");
    }
    Ok(status)
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
