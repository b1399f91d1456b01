use super::*;

fn world() -> World {
    World::new(
        json!({"n": 2, "t": "b", "yes": true, "big": 9_007_199_254_740_993_i64, "bigger": 9_007_199_254_740_994_i64, "empty": ""}),
        json!({"a": {"count": 3, "files": ["x", "y"], "o": {"k": 1}}, "skipped": null}),
    )
}

#[test]
fn values_without_an_order_are_an_error_that_says_so() {
    let world = world();
    let hint = "(compare two numbers or two texts, or use `==`)";
    for (text, offset, message) in [
        ("{input:n} > '1'", 0, format!("INVALID_VALUE: a number and a text cannot be compared by order {hint}")),
        (
            "true and 1 < {step:a.files}",
            13,
            format!("INVALID_VALUE: a number and a list cannot be compared by order {hint}"),
        ),
        (
            "1 in {input:n}",
            5,
            "INVALID_VALUE: nothing can be `in` a number (use a list, an object or a text on the right of `in`)"
                .to_owned(),
        ),
        (
            "{input:n} in 'text'",
            0,
            "INVALID_VALUE: a number cannot be `in` a text (quote it, or compare with a list)".to_owned(),
        ),
        (
            "{input:m} > 1",
            0,
            "UNDEFINED_NAME: input `m` has no value (give it, or write `{input:m?}` or `{input:m:default}`)".to_owned(),
        ),
        (
            "step == 'a'",
            0,
            "INVALID_TEMPLATE: `step` is not a value (quote text: 'step'; for an input write {input:step})".to_owned(),
        ),
    ] {
        assert_eq!(error_of(world.holds(text)), (offset, message), "{text}");
    }
}

#[test]
fn expressions_hold_as_written() {
    let world = world();
    for text in [
        "{input:n} == 2",
        "{input:n} == 2.0",
        "{input:n} != '2'",
        "'{input:n}' == '2'",
        "{input:n} < 2.5 and 1 <= {input:n}",
        "{input:t} > 'a' and 'Z' < 'a' and 'a' < 'ä'",
        "{input:big} == 9007199254740993 and {input:big} != {input:bigger}",
        "'x' in {step:a.files}",
        "'z' not in {step:a.files}",
        "'k' in {step:a.o}",
        "'ell' in 'hello'",
        "{step:a.files} == ['x', 'y']",
        "{step:a.count} in [1, 3]",
        "{input:none?} == ''",
        "{step:skipped} == null",
        "not {step:skipped.count}",
        "{step:a.none} == null",
        "not ({step:skipped.count} > 0) and not ({step:skipped.count} <= 0)",
        "'x' not in {step:skipped.files}",
        "{step:a.o} and {input:yes} and {input:n} and {input:t}",
        "not {input:empty} and not 0 and not '' and not [] and not null and not false",
        "true or {input:undefined}",
        "(1 == 2) == false",
    ] {
        assert_eq!(world.holds(text), Ok(true), "{text}");
    }
}

#[test]
fn hooks_speak_of_the_run() {
    let mut world = world();
    world.variables = Some(object(json!({
        "step": "build", "phase": "error", "error": {"code": "EXIT_STATUS", "message": "it failed"},
        "cost": {"steps": 11, "seconds": 2.5},
    })));
    let holds = |text: &str| world.with(|scope| hook_holds(text, scope));
    for text in [
        "step == \"build\" and phase == 'error'",
        "error.code == 'EXIT_STATUS'",
        "error",
        "cost.steps > 10 and cost.seconds < 3",
        "limits.turns == null and {input:n} == 2",
    ] {
        assert_eq!(holds(text), Ok(true), "{text}");
    }
    for text in [
        "cost.current > 1",
        "cost.current > cost.limit * 0.9",
        "error.code.x",
        "event.name == 'x'",
        "",
    ] {
        assert_eq!(holds(text), Ok(false), "{text}");
    }
}
