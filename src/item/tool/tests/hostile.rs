//! Hostile input: no panic, no flood of findings.
//!
//! Quadratic behaviour would take minutes, and the test runner would stop it.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

#[test]
fn a_megabyte_of_anything_is_read_or_refused_with_a_reason() {
    let many = |pattern: &str| pattern.repeat((1 << 20) / pattern.len());
    let mut staircase = String::new();
    for depth in 0..1400 {
        let _ = writeln!(staircase, "{}if x:", " ".repeat(depth));
    }
    for (name, text) in [
        ("brackets", many("[")),
        (
            "closed brackets",
            format!("CONFIG = {}{}", "[".repeat(500_000), "]".repeat(500_000)),
        ),
        ("braces", format!("CONFIG = {}", many("{'a':"))),
        ("flat list", format!("CONFIG = [{}]", many("1,"))),
        (
            "flat dictionary",
            format!(
                "CONFIG = {{{}}}",
                (0..90_000).fold(String::new(), |mut s, n| {
                    let _ = write!(s, "'{n}':1,");
                    s
                })
            ),
        ),
        ("minus", format!("CONFIG = {}1", many("-"))),
        ("not", format!("CONFIG = {}1", many("not "))),
        ("parameters", format!("def main({}): pass", many("a,"))),
        (
            "annotations",
            format!("def main(a: {}): pass", many("List[")),
        ),
        (
            "union",
            format!("def main(a: {} int): pass", many("int | ")),
        ),
        ("strings", format!("CONFIG = {}", many("'a' "))),
        ("format string", format!("CONFIG = f'{}'", many("{a}"))),
        ("open string", format!("\"\"\"{}", many("tool_id: a\n"))),
        ("quotes", many("\"")),
        (
            "fields and prose",
            format!(
                "\"\"\"\ntool_id: a\n{}\"\"\"",
                "name: a\nProse\n".repeat(7000)
            ),
        ),
        ("backslashes", format!("__version__ = '{}'", many("\\"))),
        ("assignments", many("__version__ = '1'\n")),
        ("statements", many("x=1\n")),
        ("garbage", many("@ ) def $ ] ; ")),
        ("staircase", staircase),
        ("colons", many("tool_id: a\n")),
        ("comments", format!("# tool_id: x\n{}", many("# - \n"))),
        ("one comment", format!("# tool_id: {}", many("x"))),
        ("hashes", many("#")),
        ("stars", format!("/*{}", many("*"))),
        ("blank lines", many("\n")),
        (
            "nested yaml",
            format!("# tool_id: x\n# config: {}", many("[")),
        ),
    ] {
        let lines = u32::try_from(text.lines().count()).unwrap() + 1;
        for file in ["hostile.py", "hostile.sh", "hostile.js"] {
            let case = lenient(file, &text);
            let findings = case.findings.as_slice();
            assert!(
                findings.len() <= 200,
                "{name} as {file}: {} findings",
                findings.len()
            );
            assert!(
                findings
                    .iter()
                    .all(|finding| (1..=lines).contains(&finding.line)),
                "{name} as {file}"
            );
            let broken = matches!(case.reading, ToolReading::Broken);
            assert!(
                !broken || case.findings.has_errors(),
                "{name} as {file}: no reason"
            );
        }
    }
}

/// A Python literal and its JSON value.
fn literal() -> impl Strategy<Value = (String, Value)> {
    let leaf = prop_oneof![
        Just(("None".to_owned(), Value::Null)),
        Just(("True".to_owned(), Value::Bool(true))),
        Just(("False".to_owned(), Value::Bool(false))),
        any::<i64>().prop_map(|number| (number.to_string(), Value::from(number))),
        any::<u32>().prop_map(|number| (format!("{number:#x}"), Value::from(number))),
        (-1e9..1e9_f64).prop_map(|number| (format!("{number:?}"), Value::from(number))),
        any::<String>().prop_map(|text| (quote(&text), Value::from(text))),
        "[a-z {}]{0,8}".prop_map(|text| (format!("r\"{text}\""), Value::from(text))),
    ];
    leaf.prop_recursive(5, 48, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), any::<bool>()).prop_map(
                |(elements, is_list)| {
                    let (written, values): (Vec<String>, Vec<Value>) = elements.into_iter().unzip();
                    let written = written
                        .iter()
                        .fold(String::new(), |all, one| all + one + ", ");
                    let written = if is_list {
                        format!("[{written}]")
                    } else {
                        format!("({written})")
                    };
                    (written, Value::Array(values))
                }
            ),
            prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|entries| {
                let mut written = "{".to_owned();
                let mut map = Map::new();
                for (key, (text, value)) in entries {
                    let _ = write!(written, "\n  {}: {text}, # a comment", quote(&key));
                    map.insert(key, value);
                }
                (written + "\n}", Value::Object(map))
            }),
        ]
    })
}

