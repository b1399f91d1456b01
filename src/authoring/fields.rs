//! Changes fields of an item in place, without touching other lines.
//!
//! YAML manifests and front matter are changed line by line, so that comments and order stay; JSON
//! is rewritten. Values are written as JSON, which is valid YAML. The result is parsed again and
//! compared with the intended document, so a document with an unusual layout is refused and never
//! damaged.

use std::ops::Range;

use serde_json::{Map, Value};

use super::ItemStepError;
use crate::item::finding::{Findings, Strength};
use crate::item::node::Node;
use crate::item::position::Position;
use crate::item::store::{Item, ItemContent};
use crate::item::yaml;

/// The text of an item with new values for some fields; `null` removes a field.
pub(super) fn changed(
    item: &Item,
    text: &str,
    updates: &Map<String, Value>,
) -> Result<String, ItemStepError> {
    let refused = |reason: &str| ItemStepError::NotByField {
        name: item.id.to_string(),
        reason: reason.to_owned(),
    };
    let ending = item
        .file
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase();
    match (&item.content, ending.as_str()) {
        (ItemContent::Knowledge(_), _)
            if updates
                .keys()
                .any(|name| ["content", "body"].contains(&name.as_str())) =>
        {
            Err(refused("its text is not one of them"))
        }
        (ItemContent::Knowledge(entry), _) => {
            let new = in_lines(text, &entry.fields, updates)
                .ok_or_else(|| refused("of the way they are written"))?;
            let read = |text: &str| front_matter(item, text);
            if read(&new) == Some(wanted(entry.fields.to_json(), updates)) {
                Ok(new)
            } else {
                Err(refused("of the way they are written"))
            }
        }
        (ItemContent::Tool(_), "json") => {
            let document: Value =
                serde_json::from_str(text).map_err(|_| refused("the file is not plain JSON"))?;
            let mut new = format!("{:#}", wanted(document, updates));
            new.push('\n');
            Ok(new)
        }
        (ItemContent::Tool(_), "yaml" | "yml") => {
            let document = document(text).ok_or_else(|| refused("the file cannot be read"))?;
            // Schema 1.0 and 2.0 keep everything below `tool`.
            let inner = document
                .find("tool")
                .filter(|inner| inner.entries().is_some());
            let fields = inner.unwrap_or(&document);
            let new = in_lines(text, fields, updates)
                .ok_or_else(|| refused("of the way they are written"))?;
            let expected = match inner {
                Some(inner) => {
                    let below =
                        Map::from_iter([("tool".to_owned(), wanted(inner.to_json(), updates))]);
                    wanted(document.to_json(), &below)
                }
                None => wanted(document.to_json(), updates),
            };
            let is_meant = self::document(&new).is_some_and(|new| new.to_json() == expected);
            if is_meant {
                Ok(new)
            } else {
                Err(refused("of the way they are written"))
            }
        }
        (ItemContent::Directive(_), _) => Err(refused("they are part of a text")),
        (ItemContent::Tool(_), _) => Err(refused("they are part of a script")),
    }
}

/// A document with new values for some fields.
fn wanted(mut document: Value, updates: &Map<String, Value>) -> Value {
    if let Value::Object(fields) = &mut document {
        for (name, value) in updates {
            match value {
                Value::Null => drop(fields.shift_remove(name)),
                value => drop(fields.insert(name.clone(), value.clone())),
            }
        }
    }
    document
}

fn document(text: &str) -> Option<Node> {
    let mut findings = Findings::new(std::path::Path::new("document"), Strength::Lenient);
    yaml::parse(text, Position::START, &mut findings).filter(|node| node.entries().is_some())
}

fn front_matter(item: &Item, text: &str) -> Option<Value> {
    let mut findings = Findings::new(&item.file, Strength::Lenient);
    let source = crate::item::source::SourceFile::decode(
        &item.file,
        text.as_bytes().to_vec(),
        &mut findings,
    )?;
    crate::item::knowledge::parse(&source, &mut findings).map(|entry| entry.fields.to_json())
}

