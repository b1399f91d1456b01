//! What an invocation needs.
//!
//! The tool, each link of its chain that is not built in, and what these say they require. Built-in
//! links come with the tool, but a `<deny>` that names one is honoured.

use super::matching::{self, Form};
use super::{Denial, Enforcement, Permission, line};
use crate::exec::invocation::{Action, Invocation, Link, McpTransport};
use crate::item::directive::Access;
use crate::item::store::Layer;
use crate::item::tool::ToolKind;
use crate::item::wording::shown;

/// One thing that a call needs.
#[derive(Clone, Debug)]
pub(super) enum Need<'i> {
    /// To run a tool, or a link of its chain.
    Tool {
        /// The tool or link.
        link: &'i Link,
        /// The types that it goes by.
        types: matching::Types<'i>,
        /// Whether it is built in and comes with the tool.
        comes_along: Coming,
        /// What it is used for, where it is an MCP server.
        server: Option<ServerUse<'i>>,
    },
    /// To find a command on the search path.
    Command(&'i str),
    /// To see a variable of the caller's environment.
    Variable(&'i str),
    /// To use another MCP server.
    Server(&'i str),
}

/// What an MCP server is used for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerUse<'i> {
    /// Its id.
    server: &'i str,
    /// The tool of it that is called; none when its tools are listed.
    tool: Option<&'i str>,
    /// Where it is, if it is not started here.
    url: Option<&'i str>,
    /// Whether it is a link of its own; else the tool says itself how to reach it.
    is_link: bool,
}

/// Whether a link needs a grant of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coming {
    /// It does.
    ByGrant,
    /// It is built in: who may run the tool may run it.
    WithTheTool,
}

/// What a call needs, each thing once: tools first, in the order of the chain.
pub(super) fn of(invocation: &Invocation) -> Vec<Need<'_>> {
    let server = server_of(invocation);
    let links = invocation.chain.iter().enumerate().map(|(at, link)| Need::Tool {
        link,
        server: server.filter(|it| it.server == link.id.as_str()),
        types: matching::types_of(link, &invocation.chain),
        comes_along: if at > 0 && link.layer == Layer::Builtin { Coming::WithTheTool } else { Coming::ByGrant },
    });
    let requires = &invocation.requires;
    let commands = once(&requires.commands).map(Need::Command);
    let variables: Vec<&String> = requires.environment.iter().chain(&invocation.variables).collect();
    let variables = once(variables).map(Need::Variable);
    let servers = once(&requires.mcp).map(Need::Server);
    links.chain(commands).chain(variables).chain(servers).collect()
}

/// The MCP server that a call uses, if it does.
pub(super) fn server_of(invocation: &Invocation) -> Option<ServerUse<'_>> {
    let Action::Mcp(mcp) = &invocation.action else { return None };
    let link = invocation.chain.iter().find(|link| link.id.as_str() == mcp.server);
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
    /// Whether a grant is about this use: `<mcp>` with the server and the tool.
    fn is_granted_by(&self, access: &Access) -> bool {
        let Access::Mcp { server, tools } = access else { return false };
        let takes = |tool: &str| tools.iter().any(|pattern| matching::is_name(pattern, tool));
        // Without tools it is about all of them, and only that lets anybody list them.
        let fits = tools.is_empty() || self.tool.map_or_else(|| tools.iter().any(|it| it == "*"), takes);
        fits && matching::is_id(server, self.server, Form::Exact)
    }

    /// Whether a `<deny>` is about this use; where that is doubtful, it is.
    fn is_denied_by(&self, access: &Access) -> bool {
        let Access::Mcp { server, tools } = access else { return false };
        let takes = |tool: &str| tools.iter().any(|pattern| matching::is_name(pattern, tool));
        let fits = tools.is_empty() || self.tool.is_none_or(takes);
        fits && matching::is_id(server, self.server, Form::Broken)
    }

    /// Whether a grant names the server or its address, so that whoever wrote it knows where it is.
    pub(super) fn is_named_by(&self, access: &Access) -> bool {
        match access {
            Access::ReadApi { endpoint } | Access::WriteApi { endpoint } => {
                let address = endpoint.split_once(' ').map_or(endpoint.as_str(), |(_, address)| address.trim());
                address.contains("://") && self.url.is_some_and(|url| matching::is_id(address, url, Form::Exact))
            }
            access => self.is_granted_by(access),
        }
    }
}

