//! Hazards 47 to 56: ids, paths and resolution.

use std::fs;
use std::os::unix::fs::symlink;

use super::{manifest, told, tool, validated};
use crate::harness::TestProject;

fn script(entrypoint: &str) -> TestProject {
    let text = format!(
        "tool_id: s\ntool_type: script\nversion: \"1.0.0\"\ndescription: S\nexecutor: bash_runtime\n\
         config:\n  entrypoint: {entrypoint}\n"
    );
    TestProject::new().file(".ai/tools/s/tool.yaml", text)
}

fn runtime(id: &str, executor: &str) -> String {
    format!(
        "tool_id: {id}\ntool_type: runtime\nversion: \"1.0.0\"\ndescription: R\nexecutor: {executor}\n\
         config:\n  command: x\n"
    )
}

#[test]
fn g47_path_as_id() {
    for id in [
        "../../etc/x",
        "/etc/passwd",
        "a/../b",
        "a//b",
        "",
        "-x",
        "a b",
        "a\nb",
        "~/x",
        &"x".repeat(100_000),
    ] {
        let ran = TestProject::new().limited(["tool", "show", "--format", "json", "--", id]);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stdout().contains("INVALID_ID"), "{ran}");
        let ran = TestProject::new().limited(["directive", "show", "--format", "json", "--", id]);
        assert_eq!(
            (ran.code(), ran.stdout().contains("INVALID_ID")),
            (Some(2), true),
            "{ran}"
        );
    }
    validated!(manifest(tool("").replace("tool_id: t", "tool_id: ../../etc/x")), @"
    exit 2
    error INVALID_ID .ai/tools/t.yaml:1:10 `../../etc/x` is not an id: each part must begin with a letter or digit
    ");
    validated!(manifest(tool("").replace("subprocess", "../../etc/x")), @"
    exit 2
    error INVALID_ID .ai/tools/t.yaml:5:11 the executor is no id: `../../etc/x` is not an id: each part must begin with a letter or digit
    ");
}

#[test]
fn g48_absolute_entrypoint() {
    validated!(script("/etc/passwd"), @r"
    exit 2
    error PATH_ESCAPE .ai/tools/s/tool.yaml:7:15 Entrypoint \'/etc/passwd\' leaves the tool\'s folder
    ");
    validated!(script("../../../etc/passwd"), @r"
    exit 2
    error PATH_ESCAPE .ai/tools/s/tool.yaml:7:15 Entrypoint \'../../../etc/passwd\' leaves the tool\'s folder
    ");
    validated!(script("''"), @r"
    exit 2
    error INVALID_PATH .ai/tools/s/tool.yaml:7:15 Entrypoint \'\' is empty or holds control characters
    ");
}

#[test]
fn g49_links_that_escape() {
    let project = script("main.sh");
    symlink("/etc/passwd", project.root().join(".ai/tools/s/main.sh")).expect("a link");
    validated!(project, @r"
    exit 2
    error PATH_ESCAPE .ai/tools/s/tool.yaml:7:15 Entrypoint \'main.sh\' is a link that leaves the tool\'s folder
    ");

    let project = script("main.sh").file(".ai/tools/s/main.sh", "true\n");
    symlink(
        "/etc/passwd",
        project.root().join(".ai/tools/s/requirements.txt"),
    )
    .expect("a link");
    symlink("/etc/passwd", project.root().join(".ai/config.yaml")).expect("a link");
    validated!(project, @r"
    exit 2
    error PATH_ESCAPE .ai/config.yaml:1:1 the link leaves the project
    error PATH_ESCAPE .ai/tools/s/requirements.txt:1:1 the link leaves the tool\'s folder
    ");

    let project = script("lib/passwd");
    symlink("/etc", project.root().join(".ai/tools/s/lib")).expect("a link");
    validated!(project, @r"
    exit 2
    error PATH_ESCAPE .ai/tools/s/tool.yaml:7:15 Entrypoint \'lib/passwd\' is a link that leaves the tool\'s folder
    ");

    let project = TestProject::new()
        .file(".ai/tools/keep.txt", "")
        .home_file("x/tool.yaml", tool(""));
    symlink(project.home().join("x"), project.root().join(".ai/tools/t")).expect("a link");
    symlink(
        project.home().join("x/tool.yaml"),
        project.root().join(".ai/tools/u.yaml"),
    )
    .expect("a link");
    fs::create_dir(project.root().join(".ai/tools/v")).expect("a folder");
    symlink(
        project.home().join("x/tool.yaml"),
        project.root().join(".ai/tools/v/tool.yaml"),
    )
    .expect("a link");
    symlink("/etc", project.root().join(".ai/directives")).expect("a link");
    symlink("/etc", project.root().join(".ai/extractors")).expect("a link");
    validated!(project, @"
    exit 2
    error PATH_ESCAPE .ai/directives:1:1 the link leaves the project
    error PATH_ESCAPE .ai/extractors:1:1 the link leaves the project
    error PATH_ESCAPE .ai/tools/t:1:1 the link leaves the project
    error PATH_ESCAPE .ai/tools/u.yaml:1:1 the link leaves the project
    error PATH_ESCAPE .ai/tools/v/tool.yaml:1:1 the link leaves the project
    ");
}

#[test]
fn g49_links_that_loop() {
    let project = TestProject::new()
        .file(".ai/tools/a/t.yaml", tool(""))
        .file(".ai/directives/x/keep.txt", "");
    symlink("..", project.root().join(".ai/tools/a/up")).expect("a link");
    symlink("self", project.root().join(".ai/tools/self")).expect("a link");
    symlink("../../..", project.root().join(".ai/directives/x/top")).expect("a link");
    symlink("nowhere", project.root().join(".ai/directives/x/none.md")).expect("a link");
    validated!(project, @"
    exit 2
    warning IGNORED_FILE .ai/directives/x/keep.txt:1:1 only Markdown files that end in `.md` are read here
    error UNREADABLE_FILE .ai/directives/x/none.md:1:1 the link leads nowhere
    error UNREADABLE_FILE .ai/directives/x/top:1:1 the link leads to a folder it lies in
    error UNREADABLE_FILE .ai/tools/a/up:1:1 the link leads to a folder it lies in
    error UNREADABLE_FILE .ai/tools/self:1:1 the link leads nowhere
    ");

    let project = script("main.sh");
    symlink("main.sh", project.root().join(".ai/tools/s/main.sh")).expect("a link");
    validated!(project, @r"
    exit 2
    error MISSING_ENTRYPOINT .ai/tools/s/tool.yaml:7:15 Entrypoint \'main.sh\' not found
    ");
}

#[test]
fn g50_control_characters_in_paths() {
    validated!(script("\"main\\0.sh\""), @r"
    exit 2
    error INVALID_PATH .ai/tools/s/tool.yaml:7:15 Entrypoint \'main\\0.sh\' is empty or holds control characters
    ");
    validated!(script("\"main\\n.sh\""), @r"
    exit 2
    error INVALID_PATH .ai/tools/s/tool.yaml:7:15 Entrypoint \'main\\n.sh\' is empty or holds control characters
    ");
    let project = TestProject::new()
        .file(".ai/tools/a\nb.yaml", tool(""))
        .file(".ai/directives/\u{1b}[31m.md", "x");
    validated!(project, @r"
    exit 2
    error INVALID_PATH .ai/directives/\u{1b}[31m.md:1:1 the name holds control characters
    error INVALID_PATH .ai/tools/a\nb.yaml:1:1 the name holds control characters
    ");
    let project = TestProject::new().file(".ai/tools/keep.txt", "");
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"x\xff.yaml");
    fs::write(
        project
            .root()
            .join(".ai/tools")
            .join::<&std::ffi::OsStr>(name),
        tool(""),
    )
    .expect("a file");
    validated!(project, @"
    exit 2
    error INVALID_PATH .ai/tools/x�.yaml:1:1 the name is not valid UTF-8
    ");
    told!(TestProject::new(), ["validate", "--format", "json", "a\nb"], @r#"
    exit 2
    {"error":{"code":"CANNOT_READ","message":"cannot read `a\nb`: No such file or directory (os error 2)","suggestion":"name a file or folder that exists; paths are relative to the current folder"}}
    "#);
}

#[test]
fn g51_one_id_in_several_layers() {
    let project = TestProject::new()
        .file(
            ".ai/tools/bash_runtime.yaml",
            runtime("bash_runtime", "subprocess"),
        )
        .file(".ai/tools/t.yaml", tool(""))
        .home_file(".ai/tools/t.yaml", tool("").replace("1.0.0", "2.0.0"));
    validated!(project, @"exit 0");
    let shown = project
        .limited(["tool", "show", "t", "--format", "json"])
        .json();
    assert_eq!(
        (shown["source"].as_str(), shown["version"].as_str()),
        (Some("project"), Some("1.0.0"))
    );

    let project = manifest(tool(""))
        .file(".ai/tools/other.yaml", tool(""))
        .file(".ai/scripts/t.yaml", tool(""));
    validated!(project, @"
    exit 2
    error DUPLICATE_ID .ai/tools/other.yaml:1:10 tool `t` is defined 2 times: .ai/tools/other.yaml, .ai/tools/t.yaml
    error DUPLICATE_ID .ai/tools/t.yaml:1:10 tool `t` is defined 2 times: .ai/tools/other.yaml, .ai/tools/t.yaml
    ");
    told!(project, ["tool", "show", "t", "--format", "json"], @r#"
    exit 2
    {"error":{"code":"DUPLICATE_ID","message":"tool `t` is defined 2 times: .ai/tools/other.yaml, .ai/tools/t.yaml","suggestion":"give each item of a layer an id of its own"}}
    "#);
}

#[test]
fn g52_ids_that_differ_by_case() {
    validated!(manifest(tool("")).file(".ai/tools/u.yaml", tool("").replace("tool_id: t", "tool_id: T")), @"
    exit 0
    warning NAMING_CONVENTION .ai/tools/t.yaml:1:10 tool `t` and `T` differ only in case: .ai/tools/u.yaml
    warning NAMING_CONVENTION .ai/tools/u.yaml:1:10 `T` is not snake_case
    warning NAMING_CONVENTION .ai/tools/u.yaml:1:10 tool `T` and `t` differ only in case: .ai/tools/t.yaml
    ");
}

#[test]
fn g53_circular_chain() {
    let project = TestProject::new()
        .file(".ai/tools/a.yaml", runtime("a", "b"))
        .file(".ai/tools/b.yaml", runtime("b", "a"))
        .file(".ai/tools/c.yaml", runtime("c", "c"));
    validated!(project, @"
    exit 2
    error EXECUTOR_CYCLE .ai/tools/a.yaml:5:11 executor chain loops: `a` → `b` → `a`
    error EXECUTOR_CYCLE .ai/tools/b.yaml:5:11 executor chain loops: `b` → `a` → `b`
    error EXECUTOR_CYCLE .ai/tools/c.yaml:5:11 executor chain loops: `c` → `c`
    ");
    let ran = project.limited(["tool", "show", "a"]);
    assert_eq!(
        (ran.code(), ran.stderr().contains("executor chain loops")),
        (Some(0), true),
        "{ran}"
    );
}

#[test]
fn g54_long_chain() {
    let mut project = TestProject::new();
    for at in 0..17 {
        let next = if at == 16 {
            "subprocess".to_owned()
        } else {
            format!("r{}", at + 1)
        };
        project = project.file(
            &format!(".ai/tools/r{at}.yaml"),
            runtime(&format!("r{at}"), &next),
        );
    }
    let ran = project.limited(["validate", "--format", "json"]);
    let findings = ran.json();
    let deep: Vec<_> = findings["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|f| f["code"] == "EXECUTOR_DEPTH")
        .collect();
    assert_eq!(ran.code(), Some(2));
    let files: Vec<_> = deep
        .iter()
        .map(|finding| (finding["file"].as_str(), finding["line"].as_u64()))
        .collect();
    assert_eq!(
        files,
        [
            (Some(".ai/tools/r0.yaml"), Some(5)),
            (Some(".ai/tools/r1.yaml"), Some(5))
        ],
        "{ran}"
    );
}

#[test]
fn g54_a_chain_of_two_thousand() {
    let mut project = TestProject::new();
    for at in 0..2_000 {
        project = project.file(
            &format!(".ai/tools/r{at}.yaml"),
            runtime(&format!("r{at}"), &format!("r{}", at + 1)),
        );
    }
    let ran = project.limited(["validate", "--format", "json"]);
    assert_eq!(ran.code(), Some(2));
    let report = ran.json();
    let codes: std::collections::BTreeSet<_> = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|finding| finding["code"].as_str())
        .collect();
    assert_eq!(
        codes.into_iter().collect::<Vec<_>>(),
        ["EXECUTOR_DEPTH", "UNKNOWN_EXECUTOR", "UNSIGNED"]
    );
}

#[test]
fn g55_missing_executor() {
    validated!(manifest(tool("").replace("subprocess", "subproces")), @"
    exit 2
    error UNKNOWN_EXECUTOR .ai/tools/t.yaml:5:11 tool `t` names executor `subproces`, which does not exist (`t` → `subproces`)
    ");
    validated!(manifest(tool("").replace("subprocess", "zzzzzz")), @"
    exit 2
    error UNKNOWN_EXECUTOR .ai/tools/t.yaml:5:11 tool `t` names executor `zzzzzz`, which does not exist (`t` → `zzzzzz`)
    ");
}

#[test]
fn g56_primitive_in_a_project_file() {
    let text = "tool_id: subprocess\ntool_type: primitive\nversion: \"9.9.9\"\ndescription: Mine\n";
    let project = TestProject::new()
        .file(".ai/tools/subprocess.yaml", text)
        .file(
            ".ai/tools/sub/tool.yaml",
            text.replace("subprocess", "http_client")
                .replace("primitive", "cli"),
        );
    validated!(project, @r"
    exit 2
    error MISSING_REQUIRED_FIELD .ai/tools/sub/tool.yaml:1:1 Tool type \'cli\' requires executor field
    warning PRIMITIVE_SHADOWED .ai/tools/sub/tool.yaml:1:10 `http_client` is a primitive: this file is ignored
    warning PRIMITIVE_SHADOWED .ai/tools/subprocess.yaml:1:10 `subprocess` is a primitive: this file is ignored
    ");
    let shown = project
        .limited(["tool", "show", "subprocess", "--format", "json"])
        .json();
    assert_eq!(shown["source"], "builtin");
}
