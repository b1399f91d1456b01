//! `examples/release-notes`: a project that a person can try.

use std::fs;
use std::path::Path;

use crate::harness::TestProject;

/// The example, in a repository of its own.
fn example() -> TestProject {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/release-notes");
    let mut project = TestProject::new();
    let mut folders = vec![folder.clone()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(&folder)
                .expect("inside")
                .to_str()
                .expect("UTF-8")
                .to_owned();
            project = project.file(&name, fs::read_to_string(&path).expect("text"));
        }
    }
    project.committed()
}

#[test]
fn the_example_is_valid_and_runs() {
    let project = example();
    assert_eq!(project.piton(["validate"]).code(), Some(0));
    let ran = project.piton(["run", "release_notes", "--input", "version=1.2.0"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(project.read("CHANGELOG.md").contains("## 1.2.0\n"), "{ran}");
    assert_eq!(project.read("VERSION"), "1.2.0\n");
    // Each step is undone by itself, the newest first.
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert!(!project.read("CHANGELOG.md").contains("## 1.2.0\n"));
    assert_eq!(project.read("VERSION"), "1.2.0\n");
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(project.read("VERSION"), "1.1.0\n");
}

#[test]
fn a_wrong_version_is_rolled_back() {
    let project = example();
    let ran = project.piton(["run", "release_notes", "--input", "version=1.0.0"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("VERSION"), "1.1.0\n");
    project.assert_clean();
}
