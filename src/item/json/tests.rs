//! Strictness, positions, limits, and agreement with `serde_json`.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::item::finding::Strength;

type Complaint = (Code, u32, u32, String, String);

fn read_at(text: &str, origin: Position) -> (Option<Node>, Vec<Complaint>) {
    let mut findings = Findings::new(Path::new("tool.json"), Strength::Lenient);
    let node = parse(text, origin, &mut findings);
    let complaints = findings
        .into_vec()
        .into_iter()
        .map(|f| (f.code, f.line, f.column, f.path, f.message))
        .collect();
    (node, complaints)
}

fn read(text: &str) -> (Option<serde_json::Value>, Vec<Complaint>) {
    let (node, complaints) = read_at(text, Position::START);
    (node.map(|node| node.to_json()), complaints)
}

fn complaint(code: Code, line: u32, column: u32, path: &str, message: &str) -> Complaint {
    (code, line, column, path.to_owned(), message.to_owned())
}

#[test]
fn every_value_knows_its_place() {
    let text = "{\"ä\": \"ü\", \"list\": [true,\n  null, 1.10]}";
    let at = |line, column| Position { line, column };
    let entry = |key: &str, place, value| NodeEntry {
        key: key.to_owned(),
        place,
        value,
    };
    let list = Data::List(vec![
        Node::new(Data::Bool(true), at(7, 23)),
        Node::new(Data::Null, at(8, 3)),
        Node::new(Data::Float(1.1, "1.10".to_owned()), at(8, 9)),
    ]);
    let expected = Node::map(
        vec![
            entry("ä", at(7, 4), Node::text("ü", at(7, 9))),
            entry("list", at(7, 14), Node::new(list, at(7, 22))),
        ],
        at(7, 3),
    );
    assert_eq!(read_at(text, at(7, 3)), (Some(expected), vec![]));
}

#[test]
fn only_json_is_json() {
    for (text, line, column, message) in [
        ("{\"a\": 1,}", 1, 8, "trailing commas are not allowed"),
        ("[1, 2,\n]", 1, 6, "trailing commas are not allowed"),
        ("{\n// why\n}", 2, 1, "comments are not allowed"),
        ("{'a': 1}", 1, 2, "single-quoted strings are not allowed"),
        ("{a: 1}", 1, 2, "expected string for object property"),
        ("{\"a\": 1\n \"b\": 2}", 1, 8, "expected comma"),
        (
            "{\"a\" 1}",
            1,
            6,
            "expected colon after the string or word in object property",
        ),
        (
            "[1] [2]",
            1,
            5,
            "text cannot contain more than one json value",
        ),
        ("[1, {\"a\": [", 1, 11, "unterminated array"),
        ("[\"a", 1, 2, "unterminated string literal"),
        (
            "[\"\\ud800\"]",
            1,
            3,
            "invalid unicode escape sequence. 'd800 (unpaired high surrogate)' is not a valid utf8 character",
        ),
        ("[NaN]", 1, 2, "unexpected token"),
        ("[01]", 1, 3, "expected comma"),
        ("[+1]", 1, 2, "unary plus on numbers is not allowed"),
        (
            "[.5]",
            1,
            2,
            "leading or trailing decimal points on numbers are not allowed",
        ),
        ("[0x1F]", 1, 2, "hexadecimal numbers are not allowed"),
        ("[True]", 1, 2, "unexpected token"),
        ("]", 1, 1, "unexpected close bracket"),
        (
            "[\"ä\u{1}\"]",
            1,
            4,
            "control character (\\u0000-\\u001F) found while parsing a string",
        ),
        (
            "[\"a\nb\"]",
            1,
            4,
            "control character (\\u0000-\\u001F) found while parsing a string",
        ),
        ("[1,\u{a0}2]", 1, 4, "expected value"),
    ] {
        assert_eq!(
            read(text),
            (
                None,
                vec![complaint(Code::JsonSyntax, line, column, "", message)]
            ),
            "{text:?}"
        );
    }
}

#[test]
fn nothing_is_empty() {
    for text in ["", " \n\t"] {
        assert_eq!(
            read(text),
            (
                None,
                vec![complaint(Code::EmptyFile, 1, 1, "", "there is no content")]
            )
        );
    }
}

