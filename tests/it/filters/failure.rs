//! Filters that fail, hang or are missing, and filters that a tool tries to install.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::{exec, upper};
use crate::harness::TestProject;

fn failing(required: bool) -> TestProject {
    let project = upper("*.up filter=up\n");
    project.bash(&format!(
        "git config filter.up.clean 'echo no paper >&2; exit 3'; git config filter.up.required {required}"
    ));
    project
}

#[test]
fn a_required_filter_that_fails_refuses_the_checkpoint_and_keeps_the_files() {
    let project = failing(true);
    let ran = project.exec("echo p >> plain.txt; echo two > a.up; echo b > b.up");
    assert_eq!(ran.code(), Some(1), "{ran}");
    let said = ran.stderr();
    assert!(
        said.contains("`filter=up` failed on `a.up`") && said.contains("no paper"),
        "{said}"
    );
    assert!(
        said.contains("[FILTER_FAILED]") && said.contains("git add a.up"),
        "{said}"
    );
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
    assert_eq!(project.read("a.up"), "two\n", "the changes stay on disk");
    // Once the filter works, the checkpoint can be made.
    project.bash("git config filter.up.clean 'tr a-z A-Z'");
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD:b.up"]), "B\n");
    project.assert_clean();
}

#[test]
fn a_filter_that_may_fail_leaves_the_content_and_a_warning() {
    let project = failing(false);
    let ran = exec(&project, "echo two > a.up");
    assert_eq!(
        project.git(["show", "HEAD:a.up"]),
        "two\n",
        "as git stores it"
    );
    assert!(
        ran.stderr().contains("git said while it converted files")
            && ran.stderr().contains("no paper"),
        "{ran}"
    );
}

#[test]
fn a_missing_program_is_reported_by_its_name() {
    let project = upper("*.up filter=up\n");
    project.bash(
        "git config filter.up.process 'git-lsf filter-process'; git config filter.up.required true",
    );
    let ran = project.exec("echo two > a.up");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr()
            .contains("`git-lsf` is not on the search path: install it"),
        "{ran}"
    );
}

#[test]
fn a_failing_filter_does_not_stop_a_roll_back_or_an_undo_of_other_files() {
    let project = upper("*.up filter=up\n");
    exec(&project, "echo p >> plain.txt");
    project.bash(
        "git config filter.up.clean false; git config filter.up.smudge false; git config filter.up.required true",
    );
    let ran = project.exec("echo two > a.up; rm plain.txt; exit 1");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        (
            project.read("a.up").as_str(),
            project.read("plain.txt").as_str()
        ),
        ("one\n", "plain\np\n")
    );
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("plain.txt"), "plain\n");
}

