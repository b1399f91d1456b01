//! Enforcement of permissions, and attribution of changes: writes of every kind, git's own files,
//! and concurrent changes by other processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::unprivileged::Unprivileged;
use crate::harness::{Ran, TestProject};
use crate::tool_run::until;

const AUTO: [&str; 6] = ["tool", "run", "t", "--format", "json", "--checkpoint"];

fn auto(project: &TestProject) -> Ran {
    project.piton(AUTO.iter().chain(&["auto"]))
}

/// A directive `d` that may call the tool `t`, with more permissions.
fn directive(project: TestProject, permissions: &str) -> TestProject {
    let text = format!(
        "```xml\n<directive name=\"d\" version=\"1.0.0\">\n<metadata><description>d</description>\
         <permissions><execute resource=\"tool\" id=\"t\"/>{permissions}</permissions></metadata>\n\
         <process><step name=\"a\"><execute item_type=\"tool\" item_id=\"t\"/></step></process>\n</directive>\n```\n"
    );
    project.file(".ai/directives/d.md", text)
}

/// Calls `t` with the permissions of a directive that may write below `docs` only.
fn call_in_docs(project: TestProject) -> (TestProject, Ran) {
    let project = directive(project, "<write path=\"docs/**\"/>").committed();
    let ran = project.piton(AUTO.iter().chain(&["auto", "--as", "d"]));
    (project, ran)
}

#[test]
fn e_every_permission_says_by_what_it_is_enforced() {
    let more = "requires:\n  commands: [cat]\n  environment: [GREETING]\nwrites: ['docs/**']";
    let project = TestProject::new().variable("GREETING", "hello").tool(
        "t",
        more,
        "mkdir docs; touch docs/a",
    );
    let granted = "<shell commands=\"cat\"/><env vars=\"GREETING\"/><write path=\"docs/**\"/><read path=\"src/**\"/>";
    let project = directive(project, granted).committed();
    let ran = project.piton(AUTO.iter().chain(&["auto", "--as", "d"]));
    let result = ran.last_json();
    let words: Vec<(&str, &str)> = result["permissions"]
        .as_array()
        .unwrap_or_else(|| panic!("{ran}"))
        .iter()
        .filter_map(|permission| {
            Some((
                permission["need"].as_str()?,
                permission["enforcement"].as_str()?,
            ))
        })
        .collect();
    let expected = [
        ("<execute resource=\"tool\" id=\"t\"/>", "broker"),
        ("<shell commands=\"cat\"/>", "declared_only"),
        ("<env vars=\"GREETING\"/>", "broker"),
        (
            "<write resource=\"filesystem\" path=\"docs/**\"/>",
            "after_the_fact",
        ),
        (
            "<read resource=\"filesystem\" path=\"src/**\"/>",
            "declared_only",
        ),
    ];
    assert_eq!(words, expected, "{ran}");
    let shown = project.piton(["show", result["run_id"].as_str().expect("a run")]);
    for (need, word) in expected {
        assert!(
            shown
                .stdout()
                .contains(&format!("{need} by {need} in `d`, enforced: {word}\n")),
            "{need}: {shown}"
        );
    }
}

#[test]
fn e_a_change_of_the_mode_is_a_write() {
    let project =
        TestProject::new()
            .file("script.sh", "true\n")
            .tool("t", "", "chmod 755 script.sh");
    let (project, ran) = call_in_docs(project);
    assert_eq!(
        (ran.code(), &ran.last_json()["denied_paths"]),
        (Some(3), &json!(["script.sh"])),
        "{ran}"
    );
    let mode = fs::metadata(project.root().join("script.sh"))
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0);
    project.assert_clean();
}

