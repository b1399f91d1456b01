//! The client of the MCP server is an agent: it cannot widen what it was given, and it cannot decide
//! for the person.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

/// A directive that permits one tool.
const NARROW: &str = "# narrow\n\n```xml\n<directive name=\"narrow\" version=\"1.0.0\">\n<metadata>\n\
    <description>Reads</description>\n<permissions>\n<execute resource=\"tool\" id=\"greet\"/>\n</permissions>\n\
    </metadata>\n<process>\n<step name=\"a\"><execute item_type=\"tool\" item_id=\"greet\"/></step>\n\
    </process>\n</directive>\n```\n";

fn project() -> TestProject {
    TestProject::new()
        .file("README.md", "one\n")
        .file(".ai/directives/narrow.md", NARROW)
        .directive("wide", ["write"])
        .tool(
            "greet",
            "mutates_state: false",
            "echo '{\"said\": \"hello\"}'",
        )
        .tool("write", "mutates_state: true", "echo more >> README.md")
        .committed()
}

/// Calls `execute` to run an item and answers each question with the next choice.
fn run_answered(
    client: &mut McpClient,
    era: Era,
    kind: &str,
    id: &str,
    choices: &[&str],
) -> (Value, Vec<String>) {
    let answer = |word: &str| json!({"action": "accept", "content": {"decision": word}});
    let arguments = json!({"item_type": kind, "item_id": id});
    if era == Era::Sessions {
        let before = client.asked.len();
        client.answers.extend(choices.iter().map(|it| answer(it)));
        let result = client.call("execute", arguments);
        let asked = client.asked[before..].iter();
        let asked = asked.map(|it| it["message"].as_str().expect("a message").to_owned());
        return (result["structuredContent"].clone(), asked.collect());
    }
    let mut asked = Vec::new();
    let mut result = client.call("execute", arguments.clone());
    for word in choices {
        let question = &result["inputRequests"]["decision"];
        assert!(question.is_object(), "{result}");
        asked.push(
            question["params"]["message"]
                .as_str()
                .expect("a message")
                .to_owned(),
        );
        result = client.request(
            "tools/call",
            json!({"name": "execute", "arguments": arguments, "requestState": result["requestState"],
                "inputResponses": {"decision": answer(word)}}),
        );
    }
    (result["structuredContent"].clone(), asked)
}

/// The files below `.ai/` and of the user's layer, with their content.
fn items(project: &TestProject) -> String {
    let home = project.home();
    project.bash(&format!(
        "find .ai '{}' -path '*/.ai/outputs' -prune -o -path '*/.ai/*' -type f -print | sort | xargs -r sha256sum",
        home.display()
    ))
}

/// Creates a tool that runs as it is.
fn create(client: &mut McpClient, id: &str) {
    let made = client.execute("tool", "create", id, json!({"tool_type": "bash"}));
    assert_eq!(made["status"], "created", "{made}");
}

/// Every call that changes an item, the user's layer or a setting.
fn writing_calls() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let wide = NARROW.replace("id=\"greet\"/>\n</perm", "id=\"*\"/>\n</perm");
    vec![
        ("directive", "update", "narrow", json!({"content": wide})),
        (
            "directive",
            "create",
            "other",
            json!({"content": wide.replace("\"narrow\"", "\"other\"")}),
        ),
        ("directive", "delete", "narrow", json!({"confirm": true})),
        ("tool", "create", "fresh", json!({"tool_type": "bash"})),
        (
            "tool",
            "create",
            "fresh",
            json!({"tool_type": "bash", "location": "user"}),
        ),
        (
            "tool",
            "update",
            "greet",
            json!({"updates": {"description": "Other"}}),
        ),
        ("tool", "sign", "greet", json!({"location": "project"})),
        ("tool", "delete", "greet", json!({"confirm": true})),
    ]
}

