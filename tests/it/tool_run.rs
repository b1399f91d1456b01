//! `piton tool run` with the real interpreters, in a real repository.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{TestProject, cmd_snapshot};

/// Characters that are special for shells, templates and terminals, with newlines and unicode.
const ODD: &str = "a'b\"c $HOME `id` $(id) ; rm -rf ~ {x} {{y}} ${Z} %s \\n \n\t line two | & * ? é 漢字 🧗 \u{200d} \u{7f} -- -x=";

pub(crate) fn python(id: &str, more: &str, source: &str) -> impl Fn(TestProject) -> TestProject {
    let manifest = format!(
        "tool_id: {id}\ntool_type: script\nversion: \"1.0.0\"\ndescription: The tool {id}\n\
         executor: python_runtime\nconfig:\n  entrypoint: main.py\n{}\n",
        more.trim_end()
    );
    let (id, source) = (id.to_owned(), source.to_owned());
    move |project| {
        project
            .file(&format!(".ai/tools/{id}/tool.yaml"), &manifest)
            .file(&format!(".ai/tools/{id}/main.py"), &source)
    }
}

/// Waits until `is_so` is true; a generous limit detects a hang.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes whose command line contains a unique word.
pub(crate) fn processes_with(word: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_meant = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word) && !state.contains(") Z ")
    };
    ids.filter(is_meant).collect()
}

