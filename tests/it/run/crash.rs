//! Kills a directive run at any point, and resumes it: it ends as if nothing had happened.
//!
//! The run is killed before and after each event is on disk, and at every failpoint. The suite
//! tries a sample with a fixed stride; `scripts/torture` tries them all.

#[path = "crash/answer.rs"]
mod answer;
#[path = "crash/indeterminate.rs"]
mod indeterminate;
#[path = "crash/middle.rs"]
pub(super) mod middle;

use std::collections::BTreeMap;
use std::fs;

use piton::journal::summary::StepStatus;
use piton::journal::{self, Event};

use super::{call, directive};
use crate::crash::PLACES;
use crate::crash::scene::{Picture, Scene, was_killed};
use crate::harness::{Ran, TestProject};

/// A tool that fails the first time and succeeds afterwards.
const FLAKY: &str = "flaky";

/// A directive with every kind of step that does not wait for a person.
pub(super) fn everything() -> Scene {
    let project = TestProject::new();
    let log = project.root().with_file_name("tmp").join("calls");
    let log = log.display();
    let text = "parameters:\n  - {name: text, type: string, required: false}\n";
    let add = format!(
        "echo \"$PITON_PARAM_TEXT\" >> '{log}'; echo \"$PITON_PARAM_TEXT\" >> out.txt; sed -i 's/^five/FIVE/' partly.txt
         echo \"{{\\\"lines\\\": $(wc -l < out.txt)}}\""
    );
    let list = format!("echo list >> '{log}'; echo '{{\"names\": [\"x\", \"y\"]}}'");
    let flaky = format!(
        "n=$(grep -c {FLAKY} '{log}'); echo {FLAKY} >> '{log}'; echo again >> again.txt; rm -f clean.txt; test \"$n\" -ge 1"
    );
    let hopeless = format!("echo hopeless >> '{log}'; echo half >> half.txt; exit 3");
    let project = project
        .tool("add", text, &add)
        .tool("list", "mutates_state: false\n", &list)
        .tool("flaky", "", &flaky)
        .tool("hopeless", "", &hopeless)
        .tool("stamped", "", "true")
        // A stamp contains its time, which differs in each trial.
        .tool(
            "timeless",
            "isolation: trusted",
            "sed -i 's/validated:.*Z:/validated:/' .ai/tools/stamped/tool.yaml",
        );
    let steps = [
        call("a", "add", "", "a"),
        call("list", "list", "", ""),
        call("each", "add", "foreach=\"{step:list.names}\"", "each {input:item}"),
        "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"><param name=\"who\" value=\"{step:a.lines} lines\"/>\
         </execute></step>\n"
            .to_owned(),
        call("never", "add", "when=\"{input:who} == 'nobody'\"", "never"),
        "<step name=\"stamp\"><sign item_type=\"tool\" item_id=\"stamped\"/></step>\n".to_owned(),
        call("timeless", "timeless", "", ""),
        call("again", "flaky", "retry=\"2\" backoff=\"0.01\"", ""),
        call("bad", "hopeless", "retry=\"1\" backoff=\"0.01\" on_failure=\"continue\"", ""),
        "<step name=\"keep\"><checkpoint operation=\"keep it\"/></step>\n".to_owned(),
        call("last", "add", "", "last {step:sub.said} {step:a.lines}"),
    ]
    .concat();
    let hooks = "<hooks><hook><when>phase == 'after' and step == 'a'</when><directive>note</directive></hook></hooks>";
    let note = directive("note", "", &call("note", "add", "", "hook"));
    let project = note(directive("everything", hooks, &steps)(project));
    let path = ".ai/directives/everything.md";
    let text = project.read(path).replace(
        "<permissions>",
        "<permissions><sign>*</sign><write resource=\"filesystem\" path=\".ai/tools/**\"/>",
    );
    let project = project.file(path, text);
    let inner = directive("inner", "", &call("deep", "add", "", "deep {input:who}"));
    let project = inner(project);
    let path = ".ai/directives/inner.md";
    let outputs = "</process>\n<outputs><success>said: {step:deep.lines}</success></outputs>";
    let text = project.read(path).replace("</process>", outputs);
    Scene::of(project.file(path, text))
}

/// The calls so far, with their numbers.
pub(super) fn calls(scene: &Scene) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(scene.project.root().with_file_name("tmp").join("calls"))
        .unwrap_or_default();
    let mut calls = BTreeMap::new();
    text.lines()
        .for_each(|line| *calls.entry(line.to_owned()).or_default() += 1);
    calls
}

