//! The tool `execute`: runs tools and directives, and manages runs and items.
//!
//! One file per subject: [`tool`] calls tools, [`directive`] starts runs, [`run`] continues them,
//! [`agent_loop`] is the part that both share, [`checkpoint`] commits an agent's own edits, [`undo`]
//! undoes operations, [`item`] changes items.

mod agent_loop;
mod checkpoint;
mod directive;
mod item;
mod run;
mod tool;
mod undo;

use std::sync::Arc;

pub(super) use tool::PATIENCE;

use super::arguments::CallArguments;
use super::call::{Answered, CallReply, CallWork, Caller};
use super::consent::{self, Obtained};
use super::failure::ToolFailure;
use super::projects::Projects;
use crate::authoring::Verb;
use crate::item::store::ItemKind;
use crate::item::wording::{nearest, shown};

pub(crate) const ARGUMENTS: [&str; 9] = [
    "item_type",
    "action",
    "item_id",
    "parameters",
    "project_path",
    "dry_run",
    "checkpoint",
    "ask",
    "atomic",
];

pub(crate) const ACTIONS: [&str; 12] = [
    "run", "continue", "status", "cancel", "undo", "redo", "restore", "sign", "validate", "create",
    "update", "delete",
];

pub(crate) async fn answer(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    let kind = arguments.kind()?;
    let action = arguments.text("action")?.unwrap_or("run").to_owned();
    let replied = match (action.as_str(), kind) {
        ("run", ItemKind::Tool | ItemKind::Directive) => {
            run_item(projects, arguments, kind, caller).await
        }
        ("run", ItemKind::Knowledge) => item::read(projects, arguments, caller).await,
        ("continue", _) => run::go_on(projects, arguments, caller).await,
        ("status", _) => run::status(projects, arguments, caller).await,
        ("cancel", _) => run::cancel(projects, arguments, caller).await,
        ("undo" | "redo" | "restore", _) => undo::answer(projects, arguments, caller).await,
        ("sign", _) => item::change(projects, arguments, caller, Verb::Sign).await,
        ("validate", _) => item::validate(projects, arguments, caller).await,
        ("create", _) => item::change(projects, arguments, caller, Verb::Create).await,
        ("update", _) => item::change(projects, arguments, caller, Verb::Update).await,
        ("delete", _) => item::change(projects, arguments, caller, Verb::Delete).await,
        _ => Err(unknown(&action)),
    };
    replied.map_err(|failure| failure.about(kind).of_call(&action))
}

/// Runs a tool or a directive, once a person has allowed what an agent wrote of it.
async fn run_item(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    kind: ItemKind,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    let caller = match consent::obtain(projects, &arguments, kind, caller).await? {
        Obtained::Go(caller) => caller,
        Obtained::Asked(reply) => return Ok(reply),
    };
    match kind {
        ItemKind::Tool => tool::run(projects, arguments, &caller).await,
        _ => directive::run(projects, arguments, &caller).await,
    }
}

/// Does the work of a call that asks no question on a thread of its own.
async fn on_thread(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
    work: impl FnOnce(&Projects, &CallArguments, &CallWork) -> Answered + Send + 'static,
) -> Result<CallReply, ToolFailure> {
    let projects = Arc::clone(projects);
    caller
        .work(move |call| work(&projects, &arguments, &call))
        .await
        .map(CallReply::Done)
}

fn unknown(action: &str) -> ToolFailure {
    let suggestion = match nearest(action, ACTIONS) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => format!("the actions are {}", ACTIONS.join(", ")),
    };
    ToolFailure::argument(format!("there is no action `{}`", shown(action)))
        .with_suggestion(suggestion)
}
