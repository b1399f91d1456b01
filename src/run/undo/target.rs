//! Which operations an undo or a redo is about.

use std::collections::BTreeSet;

use super::Action;
use super::error::{UndoError, Unrecorded};
use crate::audit::fate::{CommitFate, Fates, Reading};
use crate::audit::history::{History, Outcome, RunRecord, StepRecord};
use crate::audit::reference::{self, Named, ReferenceError};
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Head;
use crate::journal::event::StepKind;
use crate::journal::{RunId, StepId};
use crate::run::error::RunError;

/// The operations that are meant.
pub(super) struct Target<'h> {
    /// What is done with them.
    pub(super) way: Way,
    /// The steps, in the order in which they are taken back or applied; never empty.
    pub(super) steps: Vec<&'h StepRecord>,
    /// What all of them together are called.
    pub(super) name: String,
}

/// What is done with operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They are undone.
    Undo,
    /// An undo is taken back.
    Redo,
    /// They are applied again, as new work.
    Apply,
}

/// Finds the operations that are meant in a work tree.
pub(super) fn find<'h>(
    history: &'h History,
    git: &Repository,
    root: &'h str,
    action: Action<'_>,
) -> Result<Target<'h>, RunError> {
    let finder = Finder { history, root, undone: history.undone() };
    let target = match action {
        Action::Undo => finder.newest(),
        Action::UndoNamed(name) => match reference::find_named(history, Some(git), name)? {
            Named::Step(id) => finder.step(id),
            Named::Run(id) => finder.run(finder.known_run(id)?),
        },
        Action::UndoRun(name) => {
            let runs: Vec<_> = history.runs.iter().map(|run| run.id).collect();
            finder.run(finder.known_run(reference::find_run(&runs, name)?)?)
        }
        Action::UndoTo(name) => finder.after(find_last_step(history, git, name)?),
        Action::Redo => finder.undo_to_redo(),
        Action::RedoNamed(name) => match reference::find_named(history, Some(git), name)? {
            Named::Step(id) => finder.apply_step(id),
            Named::Run(id) => finder.apply_run(finder.known_run(id)?),
        },
    }?;
    let head = git.head()?;
    for step in &target.steps {
        require_branch(history, git, &head, step)?;
    }
    Ok(target)
}

/// The step that a name means; of a run with several, the last one.
pub(super) fn find_last_step(history: &History, git: &Repository, name: &str) -> Result<StepId, RunError> {
    match reference::find_named(history, Some(git), name)? {
        Named::Step(id) => Ok(id),
        Named::Run(run) => {
            let last = history.run(run).and_then(|run| run.steps.last());
            Ok(last.map(|step| step.id).ok_or_else(|| ReferenceError::Unknown(name.to_owned()))?)
        }
    }
}

/// Refuses a step of another work tree: it says nothing about the files of this one.
pub(super) fn require_here(history: &History, root: &str, step: &StepRecord) -> Result<(), UndoError> {
    match history.run(step.id.run) {
        Some(run) if run.root != root => Err(UndoError::not_undoable(step.id, elsewhere(run))),
        _ => Ok(()),
    }
}

fn elsewhere(run: &RunRecord) -> String {
    match run.root.as_str() {
        "" => "it was made in another clone".to_owned(),
        root => format!("it was made in another work tree, `{root}`"),
    }
}

struct Finder<'h> {
    history: &'h History,
    root: &'h str,
    undone: BTreeSet<StepId>,
}

