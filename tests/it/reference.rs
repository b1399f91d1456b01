//! `docs/reference/`: the pages follow from the program.

use std::fs;
use std::path::Path;

use crate::harness::TestProject;

#[test]
fn the_generated_pages_are_those_of_this_program() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let agents = fs::read_to_string(top.join("AGENTS.md")).expect("a page");
    let begin = agents.find("<!-- dispatch:").expect("a mark");
    let end = agents.find("<!-- end of dispatch").expect("a mark");
    let first = agents[begin..end].lines().next().expect("a line");
    let emptied = format!("{}{first}\n{}", &agents[..begin], &agents[end..]);
    let project = TestProject::new().file("AGENTS.md", emptied);
    let ran = project.piton(["reference", "."]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        project.read("AGENTS.md") == agents,
        "AGENTS.md differs from the program: run ./scripts/reference and commit"
    );
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
