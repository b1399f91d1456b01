//! Evaluates a placeholder.

use serde_json::{Map, Value};

use super::error::ValueShape;
use super::{ValueError, ValueProblem, ValueScope, kind};
use crate::item::template::{MissingInput, Placeholder, Reference};

/// The value of a path that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// An error.
    Error,
    /// Null, because an expression only tests the value.
    Null,
}

/// The value of a placeholder.
pub(super) fn value(
    placeholder: &Placeholder,
    scope: &ValueScope<'_>,
    absent: Absent,
) -> Result<Value, ValueError> {
    refer(&placeholder.reference, scope, absent)
        .map_err(|problem| ValueError::new(placeholder.range.start, problem))
}

/// Whether the value of a placeholder has a type. Defaults and variables are text.
pub fn has_type(placeholder: &Placeholder, scope: &ValueScope<'_>) -> bool {
    match &placeholder.reference {
        Reference::RunId
        | Reference::Step { .. }
        | Reference::Input {
            missing: MissingInput::Error,
            ..
        } => true,
        Reference::Env { .. } => false,
        Reference::Input { name, path, .. } => {
            let bare = Reference::Input {
                name: name.clone(),
                path: path.clone(),
                missing: MissingInput::Error,
            };
            refer(&bare, scope, Absent::Error).is_ok_and(|value| !value.is_null())
        }
    }
}

fn refer(
    reference: &Reference,
    scope: &ValueScope<'_>,
    absent: Absent,
) -> Result<Value, ValueProblem> {
    match reference {
        Reference::RunId => Ok(Value::String(scope.run.to_string())),
        Reference::Env { name } => {
            (scope.environment)(name)
                .map(Value::String)
                .map_err(|problem| ValueProblem::Environment {
                    name: name.clone(),
                    problem,
                })
        }
        Reference::Input {
            name,
            path,
            missing,
        } => {
            let element = scope
                .element
                .filter(|(bound, _)| bound == name)
                .map(|(_, value)| value);
            let found = match element.or_else(|| scope.inputs.get(name)) {
                Some(value) => walk(value, path, || format!("input:{name}")),
                None => Err(ValueProblem::NoInput {
                    name: name.clone(),
                    known: names(scope.inputs),
                }),
            };
            match (found, missing, absent) {
                // A default also replaces an optional input that is null.
                (Ok(Value::Null) | Err(_), MissingInput::Default(default), _) => {
                    Ok(Value::String(default.clone()))
                }
                (Ok(value), ..) => Ok(value.clone()),
                // Empty, not null: the placeholder becomes an empty text.
                (Err(_), MissingInput::Empty, _) => Ok(Value::String(String::new())),
                (Err(ValueProblem::NoPath { .. }), MissingInput::Error, Absent::Null) => {
                    Ok(Value::Null)
                }
                (Err(problem), MissingInput::Error, _) => Err(problem),
            }
        }
        Reference::Step { name, path } => {
            let Some(result) = scope.results.get(name) else {
                return Err(ValueProblem::NoResult {
                    name: name.clone(),
                    known: names(scope.results),
                });
            };
            match (walk(result, path, || format!("step:{name}")), absent) {
                (Ok(value), _) => Ok(value.clone()),
                (Err(_), Absent::Null) => Ok(Value::Null),
                (Err(_), Absent::Error) if result.is_null() => Err(ValueProblem::Skipped {
                    name: name.clone(),
                    word: path.join("."),
                }),
                (Err(problem), Absent::Error) => Err(problem),
            }
        }
    }
}

/// Follows keys of objects and indexes of lists.
fn walk<'v>(
    value: &'v Value,
    path: &[String],
    whole: impl Fn() -> String,
) -> Result<&'v Value, ValueProblem> {
    let mut at = value;
    for (depth, word) in path.iter().enumerate() {
        let next = match at {
            Value::Object(map) => map.get(word),
            Value::Array(list) => word.parse().ok().and_then(|index: usize| list.get(index)),
            _ => None,
        };
        at = next.ok_or_else(|| {
            let gone = path.get(..depth).unwrap_or_default();
            let whole = std::iter::once(whole())
                .chain(gone.iter().cloned())
                .collect::<Vec<_>>()
                .join(".");
            ValueProblem::NoPath {
                whole,
                word: word.clone(),
                there: there(at),
            }
        })?;
    }
    Ok(at)
}

fn there(value: &Value) -> ValueShape {
    match value {
        Value::Object(map) => ValueShape::Object(names(map)),
        Value::Array(list) => ValueShape::List(list.len()),
        other => ValueShape::Plain(kind(other)),
    }
}

fn names(map: &Map<String, Value>) -> Vec<String> {
    map.keys().cloned().collect()
}
