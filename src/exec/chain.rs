//! Executor chains: tool → runtime or MCP server → primitive.
//!
//! [`resolve`] follows the executors by id through project, user and built-in items. It is pure:
//! the same store gives the same chain. Its errors show the chain as far as it was followed.

use std::collections::VecDeque;

use crate::item::id::ItemId;
use crate::item::store::{Item, ItemKind, ItemStore, Layer, LookupError};
use crate::item::tool::{LoadedTool, ToolKind, stand_in};
use crate::problem::{Code, Explain, Hint};

pub const MAX_LINKS: usize = 16;

/// A tool and everything that runs it.
#[derive(Debug)]
pub struct ExecutorChain<'s> {
    pub tool: &'s LoadedTool,
    /// Nearest first; the last one is a primitive. Empty for tools that need no executor.
    pub executors: Vec<&'s Item>,
}

impl ExecutorChain<'_> {
    /// The ids along the chain, the tool first.
    pub fn ids(&self) -> Vec<ItemId> {
        let executors = self.executors.iter().map(|item| item.id.clone());
        std::iter::once(self.tool.manifest.tool_id.clone())
            .chain(executors)
            .collect()
    }

    /// Checks that the executor can run this kind of tool. The resolved item decides, not a suffix
    /// of its name.
    pub fn check_kinds(&self) -> Result<(), ChainError> {
        let tool = &self.tool.manifest;
        let (Some(kind), Some(id)) = (self.executor_kind(), tool.executor.as_ref()) else {
            return Ok(());
        };
        let ends_in = |primitive: &str| {
            self.executors
                .last()
                .is_some_and(|item| item.id.as_str() == primitive)
        };
        let inline_server =
            tool.config.contains_key("transport") || tool.config.contains_key("command");
        let (message, suggestion) = match tool.kind {
            ToolKind::Script if kind != ToolKind::Runtime => (
                format!("Script executor must be a runtime, got: {id}"),
                "use `python_runtime`, `bash_runtime` or `node_runtime`; a tool of type `cli` needs no runtime",
            ),
            ToolKind::Api if !ends_in("http_client") => (
                format!("API tools must use executor: http_client, got: {id}"),
                "write `executor: http_client`",
            ),
            ToolKind::McpTool
                if kind != ToolKind::McpServer
                    && !(kind == ToolKind::Primitive && inline_server) =>
            {
                (
                    format!("MCP tools must reference an mcp_server, got: {id}"),
                    "name a tool of type `mcp_server`, or give `config.transport`",
                )
            }
            ToolKind::McpServer if kind != ToolKind::Primitive => (
                format!("MCP servers must use subprocess or http_client, got: {id}"),
                "write `executor: subprocess` (stdio) or `executor: http_client` (url)",
            ),
            ToolKind::Runtime if kind != ToolKind::Primitive => (
                format!("Runtimes must use a primitive executor, got: {id}"),
                "write `executor: subprocess` or `executor: http_client`",
            ),
            ToolKind::Docker if kind != ToolKind::Runtime => (
                format!("Docker tools must use executor: docker_runtime, got: {id}"),
                "write `executor: docker_runtime`",
            ),
            ToolKind::Cli if !ends_in("subprocess") => (
                format!("CLI tools must run through subprocess, got: {id}"),
                "write `executor: subprocess`",
            ),
            _ => return Ok(()),
        };
        Err(ChainError::WrongKind {
            message,
            suggestion,
            chain: self.ids(),
        })
    }

    /// Checks every link: a tool cannot use a runtime that itself cannot run.
    pub fn check_all_kinds(&self) -> Result<(), ChainError> {
        self.check_kinds()?;
        for (at, item) in self.executors.iter().enumerate() {
            let Some(tool) = item.as_tool() else { continue };
            let below = ExecutorChain {
                tool,
                executors: self.executors.iter().skip(at + 1).copied().collect(),
            };
            if let Err(ChainError::WrongKind {
                message,
                suggestion,
                ..
            }) = below.check_kinds()
            {
                return Err(ChainError::WrongKind {
                    message,
                    suggestion,
                    chain: self.ids(),
                });
            }
        }
        Ok(())
    }

    /// The kind of the direct executor.
    pub fn executor_kind(&self) -> Option<ToolKind> {
        self.executors
            .first()
            .and_then(|item| item.as_tool())
            .map(|tool| tool.manifest.kind)
    }

    /// The runtime of the chain: the last runtime before the primitive.
    pub fn runtime(&self) -> Option<&Item> {
        let is_runtime = |item: &&&Item| {
            item.as_tool()
                .is_some_and(|tool| tool.manifest.kind == ToolKind::Runtime)
        };
        self.executors.iter().rfind(is_runtime).copied()
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum ChainError {
    /// A link names an executor that does not exist or cannot be loaded.
    #[error("tool `{id}` names executor `{executor}`, which {} ({})", fate(.lookup), arrows(.chain))]
    UnknownExecutor {
        id: ItemId,
        executor: ItemId,
        /// The chain so far, including the missing link.
        chain: Vec<ItemId>,
        lookup: Box<LookupError>,
    },
    #[error("executor chain loops: {}", arrows(.0))]
    Cycle(Vec<ItemId>),
    #[error("executor chain has more than {MAX_LINKS} links: {}", arrows(.0))]
    TooLong(Vec<ItemId>),
    #[error("executor chain ends in `{last}`, which is not a primitive: {}", arrows(.chain))]
    NoPrimitive { last: ItemId, chain: Vec<ItemId> },
    /// The executor cannot run tools of this kind.
    #[error("{message} ({})", arrows(.chain))]
    WrongKind {
        message: String,
        suggestion: &'static str,
        chain: Vec<ItemId>,
    },
}

impl Explain for ChainError {
    fn code(&self) -> Code {
        match self {
            Self::UnknownExecutor { .. } => Code::UnknownExecutor,
            Self::Cycle(_) => Code::ExecutorCycle,
            Self::TooLong(_) => Code::ExecutorDepth,
            Self::NoPrimitive { .. } | Self::WrongKind { .. } => Code::UnexpectedExecutor,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::UnknownExecutor { lookup, .. } if matches!(**lookup, LookupError::NotFound { similar: None, .. }) => Some(
                "built in are `subprocess`, `http_client`, `python_runtime`, `bash_runtime`, `node_runtime` and `docker_runtime`".into(),
            ),
            Self::UnknownExecutor { lookup, .. } => match &**lookup {
                LookupError::Broken { finding, .. } => {
                    Some(format!("fix `{}`, line {} first", finding.file.display(), finding.line).into())
                }
                other => other.hint(),
            },
            Self::Cycle(_) => Some("let one of them name a primitive: `subprocess` or `http_client`".into()),
            Self::TooLong(_) => Some("let the tool name a runtime or a primitive directly".into()),
            Self::NoPrimitive { last, .. } => Some(format!("give `{last}` an executor").into()),
            Self::WrongKind { suggestion, .. } => Some((*suggestion).into()),
        }
    }
}

pub fn resolve<'s>(
    store: &'s ItemStore,
    tool: &'s LoadedTool,
) -> Result<ExecutorChain<'s>, ChainError> {
    let mut ids = vec![tool.manifest.tool_id.clone()];
    let mut executors: Vec<&Item> = Vec::new();
    let mut current = tool;
    while let Some(executor) = &current.manifest.executor {
        let id = current.manifest.tool_id.clone();
        if ids.contains(executor) {
            ids.push(executor.clone());
            return Err(ChainError::Cycle(ids));
        }
        ids.push(executor.clone());
        if ids.len() > MAX_LINKS {
            return Err(ChainError::TooLong(ids));
        }
        let item = match find_executor(store, executor) {
            Ok((item, _)) => item,
            Err(lookup) => {
                return Err(ChainError::UnknownExecutor {
                    id,
                    executor: executor.clone(),
                    chain: ids,
                    lookup: Box::new(lookup),
                });
            }
        };
        let Some(next) = item.as_tool() else { break };
        executors.push(item);
        current = next;
    }
    let ends_well = current.manifest.kind == ToolKind::Primitive || executors.is_empty();
    if ends_well {
        Ok(ExecutorChain { tool, executors })
    } else {
        Err(ChainError::NoPrimitive {
            last: current.manifest.tool_id.clone(),
            chain: ids,
        })
    }
}

