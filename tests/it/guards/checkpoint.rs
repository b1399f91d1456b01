//! `piton checkpoint`, the modes, projects without git, and `--writes`.

use std::fs;

use super::{Picture, count_runs, exec, exec_with, files_of, simple, told};
use crate::harness::TestProject;

const EXPLICIT: [&str; 2] = ["--checkpoint", "explicit"];

#[test]
fn checkpoint_commits_the_steps_and_not_the_users_edits() {
    let project = simple().file("mine.txt", "mine\n").committed();
    exec_with(&project, &EXPLICIT, "echo a > a.txt").assert_end("0 skipped -");
    exec_with(&project, &EXPLICIT, "echo b > b.txt; echo two >> a.txt").assert_end("0 skipped -");
    project.bash("echo edited >> mine.txt; echo new > new.txt");
    let before = Picture::of(&project);
    let made = told(&project, &["checkpoint", "-m", "feat: both"]);
    made.assert_end("0 committed -");
    assert_eq!(files_of(&project, &made.commit()), ["a.txt", "b.txt"]);
    assert_eq!(project.git(["log", "-1", "--format=%s"]), "feat: both\n");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M mine.txt\n?? new.txt\n"
    );
    before.assert_only(&project, &["a.txt", "b.txt"]);
    assert_eq!(Picture::of(&project).files, before.files);
    // They are committed once.
    told(&project, &["checkpoint"]).assert_end("0 no_changes -");
}

#[test]
fn checkpoint_without_pending_steps_says_how_to_commit_the_rest() {
    let project = simple();
    project.bash("echo mine >> notes.txt");
    let before = Picture::of(&project);
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(0));
    assert!(ran.stderr().contains("no changes"), "{ran}");
    assert!(
        ran.stderr()
            .contains("hint: steps left no uncommitted changes"),
        "{ran}"
    );
    told(&project, &["checkpoint"]).assert_end("0 no_changes -");
    before.assert_same(&project);
}

#[test]
fn checkpoint_with_all_commits_everything_that_git_would_add() {
    let project = simple().file(".gitignore", "*.log\n").committed();
    exec_with(&project, &EXPLICIT, "echo a > a.txt").assert_end("0 skipped -");
    project.bash("echo mine >> notes.txt; mkdir sub; echo new > sub/new.txt; echo x > debug.log; git add notes.txt");
    let made = told(&project, &["checkpoint", "--all"]);
    made.assert_end("0 committed -");
    assert_eq!(
        files_of(&project, &made.commit()),
        ["a.txt", "notes.txt", "sub/new.txt"]
    );
    assert_eq!(
        fs::read_to_string(project.root().join("debug.log")).expect("it stays"),
        "x\n"
    );
    project.assert_clean();
    // The step was part of it.
    told(&project, &["checkpoint"]).assert_end("0 no_changes -");
    told(&project, &["checkpoint", "--all"]).assert_end("0 no_changes -");
}

#[test]
fn checkpoint_of_paths_commits_those_only() {
    let project = simple()
        .file("src/one.txt", "1\n")
        .file("src/two.txt", "2\n")
        .committed();
    project.bash("echo x >> src/one.txt; rm src/two.txt; echo n > src/new.txt; echo y >> notes.txt; git add notes.txt");
    let before = Picture::of(&project);
    let made = told(&project, &["checkpoint", "src"]);
    made.assert_end("0 committed -");
    assert_eq!(
        files_of(&project, &made.commit()),
        ["src/new.txt", "src/one.txt", "src/two.txt"]
    );
    assert_eq!(project.git(["status", "--porcelain"]), "M  notes.txt\n");
    before.assert_only(&project, &["src"]);
    for outside in ["../elsewhere", "/etc/passwd"] {
        told(&project, &["checkpoint", outside]).assert_end("2 - OUTSIDE_PATH");
    }
}

