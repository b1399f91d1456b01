//! G89, G90, G97, G98: pipes, sockets, other repositories, huge files, files that keep changing.

use std::fs;
use std::process::Stdio;

use super::{Picture, exec, exec_with, simple, told};
use crate::harness::TestProject;

const SOCKET: &str = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'";

#[test]
fn g89_pipes_and_sockets_are_left_alone_and_named() {
    let project = simple();
    let before = Picture::of(&project);
    let script = format!("mkfifo pipe; {SOCKET}; echo a > a.txt");
    let made = exec(&project, &script);
    made.assert_end("0 committed -");
    assert_eq!(super::files_of(&project, "HEAD"), ["a.txt"]);
    assert_eq!(
        made.event("changes_found")["delta"]["not_captured"],
        serde_json::json!(["pipe", "socket"])
    );
    before.assert_only(&project, &["a.txt", "pipe", "socket"]);
    // They neither stop nor hang the next step, and a roll back leaves them.
    exec(&project, "rm a.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    let human = project.piton(["exec", "--", "mkfifo", "other"]);
    assert_eq!(human.code(), Some(0), "{human}");
    assert!(
        human
            .stderr()
            .contains("warning: changed outside of checkpoints and left alone: `other`"),
        "{human}"
    );
    before.assert_only(&project, &["a.txt", "pipe", "socket", "other"]);
}

#[test]
fn g89_a_file_that_a_step_turns_into_a_pipe_is_restored_and_not_written_through() {
    let project = simple();
    let failed = exec(
        &project,
        "rm notes.txt; mkfifo notes.txt; echo a > a.txt; exit 1",
    );
    assert_eq!(failed.ran.code(), Some(1), "{}", failed.ran);
    let kind = fs::symlink_metadata(project.root().join("notes.txt"))
        .expect("it is there")
        .file_type();
    assert!(kind.is_file(), "the pipe is replaced");
    assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\n");
    assert!(failed.ran.stdout().contains("notes.txt"), "{}", failed.ran);
    assert!(!project.root().join("a.txt").exists());
}

#[test]
fn g89_empty_folders_are_no_changes_for_git_and_still_undone() {
    let project = simple();
    let before = Picture::of(&project);
    exec(&project, "mkdir -p one/two").assert_end("0 no_changes -");
    assert!(project.root().join("one/two").is_dir());
    project.assert_clean();
    fs::remove_dir_all(project.root().join("one")).expect("empty");
    exec(&project, "mkdir -p one/two; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    before.assert_same(&project);
}

#[test]
fn g90_a_nested_repository_is_opaque() {
    for commits in ["", "git add .; git commit -qm inner"] {
        let project = simple();
        let before = Picture::of(&project);
        let script = format!(
            "git init -q nested; cd nested; echo n > n.txt; {commits}; cd ..; echo a > a.txt"
        );
        let made = exec(&project, &script.replace("; ;", ";"));
        made.assert_end("0 committed -");
        assert_eq!(super::files_of(&project, "HEAD"), ["a.txt"]);
        assert_eq!(
            made.event("changes_found")["delta"]["not_captured"],
            serde_json::json!(["nested"])
        );
        before.assert_only(&project, &["a.txt", "nested"]);
        // A failing step leaves it alone as well.
        exec(
            &project,
            "echo more >> nested/n.txt; echo b > b.txt; exit 1",
        )
        .assert_end("1 rolled_back COMMAND_FAILED");
        assert_eq!(project.read("nested/n.txt"), "n\nmore\n");
        assert!(!project.root().join("b.txt").exists());
        assert!(project.root().join("nested/.git/HEAD").exists());
        super::assert_whole(&project, &project.root().join("nested"));
    }
}

#[test]
fn g90_a_submodule_is_recorded_and_never_entered() {
    let project = simple();
    project.bash(
        "git init -q -b main ../library; echo l > ../library/l.txt; git -C ../library add .; \
         git -C ../library commit -qm library; \
         git -c protocol.file.allow=always submodule --quiet add ../library library; git commit -qm submodule",
    );
    let before = Picture::of(&project);
    let made = exec(
        &project,
        "cd library; echo more >> l.txt; git commit -qam inner",
    );
    made.assert_end("0 committed -");
    assert_eq!(super::files_of(&project, "HEAD"), ["library"]);
    assert!(
        project
            .git(["ls-tree", "HEAD", "library"])
            .starts_with("160000 commit ")
    );
    assert_eq!(project.git(["status", "--porcelain"]), "");
    before.assert_only(&project, &["library"]);
    // Dirty files inside are the submodule's own business.
    exec(
        &project,
        "echo dirty >> library/l.txt; echo a > a.txt; exit 1",
    )
    .assert_end("1 rolled_back COMMAND_FAILED");
    assert_eq!(project.read("library/l.txt"), "l\nmore\ndirty\n");
    assert!(!project.root().join("a.txt").exists());
}

#[test]
fn g97_a_huge_file_is_left_out_at_once() {
    let project = simple();
    let before = Picture::of(&project);
    let made = exec(&project, "truncate -s 5G huge.bin; echo a > a.txt");
    made.assert_end("0 committed -");
    assert_eq!(super::files_of(&project, "HEAD"), ["a.txt"]);
    assert_eq!(
        made.event("changes_found")["delta"]["not_captured"],
        serde_json::json!(["huge.bin"])
    );
    exec(&project, "truncate -s 6G huge.bin; exit 1").assert_end("1 no_changes COMMAND_FAILED");
    assert_eq!(
        fs::metadata(project.root().join("huge.bin"))
            .expect("it stays")
            .len(),
        6 << 30
    );
    before.assert_only(&project, &["a.txt", "huge.bin"]);
    let objects = walkdir::WalkDir::new(project.root().join(".git/objects"))
        .into_iter()
        .filter_map(Result::ok);
    let stored: u64 = objects
        .filter_map(|entry| entry.metadata().ok())
        .map(|found| found.len())
        .sum();
    assert!(stored < 1 << 20, "{stored} bytes were stored");
}

#[test]
fn g97_the_budget_is_a_setting() {
    let project = simple().variable("PITON_CHECKPOINT_MAX_FILE_SIZE", "1KiB");
    exec(
        &project,
        "head -c 1025 /dev/zero > large; head -c 1024 /dev/zero > small",
    )
    .assert_end("0 committed -");
    assert_eq!(super::files_of(&project, "HEAD"), ["small"]);
    // A tracked file that grows over the limit is put back as it was.
    let grown = exec(&project, "head -c 3000 /dev/zero > small; exit 1");
    assert_eq!(grown.ran.code(), Some(1));
    assert_eq!(
        fs::metadata(project.root().join("small"))
            .expect("it is there")
            .len(),
        1024
    );
    let project = simple().variable("PITON_CHECKPOINT_MAX_TOTAL_SIZE", "1KiB");
    project.bash("head -c 600 /dev/urandom > one; head -c 600 /dev/urandom > two");
    let before = Picture::of(&project);
    exec(&project, "touch ran").assert_end("5 - OVER_BUDGET");
    before.assert_same(&project);
}

#[test]
fn g98_a_file_that_keeps_changing_is_never_stored_half_written() {
    let project = simple();
    // Each version holds one digit only: a mixture would show.
    let writer = "import itertools, os\nfor n in itertools.cycle('0123456789'):\n    \
        with open('busy.txt', 'w') as f:\n        f.write(n * 300000); f.flush()\n        f.write(n * 300000)\n";
    let mut writer = project
        .hermetic("python3", &project.root())
        .args(["-c", writer])
        .stdout(Stdio::null())
        .spawn()
        .expect("python3");
    while !project.root().join("busy.txt").exists() {
        std::thread::yield_now();
    }
    let ends: Vec<_> = (0..6)
        .map(|n| exec(&project, &format!("echo {n} > n.txt")))
        .collect();
    writer.kill().expect("it runs");
    writer.wait().expect("it ends");
    for end in &ends {
        assert!(
            [
                "0 committed -",
                "5 - FILE_CHANGING",
                "1 failed FILE_CHANGING",
                "1 failed DIRTY_OVERLAP"
            ]
            .contains(&end.end().as_str()),
            "{}",
            end.ran
        );
    }
    // Every snapshot holds whole versions, as far as they had been written.
    let log = project.piton(["log", "--format", "json"]).stdout();
    for run in log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
    {
        let name = format!("busy.txt@{}", run["id"].as_str().expect("an id"));
        let found = project.piton(["show", &name]);
        let kinds: std::collections::BTreeSet<u8> = found.stdout().bytes().collect();
        assert!(
            !found.output.status.success() || kinds.len() <= 1,
            "{name} holds a mixture"
        );
    }
    super::assert_whole(&project, &project.root());
    // Once the file no longer changes, everything works again.
    exec(&project, "echo x > x.txt").assert_end("0 committed -");
    told(&project, &["recover"]);
}

#[test]
fn g98_a_concurrent_write_is_not_overwritten_by_a_roll_back() {
    let project = TestProject::new()
        .file("notes.txt", "one\n")
        .file("busy.txt", "b\n")
        .committed();
    exec_with(
        &project,
        &["--checkpoint", "explicit"],
        "echo two >> notes.txt",
    )
    .assert_end("0 skipped -");
    project.bash("echo 'by hand' > notes.txt");
    let before = Picture::of(&project);
    told(&project, &["undo"]).assert_end("1 - CHANGED_SINCE");
    before.assert_same(&project);
}
