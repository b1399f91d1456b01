//! `piton selftest`: tests piton itself, and touches nothing of the user's.

use serde_json::Value;

use crate::harness::{TestProject, cmd_snapshot};

/// The status of a check.
fn status<'r>(report: &'r Value, name: &str) -> &'r str {
    let checks = report["checks"].as_array().expect("checks");
    let check = checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("no check {name}: {report}"));
    check["status"].as_str().expect("a status")
}

/// All files outside of the project's `.git`: in the project, the home and the temporary folder.
fn around(project: &TestProject) -> String {
    project.bash(
        "cd ..; find . -not -path './project/.git/*' | sort; git -C project status --porcelain",
    )
}

#[test]
fn a_machine_on_which_piton_works_passes_and_nothing_is_left() {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .committed()
        .file("a.txt", "mine\n")
        .file("b.txt", "b\n");
    let before = around(&project);
    let ran = project.piton([
        "selftest",
        "--torture",
        "4",
        "--seed",
        "7",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let report = ran.json();
    assert_eq!(
        (&report["passed"], &report["seed"], &report["kept"]),
        (&true.into(), &7.into(), &false.into())
    );
    assert!(report["kills"].as_u64().expect("a number") >= 4, "{report}");
    for name in [
        "git",
        "file system",
        "file times",
        "upper and lower case",
        "symbolic links",
        "executable bit",
        "attribution",
        "commit",
        "roll back",
        "undo",
        "redo",
        "kill and recovery",
        "concurrent edits",
        "git fsck",
        "record",
        "locks",
    ] {
        assert_eq!(status(&report, name), "ok", "{name}: {report}");
    }
    assert_eq!(around(&project), before);
    assert!(
        !project.root().join(".git/piton").exists(),
        "the project of the user was used"
    );
}

#[test]
fn people_get_a_line_for_each_check() {
    let project = TestProject::new();
    let ran = project.piton(["selftest", "--torture", "1", "--seed", "3"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let lines = ran.stdout().lines().count();
    assert!(
        lines >= 16
            && ran
                .stdout()
                .lines()
                .all(|line| line.starts_with(['✓', '!', ' '])),
        "{ran}"
    );
    assert!(
        ran.stderr().contains("0 failed") && ran.stderr().contains("seed 3"),
        "{ran}"
    );
}

#[test]
fn it_works_outside_of_a_project_and_keeps_the_repository_when_asked_to() {
    let project = TestProject::without_git();
    let ran = project.piton([
        "selftest",
        "--torture",
        "0",
        "--keep",
        "--in",
        "../tmp",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let folder = ran.json()["folder"].as_str().expect("a folder").to_owned();
    let log = project.bash(&format!("git -C '{folder}/work' log --format=%s"));
    assert!(
        log.ends_with("begin\n") && log.starts_with("end\n"),
        "{log}"
    );
    assert!(folder.contains("/tmp/.piton-selftest-"), "{folder}");
}

#[test]
fn a_machine_without_git_fails_with_a_hint() {
    let project = TestProject::new();
    let empty = project.home();
    let output = project
        .command(["selftest", "--torture", "0", "--format", "json"])
        .env("PATH", &empty)
        .output();
    let ran = project.ran(output.expect("piton starts"));
    assert_eq!(ran.code(), Some(1), "{ran}");
    let report = ran.json();
    assert_eq!(
        (status(&report, "git"), &report["passed"]),
        ("failed", &false.into())
    );
    assert_eq!(report["checks"][0]["hint"], "install git");
}

#[test]
fn a_folder_that_is_not_there_is_wrong_usage() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["selftest", "--in", "nowhere"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot enter the folder `[PROJECT]/nowhere`
      caused by: No such file or directory (os error 2)
    ");
}
