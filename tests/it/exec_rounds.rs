//! A user who works all the time while `piton exec` runs steps, half of which fail.
//!
//! The user edits, creates, deletes, renames and stages their own files at random, also while piton
//! takes snapshots, commits and rolls back. After each round the user's files are as the user left
//! them (nothing lost), the commit holds only files of the step (nothing swept in), and the files
//! of the step are all as it left them or all as before. `scripts/torture` runs many rounds
//! (`PITON_TORTURE_ROUNDS`, `PITON_TORTURE_SEED`); the suite runs a sample.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::crash::chance::{Dice, asked, tally};
use crate::harness::TestProject;

/// The content of each existing file and whether it is executable.
type Files = BTreeMap<String, (String, bool)>;

const FOLDERS: [&str; 4] = ["", "d/", "new/", "d/deep/"];

fn pick<'a>(dice: &mut Dice, among: &[&'a str]) -> &'a str {
    among[usize::try_from(dice.roll(among.len() as u64)).expect("a small number")]
}

/// A file of the user (`u`) or of the step (`s`), in a folder that both use.
fn name(dice: &mut Dice, owner: char) -> String {
    format!("{}{owner}{}", pick(dice, &FOLDERS), dice.roll(6))
}

/// The files of the user or the step, as they are on disk.
fn on_disk(root: &Path, owner: char) -> Files {
    let is_walked = |entry: &walkdir::DirEntry| entry.file_name() != ".git";
    let entries = walkdir::WalkDir::new(root)
        .into_iter()
        .filter_entry(is_walked)
        .map(|entry| entry.expect("an entry"));
    let is_theirs = |entry: &walkdir::DirEntry| {
        entry.file_type().is_file() && entry.file_name().to_string_lossy().starts_with(owner)
    };
    entries
        .filter(is_theirs)
        .map(|entry| {
            let path = entry
                .path()
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string();
            let is_executable = entry.metadata().expect("a file").permissions().mode() & 0o100 != 0;
            (
                path,
                (
                    fs::read_to_string(entry.path()).expect("text"),
                    is_executable,
                ),
            )
        })
        .collect()
}

/// A user, with the expected state of their files.
struct User<'p> {
    project: &'p TestProject,
    root: PathBuf,
    files: Files,
    dice: Dice,
    edits: u64,
}

impl User<'_> {
    /// Does one thing. If a roll back has removed the folders, they are created again.
    fn act(&mut self) {
        let path = name(&mut self.dice, 'u');
        let file = self.root.join(&path);
        let text = format!("user {}\n", self.dice.roll(1_000_000));
        let known = self.files.get(&path).cloned();
        match (self.dice.roll(9), known) {
            (0 | 1, known) => {
                let (old, is_executable) = known.unwrap_or_default();
                let new = if old.is_empty() { text } else { old + &text };
                self.save(&file, &new, is_executable);
                self.files.insert(path, (new, is_executable));
            }
            // Many editors save like this: to a new file that is renamed.
            (2 | 3, _) => {
                let beside = file.with_extension("tmp");
                self.save(&beside, &text, false);
                while fs::rename(&beside, &file).is_err() {
                    self.save(&beside, &text, false);
                }
                self.files.insert(path, (text, false));
            }
            (4 | 5, Some(_)) => {
                fs::remove_file(&file).unwrap_or_else(|err| panic!("lost {path}: {err}"));
                self.files.remove(&path);
            }
            (6, Some(known)) => {
                let to = name(&mut self.dice, 'u');
                fs::create_dir_all(self.root.join(&to).parent().expect("a folder"))
                    .expect("a folder");
                if fs::rename(&file, self.root.join(&to)).is_ok() {
                    self.files.remove(&path);
                    self.files.insert(to, known);
                } else {
                    assert!(file.exists(), "lost {path}");
                }
            }
            (7, Some((text, is_executable))) => {
                let bits = if is_executable { 0o644 } else { 0o755 };
                let changed = fs::set_permissions(&file, fs::Permissions::from_mode(bits));
                changed.unwrap_or_else(|err| panic!("lost {path}: {err}"));
                self.files.insert(path, (text, !is_executable));
            }
            // git may fail because piton holds the lock, or because the file is ignored.
            (8, Some(_)) => drop(self.project.try_git(["add", &path])),
            _ => return,
        }
        self.edits += 1;
    }

    fn save(&self, file: &Path, text: &str, is_executable: bool) {
        let folder = file.parent().expect("a folder");
        // A roll back may remove the folder at this moment, so try again.
        while fs::create_dir_all(folder)
            .and_then(|()| fs::write(file, text))
            .is_err()
        {
            assert!(self.root.exists());
        }
        if is_executable {
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("bits");
        }
    }
}

