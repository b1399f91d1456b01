//! The spelling in which a script describes itself.
//!
//! The script's own metadata comes first: assignments of a Python module, fields in its docstring
//! or in the comment header of any language. The project's extractors add missing fields; then
//! Python's `main`, the docstring and the file name are used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::item::extractor::Extractor;
use crate::item::finding::Findings;
use crate::item::node::{Data, Node, NodeEntry};
use crate::item::position::Position;
use crate::item::signature::{is_program, mark};
use crate::item::source::SourceFile;
use crate::item::yaml;
use crate::problem::Code;

use super::comment::{self, CommentLine};
use super::draft::{ToolDraft, offer, put_section, section};
use super::python::{self, PythonModule};
use super::reading::{Lowered, Root, ToolLocation};
use super::{Spelling, ToolKind, block, canonical, kind};

/// Extensions of scripts: one without metadata gets a finding. Other programs are tools only if
/// they say so.
pub(super) const SCRIPTS: [&str; 30] = [
    "py", "sh", "bash", "zsh", "fish", "js", "mjs", "cjs", "ts", "mts", "cts", "rb", "pl", "pm",
    "php", "lua", "r", "go", "rs", "ps1", "jl", "ex", "exs", "swift", "kt", "kts", "scala", "tcl",
    "awk", "nu",
];

/// Python assignments and their canonical names.
const ASSIGNMENTS: [(&str, &str); 32] = [
    ("__tool_id__", "tool_id"),
    ("__tool_type__", "tool_type"),
    ("__version__", "version"),
    ("__executor_id__", "executor"),
    ("__executor__", "executor"),
    ("__category__", "category"),
    ("__tool_name__", "name"),
    ("__tool_description__", "description"),
    ("__description__", "description"),
    ("__mutates_state__", "mutates_state"),
    ("__isolation__", "isolation"),
    ("__writes__", "writes"),
    ("__caches__", "caches"),
    ("__requires__", "requires"),
    ("__dependencies__", "dependencies"),
    ("__timeout__", "timeout"),
    ("__tags__", "tags"),
    ("__author__", "author"),
    ("__commands__", "commands"),
    ("__parameters__", "parameters"),
    ("__inputs__", "inputs"),
    ("__outputs__", "outputs"),
    ("__required_scope__", "required_scope"),
    ("__anchor__", "anchor"),
    ("__verify_deps__", "verify_deps"),
    ("__config__", "config"),
    ("__config_schema__", "config_schema"),
    ("__env_config__", "env_config"),
    ("CONFIG", "config"),
    ("CONFIG_SCHEMA", "config_schema"),
    ("ENV_CONFIG", "env_config"),
    ("VALIDATION", "validation"),
];

/// Fields that a program needs to count as a tool.
const ANNOUNCING: [&str; 2] = ["tool_id", "tool_type"];

/// Whether the start of a file makes it worth reading as a tool.
pub(super) fn announces(beginning: &str, ending: &str) -> bool {
    beginning.starts_with("#!")
        || is_program(ending)
            && comment::header(beginning).iter().any(|line| {
                ANNOUNCING
                    .iter()
                    .any(|key| line.text.trim_start().starts_with(&format!("{key}:")))
            })
}

/// Lowers a script to the canonical map, if it is a tool.
pub(super) fn lower(
    source: &SourceFile,
    around: &ToolLocation<'_>,
    findings: &mut Findings,
) -> Lowered {
    let mut told = findings.clone();
    let lowered = examine(source, around, &mut told);
    // Findings count only if the file is a tool.
    if !matches!(lowered, Lowered::Nothing) {
        *findings = told;
    }
    lowered
}

