//! `piton show`: shows a step or a run.

mod file;

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::history::{self, ProjectHistory};
use super::overview;
use super::ui::{Format, Ui};
use crate::audit::fate::CommitFate;
use crate::audit::history::{CallRecord, RecordSource, RunRecord, StepOutcome, StepRecord};
use crate::audit::reference::{self, NamedRecord, ReferenceError};
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
use crate::run::narration::hand_made;
use crate::run::outputs::{self, SavedOutput};

/// The maximum number of diff lines on a terminal.
const MOST_LINES: usize = 2000;
/// The maximum length of a value on a terminal.
const MOST_TEXT: usize = 1000;

/// Show a step and its changes, or a run and its steps
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton show                   The newest run
  piton show 01k9x2bf/1        A step
  piton show 01k9x2bf          A run with its inputs, steps and results
  piton show HEAD              The step behind a commit
  piton show src/a.rs@01k9x2bf/1    A file as it was after a step
  piton show HEAD --stat       Changed files and line counts only")]
pub(super) struct ShowArguments {
    /// Step, run, or commit made by piton; the newest run by default. For a run of one command, its step. `PATH@STEP` prints a file as
    /// it was after a step, `PATH@STEP:before` as it was before.
    #[arg(value_name = "REF")]
    reference: Option<String>,
    /// Show changed files and line counts only.
    #[arg(long, conflicts_with = "no_diff")]
    stat: bool,
    /// Do not show changes.
    #[arg(long)]
    no_diff: bool,
}

/// A step as JSON.
#[derive(Serialize)]
struct ShownStep<'a> {
    #[serde(flatten)]
    step: &'a StepRecord,
    /// The command line of the run.
    command: &'a [String],
    mode: &'static str,
    /// The work tree; empty if the run was fetched.
    root: &'a str,
    /// The source of the record.
    source: RecordSource,
    undone: bool,
    /// The fate of its commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    fate: Option<CommitFate>,
    /// Its permissions, and how each is enforced.
    permissions: Vec<String>,
    /// The output of its tool, if the step did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<SavedOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

pub(super) fn run(
    arguments: &ShowArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let past = history::load_with_disk(ctx, ui)?;
    let newest = past.history.runs.first().map(|run| run.id.to_string());
    let Some(name) = arguments.reference.clone().or(newest) else {
        ui.note("no runs yet");
        return Ok(ExitStatus::Success);
    };
    if let Some((path, moment)) = name
        .rsplit_once('@')
        .filter(|(_, after)| !after.starts_with('{'))
    {
        return file::show(ctx, ui, &past, path, moment);
    }
    let named = reference::find_named(&past.history, past.repository.as_ref(), &name);
    let id = match named.map_err(RunError::from)? {
        NamedRecord::Step(id) => id,
        NamedRecord::Run(run) => {
            let run = past
                .history
                .run(run)
                .ok_or_else(|| RunError::from(ReferenceError::Unknown(run.to_string())))?;
            ui.page(&ctx.environment, past.repository.as_ref());
            overview::show(ui, &past, run)?;
            return Ok(ExitStatus::Success);
        }
    };
    show_step(arguments, ctx, ui, &past, id)
}

fn show_step(
    arguments: &ShowArguments,
    ctx: &Context,
    ui: &mut Ui,
    past: &ProjectHistory,
    id: StepId,
) -> Result<ExitStatus, Error> {
    let unknown = || RunError::from(ReferenceError::Unknown(id.to_string()));
    let run = past.history.run(id.run).ok_or_else(unknown)?;
    let step = past.history.step(id).ok_or_else(unknown)?;
    let fate = past.fates()?.and_then(|fates| fates.of(step));
    let output = saved_output(ctx, run, step);
    let changes: &[Change] = step
        .delta
        .as_ref()
        .map(|delta| delta.changes.as_slice())
        .unwrap_or_default();
    if ui.format() == Format::Json {
        let diff = match &past.repository {
            Some(git) if !arguments.no_diff && !arguments.stat => {
                let text = git.diff(changes, None).map_err(RunError::from)?;
                Some(String::from_utf8_lossy(&text.bytes).into_owned())
            }
            _ => None,
        };
        ui.json(&ShownStep {
            step,
            command: &run.command,
            mode: run.mode.as_str(),
            root: &run.root,
            source: run.source,
            undone: past.undone.contains(&id),
            fate,
            permissions: permissions(step),
            output,
            diff,
        })?;
        return Ok(ExitStatus::Success);
    }
    ui.page(&ctx.environment, past.repository.as_ref());
    facts(ui, past, run, step, fate.as_ref())?;
    if let Some(output) = &output {
        written_lines(ui, output)?;
    }
    match &past.repository {
        Some(_) if arguments.stat && !changes.is_empty() => {
            ui.line("")?;
            history::stat_lines(ui, changes)?;
        }
        Some(git) if !arguments.no_diff && !arguments.stat && !changes.is_empty() => {
            ui.line("")?;
            let text = git
                .diff(changes, Some(MOST_LINES))
                .map_err(RunError::from)?;
            ui.patch(&text.bytes)?;
            if text.left_out > 0 {
                ui.note(&format!(
                    "{} more lines: `piton diff {id}:before {id}` shows all of them",
                    text.left_out
                ));
            }
        }
        _ => {}
    }
    Ok(ExitStatus::Success)
}

