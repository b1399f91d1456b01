//! `docs/reference/seeds.md`: the requirements of the five design documents, each with the test that
//! shows it.
//!
//! The modules test what no other test shows. The examples of document `NNN` are in
//! `fixtures/seeds/NNN`, in words of our own.

mod calls;
mod proposal;
mod schema;
mod tool_root;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::TestProject;
use crate::named_tests::{has_test, quoted};

/// A requirement: a row of the page.
struct Row {
    document: String,
    id: String,
    requirement: String,
    state: String,
    evidence: String,
}

impl Row {
    /// The tests that the row names. A reason may quote other things as well.
    fn tests(&self) -> Vec<&str> {
        quoted(&self.evidence)
            .filter(|text| text.contains("::"))
            .collect()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/reference/seeds.md")).expect("the page")
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|')
        .split(" | ")
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// The rows below the headings `## NNN …`.
fn rows(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let document = section.split(' ').next().unwrap_or_default();
        let lines = section.lines().filter(|line| {
            line.starts_with("| ") && !line.starts_with("| id ") && !line.starts_with("|---")
        });
        for line in lines {
            let [id, requirement, state, evidence] = <[String; 4]>::try_from(cells(line))
                .unwrap_or_else(|cells| {
                    panic!("four cells: {cells:?}");
                });
            rows.push(Row {
                document: document.to_owned(),
                id,
                requirement,
                state,
                evidence,
            });
        }
    }
    rows
}

#[test]
fn every_requirement_has_a_test_or_a_reason() {
    let page = page();
    let mut complaints = Vec::new();
    for row in rows(&page) {
        let unknown: Vec<&str> = row
            .tests()
            .into_iter()
            .filter(|name| !has_test(name))
            .collect();
        let only_tests = row
            .evidence
            .split(", ")
            .all(|name| name.starts_with('`') && name.ends_with('`') && name.contains("::"));
        let is_sound = match row.state.as_str() {
            "works" => only_tests && row.requirement.len() > 3,
            "differs" | "missing" => row.evidence.len() > 10 && row.requirement.len() > 3,
            _ => false,
        };
        if !is_sound || !unknown.is_empty() {
            complaints.push(format!(
                "{}: {} {:?}",
                row.id,
                row.state,
                if unknown.is_empty() {
                    vec![row.evidence.as_str()]
                } else {
                    unknown
                }
            ));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_requirements_of_a_document_are_numbered() {
    let page = page();
    let mut last = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for row in rows(&page) {
        let number = last.entry(row.document.clone()).or_insert(0);
        *number += 1;
        assert_eq!(
            row.id,
            format!("{}.{number}", row.document),
            "{}",
            row.requirement
        );
        assert!(ids.insert(row.id.clone()), "{} is there twice", row.id);
    }
    assert!(
        last.keys()
            .all(|name| root().join("fixtures/seeds").join(name).is_dir()),
        "each document has fixtures: {last:?}"
    );
}

#[test]
fn the_counts_are_those_of_the_rows() {
    let page = page();
    let mut counted: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for row in rows(&page) {
        for name in [row.document.as_str(), "all"] {
            let counts = counted.entry(name.to_owned()).or_default();
            for (at, state) in ["works", "differs", "missing"].into_iter().enumerate() {
                counts[at] += usize::from(row.state == state);
            }
            counts[3] += 1;
        }
    }
    let written: BTreeMap<String, [usize; 4]> = page
        .split("\n## ")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| document "))
        .map(|line| {
            let cells = cells(line);
            let count = |at: usize| {
                cells
                    .get(at)
                    .and_then(|it| it.parse().ok())
                    .expect("a count")
            };
            let name = cells[0].split(' ').next().unwrap_or_default();
            (name.to_owned(), [count(1), count(2), count(3), count(4)])
        })
        .collect();
    assert_eq!(written, counted);
}

/// A project with the examples of a document.
fn examples(document: &str) -> TestProject {
    let folder = root().join("fixtures/seeds").join(document);
    let mut project = TestProject::new();
    for entry in walkdir::WalkDir::new(&folder).sort_by_file_name() {
        let entry = entry.expect("readable");
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(&folder).expect("below");
            let text = fs::read(entry.path()).expect("readable");
            project = project.file(&path.to_string_lossy(), text);
        }
    }
    project
}

/// The findings of a validation as `severity CODE file: message`, without those about missing stamps.
fn findings(project: &TestProject, more: &[&str]) -> Vec<String> {
    let report = project
        .piton([&["validate", "--format", "json"], more].concat())
        .json();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["code"] != "UNSIGNED")
        .map(|finding| {
            let [severity, code, file, message] =
                ["severity", "code", "file", "message"].map(|key| text(finding, key));
            let file = file.trim_start_matches(".ai/").to_owned();
            format!("{severity} {code} {file}: {message}")
        })
        .collect()
}

/// The normalised manifest of a tool.
fn shown(project: &TestProject, id: &str) -> Value {
    project
        .piton(["tool", "show", id, "--format", "json"])
        .json()
}

/// Runs a tool; returns the whole answer.
fn call(project: &TestProject, id: &str, parameters: &[&str]) -> Value {
    let given = parameters.iter().flat_map(|word| ["--param", word]);
    let words = ["tool", "run", id, "--format", "json"].into_iter();
    project.piton(words.chain(given)).last_json()
}

/// What a call would do.
fn planned(project: &TestProject, id: &str, parameters: &[&str]) -> Value {
    let given = parameters.iter().flat_map(|word| ["--param", word]);
    let words = ["tool", "run", id, "--dry-run", "--format", "json"].into_iter();
    project.piton(words.chain(given)).json()
}
