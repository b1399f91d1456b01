//! Makes one call under a supervisor and reads its result.

use super::calls::StepCalls;
use super::{Listener, ToolPlan, refusal};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::watch::GitWatch;
use crate::context::Context;
use crate::exec::call::{self, CallProgress, Machine, PreparedCall, ReadResult};
use crate::exec::interrupt::{Interrupts, signal_name};
use crate::exec::supervisor::{Captured, Ended, Supervisor, SupervisorError, Work};
use crate::failpoint::failpoint;
use crate::item::tool::Isolation;
use crate::journal::event::{Event, StreamDigest};
use crate::problem::{Code, HintCall, Problem, hint};
use crate::run::confinement;
use crate::run::error::RunError;
use crate::run::session::Session;
use crate::run::step::milliseconds;

/// The result of a call, before its changes are settled.
pub(super) struct CallOutcome {
    /// How its process ended; `None` if there was none.
    pub(super) ended: Option<Ended>,
    pub(super) result: Result<ReadResult, Problem>,
    /// Settings and hooks of git that changed meanwhile.
    pub(super) git_changed: Vec<String>,
    /// The inner calls of a meta tool.
    pub(super) calls: Option<StepCalls>,
    /// Whether it failed because of a missing permission.
    pub(super) is_denied: bool,
}

impl CallOutcome {
    /// For a call without a process.
    pub(super) fn failed(error: Problem, git_changed: Vec<String>) -> Self {
        Self {
            ended: None,
            result: Err(error),
            git_changed,
            calls: None,
            is_denied: false,
        }
    }

    pub(super) fn was_interrupted(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.interrupted)
            || self
                .result
                .as_ref()
                .is_err_and(|error| error.code == Code::Interrupted)
    }
}

/// What all processes of a step have in common.
pub(super) struct StepResources<'w, 'l> {
    pub(super) machine: &'w Machine,
    pub(super) interrupts: &'w mut Interrupts,
    pub(super) listener: &'w mut Listener<'l>,
}

/// Makes the call and reads its result.
pub(super) fn ask(
    session: &mut Session<'_>,
    step: u32,
    plan: &ToolPlan,
    supervisor: Supervisor,
    prepared: &mut PreparedCall,
    around: &mut StepResources<'_, '_>,
) -> Result<CallOutcome, RunError> {
    // The step that first calls a server starts it, so that its changes belong to that step.
    let pins = session.recorder.folders.definitions();
    let ctx = session.recorder.ctx;
    if let Err(err) =
        session
            .servers
            .attend(&plan.invocation, prepared, around.machine, &pins, || {
                ctx.random_bits()
            })
    {
        return Ok(CallOutcome::failed(Problem::of(&err), Vec::new()));
    }
    if let Some(confinement) = &mut prepared.work.confinement {
        for folder in session.servers.folders() {
            confinement.guard(folder);
        }
    }
    let (ended, git_changed) = attend(session, step, supervisor, &prepared.work, around)?;
    let has_no_end = |ended: &Ended| ended.exit_code.is_none() && ended.result.is_none();
    if plan.invocation.action.is_container() && ended.as_ref().map_or(true, has_no_end) {
        // The worker was killed before it could do that itself.
        call::end_abandoned_containers(
            &around.machine.cache,
            &around.machine.program,
            &around.machine.run,
        );
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(err) => return Ok(CallOutcome::failed(Problem::of(&err), git_changed)),
    };
    let result = if let Some(failure) = failure_of(&ended, plan, session.recorder.ctx) {
        Err(failure)
    } else {
        let program = session.recorder.ctx.program.clone();
        let again = || Supervisor::start(&program);
        let stricter = (plan.isolation > Isolation::Standard).then(|| Machine {
            confinement: confinement::of_parser(session.recorder.ctx, plan.isolation),
            ..around.machine.clone()
        });
        call::read_result(
            &plan.invocation,
            &ended,
            stricter.as_ref().unwrap_or(around.machine),
            &again,
            around.interrupts,
        )
        .map_err(|err| Problem::of(&err))
    };
    failpoint("result-read");
    // A tool with a changed definition is denied until a person accepts it.
    let is_denied = result
        .as_ref()
        .is_err_and(|error| error.code == Code::McpChanged);
    Ok(CallOutcome {
        ended: Some(ended),
        result,
        git_changed,
        calls: None,
        is_denied,
    })
}

