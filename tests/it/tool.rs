//! `piton tool show`.

use std::path::Path;

use crate::harness::{TestProject, cmd_snapshot};

const EMAIL: &str = "tool_id: email\ntool_type: script\nversion: \"1.2.0\"\ndescription: d\nexecutor: python_runtime\n\
                     config:\n  entrypoint: main.py\n  requires:\n    - httpx>=0.24\nparameters:\n  - name: address\n    type: string\n    required: true\n";

#[test]
fn every_field_has_its_file_and_line() {
    let project = TestProject::new()
        .file(".ai/tools/mail/email/tool.yaml", EMAIL)
        .file(
            ".ai/tools/mail/email/main.py",
            "def main(address: str): pass\n",
        )
        .file(
            ".ai/tools/mail/email/requirements.txt",
            "# pinned\nhttpx>=0.24\nrich==13.7 \\\n    --hash=sha256:0\n-r more.txt\n",
        );
    cmd_snapshot!(project.piton(["tool", "show", "mail/email"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    email 1.2.0 (script, project)
    d

    path       .ai/tools/mail/email/tool.yaml
    spelling   manifest
    chain      email → python_runtime → subprocess
    signature  unsigned

    tool_id: email  # .ai/tools/mail/email/tool.yaml:1
    tool_type: script  # .ai/tools/mail/email/tool.yaml:2
    kind: script
    version: 1.2.0  # .ai/tools/mail/email/tool.yaml:3
    description: d  # .ai/tools/mail/email/tool.yaml:4
    category: mail
    executor: python_runtime  # .ai/tools/mail/email/tool.yaml:5
    config.entrypoint: main.py  # .ai/tools/mail/email/tool.yaml:7
    parameters[0].name: address  # .ai/tools/mail/email/tool.yaml:11
    parameters[0].type: string  # .ai/tools/mail/email/tool.yaml:12
    parameters[0].required: true  # .ai/tools/mail/email/tool.yaml:13
    isolation: standard
    dependencies[0]: httpx>=0.24  # .ai/tools/mail/email/tool.yaml:9
    dependencies[1]: rich==13.7  # .ai/tools/mail/email/requirements.txt:3
    ----- stderr -----
    ");
}

#[test]
fn json_has_every_promised_key() {
    let project = TestProject::new();
    let json = project
        .piton(["tool", "show", "python_runtime", "--format", "json"])
        .json();
    for key in [
        "tool_id",
        "tool_type",
        "kind",
        "version",
        "description",
        "category",
        "executor",
        "chain",
        "config",
        "parameters",
        "input_schema",
        "output_schema",
        "mutates_state",
        "isolation",
        "requires",
        "source",
        "path",
        "signature",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
}

#[test]
fn parameters_of_main_are_read_without_running_it() {
    let script = "\"\"\"Does old things.\"\"\"\nraise SystemExit\n\n\ndef main(a: int, b: str = \"x\", *, c: list[str] | None = None): pass\n";
    let project = TestProject::new().file(".ai/scripts/old.py", script);
    cmd_snapshot!(project.piton(["tool", "show", "old"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    old 0.0.0 (script, project)
    Does old things.

    path       .ai/scripts/old.py
    spelling   legacy_script
    chain      old → python_runtime → subprocess
    signature  unsigned

    tool_id: old  # .ai/scripts/old.py:1
    tool_type: python  # .ai/scripts/old.py:1
    kind: script
    version: 0.0.0  # .ai/scripts/old.py:1
    description: Does old things.  # .ai/scripts/old.py:1
    executor: python_runtime  # .ai/scripts/old.py:1
    config.entrypoint: old.py  # .ai/scripts/old.py:1
    parameters[0].name: a  # .ai/scripts/old.py:5
    parameters[0].type: integer  # .ai/scripts/old.py:5
    parameters[0].required: true  # .ai/scripts/old.py:5
    parameters[1].name: b  # .ai/scripts/old.py:5
    parameters[1].type: string  # .ai/scripts/old.py:5
    parameters[1].required: false
    parameters[1].default: "x"  # .ai/scripts/old.py:5
    parameters[2].name: c  # .ai/scripts/old.py:5
    parameters[2].type: array  # .ai/scripts/old.py:5
    parameters[2].required: false
    parameters[2].default: null  # .ai/scripts/old.py:5
    isolation: standard
    ----- stderr -----
    "#);
}

#[test]
fn documentation_is_markdown_without_control_characters() {
    let text = EMAIL.replace("description: d", "description: \"a | b \\u001b[2J\"");
    let project = TestProject::new()
        .file(".ai/tools/email/tool.yaml", text)
        .file(".ai/tools/email/main.py", "");
    cmd_snapshot!(project.piton(["tool", "show", "email", "--format", "markdown"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    # email

    `email` 1.2.0 (script)

    a | b \u{1b}[2J

    ## Parameters

    | name | type | required | default | description |
    |---|---|---|---|---|
    | `address` | string | yes |  |  |

    ## Dependencies

    - `httpx>=0.24`

    ## Runs through

    `email` → `python_runtime` → `subprocess`
    ----- stderr -----
    ");
}

#[test]
fn a_tool_that_cannot_be_loaded_says_why() {
    let project = TestProject::new()
        .file(".ai/tools/typeless.yaml", "tool_id: typeless\n")
        .file(
            ".ai/tools/nameless.yaml",
            "tool_type: cli\ntool_id: ''\nversion: 1.0.0\nexecutor: subprocess\nconfig: {command: x}\n",
        );
    cmd_snapshot!(project.piton(["tool", "show", "typeless"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `typeless` cannot be loaded: tool_type is required
     --> .ai/tools/typeless.yaml:1:1

    hint: add `tool_type:` with one of primitive, runtime, script, python, bash, api, mcp_server, mcp_tool, mcp, docker, cli, local, meta, directive, knowledge
    ");
    cmd_snapshot!(project.piton(["tool", "show", "nameless"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `nameless` cannot be loaded: tool_id is required
     --> .ai/tools/nameless.yaml:1:1

    hint: add `tool_id: nameless`
    ");
    cmd_snapshot!(project.piton(["tool", "show", "../x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `../x` is not an id: each part must begin with a letter or digit

    hint: use letters, digits, `_` and `-`; `/` after a category
    ");
    cmd_snapshot!(project.piton(["tool", "show", "nowhere", "--format", "json"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    {"error":{"code":"NOT_FOUND","message":"tool `nowhere` does not exist","suggestion":"those of a project live in `.ai/tools/`, those of a user in `~/.ai/tools/`"}}
    ----- stderr -----
    "#);
}

#[test]
fn spellings_of_one_tool_are_shown_alike() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tools/equal/cli");
    let mut shown = Vec::new();
    for name in ["manifest.yaml", "root.yaml", "gh.sh", "schema.json"] {
        let text = std::fs::read_to_string(fixtures.join(name)).unwrap();
        let project = TestProject::new().file(&format!(".ai/tools/{name}"), text);
        let ran = project.piton(["tool", "show", "github", "--format", "json"]);
        let mut json = ran.json();
        assert_eq!(json["kind"], "cli", "{ran}");
        for key in ["path", "origins", "spelling", "tool_type", "schema_version"] {
            json.as_object_mut().unwrap().remove(key);
        }
        shown.push(json);
    }
    for other in &shown[1..] {
        assert_eq!(other, &shown[0]);
    }
}

#[test]
fn a_manifest_without_parameters_means_those_of_main() {
    let manifest = "tool_id: sum\ntool_type: script\nversion: \"1.0.0\"\ndescription: d\nexecutor: python_runtime\nconfig: {entrypoint: main.py}\n";
    let project = TestProject::new()
        .file(".ai/tools/sum/tool.yaml", manifest)
        .file(
            ".ai/tools/sum/main.py",
            "raise SystemExit\n\n\ndef main(a: int, b: int = 2): pass\n",
        )
        .file(
            ".ai/tools/none/tool.yaml",
            manifest.replace("sum", "none") + "parameters: []\n",
        )
        .file(".ai/tools/none/main.py", "def main(a: int): pass\n");
    cmd_snapshot!(project.piton(["tool", "show", "sum"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    sum 1.0.0 (script, project)
    d

    path       .ai/tools/sum/tool.yaml
    spelling   manifest
    chain      sum → python_runtime → subprocess
    signature  unsigned

    tool_id: sum  # .ai/tools/sum/tool.yaml:1
    tool_type: script  # .ai/tools/sum/tool.yaml:2
    kind: script
    version: 1.0.0  # .ai/tools/sum/tool.yaml:3
    description: d  # .ai/tools/sum/tool.yaml:4
    executor: python_runtime  # .ai/tools/sum/tool.yaml:5
    config.entrypoint: main.py  # .ai/tools/sum/tool.yaml:6
    parameters[0].name: a  # .ai/tools/sum/main.py:4
    parameters[0].type: integer  # .ai/tools/sum/main.py:4
    parameters[0].required: true  # .ai/tools/sum/main.py:4
    parameters[1].name: b  # .ai/tools/sum/main.py:4
    parameters[1].type: integer  # .ai/tools/sum/main.py:4
    parameters[1].required: false
    parameters[1].default: 2  # .ai/tools/sum/main.py:4
    isolation: standard
    ----- stderr -----
    ");
    let none = project
        .piton(["tool", "show", "none", "--format", "json"])
        .json();
    assert_eq!(none["parameters"], serde_json::json!([]));
}
