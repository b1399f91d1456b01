//! Misbehaving clients: they are answered or refused, and the server continues.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_wire::{Client, call};

/// The code and the id of a refusal.
fn refusal(answer: &Value) -> (i64, Value) {
    (
        answer["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("no refusal: {answer}")),
        answer["id"].clone(),
    )
}

#[test]
fn garbage_is_answered_before_and_after_the_handshake() {
    let project = TestProject::new();
    let mut client = Client::start(&project);
    for is_late in [false, true] {
        for (line, code) in [
            (&b"\x00\x01\x02\xff\xfe"[..], -32700),
            (b"GET / HTTP/1.1", -32700),
            (b"Content-Length: 47", -32700),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", -32700),
            (
                b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
                -32600,
            ),
            (b"null", -32600),
            (b"{}", -32600),
        ] {
            client.raw(line);
            client.raw(b"\r\n");
            assert_eq!(
                refusal(&client.next()),
                (code, json!(null)),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
        if !is_late {
            client.shake_hands();
        }
    }
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn a_line_of_17_mb_is_refused_with_its_id() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    let large = call(
        17,
        "help",
        &json!({ "topic": "x".repeat(17 * 1024 * 1024) }),
    );
    client.send(&large);
    assert_eq!(refusal(&client.next()), (-32600, json!(17)));
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn a_large_line_below_the_limit_is_an_answer_like_any_other() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    client.call(1, "help", &json!({ "topic": "x".repeat(15 * 1024 * 1024) }));
    let answer = client.next();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(1), &json!(true))
    );
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn nesting_without_end_is_refused() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    let deep = "{\"a\":".repeat(1_000_000) + "1" + &"}".repeat(1_000_000);
    client.raw(
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"deep\",\"method\":\"tools/call\",\"params\":{deep}}}\n"
        )
        .as_bytes(),
    );
    assert_eq!(refusal(&client.next()), (-32600, json!("deep")));
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn unknown_methods_tools_and_shapes_are_refused() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    for (id, method, params, code) in [
        (1, "no/such", json!({}), -32601),
        (2, "", json!({}), -32601),
        (3, "tools/call", json!({}), -32602),
        (4, "tools/call", json!({ "name": 7 }), -32602),
        (5, "tools/call", json!({ "name": "no_such" }), -32602),
        (
            6,
            "tools/call",
            json!({ "name": "help", "arguments": [] }),
            -32602,
        ),
        (7, "resources/read", json!({ "uri": null }), -32602),
    ] {
        client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let answer = client.next();
        assert_eq!(refusal(&answer), (code, json!(id)), "{method}: {answer}");
    }
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn ids_of_every_kind_come_back_as_they_were() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    for id in [
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(""),
        json!("a\u{0}b"),
        json!("ü".repeat(10_000)),
    ] {
        client.call(id.clone(), "help", &json!({}));
        assert_eq!(client.next()["id"], id);
    }
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn a_flood_of_requests_waits_until_the_client_reads_and_is_answered() {
    const CALLS: usize = 5_000;
    let project = TestProject::new();
    let mut command = project.command(["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().expect("piton starts");
    let mut to = server.stdin.take().expect("a pipe");
    let writing = thread::spawn(move || {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let hello =
            json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params });
        writeln!(to, "{hello}").expect("written");
        for id in 0..CALLS {
            writeln!(to, "{}", call(id, "help", &json!({}))).expect("written");
        }
        to
    });
    thread::sleep(Duration::from_secs(1));
    assert!(
        !writing.is_finished(),
        "the server keeps reading although the client does not read its answers"
    );
    let lines = BufReader::new(server.stdout.take().expect("a pipe"));
    let mut answered = 0;
    for line in lines.lines().take(CALLS + 1) {
        let answer: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        // Calls over the waiting limit are refused.
        assert!(
            answer["result"].is_object() || answer["error"]["code"] == -32000,
            "{answer}"
        );
        answered += 1;
    }
    assert_eq!(answered, CALLS + 1);
    drop(writing.join().expect("written"));
    assert_eq!(server.wait().expect("an end").code(), Some(0));
}

#[test]
fn cancellations_of_anything_change_nothing() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    for id in [
        json!(null),
        json!("never"),
        json!("hello"),
        json!({}),
        json!(1.5),
    ] {
        let params = json!({ "requestId": id });
        client.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

const SECRET: &str = "a-secret-of-this-test";

/// An HTTP server in its own process.
struct HttpServer {
    process: Child,
    address: SocketAddr,
}

impl HttpServer {
    fn start(project: &TestProject) -> Self {
        let mut command = project.command(["mcp", "--http", "0"]);
        command
            .env("PITON_MCP_TOKEN", SECRET)
            .stderr(Stdio::piped());
        let mut process = command.spawn().expect("piton starts");
        let mut talk = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut said = String::new();
        while !said.ends_with('\n') {
            assert!(
                talk.read_line(&mut said).expect("readable") > 0,
                "the server is gone: {said}"
            );
        }
        let address = said
            .split_once("http://")
            .and_then(|(_, rest)| rest.split_once("/mcp"));
        let address = address
            .and_then(|(address, _)| address.parse().ok())
            .unwrap_or_else(|| panic!("{said}"));
        // Keep reading stderr, so that the server never blocks on it. It must not contain the
        // token.
        thread::spawn(move || {
            let talk = talk.lines().map_while(Result::ok);
            talk.for_each(|line| assert!(!line.contains(SECRET), "{line}"));
        });
        Self { process, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_mins(2)))
            .expect("a socket");
        stream
    }

    /// Sends bytes and reads until the server closes the connection.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may refuse and close before everything is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn post(&self, headers: &str, body: &str) -> String {
        let host = if headers.contains("Host:") {
            ""
        } else {
            "Host: localhost\r\n"
        };
        let length = body.len();
        self.raw(
            format!(
                "POST /mcp HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        )
    }

    /// Checks that a normal call is answered, in the stateless era.
    fn assert_alive(&self) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "_meta": meta, "name": "help", "arguments": {} });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = format!(
            "Authorization: Bearer {SECRET}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
             Mcp-Name: help\r\n"
        );
        let answer = self.post(&headers, &body.to_string());
        assert!(
            status(&answer) == "200" && answer.contains("\"topic\":\"overview\""),
            "{answer}"
        );
    }

    fn end(mut self) {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
        assert_eq!(self.process.wait().expect("an end").code(), Some(0));
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn hello() -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

#[test]
fn requests_without_a_valid_token_host_or_origin_are_refused_over_http() {
    let project = TestProject::new();
    let server = HttpServer::start(&project);
    let known = format!("Authorization: Bearer {SECRET}\r\n");
    for (headers, expected) in [
        (String::new(), "401"),
        (
            "Authorization: Bearer a-secret-of-another-test\r\n".to_owned(),
            "401",
        ),
        (format!("Authorization: Basic {SECRET}\r\n"), "401"),
        (format!("{known}Origin: https://evil.example\r\n"), "403"),
        (format!("{known}Origin: null\r\n"), "403"),
        (format!("{known}Host: evil.example\r\n"), "403"),
        (known, "200"),
    ] {
        let answer = server.post(&headers, &hello());
        assert_eq!(status(&answer), expected, "{headers}: {answer}");
        assert_eq!(
            answer.contains("www-authenticate: Bearer"),
            expected == "401",
            "{answer}"
        );
    }
    server.assert_alive();
    server.end();
}

#[test]
fn oversized_bodies_and_headers_are_refused_over_http() {
    let project = TestProject::new();
    let server = HttpServer::start(&project);
    let known = format!("Authorization: Bearer {SECRET}\r\n");
    assert_eq!(
        status(&server.post(&known, &"x".repeat(5 * 1024 * 1024))),
        "413"
    );
    let answer = server.post(
        &format!("{known}X-Large: {}\r\n", "x".repeat(1024 * 1024)),
        &hello(),
    );
    assert!(["", "431"].contains(&status(&answer)), "{answer}");
    let answer = server.raw(b"\x16\x03\x01\x02\x00 no HTTP\r\n\r\n");
    assert!(["", "400"].contains(&status(&answer)), "{answer}");
    server.assert_alive();
    server.end();
}

#[test]
fn the_tool_of_a_disconnected_http_client_is_ended() {
    let script = "echo half > half.txt; echo $$ > \"$TMPDIR/pid\"; sleep 987";
    let project = TestProject::new()
        .tool("hang", "mutates_state: true", script)
        .committed();
    let server = HttpServer::start(&project);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({ "item_type": "tool", "item_id": "hang", "checkpoint": "auto" });
    let params = json!({ "_meta": meta, "name": "execute", "arguments": arguments });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let mut stream = server.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: execute\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("written");
    project.bash("until [ -s \"$TMPDIR/pid\" ]; do sleep 0.01; done");
    drop(stream);
    project.bash("pid=$(cat \"$TMPDIR/pid\"); while kill -0 $pid 2>/dev/null; do sleep 0.01; done");
    server.assert_alive();
    server.end();
    project.assert_clean();
}

#[test]
fn slow_clients_do_not_block_others() {
    let project = TestProject::new();
    let server = HttpServer::start(&project);
    let slow: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = server.connect();
            let begun: &[u8] = if number % 2 == 0 {
                b"POST /mcp HT"
            } else {
                b""
            };
            stream.write_all(begun).expect("written");
            stream
        })
        .collect();
    server.assert_alive();
    // The slow clients are still connected, and the server ends anyway.
    server.end();
    drop(slow);
}
