//! Commits that claim to belong to a run: whether it made them or allowed them.

use std::collections::BTreeSet;

use super::commit::difference;
use super::{VerificationFinding, VerificationScope, Verifier};
use crate::audit::error::AuditError;
use crate::audit::fate::ClaimFate;
use crate::audit::history::{RunRecord, StepOutcome, StepRecord};
use crate::checkpoint::delta::Change;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::{Claim, CommitFacts};
use crate::journal::event::{Acceptance, Decision};
use crate::journal::{RunId, StepId};
use crate::problem::Code;

impl Verifier<'_> {
    /// Checks a step without a recorded decision, which must have made its commits itself. A
    /// journal with a removed decision looks the same, so it is not trusted: piton's own commits
    /// name their run, and commits by others must be where the journal says.
    pub(super) fn adopted(
        &mut self,
        run: &RunRecord,
        step: &StepRecord,
        commit: ObjectId,
        facts: &CommitFacts,
    ) -> Result<(), AuditError> {
        let short = commit.short();
        let is_of_this_run =
            Trailers::find(&facts.message).is_some_and(|found| found.run == run.id.to_string());
        // A step may also cherry-pick a commit of an earlier one.
        if step.adopted.last() != Some(&commit)
            || (is_of_this_run
                && !self.is_by_hand(run, commit, facts)
                && !self.is_copy(commit, facts)?)
        {
            let text = format!("commit {short} was recorded, and nothing says that it was decided");
            self.step_broken(Code::JournalInconsistent, step, text);
            return Ok(());
        }
        let Some(before) = &step.before else {
            return Ok(());
        };
        // In a shallow clone this cannot be checked.
        if let Ok(found) = self
            .repository
            .commits_between(before.head.commit, Some(commit))
            && found.iter().collect::<BTreeSet<_>>() != step.adopted.iter().collect()
        {
            let text = format!(
                "the commits up to {short} are not those that the step is said to have made"
            );
            self.step_broken(Code::CommitMismatch, step, text);
        }
        let changes = step
            .delta
            .as_ref()
            .map(|delta| delta.changes.as_slice())
            .unwrap_or_default();
        let sum = |count: fn(&Change) -> u64| changes.iter().map(count).sum::<u64>();
        let counted = (
            changes.len() as u64,
            sum(|change| change.insertions),
            sum(|change| change.deletions),
        );
        if let StepOutcome::Committed {
            files_changed,
            insertions,
            deletions,
            ..
        } = &step.outcome
            && (*files_changed, *insertions, *deletions) != counted
        {
            let text = format!(
                "commit {short} was recorded with other numbers than those of the recorded changes"
            );
            self.step_broken(Code::JournalInconsistent, step, text);
        }
        Ok(())
    }

    /// Compares the commits in history that claim to be checkpoints with the journals.
    pub(super) fn claims(
        &mut self,
        runs: &BTreeSet<RunId>,
        scope: &VerificationScope,
    ) -> Result<(), AuditError> {
        let (mut unknown, mut commits) = (BTreeSet::new(), 0);
        for claim in self.fates.claims().to_vec() {
            let run = claim.trailers.run.parse::<RunId>().ok();
            if scope.leaves_out(run) {
                continue;
            }
            if let Some(run) = run.filter(|run| runs.contains(run)) {
                self.claim(run, &claim)?;
            } else {
                commits += 1;
                unknown.insert(claim.trailers.run);
            }
        }
        if let (Some(first), VerificationScope::All | VerificationScope::WorkTree(_)) =
            (unknown.first(), scope)
        {
            let count = |number: usize, what: &str| {
                format!("{number} {what}{}", if number == 1 { "" } else { "s" })
            };
            let message = format!(
                "{} of {} whose journals and logs are not here, the first of run `{first}`",
                count(commits, "checkpoint"),
                count(unknown.len(), "run"),
            );
            self.broken(Code::LogMissing, first.parse().ok(), None, message);
        }
        Ok(())
    }

    fn claim(&mut self, run: RunId, claim: &Claim) -> Result<(), AuditError> {
        let steps = self
            .runs
            .get(&run)
            .copied()
            .map(|run| run.steps.as_slice())
            .unwrap_or_default();
        // Steps are numbered from 1. Check the named step first, because most commits are what they
        // claim.
        let number = claim
            .trailers
            .step
            .split(' ')
            .next()
            .and_then(|number| number.parse::<u32>().ok());
        let named = number.and_then(|number| steps.get((number as usize).checked_sub(1)?));
        if named.is_some_and(|step| step.decided_on(run, claim))
            || steps
                .iter()
                .any(|step| step.decided_on(run, claim) || self.is_hand_made(step, claim))
        {
            return Ok(());
        }
        let short = claim.commit.short();
        let is_recorded = steps.iter().any(|step| step.commit() == Some(claim.commit));
        if is_recorded && self.found.breaks.iter().any(|found| found.run == Some(run)) {
            // The problem of this run is already reported.
            return Ok(());
        }
        let Some(facts) = self.repository.find_commit(claim.commit)? else {
            return Ok(());
        };
        let (code, step, message) = match self.fates.judge_claim(claim, &facts)? {
            ClaimFate::Holds(_) | ClaimFate::Told(_) => return Ok(()),
            ClaimFate::Copy(step) => {
                self.found.notes.push(format!(
                    "commit {short} is a copy of the checkpoint of `{step}`"
                ));
                return Ok(());
            }
            ClaimFate::Accepted(step, accepted) => {
                self.note_accepted(claim.commit, step, &accepted);
                return Ok(());
            }
            ClaimFate::Changed(step, why) => (
                Code::Rewritten,
                Some(step),
                format!("commit {short} names this step as where it comes from: {why}"),
            ),
            ClaimFate::Unknown if is_recorded => {
                let text =
                    format!("commit {short} was recorded, and nothing says that it was decided");
                (Code::JournalInconsistent, None, text)
            }
            ClaimFate::Unknown => {
                let step = number
                    .map(|step| StepId { run, step })
                    .filter(|id| steps.iter().any(|it| it.id == *id));
                if let Some(step) = step
                    && let Some(accepted) =
                        self.fates.acceptance_of(step, claim.commit, Some(&facts))?
                {
                    self.note_accepted(claim.commit, step, accepted);
                    return Ok(());
                }
                let text = format!(
                    "commit {short} says it is a checkpoint of this run, which does not know it"
                );
                (Code::NotRecorded, step, text)
            }
        };
        let found = VerificationFinding::new(code, Some(run), step, message);
        self.found.breaks.push(VerificationFinding {
            commits: vec![claim.commit],
            ..found
        });
        Ok(())
    }

    fn note_accepted(&mut self, commit: ObjectId, step: StepId, accepted: &Acceptance) {
        let Acceptance { by, at, reason, .. } = accepted;
        let short = commit.short();
        let note = format!(
            "commit {short} names `{step}` and is not its checkpoint; {by} accepted that at {at}: {reason}"
        );
        self.found.notes.push(note);
    }

    /// Whether a commit repeats the checkpoint that it names (cherry-pick, rebase).
    fn is_copy(&self, commit: ObjectId, facts: &CommitFacts) -> Result<bool, AuditError> {
        let Some(trailers) = Trailers::find(&facts.message) else {
            return Ok(false);
        };
        let found = self.fates.judge_claim(&Claim { commit, trailers }, facts)?;
        Ok(matches!(found, ClaimFate::Copy(_) | ClaimFate::Holds(_)))
    }

    fn is_by_hand(&self, run: &RunRecord, commit: ObjectId, facts: &CommitFacts) -> bool {
        let Some(trailers) = Trailers::find(&facts.message) else {
            return false;
        };
        let claim = Claim { commit, trailers };
        run.steps.iter().any(|step| self.is_hand_made(step, &claim))
    }

    /// Whether a commit that names a step was made by hand during that step: it names a journal
    /// head of that time, and HEAD moved over it meanwhile.
    pub(super) fn is_hand_made(&self, step: &StepRecord, claim: &Claim) -> bool {
        let Trailers {
            run,
            step: name,
            journal,
            ..
        } = &claim.trailers;
        let is_of_step =
            *run == step.id.run.to_string() && *name == format!("{} {}", step.id.step, step.name);
        if !is_of_step || !step.heads.iter().any(|head| head.to_string() == *journal) {
            return false;
        }
        let before = step.before.as_ref().and_then(|before| before.head.commit);
        match &step.after {
            Some(after) => self
                .repository
                .commits_between(before, after.head.commit)
                .is_ok_and(|made| made.contains(&claim.commit)),
            // The step is still open, so the final HEAD is unknown.
            None => {
                step.status.is_none()
                    && before.is_none_or(|before| self.repository.leads_to(claim.commit, before))
            }
        }
    }
}

impl StepRecord {
    /// Whether a claimed checkpoint is the commit that this step decided on, with the journal head
    /// that the commit names.
    pub(super) fn decided_on(&self, run: RunId, claim: &Claim) -> bool {
        let is_decided =
            matches!(&self.decision, Some(Decision::Commit { new, .. }) if *new == claim.commit);
        is_decided && difference(run, self, &claim.trailers).is_none()
    }
}
