//! Directive runs over MCP, with an agent, in both protocol eras.

use serde_json::{Value, json};

use crate::harness::{MEETING, TestProject};
use crate::mcp_client::{Era, McpClient};

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

/// Two manual steps for the agent, and between them a tool whose changes the person does not want.
const STEPS: &str = r#"<step name="draft">
  <action>Write a draft of the notes for {input:who} into docs/notes.md.</action>
  <verification><check>docs/notes.md names {input:who}</check></verification>
</step>
<step name="scribble" on_failure="continue"><execute item_type="tool" item_id="scribble"/></step>
<step name="polish"><action>Polish docs/notes.md.</action></step>"#;

pub(crate) fn directive(name: &str, mode: &str, steps: &str) -> String {
    format!(
        "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata>\n\
         <description>The directive {name}</description>\n<git_checkpoint mode=\"{mode}\"/>\n<permissions>\n\
         <execute resource=\"tool\" id=\"*\"/>\n<write resource=\"filesystem\" path=\"**\"/>\n</permissions>\n</metadata>\n\
         <inputs><input name=\"who\" type=\"string\" required=\"false\" default=\"Ada\">Whom</input></inputs>\n\
         <process>\n{steps}\n</process>\n<outputs><success>who: {{input:who}}</success></outputs>\n</directive>\n```\n"
    )
}

fn project(steps: &str) -> TestProject {
    TestProject::new()
        .file("README.md", "one\n")
        .file(".ai/directives/notes.md", directive("notes", "auto", steps))
        .tool(
            "scribble",
            "mutates_state: true",
            "echo unwanted > junk.txt; echo more >> README.md",
        )
        .committed()
}

/// The arguments of `execute` for a directive.
fn run(id: &str, more: Value) -> Value {
    let mut arguments = json!({"item_type": "directive", "action": "run", "item_id": id});
    merge(&mut arguments, more);
    arguments
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write `json!` in place"
)]
fn act(action: &str, parameters: Value) -> Value {
    json!({"item_type": "directive", "action": action, "parameters": parameters})
}

fn merge(into: &mut Value, more: Value) {
    let (Value::Object(into), Value::Object(more)) = (into, more) else {
        panic!("objects")
    };
    into.extend(more);
}

/// The content of a result; the text must match the structured content.
fn content(result: &Value) -> Value {
    let content = result["structuredContent"].clone();
    let text = result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {result}"));
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), content);
    content
}

/// Calls `execute` and returns its content, which must be a result.
fn execute(client: &mut McpClient, arguments: Value) -> Value {
    let result = client.call("execute", arguments);
    assert_ne!(result["isError"], true, "{result}");
    content(&result)
}

/// Calls `execute` and returns its content, which must be an error.
fn refuse(client: &mut McpClient, arguments: Value) -> Value {
    let result = client.call("execute", arguments);
    assert_eq!(result["isError"], true, "{result}");
    content(&result)
}

/// The person's choice.
fn chosen(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision, "comment": "as discussed"}})
}

/// Calls `execute` with a person behind the client, who answers the questions in turn; returns the
/// result and the questions.
fn decide(
    client: &mut McpClient,
    era: Era,
    arguments: Value,
    answers: &[Value],
) -> (Value, Vec<String>) {
    match era {
        Era::Sessions => {
            client.answers.extend(answers.iter().cloned());
            let result = client.call("execute", arguments);
            let asked = std::mem::take(&mut client.asked);
            (
                result,
                asked
                    .iter()
                    .map(|it| it["message"].as_str().expect("a message").to_owned())
                    .collect(),
            )
        }
        Era::Stateless => {
            let mut asked = Vec::new();
            let mut params = json!({"name": "execute", "arguments": arguments});
            let mut answers = answers.iter();
            loop {
                let result = client.request("tools/call", params.clone());
                if result["resultType"] != "input_required" {
                    return (result, asked);
                }
                let request = &result["inputRequests"]["decision"];
                assert_eq!(request["method"], "elicitation/create", "{result}");
                asked.push(
                    request["params"]["message"]
                        .as_str()
                        .expect("a message")
                        .to_owned(),
                );
                let answer = answers
                    .next()
                    .cloned()
                    .unwrap_or_else(|| json!({"action": "cancel"}));
                params["requestState"] = result["requestState"].clone();
                params["inputResponses"] = json!({"decision": answer});
            }
        }
    }
}

#[test]
fn a_server_answers_in_both_eras() {
    for era in ERAS {
        let project = TestProject::new().file("README.md", "one\n").committed();
        let mut client = McpClient::greeted(&project, era, []);
        let result = client.call("help", json!({}));
        assert!(result["structuredContent"]["help"].is_string(), "{result}");
        let (status, said) = client.end();
        assert!(status.success(), "{said}");
    }
}

