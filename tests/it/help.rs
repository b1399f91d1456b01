//! `piton help`, completions and the manual.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{TestProject, cmd_snapshot};

/// The folder of the real binary, for the search path of shells.
fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
}

#[test]
fn help_without_a_topic_is_the_overview_with_the_list() {
    let ran = TestProject::new().piton(["help"]);
    let text = ran.stdout();
    assert!(text.starts_with("piton\n\npiton runs commands"), "{ran}");
    assert!(text.contains("\n    $ piton quickstart "), "{ran}");
    assert!(
        text.contains("\nTopics\n\n  overview     what piton does, and how to start\n"),
        "{ran}"
    );
    assert!(text.contains("\n  exit-codes   "), "{ran}");
}

#[test]
fn a_topic_is_shown_as_a_page() {
    cmd_snapshot!(TestProject::new().piton(["help", "settings"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    Settings

    Later sources override earlier ones: defaults, `~/.ai/config.yaml`,
    `.ai/config.yaml` of the project, variables, flags.

        checkpoint:
          mode: auto
        signature:
          require: integrity

    Most settings have a variable: `checkpoint.mode` is `PITON_CHECKPOINT_MODE`. A
    project can tighten safety settings, but not loosen them, and only you can set
    some, such as `agent.command`. A variable can tighten `signature.require`, but
    not loosen it.

        $ piton config                       # show all settings and where each value comes from
        $ piton config checkpoint.mode
        $ piton config --format json

    piton warns about an unknown setting and rejects an invalid value, with file,
    line and column. `docs/reference/settings.md` lists all settings.
    ----- stderr -----
    ");
}

#[test]
fn help_of_a_command_is_its_own_also_below_another() {
    let project = TestProject::new();
    for words in [
        &["run"][..],
        &["tool", "run"],
        &["directive", "show"],
        &["help"],
    ] {
        let asked = project.piton(["help"].iter().chain(words));
        let own = project.piton(words.iter().chain(&["--help"]));
        assert_eq!(
            (asked.stdout(), asked.code()),
            (own.stdout(), Some(0)),
            "{words:?}"
        );
    }
    let below = project.piton(["tool", "help", "run"]);
    assert!(below.stdout().contains("Usage: piton tool run "), "{below}");
}

#[test]
fn a_name_of_both_shows_the_command_and_then_the_topic() {
    let ran = TestProject::new().piton(["help", "checkpoint"]);
    let text = ran.stdout();
    let (command, topic) = (
        text.find("Usage: piton checkpoint").unwrap(),
        text.find("\nCheckpoints\n").unwrap(),
    );
    assert!(command < topic, "{ran}");
}

#[test]
fn help_is_also_a_page_for_programs() {
    let project = TestProject::new();
    let page: Value = serde_json::from_str(
        &project
            .piton(["help", "checkpoint", "--format", "json"])
            .stdout(),
    )
    .unwrap();
    assert_eq!(page["topic"], "checkpoint");
    assert!(
        page["help"]
            .as_str()
            .unwrap()
            .starts_with("# Checkpoints\n")
    );
    assert_eq!(page["examples"][1], "piton checkpoint");
    let page: Value = serde_json::from_str(
        &project
            .piton(["help", "tool", "run", "--format", "json"])
            .stdout(),
    )
    .unwrap();
    assert_eq!(
        (page["topic"].as_str(), page["examples"][0].as_str()),
        (
            Some("tool run"),
            Some("piton tool run greet --param who=Ada")
        )
    );
}

#[test]
fn an_unknown_topic_is_answered_with_the_known_ones() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["help", "permisions"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is neither a topic nor a command `permisions`

    hint: did you mean `permissions`? There is help on `overview`, `directive`, `tool`, `knowledge`, `search`, `load`, `execute`, `checkpoint`, `runs`, `permissions`, `signing`, `templates`, `settings`, `exit-codes`
    ");
    cmd_snapshot!(project.piton(["help", "tool", "rum"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is neither a topic nor a command `tool rum`

    hint: did you mean `run`? There is help on `list`, `run`, `show`, `accept`
    ");
    let ran = project.piton(["help", "x\u{1b}]0;owned\u{7}", "--format", "json"]);
    let error: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(
        (ran.code(), error["error"]["code"].as_str()),
        (Some(2), Some("UNKNOWN_TOPIC")),
        "{ran}"
    );
}

#[test]
fn help_needs_no_project_and_no_valid_settings() {
    let project = TestProject::new()
        .file(".ai/config.yaml", "ui: [\n")
        .variable("PITON_UI_COLOR", "pink");
    assert_eq!(project.piton(["help", "tool"]).code(), Some(0));
    for folder in ["/", project.home().to_str().unwrap()] {
        for command in [&["help"][..], &["man"], &["completions", "bash"]] {
            let ran = project.piton(["-C", folder].iter().chain(command));
            assert_eq!(
                (ran.code(), ran.stderr()),
                (Some(0), String::new()),
                "{ran}"
            );
        }
    }
}

/// A project with items to complete.
fn furnished() -> TestProject {
    TestProject::new()
        .tool("deploy_app", "", "true")
        .tool("describe", "", "true")
        .directive("deploy", ["deploy_app"])
        .committed()
}

/// Completes a command line with the real bash.
fn complete_in_bash(project: &TestProject, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let script = format!(
        "PATH=\"{}:$PATH\"; eval \"$(piton completions bash)\"; COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9\n\
         _clap_complete_piton piton '{last}' '{before}' 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        programs().display(),
        quoted.join(" "),
        words.len() - 1,
    );
    project
        .bash(&script)
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_commands_options_items_runs_and_settings() {
    let project = furnished();
    let complete = |line: &str| complete_in_bash(&project, line);
    assert_eq!(complete("piton chec"), ["checkpoint"]);
    assert_eq!(complete("piton tool ru"), ["run"]);
    assert_eq!(complete("piton run dep"), ["deploy"]);
    assert_eq!(complete("piton tool run de"), ["deploy_app", "describe"]);
    assert_eq!(complete("piton tool show des"), ["describe"]);
    assert_eq!(complete("piton run deploy --dry"), ["--dry-run"]);
    assert_eq!(complete("piton run deploy --checkpoint a"), ["auto"]);
    assert_eq!(complete("piton config ui"), ["ui.color"]);
    assert_eq!(
        complete("piton new tool x --type mcp"),
        ["mcp_server", "mcp_tool"]
    );
    assert_eq!(complete("piton new tool x --executor b"), ["bash_runtime"]);
    assert_eq!(
        complete("piton new tool x --executor dep"),
        Vec::<String>::new()
    );
    assert_eq!(complete("piton tool run bash"), Vec::<String>::new());
    assert_eq!(complete("piton tool show bash"), ["bash_runtime"]);
    assert_eq!(complete("piton sign des"), ["describe"]);
    assert_eq!(complete("piton help cod"), ["codes"]);
    assert_eq!(complete("piton help permi"), ["permissions"]);
    assert_eq!(complete("piton resume 0"), Vec::<String>::new());
    project.piton(["run", "deploy"]);
    let runs = complete("piton show 0");
    assert_eq!(
        (runs.len(), project.piton(["show", runs[0].as_str()]).code()),
        (1, Some(0)),
        "{runs:?}"
    );
    assert!(!complete("piton re").contains(&"reference".to_owned()));
}

#[test]
fn completing_outside_of_a_project_offers_no_items_and_says_nothing() {
    let project = TestProject::without_git();
    let home = project.home();
    let mut command = project.command(["--", "piton", "run", ""]);
    let output = command
        .current_dir(home)
        .env("PITON_COMPLETE", "fish")
        .output()
        .unwrap();
    let offered = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        offered.lines().all(|line| line.starts_with('-')),
        "{offered}"
    );
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}

#[test]
fn fish_completes_commands_and_items() {
    let project = furnished();
    let complete = |line: &str| {
        let script = format!(
            "set -x PATH {} $PATH; piton completions fish | source; complete -C '{line}'",
            programs().display()
        );
        let output = project
            .hermetic("fish", &project.root())
            .args(["--no-config", "-c", &script])
            .output()
            .expect("fish starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(complete("piton chec"), ["checkpoint"]);
    assert_eq!(complete("piton tool run de"), ["deploy_app", "describe"]);
    assert_eq!(complete("piton run deploy --dry"), ["--dry-run"]);
}

#[test]
fn zsh_completes_commands_and_items() {
    let project = furnished();
    // The completion system needs a terminal, so print what it is given instead.
    let complete = |line: &str| {
        let script = format!(
            "PATH=\"{}:$PATH\"; compdef() {{ :; }}; _describe() {{ print -l -- \"${{(P)2[@]}}\" \"${{(P)4[@]}}\" \"${{(P)3[@]}}\"; }}\n\
             words=({line}); CURRENT=${{#words}}; eval \"$(piton completions zsh)\"; _clap_dynamic_completer_piton",
            programs().display()
        );
        let output = project
            .hermetic("zsh", &project.root())
            .args(["-f", "-c", &script])
            .output()
            .expect("zsh starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    assert!(
        complete("piton chec").contains("checkpoint"),
        "{}",
        complete("piton chec")
    );
    let tools = complete("piton tool run d");
    assert!(
        tools.contains("deploy_app") && tools.contains("describe"),
        "{tools}"
    );
}

#[test]
fn every_shell_has_a_script() {
    let project = TestProject::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = project.piton(["completions", shell]);
        assert!(
            ran.code() == Some(0) && ran.stdout().contains("PITON_COMPLETE"),
            "{ran}"
        );
    }
    let ran = project.piton(["completions", "tcsh"]);
    assert_eq!((ran.code(), ran.stdout()), (Some(2), String::new()));
}

#[test]
fn there_is_a_manual_page_for_each_command_that_groff_accepts() {
    let project = TestProject::new();
    let ran = project.piton(["man", "--dir", "man/man1"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let mut pages: Vec<_> = fs::read_dir(project.root().join("man/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    pages.sort();
    let names: Vec<String> = pages
        .iter()
        .map(|page| page.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    for name in ["piton.1", "piton-run.1", "piton-tool.1", "piton-tool-run.1"] {
        assert!(names.iter().any(|it| it == name), "{names:?}");
    }
    assert!(
        !names
            .iter()
            .any(|name| name.contains("reference") || name.ends_with("-help-run.1")),
        "{names:?}"
    );
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "\"EXIT STATUS\"",
            "\"SEE ALSO\"",
        ] {
            assert!(
                text.lines().any(|line| line == format!(".SH {section}")),
                "{}: {section}",
                page.display()
            );
        }
        let mut groff = project.hermetic("groff", &project.root());
        let output = groff
            .args(["-k", "-man", "-Tutf8", "-ww", "-z"])
            .arg(page)
            .output()
            .expect("groff starts");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "",
            "{}",
            page.display()
        );
    }
    let printed = project.piton(["man"]).stdout();
    assert_eq!(
        printed,
        fs::read_to_string(&pages[names.iter().position(|it| it == "piton.1").unwrap()]).unwrap()
    );
}

#[test]
fn a_code_is_explained_and_all_are_listed() {
    let project = TestProject::new().file(".ai/tools/x.yaml", b"tool_id: \xff\n");
    let told = project.piton(["validate"]);
    let hint = "hint: `piton help NOT_UTF8` explains it with a corrected example; `piton help codes` lists all\n";
    assert!(told.stderr().ends_with(hint), "{told}");
    let page = project.piton(["help", "NOT_UTF8"]).stdout();
    assert!(
        page.starts_with("NOT_UTF8\n\n**error** · the file is not valid UTF-8\n"),
        "{page}"
    );
    assert!(
        page.contains("Corrected") && !page.contains("EMPTY_FILE"),
        "{page}"
    );
    let json = project
        .piton(["help", "not_utf8", "--format", "json"])
        .json();
    assert!(
        json["help"]
            .as_str()
            .is_some_and(|help| help.starts_with("### NOT_UTF8\n")),
        "{json}"
    );
    let list = project.piton(["help", "codes"]).stdout();
    assert!(
        list.lines().any(
            |line| line.starts_with("EMPTY_FILE ") && line.ends_with("the file has no content")
        ),
        "{list}"
    );
    let unknown = project.piton(["help", "NOT_UTF9"]);
    assert!(
        unknown.stderr().contains("did you mean `NOT_UTF8`?"),
        "{unknown}"
    );
}

#[test]
fn every_page_that_the_manual_names_is_written() {
    let project = TestProject::new();
    assert_eq!(project.piton(["man", "--dir", "man"]).code(), Some(0));
    let pages = fs::read_dir(project.root().join("man"))
        .expect("pages")
        .map(|page| page.expect("a page").path());
    for page in pages {
        let text = fs::read_to_string(&page).expect("text").replace("\\-", "-");
        for (name, _) in text
            .lines()
            .filter_map(|line| line.split_once("(1)"))
            .filter(|(name, _)| name.starts_with("piton"))
        {
            assert!(
                project
                    .root()
                    .join("man")
                    .join(format!("{name}.1"))
                    .exists(),
                "{}: {name}",
                page.display()
            );
        }
    }
    assert!(project.root().join("man/piton-help.1").exists());
}
