//! Runs a directive step by step: [`Run::advance`] does one step or returns what the run waits for.
//!
//! Terminal, hooks and MCP server drive the same loop. A run can stop for a person, for an agent or
//! because of a crash; in all three cases its state is on disk. [`state`] is that state, a pure
//! fold of the journal. [`scheduler`] decides what comes next, [`execute_step`] does it, and [`answer`] handles
//! the answer to a waiting step.

mod answer;
mod approval;
mod concurrent_runs;
pub mod drive;
mod execute_step;
mod limits;
mod origin;
pub mod pin;
pub mod preview;
mod prose;
mod restart;
mod scheduler;
mod scope;
pub(in crate::run) mod state;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::agent::AgentCommands;
use super::confinement;
use super::error::RunError;
use super::pinned_authority::PinnedAuthority;
use super::secrecy::Secrets;
use super::session::{DirectiveStart, Observer, Reopened, RunRequest, Session};
use super::takeover;
use super::tool::Listener;
use super::unfinished_note::{self, WaitingRun};
use crate::audit::history::StepOutcome;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::exec::interrupt::Interrupts;
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::item::tool::Isolation;
use crate::journal::RunId;
use crate::journal::event::{Approver, Event, Wait};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus, StepSummary};
use crate::problem::{Code, Problem};
use crate::values;
use crate::workspace::RunFolders;
pub(in crate::run) use execute_step::HUMAN_ACTION;
use pin::{Pinned, RunOptions};
pub use restart::{Restarted, StartAt};
use state::RunState;

#[derive(Clone, Debug)]
pub struct DirectiveRequest {
    /// The directive: `id` or `category/id`.
    pub id: String,
    pub inputs: Map<String, Value>,
    /// Inputs as typed on the command line, `name=value`.
    pub words: Vec<String>,
    /// The checkpoint mode; by default that of the directive or the settings.
    pub mode: Option<CheckpointMode>,
    pub options: RunOptions,
    /// The command line, for the journal.
    pub command: Vec<String>,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
    /// The id of the run, if the caller needs to know it in advance.
    pub run: Option<RunId>,
    pub worker: Worker,
}

/// Who does the manual steps of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worker {
    /// The configured agent command; without one, the run waits until it is resumed.
    #[default]
    Program,
    /// The caller that drives the run, even if an agent command is configured.
    Driver,
}

/// Limits that only a model could measure.
const UNMEASURED: [&str; 3] = ["spend", "turns", "tokens"];

/// The input with which a run continues.
#[derive(Clone, Debug, PartialEq)]
pub enum RunInput {
    /// No input.
    Go,
    /// The manual step is done.
    Done {
        /// The result of the step. If absent: the result from before an interruption, or none.
        result: Option<Value>,
        /// The files that belong to the step; if empty, all changed files.
        paths: Vec<RepoPath>,
    },
    /// The manual step could not be done.
    Failed(String),
    /// The person approves.
    Approve {
        /// The commit message, instead of a generated one.
        message: Option<String>,
        /// The person's comment.
        answer: Option<String>,
        /// The tree that was shown to the person, or a prefix of its id; if absent, the files on
        /// disk are approved.
        tree: Option<String>,
    },
    /// The person rejects. With a reason a manual step is repeated; otherwise the step fails.
    Reject(Option<String>),
    /// The person rejects and the step fails.
    End(Option<String>),
    /// Repeat a call whose outcome is unknown.
    Retry,
}

#[derive(Debug)]
pub enum StepProgress {
    /// A step has ended.
    Stepped,
    /// The run needs an answer.
    Waiting(Box<Waiting>),
    /// The run succeeded or failed.
    Done(Box<RunSummary>),
}

/// What a run waits for.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub run: RunId,
    pub step: u32,
    pub name: String,
    /// Who has to act, and how.
    pub wait: Wait,
}

/// A directive that is ready to run.
#[derive(Debug)]
pub struct PreparedRun {
    pub(super) store: ItemStore,
    pub(super) pinned: Pinned,
    pub(super) root: pin::LoadedPin,
    pub(super) mode: CheckpointMode,
    agents: AgentCommands,
}

