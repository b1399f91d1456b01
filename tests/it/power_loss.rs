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
use crate::harness::TestProject;

/// The command syncs its own files: piton promises nothing about files that a command does not
/// sync.
const SYNCED: &str = "find . -path ./.git -prune -o \\( -type f -o -type d \\) -exec sync {} +";

/// One of this many failpoint passes is tried.
const SAMPLED: usize = 3;

/// A repository on its own file system.
struct Machine {
    scene: Scene,
    images: TempDir,
}

impl Machine {
    fn new() -> Self {
        let images = tempfile::tempdir().expect("a temporary folder");
        let image = images.path().join("start");
        let project = TestProject::without_git().synced();
        as_root(&project, &format!("truncate -s 48M '{0}'; mkfs.ext4 -q -F '{0}'", image.display()));
        mount(&project, &image);
        // By default git does not sync the objects that it creates, not even those of the `git add`
        // in the step.
        project.bash("rmdir lost+found; git init -q --initial-branch=main; git config core.fsync all");
        let machine = Self { scene: Scene::of(project), images };
        machine.unplug();
        machine
    }

    /// Mounts a copy of an image under another name.
    fn boot(&self, from: &str, to: &str) {
        let (from, to) = (self.images.path().join(from), self.images.path().join(to));
        fs::copy(&from, &to).expect("a copy of the disk");
        mount(&self.scene.project, &to);
    }

    /// Writes everything to the disk and unmounts it.
    fn unplug(&self) {
        as_root(&self.scene.project, &format!("umount '{}'", self.scene.project.root().display()));
    }

    /// Kills a command at a failpoint, loses the power at once, and recovers; none if the failpoint
    /// was not passed.
    fn lose_power(&self, fsync: &str, command: &[&str], place: &str) -> Option<Result<(Picture, String), String>> {
        self.boot("start", "running");
        let variables = [("PITON_FAILPOINT", place), ("PITON_CHECKPOINT_FSYNC", fsync)];
        let output = self.scene.project.command(command).envs(variables).output().expect("piton starts");
        let (running, lost) = (self.images.path().join("running"), self.images.path().join("lost"));
        fs::copy(&running, &lost).expect("a copy of the disk");
        self.unplug();
        if !was_killed(&output) {
            return None;
        }
        mount(&self.scene.project, &lost);
        let recovered = self.scene.project.piton(["recover"]);
        let fsck = self.scene.project.try_git(["fsck", "--full", "--strict", "--no-dangling"]);
        let found = match (recovered.code(), fsck.code()) {
            (Some(0 | 1), Some(0)) => Ok((self.scene.picture(), recovered.to_string())),
            _ => Err(format!("{recovered}{fsck}")),
        };
        self.unplug();
        Some(found)
    }

    /// The pictures before and after an undisturbed command.
    fn outcome(&self, command: &[&str]) -> (Picture, Picture) {
        self.boot("start", "running");
        let before = self.scene.picture();
        let _ = self.scene.project.piton(command);
        let after = self.scene.picture();
        self.unplug();
        (before, after)
    }

    /// What the script of a command leaves if nothing is committed or rolled back.
    fn kept(&self, command: &[&str]) -> Picture {
        self.boot("start", "running");
        let script = command.last().expect("a script");
        let _ = self.scene.project.hermetic("bash", &self.scene.project.root()).args(["-c", script]).output();
        let kept = self.scene.picture();
        self.unplug();
        kept
    }

    /// The failpoints at which a power loss leaves neither the state before a command nor the one
    /// after it.
    fn broken_places(&self, fsync: &str, command: &[&str]) -> (usize, Vec<String>) {
        let (before, after) = self.outcome(command);
        // The list of the step's files is not synced. After a power loss in the middle of a step
        // they may stay, and the recovery names them.
        let kept = self.kept(command);
        // `./scripts/torture` tries all of them.
        let stride = if asked("PITON_TORTURE_ROUNDS").is_some() { 1 } else { SAMPLED };
        let (mut losses, mut broken) = (0, Vec::new());
        for (number, place) in PLACES.into_iter().enumerate() {
            for pass in (1 + number % stride..).step_by(stride) {
                let armed = format!("{place}:{pass}");
                let Some(found) = self.lose_power(fsync, command, &armed) else { break };
                losses += 1;
                match found {
                    Ok((picture, _)) if picture == before || picture == after => {}
                    Ok((picture, told)) if picture == kept && told.contains("not known whose changes these are") => {}
                    Ok((picture, told)) => broken.push(format!("{armed}: {told}{picture:?}")),
                    Err(told) => broken.push(format!("{armed}: {told}")),
                }
            }
        }
        (losses, broken)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A failed test may have left the file system mounted, and removing the folder would delete
        // its files.
        let root = self.scene.project.root();
        let sandbox = root.parent().expect("a sandbox");
        let _ = self.scene.project.hermetic("umount", sandbox).arg("--lazy").arg(&root).output();
    }
}

