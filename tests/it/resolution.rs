//! Resolution of ids to items.

use crate::harness::{TestProject, cmd_snapshot};

fn cli(name: &str) -> String {
    format!(
        "tool_id: {name}\ntool_type: cli\nversion: \"1.0.0\"\ndescription: d\nexecutor: subprocess\nconfig: {{command: x}}\n"
    )
}

/// The layer and file that an id resolves to.
fn found(project: &TestProject, id: &str) -> String {
    let ran = project.piton(["tool", "show", id, "--format", "json"]);
    let json = ran.json();
    let path = json["path"]
        .as_str()
        .unwrap_or_else(|| panic!("{id}: {ran}"));
    let tail = path.split("/.ai/").last().unwrap_or_default();
    format!("{} {tail}", json["source"].as_str().unwrap_or_default())
}

#[test]
fn project_beats_user_beats_builtin() {
    let project = TestProject::new()
        .file(".ai/tools/both.yaml", cli("both"))
        .home_file(".ai/tools/both.yaml", cli("both"))
        .home_file(".ai/tools/mine.yaml", cli("mine"))
        .home_file(
            ".ai/tools/node.yaml",
            cli("node_runtime").replace("cli", "runtime"),
        );
    assert_eq!(found(&project, "both"), "project tools/both.yaml");
    assert_eq!(found(&project, "mine"), "user tools/mine.yaml");
    assert_eq!(found(&project, "node_runtime"), "user tools/node.yaml");
    assert_eq!(
        found(&project, "bash_runtime"),
        "builtin <builtin>/tools/bash_runtime.yaml"
    );
}

#[test]
fn a_broken_item_is_not_replaced_by_one_of_a_lower_layer() {
    let project = TestProject::new()
        .file(".ai/tools/mine.yaml", "tool_id: mine\ntool_type: [\n")
        .file(".ai/tools/bash_runtime.yaml", "tool_id: bash_runtime\n")
        .home_file(".ai/tools/mine.yaml", cli("mine"))
        .home_file(".ai/tools/other.yaml", "tool_id: other\n")
        .file(".ai/tools/other.yaml", cli("other"));
    for id in ["mine", "bash_runtime"] {
        let error = project
            .piton(["tool", "show", id, "--format", "json"])
            .json();
        assert_eq!(error["error"]["code"], "INVALID_ITEM", "{id}");
    }
    assert_eq!(found(&project, "other"), "project tools/other.yaml");
}

#[test]
fn scripts_rank_below_tools() {
    let project = TestProject::new()
        .file(".ai/scripts/a.yaml", cli("ranked"))
        .file(".ai/tools/z.yaml", cli("ranked"))
        .file(".ai/scripts/old.py", "def main(): pass\n");
    assert_eq!(found(&project, "ranked"), "project tools/z.yaml");
    assert_eq!(found(&project, "old"), "project scripts/old.py");
    assert_eq!(project.piton(["validate"]).code(), Some(0));
}

