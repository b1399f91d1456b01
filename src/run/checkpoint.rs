//! A checkpoint outside a step: commits uncommitted changes of earlier steps, or named files.
//!
//! [`git_checkpoint`] has the interface of the `git_checkpoint` directive.

use std::cell::RefCell;

use serde::Serialize;
use serde_json::{Map, Value};

use super::baseline::Baseline;
use super::error::RunError;
use super::pinned_authority::PinnedAuthority;
use super::recorder::Recorder;
use super::remainder::{KeptStep, Left, kept_here, left_of};
use super::session::{Observer, RunRequest, Session, no_repository};
use super::settle::{self, ChangesVerdict, Settlement, Wording};
use super::step::{StepEnd, summary};
use super::undo::combine;
use crate::audit::history::History;
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::remainder::{EditsSince, Remainder};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::StepId;
use crate::journal::event::{Event, StepKind, Wait};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunSummary, StepStatus};
use crate::problem::Problem;
use crate::workspace::open_checkpointer;

/// What to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitSelection {
    /// The uncommitted changes of steps in this work tree.
    Recorded,
    /// Everything that differs from HEAD below these paths.
    Paths(Vec<RepoPath>),
    /// Everything that differs from HEAD.
    All,
    /// The uncommitted changes of steps, and all other changes since a baseline.
    Since(Box<Baseline>),
}

#[derive(Clone, Debug)]
pub struct CheckpointRequest {
    pub selection: CommitSelection,
    /// What the commit is about; also the name of the step.
    pub operation: String,
    pub message: Option<String>,
    /// The directive that asked for the checkpoint.
    pub directive: Option<String>,
    /// What to do with edits that were made to the files of steps afterwards.
    pub edits: EditsSince,
    /// The directive whose permissions limit what is committed.
    pub within: Option<PinnedAuthority>,
}

/// The result of `git_checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum GitCheckpoint {
    Committed {
        commit_sha: ObjectId,
        commit_message: String,
        files_changed: u64,
        insertions: u64,
        deletions: u64,
    },
    NoChanges,
    Failed {
        reason: String,
        /// The state of the work tree.
        state: FailedState,
    },
}

/// The state of the work tree after a failed checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedState {
    /// The changes were put back.
    RolledBack,
    /// Nothing was touched.
    Unchanged,
}

impl GitCheckpoint {
    fn of(
        step: Option<&CheckpointSummary>,
        error: Option<&Problem>,
        commit_message: String,
    ) -> Self {
        match (step, error) {
            (_, Some(error)) => {
                let rolled_back =
                    step.is_some_and(|step| step.status == CheckpointStatus::RolledBack);
                let state = if rolled_back {
                    FailedState::RolledBack
                } else {
                    FailedState::Unchanged
                };
                Self::Failed {
                    reason: error.message(),
                    state,
                }
            }
            (Some(step), None) => match step.commit_sha {
                Some(commit_sha) => Self::Committed {
                    commit_sha,
                    commit_message,
                    files_changed: step.files_changed,
                    insertions: step.insertions,
                    deletions: step.deletions,
                },
                None => Self::NoChanges,
            },
            (None, None) => Self::NoChanges,
        }
    }

    /// The outputs of the directive.
    fn outputs(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(outputs)) => outputs,
            _ => Map::new(),
        }
    }
}

/// Makes a checkpoint with the interface of the `git_checkpoint` directive; the run has its outputs.
pub fn git_checkpoint(
    ctx: &Context,
    request: &CheckpointRequest,
    run: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<(GitCheckpoint, RunSummary), RunError> {
    let message = RefCell::new(String::new());
    let mut hear = |event: &Event| {
        if let Event::Committed { message: text, .. } = event {
            message.borrow_mut().clone_from(text);
        }
        observer(event);
    };
    let mut session = begin(ctx, run, &mut hear)?;
    match commit_by_itself(&mut session, request) {
        Ok((end, made)) => {
            let made =
                GitCheckpoint::of(made.as_ref(), end.error.as_ref(), message.borrow().clone());
            session.recorder.outputs = made.outputs();
            Ok((made, session.finish(end.run_status(), end.error)?))
        }
        Err(err) => {
            session.abandon(&err)?;
            Err(err)
        }
    }
}

/// Commits the selected changes.
pub fn checkpoint(
    ctx: &Context,
    request: &CheckpointRequest,
    run: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    let mut session = begin(ctx, run, observer)?;
    match commit_by_itself(&mut session, request) {
        Ok((end, _)) => session.finish(end.run_status(), end.error),
        Err(err) => {
            session.abandon(&err)?;
            Err(err)
        }
    }
}

fn begin<'a>(
    ctx: &'a Context,
    run: &RunRequest,
    observer: &'a mut Observer<'_>,
) -> Result<Session<'a>, RunError> {
    Session::begin(
        ctx,
        &RunRequest {
            mode: CheckpointMode::Auto,
            ..run.clone()
        },
        observer,
    )
}

