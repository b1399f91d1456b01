//! Hard roll back: resets branch, index and tracked files to a commit.
//!
//! Discarded changes are saved first. Untracked files stay, unless the commit has a file at the
//! same path. The branch moves last: until then a crash is rolled back like any step.

use super::error::RunError;
use super::recorder::Recorder;
use super::session::{Observer, RunRequest, Session};
use super::unsettled;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::failpoint::failpoint;
use crate::journal::StepId;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::workspace::open_checkpointer;

/// What a hard roll back would do.
#[derive(Clone, Debug, serde::Serialize)]
pub struct HardRollbackPreview {
    /// The branch, or `HEAD`.
    pub target: String,
    pub from: Option<ObjectId>,
    pub to: ObjectId,
    /// The commits that the branch will no longer contain, oldest first.
    pub commits: Vec<ObjectId>,
    /// Files with uncommitted changes that will be replaced or removed.
    pub discarded: Vec<RepoPath>,
    /// Tracked files outside of checkpoints, which stay as they are.
    pub left: Vec<RepoPath>,
}

/// What a hard roll back did.
#[derive(Clone, Debug)]
pub struct HardRollbackResult {
    pub summary: RunSummary,
    /// The step of the roll back; `show` and `restore` accept it for the state before.
    pub step: StepId,
}

/// Shows what a hard roll back would do.
pub fn preview(ctx: &Context, to: ObjectId) -> Result<HardRollbackPreview, RunError> {
    let mut checkpointer = open_checkpointer(ctx)?;
    checkpointer.require_undoable()?;
    let before = checkpointer.before()?;
    let reset = checkpointer.plan_reset(&before, to)?;
    let commits = checkpointer
        .repository()
        .commits_between(Some(to), before.head.commit)?;
    Ok(HardRollbackPreview {
        target: before.head.branch.unwrap_or_else(|| "HEAD".to_owned()),
        from: before.head.commit,
        to,
        commits,
        discarded: reset.discarded,
        left: reset.left,
    })
}

/// Resets branch, index and tracked files to a commit, after saving the current state.
pub fn roll_back_hard(
    ctx: &Context,
    to: ObjectId,
    request: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<HardRollbackResult, RunError> {
    let mut session = Session::begin(ctx, request, observer)?;
    let step = session.recorder.next_step();
    let name = "rollback --hard";
    let id = StepId {
        run: session.run(),
        step,
    };
    // Check before the step begins: an obstacle must leave only the failed run in the journal.
    if let Some(checkpointer) = &mut session.checkpointer {
        let judged = checkpointer
            .before()
            .and_then(|now| checkpointer.plan_reset(&now, to));
        if let Err(err) = judged {
            let err = RunError::from(err);
            session.abandon(&err)?;
            return Err(err);
        }
    }
    let before = session.start_step(step, name, StepKind::RollBack { to }, &[])?;
    let recorder = &mut session.recorder;
    let (Some(before), Some(checkpointer)) = (before, &mut session.checkpointer) else {
        return Ok(HardRollbackResult {
            summary: session.finish(RunStatus::Succeeded, None)?,
            step: id,
        });
    };
    carry_out(recorder, checkpointer, id, &before, to)
        .map_err(|err| unsettled::explain(recorder, err))?;
    recorder.finish_step(step, name, StepStatus::Succeeded, None, None, None)?;
    Ok(HardRollbackResult {
        summary: session.finish(RunStatus::Succeeded, None)?,
        step: id,
    })
}

/// Writes the files, then the index, then the branch.
fn carry_out(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    id: StepId,
    before: &Snapshot,
    to: ObjectId,
) -> Result<(), RunError> {
    let step = id.step;
    let left = checkpointer
        .repository()
        .commits_between(Some(to), before.head.commit)?;
    checkpointer
        .repository()
        .keep_commits(&id.kept("discarded"), &left)?;
    failpoint("hard-kept");
    let reset = checkpointer.plan_reset(before, to)?;
    checkpointer.reset_files(before, &reset)?;
    failpoint("hard-files-reset");
    checkpointer.reset_index(to)?;
    failpoint("hard-index-reset");
    checkpointer.reset_branch(before, to)?;
    failpoint("hard-branch-moved");
    let after = checkpointer.after(before)?;
    let delta = checkpointer.delta(before, &after)?;
    recorder.record(&Event::ChangesFound {
        step,
        after,
        delta,
        outside: Vec::new(),
    })?;
    let reason = format!(
        "reset to {}; `piton show PATH@{id}:before` shows a file",
        to.short()
    );
    recorder.record(&Event::CheckpointSkipped { step, reason })?;
    Ok(())
}
