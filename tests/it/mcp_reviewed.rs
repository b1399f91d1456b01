//! Items that changed while a server runs, also behind its back, run after a person has seen all of
//! what changed.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

fn project() -> TestProject {
    TestProject::new()
        .tool("greet", "mutates_state: false", "echo hello")
        .file(".ai/tools/lib/words.py", "WORD = 'hello'\n")
        .directive("greeting", ["greet"])
        .committed()
}

fn start(project: &TestProject, era: Era, arguments: &[&str]) -> McpClient {
    let arguments = ["mcp"].into_iter().chain(arguments.iter().copied());
    let mut client = McpClient::start_with(project, era, arguments);
    client.initialize();
    // The first call that changes something waits until the server knows the items.
    let said = run(&mut client, era, "tool", "greet", None).0;
    assert_eq!(said["status"], "success", "{said}");
    client
}

fn write(project: &TestProject, path: &str, text: &str) {
    let path = project.root().join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file is written");
}

/// Runs an item and answers a question with a choice; returns the question.
fn run(
    client: &mut McpClient,
    era: Era,
    kind: &str,
    id: &str,
    choice: Option<&str>,
) -> (Value, Option<String>) {
    let answer = choice.map(|word| json!({"action": "accept", "content": {"decision": word}}));
    let arguments = json!({"item_type": kind, "item_id": id});
    let text = |question: &Value| question["message"].as_str().map(str::to_owned);
    if era == Era::Sessions {
        let before = client.asked.len();
        client.answers.extend(answer);
        let result = client.call("execute", arguments);
        let asked = client.asked.get(before).and_then(text);
        return (result["structuredContent"].clone(), asked);
    }
    let result = client.call("execute", arguments.clone());
    let asked = text(&result["inputRequests"]["decision"]["params"]);
    let Some(answer) = answer.filter(|_| asked.is_some()) else {
        return (result["structuredContent"].clone(), asked);
    };
    let result = client.request(
        "tools/call",
        json!({"name": "execute", "arguments": arguments, "requestState": result["requestState"],
            "inputResponses": {"decision": answer}}),
    );
    (result["structuredContent"].clone(), asked)
}

/// Changes the script of the tool.
fn edit(project: &TestProject) {
    let changed = project.bash(
        "sed -i 's/echo hello/echo edited/' $(grep -rl 'echo hello' .ai/tools); git diff --stat",
    );
    assert!(changed.contains("1 file changed"), "{changed}");
}

#[test]
fn an_item_that_was_edited_behind_the_server_needs_a_person() {
    for era in ERAS {
        for kind in ["tool", "directive"] {
            let id = if kind == "tool" { "greet" } else { "greeting" };
            let project = project();
            let mut client = start(&project, era, &[]);
            edit(&project);
            let (said, asked) = run(&mut client, era, kind, id, Some("refuse"));
            assert_eq!(said["code"], "CONSENT_NEEDED", "{said}");
            let asked = asked.expect("a question");
            assert!(
                asked.contains("tool `greet`") && asked.contains("echo edited"),
                "{asked}"
            );
            assert!(
                !asked.contains("WORD"),
                "only what changed is shown: {asked}"
            );
            let (said, _) = run(&mut client, era, kind, id, Some("allow"));
            assert_eq!(said["status"], "success", "{said}");
            let (said, asked) = run(&mut client, era, kind, id, None);
            assert_eq!(
                (&said["status"], asked),
                (&json!("success"), None),
                "{said}"
            );
            // The content that the server saw first needs no consent.
            project.git(["checkout", "--", "."]);
            let (said, asked) = run(&mut client, era, kind, id, None);
            assert_eq!(
                (&said["status"], asked),
                (&json!("success"), None),
                "{said}"
            );
        }
    }
}

#[test]
fn what_tools_load_from_the_project_is_compared_and_shown() {
    for era in ERAS {
        for path in [
            ".ai/tools/lib/words.py",
            ".ai/parsers/fresh.py",
            ".ai/extractors/fresh.yaml",
        ] {
            let project = project();
            let mut client = start(&project, era, &[]);
            write(&project, path, "# written by the agent\n");
            let (said, asked) = run(&mut client, era, "tool", "greet", Some("refuse"));
            assert_eq!(said["code"], "CONSENT_NEEDED", "{path}: {said}");
            let asked = asked.expect("a question");
            assert!(
                asked.contains(path) && asked.contains("written by the agent"),
                "{asked}"
            );
            project
                .piton(["approve", "--item", "greet", "--yes"])
                .succeeded();
            let (said, asked) = run(&mut client, era, "tool", "greet", None);
            assert_eq!(
                (&said["status"], asked),
                (&json!("success"), None),
                "{said}"
            );
        }
    }
}

#[test]
fn a_text_that_is_too_long_for_a_question_is_not_shown_in_part() {
    for era in ERAS {
        let project = project();
        let mut client = start(&project, era, &[]);
        let long = format!("# {}\n", "long ".repeat(2000));
        write(&project, ".ai/tools/lib/words.py", &long);
        let (said, asked) = run(&mut client, era, "tool", "greet", Some("allow"));
        assert_eq!(
            (&said["code"], asked),
            (&json!("CONSENT_NEEDED"), None),
            "{said}"
        );
        assert_eq!(said["terminal"], "piton approve --item greet", "{said}");
        assert!(
            said["suggestion"]
                .as_str()
                .is_some_and(|it| it.contains("too long")),
            "{said}"
        );
        project
            .piton(["approve", "--item", "greet", "--yes"])
            .succeeded();
        // Only the answer that was not asked for is left over.
        let (said, asked) = run(&mut client, era, "tool", "greet", None);
        assert_eq!(
            (&said["status"], asked),
            (&json!("success"), None),
            "{said}"
        );
    }
}

#[test]
fn under_a_directive_what_changed_does_not_run_even_if_a_person_allows_it() {
    let grants = "<permissions><execute resource=\"tool\" id=\"*\"/></permissions>";
    for era in ERAS {
        let project = project().file(
            ".ai/directives/all.md",
            format!(
                "# all\n\n```xml\n<directive name=\"all\" version=\"1.0.0\">\n<metadata>\n\
                 <description>All</description>\n{grants}\n</metadata>\n<process>\n\
                 <step name=\"a\"><execute item_type=\"tool\" item_id=\"greet\"/></step>\n</process>\n\
                 </directive>\n```\n"
            ),
        );
        let project = project.committed();
        let mut client = start(&project, era, &["--as", "all"]);
        edit(&project);
        project
            .piton(["approve", "--item", "greet", "--yes"])
            .succeeded();
        let (said, asked) = run(&mut client, era, "tool", "greet", Some("allow"));
        assert_eq!(
            (&said["code"], asked),
            (&json!("ITEM_CHANGED"), None),
            "{said}"
        );
    }
}
