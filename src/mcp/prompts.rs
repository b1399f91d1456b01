//! Directives as prompts: a person selects one in the client, and the agent is told how to run it.
//!
//! The message makes the agent call `execute`, so that piton enforces the steps, permissions and
//! checkpoints of the directive.

use rmcp::model::{
    ErrorData, GetPromptResult, JsonObject, ListPromptsResult, PaginatedRequestParams, Prompt,
    PromptArgument, PromptMessage, Role,
};
use serde_json::{Map, Value, json};

use super::pagination::page;
use super::projects::Projects;
use super::resources::{address, refused};
use crate::item::directive::{Directive, DirectiveInput, StepAction};
use crate::item::finding::Strength;
use crate::item::store::{Item, ItemKind, ItemStore};
use crate::item::wording::{nearest, shown};

pub(super) fn list(
    projects: &Projects,
    project: Option<&str>,
    asked: Option<PaginatedRequestParams>,
) -> Result<ListPromptsResult, ErrorData> {
    let store = store(projects, project)?;
    let prompts = directives(&store)
        .into_iter()
        .map(|(_, directive)| prompt(directive))
        .collect();
    let (prompts, next) = page("prompts", prompts, asked)?;
    let mut listed = ListPromptsResult::with_all_items(prompts);
    listed.next_cursor = next;
    Ok(listed)
}

/// The message that makes an agent run a directive.
pub(super) fn get(
    projects: &Projects,
    project: Option<&str>,
    name: &str,
    given: Option<JsonObject>,
) -> Result<GetPromptResult, ErrorData> {
    let store = store(projects, project)?;
    let (item, directive) = find(&store, name)?;
    let inputs = inputs(directive, &given.unwrap_or_default())?;
    let message = PromptMessage::new_text(Role::User, lead(item, directive, &inputs));
    let result = GetPromptResult::new(vec![message]);
    Ok(match directive.description.trim() {
        "" => result,
        description => result.with_description(description),
    })
}

pub(super) fn store(projects: &Projects, project: Option<&str>) -> Result<ItemStore, ErrorData> {
    let (_, ctx) = projects.project(project).map_err(refused)?;
    Ok(ItemStore::open(ctx.roots(), Strength::Lenient))
}

/// The directives that can be run by id, sorted by id.
fn directives(store: &ItemStore) -> Vec<(&Item, &Directive)> {
    // Leave out directives that are shadowed by another layer or whose id is not unique.
    let is_meant = |item: &Item| {
        store
            .find(ItemKind::Directive, item.id.as_str())
            .is_ok_and(|found| found.file == item.file)
    };
    let all = store
        .items()
        .iter()
        .filter(|item| item.kind() == ItemKind::Directive && is_meant(item));
    let mut all: Vec<_> = all
        .filter_map(|item| Some((item, item.as_directive()?)))
        .collect();
    all.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
    all
}

/// The directive of a prompt.
pub(super) fn find<'s>(
    store: &'s ItemStore,
    name: &str,
) -> Result<(&'s Item, &'s Directive), ErrorData> {
    let found = directives(store)
        .into_iter()
        .find(|(item, _)| item.id.as_str() == name);
    found.ok_or_else(|| {
        let known = directives(store);
        let similar = nearest(name, known.iter().map(|(item, _)| item.id.as_str()));
        let hint = similar
            .map(|similar| format!("; did you mean `{similar}`?"))
            .unwrap_or_default();
        ErrorData::invalid_params(format!("there is no prompt `{}`{hint}", shown(name)), None)
    })
}

fn prompt(directive: &Directive) -> Prompt {
    let argument = |input: &DirectiveInput| {
        let mut words = input.description.trim().to_owned();
        if !input.choices.is_empty() {
            let choices: Vec<String> = input.choices.iter().map(plain).collect();
            words.extend([" (one of ", &choices.join(", "), ")"]);
        }
        if let Some(default) = &input.default {
            words.extend([" (default ", &plain(default), ")"]);
        }
        let argument = PromptArgument::new(&input.name)
            .with_required(input.required && input.default.is_none());
        if words.is_empty() {
            argument
        } else {
            argument.with_description(words.trim_start())
        }
    };
    let arguments = directive.inputs.iter().map(argument).collect();
    let description = Some(directive.description.trim()).filter(|words| !words.is_empty());
    Prompt::new(directive.name.as_str(), description, Some(arguments))
        .with_title(format!("Run {}", directive.name))
}

