//! Ctrl-C: everything is stopped, the step is rolled back as if it had failed, and the run ends.

use std::process::Child;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::crash::middle::{paused, pausing};
use super::{assert_unharmed, call, directive, dirty, project, subjects, summary};
use crate::crash::leftover::{awaited, is_alive};
use crate::harness::{Ran, TestProject};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

fn interrupted(project: &TestProject, piton: Child) -> Ran {
    let pid = Pid::from_child(&piton);
    kill_process(pid, Signal::INT).expect("a process to interrupt");
    project.ran(piton.wait_with_output().expect("piton ends"))
}

/// Checks that the run was cancelled, nothing is damaged, and another run can start.
fn assert_cancelled(project: &TestProject, ran: &Ran) {
    assert_eq!(ran.code(), Some(130), "{ran}");
    assert_eq!(summary(ran)["status"], "cancelled", "{ran}");
    assert_unharmed(project);
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    let ran = project.piton(["run", "fine"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_unharmed(project);
}

fn fine(project: TestProject) -> TestProject {
    directive("fine", AUTO, &call("fine", "list", "", ""))(project)
}

#[test]
fn a_tool_is_stopped_and_rolled_back() {
    let project = project();
    let slow = format!(
        "setsid sleep 600 & echo $! > '{}'; echo half >> out.txt; {}",
        project.root().with_file_name("tmp").join("other").display(),
        pausing(&project)
    );
    let project = project.tool("slow", "", &slow);
    let all = format!(
        "{}{}",
        call("a", "add", "", "a"),
        call("slow", "slow", "retry=\"3\" on_failure=\"continue\"", "")
    );
    let project = fine(directive("slow", AUTO, &all)(project)).committed();
    dirty(&project);
    let piton = project.started(["run", "slow", "--format", "json"]);
    let pids = [
        paused(&project),
        awaited(&project.root().with_file_name("tmp").join("other")),
    ];
    let ran = interrupted(&project, piton);
    assert_eq!(pids.map(|pid| is_alive(&pid)), [false, false], "{ran}");
    assert_eq!(summary(&ran)["steps"][1]["status"], "cancelled", "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\n");
    assert_eq!(subjects(&project).len(), 1);
    assert_cancelled(&project, &ran);
}

#[test]
fn a_pause_between_two_attempts_is_not_waited_for() {
    let project = project();
    let script = format!(
        "echo half >> out.txt; echo tried >> '{}'; exit 3",
        project.root().with_file_name("tmp").join("tried").display()
    );
    let project = project.tool("fails", "", &script);
    let all = format!(
        "{}{}",
        call("a", "fails", "retry=\"3\" backoff=\"500\"", ""),
        call("b", "add", "", "b")
    );
    let project = fine(directive("slow", AUTO, &all)(project)).committed();
    dirty(&project);
    let mut command = project.command(["run", "slow", "--format", "json"]);
    let mut piton = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("piton starts");
    let mut said = std::io::BufReader::new(piton.stdout.take().expect("a pipe"));
    let mut lines = String::new();
    while !lines.contains("\"type\":\"resolved\"") {
        assert_ne!(
            std::io::BufRead::read_line(&mut said, &mut lines).expect("a line"),
            0,
            "{lines}"
        );
    }
    kill_process(Pid::from_child(&piton), Signal::INT).expect("a process to interrupt");
    std::io::Read::read_to_string(&mut said, &mut lines).expect("the rest");
    let mut output = piton.wait_with_output().expect("piton ends");
    output.stdout = lines.into_bytes();
    let ran = project.ran(output);
    assert_eq!(project.read("out.txt"), "first\n", "{ran}");
    assert_eq!(
        awaited(&project.root().with_file_name("tmp").join("tried")),
        "tried"
    );
    assert_cancelled(&project, &ran);
}

#[test]
fn an_agent_is_stopped_and_its_work_stays() {
    let project = project();
    let agent = format!("echo words > words.txt; {}", pausing(&project));
    let project = project.home_file("agent.sh", agent);
    let prose = "<step name=\"write\"><action>Write words.txt.</action></step>\n";
    let all = format!("{prose}{}", call("b", "add", "", "b"));
    let project = fine(directive("words", AUTO, &all)(project)).committed();
    dirty(&project);
    let command = format!("bash '{}'", project.home().join("agent.sh").display());
    let piton = project.started(["run", "words", "--agent-cmd", &command, "--format", "json"]);
    let agent = paused(&project);
    let ran = interrupted(&project, piton);
    assert!(!is_alive(&agent), "{ran}");
    assert_eq!(project.read("words.txt"), "words\n");
    assert_eq!(project.read("out.txt"), "first\n");
    assert_eq!(subjects(&project), Vec::<String>::new());
    assert_cancelled(&project, &ran);
}

#[test]
fn an_atomic_run_is_rolled_back_as_a_whole() {
    for mode in ["auto", "explicit"] {
        let project = project();
        let slow = format!(
            "echo half >> out.txt; echo half > half.txt; {}",
            pausing(&project)
        );
        let project = project.tool("slow", "", &slow);
        let all = format!(
            "{}{}",
            call("a", "add", "", "a"),
            call("slow", "slow", "", "")
        );
        let metadata = format!("<git_checkpoint mode=\"{mode}\"/>");
        let project = fine(directive("slow", &metadata, &all)(project)).committed();
        dirty(&project);
        let piton = project.started(["run", "slow", "--atomic", "--format", "json"]);
        let tool = paused(&project);
        let ran = interrupted(&project, piton);
        assert!(!is_alive(&tool), "{ran}");
        assert_eq!(project.read("out.txt"), "first\n", "{mode}: {ran}");
        assert!(!project.root().join("half.txt").exists(), "{mode}: {ran}");
        assert_eq!(
            project.git(["diff", "--stat", ":/start", "HEAD"]),
            "",
            "{mode}: {ran}"
        );
        let suggestion = summary(&ran)["error"]["suggestion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(suggestion.contains("rolled back"), "{mode}: {ran}");
        let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
        let resumed = project.piton(["resume", &run]);
        assert_eq!(resumed.code(), Some(2), "{mode}: {resumed}");
        assert!(
            resumed.stderr().contains("it was rolled back"),
            "{mode}: {resumed}"
        );
        assert_cancelled(&project, &ran);
    }
}

#[test]
fn a_run_that_was_interrupted_is_resumed_at_the_step_that_was_stopped() {
    let project = project();
    let slow = format!("echo half >> out.txt; {}", pausing(&project));
    let project = project.tool("slow", "", &slow);
    let all = format!(
        "{}{}{}",
        call("a", "add", "", "a"),
        call("slow", "slow", "", ""),
        call("c", "add", "", "c")
    );
    let project = directive("slow", AUTO, &all)(project).committed();
    dirty(&project);
    let piton = project.started(["run", "slow", "--format", "json"]);
    paused(&project);
    let ran = interrupted(&project, piton);
    let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
    assert_eq!(
        (ran.code(), project.read("out.txt").as_str()),
        (Some(130), "first\na\n"),
        "{ran}"
    );
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\nhalf\nc\n");
    assert_eq!(subjects(&project).len(), 3);
    assert_unharmed(&project);
}
