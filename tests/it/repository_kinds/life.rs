//! The same work with piton and with git alone in a copy, compared.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Ran, TestProject};
use crate::linked_worktree::linked;

/// Two repositories from the same script: one for piton, one for git alone.
pub(super) struct Twins {
    pub(super) piton: TestProject,
    pub(super) git: TestProject,
}

impl Twins {
    /// Creates both with a script, which ends with a commit and a clean tree.
    pub(super) fn of(script: &str) -> Self {
        let make = || {
            let project = TestProject::without_git();
            project.bash(script);
            project
        };
        Self {
            piton: make(),
            git: make(),
        }
    }

    /// Does the same in both: as a piton step, and followed by `git add -A && git commit`.
    #[track_caller]
    pub(super) fn step(&self, script: &str) -> Ran {
        let ran = self.piton.piton(["exec", "--", "sh", "-ec", script]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        // Git refuses paths outside of a sparse checkout, and adds the others.
        self.git.bash(&format!(
            "({script}); git add -A || true; git commit -qm step || true"
        ));
        self.assert_same();
        ran
    }

    /// Checks that git reports the same about both.
    #[track_caller]
    pub(super) fn assert_same(&self) {
        assert_eq!(said(&self.piton), said(&self.git));
        self.piton.git(["fsck", "--strict"]);
    }
}

/// What git reports about a repository.
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

/// All piton operations, in a repository with a tracked file `in/a.txt`.
pub(super) fn live(script: &str) {
    let twins = Twins::of(script);
    let project = &twins.piton;
    let start = said(project);
    // Commits are the same as git's.
    twins.step(
        "echo more >> in/a.txt; echo new > in/new.txt; mkdir in/sub; echo deep > in/sub/deep.txt",
    );
    let changed = said(project);
    twins.step("rm in/new.txt; chmod +x in/a.txt; ln -s a.txt in/link");
    // A failing step is rolled back.
    let before = said(project);
    let failed = project.exec("echo x > in/a.txt; rm -r in/sub; echo y > in/y; exit 1");
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert_eq!(said(project), before, "after a roll back");
    piton(project, &["undo"]);
    assert_eq!(said(project), changed, "after an undo");
    piton(project, &["undo"]);
    assert_eq!(said(project), start, "after two");
    piton(project, &["redo"]);
    piton(project, &["redo"]);
    assert_eq!(said(project), before, "after redoing both");
    // The user's staged and uncommitted changes stay beside a step.
    project.bash(
        "echo staged > in/staged.txt; git add in/staged.txt; echo untracked > in/untracked.txt",
    );
    piton(
        project,
        &["exec", "--", "sh", "-c", "echo beside >> in/sub/deep.txt"],
    );
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "A  in/staged.txt\n?? in/untracked.txt\n"
    );
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "in/sub/deep.txt\n"
    );
    piton(project, &["checkpoint", "--all", "-m", "mine"]);
    project.assert_clean();
    // A hard roll back.
    piton(project, &["rollback", "--hard", "HEAD~1", "--yes"]);
    project.assert_clean();
    for command in ["status", "log", "verify", "recover"] {
        piton(project, &[command]);
    }
    be_killed(project);
    // A run in its own worktree, which is finished.
    let folder = linked(project, 1);
    exec_in(project, &folder, "echo linked >> in/sub/deep.txt");
    let run = exec_in(
        project,
        &folder,
        "echo more >> in/sub/deep.txt; echo linked > in/linked.txt",
    );
    for command in ["undo", "redo"] {
        piton(project, &["-C", &folder.to_string_lossy(), command]);
    }
    piton(project, &["finish", &run, "--keep"]);
    assert!(project.read("in/sub/deep.txt").ends_with("linked\nmore\n"));
    project.assert_clean();
    // Git still works afterwards.
    project
        .bash("echo by hand >> in/sub/deep.txt; git commit -qam 'by hand'; git gc -q; git status");
    piton(
        project,
        &["exec", "--", "sh", "-c", "echo again >> in/sub/deep.txt"],
    );
    project.assert_clean();
    piton(project, &["verify"]);
}

/// Runs a script as a step in a folder; returns the name of the run.
pub(crate) fn exec_in(project: &TestProject, folder: &Path, script: &str) -> String {
    let folder = folder.to_string_lossy();
    let ran = piton(
        project,
        &[
            "-C", &folder, "--format", "json", "exec", "--", "sh", "-c", script,
        ],
    );
    let last: Value =
        serde_json::from_str(ran.stdout().lines().last().expect("a line")).expect("JSON");
    last["run_id"].as_str().expect("a name").to_owned()
}

/// Kills piton at several failpoints: each step happened completely or not at all.
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
        let output = command
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&output.status),
            Some(9),
            "{place}"
        );
        let recovered = project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{place}: {recovered}");
        if project.git(["rev-parse", "HEAD"]) == head {
            project.bash("rm -f in/killed.txt; git checkout -q -- in; git status");
            assert_eq!(said(project), before, "{place}: {recovered}");
        } else {
            assert_eq!(
                project.git(["show", "HEAD:in/killed.txt"]),
                format!("{number}\n"),
                "{place}"
            );
        }
        project.assert_clean();
        assert_eq!(project.bash("find .git -name '*.lock'"), "", "{place}");
    }
}
