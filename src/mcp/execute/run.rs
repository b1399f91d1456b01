//! Continues, shows and cancels runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::directive::refuse_cancelled;
use super::led::{self, Stage};
use crate::audit::history::RunRecord;
use crate::context::Context;
use crate::journal::RunId;
use crate::journal::event::{Event, Wait};
use crate::mcp::answer::{Answer, AnswerKind};
use crate::mcp::arguments::Arguments;
use crate::mcp::call::{Caller, Reply, Work};
use crate::mcp::desk::{Desk, Project, lock};
use crate::mcp::failure::Failure;
use crate::mcp::hints::for_agents;
use crate::mcp::tale::Tale;
use crate::problem::{Code, Explain};
use crate::run::account::RunLine;
use crate::run::directive::{self, Input, StartAt};
use crate::run::error::RunError;
use crate::run::past::{Past, Report, repo_paths, run_here, waiting_in};
use crate::run::remainder::Left;

/// Resumes a waiting or interrupted run.
pub(super) async fn go_on(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    if let Some(sealed) = &caller.state {
        return led::answered(desk, caller, sealed, arguments.text("project_path")?).await;
    }
    let here = Arc::clone(desk);
    let stage = caller.work(move |work| take_up(&here, &arguments, &work)).await?;
    led::follow(desk, caller, stage).await
}

pub(super) async fn status(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    let desk = Arc::clone(desk);
    let answer = caller.work(move |work| {
        let parameters = parameters(&arguments, &["run_id"])?;
        let (_, ctx) = desk.project(arguments.text("project_path")?)?;
        let mut past = Past::load(&ctx)?;
        let is_named = parameters.value("run_id").is_some();
        let here = directive::unfinished(&ctx)?.map(|waiting| waiting.run);
        // The journal can be shown even if the files cannot be read.
        let left = if is_named { Left::default() } else { past.look_at_disk(&ctx).unwrap_or_default() };
        let others: Vec<_> = past.open_runs().filter(|(run, _)| !is_named && Some(run.id) != here).collect();
        let others: Vec<Value> = others.iter().map(|(run, situation)| json!(RunLine::new(run, situation))).collect();
        if !is_named && here.is_none() {
            let message =
                if others.is_empty() { "no run waits here" } else { "no run waits here; others are not over" };
            let mut told = json!({"action": "status", "status": "success", "run_id": null, "message": message});
            if !others.is_empty() {
                told["others"] = others.into();
            }
            if !left.steps.is_empty() {
                told["uncommitted"] = json!(left.files.paths());
            }
            return Answer::result(&told);
        }
        let (project, run, there) = name(&desk, &arguments, &parameters)?;
        let answer = if there.root == project.root || desk.require_served(&there.root).is_ok() {
            tell(&work.equip(there), run, "status")?
        } else {
            elsewhere(&ctx, &past.report(run)?, there.root)
        };
        let situation = past.history.run(run).map(|record| json!(past.situation(record))).unwrap_or_default();
        let answer = situation
            .as_object()
            .into_iter()
            .flatten()
            .fold(answer, |answer, (name, value)| with(answer, name, value.clone()));
        Ok(if others.is_empty() { answer } else { with(answer, "others", others.into()) })
    });
    Ok(answer.await?.into())
}

/// Ends a waiting run for good.
pub(super) async fn cancel(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    let desk = Arc::clone(desk);
    let answer = caller.work(move |work| {
        let parameters = parameters(&arguments, &["run_id"])?;
        let (project, ctx, run) = find(&desk, &arguments, &parameters, &work)?;
        if arguments.flag("dry_run")? {
            return tell(&ctx, run, "cancel").map(as_dry);
        }
        let _turn = lock(&project.turn);
        refuse_cancelled(&work)?;
        let mut tale = Tale::new(&work);
        let summary = directive::cancel(&ctx, run, &mut |event: &Event| tale.event(event))?;
        Answer::result(&json!({
            "action": "cancel",
            "status": "cancelled",
            "run_id": run,
            "directive": summary.directive,
            "message": "the run is over; what its steps have done stays",
            "run": summary,
        }))
    });
    Ok(answer.await?.into())
}

fn take_up(desk: &Desk, arguments: &Arguments, work: &Work) -> Result<Stage, Failure> {
    let parameters = parameters(arguments, &["run_id", "result", "failed", "paths", "from", "skip"])?;
    let start = match (parameters.text("from")?, parameters.flag("skip")?) {
        (Some(_), true) => return Err(Failure::argument("`from` and `skip` cannot both be meant")),
        (Some(step), false) => StartAt::Step(step.to_owned()),
        (None, true) => StartAt::Skip,
        (None, false) => StartAt::Failed,
    };
    require_own_tree(desk, arguments, &parameters)?;
    let (project, ctx, run) = find(desk, arguments, &parameters, work)?;
    if arguments.flag("dry_run")? {
        return tell(&ctx, run, "continue").map(as_dry).map(Stage::Told);
    }
    let input = input(&ctx, &parameters)?;
    let is_said = ["result", "failed", "paths"].iter().any(|name| parameters.value(name).is_some());
    let turn = lock(&project.turn);
    refuse_cancelled(work)?;
    project.remember();
    let past = Past::load(&ctx)?;
    let waiting = past.history.run(run).filter(|record| record.is_open()).and_then(waiting_in);
    let stage = match waiting.map(|waiting| waiting.wait) {
        Some(Wait::Person { .. } | Wait::Changes | Wait::Indeterminate { .. }) if is_said => Err(for_a_person(run)),
        Some(Wait::Person { .. } | Wait::Changes | Wait::Indeterminate { .. }) if start == StartAt::Failed => {
            led::stage_of(&ctx, run)
        }
        None if is_said && past.history.run(run).is_some_and(RunRecord::is_open) => {
            Err(RunError::NothingAsked(run).into())
        }
        _ => led::take_up(&ctx, run, input, start, None, work),
    };
    drop(turn);
    stage
}

