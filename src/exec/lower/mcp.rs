//! From settings to a call of a tool that another MCP server has.
//!
//! The server is the link of that type, or the tool itself where it says how to reach one. What its
//! settings name by a placeholder belongs to the server; all other parameters are the tool's arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::environment::Environment;
use super::error::LowerError;
use super::placeholder::{Used, Vocabulary};
use super::settings::{Held, Setting};
use super::{Context, Resolved, bounds, command, origin};
use crate::exec::invocation::{Action, Mcp, McpTransport, RemoteKind, Text, Types};
use crate::exec::web::Reach;
use crate::item::signature::author;
use crate::item::tool::{LoadedTool, ToolKind};
use crate::item::wording::{did_you_mean, nearest, shown};

/// How long a server may take to start that does not say.
const STARTUP: f64 = 10.0;

const TRANSPORTS: [&str; 5] = ["stdio", "http", "streamable_http", "sse", "websocket"];
const AUTHENTICATIONS: [&str; 4] = ["bearer", "basic", "header", "api_key"];

/// Resolves the action of a call.
pub(super) fn resolve(
    context: &Context<'_>,
    wanted_timeout: Option<f64>,
    origins: &mut BTreeMap<String, String>,
) -> Result<Resolved, LowerError> {
    let manifest = &context.tool.manifest;
    let is_server = |tool: &&&LoadedTool| tool.manifest.kind == ToolKind::McpServer;
    let server = context.tools.iter().find(is_server).copied().unwrap_or(context.tool);
    // Where its files are, that its settings may name.
    let words = context.words(server, None)?;
    let mut used = Used::default();
    let tool = called(context, &words, &mut used, origins)?;
    let transport = match kind(context, server)? {
        None => McpTransport::Stdio(Box::new(command::server(context, &words, &mut used, origins)?)),
        Some(kind) => remote(context, (server, kind), &words, &mut used, origins)?,
    };
    let startup_timeout = startup(context, origins)?;
    let timeout = bounds::timeout(context.settings, bounds::PROCESS, wanted_timeout, &words, &mut used, origins)?;
    let is_argument = |name: &String| !used.parameters.contains(name);
    let arguments = context.parameters.iter().filter(|(name, _)| is_argument(name));
    let action = Mcp {
        server: server.manifest.tool_id.to_string(),
        transport,
        tool,
        arguments: arguments.map(|(name, value)| (name.clone(), value.clone())).collect(),
        types: if manifest.parameters.is_empty() { Types::OfServer } else { Types::Declared },
        startup_timeout,
    };
    Ok(Resolved { action: Action::Mcp(Box::new(action)), timeout, variables: used.variables })
}

/// What the server calls the tool: the command of a server, or what the manifest says.
fn called(
    context: &Context<'_>,
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<Option<String>, LowerError> {
    let manifest = &context.tool.manifest;
    if manifest.kind == ToolKind::McpServer {
        if context.command.is_some() {
            origins.insert("action.tool".to_owned(), "command".to_owned());
        }
        return Ok(context.command.map(str::to_owned));
    }
    if let Some(command) = context.command {
        let (id, command) = (manifest.tool_id.clone(), command.to_owned());
        return Err(LowerError::UnknownCommand { id, command, known: Vec::new() });
    }
    let Some(setting) = context.settings.find("mcp_tool_name") else {
        let example = "`config: {mcp_tool_name: NAME}` with what the server calls the tool";
        return Err(nothing(context, context.tool, "config.mcp_tool_name", example));
    };
    let hint = "write what the server calls the tool";
    let name = text(setting, "config.mcp_tool_name", hint, words, used)?.map(|(text, _)| text.value);
    let name = name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| wrong("config.mcp_tool_name", setting, "names no tool".to_owned(), hint))?;
    origins.insert("action.tool".to_owned(), setting.source.describe());
    Ok(Some(name))
}

