//! Everything that was recorded about a project, for whoever looks back or takes a run up again.
//!
//! [`Past`] is read once and answers what front doors ask: which run is meant by a name, how far it is, what it
//! waits for. Nothing here changes anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use super::directive::{self, HUMAN_ACTION, Waiting};
use super::error::{RunError, way_on_in};
use super::remainder::{Left, left_here};
use super::review::{Review, review};
use super::session::{Session, open_repository};
use super::situation::{self, Holders, Life, Situation};
use super::worktree::WorktreeError;
use crate::audit::fate::{Fates, Reading};
use crate::audit::history::{History, RunRecord, Source, StepRecord};
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

/// Everything that was recorded about a project.
pub struct Past {
    /// Every run.
    pub history: History,
    /// The steps that were undone.
    pub undone: BTreeSet<StepId>,
    /// None where runs happened without git.
    pub repository: Option<Repository>,
    /// Why a journal could not be read.
    pub unreadable: Vec<JournalError>,
    /// Steps whose changes were left on disk and are not there any more, or are in HEAD.
    pub settled: BTreeSet<StepId>,
    /// The commits of checkpoints that hold the changes of earlier steps.
    covered: BTreeMap<StepId, ObjectId>,
    /// Who is at work in the worktrees.
    holders: Holders,
    /// The work tree of the caller, as journals name it.
    here: String,
}

/// How far a run is.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The run.
    pub run_id: RunId,
    /// The directive, as `id@version`.
    pub directive: Option<String>,
    /// How it ended, or that it waits; none when it was cut off.
    pub status: Option<RunStatus>,
    /// What it waits for.
    pub waiting: Option<ReportedWait>,
    /// Whether it is at work, where, and at which step.
    #[serde(flatten)]
    pub situation: Situation,
    /// Its steps so far.
    pub steps: Vec<ReportedStep>,
}

/// What a run waits for, with the way on.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedWait {
    /// The number of the step.
    pub step: u32,
    /// Its name.
    pub name: String,
    /// Whom, and for what.
    pub wait: Wait,
    /// What to type to go on.
    pub next: String,
    /// What an approval would commit, from the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
}

/// A step of a run, in few words.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedStep {
    /// Its number.
    pub step: u32,
    /// Its name.
    pub name: String,
    /// How it ended; none while it runs or waits.
    pub status: Option<StepStatus>,
}

