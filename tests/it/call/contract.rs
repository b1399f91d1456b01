//! Results: stdout, parsers and declared schemas.

use serde_json::json;

use super::Bench;

#[test]
fn stdout_that_is_json_is_the_result_and_other_text_is_text() {
    assert_eq!(
        Bench::bash("echo '{\"a\": [1]}'").value(),
        json!({"a": [1]})
    );
    assert_eq!(
        Bench::bash("echo 'a: b'").value(),
        json!({"stdout": "a: b\n"})
    );
    assert_eq!(Bench::bash("true").value(), json!({"stdout": ""}));
    assert_eq!(
        Bench::bash("printf '\\xff'").value(),
        json!({"stdout": "\u{fffd}"})
    );
    assert_eq!(
        Bench::bash("echo '{\"status\": \"error\"}'").value(),
        json!({"status": "error"})
    );
}

#[test]
fn output_that_was_cut_is_never_read_as_json() {
    let mut bench = Bench::bash("printf '['; head -c 3000000 /dev/zero | tr '\\0' ' '; printf ']'");
    let value = bench.value();
    assert!(
        value["stdout"]
            .as_str()
            .is_some_and(|text| text.contains("bytes left out")),
        "{value:.200}"
    );
    let mut bench = Bench::bash("printf '['; head -c 3000000 /dev/zero | tr '\\0' ' '; printf ']'")
        .outputs(Some("json"), None, None);
    assert!(bench.complaint().starts_with("OUTPUT_CONTRACT: "));
}

#[test]
fn output_must_have_the_declared_format() {
    assert_eq!(
        Bench::bash("echo '{}'")
            .outputs(Some("text"), None, None)
            .value(),
        json!({"stdout": "{}\n"})
    );
    assert_eq!(
        Bench::bash("echo '{}'")
            .outputs(Some("json"), None, None)
            .value(),
        json!({})
    );
    let complaint = Bench::bash("echo oops")
        .outputs(Some("json"), None, None)
        .complaint();
    assert!(complaint.starts_with("OUTPUT_CONTRACT: "), "{complaint}");
    let complaint = Bench::python("def main():\n    return {}\n")
        .outputs(Some("text"), None, None)
        .complaint();
    assert!(
        complaint.ends_with("`outputs.format` is `text`, and it returned an object"),
        "{complaint}"
    );
}

#[test]
fn a_file_is_named_and_may_be_parsed() {
    let script = "mkdir -p out; printf 'a,b\\n1,2\\n' >out/t.csv; echo out/t.csv";
    assert_eq!(
        Bench::bash(script)
            .outputs(Some("file"), None, None)
            .value(),
        json!({"path": "out/t.csv"})
    );
    let rows = json!({"path": "out/t.csv", "content": {"rows": [{"a": "1", "b": "2"}]}});
    assert_eq!(
        Bench::bash(script)
            .outputs(Some("file"), Some("csv"), None)
            .value(),
        rows
    );
    let mut returned =
        Bench::python("def main():\n    return {'path': 'x', 'n': 1}\n").file("project/x", "");
    returned.invocation.outputs.format = Some("file".to_owned());
    assert_eq!(returned.value(), json!({"path": "x", "n": 1}));
    let complaint = Bench::bash("echo ../home")
        .outputs(Some("file"), None, None)
        .complaint();
    assert!(
        complaint.contains("is outside of the project"),
        "{complaint}"
    );
}

#[test]
fn custom_parsers_are_found_in_their_order() {
    let parser = |name: &str| {
        format!("def parse(content):\n    print('noise')\n    return {{'{name}': content}}\n")
    };
    let bench = || Bench::bash("printf 'raw ü'").outputs(None, Some("mine"), None);
    let user = || bench().file("home/.ai/parsers/mine.py", &parser("user"));
    let cwd = || user().file("cwd/.ai/parsers/mine.py", &parser("cwd"));
    assert_eq!(user().value(), json!({"user": "raw ü"}));
    assert_eq!(cwd().value(), json!({"cwd": "raw ü"}));
    assert_eq!(
        cwd()
            .file("project/.ai/parsers/mine.py", &parser("project"))
            .value(),
        json!({"project": "raw ü"})
    );
    let read = bench().call().expect("text");
    assert_eq!(read.value, json!({"content": "raw ü"}));
    assert_eq!(
        read.warnings,
        ["there is no parser `mine`; the output was taken as text"]
    );
}

#[test]
fn a_parser_that_fails_fails_the_call() {
    let parser = "def parse(content):\n    raise ValueError('no')\n";
    let mut bench = Bench::bash("echo x")
        .outputs(None, Some("mine"), None)
        .file("project/.ai/parsers/mine.py", parser);
    assert_eq!(
        bench.complaint(),
        "PARSER_FAILED: the parser `mine` cannot read the output: ValueError: no"
    );
    let mut bench = Bench::bash("echo x").outputs(None, Some("json"), None);
    assert!(
        bench
            .complaint()
            .starts_with("PARSER_FAILED: the parser `json` cannot read the output: ")
    );
}

#[test]
fn a_result_that_breaks_its_schemas_fails_with_every_problem() {
    let schema = "{\"type\": \"object\", \"required\": [\"b\"]}";
    let mut bench = Bench::bash("echo '{\"a\": 1, \"c\": 2}'")
        .outputs(None, None, Some("report"))
        .file("project/.ai/schemas/report.json", schema);
    bench.invocation.output_schema = Some(
        json!({"properties": {"a": {"type": "string"}, "c": {"type": "string"}, "d": {"default": 1}}}),
    );
    assert_eq!(
        bench.complaint(),
        "OUTPUT_CONTRACT: the result does not match the tool's declaration\n  \
         field `a` is not of type \"string\"\n  field `c` is not of type \"string\"\n  missing field `b`"
    );
    bench.invocation.output_schema = None;
    let mut good = Bench::bash("echo '{\"b\": 1}'").outputs(None, None, Some("report"));
    let read = good.call().expect("a result");
    assert_eq!(
        read.warnings,
        ["there is no schema `report` in `.ai/schemas/`; the result is unchecked"]
    );
}
