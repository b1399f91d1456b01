//! Handles the answer to a waiting step: a result, an approval or a decision.

use serde_json::{Value, json};

use super::execute_step::{HUMAN_ACTION, HUMAN_VERIFY};
use super::prose::ManualStep;
use super::state::DirectiveFrame;
use super::{Run, RunInput, StepProgress, Waiting};
use crate::audit::history::StepRecord;
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::journal::event::{Approver, Event, StepKind, Wait};
use crate::journal::summary::StepStatus;
use crate::problem::{Code, Problem};
use crate::run::consent;
use crate::run::error::{RestartError, RunError};
use crate::run::recorder::Recorder;
use crate::run::session::Session;
use crate::run::settle::{self, Reversal, Settlement};
use crate::run::tool::Listener;

impl Run<'_> {
    /// Answers a waiting step, or fails if it waits for something else.
    pub(super) fn take_answer(
        &mut self,
        waiting: &Waiting,
        input: RunInput,
        listener: &mut Listener<'_>,
    ) -> Result<StepProgress, RunError> {
        self.approver = self.find_approver(&waiting.wait, &input)?;
        let taken = self.take_answer_of(waiting, input, listener);
        self.approver = None;
        taken
    }

    /// The person whose decision an answer is; none for the result of work. An agent cannot decide
    /// for a person: it can only continue what a person has answered before an interruption.
    fn find_approver(&self, wait: &Wait, input: &RunInput) -> Result<Option<Approver>, RunError> {
        let is_decision = !matches!(
            (wait, input),
            (_, RunInput::Go)
                | (
                    Wait::Work { .. },
                    RunInput::Done { .. } | RunInput::Failed(_)
                )
                | (Wait::Person { .. }, RunInput::Done { result: None, .. })
        );
        if !is_decision {
            return Ok(None);
        }
        let checkpointer = self.session.checkpointer.as_ref();
        let repository = checkpointer.map(Checkpointer::repository);
        match consent::approver(self.session.recorder.ctx, repository) {
            Some(approver) => Ok(Some(approver)),
            None => Err(RunError::PersonNeeded),
        }
    }

    fn take_answer_of(
        &mut self,
        waiting: &Waiting,
        input: RunInput,
        listener: &mut Listener<'_>,
    ) -> Result<StepProgress, RunError> {
        if let RunInput::Done { paths, .. } = &input {
            require_paths(&self.session, paths)?;
        }
        let is_prose = |open: &StepRecord| matches!(open.kind, StepKind::Prose { .. });
        let is_work = self
            .state()
            .and_then(|state| state.open.as_ref())
            .is_some_and(is_prose);
        // A repeated call has its own state before it.
        if is_work || input != RunInput::Retry {
            self.move_base()?;
        }
        let Some(open) = self.state().and_then(|state| state.open.clone()) else {
            return Ok(StepProgress::Stepped);
        };
        match &waiting.wait {
            Wait::Work {
                instruction,
                checks,
                ..
            } => {
                let work = ManualStep {
                    instruction,
                    checks,
                    ..ManualStep::of(&open)
                };
                self.answer_work(waiting, &open, &work, input)?;
            }
            Wait::Person { gate, .. } => self.answer_person(waiting, &open, gate, input)?,
            Wait::Changes => self.answer_changes(waiting, &open, input)?,
            Wait::Indeterminate { .. } => {
                self.answer_indeterminate(waiting, &open, input, listener)?;
            }
            Wait::Unknown => return Err(wrong_answer(waiting)),
        }
        Ok(match self.waiting() {
            Some(waiting) => StepProgress::Waiting(Box::new(waiting)),
            None => StepProgress::Stepped,
        })
    }

    /// Answers a manual step.
    fn answer_work(
        &mut self,
        waiting: &Waiting,
        open: &StepRecord,
        work: &ManualStep<'_>,
        input: RunInput,
    ) -> Result<(), RunError> {
        match input {
            RunInput::Done { result, paths } => {
                // An answer that was interrupted before it took effect is still valid.
                let is_unsaid = result.is_none() && paths.is_empty();
                let paths = if is_unsaid { open.named.clone() } else { paths };
                let done = match (result, &open.answer) {
                    (None, Some((_, Some(error)))) if is_unsaid => Err(error.clone()),
                    (None, Some((result, None))) => Ok(result.clone()),
                    (result, _) => Ok(result.unwrap_or_default()),
                };
                self.settle_work(work, &paths, done)
            }
            RunInput::Failed(why) => self.settle_work(work, &[], Err(reported(&why))),
            RunInput::End(why) => self.settle_work(work, &[], Err(rejected(why))),
            RunInput::Reject(Some(reason)) => {
                let wait = Wait::Work {
                    instruction: work.instruction.to_owned(),
                    checks: work.checks.to_vec(),
                    outside: Vec::new(),
                    rejected: Some(reason),
                };
                self.session.recorder.record(&Event::Waiting {
                    step: waiting.step,
                    wait,
                })?;
                Ok(())
            }
            RunInput::Reject(None) => Err(RestartError::ReasonNeeded(self.id()).into()),
            _ => Err(wrong_answer(waiting)),
        }
    }

    /// Answers a question.
    fn answer_person(
        &mut self,
        waiting: &Waiting,
        open: &StepRecord,
        gate: &str,
        input: RunInput,
    ) -> Result<(), RunError> {
        match (input, &open.answer) {
            (RunInput::Approve { answer, tree, .. }, _) => {
                let reviewed = self.approve(open, tree.as_deref())?;
                let result = json!({"approved": true, "answer": answer});
                self.take_yes(open, gate, result, reviewed)
            }
            (RunInput::Reject(Some(reason)), _) if self.can_send_back(gate) => {
                self.take_no(open, &Problem::new(Code::SentBack, reason))
            }
            (RunInput::Reject(why) | RunInput::End(why), _) => self.take_no(open, &rejected(why)),
            // The answer was interrupted before it took effect.
            (RunInput::Done { result: None, .. }, Some((result, None))) => {
                let shown = open.approved.map(|tree| tree.to_string());
                let reviewed = self.approve(open, shown.as_deref())?;
                self.take_yes(open, gate, result.clone(), reviewed)
            }
            (RunInput::Done { result: None, .. }, Some((_, Some(error)))) => {
                self.take_no(open, error)
            }
            _ => Err(wrong_answer(waiting)),
        }
    }

    /// Answers whether to keep the changes of a step.
    fn answer_changes(
        &mut self,
        waiting: &Waiting,
        open: &StepRecord,
        input: RunInput,
    ) -> Result<(), RunError> {
        match input {
            RunInput::Approve { message, tree, .. } => {
                let reviewed = self.approve(open, tree.as_deref())?;
                self.keep_changes(open, message.as_deref(), reviewed)
            }
            RunInput::Reject(why) | RunInput::End(why) => self.drop_changes(open, why),
            _ => Err(wrong_answer(waiting)),
        }
    }

    /// Decides about a step whose outcome is unknown.
    fn answer_indeterminate(
        &mut self,
        waiting: &Waiting,
        open: &StepRecord,
        input: RunInput,
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let work = ManualStep::of(open);
        match (input, &open.kind) {
            (RunInput::Retry, StepKind::Prose { instruction }) => {
                let work = ManualStep {
                    instruction,
                    ..work
                };
                self.do_work(&work, listener)
            }
            (RunInput::Retry, _) => self.session.recorder.finish_step(
                waiting.step,
                &waiting.name,
                StepStatus::CutOff,
                None,
                None,
                None,
            ),
            (RunInput::Done { result, paths }, _) => {
                self.settle_work(&work, &paths, Ok(result.unwrap_or_default()))
            }
            (RunInput::Failed(why), _) => self.settle_work(&work, &[], Err(reported(&why))),
            _ => Err(wrong_answer(waiting)),
        }
    }

    /// Whether there is a manual step before the waiting gate that a person can have repeated.
    fn can_send_back(&self, gate: &str) -> bool {
        let frame = self.state().and_then(|state| state.frames.last());
        gate == HUMAN_VERIFY && frame.and_then(DirectiveFrame::manual_step_before).is_some()
    }

    /// Handles a rejection.
    fn take_no(&mut self, open: &StepRecord, error: &Problem) -> Result<(), RunError> {
        let (step, paths) = (open.id.step, Vec::new());
        self.session.recorder.record(&Event::Answered {
            step,
            result: Value::Null,
            error: Some(error.clone()),
            paths,
            approver: self.approver.clone(),
        })?;
        if open.before.is_some()
            && matches!(&open.kind, StepKind::Human { gate } if gate == HUMAN_ACTION)
        {
            let reason = "a person rejected it; changes made meanwhile stay".to_owned();
            self.session
                .recorder
                .record(&Event::CheckpointSkipped { step, reason })?;
        }
        self.session.recorder.finish_step(
            step,
            &open.name,
            StepStatus::Failed,
            None,
            None,
            Some(error),
        )
    }

    /// Rolls back the changes of a step; for a checkpoint step, those of the steps that it covers.
    fn drop_changes(&mut self, open: &StepRecord, why: Option<String>) -> Result<(), RunError> {
        let (step, error) = (open.id.step, rejected(why));
        if matches!(open.kind, StepKind::Checkpoint { .. }) {
            // Record it: after an interruption, only this event tells the end of the step.
            let (result, paths) = (Value::Null, Vec::new());
            self.session.recorder.record(&Event::Answered {
                step,
                result,
                error: Some(error.clone()),
                paths,
                approver: self.approver.clone(),
            })?;
        }
        let why = Reversal::failure("a person rejected it", error.clone());
        let settlement = roll_back_found(&mut self.session, open, why)?;
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
        let status = if error.is_none() {
            StepStatus::Succeeded
        } else {
            StepStatus::Failed
        };
        let (step, name, exit_code) = (open.id.step, open.name.as_str(), open.exit_code);
        self.session.recorder.finish_step(
            step,
            name,
            status,
            exit_code,
            settlement.checkpoint,
            error.as_ref(),
        )
    }
}