/// A value as a person would write it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The inputs of a directive. Prompt arguments are strings, so they are converted to the input
/// types.
fn inputs(directive: &Directive, given: &JsonObject) -> Result<Map<String, Value>, ErrorData> {
    let refuse = |words: String| ErrorData::invalid_params(words, None);
    let known: Vec<&str> = directive
        .inputs
        .iter()
        .map(|input| input.name.as_str())
        .collect();
    if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(refuse(format!(
            "`{}` has no argument `{}`",
            directive.name,
            shown(name)
        )));
    }
    let mut inputs = Map::new();
    for input in &directive.inputs {
        let value = given
            .get(&input.name)
            .filter(|value| !value.is_null() && **value != Value::String(String::new()));
        match value {
            Some(value) => {
                let typed = typed(input, value).ok_or_else(|| {
                    refuse(format!(
                        "`{}` of `{}` must be of type {}",
                        input.name, directive.name, input.kind
                    ))
                })?;
                if !input.choices.is_empty() && !input.choices.contains(&typed) {
                    let choices: Vec<String> = input.choices.iter().map(plain).collect();
                    return Err(refuse(format!(
                        "`{}` must be one of {}",
                        input.name,
                        choices.join(", ")
                    )));
                }
                inputs.insert(input.name.clone(), typed);
            }
            None if input.required && input.default.is_none() => {
                return Err(refuse(format!(
                    "`{}` needs the argument `{}`",
                    directive.name, input.name
                )));
            }
            None => {}
        }
    }
    Ok(inputs)
}

fn typed(input: &DirectiveInput, value: &Value) -> Option<Value> {
    let Value::String(text) = value else {
        return Some(value.clone());
    };
    let parsed = || serde_json::from_str::<Value>(text.trim()).ok();
    match input.kind.as_str() {
        "boolean" => parsed().filter(Value::is_boolean),
        "integer" => parsed().filter(|value| value.is_i64() || value.is_u64()),
        "number" => parsed().filter(Value::is_number),
        "array" => parsed().filter(Value::is_array),
        "object" => parsed().filter(Value::is_object),
        _ => Some(value.clone()),
    }
}

/// The text of the prompt message.
fn lead(item: &Item, directive: &Directive, inputs: &Map<String, Value>) -> String {
    let call = json!({
        "item_type": "directive",
        "action": "run",
        "item_id": item.id.as_str(),
        "parameters": inputs,
    });
    let steps: Vec<String> = (1..)
        .zip(&directive.steps)
        .map(|(number, step)| {
            let words = match (step.description.trim(), &step.action) {
                ("", StepAction::Prose { .. }) => {
                    "work for you; the instruction comes when it is due".to_owned()
                }
                ("", StepAction::Tool { item_id, .. }) => format!("runs the tool `{item_id}`"),
                ("", StepAction::Directive { item_id, .. }) => {
                    format!("runs the directive `{item_id}`")
                }
                ("", StepAction::Checkpoint { .. }) => "commits what was done".to_owned(),
                ("", StepAction::Human { .. }) => "waits for a person".to_owned(),
                ("", StepAction::Item { verb, .. }) => format!("does `{verb}` with items"),
                (words, _) => words.to_owned(),
            };
            format!("{number}. {}: {words}", step.name)
        })
        .collect();
    format!(
        "Run the directive `{}` of this project with piton.\n{}\nCall the tool `execute` with these arguments:\n\n{call:#}\n\n\
         It has these steps:\n\n{}\n\n\
         piton runs them in order and commits what changes. When the answer has `status: \"waiting\"`, do what its \
         `instruction` says, then call `execute` with `action: \"continue\"` and the `run_id` of the answer in `parameters`. \
         Go on until `status` is no longer `waiting` for you, and report what came of it. The text of the directive is at {}.\n",
        item.id,
        match directive.description.trim() {
            "" => String::new(),
            words => format!("\n{words}\n"),
        },
        steps.join("\n"),
        address(ItemKind::Directive, &item.category, item.id.as_str()),
    )
}
