//! What a knowledge entry says about itself.

use crate::item::code::Code;
use crate::item::finding::Findings;
use crate::item::knowledge::Knowledge;
use crate::item::params;

/// Checks the front matter against the schema it carries, if it carries one.
pub(super) fn check(entry: &Knowledge, findings: &mut Findings) {
    let Some(node) = entry.schema() else { return };
    let schema = node.to_json();
    let problems = params::check_schema(&schema);
    if problems.is_empty() {
        let wrong = params::validate(&schema, &entry.front_matter).err().unwrap_or_default();
        for problem in wrong {
            findings.add(Code::InvalidType, node.place, problem.pointer.replace('/', "."), problem.message);
        }
    }
    for problem in problems {
        findings.add(problem.code, node.place, format!("schema{}", problem.pointer.replace('/', ".")), problem.message);
    }
}
