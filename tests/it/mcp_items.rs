//! Item actions over MCP: each is previewed, done, and undone.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

fn start(project: &TestProject) -> McpClient {
    let arguments = ["mcp", "--allow-authoring"];
    let mut client = McpClient::start_with(project, Era::Sessions, arguments);
    client.initialize();
    client
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write `json!` in place"
)]
fn execute(
    client: &mut McpClient,
    kind: &str,
    action: &str,
    id: &str,
    parameters: Value,
    dry_run: Option<bool>,
) -> Value {
    let mut arguments =
        json!({"item_type": kind, "action": action, "item_id": id, "parameters": parameters});
    if let Some(dry_run) = dry_run {
        arguments["dry_run"] = dry_run.into();
    }
    client.call("execute", arguments)["structuredContent"].clone()
}

const DIRECTIVE: &str = "# Notes\n\n```xml\n<directive name=\"notes\" version=\"1.0.0\">\n<metadata>\n\
    <description>Takes notes</description>\n</metadata>\n<process>\n<step name=\"a\"><action>Write.</action></step>\n\
    </process>\n</directive>\n```\n";
const KNOWLEDGE: &str =
    "---\nid: facts\ntitle: Facts\nentry_type: reference\nversion: 1.0.0\n---\n# Facts\n";

#[test]
fn every_action_is_shown_before_it_is_done_and_can_be_undone() {
    let project = TestProject::new().file("README.md", "one\n").committed();
    let mut client = start(&project);
    for (kind, id, created, updated) in [
        (
            "tool",
            "count",
            json!({"tool_type": "bash", "category": "text"}),
            json!({"updates": {"description": "Counts"}}),
        ),
        (
            "directive",
            "notes",
            json!({"content": DIRECTIVE}),
            json!({"content": DIRECTIVE.replace("Takes", "Makes")}),
        ),
        (
            "knowledge",
            "facts",
            json!({"content": KNOWLEDGE}),
            json!({"content": KNOWLEDGE.replace("# Facts", "# Truths")}),
        ),
    ] {
        for (action, parameters, done) in [
            ("create", created, "created"),
            ("update", updated, "updated"),
            ("sign", json!({"location": "project"}), "signed"),
            ("delete", json!({"confirm": true}), "deleted"),
        ] {
            let before = project
                .bash("find . -path ./.git -prune -o -type f -print | sort | xargs sha256sum; git log --oneline");
            let shown = execute(
                &mut client,
                kind,
                action,
                id,
                parameters.clone(),
                Some(true),
            );
            assert_eq!(
                (&shown["status"], &shown["dry_run"]),
                (&json!("planned"), &json!(true)),
                "{shown}"
            );
            let after = project
                .bash("find . -path ./.git -prune -o -type f -print | sort | xargs sha256sum; git log --oneline");
            assert_eq!(after, before, "{action} {kind} was only to be shown");
            let told = execute(&mut client, kind, action, id, parameters, None);
            assert_eq!(
                (&told["status"], &told["action"]),
                (&json!(done), &json!(action)),
                "{told}"
            );
            assert_eq!(
                (&told["item_id"], &told["item_type"]),
                (&json!(id), &json!(kind)),
                "{told}"
            );
            assert_eq!(told.get("tool_id").is_some(), kind == "tool", "{told}");
            assert!(
                told["run_id"].is_string()
                    && told["path"].as_str().is_some_and(|it| it.starts_with('/')),
                "{told}"
            );
            assert_eq!(
                told["next"]["arguments"]["action"] == "validate",
                action == "create",
                "{told}"
            );
            if action != "delete" {
                let valid = execute(&mut client, kind, "validate", id, json!({}), Some(true));
                assert_eq!(
                    (&valid["status"], &valid["valid"]),
                    (&json!("success"), &json!(true)),
                    "{valid}"
                );
            }
        }
        // The deleted item comes back.
        let undone = execute(&mut client, kind, "undo", id, json!({}), None);
        assert_eq!(undone["status"], "success", "{undone}");
        let loaded = client.call("load", json!({"item_type": kind, "item_id": id}));
        assert_eq!(loaded["structuredContent"]["name"], id, "{loaded}");
    }
    let read = execute(&mut client, "knowledge", "run", "facts", json!({}), None);
    assert_eq!(read["status"], "success", "{read}");
    assert!(
        read["content"]
            .as_str()
            .is_some_and(|it| it.ends_with("# Truths\n")),
        "{read}"
    );
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let project = TestProject::new()
        .file(".ai/directives/notes.md", DIRECTIVE)
        .tool("greet", "mutates_state: true", "echo hello > hello.txt")
        .committed();
    let mut client = start(&project);
    for (kind, action, id, parameters, code) in [
        ("tool", "delete", "greet", json!({}), "NOT_CONFIRMED"),
        (
            "tool",
            "create",
            "greet",
            json!({"tool_type": "bash"}),
            "ITEM_EXISTS",
        ),
        (
            "tool",
            "create",
            "subprocess",
            json!({"tool_type": "bash"}),
            "PRIMITIVE_SHADOWED",
        ),
        (
            "tool",
            "create",
            "../outside",
            json!({"tool_type": "bash"}),
            "INVALID_ID",
        ),
        (
            "tool",
            "create",
            "fresh",
            json!({"tool_type": "bash", "category": "../../up"}),
            "INVALID_ID",
        ),
        (
            "tool",
            "create",
            "fresh",
            json!({"tool_type": "bash", "location": "/etc"}),
            "INVALID_PARAMETER",
        ),
        (
            "tool",
            "sign",
            "greet",
            json!({"location": "builtin"}),
            "INVALID_PARAMETER",
        ),
        (
            "tool",
            "sign",
            "greet",
            json!({"key": "/root/.ssh/id_ed25519"}),
            "POLICY_LOOSENED",
        ),
        ("tool", "sign", "*", json!({}), "INVALID_ID"),
        ("tool", "update", "greet", json!({}), "INVALID_PARAMETER"),
        (
            "tool",
            "update",
            "nothing",
            json!({"content": "x"}),
            "NOT_FOUND",
        ),
        (
            "directive",
            "update",
            "git_checkpoint",
            json!({"content": DIRECTIVE}),
            "NOT_OF_THE_PROJECT",
        ),
        (
            "directive",
            "delete",
            "git_checkpoint",
            json!({"confirm": true}),
            "NOT_OF_THE_PROJECT",
        ),
    ] {
        let said = execute(&mut client, kind, action, id, parameters, None);
        assert_eq!(said["code"], code, "{action} {id}: {said}");
        assert_eq!(
            (&said["action"], &said["item_type"]),
            (&json!(action), &json!(kind)),
            "{said}"
        );
        assert!(said["suggestion"].is_string(), "{said}");
        assert!(
            ["error", "denied"].contains(&said["status"].as_str().expect("a status")),
            "{said}"
        );
    }
    let invalid = execute(
        &mut client,
        "directive",
        "validate",
        "broken",
        json!({"content": "# nothing\n"}),
        None,
    );
    assert_eq!(invalid["valid"], false, "{invalid}");
    assert!(
        invalid["findings"][0]["line"]
            .as_u64()
            .is_some_and(|line| line >= 1),
        "{invalid}"
    );
    project.assert_clean();
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]).trim(), "1");
}
