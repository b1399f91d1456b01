//! Python literals as nodes.
//!
//! Values that `ast.literal_eval` accepts and JSON can hold; anything else is code, which is
//! reported and never evaluated.

use crate::item::finding::Findings;
use crate::item::node::{Data, Node, NodeEntry};
use crate::problem::Code;

use super::PythonSource;

const MAX_DEPTH: usize = 64;

/// Reads an expression; `None` when it is not a literal, which is reported.
pub(super) fn read(
    expression: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
    path: &str,
    findings: &mut Findings,
) -> Option<Node> {
    let mut complaint = None;
    let node = value(expression, source, 0, &mut complaint);
    if let Some(LiteralProblem {
        code,
        offset,
        message,
    }) = complaint
    {
        findings
            .add(code, source.place(offset), path, message)
            .suggest(match code {
                Code::NestingLimit => "flatten the structure",
                Code::DuplicateKey => "keep one of the two",
                Code::InvalidType => "write keys as strings",
                Code::InvalidNumber => {
                    "use a finite number, at most 64 bits wide; put quotes around it if it is text"
                }
                _ => "write a literal value",
            });
    }
    node
}

/// Reads an expression that need not be a literal.
pub(super) fn read_quietly(
    expression: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
) -> Option<Node> {
    value(expression, source, 0, &mut None)
}

/// Why an expression could not be read exactly.
struct LiteralProblem {
    code: Code,
    offset: usize,
    message: String,
}

fn complain(
    complaint: &mut Option<LiteralProblem>,
    code: Code,
    node: tree_sitter::Node<'_>,
    message: impl Into<String>,
) {
    if complaint.is_none() {
        *complaint = Some(LiteralProblem {
            code,
            offset: node.start_byte(),
            message: message.into(),
        });
    }
}

fn value(
    node: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
    depth: usize,
    complaint: &mut Option<LiteralProblem>,
) -> Option<Node> {
    if depth >= MAX_DEPTH {
        complain(
            complaint,
            Code::NestingLimit,
            node,
            format!("nested deeper than {MAX_DEPTH} levels"),
        );
        return None;
    }
    let place = source.place(node.start_byte());
    let data = match node.kind() {
        "none" => Data::Null,
        "true" => Data::Bool(true),
        "false" => Data::Bool(false),
        "integer" | "float" => number(source.slice(node), node, complaint)?,
        "unary_operator" => {
            let operand = node.child_by_field_name("argument")?;
            let is_number = matches!(operand.kind(), "integer" | "float");
            if !is_number || !matches!(source.slice(node).as_bytes().first(), Some(b'-' | b'+')) {
                return not_literal(complaint, node);
            }
            let negated: String = source
                .slice(node)
                .chars()
                .filter(|c| !c.is_whitespace() && *c != '+')
                .collect();
            number(&negated, node, complaint)?
        }
        "string" => Data::Text(string(node, source, complaint)?),
        "concatenated_string" => {
            let mut text = String::new();
            for part in parts(node) {
                text.push_str(&string(part, source, complaint)?);
            }
            Data::Text(text)
        }
        "list" | "tuple" | "set" => {
            let elements = parts(node)
                .into_iter()
                .map(|element| value(element, source, depth + 1, complaint));
            Data::List(elements.collect::<Option<_>>()?)
        }
        "parenthesized_expression" => {
            let inner = *parts(node).first()?;
            return value(inner, source, depth + 1, complaint);
        }
        "dictionary" => dictionary(node, source, depth, complaint)?,
        _ => return not_literal(complaint, node),
    };
    Some(Node::new(data, place))
}

/// The parts of an expression, without comments.
fn parts(node: tree_sitter::Node<'_>) -> Vec<tree_sitter::Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor)
        .filter(|part| part.kind() != "comment")
        .collect()
}

fn not_literal<T>(
    complaint: &mut Option<LiteralProblem>,
    node: tree_sitter::Node<'_>,
) -> Option<T> {
    let message = "not a literal; project code is never executed";
    complain(complaint, Code::CodeNotExecuted, node, message);
    None
}

fn dictionary(
    node: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
    depth: usize,
    complaint: &mut Option<LiteralProblem>,
) -> Option<Data> {
    let mut entries: Vec<NodeEntry> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for pair in parts(node) {
        let (Some(key), Some(item)) = (
            pair.child_by_field_name("key"),
            pair.child_by_field_name("value"),
        ) else {
            return not_literal(complaint, pair);
        };
        let place = source.place(key.start_byte());
        let key_node = value(key, source, depth + 1, complaint)?;
        let Some(name) = key_node.as_text() else {
            complain(
                complaint,
                Code::InvalidType,
                key,
                format!("a key must be a string, not a {}", key_node.type_name()),
            );
            return None;
        };
        if !known.insert(name.to_owned()) {
            complain(
                complaint,
                Code::DuplicateKey,
                key,
                format!("the key `{}` is given twice", name.escape_debug()),
            );
            return None;
        }
        let item = value(item, source, depth + 1, complaint)?;
        entries.push(NodeEntry {
            key: name.to_owned(),
            place,
            value: item,
        });
    }
    Some(Data::Map(entries))
}

