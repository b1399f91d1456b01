//! Knowledge: Markdown with YAML front matter.
//!
//! The front matter is between two `---` lines (or in a ```` ```yaml ```` block, as in RYE) at the
//! top of the file, after an optional stamp and comments. It is real YAML: lists, nested maps and
//! multi-line texts work. [`parse`] reads the fields that every entry has; all other keys are kept
//! in [`Knowledge::front_matter`].

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use super::finding::Findings;
use super::id::ItemId;
use super::node::{Data, Node, NodeEntry};
use super::position::{LineIndex, Position};
use super::signature;
use super::source::SourceFile;
use super::version;
use super::wording::shown;
use super::yaml;
use crate::problem::Code;

/// A long list of wrong values is one mistake, not thousands.
const MAX_WRONG_TAGS: usize = 20;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knowledge {
    pub id: ItemId,
    /// Empty only if an error was reported.
    pub title: String,
    /// Empty only if an error was reported.
    pub version: String,
    /// For example `pattern` or `decision`; empty only if an error was reported.
    pub entry_type: String,
    /// May be empty.
    pub category: String,
    pub tags: Vec<String>,
    /// Every field, including unknown ones.
    pub front_matter: Value,
    /// The text after the front matter.
    pub body: String,
    /// The fields with their positions.
    #[serde(skip)]
    pub fields: Node,
}

impl Knowledge {
    /// The JSON Schema that the entry gives for its own front matter.
    pub fn schema(&self) -> Option<&Node> {
        self.fields.find("schema")
    }
}

/// Reads an entry; `None` when it has no usable id.
pub fn parse(source: &SourceFile, findings: &mut Findings) -> Option<Knowledge> {
    let Sections { place, yaml, body } = split(&source.text, findings)?;
    let fields = yaml::parse(
        yaml,
        Position {
            line: place.line + 1,
            column: 1,
        },
        findings,
    )?;
    if fields.entries().is_none() {
        let message = format!(
            "front matter must be a mapping, found {}",
            fields.type_name()
        );
        findings
            .add(Code::InvalidType, fields.place, "", message)
            .suggest("write `key: value` lines");
        return None;
    }
    let mut reader = KnowledgeReader {
        fields: &fields,
        place,
        findings,
    };
    let stem = source
        .path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("my_entry");
    let id = reader.id(stem);
    let title = reader.required("title", "What it is about");
    let version = reader.version();
    let entry_type = reader.required("entry_type", "reference");
    let category = reader.recommended("category");
    let tags = reader.tags();
    Some(Knowledge {
        id: id?,
        title,
        version,
        entry_type,
        category,
        tags,
        front_matter: fields.to_json(),
        body: body.to_owned(),
        fields,
    })
}

struct Sections<'t> {
    /// Where the front matter begins.
    place: Position,
    yaml: &'t str,
    body: &'t str,
}

/// Splits a file by lines.
///
/// A `---` inside a value never ends the front matter: YAML does not allow it at the start of a
/// line, and elsewhere it is not alone on its line.
fn split<'t>(text: &'t str, findings: &mut Findings) -> Option<Sections<'t>> {
    let index = LineIndex::new(text);
    let mut lines =
        lines_from(text, signature::after_stamp(text)).skip_while(|(_, line)| is_skipped(line));
    let Some((opening, first)) = lines.next() else {
        findings
            .add(Code::EmptyFile, Position::START, "", "there is no content")
            .suggest("describe the entry, or remove the file");
        return None;
    };
    let place = index.place(opening);
    // Newer RYE files have the fields in a YAML block.
    let fenced = matches!(first.trim_end(), "```yaml" | "```yml");
    if first.trim_end() != "---" && !fenced {
        findings
            .add(Code::MissingFrontMatter, place, "", "the file has no YAML front matter")
            .suggest("begin it with `---`, the fields `id`, `title`, `version`, `entry_type`, and `---` again");
        return None;
    }
    let start = opening + first.len();
    let Some((end, closing)) = lines.find(|(_, line)| match line.trim_end() {
        "```" => fenced,
        end => !fenced && matches!(end, "---" | "..."),
    }) else {
        findings
            .add(
                Code::MissingFrontMatter,
                place,
                "",
                "the front matter that begins here is not closed",
            )
            .suggest(format!(
                "put a line `{}` between the fields and the text",
                if fenced { "```" } else { "---" }
            ));
        return None;
    };
    let yaml = text.get(start..end).unwrap_or("");
    if yaml
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    {
        findings
            .add(
                Code::MissingFrontMatter,
                place,
                "",
                "the front matter is empty",
            )
            .suggest("write at least `id`, `title`, `version` and `entry_type`");
        return None;
    }
    Some(Sections {
        place,
        yaml,
        body: text.get(end + closing.len()..).unwrap_or(""),
    })
}

/// Whether a line before the front matter is blank or a comment.
fn is_skipped(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || (line.starts_with("<!--") && line.ends_with("-->"))
}

