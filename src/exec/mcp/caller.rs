//! One call in a worker: asks the host, compares the definition, checks arguments, calls.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::content::{self, McpResult};
use super::pin::{PinKey, PinVerdict, Pins};
use super::{Ask, HostToken, LARGEST, SOCKET, Tell};
use crate::exec::invocation::{ArgumentTypes, Mcp};
use crate::exec::worker::{FailureKind, WorkFailure, WorkerEnd};
use crate::item::params::{self, check_schema, convert};
use crate::item::wording::{did_you_mean, nearest, shown};

/// How long a host may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::exec) struct McpCallJob {
    key: PinKey,
    /// `None` lists the tools.
    tool: Option<String>,
    arguments: Map<String, Value>,
    types: ArgumentTypes,
    pins: PathBuf,
    token: HostToken,
}

impl McpCallJob {
    pub(super) fn new(mcp: &Mcp, pins: &Path, token: HostToken) -> Self {
        Self {
            key: PinKey::of(mcp),
            tool: mcp.tool.clone(),
            arguments: mcp.arguments.clone(),
            types: mcp.types,
            pins: pins.to_path_buf(),
            token,
        }
    }

    pub(in crate::exec) fn carry_out(self) -> WorkerEnd {
        let mut warnings = Vec::new();
        let value = self.call(&mut warnings);
        WorkerEnd::from(value.and_then(|value| {
            // Values and strings always serialize.
            serde_json::to_value(McpResult { value, warnings })
                .map_err(|err| lost(&err.to_string()))
        }))
    }

    fn call(self, warnings: &mut Vec<String>) -> Result<Value, WorkFailure> {
        let mut host = HostConnection::connect(&self.token)?;
        let Tell::Tools(tools) = host.ask(&Ask::List, warnings)? else {
            return Err(lost("it tells something else"));
        };
        let Some(name) = self.tool else {
            return Ok(content::listed(&tools));
        };
        let name_of = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
        let named: Vec<&Value> = tools
            .iter()
            .filter(|tool| name_of(tool).as_deref() == Some(&name))
            .collect();
        let tool = match named.as_slice() {
            [tool] => *tool,
            [] => {
                return Err(no_such_tool(
                    &self.key.server,
                    &name,
                    &tools.iter().filter_map(name_of).collect::<Vec<_>>(),
                ));
            }
            // It is undefined which of them the server would call.
            _ => {
                let message = format!(
                    "the MCP server `{}` has several tools `{}`",
                    self.key.server,
                    shown(&name)
                );
                return Err(WorkFailure::new(FailureKind::McpProtocol, message));
            }
        };
        match Pins::new(&self.pins).judge(&self.key, tool)? {
            PinVerdict::First(Err(err)) => {
                warnings.push(format!("what the tool is could not be kept: {err}"));
            }
            PinVerdict::Same | PinVerdict::First(Ok(())) => {}
            PinVerdict::Changed(failure) => return Err(failure),
        }
        let arguments = fitting(
            &self.key.server,
            &name,
            tool,
            self.arguments,
            self.types,
            warnings,
        )?;
        let told = host
            .ask(
                &Ask::Call {
                    tool: name,
                    arguments,
                },
                warnings,
            )
            .map_err(|failure| match failure.kind {
                FailureKind::McpServer | FailureKind::Network => failure.unanswered(),
                _ => failure,
            });
        match told? {
            Tell::Result(result) => content::value(result),
            _ => Err(lost("it tells something else")),
        }
    }
}

