//! All-or-nothing runs: everything that a run did is put back when it does not succeed.
//!
//! It is one step at the end of the run. Files go back to what they were before the run, and what was committed gets one
//! inverse commit, so branches never move backwards. If another person or process has changed one of the files since, the
//! whole is refused and nothing is changed.

use std::collections::BTreeMap;

use super::error::RunError;
use super::session::Session;
use super::settle::{Rules, Settlement, Verdict, Wording};
use super::undo::{commits_of, operations_of};
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::{Entry, ObjectId};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{Inverse, Operation, Reach};
use crate::checkpoint::snapshot::Snapshot;
use crate::failpoint::failpoint;
use crate::journal::RunId;
use crate::journal::event::StepKind;
use crate::journal::summary::StepStatus;
use crate::problem::Problem;

/// The name of the step that puts a run back.
const NAME: &str = "roll back the run";

impl Session<'_, '_> {
    /// Puts back everything that the run did; returns why it failed, with what became of that.
    pub(super) fn put_run_back(&mut self, error: Option<Problem>) -> Result<Option<Problem>, RunError> {
        let put_back = match self.put_back() {
            Ok(put_back) => put_back,
            Err(err @ (RunError::Checkpoint(_) | RunError::Undo(_))) => Some(Err(Problem::of(&err))),
            Err(err) => return Err(err),
        };
        let Some(put_back) = put_back else { return Ok(error) };
        Ok(error.map(|error| match put_back {
            Ok(()) => error.with_hint("everything that the run did was rolled back; run the directive again"),
            Err(why) => {
                let message = format!("{}; the run was not rolled back: {}", error.message(), why.message());
                let hint = why.hint.or(error.hint);
                Problem::new(error.code, message).with_hint_of(hint)
            }
        }))
    }

    /// None when the run has changed nothing that is still there.
    fn put_back(&mut self) -> Result<Option<Result<(), Problem>>, RunError> {
        let (history, _) = History::load(&self.folders().runs)?;
        let steps = steps_of(&history, self.run);
        if steps.is_empty() {
            return Ok(None);
        }
        let missing = || CheckpointError::NoRepository(self.ctx.root.clone());
        let Some(mut checkpointer) = self.checkpointer.take() else { return Err(missing().into()) };
        let judged = operations_of(&history, checkpointer.repository(), &steps)
            .and_then(|operations| Ok((judge(&mut checkpointer, &operations)?, operations)));
        self.checkpointer = Some(checkpointer);
        // Judged before the step begins: a refusal changes nothing.
        let (inverse, operations) = judged?;
        let commits = commits_of(&history, &steps);
        let step = self.next_step();
        let ids = steps.iter().map(|step| step.id).collect();
        let kind = StepKind::RollBackRun { steps: ids, commits: commits.clone() };
        let Some(before) = self.start_step(step, NAME, kind, &[])? else { return Err(missing().into()) };
        let Settlement { checkpoint, error, .. } = self.carry_back(step, &before, inverse, &operations, &commits)?;
        let status = if error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        self.finish_step(step, NAME, status, None, checkpoint, error.as_ref())?;
        Ok(Some(error.map_or(Ok(()), Err)))
    }

    fn carry_back(
        &mut self,
        step: u32,
        before: &Snapshot,
        inverse: Inverse,
        operations: &[Operation],
        commits: &[ObjectId],
    ) -> Result<Settlement, RunError> {
        let missing = || CheckpointError::NoRepository(self.ctx.root.clone());
        let Some(mut checkpointer) = self.checkpointer.take() else { return Err(missing().into()) };
        let applied = checkpointer.apply_inverse(&inverse, operations).map(|report| report.shortfall());
        failpoint("run-put-back");
        let wording = Wording { name: NAME, undoes: commits, ..Wording::default() };
        let settled = match (applied, inverse.commit) {
            (Err(err), _) => Err(err.into()),
            (Ok(Some(err)), _) => self.leave_as_it_was(&mut checkpointer, step, before, &err),
            (Ok(None), Some(plan)) => self
                .find_own(&mut checkpointer, step, before, Ownership::EVERYTHING)
                .and_then(|found| self.commit_or_put_back(&mut checkpointer, step, wording, before, found, &plan)),
            (Ok(None), None) => {
                self.checkpointer = Some(checkpointer);
                let verdict = Verdict::Keep("nothing of the run was committed");
                return self.settle(step, wording, before, verdict, Rules::NONE);
            }
        };
        self.checkpointer = Some(checkpointer);
        settled
    }
}

/// The operations of a run that still count, newest first.
fn steps_of(history: &History, run: RunId) -> Vec<&StepRecord> {
    let undone = history.undone();
    let steps = history.run(run).map(|run| run.steps.as_slice()).unwrap_or_default();
    // What people changed while a manual step waited that was not done in the end is theirs.
    let is_theirs = |step: &StepRecord| {
        let is_manual = matches!(step.kind, StepKind::Prose { .. } | StepKind::Human { .. });
        is_manual && step.status != Some(StepStatus::Succeeded) && !step.started_process
    };
    let counts = |step: &&StepRecord| step.is_operation() && !undone.contains(&step.id) && !is_theirs(step);
    steps.iter().rev().filter(counts).collect()
}

/// Works out how the operations are taken back; refused if a file is not as the run left it, or was changed between two
/// of its steps by someone else.
fn judge(checkpointer: &mut Checkpointer, operations: &[Operation]) -> Result<Inverse, CheckpointError> {
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
    for operation in operations.iter().filter(|operation| operation.reach == Reach::Files) {
        for change in &operation.delta.changes {
            left.entry(&change.path).or_insert(change.after);
            if found.insert(&change.path, change.before).is_some_and(|found| found != change.after) {
                edited.push(change.path.clone());
            }
        }
    }
    let inverse = checkpointer.invert(&now, operations)?.require_writable()?;
    let is_edited = |path: &RepoPath, expected: Option<Entry>| left.get(path).is_some_and(|left| *left != expected);
    let files = inverse.plan.files.iter().filter(|file| is_edited(&file.path, file.expected));
    edited.extend(files.map(|file| file.path.clone()));
    edited.extend(inverse.conflicts.iter().cloned());
    edited.sort();
    edited.dedup();
    if edited.is_empty() { Ok(inverse) } else { Err(CheckpointError::ChangedSince(edited)) }
}
