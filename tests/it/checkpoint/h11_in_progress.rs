//! H11: a git operation is in progress. Piton names it and refuses before the command runs.

use std::fs;

use super::{exec, refused, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

/// Two branches that changed the same line, and a commit on each that does not conflict.
fn diverged() -> TestProject {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash(
        "git checkout --quiet -b other; echo theirs > a.txt; git commit --quiet --all --message theirs
        git checkout --quiet main; echo ours > a.txt; git commit --quiet --all --message ours",
    );
    project
}

/// Starts a git operation and expects a refusal, with nothing changed.
fn is_refused(project: &TestProject, begin: &str, expected: (&str, &str, &str)) {
    project.bash(&format!("{begin} > /dev/null 2>&1 || true"));
    let state = states(project);
    let guard = Guard::of(project);
    let (code, message, suggestion) = expected;
    assert_eq!(
        told(project, &exec(project, "touch ran; echo tool > a.txt")),
        refused(code, message, suggestion)
    );
    let explicit = [
        "--format",
        "json",
        "exec",
        "--checkpoint",
        "explicit",
        "--",
        "touch",
        "ran",
    ];
    assert_eq!(
        told(project, &project.piton(explicit)),
        refused(code, message, suggestion)
    );
    assert_eq!(
        told(
            project,
            &project.piton(["--format", "json", "checkpoint", "--all"])
        ),
        refused(code, message, suggestion)
    );
    assert_eq!(states(project), state);
    guard.refused();
}

/// The files in the git folder that record an operation in progress.
fn states(project: &TestProject) -> Vec<(String, Vec<u8>)> {
    let git = project.root().join(".git");
    let names = [
        "MERGE_HEAD",
        "MERGE_MSG",
        "MERGE_MODE",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "BISECT_LOG",
        "BISECT_START",
    ];
    let folders = ["rebase-merge", "rebase-apply", "sequencer"];
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for name in names.iter().chain(&folders) {
        for entry in walkdir::WalkDir::new(git.join(name))
            .sort_by_file_name()
            .into_iter()
            .filter_map(Result::ok)
        {
            if entry.file_type().is_file() {
                found.push((
                    entry.path().display().to_string(),
                    fs::read(entry.path()).expect("a file"),
                ));
            }
        }
    }
    assert!(!found.is_empty(), "git is in the middle of nothing");
    found
}

const CODE: &str = "OPERATION_IN_PROGRESS";

#[test]
fn h11_a_merge_is_refused() {
    let way_out = "finish it with `git merge --continue` or leave it with `git merge --abort`";
    is_refused(
        &diverged(),
        "git merge other",
        (CODE, "a merge is in progress", way_out),
    );
}

#[test]
fn h11_a_merge_without_conflicts_is_refused_as_well() {
    let project = diverged();
    project.bash("git checkout --quiet -b third HEAD~1; echo b > b.txt; git add b.txt; git commit --quiet --message b");
    let way_out = "finish it with `git merge --continue` or leave it with `git merge --abort`";
    is_refused(
        &project,
        "git merge --no-commit other",
        (CODE, "a merge is in progress", way_out),
    );
}

#[test]
fn h11_a_rebase_is_refused() {
    let way_out = "finish it with `git rebase --continue` or leave it with `git rebase --abort`";
    is_refused(
        &diverged(),
        "git rebase other",
        (CODE, "a rebase is in progress", way_out),
    );
}

#[test]
fn h11_a_rebase_by_patches_is_refused() {
    let way_out = "finish it with `git rebase --continue` or leave it with `git rebase --abort`";
    is_refused(
        &diverged(),
        "git rebase --apply other",
        (CODE, "a rebase is in progress", way_out),
    );
}

#[test]
fn h11_an_interactive_rebase_that_stopped_to_edit_is_refused() {
    let project = diverged();
    let way_out = "finish it with `git rebase --continue` or leave it with `git rebase --abort`";
    let begin = "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase --interactive HEAD~1";
    is_refused(&project, begin, (CODE, "a rebase is in progress", way_out));
}

#[test]
fn h11_a_cherry_pick_is_refused() {
    let way_out =
        "finish it with `git cherry-pick --continue` or leave it with `git cherry-pick --abort`";
    is_refused(
        &diverged(),
        "git cherry-pick other",
        (CODE, "a cherry-pick is in progress", way_out),
    );
}

#[test]
fn h11_a_revert_is_refused() {
    let project = diverged();
    project.bash("echo more > a.txt; git commit --quiet --all --message more");
    let way_out = "finish it with `git revert --continue` or leave it with `git revert --abort`";
    is_refused(
        &project,
        "git revert HEAD~1",
        (CODE, "a revert is in progress", way_out),
    );
}

#[test]
fn h11_a_bisect_is_refused() {
    let way_out = "leave it with `git bisect reset`";
    is_refused(
        &diverged(),
        "git bisect start",
        (CODE, "a bisect is in progress", way_out),
    );
}

#[test]
fn h11_a_mailbox_is_refused() {
    let way_out = "finish it with `git am --continue` or leave it with `git am --abort`";
    let begin = "git format-patch --stdout main..other > ../tmp/mail; git am ../tmp/mail";
    is_refused(
        &diverged(),
        begin,
        (CODE, "`git am` is in progress", way_out),
    );
}

#[test]
fn h11_conflicts_without_an_operation_are_refused() {
    let project = diverged();
    project.bash("echo dirty > a.txt; git stash --quiet; echo other > a.txt; git commit --quiet --all --message other");
    project.bash("git stash apply --quiet > /dev/null 2>&1 || true");
    let guard = Guard::of(&project);
    assert_eq!(
        told(&project, &exec(&project, "touch ran; echo tool > a.txt")),
        refused(
            "UNMERGED_INDEX",
            "the index holds conflicts: `a.txt`",
            "resolve them and `git add` the files; `git status` lists them"
        )
    );
    guard.refused();
}

#[test]
fn h11_a_merge_that_the_tool_begins_is_not_committed_over() {
    let project = diverged();
    let ran = exec(&project, "git merge other > /dev/null 2>&1 || true");
    let (code, last) = told(&project, &ran);
    assert_eq!(code, Some(1), "{last}");
    assert_eq!(last["steps"][0]["checkpoint"]["status"], "failed", "{last}");
    assert_eq!(last["error"]["code"], CODE, "{last}");
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1"]),
        "ours\n"
    );
    assert!(project.root().join(".git/MERGE_HEAD").exists());
    project.git(["merge", "--abort"]);
    project.assert_clean();
}
