//! Prints the events of a run as text; `--format json` prints the same events as JSON lines.

use super::ui::{Format, Ui};
use crate::checkpoint::delta::{Delta, Oversized};
pub(super) use crate::checkpoint::delta::{files, stat};
use crate::checkpoint::path::{RepoPath, listed};
use crate::error::ExitStatus;
use crate::journal::event::{Event, HandCommit, Maker};
use crate::journal::summary::{RunStatus, RunSummary};
use crate::problem::Problem;

/// Shows one event.
pub(super) fn event(ui: &mut Ui, event: &Event) {
    if ui.format() == Format::Json {
        ui.json_now(event);
        return;
    }
    match event {
        Event::Committed { commit, message, files_changed, insertions, deletions, notes, .. } => {
            let summary = message.lines().next().unwrap_or_default();
            let stat = stat(*files_changed, *insertions, *deletions);
            ui.success(&format!("committed {} {summary} ({stat})", commit.short()));
            for note in notes {
                ui.note(&format!("  {note}"));
            }
        }
        Event::RolledBack { paths, rescue, .. } => {
            ui.failure(&format!("rolled back {}", files(*paths)));
            for note in roll_back_notes(event) {
                ui.warning(&note);
            }
            if let Some(rescue) = rescue {
                ui.detail(&format!("  `piton restore {rescue}` brings the undone work back"));
            }
        }
        Event::ChangesFound { delta, outside, .. } => {
            not_captured(ui, &delta.not_captured, &delta.too_large);
            if !outside.is_empty() {
                ui.note(&format!("changed by another process meanwhile and left alone: {}", listed(outside)));
            }
        }
        Event::HandCommitted { commits, .. } => commits.iter().for_each(|made| ui.note(&hand_made(made))),
        Event::NoChanges { not_captured: paths, too_large, .. } => {
            ui.note("no changes");
            not_captured(ui, paths, too_large);
        }
        Event::CallStarted { number, call, .. } => ui.detail(&format!("call {number}: {}", call.tool())),
        Event::CallFinished { number, error: Some(error), .. } => {
            ui.note(&format!("call {number} did not succeed: {}", error.message()));
        }
        Event::CheckpointFailed { .. } => ui.failure("no checkpoint was made; the changes stay on disk"),
        Event::CheckpointSkipped { reason, .. } => ui.note(&format!("no checkpoint: {reason}")),
        Event::SnapshotsMoved { refs } => {
            ui.note(&format!("moved the snapshots of {refs} refs below `refs/piton/` into piton's own store"));
        }
        Event::Recovered { found, did, .. } => {
            ui.warning(&format!("a run had been cut off: {found}; {did}"));
        }
        _ => {}
    }
}

/// A commit that was made while a step was open.
pub(super) fn hand_made(made: &HandCommit) -> String {
    let who = match made.by {
        Maker::Step => "the step itself",
        Maker::Somebody | Maker::Unknown => "somebody at work here",
    };
    format!("commit {} was made with git by {who}", made.commit.short())
}

/// What a roll back left as it is.
pub(super) fn roll_back_notes(event: &Event) -> Vec<String> {
    let Event::RolledBack { kept, repositories, .. } = event else { return Vec::new() };
    let mut notes = Vec::new();
    if !kept.is_empty() {
        notes.push(format!("not put back: {}", listed(kept)));
    }
    if !repositories.is_empty() {
        let listed = listed(repositories);
        notes.push(format!(
            "left where they are, because they are repositories of their own: {listed}; \
             `git submodule update` checks out the commits that the index names"
        ));
    }
    notes
}

/// What changed and is not the step's, or in no checkpoint.
pub(super) fn found_notes(delta: &Delta, outside: &[RepoPath]) -> Vec<String> {
    let mut notes: Vec<String> = outside_checkpoints(&delta.not_captured, &delta.too_large).into_iter().collect();
    if !outside.is_empty() {
        notes.push(format!("changed by another process meanwhile and left alone: {}", listed(outside)));
    }
    notes
}

fn not_captured(ui: &mut Ui, paths: &[RepoPath], too_large: &[Oversized]) {
    left_out(ui, too_large);
    if let Some(text) = outside_checkpoints(paths, too_large) {
        ui.warning(&text);
    }
}

/// Names files that were left out for their size, with `-q` too: no commit and no undo has them.
pub(super) fn left_out(ui: &mut Ui, too_large: &[Oversized]) {
    for file in too_large {
        ui.loud_warning(&format!("left out of the checkpoint: {}", file.in_words()));
    }
}

/// What changed outside of checkpoints for another reason than its size.
fn outside_checkpoints(paths: &[RepoPath], too_large: &[Oversized]) -> Option<String> {
    let is_named = |path: &&RepoPath| too_large.iter().any(|file| file.path == **path);
    let others: Vec<RepoPath> = paths.iter().filter(|path| !is_named(path)).cloned().collect();
    (!others.is_empty()).then(|| format!("changed outside of checkpoints and left alone: {}", listed(&others)))
}

/// Shows how a run ended and makes it an exit code. `events` has said the rest.
pub(super) fn end(ui: &mut Ui, summary: &RunSummary) -> ExitStatus {
    if let (Format::Human, Some(error)) = (ui.format(), &summary.error) {
        failed(ui, error);
    }
    match summary.status {
        RunStatus::Succeeded => ExitStatus::Success,
        RunStatus::Failed => ExitStatus::Failure,
        RunStatus::Waiting => ExitStatus::Waiting,
        RunStatus::Denied => ExitStatus::Denied,
        RunStatus::Cancelled => ExitStatus::Interrupted,
    }
}

fn failed(ui: &mut Ui, error: &Problem) {
    ui.complaint(&format!("{} [{}]", error.message(), error.code));
    if let Some(hint) = &error.hint {
        ui.hint(&hint.to_string());
    }
}
