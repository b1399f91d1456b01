//! Removes contents of old runs, virtual environments and indexes that are no longer needed.
//!
//! Garbage collection is a run of its own: its journal lists the affected runs before their
//! contents are deleted. Only the private store shrinks; git's objects and the journals stay.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;

use super::baseline;
use super::error::RunError;
use super::session::{Observer, RunRequest, Session};
use super::takeover;
use crate::audit::history::History;
use crate::audit::retention::{self, Retention, RetentionLimits};
use crate::checkpoint::repository::Repository;
use crate::checkpoint::store::{Sweep, Swept};
use crate::context::Context;
use crate::exec::python;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::item::search;
use crate::journal::RunId;
use crate::journal::event::Event;
use crate::journal::summary::RunStatus;
use crate::workspace::open_repository;

/// How long unused cache entries are kept.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Cache entries that were not used for a long time. Piton rebuilds them on demand.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Virtual environments of Python tools.
    pub environments: Vec<PathBuf>,
    /// Search indexes, including those of deleted projects.
    pub indexes: Vec<PathBuf>,
}

/// The cache entries that were not used for a long time.
pub fn leftovers(ctx: &Context) -> Leftovers {
    each(ctx, python::unused, search::unused)
}

/// Removes them; returns what was removed.
pub fn drop_leftovers(ctx: &Context) -> Leftovers {
    each(ctx, python::remove_unused, search::remove_unused)
}

type Look = fn(&Path, SystemTime) -> Vec<PathBuf>;

fn each(ctx: &Context, environments: Look, indexes: Look) -> Leftovers {
    let Ok(before) = ctx.now().checked_sub(KEPT) else {
        return Leftovers::default();
    };
    let (cache, before) = (ctx.cache_folder(), SystemTime::from(before));
    Leftovers {
        environments: environments(&cache, before),
        indexes: indexes(&cache, before),
    }
}

/// What was deleted, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Collected {
    /// The runs that lose their contents.
    pub dropped: Vec<RunId>,
    /// How many runs keep their contents.
    pub kept: u64,
    /// What is removed from the store. Recent objects stay until a later collection.
    #[serde(flatten)]
    pub swept: Swept,
}

/// What [`collect`] would delete.
pub fn preview(ctx: &Context, limits: RetentionLimits) -> Result<Collected, RunError> {
    let repository = open_repository(ctx)?;
    let plan = plan(ctx, &repository, limits)?;
    let swept = repository.sweep(plan.needed, Sweep::Count)?;
    Ok(Collected {
        dropped: plan.drop,
        kept: plan.kept,
        swept,
    })
}

/// Deletes the contents that are no longer needed.
pub fn collect(
    ctx: &Context,
    limits: RetentionLimits,
    observer: &mut Observer<'_>,
) -> Result<Collected, RunError> {
    let repository = open_repository(ctx)?;
    let seen = plan(ctx, &repository, limits)?;
    if seen.drop.is_empty() && repository.old_refs()?.is_empty() {
        return sweep(&repository, seen);
    }
    let request = RunRequest {
        name: "gc".to_owned(),
        command: vec!["piton".to_owned(), "gc".to_owned()],
        mode: CheckpointMode::Disabled,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let mut session = Session::begin(ctx, &request, observer)?;
    takeover::take_over_refs(&mut session.recorder, &repository)?;
    // Plan again, now with the lock held and interrupted runs recovered.
    let plan = plan(ctx, &repository, limits)?;
    if !plan.drop.is_empty() {
        session.recorder.record(&Event::SnapshotsDropped {
            refs: Vec::new(),
            runs: plan.drop.clone(),
        })?;
    }
    failpoint("gc-decided");
    let collected = sweep(&repository, plan)?;
    session.finish(RunStatus::Succeeded, None)?;
    Ok(collected)
}

fn plan(
    ctx: &Context,
    repository: &Repository,
    limits: RetentionLimits,
) -> Result<Retention, RunError> {
    let (history, mut unreadable) = History::load(&repository.runs_folder())?;
    // An unreadable journal may need any of the contents.
    if !unreadable.is_empty() {
        return Err(unreadable.remove(0).into());
    }
    let (kept, reachable) = (repository.all_kept()?, repository.reachable()?);
    let mut plan = retention::plan(&history, &kept, &reachable, limits, ctx.now());
    let names = kept.into_iter().map(|kept| kept.name);
    plan.release
        .extend(names.filter(|name| baseline::is_abandoned_baseline(name)));
    Ok(plan)
}

fn sweep(repository: &Repository, plan: Retention) -> Result<Collected, RunError> {
    plan.release
        .iter()
        .try_for_each(|name| repository.release(name))?;
    let swept = repository.sweep(plan.needed, Sweep::Remove)?;
    Ok(Collected {
        dropped: plan.drop,
        kept: plan.kept,
        swept,
    })
}
