//! What a tool wrote before it failed: its last lines where it failed, everything by `piton show`.

use serde_json::json;

use crate::harness::TestProject;
use crate::run::terminal::at_a_terminal;

/// A project with a directive whose only tool reports 60 lines on stdout and fails.
fn failing() -> TestProject {
    let script = "for n in $(seq 60); do echo \"test $n failed\"; done; echo oops >&2; exit 1";
    TestProject::new()
        .tool("check", "", script)
        .directive("release", ["check"])
        .committed()
        .ticking()
}

#[test]
fn the_last_forty_lines_of_stdout_are_shown_where_a_step_failed() {
    let ran = failing().piton(["run", "release"]);
    let text = ran.stderr();
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(text.contains("\noops\n"), "{ran}");
    assert!(
        text.contains("\n  stdout (last 40 of 60 lines; `piton show "),
        "{ran}"
    );
    let shown: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("    test "))
        .collect();
    let last: Vec<String> = (21..=60)
        .map(|number| format!("    test {number} failed"))
        .collect();
    assert_eq!(shown, last);
}

#[test]
fn show_has_everything_that_a_failed_step_wrote() {
    let project = failing();
    project.piton(["run", "release"]);
    let run = project.piton(["log", "--format", "json"]).stdout();
    let run: serde_json::Value =
        serde_json::from_str(run.lines().next().expect("a run")).expect("JSON");
    let step = format!("{}/1", run["id"].as_str().expect("an id"));
    let shown = project.piton(["show", &step]);
    let all: Vec<String> = (1..=60)
        .map(|number| format!("    test {number} failed\n"))
        .collect();
    let all = all.concat();
    assert!(
        shown
            .stdout()
            .contains(&format!("\nstdout:\n{all}\nstderr:\n    oops\n")),
        "{shown}"
    );
    let told: serde_json::Value =
        serde_json::from_str(&project.piton(["show", &step, "--format", "json"]).stdout())
            .expect("JSON");
    assert_eq!(told["output"]["stderr"], "oops\n");
}

#[test]
fn a_step_that_succeeds_keeps_its_output_to_itself() {
    let project = TestProject::new()
        .tool("check", "", "echo all good")
        .directive("release", ["check"])
        .committed();
    let ran = project.piton(["run", "release"]);
    assert_eq!(
        (ran.code(), ran.stderr().contains("all good")),
        (Some(0), false),
        "{ran}"
    );
}

#[test]
fn long_output_goes_through_the_pager_of_git_on_a_terminal_only() {
    let project = failing()
        .variable("TERM", "xterm")
        .variable("GIT_PAGER", "sed 's/^/paged: /'");
    project.piton(["run", "release"]);
    let page = at_a_terminal(&project, &json!([]), &["log"]).seen;
    assert!(
        page.contains("paged: ") && page.contains("directive release"),
        "{page:?}"
    );
    assert!(page.contains("\u{1b}[31mfailed"), "{page:?}");
    for words in [&["log", "--no-pager"][..], &["log", "--format", "json"]] {
        let plain = at_a_terminal(&project, &json!([]), words).seen;
        assert!(!plain.contains("paged: "), "{plain:?}");
    }
    let piped = project.piton(["log"]).stdout();
    assert!(
        !piped.contains("paged: ") && !piped.contains('\u{1b}'),
        "{piped:?}"
    );
}

#[test]
fn core_pager_counts_after_the_variable() {
    let project = failing()
        .variable("TERM", "xterm")
        .variable("PAGER", "sed 's/^/other: /'");
    project.piton(["run", "release"]);
    project.git(["config", "core.pager", "sed 's/^/configured: /'"]);
    let page = at_a_terminal(&project, &json!([]), &["status"]).seen;
    assert!(page.contains("configured: no run waits here"), "{page:?}");
}
