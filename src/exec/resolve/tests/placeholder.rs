//! Placeholders are filled in once; inserted values are not read again.

use super::*;

fn filled(template: &str, parameters: Value) -> Vec<String> {
    let project = cli_project(&format!(
        "  args: [{}]\n",
        serde_json::to_string(template).unwrap()
    ));
    let invocation = project.resolve("run", parameters);
    arguments(&invocation)
        .into_iter()
        .map(str::to_owned)
        .collect()
}

#[test]
fn values_are_put_in_as_they_are() {
    for hostile in [
        "; rm -rf ~",
        "${HOME}",
        "$(id)",
        "`id`",
        "{name}",
        "{{x}}",
        "a\nb",
        "\"'\\",
        "*",
        "größe ✓",
    ] {
        assert_eq!(filled("{name}", json!({"name": hostile})), [hostile]);
        assert_eq!(
            filled("<{name}>", json!({"name": hostile})),
            [format!("<{hostile}>")]
        );
    }
}

#[test]
fn substitution_happens_once() {
    assert_eq!(
        filled("{a}{b}", json!({"a": "{b}", "b": "${TOKEN}"})),
        ["{b}${TOKEN}"]
    );
    assert_eq!(filled("{a}b}", json!({"a": "{"})), ["{b}"]);
}

#[test]
fn braces_that_begin_no_name_are_plain() {
    for (template, text) in [
        ("{{name}}", "{name}"),
        ("{{{{", "{{"),
        ("{\"a\": {\"b\": 1}}", "{\"a\": {\"b\": 1}}"),
        ("{", "{"),
        ("}", "}"),
        ("{}", "{}"),
        ("{ x }", "{ x }"),
        ("{1}", "{1}"),
        ("a}}b", "a}}b"),
        ("$5 $ $$", "$5 $ $$"),
        ("${{HOME}}", "${HOME}"),
        ("{name", "{name"),
    ] {
        assert_eq!(filled(template, json!({})), [text], "{template}");
    }
}

#[test]
fn variables_come_from_the_caller_and_are_secret() {
    let project = cli_project(
        "  args: [\"Bearer ${TOKEN}\", \"${NONE:-fallback}\", \"${EMPTY:-x}\", \"${LANG}\"]\n",
    );
    let invocation = project.resolve("run", json!({}));
    assert_eq!(
        arguments(&invocation),
        ["Bearer s3cret", "fallback", "x", "C.UTF-8"]
    );
    let shown: Vec<&str> = process(&invocation)
        .arguments
        .iter()
        .map(MaskedText::shown)
        .collect();
    assert_eq!(shown, ["Bearer ***", "fallback", "x", "C.UTF-8"]);
    assert_eq!(invocation.variables, ["EMPTY", "NONE", "TOKEN"]);
    assert_eq!(
        invocation.origins["action.arguments[1]"],
        "environment variable NONE"
    );
    let json = serde_json::to_string(&invocation).unwrap();
    assert!(!json.contains("s3cret"), "{json}");
    assert!(!format!("{invocation:?} {:?}", invocation.rows()).contains("s3cret"));
}

#[test]
fn what_stands_for_nothing_is_an_error() {
    let refusal = |template: &str, parameters: Value| {
        cli_project(&format!(
            "  args: [{}]\n",
            serde_json::to_string(template).unwrap()
        ))
        .refusal("run", parameters)
    };
    insta::assert_snapshot!(refusal("${NO_SUCH}", json!({})), @"
    INVALID_TEMPLATE: `${NO_SUCH}` in `config.args[0]` is a variable that is not set
    --> .ai/tools/run.yaml:8
    hint: set `NO_SUCH`, or write `${NO_SUCH:-default}`
    ");
    insta::assert_snapshot!(refusal("{naem}", json!({"name": 1})), @"
    INVALID_TEMPLATE: `{naem}` in `config.args[0]` is not a parameter of the tool
    --> .ai/tools/run.yaml:8
    hint: did you mean `{name}`?
    ");
    insta::assert_snapshot!(refusal("{print}", json!({})), @"
    INVALID_TEMPLATE: `{print}` in `config.args[0]` is not a parameter of the tool
    --> .ai/tools/run.yaml:8
    hint: declare a parameter of that name, or write `{{print}}` for plain braces
    ");
    insta::assert_snapshot!(refusal("${HOME-x}", json!({})), @"
    INVALID_TEMPLATE: `${HOME-x}` in `config.args[0]` is not a placeholder
    --> .ai/tools/run.yaml:8
    hint: write `${NAME}` or `${NAME:-default}`; `${{` is a plain `${`
    ");
    insta::assert_snapshot!(refusal("${HOME", json!({})), @"
    INVALID_TEMPLATE: `${HOME` in `config.args[0]` is not a placeholder
    --> .ai/tools/run.yaml:8
    hint: write `${NAME}` or `${NAME:-default}`; `${{` is a plain `${`
    ");
    insta::assert_snapshot!(refusal("{entrypoint}", json!({})), @"
    INVALID_TEMPLATE: `{entrypoint}` in `config.args[0]` stands for a script, and this tool has none
    --> .ai/tools/run.yaml:8
    hint: add `config.entrypoint`
    ");
}

#[test]
fn an_optional_parameter_that_is_not_given_leaves_its_argument_out() {
    let with = |args: &str| {
        Project::new(&[(
            ".ai/tools/run.yaml",
            &(cli(&format!("  args: {args}\n")) + "parameters:\n  - {name: name, type: string}\n"),
        )])
    };
    assert_eq!(
        arguments(&with("[a, \"{name}\", b]").resolve("run", json!({}))),
        ["a", "b"]
    );
    insta::assert_snapshot!(with("[\"--name={name}\"]").refusal("run", json!({})), @"
    INVALID_TEMPLATE: `{name}` in `config.args[0]` is a parameter that was not given
    --> .ai/tools/run.yaml:8
    hint: give it, or give it a default in the tool
    ");
    insta::assert_snapshot!(with("[\"{nmae}\"]").refusal("run", json!({})), @"
    INVALID_TEMPLATE: `{nmae}` in `config.args[0]` is not a parameter of the tool
    --> .ai/tools/run.yaml:8
    hint: did you mean `{name}`?
    ");
}

#[test]
fn words_about_the_call_itself_are_known() {
    let project = cli_project("  args: [\"{project_path}\", \"{tool_dir}\", \"{params_json}\"]\n");
    let invocation = project.resolve("run", json!({"yes": false}));
    let root = project.root().to_str().unwrap();
    assert_eq!(
        arguments(&invocation),
        [root, &format!("{root}/.ai/tools"), "{\"yes\":false}"]
    );
}
