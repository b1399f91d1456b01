//! The blunt way back: branch, index and tracked files as they were at a commit.
//!
//! What it discards is kept first. Files that git does not track stay, unless the commit has a
//! file at their place. The branch moves last: until then a crash is rolled back like any step.

use super::error::RunError;
use super::session::{Observer, RunRequest, Session, open_checkpointer};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::failpoint::failpoint;
use crate::journal::StepId;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};

/// What a hard roll back would do.
#[derive(Clone, Debug, serde::Serialize)]
pub struct HardPreview {
    /// The branch, or HEAD.
    pub target: String,
    /// Where it is.
    pub from: Option<ObjectId>,
    /// Where it is going to be.
    pub to: ObjectId,
    /// The commits that the branch is going to leave behind, oldest first.
    pub commits: Vec<ObjectId>,
    /// Files with work that is in no commit and is going to be replaced or removed.
    pub discarded: Vec<RepoPath>,
    /// Tracked files outside of checkpoints: they stay as they are.
    pub left: Vec<RepoPath>,
}

/// What a hard roll back did.
#[derive(Clone, Debug)]
pub struct HardEnd {
    /// How the run ended.
    pub summary: RunSummary,
    /// The step: what was there before can be shown and restored by it.
    pub step: StepId,
}

/// Looks at what a hard roll back would do.
pub fn preview(ctx: &Context, to: ObjectId) -> Result<HardPreview, RunError> {
    let mut checkpointer = open_checkpointer(ctx)?;
    checkpointer.require_undoable()?;
    let before = checkpointer.before()?;
    let reset = checkpointer.plan_reset(&before, to)?;
    let commits = checkpointer.repository().commits_between(Some(to), before.head.commit)?;
    Ok(HardPreview {
        target: before.head.branch.unwrap_or_else(|| "HEAD".to_owned()),
        from: before.head.commit,
        to,
        commits,
        discarded: reset.discarded,
        left: reset.left,
    })
}

/// Takes branch, index and tracked files back to a commit, after keeping what is there.
pub fn roll_back_hard(
    ctx: &Context,
    to: ObjectId,
    request: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<HardEnd, RunError> {
    let mut session = Session::begin(ctx, request, observer)?;
    let step = session.next_step();
    let name = "rollback --hard";
    let id = StepId { run: session.run(), step };
    // Judged before the step begins: what is in the way leaves nothing but a run that says so.
    if let Some(checkpointer) = &mut session.checkpointer {
        let judged = checkpointer.before().and_then(|now| checkpointer.plan_reset(&now, to));
        if let Err(err) = judged {
            let err = RunError::from(err);
            session.abandon(&err)?;
            return Err(err);
        }
    }
    let before = session.start_step(step, name, StepKind::RollBack { to }, &[])?;
    let (Some(before), Some(mut checkpointer)) = (before, session.checkpointer.take()) else {
        return Ok(HardEnd { summary: session.finish(RunStatus::Succeeded, None)?, step: id });
    };
    let done = carry_out(&mut session, &mut checkpointer, id, &before, to);
    session.checkpointer = Some(checkpointer);
    done.map_err(|err| session.unsettled(err))?;
    session.finish_step(step, name, StepStatus::Succeeded, None, None, None)?;
    Ok(HardEnd { summary: session.finish(RunStatus::Succeeded, None)?, step: id })
}

/// Files, then index, then branch.
fn carry_out(
    session: &mut Session<'_, '_>,
    checkpointer: &mut Checkpointer,
    id: StepId,
    before: &Snapshot,
    to: ObjectId,
) -> Result<(), RunError> {
    let step = id.step;
    let left = checkpointer.repository().commits_between(Some(to), before.head.commit)?;
    checkpointer.repository().keep_commits(&id.kept("discarded"), &left)?;
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
    session.record(&Event::ChangesFound { step, after, delta, outside: Vec::new() })?;
    let reason = format!("everything is as it was at {}; `piton show PATH@{id}:before` shows a file", to.short());
    session.record(&Event::CheckpointSkipped { step, reason })?;
    Ok(())
}
