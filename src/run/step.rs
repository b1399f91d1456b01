//! One step: snapshot, act, snapshot, then keep or roll back.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::confinement::{self, IsolatedProcess, IsolationRequest};
use super::error::RunError;
use super::recorder::Recorder;
use super::session::Session;
use super::settle::{self, ChangesVerdict, Rules, Settlement, UnheldFiles, Wording};
use super::touched::{self, touches_definition};
use crate::checkpoint::attribution::{Doubt, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::message;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::secret::redacted;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::exec::interrupt::{Interrupts, signal_name};
use crate::exec::isolation::Confinement;
use crate::exec::process;
use crate::exec::subprocess::{self, CommandLine, CommandOutcome, Streams, SubprocessError};
use crate::exec::supervisor::{MARK, Supervisor, SupervisorError, Touched, Watch};
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::item::tool::Isolation;
use crate::journal::event::{AfterFailure, Event, StepKind};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunStatus, StepStatus};
use crate::journal::{RunId, StepId};
use crate::policy::{self, InvalidGlob, PathGlobs};
use crate::problem::{Code, HintCall, Problem, hint};
use crate::workspace::open_repository;

/// Up to this many files are listed one by one.
const MOST_NAMED: usize = 3;

/// A command line to run as one step.
#[derive(Clone, Debug)]
pub struct CommandStep {
    pub name: String,
    pub argv: Vec<OsString>,
    pub folder: PathBuf,
    /// The files that it may change, as globs relative to `folder`; empty means any.
    pub writes: Vec<String>,
    /// What to do with its changes if it fails; by default the mode decides.
    pub on_failure: Option<AfterFailure>,
    pub message: Option<String>,
    pub streams: Streams,
    /// Whether to record which files the command changes. Other changes then belong to the user;
    /// without this, all changes count as the command's.
    pub watch: Watch,
    /// What the kernel lets the command do.
    pub isolation: Isolation,
}

/// How a command ended, before its changes are settled.
struct Ran {
    outcome: CommandOutcome,
    /// The files that it may have changed.
    touched: Touched,
    /// Why its outcome is unknown.
    lost: Option<Problem>,
}

/// How a step ended.
#[derive(Clone, Debug)]
pub struct StepEnd {
    pub status: StepStatus,
    pub error: Option<Problem>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
    /// The exit status to pass on: that of a failed command, unless something else failed the step.
    pub command_status: Option<u8>,
}

/// Runs a command line as one step under the rules of the run's mode.
///
/// The caller starts the supervisor early with [`CommandStep::supervisor`], because that takes
/// a while.
pub fn run_command(
    session: &mut Session<'_>,
    command: &CommandStep,
    supervisor: Option<Supervisor>,
) -> Result<StepEnd, RunError> {
    let writes = command.project_globs(session.recorder.ctx)?;
    let allowed = globs(&writes)?;
    let prepared = command.prepare(session.recorder.ctx, session.recorder.run)?;
    let step = session.recorder.next_step();
    let argv: Vec<String> = command
        .argv
        .iter()
        .map(|word| redacted(&word.to_string_lossy()))
        .collect();
    let kind = StepKind::Command {
        argv: argv.clone(),
        on_failure: command.on_failure,
        isolation: Some(command.isolation).filter(|level| *level != Isolation::Trusted),
    };
    let unwatched = match command.watch {
        Watch::No => Some(Touched::Everything),
        Watch::Yes if supervisor.is_none() => Some(Touched::Unknown(Doubt::Platform)),
        Watch::Yes if prepared.changes_user() => Some(Touched::Unknown(Doubt::SetUser)),
        Watch::Yes => None,
    };
    if session.checkpointer.is_some() {
        touched::begin(&session.recorder, step, unwatched.as_ref());
    }
    let before = session.start_step(step, &command.name, kind, &writes)?;
    if let Some(checkpointer) = session.checkpointer.as_mut().filter(|_| before.is_some()) {
        // The command must not choose the filter and signing programs of git: they would run
        // without a supervisor.
        checkpointer.fix_filters();
        checkpointer.fix_signing();
    }
    let confinement = confinement::of_command(session.recorder.ctx, command.isolation);
    let Ran {
        outcome,
        touched,
        lost,
    } = match supervisor {
        Some(supervisor) => attend_command(
            &mut session.recorder,
            session.checkpointer.as_ref().map(Checkpointer::repository),
            step,
            &prepared,
            confinement,
            supervisor,
            unwatched,
        )?,
        None => spawn(
            &mut session.recorder,
            step,
            &prepared,
            unwatched.unwrap_or_default(),
        )?,
    };
    let failure = lost.or_else(|| failure_of(&outcome, &argv, session.recorder.run));
    let end = match before {
        None => session.recorder.skip_checkpoint(step)?,
        Some(before) => {
            let verdict = command.verdict(failure.as_ref(), session.recorder.mode);
            settle_command(
                session,
                step,
                command,
                allowed.as_ref(),
                &before,
                verdict,
                &touched,
            )?
        }
    };
    end_step(
        &mut session.recorder,
        step,
        &command.name,
        failure,
        &outcome,
        end,
    )
}

