//! Checkpoints whose commits git has replaced, with a record of it.
//!
//! A record is no excuse by itself: the commit in the place of another has to be what was recorded, and to make the
//! same changes, on whatever base. Where content to compare is not here, the record is believed, as it is in all else.

use std::collections::BTreeSet;

use super::{Code, Verifier, same};
use crate::audit::error::AuditError;
use crate::audit::history::StepRecord;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::Claim;
use crate::checkpoint::rewriting::Likeness;
use crate::journal::event::{Decision, RewrittenCommit};
use crate::journal::{RunId, StepId};

/// What became of a commit.
pub(super) enum Fate {
    /// Nothing is recorded.
    Unknown,
    /// Another one has its place and makes the same changes.
    Replaced(ObjectId, RunId),
    /// Another one has its place and makes other changes.
    Changed(ObjectId, String),
}

/// What a commit that names a step is to it.
pub(super) enum Replacement {
    /// Nothing that is recorded.
    None,
    /// It has taken the place of the step's own commit and makes the same changes.
    Same,
    /// It has taken that place and makes other changes.
    Changed(StepId, String),
}

impl Verifier<'_> {
    /// What is recorded about a commit of a step that is in no branch any more.
    pub(super) fn fate(&self, step: &StepRecord, commit: ObjectId) -> Result<Fate, AuditError> {
        let mut fate = Fate::Unknown;
        let mut seen = BTreeSet::from([commit]);
        let mut next = vec![commit];
        while let Some(old) = next.pop() {
            for (by, link) in self.replacements().filter(|(_, link)| link.old == old && link.step == step.id) {
                if !seen.insert(link.new) {
                    continue;
                }
                next.push(link.new);
                if !self.reachable.contains(&link.new) {
                    continue;
                }
                match self.unlike(step, link)? {
                    None => return Ok(Fate::Replaced(link.new, by)),
                    Some(why) => fate = Fate::Changed(link.new, why),
                }
            }
        }
        Ok(fate)
    }

    /// Whether a commit that names a step has taken the place of that step's own, and as what.
    pub(super) fn replacement(&self, steps: &[StepRecord], claim: &Claim) -> Result<Replacement, AuditError> {
        let mut found = Replacement::None;
        for (_, link) in self.replacements().filter(|(_, link)| link.new == claim.commit) {
            let Some(step) = steps.iter().find(|step| step.id == link.step) else { continue };
            match self.unlike(step, link)? {
                None => return Ok(Replacement::Same),
                Some(why) => found = Replacement::Changed(step.id, why),
            }
        }
        Ok(found)
    }

    /// Every replacement that is recorded, and by which run.
    fn replacements(&self) -> impl Iterator<Item = (RunId, &RewrittenCommit)> {
        self.history.runs.iter().flat_map(|run| run.rewritten.iter().map(|link| (run.id, link)))
    }

    /// Why a commit is not what it took the place of.
    fn unlike(&self, step: &StepRecord, link: &RewrittenCommit) -> Result<Option<String>, AuditError> {
        let Some(facts) = self.repository.find_commit(link.new)? else { return Ok(Some("it is not here".to_owned())) };
        if Trailers::find(&facts.message).is_none_or(|found| found.run != step.id.run.to_string()) {
            return Ok(Some("it does not name its step any more".to_owned()));
        }
        if let Ok(base) = self.repository.base_of(&facts)
            && !same(&self.repository.differences(base, facts.tree)?, &link.delta)
        {
            return Ok(Some("it is not the one that was recorded".to_owned()));
        }
        let decided = match &step.decision {
            Some(Decision::Commit { delta, .. }) => Some(delta.as_slice()),
            _ => None,
        };
        let likeness = match decided {
            Some(delta) => self.repository.likeness(delta, &facts)?,
            None => Likeness::Unknown,
        };
        Ok(match likeness {
            Likeness::Same => None,
            Likeness::Other(path) => Some(format!("it changes something else: `{path}`")),
            Likeness::Unknown if link.same_changes => None,
            Likeness::Unknown => Some("it changes something else".to_owned()),
        })
    }

    /// Says what became of a commit that is in no branch any more; returns whether there is nothing more to say.
    pub(super) fn tell_fate(&mut self, step: &StepRecord, commit: ObjectId) -> Result<bool, AuditError> {
        let short = commit.short();
        match self.fate(step, commit)? {
            Fate::Unknown => return Ok(false),
            Fate::Replaced(new, by) => {
                let note =
                    format!("commit {short} of `{}` was rewritten as {} (recorded by `{by}`)", step.id, new.short());
                self.found.notes.push(note);
            }
            Fate::Changed(new, why) => {
                let text = format!("commit {short} was rewritten as {}: {why}", new.short());
                self.step_broken(Code::Rewritten, step, text);
            }
        }
        Ok(true)
    }
}
