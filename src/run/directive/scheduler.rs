//! Decides what comes next in a run: which step, whether it runs, and what follows a failure.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::state::{DirectiveFrame, FailedStep};
use super::{Run, StepProgress};
use crate::item::directive::{OnFailure, Param};
use crate::item::wording::shown;
use crate::journal::event::{Event, HookPhase, Resolution};
use crate::journal::summary::{RunStatus, StepStatus};
use crate::problem::{Code, HintCall, Problem, hint};
use crate::run::error::RunError;
use crate::run::tool::Listener;
use crate::values;

/// The maximum depth of nested directives.
const MAX_DEPTH: usize = 16;
/// The longest pause between two attempts, in seconds.
const LONGEST_PAUSE: f64 = 3600.0;

/// The next action.
enum NextAction {
    /// A directive ends.
    Leave(Option<FailedStep>),
    /// Decide what follows a failure.
    Resolve(FailedStep),
    /// Evaluate the hooks after a step.
    LookBack,
    /// The run ends before its remaining steps.
    Abort(Problem),
    /// A directive exceeded its time limit.
    TimedOut(usize),
    /// Start a `foreach`.
    Loop(String),
    /// Execute a step.
    Step,
}

impl Run<'_> {
    /// Continues until a step has ended, an answer is needed, or the run is done.
    pub(super) fn go_on(&mut self, listener: &mut Listener<'_>) -> Result<StepProgress, RunError> {
        loop {
            match self.next() {
                NextAction::Leave(ended) => {
                    if let Some(done) = self.leave(ended)? {
                        return Ok(done);
                    }
                }
                NextAction::Resolve(failure) => self.resolve(&failure)?,
                NextAction::LookBack => self.look_back()?,
                NextAction::Abort(error) => self.abort(error)?,
                NextAction::TimedOut(depth) => self.time_out(depth)?,
                NextAction::Loop(list) => self.begin_loop(&list)?,
                NextAction::Step => {
                    if self.skips()?
                        || self.spawns_too_much()?
                        || self.hook(HookPhase::Before, None)?
                    {
                        continue;
                    }
                    return self.act(listener);
                }
            }
        }
    }

    fn next(&self) -> NextAction {
        let Some(state) = self.state() else {
            return NextAction::Leave(None);
        };
        let Some(frame) = state.frames.last() else {
            return NextAction::Leave(None);
        };
        if let Some(ended) = state.aborted.as_ref().or(frame.stopped.as_ref()) {
            return NextAction::Leave(Some(ended.clone()));
        }
        if let Some(failure) = &frame.failure {
            // The time limit of an outer directive decides here, and no policy of the step applies.
            let is_late = failure
                .error
                .as_ref()
                .is_some_and(|error| error.code == Code::TimedOut);
            return match self.exceeded().filter(|_| is_late) {
                Some(error) => NextAction::Abort(error),
                None => NextAction::Resolve(failure.clone()),
            };
        }
        if frame.just_done.is_some() {
            return NextAction::LookBack;
        }
        if self.listen().is_some() {
            return NextAction::Abort(interrupted());
        }
        let Some(step) = frame.step() else {
            return NextAction::Leave(None);
        };
        if let Some(error) = self.exceeded() {
            return NextAction::Abort(error);
        }
        if let Some(depth) = self.overdue() {
            return NextAction::TimedOut(depth);
        }
        match &step.foreach {
            Some(list) if frame.looped.is_none() => NextAction::Loop(list.clone()),
            _ => NextAction::Step,
        }
    }

    /// Leaves the innermost directive; leaving the outermost one ends the run.
    fn leave(&mut self, ended: Option<FailedStep>) -> Result<Option<StepProgress>, RunError> {
        let Some(frame) = self.state().and_then(|state| state.frames.last()) else {
            return self.finish(RunStatus::Failed, None).map(Some);
        };
        let fields = match &ended {
            None => &frame.directive.outputs.success,
            Some(_) => &frame.directive.outputs.failure,
        };
        let outputs = self.with_scope(None, |scope| Ok(values::outputs(fields, scope)))?;
        let name = frame.name.clone();
        let (status, mut error, outputs) = match (ended, outputs) {
            (None, Ok(outputs)) => (StepStatus::Succeeded, None, outputs),
            (None, Err(err)) => {
                let status = if err.error.is_denied() {
                    StepStatus::Denied
                } else {
                    StepStatus::Failed
                };
                let what = format!("output `{}`", shown(&err.name));
                (status, Some(self.placed(&what, *err.error)), Map::new())
            }
            // The failure matters more than an error in the outputs.
            (Some(ended), Ok(outputs)) => (ended.status, ended.error, outputs),
            (Some(ended), Err(_)) => {
                let each = fields.iter().filter_map(|field| {
                    self.with_scope(None, |scope| {
                        Ok(values::outputs(std::slice::from_ref(field), scope))
                    })
                    .ok()?
                    .ok()
                });
                (ended.status, ended.error, each.flatten().collect())
            }
        };
        if self.state().is_some_and(|state| state.frames.len() > 1) {
            self.session.recorder.record(&Event::DirectiveFinished {
                name,
                status,
                outputs,
                error,
            })?;
            return Ok(None);
        }
        self.session.recorder.outputs = self.revealed.borrow().removed_from_map(&outputs);
        if let Some(error) = &mut error {
            let run = self.session.run().to_string();
            error.hint.get_or_insert_with(|| {
                let (show, resume) = (HintCall::ShowRun(run.clone()), HintCall::Resume(Some(run)));
                hint![
                    show,
                    " shows what it did, ",
                    resume,
                    " restarts at the failed step"
                ]
            });
        }
        self.finish(status.into(), error).map(Some)
    }

    fn finish(
        &mut self,
        status: RunStatus,
        error: Option<Problem>,
    ) -> Result<StepProgress, RunError> {
        self.session
            .close(status, error)
            .map(|summary| StepProgress::Done(Box::new(summary)))
    }

    /// Decides what follows a failure.
    fn resolve(&mut self, failure: &FailedStep) -> Result<(), RunError> {
        if let Some(error) = failure
            .error
            .as_ref()
            .filter(|error| error.code == Code::SentBack)
            && let Some(to) = self
                .state()
                .and_then(|state| state.frames.last())
                .and_then(DirectiveFrame::manual_step_before)
        {
            let (name, to, reason) = (failure.name.clone(), to.to_owned(), error.message());
            self.session
                .recorder
                .record(&Event::SentBack { name, to, reason })?;
            return Ok(());
        }
        if self.hook(HookPhase::Error, failure.error.as_ref())? {
            return Ok(());
        }
        let policy = self.policy();
        let again = self.retry_pause(failure);
        let then = match policy {
            _ if failure.status == StepStatus::Cancelled => Resolution::Abort,
            _ if failure.status == StepStatus::Denied || failure.is_final => Resolution::Stop,
            _ if again.is_some() => Resolution::Retry,
            Some(OnFailure::Continue) => Resolution::GoOn,
            Some(OnFailure::Abort) => Resolution::Abort,
            _ => Resolution::Stop,
        };
        let (name, error) = (failure.name.clone(), failure.error.clone());
        self.session
            .recorder
            .record(&Event::Resolved { name, then, error })?;
        if let Some(pause) = again.filter(|_| then == Resolution::Retry) {
            self.interrupts.sleep(pause).map_err(RunError::Signals)?;
        }
        Ok(())
    }

    /// The pause before a failed step is tried again; `None` if it is not.
    pub(super) fn retry_pause(&self, failure: &FailedStep) -> Option<Duration> {
        let is_fleeting = failure.status == StepStatus::Failed
            && !failure.is_final
            && !is_said(failure.error.as_ref());
        let (frame, step) = self.state()?.turn().filter(|_| is_fleeting)?;
        let retry = step.retry.filter(|retry| retry.count > frame.attempts)?;
        let doubled = retry.backoff * 2f64.powi(i32::try_from(frame.attempts).unwrap_or(i32::MAX));
        Some(Duration::from_secs_f64(doubled.clamp(0.0, LONGEST_PAUSE)))
    }

    /// Whether there is another attempt if this one fails.
    pub(super) fn may_retry(&self) -> bool {
        let turn = self.state().and_then(|state| state.turn());
        turn.is_some_and(|(frame, step)| {
            step.retry.is_some_and(|retry| retry.count > frame.attempts)
        })
    }

    /// Whether this failure of the current step leads to another attempt.
    pub(super) fn is_tried_again(&self, error: &Problem) -> bool {
        self.may_retry() && error.code != Code::Interrupted && !is_said(Some(error))
    }

    /// The failure policy of the current step, or of its directive.
    pub(super) fn policy(&self) -> Option<OnFailure> {
        self.state()
            .and_then(|state| state.frames.last())
            .and_then(DirectiveFrame::policy)
    }

    /// The failure policy for the changes of the step: if the step and its directive have none,
    /// that of the callers.
    pub(super) fn policy_for_changes(&self) -> Option<OnFailure> {
        let frames = self
            .state()
            .map(|state| state.frames.as_slice())
            .unwrap_or_default();
        let is_about_changes = |policy: &OnFailure| {
            matches!(
                policy,
                OnFailure::Rollback | OnFailure::RollbackRun | OnFailure::Keep
            )
        };
        let inherited = || {
            frames
                .iter()
                .rev()
                .skip(1)
                .filter_map(DirectiveFrame::policy)
                .find(is_about_changes)
        };
        self.policy().or_else(inherited)
    }

    /// Evaluates the hooks after a successful step.
    fn look_back(&mut self) -> Result<(), RunError> {
        if !self.hook(HookPhase::After, None)?
            && let Some(frame) = self
                .session
                .recorder
                .state
                .as_mut()
                .and_then(|state| state.frames.last_mut())
        {
            frame.just_done = None;
        }
        Ok(())
    }

    /// Enters the first hook whose expression holds; returns whether there is one.
    fn hook(&mut self, phase: HookPhase, error: Option<&Problem>) -> Result<bool, RunError> {
        let Some(frame) = self.state().and_then(|state| state.frames.last()) else {
            return Ok(false);
        };
        // A hook has no hooks: it would trigger itself.
        let is_hook = self
            .state()
            .is_some_and(|state| state.frames.iter().any(|frame| frame.hook.is_some()));
        if is_hook
            || frame.directive.hooks.is_empty()
            || (frame.hooked && phase != HookPhase::After)
        {
            return Ok(false);
        }
        let variables = self.variables(frame, phase, error);
        let mut found = None;
        for hook in &frame.directive.hooks {
            match self.with_scope(Some(&variables), |scope| {
                values::hook_holds(&hook.when, scope)
            }) {
                Ok(true) => {
                    found = Some(hook.clone());
                    break;
                }
                Ok(false) => {}
                Err(err) => {
                    let what = format!("hook `{}`", hook.directive);
                    return self
                        .stop(self.placed(&what, err.near(hook.place)))
                        .map(|()| true);
                }
            }
        }
        let Some(hook) = found else { return Ok(false) };
        if let Some(error) = self.spawn_exceeds() {
            return self.abort(error).map(|()| true);
        }
        let name = frame.below(&format!("hook:{}", hook.directive));
        let filled = self.with_scope(Some(&variables), |scope| {
            let filled = |input: &Param| {
                values::fill(&input.value, scope).map_err(|err| err.near(input.place))
            };
            hook.inputs
                .iter()
                .map(|input| Ok((input.name.clone(), filled(input)?)))
                .collect()
        });
        let entered = match filled {
            Ok(inputs) => self.enter(name, &hook.directive, inputs, &[], Some(phase)),
            Err(err) => {
                let what = format!("hook `{}`", hook.directive);
                return self.stop(self.placed(&what, err)).map(|()| true);
            }
        };
        match entered {
            Ok(()) => Ok(true),
            Err(err) => self.stop(Problem::of(&err)).map(|()| true),
        }
    }

    /// The variables for the expressions of hooks.
    fn variables(
        &self,
        frame: &DirectiveFrame,
        phase: HookPhase,
        error: Option<&Problem>,
    ) -> Map<String, Value> {
        let cost = self.session.recorder.cost();
        let step = match phase {
            HookPhase::After => frame.just_done.clone(),
            _ => None,
        };
        let step = step.or_else(|| frame.step().map(|step| step.name.clone()));
        let error = error.map(|error| json!({"code": error.code, "message": error.message()}));
        let phase = serde_json::to_value(phase).unwrap_or_default();
        let cost = json!({"steps": cost.steps, "seconds": cost.seconds});
        let named = [
            ("step", json!(step)),
            ("phase", phase),
            ("error", json!(error)),
            ("cost", cost),
        ];
        named
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Enters a nested directive.
    pub(super) fn enter(
        &mut self,
        name: String,
        id: &str,
        inputs: Map<String, Value>,
        words: &[String],
        hook: Option<HookPhase>,
    ) -> Result<(), RunError> {
        if self
            .state()
            .is_some_and(|state| state.frames.len() >= MAX_DEPTH)
        {
            return Err(RunError::TooDeep { most: MAX_DEPTH });
        }
        let found = self
            .pinned
            .find(self.session.recorder.ctx, &self.store, id)?;
        let inputs = values::inputs(&found.directive, inputs, words).map_err(|problems| {
            RunError::Inputs {
                directive: found.label.clone(),
                problems,
            }
        })?;
        self.keep_pinned()?;
        if let Some(state) = self
            .session
            .recorder
            .state
            .as_mut()
            .filter(|state| !state.knows(&found.content))
        {
            state.know(found.content.clone(), found.directive.clone());
        }
        let (directive, content) = (found.label, found.content);
        self.session.recorder.record(&Event::DirectiveStarted {
            name,
            directive,
            content,
            inputs,
            hook,
        })?;
        Ok(())
    }

    /// Saves items that were pinned during the run.
    pub(super) fn keep_pinned(&mut self) -> Result<(), RunError> {
        self.pinned
            .save_later(&self.session.recorder.folders.runs, self.session.run())
            .map_err(RunError::Pin)
    }

    fn begin_loop(&mut self, list: &str) -> Result<(), RunError> {
        let name = self.position();
        match self.with_scope(None, |scope| values::elements(list, scope)) {
            Ok(elements) => self
                .session
                .recorder
                .record(&Event::LoopStarted { name, elements })
                .map(|_| ()),
            Err(err) => self.stop(self.placed(&self.in_step(), err)),
        }
    }

    /// Whether the condition of the step is false; records that.
    fn skips(&mut self) -> Result<bool, RunError> {
        let Some((_, step)) = self.state().and_then(|state| state.turn()) else {
            return Ok(false);
        };
        let Some(when) = step.when.clone() else {
            return Ok(false);
        };
        match self.with_scope(None, |scope| values::holds(&when, scope)) {
            Ok(true) => Ok(false),
            Ok(false) => {
                let (name, reason) = (self.position(), format!("`{when}` is false"));
                self.session.recorder.skip_step(name, reason)?;
                Ok(true)
            }
            Err(err) => self.stop(self.placed(&self.in_step(), err)).map(|()| true),
        }
    }

    /// Stops the directive after a failure that no policy handles.
    fn stop(&mut self, error: Problem) -> Result<(), RunError> {
        let name = self.position();
        self.session.recorder.record(&Event::Resolved {
            name,
            then: Resolution::Stop,
            error: Some(error),
        })?;
        Ok(())
    }

    pub(super) fn abort(&mut self, error: Problem) -> Result<(), RunError> {
        let name = self.position();
        self.session.recorder.record(&Event::Resolved {
            name,
            then: Resolution::Abort,
            error: Some(error),
        })?;
        Ok(())
    }
}

/// Whether a person or agent reported the failure: they have tried, and their work is not rolled
/// back.
fn is_said(error: Option<&Problem>) -> bool {
    error.is_some_and(|error| error.code.is_said())
}

fn interrupted() -> Problem {
    Problem::new(Code::Interrupted, "the run was interrupted")
}
