//! Undo, redo and restore: steps that lead back, each a step of its own and hence reversible.
//!
//! The unit is an operation of this work tree: a step, a checkpoint, a restore, a hard roll back, a finish. [`target`]
//! finds those that are meant; the checkpoint engine takes all of them back as one, newest first, on top of what is
//! there now, three-way where other lines were changed since. A file that cannot be merged stops everything before
//! anything was changed. What was committed is taken back by a new commit: branches never move backwards. Taking back
//! a checkpoint leaves its content on disk.

pub mod error;
mod preview;
mod restore;
mod target;

pub use preview::{Effect, Preview, PreviewedFile, PreviewedStep};
pub use restore::{combine, preview_restore, restore};

use std::collections::BTreeSet;

use error::UndoError;
use target::{Target, Way};

use super::error::RunError;
use super::recovery;
use super::session::{Observer, RunRequest, Session, open_checkpointer, open_repository};
use super::settle::{Reversal, Rules, Settlement, Verdict, Wording};
use super::step::{StepEnd, summary};
use crate::audit::history::{History, Outcome, StepRecord};
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::CommitPlan;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::reversal::{Committed, Inverse, LeftRepository, Operation, Reach};
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Decision, Event, StepKind};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunSummary, StepStatus};
use crate::problem::Problem;

/// What to take back, or to apply again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Undo the newest operation that counts.
    Undo,
    /// Undo a step or a run, by any name of it.
    UndoNamed(&'a str),
    /// Undo a run.
    UndoRun(&'a str),
    /// Undo every operation after a step.
    UndoTo(&'a str),
    /// Take the newest undo back.
    Redo,
    /// Apply an undone step or run again, as new work.
    RedoNamed(&'a str),
}

impl Action<'_> {
    /// The name of the command.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undo | Self::UndoNamed(_) | Self::UndoRun(_) | Self::UndoTo(_) => "undo",
            Self::Redo | Self::RedoNamed(_) => "redo",
        }
    }
}

/// Takes back, or applies again, what is meant.
pub fn perform(
    ctx: &Context,
    action: Action<'_>,
    request: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    // What was cut off is brought to an end first: it decides which operation is the newest.
    recovery::recover_now(ctx, observer)?;
    let (history, repository, root) = find_now(ctx)?;
    let target = target::find(&history, &repository, &root, action)?;
    let operations = target.operations(&history, &repository)?;
    let is_committed = operations.iter().any(|operation| operation.committed != Committed::No);
    let mode = if is_committed { CheckpointMode::Auto } else { CheckpointMode::Explicit };
    let session = Session::begin(ctx, &RunRequest { mode, ..request.clone() }, observer)?;
    let undoes = if target.way == Way::Apply { Vec::new() } else { commits_of(&history, &target.steps) };
    let kind = target.kind(undoes.first().copied())?;
    let undoing = Undoing { name: format!("{} {}", action.as_str(), target.name), undoes, how: How::Inverse };
    session.reverse(kind, &undoing, &operations)
}

/// What [`perform`] would do, without doing it.
pub fn preview(ctx: &Context, action: Action<'_>) -> Result<Preview, RunError> {
    let (history, repository, root) = find_now(ctx)?;
    let target = target::find(&history, &repository, &root, action)?;
    let operations = target.operations(&history, &repository)?;
    let mut checkpointer = open_checkpointer(ctx)?;
    checkpointer.require_undoable()?;
    checkpointer.expect_back(&operations)?;
    let now = checkpointer.before()?;
    let inverse = checkpointer.invert(&now, &operations)?.require_writable()?;
    let committed = if target.way == Way::Undo { Effect::Uncommitted } else { Effect::Committed };
    let mut preview = Preview::of(&inverse, &operations, Some(committed));
    preview.name_steps(target.steps.iter().copied());
    if inverse.commit.is_some() && target.way != Way::Apply {
        preview.commits = commits_of(&history, &target.steps);
    }
    Ok(preview)
}

/// Everything that happened, the repository, and the work tree as journals name it.
fn find_now(ctx: &Context) -> Result<(History, Repository, String), RunError> {
    let repository = open_repository(ctx)?;
    let root = repository.top().to_string_lossy().into_owned();
    Ok((History::load_all(&repository)?.0, repository, root))
}

