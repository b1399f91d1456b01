//! Schemas so simple that their validity is obvious.
//!
//! Almost every tool has only named parameters with a type and a description. Recognizing such a
//! schema takes a tenth of the time of the full check, which all others get.

use serde_json::{Map, Value};

const TYPES: [&str; 7] = [
    "string", "integer", "number", "boolean", "array", "object", "null",
];

/// Whether a schema is certainly valid; `left` bounds how much of it is examined.
pub(super) fn is_valid(schema: &Value, depth: usize, left: &mut usize) -> bool {
    let (Some(depth), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
        return false;
    };
    *left = fewer;
    match schema {
        Value::Bool(_) => true,
        Value::Object(map) => map
            .iter()
            .all(|(keyword, value)| is_keyword_valid(map, keyword, value, depth, left)),
        _ => false,
    }
}

fn is_keyword_valid(
    map: &Map<String, Value>,
    keyword: &str,
    value: &Value,
    depth: usize,
    left: &mut usize,
) -> bool {
    match keyword {
        "type" => value.as_str().is_some_and(|name| TYPES.contains(&name)),
        "title" | "description" => value.is_string(),
        "minimum" | "maximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
        "enum" => value
            .as_array()
            .is_some_and(|options| !options.is_empty() && options.len() < 100),
        "required" => value
            .as_array()
            .is_some_and(|names| are_distinct_names(names)),
        "items" | "additionalProperties" => is_valid(value, depth, left),
        "properties" => value.as_object().is_some_and(|properties| {
            properties
                .values()
                .all(|property| is_valid(property, depth, left))
        }),
        "default" => fits(map, value),
        _ => false,
    }
}

/// Whether a value certainly matches a schema. Only the keywords below are examined; all other
/// cases, and every mismatch, go to the full check.
pub(super) fn accepts(schema: &Value, value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let Value::Object(map) = schema else {
        return schema == &Value::Bool(true);
    };
    map.iter().all(|(keyword, wanted)| match keyword.as_str() {
        "title" | "description" | "default" => true,
        "type" => wanted.as_str().is_some_and(|name| is_of_type(value, name)),
        // Equal numbers may be written differently.
        "enum" => {
            value.is_string()
                && wanted
                    .as_array()
                    .is_some_and(|options| options.contains(value))
        }
        "required" => match (wanted.as_array(), value) {
            (Some(names), Value::Object(fields)) => names
                .iter()
                .all(|name| name.as_str().is_some_and(|name| fields.contains_key(name))),
            _ => false,
        },
        "properties" => match (wanted.as_object(), value) {
            (Some(properties), Value::Object(fields)) => {
                properties.iter().all(|(name, property)| {
                    fields
                        .get(name)
                        .is_none_or(|field| accepts(property, field, depth))
                })
            }
            _ => false,
        },
        "additionalProperties" => match (wanted, value) {
            (Value::Bool(true), _) => true,
            (Value::Bool(false), Value::Object(fields)) => {
                let known = map.get("properties").and_then(Value::as_object);
                fields
                    .keys()
                    .all(|name| known.is_some_and(|known| known.contains_key(name)))
            }
            _ => false,
        },
        "items" => value
            .as_array()
            .is_some_and(|list| list.iter().all(|element| accepts(wanted, element, depth))),
        _ => false,
    })
}

fn are_distinct_names(names: &[Value]) -> bool {
    names.len() < 50
        && names
            .iter()
            .enumerate()
            .all(|(at, name)| name.is_string() && !names[..at].contains(name))
}

/// Whether a default matches a schema that has only a type and options.
fn fits(map: &Map<String, Value>, default: &Value) -> bool {
    let is_simple = map.keys().all(|keyword| {
        matches!(
            keyword.as_str(),
            "type" | "title" | "description" | "enum" | "default"
        )
    });
    let of_type = map
        .get("type")
        .is_none_or(|name| name.as_str().is_some_and(|name| is_of_type(default, name)));
    let among = map
        .get("enum")
        .and_then(Value::as_array)
        .is_none_or(|options| options.contains(default));
    is_simple && of_type && among
}

/// Whether a value certainly has a type; `1.0` may also be an integer, which is left to the full
/// check.
fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}
