//! Rules for knowledge entries.

use super::{place_of, schema};
use crate::item::finding::Findings;
use crate::item::knowledge::Knowledge;
use crate::item::params;
use crate::problem::Code;

/// Checks the front matter; against its own schema, if it has one.
pub(super) fn check(entry: &Knowledge, findings: &mut Findings) {
    for key in ["executor", "executor_id"] {
        if let Some(value) = entry.fields.find(key).filter(|value| !value.is_null()) {
            let message = "Knowledge entries must have executor: null";
            findings
                .add(Code::UnexpectedExecutor, value.place, key, message)
                .suggest("remove the executor: knowledge is read, not run");
        }
    }
    let Some(node) = entry.schema() else { return };
    let schema = node.to_json();
    let before = findings.as_slice().len();
    schema::report(
        &schema,
        |pointer| schema::locate(&entry.fields, "schema", pointer),
        findings,
    );
    if findings.as_slice().len() > before {
        return;
    }
    for problem in params::validate(&schema, &entry.front_matter)
        .err()
        .unwrap_or_default()
    {
        let path = problem.pointer.trim_start_matches('/').replace('/', ".");
        let place = if path.is_empty() {
            node.place
        } else {
            place_of(&entry.fields, &path)
        };
        let message = problem.message.replacen("parameter", "field", 1);
        findings
            .add(Code::InvalidType, place, path, message)
            .suggest("change the field, or the `schema` that the entry gives itself");
    }
}
