//! Tools of type `api`: the real binary against real loopback servers that send raw bytes.

mod ending;
mod hostile;
mod permission;
pub(crate) mod secure;
pub(crate) mod server;

use serde_json::{Value, json};

use crate::harness::{Ran, TestProject, cmd_snapshot};
use server::{Server, answer};

/// Writes a tool that calls a local server: an id, config lines and parameter lines.
fn api(project: TestProject, id: &str, config: &str, parameters: &str) -> TestProject {
    let indented = |text: &str| {
        text.lines()
            .flat_map(|line| ["  ", line, "\n"])
            .collect::<String>()
    };
    let manifest = format!(
        "tool_id: {id}\ntool_type: api\nversion: \"1.0.0\"\ndescription: The tool {id}\nexecutor: http_client\n\
         config:\n  allow_private: true\n  retries: 0\n{}parameters:\n{}",
        indented(config),
        indented(if parameters.is_empty() {
            "[]"
        } else {
            parameters
        })
    );
    project.file(&format!(".ai/tools/{id}.yaml"), manifest)
}

fn run(project: &TestProject, id: &str, parameters: &[&str]) -> Ran {
    let given = parameters.iter().flat_map(|word| ["--param", word]);
    project.piton(
        ["tool", "run", id, "--format", "json"]
            .into_iter()
            .chain(given),
    )
}

/// The result of a successful call.
fn result(ran: &Ran) -> Value {
    let last = ran.last_json();
    assert_eq!(
        (ran.code(), &last["status"]),
        (Some(0), &json!("success")),
        "{ran}"
    );
    last["result"].clone()
}

/// The failure of a call as `CODE: message`, with ports masked.
fn failure(ran: &Ran) -> String {
    let last = ran.last_json();
    assert_ne!(ran.code(), Some(0), "{ran}");
    let text = format!(
        "{}: {}",
        last["code"].as_str().expect("a code"),
        last["message"].as_str().expect("a message")
    );
    regex::Regex::new(r"(127\.0\.0\.1|localhost):\d+")
        .expect("a pattern")
        .replace_all(&text, "$1:PORT")
        .into_owned()
}

