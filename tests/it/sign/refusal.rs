//! Items that are not signed, with the reason.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::harness::{TestProject, cmd_snapshot};

const HEAD: &str = "# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n# description: Breaks\n# tool_id: broke\n";

#[test]
fn a_script_that_cannot_be_parsed_is_not_signed() {
    let manifest = "tool_id: beside\ntool_type: script\nversion: \"1.0.0\"\ndescription: d\nexecutor: bash_runtime\n\
                    config:\n  entrypoint: beside.sh\n";
    let project = TestProject::new()
        .file(".ai/tools/broke.sh", format!("{HEAD}if then (\n"))
        .file(".ai/tools/beside.yaml", manifest)
        .file(".ai/tools/beside.sh", "if then (\n")
        .tool("good", "", "true")
        .tool("lost", "", "true")
        .committed();
    project.bash("sed -i s/bash_runtime/nowhere/ .ai/tools/lost/tool.yaml; git commit -qam lost");
    cmd_snapshot!(project.piton(["sign", "broke"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: `broke` cannot be signed: SYNTAX_ERROR: syntax error near unexpected token `then'

    hint: fix the script here, or just above
    ");
    cmd_snapshot!(project.piton(["sign", "--all", "--dry-run"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    would sign tool       good    aed314cbd2fa  .ai/tools/good/tool.yaml
    ----- stderr -----
    ✗ tool `beside` (.ai/tools/beside.yaml): SYNTAX_ERROR: syntax error near unexpected token `then'
    hint: fix the script here, or just above
    ✗ tool `broke` (.ai/tools/broke.sh): SYNTAX_ERROR: syntax error near unexpected token `then'
    hint: fix the script here, or just above
    ✗ tool `lost` (.ai/tools/lost/tool.yaml): UNKNOWN_EXECUTOR: tool `lost` names executor `nowhere`, which does not exist (`lost` → `nowhere`)
    hint: built in are `subprocess`, `http_client`, `python_runtime`, `bash_runtime`, `node_runtime` and `docker_runtime`
    error: would sign 1 of 4 items, 3 cannot be signed
    ");
    project.assert_clean();
}

#[test]
fn files_that_are_not_items_are_named_in_every_layer() {
    let project = TestProject::new()
        .tool("good", "", "true")
        .file(".ai/tools/two\nlines.sh", HEAD)
        .home_file(".ai/tools/bad.yaml", "nothing\n")
        .committed();
    symlink("/etc/hostname", project.root().join(".ai/tools/x.py")).expect("a link");
    cmd_snapshot!(project.piton(["sign", "--all", "--dry-run"]), @r"
    success: false
    exit_code: 1
    ----- stdout -----
    would sign tool       good        aed314cbd2fa  .ai/tools/good/tool.yaml
    ----- stderr -----
    ✗ tool `two\nlines` (.ai/tools/two\nlines.sh): INVALID_PATH: the name holds control characters
    hint: rename it
    ✗ tool `x` (.ai/tools/x.py): PATH_ESCAPE: the link leaves the project
    hint: copy the file into the project
    error: would sign 1 of 3 items, 2 cannot be signed
    ");
    cmd_snapshot!(project.piton(["sign", "--check"]), @r"
    success: false
    exit_code: 1
    ----- stdout -----
    unsigned   tool       good        .ai/tools/good/tool.yaml
    unreadable tool       two\nlines  .ai/tools/two\nlines.sh  INVALID_PATH: the name holds control characters
    unreadable tool       x           .ai/tools/x.py  PATH_ESCAPE: the link leaves the project
    ----- stderr -----
    error: 3 items: 1 unsigned, 2 not as they must be
    hint: rename it
    ");
    cmd_snapshot!(project.piton(["tool", "run", "x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `x` cannot be loaded: the link leaves the project
     --> .ai/tools/x.py:1:1

    hint: copy the file into the project
    ");
    cmd_snapshot!(project.piton(["sign", "--all", "--source", "user"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: `*` cannot be signed: signed 0 of 1 item, 1 cannot be signed; the first: `bad`: INVALID_TYPE: a tool manifest must be a mapping, not a string

    hint: `piton validate ~/.ai` says what is wrong with them
    ");
    cmd_snapshot!(project.piton(["sign", "--check", "--source", "user"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    unreadable tool       bad  [HOME]/.ai/tools/bad.yaml  INVALID_TYPE: a tool manifest must be a mapping, not a string
    ----- stderr -----
    error: 1 item: 1 not as they must be
    hint: begin with `tool_id:`
    ");
    cmd_snapshot!(project.piton(["search", "good"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    1.00  tool  good  -  The tool good
    ----- stderr -----
    1 item
    warning: 3 files could not be read as items: `piton validate` or `piton validate ~/.ai` says why
    ");
    let home = project.home().join(".ai");
    let report = project
        .piton([
            "validate",
            home.to_str().expect("UTF-8"),
            "--format",
            "json",
        ])
        .json();
    assert_eq!(report["valid"], json!(false), "{report:#}");
    fs::remove_file(home.join("tools/bad.yaml")).expect("there");
    cmd_snapshot!(project.piton(["sign", "--check", "--source", "user"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ there are no items to check
    ");
}