#[test]
fn a_server_does_not_let_agents_write_items_unless_it_was_told_to() {
    for era in ERAS {
        for arguments in [&[][..], &["--as", "narrow"][..]] {
            let project = project();
            let before = items(&project);
            let mut client = McpClient::greeted(&project, era, arguments.iter().copied());
            for (kind, action, id, parameters) in writing_calls() {
                let said = client.execute(kind, action, id, parameters);
                assert_eq!(
                    (&said["code"], &said["status"]),
                    (&json!("AUTHORING_REFUSED"), &json!("denied")),
                    "{action} {id}: {said}"
                );
                assert!(said["suggestion"].is_string(), "{said}");
                assert!(
                    said["terminal"]
                        .as_str()
                        .is_some_and(|it| it.starts_with("piton ")),
                    "{said}"
                );
            }
            for destination in ["user", "project"] {
                let copy = json!({"item_type": "tool", "item_id": "greet", "destination": destination, "overwrite": true});
                let said = client.call("load", copy)["structuredContent"].clone();
                assert_eq!(said["code"], "AUTHORING_REFUSED", "{said}");
            }
            assert_eq!(items(&project), before);
            project.assert_clean();
        }
    }
}

#[test]
fn under_a_directive_only_what_it_permits_runs_whatever_happens_to_its_file() {
    for era in ERAS {
        let project = project();
        let mut client = McpClient::greeted(&project, era, ["--as", "narrow"]);
        // The file changes behind the server, as by an editor.
        let wide = NARROW.replace(
            "id=\"greet\"/>\n</perm",
            "id=\"*\"/>\n<write resource=\"filesystem\" path=\"**\"/></perm",
        );
        std::fs::write(project.root().join(".ai/directives/narrow.md"), wide).unwrap();
        for (kind, id, code) in [
            ("tool", "write", "PERMISSION_DENIED"),
            ("directive", "wide", "PERMISSION_DENIED"),
            ("directive", "narrow", "ITEM_CHANGED"),
        ] {
            let said = client.execute(kind, "run", id, json!({}));
            assert_eq!(said["code"], code, "{id}: {said}");
        }
        let said = client.execute("tool", "run", "greet", json!({}));
        assert_eq!(said["status"], "success", "{said}");
        project.git(["checkout", "--", "."]);
        let said = client.execute("directive", "run", "narrow", json!({}));
        assert_eq!(said["status"], "success", "{said}");
        assert_eq!(project.read("README.md"), "one\n");
    }
    let missing = project();
    let ran = missing.piton(["mcp", "--as", "nothing"]);
    assert_eq!(ran.code(), Some(2), "{}", ran.stderr());
}

#[test]
fn an_agent_does_not_continue_other_directives_under_a_directive() {
    let gate = "<step name=\"look\"><action>Look around.</action></step>";
    let project = project().file(
        ".ai/directives/manual.md",
        NARROW.replace("narrow", "manual").replace(
            "<step name=\"a\"><execute item_type=\"tool\" item_id=\"greet\"/></step>",
            gate,
        ),
    );
    let project = project.committed();
    let waiting = project.piton(["run", "manual", "--format", "json"]);
    assert_eq!(waiting.code(), Some(4), "{}", waiting.stderr());
    let mut client = McpClient::greeted(&project, Era::Sessions, ["--as", "narrow"]);
    let said = client.execute("directive", "continue", "manual", json!({"result": "done"}));
    assert_eq!(said["code"], "PERMISSION_DENIED", "{said}");
}

#[test]
fn an_author_never_writes_into_the_users_layer_or_changes_permissions_and_hooks() {
    let hooked = NARROW.replace(
        "</metadata>",
        "<hooks><hook><when>true</when><directive>wide</directive></hook></hooks></metadata>",
    );
    for era in ERAS {
        let project = project();
        let before = items(&project);
        let mut client = McpClient::greeted(&project, era, ["--allow-authoring"]);
        let wide = NARROW.replacen("id=\"greet\"", "id=\"*\"", 1);
        let more = NARROW.replace("</permissions>", "<env vars=\"TOKEN\"/></permissions>");
        for (kind, action, id, parameters) in [
            ("directive", "update", "narrow", json!({"content": wide})),
            ("directive", "update", "narrow", json!({"content": more})),
            ("directive", "update", "narrow", json!({"content": hooked})),
            (
                "directive",
                "create",
                "new",
                json!({"content": NARROW.replace("\"narrow\"", "\"new\"")}),
            ),
            (
                "tool",
                "create",
                "fresh",
                json!({"tool_type": "bash", "location": "user"}),
            ),
        ] {
            let said = client.execute(kind, action, id, parameters);
            assert_eq!(said["code"], "AUTHORING_REFUSED", "{action} {id}: {said}");
        }
        let copy = json!({"item_type": "tool", "item_id": "greet", "destination": "user"});
        let said = client.call("load", copy)["structuredContent"].clone();
        assert_eq!(said["code"], "AUTHORING_REFUSED", "{said}");
        assert_eq!(items(&project), before);
        // What stays within the permissions can be written.
        let reworded = NARROW.replace("Reads", "Reads and greets");
        let said = client.execute(
            "directive",
            "update",
            "narrow",
            json!({"content": reworded}),
        );
        assert_eq!(said["status"], "updated", "{said}");
    }
}

