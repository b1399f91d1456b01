//! Settles the changes of a step: commits them, keeps them on disk, or rolls them back.
//!
//! Each path records its decision before the first side effect and its result after the last one,
//! so that [`super::recovery`] can complete what a crash interrupted.

mod commit;
mod judgement;

pub(super) use commit::{
    commit, commit_or_explain, commit_planned, commit_planned_or_explain, committed, decided,
    run_pre_commit,
};

use judgement::StepJudgement;

use super::error::RunError;
use super::recorder::Recorder;
pub(super) use super::reversal::Reversal;
use super::session::Session;
use super::step::{skipped, summary};
use super::{manual_commits, reversal, unsettled};
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::exec::supervisor::Touched;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Decision, Event, Wait};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, StepStatus};
use crate::problem::Problem;

/// The intended outcome for the changes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangesVerdict {
    Commit,
    RollBack(&'static str),
    Keep(&'static str),
    /// Ask a person.
    Ask,
}

/// The intended outcomes, by the result of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) success: ChangesVerdict,
    pub(super) failure: ChangesVerdict,
}

impl Fate {
    /// The outcomes for a tool in this mode.
    pub(super) fn of_tool(mode: CheckpointMode) -> Self {
        match mode {
            CheckpointMode::Auto => Self {
                success: ChangesVerdict::Commit,
                failure: ChangesVerdict::RollBack("the tool failed"),
            },
            CheckpointMode::Explicit | CheckpointMode::Disabled => Self {
                success: ChangesVerdict::Keep(
                    "left uncommitted; run `piton checkpoint` to commit it",
                ),
                failure: ChangesVerdict::Keep(
                    "the tool failed; its changes stay; `piton undo` reverts them",
                ),
            },
        }
    }
}

/// What to do when a step changed files that it may not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// Roll back the whole step.
    RollBack,
    /// Only report it: the person or agent that did the step can be asked.
    Tell,
}

/// The actual outcome.
#[derive(Clone, Debug, Default)]
pub(super) struct Settlement {
    /// For the summary of the step.
    pub(super) checkpoint: Option<CheckpointSummary>,
    /// Why the outcome is not the intended one.
    pub(super) error: Option<Problem>,
    /// Files that the step changed without permission.
    pub(super) denied: Vec<RepoPath>,
    /// Files that a step changed although it declares no changes.
    pub(super) undeclared: Vec<RepoPath>,
    /// Files that another process changed meanwhile; piton leaves them alone.
    pub(super) outside: Vec<RepoPath>,
    /// Whether the work tree has uncommitted changes of the step.
    pub(super) kept: bool,
    /// Whether a person has to decide.
    pub(super) asked: bool,
    /// Whether the user stopped piton while it made the checkpoint.
    pub(super) interrupted: bool,
}

/// The rules that the changes of a step must follow.
#[derive(Clone, Copy)]
pub(super) struct Rules<'r> {
    /// Whether the step itself or another process changed a file.
    pub(super) own: Ownership<'r>,
    /// Whether the step may change a file.
    pub(super) may_change: &'r dyn Fn(&RepoPath) -> bool,
    /// The hint for files that it may not change.
    pub(super) way_out: &'r dyn Fn(&[RepoPath]) -> String,
    /// What the author of a change declares about changing files.
    pub(super) declared: &'r dyn Fn(&RepoPath) -> DeclaredChanges,
    /// The paths that its processes have tried to change, if they are known.
    pub(super) touched: &'r Touched,
    /// Whether those count that no snapshot holds, such as files that git ignores.
    pub(super) unheld: UnheldFiles,
    /// What to do if it changed other files.
    pub(super) violation: Violation,
}

/// Whether a step may change files that no snapshot holds although nothing names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnheldFiles {
    /// It may: no glob limits it, and builds and caches fill ignored folders.
    Free,
    /// They are judged by the globs like any other file.
    Judged,
}

impl UnheldFiles {
    /// They are judged where globs name the files that may be changed.
    pub(super) fn judged_if(has_globs: bool) -> Self {
        if has_globs { Self::Judged } else { Self::Free }
    }
}

/// What a step declares about changing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeclaredChanges {
    /// It may change files, or declares nothing.
    Anything,
    /// It declares no changes; changes are reported.
    Nothing,
    /// It declares no changes; changes are rolled back.
    NothingStrictly,
}

impl Rules<'_> {
    /// For piton's own steps.
    pub(super) const NONE: Self = Self {
        own: Ownership::EVERYTHING,
        may_change: &|_| true,
        way_out: &|_| String::new(),
        declared: &|_| DeclaredChanges::Anything,
        touched: &Touched::Everything,
        unheld: UnheldFiles::Free,
        violation: Violation::RollBack,
    };
}

/// The parts of a commit message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wording<'a> {
    pub(super) name: &'a str,
    /// The operation, if it differs from the name.
    pub(super) operation: Option<&'a str>,
    /// The message given by the caller.
    pub(super) given: Option<&'a str>,
    /// The tool, as `id@version`.
    pub(super) tool: Option<&'a str>,
    /// The directive that asked for it.
    pub(super) directive: Option<&'a str>,
    /// The commits that this one undoes.
    pub(super) undoes: &'a [ObjectId],
    /// Notes for the user.
    pub(super) notes: &'a [String],
}

