//! The user's `reference-transaction` hook.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::run;
use crate::harness::TestProject;

fn hook(project: &TestProject, folder: &str, script: &str) {
    let file = project.root().join(folder).join("reference-transaction");
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a hook");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn project() -> TestProject {
    TestProject::new().file("a.txt", "a\n").committed()
}

const WATCHING: &str = r#"echo "$1" >> ../tmp/seen; cat >> ../tmp/seen"#;
const REFUSING: &str = r#"[ "$1" != prepared ] || { echo "not on my watch" >&2; exit 1; }"#;

#[test]
fn the_hook_is_told_of_the_commit_of_a_checkpoint_as_git_tells_it() {
    for folder in [".git/hooks", "../tmp/own-hooks"] {
        let project = project();
        if folder != ".git/hooks" {
            let path = project.root().join(folder);
            project.git(["config", "core.hooksPath", &path.to_string_lossy()]);
        }
        hook(&project, folder, WATCHING);
        let old = project.git(["rev-parse", "HEAD"]);
        run(&project, &["exec", "--", "sh", "-c", "echo b > a.txt"]);
        let new = project.git(["rev-parse", "HEAD"]);
        let seen = project.read("../tmp/seen");
        let line = format!("{} {} refs/heads/main\n", old.trim(), new.trim());
        let (prepared, committed) = seen.split_once("committed\n").expect("both phases");
        assert!(
            prepared.starts_with("prepared\n") && prepared.contains(&line),
            "{seen}"
        );
        assert!(committed.contains(&line), "{seen}");
        assert!(
            project.git(["reflog", "-1", "HEAD"]).contains("piton: "),
            "the reflog names piton"
        );
        run(&project, &["undo"]);
        project.assert_clean();
    }
}

#[test]
fn a_hook_that_refuses_refuses_the_checkpoint_with_its_words() {
    let project = project();
    hook(&project, ".git/hooks", REFUSING);
    let head = project.git(["rev-parse", "HEAD"]);
    let failed = project.exec("echo b > a.txt");
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(
        failed.stderr().contains("HOOK_FAILED") && failed.stderr().contains("not on my watch"),
        "{failed}"
    );
    assert_eq!(project.git(["rev-parse", "HEAD"]), head);
    assert!(!project.root().join(".git/index.lock").exists());
    assert!(!project.root().join(".git/refs/heads/main.lock").exists());
    project.assert_clean();
    fs::remove_file(project.root().join(".git/hooks/reference-transaction")).expect("a hook");
    run(&project, &["exec", "--", "sh", "-c", "echo b > a.txt"]);
    project.assert_clean();
}

#[test]
fn a_hook_that_refuses_stops_a_checkpoint_an_undo_and_a_hard_roll_back() {
    let project = project();
    run(&project, &["exec", "--", "sh", "-c", "echo b > a.txt"]);
    let project = project.file("a.txt", "mine\n");
    hook(&project, ".git/hooks", REFUSING);
    let head = project.git(["rev-parse", "HEAD"]);
    let failed = project.piton(["checkpoint", "--all"]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(failed.stderr().contains("not on my watch"), "{failed}");
    assert_eq!(project.read("a.txt"), "mine\n");
    project.git(["checkout", "--quiet", "--", "a.txt"]);
    let failed = project.piton(["undo"]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(failed.stderr().contains("not on my watch"), "{failed}");
    assert_eq!(
        (project.read("a.txt"), project.git(["rev-parse", "HEAD"])),
        ("b\n".to_owned(), head)
    );
    project.assert_clean();
}

#[test]
fn the_words_of_git_do_not_decide_whether_it_was_the_hook() {
    let project = project();
    // A hook that agrees, and the lock of another program: that is no refusal by a hook.
    hook(&project, ".git/hooks", "exit 0");
    project.bash("git checkout -q -b by-hook; touch .git/refs/heads/by-hook.lock");
    let failed = project.piton([
        "exec",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        "echo b > a.txt",
    ]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(!failed.to_string().contains("HOOK_FAILED"), "{failed}");
    fs::remove_file(project.root().join(".git/refs/heads/by-hook.lock")).expect("a lock");
    // A hook that refuses without a word, and runs git itself.
    hook(
        &project,
        ".git/hooks",
        r#"git rev-parse HEAD >/dev/null; [ "$1" != prepared ]"#,
    );
    project.git(["checkout", "--quiet", "--", "a.txt"]);
    let failed = project.piton([
        "exec",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        "echo b > a.txt",
    ]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(failed.to_string().contains("HOOK_FAILED"), "{failed}");
    project.assert_clean();
}

#[test]
fn checkpoint_hooks_skip_leaves_the_hook_out() {
    let project = project().variable("PITON_CHECKPOINT_HOOKS", "skip");
    hook(&project, ".git/hooks", REFUSING);
    run(&project, &["exec", "--", "sh", "-c", "echo b > a.txt"]);
    project.assert_clean();
}

#[test]
fn a_commit_that_was_decided_and_cut_off_is_finished_past_the_hook() {
    for place in ["commit-decided", "commit-ref-moved"] {
        let project = project();
        hook(&project, ".git/hooks", WATCHING);
        super::armed(
            &project,
            place,
            &["exec", "--", "sh", "-c", "echo b > a.txt"],
        );
        run(&project, &["recover"]);
        assert_eq!(project.git(["show", "HEAD:a.txt"]), "b\n", "{place}");
        assert_eq!(
            project.read("../tmp/seen").matches("committed").count(),
            1,
            "{place}"
        );
        project.assert_clean();
    }
}

#[test]
fn a_commit_that_was_decided_and_that_the_hook_refuses_in_the_recovery_leaves_later_commands_alone()
{
    let project = project();
    super::armed(
        &project,
        "commit-decided",
        &["exec", "--", "sh", "-c", "echo b > a.txt"],
    );
    hook(&project, ".git/hooks", REFUSING);
    let recovered = project.piton(["recover"]);
    assert!(
        recovered.stderr().contains("not on my watch"),
        "{recovered}"
    );
    assert_eq!(project.read("a.txt"), "b\n", "the changes stay on disk");
    let next = project.piton(["exec", "--", "true"]);
    assert_eq!(next.code(), Some(0), "{next}");
}
