//! A tool written as YAML reads as the same tool.

use std::fs;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn assert_round_trip(manifest: &ToolManifest) {
    let text = manifest.to_yaml();
    let case = lenient("tool.yaml", &text);
    let read = &case.tool().manifest;
    let expected = ToolManifest {
        tool_type: read.tool_type.clone(),
        ..manifest.clone()
    };
    assert_eq!(*read, expected, "\n{text}");
}

#[test]
fn every_fixture_survives_being_written_and_read() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tools/equal");
    let files = walkdir::WalkDir::new(fixtures)
        .into_iter()
        .map(Result::unwrap)
        .filter(|it| it.file_type().is_file());
    let mut count = 0;
    for file in files {
        let text = fs::read_to_string(file.path()).unwrap();
        assert_round_trip(
            &lenient(file.path().to_str().unwrap(), &text)
                .tool()
                .manifest,
        );
        count += 1;
    }
    assert!(count > 15, "the fixtures are missing");
}

#[test]
fn empty_fields_are_left_out() {
    let case = lenient(
        "x.yaml",
        "tool_id: x\ntool_type: cli\nversion: 1.0.0\nexecutor: subprocess\nwrites: []\n",
    );
    assert_eq!(
        case.tool().manifest.to_yaml(),
        "tool_id: x\ntool_type: cli\nversion: 1.0.0\nexecutor: subprocess\nwrites: []\n"
    );
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "[ -~äöü€\n]{0,20}",
        Just("yes".to_owned()),
        Just("1.10".to_owned()),
        Just("~".to_owned())
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        texts().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-z_]{1,6}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_settings_and_parameters_survive(
        description in texts(),
        config in btree_map("x_[a-z]{1,6}", value(), 0..5),
        parameters in btree_map("[a-z]{1,6}", (any::<bool>(), texts()), 0..5),
        tags in vec("[a-z]{1,6}", 0..3),
        mutates_state in any::<Option<bool>>(),
    ) {
        let mut manifest =
            lenient("x.yaml", "tool_id: x\ntool_type: cli\nversion: 1.0.0\nexecutor: subprocess\nparameters: []\n")
                .tool()
                .manifest
                .clone();
        let list: Vec<Value> = parameters
            .iter()
            .map(|(name, (required, about))| {
                serde_json::json!({"name": name, "type": "string", "required": required, "description": about})
            })
            .collect();
        let text = crate::item::yaml::to_yaml(&serde_json::json!({
            "tool_id": "x", "tool_type": "cli", "version": "1.0.0", "executor": "subprocess", "parameters": list,
        }));
        let declared = lenient("x.yaml", &text);
        manifest.parameters.clone_from(&declared.tool().manifest.parameters);
        manifest.input_schema.clone_from(&declared.tool().manifest.input_schema);
        manifest.description = description;
        manifest.config = config.into_iter().collect();
        manifest.tags = tags;
        manifest.mutates_state = mutates_state;
        assert_round_trip(&manifest);
    }
}
