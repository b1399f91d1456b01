//! `piton quickstart`.

use std::path::Path;

use crate::harness::{TestProject, cmd_snapshot};

#[test]
fn it_makes_a_project_of_its_own_and_keeps_it() {
    let project = TestProject::new();
    let ran = project.piton(["quickstart"]);
    assert!(Path::new(ran.stdout().trim_end()).join(".ai/directives/examples/hello.md").is_file());
    cmd_snapshot!(ran, @"
    success: true
    exit_code: 0
    ----- stdout -----
    [TMP]/piton-quickstart-[ID]
    ----- stderr -----
    ✓ made an example project in `[TMP]/piton-quickstart-[ID]`
    ");
    assert_eq!(project.files(), Vec::<String>::new());
}

#[test]
fn the_folder_is_in_the_json() {
    let ran = TestProject::new().piton(["quickstart", "--format", "json"]);
    assert!(ran.json()["project"].as_str().is_some_and(|folder| folder.contains("piton-quickstart-")), "{ran}");
}

#[test]
fn it_works_where_no_project_can_be() {
    let project = TestProject::new();
    let home = project.home();
    for folder in ["/", home.to_str().unwrap()] {
        assert_eq!(project.piton(["-C", folder, "quickstart"]).code(), Some(0), "{folder}");
    }
}

#[test]
fn a_temporary_folder_that_does_not_exist_is_an_error() {
    let project = TestProject::new().variable("TMPDIR", "/nonexistent/folder");
    cmd_snapshot!(project.piton(["quickstart"]), @r#"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot write `/nonexistent/folder`
      caused by: No such file or directory (os error 2) at path "/nonexistent/folder/piton-quickstart-[ID]"
    "#);
}