/// The lines with their offsets and line endings.
fn lines_from(text: &str, start: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = start;
    text.get(start..)
        .unwrap_or("")
        .split_inclusive('\n')
        .map(move |line| {
            let begin = offset;
            offset += line.len();
            (begin, line)
        })
}

struct KnowledgeReader<'n, 'f> {
    fields: &'n Node,
    /// Where missing fields are reported.
    place: Position,
    findings: &'f mut Findings,
}

impl KnowledgeReader<'_, '_> {
    fn id(&mut self, stem: &str) -> Option<ItemId> {
        let (current, former) = (
            self.fields.find_entry("id"),
            self.fields.find_entry("zettel_id"),
        );
        // RYE calls it `name`.
        let former =
            former.or_else(|| self.fields.find_entry("name").filter(|_| current.is_none()));
        let present = |entry: &&NodeEntry| !is_blank(&entry.value);
        let (current, former) = (current.filter(present), former.filter(present));
        if let (Some(current), Some(former)) = (current, former)
            && current.value.scalar() != former.value.scalar()
        {
            self.findings
                .add(
                    Code::ConflictingField,
                    former.place,
                    "zettel_id",
                    "zettel_id differs from id, which counts",
                )
                .suggest("remove `zettel_id`");
        }
        let Some(entry) = current.or(former) else {
            self.missing("id", stem);
            return None;
        };
        // Zettelkasten ids are often bare numbers.
        let written = match &entry.value.data {
            Data::Text(text) => text.clone(),
            Data::Int(number) => number.to_string(),
            _ => {
                self.wrong_type(&entry.value, &entry.key, "a string");
                return None;
            }
        };
        match written.parse() {
            Ok(id) => Some(id),
            Err(err) => {
                self.findings
                    .add(
                        Code::InvalidId,
                        entry.value.place,
                        entry.key.clone(),
                        err.to_string(),
                    )
                    .suggest(format!("name it after the file: `{}: {stem}`", entry.key));
                None
            }
        }
    }

    fn required(&mut self, key: &str, example: &str) -> String {
        match self.fields.find(key).filter(|value| !is_blank(value)) {
            Some(value) => self.text(value, key),
            None => self.missing(key, example),
        }
    }

    fn recommended(&mut self, key: &str) -> String {
        let Some(value) = self.fields.find(key).filter(|value| !is_blank(value)) else {
            self.not_there(key);
            return String::new();
        };
        self.text(value, key)
    }

    fn version(&mut self) -> String {
        let Some(value) = self.fields.find("version").filter(|value| !is_blank(value)) else {
            return self.missing("version", "\"1.0.0\"");
        };
        version::check(value, "version", self.findings).0
    }

    fn tags(&mut self) -> Vec<String> {
        let Some(value) = self.fields.find("tags") else {
            self.not_there("tags");
            return Vec::new();
        };
        let Some(elements) = value.elements() else {
            self.wrong_type(value, "tags", "a list of strings");
            return Vec::new();
        };
        let others = elements
            .iter()
            .enumerate()
            .filter(|(_, element)| element.as_text().is_none());
        for (index, element) in others.take(MAX_WRONG_TAGS) {
            self.wrong_type(element, &format!("tags[{index}]"), "a string");
        }
        elements
            .iter()
            .filter_map(Node::as_text)
            .map(str::to_owned)
            .collect()
    }

    fn text(&mut self, value: &Node, key: &str) -> String {
        value.as_text().map_or_else(
            || {
                self.wrong_type(value, key, "a string");
                String::new()
            },
            str::to_owned,
        )
    }

    fn place_of(&self, key: &str) -> Position {
        let entry = self.fields.find_entry(key);
        entry.map_or(self.place, |entry| entry.place)
    }

    fn missing(&mut self, key: &str, example: &str) -> String {
        let place = self.place_of(key);
        self.findings
            .add(
                Code::MissingRequiredField,
                place,
                key,
                format!("{key} is required"),
            )
            .suggest(format!("add `{key}: {example}`"));
        String::new()
    }

    fn not_there(&mut self, key: &str) {
        let place = self.place_of(key);
        self.findings
            .add(
                Code::MissingRecommendedField,
                place,
                key,
                format!("{key} is recommended"),
            )
            .suggest(format!("add `{key}`, so that the entry can be found by it"));
    }

    fn wrong_type(&mut self, value: &Node, path: &str, expected: &str) {
        let message = format!("{path} must be {expected}, found {}", value.type_name());
        let finding = self
            .findings
            .add(Code::InvalidType, value.place, path, message);
        match (value.scalar(), expected) {
            (Some(scalar), "a string") => finding.suggest(format!(
                "put quotes around it: \"{}\"",
                shown(&scalar).escape_debug()
            )),
            (Some(scalar), _) => {
                finding.suggest(format!("write [{}]", shown(&scalar).escape_debug()))
            }
            (None, _) => finding.suggest(format!("replace it with {expected}")),
        };
    }
}

fn is_blank(value: &Node) -> bool {
    value.is_null() || value.as_text().is_some_and(|text| text.trim().is_empty())
}
