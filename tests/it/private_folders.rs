//! Nothing of piton's stays in the temporary folder, even after `kill -9`.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::TestProject;

/// What piton has in the temporary folder.
fn private_folders(project: &TestProject) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(project.root().with_file_name("tmp"))
        .expect("a temporary folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            name.starts_with("piton-")
        })
        .collect();
    found.sort();
    found
}

/// Kills a tool's piton when the tool runs; returns what is left of it.
fn killed(project: &TestProject) -> Vec<PathBuf> {
    let mut piton = project
        .command(["tool", "run", "wait", "--checkpoint", "disabled"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    let ready = project.root().with_file_name("tmp").join("ready");
    let deadline = Instant::now() + Duration::from_mins(1);
    while !ready.exists() {
        assert!(Instant::now() < deadline, "the tool does not run");
        sleep(Duration::from_millis(5));
    }
    piton.kill().expect("killed");
    piton.wait().expect("an end");
    fs::remove_file(ready).expect("removed");
    private_folders(project)
}

#[test]
fn the_next_start_removes_the_private_home_of_a_killed_run() {
    let project = TestProject::new()
        .tool(
            "wait",
            "",
            "touch \"$HOME/secret\" \"$TMPDIR/ready\"; sleep 600",
        )
        .tool("greet", "", "echo hello")
        .committed();
    let other = TestProject::new()
        .tool("greet", "", "echo hello")
        .committed();
    let left = killed(&project);
    assert!(
        left.iter().any(|folder| folder.join("secret").exists()),
        "the control: {left:?}"
    );
    // A folder of a process that lives, a link to a folder, and a file stay.
    let temporary = project.root().with_file_name("tmp");
    let living = temporary.join(format!("piton-staged-{}-x", std::process::id()));
    let link = temporary.join(format!("piton-ssh-{}-x", i32::MAX));
    let target = temporary.join("target");
    fs::create_dir(&living).expect("a folder");
    fs::create_dir(&target).expect("a folder");
    fs::write(target.join("file"), "").expect("a file");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    // Any start with this temporary folder does it, in another project too.
    let mut command = other.command(["tool", "run", "greet", "--checkpoint", "disabled"]);
    let output = command.env("TMPDIR", &temporary).output().expect("piton");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(private_folders(&project), [link, living]);
    assert!(target.join("file").exists());
}

#[test]
fn a_command_and_a_signature_remove_what_killed_processes_left() {
    let project = TestProject::new()
        .tool("wait", "", "touch \"$TMPDIR/ready\"; sleep 600")
        .tool("greet", "", "echo hello")
        .committed();
    project.bash("mkdir -p ~/.ssh; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/ada");
    let commands: [&[&str]; 2] = [
        &["exec", "--", "true"],
        &["sign", "greet", "--key", "~/.ssh/ada"],
    ];
    for command in commands {
        assert!(!killed(&project).is_empty(), "the control");
        project.piton(command).succeeded();
        assert_eq!(private_folders(&project), Vec::<PathBuf>::new());
    }
}
