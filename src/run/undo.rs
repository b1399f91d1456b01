//! Undo, redo and restore: steps that lead back, each a step of its own and hence reversible.
//!
//! A step is undone by applying the inverse of its delta to what is there now, file by file,
//! three-way where somebody has changed other lines since. A file that cannot be merged stops
//! everything before anything was changed. If the step was committed, so is its undoing: branches
//! never move backwards.

use std::collections::BTreeMap;

use super::error::RunError;
use super::recovery;
use super::session::{Observer, RunRequest, Session};
use super::settle::{Rules, Settlement, Verdict, Wording, explain};
use super::step::{StepEnd, summary};
use crate::audit::history::{History, Outcome, StepRecord};
use crate::audit::reference::{self, ReferenceError};
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::restore::Plan;
use crate::checkpoint::reversal::{Inverse, Reversal};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::StepId;
use crate::journal::event::StepKind;
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunSummary, StepStatus};

/// Which way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Undo a step.
    Undo,
    /// Undo an undo.
    Redo,
}

impl Direction {
    /// The name of the command.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

/// What a restore would do.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Preview {
    /// Files that get other content.
    pub write: Vec<RepoPath>,
    /// Files that vanish.
    pub delete: Vec<RepoPath>,
    /// Files that are already as they were.
    pub keep: Vec<RepoPath>,
    /// Files that somebody has changed in a way that cannot be merged.
    pub skip: Vec<RepoPath>,
}

/// Everything that happened in the work trees of a project.
pub fn history(ctx: &Context) -> Result<History, RunError> {
    let repository = super::session::open_repository(ctx)?;
    Ok(History::load(&repository.runs_folder())?.0)
}

/// As [`undo`], for a step as somebody has called it.
pub fn undo_named(
    ctx: &Context,
    direction: Direction,
    name: Option<&str>,
    request: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    // What was cut off is brought to an end first: it decides which step is the newest.
    recovery::recover_now(ctx, observer)?;
    let history = history(ctx)?;
    let step = name.map(|name| reference::find_step(&history, name)).transpose()?;
    undo(ctx, &history, direction, step, request, observer)
}

/// What [`undo_named`] would do, without doing it: the step, and what would happen to its files.
pub fn preview_undo(ctx: &Context, name: Option<&str>) -> Result<(StepId, Preview), RunError> {
    let history = history(ctx)?;
    let target = name.map(|name| reference::find_step(&history, name)).transpose()?;
    let mut checkpointer = super::session::open_checkpointer(ctx)?;
    checkpointer.require_undoable()?;
    let root = checkpointer.repository().top().to_string_lossy().into_owned();
    let step = find_target(&history, &root, Direction::Undo, target)?;
    let (Some(before), Some(after), Some(delta)) = (&step.before, &step.after, &step.delta) else {
        return Err(RunError::NotUndoable { step: step.id, reason: "nothing of it was recorded" });
    };
    let now = checkpointer.before()?;
    let inverse = checkpointer.invert(&now, &Reversal { before, after, delta })?;
    Ok((step.id, Preview::of(inverse, delta)))
}

/// Undoes the newest step of this work tree that is not undone yet, or the one that is named.
pub fn undo(
    ctx: &Context,
    history: &History,
    direction: Direction,
    target: Option<StepId>,
    request: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    let root = super::session::open_repository(ctx)?.top().to_string_lossy().into_owned();
    let step = find_target(history, &root, direction, target)?;
    let (Some(before), Some(after), Some(delta)) = (&step.before, &step.after, &step.delta) else {
        return Err(RunError::NotUndoable { step: step.id, reason: "nothing of it was recorded" });
    };
    let commit = history.commit_of(step);
    let kind = match direction {
        Direction::Undo => StepKind::Undo { of: step.id, commit },
        Direction::Redo => StepKind::Redo { of: step.id, commit },
    };
    let mode = if commit.is_some() { CheckpointMode::Auto } else { CheckpointMode::Explicit };
    let session = Session::begin(ctx, &RunRequest { mode, ..request.clone() }, observer)?;
    let wording = Undoing {
        name: match direction {
            Direction::Undo => format!("undo {}", step.name),
            Direction::Redo => format!("redo {}", step.name.strip_prefix("undo ").unwrap_or(&step.name)),
        },
        undoes: commit,
    };
    session.reverse(kind, &wording, &Reversal { before, after, delta })
}

/// Brings the files that later steps changed back to how they were after a step.
pub fn restore(
    ctx: &Context,
    history: &History,
    to: StepId,
    paths: &[RepoPath],
    request: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    let root = super::session::open_repository(ctx)?.top().to_string_lossy().into_owned();
    let (step, combined) = later_changes(history, &root, to, paths)?;
    let (Some(after), Some(newest)) = (&step.after, combined.newest.as_ref()) else {
        return Err(RunError::NotUndoable { step: to, reason: "no later step changed anything" });
    };
    let session = Session::begin(ctx, &RunRequest { mode: combined.mode, ..request.clone() }, observer)?;
    let wording = Undoing { name: format!("restore {}", step.name), undoes: None };
    session.reverse(
        StepKind::Restore { to },
        &wording,
        &Reversal { before: after, after: newest, delta: &combined.delta },
    )
}

