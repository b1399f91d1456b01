//! One step: snapshot, act, snapshot, and then keep it or put it back.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::RunError;
use super::session::{Session, open_repository};
use super::settle::{Declared, Rules, Settlement, Verdict, Violation, Wording};
use super::unsettled::{InDirective, RecoveryAction};
use crate::checkpoint::attribution::{Doubt, Ownership};
use crate::checkpoint::message;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::secret::redacted;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::exec::interrupt::{Interrupts, signal_in_words};
use crate::exec::process;
use crate::exec::subprocess::{self, CommandLine, Outcome, Streams, SubprocessError};
use crate::exec::supervisor::{MARK, Supervisor, SupervisorError, Touched, Watch};
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{AfterFailure, Event, StepKind};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunStatus, StepStatus, StepSummary};
use crate::journal::{RunId, StepId};
use crate::policy::{self, InvalidGlob, PathGlobs};
use crate::problem::{Call, Code, Problem, hint};

/// So many files are named one by one.
const MOST_NAMED: usize = 3;

/// A command line to run as one step.
#[derive(Clone, Debug)]
pub struct CommandStep {
    /// What the step is called.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub folder: PathBuf,
    /// Which files it may change, as globs that are relative to `folder`; any, when there are none.
    pub writes: Vec<String>,
    /// What becomes of its changes if it fails; the mode decides where this is not given.
    pub on_failure: Option<AfterFailure>,
    /// The message of its commit, instead of a generated one.
    pub message: Option<String>,
    /// Where its output goes.
    pub streams: Streams,
    /// Whether it is watched which files it changes. What else changes meanwhile is then the user's; of a command that
    /// is not watched everything counts as its work.
    pub watch: Watch,
}

/// How a command ended, before its changes are settled.
struct Ran {
    outcome: Outcome,
    /// What it may have changed.
    touched: Touched,
    /// Why its end is not known.
    lost: Option<Problem>,
}

/// How a step ended.
#[derive(Clone, Debug)]
pub struct StepEnd {
    /// Its status.
    pub status: StepStatus,
    /// Why it failed.
    pub error: Option<Problem>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
    /// The exit status to pass on: that of a command which failed, where nothing else stopped the step.
    pub command_status: Option<u8>,
}

impl Session<'_, '_> {
    /// Runs a command line as one step under the rules of the run's mode.
    ///
    /// The caller starts its supervisor early with [`CommandStep::supervisor`], because that takes a while.
    pub fn run_command(&mut self, command: &CommandStep, supervisor: Option<Supervisor>) -> Result<StepEnd, RunError> {
        let writes = command.project_globs(self.ctx)?;
        let allowed = globs(&writes)?;
        let prepared = command.prepare(self.ctx, self.run)?;
        let step = self.next_step();
        let argv: Vec<String> = command.argv.iter().map(|word| redacted(&word.to_string_lossy())).collect();
        let kind = StepKind::Command { argv: argv.clone(), on_failure: command.on_failure };
        let unwatched = match command.watch {
            Watch::No => Some(Touched::Everything),
            Watch::Yes if supervisor.is_none() => Some(Touched::Unknown(Doubt::Platform)),
            Watch::Yes if prepared.changes_user() => Some(Touched::Unknown(Doubt::SetUser)),
            Watch::Yes => None,
        };
        self.begin_touched(step, unwatched.as_ref());
        let before = self.start_step(step, &command.name, kind, &writes)?;
        if let Some(checkpointer) = self.checkpointer.as_mut().filter(|_| before.is_some()) {
            // The command must not decide which program converts its files: that one would run without a supervisor.
            checkpointer.fix_filters();
        }
        let Ran { outcome, touched, lost } = match supervisor {
            Some(supervisor) => self.attend_command(step, &prepared, supervisor, unwatched)?,
            None => self.spawn(step, &prepared, unwatched.unwrap_or_default())?,
        };
        let failure = lost.or_else(|| failure_of(&outcome, &argv, self.run));
        let end = match before {
            None => self.skip_checkpoint(step)?,
            Some(before) => {
                let prefix = self.prefix();
                let top = self.repository()?.top().to_path_buf();
                let index = self.repository()?.git_dir().join("index");
                let is_own = |path: &RepoPath| touched.has(&top.join(path.as_path()));
                let is_allowed = |path: &RepoPath| {
                    let inside = path.as_path().strip_prefix(&prefix);
                    allowed.as_ref().is_none_or(|globs| inside.is_ok_and(|path| globs.covers(path)))
                };
                let top = self.checkpointer.as_ref().map(|it| it.repository().top().to_path_buf());
                let folder = top.and_then(|top| command.folder.strip_prefix(top).ok().map(PathBuf::from));
                let refused = StepId { run: self.run, step };
                let rules = Rules {
                    own: Ownership { has: &is_own, index: touched.has(&index), doubt: touched.doubt() },
                    may_change: &is_allowed,
                    way_out: &|paths| allow_writes(paths, folder.as_deref(), refused),
                    declared: &|_| Declared::Anything,
                    violation: Violation::RollBack,
                };
                let verdict = match (&failure, self.mode) {
                    (Some(_), mode) => match command.on_failure.unwrap_or(AfterFailure::of_mode(mode)) {
                        AfterFailure::Rollback => Verdict::RollBack("the command failed"),
                        AfterFailure::Keep => {
                            Verdict::Keep("the command failed; its changes stay: `piton undo` takes them back")
                        }
                    },
                    (None, CheckpointMode::Auto) => Verdict::Commit,
                    (None, _) => Verdict::Keep("explicit mode: `piton checkpoint` commits it"),
                };
                let given = command.message.as_deref();
                let wording = Wording { name: &command.name, given, ..Wording::default() };
                self.settle(step, wording, &before, verdict, rules)?
            }
        };
        self.end_step(step, &command.name, failure, &outcome, end)
    }

