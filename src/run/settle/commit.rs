//! Commits the changes of a step, with the user's hooks.
//!
//! The decision is recorded before the branch moves. From then on no error may roll back the files:
//! the branch already has the commit.

use super::{Reversal, Settlement, Wording, counted, failed, find_own, roll_back, stages};
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::{CommitPlan, PreparedCommit};
use crate::checkpoint::delta::Delta;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::message::{self, MessageParts, Trailers};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::snapshot::{Head, Snapshot};
use crate::checkpoint::user_hooks::HookRun;
use crate::config::HookPolicy;
use crate::failpoint::failpoint;
use crate::journal::event::{Decision, Event};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary};
use crate::problem::Problem;
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::step::summary;
use crate::run::undo::combine;
use crate::run::{manual_commits, message_request};

/// Commits the changes, with the user's hooks, or returns why it did not.
pub(in crate::run) fn commit_or_explain(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    found: Attributed,
) -> Result<Settlement, RunError> {
    commit_planned_or_explain(recorder, checkpointer, step, wording, before, found, None)
}

/// As [`commit_or_explain`]; `planned` is the commit of exactly these changes, if the caller has
/// planned it already.
pub(in crate::run) fn commit_planned_or_explain(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    found: Attributed,
    planned: Option<CommitPlan>,
) -> Result<Settlement, RunError> {
    // The step may have begun a merge: a commit would conclude it, conflict markers included.
    if let Err(err) = checkpointer.require_undoable() {
        return failed(recorder, step, err);
    }
    let (outside, doubt) = (found.outside.clone(), found.doubt);
    let index = stages(before, &found.after);
    let committed = match run_pre_commit(recorder, checkpointer, step, before, found) {
        Ok((delta, mut notes)) => {
            notes.extend(
                doubt.map(|doubt| format!("it may contain changes of another process: {doubt}")),
            );
            // The hook may have changed files.
            match planned.filter(|_| !checkpointer.has_pre_commit()) {
                Some(plan) => {
                    commit_planned(recorder, checkpointer, step, wording, &plan, &delta, notes)
                }
                None => commit(
                    recorder,
                    checkpointer,
                    step,
                    wording,
                    &before.head,
                    &delta,
                    notes,
                ),
            }
        }
        Err(err) => Err(err),
    };
    match committed {
        Err(RunError::Checkpoint(err @ CheckpointError::HookFailed { .. })) => {
            // The hook may have changed files as well: roll them back together.
            let own = Ownership {
                has: &|path| outside.binary_search(path).is_err(),
                index,
                doubt,
                ..Ownership::EVERYTHING
            };
            let Attributed { after, delta, .. } =
                find_own(recorder, checkpointer, step, before, own)?;
            if delta.is_empty() {
                return failed(recorder, step, err);
            }
            let why = Reversal {
                doubt,
                ..Reversal::failure("a hook refused the commit", Problem::of(&err))
            };
            let mut settlement =
                roll_back(recorder, checkpointer, step, why, before, &after, &delta)?;
            settlement.error.get_or_insert(Problem::of(&err));
            Ok(settlement)
        }
        Err(RunError::Checkpoint(err)) => failed(recorder, step, err),
        settled => settled,
    }
}

/// Runs the user's `pre-commit` hook; its changes become part of the step.
pub(in crate::run) fn run_pre_commit(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    before: &Snapshot,
    found: Attributed,
) -> Result<(Delta, Vec<String>), RunError> {
    let Attributed {
        after,
        delta,
        outside,
        doubt,
    } = found;
    if !checkpointer.has_pre_commit() {
        return Ok((delta, Vec::new()));
    }
    if !outside.is_empty() && recorder.ctx.config.hooks() == HookPolicy::Auto {
        let reason =
            "`pre-commit` was skipped: another process has changes that it might stash or rewrite";
        return Ok((delta, vec![reason.to_owned()]));
    }
    let plan = checkpointer.plan_commit(&before.head, &delta)?;
    if plan.is_empty() {
        return Ok((delta, Vec::new()));
    }
    manual_commits::announce_hooks(recorder, checkpointer, step)?;
    match checkpointer.run_pre_commit(
        &plan,
        &after,
        &recorder.run.to_string(),
        recorder.ctx.now(),
    )? {
        HookRun::None => Ok((delta, Vec::new())),
        HookRun::Skipped(reason) => Ok((delta, vec![reason])),
        HookRun::Ran => {
            let hooked = checkpointer.after(before)?;
            let changes = checkpointer.delta(before, &hooked)?;
            // Changes by other processes before the hook ran must not be attributed to the
            // step.
            let own = Ownership {
                has: &|path| outside.binary_search(path).is_err(),
                index: stages(before, &after),
                doubt,
                ..Ownership::EVERYTHING
            };
            let Attributed {
                after: hooked,
                delta: all,
                outside,
                ..
            } = checkpointer.attribute(before, hooked, changes, own)?;
            let more = checkpointer.delta(&after, &hooked)?;
            if more.is_empty() {
                return Ok((delta, Vec::new()));
            }
            let changes = combine([&delta, &more].into_iter()).changes;
            let delta = Delta { changes, ..all };
            recorder.record(&Event::ChangesFound {
                step,
                after: hooked,
                delta: delta.clone(),
                outside,
            })?;
            Ok((
                delta,
                vec!["`pre-commit` changed files, which are part of the commit".to_owned()],
            ))
        }
    }
}

