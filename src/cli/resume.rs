//! `piton resume`, `approve`, `reject`, `cancel` and `status`: going on with a run that waits.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;

use super::drive::{self, Approval, Driver};
use super::overview;
use super::ui::{Format, Ui};
use super::{past, render};
use crate::checkpoint::delta::Change;
use crate::checkpoint::path::listed;
use crate::config::AgentCommand;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::RunId;
use crate::journal::event::{Event, Wait};
use crate::journal::summary::RunStatus;
use crate::run::directive::{self, Input, Run, Worker};
use crate::run::past::{repo_paths, run_here, waiting_in};
use crate::run::review::Review;

/// Goes on with a run that waits, or that was cut off
///
/// If a step in words waits, it counts as done: what has changed meanwhile becomes its checkpoint. A
/// step that was cut off by a crash was put back and is run again; nothing that was finished is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton resume                              The run that waits here
  piton resume 01k9x2bf --result '{\"count\": 3}'
  piton resume 01k9x2bf --failed 'the API is gone'
  piton resume --paths docs                 Only what changed below docs/ belongs to the step
  piton resume --retry                      Run a step again whose end nobody knows")]
pub(super) struct ResumeArguments {
    /// The run, or the beginning of its name; the one that waits here, by default.
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// What the step returns, as JSON.
    #[arg(long, value_name = "JSON", conflicts_with = "failed")]
    result: Option<String>,
    /// That the step could not be done, and why.
    #[arg(long, value_name = "WHY")]
    failed: Option<String>,
    /// The files and folders that belong to the step; whatever else has changed is yours.
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "failed")]
    paths: Vec<OsString>,
    /// Runs a step again that was cut off and could not be put back.
    #[arg(long, conflicts_with_all = ["failed", "result", "paths"])]
    retry: bool,
    /// The program that does the next steps in words.
    #[arg(long, value_name = "COMMAND")]
    agent_cmd: Option<String>,
    /// How many seconds to wait for another run in this worktree.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lock_timeout: u64,
}

/// Says yes to what a run asks: a question, or the changes of a step
///
/// An approval is for what is on disk at that moment, your own edits in the files of the run included. At a
/// terminal the diff is shown and you are asked; a script names what `piton status` showed with `--tree`. If
/// the files have changed since, nothing is approved and the run waits on (exit code 4).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton approve                             The run that waits here
  piton approve 01k9x2bf --tree 1a2b3c4     Only what `piton status` showed
  piton approve 01k9x2bf -m 'docs: notes'   Keep the changes under this message
  piton approve --answer 'use the new API'")]
pub(super) struct ApproveArguments {
    /// The run, or the beginning of its name; the one that waits here, by default.
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The message of the commit, instead of a generated one.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// What you have to say, for the steps that follow.
    #[arg(long, value_name = "TEXT")]
    answer: Option<String>,
    /// The tree that was shown, as `piton status` names it, or its first seven digits.
    #[arg(long, value_name = "ID", value_parser = tree_name)]
    tree: Option<String>,
    /// Approve what is on disk without being asked.
    #[arg(short, long)]
    yes: bool,
}

