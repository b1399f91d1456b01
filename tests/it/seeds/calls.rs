//! Document 004: the four calls, their answers and their errors.

use std::fs;

use serde_json::{Value, json};

use super::{examples, root};
use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

fn start(project: &TestProject) -> McpClient {
    let mut client = McpClient::start_with(project, Era::Sessions, ["mcp", "--allow-authoring"]);
    client.initialize();
    client
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|name| name.as_str().expect("a name"))
        .collect()
}

#[test]
fn every_example_is_answered_with_its_fields() {
    let project = examples("004").committed();
    let here = project.root().to_string_lossy().into_owned();
    let text = fs::read_to_string(root().join("fixtures/seeds/004/calls.json")).expect("the calls");
    let calls: Value = serde_json::from_str(&text.replace("PROJECT", &here)).expect("JSON");
    let mut client = start(&project);
    for example in calls.as_array().expect("a list") {
        let tool = example["tool"].as_str().expect("a tool");
        let answer = client.call(tool, example["arguments"].clone());
        assert_eq!(
            answer["isError"] == true,
            example["error"].is_string(),
            "{example} {answer}"
        );
        let answer = &answer["structuredContent"];
        for (list, part) in [
            ("answer", answer),
            ("first", &answer["results"][0]),
            ("metadata", &answer["metadata"]),
        ] {
            for name in names(&example[list]) {
                assert!(!part[name].is_null(), "{list} {name}: {example} {answer}");
            }
        }
        for name in ["result", "error"] {
            if !example[name].is_null() {
                assert_eq!(answer[name], example[name], "{example}");
            }
        }
    }
    assert!(client.end().0.success());
}

#[test]
fn a_search_returns_ten_results_unless_told_otherwise() {
    let project = (0..12).fold(TestProject::new(), |project, at| {
        project.tool(&format!("wash_{at}"), "", "true")
    });
    let mut client = start(&project);
    let mut count = |more: Value| {
        let mut arguments = json!({"item_type": "tool", "query": "wash"});
        if let Some(limit) = more.get("limit") {
            arguments["limit"] = limit.clone();
        }
        let found = client.call("search", arguments)["structuredContent"].clone();
        let scores: Vec<f64> = found["results"]
            .as_array()
            .expect("results")
            .iter()
            .map(|hit| hit["score"].as_f64().expect("a score"))
            .collect();
        assert!(
            scores.iter().all(|score| (0.0..=1.0).contains(score)),
            "{found}"
        );
        assert!(scores.is_sorted_by(|a, b| a >= b), "{found}");
        assert_eq!(found["total"], 12);
        scores.len()
    };
    assert_eq!(count(json!({})), 10);
    assert_eq!(count(json!({"limit": 3})), 3);
}

#[test]
fn metadata_at_the_top_of_a_file_is_required() {
    let whole = "__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"python_runtime\"\n__category__ = \"text\"\n\
                 __tool_description__ = \"d\"\n\n\ndef main(**kwargs) -> dict:\n    return {}\n";
    let without = |name: &str| -> String {
        whole
            .split_inclusive('\n')
            .filter(|line| !line.starts_with(name))
            .collect()
    };
    let project = TestProject::new()
        .file(".ai/tools/text/whole.py", whole)
        .file(".ai/tools/text/no_version.py", without("__version__"))
        .file(".ai/tools/text/no_type.py", without("__tool_type__"))
        .file(".ai/tools/text/no_executor.py", without("__executor_id__"))
        .file(
            ".ai/tools/text/bad_version.py",
            whole.replace("\"1.0.0\"", "\"one\""),
        );
    assert_eq!(
        super::findings(&project, &[]),
        [
            "error INVALID_SEMVER tools/text/bad_version.py: version `one` is not MAJOR.MINOR.PATCH: unexpected character 'o' while parsing major version number",
            "error MISSING_REQUIRED_FIELD tools/text/no_executor.py: Tool type 'python' requires executor field",
            "error MISSING_REQUIRED_FIELD tools/text/no_type.py: tool_type is required",
            "error MISSING_REQUIRED_FIELD tools/text/no_version.py: version is required",
        ]
    );
}

#[test]
fn a_chain_is_resolved_link_by_link() {
    let project = examples("004_chain");
    assert_eq!(
        super::findings(&project, &[]),
        [
            "warning PRIMITIVE_SHADOWED tools/primitives/subprocess.py: `subprocess` is a primitive: this file is ignored"
        ]
    );
    let tool = super::shown(&project, "stretch_text");
    assert_eq!(
        tool["chain"],
        json!(["stretch_text", "python_runtime", "subprocess"])
    );
    for (id, source, executor) in [
        ("python_runtime", "project", json!("subprocess")),
        ("subprocess", "builtin", json!(null)),
    ] {
        let link = super::shown(&project, id);
        assert_eq!(
            (&link["source"], &link["executor"]),
            (&json!(source), &executor),
            "{id}"
        );
    }
}
