use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::item::finding::{Finding, Strength};
use crate::item::source::SourceFile;
use crate::item::tool::{Root, ToolLocation, ToolReading, read};

/// The findings of these rules only, without those of reading.
fn findings(text: &str, strength: Strength) -> Vec<Finding> {
    let around = ToolLocation {
        folder: None,
        root: Root::Tools,
        in_lib: false,
        extractors: &[],
    };
    let mut reading = Findings::new(Path::new("tool.yaml"), strength);
    let source = SourceFile::decode(
        Path::new("tool.yaml"),
        text.as_bytes().to_vec(),
        &mut reading,
    )
    .unwrap();
    let ToolReading::Tool(tool) = read(&source, &around, &mut reading) else {
        panic!("no tool: {reading:#?}")
    };
    let mut findings = Findings::new(Path::new("tool.yaml"), strength);
    check(&tool, &mut findings);
    findings.into_vec()
}

fn lines(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| {
        let severity = if finding.severity == Severity::Error {
            "error"
        } else {
            "warning"
        };
        let Finding {
            line,
            column,
            code,
            path,
            message,
            ..
        } = finding;
        format!("{line}:{column} {severity} {code} {path}: {message}")
    };
    findings.iter().map(line).collect()
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures/tools/tool_root")
            .join(name),
    )
    .unwrap()
}

fn check_fixture(name: &str, strength: Strength) -> Vec<String> {
    lines(&findings(&fixture(name), strength))
}

/// A version 2.0 tool with more sections, which begin on line 8.
fn with(sections: &str) -> String {
    format!(
        "tool:\n  schema_version: \"2.0\"\n  id: t\n  type: cli\n  name: T\n  version: 1.0.0\n  description: d\n{sections}"
    )
}

#[test]
fn what_follows_the_specification_is_clean_in_strict() {
    assert_eq!(check_fixture("spec_style.yaml", Strength::Strict), [""; 0]);
    assert_eq!(check_fixture("ffmpeg.yaml", Strength::Strict), [""; 0]);
}

#[test]
fn what_files_in_the_wild_do_is_a_warning() {
    assert_eq!(
        check_fixture("clickup.yaml", Strength::Lenient),
        [
            "2:19 warning UNQUOTED_VERSION tool.schema_version: schema_version `2.0` is a number; a version is a string",
            "47:13 warning UNKNOWN_FIELD tool.executable_knowledge.validators[0].checks[1].assignees_format: `assignees_format` is not a field of tool.executable_knowledge.validators[0].checks[1]",
            "105:5 warning UNKNOWN_FIELD tool.api_complexity.rate_limits: `rate_limits` is not a field of tool.api_complexity",
            "88:20 warning UNCHECKABLE_DETECTION tool.api_complexity.payload_schemas[2].detection: `looks like a task somehow` cannot be evaluated",
            "97:7 warning MISSING_REQUIRED_FIELD tool.api_complexity.field_mappings.assignees: structure or extraction is required",
            "119:17 warning UNKNOWN_ENUM_VALUE tool.anti_patterns[1].category: category must be one of api_usage, validation, error_handling, performance, security, not `parameter_format`",
            "124:5 warning MISSING_SCENARIO tool.examples.create_task: the examples of `create_task` have no failure_api_error scenario",
            "136:9 warning MISSING_REQUIRED_FIELD tool.examples.story_creation_workflow[0].scenario: scenario is required",
            "136:9 warning MISSING_REQUIRED_FIELD tool.examples.story_creation_workflow[0].input: input is required",
            "135:5 warning MISSING_SCENARIO tool.examples.story_creation_workflow: the examples of `story_creation_workflow` have no success scenario",
            "135:5 warning MISSING_SCENARIO tool.examples.story_creation_workflow: the examples of `story_creation_workflow` have no failure_* scenario",
            "135:5 warning MISSING_SCENARIO tool.examples.story_creation_workflow: the examples of `story_creation_workflow` have no failure_api_error scenario",
            "135:5 warning MISSING_SCENARIO tool.examples.story_creation_workflow: the examples of `story_creation_workflow` have no edge_case_* scenario",
        ]
    );
    assert_eq!(
        check_fixture("github_cli.yaml", Strength::Lenient),
        [
            "2:19 warning UNQUOTED_VERSION tool.schema_version: schema_version `1.0` is a number; a version is a string",
            "8:23 warning UNKNOWN_ENUM_VALUE tool.knowledge_strategy: knowledge_strategy must be one of embedded, external, hybrid, executable, none, not `declarative`",
        ]
    );
}

