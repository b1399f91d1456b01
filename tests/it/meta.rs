//! Meta tools: a function decides which tools are called, and all calls form one step with one
//! checkpoint.

#[path = "meta/authority.rs"]
mod authority;
#[path = "meta/death.rs"]
mod death;
#[path = "meta/function.rs"]
mod function;
#[path = "meta/promise.rs"]
mod promise;

use serde_json::{Value, json};

use crate::harness::{TestProject, cmd_snapshot};
use crate::mcp_client::McpClient;

/// A tool that counts letters, and a tool that keeps a number.
pub(crate) const COUNT: (&str, &str) = (
    "parameters:\n  - {name: text, type: string, required: true}\n",
    r#"echo "{\"letters\": ${#PITON_PARAM_TEXT}}""#,
);
pub(crate) const KEEP: (&str, &str) = (
    "parameters:\n  - {name: number, type: integer, required: true}\n  - {name: file, type: string, default: number.txt}\n",
    r#"echo "$PITON_PARAM_NUMBER" >> "$PITON_PARAM_FILE""#,
);

/// Counts first, then keeps the count.
pub(crate) const BOTH: &str = "function go(args, results) {
  if (results.length === 0) return { calls: [{ tool: 'count', args: { text: args.text } }] };
  if (results.length === 1) return { calls: [{ tool: 'keep', args: { number: results[0].result.letters } }] };
  return { result: { letters: results[0].result.letters, kept: results[1].status } };
}
module.exports = { go };";

/// A meta tool with a function and additional manifest lines.
pub(crate) fn meta(
    id: &str,
    aggregates: &str,
    more: &str,
    function: &str,
) -> impl FnOnce(TestProject) -> TestProject + use<> {
    let indented = function.replace('\n', "\n        ");
    let manifest = format!(
        "tool_id: {id}\ntool_type: meta\nversion: \"1.0.0\"\ndescription: The tool {id}\nconfig:\n  \
         aggregates: [{aggregates}]\n  orchestration: helpers.go\n{more}executable_knowledge:\n  helpers:\n    \
         - id: go\n      language: javascript\n      runtime: isolated_vm\n      function: |\n        {indented}\n"
    );
    let path = format!(".ai/tools/{id}.yaml");
    move |project| project.file(&path, manifest)
}

/// A meta tool with one list of calls, which returns their results.
pub(crate) fn once(
    id: &str,
    aggregates: &str,
    calls: &str,
) -> impl FnOnce(TestProject) -> TestProject + use<> {
    let function = format!("results.length ? {{ result: results }} : {{ calls: {calls} }}");
    meta(id, aggregates, "", &function)
}

pub(crate) const TEXT: &str = "parameters:\n  - {name: text, type: string, default: hello}\n";

/// A project with both tools, and a meta tool that combines them.
pub(crate) fn project() -> TestProject {
    let project = TestProject::new()
        .file("README.md", "one\n")
        .tool("count", COUNT.0, COUNT.1);
    meta("both", "count, keep", TEXT, BOTH)(project.tool("keep", KEEP.0, KEEP.1))
}

/// Calls a tool and returns its result as JSON.
pub(crate) fn run(project: &TestProject, id: &str, mode: &str) -> Value {
    project
        .piton(["tool", "run", id, "--checkpoint", mode, "--format", "json"])
        .last_json()
}

/// The tool, status and error code of each call in a result.
pub(crate) fn calls(result: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let listed = result["calls"].as_array().cloned().unwrap_or_default();
    listed
        .iter()
        .map(|call| {
            (
                text(&call["tool"]),
                text(&call["status"]),
                text(&call["error"]["code"]),
            )
        })
        .collect()
}

