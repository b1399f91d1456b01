//! Objects that `git replace` shows as others.

use super::run;
use crate::harness::TestProject;

/// HEAD holds `two` in `a.txt`; git shows a commit in its place that holds `three`.
fn replaced() -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("d/f", "f\n")
        .committed();
    project.bash(
        "echo two >> a.txt; git commit -qam two
        git checkout -q --detach; echo three >> a.txt; echo three > d/f; git commit -qam three
        git replace main HEAD; git checkout -q main; git reset -q --hard",
    );
    assert_eq!(project.read("a.txt"), "one\ntwo\nthree\n");
    project
}

#[test]
fn the_next_commit_after_git_replace_does_not_revert_the_replacement() {
    for mode in ["auto", "explicit"] {
        let project = replaced();
        let head = project.git(["rev-parse", "HEAD"]);
        let ran = project.piton([
            "exec",
            "--checkpoint",
            mode,
            "--",
            "sh",
            "-c",
            "echo n > n.txt; echo four >> a.txt",
        ]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        if mode == "explicit" {
            run(&project, &["checkpoint"]);
        }
        assert_eq!(
            project.git(["show", "--format=", "--name-only", "HEAD"]),
            "a.txt\nn.txt\n",
            "{mode}"
        );
        assert_eq!(
            project.git(["show", "HEAD:a.txt"]),
            "one\ntwo\nthree\nfour\n",
            "{mode}"
        );
        assert_eq!(project.git(["show", "HEAD:d/f"]), "three\n", "{mode}");
        assert_eq!(
            project.git(["rev-parse", "HEAD~1"]),
            head,
            "the parent is named as git names it"
        );
        project.assert_clean();
        run(&project, &["verify"]);
        run(&project, &["undo"]);
        assert_eq!(
            project.git(["show", "HEAD:a.txt"]),
            "one\ntwo\nthree\n",
            "{mode}"
        );
        assert_eq!(
            project.git(["status", "--porcelain", "--untracked-files=no"]),
            if mode == "auto" { "" } else { " M a.txt\n" }
        );
    }
}

#[test]
fn a_failed_step_gives_back_what_git_shows_in_the_place_of_a_replaced_file() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash(
        "git replace $(git rev-parse HEAD:a.txt) $(echo other | git hash-object -w --stdin)
        rm a.txt; git checkout -q -- a.txt",
    );
    assert_eq!(project.read("a.txt"), "other\n");
    let failed = project.exec("echo step > a.txt; exit 1");
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert_eq!(project.read("a.txt"), "other\n");
    run(&project, &["exec", "--", "sh", "-c", "echo step >> a.txt"]);
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "other\nstep\n");
}

#[test]
fn packed_replacements_and_the_setting_against_them_count() {
    let project = replaced();
    project.git(["pack-refs", "--all"]);
    run(&project, &["exec", "--", "sh", "-c", "echo n > n.txt"]);
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "n.txt\n"
    );
    let project = replaced();
    project.git(["config", "core.useReplaceRefs", "false"]);
    project.git(["reset", "--quiet", "--hard"]);
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    run(&project, &["exec", "--", "sh", "-c", "echo n > n.txt"]);
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "n.txt\n"
    );
}
