//! What piton writes to the index lets git trust the files, so that it does not read them again.

use super::run;
use crate::harness::TestProject;

fn project(attributes: &str) -> TestProject {
    let project = TestProject::new()
        .file(".gitattributes", attributes)
        .file("a.txt", "one\r\n")
        .file("d/b.txt", "two\r\n")
        .committed();
    // Git checks files of the second in which the index was written.
    project.bash(
        "touch -d '5 minutes ago' .gitattributes a.txt d/b.txt; git update-index -q --refresh",
    );
    project
}

/// Asserts that `git diff-files` finds no difference and opens neither file. Git opens every file of the second in which
/// its index was written; the index is dated later for that.
#[track_caller]
fn assert_unread(project: &TestProject, when: &str) {
    project.bash("touch -d '10 seconds' .git/index");
    let opened = project.bash(
        "strace -f -qq -e trace=open,openat -o ../home/trace git diff-files --exit-code > ../home/differences
         grep -c -e '\"a.txt\"' -e 'b.txt\"' ../home/trace || true; cat ../home/differences",
    );
    assert_eq!(opened, "0\n", "{when}");
}

#[test]
fn files_that_a_roll_back_restored_are_not_read_again() {
    let project = project("");
    let step = "echo step >> a.txt; git add a.txt; git rm -q --cached d/b.txt; exit 3";
    let ran = project.exec(step);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_unread(&project, "after the roll back");
    project.assert_clean();
}

#[test]
fn files_that_an_undo_restored_are_not_read_again() {
    for mode in ["explicit", "auto"] {
        let project = project("");
        let step = "echo step >> a.txt; rm d/b.txt; git add -A";
        run(
            &project,
            &["exec", "--checkpoint", mode, "--", "sh", "-c", step],
        );
        run(&project, &["undo"]);
        assert_unread(&project, mode);
        project.assert_clean();
    }
}

#[test]
fn files_that_a_hard_roll_back_restored_are_not_read_again() {
    for attributes in ["", "*.txt text eol=crlf\n"] {
        let project = project(attributes);
        run(
            &project,
            &["exec", "--", "sh", "-c", "echo step >> a.txt; rm d/b.txt"],
        );
        run(&project, &["rollback", "--hard", "HEAD~1", "--yes"]);
        assert_unread(&project, attributes);
        assert_eq!(project.read("d/b.txt"), "two\r\n");
        project.assert_clean();
    }
}

/// The file changes again after piton has read it, in the same second and with the same size.
#[test]
fn a_change_right_after_a_roll_back_is_seen() {
    let project = project("");
    let step = "echo step >> a.txt; git add a.txt; exit 3";
    let ran = project.exec(step);
    assert_eq!(ran.code(), Some(3), "{ran}");
    project.bash("printf 'ONE\\r\\n' > a.txt");
    assert_eq!(project.git(["status", "--porcelain"]), " M a.txt\n");
}
