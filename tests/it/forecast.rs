//! What `run --dry-run` and `validate` report before anything runs: everything that will stop a
//! run, at once.

use serde_json::Value;

use crate::harness::{Ran, TestProject};

/// A directive with permissions, more metadata and steps.
fn directive(name: &str, permissions: &str, more: &str, steps: &str) -> String {
    format!(
        "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata>\n<description>d</description>\n\
         <category>c</category><author>a</author><model tier=\"fast\"/>{more}\n<permissions>\n{permissions}\n\
         </permissions>\n</metadata>\n<inputs><input name=\"who\" type=\"string\" required=\"false\">w</input></inputs>\n\
         <process>\n{steps}\n</process>\n</directive>\n```\n"
    )
}

fn tool_grant(id: &str) -> String {
    format!("<execute resource=\"tool\" id=\"{id}\"/>\n")
}

fn call(step: &str, tool: &str, attributes: &str, params: &str) -> String {
    format!(
        "<step name=\"{step}\" {attributes}><execute item_type=\"tool\" item_id=\"{tool}\">{params}</execute></step>\n"
    )
}

fn sub(step: &str, id: &str, attributes: &str) -> String {
    format!(
        "<step name=\"{step}\" {attributes}><execute item_type=\"directive\" item_id=\"{id}\"/></step>\n"
    )
}

const TEXT: &str = "parameters:\n- name: text\n  type: string\n  required: false\n";

fn project() -> TestProject {
    TestProject::new()
        .tool("list", "", "echo '{\"files\": [\"a\"]}'")
        .tool("add", TEXT, "echo hi >> out.txt")
}

fn with(project: TestProject, name: &str, text: &str) -> TestProject {
    project.file(&format!(".ai/directives/c/{name}.md"), text)
}

/// The findings of these codes, as `severity CODE line: message`.
fn findings(value: &Value, codes: &[&str]) -> Vec<String> {
    let all = value["findings"].as_array().cloned().unwrap_or_default();
    let of_codes = all.iter().filter(|it| {
        it["code"]
            .as_str()
            .is_some_and(|code| codes.contains(&code))
    });
    of_codes
        .map(|it| {
            let word = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", word("severity"), word("code"), word("message"))
        })
        .collect()
}

const GRANTS: [&str; 3] = ["MISSING_GRANT", "UNUSED_GRANT", "DIRECTIVE_CYCLE"];

/// An exit code and the findings.
type Foreseen = (Option<i32>, Vec<String>);

/// What `validate` and `--dry-run` find about grants, and their exit codes.
fn foreseen(project: &TestProject, name: &str) -> (Foreseen, Foreseen) {
    let json = |ran: &Ran| {
        serde_json::from_str::<Value>(ran.stdout().trim())
            .unwrap_or_else(|err| panic!("{err} {ran}"))
    };
    let validated = project.piton(["validate", "--format", "json"]);
    let planned = project.piton(["run", name, "--dry-run", "--format", "json"]);
    let value = json(&planned);
    let value = if value["error"].is_object() {
        &value["error"]
    } else {
        &value
    };
    (
        (validated.code(), findings(&json(&validated), &GRANTS)),
        (planned.code(), findings(value, &GRANTS)),
    )
}

fn assert_foreseen(project: &TestProject, name: &str, exits: (i32, i32), expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|it| (*it).to_owned()).collect();
    let both = ((Some(exits.0), expected.clone()), (Some(exits.1), expected));
    assert_eq!(foreseen(project, name), both);
}

