//! Whether a run is running, waiting, interrupted or over, and where: for `status`, `log` and the
//! MCP server.
//!
//! A run is running if a live process holds the lock of its worktree in its name. [`Situation`] is
//! the type to read first; [`Holders`] reads the locks of all worktrees of the repository once.
//! This module changes nothing.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::error::RunError;
use crate::audit::history::{RecordSource, RunRecord};
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::journal::RunId;
use crate::journal::lock::{self, Holder};
use crate::journal::summary::RunStatus;
use crate::workspace::RunFolders;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// A process is working on it.
    Running,
    /// It waits for an agent, a person or a decision.
    Waiting,
    /// Its process is gone, and no end is recorded.
    Interrupted,
    Ended,
    /// Unknown: its process is on another machine, or only its log is known.
    Unknown,
}

/// The state of a run, and where it runs.
#[derive(Clone, Debug, Serialize)]
pub struct Situation {
    pub life: Life,
    /// Its work tree; empty if only its log is known.
    pub worktree: String,
    /// Whether that is the work tree of the caller.
    pub is_here: bool,
    /// Its branch, without `refs/heads/`; `None` if HEAD is detached or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The process that works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<RunProcess>,
    /// The current step; `None` if the run is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<RunPosition>,
}

/// A process that works on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunProcess {
    pub pid: u32,
    pub host: String,
    /// When it started to work on the run.
    pub since: Timestamp,
}

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunPosition {
    /// The step, e.g. `release/build[2]`.
    pub step: String,
    /// The number of that step in the outermost directive, from 1; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<usize>,
    /// How many steps the outermost directive has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<usize>,
}

/// The lock holder and the branch of each worktree of a repository.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    holders: Vec<Holder>,
    branches: Vec<(String, Option<String>)>,
}

impl Holders {
    /// Reads the locks of all worktrees; without a repository, that of the project.
    pub fn of(ctx: &Context, repository: Option<&Repository>) -> Self {
        let Some(repository) = repository else {
            let own = RunFolders::of_project(ctx).own;
            return Self {
                holders: lock::current_holder(&own).into_iter().collect(),
                branches: Vec::new(),
            };
        };
        // Other worktrees that cannot be read must not hide this one.
        let linked = repository.linked_worktrees().unwrap_or_default();
        // The folder of the main worktree is beside the journals.
        let first = repository.runs_folder().parent().map(Path::to_path_buf);
        let mut folders: Vec<PathBuf> =
            first.into_iter().chain([repository.own_folder()]).collect();
        folders.extend(linked.iter().map(|worktree| worktree.git_dir.join("piton")));
        folders.sort();
        folders.dedup();
        let own = (
            repository.top().to_string_lossy().into_owned(),
            repository.head().ok().and_then(|head| head.branch),
        );
        let others = linked
            .into_iter()
            .map(|it| (it.path.to_string_lossy().into_owned(), it.branch));
        Self {
            holders: folders
                .iter()
                .filter_map(|folder| lock::current_holder(folder))
                .collect(),
            branches: std::iter::once(own).chain(others).collect(),
        }
    }

    /// The process that works on a run.
    fn at_work_on(&self, run: RunId) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.run == run)
    }
}

impl Situation {
    /// The worktree of the run, if it is not this one.
    pub fn elsewhere(&self) -> Option<&str> {
        (!self.is_here && !self.worktree.is_empty()).then_some(self.worktree.as_str())
    }

    /// The situation of a run, as seen from the work tree `here`.
    pub fn of(record: &RunRecord, holders: &Holders, here: &str) -> Self {
        let holder = holders
            .at_work_on(record.id)
            .filter(|_| record.source == RecordSource::Journal);
        let life = match (record.status(), holder) {
            (Some(RunStatus::Waiting), None) => Life::Waiting,
            (Some(status), _) if status != RunStatus::Waiting => Life::Ended,
            (_, Some(holder)) if holder.is_here() => Life::Running,
            (_, Some(_)) => Life::Unknown,
            _ if record.source == RecordSource::Log => Life::Unknown,
            _ => Life::Interrupted,
        };
        let process = holder
            .filter(|_| life != Life::Ended)
            .map(|holder| RunProcess {
                pid: holder.pid,
                host: holder.host.clone(),
                since: holder.started,
            });
        let is_here = record.source == RecordSource::Journal && record.root == here;
        Self {
            life,
            worktree: record.root.clone(),
            is_here,
            branch: branch_of(record, holders)
                .map(|name| name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()),
            process,
            position: (life != Life::Ended).then(|| position_of(record)).flatten(),
        }
    }

    /// Its state in one word; for a run that is over, its status.
    pub fn word(&self, record: &RunRecord) -> &'static str {
        match (self.life, record.status()) {
            (Life::Running, _) => "running",
            (Life::Waiting, _) => "waiting",
            (Life::Interrupted, _) => "interrupted",
            (_, Some(RunStatus::Succeeded)) => "succeeded",
            (_, Some(RunStatus::Failed)) => "failed",
            (_, Some(RunStatus::Denied)) => "denied",
            (_, Some(RunStatus::Cancelled)) => "cancelled",
            (_, Some(RunStatus::Waiting)) => "waiting",
            (_, None) => "unknown",
        }
    }

    /// The step, the process and the place: `step 2 of 5 (build), process 4711 on host since …`.
    pub fn details(&self, time: impl Fn(Timestamp) -> String) -> Vec<String> {
        let mut details = Vec::new();
        if let Some(RunPosition { step, number, of }) = &self.position {
            details.push(match (number, of) {
                (Some(number), Some(of)) => format!("step {number} of {of} (`{step}`)"),
                _ => format!("step `{step}`"),
            });
        }
        if let Some(RunProcess { pid, host, since }) = &self.process {
            details.push(format!("process {pid} on `{host}` since {}", time(*since)));
        }
        if let Some(branch) = &self.branch {
            details.push(format!("branch `{branch}`"));
        }
        if !self.is_here && !self.worktree.is_empty() {
            details.push(format!("in `{}`", self.worktree));
        }
        details
    }
}

/// Refuses to continue a run from another work tree: the run would use edits that the caller does
/// not see.
pub fn require_here(record: &RunRecord, here: &str) -> Result<(), RunError> {
    if record.root == here || !Path::new(&record.root).is_dir() {
        return Ok(());
    }
    Err(RunError::Elsewhere {
        run: record.id,
        root: PathBuf::from(&record.root),
    })
}

/// The branch of the newest step, or the checked-out branch while the run is open.
fn branch_of(record: &RunRecord, holders: &Holders) -> Option<String> {
    let mut newest = record
        .steps
        .iter()
        .rev()
        .filter_map(|step| step.before.as_ref());
    if let Some(snapshot) = newest.next() {
        return snapshot.head.branch.clone();
    }
    let current = holders
        .branches
        .iter()
        .find(|(root, _)| *root == record.root);
    current
        .filter(|_| record.is_open() && record.source == RecordSource::Journal)?
        .1
        .clone()
}

/// The open or newest step, and its number in the outermost directive.
fn position_of(record: &RunRecord) -> Option<RunPosition> {
    let step = record.steps.last()?.name.clone();
    let outermost = step.split('/').next().unwrap_or_default();
    let name = outermost.split('[').next().unwrap_or_default();
    let number = record
        .plan
        .iter()
        .position(|planned| planned == outermost || planned == name)
        .map(|at| at + 1);
    let of = number.map(|_| record.plan.len());
    Some(RunPosition { step, number, of })
}
