//! The rules of tool schema 1.0 and 2.0, for tools with a `tool:` root.
//!
//! Fields of every manifest (`id`, `type`, `name`, …) are checked when it is read; here are the
//! schema version, the sections of version 2.0, and names. JavaScript is compiled and scanned,
//! never run. Deviations that are common in existing files are warnings, and errors in strict
//! validation.

mod complexity;
mod examples;
mod fields;
mod knowledge;
#[cfg(test)]
mod tests;

use crate::item::finding::{Findings, Severity, Strength};
use crate::item::id::ItemId;
use crate::item::node::{Data, Node};
use crate::item::store::{ItemKind, ItemStore};
use crate::item::tool::{LoadedTool, Spelling, ToolKind};
use crate::problem::{Code, Explain};

pub(crate) use knowledge::place_in as place_in_function;

use fields::{is_command_name, list_of, reference, similar_or, wrong_type};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolRootVersion {
    One,
    Two,
}

/// Sections that version 1.0 does not have.
const SECTIONS: [&str; 3] = ["executable_knowledge", "api_complexity", "anti_patterns"];
const STRATEGIES: [&str; 5] = ["embedded", "external", "hybrid", "executable", "none"];

/// What the rules of a section need from the rest of the tool.
struct ToolNames<'t> {
    /// The ids of the helpers.
    helpers: Vec<&'t str>,
    /// The commands, if the tool lists them.
    commands: Option<Vec<&'t str>>,
}

/// Checks a tool with a `tool:` root; of others only the references of a meta tool.
pub fn check(tool: &LoadedTool, findings: &mut Findings) {
    let map = &tool.node;
    if tool.spelling != Spelling::ToolRoot {
        if tool.manifest.kind == ToolKind::Meta {
            knowledge::check_helper_functions(map, findings);
        }
        return check_meta(tool, &knowledge::helper_ids(map), "config", findings);
    }
    let explicit = explicit_version(map, findings);
    let names = ToolNames {
        helpers: knowledge::helper_ids(map),
        commands: command_names(map, findings),
    };
    check_strategy(map, findings);
    check_meta(tool, &names.helpers, "tool.meta_specific", findings);
    match explicit.unwrap_or_else(|| detect_version(map)) {
        ToolRootVersion::One => report_ignored(map, findings),
        ToolRootVersion::Two => {
            let mut found = Findings::new(findings.file(), findings.strength());
            knowledge::check(map, &names, &mut found);
            complexity::check(map, &names, &mut found);
            examples::check(map, &names, &mut found);
            let mut found = found.into_vec();
            // Mistakes in text for people do not keep a tool from working.
            let is_lenient = findings.strength() == Strength::Lenient;
            for finding in found
                .iter_mut()
                .filter(|it| is_lenient && is_text(&it.path))
            {
                finding.severity = Severity::Warning;
            }
            findings.extend(found);
        }
    }
}

/// The schema version of a tool with a `tool:` root: as stated, or as its sections suggest.
pub fn schema_version(tool: &LoadedTool) -> Option<&'static str> {
    if tool.spelling != Spelling::ToolRoot {
        return None;
    }
    let mut ignored = Findings::new(&tool.file, Strength::Lenient);
    let version = explicit_version(&tool.node, &mut ignored);
    Some(
        match version.unwrap_or_else(|| detect_version(&tool.node)) {
            ToolRootVersion::One => "1.0",
            ToolRootVersion::Two => "2.0",
        },
    )
}

/// Whether a field is only read by people.
fn is_text(path: &str) -> bool {
    [
        "tool.anti_patterns",
        "tool.examples",
        "tool.api_complexity.api_quirks",
    ]
    .iter()
    .any(|section| path.starts_with(section))
}

/// The version that the tool states.
fn explicit_version(map: &Node, findings: &mut Findings) -> Option<ToolRootVersion> {
    let value = map.find("schema_version")?;
    let path = "tool.schema_version";
    let known = |text: &str| match text {
        "1.0" => Some(ToolRootVersion::One),
        "2.0" => Some(ToolRootVersion::Two),
        _ => None,
    };
    let (version, shown) = match &value.data {
        Data::Text(text) => (known(text), text.clone()),
        Data::Int(number) => (known(&format!("{number}.0")), number.to_string()),
        Data::Float(number, written) => (
            known(&format!("{number:.1}")).filter(|_| number.fract() == 0.0),
            written.clone(),
        ),
        _ => {
            wrong_type(value, path, "a string", findings);
            return None;
        }
    };
    match version {
        None => {
            let message = format!(
                "schema_version must be \"1.0\" or \"2.0\", not `{}`",
                fields::shown(&shown)
            );
            findings
                .add(Code::InvalidEnumValue, value.place, path, message)
                .suggest("write \"2.0\"");
        }
        Some(version) if value.as_text().is_none() => {
            let message = format!("schema_version `{shown}` is a number; a version is a string");
            let quoted = if version == ToolRootVersion::One {
                "1.0"
            } else {
                "2.0"
            };
            findings
                .add(Code::UnquotedVersion, value.place, path, message)
                .suggest(format!("write \"{quoted}\""));
        }
        Some(_) => {}
    }
    version
}

/// The version that the sections of a tool suggest.
fn detect_version(map: &Node) -> ToolRootVersion {
    let enhanced = |example: &Node| {
        let scenario = example.find("scenario").and_then(Node::as_text);
        matches!(scenario, Some("success" | "failure_invalid_param"))
    };
    let examples = map
        .find("examples")
        .and_then(Node::entries)
        .unwrap_or_default();
    let has_scenarios = examples.iter().any(|command| {
        command
            .value
            .elements()
            .unwrap_or_default()
            .iter()
            .any(enhanced)
    });
    if has_scenarios || SECTIONS.iter().any(|section| map.find(section).is_some()) {
        ToolRootVersion::Two
    } else {
        ToolRootVersion::One
    }
}

