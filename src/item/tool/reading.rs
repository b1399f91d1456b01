//! From a file in a tool folder to a tool.
//!
//! [`read`] decides what a file is (a manifest, a script, or nothing of ours), has its spelling
//! lowered and the manifest built. It reads no file but the one it is given and, for an extractor
//! with `source: config`, the one beside it; it never executes anything.

use std::io::Read as _;
use std::path::Path;

use crate::item::extractor::Extractor;
use crate::item::finding::Findings;
use crate::item::node::Node;
use crate::item::place::Place;
use crate::item::source::{SourceFile, open_regular};
use crate::item::{json, yaml};
use crate::problem::Code;

use super::draft::Draft;
use super::{LoadedTool, Spelling, block, canonical, embedded, json_schema, manifest, tool_root};

/// What a file in a tool folder turned out to be.
#[derive(Debug)]
pub enum Reading {
    /// A tool, possibly with findings.
    Tool(Box<LoadedTool>),
    /// A tool without a usable id: nothing can name it, but the rest of it can be judged.
    Unnamed(Box<LoadedTool>),
    /// A helper, data, documentation: nothing to complain about.
    NotATool,
    /// It should be a tool and cannot be read as one; the findings say why.
    Broken,
}

/// The kind of folder a file lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `.ai/tools/`.
    Tools,
    /// `.ai/scripts/`, where a script needs no metadata.
    Scripts,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The folder of a folder tool, of which only the manifest (`tool.yaml`) is read.
    pub folder: Option<&'a Path>,
    /// The kind of folder.
    pub root: Root,
    /// Whether it lies below `lib/`, where helpers without metadata are no tools.
    pub in_lib: bool,
    /// The project's rules for scripts.
    pub extractors: &'a [Extractor],
}

/// The names of documents that belong to other programs.
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

/// How much of a file is looked at to see whether it is a tool.
const BEGINNING: u64 = 8 * 1024;

/// Whether a file is worth reading as a tool: a document, a script by its ending, or by its first bytes.
pub fn may_be_tool(path: &Path, extractors: &[Extractor]) -> bool {
    is_tool_by_name(path, extractors) || announces(path)
}

/// Whether the ending of a file is that of a tool; nothing is opened.
pub fn is_tool_by_name(path: &Path, extractors: &[Extractor]) -> bool {
    let ending = ending_of(path);
    matches!(ending.as_str(), "yaml" | "yml" | "json")
        || embedded::SCRIPTS.contains(&ending.as_str())
        || extractors.iter().any(|extractor| extractor.names(&ending))
}

/// Whether a file says at its beginning that it is a script or a tool; data beside tools may be large.
fn announces(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = open_regular(path).and_then(|(file, _)| Ok(file.take(BEGINNING).read_to_end(&mut start)?));
    read.is_ok() && embedded::announces(&String::from_utf8_lossy(&start), &ending_of(path))
}

fn ending_of(path: &Path) -> String {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase()
}

/// Reads a file as a tool.
pub fn read(source: &SourceFile, around: &Surroundings<'_>, findings: &mut Findings) -> Reading {
    let name = source.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    let is_part = around.folder.is_some() && !matches!(name, "tool.yaml" | "tool.yml" | "tool.json");
    if name.starts_with('.') || FOREIGN.contains(&name) || is_part {
        return Reading::NotATool;
    }
    let draft = match ending.as_str() {
        "yaml" | "yml" => document(yaml::parse(&source.text, Place::START, findings), around, Sort::Yaml, findings),
        "json" => document(json::parse(&source.text, Place::START, findings), around, Sort::Json, findings),
        _ => embedded::lower(source, around, findings),
    };
    match draft {
        Lowered::Nothing => Reading::NotATool,
        Lowered::Broken => Reading::Broken,
        Lowered::Draft(draft) => manifest::build(*draft, &source.path, around.folder, findings),
    }
}

/// What a spelling made of a file.
pub(super) enum Lowered {
    /// A tool to be.
    Draft(Box<Draft>),
    /// Nothing of ours.
    Nothing,
    /// Unreadable.
    Broken,
}

/// The language of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Yaml,
    Json,
}

fn document(node: Option<Node>, around: &Surroundings<'_>, sort: Sort, findings: &mut Findings) -> Lowered {
    let Some(mut node) = node else { return Lowered::Broken };
    let claims =
        node.find_entry("tool").is_some() || canonical::CLAIMS.iter().any(|key| node.find_entry(key).is_some());
    let is_tool = claims || tool_root::is_spelled(&node);
    // Data in JSON is common beside tools; a YAML file there without any sign of a tool is more
    // likely a mistake, unless it lies among the helpers.
    if !is_tool && (sort == Sort::Json || around.in_lib) {
        return Lowered::Nothing;
    }
    if node.entries().is_none() {
        findings
            .add(
                Code::InvalidType,
                node.place,
                "",
                format!("a tool manifest must be a mapping, not a {}", node.type_name()),
            )
            .suggest("begin with `tool_id:`");
        return Lowered::Broken;
    }
    if tool_root::is_spelled(&node) {
        return Lowered::Draft(Box::new(tool_root::lower(node, findings)));
    }
    let draft = if node.find("executor").is_some_and(|executor| executor.entries().is_some()) {
        let kind = block::lower(&mut node, findings);
        let mut draft = Draft::new(node, Spelling::ExecutorBlock);
        draft.kind = kind;
        draft
    } else if json_schema::is_spelled(&node) {
        let kind = json_schema::derive_kind(&node);
        let mut draft = Draft::new(node, Spelling::JsonSchema);
        draft.kind = kind;
        draft
    } else {
        Draft::new(node, Spelling::Manifest)
    };
    Lowered::Draft(Box::new(draft))
}
