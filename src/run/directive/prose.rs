//! Manual steps: done by an agent command, or by the person or agent that resumes the run.
//!
//! Changes in the work tree during the step become its checkpoint. Piton does not roll back such a
//! step by itself: forbidden changes keep the run waiting, so that the person or agent can decide.

use serde_json::Value;

use super::Run;
use super::scope::authority;
use crate::audit::history::StepRecord;
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::watch::GitWatch;
use crate::config::AgentCommand;
use crate::exec::call::CallProgress;
use crate::exec::interrupt::{Interrupts, signal_name};
use crate::exec::subprocess::{CommandOutcome, Conversation, SubprocessError, converse};
use crate::exec::supervisor::{Stream, Supervisor, Work};
use crate::failpoint::failpoint;
use crate::item::directive::{OnFailure, Step};
use crate::item::wording::shown;
use crate::journal::event::{Event, StepKind, StreamDigest, Wait};
use crate::journal::summary::StepStatus;
use crate::policy::WriteRules;
use crate::problem::{Code, Problem};
use crate::run::agent::{self, Task, Workplace};
use crate::run::confinement;
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::settle::{self, ChangesVerdict, Rules, Violation, Wording};
use crate::run::step::milliseconds;
use crate::run::tool::Listener;
use crate::values::{self, ValueError, ValueScope};

/// A manual step that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct ManualStep<'w> {
    pub(super) number: u32,
    pub(super) name: &'w str,
    /// The state before it; `None` without checkpoints.
    pub(super) before: Option<&'w Snapshot>,
    pub(super) instruction: &'w str,
    /// What has to be true at its end.
    pub(super) checks: &'w [String],
}

impl<'w> ManualStep<'w> {
    /// An open step, without instructions.
    pub(super) fn of(open: &'w StepRecord) -> Self {
        Self {
            number: open.id.step,
            name: &open.name,
            before: open.before.as_ref(),
            instruction: "",
            checks: &[],
        }
    }

    /// What the run waits for while a person or agent does the step.
    fn wait(&self, outside: Vec<RepoPath>, rejected: Option<String>) -> Wait {
        Wait::Work {
            instruction: self.instruction.to_owned(),
            checks: self.checks.to_vec(),
            outside,
            rejected,
        }
    }
}

/// The longest value of an input that an instruction repeats, in characters.
const LONGEST_VALUE: usize = 4000;

/// Fills in a text of a manual step, also where it names inputs as other programs do.
fn fill_manual(text: &str, scope: &ValueScope<'_>) -> Result<String, ValueError> {
    let is_given = |name: &str| scope.inputs.get(name).is_some_and(|value| !value.is_null());
    values::fill_text(&values::as_placeholders(text, is_given), scope)
}

fn filled_checks(step: &Step, scope: &ValueScope<'_>) -> Result<Vec<String>, ValueError> {
    let checks = step.verification.iter();
    checks.map(|check| fill_manual(check, scope)).collect()
}

/// The inputs that the text of a step does not name, with their values: its author may have expected that the
/// agent knows them.
fn unnamed_inputs(text: &str, quoted: &[String], scope: &ValueScope<'_>) -> Option<String> {
    let is_named = |name: &str| {
        let forms = [
            format!("{{input:{name}"),
            format!("{{{name}}}"),
            format!("inputs.{name}}}"),
        ];
        let mut texts = std::iter::once(text).chain(quoted.iter().map(String::as_str));
        texts.any(|text| forms.iter().any(|form| text.contains(form)))
    };
    let lines: Vec<String> = scope
        .inputs
        .iter()
        .filter(|(name, value)| !value.is_null() && !is_named(name))
        .map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let mut shown: String = text.chars().take(LONGEST_VALUE).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            format!("- {name}: {}", shown.replace('\n', "\n  "))
        })
        .collect();
    (!lines.is_empty()).then(|| format!("Inputs:\n{}", lines.join("\n")))
}

