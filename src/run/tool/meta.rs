//! A meta tool: its helper function requests calls, and is called again with their results.
//!
//! Each inner call is planned, checked and run like a separate call, but within one step: one
//! snapshot before all of them and one after. A failed call is a result that the helper sees. The
//! whole step ends on an interruption, a denial, a tool that is not listed or has changed, a limit,
//! or the time limit of the meta tool.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ask::{CallOutcome, StepResources, ask, attend, timed_out};
use super::calls::{CallTold, StepCalls};
use super::plan::{ToolPlan, ToolPlanner};
use crate::context::Context;
use crate::exec::call::{self, CallProgress, HelperReply, ReadResult, RequestedCall};
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
use crate::run::recorder::Recorder;
use crate::run::secrecy::Secrets;
use crate::run::session::Session;
use crate::run::step::milliseconds;
use crate::run::touched;

/// How often the helper is called at most.
const MAX_ROUNDS: usize = 100;

/// The maximum number of calls in one step.
const MAX_CALLS: usize = 1000;

/// What all calls of a step share.
struct MetaStep<'p> {
    step: u32,
    planner: ToolPlanner<'p>,
    /// The meta tool of the step.
    id: &'p str,
    /// The hash of its files and of all tools that it may call, from the start of the step.
    fingerprint: String,
}

/// The caller of a call, and its deadline.
#[derive(Clone, Copy)]
struct Asking<'p> {
    plan: &'p ToolPlan,
    meta: &'p Meta,
    /// The number of the call; `None` for the step itself.
    number: Option<u32>,
    deadline: Option<Instant>,
}

/// Why there is no result.
enum MetaStop {
    /// Nothing more can be done or recorded.
    Run(RunError),
    /// The call failed; its caller gets the error.
    Call(Problem),
    /// The whole step ends.
    Step(Problem, StepStatus),
}

impl From<RunError> for MetaStop {
    fn from(err: RunError) -> Self {
        Self::Run(err)
    }
}

impl Asking<'_> {
    /// The remaining time; an error if there is none.
    fn left(&self) -> Result<Option<Duration>, MetaStop> {
        let Some(deadline) = self.deadline else {
            return Ok(None);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(MetaStop::Call(timed_out(self.plan)))
        } else {
            Ok(Some(left))
        }
    }
}

/// Makes the calls of a meta tool.
pub(super) fn orchestrate(
    session: &mut Session<'_>,
    step: u32,
    (plan, meta): (&ToolPlan, &Meta),
    planner: ToolPlanner<'_>,
    first: (Supervisor, Work),
    around: &mut StepResources<'_, '_>,
) -> Result<CallOutcome, RunError> {
    let began = Instant::now();
    let mut calls = StepCalls::default();
    let fingerprint = pin::fingerprint(planner.store, &plan.named)?;
    let whole = MetaStep {
        step,
        planner,
        id: &plan.named,
        fingerprint,
    };
    let asking = Asking {
        plan,
        meta,
        number: None,
        deadline: began.checked_add(plan.invocation.timeout),
    };
    let (result, is_denied) = match direct(session, &whole, asking, first, &mut calls, around) {
        Ok(read) => (Ok(read), false),
        Err(MetaStop::Run(err)) => return Err(err),
        Err(MetaStop::Call(error)) => (Err(error), false),
        Err(MetaStop::Step(error, status)) => (Err(error), status == StepStatus::Denied),
    };
    calls.duration = began.elapsed();
    let git_changed = std::mem::take(&mut calls.git_changed);
    Ok(CallOutcome {
        ended: None,
        result,
        git_changed,
        calls: Some(calls),
        is_denied,
    })
}

