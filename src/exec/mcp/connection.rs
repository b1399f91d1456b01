//! A server that runs and is spoken to.
//!
//! The handshake is that of the protocol with `initialize`, which every server in use understands: asking first whether
//! one speaks the newer protocol without it costs ten seconds with each old server that stays silent.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams,
    ElicitResult, ErrorCode, ErrorData, Implementation, ListToolsRequest, PaginatedRequestParams, PingRequest,
    ServerResult,
};
use rmcp::service::{
    ClientInitializeError, PeerRequestOptions, RequestContext, RequestHandle, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientHandler, ServiceExt};
use serde_json::{Map, Value};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::content::told;
use super::talk::Talk;
use super::wire::Fault;
use super::{LARGEST, Server, Way, sse, stdio, websocket};
use crate::exec::invocation::RemoteKind;
use crate::exec::web::{Reach, check_url, client, kind_of, with_sources};
use crate::exec::worker::{Failure, FailureKind};
use crate::item::wording::shown;

/// How long a server may take to say that it is there.
const PING: Duration = Duration::from_secs(5);

/// How long a server has to end when nobody speaks to it any more.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long the end of a server that broke off is waited for, to tell how it ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The most pages and tools that a server may list.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 4096;

/// A server that runs.
pub(super) struct Connection {
    service: RunningService<RoleClient, Client>,
    fault: Fault,
    child: Option<Running>,
}

/// The process of a server.
struct Running {
    child: Child,
    talk: JoinHandle<()>,
}

/// piton, as servers see it: it answers that it is there, has no roots, and refuses what asks a model or a person.
#[derive(Clone, Copy, Debug)]
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut about = Implementation::from_build_env();
        "piton".clone_into(&mut about.name);
        env!("CARGO_PKG_VERSION").clone_into(&mut about.version);
        ClientConfig::new(ClientCapabilities::default(), about)
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let message = "piton does not support elicitation/create";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}

impl Connection {
    /// Starts a server, or finds it, and shakes hands.
    pub(super) async fn open(server: &Server, talk: &Talk) -> Result<Self, Failure> {
        let fault = Fault::default();
        let mut child = None;
        let opened = timeout(server.startup_timeout, begin(server, talk, &fault, &mut child)).await;
        let failure = match opened {
            Ok(Ok(service)) => return Ok(Self { service, fault, child }),
            Ok(Err(failure)) => explained(failure, &fault, &server.id, child.as_mut()).await,
            Err(_) => {
                let limit = server.startup_timeout.as_secs_f64();
                let stray = fault.stray().map(|what| format!("; {what}")).unwrap_or_default();
                let message = format!("the MCP server `{}` did not answer within {limit} s{stray}", server.id);
                Failure::new(FailureKind::McpServer, message)
                    .suggest("see what it writes to stderr; `startup_timeout:` gives it more time")
            }
        };
        if let Some(running) = child {
            running.end(Duration::ZERO).await;
        }
        Err(failure)
    }

    /// Whether it is there: any answer will do.
    pub(super) async fn is_well(&self) -> bool {
        if self.service.is_closed() {
            return false;
        }
        let request = ClientRequest::PingRequest(PingRequest::default());
        match self.service.peer().send_request_with_option(request, PeerRequestOptions::with_timeout(PING)).await {
            Ok(handle) => matches!(handle.await_response().await, Ok(_) | Err(ServiceError::McpError(_))),
            Err(_) => false,
        }
    }

