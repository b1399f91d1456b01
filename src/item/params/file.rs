//! Parameters from a file.

use std::path::Path;

use serde_json::{Map, Value};

use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::position::Position;
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::{json, yaml};
use crate::problem::Code;

pub fn load(path: &Path, shown: &Path) -> Result<Map<String, Value>, Vec<Finding>> {
    let mut findings = Findings::new(shown, Strength::Lenient);
    let source = SourceFile::load(path, MAX_TEXT, &mut findings);
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let parse = if is_json { json::parse } else { yaml::parse };
    let document = source.and_then(|source| parse(&source.text, Position::START, &mut findings));
    let parameters = match document.map(|document| (document.place, document.to_json())) {
        Some((_, Value::Object(parameters))) => Some(parameters),
        Some((place, _)) => {
            findings
                .add(
                    Code::InvalidType,
                    place,
                    "",
                    "parameters must be a mapping from names to values",
                )
                .suggest("write `name: value`, one per line");
            None
        }
        None => None,
    };
    let findings = findings.into_vec();
    match parameters {
        Some(parameters)
            if findings
                .iter()
                .all(|finding| finding.severity != Severity::Error) =>
        {
            Ok(parameters)
        }
        _ => Err(findings),
    }
}
