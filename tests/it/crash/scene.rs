//! A repository with a user's work in progress, and everything that can be compared about it.
//!
//! [`Scene`] is the repository, [`Picture`] is what a user sees of it. After a crash and a recovery
//! the picture must be one of two: nothing happened, or everything did.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use crate::harness::TestProject;

/// The step: edits, creates, deletes, replaces, and changes a line in a file that is partly staged.
pub(crate) const WORK: &str = "sed -i 's/^five/FIVE/' partly.txt dos.txt; echo new line >> edited.txt; mkdir -p new/deep; \
     echo fresh > new/deep/n.txt; rm gone.txt; chmod +x clean.txt; rm folder/inner.txt; rmdir folder; echo file > folder; \
     ln -sfn edited.txt link; mkdir hollow; rmdir void; chmod 600 private.txt; git add edited.txt";

/// A dirty repository: modified, staged, partly staged, announced, untracked, deleted, ignored.
pub(crate) struct Scene {
    pub(crate) project: TestProject,
}

/// The files, what git reports about them, and a file outside. Without saved outputs, whose names
/// contain the time.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    files: BTreeMap<String, String>,
    git: String,
}

/// Which parts of a picture are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    Nothing,
    /// Times, such as that of a stamp, and the hashes that depend on them.
    Times,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let broken = format!("{WORK}; exit 3");
        let project =
            TestProject::new().tool("work", "mutates_state: true\nisolation: trusted", WORK);
        Self::of(project.tool("broken", "mutates_state: true\nisolation: trusted", &broken))
    }

    /// Like [`Self::new`], with other items.
    pub(crate) fn of(project: TestProject) -> Self {
        let numbers = "one\\ntwo\\nthree\\nfour\\nfive\\nsix\\nseven\\neight\\nnine\\nten\\n";
        project.bash(&format!(
            "printf '*.log\\n' > .gitignore; printf 'dos.txt text\\n' > .gitattributes; printf '{numbers}' > partly.txt; mkdir folder
             for name in clean edited gone mine removed unstaged private folder/inner; do echo $name > $name.txt; done
             sed 's/$/\\r/' partly.txt > dos.txt; ln -s clean.txt link; git add --all; git commit -qm start
             sed -i 's/^one/ONE/' partly.txt dos.txt; git add partly.txt dos.txt
             sed -i 's/^ten/TEN/' partly.txt dos.txt
             echo staged > staged.txt; git add staged.txt; echo more >> staged.txt
             echo mine >> mine.txt; rm removed.txt; git rm -q --cached unstaged.txt
             echo announced > announced.txt; git add -N announced.txt
             echo untracked > $'odd\\nname'; chmod 640 $'odd\\nname'; echo secret > x.log; mkdir void
             echo outside > ../home/outside.txt; ln -s ../home outside; chmod 640 mine.txt"
        ));
        Self { project }
    }

    /// Saves a copy of the project.
    pub(crate) fn save(&self) {
        self.project.save();
    }

    /// Restores the saved copy.
    pub(crate) fn reset(&self) {
        self.project.reset();
        self.project.bash("echo outside > ../home/outside.txt");
        // The copies have new inode change times, so the heartbeat of the lock must be renewed too.
        self.project
            .bash("if [ -e .git/piton/lock ]; then touch .git/piton/lock; fi");
    }

    /// What a user sees.
    pub(crate) fn picture(&self) -> Picture {
        let root = self.project.root();
        let mut files = BTreeMap::new();
        let walk = walkdir::WalkDir::new(&root).min_depth(1).into_iter();
        for entry in walk
            .filter_entry(|entry| {
                entry.file_name() != ".git" && !entry.path().ends_with(".ai/outputs")
            })
            .map(|entry| entry.expect("an entry"))
        {
            let name = entry
                .path()
                .strip_prefix(&root)
                .expect("below")
                .to_string_lossy()
                .into_owned();
            let mode = fs::symlink_metadata(entry.path())
                .expect("metadata")
                .permissions()
                .mode();
            let content = match entry.file_type() {
                kind if kind.is_dir() => format!("{mode:o} folder"),
                kind if kind.is_symlink() => {
                    let target = fs::read_link(entry.path()).expect("a link");
                    format!("link to {}", target.as_os_str().as_bytes().escape_ascii())
                }
                _ => format!(
                    "{mode:o} {}",
                    fs::read(entry.path()).expect("a file").escape_ascii()
                ),
            };
            files.insert(name, content);
        }
        let outside =
            fs::read_to_string(self.project.home().join("outside.txt")).expect("a file outside");
        files.insert("(outside)".to_owned(), outside);
        Picture {
            files,
            git: self.ask_git(),
        }
    }

    fn ask_git(&self) -> String {
        // Stamps contain the time. Together with the files, these commands report everything that
        // `git diff` and `git diff --cached` would. The length of a run's short name depends on the
        // ids of other runs.
        const QUESTIONS: &str = "cat .git/HEAD; git log --format='%T %s' | sed '/by .stamp.$/s/^[0-9a-f]* //; s/ merge run [0-9a-z]* / merge run RUN /'; git ls-files --stage; git status --porcelain=v2";
        let answers = self.project.root().with_file_name("tmp").join("answers");
        self.project
            .bash(&format!("({QUESTIONS}) > '{}'", answers.display()));
        fs::read_to_string(&answers).expect("the answers of git")
    }

    /// The refs and journals, which a recovery could change without a visible effect.
    pub(crate) fn hidden(&self) -> String {
        let refs = self.project.git(["for-each-ref"]);
        let runs = self.project.root().join(".git/piton/runs");
        let mut journals: Vec<(String, Vec<u8>)> = walkdir::WalkDir::new(runs)
            .into_iter()
            .filter_map(|entry| entry.ok().filter(|entry| entry.file_type().is_file()))
            .map(|entry| {
                (
                    entry.path().display().to_string(),
                    fs::read(entry.path()).expect("a journal"),
                )
            })
            .collect();
        journals.sort();
        journals.iter().fold(refs, |text, (name, bytes)| {
            format!("{text}{name}\n{}", String::from_utf8_lossy(bytes))
        })
    }

    /// Runs piton with an armed failpoint.
    pub(crate) fn armed(&self, arguments: &[&str], place: &str) -> Output {
        self.project
            .command(arguments)
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts")
    }

    /// Checks what must hold whenever piton is not running: no locks, all objects and journals
    /// intact, and nothing to do for a second recovery.
    pub(crate) fn assert_sound(&self, told: &str, picture: &Picture) {
        self.assert_sound_except(told, picture, Mask::Nothing);
    }

    /// Like [`Self::assert_sound`], compared with a masked picture.
    pub(crate) fn assert_sound_except(&self, told: &str, picture: &Picture, mask: Mask) {
        let left = self.project.root().join(".git");
        let locks: Vec<String> = walkdir::WalkDir::new(&left)
            .into_iter()
            .map(|entry| entry.expect("an entry").into_path())
            .filter(|path| {
                // This file always exists: processes take an `flock` on it.
                let is_lock = path.extension().is_some_and(|end| end == "lock")
                    && !path.ends_with("piton/worktrees.lock");
                is_lock
                    || path.ends_with("index-lock")
                    || path.display().to_string().contains(".piton-tmp-")
            })
            .map(|path| path.display().to_string())
            .collect();
        assert!(locks.is_empty(), "{told}: left behind {locks:?}");
        assert_eq!(
            fs::metadata(left.join("piton/lock"))
                .expect("the lock")
                .len(),
            0,
            "{told}: the lock still names a holder"
        );
        let own = [
            self.project.root().join(".ai/outputs"),
            self.project.root().with_file_name("tmp"),
        ];
        for file in own.iter().flat_map(walkdir::WalkDir::new).flatten() {
            let name = file.file_name().to_string_lossy();
            let is_left = name.starts_with(".unfinished") || name.starts_with("piton-home-");
            assert!(!is_left, "{told}: left behind {}", file.path().display());
            if name.starts_with("output_") {
                let saved = fs::read_to_string(file.path()).expect("an output");
                assert!(
                    serde_json::from_str::<serde_json::Value>(&saved).is_ok(),
                    "{told}: half an output: {saved}"
                );
            }
        }
        self.project.git(["fsck", "--full", "--strict"]);
        self.project.bash(
            "if [ -d .git/piton/store/objects ]; then
               GIT_OBJECT_DIRECTORY=$PWD/.git/piton/store/objects git cat-file --batch-all-objects --batch > ../tmp/stored
             fi",
        );
        let runs = left.join("piton/runs");
        for run in piton::journal::list(&runs).expect("a list of runs") {
            let path = piton::journal::path_of(&runs, run);
            let contents = match piton::journal::read(&path) {
                Err(_) if !path.exists() => continue,
                read => read.unwrap_or_else(|err| panic!("{told}: {err}")),
            };
            assert_eq!(contents.torn, None, "{told}: a torn line stayed");
            piton::journal::verify(&contents.records, run)
                .unwrap_or_else(|found| panic!("{told}: {found:?}"));
        }
        let hidden = self.hidden();
        let again = self.project.piton(["recover"]);
        assert!(
            again.stderr().contains("there is no interrupted run"),
            "{told}: the second recovery did something:\n{again}"
        );
        assert_eq!(
            &self.picture().masked(mask),
            picture,
            "{told}: the second recovery changed something"
        );
        assert_eq!(
            self.hidden(),
            hidden,
            "{told}: the second recovery changed something"
        );
    }

    /// Checks that the user can continue to work.
    pub(crate) fn assert_usable(&self) {
        self.project
            .bash("echo probe > probe.txt; git add probe.txt; git commit -qm probe -- probe.txt");
    }
}

