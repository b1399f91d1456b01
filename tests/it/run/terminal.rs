//! The output at a real terminal.

use std::path::Path;

use super::{assert_sound, call, directive, project, subjects};
use crate::harness::{TestProject, cmd_snapshot};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

/// Runs a program in its own terminal: waits for texts, one after the other, and answers each by
/// typing something or by creating a file.
const TERMINAL: &str = "import json, os, sys\n\
    talk = json.loads(sys.argv[1])\n\
    pid, fd = os.forkpty()\n\
    if pid == 0: os.execv(sys.argv[2], sys.argv[2:])\n\
    seen, at = '', 0\n\
    while True:\n    try: part = os.read(fd, 65536)\n    except OSError: break\n    \
    if not part: break\n    seen += part.decode(errors='replace')\n    \
    while talk and talk[0][0] in seen[at:]:\n        \
    at = seen.index(talk[0][0], at) + len(talk[0][0])\n        \
    word, how, what = talk.pop(0)\n        \
    os.write(fd, what.encode()) if how == 'type' else open(what, 'w').close()\n\
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n\
    sys.stdout.write(seen)\nsys.exit(status)";

pub(crate) struct Session {
    pub(crate) status: Option<i32>,
    pub(crate) seen: String,
}

pub(crate) fn at_a_terminal(
    project: &TestProject,
    talk: &serde_json::Value,
    arguments: &[&str],
) -> Session {
    let talk = talk.to_string();
    let mut command = project.command_under("python3", ["-I", "-c", TERMINAL, &talk]);
    let output = command.args(arguments).output().expect("python3 starts");
    Session {
        status: output.status.code(),
        seen: String::from_utf8(output.stdout).expect("UTF-8"),
    }
}

impl Session {
    /// The final screen content, without colours and times.
    fn screen(&self) -> String {
        let text = regex(r"\x1b\[[0-9;]*m")
            .replace_all(&self.seen, "")
            .replace("\r\n", "\n");
        let lines = text
            .split('\n')
            .map(|line| line.rsplit("\r\x1b[2K").next().unwrap_or_default());
        let text = lines.collect::<Vec<_>>().join("\n");
        assert!(!text.contains(['\r', '\x1b']), "{:?}", self.seen);
        let text = regex(r"\b[0-9a-f]{10}\b")
            .replace_all(&text, "[SHA]")
            .into_owned();
        let text = regex(r"\b\w{26}\b")
            .replace_all(&text, "[RUN]")
            .into_owned();
        regex(r"\b\d+\.\d s\b")
            .replace_all(&text, "[TIME]")
            .into_owned()
    }
}

fn regex(pattern: &str) -> regex::Regex {
    regex::Regex::new(pattern).expect("a pattern")
}

/// A tool that prints something, and continues when a file exists.
fn slow(go: &Path) -> impl Fn(TestProject) -> TestProject + use<> {
    let script = format!(
        "printf 'half a ' >&2; echo line >&2; until [ -e '{}' ]; do sleep 0.02; done; echo x >> out.txt",
        go.display()
    );
    move |project| {
        directive("waits", AUTO, &call("slow", "slow", "", ""))(project.tool("slow", "", &script))
            .committed()
    }
}

