//! Dropping snapshots, virtual environments and indexes that nobody needs any more.
//!
//! A run of its own: what is dropped is in its journal before it is dropped. Only refs of ours go;
//! their objects vanish when git collects its garbage, journals stay for ever.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;

use super::baseline;
use super::error::RunError;
use super::session::{Observer, RunRequest, Session, open_repository};
use crate::audit::history::History;
use crate::audit::retention::{self, Limits, Retention};
use crate::context::Context;
use crate::exec::python;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::item::search;
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

/// What [`collect`] would drop.
pub fn preview(ctx: &Context, limits: Limits) -> Result<Retention, RunError> {
    let repository = open_repository(ctx)?;
    let (history, _) = History::load(&repository.runs_folder())?;
    let (pins, reachable) = (repository.pins()?, repository.reachable()?);
    let abandoned = baseline::abandoned(&pins);
    let mut retention = retention::plan(&history, pins, &reachable, limits, ctx.now());
    retention.kept = retention.kept.saturating_sub(abandoned.len() as u64);
    retention.drop.extend(abandoned);
    Ok(retention)
}

/// Drops the snapshots that nobody needs.
pub fn collect(ctx: &Context, limits: Limits, observer: &mut Observer<'_>) -> Result<Retention, RunError> {
    let seen = preview(ctx, limits)?;
    if seen.drop.is_empty() {
        return Ok(seen);
    }
    let request = RunRequest {
        name: "gc".to_owned(),
        command: vec!["piton".to_owned(), "gc".to_owned()],
        mode: CheckpointMode::Disabled,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let mut session = Session::begin(ctx, &request, observer)?;
    // Judged again: with the lock held and everything that was cut off brought to an end.
    let retention = preview(ctx, limits)?;
    session.record(&Event::SnapshotsDropped { refs: retention.drop.iter().map(|pin| pin.name.clone()).collect() })?;
    failpoint("gc-decided");
    open_repository(ctx)?.remove_pins(&retention.drop)?;
    session.finish(RunStatus::Succeeded, None)?;
    Ok(retention)
}