#[test]
fn a_category_narrows_an_id() {
    let project = TestProject::new()
        .file(".ai/tools/x/twin.yaml", cli("twin"))
        .file(".ai/tools/y/twin.yaml", cli("twin"));
    assert_eq!(found(&project, "y/twin"), "project tools/y/twin.yaml");
    cmd_snapshot!(project.piton(["tool", "show", "twin"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `twin` is defined 2 times: .ai/tools/x/twin.yaml, .ai/tools/y/twin.yaml

    hint: give each item of a layer an id of its own
    ");
    cmd_snapshot!(project.piton(["tool", "show", "z/twin"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `z/twin` does not exist

    hint: did you mean `twin`?
    ");
    cmd_snapshot!(project.piton(["validate"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    error[DUPLICATE_ID]: tool `twin` is defined 2 times: .ai/tools/x/twin.yaml, .ai/tools/y/twin.yaml
     --> .ai/tools/x/twin.yaml:1:10
      |
    1 | tool_id: twin
      |          ^^^^
      |
      = hint: rename or remove all but one

    error[DUPLICATE_ID]: tool `twin` is defined 2 times: .ai/tools/x/twin.yaml, .ai/tools/y/twin.yaml
     --> .ai/tools/y/twin.yaml:1:10
      |
    1 | tool_id: twin
      |          ^^^^
      |
      = hint: rename or remove all but one

    ----- stderr -----
    warning: 2 items are not signed; `--format json` lists them
    ✗ 2 tools, 0 directives, 0 knowledge entries: 2 errors, 2 warnings
    hint: `piton help DUPLICATE_ID` explains it with a corrected example; `piton help codes` lists all
    ");
}

#[test]
fn ids_that_differ_only_in_case_are_pointed_out() {
    let project = TestProject::new()
        .file(".ai/tools/one.yaml", cli("Twin"))
        .file(".ai/tools/two.yaml", cli("twin"));
    assert_eq!(found(&project, "Twin"), "project tools/one.yaml");
    cmd_snapshot!(project.piton(["validate"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    warning[NAMING_CONVENTION]: `Twin` is not snake_case
     --> .ai/tools/one.yaml:1:10
      |
    1 | tool_id: Twin
      |          ^^^^
      |
      = hint: write `twin`

    warning[NAMING_CONVENTION]: tool `Twin` and `twin` differ only in case: .ai/tools/two.yaml
     --> .ai/tools/one.yaml:1:10
      |
    1 | tool_id: Twin
      |          ^^^^
      |
      = hint: give one of them another id

    warning[NAMING_CONVENTION]: tool `twin` and `Twin` differ only in case: .ai/tools/one.yaml
     --> .ai/tools/two.yaml:1:10
      |
    1 | tool_id: twin
      |          ^^^^
      |
      = hint: give one of them another id

    ----- stderr -----
    warning: 2 items are not signed; `--format json` lists them
    ✓ 2 tools, 0 directives, 0 knowledge entries: 0 errors, 5 warnings
    ");
}

#[test]
fn primitives_cannot_be_replaced() {
    let project = TestProject::new().file(".ai/tools/subprocess.yaml", cli("subprocess"));
    assert_eq!(
        found(&project, "subprocess"),
        "builtin <builtin>/tools/subprocess.yaml"
    );
    cmd_snapshot!(project.piton(["validate"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    warning[PRIMITIVE_SHADOWED]: `subprocess` is a primitive: this file is ignored
     --> .ai/tools/subprocess.yaml:1:10
      |
    1 | tool_id: subprocess
      |          ^^^^^^^^^^
      |
      = hint: remove the file, or give the tool another id

    ----- stderr -----
    ✓ 0 tools, 0 directives, 0 knowledge entries: 0 errors, 1 warning
    hint: there are no items here; `piton init` creates an example
    ");
}

#[test]
fn a_copy_of_git_checkpoint_is_listed_and_validated() {
    let project = TestProject::new();
    let builtin = project
        .piton([
            "directive",
            "show",
            "core/git_checkpoint",
            "--format",
            "json",
        ])
        .json();
    assert_eq!(builtin["source"], "builtin");
    let text = "```xml\n<directive name=\"git_checkpoint\" version=\"2\">\n  <process><step name=\"a\"><action>x</action></step></process>\n</directive>\n```\n";
    let project = project.file(".ai/directives/core/git_checkpoint.md", text);
    assert_eq!(
        project
            .piton(["directive", "show", "git_checkpoint", "--format", "json"])
            .json()["source"],
        "project"
    );
    assert_eq!(project.piton(["validate"]).code(), Some(2));
}

#[test]
fn chains_that_cannot_work_are_shown_whole() {
    let runtime = |name: &str, executor: &str| {
        cli(name)
            .replace("cli", "runtime")
            .replace("subprocess", executor)
    };
    let project = TestProject::new()
        .file(".ai/tools/a.yaml", runtime("a", "b"))
        .file(".ai/tools/b.yaml", runtime("b", "a"))
        .file(
            ".ai/tools/c.yaml",
            cli("c").replace("subprocess", "bash_runtme"),
        )
        .file(
            ".ai/tools/d.yaml",
            cli("d").replace("subprocess", "http_client"),
        );
    cmd_snapshot!(project.piton(["validate"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    error[EXECUTOR_CYCLE]: executor chain loops: `a` → `b` → `a`
     --> .ai/tools/a.yaml:5:11
      |
    5 | executor: b
      |           ^
      |
      = hint: let one of them name a primitive: `subprocess` or `http_client`

    error[EXECUTOR_CYCLE]: executor chain loops: `b` → `a` → `b`
     --> .ai/tools/b.yaml:5:11
      |
    5 | executor: a
      |           ^
      |
      = hint: let one of them name a primitive: `subprocess` or `http_client`

    error[UNKNOWN_EXECUTOR]: tool `c` names executor `bash_runtme`, which does not exist (`c` → `bash_runtme`)
     --> .ai/tools/c.yaml:5:11
      |
    5 | executor: bash_runtme
      |           ^^^^^^^^^^^
      |
      = hint: did you mean `bash_runtime`?

    error[UNEXPECTED_EXECUTOR]: CLI tools must run through subprocess, got: http_client (`d` → `http_client`)
     --> .ai/tools/d.yaml:5:11
      |
    5 | executor: http_client
      |           ^^^^^^^^^^^
      |
      = hint: write `executor: subprocess`

    ----- stderr -----
    warning: 4 items are not signed; `--format json` lists them
    ✗ 4 tools, 0 directives, 0 knowledge entries: 4 errors, 4 warnings
    hint: `piton help EXECUTOR_CYCLE` explains it with a corrected example; `piton help codes` lists all
    ");
}

#[test]
fn helpers_without_metadata_are_no_tools() {
    let project = TestProject::new()
        .file(".ai/tools/lib/helper.py", "raise SystemExit\n")
        .file(".ai/tools/lib/data.yaml", "a: 1\n");
    cmd_snapshot!(project.piton(["validate"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ 0 tools, 0 directives, 0 knowledge entries: 0 errors, 0 warnings
    hint: there are no items here; `piton init` creates an example
    ");
    cmd_snapshot!(project.piton(["tool", "show", "helper"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `helper` does not exist

    hint: those of a project live in `.ai/tools/`, those of a user in `~/.ai/tools/`
    ");
}

#[test]
fn schemas_and_extractors_that_lead_out_of_the_project_are_refused() {
    let project = TestProject::new()
        .file(".ai/schemas/a/b.json", "{}")
        .file(".ai/extractors/x.txt", "");
    project.bash("ln -s /etc/hostname .ai/schemas/linked.json && ln -s /etc/hostname .ai/extractors/linked.yaml");
    let report = project.piton(["validate", "--format", "json"]).json();
    let told: Vec<String> = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| {
            format!(
                "{} {}",
                it["code"].as_str().unwrap_or_default(),
                it["file"].as_str().unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "PATH_ESCAPE .ai/extractors/linked.yaml",
            "PATH_ESCAPE .ai/schemas/linked.json"
        ]
    );
}

#[test]
fn an_executor_that_cannot_be_loaded_is_not_called_missing() {
    let project = TestProject::new()
        .file(
            ".ai/tools/base.yaml",
            "tool_id: [base]\ntool_type: runtime\nversion: 1.0.0\ndescription: d\nexecutor: subprocess\n",
        )
        .file(".ai/tools/a.yaml", cli("a").replace("subprocess", "base"));
    let findings = project.piton(["validate", "--format", "json"]).json()["findings"].clone();
    let told: Vec<_> = findings
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["code"] == "UNKNOWN_EXECUTOR")
        .map(|it| {
            (
                it["message"].as_str().unwrap_or_default(),
                it["suggestion"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let message = "tool `a` names executor `base`, which cannot be loaded: tool_id must be a string, not a list (`a` → `base`)";
    assert_eq!(told, [(message, "fix `.ai/tools/base.yaml`, line 1 first")]);
}