pub struct Run<'a> {
    session: Session<'a>,
    store: ItemStore,
    pinned: Pinned,
    agents: AgentCommands,
    interrupts: Interrupts,
    /// The current items; `None` if a step may have changed them.
    items: Option<ItemStore>,
    /// How the run was restarted, if it had ended.
    restarted: Option<Restarted>,
    /// The person whose answer is being handled.
    approver: Option<Approver>,
    /// The variables that templates of the directive have named so far.
    revealed: RefCell<Secrets>,
}

/// How to resume a run.
#[derive(Clone, Debug)]
pub struct TakeUp<'t> {
    /// Who does the manual steps.
    pub worker: Worker,
    /// The agent command for manual steps, instead of the earlier one.
    pub agent_command: Option<&'t str>,
    /// Its isolation level, instead of the earlier one.
    pub agent_isolation: Option<Isolation>,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
    /// Where to restart, if the run has ended.
    pub start: StartAt,
    pub input: RunInput,
    /// The directive that limits what can be continued.
    pub within: Option<&'t PinnedAuthority>,
}

impl TakeUp<'_> {
    /// Answers a waiting run, from a terminal.
    pub fn with(input: RunInput) -> Self {
        let (worker, start) = (Worker::Program, StartAt::Failed);
        Self {
            worker,
            agent_command: None,
            agent_isolation: None,
            lock_timeout: Duration::ZERO,
            start,
            input,
            within: None,
        }
    }
}

impl PreparedRun {
    /// Finds a directive and everything that it references, and checks the inputs.
    pub fn new(ctx: &Context, request: &DirectiveRequest) -> Result<Self, RunError> {
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        let agents = match request.worker {
            Worker::Program => {
                let options = &request.options;
                let command = options.agent_command.as_deref();
                AgentCommands::with(&ctx.config, command, options.agent_isolation)?
            }
            Worker::Driver => AgentCommands::default(),
        };
        confinement::require_for_agents(ctx, &agents)?;
        let mut pinned = Pinned::of(ctx, &store, &request.id)?;
        let root = pinned.find(ctx, &store, &request.id)?;
        pinned.inputs = values::inputs(&root.directive, request.inputs.clone(), &request.words)
            .map_err(|problems| RunError::Inputs {
                directive: root.label.clone(),
                problems,
            })?;
        pinned.options = request.options.clone();
        let mode = request.mode.or(root.directive.git_checkpoint.mode);
        let mode = mode
            .or_else(|| ctx.config.checkpoint_mode())
            .unwrap_or(CheckpointMode::Explicit);
        Ok(Self {
            store,
            pinned,
            root,
            mode,
            agents,
        })
    }

    pub fn mode(&self) -> CheckpointMode {
        self.mode
    }

    /// The project files that define its directives and tools.
    pub fn files(&self) -> Vec<PathBuf> {
        self.pinned.files(&self.store)
    }

    /// Notes about limits of the directives that piton cannot enforce.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (_, directive) in self.pinned.directives() {
            let limits = directive.limits.iter().map(|limit| limit.name.as_str());
            let unmeasured: Vec<String> = limits
                .filter(|name| UNMEASURED.contains(name))
                .map(|name| format!("`{name}`"))
                .collect();
            if !unmeasured.is_empty() {
                let (name, limits) = (&directive.name, unmeasured.join(", "));
                notes.push(format!(
                    "directive `{name}` limits {limits}, which piton does not measure"
                ));
            }
        }
        notes
    }

    /// A note about unsigned items.
    pub fn unsigned_note(&self) -> Option<String> {
        crate::trust::author::unsigned_note(self.pinned.unsigned(&self.store))
    }

    /// The directive, as `id@version`.
    pub fn label(&self) -> &str {
        &self.root.label
    }
}

