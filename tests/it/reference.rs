//! `docs/reference/`: the pages follow from the program.

use std::fs;
use std::path::Path;

use crate::harness::TestProject;

#[test]
fn the_generated_pages_are_those_of_this_program() {
    let project = TestProject::new();
    let ran = project.piton(["reference", "."]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference");
    let differing: Vec<&str> = ["commands.md", "settings.md", "exit-codes.md"]
        .into_iter()
        .filter(|page| {
            fs::read_to_string(kept.join(page)).unwrap_or_default() != project.read(page)
        })
        .collect();
    assert!(
        differing.is_empty(),
        "{differing:?} differ from the program: run ./scripts/reference and commit"
    );
}
