//! The files under `.ai/`: directives, tools, knowledge.
//!
//! Pure reading and validation; nothing of a project is executed here. Read [`finding::Finding`]
//! and [`node::Node`] first: every parser turns a file into nodes with positions and adds findings,
//! and never stops at the first.

pub mod directive;
pub mod document;
pub mod endpoint;
pub mod expr;
pub mod extractor;
pub(crate) mod file_stat;
pub mod finding;
pub mod id;
pub mod javascript;
pub mod json;
pub mod json_path;
pub mod knowledge;
pub mod migration;
pub mod node;
pub mod params;
pub mod position;
pub mod search;
pub mod signature;
pub mod skeleton;
pub mod source;
pub mod store;
pub mod template;
pub mod toml;
pub mod tool;
pub mod topic;
pub mod validate;
pub mod version;
pub mod wording;
pub mod yaml;
