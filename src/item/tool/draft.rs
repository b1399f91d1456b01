//! A tool between its spelling and the manifest.
//!
//! A [`ToolDraft`] is the canonical map (the keys of a plain `tool.yaml`) plus what the map cannot
//! express. Spellings fill it; only [`manifest`](super::manifest) reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::item::finding::Findings;
use crate::item::node::{Node, NodeEntry};
use crate::problem::Code;

use super::{Origin, Spelling, ToolKind};

#[derive(Clone, Debug)]
pub(super) struct ToolDraft {
    /// Always a map.
    pub(super) node: Node,
    pub(super) spelling: Spelling,
    /// The kind, if the tool does not state it.
    pub(super) kind: Option<ToolKind>,
    /// Keys whose values come from another file.
    pub(super) elsewhere: BTreeMap<String, Origin>,
    /// Files beside the tool that provided fields.
    pub(super) lenders: BTreeSet<PathBuf>,
}

impl ToolDraft {
    pub(super) fn new(node: Node, spelling: Spelling) -> Self {
        Self {
            node,
            spelling,
            kind: None,
            elsewhere: BTreeMap::new(),
            lenders: BTreeSet::new(),
        }
    }

    /// The name of a field in this spelling.
    pub(super) fn label<'k>(&self, key: &'k str) -> &'k str {
        match (self.spelling, key) {
            (Spelling::ToolRoot, "tool_id") => "id",
            (Spelling::ToolRoot, "tool_type") => "type",
            _ => key,
        }
    }

    /// The path of a field in this spelling.
    pub(super) fn path(&self, key: &str) -> String {
        match self.spelling {
            Spelling::ToolRoot => format!("tool.{}", self.label(key)),
            _ => key.to_owned(),
        }
    }
}

/// Adds a field that may be given in several places: the first value stays, a different second one
/// is reported.
pub(super) fn offer(map: &mut Node, entry: NodeEntry, written: &str, findings: &mut Findings) {
    match map.find(&entry.key) {
        None => map.set(&entry.key, entry.place, entry.value),
        Some(_) if entry.value.is_null() => {}
        Some(present) if present.to_json() == entry.value.to_json() => {}
        Some(_) => {
            let message = if written == entry.key {
                format!(
                    "`{written}` is given in two places with different values; this one is not used"
                )
            } else {
                format!(
                    "`{written}` differs from `{}`, which is given as well and is used",
                    entry.key
                )
            };
            findings
                .add(Code::ConflictingField, entry.place, written, message)
                .suggest("keep one of them");
        }
    }
}

/// The value of a key as a map; empty if there is none.
pub(super) fn section(map: &mut Node, key: &str) -> Node {
    match map.take(key) {
        Some(entry) if entry.value.entries().is_some() => entry.value,
        Some(entry) if entry.value.is_null() => Node::map(Vec::new(), entry.place),
        Some(entry) => {
            // Left in place: the manifest reports that it must be a mapping.
            map.set(key, entry.place, entry.value);
            Node::map(Vec::new(), map.place)
        }
        None => Node::map(Vec::new(), map.place),
    }
}

/// Puts a section back, unless it is empty or another type is there.
pub(super) fn put_section(map: &mut Node, key: &str, section: Node) {
    let filled = section.entries().is_some_and(|entries| !entries.is_empty());
    if filled && map.find(key).is_none() {
        let place = section.place;
        map.set(key, place, section);
    }
}
