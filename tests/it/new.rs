//! `piton new`: skeletons that are valid and run unchanged.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::api_tools::{secure, server};
use crate::harness::{TestProject, cmd_snapshot};

/// The findings of strict validation, except that items are not signed.
fn complaints(project: &TestProject) -> Vec<Value> {
    let report = project
        .piton(["validate", "--strict", "--format", "json"])
        .json();
    let findings = report["findings"].as_array().expect("findings").clone();
    findings
        .into_iter()
        .filter(|finding| finding["code"] != "UNSIGNED")
        .collect()
}

#[test]
fn an_invalid_name_is_corrected() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["new", "tool", "Count Words!"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `Count Words!` is not an id: an id may hold letters, digits, `_`, `-`, `.` and `/`, not a space

    hint: did you mean `count_words`?
    ");
    cmd_snapshot!(project.piton(["new", "directive", "../escape"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `../escape` is not an id: each part must begin with a letter or digit

    hint: did you mean `escape`?
    ");
    cmd_snapshot!(project.piton(["new", "knowledge", "!"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `!` is not an id: an id may hold letters, digits, `_`, `-`, `.` and `/`, not `!`

    hint: use lower case letters, digits and `_`; `/` after a category
    ");
    cmd_snapshot!(project.piton(["new", "tool", "a/x", "--category", "b"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `category` of `create` differs from that of `a/x`

    hint: give it once: before the id, or apart from it
    ");
    assert_eq!(project.files(), Vec::<String>::new());
}

#[test]
fn an_unknown_type_is_refused() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["new", "tool", "x", "--type", "pyton"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `pyton` is not a type of tool

    hint: did you mean `python`?
    ");
    cmd_snapshot!(project.piton(["new", "tool", "x", "--type", "primitive"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: a primitive cannot be created: `subprocess` and `http_client` are the only two, and part of piton

    hint: use `--type runtime` for another interpreter, `cli` for a program, `api` for an HTTP call
    ");
    cmd_snapshot!(project.piton(["new", "tool", "x", "--executor", "ruby_runtime"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `ruby_runtime` does not exist

    hint: did you mean `bash_runtime`?
    ");
    cmd_snapshot!(project.piton(["new", "tool", "x", "--executor", "docker_runtime"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: the language of a script that `docker_runtime` runs is not known

    hint: say it: `--type python`, `bash` or `node`
    ");
    cmd_snapshot!(project.piton(["new", "tool", "x", "--type", "api", "--executor", "subprocess"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: it is not valid: API tools must use executor: http_client, got: subprocess (`x` → `subprocess`)

    hint: write `executor: http_client`
    ");
    cmd_snapshot!(project.piton(["new", "tool", "x", "--description", "two\nlines"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: the description `two\nlines` is not one line of text

    hint: write one line; more belongs into the file
    ");
    assert_eq!(project.files(), Vec::<String>::new());
}

#[test]
fn contradictory_options_are_refused() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["new", "tool", "x", "--type", "bash", "--executor", "python_runtime"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: it is not valid: `python_runtime` runs Python, and the script is bash

    hint: give the type without an executor, or the executor without a type
    ");
    cmd_snapshot!(project.piton(["new", "tool", "x", "--type", "meta", "--executor", "bash_runtime"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: a meta tool has no executor

    hint: leave `--executor` out
    ");
    cmd_snapshot!(project.piton(["new", "tool", "x", "--type", "directive", "--folder"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: a directive is one file

    hint: leave `--folder` out
    ");
    for (written, executor) in [
        ("python", "node_runtime"),
        ("python", "bash_runtime"),
        ("node", "bash_runtime"),
        ("bash", "node_runtime"),
        ("directive", "bash_runtime"),
        ("knowledge", "bash_runtime"),
    ] {
        for layout in ["--file", "--folder"] {
            let ran = project.piton([
                "new",
                "tool",
                "x",
                "--type",
                written,
                "--executor",
                executor,
                layout,
            ]);
            assert_eq!(ran.code(), Some(2), "{ran}");
        }
    }
    assert_eq!(
        project
            .piton(["new", "tool", "x", "--type", "knowledge", "--folder"])
            .code(),
        Some(2)
    );
    assert_eq!(project.files(), Vec::<String>::new());
}

#[test]
fn nothing_that_exists_is_written_over() {
    let project = TestProject::new()
        .tool("greet", "", "true")
        .file(".ai/tools/ops", "a file\n")
        .file(".ai/tools/notes/mine.txt", "mine\n")
        .file(".ai/knowledge/facts.md", "no entry\n")
        .committed();
    symlink("/tmp", project.root().join(".ai/tools/linked")).unwrap();
    cmd_snapshot!(project.piton(["new", "tool", "greet"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `greet` exists already at `.ai/tools/greet/tool.yaml`

    hint: choose another id, or edit that one
    ");
    cmd_snapshot!(project.piton(["new", "tool", "text/GREET"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `GREET` exists already at `.ai/tools/greet/tool.yaml`

    hint: choose another id, or edit that one
    ");
    cmd_snapshot!(project.piton(["new", "tool", "ops/x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/tools/ops` is in the way

    hint: rename it, or choose another category
    ");
    cmd_snapshot!(project.piton(["new", "tool", "linked/x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/tools/linked` is in the way

    hint: rename it, or choose another category
    ");
    cmd_snapshot!(project.piton(["new", "tool", "greet/x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/tools/greet` is in the way

    hint: rename it, or choose another category
    ");
    cmd_snapshot!(project.piton(["new", "tool", "notes"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/tools/notes` exists already

    hint: rename or remove `.ai/tools/notes` first
    ");
    cmd_snapshot!(project.piton(["new", "knowledge", "facts"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/knowledge/facts.md` exists already

    hint: rename or remove `.ai/knowledge/facts.md` first
    ");
    cmd_snapshot!(project.piton(["new", "tool", "subprocess"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `subprocess` is part of piton

    hint: choose another id; tools use a primitive as their executor
    ");
    cmd_snapshot!(project.piton(["new", "tool", "python_runtime"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `python_runtime` is part of piton

    hint: choose another id, or change a copy of it: `piton load python_runtime --to project`
    ");
    cmd_snapshot!(project.piton(["new", "directive", "readme"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: an item at `.ai/directives/readme.md` would be ignored because of its name

    hint: choose another name
    ");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "?? .ai/tools/linked\n"
    );
}

#[test]
fn shadowing_an_item_of_another_layer_is_reported() {
    let project = TestProject::new().home_file(".ai/knowledge/facts.md", KNOWLEDGE);
    cmd_snapshot!(project.piton(["new", "knowledge", "facts"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/knowledge/facts.md
    ----- stderr -----
    warning: knowledge `facts` exists in the user layer as well, at `[HOME]/.ai/knowledge/facts.md`: here the new one takes precedence
    hint: edit `.ai/knowledge/facts.md`, then `piton validate`; once it is right, `piton sign facts`
    ");
    cmd_snapshot!(project.piton(["new", "knowledge", "facts", "--to", "user"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: knowledge `facts` exists already at `[HOME]/.ai/knowledge/facts.md`

    hint: choose another id, or edit that one
    ");
}

const KNOWLEDGE: &str = "---\nid: facts\ntitle: Facts\nversion: \"1.0.0\"\nentry_type: reference\ncategory: general\ntags: []\n---\nText\n";

#[test]
fn the_next_steps_are_printed() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["new", "tool", "text/count_words", "--description", "Counts: words & more"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/tools/text/count_words/main.py
    created .ai/tools/text/count_words/tool.yaml
    ----- stderr -----
    hint: edit `.ai/tools/text/count_words/main.py`, then `piton validate` and `piton tool run count_words --param who=Ada`; once it is right, `piton sign count_words`
    ");
    cmd_snapshot!(project.piton(["new", "tool", "ops/clean", "--type", "bash", "--file", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    would create .ai/tools/ops/clean.sh
    ----- stderr -----
    ");
    cmd_snapshot!(project.piton(["new", "tool", "weather", "--type", "api"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/tools/weather.yaml
    ----- stderr -----
    hint: edit `.ai/tools/weather.yaml`, then `piton validate` and `piton tool run weather --param repo=git`; once it is right, `piton sign weather`
    ");
    cmd_snapshot!(project.piton(["new", "tool", "strict_bash", "--type", "runtime"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/tools/strict_bash.yaml
    ----- stderr -----
    hint: edit `.ai/tools/strict_bash.yaml`, then `piton validate` and `piton new tool NAME --type bash --executor strict_bash`; once it is right, `piton sign strict_bash`
    ");
    cmd_snapshot!(project.piton(["new", "directive", "release/notes"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/directives/release/notes.md
    ----- stderr -----
    hint: edit `.ai/directives/release/notes.md`, then `piton validate` and `piton run notes --input topic=hello`; once it is right, `piton sign notes`
    ");
    cmd_snapshot!(project.piton(["new", "knowledge", "voice"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/knowledge/voice.md
    ----- stderr -----
    hint: edit `.ai/knowledge/voice.md`, then `piton validate`; once it is right, `piton sign voice`
    ");
    cmd_snapshot!(project.piton(["new", "tool", "my-tool", "--type", "cli"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/tools/my-tool.yaml
    ----- stderr -----
    warning: ids are usually in snake_case: `my_tool`; `piton validate` will warn
    hint: edit `.ai/tools/my-tool.yaml`, then `piton validate` and `piton tool run my-tool --param folder=.`; once it is right, `piton sign my-tool`
    ");
    cmd_snapshot!(project.piton(["new", "tool", "mine", "--to", "user", "--type", "node"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created ~/.ai/tools/mine/main.js
    created ~/.ai/tools/mine/tool.yaml
    ----- stderr -----
    hint: edit `~/.ai/tools/mine/main.js`, then `piton tool run mine --param who=Ada`
    ");
    cmd_snapshot!(project.piton(["new", "tool", "plain", "--format", "json", "--dry-run"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {"name":"plain","item_type":"tool","tool_type":"script","path":".ai/tools/plain/tool.yaml","files":[".ai/tools/plain/main.py",".ai/tools/plain/tool.yaml"],"source":"project","edit":".ai/tools/plain/main.py","next":["edit .ai/tools/plain/main.py","piton validate","piton tool run plain --param who=Ada","piton sign plain"],"notes":[],"dry_run":true}
    ----- stderr -----
    "#);
    assert!(project.home().join(".ai/tools/mine/tool.yaml").is_file());
    assert!(!project.root().join(".ai/tools/ops").exists());
}

#[test]
fn every_tool_that_can_run_runs_as_it_was_made() {
    let project = TestProject::new()
        .file("README.md", "read me\n")
        .committed();
    for (name, more, parameter, expected) in [
        (
            "py",
            &["--type", "python"][..],
            "who=Ada",
            json!({"greeting": "Hello, Ada!"}),
        ),
        (
            "py_file",
            &["--file"],
            "who=Ada",
            json!({"greeting": "Hello, Ada!"}),
        ),
        (
            "sh",
            &["--type", "bash"],
            "who=Ada",
            json!({"stdout": "Hello, Ada!\n"}),
        ),
        (
            "sh_file",
            &["--type", "bash", "--file"],
            "who=$(x) 'q'",
            json!({"stdout": "Hello, $(x) 'q'!\n"}),
        ),
        (
            "js",
            &["--type", "node"],
            "who=Ada",
            json!({"greeting": "Hello, Ada!"}),
        ),
        (
            "js_file",
            &["--type", "node", "--file"],
            "who=\"Ada\"",
            json!({"greeting": "Hello, \"Ada\"!"}),
        ),
        (
            "by_executor",
            &["--executor", "bash_runtime"],
            "who=Ada",
            json!({"stdout": "Hello, Ada!\n"}),
        ),
        (
            "command",
            &["--type", "cli"],
            "folder=.",
            json!({"stdout": "README.md\n"}),
        ),
        (
            "command_folder",
            &["--type", "cli", "--folder"],
            "folder=-x",
            Value::Null,
        ),
        (
            "program",
            &["--type", "local"],
            "who=Ada",
            json!({"stdout": "Hello, Ada!\n"}),
        ),
        (
            "program_file",
            &["--type", "local", "--file"],
            "who=Ada",
            json!({"stdout": "Hello, Ada!\n"}),
        ),
        (
            "program_js",
            &["--type", "local", "--executor", "node_runtime"],
            "who=A",
            json!({"greeting": "Hello, A!"}),
        ),
        (
            "program_sh",
            &["--type", "local", "--executor", "bash_runtime", "--file"],
            "who=Ada",
            json!({"stdout": "Hello, Ada!\n"}),
        ),
        ("own_runtime", &["--type", "runtime"], "", Value::Null),
        (
            "by_runtime",
            &["--type", "bash", "--executor", "own_runtime"],
            "who=Ada",
            json!({"stdout": "Hello, Ada!\n"}),
        ),
        (
            "tool",
            &["--type", "cli"],
            "folder=.",
            json!({"stdout": "README.md\n"}),
        ),
        (
            "combined",
            &["--type", "meta"],
            "who=Ada",
            json!({"message": "Hello, Ada!", "calls": 0}),
        ),
    ] {
        let words = [
            &["new", "tool", name][..],
            more,
            &["--checkpoint", "auto", "--format", "json"],
        ]
        .concat();
        let made = project.piton(words);
        assert_eq!(
            (made.code(), &made.json()["name"]),
            (Some(0), &json!(name)),
            "{made}"
        );
        assert_eq!(complaints(&project), Vec::<Value>::new(), "{name}");
        project.assert_clean();
        for file in made.json()["files"].as_array().expect("files") {
            let file = file.as_str().expect("a path");
            let permissions = fs::metadata(project.root().join(file))
                .expect(file)
                .permissions()
                .mode();
            let ending = std::path::Path::new(file).extension();
            let expected = ending.is_some_and(|ending| ending == "sh" || ending == "js");
            assert_eq!(permissions & 0o100 != 0, expected, "{file}");
        }
        if expected.is_null() {
            continue;
        }
        let call = [
            "tool",
            "run",
            name,
            "--param",
            parameter,
            "--checkpoint",
            "auto",
            "--strict",
            "--format",
            "json",
        ];
        let ran = project.piton(call);
        let result = ran.last_json();
        assert_eq!(
            (&result["status"], &result["result"]),
            (&json!("success"), &expected),
            "{ran}"
        );
        assert_eq!(result["checkpoint"]["status"], "no_changes", "{ran}");
        // It also runs without a parameter.
        assert_eq!(
            project.piton(["tool", "run", name]).code(),
            Some(0),
            "{name}"
        );
        project.assert_clean();
    }
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn an_api_tool_runs_as_it_was_created() {
    let project = TestProject::new()
        .file("README.md", "read me\n")
        .committed();
    let answer = server::json(r#"{"full_name": "git/git"}"#);
    let project = secure::stage(&project, "api.github.com", answer).enter(project);
    for (name, layout) in [("look_up", "--file"), ("ops/look_up_too", "--folder")] {
        let made = project.piton([
            "new",
            "tool",
            name,
            "--type",
            "api",
            layout,
            "--checkpoint",
            "auto",
        ]);
        assert_eq!(made.code(), Some(0), "{made}");
        assert_eq!(complaints(&project), Vec::<Value>::new(), "{name}");
        let name = name.trim_start_matches("ops/");
        for more in [&[][..], &["--param", "repo=git"]] {
            let ran = project.piton(
                [
                    &["tool", "run", name, "--strict", "--format", "json"][..],
                    more,
                ]
                .concat(),
            );
            let result = ran.last_json();
            assert_eq!(
                result["result"]["body"],
                json!({"full_name": "git/git"}),
                "{ran}"
            );
            assert_eq!(
                (&result["status"], &result["checkpoint"]),
                (&json!("success"), &Value::Null),
                "{ran}"
            );
        }
        project.assert_clean();
    }
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_tool_of_an_mcp_server_names_the_one_there_is_or_brings_one() {
    // `mcp_peers` tests that they run, with the real server.
    let project = TestProject::new();
    let new_tool = |name: &str, kind: &str| project.piton(["new", "tool", name, "--type", kind]);
    for (name, kind, executor) in [
        ("alone", "mcp_tool", "subprocess"),
        ("one", "mcp_server", "subprocess"),
        ("of_one", "mcp_tool", "one"),
    ] {
        let made = new_tool(name, kind);
        assert_eq!(made.code(), Some(0), "{made}");
        assert!(
            made.stderr().contains(&format!("piton tool run {name}")),
            "{made}"
        );
        assert!(
            project
                .read(&format!(".ai/tools/{name}.yaml"))
                .contains(&format!("executor: {executor}\n")),
            "{made}"
        );
        assert_eq!(complaints(&project), Vec::<Value>::new(), "{name}");
    }
    assert_eq!(new_tool("two", "mcp_server").code(), Some(0));
    cmd_snapshot!(new_tool("of_two", "mcp_tool"), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: a tool of type `mcp_tool` names the server that has it, and there are several: `one`, `two`

    hint: say which with `--executor SERVER`
    ");
    let named = project.piton([
        "new",
        "tool",
        "of_two",
        "--type",
        "mcp_tool",
        "--executor",
        "two",
    ]);
    assert_eq!(named.code(), Some(0), "{named}");
    assert!(
        project
            .read(".ai/tools/of_two.yaml")
            .contains("executor: two\n"),
        "{named}"
    );
}

#[test]
fn a_directive_runs_as_it_was_made() {
    let project = TestProject::new().tool("greet", "", "true").committed();
    for words in [["directive", "ops/look_around"], ["knowledge", "ops/voice"]] {
        assert_eq!(
            project
                .piton(
                    ["new"]
                        .iter()
                        .chain(&words)
                        .chain(&["--checkpoint", "auto"])
                )
                .code(),
            Some(0)
        );
    }
    assert_eq!(
        project
            .piton(["new", "tool", "as_type", "--type", "directive"])
            .code(),
        Some(0)
    );
    assert!(project.root().join(".ai/directives/as_type.md").is_file());
    let ran = project.piton([
        "run",
        "look_around",
        "--input",
        "topic=greet",
        "--format",
        "json",
    ]);
    let finished = ran.last_json();
    assert_eq!(
        (&finished["status"], &finished["outputs"]),
        (&json!("succeeded"), &json!({"found": 1})),
        "{ran}"
    );
    assert_eq!(
        complaints(&project)
            .iter()
            .filter(|it| it["severity"] == "error")
            .count(),
        0
    );
}

#[test]
fn a_new_item_is_a_step_that_can_be_undone() {
    let project = TestProject::new()
        .file("mine.txt", "mine\n")
        .committed()
        .file("mine.txt", "changed\n");
    assert_eq!(project.piton(["new", "tool", "text/count"]).code(), Some(0));
    assert!(
        project
            .root()
            .join(".ai/tools/text/count/main.py")
            .is_file()
    );
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(project.files(), ["mine.txt"]);
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    // A dry run creates neither files nor a run.
    let runs = project.piton(["log", "--format", "json"]).stdout();
    assert_eq!(
        project
            .piton(["new", "tool", "text/count", "--dry-run"])
            .code(),
        Some(0)
    );
    assert_eq!(project.piton(["log", "--format", "json"]).stdout(), runs);
    assert_eq!(project.files(), ["mine.txt"]);
}

#[test]
fn it_works_without_git_and_without_a_home_where_none_is_needed() {
    let project = TestProject::without_git();
    cmd_snapshot!(project.piton(["new", "tool", "plain", "--type", "cli"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/tools/plain.yaml
    ----- stderr -----
    warning: there is no git repository: `piton undo` cannot revert this
    hint: edit `.ai/tools/plain.yaml`, then `piton validate` and `piton tool run plain --param folder=.`; once it is right, `piton sign plain`
    ");
    assert!(project.root().join(".ai/tools/plain.yaml").is_file());
    let mut homeless = project.command(["new", "tool", "other", "--to", "user"]);
    let ran = project.ran(homeless.env_remove("HOME").output().expect("piton starts"));
    cmd_snapshot!(ran, @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no home folder: HOME is not set to an absolute path

    hint: set HOME, or use the project
    ");
}

#[test]
fn an_id_in_another_case_is_another_item_of_another_layer() {
    let project = TestProject::new();
    assert_eq!(project.piton(["new", "tool", "both"]).code(), Some(0));
    let made = project.piton(["new", "tool", "Both", "--to", "user", "--type", "bash"]);
    assert_eq!(made.code(), Some(0), "{made}");
    assert!(!made.stderr().contains("exists in the project"), "{made}");
    let ran = project.piton(["tool", "run", "Both", "--format", "json"]);
    assert_eq!(
        ran.last_json()["result"],
        json!({"stdout": "Hello, world!\n"}),
        "{ran}"
    );
}

#[test]
fn a_file_of_the_user_that_cannot_be_written_is_named_as_theirs() {
    let project = TestProject::new();
    let tools = project.home().join(".ai/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o555)).unwrap();
    let ran = project.piton_bound(["new", "tool", "mine", "--type", "cli", "--to", "user"]);
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr()
            .starts_with("error: cannot write `~/.ai/tools/mine.yaml`"),
        "{ran}"
    );
}

#[test]
fn what_is_wrong_is_said_in_words_of_the_terminal() {
    let project = TestProject::new();
    assert_eq!(project.piton(["new", "directive", "both"]).code(), Some(0));
    let made = project.piton(["new", "tool", "both"]);
    assert!(
        made.stderr()
            .contains("once it is right, `piton sign both --type tool`"),
        "{made}"
    );
    assert_eq!(
        project.piton(["sign", "both", "--type", "tool"]).code(),
        Some(0)
    );
    let ran = project.piton(["new", "tool", ""]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(
        ran.stderr().contains("<NAME>") && !ran.stderr().contains("item_id"),
        "{ran}"
    );
    let project = TestProject::new().file(".ai", "a file\n");
    cmd_snapshot!(project.piton(["new", "tool", "x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai` is in the way

    hint: items must be in a real folder `.ai` of the project: rename what is there
    ");
}

#[test]
fn the_author_of_a_directive_is_whom_git_would_name() {
    let project = TestProject::new();
    project.git(["config", "user.name", "Ada L."]);
    project.git(["config", "user.email", "ada@example.com"]);
    let mut command = project.command(["new", "directive", "mine"]);
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "USER", "LOGNAME"] {
        command.env_remove(name);
    }
    assert_eq!(
        project.ran(command.output().expect("piton starts")).code(),
        Some(0)
    );
    assert!(
        project
            .read(".ai/directives/mine.md")
            .contains("<author>Ada L.</author>")
    );
}
