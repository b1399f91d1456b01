//! `piton migrate`: legacy scripts become tools without losing anything, and can be restored.

#[path = "migrate/coverage.rs"]
mod coverage;
#[path = "migrate/names.rs"]
mod names;
#[path = "migrate/surroundings.rs"]
mod surroundings;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::harness::{TestProject, cmd_snapshot};

const COUNT: &str = "#!/usr/bin/env python3\n\"\"\"Counts words.\"\"\"\n\n\ndef main(text: str, times: int = 1) -> dict:\n    return {\"words\": len(text.split()) * times}\n";
const REPORT: &str = "\"\"\"Writes a report.\"\"\"\nimport argparse\nfrom lib import fmt\nimport lib.base\n\nparser = argparse.ArgumentParser()\nparser.add_argument(\"--title\", default=\"none\")\nprint(fmt.shout(parser.parse_args().title), lib.base.MARK)\n";
const DEPLOY: &str = "__version__ = \"2.1.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"python_runtime\"\n__category__ = \"ops\"\n__tags__ = [\"deploy\"]\n__timeout__ = 9\n__mutates_state__ = False\n\n\ndef main(target: str, dry: bool = True):\n    return [target, dry]\n";
const FETCH: &str = "\"\"\"\ntool_id: fetch\ntool_type: script\nversion: 1.2.3\ncategory: net\ndescription: Fetches nothing\nexecutor: python_runtime\n\"\"\"\nimport parse_it\n\n\ndef main(url: str) -> dict:\n    return {\"host\": parse_it.host(url)}\n";
const CLEAN: &str =
    "#!/usr/bin/env bash\n# Cleans a place\nset -eu\nprintf '{\"in\": %s}\\n' \"$(cat)\"\n";
const HELLO: &str = "// tool_id: hello_js\n// tool_type: script\n// version: 1.0.0\n// category: web\n// description: Says hello\n// executor: node_runtime\n// parameters: [{name: who, type: string, required: true}]\nconst { who } = JSON.parse(require(\"fs\").readFileSync(0, \"utf8\"));\nconsole.log(JSON.stringify({ hello: who }));\n";
const BOXED: &str = "tool_id: boxed\ntool_type: script\nversion: \"1.0.0\"\ndescription: In a folder\nexecutor: bash_runtime\nconfig:\n  entrypoint: run.sh\n";

/// A call of each tool that can be migrated.
const CALLS: [(&str, &[&str]); 7] = [
    ("count_words", &["text=a b c", "times=2"]),
    ("report", &["title=Spring"]),
    ("deploy", &["target=moon"]),
    ("fetch", &["url=https://example.com/x"]),
    ("clean", &["place=roof"]),
    ("hello_js", &["who=Ada"]),
    ("boxed", &[]),
];

fn project() -> TestProject {
    let project = TestProject::new()
        .file(".ai/scripts/text/count_words.py", COUNT)
        .file(".ai/scripts/report.py", REPORT)
        .file(
            ".ai/scripts/lib/fmt.py",
            "from . import base\n\n\ndef shout(text):\n    return text.upper() + base.MARK\n",
        )
        .file(".ai/scripts/lib/base.py", "MARK = '!'\n")
        .file(".ai/scripts/lib/unused.py", "import os\n")
        .file(".ai/scripts/ops/deploy.py", DEPLOY)
        .file(".ai/scripts/net/fetch.py", FETCH)
        .file(
            ".ai/scripts/net/parse_it.py",
            "def host(url):\n    return url.split('/')[2]\n",
        )
        .file(".ai/scripts/ops/clean.sh", CLEAN)
        .file(".ai/scripts/web/hello_js.js", HELLO)
        .file(".ai/scripts/boxed/tool.yaml", BOXED)
        .file(".ai/scripts/boxed/run.sh", "echo '{\"boxed\": true}'\n")
        .file(
            ".ai/scripts/ops/where.py",
            "import os\n\n\ndef main():\n    return os.path.dirname(__file__)\n",
        )
        .file(
            ".ai/scripts/both/one.py",
            "import shared\n\n\ndef main():\n    return shared.X\n",
        )
        .file(
            ".ai/scripts/both/two.py",
            "import shared\n\n\ndef main():\n    return shared.X\n",
        )
        .file(".ai/scripts/both/shared.py", "X = 1\n")
        .file(".ai/scripts/requirements.txt", "requests\n")
        .file(".ai/scripts/ops/data.csv", "a,b\n")
        .file(
            "README.md",
            "Run `.ai/scripts/text/count_words.py` by hand.\n",
        )
        .directive("walk", ["boxed", "deploy_all"])
        .file(".ai/directives/walk.md", WALK);
    let clean = project.root().join(".ai/scripts/ops/clean.sh");
    fs::set_permissions(clean, fs::Permissions::from_mode(0o755)).expect("permissions");
    project.committed()
}

