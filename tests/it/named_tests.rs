//! Tests that pages name: what a page puts in backticks, and whether such a test exists.
//!
//! A name is the path that nextest prints: `tool_run::the_last_line_of_json_is_the_result` is a test of
//! the program, `item::params::tests::defaults_must_fit` a test beside the code.

use std::fs;
use std::path::{Path, PathBuf};

/// What is in backticks, in order.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether the tests of the program have this module: `a` or `a::b`.
pub(crate) fn has_module(name: &str) -> bool {
    let inline = |(module, part): (&str, &str)| {
        read(&file("tests/it", module)).contains(&format!("mod {part} {{"))
    };
    file("tests/it", name).is_file() || name.rsplit_once("::").is_some_and(inline)
}

/// Whether a test has this path, in `tests/it` or beside the code.
pub(crate) fn has_test(name: &str) -> bool {
    let Some((module, test)) = name.rsplit_once("::") else {
        return false;
    };
    let around = module.strip_suffix("::tests");
    let files = [
        Some(file("tests/it", module)),
        Some(file("src", module)),
        around.map(|module| file("src", module)),
    ];
    files
        .into_iter()
        .flatten()
        .any(|file| defines(&read(&file), test))
}

fn defines(source: &str, test: &str) -> bool {
    source.split("#[test]\n").skip(1).any(|rest| {
        rest.trim_start()
            .strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(test))
            .is_some_and(|rest| rest.starts_with('('))
    })
}

fn file(tree: &str, module: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(tree)
        .join(module.replace("::", "/"))
        .with_extension("rs")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn tests_and_modules_are_told_from_other_names() {
    for test in [
        "named_tests::tests_and_modules_are_told_from_other_names",
        "guards::format::g88_odd_names",
        "item::params::tests::defaults_must_fit",
        "run::outputs::tests::many_at_the_same_second_are_all_kept",
        "item::yaml::tests::no_text_panics_and_every_place_is_inside_it",
    ] {
        assert_eq!(has_test(test), !test.starts_with("guards"), "{test}");
    }
    assert!(!has_test("tool_run") && !has_test("tool_run::python"));
    assert!(!has_test("named_tests::tests_and_modules"));
    assert!(has_module("guards::format") && has_module("tool_run"));
    assert!(!has_module("guards::no_such_module"));
}
