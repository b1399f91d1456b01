//! `piton config` and the layers of settings.

use crate::harness::{TestProject, cmd_snapshot};

#[test]
fn without_files_everything_has_its_default() {
    cmd_snapshot!(TestProject::new().synced().piton(["config"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    validate.strict             false      default
    signature.require           none       default
    signature.allowed_signers   (none)     default
    checkpoint.mode             explicit   default
    checkpoint.max_file_size    10MiB      default
    checkpoint.max_total_size   1GiB       default
    checkpoint.hooks            auto       default
    checkpoint.secrets          block      default
    checkpoint.secrets_allowed  (none)     default
    checkpoint.fsync            auto       default
    hooks.fail_closed           false      default
    git.required                true       default
    isolation.cache_folders     (none)     default
    isolation.minimum           trusted    default
    agent.command               (none)     default
    agent.commands.fast         (none)     default
    agent.commands.balanced     (none)     default
    agent.commands.general      (none)     default
    agent.commands.reasoning    (none)     default
    agent.commands.expert       (none)     default
    agent.commands.orchestrator (none)     default
    agent.isolation             trusted    default
    ui.color                    auto       default
    ----- stderr -----
    ");
}

#[test]
fn every_value_says_which_layer_set_it() {
    let project = TestProject::new()
        .synced()
        .home_file(
            ".ai/config.yaml",
            "# mine\nsignature:\n  require: integrity\nui:\n  color: never\n",
        )
        .file(".ai/config.yaml", "validate:\n  strict: true\n")
        .variable("PITON_UI_COLOR", "auto");
    cmd_snapshot!(project.piton(["config"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    validate.strict             true       project, .ai/config.yaml:2
    signature.require           integrity  user, [HOME]/.ai/config.yaml:3
    signature.allowed_signers   (none)     default
    checkpoint.mode             explicit   default
    checkpoint.max_file_size    10MiB      default
    checkpoint.max_total_size   1GiB       default
    checkpoint.hooks            auto       default
    checkpoint.secrets          block      default
    checkpoint.secrets_allowed  (none)     default
    checkpoint.fsync            auto       default
    hooks.fail_closed           false      default
    git.required                true       default
    isolation.cache_folders     (none)     default
    isolation.minimum           trusted    default
    agent.command               (none)     default
    agent.commands.fast         (none)     default
    agent.commands.balanced     (none)     default
    agent.commands.general      (none)     default
    agent.commands.reasoning    (none)     default
    agent.commands.expert       (none)     default
    agent.commands.orchestrator (none)     default
    agent.isolation             trusted    default
    ui.color                    auto       environment, PITON_UI_COLOR
    ----- stderr -----
    ");
    cmd_snapshot!(project.piton(["config", "--color", "never", "--format", "json"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {"settings":[{"key":"validate.strict","value":true,"source":{"layer":"project","file":".ai/config.yaml","line":2}},{"key":"signature.require","value":"integrity","source":{"layer":"user","file":"[HOME]/.ai/config.yaml","line":3}},{"key":"signature.allowed_signers","value":null,"source":{"layer":"default"}},{"key":"checkpoint.mode","value":"explicit","source":{"layer":"default"}},{"key":"checkpoint.max_file_size","value":10485760,"source":{"layer":"default"}},{"key":"checkpoint.max_total_size","value":1073741824,"source":{"layer":"default"}},{"key":"checkpoint.hooks","value":"auto","source":{"layer":"default"}},{"key":"checkpoint.secrets","value":"block","source":{"layer":"default"}},{"key":"checkpoint.secrets_allowed","value":[],"source":{"layer":"default"}},{"key":"checkpoint.fsync","value":"auto","source":{"layer":"default"}},{"key":"hooks.fail_closed","value":false,"source":{"layer":"default"}},{"key":"git.required","value":true,"source":{"layer":"default"}},{"key":"isolation.cache_folders","value":[],"source":{"layer":"default"}},{"key":"isolation.minimum","value":"trusted","source":{"layer":"default"}},{"key":"agent.command","value":null,"source":{"layer":"default"}},{"key":"agent.commands.fast","value":null,"source":{"layer":"default"}},{"key":"agent.commands.balanced","value":null,"source":{"layer":"default"}},{"key":"agent.commands.general","value":null,"source":{"layer":"default"}},{"key":"agent.commands.reasoning","value":null,"source":{"layer":"default"}},{"key":"agent.commands.expert","value":null,"source":{"layer":"default"}},{"key":"agent.commands.orchestrator","value":null,"source":{"layer":"default"}},{"key":"agent.isolation","value":"trusted","source":{"layer":"default"}},{"key":"ui.color","value":"never","source":{"layer":"flag","flag":"--color"}}],"findings":[]}
    ----- stderr -----
    "#);
}

#[test]
fn one_setting_can_be_asked_for() {
    cmd_snapshot!(TestProject::new().synced().piton(["config", "ui.color"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ui.color                    auto       default
    ----- stderr -----
    ");
}

#[test]
fn an_unknown_setting_is_not_found() {
    cmd_snapshot!(TestProject::new().synced().piton(["config", "ui.colour"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `ui.colour` is not a setting

    hint: did you mean `ui.color`?
    ");
}

#[test]
fn a_project_may_tighten_what_signatures_are_required() {
    let project = TestProject::new()
        .synced()
        .home_file(".ai/config.yaml", "signature:\n  require: integrity\n")
        .file(".ai/config.yaml", "signature:\n  require: author\n");
    cmd_snapshot!(project.piton(["config", "signature.require"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    signature.require           author     project, .ai/config.yaml:2
    ----- stderr -----
    ");
}

#[test]
fn a_project_may_not_loosen_what_signatures_are_required() {
    let project = TestProject::new()
        .synced()
        .home_file(".ai/config.yaml", "signature:\n  require: integrity\n")
        .file(".ai/config.yaml", "signature:\n  require: none\n");
    cmd_snapshot!(project.piton(["config", "signature.require"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    signature.require           integrity  user, [HOME]/.ai/config.yaml:2
    ----- stderr -----
    warning: a project may tighten `signature.require`, not loosen it from `integrity` ([HOME]/.ai/config.yaml:2) to `none` [SETTING_IGNORED]
     --> .ai/config.yaml:2:12
    hint: set it in `~/.ai/config.yaml` if you want this
    ");
}

#[test]
fn a_project_may_not_loosen_checkpoints_or_validation() {
    let user = "checkpoint:\n  mode: auto\n  max_file_size: 1MiB\n  max_total_size: 1MiB\nvalidate:\n  strict: true\n";
    let loose = "checkpoint:\n  mode: disabled\n  max_file_size: 0\n  max_total_size: 2MiB\nvalidate:\n  strict: false\n";
    let project = TestProject::new()
        .synced()
        .home_file(".ai/config.yaml", user)
        .file(".ai/config.yaml", loose);
    cmd_snapshot!(project.piton(["config"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    validate.strict             true       user, [HOME]/.ai/config.yaml:6
    signature.require           none       default
    signature.allowed_signers   (none)     default
    checkpoint.mode             auto       user, [HOME]/.ai/config.yaml:2
    checkpoint.max_file_size    1MiB       user, [HOME]/.ai/config.yaml:3
    checkpoint.max_total_size   1MiB       user, [HOME]/.ai/config.yaml:4
    checkpoint.hooks            auto       default
    checkpoint.secrets          block      default
    checkpoint.secrets_allowed  (none)     default
    checkpoint.fsync            auto       default
    hooks.fail_closed           false      default
    git.required                true       default
    isolation.cache_folders     (none)     default
    isolation.minimum           trusted    default
    agent.command               (none)     default
    agent.commands.fast         (none)     default
    agent.commands.balanced     (none)     default
    agent.commands.general      (none)     default
    agent.commands.reasoning    (none)     default
    agent.commands.expert       (none)     default
    agent.commands.orchestrator (none)     default
    agent.isolation             trusted    default
    ui.color                    auto       default
    ----- stderr -----
    warning: a project may tighten `checkpoint.mode`, not loosen it from `auto` ([HOME]/.ai/config.yaml:2) to `disabled` [SETTING_IGNORED]
     --> .ai/config.yaml:2:9
    hint: set it in `~/.ai/config.yaml` if you want this
    warning: a project may tighten `checkpoint.max_file_size`, not loosen it from `1MiB` ([HOME]/.ai/config.yaml:3) to `0` [SETTING_IGNORED]
     --> .ai/config.yaml:3:18
    hint: set it in `~/.ai/config.yaml` if you want this
    warning: a project may tighten `checkpoint.max_total_size`, not loosen it from `1MiB` ([HOME]/.ai/config.yaml:4) to `2MiB` [SETTING_IGNORED]
     --> .ai/config.yaml:4:19
    hint: set it in `~/.ai/config.yaml` if you want this
    warning: a project may tighten `validate.strict`, not loosen it from `true` ([HOME]/.ai/config.yaml:6) to `false` [SETTING_IGNORED]
     --> .ai/config.yaml:6:11
    hint: set it in `~/.ai/config.yaml` if you want this
    ");
    let strict = "checkpoint:\n  mode: auto\n  max_file_size: 20MiB\n  max_total_size: 1MiB\nvalidate:\n  strict: true\n";
    let project = TestProject::new().synced().file(".ai/config.yaml", strict);
    let ran = project.piton(["config"]);
    assert_eq!(
        ran.stdout().matches("project, .ai/config.yaml:").count(),
        4,
        "{ran}"
    );
}

#[test]
fn a_project_may_not_turn_the_default_checkpoints_off() {
    let project = TestProject::new()
        .synced()
        .file(".ai/config.yaml", "checkpoint:\n  mode: disabled\n");
    cmd_snapshot!(project.piton(["config", "checkpoint.mode"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    checkpoint.mode             explicit   default
    ----- stderr -----
    warning: a project may tighten `checkpoint.mode`, not loosen it from `explicit` to `disabled` [SETTING_IGNORED]
     --> .ai/config.yaml:2:9
    hint: set it in `~/.ai/config.yaml` if you want this
    ");
}

#[test]
fn a_variable_may_tighten_it_and_never_loosen_it() {
    let project = TestProject::new()
        .synced()
        .home_file(".ai/config.yaml", "signature:\n  require: integrity\n")
        .variable("PITON_SIGNATURE_REQUIRE", "none");
    cmd_snapshot!(project.piton(["config", "signature.require"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    signature.require           integrity  user, [HOME]/.ai/config.yaml:2
    ----- stderr -----
    warning: `PITON_SIGNATURE_REQUIRE` is ignored: a variable may tighten `signature.require`, not loosen it from `integrity` ([HOME]/.ai/config.yaml:2) to `none`
    hint: set it in `~/.ai/config.yaml` if you want this
    ");
    let project = project.variable("PITON_SIGNATURE_REQUIRE", "author");
    cmd_snapshot!(project.piton(["config", "signature.require"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    signature.require           author     environment, PITON_SIGNATURE_REQUIRE
    ----- stderr -----
    ");
}

#[test]
fn every_mistake_in_a_file_is_reported_and_the_rest_still_counts() {
    let project = TestProject::new().synced().file(
        ".ai/config.yaml",
        "validate:\n  strict: perhaps\n  strickt: true\nui:\n  color: nevr\nsignature: [none]\nvalidate.strict: true\nspeed: 9\n",
    );
    cmd_snapshot!(project.piton(["config"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    validate.strict             false      default
    signature.require           none       default
    signature.allowed_signers   (none)     default
    checkpoint.mode             explicit   default
    checkpoint.max_file_size    10MiB      default
    checkpoint.max_total_size   1GiB       default
    checkpoint.hooks            auto       default
    checkpoint.secrets          block      default
    checkpoint.secrets_allowed  (none)     default
    checkpoint.fsync            auto       default
    hooks.fail_closed           false      default
    git.required                true       default
    isolation.cache_folders     (none)     default
    isolation.minimum           trusted    default
    agent.command               (none)     default
    agent.commands.fast         (none)     default
    agent.commands.balanced     (none)     default
    agent.commands.general      (none)     default
    agent.commands.reasoning    (none)     default
    agent.commands.expert       (none)     default
    agent.commands.orchestrator (none)     default
    agent.isolation             trusted    default
    ui.color                    auto       default
    ----- stderr -----
    error: `validate.strict` must be `true` or `false`, not `perhaps` [INVALID_ENUM_VALUE]
     --> .ai/config.yaml:2:11
    hint: write `true` or `false`
    warning: `validate.strickt` is not a setting [UNKNOWN_SETTING]
     --> .ai/config.yaml:3:3
    hint: did you mean `validate.strict`?
    error: `ui.color` must be `auto`, `always` or `never`, not `nevr` [INVALID_ENUM_VALUE]
     --> .ai/config.yaml:5:10
    hint: did you mean `never`?
    error: `signature` must be a mapping of settings, not a list [INVALID_TYPE]
     --> .ai/config.yaml:6:12
    hint: write one setting per line below it, each as `name: value`
    warning: `validate.strict` is not a setting [UNKNOWN_SETTING]
     --> .ai/config.yaml:7:1
    hint: write `strict` on a line of its own below `validate:`
    warning: `speed` is not a setting [UNKNOWN_SETTING]
     --> .ai/config.yaml:8:1
    hint: list the settings with `piton config`
    ");
}

#[test]
fn findings_are_part_of_the_json() {
    let project = TestProject::new()
        .synced()
        .file(".ai/config.yaml", "ui:\n  color: null\n");
    cmd_snapshot!(project.piton(["config", "ui.color", "--format", "json"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    {"settings":[{"key":"ui.color","value":"auto","source":{"layer":"default"}}],"findings":[{"code":"INVALID_TYPE","severity":"error","file":".ai/config.yaml","line":2,"column":10,"path":"ui.color","message":"`ui.color` must be `auto`, `always` or `never`, not nothing","suggestion":"write `auto`, `always` or `never`"}]}
    ----- stderr -----
    "#);
}

#[test]
fn a_file_of_comments_is_an_empty_one() {
    let project = TestProject::new()
        .synced()
        .file(".ai/config.yaml", "# nothing\n\n  # yet\n");
    assert_eq!(project.piton(["config"]).stderr(), "");
}

#[test]
fn sections_without_settings_are_fine() {
    let project = TestProject::new()
        .synced()
        .file(".ai/config.yaml", "ui:\n#  color: never\nvalidate:\n");
    assert_eq!(project.piton(["config"]).stderr(), "");
}

#[test]
fn broken_yaml_stops_other_commands_with_its_place() {
    let project = TestProject::new()
        .synced()
        .file(".ai/config.yaml", "ui:\n  color: [\n");
    cmd_snapshot!(project.piton(["init"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: while parsing a node, did not find expected node content [YAML_SYNTAX]
     --> .ai/config.yaml:3:1
    hint: check the indentation, and that quotes and brackets are closed
    error: the settings are not valid

    hint: `piton config` shows which settings apply
    ");
    cmd_snapshot!(project.piton(["init", "--format", "json"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    {"error":{"code":"INVALID_SETTINGS","message":"the settings are not valid","suggestion":"`piton config` shows which settings apply","findings":[{"code":"YAML_SYNTAX","severity":"error","file":".ai/config.yaml","line":3,"column":1,"path":"ui.color[0]","message":"while parsing a node, did not find expected node content","suggestion":"check the indentation, and that quotes and brackets are closed"}]}}
    ----- stderr -----
    "#);
    assert_eq!(project.files(), [".ai/config.yaml"]);
}

#[test]
fn a_wrong_variable_is_named() {
    let project = TestProject::new()
        .synced()
        .variable("PITON_VALIDATE_STRICT", "sometimes");
    cmd_snapshot!(project.piton(["config"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: the variable `PITON_VALIDATE_STRICT` must be `true` or `false`, not `sometimes`

    hint: correct the variable or unset it
    ");
}

#[test]
fn an_empty_variable_is_not_set() {
    let project = TestProject::new()
        .synced()
        .variable("PITON_VALIDATE_STRICT", "");
    assert_eq!(
        project.piton(["config", "validate.strict"]).stdout(),
        "validate.strict             false      default\n"
    );
}

#[cfg(unix)]
#[test]
fn a_settings_file_that_is_a_folder_is_an_error() {
    let project = TestProject::new().synced().file(".ai/config.yaml/x", "");
    cmd_snapshot!(project.piton(["config", "ui.color"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ui.color                    auto       default
    ----- stderr -----
    error: not a regular file [NOT_A_REGULAR_FILE]
     --> .ai/config.yaml:1:1
    hint: replace it with a plain file
    ");
}
