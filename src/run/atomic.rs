//! All-or-nothing runs: everything that a run did is put back when it does not succeed.
//!
//! It is one step at the end of the run. Files go back to what they were before the run, and what was committed gets one
//! inverse commit, so branches never move backwards. If another person or process has changed one of the files since, the
//! whole is refused and nothing is changed.

use std::collections::BTreeMap;

use super::error::RunError;
use super::session::Session;
use super::settle::{Reversal as Why, Settlement, Wording, explain};
use super::step::summary;
use super::undo::combine;
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::{Entry, ObjectId};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{Inverse, Reversal};
use crate::checkpoint::snapshot::Snapshot;
use crate::failpoint::failpoint;
use crate::journal::StepId;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{CheckpointStatus, ErrorSummary, StepStatus};

/// The name of the step that puts a run back.
const NAME: &str = "roll back the run";

/// What the steps of a run did, as one change.
struct Whole {
    steps: Vec<StepId>,
    /// The commits that hold it, oldest first.
    commits: Vec<ObjectId>,
    before: Snapshot,
    after: Snapshot,
    delta: Delta,
    /// What of it is in commits.
    committed: Delta,
}

impl Session<'_, '_> {
    /// Puts back everything that the run did; returns why it failed, with what became of that.
    pub(super) fn put_run_back(&mut self, error: Option<ErrorSummary>) -> Result<Option<ErrorSummary>, RunError> {
        let put_back = match self.put_back() {
            Ok(put_back) => put_back,
            Err(RunError::Checkpoint(err)) => Some(Err(explain(&err))),
            Err(err) => return Err(err),
        };
        let Some(put_back) = put_back else { return Ok(error) };
        Ok(error.map(|error| match put_back {
            Ok(()) => ErrorSummary {
                suggestion: Some("everything that the run did was rolled back; run the directive again".to_owned()),
                ..error
            },
            Err(why) => ErrorSummary {
                message: format!("{}; the run was not rolled back: {}", error.message, why.message),
                suggestion: why.suggestion.or(error.suggestion),
                code: error.code,
            },
        }))
    }

    /// None when the run has changed nothing that is still there.
    fn put_back(&mut self) -> Result<Option<Result<(), ErrorSummary>>, RunError> {
        let (history, _) = History::load(&self.folders().runs)?;
        let steps = steps_of(&history, self.run);
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Ok(None) };
        let (Some(before), Some(after)) = (first.before.clone(), last.after.clone()) else { return Ok(None) };
        let missing = || CheckpointError::NoRepository(self.ctx.root.clone());
        let Some(mut checkpointer) = self.checkpointer.take() else { return Err(missing().into()) };
        let inverse =
            whole(&history, &steps, before, after).and_then(|whole| Ok((judge(&mut checkpointer, &whole)?, whole)));
        self.checkpointer = Some(checkpointer);
        // Judged before the step begins: a refusal changes nothing.
        let (inverse, whole) = inverse?;
        let step = self.next_step();
        let kind = StepKind::RollBackRun { steps: whole.steps.clone(), commits: whole.commits.clone() };
        let Some(before) = self.start_step(step, NAME, kind, &[])? else { return Err(missing().into()) };
        let Some(mut checkpointer) = self.checkpointer.take() else { return Err(missing().into()) };
        let settled = self.carry_back(&mut checkpointer, step, &before, &inverse, &whole);
        self.checkpointer = Some(checkpointer);
        let Settlement { checkpoint, error, .. } = settled?;
        let status = if error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        self.finish_step(step, NAME, status, None, checkpoint, error.as_ref())?;
        Ok(Some(error.map_or(Ok(()), Err)))
    }

    fn carry_back(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        before: &Snapshot,
        inverse: &Inverse,
        whole: &Whole,
    ) -> Result<Settlement, RunError> {
        let kept = checkpointer.apply(&inverse.plan, &whole.before, &inverse.delta)?.kept;
        failpoint("run-put-back");
        let found = self.find_own(checkpointer, step, before, Ownership::EVERYTHING)?;
        let done = if !kept.is_empty() {
            Err(CheckpointError::ChangedSince(kept).into())
        } else if whole.commits.is_empty() && found.delta.is_empty() {
            self.record(&Event::NoChanges { step, not_captured: found.delta.not_captured.clone() })?;
            return Ok(Settlement::of(summary(CheckpointStatus::NoChanges)));
        } else if whole.commits.is_empty() {
            self.keep(step, "nothing of the run was committed", &found.delta)
        } else {
            let wording = Wording { name: NAME, undoes: &whole.commits, ..Wording::default() };
            let delta = Delta { changes: whole.committed.changes.iter().map(inverse_of).collect(), ..Delta::default() };
            self.commit(checkpointer, step, wording, &before.head, &delta, Vec::new())
        };
        match done {
            // All or nothing: what could not be committed is not left on disk either.
            Err(RunError::Checkpoint(err)) if found.delta.is_empty() => self.failed(step, &err),
            Err(RunError::Checkpoint(err)) => {
                let why = Why::failure("the roll back of the run could not be finished", explain(&err));
                let mut settlement = self.roll_back(checkpointer, step, why, before, &found.after, &found.delta)?;
                settlement.error.get_or_insert(explain(&err));
                Ok(settlement)
            }
            done => done,
        }
    }
}