/// The script of a step, and the expected state of its files afterwards.
fn step(dice: &mut Dice, before: &Files) -> (String, Files) {
    let mut files = before.clone();
    let mut script = String::from("set -e\n");
    for _ in 0..3 + dice.roll(8) {
        let path = name(dice, 's');
        let folder = Path::new(&path)
            .parent()
            .expect("a folder")
            .display()
            .to_string();
        let folder = if folder.is_empty() {
            ".".to_owned()
        } else {
            folder
        };
        let text = format!("step {}", dice.roll(1_000_000));
        let known = files.get(&path).cloned();
        match (dice.roll(6), known) {
            (0 | 1, known) => {
                let _ = writeln!(script, "mkdir -p {folder}; echo '{text}' >> {path}");
                let (old, is_executable) = known.unwrap_or_default();
                files.insert(path, (format!("{old}{text}\n"), is_executable));
            }
            (2, _) => {
                let _ = writeln!(
                    script,
                    "mkdir -p {folder}; echo '{text}' > {path}.x; mv -f {path}.x {path}"
                );
                files.insert(path, (format!("{text}\n"), false));
            }
            (3, Some(_)) => {
                let _ = writeln!(script, "rm {path}");
                files.remove(&path);
            }
            (4, Some((text, _))) => {
                let _ = writeln!(script, "chmod 755 {path}");
                files.insert(path, (text, true));
            }
            _ => {
                let _ = writeln!(script, "sleep 0.0{}", dice.roll(5));
            }
        }
    }
    (script, files)
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "`scripts/torture` shows how much was tried"
)]
fn a_user_who_works_beside_steps_loses_nothing_and_nothing_is_swept_into_commits() {
    let rounds = asked("PITON_TORTURE_ROUNDS").unwrap_or(12);
    let seed = asked("PITON_TORTURE_SEED").unwrap_or(20_261_117);
    let project = TestProject::new();
    project
        .bash("mkdir -p d/deep; for f in u0 u1 u2 s0 s1 d/u0 d/u3 d/s0 d/deep/u1 d/deep/s2; do echo start > $f; done");
    let project = project.committed();
    let root = project.root();
    let mut dice = Dice(seed);
    let (mut edits, mut commits) = (0, 0);
    for round in 0..rounds {
        let steps_before = on_disk(&root, 's');
        let (script, steps_after) = step(&mut dice, &steps_before);
        let exit = if dice.roll(2) == 0 { 0 } else { 3 };
        let start = project.git(["rev-parse", "HEAD"]);
        let mut user = User {
            project: &project,
            root: root.clone(),
            files: on_disk(&root, 'u'),
            dice: Dice(dice.roll(u64::MAX)),
            edits: 0,
        };
        let script = format!("{script}exit {exit}");
        let mut command = project.command(["exec", "--", "sh", "-c", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut piton = command.spawn().expect("piton starts");
        while piton.try_wait().expect("a child").is_none() {
            user.act();
            thread::sleep(Duration::from_micros(user.dice.roll(6_000)));
        }
        let ran = project.ran(piton.wait_with_output().expect("an end"));
        let told = format!("round {round} of seed {seed}: {script}\n{ran}");
        assert_eq!(ran.code(), Some(exit), "{told}");
        assert_eq!(on_disk(&root, 'u'), user.files, "the user's files, {told}");
        let expected = if exit == 0 {
            &steps_after
        } else {
            &steps_before
        };
        assert_eq!(
            on_disk(&root, 's'),
            *expected,
            "the files of the step, {told}"
        );
        let changed = project.git(["diff", "--name-only", start.trim(), "HEAD"]);
        let is_steps = |path: &str| {
            path.rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with('s'))
        };
        assert!(
            changed.lines().all(is_steps),
            "swept into the commit: {changed}, {told}"
        );
        assert!(exit == 0 || changed.is_empty(), "{told}");
        commits += u64::from(!changed.is_empty());
        edits += user.edits;
        if dice.roll(3) == 0 {
            project.bash("git add --all; git commit --quiet --allow-empty --message user");
        }
    }
    project.git(["fsck", "--full", "--strict"]);
    let verified = project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
    tally("rounds beside a user", rounds);
    tally("edits of that user", edits);
    println!("{rounds} rounds, {edits} edits of the user, {commits} commits: 0 swept, 0 lost");
}
