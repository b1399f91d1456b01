//! `piton show`: everything that is known about one step, or about a run.

mod file;

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::overview;
use super::past::{self, Past};
use super::render;
use super::ui::{Format, Ui};
use crate::audit::fate::CommitFate;
use crate::audit::history::{CallRecord, Outcome, RunRecord, Source, StepRecord};
use crate::audit::reference::{self, Named, ReferenceError};
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::path::listed;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::wording::shown;
use crate::journal::StepId;
use crate::journal::event::{SignedBy, StepKind, ToolCall, Wait};
use crate::journal::summary::StepStatus;
use crate::policy::Permission;
use crate::run::error::RunError;
use crate::run::outputs::{self, SavedOutput};

/// Lines of a diff that a person is shown.
const MOST_LINES: usize = 2000;
/// Letters of a value that a person is shown.
const MOST_TEXT: usize = 1000;

/// Show a step and its changes, or a run and its steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton show 01k9x2bf/1        A step
  piton show 01k9x2bf          A run with its inputs, steps and results
  piton show HEAD              The step behind a commit
  piton show src/a.rs@01k9x2bf/1    A file as it was after a step
  piton show HEAD --stat       Changed files and line counts only")]
pub(super) struct ShowArguments {
    /// Step, run, or commit made by piton. For a run of one command, its step. `PATH@STEP` prints a file as
    /// it was after a step, `PATH@STEP:before` as it was before.
    #[arg(value_name = "REF")]
    reference: String,
    /// Show changed files and line counts only.
    #[arg(long, conflicts_with = "no_diff")]
    stat: bool,
    /// Do not show changes.
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
    /// The work tree; empty where the run happened elsewhere.
    root: &'a str,
    /// Where the run is known from.
    source: Source,
    undone: bool,
    /// What became of its commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    fate: Option<CommitFate>,
    /// What it was allowed to do, and who saw to it.
    permissions: Vec<String>,
    /// What its tool wrote, if the step did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<SavedOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

pub(super) fn run(arguments: &ShowArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let past = past::load_with_disk(ctx, ui)?;
    if let Some((path, moment)) = arguments.reference.rsplit_once('@').filter(|(_, after)| !after.starts_with('{')) {
        return file::show(ctx, ui, &past, path, moment);
    }
    let named = reference::find_named(&past.history, past.repository.as_ref(), &arguments.reference);
    let id = match named.map_err(RunError::from)? {
        Named::Step(id) => id,
        Named::Run(run) => {
            let run = past.history.run(run).ok_or_else(|| RunError::from(ReferenceError::Unknown(run.to_string())))?;
            ui.page(&ctx.environment, past.repository.as_ref());
            overview::show(ui, &past, run)?;
            return Ok(ExitStatus::Success);
        }
    };
    let unknown = || RunError::from(ReferenceError::Unknown(id.to_string()));
    let run = past.history.run(id.run).ok_or_else(unknown)?;
    let step = past.history.step(id).ok_or_else(unknown)?;
    let fate = past.fates()?.and_then(|fates| fates.of(step));
    let output = saved_output(ctx, run, step);
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
        let (command, mode, root, source) = (run.command.as_slice(), run.mode.as_str(), run.root.as_str(), run.source);
        let permissions = permissions(step);
        ui.json(&ShownStep { step, command, mode, root, source, undone, fate, permissions, output, diff })?;
        return Ok(ExitStatus::Success);
    }
    ui.page(&ctx.environment, past.repository.as_ref());
    facts(ui, &past, run, step, fate.as_ref())?;
    if let Some(output) = &output {
        written_lines(ui, output)?;
    }
    match &past.repository {
        Some(_) if arguments.stat && !changes.is_empty() => {
            ui.line("")?;
            past::stat_lines(ui, changes)?;
        }
        Some(git) if !arguments.no_diff && !arguments.stat && !changes.is_empty() => {
            ui.line("")?;
            let text = git.diff(changes, Some(MOST_LINES)).map_err(RunError::from)?;
            ui.patch(&text.bytes)?;
            if text.left_out > 0 {
                ui.note(&format!("{} more lines: `piton diff {id}:before {id}` shows all of them", text.left_out));
            }
        }
        _ => {}
    }
    Ok(ExitStatus::Success)
}

