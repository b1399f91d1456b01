//! Words the events of runs, for the terminal and for progress messages of the MCP server.
//!
//! [`narrate`] words one event by itself. [`StepNarrator`] words the events of a directive: one line
//! for each step at its end. Both return [`Narration`] lines, and the front door decides how they
//! look. In JSON an event is shown as it is.

use std::fmt;

use crate::checkpoint::delta::{Delta, Oversized, files, stat};
use crate::checkpoint::path::{RepoPath, listed};
use crate::item::wording::shown;
use crate::journal::event::{CommitMaker, Event, HandCommit, Resolution, StepKind};
use crate::journal::summary::StepStatus;
use crate::problem::Problem;

/// One line about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narration {
    pub tone: Tone,
    pub text: String,
}

/// How a line is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Success,
    Failure,
    Warning,
    /// A warning that `-q` does not hide.
    LoudWarning,
    Note,
    /// Only for a reader who wants to know more.
    Detail,
}

impl Tone {
    fn line(self, text: impl Into<String>) -> Narration {
        let text = text.into();
        Narration { tone: self, text }
    }
}

/// The line as plain text.
impl fmt::Display for Narration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.tone {
            Tone::Success => "✓ ",
            Tone::Failure => "✗ ",
            Tone::Warning | Tone::LoudWarning => "warning: ",
            Tone::Note | Tone::Detail => "",
        };
        write!(f, "{mark}{}", self.text)
    }
}

/// The lines for one event by itself.
pub fn narrate(event: &Event) -> Vec<Narration> {
    match event {
        Event::Committed { notes, .. } => {
            let committed = committed(event).unwrap_or_default();
            let mut lines = vec![Tone::Success.line(format!("committed {committed}"))];
            lines.extend(indented(notes));
            lines
        }
        Event::RolledBack { paths, rescue, .. } => {
            let mut lines = vec![Tone::Failure.line(format!("rolled back {}", files(*paths)))];
            lines.extend(
                roll_back_notes(event)
                    .into_iter()
                    .map(|note| Tone::Warning.line(note)),
            );
            lines.extend(rescue.as_ref().map(|rescue| {
                Tone::Detail.line(format!(
                    "  `piton restore {rescue}` restores the undone work"
                ))
            }));
            lines
        }
        Event::ChangesFound { delta, outside, .. } => {
            let mut lines = not_captured(&delta.not_captured, &delta.too_large);
            lines.extend(changed_by_others(outside).map(|text| Tone::Note.line(text)));
            lines
        }
        Event::HandCommitted { commits, .. } => commits
            .iter()
            .map(|made| Tone::Note.line(hand_made(made)))
            .collect(),
        Event::NoChanges {
            not_captured: paths,
            too_large,
            ..
        } => {
            let mut lines = vec![Tone::Note.line("no changes")];
            lines.extend(not_captured(paths, too_large));
            lines
        }
        Event::CallStarted { number, call, .. } => {
            vec![Tone::Detail.line(format!("call {number}: {}", call.tool()))]
        }
        Event::CallFinished {
            number,
            error: Some(error),
            ..
        } => vec![Tone::Note.line(format!(
            "call {number} did not succeed: {}",
            error.message()
        ))],
        Event::CheckpointFailed { .. } => {
            vec![Tone::Failure.line("no checkpoint was made; the changes stay on disk")]
        }
        Event::CheckpointSkipped { reason, .. } => vec![Tone::Note.line(reason)],
        Event::SnapshotsMoved { refs } => vec![Tone::Note.line(format!(
            "moved the snapshots of {refs} refs below `refs/piton/` to piton's own store"
        ))],
        Event::Recovered { found, did, .. } => {
            vec![Tone::Warning.line(format!("a run had been interrupted: {found}; {did}"))]
        }
        _ => Vec::new(),
    }
}

/// Words the events of a directive. It gathers what a step did, for the line at the step's end.
#[derive(Debug, Default)]
pub struct StepNarrator {
    /// The running step.
    name: String,
    is_checkpoint: bool,
    outcome: Option<String>,
    /// The number of its changes.
    found: Option<String>,
    /// Why the changes stay uncommitted.
    kept: Option<String>,
    notes: Vec<String>,
    /// Files that are too large for checkpoints.
    too_large: Vec<Oversized>,
    attempt: StepAttempt,
}

/// The attempt number of a repeated step.
#[derive(Debug, Default)]
struct StepAttempt {
    name: String,
    number: u32,
}

