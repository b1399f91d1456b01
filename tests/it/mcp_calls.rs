//! Tools of other MCP servers: good ones, bad ones, and ones that die. The server is a script in
//! plain Python.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::crash::leftover::{awaited, is_alive};
use crate::harness::{TestProject, cmd_snapshot};

mod grant;
mod host;
mod hostile;
mod pinning;

const SERVER: &str = include_str!("mcp_calls/server.py");

/// A project with the server `box` and some of its tools.
pub(crate) fn project(ways: &str) -> TestProject {
    let tool = |id: &str, name: &str, parameters: &str| {
        format!(
            "tool_id: {id}\ntool_type: mcp_tool\nversion: \"1.0.0\"\ndescription: The tool {name} of the box\n\
             executor: box\nconfig:\n  mcp_tool_name: {name}\n{parameters}"
        )
    };
    let text = |name: &str| format!("  - {{name: {name}, type: string, required: true}}\n");
    let server = format!(
        "tool_id: box\ntool_type: mcp_server\nversion: \"1.0.0\"\ndescription: A box of tools\nexecutor: subprocess\n\
         config:\n  transport: stdio\n  command: python3\n  args: [\"{{tool_dir}}/server.py\", {ways}]\n  \
         env: {{SECRET: \"${{BOX_TOKEN:-none}}\"}}\n  startup_timeout: 20\n"
    );
    let write = format!("parameters:\n{}{}", text("path"), text("text"));
    TestProject::new()
        .file(".ai/tools/box/tool.yaml", server)
        .file(".ai/tools/box/server.py", SERVER)
        .file(
            ".ai/tools/say.yaml",
            tool("say", "say", &format!("parameters:\n{}", text("text"))),
        )
        .file(".ai/tools/write.yaml", tool("write", "write", &write))
        .file(
            ".ai/tools/spoil.yaml",
            tool("spoil", "write_and_fail", &write),
        )
        .file(".ai/tools/count.yaml", tool("count", "count", ""))
        .file(".ai/tools/die.yaml", tool("die", "die", ""))
        .file(".ai/tools/wait.yaml", tool("wait", "wait", ""))
        .file("README.md", "read me\n")
        .committed()
}

pub(crate) fn call(project: &TestProject, words: &[&str]) -> Value {
    project
        .piton([&["tool", "run"], words, &["--format", "json"]].concat())
        .last_json()
}

fn beside(project: &TestProject, name: &str) -> PathBuf {
    project.root().with_file_name("tmp").join(name)
}

/// How often the server was started.
fn starts(project: &TestProject) -> usize {
    fs::read_to_string(beside(project, "started"))
        .unwrap_or_default()
        .lines()
        .count()
}

