//! Which operations count, and which were undone.
//!
//! An *operation* is a step that `undo` can revert: one that changed files or the index, a
//! checkpoint that made a commit, a finish that moved the branch. Undo and redo are not operations:
//! they decide which operations count.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{History, RunRecord, StepOutcome, StepRecord};
use crate::journal::StepId;
use crate::journal::event::StepKind;
use crate::journal::summary::StepStatus;

/// The steps of runs, newest first, ordered by session number because clocks can go back. Steps of
/// earlier versions have no number; they come last, ordered by the time in their run id.
pub(super) fn newest_first<'a>(
    runs: impl Iterator<Item = &'a RunRecord>,
) -> impl Iterator<Item = &'a StepRecord> {
    let mut steps: Vec<&StepRecord> = runs.flat_map(|run| &run.steps).collect();
    steps.sort_by_key(|step| Reverse((step.order, step.id.run, step.id.step)));
    steps.into_iter()
}

impl History {
    /// The steps that were undone and not redone.
    pub fn undone(&self) -> BTreeSet<StepId> {
        let mut undone = BTreeSet::new();
        // Newest first: an undo that was itself undone has no effect.
        for step in newest_first(self.runs.iter()) {
            if step.counts_as_reversal() && !undone.contains(&step.id) {
                undone.extend(step.reverses());
            }
        }
        undone
    }
}

impl StepRecord {
    /// Whether `undo` can revert it. Undo and redo steps are not operations.
    pub fn is_operation(&self) -> bool {
        match &self.kind {
            StepKind::Undo { .. } | StepKind::Redo { .. } | StepKind::RollBackRun { .. } => false,
            StepKind::Checkpoint { .. } => self.commit().is_some(),
            StepKind::Finish { .. } => {
                self.took_effect() && (self.has_changes() || self.commit().is_some())
            }
            _ => self.took_effect() && self.has_changes(),
        }
    }

    /// Whether it may have changed files that could not be recorded: it cannot be undone.
    pub fn is_unrecorded(&self) -> bool {
        let is_own = matches!(
            self.kind,
            StepKind::Undo { .. }
                | StepKind::Redo { .. }
                | StepKind::RollBackRun { .. }
                | StepKind::Checkpoint { .. }
                | StepKind::Finish { .. }
        );
        !is_own
            && self.before.is_some()
            && self.delta.is_none()
            && matches!(self.outcome, StepOutcome::Failed { .. })
    }

    /// The steps that it reverses, newest first; empty unless it is an undo, a redo or the roll
    /// back of a run.
    pub fn reverses(&self) -> Vec<StepId> {
        match &self.kind {
            StepKind::Undo { of, also, .. } => std::iter::once(of).chain(also).copied().collect(),
            StepKind::Redo { of, .. } => vec![*of],
            StepKind::RollBackRun { steps, .. } => steps.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether it is a completed undo, redo or roll back of a run.
    pub fn counts_as_reversal(&self) -> bool {
        matches!(
            self.kind,
            StepKind::Undo { .. } | StepKind::Redo { .. } | StepKind::RollBackRun { .. }
        ) && match &self.outcome {
            StepOutcome::Committed { .. } | StepOutcome::Kept { .. } => true,
            // The files were restored; only the commit failed.
            StepOutcome::Failed { .. } => self.has_changes(),
            // The user had already discarded the changes. The undo counts, so that the next one
            // goes further back.
            StepOutcome::NoChanges => self.status == Some(StepStatus::Succeeded),
            StepOutcome::Open | StepOutcome::RolledBack { .. } => false,
        }
    }
}
