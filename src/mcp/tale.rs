//! Progress messages about the events of a run.

use super::call::Work;
use crate::checkpoint::delta::{files, stat};
use crate::journal::event::{Event, Resolution};
use crate::journal::summary::StepStatus;

#[derive(Debug)]
pub(crate) struct Tale<'w> {
    work: &'w Work,
    /// The running step.
    name: String,
    /// What happened to the changes of the running step.
    outcome: Option<String>,
}

impl<'w> Tale<'w> {
    pub(crate) fn new(work: &'w Work) -> Self {
        Self { work, name: String::new(), outcome: None }
    }

    /// Reports an event if it is relevant for progress.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::StepStarted { name, .. } => {
                self.outcome = None;
                self.name.clone_from(name);
                self.work.tell(format!("{name} begins"));
            }
            Event::Committed { commit, message, files_changed, insertions, deletions, .. } => {
                let summary = message.lines().next().unwrap_or_default();
                let stat = stat(*files_changed, *insertions, *deletions);
                self.outcome = Some(format!("{} {summary} ({stat})", commit.short()));
            }
            Event::RolledBack { paths, .. } => self.outcome = Some(format!("rolled back {}", files(*paths))),
            Event::CheckpointFailed { .. } => self.outcome = Some("no checkpoint; the changes stay".to_owned()),
            Event::StepFinished { status, .. } => {
                let mark = if *status == StepStatus::Succeeded { '✓' } else { '✗' };
                let outcome = self.outcome.take().map(|text| format!("  {text}")).unwrap_or_default();
                self.work.tell(format!("{mark} {}{outcome}", self.name));
            }
            Event::StepSkipped { name, reason } => self.work.tell(format!("- {name}  skipped: {reason}")),
            Event::Resolved { name, then: Resolution::Retry, .. } => self.work.tell(format!("{name} is tried again")),
            Event::DirectiveStarted { name, directive, .. } if !name.is_empty() => {
                self.work.tell(format!("> {name}  {directive}"));
            }
            Event::SnapshotsMoved { .. } => {
                self.work.tell("moved snapshots of an earlier version into piton's own store".to_owned());
            }
            Event::Recovered { found, did, .. } => self.work.tell(format!("a run had been cut off: {found}; {did}")),
            _ => {}
        }
    }
}