impl StepNarrator {
    /// Begins to tell about a step; `name` is how its line names it.
    pub fn begin(&mut self, name: String, kind: Option<&StepKind>) {
        *self = Self {
            name,
            is_checkpoint: matches!(kind, Some(StepKind::Checkpoint { .. })),
            attempt: std::mem::take(&mut self.attempt),
            ..Self::default()
        };
    }

    /// The name of a step, with the attempt number from the second on.
    pub fn label(&mut self, name: &str) -> String {
        self.attempt.label(name)
    }

    /// The lines for an event within or between steps. [`Self::begin`] and [`Self::end`] word the
    /// start and the end of a step.
    pub fn event(&mut self, event: &Event) -> Vec<Narration> {
        match event {
            Event::SnapshotsMoved { .. } | Event::Recovered { .. } => return narrate(event),
            Event::Resolved { name, then, error } => {
                return self.resolved(name, *then, error.as_ref());
            }
            Event::StepSkipped { name, reason } => {
                return vec![Tone::Note.line(format!("- {name}  skipped: {reason}"))];
            }
            Event::LoopStarted { name, elements } if elements.is_empty() => {
                let text = format!("- {name}  nothing to do: the list is empty");
                return vec![Tone::Note.line(text)];
            }
            Event::DirectiveStarted {
                name,
                directive,
                hook,
                ..
            } if !name.is_empty() => {
                let why = if hook.is_some() { "hook" } else { "directive" };
                let name = self.label(name);
                return vec![Tone::Note.line(format!("> {name}  {why} {directive}"))];
            }
            Event::SentBack { to, .. } => {
                return vec![Tone::Note.line(format!("  rejected; step `{to}` is done again"))];
            }
            _ => self.gather(event),
        }
        Vec::new()
    }

    /// Remembers what an event says about the running step.
    fn gather(&mut self, event: &Event) {
        match event {
            Event::Committed { notes, .. } => {
                self.outcome = committed(event);
                self.notes.extend(notes.iter().cloned());
            }
            Event::RolledBack { paths, .. } => {
                self.outcome = Some(format!("rolled back {}", files(*paths)));
                self.notes.extend(roll_back_notes(event));
            }
            Event::ChangesFound { delta, outside, .. } => self.found(delta, outside),
            Event::ToolFinished { git_changed, .. } if !git_changed.is_empty() => {
                self.notes.push(git_changes(git_changed));
            }
            Event::Approved { edits, .. } if !edits.is_empty() => self.notes.push(format!(
                "including your edits while the run waited: {}",
                listed(edits)
            )),
            Event::NoChanges { too_large, .. } if !too_large.is_empty() => {
                self.too_large.clone_from(too_large);
            }
            Event::NoChanges { .. } if self.is_checkpoint => {
                self.outcome = Some("nothing to commit".to_owned());
            }
            Event::CheckpointFailed { .. } => {
                self.outcome = Some("no checkpoint; the changes stay".to_owned());
            }
            Event::CheckpointSkipped { reason, .. } => self.kept = Some(reason.clone()),
            _ => {}
        }
    }

    fn found(&mut self, delta: &Delta, outside: &[RepoPath]) {
        let count = delta.changes.len() as u64;
        self.found = (count > 0).then(|| stat(count, delta.insertions(), delta.deletions()));
        let left_alone = outside_checkpoints(&delta.not_captured, &delta.too_large);
        self.notes.extend(left_alone);
        self.notes.extend(changed_by_others(outside));
        self.too_large.clone_from(&delta.too_large);
    }

    fn resolved(
        &mut self,
        name: &str,
        then: Resolution,
        error: Option<&Problem>,
    ) -> Vec<Narration> {
        let why = error.map(Problem::message).unwrap_or_default();
        match then {
            Resolution::Retry => {
                self.attempt.failed(name);
                vec![Tone::Note.line(format!("  {why}; trying again"))]
            }
            Resolution::GoOn => vec![Tone::Note.line(format!("  {why}; the run continues"))],
            // The failure that ends a run is shown at its end.
            Resolution::Stop | Resolution::Abort => Vec::new(),
        }
    }

