//! What an invocation needs.
//!
//! The tool, each link of its chain that needs a grant of its own, their declared requirements, and
//! the endpoint of a request. Built-in links and the runtime that the tool names come with the tool,
//! but a `<deny>` that names one applies.

use super::matching::{self, PatternForm};
use super::{Denial, Enforcement, Permission, line};
use crate::exec::Outline;
use crate::exec::invocation::{
    Action, ChainLink, ContainerNetwork, Http, Invocation, McpTransport,
};
use crate::item::directive::Access;
use crate::item::endpoint::{Fit, Strictness};
use crate::item::store::Layer;
use crate::item::tool::ToolKind;
use crate::item::wording::shown;

#[derive(Clone, Debug)]
pub(super) enum AccessNeed<'i> {
    /// Run a tool, or a link of its chain.
    Tool {
        link: &'i ChainLink,
        types: matching::LinkTypes<'i>,
        comes_along: LinkGrant,
        /// Set when the link is an MCP server.
        server: Option<ServerUse<'i>>,
    },
    /// Find a command on `PATH`.
    Command(&'i str),
    /// See a variable of the caller's environment.
    Variable(&'i str),
    /// Use another MCP server.
    Server(&'i str),
    Endpoint(&'i Http),
    /// Run a container in a network. The host network needs a grant.
    Container(ContainerNetwork),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ServerUse<'i> {
    server: &'i str,
    /// The tool that is called; `None` when its tools are listed.
    tool: Option<&'i str>,
    /// The address; `None` when the server is started locally.
    url: Option<&'i str>,
    /// Whether the server is a link of the chain. Otherwise the tool itself says how to reach it.
    is_link: bool,
}

/// Whether a link needs its own grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkGrant {
    Own,
    /// Permission to run the tool includes it: it is built in, or it is the runtime that the manifest of
    /// the tool names, and not one in the place of a built-in runtime.
    OfTool,
}

impl LinkGrant {
    /// For the link at a position of the chain; the tool is at 0.
    fn of(at: usize, link: &ChainLink) -> Self {
        let is_named =
            at == 1 && link.kind == ToolKind::Runtime && !matching::is_name_of_builtin(link);
        if at > 0 && (link.layer == Layer::Builtin || is_named) {
            Self::OfTool
        } else {
            Self::Own
        }
    }
}

/// What a call needs, without duplicates: tools first, in the order of the chain.
pub(super) fn of(invocation: &Invocation) -> Vec<AccessNeed<'_>> {
    let server = server_of(invocation);
    let links = invocation
        .chain
        .iter()
        .enumerate()
        .map(|(at, link)| AccessNeed::Tool {
            link,
            server: server.filter(|it| it.server == link.id.as_str()),
            types: matching::types_of(link, &invocation.chain),
            comes_along: LinkGrant::of(at, link),
        });
    let requires = &invocation.requires;
    let commands = once(&requires.commands).map(AccessNeed::Command);
    let variables: Vec<&String> = requires
        .environment
        .iter()
        .chain(&invocation.variables)
        .collect();
    let variables = once(variables).map(AccessNeed::Variable);
    let servers = once(&requires.mcp).map(AccessNeed::Server);
    let place = match &invocation.action {
        Action::Http(http) => Some(AccessNeed::Endpoint(http)),
        Action::Container(container) => Some(AccessNeed::Container(container.network)),
        _ => None,
    };
    links
        .chain(commands)
        .chain(variables)
        .chain(servers)
        .chain(place)
        .collect()
}

/// What a call needs for all parameter values.
pub(super) fn of_outline(outline: &Outline) -> Vec<AccessNeed<'_>> {
    let links = outline
        .chain
        .iter()
        .enumerate()
        .map(|(at, link)| AccessNeed::Tool {
            link,
            server: None,
            types: matching::types_of(link, &outline.chain),
            comes_along: LinkGrant::of(at, link),
        });
    let requires = &outline.requires;
    let commands = once(&requires.commands).map(AccessNeed::Command);
    let variables = once(&requires.environment).map(AccessNeed::Variable);
    links
        .chain(commands)
        .chain(variables)
        .chain(once(&requires.mcp).map(AccessNeed::Server))
        .collect()
}

