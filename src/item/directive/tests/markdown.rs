//! Finding the directive in Markdown.

use super::*;

const DIRECTIVE: &str = "<directive name=\"x\" version=\"1.0.0\"><description>d</description><category>c</category>\
     <author>a</author><model tier=\"fast\"/><process><step name=\"a\"><action>b</action></step></process></directive>";

fn outcome(text: &str) -> (bool, Vec<String>) {
    let (directive, findings) = read(text);
    (directive.is_some(), codes(&findings))
}

#[test]
fn any_fence_marked_xml_will_do() {
    for (open, close) in [
        ("```xml", "```"),
        ("~~~xml", "~~~"),
        ("`````xml", "``````"),
        ("``` XML", "```"),
        ("  ```xml title=\"x\"", "  ```"),
        ("```xml", ""),
        ("```xml\n<?xml version=\"1.0\"?>", "```"),
        ("```xml\n<!-- note -->", "```"),
    ] {
        let text = format!("# Title\n\n{open}\n{DIRECTIVE}\n{close}\n");
        assert_eq!(outcome(&text), (true, vec![]), "{open}");
    }
}

#[test]
fn a_fence_without_language_is_not_an_xml_fence() {
    assert_eq!(
        outcome(&format!("```\n{DIRECTIVE}\n```\n")),
        (true, vec!["2:1 UNFENCED_DIRECTIVE".to_owned()])
    );
}

#[test]
fn quoted_directives_are_not_taken() {
    for text in [
        format!("<!--\n```xml\n{DIRECTIVE}\n```\n-->\n"),
        format!("```html\n{DIRECTIVE}\n```\n"),
        format!("```markdown\n~~~xml\n{DIRECTIVE}\n~~~\n```\n"),
        "Write `<directive name=\"x\">` here.\n".to_owned(),
        "```xml\n<workflow><directive/></workflow>\n```\n".to_owned(),
    ] {
        assert_eq!(
            outcome(&text),
            (false, vec!["1:1 NO_DIRECTIVE".to_owned()]),
            "{text}"
        );
    }
}

#[test]
fn a_real_directive_wins_over_a_quoted_one() {
    let text = format!(
        "````markdown\n```xml\n<directive/>\n```\n````\n\n```xml\n{DIRECTIVE}\n```\n\n<directive/>\n"
    );
    assert_eq!(outcome(&text), (true, vec![]));
}

#[test]
fn a_second_directive_is_refused() {
    let text = format!("```xml\n{DIRECTIVE}\n```\n~~~xml\n<directive/>\n~~~\n");
    assert_eq!(
        outcome(&text),
        (true, vec!["5:1 MANY_DIRECTIVES".to_owned()])
    );
    let text = format!("```xml\n{DIRECTIVE}\n<directive/>\n```\n");
    assert_eq!(
        outcome(&text),
        (true, vec!["3:1 MANY_DIRECTIVES".to_owned()])
    );
}

#[test]
fn only_blanks_and_comments_may_follow_in_the_fence() {
    assert_eq!(
        outcome(&format!("```xml\n{DIRECTIVE}\n<!-- end -->\n\n```\ntext\n")),
        (true, vec![])
    );
    assert_eq!(
        outcome(&format!("```xml\n{DIRECTIVE} text\n```\n")).1,
        [format!("2:{} TEXT_AFTER_DIRECTIVE", DIRECTIVE.len() + 2)]
    );
    assert_eq!(
        outcome(&format!("```xml\n{DIRECTIVE}\n\nThe end.\n")).1,
        ["4:1 TEXT_AFTER_DIRECTIVE"]
    );
}

#[test]
fn an_unbalanced_directive_does_not_swallow_the_prose() {
    let text = "```xml\n<directive name=\"x\" version=\"1.0.0\">\n<process>\n</directive>\n```\n\nA & B <c>\n\n```xml\n<a></directive>\n```\n";
    assert_eq!(outcome(text), (false, vec!["3:1 XML_SYNTAX".to_owned()]));
}

#[test]
fn stamps_of_every_kind_may_come_first() {
    for stamp in [
        "<!-- kiwi-mcp:validated:2026-01-01T00:00:00Z:0123456789ab -->",
        "<!-- rye:signed:2026-01-01T00:00:00Z:00:c2ln:0123456789abcdef|github@someone -->",
        "<!-- ryeos:signed:2026-01-01T00:00:00Z:00:c2ln:0123456789abcdef -->",
        "<!-- rye:signed:2026-01-01T00:00:00Z:00:c2ln:0123456789abcdef",
    ] {
        assert_eq!(
            outcome(&format!("{stamp}\n```xml\n{DIRECTIVE}\n```\n")),
            (true, vec![])
        );
    }
}

fn with_process(process: &str) -> (Option<Directive>, Findings) {
    let head = "<directive name=\"x\" version=\"1.0.0\"><description>d</description><category>c</category>\
         <author>a</author><model tier=\"fast\"/></directive>";
    read(&format!("```xml\n{head}\n```\n\n{process}\n"))
}

#[test]
fn steps_below_the_fence_that_cannot_be_read_are_not_reported_as_missing_too() {
    let (_, findings) = with_process("<process><step name=\"a\">Run <branch></process>");
    assert_eq!(codes(&findings), ["5:10 XML_SYNTAX", "5:29 XML_SYNTAX"]);
}

#[test]
fn a_step_below_an_unclosed_fence_is_not_lost() {
    let (directive, findings) = with_process(
        "<process>\n<step name=\"a\">\n```\nx\n</step>\n<step name=\"b\">\n```\n<y>\n```\n</step>\n</process>",
    );
    assert_eq!(codes(&findings), [""; 0]);
    assert_eq!(
        directive
            .unwrap()
            .steps
            .iter()
            .map(|step| &*step.name)
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
}

#[test]
fn front_matter_is_not_taken_for_a_directive() {
    let (directive, findings) =
        read("<!-- ryeos:signed:2026-01-01T00:00:00Z:00:c2ln:00 -->\n---\nname: x\n---\nDo it.\n");
    assert!(directive.is_none());
    let suggestion = findings.as_slice()[0]
        .suggestion
        .clone()
        .map(String::from)
        .unwrap_or_default();
    assert!(
        suggestion.starts_with("front matter does not describe a directive here"),
        "{suggestion}"
    );
}