fn examine(source: &SourceFile, around: &ToolLocation<'_>, findings: &mut Findings) -> Lowered {
    let Some(name) = source.path.file_name().and_then(|name| name.to_str()) else {
        return Lowered::Nothing;
    };
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) => (stem, ending.to_ascii_lowercase()),
        None => (name, String::new()),
    };
    let extractors = around
        .extractors
        .iter()
        .filter(|extractor| extractor.claims(&ending))
        .collect::<Vec<_>>();
    let is_script = SCRIPTS.contains(&ending.as_str())
        || source.text.starts_with("#!")
        || extractors.iter().any(|extractor| extractor.names(&ending));
    if !(is_script || is_program(&ending)) || name == "__init__.py" {
        return Lowered::Nothing;
    }
    let mut map = Node::map(Vec::new(), Position::START);
    let mut module = PythonModule::default();
    let mut lenders = BTreeSet::new();
    if ending == "py" {
        module = assignments(source, &extractors, &mut map, &mut lenders, findings);
    }
    let docstring = std::mem::take(&mut module.docstring);
    let header = comment::header(&source.text);
    let Some(mut prose) = header_fields((&docstring, &header), &ending, &mut map, findings) else {
        return Lowered::Broken;
    };
    if !is_script && !ANNOUNCING.iter().any(|key| map.find_entry(key).is_some()) {
        return Lowered::Nothing;
    }
    let mut draft = ToolDraft::new(map, Spelling::Embedded);
    for extractor in extractors {
        extractor.fill(source, &mut draft.node, &mut draft.elsewhere, &mut lenders);
    }
    // Rules may find the executor, from which the type follows.
    if draft.node.find("tool_type").is_none()
        && let Some(executor) = draft.node.find("executor")
        && !lenders.is_empty()
        && executor.as_text().and_then(kind::executed_by) == Some(ToolKind::Script)
    {
        let place = executor.place;
        draft
            .node
            .set("tool_type", place, Node::text("script", place));
    }
    draft.lenders = lenders;
    prose.retain(|line| !is_pragma(&line.text));
    let claims = canonical::CLAIMS
        .iter()
        .any(|key| draft.node.find_entry(key).is_some());
    let speaks = draft
        .node
        .entries()
        .is_some_and(|entries| !entries.is_empty());
    if around.in_lib && !claims {
        return Lowered::Nothing;
    }
    if around.root == Root::Scripts && draft.node.find("tool_type").is_none() {
        if !assume_legacy(&mut draft, &ending) {
            missing_metadata(stem, &ending, findings);
            return Lowered::Broken;
        }
    } else if !speaks {
        if let Some(place) = module.broken {
            findings
                .add(
                    Code::SyntaxError,
                    place,
                    "",
                    "the file cannot be parsed as Python",
                )
                .suggest("fix the script here, or just above");
        }
        missing_metadata(stem, &ending, findings);
        return Lowered::Broken;
    }
    complete(&mut draft, &module, &prose, stem, name);
    Lowered::Draft(Box::new(draft))
}

/// Reads a Python module and offers its assignments as fields.
fn assignments(
    source: &SourceFile,
    extractors: &[&Extractor],
    map: &mut Node,
    lenders: &mut BTreeSet<PathBuf>,
    findings: &mut Findings,
) -> PythonModule {
    // `CONFIG` is a common name: it counts only in a file that claims to be a tool.
    let claims = ["tool_type", "tool_id", "executor_id", "__executor__"]
        .iter()
        .any(|word| source.text.contains(word));
    let may_claim = claims || !extractors.is_empty();
    let wanted = |name: &str| {
        (may_claim || name.starts_with("__")) && ASSIGNMENTS.iter().any(|(known, _)| *known == name)
    };
    let mut module = python::read(&source.text, wanted, findings);
    let is_plain = |entry: &NodeEntry| !entry.key.starts_with("__");
    if !claims && module.assignments.iter().any(is_plain) {
        let files = extractors.iter().map(|extractor| extractor.file());
        lenders.extend(files.map(Path::to_path_buf));
    }
    for entry in std::mem::take(&mut module.assignments) {
        let Some((_, key)) = ASSIGNMENTS.iter().find(|(known, _)| *known == entry.key) else {
            continue;
        };
        let written = entry.key.clone();
        let key = (*key).to_owned();
        offer(map, NodeEntry { key, ..entry }, &written, findings);
    }
    module
}

/// Reads the fields in the docstring or, without them, in the comments at the top. Returns the
/// other lines, which describe the tool; `None` if the fields cannot be read.
fn header_fields(
    (docstring, header): (&[CommentLine], &[CommentLine]),
    ending: &str,
    map: &mut Node,
    findings: &mut Findings,
) -> Option<Vec<CommentLine>> {
    let mut prose = Vec::new();
    let mut found = false;
    for (lines, is_docstring) in [(docstring, true), (header, false)] {
        match if found {
            HeaderReading::Nothing
        } else {
            fields(lines, map, findings)
        } {
            // Comments above a Python module are licences and the like, not descriptions.
            HeaderReading::Nothing if is_docstring || ending != "py" => {
                prose.extend(lines.iter().cloned());
            }
            HeaderReading::Nothing => {}
            HeaderReading::Fields(others) => {
                found = true;
                prose.extend(others);
            }
            HeaderReading::Broken => return None,
        }
    }
    Some(prose)
}

