//! Usage errors around runs, and their messages.

use serde_json::Value;

use super::{call, directive, project};
use crate::harness::{TestProject, cmd_snapshot};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const PROSE: &str =
    "<step name=\"write\"><action>Write for {input:who} into words.txt.</action></step>\n";

fn waiting() -> TestProject {
    let project = directive("words", AUTO, PROSE)(project())
        .committed()
        .ticking();
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    project
}

#[test]
fn what_can_be_done_with_runs_is_explained() {
    let project = TestProject::new();
    for command in ["run", "resume", "approve", "reject", "status", "cancel"] {
        let ran = project.piton([command, "--help"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(ran.stdout().contains("Examples:"), "{ran}");
    }
}

#[test]
fn an_unknown_run() {
    let project = waiting();
    for command in ["resume", "approve", "reject", "status", "cancel"] {
        let ran = project.piton([command, "zzzz"]);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(
            ran.stderr()
                .contains("hint: list runs and steps with `piton log`"),
            "{ran}"
        );
    }
    cmd_snapshot!(project.piton(["resume", "zzzz"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no step, run or commit `zzzz`

    hint: list runs and steps with `piton log`
    ");
}

#[test]
fn a_beginning_that_several_runs_have() {
    let project = directive("adds", AUTO, &call("a", "add", "", "a"))(project())
        .committed()
        .ticking();
    project.piton(["run", "adds"]);
    project.piton(["run", "adds"]);
    cmd_snapshot!(project.piton(["resume", "01kd"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `01kd` may be `01kdyadef0fgz2syhf4d156af1` or `01kdyabkw0000e485875xhvkdf`

    hint: use a longer prefix
    ");
}

#[test]
fn a_run_that_is_over() {
    let project = directive("adds", AUTO, &call("a", "add", "", "a"))(project())
        .committed()
        .ticking();
    project.piton(["run", "adds"]);
    let log = project.piton(["log", "--format", "json"]).json();
    let id = log["id"].as_str().expect("a run");
    cmd_snapshot!(project.piton(["resume", id]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot resume run `01kdyabkw0000e485875xhvkdf`: it has succeeded already

    hint: list runs with `piton log`
    ");
    cmd_snapshot!(project.piton(["cancel", id]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot resume run `01kdyabkw0000e485875xhvkdf`: it has succeeded already

    hint: list runs with `piton log`
    ");
    cmd_snapshot!(project.piton(["resume"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run waits here

    hint: list runs with `piton log`
    ");
    cmd_snapshot!(project.piton(["approve"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run waits here

    hint: list runs with `piton log`
    ");
}

#[test]
fn an_answer_that_no_step_waits_for() {
    let project = waiting();
    cmd_snapshot!(project.piton(["approve"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: step `write` needs another kind of answer

    hint: do it, then `piton resume 01kdyabkw0000e485875xhvkdf`; or `--failed WHY` if you cannot do it
    ");
    cmd_snapshot!(project.piton(["resume", "--retry"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: step `write` needs another kind of answer

    hint: do it, then `piton resume 01kdyabkw0000e485875xhvkdf`; or `--failed WHY` if you cannot do it
    ");
    let ran = project.piton(["approve", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["error"]["code"]),
        (Some(2), &Value::from("WRONG_ANSWER")),
        "{ran}"
    );
    assert_eq!(
        project.piton(["status", "--format", "json"]).json()["status"],
        "waiting"
    );
}

#[test]
fn a_result_that_is_no_json() {
    cmd_snapshot!(waiting().piton(["resume", "--result", "{pages: 2}"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `{pages: 2}` is not JSON: key must be a string at line 1 column 2

    hint: write e.g. '{"count": 3}', in quotes for the shell
    "#);
}

#[test]
fn paths_that_are_not_there_or_elsewhere() {
    let project = waiting();
    cmd_snapshot!(project.piton(["resume", "--paths", "nowhere.txt"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no file or folder `nowhere.txt`

    hint: see what has changed with `git status`
    ");
    cmd_snapshot!(project.piton(["resume", "--paths", "/etc"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `/etc` is outside of the work tree

    hint: use paths inside the work tree
    ");
    assert_eq!(
        project.piton(["status", "--format", "json"]).json()["status"],
        "waiting"
    );
}

#[test]
fn a_folder_without_items() {
    cmd_snapshot!(TestProject::new().piton(["run", "hello"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `hello` does not exist

    hint: those of a project live in `.ai/directives/`, those of a user in `~/.ai/directives/`; `piton init` creates an example
    ");
}

#[test]
fn a_directive_that_does_not_exist() {
    let project = directive("release", "", &call("a", "add", "", "a"))(project()).committed();
    cmd_snapshot!(project.piton(["run", "relaese"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `relaese` does not exist

    hint: did you mean `release`?
    ");
    cmd_snapshot!(project.piton(["run", "add"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `add` does not exist

    hint: there is a tool `add`
    ");
    cmd_snapshot!(project.piton(["run", "release", "--format", "json", "--checkpoint", "always"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    {"error":{"code":"USAGE","message":"invalid value 'always' for '--checkpoint <MODE>': choose `auto`, `explicit` or `disabled`","suggestion":"see `piton --help`"}}
    ----- stderr -----
    "#);
}

#[test]
fn a_directive_with_mistakes_names_them() {
    let wrong = directive(
        "wrong",
        "",
        "<step name=\"a\"><execute item_type=\"tool\"/></step>",
    );
    let calls = directive(
        "calls",
        "",
        "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"wrong\"/></step>",
    );
    let project = calls(wrong(project())).committed();
    cmd_snapshot!(project.piton(["run", "wrong"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: item_id is required [MISSING_REQUIRED_FIELD]
     --> .ai/directives/wrong.md:10:16
    hint: add item_id="…" to `<execute>`
    error: directive `wrong` is invalid, so its permissions are unknown

    hint: correct the file; `piton validate` checks all of them
    "#);
    cmd_snapshot!(project.piton(["run", "calls"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: item_id is required [MISSING_REQUIRED_FIELD]
     --> .ai/directives/wrong.md:10:16
    hint: add item_id="…" to `<execute>`
    error: step `sub` cannot be run
      caused by: directive `wrong` is invalid, so its permissions are unknown
     --> .ai/directives/calls.md:10:1

    hint: correct the file; `piton validate` checks all of them
    "#);
    cmd_snapshot!(project.piton(["run", "wrong", "--format", "json"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    {"error":{"code":"INVALID_ITEM","message":"directive `wrong` is invalid, so its permissions are unknown","suggestion":"correct the file; `piton validate` checks all of them","findings":[{"code":"MISSING_REQUIRED_FIELD","severity":"error","file":".ai/directives/wrong.md","line":10,"column":16,"path":"process.step[0].execute.item_id","message":"item_id is required","suggestion":"add item_id=\"…\" to `<execute>`"}]}}
    ----- stderr -----
    "#);
}

#[test]
fn inputs_that_do_not_fit() {
    let project = directive("adds", "", &call("a", "add", "", "a"))(project()).committed();
    let text = project
        .read(".ai/directives/adds.md")
        .replace("default=\"world\"", "required=\"true\"");
    let project = project.file(".ai/directives/adds.md", text);
    cmd_snapshot!(project.piton(["run", "adds"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `adds@1.0.0` cannot be run with these inputs: missing input `who`

    hint: give them with `--input NAME=VALUE`; `piton directive show adds` lists them
    ");
    cmd_snapshot!(project.piton(["run", "adds", "--input", "whom=Ada"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: directive `adds@1.0.0` cannot be run with these inputs: unknown input `whom`

    hint: did you mean `who`?
    ");
    cmd_snapshot!(project.piton(["run", "adds", "--inputs", "nothing.yaml"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot read `nothing.yaml`
      caused by: No such file or directory (os error 2)

    hint: name a file or folder that exists; paths are relative to the current folder
    ");
    cmd_snapshot!(project.piton(["run", "adds", "--input", "who=Ada", "--agent-cmd", "'open"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `'open` is not a command line

    hint: name a program and close every quote, e.g. `--agent-cmd 'my-agent --print'`
    ");
}

#[test]
fn another_run_while_one_waits() {
    let project = waiting();
    cmd_snapshot!(project.piton(["run", "words"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    warning: not signed: words (`piton sign words`)
    error: run `01kdyabkw0000e485875xhvkdf` of `words` is unfinished here: it waits in step `write`

    hint: `piton status 01kdyabkw0000e485875xhvkdf` shows it, `piton resume 01kdyabkw0000e485875xhvkdf` continues it, `piton cancel 01kdyabkw0000e485875xhvkdf` ends it; or use a separate worktree with `--worktree`
    ");
    cmd_snapshot!(project.piton(["status"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    words@1.0.0  run 01kdyabkw0000e485875xhvkdf  waiting
      step 1 of 1 (`write`)
      branch `main`

        1  write  waiting
    ----- stderr -----
    step `write` waits for you:

        Write for world into words.txt.

    hint: do it, then `piton resume 01kdyabkw0000e485875xhvkdf`; or `--failed WHY` if you cannot do it
    ");
}

#[test]
fn the_last_line_of_json_is_the_end_of_the_run_or_why_there_is_none() {
    let failing = directive("fails", AUTO, &call("a", "fail", "", ""));
    let wrong = directive(
        "wrong",
        "",
        "<step name=\"a\"><execute item_type=\"tool\"/></step>",
    );
    let words = directive("words", AUTO, PROSE);
    let project = words(wrong(failing(project()))).committed();
    for (arguments, status, code) in [
        (["run", "nothing"], 2, "DIRECTIVE_NOT_FOUND"),
        (["run", "wrong"], 2, "INVALID_ITEM"),
        (["resume", "zzzz"], 2, "NOT_FOUND"),
        (["status", "zzzz"], 2, "NOT_FOUND"),
        (["cancel", "zzzz"], 2, "NOT_FOUND"),
    ] {
        let ran = project.piton([&arguments[..], &["--format", "json"]].concat());
        assert_eq!(
            (ran.code(), &ran.last_json()["error"]["code"]),
            (Some(status), &Value::from(code)),
            "{ran}"
        );
        assert!(ran.last_json()["error"]["suggestion"].is_string(), "{ran}");
    }
    let ran = project.piton(["run", "fails", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["type"]),
        (Some(1), &Value::from("run_finished")),
        "{ran}"
    );
    assert_eq!(ran.last_json()["status"], "failed");
    let ran = project.piton(["run", "words", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["type"]),
        (Some(4), &Value::from("run_finished")),
        "{ran}"
    );
    let ran = project.piton(["run", "words", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["error"]["code"]),
        (Some(5), &Value::from("RUN_WAITS")),
        "{ran}"
    );
    let ran = project.piton(["cancel", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["type"]),
        (Some(0), &Value::from("run_finished")),
        "{ran}"
    );
    assert_eq!(ran.last_json()["status"], "cancelled");
}
