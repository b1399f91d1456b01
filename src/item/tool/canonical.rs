//! Moves aliases and misplaced fields to their canonical place.
//!
//! After [`settle`] a field has one name and one position: `executor` for `executor_id`,
//! `config.url` for `url_template` and `endpoint`, `config.timeout` for `timeout`, `dependencies`
//! for a list under `config.requires`, `inputs` for `input_schema`. File positions are kept.

use crate::item::finding::{Findings, Strength};
use crate::item::node::{Data, Node, NodeEntry};
use crate::problem::Code;

use super::draft::{offer, put_section, section};

/// All known keys of the canonical map.
pub(crate) const KEYS: [&str; 36] = [
    "tool_id",
    "tool_type",
    "version",
    "name",
    "description",
    "category",
    "executor",
    "executor_id",
    "config",
    "parameters",
    "inputs",
    "outputs",
    "mutates_state",
    "isolation",
    "requires",
    "permissions",
    "dependencies",
    "writes",
    "caches",
    "tags",
    "author",
    "created_at",
    "timeout",
    "commands",
    "schema_version",
    "knowledge_strategy",
    "executable_knowledge",
    "api_complexity",
    "anti_patterns",
    "examples",
    "config_schema",
    "env_config",
    "validation",
    "anchor",
    "verify_deps",
    "required_scope",
];

/// The keys that identify a tool.
pub(super) const CLAIMS: [&str; 4] = ["tool_id", "tool_type", "executor", "executor_id"];

pub(super) fn settle(map: &mut Node, findings: &mut Findings) {
    if let Some(entry) = map.take("executor_id") {
        offer(
            map,
            NodeEntry {
                key: "executor".to_owned(),
                ..entry
            },
            "executor_id",
            findings,
        );
    }
    settle_inputs(map, findings);
    let manifest = map.take("manifest").map(|entry| entry.value);
    let mut config = section(map, "config");
    // Some files keep the settings of the script in a section of their own.
    if let Some(Data::Map(entries)) = manifest.map(|manifest| manifest.data) {
        for entry in entries {
            let written = format!("manifest.{}", entry.key);
            offer(&mut config, entry, &written, findings);
        }
    }
    settle_auth(&mut config);
    let calls_mcp = matches!(
        map.find("tool_type").and_then(Node::as_text),
        Some("mcp" | "mcp_tool")
    );
    for (alias, key) in [
        ("url_template", "url"),
        ("endpoint", "url"),
        ("entry_point", "entrypoint"),
        ("tool_name", "mcp_tool_name"),
    ] {
        // `tool_name` is RYE's name, and other tools may use it for themselves.
        if (alias != "tool_name" || calls_mcp)
            && let Some(entry) = config.take(alias)
        {
            offer(
                &mut config,
                NodeEntry {
                    key: key.to_owned(),
                    ..entry
                },
                &format!("config.{alias}"),
                findings,
            );
        }
    }
    if let Some(entry) = map.take("timeout") {
        offer(&mut config, entry, "timeout", findings);
    }
    if let Some(entry) = config.take("requires") {
        let key = if entry.value.elements().is_some() {
            "dependencies"
        } else {
            "requires"
        };
        extend(
            map,
            NodeEntry {
                key: key.to_owned(),
                ..entry
            },
            "config.requires",
            findings,
        );
    }
    for key in ["dependencies", "mutates_state"] {
        if let Some(entry) = config.take(key) {
            extend(map, entry, &format!("config.{key}"), findings);
        }
    }
    put_section(map, "config", config);
    settle_servers(map, findings);
    settle_requires(map, findings);
    settle_permissions(map, findings);
}

/// RYE's tools of MCP servers name a runtime of RYE, and the server in their settings; its servers have no
/// executor.
fn settle_servers(map: &mut Node, findings: &mut Findings) {
    let text = |key: &str| map.find(key).and_then(Node::as_text);
    let setting = |key: &str| {
        map.find("config")
            .and_then(|config| config.find(key))
            .cloned()
    };
    let executor = text("executor");
    let found = match text("tool_type") {
        Some("mcp" | "mcp_tool") if executor.is_some_and(is_mcp_runtime) => setting("server"),
        Some("mcp_server") if executor.is_none() && findings.strength() == Strength::Lenient => {
            let transport = setting("transport");
            transport.map(|transport| {
                let executor = match transport.as_text() {
                    Some("stdio") => "subprocess",
                    _ => "http_client",
                };
                findings
                    .add(
                        Code::MissingRecommendedField,
                        transport.place,
                        "executor",
                        format!("executor is missing; `{executor}` follows from the transport"),
                    )
                    .suggest(format!("add `executor: {executor}`"));
                Node::text(executor, transport.place)
            })
        }
        _ => None,
    };
    if let Some(executor) = found.filter(|node| node.as_text().is_some()) {
        map.take("executor");
        map.set("executor", executor.place, executor);
    }
}

fn is_mcp_runtime(executor: &str) -> bool {
    executor.contains("/runtimes/mcp/")
        || matches!(
            executor.rsplit('/').next(),
            Some("mcp_http_runtime" | "mcp_stdio_runtime")
        )
}

