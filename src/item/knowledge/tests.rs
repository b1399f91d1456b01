//! Valid and invalid front matter.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::item::finding::Strength;

type Complaint = (Code, u32, u32, String, String);

fn source(text: &str) -> SourceFile {
    SourceFile {
        path: "my_note.md".into(),
        text: text.to_owned(),
        marked: false,
    }
}

fn read_with(text: &str, strength: Strength) -> (Option<Knowledge>, Findings) {
    let mut findings = Findings::new(Path::new("my_note.md"), strength);
    (parse(&source(text), &mut findings), findings)
}

fn read(text: &str) -> (Option<Knowledge>, Vec<Complaint>) {
    let (knowledge, findings) = read_with(text, Strength::Lenient);
    let complaints = findings
        .into_vec()
        .into_iter()
        .map(|f| (f.code, f.line, f.column, f.path, f.message))
        .collect();
    (knowledge, complaints)
}

fn complaint(code: Code, line: u32, column: u32, path: &str, message: &str) -> Complaint {
    (code, line, column, path.to_owned(), message.to_owned())
}

const FULL: &str = "---
id: retry_pattern
title: Retry with backoff
version: \"1.2.0\"
entry_type: pattern
category: patterns/http
tags:
  - http
  - retry
schema: {type: object}
extends: [base]
---
# Retry

---

Wait, then try again.
";

#[test]
fn a_complete_entry_is_read() {
    let (knowledge, complaints) = read(FULL);
    assert_eq!(complaints, vec![]);
    let knowledge = knowledge.unwrap();
    assert_eq!(
        serde_json::to_value(&knowledge).unwrap(),
        json!({
            "id": "retry_pattern",
            "title": "Retry with backoff",
            "version": "1.2.0",
            "entry_type": "pattern",
            "category": "patterns/http",
            "tags": ["http", "retry"],
            "front_matter": {
                "id": "retry_pattern",
                "title": "Retry with backoff",
                "version": "1.2.0",
                "entry_type": "pattern",
                "category": "patterns/http",
                "tags": ["http", "retry"],
                "schema": {"type": "object"},
                "extends": ["base"],
            },
            "body": "# Retry\n\n---\n\nWait, then try again.\n",
        })
    );
    assert_eq!(
        knowledge.schema().map(|schema| schema.place),
        Some(Position {
            line: 10,
            column: 9
        })
    );
}

#[test]
fn a_stamp_and_blank_lines_may_precede_the_front_matter() {
    let (plain, _) = read(FULL);
    for before in [
        "<!-- kiwi-mcp:validated:2026-01-21T00:00:00Z:abc -->\n",
        "<!-- rye:signed:2026-01-21T00:00:00Z:abc -->\n\n",
        "\n\n",
    ] {
        let (knowledge, complaints) = read(&format!("{before}{FULL}"));
        assert_eq!(complaints, vec![], "{before:?}");
        let moved = knowledge
            .as_ref()
            .and_then(Knowledge::schema)
            .map(|schema| schema.place.line as usize);
        assert_eq!(moved, Some(10 + before.lines().count()), "{before:?}");
        let json = |knowledge: &Option<Knowledge>| serde_json::to_value(knowledge).unwrap();
        assert_eq!(json(&knowledge), json(&plain), "{before:?}");
    }
}

#[test]
fn windows_line_endings_are_fine() {
    let (knowledge, complaints) = read(&FULL.replace('\n', "\r\n"));
    assert_eq!(complaints, vec![]);
    let knowledge = knowledge.unwrap();
    assert_eq!(
        (knowledge.title.as_str(), knowledge.tags),
        ("Retry with backoff", vec!["http".into(), "retry".into()])
    );
    assert_eq!(
        knowledge.body,
        "# Retry\r\n\r\n---\r\n\r\nWait, then try again.\r\n"
    );
}

