//! `piton load`: shows items and copies them between project and user.

use std::process::Stdio;

use serde_json::json;

use crate::harness::{TestProject, cmd_snapshot};

const NOTE: &str = "---\nid: facts\ntitle: Facts\nversion: 1.0.0\nentry_type: reference\ncategory: ops\ntags: []\n---\nText\n";

#[test]
fn the_text_of_an_item_is_printed_byte_for_byte() {
    let text = format!("\u{feff}{}", NOTE.replace('\n', "\r\n"));
    let project = TestProject::new()
        .file(".ai/knowledge/ops/facts.md", &text)
        .committed();
    let ran = project.piton(["load", "facts"]);
    assert_eq!((ran.code(), ran.stdout()), (Some(0), text.clone()), "{ran}");
    assert_eq!(ran.stderr(), "");
    let loaded = project
        .piton(["load", "ops/facts", "--format", "json"])
        .json();
    assert_eq!(loaded["content"], json!(text));
    assert_eq!(
        (
            &loaded["name"],
            &loaded["item_type"],
            &loaded["path"],
            &loaded["source"]
        ),
        (
            &json!("facts"),
            &json!("knowledge"),
            &json!(".ai/knowledge/ops/facts.md"),
            &json!("project")
        )
    );
    assert_eq!(loaded["metadata"]["title"], "Facts");
    assert_eq!(loaded.get("run"), None, "looking is no run");
    assert_eq!(project.piton(["log"]).stdout(), "");
    project.assert_clean();
}

#[test]
fn schemas_of_tools_and_directives_are_part_of_what_is_loaded() {
    let more = "parameters:\n  - name: who\n    type: string\n    required: true\n";
    let project = TestProject::new().tool("greet", more, "true").committed();
    let loaded = project.piton(["load", "greet", "--format", "json"]).json();
    assert_eq!(
        loaded["input_schema"]["required"],
        json!(["who"]),
        "{loaded:#}"
    );
    let loaded = project
        .piton(["load", "git_checkpoint", "--format", "json"])
        .json();
    assert_eq!(loaded["source"], "builtin");
    assert_eq!(
        loaded["input_schema"]["required"],
        json!(["operation"]),
        "{loaded:#}"
    );
}

#[test]
fn a_copy_may_be_started_if_its_original_may() {
    let script = "#!/bin/sh\n# tool_id: greet\n# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n\
                  # description: Greets\necho hello\n";
    let manifest = "tool_id: box\ntool_type: bash\nversion: 1.0.0\ndescription: A box\nexecutor: bash_runtime\n\
                    config:\n  entrypoint: box.sh\n";
    let project = TestProject::new()
        .file("README", "")
        .home_file(".ai/tools/greet.sh", script)
        .home_file(".ai/tools/box/tool.yaml", manifest)
        .home_file(".ai/tools/box/box.sh", "echo boxed\n")
        .committed();
    let files = ".ai/tools/greet.sh .ai/tools/box/box.sh";
    for (mode, before) in [("755", ""), ("755", "chmod 644"), ("644", "chmod 755")] {
        project.bash(&format!(
            "(cd; chmod {mode} {files}); test -z '{before}' || {before} {files}"
        ));
        for item in ["greet", "box"] {
            let ran = project.piton(["load", item, "--to", "project", "--overwrite"]);
            assert_eq!(ran.code(), Some(0), "{ran}");
        }
        assert_eq!(
            project.bash(&format!("stat -c %a {files}")),
            format!("{mode}\n{mode}\n"),
            "{before}"
        );
    }
}

