//! Document 003: tools below a root `tool:`, with knowledge in schema 2.0.

use serde_json::json;

use super::{call, examples, findings, planned, shown};
use crate::harness::TestProject;

#[test]
fn every_example_is_read() {
    let project = examples("003");
    // A tool of schema 1.0 may lack the section of its type.
    let told: Vec<String> = findings(&project, &[])
        .into_iter()
        .filter(|line| !line.contains(" tools/sea_search.yaml: mcp_specific is missing"))
        .collect();
    assert_eq!(
        told,
        [
            "warning UNQUOTED_VERSION tools/harbour_tasks.yaml: schema_version `2.0` is a number; a version is a string"
        ]
    );
    let tasks = shown(&project, "harbour-tasks");
    for (name, value) in [
        ("tool_type", json!("mcp")),
        ("name", json!("Harbour Tasks")),
        ("version", json!("1.0.0")),
        (
            "description",
            json!("The tasks of a harbour:\nwho unloads which ship, and when\n"),
        ),
        ("commands", json!(["create_task", "update_task"])),
        (
            "config",
            json!({
                "transport": "stdio",
                "health_check": {"method": "tool_call", "command": "health_check", "expected_response": {"status": "ok"}},
                "command": "npx", "args": ["-y", "@example/server-harbour"],
            }),
        ),
    ] {
        assert_eq!(tasks[name], value, "{name}");
    }
    let knowledge = &tasks["knowledge"];
    for (pointer, value) in [
        ("/knowledge_strategy", json!("hybrid")),
        ("/executable_knowledge/helpers/0/id", json!("extract-berth")),
        (
            "/executable_knowledge/processors/0/id",
            json!("shorten-tasks"),
        ),
        (
            "/executable_knowledge/validators/0/validates",
            json!("create_task"),
        ),
        (
            "/executable_knowledge/validators/0/checks",
            json!([{"required_fields": ["ship", "berth"]}, {"format": "email", "field": "contact"}]),
        ),
        (
            "/api_complexity/payload_schemas/1/payload_path",
            json!("data.hook.payload"),
        ),
        (
            "/api_complexity/field_mappings/custom_fields/berth/extraction",
            json!("helpers.extract-berth"),
        ),
        (
            "/api_complexity/api_quirks/0/impact",
            json!("The call fails with the other form"),
        ),
        ("/anti_patterns/0/category", json!("api_usage")),
        (
            "/anti_patterns/1/rationale",
            json!("A berth has a structure"),
        ),
        ("/examples/create_task/0/output/result", json!("created")),
        ("/examples/create_task/2/error/code", json!("API_ERROR")),
        (
            "/examples/create_task/3/mitigation",
            json!("Use check-create-task"),
        ),
    ] {
        assert_eq!(knowledge.pointer(pointer), Some(&value), "{pointer}");
    }
    assert_eq!(
        shown(&project, "plot-depths")["dependencies"],
        json!(["depth-scale", "chart-lines"])
    );
    let search = shown(&project, "sea-search");
    assert_eq!(
        (
            &search["commands"],
            &search["executor"],
            search.get("knowledge")
        ),
        (&json!(["chart_search"]), &json!(null), None),
        "{search}"
    );
}

#[test]
fn each_type_runs_by_its_own_section() {
    let project = examples("003").committed();
    assert_eq!(
        call(&project, "count-lines", &["text=a"])["result"],
        json!({"lines": 1})
    );
    let report = project.piton([
        "tool",
        "run",
        "harbour-report",
        "write_report",
        "--format",
        "json",
    ]);
    assert_eq!(
        report.last_json()["result"],
        json!({"lines": 2}),
        "{report}"
    );
    let table = planned(&project, "tide-table", &[]);
    let process = &table["invocation"]["action"];
    assert_eq!(
        (&process["program"], &process["install_check"]),
        (&json!("printf"), &json!("printf x")),
        "{table}"
    );
    let words = [
        "tool",
        "run",
        "harbour-tasks",
        "create_task",
        "--dry-run",
        "--format",
        "json",
    ];
    let tasks = project.piton(words).json();
    let action = &tasks["invocation"]["action"];
    assert_eq!(
        (
            &action["tool"],
            &action["transport"]["transport"],
            &action["transport"]["program"]
        ),
        (&json!("create_task"), &json!("stdio"), &json!("npx")),
        "{tasks}"
    );
    // A tool of schema 1.0 that names no server is valid, and says what it needs to run.
    let search = call(&project, "sea-search", &[]);
    assert_eq!(search["code"], "MISSING_REQUIRED_FIELD", "{search}");
    assert!(
        search["suggestion"]
            .as_str()
            .is_some_and(|it| it.contains("config: {command: PROGRAM}")),
        "{search}"
    );
}

