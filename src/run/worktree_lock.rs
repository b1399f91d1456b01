//! The lock of a worktree while a run holds it, with its heartbeat.

use std::path::Path;
use std::time::Duration;

use super::error::RunError;
use crate::context::Context;
use crate::exec::process;
use crate::exec::supervisor::MARK;
use crate::journal::lock::{self, Heartbeat, Holder, LockError, RunLock, UnfinishedRun};
use crate::workspace::RunFolders;

/// The lock of a worktree.
pub(super) struct WorktreeLock {
    lock: RunLock,
    /// Only while snapshots are taken: a recovery compares the time of the last beat with the times
    /// of changed files.
    heartbeat: Option<Heartbeat>,
}

impl WorktreeLock {
    /// Takes the lock, and waits for another run if necessary.
    pub(super) fn acquire(
        ctx: &Context,
        holder: &Holder,
        folders: &RunFolders,
        timeout: Duration,
    ) -> Result<Self, RunError> {
        refuse_inside(ctx, &folders.own)?;
        let (lock, _) = RunLock::acquire(&folders.own, holder, timeout, &folders.disk)?;
        Ok(Self {
            lock,
            heartbeat: None,
        })
    }

    /// The interrupted runs of this worktree.
    pub(super) fn unfinished(&self) -> &[UnfinishedRun] {
        self.lock.unfinished()
    }

    /// Clears the list of interrupted runs, after their recovery.
    pub(super) fn forget_unfinished(&mut self) -> Result<(), LockError> {
        self.lock.forget_unfinished()
    }

    /// Starts the heartbeat.
    pub(super) fn beat(&mut self) -> Result<(), LockError> {
        self.heartbeat = Some(self.lock.beat()?);
        Ok(())
    }

    /// Stops the heartbeat and releases the lock.
    pub(super) fn release(self) -> Result<(), LockError> {
        drop(self.heartbeat);
        self.lock.release()
    }
}

/// Fails for a command that a step starts in the worktree of its own run: it would wait for itself,
/// or decide in the user's name. A tool can remove the mark from the environment, but not its
/// parents.
pub(super) fn refuse_inside(ctx: &Context, own: &Path) -> Result<(), RunError> {
    let mark = ctx.environment.find(MARK).and_then(|mark| mark.to_str());
    let is_inside = |holder: &Holder| {
        mark.is_some_and(|mark| holder.run.to_string() == mark)
            || (holder.is_here() && process::is_ancestor(holder.pid))
    };
    match lock::current_holder(own).filter(is_inside) {
        Some(holder) => Err(RunError::InsideRun(holder.run)),
        None => Ok(()),
    }
}
