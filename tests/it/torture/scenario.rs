//! The commands of the torture tests, each in a repository with a user's work in progress.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Output;

use crate::crash::legacy;
use crate::crash::scene::{Mask, Picture, Scene, WORK, was_killed};
use crate::harness::TestProject;
use crate::linked_worktree::linked;

/// A command and its initial scene.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    scene: fn() -> TortureScene,
    /// `RUN` at the start of a word stands for the run of the scene.
    command: &'static [&'static str],
    /// The minimum number of points, so that a scenario cannot lose its points unnoticed.
    pub(super) at_least: usize,
    /// Of this many neighbouring calls one is tried, because they do the same with different files.
    pub(super) alike: usize,
    again: Again,
    remedy: Remedy,
    /// Where the command has done a part that stays: a kill there, and a recovery, leave a valid state.
    pub(super) between: &'static [&'static str],
}

/// What follows a disturbance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// A recovery: afterwards the command has happened or not.
    Recovery,
    /// The same command again: afterwards it has happened.
    Repetition,
}

/// Whether the command can be run once more after a recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

/// A scene, including the home of the user.
pub(super) struct TortureScene {
    pub(super) scene: Scene,
    pub(super) mask: Mask,
    run: Option<String>,
}

impl Scenario {
    fn new(
        name: &'static str,
        scene: fn() -> TortureScene,
        command: &'static [&'static str],
        at_least: usize,
    ) -> Self {
        Self {
            name,
            scene,
            command,
            at_least,
            alike: 1,
            again: Again::No,
            remedy: Remedy::Recovery,
            between: &[],
        }
    }

    /// Names the places after parts of the command that stay.
    fn in_parts(self, between: &'static [&'static str]) -> Self {
        Self { between, ..self }
    }

    /// Calls that are repeated for each of many files.
    fn alike(self) -> Self {
        Self {
            alike: ALIKE,
            ..self
        }
    }

    fn repeatable(self) -> Self {
        Self {
            again: Again::Yes,
            ..self
        }
    }

    /// The command itself finishes an interrupted one.
    fn repeated(self) -> Self {
        Self {
            remedy: Remedy::Repetition,
            ..self
        }
    }

    /// The command that is run after a disturbance.
    pub(super) fn remedy(&self, scene: &TortureScene) -> Vec<String> {
        match self.remedy {
            Remedy::Recovery => vec!["recover".to_owned()],
            Remedy::Repetition => self.command(scene),
        }
    }

    /// Whether the state before the command is valid after the remedy.
    pub(super) fn may_be_undone(&self) -> bool {
        self.remedy == Remedy::Recovery
    }

    pub(super) fn scene(&self) -> TortureScene {
        (self.scene)()
    }

    pub(super) fn command(&self, scene: &TortureScene) -> Vec<String> {
        scene.words(self.command)
    }

    /// The next command works, and so does the user's git.
    pub(super) fn assert_goes_on(&self, scene: &TortureScene) {
        if self.again == Again::Yes {
            let ran = scene.scene.project.piton(self.command(scene));
            assert_eq!(ran.code(), Some(0), "the command once more: {ran}");
        }
        scene.scene.assert_usable();
    }
}

impl TortureScene {
    /// A scene in which piton waits for the disk, as it does by default.
    fn of(scene: Scene) -> Self {
        Self {
            scene: Scene {
                project: scene.project.synced(),
            },
            mask: Mask::Nothing,
            run: None,
        }
    }

    /// Masks the times of stamps in pictures.
    fn timeless(self) -> Self {
        Self {
            mask: Mask::Times,
            ..self
        }
    }

    /// A command with the run of the scene for `RUN`.
    fn words(&self, command: &[&str]) -> Vec<String> {
        let word = |word: &&str| match (word.strip_prefix("RUN"), &self.run) {
            (Some(rest), Some(run)) => format!("{run}{rest}"),
            _ => (*word).to_owned(),
        };
        command.iter().map(word).collect()
    }

    /// Runs a piton command that succeeds.
    fn after(self, command: &[&str]) -> Self {
        let ran = self.scene.project.piton(self.words(command));
        assert_eq!(ran.code(), Some(0), "{ran}");
        self
    }

