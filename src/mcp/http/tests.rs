use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::sessions::MAX_SESSIONS;
use super::{
    AccessToken, ClientAccess, HttpError, HttpOptions, ListenReach, MAX_BODY, serve_until,
};
use crate::mcp::stack::Stack;
use crate::mcp::stdio::tests::Probe;

const SECRET: &str = "correct-horse-battery";

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<Result<(), HttpError>>,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(Duration::from_secs(10)).await
    }

    async fn start_with(grace: Duration) -> Self {
        let token = AccessToken::parse(SECRET).expect("long enough");
        let options = HttpOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)), token);
        let stop = CancellationToken::new();
        let (ready, address) = tokio::sync::oneshot::channel();
        let asked = stop.clone();
        let served = tokio::spawn(async move {
            let said = |address| ready.send(address).expect("heard");
            serve_until(Arc::new(Stack::new(Probe)), &options, said, asked, grace).await
        });
        Self {
            address: address.await.expect("listening"),
            stop,
            served,
        }
    }

    /// Sends text as it is and reads until the server closes the connection.
    async fn raw(&self, text: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        // The server may refuse and close before everything is sent.
        let _ = stream.write_all(text).await;
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        let _ = tokio::time::timeout(Duration::from_mins(1), reading)
            .await
            .expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn post(&self, headers: &[(&str, &str)], body: &str) -> String {
        let mut text = format!(
            "POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        text.push_str(body);
        self.raw(text.as_bytes()).await
    }

    /// Opens a session as a 2025-11-25 client.
    async fn session(&self) -> String {
        let answer = self.post(&[AUTHORIZED], &hello()).await;
        assert_eq!(status(&answer), 200, "{answer}");
        let line = answer
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "))
            .expect("a session");
        line.trim().to_owned()
    }

    async fn call(&self, session: &str, tool: &str) -> String {
        let headers = [
            AUTHORIZED,
            ("Mcp-Session-Id", session),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        self.post(&headers, &call(tool)).await
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_mins(1), self.served)
            .await
            .expect("an end")
            .expect("no panic")
            .expect("clean");
    }
}

const AUTHORIZED: (&str, &str) = ("Authorization", "Bearer correct-horse-battery");

fn hello() -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

fn call(tool: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": {} } })
        .to_string()
}

fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// The last message of an event stream.
fn message(answer: &str) -> Value {
    let data = answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back();
    data.and_then(|data| serde_json::from_str(data).ok())
        .unwrap_or_else(|| panic!("no message: {answer}"))
}

#[tokio::test]
async fn requests_without_the_token_are_refused() {
    let server = Server::start().await;
    for header in [
        None,
        Some("Bearer wrong-horse-battery"),
        Some("Bearer correct-horse-batter"),
        Some("Bearer correct-horse-battery2"),
        Some("Basic correct-horse-battery"),
        Some("correct-horse-battery"),
        Some("Bearer"),
        Some(""),
    ] {
        let headers: Vec<(&str, &str)> = header
            .iter()
            .map(|value| ("Authorization", *value))
            .collect();
        let answer = server.post(&headers, &hello()).await;
        assert_eq!(status(&answer), 401, "{header:?}: {answer}");
        assert!(
            answer.contains("\r\nwww-authenticate: Bearer\r\n"),
            "{answer}"
        );
        assert!(!answer.contains("horse"), "{answer}");
    }
    assert_eq!(
        status(
            &server
                .post(
                    &[("Authorization", "bearer correct-horse-battery")],
                    &hello()
                )
                .await
        ),
        200
    );
    server.end().await;
}

#[tokio::test]
async fn unknown_origins_and_hosts_are_refused() {
    let server = Server::start().await;
    let own = format!("http://127.0.0.1:{}", server.address.port());
    for (header, expected) in [
        (("Origin", "https://evil.example"), 403),
        (("Origin", "http://localhost:1"), 403),
        (("Origin", "null"), 403),
        (("Origin", own.as_str()), 200),
        (("Host", "evil.example"), 403),
        (("Host", "127.0.0.1.evil.example"), 403),
        (("Host", "localhost:1234"), 200),
    ] {
        let answer = server.post(&[AUTHORIZED, header], &hello()).await;
        assert_eq!(status(&answer), expected, "{header:?}: {answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn other_paths_large_bodies_and_garbage_are_refused() {
    let server = Server::start().await;
    let answer = server
        .raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(status(&answer), 404);
    let answer = server.post(&[AUTHORIZED], &"x".repeat(MAX_BODY + 1)).await;
    assert_eq!(status(&answer), 413);
    let answer = server.post(&[AUTHORIZED], "not json").await;
    assert!((400..500).contains(&status(&answer)), "{answer}");
    let answer = server
        .raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 nonsense\r\n\r\n")
        .await;
    assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    let answer = server
        .raw(
            format!(
                "GET /mcp HTTP/1.1\r\nX: {}\r\n\r\n",
                "x".repeat(1024 * 1024)
            )
            .as_bytes(),
        )
        .await;
    assert!(answer.is_empty() || status(&answer) == 431, "{answer}");
    let session = server.session().await;
    assert_eq!(
        message(&server.call(&session, "any").await)["result"]["content"][0]["text"],
        "done"
    );
    server.end().await;
}

#[tokio::test]
async fn clients_that_never_finish_their_request_do_not_keep_others_out() {
    let server = Server::start().await;
    let mut slow = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(server.address).await.expect("connected");
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"POST /mcp HTTP/1.1\r\nHost: loc",
            _ => b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx",
        };
        stream.write_all(begun).await.expect("written");
        slow.push(stream);
    }
    let session = server.session().await;
    assert_eq!(
        message(&server.call(&session, "any").await)["result"]["content"][0]["text"],
        "done"
    );
    drop(slow);
    server.end().await;
}

#[tokio::test]
async fn both_eras_are_served() {
    let server = Server::start().await;
    let session = server.session().await;
    assert_eq!(
        message(&server.call(&session, "any").await)["result"]["content"][0]["text"],
        "done"
    );
    let answer = server.call("no-such-session", "any").await;
    assert_eq!(status(&answer), 404);

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "_meta": meta, "name": "any", "arguments": {} });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let headers = [
        AUTHORIZED,
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "any"),
    ];
    let answer = server.post(&headers, &body).await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(answer.contains("\"done\""), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn too_many_sessions_are_refused_until_one_ends() {
    let server = Server::start().await;
    let first = server.session().await;
    for _ in 1..MAX_SESSIONS {
        server.session().await;
    }
    let answer = server.post(&[AUTHORIZED], &hello()).await;
    assert_eq!(status(&answer), 503, "{answer}");
    assert!(answer.contains("\r\nretry-after: 60\r\n"), "{answer}");
    // Existing sessions are still served.
    assert_eq!(
        message(&server.call(&first, "any").await)["result"]["content"][0]["text"],
        "done"
    );
    let bye = format!(
        "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {SECRET}\r\n\
         Mcp-Session-Id: {first}\r\n\r\n"
    );
    assert_eq!(status(&server.raw(bye.as_bytes()).await), 202);
    server.session().await;
    server.end().await;
}

#[tokio::test]
async fn a_panic_is_answered_over_http_too() {
    let server = Server::start().await;
    let session = server.session().await;
    assert_eq!(
        message(&server.call(&session, "panic").await)["result"]["isError"],
        true
    );
    assert_eq!(
        message(&server.call(&session, "any").await)["result"]["content"][0]["text"],
        "done"
    );
    server.end().await;
}

#[tokio::test]
async fn a_running_call_is_answered_before_the_server_stops() {
    let server = Server::start().await;
    let session = server.session().await;
    let (answer, ()) = tokio::join!(server.call(&session, "sleep"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.stop.cancel();
    });
    assert_eq!(message(&answer)["result"]["content"][0]["text"], "slept");
    server.end().await;
}

#[tokio::test]
async fn a_call_that_does_not_end_is_cancelled_after_the_grace_period() {
    let server = Server::start_with(Duration::from_millis(200)).await;
    let session = server.session().await;
    let (answer, ()) = tokio::join!(server.call(&session, "wait"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.stop.cancel();
    });
    assert_eq!(message(&answer)["result"]["content"][0]["text"], "told");
    server.end().await;
}

#[tokio::test]
async fn other_machines_may_connect_only_when_that_is_allowed() {
    let token = AccessToken::parse(SECRET).expect("long enough");
    let options = HttpOptions::new(SocketAddr::from(([0, 0, 0, 0], 0)), token);
    assert!(matches!(
        options.check(),
        Err(HttpError::NotLoopback { .. })
    ));
    assert!(
        HttpOptions {
            reach: ListenReach::Anywhere,
            ..options.clone()
        }
        .check()
        .is_ok()
    );
    let open = HttpOptions {
        reach: ListenReach::Anywhere,
        access: ClientAccess::Open,
        ..options
    };
    assert!(matches!(open.check(), Err(HttpError::Open { .. })));
}

#[test]
fn a_token_is_long_enough_and_never_shown() {
    for secret in [
        "",
        "short",
        "has a space in it......",
        "has\na line in it......",
        "ünïcödé-ünïcödé-ünïcödé",
    ] {
        assert!(
            matches!(AccessToken::parse(secret), Err(HttpError::Token)),
            "{secret}"
        );
    }
    let token = AccessToken::parse(SECRET).expect("long enough");
    assert_eq!(format!("{token:?}"), "AccessToken(…)");
}
