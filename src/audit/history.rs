//! What the journals, and the logs of runs whose journals are elsewhere, say: runs and steps.
//!
//! [`fold`] is pure: any beginning of a journal gives a [`RunRecord`], so a run that was cut off is
//! read like any other. Nothing here writes.

mod call;
mod outcome;
mod pending;
mod place;
mod undoing;

use std::cmp::Reverse;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

pub use call::CallRecord;
pub use outcome::Outcome;
use undoing::newest_first;

use super::error::AuditError;
use super::trail;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Snapshot;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Acceptance, Decision, HandCommit, RewrittenCommit, StepKind, ToolCall, Wait, Written};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::journal::{self, Digest, Event, JournalError, Record, RunId, StepId};
use crate::problem::Problem;

/// Every run that has a journal or a log, newest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The runs.
    pub runs: Vec<RunRecord>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunRecord {
    /// Its name.
    pub id: RunId,
    /// The number of the session that began it; none in journals of earlier versions.
    #[serde(skip)]
    pub(crate) order: Option<u64>,
    /// Where it is known from.
    #[serde(skip_serializing_if = "Source::is_journal")]
    pub source: Source,
    /// What it was called.
    pub name: String,
    /// How it was started.
    pub command: Vec<String>,
    /// When changes are checkpointed.
    pub mode: CheckpointMode,
    /// The directive, if it runs one.
    pub directive: Option<String>,
    /// The work tree it ran in.
    pub root: String,
    /// The linked worktree by its name, empty for the main one.
    #[serde(skip)]
    pub(crate) worktree: Option<String>,
    /// The names of the steps of its directive, in order.
    #[serde(skip)]
    pub plan: Vec<String>,
    /// The step of a waiting run that it was started beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<StepId>,
    /// Whether everything is put back if it does not succeed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub atomic: bool,
    /// When it began.
    pub started: Timestamp,
    /// When its last event was written.
    pub last: Timestamp,
    /// How it ended; none while it runs, or when it was cut off.
    pub summary: Option<RunSummary>,
    /// Its steps, oldest first.
    pub steps: Vec<StepRecord>,
    /// Steps whose condition did not hold, and what that was, in the order in which they were reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedStep>,
    /// What its directive was given, secrets and all: not for everybody's eyes.
    #[serde(skip)]
    pub inputs: Map<String, Value>,
    /// Earlier runs whose contents it removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<RunId>,
    /// Commits of checkpoints that git has replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewritten: Vec<RewrittenCommit>,
    /// What a person accepted in the place of checkpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Acceptance>,
}

/// A step that did not run.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedStep {
    /// What it was called.
    pub name: String,
    /// Why it did not run.
    pub reason: String,
}

/// Where a run is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Its journal: it happened here.
    Journal,
    /// Its log alone: it happened elsewhere, and what is private about it is not known.
    Log,
}

impl Source {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_journal(&self) -> bool {
        *self == Self::Journal
    }
}

/// One step of a run.
#[derive(Clone, Debug, Serialize)]
pub struct StepRecord {
    /// Its name in the whole repository.
    pub id: StepId,
    /// What it was called.
    pub name: String,
    /// What it did.
    pub kind: StepKind,
    /// The tool, as `id@version`.
    pub tool: Option<String>,
    /// When it began.
    pub started: Timestamp,
    /// The number of the session that ran it; none in journals of earlier versions.
    #[serde(skip)]
    pub(crate) order: Option<u64>,
    /// The work tree before.
    pub before: Option<Snapshot>,
    /// The work tree after.
    pub after: Option<Snapshot>,
    /// What changed.
    pub delta: Option<Delta>,
    /// What was decided about it.
    pub decision: Option<Decision>,
    /// The end of the journal when that was decided: what the trailer of its commit names.
    pub decided_after: Option<Digest>,
    /// What became of its changes.
    pub outcome: Outcome,
    /// The commits that it made itself and that count as its own, oldest first.
    #[serde(skip)]
    pub adopted: Vec<ObjectId>,
    /// Files that somebody else changed meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<RepoPath>,
    /// What its tool wrote to its standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Written>,
    /// What its tool wrote to its standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Written>,
    /// The exit code of its command.
    pub exit_code: Option<i32>,
    /// The signal that ended its command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How it ended; none while it runs, or when it was cut off.
    pub status: Option<StepStatus>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// Settings and hooks of git that changed meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub git_changed: Vec<String>,
    /// What it returned, or why it failed, where it is a step of a directive.
    #[serde(skip)]
    pub answer: Option<(Value, Option<Problem>)>,
    /// The files that belong to it, where somebody has named them with the answer.
    #[serde(skip)]
    pub named: Vec<RepoPath>,
    /// What it waits for, or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Whether a process of it was started.
    #[serde(skip)]
    pub started_process: bool,
    /// The calls that it is made of, where it is that of a meta tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    /// The runs beside it whose changes are in the state before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<RunId>,
    /// Commits that were made with git itself while it was open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hand_made: Vec<HandCommit>,
    /// Where the journal ended while it was at work, before its changes were looked at: what commits name that were
    /// made with git itself. One that piton decided on names a later line.
    #[serde(skip)]
    pub(crate) heads: Vec<Digest>,
    /// Earlier steps of which it found nothing left: HEAD has it, or it was discarded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<StepId>,
    /// The tree that a person approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<ObjectId>,
    /// Files that hold edits of a person which are part of its changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<RepoPath>,
    /// Whether its changes were looked at and nobody goes on working.
    #[serde(skip)]
    pub(crate) is_settling: bool,
}

