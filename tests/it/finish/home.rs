//! Runs on the user's current branch, which need no integration.

use super::{assert_sound, branches, count, exec, finish, finished, linked, project};
use crate::harness::TestProject;

/// A run with several commits on the current branch: a tool that commits by itself.
fn several(project: &TestProject) -> String {
    let script = "echo 1 >> b.txt; git commit -qam one; echo 2 >> b.txt; git commit -qam two; echo 3 >> b.txt";
    exec(project, &project.root(), "several", script)
}

#[test]
fn keep_only_closes_the_run() {
    let project = project();
    let run = several(&project);
    let head = project.git(["rev-parse", "HEAD"]);
    finished(&project, &run, "--keep");
    assert_eq!(project.git(["rev-parse", "HEAD"]), head);
    assert_eq!(finish(&project, &run, "--keep").code(), Some(2));
}

#[test]
fn branch_creates_a_branch_where_the_run_ended() {
    let project = project();
    let run = several(&project);
    exec(&project, &project.root(), "later", "echo 4 >> b.txt");
    finished(&project, &run, "--branch");
    assert_eq!(
        branches(&project),
        format!("refs/heads/main\nrefs/heads/piton/{run}\n")
    );
    assert_eq!(
        project.git(["rev-parse", &format!("piton/{run}")]),
        project.git(["rev-parse", "HEAD~1"])
    );
}

#[test]
fn squash_makes_one_commit_and_touches_no_file() {
    let project = project();
    let run = several(&project);
    let tip = project.git(["rev-parse", "HEAD"]);
    project.bash("echo staged > s.txt; git add s.txt; echo mine >> b.txt; echo u > u.txt");
    let look = "git status --porcelain=v2 | sed 's/# branch.oid.*//'; git diff; git diff --cached; cat b.txt";
    let before = project.bash(look);
    finished(&project, &run, "--squash");
    assert_eq!(project.bash(look), before);
    assert_eq!(count(&project, "HEAD"), "2");
    assert_eq!(
        project.git(["rev-parse", "HEAD^{tree}"]),
        project.git(["rev-parse", &format!("{}^{{tree}}", tip.trim())])
    );
    assert_eq!(
        project.read(&format!(".git/piton/store/kept/{run}/steps")),
        tip
    );
    // Nothing changed in the work tree, so the step to undo is the previous one.
    let subject = project.git(["log", "-1", "--format=%s"]);
    assert!(subject.starts_with("chore: "), "{subject}");
}

#[test]
fn squash_works_from_the_first_commit_on() {
    let project = TestProject::new();
    let script = "echo 1 > b.txt; git add b.txt; git commit -qm one; echo 2 >> b.txt";
    let run = exec(&project, &project.root(), "first", script);
    assert_eq!(count(&project, "HEAD"), "2");
    finished(&project, &run, "--squash");
    assert_eq!(count(&project, "HEAD"), "1");
    project.assert_clean();
}

#[test]
fn what_is_not_the_newest_or_published_is_not_squashed() {
    let project = project();
    let run = several(&project);
    project.bash(
        "git init -q --bare ../remote; git remote add origin ../remote; git push -q origin main",
    );
    let ran = finish(&project, &run, "--squash");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("pushed: `origin/main` has them"),
        "{ran}"
    );
    project.bash("git update-ref -d refs/remotes/origin/main; git commit -q --allow-empty -m mine");
    let ran = finish(&project, &run, "--squash");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("not exactly the newest"), "{ran}");
    project.git(["checkout", "-q", "-b", "other"]);
    let ran = finish(&project, &run, "--squash");
    assert!(ran.stderr().contains("but on `main`"), "{ran}");
    assert_sound(&project);
}

#[test]
fn a_failed_run_is_merged_as_far_as_it_committed() {
    let project = project();
    let side = linked(&project, 1);
    let folder = side.to_string_lossy();
    let script = "echo 1 >> b.txt; git commit -qam one; exit 1";
    let ran = project.piton([
        "-C", &folder, "--format", "json", "exec", "--", "sh", "-c", script,
    ]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let run = ran.last_json()["run_id"]
        .as_str()
        .expect("a name")
        .to_owned();
    let ran = finish(&project, &run, "--keep");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("the run did not succeed"), "{ran}");
    assert_eq!(project.read("b.txt"), "b\n1\n");
    assert_sound(&project);
}

#[test]
fn a_deleted_worktree_is_no_obstacle() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt");
    std::fs::remove_dir_all(&side).expect("removed");
    finished(&project, &run, "--squash");
    assert_eq!(project.read("b.txt"), "b\n1\n");
    assert_eq!(project.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(branches(&project), "refs/heads/main\n");
}

#[test]
fn a_run_in_the_same_worktree_that_has_not_ended_keeps_it() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt");
    let folder = side.to_string_lossy();
    let mut other = project.command(["-C", &folder, "exec", "--", "sh", "-c", "echo 2 >> b.txt"]);
    let killed = other
        .env("PITON_FAILPOINT", "tool-ended")
        .output()
        .expect("piton starts");
    assert!(!killed.status.success());
    let ran = finish(&project, &run, "--branch");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("has not ended"), "{ran}");
    let ran = project.piton(["-C", &folder, "recover"]);
    assert!(ran.stderr().contains("1 file was restored"), "{ran}");
}

#[test]
fn a_run_without_commits_is_just_closed() {
    let project = project();
    let run = exec(&project, &project.root(), "nothing", "true");
    finished(&project, &run, "--squash");
    let side = linked(&project, 1);
    let run = exec(&project, &side, "nothing", "true");
    finished(&project, &run, "--keep");
    assert!(!side.exists());
    assert_eq!(branches(&project), "refs/heads/main\n");
}
