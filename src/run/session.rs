//! One run, from the lock of its worktree to its last event.
//!
//! A [`Session`] consists of a [`Recorder`], a [`WorktreeLock`] and a [`Checkpointer`]. Other
//! modules work on these parts with functions of their own. [`Session::begin`] takes the lock and
//! recovers interrupted runs before it starts a run; [`reopen`] continues an existing run.

mod reopen;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::directive::pin::Pinned;
use super::directive::state::RunState;
use super::error::{RestartError, RunError};
use super::recorder::Recorder;
use super::recovery::{self, OnFault};
use super::worktree_lock::WorktreeLock;
use super::{atomic, belonging, checkpoint, takeover, touched, unfinished_note};
use crate::audit::trail;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::exec::mcp::Servers;
use crate::exec::private_folder;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Event, StepKind};
use crate::journal::lock::Holder;
use crate::journal::summary::{RunStatus, RunSummary};
use crate::journal::{Durability, Journal, RunId, Salt, StepId};
use crate::problem::Problem;
use crate::workspace::{RunFolders, key_file, open_checkpointer, open_repository};

pub(super) use reopen::{EndedRun, Reopened};

/// Sees every event after it was written.
pub type Observer<'o> = dyn FnMut(&Event) + 'o;

/// A request to start a run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    pub name: String,
    /// The command line, for the journal.
    pub command: Vec<String>,
    /// When changes are checkpointed.
    pub mode: CheckpointMode,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
    /// The directive to run; `None` for a single command or tool.
    pub directive: Option<DirectiveStart>,
}

impl RunRequest {
    /// Whether everything is rolled back if the run does not succeed.
    fn is_atomic(&self) -> bool {
        self.directive
            .as_ref()
            .is_some_and(|start| start.pinned.is_atomic(&start.label))
    }
}

/// A directive to run.
#[derive(Clone, Debug)]
pub struct DirectiveStart {
    /// The directive, as `id@version`.
    pub label: String,
    /// The directive and everything that it references.
    pub pinned: Pinned,
    /// The id of the run, if the caller needs to know it in advance.
    pub run: Option<RunId>,
}

impl DirectiveStart {
    /// The names of its steps, in order.
    fn step_names(&self) -> Vec<String> {
        let found = self.pinned.labelled(&self.label);
        found
            .iter()
            .flat_map(|found| &found.directive.steps)
            .map(|step| step.name.clone())
            .collect()
    }
}

/// A run that has begun.
pub struct Session<'a> {
    pub(super) recorder: Recorder<'a>,
    /// `None` without a repository, and if checkpoints are disabled.
    pub(super) checkpointer: Option<Checkpointer>,
    /// A snapshot of the work tree that is still current, for the next step.
    pub(super) found: Option<Snapshot>,
    /// The MCP servers that tools of the run have called.
    pub(super) servers: Servers,
    /// Whether everything is rolled back if the run does not succeed.
    atomic: bool,
    lacks_git: bool,
    /// `None` once the run has ended.
    lock: Option<WorktreeLock>,
}

impl<'a> Session<'a> {
    /// Takes the lock, recovers interrupted runs, and begins a run.
    pub fn begin(
        ctx: &'a Context,
        request: &RunRequest,
        observer: &'a mut Observer<'_>,
    ) -> Result<Self, RunError> {
        let is_disabled = request.mode == CheckpointMode::Disabled;
        let (mut checkpointer, folders, lacks_git) = find_git(ctx, request.mode)?;
        if request.is_atomic() && checkpointer.is_none() {
            return Err(RestartError::NoCheckpoints.into());
        }
        let now = ctx.now();
        let named = request.directive.as_ref().and_then(|start| start.run);
        let run = named.unwrap_or_else(|| RunId::new(now, ctx.random_bits()));
        let holder = Holder::of_process(run, now);
        let mut lock = WorktreeLock::acquire(ctx, &holder, &folders, request.lock_timeout)?;
        private_folder::sweep(&ctx.environment.temporary_folder());
        if is_disabled && !lock.unfinished().is_empty() {
            checkpointer = find_checkpointer(ctx, request.mode)?;
        }
        recovery::recover_all(
            ctx,
            checkpointer.as_mut(),
            &folders.runs,
            &mut lock,
            OnFault::Retry,
            observer,
        )?;
        let beside = match (unfinished_note::find(&folders)?, &request.directive) {
            (Some(waiting), Some(_)) => {
                lock.release()?;
                return Err(RunError::RunWaits(Box::new(waiting)));
            }
            (waiting, _) => waiting.and_then(|waiting| waiting.step),
        };
        if is_disabled {
            checkpointer = None;
        }
        // Check this here: a run that does not begin must leave no journal.
        let found = checkpointer
            .as_mut()
            .map(|checkpointer| first_snapshot(checkpointer, request.mode, now))
            .transpose()?;
        let mut recorder = create_journal(ctx, run, request, folders, observer)?;
        let started = start_event(&mut recorder, request, checkpointer.as_ref(), beside)?;
        if found.is_some() {
            // Without a snapshot, a recovery has nothing to compare with the time of death.
            lock.beat()?;
        }
        recorder.record(&started)?;
        let mut session = Self {
            recorder,
            checkpointer,
            found,
            servers: Servers::default(),
            atomic: request.is_atomic(),
            lacks_git,
            lock: Some(lock),
        };
        if let Some(checkpointer) = &session.checkpointer
            && let Err(err) =
                takeover::take_over_refs(&mut session.recorder, checkpointer.repository())
        {
            session.abandon(&err)?;
            return Err(err);
        }
        Ok(session)
    }