fn number(
    written: &str,
    node: tree_sitter::Node<'_>,
    complaint: &mut Option<LiteralProblem>,
) -> Option<Data> {
    let plain = written.replace('_', "").to_ascii_lowercase();
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain.as_str()),
    };
    let radix = match digits.get(..2) {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        _ => 10,
    };
    let parsed = if radix != 10 {
        i64::from_str_radix(
            &format!("{sign}{}", digits.get(2..).unwrap_or_default()),
            radix,
        )
        .ok()
        .map(Data::Int)
    } else if node.kind() == "float" || digits.contains(['.', 'e']) {
        plain
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
            .map(|value| Data::Float(value, plain.clone()))
    } else {
        plain.parse().ok().map(Data::Int)
    };
    if parsed.is_none() {
        let shown: String = written.chars().take(40).collect();
        complain(
            complaint,
            Code::InvalidNumber,
            node,
            format!("`{shown}` is out of range or not a number"),
        );
    }
    parsed
}

/// The bytes between the quotes of a string.
pub(super) fn content(node: tree_sitter::Node<'_>) -> Option<(usize, usize)> {
    let mut cursor = node.walk();
    let node = if node.kind() == "concatenated_string" {
        node.named_child(0)?
    } else {
        node
    };
    let mut start = None;
    let mut end = None;
    for part in node.children(&mut cursor) {
        match part.kind() {
            "string_start" => start = Some(part.end_byte()),
            "string_end" => end = Some(part.start_byte()),
            _ => {}
        }
    }
    Some((start?, end?))
}

fn string(
    node: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
    complaint: &mut Option<LiteralProblem>,
) -> Option<String> {
    let not_literal = |complaint: &mut Option<LiteralProblem>| {
        complain(
            complaint,
            Code::CodeNotExecuted,
            node,
            "not a literal; project code is never executed",
        );
        None
    };
    let Some((start, end)) = content(node).filter(|_| node.kind() == "string") else {
        return not_literal(complaint);
    };
    let prefix = source
        .text
        .get(node.start_byte()..start)
        .unwrap_or_default()
        .to_ascii_lowercase();
    let raw = source.text.get(start..end).unwrap_or_default();
    let mut cursor = node.walk();
    let interpolates = node
        .children(&mut cursor)
        .any(|part| part.kind() == "interpolation");
    // Bytes, templates and strings with code are not text.
    if interpolates || prefix.contains('b') || prefix.starts_with('t') {
        return not_literal(complaint);
    }
    // A formatted string without code still doubles its braces.
    let raw = if prefix.contains('f') {
        raw.replace("{{", "{").replace("}}", "}")
    } else {
        raw.to_owned()
    };
    Some(if prefix.contains('r') {
        raw
    } else {
        unescape(&raw)
    })
}

/// Resolves the escapes of a Python string; an unknown one stays, as in Python.
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(rest.get(..at).unwrap_or_default());
        let after = rest.get(at + 1..).unwrap_or_default();
        let Some(escape) = after.chars().next() else {
            text.push('\\');
            return text;
        };
        let body = after.get(escape.len_utf8()..).unwrap_or_default();
        let (character, taken) = match escape {
            'n' => (Some('\n'), 0),
            't' => (Some('\t'), 0),
            'r' => (Some('\r'), 0),
            'a' => (Some('\u{7}'), 0),
            'b' => (Some('\u{8}'), 0),
            'f' => (Some('\u{c}'), 0),
            'v' => (Some('\u{b}'), 0),
            '\\' | '\'' | '"' => (Some(escape), 0),
            '\n' => {
                rest = body;
                continue;
            }
            'x' => (code_point(body, 2, 16), 2),
            'u' => (code_point(body, 4, 16), 4),
            'U' => (code_point(body, 8, 16), 8),
            '0'..='7' => {
                let digits = after
                    .bytes()
                    .take(3)
                    .take_while(|byte| (b'0'..=b'7').contains(byte))
                    .count();
                (code_point(after, digits, 8), digits - 1)
            }
            _ => (None, 0),
        };
        if let Some(character) = character {
            text.push(character);
            rest = body.get(taken..).unwrap_or_default();
        } else {
            text.extend(['\\', escape]);
            rest = body;
        }
    }
    text.push_str(rest);
    text
}

fn code_point(text: &str, digits: usize, radix: u32) -> Option<char> {
    let digits = text.get(..digits)?;
    digits
        .chars()
        .all(|c| c.is_digit(radix))
        .then(|| u32::from_str_radix(digits, radix).ok())
        .flatten()
        .and_then(char::from_u32)
}
