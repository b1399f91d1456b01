//! Kills piton at any point and recovers: either nothing happened or everything did.
//!
//! Every failpoint (`src/failpoint.rs`) is armed in turn, for each time it is passed, until the
//! command runs to its end. A new failpoint in the source has to be added to [`PLACES`].

#[path = "crash/chance.rs"]
pub(crate) mod chance;
#[path = "crash/leftover.rs"]
pub(crate) mod leftover;
#[path = "crash/scene.rs"]
pub(crate) mod scene;
#[path = "crash/tool.rs"]
mod tool;

use std::fs;

use scene::{Picture, Scene, WORK, was_killed};

use crate::harness::TestProject;

/// The failpoints.
pub(crate) const PLACES: [&str; 32] = [
    "lock-taken",
    "index-locked",
    "journal-folder-made",
    "journal-created",
    "journal-append",
    "journal-appended",
    "before-taken",
    "tool-prepared",
    "tool-announced",
    "tool-ended",
    "result-read",
    "after-taken",
    "commit-published",
    "commit-prepared",
    "index-written",
    "commit-decided",
    "ref-locked",
    "commit-ref-moved",
    "index-replaced",
    "commit-applied",
    "roll-back-decided",
    "file-written",
    "item-drafted",
    "item-written",
    "restore-path",
    "rolled-back",
    "undo-applied",
    "tool-settled",
    "output-written",
    "output-saved",
    "lock-forget",
    "lock-release",
];

/// Failpoints of commands that have their own tests in `rollback.rs`, `audit.rs`,
/// `finish/crash.rs`, `trail.rs`, `hooks_*`, `meta/`, `run/`, `store.rs` and `bulk.rs`.
const ELSEWHERE: [&str; 38] = [
    "call-announced",
    "call-finished",
    "commit-noted",
    "hook-kept",
    "hook-put",
    "hook-taken",
    "message-written",
    "rewrite-recorded",
    "rewrite-written",
    "agent-ended",
    "tool-answered",
    "hard-kept",
    "commit-kept",
    "object-swept",
    "refs-copied",
    "refs-told",
    "hard-files-reset",
    "hard-index-reset",
    "hard-branch-moved",
    "gc-decided",
    "finish-judged",
    "finish-applied",
    "finish-prepared",
    "finish-decided",
    "finish-moved",
    "finish-closed",
    "finish-worktree-removed",
    "trail-written",
    "trail-moved",
    "run-repinned",
    "run-marked",
    "run-put-back",
    "object-packed",
    "pack-guarded",
    "pack-index-swept",
    "pack-indexed",
    "pack-named",
    "pack-written",
];

/// A command to be killed, and the commands that are run before it.
struct Operation {
    before: &'static [&'static [&'static str]],
    command: &'static [&'static str],
}

const EXEC: &[&str] = &["exec", "--", "bash", "-c", WORK];
const FAILING: &[&str] = &["exec", "--", "bash", "-c", "eval \"$0\"; exit 3", WORK];
const EXPLICIT: &[&str] = &["exec", "--checkpoint", "explicit", "--", "bash", "-c", WORK];

impl Operation {
    fn calls_tool(&self) -> bool {
        self.before
            .iter()
            .chain([&self.command])
            .any(|command| command.first() == Some(&"tool"))
    }

    fn scene(&self) -> Scene {
        let scene = Scene::new();
        for command in self.before {
            let ran = scene.project.piton(*command);
            assert_eq!(ran.code(), Some(0), "{ran}");
        }
        scene
    }

    /// Kills the command at each pass of each failpoint and recovers with `remedy`; each time
    /// nothing may be half done.
    fn survives(&self, places: &[&str], remedy: &[&str], at_least: usize) {
        self.survives_in(&self.scene(), places, remedy, at_least);
    }

    /// Like [`Self::survives`], in a given scene.
    fn survives_in(&self, scene: &Scene, places: &[&str], remedy: &[&str], at_least: usize) {
        let pictures = pictures(scene, self.command);
        let mut kills = 0;
        for place in places {
            for pass in 1.. {
                scene.reset();
                let armed = format!("{place}:{pass}");
                if !was_killed(&scene.armed(self.command, &armed)) {
                    break;
                }
                kills += 1;
                assert_recovers(scene, remedy, &pictures, &armed);
                if self.calls_tool() {
                    tool::assert_told(scene, &armed);
                }
            }
        }
        chance::tally("kills at places", kills as u64);
        assert!(kills >= at_least, "only {kills} places were passed");
    }

