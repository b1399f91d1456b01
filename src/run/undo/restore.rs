//! `restore`: the files that later steps changed, as they were after a step.

use std::collections::{BTreeMap, BTreeSet};

use super::error::UndoError;
use super::target::require_here;
use super::{How, Preview, Undoing, find_now};
use crate::audit::history::{History, Outcome, StepRecord};
use crate::audit::reference::ReferenceError;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{Committed, Operation, Reach};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::StepId;
use crate::journal::event::StepKind;
use crate::journal::summary::RunSummary;
use crate::run::error::RunError;
use crate::run::recovery;
use crate::run::session::{Observer, RunRequest, Session, open_checkpointer};

/// Brings the files that later steps changed back to how they were after a step; none of the paths means all.
pub fn restore(
    ctx: &Context,
    name: &str,
    paths: &[RepoPath],
    request: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    // What was cut off is brought to an end first: it may have changed files.
    recovery::recover_now(ctx, observer)?;
    let (history, repository, root) = find_now(ctx)?;
    let to = super::target::find_last_step(&history, &repository, name)?;
    let (step, combined) = later_changes(&history, &root, to, paths)?;
    let Some(operation) = combined.operation(step) else {
        return Err(UndoError::not_undoable(to, "no later step changed anything").into());
    };
    let session = Session::begin(ctx, &RunRequest { mode: combined.mode, ..request.clone() }, observer)?;
    let how = if combined.mode == CheckpointMode::Auto { How::Commit } else { How::Keep };
    let undoing = Undoing { name: format!("restore {}", step.name), undoes: Vec::new(), how };
    session.reverse(StepKind::Restore { to }, &undoing, &[operation])
}

/// What [`restore`] would do, without doing it.
pub fn preview_restore(ctx: &Context, name: &str, paths: &[RepoPath]) -> Result<Preview, RunError> {
    let (history, repository, root) = find_now(ctx)?;
    let to = super::target::find_last_step(&history, &repository, name)?;
    let (step, combined) = later_changes(&history, &root, to, paths)?;
    let mut preview = Preview::default();
    if let Some(operation) = combined.operation(step) {
        let mut checkpointer = open_checkpointer(ctx)?;
        checkpointer.require_undoable()?;
        let operations = [operation];
        checkpointer.expect_back(&operations)?;
        let now = checkpointer.before()?;
        let inverse = checkpointer.invert(&now, &operations)?.require_writable()?;
        preview = Preview::of(&inverse, &operations, None);
    }
    preview.name_steps([step]);
    Ok(preview)
}

/// Everything that happened to files after a step, in one delta.
struct Combined {
    delta: Delta,
    newest: Option<Snapshot>,
    /// What is in no commit is taken back without one.
    mode: CheckpointMode,
}

impl Combined {
    /// All of it as one operation after a step; none when nothing happened.
    fn operation(&self, step: &StepRecord) -> Option<Operation> {
        Some(Operation {
            before: step.after.clone()?,
            after: self.newest.clone()?,
            delta: self.delta.clone(),
            reach: Reach::Files,
            committed: Committed::No,
        })
    }
}

fn later_changes<'a>(
    history: &'a History,
    root: &'a str,
    to: StepId,
    paths: &[RepoPath],
) -> Result<(&'a StepRecord, Combined), RunError> {
    let step = history.step(to).ok_or_else(|| ReferenceError::Unknown(to.to_string()))?;
    if step.after.is_none() {
        return Err(UndoError::not_undoable(to, "it changed nothing that could be restored").into());
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
    let kept: BTreeSet<&RepoPath> = kept.iter().collect();
    let changes = step.delta.iter().flat_map(|delta| &delta.changes).filter(|change| !kept.contains(&change.path));
    Some(Delta { changes: changes.map(Change::inverse).collect(), ..Delta::default() })
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
