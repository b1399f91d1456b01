//! `pre-commit`: validates staged items and their stamps.
//!
//! The hook checks what the commit will contain: git writes the `.ai/` of its index into a private
//! folder, which is validated like any project. Items that this commit does not change are read,
//! because others refer to them, but not checked.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Answer, HookCall};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::staged::Staged;
use crate::context::{Context, ITEMS};
use crate::error::Error;
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::run::error::RunError;
use crate::validation::{self, Options, Report};

#[derive(Debug)]
pub struct StagedItems {
    /// All findings. Paths are relative to the top of the work tree.
    pub report: Report,
    /// The staged files that the findings refer to. Dropping it deletes them.
    folder: TempDir,
}

impl StagedItems {
    /// The folder that corresponds to the top of the work tree.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }
}

pub(super) fn run(call: &HookCall<'_>) -> Result<Answer, Error> {
    let place = call.place()?;
    let repository = call.open(&place)?;
    let staged = Staged::find(&repository, &place, ITEMS).map_err(RunError::from)?;
    if staged.changed.is_empty() {
        return Ok(Answer::default());
    }
    let temporary = call.environment.temporary_folder();
    let folder = tempfile::Builder::new().prefix("piton-staged-").tempdir_in(&temporary);
    let folder = folder.map_err(|source| Error::Write { file: temporary, source })?;
    staged.export(&repository, call.environment.variables(), folder.path()).map_err(RunError::from)?;
    let mut reports = Vec::new();
    for (items, changed) in &staged.changed {
        reports.push(judge(call, folder.path(), &items.parent(), changed)?);
    }
    Ok(Answer { items: Some(StagedItems { report: joined(reports), folder }), ..Answer::default() })
}

/// Validates the changed items of one project in the copy.
fn judge(call: &HookCall<'_>, copy: &Path, project: &RepoPath, changed: &[RepoPath]) -> Result<Report, Error> {
    let root = copy.join(project.as_path());
    if !root.join(ITEMS).is_dir() {
        // The commit removes every item of this project.
        return Ok(Report::of(Vec::new()));
    }
    let ctx = Context::at(call.environment.clone(), &root)?;
    let strength = if ctx.config.strict() { Strength::Strict } else { Strength::Lenient };
    let store = ItemStore::open(ctx.roots(), strength);
    let paths = changed.iter().filter_map(|path| path.as_path().strip_prefix(project.as_path()).ok());
    // A change to any file of a folder tool validates the whole tool.
    let meant = |path: PathBuf| store.tool_folder(&path).map(Path::to_path_buf).unwrap_or(path);
    let paths = paths.map(|path| meant(ctx.root.join(path))).collect();
    let mut report = validation::validate_items(&store, &Options { paths, ..Options::of(&ctx) });
    for finding in &mut report.findings {
        finding.file = project.as_path().join(&finding.file);
    }
    Ok(report)
}

fn joined(reports: Vec<Report>) -> Report {
    let mut all = Report::of(Vec::new());
    for report in reports {
        all.valid &= report.valid;
        all.findings.extend(report.findings);
        all.items = all.items + report.items;
        all.unchecked.extend(report.unchecked);
    }
    all
}