/// Finds an executor. A built-in one takes the place of that of another program, if the project has no such
/// item; [`BuiltinExecutor`] tells which.
pub fn find_executor<'s>(
    store: &'s ItemStore,
    executor: &ItemId,
) -> Result<(&'s Item, Option<BuiltinExecutor>), LookupError> {
    let lookup = match store.find(ItemKind::Tool, executor.as_str()) {
        Ok(item) => return Ok((item, None)),
        Err(lookup) => lookup,
    };
    let built_in = stand_in(executor.as_str())
        .filter(|_| matches!(lookup, LookupError::NotFound { .. }))
        .and_then(|id| {
            let layers = [Layer::Builtin];
            store.find_in(ItemKind::Tool, id, &layers).ok()
        });
    match built_in {
        Some(item) => Ok((item, Some(BuiltinExecutor(item.id.clone())))),
        None => Err(lookup),
    }
}

/// The built-in item that takes the place of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinExecutor(pub ItemId);

/// A tool, its runtime chain, and the tools that it may call with their chains, as far as they
/// exist.
pub fn links<'s>(store: &'s ItemStore, id: &str) -> Vec<&'s Item> {
    let mut found: Vec<&Item> = Vec::new();
    let mut open: VecDeque<&Item> = store.find(ItemKind::Tool, id).into_iter().collect();
    while let Some(item) = open.pop_front() {
        // Several tools may call the same tool, and invalid tools may call each other.
        if found.iter().any(|known| std::ptr::eq(*known, item)) {
            continue;
        }
        found.push(item);
        let Some(tool) = item.as_tool() else { continue };
        open.extend(
            resolve(store, tool)
                .into_iter()
                .flat_map(|chain| chain.executors),
        );
        open.extend(
            tool.manifest
                .aggregates()
                .into_iter()
                .filter_map(|id| store.find(ItemKind::Tool, id).ok()),
        );
    }
    found
}

/// Describes why an executor was not found.
fn fate(lookup: &LookupError) -> String {
    match lookup {
        LookupError::Broken { finding, .. } => format!("cannot be loaded: {}", finding.message),
        LookupError::Ambiguous { files, .. } => format!("is defined {} times", files.len()),
        LookupError::Invalid { .. } | LookupError::NotFound { .. } => "does not exist".to_owned(),
    }
}

pub(crate) fn arrows(ids: &[ItemId]) -> String {
    ids.iter()
        .map(|id| format!("`{id}`"))
        .collect::<Vec<_>>()
        .join(" → ")
}
