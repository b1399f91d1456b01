//! Files that git's settings include, and that are no files.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{Ran, TestProject};

/// Runs a command that must not wait for anything.
fn at_once(project: &TestProject, mut command: Command) -> Ran {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("piton starts");
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() >= deadline {
            child.kill().expect("killed");
            panic!("it waits");
        }
        sleep(Duration::from_millis(5));
    }
    project.ran(child.wait_with_output().expect("an end"))
}

#[test]
fn a_pipe_among_the_settings_of_git_is_refused_by_name() {
    for include in [
        "git config include.path ../.gitconfig",
        "git config include.path ../a.inc; printf '[include]\\n\\tpath = \".gitconfig\"\\n' > a.inc",
        "git config 'includeIf.gitdir:/nowhere/.path' \"$PWD/.gitconfig\"",
        "git config include.path '~/.gitconfig.pipe'; mkfifo ~/.gitconfig.pipe",
        "mv .git/config .gitconfig; ln -s ../.gitconfig .git/config; rm .gitconfig",
    ] {
        let project = TestProject::new().file("a.txt", "one\n").committed();
        project.bash(&format!("{include}; mkfifo .gitconfig"));
        for words in [
            vec!["exec", "--", "touch", "ran"],
            vec!["checkpoint"],
            vec!["hooks", "status"],
        ] {
            let ran = at_once(&project, project.command(&words));
            assert_ne!(ran.code(), Some(0), "{words:?} {ran}");
            let text = ran.to_string();
            let is_named = text.contains(".gitconfig") || text.contains(".git/config");
            assert!(
                text.contains("cannot read the settings of git in `")
                    && text.contains("not a regular file")
                    && is_named,
                "{include}: {words:?} {ran}"
            );
            assert!(!project.root().join("ran").exists(), "{ran}");
        }
    }
}

#[test]
fn ordinary_includes_are_followed() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash(
        "git config include.path ../more.inc; git config --add include.path missing
         git config --add include.path /dev/null; git config --add include.path ../more.inc
         printf '[user]\\n\\tname = Included\\n[include]\\n\\tpath = more.inc\\n\\tpath = folder\\n' > ../more.inc
         mv ../more.inc more.inc; sed -i '/path = more.inc/d;/path = folder/d' more.inc",
    );
    let ran = at_once(&project, project.command(["exec", "--", "touch", "made"]));
    assert_eq!(ran.code(), Some(0), "{ran}");
}
