//! Torture tests: each writing command is killed, or gets an I/O error, at every system call that
//! changes a file.
//!
//! An undisturbed run shows the calls, then one run per call is disturbed there: killed by a tracer
//! ([`tracer`]), or with an error from `strace` ([`point`]). Afterwards the repository must be as before
//! the command or as after it ([`check`]). [`scenario`] has the commands. The suite tries a fixed sample;
//! `./scripts/torture` tries all of them.

#[path = "torture/calls.rs"]
mod calls;
#[path = "torture/check.rs"]
mod check;
#[path = "torture/full_disk.rs"]
mod full_disk;
#[path = "torture/helpers.rs"]
mod helpers;
#[path = "torture/point.rs"]
mod point;
#[path = "torture/scenario.rs"]
mod scenario;
#[path = "torture/tracer.rs"]
mod tracer;

use crate::crash::chance::{asked, tally};
use calls::SystemCall;
use check::Expected;
use point::INJECTED;
use scenario::{Scenario, TortureScene};
use tracer::{Member, Strike, Traced};

/// The suite kills at one of this many calls.
const KILLS_SAMPLED: usize = 73;
/// The suite injects one error at one of this many calls.
const ERRORS_SAMPLED: usize = 73;

/// Which of the disturbances of a scenario are tried: all of them under torture, unless they are alike.
fn is_tried(scenario: &Scenario, number: usize, sampled: usize) -> bool {
    let sampled = match asked("PITON_TORTURE_ROUNDS") {
        Some(_) => scenario.alike,
        None => sampled * scenario.alike,
    };
    (number + seed() + scenario.name.len()).is_multiple_of(sampled)
}

fn seed() -> usize {
    usize::try_from(asked("PITON_TORTURE_SEED").unwrap_or(7)).expect("a number")
}

/// What went wrong in a set, counted as it goes on.
struct Findings {
    set: String,
    tried: usize,
    missed: usize,
    wrong: Vec<String>,
}

impl Findings {
    fn new(set: &str, scenario: &Scenario) -> Self {
        Self {
            set: format!("{set}: {}", scenario.name),
            tried: 0,
            missed: 0,
            wrong: Vec::new(),
        }
    }

    fn add(&mut self, told: &str, checked: Result<(), String>) {
        self.tried += 1;
        tally(&self.set, 1);
        if let Err(why) = checked {
            tally("left over", 1);
            let why = format!("{}: {told}: {why}\n", self.set);
            report(&why);
            self.wrong.push(why);
        }
    }

