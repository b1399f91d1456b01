//! A call that is made of others: the helper of a meta tool says which, and is entered again with their results.
//!
//! Each call is planned, judged and run like one of its own, but inside the one step: one snapshot before all of them and
//! one after. A call that fails is a result that the helper sees. What ends the whole is an interruption, a denial, a
//! tool that is not listed or has changed since, a limit, and the end of the time of the meta tool.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::calls::{CallTold, Calls};
use super::plan::{Planner, ToolPlan};
use super::secrecy::Secrets;
use super::{Answer, Around, timed_out};
use crate::exec::call::{self, Asked, Progress, Read, Reply};
use crate::exec::invocation::{Action, Meta};
use crate::exec::supervisor::{Supervisor, Touched, Work};
use crate::failpoint::failpoint;
use crate::item::store::{Item, ItemKind};
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::journal::event::{Event, ToolCall};
use crate::journal::summary::StepStatus;
use crate::problem::{Code, Problem};
use crate::run::directive::pin;
use crate::run::error::RunError;
use crate::run::session::Session;
use crate::run::step::milliseconds;

/// How often one helper is entered at most.
const MAX_ROUNDS: usize = 100;

/// How many calls one step may be made of.
const MAX_CALLS: usize = 1000;

/// What holds for all calls of a step.
struct Whole<'p> {
    step: u32,
    planner: Planner<'p>,
    /// The meta tool that the step calls.
    id: &'p str,
    /// What its files, and those of all that it may call, were when the step began.
    fingerprint: String,
}

/// Where a call stands: who asks for it, and until when.
#[derive(Clone, Copy)]
struct Asking<'p> {
    plan: &'p ToolPlan,
    meta: &'p Meta,
    /// The number of the call that it is; none for the step itself.
    number: Option<u32>,
    deadline: Option<Instant>,
}

/// Why there is no result.
enum Stop {
    /// Nothing more can be done or written down.
    Run(RunError),
    /// The call has failed; who asked for it is told.
    Call(Problem),
    /// The whole step ends.
    Step(Problem, StepStatus),
}

impl From<RunError> for Stop {
    fn from(err: RunError) -> Self {
        Self::Run(err)
    }
}

impl Asking<'_> {
    /// How much of its time is left; an error when there is none.
    fn left(&self) -> Result<Option<Duration>, Stop> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Stop::Call(timed_out(self.plan))) } else { Ok(Some(left)) }
    }
}

impl Session<'_, '_> {
    /// Has a meta tool make its calls.
    pub(super) fn orchestrate(
        &mut self,
        step: u32,
        (plan, meta): (&ToolPlan, &Meta),
        planner: Planner<'_>,
        first: (Supervisor, Work),
        around: &mut Around<'_, '_>,
    ) -> Result<Answer, RunError> {
        let began = Instant::now();
        let mut calls = Calls::default();
        let fingerprint = pin::fingerprint(planner.store, &plan.named)?;
        let whole = Whole { step, planner, id: &plan.named, fingerprint };
        let asking = Asking { plan, meta, number: None, deadline: began.checked_add(plan.invocation.timeout) };
        let (result, is_denied) = match self.direct(&whole, asking, first, &mut calls, around) {
            Ok(read) => (Ok(read), false),
            Err(Stop::Run(err)) => return Err(err),
            Err(Stop::Call(error)) => (Err(error), false),
            Err(Stop::Step(error, status)) => (Err(error), status == StepStatus::Denied),
        };
        calls.duration = began.elapsed();
        let git_changed = std::mem::take(&mut calls.git_changed);
        Ok(Answer { ended: None, result, git_changed, calls: Some(calls), is_denied })
    }

    /// Enters a helper until it has a result.
    fn direct(
        &mut self,
        whole: &Whole<'_>,
        asking: Asking<'_>,
        (supervisor, mut work): (Supervisor, Work),
        calls: &mut Calls,
        around: &mut Around<'_, '_>,
    ) -> Result<Read, Stop> {
        let mut ready = Some(supervisor);
        let mut results = Vec::new();
        for _ in 0..MAX_ROUNDS {
            if let Some(left) = asking.left()? {
                work.timeout = work.timeout.map(|limit| limit.min(left));
            }
            let supervisor = match ready.take() {
                Some(supervisor) => supervisor,
                None => self.supervisor()?,
            };
            let (ended, git_changed) = self.attend(whole.step, supervisor, &work, around)?;
            calls.tell_git(git_changed);
            let ended = ended.map_err(|err| Stop::Call(Problem::of(&err)))?;
            if ended.interrupted {
                return Err(interrupted(asking.plan));
            }
            // Its own time may have been over before that of the function.
            asking.left()?;
            let failed = |err: call::CallError| Stop::Call(Problem::of(&err));
            match call::reply(asking.meta, &ended).map_err(failed)? {
                Reply::Result(value) => return self.read(asking.plan, value, around),
                Reply::Calls(asked) => {
                    // Rather none of them than some of them.
                    if asked.len().saturating_add(calls.begun as usize) > MAX_CALLS {
                        let message = format!("tool `{}` asks for more than {MAX_CALLS} calls", whole.id);
                        return Err(Stop::Step(limit(message, "let one call do more"), StepStatus::Failed));
                    }
                    for asked in asked {
                        results.push(self.call_inner(whole, asking, asked, calls, around)?);
                    }
                }
            }
            work = call::enter(asking.meta, &asking.plan.invocation, &results, around.machine);
        }
        let message = format!("the helper `{}` was entered {MAX_ROUNDS} times and has no result", asking.meta.helper);
        Err(Stop::Call(limit(message, "let it return `{ result }` when there is nothing left to call")))
    }

