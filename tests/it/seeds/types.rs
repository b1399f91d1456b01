//! Document 000: each type of tool has its own rules.

use serde_json::json;

use super::{call, examples, findings, planned, shown};
use crate::harness::TestProject;

#[test]
fn every_example_is_valid_without_the_files_that_its_type_does_not_need() {
    let project = examples("000");
    assert_eq!(findings(&project, &["--strict"]), Vec::<String>::new());
    // One file is the whole tool, and its name is not the id.
    let tides = shown(&project, "tide_forecast");
    assert!(
        tides["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/.ai/tools/tide_api.yaml"))
    );
}

#[test]
fn manifests_of_all_types_are_read_as_they_are_written() {
    let project = examples("000");
    let text = |name: &str| json!({"name": name, "type": "string", "required": true});
    let number = |name: &str| json!({"name": name, "type": "number", "required": true});
    for (id, expected) in [
        (
            "contact_lookup",
            json!({
                "tool_type": "script", "version": "1.2.0", "description": "Add the company to a mail address",
                "executor": "python_runtime", "config": {"entrypoint": "main.py"}, "parameters": [text("email")],
                "dependencies": ["six>=1.10", "idna>=3.0"],
                "chain": ["contact_lookup", "python_runtime", "subprocess"],
            }),
        ),
        (
            "shout",
            json!({
                "tool_type": "script", "version": "1.0.0", "executor": "python_runtime", "spelling": "embedded",
                "config": {"entrypoint": "shout.py"}, "parameters": [text("text")],
            }),
        ),
        (
            "tide_forecast",
            json!({
                "tool_type": "api", "version": "1.0.0", "description": "Tell the tides at a place",
                "executor": "http_client", "parameters": [number("lat"), number("lon")],
                "config": {
                    "method": "GET",
                    "url": "https://tides.example.com/v1/forecast?lat={lat}&lon={lon}&units=metric",
                    "headers": {"X-API-Key": "${TIDE_API_KEY}"},
                    "response_transform": "$.forecast.daily[0:7]",
                },
                "chain": ["tide_forecast", "http_client"],
            }),
        ),
        (
            "orders_query",
            json!({
                "tool_type": "mcp_tool", "version": "1.0.0", "executor": "orders_mcp",
                "config": {"mcp_tool_name": "run_query"}, "parameters": [text("database_id"), text("statement")],
                "chain": ["orders_query", "orders_mcp", "http_client"],
            }),
        ),
        (
            "forge_mcp",
            json!({
                "tool_type": "mcp_server", "version": "1.0.0", "executor": "subprocess",
                "config": {
                    "transport": "stdio", "command": "npx", "args": ["-y", "@example/server-forge"],
                    "env": {"FORGE_TOKEN": "${FORGE_TOKEN}"}, "startup_timeout": 10,
                },
                "chain": ["forge_mcp", "subprocess"],
            }),
        ),
        (
            "lua_runtime",
            json!({"tool_type": "runtime", "executor": "subprocess", "config": {"command": "lua"}}),
        ),
        (
            "subprocess",
            json!({"tool_type": "primitive", "executor": null, "source": "builtin"}),
        ),
    ] {
        let found = shown(&project, id);
        for (name, value) in expected.as_object().expect("fields") {
            assert_eq!(&found[name], value, "{name} of {id}");
        }
    }
}

#[test]
fn scripts_run_with_the_files_beside_their_entrypoint() {
    let project = examples("000");
    assert_eq!(
        call(&project, "word_tally", &["text=one two three"])["result"],
        json!({"words": 3})
    );
    assert_eq!(
        call(&project, "shout", &["text=ahoy"])["result"],
        json!({"text": "AHOY"})
    );
}

