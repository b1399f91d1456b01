//! A small client for the real `piton mcp`, with lines of JSON-RPC on its standard streams.
//!
//! [`McpClient`] supports both protocol eras. With [`Era::Sessions`] it starts with a handshake,
//! and the server asks with requests. With [`Era::Stateless`] each request identifies the client,
//! and the server asks with answers. The client knows nothing about piton: it sends exactly what a
//! test gives it. Every tool result is validated against the schema that the server has announced.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::harness::TestProject;

/// How long a server may be silent before a test gives up.
const PATIENCE: Duration = Duration::from_mins(2);

/// The protocol era of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25: a handshake, and requests in both directions.
    Sessions,
    /// 2026-07-28: each request is independent.
    Stateless,
}

/// A client and the server that it has started.
#[derive(Debug)]
pub(crate) struct McpClient {
    era: Era,
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// The capabilities that the client announces.
    capabilities: Value,
    next_id: u64,
    /// Answers that arrived while the client waited for another one.
    early: Vec<Value>,
    /// Notifications of the server, in order.
    pub(crate) heard: Vec<Value>,
    /// Questions of the server to the person, in order.
    pub(crate) asked: Vec<Value>,
    /// What the person writes into files before each of the next answers.
    pub(crate) edits: VecDeque<(PathBuf, String)>,
    /// The person's answers to the next questions: results of `elicitation/create`.
    pub(crate) answers: VecDeque<Value>,
    /// The requests to the model, in order.
    pub(crate) sampled: Vec<Value>,
    /// The model's answers: results of `sampling/createMessage`. Without one, the client refuses.
    pub(crate) written: VecDeque<Value>,
    /// The folders that the client works in.
    pub(crate) roots: Vec<String>,
    /// The tool of each call, and the output schema of each tool.
    calls: HashMap<u64, String>,
    schemas: HashMap<String, Value>,
}

#[allow(dead_code, reason = "each file of tests uses a part of it")]
impl McpClient {
    /// Starts a server in the project, in the session era, with a client that can ask a person.
    pub(crate) fn start(project: &TestProject) -> Self {
        Self::start_in(project, Era::Sessions)
    }

    /// Starts a server for a client of this era.
    pub(crate) fn start_in(project: &TestProject, era: Era) -> Self {
        Self::start_with(project, era, ["mcp"])
    }

