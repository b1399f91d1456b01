//! The results and commands of a tool: `outputs` and `commands`.

use serde_json::Value;

use crate::item::finding::{Findings, Severity};
use crate::item::node::{Node, NodeEntry};
use crate::problem::Code;

use super::ToolOutputs;
use super::draft::ToolDraft;
use super::fields::{flag, text, wrong_type};
use crate::item::wording::{did_you_mean, nearest};

/// Keys of a JSON Schema; one of them makes `outputs` a schema.
const SCHEMA_WORDS: [&str; 10] = [
    "type",
    "properties",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$schema",
    "items",
    "required",
    "enum",
];

/// Reads `outputs`: how the result is read, or its JSON Schema.
pub(super) fn outputs(draft: &ToolDraft, findings: &mut Findings) -> (ToolOutputs, Option<Value>) {
    const FORMATS: [&str; 3] = ["json", "text", "file"];
    const FIELDS: [&str; 4] = ["format", "schema", "parser", "ignore_success"];
    let path = draft.path("outputs");
    let Some(value) = draft.node.find("outputs") else {
        return (ToolOutputs::default(), None);
    };
    let Some(entries) = value.entries() else {
        wrong_type(
            value,
            &path,
            "a mapping with format, schema and parser, or a JSON Schema",
            findings,
        );
        return (ToolOutputs::default(), None);
    };
    let is_schema_word = |entry: &NodeEntry| SCHEMA_WORDS.contains(&entry.key.as_str());
    if entries.iter().any(is_schema_word) {
        let path = format!("{path}.ignore_success");
        let outputs = ToolOutputs {
            ignore_success: flag(value, "ignore_success", &path, findings).unwrap_or_default(),
            ..ToolOutputs::default()
        };
        return (outputs, Some(value.to_json()));
    }
    for entry in entries
        .iter()
        .filter(|entry| !FIELDS.contains(&entry.key.as_str()))
    {
        let path = format!("{path}.{}", entry.key);
        let finding = findings.add(
            Code::UnknownField,
            entry.place,
            path,
            format!("outputs have no field `{}`", entry.key),
        );
        finding.suggest(did_you_mean(
            nearest(&entry.key, FIELDS),
            "use format, schema, parser and ignore_success",
        ));
    }
    let format = text(value, "format", &format!("{path}.format"), findings);
    if let (Some(format), Some(node)) = (&format, value.find("format"))
        && !FORMATS.contains(&format.as_str())
    {
        let message = format!(
            "output format `{}` is not one of {}",
            format.escape_debug(),
            FORMATS.join(", ")
        );
        let finding = findings.add(
            Code::InvalidEnumValue,
            node.place,
            format!("{path}.format"),
            message,
        );
        finding.suggest(did_you_mean(
            nearest(format, FORMATS),
            "`text` is the most general",
        ));
    }
    let inline = value
        .find("schema")
        .filter(|schema| schema.entries().is_some())
        .map(Node::to_json);
    let schema = match inline {
        Some(_) => None,
        None => text(value, "schema", &format!("{path}.schema"), findings),
    };
    let parser = text(value, "parser", &format!("{path}.parser"), findings);
    let path = format!("{path}.ignore_success");
    let ignore_success = flag(value, "ignore_success", &path, findings).unwrap_or_default();
    (
        ToolOutputs {
            format,
            parser,
            schema,
            ignore_success,
        },
        inline,
    )
}

/// Reads `commands`: names, or mappings with a name.
pub(super) fn commands(draft: &ToolDraft, findings: &mut Findings) -> Vec<String> {
    let path = draft.path("commands");
    let Some(value) = draft.node.find("commands") else {
        return Vec::new();
    };
    let Some(elements) = value.elements() else {
        wrong_type(value, &path, "a list of strings", findings);
        return Vec::new();
    };
    let mut names: Vec<String> = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        let name = element
            .as_text()
            .or_else(|| element.find("name").and_then(Node::as_text));
        match name {
            Some(name) if names.iter().any(|known| known == name) => {
                findings
                    .add(
                        Code::DuplicateName,
                        element.place,
                        format!("{path}[{at}]"),
                        format!("the command `{name}` is listed twice"),
                    )
                    .with_severity(Severity::Warning)
                    .suggest("remove one of them");
            }
            Some(name) => names.push(name.to_owned()),
            None => wrong_type(element, &format!("{path}[{at}]"), "a string", findings),
        }
    }
    names
}
