//! Permissions as XML lines of a directive.
//!
//! A line for one thing matches only that thing: special characters of globs and XML are escaped.
//! Characters that no attribute can hold become a pattern for one such character.

use crate::exec::invocation::{Http, REDACTED};
use crate::item::directive::{Access, Grant};
use crate::item::endpoint::{Base, is_safe};

/// A glob for one byte outside visible ASCII; globs match bytes.
const UNSEEN: &str = "[! -~]";

pub(super) fn of(grant: &Grant) -> String {
    let line = of_access(&grant.access);
    if grant.deny {
        format!("<deny>{line}</deny>")
    } else {
        line
    }
}

/// Ids contain no special characters, so nothing is escaped.
pub(super) fn tool(id: &str) -> String {
    element("execute", &[("resource", "tool"), ("id", id)])
}

pub(super) fn shell(name: &str) -> String {
    let separates = |c: char| c == ',' || c.is_whitespace();
    let pattern: String = name
        .chars()
        .map(|c| if separates(c) || !is_plain(c) { '?' } else { c })
        .collect();
    element("shell", &[("commands", &pattern.replace('*', "?"))])
}

/// Characters that a variable name cannot contain become `?`; an invalid first one becomes `*`.
pub(super) fn env(name: &str) -> String {
    let pattern = name.chars().enumerate().map(|(at, c)| match c {
        '_' => c,
        c if c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit()) => c,
        _ if at == 0 => '*',
        _ => '?',
    });
    element("env", &[("vars", &pattern.collect::<String>())])
}

pub(super) fn mcp(server: &str) -> String {
    element("mcp", &[("name", &exactly(server.as_bytes()))])
}

/// A secret part of the path becomes a pattern for one segment.
pub(super) fn api(http: &Http) -> String {
    let name = if is_safe(&http.method) {
        "read"
    } else {
        "write"
    };
    let begins = match &http.base {
        Base::Variable { written, .. } => written.as_str(),
        Base::Named | Base::Foreign => "",
    };
    let rest = http.endpoint.strip_prefix(begins).unwrap_or(&http.endpoint);
    let parts: Vec<String> = rest
        .split(REDACTED)
        .map(|part| exactly(part.as_bytes()))
        .collect();
    element(
        name,
        &[
            ("resource", "api"),
            (
                "endpoint",
                &format!("{} {begins}{}", http.method, parts.join("*")),
            ),
        ],
    )
}

pub(super) fn docker(network: &str) -> String {
    element("execute", &[("resource", "docker"), ("network", network)])
}

pub(super) fn write(glob: &str) -> String {
    element("write", &[("resource", "filesystem"), ("path", glob)])
}

/// A glob for exactly these bytes.
pub(super) fn exactly(bytes: &[u8]) -> String {
    let mut glob = String::new();
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let is_edge = at == 0 || at + c.len_utf8() == bytes.len();
            match c {
                '*' | '?' | '[' | ']' | '{' | '}' | '\\' => glob.extend(['[', c, ']']),
                // The parser trims, and refuses `~/` and `C:` at the start.
                ' ' | '~' if is_edge => glob.extend(['[', c, ']']),
                ':' if at == 1 => glob.push_str("[:]"),
                c if is_plain(c) => glob.push(c),
                c => glob.push_str(&UNSEEN.repeat(c.len_utf8())),
            }
            at += c.len_utf8();
        }
        glob.push_str(&UNSEEN.repeat(chunk.invalid().len()));
        at += chunk.invalid().len();
    }
    glob
}

fn of_access(access: &Access) -> String {
    let files = |name, path: &str| element(name, &[("resource", "filesystem"), ("path", path)]);
    let api = |name, endpoint: &str| element(name, &[("resource", "api"), ("endpoint", endpoint)]);
    match access {
        Access::Tool { id, tool_type } => {
            let given = [("id", id), ("tool_type", tool_type)];
            let given = given
                .iter()
                .filter_map(|(name, value)| Some((*name, value.as_deref()?)));
            element(
                "execute",
                &std::iter::once(("resource", "tool"))
                    .chain(given)
                    .collect::<Vec<_>>(),
            )
        }
        Access::Shell { commands } => element("shell", &[("commands", &commands.join(","))]),
        Access::Env { vars } => element("env", &[("vars", &vars.join(","))]),
        Access::Read { path } => files("read", path),
        Access::Write { path } => files("write", path),
        Access::ReadApi { endpoint } => api("read", endpoint),
        Access::WriteApi { endpoint } => api("write", endpoint),
        Access::Mcp { server, tools } if tools.is_empty() => element("mcp", &[("name", server)]),
        Access::Mcp { server, tools } => {
            element("mcp", &[("name", server), ("tools", &tools.join(","))])
        }
        Access::Docker { network } => {
            let network = network.iter().map(|network| ("network", &**network));
            element("docker", &network.collect::<Vec<_>>())
        }
        Access::Item {
            verb,
            item_type,
            id,
        } if [verb, item_type].iter().all(|it| *it == "*") => {
            format!("<allow>{}</allow>", escaped(id))
        }
        Access::Item {
            verb,
            item_type,
            id,
        } if item_type == "*" => format!("<{verb}>{}</{verb}>", escaped(id)),
        Access::Item {
            verb,
            item_type,
            id,
        } => {
            format!(
                "<{verb}><{item_type}>{}</{item_type}></{verb}>",
                escaped(id)
            )
        }
        Access::Capability { name } => format!("<cap>{}</cap>", escaped(name)),
    }
}

fn element(name: &str, attributes: &[(&str, &str)]) -> String {
    let words = attributes
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let words: Vec<String> = std::iter::once(name.to_owned()).chain(words).collect();
    format!("<{}/>", words.join(" "))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Whether a character is visible and needs no escape in an attribute.
fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric()
}
