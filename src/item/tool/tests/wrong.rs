//! Wrong input: each mistake has its code, position and suggestion.

use super::*;

/// A valid manifest with lines added.
fn with(lines: &str) -> String {
    format!(
        "tool_id: x\ntool_type: script\nversion: 1.0.0\nexecutor: python_runtime\ndescription: d\n{lines}\n"
    )
}

#[test]
fn everything_missing_is_reported_at_once() {
    let case = strict("x.yaml", "description: d\nname: n\n");
    assert_eq!(
        case.messages(),
        [
            "tool_id is required",
            "tool_type is required",
            "version is required"
        ]
    );
    assert_eq!(case.suggestions()[0], "add `tool_id: x`");
    assert!(matches!(case.reading, ToolReading::Broken));
    let case = lenient(
        "x.yaml",
        "tool_id: ''\ntool_type: script\nversion: ''\ndescription: d\nexecutor: ''\n",
    );
    assert_eq!(
        case.messages(),
        [
            "tool_id is required",
            "version is required",
            "Tool type 'script' requires executor field"
        ]
    );
}

#[test]
fn a_manifest_must_be_a_mapping() {
    assert_eq!(
        strict("x.yaml", "- a\n").finding_lines(),
        ["INVALID_TYPE 1:1 "]
    );
    assert_eq!(
        lenient("x.yaml", "tool: 7\n").finding_lines()[0],
        "INVALID_TYPE 1:7 tool"
    );
    assert!(matches!(
        lenient("x.yaml", "# nothing\n").reading,
        ToolReading::Broken
    ));
}

#[test]
fn ids_are_checked() {
    for (written, code) in [
        ("../../etc/x", "INVALID_ID"),
        ("\"a\\0b\"", "INVALID_ID"),
        ("\"a\\u202eb\"", "INVALID_ID"),
        ("a b", "INVALID_ID"),
        ("7", "INVALID_TYPE"),
        ("[a]", "INVALID_TYPE"),
    ] {
        let case = lenient(
            "x.yaml",
            &with("").replace("tool_id: x", &format!("tool_id: {written}")),
        );
        assert_eq!(
            case.finding_lines(),
            [format!("{code} 1:10 tool_id")],
            "{written}"
        );
        assert!(matches!(case.reading, ToolReading::Unnamed(_)));
    }
    let case = lenient(
        "x.yaml",
        &with("").replace("tool_id: x", "tool_id: My-Tool"),
    );
    assert_eq!(case.finding_lines(), ["NAMING_CONVENTION 1:10 tool_id"]);
    assert_eq!(case.suggestions(), ["write `my_tool`"]);
    let root = |id: &str| {
        format!("tool: {{id: {id}, type: cli, name: n, version: 1.0.0, description: d}}\n")
    };
    assert_eq!(
        lenient("x.yaml", &root("my-tool")).finding_lines(),
        Vec::<String>::new()
    );
    assert_eq!(
        lenient("x.yaml", &root("my_tool")).finding_lines(),
        ["NAMING_CONVENTION 1:12 tool.id"]
    );
}

#[test]
fn versions_are_checked() {
    let case = |version: &str| {
        lenient(
            "x.yaml",
            &with("").replace("version: 1.0.0", &format!("version: {version}")),
        )
    };
    for good in ["1.0.0", "\"1.0.0-beta.1+build\"", "0.0.1"] {
        assert_eq!(case(good).finding_lines(), Vec::<String>::new(), "{good}");
    }
    let number = case("1.10");
    assert_eq!(number.finding_lines(), ["INVALID_SEMVER 3:10 version"]);
    assert_eq!(number.suggestions(), ["write \"1.10.0\""]);
    assert_eq!(number.tool().manifest.version, "1.10");
    assert_eq!(case("1").finding_lines(), ["INVALID_SEMVER 3:10 version"]);
    for bad in ["v1.0.0", "1.0", "latest", "01.0.0"] {
        assert_eq!(
            case(&format!("\"{bad}\"")).finding_lines(),
            ["INVALID_SEMVER 3:10 version"],
            "{bad}"
        );
    }
    assert_eq!(case("[1]").finding_lines(), ["INVALID_TYPE 3:10 version"]);
}

