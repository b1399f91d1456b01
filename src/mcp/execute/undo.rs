//! `undo`, `redo` and `restore`, the same operations as in the terminal.

use std::sync::Arc;

use serde_json::json;

use super::agent_loop;
use super::directive::refuse_cancelled;
use super::on_thread;
use super::run::{as_dry, parameters, paths_of, unknown};
use super::tool::PATIENCE;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::journal::summary::RunSummary;
use crate::mcp::answer::ToolAnswer;
use crate::mcp::arguments::{CallArguments, missing};
use crate::mcp::authoring::Authoring;
use crate::mcp::call::{Answered, CallReply, CallWork, Caller};
use crate::mcp::failure::ToolFailure;
use crate::mcp::progress::RunProgress;
use crate::mcp::projects::{Projects, lock};
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;
use crate::run::pinned_authority::PinnedAuthority;
use crate::run::project_history::repo_paths;
use crate::run::session::{Observer, RunRequest};
use crate::run::undo::{self, UndoAction, UndoPreview};

/// Undoes or redoes operations, or restores files to their state after a step.
pub(super) async fn answer(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    on_thread(projects, arguments, caller, reverse).await
}

fn reverse(projects: &Projects, arguments: &CallArguments, work: &CallWork) -> Answered {
    let name = arguments.text("action")?.unwrap_or("undo").to_owned();
    let (project, ctx) = projects.project(arguments.text("project_path")?)?;
    let ctx = work.equip(ctx);
    let given = UndoParameters::of(&name, arguments)?;
    let wanted = given.wanted(&ctx)?;
    let _turn = lock(&project.turn);
    refuse_cancelled(work)?;
    let not_found = |err| unknown(ErrorTitle::StepNotFound, err);
    if arguments.flag("dry_run")? {
        let preview = wanted.preview(&ctx).map_err(not_found)?;
        let status = if preview.has_conflicts() {
            "error"
        } else {
            "success"
        };
        return ToolAnswer::result(&json!({"action": name, "status": status, "preview": preview}))
            .map(as_dry);
    }
    if projects.authoring() != Authoring::Allowed {
        let preview = wanted.preview(&ctx).map_err(not_found)?;
        projects.authoring().require_items_kept(&name, &preview)?;
    }
    project.remember();
    let request = RunRequest {
        command: vec!["piton".to_owned(), "mcp".to_owned(), name.clone()],
        name: name.clone(),
        mode: CheckpointMode::Auto,
        lock_timeout: PATIENCE,
        directive: None,
    };
    let mut progress = RunProgress::new(work);
    let done = wanted.perform(
        (&ctx, projects.confinement()),
        &request,
        &mut |event: &Event| progress.event(event),
    );
    agent_loop::finished(&name, &done.map_err(not_found)?)
}

/// The parameters of a call.
enum UndoParameters {
    Undo {
        step: Option<String>,
        run: Option<String>,
        to: Option<String>,
    },
    Redo {
        step: Option<String>,
    },
    Restore {
        step: String,
        paths: Vec<std::ffi::OsString>,
    },
}

enum UndoOperation<'g> {
    Action(UndoAction<'g>),
    Restore(&'g str, Vec<RepoPath>),
}

impl UndoParameters {
    fn of(action: &str, arguments: &CallArguments) -> Result<Self, ToolFailure> {
        let text = |parameters: &CallArguments, name: &str| {
            Ok::<_, ToolFailure>(parameters.text(name)?.map(str::to_owned))
        };
        match action {
            "redo" => {
                let parameters = parameters(arguments, &["step"])?;
                Ok(Self::Redo {
                    step: text(&parameters, "step")?,
                })
            }
            "restore" => {
                let parameters = parameters(arguments, &["step", "paths"])?;
                let step = text(&parameters, "step")?.ok_or_else(|| missing("step"))?;
                Ok(Self::Restore {
                    step,
                    paths: paths_of(&parameters)?,
                })
            }
            _ => {
                let parameters = parameters(arguments, &["step", "run_id", "to"])?;
                let (step, run) = (text(&parameters, "step")?, text(&parameters, "run_id")?);
                let to = text(&parameters, "to")?;
                if [&step, &run, &to]
                    .iter()
                    .filter(|given| given.is_some())
                    .count()
                    > 1
                {
                    return Err(ToolFailure::argument(
                        "only one of `step`, `run_id` and `to` can be meant",
                    ));
                }
                Ok(Self::Undo { step, run, to })
            }
        }
    }

    fn wanted(&self, ctx: &Context) -> Result<UndoOperation<'_>, ToolFailure> {
        Ok(match self {
            Self::Undo {
                step: Some(step), ..
            } => UndoOperation::Action(UndoAction::UndoNamed(step)),
            Self::Undo { run: Some(run), .. } => UndoOperation::Action(UndoAction::UndoRun(run)),
            Self::Undo { to: Some(to), .. } => UndoOperation::Action(UndoAction::UndoTo(to)),
            Self::Undo { .. } => UndoOperation::Action(UndoAction::Undo),
            Self::Redo { step: Some(step) } => UndoOperation::Action(UndoAction::RedoNamed(step)),
            Self::Redo { step: None } => UndoOperation::Action(UndoAction::Redo),
            Self::Restore { step, paths } => UndoOperation::Restore(step, repo_paths(ctx, paths)?),
        })
    }
}

impl UndoOperation<'_> {
    fn preview(&self, ctx: &Context) -> Result<UndoPreview, RunError> {
        match self {
            Self::Action(action) => undo::preview(ctx, *action),
            Self::Restore(step, paths) => undo::preview_restore(ctx, step, paths),
        }
    }

    fn perform(
        &self,
        (ctx, within): (&Context, Option<&PinnedAuthority>),
        request: &RunRequest,
        observer: &mut Observer<'_>,
    ) -> Result<RunSummary, RunError> {
        match self {
            Self::Action(action) => undo::perform(ctx, *action, request, within, observer),
            Self::Restore(step, paths) => {
                undo::restore(ctx, step, paths, request, within, observer)
            }
        }
    }
}
