//! The same checks in clones, at pushes and on servers; and objects that `git replace` substitutes.

use super::{broken_step, codes, fates, project, step};
use crate::harness::{Ran, TestProject};

fn with_remote(project: TestProject) -> TestProject {
    project.bash(
        "git init -q --bare --initial-branch=main ../remote.git; git remote add origin ../remote.git; git push -q origin main",
    );
    project
}

fn refused(ran: &Ran, code: &str) {
    assert!(
        ran.code() != Some(0) && ran.stderr().contains(code),
        "{code}: {ran}"
    );
}

#[test]
fn a_rebase_or_squash_from_before_the_hooks_can_be_pushed() {
    for rewrite in [
        "git rebase -q main",
        "GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/squash/'\" git rebase -q -i main",
        "git reset -q --soft HEAD~2; git commit -qm both",
        "git commit -q --amend -m reworded",
    ] {
        let project = with_remote(project());
        project.bash(rewrite);
        project.piton(["hooks", "install"]).succeeded();
        project
            .piton(["-C", "../remote.git", "hooks", "install"])
            .succeeded();
        project.piton(["push", "origin"]).succeeded();
        project
            .try_git(["push", "-q", "origin", "work"])
            .succeeded();
        // Another clone agrees.
        project.bash("git clone -q -b work ../remote.git ../clone");
        project
            .piton(["-C", "../clone", "fetch", "origin"])
            .succeeded();
        project
            .piton(["-C", "../clone", "verify", "--all"])
            .succeeded();
    }
}

#[test]
fn what_a_push_refuses_can_be_accepted_and_the_acceptance_is_pushed() {
    let project = with_remote(project());
    project.bash("echo more >> new.txt; git commit -qa --amend --no-edit");
    project.piton(["hooks", "install"]).succeeded();
    project
        .piton(["-C", "../remote.git", "hooks", "install"])
        .succeeded();
    project.piton(["push", "origin"]).succeeded();
    let ran = project.try_git(["push", "-q", "origin", "work"]);
    refused(&ran, "REWRITTEN");
    let step = broken_step(&project);
    refused(&ran, &format!("piton verify --accept {step} --reason TEXT"));
    refused(
        &project.try_git(["push", "-q", "--no-verify", "origin", "work"]),
        "REWRITTEN",
    );
    project
        .piton([
            "verify",
            "--accept",
            &step,
            "--reason",
            "typo fixed by hand",
        ])
        .succeeded();
    // The server does not know about the acceptance yet.
    refused(
        &project.try_git(["push", "-q", "origin", "work"]),
        "REWRITTEN",
    );
    project.piton(["push", "origin"]).succeeded();
    project
        .try_git(["push", "-q", "origin", "work"])
        .succeeded();
    project.bash("git clone -q -b work ../remote.git ../clone");
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    let ran = project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    assert!(
        ran.stderr()
            .contains("Test <test@example.com> accepted that at "),
        "{ran}"
    );
    assert!(ran.stderr().contains(": typo fixed by hand"), "{ran}");
}

#[test]
fn checkpoints_without_their_logs_do_not_verify() {
    let project = with_remote(project());
    project.git(["push", "-q", "origin", "work"]);
    project.bash("git clone -q -b work ../remote.git ../clone");
    for words in [
        &["-C", "../clone", "verify"][..],
        &["-C", "../clone", "verify", "--all"],
    ] {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert!(
            ran.stdout()
                .contains("2 checkpoints of 2 runs whose journals and logs are not here"),
            "{ran}"
        );
        assert!(
            ran.stdout().contains("[LOG_MISSING]") && ran.stderr().contains("`piton fetch REMOTE`"),
            "{ran}"
        );
    }
    project.piton(["push", "origin"]).succeeded();
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    project.piton(["-C", "../clone", "verify"]).succeeded();
}

#[test]
fn a_run_of_others_may_be_on_a_branch_that_is_not_checked_out() {
    let project = with_remote(project());
    project.git(["push", "-q", "origin", "work"]);
    project.piton(["push", "origin"]).succeeded();
    project.bash("git clone -q -b main ../remote.git ../clone");
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    let ran = project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    assert!(
        ran.stderr()
            .contains("only a remote-tracking branch has it"),
        "{ran}"
    );
    // In the repository that made it, a missing checkpoint is an error.
    project.bash("git switch -q main; git branch -q -D work");
    assert_eq!(codes(&project), ["REWRITTEN", "REWRITTEN"]);
}

#[test]
fn objects_that_git_shows_as_others_are_reported() {
    let project = project();
    let tip = project.git(["rev-parse", "HEAD"]);
    project
        .bash("git replace --edit HEAD < /dev/null 2> /dev/null || true; git replace main main~1");
    let ran = project.piton(["verify", "--all"]).succeeded();
    assert!(
        ran.stderr()
            .contains("no checkpoint is made of (refs/replace)"),
        "{ran}"
    );
    project.git(["replace", tip.trim(), "main"]);
    assert_eq!(codes(&project), ["REPLACED"]);
    project.git(["replace", "-d", tip.trim()]);
    // A file in a checkpoint.
    let file = project.git(["rev-parse", "HEAD:new.txt"]);
    let other = project.bash("echo evil | git hash-object -w --stdin");
    project.git(["replace", file.trim(), other.trim()]);
    assert_eq!(codes(&project), ["REPLACED"]);
    let ran = project.piton(["verify"]);
    assert!(ran.stderr().contains("git replace -d OBJECT"), "{ran}");
    project.git(["replace", "-d", file.trim()]);
    project.bash("git replace -d $(git rev-parse main)");
    project.bash(&format!(
        "mkdir -p .git/info; echo {} > .git/info/grafts",
        tip.trim()
    ));
    let found = codes(&project);
    assert!(found.contains(&"REPLACED".to_owned()), "{found:?}");
    project.bash("rm .git/info/grafts");
    assert_eq!(fates(&project), [""; 0]);
}

#[test]
fn many_rewritten_checkpoints_are_judged_in_one_pass() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "a\n")
        .committed();
    for number in 0..12 {
        step(
            &project,
            "more",
            &format!("echo {number} >> log.txt; echo {number} > file-{number}.txt"),
        );
    }
    project.bash(
        "git reset -q --soft HEAD~6; git commit -qm half; git commit -q --amend -m 'the half'",
    );
    assert_eq!(fates(&project), ["squashed"; 6]);
    project.bash("GIT_COMMITTER_DATE=2026-02-02T02:02:02Z GIT_SEQUENCE_EDITOR=: git rebase -q -i --root --no-ff");
    assert_eq!(
        fates(&project)
            .iter()
            .filter(|fate| *fate == "moved")
            .count(),
        6
    );
}
