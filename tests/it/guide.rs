//! `docs/guide/`: the examples are true.

use std::fs;
use std::path::Path;

use crate::harness::TestProject;

/// The files that a page shows: fenced blocks whose info string names a path.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let fence: String = line.chars().take_while(|c| *c == '`').collect();
        if fence.len() < 3 {
            continue;
        }
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
        if let Some((_, path)) = line.split_once(' ') {
            files.push((path.to_owned(), body.join("\n") + "\n"));
        }
    }
    files
}

#[test]
fn every_example_of_the_guide_validates_strictly() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    for page in fs::read_dir(guide).expect("a guide") {
        let page = fs::read_to_string(page.expect("an entry").path()).expect("a page");
        let files = examples(&page);
        assert!(!files.is_empty(), "a page without examples");
        let project = files.iter().fold(TestProject::new(), |project, (path, text)| project.file(path, text));
        let report = project.piton(["validate", "--strict", "--format", "json"]).json();
        let findings = report["findings"].as_array().expect("a list");
        let told: Vec<_> = findings.iter().filter(|finding| finding["code"] != "UNSIGNED").collect();
        assert_eq!(told, Vec::<&serde_json::Value>::new());
        let is_entrypoint = |path: &str| path.ends_with("/main.py") || path.ends_with("/publish.sh");
        let manifests = files.iter().filter(|(path, _)| !is_entrypoint(path)).count();
        assert_eq!(findings.len(), manifests, "an example is no item");
    }
}
