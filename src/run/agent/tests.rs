use std::fs;

use super::*;
use crate::config::{SettingsFiles, Value as Setting};
use crate::exec::interrupt::Interrupts;
use crate::exec::subprocess::converse;
use crate::item::directive::{Access, Grant};
use crate::item::position::Position;
use crate::policy::{Authority, PolicyCaller};
use crate::problem::{Code, Explain as _};

fn config(user: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    fs::write(&file, user).unwrap();
    let config = Config::load(
        SettingsFiles {
            user: Some(&file),
            project: None,
        },
        &BTreeMap::new(),
    )
    .unwrap();
    assert!(config.findings().is_empty(), "{:?}", config.findings());
    config
}

fn model(tier: Option<&str>, fallback: Option<&str>) -> Model {
    Model {
        tier: tier.map(str::to_owned),
        fallback: fallback.map(str::to_owned),
        parallel: None,
        id: None,
        reasoning: None,
        place: Position::START,
    }
}

const SETTINGS: &str =
    "agent:\n  command: any\n  commands:\n    fast: quick 'a b'\n    expert: best\n";

#[test]
fn the_tier_chooses_the_command_and_the_fallback_comes_second() {
    let commands = AgentCommands::of(&config(SETTINGS)).unwrap();
    let chosen = |tier, fallback| {
        let found = commands.for_model(Some(&model(tier, fallback)));
        found
            .iter()
            .map(|command| command.text().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(commands.for_model(None).len(), 1);
    assert_eq!(chosen(None, None), ["any"]);
    assert_eq!(chosen(Some("fast"), None), ["quick 'a b'"]);
    assert_eq!(chosen(Some("haiku"), None), ["any"]);
    assert_eq!(
        chosen(Some("fast"), Some("expert")),
        ["quick 'a b'", "best"]
    );
    assert_eq!(chosen(Some("expert"), Some("reasoning")), ["best", "any"]);
    assert_eq!(chosen(Some("reasoning"), Some("general")), ["any"]);
    assert_eq!(chosen(None, Some("fast")), ["any", "quick 'a b'"]);
}

#[test]
fn a_flag_wins_for_every_tier() {
    let mut config = config(SETTINGS);
    config.set_flag(
        SettingKey::AgentCommand,
        Setting::Command(AgentCommand::parse("mine")),
        "--agent-cmd",
    );
    let found = AgentCommands::of(&config)
        .unwrap()
        .for_model(Some(&model(Some("fast"), Some("expert"))));
    assert_eq!(found, [AgentCommand::parse("mine").unwrap()]);
}

#[test]
fn without_settings_there_is_no_command() {
    let commands = AgentCommands::of(&Config::default()).unwrap();
    assert!(
        commands.is_empty()
            && commands
                .for_model(Some(&model(Some("fast"), None)))
                .is_empty()
    );
    let only_fallback =
        AgentCommands::of(&config("agent:\n  commands:\n    expert: best\n")).unwrap();
    assert!(!only_fallback.is_empty());
    assert_eq!(
        only_fallback
            .for_model(Some(&model(Some("fast"), Some("expert"))))
            .len(),
        1
    );
}

fn workplace(folder: &Path) -> Workplace<'_> {
    Workplace {
        run: "01arz3ndek0000000000000001".parse().unwrap(),
        step: "release/write[2]",
        project: folder,
    }
}

#[test]
fn a_program_that_does_not_exist_is_reported_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::new(
        [("PATH".into(), "/usr/bin:/bin".into())].into(),
        folder.path().into(),
    );
    let missing = AgentCommand::parse("no-such-agent --print").unwrap();
    let error = command_line(&missing, &workplace(folder.path()), &environment).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Code::ProgramNotFound, "there is no program `no-such-agent`")
    );
}

