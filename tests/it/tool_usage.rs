//! `piton tool run`: usage errors and their messages.

use std::fs;

use crate::harness::{TestProject, cmd_snapshot};

const PARAMETERS: &str = "parameters:\n  - {name: topic, type: string, required: true}\n  - {name: count, type: integer, default: 3}";

/// Writes a tool that is one command line.
fn command(project: TestProject, id: &str, more: &str) -> TestProject {
    let manifest = format!(
        "tool_id: {id}\ntool_type: cli\nversion: \"1.0.0\"\ndescription: The tool {id}\nexecutor: subprocess\n{}\n",
        more.trim_end()
    );
    project.file(&format!(".ai/tools/{id}.yaml"), manifest)
}

#[test]
fn everything_that_is_wrong_with_parameters_is_said_at_once() {
    let project = TestProject::new().tool("note", PARAMETERS, "echo {}");
    cmd_snapshot!(project.piton(["tool", "run", "note", "-p", "count=many", "-p", "x=1"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `note` cannot be called like this: parameter `count`: `many` is not an integer; unknown parameter `x`

    hint: it takes `topic`, `count`
    ");
    cmd_snapshot!(project.piton(["tool", "run", "note", "-p", "topc=a"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `note` cannot be called like this: unknown parameter `topc`

    hint: did you mean `topic`?
    ");
    cmd_snapshot!(project.piton(["tool", "run", "note", "-p", "topic"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `note` cannot be called like this: `topic` is not `name=value`

    hint: `piton tool show note` lists what it takes
    ");
}

#[test]
fn a_file_of_parameters_is_read_or_explained() {
    let project = TestProject::new()
        .tool(
            "note",
            PARAMETERS,
            "printf '%s %s\\n' \"$PITON_PARAM_TOPIC\" \"$PITON_PARAM_COUNT\"",
        )
        .file("good.yaml", "topic: roof\ncount: 4\n")
        .file("bad.json", "{\"topic\": \"roof\"")
        .file("list.json", "[1]")
        .committed();
    cmd_snapshot!(project.piton(["tool", "run", "note", "--params", "good.yaml", "-p", "count=5"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    roof 5
    ----- stderr -----
    warning: not signed: note (`piton sign note`)
    no changes
    ");
    cmd_snapshot!(project.piton(["tool", "run", "note", "--params", "bad.json"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: unterminated object [JSON_SYNTAX]
     --> bad.json:1:1
    hint: close the bracket that opens here
    ");
    cmd_snapshot!(project.piton(["tool", "run", "note", "--params", "list.json"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: parameters must be a mapping from names to values [INVALID_TYPE]
     --> list.json:1:1
    hint: write `name: value`, one per line
    ");
    cmd_snapshot!(project.piton(["tool", "run", "note", "--params", "gone.json"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot read `gone.json`
      caused by: No such file or directory (os error 2)

    hint: name a file or folder that exists; paths are relative to the current folder
    ");
}

#[test]
fn a_mistake_in_a_file_is_shown_with_its_place() {
    let project = TestProject::new()
        .tool("gone", "", "echo")
        .tool("lost", "", "echo")
        .file(
            ".ai/tools/loop/tool.yaml",
            "tool_id: loop\ntool_type: script\nversion: \"1.0.0\"\nexecutor: one\n",
        )
        .file(
            ".ai/tools/one.yaml",
            "tool_id: one\ntool_type: runtime\nversion: \"1.0.0\"\nexecutor: two\n",
        )
        .file(
            ".ai/tools/two.yaml",
            "tool_id: two\ntool_type: runtime\nversion: \"1.0.0\"\nexecutor: one\n",
        )
        .file(".ai/tools/torn.yaml", "tool_id: torn\ntool_type: [cli\n");
    let project = command(project, "odd", "config:\n  command: echo\n  cwd: nowhere");
    let project = command(
        project,
        "hole",
        "config:\n  command: echo\n  args: [\"{nothing}\"]",
    );
    fs::remove_file(project.root().join(".ai/tools/gone/run.sh")).expect("a script");
    let manifest = project
        .read(".ai/tools/lost/tool.yaml")
        .replace("bash_runtime", "bash_rutime");
    let project = project.file(".ai/tools/lost/tool.yaml", manifest);
    cmd_snapshot!(project.piton(["tool", "run", "gone"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: Entrypoint 'run.sh' not found
     --> .ai/tools/gone/tool.yaml:7:15

    hint: create it in `gone`
    ");
    cmd_snapshot!(project.piton(["tool", "run", "lost"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `lost` names executor `bash_rutime`, which does not exist (`lost` → `bash_rutime`)
     --> .ai/tools/lost/tool.yaml:5:11

    hint: did you mean `bash_runtime`?
    ");
    cmd_snapshot!(project.piton(["tool", "run", "loop"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: executor chain loops: `loop` → `one` → `two` → `one`
     --> .ai/tools/loop/tool.yaml:4:11

    hint: let one of them name a primitive: `subprocess` or `http_client`
    ");
    cmd_snapshot!(project.piton(["tool", "run", "odd"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `config.cwd` is `nowhere`, which is not a folder of the project
     --> .ai/tools/odd.yaml:8:8

    hint: create the folder first
    ");
    cmd_snapshot!(project.piton(["tool", "run", "hole"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `{nothing}` in `config.args[0]` is not a parameter of the tool
     --> .ai/tools/hole.yaml:8:10

    hint: declare a parameter of that name, or write `{{nothing}}` for plain braces
    ");
    cmd_snapshot!(project.piton(["tool", "run", "torn"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `torn` cannot be loaded: while parsing a flow sequence, expected ',' or ']'
     --> .ai/tools/torn.yaml:3:1

    hint: close each `[` and `{`, and put quotes around a value that begins with one
    ");
    let told = project
        .piton(["tool", "run", "lost", "--format", "json"])
        .last_json();
    assert_eq!(
        told["place"],
        serde_json::json!({"file": ".ai/tools/lost/tool.yaml", "line": 5, "column": 11})
    );
    assert_eq!(told["suggestion"], "did you mean `bash_runtime`?");
}

#[test]
fn a_program_that_is_missing_is_named_with_the_command_that_gets_it() {
    let guided = "tool:\n  id: herald\n  type: cli\n  name: Herald\n  version: \"1.0.0\"\n  description: Tells\n  \
                  cli_specific:\n    executable: no_such_herald\n    install_check: no_such_herald --version\n    \
                  install_guide: get it from your package manager\n";
    let runtime = "tool_id: odd_runtime\ntool_type: runtime\nversion: \"1.0.0\"\nexecutor: subprocess\nconfig:\n  \
                   command: no_such_python\n";
    let project = TestProject::new()
        .file(".ai/tools/herald.yaml", guided)
        .file(".ai/tools/odd_runtime.yaml", runtime);
    let project = project.tool(
        "mine",
        "requires: {commands: [no_such_jq], environment: [NO_SUCH_TOKEN]}",
        "echo",
    );
    let manifest = project
        .read(".ai/tools/mine/tool.yaml")
        .replace("bash_runtime", "odd_runtime");
    let project = project.file(".ai/tools/mine/tool.yaml", manifest);
    cmd_snapshot!(project.piton(["tool", "run", "herald"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `herald` needs the command `no_such_herald`

    hint: install `no_such_herald`: get it from your package manager; then `no_such_herald --version` works
    ");
    cmd_snapshot!(project.piton(["tool", "run", "mine"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `mine` needs the commands `no_such_python`, `no_such_jq` and the environment variable `NO_SUCH_TOKEN`

    hint: install `no_such_python`, put it on the search path, or name another one: odd_runtime, .ai/tools/odd_runtime.yaml:6
    ");
    assert_eq!(project.piton(["log"]).stdout(), "", "nothing was begun");
}

#[test]
fn what_cannot_be_run_says_so() {
    let project = TestProject::new().directive("hello", ["greet"]);
    let tool = |project: TestProject, kind: &str, more: &str| {
        let manifest = format!("tool_id: a_{kind}\ntool_type: {kind}\nversion: \"1.0.0\"\n{more}");
        project.file(&format!(".ai/tools/a_{kind}.yaml"), manifest)
    };
    let project = tool(project, "directive", "config: {}\n");
    let project = tool(project, "knowledge", "config: {}\n");
    for kind in ["directive", "knowledge"] {
        let ran = project.piton(["tool", "run", &format!("a_{kind}"), "--format", "json"]);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert_eq!(ran.last_json()["code"], "UNSUPPORTED_TOOL", "{ran}");
    }
    cmd_snapshot!(project.piton(["tool", "run", "a_knowledge"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `a_knowledge` is a knowledge entry, which is not run as a tool

    hint: write it as an entry below `.ai/knowledge/`, which `piton load` shows
    ");
    cmd_snapshot!(project.piton(["tool", "run", "bash_runtime"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `bash_runtime` is a runtime: it runs tools and is none itself

    hint: run a tool that names it: `executor: bash_runtime`
    ");
    cmd_snapshot!(project.piton(["tool", "run", "hello"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `hello` does not exist

    hint: there is a directive `hello`
    ");
}

#[test]
fn every_failure_in_json_ends_with_the_result() {
    let project = TestProject::new()
        .tool("note", PARAMETERS, "exit 4")
        .file("bad.json", "{")
        .committed();
    let caged = "tool_id: caged\ntool_type: api\nversion: \"1.0.0\"\ndescription: The tool caged\n\
                 executor: http_client\nisolation: sandboxed\nconfig: {method: GET, url: \"http://127.0.0.1:9/\", allow_private: true}\n";
    let project = project.file(".ai/tools/caged.yaml", caged);
    for (words, code, exit) in [
        (&["nothing"][..], "NOT_FOUND", 2),
        (&["no/../thing"], "INVALID_ID", 2),
        (&["note"], "INVALID_PARAMETER", 2),
        (&["note", "other", "-p", "topic=a"], "UNKNOWN_COMMAND", 2),
        (&["note", "--params", "bad.json"], "INVALID_FILE", 2),
        (&["note", "--params", "gone.json"], "CANNOT_READ", 2),
        (
            &["note", "-p", "topic=a", "--as", "nobody"],
            "DIRECTIVE_NOT_FOUND",
            2,
        ),
        (
            &["note", "-p", "topic=a", "-C", "/nonexistent"],
            "NOT_A_FOLDER",
            2,
        ),
        (&["caged"], "SANDBOX_UNAVAILABLE", 5),
        (&["note", "-p", "topic=a"], "TOOL_FAILED", 1),
    ] {
        let ran = project.piton(["tool", "run", "--format", "json"].iter().chain(words));
        assert_eq!(ran.code(), Some(exit), "{ran}");
        let told = ran.last_json();
        assert_eq!(
            (told["code"].as_str(), told["status"].as_str()),
            (Some(code), Some("error")),
            "{ran}"
        );
        assert_eq!(
            (told["tool_id"].as_str(), told["action"].as_str()),
            (Some(words[0]), Some("run")),
            "{ran}"
        );
        for field in ["error", "message"] {
            assert!(
                told[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field}: {ran}"
            );
        }
        assert_eq!(ran.stderr(), "");
    }
    let project = project.file(".ai/config.yaml", "signature:\n  require: nobody\n");
    let told = project
        .piton(["tool", "run", "note", "--format", "json"])
        .last_json();
    assert_eq!(
        (told["code"].as_str(), told["tool_id"].as_str()),
        (Some("INVALID_SETTINGS"), Some("note"))
    );
    assert_eq!(told["findings"][0]["line"], 2);
}

#[test]
fn what_the_policy_forbids_is_said_once() {
    let project = TestProject::new()
        .tool("note", "", "echo")
        .directive("other", ["else"])
        .file(".ai/tools/changed.yaml", format!("# kiwi-mcp:validated:2026-01-02T03:04:05Z:{}\ntool_id: changed\ntool_type: cli\nversion: \"1.0.0\"\nexecutor: subprocess\nconfig: {{command: echo}}\n", "0".repeat(64)))
        .committed();
    cmd_snapshot!(project.piton(["tool", "run", "note", "--as", "other"]), @r#"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    error: directive `other` does not allow: run the tool `note` [PERMISSION_DENIED]
    hint: add <execute resource="tool" id="note"/> to the <permissions> of `other`
    "#);
    cmd_snapshot!(project.piton(["tool", "run", "changed"]), @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    error: Content hash mismatch: `changed` does not match its stamp: stamped 000000000000…, found 19dc58ff8df0…
     --> .ai/tools/changed.yaml:1:1

    hint: see what changed since it was stamped; if you meant it, stamp it again with `piton sign`
    ");
    let project = project.file(".ai/config.yaml", "signature:\n  require: integrity\n");
    cmd_snapshot!(project.piton(["tool", "run", "note"]), @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    error: only signed items may run, and not signed is `.ai/tools/note/tool.yaml`

    hint: read them, then `piton sign` them; `piton config signature.require` shows where this is asked for
    ");
}

#[test]
fn what_a_parser_made_is_the_result_for_people_too() {
    let project = TestProject::new().file(
        ".ai/parsers/loud.py",
        "def parse(content): return {\"loud\": content.upper()}\n",
    );
    let table = "config: {command: printf, args: [\"a,b\\\\n1,2\\\\n\"]}\noutputs: {parser: csv}";
    let project = command(project, "table", table);
    let project = command(
        project,
        "shout",
        "config: {command: printf, args: [hello]}\noutputs: {parser: loud}",
    )
    .committed();
    cmd_snapshot!(project.piton(["tool", "run", "table"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "rows": [
        {
          "a": "1",
          "b": "2"
        }
      ]
    }
    ----- stderr -----
    warning: not signed: table (`piton sign table`)
    a,b
    1,2
    no changes
    "#);
    cmd_snapshot!(project.piton(["tool", "run", "shout"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "loud": "HELLO"
    }
    ----- stderr -----
    warning: not signed: shout (`piton sign shout`)
    hello
    no changes
    "#);
}

#[test]
fn a_failure_says_what_to_look_at() {
    let source = "def main(what: str):\n    if what == 'leave':\n        raise SystemExit(3)\n    return {'it': object()}\n";
    let script = "sleep 1000 > /dev/null 2>&1 & echo why >&2; exit 4";
    let project = TestProject::new()
        .file(".ai/scripts/odd.py", source)
        .tool("loud", "", script)
        .committed();
    cmd_snapshot!(project.piton(["tool", "run", "odd", "-p", "what=leave"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: odd (`piton sign odd`)
    no changes
    error: tool `odd` exited with status 3 [TOOL_FAILED]
    hint: it printed nothing; `--dry-run` shows what is called
    ");
    cmd_snapshot!(project.piton(["tool", "run", "odd", "-p", "what=return"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: odd (`piton sign odd`)
    the result is no JSON: a value of type `object` at `result['it']`
    no changes
    error: tool `odd` returned a result that is no JSON: a value of type `object` at `result['it']` [NO_JSON]
    hint: return texts, numbers, booleans, lists, mappings or nothing
    ");
    cmd_snapshot!(project.piton(["tool", "run", "loud"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: loud (`piton sign loud`)
    why
    no changes
    warning: 1 leftover process was killed
    error: tool `loud` exited with status 4 [TOOL_FAILED]
    hint: its output is saved in `.ai/outputs/tools/loud/output_[TIME].json`
    ");
}
