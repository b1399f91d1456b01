//! Permissions: which endpoints directives may call, and local addresses.

use serde_json::{Value, json};

use super::server::{Server, json as in_json, redirect};
use super::{api, failure, result, run};
use crate::harness::{Ran, TestProject, cmd_snapshot};
use crate::mcp_client::McpClient;

const TOOL: &str = "<execute resource=\"tool\" id=\"call\"/>";

/// A directive with these permissions that calls the tool `call`.
fn directive(project: TestProject, permissions: &str) -> TestProject {
    let text = format!(
        "# d\n\n```xml\n<directive name=\"d\" version=\"1.0.0\">\n  <metadata>\n    <description>Calls</description>\n    \
         <permissions>{permissions}</permissions>\n  </metadata>\n  <process>\n    <step name=\"call\">\
         <execute item_type=\"tool\" item_id=\"call\"/></step>\n  </process>\n</directive>\n```\n"
    );
    project.file(".ai/directives/d.md", text)
}

fn project(server: &Server, method: &str, path: &str, permissions: &str) -> TestProject {
    let config = format!("method: {method}\nurl: \"{}\"", server.url(path));
    directive(api(TestProject::new(), "call", &config, ""), permissions).committed()
}

fn as_directive(project: &TestProject) -> Ran {
    project.piton(["tool", "run", "call", "--as", "d", "--format", "json"])
}

#[test]
fn a_directive_has_to_grant_the_endpoint() {
    let server = Server::answering([in_json("1")]);
    let whole = server.url("/users/1");
    let broad = format!("http://127.0.0.1:{}/**", server.port);
    for (method, grant, code) in [
        ("GET", String::new(), 3),
        ("GET", "<read resource=\"api\" endpoint=\"GET /users/1\"/>".to_owned(), 0),
        ("GET", "<read resource=\"api\" endpoint=\"/users/*\"/>".to_owned(), 0),
        ("GET", format!("<read resource=\"api\" endpoint=\"{whole}\"/>"), 0),
        ("GET", format!("<read resource=\"api\" endpoint=\"{broad}\"/>"), 0),
        ("GET", "<read resource=\"api\" endpoint=\"http://127.0.0.1/users/1\"/>".to_owned(), 3),
        ("GET", "<read resource=\"api\" endpoint=\"/users\"/>".to_owned(), 3),
        ("GET", "<write resource=\"api\" endpoint=\"/users/1\"/>".to_owned(), 3),
        ("GET", "<write resource=\"api\" endpoint=\"GET /users/1\"/>".to_owned(), 0),
        ("POST", "<read resource=\"api\" endpoint=\"POST /users/1\"/>".to_owned(), 3),
        ("POST", "<write resource=\"api\" endpoint=\"POST /users/1\"/>".to_owned(), 0),
        ("POST", "<allow endpoint=\"/users/1\"/>".to_owned(), 0),
        ("POST", "<allow>*</allow>".to_owned(), 3),
        (
            "POST",
            "<write resource=\"api\" endpoint=\"/**\"/><deny><write resource=\"api\" endpoint=\"POST /users/**\"/></deny>".to_owned(),
            3,
        ),
    ] {
        let project = project(&server, method, "/users/1", &format!("{TOOL}{grant}"));
        let before = server.asked().len();
        let ran = as_directive(&project);
        assert_eq!(ran.code(), Some(code), "{method} {grant}: {ran}");
        assert_eq!(server.asked().len() - before, usize::from(code == 0), "{method} {grant}");
        let ran = project.piton(["run", "d", "--format", "json"]);
        assert_eq!(ran.code(), Some(code), "{method} {grant}: {ran}");
    }
}