fn tree_name(text: &str) -> Result<String, String> {
    let text = text.to_lowercase();
    if (7..=40).contains(&text.len()) && text.chars().all(|it| it.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err("a tree is named by 7 to 40 hexadecimal digits".to_owned())
}

/// Says no to what a run asks: a question, or the changes of a step, which are put back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton reject                              The run that waits here
  piton reject 01k9x2bf --reason 'breaks the API'")]
pub(super) struct RejectArguments {
    /// The run, or the beginning of its name; the one that waits here, by default.
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Ends a run that waits, for good; what its steps have done stays
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton cancel                              The run that waits here
  piton cancel 01k9x2bf")]
pub(super) struct CancelArguments {
    /// The run, or the beginning of its name; the one that waits here, by default.
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

/// Shows how far a run is and what it waits for
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton status                              The run that waits here
  piton status 01k9x2bf --format json")]
pub(super) struct StatusArguments {
    /// The run, or the beginning of its name; the one that waits here, by default.
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

pub(super) fn resume(arguments: &ResumeArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let input = match (&arguments.result, &arguments.failed) {
        _ if arguments.retry => Input::Retry,
        (_, Some(why)) => Input::Failed(why.clone()),
        (result, None) => {
            let result = result.as_deref().map(read_json).transpose()?;
            Input::Done { result, paths: repo_paths(ctx, &arguments.paths)? }
        }
    };
    let agent = arguments.agent_cmd.as_deref().map(|text| AgentCommand::from_folder(text, &ctx.cwd));
    let (run, ctx) = &find(arguments.run.as_deref(), ctx, ui)?;
    let wait = Duration::from_secs(arguments.lock_timeout);
    go_on(*run, input, agent.as_deref(), wait, ctx, ui)
}

pub(super) fn approve(arguments: &ApproveArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let (run, ctx) = &find(arguments.run.as_deref(), ctx, ui)?;
    let ApproveArguments { message, answer, tree, .. } = arguments;
    let driver = Driver::new(ui);
    let input = if arguments.yes || tree.is_some() || !Ui::can_ask() {
        Input::Approve { message: message.clone(), answer: answer.clone(), tree: tree.clone() }
    } else {
        driver.confirm_with(Approval { message: message.clone(), answer: answer.clone() });
        Input::Go
    };
    drive_on(&driver, *run, input, None, Duration::ZERO, ctx)
}

pub(super) fn reject(arguments: &RejectArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let (run, ctx) = &find(arguments.run.as_deref(), ctx, ui)?;
    go_on(*run, Input::Reject(arguments.reason.clone()), None, Duration::ZERO, ctx, ui)
}

pub(super) fn cancel(arguments: &CancelArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let (id, ctx) = &find(arguments.run.as_deref(), ctx, ui)?;
    let id = *id;
    directive::cancel(ctx, id, &mut |event| {
        if ui.format() == Format::Json || matches!(event, Event::Recovered { .. }) {
            render::event(ui, event);
        }
    })?;
    if ui.format() == Format::Human {
        ui.success(&format!("run {id} was cancelled"));
    }
    Ok(ExitStatus::Success)
}

fn go_on(
    run: RunId,
    input: Input,
    agent: Option<&str>,
    wait: Duration,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    drive_on(&Driver::new(ui), run, input, agent, wait, ctx)
}

fn drive_on(
    driver: &Driver<'_>,
    run: RunId,
    input: Input,
    agent: Option<&str>,
    wait: Duration,
    ctx: &Context,
) -> Result<ExitStatus, Error> {
    let mut show = |event: &_| driver.event(event);
    let run = Run::resume(ctx, run, Worker::Program, agent, wait, &mut show)?;
    if let Some(waiting) = run.waiting() {
        driver.begin(waiting.name);
    }
    // At a terminal an approval is given when the diff was seen; a run that asks for nothing of the kind refuses it.
    let is_asked = run.waiting().is_some_and(|it| matches!(it.wait, Wait::Person { .. } | Wait::Changes));
    let input = match input {
        Input::Go if !is_asked => Input::Approve { message: None, answer: None, tree: None },
        input => input,
    };
    drive::to_the_end(driver, run, input)
}

pub(super) fn status(arguments: &StatusArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    if arguments.run.is_none() && directive::unfinished(ctx)?.is_none() {
        if ui.format() == Format::Json {
            ui.json(&Value::Null)?;
        } else {
            ui.line("no run waits here")?;
        }
        return Ok(ExitStatus::Success);
    }
    let (id, there) = find(arguments.run.as_deref(), ctx, ui)?;
    let past = past::load_with_disk(ctx, ui)?;
    let (report, review) = (past.report(id)?, past.review(&there, id));
    let report = report.with_review(review.clone());
    if ui.format() == Format::Json {
        ui.json(&report)?;
        return Ok(ExitStatus::Success);
    }
    let Some(record) = past.history.run(id) else { return Ok(ExitStatus::Success) };
    let waiting = waiting_in(record);
    let label = record.directive.clone().unwrap_or_else(|| record.name.clone());
    ui.line(&format!("{label}  run {id}  {}", past::run_status(record)))?;
    overview::steps(ui, &past, record)?;
    match (&waiting, record.status()) {
        (Some(waiting), _) => {
            drive::show_waiting(ui, waiting);
            if let Some(review) = review.filter(|review| !review.changes.is_empty()) {
                show_review(ui, id, &review);
            }
        }
        (None, None | Some(RunStatus::Waiting)) => {
            ui.hint(&format!("`piton resume {id}` goes on, `piton cancel {id}` ends it"));
        }
        _ => {}
    }
    Ok(ExitStatus::Success)
}

/// Says what an approval would commit, and how a script approves exactly that.
fn show_review(ui: &mut Ui, run: RunId, review: &Review) {
    let sum = |count: fn(&Change) -> u64| review.changes.iter().map(count).sum::<u64>();
    let (insertions, deletions) = (sum(|change| change.insertions), sum(|change| change.deletions));
    let stat = render::stat(review.changes.len() as u64, insertions, deletions);
    ui.note(&format!("what you approve: tree {}, {stat}", review.tree.short()));
    for change in &review.changes {
        let by_you = if review.edits.contains(&change.path) { "  (with your edits)" } else { "" };
        ui.note(&format!("  {}  +{} −{}{by_you}", change.path, change.insertions, change.deletions));
    }
    if !review.unclear.is_empty() {
        ui.warning(&format!("steps and others changed the same lines: {}", listed(&review.unclear)));
    }
    ui.hint(&format!("`piton diff` shows it, `piton approve {run} --tree {}` approves just this", review.tree.short()));
}

/// The run that is named, or the one that is not finished here, and the project that it runs in.
fn find(name: Option<&str>, ctx: &Context, ui: &mut Ui) -> Result<(RunId, Context), Error> {
    Ok(match name {
        Some(name) => past::load(ctx, ui)?.find_run(ctx, name)?,
        None => run_here(ctx)?,
    })
}

fn read_json(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|err| Error::InvalidJson { text: text.to_owned(), reason: err.to_string() })
}