    /// The lines at the end of the running step; `took` is its duration, or empty.
    pub fn end(&mut self, status: StepStatus, took: &str) -> Vec<Narration> {
        let Self {
            name,
            outcome,
            found,
            kept,
            notes,
            too_large,
            attempt,
            ..
        } = std::mem::take(self);
        self.attempt = attempt;
        let is_done = status == StepStatus::Succeeded;
        let (left, why) = match (found, kept) {
            (Some(stat), Some(_)) if is_done => {
                (Some(format!("changed {stat}, not committed yet")), None)
            }
            (Some(stat), Some(why)) => (Some(format!("changed {stat}, kept")), Some(why)),
            _ => (None, None),
        };
        let outcome = outcome.or(left).unwrap_or_default();
        let parts = [&*name, &*outcome, took];
        let line = parts.into_iter().filter(|part| !part.is_empty());
        let line = line.collect::<Vec<_>>().join("  ");
        let mut lines = vec![match status {
            StepStatus::Succeeded => Tone::Success.line(line),
            StepStatus::CutOff => Tone::Note.line(format!("- {line}  is run again")),
            _ => Tone::Failure.line(line),
        }];
        lines.extend(indented(&notes));
        lines.extend(left_out(&too_large));
        lines.extend(why.map(|why| Tone::Detail.line(format!("  {why}"))));
        lines
    }
}

impl StepAttempt {
    fn failed(&mut self, name: &str) {
        self.number = if self.name == name {
            self.number + 1
        } else {
            2
        };
        name.clone_into(&mut self.name);
    }

    fn label(&mut self, name: &str) -> String {
        let is_inside = name
            .strip_prefix(&*self.name)
            .is_some_and(|rest| rest.starts_with('/'));
        if self.name == name {
            return format!("{name} (attempt {})", self.number);
        }
        if !is_inside {
            *self = Self::default();
        }
        name.to_owned()
    }
}

/// The commit of an [`Event::Committed`]: its short id, summary and size.
fn committed(event: &Event) -> Option<String> {
    let Event::Committed {
        commit,
        message,
        files_changed,
        insertions,
        deletions,
        ..
    } = event
    else {
        return None;
    };
    let summary = message.lines().next().unwrap_or_default();
    let stat = stat(*files_changed, *insertions, *deletions);
    Some(format!("{} {summary} ({stat})", commit.short()))
}

fn indented(notes: &[String]) -> impl Iterator<Item = Narration> {
    notes
        .iter()
        .map(|note| Tone::Note.line(format!("  {note}")))
}

/// A commit that was made with git while a step was open.
pub fn hand_made(made: &HandCommit) -> String {
    let who = match made.by {
        CommitMaker::Step => "the step itself",
        CommitMaker::Other | CommitMaker::Unknown => "another user",
    };
    format!("commit {} was made with git by {who}", made.commit.short())
}

/// What a roll back left alone.
fn roll_back_notes(event: &Event) -> Vec<String> {
    let Event::RolledBack {
        kept, repositories, ..
    } = event
    else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    if !kept.is_empty() {
        notes.push(format!("not rolled back: {}", listed(kept)));
    }
    if !repositories.is_empty() {
        let listed = listed(repositories);
        notes.push(format!(
            "left alone, because they are nested repositories: {listed}; \
             `git submodule update` checks out the commits in the index"
        ));
    }
    notes
}

fn changed_by_others(outside: &[RepoPath]) -> Option<String> {
    (!outside.is_empty()).then(|| {
        format!(
            "changed by another process meanwhile and left alone: {}",
            listed(outside)
        )
    })
}

/// Settings and hooks of git that a tool changed.
fn git_changes(changed: &[String]) -> String {
    let names: Vec<String> = changed
        .iter()
        .map(|name| format!("`{}`", shown(name)))
        .collect();
    format!(
        "{} changed while it ran, which no permission allows",
        names.join(", ")
    )
}

fn not_captured(paths: &[RepoPath], too_large: &[Oversized]) -> Vec<Narration> {
    let others = outside_checkpoints(paths, too_large).map(|text| Tone::Warning.line(text));
    left_out(too_large).chain(others).collect()
}

/// Lists files that are too large for checkpoints, even with `-q`: no commit and no undo covers
/// them.
fn left_out(too_large: &[Oversized]) -> impl Iterator<Item = Narration> {
    too_large.iter().map(|file| {
        Tone::LoudWarning.line(format!(
            "left out of the checkpoint: {}",
            file.description()
        ))
    })
}

/// Changes outside of checkpoints for other reasons than their size.
fn outside_checkpoints(paths: &[RepoPath], too_large: &[Oversized]) -> Option<String> {
    let is_named = |path: &&RepoPath| too_large.iter().any(|file| file.path == **path);
    let others: Vec<RepoPath> = paths
        .iter()
        .filter(|path| !is_named(path))
        .cloned()
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "changed outside of checkpoints and left alone: {}",
            listed(&others)
        )
    })
}
