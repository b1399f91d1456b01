//! Values of `{env:NAME}`: no place where a run leaves text shows them, in any usual encoding.

use serde_json::json;

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

/// With characters that encodings change.
const TOKEN: &str = "tok-5f3b9/x?1 y~";

/// Prints the parameter in many encodings.
const FORMS: &str = "import base64, json, os, urllib.parse\n\
    text = os.environ.get('PITON_PARAM_TEXT') or os.environ['TOKEN']\n\
    raw = text.encode()\n\
    forms = [text, json.dumps(text), json.dumps(json.dumps(text)), raw.hex(), raw.hex().upper(),\n\
    \x20   urllib.parse.quote(text, safe=''), urllib.parse.quote_plus(text), urllib.parse.quote(text, safe='').lower()]\n\
    for around in ['%s', '%s\\n', 'user:%s', 'x%s', 'xy%s and more']:\n\
    \x20   forms += [base64.b64encode((around % text).encode()).decode(), base64.urlsafe_b64encode((around % text).encode()).decode()]\n\
    for form in forms: print(form)\n";

fn python(id: &str, source: &str) -> impl Fn(TestProject) -> TestProject {
    let parameters = "parameters:\n  - {name: text, type: string}\nmutates_state: true";
    crate::tool_run::python(id, parameters, source)
}

/// A directive that names the variable and calls a tool with it.
fn directive(steps: &str) -> String {
    format!(
        "# told\n\n```xml\n<directive name=\"told\" version=\"1.0.0\">\n<metadata>\n\
         <description>Names a variable</description>\n<git_checkpoint mode=\"auto\"/>\n<permissions>\n\
         <execute resource=\"tool\" id=\"*\"/>\n<write resource=\"filesystem\" path=\"**\"/>\n<env vars=\"TOKEN\"/>\n\
         </permissions>\n</metadata>\n<process>\n{steps}</process>\n</directive>\n```\n"
    )
}

fn step(tool: &str, more: &str) -> String {
    format!(
        "<step name=\"{tool}\" {more}><execute item_type=\"tool\" item_id=\"{tool}\"><param name=\"text\" value=\"{{env:TOKEN}}\"/></execute></step>\n"
    )
}

fn project() -> TestProject {
    let forms = FORMS.replace('\'', "'\\''");
    let prints =
        format!("echo note >> out.txt; python3 -I -c '{forms}'; python3 -I -c '{forms}' >&2");
    let parameters = "mutates_state: true\nparameters:\n  - {name: text, type: string}";
    let project = TestProject::new()
        .file("out.txt", "first\n")
        .tool("say", parameters, &prints)
        .tool("fail", parameters, &format!("{prints}; exit 3"));
    let project = python(
        "raise",
        "def main(text=''):\n    raise ValueError('bad ' + text + ' ' + text.encode().hex())\n",
    )(project);
    let project = python(
        "answer",
        "def main(text=''):\n    return {'plain': text, text: [text, {'nested': 'x' + text}], 'hex': text.encode().hex()}\n",
    )(project);
    let steps = [
        step("say", ""),
        step("answer", ""),
        step("fail", "on_failure=\"continue\""),
        step("raise", "on_failure=\"continue\""),
    ];
    project
        .file(".ai/directives/told.md", directive(&steps.concat()))
        .variable("TOKEN", TOKEN)
        .committed()
}

/// The encodings that the tool prints, without what is common text.
fn forms(project: &TestProject) -> Vec<String> {
    let script = FORMS.replace('\'', "'\\''");
    let text = project.bash(&format!("env -u PITON_PARAM_TEXT python3 -I -c '{script}'"));
    let mut forms: Vec<String> = text.lines().map(str::to_owned).collect();
    forms.push("tok-5f3b9".to_owned());
    assert!(forms.len() > 15, "{forms:?}");
    forms
}

fn assert_hidden(project: &TestProject, place: &str, text: &str) {
    for form in forms(project) {
        assert!(!text.contains(&form), "{place} shows {form}: {text}");
    }
}

