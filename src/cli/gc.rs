//! `piton gc`: deletes the contents of old runs.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::json;

use super::ui::{Format, Ui};
use super::validate::plural;
use crate::audit::retention::RetentionLimits;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::gc::{self, Collected};
use crate::run::linked_worktree;

/// Delete the stored contents of old runs
///
/// piton can undo a step because it keeps the changed contents in its own store, `piton/store` in the
/// git directory. `gc` deletes the contents of runs that are older than `--keep-days` and not among the
/// newest `--keep-runs`. It always keeps: contents that are on disk and not committed, unfinished runs,
/// commits that no branch contains, everything a kept step needs, and contents written within the last
/// hour. It never deletes journals, so `piton log` and `piton verify` still cover every run.
///
/// `gc` also deletes virtual environments that no Python tool used for 30 days (piton creates them
/// again when needed), search indexes, also those of deleted projects, and empty worktrees of runs that
/// died before they started.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton gc --dry-run                   Show what would be deleted
  piton gc --keep-days 3 --keep-runs 10")]
pub(super) struct GcArguments {
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Keep runs that ended in the last N days.
    #[arg(long, value_name = "N", default_value_t = 14)]
    keep_days: u32,
    /// Keep the newest N runs.
    #[arg(long, value_name = "N", default_value_t = 50)]
    keep_runs: usize,
}

pub(super) fn run(
    arguments: &GcArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let limits = RetentionLimits {
        days: arguments.keep_days,
        runs: arguments.keep_runs,
    };
    let done = if arguments.dry_run {
        gc::preview(ctx, limits)?
    } else {
        gc::collect(ctx, limits, &mut |_| {})?
    };
    let leftovers = if arguments.dry_run {
        gc::leftovers(ctx)
    } else {
        gc::drop_leftovers(ctx)
    };
    let [environments, indexes] =
        [&leftovers.environments, &leftovers.indexes].map(|paths| texts(paths));
    let worktrees = if arguments.dry_run {
        linked_worktree::abandoned(ctx)?
    } else {
        linked_worktree::drop_abandoned(ctx)?
    };
    let worktrees: Vec<_> = worktrees
        .iter()
        .map(|worktree| worktree.path.to_string_lossy())
        .collect();
    if ui.format() == Format::Json {
        ui.json(&json!({
            "dry_run": arguments.dry_run,
            "dropped": done.dropped,
            "kept": done.kept,
            "runs": done.dropped.len(),
            "objects": done.swept.objects,
            "bytes": done.swept.bytes,
            "environments": environments,
            "indexes": indexes,
            "worktrees": worktrees,
        }))?;
        return Ok(ExitStatus::Success);
    }
    if arguments.dry_run {
        for run in &done.dropped {
            ui.line(&run.to_string())?;
        }
        for path in environments.iter().chain(&indexes).chain(&worktrees) {
            ui.line(path)?;
        }
    }
    let counts = [environments.len(), indexes.len(), worktrees.len()];
    summarize(ui, arguments.dry_run, &done, counts);
    Ok(ExitStatus::Success)
}

/// Says how much was dropped; `counts` are those of environments, indexes and worktrees.
fn summarize(
    ui: &mut Ui,
    dry_run: bool,
    done: &Collected,
    [environments, indexes, worktrees]: [usize; 3],
) {
    let verb = if dry_run { "would drop" } else { "dropped" };
    let runs = plural(done.dropped.len(), "run", "runs");
    ui.success(&format!(
        "{verb} the contents of {runs}, kept those of {}; journals stay",
        done.kept
    ));
    if done.swept.objects > 0 {
        let objects = plural(
            usize::try_from(done.swept.objects).unwrap_or(usize::MAX),
            "object",
            "objects",
        );
        ui.success(&format!(
            "{verb} {objects} of the store, {} KiB",
            done.swept.bytes.div_ceil(1024)
        ));
    }
    if environments > 0 {
        ui.success(&format!(
            "{verb} {environments} virtual environments that no tool used for 30 days"
        ));
    }
    if indexes > 0 {
        let count = plural(indexes, "index", "indexes");
        ui.success(&format!(
            "{verb} {count} that no search used for 30 days or whose project is gone"
        ));
    }
    if worktrees > 0 {
        ui.success(&format!(
            "{verb} {worktrees} worktrees of runs that never began"
        ));
    }
    if !done.dropped.is_empty() && !dry_run {
        ui.hint("objects younger than an hour go with a later `piton gc`");
    }
}

fn texts(paths: &[PathBuf]) -> Vec<Cow<'_, str>> {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}
