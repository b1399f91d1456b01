use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::problem::Code;

fn codes(schema: &Value) -> Vec<(Code, String)> {
    check_schema(schema)
        .into_iter()
        .map(|problem| (problem.code, problem.pointer))
        .collect()
}

fn problem(pointer: &str, message: &str, suggestion: Option<&str>) -> ParamProblem {
    ParamProblem {
        pointer: pointer.to_owned(),
        message: message.to_owned(),
        suggestion: suggestion.map(str::to_owned),
    }
}

#[test]
fn schemas_that_are_wrong_say_where() {
    assert_eq!(
        check_schema(&json!({"type": "object", "properties": {"n": {"type": "integr"}}})),
        [SchemaProblem::new(
            Code::InvalidSchema,
            "/properties/n/type",
            "`integr` is not a type"
        )]
    );
    let named_type = check_schema(&json!({"properties": {"type": "integr"}}));
    assert!(
        !named_type[0].message.contains("is not a type"),
        "{named_type:?}"
    );
    let invalid = |pointer: &str| vec![(Code::InvalidSchema, pointer.to_owned())];
    assert_eq!(codes(&json!({"properties": 7})), invalid("/properties"));
    assert_eq!(codes(&json!({"required": "x"})), invalid("/required"));
    assert_eq!(
        codes(&json!({"properties": {"a": {"pattern": "("}}})),
        invalid("/properties/a/pattern")
    );
    assert_eq!(
        codes(&json!({"properties": {"a": {"pattern": "((a{999}){999}){999}"}}})),
        invalid("/properties/a/pattern")
    );
    assert_eq!(codes(&json!({"$ref": "#/$defs/gone"})), invalid("/$ref"));
    assert_eq!(codes(&json!({"$ref": "#gone"})), invalid("/$ref"));
    assert_eq!(codes(&json!("text")), invalid(""));
    assert_eq!(codes(&json!([])), invalid(""));
}

#[test]
fn nothing_outside_the_schema_is_referred_to() {
    let remote = |pointer: &str| vec![(Code::RemoteReference, pointer.to_owned())];
    for target in [
        "http://127.0.0.1:1/x.json",
        "file:///etc/passwd",
        "other.json",
        "other.json#/a",
        "/abs",
        "//host/x",
    ] {
        assert_eq!(
            codes(&json!({"properties": {"a": {"$ref": target}}})),
            remote("/properties/a/$ref"),
            "{target}"
        );
        assert_eq!(
            codes(&json!({"$defs": {"a": {"$dynamicRef": target}}})),
            remote("/$defs/a/$dynamicRef"),
            "{target}"
        );
    }
    assert_eq!(
        codes(&json!({"$schema": "http://example.com/meta"})),
        remote("/$schema")
    );
    assert_eq!(
        codes(&json!({"x": {"$ref": "http://h/"}, "$ref": "#/x"})),
        remote("/x/$ref")
    );
    // A property of that name, or data, is not a reference.
    assert_eq!(
        codes(&json!({"properties": {"$ref": {"type": "string"}}, "const": {"$ref": "http://h/"}})),
        []
    );
}

#[test]
fn every_draft_from_7_on_is_understood() {
    for id in [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let schema =
            json!({"$schema": id, "type": "object", "properties": {"a": {"type": "integer"}}});
        assert_eq!(codes(&schema), [], "{id}");
        assert_eq!(validate(&schema, &json!({"a": 1})), Ok(json!({"a": 1})));
        assert!(validate(&schema, &json!({"a": "x"})).is_err());
    }
    let tuple = json!({"items": [{"type": "integer"}, {"type": "string"}]});
    assert_eq!(codes(&tuple), [], "no draft named: one that fits is taken");
    assert!(validate(&tuple, &json!(["x"])).is_err());
    let newest = json!({"prefixItems": [{"type": "integer"}]});
    assert!(validate(&newest, &json!(["x"])).is_err());
}

