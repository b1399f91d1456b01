//! Commits that say they belong to a run: whether it made them, or let them be made.

use std::collections::BTreeSet;

use super::rewriting::Replacement;
use super::{Code, Scope, Verifier, difference, wrong_trailer};
use crate::audit::error::AuditError;
use crate::audit::history::{Outcome, RunRecord, StepRecord};
use crate::checkpoint::delta::Change;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::{Claim, CommitFacts};
use crate::journal::event::Decision;
use crate::journal::{RunId, StepId};

impl Verifier<'_> {
    /// Without a decision the step made its commits itself. Whoever drops a decision from a journal says just that,
    /// so it is not believed: piton's own commits name their run, and those of others are where they are said to be.
    pub(super) fn adopted(
        &mut self,
        run: &RunRecord,
        step: &StepRecord,
        commit: ObjectId,
        facts: &CommitFacts,
    ) -> Result<(), AuditError> {
        let short = commit.short();
        let is_of_this_run = Trailers::find(&facts.message).is_some_and(|found| found.run == run.id.to_string());
        // A step may also pick a commit of an earlier one.
        if step.adopted.last() != Some(&commit)
            || (is_of_this_run
                && !self.is_by_hand(run, commit, facts)
                && self.copied_from(run.id, &run.steps, commit)?.is_none())
        {
            let text = format!("commit {short} was recorded, and nothing says that it was decided");
            self.step_broken(Code::JournalInconsistent, step, text);
            return Ok(());
        }
        let Some(before) = &step.before else { return Ok(()) };
        // In a clone that was cut short nothing can be said.
        if let Ok(found) = self.repository.commits_between(before.head.commit, Some(commit))
            && found.iter().collect::<BTreeSet<_>>() != step.adopted.iter().collect()
        {
            let text = format!("the commits up to {short} are not those that the step is said to have made");
            self.step_broken(Code::CommitMismatch, step, text);
        }
        let changes = step.delta.as_ref().map(|delta| delta.changes.as_slice()).unwrap_or_default();
        let sum = |count: fn(&Change) -> u64| changes.iter().map(count).sum::<u64>();
        let counted = (changes.len() as u64, sum(|change| change.insertions), sum(|change| change.deletions));
        if let Outcome::Committed { files_changed, insertions, deletions, .. } = &step.outcome
            && (*files_changed, *insertions, *deletions) != counted
        {
            let text = format!("commit {short} was recorded with other numbers than those of the recorded changes");
            self.step_broken(Code::JournalInconsistent, step, text);
        }
        Ok(())
    }

    /// Commits in history that say they are checkpoints, and what the journals say to that.
    pub(super) fn claims(&mut self, runs: &BTreeSet<RunId>, scope: &Scope) -> Result<(), AuditError> {
        let mut unknown = BTreeSet::new();
        for claim in self.repository.claims(&self.reachable)? {
            let run = claim.trailers.run.parse::<RunId>().ok();
            if scope.leaves_out(run) {
                continue;
            }
            let Some(run) = run.filter(|run| runs.contains(run)) else {
                unknown.insert(claim.trailers.run.clone());
                continue;
            };
            let steps = self.history.run(run).map(|run| run.steps.as_slice()).unwrap_or_default();
            if steps.iter().any(|step| step.decided_on(run, &claim) || self.is_hand_made(step, &claim)) {
                continue;
            }
            let short = claim.commit.short();
            match self.replacement(steps, &claim)? {
                Replacement::None => {}
                Replacement::Same => continue,
                Replacement::Changed(step, why) => {
                    // Where the step's own commit is gone, that was told already.
                    if !self.found.breaks.iter().any(|found| found.step == Some(step)) {
                        let text = format!("commit {short} has taken the place of its checkpoint: {why}");
                        self.broken(Code::Rewritten, Some(run), Some(step), text);
                    }
                    continue;
                }
            }
            let is_recorded = steps.iter().any(|step| step.commit() == Some(claim.commit));
            if is_recorded && self.found.breaks.iter().any(|found| found.run == Some(run)) {
                // It is told already what is wrong with the run.
            } else if let Some(step) = self.copied_from(run, steps, claim.commit)? {
                self.found.notes.push(format!("commit {short} is a copy of the checkpoint of `{step}`"));
            } else if is_recorded {
                let text = format!("commit {short} was recorded, and nothing says that it was decided");
                self.broken(Code::JournalInconsistent, Some(run), None, text);
            } else {
                let text = format!("commit {short} says it is a checkpoint of this run, which does not know it");
                self.broken(Code::NotRecorded, Some(run), None, text);
            }
        }
        if let (Some(first), Scope::All | Scope::WorkTree(_)) = (unknown.first(), scope) {
            let more = if unknown.len() > 1 { format!(" and {} more runs", unknown.len() - 1) } else { String::new() };
            self.found.notes.push(format!(
                "history has commits of run `{first}`{more}, whose journal is not here; `piton fetch REMOTE` may bring its log"
            ));
        }
        Ok(())
    }

    /// The step whose commit another one repeats: same trailers, same changes (cherry-pick, rebase).
    pub(super) fn copied_from(
        &self,
        run: RunId,
        steps: &[StepRecord],
        commit: ObjectId,
    ) -> Result<Option<StepId>, AuditError> {
        let Some(facts) = self.repository.find_commit(commit)? else { return Ok(None) };
        for step in steps {
            let Some(Decision::Commit { delta, .. }) = &step.decision else { continue };
            if wrong_trailer(run, step, &facts.message).is_some() {
                continue;
            }
            let base = match facts.parents.first() {
                Some(parent) => self.repository.find_commit(*parent)?.map(|facts| facts.tree),
                None => Some(ObjectId::EMPTY_TREE),
            };
            let Some(base) = base else { continue };
            let touched: BTreeSet<_> =
                self.repository.differences(base, facts.tree)?.into_iter().map(|(path, ..)| path).collect();
            // On another base the contents may differ, but never which files it is about.
            if touched.iter().eq(delta.iter().map(|change| &change.path).collect::<BTreeSet<_>>()) {
                return Ok(Some(step.id));
            }
        }
        Ok(None)
    }

    fn is_by_hand(&self, run: &RunRecord, commit: ObjectId, facts: &CommitFacts) -> bool {
        let Some(trailers) = Trailers::find(&facts.message) else { return false };
        let claim = Claim { commit, trailers };
        run.steps.iter().any(|step| self.is_hand_made(step, &claim))
    }

    /// Whether a commit that names a step was made with git itself while that was at work: it names the journal as it
    /// was then, and it is among the commits by which HEAD moved meanwhile.
    pub(super) fn is_hand_made(&self, step: &StepRecord, claim: &Claim) -> bool {
        let Trailers { run, step: name, journal, .. } = &claim.trailers;
        let is_of_step = *run == step.id.run.to_string() && *name == format!("{} {}", step.id.step, step.name);
        if !is_of_step || !step.heads.iter().any(|head| head.to_string() == *journal) {
            return false;
        }
        let before = step.before.as_ref().and_then(|before| before.head.commit);
        match &step.after {
            Some(after) => self
                .repository
                .commits_between(before, after.head.commit)
                .is_ok_and(|made| made.contains(&claim.commit)),
            // It is not known yet where HEAD will be.
            None => step.status.is_none() && before.is_none_or(|before| self.repository.leads_to(claim.commit, before)),
        }
    }
}

impl StepRecord {
    /// Whether a commit that says it is a checkpoint of a run is the one that was decided on in this step, where the
    /// journal stood as the commit says.
    pub(super) fn decided_on(&self, run: RunId, claim: &Claim) -> bool {
        let is_decided = matches!(&self.decision, Some(Decision::Commit { new, .. }) if *new == claim.commit);
        is_decided && difference(run, self, &claim.trailers).is_none()
    }
}
