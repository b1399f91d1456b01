//! Files with skip-worktree or assume-unchanged, which git ignores on the user's request.

use std::fs;

use super::{bits, run};
use crate::harness::TestProject;

/// A repository in which git overlooks `s.txt`.
fn overlooking(flag: &str) -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .file("s.txt", "committed\n")
        .committed();
    project.git(["update-index", flag, "s.txt"]);
    project
}

const FLAGS: [&str; 2] = ["--skip-worktree", "--assume-unchanged"];

#[test]
fn a_private_file_that_git_overlooks_stays_private_when_a_step_elsewhere_is_rolled_back() {
    for flag in FLAGS {
        let project = TestProject::new()
            .file("a.txt", "a\n")
            .file("s.txt", "secret\n");
        // The bits are set before staging, so that git records the file with them and sees it as
        // unchanged.
        project.bash("chmod 600 s.txt; git add -A; git commit -qm start");
        project.git(["update-index", flag, "s.txt"]);
        let step = "umask 077; for name in 1 2 3 4 5; do echo x > n$name; done; exit 1";
        let failed = project.exec(step);
        assert_eq!(failed.code(), Some(1), "{failed}");
        assert_eq!(bits(&project, "s.txt"), 0o600, "{flag}");
        assert!(!project.root().join("n1").exists());
    }
}

#[test]
fn what_the_user_keeps_in_an_overlooked_file_comes_back_when_a_step_that_wrote_it_fails() {
    for flag in FLAGS {
        let project = overlooking(flag).file("s.txt", "my override\n");
        project.bash("chmod 640 s.txt");
        let failed = project.exec("echo step > s.txt; chmod 600 s.txt; exit 1");
        assert_eq!(failed.code(), Some(1), "{failed}");
        assert_eq!(project.read("s.txt"), "my override\n", "{flag}");
        assert_eq!(bits(&project, "s.txt"), 0o640, "{flag}");
        assert_eq!(project.git(["show", "HEAD:s.txt"]), "committed\n");
    }
}

#[test]
fn a_step_that_writes_an_overlooked_file_says_so_and_can_be_undone() {
    for flag in FLAGS {
        let project = overlooking(flag).file("s.txt", "my override\n");
        let ran = project.exec("echo step > s.txt");
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(
            ran.stderr().contains("git was told to overlook `s.txt`"),
            "{ran}"
        );
        assert_eq!(project.read("s.txt"), "step\n");
        assert_eq!(
            project.git(["rev-list", "--count", "HEAD"]),
            "1\n",
            "git commits no such file"
        );
        run(&project, &["undo"]);
        assert_eq!(project.read("s.txt"), "my override\n", "{flag}");
        run(&project, &["redo"]);
        assert_eq!(project.read("s.txt"), "step\n", "{flag}");
    }
}

#[test]
fn an_overlooked_file_stays_out_of_the_commit_of_a_step_that_wrote_it_among_others() {
    let project = overlooking("--skip-worktree").file("s.txt", "my override\n");
    let ran = project.exec("echo step > s.txt; echo step > a.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("not in the commit, because git was told to overlook it: `s.txt`"),
        "{ran}"
    );
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "a.txt\n"
    );
    assert_eq!(
        project.git(["ls-files", "-v", "s.txt"]),
        "S s.txt\n",
        "git still overlooks it"
    );
    run(&project, &["undo"]);
    assert_eq!(project.read("s.txt"), "my override\n");
    assert_eq!(project.read("a.txt"), "a\n");
    assert_eq!(project.git(["ls-files", "-v", "s.txt"]), "S s.txt\n");
}

#[test]
fn an_overlooked_file_that_is_not_there_is_removed_again_when_a_step_that_made_it_fails() {
    let project = overlooking("--skip-worktree");
    fs::remove_file(project.root().join("s.txt")).expect("a file");
    let failed = project.exec("echo step > s.txt; exit 1");
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(!project.root().join("s.txt").exists());
    run(&project, &["exec", "--", "sh", "-c", "echo step > a.txt"]);
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "a.txt\n"
    );
    assert!(!project.root().join("s.txt").exists());
    project.assert_clean();
}

#[test]
fn a_checkpoint_of_everything_and_a_hard_roll_back_leave_an_overlooked_file_alone() {
    let project = overlooking("--skip-worktree")
        .file("s.txt", "my override\n")
        .file("a.txt", "mine\n");
    let start = project.git(["rev-parse", "HEAD"]);
    run(&project, &["checkpoint", "--all"]);
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "a.txt\n"
    );
    run(&project, &["rollback", "--hard", start.trim(), "--yes"]);
    assert_eq!(project.read("a.txt"), "a\n");
    assert_eq!(project.read("s.txt"), "my override\n");
    assert_eq!(project.git(["ls-files", "-v", "s.txt"]), "S s.txt\n");
}
