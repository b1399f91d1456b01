//! What people call a step: `RUN/N`, a run with one step, a commit, or the beginning of those.
//!
//! Where git knows names of its own (`HEAD~2`, a branch), they mean the commit they mean to git. Trailers of a commit
//! (`Piton-Run: …`, `Piton-Step: 2 build`) are names as well: they are what people copy from `git log`.

use std::borrow::Cow;

use super::fate;
use super::history::{History, RunRecord, StepRecord};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::journal::{RunId, StepId};

/// The files at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What it is called.
    pub name: String,
    /// The files.
    pub tree: ObjectId,
}

/// A step, or a run as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// One step.
    Step(StepId),
    /// A run of a directive, or one that has not exactly one step.
    Run(RunId),
}

/// Why a name does not lead to a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing has that name.
    #[error("there is no step, run or commit `{0}`")]
    Unknown(String),
    /// Several things have that name.
    #[error("`{name}` may be {}", .found.join(" or "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// What it may be.
        found: Vec<String>,
    },
    /// It is a commit, and none that piton made.
    #[error("`{0}` is a commit that no step of piton made")]
    NotOurs(String),
    /// The step was not committed.
    #[error("step `{0}` has no commit")]
    NoCommit(String),
    /// The step ran without checkpoints.
    #[error("step `{0}` has no snapshots")]
    NoSnapshot(String),
    /// The snapshots of the step were dropped.
    #[error("the snapshots of step `{0}` are not kept any more")]
    SnapshotDropped(String),
}

/// The shortest beginning of a name that is looked for.
const SHORTEST: usize = 4;

/// Finds the step that a name means.
pub fn find_step(history: &History, name: &str) -> Result<StepId, ReferenceError> {
    let name = &*without_keys(name);
    let found = if let Some((run, step)) = name.split_once('/') {
        // A trailer says `2 build`: the number, and what the step is called.
        let (number, called) = step.split_once(' ').map_or((step, None), |(number, called)| (number, Some(called)));
        steps(history, |step| {
            (run.is_empty() || step.id.run.matches_prefix(run))
                && number.parse() == Ok(step.id.step)
                && called.is_none_or(|called| called == step.name)
        })
    } else {
        let by_run = steps(history, |step| step.id.run.matches_prefix(name));
        let by_commit = steps(history, |step| {
            !step.is_fast_forward()
                && step.commit().is_some_and(|commit| commit.to_string().starts_with(&name.to_lowercase()))
        });
        if by_run.is_empty() { by_commit } else { by_run }
    };
    match found.as_slice() {
        [step] if name.len() >= SHORTEST => Ok(*step),
        [] => Err(ReferenceError::Unknown(name.to_owned())),
        _ if name.len() < SHORTEST => Err(ReferenceError::Unknown(name.to_owned())),
        several => Err(ReferenceError::Ambiguous {
            name: name.to_owned(),
            found: several.iter().take(5).map(|step| format!("`{step}`")).collect(),
        }),
    }
}

/// Finds the step or run that a name means; `git` knows names of commits.
pub fn find_named(history: &History, git: Option<&Repository>, name: &str) -> Result<Named, ReferenceError> {
    let runs: Vec<RunId> = history.runs.iter().map(|run| run.id).collect();
    let run = find_run(&runs, name).ok().and_then(|run| history.run(run));
    if let Some(run) = run.filter(|run| run.directive.is_some() || run.steps.len() != 1) {
        return Ok(Named::Run(run.id));
    }
    let step = match git {
        Some(git) => find_step_or_commit(history, git, name),
        None => find_step(history, name),
    };
    step.map(Named::Step)
}

/// Finds the run that a name means.
pub fn find_run(runs: &[RunId], name: &str) -> Result<RunId, ReferenceError> {
    let name = &*without_keys(name);
    let found: Vec<RunId> = runs.iter().copied().filter(|run| run.matches_prefix(name)).collect();
    match found.as_slice() {
        [run] if name.len() >= SHORTEST => Ok(*run),
        [] => Err(ReferenceError::Unknown(name.to_owned())),
        _ if name.len() < SHORTEST => Err(ReferenceError::Unknown(name.to_owned())),
        several => Err(ReferenceError::Ambiguous {
            name: name.to_owned(),
            found: several.iter().take(5).map(|run| format!("`{run}`")).collect(),
        }),
    }
}

