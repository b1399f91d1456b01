//! Clients that do what they should not: they are answered or refused, and the server serves on.

use std::io::Write;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_wire::{Client, call};

/// The code and the id of a refusal.
fn refusal(answer: &Value) -> (i64, Value) {
    (answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no refusal: {answer}")), answer["id"].clone())
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
            (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
            (b"null", -32600),
            (b"{}", -32600),
        ] {
            client.raw(line);
            client.raw(b"\r\n");
            assert_eq!(refusal(&client.next()), (code, json!(null)), "{}", String::from_utf8_lossy(line));
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
    let large = call(17, "help", &json!({ "topic": "x".repeat(17 * 1024 * 1024) }));
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
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(true)));
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn nesting_without_end_is_refused() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    let deep = "{\"a\":".repeat(1_000_000) + "1" + &"}".repeat(1_000_000);
    client.raw(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":\"deep\",\"method\":\"tools/call\",\"params\":{deep}}}\n").as_bytes(),
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
        (6, "tools/call", json!({ "name": "help", "arguments": [] }), -32602),
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
    for id in [json!(0), json!(-1), json!(i64::MAX), json!(""), json!("a\u{0}b"), json!("ü".repeat(10_000))] {
        client.call(id.clone(), "help", &json!({}));
        assert_eq!(client.next()["id"], id);
    }
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn a_flood_that_nobody_reads_is_held_back_and_answered_in_the_end() {
    const CALLS: usize = 5_000;
    let project = TestProject::new();
    let mut command = project.command(["mcp"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut server = command.spawn().expect("piton starts");
    let mut to = server.stdin.take().expect("a pipe");
    let writing = thread::spawn(move || {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let hello = json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params });
        writeln!(to, "{hello}").expect("written");
        for id in 0..CALLS {
            writeln!(to, "{}", call(id, "help", &json!({}))).expect("written");
        }
        to
    });
    thread::sleep(Duration::from_secs(1));
    assert!(!writing.is_finished(), "the server reads on although nobody reads its answers");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(server.stdout.take().expect("a pipe")));
    let mut answered = 0;
    for line in lines.take(CALLS + 1) {
        let answer: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        // Beyond what may wait, calls are refused.
        assert!(answer["result"].is_object() || answer["error"]["code"] == -32000, "{answer}");
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
    for id in [json!(null), json!("never"), json!("hello"), json!({}), json!(1.5)] {
        let params = json!({ "requestId": id });
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}
