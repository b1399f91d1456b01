//! Several checkpoints in one commit.

use super::{codes, fates, project, step};
use crate::harness::TestProject;

#[test]
fn squash_and_fixup_of_an_interactive_rebase_are_recognised() {
    for word in ["squash", "fixup", "fixup -C"] {
        for onto in ["HEAD~2", "main"] {
            let project = project();
            project.bash(&format!(
                "GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/{word}/'\" git rebase -q -i {onto}"
            ));
            assert_eq!(
                project.git(["rev-list", "--count", "main..work"]).trim(),
                "1",
                "{word} {onto}"
            );
            assert_eq!(fates(&project), ["squashed", "squashed"], "{word} {onto}");
        }
    }
    let project = project();
    project.bash(
        "GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/squash/'\" git rebase -q -i main",
    );
    let log = project.piton(["log"]).succeeded();
    assert_eq!(log.stdout().matches("(squashed into ").count(), 2, "{log}");
    let ran = project.piton(["verify"]).succeeded();
    assert!(ran.stderr().contains(" was squashed into "), "{ran}");
}

#[test]
fn a_soft_reset_and_a_commit_are_recognised() {
    let project = project();
    project.bash("git reset -q --soft HEAD~2; git commit -qm 'both of them'");
    assert_eq!(fates(&project), ["squashed", "squashed"]);
    // On another base, with the user's own message.
    project.git(["rebase", "-q", "main"]);
    assert_eq!(fates(&project), ["squashed", "squashed"]);
    project.bash("git reflog expire --expire=now --all; git gc -q --prune=now");
    assert_eq!(fates(&project), ["squashed", "squashed"]);
}

#[test]
fn a_squash_merge_is_recognised_after_the_branch_is_gone() {
    let project = project();
    project.bash(
        "git switch -q main; git merge -q --squash work > /dev/null; git commit -q --no-edit; git branch -q -D work",
    );
    assert_eq!(fates(&project), ["squashed", "squashed"]);
    let project = self::project();
    project
        .bash("git switch -q main; git merge -q --squash work > /dev/null; git commit -qm mine; git branch -q -D work");
    assert_eq!(fates(&project), ["squashed", "squashed"]);
}

#[test]
fn a_squash_with_commits_of_the_user_is_one_where_it_names_no_step() {
    let project = project();
    project.bash("echo own > own.txt; git add .; git commit -qm own");
    step(&project, "third", "echo third > third.txt");
    project.bash("git reset -q --soft HEAD~4; git commit -qm everything");
    assert_eq!(fates(&project), ["squashed", "squashed", "squashed"]);
    let project = self::project();
    project.bash("echo own > own.txt; git add .; git commit -qm own; git reset -q --soft HEAD~3; git commit -qm all");
    assert_eq!(fates(&project), ["squashed", "squashed"]);
    // A commit with checkpoint trailers must contain nothing else.
    let project = self::project();
    project.bash(
        "echo own > own.txt; git add .; git commit -qm own; \
         GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2,3s/^pick/fixup/'\" git rebase -q -i main",
    );
    assert_eq!(codes(&project), ["REWRITTEN", "REWRITTEN"]);
}

#[test]
fn a_squash_that_changes_something_else_is_rewritten() {
    let project = project();
    project.bash("git reset -q --soft HEAD~2; sed -i 's/LINE 3/evil/' a.txt; git commit -qam both");
    assert_eq!(codes(&project), ["REWRITTEN"]);
    let project = self::project();
    project.bash(
        "GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/squash/'\" git rebase -q -i main; \
         echo evil >> new.txt; git commit -qa --amend --no-edit",
    );
    assert_eq!(codes(&project), ["REWRITTEN", "REWRITTEN"]);
}

#[test]
fn checkpoints_around_a_squash_are_followed_as_well() {
    let project = project();
    step(&project, "third", "echo third > third.txt");
    step(&project, "fourth", "sed -i 's/line 10/LINE 10/' a.txt");
    // The third first, then the fourth with the first.
    project.bash(
        "printf '%s\\n' \"pick $(git rev-parse HEAD~1)\" \"pick $(git rev-parse HEAD~3)\" \"squash $(git rev-parse HEAD)\" \
         \"pick $(git rev-parse HEAD~2)\" > ../todo; GIT_EDITOR=: GIT_SEQUENCE_EDITOR='cp ../todo' git rebase -q -i main",
    );
    assert_eq!(fates(&project), ["squashed", "moved", "moved", "squashed"]);
}

#[test]
fn steps_that_cancel_each_other_out_can_be_squashed() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "a\n")
        .committed();
    step(&project, "make", "echo draft > draft.txt");
    step(&project, "replace", "rm draft.txt; echo final > final.txt");
    let cases = [
        "git reset -q --soft HEAD~2; git commit -qm both",
        "git rebase -q -i HEAD~2",
    ];
    for case in cases {
        let tip = project.git(["rev-parse", "HEAD"]);
        project.bash(&format!(
            "export GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/fixup/'\"; {case}"
        ));
        assert_eq!(fates(&project), ["squashed", "squashed"], "{case}");
        project.git(["reset", "-q", "--hard", tip.trim()]);
    }
    // Only an empty commit is left of these two.
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "a\n")
        .committed();
    step(&project, "make", "echo draft > draft.txt");
    step(&project, "remove", "rm draft.txt");
    project.bash("git reset -q --soft HEAD~2; git commit -q --allow-empty -m nothing");
    assert_eq!(fates(&project), ["squashed", "squashed"]);
}
