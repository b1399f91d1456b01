//! The life of a repository with piton, and with git alone beside it: git is the judge.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Ran, TestProject};
use crate::worktree::linked;

/// Two repositories that the same script made: piton works in one, git alone in the other.
pub(super) struct Twins {
    pub(super) piton: TestProject,
    pub(super) git: TestProject,
}

impl Twins {
    /// Makes both by a script, which ends with a commit and nothing uncommitted.
    pub(super) fn of(script: &str) -> Self {
        let make = || {
            let project = TestProject::without_git();
            project.bash(script);
            project
        };
        Self { piton: make(), git: make() }
    }

    /// Does the same in both: as a step of piton, and followed by `git add -A && git commit`.
    #[track_caller]
    pub(super) fn step(&self, script: &str) -> Ran {
        let ran = self.piton.piton(["exec", "--", "sh", "-ec", script]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        // Git refuses paths outside of a sparse checkout, and adds the others.
        self.git.bash(&format!("({script}); git add -A || true; git commit -qm step || true"));
        self.assert_same();
        ran
    }

    /// What git says about both is the same.
    #[track_caller]
    pub(super) fn assert_same(&self) {
        assert_eq!(said(&self.piton), said(&self.git));
        self.piton.git(["fsck", "--strict"]);
    }
}

/// What git says about a repository.
pub(super) fn said(project: &TestProject) -> String {
    project.bash(
        "git rev-parse --symbolic-full-name HEAD; git rev-parse HEAD^{tree}; git ls-files -s -v; \
         git status --porcelain; find . -path ./.git -prune -o -type f -printf '%P\\n' | sort",
    )
}

#[track_caller]
pub(super) fn piton(project: &TestProject, arguments: &[&str]) -> Ran {
    let ran = project.piton(arguments);
    assert_eq!(ran.code(), Some(0), "{arguments:?}: {ran}");
    ran
}

/// Everything that people do with piton, in a repository with a tracked file `in/a.txt`.
pub(super) fn live(script: &str) {
    let twins = Twins::of(script);
    let project = &twins.piton;
    let start = said(project);
    // Commits, as git makes them.
    twins.step("echo more >> in/a.txt; echo new > in/new.txt; mkdir in/sub; echo deep > in/sub/deep.txt");
    let changed = said(project);
    twins.step("rm in/new.txt; chmod +x in/a.txt; ln -s a.txt in/link");
    // A step that fails is put back.
    let before = said(project);
    let failed = project.piton(["exec", "--", "sh", "-c", "echo x > in/a.txt; rm -r in/sub; echo y > in/y; exit 1"]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert_eq!(said(project), before, "after a roll back");
    // Undo and redo.
    piton(project, &["undo"]);
    assert_eq!(said(project), changed, "after an undo");
    piton(project, &["undo"]);
    assert_eq!(said(project), start, "after two");
    piton(project, &["redo"]);
    piton(project, &["redo"]);
    assert_eq!(said(project), before, "after redoing both");
    // What the user has staged and not committed stays beside a step.
    project.bash("echo staged > in/staged.txt; git add in/staged.txt; echo untracked > in/untracked.txt");
    piton(project, &["exec", "--", "sh", "-c", "echo beside >> in/sub/deep.txt"]);
    assert_eq!(project.git(["status", "--porcelain"]), "A  in/staged.txt\n?? in/untracked.txt\n");
    assert_eq!(project.git(["show", "--format=", "--name-only", "HEAD"]), "in/sub/deep.txt\n");
    piton(project, &["checkpoint", "--all", "-m", "mine"]);
    project.assert_clean();
    // The blunt roll back.
    piton(project, &["rollback", "--hard", "HEAD~1", "--yes"]);
    project.assert_clean();
    for command in ["status", "log", "verify", "recover"] {
        piton(project, &[command]);
    }
    be_killed(project);
    // A worktree of its own, which comes home.
    let folder = linked(project, 1);
    exec_in(project, &folder, "echo linked >> in/sub/deep.txt");
    let run = exec_in(project, &folder, "echo more >> in/sub/deep.txt; echo linked > in/linked.txt");
    for command in ["undo", "redo"] {
        piton(project, &["-C", &folder.to_string_lossy(), command]);
    }
    piton(project, &["finish", &run, "--keep"]);
    assert!(project.read("in/sub/deep.txt").ends_with("linked\nmore\n"));
    project.assert_clean();
    // Git goes on by itself.
    project.bash("echo by hand >> in/sub/deep.txt; git commit -qam 'by hand'; git gc -q; git status");
    piton(project, &["exec", "--", "sh", "-c", "echo again >> in/sub/deep.txt"]);
    project.assert_clean();
    piton(project, &["verify"]);
}

/// Runs a script as a step in a folder; returns the name of the run.
pub(crate) fn exec_in(project: &TestProject, folder: &Path, script: &str) -> String {
    let folder = folder.to_string_lossy();
    let ran = piton(project, &["-C", &folder, "--format", "json", "exec", "--", "sh", "-c", script]);
    let last: Value = serde_json::from_str(ran.stdout().lines().last().expect("a line")).expect("JSON");
    last["run_id"].as_str().expect("a name").to_owned()
}

/// Killed anywhere, a step happened or did not.
fn be_killed(project: &TestProject) {
    let places = [
        "before-taken",
        "tool-announced",
        "after-taken",
        "commit-published",
        "commit-prepared",
        "commit-decided",
        "commit-ref-moved",
        "index-replaced",
    ];
    for (number, place) in places.iter().enumerate() {
        let before = said(project);
        let head = project.git(["rev-parse", "HEAD"]);
        let step = format!("echo {number} > in/killed.txt");
        let mut command = project.command(["exec", "--", "sh", "-c", &step]);
        let output = command.env("PITON_FAILPOINT", place).output().expect("piton starts");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(9), "{place}");
        let recovered = project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{place}: {recovered}");
        if project.git(["rev-parse", "HEAD"]) == head {
            project.bash("rm -f in/killed.txt; git checkout -q -- in; git status");
            assert_eq!(said(project), before, "{place}: {recovered}");
        } else {
            assert_eq!(project.git(["show", "HEAD:in/killed.txt"]), format!("{number}\n"), "{place}");
        }
        project.assert_clean();
        assert_eq!(project.bash("find .git -name '*.lock'"), "", "{place}");
    }
}
