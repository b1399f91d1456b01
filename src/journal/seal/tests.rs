//! Tests that private values are hidden and can be restored.

use proptest::prelude::*;
use serde_json::json;

use super::super::event::tests::every_sample;
use super::*;
use crate::journal::event::StepKind;

fn salt() -> Salt {
    Salt::new(7)
}

fn brought_back(event: &Event) -> Event {
    match seal(event, &salt()).unwrap() {
        None => event.clone(),
        Some((mut public, Private { private, .. })) => {
            unseal(&mut public, private).unwrap();
            serde_json::from_value(public).unwrap()
        }
    }
}

#[test]
fn every_event_comes_back_whole() {
    for event in every_sample() {
        assert_eq!(brought_back(&event), event);
    }
}

#[test]
fn a_loop_is_written_and_hidden_as_any_other_event() {
    let elements = vec![
        json!("swordfish"),
        json!({"b": [1, null], "a": "ü"}),
        json!(1.5),
    ];
    let event = Event::LoopStarted {
        name: "each".to_owned(),
        elements,
    };
    let salt = salt();
    let (shown, kept) = seal_loop(&event, &salt).unwrap();
    let (public, private) = seal(&event, &salt).unwrap().unwrap();
    assert_eq!(
        serde_json::to_string(&shown).unwrap(),
        serde_json::to_string(&public).unwrap()
    );
    assert_eq!(
        serde_json::to_string(&kept).unwrap(),
        serde_json::to_string(&private).unwrap()
    );
    let empty = Event::LoopStarted {
        name: "each".to_owned(),
        elements: Vec::new(),
    };
    assert!(seal_loop(&empty, &salt).is_none() && seal(&empty, &salt).unwrap().is_none());
}

#[test]
fn every_event_can_be_read_without_its_private_part() {
    for event in every_sample() {
        let Some((public, _)) = seal(&event, &salt()).unwrap() else {
            continue;
        };
        let read: Event =
            serde_json::from_value(public.clone()).unwrap_or_else(|err| panic!("{err}: {public}"));
        assert_ne!(read, Event::Unknown, "{public}");
        assert_eq!(read.step(), event.step());
    }
}

#[test]
fn private_places_are_the_same_for_writing_and_reading() {
    for event in every_sample() {
        let value = serde_json::to_value(&event).unwrap();
        let by_type: Vec<&str> = parts_of(value["type"].as_str().unwrap())
            .iter()
            .map(|part| part.pointer())
            .collect();
        for part in parts(&event) {
            assert!(
                by_type.contains(&part.pointer()),
                "{} of {value}",
                part.pointer()
            );
        }
    }
}

#[test]
fn a_step_shows_names_of_parameters_and_hashes_of_their_values() {
    let event: Event = serde_json::from_value(json!({
        "type": "step_started", "step": 1, "name": "n", "tool": null, "before": null,
        "kind": {"type": "item", "verb": "search", "parameters": {"query": "swordfish", "again": "swordfish"}},
    }))
    .unwrap();
    let (public, private) = seal(&event, &salt()).unwrap().unwrap();
    assert!(!public.to_string().contains("swordfish"));
    assert_eq!(
        public["kind"]["parameters"]["query"],
        salt().hash(&json!("swordfish"))
    );
    assert_eq!(
        public["kind"]["parameters"]["query"],
        public["kind"]["parameters"]["again"]
    );
    assert_ne!(
        public["kind"]["parameters"]["query"],
        Salt::new(8).hash(&json!("swordfish"))
    );
    assert_eq!(private.private["/kind/parameters"]["query"], "swordfish");
}

#[test]
fn a_private_part_cannot_override_public_values() {
    let mut public = json!({"type": "run_started", "name": "make"});
    let private = json!({"/name": "rm", "/type": "x", "": 1, "/command": ["make"]});
    unseal(&mut public, private.as_object().unwrap().clone()).unwrap();
    assert_eq!(
        public,
        json!({"type": "run_started", "name": "make", "command": ["make"]})
    );
    let mut public = json!({"type": "step_started", "kind": 7});
    let private = json!({"/kind/argv": ["make"]});
    assert!(unseal(&mut public, private.as_object().unwrap().clone()).is_err());
}

