//! Surprising YAML, and the guarantee that none of it panics.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::item::finding::Strength;

type Complaint = (Code, u32, u32, String, String);

fn read_at(text: &str, origin: Position) -> (Option<Node>, Vec<Complaint>) {
    let mut findings = Findings::new(Path::new("tool.yaml"), Strength::Lenient);
    let node = parse(text, origin, &mut findings);
    let complaints = findings
        .into_vec()
        .into_iter()
        .map(|f| (f.code, f.line, f.column, f.path, f.message))
        .collect();
    (node, complaints)
}

fn read(text: &str) -> (Option<Value>, Vec<Complaint>) {
    let (node, complaints) = read_at(text, Position::START);
    (node.map(|node| node.to_json()), complaints)
}

fn complaint(code: Code, line: u32, column: u32, path: &str, message: &str) -> Complaint {
    (code, line, column, path.to_owned(), message.to_owned())
}

fn suggestion(text: &str) -> Option<String> {
    let mut findings = Findings::new(Path::new("tool.yaml"), Strength::Lenient);
    parse(text, Position::START, &mut findings);
    findings
        .into_vec()
        .into_iter()
        .next()
        .and_then(|finding| finding.suggestion)
        .map(String::from)
}

#[test]
fn every_value_knows_its_place() {
    let text = "name: ä\nlist:\n  - {a: ü, b: 2}\n  - |\n    text\nnone:\n";
    let (node, complaints) = read_at(
        text,
        Position {
            line: 10,
            column: 5,
        },
    );
    let at = |line, column| Position { line, column };
    let entry = |key: &str, place, value| NodeEntry {
        key: key.to_owned(),
        place,
        value,
    };
    let flow = Node::map(
        vec![
            entry("a", at(12, 6), Node::text("ü", at(12, 9))),
            entry("b", at(12, 12), Node::new(Data::Int(2), at(12, 15))),
        ],
        at(12, 5),
    );
    let list = Node::new(
        Data::List(vec![flow, Node::text("text\n", at(14, 5))]),
        at(12, 3),
    );
    let expected = Node::map(
        vec![
            entry("name", at(10, 5), Node::text("ä", at(10, 11))),
            entry("list", at(11, 1), list),
            entry("none", at(15, 1), Node::new(Data::Null, at(15, 5))),
        ],
        at(10, 5),
    );
    assert_eq!((node, complaints), (Some(expected), vec![]));
}

#[test]
fn a_block_text_stands_where_its_content_begins() {
    for (text, line, column) in [
        ("a: |\n  x\n", 2, 3),
        ("a: >- # why\n\n\n    x\n", 4, 5),
        ("a: |2\n    x\n", 2, 3),
    ] {
        let (node, _) = read_at(text, Position::START);
        assert_eq!(
            node.unwrap().find("a").unwrap().place,
            Position { line, column },
            "{text:?}"
        );
    }
}

#[test]
fn floats_keep_what_was_written() {
    let (node, complaints) = read_at("version: 1.10\n", Position::START);
    let version = node
        .as_ref()
        .and_then(|node| node.find("version"))
        .and_then(Node::scalar);
    assert_eq!((version.as_deref(), complaints), (Some("1.10"), vec![]));
}

#[test]
fn quotes_make_text() {
    let text = "a: \"1.10\"\nb: 'true'\nc: no\nd: |\n  null\ne: >-\n  ~\n";
    assert_eq!(
        read(text),
        (
            Some(json!({"a": "1.10", "b": "true", "c": "no", "d": "null\n", "e": "~"})),
            vec![]
        )
    );
}

#[test]
fn keys_are_what_was_written() {
    let text = "1.10: a\ntrue: b\nnull: c\n'': d\n\"<<\": e\n";
    let expected = json!({"1.10": "a", "true": "b", "null": "c", "": "d", "<<": "e"});
    assert_eq!(read(text), (Some(expected), vec![]));
}

