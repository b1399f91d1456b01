//! The XML of a directive as a tree with positions.
//!
//! The parser (roxmltree) decides what is well-formed and gives the structure; it sees the masked
//! text of `scan`. Names, attribute values and texts are decoded from the original, so that masked
//! text is preserved, and [`XmlText`] maps each character to its offset in the file.

use std::ops::Range;

use super::lexeme::{decode_reference, instruction_end, reference_length};
use super::scan::{DirectiveScan, OPAQUE};

#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<Attribute>,
    pub(super) content: Vec<XmlContent>,
    /// With its tags.
    pub(super) span: Range<usize>,
    pub(super) inner: Range<usize>,
}

#[derive(Debug)]
pub(super) enum XmlContent {
    /// May be blank.
    Text(XmlText),
    Element(Element),
}

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    /// The position of its name.
    pub(super) offset: usize,
    pub(super) value: XmlText,
}

/// Decoded text that knows the position of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct XmlText {
    pub(super) value: String,
    /// Pairs of an offset in `value` and its offset in the file.
    runs: Vec<(usize, usize)>,
}

/// The parser's error: the offset in the file and the reason.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) offset: usize,
    pub(super) reason: String,
}

pub(super) fn parse(
    text: &str,
    start: usize,
    end: usize,
    scan: &DirectiveScan,
) -> Result<Element, Malformed> {
    let prepared = scan.prepare(text, start, end);
    let document = roxmltree::Document::parse(&prepared).map_err(|err| {
        let position = err.pos();
        let offset = start + offset_of(&prepared, position.row, position.col);
        // The message ends with a position inside the block, which would mislead.
        let message = err.to_string();
        let reason = message.split(" at ").next().unwrap_or(&message).to_owned();
        Malformed { offset, reason }
    })?;
    Ok(convert(text, document.root_element(), start, scan))
}

impl Element {
    pub(super) fn children(&self) -> impl Iterator<Item = &Self> {
        self.content.iter().filter_map(|content| match content {
            XmlContent::Element(element) => Some(element),
            XmlContent::Text(_) => None,
        })
    }

    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children().find(|child| child.name == name)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }

    /// The text directly in it, without nested elements.
    pub(super) fn own_text(&self) -> XmlText {
        let mut text = XmlText::default();
        for content in &self.content {
            if let XmlContent::Text(piece) = content {
                text.append(piece);
            }
        }
        text
    }

    /// All content as text; nested elements stay verbatim.
    pub(super) fn flat_text(&self, source: &str) -> XmlText {
        let mut text = XmlText::default();
        for content in &self.content {
            match content {
                XmlContent::Text(piece) => text.append(piece),
                XmlContent::Element(element) => {
                    text.push(
                        source.get(element.span.clone()).unwrap_or_default(),
                        element.span.start,
                    );
                }
            }
        }
        text
    }

    /// The text directly in it, plus the texts that `part` returns for nested elements, in order.
    pub(super) fn text_with(&self, mut part: impl FnMut(&Self) -> Option<XmlText>) -> XmlText {
        let mut text = XmlText::default();
        for content in &self.content {
            match content {
                XmlContent::Text(piece) => text.append(piece),
                XmlContent::Element(element) => text.append(&part(element).unwrap_or_default()),
            }
        }
        text
    }

    /// The element verbatim, with its tags.
    pub(super) fn written(&self, source: &str) -> XmlText {
        let mut text = XmlText::at(self.span.start);
        text.push(
            source.get(self.span.clone()).unwrap_or_default(),
            self.span.start,
        );
        text
    }

    pub(super) fn is_opaque(&self) -> bool {
        OPAQUE.contains(&&*self.name)
    }
}

impl XmlText {
    /// The offset in the file for an offset in the text.
    pub(super) fn offset_at(&self, position: usize) -> usize {
        let index = self.runs.partition_point(|(begin, _)| *begin <= position);
        match index.checked_sub(1).and_then(|index| self.runs.get(index)) {
            Some((begin, offset)) => offset + position - begin,
            None => 0,
        }
    }

    /// Another text at the same position.
    pub(super) fn replaced(&self, value: String) -> Self {
        Self {
            value,
            runs: vec![(0, self.offset_at(0))],
        }
    }