#[test]
fn a_copy_into_the_project_is_stamped_and_can_be_undone() {
    let project = TestProject::new()
        .home_file(".ai/tools/box/tool.yaml", "tool_id: box\ntool_type: bash\nversion: 1.0.0\ndescription: A box\nexecutor: bash_runtime\nconfig:\n  entrypoint: box.sh\n")
        .home_file(".ai/tools/box/box.sh", "echo boxed\n")
        .file("mine.txt", "mine\n")
        .committed();
    let project = project.file("mine.txt", "changed\n");
    let before = project.files();
    cmd_snapshot!(project.piton(["load", "box", "--to", "project", "--dry-run"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    .ai/tools/box/box.sh
    .ai/tools/box/tool.yaml
    ----- stderr -----
    ✓ would be copied from user to project as `.ai/tools/box/tool.yaml`
    ");
    assert_eq!(project.files(), before);
    assert_eq!(project.piton(["log"]).stdout(), "");
    cmd_snapshot!(project.piton(["load", "box", "--to", "project"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    .ai/tools/box/box.sh
    .ai/tools/box/tool.yaml
    ----- stderr -----
    left uncommitted; run `piton checkpoint` to commit it
    ✓ copied from user to project as `.ai/tools/box/tool.yaml`
    ");
    assert!(
        project
            .read(".ai/tools/box/tool.yaml")
            .starts_with("# kiwi-mcp:validated:")
    );
    let ran = project.piton(["tool", "run", "box"]);
    assert_eq!(
        (ran.code(), ran.stdout()),
        (Some(0), "boxed\n".to_owned()),
        "{ran}"
    );
    let shown = project
        .piton(["tool", "show", "box", "--format", "json"])
        .json();
    assert_eq!(
        (&shown["source"], &shown["signature"]["status"]),
        (&json!("project"), &json!("valid"))
    );
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    let left: Vec<String> = project
        .files()
        .into_iter()
        .filter(|file| !file.starts_with(".ai/outputs/"))
        .collect();
    assert_eq!(left, before);
    assert_eq!(project.read("mine.txt"), "changed\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn nothing_is_replaced_unless_asked_to_and_then_it_can_be_undone() {
    let project = TestProject::new()
        .home_file(
            ".ai/knowledge/ops/facts.md",
            NOTE.replace("Text", "The user's"),
        )
        .file(".ai/knowledge/ops/facts.md", NOTE)
        .committed();
    let project = project.file(
        ".ai/knowledge/ops/facts.md",
        NOTE.replace("Text", "Not committed yet"),
    );
    cmd_snapshot!(project.piton(["load", "facts", "--to", "project"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/knowledge/ops/facts.md` exists already

    hint: replace it with `--overwrite`, in a directive with `overwrite="true"`
    "#);
    assert!(
        project
            .read(".ai/knowledge/ops/facts.md")
            .contains("Not committed yet")
    );
    let ran = project.piton([
        "load",
        "facts",
        "--to",
        "project",
        "--overwrite",
        "--checkpoint",
        "auto",
    ]);
    cmd_snapshot!(ran, @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    ✗ no checkpoint was made; the changes stay on disk
    error: the step overlaps your uncommitted changes: `.ai/knowledge/ops/facts.md` [DIRTY_OVERLAP]
    hint: `piton undo` undoes the step: commit or stash your own part and run it again; or commit both together with `piton checkpoint PATH`
    ");
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert!(
        project
            .read(".ai/knowledge/ops/facts.md")
            .contains("Not committed yet")
    );
    let ran = project.piton(["load", "facts", "--to", "project", "--overwrite"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        project
            .read(".ai/knowledge/ops/facts.md")
            .contains("The user's")
    );
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        project
            .read(".ai/knowledge/ops/facts.md")
            .contains("Not committed yet")
    );
}

#[test]
fn what_a_copy_replaces_in_the_home_is_kept_there() {
    let project = TestProject::new()
        .home_file(
            ".ai/knowledge/ops/facts.md",
            NOTE.replace("Text", "The user's"),
        )
        .file(".ai/knowledge/ops/facts.md", NOTE)
        .committed();
    cmd_snapshot!(project.piton(["load", "facts", "--to", "user"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/knowledge/ops/facts.md` exists already

    hint: replace it with `--overwrite`, in a directive with `overwrite="true"`
    "#);
    let ran = project.piton(["load", "facts", "--to", "user", "--overwrite"]);
    let place = project.home().join(".ai/knowledge/ops/facts.md");
    assert_eq!(
        (ran.code(), ran.stdout()),
        (Some(0), format!("{}\n", place.display())),
        "{ran}"
    );
    assert!(
        ran.stderr()
            .contains("the previous files are kept in `~/.ai/replaced/"),
        "{ran}"
    );
    let copy =
        std::fs::read_to_string(project.home().join(".ai/knowledge/ops/facts.md")).expect("a copy");
    assert!(
        copy.starts_with("<!-- kiwi-mcp:validated:") && copy.ends_with(NOTE),
        "{copy}"
    );
    let kept = std::fs::read_dir(project.home().join(".ai/replaced")).expect("a folder");
    let kept: Vec<_> = kept
        .map(|entry| {
            entry
                .expect("an entry")
                .path()
                .join("knowledge/ops/facts.md")
        })
        .collect();
    let [kept] = kept.as_slice() else {
        panic!("{kept:?}")
    };
    assert!(
        std::fs::read_to_string(kept)
            .expect("the old one")
            .contains("The user's")
    );
    project.assert_clean();
    assert_eq!(
        project.piton(["log"]).stdout(),
        "",
        "the home is no part of the project"
    );
}

#[test]
fn a_copy_never_takes_the_place_of_another_item() {
    let project = TestProject::new()
        .home_file(
            ".ai/knowledge/ops/facts.md",
            NOTE.replace("id: facts", "id: rumours"),
        )
        .file(".ai/knowledge/ops/facts.md", NOTE)
        .committed();
    cmd_snapshot!(project.piton(["load", "rumours", "--to", "project", "--overwrite"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/knowledge/ops/facts.md` holds another item, `facts`

    hint: move that one first; a copy has the same path as the original
    ");
    assert_eq!(project.read(".ai/knowledge/ops/facts.md"), NOTE);
    project.assert_clean();
}

#[test]
fn an_item_that_was_tampered_with_is_shown_but_not_copied() {
    let project = TestProject::new()
        .file(".ai/knowledge/ops/facts.md", NOTE)
        .committed();
    assert_eq!(
        project.piton(["load", "facts", "--to", "user"]).code(),
        Some(0)
    );
    let path = project.home().join(".ai/knowledge/ops/facts.md");
    let text = std::fs::read_to_string(&path)
        .expect("a copy")
        .replace("Text", "Other text");
    std::fs::write(&path, text).expect("written");
    let project = project.file(".ai/knowledge/other.md", NOTE.replace("facts", "other"));
    let ran = project.piton(["load", "facts", "--source", "user"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("Content hash mismatch"), "{ran}");
    cmd_snapshot!(project.piton(["load", "facts", "--source", "user", "--to", "project", "--overwrite"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `facts` does not match its stamp

    hint: look at what changed since it was signed, then sign it again
    ");
    assert_eq!(project.read(".ai/knowledge/ops/facts.md"), NOTE);
}

#[test]
fn executors_that_are_left_behind_are_named() {
    let runtime = "tool_id: my_runtime\ntool_type: runtime\nversion: 1.0.0\ndescription: Mine\nexecutor: subprocess\nconfig:\n  command: bash\n";
    let tool = "tool_id: mine\ntool_type: script\nversion: 1.0.0\ndescription: Mine\nexecutor: my_runtime\nconfig:\n  entrypoint: mine.sh\n";
    let project = TestProject::new()
        .home_file(".ai/tools/my_runtime.yaml", runtime)
        .home_file(".ai/tools/mine/tool.yaml", tool)
        .home_file(".ai/tools/mine/mine.sh", "true\n");
    let ran = project.piton(["load", "mine", "--to", "project"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("it runs through `my_runtime`, which stays an item of the user"),
        "{ran}"
    );
}

#[test]
fn mistakes_are_reported_with_a_hint() {
    let project = TestProject::new()
        .tool("facts", "", "true")
        .file(".ai/knowledge/ops/facts.md", NOTE)
        .committed();
    cmd_snapshot!(project.piton(["load", "fact"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no item `fact`

    hint: did you mean `facts`?
    ");
    cmd_snapshot!(project.piton(["load", "facts"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `item_type` of `load` is needed: several kinds of items are called `facts`

    hint: in the terminal, `--type` says it
    ");
    cmd_snapshot!(project.piton(["load", "facts", "--source", "registry"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: piton has no registry of items

    hint: `--source local` is the project and `~/.ai/`; `all` adds built-in items
    ");
    cmd_snapshot!(project.piton(["load", "../facts"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `../facts` is not an id: each part must begin with a letter or digit

    hint: use letters, digits, `_` and `-`; `/` after a category
    ");
    cmd_snapshot!(project.piton(["load", "subprocess", "--to", "project"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: the primitive `subprocess` cannot be copied

    hint: primitives are part of piton; tools use them as their executor
    ");
    cmd_snapshot!(project.piton(["load", "facts", "--type", "tool", "--to", "project"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    `facts` is already an item of the project: nothing to copy
    ");
    let ran = project.piton(["load", "facts", "--overwrite"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    project.assert_clean();
}

#[test]
fn without_git_a_copy_is_written_and_that_it_cannot_be_undone_is_reported() {
    let project = TestProject::without_git().home_file(".ai/knowledge/ops/facts.md", NOTE);
    cmd_snapshot!(project.piton(["load", "facts", "--to", "project"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    .ai/knowledge/ops/facts.md
    ----- stderr -----
    no checkpoint, because there is no git repository
    ✓ copied from user to project as `.ai/knowledge/ops/facts.md`
    ");
    assert!(project.read(".ai/knowledge/ops/facts.md").ends_with(NOTE));
}

#[test]
fn concurrent_copies_into_the_home_do_not_conflict() {
    let project = (0..6).fold(TestProject::new(), |project, number| {
        project
            .tool(&format!("tool_{number}"), "", "true")
            .file(&format!(".ai/tools/tool_{number}/data.txt"), "data\n")
    });
    let project = project.committed();
    for _ in 0..3 {
        let children: Vec<_> = (0..6)
            .map(|number| {
                let mut command = project.command([
                    "load",
                    &format!("tool_{number}"),
                    "--to",
                    "user",
                    "--overwrite",
                    "--quiet",
                ]);
                command
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .expect("piton starts")
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().expect("piton ends");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    let home = project.home().join(".ai");
    let left: Vec<_> = std::fs::read_dir(&home)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .collect();
    assert!(
        left.iter().all(|entry| !entry
            .file_name()
            .to_string_lossy()
            .starts_with(".unfinished")),
        "{left:?}"
    );
    let checked = project.piton(["sign", "--check", "--source", "user"]);
    assert_eq!(checked.code(), Some(0), "{checked}");
}

#[test]
fn files_replaced_twice_in_the_same_second_are_both_kept() {
    let project = TestProject::new()
        .home_file(
            ".ai/knowledge/ops/facts.md",
            NOTE.replace("Text", "The original"),
        )
        .file(".ai/knowledge/ops/facts.md", NOTE)
        .committed();
    for text in ["Text", "Second", "Third"] {
        let project_file = project.root().join(".ai/knowledge/ops/facts.md");
        std::fs::write(&project_file, NOTE.replace("Text", text)).expect("written");
        let ran = project.piton(["load", "facts", "--to", "user", "--overwrite"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    let kept = walkdir::WalkDir::new(project.home().join(".ai/replaced"))
        .into_iter()
        .map(|entry| entry.expect("an entry"));
    let texts: Vec<String> = kept
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| std::fs::read_to_string(entry.path()).expect("a file"))
        .collect();
    for text in ["The original", "\nText\n", "Second"] {
        assert_eq!(
            texts.iter().filter(|kept| kept.contains(text)).count(),
            1,
            "{text}: {texts:#?}"
        );
    }
}

#[test]
fn a_copy_that_cannot_be_written_is_no_copy() {
    let project = TestProject::new()
        .home_file(".ai/knowledge/ops/facts.md", NOTE)
        .file("mine.txt", "")
        .committed();
    let project = project.variable("PITON_FAILPOINT", "item-write=error");
    let ran = project.piton(["load", "facts", "--to", "project", "--format", "json"]);
    let outcome = ran.json();
    assert_eq!(
        (
            ran.code(),
            outcome.get("message"),
            &outcome["run"]["status"]
        ),
        (Some(1), None, &json!("failed")),
        "{ran}"
    );
    assert_eq!(project.files(), ["mine.txt"]);
    let ran = project.piton(["load", "facts", "--to", "project"]);
    assert_eq!(
        (ran.code(), ran.stdout()),
        (Some(1), String::new()),
        "{ran}"
    );
}

#[test]
fn a_dry_run_says_that_it_is_one_and_useless_flags_are_refused() {
    let project = TestProject::new()
        .file(".ai/knowledge/ops/facts.md", NOTE)
        .committed();
    let planned = project
        .piton([
            "load",
            "facts",
            "--to",
            "user",
            "--dry-run",
            "--format",
            "json",
        ])
        .json();
    assert_eq!(planned["dry_run"], true);
    assert!(!project.home().join(".ai").exists());
    cmd_snapshot!(project.piton(["load", "facts", "--to", "user", "--checkpoint", "auto"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `--checkpoint` applies only to writes to the project

    hint: leave `--checkpoint` out: no checkpoint covers anything else
    ");
    cmd_snapshot!(project.piton(["load", "facts", "-m", "why"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `--message` applies only to writes to the project

    hint: leave `--message` out: no checkpoint covers anything else
    ");
    let signed = project
        .piton(["sign", "facts", "--dry-run", "--format", "json"])
        .json();
    assert_eq!(signed["dry_run"], true);
}

#[test]
fn the_log_has_the_command_as_it_was_typed() {
    let project = TestProject::new()
        .home_file(".ai/knowledge/ops/facts.md", NOTE)
        .file("mine.txt", "")
        .committed();
    project.piton([
        "load",
        "facts",
        "--type",
        "knowledge",
        "--source",
        "user",
        "--to",
        "project",
    ]);
    let log = project.piton(["log", "--format", "json"]).stdout();
    assert!(
        log.contains(
            "\"load\",\"facts\",\"--type\",\"knowledge\",\"--source\",\"user\",\"--to\",\"project\""
        ),
        "{log}"
    );
}

#[test]
fn a_file_that_cannot_be_restored_is_not_overwritten() {
    let item = "tool_id: t\ntool_type: script\nversion: 1.0.0\nexecutor: bash_runtime\ndescription: D\nconfig: {command: 'true'}\n";
    for rules in [Some(".ai/\n"), None] {
        let project = TestProject::new()
            .file(".ai/tools/t.yaml", item)
            .file("x", "");
        let project = match rules {
            Some(rules) => project.file(".gitignore", rules).committed(),
            None => project.committed(),
        };
        if rules.is_none() {
            project.bash("rm -rf .git");
        }
        project.bash("mkdir -p ../home/.ai/tools; sed s/D/Other/ .ai/tools/t.yaml > ../home/.ai/tools/t.yaml");
        let load = [
            "load",
            "t",
            "--source",
            "user",
            "--to",
            "project",
            "--overwrite",
        ];
        let ran = project.piton(load);
        assert_eq!(ran.code(), Some(5), "{ran}");
        assert!(ran.stderr().contains("--checkpoint disabled"), "{ran}");
        assert_eq!(project.read(".ai/tools/t.yaml"), item);
        let ran = project.piton([&load[..], &["--checkpoint", "disabled"]].concat());
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(project.read(".ai/tools/t.yaml").contains("Other"));
    }
}
