//! A person who works in the repository while a tool runs: the person's changes stay theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::harness::{Ran, TestProject};

/// Waits in the middle, so that a person can do something.
const WAITING: &str = "echo t >> tool.txt; touch \"$TMPDIR/ready\"; while [ ! -e \"$TMPDIR/go\" ]; do sleep 0.02; done";

/// Runs a tool in auto mode and lets a person act in the middle of it.
fn beside(project: &TestProject, tool: &str, act: impl Fn(&Path)) -> Ran {
    let tmp = project.root().parent().expect("a sandbox").join("tmp");
    let mut command = project.command([
        "tool",
        "run",
        tool,
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("piton starts");
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !tmp.join("ready").exists() {
        assert!(
            std::time::Instant::now() < deadline,
            "the tool never came to its middle"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    act(&project.root());
    fs::write(tmp.join("go"), "").expect("a file");
    project.ran(child.wait_with_output().expect("an end"))
}

#[test]
fn what_a_person_stages_meanwhile_stays_staged_when_the_tool_is_rolled_back() {
    let project = TestProject::new()
        .tool("fails", "", &format!("{WAITING}; exit 1"))
        .file("mine.txt", "one\n")
        .file("other.txt", "other\n")
        .committed();
    let ran = beside(&project, "fails", |root| {
        fs::write(root.join("mine.txt"), "two\n").expect("a file");
        project.git(["add", "mine.txt"]);
        fs::write(root.join("mine.txt"), "three\n").expect("a file");
        project.git(["rm", "--quiet", "--cached", "other.txt"]);
    });
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "MM mine.txt\nD  other.txt\n?? other.txt\n",
        "{ran}"
    );
    assert_eq!(project.git(["show", ":mine.txt"]), "two\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn an_undo_keeps_what_a_person_committed_meanwhile() {
    let project = TestProject::new()
        .tool("works", "", WAITING)
        .file("mine.txt", "one\n")
        .committed();
    let ran = beside(&project, "works", |root| {
        fs::write(root.join("mine.txt"), "two\n").expect("a file");
        project.git(["commit", "--quiet", "--message", "mine", "mine.txt"]);
    });
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(project.read("mine.txt"), "two\n");
    assert_eq!(project.git(["status", "--porcelain"]), "");
    assert_eq!(project.git(["show", "HEAD:mine.txt"]), "two\n");
}

#[test]
fn permission_bits_and_empty_folders_of_others_survive_a_roll_back() {
    let project = TestProject::new()
        .tool(
            "fails",
            "",
            &format!("{WAITING}; mkdir its_own; chmod 600 its.txt; exit 1"),
        )
        .file("key", "secret\n")
        .file("its.txt", "x\n")
        .committed();
    let ran = beside(&project, "fails", |root| {
        fs::set_permissions(root.join("key"), fs::Permissions::from_mode(0o600)).expect("bits");
        fs::create_dir(root.join("mine")).expect("a folder");
    });
    assert_eq!(
        ran.last_json()["outside_changes"],
        json!(["key", "mine"]),
        "{ran}"
    );
    let bits = |name: &str| {
        fs::metadata(project.root().join(name))
            .expect("a file")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((bits("key"), bits("its.txt")), (0o600, 0o644));
    assert!(project.root().join("mine").is_dir());
    assert!(!project.root().join("its_own").exists());
}

#[test]
fn files_that_a_parser_writes_belong_to_the_tool() {
    let project = TestProject::new()
        .tool(
            "par",
            "writes: ['out/**']\noutputs: {parser: leaky}",
            "echo x",
        )
        .file(
            ".ai/parsers/leaky.py",
            "def parse(content):\n    open('stray.txt', 'w').write('x')\n    return {}\n",
        )
        .committed();
    let ran = project.piton([
        "tool",
        "run",
        "par",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(ran.last_json()["denied_paths"], json!(["stray.txt"]));
    assert!(!project.root().join("stray.txt").exists());
}

#[test]
fn an_invalid_directive_is_refused() {
    let directive = "# d\n\n```xml\n<directive name=\"d\" version=\"1.0.0\">\n  <metadata>\n    <permissions>\n      \
                     <execute resource=\"tool\" id=\"*\"/>\n      <write resource=\"filesystem\" path=\"**\"/>\n      \
                     <deny><write resource=\"filesystem\" path=\"/src/**\"/></deny>\n    </permissions>\n  </metadata>\n  \
                     <process>\n    <step name=\"s\"><action>x</action></step>\n  </process>\n</directive>\n```\n";
    let project = TestProject::new()
        .tool("t", "", "mkdir -p src; echo x > src/z")
        .file(".ai/directives/d.md", directive)
        .committed();
    let ran = project.piton(["tool", "run", "t", "--as", "d", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(!project.root().join("src").exists());
}

#[test]
fn a_hook_in_the_work_tree_that_the_tool_rewrote_does_not_run() {
    let project = TestProject::new()
        .tool(
            "t",
            "",
            "printf '#!/bin/sh\\ntouch \"$PWD/../ran\"\\n' > .githooks/pre-commit; echo x > f.txt",
        )
        .file(".githooks/pre-commit", "#!/bin/sh\nexit 0\n")
        .committed();
    project.bash(
        "chmod +x .githooks/pre-commit; git commit --quiet --all --message x; git config core.hooksPath .githooks",
    );
    let ran = project.piton([
        "tool",
        "run",
        "t",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        ran.last_json()["git_changed"],
        json!([".git/hooks/pre-commit"]),
        "{ran}"
    );
    assert!(
        !project
            .root()
            .parent()
            .expect("a sandbox")
            .join("ran")
            .exists()
    );
}

#[test]
fn a_mode_or_a_large_file_outside_of_the_promise_is_denied() {
    let script =
        "mkdir -p out; echo x > out/a; chmod 600 kept.txt; head -c 12000000 /dev/zero > big.bin";
    let project = TestProject::new()
        .tool("t", "writes: ['out/**']", script)
        .file("kept.txt", "x\n")
        .committed();
    let ran = project.piton([
        "tool",
        "run",
        "t",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(
        ran.last_json()["denied_paths"],
        json!(["big.bin", "kept.txt"]),
        "{ran}"
    );
    assert!(!project.root().join("out").exists());
    assert!(
        project.root().join("big.bin").exists(),
        "what no snapshot holds is never deleted"
    );
}

#[test]
fn an_interrupt_while_a_parser_runs_is_an_interrupt_of_the_call() {
    let parser = "import os, time\ndef parse(content):\n    open(os.environ['TMPDIR'] + '/ready', 'w').close()\n    time.sleep(600)\n";
    let project = TestProject::new()
        .tool(
            "par",
            "outputs: {parser: slow}",
            "echo x > made.txt; echo x",
        )
        .file(".ai/parsers/slow.py", parser)
        .committed();
    let tmp = project.root().parent().expect("a sandbox").join("tmp");
    let mut command = project.command([
        "tool",
        "run",
        "par",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    let child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("piton starts");
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !tmp.join("ready").exists() {
        assert!(
            std::time::Instant::now() < deadline,
            "the parser never began"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("an id");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    let ran = project.ran(child.wait_with_output().expect("an end"));
    assert_eq!(
        (ran.code(), &ran.last_json()["status"]),
        (Some(130), &json!("cancelled")),
        "{ran}"
    );
    assert!(!project.root().join("made.txt").exists());
}

#[test]
fn a_directive_that_does_not_exist_is_not_called_a_tool() {
    let project = TestProject::new().tool("t", "", "true").committed();
    let ran = project.piton(["tool", "run", "t", "--as", "nobody", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["error"]),
        (Some(2), &json!("Directive not found")),
        "{ran}"
    );
}

const EDITS: &str = "echo mine >> mine.txt; echo new > new.txt; echo later >> a.txt; mkdir own; chmod 600 other.txt";
const EDITED: &str = " M a.txt\n M mine.txt\n?? new.txt\n";

/// A step that appended a line to `a.txt`, made `made.txt` and removed `gone.txt`.
fn with_a_step(mode: &str) -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .file("gone.txt", "gone\n")
        .file("mine.txt", "one\n")
        .file("other.txt", "other\n")
        .committed();
    let script = "echo step >> a.txt; echo made > made.txt; rm gone.txt";
    let ran = project.piton(["exec", "--checkpoint", mode, "--", "sh", "-c", script]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    project
}

fn assert_edits_are_there(project: &TestProject) {
    assert_eq!(project.read("mine.txt"), "one\nmine\n");
    assert_eq!(project.read("new.txt"), "new\n");
    assert!(project.root().join("own").is_dir());
    let mode = fs::metadata(project.root().join("other.txt")).expect("a file");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_a_person_edits_during_an_undo_stays_theirs() {
    for mode in ["auto", "explicit"] {
        let project = with_a_step(mode);
        let child = project.stopped_at(&["undo"], "undo-applied");
        project.bash(EDITS);
        let ran = project.continued(child);
        assert_eq!(ran.code(), Some(0), "{mode}: {ran}");
        assert_eq!(project.git(["show", "HEAD:a.txt"]), "a\n", "{mode}: {ran}");
        assert_eq!(project.git(["show", "HEAD:mine.txt"]), "one\n", "{mode}");
        assert_eq!(project.read("a.txt"), "a\nlater\n", "{mode}");
        assert_eq!(
            project.git(["status", "--porcelain"]),
            EDITED,
            "{mode}: {ran}"
        );
        assert_edits_are_there(&project);
        assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
        // The undo is recorded without the edits, and can be taken back around them.
        project.bash("git checkout -q a.txt");
        let ran = project.piton(["redo"]);
        assert_eq!(ran.code(), Some(0), "{mode}: {ran}");
        assert_eq!(project.read("a.txt"), "a\nstep\n", "{mode}");
        assert_edits_are_there(&project);
    }
}

#[test]
fn what_a_person_stages_during_an_undo_stays_theirs() {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .file("mine.txt", "one\n")
        .committed();
    let script = "echo step >> a.txt; git add a.txt";
    let ran = project.piton(["exec", "--checkpoint", "explicit", "--", "sh", "-c", script]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let child = project.stopped_at(&["undo"], "undo-applied");
    project.bash("echo mine >> mine.txt; git add mine.txt; echo new > new.txt; git add -N new.txt");
    let ran = project.continued(child);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let staged = "M  mine.txt\n A new.txt\n";
    assert_eq!(project.git(["status", "--porcelain"]), staged, "{ran}");
    let ran = project.piton(["redo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        format!("M  a.txt\n{staged}"),
        "{ran}"
    );
}

#[test]
fn what_a_person_edits_during_a_restore_stays_theirs() {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .file("mine.txt", "one\n")
        .committed();
    let exec = |script: &str| {
        let ran = project.exec(script);
        assert_eq!(ran.code(), Some(0), "{ran}");
    };
    exec("echo first >> a.txt");
    let log = project.piton(["log", "--format", "json"]).stdout();
    let run: serde_json::Value =
        serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
    let step = run["steps"][0]["id"].as_str().expect("a step").to_owned();
    exec("echo second >> a.txt");
    let child = project.stopped_at(&["restore", &step], "undo-applied");
    project.bash("echo mine >> mine.txt; echo new > new.txt");
    let ran = project.continued(child);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "a\nfirst\n");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M mine.txt\n?? new.txt\n"
    );
}

#[test]
fn what_a_person_edits_during_an_undo_stays_when_the_undo_is_killed() {
    let project = with_a_step("auto");
    let mut child = project.stopped_at(&["undo"], "undo-applied");
    project.bash("echo mine >> mine.txt; echo new > new.txt; mkdir own; chmod 600 other.txt");
    child.kill().expect("it is killed");
    child.wait().expect("it has ended");
    let ran = project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M mine.txt\n?? new.txt\n",
        "the undo did not happen: {ran}"
    );
    assert_eq!(project.read("a.txt"), "a\nstep\n");
    assert_edits_are_there(&project);
}
