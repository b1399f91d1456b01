//! Directives as people write them.

use super::*;

#[test]
fn every_quirk_of_real_directives_is_read() {
    for name in names_in("") {
        let (directive, findings) = load(&name);
        let directive = directive.unwrap_or_else(|| panic!("{name} is read"));
        assert!(!findings.has_errors(), "{name}:\n{}", listing(&findings));
        insta::assert_snapshot!(
            &*name,
            format!("{}\n{}", summary(&directive), listing(&findings))
        );
    }
}

#[test]
fn what_is_tolerated_is_an_error_when_strict() {
    let text = std::fs::read_to_string(fixtures().join("unescaped_text.md")).unwrap();
    let (_, findings) = read_with(&text, Strength::Strict);
    let errors = findings
        .as_slice()
        .iter()
        .filter(|it| it.severity == Severity::Error);
    assert_eq!(
        errors.map(|it| it.code.as_str()).collect::<Vec<_>>(),
        ["UNESCAPED_MARKUP"; 5]
    );
}

#[test]
fn carriage_returns_change_nothing() {
    let text = std::fs::read_to_string(fixtures().join("every_step.md")).unwrap();
    let (plain, _) = read(&text);
    let (windows, findings) = read(&text.replace('\n', "\r\n"));
    assert!(!findings.has_errors(), "{}", listing(&findings));
    assert_eq!(summary(&plain.unwrap()), summary(&windows.unwrap()));
}

#[test]
fn comparisons_may_stand_unescaped_in_attributes() {
    let (directive, findings) = read_process(
        "<step name=\"a\"><action>x</action></step>\n<step name=\"b\" when=\"{step:a.n} < 3\"><action>x</action></step>",
    );
    assert_eq!(codes(&findings), ["10:33 UNESCAPED_MARKUP"]);
    assert_eq!(
        findings.as_slice()[0]
            .suggestion
            .clone()
            .map(String::from)
            .as_deref(),
        Some("write `&lt;`")
    );
    assert_eq!(
        directive.unwrap().steps[1].when.as_deref(),
        Some("{step:a.n} < 3")
    );
}

#[test]
fn markup_in_an_action_is_kept_as_text() {
    let (directive, findings) =
        read_process("<step name=\"a\"><action>Be <b>bold</b>.</action></step>");
    assert_eq!(codes(&findings), ["9:27 UNESCAPED_MARKUP"]);
    let StepAction::Prose { instruction, .. } = &directive.unwrap().steps[0].action else {
        panic!("prose")
    };
    assert_eq!(instruction, "Be <b>bold</b>.");
}

#[test]
fn unknown_elements_are_kept() {
    let (directive, findings) = read_content(
        "<futur>a <b>c</b></futur><process><step name=\"a\"><execute item_type=\"tool\" item_id=\"x\"/><reason>why</reason></step></process>",
    );
    assert_eq!(
        codes(&findings),
        ["8:1 UNKNOWN_ELEMENT", "8:89 UNKNOWN_ELEMENT"]
    );
    let unknown = directive.unwrap().unknown;
    assert_eq!(
        unknown
            .iter()
            .map(|it| (&*it.path, &*it.content))
            .collect::<Vec<_>>(),
        [("futur", "a <b>c</b>"), ("process/step[0]/reason", "why")]
    );
}

#[test]
fn an_explicit_schema_counts_and_names_inputs() {
    let schema = r#"{"type": "object", "properties": {"depth": {"type": "integer"}}}"#;
    let process = "<process><step name=\"a\"><action>{input:depth}</action></step></process>";
    for inputs in [
        format!("<inputs><schema>{schema}</schema></inputs>"),
        format!("<inputs schema='{schema}'/>"),
        format!("<inputs><schema><![CDATA[\n{schema}\n]]></schema></inputs>"),
    ] {
        let (directive, findings) = read_content(&format!("{inputs}\n{process}"));
        assert_eq!(codes(&findings), [""; 0], "{inputs}");
        assert_eq!(
            directive.unwrap().input_schema.to_string(),
            serde_json::from_str::<Value>(schema).unwrap().to_string()
        );
    }
}

#[test]
fn inputs_make_a_schema() {
    let (directive, _) = load("every_step");
    let schema = directive.unwrap().input_schema;
    assert_eq!(
        schema,
        serde_json::json!({
            "type": "object",
            "properties": {
                "files": {"type": "array", "description": "Files to check"},
                "level": {"type": "string", "default": "low", "enum": ["low", "high"]},
                "tag": {"type": "string", "default": "v1", "pattern": "^v[0-9]+$"},
                "dry": {"type": "boolean", "default": false},
                "ratio": {"type": "number", "default": 0.5},
                "options": {"type": "object", "default": {"a": [1]}},
            },
            "required": ["files"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn the_mark_of_cdata_may_stand_in_cdata() {
    let (directive, findings) = read_process(
        "<step name=\"a\"><action><![CDATA[Text after <![CDATA[ is kept.]]></action></step>",
    );
    assert_eq!(codes(&findings), [""; 0]);
    let StepAction::Prose { instruction, .. } = &directive.unwrap().steps[0].action else {
        panic!("prose")
    };
    assert_eq!(instruction, "Text after <![CDATA[ is kept.");
}

#[test]
fn hooks_may_refer_to_any_step() {
    let (directive, findings) = read_content(
        "<hooks><hook when=\"error\" directive=\"mend\"><inputs><input name=\"log\" value=\"{step:a.log}\"/></inputs></hook></hooks>\
         <process><step name=\"a\"><action>x</action></step></process>",
    );
    assert_eq!(codes(&findings), [""; 0]);
    assert_eq!(directive.unwrap().hooks[0].inputs[0].value, "{step:a.log}");
}

#[test]
fn text_beside_an_executable_or_an_action_is_kept() {
    let (directive, findings) = read_process(
        "<step name=\"a\">Look first.<search item_type=\"tool\" query=\"x\"/></step>\n\
         <step name=\"b\"><action>Do it.</action>Then rest.</step>",
    );
    assert_eq!(codes(&findings), [""; 0]);
    let steps = directive.unwrap().steps;
    assert_eq!(steps[0].description, "Look first.");
    let StepAction::Prose { instruction, .. } = &steps[1].action else {
        panic!("prose")
    };
    assert_eq!(instruction, "Do it.\n\nThen rest.");
}

#[test]
fn scripts_are_migrated_by_a_step() {
    let (directive, findings) = read_process("<step name=\"a\"><migrate item_id=\"old\"/></step>");
    assert_eq!(listing(&findings), "");
    let action = serde_json::to_value(&directive.unwrap().steps[0].action).unwrap();
    assert_eq!(
        (&action["kind"], &action["verb"]),
        (&"item".into(), &"migrate".into())
    );
    let (_, findings) = read_process("<step name=\"a\"><migrate/></step>");
    assert!(
        listing(&findings).contains("MISSING_REQUIRED_FIELD process.step[0].migrate"),
        "{}",
        listing(&findings)
    );
}
