//! Which changes are the user's own, in difficult cases with names, links and line ends.

use super::run;
use crate::harness::TestProject;

#[test]
fn a_folder_that_the_user_removed_is_not_removed_from_the_branch_by_a_step_that_makes_a_file_of_its_name()
 {
    for mode in ["auto", "explicit"] {
        let project = TestProject::new()
            .file("d/1", "1\n")
            .file("d/2", "2\n")
            .file("a.txt", "a\n")
            .committed();
        project.bash("rm -r d");
        let ran = project.piton([
            "exec",
            "--checkpoint",
            mode,
            "--",
            "sh",
            "-c",
            "echo file > d",
        ]);
        let ran = if mode == "explicit" {
            project.piton(["checkpoint"])
        } else {
            ran
        };
        assert_eq!(ran.code(), Some(1), "{mode}: {ran}");
        assert!(
            ran.stderr().contains("DIRTY_OVERLAP") && ran.stderr().contains("`d`"),
            "{mode}: {ran}"
        );
        assert_eq!(
            project.git(["ls-tree", "-r", "--name-only", "HEAD"]),
            "a.txt\nd/1\nd/2\n",
            "{mode}"
        );
        run(&project, &["undo"]);
        assert_eq!(
            project.git(["status", "--porcelain"]),
            " D d/1\n D d/2\n",
            "{mode}: the user's removal stays"
        );
    }
}

#[test]
fn a_file_that_the_user_removed_is_not_removed_from_the_branch_by_a_step_that_makes_a_folder_of_its_name()
 {
    let project = TestProject::new()
        .file("d", "file\n")
        .file("a.txt", "a\n")
        .committed();
    project.git(["rm", "--quiet", "d"]);
    let ran = project.exec("mkdir d; echo step > d/new");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("DIRTY_OVERLAP"), "{ran}");
    assert_eq!(project.git(["show", "HEAD:d"]), "file\n");
    run(&project, &["undo"]);
    assert_eq!(project.git(["status", "--porcelain"]), "D  d\n");
}

#[test]
fn a_file_that_the_user_staged_stays_staged_when_a_step_makes_a_file_in_the_place_of_its_folder() {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .committed()
        .file("d/x", "staged\n");
    project.bash("git add d/x; rm -r d");
    let ran = project.exec("echo step > d");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("DIRTY_OVERLAP"), "{ran}");
    assert_eq!(project.git(["show", ":d/x"]), "staged\n");
    run(&project, &["undo"]);
    assert_eq!(project.git(["status", "--porcelain"]), "AD d/x\n");
}

#[test]
fn a_step_may_put_a_file_in_the_place_of_a_folder_that_it_removed_itself() {
    let project = TestProject::new()
        .file("d/1", "1\n")
        .file("d/2", "2\n")
        .committed();
    run(
        &project,
        &["exec", "--", "sh", "-c", "rm -r d; echo file > d"],
    );
    assert_eq!(project.git(["ls-tree", "-r", "--name-only", "HEAD"]), "d\n");
    run(&project, &["undo"]);
    assert_eq!(
        project.git(["ls-tree", "-r", "--name-only", "HEAD"]),
        "d/1\nd/2\n"
    );
    project.assert_clean();
}

#[test]
fn files_that_were_committed_with_other_line_ends_than_git_wants_now_are_not_the_users_changes() {
    for attributes in ["* text\n", "* text=auto\n", "* text eol=crlf\n"] {
        for mode in ["auto", "explicit"] {
            let project = TestProject::new()
                .file("c.txt", "one\r\ntwo\r\n")
                .committed();
            let project = project.file(".gitattributes", attributes);
            project.bash("git add .gitattributes; git commit -qm attributes");
            let step = r"printf 'three\r\n' >> c.txt";
            let ran = project.piton(["exec", "--checkpoint", mode, "--", "sh", "-c", step]);
            let ran = if mode == "explicit" {
                project.piton(["checkpoint"])
            } else {
                ran
            };
            assert_eq!(ran.code(), Some(0), "{attributes} {mode}: {ran}");
            // The commit holds what `git add` would have stored.
            let wanted = project.git(["hash-object", "--path=c.txt", "c.txt"]);
            let committed = project.git(["rev-parse", "HEAD:c.txt"]);
            if attributes != "* text=auto\n" {
                assert_eq!(committed, wanted, "{attributes} {mode}");
            }
            project.assert_clean();
        }
    }
}

#[test]
fn links_that_are_kept_as_files_are_not_the_users_changes() {
    let project = TestProject::new().file("a.txt", "a\n");
    project.bash("ln -s a.txt link; git add -A; git commit -qm start; git config core.symlinks false; rm link");
    project.git(["checkout", "--quiet", "--", "link"]);
    run(&project, &["exec", "--", "sh", "-c", "printf k.txt > link"]);
    assert_eq!(
        project.git(["ls-files", "--stage", "link"]).get(..6),
        Some("120000")
    );
    assert_eq!(project.git(["show", "HEAD:link"]), "k.txt");
    project.assert_clean();
    let failed = project.exec("rm link; exit 1");
    assert_eq!(failed.code(), Some(1), "{failed}");
    let link = project.root().join("link");
    assert!(
        link.symlink_metadata().expect("it is back").is_file(),
        "as a file, since git keeps links so here"
    );
    assert_eq!(project.read("link"), "k.txt");
    run(&project, &["undo"]);
    assert_eq!(project.read("link"), "a.txt");
    project.assert_clean();
}
