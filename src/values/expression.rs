//! Evaluates the `when` of a step or of a hook.

use serde_json::{Number, Value};

use super::compare::{compare, is_true};
use super::lookup::{self, Absent};
use super::{ValueError, ValueProblem, ValueScope, fill_template};
use crate::item::expr::{self, Expr, InvalidExpression};

/// Whether the `when` of a step is true.
pub fn holds(expression: &str, scope: &ValueScope<'_>) -> Result<bool, ValueError> {
    let held = expr::parse(expression)
        .map_err(malformed)
        .and_then(|parsed| is_met(&parsed, scope));
    held.map_err(|err| err.within(expression))
}

/// Whether the `when` of a hook is true: bare names are variables, and unknown ones are null.
///
/// An expression of another program that cannot be parsed is false; validation warns about it.
pub fn hook_holds(expression: &str, scope: &ValueScope<'_>) -> Result<bool, ValueError> {
    let held = expr::parse_hook(expression).map_or(Ok(false), |parsed| is_met(&parsed, scope));
    held.map_err(|err| err.within(expression))
}

fn malformed(error: InvalidExpression) -> ValueError {
    let InvalidExpression {
        offset,
        message,
        suggestion,
    } = error;
    ValueError::new(
        offset,
        ValueProblem::Malformed {
            message,
            suggestion,
        },
    )
}

/// The parser limits the depth of an expression, so recursion is safe.
fn is_met(expression: &Expr, scope: &ValueScope<'_>) -> Result<bool, ValueError> {
    match expression {
        Expr::Not(inner) => Ok(!is_met(inner, scope)?),
        Expr::And(all) => {
            for part in all {
                if !is_met(part, scope)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Expr::Or(either) => {
            for part in either {
                if is_met(part, scope)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Expr::Compare {
            left,
            operator,
            right,
        } => compare(&value(left, scope)?, *operator, &value(right, scope)?).map_err(|problem| {
            ValueError::new(first(left).or_else(|| first(right)).unwrap_or(0), problem)
        }),
        other => value(other, scope).map(|value| is_true(&value)),
    }
}

fn value(expression: &Expr, scope: &ValueScope<'_>) -> Result<Value, ValueError> {
    match expression {
        Expr::Null => Ok(Value::Null),
        Expr::Bool(value) => Ok(Value::Bool(*value)),
        Expr::Number(number) => Ok(Number::from_f64(*number).map_or(Value::Null, Value::Number)),
        Expr::Text(template) => match fill_template(template, scope, Absent::Null)? {
            // Quotes make a text, even around one placeholder.
            Value::String(text) => Ok(Value::String(text)),
            other => Ok(Value::String(super::text_of(&other))),
        },
        Expr::Placeholder(placeholder) => lookup::value(placeholder, scope, Absent::Null),
        Expr::Name(name) => Ok(variable(&name.path, scope).cloned().unwrap_or(Value::Null)),
        Expr::List(list) => list
            .iter()
            .map(|element| value(element, scope))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Expr::Not(_) | Expr::And(_) | Expr::Or(_) | Expr::Compare { .. } => {
            is_met(expression, scope).map(Value::Bool)
        }
    }
}

fn variable<'s>(path: &[String], scope: &ValueScope<'s>) -> Option<&'s Value> {
    let (first, rest) = path.split_first()?;
    let value = scope.variables?.get(first)?;
    rest.iter().try_fold(value, |at, word| at.get(word))
}

/// The offset of the first placeholder or name of an expression.
fn first(expression: &Expr) -> Option<usize> {
    let placeholder = expr::placeholders(expression)
        .first()
        .map(|it| it.range.start);
    let name = expr::names(expression).first().map(|it| it.offset);
    placeholder.into_iter().chain(name).min()
}
