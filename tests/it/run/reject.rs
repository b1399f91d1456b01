//! Rejections: a manual step is done again, or the run ends.

use super::{assert_sound, call, directive, project, steps, subjects, summary};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const PROSE: &str = "<step name=\"write\"><action>Write words.txt.</action></step>\n";
const GATE: &str =
    "<step name=\"look\"><checkpoint type=\"human-verify\">Good?</checkpoint></step>\n";

#[test]
fn a_manual_step_is_sent_back_with_a_reason_and_the_run_keeps_waiting() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    assert_eq!(project.piton(["run", "words"]).code(), Some(4));
    project.bash("echo bad > words.txt");
    let ran = project.piton(["reject"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(
        ran.stderr().contains("--reason TEXT") && ran.stderr().contains("--end"),
        "{ran}"
    );
    let ran = project.piton(["reject", "--reason", "too short"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr().contains("sent back: too short"), "{ran}");
    let ran = project.piton(["status"]);
    assert!(ran.stderr().contains("sent back: too short"), "{ran}");
    let status = project.piton(["status", "--format", "json"]).json();
    assert_eq!(
        status["waiting"]["wait"]["rejected"], "too short",
        "{status}"
    );
    project.bash("echo better >> words.txt");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD:words.txt"]), "bad\nbetter\n");
    assert_sound(&project);
}

#[test]
fn a_manual_step_that_is_rejected_for_good_ends_the_run_and_can_be_resumed() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    assert_eq!(project.piton(["run", "words"]).code(), Some(4));
    let ran = project.piton([
        "reject",
        "--end",
        "--reason",
        "not needed",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "REJECTED");
    let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr().contains("Write words.txt."), "{ran}");
}

#[test]
fn a_rejected_gate_leads_back_to_the_manual_step_before_it() {
    let all = format!("{PROSE}{}{GATE}", call("check", "list", "", ""));
    let project = directive("words", AUTO, &all)(project()).committed();
    assert_eq!(project.piton(["run", "words"]).code(), Some(4));
    project.bash("echo bad > words.txt");
    assert_eq!(project.piton(["resume"]).code(), Some(4));
    let ran = project.piton(["reject", "--reason", "too short", "--format", "json"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let status = project.piton(["status", "--format", "json"]).json();
    assert_eq!(status["waiting"]["name"], "write", "{status}");
    assert_eq!(
        status["waiting"]["wait"]["rejected"], "too short",
        "{status}"
    );
    project.bash("echo better >> words.txt");
    assert_eq!(project.piton(["resume"]).code(), Some(4));
    let ran = project.piton(["approve", "--yes", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let names: Vec<String> = steps(&ran)
        .into_iter()
        .map(|(name, status)| format!("{name} {status}"))
        .collect();
    assert_eq!(
        names,
        [
            "write succeeded",
            "check succeeded",
            "look failed",
            "write succeeded",
            "check succeeded",
            "look succeeded"
        ]
    );
    assert_eq!(subjects(&project).len(), 2);
    assert_sound(&project);
}

#[test]
fn a_program_that_does_manual_steps_reads_why_its_work_was_rejected() {
    let project = directive("words", AUTO, &format!("{PROSE}{GATE}"))(project()).committed();
    let agent = "sh -c 'cat >> words.txt'";
    assert_eq!(
        project.piton(["run", "words", "--agent-cmd", agent]).code(),
        Some(4)
    );
    assert!(!project.read("words.txt").contains("Sent back"));
    let ran = project.piton(["reject", "--reason", "more detail please"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let text = project.read("words.txt");
    assert!(
        text.contains("## Sent back") && text.contains("more detail please"),
        "{text}"
    );
    assert_eq!(project.piton(["approve", "--yes"]).code(), Some(0));
}

#[test]
fn a_gate_without_a_manual_step_before_it_ends_the_run_and_is_asked_again_by_resume() {
    let project = directive(
        "asks",
        AUTO,
        &format!("{}{GATE}", call("a", "add", "", "a")),
    )(project())
    .committed();
    assert_eq!(project.piton(["run", "asks"]).code(), Some(4));
    let ran = project.piton(["reject", "--reason", "no", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "REJECTED");
    let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert_eq!(project.piton(["approve", "--yes"]).code(), Some(0));
    assert_eq!(project.read("out.txt"), "first\na\n");
    let project = directive("words", AUTO, &format!("{PROSE}{GATE}"))(project);
    assert_eq!(project.piton(["run", "words"]).code(), Some(4));
    assert_eq!(project.piton(["resume"]).code(), Some(4));
    let ran = project.piton(["reject", "--reason", "no", "--end"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
}
