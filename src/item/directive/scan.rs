//! Scans the XML of a directive before it is parsed.
//!
//! [`scan`] walks tags, comments, CDATA and attributes once, without recursion. It finds the end of
//! the root, refuses input that must not reach the XML parser (DTDs, deep nesting, too many nodes),
//! and lists [`Mask`]s: bytes to blank out so that text with forgotten escapes still parses, with
//! all offsets unchanged. The tree is built in `xml`.

use std::collections::HashMap;
use std::ops::Range;

use super::lexeme::{
    MAX_ATTRIBUTES, balanced_cdata, instruction_end, name_at, read_tag, reference_length,
};
use crate::item::wording::nearest;
use crate::problem::Code;

pub(super) const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 20_000;
/// How many errors, and how many warnings, one scan reports.
const MAX_PROBLEMS: usize = 50;
/// How often the end of a nested CDATA section is searched in vain: each search may read the whole text.
const MAX_SEARCHES: usize = 16;
/// Replaces an unescaped `<` or `&`: one byte, allowed in XML, never used in a directive.
const STAND_IN: u8 = 0x7F;

/// Elements whose content is always text.
pub(super) const OPAQUE: [&str; 3] = ["template", "example", "raw"];

/// Structural elements. Text hardly ever means these, so a fault in one is not repaired by treating
/// it as text.
const STRUCTURE: [&str; 24] = [
    "directive",
    "metadata",
    "description",
    "permissions",
    "relationships",
    "limits",
    "hooks",
    "hook",
    "context",
    "inputs",
    "input",
    "process",
    "steps",
    "step",
    "action",
    "execute",
    "tool_call",
    "param",
    "checkpoint",
    "verification",
    "outputs",
    "success",
    "failure",
    "success_criteria",
];

const CDATA_HINT: &str = "wrap it in CDATA: <![CDATA[ … ]]>";

#[derive(Debug, Default)]
pub(super) struct DirectiveScan {
    /// The offset after the root, if its end was found.
    pub(super) end: Option<usize>,
    /// Bytes that are hidden from the XML parser.
    pub(super) masks: Vec<Mask>,
    pub(super) problems: Vec<ScanProblem>,
    /// Whether no tree can be built.
    pub(super) broken: bool,
    /// The content of each element, by the offset of its start tag.
    pub(super) inner: HashMap<usize, Range<usize>>,
    /// Ranges quoted by Markdown, in order; always text.
    pub(super) quoted: Vec<Range<usize>>,
    /// The end of each CDATA section that holds others, by its start.
    pub(super) nested: HashMap<usize, usize>,
}

/// Bytes to overwrite before parsing.
#[derive(Debug)]
pub(super) struct Mask {
    range: Range<usize>,
    fill: u8,
}

#[derive(Debug)]
pub(super) struct ScanProblem {
    pub(super) code: Code,
    pub(super) offset: usize,
    pub(super) message: String,
    pub(super) suggestion: String,
}

impl DirectiveScan {
    /// The end of the quoted range that contains an offset.
    pub(super) fn quote_at(&self, offset: usize) -> Option<usize> {
        let index = self.quoted.partition_point(|quote| quote.end <= offset);
        self.quoted
            .get(index)
            .filter(|quote| quote.start <= offset)
            .map(|quote| quote.end)
    }

    /// The masked text of the root, with the same length as the original.
    pub(super) fn prepare(&self, text: &str, start: usize, end: usize) -> String {
        let mut bytes = text.as_bytes().get(start..end).unwrap_or_default().to_vec();
        for mask in &self.masks {
            let range =
                mask.range.start.saturating_sub(start)..mask.range.end.saturating_sub(start);
            for byte in bytes.get_mut(range).unwrap_or_default() {
                if !matches!(byte, b'\n' | b'\r') {
                    *byte = mask.fill;
                }
            }
        }
        // Masks cover whole characters, so this is valid UTF-8.
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// Scans from the `<` of the root at `start` up to `limit`.
pub(super) fn scan(text: &str, start: usize, limit: usize) -> DirectiveScan {
    scan_markdown(text, start, limit, Vec::new())
}

/// The same for a root in Markdown, which quotes parts of it.
pub(super) fn scan_markdown(
    text: &str,
    start: usize,
    limit: usize,
    quoted: Vec<Range<usize>>,
) -> DirectiveScan {
    let text = text.get(..limit).unwrap_or(text);
    let mut scanner = DirectiveScanner {
        text,
        at: start,
        stack: Vec::new(),
        nodes: 0,
        quiet_until: 0,
        warnings: 0,
        never_closed: Vec::new(),
        nested: None,
        searches: 0,
        found: DirectiveScan {
            quoted,
            ..DirectiveScan::default()
        },
    };
    while scanner.found.end.is_none() && !scanner.found.broken_for_good(scanner.at, text.len()) {
        scanner.advance();
    }
    scanner.finish();
    scanner.found
}

struct DirectiveScanner<'t> {
    text: &'t str,
    at: usize,
    stack: Vec<OpenElement<'t>>,
    nodes: usize,
    /// Suppresses further warnings on the same line.
    quiet_until: usize,
    warnings: usize,
    /// Opaque elements without an end in the rest of the text, so that it is not searched again.
    never_closed: Vec<&'t str>,
    /// Where CDATA first begins inside CDATA.
    nested: Option<usize>,
    /// How many ends of nested CDATA were not found.
    searches: usize,
    found: DirectiveScan,
}

struct OpenElement<'t> {
    name: &'t str,
    offset: usize,
    inner: usize,
}

