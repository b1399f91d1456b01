//! H4: untracked files that the step did not make are never deleted, ignored ones never touched.

use super::{committed, exec, rolled_back, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

/// A project with a thousand untracked files; `.env` and `node_modules/` are ignored.
fn crowded() -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file(".gitignore", ".env\nnode_modules/\n*.log\n")
        .committed();
    project.bash(
        "mkdir -p many/deep node_modules/m
        for i in $(seq 500); do echo $i > many/$i.txt; echo $i > many/deep/$i.txt; done
        echo SECRET=1 > .env; echo 'x = 1' > node_modules/m/index.js; echo log > many/deep/x.log",
    );
    project
}

#[test]
fn h4_a_failed_step_moves_its_own_files_only() {
    let project = crowded();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo tool > a.txt; echo tool > many/new.txt; rm many/7.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(3, 2, 2));
    guard.rolled_back(&["a.txt", "many/7.txt"]);
}

#[test]
fn h4_a_step_that_succeeds_commits_its_own_files_only() {
    let project = crowded();
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt; echo tool > many/new.txt");
    assert_eq!(told(&project, &ran), committed(2, 2, 1));
    guard.committed(&["a.txt", "many/new.txt"]);
}

#[test]
fn h4_undo_and_redo_leave_every_other_file_alone() {
    let project = crowded();
    exec(&project, "echo tool > a.txt; echo tool > many/new.txt");
    let guard = Guard::of(&project);
    for command in ["undo", "redo"] {
        let ran = project.piton([command]);
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    guard.left_besides_head(&["a.txt", "many/new.txt"]);
    assert_eq!(
        (project.read("a.txt"), project.read("many/new.txt")),
        ("tool\n".to_owned(), "tool\n".to_owned())
    );
}

#[test]
fn h4_what_the_step_stops_ignoring_is_not_deleted() {
    let project = crowded();
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo > .gitignore; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 3));
    guard.rolled_back(&[".gitignore"]);
}

#[test]
fn h4_what_the_step_stops_ignoring_is_not_committed() {
    let project = crowded();
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo node_modules/ > .gitignore");
    assert_eq!(told(&project, &ran), committed(1, 0, 2));
    assert_eq!(
        project.git([
            "status",
            "--porcelain",
            "--untracked-files=all",
            "--",
            ".env",
            "many/deep/x.log"
        ]),
        "?? .env\n?? many/deep/x.log\n"
    );
    guard.committed_with(&[".gitignore"], &[".env", "many/deep/x.log"]);
}

#[test]
fn h4_what_the_step_begins_to_ignore_is_rolled_back_all_the_same() {
    let project = crowded();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo '*' > .gitignore; echo tool > a.txt; echo tool > made.txt; rm many/8.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(4, 3, 5));
    guard.rolled_back(&["a.txt", ".gitignore", "many/8.txt"]);
}

#[test]
fn h4_rules_of_the_user_that_are_not_committed_count() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file(".gitignore", "*.private\n");
    let project = project.file("my.private", "mine\n");
    let guard = Guard::of(&project);
    let ran = exec(&project, "rm .gitignore; echo tool > a.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(2, 1, 2));
    guard.rolled_back(&["a.txt", ".gitignore"]);
}

#[test]
fn h4_ignored_files_that_the_tool_changed_are_the_tools_doing() {
    let project = crowded();
    let ran = exec(&project, "echo tool > .env; echo tool > a.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert_eq!(
        (project.read(".env"), project.read("a.txt")),
        ("tool\n".to_owned(), "one\n".to_owned())
    );
}

#[test]
fn h4_ignored_files_that_the_step_staged_by_force_are_not_deleted() {
    let project = crowded();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "git add --force .env node_modules; echo tool > a.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    assert!(
        ran.stdout()
            .contains(r#""not_captured":[".env","node_modules/m/index.js"]"#),
        "{ran}"
    );
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h4_ignored_files_that_the_step_staged_by_force_are_not_committed() {
    let project = crowded();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "git add --force .env node_modules; echo tool > a.txt",
    );
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    guard.committed_with(&["a.txt"], &[".env", "node_modules/m/index.js"]);
}

#[test]
fn h4_a_tracked_file_that_is_ignored_is_tracked_again() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("kept.log", "one\n")
        .committed();
    let project = project.file(".gitignore", "*.log\n").committed();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "git rm --quiet --cached kept.log; echo tool > a.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(2, 1, 2));
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h4_rules_that_the_step_took_from_the_git_folder_still_count() {
    let project = crowded()
        .file(".git/info/exclude", "*.private\n")
        .file("my.private", "mine\n");
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "cp -p .git/info/exclude ../tmp/; echo > .git/info/exclude; echo tool > a.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 1));
    project.bash("mv ../tmp/exclude .git/info/exclude");
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h4_a_restore_leaves_every_other_file_alone() {
    let project = crowded();
    exec(&project, "echo tool > a.txt");
    exec(&project, "echo more > a.txt; echo tool > many/new.txt");
    let guard = Guard::of(&project);
    let first = project.git([
        "log",
        "--max-count=1",
        "--format=%(trailers:key=Piton-Run,valueonly)",
        "HEAD~1",
    ]);
    let ran = project.piton(["restore", &format!("{}/1", first.trim())]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("a.txt"), "tool\n");
    assert!(!project.root().join("many/new.txt").exists());
    guard.left_besides_head(&["a.txt", "many/new.txt"]);
}
