//! H13: the step itself moves HEAD.

use serde_json::{Value, json};

use super::{exec, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

fn project() -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("b.txt", "one\n")
        .committed();
    project.bash(
        "echo two > a.txt; git commit --quiet --all --message second; git branch other HEAD~1",
    );
    project
}

/// Runs a step that moves HEAD in a way that is not by its own commits; nothing is moved back.
fn moves_head(project: &TestProject, script: &str, code: &str) {
    let tip = project.git(["rev-parse", "HEAD"]);
    let ran = exec(project, script);
    let (exit_code, last) = told(project, &ran);
    assert_eq!(
        (exit_code, &last["error"]["code"]),
        (Some(1), &Value::from(code)),
        "{last}"
    );
    assert_eq!(
        last["error"]["suggestion"],
        "the branch was not moved back; piton keeps the old tip, and `git reflog` shows it"
    );
    let checkpoint = json!({ "status": "failed", "commit_sha": null, "files_changed": 0, "insertions": 0, "deletions": 0 });
    assert_eq!(last["steps"][0]["checkpoint"], checkpoint, "{last}");
    // Everything that was reachable still is, even without the reflog.
    project.git(["reflog", "expire", "--expire=now", "--all"]);
    project.git(["gc", "--quiet", "--prune=now"]);
    let store = "GIT_ALTERNATE_OBJECT_DIRECTORIES=.git/piton/store/objects git";
    project.bash(&format!("{store} ls-tree -r {} > ../tmp/tree", tip.trim()));
    project.git(["fsck", "--full", "--strict"]);
}

#[test]
fn h13_commits_of_the_step_are_adopted() {
    let project = project();
    let before = project.git(["rev-parse", "HEAD"]);
    let ran = exec(
        &project,
        "echo mine > a.txt; git commit --quiet --all --message mine",
    );
    let (code, last) = told(&project, &ran);
    let checkpoint = json!({ "status": "committed", "commit_sha": "HEAD", "files_changed": 1, "insertions": 1, "deletions": 1 });
    assert_eq!(
        (code, &last["steps"][0]["checkpoint"]),
        (Some(0), &checkpoint),
        "{last}"
    );
    assert_eq!(project.git(["rev-parse", "HEAD~1"]), before);
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1"]),
        "mine\n"
    );
    project.assert_clean();
}

#[test]
fn h13_the_rest_of_the_delta_goes_on_top_of_the_steps_commits() {
    let project = project().file("u.txt", "mine\n");
    let ran = exec(
        &project,
        "echo mine > a.txt; git commit --quiet --all --message mine; echo rest > b.txt; echo more >> a.txt",
    );
    assert_eq!(told(&project, &ran), super::committed(2, 2, 1));
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1", "HEAD~1"]),
        "mine\n"
    );
    assert_eq!(
        project.git(["show", "HEAD:a.txt", "HEAD:b.txt"]),
        "mine\nmore\nrest\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? u.txt\n");
    project.git(["fsck", "--strict"]);
}

#[test]
fn h13_adopted_commits_are_named_in_the_journal() {
    let project = project();
    let ran = exec(
        &project,
        "for i in 1 2; do echo $i > a.txt; git commit --quiet --all --message $i; done",
    );
    let adopted = ran
        .stdout()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .find_map(|event| (event["type"] == "committed").then(|| event["adopted"].clone()));
    let commits = project.git(["rev-list", "--reverse", "HEAD~2..HEAD"]);
    assert_eq!(
        adopted,
        Some(json!(commits.lines().collect::<Vec<_>>())),
        "{ran}"
    );
}

#[test]
fn h13_the_users_dirty_work_stays_out_of_what_goes_on_top() {
    let project = project().file("b.txt", "mine\n");
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo x > x.txt; git add x.txt; git commit --quiet --message x; echo y > y.txt",
    );
    assert_eq!(told(&project, &ran), super::committed(1, 1, 0));
    assert_eq!(
        project.git(["diff", "--name-only", "HEAD~1", "HEAD"]),
        "y.txt\n"
    );
    guard.left_besides_head(&["x.txt", "y.txt"]);
}

