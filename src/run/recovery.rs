//! Bringing a run that was cut off to an end, before anything else happens in its worktree.
//!
//! The journal says how far it came. Not decided: the step is rolled back (or left, in explicit
//! mode), except for files that somebody changed after piton had died. Decided: it is carried out.
//! Every part may be done again, so a recovery that is cut off is simply recovered as well.

mod directive;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::error::RunError;
use super::finish;
use super::session::{Observer, Session, open_checkpointer, refuse_inside};
use super::settle::{Reversal, Settlement, stages};
use super::standing::{Standing, StartedProcess};
use super::step::skipped;
use super::unsettled::{InDirective, RecoveryAction};
use crate::audit::history::{Outcome, StepRecord};
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::CommitPlan;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::redo::Redo;
use crate::checkpoint::snapshot::{Head, Snapshot};
use crate::context::Context;
use crate::disk::Disk;
use crate::exec::call;
use crate::exec::process;
use crate::exec::supervisor::MARK;
use crate::journal::event::{Decision, Event, StepKind};
use crate::journal::lock::{Holder, RunLock, Unfinished};
use crate::journal::summary::{RunStatus, StepStatus};
use crate::journal::{Journal, JournalError, RunId};
use crate::problem::{Code, Problem, with_causes};

/// What a recovery found and did.
#[derive(Default)]
pub struct Recovery {
    /// The checkpointer, handed back.
    pub(super) checkpointer: Option<Checkpointer>,
    /// One line per run that was brought to an end.
    pub told: Vec<Recovered>,
}

/// One run that was brought to an end.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Recovered {
    /// The run.
    pub run: RunId,
    /// What was found.
    pub found: String,
    /// What was done about it.
    pub did: String,
}

/// Takes the lock of the worktree only to bring what was cut off to an end.
pub fn recover_now(ctx: &Context, observer: &mut Observer<'_>) -> Result<Vec<Recovered>, RunError> {
    let checkpointer = open_checkpointer(ctx)?;
    let (runs, own) = (checkpointer.repository().runs_folder(), checkpointer.repository().own_folder());
    let now = ctx.now();
    let holder = Holder::of_process(RunId::new(now, ctx.random_bits()), now);
    refuse_inside(ctx, &own)?;
    let (mut lock, _) = RunLock::acquire(&own, &holder, Duration::ZERO, checkpointer.repository().disk())?;
    let recovery = recover_all(ctx, Some(checkpointer), &runs, &mut lock, observer)?;
    lock.release()?;
    Ok(recovery.told)
}

/// Brings every run that was cut off in this worktree to an end. The lock remembers them until then.
pub(super) fn recover_all(
    ctx: &Context,
    checkpointer: Option<Checkpointer>,
    runs: &Path,
    lock: &mut RunLock,
    observer: &mut Observer<'_>,
) -> Result<Recovery, RunError> {
    let mut recovery = Recovery { checkpointer, told: Vec::new() };
    if let Some(checkpointer) = &recovery.checkpointer {
        checkpointer.clear_abandoned();
    }
    if lock.unfinished().is_empty() {
        return Ok(recovery);
    }
    if let Some(checkpointer) = &recovery.checkpointer {
        // A run can die with a lock in its hands before it has a journal.
        checkpointer.clear_own_locks()?;
    }
    // The events of another run would be taken for those of the one that is about to begin.
    let observer: &mut Observer<'_> = &mut |event: &Event| {
        if matches!(event, Event::Recovered { .. }) {
            observer(event);
        }
    };
    for unfinished in lock.unfinished().to_vec() {
        let run = unfinished.run;
        let failed = |source| RunError::Recovery { run: run.to_string(), source: Box::new(source) };
        let checkpointer = recovery.checkpointer.take();
        let (checkpointer, told) = recover(ctx, checkpointer, runs, unfinished, observer).map_err(failed)?;
        recovery.checkpointer = checkpointer;
        recovery.told.extend(told);
    }
    lock.forget_unfinished()?;
    Ok(recovery)
}

