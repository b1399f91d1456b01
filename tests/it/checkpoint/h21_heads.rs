//! H21: unborn branches, detached HEADs, shallow clones, bare repositories, linked worktrees.

use std::path::PathBuf;

use super::{committed, exec, refused, rolled_back, told};
use crate::harness::{Ran, TestProject};
use crate::repository_guard::Guard;

/// Another work tree in the sandbox.
fn beside(project: &TestProject, name: &str) -> PathBuf {
    project.root().parent().expect("a sandbox").join(name)
}

fn exec_at(project: &TestProject, name: &str, script: &str) -> Ran {
    let folder = beside(project, name).display().to_string();
    project.piton([
        "-C", &folder, "--format", "json", "exec", "--name", "act", "--", "bash", "-euc", script,
    ])
}

#[test]
fn h21_the_first_commit_of_a_repository_can_be_a_checkpoint() {
    let project = TestProject::new()
        .file("u.txt", "mine\n")
        .file("s.txt", "staged\n");
    project.git(["add", "s.txt"]);
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > n.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 0));
    assert_eq!(project.git(["rev-list", "--count", "main"]), "1\n");
    guard.committed(&["n.txt"]);
}

#[test]
fn h21_a_roll_back_on_an_unborn_branch_removes_its_own_files_only() {
    let project = TestProject::new()
        .file("u.txt", "mine\n")
        .file("s.txt", "staged\n");
    project.git(["add", "s.txt"]);
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo tool > n.txt; echo tool > u.txt; git add n.txt; exit 3",
    );
    assert_eq!(told(&project, &ran), rolled_back(2, 2, 1));
    guard.rolled_back(&["u.txt"]);
}

#[test]
fn h21_an_empty_repository_is_empty_again() {
    let project = TestProject::new();
    let guard = Guard::of(&project);
    let ran = exec(&project, "mkdir d; echo tool > d/n.txt; exit 3");
    assert_eq!(told(&project, &ran), rolled_back(1, 1, 0));
    guard.rolled_back(&[]);
}

#[test]
fn h21_a_checkpoint_on_an_unborn_branch_can_be_undone() {
    let project = TestProject::new();
    assert_eq!(
        told(&project, &exec(&project, "echo tool > n.txt")),
        committed(1, 1, 0)
    );
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.files(), Vec::<String>::new());
    project.assert_clean();
}

#[test]
fn h21_a_commit_on_a_detached_head_is_kept_and_warned_about() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.git(["checkout", "--quiet", "--detach"]);
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo tool > a.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    assert!(
        ran.stdout()
            .contains("HEAD is detached: no branch has this commit, but piton keeps a copy of it"),
        "{ran}"
    );
    let commit = project.git(["rev-parse", "HEAD"]);
    assert_eq!(project.bash("cat .git/piton/store/kept/*/1/commit"), commit);
    guard.committed(&["a.txt"]);
}

#[test]
fn h21_a_roll_back_on_a_detached_head() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.git(["checkout", "--quiet", "--detach"]);
    let guard = Guard::of(&project);
    assert_eq!(
        told(&project, &exec(&project, "echo tool > a.txt; exit 3")),
        rolled_back(1, 1, 1)
    );
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h21_a_shallow_clone_is_supported() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash(
        "echo two > a.txt; git commit --quiet --all --message two
        git clone --quiet --depth 1 \"file://$PWD\" ../shallow",
    );
    let root = beside(&project, "shallow");
    let guard = Guard::at(&project, &root);
    let ran = exec_at(&project, "shallow", "echo tool > a.txt");
    assert_eq!(
        (ran.code(), &ran.last_json()["status"]),
        (Some(0), &"succeeded".into()),
        "{ran}"
    );
    guard.committed(&["a.txt"]);
    let guard = Guard::at(&project, &root);
    let ran = exec_at(&project, "shallow", "echo more > a.txt; exit 3");
    assert_eq!(ran.code(), Some(3), "{ran}");
    guard.rolled_back(&["a.txt"]);
}

#[test]
fn h21_a_bare_repository_is_refused() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.git(["clone", "--quiet", "--bare", ".", "../bare.git"]);
    let ran = exec_at(&project, "bare.git", "touch ran");
    let path = beside(&project, "bare.git")
        .canonicalize()
        .expect("a repository");
    assert_eq!(
        (ran.code(), ran.last_json()),
        refused(
            "NOT_A_PROJECT",
            &format!("`{}` is a git folder, not a work tree", path.display()),
            "go to a work tree of the repository, or create one with `git worktree add`"
        )
    );
    assert!(!path.join("ran").exists());
    assert!(!path.join("piton").exists());
}

#[test]
fn h21_a_linked_worktree_is_supported_beside_a_dirty_main_one() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("b.txt", "one\n")
        .committed();
    project.bash(
        "git worktree add --quiet ../linked; echo mine > a.txt; git add a.txt; echo untracked > u.txt
        echo mine > ../linked/b.txt; git -C ../linked add b.txt",
    );
    let main = Guard::of(&project);
    let linked = Guard::at(&project, &beside(&project, "linked"));
    let ran = exec_at(&project, "linked", "echo tool > a.txt; exit 3");
    assert_eq!(ran.code(), Some(3), "{ran}");
    linked.rolled_back(&["a.txt"]);
    let linked = Guard::at(&project, &beside(&project, "linked"));
    let ran = exec_at(&project, "linked", "echo tool > a.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    linked.committed(&["a.txt"]);
    project
        .bash("git worktree remove --force ../linked; git branch --quiet --delete --force linked");
    drop(main);
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "M  a.txt\n?? u.txt\n"
    );
}

#[test]
fn h21_a_git_folder_elsewhere_is_found() {
    let project = TestProject::without_git();
    project.bash("git init --quiet --initial-branch=main --separate-git-dir ../elsewhere .");
    let project = project.file("a.txt", "one\n").committed();
    let guard = Guard::of(&project);
    assert_eq!(
        told(&project, &exec(&project, "echo tool > a.txt; exit 3")),
        rolled_back(1, 1, 1)
    );
    guard.rolled_back(&["a.txt"]);
    let guard = Guard::of(&project);
    assert_eq!(
        told(&project, &exec(&project, "echo tool > a.txt")),
        committed(1, 1, 1)
    );
    guard.committed(&["a.txt"]);
}

#[test]
fn h21_no_repository_is_refused_where_a_checkpoint_is_promised() {
    let project = TestProject::without_git().file("a.txt", "one\n");
    let ran = exec(&project, "touch ran");
    assert_eq!(
        (ran.code(), ran.last_json()),
        refused(
            "NO_REPOSITORY",
            &format!(
                "`{}` is not inside a git repository",
                project.root().canonicalize().expect("a folder").display()
            ),
            "create one with `git init`, or turn checkpoints off: `--checkpoint disabled`"
        )
    );
    assert_eq!(project.files(), ["a.txt"]);
}

#[test]
fn h21_commits_of_a_step_on_an_unborn_branch_are_adopted() {
    let project = TestProject::new();
    let ran = exec(
        &project,
        "echo tool > n.txt; git add n.txt; git commit --quiet --message mine; echo rest > r.txt",
    );
    assert_eq!(told(&project, &ran), committed(1, 1, 0));
    assert_eq!(
        project.git(["log", "--format=%s", "--max-count=1", "HEAD~1"]),
        "mine\n"
    );
    project.assert_clean();
}
