//! Meta tools: the tools they name must exist and not form a cycle.

use super::*;
use crate::exec::invocation::Action;

const HELPERS: &str = "executable_knowledge:\n  helpers:\n    - id: go\n      language: javascript\n      function: |\n        function go(args) {\n          return { result: args };\n        }\n        module.exports = { go };\n";

fn meta(id: &str, aggregates: &str) -> String {
    format!(
        "tool_id: {id}\ntool_type: meta\nversion: \"1.0.0\"\ndescription: M\nconfig:\n  aggregates: {aggregates}\n  orchestration: helpers.go\n{HELPERS}"
    )
}

fn with_tools(manifest: &str) -> Project {
    Project::new(&[
        (".ai/tools/m.yaml", manifest),
        (".ai/tools/run.yaml", &cli("")),
    ])
}

#[test]
fn a_meta_tool_is_its_helper_and_the_tools_that_it_may_call() {
    let invocation = with_tools(&meta("m", "[run]")).resolve("m", json!({}));
    let Action::Meta(found) = &invocation.action else {
        panic!("{:?}", invocation.action)
    };
    assert_eq!(
        (found.helper.as_str(), found.aggregates.as_slice()),
        ("go", &["run".to_owned()][..])
    );
    assert!(found.source.starts_with("function go(args) {\n"));
    assert_eq!(found.place, Some((".ai/tools/m.yaml".to_owned(), 13)));
    assert_eq!(invocation.timeout, Duration::from_mins(5));
    assert_eq!(invocation.action.argv(), ["meta", "helpers.go", "run"]);
    let rows = invocation.rows();
    let told = |name: &str| {
        rows.iter()
            .find(|row| row.name == name)
            .map(|row| (row.value.clone(), row.origin.clone()))
    };
    assert_eq!(
        told("action.helper"),
        Some(("go".to_owned(), Some("m, .ai/tools/m.yaml:7".to_owned())))
    );
    assert_eq!(
        told("action.aggregates"),
        Some(("run".to_owned(), Some("m, .ai/tools/m.yaml:6".to_owned())))
    );
}

