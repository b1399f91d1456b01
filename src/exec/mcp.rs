//! Calls tools of other MCP servers.
//!
//! A server lives as long as the run that calls it: [`Servers`] has one process per server, the
//! [`host`], which starts the server, speaks the protocol and ends both. Each call is a worker
//! ([`caller`]): it asks the host over a socket in a private folder, compares the tool's definition
//! with the pinned one ([`pin`]), and returns the answer. A call can therefore be killed at any
//! time, and the server is told that it was cancelled.

mod caller;
mod connection;
mod content;
mod host;
mod pin;
mod servers;
mod sse;
mod stdio;
mod talk;
mod websocket;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{CallError, Machine, enter_private_home, find};
use super::invocation::{Mcp, McpTransport, RemoteKind, ResourceLimits};
use super::private_folder::PrivateFolder;
use super::supervisor::MARK;
use super::web::NetworkReach;
use super::worker::WorkFailure;

pub(super) use caller::McpCallJob;
pub(super) use content::McpResult;
pub(super) use host::McpHostJob;
pub use pin::{Changed, PinChange, PinError, Pins, ToolPin};
pub use servers::Servers;

/// The largest message of a server.
const LARGEST: usize = 16 * 1024 * 1024;

/// The socket of a host, in its folder.
const SOCKET: &str = "host";

/// A server and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct McpServer {
    /// The id of the tool that describes it.
    id: String,
    way: ServerTransport,
    startup_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ServerTransport {
    Program {
        program: PathBuf,
        arguments: Vec<String>,
        folder: PathBuf,
        environment: BTreeMap<String, String>,
        #[serde(skip)]
        limits: ResourceLimits,
    },
    Address {
        kind: RemoteKind,
        url: String,
        headers: Vec<(String, String)>,
        reach: NetworkReach,
    },
}

/// What callers of a host prove themselves with: only piton's own processes know it, from their
/// standard input.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HostToken(String);

impl HostToken {
    fn new(random: u128) -> Self {
        Self(format!("{random:032x}"))
    }

    /// The first line of a caller.
    fn line(&self) -> Vec<u8> {
        format!("{}\n", self.0).into_bytes()
    }
}

impl fmt::Debug for HostToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostToken")
    }
}

/// A caller's request to a host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Ask {
    List,
    Call {
        tool: String,
        arguments: Map<String, Value>,
    },
    End,
}

/// A host's message to its caller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "tell", content = "what", rename_all = "snake_case")]
enum Tell {
    /// Text from the server's stderr.
    Talk(String),
    Warning(String),
    /// The tools as the server describes them.
    Tools(Vec<Value>),
    Result(Value),
    Failed(WorkFailure),
}

impl McpServer {
    /// The server of a call. The private home is not part of its identity.
    fn of(mcp: &Mcp) -> Self {
        let way = match &mcp.transport {
            McpTransport::Stdio(process) => ServerTransport::Program {
                program: PathBuf::from(&process.program.value),
                arguments: process
                    .arguments
                    .iter()
                    .map(|text| text.value.clone())
                    .collect(),
                folder: process.folder.clone(),
                environment: process
                    .environment
                    .iter()
                    .map(|(name, text)| (name.clone(), text.value.clone()))
                    .collect(),
                limits: process.limits,
            },
            McpTransport::Remote {
                kind,
                url,
                headers,
                reach,
                ..
            } => ServerTransport::Address {
                kind: *kind,
                url: url.value.clone(),
                headers: headers
                    .iter()
                    .map(|(name, text)| (name.clone(), text.value.clone()))
                    .collect(),
                reach: *reach,
            },
        };
        Self {
            id: mcp.server.clone(),
            way,
            startup_timeout: mcp.startup_timeout,
        }
    }

    /// Finds the program and gives it a private home, like any other tool.
    fn prepare(&mut self, machine: &Machine) -> Result<Option<PrivateFolder>, CallError> {
        let ServerTransport::Program {
            program,
            folder,
            environment,
            ..
        } = &mut self.way
        else {
            return Ok(None);
        };
        let mut given = environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let home = enter_private_home(&mut given, machine)?;
        if let Some(home) = &home {
            environment.insert(
                "HOME".to_owned(),
                home.path().to_string_lossy().into_owned(),
            );
        }
        environment.insert(MARK.to_owned(), machine.run.clone());
        *program = find(program.as_os_str(), &given, folder)?;
        Ok(home)
    }
}
