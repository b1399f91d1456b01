//! Files that git stored with other line ends than its attributes want now.

use super::{name_of_newest_step, run};
use crate::harness::TestProject;

const ATTRIBUTES: [&str; 3] = ["* text=auto\n", "* text\n", "* text eol=lf\n"];

/// A file with CRLF in its blob, and attributes that came later.
fn unnormalised(attributes: &str) -> (TestProject, String) {
    let project = TestProject::new()
        .file("c.txt", "one\r\ntwo\r\n")
        .file("a.txt", "a\n")
        .committed();
    let project = project.file(".gitattributes", attributes);
    project.bash("git add .gitattributes; git commit -qm attributes");
    let blob = project.git(["rev-parse", "HEAD:c.txt"]);
    (project, blob)
}

#[test]
fn undoing_the_removal_of_a_file_brings_back_the_very_bytes_that_git_had() {
    for attributes in ATTRIBUTES {
        let (project, blob) = unnormalised(attributes);
        run(&project, &["exec", "--", "rm", "c.txt"]);
        run(&project, &["undo"]);
        assert_eq!(
            project.git(["rev-parse", "HEAD:c.txt"]),
            blob,
            "{attributes}"
        );
        assert_eq!(project.read("c.txt"), "one\r\ntwo\r\n", "{attributes}");
        assert_eq!(
            project.git(["diff", "--name-only", "HEAD~2", "HEAD"]),
            "",
            "{attributes}"
        );
    }
}

#[test]
fn restoring_a_step_brings_back_the_very_bytes_that_git_had() {
    for attributes in ATTRIBUTES {
        let (project, blob) = unnormalised(attributes);
        run(&project, &["exec", "--", "sh", "-c", "echo 1 >> a.txt"]);
        let first = name_of_newest_step(&project);
        run(&project, &["exec", "--", "rm", "c.txt"]);
        run(&project, &["restore", &first]);
        assert_eq!(
            project.git(["rev-parse", "HEAD:c.txt"]),
            blob,
            "{attributes}"
        );
        assert_eq!(project.read("c.txt"), "one\r\ntwo\r\n", "{attributes}");
    }
}

#[test]
fn undoing_a_step_that_a_later_checkpoint_committed_brings_back_the_very_bytes_that_git_had() {
    for attributes in ATTRIBUTES {
        let (project, blob) = unnormalised(attributes);
        run(
            &project,
            &["exec", "--checkpoint", "explicit", "--", "rm", "c.txt"],
        );
        let step = name_of_newest_step(&project);
        run(&project, &["checkpoint"]);
        run(&project, &["undo", &step]);
        assert_eq!(
            project.git(["rev-parse", "HEAD:c.txt"]),
            blob,
            "{attributes}"
        );
        assert_eq!(project.read("c.txt"), "one\r\ntwo\r\n", "{attributes}");
    }
}

#[test]
fn a_hard_roll_back_and_a_redo_keep_the_bytes_that_git_had() {
    let (project, blob) = unnormalised("* text=auto\n");
    let start = project.git(["rev-parse", "HEAD"]);
    run(
        &project,
        &["exec", "--", "sh", "-c", r"printf 'three\r\n' >> c.txt"],
    );
    run(&project, &["undo"]);
    run(&project, &["redo"]);
    assert_eq!(
        project.git(["show", "HEAD:c.txt"]),
        "one\r\ntwo\r\nthree\r\n"
    );
    run(&project, &["rollback", "--hard", start.trim(), "--yes"]);
    assert_eq!(project.git(["rev-parse", "HEAD:c.txt"]), blob);
    assert_eq!(project.read("c.txt"), "one\r\ntwo\r\n");
    project.assert_clean();
}