/// What steps did, in their order, as operations that can be taken back together.
pub(super) fn operations_of(
    history: &History,
    git: &Repository,
    steps: &[&StepRecord],
) -> Result<Vec<Operation>, RunError> {
    let undone = history.undone();
    let own: Vec<_> = steps.iter().map(|step| step.id).collect();
    let is_covered = |step: &StepRecord| {
        let mut others = history.runs.iter().flat_map(|run| &run.steps).filter(|step| !own.contains(&step.id));
        others.any(|other| {
            matches!(&other.kind, StepKind::Checkpoint { covers } if covers.contains(&step.id))
                && other.commit().is_some()
                && !undone.contains(&other.id)
        })
    };
    let operation = |step: &&StepRecord| {
        let (Some(before), Some(after), Some(delta)) = (&step.before, &step.after, &step.delta) else {
            return Err(UndoError::not_undoable(step.id, "nothing of it was recorded").into());
        };
        let committed = match step.commit() {
            Some(commit) => Committed::Own(step.committed_changes(git, before, commit)?),
            None if is_covered(step) => Committed::Later,
            None => Committed::No,
        };
        let is_checkpoint = matches!(step.kind, StepKind::Checkpoint { .. });
        let reach = if is_checkpoint { Reach::Commit } else { Reach::Files };
        let (before, after, delta) = (before.clone(), after.clone(), delta.clone());
        Ok(Operation { before, after, delta, reach, committed })
    };
    steps.iter().map(operation).collect()
}

/// The commits that hold the changes of steps, in the order of these.
pub(super) fn commits_of(history: &History, steps: &[&StepRecord]) -> Vec<ObjectId> {
    let mut commits: Vec<ObjectId> = Vec::new();
    for commit in steps.iter().filter_map(|step| history.commit_of(step)) {
        if !commits.contains(&commit) {
            commits.push(commit);
        }
    }
    commits
}

impl Target<'_> {
    /// The operations, in the order in which they are taken back.
    fn operations(&self, history: &History, git: &Repository) -> Result<Vec<Operation>, RunError> {
        let operations = operations_of(history, git, &self.steps)?;
        Ok(match self.way {
            Way::Apply => operations.into_iter().map(Operation::inverse).collect(),
            Way::Undo | Way::Redo => operations,
        })
    }

    fn kind(&self, commit: Option<ObjectId>) -> Result<StepKind, RunError> {
        let (first, others) = self.steps.split_first().ok_or(UndoError::NothingToUndo)?;
        let (of, also) = (first.id, others.iter().map(|step| step.id).collect());
        Ok(match self.way {
            Way::Undo => StepKind::Undo { of, also, commit },
            Way::Redo => StepKind::Redo { of, commit },
            Way::Apply => StepKind::Apply { of, also },
        })
    }
}

impl StepRecord {
    /// What its commits changed, as git stores it.
    fn committed_changes(
        &self,
        git: &Repository,
        before: &Snapshot,
        commit: ObjectId,
    ) -> Result<Vec<crate::checkpoint::delta::Change>, CheckpointError> {
        if let (Some(Decision::Commit { delta, .. }), true) = (&self.decision, self.adopted.is_empty()) {
            return Ok(delta.clone());
        }
        // The step made commits itself.
        let Some(made) = git.find_commit(commit)? else { return Ok(Vec::new()) };
        let base = match before.head.commit {
            Some(base) => git.find_commit(base)?.map(|facts| facts.tree),
            None => None,
        };
        let mut changes = git.changes(base.unwrap_or(git.empty_tree()), made.tree)?;
        // Another person may have committed meanwhile: what the step did not change is theirs.
        let own = self.delta.iter().flat_map(|delta| &delta.changes);
        let own: BTreeSet<&RepoPath> = own.map(|change| &change.path).collect();
        changes.retain(|change| own.contains(&change.path));
        Ok(changes)
    }
}

/// How the run and the commit of an undoing are called, and where the commit comes from.
struct Undoing {
    name: String,
    /// The commits that are taken back, newest first.
    undoes: Vec<ObjectId>,
    how: How,
}

