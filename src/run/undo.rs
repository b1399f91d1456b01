//! Undo, redo and restore. Each is a step of its own and therefore reversible.
//!
//! The unit is an operation of this work tree: a step, a checkpoint, a restore, a hard roll back or
//! a finish. [`target`] finds the operations to undo. The checkpoint engine reverts all of them at
//! once, newest first, on top of the current files, with a three-way merge where other lines have
//! changed since. A file that cannot be merged stops everything before anything changes. Commits
//! are undone by a new commit: branches never move backwards. Undoing a checkpoint leaves its
//! content on disk.

pub mod error;
mod preview;
mod restore;
mod reverse;
mod target;
mod written;

pub use preview::{FileEffect, PreviewedFile, PreviewedStep, UndoPreview};
pub use restore::{combine, preview_restore, restore};

use std::collections::BTreeSet;

use error::UndoError;
use reverse::{How, Undoing, reverse};
pub(super) use reverse::{commit_or_put_back, leave_as_it_was};
use target::{UndoDirection, UndoTarget};
pub(super) use written::WrittenPaths;

use super::error::RunError;
use super::pinned_authority::PinnedAuthority;
use super::recovery::{self, OnFault};
use super::session::{Observer, RunRequest, Session};
use super::step::summary;
use crate::audit::history::{History, RecordSource, StepOutcome, StepRecord};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::reversal::{CommittedPart, ReversalScope, StepOperation};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Decision, StepKind};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunSummary};
use crate::journal::{self, RunId};
use crate::workspace::{key_file, open_checkpointer, open_repository};

/// What to undo or redo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoAction<'a> {
    /// Undo the newest operation that is still in effect.
    Undo,
    /// Undo a step or a run, by any of its names.
    UndoNamed(&'a str),
    /// Undo a run.
    UndoRun(&'a str),
    /// Undo every operation after a step.
    UndoTo(&'a str),
    /// Redo the last undo.
    Redo,
    /// Apply an undone step or run again, as a new change.
    RedoNamed(&'a str),
}

impl UndoAction<'_> {
    /// The name of the command.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undo | Self::UndoNamed(_) | Self::UndoRun(_) | Self::UndoTo(_) => "undo",
            Self::Redo | Self::RedoNamed(_) => "redo",
        }
    }
}

/// Performs an undo or redo, within the permissions of a directive if there is one.
pub fn perform(
    ctx: &Context,
    action: UndoAction<'_>,
    request: &RunRequest,
    within: Option<&PinnedAuthority>,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    // Recover interrupted runs first: they decide which operation is the newest.
    recovery::recover_now(ctx, OnFault::Retry, observer)?;
    let (history, repository, root) = find_now(ctx)?;
    let target = find_target(ctx, &history, &repository, &root, action)?;
    let operations = target.operations(&history, &repository)?;
    let is_committed = operations
        .iter()
        .any(|operation| operation.committed != CommittedPart::No);
    let mode = if is_committed {
        CheckpointMode::Auto
    } else {
        CheckpointMode::Explicit
    };
    let session = Session::begin(
        ctx,
        &RunRequest {
            mode,
            ..request.clone()
        },
        observer,
    )?;
    let undoes = if target.way == UndoDirection::Apply {
        Vec::new()
    } else {
        commits_of(&history, &target.steps)
    };
    let kind = target.kind(undoes.first().copied())?;
    let undoing = Undoing {
        name: format!("{} {}", action.as_str(), target.name),
        undoes,
        how: How::Inverse,
        within,
    };
    reverse(session, kind, &undoing, &operations)
}

/// What [`perform`] would do.
pub fn preview(ctx: &Context, action: UndoAction<'_>) -> Result<UndoPreview, RunError> {
    let (history, repository, root) = find_now(ctx)?;
    let target = find_target(ctx, &history, &repository, &root, action)?;
    let operations = target.operations(&history, &repository)?;
    let mut checkpointer = open_checkpointer(ctx)?;
    checkpointer.require_undoable()?;
    checkpointer.expect_back(&operations)?;
    let now = checkpointer.before()?;
    let inverse = checkpointer.invert(&now, &operations)?.require_writable()?;
    let committed = if target.way == UndoDirection::Undo {
        FileEffect::Uncommitted
    } else {
        FileEffect::Committed
    };
    let mut preview = UndoPreview::of(&inverse, &operations, Some(committed));
    preview.name_steps(target.steps.iter().copied());
    if inverse.commit.is_some() && target.way != UndoDirection::Apply {
        preview.commits = commits_of(&history, &target.steps);
    }
    Ok(preview)
}

/// The history, the repository, and the work tree as written in journals.
fn find_now(ctx: &Context) -> Result<(History, Repository, String), RunError> {
    let repository = open_repository(ctx)?;
    let root = repository.top().to_string_lossy().into_owned();
    Ok((History::load_all(&repository)?.0, repository, root))
}

/// The operations to undo, if the journals that say so are authentic.
fn find_target<'h>(
    ctx: &Context,
    history: &'h History,
    repository: &Repository,
    root: &'h str,
    action: UndoAction<'_>,
) -> Result<UndoTarget<'h>, RunError> {
    let target = target::find(history, repository, root, action);
    // A forged line can also hide a step.
    let steps = target.as_ref().map_or(&[][..], |target| &target.steps);
    require_authentic(ctx, history, repository, root, steps)?;
    target
}

