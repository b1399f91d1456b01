//! Changes that no checkpoint can hold are judged all the same: too large, not a file, ignored, in a
//! nested repository, hidden from git.

use std::fs;

use crate::harness::{Ran, TestProject};

/// More than `checkpoint.max_file_size`.
const GROW: &str = "head -c 11000000 /dev/zero >";

fn project() -> TestProject {
    let project = TestProject::new()
        .file(".gitignore", ".env\n/build/\n")
        .file("docs/a", "a\n")
        .file("src/victim", "one\n")
        .committed();
    project.bash("echo mine > src/mine; echo KEY=1 > .env");
    project
}

fn exec(project: &TestProject, writes: &str, script: &str) -> Ran {
    project.piton(["exec", "--writes", writes, "--", "sh", "-ec", script])
}

/// The text of a file; `None` if there is no regular file.
fn text(project: &TestProject, path: &str) -> Option<String> {
    let file = project.root().join(path);
    let is_file = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file());
    is_file.then(|| fs::read_to_string(file).expect("text"))
}

#[test]
fn e_a_known_file_that_a_checkpoint_would_leave_out_is_judged_and_restored() {
    let cases = [
        "git init -q src; echo x > src/victim".to_owned(),
        "git init -q src; rm src/victim".to_owned(),
        "git init -q src; echo x > src/mine".to_owned(),
        format!("{GROW} src/victim"),
        format!("{GROW} src/mine"),
        format!("{GROW}> src/victim; echo d > docs/a"),
        "rm src/victim; mkfifo src/victim".to_owned(),
        "rm src/mine; mkfifo src/mine".to_owned(),
        "git update-index --assume-unchanged src/victim; echo x > src/victim".to_owned(),
        "git update-index --skip-worktree src/victim; echo x > src/victim".to_owned(),
        "mkdir ../away; git config core.worktree ../../away; echo x > src/victim".to_owned(),
    ];
    for script in cases {
        let project = project();
        let ran = exec(&project, "docs/**", &script);
        assert_eq!(ran.code(), Some(3), "{script}\n{ran}");
        assert!(ran.stderr().contains("[WRITE_DENIED]"), "{script}\n{ran}");
        let found = ["src/victim", "src/mine", "docs/a"].map(|path| text(&project, path));
        let whole = ["one\n", "mine\n", "a\n"].map(|text| Some(text.to_owned()));
        assert_eq!(found, whole, "{script}\n{ran}");
    }
}

#[test]
fn e_a_new_file_that_a_checkpoint_leaves_out_fails_the_step_by_name() {
    let cases = [
        ("mkdir src/new; git init -q src/new", "src/new"),
        ("mkfifo src/pipe", "src/pipe"),
        ("head -c 11000000 /dev/zero > src/big", "src/big"),
        ("echo x > .env", ".env"),
        ("mkdir build; echo x > build/out", "build/out"),
    ];
    for (script, path) in cases {
        let project = project();
        let ran = exec(&project, "docs/**", script);
        assert_eq!(ran.code(), Some(3), "{script}\n{ran}");
        let told = format!(
            "the step changed files that it may not change: `{path}`; \
             no checkpoint has these, so the change was not rolled back [WRITE_DENIED]"
        );
        assert!(ran.stderr().contains(&told), "{script}\n{ran}");
        // The same is allowed where the step may write.
        let project = self::project();
        let folder = path.split('/').next().expect("a name");
        let ran = exec(&project, folder, script);
        assert_eq!(ran.code(), Some(0), "{script}\n{ran}");
    }
}

#[test]
fn e_a_file_in_an_older_nested_repository_is_judged() {
    let project = project();
    project.bash("git init -q vendor; echo v > vendor/v");
    let ran = exec(&project, "docs/**", "cat vendor/v; echo d > docs/a");
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = exec(&project, "docs/**", "echo x > vendor/v");
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(ran.stderr().contains("`vendor/v`"), "{ran}");
}