/// The whole output of a step's tool, if the step did not succeed and the file still exists.
fn saved_output(ctx: &Context, run: &RunRecord, step: &StepRecord) -> Option<SavedOutput> {
    let has_written = |step: &StepRecord| step.stdout.is_some() || step.stderr.is_some();
    if !has_written(step) || matches!(step.status, Some(StepStatus::Succeeded) | None) {
        return None;
    }
    let tool = step.tool.as_deref()?.split('@').next()?;
    let is_earlier_call = |other: &&StepRecord| {
        other.id.step < step.id.step && other.tool == step.tool && has_written(other)
    };
    let earlier = run.steps.iter().filter(is_earlier_call).count();
    outputs::find(&ctx.root, tool, run.id, earlier)
}

/// Prints the output of a tool, stream by stream.
fn written_lines(ui: &mut Ui, output: &SavedOutput) -> io::Result<()> {
    for (name, text) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !text.is_empty() {
            ui.line(&format!("\n{name}:"))?;
            text.lines()
                .try_for_each(|line| ui.line(format!("    {line}").trim_end()))?;
        }
    }
    Ok(())
}

/// A field; further lines are aligned below.
pub(super) fn fact(ui: &mut Ui, name: &str, value: &str) -> io::Result<()> {
    let mut lines = value.lines();
    ui.line(format!("{name:<13} {}", lines.next().unwrap_or_default()).trim_end())?;
    lines.try_for_each(|line| ui.line(format!("{:<13} {line}", "").trim_end()))
}

/// Prints one field.
type PrintFact<'p> = dyn FnMut(&str, &str) -> io::Result<()> + 'p;

