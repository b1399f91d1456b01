//! H1: the user's dirty work survives a roll back.

use super::{dirty, exec, rolled_back, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

#[test]
fn h1_dirty_work_survives_a_roll_back() {
    let project = dirty();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo four >> c.txt; echo new > n.txt; rm d.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(3, 2, 1));
    guard.rolled_back(&["c.txt", "d.txt"]);
}

#[test]
fn h1_dirty_files_that_the_step_itself_changed_are_as_the_user_left_them() {
    let project = dirty();
    let guard = Guard::of(&project);
    let script = "for f in a.txt b.txt p.txt u.txt announced.txt x.sh; do echo tool > $f; done
        echo tool > gone.txt; echo tool > dropped.txt; chmod -x x.sh; rmdir empty; exit 3";
    let ran = exec(&project, script);
    assert_eq!(ran.code(), Some(3), "{ran}");
    guard.rolled_back(&["a.txt", "b.txt", "p.txt", "u.txt", "announced.txt", "x.sh"]);
}

#[test]
fn h1_dirty_files_that_the_step_deleted_are_back() {
    let project = dirty();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "rm a.txt b.txt p.txt u.txt announced.txt x.sh; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(6, 0, 17));
    guard.rolled_back(&["a.txt", "b.txt", "p.txt", "u.txt", "announced.txt", "x.sh"]);
}

#[test]
fn h1_what_the_step_staged_is_unstaged_again() {
    let project = dirty();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo four >> c.txt; echo new > n.txt; git rm --quiet d.txt; git add --all; exit 3",
    );
    assert_eq!(ran.code(), Some(3), "{ran}");
    guard.rolled_back(&["c.txt", "d.txt"]);
}

#[test]
fn h1_what_the_step_unstaged_is_staged_again() {
    let project = dirty();
    let guard = Guard::of(&project);
    let ran = exec(&project, "git reset --quiet; exit 3");
    assert_eq!(ran.code(), Some(3), "{ran}");
    guard.rolled_back(&[]);
}

#[test]
fn h1_a_hard_reset_inside_the_step_loses_nothing() {
    let project = dirty();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "git reset --quiet --hard; git clean --quiet --force -d; exit 3",
    );
    assert_eq!(ran.code(), Some(3), "{ran}");
    guard.rolled_back(&["a.txt", "b.txt", "p.txt", "u.txt", "announced.txt", "x.sh"]);
}

#[test]
fn h1_the_undone_work_is_kept() {
    let project = TestProject::new().file("c.txt", "one\n").committed();
    let ran = exec(&project, "echo two > c.txt; echo new > n.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(2, 2, 1));
    let log = project.piton(["log", "--format", "json"]).json();
    let undone = |path: &str| format!("{path}@{}", log["id"].as_str().expect("an id"));
    assert_eq!(project.piton(["show", &undone("c.txt")]).stdout(), "two\n");
    assert_eq!(project.piton(["show", &undone("n.txt")]).stdout(), "new\n");
    project.assert_clean();
}
