//! Writing down that a person accepts what became of a checkpoint, in a journal of its own.
//!
//! Only what `piton verify` reports as rewritten can be accepted, and only as it is now: another commit in the same
//! place is a new break. The MCP server has no way in here, because its client is an agent and not the person.

use super::error::RunError;
use super::rewrite;
use super::session::{Session, refuse_inside};
use crate::audit::history::{History, StepRecord};
use crate::audit::reference::{self, ReferenceError};
use crate::audit::verification::{self, Finding, Scope};
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::journal::event::{Acceptance, AcceptedCommit, Event};
use crate::journal::{RunId, StepId};
use crate::problem::{Code, Explain, Hint};

/// Why nothing was accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptanceError {
    /// The checkpoint verifies.
    #[error("there is nothing to accept: step `{0}` verifies")]
    NothingToAccept(StepId),
    /// What is wrong with it is not that history was rewritten.
    #[error("step `{step}` is broken in another way, which cannot be accepted: {message} [{code}]")]
    NotRewritten {
        /// The step.
        step: StepId,
        /// The code of what is wrong.
        code: Code,
        /// What is wrong.
        message: String,
    },
    /// The reason is empty.
    #[error("the reason is empty")]
    NoReason,
}

impl Explain for AcceptanceError {
    fn code(&self) -> Code {
        match self {
            Self::NothingToAccept(_) => Code::NothingToAccept,
            Self::NotRewritten { .. } => Code::NotAcceptable,
            Self::NoReason => Code::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NothingToAccept(_) => "`piton verify --all` lists what does not verify".into(),
            Self::NotRewritten { step, .. } => {
                format!("`piton verify {}` says more; only `REWRITTEN` and `NOT_RECORDED` can be accepted", step.run)
                    .into()
            }
            Self::NoReason => "say why with `--reason TEXT`: later verifications show it with your name".into(),
        })
    }
}

/// What was accepted, and the run that recorded it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Accepted {
    /// The run.
    pub run_id: RunId,
    /// What was accepted, one entry for each step.
    pub accepted: Vec<Acceptance>,
}

/// Accepts what became of the checkpoints of some steps. Either all of them are accepted or none.
pub fn accept(ctx: &Context, names: &[String], reason: &str) -> Result<Accepted, RunError> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(AcceptanceError::NoReason.into());
    }
    let repository = super::session::open_repository(ctx)?;
    // A tool that a run starts is not the person.
    refuse_inside(ctx, &Session::folders_of(ctx).own)?;
    let (history, _) = History::load_all(&repository)?;
    let by = repository.person(ctx.environment.variables(), ctx.now())?;
    let steps: Vec<StepId> =
        names.iter().map(|name| find_step(&history, &repository, name)).collect::<Result<_, _>>()?;
    let runs = steps.iter().map(|step| step.run).collect();
    let found = verification::verify(&repository, &Scope::Runs(runs))?;
    let mut accepted = Vec::new();
    for of in steps {
        let commits = acceptable(of, &found.breaks)?;
        accepted.push(Acceptance {
            of,
            commit: history.step(of).and_then(StepRecord::commit),
            instead: contents(&repository, &commits)?,
            by: by.clone(),
            channel: "terminal".to_owned(),
            at: ctx.now(),
            reason: reason.to_owned(),
        });
    }
    let mut command = vec!["piton".to_owned(), "verify".to_owned()];
    command.extend(names.iter().flat_map(|name| ["--accept".to_owned(), name.clone()]));
    command.extend(["--reason".to_owned(), reason.to_owned()]);
    let events = accepted.iter().cloned().map(Event::Accepted).collect();
    let run_id = rewrite::write(ctx, &repository, "accept", command, events)?;
    Ok(Accepted { run_id, accepted })
}

/// The step that a name means, or that a commit names in its trailers, whether rightly or not.
fn find_step(history: &History, repository: &Repository, name: &str) -> Result<StepId, RunError> {
    let err = match reference::find_step_or_commit(history, repository, name) {
        Ok(step) => return Ok(step),
        Err(err @ ReferenceError::NotOurs(_)) => err,
        Err(err) => return Err(err.into()),
    };
    let Some(commit) = repository.find_named(name) else { return Err(err.into()) };
    let facts = repository.find_commit(commit)?;
    let trailers = facts.and_then(|facts| Trailers::find(&facts.message));
    let named = trailers.and_then(|trailers| {
        let step = trailers.step.split(' ').next()?.parse().ok()?;
        Some(StepId { run: trailers.run.parse().ok()?, step })
    });
    named.filter(|id| history.step(*id).is_some()).ok_or_else(|| err.into())
}

/// The commits that stand in the place of a step's own, if that is what is wrong with it.
fn acceptable(step: StepId, breaks: &[Finding]) -> Result<Vec<ObjectId>, AcceptanceError> {
    let of_step = || breaks.iter().filter(|found| found.step == Some(step));
    let is_acceptable = |found: &&Finding| matches!(found.code, Code::Rewritten | Code::NotRecorded);
    if let Some(other) = of_step().find(|found| !is_acceptable(found)) {
        let (code, message) = (other.code, other.message.clone());
        return Err(AcceptanceError::NotRewritten { step, code, message });
    }
    if of_step().next().is_none() {
        return Err(AcceptanceError::NothingToAccept(step));
    }
    Ok(of_step().flat_map(|found| found.commits.iter().copied()).collect())
}

fn contents(repository: &Repository, commits: &[ObjectId]) -> Result<Vec<AcceptedCommit>, RunError> {
    let mut found = Vec::new();
    for commit in commits {
        let Some(facts) = repository.find_commit(*commit)? else { continue };
        let delta = repository.changes(repository.base_of(&facts)?, facts.tree)?;
        found.push(AcceptedCommit { commit: *commit, tree: facts.tree, delta });
    }
    Ok(found)
}
