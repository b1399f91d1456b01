//! Permission bits in undo, redo and merges.

use super::{bits, name_of_newest_step, run};
use crate::harness::TestProject;

#[test]
fn undoing_a_chmod_restores_the_bits_although_the_file_was_edited_since() {
    for mode in ["auto", "explicit"] {
        let project = TestProject::new().file("a.sh", "one\n").committed();
        run(
            &project,
            &["exec", "--checkpoint", mode, "--", "chmod", "+x", "a.sh"],
        );
        let step = name_of_newest_step(&project);
        let project = project.file("a.sh", "one\ntwo\n");
        run(&project, &["undo", &step]);
        assert_eq!(
            (bits(&project, "a.sh"), project.read("a.sh")),
            (0o644, "one\ntwo\n".to_owned()),
            "{mode}"
        );
        assert_eq!(
            project.git(["ls-files", "--stage", "a.sh"]).get(..6),
            Some("100644"),
            "{mode}"
        );
        assert_eq!(
            project.git(["diff", "--summary"]),
            "",
            "{mode}: only the edit is left"
        );
        run(&project, &["redo"]);
        assert_eq!(
            (bits(&project, "a.sh"), project.read("a.sh")),
            (0o755, "one\ntwo\n".to_owned()),
            "{mode}"
        );
    }
}

#[test]
fn undoing_a_chmod_keeps_the_bits_that_the_user_changed_since() {
    let project = TestProject::new().file("a.sh", "one\n").committed();
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "chmod",
            "755",
            "a.sh",
        ],
    );
    project.bash("chmod g-r,o-r a.sh; echo two >> a.sh");
    run(&project, &["undo"]);
    assert_eq!(bits(&project, "a.sh"), 0o600);
}

#[test]
fn undoing_a_chmod_that_git_does_not_record_works_after_an_edit_and_after_another_chmod() {
    for since in [
        "echo two >> a.txt",
        "chmod g+w a.txt",
        "echo two >> a.txt; chmod g+w a.txt",
    ] {
        let project = TestProject::new()
            .file("a.txt", "one\n")
            .file("d/f", "f\n")
            .committed();
        run(
            &project,
            &[
                "exec",
                "--checkpoint",
                "explicit",
                "--",
                "sh",
                "-c",
                "chmod o-r a.txt; chmod 700 d",
            ],
        );
        project.bash(since);
        let before = bits(&project, "a.txt");
        run(&project, &["undo"]);
        assert_eq!(bits(&project, "a.txt"), before | 0o004, "{since}");
        assert_eq!(bits(&project, "d"), 0o755, "{since}");
    }
}

#[test]
fn undoing_steps_that_changed_content_and_bits_one_after_the_other_undoes_both() {
    let project = TestProject::new().file("a.sh", "one\n").committed();
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "sh",
            "-c",
            "echo two >> a.sh",
        ],
    );
    let first = name_of_newest_step(&project);
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "chmod",
            "700",
            "a.sh",
        ],
    );
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "sh",
            "-c",
            "chmod 711 a.sh; echo three >> a.sh",
        ],
    );
    run(&project, &["undo", "--to", &first]);
    assert_eq!(
        (bits(&project, "a.sh"), project.read("a.sh")),
        (0o644, "one\ntwo\n".to_owned())
    );
}
