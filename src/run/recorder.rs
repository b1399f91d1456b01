//! The recorder of a run: writes its events, and knows which step is open.
//!
//! Every event goes to the journal first, then into the state of the directive, then to the
//! observer. The recorder knows nothing about git: functions that need both get a [`Recorder`] and
//! a `Checkpointer`.

use serde_json::{Map, Value};

use super::directive::state::{Cost, RunState};
use super::error::RunError;
use super::recovery::OnFault;
use super::session::Observer;
use super::settle::Settlement;
use super::step::skipped;
use super::touched;
use super::unsettled::{InDirective, RecoveryAction};
use crate::audit::history::RunRecord;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{
    CheckpointSummary, RunStatus, RunSummary, StepList, StepStatus, StepSummary,
};
use crate::journal::{Digest, Journal, RunId, StepId, sequence};
use crate::problem::Problem;
use crate::trust::unreviewed;
use crate::workspace::RunFolders;

/// Writes the journal of a run.
pub(super) struct Recorder<'a> {
    pub(super) ctx: &'a Context,
    pub(super) run: RunId,
    pub(super) mode: CheckpointMode,
    /// The directive, as `id@version`; `None` for a single command or tool.
    pub(super) directive: Option<String>,
    /// The state of the directive; `None` for a single command or tool.
    pub(super) state: Option<Box<RunState>>,
    /// The steps so far, for the summary of the run.
    pub(super) steps: StepList,
    /// The outputs of the directive.
    pub(super) outputs: Map<String, Value>,
    /// The step that has begun and not ended. While there is one, only a recovery can end the run.
    pub(super) open_step: Option<u32>,
    /// What a recovery does with the changes of the open step.
    pub(super) open_recovery: Option<RecoveryAction>,
    /// The tool of the open step, as `id@version`.
    pub(super) open_tool: Option<String>,
    /// The signal that ended the command of the open step.
    pub(super) open_signal: Option<i32>,
    /// What to do when the disk fails while files are restored.
    pub(super) on_fault: OnFault,
    pub(super) folders: RunFolders,
    /// The number of the newest step.
    numbered: u32,
    /// The number of this session in the repository, once it has one.
    order: Option<u64>,
    journal: Journal,
    observer: &'a mut Observer<'a>,
}

impl<'a> Recorder<'a> {
    /// Continues a journal, or starts an empty one.
    pub(super) fn new(
        ctx: &'a Context,
        mode: CheckpointMode,
        journal: Journal,
        folders: RunFolders,
        observer: &'a mut Observer<'_>,
    ) -> Self {
        Self {
            ctx,
            run: journal.run(),
            mode,
            directive: None,
            state: None,
            steps: StepList::default(),
            outputs: Map::new(),
            open_step: None,
            open_recovery: None,
            open_tool: None,
            open_signal: None,
            on_fault: OnFault::Retry,
            folders,
            numbered: 0,
            order: None,
            journal,
            observer,
        }
    }

    /// Writes an event to the journal and shows it to the observer.
    pub(super) fn record(&mut self, event: &Event) -> Result<Digest, RunError> {
        let (at, previous) = (self.ctx.now(), self.journal.head());
        let digest = self.journal.append(at, event)?;
        match event {
            Event::StepStarted { step, .. } => self.numbered = *step,
            Event::ChangesFound { delta, .. } => unreviewed::note_changes(self.ctx, delta),
            Event::Decided { decision, .. } => {
                self.open_recovery = Some(RecoveryAction::of_decision(decision));
            }
            _ => {}
        }
        if let Some(state) = &mut self.state {
            state.apply(at, previous, event);
        }
        (self.observer)(event);
        Ok(digest)
    }

    /// The number of this session in the repository, by which steps are ordered. The caller holds
    /// the lock of the worktree.
    pub(super) fn order(&mut self) -> Result<Option<u64>, RunError> {
        if self.order.is_none() {
            self.order = Some(sequence::next(&self.folders.runs)?);
        }
        Ok(self.order)
    }

    /// The digest of the newest line, which the commit of the next decision names.
    pub(super) fn journal_head(&self) -> Digest {
        self.journal.head()
    }

