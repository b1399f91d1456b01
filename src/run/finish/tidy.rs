//! Removes the worktree and the branch of a finished run, if nothing needs them.
//!
//! Nothing is forced: a worktree with uncommitted changes stays, and so does a branch whose commits
//! are reachable from nowhere else. Every part can be repeated.

use std::time::Duration;

use super::FinishRequest;
use super::judgement::branch_of_run;
use crate::audit::history::{History, RunRecord};
use crate::audit::retention::kept_steps;
use crate::checkpoint::linked_worktree::LinkedWorktree;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::failpoint::failpoint;
use crate::journal::RunId;
use crate::journal::event::{FinishHow, StepKind};
use crate::journal::lock::{Holder, RunLock};
use crate::journal::summary::RunStatus;
use crate::problem::{Explain, with_causes};
use crate::run::error::RunError;
use crate::run::linked_worktree::{BRANCHES, find, remove};

/// Removes what an interrupted finish left behind.
pub fn tidy_after(ctx: &Context, repository: &Repository, finish: RunId) -> Result<(), RunError> {
    let (history, _) = History::load(&repository.runs_folder())?;
    let steps = history
        .run(finish)
        .map(|run| run.steps.as_slice())
        .unwrap_or_default();
    for step in steps {
        if let StepKind::Finish { of, how, .. } = &step.kind
            && history.finish_of(*of).is_some()
        {
            tidy_run(ctx, repository, &history, *of, *how)?;
        }
    }
    Ok(())
}

/// Removes the worktree and the branch of a finished run; returns what stays, and why.
pub(super) fn tidy(
    ctx: &Context,
    repository: &Repository,
    request: &FinishRequest,
) -> Result<Vec<String>, RunError> {
    let (history, _) = History::load(&repository.runs_folder())?;
    tidy_run(ctx, repository, &history, request.run, request.how)
}

fn tidy_run(
    ctx: &Context,
    repository: &Repository,
    history: &History,
    run: RunId,
    how: FinishHow,
) -> Result<Vec<String>, RunError> {
    let mut notes = Vec::new();
    let Some(run) = history.run(run) else {
        return Ok(notes);
    };
    let Some(branch) =
        branch_of_run(repository, run)?.filter(|branch| branch.starts_with(BRANCHES))
    else {
        return Ok(notes);
    };
    if let Some(worktree) = find(repository, run)?.filter(|found| is_own(found, &branch)) {
        match let_go(ctx, repository, history, &worktree) {
            Ok(()) => failpoint("finish-worktree-removed"),
            Err(reason) => notes.push(reason),
        }
    }
    if how != FinishHow::Branch
        && let Some(tip) = repository.find_branch(&branch)?
    {
        let kept = repository.kept_commit(&kept_steps(run.id))?;
        let head = repository.head()?.commit;
        if kept == Some(tip) || head.is_some_and(|head| repository.leads_to(head, tip)) {
            repository.remove_branch(&branch, tip)?;
        }
    }
    Ok(notes)
}

/// Whether piton created a worktree for the run in the branch name.
fn is_own(worktree: &LinkedWorktree, branch: &str) -> bool {
    let name = worktree
        .path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    worktree.branch.as_deref() == Some(branch) && name.as_deref() == branch.strip_prefix(BRANCHES)
}

/// Removes a worktree that no run uses, or returns why it stays.
fn let_go(
    ctx: &Context,
    repository: &Repository,
    history: &History,
    worktree: &LinkedWorktree,
) -> Result<(), String> {
    let stays = |why: String| format!("its worktree `{}` stays: {why}", worktree.path.display());
    let root = worktree.path.to_string_lossy();
    let is_open = |run: &&RunRecord| {
        run.root == root && matches!(run.status(), None | Some(RunStatus::Waiting))
    };
    if let Some(open) = history.runs.iter().find(is_open) {
        return Err(stays(format!("run `{}` there has not ended", open.id)));
    }
    // Use a run id of its own: a process that finds this lock must not take the finish for a run of
    // that worktree.
    let holder = Holder::of_process(RunId::new(ctx.now(), ctx.random_bits()), ctx.now());
    let taken = RunLock::acquire(
        &worktree.git_dir.join("piton"),
        &holder,
        Duration::ZERO,
        repository.disk(),
    );
    let (lock, previous) = taken.map_err(|err| stays(with_causes(&err)))?;
    if !lock.unfinished().is_empty() {
        // If this fails too, the next command in that worktree recovers it.
        let _ = lock.give_back(previous.as_ref());
        return Err(stays(
            "a run was interrupted there; `piton recover` recovers it".to_owned(),
        ));
    }
    let removed = remove(ctx, repository, worktree);
    // The lock was removed with the worktree.
    let _ = lock.release();
    removed.map_err(|err| match err.hint() {
        Some(hint) => format!("{}; {hint}", with_causes(&err)),
        None => with_causes(&err),
    })
}
