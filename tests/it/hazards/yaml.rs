//! Hazards 1 to 19: YAML.

use std::fmt::Write as _;

use super::{manifest, told, tool, validated};
use crate::harness::TestProject;

#[test]
fn g01_alias_bomb() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, before) in ('b'..='j').zip('a'..) {
        let nine = vec![format!("*{before}"); 9].join(", ");
        writeln!(bomb, "{name}: &{name} [{nine}]").expect("a string takes everything");
    }
    validated!(manifest(tool(&bomb)), @"
    exit 2
    warning UNKNOWN_FIELD .ai/tools/t.yaml:8:1 tools have no field `a`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:9:1 tools have no field `b`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:10:1 tools have no field `c`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:11:1 tools have no field `d`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:12:1 tools have no field `e`
    error REPETITION_LIMIT .ai/tools/t.yaml:12:12 aliases repeat more than 20000 values
    warning UNKNOWN_FIELD .ai/tools/t.yaml:13:1 tools have no field `f`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:14:1 tools have no field `g`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:15:1 tools have no field `h`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:16:1 tools have no field `i`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:17:1 tools have no field `j`
    ");
}

#[test]
fn g01_an_alias_that_holds_itself() {
    validated!(manifest(tool("x: &a [*a, *a]\n")), @"
    exit 2
    warning UNKNOWN_FIELD .ai/tools/t.yaml:8:1 tools have no field `x`
    error REPETITION_LIMIT .ai/tools/t.yaml:8:8 an alias repeats the content it stands in
    error REPETITION_LIMIT .ai/tools/t.yaml:8:12 an alias repeats the content it stands in
    ");
}

#[test]
fn g02_two_hundred_thousand_brackets() {
    validated!(manifest("[".repeat(200_000)), @"
    exit 2
    error NESTING_LIMIT .ai/tools/t.yaml:1:256 nested more than 64 levels deep
    ");
}

#[test]
fn g02_deep_flow_mappings() {
    validated!(manifest(tool(&format!("x: {}", "{a: ".repeat(50_000)))), @"
    exit 2
    error NESTING_LIMIT .ai/tools/t.yaml:8:256 nested more than 64 levels deep
    ");
}

#[test]
fn g02_deep_block_sequences() {
    validated!(manifest("- ".repeat(120_000)), @"
    exit 2
    error NESTING_LIMIT .ai/tools/t.yaml:1:129 nested more than 64 levels deep
    ");
}

#[test]
fn g02_deep_block_mappings() {
    let deep: String = (0..600).map(|depth| " ".repeat(depth) + "a:\n").collect();
    validated!(manifest(deep), @"
    exit 2
    error NESTING_LIMIT .ai/tools/t.yaml:65:65 nested more than 64 levels deep
    ");
}

#[test]
fn g02_deep_complex_keys() {
    validated!(manifest("? ".repeat(120_000)), @"
    exit 2
    error NESTING_LIMIT .ai/tools/t.yaml:1:129 nested more than 64 levels deep
    ");
}

#[test]
fn g02_brackets_in_front_matter_settings_and_rules() {
    let brackets = "[".repeat(200_000);
    let project = TestProject::new()
        .file(
            ".ai/knowledge/k.md",
            format!("---\nid: k\nx: {brackets}\n---\n"),
        )
        .file(".ai/config.yaml", format!("ui: {brackets}\n"))
        .file(
            ".ai/extractors/rules.yaml",
            format!("extensions: {brackets}\n"),
        );
    validated!(project, @"
    exit 2
    error NESTING_LIMIT .ai/config.yaml:1:260 nested more than 64 levels deep
    error NESTING_LIMIT .ai/extractors/rules.yaml:1:268 nested more than 64 levels deep
    error NESTING_LIMIT .ai/knowledge/k.md:3:259 nested more than 64 levels deep
    ");
}

#[test]
fn g03_duplicate_keys() {
    validated!(manifest(tool("mutates_state: true\nmutates_state: false\n")), @"
    exit 2
    error DUPLICATE_KEY .ai/tools/t.yaml:9:1 key `mutates_state` is given twice, first at line 8, column 1
    ");
    let json = r#"{"tool_id": "j", "tool_type": "cli", "version": "1.0.0", "description": "J", "executor": "subprocess", "config": {"command": "a", "command": "b"}}"#;
    validated!(TestProject::new().file(".ai/tools/j.json", json), @"
    exit 2
    error DUPLICATE_KEY .ai/tools/j.json:1:131 key `command` is given twice, first at line 1, column 115
    ");
}

#[test]
fn g04_unknown_key() {
    validated!(manifest(tool("mutate_state: true\n")), @"
    exit 0
    warning UNKNOWN_FIELD .ai/tools/t.yaml:8:1 tools have no field `mutate_state`
    ");
    told!(manifest(tool("mutate_state: true\n")), ["validate", "--strict", "--format", "json"], @"
    exit 2
    error UNKNOWN_FIELD .ai/tools/t.yaml:8:1 tools have no field `mutate_state`
    ");
}

#[test]
fn g05_version_as_number() {
    validated!(manifest(tool("").replace("\"1.0.0\"", "1.10")), @"
    exit 2
    error INVALID_SEMVER .ai/tools/t.yaml:3:10 version `1.10` is a number; a version is a string
    ");
}

#[test]
fn g06_yes_is_no_boolean() {
    validated!(manifest(tool("mutates_state: yes\n")), @"
    exit 2
    error INVALID_TYPE .ai/tools/t.yaml:8:16 mutates_state must be true or false, not a string
    ");
}

#[test]
fn g07_number_out_of_range() {
    validated!(manifest(tool(&format!("  timeout: 1{}", "0".repeat(44)))), @"
    exit 2
    error INVALID_NUMBER .ai/tools/t.yaml:8:12 `100000000000000000000000000000000000000000000` is not a number that can be used
    error INVALID_TYPE .ai/tools/t.yaml:8:12 timeout must be a positive number of seconds
    ");
}

#[test]
fn g08_not_a_number() {
    validated!(manifest(tool("  timeout: .nan\n  retries: .inf")), @"
    exit 2
    error INVALID_NUMBER .ai/tools/t.yaml:8:12 `.nan` is not a number that can be used
    error INVALID_TYPE .ai/tools/t.yaml:8:12 timeout must be a positive number of seconds
    error INVALID_NUMBER .ai/tools/t.yaml:9:12 `.inf` is not a number that can be used
    ");
}

#[test]
fn g09_tags() {
    validated!(manifest(tool("x: !!python/object/apply:os.system ['id']\ny: !own z\n")), @"
    exit 2
    warning UNKNOWN_FIELD .ai/tools/t.yaml:8:1 tools have no field `x`
    error YAML_TAG .ai/tools/t.yaml:8:4 the tag `!!python/object/apply:os.system` is not accepted
    warning UNKNOWN_FIELD .ai/tools/t.yaml:9:1 tools have no field `y`
    error YAML_TAG .ai/tools/t.yaml:9:4 the tag `!own` is not accepted
    ");
}

#[test]
fn g10_two_documents() {
    validated!(manifest(format!("{}---\n{}", tool(""), tool(""))), @"
    exit 2
    error YAML_MANY_DOCUMENTS .ai/tools/t.yaml:10:1 a second document begins here
    ");
}

#[test]
fn g11_not_utf8() {
    let mut bytes = tool("tags: [").into_bytes();
    bytes.extend([0xff, 0xfe]);
    validated!(manifest(bytes), @"
    exit 2
    error NOT_UTF8 .ai/tools/t.yaml:9:1 not valid UTF-8 at byte 116
    ");
}

#[test]
fn g12_byte_order_mark() {
    validated!(manifest(format!("\u{feff}{}", tool(""))), @"exit 0");
}

#[test]
fn g13_nul_in_id() {
    validated!(manifest(tool("").replace("tool_id: t", "tool_id: \"t\\0x\"")), @"
    exit 2
    error INVALID_ID .ai/tools/t.yaml:1:10 an id may hold letters, digits, `_`, `-`, `.` and `/`, not U+0000
    ");
    validated!(manifest(tool("").replace("tool_id: t", "tool_id: t\0x")), @"
    exit 2
    error YAML_SYNTAX .ai/tools/t.yaml:1:11 the control character U+0000 may not stand in YAML
    ");
}

#[test]
fn g14_merge_key() {
    validated!(manifest(tool("base: &base {a: 1}\nx:\n  <<: *base\n")), @"
    exit 2
    warning UNKNOWN_FIELD .ai/tools/t.yaml:8:1 tools have no field `base`
    warning UNKNOWN_FIELD .ai/tools/t.yaml:9:1 tools have no field `x`
    error YAML_MERGE_KEY .ai/tools/t.yaml:10:3 merge keys are not accepted
    ");
}

#[test]
fn g15_nothing_in_it() {
    validated!(manifest(""), @"
    exit 2
    error EMPTY_FILE .ai/tools/t.yaml:1:1 there is no content
    ");
    validated!(manifest("# only\n# comments\n"), @"
    exit 2
    error EMPTY_FILE .ai/tools/t.yaml:1:1 there is no content
    ");
    validated!(manifest("---\n"), @"
    exit 2
    error EMPTY_FILE .ai/tools/t.yaml:1:1 there is no content
    ");
}

#[test]
fn g16_tabs() {
    validated!(manifest(tool("").replace("  command", "\tcommand")), @"
    exit 2
    error YAML_SYNTAX .ai/tools/t.yaml:7:2 tabs disallowed within this context (block indentation)
    ");
}

#[test]
fn g17_line_ends_of_windows() {
    validated!(manifest(tool("").replace('\n', "\r\n")), @"exit 0");
}

#[test]
fn g18_ten_megabytes_of_anything() {
    let large = "a: b\n".repeat(2_000_000);
    let project = TestProject::new()
        .file(".ai/tools/t.yaml", &large)
        .file(".ai/tools/t.json", &large)
        .file(".ai/tools/t.py", &large)
        .file(
            ".ai/tools/f/tool.yaml",
            tool("").replace("tool_id: t", "tool_id: f"),
        )
        .file(".ai/tools/f/requirements.txt", &large)
        .file(".ai/directives/d.md", &large)
        .file(".ai/knowledge/k.md", &large)
        .file(".ai/extractors/e.yaml", &large)
        .file(".ai/config.yaml", &large);
    validated!(project, @"
    exit 2
    error FILE_TOO_LARGE .ai/config.yaml:1:1 larger than 256 KiB
    error FILE_TOO_LARGE .ai/directives/d.md:1:1 larger than 1024 KiB
    error FILE_TOO_LARGE .ai/extractors/e.yaml:1:1 larger than 256 KiB
    error FILE_TOO_LARGE .ai/knowledge/k.md:1:1 larger than 1024 KiB
    error FILE_TOO_LARGE .ai/tools/f/requirements.txt:1:1 larger than 256 KiB
    error FILE_TOO_LARGE .ai/tools/t.json:1:1 larger than 256 KiB
    error FILE_TOO_LARGE .ai/tools/t.py:1:1 larger than 1024 KiB
    error FILE_TOO_LARGE .ai/tools/t.yaml:1:1 larger than 256 KiB
    ");
}

#[test]
fn g18_as_much_as_is_accepted() {
    let line = "  k: [a, {b: c}, 'd', \"e\", 1.5]\n";
    let many: String = (0..)
        .map(|at| line.replace('k', &format!("k{at}")))
        .take(7_000)
        .collect();
    validated!(manifest(tool(&format!("x:\n{many}"))), @"
    exit 0
    warning UNKNOWN_FIELD .ai/tools/t.yaml:8:1 tools have no field `x`
    ");
    validated!(manifest(tool(&"z".repeat(200_000))), @r"
    exit 2
    error YAML_SYNTAX .ai/tools/t.yaml:9:1 simple key expect \':\'
    ");
    validated!(manifest("a b c: d\n".repeat(25_000)), @"
    exit 2
    error DUPLICATE_KEY .ai/tools/t.yaml:2:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:3:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:4:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:5:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:6:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:7:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:8:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:9:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:10:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:11:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:12:1 key `a b c` is given twice, first at line 1, column 1
    error DUPLICATE_KEY .ai/tools/t.yaml:13:1 key `a b c` is given twice, first at line 1, column 1
    and 88 more
    ");
}
