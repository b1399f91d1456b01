//! Mistakes, and where they are reported.

use super::*;

#[test]
fn every_mistake_is_reported_where_it_is() {
    for name in names_in("bad/") {
        let (_, findings) = load(&name);
        assert!(findings.has_errors(), "{name}");
        let missing = findings
            .as_slice()
            .iter()
            .filter(|it| it.suggestion.is_none())
            .count();
        assert_eq!(missing, 0, "{name}:\n{}", listing(&findings));
        insta::assert_snapshot!(name.replace('/', "_"), listing(&findings));
    }
}

#[test]
fn nothing_but_blanks_is_an_empty_file() {
    for text in ["", " \n\t\n"] {
        assert_eq!(codes(&read(text).1), ["1:1 EMPTY_FILE"]);
    }
}

#[test]
fn names_and_versions_are_required() {
    let (directive, findings) = read("```xml\n<directive/>\n```");
    let found = codes(&findings);
    assert_eq!(
        found
            .iter()
            .filter(|it| it.ends_with("MISSING_REQUIRED_FIELD"))
            .count(),
        3
    );
    assert_eq!(directive.unwrap().name.as_str(), "x");
}

#[test]
fn invisible_characters_in_a_name_are_refused_and_shown() {
    let (_, findings) = read(
        "```xml\n<directive name=\"x\u{200b}\" version=\"1.0.0\"><process><step name=\"a\"><action>b</action></step></process></directive>\n```",
    );
    let finding = findings
        .as_slice()
        .iter()
        .find(|it| it.code.as_str() == "INVALID_ID")
        .unwrap();
    assert_eq!((finding.line, finding.column), (2, 18));
    assert_eq!(
        finding.message,
        "`x\\u{200b}` cannot be a name: an id may hold letters, digits, `_`, `-`, `.` and `/`, not U+200B"
    );
}

#[test]
fn a_repeated_name_that_differs_is_a_conflict() {
    let (_, findings) = read_content(
        "<name>y</name><version>1.0.0</version><process><step name=\"a\"><action>b</action></step></process>",
    );
    assert_eq!(codes(&findings), ["8:7 CONFLICTING_FIELD"]);
}

#[test]
fn characters_that_xml_forbids_are_reported_in_place() {
    let (directive, findings) = read_process("<step name=\"a\"><action>ä\u{1}</action></step>");
    assert!(directive.is_none());
    assert_eq!(codes(&findings), ["9:25 XML_SYNTAX"]);
}

#[test]
fn cdata_in_cdata_is_text_if_its_end_is_clear() {
    let (directive, findings) =
        read_process("<step name=\"a\"><action><![CDATA[ <![CDATA[ x ]]> ]]></action></step>");
    assert_eq!(codes(&findings), ["9:24 UNESCAPED_MARKUP"]);
    let StepAction::Prose { instruction, .. } = &directive.unwrap().steps[0].action else {
        panic!("manual work");
    };
    assert_eq!(instruction, "<![CDATA[ x ]]>");
    // Two sections, of which the first only mentions CDATA.
    let (directive, findings) = read_process(
        "<step name=\"a\"><action><![CDATA[ write <![CDATA[ first ]]></action></step>\
         <step name=\"b\"><action><![CDATA[ then ]]></action></step>",
    );
    assert_eq!(codes(&findings), [""; 0]);
    assert_eq!(directive.unwrap().steps.len(), 2);
}

#[test]
fn what_never_ends_is_reported_where_it_begins() {
    for (step, place) in [
        (
            "<step name=\"a\"><action><![CDATA[ x </action></step>",
            "9:24",
        ),
        ("<step name=\"a\"><!-- x </step>", "9:16"),
        ("<step name=\"a><action>x</action></step>", "9:1"),
        ("<step name=a><action>x</action></step>", "9:1"),
    ] {
        let (directive, findings) = read_process(step);
        assert!(directive.is_none());
        assert_eq!(codes(&findings), [format!("{place} XML_SYNTAX")], "{step}");
    }
}