/// What becomes of the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It gets the commit that the inverse wants, if it wants one.
    Inverse,
    /// What changes on disk is committed.
    Commit,
    /// What changes on disk stays there.
    Keep,
}

/// Why an undo makes no commit.
const UNCOMMITTED: &str = "the step was in no commit";

impl Session<'_, '_> {
    fn reverse(mut self, kind: StepKind, undoing: &Undoing, operations: &[Operation]) -> Result<RunSummary, RunError> {
        let step = self.next_step();
        let Some(mut checkpointer) = self.checkpointer.take() else { return Err(UndoError::NothingToUndo.into()) };
        // Judged before the step begins: a conflict leaves nothing but a run that says so.
        let judged = checkpointer.expect_back(operations).and_then(|()| {
            let now = checkpointer.before()?;
            Ok((checkpointer.invert(&now, operations)?.require_writable()?, now))
        });
        self.checkpointer = Some(checkpointer);
        let inverse = judged.map(|(inverse, now)| {
            // What was judged is what the step begins with.
            self.found = Some(now);
            inverse
        });
        let inverse = match inverse {
            Ok(inverse) if inverse.conflicts.is_empty() => inverse,
            refused => {
                let err = match refused {
                    Ok(inverse) => UndoError::Conflict(inverse.conflicts).into(),
                    Err(err) => RunError::from(err),
                };
                self.abandon(&err)?;
                return Err(err);
            }
        };
        let before = self.start_step(step, &undoing.name, kind, &[])?;
        let Some(before) = before else { return Err(UndoError::NothingToUndo.into()) };
        let settled = self.carry_out_reversal(step, undoing, operations, inverse, &before);
        let settlement = settled.map_err(|err| self.unsettled(err))?;
        self.end_reversal(step, &undoing.name, settlement)
    }

    /// Writes the files and makes the commit.
    fn carry_out_reversal(
        &mut self,
        step: u32,
        undoing: &Undoing,
        operations: &[Operation],
        inverse: Inverse,
        before: &Snapshot,
    ) -> Result<Settlement, RunError> {
        let Some(mut checkpointer) = self.checkpointer.take() else { return Err(UndoError::NothingToUndo.into()) };
        let applied = checkpointer.apply_inverse(&inverse, operations).map(|report| report.shortfall());
        failpoint("undo-applied");
        let shortfall = match applied {
            // Room can be made: the next command finishes putting it back.
            Err(err) if err.is_about_room() => return Err(err.into()),
            Err(err) => Some(err),
            Ok(shortfall) => shortfall,
        };
        if let Some(err) = shortfall {
            let settled = self.leave_as_it_was(&mut checkpointer, step, before, &err);
            self.checkpointer = Some(checkpointer);
            return settled;
        }
        self.checkpointer = Some(checkpointer);
        let notes: Vec<String> = inverse.repositories.iter().map(LeftRepository::note).collect();
        let wording = Wording { name: &undoing.name, undoes: &undoing.undoes, notes: &notes, ..Wording::default() };
        let mut settlement = match (undoing.how, inverse.commit) {
            (How::Inverse, Some(plan)) => self.commit_inverse(step, wording, before, &plan)?,
            (How::Commit, _) => self.settle(step, wording, before, Verdict::Commit, Rules::NONE)?,
            (How::Inverse | How::Keep, _) => {
                self.settle(step, wording, before, Verdict::Keep(UNCOMMITTED), Rules::NONE)?
            }
        };
        let is_committed = settlement.checkpoint.as_ref().is_some_and(|made| made.commit_sha.is_some());
        if !inverse.repositories.is_empty() && !is_committed {
            // Without a commit that moves the pointer back nothing of it is undone.
            settlement.error.get_or_insert(Problem::of(&CheckpointError::RepositoriesLeft(inverse.repositories)));
        }
        Ok(settlement)
    }

    /// All or nothing: a file could not be written, or another process changed it meanwhile, so that what was put back
    /// is not left either.
    pub(super) fn leave_as_it_was(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        before: &Snapshot,
        err: &CheckpointError,
    ) -> Result<Settlement, RunError> {
        let found = self.find_own(checkpointer, step, before, Ownership::EVERYTHING)?;
        let mut settlement = if found.delta.is_empty() {
            self.record(&Event::NoChanges { step, not_captured: Vec::new(), too_large: Vec::new() })?;
            Settlement::of(summary(CheckpointStatus::NoChanges))
        } else {
            let why = Reversal::failure("not every file could be put back", Problem::of(err));
            self.roll_back(checkpointer, step, why, before, &found.after, &found.delta)?
        };
        settlement.error.get_or_insert(Problem::of(err));
        Ok(settlement)
    }

