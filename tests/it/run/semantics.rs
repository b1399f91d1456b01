//! Edge cases of the semantics of directives.

use serde_json::{Value, json};

use super::{
    assert_sound, assert_unharmed, call, directive, dirty, names, project, steps, summary,
};
use crate::harness::{Ran, TestProject};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const DISABLED: &str = "<git_checkpoint mode=\"disabled\"/>";
const TYPES: &str = "parameters:\n  - {name: s, type: string, required: false}\n  - {name: i, type: integer, required: false}\n  \
                     - {name: n, type: number, required: false}\n  - {name: b, type: boolean, required: false}\n  \
                     - {name: l, type: array, required: false}\n  - {name: o, type: object, required: false}\n";
const INPUTS: &str = "<inputs><input name=\"who\" type=\"string\" default=\"world\">Who</input>\
    <input name=\"i\" type=\"integer\">i</input><input name=\"n\" type=\"number\">n</input>\
    <input name=\"b\" type=\"boolean\">b</input><input name=\"l\" type=\"array\">l</input>\
    <input name=\"o\" type=\"object\">o</input></inputs>";

/// A project with a tool that returns its parameters.
fn echoing() -> TestProject {
    project().tool("echo", TYPES, "cat")
}

/// A step that calls `echo`.
fn echo(name: &str, params: &[(&str, &str)]) -> String {
    let params: String = params
        .iter()
        .map(|(name, value)| format!("<param name=\"{name}\" value=\"{value}\"/>"))
        .collect::<Vec<_>>()
        .concat();
    format!(
        "<step name=\"{name}\"><execute item_type=\"tool\" item_id=\"echo\">{params}</execute></step>\n"
    )
}

/// Changes an existing directive.
fn with(project: TestProject, name: &str, from: &str, to: &str) -> TestProject {
    let path = format!(".ai/directives/{name}.md");
    let text = project.read(&path);
    assert!(text.contains(from), "{from} is not in {text}");
    project.file(&path, text.replace(from, to))
}

/// Adds an input of every type to a directive.
fn with_inputs(project: TestProject, name: &str) -> TestProject {
    let text = project.read(&format!(".ai/directives/{name}.md"));
    let start = text.find("<inputs>").expect("inputs");
    let end = text.find("</inputs>").expect("inputs") + "</inputs>".len();
    let given = text.get(start..end).expect("inputs").to_owned();
    with(project, name, &given, INPUTS)
}

/// Runs a directive with JSON output.
fn run(project: &TestProject, name: &str, more: &[&str]) -> Ran {
    project.piton([&["run", name, "--format", "json"], more].concat())
}

fn code(ran: &Ran) -> Value {
    summary(ran)["error"]["code"].clone()
}

