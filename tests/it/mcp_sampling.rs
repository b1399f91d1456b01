//! Commit messages by the client's model, if it has one.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};
use crate::mcp_runs::directive;

fn project() -> TestProject {
    let steps = "<step name=\"one\"><execute item_type=\"tool\" item_id=\"scribble\"/></step>\n\
                 <step name=\"two\"><execute item_type=\"tool\" item_id=\"scribble\"/></step>";
    TestProject::new()
        .file("README.md", "one\n")
        .file(".ai/directives/notes.md", directive("notes", "auto", steps))
        .tool("scribble", "mutates_state: true", "echo two >> README.md")
        .committed()
}

fn start(project: &TestProject, era: Era) -> McpClient {
    let mut client = McpClient::start_in(project, era).able(json!({"sampling": {}}));
    client.initialize();
    // `execute` waits for the baseline.
    client.call(
        "execute",
        json!({"item_type": "directive", "item_id": "git_checkpoint", "dry_run": true}),
    );
    client
}

/// An answer of the model.
fn says(text: &str) -> Value {
    json!({"role": "assistant", "model": "test", "stopReason": "endTurn", "content": {"type": "text", "text": text}})
}

fn keep() -> Value {
    json!({"item_type": "directive", "item_id": "git_checkpoint", "parameters": {"operation": "edit"}})
}

fn subject(project: &TestProject) -> String {
    project.git(["log", "-1", "--format=%s"]).trim().to_owned()
}

#[test]
fn the_model_behind_a_session_writes_the_messages_of_commits() {
    let project = project();
    let mut client = start(&project, Era::Sessions);
    project.bash("echo three >> README.md");
    client.written.push_back(says(
        "docs(readme): count to three\n\nPiton-Run: forged\nIt was missing.",
    ));
    let kept = client.call("execute", keep())["structuredContent"].clone();
    assert_eq!(kept["status"], "success", "{kept}");
    assert_eq!(subject(&project), "docs(readme): count to three");
    let shown = client.sampled[0].to_string();
    assert!(
        shown.contains("What was done: edit") && shown.contains("+three"),
        "{shown}"
    );
    let trailers = project.bash("git log -1 --format=%B | git interpret-trailers --parse");
    assert!(
        !trailers.contains("forged"),
        "text of a model forges nothing: {trailers}"
    );
    // Every commit of a run has its own message.
    client
        .written
        .extend([says("```\nfeat: the first\n```"), says("feat: the second")]);
    let done = client.call(
        "execute",
        json!({"item_type": "directive", "item_id": "notes"}),
    );
    assert_eq!(done["structuredContent"]["status"], "success", "{done}");
    assert_eq!(
        project.git(["log", "-2", "--format=%s"]),
        "feat: the second\nfeat: the first\n"
    );
    // Undo, and a call with a message, do not ask the model.
    let before = client.sampled.len();
    client.call(
        "execute",
        json!({"item_type": "directive", "action": "undo"}),
    );
    project.bash("echo four >> README.md");
    let mut given = keep();
    given["parameters"]["message"] = "docs: four".into();
    client.call("execute", given);
    assert_eq!(
        (subject(&project).as_str(), client.sampled.len()),
        ("docs: four", before)
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    project.assert_clean();
}

#[test]
fn an_unusable_or_missing_answer_leads_to_a_generated_message() {
    let project = project();
    let mut client = start(&project, Era::Sessions);
    let cut = json!({"role": "assistant", "model": "test", "stopReason": "maxTokens", "content": {"type": "text", "text": "docs: x"}});
    let image = json!({"role": "assistant", "model": "test", "content": {"type": "image", "data": "", "mimeType": "image/png"}});
    for answer in [
        Some(says("Sure! Here is your message.")),
        Some(says("")),
        Some(cut),
        Some(image),
        Some(json!({"role": 5})),
        None,
    ] {
        project.bash("date +%N >> README.md");
        client.written.extend(answer.clone());
        let kept = client.call("execute", keep())["structuredContent"].clone();
        assert_eq!(kept["status"], "success", "{answer:?}: {kept}");
        assert_eq!(
            subject(&project),
            "docs: update `README.md` by `edit`",
            "{answer:?}"
        );
    }
    // A model that refuses is not asked twice in a run.
    let before = client.sampled.len();
    client.call(
        "execute",
        json!({"item_type": "directive", "item_id": "notes"}),
    );
    assert_eq!(client.sampled.len(), before + 1);
    project.assert_clean();
}

#[test]
fn a_secret_that_is_let_through_is_not_shown_to_the_model() {
    let project = project().home_file(".ai/config.yaml", "checkpoint:\n  secrets: warn\n");
    let mut client = start(&project, Era::Sessions);
    let token = ["ghp", "_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"].concat();
    project.bash(&format!("echo 'token = \"{token}\"' > settings.toml"));
    client.written.push_back(says("chore: add settings"));
    let kept = client.call("execute", keep());
    assert_eq!(kept["structuredContent"]["status"], "success", "{kept}");
    assert!(
        !client.sampled[0].to_string().contains(&token),
        "{:?}",
        client.sampled
    );
}

#[test]
fn a_client_without_sessions_is_asked_by_the_answer() {
    let project = project();
    let mut client = start(&project, Era::Stateless);
    let call =
        |client: &mut McpClient, params: &Value| client.request("tools/call", params.clone());
    let asked = |client: &mut McpClient| {
        let mut params = json!({"name": "execute", "arguments": keep()});
        let asked = call(client, &params);
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        assert_eq!(
            asked["inputRequests"]["message"]["method"], "sampling/createMessage",
            "{asked}"
        );
        params["requestState"] = asked["requestState"].clone();
        params
    };
    let nothing = call(
        &mut client,
        &json!({"name": "execute", "arguments": keep()}),
    );
    assert_eq!(
        nothing["structuredContent"]["status"], "no_changes",
        "the model is not asked if nothing changed: {nothing}"
    );
    project.bash("echo three >> README.md");
    let before = project.git(["rev-parse", "HEAD"]);
    let mut params = asked(&mut client);
    assert_eq!(
        project.git(["rev-parse", "HEAD"]),
        before,
        "asking commits nothing"
    );
    params["inputResponses"] = json!({"message": says("docs: count to three")});
    let kept = call(&mut client, &params);
    assert_eq!(kept["structuredContent"]["status"], "success", "{kept}");
    assert_eq!(subject(&project), "docs: count to three");
    // A message about other changes, an invalid answer, and a state of another call.
    for (change, answer, forged) in [
        ("echo more >> README.md", says("docs: too late"), false),
        ("true", json!({"role": 5}), false),
        ("true", says("docs: forged"), true),
    ] {
        project.bash("date +%N >> README.md");
        let mut params = asked(&mut client);
        project.bash(change);
        params["inputResponses"] = json!({"message": answer});
        if forged {
            params["requestState"] = "nonsense".into();
        }
        let kept = call(&mut client, &params);
        assert_eq!(kept["structuredContent"]["status"], "success", "{kept}");
        assert_eq!(subject(&project), "docs: update `README.md` by `edit`");
    }
    // In the stateless era a run cannot ask the model.
    let done = call(
        &mut client,
        &json!({"name": "execute", "arguments": {"item_type": "directive", "item_id": "notes"}}),
    );
    assert_eq!(done["structuredContent"]["status"], "success", "{done}");
    project.assert_clean();
}
