//! Directives of other programs.

use super::*;

/// A directive with these permissions and steps.
fn directive(permissions: &str, steps: &str) -> String {
    format!(
        "```xml\n<directive name=\"odd\" version=\"1.0.0\">\n<metadata><permissions>{permissions}</permissions></metadata>\n\
         <process>\n{steps}\n</process>\n</directive>\n```\n"
    )
}

#[test]
fn ten_directives_begin_and_finish_with_their_tools() {
    let project = rye();
    for (words, expected) in [
        (
            &["write_note", "--input", "text=hello"][..],
            &["write succeeded", "read succeeded"][..],
        ),
        (&["notes/dotted"], &["read succeeded"]),
        (&["everything"], &["write_allowed succeeded"]),
        (&["capabilities"], &["read succeeded"]),
        (&["several"], &["gather succeeded", "gather_2 succeeded"]),
        (&["kiwi_run"], &["count succeeded"]),
        (&["phases"], &["say succeeded", "say_more succeeded"]),
        (&["notes.below"], &["read succeeded"]),
        (
            &["find_style", "--input", "topic=words"],
            &["find succeeded", "load succeeded", "read succeeded"],
        ),
        (
            &[".ai/directives/notes/call_another.md"],
            &["step_1/read succeeded"],
        ),
    ] {
        let summary = run(&project, words);
        assert_eq!(summary["status"], "succeeded", "{words:?}: {summary}");
        assert_eq!(steps(&summary), expected, "{words:?}");
    }
    assert_eq!(project.read("notes/one.txt"), "hello");
    assert_eq!(project.read("anywhere.txt"), "with every permission");
}

#[test]
fn what_the_tools_return_reaches_later_steps_and_outputs() {
    let project = rye();
    let summary = run(&project, &["kiwi_run"]);
    assert_eq!(
        summary["outputs"],
        serde_json::json!({"count": 3, "unit": "words"})
    );
    let summary = run(&project, &["write_note", "--input", "text=hello"]);
    assert_eq!(summary["outputs"], serde_json::json!({"noted": "hello"}));
}

