//! The small pieces of XML: names, start tags, references, processing instructions.
//!
//! Each function looks at one position and no further than needed, because it is called many times
//! on hostile input.

use std::ops::Range;

pub(super) const MAX_ATTRIBUTES: usize = 256;
/// In bytes.
const MAX_INSTRUCTION: usize = 256;

pub(super) struct Tag<'t> {
    pub(super) name: &'t str,
    /// The offset after it.
    pub(super) end: usize,
    /// Whether it is self-closing.
    pub(super) empty: bool,
    pub(super) attributes: Vec<&'t str>,
    /// Positions of repeated attributes.
    pub(super) repeated: Vec<Range<usize>>,
    /// Offsets of unescaped `<` or `&` in values.
    pub(super) unescaped: Vec<usize>,
}

/// Reads a start tag; `None` if it is malformed.
pub(super) fn read_tag(text: &str, offset: usize) -> Option<Tag<'_>> {
    let name = name_at(text, offset + 1);
    let mut at = offset + 1 + name.len();
    let mut tag = Tag {
        name,
        end: 0,
        empty: false,
        attributes: Vec::new(),
        repeated: Vec::new(),
        unescaped: Vec::new(),
    };
    loop {
        let rest = text.get(at..)?;
        let trimmed = rest.trim_start();
        let blank = rest.len() - trimmed.len();
        at += blank;
        if trimmed.starts_with('>') || trimmed.starts_with("/>") {
            tag.empty = trimmed.starts_with('/');
            tag.end = at + if tag.empty { 2 } else { 1 };
            return Some(tag);
        }
        let attribute = name_at(text, at);
        if blank == 0 || attribute.is_empty() {
            return None;
        }
        let start = at;
        let value = trimmed
            .get(attribute.len()..)?
            .trim_start()
            .strip_prefix('=')?
            .trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let value = value.get(1..)?;
        let length = value.find(quote)?;
        let begin = text.len() - value.len();
        let written = value.get(..length)?;
        // A `<` after a line break is far more often a forgotten quote than a comparison.
        if written
            .split_once('\n')
            .is_some_and(|(_, rest)| rest.contains('<'))
        {
            return None;
        }
        tag.unescaped
            .extend(written.char_indices().filter_map(|(position, character)| {
                let unescaped = match character {
                    '<' => true,
                    '&' => reference_length(written.get(position..)?).is_none(),
                    _ => false,
                };
                unescaped.then_some(begin + position)
            }));
        at = begin + length + 1;
        if tag.attributes.contains(&attribute) {
            tag.repeated.push(start..at);
        } else {
            tag.attributes.push(attribute);
        }
        if tag.attributes.len() + tag.repeated.len() > MAX_ATTRIBUTES {
            tag.end = at;
            return Some(tag);
        }
    }
}

/// The XML name at an offset; may be empty.
pub(super) fn name_at(text: &str, offset: usize) -> &str {
    let rest = text.get(offset..).unwrap_or_default();
    if !rest.starts_with(is_name_start) {
        return "";
    }
    let end = rest
        .find(|c: char| !is_name_character(c))
        .unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// The length of the entity or character reference at the start of a text.
pub(super) fn reference_length(text: &str) -> Option<usize> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    decode_reference(text.get(1..end)?).map(|_| end + 1)
}

/// The character for the inside of `&…;`.
pub(super) fn decode_reference(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                    u32::from_str_radix(hex, 16).ok()?
                }
                None if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().ok()?,
                _ => return None,
            };
            char::from_u32(code).filter(|c| {
                matches!(c, '\t' | '\n' | '\r' | ' '..) && !matches!(c, '\u{FFFE}' | '\u{FFFF}')
            })
        }
    }
}

/// The offset after the processing instruction that begins at `at`.
pub(super) fn instruction_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    rest.strip_prefix("<?")?
        .starts_with(is_name_start)
        .then_some(())?;
    // Bounded, so that many starts without an end stay cheap.
    let end = rest
        .get(..rest.floor_char_boundary(MAX_INSTRUCTION))?
        .find("?>")?;
    Some(at + end + 2)
}

fn is_name_start(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ':')
}

/// The end of a CDATA section at the start of `text` in which every other one is closed, and the ends of
/// those.
pub(super) fn balanced_cdata(text: &str) -> Option<(usize, Vec<usize>)> {
    const OPEN: &str = "<![CDATA[";
    const CLOSE: &str = "]]>";
    let mut depth = 0_usize;
    let mut inner = Vec::new();
    let mut at = 0;
    loop {
        at += text.get(at..)?.find(['<', ']'])?;
        let rest = text.get(at..)?;
        if rest.starts_with(OPEN) {
            depth += 1;
            at += OPEN.len();
        } else if rest.starts_with(CLOSE) {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some((at + CLOSE.len(), inner));
            }
            inner.push(at);
            at += CLOSE.len();
        } else {
            at += 1;
        }
    }
}