#[test]
fn dashes_inside_a_value_do_not_end_the_front_matter() {
    let text = "---\nid: a\ntitle: one --- two\nversion: 1.0.0\nentry_type: |\n  x\n  ---\n  y\ncategory: '---'\ntags: [---]\n---\nbody";
    let (knowledge, complaints) = read(text);
    assert_eq!(complaints, vec![]);
    let knowledge = knowledge.unwrap();
    assert_eq!(
        (
            knowledge.title,
            knowledge.entry_type,
            knowledge.category,
            knowledge.tags,
            knowledge.body
        ),
        (
            "one --- two".into(),
            "x\n---\ny\n".into(),
            "---".into(),
            vec!["---".to_owned()],
            "body".into()
        )
    );
}

#[test]
fn an_entry_without_front_matter_is_refused() {
    let missing = |line, message: &str| {
        (
            None,
            vec![complaint(Code::MissingFrontMatter, line, 1, "", message)],
        )
    };
    assert_eq!(
        read("# Title\n\n---\nid: a\n---\n"),
        missing(1, "the file has no YAML front matter")
    );
    assert_eq!(
        read("<!-- kiwi-mcp:validated:2026-01-21T00:00:00Z:abc -->\n\n# Title\n"),
        missing(3, "the file has no YAML front matter")
    );
    assert_eq!(
        read("--- \nid: a\n ---\n"),
        missing(1, "the front matter that begins here is not closed")
    );
    assert_eq!(
        read("\n---\nid: a\n"),
        missing(2, "the front matter that begins here is not closed")
    );
    assert_eq!(
        read("---"),
        missing(1, "the front matter that begins here is not closed")
    );
    assert_eq!(
        read("---\n# nothing\n\n---\nbody"),
        missing(1, "the front matter is empty")
    );
    assert_eq!(
        read(" \n"),
        (
            None,
            vec![complaint(Code::EmptyFile, 1, 1, "", "there is no content")]
        )
    );
}

#[test]
fn everything_that_is_missing_is_said_at_once() {
    assert_eq!(
        read("---\nsource_url: x\ntitle: ' '\nentry_type:\n---\n"),
        (
            None,
            vec![
                complaint(Code::MissingRequiredField, 1, 1, "id", "id is required"),
                complaint(
                    Code::MissingRequiredField,
                    3,
                    1,
                    "title",
                    "title is required"
                ),
                complaint(
                    Code::MissingRequiredField,
                    1,
                    1,
                    "version",
                    "version is required"
                ),
                complaint(
                    Code::MissingRequiredField,
                    4,
                    1,
                    "entry_type",
                    "entry_type is required"
                ),
                complaint(
                    Code::MissingRecommendedField,
                    1,
                    1,
                    "category",
                    "category is recommended"
                ),
                complaint(
                    Code::MissingRecommendedField,
                    1,
                    1,
                    "tags",
                    "tags is recommended"
                ),
            ]
        )
    );
}

#[test]
fn the_file_name_is_offered_as_id() {
    let (_, findings) = read_with("---\ntitle: a\n---\n", Strength::Lenient);
    assert_eq!(
        findings.as_slice()[0]
            .suggestion
            .clone()
            .map(String::from)
            .as_deref(),
        Some("add `id: my_note`")
    );
}

/// A valid entry with some of its lines replaced.
fn entry(lines: &str) -> String {
    let mut text = "---\n".to_owned() + lines;
    for (key, line) in [
        ("id:", "id: a\n"),
        ("title:", "title: t\n"),
        ("version:", "version: 1.0.0\n"),
        ("entry_type:", "entry_type: e\n"),
        ("category:", "category: c\n"),
        ("tags:", "tags: []\n"),
    ] {
        let is_given = lines
            .lines()
            .any(|given| given.trim_start_matches("zettel_").starts_with(key));
        if !is_given {
            text.push_str(line);
        }
    }
    text + "---\nbody\n"
}