impl DirectiveScan {
    fn broken_for_good(&self, at: usize, length: usize) -> bool {
        at >= length || self.problems.len() >= 2 * MAX_PROBLEMS
    }
}

impl<'t> DirectiveScanner<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn advance(&mut self) {
        let rest = self.rest();
        let Some(skipped) = rest
            .bytes()
            .position(|byte| matches!(byte, b'<' | b'&' | b']'))
        else {
            self.at = self.text.len();
            return;
        };
        self.at += skipped;
        if let Some(end) = self.found.quote_at(self.at) {
            self.quote(end);
            return;
        }
        let rest = self.rest();
        if rest.starts_with('<') {
            self.markup(rest);
        } else if rest.starts_with('&') {
            if reference_length(rest).is_none() {
                self.unescaped(self.at, '&', "write `&amp;`, or");
            }
            self.at += 1;
        } else if rest.starts_with("]]>") {
            self.problem(
                Code::XmlSyntax,
                self.at,
                "`]]>` outside of CDATA",
                "inside CDATA write `{CDATA_OPEN}` and `{CDATA_CLOSE}` for a nested CDATA section",
            );
            self.mask_byte(self.at + 2);
            self.at += 3;
        } else {
            self.at += 1;
        }
    }

    fn markup(&mut self, rest: &'t str) {
        if rest.starts_with("<!--") {
            match self
                .text
                .get(self.at + 4..)
                .and_then(|inside| inside.find("-->"))
            {
                Some(length) => {
                    // XML comments must not contain `--`; directives may.
                    self.mask(self.at + 4..self.at + 4 + length);
                    self.at += length + 7;
                }
                None => self.give_up(
                    Code::XmlSyntax,
                    "the comment is never closed",
                    "close it with `-->`",
                ),
            }
        } else if rest.starts_with("<![CDATA[") {
            match rest.find("]]>") {
                Some(length) if self.nested_cdata(rest, length) => {}
                Some(length) => {
                    let inside = rest
                        .get(1..length)
                        .and_then(|inside| inside.find("<![CDATA["));
                    self.nested = self
                        .nested
                        .or(inside.map(|position| self.at + 1 + position));
                    self.at += length + 3;
                }
                None => self.give_up(
                    Code::XmlSyntax,
                    "the CDATA section is never closed",
                    "close it with `]]>`",
                ),
            }
        } else if [
            "<!DOCTYPE",
            "<!ENTITY",
            "<!ELEMENT",
            "<!ATTLIST",
            "<!NOTATION",
        ]
        .iter()
        .any(|it| rest.starts_with(it))
        {
            self.give_up(
                Code::XmlDtd,
                "document type declarations and entities are not accepted",
                "remove the declaration and write the text out",
            );
        } else if rest.starts_with("</") {
            self.end_tag(rest);
        } else if !name_at(self.text, self.at + 1).is_empty() {
            self.start_tag();
        } else if let Some(end) = instruction_end(self.text, self.at) {
            self.at = end;
        } else {
            self.literal();
        }
    }

    /// Reads a CDATA section that holds others, as if they could be nested: only if the end of the outer one is
    /// where the element ends that it stands in. `first` is the length up to the first `]]>`.
    fn nested_cdata(&mut self, rest: &str, first: usize) -> bool {
        let is_nested = rest
            .get(1..first)
            .is_some_and(|inside| inside.contains("<![CDATA["));
        if !is_nested || self.searches >= MAX_SEARCHES {
            return false;
        }
        let Some((end, inner)) = balanced_cdata(rest) else {
            self.searches += 1;
            return false;
        };
        let behind = rest.get(end..).unwrap_or_default().trim_start();
        let closes = self.stack.last().is_some_and(|open| {
            behind
                .strip_prefix("</")
                .and_then(|behind| behind.strip_prefix(open.name))
                .is_some_and(|behind| behind.trim_start().starts_with('>'))
        });
        if !closes {
            return false;
        }
        for position in inner {
            self.mask_byte(self.at + position + 2);
        }
        self.found.problems.push(ScanProblem {
            code: Code::UnescapedMarkup,
            offset: self.at,
            message: "CDATA sections inside of this one are taken as text".to_owned(),
            suggestion: "write `{CDATA_OPEN}` and `{CDATA_CLOSE}` for the inner ones".to_owned(),
        });
        self.found.nested.insert(self.at, self.at + end);
        self.at += end;
        true
    }

    /// Treats a quoted range as text.
    fn quote(&mut self, end: usize) {
        let quoted = self.text.get(self.at..end).unwrap_or_default();
        for (position, _) in quoted.match_indices(['<', '&', ']']) {
            self.mask_byte(self.at + position);
        }
        self.at = end;
    }

    /// Treats a `<` that cannot begin a tag as text.
    fn literal(&mut self) {
        self.unescaped(self.at, '<', "write `&lt;`, or");
        self.at += 1;
    }

    fn start_tag(&mut self) {
        let offset = self.at;
        let Some(tag) = read_tag(self.text, offset) else {
            let name = name_at(self.text, offset + 1);
            let shown = shorten(name);
            if STRUCTURE.contains(&name) || self.stack.is_empty() {
                self.give_up(
                    Code::XmlSyntax,
                    &format!("the tag `<{shown}` is malformed"),
                    "write attributes as name=\"value\" and end the tag with `>` or `/>`",
                );
            } else {
                self.problem(
                    Code::XmlSyntax,
                    offset,
                    &format!("`<{shown}` looks like a tag but is not one"),
                    &format!("{CDATA_HINT}, or write `&lt;`"),
                );
                self.mask_byte(offset);
                self.at += 1;
            }
            return;
        };
        let attributes = tag.attributes.len() + tag.repeated.len();
        self.nodes += 1 + attributes;
        if self.nodes > MAX_NODES || attributes > MAX_ATTRIBUTES {
            self.give_up(
                Code::FileTooLarge,
                &format!(
                    "more than {MAX_NODES} elements and attributes, or {MAX_ATTRIBUTES} attributes on one element"
                ),
                "split the directive",
            );
            return;
        }
        for range in &tag.repeated {
            let name = shorten(name_at(self.text, range.start));
            self.problem(
                Code::XmlSyntax,
                range.start,
                &format!("the attribute `{name}` is given twice"),
                "remove one of the two",
            );
            self.mask(range.clone());
        }
        for at in &tag.unescaped {
            let (character, escaped) = if self.text.as_bytes().get(*at) == Some(&b'<') {
                ('<', "&lt;")
            } else {
                ('&', "&amp;")
            };
            self.unescaped_attribute(*at, character, escaped);
        }
        self.at = tag.end;
        if tag.empty {
            self.found.inner.insert(offset, tag.end..tag.end);
            if self.stack.is_empty() {
                self.found.end = Some(tag.end);
            }
        } else if OPAQUE.contains(&tag.name) && !self.stack.is_empty() {
            self.opaque(offset, tag.name);
        } else if self.stack.len() >= MAX_DEPTH {
            self.at = offset;
            self.give_up(
                Code::NestingLimit,
                &format!("elements are nested more than {MAX_DEPTH} deep"),
                "flatten the directive, or wrap text that holds markup in CDATA: <![CDATA[ … ]]>",
            );
        } else {
            self.stack.push(OpenElement {
                name: tag.name,
                offset,
                inner: tag.end,
            });
        }
    }

    fn opaque(&mut self, offset: usize, name: &'t str) {
        let close = format!("</{name}>");
        let length = if self.never_closed.contains(&name) {
            None
        } else {
            self.rest().find(&close)
        };
        if let Some(length) = length {
            let inner = self.at..self.at + length;
            self.mask(inner.clone());
            self.at = inner.end + close.len();
            self.found.inner.insert(offset, inner);
        } else {
            self.never_closed.push(name);
            self.never_closed_tag(name, offset);
        }
    }

    fn end_tag(&mut self, rest: &'t str) {
        let name = name_at(self.text, self.at + 2);
        let behind = rest.get(2 + name.len()..).unwrap_or_default();
        let blank = behind.len() - behind.trim_start().len();
        if name.is_empty() {
            self.literal();
            return;
        }
        if !behind.trim_start().starts_with('>') {
            self.stray(&format!(
                "`</{}` looks like an end tag but is not one",
                shorten(name)
            ));
            return;
        }
        let end = self.at + 2 + name.len() + blank + 1;
        let Some(position) = self.stack.iter().rposition(|open| open.name == name) else {
            match self.stack.last() {
                Some(open) if nearest(name, [open.name]).is_some() => {
                    let expected = open.name;
                    let message = format!("`</{}>` does not close `<{expected}>`", shorten(name));
                    self.problem(
                        Code::XmlSyntax,
                        self.at,
                        &message,
                        &format!("write `</{expected}>`"),
                    );
                    self.found.broken = true;
                    self.stack.pop();
                    self.at = end;
                }
                _ => self.stray(&format!("`</{}>` closes nothing", shorten(name))),
            }
            return;
        };
        for open in self.stack.split_off(position + 1) {
            self.never_closed_tag(open.name, open.offset);
        }
        if let Some(open) = self.stack.pop() {
            self.found.inner.insert(open.offset, open.inner..self.at);
        }
        self.at = end;
        if self.stack.is_empty() {
            self.found.end = Some(end);
        }
    }

    fn stray(&mut self, message: &str) {
        self.problem(
            Code::XmlSyntax,
            self.at,
            message,
            &format!("remove it; if it is text, {CDATA_HINT}"),
        );
        self.mask_byte(self.at);
        self.at += 1;
    }

    /// An element without an end: most often a word in angle brackets, e.g. `git switch <branch>`.
    fn never_closed_tag(&mut self, name: &str, offset: usize) {
        let shown = shorten(name);
        let suggestion = if STRUCTURE.contains(&name) {
            self.found.broken = true;
            format!("close it with `</{shown}>`; if it is text, {CDATA_HINT}")
        } else {
            self.mask_byte(offset);
            format!("{CDATA_HINT}, or close it with `</{shown}>`")
        };
        self.problem(
            Code::XmlSyntax,
            offset,
            &format!("`<{shown}>` is never closed"),
            &suggestion,
        );
    }

    fn finish(&mut self) {
        if self.found.end.is_none() {
            self.found.broken = true;
            if self.at >= self.text.len() {
                for open in std::mem::take(&mut self.stack) {
                    self.never_closed_tag(open.name, open.offset);
                }
            }
        }
        // A `]]>` after the end: the end was inside a CDATA section that ended too early, and later
        // steps would be lost silently.
        let behind = self.found.end.and_then(|end| self.text.get(end..));
        if let (Some(nested), Some(true)) =
            (self.nested, behind.map(|behind| behind.contains("]]>")))
        {
            self.problem(
                Code::XmlSyntax,
                nested,
                "a CDATA section cannot hold another: it ends at the first `]]>`",
                "write `{CDATA_OPEN}` and `{CDATA_CLOSE}` for the inner one",
            );
            self.found.broken = true;
        }
        self.found.problems.sort_by_key(|problem| problem.offset);
    }

    fn give_up(&mut self, code: Code, message: &str, suggestion: &str) {
        self.problem(code, self.at, message, suggestion);
        self.found.broken = true;
        self.stack.clear();
        self.at = self.text.len();
    }

    fn problem(&mut self, code: Code, offset: usize, message: &str, suggestion: &str) {
        self.found.problems.push(ScanProblem {
            code,
            offset,
            message: message.to_owned(),
            suggestion: suggestion.to_owned(),
        });
    }

    fn unescaped(&mut self, offset: usize, character: char, way: &str) {
        self.mask_byte(offset);
        self.warn(offset, character, format!("{way} {CDATA_HINT}"));
    }

    fn unescaped_attribute(&mut self, offset: usize, character: char, escaped: &str) {
        self.mask_byte(offset);
        self.warn(offset, character, format!("write `{escaped}`"));
    }

    fn warn(&mut self, offset: usize, character: char, suggestion: String) {
        if offset < self.quiet_until || self.warnings >= MAX_PROBLEMS {
            return;
        }
        self.warnings += 1;
        let line = self.text.get(offset..).and_then(|rest| rest.find('\n'));
        self.quiet_until = line.map_or(self.text.len(), |length| offset + length);
        let message = format!("an unescaped `{character}` is taken as text");
        self.found.problems.push(ScanProblem {
            code: Code::UnescapedMarkup,
            offset,
            message,
            suggestion,
        });
    }

    fn mask_byte(&mut self, offset: usize) {
        // Merge runs into one mask: a megabyte of `&` would otherwise need many times its size.
        match self.found.masks.last_mut() {
            Some(last) if last.fill == STAND_IN && last.range.end == offset => last.range.end += 1,
            _ => self.found.masks.push(Mask {
                range: offset..offset + 1,
                fill: STAND_IN,
            }),
        }
    }

    fn mask(&mut self, range: Range<usize>) {
        self.found.masks.push(Mask { range, fill: b' ' });
    }
}

fn shorten(name: &str) -> String {
    if name.chars().count() > 40 {
        name.chars().take(40).chain(['…']).collect()
    } else {
        name.to_owned()
    }
}
