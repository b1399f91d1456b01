//! Actions on items: reads knowledge, signs, validates, creates, updates and deletes.
//!
//! Each is a verb of [`crate::authoring`], as in the terminal; a change of the project is a run that can be undone.
//! Only a person at a terminal can sign with a key.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::agent_loop;
use super::directive::refuse_cancelled;
use super::tool::mode;
use super::{PATIENCE, on_thread};
use crate::authoring::{
    self, CreateItem, Effort, ItemAnswer, ItemCommand, SignItems, Signed, Verb,
};
use crate::context::Context;
use crate::item::id::ItemId;
use crate::item::store::{ItemKind, Layer, LookupError};
use crate::item::wording::{nearest, shown};
use crate::mcp::answer::ToolAnswer;
use crate::mcp::arguments::CallArguments;
use crate::mcp::call::{Answered, CallReply, CallWork, Caller};
use crate::mcp::failure::ToolFailure;
use crate::mcp::load;
use crate::mcp::projects::{Projects, lock};
use crate::problem::Code;
use crate::run::error_titles::ErrorTitle;
use crate::run::items::{self, ItemOutcome, ItemRequest};

/// Returns the content of knowledge.
pub(super) async fn read(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    on_thread(projects, arguments, caller, knowledge).await
}

/// Validates an item or a draft.
pub(super) async fn validate(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    let review = |projects: &_, arguments: &_, _: &_| review(projects, arguments);
    on_thread(projects, arguments, caller, review).await
}

/// Signs, creates, updates or deletes an item.
pub(super) async fn change(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
    verb: Verb,
) -> Result<CallReply, ToolFailure> {
    let change =
        move |projects: &_, arguments: &_, work: &_| carry_out(projects, arguments, work, verb);
    on_thread(projects, arguments, caller, change).await
}

fn carry_out(
    projects: &Projects,
    arguments: &CallArguments,
    work: &CallWork,
    verb: Verb,
) -> Answered {
    let kind = arguments.kind()?;
    let id = arguments.required("item_id")?.to_owned();
    let of_item = |failure: ToolFailure| {
        let failure = failure
            .with("item_id", id.as_str())
            .with("action", verb.as_str());
        if kind == ItemKind::Tool {
            failure.with("tool_id", id.as_str())
        } else {
            failure
        }
    };
    let (project, ctx) = projects
        .project(arguments.text("project_path")?)
        .map_err(of_item)?;
    let ctx = ctx.ended_by(&work.stop);
    projects.authoring().require(verb, &id).map_err(of_item)?;
    let request = request(&ctx, arguments, kind, &id, verb).map_err(of_item)?;
    let _turn = lock(&project.turn);
    refuse_cancelled(work).map_err(of_item)?;
    let outcome =
        items::perform(&ctx, &request, &mut |_| {}).map_err(|err| of_item(wrong_parameter(err)))?;
    to_answer(&ctx, kind, verb, &outcome).map_err(of_item)
}

fn request(
    ctx: &Context,
    arguments: &CallArguments,
    kind: ItemKind,
    id: &str,
    verb: Verb,
) -> Result<ItemRequest, ToolFailure> {
    let mut parameters = arguments.object("parameters")?;
    let dry_run =
        arguments.flag("dry_run")? || parameters.remove("dry_run") == Some(Value::Bool(true));
    // The item is named by arguments of the call; `sign` takes a location like the others.
    let mut known = verb.parameters();
    known.retain(|name| !["item_id", "item_type", "source", "project_path"].contains(name));
    if verb == Verb::Sign {
        known.extend(["location", "category"]);
    }
    require_known(&parameters, verb.as_str(), &known)?;
    require_one(id)?;
    parameters.insert("item_id".to_owned(), id.into());
    parameters.insert("item_type".to_owned(), json!(kind));
    let command = match verb {
        Verb::Sign => SignItems::read_one(&parameters).map(ItemCommand::Sign),
        verb => ItemCommand::read(ctx, verb, &parameters),
    };
    let mut command = command.map_err(wrong_parameter)?;
    if let (ItemCommand::Delete(delete), true) = (&mut command, dry_run) {
        // A dry run deletes nothing, so nothing has to be confirmed.
        delete.confirm = true;
    }
    let command_line = ["mcp", verb.as_str(), id].map(str::to_owned).to_vec();
    Ok(ItemRequest {
        mode: mode(arguments)?,
        effort: if dry_run { Effort::Plan } else { Effort::Do },
        lock_timeout: PATIENCE,
        ..ItemRequest::new(command, command_line)
    })
}

