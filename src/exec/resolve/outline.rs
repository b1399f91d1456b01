//! What is known about a call before its parameters: the items of its chain and their declared
//! requirements.
//!
//! Used by forecasts, which check steps whose values are only known in a run. [`Outline`] is the
//! type to read first.

use super::error::ResolveError;
use super::{link, origin, requires};
use crate::exec::chain;
use crate::exec::invocation::ChainLink;
use crate::item::store::{Item, ItemStore};
use crate::item::tool::{LoadedTool, Requires, ToolKind};

#[derive(Clone, Debug)]
pub struct Outline {
    /// The tool and everything that runs it.
    pub chain: Vec<ChainLink>,
    /// The requirements of all of them.
    pub requires: Requires,
    pub kind: ToolKind,
    /// The tools that a meta tool may call, as it names them.
    pub aggregates: Vec<String>,
    /// Globs of the files that the tool declares to write.
    pub writes: Option<Vec<String>>,
}

/// Finds what a tool needs for all parameter values.
pub fn outline(store: &ItemStore, item: &Item) -> Result<Outline, ResolveError> {
    let tool = item
        .as_tool()
        .ok_or_else(|| ResolveError::NotATool(item.id.clone()))?;
    let roots = store.roots();
    let broken = |reason| ResolveError::Chain {
        reason,
        at: Box::new(origin(tool, "executor", roots)),
    };
    let chain = chain::resolve(store, tool).map_err(broken)?;
    let items: Vec<&Item> = std::iter::once(item)
        .chain(chain.executors.iter().copied())
        .collect();
    let tools: Vec<&LoadedTool> = items.iter().filter_map(|item| item.as_tool()).collect();
    Ok(Outline {
        chain: items.iter().filter_map(|item| link(item, roots)).collect(),
        requires: requires(&tools),
        kind: tool.manifest.kind,
        aggregates: tool
            .manifest
            .aggregates()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        writes: tool.manifest.writes.clone(),
    })
}
