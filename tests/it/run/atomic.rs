//! Atomic runs: everything that a run did is rolled back if it does not succeed.

use super::{assert_sound, assert_unharmed, call, directive, dirty, project, subjects, summary};
use crate::harness::TestProject;

const PROSE: &str = "<step name=\"write\"><action>Write words.txt.</action></step>\n";

fn failing(metadata: &str) -> TestProject {
    let all = format!(
        "{}{}{}",
        call("a", "add", "", "a"),
        call("b", "add", "", "b"),
        call("bad", "fail", "on_failure=\"keep\"", "")
    );
    directive("all", metadata, &all)(project()).committed()
}

#[test]
fn a_failed_run_is_rolled_back_by_one_commit() {
    for (metadata, flag) in [
        ("<git_checkpoint mode=\"auto\"/>", Some("--atomic")),
        (
            "<git_checkpoint mode=\"auto\" on_failure=\"rollback_run\"/>",
            None,
        ),
    ] {
        let project = failing(metadata);
        dirty(&project);
        let ran = project.piton(["run", "all", "--format", "json"].into_iter().chain(flag));
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert_eq!(project.read("out.txt"), "first\n", "{ran}");
        assert!(!project.root().join("new.txt").exists(), "{ran}");
        assert_eq!(subjects(&project).len(), 3, "{ran}");
        let message = project.git(["log", "-1", "--format=%B"]);
        assert_eq!(message.matches("Piton-Undoes:").count(), 2, "{message}");
        assert_eq!(project.git(["diff", "--stat", "HEAD~3", "HEAD"]), "");
        assert_unharmed(&project);
        let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
        let ran = project.piton(["resume", &run]);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stderr().contains("rolled back"), "{ran}");
        // There is nothing left to undo or to commit.
        assert_eq!(
            project.piton(["checkpoint"]).code(),
            project.piton(["checkpoint"]).code()
        );
        assert_eq!(subjects(&project).len(), 3);
    }
}

#[test]
fn what_was_not_committed_is_rolled_back_on_disk() {
    let project = failing("<git_checkpoint mode=\"explicit\"/>");
    dirty(&project);
    let ran = project.piton(["run", "all", "--atomic"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("out.txt"), "first\n");
    assert!(!project.root().join("new.txt").exists());
    assert_eq!(subjects(&project), Vec::<String>::new());
    assert_unharmed(&project);
}

#[test]
fn a_run_that_succeeds_keeps_its_work() {
    let project = directive(
        "fine",
        "<git_checkpoint mode=\"auto\"/>",
        &call("a", "add", "", "a"),
    )(project())
    .committed();
    assert_eq!(project.piton(["run", "fine", "--atomic"]).code(), Some(0));
    assert_eq!(project.read("out.txt"), "first\na\n");
    assert_sound(&project);
}

#[test]
fn a_cancelled_or_rejected_run_is_rolled_back_too() {
    for end in [vec!["cancel"], vec!["reject", "--end"]] {
        let all = format!("{}{PROSE}", call("a", "add", "", "a"));
        let project =
            directive("words", "<git_checkpoint mode=\"auto\"/>", &all)(project()).committed();
        dirty(&project);
        assert_eq!(project.piton(["run", "words", "--atomic"]).code(), Some(4));
        let ran = project.piton(&end);
        assert_eq!(project.read("out.txt"), "first\n", "{ran}");
        assert_eq!(subjects(&project).len(), 2, "{ran}");
        assert_unharmed(&project);
    }
}

#[test]
fn if_a_file_was_edited_since_nothing_is_rolled_back_and_the_file_is_named() {
    let all = format!("{}{PROSE}", call("a", "add", "", "a"));
    let project =
        directive("words", "<git_checkpoint mode=\"auto\"/>", &all)(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "words", "--atomic", "--format", "json"]);
    let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
    project.bash("echo mine >> out.txt");
    let ran = project.piton(["reject", "--end", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let message = summary(&ran)["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        message.contains("not rolled back") && message.contains("out.txt"),
        "{message}"
    );
    assert_eq!(project.read("out.txt"), "first\na\nmine\n");
    assert_eq!(subjects(&project).len(), 1);
    assert_unharmed(&project);
    // Nothing was rolled back, so the run can continue.
    assert_eq!(project.piton(["resume", &run]).code(), Some(4));
}

#[test]
fn without_checkpoints_nothing_could_be_rolled_back() {
    let project = failing("");
    let ran = project.piton(["run", "all", "--atomic", "--checkpoint", "disabled"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("all-or-nothing"), "{ran}");
    assert_eq!(project.read("out.txt"), "first\n");
}

#[test]
fn a_roll_back_of_a_run_that_was_killed_is_finished_later() {
    for place in [
        "run-put-back",
        "restore-path:1",
        "commit-decided:3",
        "commit-ref-moved:3",
        "commit-applied:3",
    ] {
        let project = failing("<git_checkpoint mode=\"auto\"/>");
        dirty(&project);
        let killed = project
            .command(["run", "all", "--atomic"])
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton");
        assert!(!killed.status.success(), "{place}");
        let status = project.piton(["recover"]);
        assert_eq!(status.code(), Some(0), "{place}: {status}");
        let ran = project.piton(["resume"]);
        assert_eq!(ran.code(), Some(1), "{place}: {ran}");
        assert_eq!(project.read("out.txt"), "first\n", "{place}: {ran}");
        assert!(!project.root().join("new.txt").exists(), "{place}: {ran}");
        assert_eq!(subjects(&project).len(), 3, "{place}: {ran}");
        assert_unharmed(&project);
    }
}
