//! Manual steps that a program does.

use serde_json::{Value, json};

use super::{
    assert_sound, assert_unharmed, call, directive, dirty, names, project, subjects, summary,
};
use crate::harness::{Ran, TestProject};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const PROSE: &str = "<step name=\"write\"><action>Write for {input:who}.</action></step>\n";

/// A program below the home; returns its path.
fn agent(project: &TestProject, name: &str, script: &str) -> String {
    let path = project.home().join("agents").join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    project.bash(&format!("chmod +x '{}'", path.display()));
    path.to_string_lossy().into_owned()
}

/// A project with one directive of a manual step and what follows it.
fn words(metadata: &str, after: &str) -> TestProject {
    directive("words", metadata, &format!("{PROSE}{after}"))(project()).committed()
}

fn run(project: &TestProject, agent: &str) -> Ran {
    project.piton(["run", "words", "--format", "json", "--agent-cmd", agent])
}

/// Runs the directive with the agent from the settings.
fn run_as_set(project: &TestProject) -> Ran {
    project.piton(["run", "words", "--format", "json"])
}

fn code(ran: &Ran) -> Value {
    summary(ran)["error"]["code"].clone()
}

#[test]
fn an_agent_reads_its_task_and_its_edits_become_the_checkpoint_of_the_step() {
    let project = words(AUTO, &call("after", "add", "", "{step:write.pages} pages"));
    dirty(&project);
    let agent = agent(
        &project,
        "agent",
        "cat > \"$HOME/task\"; echo words > words.txt; echo 'done'; echo '{\"pages\": 3}'",
    );
    let ran = run(&project, &agent);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(names(&ran), ["write succeeded", "after succeeded"]);
    assert_eq!(
        subjects(&project),
        [
            "chore: update `out.txt` by `after`",
            "chore: add `words.txt` by `write`"
        ]
    );
    assert_eq!(project.read("out.txt"), "first\n3 pages\n");
    let task = std::fs::read_to_string(project.home().join("task")).expect("a task");
    assert!(
        task.starts_with(
            "# Step `write` of the directive `words`\n\n## Task\n\nWrite for world.\n"
        ),
        "{task}"
    );
    assert!(task.contains("secret/**"), "{task}");
    assert_unharmed(&project);
}

#[test]
fn in_explicit_mode_the_edits_of_an_agent_stay_until_a_checkpoint_step() {
    let keep = "<step name=\"keep\"><checkpoint operation=\"keep it\"/></step>\n";
    let project = words("", keep);
    dirty(&project);
    let agent = agent(
        &project,
        "agent",
        "echo words > words.txt; git log --format=%s | head -n 1 > \"$HOME/last\"",
    );
    let ran = run(&project, &agent);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        summary(&ran)["steps"][0]["checkpoint"]["status"],
        "skipped",
        "{ran}"
    );
    assert_eq!(subjects(&project), ["chore: keep it"]);
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "words.txt\n"
    );
    assert_unharmed(&project);
}

#[test]
fn settings_choose_the_command_by_tier_and_the_flag_beats_them() {
    let model = |tier: &str| format!("{AUTO}<model tier=\"{tier}\"/>");
    let project = words(&model("fast"), "");
    let [general, fast, flag] = ["general", "fast", "flag"]
        .map(|name| agent(&project, name, &format!("echo {name} > words.txt")));
    let settings = format!("agent:\n  command: {general}\n  commands:\n    fast: {fast}\n");
    let project = project.home_file(".ai/config.yaml", settings);
    assert_eq!(run_as_set(&project).code(), Some(0));
    assert_eq!(project.read("words.txt"), "fast\n");
    let project = directive("words", &model("expert"), PROSE)(project);
    assert_eq!(run_as_set(&project).code(), Some(0));
    assert_eq!(project.read("words.txt"), "general\n");
    assert_eq!(run(&project, &flag).code(), Some(0));
    assert_eq!(project.read("words.txt"), "flag\n");
    let project = project.variable("PITON_AGENT_COMMANDS_EXPERT", &fast);
    assert_eq!(run_as_set(&project).code(), Some(0));
    assert_eq!(project.read("words.txt"), "fast\n");
    assert_sound(&project);
}