#[test]
fn defaults_must_fit() {
    let wrong = |pointer: &str| vec![(Code::InvalidDefault, pointer.to_owned())];
    assert_eq!(
        codes(&json!({"properties": {"n": {"type": "integer", "default": "x"}}})),
        wrong("/properties/n/default")
    );
    assert_eq!(
        codes(&json!({"properties": {"n": {"enum": [1], "default": 1}}})),
        []
    );
    let by_reference = json!({"$defs": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n", "default": "x"}}});
    assert_eq!(codes(&by_reference), wrong("/properties/n/default"));
    assert_eq!(
        codes(&json!({"properties": {"default": {"type": "integer"}}})),
        []
    );
}

#[test]
fn all_problems_of_a_call_are_reported_at_once() {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}, "mode": {"enum": ["a", "b"]},
                       "inner": {"type": "object", "required": ["x"]}},
        "required": ["name"],
        "additionalProperties": false
    });
    let mut problems = validate(
        &schema,
        &json!({"nmae": "x", "count": "3", "mode": "c", "inner": {}, "zzz": 1}),
    )
    .unwrap_err();
    problems.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    assert_eq!(
        problems,
        [
            problem(
                "/count",
                "parameter `count` is not of type \"integer\"",
                None
            ),
            problem("/inner/x", "missing parameter `inner.x`", None),
            problem(
                "/mode",
                "parameter `mode` is not one of \"a\" or \"b\"",
                None
            ),
            problem("/name", "missing parameter `name`", None),
            problem(
                "/nmae",
                "unknown parameter `nmae`",
                Some("did you mean `name`?")
            ),
            problem("/zzz", "unknown parameter `zzz`", None),
        ]
    );
    assert_eq!(
        validate(&schema, &json!([])).unwrap_err(),
        [problem(
            "",
            "the parameters is not of type \"object\"",
            None
        )]
    );
}

#[test]
fn defaults_are_filled_in() {
    let schema = json!({
        "$defs": {"limit": {"type": "integer", "default": 10}},
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "object", "properties": {"c": {"default": true}}},
            "list": {"type": "array", "items": {"properties": {"d": {"default": null}}}}
        },
        "allOf": [{"properties": {"e": {"default": 1}}}],
        "required": ["a"]
    });
    assert_eq!(codes(&schema), []);
    assert_eq!(
        validate(&schema, &json!({"b": {}, "list": [{}, {"d": 2}, 3]})),
        Ok(json!({"b": {"c": true}, "list": [{"d": null}, {"d": 2}, 3], "e": 1, "a": "x"}))
    );
    assert_eq!(
        validate(&schema, &json!({"a": "y"})),
        Ok(json!({"a": "y", "e": 1}))
    );
    // A default is used as written, so a recursive one ends.
    let endless = json!({"properties": {"a": {"$ref": "#", "default": {}}}});
    assert_eq!(validate(&endless, &json!({})), Ok(json!({"a": {}})));
}

#[test]
fn schemas_that_loop_in_place_are_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"$defs": {"a": {"$anchor": "me", "anyOf": [{"$ref": "#me"}]}}}),
        json!({"$dynamicAnchor": "me", "not": {"$dynamicRef": "#me"}}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "anyOf": [{"$recursiveRef": "#"}]}),
    ] {
        assert_eq!(
            codes(&schema),
            [(Code::InvalidSchema, String::new())],
            "{schema}"
        );
        assert!(validate(&schema, &json!({})).is_err());
    }
}

#[test]
fn recursive_schemas_work() {
    let tree = json!({
        "type": "object",
        "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["value"]
    });
    assert_eq!(codes(&tree), []);
    let mut value = json!({"value": 1});
    for _ in 0..30 {
        value = json!({"value": 1, "children": [value]});
    }
    assert_eq!(validate(&tree, &value), Ok(value.clone()));
    assert_eq!(
        validate(&tree, &json!({"value": 1, "children": [{}]})).unwrap_err(),
        [problem(
            "/children/0/value",
            "missing parameter `children.0.value`",
            None
        )]
    );
}

