//! Hooks during runs: commits of tools and agents get trailers and are recorded, piton's own
//! commits are left alone, and the environment of a hook does not reach a tool.

use std::fs;

use serde_json::Value;

use crate::harness::TestProject;

const ALL: [&str; 4] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
];

/// A project with a tool that commits by itself, in a directive, and all commit hooks.
fn project(script: &str) -> TestProject {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .tool("writer", "mutates_state: true\nisolation: trusted", script)
        .directive("notes", ["writer"])
        .committed()
        .hooked(ALL);
    // Tools do not get the identity from the environment.
    project.bash("git config user.name Tool; git config user.email tool@example.com");
    project
}

/// The events of the newest run.
fn events(project: &TestProject) -> Vec<Value> {
    let folder = project.root().join(".git/piton/runs");
    let newest = fs::read_dir(folder)
        .expect("runs")
        .map(|run| run.expect("a run").path())
        .max()
        .expect("a run");
    let text = fs::read_to_string(newest.join("journal.jsonl")).expect("a journal");
    let event = |line: &str| {
        let line = line.split_once('\t').map_or(line, |(public, _)| public);
        serde_json::from_str::<Value>(line).expect("JSON")["event"].clone()
    };
    text.lines().map(event).collect()
}

fn of_type<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

fn trailers(project: &TestProject, commit: &str) -> Vec<String> {
    let text = project.bash(&format!(
        "git log -1 --format=%B {commit} | git interpret-trailers --parse"
    ));
    text.lines()
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect()
}

fn verified(project: &TestProject) {
    let ran = project
        .piton(["verify", "--all", "--format", "json"])
        .succeeded();
    assert_eq!(ran.json()["breaks"], serde_json::json!([]), "{ran}");
}

#[test]
fn a_commit_of_a_tool_says_where_it_comes_from_and_is_recorded() {
    let project = project(
        "echo x > x.txt; git add x.txt; git commit -q -m 'feat: add x'
         echo y > y.txt; git add y.txt; git commit -q -s -m 'feat: add y' -m 'Because.'
         echo z > z.txt",
    );
    project
        .piton(["run", "notes", "--checkpoint", "auto"])
        .succeeded();
    let message = project.git(["log", "-1", "--format=%B", "HEAD~2"]);
    let run = project
        .git(["log", "-1", "--format=%(trailers:key=Piton-Run,valueonly)"])
        .trim()
        .to_owned();
    let start = format!(
        "feat: add x\n\n[directive: notes]\n\nPiton-Run: {run}\nPiton-Step: 1 writer\nPiton-Tool: writer@1.0.0\nPiton-Directive: notes@1.0.0\nPiton-Journal: sha256:"
    );
    assert!(message.starts_with(&start), "{message}");
    let own = [
        "Piton-Run",
        "Piton-Step",
        "Piton-Tool",
        "Piton-Directive",
        "Piton-Journal",
    ];
    assert_eq!(trailers(&project, "HEAD~2"), own);
    assert_eq!(
        trailers(&project, "HEAD~1"),
        [&["Signed-off-by"], &own[..]].concat()
    );
    // The rest is piton's own commit, with the same trailers and nothing twice.
    assert_eq!(trailers(&project, "HEAD"), own);
    let events = events(&project);
    let hand = of_type(&events, "hand_committed");
    assert_eq!(hand.len(), 1);
    assert_eq!(hand[0]["commits"].as_array().expect("commits").len(), 2);
    assert_eq!(hand[0]["commits"][0]["by"], "step");
    assert_eq!(
        of_type(&events, "committed")[0]["adopted"]
            .as_array()
            .expect("adopted")
            .len(),
        2
    );
    let shown = project.piton(["show", "--no-diff", &run]).succeeded();
    assert!(
        shown
            .stdout()
            .contains("was made with git by the step itself")
            || shown.stdout().contains("writer"),
        "{shown}"
    );
    let shown = project
        .piton(["show", "--no-diff", &format!("{run}/1")])
        .succeeded();
    assert!(shown.stdout().contains("by hand       commit "), "{shown}");
    assert_eq!(
        fs::read_dir(project.root().join(".git/piton/commits"))
            .expect("notes")
            .count(),
        0
    );
    verified(&project);
    project.assert_clean();
    // A clone that has the log agrees.
    project.bash("git init -q --bare ../remote.git; git remote add origin ../remote.git; git push -q origin main");
    project.piton(["push", "origin"]).succeeded();
    project.bash("git clone -q -b main ../remote.git ../clone");
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
}

