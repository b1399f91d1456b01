//! Calling a tool as one step: resolve, judge, snapshot, call, read the result, settle.
//!
//! [`plan()`] is everything that can be known before anything runs, and what `--dry-run` shows;
//! [`Session::call_tool`] carries a [`ToolPlan`] out. Whatever front door asks, the answer is a
//! [`ToolResult`].

mod accept;
mod calls;
mod command;
mod meta;
mod plan;
mod result;
mod secrecy;

pub use accept::{AcceptError, accept};
pub use calls::CallTold;
pub use command::{Called, ToolCommand, perform};
pub use plan::{Planner, ToolPlan, ToolRequest, authority_of, plan, told_parameters};
pub use result::{ToolResult, ToolStatus};

use std::path::PathBuf;

use serde_json::Value;

use super::error::RunError;
use super::outputs;
use super::session::Session;
use super::settle::{Declared, Fate, Rules, Settlement, Violation, Wording};
use super::step::{StepEnd, milliseconds};
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::watch::GitWatch;
use crate::config::SignatureRequirement;
use crate::exec::call::{self, Files, Machine, Patience, Prepared, Progress, Read};
use crate::exec::interrupt::{Interrupts, signal_in_words};
use crate::exec::invocation::Action;
use crate::exec::process;
use crate::exec::supervisor::{Captured, Ended, Supervisor, SupervisorError, Touched, Work};
use crate::failpoint::failpoint;
use crate::journal::event::{Event, StepKind, ToolCall, Written};
use crate::journal::summary::StepStatus;
use crate::policy::{Enforcement, Permission};
use crate::problem::{Call, Code, Problem, hint, with_causes};
use calls::Calls;
use secrecy::Secrets;

/// Sees what happens while a tool runs.
pub type Listener<'l> = dyn FnMut(Progress<'_>) + 'l;

/// A tool to call as one step.
#[derive(Clone, Copy, Debug)]
pub struct ToolStep<'p> {
    /// What the step is called.
    pub name: &'p str,
    /// What will be done.
    pub plan: &'p ToolPlan,
    /// What the calls of a meta tool are planned with.
    pub planner: Planner<'p>,
    /// The message of its commit, instead of a generated one.
    pub message: Option<&'p str>,
    /// What is wanted for its changes; what the mode says, by default.
    pub(super) fate: Option<Fate>,
}

impl<'p> ToolStep<'p> {
    /// A call whose changes are treated as the mode of the run says.
    pub fn new(name: &'p str, plan: &'p ToolPlan, planner: Planner<'p>, message: Option<&'p str>) -> Self {
        Self { name, plan, planner, message, fate: None }
    }
}

/// How the call of a tool ended.
#[derive(Debug)]
pub struct ToolEnd {
    /// The end of its step.
    pub end: StepEnd,
    /// What it gave back.
    pub result: ToolResult,
}

/// What a call came to, before its changes are settled.
struct Answer {
    /// How its process ended; none when there was none.
    ended: Option<Ended>,
    /// Its result, or why there is none.
    result: Result<Read, Problem>,
    /// Settings and hooks of git that changed meanwhile.
    git_changed: Vec<String>,
    /// The calls that it was made of, where it is one of a meta tool.
    calls: Option<Calls>,
    /// Whether it failed because something was not allowed.
    is_denied: bool,
}

impl Answer {
    /// Of a call that has no process to tell of.
    fn failed(error: Problem, git_changed: Vec<String>) -> Self {
        Self { ended: None, result: Err(error), git_changed, calls: None, is_denied: false }
    }

    fn was_interrupted(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.interrupted)
            || self.result.as_ref().is_err_and(|error| error.code == Code::Interrupted)
    }
}

/// What every process of a step is run with.
struct Around<'w, 'l> {
    machine: &'w Machine,
    interrupts: &'w mut Interrupts,
    listener: &'w mut Listener<'l>,
}

