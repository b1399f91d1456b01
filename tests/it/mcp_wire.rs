//! A client of `piton mcp` that sends exactly what a test gives it, and the life of a server on its
//! pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::TestProject;

const PATIENCE: Duration = Duration::from_mins(2);

/// A server in its own process, and the pipes to it.
pub(crate) struct Client {
    pub(crate) server: Child,
    to: Option<ChildStdin>,
    from: Receiver<String>,
}

impl Client {
    /// Starts a server without sending anything.
    pub(crate) fn start(project: &TestProject) -> Self {
        let mut command = project.command(["mcp"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut server = command.spawn().expect("piton starts");
        let lines = BufReader::new(server.stdout.take().expect("a pipe"));
        let (sender, from) = channel();
        // Reads all the time, so that the server never blocks.
        thread::spawn(move || {
            lines
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let to = server.stdin.take();
        Self { server, to, from }
    }

    /// Starts a server and makes the handshake of 2025-11-25.
    pub(crate) fn connect(project: &TestProject) -> Self {
        let mut client = Self::start(project);
        client.shake_hands();
        client
    }

    pub(crate) fn shake_hands(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        self.send(
            &json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params }),
        );
        let answer = self.next();
        assert_eq!(answer["result"]["serverInfo"]["name"], "piton", "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.to
            .as_mut()
            .expect("an open pipe")
            .write_all(bytes)
            .expect("written");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: &Value) {
        self.send(&call(id, tool, arguments));
    }

    pub(crate) fn next(&mut self) -> Value {
        let line = self.from.recv_timeout(PATIENCE).expect("a message");
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"))
    }

    /// Checks that a normal call is answered.
    pub(crate) fn assert_alive(&mut self) {
        self.call("alive", "help", &json!({}));
        let answer = self.next();
        assert_eq!(answer["id"], "alive", "{answer}");
        assert_eq!(
            answer["result"]["structuredContent"]["topic"], "overview",
            "{answer}"
        );
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.server.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .expect("a process");
        rustix::process::kill_process(pid, signal).expect("sent");
    }

    /// Closes the pipe to the server and waits for its end.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.to = None;
        self.server.wait().expect("an end")
    }
}

pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    let id: Value = id.into();
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

#[test]
fn a_server_ends_cleanly_when_its_input_ends() {
    let project = TestProject::new();
    let mut client = Client::connect(&project);
    client.assert_alive();
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn a_server_without_any_request_ends_cleanly() {
    let project = TestProject::new();
    assert_eq!(Client::start(&project).end().code(), Some(0));
}

#[test]
fn a_server_ends_cleanly_when_it_is_asked_to() {
    let project = TestProject::new();
    for signal in [
        rustix::process::Signal::TERM,
        rustix::process::Signal::INT,
        rustix::process::Signal::HUP,
    ] {
        let mut client = Client::connect(&project);
        client.assert_alive();
        client.signal(signal);
        // The input stays open.
        assert_eq!(
            client.server.wait().expect("an end").code(),
            Some(0),
            "{signal:?}"
        );
    }
}

#[test]
fn a_server_whose_client_reads_no_answers_ends() {
    let project = TestProject::new();
    let mut command = project.command(["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().expect("piton starts");
    drop(server.stdout.take());
    let mut to = server.stdin.take().expect("a pipe");
    to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .expect("written");
    assert_eq!(server.wait().expect("an end").code(), Some(0));
}
