//! What the levels `sandboxed` and `restricted` take away from a tool, beyond `standard`.

use std::fs;
use std::path::PathBuf;

use super::{greeting, outside};
use crate::harness::{Ran, TestProject};
use crate::hazards::unprivileged::Unprivileged;

/// A project that lies in the home of the user, with secrets beside it.
fn at_home() -> (TestProject, PathBuf) {
    let project = TestProject::new().file("kept.txt", "kept\n");
    let home = outside(&project);
    fs::create_dir(home.join(".ssh")).expect("a folder");
    fs::write(home.join(".ssh/id"), "key\n").expect("a file");
    let project = project.variable("HOME", &home.to_string_lossy());
    (project, home)
}

fn sandboxed(project: TestProject, name: &str, script: &str) -> TestProject {
    project.tool(name, "isolation: sandboxed", &format!("set -e\n{script}\n"))
}

fn run(project: &TestProject, user: Option<&Unprivileged>, tool: &str) -> Ran {
    let words = ["tool", "run", tool, "--checkpoint", "auto"];
    match user {
        None => project.piton(words),
        Some(user) => user.piton(project, &words),
    }
}

#[test]
fn a_sandboxed_tool_does_not_see_the_home_of_the_user() {
    let (mut project, home) = at_home();
    let home = home.display();
    let refused = [
        ("key", format!("cat {home}/.ssh/id")),
        ("folder", format!("ls {home}/.ssh")),
        (
            "unmount",
            format!("umount {home} || true; cat {home}/.ssh/id"),
        ),
        (
            "namespace",
            format!("unshare -rm sh -c 'umount {home} || true; cat {home}/.ssh/id'"),
        ),
        ("other_root", format!("cat /proc/$PPID/root{home}/.ssh/id")),
        ("write", format!("echo x > {home}/new")),
        ("mode", format!("chmod 700 {home}")),
        ("git", "echo x >> .git/config".to_owned()),
        ("items", "echo x > .ai/new".to_owned()),
    ];
    for (name, script) in &refused {
        project = sandboxed(project, name, script);
    }
    let listed = format!("test \"$(ls -A {home} | tr '\\n' ' ')\" = \"$EXPECTED\"");
    project = sandboxed(
        project,
        "listed",
        &listed.replace("$EXPECTED", "project tmp "),
    );
    project = sandboxed(
        project,
        "work",
        "git log --oneline; git status --short; echo x > made.txt; f=$(mktemp); mv $f moved.txt; : > /dev/null",
    );
    project = project
        .tool("standard", "", &format!("cat {home}/.ssh/id"))
        .committed();
    for user in [None, Some(Unprivileged::someone())] {
        for (name, script) in &refused {
            let ran = run(&project, user.as_ref(), name);
            assert_eq!(ran.code(), Some(1), "{script}\n{ran}");
            assert!(!ran.to_string().contains("key\n"), "{ran}");
        }
        let ran = run(&project, user.as_ref(), "work");
        assert_eq!(ran.code(), Some(0), "{ran}");
        let ran = run(&project, user.as_ref(), "standard");
        assert_eq!(ran.code(), Some(0), "{ran}");
        if user.is_none() {
            let ran = run(&project, None, "listed");
            assert_eq!(ran.code(), Some(0), "{ran}");
        }
    }
}

#[test]
fn the_parser_of_a_sandboxed_tool_does_not_see_the_home_either() {
    let (project, home) = at_home();
    let key = home.join(".ssh/id");
    let parser = format!(
        "def parse(content):\n    return {{'text': open('{}').read()}}\n",
        key.display()
    );
    let project = project
        .file(".ai/parsers/own.py", parser)
        .tool("standard", "outputs: {parser: own}", "echo x")
        .tool(
            "sandboxed",
            "isolation: sandboxed\noutputs: {parser: own}",
            "echo x",
        )
        .committed();
    let status = |tool| run(&project, None, tool).code();
    assert_eq!(status("standard"), Some(0));
    assert_eq!(status("sandboxed"), Some(1));
}

