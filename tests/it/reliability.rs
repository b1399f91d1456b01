//! `docs/RELIABILITY.md`: the table of repositories names tests that exist.

use std::fs;
use std::path::Path;

/// What is in backticks, in order.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether the test tree has a module, or a test in a module, of this name: `a`, `a::b` or `a::b::test`.
fn exists(name: &str) -> bool {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let parts: Vec<&str> = name.split("::").collect();
    let file = |parts: &[&str]| tree.join(parts.join("/")).with_extension("rs");
    if file(&parts).is_file() {
        return true;
    }
    let Some((test, module)) = parts.split_last() else {
        return false;
    };
    let source = fs::read_to_string(file(module)).unwrap_or_default();
    source.contains(&format!("#[test]\nfn {test}()")) || source.contains(&format!("mod {test} {{"))
}

fn table() -> Vec<Vec<String>> {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/RELIABILITY.md"))
            .expect("the page");
    let (_, section) = text
        .split_once("\n## Kinds of repositories\n")
        .expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| kind "));
    rows.map(|row| {
        row.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    })
    .collect()
}

#[test]
fn every_row_of_the_table_of_repositories_names_tests_that_exist() {
    let rows = table();
    assert!(rows.len() >= 30, "{} rows", rows.len());
    for row in &rows {
        let [kind, served, tests] = row.as_slice() else {
            panic!("three cells: {row:?}")
        };
        assert!(!served.is_empty(), "{kind}");
        let mut named = quoted(tests).peekable();
        assert!(named.peek().is_some(), "`{kind}` names no test");
        for name in named {
            assert!(exists(name), "`{kind}` names `{name}`, which is no test");
        }
    }
}

#[test]
fn a_refused_kind_names_its_code() {
    for row in table() {
        let [kind, served, _] = row.as_slice() else {
            panic!("three cells: {row:?}")
        };
        let is_code = |word: &str| {
            word.len() > 3
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        if served.contains("refused") {
            assert!(
                quoted(served).any(is_code),
                "`{kind}` is refused without a code"
            );
        }
    }
    assert!(!exists("guards::no_such_module") && !exists("guards::format::no_such_test"));
    assert!(exists("guards::format") && exists("reliability::a_refused_kind_names_its_code"));
}
