//! Power loss at any point: what is on disk then must be enough for a recovery, with as few syncs
//! as possible.
//!
//! The repository is on its own file system in an image file. Piton is killed at each failpoint,
//! and the image is copied at once: the copy holds what had reached the disk, without anything that
//! the kernel still had in memory. The copy is mounted, which replays the journal of the file
//! system, and recovered.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::crash::PLACES;
use crate::crash::chance::{asked, tally};
use crate::crash::scene::{Picture, Scene, WORK, was_killed};
use crate::harness::{Ran, TestProject};
use crate::run::terminal::at_a_terminal;

/// The command syncs its own files: piton promises nothing about files that a command does not
/// sync.
const SYNCED: &str = "find . -path ./.git -prune -o \\( -type f -o -type d \\) -exec sync {} +";

/// The suite tries one of this many failpoint passes, `./scripts/torture` all of them.
const SAMPLED: usize = 13;
/// The same where only some damage has to be found.
const SAMPLED_FOR_DAMAGE: usize = 3;

/// What a recovery says when it keeps the files of a step. Their names follow.
const UNDECIDED: &str = "unknown who made these changes";
const NAMED: &str = "; kept: `";

/// Failpoints of `rollback --hard`.
const HARD_PLACES: [&str; 5] = [
    "hard-kept",
    "commit-kept",
    "hard-files-reset",
    "hard-index-reset",
    "hard-branch-moved",
];

/// A repository on its own file system.
struct Machine {
    scene: Scene,
    images: TempDir,
}

/// What may be found after a power loss and a recovery.
struct Valid {
    /// A part of the command is done or none.
    right: Vec<Picture>,
    /// The list of a step's files is not synced. After a power loss in the middle of a step its files may stay, and the
    /// recovery says so.
    kept: Vec<Picture>,
}

impl Machine {
    fn new() -> Self {
        Self::of(|project| project)
    }

    /// A machine with other items.
    fn of(items: impl FnOnce(TestProject) -> TestProject) -> Self {
        let images = tempfile::tempdir().expect("a temporary folder");
        let image = images.path().join("start");
        let project = TestProject::without_git().synced();
        project.as_root(&format!(
            "truncate -s 48M '{0}'; mkfs.ext4 -q -F '{0}'",
            image.display()
        ));
        mount(&project, &image);
        // By default git does not sync the objects that it creates, not even those of the `git add`
        // in the step.
        project
            .bash("rmdir lost+found; git init -q --initial-branch=main; git config core.fsync all");
        let machine = Self {
            scene: Scene::of(items(project)),
            images,
        };
        machine.unplug();
        machine
    }

    /// Runs commands that succeed, and writes everything to the disk.
    fn after(self, commands: &[&[&str]]) -> Self {
        self.boot("start", "running");
        for command in commands {
            let ran = self.scene.project.piton(*command);
            assert_eq!(ran.code(), Some(0), "{ran}");
        }
        self.unplug();
        let images = self.images.path();
        fs::rename(images.join("running"), images.join("start")).expect("the disk");
        self
    }

    /// Mounts a copy of an image under another name.
    fn boot(&self, from: &str, to: &str) {
        self.copy(from, to);
        self.forget_ends();
        mount(&self.scene.project, &self.images.path().join(to));
    }

