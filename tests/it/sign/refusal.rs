//! What is not signed, and that it is said.

use crate::harness::{TestProject, cmd_snapshot};

const HEAD: &str =
    "# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n# description: Breaks\n# tool_id: broke\n";

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

    hint: mend the script here, or just above
    ");
    cmd_snapshot!(project.piton(["sign", "--all", "--dry-run"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    would sign tool       good    aed314cbd2fa  .ai/tools/good/tool.yaml
    ----- stderr -----
    ✗ tool `beside` (.ai/tools/beside.yaml): SYNTAX_ERROR: syntax error near unexpected token `then'
    hint: mend the script here, or just above
    ✗ tool `broke` (.ai/tools/broke.sh): SYNTAX_ERROR: syntax error near unexpected token `then'
    hint: mend the script here, or just above
    ✗ tool `lost` (.ai/tools/lost/tool.yaml): UNKNOWN_EXECUTOR: tool `lost` names executor `nowhere`, which does not exist (`lost` → `nowhere`)
    hint: built in are `subprocess`, `http_client`, `python_runtime`, `bash_runtime`, `node_runtime` and `docker_runtime`
    error: would sign 1 of 4 items, 3 cannot be signed
    ");
    project.assert_clean();
}
