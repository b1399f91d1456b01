//! `piton show PATH@STEP`: a file at a point in time.

use serde_json::json;

use crate::audit::reference;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::Entry;
use crate::checkpoint::path::RepoPath;
use crate::cli::history::ProjectHistory;
use crate::cli::ui::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::error::RunError;
use crate::run::project_history::repo_paths;

/// Prints a file as it was after a step, before it, or in a commit.
pub(super) fn show(
    ctx: &Context,
    ui: &mut Ui,
    past: &ProjectHistory,
    path: &str,
    moment: &str,
) -> Result<ExitStatus, Error> {
    let git = past.git(ctx)?;
    let paths = repo_paths(ctx, &[path.into()])?;
    let missing = || RunError::NoSuchFile {
        path: path.to_owned(),
        moment: moment.to_owned(),
    };
    let found = paths.first().ok_or_else(missing)?;
    let named = reference::find_moment(&past.history, git, moment).map_err(RunError::from)?;
    let content = match git.file_at(named.tree, found) {
        // Git has pruned the trees around it, but piton keeps the changes of the step itself.
        Err(CheckpointError::Missing { .. }) => match recorded(past, moment, found) {
            Some(entry) => Some((entry, git.content_of(entry).map_err(RunError::from)?)),
            None => None,
        },
        found => found.map_err(RunError::from)?,
    };
    let (entry, bytes) = content.ok_or_else(missing)?;
    if ui.format() == Format::Json {
        ui.json(&json!({
            "path": found,
            "at": named.name,
            "mode": format!("{:o}", entry.mode.bits()),
            "id": entry.id,
            "size": bytes.len(),
            "content": String::from_utf8_lossy(&bytes),
        }))?;
    } else {
        ui.contents(&bytes)?;
    }
    Ok(ExitStatus::Success)
}

/// A file as recorded by the step itself.
fn recorded(past: &ProjectHistory, moment: &str, path: &RepoPath) -> Option<Entry> {
    let (step, is_before) = match moment.strip_suffix(":before") {
        Some(step) => (step, true),
        None => (moment.strip_suffix(":after").unwrap_or(moment), false),
    };
    let step = past
        .history
        .step(reference::find_step(&past.history, step).ok()?)?;
    let change = step
        .delta
        .as_ref()?
        .changes
        .iter()
        .find(|change| change.path == *path)?;
    if is_before {
        change.before
    } else {
        change.after
    }
}
