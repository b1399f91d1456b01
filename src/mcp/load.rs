//! The tool `load`: reads an item, or copies it between the project and the user's items.
//!
//! The same as `piton load`, with absolute paths, because an agent may work in any folder.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::answer::ToolAnswer;
use super::arguments::CallArguments;
use super::call::{Answered, CallWork};
use super::execute::PATIENCE;
use super::failure::ToolFailure;
use super::projects::{Projects, lock};
use crate::authoring::{Effort, ItemAnswer, ItemCommand, Loaded, Verb};
use crate::context::Context;
use crate::item::store::{ItemKind, Layer};
use crate::problem::{HintCall, hint};
use crate::run::items::{self, ItemOutcome, ItemRequest};

pub(crate) const ARGUMENTS: [&str; 7] = [
    "item_type",
    "item_id",
    "source",
    "destination",
    "overwrite",
    "dry_run",
    "project_path",
];

/// Fields of a directive that `content` contains already.
const IN_CONTENT: [&str; 8] = [
    "steps",
    "context",
    "inputs",
    "outputs",
    "hooks",
    "notes",
    "unknown",
    "success_criteria",
];

pub(crate) fn answer(projects: &Projects, arguments: &CallArguments, work: &CallWork) -> Answered {
    let kind = arguments.kind()?;
    load(projects, kind, arguments, work).map_err(|failure| failure.about(kind))
}

fn load(
    projects: &Projects,
    kind: ItemKind,
    arguments: &CallArguments,
    work: &CallWork,
) -> Answered {
    let id = arguments.required("item_id")?;
    let (project, ctx) = projects.project(arguments.text("project_path")?)?;
    let ctx = ctx.ended_by(&work.stop);
    let mut parameters = Map::from_iter([
        ("item_id".to_owned(), id.into()),
        ("item_type".to_owned(), json!(kind)),
        ("overwrite".to_owned(), arguments.flag("overwrite")?.into()),
    ]);
    for name in ["source", "destination"] {
        if let Some(text) = arguments.text(name)? {
            parameters.insert(name.to_owned(), text.into());
        }
    }
    let copies = parameters.contains_key("destination");
    if copies {
        projects.authoring().require(Verb::Load, id)?;
    }
    let command = ItemCommand::read(&ctx, Verb::Load, &parameters)?;
    let command_line = ["mcp", "load", id].map(str::to_owned).to_vec();
    let request = ItemRequest {
        effort: if arguments.flag("dry_run")? {
            Effort::Plan
        } else {
            Effort::Do
        },
        lock_timeout: PATIENCE,
        ..ItemRequest::new(command, command_line)
    };
    // Reading does not wait for other calls.
    let _turn = copies.then(|| lock(&project.turn));
    let outcome =
        items::perform(&ctx, &request, &mut |_| {}).map_err(|err| overwritten(err.into()))?;
    ToolAnswer::result(&to_json(&ctx, outcome)?)
}

/// Replaces the hint about `--overwrite` by the argument of this call.
fn overwritten(failure: ToolFailure) -> ToolFailure {
    let is_replaceable = failure
        .problem
        .hint
        .as_ref()
        .is_some_and(|hint| hint.offers(&HintCall::Overwrite));
    if !is_replaceable {
        return failure;
    }
    failure.with_suggestion(hint![
        HintCall::Overwrite,
        " replaces it; ",
        HintCall::DryRun,
        " shows what would be written"
    ])
}

