//! Where the kernel narrows what a tool may write to the folders of its grants.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::outside;
use crate::harness::{Ran, TestProject};
use crate::hazards::unprivileged::Unprivileged;

/// A project with a tool `t` and a directive `d` that grants the tool and these permissions.
fn project(more: &str, permissions: &str, script: &str) -> TestProject {
    let directive = format!(
        "```xml\n<directive name=\"d\" version=\"1.0.0\">\n<metadata><description>d</description>\
         <permissions><execute resource=\"tool\" id=\"t\"/>{permissions}</permissions></metadata>\n\
         <process><step name=\"a\"><execute item_type=\"tool\" item_id=\"t\"/></step></process>\n</directive>\n```\n"
    );
    TestProject::new()
        .file("docs/a", "a\n")
        .file("src/a", "a\n")
        .tool("t", more, &format!("set -e\n{script}\n"))
        .file(".ai/directives/d.md", directive)
        .committed()
}

const CALL: [&str; 8] = [
    "tool",
    "run",
    "t",
    "--format",
    "json",
    "--checkpoint",
    "auto",
    "--as",
];

fn call(project: &TestProject) -> Ran {
    project.piton(CALL.iter().chain(&["d"]))
}

/// How each grant to write is enforced.
fn enforcement(ran: &Ran) -> Vec<(String, String)> {
    let result = ran.last_json();
    let permissions = result["permissions"].as_array().expect("a list").clone();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = permissions.iter().map(|permission| {
        let need = word(&permission["need"]);
        let path = need.split("path=\"").nth(1).unwrap_or_default();
        let path = path.trim_end_matches("\"/>").to_owned();
        (path, word(&permission["enforcement"]))
    });
    all.filter(|(path, _)| !path.is_empty()).collect()
}

fn enforced(ran: &Ran, path: &str) -> String {
    let all = enforcement(ran);
    let mut found = all.iter().filter(|(of, _)| of == path);
    found
        .next()
        .unwrap_or_else(|| panic!("{path}\n{ran}"))
        .1
        .clone()
}

const DOCS: &str = "<write path=\"docs/**\"/>";

#[test]
fn the_kernel_keeps_a_tool_in_the_folders_that_it_may_write() {
    let project = project("", DOCS, "echo b > docs/b; echo b > src/a");
    let ran = call(&project);
    let result = ran.last_json();
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!("TOOL_FAILED")),
        "{ran}"
    );
    assert_eq!(
        result["suggestion"],
        json!(
            "the kernel did not let it write `src/a`: add <write resource=\"filesystem\" path=\"src/a\"/> to the \
             <permissions> of `d`"
        )
    );
    assert_eq!(enforced(&ran, "docs/**"), "kernel");
    assert_eq!(project.read("src/a"), "a\n");
    let shown = project.piton(["show", result["run_id"].as_str().expect("a run")]);
    assert!(
        shown.stdout().contains("in `d`, enforced: kernel\n"),
        "{shown}"
    );
    let dry = project.piton(["run", "d", "--dry-run"]);
    assert!(dry.stdout().contains("enforced: kernel"), "{dry}");
    // The mode of a file is changed without opening it.
    for script in [
        "chmod 755 src/a",
        "touch new",
        "mv src/a src/b",
        "rm src/a",
        "mv docs elsewhere",
    ] {
        let project = self::project("", DOCS, script);
        let ran = call(&project);
        assert_eq!(ran.code(), Some(1), "{script}\n{ran}");
        project.assert_clean();
    }
}

