//! H5: a checkpoint that cannot be made is reported, and piton neither runs the command nor claims
//! success without it.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{exec, refused, told};
use crate::harness::{Ran, TestProject};
use crate::repository_guard::Guard;

const MARK: &str = "touch ran; echo tool > a.txt";

fn project() -> TestProject {
    TestProject::new().file("a.txt", "one\n").committed()
}

#[test]
fn h5_no_identity_is_refused_before_the_command_runs() {
    let project = project();
    let guard = Guard::of(&project);
    let mut command = project.command(["--format", "json", "exec", "--", "bash", "-c", MARK]);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        command.env_remove(name);
    }
    let output = command.output().expect("piton starts");
    let error: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let hint =
        "set it: `git config user.name \"Your Name\"` and `git config user.email you@example.org`";
    assert_eq!(
        (output.status.code(), error),
        refused("NO_IDENTITY", "git does not know who you are", hint),
    );
    guard.refused();
}

#[test]
fn h5_no_identity_is_no_obstacle_where_no_commit_is_made() {
    let project = project();
    let guard = Guard::of(&project);
    let mut command = project.command([
        "exec",
        "--checkpoint",
        "explicit",
        "--",
        "bash",
        "-c",
        "echo tool > a.txt",
    ]);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        command.env_remove(name);
    }
    assert_eq!(
        command.output().expect("piton starts").status.code(),
        Some(0)
    );
    guard.left(&["a.txt"]);
}

#[test]
fn h5_a_folder_of_piton_that_cannot_be_made_is_refused_before_the_command_runs() {
    let project = project().file(".git/piton", "in the way\n");
    let guard = Guard::of(&project);
    let (code, last) = told(&project, &exec(&project, MARK));
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(5), &Value::from("IO_FAILED")),
        "{last}"
    );
    guard.refused();
}

#[test]
fn h5_a_journal_that_cannot_be_written_is_refused_before_the_command_runs() {
    let project = project();
    fs::create_dir_all(project.root().join(".git/piton")).expect("a folder");
    symlink("/proc/self/nowhere", project.root().join(".git/piton/runs")).expect("a link");
    let guard = Guard::of(&project);
    let (code, last) = told(&project, &exec(&project, MARK));
    assert_eq!(code, Some(5), "{last}");
    guard.refused();
}

#[test]
fn h5_a_snapshot_that_cannot_be_stored_is_refused_before_the_command_runs() {
    let project = project().file("u.txt", "untracked\n");
    let objects = project.root().join(".git/piton/store/objects");
    fs::create_dir_all(&objects).expect("a folder");
    let blob = project.git(["hash-object", "u.txt"]);
    // The folder for the object of `u.txt`.
    fs::write(objects.join(&blob[..2]), "in the way").expect("a file");
    let (code, last) = told(&project, &exec(&project, MARK));
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(5), &Value::from("IO_FAILED")),
        "{last}"
    );
    assert_eq!(project.files(), ["a.txt", "u.txt"]);
    assert_eq!(project.read("a.txt"), "one\n");
}

/// Makes writing the journal fail at its `nth` line.
fn full_disk(project: TestProject, nth: u32) -> (TestProject, Ran) {
    let project = project.variable("PITON_FAILPOINT", &format!("journal-append:{nth}=error"));
    let ran = exec(&project, MARK);
    (project.variable("PITON_FAILPOINT", ""), ran)
}

#[test]
fn h5_a_full_disk_before_the_command_keeps_it_from_running() {
    for nth in [1, 2] {
        let (project, ran) = full_disk(project(), nth);
        assert_eq!(ran.code(), Some(5), "{ran}");
        project.assert_clean();
    }
}

#[test]
fn h5_a_full_disk_after_the_command_is_reported_and_recovered() {
    for nth in 3..=8 {
        let (project, ran) = full_disk(project(), nth);
        assert_ne!(ran.code(), Some(0), "line {nth}: {ran}");
        let ran = project.piton(["recover"]);
        assert_eq!(ran.code(), Some(0), "line {nth}: {ran}");
        project.assert_clean();
        let again = project.piton(["recover"]);
        assert_eq!(
            again.stderr(),
            "✓ there is no interrupted run\n",
            "line {nth}"
        );
    }
}

