//! The four tools as clients see them: names, words, schemas and hints.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

/// The tools, in the order in which an agent would use them.
pub(super) fn tools() -> Vec<Tool> {
    vec![search(), load(), execute(), help()]
}

fn tool(name: &'static str, words: &'static str, input: Value, output: Value, hints: ToolAnnotations) -> Tool {
    let object = |value: Value| match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    };
    Tool::new(name, words, object(input)).with_raw_output_schema(object(output)).with_annotations(hints)
}

/// Whatever a tool returns, or why it could not.
fn open_object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": true})
}

fn item_type() -> Value {
    json!({"type": "string", "enum": ["tool", "directive", "knowledge", "script"], "description": "What kind of item; `script` is an old name of `tool`."})
}

fn project_path() -> Value {
    json!({"type": "string", "description": "Absolute path of the project; the one that the server was started in, by default."})
}

fn search() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "item_type": item_type(),
            "query": {"type": "string", "description": "Words to look for; empty lists everything."},
            "source": {"type": "string", "enum": ["local", "all"], "default": "local", "description": "`all` adds what is built in."},
            "limit": {"type": "integer", "minimum": 1, "default": 10},
            "sort_by": {"type": "string", "enum": ["score", "date", "name"], "default": "score"},
            "tool_type": {"type": "string"},
            "category": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "project_path": project_path(),
        },
        "required": ["item_type", "query"],
    });
    let output = open_object(json!({
        "results": {"type": "array", "items": {"type": "object"}},
        "total": {"type": "integer"},
        "query": {"type": "string"},
        "source": {"type": "string"},
    }));
    let hints = ToolAnnotations::with_title("Find items").read_only(true).open_world(false);
    tool("search", "Finds tools, directives and knowledge of a project by words.", input, output, hints)
}

fn load() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "item_type": item_type(),
            "item_id": {"type": "string", "description": "The item: `id` or `category/id`."},
            "source": {"type": "string", "enum": ["project", "user", "builtin"]},
            "destination": {"type": "string", "enum": ["project", "user"], "description": "Copies the item there."},
            "overwrite": {"type": "boolean", "default": false},
            "dry_run": {"type": "boolean", "default": false},
            "project_path": project_path(),
        },
        "required": ["item_type", "item_id"],
    });
    let output = open_object(json!({
        "name": {"type": "string"},
        "path": {"type": "string"},
        "content": {"type": "string"},
        "source": {"type": "string"},
        "metadata": {"type": "object"},
    }));
    // With a destination it writes a file.
    let hints =
        ToolAnnotations::with_title("Read or copy an item").read_only(false).destructive(false).open_world(false);
    tool(
        "load",
        "Reads an item, with its schemas; with `destination` copies it between project and user.",
        input,
        output,
        hints,
    )
}

fn execute() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "item_type": item_type(),
            "action": {
                "type": "string",
                "enum": ["run", "continue", "status", "cancel", "undo", "sign", "validate", "create", "update", "delete"],
                "default": "run",
            },
            "item_id": {"type": "string", "description": "The item: `id` or `category/id`."},
            "parameters": {"type": "object", "description": "Parameters of the tool, inputs of the directive, or of the action."},
            "checkpoint": {"type": "string", "enum": ["auto", "explicit"], "description": "When changes are committed."},
            "ask": {"type": "boolean", "description": "Lets a person decide about changes before they are committed."},
            "dry_run": {"type": "boolean", "default": false},
            "project_path": project_path(),
        },
        "required": ["item_type"],
    });
    let output = open_object(json!({"status": {"type": "string"}, "run_id": {"type": ["string", "null"]}}));
    let hints = ToolAnnotations::with_title("Run and manage items").read_only(false).destructive(true).open_world(true);
    tool(
        "execute",
        "Runs a tool or a directive with checkpoints; leads through a directive step by step (`continue`); signs, validates, creates, updates and deletes items.",
        input,
        output,
        hints,
    )
}

fn help() -> Tool {
    let input = json!({"type": "object", "properties": {"topic": {"type": "string"}}});
    let output = open_object(json!({
        "help": {"type": "string"},
        "topic": {"type": "string"},
        "examples": {"type": "array", "items": {"type": "string"}},
    }));
    let hints = ToolAnnotations::with_title("Read about piton").read_only(true).open_world(false);
    tool("help", "Explains piton, topic by topic.", input, output, hints)
}
