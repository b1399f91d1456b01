//! Reverts operations as one step: checks first, then writes the files and makes the commit.
//!
//! All or nothing: if a file cannot be written, or the commit cannot be made, the files that were
//! already reverted are restored.

use super::WrittenPaths;
use super::error::UndoError;
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::CommitPlan;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{Inverse, LeftRepository, StepOperation};
use crate::checkpoint::snapshot::Snapshot;
use crate::failpoint::failpoint;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{CheckpointStatus, RunSummary, StepStatus};
use crate::problem::Problem;
use crate::run::error::RunError;
use crate::run::pinned_authority::PinnedAuthority;
use crate::run::recorder::Recorder;
use crate::run::session::Session;
use crate::run::settle::{self, ChangesVerdict, Reversal, Rules, Settlement, Wording};
use crate::run::step::{StepEnd, summary};
use crate::run::{touched, unsettled};

/// The texts for the run and the commit of an undo.
pub(super) struct Undoing<'a> {
    pub(super) name: String,
    /// The undone commits, newest first.
    pub(super) undoes: Vec<ObjectId>,
    pub(super) how: How,
    /// The directive whose permissions limit the changes.
    pub(super) within: Option<&'a PinnedAuthority>,
}

/// What to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The commit that the inverse needs, if any.
    Inverse,
    /// The changes on disk.
    Commit,
    /// Nothing; the changes stay on disk.
    Keep,
}

/// Why an undo makes no commit.
const UNCOMMITTED: &str = "the step was not committed";

/// Reverts operations as one step, and ends the run.
pub(super) fn reverse(
    mut session: Session<'_>,
    kind: StepKind,
    undoing: &Undoing<'_>,
    operations: &[StepOperation],
) -> Result<RunSummary, RunError> {
    let step = session.recorder.next_step();
    let Some(checkpointer) = &mut session.checkpointer else {
        return Err(UndoError::NothingToUndo.into());
    };
    // Check before the step begins: a conflict must leave only the failed run in the journal.
    let judged = checkpointer.expect_back(operations).and_then(|()| {
        let now = checkpointer.before()?;
        let inverse = checkpointer.invert(&now, operations)?.require_writable()?;
        // The step begins with the checked snapshot.
        session.found = Some(now);
        Ok(inverse)
    });
    let judged = match judged {
        Ok(inverse) => require_permitted(&session, undoing, &inverse).map(|()| inverse),
        Err(err) => Err(err.into()),
    };
    let inverse = match judged {
        Ok(inverse) if inverse.conflicts.is_empty() => inverse,
        refused => {
            let err = match refused {
                Ok(inverse) => UndoError::Conflict(inverse.conflicts).into(),
                Err(err) => err,
            };
            session.abandon(&err)?;
            return Err(err);
        }
    };
    // A recovery has to tell what this step wrote from what the user did meanwhile.
    let repository = session.repository()?;
    let (top, index) = (repository.top(), repository.git_dir().join("index"));
    let written = WrittenPaths::of(&inverse.plan);
    let files = written.paths().map(|path| top.join(path.as_path()));
    touched::log_written(&session.recorder, step, files.chain([index]));
    let before = session.start_step(step, &undoing.name, kind, &[])?;
    let recorder = &mut session.recorder;
    let (Some(before), Some(checkpointer)) = (before, &mut session.checkpointer) else {
        return Err(UndoError::NothingToUndo.into());
    };
    let settlement = carry_out_reversal(
        recorder,
        checkpointer,
        step,
        undoing,
        operations,
        inverse,
        &before,
    )
    .map_err(|err| unsettled::explain(recorder, err))?;
    end_reversal(session, step, &undoing.name, settlement)
}

/// Refuses files on disk or in the commit that the directive does not permit to change.
fn require_permitted(
    session: &Session<'_>,
    undoing: &Undoing<'_>,
    inverse: &Inverse,
) -> Result<(), RunError> {
    let Some(within) = undoing.within else {
        return Ok(());
    };
    let on_disk = inverse.plan.files.iter().map(|file| &file.path);
    let commit = inverse.commit.iter().flat_map(|commit| &commit.changes);
    let repositories = inverse.repositories.iter().map(|left| &left.path);
    let paths = on_disk
        .chain(commit.map(|change| &change.path))
        .chain(repositories);
    within.require_writes(session.recorder.ctx, session.repository()?, paths)?;
    Ok(())
}

/// Writes the files and makes the commit.
fn carry_out_reversal(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    undoing: &Undoing<'_>,
    operations: &[StepOperation],
    inverse: Inverse,
    before: &Snapshot,
) -> Result<Settlement, RunError> {
    let applied = checkpointer.apply_inverse(&inverse, operations);
    failpoint("undo-applied");
    let mut written = WrittenPaths::of(&inverse.plan);
    let shortfall = match applied {
        // The user can free space; then the next command completes the roll back.
        Err(err) if err.is_about_room() => return Err(err.into()),
        Err(err) => {
            written = written.limited_to(None);
            Some(err)
        }
        Ok(report) => {
            let shortfall = report.shortfall();
            written = written.with_staged(&report);
            if shortfall.is_some() {
                written = written.limited_to(Some(&report));
            }
            shortfall
        }
    };
    if let Some(err) = shortfall {
        return leave_as_it_was(recorder, checkpointer, step, before, &written, &err);
    }
    let notes: Vec<String> = inverse
        .repositories
        .iter()
        .map(LeftRepository::note)
        .collect();
    let wording = Wording {
        name: &undoing.name,
        undoes: &undoing.undoes,
        notes: &notes,
        ..Wording::default()
    };
    let has = |path: &RepoPath| written.has(path);
    let own = written.ownership(&has);
    let rules = Rules { own, ..Rules::NONE };
    let verdict = match undoing.how {
        How::Commit => ChangesVerdict::Commit,
        How::Inverse | How::Keep => ChangesVerdict::Keep(UNCOMMITTED),
    };
    let mut settlement = match (undoing.how, inverse.commit) {
        (How::Inverse, Some(plan)) => {
            commit_inverse(recorder, checkpointer, step, wording, before, own, &plan)?
        }
        _ => settle::settle(
            recorder,
            Some(checkpointer),
            step,
            wording,
            before,
            verdict,
            rules,
        )?,
    };
    let is_committed = settlement
        .checkpoint
        .as_ref()
        .is_some_and(|made| made.commit_sha.is_some());
    if !inverse.repositories.is_empty() && !is_committed {
        // Without the commit that changes the submodule pointer, nothing is undone.
        settlement
            .error
            .get_or_insert(Problem::of(&CheckpointError::RepositoriesLeft(
                inverse.repositories,
            )));
    }
    Ok(settlement)
}