#[test]
fn h5_a_checkpoint_that_failed_is_no_success_and_no_commit() {
    let project = project();
    let guard = Guard::of(&project);
    // The command creates the lock at its end, so that it only affects the checkpoint.
    let ran = exec(&project, "echo tool > a.txt; touch .git/index.lock");
    let (code, last) = told(&project, &ran);
    assert_eq!(
        (code, &last["type"], &last["status"]),
        (Some(1), &"run_finished".into(), &"failed".into())
    );
    assert_eq!(last["steps"][0]["checkpoint"]["status"], "failed", "{last}");
    assert_eq!(last["error"]["code"], "INDEX_LOCKED", "{last}");
    assert!(
        project.root().join(".git/index.lock").exists(),
        "a lock of another process is never removed"
    );
    project.bash("rm .git/index.lock");
    guard.left(&["a.txt"]);
}

#[test]
fn h5_a_roll_back_that_could_not_be_finished_is_reported_and_finished_later() {
    let project = project();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo tool > a.txt; git add a.txt; touch .git/index.lock; exit 3",
    );
    let (code, last) = told(&project, &ran);
    assert_ne!(code, Some(0), "{last}");
    assert_eq!(last["error"]["code"], "INDEX_LOCKED", "{last}");
    project.bash("rm .git/index.lock");
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    guard.rolled_back(&["a.txt"]);
}

fn exec_bound(project: &TestProject, script: &str) -> Ran {
    project.piton_bound([
        "--format", "json", "exec", "--name", "act", "--", "bash", "-euc", script,
    ])
}

#[test]
fn h5_a_tracked_file_that_cannot_be_read_is_refused_before_the_command_runs() {
    let project = project().file("secret.txt", "mine\n").committed();
    let guard = Guard::of(&project);
    project.bash("chmod 000 secret.txt");
    let (code, last) = told(&project, &exec_bound(&project, MARK));
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(5), &Value::from("UNREADABLE_FILE")),
        "{last}"
    );
    assert_eq!(
        last["error"]["message"], "cannot read `secret.txt`: Permission denied (os error 13)",
        "{last}"
    );
    project.bash("chmod 644 secret.txt");
    guard.refused();
}

#[test]
fn h5_a_file_that_the_step_made_unreadable_fails_the_checkpoint() {
    let project = project();
    let (code, last) = told(
        &project,
        &exec_bound(&project, "echo tool > a.txt; chmod 000 a.txt"),
    );
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(1), &Value::from("UNREADABLE_FILE")),
        "{last}"
    );
    assert_eq!(last["steps"][0]["checkpoint"]["status"], "failed", "{last}");
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn h5_a_git_folder_that_cannot_be_written_is_refused_before_the_command_runs() {
    let project = project();
    project.bash("chmod -R a-w .git");
    let (code, last) = told(&project, &exec_bound(&project, MARK));
    project.bash("chmod -R u+w .git");
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(5), &Value::from("IO_FAILED")),
        "{last}"
    );
    project.assert_clean();
}

#[test]
fn h5_a_folder_that_the_step_closed_is_opened_to_put_things_back() {
    let project = TestProject::new().file("d/b.txt", "one\n").committed();
    let guard = Guard::of(&project);
    let script =
        "echo tool > d/b.txt; echo tool > d/n.txt; mkdir -p n/deep; echo tool > n/deep/f.txt
        chmod 555 d n/deep n; exit 3";
    let ran = exec_bound(&project, script);
    assert_eq!(told(&project, &ran), super::rolled_back(3, 3, 1));
    guard.rolled_back(&["d/b.txt"]);
}

#[test]
fn h5_a_folder_that_the_user_closed_is_closed_again() {
    let project = TestProject::new().file("d/b.txt", "one\n").committed();
    project.bash("chmod 555 d");
    let guard = Guard::of(&project);
    let ran = exec_bound(
        &project,
        "chmod 755 d; echo tool > d/b.txt; echo tool > d/n.txt; chmod 555 d; exit 3",
    );
    assert_eq!(told(&project, &ran), super::rolled_back(2, 2, 1));
    guard.rolled_back(&["d/b.txt"]);
}

#[test]
fn h5_a_file_whose_place_is_taken_is_reported_and_the_next_command_works() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("b.txt", "one\n")
        .file(".gitignore", ".env\n");
    let project = project.committed();
    let ran = exec(
        &project,
        "echo tool > b.txt; rm a.txt; mkdir a.txt; echo tool > a.txt/.env; exit 3",
    );
    let (code, last) = told(&project, &ran);
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(1), &Value::from("CHANGED_SINCE")),
        "{last}"
    );
    assert_eq!(last["error"]["message"], "changed since: `a.txt`", "{last}");
    assert_eq!(
        (project.read("b.txt"), project.read("a.txt/.env")),
        ("one\n".to_owned(), "tool\n".to_owned())
    );
    let ran = project.piton(["recover"]);
    assert_eq!(
        (ran.code(), ran.stderr()),
        (Some(0), "✓ there is no interrupted run\n".to_owned())
    );
}
