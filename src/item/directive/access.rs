//! Permissions of a directive: their types and their text form.

use std::fmt;

use serde::Serialize;

use crate::item::position::Position;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grant {
    #[serde(flatten)]
    pub access: Access,
    /// Whether it denies instead of grants.
    pub deny: bool,
    pub place: Position,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "access", rename_all = "snake_case")]
pub enum Access {
    /// Running tools, by id glob or by type glob.
    Tool {
        id: Option<String>,
        tool_type: Option<String>,
    },
    Shell {
        commands: Vec<String>,
    },
    Env {
        vars: Vec<String>,
    },
    Read {
        /// The path glob, relative to the project.
        path: String,
    },
    Write {
        /// The path glob, relative to the project.
        path: String,
    },
    ReadApi {
        /// `METHOD path-or-url`, as written.
        endpoint: String,
    },
    WriteApi {
        /// `METHOD path-or-url`, as written.
        endpoint: String,
    },
    Mcp {
        server: String,
        /// Its tools; empty means all.
        tools: Vec<String>,
    },
    Docker {
        /// The network, e.g. `host`.
        network: Option<String>,
    },
    /// Searching, loading, signing or executing items, as RYE directives write it.
    Item {
        /// `search`, `load`, `sign`, `execute`, or `*`.
        verb: String,
        /// `tool`, `directive`, `knowledge`, or `*`.
        item_type: String,
        /// The id glob.
        id: String,
    },
    /// Another capability by its name, e.g. `<execute resource="spawn" action="thread"/>`.
    Capability {
        name: String,
    },
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.deny {
            f.write_str("deny ")?;
        }
        self.access.fmt(f)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { id, tool_type } => {
                f.write_str("run tools")?;
                if let Some(id) = id {
                    write!(f, " `{id}`")?;
                }
                match tool_type {
                    Some(tool_type) => write!(f, " of type `{tool_type}`"),
                    None => Ok(()),
                }
            }
            Self::Shell { commands } => write!(f, "run commands {}", quoted(commands)),
            Self::Env { vars } => write!(f, "see variables {}", quoted(vars)),
            Self::Read { path } => write!(f, "read `{path}`"),
            Self::Write { path } => write!(f, "write `{path}`"),
            Self::ReadApi { endpoint } => write!(f, "call `{endpoint}` to read"),
            Self::WriteApi { endpoint } => write!(f, "call `{endpoint}` to write"),
            Self::Mcp { server, tools } if tools.is_empty() => {
                write!(f, "use the MCP server `{server}`")
            }
            Self::Mcp { server, tools } => {
                write!(f, "use {} of the MCP server `{server}`", quoted(tools))
            }
            Self::Docker {
                network: Some(network),
            } => write!(f, "run containers on the network `{network}`"),
            Self::Docker { network: None } => f.write_str("run containers"),
            Self::Item {
                verb,
                item_type,
                id,
            } => write!(f, "{verb} {item_type} items `{id}`"),
            Self::Capability { name } => write!(f, "`{name}`"),
        }
    }
}

fn quoted(words: &[String]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
