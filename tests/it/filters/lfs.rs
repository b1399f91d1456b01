//! Git LFS, the real one.

use super::{assert_as_git, assert_same_as_twin, exec, piton};
use crate::harness::{Ran, TestProject};

fn lfs() -> TestProject {
    let project = TestProject::new().file("plain.txt", "plain\n");
    project.bash(
        "git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null
         head -c 3000 /dev/urandom > a.bin; git add -A; git commit -qm start",
    );
    project
}

fn is_pointer(project: &TestProject, name: &str) -> bool {
    project
        .git(["show", name])
        .starts_with("version https://git-lfs.github.com/spec/v1\noid sha256:")
}

#[test]
fn files_of_lfs_are_committed_as_pointers() {
    let project = lfs();
    assert_as_git(
        &project,
        "printf 'binary\\0one' > b.bin; printf 'more' >> a.bin; echo p >> plain.txt",
    );
    assert!(is_pointer(&project, "HEAD:a.bin") && is_pointer(&project, "HEAD:b.bin"));
    assert_eq!(
        project.bash("git lfs fsck --objects 2>&1"),
        "Git LFS fsck OK\n"
    );
    assert_eq!(project.bash("git lfs ls-files | wc -l").trim(), "2");
    let first = project.bash("sha256sum a.bin b.bin");
    assert_as_git(
        &project,
        "printf 'binary\\0two' > b.bin; git mv a.bin c.bin",
    );
    piton(&project, &["undo"]);
    assert_eq!(project.bash("sha256sum a.bin b.bin"), first);
    project.assert_clean();
    piton(&project, &["redo"]);
    assert!(is_pointer(&project, "HEAD:c.bin"));
    project.assert_clean();
    let ran = project.exec("echo broken > b.bin; rm c.bin; exit 1");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.bash("cat b.bin | tr '\\0' _"), "binary_two");
    project.assert_clean();
    assert_eq!(
        project.bash("git lfs fsck --objects 2>&1"),
        "Git LFS fsck OK\n"
    );
}

#[test]
fn tracking_in_a_step_is_as_with_git() {
    let project = TestProject::new()
        .file("plain.txt", "plain\n")
        .file("old.dat", "raw\n");
    project.bash("git lfs install --local >/dev/null; git add -A; git commit -qm start");
    assert_as_git(
        &project,
        "git lfs track '*.dat' > /dev/null; echo new > new.dat",
    );
    assert!(is_pointer(&project, "HEAD:new.dat") && is_pointer(&project, "HEAD:old.dat"));
    piton(&project, &["undo"]);
    assert_eq!(project.read("old.dat"), "raw\n");
    assert_eq!(project.git(["show", "HEAD:old.dat"]), "raw\n");
    assert!(!project.root().join("new.dat").exists());
    project.assert_clean();
    piton(&project, &["redo"]);
    assert!(is_pointer(&project, "HEAD:old.dat"));
    project.assert_clean();
    assert_as_git(
        &project,
        "git lfs untrack '*.dat' > /dev/null; echo more >> new.dat",
    );
    assert_eq!(project.git(["show", "HEAD:new.dat"]), "new\nmore\n");
}

/// Git reads a file again that was written in the second of its index: what `git lfs untrack` does to it depends on
/// that, with git and with piton alike.
#[test]
fn a_file_that_git_reads_again_is_stored_by_the_new_attributes() {
    for (file, index) in [
        ("00:00:00.1", "00:00:00.9"),
        ("00:00:00.9", "00:00:00.1"),
        ("00:00:00.9", "00:00:01.1"),
    ] {
        let project = lfs();
        project.bash(&format!(
            "touch -d '2026-01-01 {file}' a.bin .gitattributes plain.txt; git status --porcelain
             touch -d '2026-01-01 {index}' .git/index"
        ));
        assert_as_git(
            &project,
            "git lfs untrack '*.bin' > /dev/null; echo more > b.bin",
        );
        let is_read = index.starts_with("00:00:00");
        let size = project.git(["cat-file", "-s", "HEAD:a.bin"]);
        assert_eq!(size == "3000\n", is_read, "{file} {index}");
    }
}