    /// A part of the text, with its positions.
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        let mut part = Self {
            value: self.value.get(range.clone()).unwrap_or_default().to_owned(),
            runs: Vec::new(),
        };
        part.runs.push((0, self.offset_at(range.start)));
        part.runs.extend(
            self.runs
                .iter()
                .filter(|(begin, _)| *begin > range.start && *begin < range.end)
                .map(|(begin, offset)| (begin - range.start, *offset)),
        );
        part
    }

    pub(super) fn trimmed(&self) -> Self {
        let start = self.value.len() - self.value.trim_start().len();
        self.slice(start..start + self.value.trim().len())
    }

    /// Removes leading blank lines and trailing blanks; the first line keeps its indentation.
    pub(super) fn unframed(&self) -> Self {
        let trimmed = self.trimmed();
        // A single line has no indentation worth keeping.
        if !trimmed.value.contains('\n') {
            return trimmed;
        }
        let start = self.value.len() - self.value.trim_start().len();
        let line = self
            .value
            .get(..start)
            .and_then(|before| before.rfind('\n'))
            .map_or(0, |at| at + 1);
        self.slice(line..start + trimmed.value.len())
    }

    /// The non-blank lines, trimmed.
    pub(super) fn lines(&self) -> Vec<Self> {
        let mut lines = Vec::new();
        let mut at = 0;
        for line in self.value.split('\n') {
            if !line.trim().is_empty() {
                lines.push(self.slice(at..at + line.len()).trimmed());
            }
            at += line.len() + 1;
        }
        lines
    }

    pub(super) fn is_blank(&self) -> bool {
        self.value.trim().is_empty()
    }

    fn at(offset: usize) -> Self {
        Self {
            value: String::new(),
            runs: vec![(0, offset)],
        }
    }

    fn append(&mut self, other: &Self) {
        let base = self.value.len();
        self.runs.extend(
            other
                .runs
                .iter()
                .map(|(begin, offset)| (begin + base, *offset)),
        );
        self.value.push_str(&other.value);
    }

    fn push(&mut self, text: &str, offset: usize) {
        if !text.is_empty() {
            let end = self.value.len();
            // Adjacent text needs no new run.
            let follows = self
                .runs
                .last()
                .is_some_and(|(begin, from)| from + end - begin == offset);
            if !follows {
                self.runs.push((end, offset));
            }
            self.value.push_str(text);
        }
    }
}

fn convert(
    text: &str,
    node: roxmltree::Node<'_, '_>,
    base: usize,
    scanned: &DirectiveScan,
) -> Element {
    let span = base + node.range().start..base + node.range().end;
    let inner = scanned
        .inner
        .get(&span.start)
        .cloned()
        .unwrap_or(span.end..span.end);
    let name = node.tag_name().name().to_owned();
    let attributes = node
        .attributes()
        .map(|attribute| Attribute {
            name: attribute.name().to_owned(),
            offset: base + attribute.range().start,
            value: decode_attribute(
                text,
                base + attribute.range_value().start..base + attribute.range_value().end,
            ),
        })
        .collect();
    let mut content = Vec::new();
    if OPAQUE.contains(&&*name) {
        let mut verbatim = XmlText::at(inner.start);
        verbatim.push(text.get(inner.clone()).unwrap_or_default(), inner.start);
        content.push(XmlContent::Text(verbatim));
    } else {
        let mut at = inner.start;
        for child in node.children().filter(roxmltree::Node::is_element) {
            let child = convert(text, child, base, scanned);
            content.push(XmlContent::Text(decode_text(
                text,
                at..child.span.start,
                scanned,
            )));
            at = child.span.end;
            content.push(XmlContent::Element(child));
        }
        content.push(XmlContent::Text(decode_text(text, at..inner.end, scanned)));
    }
    Element {
        name,
        attributes,
        content,
        span,
        inner,
    }
}

