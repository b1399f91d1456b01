//! Regression tests for faults that people found by reading and trying.

mod attributes;
mod failing_disk;
mod ignored;
mod index_stats;
mod line_ends;
mod modes;
mod order;
mod overlap;
mod overlooked;
mod ref_hook;
mod replaced;
mod submodule;
mod unwritable;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::harness::TestProject;

fn project() -> TestProject {
    TestProject::new()
        .file("a.txt", "a\n")
        .file("k.txt", "k\n")
        .committed()
}

/// Runs a command line that has to succeed.
fn run(project: &TestProject, words: &[&str]) {
    let ran = project.piton(words);
    assert_eq!(ran.code(), Some(0), "{words:?}: {ran}");
}

/// The permission bits of a file or folder.
fn bits(project: &TestProject, path: &str) -> u32 {
    fs::metadata(project.root().join(path))
        .expect("a file")
        .permissions()
        .mode()
        & 0o7777
}

/// The name of the newest step, as `piton undo` and `piton restore` take it.
fn name_of_newest_step(project: &TestProject) -> String {
    let log = project.piton(["log", "--format", "json"]);
    assert_eq!(log.code(), Some(0), "{log}");
    let newest: serde_json::Value = log
        .stdout()
        .lines()
        .next()
        .and_then(|line| serde_json::from_str(line).ok())
        .expect("a run");
    let steps = newest["steps"].as_array().expect("steps");
    steps
        .last()
        .and_then(|step| step["id"].as_str())
        .expect("a step")
        .to_owned()
}

/// Starts a step that waits, and kills piton meanwhile.
fn killed_while_running(project: &TestProject, flags: &[&str], script: &str) {
    let script = format!("{script}; touch ../tmp/started; sleep 600");
    let words = [&["exec"], flags, &["--", "sh", "-c", &script]].concat();
    let mut child = project
        .command(words)
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    while !project.root().join("../tmp/started").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("piton can be killed");
    child.wait().expect("piton ends");
}

fn armed(project: &TestProject, place: &str, words: &[&str]) {
    let output = project
        .command(words)
        .env("PITON_FAILPOINT", place)
        .output()
        .expect("piton starts");
    assert_eq!(output.status.code(), None, "{place} was not reached");
}

#[test]
fn a_step_of_another_work_tree_is_neither_restored_nor_undone_here() {
    let project = project();
    run(
        &project,
        &["exec", "--", "sh", "-c", "echo here > here.txt"],
    );
    let here = project.git(["rev-parse", "HEAD"]);
    project.git(["worktree", "add", "--quiet", "-b", "other", "../other"]);
    run(
        &project,
        &[
            "-C",
            "../other",
            "exec",
            "--",
            "sh",
            "-c",
            "echo there > there.txt",
        ],
    );
    for words in [["restore", here.trim()], ["undo", here.trim()]] {
        let refused = project.piton([&["-C", "../other"], words.as_slice()].concat());
        assert_eq!(refused.code(), Some(1), "{refused}");
        assert!(
            refused
                .stderr()
                .contains("it was made in another work tree"),
            "{refused}"
        );
    }
    assert_eq!(
        fs::read_to_string(project.root().join("../other/there.txt")).expect("a file"),
        "there\n"
    );
    project.assert_clean();
}

#[test]
fn an_undo_after_a_crash_undoes_what_was_interrupted() {
    let project = project();
    run(
        &project,
        &[
            "exec",
            "--name",
            "good",
            "--",
            "sh",
            "-c",
            "echo good > good.txt",
        ],
    );
    killed_while_running(
        &project,
        &["--checkpoint", "explicit", "--name", "bad"],
        "echo bad > bad.txt",
    );
    run(&project, &["undo"]);
    assert_eq!(project.read("good.txt"), "good\n");
    assert!(!project.root().join("bad.txt").exists());
    project.assert_clean();
}

#[test]
fn what_is_staged_after_piton_died_stays_staged() {
    let project = project().file("a.txt", "a, mine\n");
    killed_while_running(&project, &[], "echo step > step.txt; git add step.txt");
    // Longer than the uncertainty about the time of death.
    thread::sleep(Duration::from_secs(5));
    project.git(["add", "a.txt"]);
    let project = project.file("a.txt", "a, mine, more\n");
    run(&project, &["recover"]);
    assert_eq!(project.git(["show", ":a.txt"]), "a, mine\n");
    assert_eq!(project.read("a.txt"), "a, mine, more\n");
    assert!(!project.root().join("step.txt").exists());
    project.git(["fsck", "--strict"]);
}

