//! What the journals say, folded into runs and steps.
//!
//! [`fold`] is pure: any beginning of a journal gives a [`RunRecord`], so a run that was cut off is
//! read like any other. Nothing here writes.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use crate::checkpoint::delta::Delta;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Decision, StepKind, Written};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::journal::{self, Digest, Event, JournalError, Record, RunId, StepId};

/// Every run that has a journal, newest first.
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
    /// When it began.
    pub started: Timestamp,
    /// When its last event was written.
    pub last: Timestamp,
    /// How it ended; none while it runs, or when it was cut off.
    pub summary: Option<RunSummary>,
    /// Its steps, oldest first.
    pub steps: Vec<StepRecord>,
    /// Refs of earlier runs that it removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
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
    /// How it ended; none while it runs, or when it was cut off.
    pub status: Option<StepStatus>,
    /// Settings and hooks of git that changed meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub git_changed: Vec<String>,
}

/// What became of the changes of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was written about it yet.
    Open,
    /// They are a commit.
    Committed {
        /// The commit.
        commit: ObjectId,
        /// Its message.
        message: String,
        /// How many files it changed.
        files_changed: u64,
        /// Lines added.
        insertions: u64,
        /// Lines removed.
        deletions: u64,
    },
    /// They were put back.
    RolledBack {
        /// Where the undone work is pinned.
        rescue: Option<String>,
        /// Files that somebody else had changed since.
        kept: Vec<RepoPath>,
    },
    /// There were none.
    NoChanges,
    /// They are on disk, because the checkpoint failed.
    Failed {
        /// The stable code.
        code: String,
        /// Why.
        message: String,
    },
    /// They are on disk, as was wanted.
    Kept {
        /// Why.
        reason: String,
    },
}

impl History {
    /// Reads every journal in a folder. A journal that cannot be read is left out and named.
    pub fn load(folder: &Path) -> Result<(Self, Vec<JournalError>), JournalError> {
        let mut history = Self::default();
        let mut unreadable = Vec::new();
        for run in journal::list(folder)? {
            match journal::read(&journal::path_of(folder, run)) {
                Ok(contents) => history.runs.extend(fold(&contents.records)),
                Err(err) => unreadable.push(err),
            }
        }
        Ok((history, unreadable))
    }

    /// The steps in one work tree, newest first.
    pub fn steps_in<'a>(&'a self, root: &'a str) -> impl Iterator<Item = &'a StepRecord> {
        self.runs.iter().filter(move |run| run.root == root).flat_map(|run| run.steps.iter().rev())
    }

    /// The run of a step.
    pub fn run(&self, id: RunId) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.id == id)
    }

    /// A step by its name.
    pub fn step(&self, id: StepId) -> Option<&StepRecord> {
        self.run(id.run)?.steps.iter().find(|step| step.id == id)
    }

    /// The steps that were undone and not redone.
    pub fn undone(&self) -> BTreeSet<StepId> {
        let mut undone = BTreeSet::new();
        // Newest first: an undo that was itself undone has no effect any more.
        for step in self.runs.iter().flat_map(|run| run.steps.iter().rev()) {
            if let StepKind::Undo { of, .. } | StepKind::Redo { of, .. } = &step.kind
                && step.took_effect()
                && !undone.contains(&step.id)
            {
                undone.insert(*of);
            }
        }
        undone
    }

    /// The commit that holds the changes of a step: its own, or one that a later checkpoint made.
    pub fn commit_of(&self, step: &StepRecord) -> Option<ObjectId> {
        let covering =
            |other: &&StepRecord| matches!(&other.kind, StepKind::Checkpoint { covers } if covers.contains(&step.id));
        let later = || self.runs.iter().flat_map(|run| &run.steps).filter(covering).find_map(StepRecord::commit);
        step.commit().or_else(later)
    }

    /// The steps of a work tree whose changes are on disk and in no commit, oldest first.
    pub fn pending<'a>(&'a self, root: &'a str) -> Vec<&'a StepRecord> {
        let undone = self.undone();
        let mut covered = BTreeSet::new();
        let mut pending = Vec::new();
        for step in self.steps_in(root) {
            match &step.kind {
                StepKind::Checkpoint { covers } if matches!(step.outcome, Outcome::Committed { .. }) => {
                    covered.extend(covers.iter().copied());
                }
                // Whatever was on disk is not there any more.
                StepKind::RollBack { .. } if step.took_effect() && !undone.contains(&step.id) => break,
                StepKind::Checkpoint { .. } | StepKind::RollBack { .. } => {}
                // An undo of a commit that could not be committed is as good as any step.
                StepKind::Undo { commit, .. } | StepKind::Redo { commit, .. }
                    if commit.is_none() || !matches!(step.outcome, Outcome::Failed { .. }) => {}
                _ if undone.contains(&step.id) || covered.contains(&step.id) => {}
                _ if step.delta.as_ref().is_some_and(|delta| !delta.changes.is_empty())
                    && matches!(step.outcome, Outcome::Kept { .. } | Outcome::Failed { .. }) =>
                {
                    pending.push(step);
                }
                _ => {}
            }
        }
        pending.reverse();
        pending
    }
}

