//! One run from its lock to its last event.
//!
//! A [`Session`] holds the lock of the worktree, has brought an earlier run that was cut off to an
//! end, and writes the journal. Every event goes to the journal first and to the observer then.

use std::path::PathBuf;
use std::time::Duration;

use super::error::{RunError, with_causes};
use super::recovery;
use crate::checkpoint::checkpointer::{Checkpointer, Options};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::journal::lock::{Heartbeat, Holder, RunLock};
use crate::journal::summary::{ErrorSummary, RunStatus, RunSummary, StepSummary};
use crate::journal::{Digest, Durability, Journal, RunId};

/// Sees every event after it was written.
pub type Observer<'o> = dyn FnMut(&Event) + 'o;

/// What a run is about, before it begins.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// What it is called.
    pub name: String,
    /// How it was started, for the journal.
    pub command: Vec<String>,
    /// When changes are checkpointed.
    pub mode: CheckpointMode,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
}

/// A run that has begun.
pub struct Session<'a, 'o> {
    pub(super) ctx: &'a Context,
    pub(super) run: RunId,
    pub(super) mode: CheckpointMode,
    pub(super) checkpointer: Option<Checkpointer>,
    pub(super) steps: Vec<StepSummary>,
    /// The step that has begun and not ended: until it does, the run can only be recovered.
    pub(super) open_step: Option<u32>,
    /// The tool that it runs, as `id@version`.
    pub(super) open_tool: Option<String>,
    /// The work tree as it was found, for the first step.
    pub(super) found: Option<Snapshot>,
    lacks_git: bool,
    journal: Journal,
    /// None while a run that was cut off is brought to an end under the lock of the next.
    lock: Option<RunLock>,
    /// Until the end: whatever is written to the work tree was written before the last beat.
    heartbeat: Option<Heartbeat>,
    observer: &'a mut Observer<'o>,
}

/// Opens the repository of a project, ready for checkpoints.
pub fn open_checkpointer(ctx: &Context) -> Result<Checkpointer, CheckpointError> {
    Checkpointer::open(open_repository(ctx)?, options(ctx))
}

/// Opens the repository of a project.
pub fn open_repository(ctx: &Context) -> Result<Repository, CheckpointError> {
    Repository::open(&ctx.root, ctx.home.as_deref(), ctx.environment.variables())
}

fn options(ctx: &Context) -> Options {
    Options {
        max_file_size: ctx.config.max_file_size(),
        max_total_size: ctx.config.max_total_size(),
        lock_wait: Duration::from_secs(2),
        environment: ctx.environment.variables().clone(),
        hooks: ctx.config.hooks(),
        secrets: ctx.config.secrets(),
        secrets_allowed: ctx.config.secrets_allowed(),
    }
}

/// Where journals and the lock are.
struct Folders {
    runs: PathBuf,
    own: PathBuf,
}

impl<'a, 'o> Session<'a, 'o> {
    /// Takes the lock, recovers what was cut off, and begins a run.
    pub fn begin(ctx: &'a Context, request: &RunRequest, observer: &'a mut Observer<'o>) -> Result<Self, RunError> {
        let is_disabled = request.mode == CheckpointMode::Disabled;
        let (mut checkpointer, folders, lacks_git) = if is_disabled {
            let repository = open_repository(ctx);
            let lacks_git = matches!(repository, Err(CheckpointError::NoRepository(_)));
            (None, folders(ctx, repository.ok().as_ref()), lacks_git)
        } else {
            let checkpointer = find_checkpointer(ctx, request.mode)?;
            let folders = folders(ctx, checkpointer.as_ref().map(Checkpointer::repository));
            let lacks_git = checkpointer.is_none();
            (checkpointer, folders, lacks_git)
        };
        let now = ctx.now();
        let run = RunId::new(now, ctx.random_bits());
        let durability = if is_disabled { Durability::LastLine } else { Durability::EachLine };
        let holder = Holder::of_process(run, now);
        let (mut lock, _) = RunLock::acquire_for(&folders.own, &holder, request.lock_timeout, durability)?;
        if is_disabled && !lock.unfinished().is_empty() {
            checkpointer = find_checkpointer(ctx, request.mode)?;
        }
        checkpointer = recovery::recover_all(ctx, checkpointer, &folders.runs, &mut lock, observer)?.checkpointer;
        if let Some(checkpointer) = checkpointer.as_mut().filter(|_| !is_disabled) {
            match request.mode {
                CheckpointMode::Auto => checkpointer.require_ready(now)?,
                _ => checkpointer.require_undoable()?,
            }
        }
        if is_disabled {
            checkpointer = None;
        }
        // What cannot be recorded is refused here: a run that did not begin leaves no journal.
        let found = checkpointer.as_mut().map(Checkpointer::before).transpose()?;
        // Only a snapshot can be compared with what was changed after a death.
        let found_any = found.is_some();
        let journal = Journal::create(&folders.runs, run, durability)?;
        let root = checkpointer.as_ref().map_or(ctx.root.as_path(), |found| found.repository().top());
        let started = Event::RunStarted {
            name: request.name.clone(),
            command: request.command.clone(),
            mode: request.mode,
            directive: None,
            root: root.to_string_lossy().into_owned(),
        };
        let mut session = Self {
            ctx,
            run,
            mode: request.mode,
            checkpointer,
            steps: Vec::new(),
            open_step: None,
            open_tool: None,
            found,
            lacks_git,
            journal,
            heartbeat: found_any.then(|| lock.beat()).transpose()?,
            lock: Some(lock),
            observer,
        };
        session.record(&started)?;
        Ok(session)
    }

