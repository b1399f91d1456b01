//! A call of a tool on another MCP server.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{InvocationRows, MaskedText, Process, seconds};
use crate::exec::web::NetworkReach;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mcp {
    /// The id of the tool that describes the server.
    pub server: String,
    pub transport: McpTransport,
    /// The tool's name on the server; `None` lists its tools.
    pub tool: Option<String>,
    pub arguments: Map<String, Value>,
    /// Who defines the types of the arguments.
    #[serde(skip)]
    pub types: ArgumentTypes,
    /// How long the server may take until its first answer.
    #[serde(serialize_with = "seconds")]
    pub startup_timeout: Duration,
}

/// Who defines the types of a call's arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentTypes {
    /// The manifest; they are already converted.
    #[default]
    Declared,
    /// The server; a text is converted to the type that it expects.
    OfServer,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum McpTransport {
    /// Started as a child process and used through its standard streams.
    Stdio(Box<Process>),
    /// Already running, at an address.
    Remote {
        kind: RemoteKind,
        url: MaskedText,
        headers: Vec<(String, MaskedText)>,
        /// Whether the manifest allows addresses of this machine and its network.
        allow_private: bool,
        /// Which addresses it may reach, limited by the manifest and by the caller.
        reach: NetworkReach,
        /// The variables given to the call. None is sent by itself.
        #[serde(skip)]
        environment: BTreeMap<String, MaskedText>,
    },
}

/// The protocol of a remote server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteKind {
    /// Streamable HTTP.
    Http,
    /// The older HTTP with server-sent events.
    Sse,
    Websocket,
}

impl RemoteKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }
}

impl Mcp {
    pub(super) fn environment(&self) -> &BTreeMap<String, MaskedText> {
        match &self.transport {
            McpTransport::Stdio(process) => &process.environment,
            McpTransport::Remote { environment, .. } => environment,
        }
    }

    pub(super) fn add_to(&self, rows: &mut InvocationRows<'_>) {
        rows.add("action.server", &self.server);
        if let Some(tool) = &self.tool {
            rows.add("action.tool", tool);
        }
        match &self.transport {
            McpTransport::Stdio(process) => {
                rows.add("action.transport", "stdio");
                process.add_to(rows);
            }
            McpTransport::Remote {
                kind,
                url,
                headers,
                allow_private,
                ..
            } => {
                rows.add("action.transport", kind.as_str());
                rows.add("action.url", url.shown());
                for (name, value) in headers {
                    rows.add(&format!("action.headers.{name}"), value.shown());
                }
                rows.add("action.allow_private", &allow_private.to_string());
            }
        }
        rows.add(
            "action.startup_timeout",
            &format!("{} s", self.startup_timeout.as_secs_f64()),
        );
    }

    pub(super) fn argv(&self) -> Vec<String> {
        let tool = self.tool.clone().unwrap_or_else(|| "tools/list".to_owned());
        vec!["mcp".to_owned(), self.server.clone(), tool]
    }
}
