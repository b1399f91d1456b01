//! Hazards 39 to 46: JSON Schema and parameters.

use std::fmt::Write as _;

use super::{directive, fenced, manifest, process, tool, validated};
use crate::harness::TestProject;

fn schema(text: &str) -> TestProject {
    manifest(tool(&format!(
        "inputs:\n  type: object\n  properties:\n    p: {text}\n"
    )))
}

#[test]
fn g39_remote_reference() {
    validated!(schema("{$ref: 'http://127.0.0.1:9/x.json'}"), @"
    exit 2
    error REMOTE_REFERENCE .ai/tools/t.yaml:11:15 `http://127.0.0.1:9/x.json` is outside the schema
    ");
    validated!(schema("{$ref: 'file:///etc/passwd'}"), @"
    exit 2
    error REMOTE_REFERENCE .ai/tools/t.yaml:11:15 `file:///etc/passwd` is outside the schema
    ");
    validated!(schema("{$ref: '../../../etc/passwd'}"), @"
    exit 2
    error REMOTE_REFERENCE .ai/tools/t.yaml:11:15 `../../../etc/passwd` is outside the schema
    ");
}

#[test]
fn g40_reference_to_itself() {
    validated!(schema("{$ref: '#/properties/p', default: 1}"), @"
    exit 2
    error INVALID_SCHEMA .ai/tools/t.yaml:9:3 the schema refers to itself without going down into the value
    ");
    validated!(schema("{$ref: '#', default: {p: {p: {}}}}"), @"exit 0");
}

#[test]
fn g41_explosive_pattern() {
    validated!(schema(&format!("{{type: string, pattern: '(a+)+$', default: '{}!'}}", "a".repeat(40))), @r#"
    exit 2
    error INVALID_DEFAULT .ai/tools/t.yaml:11:51 the default does not fit its own schema: \"[HASH]!\" does not match \"(a+)+$\"
    "#);
    validated!(schema(&format!("{{type: string, pattern: '^(?=(a+))\\1+$', default: '{}!'}}", "a".repeat(5_000))), @r#"
    exit 2
    error INVALID_DEFAULT .ai/tools/t.yaml:11:58 the default does not fit its own schema: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    "#);
    validated!(schema("{type: string, pattern: '((((a{1,100}){1,100}){1,100}){1,100}){1,100}', default: aaaa}"), @r#"
    exit 2
    error INVALID_SCHEMA .ai/tools/t.yaml:11:32 \"((((a{1,100}){1,100}){1,100}){1,100}){1,100}\" is not a \"regex\"
    "#);
    validated!(schema("{type: string, pattern: '('}"), @r#"
    exit 2
    error INVALID_SCHEMA .ai/tools/t.yaml:11:32 \"(\" is not a \"regex\"
    "#);
}

#[test]
fn g42_unknown_type() {
    validated!(schema("{type: strnig}"), @"
    exit 2
    error INVALID_SCHEMA .ai/tools/t.yaml:11:15 `strnig` is not a type
    ");
}

#[test]
fn g43_parameters_that_do_not_fit() {
    let text = "inputs:\n  type: object\n  required: [count]\n  additionalProperties: false\n  properties:\n    count: {type: integer}\n";
    let call = "<execute item_type=\"tool\" item_id=\"t\"><param name=\"cuont\" value=\"many\"/></execute>";
    let wrong = "<execute item_type=\"tool\" item_id=\"t\"><param name=\"count\" value=\"many\"/></execute>";
    let grant = "<permissions><execute resource=\"tool\" id=\"t\"/></permissions>";
    validated!(manifest(tool(text)).file(".ai/directives/d.md", fenced(grant, &process(call))), @"
    exit 2
    error INVALID_PARAMETER .ai/directives/d.md:13:1 missing parameter `count`
    error INVALID_PARAMETER .ai/directives/d.md:14:66 unknown parameter `cuont`
    ");
    validated!(manifest(tool(text)).file(".ai/directives/d.md", fenced(grant, &process(wrong))), @"
    exit 2
    error INVALID_PARAMETER .ai/directives/d.md:14:66 parameter `count`: `many` is not an integer
    ");
}

#[test]
fn g44_default_that_does_not_fit() {
    validated!(schema("{type: integer, default: many}"), @r#"
    exit 2
    error INVALID_DEFAULT .ai/tools/t.yaml:11:33 the default does not fit its own schema: \"many\" is not of type \"integer\"
    "#);
}

#[test]
fn g45_huge_parameter() {
    let call = format!(
        "<execute item_type=\"tool\" item_id=\"t\"><param name=\"p\" value=\"{}\"/></execute>",
        "x".repeat(900_000)
    );
    let grant = "<permissions><execute resource=\"tool\" id=\"t\"/></permissions>";
    let known = tool("inputs: {type: object, properties: {p: {type: string, maxLength: 5}}}");
    validated!(manifest(known).file(".ai/directives/d.md", fenced(grant, &process(&call))), @"
    exit 2
    error INVALID_PARAMETER .ai/directives/d.md:14:62 parameter `p` is longer than 5 characters
    ");
    validated!(directive("x".repeat(100_000_000)), @"
    exit 2
    error FILE_TOO_LARGE .ai/directives/d.md:1:1 larger than 1024 KiB
    ");
}

#[test]
fn g46_hundred_thousand_levels_of_json() {
    validated!(TestProject::new().file(".ai/tools/j.json", "[".repeat(100_000)), @"
    exit 2
    error NESTING_LIMIT .ai/tools/j.json:1:65 nested more than 64 levels deep
    ");
    let objects = format!("{{\"tool_id\": \"j\", \"x\": {}", "{\"a\":".repeat(40_000));
    validated!(TestProject::new().file(".ai/tools/j.json", objects), @"
    exit 2
    error NESTING_LIMIT .ai/tools/j.json:1:338 nested more than 64 levels deep
    ");
    let input = format!(
        "<inputs><input name=\"i\" type=\"object\" default='{}'>I</input></inputs>",
        "[".repeat(100_000)
    );
    validated!(directive(fenced("", &format!("{input}\n{}", process("<action>x</action>")))), @"
    exit 2
    error INVALID_DEFAULT .ai/directives/d.md:12:48 the default `[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[…` is not of type object
    ");
}

#[test]
fn g46_schemas_that_grow() {
    let deep = format!(
        "{}{{type: string}}{}",
        "{allOf: [".repeat(30),
        "]}".repeat(30)
    );
    validated!(schema(&deep), @"exit 0");
    let mut wide = "{$ref: '#/$defs/a0'}\n  $defs:\n".to_owned();
    for at in 0..40 {
        let next = format!("{{$ref: '#/$defs/a{}'}}", at + 1);
        writeln!(wide, "    a{at}: {{allOf: [{next}, {next}]}}")
            .expect("a string takes everything");
    }
    validated!(schema(&format!("{wide}    a40: {{type: string}}")), @"
    exit 2
    error INVALID_SCHEMA .ai/tools/t.yaml:9:3 the schema multiplies its subschemas by references
    ");
}
