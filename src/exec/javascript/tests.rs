//! These tests run functions in this process. Cases that need a killed worker are tested with the
//! real program.

use serde_json::json;

use super::*;

fn job(source: &str, given: Value) -> JavaScriptJob {
    JavaScriptJob {
        id: "combine-all".to_owned(),
        source: source.to_owned(),
        given: vec![("args".to_owned(), given)],
        limit_ms: 500,
        place: None,
    }
}

fn run(source: &str) -> Result<Value, String> {
    job(source, json!({"b": 1, "a": [true, null, "ä"]}))
        .run()
        .map_err(|it| format!("{}: {}", it.kind.code(), it.message))
}

fn refusal(source: &str) -> String {
    run(source).unwrap_err()
}

#[test]
fn both_conventions_are_called_with_what_is_given() {
    let given = json!({"b": 1, "a": [true, null, "ä"]});
    for source in [
        "module.exports = { anything: (args) => args };",
        "module.exports = (args) => args;",
        "exports.combine = function () { return args; };",
        "function combineAll(args) { return args }\nfunction other() { return 1 }\nmodule.exports = { other, combineAll };",
        "module.exports = { other: () => 1, 'combine-all': (args) => args, version: 3 };",
        "(function () { return args; })()",
        "var out = args; out",
        "with_sloppy = args; with_sloppy",
    ] {
        assert_eq!(run(source), Ok(given.clone()), "{source}");
    }
}

#[test]
fn names_keep_their_order() {
    let text = run("args.z = 1; args.c = {y: 1, x: 2}; args")
        .unwrap()
        .to_string();
    assert_eq!(
        text,
        r#"{"b":1,"a":[true,null,"ä"],"z":1,"c":{"y":1,"x":2}}"#
    );
}

#[test]
fn a_throw_tells_what_and_where() {
    let source = "function combine(args) {\n  return deep(args);\n}\nfunction deep() {\n  throw new TypeError('no\\nway');\n}\nmodule.exports = { combine };";
    insta::assert_snapshot!(refusal(source), @"SCRIPT_THREW: the function `combine-all` threw in line 5: TypeError: no…");
    insta::assert_snapshot!(refusal("1;\n2;\nmissing.field"), @"SCRIPT_THREW: the function `combine-all` threw in line 3: ReferenceError: missing is not defined");
    insta::assert_snapshot!(refusal("1;\nfunction ("), @"SCRIPT_THREW: the function `combine-all` threw in line 2: SyntaxError: function name expected");
    insta::assert_snapshot!(refusal("throw 'a text'"), @"SCRIPT_THREW: the function `combine-all` threw: a text");
    insta::assert_snapshot!(refusal("throw {a: 1}"), @"SCRIPT_THREW: the function `combine-all` threw: an object");
    insta::assert_snapshot!(refusal("throw null"), @"SCRIPT_THREW: the function `combine-all` threw: null");
    insta::assert_snapshot!(refusal("(function f() { f() })()"), @"SCRIPT_THREW: the function `combine-all` threw in line 1: RangeError: Maximum call stack size exceeded");
    let placed = JavaScriptJob {
        place: Some((".ai/tools/x.yaml".to_owned(), 12)),
        ..job("1;\n\nthrow new Error('x')", json!({}))
    };
    insta::assert_snapshot!(placed.run().unwrap_err().message, @"the function `combine-all` threw at .ai/tools/x.yaml:14: Error: x");
}

