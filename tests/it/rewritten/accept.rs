//! `piton verify --accept`: a person accepts what happened to a checkpoint.

use super::{broken_step, codes, fates, kinds, project};
use crate::harness::TestProject;

/// A project whose second checkpoint was amended with other content, and the name of that step.
fn altered() -> (TestProject, String) {
    let project = project();
    project.bash("echo more >> new.txt; git commit -qa --amend --no-edit");
    assert_eq!(codes(&project), ["REWRITTEN"]);
    let step = broken_step(&project);
    (project, step)
}

#[test]
fn an_accepted_change_verifies_with_who_when_and_why() {
    let (project, step) = altered();
    let ran = project
        .piton([
            "verify",
            "--accept",
            &step,
            "--reason",
            "typo fixed by hand",
        ])
        .succeeded();
    assert!(
        ran.stderr().contains("Test <test@example.com> accepts "),
        "{ran}"
    );
    let ran = project
        .piton(["verify", "--all", "--format", "json"])
        .succeeded();
    assert_eq!(kinds(&ran), ["accepted"], "{ran}");
    let fate = &ran.json()["fates"][0]["fate"];
    assert_eq!(fate["by"], "Test <test@example.com>", "{ran}");
    assert_eq!(fate["reason"], "typo fixed by hand", "{ran}");
    let ran = project.piton(["verify"]).succeeded();
    assert!(
        ran.stderr()
            .contains("Test <test@example.com> accepted that at 2026-01-02T03:"),
        "{ran}"
    );
    assert!(ran.stderr().contains(": typo fixed by hand"), "{ran}");
    let shown = project.piton(["show", &step, "--no-diff"]).succeeded();
    assert!(
        shown
            .stdout()
            .contains("accepted      by Test <test@example.com>"),
        "{shown}"
    );
    // The accepted change is recognised on another parent.
    project.git(["rebase", "-q", "main"]);
    assert_eq!(fates(&project), ["moved", "accepted"]);
    // The acceptance covers one change, not later ones.
    project.bash("echo evil >> new.txt; git commit -qa --amend --no-edit");
    assert_eq!(codes(&project), ["REWRITTEN"]);
}

#[test]
fn a_checkpoint_that_is_gone_can_be_accepted_by_any_name() {
    let project = project();
    let gone = project.git(["rev-parse", "HEAD"]);
    project.git(["reset", "-q", "--hard", "HEAD~1"]);
    let ran = project
        .piton([
            "verify",
            "--accept",
            gone.trim(),
            "--reason",
            "not wanted",
            "--format",
            "json",
        ])
        .succeeded();
    assert_eq!(ran.json()["accepted"][0]["channel"], "script", "{ran}");
    assert_eq!(ran.json()["accepted"][0]["commit"], gone.trim(), "{ran}");
    assert_eq!(fates(&project), ["accepted"]);
    let log = project.piton(["log"]).succeeded();
    assert!(log.stdout().contains("verify --accept"), "{log}");
    // A new commit that names the step needs a new acceptance.
    let message = project.git(["log", "-1", "--format=%B", gone.trim()]);
    project.git(["commit", "-q", "--allow-empty", "-m", &message]);
    assert_eq!(codes(&project), ["REWRITTEN"]);
    project
        .piton(["verify", "--accept", "HEAD", "--reason", "kept as a mark"])
        .succeeded();
    assert_eq!(fates(&project), ["accepted"]);
}

#[test]
fn several_steps_are_accepted_at_once_or_not_at_all() {
    let project = project();
    project.git(["reset", "-q", "--hard", "HEAD~2"]);
    let ran = project.piton(["verify", "--all", "--format", "json"]);
    let name = |at: usize| {
        ran.json()["breaks"][at]["step"]
            .as_str()
            .expect("a step")
            .to_owned()
    };
    let (first, second) = (name(0), name(1));
    let refused = project.piton([
        "verify",
        "--accept",
        &first,
        "--accept",
        "01kzzzzz/1",
        "--reason",
        "r",
    ]);
    assert_eq!(refused.code(), Some(2), "{refused}");
    assert_eq!(codes(&project), ["REWRITTEN", "REWRITTEN"]);
    project
        .piton([
            "verify",
            "--accept",
            &first,
            "--accept",
            &second,
            "--reason",
            "starting over",
        ])
        .succeeded();
    assert_eq!(fates(&project), ["accepted", "accepted"]);
}

#[test]
fn what_needs_no_acceptance_or_cannot_be_accepted_is_refused() {
    let project = project();
    let refused = |words: &[&str], told: &str| {
        let ran = project.piton(words);
        assert!(
            ran.code() == Some(2) && ran.stderr().contains(told),
            "{words:?}: {ran}"
        );
    };
    refused(
        &["verify", "--accept", "HEAD", "--reason", "r"],
        "there is nothing to accept: step `",
    );
    refused(
        &["verify", "--accept", "HEAD", "--reason", "  "],
        "the reason is empty",
    );
    refused(&["verify", "--accept", "HEAD"], "--reason <TEXT>");
    refused(&["verify", "--reason", "r"], "--accept <STEP>");
    refused(
        &["verify", "--all", "--accept", "HEAD", "--reason", "r"],
        "cannot be used with",
    );
    refused(
        &["verify", "--accept", "main", "--reason", "r"],
        "was not made by a step of piton",
    );
    // A tampered journal cannot be accepted.
    let run = project.bash("ls .git/piton/runs | tail -1");
    let journal = format!(".git/piton/runs/{}/journal.jsonl", run.trim());
    let text = project
        .read(&journal)
        .replace("\"path\":\"new.txt\"", "\"path\":\"old.txt\"");
    std::fs::write(project.root().join(&journal), text).expect("written");
    let ran = project.piton(["verify", "--accept", "HEAD", "--reason", "r"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert_eq!(codes(&project).len(), 1);
}

#[test]
fn a_step_of_a_run_cannot_accept() {
    let (project, step) = altered();
    let piton = env!("CARGO_BIN_EXE_piton");
    let script = format!("'{piton}' verify --accept {step} --reason mine && touch accepted; true");
    project
        .piton([
            "exec",
            "--checkpoint",
            "disabled",
            "--",
            "sh",
            "-c",
            &script,
        ])
        .succeeded();
    assert!(!project.root().join("accepted").exists());
    assert_eq!(codes(&project), ["REWRITTEN"]);
}

#[test]
fn accepting_needs_a_git_identity() {
    let (project, step) = altered();
    let mut command = project.command(["verify", "--accept", &step, "--reason", "r"]);
    command
        .env_remove("GIT_AUTHOR_NAME")
        .env_remove("GIT_AUTHOR_EMAIL");
    let ran = project.ran(command.output().expect("piton starts"));
    assert_ne!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("hint: "), "{ran}");
    assert_eq!(codes(&project), ["REWRITTEN"]);
}

#[test]
fn a_kill_while_accepting_is_all_or_nothing() {
    for (place, is_accepted) in [
        ("rewrite-written", false),
        ("journal-append:2", false),
        ("rewrite-recorded", true),
        ("trail-written", true),
    ] {
        let (project, step) = altered();
        let mut command = project.command(["verify", "--accept", &step, "--reason", "r"]);
        command
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts");
        let ran = project.piton(["verify", "--all", "--format", "json"]);
        assert_eq!(ran.code(), Some(i32::from(!is_accepted)), "{place}: {ran}");
        project.assert_clean();
    }
}
