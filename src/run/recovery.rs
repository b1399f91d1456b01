//! Recovers interrupted runs, before anything else happens in their worktree.
//!
//! The journal shows how far a run got. Without a recorded decision the step is rolled back (or
//! left alone, in explicit mode), except for files that changed after piton died. A recorded
//! decision is carried out. Every part can be repeated, so an interrupted recovery is simply
//! recovered as well.

mod decided;
mod directive;
mod undecided;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::error::RunError;
use super::recorder::Recorder;
use super::resume_point::{ResumePoint, StartedProcess};
use super::session::Observer;
use super::settle::{self, Settlement};
use super::step::skipped;
use super::worktree_lock::WorktreeLock;
use super::{finish, touched};
use crate::audit::history::{RunRecord, StepOutcome, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::CommitPlan;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::snapshot::Head;
use crate::context::Context;
use crate::disk::Disk;
use crate::exec::call;
use crate::exec::supervisor::MARK;
use crate::exec::{private_folder, process};
use crate::journal::event::{Decision, Event, StepKind};
use crate::journal::lock::{Holder, UnfinishedRun};
use crate::journal::summary::{RunStatus, StepStatus};
use crate::journal::{Continuation, Journal, JournalError, RunId, TagDemand};
use crate::problem::{Code, Problem, with_causes};
use crate::workspace::{RunFolders, key_file, open_checkpointer};

/// What a recovery does about a disk that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// It fails as well and leaves the step open, so that the next one tries again.
    Retry,
    /// It ends the step, leaves the files on disk and names them.
    GiveUp,
}

impl OnFault {
    /// Whether an error leaves the step open for the next recovery.
    pub(super) fn tries_again(self, err: &CheckpointError) -> bool {
        let gives_up = self == Self::GiveUp && err.is_fault_of_system();
        err.may_pass() && !gives_up
    }
}

/// A recovered run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Recovered {
    pub run: RunId,
    pub found: String,
    /// What was done.
    pub did: String,
}

/// What was found, what was done, and the outcome for the changes of the step.
type RecoveredStep = (String, String, Settlement);

/// Takes the lock of the worktree only to recover interrupted runs.
pub fn recover_now(
    ctx: &Context,
    on_fault: OnFault,
    observer: &mut Observer<'_>,
) -> Result<Vec<Recovered>, RunError> {
    let mut checkpointer = open_checkpointer(ctx)?;
    // As at the start of a run: a process was killed, or the disk failed when it removed its folder.
    private_folder::sweep(&ctx.environment.temporary_folder());
    let folders = RunFolders::of(ctx, Some(checkpointer.repository()));
    let now = ctx.now();
    let holder = Holder::of_process(RunId::new(now, ctx.random_bits()), now);
    let mut lock = WorktreeLock::acquire(ctx, &holder, &folders, Duration::ZERO)?;
    let recovered = recover_all(
        ctx,
        Some(&mut checkpointer),
        &folders.runs,
        &mut lock,
        on_fault,
        observer,
    )?;
    lock.release()?;
    Ok(recovered)
}

/// Recovers all interrupted runs of this worktree. The lock lists them until then.
pub(super) fn recover_all(
    ctx: &Context,
    mut checkpointer: Option<&mut Checkpointer>,
    runs: &Path,
    lock: &mut WorktreeLock,
    on_fault: OnFault,
    observer: &mut Observer<'_>,
) -> Result<Vec<Recovered>, RunError> {
    let mut recovered = Vec::new();
    if let Some(checkpointer) = &checkpointer {
        checkpointer.clear_abandoned();
        // A run can die holding a git lock before it has a journal, or end although the disk kept the lock.
        checkpointer.clear_git_locks()?;
    }
    if lock.unfinished().is_empty() {
        return Ok(recovered);
    }
    if let Some(checkpointer) = &checkpointer {
        checkpointer.clear_temporary_files()?;
    }
    // Do not forward events of a recovered run: the observer would attribute them to the run that
    // is about to begin.
    let observer: &mut Observer<'_> = &mut |event: &Event| {
        if matches!(event, Event::Recovered { .. }) {
            observer(event);
        }
    };
    for unfinished in lock.unfinished().to_vec() {
        let run = unfinished.run;
        let failed = |source| RunError::Recovery {
            run: run.to_string(),
            source: Box::new(source),
        };
        let git = checkpointer.as_deref_mut();
        let told = recover(ctx, git, runs, unfinished, on_fault, observer).map_err(failed)?;
        recovered.extend(told);
    }
    lock.forget_unfinished()?;
    Ok(recovered)
}