#[test]
fn e_a_link_is_a_write_where_it_lies_and_what_is_written_through_one_is_where_that_lies() {
    let project =
        TestProject::new()
            .file("secret.txt", "mine\n")
            .tool("t", "", "ln -s secret.txt link");
    let (project, ran) = call_in_docs(project);
    assert_eq!(
        (ran.code(), &ran.last_json()["denied_paths"]),
        (Some(3), &json!(["link"])),
        "{ran}"
    );
    assert!(project.root().join("link").symlink_metadata().is_err());

    let script = "ln -s ../secret.txt docs/link; echo theirs > docs/link";
    let project = TestProject::new()
        .file("secret.txt", "mine\n")
        .file("docs/a", "a\n")
        .tool("t", "isolation: trusted", script);
    let (project, ran) = call_in_docs(project);
    assert_eq!(
        (ran.code(), &ran.last_json()["denied_paths"]),
        (Some(3), &json!(["secret.txt"])),
        "{ran}"
    );
    assert_eq!(project.read("secret.txt"), "mine\n");
    project.assert_clean();

    // A link that leads out of the project is committed as a link; its target is not read.
    let project = TestProject::new()
        .home_file("secret", "mine\n")
        .file("docs/a", "a\n");
    let target = project.home().join("secret");
    let project = project.tool("t", "", &format!("ln -s '{}' docs/link", target.display()));
    let (project, ran) = call_in_docs(project);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "HEAD:docs/link"]),
        target.to_str().expect("Unicode")
    );
    assert_eq!(fs::read_to_string(target).expect("a file"), "mine\n");
}

#[test]
fn e_a_folder_swapped_for_a_link_hides_nothing() {
    let script = "mv docs gone; ln -s src docs; echo theirs > docs/a";
    let project = TestProject::new()
        .file("docs/a", "a\n")
        .file("src/a", "mine\n")
        .tool("t", "isolation: trusted", script);
    let (project, ran) = call_in_docs(project);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(
        (project.read("src/a"), project.read("docs/a")),
        ("mine\n".to_owned(), "a\n".to_owned())
    );
    project.assert_clean();
}

#[test]
fn e_a_hook_that_a_tool_installs_is_reported_and_not_run() {
    let script = "printf '#!/bin/sh\\ntouch hijacked\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit\n\
                  cp .git/hooks/pre-commit .git/hooks/post-commit; cp .git/hooks/pre-commit .git/hooks/commit-msg; echo x > new.txt";
    let project = TestProject::new()
        .tool("t", "isolation: trusted", script)
        .committed();
    let ran = auto(&project);
    let result = ran.last_json();
    let hooks = [
        ".git/hooks/commit-msg",
        ".git/hooks/post-commit",
        ".git/hooks/pre-commit",
    ];
    assert_eq!(result["git_changed"], json!(hooks), "{ran}");
    assert_eq!(
        result["warnings"],
        json!([
            "`.git/hooks/commit-msg`, `.git/hooks/post-commit`, `.git/hooks/pre-commit` changed while it ran, which no permission allows"
        ])
    );
    assert_eq!(
        (ran.code(), &result["checkpoint"]["status"]),
        (Some(0), &json!("committed"))
    );
    assert!(!project.root().join("hijacked").exists(), "it was run");
    let stdout = ran.stdout();
    let finished = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let written: Vec<Value> = finished
        .filter(|event| event["type"] == "tool_finished")
        .collect();
    assert_eq!(
        written[0]["git_changed"],
        json!(hooks),
        "it is in the journal"
    );
    let shown = project.piton(["show", result["run_id"].as_str().expect("a run")]);
    assert!(
        shown
            .stdout()
            .contains("\ngit's own     .git/hooks/commit-msg\n"),
        "{shown}"
    );
}