#[test]
fn e_an_ignored_file_that_a_step_removes_fails_the_step_by_name() {
    let cases = [
        ("rm .env", ".env"),
        ("echo x > .env; rm .env", ".env"),
        ("mv .env docs/env", ".env"),
        ("mv .env ../env", ".env"),
        ("mkdir ../away; mv build ../away", "build"),
        ("mv build/old build/new; rm build/new", "build/old"),
        ("python3 -c 'import os; os.unlink(\".env\")'", ".env"),
    ];
    for (script, path) in cases {
        let project = project();
        project.bash("mkdir build; echo out > build/old");
        let ran = exec(&project, "docs/**", script);
        assert_eq!(ran.code(), Some(3), "{script}\n{ran}");
        assert!(
            ran.stderr().contains(&format!("`{path}`")),
            "{script}\n{ran}"
        );
        assert!(ran.stderr().contains("[WRITE_DENIED]"), "{script}\n{ran}");
        let ran = exec(&project, path, "true");
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    // What the step itself made may go, and so may what it may write.
    for (writes, script) in [
        (
            "docs/**",
            "echo d > docs/a; mkdir build/mine; echo x > .env.new; rm .env.new; rmdir build/mine",
        ),
        (
            "docs/**",
            "sed -i s/a/b/ docs/a; mktemp build/x.XXX | xargs rm",
        ),
        (".env", "rm .env"),
        ("build", "rm -r build"),
    ] {
        let project = project();
        project.bash("mkdir build; echo out > build/old; echo .env.new >> .git/info/exclude");
        let ran = exec(&project, writes, script);
        assert_eq!(ran.code(), Some(0), "{script}\n{ran}");
    }
}

#[test]
fn e_settings_and_hooks_of_a_nested_repository_are_judged() {
    let cases = [
        "git -C vendor config core.fsmonitor x",
        "echo true > vendor/.git/hooks/pre-commit",
        "rm vendor/.git/config",
        "rm -r vendor/.git; echo 'gitdir: ../evil' > vendor/.git",
    ];
    for script in cases {
        for (writes, code) in [("docs/**", 3), ("vendor/**", 0)] {
            let project = project();
            project.bash("git init -q vendor; echo v > vendor/v");
            let ran = exec(&project, writes, script);
            assert_eq!(ran.code(), Some(code), "{writes} {script}\n{ran}");
        }
    }
    let project = project();
    project.bash("git init -q vendor; cd vendor; echo v > v; git add v; git commit -qm v; touch v");
    let ran = exec(
        &project,
        "docs/**",
        "git -C vendor status; git -C vendor log; git -C vendor diff",
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn e_a_step_whose_files_are_not_known_hides_no_ignored_file() {
    // In another namespace, paths mean other files.
    let script = "unshare -Um true; echo x > .env; mkdir -p build; echo x > build/out";
    let with = |writes| {
        let project = project();
        let ran = exec(&project, writes, script);
        (ran.code(), ran.to_string())
    };
    let (code, told) = with("docs/**");
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("`.env`, `build/out`"), "{told}");
    let (code, told) = with("**");
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn e_files_of_another_worktree_are_judged() {
    for (script, path) in [
        ("echo x > ../other/src/victim", "other/src/victim"),
        ("rm ../other/src/victim", "other/src/victim"),
        ("mv ../other/src ../elsewhere", "other/src"),
    ] {
        let project = project();
        project.bash("git worktree add -q ../other");
        let ran = exec(&project, "docs/**", &format!("{script}; echo d > docs/a"));
        assert_eq!(ran.code(), Some(3), "{script}\n{ran}");
        assert!(ran.stderr().contains(path), "{script}\n{ran}");
        assert_eq!(text(&project, "docs/a").as_deref(), Some("a\n"), "{ran}");
        // From the other one, and where nothing is named.
        let script = script.replace("../other", "../project");
        let project = self::project();
        project.bash("git worktree add -q ../other; mkdir ../other/docs -p");
        let other = project.within("../other");
        let ran = exec(&other, "docs/**", &script);
        assert_eq!(ran.code(), Some(3), "{script}\n{ran}");
        let ran = exec(
            &other,
            "docs/**",
            "echo d > docs/a; git log; git status; git branch new",
        );
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    let project = project();
    project.bash("git worktree add -q ../other");
    let ran = project.exec("echo x > ../other/src/victim; git worktree add -q ../more");
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn e_a_tool_that_writes_an_ignored_file_outside_of_its_writes_is_denied() {
    let writes = "isolation: trusted\nwrites: ['docs/**']\nmutates_state: true";
    let project = TestProject::new()
        .file(".gitignore", ".env\n")
        .file("docs/a", "a\n")
        .tool("inside", writes, "echo x > docs/a; cat .env")
        .tool("beside", writes, "echo x > .env")
        .committed();
    project.bash("echo KEY=1 > .env");
    let ran = project.piton(["tool", "run", "inside"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton(["tool", "run", "beside"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(ran.to_string().contains("`.env`"), "{ran}");
}

#[test]
fn e_a_tracked_file_that_a_step_made_large_is_in_no_commit() {
    let project = project();
    let ran = project.exec("head -c 11000000 /dev/zero > src/victim; echo d > docs/a");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("`src/victim` (10.4 MiB)"), "{ran}");
    assert_eq!(project.git(["show", "HEAD:src/victim"]), "one\n");
    assert_eq!(project.git(["show", "HEAD:docs/a"]), "d\n");
}

#[test]
fn e_a_run_tells_that_a_tool_changed_settings_of_git() {
    let project = TestProject::new()
        .tool("t", "isolation: trusted", "git config user.nick x")
        .tool(
            "other",
            "isolation: trusted",
            "git config --get user.name || true",
        )
        .directive("d", ["t"])
        .directive("quiet", ["other"])
        .committed();
    let ran = project.piton(["run", "d"]);
    let told = "`.git/config` changed while it ran, which no permission allows";
    assert!(ran.stderr().contains(told), "{ran}");
    let ran = project.piton(["run", "quiet"]);
    assert!(!ran.stderr().contains(".git/config"), "{ran}");
    // The same for the command of an agent.
    let prose = "```xml\n<directive name=\"manual\" version=\"1.0.0\">\n<metadata><description>d</description></metadata>\n\
                 <process><step name=\"a\"><action>Do it.</action></step></process>\n</directive>\n```\n";
    let project = TestProject::new()
        .file(".ai/directives/manual.md", prose)
        .committed();
    for (command, is_told) in [("git config user.nick x", true), ("true", false)] {
        let ran = project.piton(["run", "manual", "--agent-cmd", command]);
        assert_eq!(ran.stderr().contains(told), is_told, "{command}: {ran}");
    }
}

#[test]
fn e_a_dry_run_tells_that_grants_are_not_enforced_without_checkpoints() {
    let project = TestProject::new()
        .tool("t", "isolation: trusted", "true")
        .directive("d", ["t"])
        .committed();
    let dry = |mode: &str| project.piton(["run", "d", "--dry-run", "--checkpoint", mode]);
    let (auto, disabled) = (dry("auto").stdout(), dry("disabled").stdout());
    assert!(auto.contains("enforced: after_the_fact"), "{auto}");
    assert!(!disabled.contains("after_the_fact"), "{disabled}");
    assert!(disabled.contains("enforced: declared_only"), "{disabled}");
}

#[test]
fn e_a_signing_program_that_a_step_chose_is_not_run() {
    let project = TestProject::new()
        .file("sign.sh", "#!/bin/sh\ntouch ../sprung\nexit 1\n")
        .tool(
            "sly",
            "isolation: trusted",
            "chmod +x sign.sh; git config commit.gpgsign true; git config gpg.program \"$PWD/sign.sh\"; echo x > new.txt",
        )
        .tool("plain", "", "echo x > other.txt")
        .directive("both", ["sly", "plain"])
        .committed();
    let told = "the step changed how git signs commits: commit.gpgsign, gpg.program";
    for words in [&["tool", "run", "sly"][..], &["run", "both"]] {
        project.bash("git config --unset-all commit.gpgsign || true; git config --unset-all gpg.program || true; git clean -qfd; git checkout -q .");
        let ran = project.piton(words.iter().chain(&["--checkpoint", "auto"]));
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert!(ran.to_string().contains(told), "{ran}");
        assert!(ran.to_string().contains("SIGNING_CHANGED"), "{ran}");
    }
    let exec = "git config gpg.program x; git config commit.gpgsign true; echo y > exec.txt";
    project.bash(
        "git config --unset-all commit.gpgsign || true; git config --unset-all gpg.program || true",
    );
    let ran = project.piton(["exec", "--", "sh", "-c", exec]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(!project.root().with_file_name("sprung").exists());
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
}
