//! Taking up a run that waits, was cut off, or has ended without success.
//!
//! [`Session::reopen`] takes the lock and reads how far the run came. A run that has ended is handed over with its items as
//! they are now and without an event: the caller decides where it begins, and writes that down.

use std::path::Path;
use std::time::Duration;

use super::{
    Folders, Observer, Session, find_checkpointer, folders, marker, open_checkpointer, open_repository, recovery,
    refuse_inside,
};
use crate::audit::history::{RunRecord, StepRecord};
use crate::checkpoint::error::CheckpointError;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::item::store::ItemStore;
use crate::journal::event::Event;
use crate::journal::lock::{Holder, RunLock};
use crate::journal::summary::RunStatus;
use crate::journal::{Journal, RunId};
use crate::run::directive::StartAt;
use crate::run::directive::pin::Pinned;
use crate::run::directive::state::RunState;
use crate::run::error::{RestartError, RunError};
use crate::run::standing::Standing;

/// A run that was taken up.
pub(in crate::run) struct Reopened<'a, 'o> {
    pub(in crate::run) session: Session<'a, 'o>,
    pub(in crate::run) pinned: Pinned,
    /// There where the run had ended; nothing of its new beginning is written down yet.
    pub(in crate::run) ended: Option<Ended>,
}

/// A run that had ended.
pub(in crate::run) struct Ended {
    pub(in crate::run) status: RunStatus,
    /// What it ran then.
    pub(in crate::run) before: Pinned,
    /// Its newest step.
    pub(in crate::run) newest: Option<StepRecord>,
}

impl<'a, 'o> Session<'a, 'o> {
    /// Takes up the run of a directive that waits, was cut off, or has ended without success.
    pub(in crate::run) fn reopen(
        ctx: &'a Context,
        store: &ItemStore,
        run: RunId,
        lock_timeout: Duration,
        start: &StartAt,
        observer: &'a mut Observer<'o>,
    ) -> Result<Reopened<'a, 'o>, RunError> {
        let repository = open_repository(ctx);
        let lacks_git = matches!(repository, Err(CheckpointError::NoRepository(_)));
        let folders = folders(ctx, repository.ok().as_ref());
        let (_, record) = require_unfinished(&folders, run, None)?;
        let mut checkpointer = find_checkpointer(ctx, record.mode)?;
        let now = ctx.now();
        let holder = Holder::of_process(run, now);
        refuse_inside(ctx, &folders.own)?;
        let (mut lock, _) = RunLock::acquire(&folders.own, &holder, lock_timeout, &folders.disk)?;
        checkpointer = recovery::recover_all(ctx, checkpointer, &folders.runs, &mut lock, observer)?.checkpointer;
        let root = checkpointer.as_ref().map_or(ctx.root.as_path(), |found| found.repository().top());
        let root = root.to_string_lossy().into_owned();
        if record.mode == CheckpointMode::Disabled {
            checkpointer = None;
        }
        let found = (|| {
            // Another process may have taken it up meanwhile.
            let (standing, record) = require_unfinished(&folders, run, Some(&root))?;
            let ended = record.status().filter(|status| *status != RunStatus::Waiting);
            if ended.is_none() && *start != StartAt::Failed {
                return Err(RestartError::NotEnded(run).into());
            }
            if let Some(waiting) = marker::find(&folders)?.filter(|waiting| ended.is_some() && waiting.run != run) {
                return Err(RunError::RunWaits(Box::new(waiting)));
            }
            match &mut checkpointer {
                Some(checkpointer) if record.mode == CheckpointMode::Auto => checkpointer.require_ready(now)?,
                Some(checkpointer) => checkpointer.require_undoable()?,
                None => {}
            }
            let pinned = Pinned::load(store, &folders.runs, run, &standing.pinned.unwrap_or_default())?;
            let Some(status) = ended else {
                pinned.judge_again(ctx)?;
                return Ok((pinned, None));
            };
            let label = record.directive.clone().unwrap_or_default();
            let newest = record.steps.last().cloned();
            let renewed = pinned.renewed(ctx, store, &label)?;
            Ok((renewed, Some(Ended { status, before: pinned, newest })))
        })();
        let (pinned, ended) = match found {
            Ok(found) => found,
            Err(err) => {
                lock.release()?;
                return Err(err);
            }
        };
        let mut state = RunState::new(run);
        let before = ended.as_ref().map(|ended| ended.before.directives());
        for (content, found) in before.into_iter().flatten().chain(pinned.directives()) {
            state.know(content.clone(), found.clone());
        }
        let mut standing = Standing::default();
        let journal = Journal::open(&folders.runs, run, &folders.disk, &mut |record| {
            standing.take(record);
            state.apply(record.at, record.prev, &record.event);
        })?;
        let record = standing.run().unwrap_or(&record);
        let mut session = Self::resume(ctx, record.mode, journal, folders, checkpointer, observer);
        session.steps = standing.steps.clone();
        session.lacks_git = lacks_git;
        session.directive.clone_from(&record.directive);
        session.atomic = record.atomic;
        session.state = Some(Box::new(state));
        session.count_from(record.steps.last().map_or(0, |step| step.id.step));
        if let Some(open) = record.steps.last().filter(|step| step.status.is_none()) {
            session.open_step = Some(open.id.step);
            session.open_tool.clone_from(&open.tool);
            if let (Some(checkpointer), Some(before)) = (&mut session.checkpointer, &open.before) {
                checkpointer.remember_rules(before)?;
            }
        }
        if session.checkpointer.is_some() {
            session.heartbeat = Some(lock.beat()?);
        }
        session.lock = Some(lock);
        if ended.is_none() {
            session.record(&Event::RunResumed { with: String::new(), restart: None })?;
        }
        Ok(Reopened { session, pinned, ended })
    }