const WALK: &str = "# Walk\n\n```xml\n<directive name=\"walk\" version=\"1.0.0\">\n<metadata><permissions><execute resource=\"tool\" id=\"count_words\"/></permissions></metadata>\n<process><step name=\"count\"><execute item_type=\"tool\" item_id=\"count_words\"><param name=\"text\" value=\"a b\"/></execute></step></process>\n<outputs><success>words: {step:count.words}</success></outputs>\n</directive>\n```\n";

/// Every file below a folder with its bytes and its mode.
fn tree(project: &TestProject, folder: &str) -> BTreeMap<String, (Vec<u8>, u32)> {
    let root = project.root().join(folder);
    let files = walkdir::WalkDir::new(&root)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|it| !it.file_type().is_dir());
    files
        .map(|file| {
            let mode = file.metadata().expect("metadata").permissions().mode();
            let name = file
                .path()
                .strip_prefix(&root)
                .expect("below")
                .to_string_lossy()
                .into_owned();
            (name, (fs::read(file.path()).expect("bytes"), mode))
        })
        .collect()
}

/// The description and result of a tool, without the fields that must differ.
fn behaviour(project: &TestProject, id: &str, parameters: &[&str]) -> Value {
    let mut shown = project
        .piton(["tool", "show", id, "--format", "json"])
        .json();
    for gone in [
        "path",
        "source",
        "origins",
        "signature",
        "legacy",
        "spelling",
        "fields",
        "places",
    ] {
        if let Some(fields) = shown.as_object_mut() {
            fields.remove(gone);
        }
    }
    if let Some(config) = shown["config"].as_object_mut() {
        config.remove("entrypoint");
        config.remove("lib_imports");
    }
    let mut call = vec![
        "tool",
        "run",
        id,
        "--format",
        "json",
        "--checkpoint",
        "disabled",
    ];
    for parameter in parameters {
        call.extend(["--param", parameter]);
    }
    let ran = project.piton(call).last_json();
    json!({"shown": shown, "status": ran["status"], "result": ran["result"]})
}

