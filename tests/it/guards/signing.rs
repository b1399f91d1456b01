//! H17: commits are signed as git is set to sign them, or there is none.

use super::{Picture, exec, simple, told};
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
        project.git(["log", "-1", "--format=%(trailers:key=Piton-Run,valueonly)", &made.commit()]).trim_end(),
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
        assert_eq!((&now.refs, &now.staged), (&before.refs, &before.staged), "{spoil}");
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
    let settings = project.home().join("gitconfig").to_string_lossy().into_owned();
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
