//! Shared by the rules of all sections: types, required keys, names and references.

use crate::item::finding::Findings;
use crate::item::node::Node;
pub(super) use crate::item::wording::shown;
use crate::item::wording::{did_you_mean, nearest};
use crate::problem::Code;

/// The most elements of a list or mapping; all are checked, and functions compiled.
pub(super) const MAX_ELEMENTS: usize = 200;

pub(super) fn wrong_type(value: &Node, path: &str, expected: &str, findings: &mut Findings) {
    let name = path.rsplit('.').next().unwrap_or(path);
    let article = if value.type_name().starts_with('i') {
        "an"
    } else {
        "a"
    };
    let message = format!(
        "{name} must be {expected}, not {article} {}",
        value.type_name()
    );
    findings
        .add(Code::InvalidType, value.place, path, message)
        .suggest(format!("write {expected}"));
}

/// The elements of a list; anything else is reported and counts as empty.
pub(super) fn list_of<'n>(value: &'n Node, path: &str, findings: &mut Findings) -> &'n [Node] {
    let Some(elements) = value.elements() else {
        wrong_type(value, path, "a list", findings);
        return &[];
    };
    check_length(elements.len(), value, path, findings);
    elements.get(..MAX_ELEMENTS).unwrap_or(elements)
}

/// Reports a list that has more elements than are checked.
pub(super) fn check_length(length: usize, value: &Node, path: &str, findings: &mut Findings) {
    if length > MAX_ELEMENTS {
        let message =
            format!("{length} elements are more than the {MAX_ELEMENTS} that are accepted");
        findings
            .add(Code::InvalidType, value.place, path, message)
            .suggest("split the tool");
    }
}

/// The mappings in a list, with their paths; anything else is reported.
pub(super) fn mappings_of<'n>(
    value: &'n Node,
    path: &str,
    findings: &mut Findings,
) -> Vec<(String, &'n Node)> {
    let mut mappings = Vec::new();
    for (at, element) in list_of(value, path, findings).iter().enumerate() {
        let path = format!("{path}[{at}]");
        if element.entries().is_some() {
            mappings.push((path, element));
        } else {
            wrong_type(element, &path, "a mapping", findings);
        }
    }
    mappings
}

/// Reports missing, empty and non-text values.
pub(super) fn require_texts(map: &Node, keys: &[&str], path: &str, findings: &mut Findings) {
    for key in keys {
        match map.find(key) {
            None => missing(map, key, path, findings),
            Some(value) => match value.as_text() {
                Some(text) if text.trim().is_empty() => missing(map, key, path, findings),
                Some(_) => {}
                None => wrong_type(value, &format!("{path}.{key}"), "a string", findings),
            },
        }
    }
}

pub(super) fn missing(map: &Node, key: &str, path: &str, findings: &mut Findings) {
    let place = map.find_entry(key).map_or(map.place, |entry| entry.place);
    findings
        .add(
            Code::MissingRequiredField,
            place,
            format!("{path}.{key}"),
            format!("{key} is required"),
        )
        .suggest(format!("add `{key}:`"));
}

pub(super) fn report_unknown(map: &Node, known: &[&str], path: &str, findings: &mut Findings) {
    for entry in map.entries().unwrap_or_default().iter().take(MAX_ELEMENTS) {
        if !known.contains(&entry.key.as_str()) {
            let message = format!("`{}` is not a field of {path}", shown(&entry.key));
            let suggestion = similar_or(&entry.key, known, "it is kept and has no effect");
            findings
                .add(
                    Code::UnknownField,
                    entry.place,
                    format!("{path}.{}", shown(&entry.key)),
                    message,
                )
                .suggest(suggestion);
        }
    }
}

pub(super) fn reference(value: &Node, path: &str, helpers: &[&str], findings: &mut Findings) {
    let Some(text) = value.as_text() else {
        return wrong_type(value, path, "a reference like `helpers.<id>`", findings);
    };
    let Some(id) = text.trim().strip_prefix("helpers.") else {
        let message = format!("`{}` does not name a helper", shown(text));
        findings
            .add(Code::UnknownReference, value.place, path, message)
            .suggest("write `helpers.<id>`");
        return;
    };
    if !helpers.contains(&id) {
        let message = format!("helper `{}` does not exist", shown(id));
        let suggestion = similar_or(id, helpers, "add it to `executable_knowledge.helpers`");
        findings
            .add(Code::UnknownReference, value.place, path, message)
            .suggest(suggestion);
    }
}

/// Suggests the nearest known word, or else `otherwise`.
pub(super) fn similar_or(word: &str, known: &[&str], otherwise: &str) -> String {
    did_you_mean(nearest(word, known.iter().copied()), otherwise)
}

pub(super) fn is_kebab_case(name: &str) -> bool {
    is_separated(name, '-')
}

/// `snake_case` or `kebab-case`.
pub(super) fn is_command_name(name: &str) -> bool {
    is_separated(name, '_') || is_separated(name, '-')
}

fn is_separated(name: &str, separator: char) -> bool {
    name.split(separator).all(|word| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    })
}
