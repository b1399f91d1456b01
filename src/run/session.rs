//! One run from its lock to its last event.
//!
//! A [`Session`] holds the lock of the worktree, has brought an earlier run that was cut off to an
//! end, and writes the journal. Every event goes to the journal first and to the observer then. [`reopen`] takes up
//! a run that is there already.

mod reopen;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directive::pin::Pinned;
use super::directive::state::{Cost, RunState};
use super::error::{RestartError, RunError};
use super::marker;
use super::recovery;
use super::unsettled::RecoveryAction;
use crate::audit::trail;
use crate::checkpoint::checkpointer::{Checkpointer, Options};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::disk::Disk;
use crate::exec::interrupt::Interrupts;
use crate::exec::mcp::Servers;
use crate::exec::supervisor::MARK;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Event, StepKind};
use crate::journal::lock::{self, Heartbeat, Holder, RunLock};
use crate::journal::summary::{RunStatus, RunSummary, StepList, StepStatus, StepSummary};
use crate::journal::{Digest, Durability, Journal, RunId, Salt, sequence};
use crate::problem::Problem;

pub(super) use reopen::{Ended, Reopened};

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
    /// The directive that it runs; none for a single command or tool.
    pub directive: Option<DirectiveStart>,
}

/// A directive that is about to be run.
#[derive(Clone, Debug)]
pub struct DirectiveStart {
    /// `id@version`.
    pub label: String,
    /// What it runs.
    pub pinned: Pinned,
    /// The name of the run, where that has to be known before.
    pub run: Option<RunId>,
}

impl DirectiveStart {
    /// The names of its steps, in order.
    fn step_names(&self) -> Vec<String> {
        let found = self.pinned.labelled(&self.label);
        found.iter().flat_map(|found| &found.directive.steps).map(|step| step.name.clone()).collect()
    }
}

/// A run that has begun.
pub struct Session<'a, 'o> {
    pub(super) ctx: &'a Context,
    pub(super) run: RunId,
    pub(super) mode: CheckpointMode,
    pub(super) checkpointer: Option<Checkpointer>,
    pub(super) steps: StepList,
    /// The step that has begun and not ended: until it does, the run can only be recovered.
    pub(super) open_step: Option<u32>,
    /// What a recovery does with the changes of that step.
    pub(super) open_recovery: Option<RecoveryAction>,
    /// The tool that it runs, as `id@version`.
    pub(super) open_tool: Option<String>,
    /// The signal that ended its command.
    pub(super) open_signal: Option<i32>,
    /// The work tree as it was found, for the first step.
    pub(super) found: Option<Snapshot>,
    /// Where a directive stands; none for a single command or tool.
    pub(super) state: Option<Box<RunState>>,
    /// The directive, as `id@version`.
    pub(super) directive: Option<String>,
    /// Whether everything is put back if the run does not succeed.
    pub(super) atomic: bool,
    /// What the directive returns.
    pub(super) outputs: serde_json::Map<String, serde_json::Value>,
    /// The MCP servers that its tools have called.
    pub(super) servers: Servers,
    numbered: u32,
    /// The number of this session among all of the repository, once it has one.
    order: Option<u64>,
    lacks_git: bool,
    folders: Folders,
    journal: Journal,
    /// None while a run that was cut off is brought to an end under the lock of the next.
    lock: Option<RunLock>,
    /// Until the end: whatever is written to the work tree was written before the last beat.
    heartbeat: Option<Heartbeat>,
    observer: &'a mut Observer<'o>,
}

/// Opens the repository of a project, ready for checkpoints.
pub fn open_checkpointer(ctx: &Context) -> Result<Checkpointer, CheckpointError> {
    let stop = ctx.stop.clone();
    // Where signals cannot be heard, a filter ends by itself or when its time is over.
    let listen = move || {
        let interrupts = Interrupts::listen_for(&stop).ok();
        Box::new(move || interrupts.as_ref().is_some_and(|heard| heard.received().is_some())) as Box<dyn Fn() -> bool>
    };
    Ok(Checkpointer::open(open_repository(ctx)?, options(ctx))?.listening(Box::new(listen)))
}