/// Only one id: patterns and paths are for the terminal.
fn require_one(id: &str) -> Result<(), ToolFailure> {
    let parsed = id.parse::<ItemId>();
    parsed.map_err(|reason| LookupError::Invalid {
        id: id.to_owned(),
        reason,
    })?;
    Ok(())
}

/// Refuses parameters that an action does not have, by name.
fn require_known(
    parameters: &Map<String, Value>,
    action: &str,
    known: &[&str],
) -> Result<(), ToolFailure> {
    let Some(name) = parameters
        .keys()
        .find(|name| !known.contains(&name.as_str()))
    else {
        return Ok(());
    };
    if name == "key" {
        let message = "items are signed with a key by a person at a terminal only";
        return Err(
            ToolFailure::new(ErrorTitle::PermissionDenied, Code::PolicyLoosened, message)
                .with_suggestion(
                    "leave `key` out for a stamp; a person can run `piton sign --key FILE`",
                ),
        );
    }
    let suggestion = match nearest(name, known.iter().copied()) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => format!("the parameters are {}", known.join(", ")),
    };
    let message = format!("`{action}` has no parameter `{}`", shown(name));
    Err(ToolFailure::argument(message).with_suggestion(suggestion))
}

/// A mistake in the parameters of an action is an invalid argument of the call.
fn wrong_parameter(err: impl Into<ToolFailure>) -> ToolFailure {
    let failure = err.into();
    match failure.problem.code {
        Code::MissingParameter | Code::UnknownParameter | Code::InvalidParameter => ToolFailure {
            title: ErrorTitle::InvalidArgument,
            ..failure
        },
        _ => failure,
    }
}

/// The result with the common fields.
fn to_answer(ctx: &Context, kind: ItemKind, verb: Verb, outcome: &ItemOutcome) -> Answered {
    let effort = load::effort(outcome);
    let run = outcome.run.clone();
    let mut top = ctx.root.clone();
    let (name, status, message) = match &outcome.answer {
        Some(ItemAnswer::Sign(signed)) => return signed_one(ctx, kind, signed, outcome),
        Some(ItemAnswer::Create(made)) => {
            if made.source == Layer::User {
                top = ctx.home.clone().unwrap_or(top);
            }
            (
                made.name.to_string(),
                "created",
                load::effort_message(&format!("created {kind} `{}`", made.name), effort),
            )
        }
        Some(ItemAnswer::Update(it)) if it.files.is_empty() => {
            (it.name.clone(), "unchanged", it.message.clone())
        }
        Some(ItemAnswer::Update(it)) => (
            it.name.clone(),
            "updated",
            load::effort_message(&it.message, effort),
        ),
        Some(ItemAnswer::Delete(it)) => (
            it.name.clone(),
            "deleted",
            load::effort_message(&it.message, effort),
        ),
        _ => {
            return Err(run.as_ref().map_or_else(
                || ToolFailure::argument("there is nothing to do"),
                ToolFailure::of_summary,
            ));
        }
    };
    let id = name.clone();
    let mut told = begun(
        kind,
        &name,
        verb.as_str(),
        if effort == Effort::Plan {
            "planned"
        } else {
            status
        },
    );
    told.insert("message".to_owned(), message.into());
    let Value::Object(all) = json!(outcome) else {
        return Err(ToolFailure::argument("there is nothing to do"));
    };
    for (name, value) in all {
        let value = match (name.as_str(), value.as_str()) {
            ("path", Some(path)) => top.join(path).to_string_lossy().into(),
            // Command lines, in the terminal.
            ("next", _) => agent_loop::call(ctx, kind, "validate", &json!({"item_id": id})),
            _ => value,
        };
        told.entry(name).or_insert(value);
    }
    told.insert("run_id".to_owned(), json!(run.map(|run| run.run_id)));
    ToolAnswer::result(&told)
}

