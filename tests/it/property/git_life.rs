//! Random piton operations between random git operations, with the real programs.
//!
//! After each piton operation: nothing of the user's has changed, nothing that was discarded comes
//! back, an undo is the exact inverse of the newest operation, and `piton verify` succeeds unless
//! the user altered the content of a checkpoint. A user operation that git refuses is skipped, so
//! every list is valid.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::cases;
use crate::harness::{Ran, TestProject};

/// The number of lines of every file; an edit replaces one of them, so that line numbers stay.
const LINES: usize = 9;
/// Two files that are committed at first, and two that do not exist.
const FILES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Operation {
    Piton(Piton),
    User(User),
}

#[derive(Clone, Debug)]
enum Piton {
    Exec(Edit, Mode),
    ExecFails(Edit),
    Checkpoint,
    CheckpointFile(&'static str),
    Undo,
    Redo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Auto,
    Explicit,
}

#[derive(Clone, Debug)]
enum User {
    Edit(Edit),
    Stage(&'static str),
    CommitStaged,
    CommitAll,
    Reword,
    AmendAll,
    Rebase,
    CherryPick,
    SquashTwo,
    Stash,
    Unstash,
    Discard(&'static str),
    NewBranch,
    Switch,
    Reset(&'static str),
}

/// An edit of one line of a file, or of the whole file.
#[derive(Clone, Debug)]
struct Edit {
    file: &'static str,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    Line(usize, char),
    Remove,
}

impl Edit {
    /// A shell line for the edit. A missing file is created first.
    fn command(&self) -> String {
        let file = self.file;
        match self.change {
            Change::Remove => format!("rm -f {file}"),
            Change::Line(number, letter) => {
                format!(
                    "[ -e {file} ] || seq {LINES} > {file}; sed -i '{}s/.*/{letter}/' {file}",
                    number + 1
                )
            }
        }
    }
}

/// Everything that is visible from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Picture {
    disk: BTreeMap<String, String>,
    staged: BTreeMap<String, String>,
    head: BTreeMap<String, String>,
    branch: String,
}

impl Picture {
    fn of(project: &TestProject) -> Self {
        let disk = project
            .files()
            .into_iter()
            .map(|path| (path.clone(), project.read(&path)))
            .collect();
        let entries = |text: String| -> BTreeMap<String, String> {
            text.lines()
                .filter_map(|line| line.split_once('\t'))
                .map(|(id, path)| (path.into(), id.into()))
                .collect()
        };
        let staged = entries(project.git(["ls-files", "--stage"]));
        let head = entries(project.git(["ls-tree", "-r", "HEAD"]));
        Self {
            disk,
            staged,
            head,
            branch: project.git(["symbolic-ref", "HEAD"]),
        }
    }

    /// The paths in which two maps differ.
    fn differing(
        one: &BTreeMap<String, String>,
        other: &BTreeMap<String, String>,
    ) -> BTreeSet<String> {
        let all: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        all.into_iter()
            .filter(|path| one.get(*path) != other.get(*path))
            .cloned()
            .collect()
    }
}

fn file() -> impl Strategy<Value = &'static str> {
    prop::sample::select(FILES.to_vec())
}

fn edit() -> impl Strategy<Value = Edit> {
    let change = prop_oneof![
        8 => (prop::sample::select(vec![0, 4, 8]), prop::char::range('p', 'z')).prop_map(|(line, letter)| Change::Line(line, letter)),
        1 => Just(Change::Remove),
    ];
    (file(), change).prop_map(|(file, change)| Edit { file, change })
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = || prop::sample::select(vec![Mode::Auto, Mode::Explicit]);
    let piton = prop_oneof![
        6 => (edit(), mode()).prop_map(|(edit, mode)| Piton::Exec(edit, mode)),
        1 => edit().prop_map(Piton::ExecFails),
        3 => Just(Piton::Checkpoint),
        2 => file().prop_map(Piton::CheckpointFile),
        4 => Just(Piton::Undo),
        2 => Just(Piton::Redo),
    ];
    let user = prop_oneof![
        6 => edit().prop_map(User::Edit),
        2 => file().prop_map(User::Stage),
        1 => Just(User::CommitStaged),
        2 => Just(User::CommitAll),
        2 => Just(User::Reword),
        1 => Just(User::AmendAll),
        2 => Just(User::Rebase),
        1 => Just(User::CherryPick),
        2 => Just(User::SquashTwo),
        1 => Just(User::Stash),
        1 => Just(User::Unstash),
        3 => file().prop_map(User::Discard),
        1 => Just(User::NewBranch),
        1 => Just(User::Switch),
        2 => prop::sample::select(vec!["--soft", "--mixed", "--hard"]).prop_map(User::Reset),
    ];
    prop_oneof![3 => piton.prop_map(Operation::Piton), 2 => user.prop_map(Operation::User)]
}

/// A project and its history.
struct Life {
    project: TestProject,
    /// Files that explicit steps changed.
    recorded: BTreeSet<String>,
    /// Whether the user dropped or altered a checkpoint, so that `verify` may fail.
    altered: bool,
    /// Whether the user reworded a commit, which may be a checkpoint that no trailer names any more.
    reworded: bool,
    /// The picture before the newest operation of piton that had an effect, if nothing happened since.
    before_newest: Option<Picture>,
    /// The picture before the undo, if that was the last operation.
    before_undo: Option<Picture>,
}

impl Life {
    fn new() -> Self {
        crate::crash::chance::tally("random histories", 1);
        let numbers: Vec<String> = (1..=LINES).map(|number| number.to_string()).collect();
        let lines = numbers.join("\n") + "\n";
        let project = TestProject::new()
            .file("a", &lines)
            .file("b", &lines)
            .file(".gitignore", "ignored\n")
            .committed();
        Self {
            project,
            recorded: BTreeSet::new(),
            altered: false,
            reworded: false,
            before_newest: None,
            before_undo: None,
        }
    }

