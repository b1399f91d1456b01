//! Metadata in the comment header of a script in any language, and in docstrings.
//!
//! [`header`] finds the comment lines at the top of a file, [`find_fields`] the `key: value` fields
//! among them. Comment marks become blanks, so that columns from the YAML reader match the file.

use std::ops::Range;

use crate::item::node::Node;
use crate::item::position::Position;
use crate::item::signature::is_stamp;

use super::canonical::{CLAIMS, KEYS};

/// A line with everything but its text blanked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommentLine {
    pub(crate) place: Position,
    pub(crate) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommentFields {
    /// The lines as one YAML document.
    pub(super) yaml: String,
    pub(super) place: Position,
    pub(super) prose: Vec<CommentLine>,
}

/// Marks of line comments.
const LINE_MARKS: [&str; 8] = ["#", "//", "--", ";", "%", "'", "!", "::"];

/// Marks of block comments.
const BLOCK_MARKS: [(&str, &str); 7] = [
    ("/*", "*/"),
    ("\"\"\"", "\"\"\""),
    ("--[[", "]]"),
    ("=begin", "=end"),
    ("<#", "#>"),
    ("{-", "-}"),
    ("<!--", "-->"),
];

const MAX_LINES: usize = 2000;

/// Finds the comment lines at the top of a script, after shebang and stamp.
pub(crate) fn header(text: &str) -> Vec<CommentLine> {
    let mut lines = Vec::new();
    let mut block_end: Option<&str> = None;
    for (at, raw) in text.lines().take(MAX_LINES).enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let place = Position {
            line: number,
            column: 1,
        };
        let trimmed = raw.trim();
        if let Some(end) = block_end {
            let (inner, closed) = match raw.find(end) {
                Some(at) => (raw.get(..at).unwrap_or_default(), true),
                None => (raw, false),
            };
            lines.push(CommentLine {
                place,
                text: blank_star(inner),
            });
            if closed {
                block_end = None;
            }
            continue;
        }
        if trimmed.is_empty() {
            lines.push(CommentLine {
                place,
                text: String::new(),
            });
            continue;
        }
        let opens = (at == 0 && raw.starts_with("#!")) || ["<?php", "@echo off"].contains(&trimmed);
        if opens || is_stamp(raw) {
            continue;
        }
        if let Some((start, end)) = BLOCK_MARKS
            .iter()
            .find(|(start, _)| trimmed.starts_with(start))
        {
            let indent = raw.len() - raw.trim_start().len();
            let after = raw.get(indent + start.len()..).unwrap_or_default();
            // `/**` and `"""text` on the first line.
            let (inner, closed) = match after.find(end) {
                Some(at) => (after.get(..at).unwrap_or_default(), true),
                None => (after, false),
            };
            let text = format!(
                "{}{}",
                " ".repeat(indent + start.chars().count()),
                blank_star(inner)
            );
            lines.push(CommentLine { place, text });
            block_end = (!closed).then_some(*end);
            continue;
        }
        let Some(mark) = LINE_MARKS.iter().find(|mark| trimmed.starts_with(*mark)) else {
            break;
        };
        // Repeated marks (`##`, `///`) count as one.
        let lead: usize = raw.chars().take_while(|c| c.is_whitespace()).count();
        let marks = trimmed.chars().take_while(|c| mark.starts_with(*c)).count();
        let rest: String = raw.chars().skip(lead + marks).collect();
        let body = rest.trim_start();
        // Replace a tab after the mark by a blank; YAML would refuse it as indentation.
        let blank = lead + marks + rest.chars().count() - body.chars().count();
        lines.push(CommentLine {
            place,
            text: format!("{}{body}", " ".repeat(blank)),
        });
    }
    lines
}

/// Blanks the star at the beginning of a line inside `/* … */`.
fn blank_star(line: &str) -> String {
    let body = line.trim_start();
    match body.strip_prefix('*') {
        Some(rest) => {
            let indent = line.chars().count() - body.chars().count();
            format!("{} {rest}", " ".repeat(indent))
        }
        None => line.to_owned(),
    }
}

