//! Hostile input: no panic, no flood of findings.
//!
//! Quadratic behaviour would take minutes, and the test runner would stop it.

use proptest::prelude::*;

use super::*;

fn fenced(content: &str) -> String {
    format!("```xml\n<directive name=\"x\" version=\"1.0.0\">{content}</directive>\n```\n")
}

fn fill(unit: &str) -> String {
    unit.repeat(128_000 / unit.len())
}

#[test]
fn deep_nesting_is_refused_before_parsing() {
    let (directive, findings) = read(&fenced(&format!(
        "{}{}",
        "<a>".repeat(20_000),
        "</a>".repeat(20_000)
    )));
    assert!(directive.is_none());
    assert_eq!(findings.as_slice()[0].code.as_str(), "NESTING_LIMIT");
    let deep = fenced(&format!(
        "<unknown>{}{}</unknown>",
        "<a>".repeat(62),
        "</a>".repeat(62)
    ));
    assert!(read(&deep).0.is_some());
}

#[test]
fn much_of_anything_is_read() {
    let units = [
        "&",
        "&amp",
        "<",
        "< ",
        "<a>",
        "<a/>",
        "</a>",
        "<a b=\"",
        "<a b='",
        "<a b=\"1\"/>",
        "<?x ",
        "<!-- ",
        "<![CDATA[",
        "]]>",
        "<example>",
        "<template><raw>",
        "{input:",
        "{input:a}",
        "{step:a",
        "{CDATA_OPEN}",
        "<step>",
        "<input/>",
        "<input pattern=\"\\pL{30}\" name=\"a\"/>",
        "<permissions><wirte/></permissions>",
        "<directive>",
        "\n```\n",
        "\n```xml\n<directive>\n```\n",
        "\n```xml\n<!--\n```\n",
        "\n````md\n```xml\n",
        "<!DOCTYPE",
        "ä",
        "\r",
        "(",
        "<description>a</description>",
    ];
    for unit in units {
        let filled = fill(unit);
        let step = |text: &str| {
            format!("<process><step name=\"a\"><action>{text}</action></step></process>")
        };
        for text in [
            filled.clone(),
            fenced(&filled),
            fenced(&step(&filled)),
            fenced(&format!(
                "<process><step name=\"a\" when=\"{}\"/></process>",
                filled.replace('"', "'")
            )),
        ] {
            let (_, findings) = read(&text);
            let shown: String = text.chars().take(80).collect();
            assert!(
                findings.as_slice().len() < 30_000,
                "{} findings for {unit:?} in {shown}",
                findings.as_slice().len()
            );
        }
    }
}

#[test]
fn as_many_elements_as_are_allowed_are_read() {
    let numbered = |count: usize, element: &str| {
        (0..count)
            .map(|at| element.replace('#', &at.to_string()))
            .collect::<String>()
    };
    let schema = numbered(20_000, "\"p#\":1,");
    for content in [
        numbered(19_000, "<a/>"),
        numbered(9_000, "<permissions><wirte/></permissions>"),
        format!(
            "<permissions>{}</permissions>",
            numbered(5_000, "<write path='a' b='c'/>")
        ),
        format!(
            "<process>{}</process>",
            numbered(
                4_000,
                "<step name='s#' when='{step:s0.a} > {step:s#.b}'><action>{step:s1.x}</action></step>"
            )
        ),
        format!(
            "<process><step name='a'><execute>{}</execute></step></process>",
            numbered(6_000, "<param name='p#' value='{input:q#}'/>")
        ),
        format!(
            "<inputs>{}</inputs>",
            numbered(4_000, "<input name='i#' pattern='\\pL{30}#' default='a'/>")
        ),
        format!(
            "<inputs><schema>{{\"properties\":{{{schema}\"q\":1}}}}</schema></inputs><process><step name='a'><action>{}</action></step></process>",
            numbered(20_000, "{input:p#} {input:x#}")
        ),
    ] {
        let (directive, _) = read(&fenced(&content));
        let shown: String = content.chars().take(80).collect();
        assert!(directive.is_some(), "{shown}");
    }
}

