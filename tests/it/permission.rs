//! Permissions of directives: actions without a grant do not happen or are rolled back.

use crate::harness::TestProject;

const GREET: &str = "<execute resource=\"tool\" id=\"greet\"/>";

/// A directive `d` with these permissions.
fn directive(project: TestProject, permissions: &str) -> TestProject {
    let text = format!(
        "```xml\n<directive name=\"d\" version=\"1.0.0\">\n<metadata><description>d</description>\
         <permissions>{permissions}</permissions></metadata>\n\
         <process><step name=\"a\"><execute item_type=\"tool\" item_id=\"greet\"/></step></process>\n</directive>\n```\n"
    );
    project.file(".ai/directives/d.md", text)
}

/// The exit code and output of calling `greet` with the permissions of `d`.
fn call(project: &TestProject) -> (Option<i32>, String) {
    let ran = project.piton(["tool", "run", "greet", "--as", "d", "--checkpoint", "auto"]);
    (ran.output.status.code(), ran.to_string())
}

#[test]
fn a_tool_that_is_not_granted_is_not_run_and_the_printed_lines_allow_it() {
    let more = "requires:\n  commands: [cat]\n  environment: [GREETING]";
    let project = TestProject::new().variable("GREETING", "hello").tool(
        "greet",
        more,
        "echo \"$GREETING\" > out.txt",
    );
    let project = directive(project, "<write path=\"out.txt\"/>").committed();
    let (code, told) = call(&project);
    assert_eq!(code, Some(3), "{told}");
    let lines = [
        GREET,
        "<shell commands=\"cat\"/>",
        "<env vars=\"GREETING\"/>",
    ];
    for line in lines {
        assert!(told.contains(line), "{line} is missing in {told}");
    }
    assert!(!project.root().join("out.txt").exists());
    project.assert_clean();
    let project = directive(
        project,
        &format!("<write path=\"out.txt\"/>{}", lines.concat()),
    )
    .committed();
    let (code, told) = call(&project);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(project.read("out.txt"), "hello\n");
}

#[test]
fn what_is_written_outside_of_the_grants_is_rolled_back_and_the_printed_line_allows_it() {
    let project = TestProject::new().tool(
        "greet",
        "",
        "mkdir -p docs; echo 1 > docs/a.md; echo 2 > 'b*.txt'",
    );
    let project = directive(project, &format!("{GREET}<write path=\"docs/**\"/>")).committed();
    let (code, told) = call(&project);
    assert_eq!(code, Some(3), "{told}");
    let line = "<write resource=\"filesystem\" path=\"b[*].txt\"/>";
    assert!(told.contains(line), "{told}");
    assert!(
        !project.root().join("docs/a.md").exists(),
        "a step is kept or put back as a whole"
    );
    project.assert_clean();
    let project =
        directive(project, &format!("{GREET}<write path=\"docs/**\"/>{line}")).committed();
    let (code, told) = call(&project);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(project.read("b*.txt"), "2\n");
}

#[test]
fn both_ends_of_a_rename_have_to_be_granted() {
    // The kernel refuses the first one, because its folder exists.
    for (grant, expected) in [("docs/**", 1), ("*", 3), ("**", 0)] {
        let project =
            TestProject::new()
                .file("docs/a.md", "text\n")
                .tool("greet", "", "mv docs/a.md b.md");
        let project = directive(project, &format!("{GREET}<write path=\"{grant}\"/>")).committed();
        let (code, told) = call(&project);
        assert_eq!(code, Some(expected), "{grant}: {told}");
    }
}

#[test]
fn items_are_changed_only_by_a_grant_that_names_them() {
    for (grant, expected) in [("**", 1), (".ai/knowledge/**", 0)] {
        let script = "mkdir -p .ai/knowledge; echo text > .ai/knowledge/x.txt";
        let project = directive(
            TestProject::new().tool("greet", "", script),
            &format!("{GREET}<write path=\"{grant}\"/>"),
        );
        let project = project.committed();
        let (code, told) = call(&project);
        assert_eq!(code, Some(expected), "{grant}: {told}");
    }
}

#[test]
fn a_person_needs_no_grant_and_a_deny_beats_every_grant() {
    let project = TestProject::new().tool("greet", "", "echo 1 > a.txt");
    let project = directive(
        project,
        "<allow>*</allow><write path=\"**\"/><deny id=\"greet\"/>",
    )
    .committed();
    let (code, told) = call(&project);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("<deny>"), "{told}");
    let ran = project.piton(["tool", "run", "greet", "--checkpoint", "auto"]);
    assert_eq!(ran.output.status.code(), Some(0), "{ran}");
}
