//! Failures: servers that fail, lie or hang, and parameters that try to inject syntax.

use std::io::Write as _;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::server::{Server, answer, json as in_json, redirect};
use super::{api, failure, result, run};
use crate::harness::TestProject;

fn get(url: &str, more: &str) -> TestProject {
    api(
        TestProject::new(),
        "get",
        &format!("method: GET\nurl: \"{url}\"\n{more}"),
        "",
    )
}

#[test]
fn a_status_from_400_on_is_a_failure() {
    for (status, kind, body, expected) in [
        (
            "401 Unauthorized",
            "application/json",
            r#"{"message": "Bad credentials"}"#,
            r#"401 Unauthorized: {"message": "Bad credentials"}"#,
        ),
        (
            "404 Not Found",
            "text/html",
            "<h1>\n  gone\u{1b}[2J</h1>",
            "404 Not Found: <h1> gone [2J</h1>",
        ),
        (
            "429 Too Many Requests",
            "text/plain",
            "",
            "429 Too Many Requests",
        ),
        (
            "500 Internal Server Error",
            "application/octet-stream",
            "\u{0}\u{1}",
            "500 Internal Server Error",
        ),
        ("599 Odd", "text/plain", "odd", "599: odd"),
    ] {
        let server = Server::answering([answer(status, kind, body)]);
        let project = get(&server.url("/"), "");
        let ran = run(&project, "get", &[]);
        assert_eq!(
            failure(&ran),
            format!("HTTP_STATUS: `127.0.0.1:PORT` answered {expected}"),
            "{ran}"
        );
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert!(ran.last_json()["suggestion"].is_string(), "{ran}");
        assert_eq!(ran.last_json().get("exit_code"), None, "{ran}");
    }
    let server = Server::answering([answer(
        "400 Bad Request",
        "text/plain",
        &"long ".repeat(100_000),
    )]);
    let ran = run(&get(&server.url("/"), ""), "get", &[]);
    assert!(failure(&ran).len() < 400, "{ran}");
}

#[test]
fn requests_that_are_safe_to_repeat_are_retried() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        .to_owned();
    let broken = answer("500 Internal Server Error", "text/plain", "broken");
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_owned();
    let fine = in_json("1");
    for (method, answers, count, succeeds) in [
        (
            "GET",
            vec![busy.clone(), broken.clone(), fine.clone()],
            3,
            true,
        ),
        ("GET", vec![cut.clone(), fine.clone()], 2, true),
        ("DELETE", vec![broken.clone(), fine.clone()], 2, true),
        ("POST", vec![busy.clone(), fine.clone()], 2, true),
        ("POST", vec![broken.clone(), fine.clone()], 1, false),
        ("PATCH", vec![cut.clone(), fine.clone()], 1, false),
        ("GET", vec![broken.clone()], 3, false),
        (
            "GET",
            vec![answer("404 Not Found", "text/plain", ""), fine.clone()],
            1,
            false,
        ),
    ] {
        let server = Server::answering(answers);
        let config = format!("method: {method}\nurl: \"{}\"", server.url("/"));
        let project = api(
            TestProject::new(),
            "call",
            &config.replace("retries: 0", ""),
            "",
        );
        let text = project
            .read(".ai/tools/call.yaml")
            .replace("retries: 0", "retries: 2");
        let project = project.file(".ai/tools/call.yaml", text);
        let ran = run(&project, "call", &[]);
        assert_eq!(
            (server.asked().len(), ran.code() == Some(0)),
            (count, succeeds),
            "{method}: {ran}"
        );
    }
}

