//! `piton validate`: checked files, output and exit codes.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::harness::{TestProject, cmd_snapshot};
use crate::many_items;

const CLI: &str = "tool_id: NAME\ntool_type: cli\nversion: \"1.0.0\"\ndescription: d\nexecutor: subprocess\nconfig: {command: x}\n";

fn cli(name: &str) -> String {
    CLI.replace("NAME", name)
}

/// The findings as `severity CODE file:line path`, without those about missing stamps.
fn told(report: &Value) -> Vec<String> {
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().expect("findings").iter();
    let shown = findings
        .filter(|finding| finding["code"] != "UNSIGNED")
        .map(|finding| {
            let [severity, code, file, path] =
                ["severity", "code", "file", "path"].map(|key| text(finding, key));
            format!("{severity} {code} {file}:{} {path}", finding["line"])
        });
    shown.map(|line| line.trim_end().to_owned()).collect()
}

/// One item of each kind, broken in several ways.
fn broken() -> TestProject {
    TestProject::new()
        .file(".ai/tools/nameless.yaml", "tool_type: api\nexecutor: http_clint\nconfig: {method: FETCH, url: \"ftp://x/{q}\"}\n")
        .file(".ai/tools/typeless.yaml", "tool_id: typeless\n")
        .tool("script", "config2: 1\ntimeout: -1\noutputs: {schema: nowhere}", "if\n")
        .file(".ai/tools/script/requirements.txt", "# pinned\nhttpx>=0.24\nbad >>1\n")
        .file(".ai/tools/root.yaml", "tool:\n  id: Root\n  type: cli\n  name: R\n  version: 1\n  description: d\n")
        .file(".ai/tools/page.json", "{\"tool_id\": \"page\", \"tool_type\": \"cli\",")
        .file(".ai/tools/silent.py", "import os\n")
        .file(
            ".ai/directives/wrong.md",
            "```xml\n<directive name=\"wrong\" version=\"1\">\n  <metadata><permissions><fly/></permissions></metadata>\n  <process>\n    \
             <step name=\"a\"><execute item_type=\"tool\" item_id=\"gone\"><param name=\"x\" value=\"{input:y}\"/></execute></step>\n    \
             <step name=\"a\" when=\"1 >\"><action>x</action></step>\n  </process>\n</directive>\n```\n",
        )
        .file(".ai/knowledge/empty.md", "---\ntitle: x\ntags: y\n---\n")
}

#[test]
fn a_broken_project_gives_every_finding_in_one_pass() {
    let ran = broken().piton(["validate", "--format", "json"]);
    assert_eq!(ran.code(), Some(2));
    let report = ran.json();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["valid", "findings"]);
    assert_eq!(report["valid"], false);
    for finding in report["findings"].as_array().unwrap() {
        let keys: Vec<&String> = finding.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "code",
                "severity",
                "file",
                "line",
                "column",
                "path",
                "message",
                "suggestion"
            ]
        );
        assert!(
            finding["line"].as_u64() >= Some(1) && finding["column"].as_u64() >= Some(1),
            "{finding}"
        );
    }
    insta::assert_snapshot!(told(&report).join("\n"), @"
    error INVALID_SEMVER .ai/directives/wrong.md:2 version
    warning MISSING_RECOMMENDED_FIELD .ai/directives/wrong.md:3 metadata.author
    warning MISSING_RECOMMENDED_FIELD .ai/directives/wrong.md:3 metadata.category
    warning MISSING_RECOMMENDED_FIELD .ai/directives/wrong.md:3 metadata.description
    warning MISSING_RECOMMENDED_FIELD .ai/directives/wrong.md:3 metadata.model
    warning UNKNOWN_PERMISSION .ai/directives/wrong.md:3 metadata.permissions.fly[0]
    warning UNKNOWN_ITEM .ai/directives/wrong.md:5 process.step[0]
    error UNKNOWN_REFERENCE .ai/directives/wrong.md:5 process.step[0].execute.x
    error DUPLICATE_NAME .ai/directives/wrong.md:6 process.step[1].name
    error INVALID_EXPRESSION .ai/directives/wrong.md:6 process.step[1].when
    error MISSING_REQUIRED_FIELD .ai/knowledge/empty.md:1 entry_type
    error MISSING_REQUIRED_FIELD .ai/knowledge/empty.md:1 id
    error MISSING_REQUIRED_FIELD .ai/knowledge/empty.md:1 version
    warning MISSING_RECOMMENDED_FIELD .ai/knowledge/empty.md:1 category
    error INVALID_TYPE .ai/knowledge/empty.md:3 tags
    warning MISSING_REQUIRED_FIELD .ai/tools/nameless.yaml:1 tool_id
    error MISSING_REQUIRED_FIELD .ai/tools/nameless.yaml:1 version
    warning MISSING_RECOMMENDED_FIELD .ai/tools/nameless.yaml:1 description
    error UNKNOWN_EXECUTOR .ai/tools/nameless.yaml:2 executor
    error INVALID_ENUM_VALUE .ai/tools/nameless.yaml:3 config.method
    error INVALID_URL .ai/tools/nameless.yaml:3 config.url
    error UNKNOWN_TEMPLATE_VARIABLE .ai/tools/nameless.yaml:3 config.url
    error JSON_SYNTAX .ai/tools/page.json:1
    warning MISSING_RECOMMENDED_FIELD .ai/tools/root.yaml:2 tool.cli_specific
    warning NAMING_CONVENTION .ai/tools/root.yaml:2 tool.id
    error INVALID_SEMVER .ai/tools/root.yaml:5 tool.version
    error INVALID_REQUIREMENT .ai/tools/script/requirements.txt:3
    error SYNTAX_ERROR .ai/tools/script/run.sh:2
    warning UNKNOWN_FIELD .ai/tools/script/tool.yaml:8 config2
    error INVALID_TYPE .ai/tools/script/tool.yaml:9 config.timeout
    warning UNKNOWN_SCHEMA .ai/tools/script/tool.yaml:10 outputs.schema
    error MISSING_METADATA .ai/tools/silent.py:1
    error MISSING_REQUIRED_FIELD .ai/tools/typeless.yaml:1 tool_type
    error MISSING_REQUIRED_FIELD .ai/tools/typeless.yaml:1 version
    warning MISSING_RECOMMENDED_FIELD .ai/tools/typeless.yaml:1 description
    ");
}

