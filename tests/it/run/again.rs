//! Resuming runs that ended without success: the start point, changed items, and what stays.

use std::fs;

use super::{
    assert_sound, assert_unharmed, call, directive, dirty, names, project, subjects, summary,
};
use crate::harness::{Ran, TestProject};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

/// A tool that fails until the file `ready` exists, after appending a line.
fn flaky(project: TestProject) -> TestProject {
    let ready = ready(&project);
    project.tool(
        "flaky",
        "",
        &format!("echo try >> out.txt; test -e '{ready}'"),
    )
}

fn ready(project: &TestProject) -> String {
    project
        .root()
        .with_file_name("tmp")
        .join("ready")
        .display()
        .to_string()
}

/// Makes the tool `flaky` succeed.
fn mend(project: &TestProject) {
    fs::write(ready(project), "").expect("a file");
}

fn run_of(ran: &Ran) -> String {
    summary(ran)["run_id"].as_str().expect("a run").to_owned()
}

/// Runs a directive that must fail; returns the run id.
fn fails(project: &TestProject, name: &str) -> String {
    let ran = project.piton(["run", name, "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    run_of(&ran)
}

/// `a` succeeds, `b` fails, `c` uses the result of `a`.
fn three(mode: &str) -> TestProject {
    let all = format!(
        "{}{}{}",
        call("a", "add", "", "a"),
        call("b", "spoil", "", ""),
        call("c", "add", "", "c {step:a.lines}")
    );
    let project = project().tool("spoil", "", "echo spoiled >> out.txt; exit 3");
    directive("three", &format!("<git_checkpoint mode=\"{mode}\"/>"), &all)(project).committed()
}

#[test]
fn a_failed_run_restarts_at_the_step_that_failed_with_the_tools_of_today() {
    let project = three("auto");
    dirty(&project);
    let run = fails(&project, "three");
    let project = project.tool("spoil", "", "echo mended >> out.txt");
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("tool `spoil` has changed"), "{ran}");
    assert!(
        ran.stderr()
            .contains("the changes of step `b` were rolled back"),
        "{ran}"
    );
    assert_eq!(project.read("out.txt"), "first\na\nmended\nc 2\n");
    assert_eq!(subjects(&project).len(), 3);
    assert_unharmed(&project);
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("it has succeeded already"), "{ran}");
}

