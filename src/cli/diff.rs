//! `piton diff`: the difference of two moments, in files.

use std::ffi::OsString;

use serde::Serialize;

use super::past::{self, Past};
use super::ui::{Format, Ui};
use crate::audit::reference;
use crate::checkpoint::delta::Change;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::error::RunError;
use crate::run::past::repo_paths;
use crate::run::session::open_checkpointer;
use crate::run::undo::combine;

/// Shows the difference of two moments
///
/// Without arguments: what steps left on disk and no commit has; if there is nothing of that kind,
/// what changed since the newest step. With one moment: what changed from it until now. A moment is
/// a step (the files after it), `STEP:before`, or a commit. `git apply` understands the result.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton diff                           What is not committed yet
  piton diff 01k9x2bf/1                What changed since a step
  piton diff 01k9x2bf:before 01k9x2bf  What a run with one step did
  piton diff HEAD~3 HEAD --stat        Files and numbers of lines only")]
pub(super) struct DiffArguments {
    /// From here.
    #[arg(value_name = "A")]
    from: Option<String>,
    /// To here; without it, to what is on disk now.
    #[arg(value_name = "B")]
    to: Option<String>,
    /// Shows which files changed and how many lines, not how.
    #[arg(long)]
    stat: bool,
    /// Only these files and folders.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    paths: Vec<OsString>,
}

/// The difference as JSON.
#[derive(Serialize)]
struct Difference {
    from: String,
    to: String,
    changes: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

pub(super) fn run(arguments: &DiffArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let past = past::load(ctx, ui)?;
    let mut found = match &arguments.from {
        None => unasked(ctx, &past)?,
        Some(from) => between(ctx, &past, from, arguments.to.as_deref())?,
    };
    let paths = repo_paths(ctx, &arguments.paths)?;
    let wanted = |path: &RepoPath| paths.iter().any(|other| other.is_top() || path == other || path.is_inside(other));
    found.changes.retain(|change| paths.is_empty() || wanted(&change.path));
    let git = past.git(ctx)?;
    if ui.format() == Format::Json {
        if !arguments.stat {
            let text = git.diff(&found.changes, None).map_err(RunError::from)?;
            found.diff = Some(String::from_utf8_lossy(&text.bytes).into_owned());
        }
        ui.json(&found)?;
        return Ok(ExitStatus::Success);
    }
    ui.detail(&format!("from {} to {}", found.from, found.to));
    if arguments.stat {
        past::stat_lines(ui, &found.changes)?;
    } else {
        ui.contents(&git.diff(&found.changes, None).map_err(RunError::from)?.bytes)?;
    }
    Ok(ExitStatus::Success)
}

fn between(ctx: &Context, past: &Past, from: &str, to: Option<&str>) -> Result<Difference, Error> {
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
    Ok(Difference { from: from.name, to: name, changes, diff: None })
}

/// What is on disk and in no commit, or what changed since the newest step.
fn unasked(ctx: &Context, past: &Past) -> Result<Difference, Error> {
    let root = past.root(ctx);
    let pending = past.history.pending(&root);
    if let (Some(first), Some(last)) = (pending.first(), pending.last()) {
        let mut changes = combine(pending.iter().filter_map(|step| step.delta.as_ref())).changes;
        let git = past.git(ctx)?;
        for change in &mut changes {
            (change.insertions, change.deletions) =
                git.count_lines(change.before, change.after).map_err(RunError::from)?;
        }
        return Ok(Difference {
            from: format!("before {}", first.id),
            to: format!("after {}", last.id),
            changes,
            diff: None,
        });
    }
    if let Some(step) = past.history.steps_in(&root).find(|step| step.after.is_some()) {
        return between(ctx, past, &step.id.to_string(), None);
    }
    let mut checkpointer = open_checkpointer(ctx).map_err(RunError::from)?;
    let now = checkpointer.before().map_err(RunError::from)?;
    let changes = checkpointer.delta_to_head(&now).map_err(RunError::from)?.changes;
    Ok(Difference { from: "HEAD".to_owned(), to: "now".to_owned(), changes, diff: None })
}
