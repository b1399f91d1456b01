//! The spelling with an executor block: `executor: {type: python, entrypoint: main.py, …}`.
//!
//! The type of the block names a built-in executor. Fields about the tool as a whole move up;
//! everything else becomes the tool's config.

use crate::item::finding::Findings;
use crate::item::node::{Data, Node, NodeEntry};
use crate::problem::Code;

use super::ToolKind;
use super::draft::{offer, put_section, section};
use super::fields::wrong_type;
use crate::item::wording::{did_you_mean, nearest};

const TYPES: [&str; 6] = ["python", "bash", "node", "api", "docker", "mcp"];

/// Fields of the tool, not of its config.
const LIFTED: [&str; 8] = [
    "requires",
    "mutates_state",
    "dependencies",
    "timeout",
    "isolation",
    "writes",
    "caches",
    "permissions",
];

/// Other known fields of a block.
const SETTINGS: &[&str] = &[
    "entrypoint",
    "entry_point",
    "venv",
    "lib_imports",
    "shell",
    "args",
    "env",
    "cwd",
    "method",
    "endpoint",
    "url",
    "url_template",
    "headers",
    "auth",
    "body",
    "payload",
    "query",
    "params",
    "max_size",
    "response_transform",
    "retry",
    "retries",
    "allow_private",
    "image",
    "build_context",
    "dockerfile",
    "build_args",
    "working_dir",
    "workdir",
    "user",
    "memory",
    "limits",
    "volumes",
    "network",
    "command",
    "server",
    "server_id",
    "tool",
    "tool_name",
    "mcp_tool_name",
    "transport",
    "startup_timeout",
    "health_check",
    "interpreter",
    "legacy",
];

/// Replaces the executor block of a map; returns the kind of tool for its type.
pub(super) fn lower(map: &mut Node, findings: &mut Findings) -> Option<ToolKind> {
    let entry = map.take("executor")?;
    if entry.value.entries().is_none() {
        map.set("executor", entry.place, entry.value);
        return None;
    }
    let mut block = entry.value;
    let written = block.take("type");
    for key in LIFTED {
        if let Some(lifted) = block.take(key) {
            offer(map, lifted, &format!("executor.{key}"), findings);
        }
    }
    for unknown in block
        .entries()
        .unwrap_or_default()
        .iter()
        .filter(|entry| !SETTINGS.contains(&entry.key.as_str()))
    {
        let finding = findings.add(
            Code::UnknownField,
            unknown.place,
            format!("executor.{}", unknown.key),
            format!("an executor has no field `{}`", unknown.key.escape_debug()),
        );
        let meant = nearest(&unknown.key, SETTINGS.iter().copied().chain(LIFTED));
        finding.suggest(did_you_mean(meant, "remove it"));
    }
    let kind = match written {
        None => {
            findings
                .add(
                    Code::MissingRequiredField,
                    entry.place,
                    "executor.type",
                    "executor.type is required",
                )
                .suggest(format!("add one of {}", TYPES.join(", ")));
            None
        }
        Some(written) => {
            conflict(map, &written, findings);
            executor(map, &mut block, &written, findings)
        }
    };
    let mut config = section(map, "config");
    if config.entries().is_some_and(<[NodeEntry]>::is_empty) {
        config.place = entry.place;
    }
    if let Data::Map(settings) = block.data {
        for setting in settings {
            let written = format!("executor.{}", setting.key);
            offer(&mut config, setting, &written, findings);
        }
    }
    put_section(map, "config", config);
    kind
}

fn executor(
    map: &mut Node,
    block: &mut Node,
    written: &NodeEntry,
    findings: &mut Findings,
) -> Option<ToolKind> {
    let place = written.value.place;
    let Some(name) = written.value.as_text() else {
        wrong_type(&written.value, "executor.type", "a string", findings);
        return None;
    };
    let (id, kind) = match name {
        "python" => ("python_runtime", ToolKind::Script),
        "bash" => ("bash_runtime", ToolKind::Script),
        "node" => ("node_runtime", ToolKind::Script),
        "api" => ("http_client", ToolKind::Api),
        "docker" => ("docker_runtime", ToolKind::Docker),
        "mcp" => return Some(mcp(map, block, written)),
        other => {
            let finding = findings.add(
                Code::InvalidEnumValue,
                place,
                "executor.type",
                format!(
                    "executor type `{}` is not one of {}",
                    other.escape_debug(),
                    TYPES.join(", ")
                ),
            );
            let meant = match other {
                "http" | "rest" => Some("api"),
                "sh" | "shell" => Some("bash"),
                "javascript" | "nodejs" | "js" => Some("node"),
                _ => nearest(other, TYPES),
            };
            finding.suggest(did_you_mean(meant, "use one of these"));
            return None;
        }
    };
    map.set("executor", place, Node::text(id, place));
    Some(kind)
}

/// A block of type `mcp` names a server or describes one.
fn mcp(map: &mut Node, block: &mut Node, written: &NodeEntry) -> ToolKind {
    for alias in ["tool", "tool_name"] {
        if let Some(name) = block.take(alias)
            && block.find("mcp_tool_name").is_none()
        {
            block.set("mcp_tool_name", name.place, name.value);
        }
    }
    if let Some(server) = block.take("server").or_else(|| block.take("server_id")) {
        map.set("executor", server.place, server.value);
        return ToolKind::McpTool;
    }
    let place = written.value.place;
    let over_url = match block.find("transport").and_then(Node::as_text) {
        Some(transport) => transport != "stdio",
        None => block
            .find("url")
            .or_else(|| block.find("endpoint"))
            .is_some(),
    };
    map.set(
        "executor",
        place,
        Node::text(
            if over_url {
                "http_client"
            } else {
                "subprocess"
            },
            place,
        ),
    );
    ToolKind::McpServer
}

/// Reports a type of the tool that contradicts its block.
fn conflict(map: &Node, written: &NodeEntry, findings: &mut Findings) {
    let (Some(tool), Some(block)) = (
        map.find("tool_type").and_then(Node::as_text),
        written.value.as_text(),
    ) else {
        return;
    };
    let agrees = match block {
        "python" | "bash" | "node" => matches!(tool, "script" | "runtime") || tool == block,
        "api" => matches!(tool, "api" | "http"),
        "mcp" => matches!(tool, "mcp" | "mcp_tool" | "mcp_server"),
        other => tool == other,
    };
    if TYPES.contains(&block) && !agrees {
        findings
            .add(
                Code::ConflictingField,
                written.value.place,
                "executor.type",
                format!(
                    "executor type `{block}` does not fit tool_type `{}`",
                    tool.escape_debug()
                ),
            )
            .suggest("make them say the same");
    }
}
