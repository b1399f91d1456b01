//! Continues, shows and cancels runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::agent_loop::{self, Stage};
use super::directive::{not_granted, refuse_cancelled};
use super::on_thread;
use crate::audit::history::RunRecord;
use crate::context::Context;
use crate::journal::RunId;
use crate::journal::event::{Event, Wait};
use crate::mcp::answer::{AnswerKind, ToolAnswer};
use crate::mcp::arguments::CallArguments;
use crate::mcp::call::{Answered, CallReply, CallWork, Caller};
use crate::mcp::failure::ToolFailure;
use crate::mcp::hints::for_agents;
use crate::mcp::progress::RunProgress;
use crate::mcp::projects::{Project, Projects, lock};
use crate::problem::{Code, Explain};
use crate::run::directive::{self, RunInput, StartAt};
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;
use crate::run::json::RunLine;
use crate::run::project_history::{ProjectHistory, RunReport, repo_paths, run_here, waiting_in};
use crate::run::remainder::Left;

/// Resumes a waiting or interrupted run.
pub(super) async fn go_on(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    if let Some(sealed) = &caller.state {
        return agent_loop::answered(projects, caller, sealed, arguments.text("project_path")?)
            .await;
    }
    let here = Arc::clone(projects);
    let stage = caller
        .work(move |work| take_up(&here, &arguments, &work))
        .await?;
    agent_loop::follow(projects, caller, stage).await
}

pub(super) async fn status(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    on_thread(projects, arguments, caller, report).await
}

fn report(projects: &Projects, arguments: &CallArguments, work: &CallWork) -> Answered {
    let parameters = parameters(arguments, &["run_id"])?;
    let (_, ctx) = projects.project(arguments.text("project_path")?)?;
    let mut past = ProjectHistory::load(&ctx)?;
    let is_named = parameters.value("run_id").is_some();
    let here = directive::unfinished(&ctx)?.map(|waiting| waiting.run);
    // The journal can be shown even if the files cannot be read.
    let left = if is_named {
        Left::default()
    } else {
        past.look_at_disk(&ctx).unwrap_or_default()
    };
    let others: Vec<_> = past
        .open_runs()
        .filter(|(run, _)| !is_named && Some(run.id) != here)
        .collect();
    let others: Vec<Value> = others
        .iter()
        .map(|(run, situation)| json!(RunLine::new(run, situation)))
        .collect();
    if !is_named && here.is_none() {
        let message = if others.is_empty() {
            "no run waits here"
        } else {
            "no run waits here; others are unfinished"
        };
        let mut told =
            json!({"action": "status", "status": "success", "run_id": null, "message": message});
        if !others.is_empty() {
            told["others"] = others.into();
        }
        if !left.steps.is_empty() {
            told["uncommitted"] = json!(left.files.paths());
        }
        return ToolAnswer::result(&told);
    }
    let (project, run, there) = name(projects, arguments, &parameters)?;
    let answer = if there.root == project.root || projects.require_served(&there.root).is_ok() {
        state_of(&work.equip(there), run, "status")?
    } else {
        elsewhere(&ctx, &past.report(run)?, there.root)
    };
    let situation = past
        .history
        .run(run)
        .map(|record| json!(past.situation(record)))
        .unwrap_or_default();
    let answer = situation
        .as_object()
        .into_iter()
        .flatten()
        .fold(answer, |answer, (name, value)| {
            with(answer, name, value.clone())
        });
    Ok(if others.is_empty() {
        answer
    } else {
        with(answer, "others", others.into())
    })
}

/// Ends a waiting run for good.
pub(super) async fn cancel(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    on_thread(projects, arguments, caller, end).await
}

fn end(projects: &Projects, arguments: &CallArguments, work: &CallWork) -> Answered {
    let parameters = parameters(arguments, &["run_id"])?;
    let (project, ctx, run) = find(projects, arguments, &parameters, work)?;
    if arguments.flag("dry_run")? {
        return state_of(&ctx, run, "cancel").map(as_dry);
    }
    let _turn = lock(&project.turn);
    refuse_cancelled(work)?;
    let mut progress = RunProgress::new(work);
    let summary = directive::cancel(&ctx, run, &mut |event: &Event| progress.event(event))?;
    ToolAnswer::result(&json!({
        "action": "cancel",
        "status": "cancelled",
        "run_id": run,
        "directive": summary.directive,
        "message": "the run was cancelled; the changes of its steps stay",
        "run": summary,
    }))
}