    /// Starts a server and greets it.
    pub(crate) fn greeted<'a>(
        project: &TestProject,
        era: Era,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let arguments = ["mcp"].into_iter().chain(arguments);
        let mut client = Self::start_with(project, era, arguments);
        client.initialize();
        client
    }

    /// Starts a server with other arguments.
    pub(crate) fn start_with<'a>(
        project: &TestProject,
        era: Era,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut command = project.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { break };
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|err| panic!("not JSON: {err}\n{line}"));
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self {
            era,
            child,
            input,
            messages,
            capabilities: json!({"elicitation": {}}),
            next_id: 0,
            early: Vec::new(),
            heard: Vec::new(),
            asked: Vec::new(),
            edits: VecDeque::new(),
            answers: VecDeque::new(),
            sampled: Vec::new(),
            written: VecDeque::new(),
            roots: Vec::new(),
            calls: HashMap::new(),
            schemas: HashMap::new(),
        }
    }

    /// Replaces the capabilities of the client.
    pub(crate) fn able(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Makes the handshake, if the era has one; returns the server's self-description.
    pub(crate) fn initialize(&mut self) -> Value {
        let said = match self.era {
            Era::Sessions => {
                let said = self.request(
                    "initialize",
                    json!({
                        "protocolVersion": "2025-11-25",
                        "capabilities": self.capabilities,
                        "clientInfo": {"name": "test", "version": "1.0.0"},
                    }),
                );
                self.notify("notifications/initialized", json!({}));
                said
            }
            Era::Stateless => self.request("server/discover", json!({})),
        };
        let listed = self.request("tools/list", json!({}));
        let tools = listed["tools"].as_array().expect("tools").iter();
        self.schemas = tools
            .map(|it| {
                (
                    it["name"].as_str().expect("a name").to_owned(),
                    it["outputSchema"].clone(),
                )
            })
            .collect();
        said
    }

    /// Calls a tool and returns the whole result.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write `json!` in place"
    )]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls `execute` with an item and returns the answer as data.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write `json!` in place"
    )]
    pub(crate) fn execute(
        &mut self,
        kind: &str,
        action: &str,
        id: &str,
        parameters: Value,
    ) -> Value {
        let arguments =
            json!({"item_type": kind, "action": action, "item_id": id, "parameters": parameters});
        self.call("execute", arguments)["structuredContent"].clone()
    }

    /// Sends a request and returns its result; a protocol error fails the test.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(
            answer.get("error").is_none(),
            "{method} was refused: {answer}"
        );
        answer["result"].clone()
    }

    /// Sends a request and returns its id without waiting.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let mut params = params;
        if let Some(tool) = params["name"].as_str().filter(|_| method == "tools/call") {
            self.calls.insert(id, tool.to_owned());
        }
        if self.era == Era::Stateless {
            let meta = params
                .as_object_mut()
                .expect("parameters are an object")
                .entry("_meta")
                .or_insert_with(|| Value::Object(Map::new()));
            meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            meta["io.modelcontextprotocol/clientInfo"] =
                json!({"name": "test", "version": "1.0.0"});
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a tool call without waiting; its id is also the progress token.
    pub(crate) fn send_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        let token = self.next_id + 1;
        self.send(
            "tools/call",
            json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": token}}),
        )
    }

    /// Waits for the whole answer to a request, with `result` or `error`.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(place) = self.early.iter().position(|message| message["id"] == id) {
                let answer = self.early.remove(place);
                self.compare(id, &answer["result"]);
                return answer;
            }
            self.read();
        }
    }

    /// Fails if a tool result does not match the announced schema.
    fn compare(&self, id: u64, result: &Value) {
        let Some(content) = result.get("structuredContent") else {
            return;
        };
        let schema = self.calls.get(&id).and_then(|tool| self.schemas.get(tool));
        let Some(schema) = schema else { return };
        let validator = jsonschema::validator_for(schema).expect("a schema");
        let wrong: Vec<String> = validator
            .iter_errors(content)
            .map(|err| err.to_string())
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{content:#}");
    }

    /// Waits for a notification with this method.
    pub(crate) fn notification(&mut self, method: &str) -> Value {
        loop {
            if let Some(place) = self
                .heard
                .iter()
                .position(|message| message["method"] == method)
            {
                return self.heard.remove(place);
            }
            self.read();
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write `json!` in place"
    )]
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, id: u64) {
        self.notify(
            "notifications/cancelled",
            json!({"requestId": id, "reason": "the test changed its mind"}),
        );
    }

    /// Sends a message as one line.
    pub(crate) fn line(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        input
            .write_all(bytes)
            .and_then(|()| input.flush())
            .expect("the server reads");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a process of ours");
        self.child.wait().expect("a child");
    }

    /// Closes the input and waits for the end; returns the exit status and stderr.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        self.input = None;
        let status = self.child.wait().expect("a child");
        let mut said = String::new();
        self.child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut said)
            .expect("UTF-8");
        (status, said)
    }

    /// Reads the next message of the server, and answers a question to the person with the next
    /// prepared answer.
    fn read(&mut self) {
        let message = match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(err) => {
                let _ = self.child.kill();
                let mut said = String::new();
                let _ = self
                    .child
                    .stderr
                    .take()
                    .map(|mut stderr| stderr.read_to_string(&mut said));
                panic!("the server says nothing more ({err})\n{said}");
            }
        };
        match (
            message.get("id"),
            message.get("method").and_then(Value::as_str),
        ) {
            (Some(id), Some("elicitation/create")) => {
                if let Some((path, text)) = self.edits.pop_front() {
                    std::fs::write(path, text).expect("the person can write");
                }
                let answer = self
                    .answers
                    .pop_front()
                    .unwrap_or_else(|| json!({"action": "cancel"}));
                let reply = json!({"jsonrpc": "2.0", "id": id, "result": answer});
                self.asked.push(message["params"].clone());
                self.line(&reply);
            }
            (Some(id), Some("sampling/createMessage")) if !self.written.is_empty() => {
                let result = self.written.pop_front();
                let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
                self.sampled.push(message["params"].clone());
                self.line(&reply);
            }
            (Some(id), Some("roots/list")) => {
                let roots: Vec<Value> = self.roots.iter().map(|uri| json!({"uri": uri})).collect();
                let reply = json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}});
                self.line(&reply);
            }
            (Some(id), Some(method)) => {
                self.sampled.extend(
                    (method == "sampling/createMessage").then(|| message["params"].clone()),
                );
                let error =
                    json!({"code": -32601, "message": format!("the test does not know {method}")});
                let reply = json!({"jsonrpc": "2.0", "id": id, "error": error});
                self.line(&reply);
            }
            (None, Some(_)) => self.heard.push(message),
            _ => self.early.push(message),
        }
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        // A failed test must not leave a server behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