impl Past {
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
        let covered =
            steps.filter(|step| !undone.contains(&step.id)).filter_map(|step| match (&step.kind, step.commit()) {
                (StepKind::Checkpoint { covers }, Some(commit)) => Some(covers.iter().map(move |step| (*step, commit))),
                _ => None,
            });
        let covered = covered.flatten().collect();
        let is_done = |step: &&StepRecord| step.status == Some(StepStatus::Succeeded);
        let steps = history.runs.iter().flat_map(|run| &run.steps);
        let settled = steps.filter(is_done).flat_map(|step| step.dropped.iter().copied()).collect();
        let holders = Holders::of(ctx, repository.as_ref());
        let top = repository.as_ref().map_or(ctx.root.as_path(), Repository::top);
        let here = top.to_string_lossy().into_owned();
        Ok(Self { history, undone, repository, unreadable, settled, covered, holders, here })
    }

    /// What an approval of the step that a run waits in would commit; none where the files cannot be read.
    pub fn review(&self, ctx: &Context, run: RunId) -> Option<Review> {
        review(ctx, &self.history, self.history.run(run)?).ok().flatten()
    }

    /// Finds out which steps left nothing behind that is still to be committed.
    pub fn look_at_disk(&mut self, ctx: &Context) -> Result<Left, RunError> {
        let left = left_here(ctx, &self.history)?;
        self.settled.extend(left.dropped.iter().copied());
        Ok(left)
    }

    /// How a run stands, and where.
    pub fn situation(&self, run: &RunRecord) -> Situation {
        Situation::of(run, &self.holders, &self.here)
    }

    /// Runs that are not over and belong to this repository, newest first.
    pub fn open_runs(&self) -> impl Iterator<Item = (&RunRecord, Situation)> {
        let of_repository = self.history.runs.iter().filter(|run| run.source == Source::Journal);
        let with_situation = of_repository.map(|run| (run, self.situation(run)));
        with_situation.filter(|(_, situation)| situation.life != Life::Ended)
    }

    /// Refuses a run whose next step takes edits that were made in another work tree than the caller's.
    pub fn require_here(&self, run: RunId) -> Result<(), RunError> {
        let Some(record) = self.history.run(run) else { return Ok(()) };
        let takes_edits = match waiting_in(record).map(|waiting| waiting.wait) {
            Some(Wait::Work { .. }) => true,
            Some(Wait::Person { gate, .. }) => gate == HUMAN_ACTION,
            _ => false,
        };
        if takes_edits { situation::require_here(record, &self.here) } else { Ok(()) }
    }

    /// The repository, for what makes no sense without.
    pub fn git(&self, ctx: &Context) -> Result<&Repository, RunError> {
        let none = || RunError::from(CheckpointError::NoRepository(ctx.root.clone()));
        self.repository.as_ref().ok_or_else(none)
    }

    /// The work tree of this project, as journals name it.
    pub fn root(&self, ctx: &Context) -> String {
        let top = self.repository.as_ref().map_or(ctx.root.as_path(), Repository::top);
        top.to_string_lossy().into_owned()
    }

    /// What became of the commits of checkpoints; none without a repository.
    pub fn fates(&self) -> Result<Option<Fates<'_>>, RunError> {
        let repository = self.repository.as_ref();
        let fates = repository.map(|repository| Fates::find(repository, &self.history, Reading::IfNeeded));
        Ok(fates.transpose()?)
    }

    /// The commit of a later checkpoint that holds the changes of a step.
    pub fn commit_covering(&self, step: StepId) -> Option<ObjectId> {
        self.covered.get(&step).copied()
    }

    /// The run that a name, or the beginning of one, means, and the project that it runs in.
    pub fn find_run(&self, ctx: &Context, name: &str) -> Result<(RunId, Context), RunError> {
        let runs: Vec<RunId> = self.history.runs.iter().map(|run| run.id).collect();
        let id = reference::find_run(&runs, name)?;
        let root = self.history.run(id).map(|run| run.root.clone()).unwrap_or_default();
        // A run in a worktree of its own is taken up there, wherever it is named.
        let is_elsewhere = root != self.root(ctx) && Path::new(&root).is_dir();
        let inside = ctx.root.strip_prefix(self.root(ctx)).unwrap_or(Path::new(""));
        let folder = if is_elsewhere { Path::new(&root).join(inside) } else { ctx.cwd.clone() };
        Ok((id, ctx.moved_to(&folder).map_err(WorktreeError::Context)?))
    }

    /// The run that is at work in this worktree, or the run of a directive that is not finished here.
    pub fn run_here(&self, ctx: &Context) -> Result<Option<RunId>, RunError> {
        if let Some(waiting) = directive::unfinished(ctx)? {
            return Ok(Some(waiting.run));
        }
        let mut open = self.open_runs().filter(|(_, situation)| situation.is_here);
        Ok(open.find(|(_, situation)| situation.life == Life::Running).map(|(run, _)| run.id))
    }

    /// How far a run is.
    pub fn report(&self, run: RunId) -> Result<Report, RunError> {
        let record = self.history.run(run).ok_or(JournalError::NoRun(run))?;
        let waiting = waiting_in(record).map(|waiting| ReportedWait {
            review: None,
            next: way_on_in(&waiting, self.situation(record).elsewhere()).to_string(),
            step: waiting.step,
            name: waiting.name,
            wait: waiting.wait,
        });
        let told =
            |step: &StepRecord| ReportedStep { step: step.id.step, name: step.name.clone(), status: step.status };
        Ok(Report {
            run_id: run,
            directive: record.directive.clone(),
            status: record.status(),
            waiting,
            situation: self.situation(record),
            steps: record.steps.iter().map(told).collect(),
        })
    }
}

impl Report {
    /// With what an approval would commit.
    #[must_use]
    pub fn with_review(mut self, review: Option<Review>) -> Self {
        if let Some(waiting) = &mut self.waiting {
            waiting.review = review;
        }
        self
    }
}

/// What a run waits for.
pub fn waiting_in(record: &RunRecord) -> Option<Waiting> {
    let open = record.steps.last().filter(|step| step.status.is_none())?;
    let wait = open.wait.clone()?;
    Some(Waiting { run: record.id, step: open.id.step, name: open.name.clone(), wait })
}

/// The run that is not finished here, and the project that it runs in.
pub fn run_here(ctx: &Context) -> Result<(RunId, Context), RunError> {
    let waiting = directive::unfinished(ctx)?.ok_or(RunError::NothingWaits)?;
    Ok((waiting.run, ctx.moved_to(&ctx.cwd).map_err(WorktreeError::Context)?))
}

/// Whether a process is at work on a run in the project, as far as can be told without touching anything.
pub fn is_running(ctx: &Context, run: RunId) -> bool {
    lock::current_holder(&Session::folders_of(ctx).own).is_some_and(|holder| holder.run == run)
}

/// Paths as they were typed, relative to the current folder, as paths of the repository.
pub fn repo_paths(ctx: &Context, paths: &[OsString]) -> Result<Vec<RepoPath>, RunError> {
    // A project without git has no paths to name, and is served all the same.
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

/// As [`repo_paths`], for paths that are on disk or in the last commit.
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
