//! Files over `checkpoint.max_file_size` that a filter stores elsewhere: the limit is about what goes into git.

use super::{assert_as_git, assert_same_as_twin, exec, piton};
use crate::harness::TestProject;

/// A repository with a file of 30 MiB in Git LFS.
fn large() -> TestProject {
    let project = TestProject::new().file("plain.txt", "plain\n");
    project.bash(
        "git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null
         head -c 31457280 /dev/urandom > a.bin; git add -A; git commit -qm start",
    );
    project
}

fn sum(project: &TestProject, file: &str) -> String {
    project.bash(&format!("sha256sum < {file}"))
}

/// Without the LFS objects, which belong to git-lfs.
fn size_of_git(project: &TestProject) -> u64 {
    project
        .bash("du -sk --exclude=lfs .git | cut -f1")
        .trim()
        .parse()
        .expect("a size")
}

#[test]
fn a_large_file_of_lfs_is_committed_undone_and_redone() {
    let project = large();
    let first = sum(&project, "a.bin");
    assert_as_git(
        &project,
        "printf more >> a.bin; yes b | head -c 20971520 > b.bin; echo p >> plain.txt",
    );
    let second = sum(&project, "a.bin");
    assert!(
        project
            .git(["show", "HEAD:a.bin"])
            .starts_with("version https://git-lfs")
    );
    assert_eq!(
        project.bash("git lfs fsck --objects 2>&1"),
        "Git LFS fsck OK\n"
    );
    assert!(
        size_of_git(&project) < 2048,
        "no copy of the content: {} KiB",
        size_of_git(&project)
    );
    project.assert_clean();
    piton(&project, &["undo"]);
    assert_eq!(sum(&project, "a.bin"), first);
    assert!(!project.root().join("b.bin").exists());
    project.assert_clean();
    piton(&project, &["redo"]);
    assert_eq!(sum(&project, "a.bin"), second);
    project.assert_clean();
    // The blunt way back.
    project.bash("rm -rf ../twin; cp -a . ../twin; cd ../twin; git reset -q --hard HEAD~2");
    piton(&project, &["rollback", "--hard", "HEAD~2", "--yes"]);
    assert_eq!(sum(&project, "a.bin"), second, "HEAD~2 is the first step");
    assert_same_as_twin(&project);
}

#[test]
fn a_failing_step_restores_large_files_byte_by_byte() {
    let project = large();
    let failing = [
        "exec",
        "--",
        "sh",
        "-c",
        "echo gone > a.bin; head -c 15728640 /dev/zero > new.bin; exit 3",
    ];
    let committed = sum(&project, "a.bin");
    let ran = project.piton(failing);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(sum(&project, "a.bin"), committed);
    assert!(!project.root().join("new.bin").exists(), "{ran}");
    project.assert_clean();
    // What the user has not committed comes back as well: the filter has stored it before the step began.
    project.bash("printf mine >> a.bin; head -c 12582912 /dev/urandom > own.bin");
    let (mine, own) = (sum(&project, "a.bin"), sum(&project, "own.bin"));
    let ran = project.exec("rm a.bin; echo x > own.bin; exit 3");
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(
        (sum(&project, "a.bin"), sum(&project, "own.bin")),
        (mine, own)
    );
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M a.bin\n?? own.bin\n"
    );
    // A collection of everything old keeps what steps need.
    project.bash("find .git/piton/store -type f -exec touch -d '60 days ago' {} +");
    piton(&project, &["gc"]);
    exec(&project, "echo p >> plain.txt");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M a.bin\n?? own.bin\n"
    );
}

#[test]
fn a_step_that_was_interrupted_gives_a_large_file_back() {
    let project = large();
    let before = sum(&project, "a.bin");
    for place in ["tool-ended", "after-taken", "roll-back-decided"] {
        let mut command = project.command(["exec", "--", "sh", "-c", "echo gone > a.bin; exit 1"]);
        command
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts");
        piton(&project, &["recover"]);
        assert_eq!(sum(&project, "a.bin"), before, "{place}");
        project.assert_clean();
    }
}

#[test]
fn large_files_without_a_filter_or_with_one_that_loses_bytes_are_left_out_and_listed() {
    let project = TestProject::new()
        .file(".gitattributes", "*.up filter=up\n")
        .file("plain.txt", "plain\n");
    project.bash(
        "git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge cat; git add -A; git commit -qm start",
    );
    let script = "yes text | head -c 12582912 > lossy.up; head -c 12582912 /dev/zero > raw.dat; echo p >> plain.txt";
    let ran = exec(&project, script);
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "plain.txt\n"
    );
    assert!(
        ran.stderr().contains("lossy.up") && ran.stderr().contains("raw.dat"),
        "{ran}"
    );
    // They are neither deleted nor written by a roll back.
    let ran = project.exec("echo q >> plain.txt; exit 1");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        project.bash("stat -c %s lossy.up raw.dat"),
        "12582912\n12582912\n"
    );
}

#[test]
fn a_content_that_the_filter_has_lost_is_reported_and_nothing_else_is_written() {
    let project = large();
    exec(&project, "printf more >> a.bin; echo p >> plain.txt");
    let now = sum(&project, "a.bin");
    // Without the first version, and without a server that has it.
    project.bash(
        "oid=$(git show HEAD~1:a.bin | sed -n 's/^oid sha256://p'); find .git/lfs/objects -name $oid -delete
         git config lfs.url file:///nowhere",
    );
    let ran = project.piton(["undo"]);
    assert_ne!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("a.bin"), "{ran}");
    assert_eq!(sum(&project, "a.bin"), now);
}

#[test]
fn a_tool_cannot_choose_the_program_that_gives_a_large_file_back() {
    let project = large();
    let before = sum(&project, "a.bin");
    let script = "git config filter.lfs.smudge 'touch ../sprung; cat'; git config filter.lfs.process 'touch ../sprung'; \
         echo gone > a.bin; exit 1";
    let ran = project.exec(script);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(!project.root().with_file_name("sprung").exists(), "{ran}");
    assert_eq!(sum(&project, "a.bin"), before, "{ran}");
}
