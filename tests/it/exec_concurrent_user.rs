//! `piton exec` while a user works in the same repository: the user's changes stay the user's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::crash::leftover::{awaited, is_alive};
use crate::harness::{MEETING, Ran, TestProject, cmd_snapshot};

fn project() -> TestProject {
    TestProject::new()
        .file("its.txt", "one\n")
        .file("mine.txt", "one\n")
        .file("moved.txt", "moved\n")
        .file("gone.txt", "gone\n")
        .file("bits.txt", "bits\n")
        .committed()
        .ticking()
}

/// Every kind of edit by the user: a change, a new file, a deletion, a rename, permission bits, an
/// empty folder.
const USER: &str = "echo user >> mine.txt; echo user > new.txt; rm gone.txt; mv moved.txt renamed.txt; \
                    chmod 700 bits.txt; mkdir hollow";

/// The output of `git status` after [`USER`] in an otherwise unchanged repository.
const USERS_STATUS: &str =
    " M bits.txt\n D gone.txt\n M mine.txt\n D moved.txt\n?? new.txt\n?? renamed.txt\n";

/// Runs a command that changes its file, waits for the user, and then continues with `end`.
fn beside(project: &TestProject, user: &str, end: &str) -> Ran {
    let script = format!("echo step >> its.txt; echo step > made.txt; {MEETING}; {end}");
    project.piton_while(
        user,
        ["--format", "json", "exec", "--", "sh", "-c", &script],
    )
}

fn events(ran: &Ran, kind: &str) -> Vec<Value> {
    let lines = ran.stdout();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    events.filter(|event| event["type"] == kind).collect()
}