    /// Commits what an inverse wants; if that cannot be, the files are put back.
    fn commit_inverse(
        &mut self,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        plan: &CommitPlan,
    ) -> Result<Settlement, RunError> {
        let Some(mut checkpointer) = self.checkpointer.take() else { return Err(UndoError::NothingToUndo.into()) };
        let settled = self.commit_inverse_with(&mut checkpointer, step, wording, before, plan);
        self.checkpointer = Some(checkpointer);
        settled
    }

    fn commit_inverse_with(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        plan: &CommitPlan,
    ) -> Result<Settlement, RunError> {
        let found = match self.find_own(checkpointer, step, before, Ownership::EVERYTHING) {
            Ok(found) => found,
            Err(RunError::Checkpoint(err)) => return self.failed(step, err),
            Err(err) => return Err(err),
        };
        let by_files = checkpointer.plan_commit(&before.head, &found.delta);
        if by_files.is_ok_and(|by_files| by_files.tree == plan.tree) {
            return self.commit_or_explain(checkpointer, step, wording, before, found);
        }
        // The commit is about other files than those that changed on disk, so that it is not made from these.
        self.commit_or_put_back(checkpointer, step, wording, before, found, plan)
    }

    /// Makes a commit that was planned; if that cannot be, the files are put back. The user's `pre-commit` hook runs
    /// where the files on disk are what the commit leaves; where the commit is about other files, it is left out.
    pub(super) fn commit_or_put_back(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        found: Attributed,
        plan: &CommitPlan,
    ) -> Result<Settlement, RunError> {
        let by_files = checkpointer.plan_commit(&before.head, &found.delta);
        let is_by_files = by_files.is_ok_and(|by_files| by_files.tree == plan.tree);
        let (mut after, mut delta) = (found.after.clone(), found.delta.clone());
        if delta.is_empty() && before.head == after.head {
            // A recovery needs to know that the changes were looked at.
            let (after, delta) = (after.clone(), delta.clone());
            self.record(&Event::ChangesFound { step, after, delta, outside: Vec::new() })?;
        }
        let committed = match before.head.moved_to(&after.head) {
            Some(err) => Err(err.into()),
            None if is_by_files => self
                .run_pre_commit(checkpointer, step, before, found)
                .and_then(|(delta, notes)| self.commit(checkpointer, step, wording, &before.head, &delta, notes)),
            None => {
                let left_out = "`pre-commit` was left out: the commit is about files that stay as they are on disk";
                let notes = checkpointer.has_pre_commit().then(|| left_out.to_owned()).into_iter().collect();
                self.commit_planned(checkpointer, step, wording, plan, &delta, notes)
            }
        };
        if let Err(RunError::Checkpoint(CheckpointError::HookFailed { .. })) = &committed {
            // The hook may have changed files as well: they are put back with the rest.
            Attributed { after, delta, .. } = self.find_own(checkpointer, step, before, Ownership::EVERYTHING)?;
        }
        match committed {
            Err(RunError::Checkpoint(err)) if delta.is_empty() || before.head != after.head => self.failed(step, err),
            Err(RunError::Checkpoint(err)) => {
                let why = Reversal::failure("the commit could not be made", Problem::of(&err));
                let mut settlement = self.roll_back(checkpointer, step, why, before, &after, &delta)?;
                settlement.error.get_or_insert(Problem::of(&err));
                Ok(settlement)
            }
            settled => settled,
        }
    }

    fn end_reversal(mut self, step: u32, name: &str, settlement: Settlement) -> Result<RunSummary, RunError> {
        let status = if settlement.error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        let error = settlement.error;
        self.finish_step(step, name, status, None, settlement.checkpoint, error.as_ref())?;
        let end = StepEnd { status, error, interrupted: false, command_status: None };
        self.finish(end.run_status(), end.error)
    }
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
