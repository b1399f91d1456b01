//! Interrupted steps that cannot be rolled back: a person decides about them.

use super::middle::{paused, pausing, started};
use crate::harness::TestProject;
use crate::run::{
    assert_sound, assert_unharmed, call, directive, dirty, project, subjects, summary,
};

const DISABLED: &str = "<git_checkpoint mode=\"disabled\"/>";
const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

/// A run that was killed during its second step.
fn cut_off(metadata: &str, prepare: impl FnOnce(TestProject) -> TestProject) -> TestProject {
    let project = project();
    let slow = format!(
        "echo half >> half.txt; {}; echo whole >> half.txt; echo '{{\"n\": 1}}'",
        pausing(&project)
    );
    let project = project.tool("slow", "", &slow);
    let all = format!(
        "{}{}{}",
        call("a", "add", "", "a"),
        call("slow", "slow", "on_failure=\"continue\"", ""),
        call("c", "add", "", "c {step:slow}")
    );
    let project = prepare(directive("cut", metadata, &all)(project));
    let mut piton = started(&project, &["run", "cut"]);
    paused(&project);
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    project
}

fn without_git(project: TestProject) -> TestProject {
    project.bash("rm -rf .git");
    project
}

/// Checks that a plain `resume` explains the options and keeps waiting.
fn assert_left_to_you(project: &TestProject) {
    for _ in 0..2 {
        let ran = project.piton(["resume"]);
        assert_eq!(ran.code(), Some(4), "{ran}");
        for word in ["--retry", "--result", "--failed", "interrupted"] {
            assert!(ran.stderr().contains(word), "{ran}");
        }
    }
    let status = project.piton(["status", "--format", "json"]).json();
    assert_eq!(
        status["waiting"]["wait"]["for"], "indeterminate",
        "{status:#}"
    );
    assert_eq!(status["waiting"]["name"], "slow");
    let status = project.piton(["status"]);
    assert!(status.stderr().contains("--retry"), "{status}");
}

