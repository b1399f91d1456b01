//! `piton selftest`: tests piton on this machine, in a throw-away repository.
//!
//! [`run`] creates a folder with a home and a repository, and starts the real piton and the user's
//! git there: commits, roll backs, undo and redo, kills at random moments with recovery, and
//! concurrent edits. [`machine`] checks what the machine and the file system offer. Nothing outside
//! of the folder is written. The result is a [`SelftestReport`] of [`SelftestCheck`]s.

mod checkpoint;
mod lab;
mod machine;
mod torture;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::context::Context;
use crate::run::error::RunError;
use lab::Lab;

/// The options of a self-test.
#[derive(Clone, Debug)]
pub struct SelfTest {
    /// The parent of the folder.
    pub place: PathBuf,
    pub kills: u32,
    /// The seed of the random moments.
    pub seed: u64,
    /// What to do with the folder at the end.
    pub folder: SelftestFolder,
}

/// What to do with the folder of a self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelftestFolder {
    Remove,
    /// Keep it for inspection.
    Keep,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SelftestStatus {
    Ok,
    /// Piton works, with a limitation.
    Limited,
    /// Piton does not work as promised.
    Failed,
}

#[derive(Clone, Debug, Serialize)]
pub struct SelftestCheck {
    pub name: &'static str,
    pub status: SelftestStatus,
    pub detail: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SelftestReport {
    /// Whether nothing failed.
    pub passed: bool,
    /// The folder; removed unless it was to be kept.
    pub folder: PathBuf,
    /// Whether the folder is still there.
    pub kept: bool,
    pub kills: u32,
    pub seed: u64,
    pub checks: Vec<SelftestCheck>,
}

impl SelftestCheck {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: SelftestStatus::Ok,
            detail: detail.into(),
            hint: None,
        }
    }

    fn limited(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            name,
            status: SelftestStatus::Limited,
            detail: detail.into(),
            hint: Some(hint.into()),
        }
    }

    fn failed(name: &'static str, detail: impl Into<String>) -> Self {
        let hint = "report this, with the output of `piton selftest --keep --format json` and of `piton doctor`";
        Self {
            name,
            status: SelftestStatus::Failed,
            detail: detail.into(),
            hint: Some(hint.to_owned()),
        }
    }

    /// A check that passes, or fails with the problem in `wrong`.
    fn of(name: &'static str, wrong: Option<String>, right: impl Into<String>) -> Self {
        match wrong {
            None => Self::ok(name, right),
            Some(wrong) => Self::failed(name, wrong),
        }
    }
}

/// The default place of a self-test: on the file system of the project, but outside of its work
/// tree if possible.
pub fn place_near(ctx: &Context) -> PathBuf {
    let beside = ctx.root.parent().filter(|_| ctx.root.join(".git").exists());
    let is_fit = |folder: &Path| {
        use std::os::unix::fs::MetadataExt as _;
        let device = |path: &Path| std::fs::metadata(path).ok().map(|found| found.dev());
        device(folder) == device(&ctx.root)
            && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
    };
    beside
        .filter(|folder| is_fit(folder))
        .map_or_else(|| ctx.cwd.clone(), Path::to_path_buf)
}

/// Runs all checks; `on_check` receives each check as soon as it is done.
pub fn run(
    ctx: &Context,
    asked: &SelfTest,
    on_check: &mut dyn FnMut(&SelftestCheck),
) -> Result<SelftestReport, RunError> {
    let mut lab = Lab::new(ctx, asked)?;
    let mut checks = Vec::new();
    let mut tell = |made: Vec<SelftestCheck>| {
        made.iter().for_each(&mut *on_check);
        checks.extend(made);
    };
    let can_attribute = machine::look(&mut lab, &mut tell)?;
    checkpoint::walk(&mut lab, &mut tell)?;
    let kills = torture::kills(&mut lab, asked, &mut tell)?;
    torture::company(&mut lab, can_attribute, &mut tell)?;
    checkpoint::look_back(&mut lab, &mut tell)?;
    let passed = checks
        .iter()
        .all(|check| check.status != SelftestStatus::Failed);
    let kept = asked.folder == SelftestFolder::Keep;
    let folder = lab.end(asked.folder);
    Ok(SelftestReport {
        passed,
        folder,
        kept,
        kills,
        seed: asked.seed,
        checks,
    })
}
