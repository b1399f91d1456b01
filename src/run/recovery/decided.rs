//! Making a commit that was decided before piton was interrupted.

use super::RecoveredStep;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::CommitPlan;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::redo::Redo;
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::settle::{self, Settlement};

pub(super) fn redo_commit(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    plan: &CommitPlan,
    commit: ObjectId,
) -> Result<RecoveredStep, RunError> {
    let found = "a commit was decided".to_owned();
    match checkpointer.redo(plan, commit)? {
        Redo::Done => {
            let settlement = settle_redone(recorder, checkpointer, step, plan, commit)?;
            Ok((
                found,
                format!("it was finished: {}", commit.short()),
                settlement,
            ))
        }
        Redo::Moved(err) => {
            let settlement = settle::failed(recorder, step, err)?;
            Ok((
                found,
                "the branch has moved since, so nothing was touched".to_owned(),
                settlement,
            ))
        }
    }
}

fn settle_redone(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
    plan: &CommitPlan,
    commit: ObjectId,
) -> Result<Settlement, RunError> {
    let message = checkpointer.message_of(commit)?;
    let notes = vec!["completed after an interruption".to_owned()];
    settle::committed(recorder, checkpointer, step, plan, commit, message, notes)
}
