//! How far a run came that is to be taken up or brought to an end.
//!
//! A [`Standing`] is read from the journal line by line and keeps the newest step only: those before it have ended, and
//! what a summary says about them is all that is needed. So a run of thousands of steps is taken up in little memory.

use std::path::Path;

use super::undo::summary_of;
use crate::audit::history::{Folding, Outcome, RunRecord, StepRecord};
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::{StepList, StepStatus, StepSummary};
use crate::journal::{self, JournalError, Record, RunId};

/// How far a run came.
#[derive(Debug, Default)]
pub(super) struct Standing {
    folding: Folding,
    /// The steps that have ended or were skipped, in order.
    pub(super) steps: StepList,
    /// The hash of what it was started with.
    pub(super) pinned: Option<String>,
    /// Whether everything that the run did was put back.
    pub(super) is_put_back: bool,
    /// What its newest step has started and nobody has seen the end of.
    pub(super) process: Option<StartedProcess>,
    calls_tool: bool,
}

/// A process that a step has started.
#[derive(Clone, Debug)]
pub(super) struct StartedProcess {
    pub(super) pid: u32,
    pub(super) started: u64,
    pub(super) boot: String,
    /// Whether it is a supervisor.
    pub(super) is_supervisor: bool,
}

impl Standing {
    /// Reads the journal of a run below `…/piton/runs`.
    pub(super) fn load(runs: &Path, run: RunId) -> Result<Self, JournalError> {
        let mut standing = Self::default();
        let read = journal::read_each(&journal::path_of(runs, run), &mut |record| standing.take(&record));
        match read {
            Ok(_) => {
                if let Some(run) = &mut standing.folding.run {
                    run.locate(runs);
                }
                Ok(standing)
            }
            Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Err(JournalError::NoRun(run))
            }
            Err(err) => Err(err),
        }
    }

    /// Takes in the next record.
    pub(super) fn take(&mut self, record: &Record) {
        self.folding.take(record);
        let Some(run) = &mut self.folding.run else { return };
        match &record.event {
            Event::RunStarted { pinned, .. } => self.pinned.clone_from(pinned),
            Event::Repinned { pinned, .. } => self.pinned = Some(pinned.clone()),
            Event::RunResumed { restart: Some(restart), .. } => {
                run.skipped.clear();
                let not_run =
                    restart.not_run().map(|(name, _)| StepSummary::without_changes(name, StepStatus::Skipped));
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
                self.steps.push(StepSummary::without_changes(name.clone(), StepStatus::Skipped));
            }
            Event::ToolStarted { pid, started, boot, supervised, .. } => {
                // Older journals do not say that the process of a tool is a supervisor.
                let is_supervisor = *supervised || self.calls_tool;
                let (pid, started, boot) = (*pid, *started, boot.clone());
                // An older journal may not say which one it was; nothing has the number zero.
                self.process = (pid != 0).then_some(StartedProcess { pid, started, boot, is_supervisor });
            }
            Event::ToolFinished { .. } => self.process = None,
            _ => {}
        }
    }

    /// The run, with its newest step only; none when its journal does not begin one.
    pub(super) fn run(&self) -> Option<&RunRecord> {
        self.folding.run.as_ref()
    }
}

/// What a summary says about a step that has ended.
fn ended_step(step: &StepRecord) -> Option<StepSummary> {
    let checkpoint = (step.before.is_some() || step.outcome != Outcome::Open).then(|| summary_of(step));
    let (name, tool, exit_code, signal) = (step.name.clone(), step.tool.clone(), step.exit_code, step.signal);
    Some(StepSummary { name, status: step.status?, tool, exit_code, signal, checkpoint })
}

#[cfg(test)]
mod tests;
