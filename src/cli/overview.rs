//! Shows a run as a whole: its inputs, its steps and its result.

use super::past::{self, Past};
use super::show::{fact, told_value};
use super::ui::{Format, Ui};
use crate::audit::history::{RunRecord, SkippedStep, Source};
use crate::checkpoint::path::listed;
use crate::error::Error;
use crate::journal::summary::RunStatus;
use crate::run::account::{ShownRun, told_inputs};

/// Shows a run.
pub(super) fn show(ui: &mut Ui, past: &Past, run: &RunRecord) -> Result<(), Error> {
    if ui.format() == Format::Json {
        ui.json(&ShownRun::new(run, past))?;
        return Ok(());
    }
    fact(ui, "run", &run.id.to_string())?;
    fact(ui, "what", &past::words(run))?;
    fact(ui, "when", &past::time(run.started))?;
    match run.source {
        Source::Journal => fact(ui, "started as", &past::shell_words(&run.command))?,
        Source::Log => fact(ui, "known from", "its log: values are shown as hashes, command lines not at all")?,
    }
    for (at, (name, value)) in told_inputs(run).iter().enumerate() {
        fact(ui, if at == 0 { "inputs" } else { "" }, &told_value(run.source, name, value))?;
    }
    fact(ui, "mode", run.mode.as_str())?;
    let situation = past.situation(run);
    fact(ui, "status", situation.word(run))?;
    for (at, detail) in situation.details(past::time).iter().enumerate() {
        fact(ui, if at == 0 { "where" } else { "" }, detail)?;
    }
    if let Some(summary) = &run.summary {
        for (at, (name, value)) in summary.outputs.iter().enumerate() {
            fact(ui, if at == 0 { "outputs" } else { "" }, &told_value(run.source, name, value))?;
        }
        if !summary.uncommitted.is_empty() {
            fact(ui, "uncommitted", &listed(&summary.uncommitted))?;
        }
        if let Some(error) = &summary.error {
            fact(ui, "failure", &format!("{} [{}]", error.message(), error.code))?;
        }
    }
    steps(ui, past, run)?;
    if let Some(step) = run.steps.first() {
        ui.hint(&format!("`piton show {}` shows a step and what it changed", step.id));
    }
    if matches!(run.status(), None | Some(RunStatus::Waiting)) && run.directive.is_some() {
        ui.hint(&format!("`piton status {}` says how it goes on", run.id));
    }
    Ok(())
}

/// One line per step, in columns.
pub(super) fn steps(ui: &mut Ui, past: &Past, run: &RunRecord) -> Result<(), Error> {
    if !run.steps.is_empty() {
        ui.line("")?;
    }
    let width = run.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or_default().min(40);
    for step in &run.steps {
        let undone = if past.undone.contains(&step.id) { "  (undone)" } else { "" };
        let outcome = past.outcome(step);
        let (number, name, status) = (step.id.step, &step.name, past::step_status(step));
        ui.line(format!("  {number:>3}  {name:<width$}  {status:<9}  {outcome}{undone}").trim_end())?;
    }
    for SkippedStep { name, reason } in &run.skipped {
        ui.line(&format!("    -  {name:<width$}  skipped    {reason}"))?;
    }
    Ok(())
}
