//! `piton resume`, `approve`, `reject`, `cancel` and `status`: going on with a run that waits.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::{Value, json};

use super::drive::{self, Approval, Driver};
use super::overview;
use super::ui::{Format, Ui};
use super::{past, render};
use crate::audit::history::RunRecord;
use crate::checkpoint::delta::Change;
use crate::checkpoint::path::listed;
use crate::config::AgentCommand;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::RunId;
use crate::journal::event::{Event, Wait};
use crate::journal::summary::RunStatus;
use crate::run::account::RunLine;
use crate::run::directive::{self, Input, Run, StartAt, TakeUp, Worker};
use crate::run::past::{Past, Report, repo_paths, run_here, waiting_in};
use crate::run::remainder::Left;
use crate::run::review::Review;
use crate::run::situation::Life;

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
    if (7..=64).contains(&text.len()) && text.chars().all(|it| it.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err("a tree is named by 7 to 64 hexadecimal digits".to_owned())
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

/// Show the runs that are not over: at work, waiting or interrupted
///
/// Without RUN: the run of this worktree with its steps, then the runs of other worktrees, one line each. A run is
/// `running` while its process is alive, `interrupted` when the process is gone. If no run waits here, the files that
/// steps changed and no commit has are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton status                              Every run that is not over
  piton status 01k9x2bf --format json")]
pub(super) struct StatusArguments {
    /// The run, or the beginning of its name; every run that is not over, by default.
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
    let (run, ctx) = &find_here(arguments.run.as_deref(), ctx, ui)?;
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
    let ApproveArguments { message, answer, tree, .. } = arguments;
    let driver = Driver::new(ui);
    let input = if arguments.yes || tree.is_some() || !Ui::can_ask() {
        Input::Approve { message: message.clone(), answer: answer.clone(), tree: tree.clone() }
    } else {
        driver.confirm_with(Approval { message: message.clone(), answer: answer.clone() });
        Input::Go
    };
    drive_on(&driver, *run, TakeUp::with(input), Confirmation::Wanted, ctx)
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
        if ui.format() == Format::Json || matches!(event, Event::Recovered { .. } | Event::SnapshotsMoved { .. }) {
            render::event(ui, event);
        }
    })?;
    if ui.format() == Format::Human {
        ui.success(&format!("run {id} was cancelled"));
        if let Some(hint) = summary.error.and_then(|error| error.hint) {
            ui.hint(&hint.to_string());
        }
    }
    Ok(ExitStatus::Success)
}

fn go_on(run: RunId, take_up: TakeUp<'_>, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    drive_on(&Driver::new(ui), run, take_up, Confirmation::NotWanted, ctx)
}

/// Whether a person confirms an approval after they have seen the diff.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Wanted,
    NotWanted,
}

fn drive_on(
    driver: &Driver<'_>,
    run: RunId,
    take_up: TakeUp<'_>,
    confirmation: Confirmation,
    ctx: &Context,
) -> Result<ExitStatus, Error> {
    let mut show = |event: &_| driver.event(event);
    let (run, input) = Run::resume(ctx, run, take_up, &mut show)?;
    if let Some(waiting) = run.waiting() {
        driver.begin(waiting.name);
    }
    if let Some(restarted) = run.restarted() {
        driver.restarted(restarted);
    }
    // A run that asks for no approval refuses one.
    let is_asked = run.waiting().is_some_and(|it| matches!(it.wait, Wait::Person { .. } | Wait::Changes));
    let input = match confirmation {
        Confirmation::Wanted if !is_asked => Input::Approve { message: None, answer: None, tree: None },
        Confirmation::Wanted | Confirmation::NotWanted => input,
    };
    drive::to_the_end(driver, run, input)
}

