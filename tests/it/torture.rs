//! Torture tests: each writing command is killed, or gets an I/O error, at every system call that
//! changes a file.
//!
//! `strace` lists the calls of an undisturbed run, then one run per call is disturbed there
//! ([`point`]). Afterwards the repository must be as before the command or as after it ([`check`]).
//! [`scenario`] has the commands. The suite tries a fixed sample; `./scripts/torture` tries all of
//! them.

#[path = "torture/check.rs"]
mod check;
#[path = "torture/full_disk.rs"]
mod full_disk;
#[path = "torture/point.rs"]
mod point;
#[path = "torture/scenario.rs"]
mod scenario;

use crate::crash::chance::{asked, tally};
use check::Expected;
use point::{Fault, Point};
use scenario::Scenario;

/// The suite tries one of this many points.
const SAMPLED: usize = 37;

/// Disturbs a command at its points; panics with every point that went wrong.
fn disturb(scenario: &Scenario, set: &str, faults: &[Fault]) {
    let scene = scenario.scene();
    let command = scenario.command(&scene);
    let expected = Expected::of(&scene, &command);
    scene.reset_all();
    let points = point::points(&scene, &command);
    assert!(points.len() >= scenario.at_least, "{}: only {} points", scenario.name, points.len());
    let seed = usize::try_from(asked("PITON_TORTURE_SEED").unwrap_or(7)).expect("a number");
    let is_all = asked("PITON_TORTURE_ROUNDS").is_some();
    let (mut tried, mut missed, mut wrong) = (0_u64, 0_u64, Vec::new());
    for (number, point) in points.iter().enumerate() {
        let fault = &faults[(number + seed) % faults.len()];
        if !fault.suits(point) || !is_all && !(number + seed + scenario.name.len()).is_multiple_of(SAMPLED) {
            continue;
        }
        scene.reset_all();
        let ran = point::disturbed(&scene, &command, point, fault);
        let told = format!("{}: {fault:?} at {point:?}", scenario.name);
        if *fault == Fault::Kill && !point::was_killed(&ran) {
            missed += 1;
            continue;
        }
        tried += 1;
        if let Err(why) = expected.check(&scene, scenario, fault, &ran) {
            wrong.push(format!("{told}: {why}\n"));
        }
    }
    tally(set, tried);
    tally("left over", wrong.len() as u64);
    // A kill is missed if a run happens to make fewer calls than the counted one.
    assert!(missed <= 2 + tried / 20, "{}: {missed} points were not reached", scenario.name);
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

fn kill(scenario: &Scenario) {
    disturb(scenario, "kills at system calls", &[Fault::Kill]);
}

/// One kind of error at each point of a sample; each kind at all points under torture.
fn fail(scenario: &Scenario) {
    let kinds = [Fault::Error("ENOSPC"), Fault::Error("EIO"), Fault::Error("EDQUOT"), Fault::Error("EINTR")];
    if asked("PITON_TORTURE_ROUNDS").is_some() {
        disturb(scenario, "injected errors", &kinds[..1]);
        disturb(scenario, "injected errors", &kinds[1..2]);
        disturb(scenario, "injected errors", &kinds[3..]);
    } else {
        disturb(scenario, "injected errors", &kinds[..3]);
    }
}

/// Two tests for each scenario.
macro_rules! tortured {
    ($($name:ident),+ $(,)?) => {
        mod kills {
            $(#[test] fn $name() { super::kill(&super::scenario::$name()); })+
        }
        mod errors {
            $(#[test] fn $name() { super::fail(&super::scenario::$name()); })+
        }
    };
}

tortured!(
    exec_that_commits,
    exec_that_fails,
    exec_in_explicit_mode,
    checkpoint_of_steps,
    checkpoint_of_a_path,
    checkpoint_of_everything,
    undo_of_a_commit,
    undo_of_what_is_not_committed,
    redo,
    rollback_hard,
    tool_that_works,
    tool_that_fails,
    run_of_a_directive,
    run_of_a_directive_that_fails,
    resume_of_a_run_that_was_cut_off,
    finish_with_keep,
    finish_with_squash,
    finish_with_squash_on_the_branch,
    finish_with_branch,
    recovery_of_a_commit,
    recovery_of_a_roll_back,
    recovery_of_a_hard_rollback,
    gc,
    init,
    hooks_install,
    hooks_uninstall,
    new_tool,
    sign,
    migrate,
    roll_back_of_filtered_files,
    undo_of_filtered_files,
    roll_back_in_a_sparse_checkout,
    undo_in_a_sparse_checkout,
);

/// A point is identified by its call; two runs of the same command make the same calls.
#[test]
fn the_points_of_a_command_are_found_again() {
    let scenario = scenario::exec_that_fails();
    let scene = scenario.scene();
    scene.save_all();
    let command = scenario.command(&scene);
    let first = point::points(&scene, &command);
    scene.reset_all();
    let second = point::points(&scene, &command);
    let calls = |points: &[Point]| points.iter().map(|point| point.call.clone()).collect::<Vec<_>>();
    assert_eq!(calls(&first), calls(&second));
}
