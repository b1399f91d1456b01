//! Measures the MCP server on its pipes, in turns with echo servers of rmcp, the TypeScript SDK and
//! `FastMCP`.
//!
//! `cargo build --release --example echo && scripts/peers/echo && cargo bench --bench mcp` prints a
//! table: the time from the start of the process to the answer to `initialize`, calls one after the
//! other, 64 calls at a time, and the memory at the end. See `docs/BENCHMARKS.md`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints its figures and stops at a fault"
)]

#[path = "../tests/it/many_items.rs"]
mod many_items;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const ROUNDS: usize = 5;
const WARM: usize = 100;
const CALLS: usize = 500;
const MANY: usize = 2000;
const AT_A_TIME: usize = 64;
const ITEMS: usize = 1_000;

/// A server program and the tool to call.
struct Subject {
    name: &'static str,
    command: Vec<PathBuf>,
    tool: &'static str,
    arguments: Value,
    figures: Figures,
}

#[derive(Default)]
struct Figures {
    start: Vec<f64>,
    calls: Vec<f64>,
    throughput: Vec<f64>,
    memory: Vec<f64>,
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let project = folder.path().join("project");
    many_items::plant(&project, ITEMS);
    // The index does not trust files that are as young as itself and reads them again, so wait
    // first.
    std::thread::sleep(Duration::from_secs(3));
    let mut subjects = subjects(&project);
    for _ in 0..ROUNDS {
        for subject in &mut subjects {
            measure(subject, folder.path(), &project);
        }
    }
    println!(
        "| server | start ms | median µs | p95 µs | {AT_A_TIME} at a time, calls/s | memory MB |"
    );
    println!("|---|---|---|---|---|---|");
    for subject in &mut subjects {
        let figures = &mut subject.figures;
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.1} |",
            subject.name,
            quantile(&mut figures.start, 50),
            quantile(&mut figures.calls, 50),
            quantile(&mut figures.calls, 95),
            quantile(&mut figures.throughput, 50),
            quantile(&mut figures.memory, 50),
        );
    }
}

/// All servers that are installed. Missing ones are reported.
fn subjects(project: &Path) -> Vec<Subject> {
    let piton = PathBuf::from(env!("CARGO_BIN_EXE_piton"));
    let echo = piton.with_file_name("examples").join("echo");
    let target = piton.ancestors().nth(2).expect("a target folder");
    let said = json!({ "message": "hello" });
    let path = project.to_string_lossy();
    let find = json!({ "item_type": "tool", "query": "forecast 4210", "project_path": path });
    let served = vec![piton.clone(), "mcp".into()];
    let subject = |name, command, tool, arguments| Subject {
        name,
        command,
        tool,
        arguments,
        figures: Figures::default(),
    };
    let mut subjects = vec![
        subject("rmcp 3.8.0, echo", vec![echo.clone()], "echo", said.clone()),
        subject(
            "the same behind piton's stack",
            vec![echo, "guarded".into()],
            "echo",
            said.clone(),
        ),
        subject("piton, `help`", served.clone(), "help", json!({})),
        subject("piton, `search` in 1,000 items", served, "search", find),
    ];
    for (name, command) in [
        (
            "TypeScript SDK 1.32.2, echo",
            ["node/bin/node", "typescript/echo.mjs"],
        ),
        (
            "FastMCP 4.1.2, echo",
            ["python/bin/python", "python/echo.py"],
        ),
    ] {
        let command: Vec<PathBuf> = command
            .iter()
            .map(|part| target.join("peers/echo").join(part))
            .collect();
        subjects.push(subject(name, command, "echo", said.clone()));
    }
    subjects.retain(|subject| {
        let missing = subject
            .command
            .iter()
            .take(1)
            .find(|program| !program.exists());
        if let Some(program) = missing {
            println!(
                "not measured: {} ({} does not exist)",
                subject.name,
                program.display()
            );
        }
        missing.is_none()
    });
    subjects
}

fn measure(subject: &mut Subject, home: &Path, project: &Path) {
    let start = Instant::now();
    let mut server = Server::start(&subject.command, home, project);
    server.send(
        &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1" },
    } }),
    );
    server.answer();
    subject
        .figures
        .start
        .push(start.elapsed().as_secs_f64() * 1e3);
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));

    let mut id = 0;
    let mut next = || {
        id += 1;
        let params = json!({ "name": subject.tool, "arguments": subject.arguments });
        format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        )
    };
    for _ in 0..WARM {
        server.write(&next());
        server.answer();
    }
    for _ in 0..CALLS {
        let request = next();
        let sent = Instant::now();
        server.write(&request);
        server.answer();
        subject
            .figures
            .calls
            .push(sent.elapsed().as_secs_f64() * 1e6);
    }
    let requests: Vec<String> = (0..MANY).map(|_| next()).collect();
    let sent = Instant::now();
    for (number, request) in requests.iter().enumerate() {
        if number >= AT_A_TIME {
            server.answer();
        }
        server.write(request);
    }
    for _ in 0..AT_A_TIME {
        server.answer();
    }
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    subject
        .figures
        .throughput
        .push(MANY as f64 / sent.elapsed().as_secs_f64());
    subject.figures.memory.push(server.memory());
    server.end();
}

struct Server {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    line: String,
}

impl Server {
    #[expect(
        clippy::disallowed_methods,
        reason = "a benchmark measures whole processes"
    )]
    fn start(command: &[PathBuf], home: &Path, project: &Path) -> Self {
        let (program, arguments) = command.split_first().expect("a program");
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(project)
            .env("HOME", home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            child,
            to,
            from,
            line: String::new(),
        }
    }

    fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    fn write(&mut self, text: &str) {
        self.to.write_all(text.as_bytes()).expect("written");
    }

    /// Waits for the next answer.
    fn answer(&mut self) {
        loop {
            self.line.clear();
            assert!(
                self.from.read_line(&mut self.line).expect("readable") > 0,
                "the server is gone"
            );
            if self.line.contains("\"result\"") {
                assert!(!self.line.contains("\"isError\":true"), "{}", self.line);
                return;
            }
            assert!(!self.line.contains("\"error\""), "{}", self.line);
        }
    }

    /// The resident memory of the server, in MB.
    fn memory(&self) -> f64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("readable");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a size");
        let kib: f64 = line
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()
            .expect("a number");
        kib / 1024.0
    }

    fn end(self) {
        let Self { mut child, to, .. } = self;
        drop(to);
        child.wait().expect("an end");
    }
}

fn quantile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get((values.len() * percent / 100).min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}
