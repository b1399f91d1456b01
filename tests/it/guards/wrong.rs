//! Wrong usage: told before anything happens, with no run recorded.

use super::{Picture, count_runs, exec, exec_with, simple, told};
use crate::harness::TestProject;

#[test]
fn wrong_usage_is_reported_before_anything_happens() {
    let project = simple();
    let before = Picture::of(&project);
    let cases: [&[&str]; 8] = [
        &["exec"],
        &["exec", "--"],
        &["exec", "--checkpoint", "sometimes", "--", "touch", "ran"],
        &["exec", "--writes", "a[", "--", "touch", "ran"],
        &["exec", "--", "no-such-program-anywhere"],
        &["exec", "--", "./no/such/file"],
        &["exec", "--", "./notes.txt"],
        &["exec", "--lock-timeout", "soon", "--", "touch", "ran"],
    ];
    for words in cases {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(2), "{words:?}\n{ran}");
        assert!(ran.stderr().starts_with("error: "), "{words:?}\n{ran}");
        let ran = project.piton(["--format", "json"].iter().chain(words));
        assert_eq!(ran.code(), Some(2), "{words:?}\n{ran}");
        assert!(ran.json()["error"]["code"].is_string(), "{words:?}\n{ran}");
    }
    assert_eq!(count_runs(&project), 0);
    before.assert_same(&project);
}

#[test]
fn wrong_usage_names_what_is_wrong() {
    let project = simple();
    for (words, named) in [
        (&["exec", "--writes", "a[", "--", "true"][..], "a["),
        (
            &["exec", "--", "no-such-program-anywhere"][..],
            "no-such-program-anywhere",
        ),
        (
            &["exec", "--checkpoint", "sometimes", "--", "true"][..],
            "sometimes",
        ),
        (&["restore", "01k9zzzz"][..], "01k9zzzz"),
    ] {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stderr().contains(named), "{words:?}\n{ran}");
    }
}

#[test]
fn a_name_that_no_commit_can_hold_is_refused_before_the_command_runs() {
    let project = simple();
    let before = Picture::of(&project);
    for name in ["two\nlines", "", " ", "bell\u{7}", "right\u{202e}left"] {
        let ran = project.piton(["exec", "--name", name, "--", "touch", "ran"]);
        assert_eq!(ran.code(), Some(2), "{name:?}\n{ran}");
    }
    for message in [
        "",
        "Piton-Run: forged",
        "Signed-off-by: A <a@b>",
        "# comment",
        "[directive: x]",
    ] {
        let ran = project.piton(["exec", "-m", message, "--", "touch", "ran"]);
        assert_eq!(ran.code(), Some(2), "{message:?}\n{ran}");
    }
    assert_eq!(count_runs(&project), 0);
    before.assert_same(&project);
}

#[test]
fn g93_operations_in_progress_are_refused_with_a_hint() {
    let project = simple();
    project.bash(
        "git checkout -q -b other; echo other > notes.txt; git commit -qam other; \
         git checkout -q main; echo main > notes.txt; git commit -qam main; git merge -q other || true",
    );
    let before = Picture::of(&project);
    let refused = exec(&project, "touch ran");
    refused.assert_end("5 - OPERATION_IN_PROGRESS");
    assert!(
        refused.last()["error"]["suggestion"]
            .as_str()
            .unwrap_or_default()
            .contains("git merge --abort")
    );
    assert_eq!(count_runs(&project), 0);
    before.assert_same(&project);
    project.bash("git merge --abort; git bisect start -q");
    exec(&project, "touch ran").assert_end("5 - OPERATION_IN_PROGRESS");
    project.bash("git bisect reset; git rebase -q other || true");
    exec(&project, "touch ran").assert_end("5 - OPERATION_IN_PROGRESS");
    project.bash("git rebase --abort; git cherry-pick other || true");
    exec(&project, "touch ran").assert_end("5 - OPERATION_IN_PROGRESS");
    project.bash("rm -f .git/CHERRY_PICK_HEAD");
    exec(&project, "touch ran").assert_end("5 - UNMERGED_INDEX");
    project.bash("git reset -q --hard");
    assert!(!project.root().join("ran").exists());
    exec(&project, "touch ran").assert_end("0 committed -");
    project.assert_clean();
}

#[test]
fn g93_unborn_and_detached_heads_are_supported() {
    let project = TestProject::new();
    exec(&project, "echo a > a.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
    project.git(["checkout", "-q", "--detach"]);
    let made = exec(&project, "echo b > b.txt");
    made.assert_end("0 committed -");
    assert!(
        made.notes().iter().any(|note| note.contains("detached")),
        "{:?}",
        made.notes()
    );
    assert_eq!(project.git(["rev-parse", "HEAD"]).trim_end(), made.commit());
    assert_ne!(project.git(["rev-parse", "main"]).trim_end(), made.commit());
    project.assert_clean();
}

#[test]
fn g99_a_foreign_lock_on_the_index_is_refused_by_its_name_and_stays() {
    let project = simple();
    project.bash("echo foreign > .git/index.lock");
    let refused = exec(&project, "touch ran");
    refused.assert_end("5 - INDEX_LOCKED");
    assert!(
        refused.message().contains("index.lock"),
        "{}",
        refused.message()
    );
    assert_eq!(project.read(".git/index.lock"), "foreign\n");
    assert!(!project.root().join("ran").exists());
    assert_eq!(count_runs(&project), 0);
    project.bash("rm .git/index.lock");
    project.assert_clean();
}

#[test]
fn g100_commits_made_by_others_meanwhile_are_never_lost() {
    let project = simple();
    let switched = exec(&project, "git checkout -q -b elsewhere; echo a > a.txt");
    switched.assert_end("1 failed BRANCH_SWITCHED");
    assert_eq!(project.read("a.txt"), "a\n");
    project.bash("git checkout -q main");
    let back = exec(&project, "echo b > b.txt; git commit -q --amend -m amended");
    back.assert_end("1 failed HEAD_MOVED");
    assert_eq!(project.git(["log", "-1", "--format=%s"]), "amended\n");
    assert_eq!(project.read("b.txt"), "b\n");
    let made = exec(
        &project,
        "echo c > c.txt; git add c.txt; git commit -qm own; echo d > d.txt",
    );
    made.assert_end("0 committed -");
    assert_eq!(files_of(&project), ["d.txt"]);
    assert_eq!(project.git(["log", "-1", "--format=%s", "HEAD^"]), "own\n");
    exec_with(&project, &["--checkpoint", "explicit"], "true").assert_end("0 no_changes -");
    told(&project, &["recover"]);
}

fn files_of(project: &TestProject) -> Vec<String> {
    super::files_of(project, "HEAD")
}