/// The parameters are `input_schema` in RYE's wrappers for MCP tools and `config_schema` in its
/// other tools; that of a primitive or a runtime describes its own `config`.
fn settle_inputs(map: &mut Node, findings: &mut Findings) {
    if let Some(entry) = map.take("input_schema") {
        offer(
            map,
            NodeEntry {
                key: "inputs".to_owned(),
                ..entry
            },
            "input_schema",
            findings,
        );
    }
    let silent = ["parameters", "inputs"]
        .iter()
        .all(|key| map.find(key).is_none_or(Node::is_null));
    let is_base = matches!(
        map.find("tool_type").and_then(Node::as_text),
        Some("primitive" | "runtime")
    );
    let schema = map
        .find_entry("config_schema")
        .filter(|entry| entry.value.find("properties").is_some());
    if let Some(NodeEntry { place, value, .. }) = schema.filter(|_| silent && !is_base).cloned() {
        map.set("inputs", place, value);
    }
}

/// A secret that is just `${NAME}` comes from the variable `NAME`.
fn settle_auth(config: &mut Node) {
    let mut auth = section(config, "auth");
    for key in ["token", "key"] {
        let name = auth.find(key).and_then(Node::as_text);
        let name = name
            .and_then(|text| text.trim().strip_prefix("${")?.strip_suffix('}'))
            .map(str::to_owned);
        let is_name = |name: &String| {
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty()
        };
        if let Some(name) = name
            .filter(is_name)
            .filter(|_| auth.find("env_var").is_none())
            && let Some(NodeEntry { place, value, .. }) = auth.take(key)
        {
            auth.set("env_var", place, Node::text(name, value.place));
        }
    }
    put_section(config, "auth", auth);
}

/// Extends a list that may be given in several places; other values are offered.
fn extend(map: &mut Node, entry: NodeEntry, written: &str, findings: &mut Findings) {
    let Some(mut present) = map.take(&entry.key) else {
        map.set(&entry.key, entry.place, entry.value);
        return;
    };
    match (&mut present.value.data, entry.value.data) {
        (Data::List(list), Data::List(more)) => {
            for element in more {
                if !list.iter().any(|known| known.data == element.data) {
                    list.push(element);
                }
            }
            map.set(&present.key, present.place, present.value);
        }
        (_, data) => {
            map.set(&present.key, present.place, present.value);
            let value = Node::new(data, entry.value.place);
            offer(
                map,
                NodeEntry {
                    key: entry.key,
                    place: entry.place,
                    value,
                },
                written,
                findings,
            );
        }
    }
}

/// A top-level `requires` list is either Kiwi's `resource.action` words or dependencies.
fn settle_requires(map: &mut Node, findings: &mut Findings) {
    let Some(elements) = map.find("requires").and_then(Node::elements) else {
        return;
    };
    let are_actions = !elements.is_empty()
        && elements
            .iter()
            .filter_map(Node::as_text)
            .filter(|text| is_action(text))
            .count()
            == elements.len();
    let Some(entry) = map.take("requires") else {
        return;
    };
    if are_actions {
        declared_permissions(&entry, "requires", findings);
    } else {
        extend(
            map,
            NodeEntry {
                key: "dependencies".to_owned(),
                ..entry
            },
            "requires",
            findings,
        );
    }
}

fn is_action(text: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '_' || c == '*')
    };
    text.split_once('.')
        .is_some_and(|(resource, action)| word(resource) && word(action))
}

/// A `permissions` list counts as requirements: directives grant, tools only state what they need.
fn settle_permissions(map: &mut Node, findings: &mut Findings) {
    let Some(entry) = map.take("permissions") else {
        return;
    };
    declared_permissions(&entry, "permissions", findings);
    let mut requires = section(map, "requires");
    for permission in entry.value.elements().unwrap_or_default() {
        let kind = permission
            .find("type")
            .or_else(|| permission.find("resource"))
            .and_then(Node::as_text);
        let (sources, key): (&[&str], &str) = match kind {
            Some("shell" | "command" | "commands") => (&["commands", "command"], "commands"),
            Some("env" | "environment") => {
                (&["environment", "vars", "variables", "env"], "environment")
            }
            Some("mcp") => (&["servers", "server", "name"], "mcp"),
            _ => continue,
        };
        for source in sources {
            let Some(value) = permission.find(source) else {
                continue;
            };
            let value = match value.data {
                Data::Text(_) => Node::new(Data::List(vec![value.clone()]), value.place),
                _ => value.clone(),
            };
            let entry = NodeEntry {
                key: key.to_owned(),
                place: value.place,
                value,
            };
            extend(
                &mut requires,
                entry,
                &format!("permissions.{source}"),
                findings,
            );
        }
    }
    put_section(map, "requires", requires);
}

fn declared_permissions(entry: &NodeEntry, path: &str, findings: &mut Findings) {
    findings
        .add(
            Code::DeclaredPermissions,
            entry.place,
            path,
            format!("`{path}` in a tool grants nothing: directives grant, tools only require"),
        )
        .suggest(
            "say what the tool needs: `requires: {commands: […], environment: […], mcp: […]}`",
        );
}