#[test]
fn the_running_step_is_shown_live_and_gone_at_the_end() {
    let project = project().variable("TERM", "xterm");
    let go = project.home().join("go");
    let project = slow(&go)(project);
    let talk = serde_json::json!([["slow  ", "make", go]]);
    let session = at_a_terminal(&project, &talk, &["run", "waits"]);
    assert_eq!(session.status, Some(0), "{}", session.seen);
    assert!(
        session.seen.contains('⠋') && session.seen.contains("\x1b[36m"),
        "{:?}",
        session.seen
    );
    insta::assert_snapshot!(session.screen(), @"
    warning: not signed: slow, waits (`piton sign slow waits`)
    half a line
    ✓ slow  [SHA] chore: update `out.txt` by `slow` (1 file, +1 −0)  [TIME]
    ✓ waits succeeded: 1 step, 1 commit, [TIME] (run [RUN])
    ");
    assert_sound(&project);
}

#[test]
fn the_live_line_has_no_colour_if_colours_are_off() {
    let project = project()
        .variable("TERM", "xterm")
        .variable("NO_COLOR", "1");
    let go = project.home().join("go");
    let project = slow(&go)(project);
    let talk = serde_json::json!([["slow  ", "make", go]]);
    let session = at_a_terminal(&project, &talk, &["run", "waits"]);
    assert_eq!(session.status, Some(0), "{}", session.seen);
    assert!(session.seen.contains('⠋'), "{:?}", session.seen);
    assert!(
        !regex(r"\x1b\[[0-9;]*m").is_match(&session.seen),
        "{:?}",
        session.seen
    );
}

#[test]
fn a_terminal_that_cannot_erase_has_no_live_line() {
    for (name, value, more) in [
        ("TERM", "dumb", "--color=auto"),
        ("TERM", "xterm", "--quiet"),
    ] {
        let project = project().variable(name, value);
        let go = project.home().join("go");
        let project = slow(&go)(project);
        let talk = serde_json::json!([["half a line", "make", go]]);
        let session = at_a_terminal(&project, &talk, &["run", "waits", more]);
        assert_eq!(session.status, Some(0), "{}", session.seen);
        assert!(!session.seen.contains('\x1b'), "{:?}", session.seen);
        assert!(
            !session.seen.replace("\r\n", "\n").contains('\r'),
            "{:?}",
            session.seen
        );
    }
}

#[test]
fn an_interrupt_leaves_a_clean_line() {
    let project = project().variable("TERM", "xterm");
    let go = project.home().join("never");
    let project = slow(&go)(project);
    let talk = serde_json::json!([["slow  ", "type", "\u{3}"]]);
    let session = at_a_terminal(&project, &talk, &["run", "waits"]);
    assert_eq!(session.status, Some(130), "{}", session.seen);
    insta::assert_snapshot!(session.screen(), @"
    warning: not signed: slow, waits (`piton sign slow waits`)
    half a line
    ✗ slow  [TIME]
    ✗ waits was cancelled: 1 step, 0 commits, [TIME] (run [RUN])
    error: tool `slow` was interrupted [INTERRUPTED]
    hint: `piton show [RUN]` shows what it did, `piton resume [RUN]` restarts at the failed step
    ");
    assert_eq!(project.read("out.txt"), "first\n");
    assert_sound(&project);
}

#[test]
fn each_change_is_shown_and_a_person_decides_about_it() {
    let steps = ["a", "b", "c", "d"].map(|name| call(name, "add", "on_failure=\"continue\"", name));
    let project =
        directive("asks", AUTO, &steps.concat())(project().variable("TERM", "xterm")).committed();
    let question = "or [w]ait? ";
    let talk = serde_json::json!([
        [question, "type", "what?\n"],
        [question, "type", "k\n"],
        [question, "type", "u\n"],
        [question, "type", "e\n"],
        ["message: ", "type", "docs: my words\n"],
        [question, "type", "w\n"],
    ]);
    let session = at_a_terminal(&project, &talk, &["run", "asks", "--ask"]);
    assert_eq!(session.status, Some(4), "{}", session.seen);
    insta::assert_snapshot!(session.screen(), @"
    warning: not signed: add, asks (`piton sign add asks`)
    diff --git a/out.txt b/out.txt
    index [SHA]..[SHA] 100644
    --- a/out.txt
    +++ b/out.txt
    @@ -1 +1,2 @@
     first
    +a
    step `a`: [k]eep, [u]ndo, [e]dit the message, or [w]ait? what?
    step `a`: [k]eep, [u]ndo, [e]dit the message, or [w]ait? k
    ✓ step 1/4  a  [SHA] chore: update `out.txt` by `a` (1 file, +1 −0)  [TIME]
    diff --git a/out.txt b/out.txt
    index [SHA]..[SHA] 100644
    --- a/out.txt
    +++ b/out.txt
    @@ -1,2 +1,3 @@
     first
     a
    +b
    step `b`: [k]eep, [u]ndo, [e]dit the message, or [w]ait? u
    ✗ step 2/4  b  rolled back 1 file  [TIME]
      a person rejected it; the run continues
    diff --git a/out.txt b/out.txt
    index [SHA]..[SHA] 100644
    --- a/out.txt
    +++ b/out.txt
    @@ -1,2 +1,3 @@
     first
     a
    +c
    step `c`: [k]eep, [u]ndo, [e]dit the message, or [w]ait? e
    message: docs: my words
    ✓ step 3/4  c  [SHA] docs: my words (1 file, +1 −0)  [TIME]
    diff --git a/out.txt b/out.txt
    index [SHA]..[SHA] 100644
    --- a/out.txt
    +++ b/out.txt
    @@ -1,3 +1,4 @@
     first
     a
     c
    +d
    step `d`: [k]eep, [u]ndo, [e]dit the message, or [w]ait? w
    step `d` waits for a decision about its changes: `piton diff` shows them
    hint: `piton approve [RUN]` keeps the changes, `piton reject [RUN]` rolls them back
    ");
    assert_eq!(
        subjects(&project),
        ["docs: my words", "chore: update `out.txt` by `a`"]
    );
    assert_eq!(project.read("out.txt"), "first\na\nc\nd\n");
    let ran = project.piton(["approve", "--yes"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_sound(&project);
}

#[test]
fn a_pipe_gets_plain_lines() {
    let inner = directive("inner", "", &call("deep", "add", "", "deep"));
    let all = format!(
        "{}{}{}{}{}",
        call("list", "list", "", ""),
        call(
            "each",
            "add",
            "foreach=\"{step:list.names}\"",
            "{input:item}"
        ),
        call("never", "add", "when=\"1 == 2\"", "x"),
        "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"/></step>",
        call("again", "fail", "retry=\"1\" on_failure=\"continue\"", ""),
    );
    let project = directive("many", AUTO, &all)(inner(project()))
        .committed()
        .ticking();
    cmd_snapshot!(project.piton(["run", "many"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    warning: not signed: add, fail, inner, list, many (`piton sign add fail inner list many`)
    ✓ list
    ✓ each[0]  [SHA] chore: update `out.txt` by `each[0]` (1 file, +1 −0)
    ✓ each[1]  [SHA] chore: update `out.txt` by `each[1]` (1 file, +1 −0)
    ✓ each[2]  [SHA] chore: update `out.txt` by `each[2]` (1 file, +1 −0)
    - never  skipped: `1 == 2` is false
    > sub  directive inner@1.0.0
    ✓ sub/deep  [SHA] chore: update `out.txt` by `sub/deep` (1 file, +1 −0)
    ✗ again  rolled back 2 files
      tool `fail` exited with status 3; trying again
    ✗ again (attempt 2)  changed 2 files, +2 −5, kept
      tool `fail` exited with status 3; the run continues
    warning: changed and not committed: `new.txt`, `out.txt`
    hint: `piton checkpoint` commits uncommitted changes of steps, `piton undo` reverts them
    ✓ many succeeded: 7 steps, 4 commits (run 01kdyabkw0000e485875xhvkdf)
    ");
    cmd_snapshot!(project.piton(["run", "many", "--checkpoint", "explicit"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    warning: not signed: add, fail, inner, list, many (`piton sign add fail inner list many`)
    ✓ list
    ✓ each[0]  changed 1 file, +1 −0, not committed yet
    ✓ each[1]  changed 1 file, +1 −0, not committed yet
    ✓ each[2]  changed 1 file, +1 −0, not committed yet
    - never  skipped: `1 == 2` is false
    > sub  directive inner@1.0.0
    ✓ sub/deep  changed 1 file, +1 −0, not committed yet
    ✗ again  rolled back 1 file
      tool `fail` exited with status 3; trying again
    ✗ again (attempt 2)  changed 1 file, +0 −4, kept
      tool `fail` exited with status 3; the run continues
    ✓ many succeeded: 7 steps, 0 commits (run 01kdyadef0fgz2syhf4d156af1)
    ");
    let ran = project.piton(["log", "--format", "json"]);
    let runs: Vec<serde_json::Value> = ran
        .stdout()
        .lines()
        .map(|it| serde_json::from_str(it).expect("JSON"))
        .collect();
    let id = runs
        .last()
        .and_then(|run| run["id"].as_str())
        .expect("a run");
    cmd_snapshot!(project.piton(["show", id]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    run           01kdyabkw0000e485875xhvkdf
    what          directive many@1.0.0
    when          2026-01-02 03:00:01
    started as    piton run many
    inputs        who = "world"
    mode          auto
    status        succeeded
    where         branch `main`
    uncommitted   `new.txt`, `out.txt`

        1  list      succeeded  no changes
        2  each[0]   succeeded  [SHA]  1 file, +1 −0
        3  each[1]   succeeded  [SHA]  1 file, +1 −0
        4  each[2]   succeeded  [SHA]  1 file, +1 −0
        5  sub/deep  succeeded  [SHA]  1 file, +1 −0
        6  again     failed     rolled back  2 files, +2 −5
        7  again     failed     on disk  2 files, +2 −5
        -  never     skipped    `1 == 2` is false
    ----- stderr -----
    hint: `piton show 01kdyabkw0000e485875xhvkdf/1` shows a step and what it changed
    "#);
    cmd_snapshot!(project.piton(["show", &format!("{id}/6"), "--no-diff"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    step          01kdyabkw0000e485875xhvkdf/6
    name          again
    what          tool fail → bash_runtime → subprocess
    when          2026-01-02 03:01:26
    started as    piton run many
    directive     many@1.0.0
    tool          fail@1.0.0
    mode          auto
    permissions   <execute resource="tool" id="fail"/> by <execute resource="tool" id="*"/> in `many`, enforced: broker
                  <write resource="filesystem" path="**"/> by <write resource="filesystem" path="**"/> in `many`, enforced: after_the_fact
    isolation     standard
    exit code     3
    stdout        0 bytes, sha256:[HASH]
    stderr        0 bytes, sha256:[HASH]
    status        failed
    failure       tool `fail` exited with status 3 [TOOL_FAILED]
    outcome       rolled back  2 files, +2 −5
    ----- stderr -----
    "#);
}

#[test]
fn a_plan_shows_every_step_and_writes_nothing() {
    let hook = "<hooks><hook><when>error.code == \"TOOL_FAILED\"</when><directive>inner</directive></hook></hooks>\
                <limits><steps>20</steps></limits>";
    let inner = directive("inner", "", &call("deep", "add", "", "for {input:who}"));
    let all = format!(
        "{}{}{}{}{}{}",
        call("list", "list", "timeout=\"5\"", ""),
        call(
            "each",
            "add",
            "foreach='[\"x\", \"y\"]' as=\"name\"",
            "{input:name}"
        ),
        call(
            "late",
            "add",
            "when=\"{step:list.count} == 3\" retry=\"2\" on_failure=\"keep\"",
            "{step:list.count}"
        ),
        "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"><param name=\"who\" value=\"{input:who}\"/>\
         </execute></step><step name=\"keep\"><checkpoint operation=\"all of it\"/></step>",
        "<step name=\"words\"><action>Write for {input:who}.</action><verification><check>it is there</check>\
         </verification></step>",
        "<step name=\"look\"><checkpoint type=\"human-verify\" gate=\"blocking\">Is it fine?</checkpoint></step>",
    );
    let project = directive("plan", hook, &all)(inner(project()))
        .committed()
        .ticking();
    // No journal, lock, marker or tool environment.
    let everything =
        "find . \"$HOME\" \"$TMPDIR\" -not -path './.git/index*' | sort; git for-each-ref";
    let before = project.bash(everything);
    cmd_snapshot!(project.piton(["run", "plan", "--dry-run"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    plan@1.0.0  The directive plan
      checkpoints     explicit: only checkpoint steps commit
      inputs          who = "world"
      limits          steps 20

    1. list  tool list
         timeout         [TIME]
         runs            bash [PROJECT]/.ai/tools/list/run.sh
         isolation       standard
         allowed         <execute resource="tool" id="list"/>  # <execute resource="tool" id="*"/> in `plan`, enforced: broker
                         <write resource="filesystem" path="**"/>  # in `plan`, enforced: after_the_fact

    2. each  tool add
         for each of     ["x", "y"]: x, y (2 times)
         with            text = "x"
         runs            bash [PROJECT]/.ai/tools/add/run.sh
         isolation       standard
         allowed         <execute resource="tool" id="add"/>  # <execute resource="tool" id="*"/> in `plan`, enforced: broker
                         <write resource="filesystem" path="**"/>  # in `plan`, enforced: after_the_fact

    3. late  tool add
         only when       {step:list.count} == 3
         retries         2 ([TIME] pause, doubled each time)
         on failure      keep: its changes stay, the run stops
         with            text = "{step:list.count}"
         filled in later {step:list.count}
         runs            bash [PROJECT]/.ai/tools/add/run.sh
         isolation       standard
         allowed         <execute resource="tool" id="add"/>  # <execute resource="tool" id="*"/> in `plan`, enforced: broker
                         <write resource="filesystem" path="**"/>  # in `plan`, enforced: after_the_fact

    4. sub  directive inner
         with            who = "world"

       5. sub/deep  tool add
            with            text = "for world"
            runs            bash [PROJECT]/.ai/tools/add/run.sh
            isolation       standard
            allowed         <execute resource="tool" id="add"/>  # <execute resource="tool" id="*"/> in `plan`, <execute resource="tool" id="*"/> in `inner`, enforced: broker
                            <write resource="filesystem" path="**"/>  # in `plan`, enforced: after_the_fact
                            <write resource="filesystem" path="**"/>  # in `inner`, enforced: after_the_fact

    6. keep  checkpoint: all of it

    7. words  manual step
         task            Write for world.
         afterwards      it is there
         done by         you: the run waits for `piton resume`
         may write       ** (plan), !secret/** (plan)  # enforced: after_the_fact

    8. look  a person decides
         question        Is it fine?
         done by         a person, with `piton approve` or `reject` (human-verify)

    hook  directive inner
         only when       error.code == "TOOL_FAILED"

       9. hook:inner/deep  tool add
            with            text = "for world"
            runs            bash [PROJECT]/.ai/tools/add/run.sh
            isolation       standard
            allowed         <execute resource="tool" id="add"/>  # <execute resource="tool" id="*"/> in `plan`, <execute resource="tool" id="*"/> in `inner`, enforced: broker
                            <write resource="filesystem" path="**"/>  # in `plan`, enforced: after_the_fact
                            <write resource="filesystem" path="**"/>  # in `inner`, enforced: after_the_fact
    ----- stderr -----
    warning: not signed: add, inner, list, plan (`piton sign add inner list plan`)
    ✓ nothing was changed; the run can start
    "#);
    let ran = project.piton([
        "run",
        "plan",
        "--dry-run",
        "--agent-cmd",
        "my-agent --print",
        "-v",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stdout().contains("done by         `my-agent --print`"),
        "{ran}"
    );
    assert!(ran.stdout().contains("action.environment.PATH"), "{ran}");
    let plan = project
        .piton(["run", "plan", "--dry-run", "--format", "json"])
        .json();
    assert_eq!(plan["steps"][1]["elements"], serde_json::json!(["x", "y"]));
    assert_eq!(plan["steps"][3]["steps"][0]["name"], "sub/deep");
    assert_eq!(plan["hooks"][0]["steps"][0]["name"], "hook:inner/deep");
    assert_eq!(plan["limits"][0]["name"], "steps");
    assert_eq!(project.bash(everything), before);
}

#[test]
fn a_plan_that_would_be_denied_or_fail_says_so() {
    let narrow = "# narrow\n\n```xml\n<directive name=\"narrow\" version=\"1.0.0\"><metadata><description>d</description>\
        <permissions><write resource=\"filesystem\" path=\"docs/**\"/></permissions></metadata><process>\
        <step name=\"a\"><execute item_type=\"tool\" item_id=\"add\"/></step></process></directive>\n```\n";
    let wrong = call("a", "add", "", "").replace("<execute", "<execute command=\"nope\"");
    let project =
        directive("wrong", "", &wrong)(project().file(".ai/directives/narrow.md", narrow))
            .committed();
    cmd_snapshot!(project.piton(["run", "narrow", "--dry-run"]), @r#"
    success: false
    exit_code: 3
    ----- stdout -----
    narrow@1.0.0  d
      checkpoints     explicit: only checkpoint steps commit

    1. a  tool add
         runs            bash [PROJECT]/.ai/tools/add/run.sh
         isolation       standard
         allowed         <write resource="filesystem" path="docs/**"/>  # in `narrow`, enforced: after_the_fact
         denied          directive `narrow` does not allow: run the tool `add`
                         add <execute resource="tool" id="add"/> to the <permissions> of `narrow`
    ----- stderr -----
    warning: not signed: add, narrow (`piton sign add narrow`)
    ✗ nothing was changed; a step would be denied
    error: step `a` will be denied: directive `narrow` does not allow: run the tool `add` [MISSING_GRANT]
     --> .ai/directives/narrow.md:4:172
    hint: add <execute resource="tool" id="add"/> to the <permissions> of `narrow`
    "#);
    cmd_snapshot!(project.piton(["run", "wrong", "--dry-run"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    wrong@1.0.0  The directive wrong
      checkpoints     explicit: only checkpoint steps commit
      inputs          who = "world"

    1. a  tool add
         would fail      tool `add` has no command `nope` [UNKNOWN_COMMAND]
                         leave the command out
    ----- stderr -----
    warning: not signed: add, wrong (`piton sign add wrong`)
    ✗ nothing was changed; a step would fail
    "#);
}