    /// Kills the command once, kills its recovery at each pass of each failpoint, and recovers
    /// again.
    fn survives_a_second_kill(&self, first: &str, at_least: usize) {
        let scene = self.scene();
        let pictures = pictures(&scene, self.command);
        scene.reset();
        assert!(
            was_killed(&scene.armed(self.command, first)),
            "{first} is not passed"
        );
        scene.save();
        let mut kills = 0;
        for place in PLACES {
            for pass in 1.. {
                scene.reset();
                let second = format!("{place}:{pass}");
                if !was_killed(&scene.armed(&["recover"], &second)) {
                    break;
                }
                kills += 1;
                assert_recovers(
                    &scene,
                    &["recover"],
                    &pictures,
                    &format!("{first}, then {second}"),
                );
            }
        }
        chance::tally("kills at places", kills as u64);
        assert!(kills >= at_least, "only {kills} places were passed");
    }
}

/// What a user sees before a command, and after it ran undisturbed.
fn pictures(scene: &Scene, command: &[&str]) -> [Picture; 2] {
    scene.save();
    let before = scene.picture();
    scene.project.piton(command);
    [before, scene.picture()]
}

fn assert_recovers(scene: &Scene, remedy: &[&str], pictures: &[Picture; 2], told: &str) {
    let ran = scene.project.piton(remedy);
    assert_eq!(ran.code(), Some(0), "{told}: {ran}");
    let picture = scene.picture();
    assert!(
        pictures.contains(&picture),
        "{told}: {ran}\nfound {picture:?}\nexpected one of {pictures:#?}"
    );
    scene.assert_sound(told, &picture);
    scene.assert_usable();
}

#[test]
fn a_step_that_is_committed_survives_a_kill_at_every_place() {
    Operation {
        before: &[],
        command: EXEC,
    }
    .survives(&PLACES, &["recover"], 30);
}

#[test]
fn a_step_that_is_rolled_back_survives_a_kill_at_every_place() {
    Operation {
        before: &[],
        command: FAILING,
    }
    .survives(&PLACES, &["recover"], 30);
}

#[test]
fn a_step_in_explicit_mode_survives_a_kill_at_every_place() {
    Operation {
        before: &[],
        command: EXPLICIT,
    }
    .survives(&PLACES, &["recover"], 15);
}

#[test]
fn an_undo_of_a_commit_survives_a_kill_at_every_place() {
    Operation {
        before: &[EXEC],
        command: &["undo"],
    }
    .survives(&PLACES, &["recover"], 30);
}

#[test]
fn an_undo_of_what_is_in_no_commit_survives_a_kill_at_every_place() {
    Operation {
        before: &[EXPLICIT],
        command: &["undo"],
    }
    .survives(&PLACES, &["recover"], 20);
}

#[test]
fn an_undo_of_a_checkpoint_survives_a_kill_at_every_place() {
    Operation {
        before: &[EXPLICIT, &["checkpoint"]],
        command: &["undo"],
    }
    .survives(&PLACES, &["recover"], 20);
}

#[test]
fn a_redo_of_a_checkpoint_survives_a_kill_at_every_place() {
    let before: &[&[&str]] = &[EXPLICIT, &["checkpoint"], &["undo"]];
    Operation {
        before,
        command: &["redo"],
    }
    .survives(&PLACES, &["recover"], 20);
}

#[test]
fn an_undo_of_several_operations_survives_a_kill_at_every_place() {
    let before: &[&[&str]] = &[&["exec", "--", "true"], EXPLICIT, &["checkpoint"]];
    let scene = Operation {
        before,
        command: &["undo"],
    }
    .scene();
    let log = scene.project.piton(["log", "--format", "json"]).stdout();
    let first = log.lines().last().expect("a run").to_owned();
    let first: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    let to = format!("{}/1", first["id"].as_str().expect("a name"));
    let command = Vec::leak(vec!["undo", "--to", String::leak(to)]);
    Operation {
        before: &[],
        command,
    }
    .survives_in(&scene, &PLACES, &["recover"], 30);
}

#[test]
fn a_checkpoint_survives_a_kill_at_every_place() {
    Operation {
        before: &[EXPLICIT],
        command: &["checkpoint"],
    }
    .survives(&PLACES, &["recover"], 20);
}

