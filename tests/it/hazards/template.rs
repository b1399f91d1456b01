//! Hazards 60 to 66: parameters, placeholders and variables that are passed to a process.
//!
//! Every style in which a parameter reaches a tool is tried with the binary; the value that the
//! tool reports is compared with the given one.

use serde_json::{Value, json};

use crate::harness::{Ran, TestProject};

const TEXT: &str = "parameters:\n  - {name: text, type: string, required: true}\n";

/// The ways to pass a parameter on, each a tool that prints only the received value.
const STYLES: [&str; 6] = [
    "placed", "embedded", "runtime", "variable", "options", "script",
];

/// A project with a tool for each style; a file in its home must survive all of them.
fn styles() -> TestProject {
    let head = |id: &str, kind: &str, executor: &str| {
        format!(
            "tool_id: {id}\ntool_type: {kind}\nversion: \"1.0.0\"\ndescription: T\nexecutor: {executor}\n"
        )
    };
    let program = |id: &str, config: &str| {
        format!("{}config:\n{config}{TEXT}", head(id, "cli", "subprocess"))
    };
    let script = |id: &str, executor: &str, entry: &str, more: &str| {
        format!(
            "{}config:\n  entrypoint: {entry}\n{more}{TEXT}",
            head(id, "script", executor)
        )
    };
    let show = "import os, sys\nsys.stdout.buffer.write(os.fsencode(sys.argv[-1]))\n";
    TestProject::new()
        .home_file("precious", "still here\n")
        .file(
            ".ai/tools/placed.yaml",
            program(
                "placed",
                "  executable: printf\n  args: [--, '%s', '{text}']\n",
            ),
        )
        .file(
            ".ai/tools/embedded.yaml",
            program(
                "embedded",
                "  executable: printf\n  args: ['%s', 'is={text}']\n",
            ),
        )
        .file(
            ".ai/tools/own_runtime.yaml",
            format!(
                "{}config:\n  command: python3\n  args: ['{{entrypoint}}', --, '{{text}}']\n",
                head("own_runtime", "runtime", "subprocess")
            ),
        )
        .file(
            ".ai/tools/runtime/tool.yaml",
            script("runtime", "own_runtime", "show.py", ""),
        )
        .file(".ai/tools/runtime/show.py", show)
        .file(
            ".ai/tools/variable/tool.yaml",
            script(
                "variable",
                "bash_runtime",
                "show.sh",
                "  env:\n    SHOWN: 'is={text}'\n",
            ),
        )
        .file(".ai/tools/variable/show.sh", "printf %s \"$SHOWN\"\n")
        .file(
            ".ai/tools/options/tool.yaml",
            script("options", "python_runtime", "show.py", ""),
        )
        .file(".ai/tools/options/show.py", show)
        .file(
            ".ai/tools/script/tool.yaml",
            script("script", "bash_runtime", "show.sh", ""),
        )
        .file(
            ".ai/tools/script/show.sh",
            "printf %s \"$PITON_PARAM_TEXT\"\n",
        )
        .committed()
}

fn call(project: &TestProject, style: &str, value: &str) -> Ran {
    let word = format!("text={value}");
    project.piton([
        "tool",
        "run",
        style,
        "--format",
        "json",
        "--checkpoint",
        "disabled",
        "--param",
        &word,
    ])
}

/// The value that a tool reports.
fn arrived(ran: &Ran) -> String {
    let result = &ran.last_json()["result"];
    // A text that happens to be JSON was parsed as JSON.
    let text = result["stdout"]
        .as_str()
        .map_or_else(|| result.to_string(), str::to_owned);
    text.strip_prefix("is=").unwrap_or(&text).to_owned()
}

fn assert_all_arrive(values: &[&str]) {
    let project = styles();
    for style in STYLES {
        for value in values {
            let ran = call(&project, style, value);
            assert_eq!(
                (ran.code(), arrived(&ran).as_str()),
                (Some(0), *value),
                "{style}: {ran}"
            );
        }
    }
    assert_eq!(
        std::fs::read_to_string(project.home().join("precious")).expect("a file"),
        "still here\n"
    );
    project.assert_clean();
}

/// A program with these config lines, called without parameters.
fn program(config: &str) -> TestProject {
    let text = format!(
        "tool_id: t\ntool_type: cli\nversion: \"1.0.0\"\ndescription: T\nexecutor: subprocess\nconfig:\n{config}"
    );
    TestProject::new()
        .file(".ai/tools/t.yaml", text)
        .committed()
}

