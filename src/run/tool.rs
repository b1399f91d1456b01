//! Calls a tool as one step: resolve, check permissions, snapshot, call, read the result, settle.
//!
//! [`plan()`] computes everything that is known before anything runs; `--dry-run` shows it.
//! [`call_tool`] carries out a [`ToolPlan`]. Every front door gets a [`ToolResult`].

mod accept;
mod ask;
mod calls;
mod command;
mod meta;
mod plan;
mod refusal;
mod result;

pub use accept::{AcceptError, accept};
pub use calls::CallTold;
pub use command::{Called, ToolCommand, perform};
pub use plan::{ToolPlan, ToolPlanner, ToolRequest, authority_of, journal_parameters, plan};
pub use result::{ToolResult, ToolStatus};

use serde_json::Value;

use super::confinement;
use super::error::RunError;
use super::outputs;
use super::recorder::Recorder;
use super::secrecy::Secrets;
use super::session::Session;
use super::settle::{
    self, DeclaredChanges, Fate, Rules, Settlement, UnheldFiles, Violation, Wording,
};
use super::step::{StepEnd, milliseconds};
use super::touched::{self, touches_definition};
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::config::SignatureRequirement;
use crate::context::Context;
use crate::exec::call::{self, AllowedFiles, CallProgress, CallTimeouts, Machine};
use crate::exec::interrupt::Interrupts;
use crate::exec::invocation::Action;
use crate::exec::supervisor::{Supervisor, Touched, Work};
use crate::failpoint::failpoint;
use crate::journal::event::{Event, StepKind, ToolCall};
use crate::journal::summary::StepStatus;
use crate::policy::{Enforcement, Permission};
use crate::problem::{Code, Problem, with_causes};
use ask::{CallOutcome, StepResources, ask};

/// Receives progress while a tool runs.
pub type Listener<'l> = dyn FnMut(CallProgress<'_>) + 'l;

/// A tool to call as one step.
#[derive(Clone, Copy, Debug)]
pub struct ToolStep<'p> {
    pub name: &'p str,
    pub plan: &'p ToolPlan,
    /// Plans the calls of a meta tool.
    pub planner: ToolPlanner<'p>,
    pub message: Option<&'p str>,
    /// The intended outcome for its changes; by default that of the mode.
    pub(super) fate: Option<Fate>,
}

impl<'p> ToolStep<'p> {
    /// A call whose changes are settled by the mode of the run.
    pub fn new(
        name: &'p str,
        plan: &'p ToolPlan,
        planner: ToolPlanner<'p>,
        message: Option<&'p str>,
    ) -> Self {
        Self {
            name,
            plan,
            planner,
            message,
            fate: None,
        }
    }
}

/// The result of a tool call.
#[derive(Debug)]
pub struct ToolEnd {
    pub end: StepEnd,
    pub result: ToolResult,
}

