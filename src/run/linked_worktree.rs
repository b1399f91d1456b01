//! A worktree for one run: its own branch and files beside those of the user.
//!
//! [`create`] makes one outside of the project. [`find`] returns the worktree of a run. [`remove`]
//! removes a worktree that holds only commits, [`discard`] one in which no run has begun, and
//! [`drop_abandoned`] those whose run died before it began. A new worktree lacks uncommitted files,
//! such as a new directive; [`require_committed`] reports that.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;

use super::error::RunError;
use crate::audit::history::RunRecord;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::linked_worktree::{LinkedWorktree, Removal};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::{RepoPath, listed};
use crate::checkpoint::repository::Repository;
use crate::context::{Context, ContextError};
use crate::journal::{self, JournalError, RunId, lock};
use crate::problem::{Code, Explain, Hint};
use crate::workspace::open_repository;

/// The prefix of the branches of runs.
pub const BRANCHES: &str = "refs/heads/piton/";

/// A run that was started within this time may still be about to begin.
const STARTING: SignedDuration = SignedDuration::from_hours(1);

/// A worktree that was made for a run.
#[derive(Clone, Debug)]
pub struct RunWorktree {
    pub run: RunId,
    pub path: PathBuf,
    /// The project folder in it.
    pub project: PathBuf,
    /// The full name of its branch.
    pub branch: String,
    /// The commit at which the branch began.
    pub base: ObjectId,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The state of a required file in the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommittedState {
    /// The same as on disk.
    Same,
    /// Different; the worktree has the committed version.
    Differs,
}

/// Why the worktree of a run cannot be created or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// There is no commit to start a branch at.
    #[error("the branch has no commit yet, so a worktree cannot be created")]
    Unborn,
    /// A required file is not committed.
    #[error("`{}` is not in the last commit, so a new worktree would not contain it", .0.display())]
    NotCommitted(PathBuf),
    /// The worktree would be inside the project.
    #[error("the folder for worktrees, `{}`, is inside the project", .0.display())]
    InsideProject(PathBuf),
    /// It has uncommitted changes.
    #[error("the worktree `{}` has uncommitted changes: {}", .path.display(), listed(.files))]
    Uncommitted { path: PathBuf, files: Vec<RepoPath> },
    /// Git refuses to remove it.
    #[error("the worktree `{}` cannot be removed: {reason}", .path.display())]
    Kept { path: PathBuf, reason: String },
    /// It contains no project.
    #[error(transparent)]
    Context(#[from] ContextError),
}

impl RunWorktree {
    /// The context of the project in this worktree.
    pub fn context(&self, ctx: &Context) -> Result<Context, RunError> {
        Ok(ctx.moved_to(&self.project).map_err(WorktreeError::from)?)
    }
}

/// The full name of the branch of a run.
pub fn branch_of(run: RunId) -> String {
    format!("{BRANCHES}{run}")
}

/// Creates a worktree for a run, outside of the project, on a new branch at HEAD.
pub fn create(ctx: &Context, run: RunId) -> Result<RunWorktree, RunError> {
    let repository = open_repository(ctx)?;
    let base = repository.head()?.commit.ok_or(WorktreeError::Unborn)?;
    let below = RepoPath::find_below(repository.top(), &ctx.root).unwrap_or_default();
    if !below.is_top() && !repository.has_committed_folder(base, &below)? {
        return Err(WorktreeError::NotCommitted(ctx.root.clone()).into());
    }
    let folder = ctx.state_folder().join("worktrees");
    if folder.starts_with(repository.top()) {
        return Err(WorktreeError::InsideProject(folder).into());
    }
    std::fs::create_dir_all(&folder).map_err(CheckpointError::io("make the folder", &folder))?;
    let path = folder.join(run.to_string());
    let branch = branch_of(run);
    repository.add_worktree(ctx.environment.variables(), &path, &branch, base)?;
    let path =
        std::fs::canonicalize(&path).map_err(CheckpointError::io("find the folder", &path))?;
    let mut notes = Vec::new();
    if repository.has_submodules(base)? {
        notes.push(
            "submodules are empty in the worktree: `git submodule update --init` there fills them"
                .to_owned(),
        );
    }
    let project = path.join(below.as_path());
    Ok(RunWorktree {
        run,
        path,
        project,
        branch,
        base,
        notes,
    })
}

/// Refuses a file that a new worktree would lack.
pub fn require_committed(ctx: &Context, file: &Path) -> Result<CommittedState, RunError> {
    let repository = open_repository(ctx)?;
    let missing = || WorktreeError::NotCommitted(ctx.shown_path(file));
    let head = repository.head()?.commit.ok_or(WorktreeError::Unborn)?;
    let path = RepoPath::find_below(repository.top(), file).ok_or_else(missing)?;
    let same = repository.is_committed(head, &path)?.ok_or_else(missing)?;
    Ok(if same {
        CommittedState::Same
    } else {
        CommittedState::Differs
    })
}

/// The linked worktree of a run, if git still has it.
pub fn find(repository: &Repository, run: &RunRecord) -> Result<Option<LinkedWorktree>, RunError> {
    let found = repository.linked_worktrees()?;
    Ok(found
        .into_iter()
        .find(|worktree| worktree.path.to_string_lossy() == run.root))
}

/// Removes a worktree that holds only commits and ignored files. Its branch stays.
pub fn remove(
    ctx: &Context,
    repository: &Repository,
    worktree: &LinkedWorktree,
) -> Result<(), RunError> {
    let path = worktree.path.clone();
    match repository.remove_worktree(ctx.environment.variables(), worktree)? {
        Removal::Removed => Ok(()),
        Removal::Uncommitted(files) => Err(WorktreeError::Uncommitted { path, files }.into()),
        Removal::Refused(reason) => Err(WorktreeError::Kept { path, reason }.into()),
    }
}

/// Worktrees of runs that died before they began: they hold nothing, and no run uses them.
pub fn abandoned(ctx: &Context) -> Result<Vec<RunWorktree>, RunError> {
    let repository = match open_repository(ctx) {
        Err(CheckpointError::NoRepository(_)) => return Ok(Vec::new()),
        repository => repository?,
    };
    let head = repository.head()?.commit;
    let recently = ctx.now().checked_sub(STARTING).ok();
    let mut found = Vec::new();
    for linked in repository.linked_worktrees()? {
        let name = linked
            .path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.parse::<RunId>().ok());
        let Some(run) = name.filter(|_| linked.exists && !linked.is_locked) else {
            continue;
        };
        let branch = branch_of(run);
        // Nothing was or will be done there: its commit is part of the current branch.
        let tip = repository
            .find_named(&branch)
            .filter(|_| linked.branch.as_deref() == Some(branch.as_str()));
        let is_empty = |tip: &ObjectId| head.is_some_and(|head| repository.leads_to(head, *tip));
        let Some(base) = tip.filter(is_empty) else {
            continue;
        };
        let has_begun = match journal::read(&journal::path_of(&repository.runs_folder(), run)) {
            Ok(contents) => !contents.records.is_empty(),
            Err(JournalError::Io { source, .. }) => source.kind() != std::io::ErrorKind::NotFound,
            Err(_) => true,
        };
        let is_recent = recently.is_none_or(|recently| run.started() > recently);
        if has_begun || is_recent || lock::current_holder(&linked.git_dir.join("piton")).is_some() {
            continue;
        }
        let (path, project) = (linked.path.clone(), linked.path);
        found.push(RunWorktree {
            run,
            path,
            project,
            branch,
            base,
            notes: Vec::new(),
        });
    }
    Ok(found)
}

