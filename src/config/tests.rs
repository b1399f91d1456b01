//! Tests of the layers.

use std::fs;

use proptest::prelude::*;

use super::*;

const REQUIREMENTS: [SignatureRequirement; 3] = [
    SignatureRequirement::None,
    SignatureRequirement::Integrity,
    SignatureRequirement::Author,
];

fn load(user: &str, project: &str, variables: &[(&str, &str)]) -> Result<Config, InvalidVariable> {
    let folder = tempfile::tempdir().unwrap();
    let (user_file, project_file) = (
        folder.path().join("user.yaml"),
        folder.path().join("project.yaml"),
    );
    fs::write(&user_file, user).unwrap();
    fs::write(&project_file, project).unwrap();
    let variables = variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    Config::load(
        SettingsFiles {
            user: Some(&user_file),
            project: Some(&project_file),
        },
        &variables,
    )
}

#[test]
fn no_project_loosens_what_its_user_requires() {
    for user in REQUIREMENTS {
        for project in REQUIREMENTS {
            let text = |requirement: SignatureRequirement| {
                format!("signature:\n  require: {}\n", requirement.as_str())
            };
            let config = load(&text(user), &text(project), &[]).unwrap();
            assert_eq!(config.signature_requirement(), user.max(project));
            let codes: Vec<&str> = config
                .findings()
                .iter()
                .map(|finding| finding.code.as_str())
                .collect();
            assert_eq!(
                codes,
                if project < user {
                    vec!["SETTING_IGNORED"]
                } else {
                    vec![]
                }
            );
            assert!(!config.has_errors());
        }
    }
}

#[test]
fn no_variable_loosens_what_is_required() {
    let variable = "PITON_SIGNATURE_REQUIRE";
    for user in REQUIREMENTS {
        for wanted in REQUIREMENTS {
            let text = format!("signature:\n  require: {}\n", user.as_str());
            let config = load(&text, "", &[(variable, wanted.as_str())]).unwrap();
            assert_eq!(config.signature_requirement(), user.max(wanted));
            let begin = format!(
                "a variable may tighten `signature.require`, not loosen it from `{}` (",
                user.as_str()
            );
            let end = format!("user.yaml:2) to `{}`", wanted.as_str());
            let ignored = config.ignored_variables();
            assert_eq!(ignored.len(), usize::from(wanted < user));
            assert!(ignored.iter().all(|ignored| ignored.variable == variable
                && ignored.reason.starts_with(&begin)
                && ignored.reason.ends_with(&end)));
        }
    }
    let variable = "PITON_SIGNATURE_ALLOWED_SIGNERS";
    let config = load(
        "signature:\n  allowed_signers: ~/mine\n",
        "",
        &[(variable, "/theirs")],
    )
    .unwrap();
    assert_eq!(config.allowed_signers(), Some(PathBuf::from("~/mine")));
    let reason = "a variable may not set `signature.allowed_signers`".to_owned();
    assert_eq!(
        config.ignored_variables(),
        [IgnoredVariable { variable, reason }]
    );
    // The user may loosen other protected settings for one command.
    let config = load(
        "",
        "",
        &[
            ("PITON_CHECKPOINT_SECRETS", "warn"),
            ("PITON_AGENT_COMMAND", "mine"),
        ],
    )
    .unwrap();
    assert_eq!(
        (config.secrets(), config.ignored_variables()),
        (SecretPolicy::Warn, &[][..])
    );
}

#[test]
fn later_layers_win() {
    let color = |value: &str| format!("ui:\n  color: {value}\n");
    let (user, project) = (color("always"), color("never"));
    let variable = "PITON_UI_COLOR";
    assert_eq!(load("", "", &[]).unwrap().color(), ColorSetting::Auto);
    assert_eq!(load(&user, "", &[]).unwrap().color(), ColorSetting::Always);
    assert_eq!(
        load(&user, &project, &[]).unwrap().color(),
        ColorSetting::Never
    );
    let mut config = load(&user, &project, &[(variable, "auto")]).unwrap();
    assert_eq!(config.color(), ColorSetting::Auto);
    config.set_flag(
        SettingKey::UiColor,
        Value::Color(ColorSetting::Always),
        "--color",
    );
    assert_eq!(
        config.get(SettingKey::UiColor),
        Setting {
            key: SettingKey::UiColor,
            value: Value::Color(ColorSetting::Always),
            source: SettingSource::Flag { flag: "--color" }
        }
    );
}

#[test]
fn a_file_that_is_no_mapping_sets_nothing() {
    for text in ["just text\n", "- a\n- b\n", "42\n"] {
        let config = load(text, "", &[]).unwrap();
        let codes: Vec<&str> = config
            .findings()
            .iter()
            .map(|finding| finding.code.as_str())
            .collect();
        assert_eq!(
            (codes, config.strict()),
            (vec!["INVALID_TYPE"], false),
            "{text}"
        );
    }
}