#[test]
fn strict_makes_errors_of_what_the_specification_demands() {
    let errors = |name: &str| {
        let found = findings(&fixture(name), Strength::Strict);
        let errors = found
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error);
        errors
            .map(|finding| (finding.line, finding.code))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        errors("clickup.yaml"),
        [
            (2, Code::UnquotedVersion),
            (47, Code::UnknownField),
            (105, Code::UnknownField),
            (97, Code::MissingRequiredField),
            (119, Code::UnknownEnumValue),
            (136, Code::MissingRequiredField),
            (136, Code::MissingRequiredField),
            (135, Code::MissingScenario),
            (135, Code::MissingScenario),
        ]
    );
    assert_eq!(
        errors("github_cli.yaml"),
        [(2, Code::UnquotedVersion), (8, Code::UnknownEnumValue)]
    );
}

#[test]
fn everything_that_is_wrong_is_found_in_one_pass() {
    assert_eq!(
        check_fixture("broken.yaml", Strength::Lenient),
        [
            "2:19 error INVALID_ENUM_VALUE tool.schema_version: schema_version must be \"1.0\" or \"2.0\", not `2`",
            "9:14 warning NAMING_CONVENTION tool.commands[0]: command `createTask` is neither snake_case nor kebab-case",
            "8:23 warning UNKNOWN_ENUM_VALUE tool.knowledge_strategy: knowledge_strategy must be one of embedded, external, hybrid, executable, none, not `hybird`",
            "12:20 error UNKNOWN_REFERENCE tool.meta_specific.orchestration: helper `orchestrat` does not exist",
            "11:27 error INVALID_ID tool.meta_specific.aggregates[1]: `../escape` is not an id: each part must begin with a letter or digit",
            "11:40 error INVALID_TYPE tool.meta_specific.aggregates[2]: aggregates[2] must be the id of a tool, not an integer",
            "37:5 warning UNKNOWN_FIELD tool.executable_knowledge.helper: `helper` is not a field of tool.executable_knowledge",
            "27:9 error INVALID_TYPE tool.executable_knowledge.helpers[2]: helpers[2] must be a mapping, not a string",
            "16:19 error INVALID_ENUM_VALUE tool.executable_knowledge.helpers[0].language: language must be `javascript`, not `typescript`",
            "17:18 error INVALID_ENUM_VALUE tool.executable_knowledge.helpers[0].runtime: runtime must be `isolated_vm`, not `node`",
            "22:34 error INVALID_FUNCTION_SYNTAX tool.executable_knowledge.helpers[0].function: syntax error: Unexpected token ';'",
            "19:22 error FORBIDDEN_CALL tool.executable_knowledge.helpers[0].function: `require` is not available: functions must be self-contained",
            "22:20 error FORBIDDEN_CALL tool.executable_knowledge.helpers[0].function: `fetch` is not available: functions must be self-contained",
            "24:9 error MISSING_REQUIRED_FIELD tool.executable_knowledge.helpers[1].runtime: runtime is required",
            "24:13 error DUPLICATE_NAME tool.executable_knowledge.helpers[1].id: id `orchestrate` is given twice, first at line 15",
            "26:19 error INVALID_FUNCTION_SYNTAX tool.executable_knowledge.helpers[1].function: syntax error: return not in a function",
            "28:17 error INVALID_TYPE tool.executable_knowledge.processors: processors must be a list, not an integer",
            "30:13 warning NAMING_CONVENTION tool.executable_knowledge.validators[0].id: `Check_Task` is not kebab-case",
            "36:19 error INVALID_TYPE tool.executable_knowledge.validators[0].function: function must be a string, not a list",
            "31:20 warning UNKNOWN_REFERENCE tool.executable_knowledge.validators[0].validates: `list_task` is not among the commands of the tool",
            "34:30 error INVALID_TYPE tool.executable_knowledge.validators[0].checks[0].required_fields: required_fields must be a list, not a string",
            "35:13 warning UNKNOWN_FIELD tool.executable_knowledge.validators[0].checks[1].min: `min` is not a field of tool.executable_knowledge.validators[0].checks[1]",
            "40:9 error MISSING_REQUIRED_FIELD tool.api_complexity.payload_schemas[0].payload_path: payload_path is required",
            "41:20 warning UNCHECKABLE_DETECTION tool.api_complexity.payload_schemas[0].detection: `it just feels right` cannot be evaluated",
            "44:29 error UNKNOWN_REFERENCE tool.api_complexity.field_mappings.custom.place.extraction: helper `gone` does not exist",
            "45:29 error UNKNOWN_REFERENCE tool.api_complexity.field_mappings.custom.other.extraction: `lambda` does not name a helper",
            "46:9 warning MISSING_REQUIRED_FIELD tool.api_complexity.field_mappings.custom.none: structure or extraction is required",
            "47:12 error INVALID_TYPE tool.api_complexity.field_mappings.bad: bad must be a mapping, not an integer",
            "49:9 warning MISSING_REQUIRED_FIELD tool.api_complexity.api_quirks[0].description: description is required",
            "49:9 warning MISSING_REQUIRED_FIELD tool.api_complexity.api_quirks[0].mitigation: mitigation is required",
            "51:7 warning MISSING_REQUIRED_FIELD tool.anti_patterns[0].correct: correct is required",
            "51:7 warning MISSING_RECOMMENDED_FIELD tool.anti_patterns[0].category: category is recommended: one of api_usage, validation, error_handling, performance, security",
            "55:17 warning INVALID_TYPE tool.examples.list_tasks: list_tasks must be a list of scenarios, not a string",
            "56:5 warning NAMING_CONVENTION tool.examples.createTask: command `createTask` is neither snake_case nor kebab-case",
            "60:9 warning INVALID_TYPE tool.examples.createTask[2]: createTask[2] must be a mapping, not an integer",
            "57:9 warning MISSING_REQUIRED_FIELD tool.examples.createTask[0].output: output is required",
            "59:19 warning UNKNOWN_ENUM_VALUE tool.examples.createTask[1].scenario: scenario must be success, failure_invalid_param, failure_api_error or edge_case_*, not `sucess`",
            "59:9 warning MISSING_REQUIRED_FIELD tool.examples.createTask[1].input: input is required",
            "59:9 warning MISSING_REQUIRED_FIELD tool.examples.createTask[1]: output or error is required",
            "56:5 warning MISSING_SCENARIO tool.examples.createTask: the examples of `createTask` have no failure_* scenario",
            "56:5 warning MISSING_SCENARIO tool.examples.createTask: the examples of `createTask` have no failure_api_error scenario",
            "56:5 warning MISSING_SCENARIO tool.examples.createTask: the examples of `createTask` have no edge_case_* scenario",
            "61:5 warning UNKNOWN_REFERENCE tool.examples.other_command: `other_command` is not among the commands of the tool",
            "61:5 warning MISSING_SCENARIO tool.examples.other_command: the examples of `other_command` have no success scenario",
            "61:5 warning MISSING_SCENARIO tool.examples.other_command: the examples of `other_command` have no failure_* scenario",
            "61:5 warning MISSING_SCENARIO tool.examples.other_command: the examples of `other_command` have no failure_api_error scenario",
            "61:5 warning MISSING_SCENARIO tool.examples.other_command: the examples of `other_command` have no edge_case_* scenario",
        ]
    );
}

