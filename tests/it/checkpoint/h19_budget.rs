//! H19: files that are too large, and too many files.

use serde_json::{Value, json};

use super::{committed, exec, failed, refused, rolled_back, told};
use crate::harness::{Ran, TestProject};
use crate::repository_guard::Guard;

const SMALL: &str = "checkpoint:\n  max_file_size: 100\n";

/// A project where a file of more than 100 bytes is too large.
fn project() -> TestProject {
    TestProject::new()
        .home_file(".ai/config.yaml", SMALL)
        .file("a.txt", "one\n")
        .committed()
}

const FILL: &str = "head -c 200 /dev/zero > big.bin";

/// The files that the step reports as changed outside of checkpoints.
fn not_captured(ran: &Ran) -> Vec<Value> {
    let events = ran.stdout();
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    events
        .filter_map(|event| {
            event
                .pointer("/delta/not_captured")
                .or(event.get("not_captured"))
                .cloned()
        })
        .flat_map(|paths| paths.as_array().cloned().unwrap_or_default())
        .collect()
}

#[test]
fn h19_a_large_file_of_the_step_is_left_out_of_the_commit_and_reported() {
    let project = project();
    let guard = Guard::of(&project);
    let ran = exec(&project, &format!("{FILL}; echo tool > a.txt"));
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    assert_eq!(not_captured(&ran), [json!("big.bin")], "{ran}");
    assert_eq!(project.git(["status", "--porcelain"]), "?? big.bin\n");
    project.bash("rm big.bin");
    guard.committed(&["a.txt"]);
}

#[test]
fn h19_a_large_file_of_the_step_is_not_deleted_by_a_roll_back() {
    let project = project();
    let guard = Guard::of(&project);
    let ran = exec(&project, &format!("{FILL}; echo tool > a.txt; exit 3"));
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert_eq!(not_captured(&ran), [json!("big.bin")], "{ran}");
    assert_eq!(project.read("big.bin").len(), 200);
    project.bash("rm big.bin");
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h19_a_large_file_alone_is_no_change_and_reported() {
    let project = project();
    let ran = exec(&project, &format!("{FILL}; exit 3"));
    assert_eq!(not_captured(&ran), [json!("big.bin")], "{ran}");
    let (code, last) = told(&project, &ran);
    assert_eq!(
        (code, &last["steps"][0]["checkpoint"]["status"]),
        (Some(3), &"no_changes".into()),
        "{last}"
    );
    let ran = project.piton(["exec", "--", "bash", "-c", "echo more >> big.bin"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        ran.stderr(),
        "no changes\nwarning: left out of the checkpoint: `big.bin` (205 bytes) is over `checkpoint.max_file_size` (100 bytes)\n"
    );
}

#[test]
fn h19_large_files_of_the_user_are_not_touched() {
    let project = project();
    project.bash(FILL);
    let project = project.committed();
    project.bash("echo mine >> big.bin; cp big.bin other.bin");
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert_eq!(not_captured(&ran), Vec::<Value>::new(), "{ran}");
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h19_a_file_that_the_step_made_large_is_reported_and_restored() {
    let project = project();
    let ran = exec(
        &project,
        "head -c 200 /dev/zero >> a.txt; echo new > n.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(2, 1, 0));
    assert_eq!(not_captured(&ran), [json!("a.txt")], "{ran}");
    assert_eq!(project.read("a.txt"), "one\n");
    project.assert_clean();
    project.git(["fsck", "--strict"]);
}

#[test]
fn h19_a_large_file_of_the_user_that_the_step_deleted_is_reported() {
    let project = project();
    project.bash(FILL);
    let ran = exec(&project, "rm big.bin; echo tool > a.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert_eq!(not_captured(&ran), [json!("big.bin")], "{ran}");
}

#[test]
fn h19_too_much_to_record_is_refused_before_the_command_runs() {
    let project = TestProject::new()
        .home_file(".ai/config.yaml", "checkpoint:\n  max_total_size: 1000\n")
        .file("a.txt", "one\n")
        .committed();
    project.bash("for i in $(seq 20); do head -c 100 /dev/urandom | base64 -w 0 > u$i.txt; done");
    let guard = Guard::of(&project);
    let message = "20 changed or untracked files hold 2720 bytes, more than checkpoints may store";
    let hint = "add generated files to `.gitignore`, or raise `checkpoint.max_total_size`";
    assert_eq!(
        told(&project, &exec(&project, "touch ran")),
        refused("OVER_BUDGET", message, hint)
    );
    let ran = project.piton(["recover"]);
    assert_eq!(
        ran.stderr(),
        "✓ there is no interrupted run\n",
        "a run that was refused has ended"
    );
    guard.refused();
}

#[test]
fn h19_too_much_of_the_step_fails_the_checkpoint_and_stays_on_disk() {
    let project = TestProject::new()
        .home_file(".ai/config.yaml", "checkpoint:\n  max_total_size: 1000\n")
        .file("a.txt", "one\n")
        .committed();
    let guard = Guard::of(&project);
    let made: Vec<String> = (1..=20).map(|number| format!("made{number}.txt")).collect();
    let ran = exec(
        &project,
        "for i in $(seq 20); do head -c 100 /dev/urandom | base64 -w 0 > made$i.txt; done",
    );
    let (code, last) = told(&project, &ran);
    let message = last["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let hint = "add generated files to `.gitignore`, or raise `checkpoint.max_total_size`";
    assert_eq!((code, last), failed(0, "OVER_BUDGET", &message, hint));
    guard.left(&made.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn h19_the_home_is_no_work_tree() {
    let project = TestProject::without_git();
    let home = project.home().display().to_string();
    project.git(["-C", &home, "init", "--quiet"]);
    project.git([
        "-C",
        &home,
        "commit",
        "--quiet",
        "--allow-empty",
        "--message",
        "start",
    ]);
    let ran = project.piton([
        "-C", &home, "--format", "json", "exec", "--", "touch", "ran",
    ]);
    assert_ne!(ran.code(), Some(0), "{ran}");
    assert!(!project.home().join("ran").exists());
}