#[test]
fn retries_stay_within_the_time_limit() {
    let later = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlater";
    let server = Server::answering([later]);
    let project = get(&server.url("/"), "");
    let text = project
        .read(".ai/tools/get.yaml")
        .replace("retries: 0", "retries: 5");
    let project = project.file(".ai/tools/get.yaml", text);
    assert_eq!(
        failure(&run(&project, "get", &[])),
        "HTTP_STATUS: `127.0.0.1:PORT` answered 429 Too Many Requests: later"
    );
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn an_unreachable_host_is_named() {
    let port = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .port();
    let ran = run(
        &get(&format!("http://127.0.0.1:{port}/?key=x"), ""),
        "get",
        &[],
    );
    let text = failure(&ran);
    assert!(
        text.starts_with("NETWORK_FAILED: cannot reach `127.0.0.1:PORT`: ")
            && text.contains("refused"),
        "{ran}"
    );
    assert!(!text.contains("key=x"), "{ran}");
    let ran = run(&get("http://nowhere.invalid/", ""), "get", &[]);
    assert!(
        failure(&ran).starts_with("NETWORK_FAILED: cannot reach `nowhere.invalid`: "),
        "{ran}"
    );
}

#[test]
fn a_hanging_or_dripping_server_hits_the_time_limit() {
    let silent = Server::start(|_, _, _| thread::sleep(Duration::from_mins(10)));
    let dripping = Server::start(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mute = format!(
        "http://127.0.0.1:{}/",
        mute.local_addr().expect("an address").port()
    );
    for url in [silent.url("/"), dripping.url("/"), mute] {
        let ran = run(&get(&url, "timeout: 1"), "get", &[]);
        assert_eq!(
            failure(&ran),
            "TIMED_OUT: tool `get` took longer than 1 s and was stopped",
            "{url}: {ran}"
        );
    }
}

#[test]
fn an_incomplete_answer_is_an_error() {
    for (raw, expected) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":",
            "NETWORK_FAILED: the answer of `127.0.0.1:PORT` broke off: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
            "NETWORK_FAILED: the answer of `127.0.0.1:PORT` broke off: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "NETWORK_FAILED: the answer of `127.0.0.1:PORT` broke off: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
            "NETWORK_FAILED: the answer of `127.0.0.1:PORT` broke off: ",
        ),
        (
            "nonsense\r\n\r\n",
            "NETWORK_FAILED: the request to `127.0.0.1:PORT` broke off: ",
        ),
        (
            "",
            "NETWORK_FAILED: the request to `127.0.0.1:PORT` broke off: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "NETWORK_FAILED: the request to `127.0.0.1:PORT` broke off: ",
        ),
    ] {
        let server = Server::answering([raw]);
        let ran = run(&get(&server.url("/"), ""), "get", &[]);
        assert!(failure(&ran).starts_with(expected), "{raw:?}: {ran}");
    }
    for (body, reason) in [
        ("{\"a\":", "EOF while parsing"),
        (
            "{\"n\": 123456789012345678901234567890}",
            "more than 64 bits",
        ),
    ] {
        let server = Server::answering([in_json(body)]);
        let ran = run(&get(&server.url("/"), ""), "get", &[]);
        let text = failure(&ran);
        let begins = "BAD_RESPONSE: the answer of `127.0.0.1:PORT` says that it is JSON and cannot be read: ";
        assert!(text.starts_with(begins) && text.contains(reason), "{ran}");
    }
    // If the declared length is too small, the remaining bytes are ignored.
    let server = Server::answering(["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcdef"]);
    assert_eq!(
        result(&run(&get(&server.url("/"), ""), "get", &[]))["body"],
        json!("ab")
    );
}

#[test]
fn an_answer_that_is_too_large_is_not_read() {
    let announced = Server::answering(["HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"]);
    let ran = run(&get(&announced.url("/"), ""), "get", &[]);
    assert_eq!(
        failure(&ran),
        "BAD_RESPONSE: the answer of `127.0.0.1:PORT` has more than 10485760 bytes"
    );
    let endless = Server::start(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while stream
            .write_all(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).as_bytes())
            .is_ok()
        {}
    });
    let ran = run(&get(&endless.url("/"), ""), "get", &[]);
    assert_eq!(
        failure(&ran),
        "BAD_RESPONSE: the answer of `127.0.0.1:PORT` has more than 10485760 bytes"
    );
    let small = Server::answering([answer("200 OK", "text/plain", "12345")]);
    let ran = run(&get(&small.url("/"), "max_size: 4"), "get", &[]);
    assert_eq!(
        failure(&ran),
        "BAD_RESPONSE: the answer of `127.0.0.1:PORT` has more than 4 bytes"
    );
    assert_eq!(
        result(&run(&get(&small.url("/"), "max_size: 5"), "get", &[]))["body"],
        json!("12345")
    );
}

