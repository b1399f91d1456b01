//! What the first documents promise, to the letter: each test is one sentence of them that was once not kept.

mod authoring;
mod checks;
mod commands;
mod descriptions;
mod executors;
mod git_checkpoint;
mod invalid_items;
mod legacy_scripts;
mod node_packages;
mod runtimes;

use serde_json::{Value, json};

use crate::harness::{TestProject, cmd_snapshot};
use crate::mcp_client::{Era, McpClient};

/// A tool in the form of the API reference, with more lines at its top.
fn python_tool(more: &str, main: &str) -> String {
    format!(
        "__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"python_runtime\"\n\
         __category__ = \"\"\n{more}\n{main}"
    )
}

fn start(project: &TestProject) -> McpClient {
    let mut client = McpClient::start(project);
    client.initialize();
    client
}

/// Starts a server that lets agents write items.
fn start_authoring(project: &TestProject) -> McpClient {
    let mut client = McpClient::start_with(project, Era::Sessions, ["mcp", "--allow-authoring"]);
    client.initialize();
    client
}

/// The content of a call, and whether it is an error.
fn execute(client: &mut McpClient, arguments: Value) -> (Value, bool) {
    let result = client.call("execute", arguments);
    (
        result["structuredContent"].clone(),
        result["isError"] == true,
    )
}

fn run_tool(client: &mut McpClient, id: &str, parameters: &Value) -> (Value, bool) {
    execute(
        client,
        json!({"item_type": "tool", "action": "run", "item_id": id, "parameters": parameters}),
    )
}