/// What a checkpoint of the uncommitted changes of steps would commit.
pub fn preview(ctx: &Context) -> Result<Vec<Change>, RunError> {
    let mut checkpointer = open_checkpointer(ctx)?;
    checkpointer.require_undoable()?;
    let now = checkpointer.before()?;
    let (history, _) = History::load(&checkpointer.repository().runs_folder())?;
    let root = checkpointer
        .repository()
        .top()
        .to_string_lossy()
        .into_owned();
    let kept = kept_here(&history, &root);
    let left = left_of(&checkpointer, &now, &kept, None, EditsSince::LeaveOut)?;
    planned(&checkpointer, &now, left.files)
}

/// The changes of a commit of the rest of recorded changes.
pub(super) fn planned(
    checkpointer: &Checkpointer,
    now: &Snapshot,
    left: Remainder,
) -> Result<Vec<Change>, RunError> {
    left.require_clear()?;
    let delta = Delta {
        changes: left.changes,
        ..Delta::default()
    };
    Ok(checkpointer.plan_commit(&now.head, &delta)?.changes)
}

/// Commits the uncommitted changes of earlier steps of the run, as a step of its own.
pub(super) fn commit_pending(
    session: &mut Session<'_>,
    wording: Wording<'_>,
    pending: &[KeptStep],
    verdict: ChangesVerdict,
) -> Result<(), RunError> {
    let step = session.recorder.next_step();
    let left = judge(session, pending, EditsSince::LeaveOut)?;
    let covers = match &left {
        Some(Ok(left)) => left.steps.clone(),
        _ => pending.iter().map(|kept| kept.id).collect(),
    };
    let before = session.start_step(step, wording.name, StepKind::Checkpoint { covers }, &[])?;
    let recorder = &mut session.recorder;
    let settlement = match (left, before, &mut session.checkpointer) {
        (Some(left), Some(before), Some(checkpointer)) => settle_pending(
            recorder,
            checkpointer,
            step,
            wording,
            &before,
            left,
            verdict,
        )?,
        _ => recorder.skip_checkpoint(step)?,
    };
    if settlement.asked {
        return Ok(());
    }
    let error = settlement.error;
    let status = if error.is_none() {
        StepStatus::Succeeded
    } else {
        StepStatus::Failed
    };
    recorder.finish_step(
        step,
        wording.name,
        status,
        None,
        settlement.checkpoint,
        error.as_ref(),
    )
}

fn settle_pending(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    left: Result<Left, CheckpointError>,
    verdict: ChangesVerdict,
) -> Result<Settlement, RunError> {
    let chosen = match left.and_then(Chosen::of) {
        Ok(chosen) => chosen,
        Err(err) => return settle::failed(recorder, step, err),
    };
    if verdict == ChangesVerdict::Ask && !chosen.delta.changes.is_empty() {
        record_remainder(recorder, step, &chosen)?;
        let (after, delta, outside) = (before.clone(), chosen.delta, Vec::new());
        recorder.record(&Event::ChangesFound {
            step,
            after,
            delta,
            outside,
        })?;
        recorder.record(&Event::Waiting {
            step,
            wait: Wait::Changes,
        })?;
        return Ok(Settlement {
            asked: true,
            ..Settlement::of(summary(CheckpointStatus::Skipped))
        });
    }
    commit_selected(
        recorder,
        checkpointer,
        step,
        wording,
        before,
        before.clone(),
        chosen,
    )
}

