//! Recovers a directive whose process died: settles its open step, then leaves the run waiting for
//! `resume`.

use jiff::Timestamp;

use super::{Recovered, recover_step_with};
use crate::audit::history::{RunRecord, StepOutcome, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::journal::event::{Decision, Event, StepKind, Wait};
use crate::journal::summary::{CheckpointStatus, RunStatus, StepStatus};
use crate::problem::{Code, HintCall, Problem, hint};
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::settle::Settlement;
use crate::run::undo;

/// What was found and what was done.
type Told = (String, String);

/// Settles the run of a directive, so that it can be resumed.
pub(super) fn recover_directive(
    mut recorder: Recorder<'_>,
    checkpointer: Option<&mut Checkpointer>,
    record: &RunRecord,
    last_sign: Timestamp,
) -> Result<Recovered, RunError> {
    let open = record.steps.last().filter(|step| step.status.is_none());
    let (found, did) = match open {
        None => (
            "it was interrupted between two steps".to_owned(),
            "nothing had to be done".to_owned(),
        ),
        Some(step) => recover_directive_step(&mut recorder, checkpointer, step, last_sign)?,
    };
    let told = Recovered {
        run: record.id,
        found: found.clone(),
        did: did.clone(),
    };
    let last_alive = Some(record.last.max(last_sign));
    recorder.record(&Event::Recovered {
        step: open.map(|step| step.id.step),
        found,
        did,
        died: last_alive,
    })?;
    let run = || Some(record.id.to_string());
    let hint = hint![
        HintCall::Resume(run()),
        " continues it, ",
        HintCall::Cancel(run()),
        " ends it"
    ];
    let error = Problem::new(
        Code::Interrupted,
        format!("the run was interrupted; {}", told.did),
    )
    .with_hint(hint);
    recorder.finish_run(RunStatus::Waiting, Some(error), Vec::new())?;
    Ok(told)
}

fn recover_directive_step(
    recorder: &mut Recorder<'_>,
    mut checkpointer: Option<&mut Checkpointer>,
    step: &StepRecord,
    last_sign: Timestamp,
) -> Result<Told, RunError> {
    let number = step.id.step;
    recorder.open_step = Some(number);
    recorder.open_tool.clone_from(&step.tool);
    let is_settled = step.outcome != StepOutcome::Open || step.decision.is_some();
    let is_left = matches!(step.wait, Some(Wait::Indeterminate { .. })) && step.answer.is_none();
    if step.wait.is_some() && (!is_settled || is_left) {
        return Ok(("a step was waiting".to_owned(), "it still waits".to_owned()));
    }
    if !is_settled && let Some(told) = recover_manual(recorder, checkpointer.as_deref_mut(), step)?
    {
        return Ok(told);
    }
    if let Some(told) = recover_recovered(recorder, step)? {
        return Ok(told);
    }
    if step.is_external() && step.started_process && step.answer.is_none() && !is_settled {
        let reason =
            "it was interrupted while it ran, and it is unknown what the other side has done";
        return leave_open(recorder, number, reason, "its call was running");
    }
    if (step.before.is_none() || checkpointer.is_none()) && !is_settled {
        return recover_without_snapshot(recorder, step);
    }
    let Some(checkpointer) = checkpointer else {
        let (found, did) = finished();
        return end_with(recorder, step, undo::summary_of(step), found, did);
    };
    match recover_step_with(recorder, checkpointer, step, last_sign) {
        Ok((found, did, settlement)) if is_settled => {
            end_decided(recorder, step, settlement, found, did)
        }
        Ok((found, did, settlement)) => match settlement.error {
            None => cut_off(recorder, step, found, did),
            Some(error) => leave_unrestored(recorder, number, &error.message()),
        },
        Err(RunError::Checkpoint(err)) if !recorder.on_fault.tries_again(&err) => {
            leave_unrestored(recorder, number, &err.to_string())
        }
        Err(err) => Err(err),
    }
}

/// Recovers an undecided step of a person or an agent, or a checkpoint; `None` for other steps.
fn recover_manual(
    recorder: &mut Recorder<'_>,
    checkpointer: Option<&mut Checkpointer>,
    step: &StepRecord,
) -> Result<Option<Told>, RunError> {
    let number = step.id.step;
    let told = match (&step.kind, &step.answer) {
        (StepKind::Prose { instruction }, Some(_)) => {
            let wait = Wait::Work {
                instruction: instruction.clone(),
                checks: Vec::new(),
                outside: Vec::new(),
                rejected: None,
            };
            recorder.record(&Event::Waiting { step: number, wait })?;
            (
                "its agent had ended".to_owned(),
                "its changes are in the work tree".to_owned(),
            )
        }
        (StepKind::Prose { .. }, None) if step.started_process => {
            let reason = "the agent was interrupted; its changes so far are in the work tree";
            leave_open(recorder, number, reason, "its agent was working")?
        }
        // An agent may start to work just before that is recorded.
        (StepKind::Prose { .. }, None) if may_have_begun(checkpointer, step)? => {
            let reason = "it was interrupted, and it is unknown whether an agent was working; its changes are in the work tree";
            leave_open(recorder, number, reason, "its agent was about to begin")?
        }
        // Neither a person nor an agent was asked yet: changes are not the step's.
        (StepKind::Prose { .. } | StepKind::Human { .. } | StepKind::Checkpoint { .. }, _) => {
            let (found, did) = not_begun();
            cut_off(recorder, step, found, did)?
        }
        _ => return Ok(None),
    };
    Ok(Some(told))
}

/// Recovers the call of a step whose earlier recovery was interrupted after its end: only a step
/// that has answered ends like this by itself. `None` for other steps.
fn recover_recovered(
    recorder: &mut Recorder<'_>,
    step: &StepRecord,
) -> Result<Option<Told>, RunError> {
    let calls = matches!(step.kind, StepKind::Tool(_) | StepKind::Item { .. });
    if !calls || step.answer.is_some() || step.decision.is_some() {
        return Ok(None);
    }
    match &step.outcome {
        StepOutcome::NoChanges => {
            let found = "its step was running".to_owned();
            cut_off(recorder, step, found, "nothing had changed".to_owned()).map(Some)
        }
        StepOutcome::Failed { message, .. } => {
            leave_unrestored(recorder, step.id.step, message).map(Some)
        }
        _ => Ok(None),
    }
}

/// Recovers an undecided step whose changes are unknown.
fn recover_without_snapshot(
    recorder: &mut Recorder<'_>,
    step: &StepRecord,
) -> Result<Told, RunError> {
    let number = step.id.step;
    match (&step.answer, step.started_process) {
        (Some((_, error)), _) => {
            let status = if error.is_none() {
                StepStatus::Succeeded
            } else {
                StepStatus::Failed
            };
            let (name, error) = (&step.name, error.as_ref());
            recorder.finish_step(number, name, status, step.exit_code, None, error)?;
            Ok(finished())
        }
        (None, true) => {
            let reason =
                "it was interrupted while it ran, and without checkpoints it cannot be rolled back";
            leave_open(recorder, number, reason, "its step was running")
        }
        (None, false) if matches!(step.kind, StepKind::Item { .. }) => {
            let reason = "it was interrupted while it wrote, and without checkpoints it cannot be rolled back";
            leave_open(recorder, number, reason, "its step was running")
        }
        (None, false) => {
            let (found, did) = not_begun();
            cut_off(recorder, step, found, did)
        }
    }
}

/// Ends a step whose decision was carried out.
fn end_decided(
    recorder: &mut Recorder<'_>,
    step: &StepRecord,
    settlement: Settlement,
    found: String,
    did: String,
) -> Result<Told, RunError> {
    let Settlement {
        checkpoint, error, ..
    } = settlement;
    let committed = checkpoint
        .as_ref()
        .is_some_and(|it| it.commit_sha.is_some());
    let error = match error {
        Some(error) if !committed => error,
        _ => {
            let checkpoint = checkpoint.unwrap_or_else(|| undo::summary_of(step));
            return end_with(recorder, step, checkpoint, found, did);
        }
    };
    let number = step.id.step;
    if let Some(Decision::RollBack {
        status: Some(StepStatus::CutOff),
        ..
    }) = &step.decision
    {
        return leave_unrestored(recorder, number, &error.message());
    }
    recorder.finish_step(
        number,
        &step.name,
        StepStatus::Failed,
        step.exit_code,
        checkpoint,
        Some(&error),
    )?;
    Ok((found, did))
}

/// Whether anything may have changed since a step began.
fn may_have_begun(
    checkpointer: Option<&mut Checkpointer>,
    step: &StepRecord,
) -> Result<bool, RunError> {
    let (Some(before), Some(checkpointer)) = (&step.before, checkpointer) else {
        return Ok(true);
    };
    checkpointer.remember_rules(before)?;
    let after = checkpointer.after(before)?;
    let delta = checkpointer.delta(before, &after)?;
    Ok(!delta.is_empty() || before.head != after.head)
}

/// The step is repeated when the run is resumed.
fn cut_off(
    recorder: &mut Recorder<'_>,
    step: &StepRecord,
    found: String,
    did: String,
) -> Result<Told, RunError> {
    let checkpoint = step.before.as_ref().map(|_| undo::summary_of(step));
    recorder.finish_step(
        step.id.step,
        &step.name,
        StepStatus::CutOff,
        step.exit_code,
        checkpoint,
        None,
    )?;
    Ok((found, did))
}

/// The outcome of the step is unknown: a person has to decide.
fn leave_open(
    recorder: &mut Recorder<'_>,
    number: u32,
    reason: &str,
    found: &str,
) -> Result<Told, RunError> {
    let wait = Wait::Indeterminate {
        reason: reason.to_owned(),
    };
    recorder.record(&Event::Waiting { step: number, wait })?;
    Ok((
        found.to_owned(),
        "you decide whether it is done, failed, or run again".to_owned(),
    ))
}

/// As [`leave_open`], for a step whose changes could not be rolled back.
fn leave_unrestored(
    recorder: &mut Recorder<'_>,
    number: u32,
    message: &str,
) -> Result<Told, RunError> {
    let reason = format!("it was interrupted, and could not be rolled back: {message}");
    let (found, did) = leave_open(recorder, number, &reason, "its step was running")?;
    // The message names the files that stay on disk.
    Ok((found, format!("{message}; {did}")))
}

fn not_begun() -> Told {
    (
        "its step had not begun".to_owned(),
        "nothing had to be done".to_owned(),
    )
}

fn finished() -> Told {
    (
        "its step was finished".to_owned(),
        "only its end had to be recorded".to_owned(),
    )
}

/// Everything was decided: end the step as it would have ended.
fn end_with(
    recorder: &mut Recorder<'_>,
    step: &StepRecord,
    checkpoint: crate::journal::summary::CheckpointSummary,
    found: String,
    did: String,
) -> Result<Told, RunError> {
    let decided = match &step.decision {
        Some(Decision::RollBack {
            status: Some(StepStatus::CutOff),
            ..
        }) => return cut_off(recorder, step, found, did),
        Some(Decision::RollBack {
            status: Some(status),
            error,
            ..
        }) => Some((*status, error.clone())),
        _ => None,
    };
    if let Some((status, error)) = decided {
        let (number, exit_code) = (step.id.step, step.exit_code);
        recorder.finish_step(
            number,
            &step.name,
            status,
            exit_code,
            Some(checkpoint),
            error.as_ref(),
        )?;
        return Ok((found, did));
    }
    let answered = step.answer.as_ref().and_then(|(_, error)| error.clone());
    let is_kept = !matches!(
        checkpoint.status,
        CheckpointStatus::RolledBack | CheckpointStatus::Failed
    );
    let failed = match &step.outcome {
        StepOutcome::Failed { code, message } => Some(Problem::new(*code, message)),
        _ => None,
    };
    // A failed checkpoint matters more than the failure of the step.
    let error = failed.or(answered).or_else(|| {
        let message = "the changes of the step were not kept, and piton was interrupted before it could report why";
        (!is_kept).then(|| Problem::new(Code::Interrupted, message))
    });
    let was_interrupted = step
        .answer
        .as_ref()
        .is_some_and(|(_, error)| is_interrupt(error.as_ref()));
    let status = match &error {
        None => StepStatus::Succeeded,
        Some(_) if was_interrupted => StepStatus::Cancelled,
        Some(_) => StepStatus::Failed,
    };
    recorder.finish_step(
        step.id.step,
        &step.name,
        status,
        step.exit_code,
        Some(checkpoint),
        error.as_ref(),
    )?;
    Ok((found, did))
}

/// Whether a signal ended the step.
fn is_interrupt(error: Option<&Problem>) -> bool {
    error.is_some_and(|error| error.code == Code::Interrupted)
}
