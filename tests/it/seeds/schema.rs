//! Document 002: inputs and outputs of tools are JSON Schemas.

use serde_json::{Value, json};

use super::{call, examples, findings, planned, shown};

#[test]
fn every_example_is_read() {
    let project = examples("002");
    assert_eq!(findings(&project, &[]), Vec::<String>::new());
    // Strictly, a type and a version have to be written.
    let strict = findings(&project, &["--strict"]);
    assert!(
        strict
            .iter()
            .all(|line| line.ends_with(": tool_type is required")
                || line.ends_with(": version is required")),
        "{strict:#?}"
    );
    let thumbnail = shown(&project, "make_thumbnail");
    for (name, value) in [
        ("version", json!("1.3.0")),
        ("name", json!("Make a thumbnail")),
        ("description", json!("Shrink a picture")),
        ("executor", json!("subprocess")),
        ("config", json!({"command": "echo"})),
        (
            "input_schema",
            json!({"type": "object", "properties": {"picture": {"type": "string"}}}),
        ),
        (
            "output_schema",
            json!({"type": "object", "properties": {"stdout": {"type": "string"}}}),
        ),
    ] {
        assert_eq!(thumbnail[name], value, "{name}");
    }
    for (id, kind) in [
        ("run_report", "cli"),
        ("send_order", "api"),
        ("count_crates", "script"),
    ] {
        let tool = shown(&project, id);
        assert_eq!(
            (&tool["kind"], &tool["version"]),
            (&json!(kind), &json!("1.0.0")),
            "{id}"
        );
    }
    assert_eq!(
        shown(&project, "count_crates")["executor"],
        "ruby_runtime",
        "by the rules of `.ai/extractors/`"
    );
}

#[test]
fn the_examples_run() {
    let project = examples("002").committed();
    let result = |id: &str, parameters: &[&str]| {
        let answer = call(&project, id, parameters);
        assert_eq!(answer["status"], "success", "{answer}");
        answer["result"].clone()
    };
    assert_eq!(
        result("run_report", &["data=all"]),
        json!({"result": "1", "errors": ["--data", "all"]})
    );
    assert_eq!(
        result("list_cargo", &["ship=Aurora"]),
        json!({"result": "3 crates", "status": "success"})
    );
    // Through a parser of the project.
    assert_eq!(
        result("read_log", &[]),
        json!({"rows": [{"day": "1", "wind": "west"}]})
    );
    let order = planned(&project, "send_order", &["payload={\"crates\": 3}"]);
    let request = &order["invocation"]["action"];
    assert_eq!(
        (&request["method"], &request["url"], &request["body"]),
        (
            &json!("POST"),
            &json!("https://orders.example.com/new"),
            &json!("{\"crates\":3}")
        ),
        "{order}"
    );
    assert_eq!(
        request["headers"][0],
        json!(["Content-Type", "application/json"])
    );
    assert_eq!(order["invocation"]["timeout"], 30.0);
    let defaults = |id: &str, parameters: &[&str]| {
        planned(&project, id, parameters)["invocation"]["parameters"].clone()
    };
    assert_eq!(defaults("register_ship", &[]), json!({"retries": 3}));
    assert_eq!(
        defaults("list_cargo", &["ship=Aurora"]),
        json!({"ship": "Aurora", "format": "json", "max_items": 100})
    );
}

#[test]
fn parameters_are_held_against_the_schema() {
    let project = examples("002");
    for (id, parameters, complaint) in [
        ("convert", &["file=a.csv", "format=csv"][..], ""),
        ("convert", &["format=csv"], "missing parameter `file`"),
        (
            "convert",
            &["file=a", "format=xml"],
            "parameter `format` is not one of \"csv\" or \"json\"",
        ),
        ("send_order", &[], "missing parameter `payload`"),
        (
            "send_order",
            &["payload=1"],
            "parameter `payload`: `1` is not a JSON object",
        ),
        (
            "pack_parcels",
            &["parcels=[{\"id\": 1, \"name\": \"a\"}, {\"id\": 2}]"],
            "",
        ),
        (
            "pack_parcels",
            &["parcels=[]"],
            "parameter `parcels` has less than 1 item",
        ),
        (
            "pack_parcels",
            &["parcels=[{\"name\": \"a\"}]"],
            "missing parameter `parcels.0.id`",
        ),
        (
            "pack_parcels",
            &["parcels=[{\"id\": \"1\"}]"],
            "parameter `parcels.0.id` is not of type \"integer\"",
        ),
        (
            "register_ship",
            &["retries=-1"],
            "parameter `retries` is less than the minimum of 0",
        ),
        (
            "register_ship",
            &["state=sunk"],
            "parameter `state` is not one of \"building\", \"afloat\" or \"retired\"",
        ),
        (
            "register_ship",
            &["mail=nonsense"],
            "parameter `mail` does not match",
        ),
        ("register_ship", &["mail=crew@example.org"], ""),
        (
            "register_ship",
            &["engine={}"],
            "missing parameter `engine.power`",
        ),
        (
            "register_ship",
            &["engine={\"power\": \"x\"}"],
            "parameter `engine.power` is not of type \"integer\"",
        ),
        (
            "register_ship",
            &["papers=[]"],
            "parameter `papers` has less than 1 item",
        ),
        (
            "register_ship",
            &["papers=[1]"],
            "parameter `papers.0` is not of type \"string\"",
        ),
        (
            "register_ship",
            &["flags=[{\"key\": 1}]"],
            "parameter `flags.0.key` is not of type \"string\"",
        ),
        (
            "register_ship",
            &[
                "papers=[\"a\"]",
                "flags=[{\"key\": \"a\", \"value\": \"b\"}]",
            ],
            "",
        ),
        (
            "list_cargo",
            &["ship=Aurora", "max_items=0"],
            "parameter `max_items` is less than the minimum of 1",
        ),
        (
            "list_cargo",
            &["ship=Aurora", "max_items=10001"],
            "parameter `max_items` is greater than the maximum of 10000",
        ),
        (
            "list_cargo",
            &["ship=Aurora", "format=toml"],
            "parameter `format` is not one of \"csv\", \"json\" or \"xml\"",
        ),
    ] {
        let plan = planned(&project, id, parameters);
        let said = plan["message"].as_str().unwrap_or_default();
        assert_eq!(
            said.is_empty(),
            complaint.is_empty(),
            "{id} {parameters:?}: {plan}"
        );
        assert!(said.contains(complaint), "{id} {parameters:?}: {said}");
        if !complaint.is_empty() {
            assert_eq!(
                (&plan["code"], &plan["invocation"]),
                (&json!("INVALID_PARAMETER"), &Value::Null),
                "{plan}"
            );
        }
    }
}
