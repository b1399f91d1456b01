//! `docs/reference/codes.md`: the same codes as the program, and examples that are true.
//!
//! Every example is written into its own project and validated. A failing example must report its
//! code and nothing else, a fixed example must report nothing. Findings in [`AMBIENT`] are ignored.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use piton::problem::{Code, CodeLevel};
use serde_json::Value;

use crate::harness::TestProject;

/// Findings that the examples of other codes ignore, to stay short.
const AMBIENT: [&str; 2] = ["UNSIGNED", "MISSING_RECOMMENDED_FIELD"];

/// The level of codes that are not findings.
const RUN_TIME: &str = "run time";

/// One section of the page.
#[derive(Debug, Default)]
struct Section {
    code: String,
    level: String,
    summary: String,
    explanation: String,
    fails: Vec<Part>,
    mended: Vec<Part>,
}

/// One file of an example, or commands that create it.
#[derive(Debug)]
enum Part {
    File { path: String, text: String },
    Commands(String),
}

#[test]
fn the_page_and_the_program_know_the_same_codes() {
    let known: Vec<_> = Code::ALL
        .iter()
        .map(|code| (code.as_str(), level(*code), code.summary()))
        .collect();
    let page = page();
    let sections = sections(&page);
    let explained: Vec<_> = sections
        .iter()
        .map(|section| (&*section.code, &*section.level, &*section.summary))
        .collect();
    assert_eq!(
        explained, known,
        "the sections differ from the table in src/problem/code.rs"
    );
    let listed: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| ["))
        .collect();
    let expected: Vec<_> = known
        .iter()
        .map(|(code, level, summary)| {
            format!(
                "| [{code}](#{}) | {level} | {summary} |",
                code.to_lowercase()
            )
        })
        .collect();
    assert_eq!(
        listed, expected,
        "the list of all codes differs from the table in src/problem/code.rs"
    );
}

#[test]
fn every_code_is_explained_with_examples_or_a_cause_and_a_fix() {
    let poor: Vec<String> = sections(&page())
        .into_iter()
        .filter(|it| match it.level.as_str() {
            RUN_TIME => !it.explanation.contains("Fix: ") || it.explanation.len() < 60,
            _ => it.explanation.len() < 40 || it.fails.is_empty() || it.mended.is_empty(),
        })
        .map(|section| section.code)
        .collect();
    assert_eq!(poor, Vec::<String>::new());
}

#[test]
fn the_groups_of_the_page_are_those_of_the_table() {
    let source = fs::read_to_string(root().join("src/problem/code.rs")).expect("readable");
    let (_, table) = source.split_once("\ncodes! {\n").expect("a table of codes");
    let mut expected: Vec<String> = Vec::new();
    for line in table.lines().take_while(|line| *line != "}") {
        match line.trim().strip_prefix("// ") {
            Some(group) => expected.push(format!("## {}", group.trim_end_matches('.'))),
            None => expected.extend(line.split('"').nth(1).map(|code| format!("### {code}"))),
        }
    }
    assert!(
        expected.len() > Code::ALL.len() + 5,
        "the table has no groups"
    );
    let page = page();
    let first = page.find("\n## Any file\n").expect("the first group");
    let mut shown = Vec::new();
    outside_fences(&page[first..], |line| {
        shown.extend(line.starts_with("##").then(|| line.to_owned()));
    });
    assert_eq!(shown, expected);
}

#[test]
fn every_code_is_reported_somewhere() {
    let mut sources = Vec::new();
    collect(&root().join("src"), &mut sources);
    let text: String = sources
        .iter()
        .filter(|file| !file.starts_with(root().join("src/problem")))
        .map(|file| fs::read_to_string(file).expect("readable"))
        .collect();
    let words: BTreeSet<&str> = text
        .split("Code::")
        .skip(1)
        .filter_map(|rest| rest.split(|it: char| !it.is_alphanumeric()).next())
        .collect();
    let unused: Vec<String> = Code::ALL
        .iter()
        .map(|code| format!("{code:?}"))
        .filter(|name| !words.contains(&**name))
        .collect();
    assert_eq!(unused, Vec::<String>::new());
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn every_example_is_true() {
    let sections: Vec<Section> = sections(&page())
        .into_iter()
        .filter(|it| it.level != RUN_TIME)
        .collect();
    let chunks: Vec<&[Section]> = sections.chunks(sections.len().div_ceil(4).max(1)).collect();
    let complaints: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = chunks
            .iter()
            .map(|chunk| scope.spawn(|| chunk.iter().flat_map(judge).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a thread that ends"))
            .collect()
    });
    assert!(
        complaints.is_empty(),
        "{} examples are wrong:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn every_finding_about_the_fixtures_has_a_hint() {
    let fixtures = root().join("fixtures");
    let report = TestProject::new()
        .piton(["validate", "--format", "json", &fixtures.to_string_lossy()])
        .json();
    let findings = report["findings"].as_array().expect("a list of findings");
    assert!(findings.len() > 50, "the fixtures were not read");
    let silent: Vec<String> = findings
        .iter()
        .filter(|finding| finding["suggestion"].is_null())
        .map(ToString::to_string)
        .collect();
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn findings_about_a_field_lead_to_it() {
    let page = page();
    let told: Vec<String> = sections(&page)
        .iter()
        .filter(|section| {
            ["DUPLICATE_ID", "CATEGORY_MISMATCH", "INVALID_DEFAULT"].contains(&&*section.code)
        })
        .flat_map(|section| {
            let project = section.fails.iter().fold(TestProject::new(), apply);
            let report = project.piton(["validate", "--format", "json"]).json();
            let findings = report["findings"]
                .as_array()
                .expect("a list of findings")
                .clone();
            findings
                .into_iter()
                .filter(|finding| text(finding, "code") == section.code)
        })
        .map(|it| {
            format!(
                "{} {}:{}:{} {}",
                text(&it, "code"),
                text(&it, "file"),
                it["line"],
                it["column"],
                it["path"]
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "DUPLICATE_ID .ai/knowledge/style.md:2:5 \"id\"",
            "DUPLICATE_ID .ai/knowledge/words.md:2:5 \"id\"",
            "CATEGORY_MISMATCH .ai/tools/network/traceroute.yaml:4:11 \"category\"",
            "INVALID_DEFAULT .ai/tools/take_picture.yaml:12:14 \"parameters[0].default\"",
        ]
    );
}

/// Runs the examples of a section and returns what is wrong with them.
fn judge(section: &Section) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut check = |project: &TestProject, example: &str, strict: bool, severity: Option<&str>| {
        if let Err(complaint) = validate(project, &section.code, strict, severity) {
            let strict = if strict { " with --strict" } else { "" };
            complaints.push(format!("{} {example}{strict}: {complaint}", section.code));
        }
    };
    let project = section.fails.iter().fold(TestProject::new(), apply);
    match section.level.as_str() {
        "error" => check(&project, "fails", false, Some("error")),
        "warning" => {
            check(&project, "fails", false, Some("warning"));
            check(&project, "fails", true, Some("warning"));
        }
        _ => {
            check(&project, "fails", false, Some("warning"));
            check(&project, "fails", true, Some("error"));
        }
    }
    let project = section.mended.iter().fold(project, apply);
    check(&project, "mended", false, None);
    check(&project, "mended", true, None);
    complaints
}

/// Validates a project, which must have one code with this severity, or no finding at all.
fn validate(
    project: &TestProject,
    code: &str,
    strict: bool,
    severity: Option<&str>,
) -> Result<(), String> {
    let arguments = ["validate", "--format", "json"]
        .into_iter()
        .chain(strict.then_some("--strict"));
    let ran = project.piton(arguments);
    let report = ran.json();
    let findings = report["findings"].as_array().expect("a list of findings");
    let found: BTreeSet<(&str, &str)> = findings
        .iter()
        .map(|finding| (text(finding, "code"), text(finding, "severity")))
        .filter(|(found, _)| *found == code || !AMBIENT.contains(found))
        .collect();
    let expected: BTreeSet<(&str, &str)> = severity
        .map(|severity| (code, severity))
        .into_iter()
        .collect();
    let exit = if severity == Some("error") { 2 } else { 0 };
    if found != expected || ran.code() != Some(exit) || report["valid"] != Value::Bool(exit == 0) {
        return Err(format!(
            "expected {expected:?} and exit code {exit}, got\n{ran}"
        ));
    }
    if let Some(finding) = findings
        .iter()
        .find(|finding| Path::new(text(finding, "file")).is_absolute())
    {
        return Err(format!("not relative to the project: {finding}"));
    }
    let silent = findings
        .iter()
        .find(|finding| finding["suggestion"].is_null());
    silent.map_or(Ok(()), |finding| Err(format!("no suggestion: {finding}")))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().expect("a text")
}

fn apply(project: TestProject, part: &Part) -> TestProject {
    match part {
        Part::File { path, text } => match path.strip_prefix("~/") {
            Some(path) => project.home_file(path, text),
            None => project.file(path, text),
        },
        Part::Commands(commands) => {
            project.bash(commands);
            project
        }
    }
}

fn level(code: Code) -> &'static str {
    match code.level() {
        CodeLevel::Error => "error",
        CodeLevel::Warning => "warning",
        CodeLevel::ErrorWhenStrict => "error with `--strict`",
        CodeLevel::RunTime => RUN_TIME,
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/reference/codes.md")).expect("readable")
}

/// Reads the sections of the page: `### CODE`, `**level** · summary`, text, examples.
fn sections(page: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut is_mended = false;
    let mut file: Option<Option<String>> = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(code) = line.strip_prefix("### ") {
            sections.push(Section {
                code: code.to_owned(),
                ..Section::default()
            });
            continue;
        }
        let fence = line.len() - line.trim_start_matches('`').len();
        let block = (fence >= 3).then(|| block(&mut lines, &"`".repeat(fence)));
        let Some(section) = sections.last_mut() else {
            continue;
        };
        if let Some(text) = block {
            let file = file
                .take()
                .unwrap_or_else(|| panic!("{}: whose is this?\n{text}", section.code));
            let parts = if is_mended {
                &mut section.mended
            } else {
                &mut section.fails
            };
            parts.push(file.map_or_else(
                || Part::Commands(text.clone()),
                |path| Part::File {
                    path,
                    text: text.clone(),
                },
            ));
        } else if let Some((level, summary)) = line
            .strip_prefix("**")
            .and_then(|rest| rest.split_once("** · "))
        {
            (section.level, section.summary) = (level.to_owned(), summary.to_owned());
        } else if let Some((word, named)) = announcement(line) {
            is_mended = word == "Corrected" || (word == "and" && is_mended);
            file = Some(named);
        } else if file.is_none() && section.fails.is_empty() {
            write!(section.explanation, "{line} ").expect("a string takes everything");
        }
    }
    sections
}

/// Reads `Fails: `path``, `Corrected, made with:`, `and `path``.
fn announcement(line: &str) -> Option<(&str, Option<String>)> {
    let (word, rest) = line.split_once([':', ',', ' '])?;
    if !["Fails", "Corrected", "and"].contains(&word) {
        return None;
    }
    match rest.trim() {
        "made with:" => Some((word, None)),
        path => Some((
            word,
            Some(path.strip_prefix('`')?.strip_suffix('`')?.to_owned()),
        )),
    }
}

/// The lines up to the closing fence.
fn block<'p>(lines: &mut impl Iterator<Item = &'p str>, fence: &str) -> String {
    lines
        .take_while(|line| *line != fence)
        .flat_map(|line| [line, "\n"])
        .collect()
}

fn outside_fences<'p>(page: &'p str, mut tell: impl FnMut(&'p str)) {
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let fence = line.len() - line.trim_start_matches('`').len();
        if fence >= 3 {
            block(&mut lines, &"`".repeat(fence));
        } else {
            tell(line);
        }
    }
}