#[test]
fn a_base_without_steps_is_listed_and_does_not_run() {
    let project = rye();
    cmd_snapshot!(project.piton(["run", "base"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `base` has no steps, so it cannot run

    hint: give it a <process> with a <step>
    ");
    let found = project.piton(["search", "share", "--format", "json"]);
    assert!(found.to_string().contains("\"base\""), "{found}");
    let strict = project.piton(["validate", "--strict", ".ai/directives/notes/base.md"]);
    assert_eq!(strict.output.status.code(), Some(2), "{strict}");
}

#[test]
fn an_unknown_grant_grants_nothing_and_an_unknown_denial_is_an_error() {
    let step = "<step name=\"one\"><execute item_type=\"tool\" item_id=\"touch\"/></step>";
    let project = |permissions: &str| {
        TestProject::new()
            .tool("touch", "", "echo > made.txt")
            .file(".ai/directives/odd.md", directive(permissions, step))
            .committed()
    };
    let tool = "<execute resource=\"tool\" id=\"touch\"/>";
    for unknown in [
        "<files write=\"**\"/>",
        "<write resource=\"disk\" path=\"**\"/>",
        "<write resource=\"filesystem\" path=\"**\" except=\"secrets/**\"/>",
        "<write resource=\"filesystem\"/>",
        "may write everything",
    ] {
        let project = project(&format!("{tool}{unknown}"));
        let ran = project.piton(["run", "odd"]);
        assert_eq!(ran.output.status.code(), Some(3), "{unknown}: {ran}");
        assert!(!project.root().join("made.txt").exists(), "{unknown}");
        let strict = project.piton(["validate", "--strict"]);
        assert_eq!(strict.output.status.code(), Some(2), "{unknown}: {strict}");
    }
    let all = "<write resource=\"filesystem\" path=\"**\"/>";
    for denial in [
        "<deny><files path=\"**\"/></deny>",
        "<denny resource=\"filesystem\" path=\"**\"/>",
        "<forbid path=\"made.txt\"/>",
        "<rules><deny path=\"made.txt\"/></rules>",
        "<write resource=\"filesystem\" path=\"made.txt\" effect=\"deny\"/>",
        "<write resource=\"filesystem\" path=\"made.txt\" allow=\"false\"/>",
        "no writing of made.txt",
        "<deny resource=\"filesystem\"/>",
    ] {
        let project = project(&format!("{tool}{all}{denial}"));
        let ran = project.piton(["run", "odd"]);
        assert_eq!(ran.output.status.code(), Some(2), "{denial}: {ran}");
        assert!(!project.root().join("made.txt").exists(), "{denial}");
    }
}

#[test]
fn every_permission_does_not_include_items_and_commands() {
    let step = "<step name=\"one\"><execute item_type=\"tool\" item_id=\"meddle\"/></step>";
    let project = TestProject::new()
        .tool("meddle", "isolation: trusted", "echo > .ai/made.txt")
        .file(".ai/directives/odd.md", directive("*", step))
        .committed();
    let ran = project.piton(["run", "odd"]);
    assert_eq!(ran.output.status.code(), Some(3), "{ran}");
    assert!(!project.root().join(".ai/made.txt").exists());
}

#[test]
fn several_calls_are_exact_in_strict_validation_and_for_lists() {
    let calls = "<tool_call tool=\"touch\"/><tool_call tool=\"touch\"/>";
    let project = |attributes: &str| {
        let step = format!("<step name=\"one\"{attributes}>{calls}</step>");
        TestProject::new()
            .tool("touch", "", "echo made")
            .file(".ai/directives/odd.md", directive("*", &step))
            .committed()
    };
    let lenient = project("");
    assert_eq!(
        steps(&run(&lenient, &["odd"])),
        ["one succeeded", "one_2 succeeded"]
    );
    let strict = lenient.piton(["validate", "--strict"]);
    assert!(strict.to_string().contains("AMBIGUOUS_STEP"), "{strict}");
    let repeated = project(" foreach=\"[1, 2]\"").piton(["run", "odd"]);
    assert_eq!(repeated.output.status.code(), Some(2), "{repeated}");
}

#[test]
fn a_server_that_is_not_here_is_named_before_anything_runs() {
    let step = "<step name=\"one\"><tool_call><mcp>supabase</mcp><tool>list_tables</tool></tool_call></step>";
    let project = TestProject::new().file(".ai/directives/odd.md", directive("*", step));
    cmd_snapshot!(project.piton(["run", "odd"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: step `one` cannot be run
      caused by: tool `supabase` does not exist
     --> .ai/directives/odd.md:5:1

    hint: those of a project live in `.ai/tools/`, those of a user in `~/.ai/tools/`
    ");
}

#[test]
fn line_breaks_in_attributes_are_kept() {
    let step = "<step name=\"one\"><execute item_type=\"tool\" item_id=\"keep\">\n\
                <param name=\"text\" value=\"# Title\n\n- one\n\t- two\r\n\"/>\n</execute></step>";
    let project = TestProject::new()
        .tool(
            "keep",
            "parameters: [{name: text, type: string}]",
            "printf %s \"$PITON_PARAM_TEXT\" > kept.md",
        )
        .file(".ai/directives/odd.md", directive("*", step))
        .committed();
    let summary = run(&project, &["odd"]);
    assert_eq!(summary["status"], "succeeded", "{summary}");
    assert_eq!(project.read("kept.md"), "# Title\n\n- one\n\t- two\n");
}

#[test]
fn a_manual_step_reaches_the_agent_whole() {
    let text = "```xml\n<directive name=\"odd\" version=\"1.0.0\">\n\
        <inputs>\n<input name=\"page\" type=\"string\" required=\"true\">The page</input>\n\
        <input name=\"tone\" type=\"string\">The tone</input>\n\
        <input name=\"limit\" type=\"integer\">Lines</input>\n\
        <input name=\"absent\" type=\"string\">Nothing</input>\n</inputs>\n\
        <process>\n<step name=\"write\">\n\
        <action>Write {page} in a {inputs.tone} tone; keep {other}, {absent} and ${HOME}.</action>\n\
        <files>docs/${inputs.page}.md</files>\n\
        <code>print(\"{input:page}\")</code>\n\
        <success_criteria>At most some lines.</success_criteria>\n\
        <verification><check>{page} exists.</check></verification>\n\
        </step>\n</process>\n</directive>\n```\n";
    let project = TestProject::new()
        .file(".ai/directives/odd.md", text)
        .committed();
    let inputs = [
        "run",
        "odd",
        "--input",
        "page=home",
        "--input",
        "tone=calm",
        "--input",
        "limit=9",
        "--format",
        "json",
    ];
    let ran = project.piton(inputs);
    let stdout = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let waiting = stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|event| {
            event
                .pointer("/wait/instruction")?
                .as_str()
                .map(str::to_owned)
        })
        .unwrap_or_else(|| panic!("{ran}"));
    assert_eq!(
        waiting,
        "Write home in a calm tone; keep {other}, {absent} and ${HOME}.\n\n\
         <files>docs/home.md</files>\n\n<code>print(\"home\")</code>\n\n\
         <success_criteria>At most some lines.</success_criteria>\n\nInputs:\n- limit: 9"
    );
    assert!(stdout.contains("home exists."), "{stdout}");
}
