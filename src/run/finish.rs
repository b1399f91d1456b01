//! Finishes a run: merges its commits into the current branch, or leaves them on their own branch.
//!
//! A finish is a run of its own with one step, and its decision is recorded before it is carried
//! out. First everything is planned in memory: a conflict, or uncommitted user changes in the same
//! lines, stops the finish before anything moves. [`FinishRequest`] describes the request,
//! [`finish`] carries it out.

mod carry_out;
mod error;
mod judgement;
mod tidy;

pub use error::{Clash, FinishError};
pub use tidy::tidy_after;

use serde::Serialize;

use super::error::RunError;
use super::session::{Observer, RunRequest, Session};
use super::undo::error::UndoError;
use crate::audit::history::History;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::Change;
use crate::checkpoint::integration::Integration;
use crate::checkpoint::message;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::failpoint::failpoint;
use crate::journal::RunId;
use crate::journal::event::FinishHow;
use crate::journal::summary::{RunSummary, StepStatus};
use crate::problem::with_causes;
use crate::workspace::open_checkpointer;
use judgement::{BranchOutcome, Judgement, judge};

/// A request to finish a run.
#[derive(Clone, Debug)]
pub struct FinishRequest {
    pub run: RunId,
    /// What to do with its commits.
    pub how: FinishHow,
    pub message: Option<String>,
}

/// What a finish would do.
#[derive(Clone, Debug, Serialize)]
pub struct FinishPreview {
    pub run: RunId,
    pub how: FinishHow,
    /// A description of the effect on the current branch.
    pub way: String,
    /// The commits that are merged or replaced, oldest first.
    pub commits: Vec<ObjectId>,
    /// The files that change.
    pub files: Vec<RepoPath>,
    pub notes: Vec<String>,
}

/// The result of a finish.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// The summary of the finish, which is a run itself.
    pub summary: RunSummary,
    /// A description of the effect on the current branch.
    pub way: String,
    pub notes: Vec<String>,
}

/// Shows what a finish would do.
pub fn preview(ctx: &Context, request: &FinishRequest) -> Result<FinishPreview, RunError> {
    let mut checkpointer = open_checkpointer(ctx)?;
    let judgement = judge_now(&checkpointer, request)?;
    let mut changes = Vec::new();
    if judgement.home().is_some() {
        checkpointer.require_undoable()?;
        let now = judged_state(&mut checkpointer, &judgement)?;
        changes = plan_home(&mut checkpointer, &now, &judgement)?
            .commit
            .changes;
    }
    let files = changes
        .into_iter()
        .map(|change: Change| change.path)
        .collect();
    let (run, how, way) = (judgement.run, request.how, judgement.description());
    Ok(FinishPreview {
        run,
        how,
        way,
        commits: judgement.commits,
        files,
        notes: judgement.notes,
    })
}

/// Finishes a run.
pub fn finish(
    ctx: &Context,
    request: &FinishRequest,
    run: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<FinishedRun, RunError> {
    message::check(request.message.as_deref(), "finish")?;
    // Check first: a finish that is impossible must leave no trace in the log.
    judge_now(&open_checkpointer(ctx)?, request)?;
    let mut session = Session::begin(ctx, run, observer)?;
    let judged = carry_out::finish_run(&mut session, request);
    let (end, judgement) = match judged {
        Ok(done) => done,
        Err(err) => {
            session.abandon(&err)?;
            return Err(err);
        }
    };
    let mut notes = judgement.notes.clone();
    if end.status == StepStatus::Succeeded {
        failpoint("finish-closed");
        match tidy::tidy(ctx, session.repository()?, request) {
            Ok(told) => notes.extend(told),
            // The run is finished; leftovers of its worktree do no harm.
            Err(err) => notes.push(with_causes(&err)),
        }
    }
    let summary = session.finish(end.run_status(), end.error)?;
    Ok(FinishedRun {
        summary,
        way: judgement.description(),
        notes,
    })
}

fn judge_now(checkpointer: &Checkpointer, request: &FinishRequest) -> Result<Judgement, RunError> {
    let repository = checkpointer.repository();
    let (history, _) = History::load(&repository.runs_folder())?;
    judge(repository, &history, request)
}

/// A snapshot of the work tree, if HEAD is still the one of the plan: a commit made since then
/// would be lost.
fn judged_state(
    checkpointer: &mut Checkpointer,
    judgement: &Judgement,
) -> Result<Snapshot, RunError> {
    let now = checkpointer.before()?;
    match judgement.head.moved_to(&now.head) {
        Some(err) => Err(err.into()),
        None => Ok(now),
    }
}

/// Plans how the work tree gets the files of the run; fails if uncommitted user changes are in the
/// way.
fn plan_home(
    checkpointer: &mut Checkpointer,
    now: &Snapshot,
    judgement: &Judgement,
) -> Result<Integration, RunError> {
    let (tree, parents) = judgement.home().ok_or(UndoError::NothingToUndo)?;
    let integration = checkpointer.plan_integration(now, tree, parents)?;
    if !integration.overlaps.is_empty() {
        return Err(FinishError::Overlap(integration.overlaps).into());
    }
    Ok(integration)
}

impl Judgement {
    /// The tree of the merged files and the parents of its commit; `None` if the files stay as they
    /// are.
    fn home(&self) -> Option<(ObjectId, Vec<ObjectId>)> {
        match &self.way {
            BranchOutcome::FastForward { tree } => Some((*tree, Vec::new())),
            BranchOutcome::Commit { tree, parents } => Some((*tree, parents.clone())),
            BranchOutcome::Close
            | BranchOutcome::MakeBranch { .. }
            | BranchOutcome::Replace { .. } => None,
        }
    }

    /// A description of the effect on the current branch.
    fn description(&self) -> String {
        let commits = match self.commits.len() {
            1 => "1 commit".to_owned(),
            count => format!("{count} commits"),
        };
        match &self.way {
            BranchOutcome::Close => "closed; no branch moves".to_owned(),
            BranchOutcome::MakeBranch { name, .. } => {
                format!(
                    "closed; its commits are on `{}`",
                    name.strip_prefix("refs/heads/").unwrap_or(name)
                )
            }
            BranchOutcome::FastForward { .. } => {
                format!("closed; the current branch is fast-forwarded by its {commits}")
            }
            BranchOutcome::Commit { parents, .. } if parents.len() > 1 => {
                format!("closed; its {commits} are merged into the current branch")
            }
            BranchOutcome::Commit { .. } => {
                format!("closed; its {commits} are squashed into one on the current branch")
            }
            BranchOutcome::Replace { .. } => {
                format!("closed; its {commits} on the current branch are squashed into one")
            }
        }
    }
}

impl Judgement {
    /// The name of the step, shortened if the name of the run is long.
    fn step_name(&self) -> String {
        format!("finish {}", self.short)
    }
}
