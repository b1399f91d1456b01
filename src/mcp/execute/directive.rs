//! Starts the run of a directive.

use std::sync::Arc;

use serde_json::{Value, json};

use super::agent_loop::{self, Stage};
use super::checkpoint::{self, CallEffect};
use super::tool::{PATIENCE, mode};
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::mcp::answer::ToolAnswer;
use crate::mcp::arguments::CallArguments;
use crate::mcp::call::{CallReply, CallWork, Caller};
use crate::mcp::failure::ToolFailure;
use crate::mcp::projects::{Projects, lock};
use crate::problem::Code;
use crate::run::directive::pin::{RunOptions, is_git_checkpoint};
use crate::run::directive::preview::{explained, preview};
use crate::run::directive::{DirectiveRequest, PreparedRun, Worker};
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;
use crate::run::pinned_authority::{ConfinementError, PinnedAuthority, RunOf};

/// Runs a directive until it ends or waits for a person or an agent.
pub(super) async fn run(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    let id = arguments.text("item_id")?.unwrap_or_default();
    if is_git_checkpoint(id) {
        return checkpoint::run(projects, arguments, caller).await;
    }
    // The client repeats the call with the person's answer; the run exists already.
    if let Some(sealed) = &caller.state {
        return agent_loop::answered(projects, caller, sealed, arguments.text("project_path")?)
            .await;
    }
    let here = Arc::clone(projects);
    let stage = caller
        .work(move |work| begin(&here, &arguments, &work))
        .await?;
    agent_loop::follow(projects, caller, stage).await
}

fn begin(
    projects: &Projects,
    arguments: &CallArguments,
    work: &CallWork,
) -> Result<Stage, ToolFailure> {
    let id = arguments.required("item_id")?.to_owned();
    let (project, ctx) = projects.project(arguments.text("project_path")?)?;
    let ctx = work.equip(ctx);
    let inputs = arguments.object("parameters")?;
    let effect = CallEffect::of(arguments)?;
    let request = DirectiveRequest {
        command: vec![
            "piton".to_owned(),
            "mcp".to_owned(),
            "run".to_owned(),
            redacted(&id),
        ],
        id,
        inputs,
        texts: Vec::new(),
        mode: mode(arguments)?,
        options: RunOptions {
            ask: arguments.flag("ask")?,
            atomic: arguments.flag("atomic")?,
            ..RunOptions::default()
        },
        lock_timeout: PATIENCE,
        run: None,
        worker: Worker::Driver,
    };
    let prepared = match PreparedRun::new(&ctx, &request) {
        Err(err) if effect == CallEffect::Shown => {
            return Err(explained(&ctx, &request, err).into());
        }
        prepared => prepared?,
    };
    if let Some(confinement) = projects.confinement() {
        require_confined(&ctx, confinement, &prepared)?;
    }
    if effect == CallEffect::Shown {
        return planned(&ToolAnswer::result(
            &preview(&ctx, &request, prepared).to_json(),
        )?)
        .map(Stage::Told);
    }
    let turn = lock(&project.turn);
    refuse_cancelled(work)?;
    project.remember();
    prepared
        .notes()
        .into_iter()
        .for_each(|note| work.report(note));
    let stage = agent_loop::begin(&ctx, &request, prepared, work);
    drop(turn);
    stage
}

/// Under `--as`, only that directive can be run, as it was when the server began.
fn require_confined(
    ctx: &Context,
    confinement: &PinnedAuthority,
    prepared: &PreparedRun,
) -> Result<(), ToolFailure> {
    match confinement.compare(ctx, prepared) {
        RunOf::Same => Ok(()),
        RunOf::Changed => {
            let err = ConfinementError::Changed(confinement.id().to_owned());
            Err(RunError::from(err).into())
        }
        RunOf::Other => Err(not_granted(confinement, prepared.label())),
    }
}

/// The error for a directive that the server is not limited to.
pub(super) fn not_granted(confinement: &PinnedAuthority, label: &str) -> ToolFailure {
    let id = confinement.id();
    let message =
        format!("this server is limited to directive `{id}`, which does not run `{label}`");
    ToolFailure::new(
        ErrorTitle::PermissionDenied,
        Code::PermissionDenied,
        message,
    )
    .with_suggestion(format!("run `{id}`, or call the tools that it permits"))
}

/// The preview, with the fields that every answer has.
fn planned(shown: &ToolAnswer) -> Result<ToolAnswer, ToolFailure> {
    let mut told = json!({"action": "run", "status": "planned", "dry_run": true});
    if let (Value::Object(told), Value::Object(shown)) = (&mut told, &shown.value) {
        told.extend(shown.clone());
    }
    ToolAnswer::result(&told)
}

/// Stops a call that was cancelled while it waited for its turn.
pub(super) fn refuse_cancelled(work: &CallWork) -> Result<(), ToolFailure> {
    if work.stop.is_asked() {
        return Err(ToolFailure::new(
            ErrorTitle::Cancelled,
            Code::Interrupted,
            "the call was cancelled",
        )
        .with("status", "cancelled"));
    }
    Ok(())
}