#[test]
fn filled_in_texts_and_texts_of_people_are_hidden() {
    let error =
        |code: &str| json!({"code": code, "message": "the swordfish is out", "suggestion": null});
    let summary = json!({"type": "run_finished", "run_id": "01kdz3gqc80000000000000001", "directive": null,
        "status": "failed", "steps": [], "outputs": {}});
    let mut with_error = vec![
        json!({"type": "answered", "step": 1, "result": null}),
        json!({"type": "step_finished", "step": 1, "status": "failed"}),
        json!({"type": "resolved", "name": "n", "then": "stop"}),
        json!({"type": "directive_finished", "name": "n", "status": "failed", "outputs": {}}),
        summary,
    ];
    let mut rolled_back =
        json!({"type": "decided", "step": 1, "decision": {"type": "roll_back", "reason": "no"}});
    for code in ["STEP_FAILED", "REJECTED", "SENT_BACK"] {
        rolled_back["decision"]["error"] = error(code);
        for event in &mut with_error {
            event["error"] = error(code);
        }
        let filled = [
            json!({"type": "step_started", "step": 1, "name": "n", "tool": null, "before": null,
                "kind": {"type": "prose", "instruction": "Find the swordfish"}}),
            json!({"type": "waiting", "step": 1, "wait": {"for": "work", "instruction": "Find the swordfish",
                "checks": ["swordfish"]}}),
            json!({"type": "waiting", "step": 1, "wait": {"for": "person", "gate": "decision",
                "question": "swordfish?"}}),
        ];
        for event in with_error.iter().chain(&filled).chain([&rolled_back]) {
            let event: Event = serde_json::from_value(event.clone()).unwrap();
            let (public, _) = seal(&event, &salt()).unwrap().unwrap();
            assert!(!public.to_string().contains("swordfish"), "{public}");
            assert!(serde_json::from_value::<Event>(public).is_ok());
            assert_eq!(brought_back(&event), event);
        }
    }
    // Messages of tools and of piton itself are public, and a private part cannot override them.
    for event in &mut with_error {
        event["error"] = error("TOOL_FAILED");
        let event: Event = serde_json::from_value(event.clone()).unwrap();
        assert_eq!(seal(&event, &salt()).unwrap(), None);
        let mut public = serde_json::to_value(&event).unwrap();
        unseal(
            &mut public,
            json!({"/error/message": "all is well"})
                .as_object()
                .unwrap()
                .clone(),
        )
        .unwrap();
        assert_eq!(public, serde_json::to_value(&event).unwrap());
    }
}

#[test]
fn a_hash_does_not_depend_on_the_order_of_names() {
    let (one, other) = (
        json!({"a": [1, {"x": 1, "y": null}], "b": "\n"}),
        json!({"b": "\n", "a": [1, {"y": null, "x": 1}]}),
    );
    assert_eq!(salt().hash(&one), salt().hash(&other));
    let mut text = String::new();
    canonical(&other, &mut text);
    assert_eq!(text, r#"{"a":[1,{"x":1,"y":null}],"b":"\n"}"#);
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "[\t\n\u{0}-\u{1f}]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,4}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_values_come_back_and_are_not_shown(
        fields in prop::collection::btree_map("[a-z/~]{1,4}", values(), 0..4),
        result in values(),
    ) {
        let parameters: Map<String, Value> = fields.into_iter().collect();
        let kind = StepKind::Item { verb: "load".to_owned(), parameters: parameters.clone() };
        let step = Event::StepStarted {
            step: 1, name: "n".to_owned(), kind, tool: None, before: None, writes: Vec::new(),
            order: None,
        };
        prop_assert_eq!(&brought_back(&step), &step);
        let elements = parameters.values().cloned().collect();
        let events = [
            Event::Answered { step: 1, result: result.clone(), error: None, paths: Vec::new(), approver: None },
            Event::LoopStarted { name: "l".to_owned(), elements },
            Event::DirectiveStarted {
                name: String::new(), directive: "d@1".to_owned(), content: "00".repeat(32),
            inputs: parameters, hook: None,
            },
        ];
        for event in events {
            prop_assert_eq!(&brought_back(&event), &event);
            if let Some((public, private)) = seal(&event, &salt()).unwrap() {
                prop_assert!(serde_json::from_value::<Event>(public.clone()).is_ok());
                let line = serde_json::to_string(&private).unwrap();
                prop_assert!(!line.contains(['\t', '\n']));
                prop_assert!(!public.to_string().contains(['\t', '\n']));
            }
        }
    }
}