#[test]
fn a_file_may_begin_and_end_with_a_document_marker() {
    for text in [
        "---\na: 1\n---\n",
        "---\na: 1\n---\n# the end\n",
        "a: 1\n...\n",
        "---\n---\na: 1",
        "\r\n---\r\na: 1\r\n---\r\n",
    ] {
        assert_eq!(read(text), (Some(json!({"a": 1})), vec![]), "{text:?}");
    }
}

#[test]
fn a_second_document_is_refused() {
    let second = |line, column| {
        complaint(
            Code::YamlManyDocuments,
            line,
            column,
            "",
            "a second document begins here",
        )
    };
    assert_eq!(
        read("a: 1\n---\nb: 2\n"),
        (Some(json!({"a": 1})), vec![second(3, 1)])
    );
    assert_eq!(
        read("a: 1\n---\n---\nb\n---\nc"),
        (Some(json!({"a": 1})), vec![second(4, 1)])
    );
    assert_eq!(
        read("a: 1\n--- # next\n@\n"),
        (Some(json!({"a": 1})), vec![second(3, 1)])
    );
}

#[test]
fn nothing_but_comments_is_empty() {
    for text in ["", "\n", "# only a comment\n", "---\n", "---\n...\n---\n"] {
        assert_eq!(
            read(text),
            (
                None,
                vec![complaint(Code::EmptyFile, 1, 1, "", "there is no content")]
            ),
            "{text:?}"
        );
    }
}

#[test]
fn an_explicit_null_is_a_root() {
    assert_eq!(read("~"), (Some(Value::Null), vec![]));
}

#[test]
fn duplicate_keys_name_both_places_and_reading_continues() {
    let text = "a: 1\nb:\n  - c: 1\n    d: 2\n    c: {e: 1, e: 2}\na: 3\nz: 9\n";
    assert_eq!(
        read(text),
        (
            Some(json!({"a": 1, "b": [{"c": 1, "d": 2}], "z": 9})),
            vec![
                complaint(
                    Code::DuplicateKey,
                    5,
                    5,
                    "b[0].c",
                    "key `c` is given twice, first at line 3, column 5"
                ),
                complaint(
                    Code::DuplicateKey,
                    5,
                    15,
                    "b[0].e",
                    "key `e` is given twice, first at line 5, column 9"
                ),
                complaint(
                    Code::DuplicateKey,
                    6,
                    1,
                    "a",
                    "key `a` is given twice, first at line 1, column 1"
                ),
            ]
        )
    );
}

#[test]
fn duplicate_keys_are_found_among_few_and_among_many() {
    for count in [1, FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 1, FEW_KEYS * 3] {
        let mut text = String::new();
        for number in 0..count {
            writeln!(text, "key{number}: {number}").unwrap();
        }
        let all = text.clone();
        for number in 0..count {
            writeln!(text, "key{number}: again").unwrap();
        }
        writeln!(text, "last: 1\nlast: 2").unwrap();
        let (value, complaints) = read(&text);
        let (mut expected, none) = read(&all);
        expected
            .as_mut()
            .and_then(Value::as_object_mut)
            .unwrap()
            .insert("last".to_owned(), json!(1));
        assert_eq!((value, none.len()), (expected, 0), "{count}");
        let lines: Vec<u32> = complaints.iter().map(|(_, line, ..)| *line).collect();
        let (from, to) = (
            u32::try_from(count).unwrap() + 1,
            u32::try_from(count * 2).unwrap(),
        );
        assert_eq!(
            lines,
            (from..=to).chain([to + 2]).collect::<Vec<_>>(),
            "{count}"
        );
        let first = |at: usize| {
            complaints
                .get(at)
                .map(|(.., message)| message.clone())
                .unwrap()
        };
        assert!(
            first(0).ends_with("first at line 1, column 1"),
            "{}",
            first(0)
        );
        assert!(
            first(count - 1).ends_with(&format!("first at line {count}, column 1")),
            "{}",
            first(count - 1)
        );
    }
}

