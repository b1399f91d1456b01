//! Writes items as one step of a run: all planned files or none.

use serde_json::{Value, json};

use crate::authoring::{ItemEffect, apply, coverage};
use crate::checkpoint::attribution::Ownership;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::StepStatus;
use crate::problem::Problem;
use crate::run::error::RunError;
use crate::run::session::Session;
use crate::run::settle::{self, Fate, Rules, Wording};
use crate::run::step::StepEnd;

/// Writes the planned files as one step. Only these files count as the step's changes. Returns
/// `None` if a person has to approve them.
pub(in crate::run) fn write_items(
    session: &mut Session<'_>,
    wording: Wording<'_>,
    kind: StepKind,
    effect: &ItemEffect,
    fate: Fate,
) -> Result<Option<StepEnd>, RunError> {
    let number = session.recorder.next_step();
    let before = session.start_step(number, wording.name, kind, &[])?;
    let covered =
        coverage::refuse_loss_in(session.recorder.ctx, session.checkpointer.as_ref(), effect)
            .map_err(RunError::from);
    let (result, error) =
        match covered.and_then(|()| Ok(apply(session.recorder.ctx, &effect.writes)?)) {
            Ok(()) => (json!(effect.answer), None),
            Err(err) => (Value::Null, Some(Problem::of(&err))),
        };
    if session.recorder.state.is_some() {
        session.recorder.record(&Event::Answered {
            step: number,
            result,
            error: error.clone(),
            paths: Vec::new(),
            approver: None,
        })?;
    }
    let prefix = session.prefix();
    let is_written = |path: &std::path::Path| {
        let inside = path.strip_prefix(&prefix).ok();
        inside.is_some_and(|inside| effect.writes.iter().any(|write| write.path == inside))
    };
    let name = wording.name;
    let settlement = match &before {
        None => session.recorder.skip_checkpoint(number)?,
        Some(before) => {
            let rules = Rules {
                own: Ownership {
                    has: &|path| is_written(path.as_path()),
                    index: false,
                    definition: false,
                    ..Ownership::EVERYTHING
                },
                ..Rules::NONE
            };
            let verdict = if error.is_none() {
                fate.success
            } else {
                fate.failure
            };
            settle::settle_step(session, number, wording, before, verdict, rules)?
        }
    };
    if settlement.asked {
        return Ok(None);
    }
    let error = settlement.error.or(error);
    let status = if error.is_none() {
        StepStatus::Succeeded
    } else {
        StepStatus::Failed
    };
    session.recorder.finish_step(
        number,
        name,
        status,
        None,
        settlement.checkpoint,
        error.as_ref(),
    )?;
    Ok(Some(StepEnd {
        status,
        error,
        interrupted: false,
        command_status: None,
    }))
}
