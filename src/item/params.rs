//! Parameters and their JSON Schemas.
//!
//! [`check_schema`] checks a schema once, when an item is validated; [`validate`] checks the values
//! of a call and fills in defaults; [`convert()`] turns text from a command line or a directive
//! into the declared type. Nothing is ever fetched, and no schema or value can make them hang.

mod convert;
mod defaults;
mod file;
mod plain;
mod schema;
mod survey;
mod texts;
mod wording;

pub use convert::{Unconvertible, convert};
pub use file::load as load_file;
pub use schema::{SchemaProblem, check_schema};
pub use texts::{DeclaredParameters, ParameterText};

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use survey::SchemaSurvey;
use wording::ValueWording;

const MAX_DEPTH: usize = 64;
/// In all parameters together.
const MAX_VALUES: usize = 100_000;
const MAX_PROBLEMS: usize = 100;
/// The time limit of a recursive schema for parameters, which are small.
const TIME_LIMIT: Duration = Duration::from_millis(800);
/// The same for results, which may be large and are checked on slow machines too.
const RESULT_TIME_LIMIT: Duration = Duration::from_mins(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamProblem {
    /// A JSON pointer to the value.
    pub pointer: String,
    pub message: String,
    pub suggestion: Option<String>,
}

/// Checks parameters against their schema and returns them with defaults filled in.
pub fn validate(schema: &Value, params: &Value) -> Result<Value, Vec<ParamProblem>> {
    validate_as(schema, params, wording::PARAMETERS)
}

/// Checks the inputs of a directive against their schema and returns them with defaults filled in.
pub fn validate_inputs(schema: &Value, inputs: &Value) -> Result<Value, Vec<ParamProblem>> {
    validate_as(schema, inputs, wording::INPUTS)
}

fn validate_as(
    schema: &Value,
    params: &Value,
    words: ValueWording,
) -> Result<Value, Vec<ParamProblem>> {
    let whole = |message: &str| {
        vec![ParamProblem {
            pointer: String::new(),
            message: message.to_owned(),
            suggestion: None,
        }]
    };
    if !fits(params, MAX_DEPTH, &mut MAX_VALUES.clone()) {
        return Err(whole("the parameters are too large or too deeply nested"));
    }
    let survey = SchemaSurvey::of(schema);
    if let Some(problem) = survey.problems.first() {
        return Err(whole(&format!(
            "the parameter schema cannot be used: {}",
            problem.message
        )));
    }
    if !survey.needs_bounds() {
        return judge(schema, params, words);
    }
    let (schema, params) = (schema.clone(), params.clone());
    bounded(Some(TIME_LIMIT), move || judge(&schema, &params, words)).unwrap_or_else(|| {
        Err(whole(
            "the parameters took too long to check against their schema",
        ))
    })
}

fn judge(schema: &Value, params: &Value, words: ValueWording) -> Result<Value, Vec<ParamProblem>> {
    let completed = defaults::fill(schema, params);
    // Compiling a schema takes longer than everything else in a call.
    if schema::is_plainly_valid(schema) && plain::accepts(schema, &completed, MAX_DEPTH) {
        return Ok(completed);
    }
    let validator = schema::compile(schema).map_err(|message| {
        let message = format!("the parameter schema cannot be used: {message}");
        vec![ParamProblem {
            pointer: String::new(),
            message,
            suggestion: None,
        }]
    })?;
    let problems: Vec<ParamProblem> = validator
        .iter_errors(&completed)
        .flat_map(|error| wording::problems(&error, schema, words))
        .take(MAX_PROBLEMS)
        .collect();
    if problems.is_empty() {
        Ok(completed)
    } else {
        Err(problems)
    }
}

/// Checks a value as it is, e.g. the result of a tool, without defaults; returns all problems.
pub fn check(schema: &Value, value: &Value) -> Vec<ParamProblem> {
    let whole = |message: String| {
        vec![ParamProblem {
            pointer: String::new(),
            message,
            suggestion: None,
        }]
    };
    let survey = SchemaSurvey::of(schema);
    if let Some(problem) = survey.problems.first() {
        return whole(format!("the schema cannot be used: {}", problem.message));
    }
    if !fits(value, MAX_DEPTH, &mut usize::MAX.clone()) {
        return whole(format!("it is more than {MAX_DEPTH} levels deep"));
    }
    let (owned_schema, owned_value) = (schema.clone(), value.clone());
    // Other schemas take time proportional to the value, so a limit could only reject valid ones.
    let limit = survey.needs_bounds().then_some(RESULT_TIME_LIMIT);
    let checked = bounded(limit, move || match schema::compile(&owned_schema) {
        Ok(validator) => validator
            .iter_errors(&owned_value)
            .flat_map(|error| wording::problems(&error, &owned_schema, wording::RESULT))
            .take(MAX_PROBLEMS)
            .collect(),
        Err(message) => {
            let message = format!("the schema cannot be used: {message}");
            vec![ParamProblem {
                pointer: String::new(),
                message,
                suggestion: None,
            }]
        }
    });
    checked.unwrap_or_else(|| whole("it took too long to check against its schema".to_owned()))
}

fn fits(value: &Value, depth: usize, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else {
        return false;
    };
    *left = fewer;
    match value {
        Value::Array(_) | Value::Object(_) if depth == 0 => false,
        Value::Array(list) => list.iter().all(|value| fits(value, depth - 1, left)),
        Value::Object(map) => map.values().all(|value| fits(value, depth - 1, left)),
        _ => true,
    }
}

/// Runs work on a thread with a deep stack; `None` when it exceeds the limit.
///
/// A recursive schema can take exponential time on a small value, which cannot be predicted. The
/// thread is then abandoned; it holds no shared resources.
fn bounded<T: Send + 'static>(
    limit: Option<Duration>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    const STACK: usize = 64 * 1024 * 1024;
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("schema".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            // After the time limit there is no receiver.
            let _ = sender.send(work());
        })
        .ok()?;
    match limit {
        Some(limit) => receiver.recv_timeout(limit).ok(),
        None => receiver.recv().ok(),
    }
}

#[cfg(test)]
mod tests;