#[test]
fn tools_are_called_one_after_the_other_and_data_flows_between_them() {
    let project = project().ticking().committed();
    cmd_snapshot!(project.piton(["tool", "run", "both", "--param", "text=Hello, Ada", "--checkpoint", "auto"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "letters": 10,
      "kept": "success"
    }
    ----- stderr -----
    warning: not signed: both, count, keep (`piton sign both count keep`)
    {"letters": 10}
    ✓ committed [SHA] chore: add `number.txt` by `both` (1 file, +1 −0)
    "#);
    assert_eq!(project.read("number.txt"), "10\n");
    project.assert_clean();
    cmd_snapshot!(project.piton(["show", "HEAD"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    step          01kdyabkw0000e485875xhvkdf/1
    name          both
    what          tool both
    when          2026-01-02 03:00:02
    started as    piton tool run both --param 'text=Hello, Ada'
    tool          both@1.0.0
    mode          auto
    permissions   <execute resource="tool" id="both"/> by the person at the terminal, enforced: broker
    parameters    text = "Hello, Ada"
    isolation     trusted
    call 1        count@1.0.0  succeeded
                    text = "Hello, Ada"
                    <execute resource="tool" id="count"/> by the person at the terminal, enforced: broker
    call 2        keep@1.0.0  succeeded
                    number = 10
                    file = "number.txt"
                    <execute resource="tool" id="keep"/> by the person at the terminal, enforced: broker
    stdout        0 bytes, sha256:[HASH]
    stderr        0 bytes, sha256:[HASH]
    status        succeeded
    outcome       [SHA]  1 file, +1 −0
    commit        [HASH]
    message       chore: add `number.txt` by `both`

                  1 file changed, 1 insertion(+)

                  Piton-Run: 01kdyabkw0000e485875xhvkdf
                  Piton-Step: 1 both
                  Piton-Tool: both@1.0.0
                  Piton-Journal: sha256:[HASH]

    diff --git a/number.txt b/number.txt
    new file mode 100644
    index [SHA]..[SHA]
    --- /dev/null
    +++ b/number.txt
    @@ -0,0 +1 @@
    +10
    ----- stderr -----
    "#);
    let shown = project.piton(["show", "HEAD", "--format", "json"]).json();
    let told: Vec<&Value> = shown["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| &call["call"]["chain"][0])
        .collect();
    assert_eq!(told, ["count@1.0.0", "keep@1.0.0"]);
    assert_eq!(
        project
            .piton(["log", "--tool", "keep", "--format", "json"])
            .stdout()
            .lines()
            .count(),
        1
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert!(!project.root().join("number.txt").exists());
}

#[test]
fn the_journal_tells_each_call_before_it_is_made_and_after() {
    let project = project().committed();
    let ran = project.piton([
        "tool",
        "run",
        "both",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    let told: Vec<String> = ran
        .stdout()
        .lines()
        .filter_map(|line| {
            Some(
                serde_json::from_str::<Value>(line).ok()?["type"]
                    .as_str()?
                    .to_owned(),
            )
        })
        .collect();
    let entered = ["tool_started", "tool_finished"];
    let called = [
        "call_started",
        "tool_started",
        "tool_finished",
        "call_finished",
    ];
    let expected: Vec<&str> = ["run_started", "step_started"]
        .into_iter()
        .chain(entered)
        .chain(called)
        .chain(entered)
        .chain(called)
        .chain(entered)
        .chain([
            "changes_found",
            "decided",
            "committed",
            "step_finished",
            "run_finished",
        ])
        .collect();
    assert_eq!(told, expected);
    let result = ran.last_json();
    assert_eq!(result["result"], json!({"letters": 5, "kept": "success"}));
    let told = |tool: &str| (tool.to_owned(), "succeeded".to_owned(), String::new());
    assert_eq!(calls(&result), [told("count@1.0.0"), told("keep@1.0.0")]);
}

#[test]
fn a_plan_shows_the_helper_and_what_it_may_call() {
    let project = project().directive("combine", ["both"]).committed();
    cmd_snapshot!(project.piton(["tool", "run", "both", "--dry-run"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    chain: both@1.0.0
    chain.both: project, .ai/tools/both.yaml, unsigned
    parameters.text: "hello"  # default
    action.helper: go  # both, .ai/tools/both.yaml:7
    action.aggregates: count, keep  # both, .ai/tools/both.yaml:6
    timeout: [TIME]  # default
    isolation: trusted  # default
    allowed: <execute resource="tool" id="both"/>  # the person at the terminal, enforced: broker
    ----- stderr -----
    "#);
    cmd_snapshot!(project.piton(["run", "combine", "--dry-run"]), @r#"
    success: false
    exit_code: 3
    ----- stdout -----
    combine@1.0.0  The directive combine
      checkpoints     explicit: only checkpoint steps commit

    1. both  tool both
         runs            meta helpers.go count keep
         isolation       trusted
         allowed         <execute resource="tool" id="both"/>  # in `combine`, enforced: broker
                         <write resource="filesystem" path="**"/>  # in `combine`, enforced: after_the_fact
    ----- stderr -----
    warning: not signed: both, combine, count, keep (`piton sign both combine count keep`)
    ✗ nothing was changed; a step would be denied
    error: the tool `both` in step `both` will be denied: directive `combine` does not allow: run the tool `count` [MISSING_GRANT]
     --> .ai/directives/combine.md:13:5
    hint: add <execute resource="tool" id="count"/> to the <permissions> of `combine`
    error: the tool `both` in step `both` will be denied: directive `combine` does not allow: run the tool `keep` [MISSING_GRANT]
     --> .ai/directives/combine.md:13:5
    hint: add <execute resource="tool" id="keep"/> to the <permissions> of `combine`
    "#);
    project.assert_clean();
}

#[test]
fn what_all_calls_changed_is_kept_or_rolled_back_together() {
    let failing = BOTH.replace(
        "return { result:",
        "throw new Error('enough'); return { result:",
    );
    let project = meta("broken", "count, keep", TEXT, &failing)(project()).committed();
    // The user has uncommitted work.
    let project = project
        .file("README.md", "one\nmine\n")
        .file("new.txt", "new\n")
        .file("staged.txt", "staged\n");
    project.git(["add", "staged.txt"]);
    let status = project.git(["status", "--porcelain"]);
    cmd_snapshot!(project.piton(["tool", "run", "broken", "--checkpoint", "auto"]), @r#"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    warning: not signed: broken, count, keep (`piton sign broken count keep`)
    {"letters": 5}
    ✗ rolled back 1 file
    error: the function `go` threw at .ai/tools/broken.yaml:19: Error: enough [SCRIPT_THREW]
    "#);
    assert_eq!(project.git(["status", "--porcelain"]), status);

    let result = run(&project, "broken", "explicit");
    assert_eq!(
        (&result["code"], &result["checkpoint"]["status"]),
        (&json!("SCRIPT_THREW"), &json!("skipped"))
    );
    assert_eq!(project.read("number.txt"), "5\n");
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(project.git(["status", "--porcelain"]), status);

    let result = run(&project, "both", "auto");
    assert_eq!(result["checkpoint"]["files_changed"], 1, "{result}");
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "number.txt\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), status);
}

#[test]
fn a_call_that_fails_is_a_result_like_any_other() {
    let calls_made = "[
      { tool: 'fail' },
      { tool: 'count', args: {} },
      { tool: 'count', args: { text: 'x', more: 1 } },
      { tool: 'lacking' },
      { tool: 'slow', args: { timeout: 0.2 } },
      { tool: 'count', args: { text: 'last' } },
    ]";
    let project = project()
        .tool(
            "fail",
            "",
            "echo half > half.txt; echo 'no way' >&2; exit 3",
        )
        .tool(
            "lacking",
            "requires: {commands: [no-such-program-anywhere]}\n",
            "true",
        )
        .tool("slow", "", "sleep 600");
    let project = once("try", "fail, count, lacking, slow", calls_made)(project).committed();
    let result = run(&project, "try", "auto");
    assert_eq!(result["status"], "success", "{result}");
    let told: Vec<(&Value, &Value)> = result["result"]
        .as_array()
        .expect("results")
        .iter()
        .map(|call| {
            (
                &call["status"],
                if call["error"].is_null() {
                    &call["result"]
                } else {
                    &call["error"]["code"]
                },
            )
        })
        .collect();
    let letters = json!({"letters": 4});
    assert_eq!(
        told,
        [
            (&json!("error"), &json!("TOOL_FAILED")),
            (&json!("error"), &json!("INVALID_PARAMETER")),
            (&json!("error"), &json!("INVALID_PARAMETER")),
            (&json!("error"), &json!("REQUIREMENTS_MISSING")),
            (&json!("error"), &json!("TIMED_OUT")),
            (&json!("success"), &letters),
        ]
    );
    // The function accepted the failure, so the files of the failed call are part of the step.
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "half.txt\n"
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn meta_tools_call_meta_tools() {
    let project = project();
    let project = once(
        "middle",
        "both",
        "[{ tool: 'both', args: { text: 'four' } }]",
    )(project);
    let project = once(
        "outer",
        "middle, count",
        "[{ tool: 'middle' }, { tool: 'count', args: { text: 'a' } }]",
    )(project);
    let project = project.committed();
    let ran = project.piton([
        "tool",
        "run",
        "outer",
        "--checkpoint",
        "auto",
        "--format",
        "json",
    ]);
    let result = ran.last_json();
    assert_eq!(
        result["result"][0]["result"][0]["result"],
        json!({"letters": 4, "kept": "success"}),
        "{ran}"
    );
    let within: Vec<(Value, Value)> = ran
        .stdout()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["type"] == "call_started")
        .map(|event| (event["number"].clone(), event["within"].clone()))
        .collect();
    let expected = [
        (1, json!(null)),
        (2, json!(1)),
        (3, json!(2)),
        (4, json!(2)),
        (5, json!(null)),
    ];
    assert_eq!(
        within,
        expected.map(|(number, within)| (json!(number), within))
    );
    assert_eq!(project.read("number.txt"), "4\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_command_and_the_older_spelling_reach_the_function() {
    let manifest = "tool:\n  schema_version: \"2.0\"\n  id: old-style\n  type: meta\n  name: Old\n  version: \"1.0.0\"\n  \
         description: Old\n  commands: [shout, whisper]\n  meta_specific:\n    aggregates: [count]\n    \
         orchestration: helpers.say-it\n  executable_knowledge:\n    helpers:\n      - id: say-it\n        \
         language: javascript\n        runtime: isolated_vm\n        function: |\n          (function () {\n            \
         if (!results.length) return { calls: [{ tool: 'count', args: { text: args.text } }] };\n            \
         return { result: command + ' ' + results[0].result.letters };\n          })()\n";
    let project = project()
        .file(".ai/tools/old-style.yaml", manifest)
        .committed();
    let call = [
        "tool",
        "run",
        "old-style",
        "shout",
        "--param",
        "text=abc",
        "--format",
        "json",
    ];
    assert_eq!(project.piton(call).last_json()["result"], "shout 3");
}

#[test]
fn a_step_of_a_directive_can_be_a_meta_tool() {
    let text = "# Combine\n\n```xml\n<directive name=\"combine\" version=\"1.0.0\">\n<metadata>\n<description>Combine</description>\n\
         <git_checkpoint mode=\"auto\"/>\n<permissions>\n<execute resource=\"tool\" id=\"*\"/>\n\
         <write resource=\"filesystem\" path=\"*.txt\"/>\n</permissions>\n</metadata>\n<process>\n<step name=\"work\">\
         <execute item_type=\"tool\" item_id=\"both\"><param name=\"text\" value=\"abcdef\"/></execute></step>\n</process>\n\
         <outputs><success>letters: {step:work.letters}</success></outputs>\n</directive>\n```\n";
    let project = project()
        .file(".ai/directives/combine.md", text)
        .committed();
    let ran = project.piton(["run", "combine", "--format", "json"]);
    let finished = ran.last_json();
    assert_eq!(
        (&finished["status"], &finished["outputs"]),
        (&json!("succeeded"), &json!({"letters": 6})),
        "{ran}"
    );
    assert_eq!(finished["steps"].as_array().map(Vec::len), Some(1), "{ran}");
    assert_eq!(project.read("number.txt"), "6\n");
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn an_agent_calls_a_meta_tool_like_any_other() {
    let project = project().committed();
    let mut client = McpClient::start(&project);
    client.initialize();
    let arguments = json!({"item_type": "tool", "item_id": "both", "parameters": {"text": "abc"}, "checkpoint": "auto"});
    let answer = client.call("execute", arguments);
    let answer = &answer["structuredContent"];
    assert_eq!(
        (&answer["status"], &answer["result"]["letters"]),
        (&json!("success"), &json!(3)),
        "{answer}"
    );
    assert_eq!(
        answer["calls"].as_array().map(Vec::len),
        Some(2),
        "{answer}"
    );
    project.assert_clean();
}
