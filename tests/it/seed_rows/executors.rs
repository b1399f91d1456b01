//! Executors, extraction rules, and the ends of runs.

use super::*;
use crate::harness::Ran;

fn shown(ran: &Ran) -> Value {
    assert_eq!(ran.code(), Some(0), "{ran}");
    ran.json()
}

#[test]
fn the_three_rules_of_the_schema_page_give_a_tool_that_loads() {
    let rules = "tool_id:\n  pattern: '^([a-z_]+)$'\n  source: filename\nversion:\n  default: \"1.0.0\"\nexecutor:\n  \
        pattern: 'executor[\"'']\\s*:\\s*[\"''](\\w+)[\"'']'\n  source: config\n";
    let project = TestProject::new()
        .file(".ai/extractors/rules.yaml", rules)
        .file(".ai/tools/count_words.json", "{\"executor\": \"python_runtime\"}\n")
        .file(
            ".ai/tools/count_words.py",
            "def main(text: str) -> dict:\n    \"\"\"Counts words.\"\"\"\n    return {\"words\": len(text.split())}\n",
        );
    let ran = project.piton([
        "tool",
        "run",
        "count_words",
        "--param",
        "text=a b c",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(ran.last_json()["result"], json!({"words": 3}));
}

#[test]
fn a_runtime_at_a_url_gets_the_script_and_its_parameters() {
    let project = TestProject::new()
        .file(
            ".ai/tools/remote.yaml",
            "tool_id: remote\ntool_type: runtime\nversion: 1.0.0\ndescription: Runs elsewhere\nexecutor: http_client\n\
             config: {url: \"https://runner.example/run\"}\n",
        )
        .file(
            ".ai/tools/far/tool.yaml",
            "tool_id: far\ntool_type: script\nversion: 1.0.0\ndescription: Runs far away\nexecutor: remote\n\
             config: {entrypoint: main.py}\n",
        )
        .file(".ai/tools/far/main.py", "print(1)\n");
    assert_eq!(project.piton(["validate"]).code(), Some(0));
    let plan = shown(&project.piton([
        "tool",
        "run",
        "far",
        "--param",
        "x=1",
        "--dry-run",
        "--format",
        "json",
    ]));
    let action = &plan["invocation"]["action"];
    assert_eq!(
        (&action["type"], &action["method"], &action["url"]),
        (
            &json!("http"),
            &json!("POST"),
            &json!("https://runner.example/run")
        ),
        "{plan}"
    );
    let body: Value =
        serde_json::from_str(action["body"].as_str().unwrap_or_default()).expect("JSON");
    assert_eq!(
        body,
        json!({"tool_id": "far", "script": "print(1)\n", "parameters": {"x": "1"}})
    );
}

#[test]
fn a_local_tool_with_an_unknown_runtime_says_so_when_it_is_validated() {
    let project = TestProject::new()
        .file(
            ".ai/tools/calc/tool.yaml",
            "tool:\n  id: calc\n  type: local\n  name: Calc\n  version: \"1.0.0\"\n  description: Calculates\n  \
             local_specific:\n    entry_point: calc.py\n    runtime: pyton\n",
        )
        .file(".ai/tools/calc/calc.py", "print(1)\n");
    let ran = project.piton(["validate", "--format", "json"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    let found = ran.json();
    let finding = found["findings"]
        .as_array()
        .and_then(|all| all.iter().find(|it| it["code"] == "INVALID_ENUM_VALUE"))
        .cloned()
        .unwrap_or_default();
    assert_eq!(
        (&finding["path"], &finding["message"], &finding["line"]),
        (
            &json!("tool.local_specific.runtime"),
            &json!("runtime `pyton` is not one of python, node, bash"),
            &json!(9)
        ),
        "{found}"
    );
    let ran = project.piton(["tool", "run", "calc"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("`pyton`"), "{ran}");
}

#[test]
fn standard_isolation_is_given_where_the_manifest_asks_for_it() {
    let project = TestProject::new().tool(
        "add",
        "isolation: standard\nmutates_state: false",
        "echo '{\"a\": 1}'",
    );
    let ran = project.piton(["tool", "run", "add", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(ran.last_json()["result"], json!({"a": 1}), "{ran}");
}

#[test]
fn the_end_of_a_resumed_run_lists_each_step_once() {
    let directive = "# write\n\n```xml\n<directive name=\"write\" version=\"1.0.0\">\n  <metadata>\n    <description>d</description>\n    \
        <permissions><execute resource=\"tool\" id=\"*\"/><write resource=\"filesystem\" path=\"**\"/></permissions>\n  </metadata>\n  \
        <process>\n    <step name=\"one\"><execute item_type=\"tool\" item_id=\"one\"/></step>\n    \
        <step name=\"think\"><action>Think.</action></step>\n    \
        <step name=\"two\"><execute item_type=\"tool\" item_id=\"two\"/></step>\n  </process>\n</directive>\n```\n";
    let project = TestProject::new()
        .tool("one", "", "echo 1 > one.txt")
        .tool("two", "", "echo 2 > two.txt")
        .file(".ai/directives/write.md", directive)
        .committed();
    let ran = project.piton(["run", "write", "--checkpoint", "auto", "--format", "json"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let ran = project.piton(["resume", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let end = ran.last_json();
    let told: Vec<(&Value, &Value)> = end["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| (&step["name"], &step["checkpoint"]["files_changed"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("one"), &json!(1)),
            (&json!("think"), &json!(0)),
            (&json!("two"), &json!(1))
        ],
        "{end}"
    );
}
