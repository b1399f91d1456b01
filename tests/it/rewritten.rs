//! Checkpoints after ordinary git: rebase, amend, squash, cherry-pick, reset. They are recognised
//! by content.

mod accept;
mod foreign;
mod squash;

use crate::harness::{Ran, TestProject};

/// A branch `work` with two checkpoints, and `main` with another commit. No hooks are installed.
fn project() -> TestProject {
    let lines = (1..=20)
        .map(|number| format!("line {number}\n"))
        .collect::<Vec<_>>()
        .concat();
    let project = TestProject::new()
        .ticking()
        .file("a.txt", lines)
        .file("b.txt", "b\n")
        .committed();
    project.git(["switch", "-q", "-c", "work"]);
    step(&project, "first", "sed -i 's/line 3/LINE 3/' a.txt");
    step(&project, "second", "echo new > new.txt");
    project.bash("git switch -q main; sed -i 's/line 18/LINE 18/' a.txt; git commit -qam upstream; git switch -q work");
    project
}

fn step(project: &TestProject, name: &str, script: &str) {
    project
        .piton(["exec", "--name", name, "--", "sh", "-c", script])
        .succeeded();
}

/// The fates of the checkpoints that are not in place, oldest first. The verification must succeed.
fn fates(project: &TestProject) -> Vec<String> {
    kinds(
        &project
            .piton(["verify", "--all", "--format", "json"])
            .succeeded(),
    )
}

fn kinds(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let fates = json["fates"].as_array().cloned().unwrap_or_default();
    fates
        .iter()
        .map(|fate| fate["fate"]["type"].as_str().expect("a type").to_owned())
        .collect()
}