fn message(ran: &Ran) -> String {
    summary(ran)["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The results of the steps, in order.
fn answers(ran: &Ran) -> Vec<Value> {
    let events = ran
        .stdout()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect::<Vec<Value>>();
    events
        .into_iter()
        .filter(|it| it["type"] == "answered")
        .map(|it| it["result"].clone())
        .collect()
}

/// The place of a text in a directive, as shown in messages.
fn place_of(project: &TestProject, name: &str, text: &str) -> String {
    let path = format!(".ai/directives/{name}.md");
    let source = project.read(&path);
    let at = source
        .find(text)
        .unwrap_or_else(|| panic!("{text} in {source}"));
    let before = source.get(..at).expect("a boundary");
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().expect("a line").chars().count() + 1;
    format!("`{path}:{line}:{column}`")
}

#[test]
fn values_keep_their_type_and_texts_get_the_one_that_is_declared() {
    let all = [
        echo(
            "whole",
            &[
                ("s", "{input:who}"),
                ("i", "{input:i}"),
                ("n", "{input:n}"),
                ("b", "{input:b}"),
                ("l", "{input:l}"),
                ("o", "{input:o}"),
            ],
        ),
        echo(
            "words",
            &[
                ("s", "5"),
                ("i", "5"),
                ("n", "1.5"),
                ("b", "true"),
                ("l", "[1, &quot;a&quot;]"),
                ("o", "{&quot;k&quot;: null}"),
            ],
        ),
        echo(
            "texts",
            &[(
                "s",
                "{input:i}/{input:n}/{input:b}/{input:l}/{input:o}/{input:who?}",
            )],
        ),
        echo(
            "parts",
            &[
                ("i", "{input:o.deep.1}"),
                ("s", "{input:o.name}"),
                ("l", "{step:whole.l}"),
                ("n", "{step:whole.n}"),
            ],
        ),
        echo(
            "lacking",
            &[
                ("s", "{input:o.none?}"),
                ("i", "{input:o.none:7}"),
                ("b", "{input:o.none:false}"),
                ("l", "{input:o.none:[]}"),
            ],
        ),
        echo("mixed", &[("i", "1{input:i}")]),
    ]
    .concat();
    let project = with_inputs(directive("types", DISABLED, &all)(echoing()), "types").committed();
    let inputs = [
        "--input",
        "i=3",
        "--input",
        "n=2.5",
        "--input",
        "b=false",
        "--input",
        "l=[1, {\"x\": 2}]",
    ];
    let ran = run(
        &project,
        "types",
        &[
            &inputs[..],
            &["--input", "o={\"deep\": [0, 9], \"name\": \"é\"}"],
        ]
        .concat(),
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    let (list, object) = (json!([1, {"x": 2}]), json!({"deep": [0, 9], "name": "é"}));
    assert_eq!(
        answers(&ran),
        [
            json!({"s": "world", "i": 3, "n": 2.5, "b": false, "l": list, "o": object}),
            json!({"s": "5", "i": 5, "n": 1.5, "b": true, "l": [1, "a"], "o": {"k": null}}),
            json!({"s": "3/2.5/false/[1,{\"x\":2}]/{\"deep\":[0,9],\"name\":\"é\"}/world"}),
            json!({"i": 9, "s": "é", "l": list, "n": 2.5}),
            json!({"s": "", "i": 7, "b": false, "l": []}),
            json!({"i": 13}),
        ]
    );
    assert_sound(&project);
}

#[test]
fn a_value_of_the_wrong_type_fails_its_step_before_anything_of_it_runs() {
    let project =
        directive("wrong", AUTO, &echo("a", &[("i", "{input:who}")]))(echoing()).committed();
    let ran = run(&project, "wrong", &[]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(names(&ran), ["a failed"]);
    assert!(message(&ran).contains("`i`"), "{ran}");
    assert_sound(&project);
}

#[test]
fn a_value_that_is_not_there_points_at_its_placeholder() {
    let list = call("list", "list", "", "");
    let prose = "<step name=\"bad\"><description>About {step:list.nope}</description><action>\n    First {step:list.count},\n    then ü {step:list.nope}.\n  </action></step>";
    let check = "<step name=\"bad\"><action>Do it</action><verification><check>has {step:list.nope}</check></verification></step>";
    for (step, at) in [
        (call("bad", "add", "", "{step:list.count} and {step:list.nope}"), "{step:list.nope}"),
        ("<step name=\"bad\"><execute item_type=\"tool\" item_id=\"add\"><param name=\"text\">é\n  {step:list.nope}</param></execute></step>".to_owned(), "{step:list.nope}"),
        (call("bad", "add", "when=\"{step:list.count} == 3 and {step:list.names} &lt; 3\"", "x"), "{step:list.names}"),
        (call("bad", "add", "foreach=\"{step:list.count}\"", "x"), "{step:list.count}"),
        (call("bad", "add", "foreach=\"[1, &quot;{step:list.nope}&quot;]\"", "x"), "{step:list.nope}"),
        (prose.to_owned(), "{step:list.nope}."),
        (check.to_owned(), "{step:list.nope}"),
        ("<step name=\"bad\"><checkpoint operation=\"keep {step:list.nope}\"/></step>".to_owned(), "{step:list.nope}"),
        ("<step name=\"bad\"><checkpoint type=\"decision\">Is {step:list.nope}?</checkpoint></step>".to_owned(), "{step:list.nope}"),
        ("<step name=\"bad\"><search item_type=\"tool\" query=\"{step:list.nope}\"/></step>".to_owned(), "{step:list.nope}"),
        ("<step name=\"bad\"><execute item_type=\"directive\" item_id=\"inner\"><param name=\"who\" value=\"{step:list.nope}\"/></execute></step>".to_owned(), "{step:list.nope}"),
    ] {
        let inner = directive("inner", "", &call("a", "add", "", "a"));
        let project = inner(directive("lost", AUTO, &format!("{list}{step}"))(project())).committed();
        let ran = run(&project, "lost", &[]);
        assert_eq!(ran.code(), Some(1), "{step} {ran}");
        let wanted = place_of(&project, "lost", at);
        assert!(message(&ran).starts_with("step `bad"), "{step} {ran}");
        assert!(message(&ran).ends_with(&format!(", at {wanted}")), "{wanted} {step} {ran}");
        assert_eq!(project.read("out.txt"), "first\n");
        assert_sound(&project);
    }
}

#[test]
fn an_error_in_a_sub_directive_an_output_or_a_hook_points_into_its_own_file() {
    let bad = format!(
        "{}{}",
        call("list", "list", "", ""),
        call("bad", "add", "", "{step:list.nope}")
    );
    let outer = "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"/></step>\n";
    let project = directive("inner", "", &bad)(directive("outer", AUTO, outer)(project()));
    let ran = run(&project.committed(), "outer", &[]);
    assert!(
        message(&ran).contains("step `sub/bad`")
            && message(&ran).contains("`.ai/directives/inner.md:"),
        "{ran}"
    );

    let project = directive("outs", AUTO, &call("list", "list", "", ""))(self::project());
    let outputs = "</process><outputs><success>\nfine: {step:list.count}\nbad: {step:list.nope}</success></outputs>";
    let project = with(project, "outs", "</process>", outputs).committed();
    let ran = run(&project, "outs", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(1), json!("UNDEFINED_NAME")),
        "{ran}"
    );
    assert!(
        message(&ran).ends_with(&place_of(&project, "outs", "{step:list.nope}")),
        "{ran}"
    );

    let hooks = "<hooks><hook><when>step == 'list' and phase == 'after'</when><directive>note</directive>\
                 <inputs><who>{step:list.nope}</who></inputs></hook></hooks>";
    let note = directive("note", "", &call("note", "add", "", "x"));
    let project = note(directive(
        "hooked",
        &format!("{AUTO}{hooks}"),
        &call("list", "list", "", ""),
    )(self::project()))
    .committed();
    let ran = run(&project, "hooked", &[]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(message(&ran).contains("hook `note`"), "{ran}");
    assert!(
        message(&ran).ends_with(&place_of(&project, "hooked", "{step:list.nope}")),
        "{ran}"
    );
}

#[test]
fn variables_of_the_environment_need_a_grant_of_every_caller() {
    let env = |project: TestProject, name: &str| {
        with(
            project,
            name,
            "<permissions>",
            "<permissions><env vars=\"MY_WORD\"/>",
        )
    };
    let sub = "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"/></step>\n";
    let inner = directive("inner", "", &call("a", "add", "", "{env:MY_WORD}"));
    let fresh = || inner(directive("outer", AUTO, sub)(project()));
    for (project, name, wanted) in [
        (fresh(), "inner", 3),
        (env(fresh(), "inner"), "inner", 0),
        (env(fresh(), "inner"), "outer", 3),
        (env(fresh(), "outer"), "outer", 3),
        (env(env(fresh(), "outer"), "inner"), "outer", 0),
    ] {
        let project = project.variable("MY_WORD", "a b").committed();
        let ran = run(&project, name, &["--checkpoint", "auto"]);
        assert_eq!(ran.code(), Some(wanted), "{name} {ran}");
        let text = if wanted == 0 {
            "first\na b\n"
        } else {
            "first\n"
        };
        assert_eq!(project.read("out.txt"), text, "{ran}");
        if wanted == 3 {
            assert_eq!(
                (code(&ran), &summary(&ran)["status"]),
                (json!("PERMISSION_DENIED"), &json!("denied")),
                "{ran}"
            );
            assert!(ran.stdout().contains("MY_WORD"), "{ran}");
        }
        assert_sound(&project);
    }
    let unset = env(fresh(), "inner").committed();
    let ran = run(&unset, "inner", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(1), json!("ENVIRONMENT_MISSING")),
        "{ran}"
    );
    for attribute in [
        "when=\"{env:MY_WORD} == 'x'\"",
        "foreach=\"[&quot;{env:MY_WORD}&quot;]\"",
    ] {
        let project = directive("asks", AUTO, &call("a", "add", attribute, "x"))(project())
            .variable("MY_WORD", "x")
            .committed();
        let ran = run(&project, "asks", &[]);
        assert_eq!(
            (ran.code(), code(&ran)),
            (Some(3), json!("PERMISSION_DENIED")),
            "{attribute} {ran}"
        );
    }
}

#[test]
fn any_text_reaches_a_tool_as_it_is() {
    let project =
        directive("texts", DISABLED, &echo("a", &[("s", "{input:who}")]))(echoing()).committed();
    for text in [
        "two\nlines\r\n",
        "'\"`$(touch hacked)\\",
        "<b>&amp;</b> ]]>",
        "ünï \u{1f600} \u{202e}x",
        "",
        "{run:id}",
        " ",
    ] {
        std::fs::write(
            project.home().join("in.json"),
            json!({"who": text}).to_string(),
        )
        .expect("a file");
        let file = project
            .home()
            .join("in.json")
            .to_string_lossy()
            .into_owned();
        let ran = run(&project, "texts", &["--inputs", &file]);
        assert_eq!(ran.code(), Some(0), "{text:?} {ran}");
        assert_eq!(answers(&ran), [json!({"s": text})], "{ran}");
    }
    assert!(!project.root().join("hacked").exists());
}

#[test]
fn a_text_of_a_megabyte_and_one_with_a_nul_end_in_a_result_or_a_clear_failure() {
    let project =
        directive("texts", AUTO, &echo("a", &[("s", "{input:who}")]))(echoing()).committed();
    for text in ["x".repeat(1 << 20), "nul \0 here".to_owned()] {
        std::fs::write(
            project.home().join("in.json"),
            json!({"who": text}).to_string(),
        )
        .expect("a file");
        let file = project
            .home()
            .join("in.json")
            .to_string_lossy()
            .into_owned();
        let ran = run(&project, "texts", &["--inputs", &file]);
        let shown: String = ran.to_string().chars().take(2000).collect();
        assert!(matches!(ran.code(), Some(0..=2)), "{shown}");
        if ran.code() == Some(0) {
            assert!(answers(&ran) == [json!({"s": text})], "{shown}");
        }
        assert_eq!(project.piton(["status"]).stdout(), "no run waits here\n");
        assert_sound(&project);
    }
}

#[test]
fn odd_names_of_steps_and_inputs_work() {
    let hooks = "<hooks><hook><when>phase == 'after' and step == 'a/b[1]'</when><directive>note</directive></hook></hooks>";
    let all = format!(
        "{}{}{}",
        call("a/b[1]", "add", "", "odd"),
        call("größe", "list", "", ""),
        call(
            "日本",
            "add",
            "foreach=\"{step:größe.names}\" as=\"élément\"",
            "{input:élément}"
        )
    );
    let note = directive("note", "", &call("note", "add", "", "hook"));
    let project = note(directive("odd", &format!("{AUTO}{hooks}"), &all)(project())).committed();
    let ran = run(&project, "odd", &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\nodd\nhook\na\nb\nc\n");
    let told: Vec<String> = steps(&ran).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        told,
        [
            "a/b[1]",
            "hook:note/note",
            "größe",
            "日本[0]",
            "日本[1]",
            "日本[2]"
        ]
    );
    assert_sound(&project);
}

#[test]
fn a_loop_over_a_thousand_elements_keeps_their_order() {
    let many: Vec<usize> = (0..1000).collect();
    let each = call(
        "each",
        "add",
        "foreach=\"{input:l}\" as=\"x\" when=\"{input:x} in [0, 500, 999]\"",
        "n{input:x}",
    );
    let told = call("told", "add", "", "{step:each.500.lines} {step:each.1}");
    let project = with_inputs(
        directive("many", AUTO, &format!("{each}{told}"))(project()),
        "many",
    )
    .committed();
    let ran = run(&project, "many", &["--input", &format!("l={many:?}")]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\nn0\nn500\nn999\n3 \n");
    // The newest thousand are listed.
    assert_eq!(
        (steps(&ran).len(), &summary(&ran)["steps_omitted"]),
        (1000, &json!(1)),
        "{ran}"
    );
    assert_sound(&project);
}

#[test]
fn loops_inside_each_other_run_through_sub_directives() {
    let inner = directive(
        "inner",
        "",
        &call(
            "each",
            "add",
            "foreach=\"[&quot;x&quot;, &quot;y&quot;]\" as=\"b\"",
            "{input:who}{input:b}",
        ),
    );
    let sub = "<step name=\"sub\" foreach=\"[1, 2]\" as=\"a\"><execute item_type=\"directive\" item_id=\"inner\">\
               <param name=\"who\" value=\"n{input:a}\"/></execute></step>\n";
    let project = inner(directive("outer", AUTO, sub)(project())).committed();
    let ran = run(&project, "outer", &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\nn1x\nn1y\nn2x\nn2y\n");
    let told: Vec<String> = steps(&ran).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        told,
        [
            "sub[0]/each[0]",
            "sub[0]/each[1]",
            "sub[1]/each[0]",
            "sub[1]/each[1]"
        ]
    );
    assert_sound(&project);
}

#[test]
fn a_directive_that_calls_itself_ends_when_its_condition_fails_or_it_is_too_deep() {
    let again = "<step name=\"again\" when=\"{input:who} != 'stop'\"><execute item_type=\"directive\" item_id=\"loop\">\
                 <param name=\"who\" value=\"NEXT\"/></execute></step>\n";
    let all = format!("{}{again}", call("a", "add", "", "{input:who}"));
    let project = directive("loop", AUTO, &all.replace("NEXT", "stop"))(project()).committed();
    let ran = run(&project, "loop", &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\nworld\nstop\n");
    assert_sound(&project);
    let project =
        directive("loop", AUTO, &all.replace("NEXT", "{input:who}"))(self::project()).committed();
    let ran = run(&project, "loop", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(1), json!("TOO_DEEP")),
        "{ran}"
    );
    assert_eq!(project.read("out.txt").lines().count(), 17);
    assert_sound(&project);
}

#[test]
fn results_of_the_same_name_do_not_mix() {
    let inner = directive(
        "inner",
        "",
        &format!(
            "{}{}",
            call("same", "add", "", "inner"),
            call("told", "add", "", "now {step:same.lines}")
        ),
    );
    let all = format!(
        "{}<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"/></step>\n{}",
        call("same", "list", "", ""),
        call("told", "add", "", "{step:same.count}{step:sub}")
    );
    let project = inner(directive("outer", AUTO, &all)(project())).committed();
    let ran = run(&project, "outer", &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\ninner\nnow 2\n3{}\n");
    assert_sound(&project);
    // A nested directive cannot see the results of its caller's steps.
    let project = directive("inner", "", &call("peek", "add", "", "{step:same.count}"))(project);
    let ran = project.piton(["run", "outer"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
}

#[test]
fn hooks_see_every_moment_in_order_and_never_themselves() {
    let hook = |phase: &str| {
        format!(
            "<hook><when>phase == '{phase}' and cost.seconds &gt;= 0</when><directive>note</directive><inputs><who>{phase}</who></inputs></hook>"
        )
    };
    // The hook's own directive has a hook that would run for ever.
    let hooks = format!(
        "<hooks>{}{}{}</hooks>",
        hook("before"),
        hook("after"),
        hook("error")
    );
    let note = directive("note", &hooks, &call("note", "add", "", "{input:who}"));
    let all = format!(
        "{}{}",
        call("each", "add", "foreach=\"[1, 2]\"", "each"),
        call("bad", "fail", "on_failure=\"rollback\" retry=\"1\"", "")
    );
    let project = note(directive("hooked", &format!("{AUTO}{hooks}"), &all)(
        project(),
    ))
    .committed();
    let ran = run(&project, "hooked", &[]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(code(&ran), "TOOL_FAILED");
    let wanted = "first before each after before each after before error before error";
    assert_eq!(
        project
            .read("out.txt")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        wanted,
        "{ran}"
    );
    assert_sound(&project);
}

#[test]
fn a_hook_that_fails_stops_its_directive_but_not_the_handling_of_an_error() {
    for (phase, wanted) in [
        ("before", vec!["hook:note/note failed"]),
        ("after", vec!["a succeeded", "hook:note/note failed"]),
        (
            "error",
            vec![
                "a succeeded",
                "bad failed",
                "hook:note/note failed",
                "end succeeded",
            ],
        ),
    ] {
        let hooks = format!(
            "<hooks><hook><when>phase == '{phase}'</when><directive>note</directive></hook></hooks>"
        );
        let note = directive("note", "", &call("note", "fail", "", ""));
        let all = format!(
            "{}{}{}",
            call("a", "add", "", "a"),
            call("bad", "fail", "on_failure=\"continue\"", ""),
            call("end", "list", "", "")
        );
        let project = note(directive("hooked", &format!("{AUTO}{hooks}"), &all)(
            project(),
        ))
        .committed();
        let ran = run(&project, "hooked", &[]);
        assert_eq!(names(&ran), wanted, "{phase} {ran}");
        assert_eq!(
            ran.code(),
            Some(i32::from(phase != "error")),
            "{phase} {ran}"
        );
        assert_sound(&project);
    }
}

#[test]
fn limits_count_through_sub_directives() {
    let inner = directive(
        "inner",
        "<limits><steps>2</steps></limits>",
        &call("x", "add", "foreach=\"[1, 2, 3]\"", "x"),
    );
    let sub = "<step name=\"sub\" on_failure=\"continue\"><execute item_type=\"directive\" item_id=\"inner\"/></step>\n";
    let project = inner(directive(
        "outer",
        AUTO,
        &format!(
            "{}{sub}{}",
            call("a", "add", "", "a"),
            call("b", "add", "", "b")
        ),
    )(project()))
    .committed();
    let ran = run(&project, "outer", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(1), json!("LIMIT_REACHED")),
        "{ran}"
    );
    assert_eq!(project.read("out.txt"), "first\na\nx\nx\n", "{ran}");
    let project = with(project, "inner", "<limits><steps>2</steps></limits>", "");
    let project = with(
        project,
        "outer",
        AUTO,
        &format!("{AUTO}<limits><tool_calls>3</tool_calls></limits>"),
    );
    project.bash(
        "git checkout -q out.txt; git add --all; git commit -qm more; echo first > out.txt; git commit -qam again",
    );
    let ran = run(&project, "outer", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(1), json!("LIMIT_REACHED")),
        "{ran}"
    );
    assert_eq!(project.read("out.txt"), "first\na\nx\nx\n", "{ran}");
    assert_sound(&project);
}

#[test]
fn directives_inside_a_directive_have_limits() {
    let sub = |name: &str, more: &str, id: &str| {
        format!(
            "<step name=\"{name}\" {more}><execute item_type=\"directive\" item_id=\"{id}\"/></step>\n"
        )
    };
    let add = |text: &str| call("add", "add", "", text);
    let all = format!(
        "{}{}",
        sub("one", "on_failure=\"continue\"", "middle"),
        sub("two", "", "middle")
    );
    let hook =
        "<hooks><hook><when>phase == 'before'</when><directive>leaf</directive></hook></hooks>";
    for (limits, hooks, text, is_over) in [
        ("<depth>2</depth><spawns>4</spawns>", "", "m l m l ", false),
        ("<depth>1</depth>", "", "m ", true),
        ("<depth>0</depth>", "", "", true),
        ("<spawns>3</spawns>", "", "m l m ", true),
        ("<spawns>2</spawns>", "", "m l ", true),
        ("<spawns>1</spawns>", hook, "l ", true),
        ("<depth>0</depth>", hook, "", true),
    ] {
        let project = directive("leaf", "", &add("l"))(project());
        let project = directive(
            "middle",
            "",
            &format!("{}{}", add("m"), sub("deep", "", "leaf")),
        )(project);
        let metadata = format!("{AUTO}<limits>{limits}</limits>{hooks}");
        let project = directive("outer", &metadata, &all)(project).committed();
        let ran = run(&project, "outer", &[]);
        assert_eq!(
            project.read("out.txt").replace('\n', " "),
            format!("first {text}"),
            "{limits} {ran}"
        );
        assert_eq!(ran.code(), Some(i32::from(is_over)), "{limits} {ran}");
        if is_over {
            assert_eq!(code(&ran), json!("LIMIT_REACHED"), "{limits} {ran}");
        }
        assert_sound(&project);
    }
    // A step that does not run does not count.
    let limits = format!("{AUTO}<limits><depth>0</depth></limits>");
    let project = directive("leaf", "", &add("l"))(project());
    let project = directive("outer", &limits, &sub("never", "when=\"false\"", "leaf"))(project);
    let project = directive("hooked", &format!("{limits}{hook}"), &add("h"))(project).committed();
    let ran = run(&project, "outer", &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = run(&project, "hooked", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(1), json!("LIMIT_REACHED")),
        "{ran}"
    );
    assert_eq!(project.read("out.txt"), "first\n");
}

#[test]
fn limits_that_are_not_enforced_are_reported() {
    let limits = format!(
        "{AUTO}<limits><spend currency=\"EUR\">3</spend><steps>9</steps><tokens>100</tokens></limits>"
    );
    let inner = directive(
        "inner",
        "<limits><turns>3</turns></limits>",
        &call("a", "add", "", "a"),
    );
    let sub = "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"/></step>";
    let project = inner(directive("outer", &limits, sub)(project())).committed();
    for arguments in [
        &["run", "outer", "--dry-run"][..],
        &["run", "outer"],
        &["run", "outer", "--worktree"],
    ] {
        let ran = project.piton(arguments);
        assert_eq!(ran.code(), Some(0), "{ran}");
        let told = ran.stderr();
        assert!(
            told.contains(
                "directive `outer` limits `spend`, `tokens`, which piton does not measure"
            ),
            "{ran}"
        );
        assert!(
            told.contains("directive `inner` limits `turns`, which piton does not measure"),
            "{ran}"
        );
    }
}

#[test]
fn time_that_a_run_waits_does_not_count() {
    let prose = "<step name=\"write\"><action>Write.</action></step>\n";
    let metadata = format!("{AUTO}<limits><duration_seconds>50</duration_seconds></limits>");
    // The clock of this project advances by a minute per command.
    let project = directive(
        "waits",
        &metadata,
        &format!("{prose}{}", call("a", "add", "", "a")),
    )(project())
    .committed()
    .ticking();
    assert_eq!(run(&project, "waits", &[]).code(), Some(4));
    let ran = project.piton(["resume", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\n");
}

#[test]
fn attempts_limits_of_time_and_loops_work_together() {
    let slow = "case $PITON_PARAM_TEXT in b) echo half >> half.txt; sleep 600;; *) echo \"$PITON_PARAM_TEXT\" >> out.txt;; esac";
    let project = project().tool(
        "slow",
        "parameters:\n  - {name: text, type: string}\n",
        slow,
    );
    let each = call(
        "each",
        "slow",
        "foreach=\"[&quot;a&quot;, &quot;b&quot;, &quot;c&quot;]\" retry=\"1\" timeout=\"1\" on_failure=\"continue\"",
        "{input:item}",
    );
    let told = call("told", "add", "", "{step:each.1.error.code}");
    let project = directive("mix", AUTO, &format!("{each}{told}"))(project).committed();
    dirty(&project);
    let ran = run(&project, "mix", &[]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        names(&ran),
        [
            "each[0] succeeded",
            "each[1] failed",
            "each[1] failed",
            "each[2] succeeded",
            "told succeeded"
        ]
    );
    // The first attempt was rolled back; the last one keeps its changes because of `continue`.
    assert_eq!(project.read("out.txt"), "first\na\nc\nTIMED_OUT\n");
    assert_eq!(project.read("half.txt"), "half\n");
    assert_unharmed(&project);
}

#[test]
fn policies_hold_for_every_kind_of_step() {
    let inner = || directive("inner", "", &call("bad", "fail", "", ""));
    let kinds = [
        (
            "sub",
            "<execute item_type=\"directive\" item_id=\"inner\"/>",
            "sub/bad failed",
        ),
        (
            "keep",
            "<checkpoint operation=\"keep {step:list.nope}\"/>",
            "keep failed",
        ),
        (
            "load",
            "<load item_type=\"tool\" item_id=\"nowhere\"/>",
            "load failed",
        ),
    ];
    for (name, body, failed) in kinds {
        for (policy, goes_on) in [
            ("rollback", false),
            ("keep", false),
            ("continue", true),
            ("abort", false),
        ] {
            let step = format!("<step name=\"{name}\" on_failure=\"{policy}\">{body}</step>\n");
            let all = format!(
                "{}{step}{}",
                call("list", "list", "", ""),
                call("end", "list", "", "")
            );
            let project = inner()(directive("outer", AUTO, &all)(project())).committed();
            dirty(&project);
            let ran = run(&project, "outer", &[]);
            let mut wanted = vec!["list succeeded", failed];
            wanted.extend(goes_on.then_some("end succeeded"));
            assert_eq!(names(&ran), wanted, "{name} {policy} {ran}");
            assert_eq!(
                ran.code(),
                Some(i32::from(!goes_on)),
                "{name} {policy} {ran}"
            );
            let is_kept = name == "sub" && policy == "keep";
            assert_eq!(
                project.read("out.txt"),
                if is_kept { "spoiled\n" } else { "first\n" },
                "{name} {policy} {ran}"
            );
            assert_unharmed(&project);
        }
    }
}

#[test]
fn a_rejection_follows_the_failure_policy() {
    for (policy, wanted) in [("keep", 1), ("continue", 0), ("abort", 1)] {
        let gate = format!(
            "<step name=\"look\" on_failure=\"{policy}\"><checkpoint type=\"decision\">Fine?</checkpoint></step>\n"
        );
        let project = directive(
            "asks",
            AUTO,
            &format!("{gate}{}", call("end", "list", "", "")),
        )(project())
        .committed();
        assert_eq!(run(&project, "asks", &[]).code(), Some(4));
        let ran = project.piton(["reject", "--format", "json"]);
        assert_eq!(ran.code(), Some(wanted), "{policy} {ran}");
        assert_eq!(steps(&ran).len(), if wanted == 0 { 2 } else { 1 }, "{ran}");
        assert_sound(&project);
    }
}

#[test]
fn what_a_failed_run_can_still_return_it_returns() {
    let project = directive(
        "outs",
        AUTO,
        &format!(
            "{}{}",
            call("list", "list", "", ""),
            call("bad", "fail", "", "")
        ),
    )(project());
    let outputs = "</process><outputs><success>never: {step:bad.x}</success><failure>\ncount: {step:list.count}\n\
                   lost: {step:bad.reason}\nwho: {input:who}</failure></outputs>";
    let project = with(project, "outs", "</process>", outputs).committed();
    let ran = run(&project, "outs", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(1), json!("TOOL_FAILED")),
        "{ran}"
    );
    assert_eq!(
        summary(&ran)["outputs"],
        json!({"count": 3, "who": "world"})
    );
    assert_sound(&project);
}

#[test]
fn a_directive_without_permissions_can_do_nothing() {
    let bare = |project: TestProject, name: &str| {
        let text = project.read(&format!(".ai/directives/{name}.md"));
        let start = text.find("<permissions>").expect("permissions");
        let end = text.find("</permissions>").expect("permissions") + "</permissions>".len();
        let given = text.get(start..end).expect("permissions").to_owned();
        with(project, name, &given, "")
    };
    let project = bare(
        directive("bare", AUTO, &call("a", "add", "", "a"))(project()),
        "bare",
    )
    .committed();
    let ran = run(&project, "bare", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(3), json!("PERMISSION_DENIED")),
        "{ran}"
    );
    let sign = "<step name=\"s\"><sign item_id=\"add\"/></step>\n";
    let project = bare(directive("signs", AUTO, sign)(project), "signs");
    let ran = run(&project, "signs", &[]);
    assert_eq!(
        (ran.code(), code(&ran)),
        (Some(3), json!("WRITE_DENIED")),
        "{ran}"
    );
    let prose = "<step name=\"write\"><action>Write.</action></step>\n";
    let project = bare(directive("words", AUTO, prose)(project), "words");
    assert_eq!(run(&project, "words", &[]).code(), Some(4));
    project.bash("echo words > words.txt");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr().contains("`words.txt`"), "{ran}");
    assert_eq!(project.piton(["cancel"]).code(), Some(0));
    assert_eq!(project.read("out.txt"), "first\n");
    assert_sound(&project);
}

#[test]
fn three_callers_allow_only_what_all_of_them_allow() {
    let sub = |next: &str| {
        format!(
            "<step name=\"{next}\"><execute item_type=\"directive\" item_id=\"{next}\"/></step>\n"
        )
    };
    let fresh = || {
        let project =
            directive("one", AUTO, &sub("two"))(directive("two", "", &sub("three"))(project()));
        directive("three", "", &call("a", "add", "", "a"))(project)
    };
    for (name, from, to, wanted) in [
        ("one", "id=\"*\"", "id=\"*\"", 0),
        ("one", "id=\"*\"", "id=\"list\"", 3),
        ("two", "id=\"*\"", "id=\"list\"", 3),
        ("three", "id=\"*\"", "id=\"list\"", 3),
        ("two", "path=\"**\"", "path=\"docs/**\"", 3),
        (
            "one",
            "<permissions>",
            "<permissions><deny><execute resource=\"tool\" id=\"add\"/></deny>",
            3,
        ),
        (
            "two",
            "</permissions>",
            "<deny><write resource=\"filesystem\" path=\"out.txt\"/></deny></permissions>",
            3,
        ),
    ] {
        let project = with(fresh(), name, from, to).committed();
        dirty(&project);
        let ran = run(&project, "one", &[]);
        assert_eq!(ran.code(), Some(wanted), "{name} {to} {ran}");
        assert_eq!(
            project.read("out.txt"),
            if wanted == 0 { "first\na\n" } else { "first\n" },
            "{ran}"
        );
        if wanted == 3 {
            assert!(
                ran.stdout().contains(&format!("`{name}`")),
                "{name} is not named: {ran}"
            );
        }
        assert_unharmed(&project);
    }
}

#[test]
fn quoted_text_beside_an_action_is_not_filled_in() {
    let prose = "<step name=\"write\"><action>Use this for {input:who}.</action><template>Dear {input:name}, {step:missing.x}</template></step>\n";
    let project = directive("words", AUTO, prose)(project()).committed();
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr().contains("Use this for world."), "{ran}");
    assert!(
        ran.stderr().contains("Dear {input:name}, {step:missing.x}"),
        "{ran}"
    );
}

#[test]
fn variables_of_the_environment_are_redacted_wherever_a_run_is_recorded() {
    let token = "tok-5f3b9/x?1 y";
    let text = "parameters:\n  - {name: text, type: string}\n";
    let echo = "echo note >> out.txt; echo \"$PITON_PARAM_TEXT\"; printf %s \"$PITON_PARAM_TEXT\" | base64; \
                printf %s \"$PITON_PARAM_TEXT\" | od -An -tx1 | tr -d ' \\n'";
    let steps = [
        call("say", "say", "", "{env:TOKEN}"),
        "<step name=\"keep\"><checkpoint operation=\"use {env:TOKEN}\"/></step>\n".to_owned(),
        call("raise", "raise", "on_failure=\"continue\"", "{env:TOKEN}"),
    ];
    let project = directive("told", "", &steps.concat())(project().tool("say", text, echo).tool(
        "raise",
        text,
        "echo \"bad $PITON_PARAM_TEXT\" >&2; exit 3",
    ));
    let project = with(
        project,
        "told",
        "<permissions>",
        "<permissions><env vars=\"TOKEN\"/>",
    );
    let project = project.variable("TOKEN", token).committed();
    let ran = run(&project, "told", &[]);
    assert_eq!(super::subjects(&project), ["chore: use ***"], "{ran}");
    let log = project.piton([
        "show",
        &format!("{}/1", summary(&ran)["run_id"].as_str().expect("a run")),
    ]);
    let recorded = project.bash(
        "cat .ai/outputs/tools/*/*.json .git/piton/runs/*/*.jsonl; git log --all --format=%B; \
         for ref in $(git for-each-ref --format='%(refname)' refs/piton); do git log -p $ref; done",
    );
    assert!(recorded.contains("***"), "{recorded}");
    let base64 = project
        .bash(&format!("printf %s '{token}' | base64"))
        .trim()
        .to_owned();
    let hex = project.bash(&format!("printf %s '{token}' | od -An -tx1 | tr -d ' \\n'"));
    for secret in [token, &base64, &hex, "tok-5f3b9"] {
        // Not stderr: there the person sees what the tool writes, as it writes it.
        for text in [&recorded, &ran.stdout(), &log.stdout()] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}