#[test]
fn a_meta_tool_of_any_spelling_names_a_helper_that_exists() {
    let tool = |named: &str| {
        format!(
            "tool_id: m\ntool_type: meta\nversion: 1.0.0\nconfig:\n  orchestration: {named}\n\
             executable_knowledge:\n  helpers:\n    - id: combine\n"
        )
    };
    let told = |named: &str| lines(&findings(&tool(named), Strength::Lenient));
    assert_eq!(told("helpers.combine"), Vec::<String>::new());
    assert_eq!(
        told("helpers.nope"),
        ["5:18 error UNKNOWN_REFERENCE config.orchestration: helper `nope` does not exist"]
    );
    assert_eq!(
        told("combine"),
        ["5:18 error UNKNOWN_REFERENCE config.orchestration: `combine` does not name a helper"]
    );
    let broken = tool("helpers.combine")
        + "      function: |\n        const a = 1;\n        require('fs'); return (\n";
    assert_eq!(
        lines(&findings(&broken, Strength::Lenient)),
        [
            "11:24 error INVALID_FUNCTION_SYNTAX executable_knowledge.helpers[0].function: syntax error: return not in a function",
            "11:9 error FORBIDDEN_CALL executable_knowledge.helpers[0].function: `require` is not available: functions must be self-contained",
        ]
    );
}

