//! `piton finish`: integrates runs from their own worktrees without losing changes.

#[path = "finish/crash.rs"]
mod crash;
#[path = "finish/home.rs"]
mod home;
#[path = "finish/refusal.rs"]
mod refusal;

use std::path::Path;
use std::process::Stdio;

use crate::harness::{Ran, TestProject, cmd_snapshot};
use crate::linked_worktree::linked;

/// Ten lines, so that both ends can change without a conflict.
const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

fn project() -> TestProject {
    TestProject::new()
        .file("a.txt", LINES)
        .file("b.txt", "b\n")
        .file("c.txt", "c\n")
        .committed()
}

/// Runs a script as one step in a folder; returns the run id.
fn exec(project: &TestProject, folder: &Path, name: &str, script: &str) -> String {
    let folder = folder.to_string_lossy();
    let ran = project.piton([
        "-C", &folder, "--format", "json", "exec", "--name", name, "--", "sh", "-c", script,
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    ran.last_json()["run_id"]
        .as_str()
        .expect("a name")
        .to_owned()
}

fn finish(project: &TestProject, run: &str, how: &str) -> Ran {
    project.piton(["finish", run, how])
}

fn finished(project: &TestProject, run: &str, how: &str) {
    let ran = finish(project, run, how);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_sound(project);
}

/// Checks what must hold after every finish.
fn assert_sound(project: &TestProject) {
    project.git(["fsck", "--full", "--strict"]);
    let verified = project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
}

fn count(project: &TestProject, range: &str) -> String {
    project
        .git(["rev-list", "--count", range])
        .trim()
        .to_owned()
}

fn branches(project: &TestProject) -> String {
    project.git(["for-each-ref", "--format=%(refname)", "refs/heads"])
}

/// Everything of a repository that a refused finish must not touch.
fn everything(project: &TestProject) -> String {
    project.bash(
        "git for-each-ref; git worktree list; cat .git/HEAD; sha256sum .git/index
         GIT_OPTIONAL_LOCKS=0 git status --porcelain=v2
         find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum",
    )
}

#[test]
fn keep_moves_the_branch_on_and_clears_the_worktree_away() {
    let project = project();
    let side = linked(&project, 1);
    exec(&project, &side, "first", "echo 1 >> b.txt; echo x > x.log");
    let run = exec(
        &project,
        &side,
        "second",
        "echo 2 >> b.txt; mkdir new; echo n > new/n.txt",
    );
    let tip = project.git(["-C", &side.to_string_lossy(), "rev-parse", "HEAD"]);
    finished(&project, &run, "--keep");
    assert_eq!(project.git(["rev-parse", "HEAD"]), tip);
    assert_eq!(
        (
            project.read("b.txt").as_str(),
            project.read("new/n.txt").as_str()
        ),
        ("b\n1\n2\n", "n\n")
    );
    assert_eq!(branches(&project), "refs/heads/main\n");
    assert!(!side.exists(), "the worktree is still there");
    project.assert_clean();
}

#[test]
fn two_concurrent_runs_are_merged_one_after_the_other() {
    for how in ["--keep", "--squash"] {
        let project = project();
        let sides = [linked(&project, 1), linked(&project, 2)];
        let one = exec(
            &project,
            &sides[0],
            "one",
            "sed -i s/^one/ONE/ a.txt; echo one > one.txt",
        );
        exec(&project, &sides[1], "two", "sed -i s/^ten/TEN/ a.txt");
        let two = exec(
            &project,
            &sides[1],
            "three",
            "echo two > two.txt; git rm -q c.txt",
        );
        finished(&project, &one, "--keep");
        finished(&project, &two, how);
        let text = project.read("a.txt");
        assert!(
            text.starts_with("ONE\n") && text.ends_with("TEN\n"),
            "{text}"
        );
        assert_eq!(project.files(), ["a.txt", "b.txt", "one.txt", "two.txt"]);
        let parents = project
            .git(["log", "-1", "--format=%P"])
            .split_whitespace()
            .count();
        assert_eq!(parents, if how == "--keep" { 2 } else { 1 });
        assert_eq!(branches(&project), "refs/heads/main\n");
        assert_eq!(project.git(["worktree", "list"]).lines().count(), 1);
        project.assert_clean();
        let subject = project.git(["log", "-1", "--format=%s"]);
        assert_eq!(
            subject.starts_with("merge run 0"),
            how == "--keep",
            "{subject}"
        );
        let trailers = project.bash("git log -1 --format=%B | git interpret-trailers --parse");
        assert_eq!(trailers.lines().count(), 3, "{trailers}");
    }
}

#[test]
fn runs_in_two_worktrees_do_not_wait_for_each_other() {
    let project = project();
    let sides = [linked(&project, 1), linked(&project, 2)];
    let start = |at: usize| {
        // Each run ends only when the other has begun.
        let (own, other) = (at, 1 - at);
        let script = format!(
            "echo > $TMPDIR/begun{own}; while [ ! -e $TMPDIR/begun{other} ]; do sleep 0.01; done; echo > f{own}.txt"
        );
        let folder = sides[at].to_string_lossy().into_owned();
        let mut command = project.command([
            "-C", &folder, "--format", "json", "exec", "--", "sh", "-c", &script,
        ]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("piton starts")
    };
    let running = [start(0), start(1)];
    let runs = running.map(|child| {
        let ran = project.ran(child.wait_with_output().expect("piton ends"));
        assert_eq!(ran.code(), Some(0), "{ran}");
        ran.last_json()["run_id"]
            .as_str()
            .expect("a name")
            .to_owned()
    });
    for run in &runs {
        finished(&project, run, "--keep");
    }
    assert_eq!(
        project.files(),
        ["a.txt", "b.txt", "c.txt", "f0.txt", "f1.txt"]
    );
    project.assert_clean();
}

#[test]
fn squashed_steps_are_kept() {
    let project = project();
    let side = linked(&project, 1);
    exec(&project, &side, "first", "echo 1 >> b.txt");
    let run = exec(&project, &side, "second", "echo 2 >> b.txt");
    let tip = project.git(["-C", &side.to_string_lossy(), "rev-parse", "HEAD"]);
    finished(&project, &run, "--squash");
    assert_eq!(count(&project, "HEAD"), "2");
    assert_eq!(
        project.read(&format!(".git/piton/store/kept/{run}/steps")),
        tip
    );
    project.bash("git reflog expire --expire=now --all; git gc -q --prune=now");
    assert_sound(&project);
    let shown = project.piton(["show", tip.trim()]);
    assert_eq!(shown.code(), Some(0), "{shown}");
    // Without this record, piton no longer knows where the squashed steps are.
    project.bash(&format!("rm .git/piton/store/kept/{run}/steps"));
    let verified = project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(1), "{verified}");
    assert!(verified.to_string().contains("REWRITTEN"), "{verified}");
}

#[test]
fn branch_leaves_the_commits_where_they_are() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt");
    let head = project.git(["rev-parse", "HEAD"]);
    finished(&project, &run, "--branch");
    assert_eq!(project.git(["rev-parse", "HEAD"]), head);
    assert_eq!(branches(&project).lines().count(), 2);
    assert!(!side.exists());
    project.assert_clean();
}

#[test]
fn what_the_user_has_not_committed_stays_byte_for_byte() {
    for how in ["--keep", "--squash"] {
        for moved_on in [false, true] {
            let project = project();
            let side = linked(&project, 1);
            let run = exec(
                &project,
                &side,
                "work",
                "sed -i s/^five/FIVE/ a.txt; echo w > w.txt; git rm -q c.txt",
            );
            if moved_on {
                project.bash("echo more > more.txt; git add more.txt; git commit -qm more");
            }
            // Partly staged in the same file, staged elsewhere, unstaged, untracked.
            project.bash(
                "sed -i s/^one/ONE/ a.txt; git add a.txt; sed -i s/^ten/TEN/ a.txt
                 echo staged > s.txt; git add s.txt; echo mine >> b.txt; echo u > u.txt; chmod 600 u.txt",
            );
            finished(&project, &run, how);
            assert_eq!(
                project.read("a.txt"),
                LINES
                    .replace("one", "ONE")
                    .replace("ten", "TEN")
                    .replace("five", "FIVE")
            );
            let staged = project.git(["show", ":a.txt"]);
            assert_eq!(staged, LINES.replace("one", "ONE").replace("five", "FIVE"));
            assert_eq!(
                project.git(["show", "HEAD:a.txt"]),
                LINES.replace("five", "FIVE")
            );
            assert_eq!(
                project.git(["status", "--porcelain"]),
                "MM a.txt\n M b.txt\nA  s.txt\n?? u.txt\n"
            );
            assert_eq!(
                project.bash("stat -c %a u.txt; cat u.txt b.txt"),
                "600\nu\nb\nmine\n"
            );
        }
    }
}

#[test]
fn files_that_git_converts_are_merged_in_their_form_on_disk() {
    let project = TestProject::new()
        .file(".gitattributes", "*.txt text eol=crlf\n")
        .file("a.txt", LINES)
        .committed();
    project.bash("rm a.txt; git checkout -q a.txt");
    let side = linked(&project, 1);
    let run = exec(
        &project,
        &side,
        "work",
        "sed -i s/^five/FIVE/ a.txt; printf 'n\\r\\n' > n.txt",
    );
    project.bash("sed -i s/^one/ONE/ a.txt");
    finished(&project, &run, "--squash");
    let expected = LINES
        .replace("one", "ONE")
        .replace("five", "FIVE")
        .replace('\n', "\r\n");
    assert_eq!(
        (project.read("a.txt"), project.read("n.txt")),
        (expected, "n\r\n".to_owned())
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M a.txt\n");
}

#[test]
fn a_worktree_with_work_in_no_commit_stays() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt");
    std::fs::write(side.join("later.txt"), "later\n").expect("a file");
    let ran = finish(&project, &run, "--keep");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("has uncommitted changes: `later.txt`"),
        "{ran}"
    );
    assert_eq!(
        std::fs::read_to_string(side.join("later.txt")).expect("a file"),
        "later\n"
    );
    assert_eq!(branches(&project).lines().count(), 2);
    assert_eq!(project.read("b.txt"), "b\n1\n");
    assert_sound(&project);
}