fn mode(project: &TestProject, name: &str) -> u32 {
    fs::metadata(project.root().join(name))
        .expect("a file")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn f1_what_the_user_does_meanwhile_survives_a_roll_back() {
    let project = project();
    let ran = beside(&project, USER, "echo late >> its.txt; exit 1");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        USERS_STATUS,
        "{ran}"
    );
    assert_eq!(
        [project.read("its.txt"), project.read("mine.txt")],
        ["one\n", "one\nuser\n"]
    );
    assert_eq!(
        [project.read("new.txt"), project.read("renamed.txt")],
        ["user\n", "moved\n"]
    );
    assert_eq!(
        (
            mode(&project, "bits.txt"),
            project.root().join("hollow").is_dir()
        ),
        (0o700, true)
    );
    let outside = json!([
        "bits.txt",
        "gone.txt",
        "hollow",
        "mine.txt",
        "moved.txt",
        "new.txt",
        "renamed.txt"
    ]);
    assert_eq!(
        events(&ran, "changes_found")[0]["outside"],
        outside,
        "{ran}"
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn f1_what_the_user_does_meanwhile_is_not_swept_into_the_commit() {
    let project = project();
    let ran = beside(&project, USER, "echo late >> its.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "--name-status", "--format=", "HEAD"]),
        "M\tits.txt\nA\tmade.txt\n",
        "{ran}"
    );
    assert_eq!(
        project.git(["status", "--porcelain"]),
        USERS_STATUS,
        "{ran}"
    );
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(
        project.git(["status", "--porcelain"]),
        USERS_STATUS,
        "{ran}"
    );
    assert_eq!(
        [project.read("its.txt"), project.read("mine.txt")],
        ["one\n", "one\nuser\n"]
    );
    assert!(!project.root().join("made.txt").exists());
}

#[test]
fn f1_the_user_is_told_what_was_left_alone() {
    let project = project();
    let script = format!("echo step >> its.txt; {MEETING}; exit 1");
    let ran = project.piton_while(
        "echo user >> mine.txt; touch new.txt",
        ["exec", "--", "sh", "-c", &script],
    );
    cmd_snapshot!(ran, @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    changed by another process meanwhile and left alone: `mine.txt`, `new.txt`
    ✗ rolled back 1 file
    error: `sh` exited with status 1 [COMMAND_FAILED]
    hint: see what it did with `piton show 01kdyabkw0000e485875xhvkdf`
    ");
}

#[test]
fn what_the_user_stages_meanwhile_stays_staged() {
    for (end, status) in [("exit 1", "M  mine.txt\n"), ("exit 0", "M  mine.txt\n")] {
        let project = project();
        let ran = beside(&project, "echo user >> mine.txt; git add mine.txt", end);
        assert_eq!(
            project.git(["status", "--porcelain"]),
            status,
            "{end} {ran}"
        );
    }
}

/// A file that both change counts as the step's, as with tools: it is rolled back or committed as a
/// whole, and the user's version can still be shown.
#[test]
fn a_file_that_both_change_belongs_to_the_step_and_the_users_version_can_be_shown() {
    for edit in [
        "echo user >> its.txt",
        "echo user > its.new; mv its.new its.txt",
    ] {
        let project = project();
        let ran = beside(&project, edit, "exit 1");
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert_eq!(project.read("its.txt"), "one\n", "{edit} {ran}");
        let log = project.piton(["log", "--format", "json"]).json();
        let lost = format!("its.txt@{}/1", log["id"].as_str().expect("an id"));
        assert!(
            project.piton(["show", &lost]).stdout().ends_with("user\n"),
            "{edit}"
        );
        let kept = self::project();
        let ran = beside(&kept, edit, "exit 0");
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(
            kept.git(["show", "HEAD:its.txt"]).ends_with("user\n"),
            "{edit} {ran}"
        );
    }
}

/// Every way in which shells and programs change a file, by the command itself and by its children.
#[test]
fn every_kind_of_write_by_the_command_is_attributed_to_it() {
    let project = TestProject::new();
    project.bash(
        "mkdir -p d deep/er; for n in 1 2 3 4 5 6 7 8 9; do echo $n > f$n; done; echo x > d/x; echo y > deep/er/y",
    );
    let project = project.committed();
    let script = "echo x > f1; echo x >> f2; rm f3; mv f4 g4; chmod +x f5; ln -sf nowhere f6; sed -i s/7/x/ f7; \
         truncate -s 0 f8; mv d e; rm -r deep; \
         python3 -c 'import os; os.replace(\"f9\", \"g9\"); open(\"py\", \"w\").write(\"x\")'; \
         (setsid sh -c 'echo x > daemon' ); git mv e h; mkdir empty; exit 1";
    let ran = project.exec(script);
    assert_eq!(ran.code(), Some(1), "{ran}");
    project.assert_clean();
    assert!(!project.root().join("empty").exists());
}

#[test]
fn a_command_that_left_its_work_to_a_server_needs_unwatched() {
    // The user's shell stands for a server that was running before; the command only sends a
    // request.
    let served = "echo served >> mine.txt";
    let project = project();
    let ran = beside(&project, served, "exit 0");
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "its.txt\nmade.txt\n",
        "{ran}"
    );
    let project = self::project();
    let script = format!("echo step >> its.txt; {MEETING}");
    let ran = project.piton_while(served, ["exec", "--unwatched", "--", "sh", "-c", &script]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "its.txt\nmine.txt\n",
        "{ran}"
    );
    let script = format!("echo step >> its.txt; {MEETING}; exit 4");
    let ran = project.piton_while(served, ["exec", "--unwatched", "--", "sh", "-c", &script]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    project.assert_clean();
}

#[test]
fn a_write_outside_the_globs_by_the_user_is_no_violation() {
    let project = project();
    let script = format!("echo step >> its.txt; {MEETING}");
    let command = ["exec", "--writes", "its.txt", "--", "sh", "-c", &script];
    let ran = project.piton_while("echo user >> mine.txt", command);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M mine.txt\n",
        "{ran}"
    );
}

/// A command that keeps changing files, and a child that has left its session and cleared its
/// environment.
fn endless(tmp: &Path) -> String {
    format!(
        "env -i /usr/bin/env setsid bash -c 'echo $$ > \"$0\"/escaped; while :; do echo x >> far.txt; sleep 0.02; done' \
         '{0}' & echo begun > begun.txt; rm gone.txt; echo $$ > '{0}/leader'; \
         while :; do echo x >> its.txt; sleep 0.02; done",
        tmp.display()
    )
}

#[test]
fn f14_a_killed_exec_takes_its_whole_command_with_it_and_recover_rolls_the_step_back() {
    let project = project();
    let tmp = project.root().with_file_name("tmp");
    let script = endless(&tmp);
    let mut command = project.command(["exec", "--", "bash", "-c", &script]);
    let mut piton = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    let pids = [awaited(&tmp.join("leader")), awaited(&tmp.join("escaped"))];
    awaited(&project.root().join("far.txt"));
    project.bash("echo user >> mine.txt; echo user > new.txt");
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        pids.map(|pid| is_alive(&pid)),
        [false, false],
        "the command still runs"
    );
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M mine.txt\n?? new.txt\n",
        "{ran}"
    );
    assert_eq!(project.read("mine.txt"), "one\nuser\n");
    project.git(["fsck", "--full", "--strict"]);
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

/// No further command is run: the supervisor ends the command by itself.
#[test]
fn f14_no_process_is_left_even_without_a_recovery() {
    let project = project();
    let tmp = project.root().with_file_name("tmp");
    let mut command = project.command(["exec", "--", "bash", "-c", &endless(&tmp)]);
    let mut piton = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    let pids = [awaited(&tmp.join("leader")), awaited(&tmp.join("escaped"))];
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while pids.iter().any(|pid| is_alive(pid)) {
        assert!(
            std::time::Instant::now() < deadline,
            "the command outlives piton"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_command_that_kills_its_supervisor_is_rolled_back_without_the_users_work() {
    let project = project();
    let tmp = project.root().with_file_name("tmp");
    let script = format!(
        "echo step >> its.txt; setsid sh -c 'echo $$ > \"$0\"/escaped; exec sleep 600' '{}' & {MEETING}; \
         while [ ! -s '{}/escaped' ]; do sleep 0.01; done; kill -KILL $PPID; sleep 600",
        tmp.display(),
        tmp.display()
    );
    let ran = project.piton_while(
        USER,
        ["--format", "json", "exec", "--", "sh", "-c", &script],
    );
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        events(&ran, "run_finished")[0]["error"]["code"],
        "SUPERVISOR_FAILED",
        "{ran}"
    );
    assert!(!is_alive(&awaited(&tmp.join("escaped"))), "{ran}");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        USERS_STATUS,
        "{ran}"
    );
}

#[test]
fn input_and_output_of_the_command_are_those_of_piton() {
    let project = project();
    let mut command = project.command([
        "exec",
        "--",
        "sh",
        "-c",
        "cat > its.txt; echo out; echo err >&2",
    ]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("piton starts");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, b"typed\n").expect("a pipe");
    drop(input);
    let ran = project.ran(child.wait_with_output().expect("an end"));
    assert_eq!(
        (ran.code(), ran.stdout()),
        (Some(0), "out\n".to_owned()),
        "{ran}"
    );
    assert!(ran.stderr().starts_with("err\n"), "{ran}");
    assert_eq!(project.git(["show", "HEAD:its.txt"]), "typed\n");
}

#[test]
fn a_file_that_the_shell_redirects_the_output_to_is_the_users() {
    let project = project();
    for (exit, status) in [(4, "?? out.txt\n"), (0, "?? out.txt\n")] {
        let script = format!("echo said; echo step >> its.txt; exit {exit}");
        let line = format!(
            "'{}' -q exec -- sh -c '{script}' > out.txt",
            env!("CARGO_BIN_EXE_piton")
        );
        let ended = project
            .hermetic("bash", &project.root())
            .args(["-c", &line])
            .status()
            .expect("bash starts");
        assert_eq!(ended.code(), Some(exit));
        assert_eq!(
            (
                project.read("out.txt").as_str(),
                project.git(["status", "--porcelain"]).as_str()
            ),
            ("said\n", status)
        );
    }
}

/// The command inherits the signals, limits and descriptors that a caller such as `nohup` has set.
#[test]
fn the_command_inherits_what_its_caller_ignores_and_limits() {
    let project = project();
    // The C library ignores its internal signals 32 and 33 in children that it starts with `posix_spawn`.
    let script = "ignored=$(grep SigIgn /proc/self/status | tail -c 9); echo $((0x$ignored & 0x7fffffff)); \
                  grep SigBlk /proc/self/status; ulimit -c; ulimit -n";
    let run = |prefix: &str, exec: &str| {
        let all = format!("{prefix} {exec} sh -c '{script}'");
        let mut command = project.hermetic("bash", &project.root());
        let output = command.args(["-c", &all]).output().expect("bash starts");
        String::from_utf8(output.stdout).expect("text")
    };
    let prefix = "trap '' HUP USR1; ulimit -c 0; ulimit -n 77;";
    let exec = format!("'{}' -q exec --", env!("CARGO_BIN_EXE_piton"));
    assert_eq!(run(prefix, &exec), run(prefix, "env"));
    assert_eq!(run("", &exec), run("", "env"));
}