/// Rolls back the changes that were recorded before the person was asked.
fn roll_back_found(
    session: &mut Session<'_>,
    open: &StepRecord,
    why: Reversal<'_>,
) -> Result<Settlement, RunError> {
    settle_found(session, open, |recorder, checkpointer, before, found| {
        let Attributed { after, delta, .. } = &found;
        let step = open.id.step;
        settle::roll_back(recorder, checkpointer, step, why, before, after, delta)
    })
}

/// Settles the changes that were recorded before the person was asked.
pub(super) fn settle_found(
    session: &mut Session<'_>,
    open: &StepRecord,
    settle: impl FnOnce(
        &mut Recorder<'_>,
        &mut Checkpointer,
        &Snapshot,
        Attributed,
    ) -> Result<Settlement, RunError>,
) -> Result<Settlement, RunError> {
    let Some((before, found)) = recorded_changes(open) else {
        return session.recorder.skip_checkpoint(open.id.step);
    };
    let (recorder, checkpointer) = session.with_git()?;
    checkpointer.remember_rules(before)?;
    settle(recorder, checkpointer, before, found)
}

/// The recorded changes of a step, and the state before it.
fn recorded_changes(open: &StepRecord) -> Option<(&Snapshot, Attributed)> {
    let found = Attributed {
        after: open.after.clone()?,
        delta: open.delta.clone()?,
        outside: open.outside.clone(),
        doubt: None,
    };
    Some((open.before.as_ref()?, found))
}

/// Fails for a path that is neither on disk nor in the last commit.
fn require_paths(session: &Session<'_>, paths: &[RepoPath]) -> Result<(), RunError> {
    let Some(checkpointer) = &session.checkpointer else {
        return Ok(());
    };
    let top = checkpointer.repository().top();
    for path in paths {
        if top.join(path.as_path()).symlink_metadata().is_err()
            && !checkpointer.repository().has_path(path)?
        {
            return Err(RunError::NoSuchPath(path.to_string()));
        }
    }
    Ok(())
}

fn wrong_answer(waiting: &Waiting) -> RunError {
    RunError::WrongAnswer(Box::new(waiting.clone()))
}

fn rejected(why: Option<String>) -> Problem {
    let message = match why {
        Some(why) => format!("a person rejected it: {why}"),
        None => "a person rejected it".to_owned(),
    };
    Problem::new(Code::Rejected, message)
}

fn reported(why: &str) -> Problem {
    Problem::new(Code::StepFailed, why)
}
