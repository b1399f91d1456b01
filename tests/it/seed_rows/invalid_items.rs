//! An item with an error does not run, in no door.

use super::*;

/// A manifest with a mistake in its last lines.
fn wrong(mistake: &str) -> TestProject {
    let manifest = format!(
        "tool_id: greet\ntool_type: script\ndescription: Greets\nexecutor: bash_runtime\n\
         config:\n  entrypoint: run.sh\n{mistake}\n"
    );
    TestProject::new()
        .file(".ai/tools/greet/tool.yaml", manifest)
        .file(".ai/tools/greet/run.sh", "touch ran\n")
        .committed()
}

#[test]
fn a_mistake_in_a_field_that_bounds_a_tool_keeps_it_from_running() {
    let ran = wrong("version: 1.0.0\nisolation: restrictd").piton(["tool", "run", "greet"]);
    cmd_snapshot!(ran, @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: Invalid metadata of `greet`: isolation `restrictd` is not one of trusted, standard, sandboxed, restricted
     --> .ai/tools/greet/tool.yaml:8:12

    hint: did you mean `restricted`?
    ");
}

#[test]
fn every_error_that_validation_reports_refuses_the_tool_in_every_door() {
    for mistake in [
        "version: 1.0.0\nisolation: restrictd",
        "version: 1.0.0\nwrites: \"docs/**\"",
        "version: 1.0.0\nmutates_state: perhaps",
        "version: 1.0.0\nrequires: {commands: git}",
        "version: 1.0.0\nparameters: [{type: string}]",
        "description2: no version",
        "version: one",
    ] {
        let project = wrong(mistake).directive("use_it", ["greet"]);
        assert_eq!(project.piton(["validate"]).code(), Some(2), "{mistake}");
        for words in [
            &["tool", "run", "greet"][..],
            &["tool", "run", "greet", "--dry-run"],
        ] {
            let ran = project.piton(words);
            assert_eq!(ran.code(), Some(2), "{mistake}\n{ran}");
            assert!(ran.stderr().contains("Invalid metadata"), "{ran}");
        }
        let ran = project.piton(["run", "use_it"]);
        assert_ne!(ran.code(), Some(0), "{mistake}\n{ran}");
        let mut client = start(&project);
        let (answer, is_error) = run_tool(&mut client, "greet", &json!({}));
        assert!(is_error, "{mistake}: {answer}");
        assert_eq!(answer["error"], "Invalid metadata", "{mistake}: {answer}");
        assert!(
            !answer["findings"].as_array().expect("findings").is_empty(),
            "{mistake}: {answer}"
        );
        assert!(!project.root().join("ran").exists(), "{mistake}");
    }
}

#[test]
fn an_invalid_runtime_does_not_run_the_tools_that_name_it() {
    let project = TestProject::new()
        .file(
            ".ai/tools/shell.yaml",
            "tool_id: shell\ntool_type: runtime\nversion: 1.0.0\ndescription: Runs\nexecutor: subprocess\n\
             config: {command: bash}\nisolation: restrictd\n",
        )
        .file(
            ".ai/tools/greet/tool.yaml",
            "tool_id: greet\ntool_type: script\nversion: 1.0.0\ndescription: Greets\nexecutor: shell\n\
             config: {entrypoint: run.sh}\n",
        )
        .file(".ai/tools/greet/run.sh", "touch ran\n");
    let ran = project.piton(["tool", "run", "greet"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(
        ran.stderr().contains("Invalid metadata of `shell`"),
        "{ran}"
    );
    assert!(!project.root().join("ran").exists());
}

#[test]
fn an_invalid_item_of_the_user_does_not_run_either() {
    let project = TestProject::new()
        .home_file(
            ".ai/tools/greet.yaml",
            "tool_id: greet\ntool_type: cli\nversion: 1.0.0\ndescription: Greets\nexecutor: subprocess\n\
             config: {command: touch, args: [ran]}\nwrites: docs\n",
        )
        .home_file(
            ".ai/directives/hello.md",
            "# hello\n\n```xml\n<directive name=\"hello\" version=\"1.0.0\">\n  <metadata><permissions><deny><fly/></deny></permissions></metadata>\n  \
             <process><step name=\"a\"><action>Say hello.</action></step></process>\n</directive>\n```\n",
        )
        .file("notes.txt", "one\n")
        .committed();
    for words in [&["tool", "run", "greet"][..], &["run", "hello"]] {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(2), "{ran}");
    }
    assert!(!project.root().join("ran").exists());
}
