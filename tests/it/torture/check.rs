//! What must hold after a disturbance.
//!
//! At once: no lock blocks the user's git. After `piton recover`: the files, the index and the
//! history are as before the command or as after it, every object and journal is intact, no process
//! and no temporary file is left, and the user can commit.

use std::fs;
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::point::was_killed;
use super::scenario::{Scenario, TortureScene};
use crate::crash::chance::tally;
use crate::crash::scene::Picture;

/// How long a process may take to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The valid states after a disturbance.
pub(super) struct Expected {
    before: Picture,
    after: Picture,
    /// After parts of the command that stay.
    between: Vec<Picture>,
    code: Option<i32>,
}

impl Expected {
    /// Runs the command undisturbed. Keeps a copy of the state before it.
    pub(super) fn of(scene: &TortureScene, scenario: &Scenario) -> Self {
        let command = &scenario.command(scene);
        scene.save_all();
        // Some scenes begin with an interrupted command, whose state is only valid after a
        // recovery.
        let recovered = scene.scene.project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{recovered}");
        let before = scene.picture();
        let between = scenario
            .between
            .iter()
            .map(|place| scene.recovered_from(command, place));
        let between = between.collect();
        scene.reset_all();
        let ran = scene.scene.project.piton(command);
        assert!(matches!(ran.code(), Some(0 | 1 | 3)), "{ran}");
        Self {
            before,
            after: scene.picture(),
            between,
            code: ran.code(),
        }
    }

    /// Checks what a disturbed command left.
    pub(super) fn check(
        &self,
        scene: &TortureScene,
        scenario: &Scenario,
        error: Option<&str>,
        output: &Output,
    ) -> Result<(), String> {
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        if let Some(error) = error {
            self.check_answer(scene, error, output)
                .map_err(|why| format!("{why}\n{said}"))?;
        }
        let locks = scene.awaited(PATIENCE, TortureScene::git_locks);
        if !locks.is_empty() {
            // The next piton command removes them, but until then the user's git is blocked.
            tally("locks in the way until the next command", 1);
            return Err(format!(
                "the user's git is blocked by {locks:?} ({:?})\n{said}",
                output.status
            ));
        }
        let recovered = scene.scene.project.piton(scenario.remedy(scene));
        if recovered.code() != Some(0) {
            return Err(format!("{said}the recovery failed: {recovered}"));
        }
        let picture = scene.picture();
        let is_before = picture == self.before && scenario.may_be_undone();
        if !is_before && picture != self.after && !self.between.contains(&picture) {
            return Err(format!(
                "{said}{recovered}\nthe state is neither that before nor that after:\n{}\nor\n{}",
                picture.difference(&self.before),
                picture.difference(&self.after)
            ));
        }
        if error.is_some()
            && output.status.code() == Some(0)
            && self.code == Some(0)
            && picture != self.after
        {
            return Err(format!(
                "{said}success was reported, but the command was not carried out"
            ));
        }
        scene
            .sound(&picture)
            .map_err(|why| format!("{said}{recovered}\n{why}"))?;
        let alive = scene.awaited(PATIENCE, TortureScene::processes);
        if !alive.is_empty() {
            return Err(format!("{said}processes are left: {alive:?}"));
        }
        scenario.assert_goes_on(scene);
        Ok(())
    }

    /// Checks that an error is reported with its cause, or did no harm.
    fn check_answer(
        &self,
        scene: &TortureScene,
        error: &str,
        output: &Output,
    ) -> Result<(), String> {
        let said = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        if was_killed(output) || code == Some(101) || said.contains("panicked") {
            return Err("the command crashed".to_owned());
        }
        if error == "EINTR" && code != self.code {
            return Err("a call that was interrupted was not made again".to_owned());
        }
        if code != self.code {
            // A second way may have been tried since: its error counts as well.
            let causes = [
                "os error",
                "storage space",
                "No space left",
                "quota exceeded",
                "Input/output error",
                "DISK_FULL",
            ];
            let is_told = causes.iter().any(|cause| said.contains(cause));
            if !is_told || !said.contains("error") {
                return Err("the error does not say what happened".to_owned());
            }
            let sandbox = scene.scene.project.root();
            let sandbox = sandbox
                .parent()
                .expect("a sandbox")
                .to_string_lossy()
                .into_owned();
            if !said.contains(&sandbox) && !said.contains(".git") && !said.contains('`') {
                return Err("the error does not name a file".to_owned());
            }
        }
        Ok(())
    }
}

impl TortureScene {
    /// The state after a kill at a place and a recovery.
    fn recovered_from(&self, command: &[String], place: &str) -> Picture {
        self.reset_all();
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let ran = self.scene.armed(&words, place);
        assert!(super::point::was_killed(&ran), "{place} is not passed");
        let recovered = self.scene.project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{recovered}");
        self.picture()
    }

    /// Repeats a question until the answer is empty or the time is over.
    pub(super) fn awaited(
        &self,
        patience: Duration,
        ask: impl Fn(&Self) -> Vec<String>,
    ) -> Vec<String> {
        let deadline = Instant::now() + patience;
        loop {
            let found = ask(self);
            if found.is_empty() || Instant::now() >= deadline {
                return found;
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// All locks of git.
    pub(super) fn git_locks(&self) -> Vec<String> {
        let git = self.scene.project.root().join(".git");
        walkdir::WalkDir::new(&git)
            .into_iter()
            .filter_entry(|entry| entry.path() != git.join("piton"))
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "lock"))
            .map(|entry| entry.path().display().to_string())
            .collect()
    }

    /// Processes that work in the sandbox, or were started with a path in it.
    pub(super) fn processes(&self) -> Vec<String> {
        let root = self.scene.project.root();
        let sandbox = root.parent().expect("a sandbox");
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            if !entry
                .file_name()
                .to_string_lossy()
                .starts_with(|first: char| first.is_ascii_digit())
            {
                continue;
            }
            let works_here = fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|folder| folder.starts_with(sandbox));
            if works_here {
                let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(format!(
                    "{} {}",
                    entry.path().display(),
                    String::from_utf8_lossy(&words).replace('\0', " ")
                ));
            }
        }
        found
    }

    /// Checks what must hold whenever piton is not running; see `Scene::assert_sound`.
    fn sound(&self, picture: &Picture) -> Result<(), String> {
        if !self.scene.project.root().join(".git/piton/lock").exists() {
            return Ok(());
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.scene
                .assert_sound_except("afterwards", picture, self.mask);
        }));
        checked.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default()
        })
    }
}
