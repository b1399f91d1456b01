//! A directive whose process died: its open step is put in order, and then it waits to be taken up.

use jiff::Timestamp;

use super::{Recovered, told};
use crate::audit::history::{Outcome, RunRecord, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::journal::event::{Decision, Event, StepKind, Wait};
use crate::journal::summary::{CheckpointStatus, RunStatus, StepStatus};
use crate::problem::{Call, Code, Problem, hint};
use crate::run::error::RunError;
use crate::run::session::Session;
use crate::run::undo;

/// What was found and what was done about it.
type Told = (String, String);

impl Session<'_, '_> {
    /// Puts the run of a directive in order, so that it can be taken up again.
    pub(super) fn recover_directive(
        mut self,
        record: &RunRecord,
        last_sign: Timestamp,
    ) -> Result<(Option<Checkpointer>, Option<Recovered>), RunError> {
        let open = record.steps.last().filter(|step| step.status.is_none());
        let (found, did) = match open {
            None => (told("it was cut off between two steps"), told("nothing had to be done")),
            Some(step) => self.recover_directive_step(step, last_sign)?,
        };
        let told = Recovered { run: record.id, found: found.clone(), did: did.clone() };
        let last_alive = Some(record.last.max(last_sign));
        self.record(&Event::Recovered { step: open.map(|step| step.id.step), found, did, died: last_alive })?;
        let checkpointer = self.checkpointer.take();
        let run = || Some(record.id.to_string());
        let hint = hint![Call::Resume(run()), " goes on, ", Call::Cancel(run()), " ends it"];
        let error = Problem::new(Code::Interrupted, format!("the run was cut off; {}", told.did)).with_hint(hint);
        self.close(RunStatus::Waiting, Some(error))?;
        Ok((checkpointer, Some(told)))
    }

    fn recover_directive_step(&mut self, step: &StepRecord, last_sign: Timestamp) -> Result<Told, RunError> {
        let number = step.id.step;
        self.open_step = Some(number);
        self.open_tool.clone_from(&step.tool);
        let is_settled = step.outcome != Outcome::Open || step.decision.is_some();
        let is_left = matches!(step.wait, Some(Wait::Indeterminate { .. })) && step.answer.is_none();
        if step.wait.is_some() && (!is_settled || is_left) {
            return Ok((told("a step was waiting"), told("it still waits")));
        }
        let calls = matches!(step.kind, StepKind::Tool(_) | StepKind::Item { .. });
        match (&step.kind, &step.answer) {
            _ if is_settled => {}
            (StepKind::Prose { instruction }, Some(_)) => {
                let (instruction, rejected) = (instruction.clone(), None);
                let wait = Wait::Work { instruction, checks: Vec::new(), outside: Vec::new(), rejected };
                self.record(&Event::Waiting { step: number, wait })?;
                return Ok((told("its agent had ended"), told("what it has done is in the work tree")));
            }
            (StepKind::Prose { .. }, None) if step.started_process => {
                let reason = "the agent was cut off; what it has done so far is in the work tree";
                return self.leave_open(number, reason, "its agent was at work");
            }
            // An agent is at work a moment before that is written down.
            (StepKind::Prose { .. }, None) if self.may_have_begun(step)? => {
                let reason = "it was cut off, and nobody knows whether an agent was at work; what has changed is in the work tree";
                return self.leave_open(number, reason, "its agent was about to begin");
            }
            // Nobody was asked for anything yet: whatever has changed is not the step's.
            (StepKind::Prose { .. } | StepKind::Human { .. } | StepKind::Checkpoint { .. }, _) => {
                return self.cut_off(step, told("its step had not begun"), told("nothing had to be done"));
            }
            _ => {}
        }
        if calls && step.answer.is_none() && step.decision.is_none() {
            // An earlier recovery was cut off as well: only a step that has answered ends like this by itself.
            match &step.outcome {
                Outcome::NoChanges => {
                    return self.cut_off(step, told("its step was running"), told("nothing had changed"));
                }
                Outcome::Failed { message, .. } => {
                    let reason = format!("it was cut off, and could not be put back: {message}");
                    return self.leave_open(number, &reason, "its step was running");
                }
                _ => {}
            }
        }
        if step.is_external() && step.started_process && step.answer.is_none() && !is_settled {
            let reason = "it was cut off while it ran, and nobody here knows what the other side has done";
            return self.leave_open(number, reason, "its call was running");
        }
        let cannot_undo = step.before.is_none() || self.checkpointer.is_none();
        if cannot_undo && !is_settled {
            return match (&step.answer, step.started_process) {
                (Some((_, error)), _) => {
                    let status = if error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
                    self.finish_step(number, &step.name, status, step.exit_code, None, error.as_ref())?;
                    Ok((told("its step was finished"), told("only the end was written down")))
                }
                (None, true) => {
                    let reason = "it was cut off while it ran, and without checkpoints nothing of it can be put back";
                    self.leave_open(number, reason, "its step was running")
                }
                (None, false) if matches!(step.kind, StepKind::Item { .. }) => {
                    let reason = "it was cut off while it wrote, and without checkpoints nothing of it can be put back";
                    self.leave_open(number, reason, "its step was running")
                }
                (None, false) => self.cut_off(step, told("its step had not begun"), told("nothing had to be done")),
            };
        }
        let Some(mut checkpointer) = self.checkpointer.take() else {
            return self.end_settled(step, told("its step was finished"), told("only the end was written down"));
        };
        let recovered = self.recover_step_with(&mut checkpointer, step, last_sign);
        self.checkpointer = Some(checkpointer);
        match recovered {
            Ok((found, did, settlement)) if is_settled => {
                let committed = settlement.checkpoint.as_ref().is_some_and(|it| it.commit_sha.is_some());
                let settled = StepRecord { outcome: step.outcome.clone(), ..step.clone() };
                if committed || settlement.error.is_none() {
                    let checkpoint = settlement.checkpoint.unwrap_or_else(|| undo::summary_of(&settled));
                    return self.end_with(step, checkpoint, found, did);
                }
                let (error, checkpoint) = (settlement.error, settlement.checkpoint);
                if let (Some(Decision::RollBack { status: Some(StepStatus::CutOff), .. }), Some(error)) =
                    (&step.decision, &error)
                {
                    let reason = format!("it was cut off, and could not be put back: {}", error.message());
                    return self.leave_open(number, &reason, "its step was running");
                }
                self.finish_step(number, &step.name, StepStatus::Failed, step.exit_code, checkpoint, error.as_ref())?;
                Ok((found, did))
            }
            Ok((found, did, settlement)) => match settlement.error {
                None => self.cut_off(step, found, did),
                Some(error) => {
                    let reason = format!("it was cut off, and could not be put back: {}", error.message());
                    self.leave_open(number, &reason, "its step was running")
                }
            },
            Err(RunError::Checkpoint(err)) if !err.may_pass() => {
                let reason = format!("it was cut off, and could not be put back: {err}");
                self.leave_open(number, &reason, "its step was running")
            }
            Err(err) => Err(err),
        }
    }

    /// Whether anything has changed since a step began, or nobody can tell.
    fn may_have_begun(&mut self, step: &StepRecord) -> Result<bool, RunError> {
        let (Some(before), Some(checkpointer)) = (&step.before, &mut self.checkpointer) else { return Ok(true) };
        checkpointer.remember_rules(before)?;
        let after = checkpointer.after(before)?;
        let delta = checkpointer.delta(before, &after)?;
        Ok(!delta.is_empty() || before.head != after.head)
    }

    /// The step is run again when the run is taken up.
    fn cut_off(&mut self, step: &StepRecord, found: String, did: String) -> Result<Told, RunError> {
        let checkpoint = step.before.as_ref().map(|_| undo::summary_of(step));
        self.finish_step(step.id.step, &step.name, StepStatus::CutOff, step.exit_code, checkpoint, None)?;
        Ok((found, did))
    }

    /// Nobody knows what became of the step: a person has to say.
    fn leave_open(&mut self, number: u32, reason: &str, found: &str) -> Result<Told, RunError> {
        let wait = Wait::Indeterminate { reason: reason.to_owned() };
        self.record(&Event::Waiting { step: number, wait })?;
        Ok((told(found), told("it is left to you whether it is done, failed, or run again")))
    }

    fn end_settled(&mut self, step: &StepRecord, found: String, did: String) -> Result<Told, RunError> {
        self.end_with(step, undo::summary_of(step), found, did)
    }

    /// Everything of the step was decided: its end is as it would have been.
    fn end_with(
        &mut self,
        step: &StepRecord,
        checkpoint: crate::journal::summary::CheckpointSummary,
        found: String,
        did: String,
    ) -> Result<Told, RunError> {
        let decided = match &step.decision {
            Some(Decision::RollBack { status: Some(StepStatus::CutOff), .. }) => return self.cut_off(step, found, did),
            Some(Decision::RollBack { status: Some(status), error, .. }) => Some((*status, error.clone())),
            _ => None,
        };
        if let Some((status, error)) = decided {
            let (number, exit_code) = (step.id.step, step.exit_code);
            self.finish_step(number, &step.name, status, exit_code, Some(checkpoint), error.as_ref())?;
            return Ok((found, did));
        }
        let answered = step.answer.as_ref().and_then(|(_, error)| error.clone());
        let is_kept = !matches!(checkpoint.status, CheckpointStatus::RolledBack | CheckpointStatus::Failed);
        let failed = match &step.outcome {
            Outcome::Failed { code, message } => Some(Problem::new(*code, message)),
            _ => None,
        };
        // Why the changes were not kept matters more than that the step failed.
        let error = failed.or(answered).or_else(|| {
            let message = "the changes of the step were not kept, and piton was cut off before it could say why";
            (!is_kept).then(|| Problem::new(Code::Interrupted, message))
        });
        let was_interrupted = step.answer.as_ref().is_some_and(|(_, error)| is_interrupt(error.as_ref()));
        let status = match &error {
            None => StepStatus::Succeeded,
            Some(_) if was_interrupted => StepStatus::Cancelled,
            Some(_) => StepStatus::Failed,
        };
        self.finish_step(step.id.step, &step.name, status, step.exit_code, Some(checkpoint), error.as_ref())?;
        Ok((found, did))
    }
}

/// Whether somebody has ended the step with a signal.
fn is_interrupt(error: Option<&Problem>) -> bool {
    error.is_some_and(|error| error.code == Code::Interrupted)
}