#[test]
fn an_agent_is_led_through_a_directive_and_a_new_server_continues_after_a_kill() {
    let mut trees = Vec::new();
    for era in ERAS {
        for is_killed in [false, true] {
            let project = project(STEPS);
            let mut client = McpClient::greeted(&project, era, []);
            let waiting = execute(
                &mut client,
                run("notes", json!({"ask": true, "parameters": {"who": "Bob"}})),
            );
            assert_eq!(waiting["status"], "waiting", "{waiting}");
            assert_eq!(
                (&waiting["needs"], &waiting["step"]),
                (&json!("agent"), &json!("draft"))
            );
            assert_eq!(
                waiting["instruction"],
                "Write a draft of the notes for Bob into docs/notes.md."
            );
            assert_eq!(waiting["checks"], json!(["docs/notes.md names Bob"]));
            let next = waiting["next"]["arguments"].clone();
            project.bash("mkdir docs; echo 'draft for Bob' > docs/notes.md");
            let (result, asked) = decide(
                &mut client,
                era,
                next.clone(),
                &[chosen("keep"), chosen("undo")],
            );
            let waiting = content(&result);
            assert_eq!(
                (&waiting["status"], &waiting["step"]),
                (&json!("waiting"), &json!("polish")),
                "{waiting}"
            );
            assert!(
                asked[0].contains("+draft for Bob") && asked[0].contains("1 file, +1 −0"),
                "{asked:?}"
            );
            assert!(
                asked[1].contains("+unwanted") && asked[1].contains("2 files, +2 −0"),
                "{asked:?}"
            );
            assert_eq!(
                project.read("README.md"),
                "one\n",
                "what was not wanted is gone"
            );
            project.bash("echo 'polished for Bob' > docs/notes.md");
            if is_killed {
                client.kill();
                client = McpClient::greeted(&project, era, []);
            }
            let (result, _) = decide(&mut client, era, next, &[chosen("keep")]);
            let done = content(&result);
            assert_eq!(
                (&done["status"], &done["outputs"]),
                (&json!("success"), &json!({"who": "Bob"})),
                "{done}"
            );
            assert_eq!(done["run"]["status"], "succeeded");
            let steps: Vec<&Value> = done["run"]["steps"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| &it["status"])
                .collect();
            assert_eq!(steps, ["succeeded", "failed", "succeeded"], "{done}");
            assert!(client.end().0.success());
            project.assert_clean();
            assert_eq!(project.git(["rev-list", "--count", "HEAD"]).trim(), "3");
            assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
            let pins =
                project.bash("find .git/piton/store/kept/baselines -type f 2> /dev/null || true");
            assert_eq!(pins.lines().count(), usize::from(is_killed), "{pins}");
            trees.push(project.git(["log", "--format=%T %s"]).replace("one", ""));
        }
    }
    assert!(trees.iter().all(|tree| *tree == trees[0]), "{trees:#?}");
}

#[test]
fn a_person_who_does_not_answer_loses_nothing_and_an_agent_cannot_answer_for_them() {
    let gate = r#"<step name="look"><checkpoint type="decision" gate="blocking">Is it fine?</checkpoint></step>"#;
    for era in ERAS {
        let project = project(gate);
        let mut client = McpClient::greeted(&project, era, []);
        let declined = json!({"action": "decline"});
        let (result, asked) = decide(&mut client, era, run("notes", json!({})), &[declined]);
        let waiting = content(&result);
        assert_eq!(
            (&waiting["status"], &waiting["needs"]),
            (&json!("waiting"), &json!("person")),
            "{waiting}"
        );
        assert!(asked[0].contains("Is it fine?"), "{asked:?}");
        let next = waiting["next"]["arguments"].clone();
        let mut said = next.clone();
        said["parameters"]["result"] = json!({"approved": true});
        let refused = refuse(&mut client, said);
        assert_eq!(refused["code"], "PERSON_NEEDED", "{refused}");
        let (result, _) = decide(
            &mut client,
            era,
            next.clone(),
            &[json!({"action": "accept", "content": {}})],
        );
        assert_eq!(
            content(&result)["status"],
            "waiting",
            "an answer without a decision decides nothing"
        );
        let (result, asked) = decide(&mut client, era, next, &[chosen("reject")]);
        let failed = content(&result);
        assert_eq!(
            (&result["isError"], &failed["status"]),
            (&json!(true), &json!("error")),
            "{failed}"
        );
        assert_eq!((&failed["code"], asked.len()), (&json!("REJECTED"), 1));
        assert!(
            failed["message"]
                .as_str()
                .is_some_and(|it| it.contains("as discussed")),
            "{failed}"
        );
        assert_eq!(failed["run"]["status"], "failed");
        project.assert_clean();
    }
}