impl<'a> Run<'a> {
    pub fn start(
        ctx: &'a Context,
        request: &DirectiveRequest,
        prepared: PreparedRun,
        observer: &'a mut Observer<'_>,
    ) -> Result<Self, RunError> {
        let PreparedRun {
            store,
            pinned,
            root,
            mode,
            agents,
        } = prepared;
        let interrupts = Interrupts::listen_for(&ctx.stop).map_err(RunError::Signals)?;
        let begin = RunRequest {
            name: root.directive.name.to_string(),
            command: request.command.clone(),
            mode,
            lock_timeout: request.lock_timeout,
            directive: Some(DirectiveStart {
                label: root.label.clone(),
                pinned: pinned.clone(),
                run: request.run,
            }),
        };
        let mut session = Session::begin(ctx, &begin, observer)?;
        session.recorder.record(&Event::DirectiveStarted {
            name: String::new(),
            directive: root.label,
            content: root.content,
            inputs: pinned.inputs.clone(),
            hook: None,
        })?;
        Ok(Self::new(session, store, pinned, agents, interrupts))
    }

    fn new(
        session: Session<'a>,
        store: ItemStore,
        pinned: Pinned,
        agents: AgentCommands,
        interrupts: Interrupts,
    ) -> Self {
        Self {
            session,
            store,
            pinned,
            agents,
            interrupts,
            items: None,
            restarted: None,
            approver: None,
            revealed: RefCell::default(),
        }
    }

    /// Resumes a run that waits, was interrupted, or ended without success; returns it with the
    /// input to continue with.
    pub fn resume(
        ctx: &'a Context,
        run: RunId,
        take_up: TakeUp<'_>,
        observer: &'a mut Observer<'_>,
    ) -> Result<(Self, RunInput), RunError> {
        let TakeUp {
            worker,
            agent_command,
            agent_isolation,
            lock_timeout,
            start,
            input,
            within,
        } = take_up;
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        let interrupts = Interrupts::listen_for(&ctx.stop).map_err(RunError::Signals)?;
        // Reject an invalid command line before anything is written.
        AgentCommands::with(&ctx.config, agent_command, agent_isolation)?;
        let Reopened {
            session,
            pinned,
            ended,
        } = Session::reopen(ctx, &store, run, lock_timeout, (&start, within), observer)?;
        let level = agent_isolation.or(pinned.options.agent_isolation);
        let kept = pinned
            .options
            .agent_command
            .as_deref()
            .filter(|_| agent_command.is_none());
        let kept = kept.and_then(|text| AgentCommands::with(&ctx.config, Some(text), level).ok());
        let agents = match (worker, kept) {
            (Worker::Program, Some(kept)) => kept,
            (Worker::Program, None) => AgentCommands::with(&ctx.config, agent_command, level)?,
            (Worker::Driver, _) => AgentCommands::default(),
        };
        let mut run = Self::new(session, store, pinned, agents, interrupts);
        let mut input = input;
        if let Some(ended) = ended {
            input = match run.begin_again(&ended, &start, input) {
                Ok(input) => input,
                Err(err) => {
                    run.session.release()?;
                    return Err(err);
                }
            };
        }
        let session = &mut run.session;
        let ready = match &session.checkpointer {
            Some(git) => takeover::take_over_refs(&mut session.recorder, git.repository()),
            None => Ok(()),
        };
        let ready = ready.and_then(|()| run.enter_root());
        if let Err(err) = ready.and_then(|()| run.forget_settled()) {
            run.pause_with(Some(Problem::of(&err)))?;
            return Err(err);
        }
        Ok((run, input))
    }

    /// Enters the outermost directive, if the run was interrupted before that.
    fn enter_root(&mut self) -> Result<(), RunError> {
        if self.state().is_none_or(|state| !state.frames.is_empty()) {
            return Ok(());
        }
        let label = self.session.recorder.directive.clone().unwrap_or_default();
        let root = self
            .pinned
            .root(&label)
            .ok_or(RunError::ItemChanged(label))?;
        self.session.recorder.record(&Event::DirectiveStarted {
            name: String::new(),
            directive: root.label,
            content: root.content,
            inputs: self.pinned.inputs.clone(),
            hook: None,
        })?;
        Ok(())
    }

    pub fn id(&self) -> RunId {
        self.session.run()
    }

