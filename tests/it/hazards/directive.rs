//! Hazards 20 to 38: directives, their XML and their Markdown.

use std::fmt::Write as _;

use super::{directive, fenced, process, told, validated, xml};
use crate::harness::TestProject;

const TOOL: &str = "<execute item_type=\"tool\" item_id=\"git_status\"/>";

#[test]
fn g20_billion_laughs() {
    let mut entities = "<!DOCTYPE directive [\n<!ENTITY a \"ha\">\n".to_owned();
    for (name, before) in ('b'..='j').zip('a'..) {
        let ten = format!("&{before};").repeat(10);
        writeln!(entities, "<!ENTITY {name} \"{ten}\">").expect("a string takes everything");
    }
    validated!(directive(format!("```xml\n{entities}]>\n{}\n```\n", xml("", &process("&j;")))), @"
    exit 2
    error XML_DTD .ai/directives/d.md:2:1 document type declarations and entities are not accepted
    ");
}

#[test]
fn g21_external_entity() {
    let text = format!(
        "<!DOCTYPE d [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n{}",
        xml("", &process("&x;"))
    );
    validated!(directive(format!("```xml\n{text}\n```\n")), @"
    exit 2
    error XML_DTD .ai/directives/d.md:2:1 document type declarations and entities are not accepted
    ");
}

#[test]
fn g22_twenty_thousand_elements_deep() {
    let deep = format!("{}{}", "<a>".repeat(20_000), "</a>".repeat(20_000));
    validated!(directive(fenced("", &process(&deep))), @"
    exit 2
    error NESTING_LIMIT .ai/directives/d.md:14:184 elements are nested more than 64 deep
    ");
    validated!(directive(xml(&"<a>".repeat(20_000), "")), @"
    exit 2
    warning UNFENCED_DIRECTIVE .ai/directives/d.md:1:1 the directive is not in a fenced xml block
    error NESTING_LIMIT .ai/directives/d.md:7:187 elements are nested more than 64 deep
    ");
    validated!(directive(fenced("", &"<directive>".repeat(20_000))), @"
    exit 2
    error NESTING_LIMIT .ai/directives/d.md:12:694 elements are nested more than 64 deep
    ");
}

#[test]
fn g23_unclosed_element() {
    validated!(directive(fenced("", "<process>\n<step name=\"one\">")), @"
    exit 2
    error XML_SYNTAX .ai/directives/d.md:12:1 `<process>` is never closed
    error XML_SYNTAX .ai/directives/d.md:13:1 `<step>` is never closed
    ");
    validated!(directive("```xml\n<directive name=\"d\" version=\"1.0.0\">\n<process"), @"
    exit 2
    error XML_SYNTAX .ai/directives/d.md:3:1 the tag `<process` is malformed
    ");
}

#[test]
fn g24_mismatched_element() {
    validated!(directive(fenced("", "<process>\n<step name=\"one\"></process>\n</step>")), @"
    exit 2
    error XML_SYNTAX .ai/directives/d.md:13:1 `<step>` is never closed
    error XML_SYNTAX .ai/directives/d.md:14:1 `</step>` closes nothing
    ");
}

#[test]
fn g25_bare_ampersands_and_angles() {
    let text = fenced(
        "",
        &process("<action>make && test < in 2>&1 & done</action>"),
    );
    validated!(directive(&text), @"
    exit 0
    warning UNESCAPED_MARKUP .ai/directives/d.md:14:14 an unescaped `&` is taken as text
    ");
    told!(directive(&text), ["validate", "--strict", "--format", "json"], @"
    exit 2
    error UNESCAPED_MARKUP .ai/directives/d.md:14:14 an unescaped `&` is taken as text
    ");
}

#[test]
fn g25_a_megabyte_of_bare_markup() {
    validated!(directive(fenced("", &process(&format!("<action>{}</action>", "a && b < c &d; ".repeat(50_000))))), @"
    exit 0
    warning UNESCAPED_MARKUP .ai/directives/d.md:14:11 an unescaped `&` is taken as text
    ");
}

#[test]
fn g25_nothing_but_ampersands_up_to_the_largest_file() {
    for unit in ["&", "& "] {
        let text = fenced("", &process("<action>TEXT</action>"));
        let text = text.replace(
            "TEXT",
            &unit.repeat((1024 * 1024 - text.len()) / unit.len()),
        );
        let report = directive(text)
            .limited(["validate", "--format", "json"])
            .json();
        assert_eq!(report["valid"], true, "{unit:?}");
    }
}

#[test]
fn g26_cdata_is_kept_verbatim() {
    let text = fenced(
        "",
        &process("<action><![CDATA[ if a < b && c; then echo \"&lt;\"; fi ]]></action>"),
    );
    let ran = directive(text).limited(["directive", "show", "d", "--format", "json"]);
    assert!(
        ran.stdout()
            .contains(r#"if a < b && c; then echo \"&lt;\"; fi"#),
        "{ran}"
    );
}

#[test]
fn g27_duplicate_attribute() {
    validated!(directive(fenced("", &process("<execute item_type=\"tool\" item_id=\"a\" item_id=\"b\"/>"))), @"
    exit 2
    warning UNKNOWN_ITEM .ai/directives/d.md:13:1 tool `a` does not exist
    error XML_SYNTAX .ai/directives/d.md:14:39 the attribute `item_id` is given twice
    ");
}

#[test]
fn g28_two_roots() {
    let two = format!("{}\n{}", xml("", ""), xml("", "").replace("\"d\"", "\"e\""));
    validated!(directive(format!("```xml\n{two}\n```\n")), @"
    exit 2
    warning MISSING_REQUIRED_FIELD .ai/directives/d.md:2:1 there are no steps, so the directive cannot run
    error MANY_DIRECTIVES .ai/directives/d.md:12:1 another directive begins in the same block
    ");
    validated!(directive(format!("```xml\n{}\ntrailing text\n```\n", xml("", ""))), @"
    exit 2
    warning MISSING_REQUIRED_FIELD .ai/directives/d.md:2:1 there are no steps, so the directive cannot run
    error TEXT_AFTER_DIRECTIVE .ai/directives/d.md:12:1 there is text between `</directive>` and the end of its fence
    ");
}

#[test]
fn g29_several_fences() {
    let two = format!(
        "{}\n{}",
        fenced("", ""),
        fenced("", "").replace("\"d\"", "\"e\"")
    );
    validated!(directive(two), @"
    exit 2
    warning MISSING_REQUIRED_FIELD .ai/directives/d.md:4:1 there are no steps, so the directive cannot run
    error MANY_DIRECTIVES .ai/directives/d.md:19:1 another directive begins here; the first begins on line 4
    ");
    let one = format!(
        "```xml\n<example/>\n```\n\n{}\n```xml\n<other>\n```\n",
        fenced("", &process(TOOL))
    );
    validated!(directive(one), @"
    exit 0
    warning UNKNOWN_ITEM .ai/directives/d.md:17:1 tool `git_status` does not exist
    ");
}

#[test]
fn g30_longer_and_other_fences() {
    let text = xml(
        "",
        &process("<action><![CDATA[\n```bash\nls\n```\n]]></action>"),
    );
    validated!(directive(format!("````xml\n{text}\n````\n")), @"exit 0");
    validated!(directive(format!("~~~xml\n{text}\n~~~\n")), @"exit 0");
    validated!(directive(format!("````markdown\n```xml\n{text}\n```\n````\n")), @"exit 0");
}

#[test]
fn g31_fences_inside_comments_and_cdata() {
    let text = xml(
        "",
        &format!(
            "<!--\n```\n-->\n{}",
            process("<action><![CDATA[\n```\n]]></action>")
        ),
    );
    validated!(directive(format!("```xml\n{text}\n```\n")), @"exit 0");
}

#[test]
fn g32_no_directive() {
    validated!(directive("# Just text\n"), @"
    exit 2
    error NO_DIRECTIVE .ai/directives/d.md:1:1 the file contains no directive
    ");
    validated!(directive(""), @"
    exit 2
    error EMPTY_FILE .ai/directives/d.md:1:1 the file is empty
    ");
    validated!(directive("```xml\n<workflow/>\n```\n"), @"
    exit 2
    error NO_DIRECTIVE .ai/directives/d.md:1:1 the file contains no directive
    ");
}

#[test]
fn g32_huge_markdown_without_directive() {
    validated!(directive("```xml\n<a>\n```\n".repeat(60_000)), @"
    exit 2
    error NO_DIRECTIVE .ai/directives/d.md:1:1 the file contains no directive
    ");
    validated!(directive("`".repeat(1_000_000)), @"
    exit 2
    error NO_DIRECTIVE .ai/directives/d.md:1:1 the file contains no directive
    ");
    validated!(directive("<directive ".repeat(90_000)), @"
    exit 2
    error XML_SYNTAX .ai/directives/d.md:1:1 the tag `<directive` is malformed
    warning UNFENCED_DIRECTIVE .ai/directives/d.md:1:1 the directive is not in a fenced xml block
    ");
    validated!(directive("<!--".repeat(200_000)), @"
    exit 2
    error NO_DIRECTIVE .ai/directives/d.md:1:1 the file contains no directive
    ");
}

#[test]
fn g33_unknown_permission() {
    let grants = "<permissions>\n<delete resource=\"filesystem\" path=\"**\"/>\n</permissions>";
    validated!(directive(fenced(grants, &process(TOOL))), @"
    exit 0
    warning UNKNOWN_PERMISSION .ai/directives/d.md:11:1 `<delete>` is not a known permission; it grants nothing
    warning UNKNOWN_ITEM .ai/directives/d.md:15:1 tool `git_status` does not exist
    ");
}

#[test]
fn g34_duplicate_names() {
    let step = "<step name=\"one\"><description>x</description><action>y</action></step>\n";
    let input = "<input name=\"i\" type=\"string\" required=\"true\">I</input>\n";
    let rest = format!(
        "<inputs>\n{}</inputs>\n<process>\n{}</process>",
        input.repeat(2),
        step.repeat(2)
    );
    validated!(directive(fenced("", &rest)), @"
    exit 2
    error DUPLICATE_NAME .ai/directives/d.md:14:1 input `i` is declared twice, first on line 13
    error DUPLICATE_NAME .ai/directives/d.md:18:1 step `one` is defined twice, first on line 17
    ");
}

#[test]
fn g34_twenty_thousand_equal_steps() {
    let step = "<step name=\"one\"><action>y</action></step>\n";
    validated!(directive(fenced("", &format!("<process>\n{}</process>", step.repeat(20_000)))), @"
    exit 2
    error FILE_TOO_LARGE .ai/directives/d.md:6676:1 more than 20000 elements and attributes, or 256 attributes on one element
    ");
}

#[test]
fn g35_reference_to_nothing() {
    let text =
        |action: &str| directive(fenced("", &process(&format!("<action>{action}</action>"))));
    validated!(text("{input:nope} {step:later.files} {step:one.files}"), @"
    exit 2
    error UNKNOWN_REFERENCE .ai/directives/d.md:14:9 there is no input `nope`
    error UNKNOWN_REFERENCE .ai/directives/d.md:14:22 there is no step `later`
    error UNKNOWN_REFERENCE .ai/directives/d.md:14:41 step `one` does not come before this one
    ");
    validated!(text("{input:} {step:a b} {run:x} {input:a"), @"
    exit 2
    error INVALID_TEMPLATE .ai/directives/d.md:14:9 `{input:}` is not of the form `{input:name}`
    error INVALID_TEMPLATE .ai/directives/d.md:14:18 `{step:a b}` is not of the form `{step:name.path}`
    error INVALID_TEMPLATE .ai/directives/d.md:14:29 `{run:x}` is not of the form `{run:id}`
    error INVALID_TEMPLATE .ai/directives/d.md:14:37 the placeholder `{input:…` is never closed
    ");
}

#[test]
fn g36_name_of_another_file() {
    validated!(directive(fenced("", &process(TOOL)).replace("name=\"d\"", "name=\"other\"")), @"
    exit 0
    warning NAME_MISMATCH .ai/directives/d.md:4:18 the file is named `d`, the directive `other`
    warning UNKNOWN_ITEM .ai/directives/d.md:13:1 tool `git_status` does not exist
    ");
}

#[test]
fn g37_invisible_and_lookalike_characters() {
    for (name, text) in [
        ("zero width", "d\u{200b}"),
        ("bidi", "d\u{202e}x"),
        ("lookalike", "\u{0430}dmin"),
    ] {
        let ran = directive(
            fenced("", &process(TOOL)).replace("name=\"d\"", &format!("name=\"{text}\"")),
        )
        .limited(["validate", "--format", "json"]);
        let codes: Vec<_> = ran.json()["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|f| f["code"].clone())
            .collect();
        assert_eq!(
            (ran.code(), codes.contains(&"INVALID_ID".into())),
            (Some(2), true),
            "{name}: {ran}"
        );
    }
    let hidden = fenced(
        "",
        &process("<execute item_type=\"tool\" item_id=\"git\u{200b}_status\"/>"),
    );
    validated!(directive(hidden), @r"
    exit 2
    error INVALID_ID .ai/directives/d.md:13:1 `git\\u{200b}_status` is not an id: an id may hold letters, digits, `_`, `-`, `.` and `/`, not U+200B
    error INVALID_ID .ai/directives/d.md:14:36 `git\\u{200b}_status` cannot name an item: an id may hold letters, digits, `_`, `-`, `.` and `/`, not U+200B
    ");
    // People see the escaped character, which cannot reverse the text direction.
    let ran = TestProject::new().limited(["tool", "show", "git\u{202e}x"]);
    assert!(
        !ran.stderr().contains('\u{202e}') && ran.code() == Some(2),
        "{ran}"
    );
}

#[test]
fn g38_stamps() {
    let stamp = format!(
        "<!-- kiwi-mcp:validated:2026-01-01T00:00:00Z:{} -->\n",
        "a".repeat(64)
    );
    let text = fenced("", &process(TOOL));
    validated!(directive(format!("{stamp}{stamp}{text}")), @"
    exit 2
    error INVALID_STAMP .ai/directives/d.md:2:1 there are two stamps
    warning UNKNOWN_ITEM .ai/directives/d.md:15:1 tool `git_status` does not exist
    ");
    validated!(directive(format!("\n{stamp}{text}")), @"
    exit 2
    error INVALID_STAMP .ai/directives/d.md:2:1 a stamp must be the first line
    warning UNKNOWN_ITEM .ai/directives/d.md:15:1 tool `git_status` does not exist
    ");
    validated!(directive(format!("{stamp}{text}")), @"
    exit 2
    error HASH_MISMATCH .ai/directives/d.md:1:1 Content hash mismatch: stamped aaaaaaaaaaaa…, found 8c0763a2190b…
    warning UNKNOWN_ITEM .ai/directives/d.md:14:1 tool `git_status` does not exist
    ");
    validated!(directive(format!("{stamp}{text}").replace('\n', "\r\n")), @"
    exit 2
    error HASH_MISMATCH .ai/directives/d.md:1:1 Content hash mismatch: stamped aaaaaaaaaaaa…, found bd7a08573322…
    warning UNKNOWN_ITEM .ai/directives/d.md:14:1 tool `git_status` does not exist
    ");
    validated!(directive(format!("{}{text}", stamp.replace(" -->", " more -->"))), @"
    exit 2
    error INVALID_STAMP .ai/directives/d.md:1:1 the hash of a stamp has 64 hexadecimal digits
    warning UNKNOWN_ITEM .ai/directives/d.md:14:1 tool `git_status` does not exist
    ");
}