    /// Gives the lock back without an event: the run stays as it is.
    pub(in crate::run) fn let_go(mut self) -> Result<(), RunError> {
        drop(self.heartbeat.take());
        self.lock.take().map_or(Ok(()), RunLock::release)?;
        Ok(())
    }

    /// Says that the run is not finished in this worktree any more, before it begins again.
    pub(in crate::run) fn mark_unfinished(&self) -> Result<(), RunError> {
        marker::set(&self.folders, self.run)
    }

    /// Takes up the run of a directive only to end it: whatever is wrong with the repository, or with what the run was
    /// started with, must not keep it open for ever. A run whose worktree is gone can be ended from any other.
    pub(in crate::run) fn reopen_to_end(
        ctx: &'a Context,
        run: RunId,
        observer: &'a mut Observer<'o>,
    ) -> Result<(Self, Option<StepRecord>), RunError> {
        let folders = Self::folders_of(ctx);
        let (_, record) = require_waiting(&folders, run, None)?;
        refuse_inside(ctx, &folders.own)?;
        let holder = Holder::of_process(run, ctx.now());
        let (mut lock, _) = RunLock::acquire(&folders.own, &holder, Duration::ZERO, &folders.disk)?;
        let checkpointer = open_checkpointer(ctx).ok();
        let recovered = recovery::recover_all(ctx, checkpointer, &folders.runs, &mut lock, observer)?;
        let top = recovered.checkpointer.as_ref().map_or(ctx.root.as_path(), |found| found.repository().top());
        let is_elsewhere = record.root != top.to_string_lossy() && Path::new(&record.root).exists();
        let root = is_elsewhere.then(|| top.to_string_lossy().into_owned());
        let (standing, record) = match require_waiting(&folders, run, root.as_deref()) {
            Ok(found) => found,
            Err(err) => {
                lock.release()?;
                return Err(err);
            }
        };
        let journal = Journal::open(&folders.runs, run, &folders.disk, &mut |_| {})?;
        let mut session = Self::resume(ctx, record.mode, journal, folders, recovered.checkpointer, observer);
        session.steps = standing.steps;
        session.directive = record.directive;
        session.atomic = record.atomic;
        session.count_from(record.steps.last().map_or(0, |step| step.id.step));
        session.lock = Some(lock);
        let open = record.steps.into_iter().next_back().filter(|step| step.status.is_none());
        session.open_step = open.as_ref().map(|step| step.id.step);
        Ok((session, open))
    }
}

/// The record of a run that can be taken up, with its newest step only, and how far it came.
fn require_waiting(folders: &Folders, run: RunId, root: Option<&str>) -> Result<(Standing, RunRecord), RunError> {
    let standing = Standing::load(&folders.runs, run)?;
    let refuse = |reason: String| Err(RunError::NotResumable { run, reason });
    let Some(record) = standing.run().cloned() else { return refuse("it never began".to_owned()) };
    if record.directive.is_none() {
        return refuse("it runs no directive".to_owned());
    }
    match record.status() {
        None | Some(RunStatus::Waiting) => {}
        Some(status) => return refuse(format!("it has {}", status.as_participle())),
    }
    match root {
        Some(root) if record.root != root => refuse(format!("it belongs to the work tree `{}`", record.root)),
        _ => Ok((standing, record)),
    }
}

/// As [`require_waiting`], for a run that may have ended without success.
fn require_unfinished(folders: &Folders, run: RunId, root: Option<&str>) -> Result<(Standing, RunRecord), RunError> {
    let standing = Standing::load(&folders.runs, run)?;
    let ended = standing.run().filter(|record| record.directive.is_some()).and_then(RunRecord::status);
    match ended {
        None | Some(RunStatus::Waiting | RunStatus::Succeeded) => require_waiting(folders, run, root),
        Some(_) if standing.is_put_back => {
            let reason = "everything that it did was rolled back; run the directive again".to_owned();
            Err(RunError::NotResumable { run, reason })
        }
        Some(_) => match (root, standing.run().cloned()) {
            (Some(root), Some(record)) if record.root != root => {
                let reason = format!("it belongs to the work tree `{}`", record.root);
                Err(RunError::NotResumable { run, reason })
            }
            (_, Some(record)) => Ok((standing, record)),
            (_, None) => require_waiting(folders, run, root),
        },
    }
}