#[test]
fn all_faults_in_text_are_reported_at_once() {
    let (directive, findings) = read_process(
        "<step name=\"a\"><action>\nrun <cmd> now\na <b c\nDict<str, int>\nx </i> y\n</action></step>\n<step name=\"a\"><action>z</action></step>",
    );
    assert_eq!(
        codes(&findings),
        [
            "10:5 XML_SYNTAX",
            "11:3 XML_SYNTAX",
            "12:5 XML_SYNTAX",
            "13:3 XML_SYNTAX",
            "15:1 DUPLICATE_NAME"
        ]
    );
    let StepAction::Prose { instruction, .. } = &directive.unwrap().steps[0].action else {
        panic!("prose")
    };
    assert_eq!(
        instruction,
        "run <cmd> now\na <b c\nDict<str, int>\nx </i> y"
    );
}

#[test]
fn inputs_with_faults_are_reported() {
    let inputs = [
        "<input type=\"string\"/>",
        "<input name=\"a\" required=\"yes\"/>",
        "<input name=\"b\" enum=\"1,x\" type=\"integer\"/>",
        "<input name=\"c\" enum=\"x,y\" default=\"z\"/>",
        "<input name=\"d\" pattern=\"^a$\" default=\"b\"/>",
        "<input name=\"e\" type=\"array\" default=\"1,2\"/>",
        "<input name=\"f g\"/>",
        "<input name=\"h\" pattern=\"\\w{9999}{99}\"/>",
        "<schema>{\"a\": }</schema>",
        "<schema>[]</schema>",
        "<inptu name=\"i\"/>",
    ];
    let (_, findings) = read_content(&format!(
        "<inputs>\n{}\n</inputs><process><step name=\"a\"><action>x</action></step></process>",
        inputs.join("\n")
    ));
    assert_eq!(
        codes(&findings),
        [
            "9:1 MISSING_REQUIRED_FIELD",
            "10:27 INVALID_TYPE",
            "11:25 INVALID_TYPE",
            "12:37 INVALID_DEFAULT",
            "13:40 INVALID_DEFAULT",
            "14:39 INVALID_DEFAULT",
            "15:1 NAMING_CONVENTION",
            "16:26 INVALID_PATTERN",
            "17:15 JSON_SYNTAX",
            "18:9 INVALID_SCHEMA",
            "19:1 UNKNOWN_ELEMENT",
        ]
    );
}

#[test]
fn metadata_with_faults_is_reported() {
    let (_, findings) = read_content(
        "<git_checkpoint mode=\"always\" on_failure=\"stop\"/>\n<limits turns=\"many\" tokns=\"5\"/>\n\
         <limits><spend>-1</spend></limits>\n<relationships><requires/><needs>x</needs></relationships>\n\
         <hooks><hook><when>x</when></hook><hook event=\"error\"/></hooks>\n\
         <model tier=\"haiku\" parallel=\"perhaps\"/>\n<process><step name=\"a\"><action>x</action></step></process>",
    );
    assert_eq!(
        codes(&findings),
        [
            "8:23 INVALID_ENUM_VALUE",
            "8:43 INVALID_ENUM_VALUE",
            "9:16 INVALID_TYPE",
            "9:22 UNKNOWN_FIELD",
            "10:16 INVALID_TYPE",
            "11:16 MISSING_REQUIRED_FIELD",
            "11:27 UNKNOWN_ELEMENT",
            "12:8 MISSING_REQUIRED_FIELD",
            "12:35 UNKNOWN_ELEMENT",
            "13:14 UNKNOWN_ENUM_VALUE",
            "13:31 INVALID_TYPE",
        ]
    );
}