#[test]
fn each_method_sends_its_parameters() {
    let server = Server::answering([server::json(r#"{"done": true}"#)]);
    let parameters = "- {name: id, type: string, required: true}\n- {name: count, type: integer}\n\
        - {name: tags, type: array}\n- {name: deep, type: object}";
    let mut project = TestProject::new();
    for method in ["GET", "DELETE", "HEAD", "OPTIONS", "POST", "PUT", "PATCH"] {
        let config = format!(
            "method: {method}\nurl: \"{}\"",
            server.url("/items/{id}?fixed=1")
        );
        project = api(project, &method.to_lowercase(), &config, parameters);
    }
    for id in ["get", "delete", "head", "options", "post", "put", "patch"] {
        let ran = run(
            &project,
            id,
            &[
                "id=a b/c",
                "count=3",
                "tags=[\"x\",\"y z\"]",
                "deep={\"k\":[1,null]}",
            ],
        );
        let expected = if id == "head" {
            Value::Null
        } else {
            json!({"done": true})
        };
        assert_eq!(
            (&result(&ran)["status"], &result(&ran)["body"]),
            (&json!(200), &expected),
            "{id}: {ran}"
        );
        assert_eq!(ran.last_json()["checkpoint"], Value::Null, "{ran}");
    }
    let query =
        "/items/a%20b%2Fc?fixed=1&count=3&tags=x&tags=y%20z&deep=%7B%22k%22%3A%5B1%2Cnull%5D%7D";
    let plain = "/items/a%20b%2Fc?fixed=1";
    let body = r#"{"count":3,"tags":["x","y z"],"deep":{"k":[1,null]}}"#;
    let asked: Vec<(String, Option<String>, String)> = server
        .asked()
        .into_iter()
        .map(|it| {
            (
                it.line.clone(),
                it.header("content-type").map(str::to_owned),
                it.body.clone(),
            )
        })
        .collect();
    let in_query = |method: &str| (format!("{method} {query}"), None, String::new());
    let in_body = |method: &str| {
        (
            format!("{method} {plain}"),
            Some("application/json".to_owned()),
            body.to_owned(),
        )
    };
    assert_eq!(
        asked,
        [
            in_query("GET"),
            in_query("DELETE"),
            in_query("HEAD"),
            in_query("OPTIONS"),
            in_body("POST"),
            in_body("PUT"),
            in_body("PATCH"),
        ]
    );
}

#[test]
fn the_body_follows_the_manifest() {
    let server = Server::answering([server::json("{}")]);
    let url = format!("method: POST\nurl: \"{}\"\n", server.url("/x"));
    let parameters = "- {name: text, type: string}\n- {name: number, type: number}\n- {name: list, type: array}\n- {name: gone, type: string}";
    let mut project = TestProject::new().variable("TOKEN", "s3cret-value");
    for (id, config) in [
        (
            "mapping",
            "body: {a: \"{text}\", b: [\"{number}\", \"{list}\", \"<{text}>\"], c: {d: \"{gone}\", e: 5}, f: \"{gone}!\"}",
        ),
        (
            "nested",
            "body: {a: \"{text}\", b: [\"{number}\", \"{list}\", \"<{text}>\"], c: {d: \"{gone}\", e: 5}}",
        ),
        ("payload", "payload: {only: \"{text}\"}"),
        (
            "template",
            "body: '{\"q\": \"{text}\", \"n\": {number}, \"l\": {list}, \"t\": {text}}'",
        ),
        (
            "plain",
            "body: \"say {text} {number}\"\nheaders: {Content-Type: text/plain}",
        ),
        (
            "form",
            "body: {a: \"{text}\", b: \"{list}\"}\nheaders: {Content-Type: application/x-www-form-urlencoded}",
        ),
        (
            "form_text",
            "body: \"a={text}&b=2\"\nheaders: {content-type: application/x-www-form-urlencoded}",
        ),
        ("whole", "body: \"{list}\""),
    ] {
        project = api(project, id, &format!("{url}{config}"), parameters);
    }
    let given = ["text=\"&b=1, \\\"", "number=1.5", "list=[1,\"ü\"]"];
    let sent = |id: &str| {
        let ran = run(&project, id, &given);
        result(&ran);
        let asked = server.asked().pop().expect("a request");
        (
            asked.header("content-type").unwrap_or_default().to_owned(),
            asked.body,
        )
    };
    let as_json = |text: &str| ("application/json".to_owned(), text.to_owned());
    assert_eq!(
        failure(&run(&project, "mapping", &given)),
        "INVALID_TEMPLATE: `{gone}` in `config.body.f` is a parameter that was not given"
    );
    assert_eq!(
        sent("nested"),
        as_json(r#"{"a":"\"&b=1, \\\"","b":[1.5,[1,"ü"],"<\"&b=1, \\\">"],"c":{"e":5}}"#)
    );
    assert_eq!(sent("payload"), as_json(r#"{"only":"\"&b=1, \\\""}"#));
    assert_eq!(
        sent("template"),
        as_json(r#"{"q": "\"&b=1, \\\"", "n": 1.5, "l": [1,"ü"], "t": "\"&b=1, \\\""}"#)
    );
    assert_eq!(
        sent("plain"),
        ("text/plain".to_owned(), "say \"&b=1, \\\" 1.5".to_owned())
    );
    let form = "application/x-www-form-urlencoded".to_owned();
    assert_eq!(
        sent("form"),
        (
            form.clone(),
            "a=%22%26b%3D1%2C%20%5C%22&b=1&b=%C3%BC".to_owned()
        )
    );
    assert_eq!(
        sent("form_text"),
        (form, "a=%22%26b%3D1%2C%20%5C%22&b=2".to_owned())
    );
    assert_eq!(sent("whole"), as_json(r#"[1,"ü"]"#));
}

#[test]
fn the_example_of_the_design_takes_a_payload_and_a_timeout() {
    let server = Server::answering([server::json("{}")]);
    let manifest = format!(
        "tool_id: api_call\nexecutor: http_client\nconfig:\n  method: POST\n  url: \"{}\"\n  allow_private: true\n  headers: {{Content-Type: application/json}}\n\
         inputs:\n  type: object\n  properties:\n    payload: {{type: object}}\n    timeout: {{type: integer, default: 30}}\n  required: [payload]\n\
         outputs:\n  type: object\n  properties:\n    status: {{type: integer}}\n    body: {{}}\n",
        server.url("/data")
    );
    let project = TestProject::new().file(".ai/tools/api_call.yaml", manifest);
    result(&run(&project, "api_call", &["payload={\"a\":1}"]));
    result(&run(
        &project,
        "api_call",
        &["payload={\"a\":2}", "timeout=5"],
    ));
    let bodies: Vec<String> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies, [r#"{"a":1}"#, r#"{"a":2}"#]);
    let plan = project.piton([
        "tool",
        "run",
        "api_call",
        "--param",
        "payload={}",
        "--param",
        "timeout=5",
        "--dry-run",
        "--format",
        "json",
    ]);
    assert_eq!(plan.json()["invocation"]["timeout"], json!(5.0), "{plan}");
}

#[test]
fn a_query_comes_from_a_mapping_as_well() {
    let server = Server::answering([server::json("{}")]);
    let config = format!(
        "method: GET\nurl: \"{}\"\nquery: {{q: \"{{text}} & more\", page: 2, tag: \"{{tags}}\", none: \"{{gone}}\", both: [a, \"{{text}}\"]}}",
        server.url("/search")
    );
    let parameters =
        "- {name: text, type: string}\n- {name: tags, type: array}\n- {name: gone, type: string}";
    let project = api(TestProject::new(), "search", &config, parameters);
    result(&run(
        &project,
        "search",
        &["text=a&admin=1#x", "tags=[1,2]"],
    ));
    assert_eq!(
        server.lines(),
        [
            "GET /search?q=a%26admin%3D1%23x%20%26%20more&page=2&tag=1&tag=2&both=a&both=a%26admin%3D1%23x"
        ]
    );
}

#[test]
fn an_answer_is_parsed_by_its_content_type() {
    // `{"packed": true}` compressed with `gzip`.
    const PACKED: [u8; 36] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 42, 72, 76, 206, 78, 77, 81, 178, 82, 40, 41, 42,
        77, 173, 5, 0, 185, 208, 187, 115, 16, 0, 0, 0,
    ];
    let raw = |head: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let cases = [
        (raw("Content-Type: application/problem+json; charset=utf-8\r\n", b" {\"a\": [1, 2.50]}"), json!({"a": [1, 2.5]})),
        (raw("Content-Type: text/plain\r\n", b"{\"a\": 1}"), json!({"a": 1})),
        (raw("Content-Type: text/plain\r\n", b"[not JSON"), json!("[not JSON")),
        (raw("Content-Type: text/plain\r\n", b"12"), json!("12")),
        (raw("", "ü".as_bytes()), json!("ü")),
        (raw("Content-Type: text/html; charset=ISO-8859-1\r\n", b"caf\xe9 \x80"), json!("café €")),
        (raw("Content-Type: text/plain; charset=\"shift_jis\"\r\n", b"\x8a\xbf\x8e\x9a"), json!("漢字")),
        (raw("Content-Type: text/plain\r\n", b"\xff\xfea\0b\0"), json!("ab")),
        (
            raw("Content-Type: image/png\r\n", b"\x89PNG\r\n\x1a\n\0"),
            json!({"base64": "iVBORw0KGgoA", "content_type": "image/png", "bytes": 9}),
        ),
        (raw("Content-Type: application/json\r\n", b""), Value::Null),
        (raw("Content-Type: application/json\r\n", b"\r\n"), Value::Null),
        (raw("Content-Type: application/json\r\nContent-Encoding: gzip\r\n", &PACKED), json!({"packed": true})),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n".to_vec(), json!({"a": 1})),
        (b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_vec(), Value::Null),
        (b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n".to_vec(), Value::Null),
    ];
    let server = Server::answering(cases.iter().map(|(answer, _)| answer.clone()));
    let project = api(
        TestProject::new(),
        "look",
        &format!("method: GET\nurl: \"{}\"", server.url("/")),
        "",
    );
    for (answer, expected) in cases {
        let ran = run(&project, "look", &[]);
        assert_eq!(
            result(&ran)["body"],
            expected,
            "{}\n{ran}",
            String::from_utf8_lossy(&answer)
        );
    }
    let several = "HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: a=1, x\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let server = Server::answering([several]);
    let project = api(
        TestProject::new(),
        "look",
        &format!("method: GET\nurl: \"{}\"", server.url("/")),
        "",
    );
    assert_eq!(
        result(&run(&project, "look", &[]))["headers"],
        json!({"x-a": "1, 2", "set-cookie": "a=1, x\nb=2", "content-length": "0", "connection": "close"})
    );
}

#[test]
fn a_transform_picks_the_result() {
    let server = Server::answering([server::json(
        r#"{"days": [{"t": 1}, {"t": 2}], "name": "x", "nothing": null}"#,
    )]);
    let mut project = TestProject::new();
    for (id, path) in [
        ("one", "$.name"),
        ("list", "$.days"),
        ("several", "$.days[*].t"),
        ("nothing", "$.nothing"),
        ("none", "$.hours"),
    ] {
        let config = format!(
            "method: GET\nurl: \"{}\"\nresponse_transform: \"{path}\"",
            server.url("/")
        );
        project = api(project, id, &config, "");
    }
    assert_eq!(result(&run(&project, "one", &[])), json!("x"));
    assert_eq!(
        result(&run(&project, "list", &[])),
        json!([{"t": 1}, {"t": 2}])
    );
    assert_eq!(result(&run(&project, "several", &[])), json!([1, 2]));
    assert_eq!(result(&run(&project, "nothing", &[])), Value::Null);
    assert_eq!(
        failure(&run(&project, "none", &[])),
        "TRANSFORM_FAILED: `$.hours` finds nothing in the answer of `127.0.0.1:PORT`"
    );
    let server = Server::answering([answer("200 OK", "text/html", "<p>hello")]);
    let config = format!(
        "method: GET\nurl: \"{}\"\nresponse_transform: \"$.a\"",
        server.url("/")
    );
    let project = api(TestProject::new(), "page", &config, "");
    assert_eq!(
        failure(&run(&project, "page", &[])),
        "TRANSFORM_FAILED: `$.a` finds nothing: the answer of `127.0.0.1:PORT` is not JSON"
    );
}

#[test]
fn people_see_the_result_and_what_would_be_sent() {
    let server = Server::answering([server::json(r#"{"a": 1}"#)]);
    let config = format!(
        "method: POST\nurl: \"{}\"\nheaders: {{X-Key: \"k ${{TOKEN}}\"}}\nauth: {{type: bearer, env_var: TOKEN}}\nbody: {{name: \"{{name}}\", key: \"${{TOKEN}}\"}}\nresponse_transform: \"$.a\"",
        server.url("/items/{id}?key=${TOKEN}")
    );
    let parameters = "- {name: id, type: integer, required: true}\n- {name: name, type: string}";
    let project = api(
        TestProject::new().variable("TOKEN", "s3cret value"),
        "add",
        &config,
        parameters,
    )
    .committed();
    cmd_snapshot!(project.piton(["tool", "run", "add", "-p", "id=1", "-p", "name=x"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    1
    ----- stderr -----
    warning: not signed: add (`piton sign add`)
    ");
    let dry = project.piton([
        "tool",
        "run",
        "add",
        "-p",
        "id=1",
        "-p",
        "name=x",
        "--dry-run",
    ]);
    let text = dry.to_string().replace(&server.port.to_string(), "PORT");
    insta::with_settings!({ filters => dry.filters(), omit_expression => true }, {
        insta::assert_snapshot!(text, @r#"
        success: true
        exit_code: 0
        ----- stdout -----
        chain: add@1.0.0 → http_client@1.0.0
        chain.add: project, .ai/tools/add.yaml, unsigned
        chain.http_client: built in
        parameters.id: 1  # parameter id
        parameters.name: "x"  # parameter name
        action.method: POST  # add, .ai/tools/add.yaml:9
        action.url: http://127.0.0.1:PORT/items/1?key=***  # add, .ai/tools/add.yaml:10
        action.headers.X-Key: k ***  # add, .ai/tools/add.yaml:11
        action.headers.Authorization: ***  # environment variable TOKEN
        action.headers.content-type: application/json
        action.headers.accept: application/json, */*;q=0.5
        action.body: {"name":"x","key":"***"}  # add, .ai/tools/add.yaml:13
        action.transform: $.a  # add, .ai/tools/add.yaml:14
        action.retries: 0  # add, .ai/tools/add.yaml:8
        action.max_size: 10485760  # default
        action.allow_private: true  # add, .ai/tools/add.yaml:7
        action.reach: anywhere
        timeout: [TIME]  # default
        isolation: trusted  # default
        variables: TOKEN
        allowed: <execute resource="tool" id="add"/>  # the person at the terminal, enforced: broker
        allowed: <env vars="TOKEN"/>  # the person at the terminal, enforced: broker
        allowed: <write resource="api" endpoint="POST /items/1"/>  # the person at the terminal, enforced: broker
        ----- stderr -----
        "#);
    });
    assert!(!dry.to_string().contains("s3cret"), "{dry}");
    assert_eq!(server.lines(), ["POST /items/1?key=s3cret%20value"]);
    project.assert_clean();
}
