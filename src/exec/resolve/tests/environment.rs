//! A tool sees almost nothing of the caller's environment.

use super::*;

#[test]
fn the_environment_is_scrubbed() {
    let invocation = cli_project("").resolve("run", json!({}));
    let mut environment = process(&invocation).environment.clone();
    let project = environment.remove("PITON_PROJECT").unwrap();
    assert_eq!(
        Some(project.value.as_str()),
        process(&invocation).folder.to_str()
    );
    let found: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, text)| (name.as_str(), text.value.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("LANG", "C.UTF-8"),
            ("PATH", "/usr/bin:/bin"),
            ("TERM", "dumb")
        ]
    );
    assert!(invocation.variables.is_empty());
}

#[test]
fn declared_variables_are_given_and_secret() {
    let project = Project::new(&[(
        ".ai/tools/run.yaml",
        &(cli(
            "  env: {A: \"x ${TOKEN}\", B: \"{b}\", C: 5, D: \"two\\nlines\", HOME: \"${HOME}\"}\n",
        ) + "requires: {environment: [PYTHONPATH, NOT_SET, PATH]}\n"),
    )]);
    let invocation = project.resolve("run", json!({"b": "${TOKEN}"}));
    let environment = &process(&invocation).environment;
    assert_eq!(environment["A"].value, "x s3cret");
    assert_eq!(environment["A"].shown(), "x ***");
    assert_eq!(environment["B"], MaskedText::plain("${TOKEN}"));
    assert_eq!(environment["C"], MaskedText::plain("5"));
    assert_eq!(environment["D"], MaskedText::plain("two\nlines"));
    assert_eq!(environment["HOME"], MaskedText::plain("/home/user"));
    assert_eq!(environment["PYTHONPATH"], MaskedText::secret("elsewhere"));
    assert!(!environment.contains_key("NOT_SET"));
    assert_eq!(
        invocation.variables,
        ["HOME", "NOT_SET", "PYTHONPATH", "TOKEN"]
    );
    assert_eq!(
        invocation.origins["action.environment.PYTHONPATH"],
        "environment variable PYTHONPATH"
    );
    assert_eq!(invocation.origins["action.environment.B"], "parameter b");
    assert_eq!(
        invocation.origins["action.environment.A"],
        "run, .ai/tools/run.yaml:8"
    );
}

#[test]
fn pitons_own_variables_cannot_be_replaced() {
    let project = cli_project("  env: {PITON_PROJECT: elsewhere}\n");
    let invocation = project.resolve("run", json!({}));
    assert_eq!(
        process(&invocation).environment["PITON_PROJECT"].value,
        project.root().to_str().unwrap()
    );
}

#[test]
fn rows_show_everything_with_its_origin() {
    let project = Project::new(&[(
        ".ai/tools/run.yaml",
        &(cli("  args: [\"{name}\"]\n  env: {A: \"${TOKEN}\"}\n  timeout: 5\n")
            + "isolation: restricted\nwrites: [docs/**]\n"),
    )]);
    let invocation = project.resolve("run", json!({"name": "a\u{1b}[2J"}));
    let rows: Vec<String> = invocation
        .rows()
        .into_iter()
        .map(|row| {
            format!(
                "{} = {}  ({})",
                row.name,
                row.value,
                row.origin.unwrap_or_default()
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n").replace(project.root().to_str().unwrap(), "[ROOT]"), @r#"
    chain = run@1.0.0 → subprocess@1.0.0  ()
    chain.run = project, .ai/tools/run.yaml, unsigned  ()
    chain.subprocess = built in  ()
    parameters.name = "a\u001b[2J"  (parameter name)
    action.program = prog  (run, .ai/tools/run.yaml:7)
    action.arguments[0] = a\u{1b}[2J  (parameter name)
    action.folder = [ROOT]  (default)
    action.environment.A = ***  (environment variable TOKEN)
    action.environment.LANG = C.UTF-8  (environment variable LANG)
    action.environment.PATH = /usr/bin:/bin  (environment variable PATH)
    action.environment.PITON_PROJECT = [ROOT]  (piton)
    action.environment.TERM = dumb  (default)
    action.input = 0 bytes  ()
    action.limits.file_size = 8589934592  (default)
    timeout = 5 s  (run, .ai/tools/run.yaml:10)
    isolation = restricted, asked for  (run, .ai/tools/run.yaml:11)
    variables = TOKEN  ()
    writes = docs/**  ()
    "#);
}
