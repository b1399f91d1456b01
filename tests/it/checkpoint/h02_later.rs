//! H2 for later checkpoints: they commit what steps left on disk, without the user's changes.

use super::OVERLAP_HINT;
use crate::harness::TestProject;
use crate::repository_guard::Guard;

fn lines(marks: [&str; 3]) -> String {
    format!(
        "{}\n2\n3\n4\n{}\n6\n7\n8\n{}\n",
        marks[0], marks[1], marks[2]
    )
}

#[test]
fn h2_a_later_checkpoint_holds_the_steps_and_not_the_users_lines() {
    let project = TestProject::new()
        .file("a.txt", lines(["1", "5", "9"]))
        .file("b.txt", "one\n")
        .committed();
    project.bash("sed -i s/1/mine/ a.txt; echo mine > u.txt");
    let guard = Guard::of(&project);
    project.keep("sed -i s/5/tool/ a.txt");
    project.keep("sed -i s/9/again/ a.txt; echo new > n.txt");
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "HEAD:a.txt"]),
        lines(["1", "tool", "again"])
    );
    assert_eq!(project.read("a.txt"), lines(["mine", "tool", "again"]));
    guard.committed(&["a.txt", "n.txt"]);
}

#[test]
fn h2_what_the_user_did_since_the_step_is_not_committed() {
    let project = TestProject::new()
        .file("a.txt", lines(["1", "5", "9"]))
        .file("b.txt", "one\n")
        .committed();
    project.keep("sed -i s/5/tool/ a.txt; echo tool > n.txt");
    project.bash("sed -i s/9/mine/ a.txt; echo mine > b.txt");
    let guard = Guard::of(&project);
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "HEAD:a.txt"]),
        lines(["1", "tool", "9"])
    );
    assert_eq!(project.read("a.txt"), lines(["1", "tool", "mine"]));
    guard.committed(&["a.txt", "n.txt"]);
}

#[test]
fn h2_a_later_checkpoint_of_the_users_own_file_is_refused() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("u.txt", "mine\n");
    project.keep("echo tool >> u.txt");
    let guard = Guard::of(&project);
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        ran.stderr(),
        format!(
            "✗ no checkpoint was made; the changes stay on disk\n\
             error: the step overlaps your uncommitted changes: `u.txt` [DIRTY_OVERLAP]\nhint: {OVERLAP_HINT}\n"
        )
    );
    guard.left(&[]);
}

#[test]
fn h2_paths_that_are_named_are_committed_and_no_others() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("d/b.txt", "one\n")
        .committed();
    project.bash("echo mine > a.txt; echo mine > d/b.txt; echo mine > d/n.txt; git add a.txt");
    let guard = Guard::of(&project);
    let ran = project.piton(["checkpoint", "d"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    guard.committed(&["d/b.txt", "d/n.txt"]);
}
