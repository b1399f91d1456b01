//! Running a directive, step by step: [`Run::advance`] does one step, or says what it waits for.
//!
//! Terminal, hooks and MCP server drive the same loop. A run can stop for a person, for an agent or for a
//! crash; all three are state on disk plus "what next?". [`state`] is that state, a pure fold of the journal;
//! [`course`] decides what comes next, [`act`] does it, [`answer`] takes what a waiting step is given.

mod act;
mod answer;
mod approval;
mod company;
mod course;
pub mod drive;
mod origin;
pub mod pin;
pub mod preview;
mod prose;
mod restart;
pub(in crate::run) mod state;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::agent::AgentCommands;
use super::error::RunError;
use super::marker::{self, WaitingRun};
use super::session::{DirectiveStart, Observer, Reopened, RunRequest, Session};
use super::tool::Listener;
use super::values;
use crate::audit::history::Outcome;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::exec::interrupt::Interrupts;
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::journal::RunId;
use crate::journal::event::{Event, Wait};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus, StepSummary};
use crate::problem::{Code, Problem};
pub(in crate::run) use act::HUMAN_ACTION;
use pin::{Pinned, RunOptions};
pub use restart::{Restarted, StartAt};
use state::RunState;

/// A directive to run.
#[derive(Clone, Debug)]
pub struct DirectiveRequest {
    /// The directive: `id` or `category/id`.
    pub id: String,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// Inputs as they were typed, `name=value`.
    pub words: Vec<String>,
    /// When changes are checkpointed; what the directive and the settings say, by default.
    pub mode: Option<CheckpointMode>,
    /// How it is run.
    pub options: RunOptions,
    /// How it was started, for the journal.
    pub command: Vec<String>,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
    /// The name of the run, where that has to be known before.
    pub run: Option<RunId>,
    /// Who does steps in words.
    pub worker: Worker,
}

/// Who does the steps of a run that are in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worker {
    /// A program, where one is named; otherwise whoever takes the run up again.
    #[default]
    Program,
    /// Whoever drives the run, also where a program is named.
    Driver,
}

/// Limits that only a model could keep count of.
const UNMEASURED: [&str; 3] = ["spend", "turns", "tokens"];

/// What a run goes on with.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Nothing is needed.
    Go,
    /// The work that it waits for is done.
    Done {
        /// What the step returns; what was said before it was cut off, or nothing, where nothing is said.
        result: Option<Value>,
        /// The files that belong to it; all that have changed, when none are named.
        paths: Vec<RepoPath>,
    },
    /// The work that it waits for could not be done.
    Failed(String),
    /// Yes.
    Approve {
        /// The message of the commit, instead of a generated one.
        message: Option<String>,
        /// What the person has to say.
        answer: Option<String>,
        /// The tree that was shown to them, or the beginning of its name; what is on disk, where none was shown.
        tree: Option<String>,
    },
    /// No. With a reason a manual step is done again; otherwise the step fails.
    Reject(Option<String>),
    /// No, and the step fails.
    End(Option<String>),
    /// A call whose end nobody knows is made again.
    Retry,
}

/// How far a run is.
#[derive(Debug)]
pub enum Progress {
    /// A step has ended.
    Stepped,
    /// Somebody is needed.
    Waiting(Box<Waiting>),
    /// Everything has been done, or the run failed.
    Done(Box<RunSummary>),
}

/// What a run waits for.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The run.
    pub run: RunId,
    /// The number of the step.
    pub step: u32,
    /// Its name.
    pub name: String,
    /// Whom, and for what.
    pub wait: Wait,
}

/// A directive that is ready to be run.
#[derive(Debug)]
pub struct Prepared {
    pub(super) store: ItemStore,
    pub(super) pinned: Pinned,
    pub(super) root: pin::Found,
    pub(super) mode: CheckpointMode,
    agents: AgentCommands,
}

/// A run of a directive.
pub struct Run<'a, 'o> {
    session: Session<'a, 'o>,
    store: ItemStore,
    pinned: Pinned,
    agents: AgentCommands,
    interrupts: Interrupts,
    /// The items as they are now; none where a step may have changed them since.
    items: Option<ItemStore>,
    /// How it has begun again, if it had ended.
    restarted: Option<Restarted>,
}

/// How a run is taken up.
#[derive(Clone, Debug)]
pub struct TakeUp<'t> {
    /// Who does its manual steps.
    pub worker: Worker,
    /// The program that does its manual steps, instead of the one of before.
    pub agent_command: Option<&'t str>,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
    /// Where it begins, if it has ended.
    pub start: StartAt,
    /// What it goes on with.
    pub input: Input,
}

