//! Whether something happens inside a run, as seen by a process that holds nothing: a git hook.
//!
//! Variables only name a candidate, because anybody can set them. What counts is the lock of the worktree, whose holder is
//! alive, with a journal whose last step is open; or the note of a run that waits for work. [`Presence`] is the type to read first.

use std::ops::ControlFlow;
use std::path::Path;

use super::error::RunError;
use super::marker;
use super::standing::Standing;
use crate::checkpoint::message::Trailers;
use crate::journal::event::{Event, Maker, Wait};
use crate::journal::lock::{self, Holder};
use crate::journal::{self, Digest, JournalError, RunId, StepId};

/// A run that is at work, or waits for work, in a worktree.
#[derive(Clone, Debug)]
pub struct Presence {
    /// The step that is open.
    pub step: StepId,
    /// Whether whoever asks is a process of the step.
    pub by: Maker,
    /// Whether the run waits for whoever does its work.
    pub waits: bool,
    name: String,
    tool: Option<String>,
    directive: Option<String>,
    head: Digest,
}

impl Presence {
    /// The directive that the step is in, by its name.
    pub fn directive(&self) -> Option<&str> {
        self.directive.as_deref().map(|label| label.split_once('@').map_or(label, |(name, _)| name))
    }

    /// What a commit of the step says about where it comes from.
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

/// Finds the run that is at work in a worktree, or waits there for work; `candidate` is what a variable of the process
/// says about its run.
pub fn find(own: &Path, runs: &Path, candidate: Option<&str>) -> Result<Option<Presence>, RunError> {
    if let Some(Holder { run, .. }) = lock::current_holder(own) {
        let by = if candidate == Some(run.to_string().as_str()) { Maker::Step } else { Maker::Somebody };
        return open_step(runs, run, by, Expected::Work);
    }
    let Some(waiting) = marker::named(own)? else {
        return Ok(None);
    };
    match candidate {
        // A process of another run, which has no business here.
        Some(other) if other != waiting.to_string() => Ok(None),
        Some(_) => open_step(runs, waiting, Maker::Step, Expected::Wait),
        None => open_step(runs, waiting, Maker::Somebody, Expected::Wait),
    }
}

/// What a run has to be doing to count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Work,
    Wait,
}

fn open_step(runs: &Path, run: RunId, by: Maker, expected: Expected) -> Result<Option<Presence>, RunError> {
    let mut standing = Standing::default();
    let mut head = None;
    let mut directives: Vec<String> = Vec::new();
    let read = journal::read_each(&journal::path_of(runs, run), &mut |record| {
        match &record.event {
            Event::DirectiveStarted { directive, .. } => directives.push(directive.clone()),
            Event::DirectiveFinished { .. } => drop(directives.pop()),
            _ => {}
        }
        head = Some(record.digest);
        standing.take(&record);
    });
    match read {
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let Some(record) = standing.run().filter(|record| record.is_open()) else { return Ok(None) };
    let Some(step) = record.steps.last().filter(|step| step.status.is_none()) else { return Ok(None) };
    let waits = matches!(step.wait, Some(Wait::Work { .. })) && record.summary.is_some();
    let (Some(head), true) = (head, waits == (expected == Expected::Wait)) else { return Ok(None) };
    Ok(Some(Presence {
        step: step.id,
        by,
        waits,
        name: step.name.clone(),
        tool: step.tool.clone(),
        directive: directives.pop(),
        head,
    }))
}

/// Whether a commit is one that piton itself is making here: the run that holds the worktree has announced its hooks,
/// with a token that only they were given, and its step has not ended.
pub fn is_own_commit(own: &Path, runs: &Path, token: &[u8]) -> bool {
    let Some(holder) = lock::current_holder(own) else { return false };
    let mut is_own = false;
    // A journal that cannot be read vouches for nothing.
    let _ = journal::read_back(&journal::path_of(runs, holder.run), &mut |record| match &record.event {
        Event::HooksStarted { token: announced, .. } => {
            is_own = Digest::of(token) == *announced;
            ControlFlow::Break(())
        }
        Event::StepFinished { .. } | Event::StepStarted { .. } | Event::RunFinished(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    is_own
}
