//! H16: the user's hooks on piton's commits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Picture, Told, exec, exec_with, files_of, simple, told};
use crate::harness::TestProject;

/// A project with one hook; what it writes to `$LOG` can be read with [`log`].
fn hooked(name: &str, script: &str) -> TestProject {
    let project = simple();
    let log = project.home().join("log");
    let text = format!("#!/bin/bash\nset -eu\nLOG='{}'\n{script}\n", log.display());
    write_hook(&project.root().join(".git/hooks").join(name), &text);
    project
}

fn write_hook(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a hook");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn log(project: &TestProject) -> String {
    fs::read_to_string(project.home().join("log")).unwrap_or_default()
}

#[test]
fn h16_pre_commit_sees_a_private_index_with_exactly_the_commit() {
    let project = hooked(
        "pre-commit",
        "git diff --cached --name-status > $LOG; git show :a.txt >> $LOG; echo index=$GIT_INDEX_FILE >> $LOG; \
         git diff --name-only >> $LOG; echo run=$PITON_RUN_ID >> $LOG",
    );
    let before = Picture::of(&project);
    let made = exec(&project, "echo a > a.txt; sed -i 's/two/TWO/' notes.txt");
    made.assert_end("0 committed -");
    assert_eq!(made.notes(), [] as [String; 0]);
    let log = log(&project);
    let (told_of, rest) = log.split_once("index=").expect("the index was named");
    assert_eq!(told_of, "A\ta.txt\nM\tnotes.txt\na\n");
    let (index, rest) = rest.split_once('\n').expect("a line");
    assert_ne!(Path::new(index), project.root().join(".git/index"));
    assert_eq!(
        rest,
        format!("run={}\n", made.last()["run_id"].as_str().expect("a run"))
    );
    before.assert_only(&project, &["a.txt", "notes.txt"]);
    project.assert_clean();
}

#[test]
fn h16_a_failing_pre_commit_rolls_everything_back() {
    let project = hooked(
        "pre-commit",
        "echo rejected by policy >&2; echo junk > junk.txt; git add junk.txt; exit 1",
    );
    let before = Picture::of(&project);
    let failed = exec(&project, "echo a > a.txt; echo x >> notes.txt");
    failed.assert_end("1 rolled_back HOOK_FAILED");
    assert!(
        failed.message().contains("`pre-commit`"),
        "{}",
        failed.message()
    );
    assert!(
        failed.message().contains("rejected by policy"),
        "{}",
        failed.message()
    );
    assert_eq!(Picture::of(&project).status, before.status);
    assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\n");
    before.assert_only(&project, &["notes.txt"]);
    project.assert_clean();
    // The work is not lost.
    let rescue = failed.event("rolled_back")["rescue"]
        .as_str()
        .expect("a step")
        .to_owned();
    assert_eq!(
        project.piton(["show", &format!("a.txt@{rescue}")]).stdout(),
        "a\n"
    );
}

#[test]
fn h16_what_pre_commit_changes_is_in_the_commit_and_noted() {
    for (script, what) in [
        ("sed -i 's/a/A/' a.txt", "without `git add`"),
        ("sed -i 's/a/A/' a.txt; git add a.txt", "with `git add`"),
    ] {
        let project = hooked("pre-commit", script);
        let made = exec(&project, "echo a > a.txt");
        made.assert_end("0 committed -");
        assert_eq!(project.git(["show", "HEAD:a.txt"]), "A\n", "{what}");
        assert!(
            made.notes()
                .iter()
                .any(|note| note.contains("`pre-commit` changed files")),
            "{what}"
        );
        project.assert_clean();
    }
}

#[test]
fn h16_a_file_that_pre_commit_makes_is_part_of_the_step() {
    let project = hooked("pre-commit", "echo generated > generated.txt");
    let made = exec(&project, "echo a > a.txt");
    made.assert_end("0 committed -");
    assert_eq!(files_of(&project, "HEAD"), ["a.txt", "generated.txt"]);
    project.assert_clean();
    told(&project, &["undo"]).assert_end("0 committed -");
    assert!(!project.root().join("a.txt").exists());
}

