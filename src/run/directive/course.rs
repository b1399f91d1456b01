//! What comes next in a run: which step, whether it runs at all, what follows its failure.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::state::{Ended, Frame};
use super::{Progress, Run};
use crate::item::directive::{Directive, OnFailure, Param, Step, StepAction};
use crate::item::wording::shown;
use crate::journal::event::{Event, HookPhase, Resolution};
use crate::journal::summary::{RunStatus, StepStatus};
use crate::policy::{self, Authority, Caller};
use crate::problem::{Call, Code, Problem, hint};
use crate::run::error::RunError;
use crate::run::tool::Listener;
use crate::run::values::{self, EnvironmentProblem, Scope, ValueError};

/// How deep directives may call each other.
const MAX_DEPTH: usize = 16;
/// No pause between two attempts is longer.
const LONGEST_PAUSE: f64 = 3600.0;

/// What is to be done next.
enum Next {
    /// A directive ends.
    Leave(Option<Ended>),
    /// Something is decided about a failure.
    Resolve(Ended),
    /// The hooks after a step are looked at.
    LookBack,
    /// The run ends, although its steps would go on.
    Abort(Problem),
    /// A directive took too long.
    TimedOut(usize),
    /// A list is gone through.
    Loop(String),
    /// A step may be run.
    Step,
}

impl Run<'_, '_> {
    /// Goes on until a step has ended, somebody is needed, or everything is done.
    pub(super) fn go_on(&mut self, listener: &mut Listener<'_>) -> Result<Progress, RunError> {
        loop {
            match self.next() {
                Next::Leave(ended) => {
                    if let Some(done) = self.leave(ended)? {
                        return Ok(done);
                    }
                }
                Next::Resolve(failure) => self.resolve(&failure)?,
                Next::LookBack => self.look_back()?,
                Next::Abort(error) => self.abort(error)?,
                Next::TimedOut(depth) => self.time_out(depth)?,
                Next::Loop(list) => self.begin_loop(&list)?,
                Next::Step => {
                    if self.skips()? || self.spawns_too_much()? || self.hook(HookPhase::Before, None)? {
                        continue;
                    }
                    return self.act(listener);
                }
            }
        }
    }

    fn next(&self) -> Next {
        let Some(state) = self.state() else { return Next::Leave(None) };
        let Some(frame) = state.frames.last() else { return Next::Leave(None) };
        if let Some(ended) = state.aborted.as_ref().or(frame.stopped.as_ref()) {
            return Next::Leave(Some(ended.clone()));
        }
        if let Some(failure) = &frame.failure {
            // Whose time was up is told by the limit, and no policy of the step helps.
            let is_late = failure.error.as_ref().is_some_and(|error| error.code == Code::TimedOut);
            return match self.exceeded().filter(|_| is_late) {
                Some(error) => Next::Abort(error),
                None => Next::Resolve(failure.clone()),
            };
        }
        if frame.just_done.is_some() {
            return Next::LookBack;
        }
        if self.listen().is_some() {
            return Next::Abort(interrupted());
        }
        let Some(step) = frame.step() else { return Next::Leave(None) };
        if let Some(error) = self.exceeded() {
            return Next::Abort(error);
        }
        if let Some(depth) = self.overdue() {
            return Next::TimedOut(depth);
        }
        match &step.foreach {
            Some(list) if frame.looped.is_none() => Next::Loop(list.clone()),
            _ => Next::Step,
        }
    }