#[test]
fn either_name_of_the_id_counts() {
    let id = |text: &str| {
        (
            read(text).0.map(|knowledge| knowledge.id.to_string()),
            read(text).1,
        )
    };
    assert_eq!(
        id(&entry("zettel_id: old_note\n")),
        (Some("old_note".into()), vec![])
    );
    assert_eq!(
        id(&entry("zettel_id: 202601211200\n")),
        (Some("202601211200".into()), vec![])
    );
    assert_eq!(
        id(&entry("id: same\nzettel_id: same\n")),
        (Some("same".into()), vec![])
    );
    assert_eq!(
        id(&entry("id:\nzettel_id: z\n")),
        (Some("z".into()), vec![])
    );
    let message = "zettel_id differs from id, which counts";
    assert_eq!(
        id(&entry("id: new\nzettel_id: old\n")),
        (
            Some("new".into()),
            vec![complaint(
                Code::ConflictingField,
                3,
                1,
                "zettel_id",
                message
            )]
        )
    );
}

#[test]
fn an_id_that_is_none_is_refused() {
    let part = "`../x` is not an id: each part must begin with a letter or digit";
    assert_eq!(
        read(&entry("id: ../x\n")),
        (None, vec![complaint(Code::InvalidId, 2, 5, "id", part)])
    );
    let hidden = "an id may hold letters, digits, `_`, `-`, `.` and `/`, not U+202E";
    assert_eq!(
        read(&entry("zettel_id: \"a\u{202e}b\"\n")),
        (
            None,
            vec![complaint(Code::InvalidId, 2, 12, "zettel_id", hidden)]
        )
    );
    let message = "id must be a string, found list";
    assert_eq!(
        read(&entry("id: [a]\n")),
        (
            None,
            vec![complaint(Code::InvalidType, 2, 5, "id", message)]
        )
    );
}

#[test]
fn a_version_written_as_a_number_is_an_error() {
    let (knowledge, complaints) = read(&entry("version: 1.10\n"));
    let message = "version `1.10` is a number; a version is a string";
    assert_eq!(
        knowledge.map(|knowledge| knowledge.version).as_deref(),
        Some("1.10")
    );
    assert_eq!(
        complaints,
        vec![complaint(Code::InvalidSemver, 2, 10, "version", message)]
    );
}

#[test]
fn a_version_must_have_three_numbers() {
    let message = "version `1.0` is not MAJOR.MINOR.PATCH: unexpected end of input while parsing minor version number";
    assert_eq!(
        read(&entry("version: '1.0'\n")).1,
        vec![complaint(Code::InvalidSemver, 2, 10, "version", message)]
    );
    assert_eq!(read(&entry("version: true\n")).1[0].0, Code::InvalidType);
    let codes: Vec<_> = read(&entry("version: 1e3\n"))
        .1
        .iter()
        .map(|c| c.0)
        .collect();
    assert_eq!(codes, vec![Code::InvalidSemver]);
}

#[test]
fn fields_of_the_wrong_type_are_named() {
    let lines = "title: 2026\nentry_type: [a]\ncategory: {a: b}\ntags: [a, 1, [b], null]\n";
    let (knowledge, complaints) = read(&entry(lines));
    assert_eq!(
        knowledge.map(|knowledge| knowledge.tags),
        Some(vec!["a".to_owned()])
    );
    assert_eq!(
        complaints,
        vec![
            complaint(
                Code::InvalidType,
                2,
                8,
                "title",
                "title must be a string, found integer"
            ),
            complaint(
                Code::InvalidType,
                3,
                13,
                "entry_type",
                "entry_type must be a string, found list"
            ),
            complaint(
                Code::InvalidType,
                4,
                11,
                "category",
                "category must be a string, found mapping"
            ),
            complaint(
                Code::InvalidType,
                5,
                11,
                "tags[1]",
                "tags[1] must be a string, found integer"
            ),
            complaint(
                Code::InvalidType,
                5,
                14,
                "tags[2]",
                "tags[2] must be a string, found list"
            ),
            complaint(
                Code::InvalidType,
                5,
                19,
                "tags[3]",
                "tags[3] must be a string, found null"
            ),
        ]
    );
    let (_, findings) = read_with(&entry("tags: a, b\n"), Strength::Lenient);
    let findings: Vec<_> = findings
        .into_vec()
        .into_iter()
        .map(|f| (f.message, f.suggestion.map(String::from)))
        .collect();
    assert_eq!(
        findings,
        vec![(
            "tags must be a list of strings, found string".to_owned(),
            Some("write [a, b]".to_owned())
        )]
    );
}

