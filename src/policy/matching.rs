//! Which grant covers which tool, command or variable.
//!
//! Grants are read narrowly and a `<deny>` widely. `*` in an id matches any text including slashes,
//! so that `*` is every tool. A tool goes by its id, by `category/id` and by the same with dots, as RYE
//! writes it (`rye.file-system.*`); a grant means the long forms only if it has a separator itself.

use globset::GlobBuilder;
use serde_json::Value;

use crate::exec::invocation::{ChainLink, EndpointRule, Http};
use crate::item::directive::Access;
use crate::item::endpoint::{self, Fit, Request, Strictness};
use crate::item::store::Layer;
use crate::item::tool::ToolKind;

/// The type names that a link matches.
#[derive(Clone, Debug)]
pub(super) struct LinkTypes<'i> {
    /// The normalized kind, and the language of the runtime that really runs the script.
    resolved: Vec<String>,
    /// The type as its author wrote it.
    written: &'i str,
}

/// How to treat a pattern that is not a valid glob. Parsed directives contain none.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatternForm {
    /// It matches nothing.
    Exact,
    /// It matches everything.
    Broken,
}

/// The type names for the languages of built-in runtimes.
const LANGUAGES: [(&str, &[&str]); 3] = [
    ("python_runtime", &["python"]),
    ("bash_runtime", &["bash", "shell"]),
    ("node_runtime", &["node", "javascript"]),
];

pub(super) fn types_of<'i>(link: &'i ChainLink, chain: &'i [ChainLink]) -> LinkTypes<'i> {
    let kind = match serde_json::to_value(link.kind) {
        Ok(Value::String(kind)) => kind,
        _ => String::new(),
    };
    let mut resolved = vec![kind];
    if link.kind == ToolKind::Script
        && let Some(runtime) = chain.iter().find(|link| link.kind == ToolKind::Runtime)
    {
        resolved.extend(languages_of(runtime).iter().map(|word| (*word).to_owned()));
        // A built-in runtime runs one language, so the type that the author wrote does not count.
        if runtime.layer == Layer::Builtin
            && LANGUAGES
                .iter()
                .any(|(_, words)| words.contains(&&*link.tool_type))
        {
            return LinkTypes {
                resolved,
                written: &link.tool_type,
            };
        }
    }
    resolved.push(link.tool_type.clone());
    LinkTypes {
        resolved,
        written: &link.tool_type,
    }
}

fn languages_of(runtime: &ChainLink) -> &'static [&'static str] {
    let known = LANGUAGES.iter().find(|(id, _)| *id == runtime.id.name());
    known.map_or(&[], |(_, words)| words)
}

/// Whether a link has the id of a built-in runtime.
pub(super) fn is_name_of_builtin(link: &ChainLink) -> bool {
    link.id.name() == "docker_runtime" || !languages_of(link).is_empty()
}

pub(super) fn allows_tool(access: &Access, link: &ChainLink, types: &LinkTypes<'_>) -> bool {
    let is_named = |glob: &str| is_granted_name(glob, link);
    match access {
        Access::Tool {
            id: None,
            tool_type: None,
        } => false,
        Access::Tool {
            id: glob,
            tool_type,
        } => {
            glob.as_deref().is_none_or(is_named)
                && tool_type.as_ref().is_none_or(|glob| {
                    types
                        .resolved
                        .iter()
                        .any(|it| !it.is_empty() && is_id(glob, it, PatternForm::Exact))
                })
        }
        Access::Item {
            verb,
            item_type,
            id: glob,
        } => runs_tools(verb, item_type) && is_named(glob),
        Access::Capability { name } => tools_of(name).is_some_and(is_named),
        _ => false,
    }
}

/// Whether a `<deny>` forbids a tool. The name without its category is enough.
pub(super) fn denies_tool(access: &Access, link: &ChainLink, types: &LinkTypes<'_>) -> bool {
    let is_named = |glob: &str| {
        names_of(link)
            .chain([link.id.name().to_owned()])
            .any(|name| is_either(glob, &name, PatternForm::Broken))
    };
    match access {
        Access::Tool { id, tool_type } => {
            let is_typed = |glob: &str| {
                let mut all = types
                    .resolved
                    .iter()
                    .map(String::as_str)
                    .chain([types.written]);
                all.any(|it| is_id(glob, it, PatternForm::Broken))
            };
            id.as_deref().is_none_or(is_named) && tool_type.as_deref().is_none_or(is_typed)
        }
        Access::Item {
            verb,
            item_type,
            id,
        } => runs_tools(verb, item_type) && is_named(id),
        // As grants these name no tool and allow nothing; as denials they forbid every tool.
        Access::Capability { name }
            if matches!(&**name, "kiwi-mcp" | "kiwi-mcp.all" | "kiwi-mcp.execute") =>
        {
            true
        }
        Access::Capability { name } => tools_of(name).is_some_and(is_named),
        _ => false,
    }
}

