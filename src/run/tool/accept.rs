//! Accepts a changed definition of an MCP tool. Only the terminal calls this, because a person has
//! to decide.

use std::fmt;

use crate::context::Context;
use crate::exec::mcp::{Changed, PinError, Pins};
use crate::item::store::{ItemKind, ItemStore, LookupError};
use crate::item::tool::ToolKind;
use crate::problem::{Code, Explain, Hint};
use crate::run::error::RunError;
use crate::run::worktree_lock::refuse_inside;
use crate::workspace::RunFolders;

/// Why nothing was accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// There is no such tool.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A step of an active run tries to accept.
    #[error(transparent)]
    Run(Box<RunError>),
    /// The tool is not an MCP tool.
    #[error("`{0}` is neither an MCP server nor a tool of one")]
    NotMcp(String),
    /// Nothing was refused.
    #[error("no change of {0} waits to be accepted")]
    Nothing(NamedServer),
    /// The pinned definitions cannot be read or written.
    #[error(transparent)]
    Definitions(#[from] PinError),
}

/// A server, or one of its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedServer {
    server: String,
    tool: Option<String>,
}

impl fmt::Display for NamedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tool {
            Some(tool) => write!(
                f,
                "the tool `{}` of `{}`",
                crate::item::wording::shown(tool),
                self.server
            ),
            None => write!(f, "`{}`", self.server),
        }
    }
}

impl Explain for AcceptError {
    fn code(&self) -> Code {
        match self {
            Self::Lookup(err) => err.code(),
            Self::Run(err) => err.code(),
            Self::NotMcp(_) => Code::NotAnMcpTool,
            Self::Nothing(_) => Code::NothingToAccept,
            Self::Definitions(_) => Code::DefinitionsUnusable,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Lookup(err) => err.hint(),
            Self::Run(err) => err.hint(),
            Self::NotMcp(_) => Some("name the tool that was refused, or its server".into()),
            Self::Nothing(_) => {
                Some("piton refuses a tool when it is called and its definition has changed".into())
            }
            Self::Definitions(_) => Some("check that the file is readable, or remove it".into()),
        }
    }
}

/// Accepts the refused definitions of one tool, or of all tools of a server.
pub fn accept(
    ctx: &Context,
    store: &ItemStore,
    id: &str,
    tool: Option<&str>,
) -> Result<Vec<Changed>, AcceptError> {
    let named = name(store, id, tool)?;
    let folders = RunFolders::of_project(ctx);
    refuse_inside(ctx, &folders.own).map_err(|err| AcceptError::Run(Box::new(err)))?;
    let accepted =
        Pins::new(&folders.definitions()).accept(&named.server, named.tool.as_deref())?;
    if accepted.is_empty() {
        return Err(AcceptError::Nothing(named));
    }
    Ok(accepted)
}

/// The server and its tool.
fn name(store: &ItemStore, id: &str, tool: Option<&str>) -> Result<NamedServer, AcceptError> {
    let item = store.find(ItemKind::Tool, id)?;
    let not = || AcceptError::NotMcp(item.id.to_string());
    let manifest = &item.as_tool().ok_or_else(not)?.manifest;
    let given = tool.map(str::to_owned);
    match manifest.kind {
        ToolKind::McpServer => Ok(NamedServer {
            server: item.id.to_string(),
            tool: given,
        }),
        ToolKind::McpTool => {
            let executor = manifest
                .executor
                .as_ref()
                .and_then(|id| store.find(ItemKind::Tool, id.as_str()).ok());
            let is_server =
                |tool: &crate::item::tool::LoadedTool| tool.manifest.kind == ToolKind::McpServer;
            let server = executor
                .filter(|item| item.as_tool().is_some_and(is_server))
                .unwrap_or(item);
            let called = manifest
                .config
                .get("mcp_tool_name")
                .and_then(serde_json::Value::as_str)
                .map(str::to_owned);
            Ok(NamedServer {
                server: server.id.to_string(),
                tool: given.or(called),
            })
        }
        _ => Err(not()),
    }
}