    /// Copies an image. A process elsewhere with a mount namespace of its own may still have the old one mounted, so the
    /// copy is a new file.
    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.images.path().join(from), self.images.path().join(to));
        let _ = fs::remove_file(&to);
        fs::copy(&from, &to).expect("a copy of the disk");
    }

    /// Removes the notes of where journals end. They are in the home, which is not in the image: they would
    /// be of commands that a copy has not run, or of a start that did not end.
    fn forget_ends(&self) {
        let notes = self.scene.project.home().join(".config/piton/keys/ends");
        let _ = fs::remove_dir_all(notes);
    }

    /// Runs `piton recover` as after the machine has started again: the kernel has another boot id.
    fn recover(&self) -> Ran {
        let id = self.images.path().join("boot_id");
        fs::write(&id, "00000000-0000-4000-8000-000000000000\n").expect("a boot id");
        let id = id.to_str().expect("a name in UTF-8");
        let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\" recover";
        let mut command = self.scene.project.command_under(
            "unshare",
            ["--mount", "--map-root-user", "bash", "-c", script, id],
        );
        self.scene
            .project
            .ran(command.output().expect("unshare starts"))
    }

    /// Writes everything to the disk and unmounts it.
    fn unplug(&self) {
        let project = &self.scene.project;
        project.bash("sync --file-system .");
        project.as_root(&format!("umount '{}'", project.root().display()));
    }

    /// Kills a command at a failpoint, loses the power at once, and recovers; none if the failpoint
    /// was not passed.
    fn lose_power(
        &self,
        fsync: &str,
        command: &[&str],
        place: &str,
    ) -> Option<Result<(Picture, String), String>> {
        self.boot("start", "running");
        let variables = [
            ("PITON_FAILPOINT", place),
            ("PITON_CHECKPOINT_FSYNC", fsync),
        ];
        let output = self
            .scene
            .project
            .command(command)
            .envs(variables)
            .output()
            .expect("piton starts");
        self.copy("running", "lost");
        self.unplug();
        if !was_killed(&output) {
            return None;
        }
        mount(&self.scene.project, &self.images.path().join("lost"));
        let recovered = self.recover();
        let fsck = self
            .scene
            .project
            .try_git(["fsck", "--full", "--strict", "--no-dangling"]);
        let found = match (recovered.code(), fsck.code()) {
            (Some(0 | 1), Some(0)) => Ok((self.scene.picture(), recovered.to_string())),
            _ => Err(format!("{recovered}{fsck}")),
        };
        self.unplug();
        Some(found)
    }

    /// What a user sees after something was done.
    fn shown(&self, act: impl FnOnce(&Scene)) -> Picture {
        self.boot("start", "running");
        act(&self.scene);
        let shown = self.scene.picture();
        self.unplug();
        shown
    }

    /// The states before and after a command.
    fn outcome(&self, command: &[&str]) -> Vec<Picture> {
        let before = self.shown(|_| ());
        let after = self.shown(|scene| drop(scene.project.piton(command)));
        vec![before, after]
    }

    /// The failpoints at which a power loss leaves no valid state.
    fn broken_places(
        &self,
        fsync: &str,
        command: &[&str],
        more_places: &[&str],
        valid: &Valid,
        sampled: usize,
    ) -> (usize, Vec<String>) {
        let stride = if asked("PITON_TORTURE_ROUNDS").is_some() {
            1
        } else {
            sampled
        };
        let (mut losses, mut broken) = (0, Vec::new());
        for (number, place) in PLACES.iter().chain(more_places).enumerate() {
            for pass in (1 + number % stride..).step_by(stride) {
                let armed = format!("{place}:{pass}");
                let Some(found) = self.lose_power(fsync, command, &armed) else {
                    break;
                };
                losses += 1;
                match found {
                    Ok((picture, _)) if valid.right.contains(&picture) => {}
                    Ok((picture, told))
                        if valid.kept.contains(&picture)
                            && [UNDECIDED, NAMED].iter().all(|said| told.contains(said)) => {}
                    Ok((picture, told)) => {
                        let right = valid.right.iter().map(|right| picture.difference(right));
                        let differences: Vec<String> = right.collect();
                        broken.push(format!("{armed}: {told}{}", differences.join("\nor\n")));
                    }
                    Err(told) => broken.push(format!("{armed}: {told}")),
                }
            }
        }
        (losses, broken)
    }

    /// Loses the power at each place of a command.
    fn survives(
        &self,
        name: &str,
        fsync: &str,
        command: &[&str],
        more_places: &[&str],
        valid: &Valid,
    ) {
        let (losses, broken) = self.broken_places(fsync, command, more_places, valid, SAMPLED);
        tally(&format!("losses of power: {name}, {fsync}"), losses as u64);
        tally("left over", broken.len() as u64);
        assert!(losses >= 2, "{name}: only {losses} places were passed");
        assert!(
            broken.is_empty(),
            "{name}: {} of {losses} losses of power:\n{}",
            broken.len(),
            broken.join("\n")
        );
    }
}