impl<'h> Finder<'h> {
    /// The operation that came into effect last, by itself or by a redo.
    fn newest(&self) -> Result<Target<'h>, RunError> {
        for step in self.history.steps_in(self.root).filter(|step| !self.undone.contains(&step.id)) {
            // Never another step than the one that is meant.
            self.require_recorded(std::iter::once(step))?;
            let mut steps = self.brought_back(step);
            if steps.is_empty() && step.is_operation() {
                steps.push(step);
            }
            if let Some(first) = steps.first() {
                let name = first.name.clone();
                steps.iter().try_for_each(|step| self.require_undoable(step))?;
                return Ok(Target { way: Way::Undo, steps, name });
            }
        }
        Err(UndoError::NothingToUndo.into())
    }

    /// The operations that count again by a redo, or by the undo of an undo.
    fn brought_back(&self, step: &StepRecord) -> Vec<&'h StepRecord> {
        if !step.counts_as_reversal() {
            return Vec::new();
        }
        let reversals = step.reverses().into_iter().filter_map(|id| self.history.step(id));
        let operations = reversals.flat_map(StepRecord::reverses).filter_map(|id| self.history.step(id));
        operations.filter(|step| step.is_operation() && !self.undone.contains(&step.id)).collect()
    }

    fn step(&self, id: StepId) -> Result<Target<'h>, RunError> {
        let step = self.known_step(id)?;
        require_here(self.history, self.root, step)?;
        self.require_undoable(step)?;
        Ok(Target { way: Way::Undo, steps: vec![step], name: step.name.clone() })
    }

    /// Everything of a run that counts.
    fn run(&self, run: &'h RunRecord) -> Result<Target<'h>, RunError> {
        let refuse = |reason: String| UndoError::OfRun { run: run.id, verb: "undone", reason };
        if run.root != self.root {
            return Err(refuse(elsewhere(run)).into());
        }
        if run.is_open() {
            return Err(UndoError::RunOpen(run.id).into());
        }
        self.require_recorded(run.steps.iter().rev())?;
        let steps: Vec<&StepRecord> = run.steps.iter().rev().filter(|step| self.counts(step)).collect();
        if steps.is_empty() {
            let was_undone = run.steps.iter().any(|step| self.undone.contains(&step.id));
            let reason = if was_undone { "it is undone already" } else { "it changed nothing" };
            return Err(refuse(reason.to_owned()).into());
        }
        steps.iter().try_for_each(|step| self.require_undoable(step))?;
        Ok(Target { way: Way::Undo, steps, name: format!("run {}", run.name) })
    }

    /// Every operation after a step that counts.
    fn after(&self, id: StepId) -> Result<Target<'h>, RunError> {
        let step = self.known_step(id)?;
        require_here(self.history, self.root, step)?;
        self.require_recorded(self.history.steps_in(self.root).take_while(|later| later.id != id))?;
        let later = self.history.steps_in(self.root).take_while(|later| later.id != id);
        let steps: Vec<&StepRecord> = later.filter(|step| self.counts(step)).collect();
        if steps.is_empty() {
            return Err(UndoError::NothingAfter(id).into());
        }
        let open = steps.iter().filter_map(|step| self.history.run(step.id.run)).find(|run| run.is_open());
        if let Some(run) = open {
            return Err(UndoError::RunOpen(run.id).into());
        }
        steps.iter().try_for_each(|step| self.require_undoable(step))?;
        Ok(Target { way: Way::Undo, steps, name: format!("to {}", step.name) })
    }

    /// The newest undo that counts, unless new work was done after it.
    fn undo_to_redo(&self) -> Result<Target<'h>, RunError> {
        let mut new_work = None;
        for step in self.history.steps_in(self.root).filter(|step| !self.undone.contains(&step.id)) {
            let is_undo = matches!(step.kind, StepKind::Undo { .. }) && step.counts_as_reversal();
            // An undo that found nothing to do has nothing to take back either.
            if is_undo && step.outcome != Outcome::NoChanges {
                return match new_work {
                    None => {
                        let name = step.name.strip_prefix("undo ").unwrap_or(&step.name).to_owned();
                        Ok(Target { way: Way::Redo, steps: vec![step], name })
                    }
                    Some((newer, name)) => {
                        let undone = step.reverses().first().copied().unwrap_or(step.id);
                        Err(UndoError::RedoCleared { step: newer, name, undone }.into())
                    }
                };
            }
            if step.is_operation() && new_work.is_none() {
                new_work = Some((step.id, step.name.clone()));
            }
        }
        Err(UndoError::NothingToRedo.into())
    }

    fn apply_step(&self, id: StepId) -> Result<Target<'h>, RunError> {
        let step = self.known_step(id)?;
        require_here(self.history, self.root, step)?;
        let refuse = |reason| Err(UndoError::NotRedoable { step: id, reason }.into());
        match &step.kind {
            StepKind::Undo { .. } | StepKind::Redo { .. } => {
                refuse("it is an undo or a redo itself; name the step that it is about")
            }
            _ if !self.undone.contains(&id) => refuse("it is not undone"),
            StepKind::Checkpoint { .. } => {
                refuse("its content is on disk; `piton checkpoint` commits it again, with paths if it is your own")
            }
            _ if lacks_record(step) => refuse("nothing of it was recorded"),
            _ => Ok(Target { way: Way::Apply, steps: vec![step], name: step.name.clone() }),
        }
    }

    /// Everything of a run that is undone, oldest first. The content of checkpoints comes with the steps.
    fn apply_run(&self, run: &'h RunRecord) -> Result<Target<'h>, RunError> {
        let refuse = |reason: String| UndoError::OfRun { run: run.id, verb: "applied again", reason };
        if run.root != self.root {
            return Err(refuse(elsewhere(run)).into());
        }
        let is_undone = |step: &&StepRecord| {
            self.undone.contains(&step.id) && step.is_operation() && !matches!(step.kind, StepKind::Checkpoint { .. })
        };
        let steps: Vec<&StepRecord> = run.steps.iter().filter(is_undone).collect();
        if steps.is_empty() {
            return Err(refuse("nothing of it is undone".to_owned()).into());
        }
        Ok(Target { way: Way::Apply, steps, name: format!("run {}", run.name) })
    }

    fn counts(&self, step: &StepRecord) -> bool {
        step.is_operation() && !self.undone.contains(&step.id)
    }

    /// Refuses when one of the steps may have changed files that piton could not record.
    fn require_recorded(&self, mut steps: impl Iterator<Item = &'h StepRecord>) -> Result<(), UndoError> {
        let Some(step) = steps.find(|step| step.is_unrecorded()) else { return Ok(()) };
        let Outcome::Failed { message, .. } = &step.outcome else { return Ok(()) };
        let mut later = self.history.steps_in(self.root).skip_while(|other| other.id != step.id).skip(1);
        let older = later.find(|older| self.counts(older)).map(|older| (older.id, older.name.clone()));
        let (name, reason) = (step.name.clone(), message.clone());
        Err(UndoError::Unrecorded(Box::new(Unrecorded { step: step.id, name, reason, older })))
    }

    fn require_undoable(&self, step: &StepRecord) -> Result<(), UndoError> {
        let refuse = |reason: &str| Err(UndoError::not_undoable(step.id, reason));
        match &step.outcome {
            _ if self.undone.contains(&step.id) => refuse("it is undone already"),
            Outcome::RolledBack { .. } => refuse("it was rolled back already"),
            Outcome::Open => refuse("it has not ended"),
            _ if matches!(step.kind, StepKind::Finish { .. }) && step.commit().is_some() && !step.has_changes() => {
                refuse(
                    "it put one commit in the place of several; `git reset` to the commit before it brings them back",
                )
            }
            Outcome::NoChanges => refuse("it changed nothing"),
            _ if !step.is_operation() && !step.counts_as_reversal() => refuse("it changed nothing"),
            _ if lacks_record(step) => refuse("nothing of it was recorded"),
            _ => Ok(()),
        }
    }

    fn known_step(&self, id: StepId) -> Result<&'h StepRecord, ReferenceError> {
        self.history.step(id).ok_or_else(|| ReferenceError::Unknown(id.to_string()))
    }

    fn known_run(&self, id: RunId) -> Result<&'h RunRecord, ReferenceError> {
        self.history.run(id).ok_or_else(|| ReferenceError::Unknown(id.to_string()))
    }
}

