//! The helper of a meta tool: its input on each entry, and its reply.
//!
//! It gets the parameters, the results of all calls so far, and the command. It asks for more
//! calls, or returns the result.

use serde_json::{Map, Value};

use super::{CallError, Machine};
use crate::exec::invocation::{Invocation, Meta};
use crate::exec::javascript::{self, HELPER, PATIENCE};
use crate::exec::supervisor::{Ended, MARK, Work};
use crate::exec::worker::{FailureKind, WorkFailure, WorkerJob};
use crate::item::wording::{did_you_mean, nearest, shown};

/// The fields of a call that a helper may request.
const FIELDS: [&str; 3] = ["tool", "command", "args"];

#[derive(Clone, Debug, PartialEq)]
pub enum HelperReply {
    /// Call these tools in order.
    Calls(Vec<RequestedCall>),
    /// The helper is done.
    Result(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub struct RequestedCall {
    pub tool: String,
    /// For a tool with several commands.
    pub command: Option<String>,
    pub arguments: Map<String, Value>,
}

/// The work that enters the helper; `results` are those of the calls so far.
pub fn enter(meta: &Meta, invocation: &Invocation, results: &[Value], machine: &Machine) -> Work {
    let job = WorkerJob::JavaScript(javascript::JavaScriptJob {
        id: meta.helper.clone(),
        source: meta.source.clone(),
        given: vec![
            (
                "args".to_owned(),
                Value::Object(invocation.parameters.clone()),
            ),
            ("results".to_owned(), Value::Array(results.to_vec())),
            (
                "command".to_owned(),
                invocation
                    .command
                    .clone()
                    .map_or(Value::Null, Value::String),
            ),
        ],
        limit_ms: u64::try_from(HELPER.as_millis()).unwrap_or(u64::MAX),
        place: meta.place.clone(),
    });
    let mut work = Work {
        timeout: Some(HELPER + PATIENCE),
        ..job.work(&machine.program)
    };
    work.environment
        .insert(MARK.into(), machine.run.clone().into());
    work
}

/// Parses the helper's reply.
pub fn reply(meta: &Meta, ended: &Ended) -> Result<HelperReply, CallError> {
    if ended.timed_out {
        return Err(CallError::Failed(javascript::late(&meta.helper, HELPER)));
    }
    let value = super::result::worker_answer(ended)?.ok_or(CallError::NoResult {
        function: "the helper",
    })?;
    read(value).map_err(|reason| {
        let message = format!("the helper `{}` returned {reason}", meta.helper);
        let hint =
            "let it return `{ calls: [{ tool, command, args }] }`, or `{ result }` when it is done";
        CallError::Failed(WorkFailure::new(FailureKind::ScriptReturn, message).suggest(hint))
    })
}

fn read(value: Value) -> Result<HelperReply, String> {
    let Value::Object(mut said) = value else {
        return Err("a value that is not an object".to_owned());
    };
    if let Some(name) = said
        .keys()
        .find(|name| !["calls", "result"].contains(&name.as_str()))
    {
        let meant = did_you_mean(
            nearest(name, ["calls", "result"]),
            "known are `calls` and `result`",
        );
        return Err(format!("an object with a field `{}`: {meant}", shown(name)));
    }
    match (said.remove("calls"), said.remove("result")) {
        (Some(_), Some(_)) => Err("both `calls` and a `result`".to_owned()),
        (None, None) => Err("an object without `calls` and without a `result`".to_owned()),
        (None, Some(result)) => Ok(HelperReply::Result(result)),
        (Some(Value::Array(calls)), None) if calls.is_empty() => {
            Err("an empty list of `calls`".to_owned())
        }
        (Some(Value::Array(calls)), None) => calls
            .into_iter()
            .enumerate()
            .map(|(at, call)| asked(at, call))
            .collect::<Result<_, _>>()
            .map(HelperReply::Calls),
        (Some(_), None) => Err("`calls` that are not a list".to_owned()),
    }
}

fn asked(at: usize, call: Value) -> Result<RequestedCall, String> {
    let Value::Object(mut call) = call else {
        return Err(format!("`calls[{at}]`, which is not an object"));
    };
    if let Some(name) = call.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let meant = did_you_mean(
            nearest(name, FIELDS),
            "known are `tool`, `command` and `args`",
        );
        return Err(format!(
            "`calls[{at}]` with a field `{}`: {meant}",
            shown(name)
        ));
    }
    let Some(Value::String(tool)) = call.remove("tool") else {
        return Err(format!("`calls[{at}]` without the id of a `tool`"));
    };
    let command = match call.remove("command") {
        None | Some(Value::Null) => None,
        Some(Value::String(command)) => Some(command),
        Some(_) => return Err(format!("`calls[{at}]` with a `command` that is not text")),
    };
    let arguments = match call.remove("args") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(format!("`calls[{at}]` with `args` that are not an object")),
    };
    Ok(RequestedCall {
        tool,
        command,
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_helper_asks_for_calls_or_is_done() {
        assert_eq!(
            read(json!({"result": null})),
            Ok(HelperReply::Result(Value::Null))
        );
        let calls =
            json!({"calls": [{"tool": "a"}, {"tool": "c/b", "command": "x", "args": {"n": 1}}]});
        let Value::Object(arguments) = json!({"n": 1}) else {
            panic!("an object")
        };
        let first = RequestedCall {
            tool: "a".to_owned(),
            command: None,
            arguments: Map::new(),
        };
        let second = RequestedCall {
            tool: "c/b".to_owned(),
            command: Some("x".to_owned()),
            arguments,
        };
        assert_eq!(read(calls), Ok(HelperReply::Calls(vec![first, second])));
    }

    #[test]
    fn an_invalid_return_value_is_reported() {
        let wrong = |value| read(value).unwrap_err();
        assert_eq!(wrong(json!(7)), "a value that is not an object");
        assert_eq!(
            wrong(json!({})),
            "an object without `calls` and without a `result`"
        );
        assert_eq!(
            wrong(json!({"calls": [], "result": 1})),
            "both `calls` and a `result`"
        );
        assert_eq!(wrong(json!({"calls": []})), "an empty list of `calls`");
        assert_eq!(wrong(json!({"calls": {}})), "`calls` that are not a list");
        assert_eq!(
            wrong(json!({"call": []})),
            "an object with a field `call`: did you mean `calls`?"
        );
        assert_eq!(
            wrong(json!({"calls": [{"tool": "a"}, 1]})),
            "`calls[1]`, which is not an object"
        );
        assert_eq!(
            wrong(json!({"calls": [{"tool": 1}]})),
            "`calls[0]` without the id of a `tool`"
        );
        assert_eq!(
            wrong(json!({"calls": [{"tool": "a", "arg": {}}]})),
            "`calls[0]` with a field `arg`: did you mean `args`?"
        );
        assert_eq!(
            wrong(json!({"calls": [{"tool": "a", "args": []}]})),
            "`calls[0]` with `args` that are not an object"
        );
        assert_eq!(
            wrong(json!({"calls": [{"tool": "a", "command": 1}]})),
            "`calls[0]` with a `command` that is not text"
        );
    }
}