#[test]
fn a_folder_among_the_temporary_files_does_not_block_commands() {
    let project = project();
    killed_while_running(&project, &[], "echo step > step.txt");
    let folder = project.root().join(".git/piton/tmp/left/behind");
    fs::create_dir_all(&folder).expect("a folder");
    run(&project, &["recover"]);
    assert!(!folder.exists());
    project.assert_clean();
}

#[test]
fn a_decided_commit_is_finished_beside_what_the_user_staged_since() {
    for place in ["commit-decided", "commit-ref-moved"] {
        let project = project();
        armed(
            &project,
            place,
            &["exec", "--", "sh", "-c", "echo step > a.txt"],
        );
        let _ = fs::remove_file(project.root().join(".git/index.lock"));
        let project = project.file("a.txt", "mine\n");
        project.git(["add", "a.txt"]);
        run(&project, &["recover"]);
        assert_eq!(project.git(["show", "HEAD:a.txt"]), "step\n", "{place}");
        assert_eq!(project.git(["show", ":a.txt"]), "mine\n", "{place}");
        assert_eq!(project.read("a.txt"), "mine\n", "{place}");
        run(&project, &["exec", "--", "true"]);
        project.git(["fsck", "--strict"]);
    }
}

#[test]
fn a_branch_that_is_switched_while_hooks_run_gets_no_commit() {
    let project = project();
    project.git(["branch", "other"]);
    let hook = project.root().join(".git/hooks/commit-msg");
    fs::create_dir_all(hook.parent().expect("a folder")).expect("a folder");
    fs::write(&hook, "#!/bin/sh\ngit symbolic-ref HEAD refs/heads/other\n").expect("a hook");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    let (main, other) = (
        project.git(["rev-parse", "main"]),
        project.git(["rev-parse", "other"]),
    );
    let failed = project.exec("echo x > x.txt");
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(failed.stderr().contains("BRANCH_SWITCHED"), "{failed}");
    assert_eq!(project.git(["rev-parse", "main"]), main);
    assert_eq!(project.git(["rev-parse", "other"]), other);
    assert_eq!(project.git(["status", "--porcelain"]), "?? x.txt\n");
}

#[test]
fn ignored_files_in_the_way_stop_an_undo_and_a_hard_roll_back_before_they_begin() {
    let project = TestProject::new()
        .file("build", "a file\n")
        .file("a.txt", "one\n")
        .committed();
    let first = project.git(["rev-parse", "HEAD"]);
    let script = "rm build; echo build/ > .gitignore; echo two > a.txt";
    run(&project, &["exec", "--", "sh", "-c", script]);
    let project = project.file("build/o", "ignored\n");
    for words in [
        vec!["undo"],
        vec!["rollback", "--hard", first.trim(), "--yes"],
    ] {
        let refused = project.piton(&words);
        assert_eq!(refused.code(), Some(1), "{refused}");
        assert!(refused.stderr().contains("`build`"), "{refused}");
        assert_eq!(project.read("a.txt"), "two\n");
        assert_eq!(project.read("build/o"), "ignored\n");
        project.assert_clean();
    }
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "2\n");
}

#[test]
fn an_undo_that_could_not_be_committed_can_be_committed_later() {
    let secret = "token = \"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\"\n";
    let project = TestProject::new().file("k.txt", secret).committed();
    run(&project, &["exec", "--", "rm", "k.txt"]);
    let failed = project.piton(["undo"]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(failed.stderr().contains("SECRET_FOUND"), "{failed}");
    let project = project.variable("PITON_CHECKPOINT_SECRETS", "warn");
    run(&project, &["checkpoint"]);
    assert_eq!(project.git(["show", "HEAD:k.txt"]), secret);
    project.assert_clean();
}

#[test]
fn a_path_that_does_not_exist_is_no_checkpoint() {
    let project = project().file("a.txt", "changed\n");
    let refused = project.piton(["checkpoint", "a.txt", "nofile"]);
    assert_eq!(refused.code(), Some(2), "{refused}");
    assert!(
        refused
            .stderr()
            .contains("there is no file or folder `nofile`"),
        "{refused}"
    );
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
    project.bash("rm k.txt");
    run(&project, &["checkpoint", "k.txt"]);
    assert_eq!(
        project.git(["show", "--format=", "--name-status", "HEAD"]),
        "D\tk.txt\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M a.txt\n");
}
