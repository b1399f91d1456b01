//! Turns the result of a server's tool into ours.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::exec::call::exact;
use crate::exec::worker::{FailureKind, WorkFailure};
use crate::item::wording::one_line;

/// The longest text of a server that a message quotes.
pub(super) const LONGEST_TEXT: usize = 1000;

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::exec) struct McpResult {
    pub(in crate::exec) value: Value,
    pub(in crate::exec) warnings: Vec<String>,
}

/// The structured content, else the JSON in its only text, else that text, else all parts.
pub(super) fn value(mut result: Value) -> Result<Value, WorkFailure> {
    let is_error = result
        .get("isError")
        .and_then(Value::as_bool)
        .unwrap_or_default();
    let content = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(content)) => content,
        _ => Vec::new(),
    };
    if is_error {
        return Err(failure(&content));
    }
    if let Some(structured) = result.get_mut("structuredContent").map(Value::take) {
        return Ok(structured);
    }
    if let [only] = content.as_slice()
        && let Some(text) = text_of(only)
    {
        return Ok(exact(text).unwrap_or_else(|_| json!({ "text": text })));
    }
    Ok(json!({ "content": content }))
}

/// The tools of a server in the form of our manifests.
pub(super) fn listed(tools: &[Value]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let mut listed = Map::new();
            for (key, name) in [
                ("name", "name"),
                ("title", "title"),
                ("description", "description"),
                ("inputSchema", "input_schema"),
                ("outputSchema", "output_schema"),
            ] {
                if let Some(value) = tool.get(key) {
                    listed.insert(name.to_owned(), value.clone());
                }
            }
            Value::Object(listed)
        })
        .collect();
    json!({ "tools": tools })
}

fn text_of(block: &Value) -> Option<&str> {
    block
        .get("text")
        .filter(|_| block.get("type").and_then(Value::as_str) == Some("text"))?
        .as_str()
}

fn failure(content: &[Value]) -> WorkFailure {
    let texts: Vec<&str> = content.iter().filter_map(text_of).collect();
    let message = match one_line(&texts.join("\n"), LONGEST_TEXT).as_str() {
        "" => "the tool reported a failure without a reason".to_owned(),
        text => format!("the tool reported a failure: {text}"),
    };
    WorkFailure::new(FailureKind::McpTool, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        json!({ "type": "text", "text": text })
    }

    #[test]
    fn a_result_is_what_has_the_most_form() {
        let structured =
            json!({ "content": [text("{\"a\": 1}")], "structuredContent": { "b": 2 } });
        assert_eq!(value(structured), Ok(json!({ "b": 2 })));
        assert_eq!(
            value(json!({ "content": [text("{\"a\": 1}")] })),
            Ok(json!({ "a": 1 }))
        );
        assert_eq!(
            value(json!({ "content": [text("Echo: hi")] })),
            Ok(json!({ "text": "Echo: hi" }))
        );
        let two = json!([text("{}"), { "type": "image", "data": "x", "mimeType": "image/png" }]);
        assert_eq!(
            value(json!({ "content": two })),
            Ok(json!({ "content": two }))
        );
        assert_eq!(
            value(json!({ "content": [] })),
            Ok(json!({ "content": [] }))
        );
        assert_eq!(
            value(json!({ "content": [], "structuredContent": null })),
            Ok(Value::Null)
        );
    }

    #[test]
    fn a_number_that_would_lose_digits_stays_a_text() {
        let long = "12345678901234567890123";
        assert_eq!(
            value(json!({ "content": [text(long)] })),
            Ok(json!({ "text": long }))
        );
    }

    #[test]
    fn an_error_is_reported_in_its_own_words() {
        let message = |content: Value| {
            value(json!({ "content": content, "isError": true }))
                .expect_err("an error")
                .message
        };
        assert_eq!(
            message(json!([text("no such file"), text("at all")])),
            "the tool reported a failure: no such file at all"
        );
        assert_eq!(
            message(json!([])),
            "the tool reported a failure without a reason"
        );
    }
}