/// Opens the repository of a project.
pub fn open_repository(ctx: &Context) -> Result<Repository, CheckpointError> {
    Repository::open(&ctx.root, ctx.home.as_deref(), ctx.environment.variables(), ctx.config.fsync())
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
#[derive(Clone, Debug)]
pub(super) struct Folders {
    pub(super) runs: PathBuf,
    pub(super) own: PathBuf,
    /// The file system they are on.
    pub(super) disk: Disk,
}

impl Folders {
    /// Where it is kept what tools of MCP servers are.
    pub(super) fn definitions(&self) -> PathBuf {
        self.runs.with_file_name("mcp")
    }
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
        let is_atomic = request.directive.as_ref().is_some_and(|start| start.pinned.is_atomic(&start.label));
        if is_atomic && checkpointer.is_none() {
            return Err(RestartError::NoCheckpoints.into());
        }
        let now = ctx.now();
        let named = request.directive.as_ref().and_then(|start| start.run);
        let run = named.unwrap_or_else(|| RunId::new(now, ctx.random_bits()));
        let durability = if is_disabled { Durability::LastLine } else { Durability::Decisions };
        let holder = Holder::of_process(run, now);
        refuse_inside(ctx, &folders.own)?;
        let (mut lock, _) = RunLock::acquire(&folders.own, &holder, request.lock_timeout, &folders.disk)?;
        if is_disabled && !lock.unfinished().is_empty() {
            checkpointer = find_checkpointer(ctx, request.mode)?;
        }
        checkpointer = recovery::recover_all(ctx, checkpointer, &folders.runs, &mut lock, observer)?.checkpointer;
        let beside = match (marker::find(&folders)?, &request.directive) {
            (Some(waiting), Some(_)) => {
                lock.release()?;
                return Err(RunError::RunWaits(Box::new(waiting)));
            }
            (waiting, _) => waiting.and_then(|waiting| waiting.step),
        };
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
        let journal = Journal::create(&folders.runs, run, Salt::new(ctx.random_bits()), durability, &folders.disk)?;
        let mut state = None;
        let mut pinned_hash = None;
        if let Some(DirectiveStart { pinned, .. }) = &request.directive {
            pinned_hash = Some(pinned.save(&folders.runs, run).map_err(RunError::Pin)?);
            let mut fresh = RunState::new(run);
            pinned.directives().for_each(|(content, found)| fresh.know(content.clone(), found.clone()));
            state = Some(Box::new(fresh));
            marker::set(&folders, run)?;
        }
        let root = checkpointer.as_ref().map_or(ctx.root.as_path(), |found| found.repository().top());
        let order = Some(sequence::next(&folders.runs)?);
        let started = Event::RunStarted {
            name: request.name.clone(),
            command: request.command.clone(),
            mode: request.mode,
            directive: request.directive.as_ref().map(|start| start.label.clone()),
            root: root.to_string_lossy().into_owned(),
            worktree: checkpointer.as_ref().map(|found| found.repository().worktree_name()),
            pinned: pinned_hash,
            beside,
            steps: request.directive.as_ref().map(DirectiveStart::step_names).unwrap_or_default(),
            atomic: is_atomic,
            order,
        };
        let mut session = Self {
            ctx,
            run,
            mode: request.mode,
            checkpointer,
            steps: StepList::default(),
            open_step: None,
            open_recovery: None,
            open_tool: None,
            open_signal: None,
            found,
            state,
            directive: request.directive.as_ref().map(|start| start.label.clone()),
            atomic: is_atomic,
            outputs: serde_json::Map::new(),
            servers: Servers::default(),
            numbered: 0,
            order,
            lacks_git,
            folders,
            journal,
            heartbeat: found_any.then(|| lock.beat()).transpose()?,
            lock: Some(lock),
            observer,
        };
        session.record(&started)?;
        if let Err(err) = session.take_over_own_refs() {
            session.abandon(&err)?;
            return Err(err);
        }
        Ok(session)
    }

    /// Where journals and the lock of a project are.
    pub(super) fn folders_of(ctx: &Context) -> Folders {
        folders(ctx, open_repository(ctx).ok().as_ref())
    }

    /// Takes up a run that was cut off, to bring it to an end.
    pub(super) fn resume(
        ctx: &'a Context,
        mode: CheckpointMode,
        journal: Journal,
        folders: Folders,
        checkpointer: Option<Checkpointer>,
        observer: &'a mut Observer<'o>,
    ) -> Self {
        Self {
            ctx,
            run: journal.run(),
            mode,
            checkpointer,
            steps: StepList::default(),
            open_step: None,
            open_recovery: None,
            open_tool: None,
            open_signal: None,
            found: None,
            state: None,
            directive: None,
            atomic: false,
            outputs: serde_json::Map::new(),
            servers: Servers::default(),
            numbered: 0,
            order: None,
            lacks_git: false,
            folders,
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
        let (at, previous) = (self.ctx.now(), self.journal.head());
        let digest = self.journal.append(at, event)?;
        match event {
            Event::StepStarted { step, .. } => self.numbered = *step,
            Event::Decided { decision, .. } => self.open_recovery = Some(RecoveryAction::of_decision(decision)),
            _ => {}
        }
        if let Some(state) = &mut self.state {
            state.apply(at, previous, event);
        }
        (self.observer)(event);
        Ok(digest)
    }

    /// The number of this session among all of the repository: what steps are put in order by.
    pub(super) fn order(&mut self) -> Result<Option<u64>, RunError> {
        if self.order.is_none() {
            self.order = Some(sequence::next(&self.folders.runs)?);
        }
        Ok(self.order)
    }

    /// The end of the journal, which the commit of the next decision names.
    pub(super) fn journal_head(&self) -> Digest {
        self.journal.head()
    }

    /// The number of the step that is open, or of the next one.
    pub(super) fn next_step(&self) -> u32 {
        self.open_step.unwrap_or(self.numbered.saturating_add(1))
    }

    /// Goes on counting after the last step of a run that is taken up again.
    pub(super) fn count_from(&mut self, last: u32) {
        self.numbered = last;
    }

    pub(super) fn folders(&self) -> &Folders {
        &self.folders
    }

    /// What a directive has done so far.
    pub(super) fn cost(&self) -> Cost {
        self.state.as_ref().map(|state| state.cost_at(self.ctx.now())).unwrap_or_default()
    }

    /// Writes down that a step is not run.
    pub(super) fn skip_step(&mut self, name: String, reason: String) -> Result<(), RunError> {
        self.record(&Event::StepSkipped { name: name.clone(), reason })?;
        self.steps.push(StepSummary::without_changes(name, StepStatus::Skipped));
        Ok(())
    }

    /// Writes down that a step is not allowed; nothing of it has happened.
    pub(super) fn refuse_step(&mut self, name: &str, kind: StepKind, error: &Problem) -> Result<(), RunError> {
        let number = self.next_step();
        self.open(number, name, kind, None, &[])?;
        self.finish_step(number, name, StepStatus::Denied, None, None, Some(error))
    }

    /// Refuses paths that are neither on disk nor in the last commit.
    pub(super) fn require_paths(&self, paths: &[RepoPath]) -> Result<(), RunError> {
        let Some(checkpointer) = &self.checkpointer else { return Ok(()) };
        let top = checkpointer.repository().top();
        for path in paths {
            if top.join(path.as_path()).symlink_metadata().is_err() && !checkpointer.repository().has_path(path)? {
                return Err(RunError::NoSuchPath(path.to_string()));
            }
        }
        Ok(())
    }

    /// Ends a run that failed before anything of a step had happened; none when a step is open.
    pub fn abandon(self, err: &RunError) -> Result<Option<RunSummary>, RunError> {
        if self.open_step.is_some() {
            return Ok(None);
        }
        let status = if err.is_interrupted() { RunStatus::Cancelled } else { RunStatus::Failed };
        self.finish(status, Some(Problem::of(err))).map(Some)
    }

    /// Writes the last event and gives the lock back.
    pub fn finish(mut self, status: RunStatus, error: Option<Problem>) -> Result<RunSummary, RunError> {
        self.close(status, error)
    }

    pub(super) fn close(&mut self, status: RunStatus, error: Option<Problem>) -> Result<RunSummary, RunError> {
        // They could still change files, and the next run takes those for what it finds.
        self.servers.end();
        let is_over = !matches!(status, RunStatus::Succeeded | RunStatus::Waiting);
        let error = if self.atomic && is_over { self.put_run_back(error)? } else { error };
        let uncommitted = self.uncommitted();
        let (steps, steps_omitted, step_totals) = std::mem::take(&mut self.steps).into_parts();
        let summary = RunSummary {
            run_id: self.run,
            directive: self.directive.clone(),
            status,
            steps,
            steps_omitted,
            step_totals,
            outputs: std::mem::take(&mut self.outputs),
            uncommitted,
            error,
        };
        self.record(&Event::RunFinished(summary.clone()))?;
        if self.directive.is_some() {
            if let Some(checkpointer) = &self.checkpointer {
                // What cannot be written now is written before it is pushed; the journal has it.
                let _ = trail::publish(checkpointer.repository(), &self.folders.runs, self.run);
            }
            if status != RunStatus::Waiting {
                marker::clear(&self.folders, self.run)?;
            }
        }
        if let Some(checkpointer) = &self.checkpointer {
            // The run is over; what cannot be done now is tried again at the end of the next one.
            let _ = checkpointer.repository().tidy_store();
            let _ = checkpointer.repository().share();
        }
        drop(self.heartbeat.take());
        self.lock.take().map_or(Ok(()), RunLock::release)?;
        Ok(summary)
    }
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

/// Refuses what a step of a run starts in the worktree of that run: waiting for its end would never end.
pub(super) fn refuse_inside(ctx: &Context, own: &Path) -> Result<(), RunError> {
    let Some(mark) = ctx.environment.find(MARK).and_then(|mark| mark.to_str()) else { return Ok(()) };
    match lock::current_holder(own).filter(|holder| holder.run.to_string() == mark) {
        Some(holder) => Err(RunError::InsideRun(holder.run)),
        None => Ok(()),
    }
}

fn folders(ctx: &Context, repository: Option<&Repository>) -> Folders {
    if let Some(repository) = repository {
        let disk = repository.disk().clone();
        return Folders { runs: repository.runs_folder(), own: repository.own_folder(), disk };
    }
    let own = ctx.state_folder();
    let disk = Disk::of(&own, ctx.config.fsync());
    Folders { runs: own.join("runs"), own, disk }
}
