//! History of tool calls: `log`, `show`, `verify`, `undo` and `restore`.

use std::fs;

use crate::harness::{MEETING, TestProject, cmd_snapshot};

/// A tool that writes a note, and waits so that another process can act meanwhile.
fn project() -> TestProject {
    let more = "mutates_state: true\nwrites: ['notes/**']\nparameters:\n  - {name: topic, type: string, required: true, \
                description: What about}\n  - {name: token, type: string, description: A key}";
    let script = format!(
        "{MEETING}\nmkdir -p notes; echo note >> \"notes/$PITON_PARAM_TOPIC\"; echo talk >&2; echo '{{}}'"
    );
    TestProject::new()
        .tool("note", more, &script)
        .tool(
            "fail",
            "",
            &format!("echo x >> theirs.txt; echo x > made.txt; {MEETING}; exit 3"),
        )
        .directive("write", ["note"])
        .file("theirs.txt", "theirs\n")
        .file("notes/roof", "one\n")
        .committed()
        .ticking()
}

const NOTE: &[&str] = &[
    "tool",
    "run",
    "note",
    "--checkpoint",
    "auto",
    "--param",
    "topic=roof",
];

fn run(project: &TestProject, arguments: &[&str]) {
    let ran = project.piton(arguments);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

fn note(project: &TestProject, meanwhile: &str, more: &[&str]) {
    let ran = project.piton_while(meanwhile, [NOTE, more].concat());
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn a_call_is_shown_without_secrets_and_with_what_it_was_allowed() {
    let project = project();
    // Split, so that secret scanners do not report this file.
    let token = ["token=ghp_wWPw5k4aXcaT4fNP", "0UcnZwJUVFk6LO0pINUx"].concat();
    note(
        &project,
        "echo more >> theirs.txt",
        &["--as", "write", "--param", &token],
    );
    run(
        &project,
        &["exec", "--checkpoint", "explicit", "--", "true"],
    );
    cmd_snapshot!(project.piton(["log", "--tool", "note"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    01kdyabk  2026-01-02 03:00:01  tool run note --param topic=roof --param 'token=[redacted:github-token#7316c3e0]' --as write  succeeded  [SHA]  1 file, +1 −0
    ----- stderr -----
    ");
    assert_eq!(project.piton(["log", "--tool", "other"]).stdout(), "");
    cmd_snapshot!(project.piton(["show", "HEAD"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    step          01kdyabkw0000e485875xhvkdf/1
    name          note
    what          tool note → bash_runtime → subprocess
    when          2026-01-02 03:00:02
    started as    piton tool run note --param topic=roof --param 'token=[redacted:github-token#7316c3e0]' --as write
    tool          note@1.0.0
    mode          auto
    permissions   <execute resource="tool" id="note"/> by <execute resource="tool" id="note"/> in `write`, enforced: broker
                  <write resource="filesystem" path="**"/> by <write resource="filesystem" path="**"/> in `write`, enforced: kernel
    parameters    topic = "roof"
                  token = "[redacted:github-token#7316c3e0]"
    isolation     standard
    exit code     0
    stdout        3 bytes, sha256:[HASH]
    stderr        5 bytes, sha256:[HASH]
    status        succeeded
    outcome       [SHA]  1 file, +1 −0
    commit        [HASH]
    message       chore(notes): update `roof` by `note`

                  1 file changed, 1 insertion(+)

                  Piton-Run: 01kdyabkw0000e485875xhvkdf
                  Piton-Step: 1 note
                  Piton-Tool: note@1.0.0
                  Piton-Journal: sha256:[HASH]
    meanwhile     another process changed `theirs.txt`

    diff --git a/notes/roof b/notes/roof
    index [SHA]..[SHA] 100644
    --- a/notes/roof
    +++ b/notes/roof
    @@ -1 +1,2 @@
     one
    +note
    ----- stderr -----
    "#);
    let shown = project.piton(["show", "HEAD", "--format", "json"]).json();
    assert_eq!(shown["outside"], serde_json::json!(["theirs.txt"]));
    assert_eq!(shown["stderr"]["bytes"], 5);
    assert!(
        shown["kind"]["permissions"][0]["enforcement"].is_string(),
        "{shown}"
    );
}

#[test]
fn a_call_with_concurrent_edits_is_verified() {
    let project = project();
    note(
        &project,
        "echo more >> theirs.txt; echo new > new.txt; rm .ai/directives/write.md",
        &[],
    );
    let ran = project.piton_while(
        "echo again > new.txt",
        ["tool", "run", "fail", "--checkpoint", "auto"],
    );
    assert_eq!(ran.code(), Some(1), "{ran}");
    let ran = project.piton_while(
        "echo third > new.txt",
        ["tool", "run", "note", "--param", "topic=wall"],
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    run(&project, &["verify", "--all"]);
    assert_eq!(
        project.git(["show", "--name-only", "--format="]),
        "notes/roof\n"
    );
    assert_eq!(project.read("theirs.txt"), "theirs\nmore\n");
    assert_eq!(project.read("new.txt"), "third\n");
}

#[test]
fn parameters_and_permissions_cannot_be_changed_afterwards() {
    for (from, to) in [
        ("roof", "wall"),
        (r#""enforcement":""#, r#""enforcement":"not_"#),
        (r#""isolation":"standard""#, r#""isolation":"strict""#),
    ] {
        let project = project();
        note(&project, "", &["--as", "write"]);
        run(&project, &["verify", "--all"]);
        let mut journals = fs::read_dir(project.root().join(".git/piton/runs")).expect("runs");
        let path = journals
            .next()
            .expect("a run")
            .expect("a run")
            .path()
            .join("journal.jsonl");
        let text = fs::read_to_string(&path).expect("a journal");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert!(lines[1].contains(from), "{from}: {}", lines[1]);
        lines[1] = lines[1].replacen(from, to, 1);
        fs::write(&path, lines.join("\n") + "\n").expect("written");
        let ran = project.piton(["verify", "--all", "--format", "json"]);
        assert_eq!(ran.code(), Some(1), "{from}: {ran}");
        assert_eq!(
            ran.json()["breaks"][0]["code"],
            "JOURNAL_BROKEN",
            "{from}: {ran}"
        );
    }
}

#[test]
fn an_undo_of_a_call_keeps_concurrent_changes_by_others() {
    for mode in ["auto", "explicit"] {
        let project = project();
        let meanwhile = "echo more >> theirs.txt; echo new > notes/theirs";
        let ran = project.piton_while(
            meanwhile,
            [
                "tool",
                "run",
                "note",
                "--param",
                "topic=roof",
                "--checkpoint",
                mode,
            ],
        );
        assert_eq!(ran.code(), Some(0), "{ran}");
        let theirs = || [project.read("theirs.txt"), project.read("notes/theirs")];
        assert_eq!(theirs(), ["theirs\nmore\n", "new\n"]);
        for (command, note) in [
            (["undo"].as_slice(), "one\n"),
            (["redo"].as_slice(), "one\nnote\n"),
            (["undo"].as_slice(), "one\n"),
        ] {
            run(&project, command);
            assert_eq!(project.read("notes/roof"), note, "{mode}: {command:?}");
            assert_eq!(theirs(), ["theirs\nmore\n", "new\n"], "{mode}: {command:?}");
        }
        run(&project, &["verify", "--all"]);
        let status = project.git(["status", "--porcelain"]);
        assert_eq!(status, " M theirs.txt\n?? notes/theirs\n", "{mode}");
    }
}

#[test]
fn a_restore_of_a_failed_call_brings_its_files_and_no_others() {
    let project = project();
    fs::write(project.root().join("made.txt"), "mine\n").expect("a file");
    let ran = project.piton_while(
        "echo new > new.txt",
        ["tool", "run", "fail", "--checkpoint", "auto"],
    );
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        [
            project.read("theirs.txt"),
            project.read("made.txt"),
            project.read("new.txt")
        ],
        ["theirs\n", "mine\n", "new\n"]
    );
    let log = project
        .piton(["log", "--tool", "fail", "--format", "json"])
        .json();
    let step = format!("{}/1", log["id"].as_str().expect("an id"));
    fs::write(project.root().join("new.txt"), "later\n").expect("a file");
    run(&project, &["restore", &step]);
    assert_eq!(
        [
            project.read("theirs.txt"),
            project.read("made.txt"),
            project.read("new.txt")
        ],
        ["theirs\nx\n", "x\n", "later\n"]
    );
    run(&project, &["verify", "--all"]);
}

#[test]
fn a_hook_of_the_user_does_not_attribute_other_edits_to_the_tool() {
    let hooks = [
        ("true", "auto", 0),
        ("echo hooked >> notes/roof", "run", 0),
        ("echo hooked >> notes/roof; exit 1", "run", 1),
    ];
    for (hook, policy, code) in hooks {
        let project = project().home_file("hook", format!("#!/bin/sh\n{hook}\n"));
        project.bash("cp ../home/hook .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit");
        fs::write(
            project.root().join(".ai/config.yaml"),
            format!("checkpoint:\n  hooks: {policy}\n"),
        )
        .expect("a file");
        project.git(["add", ".ai/config.yaml"]);
        project.git(["commit", "--quiet", "--no-verify", "--message", "settings"]);
        let ran = project.piton_while("echo more >> theirs.txt; echo new > new.txt", NOTE);
        assert_eq!(ran.code(), Some(code), "{hook}: {ran}");
        assert_eq!(
            [project.read("theirs.txt"), project.read("new.txt")],
            ["theirs\nmore\n", "new\n"],
            "{hook}: {ran}"
        );
        assert_eq!(
            project.git(["status", "--porcelain"]),
            " M theirs.txt\n?? new.txt\n",
            "{hook}: {ran}"
        );
        let note = match (policy, code) {
            (_, 1) => "one\n",
            ("run", _) => "one\nnote\nhooked\n",
            _ => "one\nnote\n",
        };
        assert_eq!(project.read("notes/roof"), note, "{hook}: {ran}");
        run(&project, &["verify", "--all"]);
    }
}

#[test]
fn gc_drops_environments_that_no_tool_used_for_a_month() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "a\n")
        .committed();
    project.bash(
        "cd ../home; mkdir -p .cache/piton/venvs/{old,young,unmarked}/bin; cd .cache/piton/venvs
         touch -d 2025-12-01 old/piton-used; touch -d 2025-12-20 young/piton-used; touch -d 2025-11-01 unmarked",
    );
    let venvs = project.home().join(".cache/piton/venvs");
    let old =
        [venvs.join("old"), venvs.join("unmarked")].map(|folder| folder.display().to_string());
    let told = project
        .piton(["gc", "--dry-run", "--format", "json"])
        .json();
    assert_eq!(told["environments"], serde_json::json!(old));
    assert!(venvs.join("old").exists());
    cmd_snapshot!(project.piton(["gc"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ dropped the contents of 0 runs, kept those of 0; journals stay
    ✓ dropped 2 virtual environments that no tool used for 30 days
    ");
    let left = ["old", "unmarked", "young"].map(|name| venvs.join(name).exists());
    assert_eq!(left, [false, false, true]);
}

#[test]
fn journals_outputs_and_private_homes_are_for_this_user_only() {
    for umask in ["022", "000"] {
        let project = TestProject::new()
            .tool("probe", "", "stat -c %a \"$HOME\"")
            .committed();
        let piton = env!("CARGO_BIN_EXE_piton");
        let ran = project.bash(&format!(
            "umask {umask}; '{piton}' tool run probe --format json"
        ));
        assert!(ran.contains(r#""result":700,"#), "{umask}: {ran}");
        let open = project.bash(
            "stat -c '%a %n' .git/piton; find .git/piton/runs -name '*.jsonl' -printf '%m %f\\n'; \
             find .ai/outputs -type f -name '*.json' -printf '%m\\n'; \
             find .ai/outputs .git/piton -maxdepth 0 -perm /077",
        );
        assert_eq!(
            open, "700 .git/piton\n600 journal.jsonl\n600\n",
            "{umask}: {open}"
        );
    }
}
