//! The fixtures that are data: lists, and answers that are always the same.

use serde_json::{Value, json};

/// A red dot, as PNG.
pub(crate) const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// No sound, as WAV.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// Every tool, in the order in which they are listed.
pub(crate) fn tools() -> Value {
    let plain = [
        ("test_simple_text", "Answers with text"),
        ("test_image_content", "Answers with an image"),
        ("test_audio_content", "Answers with sound"),
        ("test_embedded_resource", "Answers with a resource"),
        (
            "test_multiple_content_types",
            "Answers with text, an image and a resource",
        ),
        ("test_error_handling", "Always fails"),
        (
            "test_tool_with_logging",
            "Writes log messages while it works",
        ),
        (
            "test_logging_tool",
            "Writes a log message if the request asks for it",
        ),
        ("test_tool_with_progress", "Reports progress while it works"),
        (
            "test_elicitation_sep1034_defaults",
            "Asks the user, with defaults",
        ),
        ("test_elicitation_sep1330_enums", "Asks the user to choose"),
        ("test_missing_capability", "Needs a client that samples"),
        (
            "test_streaming_elicitation",
            "Asks the user within its answer",
        ),
        (
            "test_trigger_tool_change",
            "Says that the tools have changed",
        ),
        (
            "test_trigger_prompt_change",
            "Says that the prompts have changed",
        ),
        ("test_input_required_result_elicitation", "Needs a name"),
        ("test_input_required_result_sampling", "Needs a sample"),
        ("test_input_required_result_list_roots", "Needs the roots"),
        (
            "test_input_required_result_request_state",
            "Needs a confirmation, and its state back",
        ),
        (
            "test_input_required_result_multiple_inputs",
            "Needs several things at once",
        ),
        (
            "test_input_required_result_multi_round",
            "Needs one thing after the other",
        ),
        (
            "test_input_required_result_tampered_state",
            "Notices a state that was changed",
        ),
        (
            "test_input_required_result_capabilities",
            "Asks only what the client can answer",
        ),
    ];
    let mut tools: Vec<Value> = plain
        .iter()
        .map(|(name, description)| {
            tool(
                name,
                description,
                &json!({ "type": "object", "properties": {} }),
            )
        })
        .collect();
    for (name, argument) in [("test_sampling", "prompt"), ("test_elicitation", "message")] {
        let schema = json!({
            "type": "object",
            "properties": { argument: { "type": "string" } },
            "required": [argument],
        });
        tools.push(tool(name, "Asks the client", &schema));
    }
    tools.push(tool(
        "test_header_argument",
        "Has an argument that is also sent as a header",
        &json!({
            "type": "object",
            "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
            "required": ["region"],
        }),
    ));
    tools.push(tool(
        "json_schema_2020_12_tool",
        "Has a schema of the newest kind",
        &newest_schema(),
    ));
    json!({ "tools": tools })
}

/// What a tool answers that always answers the same.
pub(crate) fn answer(tool: &str) -> Option<Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" });
    let resource = |uri: &str, kind: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } });
    Some(match tool {
        "test_simple_text" => {
            json!({ "content": [text("This is a simple text response for testing.")] })
        }
        "test_image_content" => json!({ "content": [image] }),
        "test_audio_content" => {
            json!({ "content": [{ "type": "audio", "data": AUDIO, "mimeType": "audio/wav" }] })
        }
        "test_embedded_resource" => {
            let content = "This is an embedded resource content.";
            json!({ "content": [resource("test://embedded-resource", "text/plain", content)] })
        }
        "test_multiple_content_types" => json!({ "content": [
            text("Multiple content types test:"),
            image,
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ] }),
        "test_error_handling" => json!({
            "content": [text("This tool intentionally returns an error for testing")],
            "isError": true,
        }),
        "test_header_argument" | "json_schema_2020_12_tool" => {
            json!({ "content": [text("It was called.")] })
        }
        _ => return None,
    })
}

/// Every resource.
pub(crate) fn resources() -> Value {
    json!({ "resources": [
        { "uri": "test://static-text", "name": "Text", "description": "Text that stays", "mimeType": "text/plain" },
        { "uri": "test://static-binary", "name": "Image", "description": "A red dot", "mimeType": "image/png" },
    ] })
}

/// The one template.
pub(crate) fn templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data",
        "name": "Data",
        "description": "Data with a number",
        "mimeType": "application/json",
    }] })
}

/// What a resource holds.
pub(crate) fn resource(uri: &str) -> Option<Value> {
    let content = match uri {
        "test://static-text" => {
            let text = "This is the content of the static text resource.";
            json!({ "uri": uri, "mimeType": "text/plain", "text": text })
        }
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": IMAGE }),
        _ => {
            let id = uri
                .strip_prefix("test://template/")?
                .strip_suffix("/data")?;
            let text =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": text.to_string() })
        }
    };
    Some(json!({ "contents": [content] }))
}

/// Every prompt.
pub(crate) fn prompts() -> Value {
    let argument =
        |name: &str| json!({ "name": name, "description": "An argument", "required": true });
    json!({ "prompts": [
        { "name": "test_simple_prompt", "description": "A prompt" },
        {
            "name": "test_prompt_with_arguments",
            "description": "A prompt with arguments",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A prompt with a resource",
            "arguments": [argument("resourceUri")],
        },
        { "name": "test_prompt_with_image", "description": "A prompt with an image" },
        { "name": "test_input_required_result_prompt", "description": "A prompt that needs to know more" },
    ] })
}

/// A prompt, filled in.
pub(crate) fn prompt(name: &str, arguments: &Value) -> Option<Value> {
    let argument = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let said = |content: Value| json!({ "role": "user", "content": content });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let messages = match name {
        "test_simple_prompt" => json!([said(text("This is a simple prompt for testing."))]),
        "test_prompt_with_arguments" => {
            let filled = format!(
                "Prompt with arguments: arg1='{}', arg2='{}'",
                argument("arg1"),
                argument("arg2")
            );
            json!([said(text(&filled))])
        }
        "test_prompt_with_embedded_resource" => {
            let content = "Embedded resource content for testing.";
            let held = json!({ "uri": argument("resourceUri"), "mimeType": "text/plain", "text": content });
            json!([
                said(json!({ "type": "resource", "resource": held })),
                said(text("Please process the embedded resource above.")),
            ])
        }
        "test_prompt_with_image" => json!([
            said(json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" })),
            said(text("Please analyze the image above.")),
        ]),
        _ => return None,
    };
    Some(json!({ "messages": messages }))
}

fn tool(name: &str, description: &str, schema: &Value) -> Value {
    json!({ "name": name, "description": description, "inputSchema": schema })
}

fn newest_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