#[test]
fn an_undo_undoes_a_merge() {
    for (how, moved_on) in [("--keep", false), ("--keep", true), ("--squash", false)] {
        let project = project();
        let side = linked(&project, 1);
        exec(&project, &side, "first", "echo 1 >> b.txt");
        let run = exec(&project, &side, "second", "echo 2 >> b.txt; echo n > n.txt");
        if moved_on {
            project.bash("echo more > more.txt; git add more.txt; git commit -qm more");
        }
        let tree = project.git(["rev-parse", "HEAD^{tree}"]);
        finished(&project, &run, how);
        let ran = project.piton(["undo"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(
            project.git(["rev-parse", "HEAD^{tree}"]),
            tree,
            "{how} {moved_on}"
        );
        project.assert_clean();
        assert_sound(&project);
        let ran = project.piton(["redo"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(project.read("b.txt"), "b\n1\n2\n");
        assert_sound(&project);
    }
}

#[test]
fn a_hook_that_refuses_the_message_leaves_everything_as_it_was() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt; echo n > n.txt");
    project
        .bash("printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/commit-msg; chmod +x .git/hooks/commit-msg; echo u > u.txt");
    let before = project.bash("git rev-parse HEAD; git status --porcelain=v2; cat b.txt u.txt; ls");
    let ran = finish(&project, &run, "--squash");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("HOOK_FAILED"), "{ran}");
    assert_eq!(
        project.bash("git rev-parse HEAD; git status --porcelain=v2; cat b.txt u.txt; ls"),
        before
    );
    assert!(side.exists());
    project.bash("rm .git/hooks/commit-msg");
    finished(&project, &run, "--squash");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let project = TestProject::new()
        .ticking()
        .file("b.txt", "b\n")
        .committed();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt");
    let before = everything(&project);
    cmd_snapshot!(project.piton(["finish", &run, "--keep", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    run 01kdyabkw0000e485875xhvkdf would be closed; the current branch is fast-forwarded by its 1 commit
      commit [SHA]
      write b.txt
    ----- stderr -----
    ");
    assert_eq!(everything(&project), before);
    cmd_snapshot!(project.piton(["finish", &run, "--keep"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ committed [SHA] chore: update `b.txt` by `work` (1 file, +1 −0)
      the branch was fast-forwarded to the commits of run 01kdyabk
    ✓ run 01kdyabkw0000e485875xhvkdf is closed; the current branch is fast-forwarded by its 1 commit
    ");
}
