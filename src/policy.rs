//! Decides whether a call may run, and whether a step may keep the files it wrote.
//!
//! Directives grant; tools only state what they need. [`judge`] decides on the resolved
//! [`Invocation`] before anything runs; [`WriteRules`] decide about the files that a step changed.
//! [`author`] knows whose signatures count. Deny by default: doubtful cases are denied, and a
//! `<deny>` wins over every grant. Pure: no I/O.

pub mod author;
mod denial;
pub mod foresight;
mod glob;
mod line;
mod matching;
mod need;
mod writes;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::exec::NetworkReach;
use crate::exec::invocation::{Action, EndpointRules, Endpoints, Invocation, McpTransport};
use crate::exec::isolation::TcpRule;
use crate::item::directive::{Access, Grant};
use crate::item::endpoint::{Fit, Strictness};

pub use denial::{Denial, message, way_out};
pub use glob::{GlobReach, GlobRoot, InvalidGlob, PathGlobs, glob_in_project};
pub use writes::{RuleRoots, WriteRules};

use need::AccessNeed;

/// `granted_by` of calls that a person makes.
const PERSON: &str = "the person at the terminal";
/// `granted_by` of calls that an agent makes.
const AGENT: &str = "the person who connected the agent";
/// Used in place of a directive name when a call has no directive.
const NOBODY: &str = "(none)";

/// How a permission is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The kernel prevents everything else.
    Kernel,
    /// piton passes on only what is granted.
    Broker,
    /// Changes are compared with the grants afterwards and rolled back if not covered.
    AfterTheFact,
    /// Nothing enforces it; it is only recorded.
    DeclaredOnly,
}

impl Enforcement {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Broker => "broker",
            Self::AfterTheFact => "after_the_fact",
            Self::DeclaredOnly => "declared_only",
        }
    }
}

/// On whose authority a call is made.
#[derive(Clone, Debug)]
pub enum Authority<'g> {
    /// A person at the terminal, who could do the same without piton.
    Person,
    /// An agent, connected by a person who lets it act for them.
    Agent,
    /// Directives, outermost first. All of them have to allow the call.
    Directives(Vec<PolicyCaller<'g>>),
}

#[derive(Clone, Copy, Debug)]
pub struct PolicyCaller<'g> {
    pub name: &'g str,
    pub grants: &'g [Grant],
}

/// What a call needs, what allows it, and how that is enforced. Written to journals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// The need as the XML line that would allow it, e.g. `<execute resource="tool" id="greet"/>`.
    pub need: String,
    /// The XML of each directive's grant, or [`PERSON`] or [`AGENT`].
    pub granted_by: String,
    pub enforcement: Enforcement,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub permissions: Vec<Permission>,
    /// The call may be made only if this is empty.
    pub denials: Vec<Denial>,
}

pub fn judge(authority: &Authority<'_>, invocation: &Invocation) -> Verdict {
    let needs = need::of(invocation);
    let mut verdict = Verdict::default();
    let callers = match authority {
        Authority::Person | Authority::Agent => {
            let who = if matches!(authority, Authority::Agent) {
                AGENT
            } else {
                PERSON
            };
            for need in needs.iter().filter(|need| need.wants_grant()) {
                if matches!(authority, Authority::Agent) && need.is_beyond_agents() {
                    verdict.denials.push(need.denial(NOBODY, None));
                } else {
                    verdict.permissions.push(need.permission(who.to_owned()));
                }
            }
            verdict.permissions.extend(need::declared(invocation, who));
            return verdict;
        }
        Authority::Directives(callers) => callers,
    };
    for need in &needs {
        let judged: Vec<Result<String, Denial>> = match &**callers {
            [] => vec![Err(need.denial(NOBODY, None))],
            callers => callers.iter().map(|caller| caller.judge(need)).collect(),
        };
        let (granted, denied): (Vec<_>, Vec<_>) = judged.into_iter().partition(Result::is_ok);
        if denied.is_empty() {
            let granted: Vec<String> = granted.into_iter().flatten().collect();
            // A built-in runtime needs no grant, but a `<deny>` may name it.
            if need.wants_grant() {
                verdict
                    .permissions
                    .push(need.permission(granted.join(", ")));
            }
        }
        verdict
            .denials
            .extend(denied.into_iter().filter_map(Result::err));
    }
    verdict
        .permissions
        .extend(callers.iter().flat_map(PolicyCaller::file_permissions));
    verdict
}

/// Limits which addresses a request may reach and where redirects may lead.
///
/// Private addresses (this machine and its network) must be allowed by the manifest and also by a
/// person or a directive.
pub fn bound(authority: &Authority<'_>, invocation: &mut Invocation) {
    let is_trusted = may_reach_private(authority, invocation);
    let http = match &mut invocation.action {
        Action::Http(http) => http,
        Action::Mcp(mcp) => {
            if let McpTransport::Remote {
                reach,
                allow_private,
                ..
            } = &mut mcp.transport
            {
                *reach = if *allow_private && is_trusted {
                    NetworkReach::Anywhere
                } else {
                    NetworkReach::Public
                };
            }
            return;
        }
        Action::Process(_) | Action::Container(_) | Action::Meta(_) => return,
    };
    let (endpoints, is_trusted) = match authority {
        Authority::Person => (Endpoints::Any, true),
        Authority::Agent => (Endpoints::Any, false),
        Authority::Directives(callers) => {
            let is_named = |caller: &PolicyCaller<'_>| {
                let grants = caller.grants.iter().filter(|grant| !grant.deny);
                let mut fits = grants
                    .map(|grant| matching::endpoint_fit(&grant.access, http, Strictness::Narrow));
                fits.any(|fit| fit == Fit::ThisHost)
            };
            let is_trusted = !callers.is_empty() && callers.iter().all(is_named);
            (
                Endpoints::Granted(callers.iter().map(PolicyCaller::endpoint_rules).collect()),
                is_trusted,
            )
        }
    };
    http.endpoints = endpoints;
    http.reach = if http.allow_private && is_trusted {
        NetworkReach::Anywhere
    } else {
        NetworkReach::Public
    };
}