    /// Holds the result of a meta tool against what its manifest promises.
    fn read(&mut self, plan: &ToolPlan, value: Value, around: &mut Around<'_, '_>) -> Result<Read, Stop> {
        let program = self.ctx.program.clone();
        let again = || Supervisor::start(&program);
        call::read_value(&plan.invocation, value, around.machine, &again, around.interrupts)
            .map_err(|err| Stop::Call(Problem::of(&err)))
    }

    /// Makes one call and tells what came of it, as the helper sees it.
    fn call_inner(
        &mut self,
        whole: &Whole<'_>,
        asking: Asking<'_>,
        asked: Asked,
        calls: &mut Calls,
        around: &mut Around<'_, '_>,
    ) -> Result<Value, Stop> {
        let left = asking.left()?;
        if around.interrupts.received().is_some() {
            return Err(interrupted(asking.plan));
        }
        let (tool, command) = (asked.tool.clone(), asked.command.clone());
        let id = self.admit(whole, asking, &tool)?;
        calls.begun += 1;
        let number = calls.begun;
        let began = Instant::now();
        let told = match whole.planner.plan(self.ctx, asking.plan, id, asked) {
            Ok(mut plan) => {
                if let Some(left) = left {
                    plan.invocation.timeout = plan.invocation.timeout.min(left);
                }
                let label = plan.invocation.tool();
                let call = ToolCall { permissions: self.permissions(&plan), ..plan.written_down() };
                self.announce(whole, asking, number, call)?;
                failpoint("call-announced");
                (label, self.make(whole, asking, (number, plan), calls, around))
            }
            Err(err) if err.ends_run() => return Err(err.into()),
            Err(err) => {
                self.announce(whole, asking, number, ToolCall::unresolved(id, command.as_deref()))?;
                let error = Problem::of(&err);
                let stop = match () {
                    () if err.is_interrupted() => interrupted(asking.plan),
                    () if err.is_denied() => Stop::Step(error, StepStatus::Denied),
                    () => Stop::Call(error),
                };
                (id.to_owned(), Err(stop))
            }
        };
        let (label, outcome) = told;
        let (status, error) = match &outcome {
            Ok(_) => (StepStatus::Succeeded, None),
            Err(Stop::Run(_)) => return outcome.map(|read| read.value),
            Err(Stop::Call(error)) => (StepStatus::Failed, Some(calls.redacted(error))),
            Err(Stop::Step(error, status)) => (*status, Some(calls.redacted(error))),
        };
        self.record(&Event::CallFinished { step: whole.step, number, status, error: error.clone() })?;
        failpoint("call-finished");
        let execution_time_ms = milliseconds(began.elapsed());
        calls.told.push(CallTold {
            tool: label.clone(),
            command: command.clone(),
            status,
            execution_time_ms,
            error: error.clone(),
        });
        match outcome {
            Ok(read) => {
                let warnings = read.warnings.into_iter().map(|text| format!("call {number}, `{label}`: {text}"));
                calls.warnings.extend(warnings);
                Ok(json!({"tool": tool, "command": command, "status": "success", "result": read.value, "error": null}))
            }
            Err(Stop::Call(_)) => {
                // It may have failed because all of the time is over.
                asking.left()?;
                Ok(json!({"tool": tool, "command": command, "status": "error", "result": null, "error": error}))
            }
            Err(stop) => Err(stop),
        }
    }

    /// Whether a tool may be called now: how the meta tool calls it, or why not.
    fn admit<'p>(&self, whole: &Whole<'p>, asking: Asking<'p>, tool: &str) -> Result<&'p str, Stop> {
        if let Some(error) = self.calls_exceeded() {
            return Err(Stop::Step(error, StepStatus::Failed));
        }
        let store = whole.planner.store;
        let find = |id: &str| store.find(ItemKind::Tool, id).ok();
        let wanted = find(tool);
        let is_same = |item: &Item| wanted.is_some_and(|wanted| std::ptr::eq(wanted, item));
        let listed = &asking.meta.aggregates;
        let Some(id) = listed.iter().find(|id| find(id).is_some_and(is_same)) else {
            let meant = nearest(tool, listed.iter().map(String::as_str));
            let asking = asking.plan.invocation.id();
            let message = format!("tool `{asking}` asks for `{}`, which is not among its `aggregates`", shown(tool));
            let hint = did_you_mean(meant, "add it to `aggregates`");
            return Err(Stop::Call(Problem::new(Code::NotAggregated, message).with_hint(hint)));
        };
        // An earlier call may have written into the files of a later one, which nobody has looked at since.
        if pin::fingerprint(store, whole.id)? != whole.fingerprint {
            let err = RunError::ItemChanged(whole.id.to_owned());
            return Err(Stop::Step(Problem::of(&err), StepStatus::Failed));
        }
        Ok(id)
    }