/// What [`restore`] would do, without doing it.
pub fn preview_restore(ctx: &Context, history: &History, to: StepId, paths: &[RepoPath]) -> Result<Preview, RunError> {
    let mut checkpointer = super::session::open_checkpointer(ctx)?;
    checkpointer.require_undoable()?;
    let root = checkpointer.repository().top().to_string_lossy().into_owned();
    let (step, combined) = later_changes(history, &root, to, paths)?;
    let (Some(after), Some(newest)) = (&step.after, combined.newest.as_ref()) else { return Ok(Preview::default()) };
    let now = checkpointer.before()?;
    let inverse = checkpointer.invert(&now, &Reversal { before: after, after: newest, delta: &combined.delta })?;
    Ok(Preview::of(inverse, &combined.delta))
}

impl Preview {
    fn of(inverse: Inverse, delta: &Delta) -> Self {
        let Inverse { plan, conflicts, .. } = inverse;
        let mut preview = Self { skip: conflicts, ..Self::default() };
        for file in &plan.files {
            match file.target {
                Some(_) => preview.write.push(file.path.clone()),
                None => preview.delete.push(file.path.clone()),
            }
        }
        let moved =
            |path: &RepoPath| [&preview.write, &preview.delete, &preview.skip].iter().any(|paths| paths.contains(path));
        preview.keep = delta.changes.iter().map(|change| &change.path).filter(|path| !moved(path)).cloned().collect();
        preview
    }
}

/// How the run and the commit of an undoing are called.
struct Undoing {
    name: String,
    undoes: Option<ObjectId>,
}

impl Session<'_, '_> {
    fn reverse(mut self, kind: StepKind, undoing: &Undoing, reversal: &Reversal<'_>) -> Result<RunSummary, RunError> {
        let step = self.next_step();
        let Some(mut checkpointer) = self.checkpointer.take() else {
            return Err(RunError::NothingToUndo);
        };
        // Judged before the step begins: a conflict leaves nothing but a run that says so.
        let now = checkpointer.before();
        let inverse = now.and_then(|now| checkpointer.invert(&now, reversal));
        self.checkpointer = Some(checkpointer);
        let inverse = match inverse {
            Ok(inverse) if inverse.conflicts.is_empty() => inverse,
            Ok(inverse) => {
                let err = RunError::Conflict { paths: inverse.conflicts };
                self.abandon(&err)?;
                return Err(err);
            }
            Err(err) => {
                let err = RunError::from(err);
                self.abandon(&err)?;
                return Err(err);
            }
        };
        let before = self.start_step(step, &undoing.name, kind, &[])?;
        let Some(before) = before else { return Err(RunError::NothingToUndo) };
        // Folders get the bits that they had then, not those of today.
        let kept = self.carry_out(&inverse.plan, reversal.before, &inverse.delta)?;
        failpoint("undo-applied");
        let verdict = match self.mode {
            CheckpointMode::Auto => Verdict::Commit,
            _ => Verdict::Keep("the step was in no commit"),
        };
        let undoes: Vec<ObjectId> = undoing.undoes.into_iter().collect();
        let wording = Wording { name: &undoing.name, undoes: &undoes, ..Wording::default() };
        let mut settlement = self.settle(step, wording, &before, verdict, Rules::NONE)?;
        if !kept.is_empty() {
            // Somebody was faster: the rest is done, and what is not is named.
            settlement.error.get_or_insert(explain(&CheckpointError::ChangedSince(kept)));
        }
        self.end_reversal(step, &undoing.name, settlement)
    }

    /// Carries out a plan; returns what was kept because somebody has changed it since.
    fn carry_out(&mut self, plan: &Plan, before: &Snapshot, delta: &Delta) -> Result<Vec<RepoPath>, RunError> {
        let Some(checkpointer) = &mut self.checkpointer else { return Ok(Vec::new()) };
        Ok(checkpointer.apply(plan, before, delta)?.kept)
    }

    fn end_reversal(mut self, step: u32, name: &str, settlement: Settlement) -> Result<RunSummary, RunError> {
        let status = if settlement.error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        let error = settlement.error;
        self.finish_step(step, name, status, None, settlement.checkpoint, error.as_ref())?;
        let end = StepEnd { status, error, interrupted: false };
        self.finish(end.run_status(), end.error)
    }
}

