//! Rules per kind of tool.
//!
//! One function per kind, with the messages of the design where it has them. Chain resolution
//! checks which executor may run which tool.

mod api;
pub(super) mod entrypoint;
mod requirement;
mod shapes;

use std::path::{Component, Path};

use serde_json::Value;

use super::{place_of, required, schema};
use crate::item::finding::Findings;
use crate::item::node::{Data, Node};
use crate::item::position::Position;
use crate::item::tool::{LoadedTool, Spelling, ToolKind};
use crate::item::wording::shown;
use crate::problem::Code;

const TRANSPORTS: [&str; 5] = ["stdio", "sse", "websocket", "http", "streamable_http"];

pub(super) fn check(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    match tool.manifest.kind {
        ToolKind::Script => script(tool, project, findings),
        ToolKind::Api => api::check(tool, findings),
        ToolKind::McpServer => mcp_server(tool, findings),
        ToolKind::McpTool => mcp_tool(tool, findings),
        ToolKind::Runtime => runtime(tool, findings),
        ToolKind::Docker => docker(tool, project, findings),
        ToolKind::Cli => cli(tool, findings),
        ToolKind::Local => local(tool, findings),
        ToolKind::Directive | ToolKind::Knowledge => shapes::document(tool, project, findings),
        ToolKind::Primitive | ToolKind::Meta => {}
    }
    shapes::settings(tool, findings);
    only_described(tool, findings);
    requirement::check(tool, project, findings);
    caches(tool, findings);
    schemas(tool, project, findings);
}

/// Only local processes can have caches.
fn caches(tool: &LoadedTool, findings: &mut Findings) {
    let what = match tool.manifest.kind {
        ToolKind::Api => "an HTTP call",
        ToolKind::Docker => "a container",
        ToolKind::Meta => "a meta tool",
        ToolKind::Primitive | ToolKind::Directive | ToolKind::Knowledge => "an item of this kind",
        ToolKind::Runtime
        | ToolKind::Script
        | ToolKind::McpServer
        | ToolKind::McpTool
        | ToolKind::Cli
        | ToolKind::Local => return,
    };
    if tool.manifest.caches.is_empty() {
        return;
    }
    let finding = findings.add(
        Code::UnknownField,
        place_of(&tool.node, "caches"),
        "caches",
        format!("{what} has no caches"),
    );
    finding.suggest(if tool.manifest.kind == ToolKind::Docker {
        "mount a folder of the project with `config.volumes`"
    } else {
        "remove `caches`"
    });
}

fn script(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    match tool.manifest.config.get("entrypoint") {
        Some(Value::String(_)) => {
            entrypoint::find_entrypoint(tool, findings);
        }
        Some(_) => {
            let place = place_of(&tool.node, "config.entrypoint");
            findings
                .add(
                    Code::InvalidType,
                    place,
                    "config.entrypoint",
                    "config.entrypoint must be a string",
                )
                .suggest("name the file to run: `entrypoint: main.py`");
        }
        None => {
            findings
                .add(
                    Code::MissingRequiredField,
                    place_of(&tool.node, "config"),
                    "config.entrypoint",
                    "Script tools must specify config.entrypoint",
                )
                .suggest("name the file to run: `config: {entrypoint: main.py}`");
        }
    }
    entrypoint::lib_imports(tool, project, findings);
}

fn mcp_server(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    match text("transport") {
        // Schema 1.0 files often name no server at all; running one reports that.
        None if tool.spelling == Spelling::ToolRoot => {}
        None => required(
            tool,
            "config.transport",
            "MCP servers must specify config.transport",
            findings,
        ),
        Some("stdio") if text("command").is_none() => {
            required(
                tool,
                "config.command",
                "stdio transport requires config.command",
                findings,
            );
        }
        Some("stdio") => {}
        Some(transport) if TRANSPORTS.contains(&transport) => {
            if text("url").is_none() {
                required(
                    tool,
                    "config.url",
                    &format!("{transport} transport requires config.url"),
                    findings,
                );
            }
        }
        Some(transport) => {
            let place = place_of(&tool.node, "config.transport");
            findings
                .add(
                    Code::InvalidEnumValue,
                    place,
                    "config.transport",
                    format!("Invalid transport: {transport}"),
                )
                .suggest("use one of stdio, sse, websocket, http");
        }
    }
}

fn mcp_tool(tool: &LoadedTool, findings: &mut Findings) {
    if tool
        .manifest
        .config
        .get("mcp_tool_name")
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        required(
            tool,
            "config.mcp_tool_name",
            "MCP tools must specify config.mcp_tool_name",
            findings,
        );
    }
}

fn runtime(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    // A runtime that stands in for a built-in one starts the same program.
    let stands_in = ["python_runtime", "bash_runtime", "node_runtime"]
        .contains(&tool.manifest.tool_id.as_str());
    if !config.contains_key("command") && !config.contains_key("url") && !stands_in {
        required(
            tool,
            "config.command",
            "Runtimes must specify config.command or config.url",
            findings,
        );
    }
}

