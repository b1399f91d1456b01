//! `piton exec`: exit statuses of the command and of piton, `--on-failure`, and `--writes` relative
//! to the current folder.

use serde_json::{Value, json};

use crate::harness::{Ran, TestProject, cmd_snapshot};

fn project() -> TestProject {
    TestProject::new()
        .file("notes.txt", "one\n")
        .file("docs/guide/a.md", "a\n")
        .committed()
        .ticking()
}

/// Exit code, status of the step, how its command ended, status of the checkpoint, code of the error.
fn end(ran: &Ran) -> Value {
    let last = ran.last_json();
    let step = &last["steps"][0];
    json!([
        ran.code(),
        step["status"],
        step["exit_code"],
        step["signal"],
        step["checkpoint"]["status"],
        last["error"]["code"],
    ])
}

fn exec(project: &TestProject, flags: &[&str], script: &str) -> Ran {
    let words = [
        &["--format", "json", "exec"],
        flags,
        &["--", "sh", "-c", script],
    ]
    .concat();
    project.piton(words)
}

#[test]
fn the_exit_status_of_the_command_is_passed_on() {
    let project = project();
    for status in [1, 2, 3, 4, 5, 42, 126, 127, 130, 255] {
        let ran = exec(
            &project,
            &[],
            &format!("echo 2 >> notes.txt; exit {status}"),
        );
        assert_eq!(
            end(&ran),
            json!([
                status,
                "failed",
                status,
                null,
                "rolled_back",
                "COMMAND_FAILED"
            ]),
            "{ran}"
        );
        assert_eq!(project.read("notes.txt"), "one\n");
    }
    let ran = exec(&project, &[], "exit 0");
    assert_eq!(
        end(&ran),
        json!([0, "succeeded", 0, null, "no_changes", null]),
        "{ran}"
    );
    project.assert_clean();
}

#[test]
fn a_signal_is_passed_on_as_128_plus_its_number() {
    let project = project();
    for (name, status) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let ran = exec(
            &project,
            &[],
            &format!("echo 2 >> notes.txt; kill -{name} $$"),
        );
        let expected = json!([
            status,
            "failed",
            null,
            status - 128,
            "rolled_back",
            "COMMAND_FAILED"
        ]);
        assert_eq!(end(&ran), expected, "{ran}");
    }
    project.assert_clean();
}

#[test]
fn a_refusal_of_piton_is_told_from_the_same_exit_status_of_the_command() {
    let project = project();
    let denied = exec(
        &project,
        &["--writes", "docs/**"],
        "echo 2 >> notes.txt; exit 7",
    );
    assert_eq!(
        end(&denied),
        json!([3, "denied", 7, null, "rolled_back", "WRITE_DENIED"]),
        "{denied}"
    );
    let own = exec(&project, &["--writes", "docs/**"], "exit 3");
    assert_eq!(
        end(&own),
        json!([3, "failed", 3, null, "no_changes", "COMMAND_FAILED"]),
        "{own}"
    );
    let missing = project.piton(["--format", "json", "exec", "--", "no-such-program"]);
    assert_eq!(
        (missing.code(), missing.last_json()["error"]["code"].clone()),
        (Some(2), json!("PROGRAM_NOT_FOUND"))
    );
    let own = exec(&project, &[], "exit 2");
    assert_eq!(
        end(&own),
        json!([2, "failed", 2, null, "no_changes", "COMMAND_FAILED"]),
        "{own}"
    );
    project.bash("touch .git/MERGE_HEAD; git rev-parse HEAD > .git/MERGE_HEAD");
    let refused = exec(&project, &[], "exit 0");
    assert_eq!(
        (refused.code(), refused.last_json().get("error").is_some()),
        (Some(5), true),
        "{refused}"
    );
}

#[test]
fn a_checkpoint_that_fails_exits_with_1_though_the_command_succeeded() {
    let project = project();
    project.bash("echo mine >> notes.txt");
    let ran = exec(&project, &[], "echo theirs >> notes.txt");
    assert_eq!(
        end(&ran),
        json!([1, "failed", 0, null, "failed", "DIRTY_OVERLAP"]),
        "{ran}"
    );
}

