//! Dropping snapshots and virtual environments that nobody needs any more.
//!
//! A run of its own: what is dropped is in its journal before it is dropped. Only refs of ours go;
//! their objects vanish when git collects its garbage, journals stay for ever.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;

use super::error::RunError;
use super::session::{Observer, RunRequest, Session, open_repository};
use crate::audit::history::History;
use crate::audit::retention::{self, Limits, Retention};
use crate::context::Context;
use crate::exec::python;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::journal::summary::RunStatus;

/// For how long a virtual environment that nobody uses is kept.
const KEPT_ENVIRONMENTS: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The virtual environments of Python tools that were not used for long.
pub fn old_environments(ctx: &Context) -> Vec<PathBuf> {
    oldest_use(ctx).map(|before| python::unused(&ctx.cache_folder(), before)).unwrap_or_default()
}

/// Removes them. They are a cache: a tool that needs one again has it made again.
pub fn drop_environments(ctx: &Context) -> Vec<PathBuf> {
    oldest_use(ctx).map(|before| python::remove_unused(&ctx.cache_folder(), before)).unwrap_or_default()
}

fn oldest_use(ctx: &Context) -> Option<SystemTime> {
    Some(SystemTime::from(ctx.now().checked_sub(KEPT_ENVIRONMENTS).ok()?))
}

/// What [`collect`] would drop.
pub fn preview(ctx: &Context, limits: Limits) -> Result<Retention, RunError> {
    let repository = open_repository(ctx)?;
    let (history, _) = History::load(&repository.runs_folder())?;
    let (pins, reachable) = (repository.pins()?, repository.reachable()?);
    Ok(retention::plan(&history, pins, &reachable, limits, ctx.now()))
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