#[test]
fn a_crowd_of_attributes_is_refused() {
    let attributes = (0..100_000)
        .map(|index| format!("a{index}=\"\""))
        .collect::<Vec<_>>()
        .join(" ");
    for text in [
        fenced(&format!("<a {attributes}/>")),
        fenced(&format!("<a {}/>", "b=\"\" ".repeat(100_000))),
    ] {
        let (directive, findings) = read(&text);
        assert!(directive.is_none());
        assert_eq!(codes(&findings), ["2:37 FILE_TOO_LARGE"]);
    }
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "<directive", "<directive name=\"x\" version=\"1.0.0\">", "</directive>", "<process>", "</process>",
            "<step name=\"a\">", "</step>", "<action>", "</action>", "<permissions>", "</permissions>", "<execute>",
            "<tool>", "</tool>", "<![CDATA[", "]]>", "<!--", "-->", "<?x", "?>", "<template>", "</template>",
            "\n```xml\n", "\n```\n", "\n~~~~\n", "\n````markdown\n", "{input:a}", "{step:", "&lt;", "&#x0;", "&", "<",
            ">", "\"", "'", " a=\"b\"", "/>", "\r\n", "ü€😀", "<!DOCTYPE x>", "\u{7f}", "\u{1}",
        ])
        .prop_map(str::to_owned),
        1 => "\\PC{0,8}",
        1 => any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

fn is_place_of(text: &str, findings: &Findings) -> bool {
    let lines: Vec<&str> = text.split('\n').collect();
    findings.as_slice().iter().all(|finding| {
        let line = usize::try_from(finding.line).unwrap() - 1;
        lines.get(line).is_some_and(|line| {
            usize::try_from(finding.column).unwrap() <= line.chars().count() + 1
        })
    })
}

#[derive(Clone, Debug)]
struct Generated {
    name: String,
    steps: Vec<(String, String)>,
    cdata: bool,
    fence: usize,
    prose: String,
}

fn generated() -> impl Strategy<Value = Generated> {
    (
        "[a-z0-9][a-z0-9_]{0,20}",
        prop::collection::btree_map("[a-z][a-z0-9_]{0,10}", "[ -~äß€]{0,40}", 1..8),
        any::<bool>(),
        3usize..7,
        "[a-zA-Z #.]{0,30}",
    )
        .prop_map(|(name, steps, cdata, fence, prose)| Generated {
            name,
            steps: steps
                .into_iter()
                .map(|(name, text)| (name, format!("x{}", text.replace('{', "("))))
                .collect(),
            cdata,
            fence,
            prose,
        })
}

impl Generated {
    fn text(&self) -> String {
        let steps = self
            .steps
            .iter()
            .map(|(name, text)| {
                let text = if self.cdata {
                    format!("<![CDATA[{}]]>", text.replace("]]>", "]]]]><![CDATA[>"))
                } else {
                    text.replace('&', "&amp;")
                        .replace('<', "&lt;")
                        .replace('>', "&gt;")
                };
                format!("    <step name=\"{name}\"><action>{text}</action></step>")
            })
            .collect::<Vec<_>>()
            .join("\n");
        let fence = "`".repeat(self.fence);
        format!(
            "{}\n\n{fence}xml\n<directive name=\"{}\" version=\"1.0.0\">\n  <process>\n{steps}\n  </process>\n</directive>\n{fence}\n",
            self.prose, self.name
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_gives_findings_inside_the_file(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        let (directive, findings) = read(&text);
        prop_assert!(directive.is_some() || findings.has_errors());
        prop_assert!(is_place_of(&text, &findings), "{}", listing(&findings));
    }

    #[test]
    fn any_content_of_a_directive_gives_findings_inside_the_file(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = fenced(&pieces.concat());
        let (directive, findings) = read(&text);
        prop_assert!(directive.is_some() || findings.has_errors());
        prop_assert!(is_place_of(&text, &findings), "{}", listing(&findings));
    }

    #[test]
    fn a_valid_directive_is_read_as_it_was_written(generated in generated()) {
        let (directive, findings) = read(&generated.text());
        prop_assert!(!findings.has_errors(), "{}", listing(&findings));
        let directive = directive.expect("a directive");
        prop_assert_eq!(directive.name.as_str(), &generated.name);
        let steps: Vec<(String, String)> = directive
            .steps
            .into_iter()
            .map(|step| match step.action {
                StepAction::Prose { instruction, .. } => (step.name, instruction),
                other => (step.name, format!("{other:?}")),
            })
            .collect();
        let expected: Vec<(String, String)> =
            generated.steps.iter().map(|(name, text)| (name.clone(), text.trim().to_owned())).collect();
        prop_assert_eq!(steps, expected);
    }
}
