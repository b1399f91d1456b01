//! Excludes the changes of runs beside a waiting step from the changes of that step.

use super::Run;
use crate::audit::history::{History, RunRecord, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::snapshot::Snapshot;
use crate::journal::event::{Event, StepKind};
use crate::run::error::RunError;
use crate::run::undo::combine;

impl Run<'_> {
    /// Moves the state before a waiting step over the runs beside it.
    pub(super) fn move_base(&mut self) -> Result<(), RunError> {
        let Some(open) = self.state().and_then(|state| state.open.clone()) else {
            return Ok(());
        };
        let (Some(before), Some(checkpointer)) = (open.before, self.session.checkpointer.as_ref())
        else {
            return Ok(());
        };
        let (history, _) = History::load(&self.session.recorder.folders.runs)?;
        let mut beside: Vec<&RunRecord> = history
            .runs
            .iter()
            .filter(|run| run.beside == Some(open.id))
            .collect();
        beside.reverse();
        beside.retain(|run| !open.beside.contains(&run.id));
        if beside.is_empty() {
            return Ok(());
        }
        let steps = || {
            beside
                .iter()
                .flat_map(|run| &run.steps)
                .filter(|step| step.took_effect())
        };
        // A checkpoint commits and changes no file.
        let is_written = |step: &&StepRecord| !matches!(step.kind, StepKind::Checkpoint { .. });
        let changes: Vec<Change> = combine(
            steps()
                .filter(is_written)
                .filter_map(|it| it.delta.as_ref()),
        )
        .changes;
        let commits: Vec<_> = steps().filter_map(StepRecord::commit).collect();
        let moved = checkpointer.move_base(&before, &changes, &commits)?;
        // The recorded changes are the difference of both snapshots: move them together.
        let (mut after, mut delta) = (None, None);
        if let Some(found) = &open.after {
            let found = checkpointer.move_base(found, &changes, &commits)?;
            // A checkpoint commits the changes of earlier steps, and has no difference of its own.
            if !matches!(open.kind, StepKind::Checkpoint { .. }) {
                delta = moved_delta(checkpointer, &moved, &found, open.delta)?;
            }
            after = Some(Box::new(found));
        }
        let runs = beside.iter().map(|run| run.id).collect();
        self.session.recorder.record(&Event::BaseMoved {
            step: open.id.step,
            before: moved,
            after,
            delta,
            runs,
        })?;
        Ok(())
    }

    /// Forgets changes of earlier steps that were committed or undone while the run waited.
    pub(super) fn forget_settled(&mut self) -> Result<(), RunError> {
        let Some(repository) = self
            .session
            .checkpointer
            .as_ref()
            .map(crate::checkpoint::checkpointer::Checkpointer::repository)
        else {
            return Ok(());
        };
        if self.state().is_none_or(|state| state.pending.is_empty()) {
            return Ok(());
        }
        let root = repository.top().to_string_lossy().into_owned();
        let (history, _) = History::load(&repository.runs_folder())?;
        let left: Vec<_> = history
            .pending(&root)
            .into_iter()
            .map(|step| step.id)
            .collect();
        if let Some(state) = &mut self.session.recorder.state {
            state.pending.retain(|kept| left.contains(&kept.id));
        }
        Ok(())
    }
}

/// The changes of a step between moved states. Only files and the index can have moved.
fn moved_delta(
    checkpointer: &Checkpointer,
    before: &Snapshot,
    after: &Snapshot,
    delta: Option<Delta>,
) -> Result<Option<Delta>, CheckpointError> {
    let Some(delta) = delta else { return Ok(None) };
    let Delta {
        mut changes, index, ..
    } = checkpointer.delta(before, after)?;
    changes.retain(|change| !delta.not_captured.contains(&change.path));
    Ok(Some(Delta {
        changes,
        index,
        ..delta
    }))
}