/// Calls a tool as one step under the rules of the run's mode.
///
/// The caller starts the supervisor early, because that takes as long as all the rest.
pub fn call_tool(
    session: &mut Session<'_>,
    step: ToolStep<'_>,
    supervisor: Supervisor,
    listener: &mut Listener<'_>,
) -> Result<ToolEnd, RunError> {
    let number = session.recorder.next_step();
    let kind = StepKind::Tool(ToolCall {
        permissions: permissions(session.checkpointer.as_ref(), step.plan),
        ..step.plan.written_down()
    });
    if !step.plan.denials.is_empty() {
        return deny(&mut session.recorder, number, step, kind);
    }
    let machine = machine(&session.recorder);
    let mut interrupts =
        Interrupts::listen_for(&session.recorder.ctx.stop).map_err(RunError::Signals)?;
    let program = session.recorder.ctx.program.clone();
    let another = || Supervisor::start(&program);
    let mut installed = false;
    let mut tell = |progress: CallProgress<'_>| {
        installed |= matches!(progress, CallProgress::Preparing(_));
        listener(progress);
    };
    let mut prepared = call::prepare(
        &step.plan.invocation,
        step.plan.confinement.as_ref(),
        &machine,
        &another,
        &mut interrupts,
        &mut tell,
    )?;
    failpoint("tool-prepared");
    let action = &step.plan.invocation.action;
    // Writes of its inner calls, of a container engine or of a server cannot be observed.
    let is_unwatched =
        installed || action.acts_elsewhere() || call::runs_parser(&step.plan.invocation, &machine);
    let unwatched = is_unwatched.then_some(Touched::Everything);
    let before = start_call(
        session,
        number,
        step,
        kind,
        unwatched.as_ref(),
        &mut prepared.work,
    )?;
    let mut around = StepResources {
        machine: &machine,
        interrupts: &mut interrupts,
        listener,
    };
    let mut answer = match action {
        Action::Meta(meta) => {
            let first = (supervisor, prepared.work);
            let call = (step.plan, &**meta);
            meta::orchestrate(session, number, call, step.planner, first, &mut around)?
        }
        _ => ask(
            session,
            number,
            step.plan,
            supervisor,
            &mut prepared,
            &mut around,
        )?,
    };
    drop(interrupts);
    let changed = step.plan.changed_since_judged(session.recorder.ctx);
    if let (Some(changed), true) = (changed, answer.result.is_ok()) {
        answer.result = Err(changed);
    }
    if let Some(checkpointer) = session
        .checkpointer
        .as_mut()
        .filter(|_| !answer.git_changed.is_empty())
    {
        // Hooks that the tool installed would run without a supervisor, as if they were the
        // user's own.
        checkpointer.distrust_hooks();
    }
    record_answer(&mut session.recorder, number, step.plan, &answer)?;
    let settlement = match &before {
        // There is nothing to keep or to roll back.
        None if !action.may_change_files() => Settlement::default(),
        None => session.recorder.skip_checkpoint(number)?,
        Some(before) => settle_call(session, number, step, before, &answer, unwatched)?,
    };
    end_tool(session, number, step, answer, settlement)
}

/// Takes the snapshot before a call that may change files, and records the start of its step.
fn start_call(
    session: &mut Session<'_>,
    number: u32,
    step: ToolStep<'_>,
    kind: StepKind,
    unwatched: Option<&Touched>,
    work: &mut Work,
) -> Result<Option<Snapshot>, RunError> {
    let invocation = &step.plan.invocation;
    let writes = invocation.writes.clone().unwrap_or_default();
    if !invocation.action.may_change_files() {
        session
            .recorder
            .open(number, step.name, kind, None, &writes)?;
        return Ok(None);
    }
    if session.checkpointer.is_some() {
        touched::begin(&session.recorder, number, unwatched);
    }
    let before = session.start_step(number, step.name, kind, &writes)?;
    if let Some(checkpointer) = session.checkpointer.as_mut().filter(|_| before.is_some()) {
        if !invocation.action.acts_elsewhere() {
            touched::watch(&session.recorder, checkpointer.repository(), number, work);
        }
        // A tool must not choose the filter and signing programs of git: they would run without
        // a supervisor.
        checkpointer.fix_filters();
        checkpointer.fix_signing();
    }
    Ok(before)
}

/// Records the answer of a call, for a directive.
fn record_answer(
    recorder: &mut Recorder<'_>,
    step: u32,
    plan: &ToolPlan,
    answer: &CallOutcome,
) -> Result<(), RunError> {
    if recorder.state.is_none() {
        return Ok(());
    }
    let secrets = secrets_of(recorder.ctx, plan, answer);
    let (result, error) = match &answer.result {
        Ok(read) => (secrets.removed_from(read.value.clone()), None),
        Err(error) => {
            let error = error.clone().map_texts(|text| secrets.removed(text));
            (Value::Null, Some(error))
        }
    };
    recorder.record(&Event::Answered {
        step,
        result,
        error,
        paths: Vec::new(),
        approver: None,
    })?;
    failpoint("tool-answered");
    Ok(())
}

