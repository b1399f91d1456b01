//! A disk that fails for good at one file: commands go on once the user gives the file up.

use std::process::Output;

use crate::crash::scene::was_killed;
use crate::harness::TestProject;

/// A step that made a file, killed before it was put back.
fn cut_off() -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .file("b.txt", "b\n")
        .committed();
    let script = "echo more >> a.txt; echo made > made.txt; exit 1";
    let mut command = project.command(["exec", "--", "sh", "-c", script]);
    let killed = command.env("PITON_FAILPOINT", "tool-ended").output();
    assert!(was_killed(&killed.expect("piton starts")));
    project
}

/// Runs piton on a disk that does not let `made.txt` be removed.
fn on_a_broken_disk(project: &TestProject, words: &[&str]) -> Output {
    let made = project.root().join("made.txt").display().to_string();
    let options = [
        "-qq",
        "-o",
        "/dev/null",
        "-P",
        "made.txt",
        "-P",
        &made,
        "-e",
        "trace=unlinkat",
        "-e",
        "inject=unlinkat:error=EIO",
    ];
    let mut strace = project.command_under("strace", options);
    strace.args(words).output().expect("strace starts")
}

#[test]
fn a_file_that_can_never_be_rolled_back_is_given_up_by_the_user() {
    let project = cut_off();
    for words in [&["recover"][..], &["exec", "--", "true"]] {
        let ran = project.ran(on_a_broken_disk(&project, words));
        assert_eq!(ran.code(), Some(5), "{words:?}: {ran}");
        let said = ran.stderr();
        assert!(
            said.contains("made.txt") && said.contains("Input/output error"),
            "{words:?}: {said}"
        );
        assert!(said.contains("piton recover --give-up"), "{said}");
    }
    let ran = project.ran(on_a_broken_disk(&project, &["recover", "--give-up"]));
    assert_eq!(ran.code(), Some(0), "{ran}");
    let said = format!("{}{}", ran.stdout(), ran.stderr());
    assert!(
        said.contains("made.txt") && said.contains("Input/output error"),
        "{said}"
    );
    assert_eq!(project.read("a.txt"), "a\n", "what could be put back is");
    assert_eq!(project.git(["status", "--porcelain"]), "?? made.txt\n");
    // Other commands go on, and the content from before the step can be read.
    let log = project.piton(["log", "--format", "json"]).stdout();
    let run: serde_json::Value =
        serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
    let step = run["steps"][0]["id"].as_str().expect("a step").to_owned();
    let ran = project.exec("echo b2 > b.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["status", "--porcelain"]), "?? made.txt\n");
    let shown = project.piton(["show", &format!("a.txt@{step}:before")]);
    assert_eq!(shown.stdout(), "a\n", "{shown}");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn once_the_disk_works_again_nothing_is_given_up() {
    let project = cut_off();
    let ran = project.ran(on_a_broken_disk(&project, &["recover"]));
    assert_eq!(ran.code(), Some(5), "{ran}");
    let ran = project.piton(["recover", "--give-up"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["status", "--porcelain"]), "");
    project.assert_clean();
}

#[test]
fn an_emptied_folder_that_cannot_be_removed_is_named_and_nothing_is_done() {
    const MIGRATE: [&str; 4] = ["migrate", "--all", "--checkpoint", "auto"];
    let project = TestProject::new()
        .file(
            ".ai/scripts/ops/clean.sh",
            "#!/usr/bin/env bash\n# Cleans\necho clean\n",
        )
        .committed();
    let files =
        || project.bash("find .ai -type f | sort; git status --porcelain; git log --oneline");
    let before = files();
    project.save();
    let under_strace = |options: &[&str]| {
        let traced = ["-qq", "-e", "trace=unlinkat"];
        let mut strace = project.command_under("strace", traced.iter().chain(options));
        project.ran(strace.args(MIGRATE).output().expect("strace starts"))
    };
    let ran = under_strace(&["-o", "../trace"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let trace = project.bash("cat ../trace");
    project.reset();
    let number = trace
        .lines()
        .position(|line| line.contains("\"ops\", AT_REMOVEDIR"))
        .expect("the folder is removed")
        + 1;
    let inject = format!("inject=unlinkat:error=EIO:when={number}");
    let ran = under_strace(&["-o", "/dev/null", "-e", &inject]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains(".ai/scripts/ops") && ran.stderr().contains("Input/output error"),
        "{ran}"
    );
    assert_eq!(files(), before, "{ran}");
}
