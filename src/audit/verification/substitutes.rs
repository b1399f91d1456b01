//! Objects that git replaces by others (`git replace`, grafts): for checkpoints this is a break.
//!
//! piton reads the stored objects. If git shows others in their place, `git log` shows something
//! else than what was verified.

use std::collections::BTreeSet;

use super::{VerificationFinding, VerificationScope, Verifier};
use crate::audit::error::AuditError;
use crate::audit::history::StepRecord;
use crate::checkpoint::object::ObjectId;
use crate::journal::event::Decision;
use crate::problem::Code;

impl Verifier<'_> {
    /// Reports the objects that git replaces.
    pub(super) fn substitutes(&mut self, scope: &VerificationScope) -> Result<(), AuditError> {
        let found = self.repository.substitutions()?;
        if found.is_empty() {
            return Ok(());
        }
        let steps: Vec<&StepRecord> = self
            .history
            .runs
            .iter()
            .filter(|run| !scope.leaves_out(Some(run.id)))
            .flat_map(|run| &run.steps)
            .filter(|step| step.commit().is_some())
            .collect();
        let mut others = BTreeSet::new();
        for substitution in &found {
            let (object, place) = (substitution.object, substitution.by.place());
            let Some(step) = steps.iter().find(|step| step.is_made_of(object)) else {
                others.insert(place);
                continue;
            };
            let short = object.short();
            let message = format!(
                "git shows another object in the place of {short}, which its checkpoint is made of ({place})"
            );
            self.found.breaks.push(VerificationFinding::new(
                Code::Replaced,
                Some(step.id.run),
                Some(step.id),
                message,
            ));
        }
        if !others.is_empty()
            && !matches!(
                scope,
                VerificationScope::Run(_) | VerificationScope::Runs(_)
            )
        {
            let places: Vec<&str> = others.into_iter().collect();
            self.found.notes.push(format!(
                "git shows other objects in the place of some that no checkpoint is made of ({})",
                places.join(", ")
            ));
        }
        Ok(())
    }
}

impl StepRecord {
    /// Whether an object is its commit, the tree of that, or a file that it changed.
    fn is_made_of(&self, object: ObjectId) -> bool {
        let decided = match &self.decision {
            Some(Decision::Commit { tree, delta, .. }) => {
                let mut entries = delta
                    .iter()
                    .flat_map(|change| [change.before, change.after])
                    .flatten();
                *tree == object || entries.any(|entry| entry.id == object)
            }
            _ => false,
        };
        decided || self.commit() == Some(object) || self.adopted.contains(&object)
    }
}