    /// Writes down that nothing is known about the changes of a step.
    pub(super) fn skip_checkpoint(&mut self, step: u32) -> Result<Settlement, RunError> {
        let reason = match self.mode {
            CheckpointMode::Disabled => "checkpoints are disabled",
            _ => "there is no git repository",
        };
        self.record(&Event::CheckpointSkipped { step, reason: reason.to_owned() })?;
        Ok(Settlement::of(skipped()))
    }

    /// Takes the snapshot before a step and writes down what is about to happen.
    pub(super) fn start_step(
        &mut self,
        step: u32,
        name: &str,
        kind: StepKind,
        writes: &[String],
    ) -> Result<Option<Snapshot>, RunError> {
        let before = match &mut self.checkpointer {
            None => None,
            Some(checkpointer) => Some(match self.found.take() {
                Some(found) => found,
                None => checkpointer.before()?,
            }),
        };
        failpoint("before-taken");
        self.open(step, name, kind, before.clone(), writes)?;
        Ok(before)
    }

    /// Writes down what is about to happen.
    pub(super) fn open(
        &mut self,
        step: u32,
        name: &str,
        kind: StepKind,
        before: Option<Snapshot>,
        writes: &[String],
    ) -> Result<(), RunError> {
        self.open_step = Some(step);
        let in_directive = if self.directive.is_some() { InDirective::Yes } else { InDirective::No };
        self.open_recovery = Some(RecoveryAction::of_undecided(&kind, self.mode, in_directive));
        self.open_tool = kind.tool().map(str::to_owned);
        let (name, tool, writes) = (name.to_owned(), self.open_tool.clone(), writes.to_vec());
        let order = self.order()?;
        self.record(&Event::StepStarted { step, name, kind, tool, before, writes, order })?;
        Ok(())
    }

