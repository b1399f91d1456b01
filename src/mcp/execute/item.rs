//! What is done with items themselves: reading knowledge, signing, validating, creating, updating, deleting.
//!
//! Each is one verb of [`crate::run::items`], as the terminal has it; what it writes into the project is a run that can
//! be undone. Signing with a key is for a person at a terminal and cannot be asked for here.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::PATIENCE;
use super::directive::refuse_cancelled;
use super::led;
use super::tool::mode;
use crate::context::Context;
use crate::item::id::ItemId;
use crate::item::store::{ItemKind, Layer, LookupError};
use crate::item::wording::{nearest, shown};
use crate::mcp::answer::Answer;
use crate::mcp::arguments::Arguments;
use crate::mcp::call::{Answered, Caller, Reply, Work};
use crate::mcp::desk::{Desk, lock};
use crate::mcp::failure::Failure;
use crate::mcp::load;
use crate::problem::Code;
use crate::run::items::{self, Effort, ItemAnswer, ItemOutcome, ItemRequest, Signed, Verb};

/// What an action can be given in `parameters`.
const LOCATED: [&str; 2] = ["location", "category"];
const CREATED: [&str; 8] =
    ["content", "fields", "tool_type", "location", "category", "description", "executor", "layout"];

/// Gives the content of knowledge.
pub(super) async fn read(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    let desk = Arc::clone(desk);
    caller.work(move |work| knowledge(&desk, &arguments, &work)).await.map(Reply::Done)
}

/// Stamps an item.
pub(super) async fn sign(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    change(desk, arguments, caller, Verb::Sign).await
}

/// Says what is wrong with an item, or with a text that may become one.
pub(super) async fn validate(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    let desk = Arc::clone(desk);
    caller.work(move |_| review(&desk, &arguments)).await.map(Reply::Done)
}

/// Makes an item.
pub(super) async fn create(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    change(desk, arguments, caller, Verb::Create).await
}

/// Gives an item another text, or other values for some of its fields.
pub(super) async fn update(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    change(desk, arguments, caller, Verb::Update).await
}

/// Removes an item.
pub(super) async fn delete(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    change(desk, arguments, caller, Verb::Delete).await
}

async fn change(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller, verb: Verb) -> Result<Reply, Failure> {
    let desk = Arc::clone(desk);
    caller.work(move |work| carry_out(&desk, &arguments, &work, verb)).await.map(Reply::Done)
}

fn carry_out(desk: &Desk, arguments: &Arguments, work: &Work, verb: Verb) -> Answered {
    let kind = arguments.kind()?;
    let id = arguments.required("item_id")?.to_owned();
    let of_item = |failure: Failure| {
        let failure = failure.with("item_id", id.as_str()).with("action", verb.as_str());
        if kind == ItemKind::Tool { failure.with("tool_id", id.as_str()) } else { failure }
    };
    let (project, ctx) = desk.project(arguments.text("project_path")?).map_err(of_item)?;
    let ctx = ctx.ended_by(&work.stop);
    let request = request(arguments, kind, &id, verb).map_err(of_item)?;
    let _turn = lock(&project.turn);
    refuse_cancelled(work).map_err(of_item)?;
    let outcome = items::perform(&ctx, &request, &mut |_| {}).map_err(|err| of_item(by_parameter(err.into())))?;
    told(&ctx, kind, verb, &outcome).map_err(of_item)
}

fn request(arguments: &Arguments, kind: ItemKind, id: &str, verb: Verb) -> Result<ItemRequest, Failure> {
    let mut parameters = arguments.object("parameters")?;
    let dry_run = arguments.flag("dry_run")? || parameters.remove("dry_run") == Some(Value::Bool(true));
    let known: &[&str] = match verb {
        Verb::Create => &CREATED,
        Verb::Update => &["content", "updates", "location", "category"],
        Verb::Delete => &["confirm", "location", "category"],
        _ => &LOCATED,
    };
    require_known(&parameters, verb.as_str(), known)?;
    require_one(id)?;
    if verb == Verb::Sign {
        let category = parameters.remove("category").and_then(|category| category.as_str().map(str::to_owned));
        let full = category.filter(|category| !category.is_empty() && !id.contains('/'));
        parameters.insert("item_id".to_owned(), full.map_or_else(|| id.to_owned(), |it| format!("{it}/{id}")).into());
        let location = parameters.remove("location").unwrap_or_else(|| "project".into());
        if !["project", "user"].iter().any(|known| location == *known) {
            return Err(Failure::argument("`location` must be `project` or `user`"));
        }
        parameters.insert("source".to_owned(), location);
    } else {
        parameters.insert("item_id".to_owned(), id.into());
    }
    parameters.insert("item_type".to_owned(), json!(kind));
    if verb == Verb::Delete && dry_run {
        // Nothing has to be confirmed that does not happen.
        parameters.insert("confirm".to_owned(), true.into());
    }
    let command = ["mcp", verb.as_str(), id].map(str::to_owned).to_vec();
    Ok(ItemRequest {
        mode: mode(arguments)?,
        effort: if dry_run { Effort::Plan } else { Effort::Do },
        lock_timeout: PATIENCE,
        ..ItemRequest::new(verb, parameters, command)
    })
}

/// An id is one item: what a pattern or a path means is for a person to say.
fn require_one(id: &str) -> Result<(), Failure> {
    let parsed = id.parse::<ItemId>();
    parsed.map_err(|reason| LookupError::Invalid { id: id.to_owned(), reason })?;
    Ok(())
}

