//! Runs and steps, read from journals, or from logs if the journal is elsewhere.
//!
//! [`fold`] is pure: any prefix of a journal gives a [`RunRecord`], so an interrupted run is read
//! like any other. Nothing here writes.

mod call;
mod outcome;
mod pending;
mod step;
mod undoing;
mod work_tree;

use std::cmp::Reverse;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

pub use call::CallRecord;
pub use outcome::StepOutcome;
pub use step::StepRecord;
use undoing::newest_first;

use super::error::AuditError;
use super::trail::{self, LogFault};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::trail::limit::{TrailBudget, TrailFault};
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Acceptance, RepositoryIdentity, RewrittenCommit, StepKind};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::journal::{self, Event, JournalError, Record, RunId, StepId};

/// Every run that has a journal or a log, newest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub runs: Vec<RunRecord>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RunRecord {
    pub id: RunId,
    /// The number of the session that began it; `None` in journals of earlier versions.
    #[serde(skip)]
    pub(crate) order: Option<u64>,
    #[serde(skip_serializing_if = "RecordSource::is_journal")]
    pub source: RecordSource,
    pub name: String,
    /// The command line that started it.
    pub command: Vec<String>,
    pub mode: CheckpointMode,
    pub directive: Option<String>,
    pub root: String,
    /// The name of the linked worktree; empty for the main one.
    #[serde(skip)]
    pub(crate) worktree: Option<String>,
    /// The repository in which the run began.
    pub(crate) repository: Option<RepositoryIdentity>,
    /// The step names of its directive, in order.
    #[serde(skip)]
    pub plan: Vec<String>,
    /// The waiting step during which the run was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<StepId>,
    /// Whether everything is rolled back if it does not succeed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub atomic: bool,
    pub started: Timestamp,
    /// The time of its last event.
    pub last: Timestamp,
    /// `None` while it runs, or when it was interrupted.
    pub summary: Option<RunSummary>,
    /// Oldest first.
    pub steps: Vec<StepRecord>,
    /// Steps whose condition was false, in the order in which they were reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedStep>,
    /// The inputs of its directive, including secrets. They must not leave this repository.
    #[serde(skip)]
    pub inputs: Map<String, Value>,
    /// Earlier runs whose contents it removed (`piton gc`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<RunId>,
    /// Commits of checkpoints that git has replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewritten: Vec<RewrittenCommit>,
    /// What a person accepted in place of checkpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Acceptance>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SkippedStep {
    pub name: String,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordSource {
    /// The journal: the run happened here.
    Journal,
    /// The log only: the run happened elsewhere, and its private parts are unknown.
    Log,
}

impl RecordSource {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde asks for a reference"
    )]
    fn is_journal(&self) -> bool {
        *self == Self::Journal
    }
}

impl History {
    /// Reads every journal in a folder. Unreadable ones are returned as errors.
    pub fn load(folder: &Path) -> Result<(Self, Vec<JournalError>), JournalError> {
        let mut history = Self::default();
        let mut unreadable = Vec::new();
        for run in journal::list(folder)? {
            let mut folding = Folding::default();
            match journal::read_each(&journal::path_of(folder, run), &mut |record| {
                folding.take(&record);
            }) {
                Ok(_) => history.runs.extend(folding.run),
                // The run was killed before its first line: nothing to report.
                Err(_) if journal::has_not_begun(folder, run) => {}
                Err(err) => unreadable.push(err),
            }
        }
        history.runs.iter_mut().for_each(|run| run.locate(folder));
        history.runs.sort_by_key(|run| Reverse((run.order, run.id)));
        Ok((history, unreadable))
    }

    /// Like [`Self::load`], plus the runs known only by their logs. They have no work tree here:
    /// they can be shown, but not undone.
    pub fn load_all(repository: &Repository) -> Result<(Self, Vec<JournalError>), AuditError> {
        let (mut history, mut unreadable) = Self::load(&repository.runs_folder())?;
        let own: Vec<RunId> = history.runs.iter().map(|run| run.id).collect();
        let budget = TrailBudget::default();
        let foreign = trail::foreign(repository, &own)?;
        let count = foreign.len();
        for (read, (run, tip)) in foreign.into_iter().enumerate() {
            let log = trail::load(repository, run, tip, &budget);
            if let Some(LogFault::Trail(TrailFault::TooLargeTogether(limit))) = log.fault {
                let (read, count, limit) = (read as u64, count as u64, limit.to_string());
                unreadable.push(JournalError::UnreadLogs { read, count, limit });
                break;
            }
            match log.into_record() {
                // Session numbers of another repository mean nothing here, so these runs are sorted
                // by time.
                Ok(told) => {
                    let at = history
                        .runs
                        .iter()
                        .position(|other| other.id < told.id)
                        .unwrap_or(history.runs.len());
                    history.runs.insert(at, told);
                }
                Err(err) => unreadable.push(err),
            }
        }
        Ok((history, unreadable))
    }

    /// The steps in one work tree, newest first.
    pub fn steps_in<'a>(&'a self, root: &'a str) -> impl Iterator<Item = &'a StepRecord> {
        newest_first(
            self.runs
                .iter()
                .filter(move |run| run.root == root && run.source == RecordSource::Journal),
        )
    }