#[test]
fn tags_are_refused_and_reading_continues() {
    let text = "a: !!python/object:os.system x\nb: !!str 1\nc: !local [1]\nd: ! {}\n";
    let tag = |line, path, tag: &str| {
        complaint(
            Code::YamlTag,
            line,
            4,
            path,
            &format!("the tag `{tag}` is not accepted"),
        )
    };
    assert_eq!(
        read(text),
        (
            Some(json!({"a": "x", "b": 1, "c": [1], "d": {}})),
            vec![
                tag(1, "a", "!!python/object:os.system"),
                tag(2, "b", "!!str"),
                tag(3, "c", "!local"),
                tag(4, "d", "!"),
            ]
        )
    );
    assert_eq!(read("a: !x!y 1").1[0].0, Code::YamlTag);
}

#[test]
fn merge_keys_are_refused() {
    let text = "base: &b {x: 1}\nderived:\n  <<: *b\n  y: 2\n";
    assert_eq!(
        read(text),
        (
            Some(json!({"base": {"x": 1}, "derived": {"y": 2}})),
            vec![complaint(
                Code::YamlMergeKey,
                3,
                3,
                "derived.<<",
                "merge keys are not accepted"
            )]
        )
    );
}

#[test]
fn a_syntax_error_lies_inside_its_line() {
    for text in [
        "%\u{1e800}: \u{feff}",
        "%ééééééé: [",
        "a: 1\n%\u{1e800}\u{1e800}: \u{feff}\n",
    ] {
        let (_, complaints) = read(text);
        assert!(!complaints.is_empty(), "{text:?}");
        for (_, line, column, ..) in complaints {
            let length = text
                .lines()
                .nth(line as usize - 1)
                .map_or(0, |line| line.chars().count());
            assert!(
                column as usize <= length + 1,
                "{text:?}: column {column} of {length}"
            );
        }
    }
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    let text = "a: .nan\nb: [-.inf, 100000000000000000000000000000000000000000000]\nc: 18446744073709551615\n";
    let number = |line, column, path, written| {
        complaint(
            Code::InvalidNumber,
            line,
            column,
            path,
            &format!("`{written}` is not a number that can be used"),
        )
    };
    assert_eq!(
        read(text).1,
        vec![
            number(1, 4, "a", ".nan"),
            number(2, 5, "b[0]", "-.inf"),
            number(
                2,
                12,
                "b[1]",
                "100000000000000000000000000000000000000000000"
            ),
            number(3, 4, "c", "18446744073709551615"),
        ]
    );
}

#[test]
fn keys_that_are_not_text_are_errors() {
    let key =
        |line, column, path| complaint(Code::YamlSyntax, line, column, path, "a key must be text");
    assert_eq!(
        read("? [a, b]\n: 1\nc: &x 2\n*x : 3\nurl: {{base}}\n"),
        (
            Some(json!({"c": 2, "url": {}})),
            vec![key(1, 3, ""), key(4, 1, ""), key(5, 7, "url")]
        )
    );
    assert_eq!(
        read(": 1\nb: 2\n"),
        (
            Some(json!({"b": 2})),
            vec![complaint(
                Code::YamlSyntax,
                1,
                1,
                "",
                "a key is missing before `:`"
            )]
        )
    );
}

#[test]
fn aliases_repeat_content() {
    let text = "a: &x {b: [1, &y 2]}\nc: *x\nd: *y\n&k key: *k\n";
    let expected = json!({"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": 2, "key": "key"});
    assert_eq!(read(text), (Some(expected), vec![]));
}

#[test]
fn an_alias_bomb_is_defused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(text, "a{level}: &a{level} [{inner}]").unwrap();
    }
    let (node, complaints) = read_at(&text, Position::START);
    assert!(node.is_some());
    assert_eq!(
        complaints,
        vec![complaint(
            Code::RepetitionLimit,
            5,
            15,
            "a4[1]",
            "aliases repeat more than 20000 values"
        )]
    );
}

