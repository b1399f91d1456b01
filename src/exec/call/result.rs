//! Turns the output of a process into the result of a call.

use serde_json::{Map, Value, json};

use super::{CallError, Machine, NewSupervisor, Raised, Starter};
use crate::exec::contract;
use crate::exec::interrupt::Interrupts;
use crate::exec::invocation::{Action, Invocation, PythonEntry};
use crate::exec::mcp::McpResult;
use crate::exec::parser;
use crate::exec::python::bootstrap::ScriptAnswer;
use crate::exec::supervisor::{Captured, Ended, ResultFault};
use crate::exec::worker;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadResult {
    pub value: Value,
    /// Problems that did not prevent reading the result.
    pub warnings: Vec<String>,
}

/// The result before parser and contract.
enum Raw<'e> {
    /// A value returned through the private channel.
    Value(Value),
    /// The text written to stdout.
    Output(&'e Captured),
}

/// Reads the result of a successful call: the private channel or stdout, then the parser, then the
/// contract.
pub fn read_result(
    invocation: &Invocation,
    ended: &Ended,
    machine: &Machine,
    supervisor: &NewSupervisor<'_>,
    interrupts: &mut Interrupts,
) -> Result<ReadResult, CallError> {
    let mut told = Vec::new();
    let raw = match &invocation.action {
        Action::Process(_) if invocation.prints_result() => Raw::Output(&ended.stdout),
        Action::Process(process) => {
            let entry = process.python.as_ref().map(|python| python.entry);
            let function = entry.and_then(PythonEntry::function);
            handed_over(ended, function.unwrap_or("main"))?
        }
        Action::Container(_) => match worker_answer(ended)? {
            Some(value) => Raw::Value(value),
            None => Raw::Output(&ended.stdout),
        },
        Action::Mcp(_) => {
            let answer = worker_answer(ended)?
                .and_then(|value| serde_json::from_value::<McpResult>(value).ok());
            let outcome = answer.ok_or(CallError::NoResult { function: "work" })?;
            told = outcome.warnings;
            Raw::Value(outcome.value)
        }
        Action::Http(_) | Action::Meta(_) => {
            Raw::Value(worker_answer(ended)?.ok_or(CallError::NoResult { function: "work" })?)
        }
    };
    let read = settled(
        invocation,
        raw,
        machine,
        &mut Starter {
            supervisor,
            interrupts,
        },
    )?;
    told.extend(read.warnings);
    Ok(ReadResult {
        warnings: told,
        ..read
    })
}

/// The same for a value that the caller already has.
pub fn read_value(
    invocation: &Invocation,
    value: Value,
    machine: &Machine,
    supervisor: &NewSupervisor<'_>,
    interrupts: &mut Interrupts,
) -> Result<ReadResult, CallError> {
    settled(
        invocation,
        Raw::Value(value),
        machine,
        &mut Starter {
            supervisor,
            interrupts,
        },
    )
}

/// Runs the parser and checks the contract.
fn settled(
    invocation: &Invocation,
    raw: Raw<'_>,
    machine: &Machine,
    starter: &mut Starter<'_>,
) -> Result<ReadResult, CallError> {
    let mut warnings = Vec::new();
    let outputs = &invocation.outputs;
    let mut parse = |content: &str, name: &str| {
        let source = parser::ParserEnvironment {
            machine,
            environment: invocation.action.environment(),
            folders: super::parser_folders(invocation, machine.folders()),
        };
        parser::parse(name, content, source, starter, &mut warnings)
    };
    let parser = outputs.parser.as_deref();
    let value = match outputs.format.as_deref() {
        Some("file") => {
            let mut named = naming_a_file(raw)?;
            let file = contract::file(&named, &machine.root)?;
            named.insert("path".to_owned(), file.shown.clone().into());
            if let Some(name) = parser {
                named.insert("content".to_owned(), parse(&file.content()?, name)?);
            }
            Value::Object(named)
        }
        format => match (raw, parser) {
            (Raw::Output(output), Some(name)) => parse(&whole(output)?, name)?,
            (Raw::Value(Value::String(text)), Some(name)) => parse(&text, name)?,
            // The value is already structured, so there is nothing to parse.
            (Raw::Value(value), Some(_)) => value,
            (raw, None) => formatted(raw, format)?,
        },
    };
    if !outputs.ignore_success && value.get("success") == Some(&Value::Bool(false)) {
        return Err(CallError::Unsuccessful {
            reason: reason_of(&value),
        });
    }
    contract::check(&value, invocation, &machine.root, &mut warnings)?;
    Ok(ReadResult { value, warnings })
}

/// What a result says about its failure.
fn reason_of(value: &Value) -> Option<String> {
    let text = |key: &str| match value.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Object(error) => error.get("message")?.as_str().map(str::to_owned),
        _ => None,
    };
    ["error", "message", "stderr"]
        .into_iter()
        .find_map(|key| text(key).filter(|text| !text.trim().is_empty()))
}

/// The value from a worker; `None` when it returned nothing.
pub(super) fn worker_answer(ended: &Ended) -> Result<Option<Value>, CallError> {
    match worker::answer(ended).map_err(|bytes| CallError::TooLarge { bytes })? {
        Some(worker::WorkerAnswer::Ok(value)) => Ok(Some(value)),
        Some(worker::WorkerAnswer::Failed(failure)) => Err(CallError::Failed(failure)),
        None => Ok(None),
    }
}