/// Determines what a step changed, and carries out the intended outcome.
pub(super) fn settle(
    recorder: &mut Recorder<'_>,
    checkpointer: Option<&mut Checkpointer>,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    verdict: ChangesVerdict,
    rules: Rules<'_>,
) -> Result<Settlement, RunError> {
    let Some(checkpointer) = checkpointer else {
        return Ok(Settlement::of(skipped()));
    };
    settle_with(
        recorder,
        checkpointer,
        step,
        wording,
        before,
        verdict,
        rules,
    )
    .map_err(|err| unsettled::explain(recorder, err))
}

/// As [`settle()`], for a step of a session.
pub(super) fn settle_step(
    session: &mut Session<'_>,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    verdict: ChangesVerdict,
    rules: Rules<'_>,
) -> Result<Settlement, RunError> {
    let (recorder, checkpointer) = (&mut session.recorder, session.checkpointer.as_mut());
    settle(
        recorder,
        checkpointer,
        step,
        wording,
        before,
        verdict,
        rules,
    )
}

fn settle_with(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    verdict: ChangesVerdict,
    rules: Rules<'_>,
) -> Result<Settlement, RunError> {
    let began = checkpointer.last_snapshot_began();
    let temporary = recorder.ctx.environment.temporary_folder();
    let found = match find_own(recorder, checkpointer, step, before, rules.own) {
        Ok(found) => found,
        Err(RunError::Checkpoint(err)) => return failed(recorder, step, err),
        Err(err) => return Err(err),
    };
    // Before "no changes": a checkpoint cannot hold every change, and each must follow the rules.
    let StepJudgement {
        denied,
        undeclared,
        is_refused,
        refusal,
    } = match judgement::judge(checkpointer, before, &found, began, &temporary, &rules) {
        Ok(judgement) => judgement,
        Err(err) => return failed(recorder, step, err),
    };
    let (
        Attributed {
            after,
            delta,
            doubt,
            ..
        },
        outside,
    ) = (&found, found.outside.clone());
    let is_told = !denied.is_empty() && rules.violation == Violation::Tell;
    if delta.is_empty() && before.head == after.head && !is_told {
        return Ok(Settlement {
            denied,
            outside,
            error: refusal,
            ..nothing_changed(recorder, step, delta)?
        });
    }
    if is_told {
        return Ok(Settlement {
            checkpoint: None,
            denied,
            outside,
            asked: true,
            ..Settlement::of(skipped())
        });
    }
    let verdict = match verdict {
        _ if !denied.is_empty() => {
            ChangesVerdict::RollBack("it changed files that it may not change")
        }
        _ if is_refused => ChangesVerdict::RollBack("it declares no changes but changed files"),
        verdict => verdict,
    };
    let status = if denied.is_empty() {
        StepStatus::Failed
    } else {
        StepStatus::Denied
    };
    let is_kept = !matches!(verdict, ChangesVerdict::RollBack(_));
    let mut notes = wording.notes.to_vec();
    if is_kept {
        match checkpointer.check_made_commits(&before.head, &after.head) {
            Ok(warnings) => notes.extend(warnings),
            Err(err) => return failed(recorder, step, err),
        }
    }
    let wording = Wording {
        notes: &notes,
        ..wording
    };
    let mut settlement = match verdict {
        ChangesVerdict::Keep(reason) => match checkpointer.refuse_changed_filters(delta) {
            Ok(()) => keep(recorder, step, reason, delta),
            Err(err) => failed(recorder, step, err),
        },
        ChangesVerdict::Ask => {
            recorder.record(&Event::Waiting {
                step,
                wait: Wait::Changes,
            })?;
            Ok(Settlement {
                asked: true,
                ..Settlement::of(counted(CheckpointStatus::Skipped, None, delta))
            })
        }
        ChangesVerdict::RollBack(reason) => {
            let (status, error) = (refusal.as_ref().map(|_| status), refusal.clone());
            let why = Reversal {
                reason,
                status,
                error,
                doubt: *doubt,
            };
            roll_back(recorder, checkpointer, step, why, before, after, delta)
        }
        ChangesVerdict::Commit => {
            commit_or_explain(recorder, checkpointer, step, wording, before, found)
        }
    }?;
    settlement.error = settlement.error.or(refusal);
    Ok(Settlement {
        denied,
        undeclared,
        outside,
        ..settlement
    })
}

/// Takes the snapshot after a step and records its own changes, without those of other
/// processes.
pub(super) fn find_own(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    before: &Snapshot,
    own: Ownership<'_>,
) -> Result<Attributed, RunError> {
    if !own.definition {
        checkpointer.leave_definition();
    }
    let after = checkpointer.after(before)?;
    let delta = checkpointer.delta(before, &after)?;
    let found = checkpointer.attribute(before, after, delta, own)?;
    failpoint("after-taken");
    if !found.delta.is_empty() || before.head != found.after.head || !found.outside.is_empty() {
        let (after, delta, outside) = (
            found.after.clone(),
            found.delta.clone(),
            found.outside.clone(),
        );
        recorder.record(&Event::ChangesFound {
            step,
            after,
            delta,
            outside,
        })?;
    }
    if before.head != found.after.head {
        manual_commits::keep_old_tip(
            recorder,
            checkpointer,
            step,
            &before.head,
            &found.after.head,
        )?;
        manual_commits::take_hand_commits(
            recorder,
            checkpointer,
            step,
            &before.head,
            &found.after.head,
        )?;
    }
    Ok(found)
}