pub(super) fn status(arguments: &StatusArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let mut past = past::load(ctx, ui)?;
    // What was recorded can be shown where the files cannot be read.
    let left = past.look_at_disk(ctx).unwrap_or_default();
    let chosen = match &arguments.run {
        Some(name) => Some(past.find_run(ctx, name)?),
        None => past.run_here(ctx)?.map(|run| past.find_run(ctx, &run.to_string())).transpose()?,
    };
    let is_other = |run: RunId| arguments.run.is_none() && chosen.as_ref().is_none_or(|(id, _)| *id != run);
    let others: Vec<_> = past.open_runs().filter(|(run, _)| is_other(run.id)).collect();
    if ui.format() == Format::Json {
        let others: Vec<RunLine> = others.iter().map(|(run, situation)| RunLine::new(run, situation)).collect();
        match &chosen {
            None if others.is_empty() && left.steps.is_empty() => ui.json(&Value::Null)?,
            None => {
                let uncommitted = left.files.paths();
                ui.json(&json!({"run_id": null, "others": others, "uncommitted": uncommitted}))?;
            }
            Some((id, there)) => {
                let report = past.report(*id)?.with_review(past.review(there, *id));
                ui.json(&ReportWithOthers { report, others })?;
            }
        }
        return Ok(ExitStatus::Success);
    }
    if let Some((record, there)) = chosen.and_then(|(id, there)| Some((past.history.run(id)?, there))) {
        show_status(ui, &past, record, &there)?;
    } else {
        ui.line("no run waits here")?;
        show_left(ui, &left)?;
    }
    for (run, situation) in &others {
        let label = run.directive.clone().unwrap_or_else(|| past::words(run));
        let details = situation.details(past::time).join(", ");
        ui.line(&format!("{label}  run {}  {}: {details}", run.id, situation.word(run)))?;
    }
    Ok(ExitStatus::Success)
}

/// Names the files that steps changed and no commit has.
fn show_left(ui: &mut Ui, left: &Left) -> Result<(), Error> {
    let paths = left.files.paths();
    if left.steps.is_empty() || paths.is_empty() {
        return Ok(());
    }
    let steps: Vec<String> = left.steps.iter().map(|step| format!("`{step}`")).collect();
    ui.line(&format!("left uncommitted by {}:", steps.join(", ")))?;
    for path in paths {
        ui.line(&format!("  {path}"))?;
    }
    ui.hint("`piton diff` shows the changes, `piton checkpoint` commits them, `piton undo` takes the newest step back");
    Ok(())
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

/// Shows one run with its steps, who works on it, and how it goes on.
fn show_status(ui: &mut Ui, past: &Past, record: &RunRecord, there: &Context) -> Result<(), Error> {
    let (id, situation) = (record.id, past.situation(record));
    let label = record.directive.clone().unwrap_or_else(|| record.name.clone());
    ui.line(&format!("{label}  run {id}  {}", situation.word(record)))?;
    for detail in situation.details(past::time) {
        ui.line(&format!("  {detail}"))?;
    }
    overview::steps(ui, past, record)?;
    let folder = if situation.is_here { String::new() } else { format!(" -C '{}'", situation.worktree) };
    let can_restart = matches!(record.status(), Some(RunStatus::Failed | RunStatus::Denied | RunStatus::Cancelled));
    match (waiting_in(record), situation.life) {
        (None, Life::Ended) if can_restart && record.directive.is_some() => {
            ui.hint(&format!("`piton{folder} resume {id}` begins again at the step that failed, `--skip` after it"));
        }
        (_, Life::Running | Life::Unknown | Life::Ended) => {}
        (Some(waiting), _) => {
            drive::show_waiting(ui, &waiting);
            if let Some(review) = past.review(there, id).filter(|review| !review.changes.is_empty()) {
                show_review(ui, id, &review);
            }
            if !situation.is_here {
                ui.hint(&format!("the run waits in `{}`: work there, or use `piton{folder} …`", situation.worktree));
            }
        }
        (None, _) if record.directive.is_some() => {
            ui.hint(&format!("`piton{folder} resume {id}` goes on, `piton{folder} cancel {id}` ends it"));
        }
        (None, _) => {
            ui.hint(&format!("`piton{folder} recover` puts its worktree in order, as the next run there does"));
        }
    }
    Ok(())
}

/// The run of this worktree, with one line for each other run that is not over.
#[derive(serde::Serialize)]
struct ReportWithOthers<'a> {
    #[serde(flatten)]
    report: Report,
    others: Vec<RunLine<'a>>,
}

/// As [`find`], for what takes edits of a work tree: those of another one than the caller's are refused.
fn find_here(name: Option<&str>, ctx: &Context, ui: &mut Ui) -> Result<(RunId, Context), Error> {
    let Some(name) = name else { return Ok(run_here(ctx)?) };
    let past = past::load(ctx, ui)?;
    let (run, there) = past.find_run(ctx, name)?;
    past.require_here(run)?;
    Ok((run, there))
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