    /// Runs a piton command that is killed at a failpoint.
    fn cut_off(self, command: &[&str], place: &str) -> Self {
        let command = self.words(command);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        assert!(
            was_killed(&self.scene.armed(&words, place)),
            "{place} is not passed"
        );
        self
    }

    /// Remembers the newest run.
    fn with_run(self) -> Self {
        let log = self
            .scene
            .project
            .piton(["log", "--format", "json"])
            .stdout();
        let newest: serde_json::Value =
            serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
        let run = newest["id"].as_str().expect("a name").to_owned();
        Self {
            run: Some(run),
            ..self
        }
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.scene.project.root().with_file_name("tmp")
    }

    /// Saves a copy of everything, including the home.
    pub(super) fn save_all(&self) {
        self.scene
            .project
            .bash("cd ..; rm -rf kept; mkdir kept; cp -a project home kept");
    }

    /// Restores the saved copy.
    pub(super) fn reset_all(&self) {
        self.scene.project.bash(
            "cd ..; rm -rf project home tmp/*; cp -a kept/project kept/home .; cd project
             if [ -e .git/piton/lock ]; then touch .git/piton/lock; fi",
        );
    }

    pub(super) fn picture(&self) -> Picture {
        self.scene.picture().masked(self.mask)
    }

    /// Runs piton under `strace`, which follows only the thread that does the work.
    pub(super) fn under_strace<S: AsRef<OsStr>>(
        &self,
        options: impl IntoIterator<Item = S>,
        command: &[String],
    ) -> Output {
        let mut strace = self.scene.project.command_under("strace", options);
        strace.args(command).output().expect("strace starts")
    }
}

const EXEC: &[&str] = &["exec", "--", "bash", "-c", WORK];
const FAILING: &[&str] = &["exec", "--", "bash", "-c", "eval \"$0\"; exit 3", WORK];
const EXPLICIT: &[&str] = &["exec", "--checkpoint", "explicit", "--", "bash", "-c", WORK];
const FILTERED: &[&str] = &[
    "exec",
    "--",
    "bash",
    "-c",
    "eval \"$0\"; echo more >> rotated.txt",
    WORK,
];
const FILTERED_FAILING: &[&str] = &[
    "exec",
    "--",
    "bash",
    "-c",
    "eval \"$0\"; echo more >> rotated.txt; exit 3",
    WORK,
];
const NEAR: &[&str] = &[
    "exec",
    "--",
    "bash",
    "-c",
    "eval \"$0\"; echo more >> near/n.txt",
    WORK,
];
const NEAR_FAILING: &[&str] = &[
    "exec",
    "--",
    "bash",
    "-c",
    "eval \"$0\"; echo more >> near/n.txt; exit 3",
    WORK,
];
/// So many that several threads write them.
pub(super) const MANY: usize = 264;
/// One of so many calls for these files is tried.
const ALIKE: usize = 7;
const MANY_CHANGED: &[&str] = &["exec", "--", "bash", "-c", CHANGE_MANY];
const MANY_FAILING: &[&str] = &[
    "exec",
    "--",
    "bash",
    "-c",
    "eval \"$0\"; exit 3",
    CHANGE_MANY,
];
const CHANGE_MANY: &str =
    "for i in many/*; do echo changed >> $i; done; rm many/1; mkdir fresh; echo n > fresh/n";
/// Without `git`: a killed one leaves its own lock.
const LATER: &str =
    "echo later >> edited.txt; rm new/deep/n.txt; echo later > gone.txt; chmod -x clean.txt";
const RESTORE: &[&str] = &["restore", "RUN/1"];
const HARD: &[&str] = &["rollback", "--hard", "HEAD~1", "--yes"];

fn plain() -> TortureScene {
    TortureScene::of(Scene::new())
}

