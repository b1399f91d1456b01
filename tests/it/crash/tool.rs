//! Crash tests for tool calls, which also have a supervisor, a result and a saved output.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use piton::journal::Event;

use crate::harness::{MEETING, TestProject};

use super::leftover::{awaited, is_alive};
use super::scene::{Scene, was_killed};
use super::{Operation, PLACES, assert_recovers, pictures};

const AUTO: &[&str] = &["tool", "run", "work", "--checkpoint", "auto"];
const FAILING: &[&str] = &["tool", "run", "broken", "--checkpoint", "auto"];
const EXPLICIT: &[&str] = &["tool", "run", "work"];

/// Checks that every run with a tool call records the tool and how it ended, and that `verify`
/// accepts it.
pub(super) fn assert_told(scene: &Scene, told: &str) {
    let runs = scene.project.root().join(".git/piton/runs");
    for run in piton::journal::list(&runs).expect("a list of runs") {
        let path = piton::journal::path_of(&runs, run);
        let Ok(contents) = piton::journal::read(&path) else {
            continue;
        };
        let (mut called, mut summed_up) = (Vec::new(), None);
        for record in &contents.records {
            match &record.event {
                Event::StepStarted { tool, .. } => called.push(tool.clone()),
                Event::RunFinished(summary) => {
                    summed_up = Some(
                        summary
                            .steps
                            .iter()
                            .map(|step| step.tool.clone())
                            .collect::<Vec<_>>(),
                    );
                }
                _ => {}
            }
        }
        let is_cut_short = contents.records.is_empty();
        assert!(
            is_cut_short || summed_up.as_ref() == Some(&called),
            "{told}: {called:?} became {summed_up:?}"
        );
    }
    let ran = scene.project.piton(["verify", "--all"]);
    assert_eq!(ran.code(), Some(0), "{told}: {ran}");
}

#[test]
fn a_tool_whose_changes_are_committed_survives_a_kill_at_every_place() {
    Operation {
        before: &[],
        command: AUTO,
    }
    .survives(&PLACES, &["recover"], 38);
}

#[test]
fn a_tool_that_is_rolled_back_survives_a_kill_at_every_place() {
    Operation {
        before: &[],
        command: FAILING,
    }
    .survives(&PLACES, &["recover"], 38);
}

#[test]
fn a_tool_in_explicit_mode_survives_a_kill_at_every_place() {
    Operation {
        before: &[],
        command: EXPLICIT,
    }
    .survives(&PLACES, &["recover"], 22);
}

#[test]
fn an_undo_of_a_tool_survives_a_kill_at_every_place() {
    Operation {
        before: &[AUTO],
        command: &["undo"],
    }
    .survives(&PLACES, &["recover"], 30);
}

#[test]
fn the_next_call_of_a_tool_recovers_the_last_by_itself() {
    const TOUCHED: [&str; 9] = [
        "tool-prepared",
        "tool-announced",
        "tool-ended",
        "result-read",
        "after-taken",
        "commit-decided",
        "tool-settled",
        "output-written",
        "output-saved",
    ];
    Operation {
        before: &[],
        command: AUTO,
    }
    .survives(&TOUCHED, &["exec", "--", "true"], 9);
}

#[test]
fn a_recovery_of_a_tool_survives_a_kill() {
    Operation {
        before: &[],
        command: AUTO,
    }
    .survives_a_second_kill("result-read", 15);
}

#[test]
fn a_journal_that_cannot_be_written_in_the_middle_of_a_tool_is_a_failure_and_loses_nothing() {
    for command in [AUTO, FAILING, EXPLICIT] {
        let operation = Operation {
            before: &[],
            command,
        };
        let scene = operation.scene();
        let pictures = pictures(&scene, command);
        let mut failures = 0;
        for place in ["journal-append", "journal-sync"] {
            for pass in 1.. {
                scene.reset();
                let armed = format!("{place}:{pass}=error");
                let output = scene.armed(command, &armed);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                if !said.contains("No space left") {
                    break;
                }
                failures += 1;
                assert!(
                    !output.status.success(),
                    "{armed}: a failure was called success\n{said}"
                );
                assert_recovers(&scene, &["recover"], &pictures, &armed);
                assert_told(&scene, &armed);
            }
        }
        // Each line is written, and those that announce an action are synced.
        assert!(failures >= 10, "only {failures} lines were written");
    }
}

