//! `docs/RELIABILITY.md`: the table of repositories names tests that exist.

use std::fs;
use std::path::Path;

use crate::named_tests::{has_module, has_test, quoted};

/// Whether a test or a module of tests has this name.
fn exists(name: &str) -> bool {
    has_module(name) || has_test(name)
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
}