#[test]
fn types_are_checked() {
    let case = |written: &str| {
        lenient(
            "x.yaml",
            &with("").replace("tool_type: script", &format!("tool_type: {written}")),
        )
    };
    let misspelt = case("scirpt");
    assert_eq!(
        misspelt.finding_lines(),
        ["INVALID_ENUM_VALUE 2:12 tool_type"]
    );
    assert_eq!(misspelt.suggestions(), ["did you mean `script`?"]);
    assert!(misspelt.messages()[0].starts_with("Unknown tool_type: scirpt"));
    assert_eq!(
        case("telemetry").finding_lines(),
        ["UNKNOWN_ENUM_VALUE 2:12 tool_type"]
    );
    assert_eq!(case("telemetry").tool().manifest.kind, ToolKind::Script);
    assert_eq!(
        case("http").finding_lines(),
        ["UNKNOWN_ENUM_VALUE 2:12 tool_type"]
    );
    assert_eq!(case("http").tool().manifest.kind, ToolKind::Api);
    assert_eq!(case("5").finding_lines(), ["INVALID_TYPE 2:12 tool_type"]);
    let root = lenient(
        "x.yaml",
        "tool: {id: x, type: api, name: n, version: 1.0.0, description: d}\n",
    );
    assert_eq!(root.finding_lines(), ["INVALID_ENUM_VALUE 1:21 tool.type"]);
}

#[test]
fn executors_are_required_or_forbidden() {
    let case = |tool_type: &str, executor: &str| {
        lenient(
            "x.yaml",
            &format!(
                "tool_id: x\ntool_type: {tool_type}\nversion: 1.0.0\ndescription: d\n{executor}\n"
            ),
        )
    };
    for needs in [
        "script",
        "python",
        "bash",
        "api",
        "mcp_server",
        "mcp_tool",
        "docker",
        "runtime",
        "cli",
    ] {
        let case = case(needs, "executor: null");
        assert_eq!(
            case.messages(),
            [format!("Tool type '{needs}' requires executor field")]
        );
        assert_eq!(
            case.finding_lines(),
            ["MISSING_REQUIRED_FIELD 1:1 executor"]
        );
    }
    for free in ["primitive", "knowledge", "directive", "meta"] {
        assert_eq!(
            case(free, "").finding_lines(),
            Vec::<String>::new(),
            "{free}"
        );
    }
    assert_eq!(
        case("primitive", "executor: subprocess").messages(),
        ["Primitives must have executor: null"]
    );
    assert_eq!(
        case("knowledge", "executor: x").messages(),
        ["Knowledge entries must have executor: null"]
    );
    assert_eq!(
        case("script", "executor: ../x").finding_lines(),
        ["INVALID_ID 5:11 executor"]
    );
    assert_eq!(
        case("script", "executor: [x]").finding_lines(),
        ["INVALID_TYPE 5:11 executor"]
    );
    assert_eq!(
        case("script", "executor: a\nexecutor_id: b").finding_lines(),
        ["CONFLICTING_FIELD 6:1 executor_id"]
    );
    assert_eq!(
        case("script", "executor: a\nexecutor_id: a").finding_lines(),
        Vec::<String>::new()
    );
}

#[test]
fn unknown_fields_are_reported_with_what_was_meant() {
    let text = with("mutate_state: true\nzzz: 1");
    let case = lenient("x.yaml", &text);
    assert_eq!(
        case.finding_lines(),
        ["UNKNOWN_FIELD 6:1 mutate_state", "UNKNOWN_FIELD 7:1 zzz"]
    );
    assert_eq!(
        case.suggestions(),
        [
            "did you mean `mutates_state`?",
            "remove it; what only the tool itself reads belongs below `config`"
        ]
    );
    assert!(!case.findings.has_errors());
    assert!(strict("x.yaml", &text).findings.has_errors());
    let known = with(
        "config_schema: {}\nenv_config: {}\nvalidation: {}\nanchor: {}\nverify_deps: {}\nrequired_scope: a\ncreated_at: 2026-01-15",
    );
    assert_eq!(
        strict("x.yaml", &known).finding_lines(),
        Vec::<String>::new()
    );
}