/// Everything that the tool of a step wrote, if the step did not succeed and the saved output is still there.
fn saved_output(ctx: &Context, run: &RunRecord, step: &StepRecord) -> Option<SavedOutput> {
    let has_written = |step: &StepRecord| step.stdout.is_some() || step.stderr.is_some();
    if !has_written(step) || matches!(step.status, Some(StepStatus::Succeeded) | None) {
        return None;
    }
    let tool = step.tool.as_deref()?.split('@').next()?;
    let is_earlier_call =
        |other: &&StepRecord| other.id.step < step.id.step && other.tool == step.tool && has_written(other);
    let earlier = run.steps.iter().filter(is_earlier_call).count();
    outputs::find(&ctx.root, tool, run.id, earlier)
}

/// Prints what a tool wrote, stream by stream.
fn written_lines(ui: &mut Ui, output: &SavedOutput) -> io::Result<()> {
    for (name, text) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !text.is_empty() {
            ui.line(&format!("\n{name}:"))?;
            text.lines().try_for_each(|line| ui.line(format!("    {line}").trim_end()))?;
        }
    }
    Ok(())
}

/// One fact; further lines are below the first.
pub(super) fn fact(ui: &mut Ui, name: &str, value: &str) -> io::Result<()> {
    let mut lines = value.lines();
    ui.line(format!("{name:<13} {}", lines.next().unwrap_or_default()).trim_end())?;
    lines.try_for_each(|line| ui.line(format!("{:<13} {line}", "").trim_end()))
}

