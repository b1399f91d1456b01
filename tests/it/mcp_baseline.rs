//! `git_checkpoint` over MCP commits what the agent changed since the server first used the
//! project.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

fn start(project: &TestProject) -> McpClient {
    let mut client = McpClient::start_in(project, Era::Sessions);
    client.initialize();
    // `execute` waits for the baseline.
    let status = client.call("execute", checkpoint(json!({"dry_run": true})));
    assert_eq!(
        status["structuredContent"]["status"], "no_changes",
        "{status}"
    );
    client
}

fn checkpoint(more: Value) -> Value {
    let mut arguments = json!({
        "item_type": "directive", "item_id": "git_checkpoint",
        "parameters": {"operation": "edit", "caller_directive": "notes"},
    });
    let (Value::Object(into), Value::Object(more)) = (&mut arguments, more) else {
        panic!("objects")
    };
    into.extend(more);
    arguments
}

fn keep(client: &mut McpClient) -> Value {
    client.call("execute", checkpoint(json!({})))["structuredContent"].clone()
}

/// The files that the last commit changed.
fn committed(project: &TestProject) -> String {
    project.git(["show", "--format=", "--name-status", "HEAD"])
}

#[test]
fn exactly_the_edits_of_the_agent_are_committed() {
    let project = TestProject::new()
        .file("mine.txt", "mine\n")
        .file("both.txt", "1\n2\n3\n4\n5\n6\n7\n")
        .file("gone.txt", "gone\n")
        .committed();
    project.bash("echo dirty >> mine.txt; sed -i 's/1/user/' both.txt; echo untracked > note.txt; git add mine.txt");
    let staged = project.git(["diff", "--cached"]);
    let mut client = start(&project);
    project.bash("echo new > new.txt; sed -i 's/7/agent/' both.txt; rm gone.txt; mkdir -p deep/er; echo x > deep/er/x");
    let dry =
        client.call("execute", checkpoint(json!({"dry_run": true})))["structuredContent"].clone();
    assert_eq!(
        (&dry["files_changed"], &dry["dry_run"]),
        (&json!(4), &json!(true)),
        "{dry}"
    );
    let kept = keep(&mut client);
    assert_eq!(kept["status"], "success", "{kept}");
    let numbers = (
        &kept["files_changed"],
        &kept["insertions"],
        &kept["deletions"],
    );
    assert_eq!(numbers, (&json!(4), &json!(3), &json!(2)), "{kept}");
    assert_eq!(
        kept["commit_sha"].as_str(),
        Some(project.git(["rev-parse", "HEAD"]).trim())
    );
    assert!(
        kept["commit_message"]
            .as_str()
            .is_some_and(|it| it.contains("[directive: notes]")),
        "{kept}"
    );
    assert_eq!(
        committed(&project),
        "M\tboth.txt\nA\tdeep/er/x\nD\tgone.txt\nA\tnew.txt\n"
    );
    assert_eq!(
        project.git(["show", "HEAD:both.txt"]),
        "1\n2\n3\n4\n5\n6\nagent\n"
    );
    assert_eq!(project.read("both.txt"), "user\n2\n3\n4\n5\n6\nagent\n");
    assert_eq!(
        project.git(["diff", "--cached"]),
        staged,
        "what was staged is as it was"
    );
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M both.txt\nM  mine.txt\n?? note.txt\n"
    );
    // From now on only new edits count.
    assert_eq!(keep(&mut client)["status"], "no_changes");
    project.bash("echo newer > new.txt");
    assert_eq!(keep(&mut client)["files_changed"], 1);
    assert_eq!(committed(&project), "M\tnew.txt\n");
    assert!(client.end().0.success());
    assert_eq!(
        project.bash("find .git/piton/store/kept/baselines -type f 2> /dev/null || true"),
        ""
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn lines_that_are_also_the_users_are_not_committed_and_stay() {
    let project = TestProject::new().file("both.txt", "one\n").committed();
    project.bash("echo user > both.txt; echo own > own.txt");
    let mut client = start(&project);
    project.bash("echo agent > both.txt; echo new > new.txt");
    let failed = keep(&mut client);
    assert_eq!(
        (&failed["code"], &failed["state"]),
        (&json!("DIRTY_OVERLAP"), &json!("unchanged")),
        "{failed}"
    );
    assert!(
        failed["reason"]
            .as_str()
            .is_some_and(|it| it.contains("both.txt")),
        "{failed}"
    );
    assert_eq!(project.read("both.txt"), "agent\n");
    // The recorded changes are not lost: once the overlap is resolved, the rest is committed.
    project.bash("echo user > both.txt");
    assert_eq!(keep(&mut client)["files_changed"], 1);
    assert_eq!(committed(&project), "A\tnew.txt\n");
    // An untracked file from before belongs to the user.
    project.bash("echo agent >> own.txt");
    assert_eq!(keep(&mut client)["code"], "DIRTY_OVERLAP");
}

#[test]
fn what_was_committed_meanwhile_is_compared_with_the_last_commit() {
    let steps = "<step name=\"grow\"><execute item_type=\"tool\" item_id=\"grow\"/></step>";
    let grow = crate::mcp_runs::directive("grow", "auto", steps);
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("b.txt", "one\n")
        .file("dirty.txt", "1\n2\n3\n4\n5\n6\n")
        .file(".ai/directives/grow.md", grow)
        .tool(
            "grow",
            "mutates_state: true",
            "echo tool > a.txt; sed -i 's/6/tool/' dirty.txt",
        )
        .committed();
    project.bash("sed -i 's/1/user/' dirty.txt");
    let mut client = start(&project);
    // A step commits one file and a person another one; then the agent edits the same lines.
    let run = json!({"item_type": "directive", "item_id": "grow"});
    let done = client.call("execute", run);
    assert_eq!(done["structuredContent"]["status"], "success", "{done}");
    project.bash("echo person > b.txt; git add b.txt; git commit --quiet --message person");
    assert_eq!(
        keep(&mut client)["status"],
        "no_changes",
        "all of it is committed"
    );
    project.bash("echo agent > a.txt; echo agent > b.txt");
    let kept = keep(&mut client);
    assert_eq!(
        (&kept["status"], &kept["files_changed"]),
        (&json!("success"), &json!(2)),
        "{kept}"
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M dirty.txt\n");
    assert_eq!(
        project.git(["show", "HEAD:dirty.txt"]),
        "1\n2\n3\n4\n5\ntool\n"
    );
    assert_eq!(project.read("dirty.txt"), "user\n2\n3\n4\n5\ntool\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn what_was_edited_before_and_after_a_commit_of_a_step_is_committed() {
    let steps = "<step name=\"grow\"><execute item_type=\"tool\" item_id=\"grow\"/></step>";
    let project = TestProject::new()
        .file("a.txt", "1\n2\n3\n4\n5\n")
        .file(
            ".ai/directives/grow.md",
            crate::mcp_runs::directive("grow", "auto", steps),
        )
        .tool("grow", "mutates_state: true", "sed -i 's/5/tool/' a.txt")
        .committed();
    let mut client = start(&project);
    project.bash("sed -i 's/1/agent/' a.txt");
    client.call(
        "execute",
        json!({"item_type": "directive", "item_id": "grow"}),
    );
    assert_eq!(
        project.git(["show", "HEAD:a.txt"]),
        "1\n2\n3\n4\ntool\n",
        "the step's alone"
    );
    project.bash("sed -i 's/tool/both/' a.txt");
    assert_eq!(keep(&mut client)["status"], "success");
    assert_eq!(
        project.git(["show", "HEAD:a.txt"]),
        "agent\n2\n3\n4\nboth\n"
    );
    project.assert_clean();
}

#[test]
fn what_steps_left_on_disk_is_committed_with_the_edits() {
    let steps = "<step name=\"grow\"><execute item_type=\"tool\" item_id=\"grow\"/></step>";
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file(
            ".ai/directives/grow.md",
            crate::mcp_runs::directive("grow", "explicit", steps),
        )
        .tool(
            "grow",
            "mutates_state: true",
            "date +%N >> grown.txt; echo tool >> a.txt",
        )
        .committed();
    // One run before the server was started, one by the server.
    assert_eq!(project.piton(["run", "grow"]).code(), Some(0));
    project.bash("echo mine > mine.txt");
    let mut client = McpClient::start(&project);
    client.initialize();
    let done = client.call(
        "execute",
        json!({"item_type": "directive", "item_id": "grow"}),
    );
    assert_eq!(done["structuredContent"]["status"], "success", "{done}");
    project.bash("echo agent > agent.txt; echo agent >> a.txt");
    let kept = keep(&mut client);
    assert_eq!(
        (&kept["status"], &kept["files_changed"]),
        (&json!("success"), &json!(3)),
        "{kept}"
    );
    assert_eq!(
        project.git(["show", "HEAD:a.txt"]),
        "one\ntool\ntool\nagent\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? mine.txt\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn another_branch_is_a_new_beginning_and_says_so() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    let mut client = start(&project);
    project.bash("git checkout --quiet -b other; echo two > a.txt");
    let kept = keep(&mut client);
    assert_eq!(kept["status"], "no_changes", "{kept}");
    assert!(
        kept["note"]
            .as_str()
            .is_some_and(|it| it.contains("the branch was switched")),
        "{kept}"
    );
    project.bash("echo new > new.txt");
    assert_eq!(keep(&mut client)["files_changed"], 1);
    assert_eq!(committed(&project), "A\tnew.txt\n");
    // A rewritten history cannot be compared with the baseline.
    project.bash("git commit --quiet --amend --message other; echo newer > new.txt");
    assert!(keep(&mut client)["note"].is_string());
}

#[test]
fn a_repository_without_commits_and_a_folder_without_git_are_supported() {
    let project = TestProject::new().file("mine.txt", "mine\n");
    let mut client = start(&project);
    project.bash("echo new > new.txt");
    assert_eq!(keep(&mut client)["files_changed"], 1);
    assert_eq!(project.git(["ls-tree", "--name-only", "HEAD"]), "new.txt\n");
    let bare = TestProject::without_git()
        .file("a.txt", "one\n")
        .file(".ai/config.yaml", "");
    let mut client = McpClient::start(&bare);
    client.initialize();
    let failed = keep(&mut client);
    assert_eq!(failed["code"], "NO_REPOSITORY", "{failed}");
    assert!(failed["suggestion"].is_string(), "{failed}");
}

#[test]
fn a_baseline_outlives_the_collection_of_garbage_and_not_its_server() {
    let project = TestProject::new()
        .file("a.txt", "1\n2\n3\n4\n5\n")
        .committed();
    project.bash("sed -i 's/1/user/' a.txt");
    let mut client = start(&project);
    project.git(["gc", "--quiet", "--prune=now"]);
    assert_eq!(
        project
            .piton(["gc", "--keep-days", "0", "--keep-runs", "0"])
            .code(),
        Some(0)
    );
    project.bash("sed -i 's/5/agent/' a.txt");
    let kept = keep(&mut client);
    assert_eq!(kept["status"], "success", "{kept}");
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "1\n2\n3\n4\nagent\n");
    client.kill();
    assert_ne!(
        project.bash("find .git/piton/store/kept/baselines -type f 2> /dev/null || true"),
        ""
    );
    assert_eq!(project.piton(["gc"]).code(), Some(0));
    assert_eq!(
        project.bash("find .git/piton/store/kept/baselines -type f 2> /dev/null || true"),
        ""
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}
