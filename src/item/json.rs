//! Parses JSON into [`Node`]s.
//!
//! Strict JSON: no comments, no trailing commas. The parser recurses, so brackets are counted
//! first. It accepts more white space and control characters than the standard, so `serde_json`
//! decides what is valid.

pub mod member;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;

use super::document::{MAX_DEPTH, ParseReporter, push_index, push_key};
use super::finding::Findings;
use super::node::{Data, Node, NodeEntry};
use super::position::{LineIndex, Position};
use crate::problem::Code;

const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads a document; `origin` is the position of the text in its file.
///
/// Returns `None` when there is no root to check further.
pub fn parse(text: &str, origin: Position, findings: &mut Findings) -> Option<Node> {
    let mut report = ParseReporter::new(origin, findings);
    if report.is_too_large(text) {
        return None;
    }
    let index = LineIndex::new(text);
    if let Some(offset) = find_too_deep(text) {
        let place = report.moved(index.place(offset));
        report.too_deep(place, String::new());
        return None;
    }
    let root = match parse_to_ast(text, &CollectOptions::default(), &STRICT) {
        Ok(result) => result.value,
        Err(error) => {
            let place = report.moved(index.place(error.range().start));
            let message = error.kind().to_string().to_lowercase();
            report.add(
                Code::JsonSyntax,
                place,
                String::new(),
                message,
                advice(error.kind()),
            );
            return None;
        }
    };
    let Some(root) = root else {
        report.empty();
        return None;
    };
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        let message = error.to_string();
        let message = message
            .split(" at line ")
            .next()
            .unwrap_or(&message)
            .to_owned();
        let place = report.moved(index.place(offset_of(text, &error)));
        let suggestion =
            "write control characters as escapes, e.g. `\\n`; use plain white space between values";
        report.add(Code::JsonSyntax, place, String::new(), message, suggestion);
        return None;
    }
    let mut reader = JsonReader {
        report,
        index,
        path: Vec::new(),
    };
    Some(reader.node(&root))
}

/// Finds the bracket that exceeds the depth; brackets in strings do not count.
fn find_too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' if depth == MAX_DEPTH => return Some(offset),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn advice(kind: &ParseErrorKind) -> &'static str {
    match kind {
        ParseErrorKind::CommentsNotAllowed => "JSON has no comments; use YAML if you need them",
        ParseErrorKind::TrailingCommasNotAllowed => "remove the last comma",
        ParseErrorKind::ExpectedComma => "put a comma between two values",
        ParseErrorKind::SingleQuotedStringsNotAllowed | ParseErrorKind::UnexpectedWord => {
            "put double quotes around text"
        }
        ParseErrorKind::ExpectedStringObjectProperty => "put double quotes around the key",
        ParseErrorKind::MultipleRootJsonValues => "keep one value per file",
        ParseErrorKind::UnterminatedArray | ParseErrorKind::UnterminatedObject => {
            "close the bracket that opens here"
        }
        ParseErrorKind::String(_) => "close the quote, and write `\\\\` for a backslash",
        _ => "check commas, colons and quotes around this place",
    }
}

/// The offset of a `serde_json` error.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    // Its column counts bytes: before the character inside a string, otherwise including it.
    let in_string = error.to_string().starts_with("control character");
    before
        + if in_string {
            error.column()
        } else {
            error.column().saturating_sub(1)
        }
}

struct JsonReader<'t, 'f> {
    report: ParseReporter<'f>,
    index: LineIndex<'t>,
    path: Vec<Segment>,
}

enum Segment {
    Key(String),
    Index(usize),
}

impl JsonReader<'_, '_> {
    /// Converts a value to a node; [`find_too_deep`] bounds the recursion.
    fn node(&mut self, value: &Value<'_>) -> Node {
        let place = self.place(value.range().start);
        let data = match value {
            Value::NullKeyword(_) => Data::Null,
            Value::BooleanLit(literal) => Data::Bool(literal.value),
            Value::StringLit(literal) => Data::Text(literal.value.to_string()),
            Value::NumberLit(literal) => self.number(literal.value, place),
            Value::Array(array) => {
                let mut elements = Vec::with_capacity(array.elements.len());
                for (index, element) in array.elements.iter().enumerate() {
                    self.path.push(Segment::Index(index));
                    elements.push(self.node(element));
                    self.path.pop();
                }
                Data::List(elements)
            }
            Value::Object(object) => {
                let mut entries = Vec::with_capacity(object.properties.len());
                let mut seen: HashMap<&str, Position> =
                    HashMap::with_capacity(object.properties.len());
                for property in &object.properties {
                    let key = match &property.name {
                        ObjectPropName::String(name) => name.value.as_ref(),
                        ObjectPropName::Word(name) => name.value,
                    };
                    let place = self.place(property.range.start);
                    self.path.push(Segment::Key(key.to_owned()));
                    if let Some(first) = seen.get(key) {
                        let path = self.path();
                        self.report.duplicate_key(key, *first, place, path);
                        // Converted only for its findings.
                        self.node(&property.value);
                    } else {
                        seen.insert(key, place);
                        let value = self.node(&property.value);
                        entries.push(NodeEntry {
                            key: key.to_owned(),
                            place,
                            value,
                        });
                    }
                    self.path.pop();
                }
                Data::Map(entries)
            }
        };
        Node::new(data, place)
    }

    fn number(&mut self, written: &str, place: Position) -> Data {
        let is_whole = written
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-');
        let data = if is_whole {
            written.parse().ok().map(Data::Int)
        } else {
            let value = written
                .parse::<f64>()
                .ok()
                .filter(|value| value.is_finite());
            value.map(|value| Data::Float(value, written.to_owned()))
        };
        data.unwrap_or_else(|| {
            let path = self.path();
            self.report.invalid_number(written, place, path);
            // Still a number, so that no other rule also reports the type.
            Data::Float(0.0, written.to_owned())
        })
    }

    fn place(&self, offset: usize) -> Position {
        self.report.moved(self.index.place(offset))
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for segment in &self.path {
            match segment {
                Segment::Key(key) => push_key(&mut path, key),
                Segment::Index(index) => push_index(&mut path, *index),
            }
        }
        path
    }
}