/// The index has the pointer and proves the file by its stat fields, although no attribute converts it any more.
#[test]
fn the_content_of_a_file_comes_back_after_its_pattern_is_untracked() {
    let untrack = "git lfs untrack '*.bin' > /dev/null";
    for way in [
        untrack.to_owned(),
        format!("{untrack}; git commit -qam untracked"),
    ] {
        for is_known in [true, false] {
            let project = lfs();
            project.bash("touch -d '5 minutes ago' *; git status --porcelain");
            let first = project.bash("sha256sum a.bin");
            if is_known {
                exec(&project, "echo p >> plain.txt");
            } else if way.contains("commit") {
                // Neither the index nor the commit says that git converted the file.
                continue;
            }
            project.bash(&way);
            let ran = project.exec("echo x > a.bin; exit 7");
            assert_eq!(ran.code(), Some(7), "{way} {is_known}: {ran}");
            assert_eq!(project.bash("sha256sum a.bin"), first, "{way} {is_known}");
        }
    }
}

#[test]
fn a_clone_without_the_large_files_is_supported() {
    let project = lfs().variable("GIT_LFS_SKIP_SMUDGE", "1");
    project.bash("printf 'b' > b.bin; git add -A; git commit -qm b; git clone -q . ../clone 2>&1");
    let clone = project.root().with_file_name("clone");
    let folder = clone.to_string_lossy().into_owned();
    let there = |script: &str| -> Ran {
        let mut command = project.hermetic("bash", &clone);
        project.ran(
            command
                .args(["-euc", script])
                .output()
                .expect("bash starts"),
        )
    };
    assert!(
        there("cat a.bin")
            .stdout()
            .starts_with("version https://git-lfs")
    );
    there("git lfs install --local");
    let ran = project.piton([
        "-C",
        &folder,
        "exec",
        "--",
        "sh",
        "-c",
        "echo p >> plain.txt; printf new > b.bin",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        there("git status --porcelain; git diff HEAD~1 --name-only").stdout(),
        "b.bin\nplain.txt\n"
    );
    assert!(
        there("git show HEAD:b.bin HEAD:a.bin")
            .stdout()
            .matches("oid sha256:")
            .count()
            == 2
    );
    let ran = project.piton(["-C", &folder, "undo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        there("cat b.bin")
            .stdout()
            .starts_with("version https://git-lfs"),
        "the pointer is back"
    );
    assert_eq!(there("git status --porcelain").stdout(), "");
}

#[test]
fn a_run_in_a_worktree_is_merged_with_its_large_files() {
    let project = lfs()
        .tool(
            "grow",
            "mutates_state: true",
            "printf 'grown' >> a.bin; printf 'new' > b.bin",
        )
        .directive("large", ["grow"]);
    project.bash("git add -A; git commit -qm items");
    let size = project
        .bash("wc -c < a.bin")
        .trim()
        .parse::<u64>()
        .expect("a size");
    let ran = project.piton(["run", "large", "--worktree", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.bash("wc -c < a.bin").trim(),
        size.to_string(),
        "not here yet"
    );
    let branches = project.git([
        "branch",
        "--list",
        "piton/*",
        "--format=%(refname:lstrip=3)",
    ]);
    piton(&project, &["finish", branches.trim(), "--squash"]);
    assert_eq!(project.bash("wc -c < a.bin").trim(), (size + 5).to_string());
    assert_eq!(project.read("b.bin"), "new");
    assert!(is_pointer(&project, "HEAD:a.bin") && is_pointer(&project, "HEAD:b.bin"));
    assert_eq!(project.git(["status", "--porcelain"]), "");
}

#[test]
fn a_hard_roll_back_brings_large_files_back() {
    let project = lfs();
    let first = project.bash("sha256sum a.bin");
    exec(&project, "printf 'x' >> a.bin; printf y > b.bin");
    exec(&project, "printf 'z' >> a.bin");
    project.bash("rm -rf ../twin; cp -a . ../twin; cd ../twin; git reset -q --hard HEAD~2");
    piton(&project, &["rollback", "--hard", "HEAD~2", "--yes"]);
    assert_eq!(project.bash("sha256sum a.bin"), first);
    assert_same_as_twin(&project);
}
