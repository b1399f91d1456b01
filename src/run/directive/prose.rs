//! Steps in words: done by an agent's program, or by whoever takes the run up again.
//!
//! What changed in the work tree meanwhile becomes the step's checkpoint. Such a step is never rolled back by itself: what
//! it may not change keeps the run waiting, so that whoever did it can say what is meant.

use serde_json::Value;

use super::Run;
use super::course::authority;
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::config::AgentCommand;
use crate::exec::call::Progress as CallProgress;
use crate::exec::interrupt::signal_in_words;
use crate::exec::process;
use crate::exec::subprocess::{Conversation, SubprocessError, converse};
use crate::failpoint::failpoint;
use crate::item::directive::{OnFailure, Step};
use crate::item::wording::shown;
use crate::journal::event::{Event, StepKind, Wait, Written};
use crate::journal::summary::StepStatus;
use crate::policy::WriteRules;
use crate::problem::{Code, Problem};
use crate::run::agent::{self, Task, Workplace};
use crate::run::error::RunError;
use crate::run::settle::{Declared, Rules, Verdict, Violation, Wording};
use crate::run::step::milliseconds;
use crate::run::tool::Listener;
use crate::run::values;

impl Run<'_, '_> {
    /// Has an agent do a step, or waits for somebody to do it.
    pub(super) fn act_prose(
        &mut self,
        name: &str,
        instruction: &str,
        quoted: &[String],
        step: &Step,
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let filled = self.with_scope(None, |scope| {
            let checks = step.verification.iter().map(|check| values::fill_text(check, scope));
            let told = std::iter::once(values::fill_text(instruction, scope)?).filter(|text| !text.trim().is_empty());
            let told = told.chain(quoted.iter().cloned()).collect::<Vec<_>>().join("\n\n");
            Ok((told, checks.collect::<Result<Vec<_>, _>>()?))
        });
        let (instruction, checks) = match filled {
            Ok(filled) => filled,
            Err(err) => {
                let kind = StepKind::Prose { instruction: instruction.to_owned() };
                return self.fail_unbegun(name, kind, &err.into());
            }
        };
        let kind = StepKind::Prose { instruction: instruction.clone() };
        let number = self.session.next_step();
        let before = self.session.start_step(number, name, kind, &[])?;
        self.work_with(number, name, before.as_ref(), instruction, checks, step, listener)
    }

    /// Has the work of a step done again that was cut off, on top of what it has changed already.
    pub(super) fn do_work(
        &mut self,
        number: u32,
        name: &str,
        before: Option<&Snapshot>,
        instruction: String,
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let Some(step) = self.step() else { return Ok(()) };
        let filled = self.with_scope(None, |scope| {
            step.verification.iter().map(|check| values::fill_text(check, scope)).collect::<Result<Vec<_>, _>>()
        });
        let checks = filled.unwrap_or_default();
        self.work_with(number, name, before, instruction, checks, &step, listener)
    }

    #[expect(clippy::too_many_arguments, reason = "they come from a directive, or from the journal")]
    fn work_with(
        &mut self,
        number: u32,
        name: &str,
        before: Option<&Snapshot>,
        instruction: String,
        checks: Vec<String>,
        step: &Step,
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let commands = self.agents.for_model(self.callers().last().and_then(|directive| directive.model.as_ref()));
        if commands.is_empty() {
            let wait = Wait::Work { instruction, checks, outside: Vec::new(), rejected: self.sent_back() };
            self.session.record(&Event::Waiting { step: number, wait })?;
            return Ok(());
        }
        let callers = self.callers();
        let writes = WriteRules::for_directives(&authority(&callers));
        let directive = callers.last().map(|directive| directive.name.to_string()).unwrap_or_default();
        let rejected = self.sent_back();
        let task = agent::instruction(&Task {
            step: name,
            directive: &directive,
            description: &step.description,
            instruction: &instruction,
            verification: &checks,
            rejected: rejected.as_deref(),
            writes: &writes,
        });
        let mut failure: Option<Problem> = None;
        for command in &commands {
            if let Some(error) = failure.take() {
                let message = error.message();
                listener(CallProgress::Preparing(&format!("{message}; trying `{}`", shown(command.text()))));
            }
            match self.ask_agent(number, name, command, &task, listener)? {
                Ok(result) => {
                    return self.settle_work(number, name, before, &[], Ok(result), &instruction, &checks);
                }
                Err(error) => {
                    let is_interrupted = error.code == Code::Interrupted;
                    failure = Some(error);
                    if is_interrupted {
                        break;
                    }
                }
            }
        }
        let error = failure.unwrap_or_else(|| failed(Code::AgentFailed, "there is no agent".to_owned()));
        self.settle_work(number, name, before, &[], Err(error), &instruction, &checks)
    }