#[test]
fn redirects_are_followed_with_care() {
    let server = Server::start(|_, asked, stream| {
        let answer = match asked.line.split(' ').nth(1).unwrap_or_default() {
            "/loop" => redirect("302 Found", "/loop"),
            "/relative" => redirect("301 Moved Permanently", "end?x=1"),
            "/see" => redirect("303 See Other", "/end"),
            "/kept" => redirect("307 Temporary Redirect", "/end"),
            "/metadata" => redirect("302 Found", "http://169.254.169.254/latest/meta-data/"),
            "/name" => redirect("302 Found", "http://localhost:1/"),
            "/file" => redirect("302 Found", "file:///etc/passwd"),
            "/nowhere" => {
                "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
            }
            _ => in_json("\"arrived\""),
        };
        let _ = stream.write_all(answer.as_bytes());
    });
    let mut project = TestProject::new();
    for path in [
        "loop", "relative", "see", "kept", "metadata", "name", "file", "nowhere",
    ] {
        project = api(
            project,
            path,
            &format!(
                "method: POST\nurl: \"{}\"\nbody: {{a: 1}}",
                server.url(&format!("/{path}"))
            ),
            "",
        );
    }
    let asked_by = |id: &str, expected: &[&str]| {
        let before = server.asked().len();
        assert_eq!(result(&run(&project, id, &[]))["body"], json!("arrived"));
        let asked: Vec<String> = server.asked()[before..]
            .iter()
            .map(|it| format!("{} {}", it.line, it.body))
            .collect();
        assert_eq!(asked, expected, "{id}");
    };
    asked_by("relative", &["POST /relative {\"a\":1}", "GET /end?x=1 "]);
    asked_by("see", &["POST /see {\"a\":1}", "GET /end "]);
    asked_by("kept", &["POST /kept {\"a\":1}", "POST /end {\"a\":1}"]);
    let before = server.asked().len();
    assert_eq!(
        failure(&run(&project, "loop", &[])),
        "REDIRECT_REFUSED: `127.0.0.1:PORT` redirects more than 10 times"
    );
    assert_eq!(server.asked().len() - before, 11);
    for (id, host) in [("metadata", "169.254.169.254"), ("name", "localhost")] {
        let expected = format!(
            "ADDRESS_REFUSED: `{host}` is a local or private address, which is not allowed"
        );
        assert_eq!(failure(&run(&project, id, &[])), expected);
    }
    assert_eq!(
        failure(&run(&project, "file", &[])),
        "ADDRESS_REFUSED: `file` is not a web address"
    );
    // A redirect without a location is the answer.
    assert_eq!(result(&run(&project, "nowhere", &[]))["status"], json!(302));
}

#[test]
fn another_server_gets_no_secrets() {
    let other = Server::answering([in_json("1")]);
    let there = other.url("/there");
    let server = Server::answering([redirect("307 Temporary Redirect", &there)]);
    let config = |more: &str| {
        format!(
            "method: POST\nurl: \"{}\"\nauth: {{type: bearer, env_var: TOKEN}}\nheaders: {{X-Key: \"${{TOKEN}}\", Cookie: \"a=1\", X-Plain: plain}}\n{more}",
            server.url("/here?k=${TOKEN}")
        )
    };
    let project = TestProject::new().variable("TOKEN", "s3cret-token");
    let project = api(project, "open", &config("body: {a: 1}"), "");
    let project = api(project, "closed", &config("body: {a: \"${TOKEN}\"}"), "");
    result(&run(&project, "open", &[]));
    let asked = &other.asked()[0];
    assert_eq!(asked.line, "POST /there");
    assert_eq!(asked.header("x-plain"), Some("plain"));
    assert!(!format!("{asked:?}").contains("s3cret"), "{asked:?}");
    assert_eq!(asked.header("cookie"), None);
    assert_eq!(
        server.asked()[0].header("authorization"),
        Some("Bearer s3cret-token")
    );
    assert_eq!(
        failure(&run(&project, "closed", &[])),
        "REDIRECT_REFUSED: `127.0.0.1:PORT` leads to `127.0.0.1:PORT`, and the body holds a secret"
    );
    assert_eq!(other.asked().len(), 1);
}

