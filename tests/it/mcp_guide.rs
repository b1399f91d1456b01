//! `docs/guide/agents.md`: the session that it shows really works.
//!
//! Calls, answers, questions and commands of the page are carried out in order. Everything that a
//! shown answer contains must be in the real one; `…` stands for omitted parts, `RUN` for the id of
//! the waiting run.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

#[derive(Debug)]
enum Part {
    File { path: String, text: String },
    Call { tool: String, arguments: Value },
    Person { question: String, answer: Value },
    Answer(Value),
    Command(String),
}

fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let fence: String = line.chars().take_while(|c| *c == '`').collect();
        if fence.len() < 3 {
            continue;
        }
        let text = lines
            .by_ref()
            .take_while(|line| *line != fence)
            .collect::<Vec<_>>()
            .join("\n");
        let json =
            || serde_json::from_str::<Value>(&text).unwrap_or_else(|err| panic!("{err}\n{text}"));
        match line.trim_start_matches('`').split_once(' ') {
            Some(("json", "answer")) => parts.push(Part::Answer(json())),
            Some(("json", "person")) => {
                let said = json();
                let question = said["question"].as_str().expect("a question").to_owned();
                parts.push(Part::Person {
                    question,
                    answer: said["answer"].clone(),
                });
            }
            Some(("json", call)) => {
                let tool = call.strip_prefix("call:").expect("a call").to_owned();
                parts.push(Part::Call {
                    tool,
                    arguments: json(),
                });
            }
            Some((_, path)) => parts.push(Part::File {
                path: path.to_owned(),
                text: text + "\n",
            }),
            None if line.ends_with("console") => {
                parts.extend(
                    text.lines()
                        .filter_map(|line| line.strip_prefix("$ "))
                        .map(|it| Part::Command(it.to_owned())),
                );
            }
            None => {}
        }
    }
    parts
}

/// Whether the real value contains everything that is shown.
fn holds(shown: &Value, real: &Value) -> bool {
    match (shown, real) {
        (Value::String(shown), _) if shown == "…" => !real.is_null(),
        (Value::Object(shown), Value::Object(real)) => shown
            .iter()
            .all(|(key, value)| real.get(key).is_some_and(|real| holds(value, real))),
        (Value::Array(shown), Value::Array(real)) => {
            shown.len() == real.len()
                && shown
                    .iter()
                    .zip(real)
                    .all(|(shown, real)| holds(shown, real))
        }
        _ => shown == real,
    }
}

#[test]
fn the_session_of_the_guide_to_agents_takes_place_in_both_eras() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/agents.md");
    let parts = parts(&fs::read_to_string(page).expect("a page"));
    let programs = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .to_string_lossy()
        .into_owned();
    for era in [Era::Sessions, Era::Stateless] {
        let mut project = TestProject::new().file("README.md", "read me\n");
        for part in &parts {
            if let Part::File { path, text } = part {
                project = project.file(path, text);
            }
        }
        let project = project.committed();
        fs::create_dir(project.home().join("work")).expect("a folder");
        let mut client = McpClient::start_in(&project, era);
        client.initialize();
        // `execute` waits for the baseline.
        client.call(
            "execute",
            json!({"item_type": "directive", "item_id": "git_checkpoint", "dry_run": true}),
        );
        let mut run = String::new();
        let mut real = Value::Null;
        let mut calls = 0;
        let mut printed = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::File { .. } | Part::Person { .. } => {}
                Part::Command(command) => {
                    // Skip this command: it writes a file, and the repository would not be clean
                    // afterwards.
                    if !command.contains("--write") {
                        printed
                            .push(project.bash(&format!("PATH=\"{programs}:$PATH\"; {command}")));
                    }
                }
                Part::Call { tool, arguments } => {
                    calls += 1;
                    let arguments: Value = serde_json::from_str(
                        &arguments
                            .to_string()
                            .replace("\"RUN\"", &format!("{run:?}")),
                    )
                    .expect("JSON");
                    let person = match parts.get(at + 1) {
                        Some(Part::Person { question, answer }) => Some((question, answer)),
                        _ => None,
                    };
                    real = called(&mut client, era, tool, &arguments, person);
                    if let Some(id) = real["run_id"]
                        .as_str()
                        .filter(|_| real["status"] == "waiting")
                    {
                        id.clone_into(&mut run);
                    }
                }
                Part::Answer(shown) => {
                    assert!(
                        holds(shown, &real),
                        "{era:?}: the page shows\n{shown:#}\nand this came\n{real:#}"
                    );
                }
            }
        }
        assert!(calls > 5);
        assert!(client.end().0.success());
        assert_eq!(
            project.git(["rev-list", "--count", "HEAD"]),
            "4\n",
            "the start, two steps, the agent's own edits"
        );
        project.assert_clean();
    }
}

/// Calls a tool with a person behind the client.
fn called(
    client: &mut McpClient,
    era: Era,
    tool: &str,
    arguments: &Value,
    person: Option<(&String, &Value)>,
) -> Value {
    let answer = person.map(|(_, answer)| json!({"action": "accept", "content": answer}));
    let asked = match era {
        Era::Sessions => {
            client.answers.extend(answer);
            let result = client.call(tool, arguments.clone());
            (
                result,
                client
                    .asked
                    .drain(..)
                    .map(|it| it["message"].clone())
                    .collect::<Vec<_>>(),
            )
        }
        Era::Stateless => {
            let mut params = json!({"name": tool, "arguments": arguments});
            let mut result = client.request("tools/call", params.clone());
            let mut asked = Vec::new();
            if result["resultType"] == "input_required" {
                asked.push(result["inputRequests"]["decision"]["params"]["message"].clone());
                params["requestState"] = result["requestState"].clone();
                params["inputResponses"] = json!({"decision": answer});
                result = client.request("tools/call", params);
            }
            (result, asked)
        }
    };
    let (result, asked) = asked;
    let expected: Vec<Value> = person
        .iter()
        .map(|(question, _)| Value::from((*question).clone()))
        .collect();
    assert_eq!(asked, expected, "{result}");
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}
