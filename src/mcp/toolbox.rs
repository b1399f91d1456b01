//! The definitions of the four tools: names, descriptions, schemas and hints.
//!
//! The output schemas require the fields that are always present and allow more. Some clients
//! validate all structured content against the output schema, including errors, so each schema also
//! allows the shape of a failure. `$schema` is left out: the protocol defaults to 2020-12, and some
//! clients refuse unknown values.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::execute::ACTIONS;

/// The tools, in the order in which an agent would use them.
pub(super) fn tools() -> Vec<Tool> {
    vec![search(), load(), execute(), help()]
}

fn tool(
    name: &'static str,
    words: &'static str,
    input: Value,
    output: Value,
    hints: ToolAnnotations,
) -> Tool {
    let object = |value: Value| match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    };
    let title = hints.title.clone();
    let tool = Tool::new(name, words, object(input))
        .with_raw_output_schema(object(output))
        .with_annotations(hints);
    match title {
        Some(title) => tool.with_title(title),
        None => tool,
    }
}

/// The output schema of a tool: the fields that are always present, or those of an error. In a
/// shortened answer only object fields can be missing.
fn output(properties: &Value, shapes: &[&[&str]]) -> Value {
    let mut properties = properties.clone();
    let shared = json!({
        "error": {"type": "string", "description": "The short, stable title of the error."},
        "code": {"type": "string", "description": "The stable code of the error."},
        "item_type": {"type": ["string", "null"]},
        "message": {"type": "string", "description": "What happened, for people."},
        "suggestion": {"type": ["string", "null"], "description": "How to fix the error."},
        "findings": {"type": "array", "items": {"type": "object"}, "description": "The findings in files, each with its place."},
        "truncated": {"type": "boolean", "description": "Whether parts were left out."},
        "left_out": {"type": "array", "items": {"type": "string"}, "description": "The fields that were shortened."},
        "full_size": {"type": "integer"},
        "full_output_path": {"type": "string", "description": "A file with all of it."},
        "full_output_lost": {"type": "string", "description": "Why there is no such file."},
    });
    if let (Value::Object(properties), Value::Object(shared)) = (&mut properties, shared) {
        for (name, schema) in shared {
            properties.entry(name).or_insert(schema);
        }
    }
    let mut any: Vec<Value> = shapes
        .iter()
        .map(|names| json!({"required": names}))
        .collect();
    any.push(json!({"required": ["error", "code", "message"]}));
    json!({"type": "object", "properties": properties, "additionalProperties": true, "anyOf": any})
}

fn item_type() -> Value {
    json!({
        "type": "string",
        "enum": ["tool", "directive", "knowledge", "script"],
        "description": "What kind of item; `script` is an old name of `tool`.",
    })
}

fn item_id() -> Value {
    json!({"type": "string", "maxLength": 128, "description": "The item: `id` or `category/id`."})
}

fn project_path() -> Value {
    json!({
        "type": "string",
        "description": "Absolute path of the project; the one that the server was started in, by default.",
    })
}

fn dry_run() -> Value {
    json!({"type": "boolean", "default": false, "description": "Shows what would be done and writes nothing."})
}

fn search() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "item_type": item_type(),
            "query": {"type": "string", "description": "Words to look for; empty lists everything."},
            "source": {
                "type": "string",
                "enum": ["local", "all"],
                "default": "local",
                "description": "`local` is the project and the user's own items; `all` adds built-in items.",
            },
            "limit": {"type": "integer", "minimum": 1, "default": 10},
            "sort_by": {"type": "string", "enum": ["score", "date", "name"], "default": "score"},
            "tool_type": {"type": "string", "description": "Only tools of this type, such as `python` or `bash`."},
            "category": {"type": "string", "description": "Only items of this category, or below it."},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Only items with all of these."},
            "dry_run": {"type": "boolean", "description": "No effect: searching only reads."},
            "project_path": project_path(),
        },
        "required": ["item_type", "query"],
        "additionalProperties": false,
    });
    let hit = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its id: `item_id` of `load` and `execute`."},
            "description": {"type": "string"},
            "source": {"type": "string", "enum": ["project", "user", "builtin"]},
            "path": {"type": "string"},
            "score": {"type": "number"},
            "tool_type": {"type": ["string", "null"]},
            "item_type": {"type": "string"},
            "category": {"type": "string"},
            "date": {"type": ["string", "null"]},
        },
        "required": ["name", "description", "source", "path", "score", "tool_type"],
    });
    let properties = json!({
        "results": {"type": "array", "items": hit},
        "total": {"type": "integer", "description": "How many there are without the limit."},
        "query": {"type": "string"},
        "source": {"type": "string"},
    });
    let output = output(&properties, &[&["results", "total", "query", "source"]]);
    let hints = ToolAnnotations::with_title("Find items")
        .read_only(true)
        .open_world(false);
    let words = "Finds tools, directives (workflows) and knowledge of a project by words. Start here before you write a \
                 script of your own. Then `load` a result to read it and see what it takes, or `execute` it.";
    tool("search", words, input, output, hints)
}

