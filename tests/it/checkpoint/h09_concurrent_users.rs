//! H9, H10 and H12: other runs, other git processes, people, and crashes.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{committed, exec, refused, rolled_back, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

fn project() -> TestProject {
    TestProject::new()
        .file("a.txt", "one\n")
        .file("h.txt", "one\n")
        .committed()
}

/// A signal file outside of the work tree: steps report that they run, and are told to continue.
fn signal(project: &TestProject, name: &str) -> PathBuf {
    project.home().join(name)
}

/// Starts a step that reports when it runs and waits until it may continue.
fn start(project: &TestProject, script: &str) -> Child {
    start_with(project, "true", script)
}

/// Like [`start`], for a step that does something before it waits.
fn start_with(project: &TestProject, first: &str, script: &str) -> Child {
    let script =
        format!("{first}; touch ~/running; until [ -e ~/go ]; do sleep 0.02; done; {script}");
    let mut command = project.command([
        "--format", "json", "exec", "--name", "act", "--", "bash", "-euc", &script,
    ]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("piton starts");
    let deadline = Instant::now() + Duration::from_mins(1);
    while !signal(project, "running").exists() {
        assert!(Instant::now() < deadline, "the step does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Lets the step continue and returns its result.
fn finish(project: &TestProject, child: Child) -> (Option<i32>, Value) {
    fs::write(signal(project, "go"), "").expect("a file");
    let output = child.wait_with_output().expect("piton ends");
    for name in ["running", "go"] {
        fs::remove_file(signal(project, name)).expect("a file");
    }
    told(project, &project.ran(output))
}

#[test]
fn h9_a_second_run_is_refused_and_told_which_run_is_active() {
    let project = project();
    let guard = Guard::of(&project);
    let first = start(&project, "echo tool > a.txt");
    let (code, second) = told(&project, &exec(&project, "touch ran"));
    assert_eq!(
        (code, &second["error"]["code"]),
        (Some(5), &Value::from("LOCKED")),
        "{second}"
    );
    let message = second["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains(&format!("process {}", first.id())),
        "{message}"
    );
    assert!(!project.root().join("ran").exists());
    assert_eq!(finish(&project, first), committed(1, 1, 1));
    guard.committed(&["a.txt"]);
}

#[test]
fn h9_a_second_run_waits_for_as_long_as_it_may() {
    let project = project();
    let guard = Guard::of(&project);
    let first = start(&project, "echo tool > a.txt");
    let arguments = [
        "exec",
        "--lock-timeout",
        "60",
        "--",
        "bash",
        "-c",
        "cp a.txt seen.txt",
    ];
    let second = project
        .command(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    assert_eq!(finish(&project, first), committed(1, 1, 1));
    assert!(
        second
            .wait_with_output()
            .expect("piton ends")
            .status
            .success()
    );
    assert_eq!(project.git(["show", "HEAD:seen.txt"]), "tool\n");
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "3\n");
    guard.left_besides_head(&["a.txt", "seen.txt"]);
}

#[test]
fn h9_runs_in_two_worktrees_do_not_exclude_each_other() {
    let project = project();
    project.git(["worktree", "add", "--quiet", "../linked"]);
    let first = start(&project, "echo tool > a.txt");
    let linked = project.root().join("../linked");
    let ran = project.piton([
        "-C",
        linked.to_str().expect("a path"),
        "exec",
        "--",
        "bash",
        "-c",
        "echo tool > h.txt",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(finish(&project, first), committed(1, 1, 1));
    assert_eq!(
        project.git(["diff", "--name-only", "HEAD~1", "HEAD"]),
        "a.txt\n"
    );
    assert_eq!(
        project.git(["diff", "--name-only", "linked~1", "linked"]),
        "h.txt\n"
    );
    project.assert_clean();
}

#[test]
fn h9_what_a_person_commits_meanwhile_stays_when_the_step_succeeds() {
    let project = project();
    let child = start(&project, "echo tool > a.txt");
    project.bash("echo human > h.txt; git commit --quiet --message human h.txt");
    assert_eq!(finish(&project, child), committed(1, 1, 1));
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1", "HEAD~1"]),
        "human\n"
    );
    assert_eq!(
        project.git(["diff", "--name-only", "HEAD~1", "HEAD"]),
        "a.txt\n"
    );
    project.assert_clean();
}

#[test]
fn h9_what_a_person_commits_meanwhile_stays_when_the_step_fails() {
    let project = project();
    let child = start(&project, "echo tool > a.txt; exit 3");
    project.bash("echo human > h.txt; git commit --quiet --message human h.txt");
    let (code, last) = finish(&project, child);
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(1), &Value::from("HEAD_MOVED")),
        "{last}"
    );
    assert_eq!(last["steps"][0]["checkpoint"]["status"], "failed", "{last}");
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1"]),
        "human\n"
    );
    assert_eq!(project.read("h.txt"), "human\n");
    project.git(["fsck", "--strict"]);
}

#[test]
fn h9_an_undo_never_reverts_what_a_person_did_since() {
    let project = project();
    exec(&project, "echo tool > a.txt; echo made > made.txt");
    project.bash("echo human > h.txt; echo human >> made.txt");
    let guard = Guard::of(&project);
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    guard.rolled_back(&[]);
}

#[test]
fn h10_a_lock_that_is_held_is_waited_for_and_then_refused() {
    let project = project().file(".git/index.lock", "");
    let guard = Guard::of(&project);
    let (code, last) = told(&project, &exec(&project, "touch ran"));
    let path = project
        .root()
        .join(".git/index.lock")
        .canonicalize()
        .expect("a lock")
        .display()
        .to_string();
    let message = last["error"]["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    let age = message
        .strip_prefix(&format!("`{path}` exists for "))
        .and_then(|rest| rest.split(' ').next());
    assert!(
        age.is_some_and(|age| age.parse::<u64>().is_ok()),
        "{message}"
    );
    let hint = format!("wait for it, or, when no git process is running any more, remove `{path}`");
    assert_eq!((code, last), refused("INDEX_LOCKED", &message, &hint));
    guard.refused();
}

#[test]
fn h10_a_stale_lock_is_named_with_its_age_and_never_removed() {
    let project = project().file(".git/index.lock", "");
    project.bash("touch --date='2 hours ago' .git/index.lock");
    let guard = Guard::of(&project);
    let (code, last) = told(&project, &exec(&project, "touch ran"));
    let message = last["error"]["message"].as_str().expect("a message");
    assert_eq!(
        (code, &last["error"]["code"]),
        (Some(5), &Value::from("INDEX_LOCKED")),
        "{last}"
    );
    assert!(message.contains(" exists for 72"), "{message}");
    guard.refused();
}

#[test]
fn h10_a_lock_that_goes_away_in_time_is_no_obstacle() {
    let project = project().file(".git/index.lock", "");
    let mut command = project.command(["exec", "--", "bash", "-c", "echo tool > a.txt"]);
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    std::thread::sleep(Duration::from_millis(200));
    project.bash("rm .git/index.lock");
    assert!(
        child
            .wait_with_output()
            .expect("piton ends")
            .status
            .success()
    );
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "tool\n");
    project.assert_clean();
}

#[test]
fn h10_snapshots_do_not_need_the_lock() {
    let project = project()
        .file(".git/index.lock", "")
        .file("u.txt", "mine\n");
    let guard = Guard::of(&project);
    let ran = project.piton([
        "exec",
        "--checkpoint",
        "explicit",
        "--",
        "bash",
        "-c",
        "echo tool > a.txt",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    guard.left(&["a.txt"]);
}

#[test]
fn h12_a_run_that_was_killed_is_recovered_by_the_next_command() {
    let project = project().file("u.txt", "mine\n");
    let guard = Guard::of(&project);
    let mut child = start_with(
        &project,
        "echo tool > a.txt; echo tool > made.txt; rm h.txt",
        "true",
    );
    child.kill().expect("piton can be killed");
    child.wait().expect("piton is dead");
    fs::remove_file(signal(&project, "running")).expect("a file");
    let ran = exec(&project, "echo next > next.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 0));
    assert!(ran.stdout().contains(r#""type":"recovered""#), "{ran}");
    guard.rolled_back(&["a.txt", "h.txt"]);
}

#[test]
fn h12_a_recovery_is_reported_once_and_changes_nothing_the_second_time() {
    // Recovery does not pass this failpoint.
    let project = project().variable("PITON_FAILPOINT", "tool-ended");
    let guard = Guard::of(&project);
    assert_eq!(exec(&project, "echo tool > a.txt").code(), None);
    let first = project.piton(["recover"]);
    assert_eq!(
        first.stderr(),
        "warning: a run had been interrupted: its step was running; 1 file was restored\n",
        "{first}"
    );
    let second = project.piton(["recover"]);
    assert_eq!(
        second.stderr(),
        "✓ there is no interrupted run\n",
        "{second}"
    );
    guard.rolled_back(&["a.txt"]);
}