#[test]
fn warnings_alone_are_no_failure() {
    let project = TestProject::new().file(".ai/tools/x.yaml", cli("x"));
    cmd_snapshot!(project.piton(["validate"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    warning[UNSIGNED]: tool `x` is not signed
     --> .ai/tools/x.yaml:1:1
      |
    1 | tool_id: x
      | ^^^^^^^
      |
      = hint: read it, then `piton sign x`

    ----- stderr -----
    ✓ 1 tool, 0 directives, 0 knowledge entries: 0 errors, 1 warning
    ");
    cmd_snapshot!(project.piton(["validate", "--format", "json"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {"valid":true,"findings":[{"code":"UNSIGNED","severity":"warning","file":".ai/tools/x.yaml","line":1,"column":1,"path":"","message":"tool `x` is not signed","suggestion":"read it, then `piton sign x`"}]}
    ----- stderr -----
    "#);
}

#[test]
fn people_see_the_line_with_a_caret() {
    let project = TestProject::new().file(".ai/tools/x.yaml", cli("x").replace("cli", "clii"));
    cmd_snapshot!(project.piton(["validate"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    error[INVALID_ENUM_VALUE]: Unknown tool_type: clii (known: primitive, runtime, script, python, bash, api, mcp_server, mcp_tool, mcp, docker, cli, local, meta, directive, knowledge)
     --> .ai/tools/x.yaml:2:12
      |
    2 | tool_type: clii
      |            ^^^^
      |
      = hint: did you mean `cli`?

    ----- stderr -----
    ✗ 1 tool, 0 directives, 0 knowledge entries: 1 error, 0 warnings
    hint: `piton help INVALID_ENUM_VALUE` explains it with a corrected example; `piton help codes` lists all
    ");
}

#[test]
fn sarif_names_rule_place_and_file() {
    let project = TestProject::new().file(".ai/tools/a b.yaml", cli("x").replace("1.0.0", "1"));
    let ran = project.piton(["validate", "--format", "sarif"]);
    assert_eq!(ran.code(), Some(2));
    let log = ran.json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for result in run["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
    }
    insta::assert_snapshot!(format!("{:#}", run["results"][1]), @r#"
    {
      "ruleId": "INVALID_SEMVER",
      "ruleIndex": 24,
      "level": "error",
      "message": {
        "text": "version `1` is not MAJOR.MINOR.PATCH: unexpected end of input while parsing major version number; write \"1.0.0\""
      },
      "locations": [
        {
          "physicalLocation": {
            "artifactLocation": {
              "uri": ".ai/tools/a%20b.yaml"
            },
            "region": {
              "startLine": 3,
              "startColumn": 10
            }
          }
        }
      ]
    }
    "#);
}

#[test]
fn a_part_of_a_folder_tool_means_the_tool() {
    let project = TestProject::new()
        .tool("broken", "", "if")
        .file(".ai/tools/other.yaml", "tool_id: other\n");
    for path in [
        ".ai/tools/broken",
        ".ai/tools/broken/tool.yaml",
        ".ai/tools/broken/run.sh",
    ] {
        let ran = project.piton(["validate", "--format", "json", path]);
        assert_eq!(
            told(&ran.json()),
            ["error SYNTAX_ERROR .ai/tools/broken/run.sh:2"],
            "{path}"
        );
    }
}

#[test]
fn several_paths_are_checked_together() {
    let project = TestProject::new()
        .file(".ai/tools/a.yaml", "tool_id: a\n")
        .file(".ai/tools/b.yaml", "tool_id: b\n")
        .file("loose/c.yaml", "tool_id: c\n")
        .file(".ai/tools/d.yaml", "tool_id: d\n");
    let ran = project.piton([
        "validate",
        "--format",
        "json",
        ".ai/tools/a.yaml",
        "loose/c.yaml",
        ".ai/tools/b.yaml",
    ]);
    let report = ran.json();
    let mut files: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["file"].as_str().unwrap())
        .collect();
    files.dedup();
    assert_eq!(
        files,
        [".ai/tools/a.yaml", ".ai/tools/b.yaml", "loose/c.yaml"]
    );
}

#[test]
fn a_folder_outside_the_items_may_hold_other_things() {
    let project = TestProject::new()
        .file("kit/good.yaml", cli("good"))
        .file("kit/README.md", "# About\n")
        .file("kit/data.yaml", "a: 1\n")
        .file("kit/.git/hooks/x.sh", "#!/bin/sh\n")
        .file("kit/inner/.ai/tools/lib/helper.py", "x = 1\n")
        .file(
            "kit/inner/.ai/tools/bad.yaml",
            "tool_id: bad\ntool_type: cli\n",
        );
    let ran = project.piton(["validate", "--format", "json", "kit"]);
    insta::assert_snapshot!(told(&ran.json()).join("\n"), @"
    error MISSING_REQUIRED_FIELD kit/inner/.ai/tools/bad.yaml:1 config.command
    error MISSING_REQUIRED_FIELD kit/inner/.ai/tools/bad.yaml:1 executor
    error MISSING_REQUIRED_FIELD kit/inner/.ai/tools/bad.yaml:1 version
    warning MISSING_RECOMMENDED_FIELD kit/inner/.ai/tools/bad.yaml:1 description
    ");
}

#[test]
fn a_link_out_of_the_items_is_checked_by_its_own_name() {
    let project = TestProject::new()
        .file("shared/a.yaml", cli("a"))
        .file(".ai/tools/keep.txt", "");
    symlink("../../shared", project.root().join(".ai/tools/linked")).unwrap();
    let paths = [
        ".ai/tools/linked",
        ".ai/tools/linked/a.yaml",
        "shared/../.ai/tools/linked/a.yaml",
    ];
    for path in paths {
        let report = project.piton(["validate", path, "--format", "json"]).json();
        assert_eq!(told(&report), Vec::<String>::new(), "{path}");
        assert_eq!(
            report["findings"][0]["file"], ".ai/tools/linked/a.yaml",
            "{path}"
        );
    }
}

#[test]
fn nothing_that_lies_outside_the_project_is_printed() {
    let project = TestProject::new()
        .home_file("secret", "password: 1234\n")
        .file(".ai/tools/keep.txt", "");
    symlink(
        project.home().join("secret"),
        project.root().join(".ai/config.yaml"),
    )
    .unwrap();
    cmd_snapshot!(project.piton(["validate"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    error[PATH_ESCAPE]: the link leaves the project
     --> .ai/config.yaml:1:1
      |
    1 |
      | ^
      |
      = hint: copy the file into the project

    ----- stderr -----
    ✗ 0 tools, 0 directives, 0 knowledge entries: 1 error, 0 warnings
    hint: `piton help PATH_ESCAPE` explains it with a corrected example; `piton help codes` lists all
    ");
}

#[test]
fn what_is_no_item_is_an_error() {
    let project = TestProject::new()
        .file(".ai/tools/README.md", "hi\n")
        .file("notes.txt", "hi\n")
        .file("empty/.keep", "")
        .file(".ai/config.yaml", "validate: {strict: false}\n");
    for path in [".ai/tools/README.md", "notes.txt", "empty", ".git"] {
        let ran = project.piton(["validate", path]);
        assert_eq!(ran.code(), Some(2), "{path}: {ran}");
    }
    assert_eq!(
        project.piton(["validate", ".ai/config.yaml"]).code(),
        Some(0)
    );
    cmd_snapshot!(project.piton(["validate", "notes.txt"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `notes.txt` is neither a directive, a tool nor knowledge

    hint: items are Markdown, YAML, JSON or scripts; `piton init` makes one of each
    ");
    cmd_snapshot!(project.piton(["validate", "nowhere"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot read `nowhere`
      caused by: No such file or directory (os error 2)

    hint: name a file or folder that exists; paths are relative to the current folder
    ");
}

#[test]
fn a_thousand_items_of_every_kind_are_valid() {
    let project = TestProject::new();
    many_items::plant(&project.root(), 1000);
    for strength in [&["validate"][..], &["validate", "--strict"]] {
        let ran = project.piton(strength);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(ran.stdout(), "");
        assert_eq!(
            ran.stderr(),
            "warning: 1000 items are not signed; `--format json` lists them\n\
             ✓ 550 tools, 300 directives, 150 knowledge entries: 0 errors, 1000 warnings\n"
        );
    }
}

#[test]
fn our_own_items_are_valid() {
    let project = TestProject::new();
    let ran = project.piton([
        "-C",
        env!("CARGO_MANIFEST_DIR"),
        "validate",
        "--strict",
        "--format",
        "json",
    ]);
    assert_eq!(told(&ran.json()), Vec::<String>::new());
}

#[test]
fn the_example_is_valid() {
    let project = TestProject::new();
    project.piton(["init"]);
    let ran = project.piton(["validate", "--strict", "--format", "json"]);
    assert_eq!((told(&ran.json()), ran.code()), (Vec::new(), Some(0)));
}

#[test]
fn a_single_file_manifest_may_have_its_script_beside_it() {
    let manifest = "tool_id: sum\ntool_type: script\nversion: \"1.0.0\"\ndescription: d\nexecutor: python_runtime\nconfig: {entrypoint: sum_main.py}\n";
    let project = TestProject::new()
        .file(".ai/tools/sum.yaml", manifest)
        .file(".ai/tools/sum_main.py", "def main(a: int): pass\n")
        .file(".ai/tools/stray.py", "def main(a: int): pass\n");
    let report = project.piton(["validate", "--format", "json"]).json();
    assert_eq!(
        told(&report),
        ["error MISSING_METADATA .ai/tools/stray.py:1"]
    );
}

#[test]
fn a_project_without_items_is_told_how_to_begin() {
    cmd_snapshot!(TestProject::new().piton(["validate"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ 0 tools, 0 directives, 0 knowledge entries: 0 errors, 0 warnings
    hint: there are no items here; `piton init` creates an example
    ");
}

#[test]
fn programs_of_other_languages_are_items_and_data_beside_them_is_not() {
    let header = "-- tool_id: report\n-- tool_type: script\n-- version: 1.0.0\n-- description: Reports\n-- executor: sql\n";
    let runtime = "tool_id: sql\ntool_type: runtime\nversion: \"1.0.0\"\ndescription: Runs SQL\nexecutor: subprocess\n\
                   config:\n  command: cat\n";
    let project = TestProject::new()
        .file(".ai/tools/report.sql", format!("{header}\nSELECT 1;\n"))
        .file(".ai/tools/sql.yaml", runtime)
        .file(
            ".ai/tools/dump.sql",
            b"INSERT INTO names VALUES ('Zo\xeb');\n",
        )
        .file(
            ".ai/tools/schema.sql",
            "-- all tables\nCREATE TABLE names (name TEXT);\n",
        );
    let report = project.piton(["validate", "--format", "json"]).json();
    let told = report["findings"].as_array().expect("findings").iter();
    let told: Vec<String> = told
        .map(|it| format!("{} {}", it["code"], it["file"]))
        .collect();
    assert_eq!(
        told,
        [
            r#""UNSIGNED" ".ai/tools/report.sql""#,
            r#""UNSIGNED" ".ai/tools/sql.yaml""#
        ],
        "{report}"
    );
    let found = project.piton(["search", "--format", "json"]).json();
    assert_eq!(found["total"], 2, "{found}");
    let ran = project.piton(["tool", "run", "report"]);
    assert!(ran.stdout().contains("SELECT 1;"), "{ran}");
    // Its stamp is a comment as well.
    assert_eq!(project.piton(["sign", "report"]).code(), Some(0));
    assert!(
        project
            .read(".ai/tools/report.sql")
            .starts_with("-- kiwi-mcp:validated:")
    );
}
