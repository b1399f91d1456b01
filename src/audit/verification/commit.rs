//! Compares the commit of a step with its record.

use super::Verifier;
use crate::audit::error::AuditError;
use crate::audit::history::{RunRecord, StepRecord};
use crate::checkpoint::delta::Change;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::{CommitFacts, FileDifference};
use crate::journal::RunId;
use crate::journal::event::Decision;
use crate::problem::Code;

impl Verifier<'_> {
    pub(super) fn commit(
        &mut self,
        run: &RunRecord,
        step: &StepRecord,
        commit: ObjectId,
        message: &str,
        facts: &CommitFacts,
    ) -> Result<(), AuditError> {
        if facts.message != message {
            let text = format!(
                "commit {} has another message than the recorded one",
                commit.short()
            );
            self.step_broken(Code::CommitMismatch, step, text);
        }
        let Some(Decision::Commit {
            old,
            new,
            tree,
            delta,
            parents,
            ..
        }) = &step.decision
        else {
            return self.adopted(run, step, commit, facts);
        };
        if *new != commit {
            let text = format!(
                "commit {} was recorded, but {} was decided",
                commit.short(),
                new.short()
            );
            self.step_broken(Code::JournalInconsistent, step, text);
            return Ok(());
        }
        // The commits of a fast-forward were made, and are verified, in another step.
        let is_made_here = !step.is_fast_forward();
        let parents = parents
            .clone()
            .unwrap_or_else(|| old.iter().copied().collect());
        if (is_made_here && facts.parents != parents) || facts.tree != *tree {
            let text = format!(
                "commit {} has another parent or tree than the recorded one",
                commit.short()
            );
            self.step_broken(Code::CommitMismatch, step, text);
        }
        self.changes(step, commit, (&parents, delta), facts)?;
        if let Some(wrong) = wrong_trailer(run.id, step, &facts.message).filter(|_| is_made_here) {
            self.step_broken(
                Code::TrailerMismatch,
                step,
                format!("commit {}: {wrong}", commit.short()),
            );
        }
        Ok(())
    }

    /// Checks that a commit is its parent and the recorded changes.
    fn changes(
        &mut self,
        step: &StepRecord,
        commit: ObjectId,
        (parents, delta): (&[ObjectId], &[Change]),
        facts: &CommitFacts,
    ) -> Result<(), AuditError> {
        let base = match parents.first() {
            None => Some(self.repository.empty_tree()),
            Some(old) => self.repository.find_commit(*old)?.map(|facts| facts.tree),
        };
        if let Some(base) = base {
            let found = self.repository.differences(base, facts.tree)?;
            // After `git replace`, git builds the commit on the replacement of its parent. piton
            // follows git here.
            let shown = match parents.first() {
                Some(parent) if !same(&found, delta) => {
                    self.repository.substituted_tree(*parent)?
                }
                _ => None,
            };
            let is_built_on_shown = match shown {
                Some(shown) => same(&self.repository.differences(shown, facts.tree)?, delta),
                None => false,
            };
            if is_built_on_shown {
                let text = format!(
                    "commit {} is built on what git shows in the place of its parent (refs/replace)",
                    commit.short()
                );
                self.found.notes.push(text);
            } else if !same(&found, delta) {
                let path = first_difference(&found, delta);
                let text = format!(
                    "commit {} is not its parent and the recorded changes: `{path}`",
                    commit.short()
                );
                self.step_broken(Code::CommitMismatch, step, text);
            }
        }
        Ok(())
    }
}

/// What is wrong with the trailers of a commit.
fn wrong_trailer(run: RunId, step: &StepRecord, message: &str) -> Option<String> {
    match Trailers::find(message) {
        Some(trailers) => difference(run, step, &trailers),
        None => Some("it has no trailers of piton".to_owned()),
    }
}

pub(super) fn difference(run: RunId, step: &StepRecord, trailers: &Trailers) -> Option<String> {
    let journal = step
        .decided_after
        .map(|digest| digest.to_string())
        .unwrap_or_default();
    let expected = [
        ("Piton-Run", &trailers.run, run.to_string()),
        (
            "Piton-Step",
            &trailers.step,
            format!("{} {}", step.id.step, step.name),
        ),
        ("Piton-Journal", &trailers.journal, journal),
    ];
    let (name, found, wanted) = expected
        .into_iter()
        .find(|(_, found, wanted)| *found != wanted)?;
    Some(format!("`{name}` is `{found}` and not `{wanted}`"))
}

pub(super) fn same(found: &[FileDifference], recorded: &[Change]) -> bool {
    found.len() == recorded.len()
        && found
            .iter()
            .zip(recorded)
            .all(|(found, recorded)| is_same(found, recorded))
}

fn is_same((path, before, after): &FileDifference, recorded: &Change) -> bool {
    (path, before, after) == (&recorded.path, &recorded.before, &recorded.after)
}

pub(super) fn first_difference(found: &[FileDifference], recorded: &[Change]) -> String {
    let differs = found
        .iter()
        .zip(recorded)
        .find(|(found, recorded)| !is_same(found, recorded));
    let longer = found.get(recorded.len()).map(|(path, ..)| path);
    let path = differs
        .map(|(found, recorded)| (&found.0).min(&recorded.path))
        .or(longer)
        .or_else(|| recorded.get(found.len()).map(|change| &change.path));
    path.map(ToString::to_string).unwrap_or_default()
}