#[test]
fn a_second_failed_attempt_can_be_resumed_too_and_other_runs_continue_meanwhile() {
    let project = three("auto");
    let run = fails(&project, "three");
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(names(&ran), ["a succeeded", "b failed", "b failed"]);
    let other = directive("other", AUTO, &call("x", "add", "", "x"))(project);
    let ran = other.piton(["run", "other"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let project = other.tool("spoil", "", "true");
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        names(&ran),
        [
            "a succeeded",
            "b failed",
            "b failed",
            "b succeeded",
            "c succeeded"
        ]
    );
    assert_eq!(run_of(&ran), run);
    assert_sound(&project);
}

#[test]
fn a_failed_step_can_be_skipped() {
    let project = three("auto");
    let run = fails(&project, "three");
    let ran = project.piton(["resume", &run, "--skip", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        names(&ran),
        ["a succeeded", "b failed", "b skipped", "c succeeded"]
    );
    assert_eq!(project.read("out.txt"), "first\na\nc 2\n");
    assert_sound(&project);
}

#[test]
fn a_run_can_restart_at_an_earlier_step_which_is_done_again_as_a_new_step() {
    let project = three("auto");
    let run = fails(&project, "three");
    let project = project.tool("spoil", "", "true");
    let ran = project.piton(["resume", &run, "--from", "a"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("step `a` was done and will run again"),
        "{ran}"
    );
    assert_eq!(project.read("out.txt"), "first\na\na\nc 3\n");
    assert_eq!(subjects(&project).len(), 3);
    assert_sound(&project);
}

#[test]
fn an_invalid_start_step_is_refused_and_changes_nothing() {
    let project = three("auto");
    let run = fails(&project, "three");
    let ran = project.piton(["resume", &run, "--from", "nowhere"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(
        ran.stderr().contains("there is no such step") && ran.stderr().contains("`a`, `b`, `c`"),
        "{ran}"
    );
    let ran = project.piton(["resume", &run, "--from", "a", "--skip"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    let ran = project.piton(["resume", &run, "--result", "{}"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    let ran = project.piton(["approve", "--yes", &run]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("it has failed"), "{ran}");
    assert_eq!(
        project.piton(["status", &run, "--format", "json"]).json()["status"],
        "failed"
    );
    let waits = directive(
        "waits",
        "",
        "<step name=\"w\"><action>Write.</action></step>",
    )(project);
    assert_eq!(waits.piton(["run", "waits"]).code(), Some(4));
    let ran = waits.piton(["resume", "--skip"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("has not ended"), "{ran}");
    // A run waits here, so the failed one cannot be resumed.
    let ran = waits.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert_eq!(
        waits.piton(["status", "--format", "json"]).json()["status"],
        "waiting"
    );
}

#[test]
fn a_changed_directive_is_shown_and_used_and_steps_are_matched_by_name() {
    let project = three("auto");
    let run = fails(&project, "three");
    let steps = format!(
        "{}{}{}",
        call("new", "add", "", "new"),
        call("b", "add", "", "other b of {input:who}"),
        call("c", "add", "", "c")
    );
    let project = directive("three", AUTO, &steps)(project);
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let text = ran.stderr();
    assert!(text.contains("directive `three` has changed"), "{ran}");
    assert!(text.contains("+++ b/.ai/directives/three.md"), "{ran}");
    assert!(
        text.contains("step `a` was done and is no longer in the directive"),
        "{ran}"
    );
    assert!(
        text.contains("step `new` was never done and will not run"),
        "{ran}"
    );
    assert_eq!(project.read("out.txt"), "first\na\nother b of world\nc\n");
    let journal = project.bash("cat .git/piton/runs/*/*.jsonl");
    assert!(journal.contains("\"repinned\""), "{journal}");
    assert_sound(&project);
}

#[test]
fn a_failed_step_that_is_gone_needs_a_place_to_begin() {
    let project = three("auto");
    let run = fails(&project, "three");
    let steps = format!(
        "{}{}",
        call("a", "add", "", "a"),
        call("last", "add", "", "last")
    );
    let project = directive("three", AUTO, &steps)(project);
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(
        ran.stderr().contains("step `b` of run") && ran.stderr().contains("--from STEP"),
        "{ran}"
    );
    let ran = project.piton(["resume", &run, "--from", "last"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\nlast\n");
}

#[test]
fn a_directive_or_tool_that_cannot_be_used_now_is_refused_and_the_run_stays_failed() {
    let project = three("auto");
    let run = fails(&project, "three");
    let good = project.read(".ai/directives/three.md");
    let project = project.file(".ai/directives/three.md", good.replace("</process>", ""));
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    let project = project.file(".ai/directives/three.md", &good);
    project.bash("mv .ai/tools/spoil ../spoil");
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("spoil"), "{ran}");
    assert_eq!(
        project.piton(["status", &run, "--format", "json"]).json()["status"],
        "failed"
    );
    assert_eq!(project.piton(["run", "three"]).code(), Some(2));
    project.bash("mv ../spoil .ai/tools/spoil");
    let ran = project.piton(["resume", &run, "--skip"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn a_denied_run_is_denied_again_until_the_permission_is_there() {
    let project = three("auto");
    let run = fails(&project, "three");
    let good = project.read(".ai/directives/three.md");
    let bad = good.replace(
        "<execute resource=\"tool\" id=\"*\"/>",
        "<execute resource=\"tool\" id=\"add\"/>",
    );
    let project = project
        .file(".ai/directives/three.md", bad)
        .tool("spoil", "", "true");
    for _ in 0..2 {
        let ran = project.piton(["resume", &run, "--format", "json"]);
        assert_eq!(ran.code(), Some(3), "{ran}");
        assert_eq!(summary(&ran)["status"], "denied", "{ran}");
    }
    let project = project.file(".ai/directives/three.md", &good);
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn in_explicit_mode_the_failed_step_runs_again_on_top_of_what_it_left() {
    let all = format!(
        "{}{}",
        call("a", "flaky", "", ""),
        "<step name=\"keep\"><checkpoint operation=\"keep\"/></step>"
    );
    let project =
        directive("flakes", "<git_checkpoint mode=\"explicit\"/>", &all)(flaky(project()))
            .committed();
    dirty(&project);
    let run = fails(&project, "flakes");
    mend(&project);
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("the changes of step `a` are still there (`out.txt`)"),
        "{ran}"
    );
    assert_eq!(project.read("out.txt"), "first\ntry\ntry\n");
    assert_eq!(project.git(["status", "--porcelain", "--", "out.txt"]), "");
    assert_unharmed(&project);
}

#[test]
fn loops_and_sub_directives_continue_inside() {
    let inner = directive(
        "inner",
        "",
        &format!(
            "{}{}",
            call("deep", "add", "", "deep"),
            call("bad", "flaky", "", "")
        ),
    );
    let project = project();
    let third = format!(
        "test \"$PITON_PARAM_TEXT\" != b || test -e '{}' || exit 3; echo \"$PITON_PARAM_TEXT\" >> out.txt",
        ready(&project)
    );
    let project = project.tool(
        "third",
        "parameters:\n  - {name: text, type: string, required: false}\n",
        &third,
    );
    let all = [
        call("list", "list", "", ""),
        call(
            "each",
            "third",
            "foreach=\"{step:list.names}\"",
            "{input:item}",
        ),
        "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"/></step>\n"
            .to_owned(),
        call("last", "add", "", "last"),
    ]
    .concat();
    let project = inner(directive("outer", AUTO, &all)(flaky(project))).committed();
    let run = fails(&project, "outer");
    assert_eq!(project.read("out.txt"), "first\na\n");
    mend(&project);
    let project = project.tool("flaky", "", "exit 3");
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\nb\nc\ndeep\n");
    let project = project.tool("flaky", "", "echo flaky >> out.txt");
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.read("out.txt"),
        "first\na\nb\nc\ndeep\nflaky\nlast\n"
    );
    assert_sound(&project);
}

#[test]
fn a_cancelled_run_restarts_and_counts_its_steps_on() {
    let prose = "<step name=\"write\"><action>Write words.txt.</action></step>\n";
    let metadata = format!("{AUTO}<limits><steps>2</steps></limits>");
    let all = format!(
        "{}{prose}{}",
        call("a", "add", "", "a"),
        call("c", "add", "", "c")
    );
    let project = directive("words", &metadata, &all)(project()).committed();
    let ran = project.piton(["run", "words", "--format", "json"]);
    let run = run_of(&ran);
    assert_eq!(project.piton(["cancel"]).code(), Some(0));
    // Two steps were started, so the limit ends the run before the third.
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "LIMIT_REACHED", "{ran}");
    let text = project
        .read(".ai/directives/words.md")
        .replace("<steps>2</steps>", "<steps>9</steps>");
    let project = project.file(".ai/directives/words.md", text);
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    project.bash("echo words > words.txt");
    let ran = project.piton(["resume", &run, "--paths", "words.txt"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\nc\n");
    assert_sound(&project);
}

#[test]
fn a_run_of_another_worktree_restarts_there() {
    let project = three("auto");
    let ran = project.piton(["run", "three", "--worktree", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let run = run_of(&ran);
    let ran = project.piton(["resume", &run, "--skip"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\n");
    let ran = project.piton(["finish", &run, "--keep"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\nc 2\n");
}

#[test]
fn a_kill_during_a_restart_leaves_the_run_as_its_journal_says() {
    for place in [
        "run-repinned",
        "run-marked",
        "journal-appended:1",
        "journal-appended:2",
        "tool-ended",
        "commit-decided",
    ] {
        let project = three("auto");
        dirty(&project);
        let run = fails(&project, "three");
        let project = project.tool("spoil", "", "echo mended >> out.txt");
        let killed = project
            .command(["resume", &run])
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton");
        assert!(!killed.status.success(), "{place}");
        let ran = project.piton(["resume", &run]);
        assert_eq!(ran.code(), Some(0), "{place}: {ran}");
        assert_eq!(
            project.read("out.txt"),
            "first\na\nmended\nc 2\n",
            "{place}"
        );
        assert_unharmed(&project);
    }
}

#[test]
fn hooks_and_time_limits_apply_after_a_resume() {
    let hooks = "<hooks><hook><when>phase == 'before' and step == 'b'</when><directive>note</directive>\
        <inputs><who>before</who></inputs></hook>\
        <hook><when>phase == 'after' and step == 'c'</when><directive>note</directive><inputs><who>after</who></inputs></hook>\
        <hook><when>phase == 'error'</when><directive>note</directive><inputs><who>error</who></inputs></hook></hooks>";
    let all = [
        call("a", "add", "", "a"),
        call("b", "spoil", "timeout=\"1\"", ""),
        call("c", "add", "", "c"),
    ]
    .concat();
    let project = project().tool("spoil", "", "exit 3");
    let project = directive("note", "", &call("n", "add", "", "{input:who}"))(project);
    let project = directive("hooked", &format!("{AUTO}{hooks}"), &all)(project).committed();
    let run = fails(&project, "hooked");
    assert_eq!(project.read("out.txt"), "first\na\nbefore\nerror\n");
    // The time limit of the step applies to the current tool.
    let project = project.tool("spoil", "", "sleep 600");
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(
        (ran.code(), &summary(&ran)["error"]["code"]),
        (Some(1), &"TIMED_OUT".into()),
        "{ran}"
    );
    assert_eq!(
        project.read("out.txt"),
        "first\na\nbefore\nerror\nbefore\nerror\n"
    );
    // So does a limit of the directive that was added since.
    let text = project.read(".ai/directives/hooked.md");
    let limited = text.replace("timeout=\"1\"", "").replace(
        "<hooks>",
        "<limits><duration_seconds>1</duration_seconds></limits><hooks>",
    );
    let project = project.file(".ai/directives/hooked.md", limited);
    let ran = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(
        (ran.code(), &summary(&ran)["error"]["code"]),
        (Some(1), &"LIMIT_REACHED".into()),
        "{ran}"
    );
    let project = project
        .file(".ai/directives/hooked.md", text)
        .tool("spoil", "", "true");
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        project.read("out.txt").ends_with("before\nc\nafter\n"),
        "{ran}"
    );
    assert_sound(&project);
}