#[test]
fn a_bash_tool_in_auto_mode_becomes_a_commit_with_its_name() {
    let project = TestProject::new()
        .tool(
            "scribble",
            "mutates_state: true",
            "echo two >> notes.txt; echo '{\"lines\": 2}'",
        )
        .file("notes.txt", "one\n")
        .file("mine.txt", "mine\n")
        .committed()
        .ticking()
        .file("mine.txt", "mine, changed\n");
    cmd_snapshot!(project.piton(["tool", "run", "scribble", "--checkpoint", "auto"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {"lines": 2}
    ----- stderr -----
    warning: not signed: scribble (`piton sign scribble`)
    ✓ committed [SHA] chore: update `notes.txt` by `scribble` (1 file, +1 −0)
    "#);
    assert_eq!(
        project
            .git(["log", "-1", "--format=%(trailers:key=Piton-Tool,valueonly)"])
            .trim(),
        "scribble@1.0.0"
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn the_last_line_of_json_is_the_result() {
    let project = TestProject::new()
        .tool(
            "scribble",
            "",
            "echo two >> notes.txt; echo talk >&2; echo '{\"lines\": 2}'",
        )
        .committed()
        .ticking();
    let ran = project.piton([
        "tool",
        "run",
        "scribble",
        "--format",
        "json",
        "--checkpoint",
        "auto",
    ]);
    let mut result = ran.last_json();
    for field in ["execution_time_ms", "run_id", "permissions", "unsigned"] {
        assert!(
            result
                .as_object_mut()
                .expect("an object")
                .remove(field)
                .is_some(),
            "{field}: {ran}"
        );
    }
    result["checkpoint"]["commit_sha"].take();
    assert_eq!(
        result,
        json!({
            "tool_id": "scribble",
            "action": "run",
            "status": "success",
            "result": {"lines": 2},
            "output_path": ".ai/outputs/tools/scribble/output_20260102_030012.json",
            "checkpoint": {"status": "committed", "commit_sha": null, "files_changed": 1, "insertions": 1, "deletions": 0},
            "exit_code": 0,
            "stderr": "talk\n"
        })
    );
    let saved: Value = serde_json::from_str(
        &project.read(".ai/outputs/tools/scribble/output_20260102_030012.json"),
    )
    .expect("JSON");
    assert_eq!(saved["result"], json!({"lines": 2}));
    project.assert_clean();
}

#[test]
fn explicit_mode_keeps_the_changes_and_says_how_to_commit_them() {
    let project = TestProject::new()
        .tool("scribble", "", "echo two >> notes.txt")
        .committed()
        .ticking();
    let result = project
        .piton(["tool", "run", "scribble", "--format", "json"])
        .last_json();
    assert_eq!(result["checkpoint_recommended"], json!(true));
    assert_eq!(
        result["checkpoint_hint"],
        json!(
            "This tool mutates state. Consider running git_checkpoint directive: execute(item_type='directive', \
             action='run', item_id='git_checkpoint', parameters={'operation': 'scribble'})"
        )
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? notes.txt\n");
    assert_eq!(project.piton(["checkpoint"]).code(), Some(0));
    project.assert_clean();
}

#[test]
fn a_failing_tool_is_rolled_back_in_auto_mode_and_stays_in_explicit_mode() {
    let project = TestProject::new()
        .tool(
            "scribble",
            "",
            "echo two >> notes.txt; rm gone.txt; echo why >&2; exit 3",
        )
        .file("notes.txt", "one\n")
        .file("gone.txt", "here\n")
        .committed()
        .ticking();
    cmd_snapshot!(project.piton(["tool", "run", "scribble", "--checkpoint", "auto"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: scribble (`piton sign scribble`)
    why
    ✗ rolled back 2 files
    error: tool `scribble` exited with status 3 [TOOL_FAILED]
    hint: its output is saved in `.ai/outputs/tools/scribble/output_[TIME].json`
    ");
    project.assert_clean();
    cmd_snapshot!(project.piton(["tool", "run", "scribble"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: scribble (`piton sign scribble`)
    why
    the tool failed; its changes stay; `piton undo` reverts them
    error: tool `scribble` exited with status 3 [TOOL_FAILED]
    hint: its output is saved in `.ai/outputs/tools/scribble/output_[TIME].json`
    ");
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " D gone.txt\n M notes.txt\n"
    );
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    project.assert_clean();
}

#[test]
fn parameters_arrive_byte_for_byte_in_bash() {
    let script = "printf %s \"$PITON_PARAM_TEXT\" > by_variable; cat > by_input";
    let parameters = "parameters:\n  - {name: text, type: string, required: true}";
    let project = TestProject::new()
        .tool("keep", parameters, script)
        .committed();
    let ran = project.piton(["tool", "run", "keep", "--param", &format!("text={ODD}")]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("by_variable"), ODD);
    assert_eq!(
        serde_json::from_str::<Value>(&project.read("by_input")).expect("JSON"),
        json!({"text": ODD})
    );
}

#[test]
fn parameters_arrive_byte_for_byte_in_python() {
    let source =
        "def main(text: str) -> dict:\n    print('noise {not} json')\n    return {'text': text}\n";
    let project = python("keep", "", source)(TestProject::new()).committed();
    let ran = project.piton([
        "tool",
        "run",
        "keep",
        "--format",
        "json",
        "--param",
        &format!("text={ODD}"),
    ]);
    assert_eq!(ran.last_json()["result"], json!({"text": ODD}), "{ran}");
    assert_eq!(ran.last_json()["stdout"], json!("noise {not} json\n"));
}

#[test]
fn parameters_arrive_byte_for_byte_in_node() {
    let manifest = "tool_id: keep\ntool_type: script\nversion: \"1.0.0\"\ndescription: Keeps\nexecutor: node_runtime\n\
                    config:\n  entrypoint: keep.js\nparameters:\n  - {name: text, type: string, required: true}\n";
    let source = "const input = require('fs').readFileSync(0, 'utf8');\n\
                  console.log(JSON.stringify([JSON.parse(input).text, process.env.PITON_PARAM_TEXT]));\n";
    let project = TestProject::new()
        .file(".ai/tools/keep/tool.yaml", manifest)
        .file(".ai/tools/keep/keep.js", source)
        .committed();
    let ran = project.piton([
        "tool",
        "run",
        "keep",
        "--format",
        "json",
        "--param",
        &format!("text={ODD}"),
    ]);
    assert_eq!(ran.last_json()["result"], json!([ODD, ODD]), "{ran}");
}

#[test]
fn parameters_arrive_byte_for_byte_in_an_installed_program() {
    let manifest = "tool_id: keep\ntool_type: cli\nversion: \"1.0.0\"\ndescription: Keeps\nexecutor: subprocess\n\
                    config:\n  executable: printf\n  args: ['%s|']\nparameters:\n  - {name: text, type: string, required: true}\n";
    let project = TestProject::new()
        .file(".ai/tools/keep.yaml", manifest)
        .committed();
    let ran = project.piton([
        "tool",
        "run",
        "keep",
        "--format",
        "json",
        "--param",
        &format!("text={ODD}"),
    ]);
    assert_eq!(
        ran.last_json()["result"],
        json!({"stdout": format!("--text|{ODD}|")}),
        "{ran}"
    );
}

#[test]
fn a_tool_that_writes_outside_its_promise_is_rolled_back_with_exit_3() {
    let project = TestProject::new()
        .tool(
            "stray",
            "writes: ['docs/**']",
            "mkdir -p docs; echo x > docs/a.md; echo x > outside.txt; echo y >> notes.txt",
        )
        .file("notes.txt", "one\n")
        .committed()
        .ticking();
    cmd_snapshot!(project.piton(["tool", "run", "stray", "--checkpoint", "auto"]), @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    warning: not signed: stray (`piton sign stray`)
    ✗ rolled back 3 files
    error: the step changed files that it may not change: `notes.txt`, `outside.txt` [WRITE_DENIED]
    hint: the tool `stray@1.0.0` says that it writes `docs/**`; add `notes.txt` to `writes`; `piton restore 01kdyabkw0000e485875xhvkdf/1` restores the changes
    ");
    project.assert_clean();
    assert!(!project.root().join("docs").exists());
    let result = project
        .piton(["tool", "run", "stray", "--format", "json"])
        .last_json();
    assert_eq!(result["status"], json!("denied"));
    assert_eq!(result["denied_paths"], json!(["notes.txt", "outside.txt"]));
    project.assert_clean();
}

#[test]
fn a_concurrent_edit_of_another_file_survives_a_denied_tool() {
    let project = TestProject::new()
        .tool(
            "stray",
            "writes: ['docs/**']",
            "echo x > outside.txt; echo ready > \"$TMPDIR/ready\"; while [ ! -e \"$TMPDIR/go\" ]; do sleep 0.02; done",
        )
        .file("theirs.txt", "theirs\n")
        .committed();
    let tmp = project.root().parent().expect("a sandbox").join("tmp");
    let mut child = project
        .command(["tool", "run", "stray", "--checkpoint", "auto"])
        .spawn()
        .expect("piton starts");
    until("the tool has written", || tmp.join("ready").exists());
    fs::write(
        project.root().join("theirs.txt"),
        "theirs, edited meanwhile\n",
    )
    .expect("a file");
    fs::write(project.root().join("theirs too.txt"), "new\n").expect("a file");
    fs::write(tmp.join("go"), "").expect("a file");
    assert_eq!(child.wait().expect("an end").code(), Some(3));
    assert!(!project.root().join("outside.txt").exists());
    assert_eq!(project.read("theirs.txt"), "theirs, edited meanwhile\n");
    assert_eq!(project.read("theirs too.txt"), "new\n");
}

#[test]
fn a_tool_that_hides_from_signals_is_gone_after_its_timeout() {
    let word = "hide_and_seek_1";
    let script = format!(
        "trap '' TERM INT HUP\npython3 -c '\nimport os, signal, sys, time\n\
         signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)\n\
         time.sleep(600)\n' {word}\nsleep 600"
    );
    let project = TestProject::new()
        .tool("hide", "timeout: 1", &script)
        .committed();
    let ran = project.piton([
        "tool",
        "run",
        "hide",
        "--format",
        "json",
        "--checkpoint",
        "disabled",
    ]);
    assert_eq!(ran.last_json()["code"], json!("TIMED_OUT"), "{ran}");
    assert_eq!(ran.code(), Some(1));
    assert_eq!(processes_with(word), BTreeSet::new());
}

#[test]
fn what_a_tool_started_is_gone_when_piton_is_killed() {
    let word = "hide_and_seek_2";
    let script = format!(
        "python3 -c '\nimport os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)\n\
         time.sleep(600)\n' {word}"
    );
    let project = TestProject::new().tool("hide", "", &script).committed();
    let mut child = project
        .command(["tool", "run", "hide", "--checkpoint", "auto"])
        .spawn()
        .expect("piton starts");
    until("the tool has forked", || processes_with(word).len() >= 2);
    child.kill().expect("killed");
    child.wait().expect("an end");
    until("everything is gone", || processes_with(word).is_empty());
}

#[test]
fn a_tool_that_talks_a_gigabyte_costs_little_memory() {
    let project = TestProject::new()
        .tool(
            "talk",
            "",
            "head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo the end",
        )
        .committed();
    let ran = project.limited([
        "tool",
        "run",
        "talk",
        "--format",
        "json",
        "--checkpoint",
        "disabled",
    ]);
    let result = ran.last_json();
    assert_eq!(result["status"], json!("success"));
    assert_eq!(result["truncated"], json!(true));
    let text = result["result"]["stdout"].as_str().expect("text");
    assert!(text.starts_with("xxxx") && text.ends_with("x\nthe end\n") && text.len() < 1_100_000);
}

#[test]
fn a_dry_run_shows_everything_and_does_nothing() {
    let more = "requires:\n  environment: [API_TOKEN]\nparameters:\n  - {name: text, type: string, default: hello}";
    let project = TestProject::new()
        .tool("keep", more, "touch ran")
        .committed()
        .variable("API_TOKEN", "s3cr3t-value-of-mine")
        .variable("PATH", "/usr/bin:/bin")
        .ticking();
    let ran = project.piton(["tool", "run", "keep", "--dry-run"]);
    cmd_snapshot!(ran, @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    chain: keep@1.0.0 → bash_runtime@1.0.0 → subprocess@1.0.0
    chain.keep: project, .ai/tools/keep/tool.yaml, unsigned
    chain.bash_runtime: built in
    chain.subprocess: built in
    parameters.text: "hello"  # default
    action.program: bash  # built in
    action.arguments[0]: [PROJECT]/.ai/tools/keep/run.sh  # keep, .ai/tools/keep/tool.yaml:7
    action.folder: [PROJECT]  # default
    action.environment.API_TOKEN: ***  # environment variable API_TOKEN
    action.environment.LANG: C.UTF-8  # environment variable LANG
    action.environment.PATH: /usr/bin:/bin  # environment variable PATH
    action.environment.PITON_PARAM_TEXT: hello  # parameter text
    action.environment.PITON_PROJECT: [PROJECT]  # piton
    action.environment.PYTHONDONTWRITEBYTECODE: 1  # default
    action.environment.TERM: dumb  # default
    action.environment.TMPDIR: [TMP]  # environment variable TMPDIR
    action.environment.TZ: UTC  # environment variable TZ
    action.input: 16 bytes
    action.script: [PROJECT]/.ai/tools/keep/run.sh (sha256 [HASH])
    action.limits.file_size: [SHA]  # default
    timeout: [TIME]  # default
    isolation: standard  # default
    requires.environment: API_TOKEN
    variables: API_TOKEN
    allowed: <execute resource="tool" id="keep"/>  # the person at the terminal, enforced: broker
    allowed: <env vars="API_TOKEN"/>  # the person at the terminal, enforced: broker
    ----- stderr -----
    "#);
    assert!(!project.root().join("ran").exists());
    let ran = project.piton(["tool", "run", "keep", "--dry-run", "--format", "json"]);
    assert!(!ran.stdout().contains("s3cr3t"), "{ran}");
    assert_eq!(project.piton(["log"]).stdout(), "");
}

#[test]
fn the_value_of_a_declared_variable_is_in_nothing_that_is_written() {
    let project = TestProject::new()
        .tool(
            "tell",
            "requires:\n  environment: [API_TOKEN]",
            "echo \"the token is $API_TOKEN\"; env >&2",
        )
        .committed()
        .variable("API_TOKEN", "s3cr3t-value-of-mine")
        .variable("UNDECLARED", "not-declared-by-the-tool");
    let ran = project.piton(["tool", "run", "tell", "--format", "json"]);
    let result = ran.last_json();
    assert_eq!(result["result"], json!({"stdout": "the token is ***\n"}));
    assert!(!ran.stdout().contains("s3cr3t"), "{ran}");
    assert!(!ran.stdout().contains("not-declared-by"), "{ran}");
    let saved = project.read(result["output_path"].as_str().expect("a path"));
    assert!(!saved.contains("s3cr3t"));
    let leaked = project
        .hermetic("grep", &project.root())
        .args(["-r", "s3cr3t", ".git"])
        .output()
        .expect("grep");
    assert_eq!(String::from_utf8_lossy(&leaked.stdout), "");
}

#[test]
fn everything_that_is_missing_is_listed_at_once() {
    let more = "requires:\n  commands: [no_such_program_1, bash, no_such_program_2]\n  environment: [NOT_SET_1]";
    let project = TestProject::new()
        .tool("needy", more, "touch ran")
        .committed()
        .ticking();
    cmd_snapshot!(project.piton(["tool", "run", "needy"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `needy` needs the commands `no_such_program_1`, `no_such_program_2` and the environment variable `NOT_SET_1`

    hint: install the commands and set the variables
    ");
    assert!(!project.root().join("ran").exists());
}

#[test]
fn wrong_parameters_exit_with_2_and_run_nothing() {
    let more = "parameters:\n  - {name: count, type: integer, required: true}\n  - {name: text, type: string}";
    let project = TestProject::new()
        .tool("keep", more, "touch ran")
        .committed()
        .ticking();
    for parameters in [
        vec![],
        vec!["count=many"],
        vec!["count=1", "txet=x"],
        vec!["count"],
        vec!["count=1", "count=2"],
    ] {
        let words = parameters.iter().flat_map(|word| ["--param", word]);
        let ran = project.piton(["tool", "run", "keep"].into_iter().chain(words));
        assert_eq!(ran.code(), Some(2), "{parameters:?} {ran}");
        assert!(ran.stderr().contains("hint: "), "{parameters:?} {ran}");
    }
    cmd_snapshot!(project.piton(["tool", "run", "keep", "--param", "count=many", "--param", "txet=x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `keep` cannot be called like this: parameter `count`: `many` is not an integer; unknown parameter `txet`

    hint: did you mean `text`?
    ");
    assert!(!project.root().join("ran").exists());
}

#[test]
fn a_tool_that_says_it_changes_nothing_is_believed_only_as_far_as_it_is_true() {
    let project = TestProject::new()
        .tool("liar", "mutates_state: false", "echo x > changed.txt")
        .committed()
        .ticking();
    let result = project
        .piton([
            "tool",
            "run",
            "liar",
            "--format",
            "json",
            "--checkpoint",
            "auto",
        ])
        .last_json();
    assert_eq!(result["undeclared_mutation"], json!(["changed.txt"]));
    assert_eq!(result["checkpoint"]["status"], json!("committed"));
    project.git(["rm", "--quiet", "changed.txt"]);
    project.git(["commit", "--quiet", "--message", "again"]);
    cmd_snapshot!(project.piton(["tool", "run", "liar", "--strict", "--checkpoint", "auto"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: liar (`piton sign liar`)
    ✗ rolled back 1 file
    error: the tool declares `mutates_state: false` but changed `changed.txt` [UNDECLARED_MUTATION]
    hint: if that is intended, set `mutates_state: true` in its manifest
    ");
    project.assert_clean();
}

#[test]
fn without_snapshots_piton_does_not_claim_to_check_writes() {
    let project = TestProject::new()
        .tool("stray", "writes: ['docs/**']", "echo x > outside.txt")
        .committed();
    let enforced = |mode: &str| {
        let ran = project.piton([
            "tool",
            "run",
            "stray",
            "--format",
            "json",
            "--checkpoint",
            mode,
            "--as",
            "may",
        ]);
        let result = ran.last_json();
        let permissions = result["permissions"].as_array().expect("a list").clone();
        let write = permissions.iter().find(|it| {
            it["need"]
                .as_str()
                .is_some_and(|need| need.starts_with("<write"))
        });
        (
            result["status"].clone(),
            write.map(|it| it["enforcement"].clone()),
        )
    };
    let directive = "# may\n\n```xml\n<directive name=\"may\" version=\"1.0.0\">\n  <metadata>\n    <permissions>\n      \
                     <execute resource=\"tool\" id=\"stray\"/>\n      <write resource=\"filesystem\" path=\"docs/**\"/>\n    \
                     </permissions>\n  </metadata>\n  <process>\n    <step name=\"s\"><action>x</action></step>\n  \
                     </process>\n</directive>\n```\n";
    fs::create_dir_all(project.root().join(".ai/directives")).expect("a folder");
    fs::write(project.root().join(".ai/directives/may.md"), directive).expect("a file");
    assert_eq!(
        enforced("auto"),
        (json!("denied"), Some(json!("after_the_fact")))
    );
    assert_eq!(
        enforced("disabled"),
        (json!("success"), Some(json!("declared_only")))
    );
}

#[test]
fn unsigned_items_are_reported_once_unless_quiet() {
    let old = "# kiwi-mcp:validated:2025-01-02T03:04:05Z:0123456789ab\n";
    let project = TestProject::new()
        .tool("one", "", "true")
        .tool("two", "", "true")
        .directive("both", ["one", "two"]);
    let manifest = format!("{old}{}", project.read(".ai/tools/two/tool.yaml"));
    let project = project
        .file(".ai/tools/two/tool.yaml", manifest)
        .committed();
    let warned = |words: &[&str]| {
        let said = project.piton(words).stderr();
        said.lines()
            .filter(|line| line.starts_with("warning:"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let both = "warning: not signed: both, one, two (`piton sign both one two`)";
    assert_eq!(warned(&["run", "both"]), [both]);
    assert_eq!(
        warned(&["tool", "run", "two"]),
        ["warning: not signed: two (`piton sign two`)"]
    );
    assert_eq!(warned(&["run", "both", "-q"]), [""; 0]);
    assert_eq!(project.piton(["sign", "--all"]).code(), Some(0));
    assert_eq!(
        (warned(&["run", "both"]), warned(&["tool", "run", "two"])),
        (vec![], vec![])
    );
}