/// Refuses a run that waits for edits in another work tree than the one that the caller named.
fn require_own_tree(desk: &Desk, arguments: &Arguments, parameters: &Arguments) -> Result<(), Failure> {
    let (_, ctx) = desk.project(arguments.text("project_path")?)?;
    let Some(name) = parameters.text("run_id")? else { return Ok(()) };
    let past = Past::load(&ctx)?;
    // An unknown run is reported by the next lookup.
    let Ok((run, _)) = past.find_run(&ctx, name) else { return Ok(()) };
    Ok(past.require_here(run)?)
}

fn for_a_person(run: RunId) -> Failure {
    let message = format!("run {run} waits for a person, and nobody else can answer for them");
    Failure::new("Person needed", Code::PersonNeeded, message).with("run_id", run.to_string()).with_suggestion(format!(
        "`continue` without `result`, `failed` or `paths` asks them; in a terminal: `piton status {run}`"
    ))
}

/// The agent's answer to a waiting step.
fn input(ctx: &Context, parameters: &Arguments) -> Result<Input, Failure> {
    let paths = paths_of(parameters)?;
    match (parameters.text("failed")?, parameters.value("result")) {
        (Some(_), Some(_)) => Err(Failure::argument("`result` and `failed` cannot both be meant")),
        (Some(_), None) if !paths.is_empty() => Err(Failure::argument("`failed` and `paths` cannot both be meant")),
        (Some(why), None) => Ok(Input::Failed(why.to_owned())),
        (None, result) => Ok(Input::Done { result: result.cloned(), paths: repo_paths(ctx, &paths)? }),
    }
}

pub(super) fn paths_of(parameters: &Arguments) -> Result<Vec<OsString>, Failure> {
    match parameters.value("paths") {
        None => Ok(Vec::new()),
        Some(Value::Array(paths)) => {
            paths.iter().map(|path| path.as_str().map(OsString::from).ok_or_else(not_paths)).collect()
        }
        Some(_) => Err(not_paths()),
    }
}

fn not_paths() -> Failure {
    Failure::argument("`paths` must be a list of paths")
        .with_suggestion("name files and folders relative to the project")
}

pub(super) fn parameters(arguments: &Arguments, known: &[&str]) -> Result<Arguments, Failure> {
    Arguments::new(Some(arguments.object("parameters")?), known)
}

/// Finds the named run, or the unfinished run of this work tree, and where it runs.
fn name(desk: &Desk, arguments: &Arguments, parameters: &Arguments) -> Result<(Arc<Project>, RunId, Context), Failure> {
    let (project, ctx) = desk.project(arguments.text("project_path")?)?;
    let (run, there) = match parameters.text("run_id")? {
        Some(name) => Past::load(&ctx)?.find_run(&ctx, name).map_err(|err| unknown("Run not found", err))?,
        None => run_here(&ctx)?,
    };
    Ok((project, run, there))
}

/// Like [`name`], for changes: a run in its own worktree continues there, if that worktree is
/// served.
fn find(
    desk: &Desk,
    arguments: &Arguments,
    parameters: &Arguments,
    work: &Work,
) -> Result<(Arc<Project>, Context, RunId), Failure> {
    let (project, run, there) = name(desk, arguments, parameters)?;
    let project = if there.root == project.root { project } else { desk.project(there.root.to_str())?.0 };
    Ok((project, work.equip(there), run))
}

/// Replaces the title of an error if the named thing does not exist.
pub(super) fn unknown(words: &str, err: RunError) -> Failure {
    let is_unknown = matches!(err, RunError::Reference(_));
    let failure = Failure::from(err);
    if is_unknown { Failure { error: words.to_owned(), ..failure } } else { failure }
}

/// The status of a run.
fn tell(ctx: &Context, run: RunId, action: &str) -> Result<Answer, Failure> {
    let past = Past::load(ctx)?;
    let is_waiting = past.history.run(run).and_then(waiting_in).is_some();
    let answer = match is_waiting.then(|| led::stage_of(ctx, run)).transpose()? {
        Some(Stage::Told(answer)) => answer,
        Some(Stage::Question(question)) => question.waiting,
        None => led::standing(ctx, &past.report(run)?),
    };
    Ok(with(answer, "action", action.into()))
}

/// The status of a run in a work tree that is not served. All work trees share the journals; the
/// files are not shown.
fn elsewhere(ctx: &Context, report: &Report, root: PathBuf) -> Answer {
    let mut answer = with(led::standing(ctx, report), "action", "status".into());
    let err = RunError::Elsewhere { run: report.run_id, root };
    if let (Value::Object(value), true) = (&mut answer.value, report.waiting.is_some()) {
        // The run cannot continue from here.
        value.remove("next");
        let hint = err.hint().as_ref().map(for_agents).unwrap_or_default();
        value.insert("message".to_owned(), format!("{err}; {hint}").into());
    }
    answer
}

pub(super) fn as_dry(answer: Answer) -> Answer {
    with(answer, "dry_run", true.into())
}

fn with(mut answer: Answer, name: &str, what: Value) -> Answer {
    if let (Value::Object(value), AnswerKind::Result) = (&mut answer.value, answer.kind) {
        value.insert(name.to_owned(), what);
    }
    answer
}