/// Fails if another process wrote or removed lines of the journals that record steps, or of a later
/// run in this work tree; of all runs if there are no steps. Files would be written as that process
/// wants.
fn require_authentic(
    ctx: &Context,
    history: &History,
    repository: &Repository,
    root: &str,
    steps: &[&StepRecord],
) -> Result<(), RunError> {
    let key = key_file(ctx).read()?;
    let mut open: BTreeSet<RunId> = steps.iter().map(|step| step.id.run).collect();
    let own = history
        .runs
        .iter()
        .filter(|run| run.root == root && run.source == RecordSource::Journal);
    for run in own {
        journal::require_authentic(&repository.runs_folder(), run.id, key.as_ref())?;
        if open.remove(&run.id) && open.is_empty() {
            break;
        }
    }
    Ok(())
}

/// The changes of steps, in order, as operations that can be reverted together.
pub(super) fn operations_of(
    history: &History,
    git: &Repository,
    steps: &[&StepRecord],
) -> Result<Vec<StepOperation>, RunError> {
    let undone = history.undone();
    let own: Vec<_> = steps.iter().map(|step| step.id).collect();
    let is_covered = |step: &StepRecord| {
        let mut others = history
            .runs
            .iter()
            .flat_map(|run| &run.steps)
            .filter(|step| !own.contains(&step.id));
        others.any(|other| {
            matches!(&other.kind, StepKind::Checkpoint { covers } if covers.contains(&step.id))
                && other.commit().is_some()
                && !undone.contains(&other.id)
        })
    };
    let operation = |step: &&StepRecord| {
        let (Some(before), Some(after), Some(delta)) = (&step.before, &step.after, &step.delta)
        else {
            return Err(UndoError::not_undoable(step.id, "it has no record").into());
        };
        let committed = match step.commit() {
            Some(commit) => CommittedPart::Own(step.committed_changes(git, before, commit)?),
            None if is_covered(step) => CommittedPart::Later,
            None => CommittedPart::No,
        };
        let is_checkpoint = matches!(step.kind, StepKind::Checkpoint { .. });
        let reach = if is_checkpoint {
            ReversalScope::Commit
        } else {
            ReversalScope::Files
        };
        let (before, after, delta) = (before.clone(), after.clone(), delta.clone());
        Ok(StepOperation {
            before,
            after,
            delta,
            reach,
            committed,
        })
    };
    steps.iter().map(operation).collect()
}

/// The commits that hold the changes of steps, in the order of the steps.
pub(super) fn commits_of(history: &History, steps: &[&StepRecord]) -> Vec<ObjectId> {
    let mut commits: Vec<ObjectId> = Vec::new();
    for commit in steps.iter().filter_map(|step| history.commit_of(step)) {
        if !commits.contains(&commit) {
            commits.push(commit);
        }
    }
    commits
}

impl UndoTarget<'_> {
    /// The operations, in the order in which they are reverted.
    fn operations(
        &self,
        history: &History,
        git: &Repository,
    ) -> Result<Vec<StepOperation>, RunError> {
        let operations = operations_of(history, git, &self.steps)?;
        Ok(match self.way {
            UndoDirection::Apply => operations.into_iter().map(StepOperation::inverse).collect(),
            UndoDirection::Undo | UndoDirection::Redo => operations,
        })
    }

    fn kind(&self, commit: Option<ObjectId>) -> Result<StepKind, RunError> {
        let (first, others) = self.steps.split_first().ok_or(UndoError::NothingToUndo)?;
        let (of, also) = (first.id, others.iter().map(|step| step.id).collect());
        Ok(match self.way {
            UndoDirection::Undo => StepKind::Undo { of, also, commit },
            UndoDirection::Redo => StepKind::Redo { of, commit },
            UndoDirection::Apply => StepKind::Apply { of, also },
        })
    }
}

impl StepRecord {
    /// The changes of its commits, as git stores them.
    fn committed_changes(
        &self,
        git: &Repository,
        before: &Snapshot,
        commit: ObjectId,
    ) -> Result<Vec<crate::checkpoint::delta::Change>, CheckpointError> {
        if let (Some(Decision::Commit { delta, .. }), true) =
            (&self.decision, self.adopted.is_empty())
        {
            return Ok(delta.clone());
        }
        // The step made commits itself.
        let Some(made) = git.find_commit(commit)? else {
            return Ok(Vec::new());
        };
        let base = match before.head.commit {
            Some(base) => git.find_commit(base)?.map(|facts| facts.tree),
            None => None,
        };
        let mut changes = git.changes(base.unwrap_or(git.empty_tree()), made.tree)?;
        // Another person may have committed meanwhile; files that the step did not change are
        // theirs.
        let own = self.delta.iter().flat_map(|delta| &delta.changes);
        let own: BTreeSet<&RepoPath> = own.map(|change| &change.path).collect();
        changes.retain(|change| own.contains(&change.path));
        Ok(changes)
    }
}

/// The summary of a finished step, from the journal.
pub(super) fn summary_of(step: &StepRecord) -> CheckpointSummary {
    match &step.outcome {
        StepOutcome::Committed {
            commit,
            files_changed,
            insertions,
            deletions,
            ..
        } => CheckpointSummary {
            status: CheckpointStatus::Committed,
            commit_sha: Some(*commit),
            files_changed: *files_changed,
            insertions: *insertions,
            deletions: *deletions,
        },
        StepOutcome::RolledBack { .. } => summary(CheckpointStatus::RolledBack),
        StepOutcome::NoChanges => summary(CheckpointStatus::NoChanges),
        StepOutcome::Failed { .. } => summary(CheckpointStatus::Failed),
        StepOutcome::Kept { .. } | StepOutcome::Open => summary(CheckpointStatus::Skipped),
    }
}
