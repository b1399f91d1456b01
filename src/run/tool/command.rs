//! A tool called by itself: a run of one step.

use std::time::Duration;

use super::{Listener, Planner, ToolPlan, ToolResult, ToolStep};
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::exec::supervisor::Supervisor;
use crate::item::directive::CheckpointMode;
use crate::journal::summary::RunSummary;
use crate::run::error::RunError;
use crate::run::session::{Observer, RunRequest, Session};

/// How a tool is called by itself.
#[derive(Clone, Debug, Default)]
pub struct ToolCommand {
    /// What the step is called in the log and the commit; the tool by default.
    pub name: Option<String>,
    /// The message of the commit, instead of a generated one.
    pub message: Option<String>,
    /// How it was started, for the journal.
    pub command: Vec<String>,
    /// When changes are checkpointed; what the settings say, by default.
    pub mode: Option<CheckpointMode>,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
}

/// What became of the call.
#[derive(Debug)]
pub enum Called {
    /// It has an end, good or bad.
    Ended {
        /// What it gave back.
        result: Box<ToolResult>,
        /// The run that it was.
        summary: RunSummary,
    },
    /// The run ended before the call did.
    CutOff {
        /// Why.
        error: RunError,
        /// The run that it was.
        summary: RunSummary,
    },
}

/// Calls a tool as a run of one step.
///
/// `on_begin` hears whether there is a repository, so that somebody can be warned before it is too late.
pub fn perform(
    ctx: &Context,
    (plan, planner): (&ToolPlan, Planner<'_>),
    command: &ToolCommand,
    supervisor: Supervisor,
    observer: &mut Observer<'_>,
    on_begin: &mut dyn FnMut(&Session<'_, '_>),
    listener: &mut Listener<'_>,
) -> Result<Called, RunError> {
    let name = redacted(command.name.as_deref().unwrap_or(plan.invocation.id()));
    let request = RunRequest {
        name: name.clone(),
        command: command.command.clone(),
        mode: command.mode.or_else(|| ctx.config.checkpoint_mode()).unwrap_or(CheckpointMode::Explicit),
        lock_timeout: command.lock_timeout,
        directive: None,
    };
    let mut session = Session::begin(ctx, &request, observer)?;
    on_begin(&session);
    let message = command.message.as_deref().map(redacted);
    match session.call_tool(ToolStep::new(&name, plan, planner, message.as_deref()), supervisor, listener) {
        Ok(called) => {
            let summary = session.finish(called.end.run_status(), called.end.error)?;
            Ok(Called::Ended { result: Box::new(called.result), summary })
        }
        Err(error) => match session.abandon(&error)? {
            Some(summary) => Ok(Called::CutOff { error, summary }),
            None => Err(error),
        },
    }
}