    /// The names of the steps of its directive, in order.
    pub fn step_names(&self) -> Vec<String> {
        let root = self.state().and_then(|state| state.frames.first());
        root.map(|frame| {
            frame
                .directive
                .steps
                .iter()
                .map(|step| step.name.clone())
                .collect()
        })
        .unwrap_or_default()
    }

    /// Whether there is no repository, so that nothing can be undone.
    pub fn lacks_git(&self) -> bool {
        self.session.lacks_git()
    }

    pub fn waiting(&self) -> Option<Waiting> {
        let open = self.state()?.open.as_ref()?;
        let wait = open.wait.clone()?;
        Some(Waiting {
            run: self.id(),
            step: open.id.step,
            name: open.name.clone(),
            wait,
        })
    }

    /// Does the next step, or returns what the run waits for.
    pub fn advance(
        &mut self,
        input: RunInput,
        listener: &mut Listener<'_>,
    ) -> Result<StepProgress, RunError> {
        match (self.waiting(), input) {
            (Some(waiting), RunInput::Go) => Ok(StepProgress::Waiting(Box::new(waiting))),
            (Some(waiting), input) => self.take_answer(&waiting, input, listener),
            (None, RunInput::Go | RunInput::Done { result: None, .. } | RunInput::Retry) => {
                self.go_on(listener)
            }
            (None, _) => Err(RunError::NothingAsked(self.id())),
        }
    }

    /// Leaves a waiting run for a later `resume`.
    pub fn pause(mut self) -> Result<RunSummary, RunError> {
        self.pause_with(None)
    }

    fn pause_with(&mut self, error: Option<Problem>) -> Result<RunSummary, RunError> {
        if let Some(waiting) = self.waiting() {
            self.session
                .recorder
                .steps
                .push(StepSummary::without_changes(
                    waiting.name,
                    StepStatus::Waiting,
                ));
        }
        self.session.close(RunStatus::Waiting, error)
    }

    /// Leaves a run that cannot continue now for a later `resume`. Returns `None` if a step is
    /// open, which the next start recovers. An interrupted run ends instead.
    pub fn suspend(mut self, err: &RunError) -> Result<Option<RunSummary>, RunError> {
        if err.is_interrupted() {
            return self.session.abandon(err);
        }
        if self.waiting().is_none() && self.session.recorder.open_step.is_some() {
            return Ok(None);
        }
        self.pause_with(Some(Problem::of(err))).map(Some)
    }

    fn state(&self) -> Option<&RunState> {
        self.session.recorder.state.as_deref()
    }

    fn listen(&self) -> Option<i32> {
        self.interrupts.received()
    }
}

/// Ends a waiting run for good. Files that were edited during a manual step stay as they are and
/// belong to the user.
pub fn cancel(
    ctx: &Context,
    run: RunId,
    observer: &mut Observer<'_>,
) -> Result<RunSummary, RunError> {
    let (mut session, open) = Session::reopen_to_end(ctx, run, observer)?;
    session.recorder.record(&Event::RunResumed {
        with: "cancel".to_owned(),
        restart: None,
    })?;
    let error = Problem::new(Code::Cancelled, "the run was cancelled");
    if let Some(open) = open {
        let step = open.id.step;
        if open.before.is_some() && open.outcome == StepOutcome::Open {
            // The changes of a tool are recorded; edits by people during the wait do not belong to
            // the step.
            session.recorder.record(&match open.wait {
                Some(Wait::Changes) => Event::CheckpointSkipped {
                    step,
                    reason: "the run was cancelled; its changes stay".to_owned(),
                },
                _ => Event::NoChanges {
                    step,
                    not_captured: Vec::new(),
                    too_large: Vec::new(),
                },
            })?;
        }
        session.recorder.finish_step(
            step,
            &open.name,
            StepStatus::Cancelled,
            None,
            None,
            Some(&error),
        )?;
    }
    session.close(RunStatus::Cancelled, Some(error))
}

/// The unfinished run of a directive in this worktree.
pub fn unfinished(ctx: &Context) -> Result<Option<WaitingRun>, RunError> {
    unfinished_note::find(&RunFolders::of_project(ctx))
}