#[test]
fn fields_of_the_wrong_type_are_reported_one_by_one() {
    let case = lenient(
        "x.yaml",
        &with(
            "name: 1\ncategory: [a]\nmutates_state: yes\nisolation: sandbox\ntags: a, b\nauthor: {}\ndependencies: [1]\nconfig: 3\noutputs: json\ncommands: x",
        ),
    );
    assert_eq!(
        case.finding_lines(),
        [
            "INVALID_TYPE 6:7 name",
            "INVALID_TYPE 7:11 category",
            "INVALID_TYPE 11:9 author",
            "INVALID_TYPE 14:10 outputs",
            "INVALID_TYPE 13:9 config",
            "INVALID_TYPE 8:16 mutates_state",
            "INVALID_ENUM_VALUE 9:12 isolation",
            "INVALID_TYPE 12:16 dependencies[0]",
            "INVALID_TYPE 10:7 tags",
            "INVALID_TYPE 15:11 commands",
        ]
    );
    assert_eq!(
        case.suggestions(),
        [
            "quote it: \"1\"",
            "write a string",
            "write a string",
            "write a mapping with format, schema and parser, or a JSON Schema",
            "write a mapping",
            "only `true` and `false` are truth values",
            "did you mean `sandboxed`?",
            "quote it: \"1\"",
            "write a list: [a, b]",
            "write a list: [x]"
        ]
    );
}

#[test]
fn what_is_said_twice_must_agree() {
    let case = lenient(
        "x.yaml",
        "tool_id: x\ntool_type: bash\nversion: 1.0.0\ndescription: d\nmutates_state: false\nexecutor:\n  type: python\n  mutates_state: true\n  entrypoint: a\n  timeout: 5\nconfig: {entrypoint: b, timeout: 6}\n",
    );
    assert_eq!(
        case.finding_lines(),
        [
            "CONFLICTING_FIELD 8:3 executor.mutates_state",
            "CONFLICTING_FIELD 7:9 executor.type",
            "CONFLICTING_FIELD 9:3 executor.entrypoint",
            "CONFLICTING_FIELD 10:3 timeout",
        ]
    );
    assert_eq!(case.tool().manifest.mutates_state, Some(false));
    let case = lenient("x.yaml", &with("config: {url: a, endpoint: b}"));
    assert_eq!(
        case.finding_lines(),
        ["CONFLICTING_FIELD 6:18 config.endpoint"]
    );
    let case = lenient("x.yaml", &with("parameters: []\ninputs: {type: object}"));
    assert_eq!(case.finding_lines(), ["CONFLICTING_FIELD 7:1 inputs"]);
}

#[test]
fn blocks_are_checked() {
    let case = |block: &str| {
        lenient(
            "x.yaml",
            &format!(
                "tool_id: x\ntool_type: script\nversion: 1.0.0\ndescription: d\nexecutor: {block}\n"
            ),
        )
    };
    assert_eq!(
        case("{entrypoint: a}").finding_lines(),
        ["MISSING_REQUIRED_FIELD 5:1 executor.type"]
    );
    assert_eq!(
        case("{type: pyton}").finding_lines(),
        ["INVALID_ENUM_VALUE 5:18 executor.type"]
    );
    assert_eq!(
        case("{type: pyton}").suggestions(),
        ["did you mean `python`?"]
    );
    assert_eq!(
        case("{type: 3}").finding_lines(),
        ["INVALID_TYPE 5:18 executor.type"]
    );
    let misspelt = case("{type: python, mutate_state: true, entrypiont: a}");
    assert_eq!(
        misspelt.finding_lines(),
        [
            "UNKNOWN_FIELD 5:26 executor.mutate_state",
            "UNKNOWN_FIELD 5:46 executor.entrypiont"
        ]
    );
    assert_eq!(
        misspelt.suggestions(),
        [
            "did you mean `mutates_state`?",
            "did you mean `entrypoint`?"
        ]
    );
}

#[test]
fn a_root_stands_alone_and_is_complete() {
    let text = "tool:\n  id: x\nother: 1\n";
    let case = lenient("x.yaml", text);
    assert_eq!(
        case.finding_lines(),
        [
            "UNKNOWN_FIELD 3:1 other",
            "MISSING_REQUIRED_FIELD 2:3 tool.type",
            "MISSING_REQUIRED_FIELD 2:3 tool.version",
            "MISSING_REQUIRED_FIELD 2:3 tool.name",
            "MISSING_REQUIRED_FIELD 2:3 tool.description",
        ]
    );
    assert_eq!(
        case.messages()[1..],
        [
            "type is required",
            "version is required",
            "name is required",
            "description is required"
        ]
    );
    let bare = "id: x\ntype: cli\nname: n\nversion: 1.0.0\ndescription: d\n";
    assert_eq!(
        lenient("x.yaml", bare).finding_lines(),
        ["MISSING_REQUIRED_FIELD 1:1 tool"]
    );
    assert!(!lenient("x.yaml", bare).findings.has_errors());
    assert!(strict("x.yaml", bare).findings.has_errors());
    let sections = "tool:\n  id: x\n  type: mcp\n  name: n\n  version: 1.0.0\n  description: d\n  cli_specific: {executable: gh}\n  mcp_specific:\n    server_command: npx 'a\n  titel: x\n";
    assert_eq!(
        lenient("x.yaml", sections).finding_lines(),
        [
            "INVALID_TYPE 9:21 tool.mcp_specific.server_command",
            "CONFLICTING_FIELD 7:3 tool.cli_specific",
            "UNKNOWN_FIELD 10:3 tool.titel",
        ]
    );
}