fn mount(project: &TestProject, image: &Path) {
    as_root(project, &format!("mount -o loop '{}' '{}'", image.display(), project.root().display()));
}

/// Mounting needs root. Runs outside of the project folder, which is the mount point.
fn as_root(project: &TestProject, command: &str) {
    let root = project.root();
    let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo -n " };
    let script = format!("PATH=$PATH:/usr/sbin:/sbin; {sudo}{command}");
    let ran = project.hermetic("bash", root.parent().expect("a sandbox")).args(["-euc", &script]).output();
    let ran = project.ran(ran.expect("bash starts"));
    assert_eq!(ran.code(), Some(0), "{command}: {ran}");
}

fn step(end: &str) -> Vec<String> {
    let script = format!("{WORK}; {SYNCED}; {end}");
    ["exec", "--", "bash", "-c", &script].map(str::to_owned).to_vec()
}

/// Loses the power in a step that is committed and in one that is rolled back.
fn survives(fsync: &str) {
    let machine = Machine::new();
    for end in ["exit 0", "exit 3"] {
        let command = step(end);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let (losses, broken) = machine.broken_places(fsync, &command);
        tally("losses of power", losses as u64);
        assert!(losses >= 6, "only {losses} places were passed");
        assert!(broken.is_empty(), "{} of {losses} losses of power with `{end}`:\n{}", broken.len(), broken.join("\n"));
    }
}

#[test]
fn a_step_survives_a_power_loss_at_every_place() {
    survives("auto");
}

#[test]
fn a_step_survives_a_power_loss_when_every_file_is_synced_by_itself() {
    survives("always");
}

/// How often a command waits for the disk.
fn syncs(project: &TestProject, command: &[&str]) -> usize {
    let trace = project.root().with_file_name("tmp").join("trace");
    let mut strace = project.hermetic("strace", &project.root());
    strace.args(["-f", "-qq", "-e", "trace=fsync,fdatasync,syncfs,sync", "-o"]).arg(&trace);
    let ran = strace.arg(env!("CARGO_BIN_EXE_piton")).args(command).output().expect("strace starts");
    let lines = fs::read_to_string(&trace).expect("a trace");
    assert!(!lines.contains("ptrace"), "{}", String::from_utf8_lossy(&ran.stderr));
    lines.lines().filter(|line| line.contains("sync") && !line.contains("resumed")).count()
}

/// Commits a change, rolls one back, and changes nothing.
fn few_syncs(project: &TestProject) {
    let exec = |script: &'static str| ["exec", "--quiet", "--", "sh", "-c", script];
    // The first command creates piton's folders.
    assert_eq!(project.piton(exec("echo 1 >> a.txt")).code(), Some(0));
    let counts = ["echo 2 >> a.txt", "echo 3 >> a.txt; exit 1", "true"].map(|script| syncs(project, &exec(script)));
    assert_eq!(project.read("a.txt"), "a\n1\n2\n");
    for (count, most) in counts.into_iter().zip([5, 5, 1]) {
        assert!((1..=most).contains(&count), "{counts:?} syncs for a commit, a roll back, and no change");
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
    machine.scene.project.bash("git reset -q --hard; git clean -fdqx; echo a > a.txt; git add -A; git commit -qm a");
    few_syncs(&machine.scene.project);
}

/// The model can fail: without any sync there are losses that recovery cannot repair.
#[test]
fn without_syncs_a_power_loss_does_harm() {
    let machine = Machine::new();
    let command = step("exit 0");
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let (losses, broken) = machine.broken_places("never", &command);
    assert!(!broken.is_empty(), "{losses} losses of power did no harm although nothing was synced");
}
