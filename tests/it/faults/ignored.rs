//! Files that git tracks and ignores.

use super::{name_of_newest_step, run};
use crate::harness::TestProject;

/// A tracked file that a later rule ignores, by itself and by its folder.
fn ignoring() -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .file("x.log", "log\n")
        .file("out/y", "out\n");
    project.bash("git add -A; git commit -qm start; printf '*.log\\nout/\\n' > .gitignore; git add .gitignore; git commit -qm rules");
    project
}

const REMOVAL: [&str; 5] = ["exec", "--", "sh", "-c", "rm -r x.log out"];

fn assert_back(project: &TestProject) {
    assert_eq!(
        project.git(["ls-tree", "-r", "--name-only", "HEAD"]),
        ".gitignore\na.txt\nout/y\nx.log\n"
    );
    assert_eq!(
        (project.read("x.log"), project.read("out/y")),
        ("log\n".to_owned(), "out\n".to_owned())
    );
    project.assert_clean();
}

#[test]
fn undoing_the_removal_of_tracked_ignored_files_brings_them_back_into_the_branch() {
    let project = ignoring();
    run(&project, &REMOVAL);
    let undone = project.piton(["undo"]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert!(!undone.stderr().contains("left alone"), "{undone}");
    assert_back(&project);
    run(&project, &["redo"]);
    assert_eq!(project.files(), [".gitignore", "a.txt"]);
    project.assert_clean();
    run(&project, &["undo"]);
    assert_back(&project);
}

#[test]
fn restoring_a_step_brings_tracked_ignored_files_back_into_the_branch() {
    let project = ignoring();
    run(&project, &["exec", "--", "sh", "-c", "echo 1 >> a.txt"]);
    let first = name_of_newest_step(&project);
    run(&project, &REMOVAL);
    run(&project, &["restore", &first]);
    assert_back(&project);
}

#[test]
fn a_failed_step_gives_tracked_ignored_files_back() {
    for step in [
        "rm -r x.log out; exit 1",
        "git rm -rqf x.log out; exit 1",
        "echo 2 > x.log; echo 2 > out/y; exit 1",
    ] {
        let project = ignoring();
        let failed = project.exec(step);
        assert_eq!(failed.code(), Some(1), "{step}: {failed}");
        assert_back(&project);
    }
}

#[test]
fn an_undo_of_an_uncommitted_removal_brings_tracked_ignored_files_back() {
    let project = ignoring();
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "sh",
            "-c",
            "rm -r x.log out",
        ],
    );
    run(&project, &["undo"]);
    assert_back(&project);
}

#[test]
fn an_undo_never_overwrites_an_ignored_file_that_the_user_made_since() {
    let project = ignoring();
    run(&project, &REMOVAL);
    let project = project.file("x.log", "mine\n");
    let refused = project.piton(["undo"]);
    assert_eq!(refused.code(), Some(1), "{refused}");
    assert!(refused.stderr().contains("`x.log`"), "{refused}");
    assert_eq!(project.read("x.log"), "mine\n");
    assert!(
        !project.root().join("out").exists(),
        "nothing else was written either"
    );
}

#[test]
fn a_removal_that_the_user_committed_is_undone_on_disk() {
    let project = ignoring();
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "sh",
            "-c",
            "rm -r x.log out",
        ],
    );
    project.git(["commit", "--quiet", "--all", "--message", "removed"]);
    let undone = project.piton(["undo"]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert!(!undone.stderr().contains("nothing to do"), "{undone}");
    assert_eq!(
        (project.read("x.log"), project.read("out/y")),
        ("log\n".to_owned(), "out\n".to_owned())
    );
}