/// Calls a helper until it returns a result.
fn direct(
    session: &mut Session<'_>,
    whole: &MetaStep<'_>,
    asking: Asking<'_>,
    (supervisor, mut work): (Supervisor, Work),
    calls: &mut StepCalls,
    around: &mut StepResources<'_, '_>,
) -> Result<ReadResult, MetaStop> {
    let mut ready = Some(supervisor);
    let mut results = Vec::new();
    for _ in 0..MAX_ROUNDS {
        if let Some(left) = asking.left()? {
            work.timeout = work.timeout.map(|limit| limit.min(left));
        }
        let supervisor = match ready.take() {
            Some(supervisor) => supervisor,
            None => start_supervisor(session.recorder.ctx)?,
        };
        let (ended, git_changed) = attend(session, whole.step, supervisor, &work, around)?;
        calls.record_git_changes(git_changed);
        let ended = ended.map_err(|err| MetaStop::Call(Problem::of(&err)))?;
        if ended.interrupted {
            return Err(interrupted(asking.plan));
        }
        // The deadline of the meta tool may have passed before that of the function.
        asking.left()?;
        let failed = |err: call::CallError| MetaStop::Call(Problem::of(&err));
        match call::reply(asking.meta, &ended).map_err(failed)? {
            HelperReply::Result(value) => {
                return read(session.recorder.ctx, asking.plan, value, around);
            }
            HelperReply::Calls(asked) => {
                // Make none of them rather than some of them.
                if asked.len().saturating_add(calls.begun as usize) > MAX_CALLS {
                    let message =
                        format!("tool `{}` asks for more than {MAX_CALLS} calls", whole.id);
                    return Err(MetaStop::Step(
                        limit(message, "let one call do more"),
                        StepStatus::Failed,
                    ));
                }
                for asked in asked {
                    results.push(call_inner(session, whole, asking, asked, calls, around)?);
                }
            }
        }
        work = call::enter(
            asking.meta,
            &asking.plan.invocation,
            &results,
            around.machine,
        );
    }
    let message = format!(
        "the helper `{}` was called {MAX_ROUNDS} times without a result",
        asking.meta.helper
    );
    Err(MetaStop::Call(limit(
        message,
        "let it return `{ result }` when there is nothing left to call",
    )))
}

/// Checks the result of a meta tool against its manifest.
fn read(
    ctx: &Context,
    plan: &ToolPlan,
    value: Value,
    around: &mut StepResources<'_, '_>,
) -> Result<ReadResult, MetaStop> {
    let again = || Supervisor::start(&ctx.program);
    call::read_value(
        &plan.invocation,
        value,
        around.machine,
        &again,
        around.interrupts,
    )
    .map_err(|err| MetaStop::Call(Problem::of(&err)))
}

/// Makes one call and returns its result as the helper sees it.
fn call_inner(
    session: &mut Session<'_>,
    whole: &MetaStep<'_>,
    asking: Asking<'_>,
    asked: RequestedCall,
    calls: &mut StepCalls,
    around: &mut StepResources<'_, '_>,
) -> Result<Value, MetaStop> {
    let left = asking.left()?;
    if around.interrupts.received().is_some() {
        return Err(interrupted(asking.plan));
    }
    let (tool, command) = (asked.tool.clone(), asked.command.clone());
    let id = admit(&session.recorder, whole, asking, &tool)?;
    calls.begun += 1;
    let number = calls.begun;
    let began = Instant::now();
    let told = match whole
        .planner
        .plan(session.recorder.ctx, asking.plan, id, asked)
    {
        Ok(mut plan) => {
            if let Some(left) = left {
                plan.invocation.timeout = plan.invocation.timeout.min(left);
            }
            let label = plan.invocation.tool();
            let call = ToolCall {
                permissions: super::permissions(session.checkpointer.as_ref(), &plan),
                ..plan.written_down()
            };
            announce(&mut session.recorder, whole, asking, number, call)?;
            failpoint("call-announced");
            (
                label,
                make(session, whole, asking, (number, plan), calls, around),
            )
        }
        Err(err) if err.ends_run() => return Err(err.into()),
        Err(err) => {
            let call = ToolCall::unresolved(id, command.as_deref());
            announce(&mut session.recorder, whole, asking, number, call)?;
            let stop = unplanned(&err, asking.plan);
            (id.to_owned(), Err(stop))
        }
    };
    let (label, outcome) = told;
    let (status, error) = match &outcome {
        Ok(_) => (StepStatus::Succeeded, None),
        Err(MetaStop::Run(_)) => return outcome.map(|read| read.value),
        Err(MetaStop::Call(error)) => (StepStatus::Failed, Some(calls.redacted(error))),
        Err(MetaStop::Step(error, status)) => (*status, Some(calls.redacted(error))),
    };
    session.recorder.record(&Event::CallFinished {
        step: whole.step,
        number,
        status,
        error: error.clone(),
    })?;
    failpoint("call-finished");
    let execution_time_ms = milliseconds(began.elapsed());
    calls.told.push(CallTold {
        tool: label.clone(),
        command: command.clone(),
        status,
        execution_time_ms,
        error: error.clone(),
    });
    let (status, value) = match outcome {
        Ok(read) => {
            let warnings = read
                .warnings
                .into_iter()
                .map(|text| format!("call {number}, `{label}`: {text}"));
            calls.warnings.extend(warnings);
            ("success", read.value)
        }
        Err(MetaStop::Call(_)) => {
            // It may have failed because the deadline has passed.
            asking.left()?;
            ("error", Value::Null)
        }
        Err(stop) => return Err(stop),
    };
    Ok(json!({"tool": tool, "command": command, "status": status, "result": value, "error": error}))
}

