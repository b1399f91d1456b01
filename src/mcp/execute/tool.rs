//! Calls a tool, with the same plan, step and result as `piton tool run`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::directive::refuse_cancelled;
use super::on_thread;
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::error::Error;
use crate::exec::call::CallProgress;
use crate::exec::supervisor::Supervisor;
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::store::{ItemKind, ItemStore};
use crate::item::wording::shown;
use crate::journal::event::Event;
use crate::mcp::answer::ToolAnswer;
use crate::mcp::arguments::CallArguments;
use crate::mcp::call::{Answered, CallReply, CallWork, Caller};
use crate::mcp::failure::ToolFailure;
use crate::mcp::projects::{Projects, lock};
use crate::problem::Code;
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;
use crate::run::tool::{
    self, Called, ToolCommand, ToolPlanner, ToolRequest, ToolResult, ToolStatus,
};

/// How long a call waits for another process that holds the lock: short enough that a person is
/// told soon.
pub(in crate::mcp) const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    on_thread(projects, arguments, caller, call).await
}

fn call(projects: &Projects, arguments: &CallArguments, work: &CallWork) -> Answered {
    let id = arguments.required("item_id")?.to_owned();
    let of_tool = |failure: ToolFailure| failure.with("tool_id", id.as_str());
    let (project, ctx) = projects
        .project(arguments.text("project_path").map_err(of_tool)?)
        .map_err(of_tool)?;
    let ctx = work.equip(ctx);
    let mode = mode(arguments).map_err(of_tool)?;
    let is_dry = arguments.flag("dry_run").map_err(of_tool)?;
    let (id, command) = split(&id);
    let request = ToolRequest {
        id: id.to_owned(),
        command: command.map(str::to_owned),
        parameters: arguments.object("parameters").map_err(of_tool)?,
        ..ToolRequest::default()
    };
    if is_dry {
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        let plan = tool::plan(&ctx, &store, &request, &projects.authority());
        let plan = plan.map_err(|err| of_tool(err.into()))?;
        return ToolAnswer::result(
            &json!({"tool_id": plan.invocation.id(), "action": "run", "status": "planned", "dry_run": true, "plan": plan}),
        );
    }
    let command = ToolCommand {
        command: ["mcp", "execute", "tool"]
            .iter()
            .copied()
            .chain([id])
            .map(redacted)
            .collect(),
        mode,
        lock_timeout: PATIENCE,
        ..ToolCommand::default()
    };
    // Calls that change one project run one after the other; calls that only read do not wait.
    let _turn = lock(&project.turn);
    refuse_cancelled(work).map_err(of_tool)?;
    project.remember();
    match perform(projects, &ctx, &request, &command, work) {
        Ok(result) if result.status == ToolStatus::Success => ToolAnswer::result(&result),
        Ok(result) => failed(&result),
        Err(err) => failed(&Error::from(err).as_tool_result(id)),
    }
}

/// A failed call, with the fields that every error has.
fn failed(result: &ToolResult) -> Answered {
    let mut answer = ToolAnswer::error(result)?;
    if let Value::Object(value) = &mut answer.value {
        value.insert("item_type".to_owned(), json!(ItemKind::Tool));
        value.entry("suggestion").or_insert(Value::Null);
    }
    Ok(answer)
}

fn perform(
    projects: &Projects,
    ctx: &Context,
    request: &ToolRequest,
    command: &ToolCommand,
    work: &CallWork,
) -> Result<ToolResult, RunError> {
    // Starting the supervisor takes as long as planning, so both run at the same time.
    let supervisor = Supervisor::start(&ctx.program);
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let authority = projects.authority();
    let plan = tool::plan(ctx, &store, request, &authority)?;
    let planner = ToolPlanner {
        store: &store,
        authority: &authority,
    };
    let mut observer = |event: &Event| match event {
        Event::StepStarted { name, .. } => work.report(format!("{name} runs")),
        Event::CallStarted { call, .. } => work.report(format!("{} is called", call.tool())),
        _ => {}
    };
    let mut listener = |progress: CallProgress<'_>| {
        if let CallProgress::Preparing(text) = progress {
            work.report(text);
        }
    };
    let supervisor = supervisor?;
    match tool::perform(
        ctx,
        (&plan, planner),
        command,
        supervisor,
        &mut observer,
        &mut |_| {},
        &mut listener,
    )? {
        Called::Ended { result, .. } => Ok(*result),
        Called::CutOff { error, .. } => Err(error),
    }
}

/// The checkpoint mode of a call. An agent cannot disable checkpoints.
pub(super) fn mode(arguments: &CallArguments) -> Result<Option<CheckpointMode>, ToolFailure> {
    match arguments.text("checkpoint")? {
        None => Ok(None),
        Some("auto") => Ok(Some(CheckpointMode::Auto)),
        Some("explicit") => Ok(Some(CheckpointMode::Explicit)),
        Some("disabled") => Err(ToolFailure::new(
            ErrorTitle::PermissionDenied,
            Code::PolicyLoosened,
            "only the settings of the project can turn checkpoints off",
        )
        .with_suggestion("use `auto` or `explicit`")),
        Some(other) => Err(ToolFailure::argument(format!(
            "there is no checkpoint mode `{}`",
            shown(other)
        ))
        .with_suggestion("`checkpoint` is `auto` or `explicit`")),
    }
}

/// Splits `tool:command`.
fn split(id: &str) -> (&str, Option<&str>) {
    match id.split_once(':') {
        Some((tool, command)) => (tool, Some(command)),
        None => (id, None),
    }
}
