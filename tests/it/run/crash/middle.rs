//! Kills in the middle of a tool, and what is known about the run afterwards.

use std::process::{Child, Stdio};

use super::{Trial, calls, everything};
use crate::crash::leftover::{awaited, is_alive};
use crate::crash::scene::Scene;
use crate::harness::TestProject;
use crate::run::{assert_sound, call, directive, dirty, project, subjects};

/// Starts piton without waiting for it.
pub(crate) fn started(project: &TestProject, arguments: &[&str]) -> Child {
    let mut command = project.command(arguments);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts")
}

/// A script line that reports its progress and then waits once.
pub(crate) fn pausing(project: &TestProject) -> String {
    let tmp = project.root().with_file_name("tmp");
    format!(
        "if [ ! -e '{0}/paused' ]; then echo $$ > '{0}/paused'; sleep 600; fi",
        tmp.display()
    )
}

/// Waits until the script has reached that line; returns the waiting process.
pub(crate) fn paused(project: &TestProject) -> String {
    awaited(&project.root().with_file_name("tmp").join("paused"))
}

fn kill(mut piton: Child) {
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
}

#[test]
fn killed_in_the_middle_of_a_tool_the_run_ends_as_it_would_have() {
    for mode in ["auto", "explicit"] {
        let trial = Trial::new(mode);
        trial.reset();
        let scene: &Scene = &trial.scene;
        let words: Vec<&str> = trial.command.iter().map(String::as_str).collect();
        let piton = started(&scene.project, &words);
        while calls(scene).len() < 3 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        kill(piton);
        let ran = trial.go_on(mode);
        let picture = scene.picture();
        assert!(
            picture == trial.after,
            "{mode}: {ran}\nfound {picture:?}\nexpected {:?}",
            trial.after
        );
        trial.assert_sound(mode, &picture);
    }
}

#[test]
fn a_tool_that_piton_left_behind_is_stopped_rolled_back_and_run_again() {
    let project = project();
    let slow = format!(
        "echo half >> out.txt; rm mine.txt; {}; echo mine > mine.txt; echo whole >> out.txt",
        pausing(&project)
    );
    let project = project.tool("slow", "", &slow);
    let all = format!(
        "{}{}{}",
        call("a", "add", "", "a"),
        call("slow", "slow", "", ""),
        call("c", "add", "", "c")
    );
    let project = directive("cut", "<git_checkpoint mode=\"auto\"/>", &all)(project).committed();
    project.bash("echo staged > staged.txt; git add staged.txt; echo new > unknown.txt");
    let piton = started(&project, &["run", "cut"]);
    let tool = paused(&project);
    kill(piton);
    let status = project.piton(["status"]);
    assert!(status.stdout().contains("slow"), "{status}");
    let refused = project.piton(["run", "cut"]);
    assert_eq!(refused.code(), Some(5), "{refused}");
    assert!(!is_alive(&tool), "the tool still runs");
    assert_eq!(project.read("out.txt"), "first\na\n");
    assert_eq!(project.read("mine.txt"), "mine\n");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\nhalf\nwhole\nc\n");
    assert_eq!(subjects(&project).len(), 3);
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "A  staged.txt\n?? unknown.txt\n"
    );
    assert_sound(&project);
}

#[test]
fn steps_that_were_interrupted_do_not_count_against_limits() {
    let project = project();
    let slow = format!("{}; echo done >> out.txt", pausing(&project));
    let project = project.tool("slow", "", &slow);
    let metadata = "<git_checkpoint mode=\"auto\"/><limits><steps>2</steps><tool_calls>2</tool_calls></limits>";
    let all = format!(
        "{}{}",
        call("a", "add", "", "a"),
        call("slow", "slow", "", "")
    );
    let project = directive("limited", metadata, &all)(project).committed();
    dirty(&project);
    let piton = started(&project, &["run", "limited"]);
    paused(&project);
    kill(piton);
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\ndone\n");
}

#[test]
fn any_beginning_of_a_journal_can_be_read_and_shown() {
    let scene = everything();
    let ran = scene
        .project
        .piton(["run", "everything", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let runs = scene.project.root().join(".git/piton/runs");
    let run = piton::journal::list(&runs).expect("a list of runs")[0];
    let records = piton::journal::read(&piton::journal::path_of(&runs, run))
        .expect("a journal")
        .records;
    for length in 1..=records.len() {
        let told = piton::audit::history::fold(&records[..length]).expect("a run");
        let open = told
            .steps
            .iter()
            .filter(|step| step.status.is_none())
            .count();
        assert!(open <= 1, "{open} steps are open after {length} lines");
        assert_eq!(told.summary.is_some(), length == records.len());
    }
}
