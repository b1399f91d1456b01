//! The shapes of settings that several kinds of tools have, and the file of a manifest that describes a document.

use std::fs;
use std::path::{Path, PathBuf};

use super::entrypoint;
use crate::item::finding::{Finding, Findings, Severity};
use crate::item::node::{Data, Node};
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::tool::{LoadedTool, ToolKind};
use crate::item::validate::place_of;
use crate::item::{directive, knowledge};
use crate::problem::Code;

/// Checks `headers` and `env`, which are mappings, and `args`, which is a list.
pub(super) fn settings(tool: &LoadedTool, findings: &mut Findings) {
    // Containers take an image's own arguments and variables, in several forms.
    if tool.manifest.kind == ToolKind::Docker {
        return;
    }
    let Some(config) = tool.node.find("config") else {
        return;
    };
    for (key, example) in [
        ("headers", "headers: {Accept: application/json}"),
        ("env", "env: {LEVEL: debug}"),
    ] {
        let Some(value) = config.find(key).filter(|value| !value.is_null()) else {
            continue;
        };
        let path = format!("config.{key}");
        match value.entries() {
            None => wrong(value, &path, "a mapping", example, findings),
            Some(entries) => {
                for entry in entries.iter().filter(|entry| !is_scalar(&entry.value)) {
                    let path = format!("{path}.{}", entry.key);
                    wrong(&entry.value, &path, "a text", example, findings);
                }
            }
        }
    }
    let Some(args) = config.find("args").filter(|value| !value.is_null()) else {
        return;
    };
    let example = "args: [--verbose, \"{name}\"]";
    match args.elements() {
        None => wrong(args, "config.args", "a list", example, findings),
        Some(elements) => {
            for (at, element) in elements.iter().enumerate() {
                if !is_scalar(element) || element.is_null() {
                    let path = format!("config.args[{at}]");
                    wrong(element, &path, "a text", example, findings);
                }
            }
        }
    }
}

fn is_scalar(value: &Node) -> bool {
    !matches!(value.data, Data::Map(_) | Data::List(_))
}

fn wrong(value: &Node, path: &str, wanted: &str, example: &str, findings: &mut Findings) {
    let message = format!("{path} must be {wanted}, not a {}", value.type_name());
    findings
        .add(Code::InvalidType, value.place, path, message)
        .suggest(format!("e.g. `{example}`"));
}

/// Checks the Markdown file of a manifest that describes a directive or knowledge.
pub(super) fn document(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let kind = tool.manifest.kind;
    let (what, folder) = match kind {
        ToolKind::Directive => ("directive", ".ai/directives/"),
        _ => ("knowledge", ".ai/knowledge/"),
    };
    let file = if tool.manifest.config.contains_key("entrypoint") {
        entrypoint::find_entrypoint(tool, findings)
    } else {
        let found = beside(tool);
        if found.is_none() {
            let message = format!("a manifest of type {what} needs its Markdown file");
            findings
                .add(
                    Code::MissingEntrypoint,
                    place_of(&tool.node, "tool_type"),
                    "config.entrypoint",
                    message,
                )
                .suggest(format!(
                    "put it beside the manifest as `{}.md`, or write the item below `{folder}` without a manifest",
                    tool.manifest.tool_id
                ));
        }
        found
    };
    let Some(file) = file else { return };
    let shown = project
        .and_then(|root| file.strip_prefix(root).ok())
        .unwrap_or(&file);
    let mut own = Findings::new(shown, findings.strength());
    if let Some(source) = SourceFile::load(&file, MAX_TEXT, &mut own) {
        match kind {
            ToolKind::Directive => drop(directive::parse(&source, &mut own)),
            _ => drop(knowledge::parse(&source, &mut own)),
        }
    }
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    findings.extend(own.into_vec().into_iter().filter(is_error));
}

/// The Markdown file in the folder of a manifest, or beside it with the same name.
fn beside(tool: &LoadedTool) -> Option<PathBuf> {
    let Some(folder) = &tool.folder else {
        return Some(tool.file.with_extension("md")).filter(|file| file.is_file());
    };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|ending| ending == "md") && file.is_file())
        .filter(|file| {
            let stem = file.file_stem().unwrap_or_default();
            !stem.eq_ignore_ascii_case("readme")
        })
        .collect();
    files.sort();
    files.into_iter().next()
}
