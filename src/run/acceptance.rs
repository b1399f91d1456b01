//! Records that a person accepts a rewritten checkpoint, in a journal of its own.
//!
//! Only a checkpoint that `piton verify` reports as rewritten can be accepted, and only in its
//! current form: another commit in the same place is a new break. The MCP server offers no way to
//! accept, because its client is an agent and not the person.

use super::error::RunError;
use super::rewrite;
use super::worktree_lock::refuse_inside;
use crate::audit::history::{History, StepRecord};
use crate::audit::reference::{self, ReferenceError};
use crate::audit::verification::{self, VerificationFinding, VerificationScope};
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::journal::event::{Acceptance, AcceptedCommit, Event};
use crate::journal::{RunId, StepId};
use crate::problem::{Code, Explain, Hint};
use crate::workspace::{RunFolders, key_file};

/// Why a checkpoint was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptanceError {
    /// The checkpoint verifies.
    #[error("there is nothing to accept: step `{0}` verifies")]
    NothingToAccept(StepId),
    /// The problem is not a rewritten history.
    #[error("step `{step}` is broken in another way, which cannot be accepted: {message} [{code}]")]
    NotRewritten {
        step: StepId,
        /// The code of the problem.
        code: Code,
        message: String,
    },
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
            Self::NothingToAccept(_) => "`piton verify --all` lists failed checks".into(),
            Self::NotRewritten { step, .. } => format!(
                "`piton verify {}` has details; only `REWRITTEN` and `NOT_RECORDED` can be accepted",
                step.run
            )
            .into(),
            Self::NoReason => {
                "add `--reason TEXT`; later verifications show it with your name".into()
            }
        })
    }
}

/// The accepted checkpoints, and the run that recorded them.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Accepted {
    pub run_id: RunId,
    /// One entry per step.
    pub accepted: Vec<Acceptance>,
}

/// Accepts the rewritten checkpoints of the given steps: all of them or none.
pub fn accept(ctx: &Context, names: &[String], reason: &str) -> Result<Accepted, RunError> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(AcceptanceError::NoReason.into());
    }
    let repository = crate::workspace::open_repository(ctx)?;
    let channel = ctx.principal.channel().ok_or(RunError::PersonNeeded)?;
    // A tool that runs inside a run must not accept in the user's name.
    refuse_inside(ctx, &RunFolders::of_project(ctx).own)?;
    let (history, _) = History::load_all(&repository)?;
    let by = repository.person(ctx.environment.variables(), ctx.now())?;
    let steps: Vec<StepId> = names
        .iter()
        .map(|name| find_step(&history, &repository, name))
        .collect::<Result<_, _>>()?;
    let runs = steps.iter().map(|step| step.run).collect();
    let key = key_file(ctx).read()?;
    let scope = VerificationScope::Runs(runs);
    let found = verification::verify(&repository, &scope, key.as_ref())?;
    let mut accepted = Vec::new();
    for of in steps {
        let commits = acceptable(of, &found.breaks)?;
        accepted.push(Acceptance {
            of,
            commit: history.step(of).and_then(StepRecord::commit),
            instead: contents(&repository, &commits)?,
            by: by.clone(),
            channel: channel.as_str().to_owned(),
            at: ctx.now(),
            reason: reason.to_owned(),
        });
    }
    let mut command = vec!["piton".to_owned(), "verify".to_owned()];
    command.extend(
        names
            .iter()
            .flat_map(|name| ["--accept".to_owned(), name.clone()]),
    );
    command.extend(["--reason".to_owned(), reason.to_owned()]);
    let events = accepted.iter().cloned().map(Event::Accepted).collect();
    let run_id = rewrite::write(ctx, &repository, "accept", command, events)?;
    Ok(Accepted { run_id, accepted })
}

/// The step with this name, or the step that a commit names in its trailers (the trailers may be
/// wrong).
fn find_step(history: &History, repository: &Repository, name: &str) -> Result<StepId, RunError> {
    let err = match reference::find_step_or_commit(history, repository, name) {
        Ok(step) => return Ok(step),
        Err(err @ ReferenceError::NotOurs(_)) => err,
        Err(err) => return Err(err.into()),
    };
    let Some(commit) = repository.find_named(name) else {
        return Err(err.into());
    };
    let facts = repository.find_commit(commit)?;
    let trailers = facts.and_then(|facts| Trailers::find(&facts.message));
    let named = trailers.and_then(|trailers| {
        let step = trailers.step.split(' ').next()?.parse().ok()?;
        Some(StepId {
            run: trailers.run.parse().ok()?,
            step,
        })
    });
    named
        .filter(|id| history.step(*id).is_some())
        .ok_or_else(|| err.into())
}

/// The commits that replaced the commit of a step, if a replacement is the problem.
fn acceptable(
    step: StepId,
    breaks: &[VerificationFinding],
) -> Result<Vec<ObjectId>, AcceptanceError> {
    let of_step = || breaks.iter().filter(|found| found.step == Some(step));
    let is_acceptable =
        |found: &&VerificationFinding| matches!(found.code, Code::Rewritten | Code::NotRecorded);
    if let Some(other) = of_step().find(|found| !is_acceptable(found)) {
        let (code, message) = (other.code, other.message.clone());
        return Err(AcceptanceError::NotRewritten {
            step,
            code,
            message,
        });
    }
    if of_step().next().is_none() {
        return Err(AcceptanceError::NothingToAccept(step));
    }
    Ok(of_step()
        .flat_map(|found| found.commits.iter().copied())
        .collect())
}

fn contents(
    repository: &Repository,
    commits: &[ObjectId],
) -> Result<Vec<AcceptedCommit>, RunError> {
    let mut found = Vec::new();
    for commit in commits {
        let Some(facts) = repository.find_commit(*commit)? else {
            continue;
        };
        let delta = repository.changes(repository.base_of(&facts)?, facts.tree)?;
        found.push(AcceptedCommit {
            commit: *commit,
            tree: facts.tree,
            delta,
        });
    }
    Ok(found)
}
