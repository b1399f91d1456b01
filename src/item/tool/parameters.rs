//! Parameters as a list or a JSON Schema, always available as both.
//!
//! The schema built from a list equals the same schema written by hand, so later layers need only
//! one form. Whether a schema is valid is checked elsewhere.

use serde_json::{Map, Value, json};

use crate::item::finding::Findings;
use crate::item::node::{Node, NodeEntry};
use crate::problem::Code;

use super::Parameter;
use super::fields::wrong_type;
use crate::item::wording::{did_you_mean, nearest};

/// The types of a parameter; `any` restricts nothing.
const TYPES: [&str; 8] = [
    "string", "number", "integer", "boolean", "array", "object", "null", "any",
];

/// The keys of a parameter besides `name` and `required`: those of a JSON Schema.
const KEYWORDS: [&str; 44] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "enum",
    "const",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "additionalItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "readOnly",
    "writeOnly",
    "deprecated",
    "$ref",
];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interface {
    pub(super) parameters: Vec<Parameter>,
    pub(super) input_schema: Value,
}

/// Keys of the schema of an object; one of them makes `parameters` a schema.
const SCHEMA_WORDS: [&str; 9] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$schema",
];

/// Reads `parameters` or `inputs`; each may be a list or a schema.
pub(super) fn read(
    map: &Node,
    path: impl Fn(&str) -> String,
    findings: &mut Findings,
) -> Interface {
    let given = ["parameters", "inputs"]
        .map(|key| map.find_entry(key).filter(|entry| !entry.value.is_null()));
    if let [Some(_), Some(inputs)] = given {
        findings
            .add(
                Code::ConflictingField,
                inputs.place,
                path("inputs"),
                "parameters and inputs are both given",
            )
            .suggest("keep one of them; `parameters` is used");
    }
    let Some(entry) = given.into_iter().flatten().next() else {
        return from_schema(&json!({}));
    };
    let path = path(&entry.key);
    if let Some(elements) = entry.value.elements() {
        return from_list(elements, &path, findings);
    }
    let Some(entries) = entry.value.entries() else {
        wrong_type(
            &entry.value,
            &path,
            "a list of parameters or a JSON Schema",
            findings,
        );
        return from_schema(&json!({}));
    };
    let is_schema_word = |entry: &NodeEntry| SCHEMA_WORDS.contains(&entry.key.as_str());
    if !entries.is_empty() && !entries.iter().any(is_schema_word) {
        wrong_type(
            &entry.value,
            &path,
            "a list of parameters or a JSON Schema",
            findings,
        );
        if let Some(first) = entries.first() {
            findings
                .add(
                    Code::MissingRequiredField,
                    first.place,
                    format!("{path}.type"),
                    "a JSON Schema of parameters needs `type: object` and `properties`",
                )
                .suggest(format!("write a list: `- name: {}`", first.key));
        }
        return from_schema(&json!({}));
    }
    match entry.value.find("type") {
        Some(kind) if kind.as_text() != Some("object") => {
            findings
                .add(
                    Code::InvalidType,
                    kind.place,
                    format!("{path}.type"),
                    format!("{path} must describe an object: parameters are given by name"),
                )
                .suggest("write `type: object` and put the parameters under `properties`");
        }
        _ => {}
    }
    from_schema(&entry.value.to_json())
}

fn from_list(elements: &[Node], path: &str, findings: &mut Findings) -> Interface {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if element.entries().is_none() {
            wrong_type(element, &path, "a mapping with name and type", findings);
            continue;
        }
        let property = property(element, &path, findings);
        let Some(name) = name(element, &path, findings) else {
            continue;
        };
        if properties.contains_key(&name) {
            let place = element
                .find("name")
                .map_or(element.place, |name| name.place);
            findings
                .add(
                    Code::DuplicateName,
                    place,
                    format!("{path}.name"),
                    format!("two parameters have the name `{name}`"),
                )
                .suggest("rename or remove one of them");
            continue;
        }
        match element.find("required") {
            None => {}
            Some(value) if value.as_bool() == Some(true) => {
                required.push(Value::from(name.clone()));
            }
            Some(value) if value.as_bool().is_some() || value.elements().is_some() => {}
            Some(value) => wrong_type(
                value,
                &format!("{path}.required"),
                "true or false",
                findings,
            ),
        }
        properties.insert(name, Value::Object(property));
    }
    let mut schema = Map::new();
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), Value::Array(required));
    from_schema(&Value::Object(schema))
}

