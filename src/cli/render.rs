//! Prints the events of a run as text; `--format json` prints the same events as JSON lines.

use super::ui::{Format, Ui};
pub(super) use crate::checkpoint::delta::{files, stat};
use crate::error::ExitStatus;
use crate::journal::event::Event;
use crate::journal::summary::{RunStatus, RunSummary};
use crate::problem::{Code, Problem};
use crate::run::narration::{Narration, Tone, narrate};

/// Shows one event.
pub(super) fn event(ui: &mut Ui, event: &Event) {
    if ui.format() == Format::Json {
        ui.json_now(event);
    } else {
        lines(ui, &narrate(event));
    }
}

/// Shows the lines about an event.
pub(super) fn lines(ui: &mut Ui, lines: &[Narration]) {
    for Narration { tone, text } in lines {
        match tone {
            Tone::Success => ui.success(text),
            Tone::Failure => ui.failure(text),
            Tone::Warning => ui.warning(text),
            Tone::LoudWarning => ui.loud_warning(text),
            Tone::Note => ui.note(text),
            Tone::Detail => ui.detail(text),
        }
    }
}

/// Shows the end of a run; returns its exit code. The events have shown the rest.
pub(super) fn end(ui: &mut Ui, summary: &RunSummary) -> ExitStatus {
    if let (Format::Human, Some(error)) = (ui.format(), &summary.error) {
        failed(ui, error);
    }
    match summary.status {
        RunStatus::Succeeded => ExitStatus::Success,
        RunStatus::Failed if is_unsafe(summary.error.as_ref()) => ExitStatus::Unsafe,
        RunStatus::Failed => ExitStatus::Failure,
        RunStatus::Waiting => ExitStatus::Waiting,
        RunStatus::Denied => ExitStatus::Denied,
        RunStatus::Cancelled => ExitStatus::Interrupted,
    }
}

/// Whether a step was refused because of the machine.
fn is_unsafe(error: Option<&Problem>) -> bool {
    error.is_some_and(|error| error.code == Code::SandboxUnavailable)
}

fn failed(ui: &mut Ui, error: &Problem) {
    ui.complaint(&format!("{} [{}]", error.message(), error.code));
    if let Some(hint) = &error.hint {
        ui.hint(&hint.to_string());
    }
}
