//! Turns settings into a call of another MCP server's tool.
//!
//! The server is the link of that type, or the tool itself if it says how to reach one. Parameters
//! that its settings name by placeholder belong to the server; all others are the tool's arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::environment::CallVariables;
use super::error::ResolveError;
use super::placeholder::{Used, Vocabulary};
use super::settings::{SettingData, ToolSetting};
use super::{ResolveContext, ResolvedAction, bounds, command, http, origin};
use crate::exec::invocation::{Action, ArgumentTypes, MaskedText, Mcp, McpTransport, RemoteKind};
use crate::exec::web::NetworkReach;
use crate::item::tool::{LoadedTool, ToolKind};
use crate::item::wording::{did_you_mean, nearest, shown};

/// The default startup timeout, in seconds.
const STARTUP: f64 = 10.0;

const TRANSPORTS: [&str; 5] = ["stdio", "http", "streamable_http", "sse", "websocket"];

pub(super) fn resolve(
    context: &ResolveContext<'_>,
    wanted_timeout: Option<f64>,
    origins: &mut BTreeMap<String, String>,
) -> Result<ResolvedAction, ResolveError> {
    let manifest = &context.tool.manifest;
    let is_server = |tool: &&&LoadedTool| tool.manifest.kind == ToolKind::McpServer;
    let server = context
        .tools
        .iter()
        .find(is_server)
        .copied()
        .unwrap_or(context.tool);
    // `{tool_dir}` in its settings means the folder of the server's item.
    let words = context.vocabulary(server, None)?;
    let mut used = Used::default();
    let tool = called(context, &words, &mut used, origins)?;
    let transport = match kind(context, server)? {
        None => McpTransport::Stdio(Box::new(command::server(
            context, &words, &mut used, origins,
        )?)),
        Some(kind) => remote(context, (server, kind), &words, &mut used, origins)?,
    };
    let startup_timeout = startup(context, origins)?;
    let timeout = bounds::timeout(
        context.settings,
        bounds::PROCESS,
        wanted_timeout,
        &words,
        &mut used,
        origins,
    )?;
    let is_argument = |name: &String| !used.parameters.contains(name);
    let arguments = context
        .parameters
        .iter()
        .filter(|(name, _)| is_argument(name));
    let action = Mcp {
        server: server.manifest.tool_id.to_string(),
        transport,
        tool,
        arguments: arguments
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        types: if manifest.parameters.is_empty() {
            ArgumentTypes::OfServer
        } else {
            ArgumentTypes::Declared
        },
        startup_timeout,
    };
    Ok(ResolvedAction {
        action: Action::Mcp(Box::new(action)),
        timeout,
        variables: used.variables,
    })
}

/// The tool's name on the server: the command, or what the manifest says.
fn called(
    context: &ResolveContext<'_>,
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<Option<String>, ResolveError> {
    let manifest = &context.tool.manifest;
    if manifest.kind == ToolKind::McpServer {
        if context.command.is_some() {
            origins.insert("action.tool".to_owned(), "command".to_owned());
        }
        return Ok(context.command.map(str::to_owned));
    }
    if let Some(command) = context.command {
        let (id, command) = (manifest.tool_id.clone(), command.to_owned());
        return Err(ResolveError::UnknownCommand {
            id,
            command,
            known: Vec::new(),
        });
    }
    let Some(setting) = context.settings.find("mcp_tool_name") else {
        let example = "`config: {mcp_tool_name: NAME}` with what the server calls the tool";
        return Err(nothing(
            context,
            context.tool,
            "config.mcp_tool_name",
            example,
        ));
    };
    let hint = "write what the server calls the tool";
    let name =
        text(setting, "config.mcp_tool_name", hint, words, used)?.map(|(text, _)| text.value);
    let name = name.filter(|name| !name.is_empty());
    let name = name
        .ok_or_else(|| setting.error("config.mcp_tool_name", "names no tool".to_owned(), hint))?;
    origins.insert("action.tool".to_owned(), setting.source.describe());
    Ok(Some(name))
}

/// How the server is reached; `None` when it is started locally.
fn kind(
    context: &ResolveContext<'_>,
    server: &LoadedTool,
) -> Result<Option<RemoteKind>, ResolveError> {
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
            let written = other.map_or_else(
                || setting.type_name().to_owned(),
                |text| format!("`{}`", shown(text)),
            );
            let meant = other.and_then(|text| nearest(text, TRANSPORTS));
            let hint = did_you_mean(meant, "use one of stdio, http, sse, websocket");
            Err(setting.error(
                "config.transport",
                format!("is {written}, which is not a transport"),
                &hint,
            ))
        }
    }
}

