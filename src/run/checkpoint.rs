//! A checkpoint by itself: committing what earlier steps left on disk, or what nobody recorded.
//!
//! [`git_checkpoint`] is the same thing in the words of the `git_checkpoint` directive.

use serde::Serialize;

use super::baseline::Baseline;
use super::error::RunError;
use super::session::{Observer, RunRequest, Session};
use super::settle::{Settlement, Verdict, Wording};
use super::step::{StepEnd, summary};
use super::undo::combine;
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::StepId;
use crate::journal::event::{Event, StepKind, Wait};
use crate::journal::summary::{CheckpointStatus, RunSummary, StepStatus};

/// What to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// What steps of piton left on disk in this work tree.
    Recorded,
    /// Everything that differs from HEAD below these paths.
    Paths(Vec<RepoPath>),
    /// Everything that differs from HEAD.
    All,
    /// What steps of piton left on disk, and whatever else has changed since a moment.
    Since(Box<Baseline>),
}

/// A checkpoint to make.
#[derive(Clone, Debug)]
pub struct CheckpointRequest {
    /// What to commit.
    pub selection: Selection,
    /// What the commit is about; the name of the step.
    pub operation: String,
    /// The message, instead of a generated one.
    pub message: Option<String>,
    /// The directive that asked for it.
    pub directive: Option<String>,
}

/// What `git_checkpoint` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum GitCheckpoint {
    /// There is a commit.
    Committed {
        /// The commit.
        commit_sha: ObjectId,
        /// Its message.
        commit_message: String,
        /// How many files it changed.
        files_changed: u64,
        /// Lines added.
        insertions: u64,
        /// Lines removed.
        deletions: u64,
    },
    /// There was nothing to commit.
    NoChanges,
    /// There is no commit.
    Failed {
        /// Why.
        reason: String,
        /// Whether the changes were put back or are as they were.
        state: FailedState,
    },
}

/// In what state a failed checkpoint left the work tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedState {
    /// The changes were put back.
    RolledBack,
    /// Nothing was touched.
    Unchanged,
}