#[test]
fn what_an_agent_wrote_runs_after_a_person_has_seen_it() {
    for era in ERAS {
        let project = project();
        let mut client = McpClient::greeted(&project, era, ["--allow-authoring"]);
        create(&mut client, "fresh");
        let (said, asked) = run_answered(&mut client, era, "tool", "fresh", &["refuse"]);
        assert_eq!(said["code"], "CONSENT_NEEDED", "{said}");
        assert_eq!(said["terminal"], "piton approve --item fresh", "{said}");
        assert!(
            asked[0].contains("tool `fresh`") && asked[0].contains("#!/"),
            "{asked:?}"
        );
        let (said, _) = run_answered(&mut client, era, "tool", "fresh", &["allow"]);
        assert_eq!(said["status"], "success", "{said}");
        let (said, asked) = run_answered(&mut client, era, "tool", "fresh", &[]);
        assert_eq!(
            (&said["status"], asked.len()),
            (&json!("success"), 0),
            "{said}"
        );
        // A new content is another question.
        let update = client.execute(
            "tool",
            "update",
            "fresh",
            json!({"updates": {"description": "Another tool"}}),
        );
        assert_eq!(update["status"], "updated", "{update}");
        let (said, asked) = run_answered(&mut client, era, "tool", "fresh", &["refuse"]);
        assert_eq!(
            (&said["code"], asked.len()),
            (&json!("CONSENT_NEEDED"), 1),
            "{said}"
        );
        // Only the person's consent is in the journal, with the channel.
        let found =
            project.bash("cat .git/piton/runs/*/journal.jsonl | grep -c '\"type\":\"consented\"'");
        assert_eq!(found.trim(), "1");
        let found = project
            .bash("cat .git/piton/runs/*/journal.jsonl | grep '\"type\":\"consented\"' | cut -f1");
        let consent: Value = serde_json::from_str(&found).expect("a line");
        assert_eq!(
            consent["event"]["approver"]["channel"], "elicitation",
            "{consent}"
        );
        assert_eq!(consent["event"]["items"][0]["id"], "fresh", "{consent}");
        assert!(
            consent["event"]["approver"]["by"]
                .as_str()
                .is_some_and(|it| it.contains('@')),
            "{consent}"
        );
    }
}

#[test]
fn a_directive_that_needs_what_an_agent_wrote_asks_as_well() {
    for era in ERAS {
        let project = project();
        let mut client = McpClient::greeted(&project, era, ["--allow-authoring"]);
        let update = client.execute(
            "tool",
            "update",
            "write",
            json!({"updates": {"description": "Writes more"}}),
        );
        assert_eq!(update["status"], "updated", "{update}");
        let (said, asked) = run_answered(&mut client, era, "directive", "wide", &["refuse"]);
        assert_eq!(said["code"], "CONSENT_NEEDED", "{said}");
        assert!(asked[0].contains("tool `write`"), "{asked:?}");
        let (said, _) = run_answered(&mut client, era, "directive", "wide", &["allow"]);
        assert_eq!(said["status"], "success", "{said}");
    }
}

#[test]
fn a_client_that_cannot_ask_waits_for_the_terminal() {
    for era in ERAS {
        let project = project();
        let mut client =
            McpClient::start_with(&project, era, ["mcp", "--allow-authoring"]).able(json!({}));
        client.initialize();
        create(&mut client, "fresh");
        let said = client.execute("tool", "run", "fresh", json!({}));
        assert_eq!(said["code"], "CONSENT_NEEDED", "{said}");
        let unasked = project.piton(["approve", "--item", "fresh"]);
        assert_eq!(unasked.code(), Some(2), "{}", unasked.stderr());
        let approved = project.piton(["approve", "--item", "fresh", "--yes"]);
        assert_eq!(approved.code(), Some(0), "{}", approved.stderr());
        let said = client.execute("tool", "run", "fresh", json!({}));
        assert_eq!(said["status"], "success", "{said}");
        let found = project
            .bash("cat .git/piton/runs/*/journal.jsonl | grep '\"type\":\"consented\"' | cut -f1");
        let consent: Value = serde_json::from_str(&found).expect("a line");
        assert_eq!(
            consent["event"]["approver"]["channel"], "script",
            "{consent}"
        );
    }
}

