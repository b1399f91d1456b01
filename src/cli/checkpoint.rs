//! `piton checkpoint`: committing what steps left on disk.

use std::ffi::OsString;
use std::time::Duration;

use super::exec::words;
use super::render;
use super::ui::Ui;
use crate::checkpoint::remainder::EditsSince;
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::run::checkpoint::{self, CheckpointRequest, Selection};
use crate::run::past::existing_paths;
use crate::run::session::RunRequest;

/// Commits what steps of piton left on disk, or files that are named
///
/// Without arguments only what steps changed since the last checkpoint is committed, as far as it is
/// still on disk and HEAD does not have it. Lines that you edited since stay out; where they cannot be
/// told from the step's lines, nothing is committed and the files are named. Your own changes are
/// committed when you name them, with `--all`, or with `--include-edits` in files that steps changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton checkpoint                      What steps in explicit mode left on disk
  piton checkpoint --include-edits      The same, with what you edited in those files since
  piton checkpoint src -m 'feat: new'   Everything that differs below `src`
  piton checkpoint --all                Everything that differs from HEAD")]
pub(super) struct CheckpointArguments {
    /// Files and folders whose changes are committed, whoever made them.
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Commits everything that differs from HEAD, whoever changed it.
    #[arg(long, conflicts_with = "paths")]
    all: bool,
    /// Commit files that were edited after a step as they are on disk, edits included.
    #[arg(long, conflicts_with_all = ["paths", "all"])]
    include_edits: bool,
    /// The message of the commit, instead of a generated one.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// What the checkpoint is about.
    #[arg(long, value_name = "NAME", default_value = "checkpoint")]
    operation: String,
}

pub(super) fn run(arguments: &CheckpointArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let selection = match (arguments.all, arguments.paths.as_slice()) {
        (true, _) => Selection::All,
        (false, []) => Selection::Recorded,
        (false, paths) => Selection::Paths(existing_paths(ctx, paths)?),
    };
    let recorded = selection == Selection::Recorded;
    let request = CheckpointRequest {
        selection,
        operation: redacted(&arguments.operation),
        message: arguments.message.as_deref().map(redacted),
        directive: None,
        edits: if arguments.include_edits { EditsSince::Include } else { EditsSince::LeaveOut },
    };
    let run = RunRequest {
        name: "checkpoint".to_owned(),
        command: words("checkpoint", &arguments.paths),
        mode: CheckpointMode::Auto,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let summary = checkpoint::checkpoint(ctx, &request, &run, &mut |event| render::event(ui, event))?;
    let nothing =
        summary.steps.iter().all(|step| step.checkpoint.as_ref().is_none_or(|made| made.commit_sha.is_none()));
    if recorded && nothing && summary.error.is_none() {
        ui.hint("no step left changes behind; commit your own with `piton checkpoint PATH…` or `--all`");
    }
    Ok(render::end(ui, &summary))
}
