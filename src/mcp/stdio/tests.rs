use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListPromptsResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::lines::{LineReader, ReadLine};
use super::scan::IdScan;
use super::{MAX_LINE, serve_on};
use crate::mcp::stack::{Load, Stack};

/// A handler whose tools answer, panic, sleep, or wait until they are cancelled.
#[derive(Debug)]
pub(in crate::mcp) struct Probe;

impl ServerHandler for Probe {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::default())
    }

    // Panics before it returns a future.
    fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListPromptsResult, ErrorData>> + Send + '_ {
        panic!("no prompts");
        #[expect(unreachable_code, reason = "the type of the future")]
        async {
            Ok(ListPromptsResult::default())
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = match request.name.as_ref() {
            "panic" => panic!("as told"),
            "sleep" => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                "slept"
            }
            "wait" => {
                context.ct.cancelled().await;
                "told"
            }
            "large" => {
                return Ok(
                    CallToolResult::success(vec![ContentBlock::text("x".repeat(100_000))]).into(),
                );
            }
            _ => "done",
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(said)]).into())
    }
}

/// A client of a server in the same process.
pub(in crate::mcp) struct Client {
    to: Option<DuplexStream>,
    from: Option<BufReader<DuplexStream>>,
    stop: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
    pub(in crate::mcp) stack: Arc<Stack<Probe>>,
}

impl Client {
    pub(in crate::mcp) fn attach(load: Load, grace: Duration) -> Self {
        let (to, reader) = tokio::io::duplex(64 * 1024);
        let (writer, from) = tokio::io::duplex(64 * 1024);
        let stop = CancellationToken::new();
        let stack = Arc::new(Stack::with_load(Probe, load));
        let served = tokio::spawn(serve_on(
            Arc::clone(&stack),
            reader,
            writer,
            stop.clone(),
            grace,
        ));
        Self {
            to: Some(to),
            from: Some(BufReader::new(from)),
            stop,
            served,
            stack,
        }
    }

    /// A client after its handshake.
    pub(in crate::mcp) async fn connect(load: Load) -> Self {
        let mut client = Self::attach(load, Duration::from_secs(10));
        client.shake_hands().await;
        client
    }

    pub(in crate::mcp) async fn shake_hands(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        self.send(
            &json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params }),
        )
        .await;
        let answer = self.next().await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
    }

    pub(in crate::mcp) async fn raw(&mut self, bytes: &[u8]) {
        self.to
            .as_mut()
            .expect("open")
            .write_all(bytes)
            .await
            .expect("written");
    }

    pub(in crate::mcp) async fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    pub(in crate::mcp) async fn call(&mut self, id: impl Into<Value>, tool: &str) {
        self.send(&call(id, tool)).await;
    }

    pub(in crate::mcp) async fn next(&mut self) -> Value {
        let mut line = String::new();
        let reading = self.from.as_mut().expect("open").read_line(&mut line);
        tokio::time::timeout(Duration::from_mins(1), reading)
            .await
            .expect("an answer")
            .expect("readable");
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line:?}"))
    }

    /// Closes the input and waits until the server ends.
    pub(in crate::mcp) async fn end(mut self) {
        self.to = None;
        tokio::time::timeout(Duration::from_mins(1), self.served)
            .await
            .expect("an end")
            .expect("no panic")
            .expect("clean");
    }
}

fn call(id: impl Into<Value>, tool: &str) -> Value {
    let id: Value = id.into();
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {answer}"))
}