#[test]
fn checkpoint_of_a_step_that_was_changed_since_holds_what_the_step_did() {
    let project = TestProject::new()
        .file("n.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        .committed();
    exec_with(&project, &EXPLICIT, "sed -i 's/^1$/one/' n.txt").assert_end("0 skipped -");
    project.bash("sed -i 's/^9$/nine/' n.txt");
    let made = told(&project, &["checkpoint"]);
    made.assert_end("0 committed -");
    assert_eq!(
        project.git(["show", "HEAD:n.txt"]),
        "one\n2\n3\n4\n5\n6\n7\n8\n9\n"
    );
    assert_eq!(project.read("n.txt"), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_eq!(project.git(["status", "--porcelain"]), " M n.txt\n");
}

#[test]
fn explicit_mode_keeps_the_changes_of_a_failed_command() {
    let project = simple();
    let failed = exec_with(&project, &EXPLICIT, "echo a > a.txt; exit 3");
    failed.assert_end("3 skipped COMMAND_FAILED");
    assert_eq!(failed.last()["steps"][0]["exit_code"], 3);
    assert_eq!(project.read("a.txt"), "a\n");
    told(&project, &["undo"]).assert_end("0 skipped -");
    project.assert_clean();
}

#[test]
fn disabled_mode_runs_the_command_and_records_no_change() {
    let project = simple();
    let before = Picture::of(&project);
    exec_with(&project, &["--checkpoint", "disabled"], "echo a > a.txt").assert_end("0 skipped -");
    before.assert_only(&project, &["a.txt"]);
    assert_eq!(Picture::of(&project).refs, before.refs);
    assert_eq!(project.git(["for-each-ref", "refs/piton"]), "");
    told(&project, &["undo"]).assert_end("1 - NOTHING_TO_UNDO");
    assert_eq!(project.read("a.txt"), "a\n");
    exec_with(
        &project,
        &["--checkpoint", "disabled"],
        "echo b > a.txt; exit 4",
    )
    .assert_end("4 skipped COMMAND_FAILED");
    assert_eq!(project.read("a.txt"), "b\n");
}

#[test]
fn without_git_auto_is_refused_before_anything_runs() {
    let project = TestProject::without_git();
    let refused = exec(&project, "touch ran");
    refused.assert_end("5 - NO_REPOSITORY");
    let suggestion = refused.last()["error"]["suggestion"]
        .as_str()
        .unwrap_or_default();
    assert!(
        suggestion.contains("git init") && suggestion.contains("--checkpoint disabled"),
        "{suggestion}"
    );
    assert_eq!(project.files(), [] as [String; 0]);
}

#[test]
fn without_git_the_other_modes_continue() {
    for mode in ["explicit", "disabled"] {
        let project = TestProject::without_git();
        let ran = project.piton(["exec", "--checkpoint", mode, "--", "touch", "ran"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(project.files(), ["ran"]);
        let warned = ran.stderr().contains("warning: there is no git repository");
        assert!(warned, "{mode}: {ran}");
    }
    let project =
        TestProject::without_git().home_file(".ai/config.yaml", "git:\n  required: false\n");
    let ran = project.piton(["exec", "--", "touch", "ran"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr().contains("warning: there is no git repository"),
        "{ran}"
    );
}

#[test]
fn writes_outside_the_globs_are_rolled_back_and_named() {
    let project = simple().file("docs/a.md", "a\n").committed();
    let before = Picture::of(&project);
    let denied = exec_with(
        &project,
        &["--writes", "docs/**"],
        "echo b >> docs/a.md; echo x > stray.txt; rm notes.txt",
    );
    denied.assert_end("3 rolled_back WRITE_DENIED");
    assert!(
        denied.message().ends_with("`notes.txt`, `stray.txt`"),
        "{}",
        denied.message()
    );
    assert_eq!(denied.last()["status"], "denied");
    assert_eq!(Picture::of(&project).status, before.status);
    before.assert_only(&project, &["docs/a.md", "notes.txt"]);
    assert_eq!(project.read("docs/a.md"), "a\n");
    assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\n");
    let allowed = exec_with(
        &project,
        &["--writes", "docs/**", "--writes", "*.txt"],
        "echo b >> docs/a.md; echo x > s.txt",
    );
    allowed.assert_end("0 committed -");
    // A star does not cross folders.
    let denied = exec_with(&project, &["--writes", "*.md"], "echo c >> docs/a.md");
    denied.assert_end("3 rolled_back WRITE_DENIED");
    project.assert_clean();
    assert_eq!(count_runs(&project), 3);
}