/// Settles the changes of a call. `unwatched` is what it touched if it had no write monitor.
fn settle_call(
    session: &mut Session<'_>,
    number: u32,
    step: ToolStep<'_>,
    before: &Snapshot,
    answer: &CallOutcome,
    unwatched: Option<Touched>,
) -> Result<Settlement, RunError> {
    let tool = step.plan.invocation.tool();
    let wording = Wording {
        name: step.name,
        given: step.message,
        tool: Some(&tool),
        ..Wording::default()
    };
    let (run, prefix) = (session.recorder.run, session.prefix());
    let top = session.repository()?.top().to_path_buf();
    let git_dir = session.repository()?.git_dir().to_path_buf();
    let calls = answer.calls.as_ref();
    let touched = match (unwatched, &answer.ended, calls) {
        (Some(unwatched), ..) => unwatched,
        (None, _, Some(calls)) => calls.touched(),
        (None, Some(ended), None) => ended.touched.clone(),
        (None, None, None) => touched::so_far(&session.recorder, number),
    };
    let may_inside =
        |path: &RepoPath| calls.is_none_or(|calls| calls.may_change(&top, &prefix, path));
    let rules = Rules {
        own: Ownership {
            has: &|path| touched.has(&top.join(path.as_path())),
            index: touched.has(&git_dir.join("index")),
            definition: touches_definition(&touched, &git_dir),
            doubt: touched.doubt(),
            ..Ownership::EVERYTHING
        },
        may_change: &|path| step.plan.may_change(&prefix, path) && may_inside(path),
        way_out: &|paths| {
            let inside = calls.and_then(|calls| calls.culprit(&top, &prefix, paths));
            inside
                .unwrap_or(step.plan)
                .way_out(&prefix, paths, run, number)
        },
        declared: &|path| match (step.plan.declared(), calls) {
            (DeclaredChanges::Anything, Some(calls)) => calls.declared(&top, path),
            (declared, _) => declared,
        },
        touched: &touched,
        unheld: UnheldFiles::judged_if(step.plan.names_files()),
        violation: Violation::RollBack,
    };
    let fate = step
        .fate
        .unwrap_or_else(|| Fate::of_tool(session.recorder.mode));
    let verdict = if answer.result.is_ok() {
        fate.success
    } else {
        fate.failure
    };
    settle::settle_step(session, number, wording, before, verdict, rules)
}

/// Records that a call is denied. Nothing has run.
fn deny(
    recorder: &mut Recorder<'_>,
    number: u32,
    step: ToolStep<'_>,
    kind: StepKind,
) -> Result<ToolEnd, RunError> {
    recorder.open(number, step.name, kind, None, &[])?;
    recorder.record(&Event::ToolDenied {
        step: number,
        denials: step.plan.denials.clone(),
    })?;
    let error = step.plan.denial();
    recorder.finish_step(
        number,
        step.name,
        StepStatus::Denied,
        None,
        None,
        Some(&error),
    )?;
    let mut result = ToolResult::new(&step.plan.invocation, recorder.run);
    result.fail(ToolStatus::Denied, &error);
    Ok(ToolEnd {
        end: StepEnd {
            status: StepStatus::Denied,
            error: Some(error),
            interrupted: false,
            command_status: None,
        },
        result,
    })
}

/// The secrets of a call and of its inner calls, which must not be shown.
fn secrets_of(ctx: &Context, plan: &ToolPlan, answer: &CallOutcome) -> Secrets {
    let own = Secrets::of(&plan.invocation, ctx.environment.variables()).and(&plan.revealed);
    match &answer.calls {
        Some(calls) => own.and(&calls.secrets),
        None => own,
    }
}

