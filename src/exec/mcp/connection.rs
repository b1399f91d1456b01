//! A connection to a running server.
//!
//! The handshake is `initialize`, which every server in use supports. Probing first for the newer
//! protocol without it would cost ten seconds with each old server that does not answer.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation, ListToolsRequest,
    PaginatedRequestParams, PingRequest, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, PeerRequestOptions, RequestContext, RequestHandle, RoleClient,
    RunningService, ServiceError,
};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, ServiceExt};
use serde_json::{Map, Value};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::content::LONGEST_TEXT;
use super::talk::ServerStderr;
use super::wire::WireFault;
use super::{LARGEST, McpServer, ServerTransport, sse, stdio, websocket};
use crate::exec::invocation::RemoteKind;
use crate::exec::web::{NetworkReach, check_url, client, kind_of, with_sources};
use crate::exec::worker::{FailureKind, WorkFailure};
use crate::item::wording::{one_line, shown};

/// How long a server may take to answer a ping.
const PING: Duration = Duration::from_secs(5);

/// How long a server may take to exit after its input was closed.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long to wait for the exit of a server that disconnected, to report its status.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The most pages and tools that a server may list.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 4096;

/// A running server.
pub(super) struct Connection {
    service: RunningService<RoleClient, ClientSide>,
    fault: WireFault,
    child: Option<ServerProcess>,
}

struct ServerProcess {
    child: Child,
    talk: JoinHandle<()>,
}

/// piton as a client: answers pings, has no roots, and refuses requests for a model or a person.
#[derive(Clone, Copy, Debug)]
struct ClientSide;

impl ClientHandler for ClientSide {
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
    /// Starts or connects to a server, and makes the handshake.
    pub(super) async fn open(server: &McpServer, talk: &ServerStderr) -> Result<Self, WorkFailure> {
        let fault = WireFault::default();
        let mut child = None;
        let opened = timeout(
            server.startup_timeout,
            begin(server, talk, &fault, &mut child),
        )
        .await;
        let failure = match opened {
            Ok(Ok(service)) => {
                return Ok(Self {
                    service,
                    fault,
                    child,
                });
            }
            Ok(Err(failure)) => explained(failure, &fault, &server.id, child.as_mut()).await,
            Err(_) => {
                let limit = server.startup_timeout.as_secs_f64();
                let stray = fault
                    .stray()
                    .map(|what| format!("; {what}"))
                    .unwrap_or_default();
                let message = format!(
                    "the MCP server `{}` did not answer within {limit} s{stray}",
                    server.id
                );
                WorkFailure::new(FailureKind::McpServer, message)
                    .suggest("see what it writes to stderr; `startup_timeout:` gives it more time")
            }
        };
        if let Some(running) = child {
            running.end(Duration::ZERO).await;
        }
        Err(failure)
    }

    /// Whether it responds: any answer is fine.
    pub(super) async fn is_well(&self) -> bool {
        if self.service.is_closed() {
            return false;
        }
        let request = ClientRequest::PingRequest(PingRequest::default());
        match self
            .service
            .peer()
            .send_request_with_option(request, PeerRequestOptions::with_timeout(PING))
            .await
        {
            Ok(handle) => matches!(
                handle.await_response().await,
                Ok(_) | Err(ServiceError::McpError(_))
            ),
            Err(_) => false,
        }
    }

    /// Its tools, as it describes them.
    pub(super) async fn list(&self) -> Result<Vec<Value>, BrokenConnection> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor.take()));
            let request = ListToolsRequest {
                params,
                ..ListToolsRequest::default()
            };
            let answer = self
                .service
                .peer()
                .send_request(ClientRequest::ListToolsRequest(request))
                .await;
            let ServerResult::ListToolsResult(page) = answer.map_err(BrokenConnection::from)?
            else {
                return Err(BrokenConnection::Failed(odd(
                    "its list of tools is invalid",
                )));
            };
            tools.extend(
                page.tools
                    .iter()
                    .filter_map(|tool| serde_json::to_value(tool).ok()),
            );
            cursor = page.next_cursor;
            if tools.len() > MOST_TOOLS {
                break;
            }
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(BrokenConnection::Failed(odd(
            "its list of tools does not end",
        )))
    }

    /// Starts a tool call.
    pub(super) async fn call(
        &self,
        tool: String,
        arguments: Map<String, Value>,
    ) -> Result<PendingCall, BrokenConnection> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self
            .service
            .peer()
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await;
        Ok(PendingCall(sent.map_err(BrokenConnection::from)?))
    }

    /// Why it disconnected, as far as known.
    pub(super) async fn explain(&mut self, broken: BrokenConnection, id: &str) -> WorkFailure {
        match broken {
            BrokenConnection::Failed(failure) => failure,
            BrokenConnection::Off(failure) => {
                explained(failure, &self.fault, id, self.child.as_mut()).await
            }
        }
    }

    /// Ends it: first by closing the session, then by force.
    pub(super) async fn close(mut self) {
        // This closes the server's stdin, or ends the session at the address.
        let _ = self.service.close_with_timeout(FAREWELL).await;
        drop(self.service);
        if let Some(running) = self.child {
            running.end(FAREWELL).await;
        }
    }
}