/// Decodes text between elements: references, CDATA, placeholders for CDATA; drops comments.
fn decode_text(text: &str, range: Range<usize>, scanned: &DirectiveScan) -> XmlText {
    let mut decoded = XmlText::at(range.start);
    let mut at = range.start;
    while at < range.end {
        let rest = text.get(at..range.end).unwrap_or_default();
        let plain = rest
            .bytes()
            .position(|byte| matches!(byte, b'<' | b'&' | b'\r' | b'{'))
            .unwrap_or(rest.len());
        decoded.push(rest.get(..plain).unwrap_or_default(), at);
        at += plain;
        let rest = text.get(at..range.end).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        if let Some(end) = scanned.quote_at(at).filter(|end| *end <= range.end) {
            decode_verbatim(text, at..end, &mut decoded);
            at = end;
        } else if let Some(inside) = rest.strip_prefix("<!--") {
            at += inside.find("-->").map_or(rest.len(), |length| length + 7);
        } else if let Some(inside) = rest.strip_prefix("<![CDATA[") {
            let nested = scanned.nested.get(&at).map(|end| end - at - 12);
            let length = nested.or_else(|| inside.find("]]>"));
            let length = length.unwrap_or(inside.len());
            decode_verbatim(text, at + 9..at + 9 + length, &mut decoded);
            at += length + 12;
        } else if let Some(end) = instruction_end(text, at).filter(|end| *end <= range.end) {
            at = end;
        } else if let Some(length) = push_reference(rest, at, &mut decoded) {
            at += length;
        } else {
            at += decode_common(rest, at, &mut decoded);
        }
    }
    decoded
}

fn decode_verbatim(text: &str, range: Range<usize>, decoded: &mut XmlText) {
    let mut at = range.start;
    while at < range.end {
        let rest = text.get(at..range.end).unwrap_or_default();
        let plain = rest
            .bytes()
            .position(|byte| matches!(byte, b'\r' | b'{'))
            .unwrap_or(rest.len());
        decoded.push(rest.get(..plain).unwrap_or_default(), at);
        at += plain;
        let rest = rest.get(plain..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        at += decode_common(rest, at, decoded);
    }
}

/// Decodes one character, or a placeholder for a CDATA mark; returns its length.
fn decode_common(rest: &str, at: usize, decoded: &mut XmlText) -> usize {
    for (placeholder, mark) in [("{CDATA_OPEN}", "<![CDATA["), ("{CDATA_CLOSE}", "]]>")] {
        if rest.starts_with(placeholder) {
            decoded.push(mark, at);
            return placeholder.len();
        }
    }
    if rest.starts_with("\r\n") {
        return 1;
    }
    let length = rest.chars().next().map_or(1, char::len_utf8);
    decoded.push(rest.get(..length).unwrap_or_default(), at);
    length
}

/// Decodes a reference at the start of `rest`; returns its length.
fn push_reference(rest: &str, at: usize, decoded: &mut XmlText) -> Option<usize> {
    let length = reference_length(rest).filter(|_| rest.starts_with('&'))?;
    if let Some(character) = rest.get(1..length - 1).and_then(decode_reference) {
        decoded.push(character.encode_utf8(&mut [0; 4]), at);
    }
    Some(length)
}

fn decode_attribute(text: &str, range: Range<usize>) -> XmlText {
    let mut decoded = XmlText::at(range.start);
    let mut at = range.start;
    while at < range.end {
        let rest = text.get(at..range.end).unwrap_or_default();
        let plain = rest
            .bytes()
            .position(|byte| matches!(byte, b'&' | b'\r' | b'\n' | b'\t'))
            .unwrap_or(rest.len());
        decoded.push(rest.get(..plain).unwrap_or_default(), at);
        at += plain;
        let rest = rest.get(plain..).unwrap_or_default();
        if let Some(length) = push_reference(rest, at, &mut decoded) {
            at += length;
        } else if rest.starts_with('&') {
            decoded.push("&", at);
            at += 1;
        } else if !rest.is_empty() {
            // XML makes a blank of each: files of other programs have whole texts in attributes, whose lines
            // would become one.
            let is_tab = rest.starts_with('\t');
            decoded.push(if is_tab { "\t" } else { "\n" }, at);
            at += if rest.starts_with("\r\n") { 2 } else { 1 };
        }
    }
    decoded
}

/// The byte offset of a row and column, both starting at 1, columns in characters.
fn offset_of(text: &str, row: u32, column: u32) -> usize {
    let row = usize::try_from(row).unwrap_or(usize::MAX).saturating_sub(1);
    let column = usize::try_from(column)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let start: usize = text.split_inclusive('\n').take(row).map(str::len).sum();
    let line = text.get(start..).unwrap_or_default();
    start + line.chars().take(column).map(char::len_utf8).sum::<usize>()
}