    /// The tools that it has, as it describes them.
    pub(super) async fn list(&self) -> Result<Vec<Value>, Broken> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor.take()));
            let request = ListToolsRequest { params, ..ListToolsRequest::default() };
            let answer = self.service.peer().send_request(ClientRequest::ListToolsRequest(request)).await;
            let ServerResult::ListToolsResult(page) = answer.map_err(Broken::from)? else {
                return Err(Broken::Failed(odd("its list of tools is none")));
            };
            tools.extend(page.tools.iter().filter_map(|tool| serde_json::to_value(tool).ok()));
            cursor = page.next_cursor;
            if tools.len() > MOST_TOOLS {
                break;
            }
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(Broken::Failed(odd("its list of tools does not end")))
    }

    /// Begins to call a tool.
    pub(super) async fn call(&self, tool: String, arguments: Map<String, Value>) -> Result<Pending, Broken> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.service.peer().send_request_with_option(request, PeerRequestOptions::no_options()).await;
        Ok(Pending(sent.map_err(Broken::from)?))
    }

    /// Why it broke off, as far as that can be told.
    pub(super) async fn explain(&mut self, broken: Broken, id: &str) -> Failure {
        match broken {
            Broken::Failed(failure) => failure,
            Broken::Off(failure) => explained(failure, &self.fault, id, self.child.as_mut()).await,
        }
    }

    /// Ends it: first by words, then by force.
    pub(super) async fn close(mut self) {
        // It closes what the server reads from, or ends the session at the address.
        let _ = self.service.close_with_timeout(FAREWELL).await;
        drop(self.service);
        if let Some(running) = self.child {
            running.end(FAREWELL).await;
        }
    }
}

/// A call that was begun.
pub(super) struct Pending(RequestHandle<RoleClient>);

impl Pending {
    /// Waits for its answer; may be given up and waited for again.
    pub(super) async fn answer(&mut self) -> Result<Value, Broken> {
        let answer = (&mut self.0.rx).await.unwrap_or(Err(ServiceError::TransportClosed));
        match answer.map_err(Broken::from)? {
            ServerResult::CallToolResult(result) => {
                serde_json::to_value(result).map_err(|_| Broken::Failed(odd("its answer cannot be read")))
            }
            ServerResult::InputRequiredResult(_) => Err(Broken::Failed(odd("it asks questions, which nobody answers"))),
            _ => Err(Broken::Failed(odd("its answer is none to the call of a tool"))),
        }
    }

