//! Compares two values without conversion: the text `1` is not the number 1.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{ValueProblem, kind};
use crate::item::expr::Operator;

/// Whether a comparison holds.
pub(super) fn compare(
    left: &Value,
    operator: Operator,
    right: &Value,
) -> Result<bool, ValueProblem> {
    Ok(match operator {
        Operator::Equal => equal(left, right),
        Operator::Unequal => !equal(left, right),
        Operator::In => contains(right, left)?,
        Operator::Less => order(left, right)?.is_some_and(Ordering::is_lt),
        Operator::LessOrEqual => order(left, right)?.is_some_and(Ordering::is_le),
        Operator::Greater => order(left, right)?.is_some_and(Ordering::is_gt),
        Operator::GreaterOrEqual => order(left, right)?.is_some_and(Ordering::is_ge),
    })
}

/// Whether a value counts as true.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

/// The order of two values; `None` if one is null, which is neither less nor greater.
fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, ValueProblem> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Ok(numbers(left, right)),
        (Value::String(left), Value::String(right)) => Ok(Some(left.cmp(right))),
        // The result of a skipped step is null: `{step:a.count} > 0` is then false, not an error.
        (Value::Null, _) | (_, Value::Null) => Ok(None),
        _ => Err(ValueProblem::Unordered {
            left: kind(left),
            right: kind(right),
        }),
    }
}

/// Compares integers exactly, other numbers as floating point.
fn numbers(left: &Number, right: &Number) -> Option<Ordering> {
    let whole = |number: &Number| {
        number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
    };
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn contains(container: &Value, value: &Value) -> Result<bool, ValueProblem> {
    match (container, value) {
        (Value::Array(list), _) => Ok(list.iter().any(|element| equal(element, value))),
        (Value::Object(map), Value::String(key)) => Ok(map.contains_key(key)),
        (Value::Object(_) | Value::Null, _) | (Value::String(_), Value::Null) => Ok(false),
        (Value::String(text), Value::String(part)) => Ok(text.contains(part)),
        (Value::String(_), other) => Err(ValueProblem::NoPart { found: kind(other) }),
        (other, _) => Err(ValueProblem::NoContainer { found: kind(other) }),
    }
}
