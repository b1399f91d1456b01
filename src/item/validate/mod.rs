//! The rules: what an item must say beyond being readable.
//!
//! Everything here looks at one item and the store around it and adds findings; nothing stops at the
//! first. Adding a rule means one function here and one section in `docs/reference/codes.md`. Rules
//! that need executor chains or interpreters live in [`crate::validation`], which joins them.

mod directive;
mod knowledge;
pub mod schema;
mod tool;
pub mod tool_root;

use std::path::PathBuf;

use super::code::Code;
use super::finding::{Finding, Findings, Severity};
use super::node::Node;
use super::place::Place;
use super::signature::Integrity;
use super::store::{Content, Item, ItemStore};
use super::tool::{LoadedTool, Spelling};

/// What an unsigned item is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsigned {
    /// Worth a warning.
    #[default]
    Warned,
    /// Refused.
    Refused,
}

/// Checks one item against every rule.
pub fn check(item: &Item, store: &ItemStore, unsigned: Unsigned, findings: &mut Findings) {
    category(item, findings);
    match &item.content {
        Content::Tool(tool) => {
            tool::check(tool, store.roots().project.as_deref(), findings);
            if tool.spelling == Spelling::ToolRoot {
                tool_root::check(tool, findings);
            }
        }
        Content::Directive(directive) => directive::check(directive, store, findings),
        Content::Knowledge(entry) => knowledge::check(entry, findings),
    }
    integrity(item, unsigned, findings);
}

/// The file a tool starts with, if it has one and it can be read.
pub fn entrypoint(tool: &LoadedTool) -> Option<PathBuf> {
    // Whatever is wrong with it was found by `check`.
    find_entrypoint(tool).ok().flatten()
}

/// The file a tool starts with, or what is wrong with it.
pub fn find_entrypoint(tool: &LoadedTool) -> Result<Option<PathBuf>, Box<Finding>> {
    let mut findings = Findings::new(&tool.file, super::finding::Strength::Lenient);
    let found = tool::entrypoint::find_entrypoint(tool, &mut findings);
    match findings.into_vec().pop() {
        Some(finding) if found.is_none() => Err(Box::new(finding)),
        _ => Ok(found),
    }
}

/// The place of a dotted path in a document, or of the nearest thing above it that exists.
pub fn place_of(node: &Node, path: &str) -> Place {
    let mut current = node;
    for part in path.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        let next = match part.parse::<usize>() {
            Ok(at) => current.elements().and_then(|elements| elements.get(at)),
            Err(_) => current.find_entry(part).map(|entry| &entry.value),
        };
        match next {
            Some(value) => current = value,
            None => break,
        }
    }
    current.place
}

fn required(tool: &LoadedTool, path: &str, message: &str, findings: &mut Findings) {
    findings
        .add(Code::MissingRequiredField, place_of(&tool.node, path), path, message)
        .suggest(format!("add `{path}`"));
}

fn category(item: &Item, findings: &mut Findings) {
    if !item.folder_category.is_empty() && item.category != item.folder_category {
        findings
            .add(
                Code::CategoryMismatch,
                item.place_of("category"),
                "category",
                format!("category '{}' differs from the folder '{}'", item.category, item.folder_category),
            )
            .suggest(format!("write `{}`, or move the file", item.folder_category));
    }
}

fn integrity(item: &Item, unsigned: Unsigned, findings: &mut Findings) {
    match &item.integrity {
        Integrity::Valid { .. } => {}
        Integrity::Unsigned => {
            let severity = match unsigned {
                Unsigned::Warned => Severity::Warning,
                Unsigned::Refused => Severity::Error,
            };
            findings
                .add(Code::Unsigned, Place::START, "", format!("{} `{}` is not signed", item.kind(), item.id))
                .with_severity(severity)
                .suggest("read it, then stamp it: a comment `kiwi-mcp:validated:<UTC time>Z:<sha256>` as first line");
        }
        Integrity::Mismatch { stamped, actual } => {
            findings
                .add(
                    Code::HashMismatch,
                    Place::START,
                    "",
                    format!("Content hash mismatch: stamped {}…, found {}…", head(stamped), head(actual)),
                )
                .suggest("look at what changed since it was signed, then sign it again");
        }
        Integrity::Foreign { kind } => {
            findings
                .add(Code::ForeignStamp, Place::START, "", format!("{kind}: integrity not checked"))
                .suggest("sign it again to have its whole content covered");
        }
        Integrity::Invalid { reason, line } => {
            findings
                .add(Code::InvalidStamp, Place { line: *line, column: 1 }, "", *reason)
                .suggest("remove it, read the item, and stamp it again in the first line");
        }
    }
}

fn head(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
