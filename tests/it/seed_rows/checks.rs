//! Mistakes that validation and runs report.

use super::*;

/// The findings of `validate` with a code: path and message.
fn found(project: &TestProject, words: &[&str], code: &str) -> Vec<(String, String)> {
    let ran = project.piton(
        ["validate", "--format", "json"]
            .iter()
            .chain(words)
            .copied(),
    );
    let report = ran.json();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["code"] == code)
        .map(|finding| (text(finding, "path"), text(finding, "message")))
        .collect()
}

fn one(path: &str, message: &str) -> Vec<(String, String)> {
    vec![(path.to_owned(), message.to_owned())]
}

fn tool(manifest: &str) -> TestProject {
    TestProject::new().file(".ai/tools/thing.yaml", manifest)
}

#[test]
fn headers_and_variables_are_mappings_and_arguments_a_list() {
    let api =
        "tool_id: thing\ntool_type: api\nversion: 1.0.0\ndescription: d\nexecutor: http_client\n";
    let cli =
        "tool_id: thing\ntool_type: cli\nversion: 1.0.0\ndescription: d\nexecutor: subprocess\n";
    for (manifest, path, message) in [
        (
            format!("{api}config: {{method: GET, url: \"https://a.example\", headers: [1]}}\n"),
            "config.headers",
            "config.headers must be a mapping, not a list",
        ),
        (
            format!(
                "{api}config: {{method: GET, url: \"https://a.example\", headers: {{a: [1]}}}}\n"
            ),
            "config.headers.a",
            "config.headers.a must be a text, not a list",
        ),
        (
            format!("{cli}config: {{command: echo, args: {{a: 1}}}}\n"),
            "config.args",
            "config.args must be a list, not a mapping",
        ),
        (
            format!("{cli}config: {{command: echo, args: [[1]]}}\n"),
            "config.args[0]",
            "config.args[0] must be a text, not a list",
        ),
        (
            format!("{cli}config: {{command: echo, env: [A]}}\n"),
            "config.env",
            "config.env must be a mapping, not a list",
        ),
    ] {
        let project = tool(&manifest);
        assert_eq!(
            found(&project, &[], "INVALID_TYPE"),
            one(path, message),
            "{manifest}"
        );
        assert_eq!(project.piton(["tool", "run", "thing"]).code(), Some(2));
    }
    let good = format!("{cli}config: {{command: echo, args: [a, 1, true], env: {{A: 1}}}}\n");
    assert_eq!(found(&tool(&good), &[], "INVALID_TYPE"), []);
}

#[test]
fn knowledge_has_no_executor() {
    let entry = |executor: &str| {
        TestProject::new().file(
            ".ai/knowledge/tides.md",
            format!("---\nid: tides\ntitle: Tides\nversion: 1.0.0\nexecutor: {executor}\n---\nTwice a day.\n"),
        )
    };
    assert_eq!(
        found(&entry("python_runtime"), &[], "UNEXPECTED_EXECUTOR"),
        one("executor", "Knowledge entries must have executor: null")
    );
    assert_eq!(found(&entry("null"), &[], "UNEXPECTED_EXECUTOR"), []);
}

