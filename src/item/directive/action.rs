//! Actions of a step other than manual work: tools, directives, items, checkpoints, gates.

use super::call;
use super::params::{add_param, read_params};
use super::quantity::choice;
use super::reading::{DirectiveReading, UseKind, join};
use super::xml::{Element, XmlContent, XmlText};
use super::{Param, StepAction};
use crate::item::id::ItemId;
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Code;

const EXECUTABLE: [&str; 8] = [
    "execute",
    "search",
    "load",
    "sign",
    "migrate",
    "tool_call",
    "checkpoint",
    "tool",
];
/// Elements that hold several calls.
pub(super) const CALLS: [&str; 2] = ["tool_calls", "calls"];
const ITEM_TYPES: [&str; 4] = ["tool", "script", "directive", "knowledge"];
const GATES: [(&str, &str); 3] = [
    ("human-verify", "human-verify"),
    ("decision", "decision"),
    ("human-action", "human-action"),
];

pub(super) fn is_executable(element: &Element) -> bool {
    EXECUTABLE.contains(&&*element.name) && !is_shown_call(element)
}

/// Whether a `<tool_call>` only shows the text of a call, as RYE's guides do.
fn is_shown_call(element: &Element) -> bool {
    element.name == "tool_call"
        && element.attributes.is_empty()
        && element.children().next().is_none()
        && !element.own_text().is_blank()
}