/// Runs the supervisor's work, and records its start and end; returns how it ended and which
/// git settings have changed.
pub(super) fn attend(
    session: &mut Session<'_>,
    step: u32,
    supervisor: Supervisor,
    work: &Work,
    around: &mut StepResources<'_, '_>,
) -> Result<(Result<Ended, SupervisorError>, Vec<String>), RunError> {
    let git = session.checkpointer.as_ref().map(Checkpointer::repository);
    let before = git.map(GitWatch::of);
    session
        .recorder
        .start_process(step, supervisor.pid(), true)?;
    failpoint("tool-announced");
    let listener = &mut *around.listener;
    let mut relay = |stream, bytes: &[u8]| listener(CallProgress::Output(stream, bytes));
    let ended = supervisor.run(work, around.interrupts, &mut relay);
    let git_changed = match (before, git) {
        (Some(before), Some(git)) => GitWatch::of(git).changed_since(&before),
        _ => Vec::new(),
    };
    let Ok(mut ended) = ended else {
        return Ok((ended, git_changed));
    };
    failpoint("tool-ended");
    if work.program == around.machine.program && ended.result.is_some() {
        // This is the exit code of piton's own worker, which is of no interest.
        ended.exit_code = None;
    }
    session.recorder.record(&Event::ToolFinished {
        step,
        exit_code: ended.exit_code,
        signal: ended.signal,
        duration_ms: milliseconds(ended.duration),
        timed_out: ended.timed_out,
        stdout: Some(written(&ended.stdout)),
        stderr: Some(written(&ended.stderr)),
        leftovers: ended.leftovers,
        git_changed: git_changed.clone(),
    })?;
    Ok((Ok(ended), git_changed))
}

fn written(captured: &Captured) -> StreamDigest {
    StreamDigest {
        bytes: captured.total,
        sha256: captured.sha256.clone(),
    }
}

/// Why a finished tool has failed; `None` if it succeeded.
fn failure_of(ended: &Ended, plan: &ToolPlan, ctx: &Context) -> Option<Problem> {
    let id = plan.invocation.id();
    let (code, message) = match (ended.exit_code, ended.signal) {
        _ if ended.interrupted => (Code::Interrupted, format!("tool `{id}` was interrupted")),
        _ if ended.timed_out => {
            return Some(timed_out(plan));
        }
        (Some(0), _) => return None,
        // The worker's answer decides.
        (None, None) if ended.result.is_some() => return None,
        (Some(_), _)
            if let Some(raised) = call::raised(ended).filter(|raised| raised.kind == "NoJson") =>
        {
            (
                Code::NoJson,
                format!("tool `{id}` returned a result that is {}", raised.message),
            )
        }
        (Some(_), _) if let Some(raised) = call::raised(ended) => (
            Code::ToolFailed,
            format!("tool `{id}` raised {}: {}", raised.kind, raised.message),
        ),
        (Some(status), _) => (
            Code::ToolFailed,
            format!("tool `{id}` exited with status {status}"),
        ),
        (None, Some(signal)) => (
            Code::ToolFailed,
            format!("tool `{id}` was ended by {}", signal_name(signal)),
        ),
        (None, None) => (
            Code::ToolFailed,
            format!("tool `{id}` ended in an unknown way"),
        ),
    };
    let hint = match code {
        Code::ToolFailed if let Some(hint) = refusal::hint(ctx, plan, &ended.refused) => Some(hint),
        Code::NoJson => Some("return texts, numbers, booleans, lists, mappings or nothing".into()),
        Code::ToolFailed if ended.stdout.total + ended.stderr.total == 0 => Some(hint![
            "it printed nothing; ",
            HintCall::DryRun,
            " shows what is called"
        ]),
        _ => None,
    };
    Some(Problem::new(code, message).with_hint_of(hint))
}

/// The error of a call that exceeded its time limit.
pub(super) fn timed_out(plan: &ToolPlan) -> Problem {
    let limit = plan.invocation.timeout.as_secs_f64();
    let message = format!(
        "tool `{}` took longer than {limit} s and was stopped",
        plan.invocation.id()
    );
    Problem::new(Code::TimedOut, message)
        .with_hint("give it more time with `timeout:` in its manifest")
}
