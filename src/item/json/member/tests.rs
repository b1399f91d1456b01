use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{MemberError, MemberReplacement, find, set};

fn fields() -> Map<String, Value> {
    let Value::Object(fields) = json!({ "command": "piton", "args": ["mcp", "--root", "/a b"] })
    else {
        panic!()
    };
    fields
}

fn added(text: &str) -> String {
    set(
        text,
        "servers",
        "piton",
        &fields(),
        MemberReplacement::Fields,
    )
    .expect("a text")
}

#[test]
fn a_file_without_text_becomes_one_with_the_member_only() {
    let expected = "{\n  \"servers\": {\n    \"piton\": {\n      \"command\": \"piton\",\n      \
                    \"args\": [\"mcp\", \"--root\", \"/a b\"]\n    }\n  }\n}\n";
    for empty in ["", "\n", "{}", "{ }\n"] {
        assert_eq!(added(empty).trim_start(), expected, "{empty:?}");
    }
}

#[test]
fn comments_commas_and_indents_of_others_stay() {
    let text = "// mine\n{\n\t\"servers\": { // those\n\t\t/* first */\n\t\t\"other\": {\"command\": \"x\"}, // last\n\t},\n\
                \t\"inputs\": [1, 2,], // kept\n}\n// the end\n";
    let new = added(text);
    for kept in [
        "// mine\n{",
        "{ // those\n",
        "/* first */",
        "\"other\": {\"command\": \"x\"},",
        "// last",
        "[1, 2,], // kept",
        "}\n// the end\n",
    ] {
        assert!(new.contains(kept), "{kept:?} is lost in\n{new}");
    }
    assert!(
        new.contains("\t\t\"piton\": {\n\t\t\t\"command\": \"piton\""),
        "{new}"
    );
    assert_eq!(
        find(&new, "servers", "piton"),
        Ok(Some(Value::Object(fields())))
    );
    assert_eq!(
        find(&new, "servers", "other"),
        Ok(Some(json!({ "command": "x" })))
    );
}

#[test]
fn lines_end_as_the_file_ends_them() {
    let new = added("{\r\n  \"a\": 1\r\n}\r\n");
    assert_eq!(
        new.matches('\n').count(),
        new.matches("\r\n").count(),
        "{new:?}"
    );
}

#[test]
fn setting_keeps_the_keys_of_others_and_replacing_does_not() {
    let text = r#"{"servers": {"piton": {"command": "old", "env": {"A": "b"}}}}"#;
    let kept = added(text);
    let expected =
        json!({ "command": "piton", "env": { "A": "b" }, "args": ["mcp", "--root", "/a b"] });
    assert_eq!(find(&kept, "servers", "piton"), Ok(Some(expected)));
    let whole = set(
        text,
        "servers",
        "piton",
        &fields(),
        MemberReplacement::Whole,
    )
    .expect("a text");
    assert_eq!(
        find(&whole, "servers", "piton"),
        Ok(Some(Value::Object(fields())))
    );
}

#[test]
fn what_is_no_settings_file_is_refused() {
    let refused = |text: &str| {
        set(
            text,
            "servers",
            "piton",
            &fields(),
            MemberReplacement::Whole,
        )
        .expect_err(text)
    };
    assert!(matches!(refused("{\"a\": }"), MemberError::Syntax(_)));
    assert!(matches!(refused("{} {}"), MemberError::Syntax(_)));
    assert!(matches!(refused("{'a': 1}"), MemberError::Syntax(_)));
    assert!(matches!(
        refused(&"[".repeat(100_000)),
        MemberError::Syntax(_)
    ));
    assert_eq!(
        refused("[]"),
        MemberError::NotAnObject("what the file holds".to_owned())
    );
    assert_eq!(
        refused("{\"servers\": []}"),
        MemberError::NotAnObject("`servers`".to_owned())
    );
    assert_eq!(
        refused("{\"servers\": {}, \"servers\": {}}"),
        MemberError::Twice("servers".to_owned())
    );
    let twice = "{\"servers\": {\"piton\": 1, \"\\u0070iton\": 2}}";
    assert_eq!(refused(twice), MemberError::Twice("piton".to_owned()));
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\/*]{0,4}", inner, 0..4)
                .prop_map(|it| it.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_but_the_member_changes(
        before in prop::collection::btree_map("[a-z\"/*]{1,6}", values(), 0..4),
        others in prop::collection::btree_map("[a-oq-z]{1,6}", values(), 0..4),
        pretty in any::<bool>(),
    ) {
        let mut root: Map<String, Value> = before.into_iter().collect();
        root.insert("servers".to_owned(), others.into_iter().collect());
        let root = Value::Object(root);
        let text = if pretty { format!("// one\n{root:#} // two") } else { root.to_string() };
        let new = added(&text);
        let plain = new.strip_prefix("// one\n").map_or(&*new, |rest| rest.strip_suffix(" // two\n").expect("kept"));
        let mut read: Value = serde_json::from_str(plain).expect("JSON");
        let member = read["servers"].as_object_mut().expect("an object").remove("piton");
        prop_assert_eq!(member, Some(Value::Object(fields())));
        prop_assert_eq!(read, root);
        // An existing entry is not written twice.
        prop_assert_eq!(added(&new), new);
    }
}