#[test]
fn parameters_are_checked() {
    let case = lenient(
        "x.yaml",
        &with(
            "parameters:\n  - name: a\n  - type: string\n  - {name: b, type: int}\n  - {name: b, type: string}\n  - c\n  - {name: d, type: string, required: perhaps, patern: x}\n  - {name: 'e f', type: any}\n  - {name: g, enum: [1]}",
        ),
    );
    assert_eq!(
        case.finding_lines(),
        [
            "MISSING_REQUIRED_FIELD 7:5 parameters[0].type",
            "MISSING_REQUIRED_FIELD 8:5 parameters[1].name",
            "INVALID_ENUM_VALUE 9:21 parameters[2].type",
            "DUPLICATE_NAME 10:12 parameters[3].name",
            "INVALID_TYPE 11:5 parameters[4]",
            "UNKNOWN_FIELD 12:48 parameters[5].patern",
            "INVALID_TYPE 12:39 parameters[5].required",
            "INVALID_ID 13:12 parameters[6].name",
        ]
    );
    let names: Vec<&str> = case
        .tool()
        .manifest
        .parameters
        .iter()
        .map(|parameter| parameter.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "d", "g"]);
    for (written, told) in [
        ("parameters: 3", vec!["INVALID_TYPE 6:13 parameters"]),
        (
            "inputs: {type: string}",
            vec!["INVALID_TYPE 6:16 inputs.type"],
        ),
        (
            "parameters: {query: {a: b}}",
            vec![
                "INVALID_TYPE 6:13 parameters",
                "MISSING_REQUIRED_FIELD 6:14 parameters.type",
            ],
        ),
    ] {
        assert_eq!(
            lenient("x.yaml", &with(written)).finding_lines(),
            told,
            "{written}"
        );
    }
}

#[test]
fn demands_are_checked() {
    let case = lenient(
        "x.yaml",
        &with(
            "writes: [docs/**, /etc/passwd, a/../b, '[', '', ~/x]\nrequires: {commands: git, env: [A], mcp: [b]}\noutputs: {format: xml, shema: a}\ntimeout: -1",
        ),
    );
    assert_eq!(
        case.finding_lines(),
        [
            "UNKNOWN_FIELD 8:24 outputs.shema",
            "INVALID_ENUM_VALUE 8:19 outputs.format",
            "INVALID_TYPE 9:10 config.timeout",
            "UNKNOWN_FIELD 7:27 requires.env",
            "INVALID_TYPE 7:22 requires.commands",
            "PATH_ESCAPE 6:19 writes[1]",
            "PATH_ESCAPE 6:32 writes[2]",
            "INVALID_PATTERN 6:40 writes[3]",
            "INVALID_PATH 6:45 writes[4]",
            "PATH_ESCAPE 6:49 writes[5]",
        ]
    );
}

#[test]
fn permissions_of_a_tool_are_requirements() {
    let case = lenient(
        "x.yaml",
        &with(
            "permissions:\n  - type: shell\n    commands: [curl, jq]\n  - {type: env, vars: [A]}\n  - anything\nrequires: {commands: [git]}",
        ),
    );
    assert_eq!(
        case.finding_lines(),
        ["DECLARED_PERMISSIONS 6:1 permissions"]
    );
    assert_eq!(
        case.tool().manifest.requires,
        Requires {
            commands: vec!["git".into(), "curl".into(), "jq".into()],
            environment: vec!["A".into()],
            mcp: Vec::new(),
        }
    );
    assert_eq!(
        lenient("x.yaml", &with("requires: [fs.read]")).finding_lines(),
        ["DECLARED_PERMISSIONS 6:1 requires"]
    );
    assert_eq!(
        lenient("x.yaml", &with("requires: [httpx>=1]"))
            .tool()
            .manifest
            .dependencies,
        ["httpx>=1"]
    );
}