/// What follows when an inner call cannot be planned.
fn unplanned(err: &RunError, asking: &ToolPlan) -> MetaStop {
    if err.is_interrupted() {
        return interrupted(asking);
    }
    let error = Problem::of(err);
    if err.is_denied() {
        MetaStop::Step(error, StepStatus::Denied)
    } else {
        MetaStop::Call(error)
    }
}

/// Whether a tool may be called now: how the meta tool calls it, or why not.
fn admit<'p>(
    recorder: &Recorder<'_>,
    whole: &MetaStep<'p>,
    asking: Asking<'p>,
    tool: &str,
) -> Result<&'p str, MetaStop> {
    if let Some(error) = calls_exceeded(recorder) {
        return Err(MetaStop::Step(error, StepStatus::Failed));
    }
    let store = whole.planner.store;
    let find = |id: &str| store.find(ItemKind::Tool, id).ok();
    let wanted = find(tool);
    let is_same = |item: &Item| wanted.is_some_and(|wanted| std::ptr::eq(wanted, item));
    let listed = &asking.meta.aggregates;
    let Some(id) = listed.iter().find(|id| find(id).is_some_and(is_same)) else {
        let meant = nearest(tool, listed.iter().map(String::as_str));
        let asking = asking.plan.invocation.id();
        let message = format!(
            "tool `{asking}` asks for `{}`, which is not among its `aggregates`",
            shown(tool)
        );
        let hint = did_you_mean(meant, "add it to `aggregates`");
        return Err(MetaStop::Call(
            Problem::new(Code::NotAggregated, message).with_hint(hint),
        ));
    };
    // An earlier call may have changed the files of a later one since they were checked.
    if pin::fingerprint(store, whole.id)? != whole.fingerprint {
        let err = RunError::ItemChanged(whole.id.to_owned());
        return Err(MetaStop::Step(Problem::of(&err), StepStatus::Failed));
    }
    Ok(id)
}

fn announce(
    recorder: &mut Recorder<'_>,
    whole: &MetaStep<'_>,
    asking: Asking<'_>,
    number: u32,
    call: ToolCall,
) -> Result<(), RunError> {
    recorder.record(&Event::CallStarted {
        step: whole.step,
        number,
        within: asking.number,
        call,
    })?;
    Ok(())
}