fn with_directives() -> TortureScene {
    let broken = format!("{WORK}; exit 3");
    let project = TestProject::new()
        .tool("work", "mutates_state: true\nisolation: trusted", WORK)
        .tool("broken", "mutates_state: true\nisolation: trusted", &broken)
        .tool("one", "mutates_state: true", "echo more >> clean.txt")
        .tool(
            "two",
            "mutates_state: true",
            "echo fresh > fresh.txt; rm gone.txt",
        )
        .directive("steps", ["work"])
        .directive("fails", ["broken"])
        .directive("both", ["one", "two"])
        .directive("partly", ["one", "two", "broken"]);
    let text = project
        .read(".ai/directives/partly.md")
        .replace("\"partly\"", "\"together\"");
    let together = text.replace(
        "<permissions>",
        "<git_checkpoint mode=\"auto\" on_failure=\"rollback_run\"/>\n    <permissions>",
    );
    let project = project.file(".ai/directives/together.md", together);
    TortureScene::of(Scene::of(project))
}

/// A file that a filter of git converts: git stores other bytes than those on disk.
fn filtered() -> TortureScene {
    let here = plain();
    here.scene.project.bash(
        "git config filter.rot.clean 'tr a-z n-za-m'; git config filter.rot.smudge 'tr a-z n-za-m'
         git config filter.rot.required true; echo 'rotated.txt filter=rot' >> .gitattributes; echo hidden > rotated.txt
         git add .gitattributes rotated.txt; git commit -qm filtered -- .gitattributes rotated.txt
         test \"$(git cat-file -p HEAD:rotated.txt)\" = uvqqra",
    );
    here
}

/// A sparse checkout with a sparse index: `far` is not on disk.
fn sparse() -> TortureScene {
    let here = plain();
    here.scene.project.bash(
        "mkdir near far; echo near > near/n.txt; echo far > far/f.txt; git add near far; git commit -qm far -- near far
         git sparse-checkout set --cone --sparse-index .ai folder near; test ! -e far",
    );
    here
}

/// Many files: their objects become a pack, and a roll back writes them in batches, on several threads.
fn many() -> TortureScene {
    let here = plain();
    here.scene.project.bash(&format!(
        "mkdir many; for i in $(seq {MANY}); do echo $i > many/$i; done; git add many; git commit -qm many -- many"
    ));
    here
}

/// A step, and a later one that changes some of the same files.
fn with_two_steps() -> TortureScene {
    plain()
        .after(EXEC)
        .with_run()
        .after(&["exec", "--", "bash", "-c", LATER])
}

