//! What a person is asked to approve: the files that a commit would contain, read from disk.
//!
//! [`Review::tree`] identifies them. An approval names the tree that was shown; if the disk has
//! changed since, the approval is refused and the question is asked again.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::error::RunError;
use super::remainder::{KeptStep, Left, left_of};
use super::settle::stages;
use crate::audit::history::{History, RunRecord, StepRecord};
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::{Entry, ObjectId};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::remainder::{EditsSince, RecordedChanges};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::journal::event::{StepKind, Wait};
use crate::workspace::open_checkpointer;

/// The changes that a person is asked to approve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    /// The tree of the commit.
    pub tree: ObjectId,
    /// Its changes relative to HEAD.
    pub changes: Vec<Change>,
    /// Files that were edited while the run waited; the tree includes these edits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<RepoPath>,
    /// Files that the commit leaves out because steps and other processes changed the same lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unclear: Vec<RepoPath>,
}

/// A review with the data that it was made from.
#[derive(Debug)]
pub(super) struct Reviewed {
    pub(super) review: Review,
    /// The snapshot of the disk.
    pub(super) now: Snapshot,
    /// The changes since the step began that belong to the run.
    pub(super) found: Attributed,
    /// The uncommitted changes of earlier steps, with later edits.
    pub(super) left: Option<Left>,
}

/// The review of the waiting step of a run; `None` if an approval would commit nothing or
/// checkpoints are disabled.
pub fn review(
    ctx: &Context,
    history: &History,
    run: &RunRecord,
) -> Result<Option<Review>, RunError> {
    let open = run.steps.last().filter(|step| step.status.is_none());
    let Some(open) = open.filter(|open| is_asked(open)) else {
        return Ok(None);
    };
    let mut checkpointer = match open_checkpointer(ctx) {
        Ok(checkpointer) => checkpointer,
        Err(CheckpointError::NoRepository(_)) => return Ok(None),
        Err(err) => return Err(err.into()),
    };
    let found = look(&mut checkpointer, history, run, open)?;
    Ok(found.map(|found| found.review))
}

/// Whether a step waits for a person's approval.
fn is_asked(open: &StepRecord) -> bool {
    open.before.is_some() && matches!(open.wait, Some(Wait::Person { .. } | Wait::Changes))
}

/// As [`review`], for the run itself.
pub(super) fn look(
    checkpointer: &mut Checkpointer,
    history: &History,
    run: &RunRecord,
    open: &StepRecord,
) -> Result<Option<Reviewed>, CheckpointError> {
    let Some(before) = open.before.as_ref().filter(|_| is_asked(open)) else {
        return Ok(None);
    };
    checkpointer.remember_rules(before)?;
    let now = checkpointer.after(before)?;
    let delta = checkpointer.delta(before, &now)?;
    // A person's edits belong to the run if the run has changed the same files; other files stay
    // the person's own.
    let is_action =
        matches!(&open.kind, StepKind::Human { gate } if gate == super::directive::HUMAN_ACTION);
    let deltas = run
        .steps
        .iter()
        .chain([open])
        .filter_map(|step| step.delta.as_ref());
    let paths: BTreeSet<&RepoPath> = deltas
        .flat_map(|delta| &delta.changes)
        .map(|change| &change.path)
        .collect();
    let has = |path: &RepoPath| is_action || paths.contains(path);
    let index = open
        .after
        .as_ref()
        .is_some_and(|after| stages(before, after));
    let found = checkpointer.attribute(
        before,
        now.clone(),
        delta,
        Ownership {
            has: &has,
            index,
            ..Ownership::EVERYTHING
        },
    )?;
    let is_own_work =
        open.wait == Some(Wait::Changes) && !matches!(open.kind, StepKind::Checkpoint { .. });
    let reviewed = if is_own_work {
        of_changes(checkpointer, open, before, now, found)?
    } else {
        of_earlier_steps(checkpointer, history, run, before, now, found)?
    };
    Ok(Some(reviewed))
}

/// A step whose own changes wait for a decision.
fn of_changes(
    checkpointer: &Checkpointer,
    open: &StepRecord,
    before: &Snapshot,
    now: Snapshot,
    found: Attributed,
) -> Result<Reviewed, CheckpointError> {
    let recorded = open.delta.clone().unwrap_or_default();
    let edits = edited(&recorded.changes, &found.delta.changes);
    let found = match &open.after {
        // As the step left it, with the recorded data.
        Some(after) if edits.is_empty() => Attributed {
            after: after.clone(),
            delta: recorded,
            outside: open.outside.clone(),
            doubt: None,
        },
        _ => Attributed {
            outside: open.outside.clone(),
            ..found
        },
    };
    let plan = checkpointer.plan_commit(&before.head, &found.delta)?;
    let review = Review {
        tree: plan.tree,
        changes: plan.changes,
        edits,
        unclear: Vec::new(),
    };
    Ok(Reviewed {
        review,
        now,
        found,
        left: None,
    })
}

/// A step that asks about the changes of earlier steps, including later edits by a person.
fn of_earlier_steps(
    checkpointer: &Checkpointer,
    history: &History,
    run: &RunRecord,
    before: &Snapshot,
    now: Snapshot,
    found: Attributed,
) -> Result<Reviewed, CheckpointError> {
    let pending = history.pending(&run.root);
    let kept: Vec<KeptStep> = pending
        .into_iter()
        .filter(|step| step.id.run == run.id)
        .filter_map(KeptStep::of)
        .collect();
    let since = RecordedChanges {
        head: before.head.commit,
        delta: &found.delta,
    };
    let left = left_of(checkpointer, &now, &kept, Some(since), EditsSince::LeaveOut)?;
    let delta = Delta {
        changes: left.files.changes.clone(),
        ..Delta::default()
    };
    let plan = checkpointer.plan_commit(&now.head, &delta)?;
    let edits = found
        .delta
        .changes
        .iter()
        .map(|change| change.path.clone())
        .collect();
    let unclear = left
        .files
        .edited
        .iter()
        .chain(&left.files.overlaps)
        .cloned()
        .collect();
    let review = Review {
        tree: plan.tree,
        changes: plan.changes,
        edits,
        unclear,
    };
    Ok(Reviewed {
        review,
        now,
        found,
        left: Some(left),
    })
}

/// The files that differ from their recorded state.
fn edited(recorded: &[Change], now: &[Change]) -> Vec<RepoPath> {
    let states = |changes: &'_ [Change]| -> BTreeMap<RepoPath, (Option<Entry>, Option<Entry>)> {
        changes
            .iter()
            .map(|change| (change.path.clone(), (change.before, change.after)))
            .collect()
    };
    let (recorded, now) = (states(recorded), states(now));
    let paths: BTreeSet<&RepoPath> = recorded.keys().chain(now.keys()).collect();
    paths
        .into_iter()
        .filter(|path| recorded.get(*path) != now.get(*path))
        .cloned()
        .collect()
}