impl RunRecord {
    /// How it ended, or how it stands.
    pub fn status(&self) -> Option<RunStatus> {
        self.summary.as_ref().map(|summary| summary.status)
    }
}

impl StepRecord {
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

    /// Whether there is anything that could be undone.
    pub fn has_changes(&self) -> bool {
        self.delta.as_ref().is_some_and(|delta| !delta.is_empty())
    }
}

/// The run that a journal, or the beginning of one, tells of; none when it tells of nothing.
pub fn fold(records: &[Record]) -> Option<RunRecord> {
    let (first, rest) = records.split_first()?;
    let Event::RunStarted { name, command, mode, directive, root } = &first.event else { return None };
    let mut run = RunRecord {
        id: first.run,
        name: name.clone(),
        command: command.clone(),
        mode: *mode,
        directive: directive.clone(),
        root: root.clone(),
        started: first.at,
        last: first.at,
        summary: None,
        steps: Vec::new(),
        dropped: Vec::new(),
    };
    for record in rest {
        run.last = record.at;
        run.take(record);
    }
    Some(run)
}

impl RunRecord {
    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::StepStarted { step, name, kind, tool, before, .. } => self.steps.push(StepRecord {
                id: StepId { run: self.id, step: *step },
                name: name.clone(),
                kind: kind.clone(),
                tool: tool.clone(),
                started: record.at,
                before: before.clone(),
                after: None,
                delta: None,
                decision: None,
                decided_after: None,
                outcome: Outcome::Open,
                outside: Vec::new(),
                stdout: None,
                stderr: None,
                exit_code: None,
                status: None,
                git_changed: Vec::new(),
            }),
            Event::SnapshotsDropped { refs } => self.dropped.extend(refs.iter().cloned()),
            Event::RunFinished(summary) => self.summary = Some(summary.clone()),
            event => {
                let number = event.step();
                if let Some(step) = self.steps.iter_mut().find(|step| Some(step.id.step) == number) {
                    step.take(record);
                }
            }
        }
    }
}

impl StepRecord {
    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::ToolFinished { exit_code, stdout, stderr, git_changed, .. } => {
                self.exit_code = *exit_code;
                self.stdout.clone_from(stdout);
                self.stderr.clone_from(stderr);
                self.git_changed.clone_from(git_changed);
            }
            Event::ChangesFound { after, delta, outside, .. } => {
                self.after = Some(after.clone());
                self.delta = Some(delta.clone());
                self.outside.extend(outside.iter().cloned());
            }
            Event::Decided { decision, .. } => {
                self.decision = Some(decision.clone());
                self.decided_after = Some(record.prev);
            }
            Event::Committed { commit, message, files_changed, insertions, deletions, .. } => {
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
                self.outcome = Outcome::Failed { code: code.clone(), message: message.clone() };
            }
            Event::CheckpointSkipped { reason, .. } => self.outcome = Outcome::Kept { reason: reason.clone() },
            Event::StepFinished { status, .. } => self.status = Some(*status),
            _ => {}
        }
    }
}
