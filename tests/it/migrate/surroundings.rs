//! Files around a migrated script: manifests, the library, git's ignore rules.

use std::fs;

use serde_json::json;

use super::{BOXED, COUNT, behaviour, tree};
use crate::harness::{TestProject, cmd_snapshot};

/// A manifest and the script beside it, with the same name or another, form one tool.
#[test]
fn a_manifest_takes_the_script_beside_it_along_and_the_script_is_no_second_tool() {
    let manifest = |id: &str, script: &str| BOXED.replace("boxed", id).replace("run.sh", script);
    let project = TestProject::new()
        .file(".ai/scripts/ops/ship.yaml", manifest("ship", "ship.sh"))
        .file(".ai/scripts/ops/ship.sh", "echo '{\"shipped\": true}'\n")
        .file(".ai/scripts/ops/zip.yaml", manifest("zip", "a_script.sh"))
        .file(".ai/scripts/ops/a_script.sh", "echo '{\"zipped\": true}'\n")
        .file(
            ".ai/scripts/ops/broken.yaml",
            manifest("broken", "b.py").replace("broken", "[broken]"),
        )
        .file(".ai/scripts/ops/b.py", "def main():\n    return 1\n")
        .committed();
    let before = tree(&project, ".ai");
    cmd_snapshot!(project.piton(["migrate", "a_script"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/scripts/ops/a_script.sh` is what `.ai/scripts/ops/zip.yaml` starts with

    hint: migrate `.ai/scripts/ops/zip.yaml`, and it goes along; `piton validate` says whether it can
    ");
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ship  .ai/scripts/ops/ship.yaml → .ai/tools/ops/ship.yaml
      moved    .ai/scripts/ops/ship.sh → .ai/tools/ops/ship.sh
      moved    .ai/scripts/ops/ship.yaml → .ai/tools/ops/ship.yaml
    zip  .ai/scripts/ops/zip.yaml → .ai/tools/ops/zip.yaml
      moved    .ai/scripts/ops/a_script.sh → .ai/tools/ops/a_script.sh
      moved    .ai/scripts/ops/zip.yaml → .ai/tools/ops/zip.yaml
    left alone
      .ai/scripts/ops/b.py is what `.ai/scripts/ops/broken.yaml` starts with
        migrate `.ai/scripts/ops/broken.yaml`, and it goes along; `piton validate` says whether it can
      .ai/scripts/ops/broken.yaml: it cannot be read as a tool
        `piton validate` says why
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 2 scripts became tools, 2 files were left alone
    hint: check them with `piton validate`; `piton undo` restores everything
    ");
    for (id, result) in [
        ("ship", json!({"shipped": true})),
        ("zip", json!({"zipped": true})),
    ] {
        assert_eq!(behaviour(&project, id, &[])["result"], result, "{id}");
    }
    project.bash("rm -rf .ai/outputs");
    cmd_snapshot!(project.piton(["undo"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ undo migrate (8 files)
    ");
    assert_eq!(tree(&project, ".ai"), before);
    assert_eq!(project.piton(["migrate", "ship"]).code(), Some(0));
}

/// `lib` is the library for scripts in any folder, unless there is another `lib` beside them.
#[test]
fn a_script_of_a_category_finds_the_library() {
    let project = TestProject::new()
        .file(
            ".ai/scripts/text/count.py",
            "from lib import words\n\n\ndef main(text: str):\n    return words.count(text)\n",
        )
        .file(
            ".ai/scripts/lib/words.py",
            "def count(text):\n    return len(text.split())\n",
        )
        .file(
            ".ai/scripts/own/count_own.py",
            "from lib import words\n\n\ndef main():\n    return 1\n",
        )
        .file(".ai/scripts/own/lib/words.py", "X = 1\n")
        .committed();
    assert_eq!(project.piton(["migrate", "--all"]).code(), Some(0));
    assert_eq!(
        behaviour(&project, "count", &["text=a b"])["result"],
        json!(2)
    );
    assert!(project.root().join(".ai/scripts/own/count_own.py").exists());
}

#[test]
fn what_git_ignores_is_moved_only_without_checkpoints() {
    let project = TestProject::new()
        .file(".gitignore", ".ai/\n")
        .file(".ai/scripts/text/count_words.py", COUNT)
        .file("x", "")
        .committed();
    let before = tree(&project, ".ai");
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    left alone
      .ai/scripts/text/count_words.py: git ignores `.ai/scripts/text/count_words.py`: no checkpoint could restore it
        take it out of `.gitignore`, or turn checkpoints off: `--checkpoint disabled`
    ----- stderr -----
    1 file was left alone
    ");
    assert_eq!(
        project.piton(["migrate", "--all", "--dry-run"]).code(),
        Some(1)
    );
    cmd_snapshot!(project.piton(["migrate", "count_words", "--checkpoint", "auto"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    error: git ignores `.ai/scripts/text/count_words.py`: no checkpoint could restore it

    hint: take it out of `.gitignore`, or turn checkpoints off: `--checkpoint disabled`
    ");
    assert_eq!(tree(&project, ".ai"), before);
    cmd_snapshot!(project.piton(["migrate", "--all", "--checkpoint", "disabled"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    count_words  .ai/scripts/text/count_words.py → .ai/tools/text/count_words
      moved    .ai/scripts/text/count_words.py → .ai/tools/text/count_words/main.py
      created  .ai/tools/text/count_words/tool.yaml
    ----- stderr -----
    warning: without checkpoints piton cannot undo this
    checkpoints are disabled
    ✓ 1 script became a tool
    hint: check it with `piton validate`
    ");
}

/// The destination is ignored by git, so the script would exist twice after a checkpoint is undone.
#[test]
fn a_file_that_git_ignores_but_tracks_stays() {
    let project = TestProject::new()
        .file(".ai/scripts/text/count_words.py", COUNT)
        .committed();
    fs::write(project.root().join(".gitignore"), "*.py\n").expect("rules");
    let before = tree(&project, ".ai");
    let ran = project.piton(["migrate", "--all"]);
    assert!(
        ran.stdout()
            .contains("git ignores `.ai/tools/text/count_words/main.py`"),
        "{ran}"
    );
    assert_eq!(project.piton(["migrate", "count_words"]).code(), Some(5));
    assert_eq!(tree(&project, ".ai"), before);
}

#[test]
fn a_path_is_relative_to_the_current_folder() {
    let project = TestProject::new()
        .file(".ai/scripts/text/count_words.py", COUNT)
        .file("src/x", "")
        .committed();
    for (folder, name) in [
        ("src", "../.ai/scripts/text/count_words.py"),
        (".ai/scripts", "text/count_words.py"),
    ] {
        let ran = project.piton(["-C", folder, "migrate", name, "--dry-run"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
}

/// With or without `__init__.py`, and with any import from the rest of the library.
#[test]
fn a_script_that_imports_a_package_of_the_library_still_runs() {
    for init in [Some(""), None] {
        for import in [
            "from lib.sub import m",
            "import lib.sub.m as m",
            "from lib import sub\nimport lib.sub.m as m",
        ] {
            let mut project = TestProject::new()
                .file(
                    ".ai/scripts/lib/sub/m.py",
                    "from ..base import mark\n\n\ndef f(x):\n    return mark(x)\n",
                )
                .file(
                    ".ai/scripts/lib/base.py",
                    "def mark(x):\n    return x + '!'\n",
                )
                .file(
                    ".ai/scripts/u.py",
                    format!("{import}\n\n\ndef main(x: str = \"q\"):\n    return m.f(x)\n"),
                );
            if let Some(init) = init {
                project = project.file(".ai/scripts/lib/sub/__init__.py", init);
            }
            let project = project.committed();
            let before = behaviour(&project, "u", &["x=a"]);
            assert_eq!(before["result"], json!("a!"), "{import}");
            let ran = project.piton(["migrate", "u", "--checkpoint", "auto"]);
            assert_eq!(ran.code(), Some(0), "{ran}");
            assert_eq!(behaviour(&project, "u", &["x=a"]), before, "{import}");
        }
    }
}