    /// The id of the run.
    pub fn run(&self) -> RunId {
        self.recorder.run
    }

    /// Whether there is no repository, so that nothing can be undone.
    pub fn lacks_git(&self) -> bool {
        self.lacks_git
    }

    /// The repository; an error if there is none.
    pub(super) fn repository(&self) -> Result<&Repository, RunError> {
        match &self.checkpointer {
            Some(checkpointer) => Ok(checkpointer.repository()),
            None => Err(no_repository(self.recorder.ctx)),
        }
    }

    /// The recorder and the checkpointer; an error without a repository.
    pub(super) fn with_git(&mut self) -> Result<(&mut Recorder<'a>, &mut Checkpointer), RunError> {
        let recorder = &mut self.recorder;
        match &mut self.checkpointer {
            Some(checkpointer) => Ok((recorder, checkpointer)),
            None => Err(no_repository(recorder.ctx)),
        }
    }

    /// The path of the project in the work tree; grants are relative to it.
    pub(super) fn prefix(&self) -> PathBuf {
        let top = self
            .checkpointer
            .as_ref()
            .map(|checkpointer| checkpointer.repository().top());
        top.and_then(|top| self.recorder.ctx.root.strip_prefix(top).ok())
            .map(PathBuf::from)
            .unwrap_or_default()
    }

    /// Takes the snapshot before a step and records its start.
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
        if let Some(checkpointer) = &self.checkpointer {
            touched::save_definition(&self.recorder, checkpointer, step, &kind);
        }
        self.recorder
            .open(step, name, kind, before.clone(), writes)?;
        Ok(before)
    }

    /// Ends a run that failed between two steps. Returns `None` if a step is open.
    pub fn abandon(self, err: &RunError) -> Result<Option<RunSummary>, RunError> {
        if self.recorder.open_step.is_some() {
            return Ok(None);
        }
        let status = if err.is_interrupted() {
            RunStatus::Cancelled
        } else {
            RunStatus::Failed
        };
        self.finish(status, Some(Problem::of(err))).map(Some)
    }

    /// Records the end of the run and releases the lock.
    pub fn finish(
        mut self,
        status: RunStatus,
        error: Option<Problem>,
    ) -> Result<RunSummary, RunError> {
        self.close(status, error)
    }

    pub(super) fn close(
        &mut self,
        status: RunStatus,
        error: Option<Problem>,
    ) -> Result<RunSummary, RunError> {
        // Stop MCP servers first: later writes would be attributed to the next run.
        self.servers.end();
        let is_over = !matches!(status, RunStatus::Succeeded | RunStatus::Waiting);
        let error = if self.atomic && is_over {
            atomic::put_run_back(self, error)?
        } else {
            error
        };
        let uncommitted = checkpoint::uncommitted(self);
        let recorder = &mut self.recorder;
        let summary = recorder.finish_run(status, error, uncommitted)?;
        if recorder.directive.is_some() {
            if let Some(checkpointer) = &self.checkpointer {
                // The journal has everything: on failure, the log is written before the next push.
                let _ = trail::publish(
                    checkpointer.repository(),
                    &recorder.folders.runs,
                    recorder.run,
                );
            }
            if status != RunStatus::Waiting {
                unfinished_note::clear(&recorder.folders, recorder.run)?;
            }
        }
        if let Some(checkpointer) = &self.checkpointer {
            // The run has ended; on failure, the end of the next run tries again.
            let _ = checkpointer.repository().tidy_store();
            let _ = checkpointer.repository().share();
        }
        self.release()?;
        Ok(summary)
    }

    /// Stops the heartbeat and releases the lock. Without an event, the run stays as it is.
    pub(super) fn release(&mut self) -> Result<(), RunError> {
        Ok(self.lock.take().map_or(Ok(()), WorktreeLock::release)?)
    }
}

