//! The worktree of a run: its place, its content, and what it never loses.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use piton::context::{Context, Environment};
use piton::journal::RunId;
use piton::problem::{Code, Explain as _};
use piton::run::error::RunError;
use piton::run::linked_worktree::{self, CommittedState, RunWorktree};
use piton::workspace::open_repository;

use crate::harness::TestProject;

/// The context that piton would have in a folder of a project.
pub(crate) fn context(project: &TestProject, folder: &Path) -> Context {
    let command = project.hermetic("true", folder);
    let set = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| {
        Some((name.to_owned(), value?.to_owned()))
    };
    let variables: BTreeMap<OsString, OsString> = command.get_envs().filter_map(set).collect();
    Context::discover(Environment::new(variables, folder.to_path_buf()), None).expect("a project")
}

/// A fixed run id for a number.
pub(crate) fn run_id(number: u8) -> RunId {
    format!("01kdye7w000000000000000{number:03}")
        .parse()
        .expect("a name of a run")
}

/// Creates a worktree as `piton run --worktree` does.
pub(crate) fn linked(project: &TestProject, number: u8) -> PathBuf {
    let ctx = context(project, &project.root());
    linked_worktree::create(&ctx, run_id(number))
        .expect("a worktree")
        .path
}

fn create(project: &TestProject, folder: &Path) -> Result<RunWorktree, RunError> {
    linked_worktree::create(&context(project, folder), run_id(1))
}

fn branches(project: &TestProject) -> String {
    project.git(["for-each-ref", "--format=%(refname)", "refs/heads"])
}

#[test]
fn a_worktree_is_outside_of_the_project_on_its_own_branch() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file(".gitignore", "*.log\n")
        .committed();
    let project = project.file("a.txt", "mine\n").file("b.txt", "untracked\n");
    let made = create(&project, &project.root()).expect("a worktree");
    assert!(
        !made
            .path
            .starts_with(fs::canonicalize(project.root()).expect("a project")),
        "{}",
        made.path.display()
    );
    assert_eq!(
        fs::read_to_string(made.path.join("a.txt")).expect("a file"),
        "one\n"
    );
    assert!(!made.path.join("b.txt").exists());
    assert_eq!(made.branch, format!("refs/heads/piton/{}", run_id(1)));
    assert_eq!(
        branches(&project),
        format!("refs/heads/main\n{}\n", made.branch)
    );
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M a.txt\n?? b.txt\n"
    );
    let inside = made
        .context(&context(&project, &project.root()))
        .expect("a context");
    assert_eq!(inside.root, made.path);
}

#[test]
fn the_project_in_it_is_at_the_same_place() {
    let project = TestProject::new()
        .file("pack age/.ai/tools/x.yaml", "x\n")
        .committed();
    let made = create(&project, &project.root().join("pack age")).expect("a worktree");
    assert_eq!(made.project, made.path.join("pack age"));
    let ctx = made
        .context(&context(&project, &project.root()))
        .expect("a context");
    assert_eq!(ctx.root, made.project);
}

#[test]
fn a_project_that_is_in_no_commit_is_refused() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .committed()
        .file("new/.ai/tools/x.yaml", "x\n");
    let err = create(&project, &project.root().join("new")).expect_err("refused");
    assert_eq!(err.code(), Code::NotCommitted);
    assert_eq!(branches(&project), "refs/heads/main\n");
    let ctx = context(&project, &project.root());
    let err =
        linked_worktree::require_committed(&ctx, &project.root().join("new/.ai/tools/x.yaml"))
            .expect_err("refused");
    assert_eq!((err.code(), err.is_usage()), (Code::NotCommitted, true));
    let project = project.file("a.txt", "two\n");
    let found = |project: &TestProject| {
        linked_worktree::require_committed(
            &context(project, &project.root()),
            &project.root().join("a.txt"),
        )
        .expect("found")
    };
    assert_eq!(found(&project), CommittedState::Differs);
    assert_eq!(found(&project.file("a.txt", "one\n")), CommittedState::Same);
}

