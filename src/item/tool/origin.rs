//! Where each field of a tool came from.
//!
//! Origins are computed from the canonical map on demand: validating thousands of tools does not
//! need them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::LoadedTool;
use crate::item::document::MAX_DEPTH;
use crate::item::finding::Finding;
use crate::item::node::{Data, Node};
use crate::item::position::Position;
pub use crate::problem::Origin;

impl LoadedTool {
    /// By dotted path (`config.method`, `parameters[0].type`).
    pub fn origins(&self) -> BTreeMap<String, Origin> {
        let mut origins = self.elsewhere.clone();
        collect_origins(&self.node, "", 0, &mut |path, place| {
            let key = path.split(['.', '[']).next().unwrap_or_default();
            let origin = self.elsewhere.get(key).cloned();
            origins
                .entry(path)
                .or_insert_with(|| origin.unwrap_or_else(|| Origin::new(self.file.clone(), place)));
        });
        origins
    }
}

/// Passes the position of every field below a node, by dotted path.
pub(super) fn collect_origins(
    node: &Node,
    path: &str,
    depth: usize,
    record: &mut impl FnMut(String, Position),
) {
    if depth >= MAX_DEPTH {
        return;
    }
    match &node.data {
        Data::Map(entries) => {
            for entry in entries {
                let path = if path.is_empty() {
                    entry.key.clone()
                } else {
                    format!("{path}.{}", entry.key)
                };
                record(path.clone(), entry.place);
                collect_origins(&entry.value, &path, depth + 1, record);
            }
        }
        Data::List(elements) => {
            for (at, element) in elements.iter().enumerate() {
                let path = format!("{path}[{at}]");
                record(path.clone(), element.place);
                collect_origins(element, &path, depth + 1, record);
            }
        }
        _ => {}
    }
}

impl Origin {
    pub fn new(file: PathBuf, place: Position) -> Self {
        Self {
            file,
            line: place.line,
            column: place.column,
        }
    }

    pub fn of(finding: &Finding) -> Self {
        Self {
            file: finding.file.clone(),
            line: finding.line,
            column: finding.column,
        }
    }
}