#[test]
fn surrogate_pairs_are_one_character() {
    assert_eq!(
        read(r#"["\ud83d\ude00", "\u00e4\n\"\\"]"#),
        (Some(json!(["😀", "ä\n\"\\"])), vec![])
    );
}

#[test]
fn duplicate_keys_name_both_places_and_reading_continues() {
    assert_eq!(
        read(
            "{\"a\": 1,\n \"b\": [{\"c\": 1, \"\\u0063\": {\"d\": 1, \"d\": 2}}],\n \"a\": 2, \"z\": 9}"
        ),
        (
            Some(json!({"a": 1, "b": [{"c": 1}], "z": 9})),
            vec![
                complaint(
                    Code::DuplicateKey,
                    2,
                    17,
                    "b[0].c",
                    "key `c` is given twice, first at line 2, column 9"
                ),
                complaint(
                    Code::DuplicateKey,
                    2,
                    36,
                    "b[0].c.d",
                    "key `d` is given twice, first at line 2, column 28"
                ),
                complaint(
                    Code::DuplicateKey,
                    3,
                    2,
                    "a",
                    "key `a` is given twice, first at line 1, column 2"
                ),
            ]
        )
    );
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    let number = |column, path, written| {
        complaint(
            Code::InvalidNumber,
            1,
            column,
            path,
            &format!("`{written}` is not a number that can be used"),
        )
    };
    assert_eq!(
        read("[9223372036854775807, 9223372036854775808, {\"a\": -1e999}, 1e999]").1,
        vec![
            number(23, "[1]", "9223372036854775808"),
            number(50, "[2].a", "-1e999"),
            number(59, "[3]", "1e999")
        ]
    );
}

#[test]
fn sixty_four_levels_are_enough() {
    let nested = |levels: usize| format!("{}\"]}}\"{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(read(&nested(64)).1, vec![]);
    let message = "nested more than 64 levels deep";
    assert_eq!(
        read(&nested(65)),
        (
            None,
            vec![complaint(Code::NestingLimit, 1, 65, "", message)]
        )
    );
    assert_eq!(
        read(&format!(
            "{{\"[[\": \"\\\"\", \"a\": {}",
            "{\"a\":".repeat(40_000)
        )),
        (
            None,
            vec![complaint(Code::NestingLimit, 1, 19 + 63 * 5, "", message)]
        )
    );
    assert_eq!(read(&format!("[\"{}\"]", "[".repeat(200))).1, vec![]);
}

#[test]
fn the_worst_documents_are_read_in_bounded_time() {
    let many_keys = (0..20_000).fold(String::new(), |text, index| {
        text + &format!("\"{index}\":1,")
    });
    for text in [
        "[".repeat(262_144),
        format!("[{}1]", "1,".repeat(131_000)),
        format!("{{{many_keys}\"z\": 1}}"),
        format!("{{{}\"z\": 1}}", "\"a\":1,".repeat(40_000)),
        format!(
            "{}{}1{}",
            "[".repeat(64),
            "1,".repeat(130_000),
            "]".repeat(64)
        ),
        format!("[\"{}\"]", "\\n".repeat(130_000)),
        "\"".repeat(262_144),
        "9".repeat(262_144),
        " ".repeat(262_144),
    ] {
        let (_, complaints) = read_at(&text, Position::START);
        assert!(complaints.len() <= 100, "{} complaints", complaints.len());
    }
    let message = "larger than 256 KiB";
    assert_eq!(
        read(&"1".repeat(262_145)),
        (None, vec![complaint(Code::FileTooLarge, 1, 1, "", message)])
    );
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::vec(("\\PC{0,6}", inner), 0..6)
                .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Pieces of JSON in any order, so that both parsers see every kind of mistake.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "[", "]", "{", "}", ",", ":", "\"a\"", "\"b\":", "1", "-", "0", ".5", "e3", "true", "null", "\"", "\\", "\\u12",
            "\\ud83d", "\\ude00", " ", "\n", "\t", "//", "/*", "'", "NaN", "\u{a0}", "\u{feff}", "\0", "\u{c}",
        ])
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    let loose = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    prop_oneof![
        loose.clone(),
        loose.clone().prop_map(|inner| format!("[{inner}]")),
        loose.prop_map(|inner| format!("{{\"a\": {inner}}}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(value in any_value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(read(&text), (Some(value), vec![]), "{}", text);
    }

    #[test]
    fn what_is_accepted_is_what_serde_json_accepts(text in any_text()) {
        let (read, complaints) = read(&text);
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(value) if complaints.is_empty() => prop_assert_eq!(read, Some(without_negative_zero(value))),
            Ok(_) => {
                let codes = [Code::DuplicateKey, Code::InvalidNumber, Code::NestingLimit];
                prop_assert!(complaints.iter().all(|c| codes.contains(&c.0)), "{:?}", complaints);
            }
            Err(_) => prop_assert!(!complaints.is_empty(), "accepted {}", text),
        }
    }
}

/// `-0` is an integer here and a float in `serde_json`.
fn without_negative_zero(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Number(number) if number.to_string() == "-0.0" => json!(0),
        serde_json::Value::Array(elements) => {
            elements.into_iter().map(without_negative_zero).collect()
        }
        serde_json::Value::Object(entries) => entries
            .into_iter()
            .map(|(key, value)| (key, without_negative_zero(value)))
            .collect(),
        other => other,
    }
}
