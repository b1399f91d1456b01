//! Failure handling: policies, attempts, limits, hooks.

use super::{
    assert_sound, assert_unharmed, call, directive, dirty, project, steps, subjects, summary,
};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

fn names(ran: &crate::harness::Ran) -> Vec<String> {
    steps(ran)
        .into_iter()
        .map(|(name, status)| format!("{name} {status}"))
        .collect()
}

#[test]
fn in_auto_mode_a_failed_step_is_rolled_back_and_ends_the_run() {
    let all = format!(
        "{}{}{}",
        call("a", "add", "", "a"),
        call("bad", "fail", "", ""),
        call("c", "add", "", "c")
    );
    let project = directive("stops", AUTO, &all)(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "stops", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(names(&ran), ["a succeeded", "bad failed"]);
    assert_eq!(
        summary(&ran)["steps"][1]["checkpoint"]["status"],
        "rolled_back"
    );
    assert_eq!(project.read("out.txt"), "first\na\n");
    assert!(!project.root().join("new.txt").exists());
    assert_unharmed(&project);
}

#[test]
fn in_explicit_mode_the_changes_of_a_failed_step_stay_and_can_be_undone() {
    let project = directive("stays", "", &call("bad", "fail", "", ""))(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "stays"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("piton undo"), "{ran}");
    assert_eq!(project.read("out.txt"), "spoiled\n");
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\n");
    assert_unharmed(&project);
}

#[test]
fn each_policy_does_what_it_says_in_each_mode() {
    for mode in ["auto", "explicit"] {
        for (policy, goes_on, stays) in [
            ("rollback", false, false),
            ("keep", false, true),
            ("continue", true, true),
            ("abort", false, mode == "explicit"),
        ] {
            let bad = call("bad", "fail", &format!("on_failure=\"{policy}\""), "");
            let metadata = format!("<git_checkpoint mode=\"{mode}\"/>");
            let all = format!("{bad}{}", call("after", "list", "", ""));
            let project = directive("policy", &metadata, &all)(project()).committed();
            dirty(&project);
            let ran = project.piton(["run", "policy", "--format", "json"]);
            let wanted = if goes_on {
                vec!["bad failed", "after succeeded"]
            } else {
                vec!["bad failed"]
            };
            assert_eq!(names(&ran), wanted, "{mode} {policy} {ran}");
            assert_eq!(
                ran.code(),
                Some(i32::from(!goes_on)),
                "{mode} {policy} {ran}"
            );
            let text = if stays { "spoiled\n" } else { "first\n" };
            assert_eq!(project.read("out.txt"), text, "{mode} {policy} {ran}");
            assert_unharmed(&project);
        }
    }
}

#[test]
fn the_directive_sets_the_policy_of_its_steps() {
    let metadata = "<git_checkpoint mode=\"auto\" on_failure=\"keep\"/>";
    let project = directive("kept", metadata, &call("bad", "fail", "", ""))(project()).committed();
    let ran = project.piton(["run", "kept", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("out.txt"), "spoiled\n");
    assert_sound(&project);
}

#[test]
fn a_failure_inside_a_sub_directive_can_be_survived_by_the_step_that_calls_it_unless_it_aborts() {
    let inner = directive("inner", "", &call("bad", "fail", "", ""));
    let sub = "<step name=\"sub\" on_failure=\"continue\"><execute item_type=\"directive\" item_id=\"inner\"/></step>\n";
    let all = format!("{sub}{}", call("after", "add", "", "after"));
    let project = inner(directive("outer", AUTO, &all)(project())).committed();
    let ran = project.piton(["run", "outer", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(names(&ran), ["sub/bad failed", "after succeeded"]);
    let aborting = directive(
        "inner",
        "",
        &call("bad", "fail", "on_failure=\"abort\"", ""),
    )(project);
    let ran = aborting.piton(["run", "outer", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(names(&ran), ["sub/bad failed"]);
}

#[test]
fn a_step_is_tried_again_from_a_clean_start() {
    let flaky = "n=$(cat $TMPDIR/piton-flaky-$PITON_RUN_ID 2>/dev/null || echo 0); echo $((n+1)) > $TMPDIR/piton-flaky-$PITON_RUN_ID\n\
                 echo attempt >> out.txt; test $n -ge 2 && rm $TMPDIR/piton-flaky-$PITON_RUN_ID";
    let project = project().tool("flaky", "", flaky);
    let project = directive(
        "tries",
        AUTO,
        &call("again", "flaky", "retry=\"2\" backoff=\"0.01\"", ""),
    )(project)
    .committed();
    dirty(&project);
    let ran = project.piton(["run", "tries", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        names(&ran),
        ["again failed", "again failed", "again succeeded"]
    );
    assert_eq!(project.read("out.txt"), "first\nattempt\n");
    assert_eq!(subjects(&project).len(), 1);
    assert_unharmed(&project);
}

#[test]
fn a_step_that_takes_too_long_is_stopped() {
    let project = project().tool("slow", "", "echo half >> out.txt; sleep 600");
    let project =
        directive("slow", AUTO, &call("wait", "slow", "timeout=\"0.5\"", ""))(project).committed();
    let ran = project.piton(["run", "slow", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "TIMED_OUT");
    assert_eq!(project.read("out.txt"), "first\n");
    let sub = "<step name=\"sub\" timeout=\"0.5\"><execute item_type=\"directive\" item_id=\"slow\"/></step>";
    let text = project
        .read(".ai/directives/slow.md")
        .replace("timeout=\"0.5\"", "");
    let project = directive("outer", AUTO, sub)(project.file(".ai/directives/slow.md", text));
    let ran = project.piton(["run", "outer", "--format", "json"]);
    assert_eq!(summary(&ran)["error"]["code"], "TIMED_OUT", "{ran}");
    assert_eq!(project.read("out.txt"), "first\n");
}

#[test]
fn limits_end_a_run_cleanly() {
    let all: String = (0..5)
        .map(|n| call(&format!("s{n}"), "add", "", "x"))
        .collect();
    for (limits, done) in [
        ("<limits><steps>3</steps></limits>", 3),
        ("<limits><tool_calls>2</tool_calls></limits>", 2),
        ("<limits max_steps=\"1\"/>", 1),
    ] {
        let project = directive("limited", &format!("{AUTO}{limits}"), &all)(project()).committed();
        let ran = project.piton(["run", "limited", "--format", "json"]);
        assert_eq!(ran.code(), Some(1), "{limits} {ran}");
        assert_eq!(summary(&ran)["error"]["code"], "LIMIT_REACHED", "{ran}");
        assert_eq!(subjects(&project).len(), done, "{limits} {ran}");
        assert_sound(&project);
    }
}

#[test]
fn a_failed_checkpoint_ends_the_run_under_every_policy() {
    let project = project().tool(
        "leak",
        "",
        "echo 'key = \"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\"' > key.txt",
    );
    let all = format!(
        "{}{}",
        call("leak", "leak", "on_failure=\"continue\"", ""),
        call("after", "add", "", "x")
    );
    let project = directive("leaks", AUTO, &all)(project).committed();
    let ran = project.piton(["run", "leaks", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "SECRET_FOUND", "{ran}");
    assert_eq!(names(&ran), ["leak failed"]);
}

#[test]
fn a_write_outside_of_the_grants_is_rolled_back_and_denied() {
    let project = project().tool(
        "sneak",
        "",
        "mkdir -p secret; echo x > secret/key; echo y >> out.txt",
    );
    let project = directive("sneaks", AUTO, &call("sneak", "sneak", "", ""))(project).committed();
    dirty(&project);
    let ran = project.piton(["run", "sneaks", "--format", "json"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "WRITE_DENIED");
    assert!(!project.root().join("secret").exists());
    assert_eq!(project.read("out.txt"), "first\n");
    assert_unharmed(&project);
}

#[test]
fn hooks_run_before_after_and_on_errors_with_what_they_ask_for() {
    let hooks = "<hooks><hook><when>error.code == 'TOOL_FAILED'</when><directive>note</directive>\
                 <inputs><who>broken {input:who}</who></inputs></hook>\
                 <hook><when>phase == 'after' and step == 'a' and cost.steps &gt;= 1</when><directive>note</directive></hook></hooks>";
    let all = format!(
        "{}{}",
        call("a", "add", "", "a"),
        call("bad", "fail", "on_failure=\"rollback\"", "")
    );
    let note = directive("note", "", &call("note", "add", "", "hook for {input:who}"));
    let project = note(directive("hooked", &format!("{AUTO}{hooks}"), &all)(
        project(),
    ))
    .committed();
    let ran = project.piton(["run", "hooked", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        names(&ran),
        [
            "a succeeded",
            "hook:note/note succeeded",
            "bad failed",
            "hook:note/note succeeded"
        ],
        "{ran}"
    );
    assert!(
        project
            .read("out.txt")
            .starts_with("first\na\nhook for world\nhook for"),
        "{}",
        project.read("out.txt")
    );
    assert_sound(&project);
}

#[test]
fn what_a_directive_requires_must_exist() {
    let metadata = "<relationships><requires directive=\"nowhere\"/></relationships>";
    let project = directive("needs", metadata, &call("a", "add", "", ""))(project()).committed();
    let ran = project.piton(["run", "needs"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("nowhere"), "{ran}");
    let missing = directive("lost", "", &call("a", "nothing_like_it", "", ""))(project);
    let ran = missing.piton(["run", "lost"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains(".ai/directives/lost.md:"), "{ran}");
    assert_eq!(missing.piton(["log"]).stderr(), "no runs yet\n");
}

#[test]
fn the_time_of_a_step_is_not_that_of_its_hooks() {
    for phase in ["before", "after"] {
        let hooks = format!(
            "{AUTO}<hooks><hook><when>phase == '{phase}' and step == 'a'</when><directive>note</directive></hook></hooks>"
        );
        let steps = format!(
            "{}{}",
            call("a", "add", "timeout=\"2\"", "a"),
            call("b", "add", "timeout=\"2\"", "b")
        );
        let note = directive("note", "", &call("slow", "slow", "", ""));
        let project = project().tool("slow", "", "sleep 3; echo hook >> out.txt");
        let project = note(directive("hooked", &hooks, &steps)(project)).committed();
        let ran = project.piton(["run", "hooked"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        let wanted = if phase == "before" {
            "first\nhook\na\nb\n"
        } else {
            "first\na\nhook\nb\n"
        };
        assert_eq!(project.read("out.txt"), wanted);
    }
}