#[test]
fn a_tool_that_commits_everything_or_whose_changes_are_kept_is_recorded_as_well() {
    for (mode, failing) in [
        ("auto", ""),
        ("explicit", ""),
        ("explicit", "; exit 3"),
        ("auto", "; exit 3"),
    ] {
        let project = project(&format!(
            "echo x > x.txt; git add x.txt; git commit -q -m 'feat: add x'{failing}"
        ));
        let ran = project.piton(["tool", "run", "writer", "--checkpoint", mode]);
        assert_eq!(ran.code(), Some(i32::from(!failing.is_empty())), "{ran}");
        assert_eq!(
            trailers(&project, "HEAD"),
            ["Piton-Run", "Piton-Step", "Piton-Tool", "Piton-Journal"]
        );
        assert_eq!(
            of_type(&events(&project), "hand_committed").len(),
            1,
            "{mode}"
        );
        verified(&project);
        project.assert_clean();
    }
}

#[test]
fn work_for_a_waiting_run_is_committed_in_its_name() {
    let directive = "# n\n\n```xml\n<directive name=\"notes\" version=\"1.0.0\">\n<metadata><description>d</description>\n\
                     <permissions><write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\n\
                     <process><step name=\"write\"><action>Write notes.txt.</action></step></process>\n</directive>\n```\n";
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "")
        .file(".ai/directives/notes.md", directive)
        .committed()
        .hooked(ALL);
    let ran = project.piton(["run", "notes", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let project = project.file("notes.txt", "words\n");
    project.bash("git add notes.txt; git commit -q -m 'docs: notes'");
    assert_eq!(
        trailers(&project, "HEAD"),
        [
            "Piton-Run",
            "Piton-Step",
            "Piton-Directive",
            "Piton-Journal"
        ]
    );
    verified(&project);
    // Written in an editor, with the patch below: comments stay comments. Without an edit there is
    // no commit.
    let project = project.file("more.txt", "more\n");
    project.git(["add", "."]);
    let commit = |editor: &str| {
        let mut command = project.hermetic("git", &project.root());
        project.ran(
            command
                .args(["commit", "-q", "-v"])
                .env("GIT_EDITOR", editor)
                .output()
                .expect("git starts"),
        )
    };
    let ran = commit(":");
    assert!(
        ran.code() == Some(1) && ran.stderr().contains("the message is empty"),
        "{ran}"
    );
    assert_eq!(commit("sed -i '1s/^/docs: more/'").code(), Some(0));
    let message = project.git(["log", "-1", "--format=%B"]);
    assert!(
        message.starts_with("docs: more\n\n[directive: notes]\n\nPiton-Run: ")
            && !message.contains('#'),
        "{message}"
    );
    assert_eq!(message.lines().count(), 9, "{message}");
    // A merge commit gets no trailers, because it is about other commits.
    project.bash(
        "git branch side HEAD~1; git switch -q side; echo s > s; git add s; git commit -q -m side; git switch -q main",
    );
    project.bash("git merge -q --no-edit side");
    assert_eq!(trailers(&project, "HEAD"), [] as [&str; 0]);
    let run = project
        .git([
            "log",
            "-1",
            "--format=%(trailers:key=Piton-Run,valueonly)",
            "HEAD~1",
        ])
        .trim()
        .to_owned();
    project.piton(["resume", &run]).succeeded();
    let events = events(&project);
    let hand = of_type(&events, "hand_committed");
    assert_eq!(hand[0]["commits"][0]["by"], "somebody");
    verified(&project);
    project.assert_clean();
    // After the end of the run no trailers are added, even with the variable set.
    let project = project.file("late.txt", "");
    project.bash(&format!(
        "git add .; PITON_RUN_ID={run} git commit -q -m late"
    ));
    assert_eq!(trailers(&project, "HEAD"), [] as [&str; 0]);
}

#[test]
fn a_commit_by_another_process_is_not_attributed_to_the_tool() {
    let project = project(&format!("{}; echo x > x.txt", crate::harness::MEETING));
    let script = "echo mine > mine.txt; git add mine.txt; git commit -q -m mine";
    project
        .piton_while(script, ["tool", "run", "writer", "--checkpoint", "auto"])
        .succeeded();
    assert_eq!(trailers(&project, "HEAD~1"), [] as [&str; 0]);
    let events = events(&project);
    assert_eq!(
        of_type(&events, "hand_committed")[0]["commits"][0]["by"],
        "somebody"
    );
    verified(&project);
}

#[test]
fn a_copied_name_of_a_step_is_still_a_forgery() {
    let project = project("echo x > x.txt; git add x.txt; git commit -q -m 'feat: add x'");
    project
        .piton(["run", "notes", "--checkpoint", "auto"])
        .succeeded();
    // The message of the tool's commit is reused for other changes after the step.
    project.bash("echo evil > evil.txt; git add evil.txt; git commit -q -C HEAD");
    let ran = project.piton(["verify", "--all"]);
    assert!(
        ran.code() == Some(1) && ran.stdout().contains("NOT_RECORDED"),
        "{ran}"
    );
}

#[test]
fn commits_of_piton_itself_are_left_alone() {
    // The hook would refuse this invalid item, but the commit is piton's own.
    let project = project("true");
    let ran = project
        .exec("mkdir .ai/tools/bad; echo 'tool_id: bad' > .ai/tools/bad/tool.yaml")
        .succeeded();
    assert!(!ran.stderr().contains("not valid"), "{ran}");
    let events = events(&project);
    assert_eq!(of_type(&events, "hooks_started").len(), 1);
    assert_eq!(of_type(&events, "hand_committed").len(), 0);
    verified(&project);
    project.assert_clean();
    // Undo also makes a commit of piton's own.
    project.piton(["undo"]).succeeded();
    verified(&project);
}

#[test]
fn neither_the_name_of_a_run_nor_an_old_token_gets_around_the_hooks() {
    let bad = "mkdir -p .ai/tools/bad; echo 'tool_id: bad' > .ai/tools/bad/tool.yaml; git add .ai";
    // One tool names the run that it belongs to, others pretend to be piton.
    for pretence in [
        "true",
        "export PITON_HOOK_TOKEN=00000000000000000000000000000000",
        "export PITON_HOOK_TOKEN=$PITON_RUN_ID",
    ] {
        let project = project(&format!("{bad}; {pretence}; git commit -q -m bad"));
        let ran = project.piton(["tool", "run", "writer", "--checkpoint", "auto"]);
        assert_eq!(ran.code(), Some(1), "{pretence}: {ran}");
        assert!(
            ran.stderr().contains("staged items are not valid"),
            "{pretence}: {ran}"
        );
        assert_eq!(project.git(["log", "--format=%s"]), "start\n", "{pretence}");
    }
    // A token that a hook of the user has seen is useless for the next tool and after the run.
    let project = project(&format!(
        "if [ -e .git/token ]; then {bad}; PITON_HOOK_TOKEN=$(cat .git/token) git commit -q -m bad || exit 7; fi; echo $RANDOM > r"
    ));
    let home = project.root().join(".git/token");
    let leak = format!(
        "#!/bin/sh\nprintf %s \"$PITON_HOOK_TOKEN\" > '{}'\n",
        home.display()
    );
    fs::write(project.root().join(".git/hooks/post-commit"), leak).expect("a hook");
    project
        .piton(["tool", "run", "writer", "--checkpoint", "auto"])
        .succeeded();
    assert_eq!(fs::read(&home).expect("a token").len(), 32);
    let ran = project.piton(["tool", "run", "writer", "--checkpoint", "auto"]);
    assert!(
        ran.code() == Some(1) && ran.stderr().contains("staged items are not valid"),
        "{ran}"
    );
    project.bash(&format!(
        "{bad}; ! PITON_HOOK_TOKEN=$(cat .git/token) git commit -q -m bad"
    ));
}

#[test]
fn a_token_reaches_neither_tools_nor_commands() {
    let seen = "env > env.txt; ! grep -q PITON_HOOK_TOKEN env.txt";
    let project = project(seen).variable("PITON_HOOK_TOKEN", "0123456789abcdef0123456789abcdef");
    let manifest = project.read(".ai/tools/writer/tool.yaml")
        + "requires:\n  environment: [PITON_HOOK_TOKEN]\n";
    project
        .piton(["exec", "--", "bash", "-c", seen])
        .succeeded();
    project
        .piton(["tool", "run", "writer", "--checkpoint", "auto"])
        .succeeded();
    let project = project.file(".ai/tools/writer/tool.yaml", manifest);
    let ran = project.piton(["tool", "run", "writer"]);
    assert!(
        ran.code() != Some(0) && ran.stderr().contains("PITON_HOOK_TOKEN"),
        "{ran}"
    );
}

#[test]
fn the_environment_of_a_hook_does_not_reach_a_tool() {
    let script = "env | grep -E '^GIT_(DIR|INDEX_FILE|WORK_TREE|OBJECT|COMMON|PREFIX|QUARANTINE|CONFIG_(COUNT|KEY|VALUE|PARAM))' > leaked.txt && exit 9
                  rm leaked.txt; mkdir elsewhere; cd elsewhere; git init -q X; cd X; echo x > x.txt; git add x.txt
                  git -c user.name=a -c user.email=a@b commit -q -m x; git config a.b c; git branch side";
    let project = TestProject::new()
        .file("a.txt", "")
        .file(".gitignore", "elsewhere/\n")
        .tool("other", "mutates_state: true", script)
        .committed();
    let hook = format!(
        "#!/bin/sh\nexec '{}' tool run other --checkpoint disabled >&2\n",
        env!("CARGO_BIN_EXE_piton")
    );
    fs::write(project.root().join(".git/hooks/pre-commit"), hook).expect("a hook");
    project.bash("chmod +x .git/hooks/pre-commit; git worktree add -q -b linked '../linked tree'");
    for folder in [".", "../linked tree"] {
        let picture =
            "git config --list --local; git for-each-ref; git ls-files -s; git status --porcelain";
        let before = project.bash(&format!(
            "cd '{folder}'; echo new > new.txt; git add new.txt; {picture}"
        ));
        let ran = project.ran(
            project
                .hermetic("git", &project.root().join(folder))
                .args([
                    "-c",
                    "some.key=value",
                    "commit",
                    "-q",
                    "-m",
                    "next",
                    "new.txt",
                ])
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", "core.bare")
                .env("GIT_CONFIG_VALUE_0", "false")
                .output()
                .expect("git starts"),
        );
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(
            project.bash(&format!("cd '{folder}'; git show --format= --name-only")),
            "new.txt\n"
        );
        assert!(
            project
                .root()
                .join(folder)
                .join("elsewhere/X/.git/refs/heads/side")
                .exists()
        );
        let after = project.bash(&format!(
            "cd '{folder}'; git update-ref refs/heads/$(git branch --show-current) HEAD~1; git add new.txt; {picture}"
        ));
        assert_eq!(after, before);
        project.bash(&format!(
            "cd '{folder}'; git reset -q --hard; git fsck --strict"
        ));
    }
}

#[test]
fn a_hook_that_dies_leaves_the_repository_sound() {
    for (hook, place, lands) in [
        ("prepare-commit-msg", "message-written", false),
        ("post-commit", "commit-noted", true),
    ] {
        let project =
            project("echo x > x.txt; git add x.txt; git commit -q -m 'feat: add x' || true");
        let file = project.root().join(".git/hooks").join(hook);
        let text = fs::read_to_string(&file)
            .expect("a hook")
            .replace("exec ", &format!("PITON_FAILPOINT={place} "));
        fs::write(&file, text).expect("a hook");
        project
            .piton(["tool", "run", "writer", "--checkpoint", "auto"])
            .succeeded();
        // Either way the file is committed, by the tool or by piton.
        let made = if lands {
            "feat: add x\nstart\n"
        } else {
            "chore: add `x.txt` by `writer`\nstart\n"
        };
        assert_eq!(project.git(["log", "--format=%s"]), made);
        verified(&project);
        project.assert_clean();
    }
}
