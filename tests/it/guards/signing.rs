//! H17: commits are signed as git is set to sign them, or there is none.

use super::{Picture, exec, exec_with, simple, told};
use crate::harness::TestProject;

/// A project whose commits are signed with a fresh ssh key.
fn signed() -> TestProject {
    let project = simple();
    project.bash(
        "ssh-keygen -q -t ed25519 -N '' -C test@example.com -f ../home/key; \
         echo \"test@example.com $(cat ../home/key.pub)\" > ../home/allowed; \
         git config gpg.format ssh; git config user.signingKey \"$PWD/../home/key.pub\"; \
         git config gpg.ssh.allowedSignersFile \"$PWD/../home/allowed\"; git config commit.gpgSign true",
    );
    project
}

#[test]
fn h17_commits_are_signed_and_git_verifies_them() {
    let project = signed();
    let before = Picture::of(&project);
    let made = exec(&project, "echo a > a.txt");
    made.assert_end("0 committed -");
    project.git(["verify-commit", &made.commit()]);
    let undone = told(&project, &["undo"]);
    undone.assert_end("0 committed -");
    project.git(["verify-commit", &undone.commit()]);
    before.assert_only(&project, &["a.txt"]);
    project.assert_clean();
    // Their trailers are as they should be in spite of the signature.
    assert_eq!(
        project
            .git([
                "log",
                "-1",
                "--format=%(trailers:key=Piton-Run,valueonly)",
                &made.commit()
            ])
            .trim_end(),
        made.last()["run_id"].as_str().expect("a run")
    );
}

#[test]
fn h17_without_the_key_nothing_is_committed_and_the_changes_stay() {
    for spoil in [
        "rm ../home/key",
        "git config user.signingKey /nowhere/key.pub",
        "git config gpg.ssh.program /nowhere/ssh-keygen",
        "git config gpg.ssh.program false",
        "git config gpg.format openpgp; git config gpg.program false",
        "git config gpg.format nonsense",
    ] {
        let project = signed();
        project.bash(spoil);
        let before = Picture::of(&project);
        let failed = exec(&project, "echo a > a.txt; echo four >> notes.txt");
        failed.assert_end("1 failed SIGNING_FAILED");
        assert_eq!(project.read("a.txt"), "a\n", "{spoil}");
        assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\nfour\n");
        let now = Picture::of(&project);
        assert_eq!(
            (&now.refs, &now.staged),
            (&before.refs, &before.staged),
            "{spoil}"
        );
        before.assert_only(&project, &["a.txt", "notes.txt"]);
    }
}

#[test]
fn h17_the_step_can_be_committed_once_the_key_is_back() {
    let project = signed();
    project.bash("mv ../home/key ../home/key.away");
    exec(&project, "echo a > a.txt").assert_end("1 failed SIGNING_FAILED");
    project.bash("mv ../home/key.away ../home/key");
    let made = told(&project, &["checkpoint"]);
    made.assert_end("0 committed -");
    project.git(["verify-commit", &made.commit()]);
    project.assert_clean();
}

#[test]
fn h17_signing_that_is_set_outside_of_the_repository_counts() {
    let project = signed();
    project.bash("git config --unset commit.gpgSign");
    let project = project.home_file("gitconfig", "[commit]\n\tgpgSign = true\n");
    let settings = project
        .home()
        .join("gitconfig")
        .to_string_lossy()
        .into_owned();
    let project = project.variable("GIT_CONFIG_GLOBAL", &settings);
    let made = exec(&project, "echo a > a.txt");
    made.assert_end("0 committed -");
    project.git(["verify-commit", &made.commit()]);
}

#[test]
fn h17_a_first_commit_is_signed_too() {
    let project = signed();
    project.bash("git checkout -q --orphan fresh; git rm -qrf .");
    let made = exec(&project, "echo a > a.txt");
    made.assert_end("0 committed -");
    project.git(["verify-commit", &made.commit()]);
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
    project.assert_clean();
}

/// Every commit of a branch is signed, and `verify` and git agree with everything.
fn assert_all_signed(project: &TestProject, commits: usize) {
    let log = project.git(["log", "--format=%H %G? %s"]);
    // The first one was made before there was a key.
    let made: Vec<&str> = log.lines().take(commits).collect();
    assert_eq!(log.lines().count(), commits + 1, "{log}");
    assert!(
        made.iter().all(|line| line.split(' ').nth(1) == Some("G")),
        "{log}"
    );
    for line in made {
        project.git(["verify-commit", &line[..40]]);
    }
    let verified = project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
}

#[test]
fn h17_undo_redo_checkpoints_and_their_undo_are_signed() {
    let project = signed();
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    told(&project, &["undo"]).assert_end("0 committed -");
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "a\n");
    exec_with(&project, &["--checkpoint", "explicit"], "echo b > b.txt").assert_end("0 skipped -");
    told(&project, &["checkpoint"]).assert_end("0 committed -");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(project.git(["status", "--porcelain"]), "?? b.txt\n");
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_all_signed(&project, 6);
    // Nothing that git prunes is missed.
    project.bash("git reflog expire --expire=now --all; git gc -q --prune=now");
    told(&project, &["undo"]).assert_end("0 committed -");
    told(&project, &["undo"]).assert_end("0 skipped -");
    assert_all_signed(&project, 7);
}

#[test]
fn h17_what_an_atomic_run_made_and_took_back_is_signed() {
    let steps = |name: &str| {
        format!("<step name=\"{name}\"><execute item_type=\"tool\" item_id=\"{name}\"/></step>\n")
    };
    let text = format!(
        "# all\n\n```xml\n<directive name=\"all\" version=\"1.0.0\">\n<metadata><description>All</description>\
         <git_checkpoint mode=\"auto\"/><permissions><execute resource=\"tool\" id=\"*\"/>\
         <write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\n<process>\n{}{}</process>\n</directive>\n```\n",
        steps("make"),
        steps("fail")
    );
    let project = signed().file(".ai/directives/all.md", text);
    let project = project
        .tool("make", "", "echo a > a.txt")
        .tool("fail", "", "exit 3");
    project.bash("git add .ai; git commit -qm items");
    let ran = project.piton(["run", "all", "--atomic"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(!project.root().join("a.txt").exists(), "{ran}");
    assert_all_signed(&project, 3);
    project.assert_clean();
    // Without the key the run cannot be taken back by a commit: what it made stays, and the reason is told.
    let project = project.tool(
        "fail",
        "isolation: trusted",
        "mv ../home/key ../home/key.away; exit 3",
    );
    project.bash("git add .ai; git commit -qm items");
    let ran = project.piton(["run", "all", "--atomic"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("the run was not rolled back") && ran.stderr().contains("sign"),
        "{ran}"
    );
    assert_eq!(
        (
            project.read("a.txt").as_str(),
            project.git(["status", "--porcelain"]).as_str()
        ),
        ("a\n", "")
    );
}