/// The number of tool steps whose end is recorded, without those that are run again.
fn ended(scene: &Scene) -> usize {
    let runs = scene.project.root().join(".git/piton/runs");
    let mut count = 0;
    for run in journal::list(&runs).expect("a list of runs") {
        let Ok(contents) = journal::read(&journal::path_of(&runs, run)) else {
            continue;
        };
        let mut open = None;
        for record in &contents.records {
            match &record.event {
                Event::StepStarted { tool, .. } => open.clone_from(tool),
                Event::StepFinished { status, .. } if *status != StepStatus::CutOff => {
                    count += usize::from(open.take().is_some_and(|tool| {
                        !tool.starts_with(FLAKY) && !tool.starts_with("timeless")
                    }));
                }
                _ => {}
            }
        }
    }
    count
}

/// A run to be killed, and its expected result.
struct Trial {
    scene: Scene,
    command: Vec<String>,
    before: Picture,
    after: Picture,
    calls: BTreeMap<String, usize>,
}

impl Trial {
    fn new(mode: &str) -> Self {
        let scene = everything();
        let command: Vec<String> = ["run", "everything", "--checkpoint", mode]
            .iter()
            .map(|word| (*word).to_owned())
            .collect();
        scene.save();
        let before = scene.picture();
        let ran = scene.project.piton(&command);
        assert_eq!(ran.code(), Some(0), "{ran}");
        let after = scene.picture();
        assert_ne!(before, after);
        let calls = calls(&scene);
        assert_eq!(
            (calls["hopeless"], calls[FLAKY], calls["hook"]),
            (2, 2, 1),
            "{calls:?}"
        );
        Self {
            scene,
            command,
            before,
            after,
            calls,
        }
    }

    /// Restores the state before the run.
    fn reset(&self) {
        self.scene.reset();
        self.scene
            .project
            .bash("rm -rf ../tmp/calls ../tmp/piton-home-*");
    }

    /// Kills the run at a failpoint; returns whether it was passed.
    fn kill(&self, place: &str) -> bool {
        let words: Vec<&str> = self.command.iter().map(String::as_str).collect();
        was_killed(&self.scene.armed(&words, place))
    }

    /// Resumes the run until it is done; everything must be as if it had never been killed.
    fn assert_resumes(&self, told: &str) {
        let (ended, called) = (ended(&self.scene), self.count());
        let ran = self.go_on(told);
        let picture = self.scene.picture();
        assert!(
            picture == self.after,
            "{told}: {ran}\nfound {picture:?}\nexpected {:?}",
            self.after
        );
        // A step that was decided before the crash is finished without another call.
        let (again, all) = (
            self.count() - called,
            self.calls.values().sum::<usize>() - self.calls[FLAKY],
        );
        assert!(again <= all - ended, "{told}: {:?}", calls(&self.scene));
        assert!(self.count() >= all, "{told}: {:?}", calls(&self.scene));
        for (name, count) in calls(&self.scene) {
            let most = self.calls.get(&name).copied().unwrap_or_default() + 1;
            assert!(count <= most, "{told}: `{name}` was called {count} times");
        }
        self.assert_sound(told, &picture);
    }

    /// The number of calls of tools that are always called equally often.
    fn count(&self) -> usize {
        calls(&self.scene)
            .iter()
            .filter(|(name, _)| *name != FLAKY)
            .map(|(_, count)| count)
            .sum()
    }

    fn go_on(&self, told: &str) -> Ran {
        let mut ran = self.scene.project.piton(["resume"]);
        if ran.stderr().contains("no run waits here") && self.scene.picture() == self.before {
            ran = self.scene.project.piton(&self.command);
        } else if ran.stderr().contains("no run waits here") {
            // The run had ended; the next command that takes the lock notices that its holder died.
            ran = self.scene.project.piton(["recover"]);
        }
        assert_eq!(ran.code(), Some(0), "{told}: {ran}");
        ran
    }

    fn assert_sound(&self, told: &str, picture: &Picture) {
        self.scene.assert_sound(told, picture);
        let verified = self.scene.project.piton(["verify", "--all"]);
        assert_eq!(verified.code(), Some(0), "{told}: {verified}");
        let status = self.scene.project.piton(["status"]);
        assert!(
            status.stdout().starts_with("no run waits here\n"),
            "{told}: {status}"
        );
    }
}