    fn announce(&mut self, whole: &Whole<'_>, asking: Asking<'_>, number: u32, call: ToolCall) -> Result<(), RunError> {
        self.record(&Event::CallStarted { step: whole.step, number, within: asking.number, call })?;
        Ok(())
    }

    /// Makes a call that is planned and written down.
    fn make(
        &mut self,
        whole: &Whole<'_>,
        asking: Asking<'_>,
        (number, plan): (u32, ToolPlan),
        calls: &mut Calls,
        around: &mut Around<'_, '_>,
    ) -> Result<Read, Stop> {
        if !plan.denials.is_empty() {
            self.record(&Event::ToolDenied { step: whole.step, denials: plan.denials.clone() })?;
            return Err(Stop::Step(plan.denial(), StepStatus::Denied));
        }
        let secrets = Secrets::of(&plan.invocation, self.ctx.environment.variables());
        calls.secrets = std::mem::take(&mut calls.secrets).and(&secrets);
        let program = self.ctx.program.clone();
        let another = || Supervisor::start(&program);
        let mut installed = false;
        let listener = &mut *around.listener;
        let mut tell = |progress: Progress<'_>| {
            installed |= matches!(progress, Progress::Preparing(_));
            listener(progress);
        };
        let prepared = call::prepare(&plan.invocation, around.machine, &another, around.interrupts, &mut tell);
        let mut prepared = prepared.map_err(|err| match err {
            call::CallError::Interrupted => interrupted(asking.plan),
            err => Stop::Call(Problem::of(&err)),
        })?;
        let supervisor = self.supervisor()?;
        if let Action::Meta(meta) = &plan.invocation.action {
            let deadline = Instant::now().checked_add(plan.invocation.timeout);
            let inner = Asking { plan: &plan, meta, number: Some(number), deadline };
            calls.enter();
            let directed = self.direct(whole, inner, (supervisor, prepared.work), calls, around);
            calls.leave(plan);
            return directed;
        }
        let is_elsewhere = plan.invocation.action.acts_elsewhere();
        if self.checkpointer.is_some() && !is_elsewhere {
            self.watch(whole.step, &mut prepared.work);
        }
        let is_unwatched = installed || is_elsewhere || call::runs_parser(&plan.invocation, around.machine);
        if is_unwatched && plan.invocation.action.may_change_files() {
            self.give_up_touched(whole.step);
        }
        let answer = self.ask(whole.step, &plan, supervisor, &mut prepared, around)?;
        let (was_interrupted, is_denied) = (answer.was_interrupted(), answer.is_denied);
        let touched = match answer.ended {
            _ if is_unwatched => Touched::Everything,
            Some(ended) => ended.touched,
            None => self.touched_so_far(whole.step),
        };
        calls.tell_git(answer.git_changed);
        if plan.invocation.action.may_change_files() {
            calls.answers_for(plan, touched);
        }
        match answer.result {
            Ok(read) => Ok(Read { value: secrets.removed_from(read.value), ..read }),
            Err(error) if was_interrupted => Err(Stop::Step(error, StepStatus::Cancelled)),
            Err(error) if is_denied => Err(Stop::Step(error, StepStatus::Denied)),
            Err(error) => Err(Stop::Call(error)),
        }
    }

    /// Another supervisor; without one the call has failed.
    fn supervisor(&self) -> Result<Supervisor, Stop> {
        Supervisor::start(&self.ctx.program).map_err(|err| Stop::Call(Problem::of(&err)))
    }

    /// The limit of a directive that another call would exceed.
    fn calls_exceeded(&self) -> Option<Problem> {
        let state = self.state.as_ref()?;
        let calls = state.cost.tool_calls;
        state.frames.iter().find_map(|frame| {
            let made = f64::from(calls.saturating_sub(frame.since.tool_calls));
            frame.reached(|limit| (limit == "tool_calls").then_some(made))
        })
    }
}

fn interrupted(plan: &ToolPlan) -> Stop {
    let message = format!("tool `{}` was interrupted", plan.invocation.id());
    Stop::Step(Problem::new(Code::Interrupted, message), StepStatus::Cancelled)
}

fn limit(message: String, hint: &str) -> Problem {
    Problem::new(Code::CallLimit, message).with_hint(hint)
}