#[test]
fn what_is_no_data_is_no_result() {
    insta::assert_snapshot!(refusal("function combine() {}"), @"SCRIPT_RETURN: the function `combine-all` returned nothing");
    insta::assert_snapshot!(refusal("(function () {})"), @"SCRIPT_RETURN: the function `combine-all` returned a function");
    insta::assert_snapshot!(refusal("Promise.resolve({result: 1})"), @"SCRIPT_RETURN: the function `combine-all` returned a promise; async functions are not supported");
    insta::assert_snapshot!(refusal("module.exports = async () => ({result: 1})"), @"SCRIPT_RETURN: the function `combine-all` returned a promise; async functions are not supported");
    insta::assert_snapshot!(refusal("let a = {}; a.a = a; a"), @"SCRIPT_RETURN: the function `combine-all` returned what cannot be written as JSON: TypeError: circular reference");
    insta::assert_snapshot!(refusal("({a: 1n})"), @"SCRIPT_RETURN: the function `combine-all` returned what cannot be written as JSON: TypeError: BigInt are forbidden in JSON.stringify");
    insta::assert_snapshot!(refusal("Symbol('s')"), @"SCRIPT_RETURN: the function `combine-all` returned a symbol");
    insta::assert_snapshot!(refusal("'\\ud800'"), @"SCRIPT_RETURN: the function `combine-all` returned what cannot be read back: unexpected end of hex escape at line 1 column 8");
    insta::assert_snapshot!(refusal("let a = []; for (let i = 0; i < 1000; i++) a = [a]; a"), @"SCRIPT_RETURN: the function `combine-all` returned what cannot be read back: recursion limit exceeded at line 1 column 128");
    insta::assert_snapshot!(refusal("'x'.repeat(2.5e6)"), @"RESULT_TOO_LARGE: the function `combine-all` returned 2500002 bytes, which is too much");
    insta::assert_snapshot!(refusal("module.exports = { a() {}, b() {} }"), @"SCRIPT_RETURN: the function `combine-all` cannot be called: it exports 2 functions, and none of them is called `combineAll`");
    insta::assert_snapshot!(refusal("module.exports = { a: 1 }"), @"SCRIPT_RETURN: the function `combine-all` cannot be called: it exports no function");
    insta::assert_snapshot!(refusal("module.exports = 'fn'"), @"SCRIPT_RETURN: the function `combine-all` cannot be called: `module.exports` is a text");
}

#[test]
fn time_and_memory_are_bounded_even_if_errors_are_caught() {
    let code = |source: &str| refusal(source).split(':').next().unwrap().to_owned();
    assert_eq!(code("while (true) {}"), "SCRIPT_TIMEOUT");
    assert_eq!(
        code("for (;;) { try { for (;;) {} } catch (e) {} finally { continue } }"),
        "SCRIPT_TIMEOUT"
    );
    assert_eq!(
        code("/^(a+)+$/.test('a'.repeat(40) + 'b')"),
        "SCRIPT_TIMEOUT"
    );
    assert_eq!(
        code("throw new InternalError('interrupted')"),
        "SCRIPT_THREW"
    );
    assert_eq!(
        code("let a = []; for (;;) a.push(new Array(1000).fill(1))"),
        "SCRIPT_MEMORY"
    );
    assert_eq!(
        code("let s = 'x'; for (;;) s = (s + s).toUpperCase(); s"),
        "SCRIPT_MEMORY"
    );
    assert_eq!(code("new ArrayBuffer(64 * 1024 * 1024)"), "SCRIPT_MEMORY");
    let large = Value::from("x".repeat(9 * 1024 * 1024));
    assert_eq!(
        job("args.length", large).run().unwrap_err().kind,
        FailureKind::ScriptMemory
    );
}

#[test]
fn nothing_of_the_machine_is_there() {
    for name in [
        "require",
        "process",
        "fetch",
        "console",
        "setTimeout",
        "std",
        "os",
        "print",
        "scriptArgs",
        "Worker",
    ] {
        assert_eq!(
            run(&format!("typeof {name}")),
            Ok(json!("undefined")),
            "{name}"
        );
    }
    insta::assert_snapshot!(refusal("import('fs')"), @"SCRIPT_RETURN: the function `combine-all` returned a promise; async functions are not supported");
    insta::assert_snapshot!(refusal("import fs from 'fs'"), @"SCRIPT_THREW: the function `combine-all` threw in line 1: SyntaxError: Unexpected identifier 'fs'");
}

#[test]
fn names_become_those_of_functions() {
    for (id, name) in [
        ("combine", "combine"),
        ("combine-all", "combineAll"),
        ("a_b.c", "aBC"),
        ("aB", "aB"),
        ("--", ""),
    ] {
        assert_eq!(camel_case(id), name);
    }
}
