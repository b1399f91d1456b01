use proptest::prelude::*;

use super::*;
use crate::item::template::Reference;

fn failure(text: &str) -> (usize, String) {
    let error = parse(text).unwrap_err();
    (error.offset, error.message)
}

fn number(value: f64) -> Expr {
    Expr::Number(value)
}

#[test]
fn errors_point_at_the_exact_column() {
    for (text, offset, message) in [
        ("", 0, "expected a value, found the end"),
        ("1 ==", 4, "expected a value, found the end"),
        ("1 == 2 3", 7, "expected the end, `and` or `or`, found `3`"),
        ("1 < 2 < 3", 6, "comparisons cannot be chained"),
        ("(1 == 1", 7, "expected `)`, found the end"),
        ("{input:a} && true", 10, "`&&` is not an operator"),
        ("{input:a} = 1", 10, "`=` is not an operator"),
        ("!{input:a}", 0, "`!` is not an operator"),
        ("{input:a} == main", 13, "`main` is not a value"),
        ("'open", 0, "the string is never closed"),
        ("{file} == 1", 0, "`{` does not begin a placeholder"),
        (
            "1 == {step:}",
            5,
            "`{step:}` is not of the form `{step:name.path}`",
        ),
        (
            "'a {run:x}' == 1",
            3,
            "`{run:x}` is not of the form `{run:id}`",
        ),
        ("1.2.3 == 1", 0, "`1.2.3` is not a number"),
        ("1 not 2", 6, "expected `in` after `not`, found `2`"),
        ("1 in [1, 2", 10, "expected `]`, found the end"),
    ] {
        assert_eq!(failure(text), (offset, message.to_owned()), "{text}");
    }
}

#[test]
fn nesting_is_capped() {
    for text in [
        "(".repeat(100_000),
        "not ".repeat(100_000),
        "[".repeat(100_000),
    ] {
        assert_eq!(
            parse(&text).unwrap_err().message,
            "the expression is nested more than 64 deep"
        );
    }
    assert!(parse(&format!("{}true{}", "(".repeat(64), ")".repeat(64))).is_ok());
}

#[test]
fn values_are_counted() {
    let many = |count: usize| vec!["'a'"; count].join(" and ");
    assert!(parse(&many(1000)).is_ok());
    assert_eq!(
        failure(&many(1001)),
        (8000, "the expression has more than 1000 values".to_owned())
    );
    assert_eq!(
        failure(&format!("1 in [{}", "1,".repeat(200_000))).1,
        "the expression has more than 1000 values"
    );
}

#[test]
fn and_binds_closer_than_or_and_not_closer_than_both() {
    assert_eq!(
        parse("true or false and not null").unwrap(),
        Expr::Or(vec![
            Expr::Bool(true),
            Expr::And(vec![Expr::Bool(false), Expr::Not(Box::new(Expr::Null))]),
        ])
    );
    assert_eq!(
        parse("(true or false) and true").unwrap(),
        Expr::And(vec![
            Expr::Or(vec![Expr::Bool(true), Expr::Bool(false)]),
            Expr::Bool(true)
        ])
    );
}

#[test]
fn every_comparison_is_read() {
    for (written, operator) in [
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
        ("in", Operator::In),
    ] {
        let expected = Expr::Compare {
            left: Box::new(number(1.0)),
            operator,
            right: Box::new(number(-2.5)),
        };
        assert_eq!(parse(&format!("1 {written} -2.5")).unwrap(), expected);
    }
    let inside = Expr::Compare {
        left: Box::new(number(1.0)),
        operator: Operator::In,
        right: Box::new(Expr::List(vec![Expr::Number(1.0), Expr::Null])),
    };
    assert_eq!(
        parse("1 not in [1, null]").unwrap(),
        Expr::Not(Box::new(inside))
    );
}

#[test]
fn placeholders_keep_their_offsets_even_in_strings() {
    let expression = parse("{step:a.n} > 0 and 'v{input:b}' in ['x', \"{run:id}\"]").unwrap();
    let found: Vec<_> = placeholders(&expression)
        .into_iter()
        .map(|it| (it.range.clone(), &it.reference))
        .collect();
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].0, 0..10);
    assert_eq!(found[1].0, 21..30);
    assert_eq!(found[2], (42..50, &Reference::RunId));
}

#[test]
fn only_hooks_read_bare_names() {
    assert_eq!(
        failure("error.code == 'X'"),
        (0, "`error.code` is not a value".to_owned())
    );
    let expression = parse_hook("not error.code and step in ['a', phase]").unwrap();
    let found: Vec<_> = names(&expression)
        .into_iter()
        .map(|it| (it.offset, it.path.join(".")))
        .collect();
    assert_eq!(
        found,
        [
            (4, "error.code".to_owned()),
            (19, "step".to_owned()),
            (33, "phase".to_owned())
        ]
    );
    for (text, offset) in [
        ("error..code", 0),
        (".x", 0),
        ("a. == 1", 0),
        ("and", 0),
        ("1 == in", 5),
    ] {
        assert_eq!(parse_hook(text).unwrap_err().offset, offset, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_parses_or_fails_inside_itself(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "(", ")", "[", "]", ",", "not", "and", "or", "in", "==", "<", "{input:a}", "'x'", "1", "true", "ü", "{", "\"",
            ]),
            0..40,
        ),
    ) {
        let text = words.join(" ");
        if let Err(error) = parse(&text) {
            prop_assert!(error.offset <= text.len());
            prop_assert!(text.is_char_boundary(error.offset));
        }
    }

    #[test]
    fn a_written_tree_is_read_back((text, tree) in tree()) {
        prop_assert_eq!(parse(&text), Ok(tree));
    }

    #[test]
    fn depth_is_limited_for_every_kind_of_nesting(
        nests in prop::collection::vec(prop::sample::select(vec![("(", ")"), ("not (", ")")]), 0..150),
    ) {
        let open: String = nests.iter().map(|(open, _)| *open).collect();
        let close: String = nests.iter().rev().map(|(_, close)| *close).collect();
        let levels: usize = nests.iter().map(|(open, _)| if open.starts_with("not") { 2 } else { 1 }).sum();
        prop_assert_eq!(parse(&format!("{open}1{close}")).is_ok(), levels <= 64);
    }
}

/// An expression as text, and its tree.
fn tree() -> impl Strategy<Value = (String, Expr)> {
    let leaf = prop_oneof![
        Just(("null".to_owned(), Expr::Null)),
        any::<bool>().prop_map(|value| (value.to_string(), Expr::Bool(value))),
        any::<i32>().prop_map(|value| (value.to_string(), number(f64::from(value)))),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 2..4);
        let joined = |several: Vec<(String, Expr)>, word: &str| {
            let (texts, trees): (Vec<String>, Vec<Expr>) = several
                .into_iter()
                .map(|(text, tree)| (format!("({text})"), tree))
                .unzip();
            (texts.join(word), trees)
        };
        prop_oneof![
            inner
                .clone()
                .prop_map(|(text, tree)| (format!("not ({text})"), Expr::Not(Box::new(tree)))),
            several.clone().prop_map(move |several| {
                let (text, trees) = joined(several, " and ");
                (text, Expr::And(trees))
            }),
            several.prop_map(move |several| {
                let (text, trees) = joined(several, " or ");
                (text, Expr::Or(trees))
            }),
        ]
    })
}
