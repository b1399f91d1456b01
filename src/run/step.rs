//! One step: snapshot, act, snapshot, and then keep it or put it back.

use std::ffi::OsString;
use std::path::PathBuf;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::error::RunError;
use super::session::{Session, ref_of};
use super::settle::{Settlement, Verdict, Wording};
use crate::checkpoint::message;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::secret::redacted;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::exec::interrupt::Interrupts;
use crate::exec::process;
use crate::exec::subprocess::{self, Outcome, Streams};
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::RunId;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, ErrorSummary, RunStatus, StepStatus, StepSummary};

/// Tells a command, and everything that it starts, which run it belongs to.
pub(super) const RUN_VARIABLE: &str = "PITON_RUN_ID";

/// A command line to run as one step.
#[derive(Clone, Debug)]
pub struct CommandStep {
    /// What the step is called.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub folder: PathBuf,
    /// Which files it may change; any, when there are none.
    pub writes: Vec<String>,
    /// The message of its commit, instead of a generated one.
    pub message: Option<String>,
    /// Where its output goes.
    pub streams: Streams,
}

/// How a step ended.
#[derive(Clone, Debug)]
pub struct StepEnd {
    /// Its status.
    pub status: StepStatus,
    /// Why it failed.
    pub error: Option<ErrorSummary>,
    /// Whether somebody interrupted it.
    pub interrupted: bool,
}

impl Session<'_, '_> {
    /// Runs a command line as one step under the rules of the run's mode.
    pub fn run_command(&mut self, command: &CommandStep) -> Result<StepEnd, RunError> {
        let allowed = globs(&command.writes)?;
        let prepared = command.prepare(self.ctx, self.run)?;
        let step = self.next_step();
        let argv: Vec<String> = command.argv.iter().map(|word| redacted(&word.to_string_lossy())).collect();
        let before = self.start_step(step, &command.name, StepKind::Command { argv: argv.clone() }, &command.writes)?;
        let outcome = self.spawn(step, &prepared)?;
        let failure = failure_of(&outcome, &argv, self.run);
        let end = match before {
            None => {
                let reason = match self.mode {
                    CheckpointMode::Disabled => "checkpoints are disabled",
                    _ => "there is no git repository",
                };
                self.record(&Event::CheckpointSkipped { step, reason: reason.to_owned() })?;
                Settlement { checkpoint: Some(skipped()), error: None, denied: Vec::new() }
            }
            Some(before) => {
                let judge = |path: &RepoPath| allowed.as_ref().is_none_or(|globs| globs.is_match(path.as_path()));
                let verdict = match (&failure, self.mode) {
                    (Some(_), CheckpointMode::Auto) => Verdict::RollBack("the command failed"),
                    (Some(_), _) => Verdict::Keep("the command failed; its changes stay: `piton undo` takes them back"),
                    (None, CheckpointMode::Auto) => Verdict::Commit,
                    (None, _) => Verdict::Keep("explicit mode: `piton checkpoint` commits it"),
                };
                let wording =
                    Wording { name: &command.name, given: command.message.as_deref(), directive: None, undoes: None };
                self.settle(step, wording, &before, verdict, &judge)?
            }
        };
        self.end_step(step, &command.name, failure, &outcome, end)
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
            Some(checkpointer) => {
                let before = match self.found.take() {
                    Some(found) => found,
                    None => checkpointer.before()?,
                };
                checkpointer.pin(&ref_of(self.run, step, "before"), &before)?;
                Some(before)
            }
        };
        failpoint("before-pinned");
        self.open_step = Some(step);
        self.record(&Event::StepStarted {
            step,
            name: name.to_owned(),
            kind,
            tool: None,
            before: before.clone(),
            writes: writes.to_vec(),
        })?;
        Ok(before)
    }

    fn spawn(&mut self, step: u32, command: &subprocess::CommandLine) -> Result<Outcome, RunError> {
        let mut interrupts = Interrupts::listen().map_err(RunError::Signals)?;
        let outcome = subprocess::run(command, &mut interrupts, |pid| {
            let started = process::start_time(pid).unwrap_or_default();
            let boot = process::boot_id().unwrap_or_default();
            self.record(&Event::ToolStarted { step, pid, started, boot }).map(|_| ())
        });
        let outcome = outcome?;
        failpoint("tool-ended");
        self.record(&Event::ToolFinished {
            step,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
            timed_out: outcome.timed_out,
        })?;
        Ok(outcome)
    }

    fn end_step(
        &mut self,
        step: u32,
        name: &str,
        failure: Option<ErrorSummary>,
        outcome: &Outcome,
        settlement: Settlement,
    ) -> Result<StepEnd, RunError> {
        let status = match (&failure, &settlement) {
            (_, Settlement { denied, .. }) if !denied.is_empty() => StepStatus::Denied,
            _ if outcome.interrupted => StepStatus::Cancelled,
            (None, Settlement { error: None, .. }) => StepStatus::Succeeded,
            _ => StepStatus::Failed,
        };
        // Why the changes were not kept matters more than that the command failed.
        let error = settlement.error.or(failure);
        self.finish_step(step, name, status, outcome.exit_code, settlement.checkpoint)?;
        Ok(StepEnd { status, error, interrupted: outcome.interrupted })
    }

    /// Writes down how a step ended.
    pub(super) fn finish_step(
        &mut self,
        step: u32,
        name: &str,
        status: StepStatus,
        exit_code: Option<i32>,
        checkpoint: Option<CheckpointSummary>,
    ) -> Result<(), RunError> {
        self.record(&Event::StepFinished { step, status })?;
        self.open_step = None;
        self.steps.push(StepSummary { name: name.to_owned(), status, tool: None, exit_code, checkpoint });
        Ok(())
    }
}

