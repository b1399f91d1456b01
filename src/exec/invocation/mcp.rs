//! A call of a tool that another MCP server has.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Process, Rows, Text, seconds};
use crate::exec::web::Reach;

/// A tool of another MCP server to call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mcp {
    /// The id of the tool that describes the server.
    pub server: String,
    /// How the server is reached.
    pub transport: McpTransport,
    /// What the server calls the tool; none lists its tools.
    pub tool: Option<String>,
    /// What the tool is called with.
    pub arguments: Map<String, Value>,
    /// Who says which types the arguments have.
    #[serde(skip)]
    pub types: Types,
    /// How long the server may take to answer at all.
    #[serde(serialize_with = "seconds")]
    pub startup_timeout: Duration,
}

/// Who says which types the arguments of a call have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Types {
    /// The manifest: they have them already.
    #[default]
    Declared,
    /// The server: a text is converted where it wants something else.
    OfServer,
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum McpTransport {
    /// It is started, and spoken to on its standard streams.
    Stdio(Box<Process>),
    /// It is there already, at an address.
    Remote {
        /// `http`, `sse` or `websocket`.
        kind: RemoteKind,
        /// Where it is.
        url: Text,
        /// Header fields of each request.
        headers: Vec<(String, Text)>,
        /// Whether the manifest lets it be on this machine or its network.
        allow_private: bool,
        /// How far it may reach, by the word of the manifest and of whoever calls.
        reach: Reach,
        /// The variables that it was given; none of them is sent by itself.
        #[serde(skip)]
        environment: BTreeMap<String, Text>,
    },
}

/// What is spoken to a server that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteKind {
    /// Streamable HTTP.
    Http,
    /// The older HTTP with server-sent events.
    Sse,
    /// `WebSocket`.
    Websocket,
}

impl RemoteKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }
}

impl Mcp {
    pub(super) fn environment(&self) -> &BTreeMap<String, Text> {
        match &self.transport {
            McpTransport::Stdio(process) => &process.environment,
            McpTransport::Remote { environment, .. } => environment,
        }
    }

    pub(super) fn add_to(&self, rows: &mut Rows<'_>) {
        rows.add("action.server", &self.server);
        if let Some(tool) = &self.tool {
            rows.add("action.tool", tool);
        }
        match &self.transport {
            McpTransport::Stdio(process) => {
                rows.add("action.transport", "stdio");
                process.add_to(rows);
            }
            McpTransport::Remote { kind, url, headers, allow_private, .. } => {
                rows.add("action.transport", kind.as_str());
                rows.add("action.url", url.shown());
                for (name, value) in headers {
                    rows.add(&format!("action.headers.{name}"), value.shown());
                }
                rows.add("action.allow_private", &allow_private.to_string());
            }
        }
        rows.add("action.startup_timeout", &format!("{} s", self.startup_timeout.as_secs_f64()));
    }

    pub(super) fn words(&self) -> Vec<String> {
        let tool = self.tool.clone().unwrap_or_else(|| "tools/list".to_owned());
        vec!["mcp".to_owned(), self.server.clone(), tool]
    }
}
