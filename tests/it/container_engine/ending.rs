//! Containers are removed, no matter how the call ends.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Engine, assert_nothing_left, container, run};
use crate::harness::TestProject;
use crate::tool_run::{processes_with, until};

/// A tool that writes a file and then sleeps, ignoring SIGTERM.
fn sleeper(engine: &Engine, more: &str) -> TestProject {
    let config = "image: alpine:3\nvolumes: [\".:/project\"]\ncommand: [sh, -c, \"trap '' TERM; echo half > /project/half.txt; \
                  while true; do sleep 1; done\"]";
    container(engine.project().file("a.txt", "a\n"), "sleep", config, more).committed()
}

/// Starts piton and waits until the tool has written its file.
fn begun(project: &TestProject) -> Child {
    let mut command = project.command([
        "tool",
        "run",
        "sleep",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("piton starts");
    until("the tool has begun", || {
        project.root().join("half.txt").exists()
    });
    child
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("an id")).expect("an id");
    kill_process(pid, signal).expect("it is there");
}

#[test]
fn a_container_over_its_time_limit_is_ended_and_rolled_back() {
    let engine = Engine::start();
    let project = sleeper(&engine, "timeout: 2\n");
    let (ran, result) = run(&project, &["sleep", "--checkpoint", "auto"]);
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!("TIMED_OUT")),
        "{ran}"
    );
    assert_eq!(result["checkpoint"]["status"], "rolled_back", "{ran}");
    assert_nothing_left(&engine, &project);
    project.assert_clean();
}

#[test]
fn ctrl_c_ends_it() {
    let engine = Engine::start();
    let project = sleeper(&engine, "");
    let child = begun(&project);
    assert_eq!(engine.containers().len(), 1);
    send(child.id(), Signal::INT);
    let ran = project.ran(child.wait_with_output().expect("piton ends"));
    assert_eq!(
        (ran.code(), &ran.last_json()["code"]),
        (Some(130), &json!("INTERRUPTED")),
        "{ran}"
    );
    assert_nothing_left(&engine, &project);
    project.assert_clean();
}

#[test]
fn when_piton_is_killed_the_container_is_ended_all_the_same() {
    let engine = Engine::start();
    let project = sleeper(&engine, "");
    let mut child = begun(&project);
    child.kill().expect("killed");
    assert_eq!(child.wait().expect("it ended").signal(), Some(9));
    // The supervisor removes the container; no further piton command is needed.
    until("the container is gone", || engine.containers().is_empty());
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_nothing_left(&engine, &project);
    project.assert_clean();
}

#[test]
fn when_every_process_is_killed_the_next_command_ends_the_container() {
    let engine = Engine::start();
    let project = sleeper(&engine, "");
    let mut child = begun(&project);
    let folder = project.root();
    let below = |parent: u32| -> Vec<u32> {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))
            .unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    };
    // Kill the supervisors first, which would notice the death of the others.
    let supervisors: Vec<u32> = below(child.id())
        .into_iter()
        .filter(|pid| processes_with("__supervise").contains(pid))
        .collect();
    let workers: Vec<u32> = supervisors.iter().flat_map(|pid| below(*pid)).collect();
    assert!(
        !workers.is_empty(),
        "{supervisors:?} in {}",
        folder.display()
    );
    for pid in supervisors.iter().chain(&workers).chain([&child.id()]) {
        send(*pid, Signal::STOP);
    }
    for pid in workers.iter().chain(&supervisors).chain([&child.id()]) {
        send(*pid, Signal::KILL);
    }
    child.wait().expect("it ended");
    assert_eq!(engine.containers().len(), 1);
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_nothing_left(&engine, &project);
    project.assert_clean();
}

#[test]
fn a_container_that_piton_did_not_start_is_left_alone() {
    let engine = Engine::start();
    engine.podman(&[
        "run",
        "--detach",
        "--network",
        "none",
        "--name",
        "mine",
        "alpine:3",
        "sleep",
        "1000",
    ]);
    let project = container(
        engine.project(),
        "hi",
        "image: alpine:3\ncommand: [echo, hi]",
        "",
    )
    .committed();
    assert_eq!(run(&project, &["hi"]).0.code(), Some(0));
    assert_eq!(engine.containers(), ["mine"]);
}
