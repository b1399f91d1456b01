//! The types of tools.

use super::ToolKind;

pub(super) const NAMES: [&str; 15] = [
    "primitive",
    "runtime",
    "script",
    "python",
    "bash",
    "api",
    "mcp_server",
    "mcp_tool",
    "mcp",
    "docker",
    "cli",
    "local",
    "meta",
    "directive",
    "knowledge",
];

/// The types of the `tool:` spelling.
pub(super) const ROOT_NAMES: [&str; 4] = ["mcp", "cli", "local", "meta"];

/// The kind of a documented type; `mcp` alone is a server.
pub(super) fn of(written: &str) -> Option<ToolKind> {
    Some(match written {
        "primitive" => ToolKind::Primitive,
        "runtime" => ToolKind::Runtime,
        "script" | "python" | "bash" => ToolKind::Script,
        "api" => ToolKind::Api,
        "mcp_server" | "mcp" => ToolKind::McpServer,
        "mcp_tool" => ToolKind::McpTool,
        "docker" => ToolKind::Docker,
        "cli" => ToolKind::Cli,
        "local" => ToolKind::Local,
        "meta" => ToolKind::Meta,
        "directive" => ToolKind::Directive,
        "knowledge" => ToolKind::Knowledge,
        _ => return None,
    })
}

/// The kind of an undocumented type used by existing files, with the documented name.
pub(super) fn in_the_wild(written: &str) -> Option<(ToolKind, &'static str)> {
    Some(match written {
        "http" => (ToolKind::Api, "api"),
        "node" | "javascript" | "shell" => (ToolKind::Script, "script"),
        _ => return None,
    })
}

/// The kind of a tool with this executor.
pub(super) fn executed_by(executor: &str) -> Option<ToolKind> {
    match executor.rsplit('/').next().unwrap_or(executor) {
        "http_client" => Some(ToolKind::Api),
        "subprocess" => Some(ToolKind::Cli),
        "docker_runtime" => Some(ToolKind::Docker),
        name if name.ends_with("_runtime") => Some(ToolKind::Script),
        _ => None,
    }
}

pub(super) fn is_primitive(executor: &str) -> bool {
    matches!(
        executor.rsplit('/').next().unwrap_or(executor),
        "subprocess" | "http_client"
    )
}

pub(super) fn executor_is_optional(kind: ToolKind) -> bool {
    matches!(
        kind,
        ToolKind::Primitive | ToolKind::Knowledge | ToolKind::Directive | ToolKind::Meta
    )
}

/// The suggestion for a missing executor.
pub(super) fn usual_executor(kind: Option<ToolKind>) -> &'static str {
    match kind {
        Some(ToolKind::Script) => {
            "add `executor: python_runtime`, `bash_runtime` or `node_runtime`"
        }
        Some(ToolKind::Api) => "add `executor: http_client`",
        Some(ToolKind::Docker) => "add `executor: docker_runtime`",
        Some(ToolKind::McpTool) => "add `executor:` with the id of an mcp_server",
        Some(ToolKind::McpServer) => {
            "add `executor: subprocess` (stdio) or `executor: http_client` (url)"
        }
        _ => "add `executor: subprocess`",
    }
}