#[test]
fn front_matter_must_be_a_mapping() {
    let message = "front matter must be a mapping, found list";
    assert_eq!(
        read("---\n- a\n---\n"),
        (None, vec![complaint(Code::InvalidType, 2, 1, "", message)])
    );
}

#[test]
fn yaml_errors_stand_on_the_line_of_the_file() {
    let (knowledge, complaints) = read("\n---\nid: a\ntitle: b: c\n---\nbody\n");
    assert_eq!(knowledge, None);
    assert_eq!(
        complaints
            .iter()
            .map(|c| (c.0, c.1, c.2))
            .collect::<Vec<_>>(),
        vec![(Code::YamlSyntax, 4, 9)]
    );
    let (knowledge, complaints) = read(&entry("id: a\nid: b\n"));
    assert_eq!(
        knowledge
            .map(|knowledge| knowledge.id.to_string())
            .as_deref(),
        Some("a")
    );
    let message = "key `id` is given twice, first at line 2, column 1";
    assert_eq!(
        complaints,
        vec![complaint(Code::DuplicateKey, 3, 1, "id", message)]
    );
}

#[test]
fn hostile_entries_cause_few_findings() {
    let tags = format!("tags: [{}]\n", "1,".repeat(50_000));
    assert_eq!(read(&entry(&tags)).1.len(), MAX_WRONG_TAGS);
    let version = format!("version: \"{}\"\n", "9".repeat(100_000));
    assert!(read(&entry(&version)).1[0].4.len() < 300);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_body_is_kept_for_any_front_matter(
        title in "[a-z\\-\"'#: ]{1,20}",
        note in "\\PC{0,20}",
        body in "[a-z\\-\n ]{0,40}",
    ) {
        let fields = json!({"id": "a", "title": format!("t{title}"), "version": "1.0.0", "entry_type": "e",
            "category": "c", "tags": [], "note": note});
        let text = format!("---\n{}---\n{body}", yaml::to_yaml(&fields));
        let (knowledge, complaints) = read(&text);
        prop_assert_eq!(complaints, vec![], "{}", text);
        let knowledge = knowledge.unwrap();
        prop_assert_eq!((knowledge.front_matter, knowledge.body), (fields, body));
    }

    #[test]
    fn no_text_panics(pieces in prop::collection::vec(prop::sample::select(vec![
        "---", "\n", "\r\n", "...", "id: a", "zettel_id: ", "version: 1", "tags: [", "é", " ", "# x", "<!-- rye:signed:x -->", "'", ": ",
    ]), 0..20)) {
        let (knowledge, complaints) = read(&pieces.concat());
        prop_assert!(knowledge.is_some() || !complaints.is_empty());
    }
}

#[test]
fn the_fields_may_stand_in_a_block_of_yaml() {
    let text = "<!-- rye:signed:2026-01-01T00:00:00Z:00:c2ln:00\n<!-- rye:unsigned -->\n\n```yaml\nname: my_note\n\
        title: T\nversion: \"1.0.0\"\nentry_type: reference\ncategory: c\ntags: [a]\n```\n\n# T\n\n---\n";
    let (knowledge, complaints) = read(text);
    assert_eq!(complaints, []);
    let knowledge = knowledge.unwrap();
    assert_eq!((knowledge.id.as_str(), &*knowledge.title), ("my_note", "T"));
    assert_eq!(knowledge.body, "\n# T\n\n---\n");
}

#[test]
fn a_block_of_yaml_that_is_not_closed_is_reported() {
    let (knowledge, complaints) = read("```yaml\nid: a\n---\n");
    assert_eq!(knowledge, None);
    let message = "the front matter that begins here is not closed";
    assert_eq!(
        complaints,
        [complaint(Code::MissingFrontMatter, 1, 1, "", message)]
    );
}