fn facts(
    ui: &mut Ui,
    past: &ProjectHistory,
    run: &RunRecord,
    step: &StepRecord,
    fate: Option<&CommitFate>,
) -> Result<(), Error> {
    let mut fact = |name: &str, value: &str| fact(ui, name, value);
    fact("step", &step.id.to_string())?;
    fact("name", &step.name)?;
    fact("what", &what(step))?;
    fact("when", &history::time(step.started))?;
    match run.source {
        RecordSource::Journal => fact("started as", &history::shell_words(&run.command))?,
        RecordSource::Log => fact(
            "known from",
            "only its log is known: values are shown as hashes, without command lines, instructions and comments",
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
    call_facts(&mut fact, run.source, step)?;
    instruction_facts(&mut fact, run.source, step)?;
    end_facts(&mut fact, step)?;
    outcome_facts(&mut fact, past, step, fate)?;
    other_change_facts(&mut fact, past, step)?;
    Ok(())
}

/// What was called: parameters, isolation, authors, and the calls of a meta tool.
fn call_facts(fact: &mut PrintFact<'_>, source: RecordSource, step: &StepRecord) -> io::Result<()> {
    if let StepKind::Tool(ToolCall { parameters, .. }) | StepKind::Item { parameters, .. } =
        &step.kind
    {
        for (at, (name, value)) in parameters.iter().enumerate() {
            let shown = shown_value(source, name, value);
            fact(if at == 0 { "parameters" } else { "" }, &shown)?;
        }
    }
    if let StepKind::Command {
        isolation: Some(level),
        ..
    } = &step.kind
    {
        fact("isolation", level.as_str())?;
    }
    if let StepKind::Tool(call) = &step.kind {
        let why = call.degraded.iter().chain(&call.raised);
        let why: Vec<String> = why.map(|why| format!(" ({why})")).collect();
        fact("isolation", &format!("{}{}", call.isolation, why.concat()))?;
        let signed = |by: &SignedBy| {
            format!(
                "{}  by {} ({})",
                by.file.display(),
                shown(&by.name),
                by.fingerprint
            )
        };
        let authors: Vec<String> = call.authors.iter().map(signed).collect();
        if !authors.is_empty() {
            fact("signed", &authors.join("\n"))?;
        }
    }
    step.calls
        .iter()
        .try_for_each(|call| calls(fact, source, call))
}

/// How the step ended.
fn end_facts(fact: &mut PrintFact<'_>, step: &StepRecord) -> io::Result<()> {
    if let Some(code) = step.exit_code {
        fact("exit code", &code.to_string())?;
    }
    for (name, written) in [("stdout", &step.stdout), ("stderr", &step.stderr)] {
        if let Some(written) = written {
            fact(
                name,
                &format!("{} bytes, sha256:{}", written.bytes, written.sha256),
            )?;
        }
    }
    fact("status", history::step_status(step))?;
    if let Some((result, _)) = step.answer.as_ref().filter(|(result, _)| !result.is_null()) {
        fact("result", &shortened(&result.to_string()))?;
    }
    if let Some(error) = &step.error {
        fact("failure", &format!("{} [{}]", error.message(), error.code))?;
    }
    Ok(())
}

/// What happened to the changes of the step.
fn outcome_facts(
    fact: &mut PrintFact<'_>,
    past: &ProjectHistory,
    step: &StepRecord,
    fate: Option<&CommitFate>,
) -> io::Result<()> {
    let is_settled = past.settled.contains(&step.id);
    fact(
        "outcome",
        &if is_settled {
            past.outcome(step)
        } else {
            history::outcome(step)
        },
    )?;
    match &step.outcome {
        StepOutcome::Committed {
            commit, message, ..
        } => {
            fact("commit", &commit.to_string())?;
            for (name, value) in fate.map(fate_fields).into_iter().flatten() {
                fact(name, &value)?;
            }
            fact("message", message.trim_end())?;
        }
        StepOutcome::Kept { reason } => fact("reason", reason)?,
        StepOutcome::Failed { code, message } => fact("reason", &format!("{message} [{code}]"))?,
        StepOutcome::RolledBack { kept, .. } if !kept.is_empty() => fact("kept", &listed(kept))?,
        StepOutcome::RolledBack { .. } | StepOutcome::NoChanges | StepOutcome::Open => {}
    }
    if let (None, Some(commit)) = (step.commit(), past.history.commit_of(step)) {
        fact("committed by", &commit.to_string())?;
    }
    Ok(())
}

/// Changes by others, by a person or later, and changes that no commit holds.
fn other_change_facts(
    fact: &mut PrintFact<'_>,
    past: &ProjectHistory,
    step: &StepRecord,
) -> io::Result<()> {
    if !step.hand_made.is_empty() {
        let made: Vec<String> = step.hand_made.iter().map(hand_made).collect();
        fact("by hand", &made.join("\n"))?;
    }
    if !step.outside.is_empty() {
        fact(
            "meanwhile",
            &format!("another process changed {}", listed(&step.outside)),
        )?;
    }
    if let Some(tree) = step.approved {
        fact("approved", &format!("tree {tree}, by a person"))?;
    }
    if !step.edits.is_empty() {
        fact("edits", &format!("a person edited {}", listed(&step.edits)))?;
    }
    if !step.dropped.is_empty() {
        let steps: Vec<String> = step.dropped.iter().map(ToString::to_string).collect();
        fact(
            "dropped",
            &format!(
                "no uncommitted changes of {}: committed or discarded",
                steps.join(", ")
            ),
        )?;
    }
    if past.undone.contains(&step.id) {
        fact("undone", "yes")?;
    }
    if let Some(Delta {
        not_captured,
        too_large,
        ..
    }) = &step.delta
        && !not_captured.is_empty()
    {
        fact("not captured", &listed(not_captured))?;
        for file in too_large {
            fact("left out", &file.description())?;
        }
    }
    if !step.git_changed.is_empty() {
        fact("git's own", &step.git_changed.join("\n"))?;
    }
    Ok(())
}

/// The fate of a commit, as fields; empty while it is in place.
fn fate_fields(fate: &CommitFate) -> Vec<(&'static str, String)> {
    match fate {
        CommitFate::InPlace => Vec::new(),
        CommitFate::Moved { to } => vec![("moved to", to.to_string())],
        CommitFate::Reworded { to } => vec![("reworded as", to.to_string())],
        CommitFate::Squashed { into, .. } => vec![("squashed into", into.to_string())],
        CommitFate::Accepted { by, at, reason, .. } => {
            vec![
                ("branches", "rewritten".to_owned()),
                (
                    "accepted",
                    format!("by {by}, {}: {reason}", history::time(*at)),
                ),
            ]
        }
        CommitFate::Rewritten { difference, .. } => {
            let why = difference
                .as_ref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            vec![("branches", format!("rewritten{why}"))]
        }
        other => vec![("branches", other.label())],
    }
}

/// A call by a meta tool: the tool, its parameters, its permissions and its end.
fn calls(fact: &mut PrintFact<'_>, source: RecordSource, record: &CallRecord) -> io::Result<()> {
    let call = &record.call;
    let command = call
        .command
        .as_ref()
        .map(|command| format!(" {command}"))
        .unwrap_or_default();
    let status = record.status.map_or("did not end", history::status_word);
    let within = record
        .within
        .map(|number| format!(", asked for by call {number}"))
        .unwrap_or_default();
    fact(
        &format!("call {}", record.number),
        &format!("{}{command}  {status}{within}", call.tool()),
    )?;
    for (name, value) in &call.parameters {
        fact("", &format!("  {}", shown_value(source, name, value)))?;
    }
    for permission in &call.permissions {
        fact("", &format!("  {}", permission_text(permission)))?;
    }
    if let Some(error) = &record.error {
        fact("", &format!("  {} [{}]", error.message(), error.code))?;
    }
    Ok(())
}

fn permission_text(permission: &Permission) -> String {
    format!(
        "{} by {}, enforced: {}",
        permission.need,
        permission.granted_by,
        permission.enforcement.as_str()
    )
}

/// The permissions of a step, one line each, and how each is enforced.
fn permissions(step: &StepRecord) -> Vec<String> {
    let call = match &step.kind {
        StepKind::Tool(call) => call,
        StepKind::Prose { .. } | StepKind::Item { .. } => {
            return vec!["write: what the directives allow, enforced: after_the_fact".to_owned()];
        }
        StepKind::Human { .. } | StepKind::Directive { .. } => return Vec::new(),
        _ => return vec!["none (exec)".to_owned()],
    };
    call.permissions.iter().map(permission_text).collect()
}

/// The instruction or question of a step.
fn instruction_facts(
    fact: &mut PrintFact<'_>,
    source: RecordSource,
    step: &StepRecord,
) -> io::Result<()> {
    let told = |text: &str| match source {
        RecordSource::Log if text.is_empty() => "stays where the run happened".to_owned(),
        _ => dedented(text),
    };
    if let StepKind::Prose { instruction } = &step.kind {
        fact("task", &told(instruction))?;
    }
    match &step.wait {
        Some(Wait::Work {
            checks, outside, ..
        }) => {
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

/// A text without surrounding empty lines and without the indentation of its file.
pub(super) fn dedented(text: &str) -> String {
    let text = text.trim_end();
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| line.trim().is_empty())
        .collect();
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let least = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(indentation)
        .min()
        .unwrap_or_default();
    lines
        .iter()
        .map(|line| line.get(least..).unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A value of a journal, or its hash in a log.
pub(super) fn shown_value(source: RecordSource, name: &str, value: &Value) -> String {
    match value.get("sha256").and_then(Value::as_str) {
        Some(hash) if source == RecordSource::Log => format!("{name} = sha256:{hash}"),
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
        StepKind::Command { argv, .. } => history::shell_words(argv),
        StepKind::Tool(call) => {
            let ids: Vec<&str> = call
                .chain
                .iter()
                .map(|link| link.split('@').next().unwrap_or_default())
                .collect();
            let command = call
                .command
                .as_ref()
                .map(|command| format!(" {command}"))
                .unwrap_or_default();
            format!("tool {}{command}", ids.join(" → "))
        }
        StepKind::Prose { .. } => "manual step".to_owned(),
        StepKind::Human { gate } => format!("waits for a person ({gate})"),
        StepKind::Directive { id } => format!("directive {id}"),
        StepKind::Item { verb, .. } => format!("{verb} of items"),
        StepKind::Undo { of, also, .. } => format!("undo of {}", ids(*of, also)),
        StepKind::Redo { of, .. } => format!("undo of the undo {of}"),
        StepKind::Apply { of, also } => format!("undone work of {}, applied again", ids(*of, also)),
        StepKind::RollBackRun { steps, .. } => {
            format!("roll back of the run, {} steps", steps.len())
        }
        StepKind::Restore { to } => format!("files as they were after {to}"),
        StepKind::Checkpoint { covers } => match covers.as_slice() {
            [] => "checkpoint".to_owned(),
            [first, others @ ..] => format!("checkpoint of {}", ids(*first, others)),
        },
        StepKind::Finish { of, how, .. } => format!("finish of run {of} ({})", how.name()),
        StepKind::RollBack { to } => format!("everything as it was at {to}"),
        StepKind::Unknown => "something that needs a newer piton".to_owned(),
    }
}

fn ids(first: StepId, others: &[StepId]) -> String {
    let ids: Vec<String> = std::iter::once(&first)
        .chain(others)
        .map(ToString::to_string)
        .collect();
    ids.join(", ")
}