#[test]
fn a_tool_works_in_the_folders_that_it_may_write() {
    let script = "echo b > docs/b; mkdir docs/c; mv docs/b docs/c; rm docs/a; f=$(mktemp); mv $f docs/d; git status --short";
    for level in ["standard", "sandboxed"] {
        let project = project(&format!("isolation: {level}"), DOCS, script);
        let home = outside(&project).to_string_lossy().into_owned();
        let project = project.variable("HOME", &home);
        let ran = call(&project);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(enforced(&ran, "docs/**"), "kernel");
    }
    let project = project("", DOCS, script);
    let user = Unprivileged::someone();
    let words: Vec<&str> = CALL.into_iter().chain(["d"]).collect();
    let ran = user.piton(&project, &words);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn a_grant_that_the_kernel_cannot_enforce_says_so() {
    // Another grant makes the folder around it writable.
    let wide = format!("{DOCS}<write path=\"*.md\"/>");
    let cases = [
        ("", DOCS, "docs/**", "kernel"),
        ("", "<write path=\"docs\"/>", "docs", "kernel"),
        ("", "<write path=\"**\"/>", "**", "kernel"),
        (
            "",
            "<write path=\"docs/*.md\"/>",
            "docs/*.md",
            "after_the_fact",
        ),
        ("", "<write path=\"docs/a\"/>", "docs/a", "after_the_fact"),
        ("", "<write path=\"new/**\"/>", "new/**", "after_the_fact"),
        ("", &wide, "docs/**", "after_the_fact"),
        ("isolation: trusted", DOCS, "docs/**", "after_the_fact"),
        (
            "",
            "<write path=\"docs/**\"/><deny><write path=\"docs/*.md\"/></deny>",
            "docs/**",
            "after_the_fact",
        ),
        (
            "",
            "<write path=\"**\"/><deny><write path=\"src/**\"/></deny>",
            "**",
            "kernel",
        ),
    ];
    for (more, permissions, path, by) in cases {
        let project = project(more, permissions, "true");
        assert_eq!(enforced(&call(&project), path), by, "{more} {permissions}");
    }
}

#[test]
fn a_change_that_no_grant_covers_is_rolled_back_where_the_kernel_allows_it() {
    for (permissions, script) in [
        ("<write path=\"docs/*.md\"/>", "echo b > docs/b"),
        ("<write path=\"new/**\"/>", "echo b > src/a"),
        (
            "<write path=\"docs/**\"/><write path=\"*.md\"/>",
            "echo b > src/a",
        ),
    ] {
        let project = project("", permissions, script);
        let ran = call(&project);
        assert_eq!(ran.code(), Some(3), "{script}\n{ran}");
        project.assert_clean();
    }
}

#[test]
fn a_tool_writes_only_where_its_own_declaration_and_every_grant_let_it() {
    let more = "writes: ['docs/sent/**', 'src/**']";
    let with = |script| {
        let project = project(more, DOCS, script);
        fs::create_dir_all(project.root().join("docs/sent")).expect("a folder");
        call(&project)
    };
    assert_eq!(with("echo b > docs/sent/b").code(), Some(0));
    for script in ["echo b > docs/b", "echo b > src/b", "echo b > b"] {
        let ran = with(script);
        assert_eq!(ran.code(), Some(1), "{script}\n{ran}");
    }
    let denied = format!("{DOCS}<deny><write path=\"docs/sent/**\"/></deny>");
    let project = project("", &denied, "echo b > docs/b; echo b > docs/sent/b");
    fs::create_dir_all(project.root().join("docs/sent")).expect("a folder");
    let ran = call(&project);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.last_json()["suggestion"].as_str().is_some_and(
            |hint| hint.ends_with("a <deny> of directive `d` forbids to write `docs/sent/b`")
        ),
        "{ran}"
    );
    project.assert_clean();
}

#[test]
fn a_symlink_in_the_place_of_a_granted_folder_opens_nothing() {
    for target in ["../beside", ".git", "src"] {
        let project = project("", "<write path=\"linked/**\"/>", "echo b > linked/config");
        fs::create_dir_all(outside(&project).join("beside")).expect("a folder");
        symlink(target, project.root().join("linked")).expect("a link");
        let project = project.committed();
        let before = project.read(".git/config");
        let ran = call(&project);
        assert_ne!(ran.code(), Some(0), "{target}\n{ran}");
        assert_eq!(enforced(&ran, "linked/**"), "after_the_fact");
        assert!(!outside(&project).join("beside/config").exists());
        assert_eq!(project.read(".git/config"), before);
        project.assert_clean();
    }
}

#[test]
fn items_are_writable_where_a_grant_names_them() {
    let knowledge = "<write path=\".ai/knowledge/**\"/>";
    let with = |permissions, script| {
        let project = project("", permissions, script).file(".ai/knowledge/a.md", "a\n");
        call(&project.committed())
    };
    let ran = with(knowledge, "echo b > .ai/knowledge/b.md");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(enforced(&ran, ".ai/knowledge/**"), "kernel");
    for script in [
        "echo b > .ai/tools/b",
        "echo b > src/a",
        "echo b > .git/config",
    ] {
        assert_eq!(with(knowledge, script).code(), Some(1), "{script}");
    }
    let ran = with("<write path=\"**\"/>", "echo b > .ai/knowledge/b.md");
    assert_eq!(ran.code(), Some(1), "{ran}");
}

#[test]
fn a_project_below_the_temporary_folder_is_closed_as_well() {
    let project = project("", DOCS, "echo b > src/a");
    let above = outside(&project).to_string_lossy().into_owned();
    let project = project.variable("TMPDIR", &above);
    let ran = call(&project);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(enforced(&ran, "docs/**"), "kernel");
    assert_eq!(project.read("src/a"), "a\n");
}