/// A run in a worktree of its own, while the branch has moved on.
fn away() -> TortureScene {
    let here = with_directives();
    let side = linked(&here.scene.project, 1);
    let script = "echo more >> clean.txt; echo fresh > fresh.txt; rm gone.txt";
    let side = side.to_string_lossy().into_owned();
    let ran = here.scene.project.piton([
        "-C", &side, "--format", "json", "exec", "--name", "w", "--", "sh", "-c", script,
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let end: serde_json::Value = serde_json::from_str(ran.stdout().lines().last().expect("a line"))
        .expect("JSON of the run");
    let run = end["run_id"].as_str().expect("a name").to_owned();
    here.scene
        .project
        .bash("echo moved > moved.txt; git add moved.txt; git commit -qm moved -- moved.txt");
    TortureScene {
        run: Some(run),
        ..here
    }
}

pub(super) fn exec_that_commits() -> Scenario {
    Scenario::new("exec that commits", plain, EXEC, 80)
}

pub(super) fn exec_that_fails() -> Scenario {
    Scenario::new("exec that fails", plain, FAILING, 60)
}

pub(super) fn exec_in_explicit_mode() -> Scenario {
    Scenario::new("exec in explicit mode", plain, EXPLICIT, 40)
}

pub(super) fn checkpoint_of_steps() -> Scenario {
    Scenario::new(
        "checkpoint",
        || plain().after(EXPLICIT),
        &["checkpoint"],
        50,
    )
}

pub(super) fn checkpoint_of_a_path() -> Scenario {
    Scenario::new("checkpoint PATH", plain, &["checkpoint", "mine.txt"], 50)
}

pub(super) fn checkpoint_of_everything() -> Scenario {
    Scenario::new("checkpoint --all", plain, &["checkpoint", "--all"], 50)
}

pub(super) fn undo_of_a_commit() -> Scenario {
    Scenario::new("undo of a commit", || plain().after(EXEC), &["undo"], 60)
}

pub(super) fn undo_of_what_is_not_committed() -> Scenario {
    Scenario::new(
        "undo of what is not committed",
        || plain().after(EXPLICIT),
        &["undo"],
        40,
    )
}

pub(super) fn redo() -> Scenario {
    Scenario::new(
        "redo",
        || plain().after(EXEC).after(&["undo"]),
        &["redo"],
        60,
    )
}

pub(super) fn rollback_hard() -> Scenario {
    Scenario::new("rollback --hard", || plain().after(EXEC), HARD, 40)
}

pub(super) fn tool_that_works() -> Scenario {
    Scenario::new(
        "tool run",
        plain,
        &["tool", "run", "work", "--checkpoint", "auto"],
        60,
    )
}

pub(super) fn tool_that_fails() -> Scenario {
    Scenario::new(
        "tool run that fails",
        plain,
        &["tool", "run", "broken", "--checkpoint", "auto"],
        60,
    )
}

pub(super) fn run_of_a_directive() -> Scenario {
    Scenario::new(
        "run",
        with_directives,
        &["run", "steps", "--checkpoint", "auto"],
        80,
    )
}

pub(super) fn run_of_a_directive_that_fails() -> Scenario {
    Scenario::new(
        "run that fails",
        with_directives,
        &["run", "fails", "--checkpoint", "auto"],
        60,
    )
}

pub(super) fn resume_of_a_run_that_was_cut_off() -> Scenario {
    let scene =
        || with_directives().cut_off(&["run", "steps", "--checkpoint", "auto"], "tool-ended");
    Scenario::new("resume", scene, &["resume"], 60)
}

pub(super) fn finish_with_keep() -> Scenario {
    Scenario::new("finish --keep", away, &["finish", "RUN", "--keep"], 40)
}

pub(super) fn finish_with_squash() -> Scenario {
    Scenario::new("finish --squash", away, &["finish", "RUN", "--squash"], 40)
}

pub(super) fn finish_with_squash_on_the_branch() -> Scenario {
    let scene = || {
        with_directives()
            .after(&["run", "both", "--checkpoint", "auto"])
            .with_run()
    };
    Scenario::new(
        "finish --squash on the branch",
        scene,
        &["finish", "RUN", "--squash"],
        20,
    )
}

pub(super) fn finish_with_branch() -> Scenario {
    Scenario::new("finish --branch", away, &["finish", "RUN", "--branch"], 10)
}

pub(super) fn recovery_of_a_commit() -> Scenario {
    Scenario::new(
        "recover a commit",
        || plain().cut_off(EXEC, "commit-decided"),
        &["recover"],
        30,
    )
    .repeatable()
}

pub(super) fn recovery_of_a_roll_back() -> Scenario {
    Scenario::new(
        "recover a roll back",
        || plain().cut_off(EXEC, "tool-ended"),
        &["recover"],
        30,
    )
    .repeatable()
}

pub(super) fn recovery_of_a_hard_rollback() -> Scenario {
    let scene = || plain().after(EXEC).cut_off(HARD, "hard-files-reset");
    Scenario::new("recover rollback --hard", scene, &["recover"], 10).repeatable()
}

pub(super) fn gc() -> Scenario {
    let scene = || {
        let scene = plain().after(EXEC).after(&["undo"]).after(EXEC);
        scene
            .scene
            .project
            .bash("find .git/piton/store -type f -exec touch -d '2 days ago' {} +");
        scene
    };
    Scenario::new(
        "gc",
        scene,
        &["gc", "--keep-days", "0", "--keep-runs", "0"],
        10,
    )
    .repeatable()
}

pub(super) fn init() -> Scenario {
    Scenario::new(
        "init",
        || TortureScene::of(Scene::of(TestProject::new())).timeless(),
        &["init"],
        10,
    )
    .repeated()
}

pub(super) fn hooks_install() -> Scenario {
    Scenario::new("hooks install", plain, &["hooks", "install"], 10).repeatable()
}

pub(super) fn hooks_uninstall() -> Scenario {
    Scenario::new(
        "hooks uninstall",
        || plain().after(&["hooks", "install"]),
        &["hooks", "uninstall"],
        5,
    )
    .repeatable()
}

pub(super) fn new_tool() -> Scenario {
    Scenario::new(
        "new tool",
        || plain().timeless(),
        &["new", "tool", "count_words"],
        20,
    )
}

pub(super) fn sign() -> Scenario {
    Scenario::new(
        "sign",
        || plain().timeless(),
        &["sign", "--all", "--checkpoint", "auto"],
        40,
    )
}

pub(super) fn migrate() -> Scenario {
    Scenario::new(
        "migrate",
        || TortureScene::of(legacy()),
        &["migrate", "--all", "--checkpoint", "auto"],
        60,
    )
}

pub(super) fn roll_back_of_filtered_files() -> Scenario {
    Scenario::new(
        "roll back of filtered files",
        filtered,
        FILTERED_FAILING,
        60,
    )
}

pub(super) fn undo_of_filtered_files() -> Scenario {
    Scenario::new(
        "undo of filtered files",
        || filtered().after(FILTERED),
        &["undo"],
        60,
    )
}

pub(super) fn roll_back_in_a_sparse_checkout() -> Scenario {
    Scenario::new("roll back in a sparse checkout", sparse, NEAR_FAILING, 60)
}

pub(super) fn undo_in_a_sparse_checkout() -> Scenario {
    Scenario::new(
        "undo in a sparse checkout",
        || sparse().after(NEAR),
        &["undo"],
        60,
    )
}

pub(super) fn undo_of_a_run() -> Scenario {
    let scene = || {
        with_directives()
            .after(&["run", "both", "--checkpoint", "auto"])
            .with_run()
            .after(&["exec", "--", "sh", "-c", "echo beside > beside.txt"])
    };
    Scenario::new("undo RUN", scene, &["undo", "RUN"], 60)
}

pub(super) fn restore() -> Scenario {
    Scenario::new("restore", with_two_steps, RESTORE, 60)
}

pub(super) fn recovery_of_an_undo() -> Scenario {
    let scene = || plain().after(EXPLICIT).cut_off(&["undo"], "restore-path:3");
    Scenario::new("recover an undo", scene, &["recover"], 30).repeatable()
}

pub(super) fn recovery_of_a_restore() -> Scenario {
    let scene = || with_two_steps().cut_off(RESTORE, "restore-path:2");
    Scenario::new("recover a restore", scene, &["recover"], 30).repeatable()
}

pub(super) fn atomic_run_that_fails() -> Scenario {
    Scenario::new(
        "run --atomic that fails",
        with_directives,
        &["run", "partly", "--atomic", "--checkpoint", "auto"],
        100,
    )
    .in_parts(&["tool-settled:1", "tool-settled:2", "run-put-back"])
}

pub(super) fn run_that_is_rolled_back_on_failure() -> Scenario {
    Scenario::new(
        "run with on_failure=\"rollback_run\"",
        with_directives,
        &["run", "together"],
        100,
    )
    .in_parts(&["tool-settled:1", "tool-settled:2", "run-put-back"])
}

pub(super) fn exec_of_many_files() -> Scenario {
    Scenario::new("exec of many files", many, MANY_CHANGED, 100).alike()
}

pub(super) fn roll_back_of_many_files() -> Scenario {
    Scenario::new("roll back of many files", many, MANY_FAILING, 100).alike()
}

pub(super) fn undo_of_many_files() -> Scenario {
    Scenario::new(
        "undo of many files",
        || many().after(MANY_CHANGED),
        &["undo"],
        100,
    )
    .alike()
}

pub(super) fn recovery_of_many_files() -> Scenario {
    let scene = || many().cut_off(MANY_FAILING, "roll-back-decided");
    Scenario::new("recover many files", scene, &["recover"], 100)
        .alike()
        .repeatable()
}