/// The steps of a run whose changes are still there, oldest first.
fn steps_of(history: &History, run: crate::journal::RunId) -> Vec<&StepRecord> {
    let undone = history.undone();
    let changes_files =
        |step: &&StepRecord| !matches!(step.kind, StepKind::Checkpoint { .. } | StepKind::RollBackRun { .. });
    let steps = history.run(run).map(|run| run.steps.as_slice()).unwrap_or_default();
    let is_there = |step: &&StepRecord| step.took_effect() && step.has_changes() && !undone.contains(&step.id);
    // What people changed while a manual step waited that was not done in the end is theirs.
    let is_theirs = |step: &StepRecord| {
        let is_manual = matches!(step.kind, StepKind::Prose { .. } | StepKind::Human { .. });
        is_manual && step.status != Some(StepStatus::Succeeded) && !step.started_process
    };
    steps.iter().filter(changes_files).filter(is_there).filter(|step| !is_theirs(step)).collect()
}

/// All changes as one; refused if a file was changed between two steps, which nobody could put back alone.
fn whole(
    history: &History,
    steps: &[&StepRecord],
    before: Snapshot,
    after: Snapshot,
) -> Result<Whole, CheckpointError> {
    let mut left: BTreeMap<&RepoPath, Option<Entry>> = BTreeMap::new();
    let mut edited = Vec::new();
    for change in steps.iter().filter_map(|step| step.delta.as_ref()).flat_map(|delta| &delta.changes) {
        let known = left.insert(&change.path, change.after);
        if known.is_some_and(|known| known != change.before) {
            edited.push(change.path.clone());
        }
    }
    if !edited.is_empty() {
        return Err(CheckpointError::ChangedSince(edited));
    }
    let mut commits = Vec::new();
    let mut committed = Vec::new();
    for step in steps {
        let Some(commit) = history.commit_of(step) else { continue };
        committed.extend(&step.delta);
        if !commits.contains(&commit) {
            commits.push(commit);
        }
    }
    Ok(Whole {
        steps: steps.iter().map(|step| step.id).collect(),
        commits,
        before,
        after,
        delta: combine(steps.iter().filter_map(|step| step.delta.as_ref())),
        committed: combine(committed.into_iter()),
    })
}

/// Works out how the changes are put back; refused if a file is not as the run left it.
fn judge(checkpointer: &mut Checkpointer, whole: &Whole) -> Result<Inverse, CheckpointError> {
    checkpointer.require_undoable()?;
    let now = checkpointer.before()?;
    if now.head.branch != whole.after.head.branch
        && let Some(err) = whole.after.head.moved_to(&now.head)
    {
        return Err(err);
    }
    let reversal = Reversal { before: &whole.before, after: &whole.after, delta: &whole.delta };
    let mut inverse = checkpointer.invert(&now, &reversal)?;
    let left = |path: &RepoPath| whole.delta.changes.iter().find(|change| change.path == *path);
    let merged = inverse.plan.files.iter().filter(|file| left(&file.path).is_some_and(|it| it.after != file.expected));
    let merged: Vec<RepoPath> = merged.map(|file| file.path.clone()).collect();
    inverse.conflicts.extend(merged);
    inverse.conflicts.sort();
    inverse.conflicts.dedup();
    if inverse.conflicts.is_empty() { Ok(inverse) } else { Err(CheckpointError::ChangedSince(inverse.conflicts)) }
}

fn inverse_of(change: &Change) -> Change {
    Change {
        path: change.path.clone(),
        before: change.after,
        after: change.before,
        insertions: change.deletions,
        deletions: change.insertions,
    }
}