fn recover(
    ctx: &Context,
    checkpointer: Option<Checkpointer>,
    runs: &Path,
    unfinished: Unfinished,
    observer: &mut Observer<'_>,
) -> Result<(Option<Checkpointer>, Option<Recovered>), RunError> {
    let Unfinished { run, died: last_sign } = unfinished;
    let mut standing = Standing::default();
    let disk = Disk::of(runs, ctx.config.fsync());
    let journal = match Journal::open(runs, run, &disk, &mut |record| standing.take(record)) {
        Ok(opened) => opened,
        Err(JournalError::NoRun(_)) => return Ok((checkpointer, None)),
        Err(err) => return Err(err.into()),
    };
    let Some(record) = standing.run().filter(|record| record.summary.is_none()) else {
        return Ok((checkpointer, None));
    };
    if let Some(process) = &standing.process {
        stop_leftover(process);
    }
    // A command that was started and not written down yet, or that left its group.
    process::kill_marked(MARK, &run.to_string());
    call::remove_homes(&ctx.environment.temporary_folder(), &run.to_string());
    // Before anything is put back: a container could go on writing.
    call::end_abandoned_containers(&ctx.cache_folder(), &ctx.program, &run.to_string());
    let folders = Session::folders_of(ctx);
    let mut session = Session::resume(ctx, record.mode, journal, folders, checkpointer, observer);
    session.directive.clone_from(&record.directive);
    session.count_from(record.steps.last().map_or(0, |step| step.id.step));
    session.steps = standing.steps.clone();
    if record.directive.is_some() {
        return session.recover_directive(record, last_sign);
    }
    let (found, did, status) = match record.steps.last().filter(|step| step.status.is_none()) {
        None => {
            let ended = record.steps.last().and_then(|step| step.status).filter(|_| record.directive.is_none());
            // A single command or tool is all of its run.
            let found = if ended.is_some() { "its step was finished" } else { "it was cut off between two steps" };
            (told(found), told("nothing had to be done"), ended.map_or(RunStatus::Failed, RunStatus::from))
        }
        Some(step) => session.recover_step(step, last_sign)?,
    };
    let told = Recovered { run, found: found.clone(), did: did.clone() };
    session.record(&Event::Recovered {
        step: record.steps.last().map(|step| step.id.step),
        found,
        did,
        died: Some(last_sign),
    })?;
    let checkpointer = session.checkpointer.take();
    let message = format!("the run was cut off; {}", told.did);
    let error = (status != RunStatus::Succeeded).then(|| Problem::new(Code::Interrupted, message));
    session.finish(status, error)?;
    if let Some(checkpointer) = checkpointer.as_ref().filter(|_| record.steps.iter().any(is_finish)) {
        // A worktree that stays is in nobody's way: it must not keep every later command from working.
        let _ = finish::tidy_after(ctx, checkpointer.repository(), run);
    }
    Ok((checkpointer, Some(told)))
}

fn is_finish(step: &StepRecord) -> bool {
    matches!(step.kind, StepKind::Finish { .. })
}

/// Stops what a step had started and nobody looks after any more.
fn stop_leftover(found: &StartedProcess) {
    let StartedProcess { pid, started, boot, is_supervisor } = found;
    if *is_supervisor {
        // A supervisor ends its tool by itself, all of it. Without it what left the group could hide.
        process::await_end_of(*pid, *started, boot);
    }
    process::kill_group_if_same(*pid, *started, boot);
}

