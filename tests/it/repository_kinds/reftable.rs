//! Refs in a reftable, which libgit2 cannot read.

use super::life::{Twins, live, piton};
use crate::harness::TestProject;

const MADE: &str = "git init -q -b main --ref-format=reftable; mkdir in; echo a > in/a.txt; git add .; git commit -qm start; ";

#[test]
fn a_reftable_is_supported() {
    live(MADE);
}

#[test]
fn an_unborn_branch_a_detached_head_and_another_branch_are_supported() {
    let twins = Twins::of("git init -q -b main --ref-format=reftable; mkdir in");
    let ran = twins.piton.exec("echo a > in/a.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        twins
            .piton
            .git(["rev-parse", "--symbolic-full-name", "HEAD"]),
        "refs/heads/main\n"
    );
    twins.piton.assert_clean();
    let twins = Twins::of(&format!("{MADE} git checkout -q --detach"));
    twins.step("echo more >> in/a.txt");
    assert_eq!(
        twins.piton.git(["rev-list", "--count", "main..HEAD"]),
        "1\n"
    );
    let twins = Twins::of(&format!(
        "{MADE} git checkout -q -b topic/one; git tag -a -m note v1"
    ));
    twins.step("echo more >> in/a.txt");
    assert_eq!(
        twins.piton.git(["rev-list", "--count", "main..topic/one"]),
        "1\n"
    );
    assert_eq!(
        twins
            .piton
            .git(["reflog", "--format=%gs", "-1", "topic/one"])
            .matches("piton: ")
            .count(),
        1
    );
    piton(&twins.piton, &["rollback", "--hard", "v1", "--yes"]);
    assert_eq!(
        twins.piton.git(["rev-list", "--count", "main..topic/one"]),
        "0\n"
    );
    twins.piton.assert_clean();
}

#[test]
fn a_branch_that_moves_meanwhile_is_not_moved_back() {
    let project = TestProject::without_git();
    project.bash(MADE);
    let ran = project.exec("echo x > in/x; git checkout -q -b other");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("other"), "{ran}");
    assert_eq!(project.git(["rev-list", "--count", "main", "other"]), "1\n");
    assert_eq!(project.git(["symbolic-ref", "HEAD"]), "refs/heads/other\n");
    assert_eq!(project.read("in/x"), "x\n");
}

#[test]
fn a_cherry_pick_in_progress_is_refused() {
    let project = TestProject::without_git();
    project.bash(&format!(
        "{MADE} git checkout -q -b side; echo side > in/a.txt; git commit -qam side; git checkout -q main; \
         echo main > in/a.txt; git commit -qam main; git cherry-pick side || true; git add -A"
    ));
    let refused = project.piton(["exec", "--format", "json", "--", "touch", "ran"]);
    assert_eq!(refused.code(), Some(5), "{refused}");
    assert!(
        refused.to_string().contains("OPERATION_IN_PROGRESS"),
        "{refused}"
    );
    assert!(!project.root().join("ran").exists());
}

#[test]
fn a_commit_that_a_step_picks_keeps_its_message() {
    for (how, message) in [
        ("cherry-pick side", "side"),
        ("cherry-pick -x side", "side"),
    ] {
        let project = TestProject::without_git();
        project.bash(&format!(
            "{MADE} git checkout -q -b side; echo side > in/side.txt; git add .; git commit -qm side; git checkout -q main; \
             echo main > in/a.txt; git commit -qam main"
        ));
        let project = project.hooked(["prepare-commit-msg"]);
        piton(
            &project,
            &["exec", "--", "sh", "-ec", &format!("git {how}")],
        );
        assert_eq!(
            project.git(["log", "-1", "--format=%s"]),
            format!("{message}\n")
        );
        assert!(
            !project.git(["log", "-1", "--format=%B"]).contains("Piton-"),
            "{how}"
        );
        // A commit of its own is the step's.
        piton(
            &project,
            &[
                "exec",
                "--",
                "sh",
                "-ec",
                "echo more >> in/a.txt; git commit -qam own",
            ],
        );
        assert!(
            project
                .git(["log", "-1", "--format=%B"])
                .contains("Piton-Run: "),
            "{how}"
        );
    }
}

#[test]
fn a_hook_for_refs_has_its_say() {
    let project = TestProject::without_git();
    project.bash(&format!(
        "{MADE} printf '#!/bin/sh\\n[ $1 = prepared ] && exit 1\\nexit 0\\n' > .git/hooks/reference-transaction; \
         chmod +x .git/hooks/reference-transaction"
    ));
    let ran = project.piton([
        "exec",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        "echo x > in/x",
    ]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.to_string().contains("HOOK_FAILED"), "{ran}");
}
