//! `piton show`: everything that is known about one step.

use serde::Serialize;

use super::past::{self, Past};
use super::ui::{Format, Ui};
use crate::audit::history::{Outcome, RunRecord, StepRecord};
use crate::audit::reference::{self, ReferenceError};
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::path::listed;
use crate::checkpoint::reading::Pin;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::event::StepKind;
use crate::policy::Permission;
use crate::run::error::RunError;

/// Lines of a diff that a person is shown.
const MOST_LINES: usize = 2000;

/// Shows one step: what was run, what became of it, and what it changed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton show 01k9x2bf/1        A step
  piton show 01k9x2bf          The only step of a run
  piton show HEAD              The step that made a commit
  piton show HEAD --stat       Files and numbers of lines only")]
pub(super) struct ShowArguments {
    /// A step, a run with one step, or a commit that piton made.
    #[arg(value_name = "REF")]
    reference: String,
    /// Shows which files changed and how many lines, not how.
    #[arg(long, conflicts_with = "no_diff")]
    stat: bool,
    /// Shows no changes at all.
    #[arg(long)]
    no_diff: bool,
}

/// What is known about a step, as JSON.
#[derive(Serialize)]
struct ShownStep<'a> {
    #[serde(flatten)]
    step: &'a StepRecord,
    /// How the run was started.
    command: &'a [String],
    mode: &'static str,
    root: &'a str,
    undone: bool,
    /// What it was allowed to do, and who saw to it.
    permissions: Vec<String>,
    pins: Vec<Pin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

pub(super) fn run(arguments: &ShowArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let past = past::load(ctx, ui)?;
    let id = match &past.repository {
        Some(git) => reference::find_step_or_commit(&past.history, git, &arguments.reference),
        None => reference::find_step(&past.history, &arguments.reference),
    };
    let id = id.map_err(RunError::from)?;
    let unknown = || RunError::from(ReferenceError::Unknown(id.to_string()));
    let run = past.history.run(id.run).ok_or_else(unknown)?;
    let step = past.history.step(id).ok_or_else(unknown)?;
    let pins = pins_of(&past, step)?;
    let changes: &[Change] = step.delta.as_ref().map(|delta| delta.changes.as_slice()).unwrap_or_default();
    if ui.format() == Format::Json {
        let diff = match &past.repository {
            Some(git) if !arguments.no_diff && !arguments.stat => {
                let text = git.diff(changes, None).map_err(RunError::from)?;
                Some(String::from_utf8_lossy(&text.bytes).into_owned())
            }
            _ => None,
        };
        let undone = past.undone.contains(&id);
        let (command, mode, root) = (run.command.as_slice(), run.mode.as_str(), run.root.as_str());
        ui.json(&ShownStep { step, command, mode, root, undone, permissions: permissions(step), pins, diff })?;
        return Ok(ExitStatus::Success);
    }
    facts(ui, &past, run, step, &pins)?;
    match &past.repository {
        Some(_) if arguments.stat && !changes.is_empty() => {
            ui.line("")?;
            past::stat_lines(ui, changes)?;
        }
        Some(git) if !arguments.no_diff && !arguments.stat && !changes.is_empty() => {
            ui.line("")?;
            let text = git.diff(changes, Some(MOST_LINES)).map_err(RunError::from)?;
            ui.contents(&text.bytes)?;
            if text.left_out > 0 {
                ui.note(&format!("{} more lines: `piton diff {id}:before {id}` shows all of them", text.left_out));
            }
        }
        _ => {}
    }
    Ok(ExitStatus::Success)
}

