//! Files as Kiwi, RYE and AIOS write them: read leniently, run like any other, exact with `--strict`.
//!
//! The project below `fixtures/wild/rye` has the shapes of real files, in other words.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{TestProject, cmd_snapshot};

mod directives;
mod tools;

/// The project of the fixtures.
fn rye() -> TestProject {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wild/rye");
    let mut project = TestProject::new().file("README.md", "Read me.\n");
    let entries = walkdir::WalkDir::new(&root).sort_by_file_name();
    for entry in entries.into_iter().map(|entry| entry.expect("readable")) {
        if entry.file_type().is_file() {
            let inside = entry.path().strip_prefix(&root).expect("below");
            let path = PathBuf::from(".ai").join(inside);
            let text = std::fs::read(entry.path()).expect("readable");
            project = project.file(path.to_str().expect("text"), text);
        }
    }
    project.committed()
}

/// Runs a directive; returns its last line.
fn run(project: &TestProject, words: &[&str]) -> Value {
    let words: Vec<&str> = ["run", "--format", "json"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let ran = project.piton(words);
    let text = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_else(|| panic!("{ran}"));
    let summary: Value = serde_json::from_str(last).expect("JSON");
    assert!(summary.get("steps").is_some(), "{ran}");
    summary
}

/// The steps of a summary, as `name status`.
fn steps(summary: &Value) -> Vec<String> {
    let list = summary["steps"].as_array().expect("a list");
    let line = |step: &Value| {
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("name"), text("status"))
    };
    list.iter().map(line).collect()
}

#[test]
fn a_foreign_project_validates_with_warnings_only() {
    let ran = rye().piton(["validate"]);
    assert_eq!(ran.output.status.code(), Some(0), "{ran}");
}