#[test]
fn tools_without_files_become_requests_and_calls() {
    let project = examples("000")
        .variable("TIDE_API_KEY", "k3y-of-the-tides")
        .variable("FORGE_TOKEN", "t0ken-of-the-forge");
    let tides = planned(&project, "tide_forecast", &["lat=1.5", "lon=-3"]);
    let request = &tides["invocation"]["action"];
    assert_eq!(
        (&request["method"], &request["url"], &request["transform"]),
        (
            &json!("GET"),
            &json!("https://tides.example.com/v1/forecast?lat=1.5&lon=-3&units=metric"),
            &json!("$.forecast.daily[0:7]")
        ),
        "{tides}"
    );
    assert_eq!(request["headers"][0], json!(["X-API-Key", "***"]));
    let orders = planned(&project, "orders_query", &["database_id=a", "statement=b"]);
    let action = &orders["invocation"]["action"];
    assert_eq!(
        (&action["server"], &action["tool"], &action["arguments"]),
        (
            &json!("orders_mcp"),
            &json!("run_query"),
            &json!({"database_id": "a", "statement": "b"})
        ),
        "{orders}"
    );
    let forge = planned(&project, "forge_open_request", &["title=Mend it"]);
    let action = &forge["invocation"]["action"];
    assert_eq!(
        (
            &action["transport"]["program"],
            &action["transport"]["arguments"],
            &action["startup_timeout"]
        ),
        (
            &json!("npx"),
            &json!(["-y", "@example/server-forge"]),
            &json!(10.0)
        ),
        "{forge}"
    );
    assert_eq!(forge["invocation"]["variables"], json!(["FORGE_TOKEN"]));
    assert!(!forge.to_string().contains("t0ken"), "{forge}");
}

#[test]
fn each_type_has_its_own_rules_and_messages() {
    let cases = [
        (
            "script: subprocess, {entrypoint: run.sh}",
            "UNEXPECTED_EXECUTOR",
            "Script executor must be a runtime, got: subprocess",
        ),
        (
            "script: bash_runtime, {}",
            "MISSING_REQUIRED_FIELD",
            "Script tools must specify config.entrypoint",
        ),
        (
            "script: bash_runtime, {entrypoint: gone.sh}",
            "MISSING_ENTRYPOINT",
            "Entrypoint 'gone.sh' not found",
        ),
        (
            "script: gone_runtime, {entrypoint: run.sh}",
            "UNKNOWN_EXECUTOR",
            "names executor `gone_runtime`, which does not exist",
        ),
        (
            "api: subprocess, {method: GET, url: 'https://a.example'}",
            "UNEXPECTED_EXECUTOR",
            "API tools must use executor: http_client, got: subprocess",
        ),
        (
            "api: http_client, {url: 'https://a.example'}",
            "MISSING_REQUIRED_FIELD",
            "API tools must specify config.method",
        ),
        (
            "api: http_client, {method: GET}",
            "MISSING_REQUIRED_FIELD",
            "API tools must specify config.url_template or config.url",
        ),
        (
            "api: http_client, {method: FETCH, url: 'https://a.example'}",
            "INVALID_ENUM_VALUE",
            "Invalid HTTP method: FETCH",
        ),
        (
            "api: http_client, {method: GET, url_template: 'https://a.example/{x}'}",
            "UNKNOWN_TEMPLATE_VARIABLE",
            "template variable 'x' is not a parameter",
        ),
        (
            "api: http_client, {method: GET, url: nonsense}",
            "INVALID_URL",
            "invalid URL: relative URL without a base",
        ),
        (
            "mcp_tool: http_client, {mcp_tool_name: a}",
            "UNEXPECTED_EXECUTOR",
            "MCP tools must reference an mcp_server, got: http_client",
        ),
        (
            "mcp_tool: any_server, {}",
            "MISSING_REQUIRED_FIELD",
            "MCP tools must specify config.mcp_tool_name",
        ),
        (
            "mcp_server: bash_runtime, {transport: stdio, command: x}",
            "UNEXPECTED_EXECUTOR",
            "MCP servers must use subprocess or http_client, got: bash_runtime",
        ),
        (
            "mcp_server: subprocess, {}",
            "MISSING_REQUIRED_FIELD",
            "MCP servers must specify config.transport",
        ),
        (
            "mcp_server: subprocess, {transport: stdio}",
            "MISSING_REQUIRED_FIELD",
            "stdio transport requires config.command",
        ),
        (
            "mcp_server: http_client, {transport: sse}",
            "MISSING_REQUIRED_FIELD",
            "sse transport requires config.url",
        ),
        (
            "mcp_server: http_client, {transport: websocket}",
            "MISSING_REQUIRED_FIELD",
            "websocket transport requires config.url",
        ),
        (
            "mcp_server: http_client, {transport: pigeon}",
            "INVALID_ENUM_VALUE",
            "Invalid transport: pigeon",
        ),
        (
            "runtime: bash_runtime, {command: x}",
            "UNEXPECTED_EXECUTOR",
            "Runtimes must use a primitive executor, got: bash_runtime",
        ),
        (
            "runtime: subprocess, {}",
            "MISSING_REQUIRED_FIELD",
            "Runtimes must specify config.command or config.url",
        ),
        (
            "primitive: subprocess, {}",
            "UNEXPECTED_EXECUTOR",
            "Primitives must have executor: null",
        ),
        (
            "knowledge: subprocess, {}",
            "UNEXPECTED_EXECUTOR",
            "Knowledge entries must have executor: null",
        ),
        (
            "api: null, {method: GET, url: 'https://a.example'}",
            "MISSING_REQUIRED_FIELD",
            "Tool type 'api' requires executor field",
        ),
        (
            "telepathy: null, {}",
            "INVALID_ENUM_VALUE",
            "Unknown tool_type: telepathy",
        ),
    ];
    let server = "tool_id: any_server\ntool_type: mcp_server\nversion: \"1.0.0\"\ndescription: d\nexecutor: subprocess\n\
                  config: {transport: stdio, command: x}\n";
    let mut project = TestProject::new().file(".ai/tools/any_server.yaml", server);
    for (at, (case, ..)) in cases.iter().enumerate() {
        let (tool_type, rest) = case.split_once(": ").expect("a type");
        let (executor, config) = rest.split_once(", ").expect("an executor");
        let manifest = format!(
            "tool_id: case_{at}\ntool_type: {tool_type}\nversion: \"1.0.0\"\ndescription: d\nexecutor: {executor}\nconfig: {config}\n"
        );
        project = project
            .file(&format!(".ai/tools/case_{at}/tool.yaml"), manifest)
            .file(&format!(".ai/tools/case_{at}/run.sh"), "true\n");
    }
    let found = findings(&project, &[]);
    for (at, (case, code, message)) in cases.iter().enumerate() {
        let expected = format!("error {code} tools/case_{at}/tool.yaml: ");
        assert!(
            found
                .iter()
                .any(|line| line.starts_with(&expected) && line.contains(message)),
            "{case}: {message} is missing in {found:#?}"
        );
    }
}

