//! What is known about a call of a tool before its parameters are: who takes part and what they say they need.
//!
//! For forecasts, which judge steps whose values only a run knows. [`Outline`] is the type to read first.

use super::error::LowerError;
use super::{link, origin, requires};
use crate::exec::chain;
use crate::exec::invocation::Link;
use crate::item::store::{Item, ItemStore};
use crate::item::tool::{LoadedTool, Requires, ToolKind};

/// A call of a tool without its parameters.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The tool and everything that runs it.
    pub chain: Vec<Link>,
    /// What all of them say they need.
    pub requires: Requires,
    /// What the tool is.
    pub kind: ToolKind,
    /// The tools that a meta tool may call, as it names them.
    pub aggregates: Vec<String>,
    /// Which files the tool says it writes.
    pub writes: Option<Vec<String>>,
}

/// Finds out what a tool needs, whatever it is called with.
pub fn outline(store: &ItemStore, item: &Item) -> Result<Outline, LowerError> {
    let tool = item.as_tool().ok_or_else(|| LowerError::NotATool(item.id.clone()))?;
    let roots = store.roots();
    let broken = |reason| LowerError::Chain { reason, at: Box::new(origin(tool, "executor", roots)) };
    let chain = chain::resolve(store, tool).map_err(broken)?;
    let items: Vec<&Item> = std::iter::once(item).chain(chain.executors.iter().copied()).collect();
    let tools: Vec<&LoadedTool> = items.iter().filter_map(|item| item.as_tool()).collect();
    Ok(Outline {
        chain: items.iter().filter_map(|item| link(item, roots)).collect(),
        requires: requires(&tools),
        kind: tool.manifest.kind,
        aggregates: tool.manifest.aggregates().into_iter().map(str::to_owned).collect(),
        writes: tool.manifest.writes.clone(),
    })
}