impl Session<'_, '_> {
    /// Calls a tool as one step under the rules of the run's mode.
    ///
    /// Its supervisor is started by whoever asks: early, because that takes as long as all the rest.
    pub fn call_tool(
        &mut self,
        step: ToolStep<'_>,
        supervisor: Supervisor,
        listener: &mut Listener<'_>,
    ) -> Result<ToolEnd, RunError> {
        let number = self.next_step();
        let kind = StepKind::Tool(ToolCall { permissions: self.permissions(step.plan), ..step.plan.written_down() });
        if !step.plan.denials.is_empty() {
            return self.deny(number, step, kind);
        }
        let machine = self.machine();
        let mut interrupts = Interrupts::listen_for(&self.ctx.stop).map_err(RunError::Signals)?;
        let program = self.ctx.program.clone();
        let another = || Supervisor::start(&program);
        let mut installed = false;
        let mut tell = |progress: Progress<'_>| {
            installed |= matches!(progress, Progress::Preparing(_));
            listener(progress);
        };
        let mut prepared = call::prepare(&step.plan.invocation, &machine, &another, &mut interrupts, &mut tell)?;
        failpoint("tool-prepared");
        let writes = step.plan.invocation.writes.clone().unwrap_or_default();
        let may_change_files = step.plan.invocation.action.may_change_files();
        let is_elsewhere = step.plan.invocation.action.acts_elsewhere();
        // What else runs in its name is not watched, and neither is an engine or a server.
        let is_unwatched = installed || is_elsewhere || call::runs_parser(&step.plan.invocation, &machine);
        let before = if may_change_files {
            self.begin_touched(number, is_unwatched.then_some(&Touched::Everything));
            self.start_step(number, step.name, kind, &writes)?
        } else {
            self.open(number, step.name, kind, None, &writes)?;
            None
        };
        if before.is_some() && !is_elsewhere {
            self.watch(number, &mut prepared.work);
        }
        if let Some(checkpointer) = self.checkpointer.as_mut().filter(|_| before.is_some()) {
            // A tool must not decide which program converts its files: that one would run without a supervisor.
            checkpointer.fix_filters();
        }
        let mut around = Around { machine: &machine, interrupts: &mut interrupts, listener };
        let answer = match &step.plan.invocation.action {
            Action::Meta(meta) => {
                let first = (supervisor, prepared.work);
                self.orchestrate(number, (step.plan, meta), step.planner, first, &mut around)?
            }
            _ => self.ask(number, step.plan, supervisor, &mut prepared, &mut around)?,
        };
        drop(interrupts);
        if let Some(checkpointer) = self.checkpointer.as_mut().filter(|_| !answer.git_changed.is_empty()) {
            // They would run without a supervisor, as if they were the user's own.
            checkpointer.distrust_hooks();
        }
        let fate = step.fate.unwrap_or_else(|| Fate::of_tool(self.mode));
        if self.state.is_some() {
            let secrets = self.secrets_of(step.plan, &answer);
            let (result, error) = match &answer.result {
                Ok(read) => (secrets.removed_from(read.value.clone()), None),
                Err(error) => (Value::Null, Some(error.clone())),
            };
            self.record(&Event::Answered { step: number, result, error, paths: Vec::new() })?;
            failpoint("tool-answered");
        }
        let settlement = match &before {
            // There is nothing to keep or to put back.
            None if !may_change_files => Settlement::default(),
            None => self.skip_checkpoint(number)?,
            Some(before) => {
                let tool = step.plan.invocation.tool();
                let wording = Wording { name: step.name, given: step.message, tool: Some(&tool), ..Wording::default() };
                let (run, prefix) = (self.run, self.prefix());
                let top = self.repository()?.top().to_path_buf();
                let index = self.repository()?.git_dir().join("index");
                let calls = answer.calls.as_ref();
                let touched = match (&answer.ended, calls) {
                    _ if is_unwatched => Touched::Everything,
                    (_, Some(calls)) => calls.touched(),
                    (Some(ended), None) => ended.touched.clone(),
                    (None, None) => self.touched_so_far(number),
                };
                let may_inside = |path: &RepoPath| calls.is_none_or(|calls| calls.may_change(&top, &prefix, path));
                let rules = Rules {
                    own: Ownership {
                        has: &|path| touched.has(&top.join(path.as_path())),
                        index: touched.has(&index),
                        doubt: touched.doubt(),
                    },
                    may_change: &|path| step.plan.may_change(&prefix, path) && may_inside(path),
                    way_out: &|paths| {
                        let inside = calls.and_then(|calls| calls.culprit(&top, &prefix, paths));
                        inside.unwrap_or(step.plan).way_out(&prefix, paths, run, number)
                    },
                    declared: &|path| match (step.plan.declared(), calls) {
                        (Declared::Anything, Some(calls)) => calls.declared(&top, path),
                        (declared, _) => declared,
                    },
                    violation: Violation::RollBack,
                };
                let verdict = if answer.result.is_ok() { fate.success } else { fate.failure };
                self.settle(number, wording, before, verdict, rules)?
            }
        };
        self.end_tool(number, step, answer, settlement)
    }

    /// Writes down that a call is not allowed. Nothing has run.
    fn deny(&mut self, number: u32, step: ToolStep<'_>, kind: StepKind) -> Result<ToolEnd, RunError> {
        self.open(number, step.name, kind, None, &[])?;
        self.record(&Event::ToolDenied { step: number, denials: step.plan.denials.clone() })?;
        let error = step.plan.denial();
        self.finish_step(number, step.name, StepStatus::Denied, None, None, Some(&error))?;
        let mut result = ToolResult::new(&step.plan.invocation, self.run);
        result.fail(ToolStatus::Denied, &error);
        Ok(ToolEnd {
            end: StepEnd { status: StepStatus::Denied, error: Some(error), interrupted: false, command_status: None },
            result,
        })
    }

    /// Has the call made and its result read.
    fn ask(
        &mut self,
        step: u32,
        plan: &ToolPlan,
        supervisor: Supervisor,
        prepared: &mut Prepared,
        around: &mut Around<'_, '_>,
    ) -> Result<Answer, RunError> {
        // A server is started within the step that calls it first, so that what it changes belongs to that step.
        let pins = self.pins_folder();
        if let Err(err) = self.servers.attend(&plan.invocation, prepared, around.machine, &pins) {
            return Ok(Answer::failed(Problem::of(&err), Vec::new()));
        }
        let (ended, git_changed) = self.attend(step, supervisor, &prepared.work, around)?;
        let has_no_end = |ended: &Ended| ended.exit_code.is_none() && ended.result.is_none();
        if plan.invocation.action.is_container() && ended.as_ref().map_or(true, has_no_end) {
            // Its worker was killed before it could do that itself.
            call::end_abandoned_containers(&around.machine.cache, &around.machine.program, &around.machine.run);
        }
        let ended = match ended {
            Ok(ended) => ended,
            Err(err) => return Ok(Answer::failed(Problem::of(&err), git_changed)),
        };
        let result = if let Some(failure) = failure_of(&ended, plan) {
            Err(failure)
        } else {
            let program = self.ctx.program.clone();
            let again = || Supervisor::start(&program);
            call::read_result(&plan.invocation, &ended, around.machine, &again, around.interrupts)
                .map_err(|err| Problem::of(&err))
        };
        failpoint("result-read");
        // A tool that is not what it was is refused until a person accepts it.
        let is_denied = result.as_ref().is_err_and(|error| error.code == Code::McpChanged);
        Ok(Answer { ended: Some(ended), result, git_changed, calls: None, is_denied })
    }

    /// Has a supervisor do its work, written down before and after; tells how it ended and what of git has changed.
    fn attend(
        &mut self,
        step: u32,
        supervisor: Supervisor,
        work: &Work,
        around: &mut Around<'_, '_>,
    ) -> Result<(Result<Ended, SupervisorError>, Vec<String>), RunError> {
        let pid = supervisor.pid();
        let started = process::start_time(pid).unwrap_or_default();
        let boot = process::boot_id().unwrap_or_default();
        let watch = |session: &Self| Some(GitWatch::of(session.checkpointer.as_ref()?.repository()));
        let git = watch(self);
        // The supervisor waits for its work until this is on disk.
        self.record(&Event::ToolStarted { step, pid, started, boot, supervised: true })?;
        failpoint("tool-announced");
        let listener = &mut *around.listener;
        let mut relay = |stream, bytes: &[u8]| listener(Progress::Output(stream, bytes));
        let ended = supervisor.run(work, around.interrupts, &mut relay);
        let git_changed = match (git, watch(self)) {
            (Some(before), Some(after)) => after.changed_since(&before),
            _ => Vec::new(),
        };
        let Ok(mut ended) = ended else { return Ok((ended, git_changed)) };
        failpoint("tool-ended");
        if work.program == around.machine.program && ended.result.is_some() {
            // That is how our own process ended, which tells nobody anything.
            ended.exit_code = None;
        }
        self.record(&Event::ToolFinished {
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

    /// What a call, and those that it was made of, must not show.
    fn secrets_of(&self, plan: &ToolPlan, answer: &Answer) -> Secrets {
        let own = Secrets::of(&plan.invocation, self.ctx.environment.variables());
        match &answer.calls {
            Some(calls) => own.and(&calls.secrets),
            None => own,
        }
    }

    fn end_tool(
        &mut self,
        number: u32,
        step: ToolStep<'_>,
        answer: Answer,
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
        let secrets = self.secrets_of(step.plan, &answer);
        let mut result = ToolResult::new(invocation, self.run);
        result.permissions = self.permissions(step.plan);
        result.unsigned = step.plan.unsigned.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        if let Some(ended) = &answer.ended {
            result.tell(ended, &secrets);
        }
        if let Some(calls) = answer.calls {
            result.execution_time_ms = milliseconds(calls.duration);
            result.warnings.extend(calls.warnings.iter().map(|warning| secrets.removed(warning)));
            result.calls = calls.told;
        }
        result.tell_git(answer.git_changed);
        // Why the changes were not kept matters more than that the tool failed.
        let mut error = match (answer.result, settlement.error.clone()) {
            (Ok(read), None) => {
                result.warnings.extend(read.warnings.iter().map(|warning| secrets.removed(warning)));
                result.succeed(secrets.removed_from(read.value));
                None
            }
            (_, Some(error)) | (Err(error), None) => {
                let error = error.map_texts(|text| secrets.removed(text));
                result.fail(status.into(), &error);
                Some(error)
            }
        };
        result.settled(&settlement, self.mode, invocation.mutates_state);
        let exit_code = answer.ended.as_ref().and_then(|ended| ended.exit_code);
        if settlement.asked {
            result.status = ToolStatus::Waiting;
        } else {
            self.finish_step(number, step.name, status, exit_code, settlement.checkpoint, error.as_ref())?;
        }
        failpoint("tool-settled");
        match outputs::save(&self.ctx.root, invocation.id(), self.ctx.now(), &result) {
            Ok(path) => {
                let has_more = |error: &&mut Problem| error.code == Code::ToolFailed && error.hint.is_none();
                if let Some(error) = error.as_mut().filter(has_more) {
                    error.hint = Some(format!("what it wrote is saved in `{path}`").into());
                    result.suggestion.clone_from(&error.hint);
                }
                result.output_path = Some(path);
            }
            Err(err) => result.warnings.push(format!("the result could not be saved: {}", with_causes(&err))),
        }
        Ok(ToolEnd { end: StepEnd { status, error, interrupted, command_status: None }, result })
    }

    /// The permissions of a call. Without snapshots nobody sees afterwards what it wrote.
    fn permissions(&self, plan: &ToolPlan) -> Vec<Permission> {
        let mut permissions = plan.permissions.clone();
        if self.checkpointer.is_none() {
            let checked = permissions.iter_mut().filter(|it| it.enforcement == Enforcement::AfterTheFact);
            checked.for_each(|permission| permission.enforcement = Enforcement::DeclaredOnly);
        }
        permissions
    }

    fn machine(&self) -> Machine {
        Machine {
            root: self.ctx.root.clone(),
            cwd: self.ctx.cwd.clone(),
            home: self.ctx.home.clone(),
            cache: self.ctx.cache_folder(),
            temporary: self.ctx.environment.temporary_folder(),
            program: self.ctx.program.clone(),
            environment: self.ctx.environment.without_git_variables(),
            run: self.run.to_string(),
            patience: Patience::default(),
            files: match self.ctx.config.signature_requirement() {
                SignatureRequirement::None => Files::Any,
                SignatureRequirement::Integrity | SignatureRequirement::Author => Files::Covered,
            },
        }
    }

    /// Where it is kept what tools of MCP servers are.
    fn pins_folder(&self) -> PathBuf {
        self.folders().definitions()
    }

    /// Where the project lies in the work tree; grants are relative to it.
    pub(super) fn prefix(&self) -> PathBuf {
        let top = self.checkpointer.as_ref().map(|checkpointer| checkpointer.repository().top());
        top.and_then(|top| self.ctx.root.strip_prefix(top).ok()).map(PathBuf::from).unwrap_or_default()
    }
}

fn written(captured: &Captured) -> Written {
    Written { bytes: captured.total, sha256: captured.sha256.clone() }
}

/// Why a tool that ended has failed; none when it has not.
fn failure_of(ended: &Ended, plan: &ToolPlan) -> Option<Problem> {
    let id = plan.invocation.id();
    let (code, message) = match (ended.exit_code, ended.signal) {
        _ if ended.interrupted => (Code::Interrupted, format!("tool `{id}` was interrupted")),
        _ if ended.timed_out => {
            return Some(timed_out(plan));
        }
        (Some(0), _) => return None,
        // A worker has answered; what it says counts.
        (None, None) if ended.result.is_some() => return None,
        (Some(_), _) if let Some(raised) = call::raised(ended).filter(|raised| raised.kind == "NoJson") => {
            (Code::NoJson, format!("tool `{id}` returned a result that is {}", raised.message))
        }
        (Some(_), _) if let Some(raised) = call::raised(ended) => {
            (Code::ToolFailed, format!("tool `{id}` raised {}: {}", raised.kind, raised.message))
        }
        (Some(status), _) => (Code::ToolFailed, format!("tool `{id}` exited with status {status}")),
        (None, Some(signal)) => (Code::ToolFailed, format!("tool `{id}` was ended by {}", signal_in_words(signal))),
        (None, None) => (Code::ToolFailed, format!("tool `{id}` ended in an unknown way")),
    };
    let hint = match code {
        Code::NoJson => Some("return texts, numbers, booleans, lists, mappings or nothing".into()),
        Code::ToolFailed if ended.stdout.total + ended.stderr.total == 0 => {
            Some(hint!["it wrote nothing; ", Call::DryRun, " shows what is called"])
        }
        _ => None,
    };
    Some(Problem::new(code, message).with_hint_of(hint))
}

/// A call took longer than it may.
fn timed_out(plan: &ToolPlan) -> Problem {
    let limit = plan.invocation.timeout.as_secs_f64();
    let message = format!("tool `{}` took longer than {limit} s and was stopped", plan.invocation.id());
    Problem::new(Code::TimedOut, message).with_hint("give it more time with `timeout:` in its manifest")
}