#[test]
fn entrypoints_are_checked_in_their_language_and_other_files_are_not() {
    let script = |id: &str, executor: &str, entrypoint: &str| {
        format!(
            "tool_id: {id}\ntool_type: script\nversion: \"1.0.0\"\ndescription: d\nexecutor: {executor}\nconfig: {{entrypoint: {entrypoint}}}\n"
        )
    };
    let project = TestProject::new()
        .file(".ai/tools/py/tool.yaml", script("py", "python_runtime", "main.py"))
        .file(".ai/tools/py/main.py", "def main(:\n")
        .file(".ai/tools/sh/tool.yaml", script("sh", "bash_runtime", "main.sh"))
        .file(".ai/tools/sh/main.sh", "if true; then\n")
        .file(".ai/tools/cob/tool.yaml", script("cob", "cob_runtime", "main.cob"))
        .file(".ai/tools/cob/main.cob", "       IDENTIFICATION DIVISION.\n")
        .file(
            ".ai/tools/cob_runtime.yaml",
            "tool_id: cob_runtime\ntool_type: runtime\nversion: \"1.0.0\"\ndescription: d\nexecutor: subprocess\nconfig: {command: cobc}\n",
        )
        .file(".ai/directives/none.md", "# Nothing\n")
        .file(".ai/knowledge/bare.md", "# No front matter\n");
    assert_eq!(
        findings(&project, &[]),
        [
            "error NO_DIRECTIVE directives/none.md: the file contains no directive",
            "error MISSING_FRONT_MATTER knowledge/bare.md: the file has no YAML front matter",
            "error SYNTAX_ERROR tools/py/main.py: invalid syntax",
            "error SYNTAX_ERROR tools/sh/main.sh: syntax error: unexpected end of file",
        ]
    );
}
