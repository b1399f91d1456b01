//! The spelling with a `tool:` root, schema 1.0 and 2.0.
//!
//! `id` and `type` get their canonical names, and the `*_specific` section of the tool's type
//! becomes its config, which determines the executor. The sections of schema 2.0 are kept and
//! validated elsewhere.

use crate::item::finding::{Findings, Severity, Strength};
use crate::item::node::{Data, Node, NodeEntry};
use crate::item::wording::{did_you_mean, nearest};
use crate::problem::Code;

use super::Spelling;
use super::draft::{ToolDraft, offer, put_section, section};
use super::fields::wrong_type;

const SECTIONS: [(&str, &str); 4] = [
    ("mcp", "mcp_specific"),
    ("cli", "cli_specific"),
    ("local", "local_specific"),
    ("meta", "meta_specific"),
];

/// The runtimes of local tools, by their usual names.
const RUNTIMES: [&str; 3] = ["python", "node", "bash"];

/// Whether a document has this spelling, with or without its root.
pub(super) fn is_spelled(map: &Node) -> bool {
    if map.find("tool_id").is_some() || map.find("tool_type").is_some() {
        return false;
    }
    map.find_entry("tool").is_some() || (map.find("id").is_some() && map.find("type").is_some())
}

pub(super) fn lower(mut document: Node, findings: &mut Findings) -> ToolDraft {
    let mut map = if let Some(root) = document.take("tool") {
        for entry in document.entries().unwrap_or_default() {
            findings
                .add(
                    Code::UnknownField,
                    entry.place,
                    entry.key.clone(),
                    format!(
                        "`{}` is beside the `tool:` root, which must be the only one",
                        entry.key.escape_debug()
                    ),
                )
                .suggest("move it below `tool:`");
        }
        if root.value.entries().is_none() {
            wrong_type(&root.value, "tool", "a mapping", findings);
            Node::map(Vec::new(), root.place)
        } else {
            root.value
        }
    } else {
        // An existing resolver accepts a document without its root; the specification does not.
        let severity = if findings.strength() == Strength::Strict {
            Severity::Error
        } else {
            Severity::Warning
        };
        findings
            .add(
                Code::MissingRequiredField,
                document.place,
                "tool",
                "the document has no `tool:` root",
            )
            .with_severity(severity)
            .suggest("put everything below `tool:`");
        document
    };
    for (written, key) in [("id", "tool_id"), ("type", "tool_type")] {
        if let Some(entry) = map.take(written) {
            map.set(key, entry.place, entry.value);
        }
    }
    // Existing files describe the tools of a server where the specification only names commands.
    if map.find("commands").is_none()
        && let Some(mut tools) = map.take("tools")
    {
        if let Data::List(elements) = &mut tools.value.data {
            for element in elements {
                if let Some(name) = element.find("id").or_else(|| element.find("name")) {
                    *element = name.clone();
                }
            }
        }
        map.set("commands", tools.place, tools.value);
    }
    lower_sections(&mut map, findings);
    ToolDraft::new(map, Spelling::ToolRoot)
}

fn lower_sections(map: &mut Node, findings: &mut Findings) {
    let tool_type = map
        .find("tool_type")
        .and_then(Node::as_text)
        .unwrap_or_default()
        .to_owned();
    let mut config = section(map, "config");
    if let Some(entry) = map.take("health_check") {
        offer(&mut config, entry, "tool.health_check", findings);
    }
    for (owner, name) in SECTIONS {
        let Some(entry) = map.take(name) else {
            continue;
        };
        let path = format!("tool.{name}");
        if owner != tool_type && !tool_type.is_empty() {
            findings
                .add(
                    Code::ConflictingField,
                    entry.place,
                    path,
                    format!(
                        "{name} has no effect on a tool of type `{}`",
                        tool_type.escape_debug()
                    ),
                )
                .suggest(format!("remove it, or write `type: {owner}`"));
            continue;
        }
        let Data::Map(settings) = entry.value.data else {
            if !entry.value.is_null() {
                wrong_type(&entry.value, &path, "a mapping", findings);
            }
            continue;
        };
        if config.entries().is_some_and(<[NodeEntry]>::is_empty) {
            config.place = entry.place;
        }
        for setting in settings {
            let path = format!("{path}.{}", setting.key);
            offer(&mut config, setting, &path, findings);
        }
        match owner {
            "mcp" => lower_mcp(map, &mut config, findings),
            "cli" => set_executor(map, &config, "executable", "subprocess"),
            "local" => lower_local(map, &mut config, findings),
            _ => {}
        }
    }
    put_section(map, "config", config);
}

