//! How each runtime gets its parameters.

use super::*;

/// Paths with their texts.
type Files<'f> = &'f [(&'f str, &'f str)];

const BASH: [(&str, &str, &str); 4] = [
    (
        "manifest",
        ".ai/tools/greet/tool.yaml",
        "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: Greets\nexecutor: bash_runtime\nconfig:\n  entrypoint: greet.sh\nparameters:\n  - name: who\n    type: string\n    default: world\n",
    ),
    (
        "executor block",
        ".ai/tools/greet/tool.yaml",
        "tool_id: greet\ntool_type: bash\nversion: \"1.0.0\"\ndescription: Greets\nexecutor:\n  type: bash\n  entrypoint: greet.sh\nparameters:\n  - name: who\n    type: string\n    default: world\n",
    ),
    (
        "JSON Schema",
        ".ai/tools/greet/tool.yaml",
        "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: Greets\nexecutor: bash_runtime\nconfig:\n  entrypoint: greet.sh\ninputs:\n  type: object\n  properties:\n    who:\n      type: string\n      default: world\n",
    ),
    (
        "local",
        ".ai/tools/greet/tool.yaml",
        "tool:\n  id: greet\n  type: local\n  name: Greet\n  version: \"1.0.0\"\n  description: Greets\n  parameters:\n    - name: who\n      type: string\n      default: world\n  local_specific:\n    entry_point: greet.sh\n    runtime: bash\n",
    ),
];