/// The code and the id of an error.
fn refused(answer: &Value) -> (i64, &Value) {
    (
        answer["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("no error: {answer}")),
        &answer["id"],
    )
}

#[tokio::test]
async fn every_line_that_cannot_be_read_is_answered() {
    let mut client = Client::connect(Load::default()).await;
    for (line, code, id) in [
        (&b"not json"[..], -32700, json!(null)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,", -32700, json!(null)),
        (b"\"\xff\xfe\"", -32700, json!(null)),
        (b"\xff", -32700, json!(null)),
        (b"[]", -32600, json!(null)),
        (
            b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            -32600,
            json!(null),
        ),
        (b"7", -32600, json!(null)),
        (b"{\"foo\":\"bar\"}", -32600, json!(null)),
        (
            b"{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"ping\"}",
            -32600,
            json!(5),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
            -32600,
            json!(1.5),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
            -32600,
            json!(null),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":7}",
            -32600,
            json!(6),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{}}",
            -32602,
            json!(7),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":[]}",
            -32602,
            json!(8),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"no/such\"}",
            -32601,
            json!(9),
        ),
    ] {
        client.raw(line).await;
        client.raw(b"\n").await;
        let answer = client.next().await;
        assert_eq!(
            refused(&answer),
            (code, &id),
            "{} -> {answer}",
            String::from_utf8_lossy(line)
        );
    }
    client.call(10, "any").await;
    assert_eq!(text(&client.next().await), "done");
    client.end().await;
}

#[tokio::test]
async fn lines_that_need_no_answer_get_none() {
    let mut client = Client::connect(Load::default()).await;
    client.raw(b"\n\r\n   \n").await;
    client
        .raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"$/unknown\",\"params\":7}\n")
        .await;
    client
        .raw(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":\"x\"}}\n")
        .await;
    client
        .raw(b"{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n")
        .await;
    client.raw(b"\xef\xbb\xbf").await;
    client.call(1, "any").await;
    let answer = client.next().await;
    assert_eq!((text(&answer), &answer["id"]), ("done", &json!(1)));
    client.end().await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_and_answered_with_its_id() {
    let mut client = Client::connect(Load::default()).await;
    let large = "x".repeat(MAX_LINE + 1024 * 1024);
    let first = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":41,\"method\":\"tools/call\",\"params\":{{\"name\":\"{large}\"}}}}\n"
    );
    let last = format!(
        "{{\"method\":\"tools/call\",\"params\":{{\"id\":3,\"name\":\"{large}\"}},\"id\":\"last\"}}\n"
    );
    client.raw(first.as_bytes()).await;
    let answer = client.next().await;
    assert_eq!(refused(&answer), (-32600, &json!(41)));
    client.raw(last.as_bytes()).await;
    let answer = client.next().await;
    assert_eq!(refused(&answer), (-32600, &json!("last")));
    client.raw(large.as_bytes()).await;
    client.raw(b"\n").await;
    let answer = client.next().await;
    assert_eq!(refused(&answer), (-32600, &json!(null)));
    client.call(1, "any").await;
    assert_eq!(text(&client.next().await), "done");
    client.end().await;
}

#[tokio::test]
async fn a_message_that_is_nested_too_deeply_is_refused_with_its_id() {
    let mut client = Client::connect(Load::default()).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    client
        .raw(
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"params\":{deep},\"id\":9}}\n")
                .as_bytes(),
        )
        .await;
    let answer = client.next().await;
    assert_eq!(refused(&answer), (-32600, &json!(9)));
    client.end().await;
}

#[tokio::test]
async fn an_id_in_use_does_not_confuse_the_first_request() {
    let mut client = Client::connect(Load::default()).await;
    client.call(7, "sleep").await;
    client.call(7, "any").await;
    let answer = client.next().await;
    assert_eq!(refused(&answer), (-32600, &json!(null)), "{answer}");
    let answer = client.next().await;
    assert_eq!((text(&answer), &answer["id"]), ("slept", &json!(7)));
    // Answered, so the id is free again.
    client.call(7, "any").await;
    assert_eq!(text(&client.next().await), "done");
    client.end().await;
}

#[tokio::test]
async fn a_request_is_cancelled_and_its_id_cannot_be_used_again() {
    let mut client = Client::connect(Load::default()).await;
    client.call("a", "wait").await;
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "a" } }))
        .await;
    client.call("a", "any").await;
    let answer = client.next().await;
    assert_eq!(refused(&answer), (-32600, &json!("a")));
    client.call("b", "any").await;
    assert_eq!(text(&client.next().await), "done");
    client.end().await;
}

#[tokio::test]
async fn running_calls_finish_when_the_input_ends() {
    let mut client = Client::connect(Load::default()).await;
    client.call(1, "sleep").await;
    // The last line lacks its line break.
    client.raw(call(2, "any").to_string().as_bytes()).await;
    client.to = None;
    assert_eq!(text(&client.next().await), "done");
    assert_eq!(text(&client.next().await), "slept");
    client.end().await;
}

#[tokio::test]
async fn running_calls_finish_when_the_server_is_asked_to_stop() {
    let mut client = Client::connect(Load::default()).await;
    client.call(1, "sleep").await;
    client.call(2, "any").await;
    assert_eq!(text(&client.next().await), "done");
    client.stop.cancel();
    assert_eq!(text(&client.next().await), "slept");
    let open = client.to.take();
    client.end().await;
    drop(open);
}

#[tokio::test]
async fn calls_that_do_not_end_are_cancelled_after_the_grace_period() {
    let mut client = Client::attach(Load::default(), Duration::from_millis(200));
    client.shake_hands().await;
    client.call(1, "wait").await;
    client.to = None;
    assert_eq!(text(&client.next().await), "told");
    client.end().await;
}