impl CommandStep {
    /// Finds out whether it can be run at all, before anything else happens.
    pub fn check(&self, ctx: &Context) -> Result<(), RunError> {
        globs(&self.writes)?;
        message::check(self.message.as_deref(), &self.name)?;
        subprocess::CommandLine::new(self.argv.clone(), self.folder.clone(), ctx.environment.without_git_variables())?;
        Ok(())
    }

    fn prepare(&self, ctx: &Context, run: RunId) -> Result<subprocess::CommandLine, RunError> {
        let mut environment = ctx.environment.without_git_variables();
        environment.insert(RUN_VARIABLE.into(), run.to_string().into());
        let mut command = subprocess::CommandLine::new(self.argv.clone(), self.folder.clone(), environment)?;
        command.streams = self.streams;
        Ok(command)
    }
}

impl StepEnd {
    /// The status of a run that consists of this step.
    pub fn run_status(&self) -> RunStatus {
        match self.status {
            StepStatus::Succeeded => RunStatus::Succeeded,
            StepStatus::Failed => RunStatus::Failed,
            StepStatus::Denied => RunStatus::Denied,
            StepStatus::Cancelled => RunStatus::Cancelled,
        }
    }
}

pub(super) fn skipped() -> CheckpointSummary {
    summary(CheckpointStatus::Skipped)
}

pub(super) fn summary(status: CheckpointStatus) -> CheckpointSummary {
    CheckpointSummary { status, commit_sha: None, files_changed: 0, insertions: 0, deletions: 0 }
}

fn failure_of(outcome: &Outcome, argv: &[String], run: RunId) -> Option<ErrorSummary> {
    let program = argv.first().map_or("", String::as_str);
    let message = match (outcome.exit_code, outcome.signal) {
        _ if outcome.interrupted => format!("`{program}` was interrupted"),
        _ if outcome.timed_out => format!("`{program}` took too long and was stopped"),
        (Some(0), _) => return None,
        (Some(code), _) => format!("`{program}` exited with status {code}"),
        (None, Some(signal)) => format!("`{program}` was ended by signal {signal}"),
        (None, None) => format!("`{program}` ended in an unknown way"),
    };
    let code = if outcome.interrupted { "INTERRUPTED" } else { "COMMAND_FAILED" };
    let suggestion = Some(format!("see what it did with `piton show {run}`"));
    Some(ErrorSummary { code: code.to_owned(), message, suggestion })
}

fn globs(patterns: &[String]) -> Result<Option<GlobSet>, RunError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let invalid =
            |err: globset::Error| RunError::InvalidGlob { glob: pattern.clone(), reason: err.kind().to_string() };
        let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build().map_err(invalid)?;
        set.add(Glob::clone(&glob));
    }
    let invalid = |err: globset::Error| RunError::InvalidGlob { glob: patterns.join(", "), reason: err.to_string() };
    set.build().map(Some).map_err(invalid)
}
