//! Shows a run: its inputs, its steps and its result.

use super::history::{self, ProjectHistory};
use super::show::{fact, shown_value};
use super::ui::{Format, Ui};
use crate::audit::history::{RecordSource, RunRecord, SkippedStep};
use crate::checkpoint::path::listed;
use crate::error::Error;
use crate::journal::summary::RunStatus;
use crate::run::json::{ShownRun, journal_inputs};

pub(super) fn show(ui: &mut Ui, past: &ProjectHistory, run: &RunRecord) -> Result<(), Error> {
    if ui.format() == Format::Json {
        ui.json(&ShownRun::new(run, past))?;
        return Ok(());
    }
    fact(ui, "run", &run.id.to_string())?;
    fact(ui, "what", &history::command_line(run))?;
    fact(ui, "when", &history::time(run.started))?;
    match run.source {
        RecordSource::Journal => fact(ui, "started as", &history::shell_words(&run.command))?,
        RecordSource::Log => fact(
            ui,
            "known from",
            "only its log is known: values are shown as hashes, without command lines",
        )?,
    }
    for (at, (name, value)) in journal_inputs(run).iter().enumerate() {
        fact(
            ui,
            if at == 0 { "inputs" } else { "" },
            &shown_value(run.source, name, value),
        )?;
    }
    fact(ui, "mode", run.mode.as_str())?;
    let situation = past.situation(run);
    fact(ui, "status", situation.word(run))?;
    for (at, detail) in situation.details(history::time).iter().enumerate() {
        fact(ui, if at == 0 { "where" } else { "" }, detail)?;
    }
    if let Some(summary) = &run.summary {
        for (at, (name, value)) in summary.outputs.iter().enumerate() {
            fact(
                ui,
                if at == 0 { "outputs" } else { "" },
                &shown_value(run.source, name, value),
            )?;
        }
        if !summary.uncommitted.is_empty() {
            fact(ui, "uncommitted", &listed(&summary.uncommitted))?;
        }
        if let Some(error) = &summary.error {
            fact(
                ui,
                "failure",
                &format!("{} [{}]", error.message(), error.code),
            )?;
        }
    }
    steps(ui, past, run)?;
    if let Some(step) = run.steps.first() {
        ui.hint(&format!(
            "`piton show {}` shows a step and what it changed",
            step.id
        ));
    }
    if matches!(run.status(), None | Some(RunStatus::Waiting)) && run.directive.is_some() {
        ui.hint(&format!("`piton status {}` shows how to continue", run.id));
    }
    Ok(())
}

/// One line per step, in columns.
pub(super) fn steps(ui: &mut Ui, past: &ProjectHistory, run: &RunRecord) -> Result<(), Error> {
    if !run.steps.is_empty() {
        ui.line("")?;
    }
    let width = run
        .steps
        .iter()
        .map(|step| step.name.chars().count())
        .max()
        .unwrap_or_default()
        .min(40);
    for step in &run.steps {
        let undone = if past.undone.contains(&step.id) {
            "  (undone)"
        } else {
            ""
        };
        let outcome = past.outcome(step);
        let (number, name, status) = (step.id.step, &step.name, history::step_status(step));
        ui.line(
            format!("  {number:>3}  {name:<width$}  {status:<9}  {outcome}{undone}").trim_end(),
        )?;
    }
    for SkippedStep { name, reason } in &run.skipped {
        ui.line(&format!("    -  {name:<width$}  skipped    {reason}"))?;
    }
    Ok(())
}