/// All or nothing: if a file could not be written or another process changed it, the files that
/// were already reverted are restored too.
pub(in crate::run) fn leave_as_it_was(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    before: &Snapshot,
    written: &WrittenPaths,
    err: &CheckpointError,
) -> Result<Settlement, RunError> {
    let has = |path: &RepoPath| written.has(path);
    let found = settle::find_own(
        recorder,
        checkpointer,
        step,
        before,
        written.ownership(&has),
    )?;
    let mut settlement = if found.delta.is_empty() {
        recorder.record(&Event::NoChanges {
            step,
            not_captured: Vec::new(),
            too_large: Vec::new(),
        })?;
        Settlement::of(summary(CheckpointStatus::NoChanges))
    } else {
        let why = Reversal::failure("not every file could be restored", Problem::of(err));
        settle::roll_back(
            recorder,
            checkpointer,
            step,
            why,
            before,
            &found.after,
            &found.delta,
        )?
    };
    settlement.error.get_or_insert(Problem::of(err));
    Ok(settlement)
}

/// Commits what the inverse needs; on failure the files are restored.
fn commit_inverse(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    own: Ownership<'_>,
    plan: &CommitPlan,
) -> Result<Settlement, RunError> {
    let found = match settle::find_own(recorder, checkpointer, step, before, own) {
        Ok(found) => found,
        Err(RunError::Checkpoint(err)) => return settle::failed(recorder, step, err),
        Err(err) => return Err(err),
    };
    let by_files = checkpointer.plan_commit(&before.head, &found.delta);
    if let Some(by_files) = by_files.ok().filter(|by_files| by_files.tree == plan.tree) {
        let planned = Some(by_files);
        return settle::commit_planned_or_explain(
            recorder,
            checkpointer,
            step,
            wording,
            before,
            found,
            planned,
        );
    }
    // The commit contains other files than those that changed on disk, so it is not built from
    // them.
    commit_or_put_back(recorder, checkpointer, step, wording, before, found, plan)
}

/// Makes a planned commit; on failure the files are restored. The user's `pre-commit` hook runs
/// only if the commit matches the files on disk.
pub(in crate::run) fn commit_or_put_back(
    recorder: &mut Recorder<'_>,
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
    let outside = found.outside.clone();
    if delta.is_empty() && before.head == after.head {
        // A recovery needs to know that the changes were determined.
        let (after, delta) = (after.clone(), delta.clone());
        recorder.record(&Event::ChangesFound {
            step,
            after,
            delta,
            outside: Vec::new(),
        })?;
    }
    let committed = match before.head.moved_to(&after.head) {
        Some(err) => Err(err.into()),
        None if is_by_files => settle::run_pre_commit(recorder, checkpointer, step, before, found)
            .and_then(|(delta, notes)| {
                settle::commit(
                    recorder,
                    checkpointer,
                    step,
                    wording,
                    &before.head,
                    &delta,
                    notes,
                )
            }),
        None => {
            let left_out = "`pre-commit` was skipped: the commit differs from the files on disk";
            let notes = checkpointer
                .has_pre_commit()
                .then(|| left_out.to_owned())
                .into_iter()
                .collect();
            settle::commit_planned(recorder, checkpointer, step, wording, plan, &delta, notes)
        }
    };
    if let Err(RunError::Checkpoint(CheckpointError::HookFailed { .. })) = &committed {
        // The hook may have changed files as well: restore them together.
        let own = Ownership {
            has: &|path| outside.binary_search(path).is_err(),
            ..Ownership::EVERYTHING
        };
        Attributed { after, delta, .. } =
            settle::find_own(recorder, checkpointer, step, before, own)?;
    }
    match committed {
        Err(RunError::Checkpoint(err)) if delta.is_empty() || before.head != after.head => {
            settle::failed(recorder, step, err)
        }
        Err(RunError::Checkpoint(err)) => {
            let why = Reversal::failure("the commit could not be made", Problem::of(&err));
            let mut settlement =
                settle::roll_back(recorder, checkpointer, step, why, before, &after, &delta)?;
            settlement.error.get_or_insert(Problem::of(&err));
            Ok(settlement)
        }
        settled => settled,
    }
}

fn end_reversal(
    mut session: Session<'_>,
    step: u32,
    name: &str,
    settlement: Settlement,
) -> Result<RunSummary, RunError> {
    let status = if settlement.error.is_none() {
        StepStatus::Succeeded
    } else {
        StepStatus::Failed
    };
    let error = settlement.error;
    session.recorder.finish_step(
        step,
        name,
        status,
        None,
        settlement.checkpoint,
        error.as_ref(),
    )?;
    let end = StepEnd {
        status,
        error,
        interrupted: false,
        command_status: None,
    };
    session.finish(end.run_status(), end.error)
}
