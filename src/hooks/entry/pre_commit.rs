//! `pre-commit`: validates staged items and their stamps.
//!
//! The hook checks what the commit will contain: git writes the `.ai/` of its index into a private
//! folder, which is validated like any project. Items that this commit does not change are read,
//! because others refer to them, but not checked.

use std::path::{Path, PathBuf};

use super::{HookAnswer, HookCall};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::staged::Staged;
use crate::context::{Context, ITEMS};
use crate::error::Error;
use crate::exec::private_folder::{PrivateFolder, PrivateUse};
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::run::error::RunError;
use crate::validation::{self, ValidationOptions, ValidationReport};

#[derive(Debug)]
pub struct StagedItems {
    /// All findings. Paths are relative to the top of the work tree.
    pub report: ValidationReport,
    /// The staged files that the findings refer to. Dropping it deletes them.
    folder: PrivateFolder,
}

impl StagedItems {
    /// The folder that corresponds to the top of the work tree.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }
}

pub(super) fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    let place = call.place()?;
    let repository = call.open(&place)?;
    let staged = Staged::find(&repository, &place, ITEMS).map_err(RunError::from)?;
    if staged.changed.is_empty() {
        return Ok(HookAnswer::default());
    }
    let temporary = call.environment.temporary_folder();
    let folder = PrivateFolder::create(&temporary, PrivateUse::Staged);
    let folder = folder.map_err(|source| Error::Write {
        file: temporary,
        source,
    })?;
    staged
        .export(&repository, call.environment.variables(), folder.path())
        .map_err(RunError::from)?;
    let mut reports = Vec::new();
    for (items, changed) in &staged.changed {
        reports.push(judge(call, folder.path(), &items.parent(), changed)?);
    }
    Ok(HookAnswer {
        items: Some(StagedItems {
            report: joined(reports),
            folder,
        }),
        ..HookAnswer::default()
    })
}

/// Validates the changed items of one project in the copy.
fn judge(
    call: &HookCall<'_>,
    copy: &Path,
    project: &RepoPath,
    changed: &[RepoPath],
) -> Result<ValidationReport, Error> {
    let root = copy.join(project.as_path());
    if !root.join(ITEMS).is_dir() {
        // The commit removes every item of this project.
        return Ok(ValidationReport::of(Vec::new()));
    }
    let ctx = Context::at(call.environment.clone(), &root)?;
    let strength = if ctx.config.strict() {
        Strength::Strict
    } else {
        Strength::Lenient
    };
    let store = ItemStore::open(ctx.roots(), strength);
    let paths = changed
        .iter()
        .filter_map(|path| path.as_path().strip_prefix(project.as_path()).ok());
    // A change to any file of a folder tool validates the whole tool.
    let meant = |path: PathBuf| {
        store
            .tool_folder(&path)
            .map(Path::to_path_buf)
            .unwrap_or(path)
    };
    let paths = paths.map(|path| meant(ctx.root.join(path))).collect();
    let mut report = validation::validate_items(
        &store,
        &ValidationOptions {
            paths,
            ..ValidationOptions::of(&ctx)
        },
    );
    for finding in &mut report.findings {
        finding.file = project.as_path().join(&finding.file);
    }
    Ok(report)
}

fn joined(reports: Vec<ValidationReport>) -> ValidationReport {
    let mut all = ValidationReport::of(Vec::new());
    for report in reports {
        all.valid &= report.valid;
        all.findings.extend(report.findings);
        all.items = all.items + report.items;
        all.unchecked.extend(report.unchecked);
    }
    all
}