    /// Tells the server that nobody waits for the answer any more.
    pub(super) async fn cancel(self) {
        // If it cannot be told, it is gone.
        let _ = self.0.cancel(Some("the call was ended".to_owned())).await;
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Broken {
    /// The server said so, or said nothing that makes sense; it can be spoken to again.
    Failed(Failure),
    /// The connection is gone.
    Off(Failure),
}

impl From<ServiceError> for Broken {
    fn from(err: ServiceError) -> Self {
        match err {
            ServiceError::McpError(error) => Self::Failed(refused(&error)),
            ServiceError::UnexpectedResponse => Self::Failed(odd("its answer is of another kind")),
            ServiceError::TransportClosed => Self::Off(off("ended the connection")),
            ServiceError::TransportSend(below) => Self::Off(network(&below, &below)),
            other => Self::Off(Failure::new(FailureKind::Network, unreached(&other))),
        }
    }
}

fn off(what: &str) -> Failure {
    Failure::new(FailureKind::McpServer, format!("the MCP server {what}"))
}

fn odd(what: &str) -> Failure {
    Failure::new(FailureKind::McpProtocol, format!("the MCP server is not understood: {what}"))
}

/// An error that the server answered with.
fn refused(error: &ErrorData) -> Failure {
    let message = format!("the MCP server refused: {} (code {})", told(&error.message), error.code.0);
    Failure::new(FailureKind::McpTool, message)
}

fn unreached(err: &(dyn std::error::Error + 'static)) -> String {
    format!("the MCP server cannot be reached: {}", told(&with_sources(err)))
}

/// An error with the one of the transport below it, which knows whether the address is allowed.
fn network(err: &(dyn std::error::Error + 'static), below: &DynamicTransportError) -> Failure {
    let kind = match below.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        // This variant does not name its source.
        Some(StreamableHttpError::Client(err)) => kind_of(err),
        _ => kind_of(below),
    };
    Failure::new(kind, unreached(err))
}

async fn begin(
    server: &Server,
    talk: &Talk,
    fault: &Fault,
    running: &mut Option<Running>,
) -> Result<RunningService<RoleClient, Client>, Failure> {
    let (kind, url, headers, reach) = match &server.way {
        Way::Program { program, arguments, folder, environment, .. } => {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(folder).env_clear().envs(environment);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn().map_err(|err| {
                let message = format!("cannot start the MCP server `{}`: {err}", server.id);
                Failure::new(FailureKind::McpServer, message)
            })?;
            let (to, from, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (Some(to), Some(from), Some(errors)) = (to, from, errors) else { return Err(off("has no streams")) };
            let talk = tokio::spawn(talk.clone().follow(errors));
            *running = Some(Running { child, talk });
            return Client.serve(stdio::connect(to, from, fault)).await.map_err(init_failure);
        }
        Way::Address { kind, url, headers, reach } => (*kind, url, headers, *reach),
    };
    let url = Url::parse(url).map_err(|err| Failure::new(FailureKind::Address, format!("no address: {err}")))?;
    let headers = header_map(headers)?;
    match kind {
        RemoteKind::Sse => Client.serve(sse::connect(&url, &headers, reach, fault).await?).await,
        RemoteKind::Websocket => Client.serve(websocket::connect(&url, &headers, reach, fault).await?).await,
        RemoteKind::Http => Client.serve(streamable(&url, &headers, reach)?).await,
    }
    .map_err(init_failure)
}

fn streamable(
    url: &Url,
    headers: &HeaderMap,
    reach: Reach,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, Failure> {
    check_url(url, reach)?;
    let mut fields: HashMap<HeaderName, HeaderValue> = HashMap::new();
    for (name, value) in headers {
        fields.insert(name.clone(), value.clone());
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(fields);
    config.max_sse_event_size = LARGEST;
    Ok(StreamableHttpClientTransport::with_client(client(reach)?, config))
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, Failure> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || Failure::new(FailureKind::Network, format!("`{}` is no header field", shown(name)));
        let field: HeaderName = name.parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        map.append(field, value);
    }
    Ok(map)
}

/// Why hands could not be shaken.
fn init_failure(err: ClientInitializeError) -> Failure {
    match err {
        ClientInitializeError::ConnectionClosed(_) => off("ended the connection"),
        ClientInitializeError::JsonRpcError(error) => refused(&error),
        ClientInitializeError::TransportError { error, context } => {
            let err = ClientInitializeError::TransportError { error, context };
            let text = with_sources(&err);
            let ClientInitializeError::TransportError { error: below, .. } = &err else { return off("ended") };
            let failure = network(&err, below);
            match () {
                () if text.contains("401") || text.contains("403") || text.contains("uth required") => {
                    failure.suggest("see `config.auth`, and the variable that it names")
                }
                () if text.contains("404") || text.contains("405") || text.contains("content type") => {
                    failure.suggest("see `config.url`, and whether `config.transport` is what the server speaks")
                }
                () => failure,
            }
        }
        other => odd(&told(&other.to_string())),
    }
}

/// A failure, with what is known better: what was wrong with the messages, or how the process ended.
async fn explained(failure: Failure, fault: &Fault, id: &str, running: Option<&mut Running>) -> Failure {
    let status = match running {
        Some(running) => running.status().await,
        None => None,
    };
    if let Some(known) = fault.failure() {
        return known;
    }
    let stray = fault.stray().map(|what| format!("; {what}")).unwrap_or_default();
    match status {
        Some(status) => {
            let message = format!("the MCP server `{id}` ended before it answered: {status}{stray}");
            Failure::new(FailureKind::McpServer, message).suggest("see what it wrote to stderr")
        }
        None => Failure { message: format!("{}{stray}", failure.message), ..failure },
    }
}

impl Running {
    /// How it ended, if it has, or is about to. What it wrote last is read to its end, too.
    async fn status(&mut self) -> Option<String> {
        let status = timeout(LAST_WORDS, self.child.wait()).await.ok()?.ok()?;
        let _ = timeout(LAST_WORDS, &mut self.talk).await;
        Some(status.to_string())
    }

    /// Ends it; what it started itself is left to the supervisor.
    async fn end(mut self, patience: Duration) {
        drop(self.child.stdin.take());
        if timeout(patience, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
