//! The tool `execute`: runs tools and directives, and manages runs and items.
//!
//! One file per subject: [`tool`] calls tools, [`directive`] starts runs, [`run`] continues them,
//! [`led`] is the part that both share, [`checkpoint`] commits an agent's own edits, [`undo`]
//! undoes operations, [`item`] changes items.

mod checkpoint;
mod directive;
mod item;
mod led;
mod run;
mod tool;
mod undo;

use std::sync::Arc;

pub(super) use tool::PATIENCE;

use super::arguments::Arguments;
use super::call::{Caller, Reply};
use super::desk::Desk;
use super::failure::Failure;
use crate::item::store::ItemKind;
use crate::item::wording::{nearest, shown};

pub(crate) const ARGUMENTS: [&str; 9] =
    ["item_type", "action", "item_id", "parameters", "project_path", "dry_run", "checkpoint", "ask", "atomic"];

pub(crate) const ACTIONS: [&str; 12] = [
    "run", "continue", "status", "cancel", "undo", "redo", "restore", "sign", "validate", "create", "update", "delete",
];

pub(crate) async fn answer(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    let kind = arguments.kind()?;
    let action = arguments.text("action")?.unwrap_or("run").to_owned();
    let replied = match (action.as_str(), kind) {
        ("run", ItemKind::Tool) => tool::run(desk, arguments, caller).await,
        ("run", ItemKind::Directive) => directive::run(desk, arguments, caller).await,
        ("run", ItemKind::Knowledge) => item::read(desk, arguments, caller).await,
        ("continue", _) => run::go_on(desk, arguments, caller).await,
        ("status", _) => run::status(desk, arguments, caller).await,
        ("cancel", _) => run::cancel(desk, arguments, caller).await,
        ("undo" | "redo" | "restore", _) => undo::answer(desk, arguments, caller).await,
        ("sign", _) => item::sign(desk, arguments, caller).await,
        ("validate", _) => item::validate(desk, arguments, caller).await,
        ("create", _) => item::create(desk, arguments, caller).await,
        ("update", _) => item::update(desk, arguments, caller).await,
        ("delete", _) => item::delete(desk, arguments, caller).await,
        _ => Err(unknown(&action)),
    };
    replied.map_err(|failure| failure.about(kind).of_call(&action))
}

fn unknown(action: &str) -> Failure {
    let suggestion = match nearest(action, ACTIONS) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => format!("the actions are {}", ACTIONS.join(", ")),
    };
    Failure::argument(format!("there is no action `{}`", shown(action))).with_suggestion(suggestion)
}