/// Makes a planned and recorded call.
fn make(
    session: &mut Session<'_>,
    whole: &MetaStep<'_>,
    asking: Asking<'_>,
    (number, plan): (u32, ToolPlan),
    calls: &mut StepCalls,
    around: &mut StepResources<'_, '_>,
) -> Result<ReadResult, MetaStop> {
    if !plan.denials.is_empty() {
        session.recorder.record(&Event::ToolDenied {
            step: whole.step,
            denials: plan.denials.clone(),
        })?;
        return Err(MetaStop::Step(plan.denial(), StepStatus::Denied));
    }
    let secrets = Secrets::of(
        &plan.invocation,
        session.recorder.ctx.environment.variables(),
    );
    calls.secrets = std::mem::take(&mut calls.secrets).and(&secrets);
    let program = session.recorder.ctx.program.clone();
    let another = || Supervisor::start(&program);
    let mut installed = false;
    let listener = &mut *around.listener;
    let mut tell = |progress: CallProgress<'_>| {
        installed |= matches!(progress, CallProgress::Preparing(_));
        listener(progress);
    };
    let prepared = call::prepare(
        &plan.invocation,
        plan.confinement.as_ref(),
        around.machine,
        &another,
        around.interrupts,
        &mut tell,
    );
    let mut prepared = prepared.map_err(|err| match err {
        call::CallError::Interrupted => interrupted(asking.plan),
        err => MetaStop::Call(Problem::of(&err)),
    })?;
    let supervisor = start_supervisor(session.recorder.ctx)?;
    if let Action::Meta(meta) = &plan.invocation.action {
        let deadline = Instant::now().checked_add(plan.invocation.timeout);
        let inner = Asking {
            plan: &plan,
            meta,
            number: Some(number),
            deadline,
        };
        let first = (supervisor, prepared.work);
        calls.enter();
        let directed = direct(session, whole, inner, first, calls, around);
        calls.leave(plan);
        return directed;
    }
    let is_elsewhere = plan.invocation.action.acts_elsewhere();
    let step = whole.step;
    if let Some(checkpointer) = session.checkpointer.as_ref().filter(|_| !is_elsewhere) {
        let repository = checkpointer.repository();
        touched::watch(&session.recorder, repository, step, &mut prepared.work);
    }
    let is_unwatched =
        installed || is_elsewhere || call::runs_parser(&plan.invocation, around.machine);
    if is_unwatched && plan.invocation.action.may_change_files() {
        touched::give_up(&session.recorder, step);
    }
    let answer = ask(session, step, &plan, supervisor, &mut prepared, around)?;
    let (was_interrupted, is_denied) = (answer.was_interrupted(), answer.is_denied);
    let touched = match answer.ended {
        _ if is_unwatched => Touched::Everything,
        Some(ended) => ended.touched,
        None => touched::so_far(&session.recorder, step),
    };
    calls.record_git_changes(answer.git_changed);
    if plan.invocation.action.may_change_files() {
        calls.answers_for(plan, touched);
    }
    match answer.result {
        Ok(read) => Ok(ReadResult {
            value: secrets.removed_from(read.value),
            ..read
        }),
        Err(error) if was_interrupted => Err(MetaStop::Step(error, StepStatus::Cancelled)),
        Err(error) if is_denied => Err(MetaStop::Step(error, StepStatus::Denied)),
        Err(error) => Err(MetaStop::Call(error)),
    }
}

/// Starts another supervisor; without one the call has failed.
fn start_supervisor(ctx: &Context) -> Result<Supervisor, MetaStop> {
    Supervisor::start(&ctx.program).map_err(|err| MetaStop::Call(Problem::of(&err)))
}

/// The limit of a directive that another call would exceed.
fn calls_exceeded(recorder: &Recorder<'_>) -> Option<Problem> {
    let state = recorder.state.as_ref()?;
    let calls = state.cost.tool_calls;
    state.frames.iter().find_map(|frame| {
        let made = f64::from(calls.saturating_sub(frame.since.tool_calls));
        frame.reached(|limit| (limit == "tool_calls").then_some(made))
    })
}

fn interrupted(plan: &ToolPlan) -> MetaStop {
    let message = format!("tool `{}` was interrupted", plan.invocation.id());
    MetaStop::Step(
        Problem::new(Code::Interrupted, message),
        StepStatus::Cancelled,
    )
}

fn limit(message: String, hint: &str) -> Problem {
    Problem::new(Code::CallLimit, message).with_hint(hint)
}