fn name(element: &Node, path: &str, findings: &mut Findings) -> Option<String> {
    let path = format!("{path}.name");
    let Some(value) = element
        .find("name")
        .filter(|name| name.as_text() != Some(""))
    else {
        findings
            .add(
                Code::MissingRequiredField,
                element.place,
                path.clone(),
                format!("{path} is required"),
            )
            .suggest("add `name:`");
        return None;
    };
    let Some(name) = value.as_text() else {
        wrong_type(value, &path, "a string", findings);
        return None;
    };
    if name.chars().count() > 128
        || !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    {
        findings
            .add(
                Code::InvalidId,
                value.place,
                path,
                format!(
                    "`{}` is not a parameter name",
                    name.chars().take(128).collect::<String>().escape_debug()
                ),
            )
            .suggest("use letters, digits, `_`, `-` and `.`");
        return None;
    }
    Some(name.to_owned())
}

fn property(element: &Node, path: &str, findings: &mut Findings) -> Map<String, Value> {
    let mut schema = Map::new();
    if element.find("type").is_none()
        && !["enum", "const", "anyOf", "oneOf", "allOf", "$ref"]
            .iter()
            .any(|key| element.find(key).is_some())
    {
        findings
            .add(
                Code::MissingRequiredField,
                element.place,
                format!("{path}.type"),
                format!("{path}.type is required"),
            )
            .suggest("add `type: string`, or `type: any` for a value without restriction");
    }
    for entry in element.entries().unwrap_or_default() {
        let key = entry.key.as_str();
        match key {
            "name" => {}
            "required" if entry.value.elements().is_none() => {}
            "type" => {
                check_type(&entry.value, &format!("{path}.type"), findings);
                if entry.value.as_text() != Some("any") && !entry.value.is_null() {
                    schema.insert("type".to_owned(), entry.value.to_json());
                }
            }
            _ if key == "required" || KEYWORDS.contains(&key) => {
                schema.insert(key.to_owned(), entry.value.to_json());
            }
            _ => {
                let finding = findings.add(
                    Code::UnknownField,
                    entry.place,
                    format!("{path}.{key}"),
                    format!("parameters have no field `{key}`"),
                );
                let meant = nearest(key, KEYWORDS.into_iter().chain(["name", "required"]));
                finding.suggest(did_you_mean(meant, "remove it, or say it in `description`"));
            }
        }
    }
    schema
}

fn check_type(value: &Node, path: &str, findings: &mut Findings) {
    let words: &[Node] = match value.elements() {
        Some(elements) => elements,
        None => std::slice::from_ref(value),
    };
    for word in words {
        let Some(text) = word.as_text() else {
            if !value.is_null() {
                wrong_type(word, path, "a string", findings);
            }
            continue;
        };
        if TYPES.contains(&text) {
            continue;
        }
        let meant = match text {
            "str" | "text" | "path" | "file" | "date" => Some("string"),
            "int" | "long" => Some("integer"),
            "float" | "double" | "decimal" => Some("number"),
            "bool" => Some("boolean"),
            "list" | "tuple" => Some("array"),
            "dict" | "map" | "json" => Some("object"),
            _ => nearest(text, TYPES),
        };
        let finding = findings.add(
            Code::InvalidEnumValue,
            word.place,
            path,
            format!("`{text}` is not a type; types are {}", TYPES.join(", ")),
        );
        finding.suggest(did_you_mean(meant, "use one of these"));
    }
}

/// Normalizes a schema of parameters and lists them.
fn from_schema(schema: &Value) -> Interface {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema
        .entry("type")
        .or_insert_with(|| Value::from("object"));
    let properties = match schema.get("properties") {
        Some(Value::Object(properties)) => properties.clone(),
        _ => Map::new(),
    };
    schema.insert("properties".to_owned(), Value::Object(properties.clone()));
    let mut required = match schema.remove("required") {
        Some(Value::Array(names)) => names,
        _ => Vec::new(),
    };
    let position = |name: &Value| {
        name.as_str()
            .and_then(|name| properties.keys().position(|key| key == name))
            .unwrap_or(usize::MAX)
    };
    required.sort_by_cached_key(position);
    let parameters = properties
        .iter()
        .map(|(name, property)| Parameter {
            name: name.clone(),
            kind: kind(property),
            required: required
                .iter()
                .any(|required| required.as_str() == Some(name)),
            default: property.get("default").cloned(),
            description: property
                .get("description")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
        .collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), Value::Array(required));
    }
    Interface {
        parameters,
        input_schema: Value::Object(schema),
    }
}

/// The single type of a property, or `any`.
fn kind(property: &Value) -> String {
    let one = match property.get("type") {
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(Value::Array(kinds)) => {
            let mut real = kinds
                .iter()
                .filter_map(Value::as_str)
                .filter(|kind| *kind != "null");
            real.next().filter(|_| real.next().is_none())
        }
        _ => None,
    };
    one.unwrap_or("any").to_owned()
}