/// Finds the step that a name means, or that made the commit which the name means to git.
pub fn find_step_or_commit(history: &History, git: &Repository, name: &str) -> Result<StepId, ReferenceError> {
    match find_step(history, name) {
        Err(ReferenceError::Unknown(_)) => {
            let commit = git.find_named(name).ok_or_else(|| ReferenceError::Unknown(name.to_owned()))?;
            let found = find_step(history, &commit.to_string()).ok().or_else(|| history.step_behind(commit));
            let found = found.or_else(|| fate::step_in(git, history, commit).ok().flatten());
            found.ok_or_else(|| ReferenceError::NotOurs(name.to_owned()))
        }
        found => found,
    }
}

/// Finds the commit that a name means: that of a step, or git's.
pub fn find_commit(history: &History, git: &Repository, name: &str) -> Result<ObjectId, ReferenceError> {
    match find_step(history, name) {
        Ok(id) => {
            let step = history.step(id);
            let commit = step.and_then(|step| fate::commit_today(git, history, step).ok().flatten());
            commit.ok_or_else(|| ReferenceError::NoCommit(id.to_string()))
        }
        Err(ReferenceError::Unknown(_)) => git.find_named(name).ok_or_else(|| ReferenceError::Unknown(name.to_owned())),
        Err(err) => Err(err),
    }
}

/// Finds the files that a name means: after a step, before it (`STEP:before`), or of a commit.
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
            return Ok(Moment { name: commit.short(), tree: facts.tree });
        }
        Err(err) => return Err(err.into()),
    };
    let record = history.step(id).ok_or_else(|| ReferenceError::Unknown(name.to_owned()))?;
    // What changed nothing left things as they were.
    let snapshot = if is_before { record.before.as_ref() } else { record.after.as_ref().or(record.before.as_ref()) };
    let snapshot = snapshot.ok_or_else(|| ReferenceError::NoSnapshot(id.to_string()))?;
    if !git.has_object(snapshot.tree)? {
        return Err(ReferenceError::SnapshotDropped(id.to_string()).into());
    }
    let when = if is_before { "before" } else { "after" };
    Ok(Moment { name: format!("{when} {id}"), tree: snapshot.tree })
}

/// Why a name does not lead to files.
#[derive(Debug, thiserror::Error)]
pub enum MomentError {
    /// The name means nothing, or several things.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The repository cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl RunRecord {
    /// The shortest beginning of its name, of at least eight letters, that no other run has.
    pub fn short_id(&self, history: &History) -> String {
        let name = self.id.to_string();
        let is_unique = |length: &usize| {
            let start = name.get(..*length).unwrap_or(&name);
            history.runs.iter().filter(|run| run.id.matches_prefix(start)).count() < 2
        };
        let length = (8..name.len()).find(is_unique).unwrap_or(name.len());
        name.chars().take(length).collect()
    }
}

/// A name without the keys of trailers: lines such as `Piton-Run: RUN` and `Piton-Step: 2 build` become `RUN/2 build`.
fn without_keys(name: &str) -> Cow<'_, str> {
    let value = |key: &str| {
        let mut lines = name.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    };
    match (value("Piton-Run"), value("Piton-Step"), value("Piton-Undoes")) {
        (Some(run), Some(step), _) => Cow::Owned(format!("{run}/{step}")),
        (Some(run), None, _) => Cow::Borrowed(run),
        (None, Some(step), _) => Cow::Owned(format!("/{step}")),
        (None, None, Some(commit)) => Cow::Borrowed(commit),
        (None, None, None) => Cow::Borrowed(name),
    }
}

fn steps(history: &History, fits: impl Fn(&StepRecord) -> bool) -> Vec<StepId> {
    history.runs.iter().flat_map(|run| &run.steps).filter(|step| fits(step)).map(|step| step.id).collect()
}
