//! Moves data that earlier versions kept in refs below `refs/piton/` to the private store.
//!
//! Snapshots used to be commits below `refs/piton/local/`, which `git push --mirror` and similar
//! commands sent to remotes. The first run copies their contents to the private store, records that
//! in its journal, and then removes the refs. Each part can be repeated, so the next run completes
//! an interrupted migration.

use super::error::RunError;
use super::recorder::Recorder;
use crate::audit::history::History;
use crate::checkpoint::content::Sides;
use crate::checkpoint::repository::Repository;
use crate::failpoint::failpoint;
use crate::journal::event::Event;

/// Moves the data of the old refs to the private store.
pub(super) fn take_over_refs(
    recorder: &mut Recorder<'_>,
    repository: &Repository,
) -> Result<(), RunError> {
    let refs = repository.old_refs()?;
    if refs.is_empty() {
        return Ok(repository.forget_old_refs(&refs)?);
    }
    let (history, _) = History::load(&repository.runs_folder())?;
    let steps = history.runs.iter().flat_map(|run| &run.steps);
    let steps: Vec<Sides<'_>> = steps
        .map(|step| (step.before.as_ref(), step.after.as_ref()))
        .collect();
    repository.take_over(&refs, &steps)?;
    failpoint("refs-copied");
    recorder.record(&Event::SnapshotsMoved {
        refs: refs.len() as u64,
    })?;
    failpoint("refs-told");
    Ok(repository.forget_old_refs(&refs)?)
}
