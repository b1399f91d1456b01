use proptest::prelude::*;

use super::*;

fn at(line: u32, column: u32, message: &str) -> JavaScriptProblem {
    JavaScriptProblem {
        line,
        column,
        message: message.to_owned(),
    }
}

fn names(text: &str) -> Vec<(u32, u32, &'static str)> {
    forbidden(text)
        .into_iter()
        .map(|found| (found.line, found.column, found.name))
        .collect()
}

#[test]
fn nothing_is_run() {
    assert_eq!(check_syntax("while (true) {}", Dialect::Function), None);
    assert_eq!(check_syntax("while (true) {}", Dialect::Module), None);
    assert_eq!(check_syntax("while (true) {}", Dialect::CommonJs), None);
    assert_eq!(
        check_syntax(
            "Object.defineProperty(globalThis, 'leak', {value: 1})",
            Dialect::Function
        ),
        None
    );
    assert_eq!(engine::global_exists("leak"), Some(false));
    assert_eq!(engine::global_exists("Object"), Some(true));
    assert_eq!(
        check_syntax(
            "globalThis.leak = 1; throw new Error('run')",
            Dialect::Function
        ),
        None
    );
    assert_eq!(engine::global_exists("leak"), Some(false));
}

#[test]
fn mistakes_are_found_where_they_are() {
    assert_eq!(
        check_syntax("const a = 1;\nconst b = ;\n", Dialect::Function),
        Some(at(2, 11, "unexpected token in expression: ';'"))
    );
    assert_eq!(
        check_syntax("const ä = 'öö'; const = 1", Dialect::Function),
        Some(at(1, 23, "variable name expected"))
    );
}

#[test]
fn snippets_are_scripts() {
    for good in [
        "(function () { const a = args.args; return { valid: !a.x, errors: [] }; })();",
        "function f(args) { return args; }\nmodule.exports = { f };",
        "const xs = [1, 2]; xs.map((x) => x ** 2)",
        "with (args) { x }",
        "#!/usr/bin/env node\n1",
        "",
    ] {
        assert_eq!(check_syntax(good, Dialect::Function), None, "{good}");
    }
    for bad in [
        "return 1",
        "import x from 'y'",
        "await x",
        "function (a) {}",
        "(((",
        "a\0b",
        "'open",
        "/(/",
        "let a; let a",
    ] {
        assert!(check_syntax(bad, Dialect::Function).is_some(), "{bad}");
    }
}

#[test]
fn common_js_is_the_body_of_a_function() {
    for good in [
        "return 1",
        "#!/usr/bin/env node\nif (x) return;\nmodule.exports = 1",
        "exports.a = require('b')",
        "// end",
    ] {
        assert_eq!(check_syntax(good, Dialect::CommonJs), None, "{good}");
    }
    for bad in [
        "}); while (true) {} (function () {",
        "return }",
        "return (",
        "export const a = 1",
        "x = `${return}`",
    ] {
        assert!(check_syntax(bad, Dialect::CommonJs).is_some(), "{bad}");
    }
    assert_eq!(
        check_syntax("if (a) return 1; let = = 2", Dialect::CommonJs),
        Some(at(1, 24, "unexpected token in expression: '='"))
    );
    let unclosed = check_syntax("return 1;\nif (x) {", Dialect::CommonJs).unwrap();
    assert_eq!((unclosed.line, unclosed.column), (2, 9));
}

#[test]
fn modules_are_strict_and_may_import() {
    for good in [
        "import fs from 'fs';\nexport const a = fs;",
        "export default 1",
        "await x",
        "import('x')",
    ] {
        assert_eq!(check_syntax(good, Dialect::Module), None, "{good}");
        assert_eq!(check_syntax(good, Dialect::Either), None, "{good}");
    }
    assert!(check_syntax("with (a) {}", Dialect::Module).is_some());
    assert_eq!(check_syntax("with (a) {}", Dialect::Either), None);
    assert_eq!(
        check_syntax("import a from 'b';\nlet = = 2", Dialect::Either).map(|problem| problem.line),
        Some(2)
    );
    assert_eq!(
        check_syntax("return 1;\nconst = 2", Dialect::Either),
        Some(at(2, 7, "variable name expected"))
    );
}

#[test]
fn a_failure_does_not_spoil_the_next_check() {
    let deep = format!("{}1{}", "!".repeat(90_000), "");
    for _ in 0..3 {
        assert!(check_syntax(&deep, Dialect::Function).is_some());
        assert_eq!(check_syntax("1", Dialect::Function), None);
        assert!(check_syntax("(", Dialect::Function).is_some());
        assert_eq!(check_syntax("import 'x'", Dialect::Module), None);
    }
}