#[test]
fn h16_pre_commit_is_skipped_and_that_is_recorded_when_other_files_are_dirty() {
    for dirty in [
        "echo mine >> mine.txt",
        "echo new > new.txt",
        "echo mine >> mine.txt; git add mine.txt",
    ] {
        let project = hooked(
            "pre-commit",
            "echo ran >> $LOG; git stash -q --keep-index --include-untracked; exit 1",
        );
        let project = project.file("mine.txt", "mine\n");
        project.bash("git add .; git commit -q --no-verify -m mine");
        project.bash(dirty);
        let before = Picture::of(&project);
        let made = exec(&project, "echo a > a.txt");
        made.assert_end("0 committed -");
        assert!(
            made.notes()
                .iter()
                .any(|note| note.starts_with("`pre-commit` was skipped")),
            "{:?}",
            made.notes()
        );
        assert_eq!(log(&project), "");
        before.assert_only(&project, &["a.txt"]);
    }
}

#[test]
fn h16_the_policy_comes_from_the_users_settings() {
    let skipped = |project: &TestProject| {
        let made = exec(project, "echo a > a.txt");
        made.assert_end("0 committed -");
        assert!(
            made.notes()
                .iter()
                .any(|note| note.contains("`checkpoint.hooks` is `skip`")),
            "{:?}",
            made.notes()
        );
        assert_eq!(log(project), "");
        project.assert_clean();
    };
    let script = "echo ran >> $LOG; exit 1";
    skipped(
        &hooked("pre-commit", script).home_file(".ai/config.yaml", "checkpoint:\n  hooks: skip\n"),
    );
    skipped(&hooked("pre-commit", script).variable("PITON_CHECKPOINT_HOOKS", "skip"));
    // `run` runs it even where other files are dirty; the variable wins over the file.
    let project = hooked(
        "pre-commit",
        "echo ran >> $LOG; git diff --cached --name-only >> $LOG",
    )
    .home_file(".ai/config.yaml", "checkpoint:\n  hooks: skip\n")
    .variable("PITON_CHECKPOINT_HOOKS", "run");
    project.bash("echo mine >> notes.txt; echo new > new.txt");
    let before = Picture::of(&project);
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(log(&project), "ran\na.txt\n");
    before.assert_only(&project, &["a.txt"]);
    let project = hooked("pre-commit", "exit 0").variable("PITON_CHECKPOINT_HOOKS", "maybe");
    let ran = project.piton(["exec", "--", "touch", "ran"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(!project.root().join("ran").exists());
}

#[test]
fn h16_a_project_cannot_switch_the_users_hooks_off() {
    let project = hooked("pre-commit", "echo ran >> $LOG");
    let project = project.file(".ai/config.yaml", "checkpoint:\n  hooks: skip\n");
    project.bash("git add .; git commit -q --no-verify -m settings");
    let made = exec(&project, "echo a > a.txt");
    made.assert_end("0 committed -");
    assert_eq!(log(&project), "ran\n");
    assert!(
        made.ran.stderr().contains("checkpoint.hooks"),
        "{}",
        made.ran
    );
}

#[test]
fn h16_a_private_index_never_holds_what_the_user_has_staged() {
    let project = hooked("pre-commit", "git diff --cached --name-only > $LOG")
        .variable("PITON_CHECKPOINT_HOOKS", "run");
    project.bash("echo mine >> notes.txt; git add notes.txt");
    let before = Picture::of(&project);
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(log(&project), "a.txt\n");
    before.assert_only(&project, &["a.txt"]);
    assert_eq!(project.git(["status", "--porcelain"]), "M  notes.txt\n");
}

#[test]
fn h16_commit_msg_may_edit_and_may_refuse() {
    let project = hooked("commit-msg", "sed -i '1s/$/ (TICKET-7)/' \"$1\"");
    let made = exec_with(&project, &["-m", "feat: more"], "echo a > a.txt");
    made.assert_end("0 committed -");
    assert_eq!(
        project.git(["log", "-1", "--format=%s"]),
        "feat: more (TICKET-7)\n"
    );
    project.assert_clean();

    let project = hooked(
        "commit-msg",
        "grep -q TICKET \"$1\" || { echo no ticket >&2; exit 1; }",
    );
    let before = Picture::of(&project);
    let refused = exec(&project, "echo a > a.txt");
    refused.assert_end("1 rolled_back HOOK_FAILED");
    assert!(refused.message().contains("`commit-msg`") && refused.message().contains("no ticket"));
    before.assert_same(&project);
    exec_with(&project, &["-m", "feat: TICKET-8"], "echo a > a.txt").assert_end("0 committed -");
}

#[test]
fn h16_a_hook_cannot_take_the_trailers_away() {
    for script in [
        "echo 'just this' > \"$1\"",
        "sed -i 's/Piton-Run: .*/Piton-Run: forged/' \"$1\"",
        ": > \"$1\"",
    ] {
        let project = hooked("commit-msg", script);
        let before = Picture::of(&project);
        let refused = exec(&project, "echo a > a.txt");
        refused.assert_end("1 rolled_back HOOK_FAILED");
        before.assert_same(&project);
    }
}

#[test]
fn h16_prepare_commit_msg_gets_the_arguments_that_git_gives() {
    let project = hooked(
        "prepare-commit-msg",
        "echo \"$# $2\" > $LOG; sed -i '1s/^/[x] /' \"$1\"",
    );
    exec_with(&project, &["-m", "feat: more"], "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(log(&project), "2 message\n");
    assert_eq!(
        project.git(["log", "-1", "--format=%s"]),
        "[x] feat: more\n"
    );
    project.assert_clean();
}

#[test]
fn h16_post_commit_sees_the_commit_and_cannot_stop_it() {
    let project = hooked(
        "post-commit",
        "git rev-parse HEAD > $LOG; git status --porcelain >> $LOG; exit 1",
    );
    let made = exec(&project, "echo a > a.txt");
    made.assert_end("0 committed -");
    assert_eq!(log(&project), format!("{}\n", made.commit()));
    project.assert_clean();
}

#[test]
fn h16_snapshots_and_roll_backs_run_no_hooks() {
    let project = simple();
    let log = project.home().join("log");
    for name in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "post-checkout",
    ] {
        write_hook(
            &project.root().join(".git/hooks").join(name),
            &format!("#!/bin/sh\necho {name} >> '{}'\n", log.display()),
        );
    }
    let said: Vec<Told> = ["true", "echo a > a.txt; exit 1"]
        .iter()
        .map(|script| exec(&project, script))
        .collect();
    said[0].assert_end("0 no_changes -");
    said[1].assert_end("1 rolled_back COMMAND_FAILED");
    exec_with(&project, &["--checkpoint", "explicit"], "echo a > a.txt").assert_end("0 skipped -");
    assert_eq!(fs::read_to_string(log).unwrap_or_default(), "");
}

#[test]
fn h16_hooks_are_found_where_git_finds_them() {
    let script = "#!/bin/sh\ngit diff --cached --name-only > ../home/log\n";
    // Relative to the top of the work tree, also from a folder below it.
    let project = simple().file("sub/x.txt", "x\n").committed().within("sub");
    write_hook(&project.root().join(".hooks/pre-commit"), script);
    project.bash("git config core.hooksPath .hooks; git add .; git commit -q --no-verify -m hooks");
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(log(&project), "sub/a.txt\n");
    // Absolute.
    let project = simple();
    write_hook(&project.home().join("hooks/pre-commit"), script);
    project.bash("git config core.hooksPath \"$PWD/../home/hooks\"");
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(log(&project), "a.txt\n");
    // For all repositories of the user.
    let project = simple().home_file("gitconfig", "[core]\n\thooksPath = ~/hooks\n");
    write_hook(&project.home().join("hooks/pre-commit"), script);
    let settings = project
        .home()
        .join("gitconfig")
        .to_string_lossy()
        .into_owned();
    let project = project.variable("GIT_CONFIG_GLOBAL", &settings);
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(log(&project), "a.txt\n");
    // In a linked worktree: those of the main one.
    let project = simple();
    write_hook(&project.root().join(".git/hooks/pre-commit"), script);
    project.git(["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = project.root().join("../linked");
    let ran = project.piton([
        "-C",
        &linked.to_string_lossy(),
        "exec",
        "--",
        "touch",
        "a.txt",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(log(&project), "a.txt\n");
}

#[test]
fn h16_a_hook_without_an_interpreter_is_read_by_the_shell() {
    let project = simple();
    write_hook(
        &project.root().join(".git/hooks/pre-commit"),
        "echo ran > ../home/log\n",
    );
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(log(&project), "ran\n");
    // One that may not be executed is none.
    let project = simple().file(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
}

#[test]
fn h16_a_checkpoint_of_earlier_steps_runs_the_hooks_too() {
    let script = "echo junk > junk.txt; git diff --cached --name-only > $LOG; [ -e ../home/pass ] || { echo no >&2; exit 1; }";
    let project = hooked("pre-commit", script);
    exec_with(&project, &["--checkpoint", "explicit"], "echo a > a.txt").assert_end("0 skipped -");
    let before = Picture::of(&project);
    let failed = told(&project, &["checkpoint"]);
    failed.assert_end("1 failed HOOK_FAILED");
    assert_eq!(log(&project), "a.txt\n");
    before.assert_same(&project);
    project.bash("touch ../home/pass");
    let made = told(&project, &["checkpoint"]);
    made.assert_end("0 committed -");
    assert_eq!(files_of(&project, "HEAD"), ["a.txt", "junk.txt"]);
    assert!(
        made.notes()
            .iter()
            .any(|note| note.contains("`pre-commit` changed files")),
        "{:?}",
        made.notes()
    );
    project.assert_clean();
}

#[test]
fn h16_an_undo_that_a_hook_refuses_changes_nothing() {
    let project = hooked(
        "pre-commit",
        "[ -e a.txt ] || { echo keep it >&2; exit 1; }",
    );
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    let before = Picture::of(&project);
    told(&project, &["undo"]).assert_end("1 rolled_back HOOK_FAILED");
    before.assert_only(&project, &["a.txt"]);
    assert_eq!(
        (project.read("a.txt").as_str(), Picture::of(&project).refs),
        ("a\n", before.refs)
    );
    project.assert_clean();
    // The step is still there to undo.
    let project = project.variable("PITON_CHECKPOINT_HOOKS", "skip");
    told(&project, &["undo"]).assert_end("0 committed -");
}

#[test]
fn g102_a_hook_that_runs_piton_again_is_told_which_run_is_active() {
    let script = format!(
        "'{}' exec -- sh -c 'echo inner > inner.txt' > $LOG 2>&1 || echo \"exit $?\" >> $LOG",
        env!("CARGO_BIN_EXE_piton")
    );
    let project = hooked("pre-commit", &script);
    let before = Picture::of(&project);
    let made = exec(&project, "echo a > a.txt");
    made.assert_end("0 committed -");
    let log = log(&project);
    assert!(
        log.starts_with("error: this command was started by a step of run"),
        "{log}"
    );
    assert!(log.ends_with("exit 5\n"), "{log}");
    before.assert_only(&project, &["a.txt"]);
    project.assert_clean();
}

/// Hooks that write down what each commit would hold, and the first line of its message.
fn listening() -> TestProject {
    let project = hooked(
        "pre-commit",
        "echo pre-commit $(git diff --cached --name-status) >> $LOG",
    );
    let log = project.home().join("log");
    let text = format!(
        "#!/bin/bash\necho commit-msg $(head -1 \"$1\") >> '{}'\n",
        log.display()
    );
    write_hook(&project.root().join(".git/hooks/commit-msg"), &text);
    project
}

/// What the hooks have written down since the last time.
fn heard(project: &TestProject) -> Vec<String> {
    let heard = log(project).lines().map(str::to_owned).collect();
    fs::write(project.home().join("log"), "").expect("a file");
    heard
}

#[test]
fn h16_an_undo_of_a_checkpoint_runs_commit_msg_and_leaves_pre_commit_out() {
    let project = listening();
    exec_with(&project, &["--checkpoint", "explicit"], "echo a > a.txt").assert_end("0 skipped -");
    assert_eq!(heard(&project), [] as [String; 0]);
    told(&project, &["checkpoint", "-m", "feat: a"]).assert_end("0 committed -");
    assert_eq!(
        heard(&project),
        ["pre-commit A a.txt", "commit-msg feat: a"]
    );
    // The file stays on disk, so that `pre-commit` would look at something that the commit takes back.
    for command in ["undo", "redo", "undo"] {
        let made = told(&project, &[command]);
        made.assert_end("0 committed -");
        let heard = heard(&project);
        assert!(
            heard.len() == 1 && heard[0].starts_with("commit-msg "),
            "{command}: {heard:?}"
        );
        assert!(
            made.notes()
                .iter()
                .any(|note| note.contains("`pre-commit` was skipped")),
            "{:?}",
            made.notes()
        );
        assert_eq!(project.read("a.txt"), "a\n");
    }
    told(&project, &["redo"]).assert_end("0 committed -");
    // A hook that refuses leaves everything as it is.
    let hook = project.root().join(".git/hooks/commit-msg");
    write_hook(&hook, "#!/bin/sh\necho not now >&2; exit 1\n");
    let before = Picture::of(&project);
    let refused = told(&project, &["undo"]);
    assert_eq!(refused.ran.code(), Some(1), "{}", refused.ran);
    assert!(refused.message().contains("not now"), "{}", refused.ran);
    before.assert_same(&project);
    fs::remove_file(hook).expect("a hook");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(project.git(["status", "--porcelain"]), "?? a.txt\n");
}

#[test]
fn h16_an_atomic_run_that_is_undone_runs_the_hooks_too() {
    let step = |name: &str| {
        format!("<step name=\"{name}\"><execute item_type=\"tool\" item_id=\"{name}\"/></step>\n")
    };
    let text = format!(
        "# all\n\n```xml\n<directive name=\"all\" version=\"1.0.0\">\n<metadata><description>All</description>\
         <git_checkpoint mode=\"auto\"/><permissions><execute resource=\"tool\" id=\"*\"/>\
         <write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\n<process>\n{}{}</process>\n</directive>\n```\n",
        step("make"),
        step("fail")
    );
    let project = listening().file(".ai/directives/all.md", text);
    let project = project
        .tool("make", "", "echo a > a.txt")
        .tool("fail", "", "exit 3");
    project.bash("git add .ai; git commit -qm items");
    heard(&project);
    let ran = project.piton(["run", "all", "--atomic"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let said = heard(&project);
    assert_eq!(
        (said[0].as_str(), said[2].as_str()),
        ("pre-commit A a.txt", "pre-commit D a.txt"),
        "{said:?}"
    );
    assert_eq!(
        said.iter()
            .filter(|line| line.starts_with("commit-msg "))
            .count(),
        2,
        "{said:?}"
    );
    assert!(!project.root().join("a.txt").exists(), "{ran}");
    project.assert_clean();
    // A hook that refuses: what the run made stays, and the reason is told.
    write_hook(
        &project.root().join(".git/hooks/pre-commit"),
        "#!/bin/sh\ngit diff --cached --quiet --diff-filter=D || { echo keep it >&2; exit 1; }\n",
    );
    let ran = project.piton(["run", "all", "--atomic"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("the run was not rolled back") && ran.stderr().contains("keep it"),
        "{ran}"
    );
    assert_eq!(project.read("a.txt"), "a\n", "{ran}");
    project.assert_clean();
}