#[test]
fn a_denial_names_the_line_that_allows_it() {
    let server = Server::answering([in_json("1")]);
    let denied = project(&server, "POST", "/users/a%2Ab", TOOL);
    cmd_snapshot!(denied.piton(["tool", "run", "call", "--as", "d"]), @r#"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    error: directive `d` does not allow: call `POST /users/a%2Ab` [PERMISSION_DENIED]
    hint: add <write resource="api" endpoint="POST /users/a%2Ab"/> to the <permissions> of `d`
    "#);
    let line = "<write resource=\"api\" endpoint=\"POST /users/a%2Ab\"/>";
    let allowed = directive(denied, &format!("{TOOL}{line}"));
    let ran = as_directive(&allowed);
    let permissions = &ran.last_json()["permissions"];
    assert_eq!(
        permissions[1],
        json!({"need": line, "granted_by": format!("{line} in `d`"), "enforcement": "broker"}),
        "{ran}"
    );
}

#[test]
fn a_variable_of_a_tool_has_to_be_granted_too() {
    let server = Server::answering([in_json("1")]);
    let config = format!(
        "method: GET\nurl: \"${{BASE}}/users\"\nauth: {{type: bearer, env_var: TOKEN}}\nheaders: {{X-Port: \"{}\"}}",
        server.port
    );
    let project = TestProject::new()
        .variable("TOKEN", "s3cret-token")
        .variable("BASE", &server.url("/v1/"));
    let project = directive(api(project, "call", &config, ""), TOOL);
    let denied = as_directive(&project).last_json();
    let told = denied["suggestion"].as_str().expect("a way out");
    assert_eq!(
        told,
        "add <env vars=\"BASE\"/> <env vars=\"TOKEN\"/> <read resource=\"api\" endpoint=\"GET ${BASE}/users\"/> to the <permissions> of `d`"
    );
    let lines = told
        .trim_start_matches("add ")
        .split(" to the ")
        .next()
        .expect("lines")
        .to_owned();
    let project = directive(project, &format!("{TOOL}{lines}"));
    result(&as_directive(&project));
    let asked = &server.asked()[0];
    assert_eq!(
        (asked.line.as_str(), asked.header("authorization")),
        ("GET /v1/users", Some("Bearer s3cret-token"))
    );
    let other = directive(
        project,
        &format!("{TOOL}<env vars=\"*\"/><read resource=\"api\" endpoint=\"/v1/users\"/>"),
    );
    assert_eq!(
        as_directive(&other).code(),
        Some(3),
        "the tool does not name that host"
    );
}

#[test]
fn redirects_stay_within_the_grants() {
    let server = Server::start(|_, asked, stream| {
        use std::io::Write as _;
        let answer = if asked.line.ends_with("/from") {
            redirect("302 Found", "/to")
        } else {
            in_json("\"there\"")
        };
        let _ = stream.write_all(answer.as_bytes());
    });
    let from = "<read resource=\"api\" endpoint=\"GET /from\"/>";
    let project = project(&server, "GET", "/from", &format!("{TOOL}{from}"));
    let text = failure(&as_directive(&project));
    assert_eq!(
        text,
        "REDIRECT_REFUSED: the server redirects to `GET http://127.0.0.1:PORT/to`, which no directive allows"
    );
    assert_eq!(server.lines(), ["GET /from"]);
    let project = directive(
        project,
        &format!("{TOOL}{from}<read resource=\"api\" endpoint=\"/to\"/>"),
    );
    assert_eq!(result(&as_directive(&project))["body"], json!("there"));
}

#[test]
fn local_addresses_need_the_manifest_and_a_grant() {
    let server = Server::answering([in_json("1")]);
    let refused =
        "ADDRESS_REFUSED: `127.0.0.1` is a local or private address, which is not allowed";
    let grant = format!("{TOOL}<read resource=\"api\" endpoint=\"GET /x\"/>");
    let yes = project(&server, "GET", "/x", &grant);
    let text = yes
        .read(".ai/tools/call.yaml")
        .replace("allow_private: true", "allow_private: false");
    let no = directive(
        TestProject::new().file(".ai/tools/call.yaml", &text),
        &grant,
    );
    // The manifest must allow private addresses, for people and for directives.
    assert_eq!(failure(&run(&no, "call", &[])), refused);
    assert_eq!(failure(&as_directive(&no)), refused);
    assert_eq!(result(&run(&yes, "call", &[]))["body"], json!(1));
    assert_eq!(result(&as_directive(&yes))["body"], json!(1));
    // A grant for every host does not include local addresses.
    let any = directive(
        yes,
        &format!("{TOOL}<read resource=\"api\" endpoint=\"GET *\"/>"),
    );
    assert_eq!(failure(&as_directive(&any)), refused);
    let before = server.asked().len();
    for url in [
        "http://localhost:1/",
        "http://127.1:1/",
        "http://0x7f000001:1/",
        "http://2130706433:1/",
        "http://[::1]:1/",
        "http://[::ffff:127.0.0.1]:1/",
        "http://10.0.0.1:1/",
        "http://169.254.169.254/latest/",
        "http://metadata.google.internal/",
        "http://0.0.0.0:1/",
    ] {
        let manifest = text.replace(&server.url("/x"), url);
        let project = TestProject::new().file(".ai/tools/call.yaml", manifest);
        let ran = run(&project, "call", &[]);
        assert!(
            failure(&ran).starts_with("ADDRESS_REFUSED: "),
            "{url}: {ran}"
        );
    }
    assert_eq!(server.asked().len(), before);
}

#[test]
fn an_agent_reaches_this_machine_only_through_a_directive() {
    let server = Server::answering([in_json("1")]);
    let project = project(
        &server,
        "GET",
        "/x",
        &format!("{TOOL}<read resource=\"api\" endpoint=\"GET /x\"/>"),
    );
    let mut client = McpClient::start(&project);
    client.initialize();
    let root = project.root().display().to_string();
    let call =
        json!({"item_id": "call", "item_type": "tool", "action": "run", "project_path": root});
    let answer = client.call("execute", call)["structuredContent"].clone();
    assert_eq!(
        (&answer["status"], &answer["code"]),
        (&json!("error"), &json!("ADDRESS_REFUSED")),
        "{answer}"
    );
    assert_eq!(server.asked().len(), 0);
    let run =
        json!({"item_id": "d", "item_type": "directive", "action": "run", "project_path": root});
    let answer = client.call("execute", run)["structuredContent"].clone();
    assert_eq!(answer["status"], json!("success"), "{answer}");
    assert_eq!(server.lines(), ["GET /x"]);
    assert_ne!(answer["run_id"], Value::Null);
}

#[test]
fn an_invalid_endpoint_is_found_by_validation() {
    let project = directive(
        TestProject::new(),
        "<read resource=\"api\" endpoint=\"GET users\"/>",
    );
    let report = project.piton(["validate", "--format", "json"]).json();
    let codes: Vec<&Value> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|it| &it["code"])
        .collect();
    assert!(codes.contains(&&json!("INVALID_PATTERN")), "{report:#}");
}