#[test]
fn hostile_texts_are_answered() {
    let size = 40_000;
    let large = 120_000;
    let mut cases: Vec<(String, String)> = [
        "(",
        "[",
        "{",
        "a(",
        "!",
        "- ",
        "typeof ",
        "new ",
        "a=>",
        "()=>{",
        "a?",
        "a?b:",
        "x=",
        "if(a)",
        "if(a){}else ",
        "function f(){",
        "class A{a=",
        "class A extends ",
        "`${",
        "(a=",
        "({a:",
        "[a,",
        "for(;;)",
        "do ",
        "a:",
        "try{",
        "label:{",
        "async ()=>",
        "(a=(",
        "...",
        "a.",
        "a??",
        "a**",
        "/*",
        "'",
        "`",
        "//",
        "\\",
        "#",
        "yield ",
        "1,",
        "a;",
        "let a;",
        "switch(a){case ",
        "async function*f(){",
        "a?.[",
        "{a}",
        "()",
        "import(",
        "function f(a=",
        "var{a=",
    ]
    .iter()
    .map(|unit| ((*unit).to_owned(), unit.repeat(size / unit.len())))
    .collect();
    for body in [
        "(a",
        "[a",
        "(?:",
        "a{1,9}",
        r"\p{L}",
        "[^a-z]",
        "(?=",
        "(?<!",
        "a|",
        r"\u{1F600}",
        "(?<a>",
        r"[\p{L}--\p{Lu}]",
    ] {
        for flags in ["", "iu", "v", "iv"] {
            cases.push((
                format!("/{body}/{flags}"),
                format!("/{}/{flags}", body.repeat(large / body.len())),
            ));
            cases.push((
                format!("small /{body}/{flags}"),
                format!("/{}/{flags};", body.repeat(2)).repeat(700),
            ));
            cases.push((
                format!("16k /{body}/{flags}"),
                format!("/{}/{flags}", body.repeat(16_000 / body.len())),
            ));
        }
    }
    // Brackets look ahead: depth times length.
    cases.push((
        "lookahead".into(),
        format!(
            "{}{}{}",
            "(a=".repeat(190),
            "1,".repeat(150_000),
            ")".repeat(190)
        ),
    ));
    cases.push((
        "lookahead []".into(),
        format!(
            "{}{}{}",
            "[a=".repeat(190),
            "1,".repeat(150_000),
            "]".repeat(190)
        ),
    ));
    // Quadratic behaviour would take minutes, and the test runner would stop it.
    for (name, text) in &cases {
        let lines = u32::try_from(text.lines().count()).unwrap() + 1;
        if let Some(problem) = check_syntax(text, Dialect::Either) {
            assert!(
                (1..=lines).contains(&problem.line) && problem.column >= 1,
                "{name}: {problem:?}"
            );
        }
        assert_eq!(
            forbidden(text)
                .iter()
                .find(|found| found.name != "import" && found.name != "require"),
            None,
            "{name}"
        );
    }
}

#[test]
fn a_large_honest_file_compiles() {
    let unit = "function f0(args) { const out = []; for (const k of Object.keys(args)) { out.push(`${k}=${args[k]}`); } return out.join('&'); }\n";
    let text: String = (0..8000)
        .map(|n| unit.replace("f0", &format!("f{n}")))
        .collect();
    assert!(text.len() > 1_000_000);
    assert_eq!(check_syntax(&text, Dialect::CommonJs), None);
}

#[test]
fn nesting_of_real_code_compiles() {
    let depth = 60;
    let text = format!(
        "{}1{}",
        "(function () { return [{ a: ".repeat(depth),
        "}] })()".repeat(depth)
    );
    assert_eq!(
        check_syntax(&text[..], Dialect::Function).map(|problem| problem.message),
        Some("nested more than 200 levels deep".into())
    );
    let depth = 45;
    let text = format!(
        "{}1{}",
        "(function () { return [{ a: ".repeat(depth),
        "}] })()".repeat(depth)
    );
    assert_eq!(check_syntax(&text, Dialect::Function), None);
}