/// Commits a delta on top of HEAD.
pub(in crate::run) fn commit(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    head: &Head,
    delta: &Delta,
    notes: Vec<String>,
) -> Result<Settlement, RunError> {
    let plan = checkpointer.plan_commit(head, delta)?;
    commit_planned(recorder, checkpointer, step, wording, &plan, delta, notes)
}

/// Makes a planned commit.
pub(in crate::run) fn commit_planned(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    plan: &CommitPlan,
    delta: &Delta,
    mut notes: Vec<String>,
) -> Result<Settlement, RunError> {
    notes.extend(checkpointer.check_secrets(plan)?);
    notes.extend(
        plan.notes()
            .into_iter()
            .chain(wording.notes.iter().cloned()),
    );
    if plan.is_empty() {
        return nothing_to_commit(recorder, checkpointer, step, plan, delta);
    }
    manual_commits::announce_hooks(recorder, checkpointer, step)?;
    let asked_by = recorder
        .state
        .as_ref()
        .and_then(|state| state.frames.last())
        .map(|frame| &frame.directive);
    let written = message_request::written(
        recorder.ctx,
        checkpointer.repository(),
        wording,
        &plan.changes,
    );
    let text = message::compose(&MessageParts {
        given: wording.given.or(written.as_deref()),
        operation: wording.operation.or(Some(wording.name)),
        changes: &plan.changes,
        directive: asked_by
            .map(|directive| directive.name.as_str())
            .or(wording.directive),
        trailers: Trailers {
            run: recorder.run.to_string(),
            step: format!("{step} {}", wording.name),
            tool: wording.tool.map(str::to_owned),
            directive: asked_by
                .map(|directive| format!("{}@{}", directive.name, directive.version)),
            journal: recorder.journal_head().to_string(),
            undoes: wording.undoes.to_vec(),
        },
    })?;
    let text =
        checkpointer.edit_message(plan, text, &recorder.run.to_string(), recorder.ctx.now())?;
    let prepared = checkpointer.prepare_commit(plan, &text, recorder.ctx.now())?;
    failpoint("commit-prepared");
    recorder.record(&Event::Decided {
        step,
        decision: decided(&prepared, plan, wording.undoes.first().copied(), None),
    })?;
    failpoint("commit-decided");
    let commit = prepared.new;
    prepared.move_branch()?;
    // No `?` that leads to a failed checkpoint from here on: the branch already has the commit.
    prepared.finish().map_err(RunError::Unfinished)?;
    failpoint("commit-applied");
    committed(recorder, checkpointer, step, plan, commit, text, notes)
}

/// Records that the branch has a commit.
pub(in crate::run) fn committed(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    plan: &CommitPlan,
    commit: ObjectId,
    message: String,
    mut notes: Vec<String>,
) -> Result<Settlement, RunError> {
    if plan.head.branch.is_none() {
        let name = recorder.step_id(step).kept("commit");
        checkpointer.repository().keep_commits(&name, &[commit])?;
        notes.push(
            "HEAD is detached: no branch has this commit, but piton keeps a copy of it".to_owned(),
        );
    }
    let sums =
        |count: fn(&crate::checkpoint::delta::Change) -> u64| plan.changes.iter().map(count).sum();
    let (insertions, deletions) = (
        sums(|change| change.insertions),
        sums(|change| change.deletions),
    );
    let files_changed = plan.changes.len() as u64;
    recorder.record(&Event::Committed {
        step,
        commit,
        message,
        files_changed,
        insertions,
        deletions,
        adopted: plan.adopted.clone(),
        notes,
    })?;
    checkpointer.run_post_commit(&recorder.run.to_string(), recorder.ctx.now());
    Ok(Settlement::of(CheckpointSummary {
        status: CheckpointStatus::Committed,
        commit_sha: Some(commit),
        files_changed,
        insertions,
        deletions,
    }))
}

/// The step committed everything itself, or changed only files that are never committed.
fn nothing_to_commit(
    recorder: &mut Recorder<'_>,
    checkpointer: &Checkpointer,
    step: u32,
    plan: &CommitPlan,
    delta: &Delta,
) -> Result<Settlement, RunError> {
    if let Some(tip) = plan.adopted.last() {
        let message = checkpointer.message_of(*tip)?;
        let checkpoint = counted(CheckpointStatus::Committed, Some(*tip), delta);
        recorder.record(&Event::Committed {
            step,
            commit: *tip,
            message,
            files_changed: checkpoint.files_changed,
            insertions: checkpoint.insertions,
            deletions: checkpoint.deletions,
            adopted: plan.adopted.clone(),
            notes: vec!["the step made its commits itself".to_owned()],
        })?;
        return Ok(Settlement::of(checkpoint));
    }
    if !plan.cleaned.is_empty() {
        checkpointer.finish_index(plan)?;
    }
    recorder.record(&Event::CheckpointSkipped {
        step,
        reason: plan.why_empty(),
    })?;
    Ok(Settlement::of(summary(CheckpointStatus::NoChanges)))
}

/// The event for the decision to make a prepared commit.
pub(in crate::run) fn decided(
    prepared: &PreparedCommit<'_>,
    plan: &CommitPlan,
    undoes: Option<ObjectId>,
    parents: Option<Vec<ObjectId>>,
) -> Decision {
    Decision::Commit {
        target: prepared.target.clone(),
        old: prepared.old,
        new: prepared.new,
        tree: plan.tree,
        index: prepared.index.clone(),
        delta: plan.changes.clone(),
        undoes,
        parents,
    }
}
