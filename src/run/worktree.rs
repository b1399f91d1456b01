//! A worktree for one run: a branch and files of its own beside those of the user.
//!
//! [`create`] makes one outside of the project, [`find`] says which one a run worked in, [`remove`]
//! lets go of one that holds nothing but commits, [`discard`] of one that was made in vain, [`drop_abandoned`] of
//! those whose run died before it began. What is in no commit, such as a directive that was
//! just written, is not in a new worktree; [`require_committed`] says so.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;

use super::error::RunError;
use super::session::open_repository;
use crate::audit::history::RunRecord;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::linked::{LinkedWorktree, Removal};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::{RepoPath, listed};
use crate::checkpoint::repository::Repository;
use crate::context::{Context, ContextError};
use crate::journal::{self, JournalError, RunId, lock};
use crate::problem::{Code, Explain, Hint};

/// Where the branches of runs are.
pub const BRANCHES: &str = "refs/heads/piton/";

/// A run that was started within this time may still be about to begin.
const STARTING: SignedDuration = SignedDuration::from_hours(1);

/// A worktree that was made for a run.
#[derive(Clone, Debug)]
pub struct Worktree {
    /// The run.
    pub run: RunId,
    /// Its files.
    pub path: PathBuf,
    /// The project in it.
    pub project: PathBuf,
    /// The full name of its branch.
    pub branch: String,
    /// Where the branch began.
    pub base: ObjectId,
    /// What a reader should know about it.
    pub notes: Vec<String>,
}

/// How a file that is needed in a worktree stands in the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// As it is on disk.
    Same,
    /// With other content: the worktree has that of the commit.
    Differs,
}

/// Why there is no worktree for a run, or why it stays.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// There is no commit that a branch could begin at.
    #[error("the branch has no commit yet, so that there is nothing to make a worktree of")]
    Unborn,
    /// What the run needs is in no commit.
    #[error("`{}` is not in the last commit, so that a new worktree does not have it", .0.display())]
    NotCommitted(PathBuf),
    /// The worktree would lie inside the project.
    #[error("worktrees would be kept in `{}`, which is inside of the project", .0.display())]
    InsideProject(PathBuf),
    /// It holds work that is in no commit.
    #[error("the worktree `{}` holds work that is in no commit: {}", .path.display(), listed(.files))]
    Uncommitted {
        /// Where it is.
        path: PathBuf,
        /// The work.
        files: Vec<RepoPath>,
    },
    /// Git does not let go of it.
    #[error("the worktree `{}` cannot be removed: {reason}", .path.display())]
    Kept {
        /// Where it is.
        path: PathBuf,
        /// What git said.
        reason: String,
    },
    /// There is no project in it.
    #[error(transparent)]
    Context(#[from] ContextError),
}

impl Worktree {
    /// The context of the project in this worktree.
    pub fn context(&self, ctx: &Context) -> Result<Context, RunError> {
        Ok(ctx.moved_to(&self.project).map_err(WorktreeError::from)?)
    }
}

/// The full name of the branch of a run.
pub fn branch_of(run: RunId) -> String {
    format!("{BRANCHES}{run}")
}

/// Makes a worktree for a run, on a new branch at HEAD, outside of the project.
pub fn create(ctx: &Context, run: RunId) -> Result<Worktree, RunError> {
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
    let path = std::fs::canonicalize(&path).map_err(CheckpointError::io("find the folder", &path))?;
    let mut notes = Vec::new();
    if repository.has_submodules(base)? {
        notes.push("submodules are empty in the worktree: `git submodule update --init` there fills them".to_owned());
    }
    let project = path.join(below.as_path());
    Ok(Worktree { run, path, project, branch, base, notes })
}

