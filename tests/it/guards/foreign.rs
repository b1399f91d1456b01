//! G91 and G95: unreadable files, and repositories of another user.
//!
//! Root can read everything, so these tests run piton as the user `nobody` if they run as root,
//! with the help of `setpriv`. Otherwise they run it as the current user.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Told, simple};
use crate::harness::{Ran, TestProject};

/// Runs piton without the rights of root.
fn exec_as_nobody(project: &TestProject, script: &str) -> Option<Told> {
    let binary = env!("CARGO_BIN_EXE_piton");
    let is_root = fs::metadata("/proc/self")
        .map(|found| std::os::unix::fs::MetadataExt::uid(&found))
        .ok()?
        == 0;
    let mut command = if is_root {
        // The binary may be in a folder that other users cannot read.
        let copy = project.home().join("piton");
        fs::copy(binary, &copy).expect("a copy");
        let mut command = project.hermetic("setpriv", &project.root());
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(copy);
        command
    } else {
        project.hermetic(binary, &project.root())
    };
    command.args(["exec", "--format", "json", "--", "bash", "-euc", script]);
    let output = command.output().ok()?;
    Some(Told::of(Ran::new(output, project)))
}

/// Gives a project to the user `nobody`.
fn give_away(project: &TestProject) {
    let sandbox = project.root().join("..");
    fs::set_permissions(&sandbox, fs::Permissions::from_mode(0o755)).expect("ours");
    project.bash("[ $(id -u) != 0 ] || chown -R 65534:65534 ../project ../home ../tmp");
}

#[test]
fn g91_a_tracked_file_that_cannot_be_read_is_refused_before_the_command_runs() {
    let project = simple()
        .file("locked.txt", "x\n")
        .file("closed/x", "x\n")
        .committed();
    project.bash("chmod 000 locked.txt");
    give_away(&project);
    let refused = exec_as_nobody(&project, "touch ran").expect("setpriv runs");
    refused.assert_end("5 - UNREADABLE_FILE");
    assert!(
        refused.message().contains("`locked.txt`"),
        "{}",
        refused.message()
    );
    assert!(!project.root().join("ran").exists());
    // So is a folder.
    project.bash("chmod 644 locked.txt; chmod 000 closed");
    give_away(&project);
    let refused = exec_as_nobody(&project, "touch ran").expect("setpriv runs");
    refused.assert_end("5 - UNREADABLE_FILE");
    assert!(
        refused.message().contains("`closed`"),
        "{}",
        refused.message()
    );
    assert!(!project.root().join("ran").exists());
    project.bash("chmod 755 closed");
    exec_as_nobody(&project, "touch ran")
        .expect("setpriv runs")
        .assert_end("0 committed -");
}

#[test]
fn g91_untracked_files_that_cannot_be_read_are_left_out() {
    let project = simple().file("locked.txt", "x\n").file("closed/x", "x\n");
    project.bash("chmod 000 locked.txt closed");
    give_away(&project);
    exec_as_nobody(&project, "touch ran")
        .expect("setpriv runs")
        .assert_end("0 committed -");
    let committed = project.bash("git -c safe.directory='*' show --format= --name-only");
    assert!(
        committed.contains("ran") && !committed.contains("locked") && !committed.contains("closed"),
        "{committed}"
    );
}

#[test]
fn g91_a_step_that_locks_its_own_file_fails_its_checkpoint() {
    let project = simple();
    give_away(&project);
    let failed = exec_as_nobody(&project, "echo a > a.txt; chmod 000 a.txt").expect("setpriv runs");
    failed.assert_end("1 failed UNREADABLE_FILE");
    assert!(failed.message().contains("`a.txt`"), "{}", failed.message());
    project.bash("chmod 644 a.txt");
    assert_eq!(project.read("a.txt"), "a\n");
}

#[test]
fn g91_what_a_step_closes_is_rolled_back() {
    let project = simple().file("sub/x.txt", "x\n").committed();
    project.bash("chmod 444 notes.txt");
    give_away(&project);
    let contents = || -> Vec<_> {
        let nodes = super::nodes(&project.root()).into_iter();
        nodes
            .map(|(path, node)| (path, node.kind, node.mode, node.content))
            .collect()
    };
    let before = contents();
    for script in [
        "chmod 644 notes.txt; echo four >> notes.txt; chmod 400 notes.txt",
        "mkdir -p made/deep; echo x > made/deep/x; chmod 555 made/deep made",
        "echo more >> sub/x.txt; echo new > sub/new.txt; chmod 555 sub",
        "rm -r sub; mkdir sub; echo other > sub/other.txt; chmod 555 sub",
    ] {
        let failed = exec_as_nobody(&project, &format!("{script}; exit 1")).expect("setpriv runs");
        failed.assert_end("1 rolled_back COMMAND_FAILED");
        assert_eq!(contents(), before, "{script}");
    }
}

#[test]
fn g95_a_repository_of_another_user_is_refused() {
    let project = simple();
    let is_root = fs::metadata(project.root())
        .map(|found| std::os::unix::fs::MetadataExt::uid(&found))
        .expect("there")
        == 0;
    if !is_root {
        // Without root the test cannot change the owner.
        return;
    }
    let sandbox = project.root().join("..");
    fs::set_permissions(&sandbox, fs::Permissions::from_mode(0o755)).expect("ours");
    project.bash("chmod -R a+rwX ../project ../home ../tmp");
    let refused = exec_as_nobody(&project, "touch ran").expect("setpriv runs");
    refused.assert_end("5 - FOREIGN_OWNER");
    let suggestion = refused.last()["error"]["suggestion"]
        .as_str()
        .unwrap_or_default();
    assert!(suggestion.contains("safe.directory"), "{suggestion}");
    assert!(!project.root().join("ran").exists());
    assert!(!project.root().join(".git/piton").exists());
    // The user may trust it, and only the user.
    project.bash("git config safe.directory '*'");
    exec_as_nobody(&project, "touch ran")
        .expect("setpriv runs")
        .assert_end("5 - FOREIGN_OWNER");
}
