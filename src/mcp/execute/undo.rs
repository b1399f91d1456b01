//! `undo`, `redo` and `restore`, the same operations as in the terminal.

use std::sync::Arc;

use serde_json::json;

use super::directive::refuse_cancelled;
use super::led;
use super::run::{as_dry, parameters, paths_of, unknown};
use super::tool::PATIENCE;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::journal::event::Event;
use crate::journal::summary::RunSummary;
use crate::mcp::answer::Answer;
use crate::mcp::arguments::{Arguments, missing};
use crate::mcp::call::{Caller, Reply};
use crate::mcp::desk::{Desk, lock};
use crate::mcp::failure::Failure;
use crate::mcp::tale::Tale;
use crate::run::error::RunError;
use crate::run::past::repo_paths;
use crate::run::session::{Observer, RunRequest};
use crate::run::undo::{self, Action, Preview};

/// Undoes or redoes operations, or restores files to their state after a step.
pub(super) async fn answer(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    let desk = Arc::clone(desk);
    let answer = caller.work(move |work| {
        let name = arguments.text("action")?.unwrap_or("undo").to_owned();
        let (project, ctx) = desk.project(arguments.text("project_path")?)?;
        let ctx = work.equip(ctx);
        let given = Given::of(&name, &arguments)?;
        let wanted = given.wanted(&ctx)?;
        let _turn = lock(&project.turn);
        refuse_cancelled(&work)?;
        let not_found = |err| unknown("Step not found", err);
        if arguments.flag("dry_run")? {
            let preview = wanted.preview(&ctx).map_err(not_found)?;
            let status = if preview.has_conflicts() { "error" } else { "success" };
            return Answer::result(&json!({"action": name, "status": status, "preview": preview})).map(as_dry);
        }
        project.remember();
        let request = RunRequest {
            command: vec!["piton".to_owned(), "mcp".to_owned(), name.clone()],
            name: name.clone(),
            mode: CheckpointMode::Auto,
            lock_timeout: PATIENCE,
            directive: None,
        };
        let mut tale = Tale::new(&work);
        let done = wanted.perform(&ctx, &request, &mut |event: &Event| tale.event(event));
        led::finished(&name, &done.map_err(not_found)?)
    });
    Ok(answer.await?.into())
}

/// The parameters of a call.
enum Given {
    Undo { step: Option<String>, run: Option<String>, to: Option<String> },
    Redo { step: Option<String> },
    Restore { step: String, paths: Vec<std::ffi::OsString> },
}

enum Wanted<'g> {
    Action(Action<'g>),
    Restore(&'g str, Vec<RepoPath>),
}

impl Given {
    fn of(action: &str, arguments: &Arguments) -> Result<Self, Failure> {
        let text = |parameters: &Arguments, name: &str| Ok::<_, Failure>(parameters.text(name)?.map(str::to_owned));
        match action {
            "redo" => {
                let parameters = parameters(arguments, &["step"])?;
                Ok(Self::Redo { step: text(&parameters, "step")? })
            }
            "restore" => {
                let parameters = parameters(arguments, &["step", "paths"])?;
                let step = text(&parameters, "step")?.ok_or_else(|| missing("step"))?;
                Ok(Self::Restore { step, paths: paths_of(&parameters)? })
            }
            _ => {
                let parameters = parameters(arguments, &["step", "run_id", "to"])?;
                let (step, run) = (text(&parameters, "step")?, text(&parameters, "run_id")?);
                let to = text(&parameters, "to")?;
                if [&step, &run, &to].iter().filter(|given| given.is_some()).count() > 1 {
                    return Err(Failure::argument("only one of `step`, `run_id` and `to` can be meant"));
                }
                Ok(Self::Undo { step, run, to })
            }
        }
    }

    fn wanted(&self, ctx: &Context) -> Result<Wanted<'_>, Failure> {
        Ok(match self {
            Self::Undo { step: Some(step), .. } => Wanted::Action(Action::UndoNamed(step)),
            Self::Undo { run: Some(run), .. } => Wanted::Action(Action::UndoRun(run)),
            Self::Undo { to: Some(to), .. } => Wanted::Action(Action::UndoTo(to)),
            Self::Undo { .. } => Wanted::Action(Action::Undo),
            Self::Redo { step: Some(step) } => Wanted::Action(Action::RedoNamed(step)),
            Self::Redo { step: None } => Wanted::Action(Action::Redo),
            Self::Restore { step, paths } => Wanted::Restore(step, repo_paths(ctx, paths)?),
        })
    }
}

impl Wanted<'_> {
    fn preview(&self, ctx: &Context) -> Result<Preview, RunError> {
        match self {
            Self::Action(action) => undo::preview(ctx, *action),
            Self::Restore(step, paths) => undo::preview_restore(ctx, step, paths),
        }
    }

    fn perform(
        &self,
        ctx: &Context,
        request: &RunRequest,
        observer: &mut Observer<'_>,
    ) -> Result<RunSummary, RunError> {
        match self {
            Self::Action(action) => undo::perform(ctx, *action, request, observer),
            Self::Restore(step, paths) => undo::restore(ctx, step, paths, request, observer),
        }
    }
}
