//! A checkpoint by itself: committing what is left of earlier steps on disk, or files that are named.
//!
//! [`git_checkpoint`] is the same thing in the words of the `git_checkpoint` directive.

use serde::Serialize;

use super::baseline::Baseline;
use super::error::RunError;
use super::remainder::{KeptStep, Left, kept_here, left_of};
use super::session::{Observer, RunRequest, Session};
use super::settle::{Settlement, Verdict, Wording};
use super::step::{StepEnd, summary};
use super::undo::combine;
use crate::audit::history::History;
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::remainder::EditsSince;
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
    /// What steps of piton left on disk, and everything else that has changed since a moment.
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
    /// What happens to edits that were made in the files of steps after them.
    pub edits: EditsSince,
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
            GitCheckpoint::Failed { reason: error.message(), state }
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
    /// Commits what is left of earlier steps of the run, as a step of its own.
    pub(super) fn commit_pending(
        &mut self,
        wording: Wording<'_>,
        pending: &[KeptStep],
        verdict: Verdict,
    ) -> Result<(), RunError> {
        let step = self.next_step();
        let left = self.judge(pending, EditsSince::LeaveOut)?;
        let covers = match &left {
            Some(Ok(left)) => left.steps.clone(),
            _ => pending.iter().map(|kept| kept.id).collect(),
        };
        let before = self.start_step(step, wording.name, StepKind::Checkpoint { covers }, &[])?;
        let settlement = match (left, before, self.checkpointer.take()) {
            (Some(left), Some(before), Some(mut checkpointer)) => {
                let settled = self.settle_pending(&mut checkpointer, step, wording, &before, left, verdict);
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
        left: Result<Left, CheckpointError>,
        verdict: Verdict,
    ) -> Result<Settlement, RunError> {
        let chosen = match left.and_then(Chosen::of) {
            Ok(chosen) => chosen,
            Err(err) => return self.failed(step, err),
        };
        if verdict == Verdict::Ask && !chosen.delta.changes.is_empty() {
            self.record_remainder(step, &chosen)?;
            let (after, delta, outside) = (before.clone(), chosen.delta, Vec::new());
            self.record(&Event::ChangesFound { step, after, delta, outside })?;
            self.record(&Event::Waiting { step, wait: Wait::Changes })?;
            return Ok(Settlement { asked: true, ..Settlement::of(summary(CheckpointStatus::Skipped)) });
        }
        self.commit_selected(checkpointer, step, wording, before, before.clone(), chosen)
    }

    /// What is left of steps, by the disk and HEAD of this moment; none without a repository. The step that begins
    /// next begins with this moment.
    pub(super) fn judge(
        &mut self,
        kept: &[KeptStep],
        edits: EditsSince,
    ) -> Result<Option<Result<Left, CheckpointError>>, RunError> {
        let Some(checkpointer) = &mut self.checkpointer else { return Ok(None) };
        let now = match self.found.take() {
            Some(found) => found,
            None => checkpointer.before()?,
        };
        let left = left_of(checkpointer, &now, kept, None, edits);
        self.found = Some(now);
        Ok(Some(left))
    }

    /// The files of the run that steps changed and no commit has.
    pub(super) fn uncommitted(&mut self) -> Vec<RepoPath> {
        let pending = self.state.as_ref().map(|state| state.pending.clone()).unwrap_or_default();
        if pending.is_empty() {
            return Vec::new();
        }
        // What was found when the run began says nothing about its end.
        self.found = None;
        match self.judge(&pending, EditsSince::LeaveOut) {
            Ok(Some(Ok(left))) => left.files.paths(),
            // The files cannot be read now: what was recorded may be there.
            _ => combine(pending.iter().map(|kept| &kept.delta)).changes.into_iter().map(|it| it.path).collect(),
        }
    }

    fn commit_by_itself(&mut self, request: &CheckpointRequest) -> Result<StepEnd, RunError> {
        let repository = self.repository()?;
        let (history, _) = History::load(&repository.runs_folder())?;
        let root = repository.top().to_string_lossy().into_owned();
        let kept = kept_here(&history, &root);
        let Some(left) = self.judge(&kept, request.edits)? else {
            return Err(CheckpointError::NoRepository(self.ctx.root.clone()).into());
        };
        let covers = left.as_ref().map(|left| request.selection.covered(left, &kept)).unwrap_or_default();
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
        let settlement = match left.and_then(|left| select(&checkpointer, request, &before, &history, &kept, left)) {
            Ok(chosen) => self.commit_selected(&mut checkpointer, step, wording, &before, before.clone(), chosen),
            Err(err) => self.failed(step, err),
        };
        self.checkpointer = Some(checkpointer);
        let settlement = settlement?;
        let status = if settlement.error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        self.finish_step(step, &request.operation, status, None, settlement.checkpoint, settlement.error.as_ref())?;
        Ok(StepEnd { status, error: settlement.error, interrupted: false, command_status: None })
    }

    /// Commits what a checkpoint is to hold; `now` is what is on disk.
    pub(super) fn commit_selected(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        now: Snapshot,
        chosen: Chosen,
    ) -> Result<Settlement, RunError> {
        self.record_remainder(step, &chosen)?;
        let Chosen { delta, .. } = chosen;
        if delta.changes.is_empty() {
            self.record(&Event::NoChanges { step, not_captured: Vec::new(), too_large: Vec::new() })?;
            return Ok(Settlement::of(summary(CheckpointStatus::NoChanges)));
        }
        let (after, outside) = (now.clone(), Vec::new());
        self.record(&Event::ChangesFound { step, after, delta: delta.clone(), outside })?;
        let found = Attributed { after: now, delta, outside: Vec::new(), doubt: None };
        let mut settlement = self.commit_or_explain(checkpointer, step, wording, before, found)?;
        // What a hook did was put back; what was to be committed is where it was.
        if let Some(checkpoint) =
            settlement.checkpoint.as_mut().filter(|made| made.status == CheckpointStatus::RolledBack)
        {
            *checkpoint = summary(CheckpointStatus::Failed);
        }
        Ok(settlement)
    }

    fn record_remainder(&mut self, step: u32, chosen: &Chosen) -> Result<(), RunError> {
        let Chosen { dropped, edits, .. } = chosen;
        if !dropped.is_empty() || !edits.is_empty() {
            let (dropped, edits) = (dropped.clone(), edits.clone());
            self.record(&Event::RemainderFound { step, dropped, edits })?;
        }
        Ok(())
    }
}

/// What a checkpoint is to hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Chosen {
    /// From what HEAD has to what the commit is to have.
    pub(super) delta: Delta,
    /// Steps of which nothing is left.
    pub(super) dropped: Vec<StepId>,
    /// Files that are taken with edits of a person.
    pub(super) edits: Vec<RepoPath>,
}