    /// Ends the innermost directive; the outermost one ends the run.
    fn leave(&mut self, ended: Option<Ended>) -> Result<Option<Progress>, RunError> {
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
                let status = if err.error.is_denied() { StepStatus::Denied } else { StepStatus::Failed };
                let what = format!("output `{}`", shown(&err.name));
                (status, Some(self.placed(&what, *err.error)), Map::new())
            }
            // What a failed directive would have returned matters less than why it failed.
            (Some(ended), Ok(outputs)) => (ended.status, ended.error, outputs),
            (Some(ended), Err(_)) => {
                let each = fields.iter().filter_map(|field| {
                    self.with_scope(None, |scope| Ok(values::outputs(std::slice::from_ref(field), scope))).ok()?.ok()
                });
                (ended.status, ended.error, each.flatten().collect())
            }
        };
        if self.state().is_some_and(|state| state.frames.len() > 1) {
            self.session.record(&Event::DirectiveFinished { name, status, outputs, error })?;
            return Ok(None);
        }
        self.session.outputs = outputs;
        if let Some(error) = &mut error {
            let run = self.session.run().to_string();
            error.hint.get_or_insert_with(|| {
                let (show, resume) = (Call::ShowRun(run.clone()), Call::Resume(Some(run)));
                hint![show, " shows what it did, ", resume, " begins again at the step that failed"]
            });
        }
        self.finish(status.into(), error).map(Some)
    }

    fn finish(&mut self, status: RunStatus, error: Option<Problem>) -> Result<Progress, RunError> {
        self.session.close(status, error).map(|summary| Progress::Done(Box::new(summary)))
    }

    /// Decides what follows a failure.
    fn resolve(&mut self, failure: &Ended) -> Result<(), RunError> {
        if let Some(error) = failure.error.as_ref().filter(|error| error.code == Code::SentBack)
            && let Some(to) = self.state().and_then(|state| state.frames.last()).and_then(Frame::manual_step_before)
        {
            let (name, to, reason) = (failure.name.clone(), to.to_owned(), error.message());
            self.session.record(&Event::SentBack { name, to, reason })?;
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
        self.session.record(&Event::Resolved { name, then, error })?;
        if let Some(pause) = again.filter(|_| then == Resolution::Retry) {
            self.interrupts.sleep(pause).map_err(RunError::Signals)?;
        }
        Ok(())
    }

    /// How long to wait before a step that failed is tried again; none when it is not.
    pub(super) fn retry_pause(&self, failure: &Ended) -> Option<Duration> {
        let is_fleeting = failure.status == StepStatus::Failed && !failure.is_final && !is_said(failure.error.as_ref());
        let (frame, step) = self.state()?.turn().filter(|_| is_fleeting)?;
        let retry = step.retry.filter(|retry| retry.count > frame.attempts)?;
        let doubled = retry.backoff * 2f64.powi(i32::try_from(frame.attempts).unwrap_or(i32::MAX));
        Some(Duration::from_secs_f64(doubled.clamp(0.0, LONGEST_PAUSE)))
    }

    /// Whether there is another attempt, should this one fail.
    pub(super) fn may_retry(&self) -> bool {
        let turn = self.state().and_then(|state| state.turn());
        turn.is_some_and(|(frame, step)| step.retry.is_some_and(|retry| retry.count > frame.attempts))
    }

    /// Whether a failure of the step whose turn it is leads to another attempt.
    pub(super) fn is_tried_again(&self, error: &Problem) -> bool {
        self.may_retry() && error.code != Code::Interrupted && !is_said(Some(error))
    }

    /// What the step whose turn it is, or its directive, says about its failure.
    pub(super) fn policy(&self) -> Option<OnFailure> {
        self.state().and_then(|state| state.frames.last()).and_then(Frame::policy)
    }

    /// The same for the changes of the step: where nobody near says anything, those who called say it.
    pub(super) fn policy_for_changes(&self) -> Option<OnFailure> {
        let frames = self.state().map(|state| state.frames.as_slice()).unwrap_or_default();
        let is_about_changes =
            |policy: &OnFailure| matches!(policy, OnFailure::Rollback | OnFailure::RollbackRun | OnFailure::Keep);
        let inherited = || frames.iter().rev().skip(1).filter_map(Frame::policy).find(is_about_changes);
        self.policy().or_else(inherited)
    }

    /// Looks at the hooks after a step that succeeded.
    fn look_back(&mut self) -> Result<(), RunError> {
        if !self.hook(HookPhase::After, None)?
            && let Some(frame) = self.session.state.as_mut().and_then(|state| state.frames.last_mut())
        {
            frame.just_done = None;
        }
        Ok(())
    }

    /// Begins the first hook whose expression holds; says whether there is one.
    fn hook(&mut self, phase: HookPhase, error: Option<&Problem>) -> Result<bool, RunError> {
        let Some(frame) = self.state().and_then(|state| state.frames.last()) else { return Ok(false) };
        // A hook has no hooks: what it does would call it again.
        let is_hook = self.state().is_some_and(|state| state.frames.iter().any(|frame| frame.hook.is_some()));
        if is_hook || frame.directive.hooks.is_empty() || (frame.hooked && phase != HookPhase::After) {
            return Ok(false);
        }
        let variables = self.variables(frame, phase, error);
        let mut found = None;
        for hook in &frame.directive.hooks {
            match self.with_scope(Some(&variables), |scope| values::hook_holds(&hook.when, scope)) {
                Ok(true) => {
                    found = Some(hook.clone());
                    break;
                }
                Ok(false) => {}
                Err(err) => {
                    let what = format!("hook `{}`", hook.directive);
                    return self.stop(self.placed(&what, err.near(hook.place))).map(|()| true);
                }
            }
        }
        let Some(hook) = found else { return Ok(false) };
        if let Some(error) = self.spawn_exceeds() {
            return self.abort(error).map(|()| true);
        }
        let name = frame.below(&format!("hook:{}", hook.directive));
        let filled = self.with_scope(Some(&variables), |scope| {
            let filled = |input: &Param| values::fill(&input.value, scope).map_err(|err| err.near(input.place));
            hook.inputs.iter().map(|input| Ok((input.name.clone(), filled(input)?))).collect()
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

    /// What the expressions of hooks speak of.
    fn variables(&self, frame: &Frame, phase: HookPhase, error: Option<&Problem>) -> Map<String, Value> {
        let cost = self.session.cost();
        let step = match phase {
            HookPhase::After => frame.just_done.clone(),
            _ => None,
        };
        let step = step.or_else(|| frame.step().map(|step| step.name.clone()));
        let error = error.map(|error| json!({"code": error.code, "message": error.message()}));
        let phase = serde_json::to_value(phase).unwrap_or_default();
        let cost = json!({"steps": cost.steps, "seconds": cost.seconds});
        let named = [("step", json!(step)), ("phase", phase), ("error", json!(error)), ("cost", cost)];
        named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Begins a directive inside this one.
    pub(super) fn enter(
        &mut self,
        name: String,
        id: &str,
        inputs: Map<String, Value>,
        words: &[String],
        hook: Option<HookPhase>,
    ) -> Result<(), RunError> {
        if self.state().is_some_and(|state| state.frames.len() >= MAX_DEPTH) {
            return Err(RunError::TooDeep { most: MAX_DEPTH });
        }
        let found = self.pinned.find(self.session.ctx, &self.store, id)?;
        let inputs = values::inputs(&found.directive, inputs, words)
            .map_err(|problems| RunError::Inputs { directive: found.label.clone(), problems })?;
        self.keep_pinned()?;
        if let Some(state) = self.session.state.as_mut().filter(|state| !state.knows(&found.content)) {
            state.know(found.content.clone(), found.directive.clone());
        }
        let (directive, content) = (found.label, found.content);
        self.session.record(&Event::DirectiveStarted { name, directive, content, inputs, hook })?;
        Ok(())
    }

    /// Writes down what has turned up during the run.
    pub(super) fn keep_pinned(&mut self) -> Result<(), RunError> {
        self.pinned.save_later(&self.session.folders().runs, self.session.run()).map_err(RunError::Pin)
    }

    fn begin_loop(&mut self, list: &str) -> Result<(), RunError> {
        let name = self.position();
        match self.with_scope(None, |scope| values::elements(list, scope)) {
            Ok(elements) => self.session.record(&Event::LoopStarted { name, elements }).map(|_| ()),
            Err(err) => self.stop(self.placed(&self.in_step(), err)),
        }
    }

    /// Whether the condition of the step does not hold; writes that down.
    fn skips(&mut self) -> Result<bool, RunError> {
        let Some((_, step)) = self.state().and_then(|state| state.turn()) else { return Ok(false) };
        let Some(when) = step.when.clone() else { return Ok(false) };
        match self.with_scope(None, |scope| values::holds(&when, scope)) {
            Ok(true) => Ok(false),
            Ok(false) => {
                let (name, reason) = (self.position(), format!("`{when}` does not hold"));
                self.session.skip_step(name, reason)?;
                Ok(true)
            }
            Err(err) => self.stop(self.placed(&self.in_step(), err)).map(|()| true),
        }
    }

    /// The directive has failed, and no policy helps.
    fn stop(&mut self, error: Problem) -> Result<(), RunError> {
        let name = self.position();
        self.session.record(&Event::Resolved { name, then: Resolution::Stop, error: Some(error) })?;
        Ok(())
    }

    fn abort(&mut self, error: Problem) -> Result<(), RunError> {
        let name = self.position();
        self.session.record(&Event::Resolved { name, then: Resolution::Abort, error: Some(error) })?;
        Ok(())
    }

    /// Ends the directives that took too long, the innermost first.
    fn time_out(&mut self, depth: usize) -> Result<(), RunError> {
        while let Some(frame) = self.state().filter(|state| state.frames.len() > depth).and_then(|it| it.frames.last())
        {
            let name = frame.name.clone();
            let message = format!("step `{name}` took longer than its `timeout` allows");
            let error = Problem::new(Code::TimedOut, message).with_hint("give the step more time, or do less in it");
            let (status, outputs) = (StepStatus::Failed, Map::new());
            self.session.record(&Event::DirectiveFinished { name, status, outputs, error: Some(error) })?;
        }
        Ok(())
    }

    /// The limit that the next step would exceed.
    fn exceeded(&self) -> Option<Problem> {
        let state = self.state()?;
        let cost = self.session.cost();
        let calls_tool = state.turn().is_some_and(|(_, step)| matches!(step.action, StepAction::Tool { .. }));
        state.frames.iter().find_map(|frame| {
            frame.reached(|limit| match limit {
                "steps" => Some(f64::from(cost.steps.saturating_sub(frame.since.steps))),
                "tool_calls" if calls_tool => Some(f64::from(cost.tool_calls.saturating_sub(frame.since.tool_calls))),
                "duration_seconds" => Some(cost.seconds - frame.since.seconds),
                _ => None,
            })
        })
    }

    /// The limit that another directive inside this one would exceed.
    fn spawn_exceeds(&self) -> Option<Problem> {
        let state = self.state()?;
        let spawns = state.cost.spawns;
        // The innermost has none inside it.
        (0u32..).zip(state.frames.iter().rev()).find_map(|(inside, frame)| {
            frame.reached(|limit| match limit {
                "spawns" => Some(f64::from(spawns.saturating_sub(frame.since.spawns))),
                "depth" => Some(f64::from(inside)),
                _ => None,
            })
        })
    }

    /// Ends the run where the step whose turn it is begins one directive too many.
    fn spawns_too_much(&mut self) -> Result<bool, RunError> {
        let action = self.state().and_then(|state| state.turn()).map(|(_, step)| &step.action);
        if !matches!(action, Some(StepAction::Directive { .. })) {
            return Ok(false);
        }
        let Some(error) = self.spawn_exceeds() else { return Ok(false) };
        self.abort(error).map(|()| true)
    }

    /// The outermost directive whose calling step has no time left, as the number of frames around it.
    fn overdue(&self) -> Option<usize> {
        let frames = &self.state()?.frames;
        let seconds = self.session.cost().seconds;
        let is_over = |at: &usize| {
            let limit = time_of(frames, *at);
            limit.zip(frames.get(*at)).is_some_and(|(limit, frame)| seconds - frame.called_at >= limit)
        };
        (1..frames.len()).find(is_over)
    }

    /// How much time the step whose turn it is has left.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let state = self.state()?;
        let now = self.session.cost().seconds;
        let inherited = state
            .frames
            .iter()
            .enumerate()
            .filter_map(|(at, frame)| Some(time_of(&state.frames, at)? - (now - frame.called_at)));
        let limits = state.frames.iter().filter_map(|frame| {
            let limit = frame.directive.limits.iter().find(|limit| limit.name == "duration_seconds")?;
            Some(limit.value - (now - frame.since.seconds))
        });
        let own = state.turn().and_then(|(_, step)| step.timeout);
        let left = own.into_iter().chain(inherited).chain(limits).reduce(f64::min)?;
        Some(Duration::from_secs_f64(left.clamp(0.001, 1e9)))
    }

    /// The full name of the step whose turn it is.
    pub(super) fn position(&self) -> String {
        self.state().and_then(|state| state.frames.last()).map(Frame::position).unwrap_or_default()
    }

    /// A copy of the step whose turn it is.
    pub(super) fn step(&self) -> Option<Step> {
        self.state().and_then(|state| state.turn()).map(|(_, step)| step.clone())
    }

    /// The directives on whose authority a step acts, the outermost first.
    pub(super) fn callers(&self) -> Vec<std::sync::Arc<Directive>> {
        let frames = self.state().map(|state| state.frames.as_slice()).unwrap_or_default();
        frames.iter().map(|frame| std::sync::Arc::clone(&frame.directive)).collect()
    }

    /// Evaluates something where the run stands.
    pub(super) fn with_scope<T>(
        &self,
        variables: Option<&Map<String, Value>>,
        evaluate: impl FnOnce(&Scope<'_>) -> Result<T, ValueError>,
    ) -> Result<T, ValueError> {
        let (inputs, results) = (Map::new(), Map::new());
        let frame = self.state().and_then(|state| state.frames.last());
        let callers = self.callers();
        let authority = authority(&callers);
        let environment = |name: &str| {
            if !policy::may_see_variable(&authority, name) {
                return Err(EnvironmentProblem::NotGranted);
            }
            let value = self.session.ctx.environment.find(name).ok_or(EnvironmentProblem::NotSet)?;
            Ok(value.to_string_lossy().into_owned())
        };
        evaluate(&Scope {
            inputs: frame.map_or(&inputs, |frame| &frame.inputs),
            element: frame.and_then(Frame::element),
            results: frame.map_or(&results, |frame| &frame.results),
            run: self.session.run(),
            environment: &environment,
            variables,
        })
    }

    /// Why a value could not be worked out, of what, and where that stands.
    pub(super) fn placed(&self, what: &str, err: ValueError) -> Problem {
        let place = self
            .origin(&err)
            .map(|it| format!(", at `{}:{}:{}`", it.file.display(), it.line, it.column))
            .unwrap_or_default();
        let error = Problem::of(&RunError::from(err));
        let message = format!("{what}: {}{place}", error.message());
        error.with_message(message)
    }

    /// The step whose turn it is, for messages.
    pub(super) fn in_step(&self) -> String {
        format!("step `{}`", shown(&self.position()))
    }
}

/// How much time the step that called a directive gives it. A hook is called by no step: it has its own time.
fn time_of(frames: &[Frame], at: usize) -> Option<f64> {
    let called = frames.get(at).filter(|frame| frame.hook.is_none());
    called.and(frames.get(at.checked_sub(1)?)?.step()?.timeout)
}

impl Frame {
    /// The first of its limits that is used up; what is none of its business is not looked at.
    pub(in crate::run) fn reached(&self, used: impl Fn(&str) -> Option<f64>) -> Option<Problem> {
        let limits = &self.directive.limits;
        let limit = limits.iter().find(|limit| used(&limit.name).is_some_and(|used| used >= limit.value))?;
        let (name, value) = (&self.directive.name, limit.value);
        let what = limit.name.trim_end_matches("_seconds").replace('_', " ");
        let unit = if limit.name == "duration_seconds" { " s" } else { "" };
        let message = format!("directive `{name}` has reached its limit: {what} {value}{unit}");
        let hint = "raise it in <limits>, or do less; what was done so far stays";
        Some(Problem::new(Code::LimitReached, message).with_hint(hint))
    }
}

/// Directives as an authority.
pub(super) fn authority(callers: &[std::sync::Arc<Directive>]) -> Authority<'_> {
    Authority::Directives(callers.iter().map(|it| Caller { name: it.name.as_str(), grants: &it.permissions }).collect())
}

/// Whether somebody said that it failed: whoever does so has tried, and their work is not put back.
fn is_said(error: Option<&Problem>) -> bool {
    error.is_some_and(|error| error.code.is_said())
}

fn interrupted() -> Problem {
    Problem::new(Code::Interrupted, "the run was interrupted")
}