#[test]
fn a_slow_filter_ends_with_piton() {
    let project = upper("*.up filter=up\n");
    let fifo = project.home().join("fifo");
    project.bash(&format!("mkfifo '{}'", fifo.display()));
    project.bash(&format!(
        "git config filter.up.clean 'echo $$ > \"{}\"; exec sleep 600'",
        fifo.display()
    ));
    let mut command = project.command(["exec", "--", "sh", "-c", "echo two > a.up"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("piton starts");
    let mut pid = String::new();
    BufReader::new(std::fs::File::open(&fifo).expect("the filter runs"))
        .read_line(&mut pid)
        .expect("its number");
    let id = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a process");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("a signal");
    let ran = project.ran(child.wait_with_output().expect("piton ends"));
    assert_eq!(ran.code(), Some(130), "{ran}");
    assert!(
        ran.stderr()
            .contains("interrupted while a filter converted files"),
        "{ran}"
    );
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .unwrap_or_else(|_| ") Z".to_owned());
    assert!(
        state
            .rsplit(") ")
            .next()
            .is_some_and(|state| state.starts_with('Z')),
        "the filter is gone: {state}"
    );
    assert_eq!(project.read("a.up"), "two\n");
    project.bash("git config filter.up.clean 'tr a-z A-Z'");
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD:a.up"]), "TWO\n");
}

#[test]
fn a_filter_ends_with_a_piton_that_is_killed() {
    let project = upper("*.up filter=up\n");
    let fifo = project.home().join("fifo");
    project.bash(&format!("mkfifo '{}'", fifo.display()));
    project.bash(&format!(
        "git config filter.up.clean 'echo $$ > \"{}\"; exec sleep 600'",
        fifo.display()
    ));
    let mut command = project.command(["exec", "--", "sh", "-c", "echo two > a.up"]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    let mut pid = String::new();
    BufReader::new(std::fs::File::open(&fifo).expect("the filter runs"))
        .read_line(&mut pid)
        .expect("its number");
    child.kill().expect("a signal");
    child.wait().expect("piton ends");
    let is_gone = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
            .unwrap_or_else(|_| ") Z".to_owned());
        state
            .rsplit(") ")
            .next()
            .is_some_and(|state| state.starts_with('Z'))
    };
    let tries = (0..500).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        is_gone()
    });
    assert!(
        tries.is_some(),
        "the filter {} is still at work",
        pid.trim()
    );
    project.bash("git config filter.up.clean 'tr a-z A-Z'");
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn a_commit_that_was_interrupted_is_finished_or_undone() {
    for failpoint in [
        "after-taken",
        "commit-published",
        "commit-prepared",
        "commit-decided",
        "commit-ref-moved",
    ] {
        let project = upper("*.up filter=up\n");
        let mut command =
            project.command(["exec", "--", "sh", "-c", "echo two > a.up; echo b > b.up"]);
        let ran = project.ran(
            command
                .env("PITON_FAILPOINT", failpoint)
                .output()
                .expect("piton starts"),
        );
        assert_ne!(ran.code(), Some(0), "{failpoint}: {ran}");
        let ran = project.piton(["recover"]);
        assert_eq!(ran.code(), Some(0), "{failpoint}: {ran}");
        let has_it = project.git(["rev-list", "--count", "HEAD"]) == "2\n";
        let (disk, stored) = if has_it {
            ("two\n", "TWO\n")
        } else {
            ("one\n", "ONE\n")
        };
        assert_eq!(
            (
                project.read("a.up").as_str(),
                project.git(["show", "HEAD:a.up"]).as_str()
            ),
            (disk, stored)
        );
        project.assert_clean();
        assert_eq!(project.bash("ls .git/piton/tmp"), "", "{failpoint}");
    }
}

#[test]
fn a_tool_cannot_bring_the_program_of_a_filter_along() {
    for script in [
        "git config filter.up.clean 'touch ../sprung; cat'; echo two > a.up",
        "echo 'touch ../sprung; cat' > clean.sh; echo two > a.up",
    ] {
        let project = TestProject::new()
            .file(".gitattributes", "*.up filter=up\n")
            .file("a.up", "one\n")
            .file("clean.sh", "cat\n")
            .tool("sly", "mutates_state: true\nisolation: trusted", script)
            .committed();
        project.bash("git config filter.up.clean 'sh ./clean.sh'");
        let ran = project.piton(["tool", "run", "sly", "--checkpoint", "auto"]);
        assert!(
            ran.stderr().contains("FILTER_CHANGED") || ran.stdout().contains("FILTER_CHANGED"),
            "{script}: {ran}"
        );
        assert!(
            !project.root().with_file_name("sprung").exists(),
            "{script}"
        );
        assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
    }
}

#[test]
fn a_filter_that_one_step_changed_does_not_run_after_the_next() {
    for script in [
        "git config filter.up.clean 'touch ../sprung; cat'; echo p >> plain.txt",
        "echo 'touch ../sprung; cat' > clean.sh",
    ] {
        for mode in ["auto", "explicit"] {
            let project = TestProject::new()
                .file(".gitattributes", "*.up filter=up\n")
                .file("a.up", "one\n")
                .file("plain.txt", "plain\n")
                .file("clean.sh", "cat\n")
                .tool("sly", "mutates_state: true\nisolation: trusted", script)
                .tool("plain", "mutates_state: true", "echo two > a.up")
                .directive("both", ["sly", "plain"])
                .committed();
            project.bash("git config filter.up.clean 'sh ./clean.sh'");
            let ran = project.piton(["run", "both", "--checkpoint", mode]);
            assert!(
                ran.to_string().contains("FILTER_CHANGED"),
                "{mode}: {script}: {ran}"
            );
            assert!(
                !project.root().with_file_name("sprung").exists(),
                "{mode}: {script}"
            );
        }
    }
}
