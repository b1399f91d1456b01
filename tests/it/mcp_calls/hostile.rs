//! Misbehaving servers: each is reported as a failure with its reason, in time, and leaves nothing
//! behind.

use serde_json::json;

use super::{assert_nothing_left, call, project};
use crate::harness::{TestProject, cmd_snapshot};

/// A server with a short start-up limit.
fn hasty(ways: &str) -> TestProject {
    let project = project(ways);
    let text = project
        .read(".ai/tools/box/tool.yaml")
        .replace("startup_timeout: 20", "startup_timeout: 1");
    project.file(".ai/tools/box/tool.yaml", text)
}

#[test]
fn a_server_that_ends_at_once_is_quoted() {
    let project = project("exits");
    cmd_snapshot!(project.piton(["tool", "run", "count"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: box, count (`piton sign box count`)
    cannot find my settings
    no changes
    error: the MCP server `box` ended before it answered: exit status: 3 [MCP_SERVER_FAILED]
    hint: see what it wrote to stderr
    ");
    assert_nothing_left(&project);
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let project = hasty("silent");
    cmd_snapshot!(project.piton(["tool", "run", "count"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: box, count (`piton sign box count`)
    no changes
    error: the MCP server `box` did not answer within [TIME] [MCP_SERVER_FAILED]
    hint: see what it writes to stderr; `startup_timeout:` gives it more time
    ");
    assert_nothing_left(&project);
}

#[test]
fn a_server_that_writes_garbage_is_given_up() {
    let project = project("garbage");
    let result = call(&project, &["count"]);
    assert_eq!(result["code"], "MCP_PROTOCOL", "{result}");
    let told = "the server does not speak MCP: it wrote `garbage \\u{1b}[31m`, which is not an MCP message, and other invalid lines";
    assert_eq!(result["message"], told);
    assert_nothing_left(&project);
}

#[test]
fn a_line_that_is_not_a_message_is_ignored() {
    let project = project("banner");
    assert_eq!(call(&project, &["count"])["result"], json!({"calls": 1}));
}

#[test]
fn a_message_without_end_is_not_read_to_its_end() {
    let project = project("giant");
    let result = call(&project, &["count"]);
    assert_eq!(result["code"], "MCP_PROTOCOL", "{result}");
    assert_eq!(
        result["message"],
        "the server sent a message of more than 16 MiB"
    );
    assert_nothing_left(&project);
}

#[test]
fn an_answer_that_is_too_large_is_refused() {
    let project = project("giant_answer");
    let result = call(&project, &["count"]);
    assert_eq!(
        result["message"], "the server sent a message of more than 16 MiB",
        "{result}"
    );
}

#[test]
fn an_answer_to_another_question_is_no_answer() {
    let project = project("wrong_id");
    let result = call(&project, &["count"]);
    assert_eq!(result["code"], "MCP_PROTOCOL", "{result}");
    let told = "the server answered request 4711, which was not made or was answered already";
    assert_eq!(result["message"], told);
    assert_nothing_left(&project);
}

#[test]
fn a_list_of_tools_without_end_is_given_up() {
    let project = project("endless");
    let result = call(&project, &["count"]);
    assert_eq!(
        result["message"], "the MCP server is not understood: its list of tools does not end",
        "{result}"
    );
}

#[test]
fn a_program_that_is_missing_is_reported_before_anything_runs() {
    let project = project("");
    let text = project
        .read(".ai/tools/box/tool.yaml")
        .replace("python3", "no_such_server");
    let project = project.file(".ai/tools/box/tool.yaml", text);
    cmd_snapshot!(project.piton(["tool", "run", "count"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `count` needs the command `no_such_server`

    hint: install `no_such_server`, put it on the search path, or name another one: box, .ai/tools/box/tool.yaml:8
    ");
}

#[test]
fn a_local_address_must_be_allowed_by_the_manifest() {
    let remote = |more: &str| {
        format!(
            "tool_id: near\ntool_type: mcp_server\nversion: \"1.0.0\"\ndescription: x\nexecutor: http_client\nconfig:\n  {more}\n"
        )
    };
    let project = TestProject::new();
    for (transport, url) in [
        ("http", "http://127.0.0.1:9/mcp"),
        ("sse", "http://localhost:9/sse"),
        ("websocket", "ws://[::1]:9/ws"),
        ("http", "http://169.254.169.254/latest"),
    ] {
        let config = format!("transport: {transport}\n  url: \"{url}\"");
        let project = TestProject::new().file(".ai/tools/near.yaml", remote(&config));
        let result = call(&project, &["near"]);
        assert_eq!(result["code"], "ADDRESS_REFUSED", "{transport} {result}");
        let config = format!("{config}\n  allow_private: true");
        let project = project.file(".ai/tools/near.yaml", remote(&config));
        if !url.contains("169.254") {
            assert_eq!(
                call(&project, &["near"])["code"],
                "NETWORK_FAILED",
                "{transport}"
            );
        }
    }
    let project = project.file(
        ".ai/tools/near.yaml",
        remote("transport: carrier_pigeon\n  url: x"),
    );
    cmd_snapshot!(project.piton(["tool", "run", "near"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `config.transport` is `carrier_pigeon`, which is not a transport
     --> .ai/tools/near.yaml:7:14

    hint: use one of stdio, http, sse, websocket
    ");
}