#[test]
fn h13_an_amended_commit_is_not_moved_back() {
    let project = project();
    moves_head(
        &project,
        "echo x > b.txt; git commit --quiet --all --amend --message amended",
        "HEAD_MOVED",
    );
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1"]),
        "amended\n"
    );
    assert_eq!(project.read("b.txt"), "x\n");
}

#[test]
fn h13_a_reset_is_not_moved_back() {
    let project = project();
    moves_head(&project, "git reset --quiet --hard HEAD~1", "HEAD_MOVED");
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1"]),
        "start\n"
    );
}

#[test]
fn h13_a_switch_of_branches_is_not_moved_back() {
    let project = project();
    moves_head(&project, "git checkout --quiet other", "BRANCH_SWITCHED");
    assert_eq!(project.git(["symbolic-ref", "HEAD"]), "refs/heads/other\n");
}

#[test]
fn h13_a_new_branch_is_not_moved_back() {
    let project = project();
    moves_head(
        &project,
        "git checkout --quiet -b new; echo x > b.txt; git commit --quiet --all --message x",
        "BRANCH_SWITCHED",
    );
    assert_eq!(project.git(["symbolic-ref", "HEAD"]), "refs/heads/new\n");
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1", "main"]),
        "second\n"
    );
}

#[test]
fn h13_a_detached_head_is_not_moved_back() {
    let project = project();
    moves_head(&project, "git checkout --quiet --detach", "BRANCH_SWITCHED");
    assert_eq!(project.git(["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD\n");
}

#[test]
fn h13_a_failed_step_that_committed_is_not_rolled_back() {
    let project = project();
    moves_head(
        &project,
        "echo x > a.txt; git commit --quiet --all --message x; echo y > b.txt; exit 3",
        "HEAD_MOVED",
    );
    assert_eq!(project.git(["log", "--format=%s", "--max-count=1"]), "x\n");
    assert_eq!(
        (project.read("a.txt"), project.read("b.txt")),
        ("x\n".to_owned(), "y\n".to_owned())
    );
}

#[test]
fn h13_a_branch_that_is_only_made_is_no_change() {
    let project = project();
    let ran = exec(&project, "git branch made; git tag made-too");
    let (code, last) = told(&project, &ran);
    assert_eq!(
        (code, &last["steps"][0]["checkpoint"]["status"]),
        (Some(0), &"no_changes".into()),
        "{last}"
    );
    assert_eq!(
        project.git(["rev-parse", "made"]),
        project.git(["rev-parse", "HEAD"])
    );
    project.assert_clean();
}

#[test]
fn h13_dirty_work_that_the_step_stashed_away_can_be_restored() {
    let project = project().file("b.txt", "mine\n").file("u.txt", "mine\n");
    let ran = exec(&project, "git stash --quiet --include-untracked; exit 3");
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(
        (project.read("b.txt"), project.read("u.txt")),
        ("mine\n".to_owned(), "mine\n".to_owned())
    );
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M b.txt\n?? u.txt\n"
    );
}

#[test]
fn h13_a_cleanup_of_objects_inside_the_step_loses_nothing() {
    let project = super::dirty();
    let ran = exec(
        &project,
        "rm a.txt u.txt; git reset --quiet --hard; git reflog expire --expire=now --all
        git gc --quiet --prune=now; exit 3",
    );
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(
        (project.read("u.txt"), project.read("b.txt")),
        ("untracked\n".to_owned(), "new\n".to_owned())
    );
    project.git(["fsck", "--full", "--strict"]);
}

#[test]
fn h13_a_step_that_removes_the_repository_is_reported_and_its_files_stay() {
    let project = project();
    let ran = exec(&project, "echo tool > a.txt; rm -r .git");
    // The journal was removed with the repository, so nothing more can be recorded.
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert!(ran.stdout().contains(r#""code":"JOURNAL_BROKEN""#), "{ran}");
    assert_eq!(project.files(), ["a.txt", "b.txt"]);
    assert_eq!(project.read("a.txt"), "tool\n");
}