/// The sampling stride: 1 in `scripts/torture`, otherwise `usual`.
#[expect(
    clippy::disallowed_methods,
    reason = "how much `scripts/torture` asks for"
)]
pub(super) fn stride(usual: usize) -> usize {
    if std::env::var_os("PITON_TORTURE_ROUNDS").is_some() {
        1
    } else {
        usual
    }
}

/// Kills the run at sampled passes of a failpoint, each time followed by another command before the
/// resume.
fn dies_at_each_event(mode: &str, place: &str, usual: usize, first: usize) {
    const FIRST: [&[&str]; 4] = [&[], &["exec", "--", "true"], &["log"], &["recover"]];
    let trial = Trial::new(mode);
    let step = stride(usual);
    let mut kills = 0;
    for (turn, pass) in (if step == 1 { 1 } else { first }..)
        .step_by(step)
        .enumerate()
    {
        trial.reset();
        let armed = format!("{place}:{pass}");
        if !trial.kill(&armed) {
            break;
        }
        kills += 1;
        let words = FIRST[turn % FIRST.len()];
        if !words.is_empty() {
            let ran = trial.scene.project.piton(words);
            assert_eq!(ran.code(), Some(0), "{armed}: {ran}");
        }
        trial.assert_resumes(&format!("{mode}, {armed}, then {words:?}"));
    }
    crate::crash::chance::tally("kills at places", kills as u64);
    assert!(
        kills * step > 60,
        "only {kills} kills with a stride of {step}"
    );
}

#[test]
fn killed_before_any_event_a_run_in_auto_mode_ends_as_it_would_have() {
    dies_at_each_event("auto", "journal-append", 23, 3);
}

#[test]
fn killed_after_any_event_a_run_in_auto_mode_ends_as_it_would_have() {
    dies_at_each_event("auto", "journal-appended", 23, 9);
}

#[test]
fn killed_before_any_event_a_run_in_explicit_mode_ends_as_it_would_have() {
    dies_at_each_event("explicit", "journal-append", 23, 7);
}

#[test]
fn killed_after_any_event_a_run_in_explicit_mode_ends_as_it_would_have() {
    dies_at_each_event("explicit", "journal-appended", 23, 1);
}

#[test]
fn killed_at_any_other_place_a_run_ends_as_it_would_have() {
    let trial = Trial::new("auto");
    let others = PLACES
        .iter()
        .chain(&["tool-answered", "trail-written", "trail-moved"]);
    let others: Vec<&str> = others
        .copied()
        .filter(|place| !place.starts_with("journal-append"))
        .collect();
    let mut kills = 0_u64;
    for (turn, place) in others.into_iter().enumerate().step_by(stride(2)) {
        let (first, last) = if stride(2) == 1 {
            (1, usize::MAX)
        } else {
            (1 + turn % 3, 1 + turn % 3)
        };
        for pass in first..=last {
            trial.reset();
            let armed = format!("{place}:{pass}");
            if !trial.kill(&armed) {
                break;
            }
            kills += 1;
            trial.assert_resumes(&armed);
        }
    }
    crate::crash::chance::tally("kills at places", kills);
    assert!(kills >= 8, "only {kills} places were passed");
}

#[test]
fn a_recovery_and_a_resumption_that_are_killed_as_well_change_nothing() {
    let trial = Trial::new("auto");
    let mut kills = 0_u64;
    let firsts = [
        "result-read:3",
        "journal-appended:30",
        "commit-decided:4",
        "roll-back-decided:2",
        "tool-announced:8",
    ];
    for (turn, first) in firsts.iter().enumerate() {
        for second in ["journal-append", "journal-appended"] {
            for pass in ((1 + turn % stride(5))..).step_by(stride(7)) {
                trial.reset();
                assert!(trial.kill(first), "{first} is not passed");
                // The recovery takes a few events, and the first steps after it some more.
                if pass > 12
                    || !was_killed(&trial.scene.armed(&["resume"], &format!("{second}:{pass}")))
                {
                    break;
                }
                kills += 1;
                let told = format!("{first}, then {second}:{pass}");
                let ran = trial.go_on(&told);
                let picture = trial.scene.picture();
                assert!(
                    picture == trial.after,
                    "{told}: {ran}\nfound {picture:?}\nexpected {:?}",
                    trial.after
                );
                trial.assert_sound(&told, &picture);
            }
        }
    }
    crate::crash::chance::tally("kills at places", kills);
    assert!(kills >= 8, "only {kills} deaths");
}
