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
    assert_eq!(outcome(&format!("```\n{DIRECTIVE}\n```\n")), (true, vec!["2:1 UNFENCED_DIRECTIVE".to_owned()]));
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
        assert_eq!(outcome(&text), (false, vec!["1:1 NO_DIRECTIVE".to_owned()]), "{text}");
    }
}

#[test]
fn a_real_directive_wins_over_a_quoted_one() {
    let text = format!("````markdown\n```xml\n<directive/>\n```\n````\n\n```xml\n{DIRECTIVE}\n```\n\n<directive/>\n");
    assert_eq!(outcome(&text), (true, vec![]));
}

#[test]
fn two_directives_are_one_too_many() {
    let text = format!("```xml\n{DIRECTIVE}\n```\n~~~xml\n<directive/>\n~~~\n");
    assert_eq!(outcome(&text), (true, vec!["5:1 MANY_DIRECTIVES".to_owned()]));
    let text = format!("```xml\n{DIRECTIVE}\n<directive/>\n```\n");
    assert_eq!(outcome(&text), (true, vec!["3:1 MANY_DIRECTIVES".to_owned()]));
}

#[test]
fn only_blanks_and_comments_may_follow_in_the_fence() {
    assert_eq!(outcome(&format!("```xml\n{DIRECTIVE}\n<!-- end -->\n\n```\ntext\n")), (true, vec![]));
    assert_eq!(
        outcome(&format!("```xml\n{DIRECTIVE} text\n```\n")).1,
        [format!("2:{} TEXT_AFTER_DIRECTIVE", DIRECTIVE.len() + 2)]
    );
    assert_eq!(outcome(&format!("```xml\n{DIRECTIVE}\n\nThe end.\n")).1, ["4:1 TEXT_AFTER_DIRECTIVE"]);
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
    ] {
        assert_eq!(outcome(&format!("{stamp}\n```xml\n{DIRECTIVE}\n```\n")), (true, vec![]));
    }
}