#[test]
fn long_texts_cannot_be_repeated_without_end() {
    let text = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(100_000),
        "*a, ".repeat(30_000)
    );
    let (node, complaints) = read_at(&text, Position::START);
    assert!(node.is_some());
    assert_eq!(
        complaints.iter().map(|c| c.0).collect::<Vec<_>>(),
        vec![Code::RepetitionLimit]
    );
}

#[test]
fn an_alias_inside_its_own_content_is_refused() {
    let message = "an alias repeats the content it stands in";
    assert_eq!(
        read("a: &a [1, *a]\n"),
        (
            Some(json!({"a": [1, null]})),
            vec![complaint(Code::RepetitionLimit, 1, 11, "a[1]", message)]
        )
    );
}

#[test]
fn aliases_cannot_nest_deeper_than_the_limit() {
    let deep =
        |levels: usize, inner: &str| format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels));
    let fits = format!("- &a {}\n- {}\n", deep(30, ""), deep(33, "*a"));
    assert_eq!(read(&fits).1, vec![]);
    let too_deep = format!("- &a {}\n- {}\n", deep(30, ""), deep(34, "*a"));
    assert_eq!(
        read(&too_deep).1.iter().map(|c| c.0).collect::<Vec<_>>(),
        vec![Code::NestingLimit]
    );
}

#[test]
fn sixty_four_levels_are_enough() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(read(&nested(64)).1, vec![]);
    assert_eq!(
        read(&nested(65)),
        (
            None,
            vec![complaint(
                Code::NestingLimit,
                1,
                65,
                &"[0]".repeat(64),
                "nested more than 64 levels deep"
            )]
        )
    );
}

#[test]
fn endless_nesting_is_stopped_where_it_begins() {
    for (text, column) in [("[", 256), ("{", 256), ("- ", 129), ("? ", 129)] {
        let (node, complaints) = read_at(&text.repeat(100_000), Position::START);
        assert_eq!(node, None);
        let seen: Vec<_> = complaints.iter().map(|c| (c.0, c.1, c.2)).collect();
        assert_eq!(seen, vec![(Code::NestingLimit, 1, column)], "{text:?}");
    }
}

#[test]
fn syntax_errors_show_where_and_what_to_do() {
    for (text, line, column, advice) in [
        (
            "a: 1\nb: c: d\n",
            2,
            5,
            "put quotes around a value that contains `: `",
        ),
        ("a:\n  b: 1\n\tc: 2\n", 3, 1, "indent with spaces, not tabs"),
        (
            "a: *.rs\n",
            1,
            4,
            "put quotes around a value that begins with `*` or `&`",
        ),
        (
            "a: @b\n",
            1,
            4,
            "put quotes around a value that begins with `@`, `%` or a backtick",
        ),
        ("a: \"open\nb: 1\n", 1, 4, "close the quote"),
        (
            "a: [1, 2\nb: 3\n",
            2,
            2,
            "close each `[` and `{`, and put quotes around a value that begins with one",
        ),
        (
            "a: \"\\d\"\n",
            1,
            4,
            "write `\\\\` for a backslash, or use single quotes",
        ),
        ("a: \"b\" c\n", 1, 8, "put quotes around the whole value"),
        (
            "a: 1\nb\n",
            3,
            1,
            "write `key: value`, with a space after the colon",
        ),
        (
            "a: 1\n   b: 2\n",
            2,
            5,
            "put quotes around a value that contains `: `",
        ),
    ] {
        let (value, complaints) = read(text);
        let seen: Vec<_> = complaints.iter().map(|c| (c.0, c.1, c.2)).collect();
        let expected = (
            None,
            vec![(Code::YamlSyntax, line, column)],
            Some(advice.to_owned()),
        );
        assert_eq!(
            (value, seen, suggestion(text)),
            expected,
            "{text:?} {complaints:?}"
        );
    }
}

