//! `piton blame`: the step that made each line, also after ordinary git operations.

use crate::harness::TestProject;

/// A file with three lines of the user, and two steps that each changed one line.
fn project() -> TestProject {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\ntwo\nthree\n")
        .committed();
    step(&project, "first", "sed -i 's/one/ONE/' a.txt");
    step(&project, "second", "echo four >> a.txt");
    project
}

fn step(project: &TestProject, name: &str, script: &str) {
    project
        .piton(["exec", "--name", name, "--", "sh", "-c", script])
        .succeeded();
}

/// The step name of each line; `-` for a committed line without a step, `?` for an uncommitted
/// line.
fn steps(project: &TestProject, file: &str) -> Vec<String> {
    let found = project
        .piton(["blame", file, "--format", "json"])
        .succeeded()
        .json();
    let name = |line: &serde_json::Value| match (line["step"].as_str(), line["commit"].as_str()) {
        (Some(step), _) => found["steps"][step]["name"]
            .as_str()
            .expect("a name")
            .to_owned(),
        (None, Some(_)) => "-".to_owned(),
        (None, None) => "?".to_owned(),
    };
    found["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .map(name)
        .collect()
}

#[test]
fn each_line_names_its_step_or_its_author() {
    let project = project();
    assert_eq!(steps(&project, "a.txt"), ["first", "-", "-", "second"]);
    let shown = project.piton(["blame", "a.txt"]).succeeded().stdout();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 4, "{shown}");
    assert!(
        lines[0].contains("/1  exec sh -c ") && lines[0].ends_with(" 1) ONE"),
        "{shown}"
    );
    assert!(
        lines[1].contains("  Test  ") && lines[1].ends_with(" 2) two"),
        "{shown}"
    );
    let one = project.piton(["blame", "a.txt:4"]).succeeded().stdout();
    assert!(
        one.lines().count() == 1 && one.trim_end().ends_with(" 4) four"),
        "{one}"
    );
    let some = project
        .piton(["blame", "a.txt", "-L", "2,3"])
        .succeeded()
        .stdout();
    assert_eq!(some.lines().count(), 2, "{some}");
}

#[test]
fn lines_that_are_not_committed_are_told_apart() {
    let project = project();
    project
        .piton([
            "exec",
            "--checkpoint",
            "explicit",
            "--name",
            "kept",
            "--",
            "sh",
            "-c",
            "echo five >> a.txt",
        ])
        .succeeded();
    project.bash("echo mine >> a.txt");
    assert_eq!(
        steps(&project, "a.txt"),
        ["first", "-", "-", "second", "kept", "?"]
    );
    project
        .piton([
            "exec",
            "--checkpoint",
            "explicit",
            "--name",
            "new",
            "--",
            "sh",
            "-c",
            "echo n > new.txt",
        ])
        .succeeded();
    project.bash("echo mine >> new.txt");
    assert_eq!(steps(&project, "new.txt"), ["new", "?"]);
    // A checkpoint attributes lines to the steps that made them.
    project.piton(["checkpoint", "--include-edits"]).succeeded();
    let found = steps(&project, "new.txt");
    assert_eq!(found[0], "new", "{found:?}");
    assert_ne!(found[1], "new", "{found:?}");
}

#[test]
fn blame_follows_amend_and_rebase() {
    let project = project();
    project.git(["commit", "-q", "--amend", "-m", "another message"]);
    assert_eq!(steps(&project, "a.txt"), ["first", "-", "-", "second"]);
    project
        .bash("git switch -q -c upstream HEAD~2; echo u > u.txt; git add u.txt; git commit -qm u; git switch -q main");
    project.git(["rebase", "-q", "upstream"]);
    assert_eq!(steps(&project, "a.txt"), ["first", "-", "-", "second"]);
    project.bash("git switch -q -c other upstream; git cherry-pick main~1 2>&1");
    assert_eq!(steps(&project, "a.txt"), ["first", "-", "-"]);
}

#[test]
fn a_squash_by_git_is_taken_apart() {
    let project = project();
    project.bash("echo own > own.txt; git add .; git commit -qm own; git reset -q --soft HEAD~3; git commit -qm all");
    assert_eq!(steps(&project, "own.txt"), ["-"]);
    assert_eq!(steps(&project, "a.txt"), ["first", "-", "-", "second"]);
    project.bash("git reflog expire --expire=now --all; git gc -q --prune=now");
    assert_eq!(steps(&project, "a.txt"), ["first", "-", "-", "second"]);
}

#[test]
fn a_finished_run_is_taken_apart() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .tool("add", "", "echo added >> a.txt")
        .tool("change", "", "sed -i s/one/ONE/ a.txt")
        .directive("both", ["add", "change"])
        .committed();
    let ran = project
        .piton(["--format", "json", "run", "both"])
        .succeeded()
        .stdout();
    let last: serde_json::Value =
        serde_json::from_str(ran.lines().last().expect("a line")).expect("JSON");
    let run = last["run_id"].as_str().expect("a run");
    let before = steps(&project, "a.txt");
    assert!(
        before[0] != before[1] && !before.contains(&"-".to_owned()),
        "{before:?}"
    );
    project.piton(["finish", run, "--squash"]).succeeded();
    assert_eq!(steps(&project, "a.txt"), before);
}

#[test]
fn a_file_that_was_renamed_keeps_its_steps() {
    let project = project();
    project.bash("git mv a.txt b.txt; git commit -qm rename");
    assert_eq!(steps(&project, "b.txt"), ["first", "-", "-", "second"]);
}

#[test]
fn wrong_files_and_lines_are_named() {
    let project = project().file("with:3", "x\n");
    let ran = project.piton(["blame", "none.txt"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("none.txt"), "{ran}");
    let ran = project.piton(["blame", "a.txt:9"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("`a.txt` has 4 lines"), "{ran}");
    let ran = project.piton(["blame", "a.txt", "-L", "0,2"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    // A file whose name ends like a line number.
    assert_eq!(steps(&project, "with:3"), ["?"]);
    // A folder, and a file that is deleted on disk.
    assert_eq!(project.piton(["blame", "."]).code(), Some(2));
    project.bash("rm a.txt");
    assert_eq!(steps(&project, "a.txt"), ["first", "-", "-", "second"]);
}