#[tokio::test]
async fn a_client_that_is_gone_ends_the_server() {
    let mut client = Client::connect(Load::default()).await;
    client.from = None;
    client.call(1, "any").await;
    let open = client.to.take();
    client.end().await;
    drop(open);
}

#[tokio::test]
async fn messages_before_the_handshake_do_not_end_the_server() {
    let mut client = Client::attach(Load::default(), Duration::from_secs(10));
    client.raw(b"garbage\n").await;
    assert_eq!(refused(&client.next().await).0, -32700);
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .await;
    client
        .send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }))
        .await;
    client.call(2, "any").await;
    let answer = client.next().await;
    assert_eq!(refused(&answer), (-32602, &json!(2)));
    client.shake_hands().await;
    client.call(3, "any").await;
    assert_eq!(text(&client.next().await), "done");
    client.end().await;
}

#[tokio::test]
async fn requests_of_a_client_that_does_not_read_answers_wait_and_are_not_lost() {
    const CALLS: usize = 5000;
    let mut client = Client::connect(Load::default()).await;
    let mut to = client.to.take().expect("open");
    let writing = tokio::spawn(async move {
        for id in 0..CALLS {
            to.write_all(format!("{}\n", call(id, "large")).as_bytes())
                .await
                .expect("written");
        }
        to
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(
        !writing.is_finished(),
        "the server keeps reading although the client does not read its answers"
    );
    let mut answered = vec![false; CALLS];
    for _ in 0..CALLS {
        let answer = client.next().await;
        let id = usize::try_from(answer["id"].as_u64().expect("an id")).expect("small");
        assert!(
            !std::mem::replace(&mut answered[id], true),
            "{id} was answered twice"
        );
        assert!(answer["error"]["code"] == -32000 || text(&answer).len() == 100_000);
    }
    client.to = Some(writing.await.expect("written"));
    client.call("after", "any").await;
    assert_eq!(text(&client.next().await), "done");
    client.end().await;
}

#[tokio::test]
async fn the_stateless_era_is_served_without_a_handshake() {
    let mut client = Client::attach(Load::default(), Duration::from_secs(10));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    for (id, method) in [
        (1, "server/discover"),
        (2, "tools/list"),
        (3, "logging/setLevel"),
    ] {
        let params = json!({ "_meta": meta, "level": "info" });
        client
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
    }
    let answers = [
        client.next().await,
        client.next().await,
        client.next().await,
    ];
    let of = |id: i64| {
        answers
            .iter()
            .find(|answer| answer["id"] == id)
            .expect("answered")
    };
    assert!(
        of(1)["result"]["supportedVersions"]
            .as_array()
            .is_some_and(|all| all.contains(&json!("2026-07-28")))
    );
    assert_eq!(of(2)["result"]["tools"], json!([]));
    assert_eq!(refused(of(3)).0, -32601);
    client.end().await;
}

#[tokio::test]
async fn lines_are_read_in_pieces_of_any_size() {
    let (mut to, from) = tokio::io::duplex(1);
    let writing = tokio::spawn(async move {
        to.write_all(b"one\r\n\ntoo long {\ntwo")
            .await
            .expect("written");
    });
    let mut lines = LineReader::new(from, 6);
    let mut read = Vec::new();
    loop {
        match lines.next().await.expect("readable") {
            ReadLine::End => break,
            ReadLine::TooLong(id) => read.push(format!("too long: {id:?}")),
            ReadLine::Line => read.push(String::from_utf8_lossy(lines.text()).into_owned()),
        }
        lines.clear();
    }
    writing.await.expect("written");
    assert_eq!(read, ["one", "", "too long: None", "two"]);
}

#[test]
fn an_id_is_found_anywhere_in_the_message() {
    for (text, id) in [
        (r#"{"id":1,"x":2}"#, Some("1")),
        (r#"{ "x" : {"id":5} , "id" : "a\"b" }"#, Some(r#""a\"b""#)),
        (r#"{"x":[{"id":5}],"id":-7}"#, Some("-7")),
        (r#"{"x":"\"id\":3","y":"}","id":8"#, Some("8")),
        (r#"{"x":"id","y":3}"#, None),
        (r#"{"id":{"id":3}}"#, None),
        (r#"{"id":1.5}"#, None),
        (r#"["id",3]"#, None),
        ("", None),
    ] {
        let mut scan = IdScan::default();
        for byte in text.as_bytes() {
            scan.read(std::slice::from_ref(byte));
        }
        let found = scan
            .id()
            .map(|id| serde_json::to_string(&id).expect("an id"));
        assert_eq!(found.as_deref(), id, "{text}");
    }
}
