//! The spelling in which `inputs` and `outputs` are JSON Schemas, in YAML or JSON.
//!
//! The keys are the canonical ones already; what is special is that type and version may be left
//! out, because the executor says the one and `1.0.0` is the other.

use crate::item::node::Node;

use super::{ToolKind, kind};

/// Whether a map is written in this spelling.
pub(super) fn is_spelled(map: &Node) -> bool {
    let is_schema = |key: &str| {
        map.find(key).is_some_and(|schema| {
            schema.entries().is_some() && (schema.find("type").is_some() || schema.find("properties").is_some())
        })
    };
    map.find("inputs").is_some_and(|inputs| inputs.entries().is_some())
        || (map.find("parameters").is_none() && is_schema("outputs"))
}

/// The kind of tool that the executor means.
pub(super) fn derive_kind(map: &Node) -> Option<ToolKind> {
    let executor = map.find("executor").or_else(|| map.find("executor_id"))?;
    kind::executed_by(executor.as_text()?)
}
