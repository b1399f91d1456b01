//! Valid and invalid rules, and what they find.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::item::finding::Strength;
use crate::item::tool::{LoadedTool, Root, ToolLocation, ToolReading, read};

fn parse_text(name: &str, text: &str) -> (Option<Extractor>, Vec<String>) {
    let source = SourceFile {
        path: name.into(),
        text: text.to_owned(),
        marked: false,
    };
    let mut findings = Findings::new(Path::new(name), Strength::Lenient);
    let extractor = parse(&source, &mut findings);
    let told = findings
        .as_slice()
        .iter()
        .map(|finding| {
            format!(
                "{} {}:{} {}",
                finding.code, finding.line, finding.column, finding.path
            )
        })
        .collect();
    (extractor, told)
}

/// Reads a script with the rules of one extractor, which must be valid.
fn tool(rules: &str, path: &Path, text: &str) -> LoadedTool {
    let (extractor, told) = parse_text("rules.yaml", rules);
    assert_eq!(told, Vec::<String>::new());
    let extractors = [extractor.unwrap()];
    let around = ToolLocation {
        folder: None,
        root: Root::Tools,
        in_lib: false,
        extractors: &extractors,
    };
    let source = SourceFile {
        path: path.to_path_buf(),
        text: text.to_owned(),
        marked: false,
    };
    let mut findings = Findings::new(path, Strength::Lenient);
    match read(&source, &around, &mut findings) {
        ToolReading::Tool(tool) => *tool,
        other => panic!("{other:?} {:?}", findings.as_slice()),
    }
}

const SEED: &str = r#"
tool_id:
  pattern: "^([a-z_]+)$"
  source: filename
tool_type: {default: script}
version:
  default: "1.0.0"
executor:
  pattern: "executor[\"']\\s*:\\s*[\"'](\\w+)[\"']"
  source: config
"#;

#[test]
fn settings_beside_the_script_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("deploy.json"),
        "{\n  \"executor\": \"ruby_runtime\"\n}\n",
    )
    .unwrap();
    let path = folder.path().join("deploy.rb");
    let loaded = tool(SEED, &path, "puts 1\n");
    assert_eq!(loaded.manifest.tool_id.as_str(), "deploy");
    assert_eq!(loaded.manifest.version, "1.0.0");
    assert_eq!(
        loaded
            .manifest
            .executor
            .as_ref()
            .map(crate::item::id::ItemId::as_str),
        Some("ruby_runtime")
    );
    let origin = loaded.origins()["executor"].clone();
    assert_eq!(
        (origin.file.as_path(), origin.line, origin.column),
        (folder.path().join("deploy.json").as_path(), 2, 16)
    );
}

#[test]
fn without_settings_the_header_is_searched() {
    let loaded = tool(
        SEED,
        Path::new("deploy.rb"),
        "#!/usr/bin/ruby\n# {\"executor\": \"ruby_runtime\"}\nputs 'executor\": \"x\"'\n",
    );
    assert_eq!(
        loaded
            .manifest
            .executor
            .as_ref()
            .map(crate::item::id::ItemId::as_str),
        Some("ruby_runtime")
    );
    let origin = loaded.origins()["executor"].clone();
    assert_eq!(
        (origin.file.as_path(), origin.line, origin.column),
        (Path::new("deploy.rb"), 2, 17)
    );
}

#[test]
fn what_the_script_says_itself_comes_first() {
    let loaded = tool(
        SEED,
        Path::new("deploy.py"),
        "__version__ = '2.0.0'\n__executor_id__ = 'python_runtime'\n",
    );
    assert_eq!(loaded.manifest.version, "2.0.0");
    assert_eq!(
        loaded
            .manifest
            .executor
            .as_ref()
            .map(crate::item::id::ItemId::as_str),
        Some("python_runtime")
    );
}

#[test]
fn typed_rules_find_their_fields() {
    let rules = r"
extensions: ['.xyz', py]
parser: text
signature_format: {prefix: '#'}
extraction_rules:
  tool_id: {type: filename}
  version: {type: regex, pattern: '^V = (\S+)$', multiline: true}
  tags: {type: regex_all, pattern: '@(\w+)', group: 1}
  category: {type: category_path, base_folder: tools}
  executor_id: {default: xyz_runtime}
  tool_type: {type: ast_var, name: KIND}
  description: {type: ast_docstring}
  mutates_state: {type: regex, pattern: 'mutates=(\w+)'}
";
    let text = "'''Says hello.\n\nMore.'''\nKIND = 'script'\nV = 1.2.3\n# @one @two mutates=true\n";
    let loaded = tool(rules, Path::new(".ai/tools/a/b/hello.xyz"), text);
    let manifest = &loaded.manifest;
    assert_eq!(
        (
            manifest.tool_id.as_str(),
            manifest.version.as_str(),
            manifest.category.as_str(),
            manifest.description.as_str()
        ),
        ("hello", "1.2.3", "a/b", "Says hello.")
    );
    assert_eq!(
        (manifest.tags.clone(), manifest.mutates_state),
        (vec!["one".to_owned(), "two".to_owned()], Some(true))
    );
    assert_eq!(loaded.origins()["version"].line, 5);
}

#[test]
fn the_python_parser_is_known_without_code() {
    let rules = r"
tool_type: extractor
executor_id: null
extensions: [.py, .sh]
parser: python_ast
extraction_rules:
  name: {type: filename}
  version: {type: path, key: VERSION}
  description: {type: path, key: __docstring__}
  tool_type: {default: python}
  executor_id: {default: python_runtime}
  config: {default: {a: [1]}}
";
    let loaded = tool(
        rules,
        Path::new("x.py"),
        "\n'Says hello.'\nVERSION = '1.2.3'\n",
    );
    let manifest = &loaded.manifest;
    assert_eq!(
        (
            manifest.name.as_deref(),
            manifest.version.as_str(),
            manifest.description.as_str()
        ),
        (Some("x"), "1.2.3", "Says hello.")
    );
    assert_eq!(
        (
            loaded.origins()["version"].line,
            loaded.origins()["config.a[0]"].line
        ),
        (3, 1)
    );
}