#[test]
fn without_a_commit_or_a_repository_there_is_no_worktree() {
    let project = TestProject::new();
    let err = create(&project, &project.root()).expect_err("refused");
    assert_eq!((err.code(), err.is_unsafe()), (Code::UnbornBranch, true));
    let project = TestProject::without_git();
    assert_eq!(
        create(&project, &project.root())
            .expect_err("refused")
            .code(),
        Code::NoRepository
    );
}

#[test]
fn a_branch_in_the_way_is_named_and_nothing_is_left_behind() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.git(["branch", "piton"]);
    let err = create(&project, &project.root()).expect_err("refused");
    assert_eq!(err.code(), Code::GitProgramFailed);
    assert!(err.to_string().contains("piton"), "{err}");
    assert_eq!(branches(&project), "refs/heads/main\nrefs/heads/piton\n");
    assert_eq!(project.git(["worktree", "list"]).lines().count(), 1);
}

#[test]
fn no_hook_of_the_user_runs_for_it() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash(
        "printf '#!/bin/sh\\ntouch hooked\\nexit 1\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
    );
    let made = create(&project, &project.root()).expect("a worktree");
    assert!(!made.path.join("hooked").exists() && !project.root().join("hooked").exists());
}

#[test]
fn a_worktree_of_a_worktree_is_one_like_any_other() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.git(["worktree", "add", "-q", "-b", "side", "../side way"]);
    let side = project.root().with_file_name("side way");
    let made = create(&project, &side).expect("a worktree");
    assert_eq!(
        fs::read_to_string(made.path.join("a.txt")).expect("a file"),
        "one\n"
    );
    assert_eq!(project.git(["worktree", "list"]).lines().count(), 3);
}

#[test]
fn submodules_are_empty_in_it_and_that_is_reported() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash(
        "git init -q ../inner; git -C ../inner commit -q --allow-empty -m inner
         git -c protocol.file.allow=always submodule --quiet add ../inner inner; git commit -qm submodule",
    );
    let made = create(&project, &project.root()).expect("a worktree");
    assert_eq!(made.notes.len(), 1, "{:?}", made.notes);
}

#[test]
fn an_unused_worktree_leaves_nothing_behind() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    let ctx = context(&project, &project.root());
    let made = create(&project, &project.root()).expect("a worktree");
    fs::write(made.path.join("new.txt"), "new\n").expect("a file");
    assert_eq!(
        linked_worktree::discard(&ctx, &made)
            .expect_err("refused")
            .code(),
        Code::UncommittedWork
    );
    fs::remove_file(made.path.join("new.txt")).expect("removed");
    linked_worktree::discard(&ctx, &made).expect("discarded");
    assert!(!made.path.exists());
    assert_eq!(branches(&project), "refs/heads/main\n");
    // It can be created again with the same name.
    create(&project, &project.root()).expect("a worktree");
}

#[test]
fn it_is_removed_only_when_nothing_in_it_would_be_lost() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file(".gitignore", "*.log\n")
        .committed();
    // Files that the user hides from `git status` count as well.
    project.git(["config", "status.showUntrackedFiles", "no"]);
    let made = create(&project, &project.root()).expect("a worktree");
    let ctx = context(&project, &project.root());
    let repository = open_repository(&ctx).expect("a repository");
    let find = || repository.linked_worktrees().expect("worktrees").pop();
    for (file, text) in [("new.txt", "new\n"), ("a.txt", "two\n")] {
        fs::write(made.path.join(file), text).expect("a file");
        let err = linked_worktree::remove(&ctx, &repository, &find().expect("it is there"))
            .expect_err("refused");
        assert_eq!(err.code(), Code::UncommittedWork);
        assert!(err.to_string().contains(file), "{err}");
        assert_eq!(
            fs::read_to_string(made.path.join(file)).expect("a file"),
            text
        );
        project.bash(&format!(
            "git -C '{}' checkout -q .; rm -f '{}/new.txt'",
            made.path.display(),
            made.path.display()
        ));
    }
    fs::write(made.path.join("x.log"), "ignored").expect("a file");
    linked_worktree::remove(&ctx, &repository, &find().expect("it is there")).expect("removed");
    assert!(!made.path.exists());
    assert_eq!(find(), None);
}
