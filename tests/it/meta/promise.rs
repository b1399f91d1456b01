//! What a tool declares also applies when another tool calls it.

use serde_json::json;

use super::{meta, once, project, run};
use crate::harness::{TestProject, cmd_snapshot};

/// Tools that write where they declare it, and one that does not.
fn writers() -> TestProject {
    TestProject::new()
        .file("README.md", "one\n")
        .tool(
            "docs",
            "writes: [\"docs/**\"]\n",
            "mkdir -p docs; echo text > docs/a.md",
        )
        .tool(
            "code",
            "writes: [\"src/**\"]\n",
            "mkdir -p src; echo code > src/a.rs",
        )
        .tool(
            "stray",
            "isolation: trusted\nwrites: [\"src/**\"]\n",
            "mkdir -p docs; echo text > docs/b.md",
        )
        .tool("quiet", "mutates_state: false\n", "echo loud > loud.txt")
}

#[test]
fn every_tool_is_held_to_what_it_says_it_writes() {
    let project = once("fine", "docs, code", "[{ tool: 'docs' }, { tool: 'code' }]")(writers());
    // The other tool may write there, but did not.
    let project = once(
        "astray",
        "docs, stray",
        "[{ tool: 'docs' }, { tool: 'stray' }]",
    )(project)
    .ticking()
    .committed();
    let result = run(&project, "fine", "auto");
    assert_eq!(
        (&result["status"], &result["checkpoint"]["files_changed"]),
        (&json!("success"), &json!(2)),
        "{result}"
    );
    cmd_snapshot!(project.piton(["tool", "run", "astray", "--checkpoint", "auto"]), @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    warning: not signed: astray, docs, stray (`piton sign astray docs stray`)
    ✗ rolled back 1 file
    error: the step changed files that it may not change: `docs/b.md` [WRITE_DENIED]
    hint: the tool `stray@1.0.0` says that it writes `src/**`; add `docs/b.md` to `writes`; `piton restore 01kdyadef0fgz2syhf4d156af1/1` restores the changes
    ");
    project.assert_clean();
}

#[test]
fn a_meta_tool_must_follow_its_own_declaration_too() {
    let calls = "[{ tool: 'docs' }, { tool: 'code' }]";
    let function = format!("results.length ? {{ result: 1 }} : {{ calls: {calls} }}");
    let project = meta("narrow", "docs, code", "writes: [\"docs/**\"]\n", &function)(writers());
    let project = once("outer", "narrow", "[{ tool: 'narrow' }]")(project).committed();
    for id in ["narrow", "outer"] {
        let result = run(&project, id, "auto");
        assert_eq!(
            (&result["code"], &result["denied_paths"]),
            (&json!("WRITE_DENIED"), &json!(["src/a.rs"])),
            "{result}"
        );
        project.assert_clean();
    }
}

#[test]
fn an_undeclared_change_is_reported_and_refused_if_required() {
    let project = once(
        "sum",
        "docs, quiet",
        "[{ tool: 'docs' }, { tool: 'quiet' }]",
    )(writers())
    .committed();
    let strict = project.piton([
        "tool",
        "run",
        "sum",
        "--checkpoint",
        "auto",
        "--strict",
        "--format",
        "json",
    ]);
    assert_eq!(
        strict.last_json()["code"],
        "UNDECLARED_MUTATION",
        "{strict}"
    );
    project.assert_clean();
    let result = run(&project, "sum", "auto");
    assert_eq!(
        (&result["status"], &result["undeclared_mutation"]),
        (&json!("success"), &json!(["loud.txt"])),
        "{result}"
    );
}

#[test]
fn concurrent_changes_by_other_processes_are_left_alone() {
    let project = once(
        "busy",
        "slow, keep",
        "[{ tool: 'slow' }, { tool: 'keep', args: { number: 1 } }]",
    )(project());
    let project = project
        .tool("slow", "", crate::harness::MEETING)
        .committed();
    let ran = project.piton_while(
        "echo mine >> README.md",
        ["tool", "run", "busy", "--checkpoint", "auto"],
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["status", "--porcelain"]), " M README.md\n");
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "number.txt\n"
    );
}
