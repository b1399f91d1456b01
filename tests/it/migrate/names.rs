//! Scripts that stay still find the files that they name.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{BOXED, COUNT, behaviour};
use crate::harness::{TestProject, cmd_snapshot};

const STEP: &str =
    "def main():\n    return 1\n\n\nif __name__ == \"__main__\":\n    print(main())\n";
const WRAP: &str = "#!/usr/bin/env bash\n# Runs another\npython3 .ai/scripts/step.py\n";

#[test]
fn what_a_script_that_stays_names_by_its_path_stays_as_well() {
    let project = TestProject::new()
        .file(".ai/scripts/step.py", STEP)
        .file(".ai/scripts/wrap.sh", WRAP)
        .file(".ai/scripts/count.py", COUNT)
        .committed();
    let before = behaviour(&project, "wrap", &[]);
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    count  .ai/scripts/count.py → .ai/tools/count
      moved    .ai/scripts/count.py → .ai/tools/count/main.py
      created  .ai/tools/count/tool.yaml
    left alone
      .ai/scripts/step.py is named by `.ai/scripts/wrap.sh`
        let `.ai/scripts/wrap.sh` call it as a tool, or migrate it by its id and change what `.ai/scripts/wrap.sh` names
      .ai/scripts/wrap.sh names `.ai/scripts/step.py`, which may move
        look whether it works from another folder, then migrate it alone, by its id
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 1 script became a tool, 2 files were left alone
    hint: check it with `piton validate`; `piton undo` restores everything
    ");
    assert_eq!(behaviour(&project, "wrap", &[]), before);
    // Named explicitly, it is migrated, with a note.
    cmd_snapshot!(project.piton(["migrate", "step"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    step  .ai/scripts/step.py → .ai/tools/step
      moved    .ai/scripts/step.py → .ai/tools/step/main.py
      created  .ai/tools/step/tool.yaml
      note     `.ai/scripts/wrap.sh` names `.ai/scripts/step.py`
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 1 script became a tool
    hint: check it with `piton validate`; `piton undo` restores everything
    ");
}

/// Each project has a script `a.py` or `a.sh` that stays, or a tool, and a script `hh.py` that it
/// needs.
#[test]
fn a_script_that_others_find_in_their_own_way_stays_as_well() {
    for (file, text) in [
        (
            ".ai/scripts/a.py",
            "import importlib\n\n\ndef main():\n    return importlib.import_module(\"hh\").main()\n",
        ),
        (
            ".ai/scripts/a.py",
            "def main():\n    return __import__(\"hh\").main()\n",
        ),
        (
            ".ai/scripts/ops/a.py",
            "import sys\nsys.path.insert(0, '..')\n\n\ndef main():\n    import hh\n    return 1\n",
        ),
        (
            ".ai/scripts/a.sh",
            "#!/bin/bash\npython3 \"$(dirname \"$0\")/hh.py\"\n",
        ),
        (
            ".ai/tools/a.sh",
            "# tool_id: a\n# tool_type: script\n# version: 1.0.0\n# description: d\n# executor: bash_runtime\npython3 .ai/scripts/hh.py\n",
        ),
    ] {
        let project = TestProject::new()
            .file(".ai/scripts/hh.py", STEP)
            .file(file, text)
            .committed();
        let ran = project.piton(["migrate", "--all", "--format", "json"]);
        let told = ran.json();
        let skipped: Vec<&Value> = told["skipped"].as_array().expect("a list").iter().collect();
        let reason = format!("`.ai/scripts/hh.py` is named by `{file}`");
        assert!(
            skipped
                .iter()
                .any(|it| it["path"] == ".ai/scripts/hh.py" && it["reason"] == reason),
            "{told:#}"
        );
        project.assert_clean();
    }
}

/// A chain: a script that stays keeps the scripts that it names, and so on; a library module is
/// copied.
#[test]
fn what_stays_keeps_others_in_turn() {
    let run = |name: &str| format!("#!/bin/bash\npython3 \"$(dirname \"$0\")/{name}\"\n");
    let boxed = BOXED.replace("run.sh", "start.sh");
    let project = TestProject::new()
        // The whole folder would move, but it names by path a script that must stay.
        .file(".ai/scripts/boxed/tool.yaml", boxed)
        .file(".ai/scripts/boxed/start.sh", "python3 .ai/scripts/far.py\n")
        .file(".ai/scripts/far.py", STEP)
        .file(".ai/scripts/one.sh", run("two.sh"))
        .file(".ai/scripts/two.sh", run("three.py"))
        .file(
            ".ai/scripts/three.py",
            "import helper\n\n\ndef main():\n    return helper.X\n",
        )
        .file(".ai/scripts/helper.py", "X = 1\n")
        .file(
            ".ai/scripts/uses.py",
            "from lib import fmt\n\n\ndef main():\n    return fmt.X\n",
        )
        .file(
            ".ai/scripts/cat.sh",
            "#!/bin/bash\ncat .ai/scripts/lib/fmt.py\n",
        )
        .file(".ai/scripts/lib/fmt.py", "X = 1\n")
        .committed();
    let told = project
        .piton(["migrate", "--all", "--format", "json"])
        .json();
    let skipped: Vec<&Value> = told["skipped"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["path"])
        .collect();
    assert_eq!(
        json!([told["removed"], told["library"], skipped]),
        json!([
            [".ai/scripts/boxed/start.sh", ".ai/scripts/boxed/tool.yaml", ".ai/scripts/uses.py"],
            [{"action": "copy", "from": ".ai/scripts/lib/fmt.py", "path": ".ai/tools/lib/fmt.py"}],
            [
                ".ai/scripts/cat.sh",
                ".ai/scripts/far.py",
                ".ai/scripts/helper.py",
                ".ai/scripts/one.sh",
                ".ai/scripts/three.py",
                ".ai/scripts/two.sh",
            ],
        ])
    );
}

#[test]
fn no_link_is_left_without_what_it_leads_to() {
    let project = TestProject::new()
        .file(".ai/scripts/a.py", COUNT)
        .file(".ai/scripts/odd/b.py", COUNT);
    symlink("../a.py", project.root().join(".ai/scripts/odd/alias.py")).expect("a link");
    let project = project.committed();
    let before = project.piton(["validate"]).code();
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    b  .ai/scripts/odd/b.py → .ai/tools/odd/b
      moved    .ai/scripts/odd/b.py → .ai/tools/odd/b/main.py
      created  .ai/tools/odd/b/tool.yaml
    left alone
      .ai/scripts/a.py is what the link `.ai/scripts/odd/alias.py` leads to
        remove the link, or replace it by what it leads to
      .ai/scripts/odd/alias.py: it is a link
        replace it by what it leads to, or remove it
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 1 script became a tool, 2 files were left alone
    hint: check it with `piton validate`; `piton undo` restores everything
    ");
    assert_eq!(project.piton(["validate"]).code(), before);
    cmd_snapshot!(project.piton(["migrate", ".ai/scripts/odd/alias.py"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/scripts/odd/alias.py` is a link, or lies behind one

    hint: replace the link by what it leads to
    ");
    cmd_snapshot!(project.piton(["migrate", "a", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    a  .ai/scripts/a.py → .ai/tools/a
      move     .ai/scripts/a.py → .ai/tools/a/main.py
      create   .ai/tools/a/tool.yaml
      note     the link `.ai/scripts/odd/alias.py` leads to `.ai/scripts/a.py`
    ----- stderr -----
    dry run, nothing was changed: 1 script would become a tool
    ");
}

/// The advice about each file can be followed without breaking anything.
#[test]
fn hints_can_be_followed_safely() {
    let project = TestProject::new()
        .file(".ai/scripts/stays.py", "import os\nfrom lib import only_here\n\n\ndef main():\n    return [open(os.path.dirname(__file__) + '/data.csv').read(), only_here.X]\n")
        .file(".ai/scripts/lib/only_here.py", "X = 1\n")
        .file(".ai/scripts/lib/nobody.py", "X = 1\n")
        .file(".ai/scripts/data.csv", "a,b\n")
        .file(".ai/scripts/differs.py", "from lib import h\n\n\ndef main():\n    return h.X\n")
        .file(".ai/scripts/lib/h.py", "X = 1\n")
        .file(".ai/tools/lib/h.py", "X = 2\n")
        .file(".ai/scripts/two.py", COUNT)
        .file(".ai/scripts/two/three.py", COUNT)
        .committed();
    cmd_snapshot!(project.piton(["migrate", "--all", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    three  .ai/scripts/two/three.py → .ai/tools/two/three
      move     .ai/scripts/two/three.py → .ai/tools/two/three/main.py
      create   .ai/tools/two/three/tool.yaml
    left alone
      .ai/scripts/data.csv: `.ai/scripts/stays.py` names it
        leave it where it is as long as it is used there
      .ai/scripts/differs.py: `.ai/tools/lib/h.py` exists already, and is not the same as `.ai/scripts/lib/h.py`
        make both the same, or rename one of them; tools may import `.ai/tools/lib/h.py`
      .ai/scripts/lib/h.py: scripts that are left alone may import it
        leave it where it is until they are migrated
      .ai/scripts/lib/nobody.py: no script that is migrated imports it
        move it to `.ai/tools/lib/`, or remove it
      .ai/scripts/lib/only_here.py: scripts that are left alone may import it
        leave it where it is until they are migrated
      .ai/scripts/stays.py may depend on where it lies: it uses `__file__`
        look whether it works from another folder, then migrate it alone, by its id
      .ai/scripts/two.py: `.ai/tools/two` and what `.ai/scripts/two/three.py` becomes would lie one in the other
        rename one of the two, or move one of them to another folder first
    ----- stderr -----
    dry run, nothing was changed: 1 script would become a tool, 7 files would be left alone
    ");
    cmd_snapshot!(project.piton(["migrate", ".ai/scripts/lib/h.py"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/scripts/lib/h.py` is a module that scripts share

    hint: it goes along with the scripts that import it: migrate those
    ");
    cmd_snapshot!(project.piton(["migrate", "nope"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: no script of the project matches `nope`

    hint: name a script, `category/*`, a folder such as `.ai/scripts/ops`, or `--all`
    ");
    assert_eq!(
        project
            .piton(["migrate", "nope", "--format", "json"])
            .last_json()["error"]["code"],
        "NOT_FOUND"
    );
}
