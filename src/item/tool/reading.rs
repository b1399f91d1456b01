//! Reads a file in a tool folder as a tool.
//!
//! [`read`] decides what a file is (a manifest, a script, or something else), lowers its spelling
//! and builds the manifest. It reads only the given file and, for an extractor with `source:
//! config`, the one beside it; it never executes anything.

use std::io::Read as _;
use std::path::Path;

use crate::item::extractor::Extractor;
use crate::item::finding::{Findings, Strength};
use crate::item::node::Node;
use crate::item::position::Position;
use crate::item::source::{SourceFile, open_regular};
use crate::item::wording::nearest;
use crate::item::{json, yaml};
use crate::problem::Code;

use super::draft::ToolDraft;
use super::{
    LoadedTool, Spelling, block, canonical, embedded, json_schema, kind, manifest, tool_root,
};

#[derive(Debug)]
pub enum ToolReading {
    Tool(Box<LoadedTool>),
    /// A tool without a usable id: it cannot be named, but the rest can be validated.
    Unnamed(Box<LoadedTool>),
    /// A helper, data or documentation.
    NotATool,
    /// It should be a tool but cannot be read; the findings say why.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    Tools,
    /// `.ai/scripts/`, where a script needs no metadata.
    Scripts,
}

/// The location of a file.
#[derive(Clone, Copy, Debug)]
pub struct ToolLocation<'a> {
    /// The folder of a folder tool, of which only the manifest (`tool.yaml`) is read.
    pub folder: Option<&'a Path>,
    pub root: Root,
    /// Whether it is below `lib/`, where helpers without metadata are not tools.
    pub in_lib: bool,
    pub extractors: &'a [Extractor],
}

/// Documents of other programs.
const FOREIGN: [&str; 8] = [
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "jsconfig.json",
    "composer.json",
    "docker-compose.yml",
    "docker-compose.yaml",
    "pnpm-lock.yaml",
];

/// How much of a file is read to see whether it is a tool, in bytes.
const BEGINNING: u64 = 8 * 1024;

/// Whether a file is worth reading as a tool: a document, or a script by its extension or its first
/// bytes.
pub fn may_be_tool(path: &Path, extractors: &[Extractor]) -> bool {
    is_tool_by_name(path, extractors) || announces(path)
}

/// Whether the extension is that of a tool; does not open the file.
pub fn is_tool_by_name(path: &Path, extractors: &[Extractor]) -> bool {
    let ending = ending_of(path);
    matches!(ending.as_str(), "yaml" | "yml" | "json")
        || embedded::SCRIPTS.contains(&ending.as_str())
        || extractors.iter().any(|extractor| extractor.names(&ending))
}

/// Whether a file starts like a script or a tool. Only the start is read, because data beside tools
/// may be large.
fn announces(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = open_regular(path)
        .and_then(|(file, _)| Ok(file.take(BEGINNING).read_to_end(&mut start)?));
    read.is_ok() && embedded::announces(&String::from_utf8_lossy(&start), &ending_of(path))
}

fn ending_of(path: &Path) -> String {
    path.extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase()
}

pub fn read(
    source: &SourceFile,
    around: &ToolLocation<'_>,
    findings: &mut Findings,
) -> ToolReading {
    let name = source
        .path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let ending = name
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase())
        .unwrap_or_default();
    let is_part =
        around.folder.is_some() && !matches!(name, "tool.yaml" | "tool.yml" | "tool.json");
    if name.starts_with('.') || FOREIGN.contains(&name) || is_part {
        return ToolReading::NotATool;
    }
    let draft = match ending.as_str() {
        "yaml" | "yml" => document(
            yaml::parse(&source.text, Position::START, findings),
            (&source.path, around),
            DocumentFormat::Yaml,
            findings,
        ),
        "json" => document(
            json::parse(&source.text, Position::START, findings),
            (&source.path, around),
            DocumentFormat::Json,
            findings,
        ),
        _ => embedded::lower(source, around, findings),
    };
    match draft {
        Lowered::Nothing => ToolReading::NotATool,
        Lowered::Broken => ToolReading::Broken,
        Lowered::Draft(draft) => manifest::build(*draft, &source.path, around.folder, findings),
    }
}

/// Whether a document only gives settings of the script beside it, which an extractor reads: it names an executor, but no
/// tool of its own.
fn is_settings(node: &Node, path: &Path, around: &ToolLocation<'_>) -> bool {
    let is_own = ["tool_id", "tool_type", "tool", "id"]
        .iter()
        .any(|key| node.find_entry(key).is_some());
    !is_own
        && around.extractors.iter().any(Extractor::reads_settings)
        && embedded::SCRIPTS
            .iter()
            .any(|ending| path.with_extension(ending).is_file())
}

/// The result of lowering a spelling.
pub(super) enum Lowered {
    Draft(Box<ToolDraft>),
    /// The file is not a tool.
    Nothing,
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DocumentFormat {
    Yaml,
    Json,
}

/// Whether a document has a type that no tool has and nothing that could run it, like the `config` of RYE.
fn is_declared_data(node: &Node) -> bool {
    let names = |key: &str| node.find(key).and_then(Node::as_text);
    let Some(written) = names("tool_type") else {
        return false;
    };
    let runs = ["executor", "executor_id", "executor_type", "tool_id"];
    kind::of(written).is_none()
        && kind::in_the_wild(written).is_none()
        && nearest(written, kind::NAMES).is_none()
        && runs
            .iter()
            .all(|key| node.find(key).is_none_or(Node::is_null))
}

fn document(
    node: Option<Node>,
    (path, around): (&Path, &ToolLocation<'_>),
    sort: DocumentFormat,
    findings: &mut Findings,
) -> Lowered {
    let Some(mut node) = node else {
        return Lowered::Broken;
    };
    let claims = node.find_entry("tool").is_some()
        || canonical::CLAIMS
            .iter()
            .any(|key| node.find_entry(key).is_some());
    let is_tool = (claims || tool_root::is_spelled(&node)) && !is_settings(&node, path, around);
    // Data is common beside tools, but the specification knows only YAML files that are tools.
    let is_lenient = findings.strength() == Strength::Lenient;
    let is_structured = node.entries().is_some() || node.elements().is_some();
    let may_be_data =
        sort == DocumentFormat::Json || is_lenient && is_structured && around.folder.is_none();
    if !is_tool && (may_be_data || around.in_lib || claims) {
        return Lowered::Nothing;
    }
    if is_lenient && around.folder.is_none() && is_declared_data(&node) {
        return Lowered::Nothing;
    }
    if node.entries().is_none() {
        findings
            .add(
                Code::InvalidType,
                node.place,
                "",
                format!(
                    "a tool manifest must be a mapping, not a {}",
                    node.type_name()
                ),
            )
            .suggest("begin with `tool_id:`");
        return Lowered::Broken;
    }
    if tool_root::is_spelled(&node) {
        return Lowered::Draft(Box::new(tool_root::lower(node, findings)));
    }
    let draft = if node
        .find("executor")
        .is_some_and(|executor| executor.entries().is_some())
    {
        let kind = block::lower(&mut node, findings);
        let mut draft = ToolDraft::new(node, Spelling::ExecutorBlock);
        draft.kind = kind;
        draft
    } else if json_schema::is_spelled(&node) {
        let kind = json_schema::derive_kind(&node);
        let mut draft = ToolDraft::new(node, Spelling::JsonSchema);
        draft.kind = kind;
        draft
    } else {
        ToolDraft::new(node, Spelling::Manifest)
    };
    Lowered::Draft(Box::new(draft))
}