/// Converts the arguments to the server's schema; invalid ones are refused before the server is
/// asked.
fn fitting(
    server: &str,
    name: &str,
    tool: &Value,
    mut arguments: Map<String, Value>,
    types: ArgumentTypes,
    warnings: &mut Vec<String>,
) -> Result<Map<String, Value>, WorkFailure> {
    let Some(schema) = tool.get("inputSchema").filter(|schema| schema.is_object()) else {
        return Ok(arguments);
    };
    if types == ArgumentTypes::OfServer {
        for (name, value) in &mut arguments {
            let wanted = schema
                .pointer("/properties")
                .and_then(|all| all.get(name))
                .and_then(|it| it.get("type"));
            if let (Some(text), Some(kind)) = (value.as_str(), wanted.and_then(Value::as_str))
                && let Ok(converted) = convert(text, kind)
            {
                *value = converted;
            }
        }
    }
    if let Some(problem) = check_schema(schema).first() {
        let message = format!(
            "the schema of `{}` cannot be used, so that only the server checks: ",
            shown(name)
        );
        warnings.push(format!("{message}{}", problem.message));
        return Ok(arguments);
    }
    let Err(problems) = params::validate(schema, &Value::Object(arguments.clone())) else {
        return Ok(arguments);
    };
    let all: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    let message = format!(
        "the tool `{}` of `{server}` cannot be called like this: {}",
        shown(name),
        all.join("; ")
    );
    let suggested = problems
        .iter()
        .find_map(|problem| problem.suggestion.clone());
    let way_out =
        suggested.unwrap_or_else(|| format!("`piton tool run {server}` lists what its tools take"));
    Err(WorkFailure::new(FailureKind::Arguments, message).suggest(way_out))
}

fn no_such_tool(server: &str, name: &str, known: &[String]) -> WorkFailure {
    let names = known
        .iter()
        .take(20)
        .map(|name| format!("`{}`", shown(name)))
        .collect::<Vec<_>>()
        .join(", ");
    let otherwise = if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {names}")
    };
    let meant = nearest(name, known.iter().map(String::as_str));
    let message = format!("the MCP server `{server}` has no tool `{}`", shown(name));
    WorkFailure::new(FailureKind::McpNoTool, message).suggest(did_you_mean(meant, &otherwise))
}

struct HostConnection {
    stream: BufReader<UnixStream>,
}

impl HostConnection {
    /// Waits until the host listens. The worker runs in its folder.
    fn connect(token: &HostToken) -> Result<Self, WorkFailure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match UnixStream::connect(SOCKET) {
                Ok(mut stream) => {
                    stream
                        .write_all(&token.line())
                        .map_err(|err| lost(&err.to_string()))?;
                    return Ok(Self {
                        stream: BufReader::new(stream),
                    });
                }
                Err(err) if Instant::now() >= deadline => return Err(lost(&err.to_string())),
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn ask(&mut self, ask: &Ask, warnings: &mut Vec<String>) -> Result<Tell, WorkFailure> {
        let mut line = serde_json::to_vec(ask).map_err(|err| lost(&err.to_string()))?;
        line.push(b'\n');
        self.stream
            .get_mut()
            .write_all(&line)
            .map_err(|err| lost(&err.to_string()))?;
        loop {
            match self.hear()? {
                Tell::Talk(text) => relay(text.as_bytes()),
                Tell::Warning(warning) => warnings.push(warning),
                Tell::Failed(failure) => return Err(failure),
                tell @ (Tell::Tools(_) | Tell::Result(_)) => return Ok(tell),
            }
        }
    }

    fn hear(&mut self) -> Result<Tell, WorkFailure> {
        let mut line = Vec::new();
        // Escapes can make a message longer in JSON.
        let limit = 6 * LARGEST as u64;
        match (&mut self.stream).take(limit).read_until(b'\n', &mut line) {
            Ok(0) => Err(lost("it ended")),
            Ok(_) => serde_json::from_slice(&line).map_err(|err| lost(&err.to_string())),
            Err(err) => Err(lost(&err.to_string())),
        }
    }
}

/// Passes the server's stderr on. A failure is ignored: the reader is gone then.
fn relay(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stderr(), bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// The failure when the host cannot be reached.
fn lost(reason: &str) -> WorkFailure {
    let message = format!("the process that has the MCP server cannot be asked: {reason}");
    WorkFailure::new(FailureKind::McpServer, message)
}
