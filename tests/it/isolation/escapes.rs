//! Ways out of a confinement that need more than one act.

use std::fs;
use std::path::Path;

use super::outside;
use crate::harness::TestProject;
use crate::hazards::unprivileged::Unprivileged;
use crate::run::terminal::at_a_terminal;

#[test]
fn a_project_below_the_temporary_folder_cannot_be_replaced() {
    // `.git` cannot be written, but a folder that can be moved takes it along.
    let script = "cd ..; mv project moved; cp -r moved project; echo x >> project/.git/config";
    let project = TestProject::new()
        .tool("replace", "", script)
        .tool("work", "", "echo x > made; f=$(mktemp); mv $f moved")
        .committed();
    let above = outside(&project).to_string_lossy().into_owned();
    let project = project.variable("TMPDIR", &above);
    let before = project.read(".git/config");
    for user in [None, Some(Unprivileged::someone())] {
        let run = |tool| {
            let words = ["tool", "run", tool, "--checkpoint", "auto"];
            match &user {
                None => project.piton(words),
                Some(user) => user.piton(&project, &words),
            }
        };
        let ran = run("replace");
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert!(!project.root().with_file_name("moved").exists(), "{ran}");
        assert_eq!(project.read(".git/config"), before, "{ran}");
        let ran = run("work");
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
}

#[test]
fn a_project_in_shared_memory_is_protected() {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let place = memory.path().join("project");
    let place = place.to_str().expect("a path");
    let replace =
        format!("cd /; mv {place} {place}2; cp -r {place}2 {place}; echo x >> {place}/.git/config");
    let project = TestProject::new()
        .tool("write", "", "echo x >> .git/config")
        .tool("replace", "", &replace)
        .tool(
            "work",
            "",
            "echo x > made; echo x > /dev/shm/piton-$$; rm /dev/shm/piton-$$",
        )
        .committed();
    project.bash(&format!("cp -a . {place}"));
    let config = project.read(".git/config");
    let project = project.within(place);
    for (tool, code) in [("write", 1), ("replace", 1), ("work", 0)] {
        let ran = project.piton(["tool", "run", tool, "--checkpoint", "auto"]);
        assert_eq!(ran.code(), Some(code), "{ran}");
        let now = fs::read_to_string(memory.path().join("project/.git/config"));
        assert_eq!(now.expect("a file"), config, "{ran}");
    }
}

#[test]
fn a_git_folder_deep_in_the_project_cannot_be_replaced() {
    let script = "mv meta moved; mkdir meta; cp -r moved/git meta; echo x >> meta/git/config";
    let project = TestProject::without_git().file(".gitignore", "/meta/\n/moved/\n");
    project.bash("mkdir -p meta/deep; git init -q --separate-git-dir meta/git .");
    let project = project
        .tool("replace", "", script)
        .tool("work", "", "echo x > meta/deep/made; git status")
        .committed();
    let before = project.read("meta/git/config");
    let ran = project.piton(["tool", "run", "replace", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("meta/git/config"), before, "{ran}");
    let ran = project.piton(["tool", "run", "work", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn a_command_cannot_type_into_the_terminal_of_its_user() {
    let script = "import fcntl, termios\n\
        for letter in b'touch typed\\n': fcntl.ioctl(0, termios.TIOCSTI, bytes([letter]))";
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let words = ["exec", "--isolation", "standard", "--"];
    let command = ["python3", "-c", script];
    let none = serde_json::json!([]);
    let ran = at_a_terminal(&project, &none, &[&words[..], &command].concat());
    assert!(ran.seen.contains("PermissionError"), "{}", ran.seen);
    assert_eq!(ran.status, Some(1), "{}", ran.seen);
    // Other requests work.
    let command = ["stty", "-a"];
    let ran = at_a_terminal(&project, &none, &[&words[..], &command].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.seen);
}