fn take_up(
    projects: &Projects,
    arguments: &CallArguments,
    work: &CallWork,
) -> Result<Stage, ToolFailure> {
    let parameters = parameters(
        arguments,
        &["run_id", "result", "failed", "paths", "from", "skip"],
    )?;
    let start = match (parameters.text("from")?, parameters.flag("skip")?) {
        (Some(_), true) => {
            return Err(ToolFailure::argument(
                "`from` and `skip` exclude each other",
            ));
        }
        (Some(step), false) => StartAt::Step(step.to_owned()),
        (None, true) => StartAt::Skip,
        (None, false) => StartAt::Failed,
    };
    require_own_tree(projects, arguments, &parameters)?;
    let (project, ctx, run) = find(projects, arguments, &parameters, work)?;
    if arguments.flag("dry_run")? {
        return state_of(&ctx, run, "continue").map(as_dry).map(Stage::Told);
    }
    let input = input(&ctx, &parameters)?;
    let is_said = ["result", "failed", "paths"]
        .iter()
        .any(|name| parameters.value(name).is_some());
    let turn = lock(&project.turn);
    refuse_cancelled(work)?;
    project.remember();
    let past = ProjectHistory::load(&ctx)?;
    let label = past.history.run(run).and_then(|it| it.directive.as_deref());
    if let (Some(confinement), Some(label)) = (projects.confinement(), label)
        && label != confinement.label()
    {
        return Err(not_granted(confinement, label));
    }
    let waiting = past
        .history
        .run(run)
        .filter(|record| record.is_open())
        .and_then(waiting_in);
    let stage = match waiting.map(|waiting| waiting.wait) {
        Some(Wait::Person { .. } | Wait::Changes | Wait::Indeterminate { .. }) if is_said => {
            Err(for_a_person(run))
        }
        Some(Wait::Person { .. } | Wait::Changes | Wait::Indeterminate { .. })
            if start == StartAt::Failed =>
        {
            agent_loop::stage_of(&ctx, run)
        }
        None if is_said && past.history.run(run).is_some_and(RunRecord::is_open) => {
            Err(RunError::NothingAsked(run).into())
        }
        _ => {
            let confined = (&ctx, projects.confinement());
            agent_loop::take_up(confined, run, input, start, None, work)
        }
    };
    drop(turn);
    stage
}

/// Refuses a run that waits for edits in another work tree than the one that the caller named.
fn require_own_tree(
    projects: &Projects,
    arguments: &CallArguments,
    parameters: &CallArguments,
) -> Result<(), ToolFailure> {
    let (_, ctx) = projects.project(arguments.text("project_path")?)?;
    let Some(name) = parameters.text("run_id")? else {
        return Ok(());
    };
    let past = ProjectHistory::load(&ctx)?;
    // An unknown run is reported by the next lookup.
    let Ok((run, _)) = past.find_run(&ctx, name) else {
        return Ok(());
    };
    Ok(past.require_here(run)?)
}

fn for_a_person(run: RunId) -> ToolFailure {
    let message = format!("run {run} waits for a person, who must answer in person");
    ToolFailure::new(ErrorTitle::PersonNeeded, Code::PersonNeeded, message).with("run_id", run.to_string()).with_suggestion(format!(
        "`continue` without `result`, `failed` or `paths` asks them; in a terminal: `piton status {run}`"
    ))
}

/// The agent's answer to a waiting step.
fn input(ctx: &Context, parameters: &CallArguments) -> Result<RunInput, ToolFailure> {
    let paths = paths_of(parameters)?;
    match (parameters.text("failed")?, parameters.value("result")) {
        (Some(_), Some(_)) => Err(ToolFailure::argument(
            "`result` and `failed` exclude each other",
        )),
        (Some(_), None) if !paths.is_empty() => Err(ToolFailure::argument(
            "`failed` and `paths` exclude each other",
        )),
        (Some(why), None) => Ok(RunInput::Failed(why.to_owned())),
        (None, result) => Ok(RunInput::Done {
            result: result.cloned(),
            paths: repo_paths(ctx, &paths)?,
        }),
    }
}

