//! A tool on its way from a spelling to the manifest.
//!
//! A [`Draft`] is the canonical map (the keys of a plain `tool.yaml`) together with what the map
//! itself cannot say. Spellings fill it; only [`manifest`](super::manifest) reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::item::finding::Findings;
use crate::item::node::{Entry, Node};
use crate::problem::Code;

use super::{Origin, Spelling, ToolKind};

/// The canonical map of one tool.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The map; always a map.
    pub(super) node: Node,
    /// How it was written.
    pub(super) spelling: Spelling,
    /// What it must be when it does not say so itself.
    pub(super) kind: Option<ToolKind>,
    /// The keys whose values stand in another file than the tool.
    pub(super) elsewhere: BTreeMap<String, Origin>,
    /// The files beside the tool that gave it fields.
    pub(super) lenders: BTreeSet<PathBuf>,
}

impl Draft {
    /// Starts a draft from a map.
    pub(super) fn new(node: Node, spelling: Spelling) -> Self {
        Self { node, spelling, kind: None, elsewhere: BTreeMap::new(), lenders: BTreeSet::new() }
    }

    /// The name of a field as its author writes it.
    pub(super) fn label<'k>(&self, key: &'k str) -> &'k str {
        match (self.spelling, key) {
            (Spelling::ToolRoot, "tool_id") => "id",
            (Spelling::ToolRoot, "tool_type") => "type",
            _ => key,
        }
    }

    /// The path of a field as its author writes it.
    pub(super) fn path(&self, key: &str) -> String {
        match self.spelling {
            Spelling::ToolRoot => format!("tool.{}", self.label(key)),
            _ => key.to_owned(),
        }
    }
}

/// Adds a field that can be said in several places: what was said first stays, a different second is reported.
pub(super) fn offer(map: &mut Node, entry: Entry, written: &str, findings: &mut Findings) {
    match map.find(&entry.key) {
        None => map.set(&entry.key, entry.place, entry.value),
        Some(_) if entry.value.is_null() => {}
        Some(present) if present.to_json() == entry.value.to_json() => {}
        Some(_) => {
            let message = if written == entry.key {
                format!("`{written}` is given in two places with different values; this one is not used")
            } else {
                format!("`{written}` differs from `{}`, which is given as well and is used", entry.key)
            };
            findings.add(Code::ConflictingField, entry.place, written, message).suggest("keep one of them");
        }
    }
}

/// The value of a key in a map as a map of its own; an empty one where there is none.
pub(super) fn section(map: &mut Node, key: &str) -> Node {
    match map.take(key) {
        Some(entry) if entry.value.entries().is_some() => entry.value,
        Some(entry) if entry.value.is_null() => Node::map(Vec::new(), entry.place),
        Some(entry) => {
            // Left in place: the manifest reports that it should have been a mapping.
            map.set(key, entry.place, entry.value);
            Node::map(Vec::new(), map.place)
        }
        None => Node::map(Vec::new(), map.place),
    }
}

/// Puts a section back, unless it is empty or something of another type is there.
pub(super) fn put_section(map: &mut Node, key: &str, section: Node) {
    let filled = section.entries().is_some_and(|entries| !entries.is_empty());
    if filled && map.find(key).is_none() {
        let place = section.place;
        map.set(key, place, section);
    }
}
