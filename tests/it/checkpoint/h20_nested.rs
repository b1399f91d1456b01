//! H20: repositories inside the work tree.

use super::{committed, exec, rolled_back, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

fn project() -> TestProject {
    TestProject::new().file("a.txt", "one\n").committed()
}

/// A project with a submodule `sub`, which has two commits.
fn with_submodule() -> TestProject {
    let project = project();
    project.bash(
        "git init --quiet --initial-branch=main ../origin; cd ../origin
        echo one > s.txt; git add .; git commit --quiet --message one
        echo two > s.txt; git commit --quiet --all --message two
        cd ../project; git -c protocol.file.allow=always submodule --quiet add ../origin sub
        git commit --quiet --message submodule",
    );
    project
}

#[test]
fn h20_a_nested_repository_is_neither_recorded_nor_touched() {
    let project = project();
    project.bash(
        "git init --quiet vendor/x; cd vendor/x; echo one > v.txt; git add .; git commit --quiet --message one
        echo dirty >> v.txt; echo untracked > w.txt; git init --quiet ../unborn; echo u > ../unborn/u.txt",
    );
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    guard.rolled_back(&["a.txt"]);
    assert_eq!(
        project.git(["rev-list", "--all", "--objects", "--", "vendor"]),
        ""
    );
}

#[test]
fn h20_a_step_beside_a_nested_repository_is_committed_without_it() {
    let project = project();
    project
        .bash("git init --quiet vendor/x; git init --quiet vendor/unborn; echo v > vendor/x/v.txt");
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo tool > a.txt; echo tool > vendor/list.txt; echo tool > vendor/x/v.txt",
    );
    assert_eq!(told(&project, &ran), committed(2, 2, 1));
    project.bash("echo v > vendor/x/v.txt");
    guard.committed_but(&["a.txt", "vendor/list.txt"], &["vendor/x/v.txt"]);
}

#[test]
fn h20_a_repository_that_the_step_clones_is_reported_and_not_deleted() {
    let project = project();
    let ran = exec(
        &project,
        "git clone --quiet . vendor/clone; git init --quiet vendor/unborn; echo tool > a.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert!(
        ran.stdout()
            .contains(r#""not_captured":["vendor/clone","vendor/unborn"]"#),
        "{ran}"
    );
    assert_eq!(project.read("vendor/clone/a.txt"), "one\n");
    assert_eq!(project.read("a.txt"), "one\n");
    project.git(["fsck", "--strict"]);
}

#[test]
fn h20_a_moved_submodule_is_committed() {
    let project = with_submodule();
    let guard = Guard::of(&project);
    let ran = exec(&project, "git -C sub checkout --quiet HEAD~1");
    assert_eq!(told(&project, &ran), committed(1, 0, 0));
    assert_eq!(
        project.git(["rev-parse", "HEAD:sub"]),
        project.git(["-C", "sub", "rev-parse", "HEAD"])
    );
    assert_eq!(project.git(["status", "--porcelain"]), "");
    guard.committed_but(&["sub"], &["sub"]);
}

#[test]
fn h20_a_moved_submodule_is_not_moved_back_and_that_is_reported() {
    let project = with_submodule();
    let ran = exec(
        &project,
        "git -C sub checkout --quiet HEAD~1; echo tool > a.txt; exit 3",
    );
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(project.read("a.txt"), "one\n");
    assert_eq!(project.read("sub/s.txt"), "one\n");
    assert_eq!(project.git(["status", "--porcelain"]), " M sub\n");
    assert!(
        ran.stdout().contains(r#""kept":[],"repositories":["sub"]"#),
        "{ran}"
    );
    let ran = project.piton([
        "exec",
        "--",
        "bash",
        "-c",
        "git -C sub checkout --quiet main; exit 3",
    ]);
    assert_eq!(
        ran.stderr().lines().take(2).collect::<Vec<_>>(),
        [
            "✗ rolled back 0 files",
            "warning: left alone, because they are nested repositories: `sub`; \
             `git submodule update` checks out the commits in the index",
        ]
    );
}

#[test]
fn h20_a_dirty_submodule_is_left_alone() {
    let project = with_submodule();
    project.bash("echo dirty >> sub/s.txt; echo untracked > sub/u.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt; echo new > n.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(2, 2, 1));
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h20_a_dirty_submodule_is_not_committed() {
    let project = with_submodule();
    project.bash("echo dirty >> sub/s.txt; echo untracked > sub/u.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    guard.committed(&["a.txt"]);
}

#[test]
fn h20_a_submodule_that_the_user_moved_is_not_committed() {
    let project = with_submodule();
    project.bash("git -C sub checkout --quiet HEAD~1");
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    guard.committed(&["a.txt"]);
}

#[test]
fn h20_a_submodule_that_is_not_checked_out_is_left_alone() {
    let project = with_submodule();
    project.git(["submodule", "--quiet", "deinit", "--force", "sub"]);
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    guard.committed(&["a.txt"]);
}

#[test]
fn h20_tracked_files_in_a_folder_that_the_step_made_a_repository_are_restored() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("d/b.txt", "one\n")
        .committed();
    let ran = exec(
        &project,
        "git init --quiet d; echo tool > d/b.txt; echo tool > a.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(2, 2, 2));
    assert_eq!(
        (project.read("a.txt"), project.read("d/b.txt")),
        ("one\n".to_owned(), "one\n".to_owned())
    );
    assert!(project.root().join("d/.git/HEAD").exists(), "it stays");
}

#[test]
fn h20_a_linked_worktree_inside_the_work_tree_is_left_alone() {
    let project = project();
    project.bash(
        "git worktree add --quiet inner; echo dirty >> inner/a.txt; echo untracked > inner/u.txt",
    );
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    guard.rolled_back(&["a.txt"]);
}