impl Session<'_, '_> {
    fn recover_step(
        &mut self,
        step: &StepRecord,
        last_sign: Timestamp,
    ) -> Result<(String, String, RunStatus), RunError> {
        let number = step.id.step;
        self.open_tool.clone_from(&step.tool);
        let Some(mut checkpointer) = self.checkpointer.take() else {
            self.finish_step(number, &step.name, StepStatus::Failed, step.exit_code, Some(skipped()), None)?;
            return Ok((
                told("its command was running"),
                told("nothing is known about its changes"),
                RunStatus::Failed,
            ));
        };
        let recovered = match self.recover_step_with(&mut checkpointer, step, last_sign) {
            // What will not pass must not keep every later command from working.
            Err(RunError::Checkpoint(err)) if !err.may_pass() => {
                let did = format!("it could not be brought to an end: {}; its changes stay", with_causes(&err));
                self.failed(number, err).map(|settlement| (told("its step was running"), did, settlement))
            }
            recovered => recovered,
        };
        self.checkpointer = Some(checkpointer);
        let (found, did, settlement) = recovered?;
        let committed = settlement.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.commit_sha.is_some());
        let status = if committed { StepStatus::Succeeded } else { StepStatus::Failed };
        self.finish_step(number, &step.name, status, step.exit_code, settlement.checkpoint, None)?;
        Ok((found, did, if committed { RunStatus::Succeeded } else { RunStatus::Failed }))
    }

    pub(super) fn recover_step_with(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: &StepRecord,
        last_sign: Timestamp,
    ) -> Result<(String, String, Settlement), RunError> {
        let number = step.id.step;
        let Some(before) = &step.before else {
            let reason = "checkpoints were disabled".to_owned();
            self.record(&Event::CheckpointSkipped { step: number, reason })?;
            return Ok((told("its command was running"), told("its changes stay"), Settlement::of(skipped())));
        };
        if step.outcome != Outcome::Open {
            let checkpoint = super::undo::summary_of(step);
            return Ok((
                told("its step was finished"),
                told("only the end was written down"),
                Settlement::of(checkpoint),
            ));
        }
        match (&step.decision, &step.delta) {
            (None, _) => self.recover_undecided(checkpointer, step, before, last_sign),
            (Some(Decision::RollBack { .. }), Some(delta)) => {
                let settlement = self.carry_out_roll_back(checkpointer, number, before, delta)?;
                Ok((told("a roll back was decided"), told("it was carried out"), settlement))
            }
            (Some(Decision::Commit { target, old, new, tree, delta: changes, .. }), Some(delta)) => {
                let plan = match step.kind {
                    // The index follows the whole tree: the files on disk may have had it before.
                    StepKind::Finish { .. } => {
                        let branch = (target != "HEAD").then(|| target.clone());
                        let head = Head { branch, commit: *old };
                        let plan = checkpointer.plan_of_tree(head, *tree, Vec::new())?;
                        CommitPlan { changes: changes.clone(), ..plan }
                    }
                    _ => checkpointer.plan_of(target, *old, *tree, changes, delta)?,
                };
                self.redo_commit(checkpointer, number, &plan, *new)
            }
            (Some(_), _) => {
                let reason = "the run was cut off".to_owned();
                self.record(&Event::CheckpointSkipped { step: number, reason })?;
                Ok((told("its changes were to stay"), told("they stay"), Settlement::of(skipped())))
            }
        }
    }

    fn recover_undecided(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: &StepRecord,
        before: &Snapshot,
        last_sign: Timestamp,
    ) -> Result<(String, String, Settlement), RunError> {
        let number = step.id.step;
        if matches!(step.kind, StepKind::Checkpoint { .. }) {
            // It only reads the work tree: whatever has changed there is not its doing.
            let reason = "the checkpoint was cut off before it was made".to_owned();
            self.record(&Event::CheckpointSkipped { step: number, reason })?;
            return Ok((
                told("a checkpoint was being made"),
                told("there is none; what it was to hold is on disk"),
                Settlement::of(skipped()),
            ));
        }
        checkpointer.remember_rules(before)?;
        let touched = self.recall_touched(step);
        let top = checkpointer.repository().top().to_path_buf();
        let index = touched.has(&checkpointer.repository().git_dir().join("index"))
            && step.after.as_ref().is_none_or(|after| stages(before, after));
        let is_own = |path: &RepoPath| !step.outside.contains(path) && touched.has(&top.join(path.as_path()));
        let own = Ownership { has: &is_own, index, doubt: touched.doubt() };
        let Attributed { after, delta, outside, doubt } = self.find_own(checkpointer, number, before, own)?;
        let found = told("its step was running");
        if delta.is_empty() && before.head == after.head {
            let Delta { not_captured, too_large, .. } = delta;
            self.record(&Event::NoChanges { step: number, not_captured, too_large })?;
            return Ok((found, told("nothing had changed"), Settlement::of(skipped())));
        }
        let in_directive = if self.directive.is_some() { InDirective::Yes } else { InDirective::No };
        if RecoveryAction::of_undecided(&step.kind, self.mode, in_directive) == RecoveryAction::Keep {
            let reason = "the run was cut off; `piton undo` takes its changes back".to_owned();
            self.record(&Event::CheckpointSkipped { step: number, reason })?;
            return Ok((found, told("its changes stay: `piton undo` takes them back"), Settlement::of(skipped())));
        }
        if let StepKind::RollBack { to } = &step.kind
            && after.head.commit == Some(*to)
            && before.head.commit != Some(*to)
        {
            let reason = format!("everything is as it was at {}", to.short());
            self.record(&Event::CheckpointSkipped { step: number, reason })?;
            return Ok((found, told("it had come to its end"), Settlement::of(skipped())));
        }
        let (mut after, all) = (after, delta.clone());
        let (mut own, later) = split_by_time(checkpointer, delta, last_sign)?;
        if !later.is_empty() {
            // They are somebody else's, and not in the snapshot after the step either. Should this be cut off as
            // well, the next one must not take them for the step's.
            let not_later = Ownership { has: &|path| !later.contains(path), index: true, doubt };
            let found = checkpointer.attribute(before, after, all, not_later)?;
            let Delta { index, announced_removed, announced_added, .. } = own;
            own = Delta { index, announced_removed, announced_added, ..found.delta };
            after = found.after;
            let outside = outside.into_iter().chain(found.outside).collect();
            self.record(&Event::ChangesFound { step: number, after: after.clone(), delta: own.clone(), outside })?;
        }
        let why = Reversal { doubt, ..Reversal::CUT_OFF };
        let settlement = self.roll_back(checkpointer, number, why, before, &after, &own)?;
        let mut did = match &settlement.error {
            Some(error) => format!("it could not be rolled back: {}", error.message()),
            None => match own.changes.len() {
                1 => told("1 file was put back"),
                count => format!("{count} files were put back"),
            },
        };
        if !later.is_empty() {
            let _ = write!(did, ", {} that changed after piton had died were kept", later.len());
        }
        Ok((found, did, settlement))
    }

    fn redo_commit(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        plan: &CommitPlan,
        commit: ObjectId,
    ) -> Result<(String, String, Settlement), RunError> {
        let found = told("a commit was decided");
        match checkpointer.redo(plan, commit)? {
            Redo::Done => {
                let settlement = self.settle_redone(checkpointer, step, plan, commit)?;
                Ok((found, format!("it was finished: {}", commit.short()), settlement))
            }
            Redo::Moved(err) => {
                let settlement = self.failed(step, err)?;
                Ok((found, told("the branch has moved since, so nothing was touched"), settlement))
            }
        }
    }

    fn settle_redone(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        plan: &CommitPlan,
        commit: ObjectId,
    ) -> Result<Settlement, RunError> {
        let message = checkpointer.message_of(commit)?;
        let notes = vec!["finished after piton was cut off".to_owned()];
        self.committed(checkpointer, step, plan, commit, message, notes)
    }
}

/// The part of a delta that is the step's, and the files that changed only after piton had died.
fn split_by_time(
    checkpointer: &Checkpointer,
    mut delta: Delta,
    last_sign: Timestamp,
) -> Result<(Delta, Vec<RepoPath>), RunError> {
    // A beat every second and a slow machine: what changed within this time may be the step's.
    const DOUBT: i64 = 3;
    let mut own = Vec::new();
    let mut later = Vec::new();
    for change in delta.changes {
        match checkpointer.changed_at(&change.path)? {
            Some(seconds) if seconds > last_sign.as_second() + DOUBT => later.push(change.path),
            _ => own.push(change),
        }
    }
    delta.changes = own;
    if checkpointer.index_changed_at().is_some_and(|seconds| seconds > last_sign.as_second() + DOUBT) {
        // Somebody has staged something since: what the step staged cannot be told from it.
        delta.index = None;
        delta.announced_added.clear();
        delta.announced_removed.clear();
    }
    Ok((delta, later))
}

pub(super) fn told(text: &str) -> String {
    text.to_owned()
}