    fn assert_none(&self) {
        // A disturbance is missed if a run happens to make other calls than the undisturbed one.
        assert!(
            self.missed <= 2 + self.tried / 20,
            "{}: {} points were not reached",
            self.set,
            self.missed
        );
        let wrong = &self.wrong;
        assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Shows a failure at once under torture, which goes on for hours.
#[expect(clippy::print_stderr, reason = "the test goes on")]
fn report(why: &str) {
    if asked("PITON_TORTURE_ROUNDS").is_some() {
        eprintln!("{why}");
    }
}

/// Runs a command under the tracer.
fn traced(
    scene: &TortureScene,
    command: &[String],
    is_counted: tracer::IsCounted,
    strike: Option<Strike>,
) -> Traced {
    let command = scene.scene.project.command(command);
    tracer::run(command, &scene.tmp(), is_counted, strike)
}

/// The calls of piton itself, in any of its threads, that change a file.
fn is_change_of_piton(member: Member, call: &SystemCall) -> bool {
    member == 0 && call.changes_a_file()
}

/// Kills a command at its calls.
fn kill(scenario: &Scenario) {
    let scene = scenario.scene();
    let command = scenario.command(&scene);
    let expected = Expected::of(&scene, scenario);
    scene.reset_all();
    let calls = traced(&scene, &command, is_change_of_piton, None)
        .calls
        .swap_remove(0);
    assert!(
        calls.len() >= scenario.at_least,
        "{}: only {} calls",
        scenario.name,
        calls.len()
    );
    let mut findings = Findings::new("kills at system calls", scenario);
    for number in (1..=calls.len()).filter(|number| is_tried(scenario, *number, KILLS_SAMPLED)) {
        scene.reset_all();
        let strike = Strike { member: 0, number };
        let mut killed = traced(&scene, &command, is_change_of_piton, Some(strike));
        if !killed.was_struck {
            findings.missed += 1;
            continue;
        }
        let told = format!("killed at call {number}, {:?}", killed.calls[0].pop());
        findings.add(
            &told,
            expected.check(&scene, scenario, None, &killed.output),
        );
    }
    findings.assert_none();
}

/// Lets calls of a command fail; each kind of error at all calls under torture.
fn fail(scenario: &Scenario) {
    let scene = scenario.scene();
    let command = scenario.command(&scene);
    let expected = Expected::of(&scene, scenario);
    scene.reset_all();
    let points = point::points(&scene, &command);
    let mut findings = Findings::new("injected errors", scenario);
    let tries = |number: usize| -> &[&str] {
        if asked("PITON_TORTURE_ROUNDS").is_some() {
            &INJECTED
        } else {
            let one = (number + seed()) % INJECTED.len();
            &INJECTED[one..=one]
        }
    };
    for (number, point) in points.iter().enumerate() {
        if !is_tried(scenario, number, ERRORS_SAMPLED) {
            continue;
        }
        for error in tries(number)
            .iter()
            .filter(|error| point.may_fail_with(error))
        {
            scene.reset_all();
            let Some(ran) = point::disturbed(&scene, &command, point, error) else {
                findings.missed += 1;
                continue;
            };
            let told = format!("{error} at {point:?}");
            findings.add(&told, expected.check(&scene, scenario, Some(error), &ran));
        }
    }
    findings.assert_none();
}

/// Two tests for each scenario, and one for those that are only killed.
macro_rules! tortured {
    ($($name:ident),+ ; only killed: $($killed:ident),+ $(,)?) => {
        mod kills {
            $(#[test] fn $name() { super::kill(&super::scenario::$name()); })+
            $(#[test] fn $killed() { super::kill(&super::scenario::$killed()); })+
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
    undo_of_a_run,
    restore,
    recovery_of_an_undo,
    recovery_of_a_restore,
    exec_of_many_files,
    roll_back_of_many_files,
    undo_of_many_files,
    recovery_of_many_files;
    // An error in one of their steps ends in a shorter history, each commit of which is rolled back;
    // the check knows only the history of a whole run.
    only killed: atomic_run_that_fails, run_that_is_rolled_back_on_failure,
);

/// A call is identified by its number: two runs of the same command make the same calls, except for the heartbeat of
/// the lock, which depends on the time.
#[test]
fn the_calls_of_a_command_are_found_again() {
    let scenario = scenario::exec_that_fails();
    let scene = scenario.scene();
    scene.save_all();
    let command = scenario.command(&scene);
    let names = || {
        scene.reset_all();
        let calls = traced(&scene, &command, is_change_of_piton, None)
            .calls
            .swap_remove(0);
        let names = calls.iter().map(SystemCall::name);
        names
            .filter(|name| *name != "utimensat")
            .collect::<Vec<_>>()
    };
    let traced = names();
    assert_eq!(traced, names());
    // Another tracer sees the same: no call is overlooked.
    scene.reset_all();
    let points = point::points(&scene, &command);
    let points = points.iter().map(|point| point.call.as_str());
    let points: Vec<&str> = points.filter(|name| *name != "utimensat").collect();
    assert_eq!(traced, points);
}

/// Many files are written by several threads, whose calls are counted together.
#[test]
fn calls_of_all_threads_are_counted() {
    let scenario = scenario::roll_back_of_many_files();
    let scene = scenario.scene();
    scene.save_all();
    let command = scenario.command(&scene);
    let main_thread = point::points(&scene, &command).len();
    scene.reset_all();
    let all = traced(&scene, &command, is_change_of_piton, None).calls[0].len();
    assert!(
        all >= main_thread + scenario::MANY,
        "{all} of which {main_thread} in the main thread"
    );
}

/// The default setting waits for the disk, so that kills and errors hit those calls as well.
#[test]
fn a_step_is_disturbed_where_it_waits_for_the_disk() {
    for scenario in [scenario::exec_that_commits(), scenario::exec_that_fails()] {
        let scene = scenario.scene();
        let points = point::points(&scene, &scenario.command(&scene));
        let syncs = ["fsync", "fdatasync", "syncfs", "sync_file_range"];
        let waits = points
            .iter()
            .filter(|point| syncs.contains(&point.call.as_str()));
        assert!(waits.count() >= 3, "{}", scenario.name);
    }
}
