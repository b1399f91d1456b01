//! Checks a call before its parameters are known, for forecasts.
//!
//! A need that some grant might still cover is not denied here: [`foresee`] returns only what will
//! be denied for all parameter values. [`is_used`] tells whether a call can use a grant.

use super::matching::{self, PatternForm};
use super::need::{self, AccessNeed};
use super::{Authority, Denial, PolicyCaller, judge};
use crate::exec::Outline;
use crate::exec::invocation::Invocation;
use crate::item::directive::{Access, Grant};
use crate::item::tool::ToolKind;

/// A call as far as it is known before the run.
#[derive(Clone, Copy, Debug)]
pub struct Foreknown<'c> {
    /// The chain and its declared requirements.
    pub outline: &'c Outline,
    /// The resolved call, if no parameter is open.
    pub invocation: Option<&'c Invocation>,
}

/// What a directive will certainly deny to a call.
pub fn foresee(caller: PolicyCaller<'_>, call: Foreknown<'_>) -> Vec<Denial> {
    if let Some(invocation) = call.invocation {
        return judge(&Authority::Directives(vec![caller]), invocation).denials;
    }
    let grants = || caller.grants.iter().filter(|grant| !grant.deny);
    let mut denials = Vec::new();
    for need in need::of_outline(call.outline) {
        match caller.judge(&need) {
            Err(_) if grants().any(|grant| is_server(&grant.access, &need)) => {}
            Err(denial) => denials.push(denial),
            Ok(_) => {}
        }
    }
    let is_endpoint = |grant: &Grant| {
        matches!(
            grant.access,
            Access::ReadApi { .. } | Access::WriteApi { .. }
        )
    };
    if call.outline.kind == ToolKind::Api && !grants().any(is_endpoint) {
        denials.push(Denial {
            what: "make a request over HTTP".to_owned(),
            directive: caller.name.to_owned(),
            allow_with: Some(
                r#"<read resource="api" endpoint="…"/> or <write resource="api" endpoint="…"/>"#
                    .to_owned(),
            ),
            denied_by: None,
        });
    }
    denials
}

/// Whether a grant is for the server that a need refers to. The called tool may not be known yet.
fn is_server(access: &Access, need: &AccessNeed<'_>) -> bool {
    let Access::Mcp { server, .. } = access else {
        return false;
    };
    matches!(need, AccessNeed::Tool { link, .. } if link.kind == ToolKind::McpServer
        && matching::is_id(server, link.id.as_str(), PatternForm::Exact))
}

/// Whether a call can use a grant; true when in doubt.
pub fn is_used(grant: &Grant, call: Foreknown<'_>) -> bool {
    let outline = call.outline;
    let is_request = outline.kind == ToolKind::Api;
    let is_mcp = matches!(outline.kind, ToolKind::McpServer | ToolKind::McpTool);
    let needs = call
        .invocation
        .map_or_else(|| need::of_outline(outline), need::of);
    let is_needed = needs
        .iter()
        .any(|need| need.is_allowed_by(&grant.access) || is_server(&grant.access, need));
    match &grant.access {
        // What a process reads and which commands it starts is not known beforehand.
        Access::Read { .. } | Access::Shell { .. } => is_needed || !is_request,
        Access::Write { path } => {
            let declared = outline.writes.as_deref();
            !is_request
                && declared.is_none_or(|globs| globs.iter().any(|glob| may_overlap(glob, path)))
        }
        // An open parameter may be part of the address, and settings may name variables.
        Access::ReadApi { .. } | Access::WriteApi { .. } => {
            is_needed || is_mcp || (is_request && call.invocation.is_none())
        }
        Access::Env { .. } => is_needed || call.invocation.is_none(),
        Access::Docker { .. } => {
            outline.kind == ToolKind::Docker
                || outline
                    .chain
                    .iter()
                    .any(|link| link.id.name() == "docker_runtime")
        }
        Access::Mcp { .. } => is_needed || is_mcp && call.invocation.is_none(),
        Access::Tool { .. } | Access::Item { .. } | Access::Capability { .. } => is_needed,
    }
}

/// Whether forecasts can tell that a grant is unused. Grants for other things than tool calls are
/// left alone.
pub fn is_about_calls(access: &Access) -> bool {
    match access {
        Access::Item {
            verb, item_type, ..
        } => verb == "execute" && item_type == "tool",
        Access::Capability { name } => name.starts_with("rye.execute.tool."),
        _ => true,
    }
}

/// Whether two globs may match the same file: not if their literal prefixes differ.
fn may_overlap(one: &str, other: &str) -> bool {
    let plain = |glob: &str| -> Vec<String> {
        let parts = glob.split('/').filter(|part| !matches!(*part, "" | "."));
        parts
            .take_while(|part| !part.contains(['*', '?', '[', '{', '\\']))
            .map(str::to_owned)
            .collect()
    };
    let (one, other) = (plain(one), plain(other));
    one.iter().zip(&other).all(|(one, other)| one == other)
}