#[test]
fn e_a_hook_of_the_user_runs_as_ever() {
    let project = TestProject::new().tool(
        "t",
        "",
        "echo x > new.txt; git config --get user.none; cat .git/config > /dev/null",
    );
    let project = project.committed();
    project.bash(
        "printf '#!/bin/sh\\ntouch \"$TMPDIR/ran\"\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    );
    let ran = auto(&project);
    assert_eq!(
        (ran.code(), ran.last_json().get("git_changed")),
        (Some(0), None),
        "{ran}"
    );
    assert!(
        project
            .root()
            .parent()
            .expect("a sandbox")
            .join("tmp/ran")
            .exists()
    );
}

#[test]
fn e_settings_of_git_that_a_tool_changes_are_reported_also_when_it_fails() {
    for (ending, code) in [("", 0), ("; exit 1", 1)] {
        let script = format!(
            "git config core.fsmonitor 'touch hijacked'; mkdir -p .git/info; echo none > .git/info/exclude; echo x > new.txt{ending}"
        );
        let project = TestProject::new()
            .tool("t", "isolation: trusted", &script)
            .committed();
        let ran = auto(&project);
        assert_eq!(ran.code(), Some(code), "{ran}");
        assert_eq!(
            ran.last_json()["git_changed"],
            json!([".git/config", ".git/info/exclude"]),
            "{ran}"
        );
        assert!(!project.root().join("hijacked").exists(), "it was run");
    }
}

#[test]
fn e_a_branch_that_a_tool_switches_to_is_no_checkpoint() {
    let project = TestProject::new()
        .tool(
            "t",
            "isolation: trusted",
            "git checkout -q -b other; echo x > new.txt",
        )
        .committed();
    let ran = auto(&project);
    let result = ran.last_json();
    assert_eq!(
        (ran.code(), &result["checkpoint"]["status"]),
        (Some(1), &json!("failed")),
        "{ran}"
    );
    assert_eq!(result["code"], json!("BRANCH_SWITCHED"), "{ran}");
    assert_eq!(
        project.git(["log", "--format=%s", "main", "other"]),
        "start\n"
    );
}

#[test]
fn e_a_tool_that_removes_the_journal_or_writes_into_it_gets_no_commit() {
    for script in [
        "rm -rf .git/piton/runs",
        "mv .git/piton/runs .git/piton/away",
        "for f in .git/piton/runs/*/*; do echo x >> $f; done",
    ] {
        let project = TestProject::new()
            .tool(
                "t",
                "isolation: trusted",
                &format!("echo x > new.txt; {script}"),
            )
            .committed();
        let ran = auto(&project);
        assert_eq!(
            (ran.code(), &ran.last_json()["code"]),
            (Some(5), &json!("JOURNAL_BROKEN")),
            "{script}: {ran}"
        );
        assert_eq!(project.git(["log", "--format=%s"]), "start\n");
        assert_eq!(project.git(["status", "--porcelain"]), "?? new.txt\n");
        let next = project.piton(["exec", "--", "true"]);
        assert_eq!(next.code(), Some(0), "{next}");
        let verified = project.piton(["verify", "--all"]);
        assert_eq!(verified.code(), Some(0), "{verified}");
    }
}

/// A tool that writes `own.txt`, waits, and then does something.
fn waiting(then: &str) -> TestProject {
    let script = format!(
        "echo x > own.txt; echo ready > \"$TMPDIR/ready\"; while [ ! -e \"$TMPDIR/go\" ]; do sleep 0.02; done\n{then}"
    );
    TestProject::new()
        .file("theirs.txt", "theirs\n")
        .file("both.txt", "both\n")
        .tool("t", "", &script)
}

/// Runs a command; another process edits files while the tool waits.
fn meanwhile(project: &TestProject, mut command: Command, edit: impl Fn(&Path)) -> Ran {
    let tmp = project.root().parent().expect("a sandbox").join("tmp");
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("piton starts");
    until("the tool has written", || tmp.join("ready").exists());
    edit(&project.root());
    fs::write(tmp.join("go"), "").expect("a file");
    project.ran(child.wait_with_output().expect("an end"))
}

fn edit(root: &Path) {
    fs::write(root.join("theirs.txt"), "theirs, edited\n").expect("a file");
    fs::create_dir(root.join("new")).expect("a folder");
    fs::write(root.join("new/theirs.txt"), "new\n").expect("a file");
    fs::write(root.join("both.txt"), "both, edited\n").expect("a file");
}

#[test]
fn e_what_others_edit_while_a_tool_succeeds_is_not_committed_and_told() {
    let project = waiting("echo more >> both.txt").committed();
    let ran = meanwhile(
        &project,
        project.command(AUTO.iter().chain(&["auto"])),
        edit,
    );
    let result = ran.last_json();
    assert_eq!(
        result["outside_changes"],
        json!(["new/theirs.txt", "theirs.txt"]),
        "{ran}"
    );
    // A file that both have written cannot be separated.
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "both.txt\nown.txt\n"
    );
    assert_eq!(
        project.git(["show", "HEAD:both.txt"]),
        "both, edited\nmore\n"
    );
    assert_eq!(
        project.git(["status", "--porcelain", "-uall"]),
        " M theirs.txt\n?? new/theirs.txt\n"
    );
    assert_eq!(
        (project.read("theirs.txt"), project.read("new/theirs.txt")),
        ("theirs, edited\n".to_owned(), "new\n".to_owned())
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    let shown = project.piton(["show", result["run_id"].as_str().expect("a run")]);
    assert!(
        shown
            .stdout()
            .contains("\nmeanwhile     another process changed `new/theirs.txt`, `theirs.txt`\n"),
        "{shown}"
    );
}

#[test]
fn e_what_others_edit_while_a_tool_fails_is_not_rolled_back() {
    let project = waiting("echo more >> both.txt; exit 1").committed();
    let ran = meanwhile(
        &project,
        project.command(["tool", "run", "t", "--checkpoint", "auto"]),
        edit,
    );
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(!project.root().join("own.txt").exists());
    assert_eq!(
        project.read("both.txt"),
        "both\n",
        "a file that it has written counts as the tool's"
    );
    assert_eq!(
        project.git(["status", "--porcelain", "-uall"]),
        " M theirs.txt\n?? new/theirs.txt\n"
    );
    let told =
        "changed by another process meanwhile and left alone: `new/theirs.txt`, `theirs.txt`";
    assert!(ran.stderr().contains(told), "{ran}");
}

#[test]
fn e_the_other_name_of_a_file_that_a_tool_writes_is_its_own() {
    let project = waiting("echo more >> first.txt")
        .file("first.txt", "one\n")
        .committed();
    fs::hard_link(
        project.root().join("first.txt"),
        project.root().join("second.txt"),
    )
    .expect("a link");
    project.git(["add", "second.txt"]);
    project.git(["commit", "--quiet", "--message", "linked"]);
    let ran = meanwhile(
        &project,
        project.command(AUTO.iter().chain(&["auto"])),
        edit,
    );
    assert_eq!(
        ran.last_json()["outside_changes"],
        json!(["both.txt", "new/theirs.txt", "theirs.txt"]),
        "{ran}"
    );
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "first.txt\nown.txt\nsecond.txt\n"
    );
}