#[test]
fn a_question_shows_invisible_characters() {
    let gate = r#"<step name="look"><checkpoint type="decision" gate="blocking">Greet {input:who}?</checkpoint></step>"#;
    for (who, shown) in [
        ("Ada", "Greet Ada?"),
        ("A\u{202e}da\u{1b}[31m", "Greet A\\u{202e}da\\u{1b}[31m?"),
    ] {
        let project = project(gate);
        let mut client = McpClient::greeted(&project, Era::Sessions, []);
        client.answers.extend([chosen("approve")]);
        let done = execute(
            &mut client,
            run("notes", json!({"parameters": {"who": who}})),
        );
        assert_eq!(done["status"], "success", "{done}");
        let asked = client.asked[0]["message"].as_str().expect("a message");
        assert!(asked.contains(shown), "{asked}");
    }
}

#[test]
fn a_client_that_cannot_ask_is_told_what_the_person_types() {
    let gate = r#"<step name="look"><checkpoint type="decision" gate="blocking">Is it fine?</checkpoint></step>"#;
    for era in ERAS {
        let project = project(gate);
        let mut client = McpClient::start_in(&project, era).able(json!({}));
        client.initialize();
        let waiting = execute(&mut client, run("notes", json!({})));
        let id = waiting["run_id"].as_str().expect("a run").to_owned();
        assert_eq!(
            (&waiting["status"], &waiting["needs"]),
            (&json!("waiting"), &json!("person")),
            "{waiting}"
        );
        assert!(
            waiting["terminal"]
                .as_str()
                .is_some_and(|it| it.contains(&format!("piton approve {id}"))),
            "{waiting}"
        );
        assert_eq!(
            execute(&mut client, waiting["next"]["arguments"].clone())["needs"],
            "person"
        );
        assert_eq!(
            project.piton(["approve", "--yes", &id]).code(),
            Some(0),
            "no process holds the lock while a person thinks"
        );
        let status = execute(&mut client, act("status", json!({"run_id": id})));
        assert_eq!(status["status"], "success", "{status}");
        assert!(client.end().0.success());
    }
}

#[test]
fn an_answer_that_was_sealed_by_another_server_or_is_about_something_else_is_refused() {
    let gate = r#"<step name="look"><checkpoint type="decision" gate="blocking">Is it fine?</checkpoint></step>
<step name="again"><checkpoint type="decision" gate="blocking">And now?</checkpoint></step>"#;
    let project = project(gate);
    let mut client = McpClient::greeted(&project, Era::Stateless, []);
    let mut params = json!({"name": "execute", "arguments": run("notes", json!({}))});
    let asked = client.request("tools/call", params.clone());
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({"decision": chosen("approve")});
    // Another server, with another key.
    let mut other = McpClient::greeted(&project, Era::Stateless, []);
    let refused = other.request("tools/call", params.clone());
    assert_eq!(content(&refused)["code"], "ANSWER_REFUSED", "{refused}");
    let mut forged = params.clone();
    forged["requestState"] =
        format!("{}x", asked["requestState"].as_str().expect("a state")).into();
    assert_eq!(
        content(&client.request("tools/call", forged))["code"],
        "ANSWER_REFUSED"
    );
    // The same answer is accepted once; the second time its question has been answered already.
    let again = client.request("tools/call", params.clone());
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert!(
        again["inputRequests"]["decision"]["params"]["message"]
            .as_str()
            .is_some_and(|it| it.contains("And now?"))
    );
    let replayed = client.request("tools/call", params);
    assert_eq!(replayed["resultType"], "input_required", "{replayed}");
    let status = execute(&mut client, act("status", json!({})));
    assert_eq!(
        (&status["status"], &status["step"]),
        (&json!("waiting"), &json!("again")),
        "{status}"
    );
}