/// The exception that ended a Python script, if there was one.
pub fn raised(ended: &Ended) -> Option<Raised> {
    match ScriptAnswer::read(ended.result.as_deref()?)? {
        ScriptAnswer::Error(raised) => Some(raised),
        ScriptAnswer::Ok(_) | ScriptAnswer::Exit(_) => None,
    }
}

/// The return value of a function, or its stdout if it returned nothing.
fn handed_over<'e>(ended: &'e Ended, function: &'static str) -> Result<Raw<'e>, CallError> {
    match answer(ended, function)? {
        ScriptAnswer::Ok(Value::Null) if ended.stdout.total > 0 => Ok(Raw::Output(&ended.stdout)),
        ScriptAnswer::Ok(value) => Ok(Raw::Value(value)),
        ScriptAnswer::Exit(_) => Ok(Raw::Output(&ended.stdout)),
        ScriptAnswer::Error(raised) => Err(CallError::Raised(raised)),
    }
}

/// The return value of a function only.
pub(in crate::exec) fn returned(ended: &Ended, function: &'static str) -> Result<Value, CallError> {
    match answer(ended, function)? {
        ScriptAnswer::Ok(value) => Ok(value),
        ScriptAnswer::Error(raised) => Err(CallError::Raised(raised)),
        ScriptAnswer::Exit(_) => Err(CallError::NoResult { function }),
    }
}

fn answer(ended: &Ended, function: &'static str) -> Result<ScriptAnswer, CallError> {
    if let Some(ResultFault::TooLarge(bytes)) = ended.result_fault {
        return Err(CallError::TooLarge { bytes });
    }
    ended
        .result
        .as_deref()
        .and_then(ScriptAnswer::read)
        .ok_or(CallError::NoResult { function })
}

fn formatted(raw: Raw<'_>, format: Option<&str>) -> Result<Value, CallError> {
    match (raw, format) {
        (Raw::Value(Value::String(text)), Some("text")) => Ok(json!({ "stdout": text })),
        (Raw::Value(value), Some("text")) => Err(contract::broken(format!(
            "`outputs.format` is `text`, and it returned {}",
            contract::kind_of(&value)
        ))),
        (Raw::Value(value), _) => Ok(value),
        (Raw::Output(output), Some("text")) => Ok(json!({ "stdout": output.text() })),
        (Raw::Output(output), Some("json")) => exact(&whole(output)?).map_err(|reason| {
            contract::broken(format!(
                "`outputs.format` is `json`, and stdout is not: {reason}"
            ))
        }),
        (Raw::Output(output), _) => {
            let text = output.text();
            // Truncated output may still be valid JSON and mean something else.
            let value = if output.is_truncated() {
                None
            } else {
                exact(&text).ok()
            };
            Ok(value.unwrap_or_else(|| json!({ "stdout": text })))
        }
    }
}

/// A result with the `path` of a file.
fn naming_a_file(raw: Raw<'_>) -> Result<Map<String, Value>, CallError> {
    let value = match raw {
        Raw::Value(value) => value,
        Raw::Output(output) => {
            let text = whole(output)?;
            match exact(&text) {
                Ok(value @ (Value::String(_) | Value::Object(_))) => value,
                _ => Value::String(text.trim_end_matches(['\n', '\r']).to_owned()),
            }
        }
    };
    match value {
        Value::String(path) => Ok(Map::from_iter([("path".to_owned(), Value::String(path))])),
        Value::Object(map) => Ok(map),
        other => {
            let kind = contract::kind_of(&other);
            Err(contract::broken(format!(
                "`outputs.format` is `file`, and the result is {kind}, not a path"
            )))
        }
    }
}

/// Parses JSON, but refuses integers over 64 bits, which would be rounded.
pub(in crate::exec) fn exact(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|err| err.to_string())?;
    let mut rest = text;
    while let Some(at) = rest
        .find(|character: char| character == '"' || character == '-' || character.is_ascii_digit())
    {
        rest = rest.get(at..).unwrap_or_default();
        let is_text = rest.starts_with('"');
        let end = if is_text {
            end_of_text(rest)
        } else {
            end_of_number(rest)
        };
        let (token, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let is_integer = !is_text && !token.contains(['.', 'e', 'E']);
        if is_integer && token.parse::<i64>().is_err() && token.parse::<u64>().is_err() {
            let shown: String = token.chars().take(60).collect();
            return Err(format!("the integer {shown} has more than 64 bits"));
        }
        rest = after;
    }
    Ok(value)
}

fn end_of_number(text: &str) -> usize {
    text.find(|character: char| !matches!(character, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
        .unwrap_or(text.len())
}

/// The position after the closing quote of a JSON string.
fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The complete output; an error when it was truncated.
fn whole(output: &Captured) -> Result<String, CallError> {
    if output.is_truncated() {
        let problem = format!(
            "stdout has {} bytes, which is too much to be read as a result",
            output.total
        );
        return Err(contract::broken(problem));
    }
    Ok(output.text())
}
