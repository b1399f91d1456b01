//! Checks path, token and size of a request before rmcp handles it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::access::{ClientAccess, HttpOptions};
use super::sessions::Sessions;
use super::{MAX_BODY, SLOWEST};
use crate::mcp::stack::Stack;

const PATH: &str = "/mcp";

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// The checks in front of rmcp.
pub(super) struct HttpGate<H> {
    access: ClientAccess,
    sessions: Sessions,
    service: StreamableHttpService<Arc<Stack<H>>, LocalSessionManager>,
}

impl<H: ServerHandler> HttpGate<H> {
    pub(super) fn new(
        stack: Arc<Stack<H>>,
        options: &HttpOptions,
        address: SocketAddr,
        over: CancellationToken,
    ) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(options.hosts(address))
            .with_allowed_origins(options.origins(address))
            .enforce_origin_validation()
            .with_max_request_body_bytes(MAX_BODY)
            .with_cancellation_token(over);
        let sessions = Sessions::new();
        let service =
            StreamableHttpService::new(move || Ok(Arc::clone(&stack)), sessions.manager(), config);
        Self {
            access: options.access.clone(),
            sessions,
            service,
        }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (mut head, body) = request.into_parts();
        if head.uri.path() != PATH {
            return refused(
                StatusCode::NOT_FOUND,
                "Not Found: the server answers at /mcp",
            );
        }
        // Remove the token, so that handlers cannot log it or pass it on.
        let shown = head.headers.remove(AUTHORIZATION);
        if !self
            .access
            .admits(shown.as_ref().map(http::HeaderValue::as_bytes))
        {
            let mut answer = refused(
                StatusCode::UNAUTHORIZED,
                "Unauthorized: a valid bearer token is needed",
            );
            answer
                .headers_mut()
                .insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
            return answer;
        }
        if let Some(id) = text(&head.headers, SESSION) {
            self.sessions.note(id);
        } else if head.method == Method::POST
            && may_open_session(&head.headers)
            && !self.sessions.make_room().await
        {
            let mut answer = refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "Service Unavailable: too many sessions are open",
            );
            answer
                .headers_mut()
                .insert(RETRY_AFTER, http::HeaderValue::from_static("60"));
            return answer;
        }
        let body = match read(body).await {
            Ok(body) => body,
            Err(answer) => return *answer,
        };
        let answer = self
            .service
            .handle(Request::from_parts(head, Full::new(body)))
            .await;
        if let Some(id) = text(answer.headers(), SESSION) {
            self.sessions.add(id);
        }
        answer
    }
}

/// Reads a whole body. rmcp limits its size, but not the time.
async fn read(body: Incoming) -> Result<Bytes, Box<Answer>> {
    let refusal = |status, reason| Box::new(refused(status, reason));
    match tokio::time::timeout(SLOWEST, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(err)) if err.is::<LengthLimitError>() => Err(refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Payload Too Large: a request has at most 4 MiB",
        )),
        Ok(Err(_)) => Err(refusal(
            StatusCode::BAD_REQUEST,
            "Bad Request: the body cannot be read",
        )),
        Err(_) => Err(refusal(
            StatusCode::REQUEST_TIMEOUT,
            "Request Timeout: the body did not come in time",
        )),
    }
}

/// Whether a request without a session may open one. The stateless era has no sessions.
fn may_open_session(headers: &HeaderMap) -> bool {
    text(headers, VERSION).is_none_or(|version| version < "2026-07-28")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn refused(status: StatusCode, reason: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(reason.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    answer
}
