//! Calls a single tool: a run of one step.

use std::time::Duration;

use super::{Listener, ToolPlan, ToolPlanner, ToolResult, ToolStep};
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::exec::supervisor::Supervisor;
use crate::item::directive::CheckpointMode;
use crate::journal::summary::RunSummary;
use crate::run::error::RunError;
use crate::run::session::{Observer, RunRequest, Session};

/// The options of a single tool call.
#[derive(Clone, Debug, Default)]
pub struct ToolCommand {
    /// The name of the step in the log and the commit; by default the tool.
    pub name: Option<String>,
    pub message: Option<String>,
    /// The command line, for the journal.
    pub command: Vec<String>,
    /// The checkpoint mode; by default that of the settings.
    pub mode: Option<CheckpointMode>,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
}

/// The result of the call.
#[derive(Debug)]
pub enum Called {
    /// The call ended, with or without success.
    Ended {
        result: Box<ToolResult>,
        summary: RunSummary,
    },
    /// The run ended before the call.
    CutOff {
        error: RunError,
        summary: RunSummary,
    },
}

/// Calls a tool as a run of one step.
///
/// `on_begin` receives whether there is a repository, so that the caller can warn in time.
pub fn perform(
    ctx: &Context,
    (plan, planner): (&ToolPlan, ToolPlanner<'_>),
    command: &ToolCommand,
    supervisor: Supervisor,
    observer: &mut Observer<'_>,
    on_begin: &mut dyn FnMut(&Session<'_>),
    listener: &mut Listener<'_>,
) -> Result<Called, RunError> {
    let name = redacted(command.name.as_deref().unwrap_or(plan.invocation.id()));
    let request = RunRequest {
        name: name.clone(),
        command: command.command.clone(),
        mode: command
            .mode
            .or_else(|| ctx.config.checkpoint_mode())
            .unwrap_or(CheckpointMode::Explicit),
        lock_timeout: command.lock_timeout,
        directive: None,
    };
    let mut session = Session::begin(ctx, &request, observer)?;
    on_begin(&session);
    let message = command.message.as_deref().map(redacted);
    match super::call_tool(
        &mut session,
        ToolStep::new(&name, plan, planner, message.as_deref()),
        supervisor,
        listener,
    ) {
        Ok(called) => {
            let summary = session.finish(called.end.run_status(), called.end.error)?;
            Ok(Called::Ended {
                result: Box::new(called.result),
                summary,
            })
        }
        Err(error) => match session.abandon(&error)? {
            Some(summary) => Ok(Called::CutOff { error, summary }),
            None => Err(error),
        },
    }
}