impl TakeUp<'_> {
    /// Gives a run that waits an answer, from a terminal.
    pub fn with(input: Input) -> Self {
        let (worker, start) = (Worker::Program, StartAt::Failed);
        Self { worker, agent_command: None, lock_timeout: Duration::ZERO, start, input }
    }
}

impl Prepared {
    /// Finds a directive, everything it names, and checks what it is given.
    pub fn new(ctx: &Context, request: &DirectiveRequest) -> Result<Self, RunError> {
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        let agents = match request.worker {
            Worker::Program => AgentCommands::with(&ctx.config, request.options.agent_command.as_deref())?,
            Worker::Driver => AgentCommands::default(),
        };
        let mut pinned = Pinned::of(ctx, &store, &request.id)?;
        let root = pinned.find(ctx, &store, &request.id)?;
        pinned.inputs = values::inputs(&root.directive, request.inputs.clone(), &request.words)
            .map_err(|problems| RunError::Inputs { directive: root.label.clone(), problems })?;
        pinned.options = request.options.clone();
        let mode = request.mode.or(root.directive.git_checkpoint.mode);
        let mode = mode.or_else(|| ctx.config.checkpoint_mode()).unwrap_or(CheckpointMode::Explicit);
        Ok(Self { store, pinned, root, mode, agents })
    }

    /// When changes are checkpointed.
    pub fn mode(&self) -> CheckpointMode {
        self.mode
    }

    /// The files of the project that its directives and tools are read from.
    pub fn files(&self) -> Vec<PathBuf> {
        self.pinned.files(&self.store)
    }

    /// Limits of its directives that nobody keeps an eye on, in words.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (_, directive) in self.pinned.directives() {
            let limits = directive.limits.iter().map(|limit| limit.name.as_str());
            let unmeasured: Vec<String> =
                limits.filter(|name| UNMEASURED.contains(name)).map(|name| format!("`{name}`")).collect();
            if !unmeasured.is_empty() {
                let (name, limits) = (&directive.name, unmeasured.join(", "));
                notes.push(format!("directive `{name}` limits {limits}, which piton does not measure"));
            }
        }
        notes
    }

    /// What of it is not signed, in words.
    pub fn unsigned_note(&self) -> Option<String> {
        super::author::unsigned_note(self.pinned.unsigned(&self.store))
    }

    /// The directive, as `id@version`.
    pub fn label(&self) -> &str {
        &self.root.label
    }
}

impl<'a, 'o> Run<'a, 'o> {
    /// Begins a run.
    pub fn start(
        ctx: &'a Context,
        request: &DirectiveRequest,
        prepared: Prepared,
        observer: &'a mut Observer<'o>,
    ) -> Result<Self, RunError> {
        let Prepared { store, pinned, root, mode, agents } = prepared;
        let interrupts = Interrupts::listen_for(&ctx.stop).map_err(RunError::Signals)?;
        let begin = RunRequest {
            name: root.directive.name.to_string(),
            command: request.command.clone(),
            mode,
            lock_timeout: request.lock_timeout,
            directive: Some(DirectiveStart { label: root.label.clone(), pinned: pinned.clone(), run: request.run }),
        };
        let mut session = Session::begin(ctx, &begin, observer)?;
        session.record(&Event::DirectiveStarted {
            name: String::new(),
            directive: root.label,
            content: root.content,
            inputs: pinned.inputs.clone(),
            hook: None,
        })?;
        Ok(Self { session, store, pinned, agents, interrupts, items: None, restarted: None })
    }

    /// Takes up a run that waits, was cut off, or has ended without success; returns it with what to go on with.
    pub fn resume(
        ctx: &'a Context,
        run: RunId,
        take_up: TakeUp<'_>,
        observer: &'a mut Observer<'o>,
    ) -> Result<(Self, Input), RunError> {
        let TakeUp { worker, agent_command, lock_timeout, start, input } = take_up;
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        let interrupts = Interrupts::listen_for(&ctx.stop).map_err(RunError::Signals)?;
        // A command line that is not valid is refused before anything is written.
        let configured = AgentCommands::with(&ctx.config, agent_command)?;
        let Reopened { session, pinned, ended } = Session::reopen(ctx, &store, run, lock_timeout, &start, observer)?;
        let kept = pinned.options.agent_command.as_deref().filter(|_| agent_command.is_none());
        let kept = kept.and_then(|text| AgentCommands::with(&ctx.config, Some(text)).ok());
        let agents = match worker {
            Worker::Program => kept.unwrap_or(configured),
            Worker::Driver => AgentCommands::default(),
        };
        let mut run = Self { session, store, pinned, agents, interrupts, items: None, restarted: None };
        let mut input = input;
        if let Some(ended) = ended {
            input = match run.begin_again(&ended, &start, input) {
                Ok(input) => input,
                Err(err) => {
                    run.session.let_go()?;
                    return Err(err);
                }
            };
        }
        let ready = run.session.take_over_own_refs().and_then(|()| run.enter_root());
        if let Err(err) = ready.and_then(|()| run.forget_settled()) {
            run.pause_with(Some(Problem::of(&err)))?;
            return Err(err);
        }
        Ok((run, input))
    }