/// Makes a checkpoint in the words of the `git_checkpoint` directive.
pub fn git_checkpoint(
    ctx: &Context,
    request: &CheckpointRequest,
    run: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<GitCheckpoint, RunError> {
    let mut message = String::new();
    let summary = checkpoint(ctx, request, run, &mut |event| {
        if let Event::Committed { message: text, .. } = event {
            message.clone_from(text);
        }
        observer(event);
    })?;
    let step = summary.steps.first().and_then(|step| step.checkpoint.as_ref());
    Ok(match (step, summary.error) {
        (_, Some(error)) => {
            let rolled_back = step.is_some_and(|step| step.status == CheckpointStatus::RolledBack);
            let state = if rolled_back { FailedState::RolledBack } else { FailedState::Unchanged };
            GitCheckpoint::Failed { reason: error.message, state }
        }
        (Some(step), None) => match step.commit_sha {
            Some(commit_sha) => GitCheckpoint::Committed {
                commit_sha,
                commit_message: message,
                files_changed: step.files_changed,
                insertions: step.insertions,
                deletions: step.deletions,
            },
            None => GitCheckpoint::NoChanges,
        },
        (None, None) => GitCheckpoint::NoChanges,
    })
}

/// Commits what was selected.
pub fn checkpoint(
    ctx: &Context,
    request: &CheckpointRequest,
    run: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    let mut session = Session::begin(ctx, &RunRequest { mode: CheckpointMode::Auto, ..run.clone() }, observer)?;
    match session.commit_by_itself(request) {
        Ok(end) => session.finish(end.run_status(), end.error),
        Err(err) => {
            session.abandon(&err)?;
            Err(err)
        }
    }
}

impl Session<'_, '_> {
    /// Commits what earlier steps of the run left, as a step of its own.
    pub(super) fn commit_pending(
        &mut self,
        wording: Wording<'_>,
        pending: &[(StepId, Delta)],
        verdict: Verdict,
    ) -> Result<(), RunError> {
        let step = self.next_step();
        let covers = pending.iter().map(|(id, _)| *id).collect();
        let before = self.start_step(step, wording.name, StepKind::Checkpoint { covers }, &[])?;
        let settlement = match (before, self.checkpointer.take()) {
            (Some(before), Some(mut checkpointer)) => {
                let delta = combine(pending.iter().map(|(_, delta)| delta));
                let settled = self.settle_pending(&mut checkpointer, step, wording, &before, delta, verdict);
                self.checkpointer = Some(checkpointer);
                settled?
            }
            _ => self.skip_checkpoint(step)?,
        };
        if settlement.asked {
            return Ok(());
        }
        let error = settlement.error;
        let status = if error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        self.finish_step(step, wording.name, status, None, settlement.checkpoint, error.as_ref())
    }

    fn settle_pending(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        delta: Delta,
        verdict: Verdict,
    ) -> Result<Settlement, RunError> {
        if verdict == Verdict::Ask && !delta.changes.is_empty() {
            let (after, outside) = (before.clone(), Vec::new());
            self.record(&Event::ChangesFound { step, after, delta, outside })?;
            self.record(&Event::Waiting { step, wait: Wait::Changes })?;
            return Ok(Settlement { asked: true, ..Settlement::of(summary(CheckpointStatus::Skipped)) });
        }
        self.commit_selected(checkpointer, step, wording, before, delta)
    }

    fn commit_by_itself(&mut self, request: &CheckpointRequest) -> Result<StepEnd, RunError> {
        let repository = self.repository()?;
        let (history, _) = History::load(&repository.runs_folder())?;
        let root = repository.top().to_string_lossy().into_owned();
        let pending = history.pending(&root);
        let is_covered = |step: &&&StepRecord| {
            let changes = step.delta.iter().flat_map(|delta| &delta.changes);
            changes.map(|change| &change.path).all(|path| request.selection.has(path))
        };
        let covers: Vec<StepId> = pending.iter().filter(is_covered).map(|step| step.id).collect();
        let step = self.next_step();
        let before = self.start_step(step, &request.operation, StepKind::Checkpoint { covers }, &[])?;
        let (Some(before), Some(mut checkpointer)) = (before, self.checkpointer.take()) else {
            return Err(CheckpointError::NoRepository(self.ctx.root.clone()).into());
        };
        let wording = Wording {
            name: &request.operation,
            given: request.message.as_deref(),
            directive: request.directive.as_deref(),
            ..Wording::default()
        };
        let settlement = select(&checkpointer, request, &before, &history, &pending)
            .map_err(RunError::from)
            .and_then(|delta| self.commit_selected(&mut checkpointer, step, wording, &before, delta));
        self.checkpointer = Some(checkpointer);
        let settlement = settlement?;
        let status = if settlement.error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        self.finish_step(step, &request.operation, status, None, settlement.checkpoint, settlement.error.as_ref())?;
        Ok(StepEnd { status, error: settlement.error, interrupted: false, command_status: None })
    }

    fn commit_selected(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        delta: Delta,
    ) -> Result<Settlement, RunError> {
        if delta.changes.is_empty() {
            self.record(&Event::NoChanges { step, not_captured: Vec::new(), too_large: Vec::new() })?;
            return Ok(Settlement::of(summary(CheckpointStatus::NoChanges)));
        }
        let (after, outside) = (before.clone(), Vec::new());
        self.record(&Event::ChangesFound { step, after, delta: delta.clone(), outside })?;
        let found = Attributed { after: before.clone(), delta, outside: Vec::new() };
        let mut settlement = self.commit_or_explain(checkpointer, step, wording, before, found)?;
        // What a hook did was put back; what was to be committed is where it was.
        if let Some(checkpoint) =
            settlement.checkpoint.as_mut().filter(|made| made.status == CheckpointStatus::RolledBack)
        {
            *checkpoint = summary(CheckpointStatus::Failed);
        }
        Ok(settlement)
    }
}

/// The changes that were asked for.
fn select(
    checkpointer: &Checkpointer,
    request: &CheckpointRequest,
    before: &Snapshot,
    history: &History,
    pending: &[&StepRecord],
) -> Result<Delta, CheckpointError> {
    match &request.selection {
        Selection::Recorded => return Ok(combine(pending.iter().filter_map(|step| step.delta.as_ref()))),
        Selection::Since(baseline) => return baseline.changes(checkpointer, before, history, pending),
        Selection::Paths(_) | Selection::All => {}
    }
    let mut delta = checkpointer.delta_to_head(before)?;
    delta.changes.retain(|change| request.selection.has(&change.path));
    Ok(delta)
}

impl Selection {
    fn has(&self, path: &RepoPath) -> bool {
        match self {
            Self::Recorded | Self::All | Self::Since(_) => true,
            Self::Paths(paths) => paths.iter().any(|chosen| path == chosen || path.is_inside(chosen)),
        }
    }
}
