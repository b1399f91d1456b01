//! Each kind of step, conditions and loops.

use serde_json::json;

use super::{assert_unharmed, call, directive, dirty, project, steps, subjects, summary};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

#[test]
fn a_tool_step_gets_typed_values_and_gives_its_result_to_later_steps() {
    let list = call("list", "list", "", "");
    let add = call(
        "add",
        "add",
        "when=\"{step:list.count} &gt;= 3\"",
        "{input:who} has {step:list.count} of {step:list.names}",
    );
    let project = directive("typed", AUTO, &format!("{list}{add}"))(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "typed", "--input", "who=Ada", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.read("out.txt"),
        "first\nAda has 3 of [\"a\",\"b\",\"c\"]\n"
    );
    assert_eq!(
        steps(&ran),
        [
            ("list".into(), "succeeded".into()),
            ("add".into(), "succeeded".into())
        ]
    );
    assert_eq!(subjects(&project), ["chore: update `out.txt` by `add`"]);
    let message = project.git(["log", "-1", "--format=%B"]);
    assert!(message.contains("\n[directive: typed]\n"), "{message}");
    assert!(
        message.contains("\nPiton-Directive: typed@1.0.0\n"),
        "{message}"
    );
    assert_unharmed(&project);
}

#[test]
fn a_text_that_looks_like_a_placeholder_is_not_filled_in_again() {
    let project =
        directive("once", AUTO, &call("add", "add", "", "{input:who}"))(project()).committed();
    let ran = project.piton(["run", "once", "--input", "who={run:id}{input:who}"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\n{run:id}{input:who}\n");
}

#[test]
fn a_step_whose_condition_is_false_is_skipped_and_says_so() {
    let never = call("never", "add", "when=\"{input:who} == 'nobody'\"", "");
    let after = call("after", "add", "when=\"{step:never.lines} &gt; 0\"", "");
    let project = directive(
        "skips",
        AUTO,
        &format!("{never}{after}{}", call("add", "add", "", "")),
    )(project())
    .committed();
    let ran = project.piton(["run", "skips", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let told: Vec<(String, String)> = steps(&ran);
    assert_eq!(
        told,
        [
            ("never".into(), "skipped".into()),
            ("after".into(), "skipped".into()),
            ("add".into(), "succeeded".into())
        ]
    );
    assert_eq!(subjects(&project).len(), 1);
}

#[test]
fn a_loop_runs_once_for_each_element_and_returns_a_list() {
    let each = call(
        "each",
        "add",
        "foreach=\"{step:list.names}\" as=\"name\" when=\"{input:name} != 'b'\"",
        "{input:name}",
    );
    let none = call("none", "add", "foreach=\"{step:list.none}\"", "");
    let told = call("told", "add", "", "{step:each} {step:none}");
    let all = format!("{}{each}{none}{told}", call("list", "list", "", ""));
    let project = directive("loops", AUTO, &all)(project()).committed();
    let ran = project.piton(["run", "loops", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.read("out.txt"),
        "first\na\nc\n[{\"lines\":2},null,{\"lines\":3}] []\n"
    );
    let names: Vec<String> = steps(&ran).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["list", "each[0]", "each[1]", "each[2]", "told"]);
}

#[test]
fn a_sub_directive_runs_in_the_same_run_with_the_permissions_of_both() {
    let inner = directive("inner", "", &call("one", "add", "", "{input:who}"));
    let outer = "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"><param name=\"who\" value=\"deep\"/></execute></step>";
    let project = inner(directive("outer", AUTO, outer)(project())).committed();
    dirty(&project);
    let ran = project.piton(["run", "outer", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(steps(&ran), [("sub/one".into(), "succeeded".into())]);
    assert_eq!(project.read("out.txt"), "first\ndeep\n");
    assert_unharmed(&project);
    // If the caller may not call `add`, its nested directive may not either.
    let strict = project
        .read(".ai/directives/outer.md")
        .replace("id=\"*\"", "id=\"list\"");
    let project = project.file(".ai/directives/outer.md", strict);
    let ran = project.piton(["run", "outer", "--format", "json"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(summary(&ran)["status"], "denied");
    assert_eq!(project.read("out.txt"), "first\ndeep\n");
}

#[test]
fn eight_directives_inside_each_other_run_and_seventeen_do_not() {
    let mut project = project();
    for depth in 1..20 {
        let next = format!(
            "<step name=\"s{depth}\"><execute item_type=\"directive\" item_id=\"d{}\"/></step>",
            depth + 1
        );
        project = directive(&format!("d{depth}"), AUTO, &next)(project);
    }
    let project = directive("d20", AUTO, &call("add", "add", "", "deep"))(project).committed();
    let ran = project.piton(["run", "d13", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        steps(&ran).first().map(|(name, _)| name.as_str()),
        Some("s13/s14/s15/s16/s17/s18/s19/add")
    );
    let ran = project.piton(["run", "d1", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "TOO_DEEP");
    assert_eq!(project.read("out.txt"), "first\ndeep\n");
}

#[test]
fn two_hundred_steps_make_two_hundred_commits() {
    let all: String = (0..200)
        .map(|n| call(&format!("s{n}"), "add", "", &format!("{n}")))
        .collect();
    let project = directive("many", AUTO, &all)(project()).committed();
    let ran = project.piton(["run", "many", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(steps(&ran).len(), 200);
    assert_eq!(subjects(&project).len(), 200);
    assert_eq!(project.read("out.txt").lines().count(), 201);
    super::assert_sound(&project);
}

#[test]
fn outputs_are_what_the_directive_assigns() {
    let text = directive("out", AUTO, &call("list", "list", "", ""))(project())
        .read(".ai/directives/out.md");
    let outputs = "</process>\n<outputs><success>count: {step:list.count}\nname: {input:who} {ok}\nkind: string</success>\
                   <failure>why: it failed for {input:who}</failure></outputs>";
    let project = project()
        .file(".ai/directives/out.md", text.replace("</process>", outputs))
        .committed();
    let ran = project.piton(["run", "out", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        summary(&ran)["outputs"],
        json!({"count": 3, "name": "world {ok}"})
    );
    let told = project.piton(["run", "out"]);
    assert_eq!(told.stdout(), "count: 3\nname: world {ok}\n");
    let text = project
        .read(".ai/directives/out.md")
        .replace("item_id=\"list\"", "item_id=\"fail\"");
    let project = project.file(".ai/directives/out.md", text);
    let ran = project.piton(["run", "out", "--format", "json"]);
    assert_eq!(
        summary(&ran)["outputs"],
        json!({"why": "it failed for world"}),
        "{ran}"
    );
}

#[test]
fn inputs_are_checked_before_anything_runs() {
    let text = directive("checked", AUTO, &call("add", "add", "", "{input:who}"))(project())
        .read(".ai/directives/checked.md");
    let inputs = "<inputs><input name=\"who\" type=\"string\" required=\"true\" pattern=\"^[a-z]+$\">Who</input>\
                  <input name=\"times\" type=\"integer\" default=\"2\">How often</input></inputs>";
    let start = text.find("<inputs>").expect("inputs");
    let end = text.find("</inputs>").expect("inputs") + "</inputs>".len();
    let text = format!("{}{inputs}{}", &text[..start], &text[end..]);
    let project = project()
        .file(".ai/directives/checked.md", text)
        .committed();
    for (words, wanted) in [
        (vec![], "who"),
        (vec!["--input", "who=UPPER"], "who"),
        (vec!["--input", "who=ada", "--input", "times=many"], "times"),
        (vec!["--input", "who=ada", "--input", "hwo=x"], "hwo"),
        (vec!["--input", "who"], "who"),
    ] {
        let ran = project.piton([vec!["run", "checked"], words.clone()].concat());
        assert_eq!(ran.code(), Some(2), "{words:?} {ran}");
        assert!(ran.stderr().contains(wanted), "{words:?} {ran}");
    }
    assert_eq!(project.read("out.txt"), "first\n");
    assert_eq!(project.piton(["log"]).stderr(), "no runs yet\n");
}