    /// Begins with the outermost directive, where the run was cut off before it had.
    fn enter_root(&mut self) -> Result<(), RunError> {
        if self.state().is_none_or(|state| !state.frames.is_empty()) {
            return Ok(());
        }
        let label = self.session.directive.clone().unwrap_or_default();
        let root = self.pinned.root(&label).ok_or(RunError::ItemChanged(label))?;
        self.session.record(&Event::DirectiveStarted {
            name: String::new(),
            directive: root.label,
            content: root.content,
            inputs: self.pinned.inputs.clone(),
            hook: None,
        })?;
        Ok(())
    }

    /// The name of the run.
    pub fn id(&self) -> RunId {
        self.session.run()
    }

    /// The names of the steps of its directive, in their order.
    pub fn step_names(&self) -> Vec<String> {
        let root = self.state().and_then(|state| state.frames.first());
        root.map(|frame| frame.directive.steps.iter().map(|step| step.name.clone()).collect()).unwrap_or_default()
    }

    /// Whether there is no repository, so that nothing of the run can be undone.
    pub fn lacks_git(&self) -> bool {
        self.session.lacks_git()
    }

    /// What it waits for.
    pub fn waiting(&self) -> Option<Waiting> {
        let open = self.state()?.open.as_ref()?;
        let wait = open.wait.clone()?;
        Some(Waiting { run: self.id(), step: open.id.step, name: open.name.clone(), wait })
    }

    /// Does the next step, or says what is needed first.
    pub fn advance(&mut self, input: Input, listener: &mut Listener<'_>) -> Result<Progress, RunError> {
        match (self.waiting(), input) {
            (Some(waiting), Input::Go) => Ok(Progress::Waiting(Box::new(waiting))),
            (Some(waiting), input) => self.take_answer(waiting, input, listener),
            (None, Input::Go | Input::Done { result: None, .. } | Input::Retry) => self.go_on(listener),
            (None, _) => Err(RunError::NothingAsked(self.id())),
        }
    }

    /// Leaves a run that waits to whoever takes it up.
    pub fn pause(mut self) -> Result<RunSummary, RunError> {
        self.pause_with(None)
    }

    fn pause_with(&mut self, error: Option<Problem>) -> Result<RunSummary, RunError> {
        if let Some(waiting) = self.waiting() {
            self.session.steps.push(StepSummary::without_changes(waiting.name, StepStatus::Waiting));
        }
        self.session.close(RunStatus::Waiting, error)
    }

    /// Leaves a run that cannot go on now to whoever takes it up; none when a step is open, which the next start
    /// puts in order. One that somebody interrupted is over.
    pub fn suspend(mut self, err: &RunError) -> Result<Option<RunSummary>, RunError> {
        if err.is_interrupted() {
            return self.session.abandon(err);
        }
        if self.waiting().is_none() && self.session.open_step.is_some() {
            return Ok(None);
        }
        self.pause_with(Some(Problem::of(err))).map(Some)
    }

    fn state(&self) -> Option<&RunState> {
        self.session.state.as_deref()
    }

    fn listen(&self) -> Option<i32> {
        self.interrupts.received()
    }
}

/// Ends a run that waits, for good. What a step in words has changed stays, and is nobody's but the user's.
pub fn cancel(ctx: &Context, run: RunId, observer: &mut Observer<'_>) -> Result<RunSummary, RunError> {
    let (mut session, open) = Session::reopen_to_end(ctx, run, observer)?;
    session.record(&Event::RunResumed { with: "cancel".to_owned(), restart: None })?;
    let error = Problem::new(Code::Cancelled, "the run was cancelled");
    if let Some(open) = open {
        let step = open.id.step;
        if open.before.is_some() && open.outcome == Outcome::Open {
            // What a tool did is on record; what people did meanwhile is not the step's.
            session.record(&match open.wait {
                Some(Wait::Changes) => {
                    Event::CheckpointSkipped { step, reason: "the run was cancelled; its changes stay".to_owned() }
                }
                _ => Event::NoChanges { step, not_captured: Vec::new(), too_large: Vec::new() },
            })?;
        }
        session.finish_step(step, &open.name, StepStatus::Cancelled, None, None, Some(&error))?;
    }
    session.close(RunStatus::Cancelled, Some(error))
}

/// The run of a directive that is not finished in a worktree.
pub fn unfinished(ctx: &Context) -> Result<Option<WaitingRun>, RunError> {
    marker::find(&Session::folders_of(ctx))
}
