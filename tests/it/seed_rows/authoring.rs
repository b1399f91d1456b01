//! Items that agents write.

use super::*;

fn create(client: &mut McpClient, id: &str, parameters: &Value) -> (Value, bool) {
    execute(
        client,
        json!({"item_type": "tool", "action": "create", "item_id": id, "parameters": parameters}),
    )
}

#[test]
fn fields_of_a_new_tool_are_written_into_its_manifest() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let mut client = start_authoring(&project);
    let fields = json!({
        "version": "2.1.0", "mutates_state": false, "config": {"command": "echo"},
        "parameters": [{"name": "text", "type": "string", "required": true}],
    });
    let (answer, is_error) = create(
        &mut client,
        "say",
        &json!({"tool_type": "cli", "fields": fields}),
    );
    assert!(!is_error, "{answer}");
    let shown = project
        .piton(["tool", "show", "say", "--format", "json"])
        .json();
    assert_eq!(
        (
            &shown["version"],
            &shown["mutates_state"],
            &shown["config"]["command"]
        ),
        (&json!("2.1.0"), &json!(false), &json!("echo")),
        "{shown}"
    );
    assert_eq!(shown["parameters"][0]["name"], "text", "{shown}");
    assert_eq!(project.piton(["validate"]).code(), Some(0));
    let (answer, is_error) = create(
        &mut client,
        "greet",
        &json!({"tool_type": "bash", "fields": {"config": {"timeout": 5}, "isolation": "restricted"}}),
    );
    assert!(!is_error, "{answer}");
    let shown = project
        .piton(["tool", "show", "greet", "--format", "json"])
        .json();
    assert_eq!(
        (
            &shown["config"]["timeout"],
            &shown["config"]["entrypoint"],
            &shown["isolation"]
        ),
        (&json!(5), &json!("main.sh"), &json!("restricted")),
        "{shown}"
    );
}

#[test]
fn what_a_new_item_cannot_have_is_refused_by_name() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let mut client = start_authoring(&project);
    for (parameters, name) in [
        (json!({"fields": {"colour": "red"}}), "`fields.colour`"),
        (json!({"fields": {"tool_id": "other"}}), "`fields.tool_id`"),
        (
            json!({"content": "tool_id: say\n", "fields": {"version": "1.0.0"}}),
            "`fields.version`",
        ),
        (
            json!({"tool_type": "directive", "fields": {"config": {}}}),
            "`fields.config`",
        ),
        (
            json!({"tool_type": "bash", "fields": {"version": "2.0.0"}, "layout": "file"}),
            "`fields`",
        ),
    ] {
        let (answer, is_error) = create(&mut client, "say", &parameters);
        assert!(is_error, "{parameters}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(name), "{parameters}: {answer}");
    }
    let (answer, is_error) = create(
        &mut client,
        "say",
        &json!({"tool_type": "cli", "fields": {"isolation": "restrictd"}}),
    );
    assert!(is_error, "{answer}");
    assert_eq!(answer["error"], "Invalid metadata", "{answer}");
    assert_eq!(project.git(["status", "--porcelain"]), "");
}

#[test]
fn an_item_that_is_no_tool_is_not_called_one() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let mut client = start_authoring(&project);
    let (answer, is_error) = create(&mut client, "tides", &json!({"tool_type": "knowledge"}));
    assert!(!is_error, "{answer}");
    assert_eq!(
        (&answer["item_type"], &answer["message"]),
        (&json!("knowledge"), &json!("created knowledge `tides`")),
        "{answer}"
    );
    assert_eq!(answer.get("tool_id"), None, "{answer}");
}
