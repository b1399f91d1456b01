//! Tests with real processes.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::*;

fn start(script: &str) -> Child {
    #[expect(clippy::disallowed_methods, reason = "a process to look at")]
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn boot() -> String {
    boot_id().unwrap()
}

#[test]
fn the_name_of_a_program_cannot_confuse_the_reader() {
    let line = b"7 (a) Z 1 (x) S 1 42 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 900 20 21\n";
    assert_eq!(
        parse(line),
        Some(ProcStat {
            state: b'S',
            parent: 1,
            group: 42,
            session: 3,
            started: 900
        })
    );
    assert_eq!(parse(b""), None);
    assert_eq!(parse(b"7 (a) S 1"), None);
    assert_eq!(parse(b"7 (\xff)"), None);
}

#[test]
fn a_process_is_known_by_its_start() {
    let own = std::process::id();
    let started = start_time(own).unwrap();
    assert!(is_same(own, Some(started)));
    assert!(is_same(own, None));
    assert!(!is_same(own, Some(started + 1)));
    assert!(!is_same(0, None));
    assert!(!is_same(u32::MAX, None));
    assert_eq!(start_time(u32::MAX), None);
    assert!(boot().len() > 8);
    assert!(!host_name().is_empty());
}

#[test]
fn a_zombie_process_does_not_count() {
    let mut child = start("exit 0");
    let pid = child.id();
    while start_time(pid).is_some() {
        thread::yield_now();
    }
    assert!(stat(pid).is_some(), "it is still in the table");
    assert!(!kill_group_if_same(
        pid,
        stat(pid).unwrap().started,
        &boot()
    ));
    child.wait().unwrap();
}

#[test]
fn only_the_very_same_group_is_killed() {
    let mut child = start("sleep 600 & wait");
    let (pid, started) = (child.id(), start_time(child.id()).unwrap());
    assert!(!kill_group_if_same(pid, started + 1, &boot()));
    assert!(!kill_group_if_same(pid, started, "another boot"));
    assert!(!kill_group_if_same(pid, started, ""));
    assert_eq!(child.try_wait().unwrap(), None);
    assert!(kill_group_if_same(pid, started, &boot()));
    assert_eq!(members(group_of(pid).unwrap()), []);
    child.wait().unwrap();
    assert!(!kill_group_if_same(pid, started, &boot()));
}

#[test]
fn a_group_is_killed_after_its_leader_is_gone() {
    let mut child = start("sleep 600 >/dev/null & exit 0");
    let (pid, started) = (child.id(), stat(child.id()).unwrap().started);
    child.wait().unwrap();
    let group = group_of(pid).unwrap();
    assert_eq!(members(group).len(), 1);
    assert!(kill_group_if_same(pid, started, &boot()));
    assert_eq!(members(group), []);
}

#[test]
fn groups_that_mean_more_than_one_are_never_killed() {
    for pid in [0, 1, u32::MAX] {
        assert!(!kill_group_if_same(pid, 0, &boot()));
    }
}

#[test]
fn usual_signals_are_not_ignored_and_ignored_ones_are_noticed() {
    // Rust's standard library ignores SIGPIPE at startup.
    assert!(ignores(13));
    assert!(!ignores(15));
}
