//! `git_checkpoint`, which piton implements itself.

use super::*;

const COPY: &str = "# Git Checkpoint\n\n```xml\n<directive name=\"git_checkpoint\" version=\"9.0.0\">\n  <metadata>\n    \
    <description>Ours</description>\n    <category>core</category>\n    <author>kiwi-mcp</author>\n    <model tier=\"fast\" />\n    \
    <permissions><execute resource=\"shell\" commands=\"git\" /></permissions>\n  </metadata>\n  \
    <process><step name=\"a\"><action>Run: git add -A</action></step></process>\n</directive>\n```\n";

/// A project in which a tool has left a change.
fn changed() -> TestProject {
    let project = TestProject::new()
        .tool("add", "", "echo two >> notes.txt")
        .file("notes.txt", "one\n")
        .file("mine.txt", "mine\n")
        .committed()
        .file("mine.txt", "mine, dirty\n");
    let ran = project.piton(["tool", "run", "add", "--format", "json"]);
    assert_eq!(ran.last_json()["checkpoint_recommended"], true, "{ran}");
    project
}

#[test]
fn from_the_terminal_it_commits_what_explicit_steps_left_and_has_its_outputs() {
    let project = changed();
    let ran = project.piton([
        "run",
        "git_checkpoint",
        "--input",
        "operation=add",
        "--input",
        "caller_directive=notes",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let outputs = &ran.last_json()["outputs"];
    let head = project.git(["rev-parse", "HEAD"]);
    assert_eq!(outputs["commit_sha"], head.trim(), "{ran}");
    assert_eq!(
        (
            &outputs["files_changed"],
            &outputs["insertions"],
            &outputs["deletions"]
        ),
        (&json!(1), &json!(1), &json!(0)),
        "{ran}"
    );
    let message = project.git(["log", "-1", "--format=%B"]);
    assert_eq!(
        outputs["commit_message"].as_str().map(str::trim_end),
        Some(message.trim_end())
    );
    assert!(message.contains("\n\n[directive: notes]\n"), "{message}");
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    let again = project.piton([
        "run",
        "git_checkpoint",
        "--input",
        "operation=add",
        "--format",
        "json",
    ]);
    assert_eq!(again.code(), Some(0), "{again}");
    assert_eq!(
        again.last_json()["outputs"],
        json!({"status": "no_changes"})
    );
}

#[test]
fn a_copy_of_the_project_never_runs() {
    let project = changed().file(".ai/directives/core/git_checkpoint.md", COPY);
    let ran = project.piton(["run", "core/git_checkpoint", "--input", "operation=add"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "notes.txt\n"
    );
    let listed = project.piton(["directive", "show", "git_checkpoint", "--format", "json"]);
    assert_eq!(listed.json()["version"], "9.0.0", "{listed}");
}

#[test]
fn its_inputs_are_required_in_every_door() {
    let project = changed();
    cmd_snapshot!(project.piton(["run", "git_checkpoint"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `git_checkpoint@1.0.0` cannot be run with these inputs: missing input `operation`

    hint: give them with `--input NAME=VALUE`; `piton directive show git_checkpoint` lists them
    "#);
    cmd_snapshot!(project.piton(["run", "git_checkpoint", "--input", "operation=x", "--ask"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `git_checkpoint` does not take `--ask`

    hint: leave it out: it commits what steps left uncommitted; `--dry-run` lists the files, `piton diff` shows them
    ");
    cmd_snapshot!(project.piton(["run", "git_checkpoint", "--input", "operation=x", "--dry-run"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    notes.txt
    ----- stderr -----
    nothing was changed; it would commit 1 file
    ");
    let mut client = start(&project);
    let (answer, is_error) = execute(
        &mut client,
        json!({"item_type": "directive", "item_id": "git_checkpoint", "parameters": {}}),
    );
    assert!(is_error, "{answer}");
    assert_eq!(answer["error"], "operation is required", "{answer}");
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn outside_of_git_it_fails_and_is_not_recommended() {
    let project =
        TestProject::without_git().tool("add", "mutates_state: true", "echo two >> notes.txt");
    let ran = project.piton(["tool", "run", "add", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(ran.last_json().get("checkpoint_recommended"), None, "{ran}");
    let ran = project.piton(["run", "git_checkpoint", "--input", "operation=add"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert!(
        ran.stderr().contains("is not inside a git repository"),
        "{ran}"
    );
}

#[test]
fn asked_to_ask_it_shows_the_changes_to_the_person_first() {
    for era in [Era::Sessions, Era::Stateless] {
        for (decision, commits) in [("refuse", "1\n"), ("allow", "2\n")] {
            let project = TestProject::new().file("notes.txt", "one\n").committed();
            let mut client = McpClient::start_in(&project, era);
            client.initialize();
            let looked = client.call("search", json!({"item_type": "tool", "query": "notes"}));
            assert_ne!(looked["isError"], true, "{looked}");
            let dry =
                json!({"item_type": "directive", "item_id": "git_checkpoint", "dry_run": true});
            execute(&mut client, dry);
            let project = project.file("notes.txt", "one\ntwo\n");
            let answer = json!({"action": "accept", "content": {"decision": decision}});
            let call = json!({
                "item_type": "directive", "item_id": "git_checkpoint", "ask": true,
                "parameters": {"operation": "edit"},
            });
            let (result, asked) = if era == Era::Sessions {
                client.answers.push_back(answer);
                let result = client.call("execute", call);
                let asked = client.asked.first().map(|it| it["message"].clone());
                (result, asked)
            } else {
                let mut params = json!({"name": "execute", "arguments": call});
                let first = client.request("tools/call", params.clone());
                params["requestState"] = first["requestState"].clone();
                params["inputResponses"] = json!({"decision": answer});
                let asked = first["inputRequests"]["decision"]["params"]["message"].clone();
                (client.request("tools/call", params), Some(asked))
            };
            let asked = asked.unwrap_or_default();
            assert!(
                asked.as_str().is_some_and(|text| text.contains("+two")),
                "{asked}"
            );
            let told = &result["structuredContent"];
            assert_eq!(result["isError"] == true, decision == "refuse", "{told}");
            assert_eq!(
                project.git(["rev-list", "--count", "HEAD"]),
                commits,
                "{told}"
            );
        }
    }
}

#[test]
fn a_tool_refuses_to_ask_by_name() {
    let project = changed();
    let mut client = start(&project);
    for name in ["ask", "atomic"] {
        let (answer, is_error) = execute(
            &mut client,
            json!({"item_type": "tool", "item_id": "add", name: true}),
        );
        assert!(is_error, "{answer}");
        assert_eq!(
            answer["message"],
            format!("`{name}` is only for runs of directives"),
            "{answer}"
        );
    }
    assert_eq!(project.read("notes.txt"), "one\ntwo\n");
}

#[test]
fn a_rejected_checkpoint_step_puts_back_what_its_steps_changed() {
    let steps = "<step name=\"add\"><execute item_type=\"tool\" item_id=\"add\"/></step>\n    \
        <step name=\"keep\"><checkpoint operation=\"add\"/></step>";
    let directive = format!(
        "# write\n\n```xml\n<directive name=\"write\" version=\"1.0.0\">\n  <metadata>\n    <description>d</description>\n    \
         <permissions><execute resource=\"tool\" id=\"add\"/><write resource=\"filesystem\" path=\"**\"/></permissions>\n  \
         </metadata>\n  <process>\n    {steps}\n  </process>\n</directive>\n```\n"
    );
    let project = TestProject::new()
        .tool("add", "", "echo two >> notes.txt; echo new > new.txt")
        .file(".ai/directives/write.md", directive)
        .file("notes.txt", "one\n")
        .file("mine.txt", "mine\n")
        .committed()
        .file("mine.txt", "mine, dirty\n");
    let ran = project.piton(["run", "write", "--ask"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert_eq!(project.read("notes.txt"), "one\ntwo\n");
    let ran = project.piton(["reject", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("notes.txt"), "one\n");
    assert!(!project.root().join("new.txt").exists());
    assert_eq!(project.read("mine.txt"), "mine, dirty\n");
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
}