#[test]
fn one_root_and_its_required_fields_are_checked() {
    let tool = |lines: &str| {
        format!(
            "tool:\n  id: NAME\n  type: cli\n  name: N\n  version: 1.0.0\n  description: d\n  cli_specific: {{executable: printf}}\n{lines}"
        )
    };
    let cases = [
        ("other: 1\n", "warning UNKNOWN_FIELD", "other"),
        ("  type: pigeon\n", "error INVALID_ENUM_VALUE", "pigeon"),
        ("  type: CLI\n", "error INVALID_ENUM_VALUE", "CLI"),
        (
            "  name: ''\n",
            "error MISSING_REQUIRED_FIELD",
            "name is required",
        ),
        (
            "  version: \"1.0\"\n",
            "error INVALID_SEMVER",
            "MAJOR.MINOR.PATCH",
        ),
        (
            "  description: ''\n",
            "error MISSING_REQUIRED_FIELD",
            "description is required",
        ),
        ("  id: Case_X\n", "warning NAMING_CONVENTION", "kebab-case"),
        (
            "  schema_version: \"3.0\"\n",
            "error INVALID_ENUM_VALUE",
            "schema_version must be",
        ),
        (
            "  knowledge_strategy: loose\n",
            "warning UNKNOWN_ENUM_VALUE",
            "knowledge_strategy must be one of",
        ),
    ];
    let mut project = TestProject::new();
    for (at, (line, ..)) in cases.iter().enumerate() {
        let key = line.trim().split(':').next().unwrap_or_default();
        let text: String = tool("")
            .replace("NAME", &format!("case-{at}"))
            .split_inclusive('\n')
            .filter(|it| !it.trim().starts_with(&format!("{key}:")))
            .collect();
        project = project.file(&format!(".ai/tools/case_{at}.yaml"), text + line);
    }
    let found = findings(&project, &[]);
    for (at, (line, start, message)) in cases.iter().enumerate() {
        let start = format!("{start} tools/case_{at}.yaml: ");
        assert!(
            found
                .iter()
                .any(|it| it.starts_with(&start) && it.contains(message)),
            "{line}: {start}{message} is missing in {found:#?}"
        );
    }
}

#[test]
fn each_section_of_two_points_to_its_version() {
    // Only tools of schema 2.0 have these sections judged.
    let cases = [
        "anti_patterns: [{pattern: a}]",
        "api_complexity: {api_quirks: [{quirk: a}]}",
        "executable_knowledge: {helpers: [{id: a}]}",
    ];
    for section in cases {
        let text = |version: &str| {
            format!(
                "tool:\n  id: t\n  type: cli\n  name: T\n  version: 1.0.0\n  description: d\n  \
                 cli_specific: {{executable: printf}}\n{version}  {section}\n"
            )
        };
        let codes = |version: &str| -> Vec<String> {
            let project = TestProject::new().file(".ai/tools/t.yaml", text(version));
            findings(&project, &[])
                .iter()
                .filter_map(|line| line.split(' ').nth(1).map(str::to_owned))
                .collect()
        };
        let found = codes("");
        assert!(
            found.contains(&"MISSING_REQUIRED_FIELD".to_owned()),
            "{section}: {found:?}"
        );
        let ignored = codes("  schema_version: \"1.0\"\n");
        assert_eq!(ignored, ["IGNORED_SECTION"], "{section}");
    }
}