/// A started call.
pub(super) struct PendingCall(RequestHandle<RoleClient>);

impl PendingCall {
    /// Waits for the answer. The future can be dropped and the call awaited again.
    pub(super) async fn answer(&mut self) -> Result<Value, BrokenConnection> {
        let answer = (&mut self.0.rx)
            .await
            .unwrap_or(Err(ServiceError::TransportClosed));
        match answer.map_err(BrokenConnection::from)? {
            ServerResult::CallToolResult(result) => serde_json::to_value(result)
                .map_err(|_| BrokenConnection::Failed(odd("its answer cannot be read"))),
            ServerResult::InputRequiredResult(_) => Err(BrokenConnection::Failed(odd(
                "it asks questions, which piton does not answer",
            ))),
            _ => Err(BrokenConnection::Failed(odd(
                "its answer does not belong to a tool call",
            ))),
        }
    }

    /// Tells the server that the request is cancelled.
    pub(super) async fn cancel(self) {
        // If this fails, the server is gone.
        let _ = self.0.cancel(Some("the call was ended".to_owned())).await;
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum BrokenConnection {
    /// The server reported an error or an invalid answer; the connection still works.
    Failed(WorkFailure),
    /// The connection is gone.
    Off(WorkFailure),
}

impl From<ServiceError> for BrokenConnection {
    fn from(err: ServiceError) -> Self {
        match err {
            ServiceError::McpError(error) => Self::Failed(refused(&error)),
            ServiceError::UnexpectedResponse => Self::Failed(odd("its answer is of another kind")),
            ServiceError::TransportClosed => Self::Off(off("ended the connection")),
            ServiceError::TransportSend(below) => Self::Off(network(&below, &below)),
            other => Self::Off(WorkFailure::new(FailureKind::Network, unreached(&other))),
        }
    }
}

fn off(what: &str) -> WorkFailure {
    WorkFailure::new(FailureKind::McpServer, format!("the MCP server {what}"))
}

fn odd(what: &str) -> WorkFailure {
    WorkFailure::new(
        FailureKind::McpProtocol,
        format!("the MCP server is not understood: {what}"),
    )
}

/// The error in the server's answer.
fn refused(error: &ErrorData) -> WorkFailure {
    let message = format!(
        "the MCP server refused: {} (code {})",
        one_line(&error.message, LONGEST_TEXT),
        error.code.0
    );
    WorkFailure::new(FailureKind::McpTool, message)
}

fn unreached(err: &(dyn std::error::Error + 'static)) -> String {
    format!(
        "the MCP server cannot be reached: {}",
        one_line(&with_sources(err), LONGEST_TEXT)
    )
}

/// An error with the transport error below it, which knows whether the address is allowed.
fn network(err: &(dyn std::error::Error + 'static), below: &DynamicTransportError) -> WorkFailure {
    let kind = match below
        .error
        .downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        // This variant does not name its source.
        Some(StreamableHttpError::Client(err)) => kind_of(err),
        _ => kind_of(below),
    };
    WorkFailure::new(kind, unreached(err))
}

async fn begin(
    server: &McpServer,
    talk: &ServerStderr,
    fault: &WireFault,
    running: &mut Option<ServerProcess>,
) -> Result<RunningService<RoleClient, ClientSide>, WorkFailure> {
    let (kind, url, headers, reach) = match &server.way {
        ServerTransport::Program {
            program,
            arguments,
            folder,
            environment,
            ..
        } => {
            let mut command = Command::new(program);
            command
                .args(arguments)
                .current_dir(folder)
                .env_clear()
                .envs(environment);
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true);
            let mut child = command.spawn().map_err(|err| {
                let message = format!("cannot start the MCP server `{}`: {err}", server.id);
                WorkFailure::new(FailureKind::McpServer, message)
            })?;
            let (to, from, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (Some(to), Some(from), Some(errors)) = (to, from, errors) else {
                return Err(off("has no streams"));
            };
            let talk = tokio::spawn(talk.clone().follow(errors));
            *running = Some(ServerProcess { child, talk });
            return ClientSide
                .serve(stdio::connect(to, from, fault))
                .await
                .map_err(init_failure);
        }
        ServerTransport::Address {
            kind,
            url,
            headers,
            reach,
        } => (*kind, url, headers, *reach),
    };
    let url = Url::parse(url)
        .map_err(|err| WorkFailure::new(FailureKind::Address, format!("no address: {err}")))?;
    let headers = header_map(headers)?;
    match kind {
        RemoteKind::Sse => {
            ClientSide
                .serve(sse::connect(&url, &headers, reach, fault).await?)
                .await
        }
        RemoteKind::Websocket => {
            ClientSide
                .serve(websocket::connect(&url, &headers, reach, fault).await?)
                .await
        }
        RemoteKind::Http => ClientSide.serve(streamable(&url, &headers, reach)?).await,
    }
    .map_err(init_failure)
}

fn streamable(
    url: &Url,
    headers: &HeaderMap,
    reach: NetworkReach,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, WorkFailure> {
    check_url(url, reach)?;
    let mut fields: HashMap<HeaderName, HeaderValue> = HashMap::new();
    for (name, value) in headers {
        fields.insert(name.clone(), value.clone());
    }
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(fields);
    config.max_sse_event_size = LARGEST;
    Ok(StreamableHttpClientTransport::with_client(
        client(reach)?,
        config,
    ))
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, WorkFailure> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || {
            WorkFailure::new(
                FailureKind::Network,
                format!("`{}` is not a header field", shown(name)),
            )
        };
        let field: HeaderName = name.parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        map.append(field, value);
    }
    Ok(map)
}

/// Why the handshake failed.
fn init_failure(err: ClientInitializeError) -> WorkFailure {
    match err {
        ClientInitializeError::ConnectionClosed(_) => off("ended the connection"),
        ClientInitializeError::JsonRpcError(error) => refused(&error),
        ClientInitializeError::TransportError { error, context } => {
            let err = ClientInitializeError::TransportError { error, context };
            let text = with_sources(&err);
            let ClientInitializeError::TransportError { error: below, .. } = &err else {
                return off("ended");
            };
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
        other => odd(&one_line(&other.to_string(), LONGEST_TEXT)),
    }
}

/// A failure with more precise knowledge: invalid messages, or how the process ended.
async fn explained(
    failure: WorkFailure,
    fault: &WireFault,
    id: &str,
    running: Option<&mut ServerProcess>,
) -> WorkFailure {
    let status = match running {
        Some(running) => running.status().await,
        None => None,
    };
    if let Some(known) = fault.failure() {
        return known;
    }
    let stray = fault
        .stray()
        .map(|what| format!("; {what}"))
        .unwrap_or_default();
    match status {
        Some(status) => {
            let message =
                format!("the MCP server `{id}` ended before it answered: {status}{stray}");
            WorkFailure::new(FailureKind::McpServer, message).suggest("see what it wrote to stderr")
        }
        None => WorkFailure {
            message: format!("{}{stray}", failure.message),
            ..failure
        },
    }
}

impl ServerProcess {
    /// How it ended, if it has, or is about to. Reads its output to the end.
    async fn status(&mut self) -> Option<String> {
        let status = timeout(LAST_WORDS, self.child.wait()).await.ok()?.ok()?;
        let _ = timeout(LAST_WORDS, &mut self.talk).await;
        Some(status.to_string())
    }

    /// Ends it; the supervisor ends the processes that it started.
    async fn end(mut self, patience: Duration) {
        drop(self.child.stdin.take());
        if timeout(patience, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