/// The answer for a loaded or copied item.
pub(super) fn to_json(
    ctx: &Context,
    outcome: ItemOutcome,
) -> Result<Map<String, Value>, ToolFailure> {
    let effort = effort(&outcome);
    let ItemOutcome {
        answer,
        dry_run,
        run,
        uncovered,
        ..
    } = outcome;
    let Some(ItemAnswer::Load(loaded)) = answer else {
        return Err(run.as_ref().map_or_else(
            || ToolFailure::argument("there is nothing to load"),
            ToolFailure::of_summary,
        ));
    };
    let mut told = loaded_item(ctx, &loaded);
    let mut add = |name: &str, value: Value| match value {
        Value::Null => {}
        value => drop(told.insert(name.to_owned(), value)),
    };
    // The terminal message also names the place; here `path` does.
    let copied = |to: &Layer| {
        format!(
            "{} copied from {} to {to}",
            title(loaded.item_type),
            loaded.source
        )
    };
    let message = loaded.destination.as_ref().map(copied);
    let message = message.or(loaded.message.clone());
    add(
        "message",
        json!(message.map(|message| effort_message(&message, effort))),
    );
    add("dry_run", json!(Some(true).filter(|_| dry_run)));
    add("run_id", json!(run.as_ref().map(|run| run.run_id)));
    add("run", json!(run));
    add(
        "uncovered",
        json!(Some(&uncovered).filter(|files| !files.is_empty())),
    );
    Ok(told)
}

/// The fields that describe an item.
pub(super) fn loaded_item(ctx: &Context, loaded: &Loaded) -> Map<String, Value> {
    let path = absolute(ctx, &loaded.path);
    let mut told = Map::from_iter([
        ("name".to_owned(), loaded.name.clone().into()),
        ("item_type".to_owned(), json!(loaded.item_type)),
        ("path".to_owned(), path.to_string_lossy().into()),
        ("content".to_owned(), loaded.content.clone().into()),
        ("source".to_owned(), json!(loaded.source)),
        ("metadata".to_owned(), metadata(loaded)),
    ]);
    let mut add = |name: &str, value: Value| match value {
        Value::Null => {}
        value => drop(told.insert(name.to_owned(), value)),
    };
    add("input_schema", json!(loaded.input_schema));
    add("output_schema", json!(loaded.output_schema));
    add("destination", json!(loaded.destination));
    let list = |list: &Vec<String>| json!(Some(list).filter(|list| !list.is_empty()));
    add("files", list(&loaded.files));
    add("notes", list(&loaded.notes));
    told
}

/// The name of a kind for the beginning of a sentence.
pub(super) fn title(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "Tool",
        ItemKind::Directive => "Directive",
        ItemKind::Knowledge => "Knowledge",
    }
}

/// Whether the outcome was done or only planned.
pub(super) fn effort(outcome: &ItemOutcome) -> Effort {
    if outcome.dry_run {
        Effort::Plan
    } else {
        Effort::Do
    }
}

/// A message about something that was done or only planned.
pub(super) fn effort_message(message: &str, effort: Effort) -> String {
    match effort {
        Effort::Do => message.to_owned(),
        Effort::Plan => format!("planned, not done: {message}"),
    }
}

/// The absolute path of a displayed path. Built-in items, shown as `<…>`, have none.
pub(super) fn absolute(ctx: &Context, path: &str) -> std::path::PathBuf {
    if path.starts_with('<') {
        Path::new(path).to_path_buf()
    } else {
        ctx.root.join(path)
    }
}

/// The metadata of an item: first the fields that every client knows, then the rest.
fn metadata(loaded: &Loaded) -> Value {
    let found = |names: &[&str]| {
        let mut values = names
            .iter()
            .filter_map(|name| loaded.metadata.get(name))
            .filter(|value| !value.is_null());
        values.next().cloned().unwrap_or_default()
    };
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), loaded.name.clone().into());
    metadata.insert("description".to_owned(), found(&["description", "title"]));
    metadata.insert("version".to_owned(), found(&["version"]));
    if loaded.item_type == ItemKind::Tool {
        metadata.insert("tool_type".to_owned(), found(&["tool_type"]));
        metadata.insert("executor_id".to_owned(), found(&["executor"]));
    }
    metadata.insert("category".to_owned(), found(&["category"]));
    let Value::Object(all) = &loaded.metadata else {
        return Value::Object(metadata);
    };
    for (name, value) in all {
        let is_said = ["tool_id", "executor", "input_schema", "output_schema"]
            .contains(&name.as_str())
            || loaded.item_type == ItemKind::Directive && IN_CONTENT.contains(&name.as_str());
        if !is_said && !value.is_null() && !metadata.contains_key(name) {
            metadata.insert(name.clone(), value.clone());
        }
    }
    Value::Object(metadata)
}
