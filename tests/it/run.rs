//! `piton run`: directives, step by step, in real repositories.

mod again;
mod agent;
mod atomic;
mod crash;
mod failure;
mod interrupt;
mod lock;
mod memory;
mod mode;
mod reject;
mod semantics;
mod situation;
mod step;
pub(crate) mod terminal;
mod travel;
mod usage;
mod waiting;

use serde_json::Value;

use crate::harness::{Ran, TestProject};

/// The last printed line: `run_finished`.
pub(crate) fn summary(ran: &Ran) -> Value {
    let last: Value = ran.last_json();
    assert_eq!(last["type"], "run_finished", "{ran}");
    last
}

/// The names and statuses of the steps of a run.
pub(crate) fn steps(ran: &Ran) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let steps = summary(ran)["steps"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    steps
        .iter()
        .map(|step| (text(&step["name"]), text(&step["status"])))
        .collect()
}

/// The steps of a run, each as its name and status.
pub(crate) fn names(ran: &Ran) -> Vec<String> {
    steps(ran)
        .into_iter()
        .map(|(name, status)| format!("{name} {status}"))
        .collect()
}

/// A project with small tools: `add` appends a text to `out.txt`, `fail` spoils it and fails, `list` returns a list.
pub(crate) fn project() -> TestProject {
    let text = "parameters:\n  - {name: text, type: string, required: false}\n";
    TestProject::new()
        .tool(
            "add",
            text,
            "echo \"${PITON_PARAM_TEXT:-line}\" >> out.txt; echo \"{\\\"lines\\\": $(wc -l < out.txt)}\"",
        )
        .tool("fail", "", "echo spoiled > out.txt; echo new > new.txt; exit 3")
        .tool("list", "", "echo '{\"names\": [\"a\", \"b\", \"c\"], \"none\": [], \"count\": 3}'")
        .file("out.txt", "first\n")
        .file("mine.txt", "mine\n")
}

/// A directive that may call every tool and write everything except `secret/`.
pub(crate) fn directive(
    name: &str,
    metadata: &str,
    steps: &str,
) -> impl Fn(TestProject) -> TestProject + use<> {
    let text = format!(
        "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata><description>The directive {name}</description>\
         {metadata}\n<permissions><execute resource=\"tool\" id=\"*\"/><write resource=\"filesystem\" path=\"**\"/>\
         <deny><write resource=\"filesystem\" path=\"secret/**\"/></deny></permissions>\n</metadata>\n\
         <inputs><input name=\"who\" type=\"string\" default=\"world\">Who</input></inputs>\n\
         <process>\n{steps}\n</process>\n</directive>\n```\n"
    );
    let path = format!(".ai/directives/{name}.md");
    move |project| project.file(&path, &text)
}

/// A step that calls a tool.
pub(crate) fn call(name: &str, tool: &str, more: &str, text: &str) -> String {
    let param = if text.is_empty() {
        String::new()
    } else {
        format!("<param name=\"text\" value=\"{text}\"/>")
    };
    format!(
        "<step name=\"{name}\" {more}><execute item_type=\"tool\" item_id=\"{tool}\">{param}</execute></step>\n"
    )
}

/// Makes uncommitted work of the user: an edit, a staged file, and an untracked one.
pub(crate) fn dirty(project: &TestProject) {
    project.bash("echo edited >> mine.txt; echo staged > staged.txt; git add staged.txt; echo new > unknown.txt");
}

/// Checks that the user's work is as [`dirty`] made it, and that everything recorded verifies.
pub(crate) fn assert_unharmed(project: &TestProject) {
    assert_eq!(project.read("mine.txt"), "mine\nedited\n");
    assert_eq!(project.read("unknown.txt"), "new\n");
    let status = project.git([
        "status",
        "--porcelain",
        "--",
        "mine.txt",
        "staged.txt",
        "unknown.txt",
    ]);
    assert_eq!(status, " M mine.txt\nA  staged.txt\n?? unknown.txt\n");
    assert_sound(project);
}

/// Checks the records with `piton verify` and git.
pub(crate) fn assert_sound(project: &TestProject) {
    let verified = project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
    project.git(["fsck", "--strict"]);
}

/// The subjects of all commits except the first, newest first.
pub(crate) fn subjects(project: &TestProject) -> Vec<String> {
    let log = project.git(["log", "--format=%s"]);
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    lines.pop();
    lines
}