/// A server is started by a command, or reached at a URL.
fn lower_mcp(map: &mut Node, config: &mut Node, findings: &mut Findings) {
    if let Some(entry) = config.take("server_url") {
        offer(
            config,
            NodeEntry {
                key: "url".to_owned(),
                ..entry
            },
            "tool.mcp_specific.server_url",
            findings,
        );
    }
    // Some files describe the way to the server in a section of its own.
    if let Some(connection) = config.take("connection")
        && let Data::Map(entries) = connection.value.data
    {
        for entry in entries {
            let key = match entry.key.as_str() {
                "url" | "endpoint" | "server_url" => "url",
                "type" | "transport" => "transport",
                "command" | "server_command" => "server_command",
                "args" | "server_args" => "server_args",
                _ => continue,
            };
            let path = format!("tool.mcp_specific.connection.{}", entry.key);
            let entry = NodeEntry {
                key: key.to_owned(),
                ..entry
            };
            offer(config, entry, &path, findings);
        }
    }
    if let Some(entry) = config.take("server_command") {
        let is_url = |text: &str| text.starts_with("https://") || text.starts_with("http://");
        let address = entry
            .value
            .as_text()
            .map(str::trim)
            .filter(|text| is_url(text));
        if address.is_some() {
            let url = NodeEntry {
                key: "url".to_owned(),
                ..entry
            };
            offer(config, url, "tool.mcp_specific.server_command", findings);
        } else {
            lower_server_command(config, &entry, findings);
        }
    }
    lower_environment(map, config);
    if config.find("transport").is_none()
        && let Some(command) = config.find("command")
    {
        let place = command.place;
        config.set("transport", place, Node::text("stdio", place));
    }
    match config.find("transport").and_then(Node::as_text) {
        Some("stdio") => set_executor(map, config, "transport", "subprocess"),
        Some(_) => set_executor(map, config, "transport", "http_client"),
        None => set_executor(map, config, "url", "http_client"),
    }
}

/// Splits `server_command` into the command and its arguments; `server_args` follow.
fn lower_server_command(config: &mut Node, entry: &NodeEntry, findings: &mut Findings) {
    let path = "tool.mcp_specific.server_command";
    let place = entry.value.place;
    let words = match entry.value.as_text().map(shlex::split) {
        Some(Some(words)) => words,
        Some(None) => {
            findings
                .add(
                    Code::InvalidType,
                    place,
                    path,
                    "server_command is not a command: a quote is not closed, or it ends with a backslash",
                )
                .suggest("close every quote, as in a shell");
            Vec::new()
        }
        None => {
            wrong_type(&entry.value, path, "a string", findings);
            Vec::new()
        }
    };
    let mut words = words.into_iter().map(|word| Node::text(word, place));
    let Some(command) = words.next() else {
        return;
    };
    let written = |key: &str, value: Node| NodeEntry {
        key: key.to_owned(),
        place: entry.place,
        value,
    };
    offer(config, written("command", command), path, findings);
    let mut args: Vec<Node> = words.collect();
    if let Some(more) = config.take("server_args") {
        match more.value.data {
            Data::List(more) => args.extend(more),
            _ => wrong_type(
                &more.value,
                "tool.mcp_specific.server_args",
                "a list of strings",
                findings,
            ),
        }
    }
    if !args.is_empty() {
        let args = Node::new(Data::List(args), place);
        offer(config, written("args", args), path, findings);
    }
}

/// The required variables of a server become requirements of the tool.
fn lower_environment(map: &mut Node, config: &Node) {
    let Some(variables) = config.find("environment_variables") else {
        return;
    };
    let names: Vec<Node> = variables
        .elements()
        .unwrap_or_default()
        .iter()
        .filter(|variable| variable.find("required").and_then(Node::as_bool) != Some(false))
        .filter_map(|variable| match variable.data {
            Data::Text(_) => Some(variable.clone()),
            _ => variable.find("name").cloned(),
        })
        .collect();
    let mut requires = section(map, "requires");
    if !names.is_empty() && requires.find("environment").is_none() {
        requires.set(
            "environment",
            variables.place,
            Node::new(Data::List(names), variables.place),
        );
    }
    put_section(map, "requires", requires);
}

fn lower_local(map: &mut Node, config: &mut Node, findings: &mut Findings) {
    let written = config.find("runtime");
    let runtime = match written.and_then(Node::as_text) {
        Some("node" | "nodejs" | "javascript") => "node_runtime",
        Some("python" | "python3") => "python_runtime",
        Some("bash" | "sh" | "shell") => "bash_runtime",
        Some(other) => {
            if map.find("executor").is_none() {
                let place = written.map_or(config.place, |written| written.place);
                let path = "tool.local_specific.runtime";
                let message = format!(
                    "runtime `{}` is not one of {}",
                    other.escape_debug(),
                    RUNTIMES.join(", ")
                );
                findings
                    .add(Code::InvalidEnumValue, place, path, message)
                    .suggest(did_you_mean(
                        nearest(other, RUNTIMES),
                        "name a runtime of the project with `executor: ID`",
                    ));
            }
            return;
        }
        None => match config
            .find("entry_point")
            .and_then(Node::as_text)
            .and_then(|path| path.rsplit('.').next())
        {
            Some("js" | "mjs" | "cjs") => {
                return set_executor(map, config, "entry_point", "node_runtime");
            }
            Some("py") => return set_executor(map, config, "entry_point", "python_runtime"),
            Some("sh" | "bash") => return set_executor(map, config, "entry_point", "bash_runtime"),
            _ => return,
        },
    };
    set_executor(map, config, "runtime", runtime);
}

/// Sets the executor that follows from a setting, with the position of that setting.
fn set_executor(map: &mut Node, config: &Node, setting: &str, executor: &str) {
    if let Some(reason) = config.find(setting)
        && map.find("executor").is_none()
    {
        map.set("executor", reason.place, Node::text(executor, reason.place));
    }
}