#[test]
fn a_sandboxed_tool_reads_the_git_directory_of_a_worktree_that_lies_in_the_home() {
    let (project, home) = at_home();
    let project = sandboxed(project, "log", "git log --oneline; git status --short").committed();
    project.git(["worktree", "add", "-q", "../linked"]);
    let project = project.within("../linked");
    let ran = project.piton(["tool", "run", "log"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(home.join("linked").is_dir());
}

#[test]
fn a_restricted_tool_has_no_network() {
    let (port, answer) = greeting();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let only_loopback = "test \"$(grep -c : /proc/net/dev)\" = 1; grep -q lo: /proc/net/dev";
    let project = TestProject::new()
        .tool("sandboxed", "isolation: sandboxed", &connect)
        .tool("restricted", "isolation: restricted", &connect)
        .tool("alone", "isolation: restricted", only_loopback)
        .committed();
    let exec = |level| {
        let words = ["exec", "--isolation", level, "--", "bash", "-c", &connect];
        project.piton(words).code()
    };
    assert_eq!(exec("sandboxed"), Some(0));
    assert_eq!(exec("restricted"), Some(1));
    for user in [None, Some(Unprivileged::someone())] {
        let status = |tool| run(&project, user.as_ref(), tool).code();
        assert_eq!(status("sandboxed"), Some(0));
        assert_eq!(status("restricted"), Some(1));
        assert_eq!(status("alone"), Some(0));
    }
    project.bash(&format!("printf end > /dev/tcp/127.0.0.1/{port}"));
    answer.join().expect("the listener ends");
}

#[test]
fn a_program_in_the_hidden_home_is_refused_before_the_step() {
    let (project, home) = at_home();
    fs::copy("/bin/true", home.join("own")).expect("a program");
    let own = home.join("own");
    let manifest = format!(
        "tool_id: own\ntool_type: cli\nversion: \"1.0.0\"\ndescription: A program at home\nexecutor: subprocess\n\
         isolation: sandboxed\nconfig: {{command: {}}}\n",
        own.display()
    );
    let project = project.file(".ai/tools/own.yaml", manifest).committed();
    let exec = ["exec", "--isolation", "restricted", "--"].map(str::to_owned);
    let exec = exec.into_iter().chain([own.display().to_string()]);
    for words in [
        vec!["tool".to_owned(), "run".to_owned(), "own".to_owned()],
        exec.collect(),
    ] {
        let ran = project.piton(&words);
        assert_eq!(ran.code(), Some(5), "{ran}");
        assert!(ran.stderr().contains("lies in your home folder"), "{ran}");
    }
}

#[test]
fn a_sandbox_that_cannot_be_given_is_refused_or_accepted_openly() {
    let project = TestProject::new()
        .tool("t", "isolation: restricted", "true")
        .committed();
    let told = |project: &TestProject, words: &[&str], support: &str| {
        let mut command = project.command(words);
        command.env("PITON_FAILPOINT", support);
        project.ran(command.output().expect("piton starts"))
    };
    let ran = told(&project, &["tool", "run", "t"], "isolation:sandbox=error");
    assert_eq!(ran.code(), Some(5), "{ran}");
    for act in ["reading your home folder", "the use of the network"] {
        assert!(ran.stderr().contains(act), "{ran}");
    }
    let accepted = ["tool", "run", "t", "--allow-degraded"];
    let ran = told(&project, &accepted, "isolation:sandbox=error");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        ran.stderr().matches("warning: isolation: ").count(),
        1,
        "{ran}"
    );
    // The same in a directive, in its plan, and for a command.
    let project = project
        .tool("u", "isolation: restricted", "true")
        .directive("d", ["t", "u"])
        .committed();
    for (words, code) in [
        (&["run", "d"][..], 5),
        (&["run", "d", "--dry-run"], 5),
        (&["exec", "--isolation", "sandboxed", "--", "true"], 5),
        (&["run", "d", "--allow-degraded"], 0),
    ] {
        let ran = told(&project, words, "isolation:sandbox=error");
        assert_eq!(ran.code(), Some(code), "{words:?} {ran}");
        let warnings = ran.stderr().matches("warning: isolation: ").count();
        assert_eq!(warnings, usize::from(code == 0), "{words:?} {ran}");
    }
    // A home that is the project cannot be hidden.
    let root = project.root().to_string_lossy().into_owned();
    let project = project.variable("HOME", &root);
    let ran = told(&project, &["tool", "run", "t", "-C", &root], "none");
    assert_eq!(ran.code(), Some(5), "{ran}");
}
