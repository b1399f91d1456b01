//! Turns the canonical map into the manifest, with the checks that every tool must pass.
//!
//! This is the first of the three layers of validation: it checks the manifest alone, never files
//! or other tools. Read [`build`]; each field has one function that reports and recovers.

use std::path::Path;

use serde_json::{Map, Value};

use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::id::ItemId;
use crate::item::node::{Data, Node};
use crate::item::version;
use crate::problem::Code;

use super::caches;
use super::canonical::{KEYS, settle};
use super::demands;
use super::draft::ToolDraft;
use super::fields::{flag, text, texts, wrong_type};
use super::reading::ToolReading;
use super::{Isolation, LoadedTool, Spelling, ToolKind, ToolManifest, kind, parameters, results};
use crate::item::wording::{did_you_mean, nearest, separated};

/// The sections of schema 1.0 and 2.0, kept as written.
const KNOWLEDGE: [&str; 6] = [
    "schema_version",
    "knowledge_strategy",
    "executable_knowledge",
    "api_complexity",
    "anti_patterns",
    "examples",
];

/// Fields of other programs that only tell a reader something.
const DOCUMENTATION: [&str; 18] = [
    "title",
    "summary",
    "notes",
    "usage",
    "license",
    "homepage",
    "repository",
    "documentation",
    "references",
    "see_also",
    "changelog",
    "keywords",
    "maintainer",
    "maintainers",
    "updated_at",
    "status",
    "stability",
    "id",
];

/// Builds the manifest; it is broken without a usable type, which is reported.
pub(super) fn build(
    mut draft: ToolDraft,
    file: &Path,
    folder: Option<&Path>,
    findings: &mut Findings,
) -> ToolReading {
    settle(&mut draft.node, findings);
    report_unknown(&draft, findings);
    let tool_id = id(&draft, folder.unwrap_or(file), findings);
    let (tool_type, kind) = tool_type(&draft, findings);
    let version = version(&draft, findings);
    let executor = executor(&draft, &tool_type, kind, findings);
    let described = describe(&draft, findings);
    let interface = parameters::read(&draft.node, |key| draft.path(key), findings);
    let (outputs, output_schema) = results::outputs(&draft, findings);
    let map = &draft.node;
    let config = config(&draft, findings);
    let mutates_state = flag(map, "mutates_state", &draft.path("mutates_state"), findings);
    let isolation = isolation(&draft, findings);
    let requires = demands::requires(&draft, findings);
    let dependencies =
        texts(map, "dependencies", &draft.path("dependencies"), findings).unwrap_or_default();
    let writes = demands::writes(&draft, findings);
    let caches = caches::caches(&draft, findings);
    let tags = texts(map, "tags", &draft.path("tags"), findings).unwrap_or_default();
    let commands = results::commands(&draft, findings);
    let knowledge = KNOWLEDGE
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), map.find(key)?.to_json())))
        .collect::<Map<String, Value>>();
    let is_named = tool_id.is_some();
    let stand_in = || guess_id(folder.unwrap_or(file)).or_else(|| "unnamed".parse().ok());
    let (Some(tool_id), Some(kind)) = (tool_id.or_else(stand_in), kind) else {
        return ToolReading::Broken;
    };
    let manifest = ToolManifest {
        tool_id,
        tool_type,
        kind,
        name: described.name,
        version,
        description: described.description,
        category: described.category,
        executor,
        config,
        parameters: interface.parameters,
        input_schema: interface.input_schema,
        output_schema,
        outputs,
        mutates_state,
        isolation,
        requires,
        dependencies,
        writes,
        caches,
        tags,
        author: described.author,
        commands,
        knowledge,
        legacy: draft.spelling == Spelling::LegacyScript,
    };
    let tool = Box::new(LoadedTool {
        manifest,
        spelling: draft.spelling,
        file: file.to_path_buf(),
        folder: folder.map(Path::to_path_buf),
        elsewhere: draft.elsewhere,
        lenders: draft.lenders,
        node: draft.node,
    });
    if is_named {
        ToolReading::Tool(tool)
    } else {
        ToolReading::Unnamed(tool)
    }
}