#[test]
fn the_spelling_with_a_root_says_the_same() {
    let helpers = HELPERS.replace(
        "language: javascript",
        "language: javascript\n      runtime: isolated_vm",
    );
    let indented = format!("  {}", helpers.replace('\n', "\n  "));
    let manifest = format!(
        "tool:\n  id: m\n  type: meta\n  name: M\n  version: \"1.0.0\"\n  description: M\n  commands: [fast]\n  meta_specific:\n    aggregates: [run]\n    orchestration: helpers.go\n    timeout: 7\n{indented}"
    );
    let project = with_tools(&manifest);
    let invocation = project
        .try_lower(
            "m",
            &CallRequest {
                command: Some("fast".to_owned()),
                ..CallRequest::default()
            },
        )
        .unwrap();
    let Action::Meta(found) = &invocation.action else {
        panic!("{:?}", invocation.action)
    };
    assert_eq!(
        (found.helper.as_str(), found.aggregates.as_slice()),
        ("go", &["run".to_owned()][..])
    );
    assert_eq!(
        (invocation.timeout, invocation.command.as_deref()),
        (Duration::from_secs(7), Some("fast"))
    );
    insta::assert_snapshot!(with_tools(&manifest.replace("[run]", "[rum]")).refusal("m", json!({})), @"
    INVALID_CONFIG: `meta_specific.aggregates[0]` names `rum`: tool `rum` does not exist
    --> .ai/tools/m.yaml:9
    hint: did you mean `run`?
    ");
}

#[test]
fn what_is_named_wrongly_is_reported_with_its_place() {
    let refusal = |manifest: &str| with_tools(manifest).refusal("m", json!({}));
    insta::assert_snapshot!(refusal(&meta("m", "[run, runn]")), @"
    INVALID_CONFIG: `config.aggregates[1]` names `runn`: tool `runn` does not exist
    --> .ai/tools/m.yaml:6
    hint: did you mean `run`?
    ");
    insta::assert_snapshot!(refusal(&meta("m", "[../x]")), @"
    INVALID_CONFIG: `config.aggregates[0]` names `../x`: `../x` is not an id: each part must begin with a letter or digit
    --> .ai/tools/m.yaml:6
    hint: use letters, digits, `_` and `-`; `/` after a category
    ");
    insta::assert_snapshot!(refusal(&meta("m", "run")), @"
    INVALID_CONFIG: `config.aggregates` is a string; it must be a list
    --> .ai/tools/m.yaml:6
    hint: name the tools by their ids, e.g. `aggregates: [collect, publish]`
    ");
    insta::assert_snapshot!(refusal(&meta("m", "[7]")), @"
    INVALID_CONFIG: `config.aggregates[0]` is a number; it must be the id of a tool
    --> .ai/tools/m.yaml:6
    hint: name the tools by their ids, e.g. `aggregates: [collect, publish]`
    ");
    insta::assert_snapshot!(refusal(&meta("m", "[bash_runtime]")), @"
    INVALID_CONFIG: `config.aggregates[0]` names `bash_runtime`, which is no tool that can be called
    --> .ai/tools/m.yaml:6
    hint: name tools that `piton tool run` runs
    ");
    insta::assert_snapshot!(refusal(&meta("m", "[]").replace("helpers.go", "helpers.gone")), @"
    INVALID_CONFIG: `config.orchestration` names the helper `gone`, which does not exist
    --> .ai/tools/m.yaml:7
    hint: add it to `executable_knowledge.helpers`
    ");
    insta::assert_snapshot!(refusal(&meta("m", "[]").replace("helpers.go", "go")), @"
    INVALID_CONFIG: `config.orchestration` does not name a helper
    --> .ai/tools/m.yaml:7
    hint: write `orchestration: helpers.NAME`
    ");
    insta::assert_snapshot!(refusal(&meta("m", "[]").replace("language: javascript", "language: python")), @"
    INVALID_CONFIG: `executable_knowledge.helpers[0].language` is not `javascript`, the only language that helpers have
    --> .ai/tools/m.yaml:11
    hint: write `javascript`
    ");
    insta::assert_snapshot!(refusal(&meta("m", "[]").replace("return {", "return [")), @"
    INVALID_CONFIG: `executable_knowledge.helpers[0].function` has a syntax error: Unexpected token ':'
    --> .ai/tools/m.yaml:14
    hint: fix the JavaScript; it must be a complete script
    ");
    let empty = meta("m", "[]")
        .split("function: |")
        .next()
        .unwrap()
        .to_owned();
    insta::assert_snapshot!(refusal(&empty), @"
    INVALID_CONFIG: `executable_knowledge.helpers[0].function` has no text
    --> .ai/tools/m.yaml:10
    hint: write the function below `function: |`
    ");
}

#[test]
fn loops_and_deep_nesting_are_refused_before_anything_is_called() {
    let tower = |height: usize| {
        let mut files = vec![(".ai/tools/run.yaml".to_owned(), cli(""))];
        for level in 1..=height {
            let below = if level == height {
                "run".to_owned()
            } else {
                format!("m{}", level + 1)
            };
            files.push((
                format!(".ai/tools/m{level}.yaml"),
                meta(&format!("m{level}"), &format!("[{below}]")),
            ));
        }
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        Project::new(&files)
    };
    tower(8).resolve("m1", json!({}));
    insta::assert_snapshot!(tower(9).refusal("m1", json!({})), @"
    INVALID_CONFIG: `config.aggregates[0]` nests meta tools 9 deep; 8 is the most
    --> .ai/tools/m1.yaml:6
    hint: let one of them name the tools themselves
    ");
    let circle = Project::new(&[
        (".ai/tools/a.yaml", &meta("a", "[b]")),
        (".ai/tools/b.yaml", &meta("b", "[c, b2]")),
        (".ai/tools/c.yaml", &meta("c", "[a]")),
        (".ai/tools/b2.yaml", &meta("b2", "[]")),
    ]);
    insta::assert_snapshot!(circle.refusal("a", json!({})), @"
    INVALID_CONFIG: `config.aggregates[0]` leads back to where it began: `a` → `b` → `c` → `a`
    --> .ai/tools/a.yaml:6
    hint: take one of them out
    ");
    insta::assert_snapshot!(circle.refusal("c", json!({})), @"
    INVALID_CONFIG: `config.aggregates[0]` leads back to where it began: `c` → `a` → `b` → `c`
    --> .ai/tools/c.yaml:6
    hint: take one of them out
    ");
    insta::assert_snapshot!(with_tools(&meta("m", "[m]")).refusal("m", json!({})), @"
    INVALID_CONFIG: `config.aggregates[0]` leads back to where it began: `m` → `m`
    --> .ai/tools/m.yaml:6
    hint: take one of them out
    ");
}
