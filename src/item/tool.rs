//! Tools: one model, five spellings.
//!
//! Each spelling is lowered to one canonical [`Node`](super::node::Node) map with the keys of a
//! plain `tool.yaml`; [`manifest`] turns that map into a [`ToolManifest`]. A spelling never builds
//! a manifest itself, so rules and defaults exist once.

mod block;
mod caches;
mod canonical;
pub(crate) mod comment;
mod demands;
mod draft;
mod embedded;
pub(crate) mod entrypoint;
mod fields;
mod json_schema;
mod kind;
mod manifest;
mod origin;
mod parameters;
pub(crate) mod python;
mod reading;
mod render;
mod results;
mod tool_root;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::ItemId;
use crate::words::words;

pub use caches::{DeclaredCache, KnownCache};
pub(crate) use canonical::KEYS;
pub use kind::stand_in;
pub use origin::Origin;
pub use reading::{Root, ToolLocation, ToolReading, is_tool_by_name, may_be_tool, read};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolManifest {
    pub tool_id: ItemId,
    /// As written, e.g. `python`; empty when it was left out.
    pub tool_type: String,
    pub kind: ToolKind,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub version: String,
    /// May be empty.
    pub description: String,
    /// May be empty.
    pub category: String,
    /// `None` for primitives, knowledge and the like.
    pub executor: Option<ItemId>,
    /// With canonical keys (`url`, `entrypoint`, `timeout`).
    pub config: Map<String, Value>,
    /// In order.
    pub parameters: Vec<Parameter>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub outputs: ToolOutputs,
    /// `None` when the manifest does not say.
    pub mutates_state: Option<bool>,
    /// The requested level; the default depends on the resolved runtime.
    pub isolation: Option<Isolation>,
    pub requires: Requires,
    pub dependencies: Vec<String>,
    /// Globs it may write; `None` when it does not say.
    pub writes: Option<Vec<String>>,
    /// Caches outside of the project that it may write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<DeclaredCache>,
    pub tags: Vec<String>,
    pub author: Option<String>,
    /// For the `tool:` spelling and MCP servers.
    pub commands: Vec<String>,
    /// Schema 2.0 sections (`executable_knowledge`, `api_complexity`, `anti_patterns`, `examples`,
    /// …) as written.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub knowledge: Map<String, Value>,
    /// Whether it was found in `.ai/scripts/` without metadata.
    pub legacy: bool,
}

impl ToolManifest {
    /// The tools that a meta tool may call, as it names them.
    pub fn aggregates(&self) -> Vec<&str> {
        let listed = self
            .config
            .get("aggregates")
            .filter(|_| self.kind == ToolKind::Meta)
            .and_then(Value::as_array);
        listed
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }
}

/// A manifest with the origin of its fields.
#[derive(Clone, Debug)]
pub struct LoadedTool {
    pub manifest: ToolManifest,
    pub spelling: Spelling,
    pub file: PathBuf,
    pub folder: Option<PathBuf>,
    /// Fields whose values come from another file, by key or dotted path.
    pub(crate) elsewhere: BTreeMap<String, Origin>,
    /// Files that provided fields but are not part of the tool, so no stamp covers them: extractor
    /// rules, and the settings that these read.
    pub lenders: BTreeSet<PathBuf>,
    /// The canonical map behind the manifest, with positions.
    pub node: super::node::Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Hard-coded in piton: `subprocess`, `http_client`.
    Primitive,
    /// Runs scripts of one language.
    Runtime,
    /// A script with an entrypoint.
    Script,
    Api,
    McpServer,
    McpTool,
    Docker,
    Cli,
    /// A local program of the `tool:` spelling.
    Local,
    Meta,
    /// A directive described by a manifest.
    Directive,
    /// A knowledge entry described by a manifest.
    Knowledge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spelling {
    /// `tool.yaml` or a single YAML file with `executor: <id>`.
    Manifest,
    /// The same with an executor block.
    ExecutorBlock,
    /// Metadata inside the script.
    Embedded,
    /// `inputs` and `outputs` are JSON Schemas.
    JsonSchema,
    /// A `tool:` root.
    ToolRoot,
    /// A script without metadata below `.ai/scripts/`.
    LegacyScript,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolOutputs {
    /// `json`, `text` or `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parser: Option<String>,
    /// The name of a schema in `.ai/schemas/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Whether a result with `success: false` is an ordinary one; otherwise the call has failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_success: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requires {
    /// Commands on `PATH`.
    pub commands: Vec<String>,
    pub environment: Vec<String>,
    pub mcp: Vec<String>,
}

/// Weakest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Supervised, with a scrubbed environment.
    #[default]
    Trusted,
    /// Kernel restrictions where the kernel supports them.
    Standard,
    /// Also without the user's home; or a container.
    Sandboxed,
    /// Also without any network.
    Restricted,
}

words!(Isolation:
    Trusted "trusted",
    Standard "standard",
    Sandboxed "sandboxed",
    Restricted "restricted"
);

#[cfg(test)]
mod tests;