    /// Has one command do the work of a step; returns what it gave back, or why it failed.
    fn ask_agent(
        &mut self,
        number: u32,
        name: &str,
        command: &AgentCommand,
        task: &str,
        listener: &mut Listener<'_>,
    ) -> Result<Result<Value, Problem>, RunError> {
        let limit = self.time_left();
        let (session, interrupts) = (&mut self.session, &mut self.interrupts);
        let place = Workplace { run: session.run(), step: name, project: &session.ctx.root };
        let mut line = match agent::command_line(command, &place, &session.ctx.environment) {
            Ok(line) => line,
            Err(err) => {
                return Ok(Err(Problem::of(&err)));
            }
        };
        line.timeout = limit;
        let on_start = |pid| {
            let started = process::start_time(pid).unwrap_or_default();
            let boot = process::boot_id().unwrap_or_default();
            session.record(&Event::ToolStarted { step: number, pid, started, boot, supervised: false }).map(|_| ())
        };
        let mut relay = |stream, bytes: &[u8]| listener(CallProgress::Output(stream, bytes));
        let Conversation { outcome, stdout } = match converse(&line, task.as_bytes(), interrupts, on_start, &mut relay)
        {
            Ok(conversation) => conversation,
            // Nothing of it has run, e.g. there is no such interpreter: the fallback may do better.
            Err(RunError::Subprocess(err @ SubprocessError::NotStarted { .. })) => {
                return Ok(Err(Problem::of(&err)));
            }
            Err(err) => return Err(err),
        };
        failpoint("agent-ended");
        session.record(&Event::ToolFinished {
            step: number,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            duration_ms: milliseconds(outcome.duration),
            timed_out: outcome.timed_out,
            stdout: Some(Written { bytes: stdout.total, sha256: stdout.sha256.clone() }),
            stderr: None,
            leftovers: 0,
            git_changed: Vec::new(),
        })?;
        let program = command.words().first().map(|word| shown(word)).unwrap_or_default();
        Ok(match (outcome.exit_code, outcome.signal) {
            _ if outcome.interrupted => {
                let message = format!("the agent `{program}` was interrupted");
                Err(Problem::new(Code::Interrupted, message))
            }
            _ if outcome.timed_out => {
                let message = format!("the agent `{program}` took too long and was stopped");
                Err(failed(Code::TimedOut, message))
            }
            (Some(0), _) => Ok(agent::result(&stdout)),
            (Some(status), _) => {
                Err(failed(Code::AgentFailed, format!("the agent `{program}` exited with status {status}")))
            }
            (None, Some(signal)) => Err(failed(
                Code::AgentFailed,
                format!("the agent `{program}` was ended by {}", signal_in_words(signal)),
            )),
            (None, None) => Err(failed(Code::AgentFailed, format!("the agent `{program}` ended in an unknown way"))),
        })
    }

