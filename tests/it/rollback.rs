//! `rollback --hard`: resets everything, and still nothing is lost.

use crate::harness::{TestProject, cmd_snapshot};

/// Two commits of piton, and the user's work on top: staged, unstaged, untracked, ignored.
fn project() -> TestProject {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .file("b.txt", "b\n")
        .file(".gitignore", "*.log\n")
        .committed();
    for script in [
        "echo two >> a.txt; mkdir -p d; echo x > d/new.txt",
        "echo three >> a.txt; chmod +x b.txt",
    ] {
        assert_eq!(project.exec(script).code(), Some(0));
    }
    project
        .file("a.txt", "one\ntwo\nthree\nmine\n")
        .file("b.txt", "b\nstaged\n")
        .file("untracked.txt", "untracked\n")
        .file("d/mine.txt", "in a folder that loses its file\n")
        .file("ignored.log", "ignored\n")
}

#[test]
fn without_hard_it_explains_undo() {
    let project = project();
    for arguments in [
        &["rollback"][..],
        &["rollback", "HEAD"],
        &["rollback", "--hard"],
    ] {
        assert_eq!(project.piton(arguments).code(), Some(2));
    }
    cmd_snapshot!(project.piton(["rollback", "HEAD"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `rollback` resets everything and requires `--hard`

    hint: `piton undo` undoes one step and keeps everything else; `piton rollback --hard REF` moves the branch and discards what is not committed
    ");
}

#[test]
fn without_a_terminal_it_has_to_be_confirmed() {
    let project = project();
    let (head, status) = (
        project.git(["rev-parse", "HEAD"]),
        project.git(["status", "--porcelain"]),
    );
    cmd_snapshot!(project.piton(["rollback", "--hard", "HEAD~2"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    `main` moves from [SHA] to [SHA]
    2 commits will be dropped from the branch
    uncommitted changes will be discarded: `a.txt`, `b.txt`
    error: rollback --hard needs to be confirmed

    hint: add `--yes`
    ");
    assert_eq!(project.git(["rev-parse", "HEAD"]), head);
    assert_eq!(project.git(["status", "--porcelain"]), status);
}

#[test]
fn everything_is_as_at_the_commit_and_what_was_there_is_kept() {
    let project = project();
    project.git(["add", "b.txt"]);
    let (head, start) = (
        project.git(["rev-parse", "HEAD"]),
        project.git(["rev-parse", "HEAD~2"]),
    );
    cmd_snapshot!(project.piton(["rollback", "--hard", "HEAD~2", "--yes"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    `main` moves from [SHA] to [SHA]
    2 commits will be dropped from the branch
    uncommitted changes will be discarded: `a.txt`, `b.txt`
    ✓ `main` and the tracked files were reset to [SHA]
    hint: `piton show PATH@01kdyaf92074chwekcwbygbpfz/1:before > PATH` restores a file
    hint: `git branch NAME [SHA]` restores the commits
    ");
    assert_eq!(project.git(["rev-parse", "main"]), start);
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "?? d/\n?? untracked.txt\n"
    );
    assert_eq!(
        project.git(["ls-files", "--stage"]),
        project.git([
            "ls-tree",
            "-r",
            "--format=%(objectmode) %(objectname) 0%x09%(path)",
            "HEAD"
        ])
    );
    assert_eq!(project.read("a.txt"), "one\n");
    assert_eq!(project.read("ignored.log"), "ignored\n");
    assert_eq!(
        project.read("d/mine.txt"),
        "in a folder that loses its file\n"
    );
    let shown = |path: &str| {
        project
            .piton([
                "show",
                &format!("{path}@01kdyaf92074chwekcwbygbpfz/1:before"),
            ])
            .stdout()
    };
    project.bash("git reflog expire --expire=now --all; git gc --quiet --prune=now");
    assert_eq!(shown("a.txt"), "one\ntwo\nthree\nmine\n");
    assert_eq!(shown("b.txt"), "b\nstaged\n");
    assert_eq!(shown("untracked.txt"), "untracked\n");
    let store = "GIT_ALTERNATE_OBJECT_DIRECTORIES=.git/piton/store/objects git";
    project.bash(&format!(
        "{store} cat-file -e {}; {store} ls-tree -r {} > ../tmp/tree",
        head.trim(),
        head.trim()
    ));
    project.git(["fsck", "--full", "--strict"]);
    assert_eq!(
        project.piton(["verify"]).code(),
        Some(0),
        "what was left behind has a reason"
    );
    assert_eq!(
        project.piton(["checkpoint"]).code(),
        Some(0),
        "nothing of before is waiting to be committed"
    );
}

#[test]
fn a_step_names_its_commit_and_undo_brings_the_files_back() {
    let project = project();
    let log = project.piton(["log", "--format", "json"]).stdout();
    let oldest = log.lines().last().expect("a run");
    let oldest = serde_json::from_str::<serde_json::Value>(oldest).expect("JSON");
    let run = oldest["id"].as_str().expect("a name");
    let commit = project.git(["rev-parse", "HEAD~1"]);
    assert_eq!(
        project.piton(["rollback", "--hard", run, "--yes"]).code(),
        Some(0)
    );
    assert_eq!(project.git(["rev-parse", "HEAD"]), commit);
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(project.read("a.txt"), "one\ntwo\nthree\nmine\n");
    assert_eq!(
        project.git(["rev-parse", "HEAD"]),
        commit,
        "branches move by `--hard` only"
    );
}

#[test]
fn an_ignored_file_in_the_way_stops_it() {
    let project = TestProject::new()
        .ticking()
        .file("a.log", "tracked\n")
        .committed();
    project.bash("git rm -q a.log; echo '*.log' > .gitignore; git add -A; git commit -qm ignore; echo mine > a.log");
    let ran = project.piton(["rollback", "--hard", "HEAD~1", "--yes"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("a.log"), "{ran}");
    assert_eq!(project.read("a.log"), "mine\n");
    assert_eq!(project.git(["log", "--oneline"]).lines().count(), 2);
    assert_eq!(
        project.piton(["recover"]).stderr(),
        "✓ there is no interrupted run\n"
    );
}

#[test]
fn files_are_written_with_the_line_ends_of_this_machine() {
    let project = TestProject::new()
        .ticking()
        .file(".gitattributes", "*.txt text eol=crlf\n")
        .file("a.txt", "one\r\n")
        .file("same.txt", "same\r\n")
        .committed();
    project.bash("printf 'two\\r\\n' > a.txt; git commit -qam two");
    assert_eq!(
        project
            .piton(["rollback", "--hard", "HEAD~1", "--yes"])
            .code(),
        Some(0)
    );
    assert_eq!(project.read("a.txt"), "one\r\n");
    assert_eq!(project.read("same.txt"), "same\r\n");
    project.assert_clean();
}

#[test]
fn a_file_that_was_only_announced_stays() {
    let project = project();
    project.git(["add", "--intent-to-add", "untracked.txt"]);
    assert_eq!(
        project
            .piton(["rollback", "--hard", "HEAD", "--yes"])
            .code(),
        Some(0)
    );
    assert_eq!(project.read("untracked.txt"), "untracked\n");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "?? d/mine.txt\n?? untracked.txt\n"
    );
}

#[test]
fn a_crash_before_the_branch_moved_is_rolled_back_and_after_it_kept() {
    for (point, moved) in [
        ("hard-kept", false),
        ("hard-files-reset", false),
        ("hard-index-reset", false),
        ("ref-locked", false),
        ("hard-branch-moved", true),
    ] {
        let project = project();
        project.git(["add", "b.txt"]);
        let (head, status) = (
            project.git(["rev-parse", "HEAD"]),
            project.git(["status", "--porcelain"]),
        );
        let start = project.git(["rev-parse", "HEAD~2"]);
        let mut command = project.command(["rollback", "--hard", "HEAD~2", "--yes"]);
        let crashed = command
            .env("PITON_FAILPOINT", point)
            .output()
            .expect("piton starts");
        assert!(!crashed.status.success(), "{point}");
        let recovered = project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{point}: {recovered}");
        assert_eq!(project.bash("find .git -name '*.lock'"), "", "{point}");
        if moved {
            assert_eq!(project.git(["rev-parse", "HEAD"]), start, "{point}");
            assert_eq!(project.read("a.txt"), "one\n", "{point}");
        } else {
            assert_eq!(project.git(["rev-parse", "HEAD"]), head, "{point}");
            assert_eq!(project.git(["status", "--porcelain"]), status, "{point}");
            assert_eq!(project.read("a.txt"), "one\ntwo\nthree\nmine\n", "{point}");
        }
        project.git(["fsck", "--full", "--strict"]);
        assert_eq!(
            project.piton(["verify"]).code(),
            Some(0),
            "{point}: {}",
            project.piton(["verify"])
        );
    }
}