#[test]
fn where_the_first_command_fails_that_of_the_fallback_tier_continues() {
    let project = words(
        &format!("{AUTO}<model tier=\"fast\" fallback=\"expert\"/>"),
        "",
    );
    let fast = agent(
        &project,
        "fast",
        "echo half > words.txt; echo 'no idea' >&2; exit 7",
    );
    let expert = agent(&project, "expert", "echo whole >> words.txt");
    let settings = |fast: &str, expert: &str| {
        format!("agent:\n  commands:\n    fast: {fast}\n    expert: {expert}\n")
    };
    let project = project.home_file(".ai/config.yaml", settings(&fast, &expert));
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("no idea"), "{ran}");
    assert!(
        ran.stderr().contains("exited with status 7; trying"),
        "{ran}"
    );
    assert_eq!(project.read("words.txt"), "half\nwhole\n");
    assert_eq!(subjects(&project).len(), 1);
    // A missing program and a missing interpreter both lead to the fallback.
    let broken = agent(&project, "broken", "");
    std::fs::write(&broken, "#!/no/such/interpreter\n").expect("a file");
    for first in ["/no/such/program", &broken] {
        std::fs::write(
            project.home().join(".ai/config.yaml"),
            settings(first, &expert),
        )
        .expect("settings");
        let ran = run_as_set(&project);
        assert_eq!(ran.code(), Some(0), "{first} {ran}");
    }
    assert_sound(&project);
}

#[test]
fn where_every_command_fails_the_step_fails_and_its_changes_follow_the_policy() {
    for (policy, goes_on, stays) in [
        ("", false, true),
        ("keep", false, true),
        ("rollback", false, false),
        ("continue", true, true),
        ("abort", false, true),
    ] {
        let attribute = if policy.is_empty() {
            String::new()
        } else {
            format!(" on_failure=\"{policy}\"")
        };
        let step = PROSE.replace("name=\"write\"", &format!("name=\"write\"{attribute}"));
        let project = directive(
            "words",
            AUTO,
            &format!("{step}{}", call("after", "list", "", "")),
        )(project())
        .committed();
        dirty(&project);
        let agent = agent(&project, "agent", "echo half > words.txt; exit 1");
        let ran = run(&project, &agent);
        let wanted = if goes_on {
            vec!["write failed", "after succeeded"]
        } else {
            vec!["write failed"]
        };
        assert_eq!(names(&ran), wanted, "{policy} {ran}");
        assert_eq!(ran.code(), Some(i32::from(!goes_on)), "{policy} {ran}");
        if !goes_on {
            assert_eq!(code(&ran), "AGENT_FAILED", "{policy} {ran}");
        }
        assert_eq!(
            project.root().join("words.txt").exists(),
            stays,
            "{policy} {ran}"
        );
        assert_eq!(subjects(&project), Vec::<String>::new(), "{policy}");
        assert_unharmed(&project);
    }
}

#[test]
fn an_agent_that_failed_is_asked_again_where_the_step_says_so() {
    let step = PROSE.replace("name=\"write\"", "name=\"write\" retry=\"2\"");
    let project = directive("words", AUTO, &step)(project()).committed();
    let agent = agent(
        &project,
        "agent",
        "echo try >> words.txt; echo x >> \"$HOME/tries\"; test $(wc -l < \"$HOME/tries\") = 3",
    );
    let ran = run(&project, &agent);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        names(&ran),
        ["write failed", "write failed", "write succeeded"]
    );
    // Each attempt starts from the same state.
    assert_eq!(project.read("words.txt"), "try\n");
    assert_sound(&project);
}

