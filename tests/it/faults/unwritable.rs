//! Undo, redo and roll back where piton may not write.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::run;
use crate::harness::TestProject;

/// A file locked with `chattr`, which is unlocked when the test ends.
struct Locked<'p> {
    project: &'p TestProject,
    file: &'static str,
}

impl<'p> Locked<'p> {
    fn new(project: &'p TestProject, file: &'static str) -> Self {
        let locked = Self { project, file };
        assert!(
            locked.chattr("+i"),
            "`chattr +i` failed: it needs root and a file system with immutable files"
        );
        locked
    }

    fn chattr(&self, change: &str) -> bool {
        let mut command = self.project.hermetic("chattr", &self.project.root());
        command
            .args([change, self.file])
            .output()
            .is_ok_and(|output| output.status.success())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.chattr("-i");
    }
}

fn stepped() -> TestProject {
    let project = TestProject::new()
        .file("f1", "1\n")
        .file("f2", "1\n")
        .committed();
    run(
        &project,
        &["exec", "--", "sh", "-c", "echo 2 > f1; echo 2 > f2"],
    );
    project
}

#[test]
fn an_undo_that_cannot_write_a_locked_file_changes_nothing_and_says_why() {
    let project = stepped();
    let head = project.git(["rev-parse", "HEAD"]);
    let locked = Locked::new(&project, "f2");
    for words in [
        vec!["undo"],
        vec!["undo", "--dry-run"],
        vec!["rollback", "--hard", "HEAD~1", "--yes"],
    ] {
        let refused = project.piton(&words);
        assert_eq!(refused.code(), Some(1), "{refused}");
        assert!(
            refused
                .stderr()
                .contains("cannot write `f2`: Operation not permitted"),
            "{refused}"
        );
        assert_eq!(
            (project.read("f1"), project.read("f2")),
            ("2\n".to_owned(), "2\n".to_owned())
        );
        assert_eq!(project.git(["rev-parse", "HEAD"]), head);
    }
    drop(locked);
    project.assert_clean();
    // The step counts as done, not as undone.
    run(&project, &["undo"]);
    assert_eq!(
        (project.read("f1"), project.read("f2")),
        ("1\n".to_owned(), "1\n".to_owned())
    );
    project.assert_clean();
}

#[test]
fn an_undo_in_a_folder_of_another_user_changes_nothing_and_says_why() {
    assert!(
        rustix::process::geteuid().is_root(),
        "only root can make files of other users"
    );
    let project = TestProject::new()
        .file("f1", "1\n")
        .file("d/f2", "1\n")
        .committed();
    run(
        &project,
        &["exec", "--", "sh", "-c", "echo 2 > f1; echo 2 > d/f2"],
    );
    project.bash("chown 12345 d; chmod 755 d");
    let refused = project.piton_bound(["undo"]);
    assert_eq!(refused.code(), Some(1), "{refused}");
    assert!(
        refused
            .stderr()
            .contains("cannot write `d/f2`: Permission denied"),
        "{refused}"
    );
    assert_eq!(
        (project.read("f1"), project.read("d/f2")),
        ("2\n".to_owned(), "2\n".to_owned())
    );
    project.assert_clean();
}

#[test]
fn an_undo_that_fails_half_way_rolls_back_what_it_wrote() {
    assert!(
        rustix::process::geteuid().is_root(),
        "only root can make files of other users"
    );
    let project = TestProject::new()
        .file("f1", "1\n")
        .file("t/f2", "1\n")
        .committed();
    run(
        &project,
        &["exec", "--", "sh", "-c", "echo 2 > f1; echo 2 > t/f2"],
    );
    let head = project.git(["rev-parse", "HEAD"]);
    // In a sticky folder every user may create files, but only the owner of a file may replace it.
    // Only the write itself detects this.
    project.bash("chown 12345 t; chmod 1777 t; chown 23456 t/f2; chmod 666 t/f2");
    let mut command = project.command_under(
        "setpriv",
        ["--bounding-set=-dac_override,-dac_read_search,-fowner"],
    );
    let refused = project.ran(command.arg("undo").output().expect("piton starts"));
    assert_eq!(refused.code(), Some(1), "{refused}");
    assert!(
        refused
            .stderr()
            .contains("cannot write `t/f2`: Operation not permitted"),
        "{refused}"
    );
    assert_eq!(
        (project.read("f1"), project.read("t/f2")),
        ("2\n".to_owned(), "2\n".to_owned())
    );
    assert_eq!(project.git(["rev-parse", "HEAD"]), head);
    project.bash("chown 0 t t/f2; chmod 755 t; chmod 644 t/f2");
    project.assert_clean();
    run(&project, &["undo"]);
    assert_eq!(
        (project.read("f1"), project.read("t/f2")),
        ("1\n".to_owned(), "1\n".to_owned())
    );
    project.assert_clean();
}

#[test]
fn a_roll_back_names_the_file_that_it_could_not_write_and_the_reason() {
    let project = TestProject::new()
        .file("f1", "1\n")
        .file("f2", "1\n")
        .committed();
    let step = "echo 2 > f1; echo 2 > f2; chattr +i f2 || exit 7; exit 1";
    let failed = project.exec(step);
    let unlocked = Locked {
        project: &project,
        file: "f2",
    };
    drop(unlocked);
    assert_ne!(
        failed.code(),
        Some(7),
        "`chattr +i` failed: it needs root and a file system with immutable files"
    );
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert!(
        failed
            .stderr()
            .contains("cannot write `f2`: Operation not permitted"),
        "{failed}"
    );
    assert!(!failed.stderr().contains("changed since"), "{failed}");
    assert_eq!(
        (project.read("f1"), project.read("f2")),
        ("1\n".to_owned(), "2\n".to_owned())
    );
}

#[test]
fn an_undo_writes_in_folders_that_only_lack_the_owners_permission() {
    let project = TestProject::new().file("d/f", "1\n").committed();
    run(&project, &["exec", "--", "sh", "-c", "echo 2 > d/f"]);
    let folder = project.root().join("d");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).expect("read-only");
    let undone = project.piton_bound(["undo"]);
    let left = fs::metadata(&folder)
        .expect("a folder")
        .permissions()
        .mode()
        & 0o7777;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("writable");
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert_eq!((project.read("d/f"), left), ("1\n".to_owned(), 0o555));
    project.assert_clean();
}