/// The checkpointer and the folders for a mode, and whether there is no repository.
fn find_git(
    ctx: &Context,
    mode: CheckpointMode,
) -> Result<(Option<Checkpointer>, RunFolders, bool), RunError> {
    if mode == CheckpointMode::Disabled {
        let repository = open_repository(ctx);
        let lacks_git = matches!(repository, Err(CheckpointError::NoRepository(_)));
        let folders = RunFolders::of(ctx, repository.ok().as_ref());
        return Ok((None, folders, lacks_git));
    }
    let checkpointer = find_checkpointer(ctx, mode)?;
    let folders = RunFolders::of(ctx, checkpointer.as_ref().map(Checkpointer::repository));
    let lacks_git = checkpointer.is_none();
    Ok((checkpointer, folders, lacks_git))
}

/// Opens the repository for checkpoints. Without a repository, only modes that do not need one are
/// allowed.
fn find_checkpointer(
    ctx: &Context,
    mode: CheckpointMode,
) -> Result<Option<Checkpointer>, RunError> {
    match open_checkpointer(ctx) {
        Ok(checkpointer) => Ok(Some(checkpointer)),
        Err(CheckpointError::NoRepository(_))
            if mode != CheckpointMode::Auto || !ctx.config.git_required() =>
        {
            Ok(None)
        }
        // A broken repository does not matter if no checkpoint is wanted.
        Err(_) if mode == CheckpointMode::Disabled => Ok(None),
        Err(err) => Err(err.into()),
    }
}

/// The error for an operation that needs a repository.
pub(super) fn no_repository(ctx: &Context) -> RunError {
    CheckpointError::NoRepository(ctx.root.clone()).into()
}

/// Checks that the repository is ready for checkpoints, and takes the first snapshot.
fn first_snapshot(
    checkpointer: &mut Checkpointer,
    mode: CheckpointMode,
    now: Timestamp,
) -> Result<Snapshot, CheckpointError> {
    match mode {
        CheckpointMode::Auto => checkpointer.require_ready(now)?,
        _ => checkpointer.require_undoable()?,
    }
    checkpointer.before()
}

/// Creates the journal of a run.
fn create_journal<'a>(
    ctx: &'a Context,
    run: RunId,
    request: &RunRequest,
    folders: RunFolders,
    observer: &'a mut Observer<'_>,
) -> Result<Recorder<'a>, RunError> {
    let durability = match request.mode {
        CheckpointMode::Disabled => Durability::LastLine,
        _ => Durability::Decisions,
    };
    let salt = Salt::new(ctx.random_bits());
    let key = key_file(ctx).read_or_create(run.started())?;
    let journal = Journal::create(&folders.runs, run, salt, durability, &folders.disk)?;
    let journal = journal.authenticated(key).noting_its_end(&folders.runs);
    Ok(Recorder::new(ctx, request.mode, journal, folders, observer))
}

/// The first event of a run. Saves the items of its directive beside the journal.
fn start_event(
    recorder: &mut Recorder<'_>,
    request: &RunRequest,
    checkpointer: Option<&Checkpointer>,
    beside: Option<StepId>,
) -> Result<Event, RunError> {
    let mut pinned_hash = None;
    if let Some(DirectiveStart { pinned, label, .. }) = &request.directive {
        let folders = &recorder.folders;
        pinned_hash = Some(
            pinned
                .save(&folders.runs, recorder.run)
                .map_err(RunError::Pin)?,
        );
        let mut state = RunState::new(recorder.run);
        pinned
            .directives()
            .for_each(|(content, found)| state.know(content.clone(), found.clone()));
        unfinished_note::set(folders, recorder.run)?;
        recorder.state = Some(Box::new(state));
        recorder.directive = Some(label.clone());
    }
    let repository = checkpointer.map(Checkpointer::repository);
    let root = repository.map_or(recorder.ctx.root.as_path(), Repository::top);
    Ok(Event::RunStarted {
        name: request.name.clone(),
        command: request.command.clone(),
        mode: request.mode,
        directive: recorder.directive.clone(),
        root: root.to_string_lossy().into_owned(),
        worktree: repository.map(Repository::worktree_name),
        pinned: pinned_hash,
        beside,
        steps: request
            .directive
            .as_ref()
            .map(DirectiveStart::step_names)
            .unwrap_or_default(),
        atomic: request.is_atomic(),
        order: recorder.order()?,
        repository: repository
            .map(|repository| belonging::identify(repository, recorder.run))
            .transpose()?,
    })
}