#[test]
fn r9_a_foreach_step_with_a_tool_that_is_not_granted_is_found_before_the_run() {
    let steps = format!(
        "{}{}",
        call("collect", "list", "", ""),
        call(
            "each",
            "add",
            "foreach=\"{step:collect.files}\" as=\"file\"",
            "<param name=\"text\" value=\"{input:file}\"/>"
        )
    );
    let text = directive("notes", &tool_grant("list"), "", &steps);
    let project = with(project(), "notes", &text).committed();
    let message = "error MISSING_GRANT: step `each` will be denied: directive `notes` does not allow: run the tool `add`";
    assert_foreseen(&project, "notes", (2, 3), &[message]);
    let ran = project.piton(["run", "notes", "--dry-run"]);
    assert!(
        ran.stderr()
            .contains("✗ nothing was changed; a step would be denied"),
        "{ran}"
    );
    assert!(
        ran.stderr().contains(" --> .ai/directives/c/notes.md:"),
        "{ran}"
    );
    // The prediction is right: the run fails.
    let ran = project.piton(["run", "notes"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    let granted = directive(
        "notes",
        &format!("{}{}", tool_grant("list"), tool_grant("add")),
        "",
        &steps,
    );
    let project = with(project, "notes", &granted).committed();
    assert_foreseen(&project, "notes", (0, 0), &[]);
}

#[test]
fn everything_that_is_missing_is_reported_at_once() {
    let needs = "requires:\n  commands: [sed]\n  environment: [TOKEN]\n";
    let project = project()
        .tool("needy", needs, "true")
        .tool("other", "", "true");
    let steps = format!(
        "{}{}{}",
        call("one", "needy", "", ""),
        call("two", "other", "", ""),
        call(
            "three",
            "list",
            "",
            "<param name=\"text\" value=\"{env:HOST}\"/>"
        )
    );
    let project = with(project, "all", &directive("all", "", "", &steps)).committed();
    assert_foreseen(
        &project,
        "all",
        (2, 3),
        &[
            "error MISSING_GRANT: step `one` will be denied: directive `all` does not allow: run the tool `needy`, use the \
             command `sed`, see the variable `TOKEN`",
            "error MISSING_GRANT: step `two` will be denied: directive `all` does not allow: run the tool `other`",
            "error MISSING_GRANT: step `three` will be denied: directive `all` does not allow: run the tool `list`",
            "error MISSING_GRANT: step `three` will be denied: directive `all` does not allow: see the variable `HOST`",
        ],
    );
}

#[test]
fn a_step_that_may_be_skipped_is_a_warning_and_one_that_is_skipped_is_nothing() {
    let steps = format!(
        "{}{}",
        call("collect", "list", "", ""),
        call("maybe", "add", "when=\"{step:collect.count} &gt; 1\"", "")
    );
    let project = with(
        project(),
        "maybe",
        &directive("maybe", &tool_grant("list"), "", &steps),
    )
    .committed();
    let message = "warning MISSING_GRANT: step `maybe` would be denied: directive `maybe` does not allow: run the tool `add`";
    assert_foreseen(&project, "maybe", (0, 0), &[message]);
    let steps = format!(
        "{}{}",
        call("collect", "list", "", ""),
        call("never", "add", "when=\"{input:who} == 'me'\"", "")
    );
    let project = with(
        project,
        "maybe",
        &directive("maybe", &tool_grant("list"), "", &steps),
    )
    .committed();
    let plan = |who: &str| {
        project.piton([
            "run",
            "maybe",
            "--dry-run",
            "--format",
            "json",
            "--input",
            who,
        ])
    };
    let (skipped, runs) = (plan("who=you"), plan("who=me"));
    assert_eq!(
        (skipped.code(), findings(&skipped.json(), &GRANTS)),
        (Some(0), vec![]),
        "{skipped}"
    );
    assert_eq!(skipped.json()["steps"][1]["skipped"], true);
    assert_eq!(runs.code(), Some(3), "{runs}");
    assert_eq!(runs.json()["steps"][1]["skipped"], Value::Null);
}

#[test]
fn sub_directives_need_the_grants_of_every_caller() {
    let inner = directive(
        "inner",
        &format!("{}{}", tool_grant("add"), tool_grant("list")),
        "",
        &format!("{}{}", call("a", "add", "", ""), call("b", "list", "", "")),
    );
    let outer = directive("outer", &tool_grant("list"), "", &sub("deep", "inner", ""));
    let project = with(with(project(), "inner", &inner), "outer", &outer).committed();
    let message = "error MISSING_GRANT: step `a` of directive `inner` will be denied: directive `outer` does not allow: run the \
                   tool `add`";
    assert_foreseen(&project, "outer", (2, 3), &[message]);
    let ran = project.piton(["run", "outer"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
}

#[test]
fn hooks_are_walked_and_may_not_run() {
    let hook =
        "<hooks><hook><when>phase == \"error\"</when><directive>mend</directive></hook></hooks>";
    let mend = directive("mend", &tool_grant("add"), "", &call("a", "add", "", ""));
    let outer = directive(
        "outer",
        &tool_grant("list"),
        hook,
        &call("b", "list", "", ""),
    );
    let project = with(with(project(), "mend", &mend), "outer", &outer).committed();
    let message = "warning MISSING_GRANT: step `a` of directive `mend` would be denied: directive `outer` does not allow: run \
                   the tool `add`";
    assert_foreseen(&project, "outer", (0, 0), &[message]);
}

#[test]
fn the_tools_of_a_meta_tool_need_grants() {
    let meta = "tool:\n  id: both\n  type: meta\n  name: Both\n  version: 1.0.0\n  description: d\n  knowledge_strategy: executable\n  \
                meta_specific:\n    aggregates: [list, add]\n    orchestration: helpers.go\n  executable_knowledge:\n    helpers:\n    \
                - id: go\n      language: javascript\n      function: |\n        module.exports = { go: () => ({ result: 1 }) };\n";
    let project = project().file(".ai/tools/both.yaml", meta);
    let grants = format!("{}{}", tool_grant("both"), tool_grant("list"));
    let project = with(
        project,
        "meta",
        &directive("meta", &grants, "", &call("m", "both", "", "")),
    )
    .committed();
    let (_, (code, found)) = foreseen(&project, "meta");
    let message = "error MISSING_GRANT: the tool `both` in step `m` will be denied: directive `meta` does not allow: run the tool \
                   `add`";
    assert_eq!((code, found), (Some(3), vec![message.to_owned()]));
}

#[test]
fn a_directive_that_calls_itself_for_ever_is_found_and_one_with_a_condition_is_not() {
    let again = |attributes: &str| {
        directive(
            "again",
            &tool_grant("list"),
            "",
            &format!(
                "{}{}",
                call("a", "list", "", ""),
                sub("b", "again", attributes)
            ),
        )
    };
    let project = with(project(), "again", &again("")).committed();
    let message = "error DIRECTIVE_CYCLE: directive `again` calls itself endlessly: no step of the loop has a `when`";
    assert_foreseen(&project, "again", (2, 2), &[message]);
    let project = with(project, "again", &again("when=\"{step:a.more} == true\"")).committed();
    assert_foreseen(&project, "again", (0, 0), &[]);
}

#[test]
fn a_grant_that_no_step_uses_is_a_warning() {
    let grants = format!(
        "{}{}<read resource=\"api\" endpoint=\"GET /users\"/>\n<env vars=\"TOKEN\"/>\n<write resource=\"filesystem\" path=\"docs/**\"/>\n\
         <write resource=\"filesystem\" path=\"src/**\"/>",
        tool_grant("add"),
        tool_grant("lost"),
    );
    let project = TestProject::new().tool("add", "writes: [\"docs/api/*.md\"]\n", "true");
    let project = with(
        project,
        "tidy",
        &directive("tidy", &grants, "", &call("a", "add", "", "")),
    )
    .committed();
    assert_foreseen(
        &project,
        "tidy",
        (0, 0),
        &[
            "warning UNUSED_GRANT: no step that can be reached uses <execute resource=\"tool\" id=\"lost\"/>",
            "warning UNUSED_GRANT: no step that can be reached uses <read resource=\"api\" endpoint=\"GET /users\"/>",
            "warning UNUSED_GRANT: no step that can be reached uses <env vars=\"TOKEN\"/>",
            "warning UNUSED_GRANT: no step that can be reached uses <write resource=\"filesystem\" path=\"src/**\"/>",
        ],
    );
}

#[test]
fn a_manual_step_may_need_any_grant() {
    let grants = format!(
        "{}{}",
        tool_grant("add"),
        "<shell commands=\"git\"/><env vars=\"TOKEN\"/>"
    );
    let text = directive(
        "manual",
        &grants,
        "",
        "<step name=\"w\"><action>Do it.</action></step>",
    );
    let project = with(project(), "manual", &text).committed();
    assert_foreseen(&project, "manual", (0, 0), &[]);
}

#[test]
fn a_tool_that_only_the_run_knows_is_said_to_be_decided_then() {
    let steps = format!(
        "{}{}",
        call("pick", "list", "", ""),
        call("use", "{step:pick.tool}", "", "")
    );
    let grants = format!("{}{}", tool_grant("list"), tool_grant("add"));
    let project = with(project(), "late", &directive("late", &grants, "", &steps)).committed();
    let plan = project.piton(["run", "late", "--dry-run", "--format", "json"]);
    assert_eq!(plan.code(), Some(0), "{plan}");
    let plan = plan.json();
    assert_eq!(
        (
            &plan["steps"][0]["decided_at_run_time"],
            &plan["steps"][1]["decided_at_run_time"]
        ),
        (&Value::Null, &Value::Bool(true))
    );
    assert_eq!(findings(&plan, &GRANTS), Vec::<String>::new());
    let shown = project.piton(["run", "late", "--dry-run"]).stdout();
    assert!(
        shown.contains("which one       decided at run time"),
        "{shown}"
    );
}

#[test]
fn a_dry_run_that_cannot_begin_names_every_reason() {
    let inner = directive("inner", &tool_grant("gone"), "", &call("a", "gone", "", ""));
    let steps = format!(
        "{}{}{}",
        call("one", "missing", "", ""),
        call("two", "add", "", "<param name=\"txt\" value=\"x\"/>"),
        sub("three", "inner", "")
    );
    let outer = directive(
        "outer",
        &format!(
            "{}{}{}",
            tool_grant("missing"),
            tool_grant("add"),
            tool_grant("list")
        ),
        "",
        &steps,
    );
    let project = with(with(project(), "inner", &inner), "outer", &outer).committed();
    let ran = project.piton(["run", "outer", "--dry-run"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    for words in [
        "tool `gone` does not exist",
        "tool `missing` does not exist",
        "unknown parameter `txt`",
    ] {
        assert!(ran.stderr().contains(words), "{words}: {ran}");
    }
    let told = project
        .piton(["run", "outer", "--dry-run", "--format", "json"])
        .json();
    let codes: Vec<&str> = told["error"]["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter_map(|it| it["code"].as_str())
        .collect();
    assert_eq!(codes, ["UNKNOWN_ITEM", "UNKNOWN_ITEM", "INVALID_PARAMETER"]);
}