#[test]
fn a_tool_and_its_hidden_processes_die_with_piton() {
    let scene = Scene::new();
    let tmp = scene.project.root().with_file_name("tmp");
    // One process leaves its group and session and clears its environment.
    let script = format!(
        "env -i /usr/bin/env setsid bash -c 'echo $$ > \"$0\"/escaped; while :; do sleep 0.02; done' '{0}' & \
         echo begun > begun.txt; rm gone.txt; echo $$ > '{0}/leader'; while :; do echo x >> ticks.txt; sleep 0.02; done",
        tmp.display()
    );
    fs::write(scene.project.root().join(".ai/tools/work/run.sh"), script).expect("a script");
    let before = scene.picture();
    let mut command = scene.project.command(AUTO);
    let mut piton = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    let pids = [awaited(&tmp.join("leader")), awaited(&tmp.join("escaped"))];
    awaited(&scene.project.root().join("ticks.txt"));
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let ran = scene.project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        pids.map(|pid| is_alive(&pid)),
        [false, false],
        "the tool still runs"
    );
    let picture = scene.picture();
    assert!(
        picture == before,
        "{ran}\nfound {picture:?}\nexpected {before:?}"
    );
    scene.assert_sound("a tool that outlives piton", &picture);
    assert_told(&scene, "a tool that outlives piton");
}

#[test]
fn files_that_the_user_changes_after_an_interrupted_tool_are_kept() {
    const USERS: &str =
        "echo later >> mine.txt; echo later > later.txt; rm private.txt; echo later > private.txt";
    let script =
        "echo new line >> edited.txt; rm gone.txt; echo made > made.txt; chmod 600 private.txt\n";
    let scenes = [Scene::new(), Scene::new()];
    for scene in &scenes {
        fs::write(scene.project.root().join(".ai/tools/work/run.sh"), script).expect("a script");
    }
    let [scene, twin] = scenes;
    twin.project.bash(USERS);
    assert!(was_killed(&scene.armed(AUTO, "result-read")));
    // Changes within three seconds of the death count as the tool's, and inode change times cannot
    // be set, so wait.
    sleep(Duration::from_secs(5));
    scene.project.bash(USERS);
    let ran = scene.project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let (picture, expected) = (scene.picture(), twin.picture());
    assert!(
        picture == expected,
        "{ran}\nfound {picture:?}\nexpected {expected:?}"
    );
    scene.assert_sound("later changes", &picture);
    assert_told(&scene, "later changes");
}

#[test]
fn the_users_changes_are_kept_at_every_kill_point() {
    for place in [
        "tool-ended",
        "after-taken",
        "commit-prepared",
        "commit-decided",
    ] {
        let project = TestProject::new()
            .tool(
                "work",
                "mutates_state: true",
                &format!("echo x >> own.txt; {MEETING}"),
            )
            .file("own.txt", "own\n")
            .file("theirs.txt", "theirs\n")
            .committed()
            .variable("PITON_FAILPOINT", place);
        let ran = project.piton_while("echo more >> theirs.txt", AUTO);
        assert!(was_killed(&ran.output), "{place}: {ran}");
        let project = project.variable("PITON_FAILPOINT", "none");
        let ran = project.piton(["recover"]);
        assert_eq!(ran.code(), Some(0), "{place}: {ran}");
        let own = if place == "commit-decided" {
            "own\nx\n"
        } else {
            "own\n"
        };
        assert_eq!(
            [project.read("own.txt"), project.read("theirs.txt")],
            [own, "theirs\nmore\n"],
            "{place}: {ran}"
        );
        let ran = project.piton(["verify", "--all"]);
        assert_eq!(ran.code(), Some(0), "{place}: {ran}");
    }
}
