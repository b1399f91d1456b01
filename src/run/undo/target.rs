//! Finds the operations of an undo or a redo.

use std::collections::BTreeSet;

use super::UndoAction;
use super::error::{UndoError, Unrecorded};
use crate::audit::fate::{BranchReading, CommitFate, Fates};
use crate::audit::history::{History, RunRecord, StepOutcome, StepRecord};
use crate::audit::reference::{self, NamedRecord, ReferenceError};
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Head;
use crate::journal::event::StepKind;
use crate::journal::{RunId, StepId};
use crate::run::error::RunError;

/// The operations to undo or redo.
pub(super) struct UndoTarget<'h> {
    pub(super) way: UndoDirection,
    /// The steps, in the order in which they are undone or applied; never empty.
    pub(super) steps: Vec<&'h StepRecord>,
    /// A name for all of them.
    pub(super) name: String,
}

/// What to do with the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndoDirection {
    /// Undo them.
    Undo,
    /// Undo an undo.
    Redo,
    /// Apply them again, as new changes.
    Apply,
}

/// Finds the operations in a work tree.
pub(super) fn find<'h>(
    history: &'h History,
    git: &Repository,
    root: &'h str,
    action: UndoAction<'_>,
) -> Result<UndoTarget<'h>, RunError> {
    let finder = Finder {
        history,
        root,
        undone: history.undone(),
    };
    let target = match action {
        UndoAction::Undo => finder.newest(),
        UndoAction::UndoNamed(name) => match reference::find_named(history, Some(git), name)? {
            NamedRecord::Step(id) => finder.step(id),
            NamedRecord::Run(id) => finder.run(finder.known_run(id)?),
        },
        UndoAction::UndoRun(name) => {
            let runs: Vec<_> = history.runs.iter().map(|run| run.id).collect();
            finder.run(finder.known_run(reference::find_run(&runs, name)?)?)
        }
        UndoAction::UndoTo(name) => finder.after(find_last_step(history, git, name)?),
        UndoAction::Redo => finder.undo_to_redo(),
        UndoAction::RedoNamed(name) => match reference::find_named(history, Some(git), name)? {
            NamedRecord::Step(id) => finder.apply_step(id),
            NamedRecord::Run(id) => finder.apply_run(finder.known_run(id)?),
        },
    }?;
    let head = git.head()?;
    for step in &target.steps {
        require_branch(history, git, &head, step)?;
    }
    Ok(target)
}

/// The step with a name; for a run with several steps, the last one.
pub(super) fn find_last_step(
    history: &History,
    git: &Repository,
    name: &str,
) -> Result<StepId, RunError> {
    match reference::find_named(history, Some(git), name)? {
        NamedRecord::Step(id) => Ok(id),
        NamedRecord::Run(run) => {
            let last = history.run(run).and_then(|run| run.steps.last());
            Ok(last
                .map(|step| step.id)
                .ok_or_else(|| ReferenceError::Unknown(name.to_owned()))?)
        }
    }
}