fn recover(
    ctx: &Context,
    mut checkpointer: Option<&mut Checkpointer>,
    runs: &Path,
    unfinished: UnfinishedRun,
    on_fault: OnFault,
    observer: &mut Observer<'_>,
) -> Result<Option<Recovered>, RunError> {
    let UnfinishedRun {
        run,
        died: last_sign,
    } = unfinished;
    let mut resume_point = ResumePoint::default();
    let disk = Disk::of(runs, ctx.config.fsync());
    let continuation = Continuation {
        key: key_file(ctx).read()?,
        demand: TagDemand::NoForeignLine,
    };
    let opened = Journal::open(runs, run, &disk, &continuation, &mut |record| {
        resume_point.take(record);
    });
    let journal = match opened {
        Ok(opened) => opened,
        Err(JournalError::NoRun(_)) => return Ok(None),
        Err(err) => return Err(err.into()),
    };
    let Some(record) = resume_point.run().filter(|record| record.summary.is_none()) else {
        return Ok(None);
    };
    if let Some(process) = &resume_point.process {
        stop_leftover(process);
    }
    // Kill commands that were started but not recorded yet, and commands that left their process
    // group.
    process::kill_marked(MARK, &run.to_string());
    call::remove_homes(&ctx.environment.temporary_folder(), &run.to_string());
    // Stop containers before any roll back: they could continue to write.
    call::end_abandoned_containers(&ctx.cache_folder(), &ctx.program, &run.to_string());
    let folders = RunFolders::of_project(ctx);
    let mut recorder = Recorder::new(ctx, record.mode, journal, folders, observer);
    recorder.on_fault = on_fault;
    recorder.resume(record, resume_point.steps.clone());
    if record.directive.is_some() {
        return directive::recover_directive(recorder, checkpointer, record, last_sign).map(Some);
    }
    let (found, did, status) = match record.steps.last().filter(|step| step.status.is_none()) {
        None => recover_ended_step(record),
        Some(step) => recover_step(&mut recorder, checkpointer.as_deref_mut(), step, last_sign)?,
    };
    let told = Recovered {
        run,
        found: found.clone(),
        did: did.clone(),
    };
    recorder.record(&Event::Recovered {
        step: record.steps.last().map(|step| step.id.step),
        found,
        did,
        died: Some(last_sign),
    })?;
    let message = format!("the run was interrupted; {}", told.did);
    let error = (status != RunStatus::Succeeded).then(|| Problem::new(Code::Interrupted, message));
    recorder.finish_run(status, error, Vec::new())?;
    drop(recorder);
    if let Some(checkpointer) = checkpointer.filter(|_| record.steps.iter().any(is_finish)) {
        // A leftover worktree does no harm: an error here must not block later commands.
        let _ = finish::tidy_after(ctx, checkpointer.repository(), run);
    }
    Ok(Some(told))
}

/// What was found and done, and how the run ended, if its newest step had ended.
fn recover_ended_step(record: &RunRecord) -> (String, String, RunStatus) {
    // A single command or tool is the whole run.
    let ended = record.steps.last().and_then(|step| step.status);
    let found = if ended.is_some() {
        "its step was finished"
    } else {
        "it was interrupted between two steps"
    };
    (
        found.to_owned(),
        "nothing had to be done".to_owned(),
        ended.map_or(RunStatus::Failed, RunStatus::from),
    )
}

fn is_finish(step: &StepRecord) -> bool {
    matches!(step.kind, StepKind::Finish { .. })
}

/// Stops the processes of a step whose piton has died.
fn stop_leftover(found: &StartedProcess) {
    let StartedProcess {
        pid,
        started,
        boot,
        is_supervisor,
    } = found;
    if process::has_living_owner(*pid) {
        // This repository is a copy, and the run goes on in the original.
        return;
    }
    if *is_supervisor {
        // A supervisor ends its tool completely. If it were killed, processes that left the group
        // could survive.
        process::await_end_of(*pid, *started, boot);
    }
    process::kill_group_if_same(*pid, *started, boot);
}

