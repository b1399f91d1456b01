//! Names for steps: `RUN/N`, a run with one step, a commit, or a prefix of those.
//!
//! Names that git knows (`HEAD~2`, a branch) mean git's commit. The trailers of a commit
//! (`Piton-Run: …`, `Piton-Step: 2 build`) are names as well, because users copy them from `git
//! log`.

use std::borrow::Cow;
use std::fmt;

use super::fate;
use super::history::{History, RunRecord, StepRecord};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::journal::{RunId, StepId};

/// The files at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub name: String,
    pub tree: ObjectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedRecord {
    Step(StepId),
    /// A run of a directive, or a run that does not have exactly one step.
    Run(RunId),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("there is no step, run or commit `{0}`")]
    Unknown(String),
    #[error("`{name}` may be {}", .found.join(" or "))]
    Ambiguous { name: String, found: Vec<String> },
    #[error("commit `{0}` was not made by a step of piton")]
    NotOurs(String),
    #[error("step `{0}` has no commit")]
    NoCommit(String),
    #[error("step `{0}` has no snapshots")]
    NoSnapshot(String),
    #[error("the snapshots of step `{0}` are no longer stored")]
    SnapshotDropped(String),
}

/// The shortest accepted prefix.
const SHORTEST: usize = 4;

pub fn find_step(history: &History, name: &str) -> Result<StepId, ReferenceError> {
    let name = &*without_keys(name);
    let found = if let Some((run, step)) = name.split_once('/') {
        // A trailer says `2 build`: the step's number and name.
        let (number, called) = step
            .split_once(' ')
            .map_or((step, None), |(number, called)| (number, Some(called)));
        steps(history, |step| {
            (run.is_empty() || step.id.run.matches_prefix(run))
                && number.parse() == Ok(step.id.step)
                && called.is_none_or(|called| called == step.name)
        })
    } else {
        let by_run = steps(history, |step| step.id.run.matches_prefix(name));
        let by_commit = steps(history, |step| {
            !step.is_fast_forward()
                && step
                    .commit()
                    .is_some_and(|commit| commit.to_string().starts_with(&name.to_lowercase()))
        });
        if by_run.is_empty() { by_commit } else { by_run }
    };
    the_only(name, &found)
}

/// What a name means, if it is long enough and means only one thing.
fn the_only<T: Copy + fmt::Display>(name: &str, found: &[T]) -> Result<T, ReferenceError> {
    match found {
        [only] if name.len() >= SHORTEST => Ok(*only),
        [_, _, ..] if name.len() >= SHORTEST => Err(ReferenceError::Ambiguous {
            name: name.to_owned(),
            found: found.iter().take(5).map(|it| format!("`{it}`")).collect(),
        }),
        _ => Err(ReferenceError::Unknown(name.to_owned())),
    }
}

/// Finds the step or run for a name; `git` resolves names of commits.
pub fn find_named(
    history: &History,
    git: Option<&Repository>,
    name: &str,
) -> Result<NamedRecord, ReferenceError> {
    let runs: Vec<RunId> = history.runs.iter().map(|run| run.id).collect();
    let run = find_run(&runs, name).ok().and_then(|run| history.run(run));
    if let Some(run) = run.filter(|run| run.directive.is_some() || run.steps.len() != 1) {
        return Ok(NamedRecord::Run(run.id));
    }
    let step = match git {
        Some(git) => find_step_or_commit(history, git, name),
        None => find_step(history, name),
    };
    step.map(NamedRecord::Step)
}

pub fn find_run(runs: &[RunId], name: &str) -> Result<RunId, ReferenceError> {
    let name = &*without_keys(name);
    let found: Vec<RunId> = runs
        .iter()
        .copied()
        .filter(|run| run.matches_prefix(name))
        .collect();
    the_only(name, &found)
}

/// Finds a step by its own name, or by a commit name that git resolves.
pub fn find_step_or_commit(
    history: &History,
    git: &Repository,
    name: &str,
) -> Result<StepId, ReferenceError> {
    match find_step(history, name) {
        Err(ReferenceError::Unknown(_)) => {
            let commit = git
                .find_named(name)
                .ok_or_else(|| ReferenceError::Unknown(name.to_owned()))?;
            let found = find_step(history, &commit.to_string())
                .ok()
                .or_else(|| history.step_behind(commit));
            let found = found.or_else(|| fate::step_in(git, history, commit).ok().flatten());
            found.ok_or_else(|| ReferenceError::NotOurs(name.to_owned()))
        }
        found => found,
    }
}