fn load() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "item_type": item_type(),
            "item_id": item_id(),
            "source": {
                "type": "string",
                "enum": ["project", "user", "builtin"],
                "description": "Where to look; everywhere, the project first, by default.",
            },
            "destination": {
                "type": "string",
                "enum": ["project"],
                "description": "Copy the item into the project, if the server allows writing items.",
            },
            "overwrite": {"type": "boolean", "default": false, "description": "Replace an existing item at the destination."},
            "dry_run": dry_run(),
            "project_path": project_path(),
        },
        "required": ["item_type", "item_id"],
        "additionalProperties": false,
    });
    let metadata = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "description": {"type": ["string", "null"]},
            "version": {},
            "tool_type": {"type": ["string", "null"]},
            "executor_id": {"type": ["string", "null"]},
            "category": {"type": ["string", "null"]},
        },
        "required": ["name"],
    });
    let properties = json!({
        "name": {"type": "string"},
        "path": {"type": "string", "description": "Its file; that of the copy, where one was made."},
        "content": {"type": "string"},
        "source": {"type": "string", "enum": ["project", "user", "builtin"]},
        "metadata": metadata,
        "input_schema": {"type": "object", "description": "What `execute` takes as `parameters`."},
        "output_schema": {"type": "object", "description": "What a tool returns as `result`."},
        "destination": {"type": "string"},
        "files": {"type": "array", "items": {"type": "string"}},
        "notes": {"type": "array", "items": {"type": "string"}},
        "run_id": {"type": "string", "description": "The run that wrote the copy; `execute` can undo it."},
    });
    let output = output(&properties, &[&["name", "path", "content", "source"]]);
    // With `destination` it writes a file, and with `overwrite` it replaces one.
    let hints = ToolAnnotations::with_title("Read or copy an item")
        .read_only(false)
        .destructive(true)
        .open_world(false);
    let words = "Reads an item: its text, and the schema of what it takes. Nothing is written unless `destination` is \
                 given, which copies it into the project. Then `execute` it with \
                 `parameters` that fit `input_schema`.";
    tool("load", words, input, output, hints)
}

fn execute() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "item_type": item_type(),
            "action": {
                "type": "string",
                "enum": ACTIONS,
                "default": "run",
                "description": "`run` runs a tool or directive and reads knowledge. About a run, with \
                    `parameters.run_id`: `continue` after you did what it waits for or it failed, `status`, `cancel`. What was done: \
                    `undo` (the newest operation), `redo`, `restore`. About the item itself: `validate`; if the person lets you write items: \
                    `sign`, `create`, `update`, `delete`.",
            },
            "item_id": item_id(),
            "parameters": {
                "type": "object",
                "description": "`run`: the parameters of the tool or the inputs of the directive (`load` shows their \
                    schema). `continue`: `run_id`, `result`; of a failed run `from` (a step) or `skip`. `undo`: `step`, `run_id` or `to` (a step). `redo`: `step`. \
                    `restore`: `step`, `paths`. `sign`: `location`, `category`. `validate`: `content` for a \
                    text that is not saved. `create`: `content` or `fields`, `tool_type`, `location`, `category`. \
                    `update`: `content` or `updates`. `delete`: `confirm`.",
            },
            "checkpoint": {
                "type": "string",
                "enum": ["auto", "explicit"],
                "description": "Whether changes are committed at once, or by the directive `git_checkpoint`.",
            },
            "ask": {"type": "boolean", "description": "Ask a person to approve changes before they are committed."},
            "atomic": {"type": "boolean", "description": "Of a directive: roll back the whole run if it fails."},
            "dry_run": dry_run(),
            "project_path": project_path(),
        },
        "required": ["item_type"],
        "additionalProperties": false,
    });
    let properties = json!({
        "tool_id": {"type": "string"},
        "item_id": {"type": "string"},
        "action": {"type": "string"},
        "status": {
            "type": ["string", "null"],
            "description": "`success`, `error`, `denied`, `waiting`, `cancelled`, `planned`, or what was done with an item: \
                `signed`, `created`, `updated`, `unchanged`, `deleted`.",
        },
        "result": {"description": "What the tool returned."},
        "execution_time_ms": {"type": "integer"},
        "output_path": {"type": ["string", "null"]},
        "run_id": {"type": ["string", "null"], "description": "The run: `continue`, `status`, `undo` take it."},
        "checkpoint": {"type": ["object", "null"], "description": "What became of the changes."},
        "instruction": {"type": ["string", "null"], "description": "What you have to do now, where `status` is `waiting`."},
        "message": {"type": ["string", "null"]},
        "signature": {"type": "string"},
        "hash": {"type": "string"},
        "valid": {"type": "boolean"},
        "content": {"type": "string"},
        "dry_run": {"type": "boolean"},
    });
    let output = output(&properties, &[&["status"]]);
    let hints = ToolAnnotations::with_title("Run and manage items")
        .read_only(false)
        .destructive(true)
        .open_world(true);
    let words = "Runs a tool or directive of the project with checkpoints, so that everything can be undone. A directive \
                 may stop with `status: \"waiting\"`: do what `instruction` says, then call `execute` again with `action: \
                 \"continue\"` and its `run_id`. After edits of your own, run the directive `git_checkpoint`. Also \
                 validates items, and writes them if the person lets you; what you wrote runs after they allowed it.";
    tool("execute", words, input, output, hints)
}

fn help() -> Tool {
    let topics: Vec<&str> = crate::item::topic::TOPICS
        .iter()
        .map(|topic| topic.name)
        .collect();
    let input = json!({
        "type": "object",
        "properties": {
            "topic": {"type": "string", "description": format!("One of {}.", topics.join(", "))},
            "dry_run": {"type": "boolean", "description": "No effect: help only reads."},
        },
        "additionalProperties": false,
    });
    let properties = json!({
        "help": {"type": "string"},
        "topic": {"type": "string"},
        "examples": {"type": "array"},
        "topics": {"type": "array", "items": {"type": "string"}},
    });
    let output = output(&properties, &[&["help", "topic", "examples"]]);
    let hints = ToolAnnotations::with_title("Read about piton")
        .read_only(true)
        .open_world(false);
    let words =
        "Explains piton by topic, with examples of calls. Without a topic: lists the topics.";
    tool("help", words, input, output, hints)
}