    /// Has a supervisor run the command, written down before and after.
    fn attend_command(
        &mut self,
        step: u32,
        command: &CommandLine,
        supervisor: Supervisor,
        unwatched: Option<Touched>,
    ) -> Result<Ran, RunError> {
        let mut interrupts = Interrupts::listen_for(&self.ctx.stop).map_err(RunError::Signals)?;
        let mut work = command.work();
        if unwatched.is_none() {
            self.watch(step, &mut work);
        }
        let pid = supervisor.pid();
        let (started, boot) = (process::start_time(pid).unwrap_or_default(), process::boot_id().unwrap_or_default());
        // The supervisor waits for its work until this is on disk.
        self.record(&Event::ToolStarted { step, pid, started, boot, supervised: true })?;
        failpoint("tool-announced");
        match supervisor.run(&work, &mut interrupts, &mut |_, _| {}) {
            Ok(ended) => {
                failpoint("tool-ended");
                let outcome = Outcome {
                    exit_code: ended.exit_code,
                    signal: ended.signal,
                    duration: ended.duration,
                    timed_out: ended.timed_out,
                    interrupted: ended.interrupted,
                };
                self.finish_command(step, &outcome, ended.leftovers)?;
                Ok(Ran { outcome, touched: unwatched.unwrap_or(ended.touched), lost: None })
            }
            Err(SupervisorError::Program { program, source }) => {
                Err(SubprocessError::NotStarted { program, source }.into())
            }
            Err(err @ SupervisorError::Lost) => {
                let outcome = Outcome::unknown();
                self.finish_command(step, &outcome, 0)?;
                let error = Problem::of(&err);
                let touched = unwatched.unwrap_or_else(|| self.touched_so_far(step));
                Ok(Ran { outcome, touched, lost: Some(error) })
            }
            Err(err) => Err(err.into()),
        }
    }

    /// Runs the command where there are no supervisors.
    fn spawn(&mut self, step: u32, command: &CommandLine, touched: Touched) -> Result<Ran, RunError> {
        let mut interrupts = Interrupts::listen_for(&self.ctx.stop).map_err(RunError::Signals)?;
        let outcome = subprocess::run(command, &mut interrupts, |pid| {
            let started = process::start_time(pid).unwrap_or_default();
            let boot = process::boot_id().unwrap_or_default();
            self.record(&Event::ToolStarted { step, pid, started, boot, supervised: false }).map(|_| ())
        });
        let outcome = outcome?;
        failpoint("tool-ended");
        self.finish_command(step, &outcome, 0)?;
        Ok(Ran { outcome, touched, lost: None })
    }

    /// Writes down how the command ended.
    fn finish_command(&mut self, step: u32, outcome: &Outcome, leftovers: u32) -> Result<(), RunError> {
        self.record(&Event::ToolFinished {
            step,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            duration_ms: milliseconds(outcome.duration),
            timed_out: outcome.timed_out,
            stdout: None,
            stderr: None,
            leftovers,
            git_changed: Vec::new(),
        })?;
        Ok(())
    }

    fn end_step(
        &mut self,
        step: u32,
        name: &str,
        failure: Option<Problem>,
        outcome: &Outcome,
        settlement: Settlement,
    ) -> Result<StepEnd, RunError> {
        let status = match (&failure, &settlement) {
            (_, Settlement { denied, .. }) if !denied.is_empty() => StepStatus::Denied,
            _ if outcome.interrupted || settlement.interrupted => StepStatus::Cancelled,
            (None, Settlement { error: None, .. }) => StepStatus::Succeeded,
            _ => StepStatus::Failed,
        };
        // Why the changes were not kept matters more than that the command failed, and decides the exit status.
        let is_commands = settlement.error.is_none() && status == StepStatus::Failed;
        let command_status = if is_commands { status_of(outcome) } else { None };
        let interrupted = outcome.interrupted || settlement.interrupted;
        let error = settlement.error.or(failure);
        self.open_signal = outcome.signal;
        self.finish_step(step, name, status, outcome.exit_code, settlement.checkpoint, error.as_ref())?;
        Ok(StepEnd { status, error, interrupted, command_status })
    }

    /// Writes down how a step ended.
    pub(super) fn finish_step(
        &mut self,
        step: u32,
        name: &str,
        status: StepStatus,
        exit_code: Option<i32>,
        checkpoint: Option<CheckpointSummary>,
        error: Option<&Problem>,
    ) -> Result<(), RunError> {
        self.record(&Event::StepFinished { step, status, error: error.cloned() })?;
        self.forget_touched(step);
        self.open_step = None;
        let (name, tool, signal) = (name.to_owned(), self.open_tool.take(), self.open_signal.take());
        self.steps.push(StepSummary { name, status, tool, exit_code, signal, checkpoint });
        Ok(())
    }
}

