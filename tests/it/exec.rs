//! `piton exec`: the output of one step for people and programs.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{TestProject, cmd_snapshot};

fn project() -> TestProject {
    TestProject::new().file("notes.txt", "one\n").committed()
}

/// The printed events, one per line.
fn events(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

#[test]
fn json_is_one_event_per_line_and_ends_with_the_run() {
    let project = project();
    let ran = project.piton([
        "exec",
        "--format",
        "json",
        "--name",
        "grow",
        "--",
        "sh",
        "-c",
        "echo out; echo 2 >> notes.txt",
    ]);
    let events = events(&ran.stdout());
    let types: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        types,
        [
            "run_started",
            "step_started",
            "tool_started",
            "tool_finished",
            "changes_found",
            "decided",
            "committed",
            "step_finished",
            "run_finished"
        ]
    );
    let last = events.last().expect("an event");
    assert_eq!(
        *last,
        json!({
            "type": "run_finished",
            "run_id": last["run_id"],
            "directive": null,
            "status": "succeeded",
            "steps": [{
                "name": "grow",
                "status": "succeeded",
                "tool": null,
                "exit_code": 0,
                "checkpoint": {
                    "status": "committed",
                    "commit_sha": project.git(["rev-parse", "HEAD"]).trim(),
                    "files_changed": 1,
                    "insertions": 1,
                    "deletions": 0,
                },
            }],
            "outputs": {},
            "error": null,
        })
    );
    assert_eq!(ran.stderr(), "out\n");
    project.assert_clean();
}

#[test]
fn a_failing_command_is_rolled_back_and_its_status_is_reported() {
    let project = project().ticking();
    let ran = project.exec("echo 2 >> notes.txt; touch junk; exit 3");
    cmd_snapshot!(ran, @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    ✗ rolled back 2 files
    error: `sh` exited with status 3 [COMMAND_FAILED]
    hint: see what it did with `piton show 01kdyabkw0000e485875xhvkdf`
    ");
    assert_eq!(project.read("notes.txt"), "one\n");
    project.assert_clean();
}

#[test]
fn ctrl_c_ends_the_command_and_rolls_back_its_changes() {
    let project = project();
    let script = "echo 2 >> notes.txt; touch started; sleep 600";
    let mut child = project
        .command(["exec", "--", "sh", "-c", script])
        .spawn()
        .expect("piton starts");
    while !project.root().join("started").exists() {
        thread::sleep(Duration::from_millis(20));
    }
    project.bash(&format!("kill -INT {}", child.id()));
    let status = child.wait().expect("piton ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(project.read("notes.txt"), "one\n");
    project.assert_clean();
}

#[test]
fn a_step_without_changes_adds_no_objects() {
    let project = project();
    let objects = || project.git(["count-objects"]);
    let before = objects();
    let ran = project.piton(["exec", "--", "true"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(objects(), before);
    assert_eq!(project.git(["for-each-ref", "refs/piton"]), "");
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
}

#[cfg(target_os = "linux")]
#[test]
fn the_supervisor_of_a_command_is_a_copy_with_its_own_name_and_group() {
    let project = project();
    let script =
        "cat /proc/$PPID/comm; cut -d' ' -f5 /proc/$PPID/stat; echo $PPID; ls /proc/$PPID/fd";
    let ran = project.exec(script);
    let printed = ran.stdout();
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some("piton-supervise"), "{ran}");
    let (group, pid) = (lines.next(), lines.next());
    assert!(pid.is_some());
    assert_eq!(group, pid, "{ran}");
    // It keeps nothing of the original open: three streams and what it has opened itself.
    let descriptors = lines.take_while(|line| line.parse::<u32>().is_ok()).count();
    assert!(descriptors < 10, "{ran}");
}