/// The code, message and place of a refused call.
fn refused(project: &TestProject, more: &[&str]) -> (String, String) {
    let ran = project.piton(["tool", "run", "t"].iter().chain(more));
    assert_eq!((ran.code(), ran.stdout().as_str()), (Some(2), ""), "{ran}");
    let result = project
        .piton(["tool", "run", "t", "--format", "json"].iter().chain(more))
        .last_json();
    assert_eq!(result["run_id"], Value::Null, "nothing has begun: {result}");
    assert_eq!(project.piton(["log"]).stdout(), "");
    assert!(!project.root().join("ran").exists());
    (
        result["code"].as_str().unwrap_or_default().to_owned(),
        ran.stderr(),
    )
}

#[test]
fn g60_a_command_in_a_parameter_is_text_in_every_style() {
    assert_all_arrive(&[
        "; rm -rf ~",
        "' ; rm -rf ~ ; ' \" ; rm -rf ~ ; \"",
        "\n rm -rf ~ \n",
        "&& rm -rf ~ || rm -rf $HOME | tee ~/precious",
    ]);
}

#[test]
fn g60_a_parameter_inside_the_script_of_a_shell_is_refused() {
    let with = |program: &str, args: &str| {
        let project = TestProject::new().file(
            ".ai/tools/t.yaml",
            format!(
                "tool_id: t\ntool_type: cli\nversion: \"1.0.0\"\ndescription: T\nexecutor: subprocess\n\
                 config:\n  executable: {program}\n  args: {args}\n{TEXT}"
            ),
        );
        project.committed()
    };
    for (program, args) in [
        ("bash", "[-c, 'echo {text}']"),
        ("/bin/sh", "[-ec, 'echo \"{text}\"']"),
        ("bash", "[-e, -c, \"echo '{text}'\"]"),
        ("env", "[bash, -c, 'echo {text}']"),
        ("python3", "[-c, 'print(\"{text}\")']"),
        ("node", "[-e, 'console.log(\"{text}\")']"),
    ] {
        let (code, told) = refused(
            &with(program, args),
            &["--param", "text=x\"; touch ran; \""],
        );
        assert_eq!(code, "INVALID_TEMPLATE", "{program} {args}: {told}");
        assert!(told.contains("a part of the code"), "{told}");
        assert!(told.contains(".ai/tools/t.yaml:8:"), "{told}");
    }
    // A positional parameter of the script is fine.
    let project = with("bash", "[-c, 'printf %s \"$1\"', bash, '{text}']");
    assert_eq!(
        arrived(&call(&project, "t", "\"; touch ran; \"")),
        "\"; touch ran; \""
    );
    // Outside of a shell script it is an ordinary option.
    let project = with("printf", "['%s-%s', -c, 'x={text}']");
    assert_eq!(arrived(&call(&project, "t", "y")), "-c-x=y");
}

#[test]
fn g61_a_value_that_looks_like_an_option_is_no_option() {
    let project = styles();
    // After `--`, inside a word and in the environment it cannot be an option.
    for style in ["placed", "embedded", "runtime", "variable", "script"] {
        for value in ["--upload-pack=touch ran", "-rf", "-", "--"] {
            let ran = call(&project, style, value);
            assert_eq!(
                (ran.code(), arrived(&ran).as_str()),
                (Some(0), value),
                "{style}: {ran}"
            );
        }
    }
    // As the value of an option it is attached to the option.
    let ran = call(&project, "options", "--upload-pack=touch ran");
    assert_eq!(arrived(&ran), "--text=--upload-pack=touch ran");
    let bare = format!("  executable: git\n  args: [ls-remote, '{{text}}']\n{TEXT}");
    let (code, told) = refused(
        &program(&bare),
        &["--param", "text=--upload-pack=touch ran"],
    );
    assert_eq!(code, "INVALID_PARAMETER", "{told}");
    assert!(told.contains(".ai/tools/t.yaml:8:"), "{told}");
}

#[test]
fn g62_nothing_in_a_value_is_expanded() {
    assert_all_arrive(&[
        "${HOME}",
        "$HOME $(touch ran) `touch ran` $((1+1))",
        "~/*",
        "%s %n !! \\x41 \\n",
    ]);
}