    /// Takes up a run that was cut off, to bring it to an end.
    pub(super) fn resume(
        ctx: &'a Context,
        mode: CheckpointMode,
        journal: Journal,
        checkpointer: Option<Checkpointer>,
        observer: &'a mut Observer<'o>,
    ) -> Self {
        Self {
            ctx,
            run: journal.run(),
            mode,
            checkpointer,
            steps: Vec::new(),
            open_step: None,
            open_tool: None,
            found: None,
            lacks_git: false,
            journal,
            lock: None,
            heartbeat: None,
            observer,
        }
    }

    /// The name of the run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Whether there is no repository, so that nothing of the run can be undone.
    pub fn lacks_git(&self) -> bool {
        self.lacks_git
    }

    /// The repository, without which nothing can be committed or undone.
    pub(super) fn repository(&self) -> Result<&Repository, RunError> {
        let missing = || CheckpointError::NoRepository(self.ctx.root.clone());
        Ok(self.checkpointer.as_ref().ok_or_else(missing)?.repository())
    }

    /// Writes an event down and shows it.
    pub(super) fn record(&mut self, event: &Event) -> Result<Digest, RunError> {
        let digest = self.journal.append(self.ctx.now(), event)?;
        (self.observer)(event);
        Ok(digest)
    }

    /// The end of the journal, which the commit of the next decision names.
    pub(super) fn journal_head(&self) -> Digest {
        self.journal.head()
    }

    /// The number of the next step.
    pub(super) fn next_step(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX - 1) + 1
    }

    /// Ends a run that failed before anything of a step had happened; none when a step is open.
    pub fn abandon(self, err: &RunError) -> Result<Option<RunSummary>, RunError> {
        if self.open_step.is_some() {
            return Ok(None);
        }
        let (code, message, suggestion) = (err.code().to_owned(), with_causes(err), err.hint());
        let status = if err.is_interrupted() { RunStatus::Cancelled } else { RunStatus::Failed };
        self.finish(status, Some(ErrorSummary { code, message, suggestion })).map(Some)
    }

    /// Writes the last event and gives the lock back.
    pub fn finish(mut self, status: RunStatus, error: Option<ErrorSummary>) -> Result<RunSummary, RunError> {
        let summary = RunSummary {
            run_id: self.run,
            directive: None,
            status,
            steps: std::mem::take(&mut self.steps),
            outputs: serde_json::Map::new(),
            error,
        };
        self.record(&Event::RunFinished(summary.clone()))?;
        drop(self.heartbeat);
        self.lock.map_or(Ok(()), RunLock::release)?;
        Ok(summary)
    }
}

/// Where the refs of a run are.
pub(super) fn refs_of(run: RunId) -> String {
    format!("refs/piton/local/{run}")
}

/// The name of a ref that pins something of a step.
pub(super) fn ref_of(run: RunId, step: u32, what: &str) -> String {
    format!("{}/{step}/{what}", refs_of(run))
}

/// Without a repository only a mode that promises nothing may go on.
fn find_checkpointer(ctx: &Context, mode: CheckpointMode) -> Result<Option<Checkpointer>, RunError> {
    match open_checkpointer(ctx) {
        Ok(checkpointer) => Ok(Some(checkpointer)),
        Err(CheckpointError::NoRepository(_)) if mode != CheckpointMode::Auto || !ctx.config.git_required() => Ok(None),
        // Whatever is wrong with the repository does not matter where no checkpoint is wanted.
        Err(_) if mode == CheckpointMode::Disabled => Ok(None),
        Err(err) => Err(err.into()),
    }
}

fn folders(ctx: &Context, repository: Option<&Repository>) -> Folders {
    if let Some(repository) = repository {
        return Folders { runs: repository.runs_folder(), own: repository.own_folder() };
    }
    let own = ctx.state_folder();
    Folders { runs: own.join("runs"), own }
}
