//! Whether pushed commits may land: checks on a server, where runs are known only by their logs.
//!
//! The checks are the usual ones on less data: only the log and the pushed commits are read. The
//! other commits of a run may be pushed later or never, so they are not required.

use std::collections::{BTreeMap, BTreeSet};

use super::{Verification, VerificationFinding, Verifier, read_log};
use crate::audit::error::AuditError;
use crate::audit::fate::{ClaimFate, Fates};
use crate::audit::history::{History, RunRecord, StepOutcome};
use crate::audit::trail;
use crate::checkpoint::message::{CommitOrigin, Trailers, origin};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::{Claim, CommitFacts};
use crate::checkpoint::repository::Repository;
use crate::checkpoint::trail::limit::TrailBudget;
use crate::journal::{KnownEnds, RunId, StepId};
use crate::problem::Code;

/// Why the log ending at `tip` cannot be accepted.
pub fn judge_log(
    repository: &Repository,
    run: RunId,
    tip: ObjectId,
    budget: &TrailBudget,
) -> Option<VerificationFinding> {
    match read_log(repository, run, tip, budget) {
        Ok((end, record)) => end.finding(&record),
        Err(found) => Some(*found),
    }
}

/// Finds the commits that claim to be checkpoints and are not, and why.
///
/// `pushed` has the new tips of the logs in the same push.
pub fn judge_landing(
    repository: &Repository,
    pushed: &BTreeMap<RunId, ObjectId>,
    commits: &[ObjectId],
) -> Result<Vec<(ObjectId, VerificationFinding)>, AuditError> {
    let mut refused = Vec::new();
    let mut claims: Vec<(RunId, Claim, CommitFacts)> = Vec::new();
    for commit in commits {
        let Some(facts) = repository.find_commit(*commit)? else {
            continue;
        };
        let invalid =
            |message: String| VerificationFinding::new(Code::TrailerMismatch, None, None, message);
        match origin(&facts.message) {
            CommitOrigin::None => {}
            CommitOrigin::Invalid(why) => refused.push((*commit, invalid(why.to_owned()))),
            CommitOrigin::Step(trailers) => match trailers.run.parse() {
                Ok(run) => claims.push((
                    run,
                    Claim {
                        commit: *commit,
                        trailers,
                    },
                    facts,
                )),
                Err(_) => refused.push((
                    *commit,
                    invalid("`Piton-Run` is not the name of a run".to_owned()),
                )),
            },
        }
    }
    if claims.is_empty() {
        return Ok(refused);
    }
    let mut logs: BTreeMap<RunId, ObjectId> = trail::list(repository)?.into_iter().collect();
    logs.extend(pushed);
    let named: BTreeSet<RunId> = claims.iter().map(|(run, ..)| *run).collect();
    let (history, broken) = load(repository, &logs, &|run| named.contains(&run));
    let mut verifier = Verifier::of_logs(repository, &history)?;
    let mut strangers = Vec::new();
    for (run, claim, facts) in claims {
        let found = match (logs.contains_key(&run), broken.get(&run), history.run(run)) {
            (true, None, Some(record)) => match verifier.judge(record, &claim, &facts)? {
                CommitKnown::Yes => std::mem::take(&mut verifier.found.breaks)
                    .into_iter()
                    .next(),
                CommitKnown::No => {
                    strangers.push((run, claim, facts));
                    continue;
                }
            },
            (_, Some(found), _) => Some(found.clone()),
            _ => {
                let message = format!("the log of run `{run}` is not here");
                Some(VerificationFinding::new(
                    Code::LogMissing,
                    Some(run),
                    None,
                    message,
                ))
            }
        };
        refused.extend(found.map(|found| (claim.commit, found)));
    }
    if strangers.is_empty() {
        return Ok(refused);
    }
    // These commits may repeat the changes of known ones. Any run may have recorded a rewrite or an
    // acceptance.
    let (history, broken) = load(repository, &logs, &|_| true);
    let fates = Fates::of_logs(repository, &history)?;
    for (run, claim, facts) in strangers {
        let Trailers { step, .. } = &claim.trailers;
        let found = match fates.judge_claim(&claim, &facts)? {
            ClaimFate::Holds(_) | ClaimFate::Copy(_) | ClaimFate::Accepted(..) => continue,
            ClaimFate::Changed(id, why) => {
                let message = format!("it is not what step `{id}` has recorded: {why}");
                VerificationFinding::new(Code::Rewritten, Some(run), Some(id), message)
            }
            ClaimFate::Unknown | ClaimFate::Told(_) => {
                let number = step
                    .split(' ')
                    .next()
                    .and_then(|number| number.parse().ok());
                let id = number.map(|step| StepId { run, step });
                if let Some(id) = id
                    && fates
                        .acceptance_of(id, claim.commit, Some(&facts))?
                        .is_some()
                {
                    continue;
                }
                let message =
                    format!("run `{run}` does not know it as the checkpoint of its step `{step}`");
                let unread = broken
                    .values()
                    .find(|found| found.code == Code::LogTooLarge);
                match unread {
                    // One of these logs may explain the commit.
                    Some(unread) => unread.clone(),
                    None => VerificationFinding::new(Code::NotRecorded, Some(run), id, message),
                }
            }
        };
        refused.push((claim.commit, found));
    }
    Ok(refused)
}

/// Whether a run knows a commit.
enum CommitKnown {
    Yes,
    No,
}

impl<'a> Verifier<'a> {
    /// For commits that are in no branch yet.
    fn of_logs(repository: &'a Repository, history: &'a History) -> Result<Self, AuditError> {
        Ok(Self {
            repository,
            history,
            runs: BTreeMap::new(),
            fates: Fates::of_logs(repository, history)?,
            dropped: BTreeSet::new(),
            logs: BTreeMap::new(),
            key: None,
            ends: KnownEnds::default(),
            unauthenticated: 0,
            of_other_users: 0,
            found: Verification::default(),
        })
    }

    /// Compares a commit with the decisions of its run.
    fn judge(
        &mut self,
        run: &RunRecord,
        claim: &Claim,
        facts: &CommitFacts,
    ) -> Result<CommitKnown, AuditError> {
        if let Some(step) = run.steps.iter().find(|step| step.decided_on(run.id, claim)) {
            // A decision that was not carried out made no commit.
            if let StepOutcome::Committed {
                commit, message, ..
            } = &step.outcome
            {
                self.commit(run, step, *commit, message, facts)?;
                return Ok(CommitKnown::Yes);
            }
        }
        Ok(
            if run.steps.iter().any(|step| self.is_hand_made(step, claim)) {
                CommitKnown::Yes
            } else {
                CommitKnown::No
            },
        )
    }
}

/// The runs described by logs, and the findings for logs that cannot be trusted.
fn load(
    repository: &Repository,
    logs: &BTreeMap<RunId, ObjectId>,
    wanted: &dyn Fn(RunId) -> bool,
) -> (History, BTreeMap<RunId, VerificationFinding>) {
    let budget = TrailBudget::default();
    let (mut history, mut broken) = (History::default(), BTreeMap::new());
    for (run, tip) in logs.iter().rev().filter(|(run, _)| wanted(**run)) {
        match read_log(repository, *run, *tip, &budget) {
            Ok((end, record)) => match end.finding(&record) {
                None => history.runs.push(record),
                Some(found) => drop(broken.insert(*run, found)),
            },
            Err(found) => drop(broken.insert(*run, *found)),
        }
    }
    (history, broken)
}
