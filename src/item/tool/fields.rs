//! Typed access to the fields of a canonical map.
//!
//! Each function reports a value of the wrong type and then treats the field as absent, so that one
//! wrong field does not hide the next.

use crate::item::finding::Findings;
use crate::item::node::{Data, Node};
use crate::problem::Code;

pub(super) fn text(map: &Node, key: &str, path: &str, findings: &mut Findings) -> Option<String> {
    let value = map.find(key)?;
    if value.as_text().is_none() {
        wrong_type(value, path, "a string", findings);
    }
    value.as_text().map(str::to_owned)
}

pub(super) fn flag(map: &Node, key: &str, path: &str, findings: &mut Findings) -> Option<bool> {
    let value = map.find(key)?;
    if value.as_bool().is_none() {
        wrong_type(value, path, "true or false", findings);
    }
    value.as_bool()
}

pub(super) fn texts(
    map: &Node,
    key: &str,
    path: &str,
    findings: &mut Findings,
) -> Option<Vec<String>> {
    let value = map.find(key)?;
    let Some(elements) = value.elements() else {
        wrong_type(value, path, "a list of strings", findings);
        return None;
    };
    let mut list = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        match element.as_text() {
            Some(text) => list.push(text.to_owned()),
            None => wrong_type(element, &format!("{path}[{at}]"), "a string", findings),
        }
    }
    Some(list)
}

pub(super) fn wrong_type(value: &Node, path: &str, wanted: &str, findings: &mut Findings) {
    let finding = findings.add(
        Code::InvalidType,
        value.place,
        path,
        format!("{path} must be {wanted}, not {}", article(value)),
    );
    match (&value.data, wanted) {
        (Data::Int(_) | Data::Float(..) | Data::Bool(_), "a string") => {
            if let Some(written) = value.scalar() {
                finding.suggest(format!("quote it: \"{written}\""));
            }
        }
        (Data::Text(text), "a list of strings")
            if text.len() < 200 && !text.contains(['[', ']', '\n']) =>
        {
            finding.suggest(format!("write a list: [{text}]"));
        }
        (Data::Text(text), "true or false")
            if matches!(text.as_str(), "yes" | "no" | "on" | "off") =>
        {
            finding.suggest("only `true` and `false` are truth values");
        }
        (_, "a positive number of seconds") => {
            finding.suggest("e.g. `timeout: 60`");
        }
        _ => {
            finding.suggest(format!("write {wanted}"));
        }
    }
}

fn article(value: &Node) -> String {
    match value.type_name() {
        "null" => "null".to_owned(),
        name @ "integer" => format!("an {name}"),
        name => format!("a {name}"),
    }
}