/// Removes the worktrees of runs that never began; a worktree with changes stays.
pub fn drop_abandoned(ctx: &Context) -> Result<Vec<RunWorktree>, RunError> {
    let mut dropped = abandoned(ctx)?;
    dropped.retain(|worktree| discard(ctx, worktree).is_ok());
    Ok(dropped)
}

/// Removes a worktree in which no run has begun: its files, and its branch if that has not moved.
pub fn discard(ctx: &Context, worktree: &RunWorktree) -> Result<(), RunError> {
    let repository = open_repository(ctx)?;
    let found = repository
        .linked_worktrees()?
        .into_iter()
        .find(|found| found.path == worktree.path);
    if let Some(found) = found {
        remove(ctx, &repository, &found)?;
    }
    Ok(repository.remove_branch(&worktree.branch, worktree.base)?)
}

impl Explain for WorktreeError {
    fn code(&self) -> Code {
        match self {
            Self::Unborn => Code::UnbornBranch,
            Self::NotCommitted(_) => Code::NotCommitted,
            Self::InsideProject(_) => Code::InsideProject,
            Self::Uncommitted { .. } => Code::UncommittedWork,
            Self::Kept { .. } => Code::WorktreeKept,
            Self::Context(err) => err.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Unborn => "make a first commit, or run without `--worktree`".into(),
            Self::NotCommitted(_) => "commit it first, or run without `--worktree`".into(),
            Self::InsideProject(_) => "set `XDG_STATE_HOME` to a folder outside the project".into(),
            Self::Uncommitted { path, .. } => {
                let path = path.display();
                format!("commit or discard it there, then `git worktree remove '{path}'`").into()
            }
            Self::Kept { path, .. } => format!(
                "nothing in it was lost; run `git worktree remove '{}'` to try again",
                path.display()
            )
            .into(),
            Self::Context(err) => return err.hint(),
        })
    }
}

impl WorktreeError {
    /// Whether the repository or the machine is the cause.
    pub fn is_unsafe(&self) -> bool {
        !matches!(
            self,
            Self::NotCommitted(_) | Self::Uncommitted { .. } | Self::Kept { .. }
        )
    }

    /// Whether the request is not valid yet.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NotCommitted(_))
    }
}
