//! Cases where piton cannot tell the step's changes from the user's: a roll back asks before it
//! removes anything.
//!
//! A step cannot be watched inside of another watched step, because the kernel allows one listener
//! for system calls.

use serde_json::json;

use crate::harness::{Ran, TestProject};
use crate::run::terminal::at_a_terminal;

const PITON: &str = env!("CARGO_BIN_EXE_piton");

/// A repository whose steps cannot be watched, because the outer command is watched.
fn inner() -> TestProject {
    TestProject::new()
        .tool(
            "fails",
            "mutates_state: true",
            "echo step >> a.txt; echo step > made.txt; exit 1",
        )
        .tool("works", "mutates_state: true", "echo step >> a.txt")
        .file("a.txt", "one\n")
        .committed()
        .variable("TERM", "xterm")
}

/// Runs piton in a project from a command that is watched itself.
fn unseen(project: &TestProject, words: &[&str]) -> Ran {
    let outer = TestProject::new().file("x", "x\n").committed();
    let root = project.root().display().to_string();
    let mut command = project.command([
        "-C",
        outer.root().to_str().expect("a path"),
        "-q",
        "exec",
        "--",
    ]);
    command.args([PITON, "-C", &root]).args(words);
    project.ran(command.output().expect("piton starts"))
}

const FAILS: &[&str] = &[
    "exec",
    "--",
    "sh",
    "-c",
    "echo step >> a.txt; echo step > made.txt; exit 7",
];

#[test]
fn without_a_terminal_the_files_are_kept_and_named_and_the_status_tells() {
    for words in [FAILS, &["tool", "run", "fails", "--checkpoint", "auto"]] {
        let project = inner();
        let ran = unseen(&project, words);
        assert_eq!(ran.code(), Some(1), "{ran}");
        let told = "nothing was rolled back, because it is unknown who made these changes: another program already \
                    watches its system calls: Device or resource busy (os error 16); kept: `a.txt`, `made.txt` \
                    [NOT_ATTRIBUTED]";
        assert!(ran.stderr().contains(told), "{ran}");
        assert_eq!(project.read("a.txt"), "one\nstep\n", "{ran}");
        // Run the command that the hint names.
        let undo = ran.stderr();
        let undo = undo
            .split('`')
            .find(|part| part.starts_with("piton undo "))
            .expect("a hint")
            .to_owned();
        let undone = project.piton(undo.split(' ').skip(1));
        assert_eq!(undone.code(), Some(0), "{undone}");
        project.assert_clean();
        assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    }
}

#[test]
fn a_commit_says_that_it_may_hold_more_than_the_step() {
    for words in [
        &["exec", "--", "sh", "-c", "echo step >> a.txt"][..],
        &["tool", "run", "works", "--checkpoint", "auto"],
    ] {
        let project = inner();
        let ran = unseen(&project, words);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(
            ran.stderr()
                .contains("it may contain changes of another process: another program"),
            "{ran}"
        );
        assert_eq!(project.git(["show", "HEAD:a.txt"]), "one\nstep\n");
    }
}

#[test]
fn a_step_that_changed_nothing_is_asked_nothing() {
    let project = inner();
    let ran = unseen(&project, &["exec", "--", "sh", "-c", "exit 7"]);
    assert_eq!(ran.code(), Some(7), "{ran}");
}

#[test]
fn unwatched_needs_no_answer() {
    let project = inner();
    let words = [&["exec", "--unwatched"], &FAILS[1..]].concat();
    let ran = unseen(&project, &words);
    assert_eq!(ran.code(), Some(7), "{ran}");
    project.assert_clean();
}

#[test]
fn at_a_terminal_the_person_is_asked() {
    for (answer, code, text) in [
        ("y\n", 7, "one\n"),
        ("n\n", 1, "one\nstep\n"),
        ("\n", 1, "one\nstep\n"),
    ] {
        let project = inner();
        let outer = TestProject::new().file("x", "x\n").committed();
        let (top, root) = (
            outer.root().display().to_string(),
            project.root().display().to_string(),
        );
        let words = [&["-C", &top, "-q", "exec", "--", PITON, "-C", &root], FAILS].concat();
        let talk = json!([[
            "  a.txt\r\n  made.txt\r\nRoll back all of them? [y/N] ",
            "type",
            answer
        ]]);
        let seen = at_a_terminal(&project, &talk, &words);
        assert_eq!(seen.status, Some(code), "{}", seen.seen);
        assert_eq!(project.read("a.txt"), text, "{answer:?} {}", seen.seen);
    }
}

#[test]
fn a_recovery_without_the_record_of_the_step_keeps_what_may_be_the_users() {
    let project = inner().variable("PITON_FAILPOINT", "tool-ended");
    assert_eq!(project.piton(FAILS).code(), None);
    let project = project.variable("PITON_FAILPOINT", "none");
    // As after a reboot.
    project.bash("rm .git/piton/runs/*/touched-1");
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("kept: `a.txt`, `made.txt`"), "{ran}");
    assert_eq!(project.read("a.txt"), "one\nstep\n", "{ran}");
    let undone = project.piton(["undo"]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    project.assert_clean();
}

#[test]
fn a_recovery_of_a_directive_names_the_files_that_it_keeps() {
    let project = inner()
        .directive("both", ["works", "fails"])
        .committed()
        .variable("PITON_FAILPOINT", "tool-ended");
    let run = ["run", "both", "--checkpoint", "auto"];
    assert_eq!(project.piton(run).code(), None);
    let project = project.variable("PITON_FAILPOINT", "none");
    // As after a reboot.
    project.bash("rm .git/piton/runs/*/touched-1");
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let told = "kept: `a.txt`; you decide whether it is done, failed, or run again";
    assert!(ran.stderr().contains(told), "{ran}");
    assert_eq!(project.read("a.txt"), "one\nstep\n", "{ran}");
}

#[test]
fn a_violation_is_still_a_denial() {
    let project = inner();
    let ran = unseen(
        &project,
        &[
            "--format",
            "json",
            "exec",
            "--writes",
            "b/**",
            "--",
            "sh",
            "-c",
            "echo step >> a.txt",
        ],
    );
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(ran.last_json()["error"]["code"], "NOT_ATTRIBUTED", "{ran}");
    assert_eq!(project.read("a.txt"), "one\nstep\n", "{ran}");
}