/// A string as Python prints it.
fn quote(text: &str) -> String {
    let mut quoted = "'".to_owned();
    for character in text.chars() {
        match character {
            '\'' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() || u32::from(c) > 0xffff => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

/// Random combinations of pieces with a meaning in one of the formats.
fn fragments() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "tool_id: x",
        "tool_type: script",
        "version: 1.0",
        "executor:",
        "  type: python",
        "  - a",
        "config: {",
        "[",
        "]",
        "}",
        "\"\"\"",
        "'''",
        "#",
        "# tool_id: a",
        "# tool_type: python",
        "#!/bin/sh",
        "/*",
        "*/",
        "//",
        "--",
        "=begin",
        "def main(a: int = 1,",
        "**kwargs):",
        "CONFIG = {",
        "__version__ = ",
        "\"1.0.0\"",
        "\\",
        "\t",
        "  ",
        ":",
        "|",
        "&a",
        "*a",
        "tool:",
        "---",
        "parameters:",
        "- name: a",
        "  type: [string, null]",
        "é\u{202e}",
        "\0",
        "f'{x}'",
        "async def main(",
    ]);
    let joint = prop::sample::select(vec!["\n", " ", "", "\r\n"]);
    prop::collection::vec((words, joint), 0..40).prop_map(|parts| {
        parts
            .into_iter()
            .flat_map(|(word, joint)| [word, joint])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_literal_is_read_as_the_value_it_stands_for((written, value) in literal()) {
        let text = format!(
            "import os\n__version__ = '1.0.0'\n__tool_type__ = 'api'\n__executor_id__ = 'x'\nCONFIG = {{'value': {written}}}\n"
        );
        let case = lenient("tool.py", &text);
        let config = &case.tool().manifest.config;
        prop_assert_eq!(config.get("value"), Some(&value), "{}", text);
    }

    #[test]
    fn a_comment_header_says_the_same_in_every_comment(
        (file, open, mark, close) in prop::sample::select(vec![
            ("a.sh", "#!/bin/sh\n", "# ", ""),
            ("a.sh", "", "#", ""),
            ("a.js", "", "// ", ""),
            ("a.js", "/*\n", " * ", " */\n"),
            ("a.rb", "", "# ", ""),
            ("a.rb", "=begin\n", "", "=end\n"),
            ("a.lua", "", "-- ", ""),
        ]),
        tags in prop::collection::vec("[a-z]{1,5}", 1..30),
        blanks in 0..4_usize,
        depth in 0..20_usize,
    ) {
        let nested = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let fields = format!(
            "tool_id: a\ntool_type: script\nversion: \"1.2.3\"\ndescription: A\nexecutor: bash_runtime\n\
             tags: [{}]\nconfig:\n  entrypoint: {file}\n  value: {nested}\n",
            tags.join(", ")
        );
        let body = fields.lines().fold(String::new(), |text, line| text + mark + line + "\n");
        let text = format!("{open}{body}{close}{}x\n", "\n".repeat(blanks));
        let case = lenient(file, &text);
        let manifest = &case.tool().manifest;
        prop_assert_eq!((manifest.version.as_str(), &manifest.tags), ("1.2.3", &tags), "{}", text);
        prop_assert_eq!(manifest.config.get("value").map(ToString::to_string), Some(nested), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_reason(
        text in prop_oneof![any::<String>(), fragments()],
        strength in prop::sample::select(vec![Strength::Lenient, Strength::Strict]),
    ) {
        let lines = u32::try_from(text.lines().count()).unwrap() + 1;
        for name in ["x.py", "x.sh", "x.js", "x.yaml", "x.json", "x"] {
            for around in [TOOLS, SCRIPTS, LIB] {
                let case = read_in(&around, strength, name, &text);
                for finding in case.findings.as_slice() {
                    prop_assert!((1..=lines).contains(&finding.line), "{:?} in {:?}", finding, text);
                }
                if let ToolReading::Broken = case.reading {
                    prop_assert!(case.findings.has_errors(), "{}: {:?}", name, text);
                }
            }
        }
        let (rules, findings) = extractor(&text);
        prop_assert!(rules.is_some() || findings.has_errors());
    }
}