/// Runs the script of a step without piton; it may fail.
fn without_piton(scene: &Scene, script: &str) {
    let project = &scene.project;
    let _ = project
        .hermetic("bash", &project.root())
        .args(["-c", script])
        .output();
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A failed test may have left the file system mounted, and removing the folder would delete
        // its files.
        let root = self.scene.project.root();
        let sandbox = root.parent().expect("a sandbox");
        let _ = self
            .scene
            .project
            .hermetic("umount", sandbox)
            .arg("--lazy")
            .arg(&root)
            .output();
    }
}

fn mount(project: &TestProject, image: &Path) {
    project.as_root(&format!(
        "mount -o loop '{}' '{}'",
        image.display(),
        project.root().display()
    ));
}

fn step(end: &str) -> Vec<String> {
    let script = format!("{WORK}; {SYNCED}; {end}");
    ["exec", "--", "bash", "-c", &script]
        .map(str::to_owned)
        .to_vec()
}

/// Loses the power in a step that is committed and in one that is rolled back.
fn steps_survive(fsync: &str) {
    let machine = Machine::new();
    for (name, end) in [("exec", "exit 0"), ("exec that fails", "exit 3")] {
        let command = step(end);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let script = command.last().expect("a script");
        let valid = Valid {
            right: machine.outcome(&command),
            kept: vec![machine.shown(|scene| without_piton(scene, script))],
        };
        machine.survives(name, fsync, &command, &[], &valid);
    }
}

/// Loses the power in a command that runs no script.
fn command_survives(name: &str, before: &[&[&str]], command: &[&str], more_places: &[&str]) {
    let machine = Machine::new().after(before);
    let valid = Valid {
        right: machine.outcome(command),
        kept: Vec::new(),
    };
    machine.survives(name, "auto", command, more_places, &valid);
}

#[test]
fn a_step_survives_a_power_loss_at_every_place() {
    steps_survive("auto");
}

#[test]
fn a_step_survives_a_power_loss_when_every_file_is_synced_by_itself() {
    steps_survive("always");
}

const COMMITTED: &[&str] = &["exec", "--", "bash", "-c", WORK];
const EXPLICIT: &[&str] = &["exec", "--checkpoint", "explicit", "--", "bash", "-c", WORK];

#[test]
fn an_undo_survives_a_power_loss_at_every_place() {
    command_survives("undo of a commit", &[COMMITTED], &["undo"], &[]);
    command_survives("undo of what is in no commit", &[EXPLICIT], &["undo"], &[]);
}

#[test]
fn a_hard_rollback_survives_a_power_loss_at_every_place() {
    let hard = &["rollback", "--hard", "HEAD~1", "--yes"];
    command_survives("rollback --hard", &[COMMITTED], hard, &HARD_PLACES);
}

#[test]
fn a_checkpoint_survives_a_power_loss_at_every_place() {
    command_survives("checkpoint", &[EXPLICIT], &["checkpoint"], &[]);
}

#[test]
fn a_run_with_two_steps_survives_a_power_loss_at_every_place() {
    let [one, two] = [
        "echo more >> clean.txt; echo fresh > fresh.txt",
        "rm gone.txt; echo later >> fresh.txt; chmod +x clean.txt",
    ]
    .map(|script| format!("{script}; {SYNCED}"));
    let settings = "mutates_state: true\nisolation: trusted";
    let machine = Machine::of(|project| {
        project
            .tool("one", settings, &one)
            .tool("two", settings, &two)
            .directive("both", ["one", "two"])
    });
    let command: &[&str] = &["run", "both", "--checkpoint", "auto"];
    let after_one = |scene: &Scene| {
        assert!(was_killed(&scene.armed(command, "tool-settled:1")));
        let recovered = scene.project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{recovered}");
    };
    let mut right = machine.outcome(command);
    right.push(machine.shown(after_one));
    let kept = vec![
        machine.shown(|scene| without_piton(scene, &one)),
        machine.shown(|scene| {
            after_one(scene);
            without_piton(scene, &two);
        }),
    ];
    machine.survives("run", "auto", command, &[], &Valid { right, kept });
}