#[test]
fn what_cannot_be_migrated_is_refused_with_a_hint() {
    let project = project()
        .file(".ai/tools/done.yaml", BOXED.replace("boxed", "done"))
        .file("x", "");
    cmd_snapshot!(project.piton(["migrate"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <SCRIPT>...

    Usage: piton migrate <SCRIPT>...

    For more information, try '--help'.
    ");
    cmd_snapshot!(project.piton(["migrate", "count_wrods"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `count_wrods` does not exist

    hint: did you mean `count_words`?
    ");
    cmd_snapshot!(project.piton(["migrate", "none/*"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: no script of the project matches `none/*`

    hint: name a script, `category/*`, a folder such as `.ai/scripts/ops`, or `--all`
    ");
    cmd_snapshot!(project.piton(["migrate", "a["]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `a[` is not a pattern: unclosed character class; missing ']'

    hint: e.g. `ops/*`, or `--all`
    ");
    cmd_snapshot!(project.piton(["migrate", "done"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `done` is no legacy script: it lies at `.ai/tools/done.yaml`

    hint: only what lies below `.ai/scripts/` is migrated
    ");
    cmd_snapshot!(project.piton(["migrate", "both/one"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/scripts/both/one.py` imports `shared`, which other scripts import too

    hint: move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
    ");
    cmd_snapshot!(project.piton(["migrate", "count_words", "shared"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/scripts/both/one.py` imports `shared`, which lies beside it

    hint: move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
    ");
    cmd_snapshot!(project.piton(["migrate", ".ai/scripts/both"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    left alone
      .ai/scripts/both/one.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/shared.py: `.ai/scripts/both/one.py` imports `shared`, which lies beside it
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/two.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
    ----- stderr -----
    3 files were left alone
    ");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "?? .ai/tools/\n?? x\n"
    );
}

#[test]
fn without_git_it_needs_to_be_told_that_nothing_comes_back() {
    let project = TestProject::without_git().file(".ai/scripts/count_words.py", COUNT);
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]` is not inside a git repository

    hint: create one with `git init`, or turn checkpoints off: `--checkpoint disabled`
    ");
    assert!(project.root().join(".ai/scripts/count_words.py").is_file());
    assert_eq!(
        project.piton(["migrate", "--all", "--dry-run"]).code(),
        Some(5)
    );
    cmd_snapshot!(project.piton(["migrate", "--all", "--dry-run", "--checkpoint", "disabled"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    count_words  .ai/scripts/count_words.py → .ai/tools/count_words
      move     .ai/scripts/count_words.py → .ai/tools/count_words/main.py
      create   .ai/tools/count_words/tool.yaml
    ----- stderr -----
    dry run, nothing was changed: 1 script would become a tool
    ");
    cmd_snapshot!(project.piton(["migrate", "--all", "--checkpoint", "disabled"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    count_words  .ai/scripts/count_words.py → .ai/tools/count_words
      moved    .ai/scripts/count_words.py → .ai/tools/count_words/main.py
      created  .ai/tools/count_words/tool.yaml
    ----- stderr -----
    warning: without checkpoints piton cannot undo this
    checkpoints are disabled
    ✓ 1 script became a tool
    hint: check it with `piton validate`
    ");
    assert_eq!(project.read(".ai/tools/count_words/main.py"), COUNT);
    assert!(!project.root().join(".ai/scripts").exists());
    cmd_snapshot!(project.piton(["migrate", "--all", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    dry run, nothing was changed: there is nothing to migrate
    ");
}

#[test]
fn a_dry_run_says_what_will_be_done_and_the_run_says_the_same() {
    let project = project();
    cmd_snapshot!(project.piton(["migrate", "--all", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    boxed  .ai/scripts/boxed → .ai/tools/boxed
      move     .ai/scripts/boxed/run.sh → .ai/tools/boxed/run.sh
      move     .ai/scripts/boxed/tool.yaml → .ai/tools/boxed/tool.yaml
    fetch  .ai/scripts/net/fetch.py → .ai/tools/net/fetch
      move     .ai/scripts/net/parse_it.py → .ai/tools/net/fetch/parse_it.py
      move     .ai/scripts/net/fetch.py → .ai/tools/net/fetch/main.py
      create   .ai/tools/net/fetch/tool.yaml
    clean  .ai/scripts/ops/clean.sh → .ai/tools/ops/clean
      move     .ai/scripts/ops/clean.sh → .ai/tools/ops/clean/main.sh
      create   .ai/tools/ops/clean/tool.yaml
    deploy  .ai/scripts/ops/deploy.py → .ai/tools/ops/deploy
      move     .ai/scripts/ops/deploy.py → .ai/tools/ops/deploy/main.py
      create   .ai/tools/ops/deploy/tool.yaml
    report  .ai/scripts/report.py → .ai/tools/report
      move     .ai/scripts/report.py → .ai/tools/report/main.py
      create   .ai/tools/report/tool.yaml
    count_words  .ai/scripts/text/count_words.py → .ai/tools/text/count_words
      move     .ai/scripts/text/count_words.py → .ai/tools/text/count_words/main.py
      create   .ai/tools/text/count_words/tool.yaml
      note     `README.md:1` names `.ai/scripts/text/count_words.py`
    hello_js  .ai/scripts/web/hello_js.js → .ai/tools/web/hello_js
      move     .ai/scripts/web/hello_js.js → .ai/tools/web/hello_js/main.js
      create   .ai/tools/web/hello_js/tool.yaml
    modules that tools share
      move     .ai/scripts/lib/base.py → .ai/tools/lib/base.py
      move     .ai/scripts/lib/fmt.py → .ai/tools/lib/fmt.py
    left alone
      .ai/scripts/both/one.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/shared.py: `.ai/scripts/both/one.py` imports `shared`, which lies beside it
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/two.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/lib/unused.py: no script that is migrated imports it
        move it to `.ai/tools/lib/`, or remove it
      .ai/scripts/ops/data.csv: it is no script, and no script claims it
        move it to where it is used, or remove it
      .ai/scripts/ops/where.py may depend on where it lies: it uses `__file__`
        look whether it works from another folder, then migrate it alone, by its id
      .ai/scripts/requirements.txt: no script reads it, and it lists packages for all of them
        add what a tool needs to the `dependencies` of its `tool.yaml`
    ----- stderr -----
    dry run, nothing was changed: 7 scripts would become tools, 7 files would be left alone
    ");
    project.assert_clean();
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    boxed  .ai/scripts/boxed → .ai/tools/boxed
      moved    .ai/scripts/boxed/run.sh → .ai/tools/boxed/run.sh
      moved    .ai/scripts/boxed/tool.yaml → .ai/tools/boxed/tool.yaml
    fetch  .ai/scripts/net/fetch.py → .ai/tools/net/fetch
      moved    .ai/scripts/net/parse_it.py → .ai/tools/net/fetch/parse_it.py
      moved    .ai/scripts/net/fetch.py → .ai/tools/net/fetch/main.py
      created  .ai/tools/net/fetch/tool.yaml
    clean  .ai/scripts/ops/clean.sh → .ai/tools/ops/clean
      moved    .ai/scripts/ops/clean.sh → .ai/tools/ops/clean/main.sh
      created  .ai/tools/ops/clean/tool.yaml
    deploy  .ai/scripts/ops/deploy.py → .ai/tools/ops/deploy
      moved    .ai/scripts/ops/deploy.py → .ai/tools/ops/deploy/main.py
      created  .ai/tools/ops/deploy/tool.yaml
    report  .ai/scripts/report.py → .ai/tools/report
      moved    .ai/scripts/report.py → .ai/tools/report/main.py
      created  .ai/tools/report/tool.yaml
    count_words  .ai/scripts/text/count_words.py → .ai/tools/text/count_words
      moved    .ai/scripts/text/count_words.py → .ai/tools/text/count_words/main.py
      created  .ai/tools/text/count_words/tool.yaml
      note     `README.md:1` names `.ai/scripts/text/count_words.py`
    hello_js  .ai/scripts/web/hello_js.js → .ai/tools/web/hello_js
      moved    .ai/scripts/web/hello_js.js → .ai/tools/web/hello_js/main.js
      created  .ai/tools/web/hello_js/tool.yaml
    modules that tools share
      moved    .ai/scripts/lib/base.py → .ai/tools/lib/base.py
      moved    .ai/scripts/lib/fmt.py → .ai/tools/lib/fmt.py
    left alone
      .ai/scripts/both/one.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/shared.py: `.ai/scripts/both/one.py` imports `shared`, which lies beside it
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/two.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/lib/unused.py: no script that is migrated imports it
        move it to `.ai/tools/lib/`, or remove it
      .ai/scripts/ops/data.csv: it is no script, and no script claims it
        move it to where it is used, or remove it
      .ai/scripts/ops/where.py may depend on where it lies: it uses `__file__`
        look whether it works from another folder, then migrate it alone, by its id
      .ai/scripts/requirements.txt: no script reads it, and it lists packages for all of them
        add what a tool needs to the `dependencies` of its `tool.yaml`
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 7 scripts became tools, 7 files were left alone
    hint: check them with `piton validate`; `piton undo` restores everything
    ");
    // Scripts that were left alone are left alone again.
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    left alone
      .ai/scripts/both/one.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/shared.py: `.ai/scripts/both/one.py` imports `shared`, which lies beside it
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/both/two.py imports `shared`, which other scripts import too
        move `shared` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand
      .ai/scripts/lib/unused.py: no script that is migrated imports it
        move it to `.ai/tools/lib/`, or remove it
      .ai/scripts/ops/data.csv: it is no script, and no script claims it
        move it to where it is used, or remove it
      .ai/scripts/ops/where.py may depend on where it lies: it uses `__file__`
        look whether it works from another folder, then migrate it alone, by its id
      .ai/scripts/requirements.txt: no script reads it, and it lists packages for all of them
        add what a tool needs to the `dependencies` of its `tool.yaml`
    ----- stderr -----
    7 files were left alone
    ");
}

#[test]
fn every_tool_says_and_does_the_same_afterwards_and_everything_comes_back() {
    let project = project();
    // Uncommitted edits are migrated too, and edits elsewhere stay.
    let edited = COUNT.replace("Counts words.", "Counts all words.");
    let project = project
        .file(".ai/scripts/text/count_words.py", &edited)
        .file("README.md", "mine\n");
    let before = tree(&project, ".ai/scripts");
    let behaved: Vec<Value> = CALLS
        .iter()
        .map(|(id, words)| behaviour(&project, id, words))
        .collect();
    assert!(
        behaved.iter().all(|one| one["status"] == "success"),
        "{behaved:#?}"
    );
    let status = project.git(["status", "--porcelain"]);

    let ran = project.piton(["migrate", "--all", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        ran.json()["message"],
        "7 scripts became tools, 7 files were left alone",
        "{ran}"
    );
    for ((id, words), expected) in CALLS.iter().zip(&behaved) {
        assert_eq!(&behaviour(&project, id, words), expected, "{id}");
        assert!(
            !project
                .piton(["tool", "show", id])
                .stdout()
                .contains(".ai/scripts"),
            "{id}"
        );
    }
    assert_eq!(project.read(".ai/tools/text/count_words/main.py"), edited);
    let mode = fs::metadata(project.root().join(".ai/tools/ops/clean/main.sh"))
        .expect("the script")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(!project.root().join(".ai/scripts/text").exists());
    let report = project.piton(["validate", "--format", "json"]).json();
    let errors = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|it| it["severity"] == "error")
        .count();
    assert_eq!(errors, 0, "{report:#}");
    let walked = project
        .piton([
            "run",
            "walk",
            "--checkpoint",
            "disabled",
            "--format",
            "json",
        ])
        .last_json();
    assert_eq!(walked["outputs"], json!({"words": 2}), "{walked:#}");
    let walk = walked["run_id"].as_str().map(str::to_owned);
    assert!(walk.is_some());

    let step = ran.json()["run"]["run_id"]
        .as_str()
        .expect("a run")
        .to_owned();
    let undone = project.piton(["undo", &format!("{step}/1")]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert_eq!(tree(&project, ".ai/scripts"), before);
    assert!(
        !project.root().join(".ai/tools").exists(),
        "{:?}",
        project.files()
    );
    assert_eq!(project.git(["status", "--porcelain"]), status);
    assert_eq!(project.read("README.md"), "mine\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn one_commit_holds_all_of_it_and_is_undone_by_another() {
    let project = project();
    let before = tree(&project, ".");
    let ran = project.piton([
        "migrate",
        "--all",
        "--checkpoint",
        "auto",
        "-m",
        "Move the scripts",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["log", "-1", "--format=%s"]),
        "Move the scripts\n"
    );
    project.assert_clean();
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    project.assert_clean();
    let without_git = |all: BTreeMap<String, (Vec<u8>, u32)>| -> BTreeMap<String, (Vec<u8>, u32)> {
        all.into_iter()
            .filter(|(path, _)| !path.starts_with(".git/") && !path.starts_with(".ai/outputs"))
            .collect()
    };
    assert_eq!(without_git(tree(&project, ".")), without_git(before));
}

#[test]
fn a_module_that_another_script_still_needs_is_copied() {
    let project = TestProject::new()
        .file(
            ".ai/scripts/one.py",
            "from lib.base import MARK\n\n\ndef main():\n    return MARK\n",
        )
        .file(
            ".ai/scripts/two.py",
            "import lib.base\n\n\ndef main():\n    return lib.base.MARK\n",
        )
        .file(".ai/scripts/lib/base.py", "MARK = '!'\n")
        .file(".ai/scripts/lib/__init__.py", "# nothing\n")
        .committed();
    cmd_snapshot!(project.piton(["migrate", "one"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    one  .ai/scripts/one.py → .ai/tools/one
      moved    .ai/scripts/one.py → .ai/tools/one/main.py
      created  .ai/tools/one/tool.yaml
    modules that tools share
      copied   .ai/scripts/lib/base.py → .ai/tools/lib/base.py
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 1 script became a tool
    hint: check it with `piton validate`; `piton undo` restores everything
    ");
    for id in ["one", "two"] {
        assert_eq!(
            project
                .piton(["tool", "run", id, "--format", "json"])
                .last_json()["result"],
            "!",
            "{id}"
        );
    }
    cmd_snapshot!(project.piton(["migrate", "two"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    two  .ai/scripts/two.py → .ai/tools/two
      moved    .ai/scripts/two.py → .ai/tools/two/main.py
      created  .ai/tools/two/tool.yaml
    modules that tools share
      moved    .ai/scripts/lib/base.py → .ai/tools/lib/base.py
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 1 script became a tool
    hint: check it with `piton validate`; `piton undo` restores everything
    ");
    assert_eq!(
        project
            .piton(["tool", "run", "two", "--format", "json"])
            .last_json()["result"],
        "!"
    );
    assert!(!project.root().join(".ai/scripts/lib/base.py").exists());
    // An existing module with other content is not overwritten.
    let project = project
        .file(".ai/scripts/three.py", "import lib.base\n")
        .file(".ai/scripts/lib/base.py", "MARK = '?'\n");
    let refused = project.piton(["migrate", "three", "--format", "json"]);
    assert_eq!(
        (refused.code(), &refused.last_json()["error"]["code"]),
        (Some(2), &json!("ITEM_EXISTS")),
        "{refused}"
    );
}

#[test]
fn what_is_not_certain_is_left_alone() {
    let main = "\n\n\ndef main():\n    return 1\n";
    for (files, named) in [
        (
            &[("a.py", "from . import b\n"), ("b.py", "X = 1\n")][..],
            "a.py",
        ),
        (&[("a.py", "import pkg\n"), ("pkg/b.py", "X = 1\n")], "a.py"),
        (&[("a.py", "import b\n"), ("b.py", "import a\n")], "a.py"),
        (
            &[
                ("a.py", "import b\n"),
                ("b.py", "def main():\n    return 2\n"),
            ],
            "a.py",
        ),
        (&[("a.py", "import main\n"), ("main.py", "X = 1\n")], "a.py"),
        (&[("a.py", "import lib\n"), ("lib/b.py", "X = 1\n")], "a.py"),
        (
            &[
                ("a.py", "from lib import b\n"),
                ("lib/b.py", "X = 1\n"),
                ("lib/__init__.py", "print('x')\n"),
            ],
            "a.py",
        ),
        (&[("a.py", "import sys\nsys.path.insert(0, 'x')\n")], "a.py"),
        (
            &[
                ("a.py", "print(open('.ai/scripts/b.txt').read())\n"),
                ("b.txt", "x\n"),
            ],
            "a.py",
        ),
        (
            &[
                ("a.sh", "#!/bin/bash\n. \"$(dirname \"$0\")/b.txt\"\n"),
                ("b.txt", "true\n"),
            ],
            "a.sh",
        ),
        (
            &[("a.py", "def broken(:\n import b\n"), ("b.py", "X = 1\n")],
            "a.py",
        ),
    ] {
        let project = files
            .iter()
            .fold(TestProject::new(), |project, (path, text)| {
                let more = if *path == "a.py" { main } else { "" };
                project.file(&format!(".ai/scripts/{path}"), format!("{text}{more}"))
            });
        let project = project.committed();
        let ran = project.piton(["migrate", "--all", "--dry-run", "--format", "json"]);
        let report = ran.json();
        let skipped: Vec<&Value> = report["skipped"]
            .as_array()
            .expect("skipped")
            .iter()
            .collect();
        let hit = skipped
            .iter()
            .find(|it| it["path"] == format!(".ai/scripts/{named}"));
        assert!(
            hit.is_some_and(|it| it["suggestion"].is_string()),
            "{files:?} {report:#}"
        );
        project.assert_clean();
    }
}

#[test]
fn links_are_not_followed_and_taken_places_are_not_taken() {
    let project = TestProject::new()
        .file(".ai/scripts/real.py", COUNT)
        .file(".ai/scripts/ops/x.py", COUNT)
        .file(".ai/scripts/ops.py", COUNT)
        .file(".ai/tools/text", "a file\n")
        .file(".ai/scripts/text/y.py", COUNT);
    symlink("real.py", project.root().join(".ai/scripts/linked.py")).expect("a link");
    let project = project.committed();
    cmd_snapshot!(project.piton(["migrate", "--all", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    x  .ai/scripts/ops/x.py → .ai/tools/ops/x
      move     .ai/scripts/ops/x.py → .ai/tools/ops/x/main.py
      create   .ai/tools/ops/x/tool.yaml
    left alone
      .ai/scripts/linked.py: it is a link
        replace it by what it leads to, or remove it
      .ai/scripts/ops.py: `.ai/tools/ops` and what `.ai/scripts/ops/x.py` becomes would lie one in the other
        rename one of the two, or move one of them to another folder first
      .ai/scripts/real.py is what the link `.ai/scripts/linked.py` leads to
        remove the link, or replace it by what it leads to
      .ai/scripts/text/y.py: `.ai/tools/text` exists already
        move `.ai/tools/text` away, or remove it
    ----- stderr -----
    dry run, nothing was changed: 1 script would become a tool, 4 files would be left alone
    ");
}

#[test]
fn everything_is_rolled_back_when_not_everything_can_be_written() {
    let project = TestProject::new()
        .file(".ai/scripts/a.py", COUNT)
        .file(".ai/scripts/ops/b.py", COUNT)
        .file(".ai/tools/ops/keep.txt", "x\n")
        .committed();
    let before = tree(&project, ".ai");
    fs::set_permissions(
        project.root().join(".ai/tools/ops"),
        fs::Permissions::from_mode(0o555),
    )
    .expect("permissions");
    let ran = project.piton_bound(["migrate", "--all", "--format", "json"]);
    fs::set_permissions(
        project.root().join(".ai/tools/ops"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("permissions");
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(tree(&project, ".ai"), before);
    project.assert_clean();
}

#[test]
fn what_would_not_run_elsewhere_is_left_alone_with_the_reason() {
    let manifest = |id: &str, script: &str| {
        format!(
            "tool_id: {id}\ntool_type: script\nversion: 1.0.0\ndescription: d\nexecutor: python_runtime\nconfig:\n  entrypoint: {script}\n"
        )
    };
    let project = TestProject::new()
        .file(".ai/scripts/rep.yaml", manifest("rep", "impl.py"))
        .file(
            ".ai/scripts/impl.py",
            "from lib import style\n\n\ndef main():\n    return style.NAME\n",
        )
        .file(".ai/scripts/lib/style.py", "NAME = 'plain'\n")
        .file(
            ".ai/scripts/packed/tool.yaml",
            manifest("packed", "main.py"),
        )
        .file(".ai/scripts/packed/main.py", "def main():\n    return 1\n")
        .file(".ai/scripts/packed/node_modules/x/index.js", "")
        .file(
            ".ai/scripts/two.py",
            "import helper\n\n\ndef main():\n    return helper.text()\n",
        )
        .file(
            ".ai/scripts/helper.py",
            "import os\n\n\ndef text():\n    return os.path.dirname(__file__)\n",
        )
        .committed();
    for (id, reason) in [
        (
            "rep",
            "imports `style`, which belongs to the library of the scripts",
        ),
        (
            "packed",
            "holds installed packages in `node_modules`, which would stay behind",
        ),
    ] {
        let ran = project.piton(["migrate", id]);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stderr().contains(reason), "{ran}");
    }
    project.assert_clean();
    let ran = project.piton(["migrate", "two", "--dry-run"]);
    assert!(ran.stdout().contains("uses `__file__`"), "{ran}");
}