#[test]
fn every_spelling_of_a_bash_tool_gives_the_same_process() {
    for (spelling, file, manifest) in BASH {
        let project = Project::new(&[
            (file, manifest),
            (".ai/tools/greet/greet.sh", "echo hello\n"),
        ]);
        let invocation = project.resolve("greet", json!({}));
        let script = project.root().join(".ai/tools/greet/greet.sh");
        let process = process(&invocation);
        assert_eq!(process.program, MaskedText::plain("bash"), "{spelling}");
        assert_eq!(
            arguments(&invocation),
            [script.to_str().unwrap()],
            "{spelling}"
        );
        assert_eq!(process.input, br#"{"who":"world"}"#, "{spelling}");
        assert_eq!(
            process.environment["PITON_PARAM_WHO"],
            MaskedText::plain("world"),
            "{spelling}"
        );
        assert_eq!(process.folder, project.root(), "{spelling}");
        assert_eq!(
            process.script.as_ref().unwrap().sha256,
            hex_of(b"echo hello\n"),
            "{spelling}"
        );
        assert_eq!(process.python, None, "{spelling}");
        assert_eq!(
            (invocation.isolation, invocation.isolation_asked),
            (Isolation::Standard, false),
            "{spelling}"
        );
        assert_eq!(invocation.timeout, Duration::from_mins(5), "{spelling}");
        let ids: Vec<&str> = invocation
            .chain
            .iter()
            .map(|link| link.id.as_str())
            .collect();
        assert_eq!(ids, ["greet", "bash_runtime", "subprocess"], "{spelling}");
    }
}

#[test]
fn a_script_that_describes_itself_is_its_own_entrypoint() {
    let text = "#!/bin/bash\n# tool_id: greet\n# tool_type: script\n# version: 1.0.0\n# executor: bash_runtime\n# description: Greets\necho hello\n";
    for file in [".ai/tools/greet.sh", ".ai/scripts/greet.sh"] {
        let project = Project::new(&[(file, text)]);
        let invocation = project.resolve("greet", json!({"who": "x"}));
        assert_eq!(
            arguments(&invocation),
            [project.root().join(file).to_str().unwrap()]
        );
        assert_eq!(process(&invocation).program.value, "bash");
    }
}

#[test]
fn every_spelling_of_a_python_tool_gives_the_same_process() {
    let main = "def main(who: str = 'world', times: int = 1):\n    return {'hello': who}\n";
    let header =
        "__tool_type__ = 'python'\n__version__ = '1.0.0'\n__executor_id__ = 'python_runtime'\n";
    let embedded = format!("{header}{main}");
    let manifest = "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: Greets\nexecutor: python_runtime\nconfig: {entrypoint: main.py}\n";
    let block = "tool_id: greet\ntool_type: python\nversion: \"1.0.0\"\ndescription: Greets\nexecutor: {type: python, entrypoint: main.py}\n";
    let cases: [(&str, Files<'_>, &str); 4] = [
        (
            "manifest",
            &[
                (".ai/tools/greet/tool.yaml", manifest),
                (".ai/tools/greet/main.py", main),
            ],
            ".ai/tools/greet/main.py",
        ),
        (
            "block",
            &[
                (".ai/tools/greet/tool.yaml", block),
                (".ai/tools/greet/main.py", main),
            ],
            ".ai/tools/greet/main.py",
        ),
        (
            "embedded",
            &[(".ai/tools/greet.py", &embedded)],
            ".ai/tools/greet.py",
        ),
        (
            "legacy",
            &[(".ai/scripts/greet.py", main)],
            ".ai/scripts/greet.py",
        ),
    ];
    for (spelling, files, script) in cases {
        let project = Project::new(files);
        let invocation = project.resolve("greet", json!({"times": 2}));
        let process = process(&invocation);
        assert_eq!(process.program, MaskedText::plain("python3"), "{spelling}");
        assert_eq!(
            arguments(&invocation),
            [project.root().join(script).to_str().unwrap()],
            "{spelling}"
        );
        assert_eq!(
            serde_json::from_slice::<Value>(&process.input).unwrap(),
            json!({"who": "world", "times": 2}),
            "{spelling}"
        );
        assert_eq!(
            process.python.as_ref().unwrap().entry,
            PythonEntry::Main,
            "{spelling}"
        );
        assert!(
            !process
                .environment
                .keys()
                .any(|name| name.starts_with("PITON_PARAM")),
            "{spelling}"
        );
        assert_eq!(
            process.environment["PYTHONDONTWRITEBYTECODE"].value, "1",
            "{spelling}"
        );
        assert_eq!(invocation.isolation, Isolation::Standard, "{spelling}");
        assert_eq!(
            invocation.origins["parameters.times"], "parameter times",
            "{spelling}"
        );
        assert_eq!(
            invocation.origins["parameters.who"], "default",
            "{spelling}"
        );
    }
}

#[test]
fn an_async_main_is_called_and_a_script_without_main_gets_options() {
    let project = Project::new(&[
        (
            ".ai/scripts/asynchronous.py",
            "async def main(a: int):\n    return a\n",
        ),
        (".ai/scripts/plain.py", "import argparse\n"),
    ]);
    let invocation = project.resolve("asynchronous", json!({"a": 1}));
    assert_eq!(
        process(&invocation).python.as_ref().unwrap().entry,
        PythonEntry::Main
    );

    let parameters = json!({
        "word": "two words", "yes": true, "no": false, "none": null, "list": [1, "b"], "map": {"k": 1},
        "dash": "-rf", "number": -5, "under_score": "", "n": 1.5
    });
    let invocation = project.resolve("plain", parameters);
    let process = process(&invocation);
    assert_eq!(process.python.as_ref().unwrap().entry, PythonEntry::Script);
    assert_eq!(
        arguments(&invocation)[1..],
        [
            "--word",
            "two words",
            "--yes",
            "--list",
            "[1,\"b\"]",
            "--map",
            "{\"k\":1}",
            "--dash=-rf",
            "--number=-5",
            "--under_score",
            "",
            "--n",
            "1.5"
        ]
    );
    assert_eq!(process.environment["PITON_PARAM_WORD"].value, "two words");
}

#[test]
fn parameters_of_scripts_are_variables() {
    let project = Project::new(&[(".ai/scripts/s.sh", "true\n")]);
    let invocation = project.resolve(
        "s",
        json!({"a-b.c": "x\ny", "flag": true, "off": false, "none": null, "list": [1], "größe": 3}),
    );
    let found: Vec<(&str, &str)> = process(&invocation)
        .environment
        .iter()
        .filter(|(name, _)| name.starts_with("PITON_PARAM_"))
        .map(|(name, text)| (name.as_str(), text.value.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("PITON_PARAM_A_B_C", "x\ny"),
            ("PITON_PARAM_FLAG", "true"),
            ("PITON_PARAM_GR__E", "3"),
            ("PITON_PARAM_LIST", "[1]"),
            ("PITON_PARAM_OFF", "false"),
        ]
    );
    insta::assert_snapshot!(project.refusal("s", json!({"a-b": 1, "A_B": 2})), @r"
    INVALID_PARAMETER: parameters `a-b` and `A_B` are both passed as `PITON_PARAM_A_B`
    hint: rename one of them
    ");
    insta::assert_snapshot!(project.refusal("s", json!({"a": "x\0y"})), @r"
    INVALID_PARAMETER: parameter a holds a NUL character, which cannot be passed to a process
    hint: give another value
    ");
    insta::assert_snapshot!(project.refusal("s", json!({"a": "x".repeat(200_000)})), @r"
    INVALID_PARAMETER: parameter a is longer than 131072 bytes, the most that can be passed to a process
    hint: pass the name of a file instead
    ");
}

#[test]
fn a_runtime_of_the_project_places_the_script() {
    let runtime = |args: &str| {
        format!(
            "tool_id: ruby\ntool_type: runtime\nversion: \"1.0.0\"\ndescription: Ruby\nexecutor: subprocess\nconfig:\n  command: ruby\n{args}"
        )
    };
    let tool = "tool_id: t\ntool_type: script\nversion: \"1.0.0\"\ndescription: T\nexecutor: ruby\nconfig:\n  entrypoint: t.rb\n";
    let resolved = |runtime: String, more: &str| {
        let project = Project::new(&[
            (".ai/tools/ruby.yaml", &runtime),
            (".ai/tools/t/tool.yaml", &format!("{tool}{more}")),
            (".ai/tools/t/t.rb", "puts 1\n"),
        ]);
        let invocation = project.resolve("t", json!({"a": 1}));
        assert_eq!(process(&invocation).program.value, "ruby");
        assert_eq!(process(&invocation).input, br#"{"a":1}"#);
        arguments(&invocation)
            .iter()
            .map(|argument| argument.replace(project.root().to_str().unwrap(), "[ROOT]"))
            .collect::<Vec<_>>()
    };
    let script = "[ROOT]/.ai/tools/t/t.rb";
    assert_eq!(resolved(runtime("  args: [-w]\n"), ""), ["-w", script]);
    assert_eq!(
        resolved(runtime("  args: [\"{entrypoint}\", -w]\n"), ""),
        [script, "-w"]
    );
    assert_eq!(
        resolved(runtime("  args: [\"--file={script}\"]\n"), ""),
        [format!("--file={script}")]
    );
    assert_eq!(resolved(runtime(""), "  args: [one]\n"), [script, "one"]);
}

#[test]
fn the_shell_of_a_bash_tool_may_be_another() {
    let manifest = "tool_id: t\ntool_type: bash\nversion: \"1.0.0\"\ndescription: T\nexecutor: {type: bash, entrypoint: t.sh, shell: zsh}\n";
    let project = Project::new(&[
        (".ai/tools/t/tool.yaml", manifest),
        (".ai/tools/t/t.sh", "true\n"),
    ]);
    assert_eq!(
        process(&project.resolve("t", json!({}))).program.value,
        "zsh"
    );
}

#[test]
fn python_gets_its_packages_and_modules() {
    let manifest = "tool_id: t\ntool_type: python\nversion: \"1.0.0\"\ndescription: T\nexecutor:\n  type: python\n  entrypoint: t.py\n  venv: true\n  dependencies: [requests]\n  lib_imports: [helpers]\n";
    let project = Project::new(&[
        (".ai/tools/t/tool.yaml", manifest),
        (".ai/tools/t/t.py", "def main():\n    pass\n"),
        (".ai/tools/lib/helpers.py", ""),
    ]);
    let invocation = project.resolve("t", json!({}));
    let python = process(&invocation).python.clone().unwrap();
    assert!(python.venv && python.entry == PythonEntry::Main);
    assert_eq!(python.dependencies, ["requests"]);
    assert_eq!(
        python.lib_imports["helpers"],
        project.root().join(".ai/tools/lib/helpers.py")
    );

    fs::remove_file(project.root().join(".ai/tools/lib/helpers.py")).unwrap();
    insta::assert_snapshot!(project.refusal("t", json!({})), @"
    INVALID_CONFIG: `config.lib_imports[0]` names the module `helpers`, which does not exist
    --> .ai/tools/t/tool.yaml:10
    hint: create `.ai/tools/lib/helpers.py`
    ");
}

#[test]
fn a_command_of_a_tool_comes_before_its_options() {
    let manifest = "tool:\n  id: gh\n  type: cli\n  name: GitHub\n  version: \"1.0.0\"\n  description: GitHub\n  commands: [list, create]\n  cli_specific:\n    executable: gh\n    install_check: gh --version\n    install_guide: see the page\n";
    let project = Project::new(&[(".ai/tools/gh.yaml", manifest)]);
    let with = |command: &str| CallRequest {
        command: Some(command.to_owned()),
        ..call(json!({"title": "A b"}))
    };
    let invocation = project.try_lower("gh", &with("create")).unwrap();
    assert_eq!(process(&invocation).program.value, "gh");
    assert_eq!(arguments(&invocation), ["create", "--title", "A b"]);
    assert_eq!(
        process(&invocation).install_guide.as_deref(),
        Some("see the page")
    );
    assert_eq!(
        process(&invocation).install_check.as_deref(),
        Some("gh --version")
    );
    assert_eq!(
        process(&invocation).environment["PITON_COMMAND"].value,
        "create"
    );
    assert!(process(&invocation).input.is_empty());
    insta::assert_snapshot!(project.refused("gh", &with("crate")), @"
    UNKNOWN_COMMAND: tool `gh` has no command `crate`
    hint: did you mean `create`?
    ");
}

#[test]
fn tools_that_do_not_say_what_to_run_say_so() {
    let head = |kind: &str| {
        format!(
            "tool:\n  id: t\n  type: {kind}\n  name: T\n  version: \"1.0.0\"\n  description: T\n"
        )
    };
    let refusal =
        |manifest: String| Project::new(&[(".ai/tools/t.yaml", &manifest)]).refusal("t", json!({}));
    insta::assert_snapshot!(refusal(head("cli")), @"
    MISSING_REQUIRED_FIELD: `t` does not say what to run: it has no `cli_specific`
    --> .ai/tools/t.yaml:2
    hint: add `cli_specific: {executable: NAME}`
    ");
    insta::assert_snapshot!(refusal(head("local")), @"
    MISSING_REQUIRED_FIELD: `t` does not say what to run: it has no `local_specific`
    --> .ai/tools/t.yaml:2
    hint: add `local_specific: {entry_point: FILE, runtime: python}`
    ");
    insta::assert_snapshot!(refusal(head("meta")), @"
    MISSING_REQUIRED_FIELD: `t` does not say what to run: it has no `meta_specific.orchestration`
    --> .ai/tools/t.yaml:2
    hint: add `orchestration: helpers.NAME` with the helper that decides what is called
    ");
    insta::assert_snapshot!(refusal(head("local") + "  local_specific: {entry_point: x.rb, runtime: ruby}\n"), @"
    INVALID_ITEM: Invalid metadata of `t`: runtime `ruby` is not one of python, node, bash
    --> .ai/tools/t.yaml:7
    hint: name a runtime of the project with `executor: ID`
    ");
}

#[test]
fn an_entrypoint_that_is_not_there_is_named_with_its_line() {
    let manifest = "tool_id: t\ntool_type: script\nversion: \"1.0.0\"\ndescription: T\nexecutor: bash_runtime\nconfig:\n  entrypoint: t.sh\n";
    let project = Project::new(&[(".ai/tools/t/tool.yaml", manifest)]);
    insta::assert_snapshot!(project.refusal("t", json!({})), @"
    MISSING_ENTRYPOINT: Entrypoint 't.sh' not found
    --> .ai/tools/t/tool.yaml:7
    hint: create it in `t`
    ");
}

fn hex_of(bytes: &[u8]) -> String {
    use sha2::Digest;
    crate::encoding::hex(&sha2::Sha256::digest(bytes))
}
