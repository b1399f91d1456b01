//! The types a tool can have, and the words for them.

use super::ToolKind;

/// The documented types.
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

/// The kind a documented type stands for; `mcp` alone is a server.
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

/// The kind of a type that only files in the wild use, with the documented word for it.
pub(super) fn in_the_wild(written: &str) -> Option<(ToolKind, &'static str)> {
    Some(match written {
        "http" => (ToolKind::Api, "api"),
        "node" | "javascript" | "shell" => (ToolKind::Script, "script"),
        _ => return None,
    })
}

/// The kind of whatever is executed by a tool of this id.
pub(super) fn executed_by(executor: &str) -> Option<ToolKind> {
    match executor.rsplit('/').next().unwrap_or(executor) {
        "http_client" => Some(ToolKind::Api),
        "subprocess" => Some(ToolKind::Cli),
        "docker_runtime" => Some(ToolKind::Docker),
        name if name.ends_with("_runtime") => Some(ToolKind::Script),
        _ => None,
    }
}

/// Whether an id is one of the primitives.
pub(super) fn is_primitive(executor: &str) -> bool {
    matches!(executor.rsplit('/').next().unwrap_or(executor), "subprocess" | "http_client")
}

/// Whether the executor of a kind may be left out.
pub(super) fn executor_is_optional(kind: ToolKind) -> bool {
    matches!(kind, ToolKind::Primitive | ToolKind::Knowledge | ToolKind::Directive | ToolKind::Meta)
}

/// What an author most likely wants as executor of a kind.
pub(super) fn usual_executor(kind: Option<ToolKind>) -> &'static str {
    match kind {
        Some(ToolKind::Script) => "add `executor: python_runtime`, `bash_runtime` or `node_runtime`",
        Some(ToolKind::Api) => "add `executor: http_client`",
        Some(ToolKind::Docker) => "add `executor: docker_runtime`",
        Some(ToolKind::McpTool) => "add `executor:` with the id of an mcp_server",
        Some(ToolKind::McpServer) => "add `executor: subprocess` (stdio) or `executor: http_client` (url)",
        _ => "add `executor: subprocess`",
    }
}