/// Settles the changes of a command.
fn settle_command(
    session: &mut Session<'_>,
    step: u32,
    command: &CommandStep,
    allowed: Option<&PathGlobs>,
    before: &Snapshot,
    verdict: ChangesVerdict,
    touched: &Touched,
) -> Result<Settlement, RunError> {
    let prefix = session.prefix();
    let top = session.repository()?.top().to_path_buf();
    let git_dir = session.repository()?.git_dir().to_path_buf();
    let folder = command.folder.strip_prefix(&top).ok();
    let refused = session.recorder.step_id(step);
    let rules = Rules {
        own: Ownership {
            has: &|path| touched.has(&top.join(path.as_path())),
            index: touched.has(&git_dir.join("index")),
            definition: touches_definition(touched, &git_dir),
            doubt: touched.doubt(),
            ..Ownership::EVERYTHING
        },
        may_change: &|path| {
            let inside = path.as_path().strip_prefix(&prefix);
            allowed.is_none_or(|globs| inside.is_ok_and(|path| globs.covers(path)))
        },
        way_out: &|paths| allow_writes(paths, folder, refused),
        touched,
        unheld: UnheldFiles::judged_if(allowed.is_some()),
        ..Rules::NONE
    };
    let wording = Wording {
        name: &command.name,
        given: command.message.as_deref(),
        ..Wording::default()
    };
    settle::settle_step(session, step, wording, before, verdict, rules)
}

/// Runs the command in a supervisor, and records its start and end.
fn attend_command(
    recorder: &mut Recorder<'_>,
    repository: Option<&Repository>,
    step: u32,
    command: &CommandLine,
    confinement: Option<Confinement>,
    supervisor: Supervisor,
    unwatched: Option<Touched>,
) -> Result<Ran, RunError> {
    let mut interrupts = Interrupts::listen_for(&recorder.ctx.stop).map_err(RunError::Signals)?;
    let mut work = command.work();
    work.confinement = confinement;
    if let Some(repository) = repository.filter(|_| unwatched.is_none()) {
        touched::watch(recorder, repository, step, &mut work);
    }
    let pid = supervisor.pid();
    let (started, boot) = (
        process::start_time(pid).unwrap_or_default(),
        process::boot_id().unwrap_or_default(),
    );
    // The supervisor waits until this event is on disk.
    recorder.record(&Event::ToolStarted {
        step,
        pid,
        started,
        boot,
        supervised: true,
    })?;
    failpoint("tool-announced");
    match supervisor.run(&work, &mut interrupts, &mut |_, _| {}) {
        Ok(ended) => {
            failpoint("tool-ended");
            let outcome = CommandOutcome {
                exit_code: ended.exit_code,
                signal: ended.signal,
                duration: ended.duration,
                timed_out: ended.timed_out,
                interrupted: ended.interrupted,
            };
            finish_command(recorder, step, &outcome, ended.leftovers)?;
            Ok(Ran {
                outcome,
                touched: unwatched.unwrap_or(ended.touched),
                lost: None,
            })
        }
        Err(SupervisorError::Program { program, source }) => {
            Err(SubprocessError::NotStarted { program, source }.into())
        }
        Err(err @ SupervisorError::Lost) => {
            let outcome = CommandOutcome::unknown();
            finish_command(recorder, step, &outcome, 0)?;
            let error = Problem::of(&err);
            let touched = unwatched.unwrap_or_else(|| touched::so_far(recorder, step));
            Ok(Ran {
                outcome,
                touched,
                lost: Some(error),
            })
        }
        Err(err) => Err(err.into()),
    }
}

