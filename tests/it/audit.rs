//! History commands: `log`, `show`, `diff` and `gc`.

use crate::harness::{TestProject, cmd_snapshot};

/// A project with a committed, a rolled back and an uncommitted step.
fn project() -> TestProject {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .committed();
    run(
        &project,
        &[
            "exec",
            "--",
            "sh",
            "-c",
            "echo two >> a.txt; echo x > new.txt",
        ],
    );
    assert_eq!(project.exec("rm new.txt; exit 3").code(), Some(3));
    run(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--name",
            "third",
            "--",
            "sh",
            "-c",
            "echo three >> a.txt",
        ],
    );
    project
}

fn run(project: &TestProject, arguments: &[&str]) {
    let ran = project.piton(arguments);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

/// The run ids, newest first.
fn runs(project: &TestProject, arguments: &[&str]) -> Vec<String> {
    let ran = project.piton([&["log", "--format", "json"], arguments].concat());
    assert_eq!(ran.code(), Some(0), "{ran}");
    let name = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).expect("JSON")["id"].to_string()
    };
    ran.stdout()
        .lines()
        .map(|line| name(line).trim_matches('"').to_owned())
        .collect()
}

#[test]
fn a_project_without_runs() {
    let project = TestProject::new().ticking();
    cmd_snapshot!(project.piton(["log"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    no runs yet
    ");
    cmd_snapshot!(project.piton(["show", "01kdye"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no step, run or commit `01kdye`

    hint: list runs and steps with `piton log`
    ");
    cmd_snapshot!(project.piton(["verify"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ 0 runs, 0 checkpoints verified
    ");
}

#[test]
fn runs_are_listed_newest_first() {
    cmd_snapshot!(project().piton(["log"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    01kdyaf9  2026-01-02 03:02:01  exec sh -c 'echo three >> a.txt'                  succeeded  on disk  1 file, +1 −0
    01kdyade  2026-01-02 03:01:01  exec sh -c 'rm new.txt; exit 3'                   failed     rolled back  1 file, +0 −1
    01kdyabk  2026-01-02 03:00:01  exec sh -c 'echo two >> a.txt; echo x > new.txt'  succeeded  [SHA]  2 files, +2 −0
    ----- stderr -----
    ");
}

#[test]
fn a_named_run_is_listed_with_its_steps() {
    let project = project();
    let oldest = runs(&project, &[]).pop().expect("a run");
    cmd_snapshot!(project.piton(["log", &oldest]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    01kdyabk  2026-01-02 03:00:01  exec sh -c 'echo two >> a.txt; echo x > new.txt'  succeeded  branch `main`
      1  sh  succeeded  [SHA]  2 files, +2 −0
    ----- stderr -----
    ");
}

#[test]
fn filters_leave_out_what_does_not_fit() {
    let project = project();
    let all = runs(&project, &[]);
    let only = |at: usize| vec![all[at].clone()];
    assert_eq!(runs(&project, &["--status", "failed"]), only(1));
    assert_eq!(runs(&project, &["--limit", "1"]), only(0));
    assert_eq!(runs(&project, &["--path", "new.txt"]), all[1..]);
    assert_eq!(runs(&project, &["--path", "other"]), [""; 0]);
    assert_eq!(runs(&project, &["--since", "2026-01-02T03:02"]), only(0));
    assert_eq!(
        runs(&project, &["--until", "2026-01-02T03:00:59Z"]),
        only(2)
    );
    assert_eq!(runs(&project, &["--until", "2026-01-02"]), all);
    assert_eq!(runs(&project, &["--since", "2026-01-03"]), [""; 0]);
    assert_eq!(runs(&project, &["--since", "2h"]), all);
    assert_eq!(runs(&project, &["--tool", "greet"]), [""; 0]);
    assert_eq!(runs(&project, &["--directive", "deploy"]), [""; 0]);
    assert_eq!(
        project.piton(["log", "--path", "../outside"]).code(),
        Some(2)
    );
    cmd_snapshot!(project.piton(["log", "--since", "soon"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `soon` is neither a date nor a time span

    hint: write `2026-01-02`, `2026-01-02T03:04`, `2h` or `"3 days"`
    "#);
}

#[test]
fn undone_steps_are_marked_until_they_are_redone() {
    let project = project();
    let undone =
        |project: &TestProject| project.piton(["log"]).stdout().matches("(undone)").count();
    assert_eq!(undone(&project), 0);
    run(&project, &["undo"]);
    assert_eq!(undone(&project), 1);
    run(&project, &["redo"]);
    let log = project.piton(["log"]).stdout();
    assert!(
        !log.lines()
            .any(|line| line.contains("three") && line.contains("(undone)")),
        "{log}"
    );
}

#[test]
fn a_run_of_another_worktree_is_listed_with_its_root() {
    let project = project();
    project.git(["worktree", "add", "--quiet", "../other"]);
    let other = project.root().with_file_name("other");
    run(
        &project,
        &[
            "-C",
            other.to_str().expect("UTF-8"),
            "exec",
            "--",
            "touch",
            "there",
        ],
    );
    let log = project.piton(["log"]).stdout();
    let first = log.lines().next().expect("a line");
    assert!(
        first.ends_with("/other") && first.contains("touch there"),
        "{log}"
    );
    assert_eq!(log.matches("/other").count(), 1, "{log}");
    assert_eq!(
        project.piton(["verify", "--format", "json"]).json()["runs"],
        3
    );
    assert_eq!(
        project
            .piton(["verify", "--all", "--format", "json"])
            .json()["runs"],
        4
    );
}

#[test]
fn a_step_is_shown_with_everything_about_it() {
    cmd_snapshot!(project().piton(["show", "HEAD"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    step          01kdyabkw0000e485875xhvkdf/1
    name          sh
    what          sh -c 'echo two >> a.txt; echo x > new.txt'
    when          2026-01-02 03:00:02
    started as    piton exec sh -c 'echo two >> a.txt; echo x > new.txt'
    mode          auto
    permissions   none (exec)
    exit code     0
    status        succeeded
    outcome       [SHA]  2 files, +2 −0
    commit        [HASH]
    message       chore: update `a.txt`, add `new.txt` by `sh`

                  2 files changed, 2 insertions(+)

                  Piton-Run: 01kdyabkw0000e485875xhvkdf
                  Piton-Step: 1 sh
                  Piton-Journal: sha256:[HASH]

    diff --git a/a.txt b/a.txt
    index [SHA]..[SHA] 100644
    --- a/a.txt
    +++ b/a.txt
    @@ -1 +1,2 @@
     one
    +two
    diff --git a/new.txt b/new.txt
    new file mode 100644
    index [SHA]..[SHA]
    --- /dev/null
    +++ b/new.txt
    @@ -0,0 +1 @@
    +x
    ----- stderr -----
    ");
}

#[test]
fn without_a_name_the_newest_run_is_shown() {
    let project = project();
    let log = project
        .piton(["log", "-n", "1", "--format", "json"])
        .stdout();
    let run: serde_json::Value =
        serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
    let newest = project.piton(["show", run["id"].as_str().expect("an id")]);
    assert_eq!(newest.code(), Some(0), "{newest}");
    assert_eq!(project.piton(["show"]).stdout(), newest.stdout());
    let empty = TestProject::new();
    cmd_snapshot!(empty.piton(["show"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    no runs yet
    ");
}

#[test]
fn a_step_that_was_rolled_back_shows_where_its_work_is() {
    let project = project();
    let failed = &runs(&project, &["--status", "failed"])[0];
    let shown = project.piton(["show", failed, "--format", "json"]).json();
    assert_eq!(shown["outcome"]["type"], "rolled_back");
    assert_eq!(shown["exit_code"], 3);
    assert_eq!(shown["permissions"], serde_json::json!(["none (exec)"]));
    assert_eq!(
        shown["outcome"]["rescue"],
        format!("{failed}/1"),
        "what `piton restore` takes"
    );
    assert!(
        shown["diff"]
            .as_str()
            .expect("a diff")
            .contains("deleted file mode 100644"),
        "{shown}"
    );
}

#[test]
fn a_commit_that_piton_did_not_make_is_not_a_step() {
    cmd_snapshot!(project().piton(["show", "HEAD~1"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: commit `HEAD~1` was not made by a step of piton

    hint: `git show` shows any commit
    ");
}

#[test]
fn a_long_diff_is_cut_for_people() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .committed();
    run(&project, &["exec", "--", "sh", "-c", "seq 3000 > a.txt"]);
    let shown = project.piton(["show", "HEAD"]);
    assert!(
        shown.stderr().contains(" more lines: `piton diff "),
        "{}",
        shown.stderr()
    );
    assert!(shown.stdout().lines().count() < 2100);
    assert!(
        project
            .piton(["show", "HEAD", "--stat"])
            .stdout()
            .ends_with("M a.txt  +3000 −1\n1 file, +3000 −1\n")
    );
    assert!(
        !project
            .piton(["show", "HEAD", "--no-diff"])
            .stdout()
            .contains("diff --git")
    );
}

#[test]
fn git_applies_a_diff_of_anything() {
    let project = TestProject::new()
        .file("a.txt", "one\r\ntwo")
        .file("gone", "x\n")
        .file("mode", "m\n")
        .committed();
    project.bash("ln -s a.txt link; ln -s a.txt turns; git add -A; git commit -qm links");
    let script = "printf 'one\\r\\n\\033[31mtwo\\n' > a.txt; rm gone; chmod +x mode; ln -sf mode link; rm turns; \
                  echo file > turns; mkdir -p 'a folder'; echo x > 'a folder/n\u{e4}me'; printf 'tab' > \"t\tb\"";
    run(&project, &["exec", "--", "sh", "-c", script]);
    let diff = project.piton(["diff", "HEAD~1", "HEAD"]).output.stdout;
    let patch = project.home().join("patch");
    std::fs::write(&patch, diff).expect("written");
    project.git(["checkout", "--quiet", "--detach", "HEAD~1"]);
    project.git(["apply", "--index", patch.to_str().expect("UTF-8")]);
    assert_eq!(
        project.git(["write-tree"]),
        project.git(["rev-parse", "main^{tree}"])
    );
}

#[test]
fn a_binary_file_is_not_printed() {
    let project = TestProject::new().file("a", "one\n").committed();
    run(
        &project,
        &["exec", "--", "sh", "-c", "printf 'a\\000b' > bin"],
    );
    let diff = project.piton(["diff", "HEAD~1", "HEAD"]).stdout();
    assert!(
        diff.ends_with("Binary files /dev/null and b/bin differ\n"),
        "{diff}"
    );
}

#[test]
fn a_diff_without_arguments_shows_what_is_not_committed() {
    let project = project();
    cmd_snapshot!(project.piton(["diff"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    diff --git a/a.txt b/a.txt
    index [SHA]..[SHA] 100644
    --- a/a.txt
    +++ b/a.txt
    @@ -1,2 +1,3 @@
     one
     two
    +three
    ----- stderr -----
    ");
    run(&project, &["checkpoint"]);
    assert_eq!(project.piton(["diff"]).stdout(), "");
    let project = project.file("mine.txt", "mine\n");
    assert_eq!(
        project.piton(["diff", "--stat"]).stdout(),
        "A mine.txt  +1 −0\n1 file, +1 −0\n"
    );
    assert_eq!(
        project
            .piton(["diff", "--stat", "--paths", "a.txt"])
            .stdout(),
        "0 files\n"
    );
}

#[test]
fn a_diff_leads_from_one_moment_to_another() {
    let project = project();
    let all = runs(&project, &[]);
    let stat = |from: &str, to: &str| project.piton(["diff", from, to, "--stat"]).stdout();
    assert_eq!(
        stat(&format!("{}:before", all[2]), &all[2]),
        "M a.txt    +1 −0\nA new.txt  +1 −0\n2 files, +2 −0\n"
    );
    assert_eq!(
        stat(&all[2], &format!("{}/1", all[0])),
        "M a.txt  +1 −0\n1 file, +1 −0\n"
    );
    assert_eq!(stat("HEAD", &all[2]), "0 files\n");
    let json = project
        .piton(["diff", "HEAD~1", "HEAD", "--format", "json"])
        .json();
    assert_eq!(json["changes"].as_array().map(Vec::len), Some(2));
    assert_eq!(project.piton(["diff", "nothing-like-that"]).code(), Some(2));
}

/// Makes the objects of the private store older than the grace period of `piton gc`.
fn age_objects(project: &TestProject) {
    project.bash("find .git/piton/store/objects -type f -exec touch -d '2 hours ago' {} +");
}

#[test]
fn contents_that_nothing_needs_are_dropped_and_undo_continues() {
    let project = project();
    let objects = || project.bash("find .git/piton/store/objects -type f | sort");
    let all = runs(&project, &[]);
    let before = objects();
    let dry = project.piton(["gc", "--dry-run", "--keep-days", "0", "--keep-runs", "0"]);
    assert_eq!(dry.stdout(), format!("{}\n{}\n", all[1], all[2]));
    assert_eq!(objects(), before);
    // Uncommitted contents stay, regardless of their age, and so do young objects.
    run(&project, &["gc", "--keep-days", "0", "--keep-runs", "0"]);
    assert_eq!(objects(), before);
    age_objects(&project);
    let swept = project
        .piton([
            "gc",
            "--keep-days",
            "0",
            "--keep-runs",
            "0",
            "--format",
            "json",
        ])
        .json();
    assert_eq!(
        (&swept["runs"], swept["objects"].as_u64() > Some(0)),
        (&0.into(), true),
        "{swept}"
    );
    assert!(objects().len() < before.len(), "{}", objects());
    project.git(["reflog", "expire", "--expire=now", "--all"]);
    project.git(["gc", "--quiet", "--prune=now"]);
    cmd_snapshot!(project.piton(["verify"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ 4 runs, 1 checkpoint verified
    ");
    run(&project, &["undo"]);
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    run(&project, &["redo"]);
    assert_eq!(project.read("a.txt"), "one\ntwo\nthree\n");
    project.git(["fsck", "--full", "--strict"]);
    let gone = project.piton(["diff", &format!("{}:before", all[1]), &all[1]]);
    assert_eq!(gone.code(), Some(2), "{gone}");
    assert_eq!(runs(&project, &[]).len(), 6);
}

#[test]
fn a_young_or_new_run_is_kept() {
    let project = project();
    for limits in [
        ["--keep-days", "1", "--keep-runs", "0"],
        ["--keep-days", "0", "--keep-runs", "3"],
    ] {
        let dry = project.piton([&["gc", "--dry-run"], limits.as_slice()].concat());
        assert_eq!(dry.stdout(), "", "{limits:?}");
    }
    assert_eq!(project.piton(["gc"]).code(), Some(0));
    assert_eq!(
        runs(&project, &[]).len(),
        3,
        "a collection without effect is no run"
    );
}

#[test]
fn a_commit_that_no_branch_has_is_kept() {
    let project = TestProject::new().ticking().file("a", "one\n").committed();
    project.git(["checkout", "--quiet", "--detach"]);
    run(&project, &["exec", "--", "sh", "-c", "echo two > a"]);
    let commit = project.git(["rev-parse", "HEAD"]);
    project.git(["checkout", "--quiet", "main"]);
    run(&project, &["gc", "--keep-days", "0", "--keep-runs", "0"]);
    assert_eq!(project.bash("cat .git/piton/store/kept/*/1/commit"), commit);
    project.bash("git reflog expire --expire=now --all; git gc --quiet --prune=now");
    assert_eq!(project.piton(["verify"]).code(), Some(0));
}

#[test]
fn a_project_without_git_has_a_history_too() {
    let project = TestProject::without_git()
        .ticking()
        .variable("PITON_GIT_REQUIRED", "false");
    run(
        &project,
        &["exec", "--checkpoint", "disabled", "--", "true"],
    );
    let log = project.piton(["log"]).stdout();
    assert!(log.contains("exec true  succeeded"), "{log}");
    let run = runs(&project, &[]).pop().expect("a run");
    assert!(
        project
            .piton(["show", &run])
            .stdout()
            .contains("mode          disabled")
    );
    assert_eq!(project.piton(["verify"]).code(), Some(5));
}

#[test]
fn a_gc_that_is_killed_leaves_nothing_that_does_not_verify() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.exec("echo two >> a.txt");
    age_objects(&project);
    for place in ["gc-decided", "object-swept"] {
        let mut command = project.command(["gc", "--keep-days", "0", "--keep-runs", "0"]);
        let killed = command
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts");
        assert_eq!(killed.status.code(), None, "{place}");
        assert_ne!(
            project.bash("find .git/piton/store/objects -type f"),
            "",
            "{place}"
        );
        let recovered = project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{place}: {recovered}");
        let verified = project.piton(["verify", "--all"]);
        assert_eq!(verified.code(), Some(0), "{place}: {verified}");
    }
    assert_eq!(
        project
            .piton(["gc", "--keep-days", "0", "--keep-runs", "0"])
            .code(),
        Some(0)
    );
    assert_eq!(project.bash("find .git/piton/store/objects -type f"), "");
    let verified = project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
    project.assert_clean();
}