impl Run<'_> {
    /// Starts an agent command for a manual step, or waits.
    pub(super) fn act_prose(
        &mut self,
        name: &str,
        instruction: &str,
        quoted: &[String],
        step: &Step,
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let filled = self.with_scope(None, |scope| {
            let checks = filled_checks(step, scope)?;
            let told = std::iter::once(fill_manual(instruction, scope)?)
                .filter(|text| !text.trim().is_empty());
            let told = told
                .chain(quoted.iter().cloned())
                .chain(unnamed_inputs(instruction, quoted, scope))
                .collect::<Vec<_>>()
                .join("\n\n");
            Ok((told, checks))
        });
        let (instruction, checks) = match filled {
            Ok((instruction, checks)) => (
                self.redacted(&instruction),
                checks
                    .iter()
                    .map(|check| self.redacted(check))
                    .collect::<Vec<_>>(),
            ),
            Err(err) => {
                let kind = StepKind::Prose {
                    instruction: instruction.to_owned(),
                };
                return self.fail_unbegun(name, kind, &err.into());
            }
        };
        let kind = StepKind::Prose {
            instruction: instruction.clone(),
        };
        let number = self.session.recorder.next_step();
        let before = self.session.start_step(number, name, kind, &[])?;
        let work = ManualStep {
            number,
            name,
            before: before.as_ref(),
            instruction: &instruction,
            checks: &checks,
        };
        self.work_with(&work, step, listener)
    }

    /// Starts the agent command of an interrupted step again, on top of its changes so far.
    pub(super) fn do_work(
        &mut self,
        work: &ManualStep<'_>,
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let Some(step) = self.step() else {
            return Ok(());
        };
        let filled = self.with_scope(None, |scope| filled_checks(&step, scope));
        let checks = filled.unwrap_or_default();
        let checks: Vec<String> = checks.iter().map(|check| self.redacted(check)).collect();
        let work = ManualStep {
            checks: &checks,
            ..*work
        };
        self.work_with(&work, &step, listener)
    }

    fn work_with(
        &mut self,
        work: &ManualStep<'_>,
        step: &Step,
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let commands = self.agents.for_model(
            self.callers()
                .last()
                .and_then(|directive| directive.model.as_ref()),
        );
        if commands.is_empty() {
            let wait = work.wait(Vec::new(), self.sent_back());
            let step = work.number;
            self.session
                .recorder
                .record(&Event::Waiting { step, wait })?;
            return Ok(());
        }
        let callers = self.callers();
        let writes = WriteRules::for_directives(&authority(&callers));
        let directive = callers
            .last()
            .map(|directive| directive.name.to_string())
            .unwrap_or_default();
        let rejected = self.sent_back();
        let task = agent::instruction(&Task {
            step: work.name,
            directive: &directive,
            description: &step.description,
            instruction: work.instruction,
            verification: work.checks,
            rejected: rejected.as_deref(),
            writes: &writes,
        });
        let mut failure: Option<Problem> = None;
        for command in &commands {
            if let Some(error) = failure.take() {
                let message = error.message();
                listener(CallProgress::Preparing(&format!(
                    "{message}; trying `{}`",
                    shown(command.text())
                )));
            }
            match self.ask_agent(work.number, work.name, command, &task, listener)? {
                Ok(result) => {
                    return self.settle_work(work, &[], Ok(result));
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
        let error =
            failure.unwrap_or_else(|| failed(Code::AgentFailed, "there is no agent".to_owned()));
        self.settle_work(work, &[], Err(error))
    }

    /// Runs one agent command for a step; returns its result, or why it failed.
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
        let place = Workplace {
            run: session.run(),
            step: name,
            project: &session.recorder.ctx.root,
        };
        let mut line = match agent::command_line(command, &place, &session.recorder.ctx.environment)
        {
            Ok(line) => line,
            Err(err) => {
                return Ok(Err(Problem::of(&err)));
            }
        };
        line.timeout = limit;
        let level = self.agents.isolation();
        let confinement = confinement::of_command(session.recorder.ctx, level);
        let program = line.program().to_path_buf();
        if let Err(err) = confinement::require_visible(confinement.as_ref(), program) {
            return Ok(Err(Problem::of(&err)));
        }
        let mut relay = |stream, bytes: &[u8]| listener(CallProgress::Output(stream, bytes));
        let git = session.checkpointer.as_ref().map(Checkpointer::repository);
        let watched = git.map(|git| (git, GitWatch::of(git)));
        let recorder = &mut session.recorder;
        let asked = match confinement {
            None => {
                let on_start = |pid| recorder.start_process(number, pid, false);
                converse(&line, task.as_bytes(), interrupts, on_start, &mut relay)
            }
            Some(confinement) => {
                let work = Work {
                    confinement: Some(confinement),
                    input: task.into(),
                    kept: Work::default().kept,
                    ..line.work()
                };
                converse_confined(recorder, number, &work, interrupts, &mut relay)
            }
        };
        let Conversation { outcome, stdout } = match asked {
            Ok(conversation) => conversation,
            // Nothing has run, e.g. the interpreter does not exist: the fallback may work.
            Err(RunError::Subprocess(err @ SubprocessError::NotStarted { .. })) => {
                return Ok(Err(Problem::of(&err)));
            }
            Err(err) => return Err(err),
        };
        failpoint("agent-ended");
        let git_changed = watched.map(|(git, before)| GitWatch::of(git).changed_since(&before));
        session.recorder.record(&Event::ToolFinished {
            step: number,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            duration_ms: milliseconds(outcome.duration),
            timed_out: outcome.timed_out,
            stdout: Some(StreamDigest {
                bytes: stdout.total,
                sha256: stdout.sha256.clone(),
            }),
            stderr: None,
            leftovers: 0,
            git_changed: git_changed.unwrap_or_default(),
        })?;
        Ok(match agent_failure(command, &outcome) {
            Some(failure) => Err(failure),
            None => Ok(agent::result(&stdout)),
        })
    }

    /// Settles the changes of a manual step.
    pub(super) fn settle_work(
        &mut self,
        work: &ManualStep<'_>,
        paths: &[RepoPath],
        done: Result<Value, Problem>,
    ) -> Result<(), RunError> {
        let (number, name) = (work.number, work.name);
        let (result, error) = match done {
            Ok(result) => (result, None),
            Err(error) => (Value::Null, Some(error)),
        };
        let named = paths.to_vec();
        self.session.recorder.record(&Event::Answered {
            step: number,
            result,
            error: error.clone(),
            paths: named,
            approver: self.approver.clone(),
        })?;
        let Some(before) = work.before else {
            let settlement = self.session.recorder.skip_checkpoint(number)?;
            return self.end_work(number, name, settlement.checkpoint, error.as_ref());
        };
        let callers = self.callers();
        let rules = WriteRules::for_directives(&authority(&callers));
        let prefix = self.session.prefix();
        let inside = |path: &RepoPath| {
            path.as_path()
                .strip_prefix(&prefix)
                .is_ok_and(|path| rules.allows(path))
        };
        let is_named = |path: &RepoPath| {
            paths.is_empty() || paths.iter().any(|own| path == own || path.is_inside(own))
        };
        // If the step failed, only allowed changes count: no later checkpoint may include the rest.
        let is_own = |path: &RepoPath| is_named(path) && (error.is_none() || inside(path));
        let by_agent = self
            .state()
            .and_then(|state| state.open.as_ref())
            .is_some_and(|open| open.started_process);
        let verdict = match &error {
            None => self.fate().success,
            Some(error) => self.verdict_of_failure(error, by_agent),
        };
        let given = self.pinned.options.message.clone();
        let wording = Wording {
            name,
            given: given.as_deref(),
            ..Wording::default()
        };
        let rules = Rules {
            own: Ownership {
                has: &is_own,
                index: paths.is_empty(),
                definition: paths.is_empty(),
                ..Ownership::EVERYTHING
            },
            may_change: &inside,
            violation: Violation::Tell,
            ..Rules::NONE
        };
        let session = &mut self.session;
        let settlement = settle::settle_step(session, number, wording, before, verdict, rules)?;
        if !settlement.denied.is_empty() {
            let wait = work.wait(settlement.denied, self.sent_back());
            self.session
                .recorder
                .record(&Event::Waiting { step: number, wait })?;
            return Ok(());
        }
        if settlement.asked {
            return Ok(());
        }
        self.end_work(
            number,
            name,
            settlement.checkpoint,
            settlement.error.or(error).as_ref(),
        )
    }

    /// What happens to the changes of a manual step that failed.
    fn verdict_of_failure(&self, error: &Problem, by_agent: bool) -> ChangesVerdict {
        match self.policy_for_changes() {
            // Changes by people while the run waited are never rolled back: they may be unrelated
            // to the step.
            _ if !by_agent => ChangesVerdict::Keep("the step failed; changes made meanwhile stay"),
            // The next attempt starts from the same files.
            _ if self.is_tried_again(error) => {
                ChangesVerdict::RollBack("the step failed and will be tried again")
            }
            Some(OnFailure::Rollback | OnFailure::RollbackRun) => {
                ChangesVerdict::RollBack("the step failed, and `on_failure` says `rollback`")
            }
            _ => {
                ChangesVerdict::Keep("the step failed; its changes stay; `piton undo` reverts them")
            }
        }
    }

    /// Why a person rejected the current step.
    fn sent_back(&self) -> Option<String> {
        self.state()
            .and_then(|state| state.frames.last())
            .and_then(|frame| frame.sent_back.clone())
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
        self.session
            .recorder
            .finish_step(number, name, status, None, checkpoint, error)
    }
}

/// Why an agent failed; `None` if it succeeded.
fn agent_failure(command: &AgentCommand, outcome: &CommandOutcome) -> Option<Problem> {
    let program = command.argv().first().map(|word| shown(word));
    let program = program.unwrap_or_default();
    let (code, how) = match (outcome.exit_code, outcome.signal) {
        _ if outcome.interrupted => {
            let message = format!("the agent `{program}` was interrupted");
            return Some(Problem::new(Code::Interrupted, message));
        }
        _ if outcome.timed_out => (Code::TimedOut, "took too long and was stopped".to_owned()),
        (Some(0), _) => return None,
        (Some(status), _) => (Code::AgentFailed, format!("exited with status {status}")),
        (None, Some(signal)) => (
            Code::AgentFailed,
            format!("was ended by {}", signal_name(signal)),
        ),
        (None, None) => (Code::AgentFailed, "ended in an unknown way".to_owned()),
    };
    Some(failed(code, format!("the agent `{program}` {how}")))
}

fn failed(code: Code, message: String) -> Problem {
    Problem::new(code, message).with_hint("its output is above; its changes are in the work tree")
}

/// Runs a confined agent command: a supervisor makes its view of files.
fn converse_confined(
    recorder: &mut Recorder<'_>,
    step: u32,
    work: &Work,
    interrupts: &mut Interrupts,
    relay: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Conversation, RunError> {
    let supervisor = Supervisor::start(&recorder.ctx.program)?;
    recorder.start_process(step, supervisor.pid(), true)?;
    let ended = supervisor.run(work, interrupts, relay)?;
    Ok(Conversation {
        outcome: ended.outcome(),
        stdout: ended.stdout,
    })
}