    /// The number of the open step, or of the next one.
    pub(super) fn next_step(&self) -> u32 {
        self.open_step.unwrap_or(self.numbered.saturating_add(1))
    }

    /// The name of a step of this run.
    pub(super) fn step_id(&self, step: u32) -> StepId {
        StepId {
            run: self.run,
            step,
        }
    }

    /// Continues a run whose earlier `steps` are known.
    pub(super) fn resume(&mut self, record: &RunRecord, steps: StepList) {
        self.steps = steps;
        self.directive.clone_from(&record.directive);
        self.numbered = record.steps.last().map_or(0, |step| step.id.step);
    }

    /// What the directive has used so far.
    pub(super) fn cost(&self) -> Cost {
        self.state
            .as_ref()
            .map(|state| state.cost_at(self.ctx.now()))
            .unwrap_or_default()
    }

    /// Whether the run is that of a directive.
    pub(super) fn in_directive(&self) -> InDirective {
        if self.directive.is_some() {
            InDirective::Yes
        } else {
            InDirective::No
        }
    }

    /// Records the start of a step.
    pub(super) fn open(
        &mut self,
        step: u32,
        name: &str,
        kind: StepKind,
        before: Option<Snapshot>,
        writes: &[String],
    ) -> Result<(), RunError> {
        self.open_step = Some(step);
        let in_directive = self.in_directive();
        self.open_recovery = Some(RecoveryAction::of_undecided(&kind, self.mode, in_directive));
        self.open_tool = kind.tool().map(str::to_owned);
        let (name, tool, writes) = (name.to_owned(), self.open_tool.clone(), writes.to_vec());
        let order = self.order()?;
        self.record(&Event::StepStarted {
            step,
            name,
            kind,
            tool,
            before,
            writes,
            order,
        })?;
        Ok(())
    }

    /// Records the end of a step.
    pub(super) fn finish_step(
        &mut self,
        step: u32,
        name: &str,
        status: StepStatus,
        exit_code: Option<i32>,
        checkpoint: Option<CheckpointSummary>,
        error: Option<&Problem>,
    ) -> Result<(), RunError> {
        self.record(&Event::StepFinished {
            step,
            status,
            error: error.cloned(),
        })?;
        touched::forget(self, step);
        self.open_step = None;
        let (name, tool, signal) = (
            name.to_owned(),
            self.open_tool.take(),
            self.open_signal.take(),
        );
        self.steps.push(StepSummary {
            name,
            status,
            tool,
            exit_code,
            signal,
            checkpoint,
        });
        Ok(())
    }

    /// Records that a step does not run.
    pub(super) fn skip_step(&mut self, name: String, reason: String) -> Result<(), RunError> {
        self.record(&Event::StepSkipped {
            name: name.clone(),
            reason,
        })?;
        self.steps
            .push(StepSummary::without_changes(name, StepStatus::Skipped));
        Ok(())
    }

    /// Records that a step is denied. Nothing of it has run.
    pub(super) fn refuse_step(
        &mut self,
        name: &str,
        kind: StepKind,
        error: &Problem,
    ) -> Result<(), RunError> {
        let number = self.next_step();
        self.open(number, name, kind, None, &[])?;
        self.finish_step(number, name, StepStatus::Denied, None, None, Some(error))
    }

    /// Records that the changes of a step are unknown.
    pub(super) fn skip_checkpoint(&mut self, step: u32) -> Result<Settlement, RunError> {
        let reason = match self.mode {
            CheckpointMode::Disabled => "checkpoints are disabled",
            _ => "no checkpoint, because there is no git repository",
        };
        self.record(&Event::CheckpointSkipped {
            step,
            reason: reason.to_owned(),
        })?;
        Ok(Settlement::of(skipped()))
    }

    /// Records the end of the run, with a summary of its steps.
    pub(super) fn finish_run(
        &mut self,
        status: RunStatus,
        error: Option<Problem>,
        uncommitted: Vec<crate::checkpoint::path::RepoPath>,
    ) -> Result<RunSummary, RunError> {
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
        Ok(summary)
    }
}