#[test]
fn hostile_schemas_and_values_are_answered() {
    let chain = |length: usize, step: &dyn Fn(usize) -> Value| {
        let defs: Map<String, Value> = (0..length)
            .map(|at| (format!("d{at}"), step(at + 1)))
            .collect();
        let mut schema = json!({"$ref": "#/$defs/d0"});
        schema["$defs"] = Value::Object(defs);
        schema["$defs"][format!("d{length}")] = json!({"type": "integer"});
        schema
    };
    let reference = |at: usize| json!({"$ref": format!("#/$defs/d{at}")});
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let mut doubling = json!({"type": "array", "items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}});
    doubling["default"] = deep(40);
    let cases: Vec<(&str, Value, Value)> = vec![
        ("chain", chain(5000, &reference), json!("x")),
        ("long chain", chain(120, &reference), json!("x")),
        (
            "doubling",
            chain(40, &|at| json!({"allOf": [reference(at), reference(at)]})),
            json!("x"),
        ),
        (
            "doubling below",
            chain(
                40,
                &|at| json!({"items": {"anyOf": [reference(at), reference(at)]}}),
            ),
            deep(41),
        ),
        ("recursive doubling", doubling, deep(60)),
        (
            "deep schema",
            (0..300).fold(json!({}), |inner, _| json!({"not": inner})),
            json!(1),
        ),
        ("deep value", json!({"items": {"$ref": "#"}}), deep(100)),
        (
            "backtracking",
            json!({"pattern": "(a+)+$"}),
            json!(format!("{}b", "a".repeat(50_000))),
        ),
        (
            "look-ahead",
            json!({"pattern": "^(?=(a+)+$)(a|aa)+\\1$"}),
            json!(format!("{}b", "a".repeat(5_000))),
        ),
        (
            "patterns",
            json!({"patternProperties": (0..5000).map(|at| (format!("\\w{{400}}{at}"), json!({}))).collect::<Map<_, _>>()}),
            json!({}),
        ),
        (
            "some patterns",
            json!({"patternProperties": (0..100).map(|at| (format!("\\w{{30}}{at}"), json!({}))).collect::<Map<_, _>>()}),
            json!({}),
        ),
        (
            "wide",
            json!({"properties": (0..5000).map(|at| (format!("p{at}"), json!({"type": "integer", "default": 1}))).collect::<Map<_, _>>()}),
            json!({}),
        ),
        (
            "wide references",
            json!({"$defs": {"n": {"type": "integer"}}, "properties": (0..3000).map(|at| (format!("p{at}"), json!({"$ref": "#/$defs/n", "default": 1}))).collect::<Map<_, _>>()}),
            json!({}),
        ),
        (
            "big value",
            json!({"uniqueItems": true}),
            json!((0..90_000).collect::<Vec<_>>()),
        ),
        (
            "too big value",
            json!({}),
            json!((0..200_000).collect::<Vec<_>>()),
        ),
        (
            "big enum",
            json!({"enum": (0..40_000).collect::<Vec<_>>()}),
            json!("x"),
        ),
    ];
    let answers: Vec<(&str, Vec<&str>, bool)> = cases
        .iter()
        .map(|(name, schema, value)| {
            let codes = check_schema(schema)
                .iter()
                .map(|problem| problem.code.as_str())
                .collect();
            (*name, codes, validate(schema, value).is_ok())
        })
        .collect();
    // Name, schema problems, and whether the value matches.
    assert_eq!(
        answers,
        [
            ("chain", vec!["INVALID_SCHEMA"], false),
            ("long chain", vec![], false),
            ("doubling", vec!["INVALID_SCHEMA"], false),
            ("doubling below", vec!["INVALID_SCHEMA"], false),
            ("recursive doubling", vec!["INVALID_DEFAULT"], false),
            ("deep schema", vec!["INVALID_SCHEMA"], false),
            ("deep value", vec![], false),
            ("backtracking", vec![], false),
            ("look-ahead", vec![], false),
            ("patterns", vec!["INVALID_SCHEMA"], false),
            ("some patterns", vec![], true),
            ("wide", vec![], true),
            ("wide references", vec![], true),
            ("big value", vec![], true),
            ("too big value", vec![], false),
            ("big enum", vec![], false)
        ]
    );
    assert_eq!(
        validate(&json!({"pattern": "(a+)+$"}), &json!("aaa")),
        Ok(json!("aaa"))
    );
}

#[test]
fn text_becomes_the_declared_type() {
    let good = [
        ("3", "integer", json!(3)),
        (" -7 ", "int", json!(-7)),
        ("18446744073709551615", "integer", json!(u64::MAX)),
        ("1.5", "number", json!(1.5)),
        ("2", "number", json!(2)),
        ("1e3", "float", json!(1000.0)),
        ("true", "boolean", json!(true)),
        ("False", "bool", json!(false)),
        ("[1, \"a\"]", "array", json!([1, "a"])),
        ("{\"a\": 1}", "object", json!({"a": 1})),
        (" as it is ", "string", json!(" as it is ")),
        ("3", "string", json!("3")),
        ("3", "", json!("3")),
        ("null", "null", json!(null)),
    ];
    for (text, kind, value) in good {
        assert_eq!(convert(text, kind), Ok(value), "{text} {kind}");
    }
    for (text, kind) in [
        ("3.0", "integer"),
        ("", "integer"),
        ("x", "integer"),
        ("nan", "number"),
        ("inf", "number"),
        ("-inf", "number"),
        ("1e999", "number"),
        ("yes", "boolean"),
        ("1", "boolean"),
        ("a,b", "array"),
        ("{}", "array"),
        ("[]", "object"),
        ("x", "null"),
    ] {
        assert!(convert(text, kind).is_err(), "{text} {kind}");
    }
    assert_eq!(
        convert("many", "integer").unwrap_err().to_string(),
        "`many` is not an integer"
    );
    assert!(convert(&"[".repeat(100_000), "array").is_err());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z$]{1,4}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Schemas of known keywords with right and wrong values.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "integer"})),
        Just(json!({"type": "string", "default": "x"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/properties/a"})),
        Just(json!(true)),
        value(),
    ];
    leaf.prop_recursive(6, 32, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(
                |inner| json!({"type": "object", "properties": {"a": inner.clone(), "b": inner}})
            ),
            inner.clone().prop_map(|inner| json!({"items": inner})),
            inner.clone().prop_map(|inner| json!({"not": inner})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"anyOf": [a, b]})),
            (inner, value())
                .prop_map(|(inner, default)| json!({"allOf": [inner], "default": default})),
        ]
    })
}

