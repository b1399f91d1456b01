//! Untracked files and folders that piton may not read.

use crate::harness::{Ran, TestProject};

fn as_user(project: &TestProject, script: &str) -> Ran {
    let root = project.root();
    let mut command = project.hermetic("setpriv", &root);
    command
        .args([
            "--reuid",
            "1001",
            "--regid",
            "2000",
            "--clear-groups",
            "bash",
            "-euc",
            script,
        ])
        .env("PITON", root.with_file_name("piton"));
    project.ran(command.output().expect("setpriv starts"))
}

#[test]
fn what_cannot_be_read_and_is_not_tracked_is_left_out_and_listed() {
    assert!(
        rustix::process::geteuid().is_root(),
        "another user can only be tried as root"
    );
    let project = TestProject::new().file("a.txt", "a\n").committed();
    std::fs::copy(
        env!("CARGO_BIN_EXE_piton"),
        project.root().with_file_name("piton"),
    )
    .expect("a copy of piton");
    project.bash(
        "chmod 755 ..; chown -R 1001:2000 . ../home ../tmp
         mkdir closed half; echo s > closed/secret; echo h > half/file; echo k > key
         chmod 000 closed key; chmod 444 half",
    );
    let ran = as_user(
        &project,
        "\"$PITON\" exec -- sh -c 'echo b >> a.txt; echo n > new'",
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("cannot be read: `closed`, `half/file`, `key`"),
        "{ran}"
    );
    assert_eq!(
        project.bash("git -c safe.directory=* show --format= --name-only"),
        "a.txt\nnew\n"
    );
    let journal =
        project.bash("cat .git/piton/runs/*/*.jsonl .git/piton/runs/*.jsonl 2>/dev/null || true");
    assert!(journal.contains("\"reason\":\"unreadable\""), "{journal}");
    let ran = as_user(
        &project,
        "\"$PITON\" exec -- sh -c 'echo c >> a.txt; exit 1' || \"$PITON\" undo; \"$PITON\" status",
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.bash("cat closed/secret half/file key"), "s\nh\nk\n");
    // A step that makes its own file unreadable gets no checkpoint, because the file would be
    // missing in it.
    let ran = as_user(
        &project,
        "\"$PITON\" exec -- sh -c 'mkdir own; echo x > own/x; chmod 000 own'",
    );
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("cannot read `own`"), "{ran}");
    project.bash("rm -r own");
    // An unreadable folder with tracked files is an error.
    project.bash("mkdir t; echo t > t/t; git -c safe.directory=* add t/t; chmod 000 t; chown 1001:2000 .git/index");
    let ran = as_user(&project, "\"$PITON\" exec -- true");
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert!(ran.stderr().contains("cannot read `t`"), "{ran}");
}