/// Whether a comment is a directive for programs or a licence.
fn is_pragma(text: &str) -> bool {
    const BEGINNINGS: [&str; 11] = [
        "-*-",
        "vim:",
        "coding:",
        "encoding:",
        "frozen_string_literal:",
        "shellcheck ",
        "eslint",
        "@ts-",
        "SPDX-",
        "Copyright",
        "copyright",
    ];
    BEGINNINGS
        .iter()
        .any(|beginning| text.trim_start().starts_with(beginning))
}

/// The result of reading a header.
enum HeaderReading {
    Nothing,
    /// Fields, with the remaining prose.
    Fields(Vec<CommentLine>),
    Broken,
}

/// Adds the fields among the lines of a header.
fn fields(lines: &[CommentLine], map: &mut Node, findings: &mut Findings) -> HeaderReading {
    let Some(found) = comment::find_fields(lines) else {
        return HeaderReading::Nothing;
    };
    let Some(mut node) = yaml::parse(&found.yaml, found.place, findings) else {
        return HeaderReading::Broken;
    };
    block::lower(&mut node, findings);
    if let Data::Map(entries) = node.data {
        for entry in entries {
            let written = entry.key.clone();
            let key = if written == "executor_id" {
                "executor".to_owned()
            } else {
                entry.key
            };
            offer(
                map,
                NodeEntry {
                    key,
                    place: entry.place,
                    value: entry.value,
                },
                &written,
                findings,
            );
        }
    }
    HeaderReading::Fields(found.prose)
}

/// Completes a script of `.ai/scripts/`; false when its language is unknown.
fn assume_legacy(draft: &mut ToolDraft, ending: &str) -> bool {
    let (tool_type, runtime) = match ending {
        "py" => ("python", "python_runtime"),
        "sh" | "bash" => ("bash", "bash_runtime"),
        _ => return false,
    };
    draft.spelling = Spelling::LegacyScript;
    for (key, value) in [
        ("tool_type", tool_type),
        ("executor", runtime),
        ("version", "0.0.0"),
    ] {
        if draft.node.find(key).is_none() {
            draft
                .node
                .set(key, Position::START, Node::text(value, Position::START));
        }
    }
    true
}

/// Adds what follows from the script itself.
fn complete(
    draft: &mut ToolDraft,
    module: &PythonModule,
    prose: &[CommentLine],
    stem: &str,
    name: &str,
) {
    let map = &mut draft.node;
    if map.find("tool_id").is_none() {
        map.set(
            "tool_id",
            Position::START,
            Node::text(stem, Position::START),
        );
    }
    if map.find("description").is_none()
        && let Some(description) = comment::first_paragraph(prose)
            .or_else(|| comment::first_paragraph(&module.main_docstring))
    {
        map.set("description", description.place, description);
    }
    if map.find("parameters").is_none()
        && map.find("inputs").is_none()
        && let Some(main) = &module.main
    {
        map.set("inputs", main.place, main.clone());
    }
    let written = map
        .find("tool_type")
        .and_then(Node::as_text)
        .unwrap_or_default();
    let executor = map.find("executor").and_then(Node::as_text);
    let kind = kind::of(written)
        .or(kind::in_the_wild(written).map(|(kind, _)| kind))
        .or(executor.and_then(kind::executed_by));
    if matches!(kind, Some(ToolKind::Script | ToolKind::Local)) {
        let mut config = section(map, "config");
        if config.find("entrypoint").is_none() && config.find("entry_point").is_none() {
            config.set(
                "entrypoint",
                Position::START,
                Node::text(name, Position::START),
            );
        }
        put_section(map, "config", config);
    }
}

fn missing_metadata(stem: &str, ending: &str, findings: &mut Findings) {
    let suggestion = if ending == "py" {
        "add to the top of the file: `__version__ = \"1.0.0\"`, `__tool_type__ = \"python\"`, \
         `__executor_id__ = \"python_runtime\"`, `__category__ = \"…\"`; helpers belong below `lib/`"
            .to_owned()
    } else {
        let mark = match (mark(ending), ending) {
            (_, "php") => "//",
            (Some(mark), _) => mark.trim_end(),
            (None, _) => "#",
        };
        let runtime = match ending {
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => "node_runtime",
            _ => "bash_runtime",
        };
        format!(
            "add to the top of the file: `{mark} tool_id: {}`, `{mark} tool_type: script`, \
             `{mark} version: 1.0.0`, `{mark} executor: {runtime}`; helpers belong below `lib/`",
            stem.escape_debug()
        )
    };
    findings
        .add(
            Code::MissingMetadata,
            Position::START,
            "",
            "Invalid metadata: the script does not describe itself",
        )
        .suggest(suggestion);
}