/// Checks that piton left nothing in the temporary folder and that no server runs.
fn assert_nothing_left(project: &TestProject) {
    let tmp = project.root().with_file_name("tmp");
    let left: Vec<String> = fs::read_dir(&tmp)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.starts_with("piton"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    for pid in fs::read_to_string(tmp.join("started"))
        .unwrap_or_default()
        .lines()
    {
        assert!(!is_alive(pid), "the server {pid} still runs");
    }
}

/// A directive with these steps, each a tool with its parameters.
fn directive(project: TestProject, permissions: &str, steps: &[(&str, &str, &str)]) -> TestProject {
    let step = |(at, (tool, command, params)): (usize, &(&str, &str, &str))| {
        let command = if command.is_empty() {
            String::new()
        } else {
            format!(" command=\"{command}\"")
        };
        let pairs = params
            .split_terminator(',')
            .filter_map(|pair| pair.split_once('='));
        let params: Vec<String> = pairs
            .map(|(name, value)| format!("<param name=\"{name}\" value=\"{value}\"/>"))
            .collect();
        let params = params.concat();
        format!(
            "<step name=\"s{at}\"><execute item_type=\"tool\" item_id=\"{tool}\"{command}>{params}</execute></step>\n"
        )
    };
    let steps: String = steps.iter().enumerate().map(step).collect();
    let text = format!(
        "```xml\n<directive name=\"d\" version=\"1.0.0\">\n<metadata><description>d</description>\
         <git_checkpoint mode=\"auto\"/><permissions>{permissions}</permissions></metadata>\n\
         <process>\n{steps}</process>\n<outputs><success>last: {{step:s{}}}</success></outputs>\n</directive>\n```\n",
        steps.matches("<step").count() - 1
    );
    project.file(".ai/directives/d.md", text).committed()
}

#[test]
fn a_tool_of_a_server_is_called_and_its_result_has_a_form() {
    let project = project("");
    let result = call(&project, &["say", "--param", "text=hello there"]);
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(result["result"], json!({"text": "hello there"}));
    assert_eq!(result["stderr"], "saying hello there\n");
    assert_eq!(
        call(&project, &["count"])["result"],
        json!({"calls": 1}),
        "each run has a server of its own"
    );
    let written = call(&project, &["say", "--param", "text={\"a\": [1, 2]}"]);
    assert_eq!(written["result"], json!({"a": [1, 2]}));
    assert_nothing_left(&project);
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_server_lists_its_tools_and_takes_their_names_as_commands() {
    let project = project("");
    let listed = call(&project, &["box"]);
    let tools = listed["result"]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 10, "{listed}");
    assert_eq!(
        tools[1],
        json!({"name": "say", "description": "The tool say", "input_schema": {
            "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}})
    );
    // The server declares the types of its parameters.
    assert_eq!(
        call(&project, &["box", "add", "-p", "a=2", "-p", "b=40"])["result"],
        json!({"sum": 42})
    );
    assert_eq!(
        call(&project, &["box", "say", "-p", "text=42"])["result"],
        json!(42)
    );
    cmd_snapshot!(project.piton(["tool", "run", "box", "add", "-p", "a=two"]), @r#"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: box (`piton sign box`)
    no changes
    error: the tool `add` of `box` cannot be called like this: missing parameter `b`; parameter `a` is not of type "integer" [INVALID_PARAMETER]
    hint: `piton tool run box` lists what its tools take
    "#);
    cmd_snapshot!(project.piton(["tool", "run", "box", "ad", "-p", "a=2"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: box (`piton sign box`)
    no changes
    error: the MCP server `box` has no tool `ad` [MCP_NO_TOOL]
    hint: did you mean `add`?
    ");
    assert_nothing_left(&project);
}

#[test]
fn what_will_be_called_is_shown_first() {
    let project = project("").variable("BOX_TOKEN", "very secret");
    let shown = project.piton(["tool", "run", "say", "--param", "text=x", "--dry-run"]);
    assert!(!shown.stdout().contains("very secret"), "{shown}");
    let lines: Vec<String> = shown
        .stdout()
        .lines()
        .filter(|line| {
            line.starts_with("action.") && !line.contains("environment") && !line.contains("limits")
        })
        .map(str::to_owned)
        .collect();
    insta::with_settings!({filters => shown.filters()}, { insta::assert_snapshot!(lines.join("\n"), @"
    action.server: box
    action.tool: say  # say, .ai/tools/say.yaml:7
    action.transport: stdio
    action.program: python3  # box, .ai/tools/box/tool.yaml:8
    action.arguments[0]: [PROJECT]/.ai/tools/box/server.py  # box, .ai/tools/box/tool.yaml:9
    action.folder: [PROJECT]  # default
    action.input: 0 bytes
    action.startup_timeout: [TIME]  # box, .ai/tools/box/tool.yaml:11
    "); });
    assert_eq!(starts(&project), 0);
}

#[test]
fn a_server_gets_what_it_asks_for_and_nothing_else() {
    let project = project("")
        .variable("BOX_TOKEN", "very secret")
        .variable("OTHER", "mine");
    let variable = |name: &str| {
        call(
            &project,
            &["box", "variable", "-p", &format!("name={name}")],
        )["result"]
            .clone()
    };
    assert_eq!(variable("OTHER"), json!({"value": null}));
    // The server has the secret, but its value is masked in the output.
    assert_eq!(variable("SECRET"), json!({"value": "***"}));
    assert_ne!(variable("HOME"), json!({"value": project.home()}));
    assert_eq!(variable("PITON_PROJECT"), json!({"value": project.root()}));
}

#[test]
fn what_a_server_writes_is_a_checkpoint_and_what_fails_is_rolled_back() {
    let project = project("");
    let words = [
        "-p",
        "path=made.txt",
        "-p",
        "text=made",
        "--checkpoint",
        "auto",
    ];
    let spoiled = call(&project, &[&["spoil"], &words[..]].concat());
    assert_eq!(
        (&spoiled["status"], &spoiled["code"]),
        (&json!("error"), &json!("MCP_TOOL_ERROR")),
        "{spoiled}"
    );
    assert_eq!(
        spoiled["message"],
        "the tool reported a failure: wrote made.txt"
    );
    assert_eq!(spoiled["checkpoint"]["status"], "rolled_back");
    project.assert_clean();
    let kept = call(&project, &[&["write"], &words[..]].concat());
    assert_eq!(kept["checkpoint"]["status"], "committed", "{kept}");
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "made.txt\n"
    );
    project.assert_clean();
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert!(!project.root().join("made.txt").exists());
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

const ALL: &str = "<execute resource=\"tool\" id=\"*\"/><env vars=\"*\"/><write path=\"**\"/>";

#[test]
fn one_server_serves_all_steps_of_a_run() {
    let steps = [
        ("count", "", ""),
        ("write", "", "path=a.txt,text=a"),
        ("box", "count", ""),
    ];
    let project = directive(project("child"), ALL, &steps);
    let ran = project.piton(["run", "d", "--format", "json"]);
    assert_eq!(
        ran.last_json()["outputs"],
        json!({"last": {"calls": 3}}),
        "{ran}"
    );
    assert_eq!(starts(&project), 1);
    assert_eq!(project.read("a.txt"), "a");
    assert!(
        !is_alive(awaited(&beside(&project, "child")).trim()),
        "what the server started still runs"
    );
    assert_nothing_left(&project);
}

#[test]
fn a_server_that_died_is_started_again_and_that_is_reported() {
    let steps = [("count", "", ""), ("die", "", ""), ("count", "", "")];
    let project = directive(project(""), ALL, &steps);
    let text = project
        .read(".ai/directives/d.md")
        .replace("name=\"s1\"", "name=\"s1\" on_failure=\"continue\"");
    let project = project.file(".ai/directives/d.md", text).committed();
    let ran = project.piton(["run", "d", "--format", "json"]);
    assert_eq!(
        ran.last_json()["outputs"],
        json!({"last": {"calls": 1}}),
        "{ran}"
    );
    assert_eq!(starts(&project), 2);
    let dead = call(&project, &["die"]);
    assert_eq!(dead["code"], "NO_ANSWER", "{dead}");
    assert_eq!(
        dead["message"],
        "the MCP server `box` ended before it answered: exit status: 7"
    );
    assert_eq!(dead["stderr"], "last words\n");
    assert_nothing_left(&project);
}

#[test]
fn a_server_killed_between_two_steps_is_found_out() {
    let project = project("").tool(
        "kill",
        "isolation: trusted",
        "kill -9 $(tail -1 \"$TMPDIR/started\")",
    );
    let project = directive(
        project,
        ALL,
        &[("count", "", ""), ("kill", "", ""), ("count", "", "")],
    );
    let ran = project.piton(["run", "d", "--format", "json"]);
    assert_eq!(
        ran.last_json()["outputs"],
        json!({"last": {"calls": 1}}),
        "{ran}"
    );
    assert_eq!(starts(&project), 2);
    let output = fs::read_dir(project.root().join(".ai/outputs/tools/count"))
        .expect("outputs")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a file"))
        .find(|text| text.contains("was restarted"));
    assert!(output.is_some(), "the restart was not reported");
}

#[test]
fn a_call_that_takes_too_long_is_cancelled_and_the_server_continues() {
    let steps = [
        ("count", "", ""),
        ("wait", "", "timeout=1"),
        ("count", "", ""),
    ];
    let project = directive(project(""), ALL, &steps);
    let text = project
        .read(".ai/directives/d.md")
        .replace("name=\"s1\"", "name=\"s1\" on_failure=\"continue\"");
    let project = project.file(".ai/directives/d.md", text).committed();
    let ran = project.piton(["run", "d", "--format", "json"]);
    assert!(ran.stdout().contains("TIMED_OUT"), "{ran}");
    // The same process answered before and after.
    assert_eq!(
        ran.last_json()["outputs"],
        json!({"last": {"calls": 2}}),
        "{ran}"
    );
    assert_eq!(starts(&project), 1);
    awaited(&beside(&project, "cancelled"));
}

#[test]
fn an_interrupt_and_a_kill_leave_no_server() {
    for signal in [Signal::INT, Signal::KILL] {
        let project = project("child, stubborn");
        let mut command = project.command(["tool", "run", "wait", "--checkpoint", "auto"]);
        let piton = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("piton starts");
        let pids = [
            awaited(&beside(&project, "waiting")),
            awaited(&beside(&project, "child")),
        ];
        kill_process(Pid::from_child(&piton), signal).expect("a process to end");
        let ran = project.ran(piton.wait_with_output().expect("piton ends"));
        if signal == Signal::INT {
            assert_eq!(ran.code(), Some(130), "{ran}");
        } else {
            assert_eq!(project.piton(["recover"]).code(), Some(0));
        }
        assert_eq!(
            pids.map(|pid| is_alive(pid.trim())),
            [false, false],
            "{ran}"
        );
        assert_nothing_left(&project);
        project.assert_clean();
    }
}

#[test]
fn what_a_server_asks_of_a_model_is_refused() {
    let project = project("");
    let asked = call(&project, &["box", "ask"]);
    assert_eq!(asked["result"]["error"]["code"], json!(-32601), "{asked}");
}

#[test]
fn a_tool_may_bring_its_server_along() {
    let inline = "tool_id: inline\ntool_type: mcp_tool\nversion: \"1.0.0\"\ndescription: x\nexecutor: subprocess\n\
        config:\n  mcp_tool_name: say\n  command: python3\n  args: [\".ai/tools/box/server.py\", \"{way}\"]\n\
        parameters:\n  - {name: text, type: string, required: true}\n  - {name: way, type: string, default: good}\n";
    let block = "tool_id: block\ntool_type: mcp\nversion: \"1.0.0\"\ndescription: x\nexecutor:\n  type: mcp\n  \
        transport: stdio\n  command: python3\n  args: [.ai/tools/box/server.py]\ncommands: [count]\n";
    let root = "tool:\n  id: root-box\n  type: mcp\n  name: Root\n  version: 1.0.0\n  description: x\n  \
        schema_version: 1.0\n  commands: [count]\n  mcp_specific:\n    server_command: python3 .ai/tools/box/server.py\n";
    let project = project("")
        .file(".ai/tools/inline.yaml", inline)
        .file(".ai/tools/block.yaml", block)
        .file(".ai/tools/root.yaml", root);
    // Keys of the server's settings are not arguments of the tool.
    assert_eq!(
        call(&project, &["inline", "-p", "text=hi"])["result"],
        json!({"text": "hi"})
    );
    for id in ["block", "root-box"] {
        assert_eq!(
            call(&project, &[id, "count"])["result"],
            json!({"calls": 1}),
            "{id}"
        );
        assert_eq!(
            call(&project, &[id, "say"])["code"],
            "UNKNOWN_COMMAND",
            "{id}"
        );
    }
}
