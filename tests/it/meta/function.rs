//! Limits of a meta tool's function: time, memory, exceptions, invalid results, endless calls.

use serde_json::{Value, json};

use super::{TEXT, meta, once, project, run};
use crate::crash::leftover::is_alive;
use crate::harness::{TestProject, cmd_snapshot};

/// The code and message of a function's failure.
fn code(function: &str) -> (Value, Value) {
    let project = meta("odd", "count", TEXT, function)(project()).committed();
    let result = run(&project, "odd", "auto");
    project.assert_clean();
    assert_gone(&project);
    (result["code"].clone(), result["message"].clone())
}

/// Checks that no started process is left.
fn assert_gone(project: &TestProject) {
    let runs = project.root().join(".git/piton/runs");
    for run in piton::journal::list(&runs).expect("runs") {
        let contents =
            piton::journal::read(&piton::journal::path_of(&runs, run)).expect("a journal");
        for record in contents.records {
            if let piton::journal::Event::ToolStarted { pid, .. } = record.event {
                assert!(!is_alive(&pid.to_string()), "{pid} is still there");
            }
        }
    }
}

#[test]
fn a_function_that_does_not_end_is_stopped_also_where_its_engine_cannot() {
    for function in [
        "while (true) {}",
        // The engine does not check for a timeout inside these built-in functions.
        "const text = 'a'.repeat(2e6); let found = 0; while (true) found += text.indexOf('b'); found",
        "new Array(2 ** 32 - 2).join('x')",
        "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })",
    ] {
        assert_eq!(code(function).0, "SCRIPT_TIMEOUT", "{function}");
    }
}

#[test]
fn a_function_that_eats_memory_is_stopped() {
    let bomb =
        "for (;;) { try { const all = []; for (;;) all.push(new Array(1000)); } catch (err) {} }";
    let code_of_bomb = code(bomb).0;
    assert!(
        ["SCRIPT_TIMEOUT", "SCRIPT_MEMORY"].contains(&code_of_bomb.as_str().unwrap_or_default()),
        "{code_of_bomb}"
    );
    assert_eq!(
        code("const all = []; for (;;) all.push('x'.repeat(1000) + all.length)").0,
        "SCRIPT_MEMORY"
    );
}

#[test]
fn a_function_that_throws_says_where() {
    let project = meta(
        "odd",
        "count",
        TEXT,
        "function go(args) {\n  return args.text.no.such;\n}\nmodule.exports = { go };",
    )(project());
    let project = project.committed();
    cmd_snapshot!(project.piton(["tool", "run", "odd"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: count, odd (`piton sign count odd`)
    no changes
    error: the function `go` threw at .ai/tools/odd.yaml:17: TypeError: cannot read property 'such' of undefined [SCRIPT_THREW]
    ");
}

#[test]
fn an_invalid_return_value_is_reported() {
    let told = |function: &str| {
        let (code, message) = code(function);
        assert_eq!(code, "SCRIPT_RETURN", "{function}");
        message.as_str().expect("a message").to_owned()
    };
    insta::assert_snapshot!(told("1"), @"the helper `go` returned a value that is not an object");
    insta::assert_snapshot!(told("function go() {}"), @"the function `go` returned nothing");
    insta::assert_snapshot!(told("({})"), @"the helper `go` returned an object without `calls` and without a `result`");
    insta::assert_snapshot!(told("module.exports = async () => ({ result: 1 })"), @"the function `go` returned a promise; async functions are not supported");
    insta::assert_snapshot!(told("({ calls: [{ tool: 'count', arguments: {} }] })"), @"the helper `go` returned `calls[0]` with a field `arguments`: known are `tool`, `command` and `args`");
    insta::assert_snapshot!(told("({ calls: [] })"), @"the helper `go` returned an empty list of `calls`");
}

#[test]
fn only_what_is_listed_is_called() {
    let project = project();
    let project = once("other", "count", "[{ tool: 'keep', args: { number: 1 } }]")(project);
    let project = once("unknown", "count", "[{ tool: 'counts' }]")(project);
    let project = once("itself", "count", "[{ tool: 'itself' }]")(project);
    let project = once("none", "", "[{ tool: 'bash_runtime' }]")(project).committed();
    for id in ["other", "unknown", "itself", "none"] {
        assert_eq!(run(&project, id, "auto")["code"], "NOT_AGGREGATED", "{id}");
    }
    cmd_snapshot!(project.piton(["tool", "run", "unknown"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: count, unknown (`piton sign count unknown`)
    no changes
    error: tool `unknown` asks for `counts`, which is not among its `aggregates` [NOT_AGGREGATED]
    hint: did you mean `count`?
    ");
    assert!(!project.root().join("number.txt").exists());
}

#[test]
fn endless_calls_are_stopped() {
    let project = project().tool("fine", "", "true");
    let project = meta("rounds", "fine", "", "({ calls: [{ tool: 'fine' }] })")(project);
    let project = once(
        "list",
        "fine",
        "Array.from({ length: 1001 }, () => ({ tool: 'fine' }))",
    )(project)
    .committed();
    let result = run(&project, "rounds", "disabled");
    assert_eq!(
        (&result["code"], result["calls"].as_array().map(Vec::len)),
        (&json!("CALL_LIMIT"), Some(100))
    );
    cmd_snapshot!(project.piton(["tool", "run", "list"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: fine, list (`piton sign fine list`)
    no changes
    error: tool `list` asks for more than 1000 calls [CALL_LIMIT]
    hint: let one call do more
    ");
}

#[test]
fn the_time_of_a_meta_tool_covers_all_of_its_calls() {
    let project = project().tool("slow", "", "echo half > half.txt; sleep 600");
    let function = "({ calls: [{ tool: 'count', args: { text: 'a' } }, { tool: 'slow' }] })";
    let project = meta("short", "count, slow", "timeout: 2\n", function)(project).committed();
    let ran = project.piton([
        "tool",
        "run",
        "short",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    let result = ran.last_json();
    assert_eq!(
        (&result["code"], &result["checkpoint"]["status"]),
        (&json!("TIMED_OUT"), &json!("rolled_back")),
        "{ran}"
    );
    assert_eq!(
        result["message"],
        "tool `short` took longer than 2 s and was stopped"
    );
    project.assert_clean();
    assert_gone(&project);
}

#[test]
fn a_result_is_held_against_what_the_manifest_promises() {
    let schema = "outputs:\n  type: object\n  required: [total]\n  properties:\n    total: {type: integer}\n";
    let project = meta("wrong", "", schema, "({ result: { total: 'many' } })")(project());
    let project = meta("right", "", schema, "({ result: { total: 3 } })")(project).committed();
    assert_eq!(run(&project, "wrong", "auto")["code"], "OUTPUT_CONTRACT");
    assert_eq!(
        run(&project, "right", "auto")["result"],
        json!({"total": 3})
    );
}