pub(super) fn server_of(invocation: &Invocation) -> Option<ServerUse<'_>> {
    let Action::Mcp(mcp) = &invocation.action else {
        return None;
    };
    let link = invocation
        .chain
        .iter()
        .find(|link| link.id.as_str() == mcp.server);
    Some(ServerUse {
        server: &mcp.server,
        tool: mcp.tool.as_deref(),
        url: match &mcp.transport {
            McpTransport::Remote { url, .. } => Some(url.shown()),
            McpTransport::Stdio(_) => None,
        },
        is_link: link.is_some_and(|link| link.kind == ToolKind::McpServer),
    })
}

impl ServerUse<'_> {
    /// Whether an `<mcp>` grant covers this server and tool.
    fn is_granted_by(&self, access: &Access) -> bool {
        let Access::Mcp { server, tools } = access else {
            return false;
        };
        let takes = |tool: &str| tools.iter().any(|pattern| matching::is_name(pattern, tool));
        // A grant without tools covers all of them. Listing the tools needs such a grant, or `*`.
        let fits = tools.is_empty()
            || self
                .tool
                .map_or_else(|| tools.iter().any(|it| it == "*"), takes);
        fits && matching::is_id(server, self.server, PatternForm::Exact)
    }

    /// Whether a `<deny>` covers this use; true when in doubt.
    fn is_denied_by(&self, access: &Access) -> bool {
        let Access::Mcp { server, tools } = access else {
            return false;
        };
        let takes = |tool: &str| tools.iter().any(|pattern| matching::is_name(pattern, tool));
        let fits = tools.is_empty() || self.tool.is_none_or(takes);
        fits && matching::is_id(server, self.server, PatternForm::Broken)
    }

    /// Whether a grant names the server or its address, so that its author knows where the call
    /// goes.
    pub(super) fn is_named_by(&self, access: &Access) -> bool {
        match access {
            Access::ReadApi { endpoint } | Access::WriteApi { endpoint } => {
                let address = endpoint
                    .split_once(' ')
                    .map_or(endpoint.as_str(), |(_, address)| address.trim());
                address.contains("://")
                    && self
                        .url
                        .is_some_and(|url| matching::is_id(address, url, PatternForm::Exact))
            }
            access => self.is_granted_by(access),
        }
    }
}

/// The tool's declared writes: the only limit for a person.
pub(super) fn declared(invocation: &Invocation, granted_by: &str) -> Vec<Permission> {
    let globs = invocation.writes.iter().flatten();
    let permission = |glob: &String| Permission {
        need: line::write(glob),
        granted_by: granted_by.to_owned(),
        enforcement: Enforcement::AfterTheFact,
    };
    globs.map(permission).collect()
}