#[test]
fn no_encoding_of_a_variable_is_in_outputs_messages_journals_logs_or_remotes() {
    let project = project();
    project.bash("git init -q --bare ../remote.git; git remote add origin ../remote.git");
    let ran = project.piton(["run", "told", "--format", "json"]);
    assert!(!project.git(["log", "--format=%s"]).is_empty(), "{ran}");
    project.piton(["push", "origin"]).succeeded();
    let everything = "git cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)' | \
         while read id type; do [ $type = tree ] || git cat-file $type $id; done";
    for (place, script) in [
        ("outputs", "cat .ai/outputs/tools/*/*"),
        ("names of outputs", "find .ai/outputs"),
        ("journals", "find .git/piton/runs -type f -exec cat {} +"),
        ("messages", "git log --all --format=%B"),
        ("objects", everything),
        ("remote", &format!("cd ../remote.git; {everything}")),
        (
            "own folder",
            "find .git/piton -type f -not -path '*/store/*' -exec cat {} +",
        ),
    ] {
        let text = project.bash(script);
        assert!(!text.is_empty(), "{place}");
        assert_hidden(&project, place, &text);
    }
    assert!(project.bash("cat .ai/outputs/tools/*/*").contains("***"));
    assert_hidden(&project, "the result", &ran.stdout());
    let run = ran.last_json()["run_id"]
        .as_str()
        .expect("a run")
        .to_owned();
    for command in [
        &["log", &run][..],
        &["log", "--format", "json"],
        &["show", &format!("{run}/1")],
        &["show", &format!("{run}/2"), "--format", "json"],
        &["show", &format!("{run}/3")],
        &["show", &format!("{run}/4"), "--format", "json"],
        &["status", "--format", "json"],
        &["verify", "--format", "json"],
    ] {
        let told = project.piton(command);
        assert_hidden(&project, &command.join(" "), &told.to_string());
    }
}

#[test]
fn no_encoding_of_a_variable_is_in_answers_of_the_mcp_server() {
    for era in [Era::Sessions, Era::Stateless] {
        let project = project();
        let mut client = McpClient::start_in(&project, era).able(json!({}));
        client.initialize();
        let mut tell = |arguments: serde_json::Value| {
            let answer = client.call("execute", arguments.clone());
            assert_hidden(&project, &arguments.to_string(), &answer.to_string());
            answer
        };
        let run = tell(json!({"item_type": "directive", "action": "run", "item_id": "told"}));
        assert!(run.to_string().contains("run_id"), "{run}");
        let run = run["structuredContent"]["run_id"]
            .as_str()
            .expect("a run")
            .to_owned();
        for action in ["status", "log", "show"] {
            tell(
                json!({"item_type": "directive", "action": action, "item_id": "told", "parameters": {"run_id": run}}),
            );
        }
    }
}

#[test]
fn neither_a_plan_nor_a_question_shows_a_variable() {
    let project = project();
    for format in ["human", "json"] {
        let ran = project.piton(["run", "told", "--dry-run", "--format", format]);
        assert_hidden(&project, "a plan", &ran.to_string());
        if format == "json" {
            let call = &ran.json()["steps"][0]["call"]["invocation"];
            assert_eq!(call["parameters"]["text"], "***", "{ran}");
        }
    }
    let question = "<step name=\"ask\"><checkpoint type=\"decision\" gate=\"blocking\">Is {env:TOKEN} right?</checkpoint></step>\n";
    let project = TestProject::new()
        .file(".ai/directives/told.md", directive(question))
        .variable("TOKEN", TOKEN)
        .committed();
    for command in [
        &["run", "told"][..],
        &["status", "--format", "json"],
        &["log", "--format", "json"],
    ] {
        let told = project.piton(command);
        assert_hidden(&project, &command.join(" "), &told.to_string());
    }
    let asked = project.piton(["status"]).to_string();
    let journal = project.bash("cat .git/piton/runs/*/journal.jsonl");
    assert_hidden(&project, "the journal", &journal);
    assert!(journal.contains("Is *** right?"), "{asked} {journal}");
}