#[test]
fn rules_are_checked() {
    let (extractor, told) = parse_text(
        "rules.yaml",
        r"
extensions: [7]
rulez: {}
rules:
  tool_idd: {default: x}
  tool_id: {pattern: '('}
  version: {pattern: 'a{1000}{1000}{1000}'}
  name: {pattern: '(?=a)'}
  category: {pattern: a, source: web}
  executor: {type: regexp, pattern: a}
  description: {type: path, key: a.b}
  author: text
  tags: {}
  timeout: {type: ast_var}
  writes: {pattern: a, group: 2}
  isolation: {type: regex}
  requires: {patern: a}
",
    );
    assert!(extractor.is_some_and(|extractor| extractor.rules.is_empty()));
    assert_eq!(
        told,
        [
            "INVALID_TYPE 2:14 extensions",
            "UNKNOWN_FIELD 3:1 rulez",
            "UNKNOWN_FIELD 5:3 rules.tool_idd",
            "INVALID_PATTERN 6:22 rules.tool_id.pattern",
            "INVALID_PATTERN 7:22 rules.version.pattern",
            "INVALID_PATTERN 8:19 rules.name.pattern",
            "INVALID_ENUM_VALUE 9:34 rules.category.source",
            "INVALID_ENUM_VALUE 10:20 rules.executor.type",
            "UNKNOWN_ENUM_VALUE 11:23 rules.description.type",
            "INVALID_TYPE 12:11 rules.author",
            "MISSING_REQUIRED_FIELD 13:3 rules.tags",
            "MISSING_REQUIRED_FIELD 14:12 rules.timeout.name",
            "INVALID_PATTERN 15:31 rules.writes.group",
            "MISSING_REQUIRED_FIELD 16:14 rules.isolation.pattern",
            "UNKNOWN_FIELD 17:14 rules.requires.patern",
            "MISSING_REQUIRED_FIELD 17:3 rules.requires",
        ]
    );
}

#[test]
fn code_is_not_executed() {
    let mut findings = Findings::new(Path::new("rules.py"), Strength::Lenient);
    assert!(load(Path::new("rules.py"), &mut findings).is_none());
    assert_eq!(
        findings
            .as_slice()
            .iter()
            .map(|it| it.code)
            .collect::<Vec<_>>(),
        [Code::CodeNotExecuted]
    );
    assert_eq!(parse_text("rules.yaml", "- a\n").1, ["INVALID_TYPE 1:1 "]);
}

/// Patterns of pieces that open, close and repeat each other.
fn pattern() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "(", ")", "(?:", "(?P<a>", "[a-z]", "[^", "]", "{1,9}", "{900}", "*", "+", "|", "^", "$",
        "\\w", "\\p{L}", "a", ".", "ü", "(?i)", "(a+)+", "\\1",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn rules() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::json;
    let field = prop::sample::select(vec![
        "tool_id",
        "tool_type",
        "version",
        "tags",
        "config",
        "description",
        "nonsense",
    ]);
    let kind = prop::sample::select(vec![
        json!("filename"),
        json!("regex"),
        json!("regex_all"),
        json!("category_path"),
        json!("ast_var"),
        json!("ast_docstring"),
        json!("other"),
        json!(1),
        json!(null),
    ]);
    let source = prop::sample::select(vec![
        json!("filename"),
        json!("content"),
        json!("config"),
        json!([]),
        json!(null),
    ]);
    let rule = (pattern(), kind, source, 0..3_usize).prop_map(|(pattern, kind, source, shape)| match shape {
        0 => json!({"pattern": pattern, "source": source}),
        1 => json!({"type": kind, "pattern": pattern, "group": 1, "name": "KIND", "default": [pattern]}),
        _ => json!([kind, source]),
    });
    (prop::collection::vec((field, rule), 0..7), any::<bool>()).prop_map(|(rules, typed)| {
        let rules: serde_json::Map<_, _> = rules
            .into_iter()
            .map(|(field, rule)| (field.to_owned(), rule))
            .collect();
        if typed {
            json!({"extensions": ["rb"], "extraction_rules": rules})
        } else {
            json!(rules)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_rules_are_refused_with_a_place_or_applied(rules in rules(), script in "(a|b|KIND = '|'|\n|# |\"\"\"|: |ü){0,60}") {
        let text = yaml::to_yaml(&rules);
        let source = SourceFile { path: "rules.yaml".into(), text: text.clone(), marked: false };
        let mut findings = Findings::new(Path::new("rules.yaml"), Strength::Lenient);
        let extractor = parse(&source, &mut findings);
        let lines = u32::try_from(text.lines().count()).unwrap();
        prop_assert!(findings.as_slice().iter().all(|finding| (1..=lines).contains(&finding.line)), "{:?}", findings.as_slice());
        prop_assert!(extractor.is_some() || findings.has_errors());
        let extractors: Vec<Extractor> = extractor.into_iter().collect();
        let around = ToolLocation { folder: None, root: Root::Tools, in_lib: false, extractors: &extractors };
        let source = SourceFile { path: "x.rb".into(), text: script, marked: false };
        let mut findings = Findings::new(Path::new("x.rb"), Strength::Lenient);
        let reading = read(&source, &around, &mut findings);
        prop_assert!(!matches!(reading, ToolReading::Broken) || findings.has_errors());
    }
}
