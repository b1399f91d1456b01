//! H3: a roll back never writes or deletes outside of the work tree.

use std::fs;

use super::{committed, exec, rolled_back, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

/// A project beside a folder that holds files with the same names.
fn beside_outside(project: TestProject) -> TestProject {
    project.bash("mkdir -p ../outside/sub; echo outside > ../outside/b.txt; echo outside > ../outside/sub/deep.txt");
    project
}

#[test]
fn h3_a_folder_that_became_a_link_to_outside_is_a_folder_again() {
    let project = TestProject::new()
        .file("d/b.txt", "inside\n")
        .file("d/sub/deep.txt", "inside\n")
        .committed();
    let project = beside_outside(project);
    let guard = Guard::of(&project);
    let ran = exec(&project, "rm -r d; ln -s ../outside d; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(3, 0, 2));
    assert!(fs::symlink_metadata(project.root().join("d")).is_ok_and(|found| found.is_dir()));
    guard.rolled_back(&["d/b.txt", "d/sub/deep.txt"]);
}

#[test]
fn h3_a_link_to_an_absolute_place_is_not_followed() {
    let project = beside_outside(TestProject::new().file("d/b.txt", "inside\n").committed());
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "rm -r d; ln -s \"$(cd ../outside; pwd)\" d; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(2, 0, 1));
    guard.rolled_back(&["d/b.txt"]);
}

#[test]
fn h3_a_file_that_became_a_link_is_written_as_a_file() {
    let project = beside_outside(TestProject::new().file("b.txt", "inside\n").committed());
    let guard = Guard::of(&project);
    let ran = exec(&project, "ln -sf ../outside/b.txt b.txt; exit 3");
    assert_eq!(ran.code(), Some(3), "{ran}");
    guard.rolled_back(&["b.txt"]);
}

#[test]
fn h3_a_link_of_the_user_is_a_link_again() {
    let project = TestProject::new();
    project.bash("mkdir ../outside; echo outside > ../outside/b.txt; ln -s ../outside d; ln -s ../outside/b.txt b.txt");
    let project = project.committed();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "rm d b.txt; mkdir d; echo inside > d/b.txt; echo inside > b.txt; exit 3",
    );
    assert_eq!(ran.code(), Some(3), "{ran}");
    guard.rolled_back(&["d", "b.txt"]);
}

#[test]
fn h3_what_is_written_through_a_link_of_the_user_is_outside_and_stays() {
    let project = TestProject::new().file("a.txt", "one\n");
    project.bash("mkdir ../outside; echo outside > ../outside/b.txt; ln -s ../outside d");
    let project = project.committed();
    let ran = exec(&project, "echo tool > d/b.txt; echo tool > a.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert_eq!(project.read("../outside/b.txt"), "tool\n");
    project.assert_clean();
}

#[test]
fn h3_a_link_is_committed_as_a_link() {
    let project = beside_outside(TestProject::new().file("d/b.txt", "inside\n").committed());
    let guard = Guard::of(&project);
    let ran = exec(&project, "rm -r d; ln -s ../outside d");
    assert_eq!(told(&project, &ran), committed(2, 0, 1));
    assert_eq!(project.git(["ls-tree", "--name-only", "-r", "HEAD"]), "d\n");
    assert_eq!(project.git(["show", "HEAD:d"]), "../outside");
    guard.committed(&["d", "d/b.txt"]);
}

#[test]
fn h3_an_undo_does_not_go_through_a_link_that_the_user_made_since() {
    let project = beside_outside(TestProject::new().file("d/b.txt", "inside\n").committed());
    exec(&project, "echo tool > d/b.txt");
    project.bash("rm -r d; ln -s ../outside d");
    let guard = Guard::of(&project);
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    guard.rolled_back(&[]);
}

#[test]
fn h3_names_that_look_like_git_are_left_alone() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "mkdir .GIT git~1 .g\u{200c}it; for d in .GIT git~1 .g\u{200c}it; do echo '[core]' > $d/config; done
        echo tool > a.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert_eq!(project.read("a.txt"), "one\n");
    assert_eq!(project.read(".GIT/config"), "[core]\n");
    project.bash("rm -r .GIT git~1 .g\u{200c}it");
    guard.rolled_back(&["a.txt"]);
}
