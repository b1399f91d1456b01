//! Attributes are read as git reads them.

use std::fs;

use crate::harness::TestProject;

fn filtering(path: &str) -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .file(path, "*.up filter=up\n")
        .committed();
    project.git(["config", "filter.up.clean", "tr a-z A-Z"]);
    project.git(["config", "filter.up.smudge", "tr A-Z a-z"]);
    project
}

#[test]
fn a_filter_in_attributes_that_are_only_in_the_index_counts() {
    for path in [".gitattributes", "d/.gitattributes"] {
        let project = filtering(path);
        fs::remove_file(project.root().join(path)).expect("a file");
        let ran = project.exec("mkdir -p d; echo lower > d/f.up");
        assert_eq!(ran.code(), Some(0), "{path}: {ran}");
        assert_eq!(project.git(["show", "HEAD:d/f.up"]), "LOWER\n", "{path}");
        assert_eq!(project.read("d/f.up"), "lower\n");
        assert_eq!(
            project.git(["status", "--porcelain"]),
            format!(" D {path}\n")
        );
    }
}

#[test]
fn line_ends_follow_attributes_that_are_only_in_the_index() {
    let project = TestProject::new()
        .file("c.txt", "one\n")
        .file(".gitattributes", "* text\n")
        .committed();
    fs::remove_file(project.root().join(".gitattributes")).expect("a file");
    let ran = project.exec(r"printf 'one\r\ntwo\r\n' > c.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD:c.txt"]), "one\ntwo\n");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " D .gitattributes\n"
    );
}
