//! Evaluates the templates and expressions of a directive.
//!
//! [`ValueScope`] holds the values that they may refer to. [`fill`] and [`fill_text`] fill in
//! placeholders, [`holds`] and [`hook_holds`] evaluate `when`, [`elements`] returns the list of a
//! `foreach`. This module does no input or output, and never scans a filled-in value again.

mod compare;
mod error;
mod expression;
mod foreign;
mod given;
mod lookup;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::item::directive::OutputField;
use crate::item::position::Position;
use crate::item::template::{Template, TemplatePart};
use crate::item::wording::shown;
use crate::journal::RunId;

pub use error::{EnvironmentProblem, SourceText, ValueError, ValueProblem};
pub use expression::{holds, hook_holds};
pub use foreign::as_placeholders;
pub use given::inputs;
pub use lookup::has_type;

use lookup::Absent;

/// The values that placeholders may refer to.
#[derive(Clone, Copy)]
pub struct ValueScope<'s> {
    pub inputs: &'s Map<String, Value>,
    /// The element of the enclosing `foreach`, with its name; it hides an input of the same name.
    pub element: Option<(&'s str, &'s Value)>,
    /// The results of earlier steps, by bare name; null for a skipped step.
    pub results: &'s Map<String, Value>,
    pub run: RunId,
    /// Reads an environment variable.
    pub environment: &'s dyn Fn(&str) -> Result<String, EnvironmentProblem>,
    /// The variables for the expression of a hook: `step`, `phase`, `error`, `cost`.
    pub variables: Option<&'s Map<String, Value>>,
}

/// Fills in a text. A text that is exactly one placeholder keeps its JSON type; any other is a
/// string.
pub fn fill(text: &str, scope: &ValueScope<'_>) -> Result<Value, ValueError> {
    let filled = parse(text).and_then(|template| fill_template(&template, scope, Absent::Error));
    filled.map_err(|err| err.within(text))
}

/// Fills in a text; the result is always text.
pub fn fill_text(text: &str, scope: &ValueScope<'_>) -> Result<String, ValueError> {
    fill(text, scope).map(|value| text_of(&value))
}

/// The elements of a `foreach`: one placeholder with a list, or a JSON list with templates.
pub fn elements(text: &str, scope: &ValueScope<'_>) -> Result<Vec<Value>, ValueError> {
    elements_of(text, scope).map_err(|err| err.within(text))
}

fn elements_of(text: &str, scope: &ValueScope<'_>) -> Result<Vec<Value>, ValueError> {
    let trimmed = text.trim();
    let skipped = text.len() - text.trim_start().len();
    let moved = |mut err: ValueError| {
        err.offset += skipped;
        err
    };
    let template = parse(trimmed).map_err(moved)?;
    if let Some(placeholder) = template.single() {
        let value = lookup::value(placeholder, scope, Absent::Error).map_err(moved)?;
        return match value {
            Value::Array(list) => Ok(list),
            other => Err(ValueError::new(
                skipped,
                ValueProblem::NoList {
                    found: kind(&other),
                },
            )),
        };
    }
    let literal: Vec<Value> = serde_json::from_str(trimmed).map_err(|_| {
        ValueError::new(
            skipped,
            ValueProblem::NoListLiteral {
                text: trimmed.to_owned(),
            },
        )
    })?;
    literal
        .into_iter()
        .map(|value| fill_nested(value, trimmed, scope))
        .collect::<Result<_, _>>()
        .map_err(moved)
}

/// Evaluates the fields of `<success>` or `<failure>` that assign a value; declarations give
/// nothing.
pub fn outputs(
    fields: &[OutputField],
    scope: &ValueScope<'_>,
) -> Result<Map<String, Value>, OutputValueError> {
    let mut values = Map::new();
    for field in fields {
        let wrong = |error| OutputValueError {
            name: field.name.clone(),
            place: field.place,
            error: Box::new(error),
        };
        if assigns(&field.value).map_err(wrong)? {
            let value = fill(&field.value, scope).map_err(|err| wrong(err.near(field.place)))?;
            values.insert(field.name.clone(), value);
        }
    }
    Ok(values)
}

/// An output that cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not evaluate output `{}`", shown(.name))]
pub struct OutputValueError {
    pub name: String,
    /// Where it is written.
    pub place: Position,
    #[source]
    pub error: Box<ValueError>,
}

fn assigns(text: &str) -> Result<bool, ValueError> {
    Ok(parse(text)?.placeholders().next().is_some())
}

fn parse(text: &str) -> Result<Template, ValueError> {
    Template::parse(text).map_err(|errors| {
        let first = errors.into_iter().next();
        let (offset, message) =
            first.map_or((0, String::new()), |error| (error.offset, error.message));
        ValueError::new(
            offset,
            ValueProblem::Malformed {
                message,
                suggestion: None,
            },
        )
    })
}

fn fill_template(
    template: &Template,
    scope: &ValueScope<'_>,
    absent: Absent,
) -> Result<Value, ValueError> {
    if let Some(placeholder) = template.single() {
        return lookup::value(placeholder, scope, absent);
    }
    let mut filled = String::new();
    for part in &template.parts {
        match part {
            TemplatePart::Text(literal) => filled.push_str(literal),
            TemplatePart::Placeholder(placeholder) => {
                filled.push_str(&text_of(&lookup::value(placeholder, scope, absent)?));
            }
        }
    }
    Ok(Value::String(filled))
}

/// Fills in the texts of a literal after parsing it, so that a value with quotes cannot change its
/// structure.
fn fill_nested(value: Value, written: &str, scope: &ValueScope<'_>) -> Result<Value, ValueError> {
    match value {
        Value::String(text) => fill(&text, scope).map_err(|err| {
            // The literal may contain escapes; then the error points at the whole.
            let at = text
                .get(err.offset..)
                .and_then(|rest| rest.split_inclusive('}').next());
            ValueError::new(at.and_then(|it| written.find(it)).unwrap_or(0), err.problem)
        }),
        Value::Array(list) => list
            .into_iter()
            .map(|value| fill_nested(value, written, scope))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| Ok((key, fill_nested(value, written, scope)?)))
            .collect::<Result<_, _>>()
            .map(Value::Object),
        other => Ok(other),
    }
}

/// A value as part of a text: null is empty, lists and objects are compact JSON.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The name of a value's type.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