fn docker(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let config = &tool.manifest.config;
    if !config.contains_key("image") && !config.contains_key("build_context") {
        required(
            tool,
            "config.image",
            "Docker tools must specify config.image or config.build_context",
            findings,
        );
    }
    if let Some(context) = config.get("build_context").and_then(Value::as_str)
        && !is_inside(context)
    {
        let place = place_of(&tool.node, "config.build_context");
        let message = format!("build context '{context}' leaves the tool's folder");
        findings
            .add(Code::PathEscape, place, "config.build_context", message)
            .suggest("keep what is built beside the manifest, e.g. `build_context: .`");
    }
    let volumes = tool
        .node
        .find("config")
        .and_then(|config| config.find("volumes"))
        .and_then(Node::elements);
    for (at, volume) in volumes.unwrap_or_default().iter().enumerate() {
        let path = format!("config.volumes[{at}]");
        let source = match &volume.data {
            Data::Text(text) => text.split(':').next().map(str::to_owned),
            _ => volume
                .find("source")
                .and_then(Node::as_text)
                .map(str::to_owned),
        };
        let Some(source) = source else {
            findings
                .add(
                    Code::MissingRequiredField,
                    volume.place,
                    path,
                    "a volume needs a source and a target",
                )
                .suggest("write `data:/data`, or a mapping with `source` and `target`");
            continue;
        };
        let absolute_inside = project.is_some_and(|root| Path::new(&source).starts_with(root));
        if !is_inside(&source) && !absolute_inside {
            findings
                .add(
                    Code::PathEscape,
                    volume.place,
                    path,
                    format!("volume '{source}' lies outside the project"),
                )
                .suggest("mount folders of the project only, by a relative path");
        }
    }
}

/// Warns about a tool of schema 1.0 that does not say what to run: it describes something, and is valid.
fn only_described(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    let (section, example) = match tool.manifest.kind {
        ToolKind::Cli => ("cli_specific", "cli_specific: {executable: NAME}"),
        ToolKind::Local if config.contains_key("entrypoint") => {
            ("local_specific.runtime", "runtime: python")
        }
        ToolKind::Local => (
            "local_specific",
            "local_specific: {entry_point: FILE, runtime: python}",
        ),
        ToolKind::McpServer => ("mcp_specific", "mcp_specific: {server_command: COMMAND}"),
        _ => return,
    };
    if tool.spelling != Spelling::ToolRoot || tool.manifest.executor.is_some() {
        return;
    }
    let path = format!("tool.{section}");
    findings
        .add(
            Code::MissingRecommendedField,
            place_of(&tool.node, "config"),
            path,
            format!("{section} is missing, so the tool cannot be called"),
        )
        .suggest(format!("say what to run: `{example}`"));
}

fn cli(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    let named = config.contains_key("executable") || config.contains_key("command");
    if !named && tool.spelling != Spelling::ToolRoot {
        required(
            tool,
            "config.command",
            "CLI tools must specify config.executable or config.command",
            findings,
        );
    }
}

fn local(tool: &LoadedTool, findings: &mut Findings) {
    if tool.manifest.config.contains_key("entrypoint") {
        entrypoint::find_entrypoint(tool, findings);
    }
}

fn schemas(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let input = if tool.node.find("inputs").is_some() {
        "inputs"
    } else {
        "parameters"
    };
    let list = tool.node.find(input).and_then(Node::elements);
    let locate = |pointer: &str| match list.and_then(|list| in_list(list, input, pointer)) {
        Some(found) => found,
        None => schema::locate(&tool.node, input, pointer),
    };
    schema::report(&tool.manifest.input_schema, locate, findings);
    if let Some(output) = &tool.manifest.output_schema {
        let inline = tool
            .node
            .find("outputs")
            .and_then(|outputs| outputs.find("schema"))
            .and_then(Node::entries);
        let base = if inline.is_some() {
            "outputs.schema"
        } else {
            "outputs"
        };
        schema::report(
            output,
            |pointer| schema::locate(&tool.node, base, pointer),
            findings,
        );
    }
    if let (Some(name), Some(project)) = (&tool.manifest.outputs.schema, project)
        && !schema::exists(project, name)
    {
        let place = place_of(&tool.node, "outputs.schema");
        findings
            .add(
                Code::UnknownSchema,
                place,
                "outputs.schema",
                format!("schema '{}' does not exist", shown(name)),
            )
            .suggest(format!(
                "create `.ai/schemas/{}.json`, or write the schema in its place",
                shown(name)
            ));
    }
}

/// Maps a pointer into the schema back to the list of parameters it was made from.
fn in_list(list: &[Node], base: &str, pointer: &str) -> Option<(String, Position)> {
    let (name, rest) = pointer
        .strip_prefix("/properties/")
        .map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    let at = list
        .iter()
        .position(|element| element.find("name").and_then(Node::as_text) == Some(name))?;
    let field = if rest.is_empty() {
        String::new()
    } else {
        format!(".{}", rest.replace('/', "."))
    };
    let place = place_of(list.get(at)?, &field);
    Some((format!("{base}[{at}]{field}"), place))
}

/// A relative path that stays in its folder, without control characters.
fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.chars().any(char::is_control)
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_a_folder_are_relative_and_plain() {
        for good in ["main.py", "./main.py", "lib/x.py"] {
            assert!(is_inside(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a\0b", "a\nb"] {
            assert!(!is_inside(bad), "{bad}");
        }
    }
}