#[test]
fn a_script_must_describe_itself() {
    for (name, text) in [
        ("x.py", "import os\n"),
        ("x.sh", "#!/bin/sh\n# Note: nothing\necho\n"),
        ("x", "#!/bin/sh\n"),
    ] {
        let case = lenient(name, text);
        assert_eq!(case.finding_lines(), ["MISSING_METADATA 1:1 "], "{name}");
        assert_eq!(
            case.messages(),
            ["Invalid metadata: the script does not describe itself"]
        );
        assert!(matches!(case.reading, ToolReading::Broken));
    }
    let case = lenient("x.py", "__version__ = '1.0.0'\n");
    assert_eq!(
        case.finding_lines(),
        [
            "MISSING_REQUIRED_FIELD 1:1 tool_type",
            "MISSING_RECOMMENDED_FIELD 1:1 description"
        ]
    );
    let case = lenient(
        "x.js",
        "// prose\n//   tool_type: script\n//   version: 1.0\n//   exekutor: a\n",
    );
    assert_eq!(
        case.finding_lines(),
        [
            "UNKNOWN_FIELD 4:6 exekutor",
            "INVALID_SEMVER 3:15 version",
            "MISSING_REQUIRED_FIELD 1:1 executor",
        ]
    );
    let case = lenient("x.sh", "# tool_id: a\n# tool_type: [\n");
    assert_eq!(case.finding_lines().len(), 1);
    assert!(
        case.finding_lines()[0].starts_with("YAML_SYNTAX"),
        "{:?}",
        case.finding_lines()
    );
}

#[test]
fn a_broken_script_is_called_broken() {
    let case = lenient("x.py", "import os\nx = ((1\n__version__ 2\n");
    assert_eq!(
        case.finding_lines(),
        ["SYNTAX_ERROR 2:1 ", "MISSING_METADATA 1:1 "]
    );
    let case = lenient(
        "x.py",
        "\"\"\"d\"\"\"\n__version__ = '1.0.0'\n__tool_type__ = 'python'\n__executor_id__ = 'a'\ndef main(:\n  x = ((\n",
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
}

#[test]
fn an_old_script_may_use_everyday_names() {
    let text = "\"\"\"d\"\"\"\nCONFIG = {'timeout': load()}\n__version__ = '1.0'\n";
    let case = read_in(&SCRIPTS, Strength::Lenient, "x.py", text);
    assert_eq!(case.finding_lines(), ["INVALID_SEMVER 3:15 version"]);
    assert!(!case.findings.has_errors());
    assert!(
        read_in(&SCRIPTS, Strength::Strict, "x.py", text)
            .findings
            .has_errors()
    );
}

#[test]
fn code_is_reported_and_never_evaluated() {
    let case = lenient(
        "x.py",
        r#""""d"""
import os
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = os.environ["RUNTIME"]
CONFIG = {"a": 1, "b": [f"{os.getcwd()}"]}
CONFIG_SCHEMA = {"a": 1, "a": 2}
ENV_CONFIG = {**os.environ}
VALIDATION = {1: 2}
__tags__ = ["a" + "b"]
__timeout__ = 99999999999999999999
__version__ = "1.0.1"
def main(x=os.getcwd(), *args, y: "str" = None): pass
"#,
    );
    assert_eq!(
        case.finding_lines(),
        [
            "CODE_NOT_EXECUTED 5:19 __executor_id__",
            "CODE_NOT_EXECUTED 6:25 CONFIG",
            "DUPLICATE_KEY 7:26 CONFIG_SCHEMA",
            "CODE_NOT_EXECUTED 8:15 ENV_CONFIG",
            "INVALID_TYPE 9:15 VALIDATION",
            "CODE_NOT_EXECUTED 10:13 __tags__",
            "INVALID_NUMBER 11:15 __timeout__",
            "CONFLICTING_FIELD 12:1 __version__",
            "CODE_NOT_EXECUTED 13:12 parameters.x.default",
            "MISSING_REQUIRED_FIELD 1:1 executor",
        ]
    );
    assert_eq!(case.tool().manifest.version, "1.0.1");
    let names: Vec<(&str, bool)> = case
        .tool()
        .manifest
        .parameters
        .iter()
        .map(|parameter| (parameter.name.as_str(), parameter.required))
        .collect();
    assert_eq!(names, [("x", false), ("y", false)]);
}