/// The instructions of a step outside of `<action>`: bare text, `<instruction>`, and verbatim
/// `<render>` and shown calls, because instructions refer to them.
pub(super) fn instructions(
    step: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> XmlText {
    for shown in step.children().filter(|child| is_shown_call(child)) {
        reading
            .report(
                Code::UnescapedMarkup,
                shown.span.start,
                join(path, "tool_call"),
                "`<tool_call>` names no tool and is taken as text",
            )
            .suggest("add tool=\"…\" to have the tool run");
    }
    let source = reading.text;
    let text = step.text_with(|child| match &*child.name {
        "instruction" => Some(child.flat_text(source)),
        "render" => Some(child.written(source)),
        _ => is_shown_call(child).then(|| child.written(source)),
    });
    text.unframed()
}

/// The calls directly in an element, also those in `<tool_calls>`, in order.
pub(super) fn calls(element: &Element) -> impl Iterator<Item = &Element> {
    element.children().flat_map(|child| {
        let is_list = CALLS.contains(&&*child.name);
        let inside = child
            .children()
            .filter(move |it| is_list && (it.name == "call" || is_executable(it)));
        std::iter::once(child)
            .filter(move |_| !is_list && is_executable(child))
            .chain(inside)
    })
}

/// Whether the `<action>` contains calls and nothing else.
pub(super) fn is_only_calls(action: &Element) -> bool {
    let fits = |content: &XmlContent| match content {
        XmlContent::Text(text) => text.is_blank(),
        XmlContent::Element(element) => is_executable(element) || CALLS.contains(&&*element.name),
    };
    action.content.iter().all(fits) && calls(action).next().is_some()
}

pub(super) fn read(
    element: &Element,
    step: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    let path = join(path, &element.name);
    match &*element.name {
        "execute" => execute(element, &path, reading),
        "tool_call" | "call" => call::read(element, &path, reading),
        "tool" => old_tool(element, step, &path, reading),
        "checkpoint" => checkpoint(element, &path, reading),
        verb => item(element, verb, &path, reading),
    }
}

/// Reads `<checkpoint>`: a human gate if it has a type, otherwise a commit.
pub(super) fn checkpoint(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    reading.check_attributes(
        element,
        path,
        &["operation", "message", "type", "gate", "name"],
    );
    if element.attribute("type").is_some() || element.attribute("gate").is_some() {
        return gate(element, path, reading);
    }
    let operation = element.attribute("operation").map(|it| it.value.clone());
    let operation = operation.unwrap_or_else(|| reading.text(element, path).trimmed());
    if operation.is_blank() {
        reading.missing(element, path, "operation");
    }
    reading.uses(&operation, UseKind::Template, join(path, "operation"));
    let message = element.attribute("message").map(|it| it.value.clone());
    if let Some(message) = &message {
        reading.uses(message, UseKind::Template, join(path, "message"));
    }
    StepAction::Checkpoint {
        operation: operation.value,
        message: message.map(|text| text.value),
    }
}

fn gate(element: &Element, path: &str, reading: &mut DirectiveReading<'_>) -> StepAction {
    let gate = match element.attribute("type") {
        Some(attribute) => choice(reading, &attribute.value, &join(path, "type"), &GATES),
        None => None,
    };
    if let Some(attribute) = element
        .attribute("gate")
        .filter(|it| it.value.value.trim() != "blocking")
    {
        let message = format!(
            "`{}` is not a known gate; it is taken as blocking",
            shown(&attribute.value.value)
        );
        reading
            .report(
                Code::UnknownEnumValue,
                attribute.value.offset_at(0),
                join(path, "gate"),
                message,
            )
            .suggest("write gate=\"blocking\"");
    }
    let attribute = element
        .attribute("message")
        .or(element.attribute("operation"));
    let own = attribute.map_or_else(|| element.own_text(), |it| it.value.clone());
    // All parts of a gate (<what_built>, <how_to_verify>, …) are shown to the person.
    let parts = element
        .children()
        .map(|child| child.flat_text(reading.text));
    let parts: Vec<XmlText> = std::iter::once(own)
        .chain(parts)
        .filter(|it| !it.is_blank())
        .collect();
    for part in &parts {
        reading.uses(part, UseKind::Template, path);
    }
    let question = parts
        .iter()
        .map(|part| part.unframed().value)
        .collect::<Vec<_>>()
        .join("\n\n");
    // Without a valid type, use the most careful one: a person verifies.
    StepAction::Human {
        gate: gate.unwrap_or("human-verify").to_owned(),
        question,
    }
}

fn execute(element: &Element, path: &str, reading: &mut DirectiveReading<'_>) -> StepAction {
    reading.check_attributes(
        element,
        path,
        &["item_type", "item_id", "action", "command"],
    );
    if let Some(attribute) = element.attribute("action") {
        choice(
            reading,
            &attribute.value,
            &join(path, "action"),
            &[("run", ())],
        );
    }
    let item_type = item_type(element, path, reading);
    let item_id = required(element, "item_id", path, reading);
    let params = read_params(element, path, reading);
    match execute_item(element, item_type, item_id, params, path, reading) {
        StepAction::Tool {
            item_id, params, ..
        } => StepAction::Tool {
            item_id,
            command: command(element),
            params,
        },
        other => other,
    }
}

/// The step that runs an item.
pub(super) fn execute_item(
    element: &Element,
    item_type: &str,
    item_id: String,
    params: Vec<Param>,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    match item_type {
        "directive" if item_id.rsplit('/').next() == Some("git_checkpoint") => {
            native_checkpoint(element, params, path, reading)
        }
        "directive" => StepAction::Directive { item_id, params },
        "knowledge" => {
            let place = reading.place(element.span.start);
            let param = |name: &str, value: &str| Param {
                name: name.to_owned(),
                value: value.to_owned(),
                place,
            };
            let named = [param("item_type", "knowledge"), param("item_id", &item_id)];
            StepAction::Item {
                verb: "load".to_owned(),
                params: named.into_iter().chain(params).collect(),
            }
        }
        _ => StepAction::Tool {
            item_id,
            command: None,
            params,
        },
    }
}

fn item_type(element: &Element, path: &str, reading: &mut DirectiveReading<'_>) -> &'static str {
    let Some(attribute) = element.attribute("item_type") else {
        reading
            .missing(element, path, "item_type")
            .suggest("add item_type=\"tool\" or item_type=\"directive\"");
        return "tool";
    };
    let choices = ITEM_TYPES.map(|name| (name, name));
    choice(
        reading,
        &attribute.value,
        &join(path, "item_type"),
        &choices,
    )
    .unwrap_or("tool")
}

/// `git_checkpoint` is built in, however it is called.
fn native_checkpoint(
    element: &Element,
    params: Vec<Param>,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    const PARAMS: [&str; 3] = ["operation", "message", "caller_directive"];
    let mut operation = None;
    let mut message = None;
    for param in params {
        match &*param.name {
            "operation" => operation = Some(param.value),
            "message" => message = Some(param.value),
            "caller_directive" => {}
            other => {
                let suggestion = did_you_mean(
                    nearest(other, PARAMS),
                    &format!("known are: {}", PARAMS.join(", ")),
                );
                let text = format!("git_checkpoint has no input `{}`", shown(other));
                reading
                    .findings
                    .add(Code::UnknownField, param.place, path, text)
                    .suggest(suggestion);
            }
        }
    }
    if operation
        .as_ref()
        .is_none_or(|operation| operation.trim().is_empty())
    {
        reading
            .missing(element, path, "operation")
            .suggest("add <param name=\"operation\" value=\"…\"/> to `<execute>`");
    }
    StepAction::Checkpoint {
        operation: operation.unwrap_or_default(),
        message,
    }
}

fn item(
    element: &Element,
    verb: &str,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    let mut params = Vec::new();
    for attribute in &element.attributes {
        add_param(
            &mut params,
            attribute.name.clone(),
            &attribute.value,
            path,
            attribute.offset,
            reading,
        );
    }
    for param in read_params(element, path, reading) {
        if params.iter().all(|other| other.name != param.name) {
            params.push(param);
        }
    }
    let text = element.own_text().trimmed();
    if !text.is_blank() {
        let name = if verb == "search" { "query" } else { "item_id" };
        add_param(
            &mut params,
            name.to_owned(),
            &text,
            path,
            text.offset_at(0),
            reading,
        );
    }
    let needed = if verb == "search" { "query" } else { "item_id" };
    if params.iter().all(|param| param.name != needed) {
        reading.missing(element, path, needed);
    }
    StepAction::Item {
        verb: verb.to_owned(),
        params,
    }
}

/// `<tool>id</tool>` or `<tool name="id"/>`, with `<parameters>` beside or in it.
fn old_tool(
    element: &Element,
    step: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    let attribute = ["id", "name", "item_id", "tool_id"]
        .iter()
        .find_map(|name| element.attribute(name));
    let id = attribute.map_or_else(|| element.own_text().trimmed(), |it| it.value.clone());
    if id.is_blank() {
        reading.missing(element, path, "id");
    } else {
        check_id(&id, path, reading);
    }
    let mut params = read_params(element, path, reading);
    if let Some(parameters) = step.child("parameters") {
        params.extend(read_params(parameters, &join(path, "parameters"), reading));
    }
    StepAction::Tool {
        item_id: id.value.trim().to_owned(),
        command: None,
        params,
    }
}

fn required(
    element: &Element,
    name: &str,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> String {
    let text = element
        .attribute(name)
        .map(|it| it.value.trimmed())
        .filter(|text| !text.is_blank());
    let Some(text) = text else {
        reading.missing(element, path, name);
        return String::new();
    };
    check_id(&text, &join(path, name), reading);
    text.value
}

/// Checks an id. One with placeholders can only be checked at run time.
pub(super) fn check_id(text: &XmlText, path: &str, reading: &mut DirectiveReading<'_>) {
    if text.value.contains('{') {
        reading.uses(text, UseKind::Template, path);
    } else if let Err(err) = text.value.trim().parse::<ItemId>() {
        let message = format!("`{}` cannot name an item: {err}", shown(&text.value));
        reading
            .report(Code::InvalidId, text.offset_at(0), path, message)
            .suggest("write the id of the item, e.g. `collect_changes` or `core/collect_changes`");
    }
}

fn command(element: &Element) -> Option<String> {
    element
        .attribute("command")
        .map(|it| it.value.value.trim().to_owned())
        .filter(|command| !command.is_empty())
}
