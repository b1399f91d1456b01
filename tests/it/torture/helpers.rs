//! Kills of piton's helper processes: the supervisor of a command, and the guard of a lock.
//!
//! Each is killed at its calls. A guard does its work only after piton is gone, so it is also killed after a
//! failpoint has killed piton with the lock in its hands.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Output;

use super::calls::SystemCall;
use super::check::Expected;
use super::scenario::{self, Scenario, TortureScene};
use super::tracer::{self, Member, Strike, Traced};
use super::{Findings, is_tried};

/// Places at which piton holds a lock of git.
const LOCKED: [&str; 3] = ["index-locked", "commit-decided", "commit-ref-moved"];

/// The suite kills at one of this many calls.
const SAMPLED: usize = 13;

/// The calls of a supervisor or a guard.
fn is_call_of_helper(member: Member, _: &SystemCall) -> bool {
    member > 0
}

/// Removes the lock of the command's own `git`, which dies with the supervisor: it is a file of its
/// own, while a lock of piton is a hard link.
fn remove_lock_of_command(scene: &TortureScene) {
    let lock = scene.scene.project.root().join(".git/index.lock");
    if fs::metadata(&lock).is_ok_and(|found| found.nlink() == 1) {
        fs::remove_file(lock).expect("the lock is removed");
    }
}

/// Runs a command; with a place, piton dies there.
fn traced(
    scene: &TortureScene,
    command: &[String],
    place: Option<&str>,
    strike: Option<Strike>,
) -> Traced {
    scene.reset_all();
    let mut command = scene.scene.project.command(command);
    command.envs(place.map(|place| ("PITON_FAILPOINT", place)));
    tracer::run(command, &scene.tmp(), is_call_of_helper, strike)
}

/// Kills each helper of a command at its calls.
fn kill_helpers(set: &str, scenario: &Scenario, place: Option<&str>) {
    let scene = scenario.scene();
    let command = scenario.command(&scene);
    let expected = Expected::of(&scene, scenario);
    let helpers = traced(&scene, &command, place, None).calls;
    let strikes = helpers
        .iter()
        .enumerate()
        .flat_map(|(member, calls)| (1..=calls.len()).map(move |number| Strike { member, number }));
    let mut findings = Findings::new(set, scenario);
    for (number, strike) in strikes.enumerate() {
        if !is_tried(scenario, number, SAMPLED) {
            continue;
        }
        let mut killed = traced(&scene, &command, place, Some(strike));
        if !killed.was_struck {
            findings.missed += 1;
            continue;
        }
        remove_lock_of_command(&scene);
        let told = format!(
            "{place:?}, {strike:?}, {:?}",
            killed.calls[strike.member].pop()
        );
        let checked = settled(&scene, place, &killed.output)
            .and_then(|()| expected.check(&scene, scenario, None, &killed.output));
        findings.add(&told, checked);
    }
    assert!(
        helpers.len() > 1,
        "{}: no helper was started",
        scenario.name
    );
    findings.assert_none();
}

/// With piton and its guard gone, the lock stays until the next command of piton.
fn settled(scene: &TortureScene, place: Option<&str>, output: &Output) -> Result<(), String> {
    if place.is_none() {
        return Ok(());
    }
    let recovered = scene.scene.project.piton(["recover"]);
    match recovered.code() {
        Some(0) => Ok(()),
        _ => Err(format!("{output:?}\n{recovered}")),
    }
}

#[test]
fn helpers_of_a_command_that_works() {
    let scenario = scenario::exec_that_commits();
    kill_helpers("kills of supervisor and guard", &scenario, None);
}

#[test]
fn helpers_of_a_command_that_fails() {
    let scenario = scenario::exec_that_fails();
    kill_helpers("kills of supervisor and guard", &scenario, None);
}

#[test]
fn helpers_of_a_tool() {
    let scenario = scenario::tool_that_works();
    kill_helpers("kills of supervisor and guard", &scenario, None);
}

#[test]
fn helpers_of_an_undo() {
    let scenario = scenario::undo_of_a_commit();
    kill_helpers("kills of supervisor and guard", &scenario, None);
}

#[test]
fn guard_of_a_lock_after_piton() {
    let scenario = scenario::exec_that_commits();
    for place in LOCKED {
        kill_helpers("kills of piton, then its guard", &scenario, Some(place));
    }
}