fn lacks_record(step: &StepRecord) -> bool {
    step.before.is_none() || step.after.is_none() || step.delta.is_none()
}

/// Refuses a step that belongs to the history of another branch.
///
/// A branch may have been renamed, merged or detached from: where HEAD has the commit of the step, or the one that the
/// step began at and left its changes on top of, it is the same history.
fn require_branch(history: &History, git: &Repository, head: &Head, step: &StepRecord) -> Result<(), RunError> {
    let Some(before) = &step.before else { return Ok(()) };
    if before.head.branch.is_some() && before.head.branch == head.branch {
        return Ok(());
    }
    let own = history.commit_of(step);
    let expected = own.or(before.head.commit);
    let has = |commit| head.commit.is_some_and(|tip| git.leads_to(tip, commit));
    let is_same = match expected {
        Some(commit) => has(commit) || fate_of(history, git, step)?.and_then(|fate| fate.place()).is_some_and(has),
        None => before.head.branch == head.branch,
    };
    if is_same {
        return Ok(());
    }
    Err(UndoError::OtherBranch { step: step.id, there: in_words(&before.head), here: in_words(head) }.into())
}

/// What became of the commit of a step: git may have put others in its place.
fn fate_of(history: &History, git: &Repository, step: &StepRecord) -> Result<Option<CommitFate>, RunError> {
    Ok(Fates::find(git, history, Reading::IfNeeded)?.of(step))
}

fn in_words(head: &Head) -> String {
    match &head.branch {
        Some(branch) => format!("branch `{}`", branch.strip_prefix("refs/heads/").unwrap_or(branch)),
        None => "a detached HEAD".to_owned(),
    }
}
