//! Declared caches are writable, and only they; the first write that is refused names the lines of
//! the manifest that allow it.

use std::fs;

use serde_json::{Value, json};

use super::rust_project;
use crate::harness::TestProject;
use crate::hazards::unprivileged::Unprivileged;

/// A tool that uses a crate which cargo has to fetch into its home first.
fn with_dependency(project: TestProject) -> TestProject {
    let dependency = project.root().with_file_name("dependency");
    fs::create_dir_all(dependency.join("src")).expect("a folder");
    fs::write(dependency.join("src/lib.rs"), "").expect("a file");
    fs::write(
        dependency.join("Cargo.toml"),
        "[package]\nname = \"dependency\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )
    .expect("a file");
    project.bash("cd ../dependency; git init -q; git add .; git commit -qm begin");
    let line = format!(
        "\n[dependencies]\ndependency = {{ git = \"file://{}\" }}\n",
        dependency.display()
    );
    let manifest = format!("{}{line}", project.read("Cargo.toml"));
    project
        .file("Cargo.toml", manifest)
        .tool("build", "", "cargo build -q")
        .tool("cached", "caches: [cargo]", "cargo build -q")
        .committed()
}

#[test]
fn a_refused_cache_names_the_lines_that_allow_it() {
    let project = with_dependency(rust_project());
    let ran = project.piton(["tool", "run", "build"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let expected = "which `isolation: standard` does not allow; add one of these lines to its manifest\n  \
                    caches: [cargo]\n  isolation: trusted";
    assert!(ran.stderr().contains(expected), "{ran}");
    assert!(!project.home().join(".cargo/git").exists());
    let ran = project.piton(["tool", "run", "cached"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(project.home().join(".cargo/git/db").exists());
}

/// Writes into each folder that a toolchain would use.
const FILL: &str = "set -e; for folder in $CARGO_HOME/registry $CARGO_HOME/git $GOCACHE $GOMODCACHE $npm_config_cache \
    $PIP_CACHE_DIR $UV_CACHE_DIR; do echo x > $folder/filled; done; echo x > $CARGO_HOME/.package-cache";

#[test]
fn known_caches_are_made_and_writable_for_every_user() {
    let project = TestProject::new()
        .tool("fill", "caches: [cargo, go, npm, pip, uv]", FILL)
        .tool(
            "beside",
            "caches: [cargo, go, npm, pip, uv]",
            "for name in .cargo/config.toml .cargo/bin .cargo/env .npmrc .cache/other .ssh .bashrc go/bin .config/piton; do\n\
             if mkdir ~real/$name 2> /dev/null; then echo made $name; exit 2; fi; done",
        )
        .committed();
    let home = project.home();
    let manifest = project.root().join(".ai/tools/beside/run.sh");
    let script = fs::read_to_string(&manifest).expect("a script");
    fs::write(
        &manifest,
        script.replace("~real", &home.display().to_string()),
    )
    .expect("a script");
    for user in [None, Some(Unprivileged::someone())] {
        let _ = fs::remove_dir_all(&home);
        fs::create_dir(&home).expect("a folder");
        let run = |tool: &str| {
            let words = ["tool", "run", tool];
            match &user {
                None => project.piton(words),
                Some(user) => user.piton(&project, &words),
            }
        };
        for tool in ["fill", "beside"] {
            let ran = run(tool);
            assert_eq!(ran.code(), Some(0), "{tool}\n{ran}");
        }
        for file in [
            ".cargo/registry/filled",
            ".cargo/git/filled",
            ".cargo/.package-cache",
            ".cache/go-build/filled",
            "go/pkg/mod/filled",
            ".npm/filled",
            ".cache/pip/filled",
            ".cache/uv/filled",
        ] {
            assert_eq!(fs::read_to_string(home.join(file)).expect(file), "x\n");
        }
    }
}

#[test]
fn npm_keeps_its_cache_where_it_is_declared() {
    let project = TestProject::new()
        .file("lib/package.json", "{\"name\": \"lib\", \"version\": \"1.0.0\"}\n")
        .tool(
            "install",
            "caches: [npm]",
            "set -e; npm pack ./lib; npm install --offline --no-audit --no-fund --no-save ./lib-1.0.0.tgz",
        )
        .committed();
    let ran = project.piton(["tool", "run", "install"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(project.home().join(".npm/_cacache").is_dir());
}

#[test]
fn a_folder_needs_the_setting_of_the_user() {
    let tool = |project: TestProject, id: &str, folder: &str| {
        let script = format!("echo x > {}/filled", folder.replace('~', "$REAL"));
        project.tool(
            id,
            &format!("caches: [\"{folder}\"]\nrequires: {{environment: [REAL]}}"),
            &script,
        )
    };
    let mut project = TestProject::new();
    let real = project.home().display().to_string();
    project = project.variable("REAL", &real);
    for (id, folder) in [
        ("thing", "~/.cache/thing"),
        ("below", "~/.cache/thing/below"),
        ("keys", "~/.ssh"),
    ] {
        project = tool(project, id, folder);
    }
    // A project cannot allow it, and neither can a variable.
    let project = project
        .file(".ai/config.yaml", "isolation:\n  cache_folders: [~/.ssh]\n")
        .variable("PITON_ISOLATION_CACHE_FOLDERS", "~/.ssh")
        .committed();
    let run = |tool: &str| project.piton(["tool", "run", tool]);
    for tool in ["thing", "below", "keys"] {
        let ran = run(tool);
        assert_eq!(ran.code(), Some(3), "{ran}");
        assert!(ran.stderr().contains("which you have not allowed"), "{ran}");
    }
    let project = project.home_file(
        ".ai/config.yaml",
        "isolation:\n  cache_folders: [~/.cache/thing/]\n",
    );
    let run = |tool: &str| project.piton(["tool", "run", tool]).code();
    assert_eq!(run("thing"), Some(0));
    assert_eq!(run("below"), Some(3));
    assert_eq!(run("keys"), Some(3));
    assert!(project.home().join(".cache/thing/filled").exists());
    assert!(!project.home().join(".ssh").exists());
}

#[test]
fn a_variable_does_not_move_a_known_cache_by_itself() {
    let project =
        TestProject::new().tool("install", "caches: [pip]", "echo x > $PIP_CACHE_DIR/filled");
    let keys = project.home().join(".ssh");
    let project = project
        .variable("PIP_CACHE_DIR", &keys.display().to_string())
        .committed();
    let ran = project.piton(["tool", "run", "install"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(!keys.exists());
    let home = project.home();
    let project = project
        .variable("PIP_CACHE_DIR", &home.display().to_string())
        .home_file(
            ".ai/config.yaml",
            format!("isolation:\n  cache_folders: ['{}']\n", home.display()),
        );
    let ran = project.piton(["tool", "run", "install"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(ran.stderr().contains("which contains your home"), "{ran}");
}

/// The findings of a project, each as code, column and message.
fn findings(project: &TestProject) -> Vec<(String, u64, String)> {
    let report = project.piton(["validate", "--format", "json"]).json();
    let all = report["findings"].as_array().expect("findings").iter();
    let text = |finding: &Value, key: &str| finding[key].as_str().expect("text").to_owned();
    let own = all.filter(|finding| finding["code"] != "UNSIGNED");
    own.map(|finding| {
        let column = finding["column"].as_u64().expect("a column");
        (text(finding, "code"), column, text(finding, "message"))
    })
    .collect()
}

#[test]
fn wrong_caches_are_findings() {
    let project = TestProject::new().tool(
        "wrong",
        "caches: [carg, target, /, \"~\", \"~/../x\", \"~/.cache/thing\", 7]",
        "true",
    );
    let known = "(known: cargo, go, npm, pip, uv)";
    let expected = [
        (
            "INVALID_ENUM_VALUE",
            10,
            format!("unknown cache: carg {known}"),
        ),
        (
            "INVALID_ENUM_VALUE",
            16,
            format!("unknown cache: target {known}"),
        ),
        (
            "INVALID_PATH",
            24,
            "`/` is not a folder that can be a cache".to_owned(),
        ),
        (
            "INVALID_PATH",
            27,
            "`~` is not a folder that can be a cache".to_owned(),
        ),
        (
            "INVALID_PATH",
            32,
            "`~/../x` is not a folder that can be a cache".to_owned(),
        ),
        (
            "CACHE_NOT_ALLOWED",
            42,
            "`~/.cache/thing` is a folder that you have not allowed as a cache".to_owned(),
        ),
        (
            "INVALID_TYPE",
            60,
            "caches[6] must be a string, not an integer".to_owned(),
        ),
    ];
    let expected: Vec<(String, u64, String)> = expected
        .into_iter()
        .map(|(code, column, message)| (code.to_owned(), column, message))
        .collect();
    assert_eq!(findings(&project), expected);
    let allowed = TestProject::new()
        .tool("right", "caches: [cargo, \"~/.cache/thing\"]", "true")
        .home_file(
            ".ai/config.yaml",
            "isolation:\n  cache_folders: [~/.cache/thing]\n",
        );
    assert_eq!(findings(&allowed), []);
}

#[test]
fn a_dry_run_and_a_description_show_the_caches() {
    let project = TestProject::new().tool("build", "caches: [cargo, pip]", "true");
    let ran = project.piton(["tool", "run", "build", "--dry-run"]);
    let home = project.home().display().to_string();
    let shown: Vec<String> = ran
        .stdout()
        .lines()
        .filter(|line| {
            ["caches.", "CARGO_HOME", "PIP_CACHE_DIR"]
                .iter()
                .any(|text| line.contains(text))
        })
        .map(|line| {
            line.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace(&home, "~")
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    action.environment.CARGO_HOME: ~/.cargo # cache cargo
    action.environment.PIP_CACHE_DIR: ~/.cache/pip # cache pip
    caches.cargo: ~/.cargo/registry, ~/.cargo/git, ~/.cargo/.package-cache, ~/.cargo/.package-cache-mutate
    caches.pip: ~/.cache/pip
    ");
    assert!(!project.home().join(".cargo").exists());
    let shown = project
        .piton(["tool", "show", "build", "--format", "json"])
        .json();
    assert_eq!(shown["caches"], json!(["cargo", "pip"]));
}

#[test]
fn a_refused_write_elsewhere_names_a_line_too() {
    let project = TestProject::new()
        .tool(
            "thing",
            "requires: {environment: [HOME]}",
            "mkdir -p ~/.cache/thing/deep; echo x > ~/.cache/thing/deep/x",
        )
        .tool("system", "caches: [pip]", "echo x > ../beside")
        .tool("git", "", "git config user.name x")
        .tool(
            "unrelated",
            "",
            "mkdir -p /tmp; rm -f ../nothing/there; echo gone >&2; exit 1",
        )
        .committed();
    fs::create_dir_all(project.home().join(".cache/thing")).expect("a folder");
    let sandbox = project
        .home()
        .parent()
        .expect("a folder")
        .canonicalize()
        .expect("a folder");
    let hint = |tool: &str| {
        let ran = project.piton(["tool", "run", tool]);
        assert_eq!(ran.code(), Some(1), "{ran}");
        let text = ran.stderr().replace(&sandbox.display().to_string(), "");
        text.split_once("hint: ")
            .map(|(_, hint)| hint.to_owned())
            .unwrap_or_default()
    };
    let refused = |path: &str| {
        format!("it tried to write `{path}`, which `isolation: standard` does not allow; ")
    };
    let one = "if it has to, add this line to its manifest\n  isolation: trusted\n";
    assert_eq!(
        hint("thing"),
        refused("/home/.cache/thing/deep")
            + "add one of these lines to its manifest (the first one also needs the folder in \
               `isolation.cache_folders` of `~/.ai/config.yaml`)\n  caches: [\"~/.cache/thing\"]\n  isolation: trusted\n"
    );
    assert_eq!(hint("system"), refused("/beside") + one);
    assert_eq!(hint("git"), refused("/project/.git/config.lock") + one);
    assert!(hint("unrelated").starts_with("its output is saved in "));
}
