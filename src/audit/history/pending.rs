//! Which steps have changes on disk that no checkpoint of piton holds.

use std::collections::BTreeSet;

use super::{History, StepOutcome, StepRecord};
use crate::journal::event::StepKind;
use crate::journal::summary::StepStatus;

impl History {
    /// The steps of a work tree whose changes were left on disk and are in no commit of piton,
    /// oldest first. The user may have changed them since; compare with the disk and HEAD.
    pub fn pending<'a>(&'a self, root: &'a str) -> Vec<&'a StepRecord> {
        let undone = self.undone();
        let mut covered = BTreeSet::new();
        let mut pending = Vec::new();
        for step in self.steps_in(root) {
            if step.status == Some(StepStatus::Succeeded) {
                covered.extend(step.dropped.iter().copied());
            }
            match &step.kind {
                StepKind::Checkpoint { covers }
                    if step.commit().is_some() && !undone.contains(&step.id) =>
                {
                    covered.extend(covers.iter().copied());
                }
                // The roll back removed everything that was on disk.
                StepKind::RollBack { .. } if step.took_effect() && !undone.contains(&step.id) => {
                    break;
                }
                StepKind::Checkpoint { .. }
                | StepKind::RollBack { .. }
                | StepKind::RollBackRun { .. } => {}
                // The commit of this undo failed, so its changes are pending like those of any
                // step.
                StepKind::Undo { commit, .. } | StepKind::Redo { commit, .. }
                    if commit.is_none() || !matches!(step.outcome, StepOutcome::Failed { .. }) => {}
                _ if undone.contains(&step.id) || covered.contains(&step.id) => {}
                _ if step
                    .delta
                    .as_ref()
                    .is_some_and(|delta| !delta.changes.is_empty())
                    && matches!(
                        step.outcome,
                        StepOutcome::Kept { .. } | StepOutcome::Failed { .. }
                    ) =>
                {
                    pending.push(step);
                }
                _ => {}
            }
        }
        pending.reverse();
        pending
    }
}