#[test]
fn g63_a_value_that_looks_like_a_placeholder_is_not_filled_in() {
    assert_all_arrive(&[
        "{text}",
        "{{text}} {project_path} ${PATH} {params_json}",
        "{entrypoint}",
        "{ } ${ {",
    ]);
}

#[test]
fn g64_what_stands_for_nothing_is_an_error_with_its_place() {
    for (config, place) in [
        ("  executable: touch\n  args: [ran, '{nothing}']\n", "8"),
        (
            "  executable: touch\n  args: [ran, '${PITON_TEST_UNSET}']\n",
            "8",
        ),
        (
            "  executable: touch\n  args: [ran]\n  env:\n    A: 'x{nothing}'\n",
            "10",
        ),
        (
            "  executable: touch\n  args: [ran]\n  env:\n    A: '${PITON_TEST_UNSET}'\n",
            "10",
        ),
        ("  executable: '{nothing}'\n  args: [ran]\n", "7"),
        (
            "  executable: touch\n  args: [ran]\n  cwd: '{nothing}'\n",
            "9",
        ),
        (
            "  executable: touch\n  args: [ran]\n  timeout: '${PITON_TEST_UNSET}'\n",
            "9",
        ),
    ] {
        let (code, told) = refused(&program(config), &[]);
        assert!(
            told.contains(&format!(".ai/tools/t.yaml:{place}:")),
            "{config}{code}: {told}"
        );
    }
    let unset = program("  executable: printf\n  args: ['%s', '${PITON_TEST_UNSET:-default}']\n");
    assert_eq!(
        unset
            .piton(["tool", "run", "t", "--format", "json"])
            .last_json()["result"],
        json!({"stdout": "default"})
    );
}

#[test]
fn g65_doubled_braces_are_plain_and_what_is_cut_off_is_reported() {
    let project = program(
        "  executable: printf\n  args: ['%s|', '{{x}}', '{\"a\": {\"b\": 1}}', '{', '}', '{ x }', '$', '${{x}}']\n",
    );
    let ran = project.piton(["tool", "run", "t", "--format", "json"]);
    assert_eq!(
        ran.last_json()["result"],
        json!({"stdout": "{x}|{\"a\": {\"b\": 1}}|{|}|{ x }|$|${x}|"}),
        "{ran}"
    );
    for word in ["${", "${}", "${A", "${A B}", "${1}", "${A:?no}", "${!A}"] {
        let (code, told) = refused(
            &program(&format!("  executable: touch\n  args: [ran, '{word}']\n")),
            &[],
        );
        assert!(
            told.contains(".ai/tools/t.yaml:8:"),
            "{word} {code}: {told}"
        );
    }
}

#[test]
fn g66_newlines_in_variables_arrive_and_add_no_variable() {
    let value = "one\nADDED=1\n\nLD_PRELOAD=/tmp/x\n";
    assert_all_arrive(&[value]);
    let script = "test -z \"${ADDED+x}${LD_PRELOAD+x}\" && printf %s \"$DECLARED\" > out";
    let project = TestProject::new()
        .tool("t", "requires:\n  environment: [DECLARED]", script)
        .committed()
        .variable("DECLARED", value);
    let ran = project.piton(["tool", "run", "t"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out"), value);
}

#[test]
fn g66_nul_in_a_parameter_is_refused_where_no_process_could_get_it() {
    let project = styles().file("nul.json", "{\"text\": \"a\\u0000b\"}");
    for style in STYLES {
        let ran = project.piton([
            "tool", "run", style, "--format", "json", "--params", "nul.json",
        ]);
        assert_eq!(
            (ran.code(), &ran.last_json()["code"]),
            (Some(2), &json!("INVALID_PARAMETER")),
            "{style}: {ran}"
        );
        assert!(ran.stdout().contains("NUL"), "{ran}");
    }
    assert_eq!(project.piton(["log"]).stdout(), "");
    // Python's `main` gets its parameters as JSON, which can hold NUL.
    let source = "def main(text: str):\n    return {'length': len(text)}\n";
    let project = crate::tool_run::python("t", "", source)(project);
    let ran = project.piton([
        "tool", "run", "t", "--format", "json", "--params", "nul.json",
    ]);
    assert_eq!(ran.last_json()["result"], json!({"length": 3}), "{ran}");
}