fn facts(ui: &mut Ui, past: &Past, run: &RunRecord, step: &StepRecord, pins: &[Pin]) -> Result<(), Error> {
    let mut fact = |name: &str, value: &str| {
        let mut lines = value.lines();
        ui.line(format!("{name:<13} {}", lines.next().unwrap_or_default()).trim_end())?;
        lines.try_for_each(|line| ui.line(format!("{:<13} {line}", "").trim_end()))
    };
    fact("step", &step.id.to_string())?;
    fact("name", &step.name)?;
    fact("what", &what(step))?;
    fact("when", &past::time(step.started))?;
    fact("started as", &past::shell_words(&run.command))?;
    if let Some(directive) = &run.directive {
        fact("directive", directive)?;
    }
    if let Some(tool) = &step.tool {
        fact("tool", tool)?;
    }
    fact("mode", run.mode.as_str())?;
    fact("permissions", &permissions(step).join("\n"))?;
    if let StepKind::Tool(call) = &step.kind {
        for (at, (name, value)) in call.parameters.iter().enumerate() {
            fact(if at == 0 { "parameters" } else { "" }, &format!("{name} = {value}"))?;
        }
        let degraded = call.degraded.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        fact("isolation", &format!("{}{degraded}", call.isolation))?;
    }
    if let Some(code) = step.exit_code {
        fact("exit code", &code.to_string())?;
    }
    for (name, written) in [("stdout", &step.stdout), ("stderr", &step.stderr)] {
        if let Some(written) = written {
            fact(name, &format!("{} bytes, sha256:{}", written.bytes, written.sha256))?;
        }
    }
    fact("status", past::step_status(step))?;
    fact("outcome", &past::outcome(step))?;
    match &step.outcome {
        Outcome::Committed { commit, message, .. } => {
            fact("commit", &commit.to_string())?;
            fact("message", message.trim_end())?;
        }
        Outcome::Kept { reason } => fact("reason", reason)?,
        Outcome::Failed { code, message } => fact("reason", &format!("{message} [{code}]"))?,
        Outcome::RolledBack { kept, .. } if !kept.is_empty() => fact("kept", &listed(kept))?,
        Outcome::RolledBack { .. } | Outcome::NoChanges | Outcome::Open => {}
    }
    if let (None, Some(commit)) = (step.commit(), past.history.commit_of(step)) {
        fact("committed by", &commit.to_string())?;
    }
    if !step.outside.is_empty() {
        fact("meanwhile", &format!("somebody else changed {}", listed(&step.outside)))?;
    }
    if past.undone.contains(&step.id) {
        fact("undone", "yes")?;
    }
    if let Some(Delta { not_captured, .. }) = &step.delta
        && !not_captured.is_empty()
    {
        fact("not captured", &listed(not_captured))?;
    }
    if !step.git_changed.is_empty() {
        fact("git's own", &step.git_changed.join("\n"))?;
    }
    for (at, pin) in pins.iter().enumerate() {
        fact(if at == 0 { "kept by" } else { "" }, &format!("{} {}", pin.commit.short(), pin.name))?;
    }
    Ok(())
}

/// What a step was allowed to do, one line each, and by what that is enforced.
fn permissions(step: &StepRecord) -> Vec<String> {
    let StepKind::Tool(call) = &step.kind else { return vec!["none (exec)".to_owned()] };
    let told = |permission: &Permission| {
        format!("{} by {}, enforced: {}", permission.need, permission.granted_by, permission.enforcement.as_str())
    };
    call.permissions.iter().map(told).collect()
}

fn what(step: &StepRecord) -> String {
    match &step.kind {
        StepKind::Command { argv } => past::shell_words(argv),
        StepKind::Tool(call) => {
            let ids: Vec<&str> = call.chain.iter().map(|link| link.split('@').next().unwrap_or_default()).collect();
            let command = call.command.as_ref().map(|command| format!(" {command}")).unwrap_or_default();
            format!("tool {}{command}", ids.join(" → "))
        }
        StepKind::Undo { of, .. } => format!("undo of {of}"),
        StepKind::Redo { of, .. } => format!("undo of the undo {of}"),
        StepKind::Restore { to } => format!("files as they were after {to}"),
        StepKind::Checkpoint { covers } => match covers.as_slice() {
            [] => "checkpoint".to_owned(),
            covers => {
                let covers: Vec<String> = covers.iter().map(ToString::to_string).collect();
                format!("checkpoint of {}", covers.join(", "))
            }
        },
        StepKind::RollBack { to } => format!("everything as it was at {to}"),
        StepKind::Unknown => "something that a newer piton does".to_owned(),
    }
}

fn pins_of(past: &Past, step: &StepRecord) -> Result<Vec<Pin>, Error> {
    let Some(repository) = &past.repository else { return Ok(Vec::new()) };
    let mut pins = repository.pins().map_err(RunError::from)?;
    let folder = step.pin("");
    pins.retain(|pin| pin.name.starts_with(&folder));
    Ok(pins)
}