    /// Newest first.
    pub fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        newest_first(self.runs.iter())
    }

    pub fn run(&self, id: RunId) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.id == id)
    }

    pub fn step(&self, id: StepId) -> Option<&StepRecord> {
        self.run(id.run)?.steps.iter().find(|step| step.id == id)
    }

    /// The `finish` step of a run.
    pub fn finish_of(&self, run: RunId) -> Option<&StepRecord> {
        let closes =
            |step: &&StepRecord| matches!(&step.kind, StepKind::Finish { of, .. } if *of == run);
        let ended = |step: &&StepRecord| step.status == Some(StepStatus::Succeeded);
        self.runs
            .iter()
            .flat_map(|run| &run.steps)
            .find(|step| closes(step) && ended(step))
    }

    /// The commit that has the changes of a step: its own, or a later checkpoint's.
    pub fn commit_of(&self, step: &StepRecord) -> Option<ObjectId> {
        let undone = self.undone();
        let covering = |other: &&StepRecord| {
            matches!(&other.kind, StepKind::Checkpoint { covers } if covers.contains(&step.id))
                && !undone.contains(&other.id)
        };
        let later = || {
            self.runs
                .iter()
                .flat_map(|run| &run.steps)
                .filter(covering)
                .find_map(StepRecord::commit)
        };
        step.commit().or_else(later)
    }

    /// The step behind a commit that is not its own: a replacement, or one made by hand.
    pub fn step_behind(&self, commit: ObjectId) -> Option<StepId> {
        let mut links = self.runs.iter().flat_map(|run| &run.rewritten);
        let replaced = links.find(|link| link.new == commit).map(|link| link.step);
        let is_behind =
            |step: &&StepRecord| step.hand_made.iter().any(|made| made.commit == commit);
        replaced.or_else(|| {
            self.runs
                .iter()
                .flat_map(|run| &run.steps)
                .find(is_behind)
                .map(|step| step.id)
        })
    }
}

impl RunRecord {
    /// Whether it is running or waiting.
    pub fn is_open(&self) -> bool {
        self.status()
            .is_none_or(|status| status == RunStatus::Waiting)
    }

    pub fn status(&self) -> Option<RunStatus> {
        self.summary.as_ref().map(|summary| summary.status)
    }
}

/// The run described by a journal or a prefix of one; `None` for an empty one.
pub fn fold(records: &[Record]) -> Option<RunRecord> {
    let mut folding = Folding::default();
    for record in records {
        folding.take(record);
    }
    folding.run
}

/// The same, with one journal line in memory at a time.
#[derive(Debug, Default)]
pub struct Folding {
    /// `None` before the first line, or if that does not begin a run.
    pub run: Option<RunRecord>,
    has_begun: bool,
}

impl Folding {
    pub fn take(&mut self, record: &Record) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.run = RunRecord::begun(record);
        } else if let Some(run) = &mut self.run {
            run.last = record.at;
            run.take(record);
        }
    }
}

impl RunRecord {
    fn begun(first: &Record) -> Option<Self> {
        let Event::RunStarted {
            name,
            command,
            mode,
            directive,
            root,
            worktree,
            beside,
            steps,
            atomic,
            order,
            repository,
            ..
        } = &first.event
        else {
            return None;
        };
        Some(Self {
            id: first.run,
            order: *order,
            source: RecordSource::Journal,
            name: name.clone(),
            command: command.clone(),
            mode: *mode,
            directive: directive.clone(),
            root: root.clone(),
            worktree: worktree.clone(),
            repository: repository.clone(),
            plan: steps.clone(),
            beside: *beside,
            atomic: *atomic,
            started: first.at,
            last: first.at,
            summary: None,
            steps: Vec::new(),
            skipped: Vec::new(),
            inputs: Map::new(),
            dropped: Vec::new(),
            rewritten: Vec::new(),
            accepted: Vec::new(),
        })
    }

    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::StepStarted {
                step,
                name,
                kind,
                tool,
                before,
                order,
                ..
            } => {
                let id = StepId {
                    run: self.id,
                    step: *step,
                };
                let begun =
                    StepRecord::begun(id, name, kind, tool.as_deref(), before.as_ref(), record.at);
                self.steps.push(StepRecord {
                    order: *order,
                    ..begun
                });
            }
            Event::DirectiveStarted { name, inputs, .. } if name.is_empty() => {
                self.inputs.clone_from(inputs);
            }
            Event::StepSkipped { name, reason } => {
                self.skipped.push(SkippedStep {
                    name: name.clone(),
                    reason: reason.clone(),
                });
            }
            Event::SnapshotsDropped { refs, runs } => {
                self.dropped.extend(
                    refs.iter()
                        .filter_map(|name| run_of_ref(name))
                        .chain(runs.iter().copied()),
                );
                self.dropped.sort();
                self.dropped.dedup();
            }
            Event::Rewritten { commits, .. } => self.rewritten.extend(commits.iter().cloned()),
            Event::Accepted(acceptance) => self.accepted.push(acceptance.clone()),
            Event::RunFinished(summary) => self.summary = Some(summary.clone()),
            Event::RunResumed { restart, .. } => {
                self.summary = None;
                let names = restart.iter().flat_map(|restart| restart.not_run());
                self.skipped.extend(names.map(|(name, reason)| SkippedStep {
                    name,
                    reason: reason.to_owned(),
                }));
            }
            event => {
                let number = event.step();
                // Events are almost always about the newest steps.
                if let Some(step) = self
                    .steps
                    .iter_mut()
                    .rev()
                    .find(|step| Some(step.id.step) == number)
                {
                    step.take(&record.event, record.prev);
                }
            }
        }
        if let Some(step) = self
            .steps
            .last_mut()
            .filter(|step| step.status.is_none() && !step.is_settling)
        {
            step.heads.push(record.digest);
        }
    }
}

/// The run whose snapshot a ref of an earlier version kept.
fn run_of_ref(name: &str) -> Option<RunId> {
    name.strip_prefix("refs/piton/local/")?
        .split('/')
        .next()?
        .parse()
        .ok()
}
