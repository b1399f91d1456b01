//! Calls as other programs write them: `<tool_call>` with elements for the server, the tool and its
//! parameters, and the `<call>`s of `<tool_calls>`.
//!
//! A server that is this kind of program itself (`kiwi-mcp`, `script-kiwi`, `rye`, …) becomes the step
//! that piton has for the call: a tool, a directive, or `search`, `load` and `sign`. Any other server is
//! the tool of that name, and its tool the command.

use serde_json::Value;

use super::action::{check_id, execute_item};
use super::params::read_params_beside;
use super::reading::{DirectiveReading, UseKind, join};
use super::xml::{Element, XmlText};
use super::{Param, StepAction};
use crate::item::wording::shown;
use crate::problem::Code;

const SERVER: [&str; 2] = ["mcp", "server"];
const TOOL: [&str; 4] = ["tool", "name", "tool_name", "tool_id"];
const COMMAND: [&str; 1] = ["command"];
/// The servers that offer what piton does, and the items that each is about.
const OWN: [(&str, &str); 8] = [
    ("kiwi-mcp", ""),
    ("kiwi", ""),
    ("rye", ""),
    ("rye-os", ""),
    ("ryeos", ""),
    ("script-kiwi", "tool"),
    ("context-kiwi", "directive"),
    ("knowledge-kiwi", "knowledge"),
];
/// How their calls name an item.
const ITEM_NAMES: [&str; 8] = [
    "item_id",
    "script_name",
    "directive",
    "directive_name",
    "zettel_id",
    "name",
    "id",
    "tool",
];
/// Parameters of those servers that have no meaning here.
const SETTINGS: [&str; 5] = [
    "project_path",
    "download_to_user",
    "sections",
    "action",
    "dry_run",
];

/// Reads a call.
pub(super) fn read(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    let parts: Vec<&str> = SERVER.into_iter().chain(TOOL).chain(COMMAND).collect();
    reading.check_attributes(element, path, &parts);
    let server = part(element, &SERVER);
    let tool = part(element, &TOOL);
    let command = part(element, &COMMAND).map(|text| text.value);
    let params = read_params_beside(element, path, &parts, reading);
    let prefixed = tool.as_ref().and_then(|text| {
        let (server, tool) = text.value.strip_prefix("mcp__")?.split_once("__")?;
        Some((server.to_owned(), tool.to_owned()))
    });
    let (server, name, tool) = match (server, prefixed, tool) {
        (_, Some((server, name)), Some(tool)) => (Some(server), name, tool),
        (Some(server), None, Some(tool)) => (Some(server.value), tool.value.clone(), tool),
        (None, None, Some(tool)) => {
            check_id(&tool, &join(path, "tool"), reading);
            return StepAction::Tool {
                item_id: tool.value,
                command,
                params,
            };
        }
        (server, _, None) => {
            reading.missing(element, path, "tool");
            return StepAction::Tool {
                item_id: server.map(|text| text.value).unwrap_or_default(),
                command,
                params,
            };
        }
    };
    let server = server.unwrap_or_default();
    let own = server.to_ascii_lowercase().replace('_', "-");
    if let Some((_, kind)) = OWN.iter().find(|(known, _)| *known == own) {
        return own_call(element, &name, kind, params, path, reading);
    }
    let text = tool.replaced(server);
    check_id(&text, &join(path, "mcp"), reading);
    StepAction::Tool {
        item_id: text.value,
        command: Some(name),
        params,
    }
}

/// The call of a server that offers what piton does; `kind` is the kind of item that it is about, if it
/// is about one only.
fn own_call(
    element: &Element,
    tool: &str,
    kind: &str,
    mut params: Vec<Param>,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> StepAction {
    let item_type = take(&mut params, &["item_type"])
        .map(|param| param.value)
        .filter(|written| !written.is_empty())
        .unwrap_or_else(|| kind.to_owned());
    let place = reading.place(element.span.start);
    let param = |name: &str, value: String| Param {
        name: name.to_owned(),
        value,
        place,
    };
    let tool = match (tool, kind) {
        ("get", _) => "load",
        ("execute", "") | ("run", _) => "execute",
        (other, _) => other,
    };
    match tool {
        "execute" => {
            params.retain(|param| !SETTINGS.contains(&&*param.name));
            let Some(item) = take(&mut params, &ITEM_NAMES) else {
                reading.missing(element, path, "item_id");
                return prose(element, reading);
            };
            let item_type = if item_type.is_empty() {
                "tool".to_owned()
            } else {
                item_type
            };
            execute_item(element, &item_type, item.value, params, path, reading)
        }
        verb @ ("search" | "load" | "sign") => {
            params.retain(|param| !SETTINGS.contains(&&*param.name));
            let mut named = Vec::new();
            if !item_type.is_empty() {
                named.push(param("item_type", item_type));
            }
            if verb != "search" {
                match take(&mut params, &ITEM_NAMES) {
                    Some(item) => named.push(param("item_id", item.value)),
                    None => {
                        reading.missing(element, path, "item_id");
                    }
                }
            } else if params.iter().all(|param| param.name != "query") {
                reading.missing(element, path, "query");
            }
            StepAction::Item {
                verb: verb.to_owned(),
                params: named.into_iter().chain(params).collect(),
            }
        }
        other => {
            let message = format!(
                "piton has nothing like `{}` of this server: a person or an agent makes the call",
                shown(other)
            );
            reading
                .report(Code::UnknownElement, element.span.start, path, message)
                .suggest("write what is to be done as <action>…</action>");
            prose(element, reading)
        }
    }
}

/// The call as manual work.
fn prose(element: &Element, reading: &mut DirectiveReading<'_>) -> StepAction {
    let written = element.written(reading.text);
    reading.uses(&written, UseKind::Template, "process.step.tool_call");
    StepAction::Prose {
        instruction: written.value,
        quoted: Vec::new(),
    }
}

/// An attribute or element of the call with one of these names.
fn part(element: &Element, names: &[&str]) -> Option<XmlText> {
    let attribute = names.iter().find_map(|name| element.attribute(name));
    let child = || names.iter().find_map(|name| element.child(name));
    attribute
        .map(|it| it.value.trimmed())
        .or_else(|| child().map(|it| it.own_text().trimmed()))
        .filter(|text| !text.is_blank())
}

fn take(params: &mut Vec<Param>, names: &[&str]) -> Option<Param> {
    let at = names
        .iter()
        .find_map(|name| params.iter().position(|param| param.name == *name))?;
    Some(params.remove(at))
}

/// The fields of a JSON object that is written in place of elements, each with its value as text.
pub(super) fn json_fields(text: &str) -> Option<Vec<(String, String)>> {
    let Ok(Value::Object(fields)) = serde_json::from_str(text.trim()) else {
        return None;
    };
    let as_text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Some(
        fields
            .into_iter()
            .map(|(name, value)| (name, as_text(value)))
            .collect(),
    )
}
