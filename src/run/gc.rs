//! Dropping contents of old runs, virtual environments and indexes that are not needed any more.
//!
//! A run of its own: which runs lose their contents is in its journal before they do. Only the private
//! store gets smaller; git's objects and the journals stay.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;

use super::baseline;
use super::error::RunError;
use super::session::{Observer, RunRequest, Session, open_repository};
use crate::audit::history::History;
use crate::audit::retention::{self, Limits, Retention};
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

/// For how long what nobody uses is kept in the cache.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// What lies in the cache and was not used for long. All of it is made again when it is needed again.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// The virtual environments of Python tools.
    pub environments: Vec<PathBuf>,
    /// The indexes of items, also those of projects that are gone.
    pub indexes: Vec<PathBuf>,
}

/// What in the cache was not used for long.
pub fn leftovers(ctx: &Context) -> Leftovers {
    each(ctx, python::unused, search::unused)
}

/// Removes it; returns what is gone.
pub fn drop_leftovers(ctx: &Context) -> Leftovers {
    each(ctx, python::remove_unused, search::remove_unused)
}

type Look = fn(&Path, SystemTime) -> Vec<PathBuf>;

fn each(ctx: &Context, environments: Look, indexes: Look) -> Leftovers {
    let Ok(before) = ctx.now().checked_sub(KEPT) else { return Leftovers::default() };
    let (cache, before) = (ctx.cache_folder(), SystemTime::from(before));
    Leftovers { environments: environments(&cache, before), indexes: indexes(&cache, before) }
}

/// What is dropped, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Collected {
    /// The runs whose contents go.
    pub dropped: Vec<RunId>,
    /// How many runs with contents stay.
    pub kept: u64,
    /// What leaves the store. Young objects stay until the next time.
    #[serde(flatten)]
    pub swept: Swept,
}

/// What [`collect`] would drop.
pub fn preview(ctx: &Context, limits: Limits) -> Result<Collected, RunError> {
    let repository = open_repository(ctx)?;
    let plan = plan(ctx, &repository, limits)?;
    let swept = repository.sweep(plan.needed, Sweep::Count)?;
    Ok(Collected { dropped: plan.drop, kept: plan.kept, swept })
}

/// Drops the contents that nothing needs.
pub fn collect(ctx: &Context, limits: Limits, observer: &mut Observer<'_>) -> Result<Collected, RunError> {
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
    session.take_over_refs(&repository)?;
    // Judged again: with the lock held and everything that was cut off brought to an end.
    let plan = plan(ctx, &repository, limits)?;
    if !plan.drop.is_empty() {
        session.record(&Event::SnapshotsDropped { refs: Vec::new(), runs: plan.drop.clone() })?;
    }
    failpoint("gc-decided");
    let collected = sweep(&repository, plan)?;
    session.finish(RunStatus::Succeeded, None)?;
    Ok(collected)
}

fn plan(ctx: &Context, repository: &Repository, limits: Limits) -> Result<Retention, RunError> {
    let (history, mut unreadable) = History::load(&repository.runs_folder())?;
    // What a journal needs that cannot be read is not known.
    if !unreadable.is_empty() {
        return Err(unreadable.remove(0).into());
    }
    let (kept, reachable) = (repository.all_kept()?, repository.reachable()?);
    let mut plan = retention::plan(&history, &kept, &reachable, limits, ctx.now());
    let names = kept.into_iter().map(|kept| kept.name);
    plan.release.extend(names.filter(|name| baseline::is_abandoned_baseline(name)));
    Ok(plan)
}

fn sweep(repository: &Repository, plan: Retention) -> Result<Collected, RunError> {
    plan.release.iter().try_for_each(|name| repository.release(name))?;
    let swept = repository.sweep(plan.needed, Sweep::Remove)?;
    Ok(Collected { dropped: plan.drop, kept: plan.kept, swept })
}
