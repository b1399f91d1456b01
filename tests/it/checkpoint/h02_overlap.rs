//! H2, where the step and the user changed the same lines: the changes stay on disk and nothing is
//! committed.

use super::{OVERLAP_HINT, exec, failed, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

fn overlaps(project: &TestProject, script: &str, path: &str) {
    let guard = Guard::of(project);
    let ran = exec(project, script);
    let message = format!("the step overlaps your uncommitted changes: `{path}`");
    assert_eq!(
        told(project, &ran),
        failed(0, "DIRTY_OVERLAP", &message, OVERLAP_HINT)
    );
    guard.left(&[path]);
}

#[test]
fn h2_the_same_lines_are_not_committed() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash("echo mine > a.txt");
    overlaps(&project, "echo tool > a.txt", "a.txt");
    assert_eq!(project.read("a.txt"), "tool\n");
}

#[test]
fn h2_what_was_untracked_is_not_committed() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("u.txt", "mine\n");
    overlaps(&project, "echo tool >> u.txt", "u.txt");
    assert_eq!(project.read("u.txt"), "mine\ntool\n");
}

#[test]
fn h2_the_deletion_of_an_untracked_file_is_not_committed() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("u.txt", "mine\n");
    overlaps(&project, "rm u.txt", "u.txt");
}

#[test]
fn h2_an_untracked_file_that_the_step_staged_is_not_committed() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("u.txt", "mine\n");
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool >> u.txt; git add u.txt");
    let message = "the step overlaps your uncommitted changes: `u.txt`";
    assert_eq!(
        told(&project, &ran),
        failed(0, "DIRTY_OVERLAP", message, OVERLAP_HINT)
    );
    guard.left_besides_head(&["u.txt"]);
}

#[test]
fn h2_what_was_newly_staged_is_not_committed() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("b.txt", "mine\n");
    project.git(["add", "b.txt"]);
    overlaps(&project, "echo tool >> b.txt", "b.txt");
}

#[test]
fn h2_the_deletion_of_a_newly_staged_file_is_not_committed() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("b.txt", "mine\n");
    project.git(["add", "b.txt"]);
    overlaps(&project, "rm b.txt", "b.txt");
}

#[test]
fn h2_what_was_announced_is_not_committed() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("n.txt", "mine\n");
    project.git(["add", "--intent-to-add", "n.txt"]);
    overlaps(&project, "echo tool >> n.txt", "n.txt");
}

#[test]
fn h2_a_file_that_the_user_deleted_and_the_step_created_again_is_not_committed() {
    let project = TestProject::new().file("gone.txt", "gone\n").committed();
    project.bash("rm gone.txt");
    overlaps(&project, "echo tool > gone.txt", "gone.txt");
}

#[test]
fn h2_a_file_whose_deletion_is_staged_is_not_committed() {
    let project = TestProject::new()
        .file("gone.txt", "gone\n")
        .file("a.txt", "one\n")
        .committed();
    project.git(["rm", "--quiet", "gone.txt"]);
    overlaps(&project, "echo tool > gone.txt", "gone.txt");
}

#[test]
fn h2_a_file_that_the_user_took_out_of_the_index_is_not_committed() {
    let project = TestProject::new()
        .file("kept.txt", "kept\n")
        .file("a.txt", "one\n")
        .committed();
    project.git(["rm", "--quiet", "--cached", "kept.txt"]);
    overlaps(&project, "echo tool > kept.txt", "kept.txt");
}

#[test]
fn h2_binary_files_are_not_merged() {
    let project = TestProject::new()
        .file("a.bin", b"\0one\n2\n3\n4\n5\n6\n")
        .committed();
    project.bash("printf '\\0mine\\n2\\n3\\n4\\n5\\n6\\n' > a.bin");
    overlaps(
        &project,
        "printf '\\0mine\\n2\\n3\\n4\\n5\\ntool\\n' > a.bin",
        "a.bin",
    );
}

#[test]
fn h2_an_overlap_in_one_file_keeps_the_whole_step_out_of_the_commit() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("c.txt", "one\n")
        .committed();
    project.bash("echo mine > a.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt; echo tool > c.txt");
    let message = "the step overlaps your uncommitted changes: `a.txt`";
    assert_eq!(
        told(&project, &ran),
        failed(0, "DIRTY_OVERLAP", message, OVERLAP_HINT)
    );
    guard.left(&["a.txt", "c.txt"]);
}

#[test]
fn h2_an_overlap_can_be_undone_and_the_users_part_is_back() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("c.txt", "one\n")
        .committed();
    project.bash("echo mine > a.txt");
    let guard = Guard::of(&project);
    exec(&project, "echo tool > a.txt; echo tool > c.txt");
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    guard.rolled_back(&["a.txt", "c.txt"]);
}

#[test]
fn h2_the_deletion_of_a_dirty_file_is_not_committed() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash("echo mine >> a.txt");
    overlaps(&project, "rm a.txt", "a.txt");
}

#[test]
fn h2_lines_that_are_only_staged_overlap_as_well() {
    let project = TestProject::new().file("p.txt", "one\n").committed();
    project.bash("echo staged > p.txt; git add p.txt; echo one > p.txt");
    overlaps(&project, "echo tool > p.txt", "p.txt");
    assert_eq!(project.git(["show", ":p.txt"]), "staged\n");
}
