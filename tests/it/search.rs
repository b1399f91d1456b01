//! `piton search`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::harness::{TestProject, cmd_snapshot};

fn note(id: &str, title: &str, date: &str) -> String {
    format!(
        "---\nid: {id}\ntitle: {title}\nversion: 1.0.0\nentry_type: reference\ncategory: ops\ntags: [guide]\nupdated_at: {date}\n---\n\
         Nothing ships on a Friday.\n"
    )
}

fn shop() -> TestProject {
    TestProject::new()
        .tool(
            "deploy_app",
            "category: ops\ntags: [release]\nupdated_at: 2026-03-01",
            "true",
        )
        .tool(
            "rollOut",
            "category: ops/web\nupdated_at: 2026-01-01",
            "true",
        )
        .directive("ship", ["deploy_app"])
        .file(
            ".ai/knowledge/ops/windows.md",
            note("windows", "When deploys are allowed", "2026-02-01"),
        )
        .home_file(
            ".ai/knowledge/mine.md",
            note("my_deploys", "What I did", "2020-01-01"),
        )
}

#[test]
fn a_person_sees_a_table() {
    let project = shop();
    cmd_snapshot!(project.piton(["search", "deploy", "app"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    0.89  tool       deploy_app  ops         The tool deploy_app
    0.39  knowledge  my_deploys  ops (user)  What I did
    0.29  knowledge  windows     ops         When deploys are allowed
    0.25  directive  ship        -           The directive ship
    ----- stderr -----
    4 items
    ");
    cmd_snapshot!(project.piton(["search", "--sort", "date", "--limit", "2"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    directive  ship        -    The directive ship
    tool       deploy_app  ops  The tool deploy_app
    ----- stderr -----
    2 of 5; `--limit N` shows more
    ");
    cmd_snapshot!(project.piton(["search", "friday", "--type", "knowledge", "--source", "project"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    0.23  knowledge  windows  ops  When deploys are allowed
    ----- stderr -----
    1 item
    ");
    cmd_snapshot!(project.piton(["search", "--source", "builtin", "--tool-type", "runtime"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    tool  bash_runtime    runtimes (builtin)  Runs a shell script with its parameters in the environment and on standard input
    tool  docker_runtime  runtimes (builtin)  Runs a container through the API of Docker or Podman
    tool  node_runtime    runtimes (builtin)  Runs a JavaScript file with Node.js
    tool  python_runtime  runtimes (builtin)  Runs a Python file by calling its main function
    ----- stderr -----
    4 items
    ");
    cmd_snapshot!(project.piton(["search", "--category", "ops", "--tag", "release", "--sort", "name"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    tool  deploy_app  ops  The tool deploy_app
    ----- stderr -----
    1 item
    ");
}

#[test]
fn a_program_gets_the_same_as_json() {
    let project = shop();
    let found = project
        .piton(["search", "--format", "json", "deploy_app", "--limit", "1"])
        .json();
    assert_eq!(
        found,
        json!({
            "results": [{
                "name": "deploy_app",
                "description": "The tool deploy_app",
                "source": "project",
                "path": ".ai/tools/deploy_app/tool.yaml",
                "score": 1.0,
                "tool_type": "script",
                "item_type": "tool",
                "category": "ops",
                "date": "2026-03-01T00:00:00Z",
            }],
            "total": found["total"],
            "query": "deploy_app",
            "source": "local",
        })
    );
    assert!(found["total"].as_u64().is_some_and(|total| total > 1));
    let nothing = project.piton(["search", "--format", "json", "zebra"]);
    assert_eq!(
        nothing.json(),
        json!({"results": [], "total": 0, "query": "zebra", "source": "local"})
    );
}

#[test]
fn nothing_found_is_no_failure_and_says_what_to_try() {
    let project = shop();
    cmd_snapshot!(project.piton(["search", "zebra"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    nothing fits `zebra`
    hint: `piton search` without words lists everything; `--source all` adds built-in items
    ");
    cmd_snapshot!(project.piton(["search", "python_runtime"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    nothing fits `python_runtime`
    hint: `--source all` finds the builtin tool `python_runtime`
    ");
    cmd_snapshot!(project.piton(["search", "deploy", "--tag", "nope"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    nothing fits `deploy`
    hint: remove a filter: there are results without them
    ");
    cmd_snapshot!(TestProject::without_git().piton(["search"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    there are no items here
    hint: `piton init` creates an example; `--source all` lists built-in items
    ");
}

#[test]
fn wrong_usage_is_explained() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["search", "x", "--type", "tol"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'tol' for '--type <TYPE>'
      [possible values: tool, directive, knowledge]

      tip: a similar value exists: 'tool'

    For more information, try '--help'.
    ");
    cmd_snapshot!(project.piton(["search", "x", "--limit", "0"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '0' for '--limit <N>': must be a whole number above 0

    For more information, try '--help'.
    ");
    cmd_snapshot!(project.piton(["search", "x", "--sort", "dat"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'dat' for '--sort <ORDER>'
      [possible values: score, date, name]

      tip: a similar value exists: 'date'

    For more information, try '--help'.
    ");
    cmd_snapshot!(project.piton(["search", "x", "--source", "registry"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: piton has no registry of items

    hint: `--source local` is the project and `~/.ai/`; `all` adds built-in items
    ");
}

#[test]
fn files_that_hold_no_item_are_counted() {
    let project = shop()
        .file(".ai/tools/bad.yaml", "tool_id: [\n")
        .file(".ai/directives/bad.md", "# nothing\n");
    cmd_snapshot!(project.piton(["search", "windows"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    1.00  knowledge  windows  ops  When deploys are allowed
    ----- stderr -----
    1 item
    warning: 2 files could not be read as items: `piton validate` or `piton validate ~/.ai` says why
    ");
}

#[test]
fn text_from_items_cannot_drive_the_terminal() {
    let project = TestProject::new().file(
        ".ai/knowledge/evil.md",
        note(
            "evil",
            "\"\\e]52;c;x\\a two\\nlines \\u202e\"",
            "2020-01-01",
        ),
    );
    cmd_snapshot!(project.piton(["search", "evil"]), @r"
    success: true
    exit_code: 0
    ----- stdout -----
    1.00  knowledge  evil  ops  \u{1b}]52;c;x\u{7} two lines \u{202e}
    ----- stderr -----
    1 item
    ");
    let long = "word ".repeat(10_000);
    assert!(project.piton(["search", &long]).output.status.success());
    assert!(
        project
            .piton(["search", "\u{1b}[31m\u{7}"])
            .output
            .status
            .success()
    );
}

#[test]
fn the_index_is_kept_outside_the_project_and_may_be_anything() {
    let project = shop().committed();
    let cache = project.home().join(".cache/piton/search");
    let first = project
        .piton(["search", "deploy", "--format", "json"])
        .json();
    let kept: Vec<_> = fs::read_dir(&cache)
        .expect("a cache")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        fs::metadata(&kept[0])
            .expect("readable")
            .permissions()
            .mode()
            & 0o077,
        0,
        "others may not read it"
    );
    project.assert_clean();
    for spoiled in [&b"spoiled"[..], b"", &[0; 4096]] {
        fs::write(&kept[0], spoiled).expect("writable");
        assert_eq!(
            project
                .piton(["search", "deploy", "--format", "json"])
                .json(),
            first
        );
    }
    fs::remove_dir_all(&cache).expect("removable");
    fs::write(&cache, "a file").expect("writable");
    let verbose = project.piton(["search", "-v", "deploy"]);
    assert!(verbose.output.status.success());
    assert!(
        verbose.to_string().contains("the index is not kept"),
        "{verbose}"
    );
    let project = project.variable("XDG_CACHE_HOME", "/dev/null/nothing");
    assert_eq!(
        project
            .piton(["search", "deploy", "--format", "json"])
            .json(),
        first
    );
    let inside = project.root().join("cache");
    let project = project.variable("XDG_CACHE_HOME", &inside.to_string_lossy());
    assert_eq!(
        project
            .piton(["search", "deploy", "--format", "json"])
            .json(),
        first
    );
    project.assert_clean();
}

#[test]
fn a_change_is_seen_by_the_next_search() {
    let project = shop();
    assert_eq!(
        project
            .piton(["search", "turtle", "--format", "json"])
            .json()["total"],
        0
    );
    let project = project.file(
        ".ai/knowledge/ops/windows.md",
        note("windows", "When turtles are allowed", "2026-02-01"),
    );
    let found = project
        .piton(["search", "turtle", "--format", "json"])
        .json();
    assert_eq!(
        (&found["total"], &found["results"][0]["name"]),
        (&json!(1), &json!("windows"))
    );
    fs::rename(
        project.root().join(".ai/knowledge/ops"),
        project.root().join(".ai/knowledge/sea"),
    )
    .expect("renamed");
    let found = project
        .piton(["search", "turtle", "--format", "json"])
        .json();
    assert_eq!(found["results"][0]["path"], ".ai/knowledge/sea/windows.md");
    fs::remove_dir_all(project.root().join(".ai/knowledge")).expect("removed");
    assert_eq!(
        project
            .piton(["search", "turtle", "--format", "json"])
            .json()["total"],
        0
    );
}

#[test]
fn many_searches_at_once_agree() {
    let project = shop();
    let first = project
        .piton(["search", "deploy", "--format", "json"])
        .json();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut command = project.command(["search", "deploy", "--format", "json"]);
            let first = &first;
            scope.spawn(move || {
                let output = command.output().expect("piton runs");
                let found: serde_json::Value =
                    serde_json::from_slice(&output.stdout).expect("JSON");
                assert_eq!(&found, first);
            });
        }
    });
}

#[test]
fn without_a_home_the_index_lies_with_the_temporary_files() {
    let project = shop();
    let folder = project.root().with_file_name("scratch");
    fs::create_dir(&folder).expect("a folder");
    let search = || {
        let mut command = project.command(["search", "deploy", "--format", "json"]);
        let output = command
            .env_remove("HOME")
            .env("TMPDIR", &folder)
            .output()
            .expect("piton runs");
        project.ran(output).json()
    };
    let first = search();
    assert_eq!(first["results"][0]["source"], "project");
    assert_eq!(search(), first);
    let sources = first["results"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|hit| hit["source"] == "user");
    assert_eq!(sources.count(), 0, "no items of a user");
    assert_eq!(
        fs::read_dir(folder.join("piton/search"))
            .expect("a cache")
            .count(),
        1
    );
}

#[test]
fn a_cache_that_may_not_be_written_costs_time_only() {
    let project = shop();
    let cache = project.home().join(".cache/piton/search");
    let arguments = ["search", "deploy", "--format", "json"];
    let first = project.piton(arguments).json();
    let kept = || fs::read_dir(&cache).expect("a cache").count();
    let allow =
        |mode| fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).expect("allowed");
    allow(0o500);
    let found = project.piton_bound(arguments);
    let verbose = project.piton_bound(["search", "-v", "deploy"]);
    allow(0o0);
    let blind = project.piton_bound(arguments);
    allow(0o700);
    assert_eq!((found.json(), blind.json()), (first.clone(), first));
    assert!(
        verbose
            .to_string()
            .contains("the index is not kept: Permission denied"),
        "{verbose}"
    );
    assert_eq!(kept(), 1, "nothing is left behind");
}

#[test]
fn gc_drops_indexes_of_projects_that_are_gone() {
    let project = shop().committed();
    let other = TestProject::new().tool("lonely", "category: ops", "true");
    let cache = project.home().join(".cache");
    let other = other.variable("XDG_CACHE_HOME", &cache.to_string_lossy());
    for project in [&project, &other] {
        project.piton(["search", "deploy"]);
    }
    let indexes = || {
        fs::read_dir(cache.join("piton/search"))
            .expect("a cache")
            .count()
    };
    assert_eq!(indexes(), 2);
    assert_eq!(
        project.piton(["gc", "--format", "json"]).json()["indexes"],
        json!([])
    );
    drop(other);
    let told = project
        .piton(["gc", "--dry-run", "--format", "json"])
        .json();
    assert_eq!(
        (told["indexes"].as_array().map(Vec::len), indexes()),
        (Some(1), 2)
    );
    cmd_snapshot!(project.piton(["gc"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ dropped the contents of 0 runs, kept those of 0; journals stay
    ✓ dropped 1 index that no search used for 30 days or whose project is gone
    ");
    assert_eq!(indexes(), 1);
}
