//! Parses a line as a message, and describes what is wrong with it.

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, RequestId};
use serde_json::{Value, json};

use super::scan::IdScan;

/// Why a line is not a message.
#[derive(Debug, PartialEq)]
pub(super) enum Wrong {
    /// The line needs no answer.
    Ignored,
    /// The line must be answered.
    Answered(TransportError),
}

/// An error answer that comes from the transport, not from a handler.
#[derive(Debug, PartialEq)]
pub(super) struct TransportError {
    code: ErrorCode,
    message: String,
    /// The id of the request, if known; otherwise null.
    id: Value,
}

impl TransportError {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>, id: Option<&RequestId>) -> Self {
        let id = id
            .and_then(|id| serde_json::to_value(id).ok())
            .unwrap_or(Value::Null);
        Self {
            code,
            message: message.into(),
            id,
        }
    }

    pub(super) fn to_line(&self) -> Vec<u8> {
        let error = json!({ "code": self.code, "message": self.message });
        json!({ "jsonrpc": "2.0", "id": self.id, "error": error })
            .to_string()
            .into_bytes()
    }
}

pub(super) fn read(line: &[u8]) -> Result<ClientJsonRpcMessage, Wrong> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return Err(Wrong::Ignored);
    }
    // Valid messages are parsed once; only invalid ones need a closer look.
    serde_json::from_slice(line).map_err(|_| wrong(line))
}

fn wrong(line: &[u8]) -> Wrong {
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value,
        Err(err) if err.to_string().starts_with("recursion limit exceeded") => {
            let mut scan = IdScan::default();
            scan.read(line);
            let message = "the message is nested too deeply";
            return Wrong::Answered(TransportError::new(
                ErrorCode::INVALID_REQUEST,
                message,
                scan.id().as_ref(),
            ));
        }
        Err(err) => {
            let message = format!("the line is not JSON: {err}");
            return Wrong::Answered(TransportError::new(ErrorCode::PARSE_ERROR, message, None));
        }
    };
    let Value::Object(mut message) = value else {
        let what = match value {
            Value::Array(_) => "batches are not supported: send one message a line",
            _ => "the line is not a JSON-RPC message: an object is expected",
        };
        return Wrong::Answered(TransportError::new(ErrorCode::INVALID_REQUEST, what, None));
    };
    // A notification has no answer, and answering an error with an error could go on for ever.
    let is_notification = message.contains_key("method") && !message.contains_key("id");
    if is_notification || message.contains_key("error") {
        return Wrong::Ignored;
    }
    let is_request = message.contains_key("method");
    let id = message
        .remove("id")
        .filter(|id| is_request && (id.is_string() || id.is_number()))
        .unwrap_or(Value::Null);
    let has_id = id.is_string() || id.is_i64();
    let (code, what) = match (
        message.get("jsonrpc").and_then(Value::as_str),
        message.get("method"),
    ) {
        (Some("2.0"), Some(Value::String(_))) if has_id => (
            ErrorCode::INVALID_PARAMS,
            "the parameters of the request do not have its shape: `params` is an object",
        ),
        (Some("2.0"), _) => (
            ErrorCode::INVALID_REQUEST,
            "the line is not a JSON-RPC request: `id` is a string or a whole number, `method` a string",
        ),
        _ => (
            ErrorCode::INVALID_REQUEST,
            "the line is not a JSON-RPC 2.0 message: `jsonrpc` must be \"2.0\"",
        ),
    };
    Wrong::Answered(TransportError {
        code,
        message: what.to_owned(),
        id,
    })
}
