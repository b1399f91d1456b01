//! Interrupted or killed meta tools: nothing is left, and the step happened completely or not at
//! all.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::{once, project};
use crate::crash::leftover::{awaited, is_alive};
use crate::crash::scene::{Scene, WORK, was_killed};
use crate::harness::TestProject;

/// A script that hangs the first time it runs.
fn pausing(project: &TestProject) -> String {
    let tmp = project.root().with_file_name("tmp");
    format!(
        "echo half > half.txt; if [ ! -e '{0}/paused' ]; then echo $$ > '{0}/paused'; sleep 600; fi",
        tmp.display()
    )
}

fn paused(project: &TestProject) -> String {
    awaited(&project.root().with_file_name("tmp").join("paused"))
}

fn slow() -> TestProject {
    let project = project();
    let script = pausing(&project);
    let calls = "[{ tool: 'keep', args: { number: 1 } }, { tool: 'slow' }, { tool: 'keep', args: { number: 2 } }]";
    let project = once("long", "keep, slow", calls)(project.tool("slow", "", &script));
    project.directive("led", ["long"])
}

#[test]
fn an_interruption_in_the_middle_of_a_call_ends_the_whole() {
    let project = slow().committed();
    let mut command = project.command([
        "tool",
        "run",
        "long",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    let piton = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("piton starts");
    let tool = paused(&project);
    kill_process(Pid::from_child(&piton), Signal::INT).expect("a process to interrupt");
    let ran = project.ran(piton.wait_with_output().expect("piton ends"));
    assert_eq!(ran.code(), Some(130), "{ran}");
    let result = ran.last_json();
    assert_eq!(
        (&result["code"], &result["status"]),
        (&"INTERRUPTED".into(), &"cancelled".into()),
        "{ran}"
    );
    assert_eq!(result["calls"].as_array().map(Vec::len), Some(2), "{ran}");
    assert!(!is_alive(&tool), "{ran}");
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_run_that_dies_in_the_middle_of_a_call_is_rolled_back_and_continues() {
    let grants = ["long", "keep", "slow"]
        .map(|id| format!("<execute resource=\"tool\" id=\"{id}\"/>"))
        .concat();
    let project = slow();
    let text = project
        .read(".ai/directives/led.md")
        .replace("<permissions>", &format!("<permissions>{grants}"));
    let project = project.file(".ai/directives/led.md", text).committed();
    let mut piton = project
        .command(["run", "led", "--checkpoint", "auto"])
        .spawn()
        .expect("piton starts");
    let tool = paused(&project);
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(!is_alive(&tool), "{ran}");
    // Nothing of the first attempt is left: the step was repeated from its beginning.
    assert_eq!(project.read("number.txt"), "1\n2\n");
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_kill_at_any_point_of_its_calls_leaves_a_whole_step_or_none() {
    let tools = TestProject::new().tool("work", "mutates_state: true", WORK);
    let scene = Scene::of(once("whole", "work", "[{ tool: 'work' }]")(tools));
    let command = &["tool", "run", "whole", "--checkpoint", "auto"];
    scene.save();
    let before = scene.picture();
    let ran = scene.project.piton(command);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let after = scene.picture();
    let mut kills = 0;
    for place in [
        "journal-appended",
        "tool-announced",
        "tool-ended",
        "call-announced",
        "result-read",
        "call-finished",
    ] {
        for pass in 1.. {
            scene.reset();
            let armed = format!("{place}:{pass}");
            if !was_killed(&scene.armed(command, &armed)) {
                break;
            }
            kills += 1;
            let ran = scene.project.piton(["recover"]);
            assert_eq!(ran.code(), Some(0), "{armed}: {ran}");
            let picture = scene.picture();
            assert!(
                picture == before || picture == after,
                "{armed}: {ran}\nfound {picture:?}"
            );
            scene.assert_sound(&armed, &picture);
            let ran = scene.project.piton(["verify", "--all"]);
            assert_eq!(ran.code(), Some(0), "{armed}: {ran}");
        }
    }
    assert!(kills >= 20, "only {kills} places were passed");
}
