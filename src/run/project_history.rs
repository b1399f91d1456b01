//! The records of a project, for commands that look back or resume a run.
//!
//! [`ProjectHistory`] is read once and answers the questions of the front doors: which run a name means, how
//! far the run got, what it waits for. This module changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use super::belonging;
use super::directive::{self, HUMAN_ACTION, Waiting};
use super::error::{RunError, way_on_in};
use super::linked_worktree::WorktreeError;
use super::remainder::{Left, left_here};
use super::review::{Review, review};
use super::situation::{self, Holders, Life, Situation};
use crate::audit::fate::{BranchReading, Fates};
use crate::audit::history::{History, RecordSource, RunRecord, StepRecord};
use crate::audit::reference;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::journal::event::{StepKind, Wait};
use crate::journal::lock;
use crate::journal::summary::{RunStatus, StepStatus};
use crate::journal::{JournalError, RunId, StepId};
use crate::workspace::{RunFolders, open_repository};

/// The records of a project.
pub struct ProjectHistory {
    pub history: History,
    /// The undone steps.
    pub undone: BTreeSet<StepId>,
    /// `None` in a project without git.
    pub repository: Option<Repository>,
    /// The errors of unreadable journals.
    pub unreadable: Vec<JournalError>,
    /// Steps whose uncommitted changes are now in HEAD or gone.
    pub settled: BTreeSet<StepId>,
    /// The commits of later checkpoints that hold the changes of steps.
    covered: BTreeMap<StepId, ObjectId>,
    /// The lock holders of the worktrees.
    holders: Holders,
    /// The work tree of the caller, as written in journals.
    here: String,
}

/// The progress of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    pub run_id: RunId,
    /// The directive, as `id@version`.
    pub directive: Option<String>,
    /// The status, also `waiting`; `None` if the run was interrupted.
    pub status: Option<RunStatus>,
    pub waiting: Option<ReportedWait>,
    /// Whether it is running, where, and at which step.
    #[serde(flatten)]
    pub situation: Situation,
    pub steps: Vec<ReportedStep>,
}

/// What a run waits for, and how to continue.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedWait {
    pub step: u32,
    pub name: String,
    /// Who has to act, and how.
    pub wait: Wait,
    /// The command that continues the run.
    pub next: String,
    /// What an approval would commit, read from disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
}

/// A short description of a step.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedStep {
    pub step: u32,
    pub name: String,
    /// The status; `None` while it runs or waits.
    pub status: Option<StepStatus>,
}

impl ProjectHistory {
    /// Reads every journal of the project.
    pub fn load(ctx: &Context) -> Result<Self, RunError> {
        let repository = match open_repository(ctx) {
            Ok(repository) => Some(repository),
            Err(CheckpointError::NoRepository(_)) => None,
            Err(err) => return Err(err.into()),
        };
        let (history, unreadable) = match &repository {
            Some(repository) => History::load_all(repository)?,
            None => History::load(&ctx.state_folder().join("runs"))?,
        };
        let undone = history.undone();
        let steps = history.runs.iter().flat_map(|run| &run.steps);
        let covered = steps
            .filter(|step| !undone.contains(&step.id))
            .filter_map(|step| match (&step.kind, step.commit()) {
                (StepKind::Checkpoint { covers }, Some(commit)) => {
                    Some(covers.iter().map(move |step| (*step, commit)))
                }
                _ => None,
            });
        let covered = covered.flatten().collect();
        let is_done = |step: &&StepRecord| step.status == Some(StepStatus::Succeeded);
        let steps = history.runs.iter().flat_map(|run| &run.steps);
        let settled = steps
            .filter(is_done)
            .flat_map(|step| step.dropped.iter().copied())
            .collect();
        let holders = Holders::of(ctx, repository.as_ref());
        let top = repository
            .as_ref()
            .map_or(ctx.root.as_path(), Repository::top);
        let here = top.to_string_lossy().into_owned();
        Ok(Self {
            history,
            undone,
            repository,
            unreadable,
            settled,
            covered,
            holders,
            here,
        })
    }

    /// What an approval of the waiting step would commit; `None` if the files cannot be read.
    pub fn review(&self, ctx: &Context, run: RunId) -> Option<Review> {
        review(ctx, &self.history, self.history.run(run)?)
            .ok()
            .flatten()
    }

    /// Finds the steps whose changes are all committed or gone.
    pub fn look_at_disk(&mut self, ctx: &Context) -> Result<Left, RunError> {
        let left = left_here(ctx, &self.history)?;
        self.settled.extend(left.dropped.iter().copied());
        Ok(left)
    }

    /// The state and place of a run.
    pub fn situation(&self, run: &RunRecord) -> Situation {
        Situation::of(run, &self.holders, &self.here)
    }

    /// Runs of this repository that have not ended, newest first.
    pub fn open_runs(&self) -> impl Iterator<Item = (&RunRecord, Situation)> {
        let of_repository = self
            .history
            .runs
            .iter()
            .filter(|run| run.source == RecordSource::Journal);
        let with_situation = of_repository.map(|run| (run, self.situation(run)));
        with_situation.filter(|(_, situation)| situation.life != Life::Ended)
    }

    /// Refuses a run whose next step expects edits in another work tree than the caller's.
    pub fn require_here(&self, run: RunId) -> Result<(), RunError> {
        let Some(record) = self.history.run(run) else {
            return Ok(());
        };
        if let Some(repository) = &self.repository {
            belonging::require_own(repository, record)?;
        }
        let takes_edits = match waiting_in(record).map(|waiting| waiting.wait) {
            Some(Wait::Work { .. }) => true,
            Some(Wait::Person { gate, .. }) => gate == HUMAN_ACTION,
            _ => false,
        };
        if takes_edits {
            situation::require_here(record, &self.here)
        } else {
            Ok(())
        }
    }