#[test]
fn a_parameter_is_a_value_and_nothing_else() {
    let server = Server::answering([in_json("1")]);
    let config = format!(
        "method: GET\nurl: \"{}\"\nheaders: {{X-Name: \"n {{name}}\"}}",
        server.url("/a/{id}/b?q={q}")
    );
    let parameters = "- {name: id, type: string, required: true}\n- {name: q, type: string, default: \"\"}\n- {name: name, type: string, default: x}";
    let project = api(TestProject::new(), "get", &config, parameters);
    for (id, sent) in [
        ("../admin", "..%2Fadmin"),
        ("x?y=1#z", "x%3Fy%3D1%23z"),
        ("@evil.example", "%40evil.example"),
        ("a\r\nHost: evil", "a%0D%0AHost%3A%20evil"),
        ("%2e%2e", "%252e%252e"),
        ("\\..\\", "%5C..%5C"),
        ("...", "..."),
        ("ü\u{202e}", "%C3%BC%E2%80%AE"),
    ] {
        let before = server.asked().len();
        result(&run(
            &project,
            "get",
            &[&format!("id={id}"), "q=1&admin=true#"],
        ));
        assert_eq!(
            server.lines()[before..],
            [format!("GET /a/{sent}/b?q=1%26admin%3Dtrue%23")],
            "{id}"
        );
    }
    let before = server.asked().len();
    for id in ["..", ".", ""] {
        let ran = run(&project, "get", &[&format!("id={id}")]);
        let expected = "INVALID_PARAMETER: tool `get` cannot be called like this: parameter `id` would lead to another address than `config.url` says";
        assert_eq!(
            (failure(&ran).as_str(), ran.code()),
            (expected, Some(2)),
            "{id}: {ran}"
        );
    }
    for name in ["x\r\nX-Admin: 1", "x\nX-Admin: 1", "x\0", "x\u{7f}"] {
        let parameters = json!({"id": "1", "name": name}).to_string();
        let project = TestProject::new()
            .file("p.json", parameters)
            .file(".ai/tools/get.yaml", project.read(".ai/tools/get.yaml"));
        let ran = project.piton([
            "tool", "run", "get", "--params", "p.json", "--format", "json",
        ]);
        let expected = "INVALID_PARAMETER: tool `get` cannot be called like this: parameter `name` holds a line break or another control character, which no header can hold";
        assert_eq!(
            (failure(&ran).as_str(), ran.code()),
            (expected, Some(2)),
            "{name:?}: {ran}"
        );
    }
    assert_eq!(server.asked().len(), before);
}

#[test]
fn secrets_do_not_leak_into_output() {
    // The server echoes everything it receives, as debuggers and careless servers do.
    let server = Server::start(|number, asked, stream| {
        let fields: Vec<String> = asked
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let told =
            serde_json::to_string(&[&asked.line, &fields.join("\n"), &asked.body]).expect("a text");
        let status = if number % 2 == 0 {
            "200 OK"
        } else {
            "418 I'm a teapot"
        };
        let _ = stream.write_all(answer(status, "application/json", &told).as_bytes());
    });
    let config = format!(
        "method: POST\nurl: \"{}\"\nauth: {{type: basic, username: me, env_var: SECRET}}\nheaders: {{X-Key: \"${{SECRET}}\"}}\nbody: {{key: \"${{SECRET}}\"}}",
        server.url("/${SECRET}?k=${SECRET}")
    );
    let secret = "pa ss/wörd+\"1";
    let project = api(
        TestProject::new().variable("SECRET", secret),
        "tell",
        &config,
        "",
    )
    .committed();
    let ok = run(&project, "tell", &[]);
    let bad = run(&project, "tell", &[]);
    assert_eq!((ok.code(), bad.code()), (Some(0), Some(1)), "{ok}{bad}");
    assert_eq!(
        server.asked()[0].header("authorization"),
        Some("Basic bWU6cGEgc3Mvd8O2cmQrIjE=")
    );
    let human = project.piton(["tool", "run", "tell"]);
    let dry = project.piton(["tool", "run", "tell", "--dry-run", "--format", "json"]);
    let journal = project.piton(["log", "--format", "json"]);
    let everything =
        project.bash("cat $(find .git/piton .ai/outputs -type f); git log --all --format=%B");
    assert!(everything.contains("***"), "there is something to look at");
    for form in [
        secret,
        "pa%20ss",
        "w%C3%B6rd",
        "bWU6cGEgc3Mvd8O2cmQrIjE=",
        "pa ss",
    ] {
        for text in [
            &ok.to_string(),
            &bad.to_string(),
            &human.to_string(),
            &dry.to_string(),
            &journal.to_string(),
            &everything,
        ] {
            assert!(!text.contains(form), "{form}: {text}");
        }
    }
}