/// How the server is reached; none when it is started.
fn kind(context: &Context<'_>, server: &LoadedTool) -> Result<Option<RemoteKind>, LowerError> {
    let find = |key: &str| context.settings.find(key);
    let Some(setting) = find("transport") else {
        return match (find("executable").or(find("command")), find("url")) {
            (None, Some(_)) => Ok(Some(RemoteKind::Http)),
            (Some(_), _) => Ok(None),
            (None, None) => {
                let example = "`config: {command: PROGRAM}` or `config: {url: https://…}`";
                Err(nothing(context, server, "config.command", example))
            }
        };
    };
    match setting.as_text() {
        Some("stdio") => Ok(None),
        Some("http" | "streamable_http" | "streamable-http") => Ok(Some(RemoteKind::Http)),
        Some("sse") => Ok(Some(RemoteKind::Sse)),
        Some("websocket") => Ok(Some(RemoteKind::Websocket)),
        other => {
            let written = other.map_or_else(|| setting.type_name().to_owned(), |text| format!("`{}`", shown(text)));
            let meant = other.and_then(|text| nearest(text, TRANSPORTS));
            let hint = did_you_mean(meant, "use one of stdio, http, sse, websocket");
            Err(wrong("config.transport", setting, format!("is {written}, which is no transport"), &hint))
        }
    }
}