/// Refuses parameters that an action does not have, by name.
fn require_known(parameters: &Map<String, Value>, action: &str, known: &[&str]) -> Result<(), Failure> {
    let Some(name) = parameters.keys().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    if name == "key" {
        let message = "items are signed with a key by a person at a terminal only";
        return Err(Failure::new("Permission denied", Code::PolicyLoosened, message)
            .with_suggestion("leave `key` out for a stamp; a person can run `piton sign --key FILE`"));
    }
    let suggestion = match nearest(name, known.iter().copied()) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => format!("the parameters are {}", known.join(", ")),
    };
    let message = format!("`{action}` has no parameter `{}`", shown(name));
    Err(Failure::argument(message).with_suggestion(suggestion))
}

/// A mistake in the parameters of an action is one in the arguments of the call.
fn by_parameter(failure: Failure) -> Failure {
    match failure.problem.code {
        Code::MissingParameter | Code::UnknownParameter | Code::InvalidParameter => {
            Failure { error: "Invalid argument".to_owned(), ..failure }
        }
        _ => failure,
    }
}

/// What came of it, with what every action says about itself.
fn told(ctx: &Context, kind: ItemKind, verb: Verb, outcome: &ItemOutcome) -> Answered {
    let effort = load::effort(outcome);
    let run = outcome.run.clone();
    let mut top = ctx.root.clone();
    let (name, status, message) = match &outcome.answer {
        Some(ItemAnswer::Sign(signed)) => return signed_one(ctx, kind, signed, outcome),
        Some(ItemAnswer::Create(made)) => {
            if made.source == Layer::User {
                top = ctx.home.clone().unwrap_or(top);
            }
            (made.name.to_string(), "created", load::said(&format!("created {kind} `{}`", made.name), effort))
        }
        Some(ItemAnswer::Update(it)) if it.files.is_empty() => (it.name.clone(), "unchanged", it.message.clone()),
        Some(ItemAnswer::Update(it)) => (it.name.clone(), "updated", load::said(&it.message, effort)),
        Some(ItemAnswer::Delete(it)) => (it.name.clone(), "deleted", load::said(&it.message, effort)),
        _ => return Err(run.as_ref().map_or_else(|| Failure::argument("there is nothing to do"), Failure::of_summary)),
    };
    let id = name.clone();
    let mut told = begun(kind, &name, verb.as_str(), if effort == Effort::Plan { "planned" } else { status });
    told.insert("message".to_owned(), message.into());
    let Value::Object(all) = json!(outcome) else { return Err(Failure::argument("there is nothing to do")) };
    for (name, value) in all {
        let value = match (name.as_str(), value.as_str()) {
            ("path", Some(path)) => top.join(path).to_string_lossy().into(),
            // Command lines, in the terminal.
            ("next", _) => led::call(ctx, kind, "validate", &json!({"item_id": id})),
            _ => value,
        };
        told.entry(name).or_insert(value);
    }
    told.insert("run_id".to_owned(), json!(run.map(|run| run.run_id)));
    Answer::result(&told)
}

/// What every answer about an item begins with.
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
        return Err(Failure::argument("there is nothing to sign"));
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
    told.insert("signature".to_owned(), format!("kiwi-mcp:validated:{}:{}", item.time, item.hash).into());
    told.insert("hash".to_owned(), item.hash.clone().into());
    told.insert("path".to_owned(), load::absolute(ctx, &item.path).to_string_lossy().into());
    if outcome.dry_run {
        told.insert("dry_run".to_owned(), true.into());
    }
    told.insert("run_id".to_owned(), json!(outcome.run.as_ref().map(|run| run.run_id)));
    told.insert("run".to_owned(), json!(outcome.run));
    if !outcome.uncovered.is_empty() {
        told.insert("uncovered".to_owned(), json!(outcome.uncovered));
    }
    Answer::result(&told)
}

fn knowledge(desk: &Desk, arguments: &Arguments, work: &Work) -> Answered {
    let id = arguments.required("item_id")?;
    let parameters = arguments.object("parameters")?;
    require_known(&parameters, "run", &[])?;
    let (_, ctx) = desk.project(arguments.text("project_path")?)?;
    let ctx = ctx.ended_by(&work.stop);
    let wanted =
        Map::from_iter([("item_id".to_owned(), id.into()), ("item_type".to_owned(), json!(ItemKind::Knowledge))]);
    let request = ItemRequest::new(Verb::Load, wanted, Vec::new());
    let outcome = items::perform(&ctx, &request, &mut |_| {})?;
    let loaded = load::told(&ctx, outcome)?;
    let name = loaded.get("name").and_then(Value::as_str).unwrap_or(id).to_owned();
    let mut told = begun(ItemKind::Knowledge, &name, "run", "success");
    told.extend(loaded);
    Answer::result(&told)
}

fn review(desk: &Desk, arguments: &Arguments) -> Answered {
    let kind = arguments.kind()?;
    let mut parameters = arguments.object("parameters")?;
    require_known(&parameters, "validate", &["content", "tool_type", "location", "category"])?;
    let (_, ctx) = desk.project(arguments.text("project_path")?)?;
    let id = arguments.text("item_id")?;
    if let Some(id) = id {
        require_one(id)?;
        parameters.insert("item_id".to_owned(), id.into());
        parameters.insert("item_type".to_owned(), json!(kind));
    }
    let report = if parameters.contains_key("content") {
        arguments.required("item_id")?;
        items::review_text(&ctx, &parameters)
    } else {
        items::review(&ctx, &parameters)
    };
    let report = report.map_err(|err| by_parameter(err.into()))?;
    let mut told = match id {
        Some(id) => begun(kind, id, "validate", "success"),
        None => Map::from_iter([("action".to_owned(), "validate".into()), ("status".to_owned(), "success".into())]),
    };
    told.insert("valid".to_owned(), report.valid.into());
    told.insert("findings".to_owned(), json!(report.findings));
    Answer::result(&told)
}
