//! `piton resume`, `approve`, `reject`, `cancel` and `status`: going on with a run that waits.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;

use super::drive::{self, Driver};
use super::overview;
use super::ui::{Format, Ui};
use super::{past, render};
use crate::config::AgentCommand;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::RunId;
use crate::journal::event::Event;
use crate::journal::summary::RunStatus;
use crate::run::directive::{self, Input, Run, StartAt, TakeUp, Worker};
use crate::run::past::{repo_paths, run_here, waiting_in};

/// Resume a run that waits, was cut off, or ended without success
///
/// If a manual step waits, it counts as done: what has changed meanwhile becomes its checkpoint. A
/// step that was cut off by a crash was put back and is run again; no finished step is.
/// A run that failed, was denied, rejected, cancelled or interrupted begins at the step that failed, with
/// its directive and tools as they are now; what has changed in them is shown first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton resume                              The run that waits here
  piton resume 01k9x2bf                     A failed run, at the step that failed
  piton resume 01k9x2bf --from build        The same, at the step `build`
  piton resume 01k9x2bf --skip              The same, after the step that failed
  piton resume 01k9x2bf --result '{\"count\": 3}'
  piton resume 01k9x2bf --failed 'the API is gone'
  piton resume --paths docs                 Only what changed below docs/ belongs to the step
  piton resume --retry                      Repeat a step whose outcome is unknown")]
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
    /// Begin a run that has ended at this step; it and the steps after it are done again.
    #[arg(long, value_name = "STEP", conflicts_with_all = ["skip", "failed", "result", "paths", "retry"])]
    from: Option<String>,
    /// Begin a run that has ended after the step that failed.
    #[arg(long, conflicts_with_all = ["failed", "result", "paths", "retry"])]
    skip: bool,
    /// The program that does the next steps in words.
    #[arg(long, value_name = "COMMAND")]
    agent_cmd: Option<String>,
    /// How many seconds to wait for another run in this worktree.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lock_timeout: u64,
}

/// Says yes to what a run asks: a question, or the changes of a step
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton approve                             The run that waits here
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
}

/// Say no to what a run asks, or send a manual step back
///
/// With `--reason`, a manual step that waits is sent back: the run goes on waiting, and the reason is shown with the
/// instruction. The same holds for a `human-verify` question after a manual step, which is then done again.
/// Otherwise the step fails; the changes of a step are put back if the run asks about them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton reject                              The run that waits here
  piton reject 01k9x2bf --reason 'breaks the API'
  piton reject --end --reason 'not needed'  The manual step is not done again")]
pub(super) struct RejectArguments {
    /// The run, or the beginning of its name; the one that waits here, by default.
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Let the step fail instead of sending it back.
    #[arg(long)]
    end: bool,
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
    let start = match &arguments.from {
        Some(step) => StartAt::Step(step.clone()),
        None if arguments.skip => StartAt::Skip,
        None => StartAt::Failed,
    };
    let take_up = TakeUp {
        worker: Worker::Program,
        agent_command: agent.as_deref(),
        lock_timeout: Duration::from_secs(arguments.lock_timeout),
        start,
        input,
    };
    go_on(*run, take_up, ctx, ui)
}

pub(super) fn approve(arguments: &ApproveArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let (run, ctx) = &find(arguments.run.as_deref(), ctx, ui)?;
    let input = Input::Approve { message: arguments.message.clone(), answer: arguments.answer.clone() };
    go_on(*run, TakeUp::with(input), ctx, ui)
}

pub(super) fn reject(arguments: &RejectArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let (run, ctx) = &find(arguments.run.as_deref(), ctx, ui)?;
    let reason = arguments.reason.clone();
    let input = if arguments.end { Input::End(reason) } else { Input::Reject(reason) };
    go_on(*run, TakeUp::with(input), ctx, ui)
}

pub(super) fn cancel(arguments: &CancelArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let (id, ctx) = &find(arguments.run.as_deref(), ctx, ui)?;
    let id = *id;
    let summary = directive::cancel(ctx, id, &mut |event| {
        if ui.format() == Format::Json || matches!(event, Event::Recovered { .. }) {
            render::event(ui, event);
        }
    })?;
    if ui.format() == Format::Human {
        ui.success(&format!("run {id} was cancelled"));
        if let Some(suggestion) = summary.error.and_then(|error| error.suggestion) {
            ui.hint(&suggestion);
        }
    }
    Ok(ExitStatus::Success)
}

fn go_on(run: RunId, take_up: TakeUp<'_>, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let driver = Driver::new(ui);
    let mut show = |event: &_| driver.event(event);
    let (run, input) = Run::resume(ctx, run, take_up, &mut show)?;
    if let Some(waiting) = run.waiting() {
        driver.begin(waiting.name);
    }
    if let Some(restarted) = run.restarted() {
        driver.restarted(restarted);
    }
    drive::to_the_end(&driver, run, input)
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
    let (id, _) = find(arguments.run.as_deref(), ctx, ui)?;
    let past = past::load(ctx, ui)?;
    let report = past.report(id)?;
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
        (Some(waiting), _) => drive::show_waiting(ui, waiting),
        (None, None | Some(RunStatus::Waiting)) => {
            ui.hint(&format!("`piton resume {id}` goes on, `piton cancel {id}` ends it"));
        }
        (None, Some(RunStatus::Failed | RunStatus::Denied | RunStatus::Cancelled)) if record.directive.is_some() => {
            ui.hint(&format!("`piton resume {id}` begins again at the step that failed, `--skip` after it"));
        }
        _ => {}
    }
    Ok(ExitStatus::Success)
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