/// A server that is there already.
fn remote(
    context: &Context<'_>,
    (server, kind): (&LoadedTool, RemoteKind),
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<McpTransport, LowerError> {
    let Some(setting) = context.settings.find("url") else {
        return Err(nothing(context, server, "config.url", "`config: {url: https://…}`"));
    };
    let schemes: &[&str] = if kind == RemoteKind::Websocket { &["wss", "ws"] } else { &["https", "http"] };
    let example = format!("write it as a whole, e.g. `{}://example.com/mcp`", schemes.first().unwrap_or(&"https"));
    let filled = text(setting, "config.url", &example, words, used)?;
    let (url, from) = filled.ok_or_else(|| wrong("config.url", setting, "is empty".to_owned(), &example))?;
    match url::Url::parse(&url.value) {
        Ok(parsed) if !schemes.contains(&parsed.scheme()) => {
            let reason = format!("begins with `{}:`, which {} does not speak", parsed.scheme(), kind.as_str());
            return Err(wrong("config.url", setting, reason, &example));
        }
        Ok(parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            let hint = "remove them; `config.auth` names the environment variable that holds the secret";
            return Err(wrong("config.url", setting, "holds credentials".to_owned(), hint));
        }
        Ok(_) => {}
        Err(err) => return Err(wrong("config.url", setting, format!("is no address: {err}"), &example)),
    }
    origins.insert("action.url".to_owned(), from);
    let mut environment = Environment::scrubbed(context.around);
    environment.declare(&context.requires.environment, context.around)?;
    let headers = headers(context, words, used, origins)?;
    let allow_private = match context.settings.find("allow_private") {
        None => false,
        Some(Setting { data: Held::Scalar(Value::Bool(allowed)), source }) => {
            origins.insert("action.allow_private".to_owned(), source.describe());
            *allowed
        }
        Some(setting) => {
            let reason = format!("is {}; it must be true or false", setting.type_name());
            return Err(wrong("config.allow_private", setting, reason, "e.g. `allow_private: true`"));
        }
    };
    Ok(McpTransport::Remote {
        kind,
        url,
        headers,
        allow_private,
        reach: Reach::Public,
        environment: environment.values,
    })
}

/// The header fields of each request: `config.headers`, and what `config.auth` adds.
fn headers(
    context: &Context<'_>,
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<Vec<(String, Text)>, LowerError> {
    let mut headers = Vec::new();
    if let Some(setting) = context.settings.find("headers") {
        let hint = "e.g. `headers: {X-Team: red}`";
        let Held::Map(entries) = &setting.data else {
            let reason = format!("is {}; it must be a mapping", setting.type_name());
            return Err(wrong("config.headers", setting, reason, hint));
        };
        for (name, value) in entries {
            let field = format!("config.headers.{name}");
            let Some((text, from)) = text(value, &field, hint, words, used)? else { continue };
            let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(fits) || text.value.contains(['\r', '\n', '\0']) {
                return Err(wrong(&field, value, "is no header field".to_owned(), hint));
            }
            origins.insert(format!("action.headers.{name}"), from);
            headers.push((name.clone(), text));
        }
    }
    if let Some(setting) = context.settings.find("auth") {
        let (name, value) = authentication(setting, words, used)?;
        origins.insert(format!("action.headers.{name}"), setting.source.describe());
        headers.push((name, value));
    }
    Ok(headers)
}

/// The header field that says who asks, with a secret from a variable of the caller.
fn authentication(
    setting: &Setting<'_>,
    words: &Vocabulary<'_>,
    used: &mut Used,
) -> Result<(String, Text), LowerError> {
    let hint = "e.g. `auth: {type: bearer, env_var: API_TOKEN}`";
    let Held::Map(entries) = &setting.data else {
        let reason = format!("is {}; it must be a mapping", setting.type_name());
        return Err(wrong("config.auth", setting, reason, hint));
    };
    let find = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let Some(variable) = find("env_var").and_then(Setting::as_text) else {
        return Err(wrong("config.auth", setting, "names no `env_var`".to_owned(), hint));
    };
    let field = "config.auth.env_var";
    if !words.around.environment.contains_key(std::ffi::OsStr::new(variable)) {
        let reason = format!("names `{}`, which is not set", shown(variable));
        return Err(wrong(field, setting, reason, &format!("set `{}`", shown(variable))));
    }
    let filled = words.fill(&format!("${{{variable}}}"), field, &setting.source)?.unwrap_or_default();
    used.add(&filled);
    let secret = filled.text;
    if secret.value.contains(['\r', '\n', '\0']) {
        let reason = format!("names `{}`, whose value is no header field", shown(variable));
        return Err(wrong(field, setting, reason, "set it to one line"));
    }
    let with = |scheme: &str, secret: &Text| {
        let mut text = Text::plain(scheme);
        text.push(secret);
        text
    };
    let named = find("header").or_else(|| find("header_name")).or_else(|| find("name")).and_then(Setting::as_text);
    match find("type").and_then(Setting::as_text) {
        Some("bearer") => Ok(("Authorization".to_owned(), with("Bearer ", &secret))),
        Some("basic") => {
            let encoded = Text::secret(author::encode(secret.value.as_bytes()));
            Ok(("Authorization".to_owned(), with("Basic ", &encoded)))
        }
        Some("header" | "api_key") => Ok((named.unwrap_or("X-API-Key").to_owned(), secret)),
        other => {
            let meant = other.and_then(|text| nearest(text, AUTHENTICATIONS));
            let hint = did_you_mean(meant, "use one of bearer, basic, header, api_key");
            Err(wrong("config.auth.type", setting, "is no authentication".to_owned(), &hint))
        }
    }
}

/// How long the server may take until it can be spoken to.
fn startup(context: &Context<'_>, origins: &mut BTreeMap<String, String>) -> Result<Duration, LowerError> {
    let mut seconds = STARTUP;
    let mut from = "default".to_owned();
    if let Some(setting) = context.settings.find("startup_timeout") {
        let said = match &setting.data {
            Held::Scalar(Value::Number(number)) => number.as_f64(),
            Held::Scalar(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        let fits = |seconds: &f64| *seconds > 0.0 && Duration::try_from_secs_f64(*seconds).is_ok();
        let reason = "must be a positive number of seconds".to_owned();
        seconds = said
            .filter(fits)
            .ok_or_else(|| wrong("config.startup_timeout", setting, reason, "e.g. `startup_timeout: 30`"))?;
        from = setting.source.describe();
    }
    origins.insert("action.startup_timeout".to_owned(), from);
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(10)))
}

/// A text with everything put in, and where it came from; none where nothing was given for it.
fn text(
    setting: &Setting<'_>,
    field: &str,
    hint: &str,
    words: &Vocabulary<'_>,
    used: &mut Used,
) -> Result<Option<(Text, String)>, LowerError> {
    match &setting.data {
        Held::Scalar(Value::String(template)) => {
            let Some(filled) = words.fill(template, field, &setting.source)? else { return Ok(None) };
            used.add(&filled);
            let from = filled.origin(&setting.source);
            Ok(Some((filled.text, from)))
        }
        Held::Scalar(scalar @ (Value::Number(_) | Value::Bool(_))) => {
            Ok(Some((Text::plain(scalar.to_string()), setting.source.describe())))
        }
        _ => Err(wrong(field, setting, format!("is {}; it must be a text", setting.type_name()), hint)),
    }
}

fn nothing(context: &Context<'_>, tool: &LoadedTool, missing: &'static str, example: &'static str) -> LowerError {
    let at = Box::new(origin(tool, "config", context.roots));
    LowerError::NothingToRun { id: tool.manifest.tool_id.clone(), missing, example, at }
}

fn wrong(field: &str, setting: &Setting<'_>, reason: String, hint: &str) -> LowerError {
    LowerError::Setting {
        field: field.to_owned(),
        reason,
        hint: hint.to_owned(),
        at: Some(Box::new(setting.source.origin())),
    }
}