impl AccessNeed<'_> {
    /// Whether the need is denied without a grant.
    pub(super) fn wants_grant(&self) -> bool {
        match self {
            Self::Tool { comes_along, .. } => *comes_along == LinkGrant::Own,
            Self::Container(network) => *network == ContainerNetwork::Host,
            Self::Command(_) | Self::Variable(_) | Self::Server(_) | Self::Endpoint(_) => true,
        }
    }

    /// Whether only a person or a directive can allow it: connecting an agent does not imply
    /// consent to this.
    pub(super) fn is_beyond_agents(&self) -> bool {
        matches!(self, Self::Container(ContainerNetwork::Host))
    }

    pub(super) fn is_allowed_by(&self, access: &Access) -> bool {
        match (self, access) {
            // A server that is a link of the chain may be granted with `<mcp>`.
            (
                Self::Tool {
                    server: Some(server),
                    ..
                },
                Access::Mcp { .. },
            ) => server.is_link && server.is_granted_by(access),
            (Self::Tool { link, types, .. }, access) => matching::allows_tool(access, link, types),
            (Self::Command(name), Access::Shell { commands: names })
            | (Self::Variable(name), Access::Env { vars: names }) => {
                names.iter().any(|glob| matching::is_name(glob, name))
            }
            // The tool does not say which tools of the server it needs, so a grant for some of them
            // is not enough.
            (Self::Server(name), Access::Mcp { server, tools }) => {
                (tools.is_empty() || tools.iter().any(|tool| tool == "*"))
                    && matching::is_id(server, name, PatternForm::Exact)
            }
            (Self::Endpoint(http), access) => {
                matching::endpoint_fit(access, http, Strictness::Narrow) != Fit::No
            }
            // A grant for containers in general does not include the host network.
            (
                Self::Container(network),
                Access::Docker {
                    network: Some(name),
                },
            ) => matching::is_name(name, network.as_str()),
            _ => false,
        }
    }

    /// Whether a `<deny>` forbids it; true when in doubt.
    pub(super) fn is_denied_by(&self, access: &Access) -> bool {
        if matching::is_everything(access) {
            return true;
        }
        match (self, access) {
            (
                Self::Tool {
                    server: Some(server),
                    ..
                },
                Access::Mcp { .. },
            ) => server.is_denied_by(access),
            (Self::Tool { link, types, .. }, access) => matching::denies_tool(access, link, types),
            (Self::Server(name), Access::Mcp { server, .. }) => {
                matching::is_id(server, name, PatternForm::Broken)
            }
            (Self::Endpoint(http), access) => {
                matching::endpoint_fit(access, http, Strictness::Wide) != Fit::No
            }
            (Self::Container(_), Access::Docker { network: None }) => true,
            _ => self.is_allowed_by(access),
        }
    }

    /// The line that would allow it.
    fn line(&self) -> String {
        match self {
            Self::Tool { link, .. } => line::tool(link.id.as_str()),
            Self::Command(name) => line::shell(name),
            Self::Variable(name) => line::env(name),
            Self::Server(name) => line::mcp(name),
            Self::Endpoint(http) => line::api(http),
            Self::Container(network) => line::docker(network.as_str()),
        }
    }

    fn description(&self) -> String {
        match self {
            Self::Tool { link, .. } => format!("run the tool `{}`", link.id),
            Self::Command(name) => format!("use the command `{}`", shown(name)),
            Self::Variable(name) => format!("see the variable `{}`", shown(name)),
            Self::Server(name) => format!("use the MCP server `{}`", shown(name)),
            Self::Endpoint(http) => format!("call `{} {}`", http.method, shown(&http.endpoint)),
            Self::Container(ContainerNetwork::Host) => {
                "run a container on the network of this machine".to_owned()
            }
            Self::Container(network) => {
                format!("run a container with the network `{}`", network.as_str())
            }
        }
    }

    fn enforcement(&self) -> Enforcement {
        match self {
            Self::Tool { .. }
            | Self::Variable(_)
            | Self::Server(_)
            | Self::Endpoint(_)
            | Self::Container(_) => Enforcement::Broker,
            // A script that may run at all may start any command it finds.
            Self::Command(_) => Enforcement::DeclaredOnly,
        }
    }

    pub(super) fn permission(&self, granted_by: String) -> Permission {
        Permission {
            need: self.line(),
            granted_by,
            enforcement: self.enforcement(),
        }
    }

    /// The denial by a directive; `denied_by` is the `<deny>` that forbids it.
    pub(super) fn denial(&self, directive: &str, denied_by: Option<String>) -> Denial {
        let allow_with = denied_by.is_none().then(|| self.line());
        Denial {
            what: self.description(),
            directive: directive.to_owned(),
            allow_with,
            denied_by,
        }
    }
}

/// Keeps the order and drops duplicates and empty names.
fn once<'i>(words: impl IntoIterator<Item = &'i String>) -> impl Iterator<Item = &'i str> {
    let mut seen = std::collections::BTreeSet::new();
    words
        .into_iter()
        .map(String::as_str)
        .filter(move |word| !word.is_empty() && seen.insert(*word))
}