/// The texts for people.
struct ManifestTexts {
    name: Option<String>,
    description: String,
    category: String,
    author: Option<String>,
}

fn describe(draft: &ToolDraft, findings: &mut Findings) -> ManifestTexts {
    let mut words = |key: &str| text(&draft.node, key, &draft.path(key), findings);
    let described = ManifestTexts {
        name: words("name"),
        description: words("description").unwrap_or_default(),
        category: words("category").unwrap_or_default(),
        author: words("author"),
    };
    let silent = |key: &str| {
        draft
            .node
            .find(key)
            .is_none_or(|value| value.as_text().is_some_and(|t| t.trim().is_empty()))
    };
    if draft.spelling == Spelling::ToolRoot {
        for key in ["name", "description"] {
            if silent(key) {
                required(draft, key, findings);
            }
        }
    } else if silent("description") && draft.spelling != Spelling::LegacyScript {
        findings
            .add(
                Code::MissingRecommendedField,
                draft.node.place,
                draft.path("description"),
                "description is missing; search and readers rely on it",
            )
            .suggest("say in one sentence what the tool does");
    }
    described
}

fn report_unknown(draft: &ToolDraft, findings: &mut Findings) {
    for entry in draft.node.entries().unwrap_or_default() {
        let is_text =
            findings.strength() == Strength::Lenient && DOCUMENTATION.contains(&entry.key.as_str());
        if KEYS.contains(&entry.key.as_str()) || is_text {
            continue;
        }
        let finding = findings.add(
            Code::UnknownField,
            entry.place,
            draft.path(&entry.key),
            unknown_message(&entry.key),
        );
        let meant = nearest(&entry.key, KEYS).map(|meant| draft.label(meant));
        finding.suggest(did_you_mean(
            meant,
            "remove it; what only the tool itself reads belongs below `config`",
        ));
    }
}

pub(super) fn unknown_message(key: &str) -> String {
    format!(
        "tools have no field `{}`",
        key.chars().take(64).collect::<String>().escape_debug()
    )
}

fn required<'f>(draft: &ToolDraft, key: &str, findings: &'f mut Findings) -> &'f mut Finding {
    let label = draft.label(key);
    findings
        .add(
            Code::MissingRequiredField,
            draft.node.place,
            draft.path(key),
            format!("{label} is required"),
        )
        .suggest(format!("add `{label}:`"))
}

fn type_example(draft: &ToolDraft) -> String {
    let names: &[&str] = if draft.spelling == Spelling::ToolRoot {
        &kind::ROOT_NAMES
    } else {
        &kind::NAMES
    };
    format!(
        "add `{}:` with one of {}",
        draft.label("tool_type"),
        names.join(", ")
    )
}

/// The id that the name of a file or folder suggests.
fn guess_id(named: &Path) -> Option<ItemId> {
    named
        .file_stem()
        .and_then(|stem| stem.to_str())
        .and_then(|stem| stem.parse().ok())
}

fn id(draft: &ToolDraft, named: &Path, findings: &mut Findings) -> Option<ItemId> {
    let path = draft.path("tool_id");
    let is_strict = findings.strength() == Strength::Strict;
    let Some(value) = draft
        .node
        .find("tool_id")
        .filter(|value| value.as_text() != Some(""))
    else {
        let label = draft.label("tool_id");
        let finding = findings.add(
            Code::MissingRequiredField,
            draft.node.place,
            path,
            format!("{label} is required"),
        );
        let guess = guess_id(named);
        let shown = guess.as_ref().map_or("…".to_owned(), ToString::to_string);
        finding.suggest(format!("add `{label}: {shown}`"));
        // RYE's tools go by the name of their file. What only looks like a tool does not.
        let claims = |key: &str| draft.node.find(key).and_then(Node::as_text).is_some();
        let is_meant = claims("tool_type") && draft.node.find_entry("executor").is_some()
            || claims("executor");
        let is_written = draft.node.find_entry("tool_id").is_some();
        let is_root = draft.spelling == Spelling::ToolRoot;
        if is_written || is_root || !is_meant || is_strict || guess.is_none() {
            return None;
        }
        finding.with_severity(Severity::Warning);
        finding.message = format!("{label} is missing; the tool goes by its file name, `{shown}`");
        return guess;
    };
    let written = text(&draft.node, "tool_id", &path, findings)?;
    let id = match written.parse::<ItemId>() {
        Ok(id) => id,
        Err(err) => {
            findings
                .add(Code::InvalidId, value.place, path, err.to_string())
                .suggest("use lower case letters, digits and `_`, e.g. `fetch_weather`");
            return None;
        }
    };
    let (separator, convention) = if draft.spelling == Spelling::ToolRoot {
        ('-', "kebab-case")
    } else {
        ('_', "snake_case")
    };
    let follows = id
        .as_str()
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == separator || c == '/');
    if !follows {
        let better = separated(id.as_str(), separator);
        findings
            .add(
                Code::NamingConvention,
                value.place,
                path,
                format!("`{id}` is not {convention}"),
            )
            .suggest(format!("write `{better}`"));
    }
    Some(id)
}

