//! From settings to a call of another MCP server's tool.

use std::collections::BTreeMap;

use super::error::LowerError;
use super::{Context, Resolved};

/// Resolves the action of a call.
pub(super) fn resolve(
    context: &Context<'_>,
    _wanted_timeout: Option<f64>,
    _origins: &mut BTreeMap<String, String>,
) -> Result<Resolved, LowerError> {
    let manifest = &context.tool.manifest;
    Err(LowerError::Unsupported { id: manifest.tool_id.clone(), kind: manifest.kind })
}
