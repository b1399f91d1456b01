//! What a waiting step is given: work, a word, a decision.

use serde_json::{Value, json};

use super::act::{HUMAN_ACTION, HUMAN_VERIFY};
use super::state::Frame;
use super::{Input, Progress, Run, Waiting};
use crate::audit::history::StepRecord;
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::error::CheckpointError;
use crate::journal::event::{Event, StepKind, Wait};
use crate::journal::summary::{CheckpointStatus, StepStatus};
use crate::problem::{Code, Problem};
use crate::run::error::{RestartError, RunError};
use crate::run::settle::{Reversal, Settlement};
use crate::run::step::summary;
use crate::run::tool::Listener;

impl Run<'_, '_> {
    /// Gives a waiting step what it waits for, or says that this is something else.
    pub(super) fn take_answer(
        &mut self,
        waiting: Waiting,
        input: Input,
        listener: &mut Listener<'_>,
    ) -> Result<Progress, RunError> {
        if let Input::Done { paths, .. } = &input {
            self.session.require_paths(paths)?;
        }
        let is_prose = |open: &StepRecord| matches!(open.kind, StepKind::Prose { .. });
        let is_work = self.state().and_then(|state| state.open.as_ref()).is_some_and(is_prose);
        // A call that is made again has a state before it of its own.
        if is_work || input != Input::Retry {
            self.move_base()?;
        }
        let Some(open) = self.state().and_then(|state| state.open.clone()) else { return Ok(Progress::Stepped) };
        match (&waiting.wait, input) {
            (Wait::Work { instruction, checks, .. }, Input::Done { result, paths }) => {
                let before = open.before.as_ref();
                // What was said and cut off before it had any effect is still said.
                let is_unsaid = result.is_none() && paths.is_empty();
                let paths = if is_unsaid { open.named.clone() } else { paths };
                let done = match (result, &open.answer) {
                    (None, Some((_, Some(error)))) if is_unsaid => Err(error.clone()),
                    (None, Some((result, None))) => Ok(result.clone()),
                    (result, _) => Ok(result.unwrap_or_default()),
                };
                self.settle_work(waiting.step, &waiting.name, before, &paths, done, instruction, checks)?;
            }
            (Wait::Work { instruction, checks, .. }, Input::Failed(why)) => {
                let (before, error) = (open.before.as_ref(), reported(&why));
                self.settle_work(waiting.step, &waiting.name, before, &[], Err(error), instruction, checks)?;
            }
            (Wait::Person { gate, .. }, Input::Approve { answer, tree, .. }) => {
                let reviewed = self.approve(&open, tree.as_deref())?;
                self.take_yes(&open, gate, json!({"approved": true, "answer": answer}), reviewed)?;
            }
            (Wait::Work { instruction, checks, .. }, Input::Reject(Some(reason))) => {
                let (instruction, checks) = (instruction.clone(), checks.clone());
                let wait = Wait::Work { instruction, checks, outside: Vec::new(), rejected: Some(reason) };
                self.session.record(&Event::Waiting { step: waiting.step, wait })?;
            }
            (Wait::Work { .. }, Input::Reject(None)) => return Err(RestartError::ReasonNeeded(self.id()).into()),
            (Wait::Work { instruction, checks, .. }, Input::End(why)) => {
                let (before, error) = (open.before.as_ref(), rejected(why));
                self.settle_work(waiting.step, &waiting.name, before, &[], Err(error), instruction, checks)?;
            }
            (Wait::Person { gate, .. }, Input::Reject(Some(reason))) if self.can_send_back(gate) => {
                self.take_no(&open, &Problem::new(Code::SentBack, reason))?;
            }
            (Wait::Person { .. }, Input::Reject(why) | Input::End(why)) => self.take_no(&open, &rejected(why))?,
            (Wait::Person { gate, .. }, Input::Done { result: None, .. })
                if let Some((result, error)) = &open.answer =>
            {
                match error {
                    None => {
                        let shown = open.approved.map(|tree| tree.to_string());
                        let reviewed = self.approve(&open, shown.as_deref())?;
                        self.take_yes(&open, gate, result.clone(), reviewed)?;
                    }
                    Some(error) => self.take_no(&open, error)?,
                }
            }
            (Wait::Changes, Input::Approve { message, tree, .. }) => {
                let reviewed = self.approve(&open, tree.as_deref())?;
                self.keep_changes(&open, message.as_deref(), reviewed)?;
            }
            (Wait::Changes, Input::Reject(why) | Input::End(why)) => self.drop_changes(&open, why)?,
            (Wait::Indeterminate { .. }, Input::Retry) if is_work => {
                let StepKind::Prose { instruction } = &open.kind else { return Ok(Progress::Stepped) };
                let before = open.before.clone();
                self.do_work(waiting.step, &waiting.name, before.as_ref(), instruction.clone(), listener)?;
            }
            (Wait::Indeterminate { .. }, Input::Retry) => {
                self.session.finish_step(waiting.step, &waiting.name, StepStatus::CutOff, None, None, None)?;
            }
            (Wait::Indeterminate { .. }, Input::Done { result, paths }) => {
                let (before, done) = (open.before.as_ref(), Ok(result.unwrap_or_default()));
                self.settle_work(waiting.step, &waiting.name, before, &paths, done, "", &[])?;
            }
            (Wait::Indeterminate { .. }, Input::Failed(why)) => {
                let (before, error) = (open.before.as_ref(), reported(&why));
                self.settle_work(waiting.step, &waiting.name, before, &[], Err(error), "", &[])?;
            }
            _ => return Err(RunError::WrongAnswer(Box::new(waiting))),
        }
        Ok(match self.waiting() {
            Some(waiting) => Progress::Waiting(Box::new(waiting)),
            None => Progress::Stepped,
        })
    }