/// The port of an endpoint that names its host, e.g. `GET https://example.org/**`.
pub(super) fn port(endpoint: &str) -> Option<u16> {
    let address = endpoint.rsplit(' ').next().unwrap_or(endpoint);
    let (scheme, rest) = address.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let usual = match scheme {
        "http" | "ws" => 80,
        _ => 443,
    };
    // The colons of an IPv6 address are inside of brackets.
    match host.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => port.parse().ok(),
        _ => Some(usual),
    }
}

/// Whether this is `<allow>*</allow>` or `<deny>*</deny>`.
pub(super) fn is_everything(access: &Access) -> bool {
    matches!(access, Access::Item { verb, item_type, id } if [verb, item_type, id].iter().all(|it| *it == "*"))
}

fn runs_tools(verb: &str, item_type: &str) -> bool {
    matches!(verb, "execute" | "*") && matches!(item_type, "tool" | "*")
}

/// The id glob of a RYE capability for running tools: `rye.execute.tool.GLOB`, or `*` in place of
/// the remaining parts.
fn tools_of(capability: &str) -> Option<&str> {
    let mut rest = capability.strip_prefix("rye.")?;
    for part in ["execute", "tool"] {
        if rest == "*" {
            return Some("*");
        }
        let (first, after) = rest.split_once('.')?;
        if first != part && first != "*" {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

/// Whether a grant for this id pattern means a tool.
///
/// `deploy*` must not cover every tool of a category `deploy`, so a pattern without a separator, or with
/// alternatives that may have none, is compared with the bare id only.
fn is_granted_name(glob: &str, link: &ChainLink) -> bool {
    let is_long = glob.contains(['/', '.']) && !glob.contains('{');
    let mut names = names_of(link);
    names.any(|name| {
        let is_bare = name == link.id.as_str() || !name.contains('/');
        (is_long || is_bare) && is_either(glob, &name, PatternForm::Exact)
    })
}

/// The id, `category/id`, and the bare name of an id that repeats the category.
fn names_of(link: &ChainLink) -> impl Iterator<Item = String> {
    let id = link.id.as_str();
    let repeated = link
        .id
        .category()
        .is_some_and(|own| link.categories.iter().any(|category| category == own));
    let with = move |category: &String| format!("{category}/{id}");
    std::iter::once(id.to_owned())
        .chain(link.categories.iter().filter(move |_| !repeated).map(with))
        .chain(repeated.then(|| link.id.name().to_owned()))
}

fn is_either(glob: &str, id: &str, form: PatternForm) -> bool {
    is_id(glob, id, form) || is_id(glob, &id.replace('/', "."), form)
}

/// Whether an id glob matches; `*` and `?` match slashes too.
pub(super) fn is_id(glob: &str, id: &str, form: PatternForm) -> bool {
    match GlobBuilder::new(glob).literal_separator(false).build() {
        Ok(glob) => glob.compile_matcher().is_match(id),
        Err(_) => matches!(form, PatternForm::Broken),
    }
}

pub(super) fn endpoint_fit(access: &Access, http: &Http, reading: Strictness) -> Fit {
    let Some(rule) = endpoint_rule(access) else {
        return Fit::No;
    };
    match url::Url::parse(&http.url.value) {
        Ok(url) => {
            let request = Request {
                method: &http.method,
                url: &url,
                base: &http.base,
            };
            endpoint::fit(&rule.endpoint, rule.writes, &request, reading)
        }
        // The URL cannot be parsed, so the destination is unknown: a deny applies, a grant does
        // not.
        Err(_) if reading == Strictness::Wide => Fit::ThisHost,
        Err(_) => Fit::No,
    }
}

/// The permission as a rule that redirects are checked against.
pub(super) fn endpoint_rule(access: &Access) -> Option<EndpointRule> {
    match access {
        Access::ReadApi { endpoint } => Some(EndpointRule {
            endpoint: endpoint.clone(),
            writes: false,
        }),
        Access::WriteApi { endpoint } => Some(EndpointRule {
            endpoint: endpoint.clone(),
            writes: true,
        }),
        _ => None,
    }
}

/// Whether the name of a command or variable matches a pattern with `*` and `?`.
pub(super) fn is_name(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Where to continue when the text after the last `*` does not match: that star takes one more
    // character.
    let mut star: Option<(usize, usize)> = None;
    while let Some(character) = name.get(from) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == character => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((starred, taken)) = star else {
                    return false;
                };
                star = Some((starred, taken + 1));
                at = starred + 1;
                from = taken + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|it| *it == '*')
}
