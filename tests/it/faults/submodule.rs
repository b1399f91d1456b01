//! Steps that move a submodule.

use super::run;
use crate::harness::TestProject;

/// A project with a submodule at the second of two commits; returns both, oldest first.
fn with_submodule() -> (TestProject, String, String) {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    project.bash(
        "git init -q -b main ../origin; cd ../origin
        echo 1 > f; git add f; git commit -qm 1; echo 2 > f; git commit -qam 2
        cd ../project; git -c protocol.file.allow=always submodule --quiet add ../origin sub; git commit -qm sub",
    );
    let commit = |name: &str| {
        project
            .git(["-C", "sub", "rev-parse", name])
            .trim()
            .to_owned()
    };
    let (first, second) = (commit("HEAD~1"), commit("HEAD"));
    (project, first, second)
}

const MOVE: &str = "cd sub && git checkout -q HEAD~1";

fn pointer(project: &TestProject) -> String {
    project.git(["rev-parse", "HEAD:sub"]).trim().to_owned()
}

#[test]
fn undoing_a_committed_move_of_a_submodule_moves_the_pointer_back_and_says_what_is_left_to_do() {
    let (project, first, second) = with_submodule();
    run(
        &project,
        &[
            "exec",
            "--",
            "sh",
            "-c",
            &format!("{MOVE}; echo step > ../a.txt"),
        ],
    );
    assert_eq!(pointer(&project), first);
    let undone = project.piton(["undo"]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert_eq!(pointer(&project), second);
    assert_eq!(project.git(["rev-parse", ":sub"]).trim(), second);
    assert_eq!(project.read("a.txt"), "a\n");
    let (short, told) = (second.get(..10).expect("a name"), undone.stderr());
    assert!(
        told.contains(&format!(
            "`git submodule update --init sub` checks out {short}"
        )),
        "{undone}"
    );
    project.bash("git -c protocol.file.allow=always submodule --quiet update --init sub");
    project.assert_clean();
    run(&project, &["redo"]);
    assert_eq!(pointer(&project), first);
}

#[test]
fn undoing_an_uncommitted_move_of_a_submodule_is_never_silent() {
    let (project, _, second) = with_submodule();
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "sh",
            "-c",
            &format!("{MOVE}; echo step > ../a.txt"),
        ],
    );
    let undone = project.piton(["undo"]);
    assert_eq!(undone.code(), Some(1), "{undone}");
    assert!(
        undone
            .stderr()
            .contains("`sub` is a repository of its own and stays at"),
        "{undone}"
    );
    assert!(
        undone
            .stderr()
            .contains("`git submodule update --init sub`"),
        "{undone}"
    );
    assert_eq!(project.read("a.txt"), "a\n", "what can be undone is undone");
    project.bash("git -c protocol.file.allow=always submodule --quiet update --init sub");
    assert_eq!(
        project.git(["-C", "sub", "rev-parse", "HEAD"]).trim(),
        second
    );
    project.assert_clean();
}

#[test]
fn undoing_only_a_move_of_a_submodule_is_done_once_the_submodule_is_back() {
    let (project, ..) = with_submodule();
    run(
        &project,
        &["exec", "--checkpoint", "explicit", "--", "sh", "-c", MOVE],
    );
    let refused = project.piton(["undo"]);
    assert_eq!(refused.code(), Some(1), "{refused}");
    assert!(refused.stderr().contains("REPOSITORY_LEFT"), "{refused}");
    project.bash("git -c protocol.file.allow=always submodule --quiet update --init sub");
    run(&project, &["undo"]);
    project.assert_clean();
}

#[test]
fn a_failed_step_that_moved_a_submodule_says_what_is_left_to_do() {
    let (project, _, second) = with_submodule();
    let failed = project.exec(&format!("({MOVE}; cd ..; git add sub); exit 1"));
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(
        failed.stderr().contains("`sub`") && failed.stderr().contains("git submodule update"),
        "{failed}"
    );
    assert_eq!(project.git(["rev-parse", ":sub"]).trim(), second);
}