/// Compares steps with the disk and HEAD as they are now; `None` without a repository. The next
/// step starts from this snapshot.
pub(super) fn judge(
    session: &mut Session<'_>,
    kept: &[KeptStep],
    edits: EditsSince,
) -> Result<Option<Result<Left, CheckpointError>>, RunError> {
    let Some(checkpointer) = &mut session.checkpointer else {
        return Ok(None);
    };
    let now = match &mut session.found {
        Some(found) => found,
        none => none.insert(checkpointer.before()?),
    };
    Ok(Some(left_of(checkpointer, now, kept, None, edits)))
}

/// The files that steps of the run changed and no commit holds.
pub(super) fn uncommitted(session: &mut Session<'_>) -> Vec<RepoPath> {
    let pending = session
        .recorder
        .state
        .as_ref()
        .map(|state| state.pending.clone())
        .unwrap_or_default();
    if pending.is_empty() {
        return Vec::new();
    }
    // The snapshot from the start of the run is outdated at its end.
    session.found = None;
    match judge(session, &pending, EditsSince::LeaveOut) {
        Ok(Some(Ok(left))) => left.files.paths(),
        // The files cannot be read now: assume that all recorded changes are still there.
        _ => combine(pending.iter().map(|kept| &kept.delta))
            .changes
            .into_iter()
            .map(|it| it.path)
            .collect(),
    }
}

/// Commits the selected changes as the only step of a run; also returns what became of the checkpoint.
fn commit_by_itself(
    session: &mut Session<'_>,
    request: &CheckpointRequest,
) -> Result<(StepEnd, Option<CheckpointSummary>), RunError> {
    let repository = session.repository()?;
    let (history, _) = History::load(&repository.runs_folder())?;
    let root = repository.top().to_string_lossy().into_owned();
    let kept = kept_here(&history, &root);
    let Some(left) = judge(session, &kept, request.edits)? else {
        return Err(no_repository(session.recorder.ctx));
    };
    let covers = left
        .as_ref()
        .map(|left| request.selection.covered(left, &kept))
        .unwrap_or_default();
    require_permitted(session, request, &history, &kept, &left)?;
    let step = session.recorder.next_step();
    let before = session.start_step(
        step,
        &request.operation,
        StepKind::Checkpoint { covers },
        &[],
    )?;
    let Some(before) = before else {
        return Err(no_repository(session.recorder.ctx));
    };
    let (recorder, checkpointer) = session.with_git()?;
    let wording = Wording {
        name: &request.operation,
        given: request.message.as_deref(),
        directive: request.directive.as_deref(),
        ..Wording::default()
    };
    let settlement =
        match left.and_then(|left| select(checkpointer, request, &before, &history, &kept, left)) {
            Ok(chosen) => commit_selected(
                recorder,
                checkpointer,
                step,
                wording,
                &before,
                before.clone(),
                chosen,
            ),
            Err(err) => settle::failed(recorder, step, err),
        }?;
    let status = if settlement.error.is_none() {
        StepStatus::Succeeded
    } else {
        StepStatus::Failed
    };
    recorder.finish_step(
        step,
        &request.operation,
        status,
        None,
        settlement.checkpoint.clone(),
        settlement.error.as_ref(),
    )?;
    let end = StepEnd {
        status,
        error: settlement.error,
        interrupted: false,
        command_status: None,
    };
    Ok((end, settlement.checkpoint))
}

/// Refuses to commit files that the directive does not permit to change, before the step begins. An
/// error of the selection itself is reported by the step.
fn require_permitted(
    session: &Session<'_>,
    request: &CheckpointRequest,
    history: &History,
    kept: &[KeptStep],
    left: &Result<Left, CheckpointError>,
) -> Result<(), RunError> {
    let (Some(within), Ok(left), Some(checkpointer), Some(now)) =
        (&request.within, left, &session.checkpointer, &session.found)
    else {
        return Ok(());
    };
    let Ok(chosen) = select(checkpointer, request, now, history, kept, left.clone()) else {
        return Ok(());
    };
    let paths = chosen.delta.changes.iter().map(|change| &change.path);
    within.require_writes(session.recorder.ctx, checkpointer.repository(), paths)?;
    Ok(())
}

