//! `piton rollback --hard`: resets to a commit.

use std::ffi::OsString;
use std::time::Duration;

use super::exec::argv;
use super::history;
use super::render;
use super::ui::{Format, Ui, YesOrNo};
use crate::audit::reference;
use crate::checkpoint::path::listed;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::run::error::RunError;
use crate::run::hard_rollback::{self, HardRollbackPreview};
use crate::run::session::RunRequest;

/// Reset branch, index and tracked files to a commit
///
/// Works like `git reset --hard`, but first saves what is discarded in piton's own store. Untracked
/// files stay. To revert a single step and keep everything else, use `piton undo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton rollback --hard 01k9x2bf/1     Reset to the commit of a step
  piton rollback --hard HEAD~2 --yes   Do not ask for confirmation
  piton undo                           Undo one step only")]
pub(super) struct RollbackArguments {
    /// Commit, or a committed step.
    #[arg(value_name = "REF")]
    reference: Option<String>,
    /// Move the branch and discard uncommitted changes.
    #[arg(long)]
    hard: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn run(
    arguments: &RollbackArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let Some(name) = arguments.reference.as_deref().filter(|_| arguments.hard) else {
        return Err(Error::OnlyHard);
    };
    let past = history::load(ctx, ui)?;
    let to = reference::find_commit(&past.history, past.git(ctx)?, name).map_err(RunError::from)?;
    let preview = hard_rollback::preview(ctx, to)?;
    if ui.format() == Format::Human {
        show(ui, &preview);
    }
    if !arguments.yes {
        match ui.confirm("Go on?")? {
            Some(YesOrNo::Yes) => {}
            Some(YesOrNo::No) => {
                ui.note("nothing was changed");
                return Ok(ExitStatus::Failure);
            }
            None => return Err(RunError::NotConfirmed("rollback --hard").into()),
        }
    }
    let request = RunRequest {
        name: "rollback".to_owned(),
        command: argv("rollback", &["--hard".into(), OsString::from(name)]),
        mode: CheckpointMode::Auto,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let end = hard_rollback::roll_back_hard(ctx, to, &request, &mut |event| {
        if ui.format() == Format::Json || matches!(event, Event::SnapshotsMoved { .. }) {
            render::event(ui, event);
        }
    })?;
    if ui.format() == Format::Human {
        ui.success(&format!(
            "`{}` and the tracked files were reset to {}",
            short(&preview.target),
            to.short()
        ));
        if !preview.discarded.is_empty() {
            ui.hint(&format!(
                "`piton show PATH@{}:before > PATH` restores a file",
                end.step
            ));
        }
        if let (Some(from), false) = (preview.from, preview.commits.is_empty()) {
            ui.hint(&format!(
                "`git branch NAME {}` restores the commits",
                from.short()
            ));
        }
    }
    Ok(render::end(ui, &end.summary))
}

fn show(ui: &mut Ui, preview: &HardRollbackPreview) {
    let from = preview
        .from
        .map_or_else(|| "no commit".to_owned(), |from| from.short());
    ui.note(&format!(
        "`{}` moves from {from} to {}",
        short(&preview.target),
        preview.to.short()
    ));
    match preview.commits.len() {
        0 => {}
        1 => ui.note("1 commit will be dropped from the branch"),
        count => ui.note(&format!("{count} commits will be dropped from the branch")),
    }
    if !preview.discarded.is_empty() {
        ui.note(&format!(
            "uncommitted changes will be discarded: {}",
            listed(&preview.discarded)
        ));
    }
    if !preview.left.is_empty() {
        ui.warning(&format!(
            "outside of checkpoints and left alone: {}",
            listed(&preview.left)
        ));
    }
}

fn short(target: &str) -> &str {
    target.strip_prefix("refs/heads/").unwrap_or(target)
}
