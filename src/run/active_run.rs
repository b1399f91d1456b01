//! Whether a git hook runs inside a run of piton. The hook holds no lock.
//!
//! Environment variables only name a candidate, because any process can set them. A run counts if a
//! live process holds the lock of the worktree and the last step in its journal is open, or if the
//! marker names a run that waits for work. [`ActiveRun`] is the type to read first.

use std::ops::ControlFlow;
use std::path::Path;

use super::error::RunError;
use super::resume_point::ResumePoint;
use super::unfinished_note;
use crate::checkpoint::message::Trailers;
use crate::journal::event::{CommitMaker, Event, Wait};
use crate::journal::lock::{self, Holder};
use crate::journal::{self, Digest, JournalError, RunId, StepId};

/// A run that is active in a worktree, or waits for work there.
#[derive(Clone, Debug)]
pub struct ActiveRun {
    pub step: StepId,
    /// Whether the asking process belongs to the step.
    pub by: CommitMaker,
    /// Whether the run waits for work by a person or an agent.
    pub waits: bool,
    name: String,
    tool: Option<String>,
    directive: Option<String>,
    head: Digest,
}

impl ActiveRun {
    /// The name of the directive of the step.
    pub fn directive(&self) -> Option<&str> {
        self.directive
            .as_deref()
            .map(|label| label.split_once('@').map_or(label, |(name, _)| name))
    }

    /// The trailers for a commit of the step.
    pub(crate) fn trailers(&self) -> Trailers {
        Trailers {
            run: self.step.run.to_string(),
            step: format!("{} {}", self.step.step, self.name),
            tool: self.tool.clone(),
            directive: self.directive.clone(),
            journal: self.head.to_string(),
            undoes: Vec::new(),
        }
    }
}

/// Finds the active or waiting run of a worktree; `candidate` is the run that the environment of
/// the process names.
pub fn find(
    own: &Path,
    runs: &Path,
    candidate: Option<&str>,
) -> Result<Option<ActiveRun>, RunError> {
    if let Some(Holder { run, .. }) = lock::current_holder(own) {
        let by = if candidate == Some(run.to_string().as_str()) {
            CommitMaker::Step
        } else {
            CommitMaker::Other
        };
        return open_step(runs, run, by, Expected::Work);
    }
    let Some(waiting) = unfinished_note::named(own)? else {
        return Ok(None);
    };
    match candidate {
        // The process belongs to a run in another worktree.
        Some(other) if other != waiting.to_string() => Ok(None),
        Some(_) => open_step(runs, waiting, CommitMaker::Step, Expected::Wait),
        None => open_step(runs, waiting, CommitMaker::Other, Expected::Wait),
    }
}

/// What the run must be doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Work,
    Wait,
}

fn open_step(
    runs: &Path,
    run: RunId,
    by: CommitMaker,
    expected: Expected,
) -> Result<Option<ActiveRun>, RunError> {
    let mut resume_point = ResumePoint::default();
    let mut head = None;
    let mut directives: Vec<String> = Vec::new();
    let read = journal::read_each(&journal::path_of(runs, run), &mut |record| {
        match &record.event {
            Event::DirectiveStarted { directive, .. } => directives.push(directive.clone()),
            Event::DirectiveFinished { .. } => drop(directives.pop()),
            _ => {}
        }
        head = Some(record.digest);
        resume_point.take(&record);
    });
    match read {
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        read => read?,
    };
    let Some(record) = resume_point.run().filter(|record| record.is_open()) else {
        return Ok(None);
    };
    let Some(step) = record.steps.last().filter(|step| step.status.is_none()) else {
        return Ok(None);
    };
    let waits = matches!(step.wait, Some(Wait::Work { .. })) && record.summary.is_some();
    let (Some(head), true) = (head, waits == (expected == Expected::Wait)) else {
        return Ok(None);
    };
    Ok(Some(ActiveRun {
        step: step.id,
        by,
        waits,
        name: step.name.clone(),
        tool: step.tool.clone(),
        directive: directives.pop(),
        head,
    }))
}

/// Whether piton itself is making a commit here: the run that holds the worktree has announced its
/// hooks with this token, which only they receive, and its step is still open.
pub fn is_own_commit(own: &Path, runs: &Path, token: &[u8]) -> bool {
    let Some(holder) = lock::current_holder(own) else {
        return false;
    };
    let mut is_own = false;
    // An unreadable journal confirms nothing.
    let _ = journal::read_back(
        &journal::path_of(runs, holder.run),
        &mut |record| match &record.event {
            Event::HooksStarted {
                token: announced, ..
            } => {
                is_own = Digest::of(token) == *announced;
                ControlFlow::Break(())
            }
            Event::StepFinished { .. } | Event::StepStarted { .. } | Event::RunFinished(_) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        },
    );
    is_own
}
