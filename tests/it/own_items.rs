//! The items of this repository itself, in `.ai/`: they are valid and work.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{TestProject, cmd_snapshot};

const TIDY: &str = "//! Adds.\n\n/// Adds.\npub fn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n\n#[test]\nfn one_and_one() {\n    assert_eq!(add(1, 1), 2);\n}\n";

#[test]
fn every_item_validates_strictly() {
    let project = with_items(TestProject::new());
    let report = project
        .piton(["validate", "--strict", "--format", "json"])
        .json();
    let findings = report["findings"].as_array().expect("a list");
    let told: Vec<&Value> = findings
        .iter()
        .filter(|finding| finding["code"] != "UNSIGNED")
        .collect();
    assert_eq!(told, Vec::<&Value>::new());
    let is_item = |file: &&String| {
        Path::new(file)
            .extension()
            .is_some_and(|ending| ending == "md" || ending == "yaml")
    };
    assert_eq!(
        findings.len(),
        project.files().iter().filter(is_item).count(),
        "a file is no item"
    );
}

#[test]
fn the_linter_tells_tidy_sources_from_others() {
    let project = small_crate(TIDY);
    let lint = ["lint", "--param", "clippy=false"];
    assert_eq!(
        result(&project, &lint)["result"],
        serde_json::json!({"clean": true})
    );
    fs::write(
        project.root().join("src/lib.rs"),
        TIDY.replace("    a + b", "a+b"),
    )
    .expect("a file");
    assert_eq!(result(&project, &lint)["status"], "error");
    assert_eq!(project.git(["status", "--porcelain"]), " M src/lib.rs\n");
}

#[test]
fn the_tests_that_a_filter_names_are_run() {
    let project = small_crate(TIDY);
    let passed = result(&project, &["run_tests", "--param", "filter=test(one_and)"]);
    assert_eq!(
        passed["result"],
        serde_json::json!({"passed": true}),
        "{passed:#}"
    );
    fs::write(
        project.root().join("src/lib.rs"),
        TIDY.replace(", 2)", ", 3)"),
    )
    .expect("a file");
    assert_eq!(
        result(&project, &["run_tests", "--param", "filter=test(one_and)"])["status"],
        "error"
    );
    assert_eq!(
        result(
            &project,
            &["run_tests", "--param", "filter=test(no_such_name)"]
        )["status"],
        "error"
    );
}

#[test]
fn release_notes_follow_from_the_changelog_and_the_commits() {
    let changelog =
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A door.\n\n## [0.1.0]\n\n- A wall.\n";
    let project = with_items(TestProject::new().file("CHANGELOG.md", changelog)).committed();
    project.git(["tag", "v0.1.0"]);
    fs::write(project.root().join("door"), "").expect("a file");
    project.git(["add", "door"]);
    project.git(["commit", "--quiet", "--message", "house: add a door"]);
    let write = [
        "write_release_notes",
        "--param",
        "version=0.2.0",
        "--checkpoint",
        "auto",
    ];
    let written = result(&project, &write);
    let path = "docs/release-notes/0.2.0.md";
    assert_eq!(
        written["result"],
        serde_json::json!({"path": path, "commits": 1, "sections": ["Added"]})
    );
    assert_eq!(
        project.read(path),
        "# 0.2.0\n\n### Added\n\n- A door.\n\n## Commits\n\n- house: add a door\n"
    );
    assert_eq!(
        project.git(["show", "--format=", "--name-only"]),
        format!("{path}\n")
    );
    // The result does not depend on time or place.
    let before = project.read(path);
    project.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    result(&project, &write);
    assert_eq!(project.read(path), before);
    project.assert_clean();
}

#[test]
fn release_notes_are_not_written_from_nothing() {
    let project =
        with_items(TestProject::new().file("CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0]\n"))
            .committed();
    let message = |arguments: &[&str]| {
        let failed = result(&project, arguments);
        assert_eq!(failed["status"], "error");
        failed["message"].as_str().unwrap_or_default().to_owned()
    };
    let empty = message(&["write_release_notes", "--param", "version=0.2.0"]);
    assert!(empty.contains("there is nothing to release"), "{empty}");
    let odd = message(&["write_release_notes", "--param", "version=../0.2.0"]);
    assert!(odd.contains("`../0.2.0` is not a version"), "{odd}");
    project.assert_clean();
}