    /// The repository, for commands that need one.
    pub fn git(&self, ctx: &Context) -> Result<&Repository, RunError> {
        let none = || RunError::from(CheckpointError::NoRepository(ctx.root.clone()));
        self.repository.as_ref().ok_or_else(none)
    }

    /// The work tree of this project, as written in journals.
    pub fn root(&self, ctx: &Context) -> String {
        let top = self
            .repository
            .as_ref()
            .map_or(ctx.root.as_path(), Repository::top);
        top.to_string_lossy().into_owned()
    }

    /// The fates of the commits of checkpoints; `None` without a repository.
    pub fn fates(&self) -> Result<Option<Fates<'_>>, RunError> {
        let repository = self.repository.as_ref();
        let fates = repository
            .map(|repository| Fates::find(repository, &self.history, BranchReading::IfNeeded));
        Ok(fates.transpose()?)
    }

    /// The commit of a later checkpoint that holds the changes of a step.
    pub fn commit_covering(&self, step: StepId) -> Option<ObjectId> {
        self.covered.get(&step).copied()
    }

    /// The run with this id or unique prefix, and its project.
    pub fn find_run(&self, ctx: &Context, name: &str) -> Result<(RunId, Context), RunError> {
        let runs: Vec<RunId> = self.history.runs.iter().map(|run| run.id).collect();
        let id = reference::find_run(&runs, name)?;
        let record = self.history.run(id);
        let root = record.map(|run| run.root.clone()).unwrap_or_default();
        // The worktree of a run in a copied repository is the one of the original.
        let is_own = match (&self.repository, record) {
            (Some(repository), Some(record)) => belonging::require_own(repository, record).is_ok(),
            _ => true,
        };
        // A run with its own worktree is resumed there, even if the caller is elsewhere.
        let is_elsewhere = is_own && root != self.root(ctx) && Path::new(&root).is_dir();
        let inside = ctx
            .root
            .strip_prefix(self.root(ctx))
            .unwrap_or(Path::new(""));
        let folder = if is_elsewhere {
            Path::new(&root).join(inside)
        } else {
            ctx.cwd.clone()
        };
        Ok((id, ctx.moved_to(&folder).map_err(WorktreeError::Context)?))
    }

    /// The active run in this worktree, or the unfinished run of a directive here.
    pub fn run_here(&self, ctx: &Context) -> Result<Option<RunId>, RunError> {
        if let Some(waiting) = directive::unfinished(ctx)? {
            return Ok(Some(waiting.run));
        }
        let mut open = self.open_runs().filter(|(_, situation)| situation.is_here);
        Ok(open
            .find(|(_, situation)| situation.life == Life::Running)
            .map(|(run, _)| run.id))
    }

    pub fn report(&self, run: RunId) -> Result<RunReport, RunError> {
        let record = self.history.run(run).ok_or(JournalError::NoRun(run))?;
        let waiting = waiting_in(record).map(|waiting| ReportedWait {
            review: None,
            next: way_on_in(&waiting, self.situation(record).elsewhere()).to_string(),
            step: waiting.step,
            name: waiting.name,
            wait: waiting.wait,
        });
        let told = |step: &StepRecord| ReportedStep {
            step: step.id.step,
            name: step.name.clone(),
            status: step.status,
        };
        Ok(RunReport {
            run_id: run,
            directive: record.directive.clone(),
            status: record.status(),
            waiting,
            situation: self.situation(record),
            steps: record.steps.iter().map(told).collect(),
        })
    }
}

impl RunReport {
    /// Adds what an approval would commit.
    #[must_use]
    pub fn with_review(mut self, review: Option<Review>) -> Self {
        if let Some(waiting) = &mut self.waiting {
            waiting.review = review;
        }
        self
    }
}

pub fn waiting_in(record: &RunRecord) -> Option<Waiting> {
    let open = record.steps.last().filter(|step| step.status.is_none())?;
    let wait = open.wait.clone()?;
    Some(Waiting {
        run: record.id,
        step: open.id.step,
        name: open.name.clone(),
        wait,
    })
}

/// The unfinished run in this worktree, and its project.
pub fn run_here(ctx: &Context) -> Result<(RunId, Context), RunError> {
    let waiting = directive::unfinished(ctx)?.ok_or(RunError::NothingWaits)?;
    Ok((
        waiting.run,
        ctx.moved_to(&ctx.cwd).map_err(WorktreeError::Context)?,
    ))
}

/// Whether a process is working on a run, as far as this can be known without side effects.
pub fn is_running(ctx: &Context, run: RunId) -> bool {
    lock::current_holder(&RunFolders::of_project(ctx).own).is_some_and(|holder| holder.run == run)
}

/// Converts typed paths, relative to the current folder, to repository paths.
pub fn repo_paths(ctx: &Context, paths: &[OsString]) -> Result<Vec<RepoPath>, RunError> {
    // Without git there are no repository paths, and an empty list is valid.
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let repository = open_repository(ctx)?;
    let below = |path: &OsString| {
        RepoPath::find_below(repository.top(), &ctx.cwd.join(path))
            .ok_or_else(|| RunError::OutsidePath(path.to_string_lossy().into_owned()))
    };
    paths.iter().map(below).collect()
}

/// As [`repo_paths`], for paths that exist on disk or in the last commit.
pub fn existing_paths(ctx: &Context, paths: &[OsString]) -> Result<Vec<RepoPath>, RunError> {
    let repository = open_repository(ctx)?;
    let found = repo_paths(ctx, paths)?;
    for (path, typed) in found.iter().zip(paths) {
        if !repository.has_path(path)? {
            return Err(RunError::NoSuchPath(typed.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}