pub(super) fn paths_of(parameters: &CallArguments) -> Result<Vec<OsString>, ToolFailure> {
    match parameters.value("paths") {
        None => Ok(Vec::new()),
        Some(Value::Array(paths)) => paths
            .iter()
            .map(|path| path.as_str().map(OsString::from).ok_or_else(not_paths))
            .collect(),
        Some(_) => Err(not_paths()),
    }
}

fn not_paths() -> ToolFailure {
    ToolFailure::argument("`paths` must be a list of paths")
        .with_suggestion("name files and folders relative to the project")
}

pub(super) fn parameters(
    arguments: &CallArguments,
    known: &[&str],
) -> Result<CallArguments, ToolFailure> {
    CallArguments::new(Some(arguments.object("parameters")?), known)
}

/// Finds the named run, or the unfinished run of this work tree, and where it runs.
fn name(
    projects: &Projects,
    arguments: &CallArguments,
    parameters: &CallArguments,
) -> Result<(Arc<Project>, RunId, Context), ToolFailure> {
    let (project, ctx) = projects.project(arguments.text("project_path")?)?;
    let (run, there) = match parameters.text("run_id")? {
        Some(name) => ProjectHistory::load(&ctx)?
            .find_run(&ctx, name)
            .map_err(|err| unknown(ErrorTitle::RunNotFound, err))?,
        None => run_here(&ctx)?,
    };
    Ok((project, run, there))
}

/// Like [`name`], for changes: a run in its own worktree continues there, if that worktree is
/// served.
fn find(
    projects: &Projects,
    arguments: &CallArguments,
    parameters: &CallArguments,
    work: &CallWork,
) -> Result<(Arc<Project>, Context, RunId), ToolFailure> {
    let (project, run, there) = name(projects, arguments, parameters)?;
    let project = if there.root == project.root {
        project
    } else {
        projects.project(there.root.to_str())?.0
    };
    Ok((project, work.equip(there), run))
}

/// Replaces the title of an error if the named thing does not exist.
pub(super) fn unknown(title: ErrorTitle, err: RunError) -> ToolFailure {
    let is_unknown = matches!(err, RunError::Reference(_));
    let failure = ToolFailure::from(err);
    if is_unknown {
        ToolFailure { title, ..failure }
    } else {
        failure
    }
}

/// The status of a run.
fn state_of(ctx: &Context, run: RunId, action: &str) -> Result<ToolAnswer, ToolFailure> {
    let past = ProjectHistory::load(ctx)?;
    let is_waiting = past.history.run(run).and_then(waiting_in).is_some();
    let answer = match is_waiting
        .then(|| agent_loop::stage_of(ctx, run))
        .transpose()?
    {
        Some(Stage::Told(answer)) => answer,
        Some(Stage::Question(question)) => question.waiting,
        None => agent_loop::progress_answer(ctx, &past.report(run)?),
    };
    Ok(with(answer, "action", action.into()))
}

/// The status of a run in a work tree that is not served. All work trees share the journals; the
/// files are not shown.
fn elsewhere(ctx: &Context, report: &RunReport, root: PathBuf) -> ToolAnswer {
    let mut answer = with(
        agent_loop::progress_answer(ctx, report),
        "action",
        "status".into(),
    );
    let err = RunError::Elsewhere {
        run: report.run_id,
        root,
    };
    if let (Value::Object(value), true) = (&mut answer.value, report.waiting.is_some()) {
        // The run cannot continue from here.
        value.remove("next");
        let hint = err.hint().as_ref().map(for_agents).unwrap_or_default();
        value.insert("message".to_owned(), format!("{err}; {hint}").into());
    }
    answer
}

pub(super) fn as_dry(answer: ToolAnswer) -> ToolAnswer {
    with(answer, "dry_run", true.into())
}

fn with(mut answer: ToolAnswer, name: &str, what: Value) -> ToolAnswer {
    if let (Value::Object(value), AnswerKind::Result) = (&mut answer.value, answer.kind) {
        value.insert(name.to_owned(), what);
    }
    answer
}
