//! Tests over the fixtures and over hostile text.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::*;
use crate::item::finding::{Findings, Severity, Strength};
use crate::item::source::{MAX_TEXT, SourceFile};

mod bad;
mod good;
mod grants;
mod hostile;
mod markdown;

fn load(name: &str) -> (Option<Directive>, Findings) {
    let path = fixtures().join(format!("{name}.md"));
    let mut findings = Findings::new(&path, Strength::Lenient);
    let source = SourceFile::load(&path, MAX_TEXT, &mut findings).expect("the fixture exists");
    (parse(&source, &mut findings), findings)
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/directives")
}

fn names_in(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(fixtures().join(folder))
        .expect("the folder exists")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            format!(
                "{folder}{}",
                path.file_stem().expect("a name").to_string_lossy()
            )
        })
        .collect();
    names.sort();
    names
}

/// Parses a text as the file `x.md`.
fn read(text: &str) -> (Option<Directive>, Findings) {
    read_with(text, Strength::Lenient)
}

fn read_with(text: &str, strength: Strength) -> (Option<Directive>, Findings) {
    let mut findings = Findings::new(Path::new("x.md"), strength);
    let source = SourceFile {
        path: PathBuf::from("x.md"),
        text: text.to_owned(),
        marked: false,
    };
    (parse(&source, &mut findings), findings)
}

/// Parses a directive `x` with the given content followed by one step, in a fence. It begins on
/// line 2 of the file, its content on line 8.
fn read_content(content: &str) -> (Option<Directive>, Findings) {
    read(&format!(
        "```xml\n<directive name=\"x\" version=\"1.0.0\">\n<description>d</description>\n<category>c</category>\n\
         <author>a</author>\n<model tier=\"fast\"/>\n\n{content}\n</directive>\n```\n"
    ))
}

/// The same for the content of `<process>`, which begins on line 9.
fn read_process(steps: &str) -> (Option<Directive>, Findings) {
    read_content(&format!("<process>\n{steps}\n</process>"))
}

/// One line per finding: place, severity, code, field, message and suggestion.
fn listing(findings: &Findings) -> String {
    let mut text = String::new();
    for finding in findings.as_slice() {
        let mark = if finding.severity == Severity::Error {
            'E'
        } else {
            'W'
        };
        let _ = writeln!(
            text,
            "{}:{} {mark} {} {}\n    {}\n    {}",
            finding.line,
            finding.column,
            finding.code,
            finding.path,
            finding.message,
            finding
                .suggestion
                .clone()
                .map(String::from)
                .as_deref()
                .unwrap_or("-"),
        );
    }
    text
}

/// Place and code of each finding.
fn codes(findings: &Findings) -> Vec<String> {
    findings
        .as_slice()
        .iter()
        .map(|it| format!("{}:{} {}", it.line, it.column, it.code))
        .collect()
}

/// Everything in a directive, one line per field or list element; empty fields are left out.
fn summary(directive: &Directive) -> String {
    let mut text = String::new();
    let Value::Object(fields) = serde_json::to_value(directive).expect("serializable") else {
        return text;
    };
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::Array(elements) => elements.iter().for_each(|element| {
                let _ = writeln!(text, "{name}[] {}", without_nulls(element));
            }),
            other => {
                let _ = writeln!(text, "{name} {}", without_nulls(&other));
            }
        }
    }
    text
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| {
                let empty = value.is_null()
                    || value.as_array().is_some_and(Vec::is_empty)
                    || (value.as_str() == Some("") && *name == "description");
                !empty
            })
            .map(|(name, value)| {
                let place = value
                    .as_object()
                    .filter(|_| name == "place")
                    .and_then(|it| {
                        Some(Value::from(format!(
                            "{}:{}",
                            it.get("line")?,
                            it.get("column")?
                        )))
                    });
                (name.clone(), place.unwrap_or_else(|| without_nulls(value)))
            })
            .collect(),
        other => other.clone(),
    }
}
