use super::*;

#[test]
fn an_undefined_name_is_an_error_that_points_at_the_placeholder() {
    let world = World::new(
        json!({"version": "1"}),
        json!({"collect": {"count": 2, "files": ["a"]}, "skipped": null}),
    );
    for (text, offset, message) in [
        (
            "v{input:verison}",
            1,
            "UNDEFINED_NAME: input `verison` has no value (did you mean `version`?)",
        ),
        (
            "{input:x}",
            0,
            "UNDEFINED_NAME: input `x` has no value (give it, or write `{input:x?}` or `{input:x:default}`)",
        ),
        (
            "ü {step:colect.count}",
            3,
            "UNDEFINED_NAME: step `colect` has no result (did you mean `collect`?)",
        ),
        (
            "{step:zzz}",
            0,
            "UNDEFINED_NAME: step `zzz` has no result (steps with a result are `collect`, `skipped`)",
        ),
        (
            "{step:collect.cuont}",
            0,
            "UNDEFINED_NAME: step:collect has no `cuont`: it is an object with `count`, `files` (did you mean `count`?)",
        ),
        (
            "{step:collect.files.1}",
            0,
            "UNDEFINED_NAME: step:collect.files has no `1`: it is a list of 1 (use an index from 0 to 0)",
        ),
        (
            "{step:collect.count.x}",
            0,
            "UNDEFINED_NAME: step:collect.count has no `x`: it is a number",
        ),
        (
            "{step:skipped.count}",
            0,
            "UNDEFINED_NAME: step `skipped` was skipped, so its result has no `count` (give this step the same `when` as `skipped`)",
        ),
        (
            "-{env:SECRET}",
            1,
            "PERMISSION_DENIED: the environment variable `SECRET` is not granted (add <env vars=\"SECRET\"/> to <permissions>)",
        ),
        (
            "{env:NONE}",
            0,
            "ENVIRONMENT_MISSING: the environment variable `NONE` is not set (set `NONE` and run again)",
        ),
        (
            "a {run:now}",
            2,
            "INVALID_TEMPLATE: `{run:now}` is not of the form `{run:id}`",
        ),
    ] {
        assert_eq!(
            error_of(world.fill(text)),
            (offset, message.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn one_placeholder_keeps_its_type_and_any_text_beside_makes_it_a_text() {
    let world = World::new(
        json!({"n": 1.5, "l": [1, "a"], "o": {"k": null}, "b": true, "z": null, "t": "x"}),
        json!({"done": {"list": [{"name": "one"}]}, "skipped": null}),
    );
    for (text, value) in [
        ("{input:n}", json!(1.5)),
        ("{input:l}", json!([1, "a"])),
        ("{input:z}", json!(null)),
        ("{step:skipped}", json!(null)),
        ("{step:done.list.0.name}", json!("one")),
        ("{input:o.k}", json!(null)),
        (" {input:n}", json!(" 1.5")),
        (
            "{input:l}{input:o}{input:b}{input:z}{input:t}",
            json!("[1,\"a\"]{\"k\":null}truex"),
        ),
        ("{run:id}", json!("01arz3ndek0000000000000001")),
        ("~{env:HOME}", json!("~/home/someone")),
        ("{input:none?}", json!("")),
        ("{input:none:a b:c}", json!("a b:c")),
        ("{input:t:other}", json!("x")),
        ("{input:z:other}", json!("other")),
        ("{literal} {}", json!("{literal} {}")),
    ] {
        assert_eq!(world.fill(text), Ok(value), "{text}");
    }
}

#[test]
fn the_element_of_a_loop_wins_over_an_input() {
    let mut world = World::new(json!({"file": "input"}), json!({}));
    world.element = Some(("file".to_owned(), json!({"path": "a.txt"})));
    assert_eq!(world.fill("{input:file.path}"), Ok(json!("a.txt")));
}

#[test]
fn a_loop_goes_through_a_list_or_a_literal_whose_texts_are_filled_in() {
    let world = World::new(json!({"l": [1, {"a": 2}], "q": "\"]", "n": 3}), json!({}));
    let elements = |text: &str| world.with(|scope| elements(text, scope));
    assert_eq!(elements(" {input:l} "), Ok(vec![json!(1), json!({"a": 2})]));
    assert_eq!(elements("[]"), Ok(vec![]));
    assert_eq!(
        elements("[\"{input:q}\", \"x{input:n}\", [\"{input:n}\"], {\"k\": \"{input:q}\"}]"),
        Ok(vec![
            json!("\"]"),
            json!("x3"),
            json!([3]),
            json!({"k": "\"]"})
        ])
    );
    let hint = "(write e.g. foreach=\"{step:collect.files}\")";
    assert_eq!(
        error_of(elements(" {input:n}")),
        (
            1,
            format!("INVALID_VALUE: the value of `foreach` is a number, not a list {hint}")
        )
    );
    assert_eq!(
        error_of(elements("a, b")),
        (
            0,
            format!("INVALID_VALUE: `a, b` is neither one placeholder nor a JSON list {hint}")
        )
    );
    assert_eq!(error_of(elements(" [\"a\", \"b{input:nn}\"]")).0, 9);
}

#[test]
fn outputs_are_assigned_where_there_is_a_template_and_otherwise_only_declared() {
    let directive = read(
        "<outputs><success>\npath: string\nnotes: {step:collect.path}\nlabel: v{input:v}\nbraces: {other}\n</success></outputs>",
    );
    let world = World::new(json!({"v": 2}), json!({"collect": {"path": ["a"]}}));
    let made = world.with(|scope| outputs(&directive.outputs.success, scope));
    assert_eq!(made, Ok(object(json!({"notes": ["a"], "label": "v2"}))));
    let poor = World::new(json!({"v": 2}), json!({"collect": {}}));
    let error = poor
        .with(|scope| outputs(&directive.outputs.success, scope))
        .unwrap_err();
    assert_eq!(
        (error.to_string(), error.place.line),
        ("could not evaluate output `notes`".to_owned(), 5)
    );
    assert_eq!(
        error.error.to_string(),
        "step:collect has no `path`: it is an empty object"
    );
}