/// Changes fields that each begin a line; `None` if they do not.
fn in_lines(text: &str, fields: &Node, updates: &Map<String, Value>) -> Option<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let indent = fields.entries()?.first()?.place.column.checked_sub(1)? as usize;
    let mut places = places(&lines, fields, indent)?;
    // From the end, so that earlier line numbers stay valid.
    places.sort_by_key(|(_, range)| std::cmp::Reverse(range.start));
    let written = |name: &str, value: &Value| {
        let key = if is_plain(name) {
            name.to_owned()
        } else {
            Value::from(name).to_string()
        };
        format!("{}{key}: {value}{line_end}", " ".repeat(indent))
    };
    let end = places.first().map(|(_, range)| range.end)?;
    let new: Vec<String> = updates
        .iter()
        .filter(|(name, value)| !value.is_null() && places.iter().all(|(known, _)| known != *name))
        .map(|(name, value)| written(name, value))
        .collect();
    if let Some(last) = lines
        .get_mut(end.checked_sub(1)?)
        .filter(|last| !last.ends_with('\n'))
    {
        last.push_str(line_end);
    }
    lines.splice(end..end, new);
    for (name, range) in &places {
        if let Some(value) = updates.get(name) {
            let line = Some(value)
                .filter(|value| !value.is_null())
                .map(|value| written(name, value));
            lines.splice(range.clone(), line);
        }
    }
    Some(lines.concat())
}

/// The lines of each field: from its name to the last line of its value.
fn places(lines: &[String], fields: &Node, indent: usize) -> Option<Vec<(String, Range<usize>)>> {
    let mut starts = Vec::new();
    for entry in fields.entries()? {
        let line = usize::try_from(entry.place.line).ok()?.checked_sub(1)?;
        let begins = lines.get(line)?.get(..indent)?.chars().all(|c| c == ' ');
        if entry.place.column as usize != indent + 1
            || !begins
            || starts.iter().any(|(_, other)| *other == line)
        {
            return None;
        }
        starts.push((entry.key.clone(), line));
    }
    let mut places = Vec::new();
    for (name, start) in &starts {
        let next = starts
            .iter()
            .map(|(_, line)| *line)
            .filter(|line| line > start)
            .min();
        let mut end = start + 1;
        for (at, line) in lines
            .iter()
            .enumerate()
            .take(next.unwrap_or(lines.len()))
            .skip(start + 1)
        {
            let depth = line.len() - line.trim_start_matches(' ').len();
            let rest = line.trim();
            let is_item = depth == indent && (rest.starts_with("- ") || rest == "-");
            if next.is_none()
                && !rest.is_empty()
                && !rest.starts_with('#')
                && depth <= indent
                && !is_item
            {
                break;
            }
            // Blank lines and comments before the next field belong to that field.
            let is_comment = rest.starts_with('#') && depth <= indent;
            if !rest.is_empty() && !is_comment {
                end = at + 1;
            }
        }
        places.push((name.clone(), *start..end));
    }
    Some(places)
}

/// Whether a name needs no quotes in YAML.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off"]
            .contains(&name.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn updated(text: &str, updates: &Value) -> Option<String> {
        let Value::Object(updates) = updates else {
            panic!("an object")
        };
        in_lines(text, &document(text).unwrap(), updates)
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let text = "# Why\ntool_id: count   # the id\nversion: 1.0.0\n\n# What it does\ndescription: |\n  Counts\n\n  lines\ntags:\n- a\n- b\n# end\n";
        let updates = json!({"version": "1.1.0", "description": "Counts: \"words\"", "tags": ["c"], "timeout": 5});
        assert_eq!(
            updated(text, &updates).unwrap(),
            "# Why\ntool_id: count   # the id\nversion: \"1.1.0\"\n\n# What it does\ndescription: \"Counts: \\\"words\\\"\"\ntags: [\"c\"]\ntimeout: 5\n# end\n"
        );
        let shorter = updated(text, &json!({"description": null, "tags": null})).unwrap();
        assert_eq!(
            shorter,
            "# Why\ntool_id: count   # the id\nversion: 1.0.0\n\n# What it does\n# end\n"
        );
    }

    #[test]
    fn line_ends_and_a_missing_last_one_are_respected() {
        assert_eq!(
            updated("a: 1\r\nb: 2", &json!({"a": 3, "c": 4})).unwrap(),
            "a: 3\r\nb: 2\r\nc: 4\r\n"
        );
    }

    #[test]
    fn fields_that_share_a_line_are_left_alone() {
        assert_eq!(updated("{a: 1, b: 2}\n", &json!({"a": 3})), None);
    }
}
