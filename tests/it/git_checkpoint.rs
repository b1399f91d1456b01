//! `git_checkpoint` as a library call, with the outputs of the directive.

use std::collections::BTreeMap;
use std::time::Duration;

use piton::checkpoint::remainder::EditsSince;
use piton::context::{Context, Environment};
use piton::item::directive::CheckpointMode;
use piton::run::checkpoint::{
    CheckpointRequest, CommitSelection, FailedState, GitCheckpoint, git_checkpoint,
};
use piton::run::session::RunRequest;
use serde_json::json;

use crate::harness::TestProject;

fn call(project: &TestProject, directive: Option<&str>) -> GitCheckpoint {
    let variables = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ]
    .into_iter()
    .chain(
        ["AUTHOR", "COMMITTER"]
            .into_iter()
            .flat_map(|role| match role {
                "AUTHOR" => [
                    ("GIT_AUTHOR_NAME", "A"),
                    ("GIT_AUTHOR_EMAIL", "a@example.org"),
                ],
                _ => [
                    ("GIT_COMMITTER_NAME", "A"),
                    ("GIT_COMMITTER_EMAIL", "a@example.org"),
                ],
            }),
    )
    .map(|(name, value)| (name.into(), value.into()))
    .collect::<BTreeMap<_, _>>();
    let ctx =
        Context::discover(Environment::new(variables, project.root()), None).expect("a project");
    let request = CheckpointRequest {
        selection: CommitSelection::Recorded,
        operation: "write notes".to_owned(),
        message: None,
        directive: directive.map(str::to_owned),
        edits: EditsSince::LeaveOut,
        within: None,
    };
    let run = RunRequest {
        name: "git_checkpoint".to_owned(),
        command: Vec::new(),
        mode: CheckpointMode::Auto,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let (made, run) = git_checkpoint(&ctx, &request, &run, &mut |_| {}).expect("the call works");
    assert_eq!(
        serde_json::to_value(&run.outputs).expect("JSON"),
        serde_json::to_value(&made).expect("JSON")
    );
    made
}

fn project() -> TestProject {
    TestProject::new()
        .file("notes.txt", "one\n")
        .file("mine.txt", "mine\n")
        .committed()
}

#[test]
fn what_steps_left_on_disk_becomes_a_commit_with_the_directives_footer() {
    let project = project().file("mine.txt", "mine, dirty\n");
    let ran = project.piton([
        "exec",
        "--checkpoint",
        "explicit",
        "--",
        "sh",
        "-c",
        "echo two >> notes.txt",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");

    let made = call(&project, Some("release_notes"));

    let head = project.git(["rev-parse", "HEAD"]);
    let message = project.git(["log", "-1", "--format=%B"]);
    assert_eq!(
        serde_json::to_value(&made).expect("JSON"),
        json!({
            "status": "committed",
            "commit_sha": head.trim(),
            "commit_message": message.trim_end().to_owned() + "\n",
            "files_changed": 1,
            "insertions": 1,
            "deletions": 0,
        })
    );
    assert!(
        message.contains("\n\n[directive: release_notes]\n\nPiton-Run: "),
        "{message}"
    );
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "notes.txt\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
}

#[test]
fn nothing_to_do_is_no_changes() {
    let project = project().file("mine.txt", "mine, dirty\n");
    assert_eq!(call(&project, None), GitCheckpoint::NoChanges);
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn a_checkpoint_that_cannot_be_made_says_why_and_touches_nothing() {
    let project = project();
    let script = "echo 'key = \"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\"' >> notes.txt";
    project.piton(["exec", "--checkpoint", "explicit", "--", "sh", "-c", script]);
    let before = project.read("notes.txt");
    let GitCheckpoint::Failed { reason, state } = call(&project, None) else {
        panic!("a secret was committed")
    };
    assert!(reason.contains("notes.txt"), "{reason}");
    assert_eq!(state, FailedState::Unchanged);
    assert_eq!(project.read("notes.txt"), before);
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
}
