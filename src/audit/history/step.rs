//! A step of a run, as its events tell of it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::call::{self, CallRecord};
use super::outcome::StepOutcome;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::journal::event::{Decision, HandCommit, StepKind, StreamDigest, ToolCall, Wait};
use crate::journal::summary::StepStatus;
use crate::journal::{Digest, Event, RunId, StepId};
use crate::problem::Problem;

#[derive(Clone, Debug, Serialize)]
pub struct StepRecord {
    pub id: StepId,
    pub name: String,
    pub kind: StepKind,
    /// As `id@version`.
    pub tool: Option<String>,
    pub started: Timestamp,
    /// The number of the session that ran it; `None` in journals of earlier versions.
    #[serde(skip)]
    pub(crate) order: Option<u64>,
    pub before: Option<Snapshot>,
    pub after: Option<Snapshot>,
    pub delta: Option<Delta>,
    pub decision: Option<Decision>,
    /// The journal head when the decision was made. The trailer of its commit names it.
    pub decided_after: Option<Digest>,
    pub outcome: StepOutcome,
    /// Commits that the step's process made and that count as its own, oldest first.
    #[serde(skip)]
    pub adopted: Vec<ObjectId>,
    /// Files that another process changed meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<RepoPath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<StreamDigest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<StreamDigest>,
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// `None` while it runs, or when it was interrupted.
    pub status: Option<StepStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// Settings and hooks of git that changed meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub git_changed: Vec<String>,
    /// The result or error of a directive step.
    #[serde(skip)]
    pub answer: Option<(Value, Option<Problem>)>,
    /// The files that belong to it, if the answer named them.
    #[serde(skip)]
    pub named: Vec<RepoPath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    #[serde(skip)]
    pub started_process: bool,
    /// The calls that a meta tool made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    /// Concurrent runs whose changes are in the state before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<RunId>,
    /// Commits that the user or a tool made with git while it was open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hand_made: Vec<HandCommit>,
    /// The journal heads while the step was executing, before its changes were read. Commits made
    /// by hand name one of these; piton's own commit names a later one.
    #[serde(skip)]
    pub(crate) heads: Vec<Digest>,
    /// Earlier steps whose changes are gone from disk: committed in HEAD, or discarded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<StepId>,
    /// The tree that a person approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<ObjectId>,
    /// Files with a person's edits that are part of its changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<RepoPath>,
    /// Whether its changes were read and all work on it has ended.
    #[serde(skip)]
    pub(crate) is_settling: bool,
}

impl StepRecord {
    /// Whether it made, or began, a call with external effects, which cannot be seen or undone
    /// here.
    pub fn is_external(&self) -> bool {
        matches!(&self.kind, StepKind::Tool(call) if call.external)
            || self.calls.iter().any(|it| it.call.external)
    }

    /// Whether repeating one of its calls would repeat an external effect.
    pub fn has_unrepeatable_call(&self) -> bool {
        let is_unrepeatable = |call: &ToolCall| call.external && !call.repeatable;
        let own = matches!(&self.kind, StepKind::Tool(call) if is_unrepeatable(call));
        own || self.calls.iter().any(|it| is_unrepeatable(&it.call))
    }

    /// Whether its changes are in the work tree or in a commit.
    pub fn took_effect(&self) -> bool {
        matches!(
            self.outcome,
            StepOutcome::Committed { .. } | StepOutcome::Kept { .. } | StepOutcome::Failed { .. }
        )
    }

    pub fn commit(&self) -> Option<ObjectId> {
        match &self.outcome {
            StepOutcome::Committed { commit, .. } => Some(*commit),
            _ => None,
        }
    }

    /// Whether its commit was made by another run: the branch only moved to it.
    pub fn is_fast_forward(&self) -> bool {
        matches!(&self.kind, StepKind::Finish { tip: Some(tip), .. } if self.commit() == Some(*tip))
    }

    pub fn has_changes(&self) -> bool {
        self.delta.as_ref().is_some_and(|delta| !delta.is_empty())
    }

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
            outcome: StepOutcome::Open,
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

    /// Applies an event; `previous` is the journal head before it.
    pub(crate) fn take(&mut self, event: &Event, previous: Digest) {
        if let Event::ToolFinished { git_changed, .. } = event {
            let new = git_changed
                .iter()
                .filter(|name| !self.git_changed.contains(name))
                .cloned()
                .collect::<Vec<_>>();
            self.git_changed.extend(new);
        }
        if let Some(outcome) = StepOutcome::of(event) {
            self.outcome = outcome;
        }
        match event {
            event if call::take(&mut self.calls, event) => {}
            Event::ToolFinished {
                exit_code,
                signal,
                stdout,
                stderr,
                ..
            } => {
                (self.exit_code, self.signal) = (*exit_code, *signal);
                self.stdout.clone_from(stdout);
                self.stderr.clone_from(stderr);
            }
            Event::ChangesFound {
                after,
                delta,
                outside,
                ..
            } => {
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
                let new = commits
                    .iter()
                    .filter(|made| !self.hand_made.contains(made))
                    .copied()
                    .collect::<Vec<_>>();
                self.hand_made.extend(new);
            }
            Event::ToolStarted { .. } => self.started_process = true,
            Event::Answered {
                result,
                error,
                paths,
                ..
            } => {
                self.answer = Some((result.clone(), error.clone()));
                self.named.clone_from(paths);
            }
            Event::Waiting { wait, .. } => {
                self.wait = Some(wait.clone());
                self.named.clear();
                // Manual work continues.
                self.is_settling &= !matches!(wait, Wait::Work { .. });
            }
            Event::BaseMoved {
                before,
                after,
                delta,
                runs,
                ..
            } => {
                self.before = Some(before.clone());
                self.after = after.as_deref().cloned().or_else(|| self.after.take());
                self.delta = delta.clone().or_else(|| self.delta.take());
                self.beside.extend(runs);
            }
            Event::Decided { decision, .. } => {
                self.decision = Some(decision.clone());
                self.decided_after = Some(previous);
            }
            Event::Committed { adopted, .. } => self.adopted.clone_from(adopted),
            Event::StepFinished { status, error, .. } => {
                self.status = Some(*status);
                self.error.clone_from(error);
            }
            _ => {}
        }
    }
}
