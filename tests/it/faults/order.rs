//! Which step is the newest: by a counter, not by clocks.

use std::fs;

use super::run;
use crate::harness::{Ran, TestProject};

fn at(project: &TestProject, time: &str, words: &[&str]) -> Ran {
    let output = project
        .command(words)
        .env("PITON_TEST_CLOCK", time)
        .output()
        .expect("piton starts");
    project.ran(output)
}

#[test]
fn undo_takes_the_last_step_although_the_clock_went_back() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let first = at(
        &project,
        "2026-05-01T12:00:00Z",
        &[
            "exec",
            "--name",
            "first",
            "--",
            "sh",
            "-c",
            "echo 1 > first",
        ],
    );
    assert_eq!(first.code(), Some(0), "{first}");
    let second = at(
        &project,
        "2026-03-01T12:00:00Z",
        &[
            "exec",
            "--name",
            "second",
            "--",
            "sh",
            "-c",
            "echo 2 > second",
        ],
    );
    assert_eq!(second.code(), Some(0), "{second}");
    let undone = at(&project, "2026-02-01T12:00:00Z", &["undo"]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert!(undone.stderr().contains("undo second"), "{undone}");
    assert_eq!(project.files(), ["a.txt", "first"]);
    let redone = at(&project, "2026-01-01T12:00:00Z", &["redo"]);
    assert_eq!(redone.code(), Some(0), "{redone}");
    assert_eq!(project.files(), ["a.txt", "first", "second"]);
    for expected in [vec!["a.txt", "first"], vec!["a.txt"]] {
        let undone = at(&project, "2025-12-01T12:00:00Z", &["undo"]);
        assert_eq!(undone.code(), Some(0), "{undone}");
        assert_eq!(project.files(), expected);
    }
    project.assert_clean();
}

#[test]
fn what_is_left_on_disk_is_judged_in_the_order_of_the_steps_although_the_clock_went_back() {
    let project = TestProject::new().file("a.txt", "0\n").committed();
    for (time, text) in [("2026-05-01T12:00:00Z", "1"), ("2026-03-01T12:00:00Z", "2")] {
        let script = format!("echo {text} >> a.txt");
        let ran = at(
            &project,
            time,
            &[
                "exec",
                "--checkpoint",
                "explicit",
                "--",
                "sh",
                "-c",
                &script,
            ],
        );
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    run(&project, &["checkpoint"]);
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "0\n1\n2\n");
    project.assert_clean();
}

#[test]
fn a_step_beside_a_waiting_run_is_undone_after_the_steps_that_followed_it() {
    let prose = "# wait\n\n```xml\n<directive name=\"wait\" version=\"1.0.0\">\n  <metadata>\n    \
        <description>Waits</description>\n    <permissions>\n      <execute resource=\"tool\" id=\"last\"/>\n      \
        <write resource=\"filesystem\" path=\"**\"/>\n    </permissions>\n  </metadata>\n  <process>\n    \
        <step name=\"words\"><action>Do it.</action></step>\n    \
        <step name=\"last\"><execute item_type=\"tool\" item_id=\"last\"/></step>\n  </process>\n</directive>\n```\n";
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .tool("last", "mutates_state: true", "echo last > last.txt")
        .file(".ai/directives/wait.md", prose)
        .committed();
    let waiting = project.piton(["run", "wait", "--checkpoint", "auto"]);
    assert_eq!(waiting.code(), Some(4), "{waiting}");
    run(
        &project,
        &[
            "exec",
            "--name",
            "beside",
            "--",
            "sh",
            "-c",
            "echo beside > beside.txt",
        ],
    );
    let resumed = project.piton(["resume"]);
    assert_eq!(resumed.code(), Some(0), "{resumed}");
    assert!(project.root().join("last.txt").exists());
    let undone = project.piton(["undo"]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert!(
        !project.root().join("last.txt").exists(),
        "the newest step is that of the run: {undone}"
    );
    assert!(project.root().join("beside.txt").exists());
}

#[test]
fn undo_names_a_step_that_could_not_be_recorded_and_takes_no_other_one() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    run(
        &project,
        &[
            "exec",
            "--name",
            "good",
            "--",
            "sh",
            "-c",
            "echo good > good.txt",
        ],
    );
    let project = project.variable("PITON_CHECKPOINT_MAX_TOTAL_SIZE", "1000");
    let failed = project.piton([
        "exec",
        "--name",
        "big",
        "--",
        "sh",
        "-c",
        "seq 2000 > big.txt",
    ]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    let refused = project.piton(["undo"]);
    assert_eq!(refused.code(), Some(1), "{refused}");
    assert!(
        refused
            .stderr()
            .contains("(`big`) cannot be undone: its changes could not be recorded"),
        "{refused}"
    );
    assert!(
        refused
            .stderr()
            .contains("undoes `good`, the step before it"),
        "{refused}"
    );
    assert_eq!(project.read("good.txt"), "good\n");
    // Naming the older step is unambiguous.
    fs::remove_file(project.root().join("big.txt")).expect("a file");
    let commit = project.git(["rev-parse", "HEAD"]);
    run(&project, &["undo", commit.trim()]);
    assert!(!project.root().join("good.txt").exists());
}

#[test]
fn the_counter_continues_when_its_file_is_gone() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let ran = at(
        &project,
        "2026-05-01T12:00:00Z",
        &["exec", "--", "sh", "-c", "echo 1 > first"],
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    fs::remove_file(project.root().join(".git/piton/order")).expect("the counter");
    let ran = at(
        &project,
        "2026-03-01T12:00:00Z",
        &["exec", "--", "sh", "-c", "echo 2 > second"],
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    run(&project, &["undo"]);
    assert_eq!(project.files(), ["a.txt", "first"]);
}