#[test]
fn a_stamp_by_an_agent_does_not_count_without_a_person() {
    for era in ERAS {
        let project = project().file(".ai/config.yaml", "signature:\n  require: integrity\n");
        project.piton(["sign", "*"]).succeeded();
        let project = project.committed();
        let mut client = McpClient::greeted(&project, era, ["--allow-authoring"]);
        create(&mut client, "fresh");
        let (said, _) = run_answered(&mut client, era, "tool", "fresh", &["refuse"]);
        assert_eq!(said["status"], "denied", "{said}");
        let signed = client.execute("tool", "sign", "fresh", json!({"location": "project"}));
        assert_eq!(signed["status"], "signed", "{signed}");
        let (said, asked) = run_answered(&mut client, era, "tool", "fresh", &["refuse"]);
        assert_eq!(
            (&said["code"], asked.len()),
            (&json!("CONSENT_NEEDED"), 1),
            "{said}"
        );
        let (said, _) = run_answered(&mut client, era, "tool", "fresh", &["allow"]);
        assert_eq!(said["status"], "success", "{said}");
    }
}

#[test]
fn undoing_changes_no_items_unless_agents_may_write_them() {
    let project = project();
    // The person creates a tool; undoing that removes it again.
    project
        .piton([
            "new",
            "tool",
            "mine",
            "--type",
            "bash",
            "--checkpoint",
            "auto",
        ])
        .succeeded();
    let before = items(&project);
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    let said = client.execute("tool", "undo", "mine", json!({}));
    assert_eq!(said["code"], "AUTHORING_REFUSED", "{said}");
    assert_eq!(items(&project), before);
}

#[test]
fn a_rejected_question_is_not_skipped_by_an_agent() {
    let steps = "<step name=\"look\"><checkpoint type=\"decision\" gate=\"blocking\">Fine?</checkpoint></step>\n\
        <step name=\"write\"><execute item_type=\"tool\" item_id=\"write\"/></step>";
    let text = crate::mcp_runs::directive("gated", "auto", steps);
    let project = project().file(".ai/directives/gated.md", text).committed();
    for parameters in [json!({"skip": true}), json!({"from": "write"})] {
        let mut client = McpClient::greeted(&project, Era::Sessions, []);
        let (failed, _) = run_answered(
            &mut client,
            Era::Sessions,
            "directive",
            "gated",
            &["reject"],
        );
        assert_eq!(failed["code"], "REJECTED", "{failed}");
        let mut parameters = parameters;
        parameters["run_id"] = failed["run_id"].clone();
        let said = client.execute("directive", "continue", "gated", parameters);
        assert_eq!(said["code"], "PERSON_NEEDED", "{said}");
    }
    assert_eq!(project.read("README.md"), "one\n");
}

#[test]
fn an_approval_says_who_gave_it_and_through_which_channel() {
    let steps = "<step name=\"look\"><checkpoint type=\"decision\" gate=\"blocking\">Fine?</checkpoint></step>";
    let text = crate::mcp_runs::directive("gated", "auto", steps);
    let project = project().file(".ai/directives/gated.md", text).committed();
    let answered = |project: &TestProject| {
        let found = project.bash(
            "cat $(ls -dt .git/piton/runs/*/journal.jsonl | head -1) | grep '\"type\":\"answered\"' | tail -1 | cut -f1",
        );
        serde_json::from_str::<Value>(&found).expect("a line")["event"]["approver"].clone()
    };
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    let (said, _) = run_answered(
        &mut client,
        Era::Sessions,
        "directive",
        "gated",
        &["approve"],
    );
    assert_eq!(said["status"], "success", "{said}");
    let approver = answered(&project);
    assert_eq!(approver["channel"], "elicitation", "{approver}");
    assert!(
        approver["by"].as_str().is_some_and(|it| it.contains('@')),
        "{approver}"
    );
    assert!(approver["at"].is_string(), "{approver}");
    assert_eq!(project.piton(["run", "gated"]).code(), Some(4));
    project.piton(["approve", "--yes"]).succeeded();
    assert_eq!(answered(&project)["channel"], "script");
}