#[test]
fn a_command_has_the_environment_of_its_user_without_that_of_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("PATH", "/usr/bin:/bin"),
        ("MY_TOKEN", "t"),
        ("GIT_DIR", "/elsewhere/.git"),
    ];
    let variables = variables
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    let environment = Environment::new(variables, folder.path().into());
    let script = "sh -c 'cat; echo \"$MY_TOKEN|$GIT_DIR|$PITON_RUN_ID|$PITON_STEP\"; test \"$PITON_PROJECT\" -ef .'";
    let command = AgentCommand::parse(script).unwrap();
    let line = command_line(&command, &workplace(folder.path()), &environment).unwrap();
    let mut interrupts = Interrupts::listen().unwrap();
    let came = converse(
        &line,
        b"task\n",
        &mut interrupts,
        |_| Ok::<_, SubprocessError>(()),
        &mut |_, _| {},
    )
    .unwrap();
    assert_eq!(came.outcome.exit_code, Some(0));
    assert_eq!(
        came.stdout.text(),
        "task\nt||01arz3ndek0000000000000001|release/write[2]\n"
    );
}

fn kept(text: &str) -> Captured {
    Captured {
        head: text.into(),
        tail: Vec::new(),
        total: text.len() as u64,
        sha256: String::new(),
    }
}

#[test]
fn output_is_json_or_ends_with_an_object_or_is_text() {
    for (text, value) in [
        ("{\"a\": 1}\n", json!({"a": 1})),
        ("[\n1\n]", json!([1])),
        ("I did it.\n{\"files\": 3}\n\n", json!({"files": 3})),
        ("I did it.\n[3]\n", json!({"output": "I did it.\n[3]"})),
        (
            "{\"files\": 3}\nbye\n",
            json!({"output": "{\"files\": 3}\nbye"}),
        ),
        ("", json!({"output": ""})),
        ("  two\n", json!({"output": "  two"})),
    ] {
        assert_eq!(result(&kept(text)), value, "{text}");
    }
    let cut = Captured {
        head: "{".into(),
        tail: "x\n{\"a\": 2}".into(),
        total: 999,
        sha256: String::new(),
    };
    assert_eq!(result(&cut), json!({"a": 2}));
    let binary = Captured {
        head: vec![0xff, b'\n'],
        tail: Vec::new(),
        total: 2,
        sha256: String::new(),
    };
    assert_eq!(result(&binary), json!({"output": "\u{fffd}"}));
}

#[test]
fn an_agent_is_told_all_it_needs() {
    let write = Grant {
        access: Access::Write {
            path: "docs/**".to_owned(),
        },
        deny: false,
        place: Position::START,
    };
    let grants = [write];
    let authority = Authority::Directives(vec![PolicyCaller {
        name: "release",
        grants: &grants,
    }]);
    let checks = [
        "the notes name every change".to_owned(),
        "no line is\nlonger than 100".to_owned(),
    ];
    let task = Task {
        step: "release/write",
        directive: "release",
        description: "Write the notes",
        instruction: "\n    Rewrite docs/notes.md.\n    Keep it short.\n",
        verification: &checks,
        rejected: None,
        writes: &WriteRules::for_directives(&authority),
    };
    insta::assert_snapshot!(instruction(&task), @r#"
    # Step `release/write` of the directive `release`

    Write the notes

    ## Task

        Rewrite docs/notes.md.
        Keep it short.

    ## Afterwards, check

    - the notes name every change
    - no line is
      longer than 100

    ## Files

    Only these files of the project may be changed (`!` excludes; all lines of a directive count, and every directive has to allow a file). Changes to other files make the step fail.

    - docs/** (release)

    ## Result

    Change files in place and do not commit: piton does that.
    Exit with status 0 when the task is done, and with another status and the reason on standard error when it is not.
    What you write to standard output is the result of the step. If later steps need values, end it with one line that is a JSON object, such as {"summary": "…"}.
    "#);
    let bare = Task {
        description: "",
        verification: &[],
        writes: &WriteRules::for_directives(&Authority::Person),
        ..task
    };
    insta::assert_snapshot!(instruction(&bare), @r#"
    # Step `release/write` of the directive `release`

    ## Task

        Rewrite docs/notes.md.
        Keep it short.

    ## Files

    Any file of the project may be changed.

    ## Result

    Change files in place and do not commit: piton does that.
    Exit with status 0 when the task is done, and with another status and the reason on standard error when it is not.
    What you write to standard output is the result of the step. If later steps need values, end it with one line that is a JSON object, such as {"summary": "…"}.
    "#);
}