/// Commits the chosen changes; `now` is the state on disk.
pub(super) fn commit_selected(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    now: Snapshot,
    chosen: Chosen,
) -> Result<Settlement, RunError> {
    record_remainder(recorder, step, &chosen)?;
    let Chosen { delta, .. } = chosen;
    if delta.changes.is_empty() {
        recorder.record(&Event::NoChanges {
            step,
            not_captured: Vec::new(),
            too_large: Vec::new(),
        })?;
        return Ok(Settlement::of(summary(CheckpointStatus::NoChanges)));
    }
    let (after, outside) = (now.clone(), Vec::new());
    recorder.record(&Event::ChangesFound {
        step,
        after,
        delta: delta.clone(),
        outside,
    })?;
    let found = Attributed {
        after: now,
        delta,
        outside: Vec::new(),
        doubt: None,
    };
    let mut settlement =
        settle::commit_or_explain(recorder, checkpointer, step, wording, before, found)?;
    // The hook's changes were rolled back; the changes to commit are still on disk.
    if let Some(checkpoint) = settlement
        .checkpoint
        .as_mut()
        .filter(|made| made.status == CheckpointStatus::RolledBack)
    {
        *checkpoint = summary(CheckpointStatus::Failed);
    }
    Ok(settlement)
}

fn record_remainder(
    recorder: &mut Recorder<'_>,
    step: u32,
    chosen: &Chosen,
) -> Result<(), RunError> {
    let Chosen { dropped, edits, .. } = chosen;
    if !dropped.is_empty() || !edits.is_empty() {
        let (dropped, edits) = (dropped.clone(), edits.clone());
        recorder.record(&Event::RemainderFound {
            step,
            dropped,
            edits,
        })?;
    }
    Ok(())
}

/// The changes to commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Chosen {
    /// The difference from HEAD to the commit.
    pub(super) delta: Delta,
    /// Steps whose changes are all gone.
    pub(super) dropped: Vec<StepId>,
    /// Files that include a person's edits.
    pub(super) edits: Vec<RepoPath>,
}

impl Chosen {
    /// All uncommitted changes of steps; fails if they cannot be told apart from other changes.
    pub(super) fn of(left: Left) -> Result<Self, CheckpointError> {
        left.files.require_clear()?;
        let delta = Delta {
            changes: left.files.changes,
            ..Delta::default()
        };
        Ok(Self {
            delta,
            dropped: left.dropped,
            edits: left.files.included,
        })
    }
}

/// The selected changes.
fn select(
    checkpointer: &Checkpointer,
    request: &CheckpointRequest,
    before: &Snapshot,
    history: &History,
    kept: &[KeptStep],
    left: Left,
) -> Result<Chosen, CheckpointError> {
    match &request.selection {
        CommitSelection::Recorded => return Chosen::of(left),
        CommitSelection::Since(baseline) => {
            let files = baseline.remainder(checkpointer, before, history, kept)?;
            return Chosen::of(Left { files, ..left });
        }
        CommitSelection::Paths(_) | CommitSelection::All => {}
    }
    let mut delta = checkpointer.delta_to_head(before)?;
    delta
        .changes
        .retain(|change| request.selection.has(&change.path));
    Ok(Chosen {
        delta,
        dropped: left.dropped,
        edits: Vec::new(),
    })
}

impl CommitSelection {
    fn has(&self, path: &RepoPath) -> bool {
        match self {
            Self::Recorded | Self::All | Self::Since(_) => true,
            Self::Paths(paths) => paths
                .iter()
                .any(|chosen| path == chosen || path.is_inside(chosen)),
        }
    }

    /// The steps that have no uncommitted changes after this checkpoint.
    fn covered(&self, left: &Left, kept: &[KeptStep]) -> Vec<StepId> {
        let paths = left.files.paths();
        let is_covered = |kept: &&KeptStep| {
            let changed = kept.delta.changes.iter().map(|change| &change.path);
            left.steps.contains(&kept.id)
                && changed
                    .filter(|path| paths.contains(path))
                    .all(|path| self.has(path))
        };
        kept.iter().filter(is_covered).map(|kept| kept.id).collect()
    }
}
