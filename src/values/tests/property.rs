use proptest::prelude::*;

use super::*;

/// Any value, with texts that look like placeholders.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec![
        "",
        "x",
        "{input:a}",
        "{step:b.k}",
        "{env:SECRET}",
        "{run:id}",
        "ü",
        "\"]}",
        "1",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(vec!["k", "0", "code"]), inner), 0..3)
                .prop_map(|pairs| pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<Map<_, _>>()
                    .into()),
        ]
    })
}

fn any_expression() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "(",
        ")",
        "[",
        "]",
        ",",
        "not",
        "and",
        "or",
        "in",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "{input:a}",
        "{input:a.k}",
        "{input:a?}",
        "{step:b}",
        "{step:b.k.0}",
        "{env:HOME}",
        "'x{input:a}'",
        "'x'",
        "1",
        "-2.5",
        "true",
        "null",
        "error",
        "error.code",
        "cost.steps",
    ]);
    let value = || {
        prop::sample::select(vec![
            "{input:a}",
            "{step:b.k}",
            "'{input:a}'",
            "1",
            "null",
            "['x', {step:b}]",
            "error.code",
        ])
    };
    let operator = prop::sample::select(vec![
        "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or",
    ]);
    prop_oneof![
        prop::collection::vec(word, 0..12).prop_map(|words| words.join(" ")),
        (value(), operator, value())
            .prop_map(|(left, operator, right)| format!("not {left} {operator} {right}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_was_filled_in_is_never_scanned_again(a in any_value(), before in "[a-z{} ]{1,4}") {
        let world = World::new(json!({"a": a.clone()}), json!({}));
        prop_assert_eq!(world.fill("{input:a}"), Ok(a.clone()));
        let expected = format!("{before}{}{before}", text_of(&a));
        prop_assert_eq!(world.fill(&format!("{before}{{input:a}}{before}")), Ok(Value::from(expected)));
        let literal = world.with(|scope| elements("[\"{input:a}\"]", scope));
        prop_assert_eq!(literal, Ok(vec![a]));
    }

    #[test]
    fn any_expression_over_any_values_holds_or_not_or_fails_inside_itself(
        text in any_expression(), a in any_value(), b in any_value(), error in any_value(),
    ) {
        let mut world = World::new(json!({"a": a}), json!({"b": b}));
        world.variables = Some(object(json!({"error": error, "cost": {"steps": 1}})));
        for result in [world.holds(&text), world.with(|scope| hook_holds(&text, scope))] {
            if let Err(error) = result {
                prop_assert!(text.is_char_boundary(error.offset) && error.offset <= text.len());
            }
        }
    }
}