/// Refuses a step of another work tree, because it has nothing to do with these files.
pub(super) fn require_here(
    history: &History,
    root: &str,
    step: &StepRecord,
) -> Result<(), UndoError> {
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
    /// The operation that took effect last, directly or by a redo.
    fn newest(&self) -> Result<UndoTarget<'h>, RunError> {
        for step in self
            .history
            .steps_in(self.root)
            .filter(|step| !self.undone.contains(&step.id))
        {
            // Never fall back to another step.
            self.require_recorded(std::iter::once(step))?;
            let mut steps = self.brought_back(step);
            if steps.is_empty() && step.is_operation() {
                steps.push(step);
            }
            if let Some(first) = steps.first() {
                let name = first.name.clone();
                return self.undoing(steps, name);
            }
        }
        Err(UndoError::NothingToUndo.into())
    }

    /// The operations that a redo, or the undo of an undo, brought back.
    fn brought_back(&self, step: &StepRecord) -> Vec<&'h StepRecord> {
        if !step.counts_as_reversal() {
            return Vec::new();
        }
        let reversals = step
            .reverses()
            .into_iter()
            .filter_map(|id| self.history.step(id));
        let operations = reversals
            .flat_map(StepRecord::reverses)
            .filter_map(|id| self.history.step(id));
        operations
            .filter(|step| step.is_operation() && !self.undone.contains(&step.id))
            .collect()
    }

    fn step(&self, id: StepId) -> Result<UndoTarget<'h>, RunError> {
        let step = self.known_step(id)?;
        require_here(self.history, self.root, step)?;
        self.undoing(vec![step], step.name.clone())
    }

    /// The undo of steps, newest first; each of them must be undoable.
    fn undoing(
        &self,
        steps: Vec<&'h StepRecord>,
        name: String,
    ) -> Result<UndoTarget<'h>, RunError> {
        for step in &steps {
            self.require_undoable(step)?;
        }
        Ok(UndoTarget {
            way: UndoDirection::Undo,
            steps,
            name,
        })
    }

    /// All steps of a run that are in effect.
    fn run(&self, run: &'h RunRecord) -> Result<UndoTarget<'h>, RunError> {
        let refuse = |reason: String| UndoError::OfRun {
            run: run.id,
            verb: "undone",
            reason,
        };
        if run.root != self.root {
            return Err(refuse(elsewhere(run)).into());
        }
        if run.is_open() {
            return Err(UndoError::RunOpen(run.id).into());
        }
        self.require_recorded(run.steps.iter().rev())?;
        let steps: Vec<&StepRecord> = run
            .steps
            .iter()
            .rev()
            .filter(|step| self.counts(step))
            .collect();
        if steps.is_empty() {
            let was_undone = run.steps.iter().any(|step| self.undone.contains(&step.id));
            let reason = if was_undone {
                "it is already undone"
            } else {
                "it changed nothing"
            };
            return Err(refuse(reason.to_owned()).into());
        }
        self.undoing(steps, format!("run {}", run.name))
    }

    /// All operations after a step that are in effect.
    fn after(&self, id: StepId) -> Result<UndoTarget<'h>, RunError> {
        let step = self.known_step(id)?;
        require_here(self.history, self.root, step)?;
        let later = || {
            let steps = self.history.steps_in(self.root);
            steps.take_while(move |later| later.id != id)
        };
        self.require_recorded(later())?;
        let steps: Vec<&StepRecord> = later().filter(|step| self.counts(step)).collect();
        if steps.is_empty() {
            return Err(UndoError::NothingAfter(id).into());
        }
        let open = steps
            .iter()
            .filter_map(|step| self.history.run(step.id.run))
            .find(|run| run.is_open());
        if let Some(run) = open {
            return Err(UndoError::RunOpen(run.id).into());
        }
        self.undoing(steps, format!("to {}", step.name))
    }

    /// The newest undo that is in effect, unless a new step was made after it.
    fn undo_to_redo(&self) -> Result<UndoTarget<'h>, RunError> {
        let mut new_work = None;
        for step in self
            .history
            .steps_in(self.root)
            .filter(|step| !self.undone.contains(&step.id))
        {
            let is_undo = matches!(step.kind, StepKind::Undo { .. }) && step.counts_as_reversal();
            // An undo without changes has nothing to redo.
            if is_undo && step.outcome != StepOutcome::NoChanges {
                return match new_work {
                    None => {
                        let name = step
                            .name
                            .strip_prefix("undo ")
                            .unwrap_or(&step.name)
                            .to_owned();
                        Ok(UndoTarget {
                            way: UndoDirection::Redo,
                            steps: vec![step],
                            name,
                        })
                    }
                    Some((newer, name)) => {
                        let undone = step.reverses().first().copied().unwrap_or(step.id);
                        Err(UndoError::RedoCleared {
                            step: newer,
                            name,
                            undone,
                        }
                        .into())
                    }
                };
            }
            if step.is_operation() && new_work.is_none() {
                new_work = Some((step.id, step.name.clone()));
            }
        }
        Err(UndoError::NothingToRedo.into())
    }

    fn apply_step(&self, id: StepId) -> Result<UndoTarget<'h>, RunError> {
        let step = self.known_step(id)?;
        require_here(self.history, self.root, step)?;
        let refuse = |reason| Err(UndoError::NotRedoable { step: id, reason }.into());
        match &step.kind {
            StepKind::Undo { .. } | StepKind::Redo { .. } => {
                refuse("it is an undo or a redo itself; use the original step")
            }
            _ if !self.undone.contains(&id) => refuse("it is not undone"),
            StepKind::Checkpoint { .. } => refuse(
                "its content is on disk; `piton checkpoint` commits it again, with paths if it is your own",
            ),
            _ if lacks_record(step) => refuse("it has no record"),
            _ => Ok(UndoTarget {
                way: UndoDirection::Apply,
                steps: vec![step],
                name: step.name.clone(),
            }),
        }
    }

    /// All undone steps of a run, oldest first. The content of checkpoints comes with the steps.
    fn apply_run(&self, run: &'h RunRecord) -> Result<UndoTarget<'h>, RunError> {
        let refuse = |reason: String| UndoError::OfRun {
            run: run.id,
            verb: "applied again",
            reason,
        };
        if run.root != self.root {
            return Err(refuse(elsewhere(run)).into());
        }
        let is_undone = |step: &&StepRecord| {
            self.undone.contains(&step.id)
                && step.is_operation()
                && !matches!(step.kind, StepKind::Checkpoint { .. })
        };
        let steps: Vec<&StepRecord> = run.steps.iter().filter(is_undone).collect();
        if steps.is_empty() {
            return Err(refuse("it is not undone".to_owned()).into());
        }
        Ok(UndoTarget {
            way: UndoDirection::Apply,
            steps,
            name: format!("run {}", run.name),
        })
    }

    fn counts(&self, step: &StepRecord) -> bool {
        step.is_operation() && !self.undone.contains(&step.id)
    }

    /// Refuses if one of the steps may have changed files without a record.
    fn require_recorded(
        &self,
        mut steps: impl Iterator<Item = &'h StepRecord>,
    ) -> Result<(), UndoError> {
        let Some(step) = steps.find(|step| step.is_unrecorded()) else {
            return Ok(());
        };
        let StepOutcome::Failed { message, .. } = &step.outcome else {
            return Ok(());
        };
        let mut later = self
            .history
            .steps_in(self.root)
            .skip_while(|other| other.id != step.id)
            .skip(1);
        let older = later
            .find(|older| self.counts(older))
            .map(|older| (older.id, older.name.clone()));
        let (name, reason) = (step.name.clone(), message.clone());
        Err(UndoError::Unrecorded(Box::new(Unrecorded {
            step: step.id,
            name,
            reason,
            older,
        })))
    }

    fn require_undoable(&self, step: &StepRecord) -> Result<(), UndoError> {
        let refuse = |reason: &str| Err(UndoError::not_undoable(step.id, reason));
        match &step.outcome {
            _ if self.undone.contains(&step.id) => refuse("it is already undone"),
            StepOutcome::RolledBack { .. } => refuse("it was already rolled back"),
            StepOutcome::Open => refuse("it has not ended"),
            _ if matches!(step.kind, StepKind::Finish { .. })
                && step.commit().is_some()
                && !step.has_changes() =>
            {
                refuse(
                    "it squashed several commits; `git reset` to the commit before it restores them",
                )
            }
            StepOutcome::NoChanges => refuse("it changed nothing"),
            _ if !step.is_operation() && !step.counts_as_reversal() => refuse("it changed nothing"),
            _ if lacks_record(step) => refuse("it has no record"),
            _ => Ok(()),
        }
    }

    fn known_step(&self, id: StepId) -> Result<&'h StepRecord, ReferenceError> {
        self.history
            .step(id)
            .ok_or_else(|| ReferenceError::Unknown(id.to_string()))
    }

    fn known_run(&self, id: RunId) -> Result<&'h RunRecord, ReferenceError> {
        self.history
            .run(id)
            .ok_or_else(|| ReferenceError::Unknown(id.to_string()))
    }
}