#[test]
fn the_directives_of_this_repository_run() {
    let changelog = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A door.\n";
    let project = small_crate(TIDY)
        .file("CHANGELOG.md", changelog)
        .committed();
    for (arguments, outputs) in [
        (["lint", "clippy=false"], serde_json::json!({"clean": true})),
        (
            ["test", "filter=test(one_and)"],
            serde_json::json!({"passed": true}),
        ),
        (
            ["release_notes", "version=0.2.0"],
            serde_json::json!({"path": "docs/release-notes/0.2.0.md", "commits": 2}),
        ),
    ] {
        let [directive, input] = arguments;
        let ran = project.piton(["run", directive, "--input", input, "--format", "json"]);
        let stdout = ran.stdout();
        let finished: Value =
            serde_json::from_str(stdout.lines().last().expect("a line")).expect("JSON");
        assert_eq!(
            (&finished["status"], &finished["outputs"]),
            (&"succeeded".into(), &outputs),
            "{finished:#}"
        );
    }
    assert_eq!(
        project.git(["log", "-1", "--format=%s"]),
        "docs: notes of release 0.2.0\n"
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    project.assert_clean();
}

#[test]
fn the_core_directives_are_shown_from_anywhere() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["directive", "show", "sign_items"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    sign_items 1.0.0 (directive, builtin)
    Write integrity stamps into items of the project
    <builtin>/directives/sign_items.md

    Inputs
      items (string, required)  An id, `category/*` for a category, or `*` for everything
      item_type (string, default "any")  The kind of the items

    Permissions
      sign * items `*`
      write `.ai/**`

    Steps
      1. sign  sign items: Stamp what matches and is not stamped yet
      2. keep  checkpoint: sign {input:items}: Commit the stamps
    ----- stderr -----
    "#);
    cmd_snapshot!(project.piton(["directive", "show", "core/migrate_script_to_tool"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    migrate_script_to_tool 1.0.0 (directive, builtin)
    Turn a legacy script into a tool folder with a manifest
    <builtin>/directives/migrate_script_to_tool.md

    Inputs
      script (string, required)  The id of the script, which is the name of its file without ending

    Permissions
      load tool items `*`
      sign tool items `*`
      write `.ai/**`

    Steps
      1. load  load items: Read what the script says about itself
      2. migrate  migrate items: Write the tool folder and remove the script
      3. sign  sign items: Stamp the new tool
      4. keep  checkpoint: migrate {input:script}: Commit the new tool in the place of the script
    ----- stderr -----
    ");
}

/// Calls a tool and returns the last line of its output.
fn result(project: &TestProject, arguments: &[&str]) -> Value {
    let ran = project.piton(
        ["tool", "run"]
            .iter()
            .chain(arguments)
            .chain(&["--format", "json"]),
    );
    let stdout = ran.stdout();
    let line = stdout
        .lines()
        .last()
        .unwrap_or_else(|| panic!("nothing is printed: {ran}"));
    serde_json::from_str(line).expect("JSON")
}

/// Copies this repository's items into a project.
fn with_items(project: TestProject) -> TestProject {
    let items = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ai");
    let walk = walkdir::WalkDir::new(&items)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != "outputs");
    walk.map(|entry| entry.expect("a readable entry"))
        .filter(|entry| entry.file_type().is_file())
        .fold(project, |project, entry| {
            let inside = entry.path().strip_prefix(&items).expect("below");
            project.file(
                &format!(".ai/{}", inside.display()),
                fs::read(entry.path()).expect("readable"),
            )
        })
}

/// A crate with one test, and the tool chain of the machine.
fn small_crate(source: &str) -> TestProject {
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let lock = "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\n\
                version = 4\n\n[[package]]\nname = \"small\"\nversion = \"0.1.0\"\n";
    let project = with_items(TestProject::new())
        .file("Cargo.toml", manifest)
        .file("Cargo.lock", lock)
        .file(".gitignore", "/target\n")
        .file("src/lib.rs", source);
    [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")]
        .into_iter()
        .filter_map(|(name, folder)| Some((name, of_machine(name, folder)?)))
        .fold(project, |project, (name, path)| {
            project.variable(name, &path.to_string_lossy())
        })
        .committed()
}

/// The folder of the machine's tool chain, because the home of a test is empty.
#[expect(
    clippy::disallowed_methods,
    reason = "a test needs the real tool chain"
)]
fn of_machine(name: &str, folder: &str) -> Option<PathBuf> {
    let named = std::env::var_os(name).map(PathBuf::from);
    named
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(folder)))
        .filter(|path| path.is_dir())
}
