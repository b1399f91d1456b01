//! Tools: one model, five spellings.
//!
//! Each spelling is lowered to one canonical [`Node`](super::node::Node) map, the keys of which are
//! those of a plain `tool.yaml`; [`manifest`] turns that map into a [`ToolManifest`]. A spelling
//! never builds a manifest by itself, so that rules and defaults exist once.

mod block;
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
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::id::ItemId;

pub(crate) use canonical::KEYS;
pub use origin::Origin;
pub use reading::{Reading, Root, Surroundings, is_tool_by_name, may_be_tool, read};

/// A tool, whatever it was written as.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolManifest {
    /// How items name it.
    pub tool_id: ItemId,
    /// The type as it was written, e.g. `python`; empty when it was left out.
    pub tool_type: String,
    /// What it is.
    pub kind: ToolKind,
    /// The name for people, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    pub version: String,
    /// What it does; may be empty.
    pub description: String,
    /// Its category; may be empty.
    pub category: String,
    /// The tool that runs it; none for primitives, knowledge and the like.
    pub executor: Option<ItemId>,
    /// The settings of its kind, with canonical keys (`url`, `entrypoint`, `timeout`).
    pub config: Map<String, Value>,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// The JSON Schema of its parameters.
    pub input_schema: Value,
    /// The JSON Schema of its result, where one was given.
    pub output_schema: Option<Value>,
    /// How its result is read.
    pub outputs: Outputs,
    /// What the manifest says about changing state; silent is `None`.
    pub mutates_state: Option<bool>,
    /// The isolation asked for; the default depends on the resolved runtime.
    pub isolation: Option<Isolation>,
    /// What must be there before it runs.
    pub requires: Requires,
    /// Packages it depends on.
    pub dependencies: Vec<String>,
    /// Globs it may write; `None` when it does not say.
    pub writes: Option<Vec<String>>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Who wrote it.
    pub author: Option<String>,
    /// The commands it offers (`tool:` spelling and MCP servers).
    pub commands: Vec<String>,
    /// Schema 2.0 sections (`executable_knowledge`, `api_complexity`, `anti_patterns`, `examples`, …) as written.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub knowledge: Map<String, Value>,
    /// Whether it was found in `.ai/scripts/` without metadata of its own.
    pub legacy: bool,
}

impl ToolManifest {
    /// The tools that a meta tool may call, as it names them.
    pub fn aggregates(&self) -> Vec<&str> {
        let listed = self.config.get("aggregates").filter(|_| self.kind == ToolKind::Meta).and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str).collect()
    }
}

/// A tool manifest with where it and each of its fields came from.
#[derive(Clone, Debug)]
pub struct LoadedTool {
    /// The manifest.
    pub manifest: ToolManifest,
    /// How it was written.
    pub spelling: Spelling,
    /// The file that holds the manifest.
    pub file: PathBuf,
    /// The folder of a folder tool.
    pub folder: Option<PathBuf>,
    /// The fields whose values stand in another file, by key or by dotted path.
    pub(crate) elsewhere: BTreeMap<String, Origin>,
    /// The files that gave it fields and are no part of it, so that no stamp of it covers them: the rules of
    /// extractors, and the settings that these read.
    pub lenders: BTreeSet<PathBuf>,
    /// The canonical map behind the manifest; rules that need places look here.
    pub node: super::node::Node,
}

/// What a tool is; decides how it is validated and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Hard-coded in piton: `subprocess`, `http_client`.
    Primitive,
    /// Runs scripts of one language.
    Runtime,
    /// A script with an entrypoint.
    Script,
    /// An HTTP call.
    Api,
    /// Another MCP server.
    McpServer,
    /// A tool of another MCP server.
    McpTool,
    /// A container.
    Docker,
    /// An installed command.
    Cli,
    /// A local program of the `tool:` spelling.
    Local,
    /// A tool that combines others.
    Meta,
    /// A directive described by a manifest.
    Directive,
    /// A knowledge entry described by a manifest.
    Knowledge,
}

/// How a tool was written.
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

/// One parameter of a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its JSON type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it must be given.
    pub required: bool,
    /// What is used when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// How the result of a tool is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outputs {
    /// `json`, `text` or `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The parser that reads the raw output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parser: Option<String>,
    /// The name of a schema in `.ai/schemas/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
}

/// What must be there before a tool runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requires {
    /// Commands on the search path.
    pub commands: Vec<String>,
    /// Environment variables.
    pub environment: Vec<String>,
    /// MCP servers.
    pub mcp: Vec<String>,
}

/// How far a tool is kept from the machine, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Supervised, with a scrubbed environment.
    Trusted,
    /// Kernel restrictions where the kernel has them.
    Standard,
    /// A container or bubblewrap.
    Sandboxed,
    /// Sandboxed without network.
    Restricted,
}

impl Isolation {
    /// The level as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Standard => "standard",
            Self::Sandboxed => "sandboxed",
            Self::Restricted => "restricted",
        }
    }
}

#[cfg(test)]
mod tests;