/// Refuses a file that a new worktree would not have.
pub fn require_committed(ctx: &Context, file: &Path) -> Result<Committed, RunError> {
    let repository = open_repository(ctx)?;
    let missing = || WorktreeError::NotCommitted(ctx.shown_path(file));
    let head = repository.head()?.commit.ok_or(WorktreeError::Unborn)?;
    let path = RepoPath::find_below(repository.top(), file).ok_or_else(missing)?;
    let same = repository.is_committed(head, &path)?.ok_or_else(missing)?;
    Ok(if same { Committed::Same } else { Committed::Differs })
}

/// The linked worktree that a run worked in, if git still knows it.
pub fn find(repository: &Repository, run: &RunRecord) -> Result<Option<LinkedWorktree>, RunError> {
    let found = repository.linked_worktrees()?;
    Ok(found.into_iter().find(|worktree| worktree.path.to_string_lossy() == run.root))
}

/// Removes a worktree that holds nothing but commits and ignored files. Its branch stays.
pub fn remove(ctx: &Context, repository: &Repository, worktree: &LinkedWorktree) -> Result<(), RunError> {
    let path = worktree.path.clone();
    match repository.remove_worktree(ctx.environment.variables(), worktree)? {
        Removal::Removed => Ok(()),
        Removal::Uncommitted(files) => Err(WorktreeError::Uncommitted { path, files }.into()),
        Removal::Refused(reason) => Err(WorktreeError::Kept { path, reason }.into()),
    }
}

/// Worktrees that were made for a run which died before it began: they hold nothing, and no run names them.
pub fn abandoned(ctx: &Context) -> Result<Vec<Worktree>, RunError> {
    let repository = match open_repository(ctx) {
        Err(CheckpointError::NoRepository(_)) => return Ok(Vec::new()),
        repository => repository?,
    };
    let head = repository.head()?.commit;
    let recently = ctx.now().checked_sub(STARTING).ok();
    let mut found = Vec::new();
    for linked in repository.linked_worktrees()? {
        let name = linked.path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<RunId>().ok());
        let Some(run) = name.filter(|_| linked.exists && !linked.is_locked) else { continue };
        let branch = branch_of(run);
        // Nothing was done there, and it is not about to be: its commit is one that the current branch has.
        let tip = repository.find_named(&branch).filter(|_| linked.branch.as_deref() == Some(branch.as_str()));
        let is_empty = |tip: &ObjectId| head.is_some_and(|head| repository.leads_to(head, *tip));
        let Some(base) = tip.filter(is_empty) else { continue };
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
        found.push(Worktree { run, path, project, branch, base, notes: Vec::new() });
    }
    Ok(found)
}

/// Takes back the worktrees of runs that never began; one with work in it stays.
pub fn drop_abandoned(ctx: &Context) -> Result<Vec<Worktree>, RunError> {
    let mut dropped = abandoned(ctx)?;
    dropped.retain(|worktree| discard(ctx, worktree).is_ok());
    Ok(dropped)
}

/// Takes back a worktree in which no run has begun: its files, and its branch if it is still where it began.
pub fn discard(ctx: &Context, worktree: &Worktree) -> Result<(), RunError> {
    let repository = open_repository(ctx)?;
    let found = repository.linked_worktrees()?.into_iter().find(|found| found.path == worktree.path);
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
            Self::InsideProject(_) => "let `XDG_STATE_HOME` name a folder outside of the project".into(),
            Self::Uncommitted { path, .. } => {
                let path = path.display();
                format!("commit or discard it there, then `git worktree remove '{path}'`").into()
            }
            Self::Kept { path, .. } => {
                format!("nothing in it is lost; `git worktree remove '{}'` tries again", path.display()).into()
            }
            Self::Context(err) => return err.hint(),
        })
    }
}

impl WorktreeError {
    /// Whether the repository or the machine is the reason.
    pub fn is_unsafe(&self) -> bool {
        !matches!(self, Self::NotCommitted(_) | Self::Uncommitted { .. } | Self::Kept { .. })
    }

    /// Whether what was asked for makes no sense yet.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NotCommitted(_))
    }
}