    fn act(&mut self, operation: &Operation) -> TestCaseResult {
        match operation {
            Operation::User(user) => {
                let checkpoints = self.checkpoints();
                self.user(user);
                // These may remove content from the branches, or change the content of a
                // checkpoint.
                let may_alter = matches!(user, User::Reset(_) | User::AmendAll);
                self.altered |= may_alter && checkpoints != self.checkpoints();
                self.reworded |= matches!(user, User::Reword);
                self.before_newest = None;
                self.before_undo = None;
            }
            Operation::Piton(piton) => self.piton(piton)?,
        }
        let verified = self.project.piton(["verify"]);
        prop_assert!(
            self.altered || verified.code() == Some(0),
            "after {operation:?}: {verified}"
        );
        Ok(())
    }

    fn checkpoints(&self) -> String {
        let named = if self.reworded {
            ""
        } else {
            "--grep=^Piton-Run:"
        };
        self.project
            .bash(&format!("git log --all --format=%H {named}"))
    }

    fn bash(&self, commands: &str) -> bool {
        self.project
            .hermetic("bash", &self.project.root())
            .args(["-euc", commands])
            .output()
            .expect("bash")
            .status
            .success()
    }

    fn user(&self, user: &User) {
        let undo_half =
            "git rebase --abort || git cherry-pick --abort || git merge --abort || true";
        let commands = match user {
            User::Edit(edit) => edit.command(),
            User::Stage(file) => format!("git add -A -- {file}"),
            User::CommitStaged => "git commit -qm staged".to_owned(),
            User::CommitAll => "git add -A; git commit -qm all".to_owned(),
            User::Reword => "git commit -q --amend --only -m reworded".to_owned(),
            User::AmendAll => "git add -A; git commit -q --amend --no-edit".to_owned(),
            User::Rebase => "git rev-parse -q --verify HEAD~1; now=$(git symbolic-ref --short HEAD); \
                 base=$(git commit-tree -p HEAD~1 -m base \"$(git rev-parse 'HEAD~1^{tree}')\"); git rebase -q --onto $base HEAD~1 $now"
                .to_owned(),
            User::CherryPick => "git diff --quiet; git diff --cached --quiet; now=$(git symbolic-ref --short HEAD); tip=$(git rev-parse HEAD); \
                 git switch -qc picked-$RANDOM-$RANDOM HEAD~1; git cherry-pick $tip || { git cherry-pick --abort; }; git switch -q $now"
                .to_owned(),
            User::SquashTwo => "git diff --cached --quiet; git rev-parse -q --verify HEAD~2; \
                 git log -2 --format=%B > ../message; git reset -q --soft HEAD~2; git commit -q --allow-empty -F ../message"
                .to_owned(),
            User::Stash => "git stash push -q --include-untracked".to_owned(),
            User::Unstash => "git stash pop -q || { git checkout -q HEAD -- . ; git reset -q; }".to_owned(),
            User::Discard(file) => format!("git checkout -q -- {file} || rm -f {file}"),
            User::NewBranch => "git switch -qc side-$RANDOM-$RANDOM".to_owned(),
            User::Switch => "git switch -q main".to_owned(),
            User::Reset(how) => format!("git rev-parse -q --verify HEAD~1; git reset -q {how} HEAD~1"),
        };
        if !self.bash(&commands) {
            self.bash(undo_half);
        }
        assert!(
            !self.project.root().join(".git/rebase-merge").exists(),
            "{user:?}"
        );
    }