impl Picture {
    /// Masks what is not compared.
    pub(crate) fn masked(mut self, mask: Mask) -> Self {
        if mask == Mask::Times {
            let pattern = r"\d{4}-\d\d-\d\dT[0-9:.]+Z|\b[0-9a-f]{64}\b|\b[0-9a-f]{40}\b";
            let pattern = regex::Regex::new(pattern).expect("a pattern");
            let mask = |text: &str| pattern.replace_all(text, "[MASKED]").into_owned();
            self.files
                .values_mut()
                .for_each(|content| *content = mask(content));
            self.git = mask(&self.git);
        }
        self
    }

    /// What differs from the picture that was expected.
    pub(crate) fn difference(&self, expected: &Self) -> String {
        let mut text = String::new();
        let names: std::collections::BTreeSet<&String> =
            self.files.keys().chain(expected.files.keys()).collect();
        for name in names {
            let (found, wanted) = (self.files.get(name), expected.files.get(name));
            if found != wanted {
                let _ = writeln!(text, "  {name:?}: expected {wanted:?}, found {found:?}");
            }
        }
        if self.git != expected.git {
            let _ = writeln!(
                text,
                "  git: expected\n{}\n  found\n{}",
                expected.git, self.git
            );
        }
        text
    }
}

/// Whether a process was killed by a failpoint.
pub(crate) fn was_killed(output: &Output) -> bool {
    output.status.signal() == Some(9)
}

impl fmt::Debug for Picture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, content) in &self.files {
            writeln!(formatter, "{name:?}: {content}")?;
        }
        formatter.write_str(&self.git)
    }
}