fn version(draft: &ToolDraft, findings: &mut Findings) -> String {
    let path = draft.path("version");
    let value = draft
        .node
        .find("version")
        .filter(|value| value.as_text() != Some(""));
    let Some(value) = value else {
        if draft.spelling != Spelling::JsonSchema || findings.strength() == Strength::Strict {
            required(draft, "version", findings);
        }
        return if draft.spelling == Spelling::JsonSchema {
            "1.0.0".to_owned()
        } else {
            String::new()
        };
    };
    let lenient = findings.strength() == Strength::Lenient;
    let (written, finding) = version::check(value, &path, findings);
    // A script that was not meant as a tool may use any version scheme.
    if let Some(finding) = finding.filter(|_| lenient && draft.spelling == Spelling::LegacyScript) {
        finding.with_severity(Severity::Warning);
    }
    written
}

/// The type as written, and its kind.
fn tool_type(draft: &ToolDraft, findings: &mut Findings) -> (String, Option<ToolKind>) {
    let path = draft.path("tool_type");
    let value = draft
        .node
        .find("tool_type")
        .filter(|value| value.as_text() != Some(""));
    let Some(value) = value else {
        let derived = draft.spelling == Spelling::JsonSchema && draft.kind.is_some();
        if !derived || findings.strength() == Strength::Strict {
            required(draft, "tool_type", findings).suggest(type_example(draft));
        }
        return (String::new(), draft.kind);
    };
    let Some(written) = text(&draft.node, "tool_type", &path, findings) else {
        return (String::new(), None);
    };
    let names: &[&str] = if draft.spelling == Spelling::ToolRoot {
        &kind::ROOT_NAMES
    } else {
        &kind::NAMES
    };
    if names.contains(&written.as_str()) {
        let kind = if written == "mcp" {
            Some(mcp_kind(&draft.node))
        } else {
            kind::of(&written)
        };
        return (written, kind);
    }
    if let (Some((kind, documented)), false) = (
        kind::in_the_wild(&written),
        draft.spelling == Spelling::ToolRoot,
    ) {
        findings
            .add(
                Code::UnknownEnumValue,
                value.place,
                path,
                format!("tool_type `{written}` is not documented"),
            )
            .suggest(format!("write `{documented}`"));
        return (written, Some(kind));
    }
    let executor = draft.node.find("executor").and_then(Node::as_text);
    if draft.spelling != Spelling::ToolRoot
        && nearest(&written, names.iter().copied()).is_none()
        && let Some(kind) = executor.and_then(kind::executed_by)
    {
        let documented = kind::name_of(kind);
        findings
            .add(
                Code::UnknownEnumValue,
                value.place,
                path,
                format!(
                    "tool_type `{}` is not documented; its executor makes it a `{documented}`",
                    written.escape_debug()
                ),
            )
            .suggest(format!("write `{documented}`"));
        return (written, Some(kind));
    }
    let finding = findings.add(
        Code::InvalidEnumValue,
        value.place,
        path,
        format!(
            "Unknown tool_type: {} (known: {})",
            written.escape_debug(),
            names.join(", ")
        ),
    );
    finding.suggest(did_you_mean(
        nearest(&written, names.iter().copied()),
        "use one of the known types",
    ));
    (written, None)
}

