//! Rolls back a whole run that must be all-or-nothing and did not succeed.
//!
//! The roll back is one step at the end of the run. Files return to their state before the run. One
//! inverse commit undoes the commits of the run, so branches never move backwards. If another
//! person or process has changed one of the files since, the roll back is refused and nothing
//! changes.

use std::collections::BTreeMap;

use super::error::RunError;
use super::recorder::Recorder;
use super::session::{Session, no_repository};
use super::settle::{self, ChangesVerdict, Rules, Settlement, Wording};
use super::undo::{self, WrittenPaths, commits_of, operations_of};
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::{Entry, ObjectId};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{Inverse, ReversalScope, StepOperation};
use crate::checkpoint::snapshot::Snapshot;
use crate::failpoint::failpoint;
use crate::journal::RunId;
use crate::journal::event::StepKind;
use crate::journal::summary::StepStatus;
use crate::problem::Problem;

/// The name of the step that rolls back a run.
const NAME: &str = "roll back the run";

/// Rolls back the whole run; returns the error of the run together with the outcome of the roll
/// back.
pub(super) fn put_run_back(
    session: &mut Session<'_>,
    error: Option<Problem>,
) -> Result<Option<Problem>, RunError> {
    let put_back = match put_back(session) {
        Ok(put_back) => put_back,
        Err(err @ (RunError::Checkpoint(_) | RunError::Undo(_))) => Some(Err(Problem::of(&err))),
        Err(err) => return Err(err),
    };
    let Some(put_back) = put_back else {
        return Ok(error);
    };
    Ok(error.map(|error| match put_back {
        Ok(()) => error.with_hint("the whole run was rolled back; run the directive again"),
        Err(why) => {
            let message = format!(
                "{}; the run was not rolled back: {}",
                error.message(),
                why.message()
            );
            let hint = why.hint.or(error.hint);
            Problem::new(error.code, message).with_hint_of(hint)
        }
    }))
}

/// Returns `None` if none of the run's changes are left.
fn put_back(session: &mut Session<'_>) -> Result<Option<Result<(), Problem>>, RunError> {
    let (history, _) = History::load(&session.recorder.folders.runs)?;
    let steps = steps_of(&history, session.recorder.run);
    if steps.is_empty() {
        return Ok(None);
    }
    let (_, checkpointer) = session.with_git()?;
    // Check this before the step begins: a refusal changes nothing.
    let operations = operations_of(&history, checkpointer.repository(), &steps)?;
    let inverse = judge(checkpointer, &operations)?;
    let commits = commits_of(&history, &steps);
    let step = session.recorder.next_step();
    let ids = steps.iter().map(|step| step.id).collect();
    let kind = StepKind::RollBackRun {
        steps: ids,
        commits: commits.clone(),
    };
    let Some(before) = session.start_step(step, NAME, kind, &[])? else {
        return Err(no_repository(session.recorder.ctx));
    };
    let (recorder, checkpointer) = session.with_git()?;
    let Settlement {
        checkpoint, error, ..
    } = carry_back(
        recorder,
        checkpointer,
        step,
        &before,
        inverse,
        &operations,
        &commits,
    )?;
    let status = if error.is_none() {
        StepStatus::Succeeded
    } else {
        StepStatus::Failed
    };
    recorder.finish_step(step, NAME, status, None, checkpoint, error.as_ref())?;
    Ok(Some(error.map_or(Ok(()), Err)))
}

fn carry_back(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    before: &Snapshot,
    inverse: Inverse,
    operations: &[StepOperation],
    commits: &[ObjectId],
) -> Result<Settlement, RunError> {
    let applied = checkpointer.apply_inverse(&inverse, operations);
    failpoint("run-put-back");
    let mut written = WrittenPaths::of(&inverse.plan);
    if let Ok(report) = &applied
        && report.shortfall().is_some()
    {
        written = written.limited_to(Some(report));
    }
    let applied = applied.map(|report| report.shortfall());
    let has = |path: &RepoPath| written.has(path);
    let own = written.ownership(&has);
    let wording = Wording {
        name: NAME,
        undoes: commits,
        ..Wording::default()
    };
    match (applied?, inverse.commit) {
        (Some(err), _) => {
            undo::leave_as_it_was(recorder, checkpointer, step, before, &written, &err)
        }
        (None, Some(plan)) => {
            let found = settle::find_own(recorder, checkpointer, step, before, own)?;
            undo::commit_or_put_back(recorder, checkpointer, step, wording, before, found, &plan)
        }
        (None, None) => {
            let verdict = ChangesVerdict::Keep("the run made no commit");
            let rules = Rules { own, ..Rules::NONE };
            settle::settle(
                recorder,
                Some(checkpointer),
                step,
                wording,
                before,
                verdict,
                rules,
            )
        }
    }
}

/// The steps of a run that still have an effect, newest first.
fn steps_of(history: &History, run: RunId) -> Vec<&StepRecord> {
    let undone = history.undone();
    let steps = history
        .run(run)
        .map(|run| run.steps.as_slice())
        .unwrap_or_default();
    // Edits during a manual step that was never completed belong to the user.
    let is_theirs = |step: &StepRecord| {
        let is_manual = matches!(step.kind, StepKind::Prose { .. } | StepKind::Human { .. });
        is_manual && step.status != Some(StepStatus::Succeeded) && !step.started_process
    };
    let counts =
        |step: &&StepRecord| step.is_operation() && !undone.contains(&step.id) && !is_theirs(step);
    steps.iter().rev().filter(counts).collect()
}

/// Computes the inverse of the operations. Fails if a file is not as the run left it, or if another
/// process changed it between two steps of the run.
fn judge(
    checkpointer: &mut Checkpointer,
    operations: &[StepOperation],
) -> Result<Inverse, CheckpointError> {
    checkpointer.require_undoable()?;
    checkpointer.expect_back(operations)?;
    let now = checkpointer.before()?;
    if let Some(newest) = operations.first()
        && newest.after.head.branch != now.head.branch
        && let Some(err) = newest.after.head.moved_to(&now.head)
    {
        return Err(err);
    }
    let mut found: BTreeMap<&RepoPath, Option<Entry>> = BTreeMap::new();
    let mut left: BTreeMap<&RepoPath, Option<Entry>> = BTreeMap::new();
    let mut edited = Vec::new();
    for operation in operations
        .iter()
        .filter(|operation| operation.reach == ReversalScope::Files)
    {
        for change in &operation.delta.changes {
            left.entry(&change.path).or_insert(change.after);
            if found
                .insert(&change.path, change.before)
                .is_some_and(|found| found != change.after)
            {
                edited.push(change.path.clone());
            }
        }
    }
    let inverse = checkpointer.invert(&now, operations)?.require_writable()?;
    let is_edited = |path: &RepoPath, expected: Option<Entry>| {
        left.get(path).is_some_and(|left| *left != expected)
    };
    let files = inverse
        .plan
        .files
        .iter()
        .filter(|file| is_edited(&file.path, file.expected));
    edited.extend(files.map(|file| file.path.clone()));
    edited.extend(inverse.conflicts.iter().cloned());
    edited.sort();
    edited.dedup();
    if edited.is_empty() {
        Ok(inverse)
    } else {
        Err(CheckpointError::ChangedSince(edited))
    }
}