fn nothing_changed(
    recorder: &mut Recorder<'_>,
    step: u32,
    delta: &Delta,
) -> Result<Settlement, RunError> {
    let (not_captured, too_large) = (delta.not_captured.clone(), delta.too_large.clone());
    recorder.record(&Event::NoChanges {
        step,
        not_captured,
        too_large,
    })?;
    Ok(Settlement::of(summary(CheckpointStatus::NoChanges)))
}

pub(super) fn keep(
    recorder: &mut Recorder<'_>,
    step: u32,
    reason: &str,
    delta: &Delta,
) -> Result<Settlement, RunError> {
    recorder.record(&Event::Decided {
        step,
        decision: Decision::Keep {
            reason: reason.to_owned(),
        },
    })?;
    recorder.record(&Event::CheckpointSkipped {
        step,
        reason: reason.to_owned(),
    })?;
    Ok(Settlement {
        kept: true,
        ..Settlement::of(counted(CheckpointStatus::Skipped, None, delta))
    })
}

/// Rolls back the changes of a step.
pub(super) fn roll_back(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    why: Reversal<'_>,
    before: &Snapshot,
    after: &Snapshot,
    delta: &Delta,
) -> Result<Settlement, RunError> {
    if let Some(err) = before.head.moved_to(&after.head) {
        return failed(recorder, step, err);
    }
    // The step began a merge or rebase: restoring its files would leave git in the middle of
    // it.
    if let Err(err) = checkpointer.require_undoable() {
        return failed(recorder, step, err);
    }
    let Reversal {
        reason,
        status,
        error,
        doubt,
    } = why;
    if let Some(doubt) = doubt
        && let Some(kept) = reversal::keep_doubtful(recorder, step, doubt, delta)?
    {
        return Ok(kept);
    }
    let decision = Decision::RollBack {
        reason: reason.to_owned(),
        status,
        error,
    };
    recorder.record(&Event::Decided { step, decision })?;
    failpoint("roll-back-decided");
    carry_out_roll_back(recorder, checkpointer, step, before, delta)
}

/// The part of a roll back that a recovery repeats after a crash.
pub(super) fn carry_out_roll_back(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    before: &Snapshot,
    delta: &Delta,
) -> Result<Settlement, RunError> {
    let report = checkpointer.roll_back(before, delta)?;
    if let Some(err) = report
        .shortfall()
        .filter(|err| err.is_fault_of_system() && recorder.on_fault.tries_again(err))
    {
        // Record no end, so that the next recovery tries again.
        return Err(err.into());
    }
    failpoint("rolled-back");
    recorder.record(&Event::RolledBack {
        step,
        paths: report.restored.len() as u64,
        kept: report.not_restored(),
        repositories: report.repositories.clone(),
        rescue: Some(recorder.step_id(step).to_string()),
    })?;
    let mut settlement = Settlement::of(counted(CheckpointStatus::RolledBack, None, delta));
    settlement.error = report.shortfall().as_ref().map(Problem::of);
    Ok(settlement)
}

/// Records that the checkpoint failed; the changes stay on disk. If the disk is at fault,
/// nothing is recorded: a recovery ends the step.
pub(super) fn failed(
    recorder: &mut Recorder<'_>,
    step: u32,
    err: CheckpointError,
) -> Result<Settlement, RunError> {
    if err.is_fault_of_system() && recorder.on_fault.tries_again(&err) {
        return Err(unsettled::explain(recorder, err.into()));
    }
    let error = Problem::of(&err);
    recorder.record(&Event::CheckpointFailed {
        step,
        code: error.code,
        message: error.message(),
        suggestion: error.hint.clone(),
    })?;
    let interrupted = err.is_interrupted();
    Ok(Settlement {
        error: Some(error),
        interrupted,
        ..Settlement::of(summary(CheckpointStatus::Failed))
    })
}

impl Settlement {
    pub(super) fn of(checkpoint: CheckpointSummary) -> Self {
        Self {
            checkpoint: Some(checkpoint),
            ..Self::default()
        }
    }
}

/// Whether the step itself changed the index.
pub(super) fn stages(before: &Snapshot, after: &Snapshot) -> bool {
    before.index_tree != after.index_tree || before.announced != after.announced
}

fn counted(
    status: CheckpointStatus,
    commit_sha: Option<ObjectId>,
    delta: &Delta,
) -> CheckpointSummary {
    CheckpointSummary {
        status,
        commit_sha,
        files_changed: delta.changes.len() as u64,
        insertions: delta.insertions(),
        deletions: delta.deletions(),
    }
}