fn facts(ui: &mut Ui, past: &Past, run: &RunRecord, step: &StepRecord, fate: Option<&CommitFate>) -> Result<(), Error> {
    let mut fact = |name: &str, value: &str| fact(ui, name, value);
    fact("step", &step.id.to_string())?;
    fact("name", &step.name)?;
    fact("what", &what(step))?;
    fact("when", &past::time(step.started))?;
    match run.source {
        Source::Journal => fact("started as", &past::shell_words(&run.command))?,
        Source::Log => fact(
            "known from",
            "its log: values are shown as hashes; command lines, instructions and words of people not at all",
        )?,
    }
    if let Some(directive) = &run.directive {
        fact("directive", directive)?;
    }
    if let Some(tool) = &step.tool {
        fact("tool", tool)?;
    }
    fact("mode", run.mode.as_str())?;
    let permissions = permissions(step);
    if !permissions.is_empty() {
        fact("permissions", &permissions.join("\n"))?;
    }
    if let StepKind::Tool(ToolCall { parameters, .. }) | StepKind::Item { parameters, .. } = &step.kind {
        for (at, (name, value)) in parameters.iter().enumerate() {
            let shown = told_value(run.source, name, value);
            fact(if at == 0 { "parameters" } else { "" }, &shown)?;
        }
    }
    if let StepKind::Tool(call) = &step.kind {
        let degraded = call.degraded.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        fact("isolation", &format!("{}{degraded}", call.isolation))?;
        let signed = |by: &SignedBy| format!("{}  by {} ({})", by.file.display(), shown(&by.name), by.fingerprint);
        if !call.authors.is_empty() {
            fact("signed", &call.authors.iter().map(signed).collect::<Vec<_>>().join("\n"))?;
        }
    }
    for call in &step.calls {
        calls(&mut fact, run.source, call)?;
    }
    words(&mut fact, run.source, step)?;
    if let Some(code) = step.exit_code {
        fact("exit code", &code.to_string())?;
    }
    for (name, written) in [("stdout", &step.stdout), ("stderr", &step.stderr)] {
        if let Some(written) = written {
            fact(name, &format!("{} bytes, sha256:{}", written.bytes, written.sha256))?;
        }
    }
    fact("status", past::step_status(step))?;
    if let Some((result, _)) = step.answer.as_ref().filter(|(result, _)| !result.is_null()) {
        fact("result", &shortened(&result.to_string()))?;
    }
    if let Some(error) = &step.error {
        fact("failure", &format!("{} [{}]", error.message(), error.code))?;
    }
    let is_settled = past.settled.contains(&step.id);
    fact("outcome", &if is_settled { past.outcome(step) } else { past::outcome(step) })?;
    match &step.outcome {
        Outcome::Committed { commit, message, .. } => {
            fact("commit", &commit.to_string())?;
            for (name, value) in fate.map(told_fate).into_iter().flatten() {
                fact(name, &value)?;
            }
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
    if !step.hand_made.is_empty() {
        fact("by hand", &step.hand_made.iter().map(render::hand_made).collect::<Vec<_>>().join("\n"))?;
    }
    if !step.outside.is_empty() {
        fact("meanwhile", &format!("somebody else changed {}", listed(&step.outside)))?;
    }
    if let Some(tree) = step.approved {
        fact("approved", &format!("tree {tree}, by a person"))?;
    }
    if !step.edits.is_empty() {
        fact("edits", &format!("a person edited {}", listed(&step.edits)))?;
    }
    if !step.dropped.is_empty() {
        let steps: Vec<String> = step.dropped.iter().map(ToString::to_string).collect();
        fact("dropped", &format!("nothing is left of {}: committed or discarded", steps.join(", ")))?;
    }
    if past.undone.contains(&step.id) {
        fact("undone", "yes")?;
    }
    if let Some(Delta { not_captured, too_large, .. }) = &step.delta
        && !not_captured.is_empty()
    {
        fact("not captured", &listed(not_captured))?;
        for file in too_large {
            fact("left out", &file.in_words())?;
        }
    }
    if !step.git_changed.is_empty() {
        fact("git's own", &step.git_changed.join("\n"))?;
    }
    Ok(())
}

/// What became of a commit, as facts; none while it is in place.
fn told_fate(fate: &CommitFate) -> Vec<(&'static str, String)> {
    match fate {
        CommitFate::InPlace => Vec::new(),
        CommitFate::Moved { to } => vec![("moved to", to.to_string())],
        CommitFate::Reworded { to } => vec![("reworded as", to.to_string())],
        CommitFate::Squashed { into, .. } => vec![("squashed into", into.to_string())],
        CommitFate::Accepted { by, at, reason, .. } => {
            vec![("branches", "rewritten".to_owned()), ("accepted", format!("by {by}, {}: {reason}", past::time(*at)))]
        }
        CommitFate::Rewritten { difference, .. } => {
            let why = difference.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            vec![("branches", format!("rewritten{why}"))]
        }
        other => vec![("branches", other.label())],
    }
}

/// A call that a meta tool made: what was called, with what, who allowed it, and how it ended.
fn calls(fact: &mut dyn FnMut(&str, &str) -> io::Result<()>, source: Source, record: &CallRecord) -> io::Result<()> {
    let call = &record.call;
    let command = call.command.as_ref().map(|command| format!(" {command}")).unwrap_or_default();
    let status = record.status.map_or("did not end", past::status_word);
    let within = record.within.map(|number| format!(", asked for by call {number}")).unwrap_or_default();
    fact(&format!("call {}", record.number), &format!("{}{command}  {status}{within}", call.tool()))?;
    for (name, value) in &call.parameters {
        fact("", &format!("  {}", told_value(source, name, value)))?;
    }
    for permission in &call.permissions {
        fact("", &format!("  {}", told_permission(permission)))?;
    }
    if let Some(error) = &record.error {
        fact("", &format!("  {} [{}]", error.message(), error.code))?;
    }
    Ok(())
}

fn told_permission(permission: &Permission) -> String {
    format!("{} by {}, enforced: {}", permission.need, permission.granted_by, permission.enforcement.as_str())
}

/// What a step was allowed to do, one line each, and by what that is enforced.
fn permissions(step: &StepRecord) -> Vec<String> {
    let call = match &step.kind {
        StepKind::Tool(call) => call,
        StepKind::Prose { .. } | StepKind::Item { .. } => {
            return vec!["write: what the directives allow, enforced: after_the_fact".to_owned()];
        }
        StepKind::Human { .. } | StepKind::Directive { .. } => return Vec::new(),
        _ => return vec!["none (exec)".to_owned()],
    };
    call.permissions.iter().map(told_permission).collect()
}

/// What somebody was asked to do or to decide.
fn words(fact: &mut dyn FnMut(&str, &str) -> io::Result<()>, source: Source, step: &StepRecord) -> io::Result<()> {
    let told = |text: &str| match source {
        Source::Log if text.is_empty() => "stays where the run happened".to_owned(),
        _ => dedented(text),
    };
    if let StepKind::Prose { instruction } = &step.kind {
        fact("task", &told(instruction))?;
    }
    match &step.wait {
        Some(Wait::Work { checks, outside, .. }) => {
            for (at, check) in checks.iter().enumerate() {
                fact(if at == 0 { "afterwards" } else { "" }, check.trim())?;
            }
            if !outside.is_empty() {
                fact("not allowed", &listed(outside))?;
            }
        }
        Some(Wait::Person { question, .. }) => fact("question", &told(question))?,
        Some(Wait::Changes) => fact("question", "are its changes kept?")?,
        Some(Wait::Indeterminate { reason }) => fact("question", reason)?,
        Some(Wait::Unknown) | None => {}
    }
    Ok(())
}

/// A text without the empty lines around it and the indentation of its file.
pub(super) fn dedented(text: &str) -> String {
    let text = text.trim_end();
    let lines: Vec<&str> = text.lines().skip_while(|line| line.trim().is_empty()).collect();
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.trim().is_empty()).map(indentation).min().unwrap_or_default();
    lines.iter().map(|line| line.get(least..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// A value of a journal, or the hash that stands for it in a log.
pub(super) fn told_value(source: Source, name: &str, value: &Value) -> String {
    match value.get("sha256").and_then(Value::as_str) {
        Some(hash) if source == Source::Log => format!("{name} = sha256:{hash}"),
        _ => shortened(&format!("{name} = {value}")),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn what(step: &StepRecord) -> String {
    match &step.kind {
        StepKind::Command { argv, .. } if argv.is_empty() => "a command line".to_owned(),
        StepKind::Command { argv, .. } => past::shell_words(argv),
        StepKind::Tool(call) => {
            let ids: Vec<&str> = call.chain.iter().map(|link| link.split('@').next().unwrap_or_default()).collect();
            let command = call.command.as_ref().map(|command| format!(" {command}")).unwrap_or_default();
            format!("tool {}{command}", ids.join(" → "))
        }
        StepKind::Prose { .. } => "work in words".to_owned(),
        StepKind::Human { gate } => format!("waits for a person ({gate})"),
        StepKind::Directive { id } => format!("directive {id}"),
        StepKind::Item { verb, .. } => format!("{verb} of items"),
        StepKind::Undo { of, also, .. } => format!("undo of {}", ids(*of, also)),
        StepKind::Redo { of, .. } => format!("undo of the undo {of}"),
        StepKind::Apply { of, also } => format!("undone work of {}, applied again", ids(*of, also)),
        StepKind::RollBackRun { steps, .. } => format!("roll back of the run, {} steps", steps.len()),
        StepKind::Restore { to } => format!("files as they were after {to}"),
        StepKind::Checkpoint { covers } => match covers.as_slice() {
            [] => "checkpoint".to_owned(),
            [first, others @ ..] => format!("checkpoint of {}", ids(*first, others)),
        },
        StepKind::Finish { of, how, .. } => format!("finish of run {of} ({})", how.name()),
        StepKind::RollBack { to } => format!("everything as it was at {to}"),
        StepKind::Unknown => "something that a newer piton does".to_owned(),
    }
}

fn ids(first: StepId, others: &[StepId]) -> String {
    let ids: Vec<String> = std::iter::once(&first).chain(others).map(ToString::to_string).collect();
    ids.join(", ")
}
