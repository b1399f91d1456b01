//! A run belongs to the repository in which it began: a copy does not continue it, a moved
//! repository does. What decides without a terminal says so.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Ran, TestProject};

const GATED: &str = "<step name=\"look\"><checkpoint type=\"decision\" gate=\"blocking\">Fine?</checkpoint></step>\n\
    <step name=\"note\"><execute item_type=\"tool\" item_id=\"note\"/></step>";

fn project() -> TestProject {
    TestProject::new()
        .file("notes.txt", "one\n")
        .file(
            ".ai/directives/gated.md",
            crate::mcp_runs::directive("gated", "auto", GATED),
        )
        .tool("note", "mutates_state: true", "echo more >> notes.txt")
        .committed()
}

fn piton_in(project: &TestProject, folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = project.hermetic(env!("CARGO_BIN_EXE_piton"), folder);
    project.ran(command.args(arguments).output().expect("piton starts"))
}

fn waiting(project: &TestProject, arguments: &[&str]) -> String {
    let ran = project.piton([&["run", "gated", "--format", "json"], arguments].concat());
    assert_eq!(ran.code(), Some(4), "{ran}");
    project
        .bash("ls -1 .git/piton/runs | grep -v '[.]' | sort -r | head -1")
        .trim()
        .to_owned()
}

fn copy(project: &TestProject) -> PathBuf {
    project.bash("cp -a . ../copy");
    project.root().with_file_name("copy")
}

#[test]
fn a_copy_of_a_repository_does_not_continue_its_runs() {
    let project = project();
    let run = waiting(&project, &[]);
    let copy = copy(&project);
    for arguments in [
        &["approve", &run, "--yes"][..],
        &["approve", "--yes"],
        &["reject", &run],
        &["resume", &run],
    ] {
        let ran = piton_in(&project, &copy, arguments);
        assert_eq!(ran.code(), Some(1), "{arguments:?} {ran}");
        assert!(
            ran.stderr().contains("of which this one is a copy")
                && ran.stderr().contains("piton cancel"),
            "{ran}"
        );
    }
    assert_eq!(piton_in(&project, &copy, &["status"]).code(), Some(0));
    let cancelled = piton_in(&project, &copy, &["cancel", &run]);
    assert_eq!(cancelled.code(), Some(0), "{cancelled}");
    assert_eq!(piton_in(&project, &copy, &["run", "gated"]).code(), Some(4));
    // The original still waits.
    assert_eq!(project.read("notes.txt"), "one\n");
    project.piton(["approve", &run, "--yes"]).succeeded();
    assert_eq!(project.read("notes.txt"), "one\nmore\n");
}

#[test]
fn a_copy_does_not_approve_in_a_worktree_of_the_original() {
    let project = project();
    let run = waiting(&project, &["--worktree"]);
    let copy = copy(&project);
    let ran = piton_in(&project, &copy, &["approve", &run, "--yes"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("of which this one is a copy"),
        "{ran}"
    );
    let status = project.piton(["status", &run, "--format", "json"]);
    assert!(status.stdout().contains("\"waiting\""), "{status}");
    project.piton(["approve", &run, "--yes"]).succeeded();
}

#[test]
fn a_renamed_repository_continues_its_runs() {
    let project = project();
    let run = waiting(&project, &[]);
    let moved = project.root().with_file_name("renamed");
    fs::rename(project.root(), &moved).expect("renamed");
    let ran = piton_in(&project, &moved, &["approve", &run, "--yes"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    fs::rename(&moved, project.root()).expect("renamed back");
    assert_eq!(project.read("notes.txt"), "one\nmore\n");
}

#[test]
fn the_identity_of_a_repository_is_private_and_a_lost_id_stops_nothing() {
    let project = project();
    let run = waiting(&project, &[]);
    // It never leaves the repository, so it is in the private part of the line.
    let started = project.bash(&format!(
        "head -1 .git/piton/runs/{run}/journal.jsonl | cut -f2"
    ));
    let started: Value = serde_json::from_str(&started).expect("a line");
    let identity = &started["private"]["/repository"];
    assert!(identity["inode"].is_u64(), "{started}");
    assert_eq!(identity["id"], project.read(".git/piton/id").trim());
    // The id alone does not matter where the git directory is the same.
    project.bash("rm .git/piton/id");
    project.piton(["approve", &run, "--yes"]).succeeded();
}

#[test]
fn without_a_terminal_an_approval_must_be_explicit_and_says_so() {
    let project = project();
    let run = waiting(&project, &[]);
    let ran = project.piton(["approve", &run]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("--yes"), "{ran}");
    assert_eq!(project.read("notes.txt"), "one\n");
    project.piton(["approve", &run, "--yes"]).succeeded();
    let found = project
        .bash("cat .git/piton/runs/*/journal.jsonl | grep '\"approver\"' | head -1 | cut -f1");
    let answered: Value = serde_json::from_str(&found).expect("a line");
    assert_eq!(answered["event"]["approver"]["channel"], "script");
}

#[test]
fn a_step_does_not_decide_by_removing_the_mark_of_its_run() {
    let project = project();
    let piton = env!("CARGO_BIN_EXE_piton");
    for command in [
        format!("{piton} approve --item note --yes"),
        format!("env -i HOME=\"$HOME\" PATH=\"$PATH\" {piton} approve --item note --yes"),
        format!(
            "env -i HOME=\"$HOME\" PATH=\"$PATH\" setsid -w sh -c '{piton} approve --item note --yes; exit $?'"
        ),
    ] {
        let ran = project.exec(&command);
        assert_ne!(ran.code(), Some(0), "{command}: {ran}");
        assert!(
            ran.stderr().contains("started by a step of run"),
            "{command}: {ran}"
        );
    }
    let consents = project
        .bash("cat .git/piton/runs/*/journal.jsonl | grep -c '\"type\":\"consented\"' || true");
    assert_eq!(consents.trim(), "0");
    // The same command of the person is carried out.
    project
        .piton(["approve", "--item", "note", "--yes"])
        .succeeded();
}