fn find_target<'a>(
    history: &'a History,
    root: &'a str,
    direction: Direction,
    target: Option<StepId>,
) -> Result<&'a StepRecord, RunError> {
    let undone = history.undone();
    let is_undo = |step: &StepRecord| matches!(step.kind, StepKind::Undo { .. });
    let fits = |step: &StepRecord| match direction {
        Direction::Undo => {
            let is_own =
                matches!(step.kind, StepKind::Redo { .. } | StepKind::Checkpoint { .. } | StepKind::RollBackRun { .. });
            !is_undo(step) && !is_own
        }
        Direction::Redo => is_undo(step),
    };
    if let Some(id) = target {
        let step = history.step(id).ok_or_else(|| ReferenceError::Unknown(id.to_string()))?;
        require_here(history, root, step)?;
        let refuse = |reason| Err(RunError::NotUndoable { step: id, reason });
        return match &step.outcome {
            _ if undone.contains(&id) => refuse("it is undone already"),
            Outcome::RolledBack { .. } => refuse("it was rolled back already"),
            Outcome::NoChanges => refuse("it changed nothing"),
            Outcome::Open => refuse("it has not ended"),
            _ if !step.has_changes() => refuse("it changed nothing"),
            _ => Ok(step),
        };
    }
    let nothing = match direction {
        Direction::Undo => RunError::NothingToUndo,
        Direction::Redo => RunError::NothingToRedo,
    };
    history
        .steps_in(root)
        .find(|step| fits(step) && step.took_effect() && step.has_changes() && !undone.contains(&step.id))
        .ok_or(nothing)
}

/// A step of another work tree says nothing about the files of this one.
fn require_here(history: &History, root: &str, step: &StepRecord) -> Result<(), RunError> {
    match history.run(step.id.run) {
        Some(run) if run.root != root => {
            Err(RunError::NotUndoable { step: step.id, reason: "it was made in another work tree" })
        }
        _ => Ok(()),
    }
}

/// Everything that happened to files after a step, in one delta.
struct Combined {
    delta: Delta,
    newest: Option<Snapshot>,
    /// What is in no commit is taken back without one.
    mode: CheckpointMode,
}

fn later_changes<'a>(
    history: &'a History,
    root: &'a str,
    to: StepId,
    paths: &[RepoPath],
) -> Result<(&'a StepRecord, Combined), RunError> {
    let step = history.step(to).ok_or_else(|| ReferenceError::Unknown(to.to_string()))?;
    if step.after.is_none() {
        return Err(RunError::NotUndoable { step: to, reason: "it changed nothing that could be restored" });
    }
    require_here(history, root, step)?;
    let later: Vec<&StepRecord> = history.steps_in(root).take_while(|later| later.id != to).collect();
    let effective = later
        .into_iter()
        .rev()
        .filter(|step| step.took_effect() && step.has_changes() && !matches!(step.kind, StepKind::Checkpoint { .. }));
    let steps: Vec<&StepRecord> = effective.collect();
    let rolled_back = taken_back(step);
    let found = rolled_back.as_ref().and(step.before.as_ref());
    let newest = steps.last().and_then(|step| step.after.as_ref()).or(found).cloned();
    let wanted = |path: &RepoPath| paths.is_empty() || paths.iter().any(|other| path == other || path.is_inside(other));
    let mut delta = combine(rolled_back.iter().chain(steps.iter().filter_map(|step| step.delta.as_ref())));
    delta.changes.retain(|change| wanted(&change.path));
    // What was put back had failed or was not allowed: it comes back to be looked at, not into a commit.
    let committed = rolled_back.is_none() && steps.iter().all(|step| history.commit_of(step).is_some());
    let mode = if committed { CheckpointMode::Auto } else { CheckpointMode::Explicit };
    Ok((step, Combined { delta, newest, mode }))
}

/// What a roll back did right after a step, if there was one.
fn taken_back(step: &StepRecord) -> Option<Delta> {
    let Outcome::RolledBack { kept, .. } = &step.outcome else { return None };
    let changes = step.delta.iter().flat_map(|delta| &delta.changes).filter(|change| !kept.contains(&change.path));
    let inverse = |change: &Change| Change {
        path: change.path.clone(),
        before: change.after,
        after: change.before,
        insertions: change.deletions,
        deletions: change.insertions,
    };
    Some(Delta { changes: changes.map(inverse).collect(), ..Delta::default() })
}

/// Several deltas in a row as one: what each file was at first and is at last.
pub fn combine<'a>(deltas: impl Iterator<Item = &'a Delta>) -> Delta {
    let mut changes: BTreeMap<RepoPath, Change> = BTreeMap::new();
    for change in deltas.flat_map(|delta| &delta.changes) {
        changes
            .entry(change.path.clone())
            .and_modify(|known| known.after = change.after)
            .or_insert_with(|| change.clone());
    }
    changes.retain(|_, change| change.before != change.after);
    Delta { changes: changes.into_values().collect(), ..Delta::default() }
}

/// What the journal of a finished step says, in the words of a summary.
pub(super) fn summary_of(step: &StepRecord) -> CheckpointSummary {
    match &step.outcome {
        Outcome::Committed { commit, files_changed, insertions, deletions, .. } => CheckpointSummary {
            status: CheckpointStatus::Committed,
            commit_sha: Some(*commit),
            files_changed: *files_changed,
            insertions: *insertions,
            deletions: *deletions,
        },
        Outcome::RolledBack { .. } => summary(CheckpointStatus::RolledBack),
        Outcome::NoChanges => summary(CheckpointStatus::NoChanges),
        Outcome::Failed { .. } => summary(CheckpointStatus::Failed),
        Outcome::Kept { .. } | Outcome::Open => summary(CheckpointStatus::Skipped),
    }
}
