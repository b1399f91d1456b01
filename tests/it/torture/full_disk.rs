//! A disk that is really full: the repository is on its own small file system, with a few pages
//! left.
//!
//! Unlike an injected error, this also causes short writes, and lasts until the disk has room
//! again, so piton's reaction to the first error fails as well. Creating a file system needs root,
//! as in `power_loss`.

use std::path::PathBuf;

use crate::crash::chance::{asked, tally};
use crate::crash::scene::{Picture, Scene};
use crate::harness::TestProject;

/// The size of the file system, in pages of 4 KiB.
const PAGES: usize = 1024;
/// More pages than a command needs.
const MOST: usize = 200;
/// The suite tries one of this many amounts of space.
const SAMPLED: usize = 40;

/// A step that ends at the first failing write. The large file causes short writes; it is the same
/// each time and compresses badly.
const STEP: &str = "set -e; sed -i 's/^five/FIVE/' partly.txt; echo new line >> edited.txt; mkdir -p new/deep; \
     head -c 150000 \"$(command -v git)\" > new/deep/large.bin; echo fresh > new/deep/n.txt; rm gone.txt; chmod +x clean.txt";

/// A repository on a small file system.
struct SmallDisk {
    scene: Scene,
}

impl SmallDisk {
    fn new() -> Self {
        let project = TestProject::without_git();
        let options = format!("size={}k", PAGES * 4);
        project.as_root(&format!(
            "mount -t tmpfs -o {options} tmpfs '{}'",
            project.root().display()
        ));
        project.bash("git init -q --initial-branch=main");
        Self {
            scene: Scene::of(project.tool("work", "mutates_state: true", STEP)),
        }
    }

    fn kept(&self) -> PathBuf {
        self.scene.project.root().with_file_name("kept")
    }

    fn save(&self) {
        self.scene.project.bash(&format!(
            "rm -rf '{0}'; cp -a . '{0}'",
            self.kept().display()
        ));
    }

    fn reset(&self) {
        self.scene.project.bash(&format!(
            "find . -mindepth 1 -delete; cp -a '{}/.' .",
            self.kept().display()
        ));
    }

    /// Leaves this many pages free.
    fn fill(&self, pages: usize) {
        self.scene.project.bash(&format!(
            "left=$(df --output=avail -B 4096 . | tail -1); fallocate -l $(( (left - {pages}) * 4096 )) .git/ballast 2>/dev/null || test $left -le {pages}"
        ));
    }

    /// Runs a command with this many pages free, then makes room and recovers.
    fn check(&self, command: &[&str], pages: usize, right: &[Picture]) -> Result<(), String> {
        self.reset();
        self.fill(pages);
        let ran = self.scene.project.piton(command);
        let said = ran.to_string();
        if ran.code().is_none_or(|code| code == 101) {
            return Err(format!("the command crashed: {said}"));
        }
        let is_told = said.contains("No space left")
            || said.contains("bytes left, too little")
            || said.contains("DISK_FULL")
            || said.contains("rolled back")
            || said.contains("put back");
        if ran.code() != Some(0) && !is_told {
            return Err(format!("the error does not say what happened: {said}"));
        }
        self.scene.project.bash("rm .git/ballast");
        let recovered = self.scene.project.piton(["recover"]);
        if recovered.code() != Some(0) {
            return Err(format!("{said}the recovery failed: {recovered}"));
        }
        let picture = self.scene.picture();
        if !right.contains(&picture) {
            let differences: Vec<String> = right
                .iter()
                .map(|right| picture.difference(right))
                .collect();
            return Err(format!("{said}{recovered}\n{}", differences.join("\nor\n")));
        }
        self.scene.assert_sound(&said, &picture);
        self.scene.assert_usable();
        Ok(())
    }

    fn survives(&self, command: &[&str]) {
        self.save();
        let before = self.scene.picture();
        let ran = self.scene.project.piton(command);
        let code = ran.code();
        let right = [before, self.scene.picture()];
        let is_all = asked("PITON_TORTURE_ROUNDS").is_some();
        let (mut tried, mut failed, mut wrong) = (0, 0, Vec::new());
        for pages in (0..MOST).step_by(if is_all { 1 } else { SAMPLED }) {
            tried += 1;
            if let Err(why) = self.check(command, pages, &right) {
                wrong.push(format!("{command:?} with {pages} pages left: {why}"));
            }
            self.reset();
            self.fill(pages);
            failed += u64::from(self.scene.project.piton(command).code() != code);
        }
        tally("full disks", tried);
        tally("left over", wrong.len() as u64);
        assert!(
            wrong.is_empty(),
            "{} of {tried}:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        assert!(failed > 0 || code != Some(0), "the disk was never full");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
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

#[test]
fn a_step_on_a_full_disk_is_there_or_not() {
    SmallDisk::new().survives(&["exec", "--", "bash", "-c", STEP]);
}

#[test]
fn a_step_that_is_rolled_back_on_a_full_disk_loses_nothing() {
    SmallDisk::new().survives(&["exec", "--", "bash", "-c", "eval \"$0\"; exit 3", STEP]);
}

#[test]
fn an_undo_on_a_full_disk_is_there_or_not() {
    let disk = SmallDisk::new();
    let ran = disk.scene.project.piton(["exec", "--", "bash", "-c", STEP]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    disk.survives(&["undo"]);
}
