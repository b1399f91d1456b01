//! Third-party MCP servers, each the real program, over every transport.
//!
//! `scripts/lib/mcp-servers` installs them below cargo's target folder; without them these tests
//! fail.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::guide::{commands, examples, pages};
use crate::harness::TestProject;
use crate::mcp_calls::call;

/// The folder of the servers.
fn servers() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_piton"))
        .ancestors()
        .nth(2)
        .expect("a target folder");
    let folder = target.join("peers/mcp-servers");
    assert!(
        folder.join("complete").exists(),
        "the MCP servers of others are missing: run scripts/lib/mcp-servers, as ./scripts/test does"
    );
    folder
}

/// A project in which npm finds the installed servers.
fn project() -> TestProject {
    let project = TestProject::new()
        .file(".gitignore", "node_modules\n")
        .file("README.md", "read me\n")
        .committed();
    symlink(
        servers().join("node_modules"),
        project.root().join("node_modules"),
    )
    .expect("a link");
    project
}

/// A stdio server with this program of the folder.
fn stdio(project: TestProject, id: &str, program: &str, arguments: &str) -> TestProject {
    let program = servers().join("node_modules/.bin").join(program);
    let text = format!(
        "tool_id: {id}\ntool_type: mcp_server\nversion: \"1.0.0\"\ndescription: A server\nexecutor: subprocess\nconfig:\n  \
         transport: stdio\n  command: {}\n  args: [{arguments}]\n  startup_timeout: 60\n",
        program.display()
    );
    project.file(&format!(".ai/tools/{id}.yaml"), text)
}

fn remote(project: TestProject, id: &str, transport: &str, url: &str) -> TestProject {
    let text = format!(
        "tool_id: {id}\ntool_type: mcp_server\nversion: \"1.0.0\"\ndescription: A server\nexecutor: http_client\nconfig:\n  \
         transport: {transport}\n  url: {url}\n  allow_private: true\n  startup_timeout: 60\n"
    );
    project.file(&format!(".ai/tools/{id}.yaml"), text)
}

/// A server that runs by itself and ends with the test.
struct Elsewhere(Child);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts server-everything on a free port.
fn everything(project: &TestProject, transport: &str) -> (Elsewhere, u16) {
    // The server cannot choose a port itself; another process is unlikely to take this one
    // meanwhile.
    let port = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .port();
    let program = servers().join("node_modules/.bin/mcp-server-everything");
    let mut command = project.hermetic(program.to_str().expect("text"), &project.root());
    command
        .arg(transport)
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let server = Elsewhere(command.spawn().expect("it starts"));
    let deadline = Instant::now() + Duration::from_mins(1);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            Instant::now() < deadline,
            "server-everything does not listen"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, port)
}

fn assert_everything(project: &TestProject) {
    let listed = call(project, &["all"]);
    let tools = listed["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{listed}"));
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{listed}");
    let echoed = call(project, &["all", "echo", "-p", "message=hello"]);
    assert_eq!(echoed["result"], json!({"text": "Echo: hello"}), "{echoed}");
    let sum = call(project, &["all", "get-sum", "-p", "a=2", "-p", "b=40"]);
    assert_eq!(sum["status"], "success", "{sum}");
    assert!(
        sum["result"]["text"]
            .as_str()
            .is_some_and(|text| text.contains("42")),
        "{sum}"
    );
    let structured = call(
        project,
        &["all", "get-structured-content", "-p", "location=Chicago"],
    );
    assert!(
        structured["result"]["temperature"].is_number(),
        "{structured}"
    );
    let wrong = call(project, &["all", "get-sum", "-p", "a=2", "-p", "b=many"]);
    assert_eq!(wrong["code"], "INVALID_PARAMETER", "{wrong}");
}

#[test]
fn new_tools_run_as_they_were_made() {
    let project = project();
    for (name, kind) in [
        ("alone", "mcp_tool"),
        ("server", "mcp_server"),
        ("with_server", "mcp_tool"),
    ] {
        let made = project.piton(["new", "tool", name, "--type", kind, "--checkpoint", "auto"]);
        assert_eq!(made.code(), Some(0), "{made}");
        assert!(
            made.stderr().contains(&format!("piton tool run {name}")),
            "{made}"
        );
        let found = project.piton(["validate", "--format", "json"]).json();
        let wrong = found["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .find(|it| it["code"] != "UNSIGNED");
        assert_eq!(wrong, None, "{name}");
        let ran = project.piton([
            "tool",
            "run",
            name,
            "--checkpoint",
            "auto",
            "--strict",
            "--format",
            "json",
        ]);
        let result = ran.last_json();
        assert_eq!(
            (&result["status"], &result["checkpoint"]["status"]),
            (&json!("success"), &json!("no_changes")),
            "{ran}"
        );
        if kind == "mcp_tool" {
            assert_eq!(result["result"], json!({"text": "Echo: hello"}), "{ran}");
        } else {
            assert!(
                result["result"]["tools"]
                    .as_array()
                    .is_some_and(|tools| tools.len() > 5),
                "{ran}"
            );
        }
        project.assert_clean();
    }
    assert!(
        project
            .read(".ai/tools/with_server.yaml")
            .contains("executor: server\n")
    );
}

#[test]
fn every_command_of_the_guide_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Tools of other MCP servers"))
        .expect("the page");
    let project = examples(&page)
        .iter()
        .fold(project(), |project, (path, text)| project.file(path, text))
        .committed();
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let commands = commands(&page);
    assert!(commands.len() > 4);
    for command in commands {
        project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}"));
    }
}