#[test]
fn an_answer_belongs_to_the_very_call_that_asked() {
    let gate = r#"<step name="look"><checkpoint type="decision" gate="blocking">Is it fine?</checkpoint></step>"#;
    let project = project(gate);
    let mut client = McpClient::greeted(&project, Era::Stateless, []);
    let asked = client.request(
        "tools/call",
        json!({"name": "execute", "arguments": run("notes", json!({}))}),
    );
    let answered = |arguments: Value| {
        json!({
            "name": "execute", "arguments": arguments, "requestState": asked["requestState"],
            "inputResponses": {"decision": chosen("approve")},
        })
    };
    let id = execute(&mut client, act("status", json!({})))["run_id"].clone();
    for other in [
        run("notes", json!({"parameters": {"who": "Eve"}})),
        run("other", json!({})),
        act("continue", json!({"run_id": id})),
    ] {
        let refused = content(&client.request("tools/call", answered(other.clone())));
        assert_eq!(refused["code"], "ANSWER_REFUSED", "{other}: {refused}");
    }
    assert_eq!(
        execute(&mut client, act("status", json!({})))["status"],
        "waiting",
        "nothing was decided"
    );
    // The order of the arguments does not matter.
    let done = content(&client.request(
        "tools/call",
        answered(json!({"item_id": "notes", "action": "run", "item_type": "directive"})),
    ));
    assert_eq!(done["status"], "success", "{done}");
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_a_tool_leaves_a_run_that_continues() {
    let script =
        format!("echo half > half.txt; [ -e \"$TMPDIR/go\" ] || {MEETING}; echo whole > half.txt");
    for era in ERAS {
        let project = project(r#"<step name="draft"><action>Write.</action></step>
<step name="meet"><execute item_type="tool" item_id="meet"/></step><step name="polish"><action>Polish.</action></step>"#)
        .tool("meet", "mutates_state: true", &script)
        .committed();
        let mut client = McpClient::greeted(&project, era, []);
        let waiting = execute(&mut client, run("notes", json!({})));
        project.bash("echo mine > mine.txt");
        client.send_call("execute", &waiting["next"]["arguments"]);
        project.bash("until [ -s \"$TMPDIR/ready\" ]; do sleep 0.01; done");
        client.kill();
        assert_eq!(
            project
                .git(["log", "-1", "--format=%(trailers:key=Piton-Step,valueonly)"])
                .trim(),
            "1 draft"
        );
        let mut client = McpClient::greeted(&project, era, []);
        let status = execute(&mut client, act("status", json!({})));
        assert_eq!(status["status"], "waiting", "{status}");
        assert!(
            status["message"]
                .as_str()
                .is_some_and(|it| it.contains("was interrupted")),
            "an agent is told: {status}"
        );
        project.bash("touch \"$TMPDIR/go\"");
        let waiting = execute(&mut client, status["next"]["arguments"].clone());
        assert_eq!(
            (&waiting["step"], &waiting["instruction"]),
            (&json!("polish"), &json!("Polish.\n\nInputs:\n- who: Ada")),
            "{waiting}"
        );
        assert_eq!(project.read("half.txt"), "whole\n");
        assert_eq!(
            execute(&mut client, waiting["next"]["arguments"].clone())["status"],
            "success"
        );
        assert!(client.end().0.success());
        project.assert_clean();
        assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    }
}

#[test]
fn a_server_that_is_asked_to_stop_rolls_its_tool_back_and_answers() {
    let script = format!("echo half > half.txt; {MEETING}");
    for era in ERAS {
        let project =
            project(r#"<step name="meet"><execute item_type="tool" item_id="meet"/></step>"#)
                .tool("meet", "mutates_state: true", &script)
                .committed();
        let mut client = McpClient::greeted(&project, era, []);
        let id = client.send_call("execute", &run("notes", json!({})));
        project.bash("until [ -s \"$TMPDIR/ready\" ]; do sleep 0.01; done");
        project.bash(&format!("kill -TERM {}", client.pid()));
        let answer = client.answer(id);
        let said = &answer["result"]["structuredContent"];
        assert_eq!(
            (&said["status"], &said["error"]),
            (&json!("cancelled"), &json!("Cancelled")),
            "{answer}"
        );
        assert!(client.end().0.success());
        project.assert_clean();
    }
}

#[test]
fn wrong_runs_and_wrong_words_are_refused_and_change_nothing() {
    let project = project(STEPS);
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    assert_eq!(
        refuse(&mut client, act("continue", json!({})))["code"],
        "NOTHING_WAITS"
    );
    assert_eq!(
        refuse(&mut client, act("continue", json!({"run_id": "01k9x2bf"})))["error"],
        "Run not found"
    );
    assert_eq!(
        refuse(&mut client, run("notes", json!({"checkpoint": "disabled"})))["code"],
        "POLICY_LOOSENED"
    );
    assert_eq!(
        refuse(
            &mut client,
            run("notes", json!({"parameters": {"whom": 1}}))
        )["code"],
        "INVALID_INPUTS"
    );
    assert_eq!(
        refuse(&mut client, run("nothing", json!({})))["error"],
        "Directive not found"
    );
    let mut plan = execute(&mut client, run("notes", json!({"dry_run": true})));
    let told = plan.as_object_mut().expect("an object");
    for (name, value) in [
        ("action", json!("run")),
        ("status", json!("planned")),
        ("dry_run", json!(true)),
    ] {
        assert_eq!(told.shift_remove(name), Some(value));
    }
    assert_eq!(
        plan,
        project
            .piton(["run", "notes", "--dry-run", "--format", "json"])
            .json()
    );
    let waiting = execute(&mut client, run("notes", json!({})));
    let id = waiting["run_id"].as_str().expect("a run").to_owned();
    let before = project.bash("find .git/piton -type f -name '*.jsonl' | xargs cat");
    let both = json!({"run_id": id, "result": 1, "failed": "no"});
    assert_eq!(
        refuse(&mut client, act("continue", both))["code"],
        "INVALID_ARGUMENT"
    );
    assert_eq!(
        refuse(&mut client, act("continue", json!({"run": id})))["code"],
        "INVALID_ARGUMENT"
    );
    let outside = json!({"run_id": id, "paths": ["../elsewhere"]});
    assert_eq!(
        refuse(&mut client, act("continue", outside))["code"],
        "OUTSIDE_PATH"
    );
    let other = refuse(&mut client, run("notes", json!({})));
    assert_eq!(
        (&other["code"], &other["error"]),
        (&json!("RUN_WAITS"), &json!("Run waits")),
        "{other}"
    );
    let calls = format!("`action: \"continue\"` with `run_id: \"{id}\"` continues it");
    assert!(
        other["suggestion"]
            .as_str()
            .is_some_and(|it| it.contains(&calls) && !it.contains("`piton ")),
        "{other}"
    );
    let checkpoint = refuse(
        &mut client,
        run(
            "git_checkpoint",
            json!({"parameters": {"operation": "edit"}}),
        ),
    );
    assert_eq!(
        (&checkpoint["code"], &checkpoint["state"]),
        (&json!("RUN_WAITS"), &json!("unchanged"))
    );
    let dry = json!({"item_type": "directive", "action": "continue", "parameters": {"run_id": id}, "dry_run": true});
    assert_eq!(execute(&mut client, dry)["step"], "draft");
    assert_eq!(
        project.bash("find .git/piton -type f -name '*.jsonl' | xargs cat"),
        before,
        "nothing was written down"
    );
    let cancelled = execute(&mut client, act("cancel", json!({"run_id": &id[..8]})));
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert_eq!(
        execute(&mut client, act("status", json!({})))["run_id"],
        Value::Null
    );
    // A cancelled run starts again where it was.
    assert_eq!(
        execute(&mut client, act("continue", json!({"run_id": id})))["step"],
        "draft"
    );
    let skip = refuse(
        &mut client,
        act("continue", json!({"run_id": id, "skip": true})),
    );
    assert_eq!(skip["code"], "NOT_ENDED", "{skip}");
    let both = refuse(
        &mut client,
        act(
            "continue",
            json!({"run_id": id, "skip": true, "from": "draft"}),
        ),
    );
    assert_eq!(both["code"], "INVALID_ARGUMENT", "{both}");
}

#[test]
fn a_failed_run_restarts_for_an_agent_and_an_atomic_one_is_rolled_back() {
    let fails = r#"<step name="bad"><execute item_type="tool" item_id="bad"/></step>"#;
    let steps = format!(
        r#"<step name="scribble"><execute item_type="tool" item_id="scribble"/></step>{fails}"#
    );
    for era in ERAS {
        let project = project(&steps).tool("bad", "", "exit 3").committed();
        let mut client = McpClient::greeted(&project, era, []);
        let failed = refuse(&mut client, run("notes", json!({})));
        let id = failed["run_id"].as_str().expect("a run").to_owned();
        let unknown = refuse(
            &mut client,
            act("continue", json!({"run_id": id, "from": "nowhere"})),
        );
        assert_eq!(unknown["code"], "NO_SUCH_STEP", "{unknown}");
        let again = refuse(&mut client, act("continue", json!({"run_id": id})));
        assert_eq!(
            (&again["code"], &again["run_id"]),
            (&failed["code"], &json!(id)),
            "{again}"
        );
        let done = execute(
            &mut client,
            act("continue", json!({"run_id": id, "skip": true})),
        );
        assert_eq!(
            (&done["status"], &done["run_id"]),
            (&json!("success"), &json!(id)),
            "{done}"
        );
        assert_eq!(project.read("README.md"), "one\nmore\n");
        let failed = refuse(&mut client, run("notes", json!({"atomic": true})));
        assert_eq!(project.read("README.md"), "one\nmore\n", "{failed}");
        let id = failed["run_id"].as_str().expect("a run").to_owned();
        assert_eq!(
            refuse(&mut client, act("continue", json!({"run_id": id})))["code"],
            "NOT_RESUMABLE"
        );
        project.assert_clean();
    }
}

#[test]
fn a_person_sends_a_manual_step_back_and_the_agent_reads_why() {
    let steps = r#"<step name="draft"><action>Write docs/notes.md.</action></step>
<step name="look"><checkpoint type="human-verify">Is it fine?</checkpoint></step>"#;
    for era in ERAS {
        let project = project(steps);
        let mut client = McpClient::greeted(&project, era, []);
        let waiting = execute(&mut client, run("notes", json!({})));
        let next = waiting["next"]["arguments"].clone();
        project.bash("mkdir -p docs; echo draft > docs/notes.md");
        let (result, asked) = decide(&mut client, era, next.clone(), &[chosen("reject")]);
        let back = content(&result);
        assert!(asked[0].contains("Is it fine?"), "{asked:?}");
        assert_eq!(
            (&back["status"], &back["step"]),
            (&json!("waiting"), &json!("draft")),
            "{back}"
        );
        assert_eq!(back["rejected"], "as discussed", "{back}");
        assert!(
            back["message"]
                .as_str()
                .is_some_and(|it| it.contains("a person rejected")),
            "{back}"
        );
        project.bash("echo better >> docs/notes.md");
        let (result, _) = decide(&mut client, era, next.clone(), &[chosen("end")]);
        assert_eq!(content(&result)["code"], "REJECTED", "{result}");
    }
}

#[test]
fn work_that_failed_is_reported_and_what_returns_something_returns_it() {
    let steps = r#"<step name="count"><action>Count.</action></step>
<step name="tell" when="{step:count.n} > 1"><action>Tell {step:count.n}.</action></step>"#;
    let project = project(steps);
    let mut client = McpClient::greeted(&project, Era::Stateless, []);
    execute(&mut client, run("notes", json!({})));
    let waiting = execute(&mut client, act("continue", json!({"result": {"n": 3}})));
    assert_eq!(
        waiting["instruction"], "Tell 3.\n\nInputs:\n- who: Ada",
        "{waiting}"
    );
    let failed = refuse(
        &mut client,
        act("continue", json!({"failed": "the office is closed"})),
    );
    assert_eq!(
        (&failed["status"], &failed["code"]),
        (&json!("error"), &json!("STEP_FAILED")),
        "{failed}"
    );
    assert!(
        failed["message"]
            .as_str()
            .is_some_and(|it| it.contains("the office is closed")),
        "{failed}"
    );
}

#[test]
fn a_configured_agent_does_not_do_what_the_connected_one_is_asked_to_do() {
    let project = project(STEPS).home_file(".ai/config.yaml", "agent:\n  command: touch stolen\n");
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    let waiting = execute(&mut client, run("notes", json!({})));
    assert_eq!(
        (&waiting["step"], &waiting["needs"]),
        (&json!("draft"), &json!("agent")),
        "{waiting}"
    );
    assert!(!project.root().join("stolen").exists());
}

#[test]
fn progress_is_told_while_a_run_continues() {
    let project =
        project(r#"<step name="scribble"><execute item_type="tool" item_id="scribble"/></step>"#);
    for era in ERAS {
        let mut client = McpClient::greeted(&project, era, []);
        let id = client.send_call("execute", &run("notes", json!({})));
        let answer = client.answer(id);
        assert_eq!(
            answer["result"]["structuredContent"]["status"], "success",
            "{answer}"
        );
        let told: Vec<&Value> = client
            .heard
            .iter()
            .filter(|it| it["method"] == "notifications/progress")
            .collect();
        assert!(
            told.iter().all(|it| it["params"]["progressToken"] == id),
            "{told:?}"
        );
        let words: Vec<&str> = told
            .iter()
            .filter_map(|it| it["params"]["message"].as_str())
            .collect();
        assert_eq!(words.first(), Some(&"scribble begins"), "{words:?}");
        assert!(
            words
                .last()
                .is_some_and(|it| it.starts_with("✓ scribble  ")),
            "{words:?}"
        );
    }
}

#[test]
fn a_cancelled_call_kills_the_whole_tree_of_its_tool_and_rolls_the_step_back() {
    let script = "echo half > half.txt; (sleep 987 & echo $! > \"$TMPDIR/deep\"; wait) & echo $! > \"$TMPDIR/child\"\n\
                  echo ready > \"$TMPDIR/ready\"; sleep 988";
    for era in ERAS {
        let project =
            project(r#"<step name="hang"><execute item_type="tool" item_id="hang"/></step>"#)
                .tool("hang", "mutates_state: true", script)
                .committed();
        let mut client = McpClient::greeted(&project, era, []);
        let id = client.send_call("execute", &run("notes", json!({})));
        project
            .bash("until [ -s \"$TMPDIR/ready\" ] && [ -s \"$TMPDIR/deep\" ]; do sleep 0.01; done");
        client.cancel(id);
        project.bash(
            "for name in deep child; do pid=$(cat \"$TMPDIR/$name\"); \
             while kill -0 $pid 2>/dev/null && ! grep -q '^State:\\tZ' /proc/$pid/status; do sleep 0.01; done; done",
        );
        // The next call waits until the cancelled one has been cleaned up.
        let next = execute(
            &mut client,
            run(
                "git_checkpoint",
                json!({"parameters": {"operation": "edit"}}),
            ),
        );
        assert_eq!(next["status"], "no_changes", "{next}");
        assert!(
            !project.root().join("half.txt").exists(),
            "the step is put back"
        );
        assert_eq!(
            execute(&mut client, act("status", json!({})))["run_id"],
            Value::Null
        );
        assert!(client.end().0.success());
        project.assert_clean();
    }
}

#[test]
fn a_run_of_another_process_is_named_and_the_server_continues() {
    let script = format!("{MEETING}; echo done > done.txt");
    let project =
        project(r#"<step name="scribble"><execute item_type="tool" item_id="scribble"/></step>"#)
            .tool("meet", "mutates_state: true", &script)
            .committed();
    let mut client = McpClient::greeted(&project, Era::Stateless, []);
    let mut other = project.command(["tool", "run", "meet", "--checkpoint", "auto"]);
    let mut other = other
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("piton");
    project.bash("until [ -s \"$TMPDIR/ready\" ]; do sleep 0.01; done");
    let refused = refuse(&mut client, run("notes", json!({})));
    let message = refused["message"].as_str().expect("a message").to_owned();
    assert!(
        message.contains(&other.id().to_string()),
        "it names the holder: {refused}"
    );
    project.bash("touch \"$TMPDIR/go\"");
    assert!(other.wait().expect("a child").success());
    assert_eq!(
        execute(&mut client, run("notes", json!({})))["status"],
        "success"
    );
}

#[test]
fn a_step_is_undone_by_name_or_as_the_newest() {
    let project =
        project(r#"<step name="scribble"><execute item_type="tool" item_id="scribble"/></step>"#);
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    let done = execute(&mut client, run("notes", json!({})));
    assert_eq!(
        refuse(&mut client, act("undo", json!({"step": "01k9x2bf/7"})))["error"],
        "Step not found"
    );
    let dry = json!({"item_type": "directive", "action": "undo", "dry_run": true});
    let shown = execute(&mut client, dry);
    assert_eq!(
        shown["preview"]["files"],
        json!([{"path": "README.md", "effect": "restored"}, {"path": "junk.txt", "effect": "removed"}]),
        "{shown}"
    );
    let step = format!("{}/1", done["run_id"].as_str().expect("a run"));
    let undone = execute(&mut client, act("undo", json!({"step": step})));
    assert_eq!(
        (&undone["status"], &undone["action"]),
        (&json!("success"), &json!("undo")),
        "{undone}"
    );
    assert_eq!(project.read("README.md"), "one\n");
    assert_eq!(
        refuse(&mut client, act("undo", json!({})))["code"],
        "NOTHING_TO_UNDO"
    );
    project.assert_clean();
}

#[test]
fn undo_redo_and_restore_take_the_arguments_of_the_terminal() {
    let project =
        project(r#"<step name="scribble"><execute item_type="tool" item_id="scribble"/></step>"#);
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    let first = execute(&mut client, run("notes", json!({})));
    let id = first["run_id"].as_str().expect("a run").to_owned();
    let second = execute(&mut client, run("notes", json!({})));
    let other = second["run_id"].as_str().expect("a run").to_owned();
    assert_eq!(project.read("README.md"), "one\nmore\nmore\n");
    // Everything after a step, given by its run.
    assert_eq!(
        execute(&mut client, act("undo", json!({"to": id})))["status"],
        "success"
    );
    assert_eq!(project.read("README.md"), "one\nmore\n");
    assert_eq!(
        execute(&mut client, act("redo", json!({})))["status"],
        "success"
    );
    assert_eq!(project.read("README.md"), "one\nmore\nmore\n");
    // The files of a path, as they were after a step.
    let mut dry = act("restore", json!({"step": id, "paths": ["README.md"]}));
    merge(&mut dry, json!({"dry_run": true}));
    let shown = execute(&mut client, dry);
    assert_eq!(
        shown["preview"]["files"],
        json!([{"path": "README.md", "effect": "restored"}]),
        "{shown}"
    );
    assert_eq!(
        execute(
            &mut client,
            act("restore", json!({"step": id, "paths": ["README.md"]}))
        )["status"],
        "success"
    );
    assert_eq!(project.read("README.md"), "one\nmore\n");
    assert_eq!(
        execute(&mut client, act("undo", json!({})))["status"],
        "success"
    );
    assert_eq!(project.read("README.md"), "one\nmore\nmore\n");
    // A whole run, and its step again as new work.
    assert_eq!(
        execute(&mut client, act("undo", json!({"run_id": other})))["status"],
        "success"
    );
    assert_eq!(project.read("README.md"), "one\nmore\n");
    assert_eq!(
        execute(&mut client, act("redo", json!({"step": other})))["status"],
        "success"
    );
    assert_eq!(project.read("README.md"), "one\nmore\nmore\n");
    // Contradictory arguments are refused.
    let both = refuse(&mut client, act("undo", json!({"step": id, "to": other})));
    assert!(
        both["message"]
            .as_str()
            .is_some_and(|it| it.contains("only one of")),
        "{both}"
    );
    assert_eq!(
        refuse(&mut client, act("restore", json!({})))["code"],
        "MISSING_ARGUMENT"
    );
    assert_eq!(
        refuse(&mut client, act("redo", json!({"step": id})))["code"],
        "NOT_REDOABLE"
    );
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn an_undo_undoes_the_checkpoint_that_was_made_last() {
    let project =
        project(r#"<step name="scribble"><execute item_type="tool" item_id="scribble"/></step>"#);
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    execute(&mut client, run("notes", json!({})));
    project.bash("echo own > own.txt");
    let kept = execute(
        &mut client,
        run(
            "git_checkpoint",
            json!({"parameters": {"operation": "edit"}}),
        ),
    );
    assert_eq!(kept["status"], "success", "{kept}");
    let undone = execute(&mut client, act("undo", json!({})));
    assert_eq!(undone["status"], "success", "{undone}");
    assert_eq!(
        project.read("README.md"),
        "one\nmore\n",
        "the run is not taken back"
    );
    assert_eq!(project.read("own.txt"), "own\n");
    assert_eq!(project.git(["status", "--porcelain"]), "?? own.txt\n");
    // The agent's edit counts again, so the next checkpoint commits it.
    let kept = execute(
        &mut client,
        run(
            "git_checkpoint",
            json!({"parameters": {"operation": "edit"}}),
        ),
    );
    assert_eq!(kept["files_changed"], 1, "{kept}");
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

const GATED: &str = r#"<step name="scribble"><execute item_type="tool" item_id="scribble"/></step>
<step name="look"><checkpoint type="human-verify" gate="blocking">Is it fine?</checkpoint></step>
<step name="keep"><checkpoint operation="keep"/></step>"#;

#[test]
fn what_a_person_approves_over_mcp_is_what_is_committed() {
    for era in ERAS {
        let project = project(GATED)
            .file(
                ".ai/directives/notes.md",
                directive("notes", "explicit", GATED),
            )
            .committed();
        let mut client = McpClient::greeted(&project, era, []);
        let declined = json!({"action": "decline"});
        let (result, asked) = decide(&mut client, era, run("notes", json!({})), &[declined]);
        let waiting = content(&result);
        assert!(
            asked[0].contains("+unwanted") && asked[0].contains("+more"),
            "{asked:?}"
        );
        assert!(waiting["tree"].is_string(), "{waiting}");
        // The person corrects what the tool wrote, and sees that in the next question.
        project.bash("echo wanted > junk.txt");
        let next = waiting["next"]["arguments"].clone();
        let (result, asked) = decide(&mut client, era, next, &[chosen("approve")]);
        let done = content(&result);
        assert_eq!(done["status"], "success", "{done}");
        assert!(
            asked[0].contains("+wanted")
                && asked[0].contains("edited while the run waited: `junk.txt`"),
            "{asked:?}"
        );
        assert_eq!(project.git(["show", "HEAD:junk.txt"]), "wanted\n");
        assert!(client.end().0.success());
        project.assert_clean();
        assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    }
}

#[test]
fn a_person_is_asked_again_when_the_files_change_after_they_were_shown() {
    let project = project(GATED)
        .file(
            ".ai/directives/notes.md",
            directive("notes", "explicit", GATED),
        )
        .committed();
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    client
        .edits
        .push_back((project.root().join("junk.txt"), "wanted\n".to_owned()));
    let answers = [chosen("approve"), chosen("approve")];
    let (result, asked) = decide(
        &mut client,
        Era::Sessions,
        run("notes", json!({})),
        &answers,
    );
    assert_eq!(content(&result)["status"], "success", "{result}");
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(
        asked[0].contains("+unwanted") && asked[1].contains("+wanted"),
        "{asked:?}"
    );
    assert_eq!(project.git(["show", "HEAD:junk.txt"]), "wanted\n");
    project.assert_clean();
}

#[test]
fn in_the_stateless_era_an_answer_to_what_is_no_longer_there_asks_again() {
    let project = project(GATED)
        .file(
            ".ai/directives/notes.md",
            directive("notes", "explicit", GATED),
        )
        .committed();
    let mut client = McpClient::greeted(&project, Era::Stateless, []);
    let mut params = json!({"name": "execute", "arguments": run("notes", json!({}))});
    let first = client.request("tools/call", params.clone());
    project.bash("echo wanted > junk.txt");
    params["requestState"] = first["requestState"].clone();
    params["inputResponses"] = json!({"decision": chosen("approve")});
    let second = client.request("tools/call", params.clone());
    assert_eq!(second["resultType"], "input_required", "{second}");
    let text = second["inputRequests"]["decision"]["params"]["message"]
        .as_str()
        .expect("a message");
    assert!(text.contains("+wanted"), "{text}");
    params["requestState"] = second["requestState"].clone();
    let done = client.request("tools/call", params);
    assert_eq!(content(&done)["status"], "success", "{done}");
    assert_eq!(project.git(["show", "HEAD:junk.txt"]), "wanted\n");
}