    fn piton(&mut self, piton: &Piton) -> TestCaseResult {
        let before = Picture::of(&self.project);
        let head = self.project.git(["rev-parse", "HEAD"]);
        let ran = self.run(piton);
        let after = Picture::of(&self.project);
        prop_assert!(matches!(ran.code(), Some(0 | 1 | 7)), "{piton:?}: {ran}");
        prop_assert_eq!(&before.branch, &after.branch);
        // A branch never moves backwards.
        let forward = self
            .project
            .try_git(["merge-base", "--is-ancestor", head.trim(), "HEAD"]);
        prop_assert_eq!(forward.code(), Some(0), "{:?}: {}", piton, ran);
        let on_disk = Picture::differing(&before.disk, &after.disk);
        let committed = Picture::differing(&before.head, &after.head);
        let staged = Picture::differing(&before.staged, &after.staged);
        let own = |paths: &BTreeSet<String>, file: &str| paths.iter().all(|path| path == file);
        match piton {
            Piton::Exec(edit, mode) => {
                let all = [&on_disk, &committed, &staged];
                prop_assert!(
                    all.iter().all(|paths| own(paths, edit.file)),
                    "{piton:?}: {all:?} {ran}"
                );
                if *mode == Mode::Explicit {
                    prop_assert!(
                        committed.is_empty() && staged.is_empty(),
                        "{piton:?}: {ran}"
                    );
                    self.recorded.insert(edit.file.to_owned());
                } else if ran.code() == Some(0) {
                    prop_assert_eq!(
                        &on_disk.is_empty(),
                        &committed.is_empty(),
                        "{:?}: {}",
                        piton,
                        ran
                    );
                }
                if ran.code() != Some(0) {
                    self.recorded.insert(edit.file.to_owned());
                }
            }
            Piton::ExecFails(_) => prop_assert_eq!(&before, &after, "{:?}: {}", piton, ran),
            Piton::Checkpoint => {
                prop_assert_eq!(&before.disk, &after.disk, "{:?}: {}", piton, ran);
                prop_assert!(
                    committed.is_subset(&self.recorded),
                    "{piton:?} {committed:?}: {ran}"
                );
                prop_assert!(staged.is_subset(&committed), "{piton:?} {staged:?}: {ran}");
                self.only_from_disk_and_head(&before, &committed, &head, &ran)?;
            }
            Piton::CheckpointFile(file) => {
                prop_assert_eq!(&before.disk, &after.disk, "{:?}: {}", piton, ran);
                prop_assert!(
                    own(&committed, file) && own(&staged, file),
                    "{piton:?}: {ran}"
                );
            }
            Piton::Undo => self.undo(&after, &ran)?,
            Piton::Redo => self.redo(&before, &after, &ran)?,
        }
        let changed = before != after;
        if ran.code() != Some(0) && !matches!(piton, Piton::Exec(..)) {
            prop_assert_eq!(
                &before,
                &after,
                "{:?} failed and changed something: {}",
                piton,
                ran
            );
        }
        self.before_undo = (matches!(piton, Piton::Undo) && changed).then(|| before.clone());
        let is_work = matches!(
            piton,
            Piton::Exec(..) | Piton::Checkpoint | Piton::CheckpointFile(_)
        );
        if changed {
            self.before_newest = (is_work && ran.code() == Some(0)).then_some(before);
        } else if is_work {
            // Undo does not count a step without an effect.
            self.before_undo = None;
        }
        Ok(())
    }

