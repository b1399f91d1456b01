//! Converts text to values.

use serde_json::{Number, Value};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct Unconvertible {
    /// The start of the text.
    pub text: String,
    /// For example `an integer`.
    pub expected: &'static str,
}

/// Converts a text to a declared JSON type; for an unknown type it stays a string.
pub fn convert(text: &str, kind: &str) -> Result<Value, Unconvertible> {
    let trimmed = text.trim();
    let (value, expected) = match kind {
        "integer" | "int" => (integer(trimmed), "an integer"),
        "number" | "float" => (number(trimmed), "a number"),
        "boolean" | "bool" => (boolean(trimmed), "a boolean (`true` or `false`)"),
        "null" => (
            (trimmed == "null" || trimmed.is_empty()).then_some(Value::Null),
            "null",
        ),
        "array" | "list" => (json(trimmed).filter(Value::is_array), "a JSON array"),
        "object" | "dict" => (json(trimmed).filter(Value::is_object), "a JSON object"),
        _ => (Some(Value::from(text)), "a string"),
    };
    value.ok_or_else(|| Unconvertible {
        text: text.chars().take(80).collect(),
        expected,
    })
}

fn integer(text: &str) -> Option<Value> {
    text.parse::<i64>()
        .map(Value::from)
        .or_else(|_| text.parse::<u64>().map(Value::from))
        .ok()
}

fn number(text: &str) -> Option<Value> {
    // `f64` would also accept `inf`, `nan` and the like.
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    integer(text).or_else(|| {
        text.parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .map(Value::Number)
    })
}

fn boolean(text: &str) -> Option<Value> {
    [("true", true), ("false", false)]
        .into_iter()
        .find(|(word, _)| text.eq_ignore_ascii_case(word))
        .map(|(_, value)| Value::Bool(value))
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}