#[test]
fn steps_with_faults_are_reported() {
    let steps = [
        "<step name=\"a\" as=\"x\"><action>x</action></step>",
        "<step name=\"b\" backoff=\"2\"><action>x</action></step>",
        "<step name=\"c\" retry=\"2\" backoff=\"never\"><action>x</action></step>",
        "<step name=\"d\"><execute item_id=\"x\"/></step>",
        "<step name=\"e\"><execute item_type=\"toll\" item_id=\"x\"/></step>",
        "<step name=\"f\"><execute item_type=\"tool\"><param value=\"1\"/></execute></step>",
        "<step name=\"g\"><checkpoint/></step>",
        "<step name=\"h\"><execute item_type=\"directive\" item_id=\"git_checkpoint\"><param name=\"opration\" value=\"x\"/></execute></step>",
        "<step name=\"i\"><checkpoint type=\"human-look\" gate=\"soft\">Look</checkpoint></step>",
        "<step name=\"j\"><search/></step>",
        "<step name=\"k\"><tool_call tool=\"x\"><param name=\"a\" value=\"1\"/><param name=\"a\" value=\"2\">t</param></tool_call></step>",
        "<step name=\"l m\" foreach=\"a list\"><action>x</action></step>",
        "<step name=\"n\"><action>x</action><action>y</action></step>",
        "<step name=\"o\"><verification><check>x</check></verification></step>",
        "<stpe name=\"p\"/>",
    ];
    let (_, findings) = read_process(&steps.join("\n"));
    assert_eq!(
        codes(&findings),
        [
            "9:1 MISSING_REQUIRED_FIELD",
            "10:1 MISSING_REQUIRED_FIELD",
            "11:35 INVALID_TYPE",
            "12:16 MISSING_REQUIRED_FIELD",
            "13:36 INVALID_ENUM_VALUE",
            "14:16 MISSING_REQUIRED_FIELD",
            "14:42 MISSING_REQUIRED_FIELD",
            "15:16 MISSING_REQUIRED_FIELD",
            "16:102 UNKNOWN_FIELD",
            "16:16 MISSING_REQUIRED_FIELD",
            "17:34 INVALID_ENUM_VALUE",
            "17:52 UNKNOWN_ENUM_VALUE",
            "18:16 MISSING_REQUIRED_FIELD",
            "19:89 CONFLICTING_FIELD",
            "19:63 DUPLICATE_NAME",
            "20:13 NAMING_CONVENTION",
            "21:34 AMBIGUOUS_STEP",
            "22:1 AMBIGUOUS_STEP",
            "23:1 UNKNOWN_ELEMENT",
            "20:27 INVALID_TYPE",
        ]
    );
}

#[test]
fn the_element_of_a_foreach_is_known_in_its_step_only() {
    let (_, findings) = read_content(
        "<inputs><input name=\"files\" type=\"array\"/></inputs><process>\n\
         <step name=\"a\" foreach=\"{input:files}\" as=\"file\"><action>{input:file.path}</action></step>\n\
         <step name=\"b\" foreach=\"{input:files}\"><action>{input:item}</action></step>\n\
         <step name=\"c\"><action>{input:file} {env:HOME} {input:files?}</action></step></process>",
    );
    assert_eq!(codes(&findings), ["11:24 UNKNOWN_REFERENCE"]);
    assert_eq!(
        findings.as_slice()[0]
            .suggestion
            .clone()
            .map(String::from)
            .as_deref(),
        Some("did you mean `{input:files}`?")
    );
}

#[test]
fn hooks_that_speak_of_what_piton_does_not_know_are_warned_about() {
    let hook = |when: &str| {
        let (directive, findings) = read_content(&format!(
            "<hooks><hook><when>{when}</when><directive>other</directive></hook></hooks>\n\
             <inputs><input name=\"a\" type=\"string\">x</input></inputs>\n\
             <process><step name=\"a\"><action>x</action></step></process>"
        ));
        assert_eq!(directive.map(|it| it.hooks.len()), Some(1), "{when}");
        let told = findings
            .as_slice()
            .iter()
            .filter(|it| it.code.as_str() != "MISSING_RECOMMENDED_FIELD");
        told.map(|it| format!("{} {:?} {}", it.column, it.severity, it.message))
            .collect::<Vec<_>>()
    };
    for when in [
        "step == 'a' and phase == \"before\"",
        "error and error.code == 'X' and 'm' in error.message",
        "cost.steps &gt; 10 or cost.seconds &gt; 1.5",
        "{input:a} == 'x' and not {step:a.done}",
    ] {
        assert_eq!(hook(when), [] as [&str; 0], "{when}");
    }
    assert_eq!(
        hook("cost.step &gt; 1 and limits.x"),
        [
            "20 Warning piton does not know `cost.step`: it is always null here",
            "41 Warning piton does not know `limits.x`: it is always null here",
        ]
    );
    assert_eq!(
        hook("cost.steps * 2"),
        ["31 Warning expected the end, `and` or `or`, found `*`; the hook never runs"]
    );
    assert_eq!(hook("{input:b}"), ["20 Error there is no input `b`"]);
}
