//! A tool as every front door shows it: its normalised manifest, its chain and where it came from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::chain;
use crate::item::finding::serialize_path;
use crate::item::id::ItemId;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemStore, Layer};
use crate::item::tool::{Isolation, LoadedTool, Origin, Outputs, Parameter, Requires, Spelling, ToolKind};

/// Everything there is to know about a tool before it runs.
#[derive(Clone, Debug, Serialize)]
pub struct ToolDescription {
    /// Its id.
    pub tool_id: ItemId,
    /// Its type as it was written.
    pub tool_type: String,
    /// What it is.
    pub kind: ToolKind,
    /// The name for people, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    pub version: String,
    /// What it does.
    pub description: String,
    /// Its category: what it says, else the folder it lies in.
    pub category: String,
    /// What runs it.
    pub executor: Option<ItemId>,
    /// The ids from the tool to its primitive; empty when the chain is broken.
    pub chain: Vec<ItemId>,
    /// Why the chain cannot be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_error: Option<String>,
    /// The settings of its kind.
    pub config: Map<String, Value>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// The JSON Schema of its parameters.
    pub input_schema: Value,
    /// The JSON Schema of its result.
    pub output_schema: Option<Value>,
    /// How its result is read.
    pub outputs: Outputs,
    /// What the manifest says about changing state.
    pub mutates_state: Option<bool>,
    /// The isolation asked for, or the default of the resolved runtime.
    pub isolation: Option<Isolation>,
    /// What must be there before it runs.
    pub requires: Requires,
    /// Packages it depends on.
    pub dependencies: Vec<String>,
    /// Globs it may write.
    pub writes: Option<Vec<String>>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Who wrote it.
    pub author: Option<String>,
    /// The commands it offers.
    pub commands: Vec<String>,
    /// Schema 2.0 sections, as written.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub knowledge: Map<String, Value>,
    /// Whether it is a script without metadata of its own.
    pub legacy: bool,
    /// How it was written.
    pub spelling: Spelling,
    /// The layer it comes from.
    pub source: Layer,
    /// The file that describes it.
    #[serde(serialize_with = "serialize_path")]
    pub path: PathBuf,
    /// Whether its content is what was stamped.
    pub signature: Integrity,
    /// Where each field came from, by dotted path.
    pub origins: BTreeMap<String, Origin>,
}

impl ToolDescription {
    /// Describes a tool of the store.
    pub fn of(item: &Item, tool: &LoadedTool, store: &ItemStore) -> Self {
        let manifest = tool.manifest.clone();
        let resolved = chain::resolve(store, tool);
        let runtime = resolved.as_ref().ok().and_then(|chain| chain.runtime()).map(ItemId::as_str);
        let isolation = manifest.isolation.or_else(|| default_isolation(manifest.kind, runtime));
        let (chain, chain_error) = match &resolved {
            Ok(chain) => (chain.ids(), None),
            Err(err) => (Vec::new(), Some(err.to_string())),
        };
        let origins = tool
            .origins()
            .into_iter()
            .map(|(field, origin)| (field, Origin { file: store.roots().display(&origin.file), ..origin }));
        Self {
            tool_id: manifest.tool_id,
            tool_type: manifest.tool_type,
            kind: manifest.kind,
            name: manifest.name,
            version: manifest.version,
            description: manifest.description,
            category: item.category.clone(),
            executor: manifest.executor,
            chain,
            chain_error,
            config: manifest.config,
            parameters: manifest.parameters,
            input_schema: manifest.input_schema,
            output_schema: manifest.output_schema,
            outputs: manifest.outputs,
            mutates_state: manifest.mutates_state,
            isolation,
            requires: manifest.requires,
            dependencies: manifest.dependencies,
            writes: manifest.writes,
            tags: manifest.tags,
            author: manifest.author,
            commands: manifest.commands,
            knowledge: manifest.knowledge,
            legacy: manifest.legacy,
            spelling: tool.spelling,
            source: item.layer,
            path: item.file.clone(),
            signature: item.integrity.clone(),
            origins: origins.collect(),
        }
    }
}

/// Python is trusted by default, other local processes run at `standard`; nothing else runs here.
fn default_isolation(kind: ToolKind, runtime: Option<&str>) -> Option<Isolation> {
    match (kind, runtime) {
        (_, Some("python_runtime")) => Some(Isolation::Trusted),
        (ToolKind::Script | ToolKind::Cli | ToolKind::Local | ToolKind::McpServer | ToolKind::McpTool, _) => {
            Some(Isolation::Standard)
        }
        _ => None,
    }
}