/// `mcp` is a tool of a server if it names one, otherwise a server.
fn mcp_kind(map: &Node) -> ToolKind {
    let names_tool = map
        .find("config")
        .and_then(|config| config.find("mcp_tool_name"))
        .is_some();
    let has_server = map
        .find("executor")
        .and_then(Node::as_text)
        .is_some_and(|id| !kind::is_primitive(id));
    if names_tool || has_server {
        ToolKind::McpTool
    } else {
        ToolKind::McpServer
    }
}

fn executor(
    draft: &ToolDraft,
    tool_type: &str,
    kind: Option<ToolKind>,
    findings: &mut Findings,
) -> Option<ItemId> {
    let path = draft.path("executor");
    let Some(value) = draft
        .node
        .find("executor")
        .filter(|value| value.as_text() != Some(""))
    else {
        let optional = matches!(draft.spelling, Spelling::ExecutorBlock | Spelling::ToolRoot)
            || kind.is_some_and(kind::executor_is_optional)
            // A missing type was already reported.
            || (kind.is_none() && tool_type.is_empty());
        if !optional {
            let named = if tool_type.is_empty() {
                "script"
            } else {
                tool_type
            };
            findings
                .add(
                    Code::MissingRequiredField,
                    draft.node.place,
                    path,
                    format!(
                        "Tool type '{}' requires executor field",
                        named.escape_debug()
                    ),
                )
                .suggest(kind::usual_executor(kind));
        }
        return None;
    };
    let forbidden = match kind {
        Some(ToolKind::Primitive) => Some("Primitives must have executor: null"),
        Some(ToolKind::Knowledge) => Some("Knowledge entries must have executor: null"),
        _ => None,
    };
    if let Some(message) = forbidden {
        findings
            .add(Code::UnexpectedExecutor, value.place, path.clone(), message)
            .suggest("remove the executor");
    }
    let written = text(&draft.node, "executor", &path, findings)?;
    match written.parse() {
        Ok(id) => Some(id),
        Err(err) => {
            findings
                .add(
                    Code::InvalidId,
                    value.place,
                    path,
                    format!("the executor is no id: {err}"),
                )
                .suggest(kind::usual_executor(kind));
            None
        }
    }
}

fn config(draft: &ToolDraft, findings: &mut Findings) -> Map<String, Value> {
    let Some(value) = draft.node.find("config") else {
        return Map::new();
    };
    let path = draft.path("config");
    let Value::Object(config) = value.to_json() else {
        wrong_type(value, &path, "a mapping", findings);
        return Map::new();
    };
    if let Some(timeout) = value.find("timeout") {
        let seconds = match timeout.data {
            Data::Int(seconds) => seconds > 0,
            Data::Float(seconds, _) => seconds > 0.0,
            // `${VAR}` and `{parameter}` are filled in later.
            Data::Text(ref text) => text.contains('{'),
            _ => false,
        };
        if !seconds {
            findings
                .add(
                    Code::InvalidType,
                    timeout.place,
                    format!("{path}.timeout"),
                    "timeout must be a positive number of seconds",
                )
                .suggest("e.g. `timeout: 60`");
        }
    }
    config
}

fn isolation(draft: &ToolDraft, findings: &mut Findings) -> Option<Isolation> {
    let path = draft.path("isolation");
    let written = text(&draft.node, "isolation", &path, findings)?;
    let level = Isolation::parse(&written);
    if level.is_none() {
        let levels = Isolation::ALL.map(Isolation::as_str);
        let place = draft
            .node
            .find("isolation")
            .map_or(draft.node.place, |value| value.place);
        let finding = findings.add(
            Code::InvalidEnumValue,
            place,
            path,
            format!(
                "isolation `{}` is not one of {}",
                written.escape_debug(),
                levels.join(", ")
            ),
        );
        finding.suggest(did_you_mean(
            nearest(&written, levels),
            "`standard` is the usual one",
        ));
    }
    level
}