#[test]
fn sections_that_an_explicit_version_ignores_are_named_and_not_judged() {
    assert_eq!(
        check_fixture("ignored_sections.yaml", Strength::Strict),
        [
            "9:3 warning IGNORED_SECTION tool.executable_knowledge: executable_knowledge is ignored, because schema_version is 1.0",
            "11:3 warning IGNORED_SECTION tool.anti_patterns: anti_patterns is ignored, because schema_version is 1.0",
        ]
    );
}

#[test]
fn the_version_is_what_is_said_or_else_what_is_used() {
    let version = |text: &str| {
        let mut findings = Findings::new(Path::new("tool.yaml"), Strength::Strict);
        let node =
            crate::item::yaml::parse(text, crate::item::position::Position::START, &mut findings)
                .unwrap();
        let explicit = explicit_version(&node, &mut findings);
        let codes: Vec<Code> = findings
            .into_vec()
            .into_iter()
            .map(|finding| finding.code)
            .collect();
        (explicit, detect_version(&node), codes)
    };
    assert_eq!(
        version("schema_version: \"1.0\""),
        (Some(ToolRootVersion::One), ToolRootVersion::One, vec![])
    );
    assert_eq!(
        version("schema_version: '2.0'"),
        (Some(ToolRootVersion::Two), ToolRootVersion::One, vec![])
    );
    assert_eq!(
        version("schema_version: 2"),
        (
            Some(ToolRootVersion::Two),
            ToolRootVersion::One,
            vec![Code::UnquotedVersion]
        )
    );
    assert_eq!(
        version("schema_version: 2.00"),
        (
            Some(ToolRootVersion::Two),
            ToolRootVersion::One,
            vec![Code::UnquotedVersion]
        )
    );
    for wrong in ["\"2\"", "2.0abc", "3.0", "1.04", "\"\""] {
        assert_eq!(
            version(&format!("schema_version: {wrong}")),
            (None, ToolRootVersion::One, vec![Code::InvalidEnumValue]),
            "{wrong}"
        );
    }
    assert_eq!(
        version("schema_version: [2.0]"),
        (None, ToolRootVersion::One, vec![Code::InvalidType])
    );
    assert_eq!(version("executable_knowledge: {}").1, ToolRootVersion::Two);
    assert_eq!(
        version("examples: {a: [{scenario: success}]}").1,
        ToolRootVersion::Two
    );
    assert_eq!(
        version("examples: {a: [{scenario: edge_case}], b: 3}").1,
        ToolRootVersion::One
    );
    assert_eq!(version("anti_patterns: null").1, ToolRootVersion::One);
}

#[test]
fn a_section_of_the_wrong_type_is_reported_once() {
    for (section, path) in [
        ("executable_knowledge", "tool.executable_knowledge"),
        ("api_complexity", "tool.api_complexity"),
        ("anti_patterns", "tool.anti_patterns"),
        ("examples", "tool.examples"),
    ] {
        let found = findings(&with(&format!("  {section}: text\n")), Strength::Lenient);
        let found: Vec<_> = found
            .iter()
            .map(|finding| (finding.code, finding.line, finding.path.as_str()))
            .collect();
        assert_eq!(found, [(Code::InvalidType, 8, path)]);
    }
}

#[test]
fn mistakes_in_functions_are_found_at_their_line() {
    let function = |style: &str, code: &str| {
        let text = format!(
            "  executable_knowledge:\n    helpers:\n      - id: h\n        language: javascript\n        runtime: isolated_vm\n        function: {style}{code}"
        );
        let found = findings(&with(&text), Strength::Lenient);
        found
            .iter()
            .map(|finding| (finding.code, finding.line, finding.column))
            .collect::<Vec<_>>()
    };
    let syntax = Code::InvalidFunctionSyntax;
    assert_eq!(
        function("|\n", "          let a;\n          let = = 2;\n"),
        [(syntax, 15, 17)]
    );
    assert_eq!(
        function("|  # note\n", "\n\n          let = = 2;\n"),
        [(syntax, 16, 17)]
    );
    assert_eq!(
        function("|-\n", "          ok();\n            require('x');\n"),
        [(Code::ForbiddenCall, 15, 13)]
    );
    assert_eq!(function("", "\"let a;\\nlet = = 2\"\n"), [(syntax, 13, 19)]);
    assert_eq!(function("|\n", "\n"), [(Code::MissingRequiredField, 13, 9)]);
}