fn report_ignored(map: &Node, findings: &mut Findings) {
    for entry in map.entries().unwrap_or_default() {
        if SECTIONS.contains(&entry.key.as_str()) && !entry.value.is_null() {
            let message = format!("{} is ignored, because schema_version is 1.0", entry.key);
            findings
                .add(
                    Code::IgnoredSection,
                    entry.place,
                    format!("tool.{}", entry.key),
                    message,
                )
                .suggest("write `schema_version: \"2.0\"`, or remove the section");
        }
    }
}

fn check_strategy(map: &Node, findings: &mut Findings) {
    let Some(value) = map.find("knowledge_strategy") else {
        return;
    };
    let path = "tool.knowledge_strategy";
    match value.as_text() {
        None => wrong_type(value, path, "a string", findings),
        Some(strategy) if STRATEGIES.contains(&strategy) => {}
        Some(strategy) => {
            let message = format!(
                "knowledge_strategy must be one of {}, not `{}`",
                STRATEGIES.join(", "),
                fields::shown(strategy)
            );
            let suggestion = similar_or(strategy, &STRATEGIES, "`embedded` is the default");
            findings
                .add(Code::UnknownEnumValue, value.place, path, message)
                .suggest(suggestion);
        }
    }
}

/// The listed commands; checks their names.
fn command_names<'t>(map: &'t Node, findings: &mut Findings) -> Option<Vec<&'t str>> {
    // A wrong type was reported when the manifest was read.
    let list = map.find("commands")?.elements()?;
    let mut names = Vec::new();
    for (at, command) in list.iter().enumerate().take(fields::MAX_ELEMENTS) {
        let Some(name) = command
            .as_text()
            .or_else(|| command.find("name").and_then(Node::as_text))
        else {
            continue;
        };
        check_command_name(name, command, &format!("tool.commands[{at}]"), findings);
        names.push(name);
    }
    Some(names)
}

fn check_command_name(name: &str, node: &Node, path: &str, findings: &mut Findings) {
    if !is_command_name(name) {
        let message = format!(
            "command `{}` is neither snake_case nor kebab-case",
            fields::shown(name)
        );
        findings
            .add(Code::NamingConvention, node.place, path, message)
            .suggest("use lower case letters and digits, separated by `_` or by `-`");
    }
}

/// Warns about a command that the tool does not list.
fn check_known_command(
    name: &str,
    node: &Node,
    path: &str,
    names: &ToolNames<'_>,
    findings: &mut Findings,
) {
    let Some(commands) = names
        .commands
        .as_ref()
        .filter(|commands| !commands.contains(&name))
    else {
        return;
    };
    let message = format!(
        "`{}` is not among the commands of the tool",
        fields::shown(name)
    );
    let suggestion = similar_or(name, commands, "add it to `commands`");
    findings
        .add(Code::UnknownReference, node.place, path, message)
        .with_severity(Severity::Warning)
        .suggest(suggestion);
}

/// Warns about missing tools that a meta tool may call.
pub fn check_aggregates(tool: &LoadedTool, store: &ItemStore, findings: &mut Findings) {
    let section = if tool.spelling == Spelling::ToolRoot {
        "tool.meta_specific"
    } else {
        "config"
    };
    let listed = tool
        .node
        .find("config")
        .and_then(|config| config.find("aggregates"))
        .and_then(Node::elements);
    let listed = listed
        .filter(|_| tool.manifest.kind == ToolKind::Meta)
        .unwrap_or_default();
    for (at, element) in listed.iter().enumerate().take(fields::MAX_ELEMENTS) {
        // An invalid id is reported elsewhere.
        let Some(id) = element.as_text().filter(|id| id.parse::<ItemId>().is_ok()) else {
            continue;
        };
        if let Err(err) = store.find(ItemKind::Tool, id) {
            let suggestion = err
                .hint()
                .unwrap_or_else(|| "make it, or take it out".into());
            findings
                .add(
                    Code::UnknownReference,
                    element.place,
                    format!("{section}.aggregates[{at}]"),
                    err.to_string(),
                )
                .with_severity(Severity::Warning)
                .suggest(suggestion);
        }
    }
}

/// Checks the settings of a meta tool; `section` is their name in its file.
fn check_meta(tool: &LoadedTool, helpers: &[&str], section: &str, findings: &mut Findings) {
    if tool.manifest.kind != ToolKind::Meta {
        return;
    }
    let Some(config) = tool.node.find("config") else {
        return;
    };
    if let Some(value) = config.find("orchestration") {
        reference(
            value,
            &format!("{section}.orchestration"),
            helpers,
            findings,
        );
    }
    let Some(value) = config.find("aggregates") else {
        return;
    };
    for (at, id) in list_of(value, &format!("{section}.aggregates"), findings)
        .iter()
        .enumerate()
    {
        let path = format!("{section}.aggregates[{at}]");
        match id.as_text().map(str::parse::<ItemId>) {
            Some(Ok(_)) => {}
            Some(Err(err)) => {
                findings
                    .add(Code::InvalidId, id.place, path, err.to_string())
                    .suggest("name a tool by its id");
            }
            None => wrong_type(id, &path, "the id of a tool", findings),
        }
    }
}