#[test]
fn e_without_watching_every_change_counts_as_the_tools() {
    // A process that is watched already cannot be watched by another one, so the inner piton sees
    // nothing.
    let inner = waiting("true").committed();
    inner.git(["config", "user.name", "Test"]);
    inner.git(["config", "user.email", "test@example.com"]);
    let tmp = inner.root().parent().expect("a sandbox").join("tmp");
    let script = format!(
        "cd '{}'; export TMPDIR='{}'\n'{}' tool run t --checkpoint auto --format json > \"$TMPDIR/result\"",
        inner.root().display(),
        tmp.display(),
        env!("CARGO_BIN_EXE_piton"),
    );
    let outer = TestProject::new()
        .tool("outer", "isolation: trusted", &script)
        .committed();
    let ran = meanwhile(
        &inner,
        outer.command(["tool", "run", "outer", "--checkpoint", "auto"]),
        edit,
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    let result = fs::read_to_string(tmp.join("result")).expect("a result");
    let result: Value = serde_json::from_str(result.lines().last().expect("a line")).expect("JSON");
    assert_eq!(result.get("outside_changes"), None, "{result}");
    assert_eq!(
        inner.git(["show", "--name-only", "--format=", "HEAD"]),
        "both.txt\nnew/theirs.txt\nown.txt\ntheirs.txt\n"
    );
    inner.assert_clean();
}

#[test]
fn e_all_of_this_holds_without_root() {
    let user = Unprivileged::someone();
    let project = waiting("id -u > own.txt; (sleep 600 & disown); exit 1").committed();
    let arguments: Vec<&str> = AUTO.into_iter().chain(["auto"]).collect();
    let ran = meanwhile(&project, user.command(&project, &arguments), edit);
    let result = ran.last_json();
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!("TOOL_FAILED")),
        "{ran}"
    );
    assert_eq!(
        result["checkpoint"]["status"],
        json!("rolled_back"),
        "{ran}"
    );
    assert_eq!(
        result["outside_changes"],
        json!(["both.txt", "new/theirs.txt", "theirs.txt"]),
        "{ran}"
    );
    assert_eq!(result["warnings"], json!(["1 leftover process was killed"]));
    assert!(!project.root().join("own.txt").exists());
    let verified = user.piton(&project, &["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
}