fn recover_step(
    recorder: &mut Recorder<'_>,
    checkpointer: Option<&mut Checkpointer>,
    step: &StepRecord,
    last_sign: Timestamp,
) -> Result<(String, String, RunStatus), RunError> {
    let number = step.id.step;
    recorder.open_tool.clone_from(&step.tool);
    let Some(checkpointer) = checkpointer else {
        recorder.finish_step(
            number,
            &step.name,
            StepStatus::Failed,
            step.exit_code,
            Some(skipped()),
            None,
        )?;
        return Ok((
            "its command was running".to_owned(),
            "nothing is known about its changes".to_owned(),
            RunStatus::Failed,
        ));
    };
    let recovered = match recover_step_with(recorder, checkpointer, step, last_sign) {
        // A permanent error must not block later commands: record it and go on.
        Err(RunError::Checkpoint(err)) if !recorder.on_fault.tries_again(&err) => {
            let did = format!(
                "it could not be recovered: {}; its changes stay",
                with_causes(&err)
            );
            settle::failed(recorder, number, err)
                .map(|settlement| ("its step was running".to_owned(), did, settlement))
        }
        recovered => recovered,
    };
    let (found, did, settlement) = recovered?;
    let committed = settlement
        .checkpoint
        .as_ref()
        .is_some_and(|checkpoint| checkpoint.commit_sha.is_some());
    let status = if committed {
        StepStatus::Succeeded
    } else {
        StepStatus::Failed
    };
    recorder.finish_step(
        number,
        &step.name,
        status,
        step.exit_code,
        settlement.checkpoint,
        None,
    )?;
    Ok((
        found,
        did,
        if committed {
            RunStatus::Succeeded
        } else {
            RunStatus::Failed
        },
    ))
}

pub(super) fn recover_step_with(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: &StepRecord,
    last_sign: Timestamp,
) -> Result<RecoveredStep, RunError> {
    let number = step.id.step;
    let Some(before) = &step.before else {
        let reason = "checkpoints were disabled".to_owned();
        let found = "its command was running";
        return leave_changes(recorder, number, reason, found, "its changes stay");
    };
    if step.outcome != StepOutcome::Open {
        let checkpoint = super::undo::summary_of(step);
        return Ok((
            "its step was finished".to_owned(),
            "only its end had to be recorded".to_owned(),
            Settlement::of(checkpoint),
        ));
    }
    touched::recall_definition(recorder, checkpointer, step);
    match (&step.decision, &step.delta) {
        (None, _) => undecided::recover_undecided(recorder, checkpointer, step, before, last_sign),
        (Some(Decision::RollBack { .. }), Some(delta)) => {
            let settlement =
                settle::carry_out_roll_back(recorder, checkpointer, number, before, delta)?;
            let did = match &settlement.error {
                Some(error) => format!("not everything was rolled back: {}", error.message()),
                None => "it was carried out".to_owned(),
            };
            Ok(("a rollback was decided".to_owned(), did, settlement))
        }
        (
            Some(Decision::Commit {
                target,
                old,
                new,
                tree,
                delta: changes,
                ..
            }),
            Some(delta),
        ) => {
            let plan = match step.kind {
                // Update the index for the whole tree: the files on disk may already match it.
                StepKind::Finish { .. } => {
                    let branch = (target != "HEAD").then(|| target.clone());
                    let head = Head {
                        branch,
                        commit: *old,
                    };
                    let plan = checkpointer.plan_of_tree(head, *tree, Vec::new())?;
                    CommitPlan {
                        changes: changes.clone(),
                        ..plan
                    }
                }
                _ => checkpointer.plan_of(target, *old, *tree, changes, delta)?,
            };
            decided::redo_commit(recorder, checkpointer, number, &plan, *new)
        }
        (Some(_), _) => {
            let reason = "the run was interrupted".to_owned();
            let found = "its changes were to stay";
            leave_changes(recorder, number, reason, found, "they stay")
        }
    }
}

/// Records why the changes of a step stay as they are.
fn leave_changes(
    recorder: &mut Recorder<'_>,
    step: u32,
    reason: String,
    found: &str,
    did: &str,
) -> Result<RecoveredStep, RunError> {
    recorder.record(&Event::CheckpointSkipped { step, reason })?;
    Ok((found.to_owned(), did.to_owned(), Settlement::of(skipped())))
}