impl History {
    /// Reads every journal in a folder. A journal that cannot be read is left out and named.
    pub fn load(folder: &Path) -> Result<(Self, Vec<JournalError>), JournalError> {
        let mut history = Self::default();
        let mut unreadable = Vec::new();
        for run in journal::list(folder)? {
            let mut folding = Folding::default();
            match journal::read_each(&journal::path_of(folder, run), &mut |record| folding.take(&record)) {
                Ok(_) => history.runs.extend(folding.run),
                // It was killed before its first line: there is nothing to tell of it, and nothing that it needs.
                Err(_) if journal::has_not_begun(folder, run) => {}
                Err(err) => unreadable.push(err),
            }
        }
        history.runs.iter_mut().for_each(|run| run.locate(folder));
        history.runs.sort_by_key(|run| Reverse((run.order, run.id)));
        Ok((history, unreadable))
    }

    /// As [`Self::load`], with the runs that are known by their logs only. They happened in no work
    /// tree of this repository: they can be looked at, and nothing of them can be undone.
    pub fn load_all(repository: &Repository) -> Result<(Self, Vec<JournalError>), AuditError> {
        let (mut history, mut unreadable) = Self::load(&repository.runs_folder())?;
        let own: Vec<RunId> = history.runs.iter().map(|run| run.id).collect();
        for (run, tip) in trail::foreign(repository, &own)? {
            match trail::load(repository, run, tip).told() {
                // Numbers of another repository say nothing here: by the time.
                Ok(told) => {
                    let at = history.runs.iter().position(|other| other.id < told.id).unwrap_or(history.runs.len());
                    history.runs.insert(at, told);
                }
                Err(err) => unreadable.push(err),
            }
        }
        Ok((history, unreadable))
    }

    /// The steps in one work tree, newest first.
    pub fn steps_in<'a>(&'a self, root: &'a str) -> impl Iterator<Item = &'a StepRecord> {
        newest_first(self.runs.iter().filter(move |run| run.root == root && run.source == Source::Journal))
    }

    /// Every step, newest first.
    pub fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        newest_first(self.runs.iter())
    }

    /// The run of a step.
    pub fn run(&self, id: RunId) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.id == id)
    }

    /// A step by its name.
    pub fn step(&self, id: StepId) -> Option<&StepRecord> {
        self.run(id.run)?.steps.iter().find(|step| step.id == id)
    }

    /// The step that closed a run.
    pub fn finish_of(&self, run: RunId) -> Option<&StepRecord> {
        let closes = |step: &&StepRecord| matches!(&step.kind, StepKind::Finish { of, .. } if *of == run);
        let ended = |step: &&StepRecord| step.status == Some(StepStatus::Succeeded);
        self.runs.iter().flat_map(|run| &run.steps).find(|step| closes(step) && ended(step))
    }

    /// The commit that holds the changes of a step: its own, or one that a later checkpoint made.
    pub fn commit_of(&self, step: &StepRecord) -> Option<ObjectId> {
        let undone = self.undone();
        let covering = |other: &&StepRecord| {
            matches!(&other.kind, StepKind::Checkpoint { covers } if covers.contains(&step.id))
                && !undone.contains(&other.id)
        };
        let later = || self.runs.iter().flat_map(|run| &run.steps).filter(covering).find_map(StepRecord::commit);
        step.commit().or_else(later)
    }

    /// The step behind a commit that is not its own: one that took the place of that, or was made with git itself.
    pub fn step_behind(&self, commit: ObjectId) -> Option<StepId> {
        let mut links = self.runs.iter().flat_map(|run| &run.rewritten);
        let replaced = links.find(|link| link.new == commit).map(|link| link.step);
        let is_behind = |step: &&StepRecord| step.hand_made.iter().any(|made| made.commit == commit);
        replaced.or_else(|| self.runs.iter().flat_map(|run| &run.steps).find(is_behind).map(|step| step.id))
    }
}

