//! The weakest isolation level that the settings allow, and the level of agent commands.

use super::outside;
use crate::harness::{Ran, TestProject};

const OUTSIDE: &str = "echo x > ../new";

/// A project whose tool and agent write beside it.
fn project() -> TestProject {
    let prose = "```xml\n<directive name=\"manual\" version=\"1.0.0\">\n<metadata><description>d</description>\
                 <permissions><write path=\"**\"/></permissions></metadata>\n\
                 <process><step name=\"a\"><action>Do it.</action></step></process>\n</directive>\n```\n";
    TestProject::new()
        .file("kept.txt", "kept\n")
        .tool("trusted", "isolation: trusted", OUTSIDE)
        .tool("plain", "", "true")
        .directive("d", ["trusted"])
        .file(".ai/directives/manual.md", prose)
        .committed()
}

fn wrote(project: &TestProject) -> bool {
    let file = outside(project).join("new");
    let wrote = file.exists();
    let _ = std::fs::remove_file(file);
    wrote
}

const RAISED: &str =
    "isolation: `standard` instead of `trusted`: the setting `isolation.minimum` is `standard`";

#[test]
fn a_minimum_of_the_user_holds_for_tools_commands_and_agents() {
    let project = project();
    let calls: [&[&str]; 4] = [
        &["tool", "run", "trusted"],
        &["run", "d"],
        &["exec", "--", "sh", "-c", OUTSIDE],
        &["run", "manual", "--agent-cmd", "sh -c 'echo x > ../new'"],
    ];
    for words in calls {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(wrote(&project), "{words:?}");
    }
    let project = project.home_file(".ai/config.yaml", "isolation:\n  minimum: standard\n");
    for (at, words) in calls.into_iter().enumerate() {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(if at == 2 { 2 } else { 1 }), "{ran}");
        assert!(!wrote(&project), "{words:?}");
        assert_eq!(
            ran.stderr().matches(RAISED).count(),
            usize::from(at < 3),
            "{ran}"
        );
    }
    let ran = project.piton(["tool", "run", "plain"]);
    assert!(!ran.stderr().contains("isolation:"), "{ran}");
    let ran = project.piton(["tool", "run", "trusted", "--format", "json"]);
    let run = ran.last_json()["run_id"]
        .as_str()
        .expect("a run")
        .to_owned();
    let shown = project.piton(["show", &run]);
    assert!(
        shown
            .stdout()
            .contains("isolation     standard (`standard` instead of"),
        "{shown}"
    );
    let dry = project.piton(["tool", "run", "trusted", "--dry-run"]);
    assert!(
        dry.stdout()
            .contains("isolation given: standard  # `standard` instead"),
        "{dry}"
    );
}

#[test]
fn a_project_can_raise_the_minimum_and_not_lower_it() {
    let raised = "isolation:\n  minimum: standard\nagent:\n  isolation: sandboxed\n";
    let lowered = "isolation:\n  minimum: trusted\n";
    let status = |user: Option<&str>, project_sets: &str| {
        let mut project = project();
        if let Some(user) = user {
            project = project.home_file(".ai/config.yaml", user);
        }
        let ran = project
            .file(".ai/config.yaml", project_sets)
            .piton(["tool", "run", "trusted"]);
        (ran.code(), ran.stderr().contains("SETTING_IGNORED"))
    };
    assert_eq!(status(None, raised), (Some(1), false));
    assert_eq!(status(Some(raised), lowered), (Some(1), true));
    // A variable, which any process can set for its children, raises it as well, and does not lower it.
    let with = |settings: &str, level: &str| {
        let project = project()
            .home_file(".ai/config.yaml", settings)
            .variable("PITON_ISOLATION_MINIMUM", level);
        project.piton(["tool", "run", "trusted"]).code()
    };
    assert_eq!(with(raised, "trusted"), Some(1));
    assert_eq!(with("", "standard"), Some(1));
    assert_eq!(with("", "trusted"), Some(0));
}

fn manual(project: &TestProject, more: &[&str]) -> Ran {
    let agent = "sh -c 'read line; echo x > ../new; echo $line > own.txt'";
    let words = [
        "run",
        "manual",
        "--checkpoint",
        "auto",
        "--agent-cmd",
        agent,
    ];
    project.piton(words.iter().chain(more))
}

#[test]
fn an_agent_command_gets_the_level_that_the_user_chose() {
    let project = project();
    let ran = manual(&project, &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(wrote(&project));
    for level in ["standard", "restricted"] {
        let ran = manual(&project, &["--agent-isolation", level]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(!wrote(&project));
        assert_eq!(
            project.read("own.txt"),
            "# Step `a` of the directive `manual`\n"
        );
        project.assert_clean();
    }
    let project = project.variable("PITON_AGENT_ISOLATION", "standard");
    let ran = manual(&project, &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(!wrote(&project));
    let ran = manual(&project, &["--agent-isolation", "trusted"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(wrote(&project));
    let ran = manual(&project, &["--agent-isolation", "loose"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    // A run that is resumed keeps the level.
    let failing = "sh -c 'echo x > ../new; exit 1'";
    let words = ["run", "manual", "--agent-cmd", failing, "--agent-isolation"];
    let ran = project.piton(words.iter().chain(&["restricted", "--format", "json"]));
    assert_eq!(ran.code(), Some(1), "{ran}");
    let run = ran.last_json()["run_id"]
        .as_str()
        .expect("a run")
        .to_owned();
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(!wrote(&project));
}

#[test]
fn an_agent_level_that_cannot_be_given_is_refused_before_the_run() {
    let project = project();
    let words = ["run", "manual", "--agent-cmd", "true", "--agent-isolation"];
    let mut command = project.command(words.iter().chain(&["sandboxed"]));
    command.env("PITON_FAILPOINT", "isolation:sandbox=error");
    let ran = project.ran(command.output().expect("piton starts"));
    assert_eq!(ran.code(), Some(5), "{ran}");
    let ran = project.piton(["log"]);
    assert!(!ran.stdout().contains("manual"), "{ran}");
}