#[test]
fn a_manifest_of_a_document_needs_its_file_which_is_checked() {
    for kind in ["directive", "knowledge"] {
        let manifest =
            format!("tool_id: thing\ntool_type: {kind}\nversion: 1.0.0\ndescription: d\n");
        let project = tool(&manifest);
        assert_eq!(
            found(&project, &[], "MISSING_ENTRYPOINT"),
            one(
                "config.entrypoint",
                &format!("a manifest of type {kind} needs its Markdown file")
            )
        );
    }
    let manifest = "tool_id: thing\ntool_type: directive\nversion: 1.0.0\ndescription: d\n";
    let good = "# thing\n\n```xml\n<directive name=\"thing\" version=\"1.0.0\">\n  <process><step name=\"a\"><action>Do it.</action></step></process>\n</directive>\n```\n";
    let project = TestProject::new()
        .file(".ai/tools/thing/tool.yaml", manifest)
        .file(".ai/tools/thing/thing.md", good);
    assert_eq!(project.piton(["validate"]).code(), Some(0));
    let project = project.file(
        ".ai/tools/thing/thing.md",
        good.replace("version=\"1.0.0\"", "").replace(
            "<process>",
            "<permissions><deny><fly/></deny></permissions><process>",
        ),
    );
    let ran = project.piton(["validate", "--format", "json"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stdout().contains(".ai/tools/thing/thing.md"), "{ran}");
}

#[test]
fn required_mcp_servers_must_exist() {
    let manifest = "tool_id: thing\ntool_type: cli\nversion: 1.0.0\ndescription: d\nexecutor: subprocess\n\
        config: {command: echo}\nrequires: {mcp: [files, mail], commands: [no_such_program]}\n";
    let project = tool(manifest).file(
        ".ai/tools/files.yaml",
        "tool_id: files\ntool_type: mcp_server\nversion: 1.0.0\ndescription: d\nexecutor: subprocess\n\
         config: {transport: stdio, command: cat}\n",
    );
    assert_eq!(
        found(&project, &[], "UNKNOWN_ITEM"),
        one("requires.mcp[1]", "there is no MCP server `mail`")
    );
    cmd_snapshot!(project.piton(["tool", "run", "thing"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `thing` needs the command `no_such_program` and the MCP server `mail`

    hint: add a tool of type `mcp_server` with that id, or correct `requires.mcp`
    ");
}

#[test]
fn a_tool_whose_install_check_fails_does_not_run() {
    let manifest = |check: &str| {
        format!(
            "tool:\n  id: thing\n  type: cli\n  name: Thing\n  version: \"1.0.0\"\n  description: d\n  cli_specific:\n    \
             executable: touch\n    args: [ran]\n    install_check: {check}\n    install_guide: Install it from the shelf\n"
        )
    };
    let project = tool(&manifest("\"test -e /no/such/file\""));
    cmd_snapshot!(project.piton(["tool", "run", "thing"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    warning: not signed: thing (`piton sign thing`)
    error: tool `thing` is not ready: its `install_check` failed: `test -e /no/such/file` [REQUIREMENTS_MISSING]
    hint: Install it from the shelf
    ");
    assert!(!project.root().join("ran").exists());
    let project = tool(&manifest("\"true\""));
    assert_eq!(project.piton(["tool", "run", "thing"]).code(), Some(0));
    assert!(project.root().join("ran").exists());
}

#[test]
fn an_example_has_an_output_or_an_error() {
    let manifest = "tool:\n  schema_version: \"2.0\"\n  id: thing\n  type: cli\n  name: Thing\n  version: \"1.0.0\"\n  \
        description: d\n  commands: [add]\n  cli_specific: {executable: echo}\n  examples:\n    add:\n      \
        - scenario: success\n        input: {}\n        output: {}\n        error: {message: no}\n";
    let told = one(
        "tool.examples.add[0]",
        "an example has either output or error, not both",
    );
    assert_eq!(found(&tool(manifest), &[], "CONFLICTING_FIELD"), told);
    assert_eq!(
        found(&tool(manifest), &["--strict"], "CONFLICTING_FIELD"),
        told
    );
}

#[test]
fn outside_of_a_project_the_project_path_is_required() {
    let project = TestProject::without_git();
    let mut client = start(&project);
    let result = client.call("search", json!({"item_type": "tool", "query": "a"}));
    assert_eq!(result["isError"], true, "{result}");
    let told = &result["structuredContent"];
    assert_eq!(told["error"], "project_path is required", "{told}");
    let named = json!({"item_type": "tool", "query": "a", "project_path": project.root()});
    let result = client.call("search", named);
    assert_ne!(result["isError"], true, "{result}");
}

#[test]
fn parsers_are_searched_in_the_project_the_working_folder_and_the_home() {
    let parser = |name: &str| format!("def parse(content):\n    return {{\"by\": \"{name}\"}}\n");
    let project = tool(
        "tool_id: thing\ntool_type: cli\nversion: 1.0.0\ndescription: d\nexecutor: subprocess\n\
         config: {command: echo, args: [hello], cwd: sub}\noutputs: {parser: shout}\nmutates_state: false\n",
    )
    .file("sub/a.txt", "a\n");
    let by = |project: &TestProject| {
        let ran = project.piton(["tool", "run", "thing", "--format", "json"]);
        ran.last_json()["result"].clone()
    };
    assert_eq!(by(&project), json!({"content": "hello\n"}));
    let project = project.home_file(".ai/parsers/shout.py", parser("home"));
    assert_eq!(by(&project), json!({"by": "home"}));
    let project = project.file("sub/.ai/parsers/shout.py", parser("folder"));
    assert_eq!(by(&project), json!({"by": "folder"}));
    let project = project.file(".ai/parsers/shout.py", parser("project"));
    assert_eq!(by(&project), json!({"by": "project"}));
}

#[test]
fn an_item_that_is_in_another_place_is_not_found_there() {
    let project = TestProject::new().tool("add", "", "true");
    let mut client = start(&project);
    let result = client.call(
        "load",
        json!({"item_type": "tool", "item_id": "add", "source": "user"}),
    );
    let told = &result["structuredContent"];
    assert_eq!(
        (&told["error"], &told["message"], &told["suggestion"]),
        (
            &json!("Tool not found"),
            &json!("tool `add` is not found there; it is in the project layer"),
            &json!("give `source: project`, or leave `source` out")
        ),
        "{told}"
    );
}

#[test]
fn knowledge_with_another_ending_is_named() {
    let text = "---\nid: tides\ntitle: Tides\nversion: 1.0.0\n---\nTwice a day.\n";
    let project = TestProject::new()
        .file(".ai/knowledge/tides.txt", text)
        .file(".ai/knowledge/moon.png", "no text")
        .file(".ai/knowledge/README.txt", "About this folder.\n");
    assert_eq!(
        found(&project, &[], "IGNORED_FILE"),
        one("", "only Markdown files that end in `.md` are read here")
    );
    let ran = project.piton(["load", "tides", "--type", "knowledge"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("end in `.md`"), "{ran}");
}

#[test]
fn the_detected_schema_version_is_shown() {
    let manifest = |more: &str| {
        tool(&format!(
            "tool:\n{more}  id: thing\n  type: cli\n  name: Thing\n  version: \"1.0.0\"\n  description: d\n  \
             commands: [add]\n  cli_specific: {{executable: echo}}\n"
        ))
    };
    for (more, version, line) in [
        ("", "1.0", "schema     1.0 (detected)"),
        ("  anti_patterns: []\n", "2.0", "schema     2.0 (detected)"),
        ("  schema_version: \"2.0\"\n", "2.0", "schema     2.0\n"),
    ] {
        let project = manifest(more);
        let ran = project.piton(["tool", "show", "thing", "--format", "json"]);
        assert_eq!(ran.json()["schema_version"], version, "{ran}");
        let ran = project.piton(["tool", "show", "thing"]);
        assert!(ran.stdout().contains(line), "{ran}");
    }
}
