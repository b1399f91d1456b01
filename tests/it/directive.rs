//! `piton directive show`.

use crate::harness::{TestProject, cmd_snapshot};

#[test]
fn the_example_of_the_specification_is_understood() {
    let text = include_str!("../../fixtures/directives/release_notes.md");
    let project = TestProject::new().file(".ai/directives/release/release_notes.md", text);
    cmd_snapshot!(project.piton(["directive", "show", "release/release_notes"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    release_notes 1.0.0 (directive, project)
    Write the notes of a release
    .ai/directives/release/release_notes.md

    Inputs
      version (string, required)  The version to describe

    Permissions
      run tools `collect_changes`
      write `docs/**`

    Steps
      1. collect  tool `collect_changes`: Collect merged changes
      2. write  work for an agent or a person
         when {step:collect.count} > 0
      3. keep  checkpoint: release notes
    ----- stderr -----
    ");
}

#[test]
fn a_directive_that_cannot_be_loaded_says_why() {
    let project = TestProject::new().file(
        ".ai/directives/odd.md",
        "```xml\n<directive name=\"odd\" version=\"1.0.0\">\n```\n",
    );
    cmd_snapshot!(project.piton(["directive", "show", "odd"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `odd` cannot be loaded: `<directive>` is never closed
     --> .ai/directives/odd.md:2:1

    hint: close it with `</directive>`; if it is text, wrap it in CDATA: <![CDATA[ … ]]>
    ");
    cmd_snapshot!(project.piton(["directive", "show", "git_chekpoint"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `git_chekpoint` does not exist

    hint: did you mean `git_checkpoint`?
    ");
}