impl Chosen {
    /// Everything that is left of steps, if it can be told from what others did.
    pub(super) fn of(left: Left) -> Result<Self, CheckpointError> {
        left.files.require_clear()?;
        let delta = Delta { changes: left.files.changes, ..Delta::default() };
        Ok(Self { delta, dropped: left.dropped, edits: left.files.included })
    }
}

/// The changes that were asked for.
fn select(
    checkpointer: &Checkpointer,
    request: &CheckpointRequest,
    before: &Snapshot,
    history: &History,
    kept: &[KeptStep],
    left: Left,
) -> Result<Chosen, CheckpointError> {
    match &request.selection {
        Selection::Recorded => return Chosen::of(left),
        Selection::Since(baseline) => {
            let files = baseline.remainder(checkpointer, before, history, kept)?;
            return Chosen::of(Left { files, ..left });
        }
        Selection::Paths(_) | Selection::All => {}
    }
    let mut delta = checkpointer.delta_to_head(before)?;
    delta.changes.retain(|change| request.selection.has(&change.path));
    Ok(Chosen { delta, dropped: left.dropped, edits: Vec::new() })
}

impl Selection {
    fn has(&self, path: &RepoPath) -> bool {
        match self {
            Self::Recorded | Self::All | Self::Since(_) => true,
            Self::Paths(paths) => paths.iter().any(|chosen| path == chosen || path.is_inside(chosen)),
        }
    }

    /// The steps of which nothing is left after a checkpoint of this.
    fn covered(&self, left: &Left, kept: &[KeptStep]) -> Vec<StepId> {
        let paths = left.files.paths();
        let is_covered = |kept: &&KeptStep| {
            let changed = kept.delta.changes.iter().map(|change| &change.path);
            left.steps.contains(&kept.id) && changed.filter(|path| paths.contains(path)).all(|path| self.has(path))
        };
        kept.iter().filter(is_covered).map(|kept| kept.id).collect()
    }
}
