//! `piton diff`: shows the changed files between two points.

use std::ffi::OsString;

use serde::Serialize;

use super::history::{self, ProjectHistory};
use super::ui::{Format, Ui};
use crate::audit::reference;
use crate::checkpoint::delta::Change;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::error::RunError;
use crate::run::project_history::{repo_paths, run_here};
use crate::workspace::open_checkpointer;

/// Show changes between two points
///
/// Without arguments, piton shows what `piton approve` would commit if a run waits for approval;
/// otherwise uncommitted changes of steps; otherwise what changed since the newest step. With one
/// point, it shows what changed since then. A point is a step (the files after it), `STEP:before`, or a
/// commit. `git apply` accepts the output.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton diff                           Uncommitted changes
  piton diff 01k9x2bf/1                What changed since a step
  piton diff 01k9x2bf:before 01k9x2bf  Changes of a run with one step
  piton diff HEAD~3 HEAD --stat        Changed files and line counts only")]
pub(super) struct DiffArguments {
    /// Compare from this point.
    #[arg(value_name = "A")]
    from: Option<String>,
    /// Compare to this point; by default the files on disk.
    #[arg(value_name = "B")]
    to: Option<String>,
    /// Show changed files and line counts only.
    #[arg(long)]
    stat: bool,
    /// Limit to these files and folders.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    paths: Vec<OsString>,
}

#[derive(Serialize)]
struct Difference {
    from: String,
    to: String,
    changes: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

pub(super) fn run(
    arguments: &DiffArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let mut past = history::load(ctx, ui)?;
    let mut found = match &arguments.from {
        None => unasked(ctx, &mut past)?,
        Some(from) => between(ctx, &past, from, arguments.to.as_deref())?,
    };
    let paths = repo_paths(ctx, &arguments.paths)?;
    let wanted = |path: &RepoPath| {
        paths
            .iter()
            .any(|other| other.is_top() || path == other || path.is_inside(other))
    };
    found
        .changes
        .retain(|change| paths.is_empty() || wanted(&change.path));
    let git = past.git(ctx)?;
    if ui.format() == Format::Json {
        if !arguments.stat {
            let text = git.diff(&found.changes, None).map_err(RunError::from)?;
            found.diff = Some(String::from_utf8_lossy(&text.bytes).into_owned());
        }
        ui.json(&found)?;
        return Ok(ExitStatus::Success);
    }
    if !found.changes.is_empty() {
        ui.page(&ctx.environment, Some(git));
    }
    ui.detail(&format!("from {} to {}", found.from, found.to));
    if arguments.stat {
        history::stat_lines(ui, &found.changes)?;
    } else {
        ui.patch(
            &git.diff(&found.changes, None)
                .map_err(RunError::from)?
                .bytes,
        )?;
    }
    Ok(ExitStatus::Success)
}

fn between(
    ctx: &Context,
    past: &ProjectHistory,
    from: &str,
    to: Option<&str>,
) -> Result<Difference, Error> {
    let git = past.git(ctx)?;
    let from = reference::find_moment(&past.history, git, from).map_err(RunError::from)?;
    let (name, tree) = if let Some(to) = to {
        let to = reference::find_moment(&past.history, git, to).map_err(RunError::from)?;
        (to.name, to.tree)
    } else {
        let now = open_checkpointer(ctx).and_then(|mut checkpointer| checkpointer.before());
        ("now".to_owned(), now.map_err(RunError::from)?.tree)
    };
    let changes = git.changes(from.tree, tree).map_err(RunError::from)?;
    Ok(Difference {
        from: from.name,
        to: name,
        changes,
        diff: None,
    })
}

/// The default difference: what an approval would commit; else uncommitted changes of steps; else
/// the changes since the newest step.
fn unasked(ctx: &Context, past: &mut ProjectHistory) -> Result<Difference, Error> {
    let root = past.root(ctx);
    if let Ok((run, there)) = run_here(ctx)
        && let Some(review) = past
            .review(&there, run)
            .filter(|review| !review.changes.is_empty())
    {
        let to = format!("tree {}", review.tree);
        return Ok(Difference {
            from: "HEAD".to_owned(),
            to,
            changes: review.changes,
            diff: None,
        });
    }
    let left = past.look_at_disk(ctx)?;
    if let (Some(first), Some(last)) = (left.steps.first(), left.steps.last()) {
        let mut changes = left.files.changes.clone();
        // If a step's lines cannot be separated from others, show the whole file.
        let unclear: Vec<&RepoPath> = left
            .files
            .edited
            .iter()
            .chain(&left.files.overlaps)
            .collect();
        if !unclear.is_empty() {
            let mut checkpointer = open_checkpointer(ctx).map_err(RunError::from)?;
            let now = checkpointer.before().map_err(RunError::from)?;
            let whole = checkpointer
                .delta_to_head(&now)
                .map_err(RunError::from)?
                .changes;
            changes.extend(
                whole
                    .into_iter()
                    .filter(|change| unclear.contains(&&change.path)),
            );
            changes.sort_by(|one, other| one.path.cmp(&other.path));
        }
        let to = if first == last {
            format!("uncommitted changes of {first}")
        } else {
            format!("uncommitted changes of {first} to {last}")
        };
        return Ok(Difference {
            from: "HEAD".to_owned(),
            to,
            changes,
            diff: None,
        });
    }
    if let Some(step) = past
        .history
        .steps_in(&root)
        .find(|step| step.after.is_some())
    {
        // Skip what the user has discarded or committed.
        if left.dropped.contains(&step.id) {
            let head = || "HEAD".to_owned();
            return Ok(Difference {
                from: head(),
                to: head(),
                changes: Vec::new(),
                diff: None,
            });
        }
        return between(ctx, past, &step.id.to_string(), None);
    }
    let mut checkpointer = open_checkpointer(ctx).map_err(RunError::from)?;
    let now = checkpointer.before().map_err(RunError::from)?;
    let changes = checkpointer
        .delta_to_head(&now)
        .map_err(RunError::from)?
        .changes;
    Ok(Difference {
        from: "HEAD".to_owned(),
        to: "now".to_owned(),
        changes,
        diff: None,
    })
}