    /// Whether a manual step comes before the gate that waits, which a person can have done again.
    fn can_send_back(&self, gate: &str) -> bool {
        let frame = self.state().and_then(|state| state.frames.last());
        gate == HUMAN_VERIFY && frame.and_then(Frame::manual_step_before).is_some()
    }

    /// A person says no.
    fn take_no(&mut self, open: &StepRecord, error: &Problem) -> Result<(), RunError> {
        let (step, paths) = (open.id.step, Vec::new());
        self.session.record(&Event::Answered { step, result: Value::Null, error: Some(error.clone()), paths })?;
        if open.before.is_some() && matches!(&open.kind, StepKind::Human { gate } if gate == HUMAN_ACTION) {
            let reason = "a person said no; what changed meanwhile stays".to_owned();
            self.session.record(&Event::CheckpointSkipped { step, reason })?;
        }
        self.session.finish_step(step, &open.name, StepStatus::Failed, None, None, Some(error))
    }

    /// The changes of a step are put back after all; a checkpoint is simply not made.
    fn drop_changes(&mut self, open: &StepRecord, why: Option<String>) -> Result<(), RunError> {
        let (step, error) = (open.id.step, rejected(why));
        let settlement = if matches!(open.kind, StepKind::Checkpoint { .. }) {
            // The end of the step is known only from this, should it be cut off.
            let (result, paths) = (Value::Null, Vec::new());
            self.session.record(&Event::Answered { step, result, error: Some(error.clone()), paths })?;
            let reason = "a person said no; the changes stay".to_owned();
            self.session.record(&Event::CheckpointSkipped { step, reason })?;
            Settlement::of(summary(CheckpointStatus::Skipped))
        } else {
            self.session.with_found(open, |session, checkpointer, before, found| {
                let why = Reversal::failure("a person said no", error.clone());
                session.roll_back(checkpointer, step, why, before, &found.after, &found.delta)
            })?
        };
        self.end_decided(open, settlement, Some(error))
    }

    pub(super) fn end_decided(
        &mut self,
        open: &StepRecord,
        settlement: Settlement,
        error: Option<Problem>,
    ) -> Result<(), RunError> {
        let answered = open.answer.as_ref().and_then(|(_, error)| error.clone());
        let error = settlement.error.or(error).or(answered);
        let status = if error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        let (step, name, exit_code) = (open.id.step, open.name.as_str(), open.exit_code);
        self.session.finish_step(step, name, status, exit_code, settlement.checkpoint, error.as_ref())
    }
}

impl crate::run::session::Session<'_, '_> {
    /// Does something with the changes that were found before somebody was asked about them.
    pub(super) fn with_found(
        &mut self,
        open: &StepRecord,
        act: impl FnOnce(
            &mut Self,
            &mut crate::checkpoint::checkpointer::Checkpointer,
            &crate::checkpoint::snapshot::Snapshot,
            Attributed,
        ) -> Result<Settlement, RunError>,
    ) -> Result<Settlement, RunError> {
        let (Some(before), Some(after), Some(delta)) = (&open.before, &open.after, &open.delta) else {
            return self.skip_checkpoint(open.id.step);
        };
        let Some(mut checkpointer) = self.checkpointer.take() else {
            return Err(CheckpointError::NoRepository(self.ctx.root.clone()).into());
        };
        let (after, delta, outside) = (after.clone(), delta.clone(), open.outside.clone());
        let found = Attributed { after, delta, outside, doubt: None };
        let settled = checkpointer
            .remember_rules(before)
            .map_err(RunError::from)
            .and_then(|()| act(self, &mut checkpointer, before, found));
        self.checkpointer = Some(checkpointer);
        settled
    }
}

fn rejected(why: Option<String>) -> Problem {
    let message = match why {
        Some(why) => format!("a person said no: {why}"),
        None => "a person said no".to_owned(),
    };
    Problem::new(Code::Rejected, message)
}

fn reported(why: &str) -> Problem {
    Problem::new(Code::StepFailed, why)
}