/// The codes of a failing verification.
fn codes(project: &TestProject) -> Vec<String> {
    let ran = project.piton(["verify", "--all", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let json = ran.json();
    let breaks = json["breaks"].as_array().expect("breaks");
    breaks
        .iter()
        .map(|found| found["code"].as_str().expect("a code").to_owned())
        .collect()
}

/// The step of the first problem, e.g. `RUN/1`.
fn broken_step(project: &TestProject) -> String {
    let ran = project.piton(["verify", "--all", "--format", "json"]);
    ran.json()["breaks"][0]["step"]
        .as_str()
        .unwrap_or_else(|| panic!("no step: {ran}"))
        .to_owned()
}

#[test]
fn a_rebase_without_hooks_moves_checkpoints() {
    let project = project();
    project.git(["rebase", "-q", "main"]);
    assert_eq!(fates(&project), ["moved", "moved"]);
    let ran = project.piton(["verify"]).succeeded();
    assert!(
        ran.stderr().contains(" was moved: ") && ran.stderr().contains("makes the same changes"),
        "{ran}"
    );
    let log = project.piton(["log"]).succeeded();
    assert_eq!(log.stdout().matches("(moved to ").count(), 2, "{log}");
    let shown = project.piton(["show", "HEAD~1", "--no-diff"]).succeeded();
    assert!(shown.stdout().contains("name          first"), "{shown}");
    let head = project.git(["rev-parse", "HEAD~1"]);
    assert!(
        shown
            .stdout()
            .contains(&format!("moved to      {}", head.trim())),
        "{shown}"
    );
    let shown = project
        .piton(["show", "HEAD", "--format", "json"])
        .succeeded();
    assert_eq!(shown.json()["fate"]["type"], "moved", "{shown}");
    // A second rebase, after the old commits are pruned.
    project.bash("git reflog expire --expire=now --all; git gc -q --prune=now");
    project.bash(
        "git switch -q main; echo m > m.txt; git add m.txt; git commit -qm m; git switch -q work; git rebase -q main",
    );
    assert_eq!(fates(&project), ["moved", "moved"]);
}

#[test]
fn a_moved_checkpoint_can_be_undone() {
    let project = project();
    project.git(["rebase", "-q", "main"]);
    project.piton(["undo"]).succeeded();
    assert!(!project.root().join("new.txt").exists());
    assert_eq!(fates(&project), ["moved", "moved"]);
    let project = self::project();
    project.git(["commit", "-q", "--amend", "-m", "mine"]);
    project.piton(["undo"]).succeeded();
    assert!(!project.root().join("new.txt").exists());
    assert_eq!(fates(&project), ["reworded"]);
}

#[test]
fn another_message_author_or_date_is_reworded() {
    for words in [
        ["--amend", "-m", "no trailers any more"],
        ["--amend", "--no-edit", "--date=2020-01-01T00:00:00Z"],
        ["--amend", "--no-edit", "--author=Eve <eve@example.com>"],
    ] {
        let project = project();
        project.git(["commit", "-q"].iter().chain(&words));
        assert_eq!(fates(&project), ["reworded"], "{words:?}");
    }
    let project = project();
    project.bash("git -c user.name=Eve -c user.email=eve@example.com commit -q --amend --no-edit --reset-author");
    project.bash("git commit -q --amend --no-edit --date=2021-01-01T00:00:00Z");
    assert_eq!(fates(&project), ["reworded"]);
}

#[test]
fn with_hooks_an_amended_message_is_reworded_and_nothing_is_said_against_it() {
    let project = project().hooked([
        "post-rewrite",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "pre-commit",
    ]);
    let ran = project
        .try_git(["commit", "-q", "--amend", "-m", "better words"])
        .succeeded();
    assert_eq!(ran.stderr(), "", "{ran}");
    assert_eq!(fates(&project), ["reworded"]);
    // Without trailers, the commit is recognised by its changes.
    project.git(["rebase", "-q", "main"]);
    assert_eq!(fates(&project), ["moved", "moved"]);
}

#[test]
fn a_message_without_trailers_on_another_parent_is_found_by_its_changes() {
    let project = project();
    project.bash("GIT_SEQUENCE_EDITOR=\"sed -i 's/^pick/reword/'\" GIT_EDITOR='echo mine >' git rebase -q -i main");
    assert!(
        !project
            .git(["log", "--format=%B", "main..work"])
            .contains("Piton-")
    );
    assert_eq!(fates(&project), ["moved", "moved"]);
}

#[test]
fn every_commit_anew_moves_every_checkpoint() {
    let project = project();
    project.bash("GIT_COMMITTER_DATE=2026-02-02T02:02:02Z GIT_SEQUENCE_EDITOR=: git rebase -q -i --root --no-ff");
    assert_eq!(fates(&project), ["moved", "moved"]);
    let project = self::project();
    project.bash(
        "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --env-filter 'export GIT_AUTHOR_NAME=X' -- --branches >&2; \
         git for-each-ref --format='%(refname)' refs/original | while read name; do git update-ref -d $name; done",
    );
    let found = fates(&project);
    assert!(found == ["moved", "moved"], "{found:?}");
}

#[test]
fn a_copy_is_named_and_stands_in_when_the_original_is_gone() {
    let project = project();
    project.bash("git switch -q -c other main; git cherry-pick -x work~1 > /dev/null");
    let ran = project.piton(["verify", "--all"]).succeeded();
    assert!(
        ran.stderr().contains("is a copy of the checkpoint of"),
        "{ran}"
    );
    project.bash("git cherry-pick work > /dev/null; git branch -q -D work");
    assert_eq!(fates(&project), ["moved", "moved"]);
}

#[test]
fn a_copy_that_changes_something_else_is_rewritten() {
    let project = project();
    project
        .bash("git switch -q -c other main; git cherry-pick -n work~1; echo more >> a.txt; git commit -qa -C work~1");
    assert_eq!(codes(&project), ["REWRITTEN"]);
    // The same files are not enough.
    let project = self::project();
    project.bash(
        "git switch -q -c other main; sed -i 's/line 5/evil/' a.txt; git commit -qa -C work~1",
    );
    assert_eq!(codes(&project), ["REWRITTEN"]);
}

#[test]
fn only_branches_count_not_remotes_or_the_reflog() {
    let project = project();
    project.bash("git init -q --bare ../remote.git; git remote add origin ../remote.git; git push -q origin work");
    project.git(["branch", "-q", "-m", "work", "renamed"]);
    assert_eq!(fates(&project), [""; 0]);
    project.git(["tag", "kept"]);
    project.bash("git switch -q main; git branch -q -D renamed");
    assert_eq!(fates(&project), [""; 0]);
    project.git(["tag", "-d", "kept"]);
    assert_eq!(codes(&project), ["REWRITTEN", "REWRITTEN"]);
    project.git(["branch", "-q", "back", "origin/work"]);
    assert_eq!(fates(&project), [""; 0]);
}

#[test]
fn what_a_reset_or_a_rebase_dropped_is_rewritten() {
    let project = project();
    project.git(["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(codes(&project), ["REWRITTEN"]);
    let ran = project.piton(["verify"]);
    let step = broken_step(&project);
    assert!(
        ran.stderr()
            .contains(&format!("piton verify --accept {step} --reason TEXT")),
        "{ran}"
    );
    let log = project.piton(["log"]).succeeded();
    assert!(log.stdout().contains("(rewritten)"), "{log}");
    let project = self::project();
    project.bash("GIT_SEQUENCE_EDITOR='sed -i 1d' git rebase -q -i main");
    assert_eq!(codes(&project), ["REWRITTEN"]);
}

#[test]
fn an_older_commit_that_did_the_same_is_not_taken_for_it() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "a\n")
        .committed();
    project.bash("echo new > new.txt; git add .; git commit -qm mine; git rm -q new.txt; git commit -qm away");
    step(&project, "again", "echo new > new.txt");
    project.git(["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(codes(&project), ["REWRITTEN"]);
}

#[test]
fn of_two_steps_that_did_the_same_each_needs_a_commit() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "a\n")
        .committed();
    step(&project, "once", "echo new > new.txt");
    project.git(["reset", "-q", "--hard", "HEAD~1"]);
    step(&project, "twice", "echo new > new.txt");
    assert_eq!(codes(&project), ["REWRITTEN"]);
    project.git(["commit", "-q", "--amend", "-m", "mine"]);
    let ran = project.piton(["verify", "--all", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(kinds(&ran), ["rewritten", "reworded"], "{ran}");
}

#[test]
fn a_revert_and_a_merge_change_nothing() {
    let project = project();
    project.git(["revert", "--no-edit", "HEAD"]);
    project.bash("git switch -q main; git merge -q --no-ff -m merged work");
    assert_eq!(fates(&project), [""; 0]);
    project.git(["commit", "-q", "--amend", "-m", "another merge"]);
    assert_eq!(fates(&project), [""; 0]);
}

#[test]
fn a_step_and_its_undo_that_are_both_gone_cancel_out() {
    let project = project();
    project.piton(["undo"]).succeeded();
    project.git(["reset", "-q", "--hard", "HEAD~2"]);
    assert_eq!(fates(&project), ["undone", "undone"]);
    // If only the undo is gone, something is missing.
    let project = self::project();
    project.piton(["undo"]).succeeded();
    project.git(["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(codes(&project), ["REWRITTEN"]);
}

#[test]
fn a_forged_trailer_is_not_believed() {
    let project = project();
    let message = project.git(["log", "-1", "--format=%B"]);
    project.bash("echo evil > evil; git add evil");
    project.git(["commit", "-q", "-m", &message]);
    assert_eq!(codes(&project), ["REWRITTEN"]);
    // The original commit is also removed.
    project.bash("git reset -q --soft HEAD~2; git rm -q --cached new.txt; rm new.txt");
    project.git(["commit", "-q", "-m", &message]);
    assert_eq!(codes(&project), ["REWRITTEN"]);
    // An empty commit, on files that are as the step left them, repeats nothing.
    let project = self::project();
    let message = project.git(["log", "-1", "--format=%B"]);
    project.bash("git reset -q --soft HEAD~1; git commit -qm mine");
    project.git(["commit", "-q", "--allow-empty", "-m", &message]);
    assert_eq!(codes(&project), ["REWRITTEN"]);
    // Trailers that no step has.
    let project = self::project();
    let forged = message.replace("Piton-Journal: sha256:", "Piton-Journal: sha256:00");
    let forged = forged
        .trim_end()
        .get(..forged.trim_end().len() - 2)
        .expect("digits")
        .to_owned();
    project.git(["commit", "-q", "--allow-empty", "-m", &forged]);
    assert_eq!(codes(&project), ["NOT_RECORDED"]);
}