/// Finds the fields of a tool among lines and separates the prose.
///
/// Only identifying lines (`tool_id`, `tool_type`, `executor`) and lines at the same indentation
/// count, because prose is full of words followed by a colon.
pub(super) fn find_fields(lines: &[CommentLine]) -> Option<CommentFields> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while let Some(start) = lines
        .iter()
        .skip(from)
        .position(|line| is_field(line, &KEYS))
        .map(|at| at + from)
    {
        let end = block_end(lines, start);
        blocks.push(start..end);
        from = end;
    }
    let block_lines = |block: &Range<usize>| lines.get(block.clone()).unwrap_or_default();
    let claims = blocks.iter().find(|block| {
        block_lines(block)
            .iter()
            .any(|line| is_field(line, &CLAIMS))
    })?;
    let depth = indent(&lines.get(claims.start)?.text);
    blocks.retain(|block| {
        lines
            .get(block.start)
            .is_some_and(|line| indent(&line.text) == depth)
    });
    let (first, last) = (blocks.first()?.start, blocks.last()?.end);
    let mut yaml = Vec::new();
    let mut prose = Vec::new();
    let mut blocks = blocks.iter().peekable();
    for (at, line) in lines.iter().enumerate() {
        blocks.next_if(|block| block.end <= at);
        if blocks.peek().is_some_and(|block| block.contains(&at)) {
            yaml.push(line.text.as_str());
            continue;
        }
        prose.push(line.clone());
        if (first..last).contains(&at) {
            yaml.push("");
        }
    }
    Some(CommentFields {
        yaml: yaml.join("\n"),
        place: lines.get(first)?.place,
        prose,
    })
}

fn is_field(line: &CommentLine, keys: &[&str]) -> bool {
    field_key(&line.text).is_some_and(|key| keys.contains(&key))
}

/// The end of the block that begins at `start`.
fn block_end(lines: &[CommentLine], start: usize) -> usize {
    let base = lines.get(start).map_or(0, |line| indent(&line.text));
    let mut end = start;
    // Whether the value of the last key continues on further lines.
    let mut open = false;
    let mut after_blank = false;
    for (at, line) in lines.iter().enumerate().skip(start) {
        let text = line.text.trim();
        if text.is_empty() {
            after_blank = true;
            continue;
        }
        if text.starts_with('#') {
            end = at + 1;
            continue;
        }
        let depth = indent(&line.text);
        // The first line of a docstring begins after its quotes, so its indentation differs.
        let depth = if at == start { base } else { depth };
        let belongs = if depth == base && field_key(&line.text).is_some() {
            let value = text
                .split_once(':')
                .map(|(_, value)| value.trim())
                .unwrap_or_default();
            open = value.is_empty() || value.starts_with(['|', '>', '[', '{', '#', '"', '\'']);
            true
        } else if depth > base {
            open || !after_blank
        } else {
            depth == base && open && (text.starts_with("- ") || text.starts_with([']', '}']))
        };
        if !belongs {
            break;
        }
        after_blank = false;
        end = at + 1;
    }
    end.max(start + 1)
}

fn indent(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// The key of a `key: value` line.
fn field_key(text: &str) -> Option<&str> {
    let (key, rest) = text.trim_start().split_once(':')?;
    let is_key = key.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && key
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (is_key && (rest.is_empty() || rest.starts_with([' ', '\t', '\r']))).then_some(key)
}

/// The first paragraph of prose as one line, with its position.
pub(crate) fn first_paragraph(lines: &[CommentLine]) -> Option<Node> {
    let mut paragraph = lines
        .iter()
        .skip_while(|line| line.text.trim().is_empty())
        .take_while(|line| !line.text.trim().is_empty())
        .peekable();
    let first = paragraph.peek()?;
    let indent = first.text.chars().take_while(|c| c.is_whitespace()).count();
    let column = first
        .place
        .column
        .saturating_add(u32::try_from(indent).unwrap_or(u32::MAX));
    let place = Position {
        line: first.place.line,
        column,
    };
    let words: Vec<&str> = paragraph.map(|line| line.text.trim()).collect();
    Some(Node::text(words.join(" "), place))
}