/// What a tool says it writes, which is all that binds a person.
pub(super) fn declared(invocation: &Invocation, granted_by: &str) -> Vec<Permission> {
    let globs = invocation.writes.iter().flatten();
    let permission = |glob: &String| Permission {
        need: line::write(glob),
        granted_by: granted_by.to_owned(),
        enforcement: Enforcement::AfterTheFact,
    };
    globs.map(permission).collect()
}

impl Need<'_> {
    /// Whether nothing is allowed without a grant.
    pub(super) fn wants_grant(&self) -> bool {
        !matches!(self, Self::Tool { comes_along: Coming::WithTheTool, .. })
    }

    /// Whether a grant covers it.
    pub(super) fn is_allowed_by(&self, access: &Access) -> bool {
        match (self, access) {
            // A server that is a link of its own may be granted as what it is.
            (Self::Tool { server: Some(server), .. }, Access::Mcp { .. }) => {
                server.is_link && server.is_granted_by(access)
            }
            (Self::Tool { link, types, .. }, access) => matching::allows_tool(access, link, types),
            (Self::Command(name), Access::Shell { commands: names })
            | (Self::Variable(name), Access::Env { vars: names }) => {
                names.iter().any(|glob| matching::is_name(glob, name))
            }
            // Nothing says which of a server's tools are needed: part of them is not enough.
            (Self::Server(name), Access::Mcp { server, tools }) => {
                (tools.is_empty() || tools.iter().any(|tool| tool == "*")) && matching::is_id(server, name, Form::Exact)
            }
            _ => false,
        }
    }

    /// Whether a `<deny>` takes it away; where that is doubtful, it does.
    pub(super) fn is_denied_by(&self, access: &Access) -> bool {
        if matching::is_everything(access) {
            return true;
        }
        match (self, access) {
            (Self::Tool { server: Some(server), .. }, Access::Mcp { .. }) => server.is_denied_by(access),
            (Self::Tool { link, types, .. }, access) => matching::denies_tool(access, link, types),
            (Self::Server(name), Access::Mcp { server, .. }) => matching::is_id(server, name, Form::Broken),
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
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Tool { link, .. } => format!("run the tool `{}`", link.id),
            Self::Command(name) => format!("use the command `{}`", shown(name)),
            Self::Variable(name) => format!("see the variable `{}`", shown(name)),
            Self::Server(name) => format!("use the MCP server `{}`", shown(name)),
        }
    }

    fn enforcement(&self) -> Enforcement {
        match self {
            Self::Tool { .. } | Self::Variable(_) | Self::Server(_) => Enforcement::Broker,
            // A script that may run at all may run any command it finds.
            Self::Command(_) => Enforcement::DeclaredOnly,
        }
    }

    pub(super) fn permission(&self, granted_by: String) -> Permission {
        Permission { need: self.line(), granted_by, enforcement: self.enforcement() }
    }

    /// That a directive does not allow it; `denied_by` is what takes it away.
    pub(super) fn denial(&self, directive: &str, denied_by: Option<String>) -> Denial {
        let allow_with = denied_by.is_none().then(|| self.line());
        Denial { what: self.words(), directive: directive.to_owned(), allow_with, denied_by }
    }
}

/// The words of a list in their order, without those that came before and empty ones, which name nothing.
fn once<'i>(words: impl IntoIterator<Item = &'i String>) -> impl Iterator<Item = &'i str> {
    let mut seen = std::collections::BTreeSet::new();
    words.into_iter().map(String::as_str).filter(move |word| !word.is_empty() && seen.insert(*word))
}
