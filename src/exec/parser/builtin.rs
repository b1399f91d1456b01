//! The built-in parsers.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::exec::call::exact;
use crate::item::finding::{Findings, Severity, Strength};
use crate::item::position::Position;
use crate::item::yaml;

/// Parses with a built-in parser; `None` when there is none of that name.
pub(super) fn parse(name: &str, content: &str) -> Option<Result<Value, String>> {
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    Some(match name {
        "text" => Ok(text(content)),
        "json" => exact(content),
        "jsonl" => lines(content),
        "yaml" => document(content, 1),
        "csv" => table(content),
        "frontmatter" => front_matter(content),
        _ => return None,
    })
}

pub(super) fn text(content: &str) -> Value {
    json!({ "content": content })
}

/// One JSON value per line.
fn lines(content: &str) -> Result<Value, String> {
    let mut values = Vec::new();
    for (number, line) in (1..)
        .zip(content.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let value = exact(line).map_err(|message| {
            let what = message.split(" at line ").next().unwrap_or(&message);
            format!("line {number}: {what}")
        })?;
        values.push(value);
    }
    Ok(Value::Array(values))
}

/// A YAML document that begins at a line.
fn document(content: &str, line: u32) -> Result<Value, String> {
    if content.trim().is_empty() {
        return Ok(Value::Null);
    }
    let mut findings = Findings::new(Path::new(""), Strength::Lenient);
    let root = yaml::parse(content, Position { line, column: 1 }, &mut findings);
    let errors = findings
        .into_vec()
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error);
    let problem = errors
        .map(|it| format!("line {}, column {}: {}", it.line, it.column, it.message))
        .next();
    match (root, problem) {
        (_, Some(problem)) => Err(problem),
        (Some(root), None) => Ok(root.to_json()),
        (None, None) => Ok(Value::Null),
    }
}

/// Rows as objects, with the first line as keys.
fn table(content: &str) -> Result<Value, String> {
    let mut reader = csv::Reader::from_reader(content.as_bytes());
    let header = reader.headers().map_err(|err| err.to_string())?.clone();
    if let Some(twice) = header
        .iter()
        .enumerate()
        .find_map(|(at, name)| header.iter().take(at).find(|it| *it == name))
    {
        return Err(format!("two columns are called `{twice}`"));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|err| err.to_string())?;
        let row: Map<String, Value> = header
            .iter()
            .zip(&record)
            .map(|(name, field)| (name.to_owned(), Value::from(field)))
            .collect();
        rows.push(Value::Object(row));
    }
    Ok(json!({ "rows": rows }))
}

/// The YAML between two lines of dashes, and the text after it.
fn front_matter(content: &str) -> Result<Value, String> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut lines = content.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return Ok(json!({ "frontmatter": {}, "content": content }));
    };
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            let fields = document(content.get(first.len()..end).unwrap_or_default(), 2)?;
            let fields = if fields.is_null() { json!({}) } else { fields };
            let body = content.get(end + line.len()..).unwrap_or_default();
            return Ok(json!({ "frontmatter": fields, "content": body }));
        }
        end += line.len();
    }
    Err("the front matter is opened by `---` and not closed".to_owned())
}

#[cfg(test)]
mod tests;