#[test]
fn what_was_found_before_a_syntax_error_is_kept() {
    let codes: Vec<_> = read("a: 1\na: .nan\nb: !x y\nc: [\n")
        .1
        .iter()
        .map(|c| c.0)
        .collect();
    assert_eq!(
        codes,
        vec![
            Code::DuplicateKey,
            Code::InvalidNumber,
            Code::YamlTag,
            Code::YamlSyntax
        ]
    );
}

#[test]
fn control_characters_never_cut_a_file_short() {
    let message = "the control character U+0000 may not stand in YAML";
    assert_eq!(
        read("a: 1\nb: ü\0\nc: 3\n"),
        (None, vec![complaint(Code::YamlSyntax, 2, 5, "", message)])
    );
    assert_eq!(read("a: \u{1b}[31m").1[0].0, Code::YamlSyntax);
    assert_eq!(
        read("a: \"\\0\\e\"\n"),
        (Some(json!({"a": "\0\u{1b}"})), vec![])
    );
}

#[test]
fn windows_line_endings_are_fine() {
    let (value, complaints) = read("a: 1\r\nb:\r\n  - c: |\r\n      x\r\n      y\r\nb: 2\r\n");
    assert_eq!(value, Some(json!({"a": 1, "b": [{"c": "x\ny\n"}]})));
    assert_eq!(
        complaints
            .iter()
            .map(|c| (c.0, c.1, c.2))
            .collect::<Vec<_>>(),
        vec![(Code::DuplicateKey, 6, 1)]
    );
}

#[test]
fn large_documents_are_refused_before_they_are_read() {
    let message = "larger than 256 KiB";
    assert_eq!(
        read(&"a".repeat(256 * 1024 + 1)),
        (None, vec![complaint(Code::FileTooLarge, 1, 1, "", message)])
    );
}

#[test]
fn documents_of_nothing_but_structure_are_refused() {
    let message = "more than 100000 commas and colons";
    let refused = (None, vec![complaint(Code::FileTooLarge, 1, 1, "", message)]);
    assert_eq!(read(&format!("[{}]", ":,".repeat(60_000))), refused);
    assert_eq!(read(&format!("{{{}}}", "a,".repeat(100_001))), refused);
}

#[test]
fn what_the_writer_takes_for_line_breaks_survives() {
    for value in [
        json!("a\u{2028}  b"),
        json!([{"\u{85}": "\u{2029}", "x": "\u{7f}\"\\"}]),
    ] {
        assert_eq!(read(&to_yaml(&value)), (Some(value), vec![]));
    }
}

/// Fills a document with repetitions, up to the accepted size.
fn filled(start: &str, repeat: impl Fn(usize) -> String, end: &str) -> String {
    let mut text = start.to_owned();
    for index in 0.. {
        let next = repeat(index);
        if text.len() + next.len() + end.len() > 256 * 1024 {
            break;
        }
        text.push_str(&next);
    }
    text + end
}

