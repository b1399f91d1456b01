//! The hook `commit-msg`: only piton writes `Piton-*` trailers.

use crate::harness::{Ran, TestProject, cmd_snapshot};

/// A project with a commit of piton on top of another.
fn project() -> TestProject {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .committed();
    let ran = project.piton([
        "exec",
        "--name",
        "append",
        "--",
        "sh",
        "-c",
        "echo two >> a.txt",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    project.hooked(["commit-msg"])
}

fn commit(project: &TestProject, message: &str) -> Ran {
    project.try_git(["commit", "--quiet", "--allow-empty", "--message", message])
}

const JOURNAL: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn a_forged_run_is_refused() {
    let project = project();
    let forged = format!(
        "make it up\n\nPiton-Run: 01k9x2bf000000000000000000\nPiton-Step: 1 x\nPiton-Journal: {JOURNAL}\n"
    );
    cmd_snapshot!(commit(&project, &forged), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: piton: `Piton-Run: 01k9x2bf000000000000000000` names a run that is unknown here [FORGED_TRAILER]
    hint: `piton fetch REMOTE` brings the log of a run that happened elsewhere; otherwise remove the lines that begin with `Piton-`
    ");
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "2\n");
}

#[test]
fn trailers_that_piton_would_not_write_are_refused() {
    let project = project();
    let run = project
        .git(["log", "-1", "--format=%(trailers:key=Piton-Run,valueonly)"])
        .trim()
        .to_owned();
    for (trailers, because) in [
        ("Piton-Run: latest".to_owned(), "is not the name of a run"),
        ("piton-run: 01k9x2bf".to_owned(), "no `Piton-Run`"),
        ("Piton-Tool: x@1.0.0".to_owned(), "no `Piton-Run`"),
        (format!("Piton-Run: {run}"), "without `Piton-Step`"),
        (
            format!("Piton-Run: {run}\nPiton-Step: one\nPiton-Journal: {JOURNAL}"),
            "is not as piton writes it",
        ),
        (
            format!("Piton-Run: {run}\nPiton-Step: 1 x\nPiton-Journal: sha256:12"),
            "is not as piton writes it",
        ),
        (
            format!(
                "Signed-off-by: A <a@b.c>\nPiton-Run: 01k9x2bf000000000000000000\nPiton-Step: 1 x\nPiton-Journal: {JOURNAL}"
            ),
            "unknown here",
        ),
    ] {
        let ran = commit(&project, &format!("subject\n\n{trailers}\n"));
        assert!(
            ran.code() == Some(1) && ran.stderr().contains(because),
            "{trailers}: {ran}"
        );
        assert!(ran.stderr().contains("hint: "), "{ran}");
    }
    // Text that mentions trailers is not a trailer.
    for message in [
        "a\n\nPiton-Run: x is what it says\n\nand more",
        "Piton-Run: x",
        "a\n\n  Piton-Run: x",
    ] {
        assert_eq!(commit(&project, message).code(), Some(0), "{message}");
    }
}

#[test]
fn amended_picked_and_squashed_commits_of_known_runs_pass() {
    let project = project();
    project.bash(
        "git commit -q --amend --no-edit
         git commit -q --amend -C HEAD --signoff
         git switch -q -c other HEAD~1
         git cherry-pick -x main > /dev/null
         GIT_EDITOR=: git cherry-pick --edit --keep-redundant-commits --allow-empty main > /dev/null
         GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/squash/'\" git rebase -q -i HEAD~2
         git switch -q main
         git switch -q -c third HEAD~1
         git merge -q --squash main > /dev/null
         GIT_EDITOR=: git commit -q",
    );
    // A clone does not know the run until it has fetched its log.
    project.bash("git init -q --bare ../remote.git; git remote add origin ../remote.git; git push -q origin main");
    assert_eq!(project.piton(["push", "origin"]).code(), Some(0));
    project.bash("git clone -q -b main ../remote.git ../clone");
    project.hook("../clone/.git", "commit-msg");
    let amend = ["-C", "../clone", "commit", "-q", "--amend", "--no-edit"];
    let ran = project.try_git(amend);
    assert!(
        ran.code() == Some(1) && ran.stderr().contains("piton fetch"),
        "{ran}"
    );
    assert_eq!(
        project.piton(["-C", "../clone", "fetch", "origin"]).code(),
        Some(0)
    );
    assert_eq!(project.try_git(amend).code(), Some(0));
}

#[test]
fn comments_and_patches_below_a_message_are_not_part_of_it() {
    let project = project();
    let forged = "Piton-Run: 01k9x2bf000000000000000000";
    // An editor that writes a patch with such a line below the scissors line, and a comment.
    let project = project.file("a.txt", format!("one\n\n{forged}\n"));
    let ran = project.ran(
        project
            .hermetic("git", &project.root())
            .args(["commit", "-qav"])
            .env("GIT_EDITOR", format!("sed -i '1i words\\n\\n# {forged}'"))
            .output()
            .expect("git starts"),
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.ran(
        project
            .hermetic("git", &project.root())
            .args(["-c", "core.commentChar=;", "commit", "-q", "--allow-empty"])
            .env("GIT_EDITOR", format!("sed -i '1i words\\n\\n{forged}\\n'"))
            .output()
            .expect("git starts"),
    );
    assert_eq!(ran.code(), Some(1), "{ran}");
}