#[test]
fn without_checkpoints_an_interrupted_tool_waits_for_a_person() {
    let prepares: [fn(TestProject) -> TestProject; 2] = [TestProject::committed, without_git];
    for prepare in prepares {
        let project = cut_off(DISABLED, prepare);
        assert_left_to_you(&project);
        let ran = project.piton(["resume", "--retry"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(project.read("half.txt"), "half\nhalf\nwhole\n");
        assert_eq!(project.read("out.txt").lines().count(), 3);

        let project = cut_off(DISABLED, prepare);
        let ran = project.piton(["resume", "--result", "{\"n\": 7}"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(project.read("out.txt"), "first\na\nc {\"n\":7}\n");
        assert_eq!(project.read("half.txt"), "half\n");

        let project = cut_off(DISABLED, prepare);
        let ran = project.piton(["resume", "--failed", "it is gone", "--format", "json"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(
            project.read("out.txt").contains("it is gone"),
            "{}",
            project.read("out.txt")
        );
        assert_eq!(summary(&ran)["steps"][1]["status"], "failed");

        let project = cut_off(DISABLED, prepare);
        let ran = project.piton(["cancel"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(project.piton(["status"]).stdout(), "no run waits here\n");
    }
}

#[test]
fn an_interrupted_recovery_still_leaves_the_decision_to_a_person() {
    for pass in 1..6 {
        let project = cut_off(DISABLED, TestProject::committed);
        let armed = format!("journal-append:{pass}");
        project
            .command(["exec", "--", "true"])
            .env("PITON_FAILPOINT", armed)
            .output()
            .expect("piton starts");
        assert_left_to_you(&project);
    }
}

/// A run whose agent was working when piton was killed.
fn agent_cut_off(metadata: &str) -> TestProject {
    let project = project();
    let agent = format!(
        "echo words >> words.txt; {}; echo more >> words.txt; echo '{{\"pages\": 2}}'",
        pausing(&project)
    );
    let project = project.home_file("agent.sh", agent);
    let prose = "<step name=\"slow\"><action>Write words.txt.</action></step>\n";
    let all = format!(
        "{}{prose}{}",
        call("a", "add", "", "a"),
        call("c", "add", "", "{step:slow.pages} pages")
    );
    let project = directive("cut", metadata, &all)(project).committed();
    dirty(&project);
    let mut piton = started(&project, &["run", "cut", "--agent-cmd", &command(&project)]);
    paused(&project);
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    project
}

fn command(project: &TestProject) -> String {
    format!("bash '{}'", project.home().join("agent.sh").display())
}

#[test]
fn an_interrupted_agent_waits_for_a_person_and_its_work_stays() {
    for metadata in [AUTO, "", DISABLED] {
        let project = agent_cut_off(metadata);
        assert_left_to_you(&project);
        assert_eq!(project.read("words.txt"), "words\n");
        let ran = project.piton(["resume", "--retry"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(project.read("words.txt"), "words\nwords\nmore\n");
        assert_eq!(project.read("out.txt"), "first\na\n2 pages\n");
        if metadata == AUTO {
            // The work of both attempts is one commit.
            assert_eq!(
                project.git(["show", "HEAD~1:words.txt"]),
                "words\nwords\nmore\n"
            );
            assert_eq!(subjects(&project).len(), 3);
        }
        assert_unharmed(&project);
    }
}

#[test]
fn a_person_can_answer_for_an_interrupted_agent() {
    let project = agent_cut_off(AUTO);
    let ran = project.piton(["resume", "--result", "{\"pages\": 9}"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD~1:words.txt"]), "words\n");
    assert_eq!(project.read("out.txt"), "first\na\n9 pages\n");
    assert_unharmed(&project);
    let project = agent_cut_off(AUTO);
    let ran = project.piton(["resume", "--failed", "no idea"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("words.txt"), "words\n");
    assert_eq!(subjects(&project).len(), 1);
    assert_unharmed(&project);
}

#[test]
fn what_an_agent_has_answered_before_a_death_counts() {
    let project = project();
    let agent = "echo words >> words.txt; echo '{\"pages\": 2}'";
    let prose = "<step name=\"slow\"><action>Write words.txt.</action></step>\n";
    let all = format!("{prose}{}", call("c", "add", "", "{step:slow.pages} pages"));
    let project = directive("cut", AUTO, &all)(project.home_file("agent.sh", agent)).committed();
    dirty(&project);
    project.save();
    for place in ["journal-append", "journal-appended", "agent-ended"] {
        for pass in 1.. {
            project.reset();
            let armed = format!("{place}:{pass}");
            let run = ["run", "cut", "--agent-cmd", &command(&project)].map(str::to_owned);
            let output = project
                .command(&run)
                .env("PITON_FAILPOINT", &armed)
                .output()
                .expect("piton starts");
            if output.status.success() {
                break;
            }
            let mut ran = project.piton(["resume"]);
            if ran.code() == Some(4) {
                ran = project.piton(["resume", "--result", "{\"pages\": 2}"]);
            } else if ran.stderr().contains("no run waits here") && subjects(&project).is_empty() {
                ran = project.piton(&run);
            }
            assert!(
                ran.code() == Some(0) || ran.stderr().contains("no run waits here"),
                "{armed}: {ran}"
            );
            assert_eq!(
                project.git(["show", "HEAD~1:words.txt"]),
                "words\n",
                "{armed}"
            );
            assert_eq!(project.read("out.txt"), "first\n2 pages\n", "{armed}");
            assert_eq!(subjects(&project).len(), 2, "{armed}");
            assert_unharmed(&project);
        }
    }
    assert_sound(&project);
}

#[test]
fn what_runs_beside_a_tool_that_could_not_be_rolled_back_is_not_its_own() {
    let project = project();
    let slow = format!(
        "echo half > half.txt; git add half.txt; git -c user.name=t -c user.email=t@t commit -qm half; {}",
        pausing(&project)
    );
    let project = project.tool("slow", "isolation: trusted", &slow);
    let project = directive("cut", AUTO, &call("slow", "slow", "", ""))(project).committed();
    dirty(&project);
    let mut piton = started(&project, &["run", "cut"]);
    paused(&project);
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    assert_left_to_you(&project);
    let ran = project.piton([
        "exec",
        "--checkpoint",
        "explicit",
        "--",
        "sh",
        "-c",
        "echo exec > exec.txt",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton(["resume", "--result", "{}"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("exec.txt"), "exec\n");
    assert_eq!(
        project.git(["status", "--porcelain", "--", "exec.txt"]),
        "?? exec.txt\n",
        "{ran}"
    );
    assert_sound(&project);
}