#[test]
fn uses_outside_the_sandbox_are_found() {
    assert_eq!(
        names("const fs = require('fs');\nfs.readFileSync('x')"),
        [(1, 12, "require")]
    );
    assert_eq!(names("  import('x')"), [(1, 3, "import")]);
    assert_eq!(names("import x from 'y'"), [(1, 1, "import")]);
    assert_eq!(
        names("import * as x from 'y'; import 'z'; import {a} from 'b'"),
        [(1, 1, "import"), (1, 25, "import"), (1, 37, "import")]
    );
    assert_eq!(
        names("a = process.env.X;\nreturn fetch(url)"),
        [(1, 5, "process"), (2, 8, "fetch")]
    );
    assert_eq!(
        names("process['env']; fs?.x; Deno.x; Bun.y; child_process.exec('x')").len(),
        5
    );
    assert_eq!(names("new XMLHttpRequest()"), [(1, 5, "XMLHttpRequest")]);
    assert_eq!(names("`a ${require('x')} b`"), [(1, 6, "require")]);
    assert_eq!(names("globalThis.fetch(u)"), [(1, 12, "fetch")]);
    assert_eq!(names("require ( 'x' )"), [(1, 1, "require")]);
    assert_eq!(names("a = b / c; require('x') / 2"), [(1, 12, "require")]);
    assert_eq!(names("i++ / require('x') / 2"), [(1, 7, "require")]);
    assert_eq!(
        names("if (/['\"]/.test(a)) require('x')"),
        [(1, 21, "require")]
    );
    assert_eq!(
        names("if (a) /'/.test(b); require('x'); //'"),
        [(1, 21, "require")]
    );
    assert_eq!(names("`${`${'}'}`}` + require('x')"), [(1, 17, "require")]);
    assert_eq!(names("ä('ß'); require('x')"), [(1, 9, "require")]);
}

#[test]
fn strings_comments_members_and_own_names_are_no_uses() {
    for harmless in [
        "'require(\"x\")'",
        "// require('x')\n/* fetch(y) process.env */ 1",
        "`require('x') ${1} process.env`",
        "/require('x')/.test(a)",
        "api.fetch(x); api?.fetch(x); a.process.b; a.fs.b; this.require('x'); a.globalThis.fetch(x)",
        "function fetch(x) { return x }\nfetch(1)",
        "const fetch = (x) => x; fetch(1)",
        "xs.map(fs => fs.name)",
        "xs.map((process, i) => process.id)",
        "function f(process) { return process.id }",
        "const o = { fetch(x) { return x }, process: 1, import: 2, XMLHttpRequest: 3 }",
        "preprocess.x; my_fs.y; processes[0]; fetched(1); required(2)",
        "a.import(x); import.meta",
        "'unclosed require('",
    ] {
        assert_eq!(names(harmless), [], "{harmless}");
    }
}

/// Pieces of JavaScript, nested and repeated.
fn source() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[a-z]{1,3}",
        Just("'s'".to_owned()),
        Just("`t${1}`".to_owned()),
        Just("/re[/]/g".to_owned()),
        Just("require('x')".to_owned()),
        Just("// c\n".to_owned()),
        "\\PC{0,6}",
        Just("\u{2028}".to_owned()),
    ];
    leaf.prop_recursive(12, 96, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0..40_usize).prop_map(|(text, times)| text.repeat(times)),
            inner.clone().prop_map(|text| format!("({text})")),
            inner.clone().prop_map(|text| format!("{{{text}}}")),
            inner.clone().prop_map(|text| format!("`${{{text}}}`")),
            inner
                .clone()
                .prop_map(|text| format!("function f(a={text}){{return {text}}}")),
            inner.clone().prop_map(|text| format!("({text})=>{text}")),
            prop::collection::vec(inner, 1..4).prop_map(|texts| texts.join(" / ")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_text_is_answered(text in prop_oneof![source(), "\\PC{0,200}"]) {
        let text: String = text.chars().take(20_000).collect();
        let lines = u32::try_from(text.lines().count() + 1).unwrap();
        for dialect in [Dialect::Function, Dialect::CommonJs, Dialect::Module, Dialect::Either] {
            if let Some(problem) = check_syntax(&text, dialect) {
                prop_assert!(problem.line >= 1 && problem.column >= 1 && problem.line <= lines, "{problem:?}");
                prop_assert!(!problem.message.is_empty());
            }
        }
        for found in forbidden(&text) {
            prop_assert!(found.line <= lines);
        }
    }

    #[test]
    fn tokens_cover_the_text_in_order(text in source()) {
        let mut end = 0;
        for token in scan::JavaScriptScanner::new(&text) {
            prop_assert!(token.start >= end && token.end > token.start);
            prop_assert!(text.get(token.start as usize..token.end as usize).is_some());
            end = token.end;
        }
    }

    #[test]
    fn a_use_is_found_after_any_text(before in prop_oneof![
        Just("'x' + "), Just("/x/ ; "), Just("`a` ; "), Just("a = b / c / "), Just("{ } "), Just("// x\n"), Just("if (a) ")
    ].prop_flat_map(|unit| (0..9_usize).prop_map(move |times| unit.repeat(times)))) {
        let text = format!("{before}require('x')");
        prop_assert_eq!(forbidden(&text).len(), 1, "{}", text);
    }
}