fn remote(
    context: &ResolveContext<'_>,
    (server, kind): (&LoadedTool, RemoteKind),
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<McpTransport, ResolveError> {
    let Some(setting) = context.settings.find("url") else {
        return Err(nothing(
            context,
            server,
            "config.url",
            "`config: {url: https://…}`",
        ));
    };
    let schemes: &[&str] = if kind == RemoteKind::Websocket {
        &["wss", "ws"]
    } else {
        &["https", "http"]
    };
    let example = format!(
        "write it as a whole, e.g. `{}://example.com/mcp`",
        schemes.first().unwrap_or(&"https")
    );
    let filled = text(setting, "config.url", &example, words, used)?;
    let (url, from) =
        filled.ok_or_else(|| setting.error("config.url", "is empty".to_owned(), &example))?;
    match url::Url::parse(&url.value) {
        Ok(parsed) if !schemes.contains(&parsed.scheme()) => {
            let reason = format!(
                "begins with `{}:`, which {} does not speak",
                parsed.scheme(),
                kind.as_str()
            );
            return Err(setting.error("config.url", reason, &example));
        }
        Ok(parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            let hint =
                "remove them; `config.auth` names the environment variable that holds the secret";
            return Err(setting.error("config.url", "holds credentials".to_owned(), hint));
        }
        Ok(_) => {}
        Err(err) => {
            return Err(setting.error("config.url", format!("is no address: {err}"), &example));
        }
    }
    origins.insert("action.url".to_owned(), from);
    let mut environment = CallVariables::scrubbed(context.around);
    environment.declare(&context.requires.environment, context.around)?;
    let (headers, allow_private) = http::manners(context, server, used, origins)?;
    Ok(McpTransport::Remote {
        kind,
        url,
        headers,
        allow_private,
        reach: NetworkReach::Public,
        environment: environment.values,
    })
}

fn startup(
    context: &ResolveContext<'_>,
    origins: &mut BTreeMap<String, String>,
) -> Result<Duration, ResolveError> {
    let mut seconds = STARTUP;
    let mut from = "default".to_owned();
    if let Some(setting) = context.settings.find("startup_timeout") {
        let said = match &setting.data {
            SettingData::Scalar(Value::Number(number)) => number.as_f64(),
            SettingData::Scalar(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        let fits = |seconds: &f64| *seconds > 0.0 && Duration::try_from_secs_f64(*seconds).is_ok();
        let reason = "must be a positive number of seconds".to_owned();
        seconds = said.filter(fits).ok_or_else(|| {
            setting.error(
                "config.startup_timeout",
                reason,
                "e.g. `startup_timeout: 30`",
            )
        })?;
        from = setting.source.describe();
    }
    origins.insert("action.startup_timeout".to_owned(), from);
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(10)))
}

/// A text with placeholders filled in, and its origin; `None` when its parameter was not given.
fn text(
    setting: &ToolSetting<'_>,
    field: &str,
    hint: &str,
    words: &Vocabulary<'_>,
    used: &mut Used,
) -> Result<Option<(MaskedText, String)>, ResolveError> {
    match &setting.data {
        SettingData::Scalar(Value::String(template)) => {
            let Some(filled) = words.fill(template, field, &setting.source)? else {
                return Ok(None);
            };
            used.add(&filled);
            let from = filled.origin(&setting.source);
            Ok(Some((filled.text, from)))
        }
        SettingData::Scalar(scalar @ (Value::Number(_) | Value::Bool(_))) => Ok(Some((
            MaskedText::plain(scalar.to_string()),
            setting.source.describe(),
        ))),
        _ => Err(setting.error(
            field,
            format!("is {}; it must be a text", setting.type_name()),
            hint,
        )),
    }
}

fn nothing(
    context: &ResolveContext<'_>,
    tool: &LoadedTool,
    missing: &'static str,
    example: &'static str,
) -> ResolveError {
    let at = Box::new(origin(tool, "config", context.roots));
    ResolveError::NothingToRun {
        id: tool.manifest.tool_id.clone(),
        missing,
        example,
        at,
    }
}
