//! Recovers a step without a recorded decision: its changes are rolled back, except for files that
//! changed after piton died.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{RecoveredStep, leave_changes};
use crate::audit::history::StepRecord;
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::journal::event::{Event, StepKind};
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::settle::{self, Reversal, Settlement, stages};
use crate::run::step::skipped;
use crate::run::touched;
use crate::run::unsettled::RecoveryAction;

const RUNNING: &str = "its step was running";

pub(super) fn recover_undecided(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: &StepRecord,
    before: &Snapshot,
    last_sign: Timestamp,
) -> Result<RecoveredStep, RunError> {
    let number = step.id.step;
    if matches!(step.kind, StepKind::Checkpoint { .. }) {
        // A checkpoint only reads the work tree, so changes there are not its own.
        let reason = "the checkpoint was interrupted before the commit".to_owned();
        let found = "a checkpoint was being made";
        let did = "it was not made; its files are on disk";
        return leave_changes(recorder, number, reason, found, did);
    }
    let found = find_changes(recorder, checkpointer, step, before)?;
    if found.delta.is_empty() && before.head == found.after.head {
        let Delta {
            not_captured,
            too_large,
            ..
        } = found.delta;
        recorder.record(&Event::NoChanges {
            step: number,
            not_captured,
            too_large,
        })?;
        return Ok((
            RUNNING.to_owned(),
            "nothing had changed".to_owned(),
            Settlement::of(skipped()),
        ));
    }
    let action = RecoveryAction::of_undecided(&step.kind, recorder.mode, recorder.in_directive());
    if action == RecoveryAction::Keep {
        let reason = "the run was interrupted; `piton undo` reverts its changes".to_owned();
        let did = "its changes stay; `piton undo` reverts them";
        return leave_changes(recorder, number, reason, RUNNING, did);
    }
    if let StepKind::RollBack { to } = &step.kind
        && found.after.head.commit == Some(*to)
        && before.head.commit != Some(*to)
    {
        let reason = format!("reset to {}", to.short());
        return leave_changes(recorder, number, reason, RUNNING, "it had already ended");
    }
    roll_back(recorder, checkpointer, number, before, found, last_sign)
}

/// Finds and records what the interrupted step changed.
fn find_changes(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: &StepRecord,
    before: &Snapshot,
) -> Result<Attributed, RunError> {
    checkpointer.remember_rules(before)?;
    let touched = touched::recall(recorder, step);
    let top = checkpointer.repository().top().to_path_buf();
    let git_dir = checkpointer.repository().git_dir().to_path_buf();
    let index = touched.has(&git_dir.join("index"))
        && step
            .after
            .as_ref()
            .is_none_or(|after| stages(before, after));
    let is_own =
        |path: &RepoPath| !step.outside.contains(path) && touched.has(&top.join(path.as_path()));
    let own = Ownership {
        has: &is_own,
        index,
        doubt: touched.doubt(),
        ..Ownership::EVERYTHING
    };
    settle::find_own(recorder, checkpointer, step.id.step, before, own)
}

/// Rolls back the changes of the step, without those that were made after piton had died.
fn roll_back(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    before: &Snapshot,
    found: Attributed,
    last_sign: Timestamp,
) -> Result<RecoveredStep, RunError> {
    let Attributed {
        mut after,
        delta,
        outside,
        doubt,
    } = found;
    let all = delta.clone();
    let (mut own, later) = split_by_time(checkpointer, delta, last_sign)?;
    if !later.is_empty() {
        // These files belong to another process, and are not in the snapshot after the step. If
        // this recovery is interrupted too, the next one must not attribute them to the step.
        let not_later = Ownership {
            has: &|path| !later.contains(path),
            doubt,
            ..Ownership::EVERYTHING
        };
        let found = checkpointer.attribute(before, after, all, not_later)?;
        let Delta {
            index,
            announced_removed,
            announced_added,
            ..
        } = own;
        own = Delta {
            index,
            announced_removed,
            announced_added,
            ..found.delta
        };
        after = found.after;
        let outside = outside.into_iter().chain(found.outside).collect();
        recorder.record(&Event::ChangesFound {
            step,
            after: after.clone(),
            delta: own.clone(),
            outside,
        })?;
    }
    let why = Reversal {
        doubt,
        ..Reversal::CUT_OFF
    };
    let settlement = settle::roll_back(recorder, checkpointer, step, why, before, &after, &own)?;
    let mut did = match &settlement.error {
        Some(error) => format!("it could not be rolled back: {}", error.message()),
        None => match own.changes.len() {
            1 => "1 file was restored".to_owned(),
            count => format!("{count} files were restored"),
        },
    };
    if !later.is_empty() {
        let _ = write!(
            did,
            ", {} changed after the crash and were kept",
            later.len()
        );
    }
    Ok((RUNNING.to_owned(), did, settlement))
}

/// Splits a delta into the step's part and the files that changed after piton had died.
fn split_by_time(
    checkpointer: &Checkpointer,
    mut delta: Delta,
    last_sign: Timestamp,
) -> Result<(Delta, Vec<RepoPath>), RunError> {
    // The heartbeat is written every second; on a slow machine, changes within this time may be the
    // step's.
    const DOUBT: i64 = 3;
    let mut own = Vec::new();
    let mut later = Vec::new();
    for change in delta.changes {
        match checkpointer.changed_at(&change.path)? {
            Some(seconds) if seconds > last_sign.as_second() + DOUBT => later.push(change.path),
            _ => own.push(change),
        }
    }
    delta.changes = own;
    if checkpointer
        .index_changed_at()
        .is_some_and(|seconds| seconds > last_sign.as_second() + DOUBT)
    {
        // The user has staged something since: it cannot be told apart from what the step staged.
        delta.index = None;
        delta.announced_added.clear();
        delta.announced_removed.clear();
    }
    Ok((delta, later))
}
