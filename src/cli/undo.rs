//! `piton undo`, `piton redo` and `piton restore`.

use std::ffi::OsString;
use std::time::Duration;

use super::exec::argv;
use super::render;
use super::ui::{Format, Ui};
use crate::checkpoint::object::ObjectId;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::journal::summary::CheckpointStatus;
use crate::run::project_history::repo_paths;
use crate::run::recovery::{self, OnFault};
use crate::run::session::RunRequest;
use crate::run::undo::{self, FileEffect, UndoAction, UndoPreview};

/// Undo the last step, or the one you name
///
/// You can undo a step, a checkpoint, a restore, a hard rollback or a finish of this work tree. piton
/// reverts only its own changes, on top of the current files. If it was committed, piton makes a new
/// commit that reverts it: branches never move backwards. Undoing a checkpoint reverts its commit and
/// leaves the content on disk, uncommitted as before. If a file changed in the same lines since then,
/// piton stops before it changes anything.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton undo                   Undo the last step; run it again for the one before
  piton undo --dry-run         Show which files would change
  piton undo 01k9/1            Undo an earlier step; `piton log` lists steps
  piton undo 01k9              Undo a whole run in one commit
  piton undo HEAD~2            The step behind a commit
  piton undo --to 01k9/1       Undo everything after a step
  piton redo                   Redo the last undo")]
pub(super) struct UndoArguments {
    /// Step, run, commit made by piton, or a `Piton-Run` or `Piton-Step` trailer.
    #[arg(value_name = "REF")]
    name: Option<String>,
    /// Undo everything after this step.
    #[arg(long, value_name = "STEP", conflicts_with = "name")]
    to: Option<String>,
    /// Show what would happen to which files, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Redo the last undo, or apply an undone step again
///
/// As in an editor, there is nothing to redo once a new step has run. If you name an undone step, piton
/// applies it again on top of the current files, as a new step.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton redo                  Redo the last undo
  piton redo 01k9/1           Apply an undone step again")]
pub(super) struct RedoArguments {
    /// Undone step or run to apply again.
    #[arg(value_name = "REF")]
    name: Option<String>,
    /// Show what would happen to which files, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Restore files to their state after a step
///
/// piton writes only files that later steps changed; all other files stay as they are. A restore is
/// itself a step, so `piton undo` reverts it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton restore 01k9/1 --dry-run        Show which files would change
  piton restore 01k9/1 --paths src      Restore only files below `src`")]
pub(super) struct RestoreArguments {
    /// Step, run (its last step), or commit made by piton.
    #[arg(value_name = "REF")]
    name: String,
    /// Limit to these files and folders.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    paths: Vec<OsString>,
    /// Show what would happen to which files, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run_undo(
    arguments: &UndoArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let action = match (&arguments.name, &arguments.to) {
        (_, Some(to)) => UndoAction::UndoTo(to),
        (Some(name), None) => UndoAction::UndoNamed(name),
        (None, None) => UndoAction::Undo,
    };
    perform(ctx, ui, action, arguments.dry_run)
}

pub(super) fn run_redo(
    arguments: &RedoArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let action = arguments
        .name
        .as_deref()
        .map_or(UndoAction::Redo, UndoAction::RedoNamed);
    perform(ctx, ui, action, arguments.dry_run)
}

fn perform(
    ctx: &Context,
    ui: &mut Ui,
    action: UndoAction<'_>,
    is_dry: bool,
) -> Result<ExitStatus, Error> {
    if is_dry {
        return show_preview(ui, &undo::preview(ctx, action)?);
    }
    let more: Vec<OsString> = match action {
        UndoAction::Undo | UndoAction::Redo => Vec::new(),
        UndoAction::UndoTo(name) => vec!["--to".into(), name.into()],
        UndoAction::UndoNamed(name) | UndoAction::UndoRun(name) | UndoAction::RedoNamed(name) => {
            vec![name.into()]
        }
    };
    let request = request(action.as_str(), &more);
    let summary = undo::perform(
        ctx,
        action,
        &request,
        None,
        &mut |event| match (ui.format(), event) {
            // The result is printed below.
            (Format::Human, Event::CheckpointSkipped { .. } | Event::NoChanges { .. }) => {}
            _ => render::event(ui, event),
        },
    )?;
    let status = render::end(ui, &summary);
    if let (Format::Human, ExitStatus::Success, Some(step)) =
        (ui.format(), status, summary.steps.first())
        && let Some(changed) = &step.checkpoint
    {
        match changed.status {
            CheckpointStatus::NoChanges => {
                ui.note(&format!(
                    "{}: nothing to do, its changes are gone",
                    step.name
                ));
            }
            CheckpointStatus::Skipped => {
                ui.success(&format!(
                    "{} ({})",
                    step.name,
                    render::files(changed.files_changed)
                ));
            }
            _ => {}
        }
    }
    Ok(status)
}

pub(super) fn run_restore(
    arguments: &RestoreArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let paths = repo_paths(ctx, &arguments.paths)?;
    if arguments.dry_run {
        return show_preview(ui, &undo::preview_restore(ctx, &arguments.name, &paths)?);
    }
    // Recover interrupted runs first: the preview is about the state after that.
    recovery::recover_now(ctx, OnFault::Retry, &mut |event| render::event(ui, event))?;
    if ui.format() == Format::Human {
        for file in undo::preview_restore(ctx, &arguments.name, &paths)?.files {
            ui.note(&format!("{:<12}{}", file.effect.as_str(), file.path));
        }
    }
    let request = request("restore", &[OsString::from(&arguments.name)]);
    let show = &mut |event: &_| render::event(ui, event);
    let summary = undo::restore(ctx, &arguments.name, &paths, &request, None, show)?;
    Ok(render::end(ui, &summary))
}

fn show_preview(ui: &mut Ui, preview: &UndoPreview) -> Result<ExitStatus, Error> {
    let status = if preview.has_conflicts() {
        ExitStatus::Failure
    } else {
        ExitStatus::Success
    };
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
        ui.note(&format!("a new commit would undo {}", commits.join(", ")));
    }
    if preview.has_conflicts() {
        ui.warning("files have changed in the same lines since: nothing would be done");
    } else if preview
        .files
        .iter()
        .all(|file| file.effect == FileEffect::Unchanged)
    {
        ui.note("nothing to do");
    }
    Ok(status)
}

fn request(name: &str, more: &[OsString]) -> RunRequest {
    RunRequest {
        name: name.to_owned(),
        command: argv(name, more),
        mode: CheckpointMode::Auto,
        lock_timeout: Duration::ZERO,
        directive: None,
    }
}
