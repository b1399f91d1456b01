//! Taking over what earlier versions kept by refs below `refs/piton/`.
//!
//! Snapshots were commits below `refs/piton/local/`, which `git push --mirror` and its kin sent to others. The
//! first run that begins or goes on copies what such refs keep into the private store, writes into its journal that it has done so, and
//! then removes the refs. Each part may be done again, so a takeover that is cut off is done by the next run.

use super::error::RunError;
use super::session::Session;
use crate::audit::history::History;
use crate::checkpoint::content::Sides;
use crate::checkpoint::repository::Repository;
use crate::failpoint::failpoint;
use crate::journal::event::Event;

impl Session<'_, '_> {
    /// As [`Self::take_over_refs`], in the repository of the run; nothing is done for a run without checkpoints.
    pub(super) fn take_over_own_refs(&mut self) -> Result<(), RunError> {
        let Some(checkpointer) = self.checkpointer.take() else { return Ok(()) };
        let taken = self.take_over_refs(checkpointer.repository());
        self.checkpointer = Some(checkpointer);
        taken
    }

    /// Moves what refs of earlier versions keep into the private store.
    pub(super) fn take_over_refs(&mut self, repository: &Repository) -> Result<(), RunError> {
        let refs = repository.old_refs()?;
        if refs.is_empty() {
            return Ok(repository.forget_old_refs(&refs)?);
        }
        let (history, _) = History::load(&repository.runs_folder())?;
        let steps = history.runs.iter().flat_map(|run| &run.steps);
        let steps: Vec<Sides<'_>> = steps.map(|step| (step.before.as_ref(), step.after.as_ref())).collect();
        repository.take_over(&refs, &steps)?;
        failpoint("refs-copied");
        self.record(&Event::SnapshotsMoved { refs: refs.len() as u64 })?;
        failpoint("refs-told");
        Ok(repository.forget_old_refs(&refs)?)
    }
}
