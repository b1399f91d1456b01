//! `piton selftest`: piton tried out on this machine, in a repository that is thrown away.
//!
//! [`run`] makes a folder, a home and a repository in it, and starts the real piton and the user's git there: commits, roll
//! backs, undo and redo, kills at random moments with recovery, edits at the same time. [`machine`] looks at what the machine and
//! the file system offer. Nothing outside of that folder is written. The answer is a [`Report`] of [`Check`]s.

mod lab;
mod machine;
mod rope;
mod torture;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::RunError;
use crate::context::Context;
use lab::Lab;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct SelfTest {
    /// Where the folder is made.
    pub place: PathBuf,
    /// How often piton is killed.
    pub kills: u32,
    /// What the random moments follow from.
    pub seed: u64,
    /// What becomes of the folder at the end.
    pub folder: Folder,
}

/// What becomes of the folder of a self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// It is removed.
    Remove,
    /// It stays, to be looked at.
    Keep,
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it has to be.
    Ok,
    /// Piton works, with a limit that is worth knowing.
    Limited,
    /// Piton does not do what it promises here.
    Failed,
}

/// One thing that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was tried.
    pub name: &'static str,
    /// What came of it.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Everything that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether nothing failed.
    pub passed: bool,
    /// The folder, removed unless it was to be kept.
    pub folder: PathBuf,
    /// Whether the folder is still there.
    pub kept: bool,
    /// How often piton was killed.
    pub kills: u32,
    /// The seed of the random moments.
    pub seed: u64,
    /// Each check.
    pub checks: Vec<Check>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, detail: detail.into(), hint: None }
    }

    fn limited(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, status: Status::Limited, detail: detail.into(), hint: Some(hint.into()) }
    }

    fn failed(name: &'static str, detail: impl Into<String>) -> Self {
        let hint = "report this, with the output of `piton selftest --keep --format json` and of `piton doctor`";
        Self { name, status: Status::Failed, detail: detail.into(), hint: Some(hint.to_owned()) }
    }

    /// A check that found nothing wrong, or says what is.
    fn of(name: &'static str, wrong: Option<String>, right: impl Into<String>) -> Self {
        match wrong {
            None => Self::ok(name, right),
            Some(wrong) => Self::failed(name, wrong),
        }
    }
}

/// Where a self-test is made by default: on the file system of a folder, but not inside of its work tree if that can be helped.
pub fn place_near(ctx: &Context) -> PathBuf {
    let beside = ctx.root.parent().filter(|_| ctx.root.join(".git").exists());
    let is_fit = |folder: &Path| {
        use std::os::unix::fs::MetadataExt as _;
        let device = |path: &Path| std::fs::metadata(path).ok().map(|found| found.dev());
        device(folder) == device(&ctx.root) && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
    };
    beside.filter(|folder| is_fit(folder)).map_or_else(|| ctx.cwd.clone(), Path::to_path_buf)
}

/// Tries everything; `on_check` sees each answer as it comes.
pub fn run(ctx: &Context, asked: &SelfTest, on_check: &mut dyn FnMut(&Check)) -> Result<Report, RunError> {
    let mut lab = Lab::new(ctx, asked)?;
    let mut checks = Vec::new();
    let mut tell = |made: Vec<Check>| {
        made.iter().for_each(&mut *on_check);
        checks.extend(made);
    };
    let can_attribute = machine::look(&mut lab, &mut tell)?;
    rope::walk(&mut lab, &mut tell)?;
    let kills = torture::kills(&mut lab, asked, &mut tell)?;
    torture::company(&mut lab, can_attribute, &mut tell)?;
    rope::look_back(&mut lab, &mut tell)?;
    let passed = checks.iter().all(|check| check.status != Status::Failed);
    let kept = asked.folder == Folder::Keep;
    let folder = lab.end(asked.folder);
    Ok(Report { passed, folder, kept, kills, seed: asked.seed, checks })
}
