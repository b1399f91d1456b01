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
        // RYE's `rye/core/runtimes/python/function`.
        _ if executor
            .split('/')
            .rev()
            .skip(1)
            .any(|part| part == "runtimes") =>
        {
            Some(ToolKind::Script)
        }
        _ => None,
    }
}

/// The built-in item for an executor of another program, e.g. `rye/core/primitives/subprocess`.
pub fn stand_in(executor: &str) -> Option<&'static str> {
    let mut parts = executor.rsplit('/');
    let name = parts.next().unwrap_or(executor);
    let folder = parts.next();
    if !executor.contains('/') && !name.ends_with("_runtime") {
        return None;
    }
    Some(match (name, folder) {
        ("subprocess", _) => "subprocess",
        ("http_client", _) => "http_client",
        ("python_runtime" | "python_script_runtime" | "python_function_runtime", _)
        | ("script" | "function" | "python", Some("python" | "runtimes")) => "python_runtime",
        ("bash_runtime" | "shell_runtime", _) | ("bash", Some("bash" | "runtimes")) => {
            "bash_runtime"
        }
        ("node_runtime" | "javascript_runtime" | "node_script_runtime", _)
        | ("node", Some("node" | "runtimes")) => "node_runtime",
        ("docker_runtime", _) => "docker_runtime",
        _ => return None,
    })
}

/// The documented type for what an executor makes of a tool.
pub(super) fn name_of(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Api => "api",
        ToolKind::Cli => "cli",
        ToolKind::Docker => "docker",
        _ => "script",
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
