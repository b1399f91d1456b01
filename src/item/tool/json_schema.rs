//! The spelling in which `inputs` and `outputs` are JSON Schemas, in YAML or JSON.
//!
//! The keys are already canonical. Type and version may be left out: the type follows from the
//! executor, and the version is `1.0.0`.

use crate::item::node::Node;

use super::{ToolKind, kind};

pub(super) fn is_spelled(map: &Node) -> bool {
    let is_schema = |key: &str| {
        map.find(key).is_some_and(|schema| {
            schema.entries().is_some()
                && (schema.find("type").is_some() || schema.find("properties").is_some())
        })
    };
    map.find("inputs")
        .is_some_and(|inputs| inputs.entries().is_some())
        || (map.find("parameters").is_none() && is_schema("outputs"))
}

/// The kind of tool for its executor.
pub(super) fn derive_kind(map: &Node) -> Option<ToolKind> {
    let executor = map.find("executor").or_else(|| map.find("executor_id"))?;
    kind::executed_by(executor.as_text()?)
}