#[test]
fn on_failure_keep_leaves_what_a_failed_command_wrote() {
    let project = project();
    let script = "echo 2 >> notes.txt; exit 9";
    cmd_snapshot!(project.piton(["exec", "--on-failure", "keep", "--", "sh", "-c", script]), @"
    success: false
    exit_code: 9
    ----- stdout -----
    ----- stderr -----
    the command failed; its changes stay; `piton undo` reverts them
    error: `sh` exited with status 9 [COMMAND_FAILED]
    hint: see what it did with `piton show 01kdyabkw0000e485875xhvkdf`
    ");
    assert_eq!(project.read("notes.txt"), "one\n2\n");
    let undone = project.piton(["undo"]);
    assert_eq!(undone.code(), Some(0), "{undone}");
    assert_eq!(project.read("notes.txt"), "one\n");
}

#[test]
fn on_failure_rollback_rolls_back_what_a_failed_command_wrote_in_explicit_mode() {
    let project = project();
    let flags = ["--checkpoint", "explicit", "--on-failure", "rollback"];
    let ran = exec(&project, &flags, "echo 2 >> notes.txt; exit 9");
    assert_eq!(
        end(&ran),
        json!([9, "failed", 9, null, "rolled_back", "COMMAND_FAILED"]),
        "{ran}"
    );
    assert_eq!(project.read("notes.txt"), "one\n");
    // Successful changes are left for `piton checkpoint`, as without the flag.
    let ran = exec(&project, &flags, "echo 2 >> notes.txt");
    assert_eq!(
        end(&ran),
        json!([0, "succeeded", 0, null, "skipped", null]),
        "{ran}"
    );
    assert_eq!(project.read("notes.txt"), "one\n2\n");
}

#[test]
fn a_write_outside_the_globs_is_rolled_back_even_with_on_failure_keep() {
    let project = project();
    let ran = exec(
        &project,
        &["--writes", "docs/**", "--on-failure", "keep"],
        "echo 2 >> notes.txt; exit 9",
    );
    assert_eq!(
        end(&ran),
        json!([3, "denied", 9, null, "rolled_back", "WRITE_DENIED"]),
        "{ran}"
    );
    assert_eq!(project.read("notes.txt"), "one\n");
}

#[test]
fn on_failure_takes_two_values_and_rollback_needs_snapshots() {
    let project = project();
    let typo = project.piton(["exec", "--on-failure", "undo", "--", "touch", "ran"]);
    assert_eq!(typo.code(), Some(2), "{typo}");
    assert!(
        typo.stderr().contains("choose `rollback` or `keep`"),
        "{typo}"
    );
    let flags = [
        "exec",
        "--checkpoint",
        "disabled",
        "--on-failure",
        "rollback",
        "--",
        "touch",
        "ran",
    ];
    cmd_snapshot!(project.piton(flags), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `--on-failure rollback` needs snapshots, and `--checkpoint disabled` takes none

    hint: choose `--checkpoint auto` or `explicit`, or `--on-failure keep`
    ");
    assert!(!project.root().join("ran").exists());
    let bare = TestProject::without_git();
    let flags = [
        "exec",
        "--checkpoint",
        "explicit",
        "--on-failure",
        "rollback",
        "--",
        "touch",
        "ran",
    ];
    let refused = bare.piton(flags);
    assert_eq!(refused.code(), Some(5), "{refused}");
    assert!(!bare.root().join("ran").exists());
}

#[test]
fn writes_are_relative_to_the_current_folder() {
    let project = project();
    let docs = project.root().join("docs").display().to_string();
    let at = |glob: &str, script: &str| {
        project.piton([
            "-C", &docs, "--format", "json", "exec", "--writes", glob, "--", "sh", "-c", script,
        ])
    };
    for (glob, script) in [
        ("guide/*.md", "echo b >> guide/a.md"),
        ("guide", "echo b >> guide/a.md"),
        (".", "echo b >> guide/a.md"),
        ("./guide/", "echo b >> guide/a.md"),
        ("../notes.txt", "echo b >> ../notes.txt"),
        ("guide/../../*.txt", "echo b >> ../notes.txt"),
        ("**", "echo b >> guide/a.md"),
        ("..", "echo b >> ../notes.txt"),
    ] {
        let ran = at(glob, script);
        assert_eq!(
            (ran.code(), ran.last_json()["error"].clone()),
            (Some(0), Value::Null),
            "{glob} {ran}"
        );
    }
    // These globs would match at the top of the project, but not here.
    for (glob, script) in [
        ("docs/**", "echo c >> guide/a.md"),
        ("*.txt", "echo c >> ../notes.txt"),
        ("**", "echo c >> ../notes.txt"),
        (".", "echo c >> ../notes.txt"),
    ] {
        let ran = at(glob, script);
        assert_eq!(
            (ran.code(), &ran.last_json()["error"]["code"]),
            (Some(3), &json!("WRITE_DENIED")),
            "{glob} {ran}"
        );
    }
    let absolute = project.root().join("notes.txt").display().to_string();
    let ran = at(&absolute, "echo c >> ../notes.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn glob_characters_in_a_folder_name_are_literal() {
    let project = TestProject::new()
        .file("[a]*/x.txt", "1\n")
        .file("aa/x.txt", "1\n")
        .committed();
    let folder = project.root().join("[a]*").display().to_string();
    let run = |script: &str| {
        project.piton([
            "-C", &folder, "exec", "--writes", "x.txt", "--", "sh", "-c", script,
        ])
    };
    let ran = run("echo 2 >> x.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = run("echo 2 >> ../aa/x.txt");
    assert_eq!(ran.code(), Some(3), "{ran}");
}

#[test]
fn a_glob_that_leaves_the_project_is_refused_before_the_command_runs() {
    let project = project();
    let docs = project.root().join("docs").display().to_string();
    for glob in [
        "../../**",
        "../..",
        "guide/../../../x",
        "/etc/**",
        "*/../../x",
    ] {
        let ran = project.piton([
            "-C", &docs, "--format", "json", "exec", "--writes", glob, "--", "touch", "ran",
        ]);
        assert_eq!(
            (ran.code(), &ran.last_json()["error"]["code"]),
            (Some(2), &json!("INVALID_PATTERN")),
            "{glob} {ran}"
        );
        assert!(
            ran.last_json()["error"]["message"]
                .as_str()
                .is_some_and(|it| it.contains("it leaves the project")),
            "{ran}"
        );
    }
    assert!(!project.root().join("docs/ran").exists());
}

#[test]
fn a_project_in_a_subfolder_of_the_repository_is_left_by_its_parent() {
    let project = TestProject::new()
        .file("app/.ai/config.yaml", "")
        .file("app/a.txt", "1\n")
        .file("b.txt", "1\n");
    let project = project.committed();
    let app = project.root().join("app").display().to_string();
    let run = |glob: &str, script: &str| {
        project.piton([
            "-C", &app, "--format", "json", "exec", "--writes", glob, "--", "sh", "-c", script,
        ])
    };
    assert_eq!(run("*.txt", "echo 2 >> a.txt").code(), Some(0));
    let denied = run("**", "echo 2 >> ../b.txt");
    assert_eq!(denied.code(), Some(3), "{denied}");
    let refused = run("../*.txt", "echo 2 >> ../b.txt");
    assert_eq!(
        (refused.code(), &refused.last_json()["error"]["code"]),
        (Some(2), &json!("INVALID_PATTERN")),
        "{refused}"
    );
}

#[test]
fn files_left_out_for_their_size_are_named_with_size_and_limit_also_when_quiet() {
    let settings = "checkpoint:\n  max_file_size: 2KiB\n";
    let project = TestProject::new()
        .home_file(".ai/config.yaml", settings)
        .file("a.txt", "one\n")
        .committed()
        .ticking();
    let script =
        "head -c 5000 /dev/zero > big.bin; head -c 3072 /dev/zero > more.bin; echo 2 >> a.txt";
    cmd_snapshot!(project.piton(["-q", "exec", "--", "sh", "-c", script]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    warning: left out of the checkpoint: `big.bin` (4.8 KiB) is over `checkpoint.max_file_size` (2 KiB)
    warning: left out of the checkpoint: `more.bin` (3 KiB) is over `checkpoint.max_file_size` (2 KiB)
    ");
    let ran = exec(
        &project,
        &[],
        "head -c 2049 /dev/zero > big.bin; rm more.bin",
    );
    let found: Vec<Value> = ran
        .stdout()
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let event = found
        .iter()
        .find(|event| event["type"] == "no_changes")
        .expect("an event");
    assert_eq!(event["not_captured"], json!(["big.bin", "more.bin"]));
    assert_eq!(
        event["too_large"],
        json!([{"path": "big.bin", "size": 2049, "limit": 2048}])
    );
    let script = "echo 3 >> a.txt; head -c 9000000 /dev/zero > big.bin; exit 6";
    let ran = project.exec(script);
    let told = "warning: left out of the checkpoint: `big.bin` (8.5 MiB) is over `checkpoint.max_file_size` (2 KiB)\n";
    assert_eq!(ran.code(), Some(6), "{ran}");
    assert!(ran.stderr().starts_with(told), "{ran}");
    let shown = project.piton(["show", "HEAD"]).stdout();
    assert!(
        shown.contains(
            "left out      `big.bin` (4.8 KiB) is over `checkpoint.max_file_size` (2 KiB)\n"
        ),
        "{shown}"
    );
}

#[test]
fn a_command_that_was_interrupted_is_recovered_as_on_failure_says() {
    for (flags, content) in [
        (vec!["--on-failure", "keep"], "one\n2\n"),
        (
            vec!["--checkpoint", "explicit", "--on-failure", "rollback"],
            "one\n",
        ),
    ] {
        let project = project();
        // The parent of the command is its supervisor, whose parent is piton.
        let script = "echo 2 >> notes.txt; read -r _ _ _ piton _ < /proc/$PPID/stat; kill -KILL $piton; sleep 60";
        let words = [&["exec"], &flags[..], &["--", "sh", "-c", script]].concat();
        let ran = project.piton(words);
        assert_eq!(ran.code(), None, "{ran}");
        let recovered = project.piton(["recover"]);
        assert_eq!(recovered.code(), Some(0), "{recovered}");
        assert_eq!(project.read("notes.txt"), content, "{recovered}");
    }
}

#[test]
fn a_denied_write_names_the_option_that_allows_it_and_how_the_work_comes_back() {
    let project = project();
    for (folder, writes, script, expected) in [
        (
            ".",
            "docs/**",
            "echo b >> notes.txt",
            "`--writes 'notes.txt'` as well",
        ),
        (
            "docs",
            "x",
            "echo b >> guide/a.md",
            "`--writes 'guide/a.md'` as well",
        ),
        (
            "docs",
            "guide/**",
            "echo b >> ../notes.txt",
            "further `--writes`",
        ),
    ] {
        let ran = project.piton([
            "-C", folder, "exec", "--writes", writes, "--", "sh", "-c", script,
        ]);
        assert_eq!(ran.code(), Some(3), "{ran}");
        assert!(ran.stderr().contains(expected), "{folder}: {ran}");
        project.assert_clean();
        // The hint is a command that works.
        let (_, rest) = ran
            .stderr()
            .split_once("`piton restore ")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("a hint");
        let step = rest.split('`').next().expect("a step").to_owned();
        assert_eq!(project.piton(["restore", &step]).code(), Some(0), "{ran}");
        assert!(
            project.git(["status", "--porcelain"]).starts_with(" M "),
            "{ran}"
        );
        assert_eq!(project.piton(["undo"]).code(), Some(0));
    }
    let hint = project.piton([
        "exec",
        "--writes",
        "x",
        "--writes",
        "notes.txt",
        "--",
        "sh",
        "-c",
        "echo b >> notes.txt",
    ]);
    assert_eq!(hint.code(), Some(0), "{hint}");
}