#[test]
fn detections_that_can_be_evaluated() {
    use super::complexity::is_checkable;
    for good in [
        "event field exists",
        "webhook_id field",
        "data.items[0] field exists",
        "$.a.b",
        "$['x']",
        "$",
    ] {
        assert!(is_checkable(good), "{good}");
    }
    for bad in [
        "field exists",
        "exists",
        "the event is there",
        "two words field exists",
        "$100",
        "",
        "field",
    ] {
        assert!(!is_checkable(bad), "{bad}");
    }
}

#[test]
fn a_hostile_tool_is_answered() {
    let helper = |code: &str| {
        format!(
            "      - id: h\n        language: javascript\n        runtime: isolated_vm\n        function: {code}\n"
        )
    };
    let many = |code: &str| {
        let helpers: String = (0..)
            .map(|_| helper(code))
            .take(250_000 / helper(code).len())
            .collect();
        with(&format!("  executable_knowledge:\n    helpers:\n{helpers}"))
    };
    let cases = [
        many("'1'"),
        many(&format!("'{}'", "(".repeat(10_000))),
        many(&format!("'/{}/iu'", "\\p{L}".repeat(3_000))),
        many(&format!("'/{}/iu;('", "\\p{L}".repeat(3))),
        many("'/[\\p{L}--\\p{Lu}]/v;('"),
        many(&format!("'/{}/u;('", "[\\p{L}\\P{Lu}]".repeat(7))),
        many(&format!("'{}'", "require(1);".repeat(1_000))),
        with(&format!(
            "  executable_knowledge:\n    helpers: [{}]\n",
            "1,".repeat(30_000)
        )),
        with(&format!(
            "  examples: {{{}}}\n",
            (0..10_000)
                .map(|n| format!("a{n}: 1"))
                .collect::<Vec<_>>()
                .join(",")
        )),
        with(&format!("  anti_patterns: [{}]\n", "{},".repeat(20_000))),
    ];
    for text in cases {
        let found = findings(&text, Strength::Strict);
        assert!(!found.is_empty() && found.len() < 20_000, "{}", found.len());
    }
}

/// Values with the keys that the rules use.
fn value() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::{Value, json};
    let key = prop::sample::select(vec![
        "helpers",
        "validators",
        "processors",
        "id",
        "language",
        "runtime",
        "function",
        "validates",
        "checks",
        "format",
        "required_fields",
        "payload_schemas",
        "field_mappings",
        "api_quirks",
        "type",
        "detection",
        "payload_path",
        "extraction",
        "structure",
        "pattern",
        "wrong",
        "correct",
        "category",
        "scenario",
        "input",
        "output",
        "error",
    ]);
    let leaf = prop::sample::select(vec![
        json!(null),
        json!(1),
        json!(1.5),
        json!(true),
        json!(""),
        json!("javascript"),
        json!("isolated_vm"),
        json!("helpers.x"),
        json!("success"),
        json!("failure_x"),
        json!("a field exists"),
        json!("(("),
        json!("\nrequire('x')\n"),
        json!("ä\u{2028}("),
    ]);
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|pairs| Value::Object(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_sections_are_judged(knowledge in value(), complexity in value(), patterns in value(), examples in value()) {
        let tool = serde_json::json!({"tool": {
            "id": "t", "type": "meta", "name": "T", "version": "1.0.0", "description": "d",
            "executable_knowledge": knowledge, "api_complexity": complexity, "anti_patterns": patterns, "examples": examples,
        }});
        let text = crate::item::yaml::to_yaml(&tool);
        let count = u32::try_from(text.lines().count()).unwrap();
        let lenient = findings(&text, Strength::Lenient);
        let strict = findings(&text, Strength::Strict);
        prop_assert_eq!(lenient.len(), strict.len());
        for (lenient, strict) in lenient.iter().zip(&strict) {
            prop_assert!(lenient.line >= 1 && lenient.line <= count, "{lenient:?}\n{text}");
            prop_assert!(lenient.path.starts_with("tool."));
            prop_assert!(lenient.suggestion.is_some(), "{lenient:?}");
            prop_assert!(strict.severity <= lenient.severity, "strict is never milder");
        }
    }
}