fn lacks_record(step: &StepRecord) -> bool {
    step.before.is_none() || step.after.is_none() || step.delta.is_none()
}

/// Refuses a step that belongs to the history of another branch.
///
/// A branch may have been renamed, merged or detached from. It is the same history if HEAD contains
/// the commit of the step, or the commit that the step started from.
fn require_branch(
    history: &History,
    git: &Repository,
    head: &Head,
    step: &StepRecord,
) -> Result<(), RunError> {
    let Some(before) = &step.before else {
        return Ok(());
    };
    if before.head.branch.is_some() && before.head.branch == head.branch {
        return Ok(());
    }
    let own = history.commit_of(step);
    let expected = own.or(before.head.commit);
    let has = |commit| head.commit.is_some_and(|tip| git.leads_to(tip, commit));
    let is_same = match expected {
        Some(commit) => {
            has(commit)
                || fate_of(history, git, step)?
                    .and_then(|fate| fate.place())
                    .is_some_and(has)
        }
        None => before.head.branch == head.branch,
    };
    if is_same {
        return Ok(());
    }
    Err(UndoError::OtherBranch {
        step: step.id,
        there: shown_branch(&before.head),
        here: shown_branch(head),
    }
    .into())
}

/// The fate of the commit of a step: git may have replaced it.
fn fate_of(
    history: &History,
    git: &Repository,
    step: &StepRecord,
) -> Result<Option<CommitFate>, RunError> {
    Ok(Fates::find(git, history, BranchReading::IfNeeded)?.of(step))
}

fn shown_branch(head: &Head) -> String {
    match &head.branch {
        Some(branch) => format!(
            "branch `{}`",
            branch.strip_prefix("refs/heads/").unwrap_or(branch)
        ),
        None => "a detached HEAD".to_owned(),
    }
}
