//! The progress of a run that is about to be resumed or recovered.
//!
//! A [`ResumePoint`] reads the journal line by line and keeps only the newest step in full; summaries
//! are enough for the others. So a run of thousands of steps is resumed with little memory.

use std::path::Path;

use super::undo::summary_of;
use crate::audit::history::{Folding, RunRecord, StepOutcome, StepRecord};
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{StepList, StepStatus, StepSummary};
use crate::journal::{self, Continuation, JournalError, Record, RunId, TagCheck};

/// The progress of a run.
#[derive(Debug, Default)]
pub(super) struct ResumePoint {
    folding: Folding,
    /// The completed and skipped steps, in order.
    pub(super) steps: StepList,
    /// The hash of the pinned items.
    pub(super) pinned: Option<String>,
    /// Whether the whole run was rolled back.
    pub(super) is_put_back: bool,
    /// The process of the newest step whose end is not recorded.
    pub(super) process: Option<StartedProcess>,
    calls_tool: bool,
}

#[derive(Clone, Debug)]
pub(super) struct StartedProcess {
    pub(super) pid: u32,
    pub(super) started: u64,
    pub(super) boot: String,
    pub(super) is_supervisor: bool,
}

impl ResumePoint {
    /// Reads the journal of a run below `…/piton/runs`.
    pub(super) fn load(runs: &Path, run: RunId) -> Result<Self, JournalError> {
        Self::load_seen(runs, run, &mut |_| {})
    }

    fn load_seen(
        runs: &Path,
        run: RunId,
        see: &mut dyn FnMut(&Record),
    ) -> Result<Self, JournalError> {
        let mut resume_point = Self::default();
        let read = journal::read_each(&journal::path_of(runs, run), &mut |record| {
            see(&record);
            resume_point.take(&record);
        });
        match read {
            Ok(_) => {
                if let Some(run) = &mut resume_point.folding.run {
                    run.locate(runs);
                }
                Ok(resume_point)
            }
            Err(JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Err(JournalError::NoRun(run))
            }
            Err(err) => Err(err),
        }
    }

    /// Like [`Self::load`], for a run that is about to continue.
    pub(super) fn load_authenticated(
        runs: &Path,
        run: RunId,
        continuation: &Continuation,
    ) -> Result<Self, JournalError> {
        let mut tags = TagCheck::new(continuation.key.as_ref());
        let resume_point = Self::load_seen(runs, run, &mut |record| tags.take(record))?;
        tags.demand(
            continuation.demand,
            run.started(),
            &journal::path_of(runs, run),
        )?;
        Ok(resume_point)
    }

    /// Adds the next record.
    pub(super) fn take(&mut self, record: &Record) {
        self.folding.take(record);
        let Some(run) = &mut self.folding.run else {
            return;
        };
        match &record.event {
            Event::RunStarted { pinned, .. } => self.pinned.clone_from(pinned),
            Event::Repinned { pinned, .. } => self.pinned = Some(pinned.clone()),
            Event::RunResumed {
                restart: Some(restart),
                ..
            } => {
                run.skipped.clear();
                let not_run = restart
                    .not_run()
                    .map(|(name, _)| StepSummary::without_changes(name, StepStatus::Skipped));
                self.steps.extend(not_run);
            }
            Event::StepStarted { kind, .. } => {
                run.steps.drain(..run.steps.len().saturating_sub(1));
                self.calls_tool = matches!(kind, StepKind::Tool(_));
            }
            Event::StepFinished { status, .. } => {
                let newest = run.steps.last();
                self.is_put_back |= *status == StepStatus::Succeeded
                    && newest.is_some_and(|step| matches!(step.kind, StepKind::RollBackRun { .. }));
                self.steps.extend(newest.and_then(ended_step));
            }
            Event::StepSkipped { name, .. } => {
                run.skipped.clear();
                self.steps.push(StepSummary::without_changes(
                    name.clone(),
                    StepStatus::Skipped,
                ));
            }
            Event::ToolStarted {
                pid,
                started,
                boot,
                supervised,
                ..
            } => {
                // Older journals do not record that the process of a tool is a supervisor.
                let is_supervisor = *supervised || self.calls_tool;
                let (pid, started, boot) = (*pid, *started, boot.clone());
                // Older journals may lack the process id; no process has the id 0.
                self.process = (pid != 0).then_some(StartedProcess {
                    pid,
                    started,
                    boot,
                    is_supervisor,
                });
            }
            Event::ToolFinished { .. } => self.process = None,
            _ => {}
        }
    }

    /// The run, with its newest step only; `None` if its journal has no start event.
    pub(super) fn run(&self) -> Option<&RunRecord> {
        self.folding.run.as_ref()
    }
}

/// The summary of a step that has ended.
fn ended_step(step: &StepRecord) -> Option<StepSummary> {
    let checkpoint =
        (step.before.is_some() || step.outcome != StepOutcome::Open).then(|| summary_of(step));
    let (name, tool, exit_code, signal) = (
        step.name.clone(),
        step.tool.clone(),
        step.exit_code,
        step.signal,
    );
    Some(StepSummary {
        name,
        status: step.status?,
        tool,
        exit_code,
        signal,
        checkpoint,
    })
}

#[cfg(test)]
mod tests;
