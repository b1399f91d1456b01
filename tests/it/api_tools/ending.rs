//! Interrupted calls: by Ctrl-C, and by killing piton.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::api;
use super::server::Server;
use crate::harness::TestProject;
use crate::meta::once;
use crate::tool_run::until;

/// A server that accepts requests and never answers.
fn silent() -> Server {
    Server::start(|_, _, _| thread::sleep(Duration::from_mins(10)))
}

#[test]
fn ctrl_c_ends_a_call() {
    let server = silent();
    let config = format!("method: GET\nurl: \"{}\"", server.url("/"));
    let project = api(TestProject::new(), "slow", &config, "").committed();
    let piton = project.started(["tool", "run", "slow", "--format", "json"]);
    until("the server is asked", || !server.asked().is_empty());
    kill_process(Pid::from_child(&piton), Signal::INT).expect("a process to interrupt");
    let ran = project.ran(piton.wait_with_output().expect("piton ends"));
    assert_eq!(ran.code(), Some(130), "{ran}");
    assert_eq!(
        (&ran.last_json()["status"], &ran.last_json()["code"]),
        (&json!("cancelled"), &json!("INTERRUPTED")),
        "{ran}"
    );
    project.assert_clean();
}

#[test]
fn an_interrupted_call_waits_for_a_persons_decision() {
    let server = silent();
    let config = format!("method: POST\nurl: \"{}\"", server.url("/orders"));
    let project =
        api(TestProject::new(), "order", &config, "").tool("after", "", "echo after > after.txt");
    let text = "# buy\n\n```xml\n<directive name=\"buy\" version=\"1.0.0\">\n  <metadata>\n    <description>Buys</description>\n    \
        <git_checkpoint mode=\"auto\"/>\n    <permissions><execute resource=\"tool\" id=\"*\"/>\
        <write resource=\"api\" endpoint=\"POST /orders\"/><write resource=\"filesystem\" path=\"**\"/></permissions>\n  </metadata>\n  <process>\n    \
        <step name=\"order\"><execute item_type=\"tool\" item_id=\"order\"/></step>\n    \
        <step name=\"after\"><execute item_type=\"tool\" item_id=\"after\"/></step>\n  </process>\n</directive>\n```\n";
    let project = project.file(".ai/directives/buy.md", text).committed();
    let mut piton = project.started(["run", "buy"]);
    until("the server is asked", || !server.asked().is_empty());
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    for _ in 0..2 {
        let ran = project.piton(["resume"]);
        assert_eq!(ran.code(), Some(4), "{ran}");
        for word in [
            "it is unknown what the other side has done",
            "--retry",
            "--result",
            "--failed",
        ] {
            assert!(ran.stderr().contains(word), "{word}: {ran}");
        }
    }
    let status = project.piton(["status", "--format", "json"]).json();
    assert_eq!(
        status["waiting"]["wait"]["for"], "indeterminate",
        "{status:#}"
    );
    assert_eq!(server.asked().len(), 1, "nothing is ordered twice");
    let ran = project.piton(["resume", "--result", "{\"status\": 201}"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        (server.asked().len(), project.read("after.txt").as_str()),
        (1, "after\n")
    );
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn an_interrupted_call_inside_a_meta_tool_waits_for_a_persons_decision() {
    let server = silent();
    let config = format!("method: POST\nurl: \"{}\"", server.url("/orders"));
    let project =
        api(TestProject::new(), "order", &config, "").tool("note", "", "echo noted > note.txt");
    let project = once(
        "shop",
        "note, order",
        "[{ tool: 'note' }, { tool: 'order' }]",
    )(project);
    let text = "# buy\n\n```xml\n<directive name=\"buy\" version=\"1.0.0\">\n  <metadata>\n    <description>Buys</description>\n    \
        <git_checkpoint mode=\"auto\"/>\n    <permissions><execute resource=\"tool\" id=\"*\"/>\
        <write resource=\"api\" endpoint=\"POST /orders\"/><write resource=\"filesystem\" path=\"**\"/></permissions>\n  </metadata>\n  <process>\n    \
        <step name=\"shop\"><execute item_type=\"tool\" item_id=\"shop\"/></step>\n  </process>\n</directive>\n```\n";
    let project = project.file(".ai/directives/buy.md", text).committed();
    let mut piton = project.started(["run", "buy"]);
    until("the server is asked", || !server.asked().is_empty());
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(
        ran.stderr()
            .contains("it is unknown what the other side has done"),
        "{ran}"
    );
    let ran = project.piton(["resume", "--result", "{}"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        (server.asked().len(), project.read("note.txt").as_str()),
        (1, "noted\n"),
        "nothing is ordered twice"
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

/// A directive that places an order and then writes a file, and a second directive that runs when
/// the order fails.
fn shop(server: &Server, method: &str, more: &str) -> TestProject {
    let config = format!(
        "method: {method}\nurl: \"{}\"\ntimeout: 2",
        server.url("/orders")
    );
    let project = api(TestProject::new(), "order", &config, "");
    let project = project.tool("after", "", "echo after > after.txt").tool(
        "tell",
        "",
        "echo told >> told.txt",
    );
    let text = |name: &str, metadata: &str, steps: &str| {
        format!(
            "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata><description>Buys</description>\
             <git_checkpoint mode=\"auto\"/>{metadata}<permissions><execute resource=\"tool\" id=\"*\"/>\
             <execute resource=\"directive\" id=\"*\"/><write resource=\"api\" endpoint=\"{method} /orders\"/>\
             <read resource=\"api\" endpoint=\"{method} /orders\"/>\
             <write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\n<process>\n{steps}</process>\n</directive>\n```\n"
        )
    };
    let step = |name: &str| {
        format!("<step name=\"{name}\"><execute item_type=\"tool\" item_id=\"{name}\"/></step>\n")
    };
    project
        .file(
            ".ai/directives/buy.md",
            text("buy", more, &(step("order") + &step("after"))),
        )
        .file(".ai/directives/alarm.md", text("alarm", "", &step("tell")))
        .committed()
}

/// Runs the directive, which must fail with this code; returns the run id.
fn unanswered(project: &TestProject, code: &str) -> String {
    let ran = project.piton(["run", "buy", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["error"]["code"]),
        (Some(1), &json!(code)),
        "{ran}"
    );
    ran.last_json()["run_id"]
        .as_str()
        .expect("a run")
        .to_owned()
}

/// Checks that a plain `resume` changes nothing and names the three ways to continue.
fn assert_not_repeated(project: &TestProject, server: &Server, run: &str) {
    let calls = server.asked().len();
    for _ in 0..2 {
        let ran = project.piton(["resume", run, "--format", "json"]);
        assert_eq!(
            (ran.code(), &ran.json()["error"]["code"]),
            (Some(2), &json!("INDETERMINATE")),
            "{ran}"
        );
        let ran = project.piton(["resume", run]);
        for word in [
            "got no answer, so the call may have taken effect",
            "--retry",
            "--result",
            "--skip",
        ] {
            assert!(ran.stderr().contains(word), "{word}: {ran}");
        }
    }
    assert_eq!(server.asked().len(), calls, "nothing is ordered twice");
}

#[test]
fn an_order_without_an_answer_is_not_repeated_by_a_plain_resume() {
    for (code, hangs) in [("TIMED_OUT", true), ("NO_ANSWER", false)] {
        let server = Server::start(move |number, _, stream| match number {
            0 if hangs => thread::sleep(Duration::from_mins(10)),
            0 => {}
            _ => std::io::Write::write_all(stream, super::server::json("{}").as_bytes())
                .expect("an answer"),
        });
        let hooks =
            "<hooks><hook><when>phase == 'error'</when><directive>alarm</directive></hook></hooks>";
        let project = shop(&server, "POST", hooks);
        let run = unanswered(&project, code);
        assert_eq!(project.read("told.txt"), "told\n");
        assert_not_repeated(&project, &server, &run);
        let ran = project.piton(["resume", &run, "--retry"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(
            (server.asked().len(), project.read("after.txt").as_str()),
            (2, "after\n")
        );
        project.assert_clean();
        assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    }
}

#[test]
fn an_order_that_was_interrupted_is_not_repeated_by_a_plain_resume() {
    for (answer, status) in [
        (vec!["--result", "{\"status\": 201}"], "succeeded"),
        (vec!["--skip"], "skipped"),
    ] {
        let server = silent();
        let project = shop(&server, "POST", "");
        let piton = project.started(["run", "buy", "--format", "json"]);
        until("the server is asked", || !server.asked().is_empty());
        kill_process(Pid::from_child(&piton), Signal::INT).expect("a process to interrupt");
        let ran = project.ran(piton.wait_with_output().expect("piton ends"));
        assert_eq!(ran.code(), Some(130), "{ran}");
        let run = ran.last_json()["run_id"]
            .as_str()
            .expect("a run")
            .to_owned();
        assert_not_repeated(&project, &server, &run);
        let ran = project.piton(
            ["resume", &run, "--format", "json"]
                .into_iter()
                .chain(answer),
        );
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(ran.last_json()["steps"][1]["status"], status, "{ran}");
        assert_eq!(
            (server.asked().len(), project.read("after.txt").as_str()),
            (1, "after\n")
        );
        project.assert_clean();
    }
}

#[test]
fn a_question_without_an_answer_is_asked_again_by_a_plain_resume() {
    let server = Server::start(|number, _, stream| {
        if number > 0 {
            std::io::Write::write_all(stream, super::server::json("{}").as_bytes())
                .expect("an answer");
        }
    });
    let project = shop(&server, "GET", "");
    let run = unanswered(&project, "NETWORK_FAILED");
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        (server.asked().len(), project.read("after.txt").as_str()),
        (2, "after\n")
    );
}
