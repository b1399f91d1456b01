//! Files that no checkpoint could restore are not moved.

use serde_json::{Value, json};

use super::{BOXED, COUNT, tree};
use crate::harness::{TestProject, cmd_snapshot};

/// The path of the script `s`, a command that makes it a file that snapshots do not hold, and the
/// expected code.
const UNCOVERED: [(&str, &str, &str); 9] = [
    (".ai/scripts/nr/s.py", "git init -q .ai/scripts/nr", "OUTSIDE_CHECKPOINTS"),
    (
        ".ai/scripts/nr/s.py",
        "cd .ai/scripts/nr; git init -q; git add .; git commit -qm one; echo '# mine' >> s.py",
        "OUTSIDE_CHECKPOINTS",
    ),
    (
        ".ai/scripts/sm/s.py",
        "mv .ai/scripts/sm ../origin; cd ../origin; git init -q; git add .; git commit -qm one; cd ../project
        git -c protocol.file.allow=always submodule --quiet add ../origin .ai/scripts/sm; git commit -qm sub",
        "OUTSIDE_CHECKPOINTS",
    ),
    (
        ".ai/scripts/s.py",
        "mv .ai ../origin; cd ../origin; git init -q; git add .; git commit -qm one; cd ../project
        git -c protocol.file.allow=always submodule --quiet add ../origin .ai; git commit -qm sub",
        "OUTSIDE_CHECKPOINTS",
    ),
    (
        ".ai/scripts/s.py",
        "git add .; git commit -qm s; git update-index --skip-worktree .ai/scripts/s.py; echo '# e' >> .ai/scripts/s.py",
        "OUTSIDE_CHECKPOINTS",
    ),
    (
        ".ai/scripts/s.py",
        "git add .; git commit -qm s; git update-index --assume-unchanged .ai/scripts/s.py",
        "OUTSIDE_CHECKPOINTS",
    ),
    (
        ".ai/scripts/s.py",
        "mkdir -p ~/.ai; echo 'checkpoint: {max_file_size: 5}' > ~/.ai/config.yaml; git add .; git commit -qm s",
        "OUTSIDE_CHECKPOINTS",
    ),
    (".ai/scripts/s.py", "git add .; git commit -qm s; git init -q .ai/tools", "OUTSIDE_CHECKPOINTS"),
    (".ai/scripts/s.py", "git add .; git commit -qm s; echo .ai/tools >> .git/info/exclude", "IGNORED_BY_GIT"),
];

#[test]
fn what_a_snapshot_does_not_hold_stays_where_it_is() {
    for (script, commands, code) in UNCOVERED {
        let project = TestProject::new()
            .file("README.md", "hi\n")
            .committed()
            .file(script, COUNT);
        project.bash(commands);
        let before = tree(&project, ".ai");
        for arguments in [
            &["migrate", "s"][..],
            &["migrate", "s", "--checkpoint", "auto"],
            &["migrate", "s", "--dry-run"],
        ] {
            let ran = project.piton([arguments, &["--format", "json"]].concat());
            assert_eq!(
                (ran.code(), &ran.last_json()["error"]["code"]),
                (Some(5), &json!(code)),
                "{commands}\n{ran}"
            );
        }
        for arguments in [
            &["migrate", "--all"][..],
            &["migrate", ".ai/scripts/*"],
            &["migrate", "--all", "--dry-run"],
        ] {
            let ran = project.piton([arguments, &["--format", "json"]].concat());
            let told = ran.json();
            let skipped: Vec<(&Value, &Value)> = told["skipped"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|it| (&it["path"], &it["code"]))
                .collect();
            assert_eq!(
                (ran.code(), skipped),
                (Some(1), vec![(&json!(script), &json!(code))]),
                "{commands}\n{ran}"
            );
        }
        assert_eq!(tree(&project, ".ai"), before, "{commands}");
        let ran = project.piton(["migrate", "s", "--checkpoint", "disabled"]);
        assert_eq!(ran.code(), Some(0), "{commands}\n{ran}");
    }
}

/// One such script does not prevent the migration of the others.
#[test]
fn only_scripts_that_cannot_be_restored_are_left_alone() {
    let project = TestProject::new()
        .file(".gitignore", "mine.py\n/.ai/scripts/lib/own.py\n")
        .file(".ai/scripts/a.py", COUNT)
        .file(".ai/scripts/mine.py", COUNT)
        .file(
            ".ai/scripts/b.py",
            "from lib import own\n\n\ndef main():\n    return own.X\n",
        )
        .file(".ai/scripts/lib/own.py", "X = 1\n")
        .committed();
    let before = tree(&project, ".ai");
    cmd_snapshot!(project.piton(["migrate", "--all"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    a  .ai/scripts/a.py → .ai/tools/a
      moved    .ai/scripts/a.py → .ai/tools/a/main.py
      created  .ai/tools/a/tool.yaml
    left alone
      .ai/scripts/b.py: git ignores `.ai/scripts/lib/own.py`: no checkpoint could restore it
        take it out of `.gitignore`, or turn checkpoints off: `--checkpoint disabled`
      .ai/scripts/lib/own.py: scripts that are left alone may import it
        leave it where it is until they are migrated
      .ai/scripts/mine.py: git ignores `.ai/scripts/mine.py`: no checkpoint could restore it
        take it out of `.gitignore`, or turn checkpoints off: `--checkpoint disabled`
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ 1 script became a tool, 3 files were left alone
    hint: check it with `piton validate`; `piton undo` restores everything
    ");
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(tree(&project, ".ai"), before);
}

/// New files may be created, and the answer says that an undo will not remove them.
#[test]
fn a_new_tool_in_a_repository_of_its_own_is_told_to_stay() {
    let project = TestProject::new()
        .file("x", "")
        .file(".ai/tools/keep.yaml", BOXED)
        .committed();
    project.bash("git init -q .ai/tools");
    cmd_snapshot!(project.piton(["new", "tool", "n1", "--type", "bash"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/tools/n1/main.sh
    created .ai/tools/n1/tool.yaml
    ----- stderr -----
    warning: `.ai/tools/n1/main.sh` is in a nested repository: `piton undo` cannot revert this and 1 more
    hint: edit `.ai/tools/n1/main.sh`, then `piton validate` and `piton tool run n1 --param who=Ada`; once it is right, `piton sign n1`
    ");
}