impl RunRecord {
    /// Whether it goes on, or waits to go on.
    pub fn is_open(&self) -> bool {
        self.status().is_none_or(|status| status == RunStatus::Waiting)
    }

    /// How it ended, or how it stands.
    pub fn status(&self) -> Option<RunStatus> {
        self.summary.as_ref().map(|summary| summary.status)
    }
}

impl StepRecord {
    /// Whether it is a call, or has begun one, with effects elsewhere, which nobody here can see or take back.
    pub fn is_external(&self) -> bool {
        matches!(&self.kind, StepKind::Tool(call) if call.external) || self.calls.iter().any(|it| it.call.external)
    }

    /// Whether a call of it has effects elsewhere that happen again when the call is made again.
    pub fn has_unrepeatable_call(&self) -> bool {
        let is_unrepeatable = |call: &ToolCall| call.external && !call.repeatable;
        let own = matches!(&self.kind, StepKind::Tool(call) if is_unrepeatable(call));
        own || self.calls.iter().any(|it| is_unrepeatable(&it.call))
    }

    /// Whether its changes are in the work tree or in a commit.
    pub fn took_effect(&self) -> bool {
        matches!(self.outcome, Outcome::Committed { .. } | Outcome::Kept { .. } | Outcome::Failed { .. })
    }

    /// The commit of its changes.
    pub fn commit(&self) -> Option<ObjectId> {
        match &self.outcome {
            Outcome::Committed { commit, .. } => Some(*commit),
            _ => None,
        }
    }

    /// Whether its commit is one that it did not make: the branch moved to the commits of another run.
    pub fn is_fast_forward(&self) -> bool {
        matches!(&self.kind, StepKind::Finish { tip: Some(tip), .. } if self.commit() == Some(*tip))
    }

    /// Whether there is anything that could be undone.
    pub fn has_changes(&self) -> bool {
        self.delta.as_ref().is_some_and(|delta| !delta.is_empty())
    }
}

/// The run that a journal, or the beginning of one, tells of; none when it tells of nothing.
pub fn fold(records: &[Record]) -> Option<RunRecord> {
    let mut folding = Folding::default();
    for record in records {
        folding.take(record);
    }
    folding.run
}

/// The same, for a journal of which one line is in memory at a time.
#[derive(Debug, Default)]
pub struct Folding {
    /// The run so far; none before its first line, and where that does not begin a run.
    pub run: Option<RunRecord>,
    has_begun: bool,
}

impl Folding {
    /// Takes in the next record.
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
        let Event::RunStarted { name, command, mode, directive, root, worktree, beside, steps, atomic, order, .. } =
            &first.event
        else {
            return None;
        };
        Some(Self {
            id: first.run,
            order: *order,
            source: Source::Journal,
            name: name.clone(),
            command: command.clone(),
            mode: *mode,
            directive: directive.clone(),
            root: root.clone(),
            worktree: worktree.clone(),
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
            Event::StepStarted { step, name, kind, tool, before, order, .. } => {
                let id = StepId { run: self.id, step: *step };
                let begun = StepRecord::begun(id, name, kind, tool.as_deref(), before.as_ref(), record.at);
                self.steps.push(StepRecord { order: *order, ..begun });
            }
            Event::DirectiveStarted { name, inputs, .. } if name.is_empty() => self.inputs.clone_from(inputs),
            Event::StepSkipped { name, reason } => {
                self.skipped.push(SkippedStep { name: name.clone(), reason: reason.clone() });
            }
            Event::SnapshotsDropped { refs, runs } => {
                self.dropped.extend(refs.iter().filter_map(|name| run_of_ref(name)).chain(runs.iter().copied()));
                self.dropped.sort();
                self.dropped.dedup();
            }
            Event::Rewritten { commits, .. } => self.rewritten.extend(commits.iter().cloned()),
            Event::Accepted(acceptance) => self.accepted.push(acceptance.clone()),
            Event::RunFinished(summary) => self.summary = Some(summary.clone()),
            Event::RunResumed { restart, .. } => {
                self.summary = None;
                let names = restart.iter().flat_map(|restart| restart.not_run());
                self.skipped.extend(names.map(|(name, reason)| SkippedStep { name, reason: reason.to_owned() }));
            }
            event => {
                let number = event.step();
                // Events are about the newest steps.
                if let Some(step) = self.steps.iter_mut().rev().find(|step| Some(step.id.step) == number) {
                    step.take(&record.event, record.prev);
                }
            }
        }
        if let Some(step) = self.steps.last_mut().filter(|step| step.status.is_none() && !step.is_settling) {
            step.heads.push(record.digest);
        }
    }
}

