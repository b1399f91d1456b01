//! Tools of other programs.

use super::*;

/// Runs a tool; returns its result.
fn call(project: &TestProject, words: &[&str]) -> Value {
    let words: Vec<&str> = ["tool", "run", "--format", "json"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let ran = project.piton(words);
    let text = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_else(|| panic!("{ran}"));
    serde_json::from_str(last).unwrap_or_else(|err| panic!("{err}: {ran}"))
}

#[test]
fn tools_go_by_their_file_names_and_run_with_the_runtimes_that_they_name() {
    let project = rye();
    let read = call(
        &project,
        &["rye/file-system/fs_read", "--param", "path=README.md"],
    );
    assert_eq!(read["result"]["content"], "Read me.\n", "{read}");
    let shouted = call(&project, &["plain/shout", "--param", "text=loud"]);
    assert_eq!(shouted["result"]["stdout"], "loud", "{shouted}");
    let counted = call(&project, &["count_words", "--param", "text=a b"]);
    assert_eq!(counted["result"]["count"], 2, "{counted}");
    assert!(
        project
            .files()
            .iter()
            .all(|file| !file.contains("__pycache__")),
        "{:?}",
        project.files()
    );
}

#[test]
fn a_result_with_success_false_fails_the_call() {
    let tool = |more: &str| {
        TestProject::new().tool(
            "check",
            more,
            "echo '{\"success\": false, \"error\": \"too short\"}'",
        )
    };
    cmd_snapshot!(tool("").piton(["tool", "run", "check"]), @r#"
    success: false
    exit_code: 1
    ----- stdout -----
    {"success": false, "error": "too short"}
    ----- stderr -----
    warning: not signed: check (`piton sign check`)
    no changes
    error: it answered `success: false`: too short [TOOL_FAILED]
    hint: if that is an ordinary result, write `outputs: {ignore_success: true}` in its manifest
    "#);
    let ran = tool("outputs: {ignore_success: true}").piton(["tool", "run", "check"]);
    assert_eq!(ran.output.status.code(), Some(0), "{ran}");
}

#[test]
fn a_python_file_with_execute_is_called_in_each_of_its_forms() {
    let head = "__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"python_runtime\"\n";
    for (name, body, expected) in [
        (
            "both",
            "def execute(params, project_path):\n    return [params['a'], bool(project_path)]\n",
            "[1,true]",
        ),
        (
            "one",
            "def execute(params):\n    return params\n",
            "{\"a\":1}",
        ),
        ("named", "def execute(a=0):\n    return a\n", "1"),
        (
            "open",
            "def execute(**values):\n    return values\n",
            "{\"a\":1}",
        ),
        (
            "async",
            "async def execute(params, project_path):\n    return params['a']\n",
            "1",
        ),
    ] {
        let schema =
            "CONFIG_SCHEMA = {'type': 'object', 'properties': {'a': {'type': 'integer'}}}\n";
        let project = TestProject::new().file(
            &format!(".ai/tools/t_{name}.py"),
            format!("{head}{schema}{body}"),
        );
        let id = format!("t_{name}");
        let answer = call(&project, &[&id, "--param", "a=1"]);
        assert_eq!(answer["result"].to_string(), expected, "{name}: {answer}");
    }
}

#[test]
fn yaml_without_a_type_and_an_executor_is_data() {
    let project = rye();
    let ran = project.piton(["validate", ".ai/tools/plain"]);
    let text = ran.to_string();
    assert!(
        !text.contains("table.yaml") && !text.contains("limits.yaml"),
        "{ran}"
    );
    let strict = project
        .piton(["validate", "--strict", ".ai/tools/plain"])
        .to_string();
    assert!(
        strict.contains("table.yaml") && strict.contains("limits.yaml"),
        "{strict}"
    );
    // A typing mistake is not taken for data.
    let typo = TestProject::new().file(
        ".ai/tools/a.yaml",
        "tool_type: scirpt\nversion: \"1.0.0\"\ndescription: A\n",
    );
    assert_eq!(typo.piton(["validate"]).output.status.code(), Some(2));
}

#[test]
fn stamps_of_other_programs_are_warnings_however_they_are_written() {
    let directive = |stamp: &str| {
        format!(
            "{stamp}```xml\n<directive name=\"odd\" version=\"1.0.0\">\n<process><step name=\"a\">\
             <action>x</action></step></process>\n</directive>\n```\n<!-- end -->\n"
        )
    };
    for stamp in [
        "<!-- rye:signed:2026-01-01T00:00:00Z:abc:def:0123 -->\n",
        "<!-- rye:signed:2026-01-01T00:00:00Z:abc:def:0123\n",
        "<!-- rye:signed:broken\n<!-- rye:signed:twice -->\n",
        "rye:validated:nothing\n",
        "# Title\n<!-- rye:signed:late -->\n",
        // Seed 001 has its stamp on the second line.
        "# Title\n<!-- kiwi-mcp:validated:2026-01-21T00:00:00Z:abc123 -->\n",
        "<!-- kiwi-mcp:validated:2026-01-21T00:00:00Z:abc123abc123 -->\n",
    ] {
        let project = TestProject::new().file(".ai/directives/odd.md", directive(stamp));
        let ran = project.piton(["validate", "--format", "json"]);
        let report: Value = serde_json::from_slice(&ran.output.stdout).expect("JSON");
        assert_eq!(report["valid"], true, "{stamp}: {report}");
        assert!(
            report.to_string().contains("FOREIGN_STAMP"),
            "{stamp}: {report}"
        );
    }
    // A whole stamp of piton must match and stand first.
    let whole = format!(
        "# Title\n<!-- kiwi-mcp:validated:2026-01-21T00:00:00Z:{} -->\n",
        "0".repeat(64)
    );
    let project = TestProject::new().file(".ai/directives/odd.md", directive(&whole));
    assert_eq!(project.piton(["validate"]).output.status.code(), Some(2));
}

#[test]
fn a_tool_that_cannot_be_called_says_so_when_it_is_validated() {
    let tool = |more: &str| {
        TestProject::new().file(
            ".ai/tools/x.yaml",
            format!("tool:\n  id: odd\n  name: Odd\n  version: 1.0.0\n  description: An odd tool\n{more}"),
        )
    };
    for (more, missing) in [
        ("  type: local\n", "local_specific is missing"),
        ("  type: cli\n", "cli_specific is missing"),
        ("  type: mcp\n", "mcp_specific is missing"),
    ] {
        let ran = tool(more).piton(["validate"]);
        assert_eq!(ran.output.status.code(), Some(0), "{more}: {ran}");
        assert!(ran.to_string().contains(missing), "{more}: {ran}");
    }
    for (more, url) in [
        (
            "  type: mcp\n  mcp_specific:\n    connection:\n      url: https://mcp.example.org/one\n",
            "https://mcp.example.org/one",
        ),
        (
            "  type: mcp\n  mcp_specific:\n    server_command: https://mcp.example.org/two\n",
            "https://mcp.example.org/two",
        ),
    ] {
        let ran = tool(more).piton(["tool", "show", "odd", "--format", "json"]);
        let shown: Value = serde_json::from_slice(&ran.output.stdout).expect("JSON");
        assert_eq!(shown["config"]["url"], url, "{shown}");
        assert_eq!(shown["executor"], "http_client", "{shown}");
    }
}

#[test]
fn a_url_that_is_one_placeholder_is_a_warning() {
    let project = TestProject::new().file(
        ".ai/tools/fetch.yaml",
        "tool_type: api\nversion: \"1.0.0\"\nexecutor_id: http_client\ndescription: Get a page\n\
         config: {method: GET, url: \"{url}\"}\nparameters: [{name: url, type: string, required: true}]\n",
    );
    let ran = project.piton(["validate"]);
    assert_eq!(ran.output.status.code(), Some(0), "{ran}");
    assert!(ran.to_string().contains("cannot be called"), "{ran}");
    let called = project.piton([
        "tool",
        "run",
        "fetch",
        "--param",
        "url=https://example.org/x",
    ]);
    assert_eq!(called.output.status.code(), Some(2), "{called}");
}

#[test]
fn tools_with_the_same_file_name_are_told_apart_by_their_folders() {
    let tool = "tool_type: cli\nversion: \"1.0.0\"\nexecutor_id: subprocess\ndescription: Say where\n\
                config: {command: printf, args: [FOLDER]}\n";
    let project = TestProject::new()
        .file(".ai/tools/one/say.yaml", tool.replace("FOLDER", "one"))
        .file(".ai/tools/two/say.yaml", tool.replace("FOLDER", "two"));
    let ran = project.piton(["validate"]);
    assert_eq!(ran.output.status.code(), Some(0), "{ran}");
    for folder in ["one", "two"] {
        let answer = call(&project, &[&format!("{folder}/say")]);
        assert_eq!(answer["result"]["stdout"], folder, "{answer}");
    }
    let bare = project.piton(["tool", "run", "say"]);
    assert_eq!(bare.output.status.code(), Some(2), "{bare}");
    assert_eq!(
        project.piton(["validate", "--strict"]).output.status.code(),
        Some(2)
    );
}

#[test]
fn a_foreign_project_of_a_hundred_items_fits_on_two_screens() {
    let mut project = TestProject::new();
    for number in 0..50 {
        project = project
            .file(
                &format!(".ai/tools/rye/area_{number}/tool_{number}.py"),
                format!(
                    "# rye:signed:2026-01-01T00:00:00Z:aa:bb:cc\n__version__ = \"1.0.0\"\n__tool_type__ = \"analyzer\"\n\
                     __executor_id__ = \"rye/core/runtimes/python/function\"\n__category__ = \"rye/other\"\n\n\n\
                     def execute(params, project_path):\n    return {{\"number\": {number}}}\n"
                ),
            )
            .file(
                &format!(".ai/directives/area/do_{number}.md"),
                format!(
                    "<!-- rye:signed:2026-01-01T00:00:00Z:aa:bb:cc -->\n```xml\n<directive name=\"do_{number}\" version=\"1.0.0\">\n\
                     <metadata>\n<description>Do it</description>\n<model tier=\"haiku\"/>\n<notes>More</notes>\n\
                     <permissions><execute><tool>*</tool></execute><spawn max=\"2\"/></permissions>\n</metadata>\n\
                     <process><step number=\"1\" name=\"a\"><execute item_type=\"tool\" item_id=\"gone\"/></step></process>\n\
                     </directive>\n```\n"
                ),
            );
    }
    let folded = project.piton(["validate"]).to_string();
    assert!(folded.lines().count() <= 100, "{folded}");
    assert_eq!(
        folded.matches("tool `gone` does not exist").count(),
        1,
        "{folded}"
    );
    assert!(folded.contains("and 49 more like it: "), "{folded}");
    assert!(
        folded.contains("`piton validate --all` shows each finding"),
        "{folded}"
    );
    let all = project.piton(["validate", "--all"]).to_string();
    assert_eq!(
        all.matches("tool `gone` does not exist").count(),
        50,
        "{all}"
    );
}

#[test]
fn many_items_with_one_id_have_a_short_report() {
    let mut project = TestProject::new();
    for number in 0..200 {
        project = project.file(
            &format!(".ai/knowledge/n{number}.md"),
            "---\nid: same\ntitle: Same\nentry_type: note\nversion: \"1.0.0\"\n---\nText.\n",
        );
    }
    let ran = project.piton(["validate", "--format", "json"]);
    assert!(
        ran.output.stdout.len() < 200 * 2000,
        "{}",
        ran.output.stdout.len()
    );
    assert!(ran.to_string().contains("is defined 200 times"), "{ran}");
    assert!(ran.to_string().contains("and 197 more"), "{ran}");
}

#[test]
fn diffs_for_people_highlight_changed_words() {
    let project = TestProject::new()
        .file("a.txt", "limit = 10 lines\n")
        .committed();
    project.exec("echo 'limit = 25 lines' > a.txt");
    let plain = project
        .piton(["show", "HEAD", "--color", "always"])
        .to_string();
    assert!(
        plain.contains("\u{1b}[7m\u{1b}[31m10\u{1b}[0m")
            && plain.contains("\u{1b}[7m\u{1b}[32m25\u{1b}[0m"),
        "{plain:?}"
    );
    // For a program the diff stays one that `git apply` takes.
    let raw = project.piton(["show", "HEAD"]).to_string();
    assert!(
        raw.contains("-limit = 10 lines\n+limit = 25 lines\n"),
        "{raw}"
    );
}
