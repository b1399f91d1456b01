//! A tool as the CLI and the MCP server show it: its normalized manifest, its chain and its origin.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::chain;
use crate::item::finding::serialize_path;
use crate::item::id::ItemId;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemStore, Layer};
use crate::item::tool::{
    Isolation, LoadedTool, Origin, Parameter, Spelling, ToolKind, ToolManifest,
};
use crate::item::validate::tool_root;

#[derive(Clone, Debug, Serialize)]
pub struct ToolDescription {
    /// The manifest with defaults: the category from its folder, and the isolation of the resolved
    /// runtime.
    #[serde(flatten)]
    pub manifest: ToolManifest,
    /// The ids from the tool to its primitive; empty when the chain is broken.
    pub chain: Vec<ItemId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_error: Option<String>,
    pub spelling: Spelling,
    /// The schema version of a tool with a `tool:` root, as stated or detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<&'static str>,
    pub source: Layer,
    #[serde(serialize_with = "serialize_path")]
    pub path: PathBuf,
    pub signature: Integrity,
    /// Where each field came from, by dotted path.
    pub origins: BTreeMap<String, Origin>,
}

impl ToolDescription {
    pub fn of(item: &Item, tool: &LoadedTool, store: &ItemStore) -> Self {
        let resolved = chain::resolve(store, tool);
        let isolation = tool
            .manifest
            .isolation
            .or_else(|| default_isolation(tool.manifest.kind));
        let (chain, chain_error) = match &resolved {
            Ok(chain) => (chain.ids(), None),
            Err(err) => (Vec::new(), Some(err.to_string())),
        };
        let origins = tool.origins().into_iter().map(|(field, origin)| {
            (
                field,
                Origin {
                    file: store.roots().display(&origin.file),
                    ..origin
                },
            )
        });
        let mut origins: BTreeMap<String, Origin> = origins.collect();
        schema_origins(&tool.manifest.parameters, &mut origins);
        Self {
            manifest: ToolManifest {
                category: item.category.clone(),
                isolation,
                ..tool.manifest.clone()
            },
            chain,
            chain_error,
            spelling: tool.spelling,
            schema_version: tool_root::schema_version(tool),
            source: item.layer,
            path: item.file.clone(),
            signature: item.integrity.clone(),
            origins,
        }
    }
}

/// Copies the origins of schema properties to the parameters made from them.
fn schema_origins(parameters: &[Parameter], origins: &mut BTreeMap<String, Origin>) {
    for (at, parameter) in parameters.iter().enumerate() {
        for section in ["parameters", "inputs"] {
            let property = format!("{section}.properties.{}", parameter.name);
            let found = [
                ("", origins.get(&property)),
                (".name", origins.get(&property)),
                (".type", origins.get(&format!("{property}.type"))),
                (".default", origins.get(&format!("{property}.default"))),
                (
                    ".description",
                    origins.get(&format!("{property}.description")),
                ),
                (
                    ".required",
                    origins
                        .get(&format!("{section}.required"))
                        .filter(|_| parameter.required),
                ),
            ];
            let found =
                found.map(|(field, origin)| (format!("parameters[{at}]{field}"), origin.cloned()));
            for (field, origin) in found {
                if let Some(origin) = origin {
                    origins.entry(field).or_insert(origin);
                }
            }
        }
    }
}

/// Local processes run at `standard`; no other kind runs project code outside of a sandbox.
pub(super) fn default_isolation(kind: ToolKind) -> Option<Isolation> {
    match kind {
        ToolKind::Script
        | ToolKind::Cli
        | ToolKind::Local
        | ToolKind::McpServer
        | ToolKind::McpTool => Some(Isolation::Standard),
        _ => None,
    }
}