#[test]
fn a_value_is_never_guessed() {
    for text in ["yes", "1", "on", "\"\"", "[true]", "{a: b}", "null", "1.0"] {
        let config = load("", &format!("validate:\n  strict: {text}\n"), &[]).unwrap();
        assert_eq!(
            (config.strict(), config.has_errors()),
            (false, true),
            "{text}"
        );
    }
}

#[test]
fn a_wrong_variable_stops_everything() {
    let err = load("", "", &[("PITON_UI_COLOR", "\u{1b}[31m")]).unwrap_err();
    assert_eq!(
        err.to_string(),
        "the variable `PITON_UI_COLOR` must be `auto`, `always` or `never`, not `\u{1b}[31m`"
    );
}

#[test]
fn missing_files_are_empty_ones() {
    let files = SettingsFiles {
        user: Some(Path::new("/nonexistent/config.yaml")),
        project: None,
    };
    let config = Config::load(files, &BTreeMap::new()).unwrap();
    assert_eq!(config.findings(), []);
    assert!(
        config
            .all()
            .iter()
            .all(|setting| setting.source == SettingSource::Default)
    );
}

#[test]
fn a_hostile_file_is_a_finding() {
    for text in [
        "a: &a [*a]\n".to_owned(),
        "[".repeat(100_000),
        "\0".to_owned(),
        "ui: !!python/x 1\n".to_owned(),
    ] {
        let config = load("", &text, &[]).unwrap();
        assert!(config.has_errors(), "{:?}", text.get(..20));
        assert!(
            config
                .findings()
                .iter()
                .all(|finding| finding.line >= 1 && finding.column >= 1)
        );
    }
}

/// Settings with right and wrong names and values, nested and repeated.
fn settings() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "signature",
        "require",
        "validate",
        "strict",
        "ui",
        "color",
        "colour",
        "a.b",
    ]);
    let leaf = prop::sample::select(vec![
        "none",
        "integrity",
        "author",
        "true",
        "yes",
        "null",
        "1",
        "[]",
        "{}",
        "'ü'",
    ]);
    let flow = leaf
        .prop_map(str::to_owned)
        .prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|values| format!("[{}]", values.join(", "))),
                prop::collection::vec((key.clone(), inner), 0..4).prop_map(|entries| {
                    let entries: Vec<String> = entries
                        .iter()
                        .map(|(key, value)| format!("{key}: {value}"))
                        .collect();
                    format!("{{{}}}", entries.join(", "))
                }),
            ]
        });
    let line = (
        prop::sample::select(vec!["signature", "validate", "ui", "uii"]),
        flow,
    );
    prop::collection::vec(line, 0..4).prop_map(|lines| {
        lines.into_iter().fold(String::new(), |text, (key, value)| {
            text + key + ": " + &value + "\n"
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_settings_panic_and_no_project_loosens(user in settings(), project in settings()) {
        let alone = load(&user, "", &[]).unwrap();
        let both = load(&user, &project, &[]).unwrap();
        prop_assert!(both.signature_requirement() >= alone.signature_requirement());
        let lines = u32::try_from(user.lines().count().max(project.lines().count())).unwrap();
        prop_assert!(both.findings().iter().all(|finding| (1..=lines).contains(&finding.line)));
    }
}

#[test]
fn a_project_never_chooses_a_program() {
    let theirs = "agent:\n  command: evil\n  commands:\n    fast: evil --fast\n";
    let config = load("", theirs, &[]).unwrap();
    assert_eq!(
        (config.agent_command(), config.agent_command_for(Tier::Fast)),
        (None, None)
    );
    let found: Vec<(&str, &str)> = config
        .findings()
        .iter()
        .map(|it| (it.code.as_str(), &*it.message))
        .collect();
    assert_eq!(
        found,
        [
            ("SETTING_IGNORED", "a project may not set `agent.command`"),
            (
                "SETTING_IGNORED",
                "a project may not set `agent.commands.fast`"
            ),
        ]
    );
    let mine = "agent:\n  command: mine\n  commands:\n    fast: mine --fast\n";
    let variables = [("PITON_AGENT_COMMANDS_EXPERT", "mine --expert")];
    let config = load(mine, theirs, &variables).unwrap();
    let text =
        |command: Option<AgentCommand>| command.map(|it| it.text().to_owned()).unwrap_or_default();
    assert_eq!(text(config.agent_command()), "mine");
    assert_eq!(text(config.agent_command_for(Tier::Fast)), "mine --fast");
    assert_eq!(
        text(config.agent_command_for(Tier::Expert)),
        "mine --expert"
    );
    assert_eq!(config.agent_command_for(Tier::General), None);
}

#[test]
fn a_command_with_an_open_quote_is_refused() {
    let config = load("agent:\n  command: \"mine 'open\"\n", "", &[]).unwrap();
    let found: Vec<&str> = config.findings().iter().map(|it| &*it.message).collect();
    assert_eq!(
        found,
        ["`agent.command` must be a command line such as `my-agent --print`, not `mine 'open`"]
    );
    assert!(load("", "", &[("PITON_AGENT_COMMAND", "'")]).is_err());
}