/// How often a command waits for the disk.
fn syncs(project: &TestProject, command: &[&str]) -> usize {
    let trace = project.root().with_file_name("tmp").join("trace");
    let mut strace = project.hermetic("strace", &project.root());
    strace
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,syncfs,sync", "-o"])
        .arg(&trace);
    let ran = strace
        .arg(env!("CARGO_BIN_EXE_piton"))
        .args(command)
        .output()
        .expect("strace starts");
    let lines = fs::read_to_string(&trace).expect("a trace");
    assert!(
        !lines.contains("ptrace"),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    lines
        .lines()
        .filter(|line| line.contains("sync") && !line.contains("resumed"))
        .count()
}

/// Commits a change, rolls one back, and changes nothing.
fn few_syncs(project: &TestProject) {
    let exec = |script: &'static str| ["exec", "--quiet", "--", "sh", "-c", script];
    // The first command creates piton's folders.
    assert_eq!(project.piton(exec("echo 1 >> a.txt")).code(), Some(0));
    let counts = ["echo 2 >> a.txt", "echo 3 >> a.txt; exit 1", "true"]
        .map(|script| syncs(project, &exec(script)));
    assert_eq!(project.read("a.txt"), "a\n1\n2\n");
    for (count, most) in counts.into_iter().zip([5, 5, 1]) {
        assert!(
            (1..=most).contains(&count),
            "{counts:?} syncs for a commit, a roll back, and no change"
        );
    }
}

#[test]
fn a_step_waits_for_the_disk_a_few_times_only() {
    few_syncs(&TestProject::new().synced().file("a.txt", "a\n").committed());
}

#[test]
fn a_step_waits_a_few_times_only_where_the_file_system_keeps_a_journal() {
    let machine = Machine::new();
    machine.boot("start", "running");
    machine
        .scene
        .project
        .bash("git reset -q --hard; git clean -fdqx; echo a > a.txt; git add -A; git commit -qm a");
    few_syncs(&machine.scene.project);
}

/// After a power loss it is unknown who changed what. A person who lets the step be rolled back gets the definition of the
/// sparse checkout back too.
#[test]
fn the_definition_of_a_sparse_checkout_survives_a_power_loss() {
    let machine = Machine::new();
    let project = &machine.scene.project;
    machine.boot("start", "running");
    project.bash(
        "git reset -q --hard; git clean -fdqx; mkdir near far; echo n > near/n; echo f > far/f; git add -A
         git commit -qm folders; git sparse-checkout set --cone near; test ! -e far; sync",
    );
    let definition = || project.bash("cat .git/info/sparse-checkout; ls");
    let before = definition();
    let step = "git sparse-checkout set --cone far; echo more >> far/f; sync far/f .git/info/sparse-checkout .git/index .git";
    let output = project
        .command(["exec", "--", "sh", "-c", step])
        .env("PITON_FAILPOINT", "tool-ended")
        .output()
        .expect("piton starts");
    assert!(was_killed(&output));
    machine.copy("running", "lost");
    machine.unplug();
    mount(project, &machine.images.path().join("lost"));
    // As after a restart of the machine.
    machine.forget_ends();
    project.bash("rm -f .git/piton/runs/*/touched-1");
    assert_ne!(definition(), before);
    let talk = serde_json::json!([["Roll back all of them? [y/N] ", "type", "y\n"]]);
    let seen = at_a_terminal(project, &talk, &["recover"]);
    assert_eq!(seen.status, Some(0), "{}", seen.seen);
    assert_eq!(definition(), before, "{}", seen.seen);
    assert_eq!(project.git(["status", "--porcelain"]), "");
}

/// The model can fail: without any sync there are losses that recovery cannot repair.
#[test]
fn without_syncs_a_power_loss_does_harm() {
    let machine = Machine::new();
    let command = step("exit 0");
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let script = command.last().expect("a script");
    let valid = Valid {
        right: machine.outcome(&command),
        kept: vec![machine.shown(|scene| without_piton(scene, script))],
    };
    let (losses, broken) =
        machine.broken_places("never", &command, &[], &valid, SAMPLED_FOR_DAMAGE);
    assert!(
        !broken.is_empty(),
        "{losses} losses of power did no harm although nothing was synced"
    );
}