/// Finds a commit by the name of a step, or by a name that git resolves.
pub fn find_commit(
    history: &History,
    git: &Repository,
    name: &str,
) -> Result<ObjectId, ReferenceError> {
    match find_step(history, name) {
        Ok(id) => {
            let step = history.step(id);
            let commit =
                step.and_then(|step| fate::commit_today(git, history, step).ok().flatten());
            commit.ok_or_else(|| ReferenceError::NoCommit(id.to_string()))
        }
        Err(ReferenceError::Unknown(_)) => git
            .find_named(name)
            .ok_or_else(|| ReferenceError::Unknown(name.to_owned())),
        Err(err) => Err(err),
    }
}

/// Finds the files after a step, before it (`STEP:before`), or of a commit.
pub fn find_moment(history: &History, git: &Repository, name: &str) -> Result<Moment, MomentError> {
    let (step, is_before) = match name.strip_suffix(":before") {
        Some(step) => (step, true),
        None => (name.strip_suffix(":after").unwrap_or(name), false),
    };
    let id = match find_step(history, step) {
        Ok(id) => id,
        Err(ReferenceError::Unknown(_)) => {
            let unknown = || ReferenceError::Unknown(name.to_owned());
            let commit = git.find_named(name).ok_or_else(unknown)?;
            let facts = git.find_commit(commit)?.ok_or_else(unknown)?;
            return Ok(Moment {
                name: commit.short(),
                tree: facts.tree,
            });
        }
        Err(err) => return Err(err.into()),
    };
    let record = history
        .step(id)
        .ok_or_else(|| ReferenceError::Unknown(name.to_owned()))?;
    // A step that changed nothing has no snapshot after it.
    let snapshot = if is_before {
        record.before.as_ref()
    } else {
        record.after.as_ref().or(record.before.as_ref())
    };
    let snapshot = snapshot.ok_or_else(|| ReferenceError::NoSnapshot(id.to_string()))?;
    if !git.has_object(snapshot.tree)? {
        return Err(ReferenceError::SnapshotDropped(id.to_string()).into());
    }
    let when = if is_before { "before" } else { "after" };
    Ok(Moment {
        name: format!("{when} {id}"),
        tree: snapshot.tree,
    })
}

#[derive(Debug, thiserror::Error)]
pub enum MomentError {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl RunRecord {
    /// The shortest unique prefix of its id, at least eight characters.
    pub fn short_id(&self, history: &History) -> String {
        let name = self.id.to_string();
        let is_unique = |length: &usize| {
            let start = name.get(..*length).unwrap_or(&name);
            history
                .runs
                .iter()
                .filter(|run| run.id.matches_prefix(start))
                .count()
                < 2
        };
        let length = (8..name.len()).find(is_unique).unwrap_or(name.len());
        name.chars().take(length).collect()
    }
}

/// Strips trailer keys: `Piton-Run: RUN` and `Piton-Step: 2 build` become `RUN/2 build`.
fn without_keys(name: &str) -> Cow<'_, str> {
    let value = |key: &str| {
        let mut lines = name.lines().map(str::trim);
        lines
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .map(str::trim)
    };
    match (
        value("Piton-Run"),
        value("Piton-Step"),
        value("Piton-Undoes"),
    ) {
        (Some(run), Some(step), _) => Cow::Owned(format!("{run}/{step}")),
        (Some(run), None, _) => Cow::Borrowed(run),
        (None, Some(step), _) => Cow::Owned(format!("/{step}")),
        (None, None, Some(commit)) => Cow::Borrowed(commit),
        (None, None, None) => Cow::Borrowed(name),
    }
}

fn steps(history: &History, fits: impl Fn(&StepRecord) -> bool) -> Vec<StepId> {
    history
        .runs
        .iter()
        .flat_map(|run| &run.steps)
        .filter(|step| fits(step))
        .map(|step| step.id)
        .collect()
}