fn end_tool(
    session: &mut Session<'_>,
    number: u32,
    step: ToolStep<'_>,
    answer: CallOutcome,
    settlement: Settlement,
) -> Result<ToolEnd, RunError> {
    let interrupted = answer.was_interrupted() || settlement.interrupted;
    let failed = answer.result.is_err() || settlement.error.is_some();
    let status = match () {
        () if answer.is_denied || !settlement.denied.is_empty() => StepStatus::Denied,
        () if interrupted => StepStatus::Cancelled,
        () if settlement.asked => StepStatus::Waiting,
        () if failed => StepStatus::Failed,
        () => StepStatus::Succeeded,
    };
    let invocation = &step.plan.invocation;
    let secrets = secrets_of(session.recorder.ctx, step.plan, &answer);
    let mut result = ToolResult::new(invocation, session.recorder.run);
    result.permissions = permissions(session.checkpointer.as_ref(), step.plan);
    result.unsigned = step
        .plan
        .unsigned
        .iter()
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    if let Some(ended) = &answer.ended {
        result.record_output(ended, &secrets);
    }
    if let Some(calls) = answer.calls {
        result.execution_time_ms = milliseconds(calls.duration);
        result.warnings.extend(
            calls
                .warnings
                .iter()
                .map(|warning| secrets.removed(warning)),
        );
        result.calls = calls.told;
    }
    result.record_git_changes(answer.git_changed);
    // A failed checkpoint matters more than the failure of the tool.
    let mut error = match (answer.result, settlement.error.clone()) {
        (Ok(read), None) => {
            result
                .warnings
                .extend(read.warnings.iter().map(|warning| secrets.removed(warning)));
            result.succeed(secrets.removed_from(read.value));
            None
        }
        (_, Some(error)) | (Err(error), None) => {
            let error = error.map_texts(|text| secrets.removed(text));
            result.fail(status.into(), &error);
            Some(error)
        }
    };
    let mutates = session
        .checkpointer
        .as_ref()
        .map(|_| invocation.mutates_state == Some(true));
    result.settled(&settlement, session.recorder.mode, mutates);
    let exit_code = answer.ended.as_ref().and_then(|ended| ended.exit_code);
    if settlement.asked {
        result.status = ToolStatus::Waiting;
    } else {
        session.recorder.finish_step(
            number,
            step.name,
            status,
            exit_code,
            settlement.checkpoint,
            error.as_ref(),
        )?;
    }
    failpoint("tool-settled");
    save_result(
        session.recorder.ctx,
        invocation.id(),
        &mut result,
        error.as_mut(),
    );
    Ok(ToolEnd {
        end: StepEnd {
            status,
            error,
            interrupted,
            command_status: None,
        },
        result,
    })
}

/// Saves the result, and says in it and in its error where.
fn save_result(ctx: &Context, id: &str, result: &mut ToolResult, error: Option<&mut Problem>) {
    match outputs::save(&ctx.root, id, ctx.now(), result) {
        Ok(path) => {
            let has_more =
                |error: &&mut Problem| error.code == Code::ToolFailed && error.hint.is_none();
            if let Some(error) = error.filter(has_more) {
                error.hint = Some(format!("its output is saved in `{path}`").into());
                result.suggestion.clone_from(&error.hint);
            }
            result.output_path = Some(path);
        }
        Err(err) => result.warnings.push(format!(
            "the result could not be saved: {}",
            with_causes(&err)
        )),
    }
}

/// The permissions of a call. Without snapshots, writes cannot be checked afterwards.
fn permissions(checkpointer: Option<&Checkpointer>, plan: &ToolPlan) -> Vec<Permission> {
    let mut permissions = plan.permissions.clone();
    if checkpointer.is_none() {
        forgo_checks(&mut permissions);
    }
    permissions
}

/// Says of permissions that nothing compares the changes with them afterwards.
pub(super) fn forgo_checks(permissions: &mut [Permission]) {
    let checked = permissions
        .iter_mut()
        .filter(|it| it.enforcement == Enforcement::AfterTheFact);
    checked.for_each(|permission| permission.enforcement = Enforcement::DeclaredOnly);
}

fn machine(recorder: &Recorder<'_>) -> Machine {
    Machine {
        root: recorder.ctx.root.clone(),
        cwd: recorder.ctx.cwd.clone(),
        home: recorder.ctx.home.clone(),
        cache: recorder.ctx.cache_folder(),
        temporary: recorder.ctx.environment.temporary_folder(),
        program: recorder.ctx.program.clone(),
        environment: recorder.ctx.environment.without_git_variables(),
        run: recorder.run.to_string(),
        patience: CallTimeouts::default(),
        files: match recorder.ctx.config.signature_requirement() {
            SignatureRequirement::None => AllowedFiles::Any,
            SignatureRequirement::Integrity | SignatureRequirement::Author => AllowedFiles::Covered,
        },
        confinement: confinement::of_helpers(recorder.ctx),
    }
}