#[test]
fn edits_outside_of_the_grants_keep_the_run_waiting_and_paths_say_what_belongs_to_the_step() {
    let project = words(AUTO, &call("after", "add", "", "{step:write.pages} pages"));
    dirty(&project);
    let script =
        "echo words > words.txt; mkdir -p secret; echo x > secret/key; echo '{\"pages\": 3}'";
    let agent = agent(&project, "agent", script);
    let ran = project.piton(["run", "words", "--agent-cmd", &agent]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(
        ran.stderr().contains("`secret/key`") && ran.stderr().contains("--paths"),
        "{ran}"
    );
    assert_eq!(project.read("secret/key"), "x\n");
    assert_eq!(subjects(&project), Vec::<String>::new());
    // The files are still there, so the run keeps waiting.
    assert_eq!(project.piton(["resume"]).code(), Some(4));
    let ran = project.piton(["resume", "--paths", "words.txt", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\n3 pages\n");
    assert_eq!(
        project.git(["status", "--porcelain", "--", "secret"]),
        "?? secret/\n"
    );
    assert_unharmed(&project);
}

#[test]
fn edits_outside_of_the_grants_can_be_rolled_back_and_the_answer_of_the_agent_still_counts() {
    let project = words(AUTO, &call("after", "add", "", "{step:write.pages} pages"));
    dirty(&project);
    let script =
        "echo words > words.txt; mkdir -p secret; echo x > secret/key; echo '{\"pages\": 3}'";
    let agent = agent(&project, "agent", script);
    assert_eq!(run(&project, &agent).code(), Some(4));
    project.bash("rm -r secret");
    let ran = project.piton(["resume", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\n3 pages\n");
    assert_eq!(
        subjects(&project),
        [
            "chore: update `out.txt` by `after`",
            "chore: add `words.txt` by `write`"
        ]
    );
    assert_unharmed(&project);
}

#[test]
fn commits_of_an_agent_are_its_step() {
    let project = words(AUTO, "");
    let agent = agent(
        &project,
        "agent",
        "echo words > words.txt; git add words.txt; git commit -qm 'my own'; echo more > more.txt",
    );
    let ran = run(&project, &agent);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        subjects(&project),
        ["chore: add `more.txt` by `write`", "my own"]
    );
    assert_sound(&project);
}

#[test]
fn an_agent_cannot_use_piton_inside_the_step_it_does_and_is_told_why() {
    let piton = env!("CARGO_BIN_EXE_piton");
    let project = words(AUTO, "");
    for command in [
        "exec -- touch nested.txt",
        "exec --checkpoint disabled -- touch nested.txt",
        "tool run add",
        "checkpoint --all",
        "undo",
        "run words",
        "resume",
        "recover",
    ] {
        // piton must not wait for the lock of its own run.
        let agent = agent(
            &project,
            "agent",
            &format!("{piton} {command} 2> \"$HOME/told\"; echo $? >> \"$HOME/told\""),
        );
        let ran = run(&project, &agent);
        assert_eq!(ran.code(), Some(0), "{command} {ran}");
        let told = std::fs::read_to_string(project.home().join("told")).expect("an answer");
        assert!(
            told.contains("started by a step of run `"),
            "{command} {told}"
        );
        assert!(
            told.contains("hint: let the step change the files directly"),
            "{command} {told}"
        );
        assert!(told.ends_with("\n5\n"), "{command} {told}");
        assert!(!project.root().join("nested.txt").exists(), "{command}");
    }
    // Read-only commands are allowed, and so is another project.
    let script = format!(
        "{piton} status >&2 && {piton} log >&2 && git init -q \"$HOME/other\" && cd \"$HOME/other\" && {piton} exec -- touch there.txt"
    );
    let ran = run(&project, &agent(&project, "agent", &script));
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(project.home().join("other/there.txt").exists());
    assert_sound(&project);
}

#[test]
fn a_nested_piton_does_not_wait_for_the_lock_of_its_own_run() {
    let project = words(AUTO, "");
    let script = format!(
        "{} exec --lock-timeout 600 -- true; echo \"{{\\\"status\\\": $?}}\"",
        env!("CARGO_BIN_EXE_piton")
    );
    let ran = run(&project, &agent(&project, "agent", &script));
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn what_an_agent_writes_is_the_result_of_its_step() {
    let after = call("after", "add", "", "= {step:write}");
    for (script, wanted) in [
        ("echo '[1, 2]'", "[1,2]"),
        ("echo thinking; echo '{\"a\": 1}'; echo", "{\"a\":1}"),
        ("echo just text", "{\"output\":\"just text\"}"),
        ("printf '\\377\\376'", "{\"output\":\"\u{fffd}\u{fffd}\"}"),
        ("true", "{\"output\":\"\"}"),
        ("echo null", ""),
    ] {
        let project = words(AUTO, &after);
        let ran = run(&project, &agent(&project, "agent", script));
        assert_eq!(ran.code(), Some(0), "{script} {ran}");
        assert_eq!(
            project.read("out.txt"),
            format!("first\n= {wanted}\n"),
            "{script}"
        );
    }
}

#[test]
fn an_agent_may_write_much_read_nothing_and_leave_daemons() {
    let project = words(AUTO, &call("after", "add", "", "n{step:write.n}"));
    let long = "x".repeat(300_000);
    let project = directive(
        "words",
        AUTO,
        &format!(
            "{}{}",
            PROSE.replace("Write for", &long),
            call("after", "add", "", "n{step:write.n}")
        ),
    )(project);
    let script = "exec 0<&-\nhead -c 50000000 /dev/zero | tr '\\0' x; echo\n\
                  setsid sh -c 'sleep 3; echo late > late.txt' > /dev/null 2>&1 &\n\
                  echo words > words.txt; echo '{\"n\": 50}'";
    let agent = agent(&project, "agent", script);
    let mut command = vec!["run", "words", "--format", "json", "--agent-cmd"];
    command.push(&agent);
    let ran = project.limited(command);
    assert_eq!(ran.code(), Some(0), "{:#}", summary(&ran));
    assert_eq!(project.read("out.txt"), "first\nn50\n");
    project.bash("sleep 4");
    assert!(!project.root().join("late.txt").exists());
    assert_sound(&project);
}

#[test]
fn an_agent_that_takes_too_long_is_stopped_and_its_changes_stay() {
    let step = PROSE.replace("name=\"write\"", "name=\"write\" timeout=\"0.5\"");
    let project = directive("words", AUTO, &step)(project()).committed();
    dirty(&project);
    let ran = run(
        &project,
        &agent(&project, "agent", "echo half > words.txt; sleep 600"),
    );
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(code(&ran), "TIMED_OUT");
    assert_eq!(project.read("words.txt"), "half\n");
    assert_unharmed(&project);
}

#[test]
fn a_relative_program_is_refused_from_settings_and_found_from_where_the_flag_is_typed() {
    let project = words(AUTO, "")
        .file("sub/agent", "#!/bin/sh\necho sub > words.txt\n")
        .within("sub");
    project.bash("chmod +x sub/agent; cp sub/agent agent; git add --all; git commit -qm agents");
    let project = project.home_file(".ai/config.yaml", "agent:\n  command: ./agent\n");
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(
        ran.stderr()
            .contains("`agent.command` must not use a relative path"),
        "{ran}"
    );
    assert_eq!(project.piton(["log"]).stderr(), "no runs yet\n");
    let project = project
        .home_file(".ai/config.yaml", "")
        .variable("PITON_AGENT_COMMANDS_FAST", "bin/agent");
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("`agent.commands.fast`"), "{ran}");
    let ran = run(&project, "./agent");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("words.txt"), "sub\n");
}

#[test]
fn a_project_cannot_choose_the_agent() {
    let project = words(AUTO, "");
    let agent = agent(&project, "agent", "echo evil > words.txt");
    let project = project.file(
        ".ai/config.yaml",
        format!("agent:\n  command: {agent}\n  commands:\n    fast: {agent}\n"),
    );
    let ran = project.piton(["run", "words"]);
    assert_ne!(ran.code(), Some(0), "{ran}");
    assert!(!project.root().join("words.txt").exists(), "{ran}");
}

#[test]
fn an_agent_has_the_environment_of_the_user_without_the_variables_of_git() {
    let project = words(AUTO, "")
        .variable("MY_TOKEN", "mine")
        .variable("GIT_OPTIONAL_LOCKS", "0");
    let script = "env > \"$HOME/env\"; pwd > \"$HOME/pwd\"";
    let agent = agent(&project, "agent", script);
    let top = project
        .root()
        .canonicalize()
        .expect("a folder")
        .to_string_lossy()
        .into_owned();
    let mut command = project.command(["run", "words", "--format", "json", "--agent-cmd", &agent]);
    command
        .env("GIT_DIR", format!("{top}/.git"))
        .env("GIT_INDEX_FILE", format!("{top}/.git/index"));
    let ran = project.ran(command.output().expect("piton starts"));
    assert_eq!(ran.code(), Some(0), "{ran}");
    let told = std::fs::read_to_string(project.home().join("env")).expect("an environment");
    let run = summary(&ran)["run_id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    for wanted in [
        "MY_TOKEN=mine".to_owned(),
        format!("PITON_RUN_ID={run}"),
        "PITON_STEP=write".to_owned(),
        format!("PITON_PROJECT={top}"),
    ] {
        assert!(told.lines().any(|line| line == wanted), "{wanted} {told}");
    }
    for name in ["GIT_DIR=", "GIT_INDEX_FILE="] {
        assert!(
            !told.lines().any(|line| line.starts_with(name)),
            "{name} {told}"
        );
    }
    assert_eq!(
        std::fs::read_to_string(project.home().join("pwd")).expect("a folder"),
        format!("{top}\n")
    );
}

#[test]
fn without_an_agent_the_settings_say_nothing_and_resume_may_bring_one() {
    let second = PROSE.replace("write", "more");
    let project = words(AUTO, &second);
    assert_eq!(run_as_set(&project).code(), Some(4));
    let agent = agent(&project, "agent", "echo more > more.txt");
    let ran = project.piton(["resume", "--agent-cmd", &agent, "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        summary(&ran)["steps"][0]["checkpoint"]["status"],
        json!("no_changes")
    );
    assert_eq!(subjects(&project), ["chore: add `more.txt` by `more`"]);
    assert_sound(&project);
}

#[test]
fn a_secret_in_a_commit_of_an_agent_fails_the_step() {
    // Put together here, so that this file holds no token itself.
    let token = ["ghp", "_Zx81kQv7LmT3nRb5Wc2Yd9Fh4Gj6Ks0Pq1Ue"].concat();
    let commit = "cat > /dev/null; cp \"$HOME/secret\" k; git add k; git commit -qm k";
    for after in [
        "true",
        "git rm -q k; git commit -qm gone",
        "echo a > words.txt",
    ] {
        let project = words(AUTO, "").home_file("secret", &token);
        let agent = agent(&project, "agent", &format!("{commit}; {after}"));
        let ran = run(&project, &agent);
        assert_eq!(ran.code(), Some(1), "{after}: {ran}");
        assert_eq!(code(&ran), "SECRET_FOUND", "{after}: {ran}");
        assert!(!ran.to_string().contains(&token), "{after}");
        let warned = words(AUTO, "")
            .home_file("secret", &token)
            .variable("PITON_CHECKPOINT_SECRETS", "warn");
        let agent = self::agent(&warned, "agent", &format!("{commit}; {after}"));
        let ran = run(&warned, &agent);
        assert_eq!(ran.code(), Some(0), "{after}: {ran}");
    }
}

#[test]
fn a_secret_in_a_commit_of_a_person_fails_the_manual_step() {
    let token = ["ghp", "_Zx81kQv7LmT3nRb5Wc2Yd9Fh4Gj6Ks0Pq1Ue"].concat();
    let project = words(AUTO, "").home_file("secret", &token);
    assert_eq!(project.piton(["run", "words"]).code(), Some(4));
    project.bash("cp ../home/secret k; git add k; git commit -qm k");
    let ran = project.piton(["resume", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(code(&ran), "SECRET_FOUND", "{ran}");
    assert!(!ran.to_string().contains(&token));
}