/// Runs the command on systems without supervisors.
fn spawn(
    recorder: &mut Recorder<'_>,
    step: u32,
    command: &CommandLine,
    touched: Touched,
) -> Result<Ran, RunError> {
    let mut interrupts = Interrupts::listen_for(&recorder.ctx.stop).map_err(RunError::Signals)?;
    let outcome = subprocess::run(command, &mut interrupts, |pid| {
        let started = process::start_time(pid).unwrap_or_default();
        let boot = process::boot_id().unwrap_or_default();
        recorder
            .record(&Event::ToolStarted {
                step,
                pid,
                started,
                boot,
                supervised: false,
            })
            .map(|_| ())
    });
    let outcome = outcome?;
    failpoint("tool-ended");
    finish_command(recorder, step, &outcome, 0)?;
    Ok(Ran {
        outcome,
        touched,
        lost: None,
    })
}

/// Records the end of the command.
fn finish_command(
    recorder: &mut Recorder<'_>,
    step: u32,
    outcome: &CommandOutcome,
    leftovers: u32,
) -> Result<(), RunError> {
    recorder.record(&Event::ToolFinished {
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
    recorder: &mut Recorder<'_>,
    step: u32,
    name: &str,
    failure: Option<Problem>,
    outcome: &CommandOutcome,
    settlement: Settlement,
) -> Result<StepEnd, RunError> {
    let status = match (&failure, &settlement) {
        (_, Settlement { denied, .. }) if !denied.is_empty() => StepStatus::Denied,
        _ if outcome.interrupted || settlement.interrupted => StepStatus::Cancelled,
        (None, Settlement { error: None, .. }) => StepStatus::Succeeded,
        _ => StepStatus::Failed,
    };
    // A failed checkpoint matters more than the failure of the command, and decides the exit
    // status.
    let is_commands = settlement.error.is_none() && status == StepStatus::Failed;
    let command_status = if is_commands {
        status_of(outcome)
    } else {
        None
    };
    let interrupted = outcome.interrupted || settlement.interrupted;
    let error = settlement.error.or(failure);
    recorder.open_signal = outcome.signal;
    recorder.finish_step(
        step,
        name,
        status,
        outcome.exit_code,
        settlement.checkpoint,
        error.as_ref(),
    )?;
    Ok(StepEnd {
        status,
        error,
        interrupted,
        command_status,
    })
}

impl CommandStep {
    /// Checks whether the step can run at all, before anything else happens.
    pub fn check(&self, ctx: &Context, mode: CheckpointMode) -> Result<(), RunError> {
        globs(&self.project_globs(ctx)?)?;
        if self.on_failure == Some(AfterFailure::Rollback) {
            if mode == CheckpointMode::Disabled {
                return Err(RunError::NothingToRollBack);
            }
            // Without a repository there is no snapshot to restore.
            open_repository(ctx)?;
        }
        message::check(self.message.as_deref(), &self.name)?;
        let isolation = IsolationRequest {
            level: self.isolation,
            is_asked: true,
            allow_degraded: false,
            process: IsolatedProcess::Program,
            subject: "the command",
        };
        isolation.given(ctx)?;
        let command = CommandLine::new(
            self.argv.clone(),
            self.folder.clone(),
            ctx.environment.without_git_variables(),
        )?;
        let confinement = confinement::of_command(ctx, self.isolation);
        confinement::require_visible(confinement.as_ref(), command.program().to_path_buf())?;
        Ok(())
    }

    /// Starts the process that will own the command; `None` on systems without supervisors.
    pub fn supervisor(&self, ctx: &Context) -> Result<Option<Supervisor>, RunError> {
        Ok(Supervisor::start_at_terminal(&ctx.program, self.streams)?)
    }

    /// The globs of `writes`, relative to the project.
    fn project_globs(&self, ctx: &Context) -> Result<Vec<String>, RunError> {
        self.writes
            .iter()
            .map(|text| {
                policy::glob_in_project(text, &self.folder, &ctx.root).map_err(invalid_glob)
            })
            .collect()
    }

    /// The intended outcome for its changes.
    fn verdict(&self, failure: Option<&Problem>, mode: CheckpointMode) -> ChangesVerdict {
        match (failure, mode) {
            (Some(_), mode) => match self.on_failure.unwrap_or(AfterFailure::of_mode(mode)) {
                AfterFailure::Rollback => ChangesVerdict::RollBack("the command failed"),
                AfterFailure::Keep => ChangesVerdict::Keep(
                    "the command failed; its changes stay; `piton undo` reverts them",
                ),
            },
            (None, CheckpointMode::Auto) => ChangesVerdict::Commit,
            (None, _) => {
                ChangesVerdict::Keep("left uncommitted; run `piton checkpoint` to commit it")
            }
        }
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

/// The options that would allow the denied files, as the user would type them, and how to get the
/// discarded work back.
fn allow_writes(paths: &[RepoPath], folder: Option<&Path>, step: StepId) -> String {
    let typed = |path: &RepoPath| {
        let inside = folder.and_then(|folder| path.as_path().strip_prefix(folder).ok())?;
        Some(format!("--writes '{}'", inside.display()))
    };
    let typed: Option<Vec<String>> = paths.iter().take(MOST_NAMED).map(typed).collect();
    let options = typed
        .filter(|_| paths.len() <= MOST_NAMED)
        .map_or("further `--writes`".to_owned(), |typed| {
            format!("`{}` as well", typed.join(" "))
        });
    format!("to allow that, use {options}; `piton restore {step}` restores the changes")
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn skipped() -> CheckpointSummary {
    summary(CheckpointStatus::Skipped)
}

pub(super) fn summary(status: CheckpointStatus) -> CheckpointSummary {
    CheckpointSummary {
        status,
        commit_sha: None,
        files_changed: 0,
        insertions: 0,
        deletions: 0,
    }
}

fn failure_of(outcome: &CommandOutcome, argv: &[String], run: RunId) -> Option<Problem> {
    let program = argv.first().map_or("", String::as_str);
    let message = match (outcome.exit_code, outcome.signal) {
        _ if outcome.interrupted => format!("`{program}` was interrupted"),
        _ if outcome.timed_out => format!("`{program}` took too long and was stopped"),
        (Some(0), _) => return None,
        (Some(code), _) => format!("`{program}` exited with status {code}"),
        (None, Some(signal)) => format!("`{program}` was ended by {}", signal_name(signal)),
        (None, None) => format!("`{program}` ended in an unknown way"),
    };
    let code = if outcome.interrupted {
        Code::Interrupted
    } else {
        Code::CommandFailed
    };
    Some(Problem::new(code, message).with_hint(hint![
        "see what it did with ",
        HintCall::ShowRun(run.to_string())
    ]))
}

fn globs(patterns: &[String]) -> Result<Option<PathGlobs>, RunError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    PathGlobs::new(patterns.iter().map(String::as_str))
        .map(Some)
        .map_err(invalid_glob)
}

fn invalid_glob(err: InvalidGlob) -> RunError {
    RunError::InvalidGlob {
        glob: err.glob,
        reason: err.reason,
    }
}

/// The exit status in the form of a shell: 128 + n for signal n.
fn status_of(outcome: &CommandOutcome) -> Option<u8> {
    let number = outcome
        .exit_code
        .or(outcome.signal.map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok())
}
