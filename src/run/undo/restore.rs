//! `restore`: resets files to their state after a step.

use std::collections::{BTreeMap, BTreeSet};

use super::error::UndoError;
use super::target::require_here;
use super::{How, UndoPreview, Undoing, find_now, require_authentic};
use crate::audit::history::{History, StepOutcome, StepRecord};
use crate::audit::reference::ReferenceError;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{CommittedPart, ReversalScope, StepOperation};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::StepId;
use crate::journal::event::StepKind;
use crate::journal::summary::RunSummary;
use crate::run::error::RunError;
use crate::run::pinned_authority::PinnedAuthority;
use crate::run::recovery::{self, OnFault};
use crate::run::session::{Observer, RunRequest, Session};
use crate::workspace::open_checkpointer;

/// Resets files that later steps changed to their state after a step; no paths means all.
pub fn restore(
    ctx: &Context,
    name: &str,
    paths: &[RepoPath],
    request: &RunRequest,
    within: Option<&PinnedAuthority>,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    // Recover interrupted runs first: they may have changed files.
    recovery::recover_now(ctx, OnFault::Retry, observer)?;
    let (history, repository, root) = find_now(ctx)?;
    let to = super::target::find_last_step(&history, &repository, name)?;
    let (step, combined) = later_changes(&history, &root, to, paths)?;
    require_authentic(ctx, &history, &repository, &root, &combined.steps)?;
    let Some(operation) = combined.operation(step) else {
        return Err(UndoError::not_undoable(to, "no later step changed anything").into());
    };
    let session = Session::begin(
        ctx,
        &RunRequest {
            mode: combined.mode,
            ..request.clone()
        },
        observer,
    )?;
    let how = if combined.mode == CheckpointMode::Auto {
        How::Commit
    } else {
        How::Keep
    };
    let undoing = Undoing {
        name: format!("restore {}", step.name),
        undoes: Vec::new(),
        how,
        within,
    };
    super::reverse(session, StepKind::Restore { to }, &undoing, &[operation])
}

/// What [`restore`] would do.
pub fn preview_restore(
    ctx: &Context,
    name: &str,
    paths: &[RepoPath],
) -> Result<UndoPreview, RunError> {
    let (history, repository, root) = find_now(ctx)?;
    let to = super::target::find_last_step(&history, &repository, name)?;
    let (step, combined) = later_changes(&history, &root, to, paths)?;
    require_authentic(ctx, &history, &repository, &root, &combined.steps)?;
    let mut preview = UndoPreview::default();
    if let Some(operation) = combined.operation(step) {
        let mut checkpointer = open_checkpointer(ctx)?;
        checkpointer.require_undoable()?;
        let operations = [operation];
        checkpointer.expect_back(&operations)?;
        let now = checkpointer.before()?;
        let inverse = checkpointer.invert(&now, &operations)?.require_writable()?;
        preview = UndoPreview::of(&inverse, &operations, None);
    }
    preview.name_steps([step]);
    Ok(preview)
}

/// All later changes to files, in one delta.
struct Combined<'h> {
    /// The steps with these changes, and the one before them.
    steps: Vec<&'h StepRecord>,
    delta: Delta,
    newest: Option<Snapshot>,
    /// Uncommitted changes are reverted without a commit.
    mode: CheckpointMode,
}

impl Combined<'_> {
    /// All of them as one operation after a step; `None` if there are none.
    fn operation(&self, step: &StepRecord) -> Option<StepOperation> {
        Some(StepOperation {
            before: step.after.clone()?,
            after: self.newest.clone()?,
            delta: self.delta.clone(),
            reach: ReversalScope::Files,
            committed: CommittedPart::No,
        })
    }
}

fn later_changes<'a>(
    history: &'a History,
    root: &'a str,
    to: StepId,
    paths: &[RepoPath],
) -> Result<(&'a StepRecord, Combined<'a>), RunError> {
    let step = history
        .step(to)
        .ok_or_else(|| ReferenceError::Unknown(to.to_string()))?;
    if step.after.is_none() {
        return Err(
            UndoError::not_undoable(to, "it changed nothing that could be restored").into(),
        );
    }
    require_here(history, root, step)?;
    let later: Vec<&StepRecord> = history
        .steps_in(root)
        .take_while(|later| later.id != to)
        .collect();
    let effective = later.into_iter().rev().filter(|step| {
        step.took_effect()
            && step.has_changes()
            && !matches!(step.kind, StepKind::Checkpoint { .. })
    });
    let steps: Vec<&StepRecord> = effective.collect();
    let rolled_back = taken_back(step);
    let found = rolled_back.as_ref().and(step.before.as_ref());
    let newest = steps
        .last()
        .and_then(|step| step.after.as_ref())
        .or(found)
        .cloned();
    let wanted = |path: &RepoPath| {
        paths.is_empty()
            || paths
                .iter()
                .any(|other| path == other || path.is_inside(other))
    };
    let mut delta = combine(
        rolled_back
            .iter()
            .chain(steps.iter().filter_map(|step| step.delta.as_ref())),
    );
    delta.changes.retain(|change| wanted(&change.path));
    // Rolled-back changes had failed or were not allowed: they are restored for inspection, not for
    // a commit.
    let committed =
        rolled_back.is_none() && steps.iter().all(|step| history.commit_of(step).is_some());
    let mode = if committed {
        CheckpointMode::Auto
    } else {
        CheckpointMode::Explicit
    };
    let steps = std::iter::once(step).chain(steps).collect();
    Ok((
        step,
        Combined {
            steps,
            delta,
            newest,
            mode,
        },
    ))
}

/// The changes of the roll back right after a step, if there was one.
fn taken_back(step: &StepRecord) -> Option<Delta> {
    let StepOutcome::RolledBack { kept, .. } = &step.outcome else {
        return None;
    };
    let kept: BTreeSet<&RepoPath> = kept.iter().collect();
    let changes = step
        .delta
        .iter()
        .flat_map(|delta| &delta.changes)
        .filter(|change| !kept.contains(&change.path));
    Some(Delta {
        changes: changes.map(Change::inverse).collect(),
        ..Delta::default()
    })
}

/// Combines consecutive deltas into one: the first and the last state of each file.
pub fn combine<'a>(deltas: impl Iterator<Item = &'a Delta>) -> Delta {
    let mut changes: BTreeMap<RepoPath, Change> = BTreeMap::new();
    for change in deltas.flat_map(|delta| &delta.changes) {
        changes
            .entry(change.path.clone())
            .and_modify(|known| known.after = change.after)
            .or_insert_with(|| change.clone());
    }
    changes.retain(|_, change| change.before != change.after);
    Delta {
        changes: changes.into_values().collect(),
        ..Delta::default()
    }
}