#[test]
fn server_everything_over_stdio() {
    assert_everything(&stdio(project(), "all", "mcp-server-everything", ""));
}

#[test]
fn server_everything_over_streamable_http() {
    let project = project();
    let (_server, port) = everything(&project, "streamableHttp");
    assert_everything(&remote(
        project,
        "all",
        "http",
        &format!("http://127.0.0.1:{port}/mcp"),
    ));
}

#[test]
fn server_everything_over_server_sent_events() {
    let project = project();
    let (_server, port) = everything(&project, "sse");
    assert_everything(&remote(
        project,
        "all",
        "sse",
        &format!("http://127.0.0.1:{port}/sse"),
    ));
}

#[test]
fn a_server_that_speaks_another_transport_is_a_failure_with_a_hint() {
    let project = project();
    let (_server, port) = everything(&project, "sse");
    let project = remote(
        project,
        "all",
        "http",
        &format!("http://127.0.0.1:{port}/mcp"),
    );
    let result = call(&project, &["all", "echo", "-p", "message=x"]);
    assert_eq!(result["code"], "NETWORK_FAILED", "{result}");
    assert!(
        result["suggestion"]
            .as_str()
            .is_some_and(|text| text.contains("config.transport")),
        "{result}"
    );
}

#[test]
fn a_server_of_the_python_package_over_a_websocket() {
    let project = project().file("websocket.py", include_str!("mcp_calls/websocket.py"));
    let python = servers().join("python/bin/python");
    let mut command = project.hermetic(python.to_str().expect("text"), &project.root());
    command
        .arg("websocket.py")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = Elsewhere(command.spawn().expect("it starts"));
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().expect("a pipe"))
        .read_line(&mut port)
        .expect("a port");
    let project = remote(
        project,
        "all",
        "websocket",
        &format!("ws://127.0.0.1:{}/ws", port.trim()),
    );
    let result = call(&project, &["all", "say", "-p", "text=hello"]);
    assert_eq!(result["result"], json!({"text": "say: hello"}), "{result}");
    let refused = call(&project, &["all", "say"]);
    assert_eq!(refused["code"], "INVALID_PARAMETER", "{refused}");
}

#[test]
fn what_server_filesystem_writes_is_a_checkpoint() {
    let project = stdio(
        project(),
        "files",
        "mcp-server-filesystem",
        "\"{project_path}\"",
    );
    project.git(["add", "--all"]);
    project.git(["commit", "--quiet", "--message", "server"]);
    let path = format!("path={}", project.root().join("notes.md").display());
    let words = [
        "files",
        "write_file",
        "-p",
        &path,
        "-p",
        "content=by the server",
        "--checkpoint",
        "auto",
    ];
    let written = call(&project, &words);
    assert_eq!(written["checkpoint"]["status"], "committed", "{written}");
    assert_eq!(project.read("notes.md"), "by the server");
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "notes.md\n"
    );
    project.assert_clean();
    let outside = call(
        &project,
        &[
            "files",
            "write_file",
            "-p",
            "path=/etc/notes.md",
            "-p",
            "content=x",
        ],
    );
    assert_eq!(outside["code"], "MCP_TOOL_ERROR", "{outside}");
    let denied = outside["message"]
        .as_str()
        .is_some_and(|text| text.contains("Access denied"));
    assert!(denied, "{outside}");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn server_memory_remembers_between_the_steps_of_a_run() {
    let project = stdio(project(), "memory", "mcp-server-memory", "");
    let text = project.read(".ai/tools/memory.yaml")
        + "  env: {MEMORY_FILE_PATH: \"{project_path}/memory.jsonl\"}\n";
    let step = |name: &str, command: &str, param: &str| {
        format!(
            "<step name=\"{name}\"><execute item_type=\"tool\" item_id=\"memory\" command=\"{command}\">{param}</execute></step>\n"
        )
    };
    let entity = "<param name=\"entities\">[{\"name\": \"Ada\", \"entityType\": \"person\", \"observations\": [\"climbs\"]}]</param>";
    let directive = format!(
        "```xml\n<directive name=\"d\" version=\"1.0.0\">\n<metadata><description>d</description><git_checkpoint mode=\"auto\"/>\
         <permissions><mcp name=\"memory\"/><write path=\"**\"/></permissions></metadata>\n<process>\n{}{}</process>\n\
         <outputs><success>graph: {{step:read}}</success></outputs>\n</directive>\n```\n",
        step("learn", "create_entities", entity),
        step("read", "read_graph", "")
    );
    let project = project
        .file(".ai/tools/memory.yaml", text)
        .file(".ai/directives/d.md", directive)
        .committed();
    let ran = project.piton(["run", "d", "--format", "json"]);
    let finished = ran.last_json();
    let names: Vec<&Value> = finished["outputs"]["graph"]["entities"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["Ada"], "{ran}");
    // The file that the server keeps in the project belongs to the step of the call.
    assert_eq!(
        finished["steps"][0]["checkpoint"]["status"], "committed",
        "{ran}"
    );
    project.assert_clean();
}