impl StepRecord {
    /// A step that has just begun.
    pub(crate) fn begun(
        id: StepId,
        name: &str,
        kind: &StepKind,
        tool: Option<&str>,
        before: Option<&Snapshot>,
        started: Timestamp,
    ) -> Self {
        Self {
            id,
            name: name.to_owned(),
            kind: kind.clone(),
            tool: tool.map(str::to_owned),
            started,
            order: None,
            before: before.cloned(),
            after: None,
            delta: None,
            decision: None,
            decided_after: None,
            outcome: Outcome::Open,
            adopted: Vec::new(),
            outside: Vec::new(),
            stdout: None,
            stderr: None,
            exit_code: None,
            signal: None,
            status: None,
            error: None,
            git_changed: Vec::new(),
            answer: None,
            named: Vec::new(),
            wait: None,
            started_process: false,
            calls: Vec::new(),
            beside: Vec::new(),
            hand_made: Vec::new(),
            dropped: Vec::new(),
            approved: None,
            edits: Vec::new(),
            heads: Vec::new(),
            is_settling: false,
        }
    }

    /// Takes in an event about it; `previous` is the head of the journal before it.
    pub(crate) fn take(&mut self, event: &Event, previous: Digest) {
        if let Event::ToolFinished { git_changed, .. } = event {
            let new = git_changed.iter().filter(|name| !self.git_changed.contains(name)).cloned().collect::<Vec<_>>();
            self.git_changed.extend(new);
        }
        match event {
            event if call::take(&mut self.calls, event) => {}
            Event::ToolFinished { exit_code, signal, stdout, stderr, .. } => {
                (self.exit_code, self.signal) = (*exit_code, *signal);
                self.stdout.clone_from(stdout);
                self.stderr.clone_from(stderr);
            }
            Event::ChangesFound { after, delta, outside, .. } => {
                self.after = Some(after.clone());
                self.delta = Some(delta.clone());
                self.outside.extend(outside.iter().cloned());
                self.is_settling = true;
            }
            Event::RemainderFound { dropped, edits, .. } => {
                self.dropped.clone_from(dropped);
                self.edits.clone_from(edits);
            }
            Event::Approved { tree, edits, .. } => {
                self.approved = Some(*tree);
                self.edits.clone_from(edits);
            }
            Event::HandCommitted { commits, .. } => {
                let new = commits.iter().filter(|made| !self.hand_made.contains(made)).copied().collect::<Vec<_>>();
                self.hand_made.extend(new);
            }
            Event::ToolStarted { .. } => self.started_process = true,
            Event::Answered { result, error, paths, .. } => {
                self.answer = Some((result.clone(), error.clone()));
                self.named.clone_from(paths);
            }
            Event::Waiting { wait, .. } => {
                self.wait = Some(wait.clone());
                self.named.clear();
                // Whoever is to work on goes on working.
                self.is_settling &= !matches!(wait, Wait::Work { .. });
            }
            Event::BaseMoved { before, after, delta, runs, .. } => {
                self.before = Some(before.clone());
                self.after = after.clone().or_else(|| self.after.take());
                self.delta = delta.clone().or_else(|| self.delta.take());
                self.beside.extend(runs);
            }
            Event::Decided { decision, .. } => {
                self.decision = Some(decision.clone());
                self.decided_after = Some(previous);
            }
            Event::Committed { commit, message, files_changed, insertions, deletions, adopted, .. } => {
                self.adopted.clone_from(adopted);
                self.outcome = Outcome::Committed {
                    commit: *commit,
                    message: message.clone(),
                    files_changed: *files_changed,
                    insertions: *insertions,
                    deletions: *deletions,
                };
            }
            Event::RolledBack { rescue, kept, .. } => {
                self.outcome = Outcome::RolledBack { rescue: rescue.clone(), kept: kept.clone() };
            }
            Event::NoChanges { .. } => self.outcome = Outcome::NoChanges,
            Event::CheckpointFailed { code, message, .. } => {
                self.outcome = Outcome::Failed { code: *code, message: message.clone() };
            }
            Event::CheckpointSkipped { reason, .. } => self.outcome = Outcome::Kept { reason: reason.clone() },
            Event::StepFinished { status, error, .. } => {
                self.status = Some(*status);
                self.error.clone_from(error);
            }
            _ => {}
        }
    }
}

/// The run that a ref of an earlier version kept a snapshot of.
fn run_of_ref(name: &str) -> Option<RunId> {
    name.strip_prefix("refs/piton/local/")?.split('/').next()?.parse().ok()
}