    fn run(&self, piton: &Piton) -> Ran {
        let project = &self.project;
        match piton {
            Piton::Exec(edit, Mode::Auto) => {
                project.piton(["exec", "--", "bash", "-c", &edit.command()])
            }
            Piton::Exec(edit, Mode::Explicit) => project.piton([
                "exec",
                "--checkpoint",
                "explicit",
                "--",
                "bash",
                "-c",
                &edit.command(),
            ]),
            Piton::ExecFails(edit) => project.piton([
                "exec",
                "--",
                "bash",
                "-c",
                &format!("{}; exit 7", edit.command()),
            ]),
            Piton::Checkpoint => project.piton(["checkpoint"]),
            Piton::CheckpointFile(file) if !project.root().join(file).exists() => {
                project.piton(["status"])
            }
            Piton::CheckpointFile(file) => project.piton(["checkpoint", file]),
            Piton::Undo => project.piton(["undo"]),
            Piton::Redo => project.piton(["redo"]),
        }
    }

    /// Each line of a commit was in the branch or is on disk: discarded changes do not come back.
    fn only_from_disk_and_head(
        &self,
        before: &Picture,
        committed: &BTreeSet<String>,
        head: &str,
        ran: &Ran,
    ) -> TestCaseResult {
        let lines = |text: Option<String>| -> Option<Vec<String>> {
            text.map(|text| text.lines().map(str::to_owned).collect())
        };
        let at = |commit: &str, path: &str| {
            let shown = self.project.try_git(["show", &format!("{commit}:{path}")]);
            lines((shown.code() == Some(0)).then(|| shown.stdout()))
        };
        for path in committed {
            let (new, old) = (at("HEAD", path), at(head.trim(), path));
            let disk = lines(before.disk.get(path).cloned());
            match &new {
                None => prop_assert!(
                    disk.is_none(),
                    "{path} was removed by the commit and is on disk: {ran}"
                ),
                Some(new) => {
                    for (number, line) in new.iter().enumerate() {
                        let has = |there: &Option<Vec<String>>| {
                            there
                                .as_ref()
                                .is_some_and(|it| it.get(number) == Some(line))
                        };
                        prop_assert!(
                            has(&old) || has(&disk),
                            "{path}:{} {line}: neither in HEAD nor on disk: {ran}",
                            number + 1
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn undo(&self, after: &Picture, ran: &Ran) -> TestCaseResult {
        if let Some(earlier) = &self.before_newest {
            prop_assert_eq!(
                ran.code(),
                Some(0),
                "the newest operation cannot be undone: {}",
                ran
            );
            prop_assert_eq!(earlier, after, "undo is not the inverse: {}", ran);
        }
        Ok(())
    }

    fn redo(&self, before: &Picture, after: &Picture, ran: &Ran) -> TestCaseResult {
        match &self.before_undo {
            Some(earlier) => {
                prop_assert_eq!(
                    ran.code(),
                    Some(0),
                    "the newest undo cannot be redone: {}",
                    ran
                );
                prop_assert_eq!(earlier, after, "redo is not the inverse of undo: {}", ran);
            }
            None => prop_assert!(
                ran.code() != Some(0) || before == after || self.before_newest.is_none(),
                "redo over new work: {ran}"
            ),
        }
        Ok(())
    }

    /// What must hold at the end.
    fn end(&self) -> TestCaseResult {
        self.project.git(["fsck", "--full", "--strict"]);
        let refs = self.project.git(["for-each-ref", "--format=%(refname)"]);
        let is_known = |name: &&str| {
            name.starts_with("refs/heads/")
                || *name == "refs/stash"
                || (name.starts_with("refs/piton/runs/") && name.ends_with("/log"))
        };
        let strange: Vec<&str> = refs.lines().filter(|name| !is_known(name)).collect();
        prop_assert!(strange.is_empty(), "{strange:?}");
        Ok(())
    }
}

#[test]
fn a_reworded_checkpoint_that_a_reset_drops_is_reported() {
    let mut life = Life::new();
    let edit = Edit {
        file: "a",
        change: Change::Line(0, 'p'),
    };
    for operation in [
        Operation::Piton(Piton::Exec(edit, Mode::Auto)),
        Operation::User(User::Reword),
        Operation::User(User::Reset("--soft")),
    ] {
        life.act(&operation).expect("the model holds");
    }
    let verified = life.project.piton(["verify"]);
    assert_eq!(verified.code(), Some(1), "{verified}");
    assert!(verified.stdout().contains("[REWRITTEN]"), "{verified}");
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn everyday_git_beside_piton(operations in vec(operation(), 1..14)) {
        let mut life = Life::new();
        for operation in &operations {
            life.act(operation)?;
        }
        life.end()?;
    }
}