/// Whether all given values are still there.
fn keeps(completed: &Value, given: &Value) -> bool {
    match (completed, given) {
        (Value::Object(completed), Value::Object(given)) => given.iter().all(|(key, given)| {
            completed
                .get(key)
                .is_some_and(|completed| keeps(completed, given))
        }),
        (Value::Array(completed), Value::Array(given)) => {
            completed.len() == given.len()
                && completed
                    .iter()
                    .zip(given)
                    .all(|(completed, given)| keeps(completed, given))
        }
        _ => completed == given,
    }
}

/// Typical schemas of tools, right and slightly wrong.
fn plain_schema() -> impl Strategy<Value = Value> {
    let pairs = prop::sample::select(vec![
        ("type", json!("string")),
        ("type", json!("integer")),
        ("type", json!("object")),
        ("type", json!("strin")),
        ("description", json!("d")),
        ("description", json!(1)),
        ("default", json!("a")),
        ("default", json!(1)),
        ("default", json!(1.0)),
        ("default", json!({})),
        ("enum", json!(["a", 1])),
        ("enum", json!([])),
        ("required", json!(["a"])),
        ("required", json!(["a", "a"])),
        ("minimum", json!(0)),
        ("minLength", json!(-1)),
        ("maxItems", json!(2)),
        ("additionalProperties", json!(false)),
        ("items", json!({"type": "string", "default": 3})),
    ]);
    let leaf = prop::collection::vec(pairs, 0..5).prop_map(|pairs| {
        Value::Object(
            pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    });
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::vec(("[ab]", inner), 0..3)
            .prop_map(|pairs| json!({"type": "object", "properties": pairs.into_iter().collect::<Map<_, _>>()}))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_short_cut_agrees_with_the_full_check(schema in plain_schema()) {
        prop_assert_eq!(check_schema(&schema), schema::check_fully(&schema), "{}", schema);
    }

    #[test]
    fn what_is_plainly_accepted_is_accepted_by_the_full_check(schema in plain_schema(), value in value()) {
        if schema::is_plainly_valid(&schema) && plain::accepts(&schema, &value, MAX_DEPTH) {
            let validator = schema::compile(&schema).unwrap();
            prop_assert!(validator.is_valid(&value), "{schema} {value}");
        }
    }

    #[test]
    fn any_schema_and_value_are_answered(schema in schema(), value in value()) {
        let problems = check_schema(&schema);
        let outcome = validate(&schema, &value);
        if problems.iter().any(|problem| problem.code != Code::InvalidDefault) {
            prop_assert!(outcome.is_err(), "{schema} is wrong but accepts {value}");
        }
        if let Ok(completed) = outcome {
            prop_assert!(keeps(&completed, &value), "{value} became {completed}");
        }
    }

    #[test]
    fn values_come_back_from_their_text(value in value()) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        prop_assert_eq!(convert(&text, kind), Ok(value.clone()));
        prop_assert_eq!(validate(&json!({"type": kind}), &value), Ok(value));
    }
}
