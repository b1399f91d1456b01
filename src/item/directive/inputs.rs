//! The `<inputs>` of a directive, and the JSON Schema made from them.

use regex::RegexBuilder;
use serde_json::{Map, Value, json};

use super::DirectiveInput;
use super::quantity::boolean;
use super::reading::{DirectiveReading, join};
use super::xml::{Element, XmlText};
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Code;

const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
/// A larger number is a mistake, and each pattern takes time to compile.
const MAX_INPUTS: usize = 256;
/// In bytes of a compiled pattern.
const MAX_PATTERN: usize = 256 * 1024;

#[derive(Default)]
pub(super) struct DeclaredInputs {
    pub(super) inputs: Vec<DirectiveInput>,
    explicit: Option<Value>,
}

impl DeclaredInputs {
    pub(super) fn names(&self) -> Vec<String> {
        let explicit = self
            .explicit
            .as_ref()
            .and_then(|schema| schema.get("properties"))
            .and_then(Value::as_object);
        let explicit = explicit.into_iter().flat_map(Map::keys).cloned();
        self.inputs
            .iter()
            .map(|input| input.name.clone())
            .chain(explicit)
            .collect()
    }

    /// The given schema, or one made from the inputs.
    pub(super) fn schema(&self) -> Value {
        if let Some(schema) = &self.explicit {
            return schema.clone();
        }
        let properties: Map<String, Value> = self
            .inputs
            .iter()
            .map(|input| (input.name.clone(), property(input)))
            .collect();
        let required: Vec<&str> = self
            .inputs
            .iter()
            .filter(|input| input.required)
            .map(|input| &*input.name)
            .collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

pub(super) fn read(
    element: &Element,
    reading: &mut DirectiveReading<'_>,
    declared: &mut DeclaredInputs,
) {
    reading.check_attributes(element, "inputs", &["schema"]);
    if let Some(attribute) = element.attribute("schema") {
        declared.explicit = read_schema(&attribute.value, reading);
    }
    let mut index = 0;
    for child in element.children() {
        match &*child.name {
            "input" => {
                let path = format!("inputs.input[{index}]");
                index += 1;
                if index > MAX_INPUTS {
                    reading
                        .report(
                            Code::FileTooLarge,
                            child.span.start,
                            path,
                            format!("more than {MAX_INPUTS} inputs"),
                        )
                        .suggest("pass an object instead");
                    return;
                }
                if let Some(input) = read_input(child, &path, reading) {
                    add(input, child, &path, reading, declared);
                }
            }
            "schema" => {
                declared.explicit = read_schema(&reading.text(child, "inputs.schema"), reading);
            }
            _ if child.is_opaque() => reading.keep_note(child, "inputs"),
            _ => reading.keep_unknown(child, "inputs", &["input", "schema"]),
        }
    }
}

fn add(
    input: DirectiveInput,
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
    declared: &mut DeclaredInputs,
) {
    if let Some(first) = declared
        .inputs
        .iter()
        .find(|other| other.name == input.name)
    {
        let message = format!(
            "input `{}` is declared twice, first on line {}",
            shown(&input.name),
            first.place.line
        );
        reading
            .report(
                Code::DuplicateName,
                element.span.start,
                join(path, "name"),
                message,
            )
            .suggest("rename or remove one of the two");
    } else {
        declared.inputs.push(input);
    }
}

fn read_input(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Option<DirectiveInput> {
    reading.check_attributes(
        element,
        path,
        &[
            "name",
            "type",
            "required",
            "default",
            "enum",
            "pattern",
            "description",
        ],
    );
    let kind = read_kind(element, path, reading);
    let required = element
        .attribute("required")
        .and_then(|attribute| boolean(reading, &attribute.value, &join(path, "required")))
        .unwrap_or(false);
    let choices = read_choices(element, kind, path, reading);
    let pattern = part(element, "pattern").and_then(|text| read_pattern(&text, path, reading));
    let default = part(element, "default").and_then(|text| {
        let default = read_default(&text, kind, path, reading)?;
        check_default(&default, &choices, pattern.as_deref(), &text, path, reading)
            .then_some(default)
    });
    for child in element.children() {
        if !matches!(&*child.name, "description" | "default" | "enum" | "pattern")
            && !child.is_opaque()
        {
            reading.keep_unknown(child, path, &["description", "default", "enum", "pattern"]);
        }
    }
    let description = element
        .child("description")
        .map(Element::own_text)
        .or_else(|| element.attribute("description").map(|it| it.value.clone()))
        .unwrap_or_else(|| element.own_text());
    let name = element
        .attribute("name")
        .map(|attribute| attribute.value.value.trim().to_owned());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        reading.missing(element, path, "name");
        return None;
    };
    if !name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    {
        let message = format!(
            "input `{}` cannot be referred to by a placeholder",
            shown(&name)
        );
        reading
            .report(
                Code::NamingConvention,
                element.span.start,
                join(path, "name"),
                message,
            )
            .suggest("use letters, digits and `_`");
    }
    Some(DirectiveInput {
        name,
        kind: kind.to_owned(),
        required,
        default,
        choices,
        pattern,
        description: description.trimmed().value,
        place: reading.place(element.span.start),
    })
}

/// An attribute, or the element that some files use instead.
fn part(element: &Element, name: &str) -> Option<XmlText> {
    let attribute = element
        .attribute(name)
        .map(|attribute| attribute.value.clone());
    attribute.or_else(|| element.child(name).map(|child| child.own_text().trimmed()))
}

fn read_kind(element: &Element, path: &str, reading: &mut DirectiveReading<'_>) -> &'static str {
    let Some(attribute) = element.attribute("type") else {
        return "string";
    };
    let written = attribute.value.value.trim();
    if let Some(kind) = TYPES.iter().find(|kind| **kind == written) {
        return kind;
    }
    let aliases = [
        ("str", "string"),
        ("int", "integer"),
        ("bool", "boolean"),
        ("float", "number"),
        ("list", "array"),
    ];
    let alias = aliases
        .iter()
        .find(|(alias, _)| *alias == written)
        .map(|(_, kind)| *kind);
    let suggestion = did_you_mean(
        alias.or_else(|| nearest(written, TYPES)),
        &format!("known are: {}", TYPES.join(", ")),
    );
    let message = format!(
        "`{}` is not a known type; it is taken as string",
        shown(written)
    );
    reading
        .report(
            Code::UnknownEnumValue,
            attribute.value.offset_at(0),
            join(path, "type"),
            message,
        )
        .suggest(suggestion);
    "string"
}

fn read_choices(
    element: &Element,
    kind: &str,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Vec<Value> {
    let path = join(path, "enum");
    let mut written: Vec<XmlText> = Vec::new();
    if let Some(text) = part(element, "enum").filter(|text| !text.is_blank()) {
        if let Ok(Value::Array(values)) = serde_json::from_str(&text.value) {
            return values;
        }
        let separator = if text.value.contains(',') { ',' } else { '|' };
        let mut at = 0;
        for choice in text.value.split(separator) {
            written.push(text.slice(at..at + choice.len()).trimmed());
            at += choice.len() + 1;
        }
    }
    if let Some(list) = element.child("enum") {
        written.extend(list.children().map(|value| value.own_text().trimmed()));
    }
    let mut choices = Vec::new();
    for text in written {
        let choice = convert(&text.value, kind);
        if choice.is_none() {
            let message = format!("`{}` is not of type {kind}", shown(&text.value));
            reading
                .report(Code::InvalidType, text.offset_at(0), &*path, message)
                .suggest("give values of the input's own type");
        }
        choices.extend(choice);
    }
    choices
}

fn read_pattern(text: &XmlText, path: &str, reading: &mut DirectiveReading<'_>) -> Option<String> {
    match RegexBuilder::new(&text.value)
        .size_limit(MAX_PATTERN)
        .build()
    {
        Ok(_) => Some(text.value.clone()),
        Err(err) => {
            let reason = match err {
                regex::Error::CompiledTooBig(_) => "it is too big".to_owned(),
                other => other
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned(),
            };
            let message = format!("the pattern cannot be compiled: {reason}");
            reading
                .report(
                    Code::InvalidPattern,
                    text.offset_at(0),
                    join(path, "pattern"),
                    message,
                )
                .suggest("write a regular expression without look-around and back references");
            None
        }
    }
}

fn read_default(
    text: &XmlText,
    kind: &str,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Option<Value> {
    let value = convert(&text.value, kind);
    if value.is_none() {
        let message = format!("the default `{}` is not of type {kind}", shown(&text.value));
        let suggestion = match kind {
            "array" => "write a JSON list, e.g. default=\"[1, 2]\"",
            "object" => "write a JSON object, e.g. default='{\"a\": 1}'",
            "boolean" => "write `true` or `false`",
            _ => "give a default of the input's own type",
        };
        report_default(text, path, message, suggestion, reading);
    }
    value
}

fn report_default(
    text: &XmlText,
    path: &str,
    message: String,
    suggestion: &str,
    reading: &mut DirectiveReading<'_>,
) {
    let place = text.offset_at(0);
    reading
        .report(Code::InvalidDefault, place, join(path, "default"), message)
        .suggest(suggestion);
}

fn check_default(
    default: &Value,
    choices: &[Value],
    pattern: Option<&str>,
    text: &XmlText,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> bool {
    let mut report = |message: String, suggestion: &str| {
        report_default(text, path, message, suggestion, reading);
        false
    };
    if !choices.is_empty() && !choices.contains(default) {
        return report(
            format!(
                "the default `{}` is not one of the choices",
                shown(&text.value)
            ),
            "add it to `enum`",
        );
    }
    let pattern = pattern.and_then(|pattern| {
        RegexBuilder::new(pattern)
            .size_limit(MAX_PATTERN)
            .build()
            .ok()
    });
    if let (Some(pattern), Some(default)) = (pattern, default.as_str())
        && !pattern.is_match(default)
    {
        return report(
            format!(
                "the default `{}` does not match the pattern",
                shown(default)
            ),
            "change one of the two",
        );
    }
    true
}

fn convert(text: &str, kind: &str) -> Option<Value> {
    let trimmed = text.trim();
    match kind {
        "integer" => trimmed.parse::<i64>().ok().map(Value::from),
        "number" => match trimmed.parse::<i64>() {
            Ok(number) => Some(Value::from(number)),
            Err(_) => serde_json::Number::from_f64(trimmed.parse().ok()?).map(Value::Number),
        },
        "boolean" => trimmed.parse::<bool>().ok().map(Value::Bool),
        "array" => serde_json::from_str(trimmed).ok().filter(Value::is_array),
        "object" => serde_json::from_str(trimmed).ok().filter(Value::is_object),
        _ => Some(Value::String(text.to_owned())),
    }
}

fn read_schema(text: &XmlText, reading: &mut DirectiveReading<'_>) -> Option<Value> {
    match serde_json::from_str::<Value>(&text.value) {
        Ok(schema) if schema.is_object() => Some(schema),
        Ok(_) => {
            reading
                .report(
                    Code::InvalidSchema,
                    text.trimmed().offset_at(0),
                    "inputs.schema",
                    "the schema is not an object",
                )
                .suggest("write {\"type\": \"object\", \"properties\": {…}}");
            None
        }
        Err(err) => {
            let line: usize = text
                .value
                .split_inclusive('\n')
                .take(err.line().saturating_sub(1))
                .map(str::len)
                .sum();
            let offset =
                text.offset_at((line + err.column().saturating_sub(1)).min(text.value.len()));
            let message = err.to_string();
            let reason = message
                .rsplit_once(" at line ")
                .map_or(&*message, |(reason, _)| reason);
            let message = format!("the schema is not JSON: {reason}");
            reading
                .report(Code::JsonSyntax, offset, "inputs.schema", message)
                .suggest("write a JSON Schema, in CDATA where it holds `<` or `&`");
            None
        }
    }
}

fn property(input: &DirectiveInput) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), Value::from(&*input.kind));
    if !input.description.is_empty() {
        schema.insert("description".to_owned(), Value::from(&*input.description));
    }
    if let Some(default) = &input.default {
        schema.insert("default".to_owned(), default.clone());
    }
    if !input.choices.is_empty() {
        schema.insert("enum".to_owned(), Value::Array(input.choices.clone()));
    }
    if let Some(pattern) = &input.pattern {
        schema.insert("pattern".to_owned(), Value::from(&**pattern));
    }
    Value::Object(schema)
}