#[test]
fn the_worst_documents_are_read_with_few_complaints() {
    let same = |text: &'static str| move |_| text.to_owned();
    // Quadratic behaviour would take minutes, and the test runner would stop it.
    for (name, text) in [
        ("brackets", filled("", same("["), "")),
        ("braces", filled("", same("{"), "")),
        (
            "balanced brackets",
            "[".repeat(131_072) + &"]".repeat(131_072),
        ),
        ("braced keys", filled("", same("{a: "), "")),
        ("dashes", filled("", same("- "), "")),
        ("questions", filled("", same("? "), "")),
        (
            "staircase",
            filled("", |index| format!("{}a:\n", " ".repeat(index)), ""),
        ),
        (
            "block keys",
            filled("", |index| format!("a{index}: 1\n"), ""),
        ),
        (
            "flow keys",
            filled("{", |index| format!("a{index}: 1, "), "}"),
        ),
        ("same keys", filled("", same("a: 1\n"), "")),
        ("same flow keys", filled("{", same("ab,"), "}")),
        ("flow list", filled("[", same("11,"), "]")),
        ("flow pairs", filled("[", same(":,    "), "]")),
        (
            "deep flow list",
            filled(&"[".repeat(64), same("11,"), &"]".repeat(64)),
        ),
        (
            "deepest flow list",
            filled(&"[".repeat(255), same("11,"), &"]".repeat(255)),
        ),
        ("many lists", filled("", same("- []\n"), "")),
        (
            "anchors",
            filled("", |index| format!("- &a{index} x\n"), ""),
        ),
        (
            "nested anchors",
            filled(&"&a [".repeat(63), same("11,"), &"]".repeat(63)),
        ),
        ("aliases", filled("- &a x\n", same("- *a\n"), "")),
        ("long line", filled("a: ", same("word "), "")),
        ("folded lines", filled("a: >\n", same("  word\n"), "")),
        ("blank lines", filled("a: |\n", same("\n"), "")),
        ("comments", filled("a: 1\n", same("#\n"), "")),
        ("quoted breaks", filled("a: \"", same("\\\n"), "\"")),
        ("documents", filled("", same("---\n"), "")),
        ("tags", filled("", same("- !a b\n"), "")),
        (
            "directives",
            filled("", |index| format!("%TAG !a{index}! b\n"), "--- a"),
        ),
        ("numbers", filled("a: ", same("9"), "")),
    ] {
        let (_, complaints) = read_at(&text, Position::START);
        assert!(
            complaints.len() <= 100,
            "{name}: {} complaints",
            complaints.len()
        );
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,8}",
        "[-?:,\\[\\]{}#&*!|>'\"%@`~<= \n\t.0-9eE+xo_a-f]{0,6}",
        Just("yes".to_owned()),
        Just("null".to_owned()),
        Just("---".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(
                (
                    text.clone().prop_filter("merge key", |key| key != "<<"),
                    inner
                ),
                0..6
            )
            .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Pieces with a meaning in YAML, so that random sequences reach every state of the parser.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            ": ",
            "- ",
            "? ",
            "\n",
            "\n  ",
            "\n    ",
            "a",
            "b c",
            "'",
            "\"",
            "|",
            ">",
            "|2+\n",
            "&a ",
            "*a",
            "!t ",
            "!!str ",
            "!<x> ",
            "%YAML 1.2\n",
            "\n---\n",
            "\n...\n",
            " #c\n",
            "\t",
            "\r",
            "\r\n",
            "\\",
            "\\x4",
            "<<: ",
            "@",
            "1",
            ".inf",
            "~",
            "\0",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "é",
        ])
        .prop_map(str::to_owned),
        "\\PC{1,3}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(value in any_value()) {
        let text = to_yaml(&value);
        let (read, complaints) = read(&text);
        prop_assert_eq!((read, complaints), (Some(value), vec![]), "{}", text);
    }

    #[test]
    fn no_text_panics_and_every_place_is_inside_it(text in any_text()) {
        let (_, complaints) = read_at(&text, Position::START);
        let lines = text.split(['\n', '\r']).count();
        for (_, line, column, ..) in complaints {
            prop_assert!(line >= 1 && line as usize <= lines + 1, "line {} of {}", line, lines);
            prop_assert!(column >= 1 && column as usize <= text.chars().count() + 1);
        }
    }

    #[test]
    fn generated_structures_stay_bounded(
        depth in 0_usize..200,
        width in 0_usize..200,
        open in prop::sample::select(vec!["[", "{a: ", "- ", "? ", "&x [", "a:\n  "]),
        leaf in prop::sample::select(vec!["*x, ", "1, ", "a: 1, ", "- 1\n", "<<: 1, ", "!t 1, "]),
    ) {
        let text = open.repeat(depth) + &leaf.repeat(width);
        let (node, complaints) = read_at(&text, Position::START);
        prop_assert!(complaints.len() <= 100);
        prop_assert!(node.is_none_or(|node| measure(&node).height <= MAX_DEPTH));
    }
}