#[test]
fn a_migration_of_several_scripts_that_is_committed_survives_a_kill_at_every_place() {
    let command = &["migrate", "--all", "--checkpoint", "auto"];
    Operation {
        before: &[],
        command,
    }
    .survives_in(&legacy(), &PLACES, &["recover"], 30);
}

#[test]
fn a_migration_of_several_scripts_in_explicit_mode_survives_a_kill_at_every_place() {
    Operation {
        before: &[],
        command: &["migrate", "--all"],
    }
    .survives_in(&legacy(), &PLACES, &["recover"], 20);
}

#[test]
fn an_undo_of_a_migration_survives_a_kill_at_every_place() {
    let scene = legacy();
    assert_eq!(scene.project.piton(["migrate", "--all"]).code(), Some(0));
    Operation {
        before: &[],
        command: &["undo"],
    }
    .survives_in(&scene, &PLACES, &["recover"], 20);
}

/// Scripts that share a module and have a category, an uncommitted edit, and an untracked file.
pub(crate) fn legacy() -> Scene {
    let project = TestProject::new()
        .file(
            ".ai/scripts/report.py",
            "from lib import words\n\n\ndef main(text: str):\n    return words.count(text)\n",
        )
        .file(
            ".ai/scripts/lib/words.py",
            "def count(text):\n    return len(text.split())\n",
        )
        .file(
            ".ai/scripts/ops/clean.sh",
            "#!/usr/bin/env bash\n# Cleans\necho clean\n",
        );
    let scene = Scene::of(project);
    scene.project.bash("chmod +x .ai/scripts/ops/clean.sh; echo '# mine' >> .ai/scripts/report.py; mkdir .ai/scripts/new; printf 'def main():\\n    return 1\\n' > .ai/scripts/new/fresh.py");
    scene
}

#[test]
fn the_next_command_recovers_by_itself() {
    const TOUCHED: [&str; 8] = [
        "index-locked",
        "before-taken",
        "tool-ended",
        "after-taken",
        "commit-decided",
        "commit-ref-moved",
        "commit-applied",
        "lock-release",
    ];
    Operation {
        before: &[],
        command: EXEC,
    }
    .survives(&TOUCHED, &["exec", "--", "true"], 8);
}

#[test]
fn a_recovery_that_rolls_back_survives_a_kill() {
    Operation {
        before: &[],
        command: EXEC,
    }
    .survives_a_second_kill("tool-ended", 15);
}

#[test]
fn a_recovery_of_a_commit_survives_a_kill() {
    Operation {
        before: &[],
        command: EXEC,
    }
    .survives_a_second_kill("commit-decided", 15);
}

#[test]
fn a_recovery_of_an_undo_survives_a_kill() {
    Operation {
        before: &[EXPLICIT],
        command: &["undo"],
    }
    .survives_a_second_kill("restore-path:3", 15);
}

#[test]
fn a_journal_that_cannot_be_written_is_a_failure_and_loses_nothing() {
    for operation in [
        Operation {
            before: &[],
            command: EXEC,
        },
        Operation {
            before: &[],
            command: FAILING,
        },
        Operation {
            before: &[EXEC],
            command: &["undo"],
        },
    ] {
        let scene = operation.scene();
        let pictures = pictures(&scene, operation.command);
        for place in ["journal-append", "journal-sync"] {
            for pass in 1.. {
                scene.reset();
                let armed = format!("{place}:{pass}=error");
                let output = scene.armed(operation.command, &armed);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                if !said.contains("No space left") {
                    break;
                }
                assert!(
                    !output.status.success(),
                    "{armed}: a failure was called success\n{said}"
                );
                assert_recovers(&scene, &["recover"], &pictures, &armed);
            }
        }
    }
}

#[test]
fn every_place_in_the_source_is_armed_by_these_tests() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut found: Vec<String> = Vec::new();
    for entry in walkdir::WalkDir::new(source)
        .into_iter()
        .map(|entry| entry.expect("an entry"))
    {
        if entry.path().extension().is_some_and(|end| end == "rs")
            && !entry.path().ends_with("failpoint.rs")
        {
            let text = fs::read_to_string(entry.path()).expect("a source file");
            let names = text
                .split("failpoint(\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next());
            found.extend(names.map(ToOwned::to_owned));
        }
    }
    found.sort();
    found.dedup();
    let mut armed: Vec<String> = PLACES
        .iter()
        .chain(&ELSEWHERE)
        .map(|place| (*place).to_owned())
        .collect();
    armed.sort();
    assert_eq!(found, armed);
}