/// The common fields of an answer about an item.
fn begun(kind: ItemKind, name: &str, action: &str, status: &str) -> Map<String, Value> {
    let mut told = Map::new();
    if kind == ItemKind::Tool {
        told.insert("tool_id".to_owned(), name.into());
    }
    told.insert("item_id".to_owned(), name.into());
    told.insert("item_type".to_owned(), json!(kind));
    told.insert("action".to_owned(), action.into());
    told.insert("status".to_owned(), status.into());
    told
}

/// The stamp of the one item that was signed.
fn signed_one(ctx: &Context, kind: ItemKind, signed: &Signed, outcome: &ItemOutcome) -> Answered {
    let Some(item) = signed.signed.iter().chain(&signed.unchanged).next() else {
        return Err(ToolFailure::argument("there is nothing to sign"));
    };
    let status = if outcome.dry_run { "planned" } else { "signed" };
    let mut told = begun(kind, &item.name, "sign", status);
    let title = load::title(kind);
    let message = match (signed.signed.is_empty(), outcome.dry_run) {
        (true, _) => format!("{title} is signed already and unchanged"),
        (false, true) => format!("{title} would be signed"),
        (false, false) => format!("{title} signed successfully"),
    };
    told.insert("message".to_owned(), message.into());
    told.insert(
        "signature".to_owned(),
        format!("kiwi-mcp:validated:{}:{}", item.time, item.hash).into(),
    );
    told.insert("hash".to_owned(), item.hash.clone().into());
    told.insert(
        "path".to_owned(),
        load::absolute(ctx, &item.path).to_string_lossy().into(),
    );
    if outcome.dry_run {
        told.insert("dry_run".to_owned(), true.into());
    }
    told.insert(
        "run_id".to_owned(),
        json!(outcome.run.as_ref().map(|run| run.run_id)),
    );
    told.insert("run".to_owned(), json!(outcome.run));
    if !outcome.uncovered.is_empty() {
        told.insert("uncovered".to_owned(), json!(outcome.uncovered));
    }
    ToolAnswer::result(&told)
}

fn knowledge(projects: &Projects, arguments: &CallArguments, work: &CallWork) -> Answered {
    let id = arguments.required("item_id")?;
    let parameters = arguments.object("parameters")?;
    require_known(&parameters, "run", &[])?;
    let (_, ctx) = projects.project(arguments.text("project_path")?)?;
    let ctx = ctx.ended_by(&work.stop);
    let loaded = authoring::load_one(&ctx, ItemKind::Knowledge, id)?;
    let mut told = begun(ItemKind::Knowledge, &loaded.name, "run", "success");
    told.extend(load::loaded_item(&ctx, &loaded));
    ToolAnswer::result(&told)
}

fn review(projects: &Projects, arguments: &CallArguments) -> Answered {
    let kind = arguments.kind()?;
    let mut parameters = arguments.object("parameters")?;
    require_known(
        &parameters,
        "validate",
        &["content", "tool_type", "location", "category"],
    )?;
    let (_, ctx) = projects.project(arguments.text("project_path")?)?;
    let id = arguments.text("item_id")?;
    if parameters.contains_key("content") {
        arguments.required("item_id")?;
    }
    let report = match id {
        None => authoring::review_all(&ctx),
        Some(id) => {
            require_one(id)?;
            parameters.insert("item_id".to_owned(), id.into());
            parameters.insert("item_type".to_owned(), json!(kind));
            let item = CreateItem::read(&parameters).map_err(wrong_parameter)?;
            authoring::review(&ctx, &item).map_err(wrong_parameter)?
        }
    };
    let mut told = match id {
        Some(id) => begun(kind, id, "validate", "success"),
        None => Map::from_iter([
            ("action".to_owned(), "validate".into()),
            ("status".to_owned(), "success".into()),
        ]),
    };
    told.insert("valid".to_owned(), report.valid.into());
    told.insert("findings".to_owned(), json!(report.findings));
    ToolAnswer::result(&told)
}
