//! Which operations count, and which were taken back.
//!
//! An *operation* is a step that `undo` can be about: one that changed files or what is staged, a checkpoint that made
//! a commit, a finish that moved the branch. Undos and redos are not operations of their own: they say which operations
//! count.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{History, Outcome, RunRecord, StepRecord};
use crate::journal::StepId;
use crate::journal::event::StepKind;
use crate::journal::summary::StepStatus;

/// The steps of runs, newest first: by the numbers of their sessions, since clocks go back. Those of earlier versions
/// have none and come last, by the time that the names of their runs begin with.
pub(super) fn newest_first<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> impl Iterator<Item = &'a StepRecord> {
    let mut steps: Vec<&StepRecord> = runs.flat_map(|run| &run.steps).collect();
    steps.sort_by_key(|step| Reverse((step.order, step.id.run, step.id.step)));
    steps.into_iter()
}

impl History {
    /// The steps that were undone and not redone.
    pub fn undone(&self) -> BTreeSet<StepId> {
        let mut undone = BTreeSet::new();
        // Newest first: an undo that was itself undone has no effect any more.
        for step in newest_first(self.runs.iter()) {
            if step.counts_as_reversal() && !undone.contains(&step.id) {
                undone.extend(step.reverses());
            }
        }
        undone
    }
}

impl StepRecord {
    /// Whether it did something that `undo` can be about. Undos and redos are none of these.
    pub fn is_operation(&self) -> bool {
        match &self.kind {
            StepKind::Undo { .. } | StepKind::Redo { .. } | StepKind::RollBackRun { .. } => false,
            StepKind::Checkpoint { .. } => self.commit().is_some(),
            StepKind::Finish { .. } => self.took_effect() && (self.has_changes() || self.commit().is_some()),
            _ => self.took_effect() && self.has_changes(),
        }
    }

    /// Whether it may have changed files, and what could not be recorded: nothing of it can be taken back.
    pub fn is_unrecorded(&self) -> bool {
        let is_own = matches!(
            self.kind,
            StepKind::Undo { .. }
                | StepKind::Redo { .. }
                | StepKind::RollBackRun { .. }
                | StepKind::Checkpoint { .. }
                | StepKind::Finish { .. }
        );
        !is_own && self.before.is_some() && self.delta.is_none() && matches!(self.outcome, Outcome::Failed { .. })
    }

    /// The steps that it takes back, newest first; none unless it is an undo, a redo or the roll back of a run.
    pub fn reverses(&self) -> Vec<StepId> {
        match &self.kind {
            StepKind::Undo { of, also, .. } => std::iter::once(of).chain(also).copied().collect(),
            StepKind::Redo { of, .. } => vec![*of],
            StepKind::RollBackRun { steps, .. } => steps.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether it is an undo, a redo or the roll back of a run, and was carried out.
    pub fn counts_as_reversal(&self) -> bool {
        matches!(self.kind, StepKind::Undo { .. } | StepKind::Redo { .. } | StepKind::RollBackRun { .. })
            && match &self.outcome {
                Outcome::Committed { .. } | Outcome::Kept { .. } => true,
                // The files went back, only the commit could not be made.
                Outcome::Failed { .. } => self.has_changes(),
                // The user had discarded the changes before: that was noted, so that the next undo goes further back.
                Outcome::NoChanges => self.status == Some(StepStatus::Succeeded),
                Outcome::Open | Outcome::RolledBack { .. } => false,
            }
    }
}