/// Which TCP ports the processes of a call may use.
///
/// A person allows everything, also for the agent that the person connected. A directive allows
/// the ports of the addresses that it grants: the kernel does not know host names.
pub fn tcp_rule(authority: &Authority<'_>) -> TcpRule {
    match authority {
        Authority::Person | Authority::Agent => TcpRule::Any,
        Authority::Directives(callers) => {
            let ports = callers.iter().map(PolicyCaller::ports);
            TcpRule::Ports(ports.reduce(|one, other| &one & &other).unwrap_or_default())
        }
    }
}

/// Records that the kernel enforces the grants to write with these globs.
pub fn enforce_by_kernel<'g>(
    permissions: &mut [Permission],
    globs: impl IntoIterator<Item = &'g str>,
) {
    let lines: BTreeSet<String> = globs.into_iter().map(line::write).collect();
    let enforced = permissions.iter_mut().filter(|permission| {
        permission.enforcement == Enforcement::AfterTheFact && lines.contains(&permission.need)
    });
    enforced.for_each(|permission| permission.enforcement = Enforcement::Kernel);
}

/// Whether a step may see a variable of the caller's environment.
pub fn may_see_variable(authority: &Authority<'_>, name: &str) -> bool {
    match authority {
        Authority::Person | Authority::Agent => true,
        Authority::Directives(callers) => {
            !callers.is_empty()
                && callers
                    .iter()
                    .all(|caller| caller.judge(&AccessNeed::Variable(name)).is_ok())
        }
    }
}

/// The denial for a directive whose text names an environment variable without a grant.
pub fn denied_variable(directive: &str, name: &str) -> Denial {
    AccessNeed::Variable(name).denial(directive, None)
}

/// The grant as an XML line for a directive.
pub fn line_of(grant: &Grant) -> String {
    line::of(grant)
}

/// Whether a call of an MCP server may reach private addresses that its manifest allows.
///
/// A person may. A directive has to name the server or its address. An agent on its own may not.
fn may_reach_private(authority: &Authority<'_>, invocation: &Invocation) -> bool {
    match authority {
        Authority::Person => true,
        Authority::Agent => false,
        Authority::Directives(callers) => {
            let Some(use_of) = need::server_of(invocation) else {
                return false;
            };
            let names_it = |caller: &PolicyCaller<'_>| {
                caller
                    .grants
                    .iter()
                    .any(|it| !it.deny && use_of.is_named_by(&it.access))
            };
            !callers.is_empty() && callers.iter().all(names_it)
        }
    }
}

impl Verdict {
    pub fn is_allowed(&self) -> bool {
        self.denials.is_empty()
    }
}

impl PolicyCaller<'_> {
    /// The ports of the addresses that it grants.
    fn ports(&self) -> BTreeSet<u16> {
        let is_refused = |grant: &Grant| grant.deny && matching::is_everything(&grant.access);
        if self.grants.iter().any(is_refused) {
            return BTreeSet::new();
        }
        let granted = self.grants.iter().filter(|grant| !grant.deny);
        granted
            .filter_map(|grant| match &grant.access {
                Access::ReadApi { endpoint } | Access::WriteApi { endpoint } => {
                    matching::port(endpoint)
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the grant that covers a need, or why none does.
    fn judge(&self, need: &AccessNeed<'_>) -> Result<String, Denial> {
        if let Some(deny) = self
            .grants
            .iter()
            .find(|grant| grant.deny && need.is_denied_by(&grant.access))
        {
            return Err(need.denial(self.name, Some(line::of(deny))));
        }
        if !need.wants_grant() {
            return Ok(String::new());
        }
        match self
            .grants
            .iter()
            .find(|grant| !grant.deny && need.is_allowed_by(&grant.access))
        {
            Some(grant) => Ok(self.signed(grant)),
            None => Err(need.denial(self.name, None)),
        }
    }

    /// The caller's grants and denials for endpoints, used when redirects are followed.
    fn endpoint_rules(&self) -> EndpointRules {
        let (denials, grants): (Vec<&Grant>, Vec<&Grant>) =
            self.grants.iter().partition(|grant| grant.deny);
        let rules = |grants: Vec<&Grant>| {
            grants
                .iter()
                .filter_map(|grant| matching::endpoint_rule(&grant.access))
                .collect::<Vec<_>>()
        };
        EndpointRules {
            grants: rules(grants),
            denials: rules(denials),
        }
    }

    /// The caller's grants for files. The needs of a call never name files, so all of these are
    /// recorded.
    fn file_permissions(&self) -> impl Iterator<Item = Permission> {
        self.grants
            .iter()
            .filter(|grant| !grant.deny)
            .filter_map(|grant| {
                let enforcement = match &grant.access {
                    Access::Read { .. } => Enforcement::DeclaredOnly,
                    Access::Write { .. } => Enforcement::AfterTheFact,
                    _ => return None,
                };
                Some(Permission {
                    need: line::of(grant),
                    granted_by: self.signed(grant),
                    enforcement,
                })
            })
    }

    fn signed(&self, grant: &Grant) -> String {
        format!("{} in `{}`", line::of(grant), self.name)
    }
}