    /// Settles what was done for a step in words.
    #[expect(clippy::too_many_arguments, reason = "they come from an agent, or from the journal")]
    pub(super) fn settle_work(
        &mut self,
        number: u32,
        name: &str,
        before: Option<&Snapshot>,
        paths: &[RepoPath],
        done: Result<Value, Problem>,
        instruction: &str,
        checks: &[String],
    ) -> Result<(), RunError> {
        let (result, error) = match done {
            Ok(result) => (result, None),
            Err(error) => (Value::Null, Some(error)),
        };
        let named = paths.to_vec();
        self.session.record(&Event::Answered { step: number, result, error: error.clone(), paths: named })?;
        let Some(before) = before else {
            let settlement = self.session.skip_checkpoint(number)?;
            return self.end_work(number, name, settlement.checkpoint, error.as_ref());
        };
        let callers = self.callers();
        let rules = WriteRules::for_directives(&authority(&callers));
        let prefix = self.session.prefix();
        let inside = |path: &RepoPath| path.as_path().strip_prefix(&prefix).is_ok_and(|path| rules.allows(path));
        let is_named = |path: &RepoPath| paths.is_empty() || paths.iter().any(|own| path == own || path.is_inside(own));
        // Of work that failed only what is allowed counts: no later checkpoint may take the rest along.
        let is_own = |path: &RepoPath| is_named(path) && (error.is_none() || inside(path));
        let by_agent = self.state().and_then(|state| state.open.as_ref()).is_some_and(|open| open.started_process);
        let verdict = match (&error, self.policy_for_changes()) {
            (None, _) => self.fate().success,
            // What people did while the run waited is never put back: it may be anybody's.
            (Some(_), _) if !by_agent => Verdict::Keep("the step failed; what changed meanwhile stays"),
            // Another attempt begins where this one began.
            (Some(error), _) if self.is_tried_again(error) => Verdict::RollBack("the step failed and is tried again"),
            (Some(_), Some(OnFailure::Rollback | OnFailure::RollbackRun)) => {
                Verdict::RollBack("the step failed, and `on_failure` says `rollback`")
            }
            (Some(_), _) => Verdict::Keep("the step failed; its changes stay: `piton undo` takes them back"),
        };
        let given = self.pinned.options.message.clone();
        let wording = Wording { name, given: given.as_deref(), ..Wording::default() };
        let rules = Rules {
            own: Ownership { has: &is_own, index: paths.is_empty(), doubt: None },
            may_change: &inside,
            way_out: &|_| String::new(),
            declared: &|_| Declared::Anything,
            violation: Violation::Tell,
        };
        let settlement = self.session.settle(number, wording, before, verdict, rules)?;
        if !settlement.denied.is_empty() {
            let (instruction, checks, rejected) = (instruction.to_owned(), checks.to_vec(), self.sent_back());
            let wait = Wait::Work { instruction, checks, outside: settlement.denied, rejected };
            self.session.record(&Event::Waiting { step: number, wait })?;
            return Ok(());
        }
        if settlement.asked {
            return Ok(());
        }
        self.end_work(number, name, settlement.checkpoint, settlement.error.or(error).as_ref())
    }

    /// Why a person has sent the step back whose turn it is.
    fn sent_back(&self) -> Option<String> {
        self.state().and_then(|state| state.frames.last()).and_then(|frame| frame.sent_back.clone())
    }

    fn end_work(
        &mut self,
        number: u32,
        name: &str,
        checkpoint: Option<crate::journal::summary::CheckpointSummary>,
        error: Option<&Problem>,
    ) -> Result<(), RunError> {
        let status = match error {
            None => StepStatus::Succeeded,
            Some(error) if error.code == Code::Interrupted => StepStatus::Cancelled,
            Some(_) => StepStatus::Failed,
        };
        self.session.finish_step(number, name, status, None, checkpoint, error)
    }
}

fn failed(code: Code, message: String) -> Problem {
    Problem::new(code, message).with_hint("what it wrote is above; what it changed is in the work tree")
}
