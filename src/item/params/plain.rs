//! Schemas so plain that their validity can be seen.
//!
//! Almost every tool has nothing but named parameters with a type and a description. Seeing that such a
//! schema is right takes a tenth of the time of the full check, which anything else goes through.

use serde_json::{Map, Value};

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// Whether a schema is valid for certain; `left` bounds how much of it is looked at.
pub(super) fn is_valid(schema: &Value, depth: usize, left: &mut usize) -> bool {
    let (Some(depth), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else { return false };
    *left = fewer;
    match schema {
        Value::Bool(_) => true,
        Value::Object(map) => map.iter().all(|(keyword, value)| is_keyword_valid(map, keyword, value, depth, left)),
        _ => false,
    }
}

fn is_keyword_valid(map: &Map<String, Value>, keyword: &str, value: &Value, depth: usize, left: &mut usize) -> bool {
    match keyword {
        "type" => value.as_str().is_some_and(|name| TYPES.contains(&name)),
        "title" | "description" => value.is_string(),
        "minimum" | "maximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
        "enum" => value.as_array().is_some_and(|options| !options.is_empty() && options.len() < 100),
        "required" => value.as_array().is_some_and(|names| are_distinct_names(names)),
        "items" | "additionalProperties" => is_valid(value, depth, left),
        "properties" => value
            .as_object()
            .is_some_and(|properties| properties.values().all(|property| is_valid(property, depth, left))),
        "default" => fits(map, value),
        _ => false,
    }
}

fn are_distinct_names(names: &[Value]) -> bool {
    names.len() < 50 && names.iter().enumerate().all(|(at, name)| name.is_string() && !names[..at].contains(name))
}

/// Whether a default fits a schema of a type and options only.
fn fits(map: &Map<String, Value>, default: &Value) -> bool {
    let is_simple =
        map.keys().all(|keyword| matches!(keyword.as_str(), "type" | "title" | "description" | "enum" | "default"));
    let of_type = map.get("type").is_none_or(|name| match name.as_str() {
        Some("string") => default.is_string(),
        Some("integer") => default.is_i64() || default.is_u64(),
        Some("number") => default.is_number(),
        Some("boolean") => default.is_boolean(),
        Some("array") => default.is_array(),
        Some("object") => default.is_object(),
        Some("null") => default.is_null(),
        _ => false,
    });
    let among = map.get("enum").and_then(Value::as_array).is_none_or(|options| options.contains(default));
    is_simple && of_type && among
}