impl CommandStep {
    /// Finds out whether it can be run at all, before anything else happens.
    pub fn check(&self, ctx: &Context, mode: CheckpointMode) -> Result<(), RunError> {
        globs(&self.project_globs(ctx)?)?;
        if self.on_failure == Some(AfterFailure::Rollback) {
            if mode == CheckpointMode::Disabled {
                return Err(RunError::NothingToRollBack);
            }
            // Without a repository there is no snapshot to put back.
            open_repository(ctx)?;
        }
        message::check(self.message.as_deref(), &self.name)?;
        CommandLine::new(self.argv.clone(), self.folder.clone(), ctx.environment.without_git_variables())?;
        Ok(())
    }

    /// Starts the process that will own the command; none where there are no supervisors.
    pub fn supervisor(&self, ctx: &Context) -> Result<Option<Supervisor>, RunError> {
        Ok(Supervisor::start_at_terminal(&ctx.program, self.streams)?)
    }

    /// The globs of `writes`, relative to the project.
    fn project_globs(&self, ctx: &Context) -> Result<Vec<String>, RunError> {
        self.writes
            .iter()
            .map(|text| policy::glob_in_project(text, &self.folder, &ctx.root).map_err(invalid_glob))
            .collect()
    }

    fn prepare(&self, ctx: &Context, run: RunId) -> Result<CommandLine, RunError> {
        let mut environment = ctx.environment.without_git_variables();
        environment.insert(MARK.into(), run.to_string().into());
        let mut command = CommandLine::new(self.argv.clone(), self.folder.clone(), environment)?;
        command.streams = self.streams;
        Ok(command)
    }
}

impl StepEnd {
    /// The status of a run that consists of this step.
    pub fn run_status(&self) -> RunStatus {
        self.status.into()
    }
}

/// The options that allow files which a command may not change, as the user would type them, and how its work comes back.
fn allow_writes(paths: &[RepoPath], folder: Option<&Path>, step: StepId) -> String {
    let typed = |path: &RepoPath| {
        let inside = folder.and_then(|folder| path.as_path().strip_prefix(folder).ok())?;
        Some(format!("--writes '{}'", inside.display()))
    };
    let typed: Option<Vec<String>> = paths.iter().take(MOST_NAMED).map(typed).collect();
    let options = typed
        .filter(|_| paths.len() <= MOST_NAMED)
        .map_or("more of `--writes`".to_owned(), |typed| format!("`{}` as well", typed.join(" ")));
    format!("to allow that, give {options}; `piton restore {step}` brings the changes back")
}

/// A duration for journals.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn skipped() -> CheckpointSummary {
    summary(CheckpointStatus::Skipped)
}

pub(super) fn summary(status: CheckpointStatus) -> CheckpointSummary {
    CheckpointSummary { status, commit_sha: None, files_changed: 0, insertions: 0, deletions: 0 }
}

fn failure_of(outcome: &Outcome, argv: &[String], run: RunId) -> Option<Problem> {
    let program = argv.first().map_or("", String::as_str);
    let message = match (outcome.exit_code, outcome.signal) {
        _ if outcome.interrupted => format!("`{program}` was interrupted"),
        _ if outcome.timed_out => format!("`{program}` took too long and was stopped"),
        (Some(0), _) => return None,
        (Some(code), _) => format!("`{program}` exited with status {code}"),
        (None, Some(signal)) => format!("`{program}` was ended by {}", signal_in_words(signal)),
        (None, None) => format!("`{program}` ended in an unknown way"),
    };
    let code = if outcome.interrupted { Code::Interrupted } else { Code::CommandFailed };
    Some(Problem::new(code, message).with_hint(hint!["see what it did with ", Call::ShowRun(run.to_string())]))
}

fn globs(patterns: &[String]) -> Result<Option<PathGlobs>, RunError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    PathGlobs::new(patterns.iter().map(String::as_str)).map(Some).map_err(invalid_glob)
}

fn invalid_glob(err: InvalidGlob) -> RunError {
    RunError::InvalidGlob { glob: err.glob, reason: err.reason }
}

/// The exit status of a command as a shell would say it: 128 + n where signal n ended it.
fn status_of(outcome: &Outcome) -> Option<u8> {
    let number = outcome.exit_code.or(outcome.signal.map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok())
}
