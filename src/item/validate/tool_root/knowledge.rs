//! Rules for `executable_knowledge`: helpers, processors and validators in JavaScript.

use std::collections::HashMap;

use crate::item::finding::Findings;
use crate::item::javascript::{self, Dialect};
use crate::item::node::{Node, NodeEntry};
use crate::item::position::Position;
use crate::problem::Code;

use crate::item::wording::separated;

use super::fields::{
    MAX_ELEMENTS, is_kebab_case, list_of, mappings_of, missing, report_unknown, require_texts,
    shown, wrong_type,
};
use super::{ToolNames, check_command_name, check_known_command};

const PATH: &str = "tool.executable_knowledge";

/// A list of functions and their keys.
struct FunctionSection {
    key: &'static str,
    required: &'static [&'static str],
    known: &'static [&'static str],
}

const SECTIONS: [FunctionSection; 3] = [
    FunctionSection {
        key: "helpers",
        required: &["id", "language", "runtime"],
        known: &[
            "id",
            "language",
            "runtime",
            "function",
            "name",
            "description",
        ],
    },
    FunctionSection {
        key: "processors",
        required: &["id", "language"],
        known: &[
            "id",
            "language",
            "runtime",
            "function",
            "name",
            "description",
            "processes",
        ],
    },
    FunctionSection {
        key: "validators",
        required: &["id", "validates", "language"],
        known: &[
            "id",
            "validates",
            "language",
            "runtime",
            "checks",
            "function",
            "name",
            "description",
        ],
    },
];

/// The ids of the helpers, valid or not.
pub(super) fn helper_ids(map: &Node) -> Vec<&str> {
    let helpers = map
        .find("executable_knowledge")
        .and_then(|knowledge| knowledge.find("helpers"));
    let elements = helpers.and_then(Node::elements).unwrap_or_default();
    elements
        .iter()
        .filter_map(|helper| helper.find("id")?.as_text())
        .collect()
}

/// Checks the helper functions of other spellings, where nothing else is checked.
pub(super) fn check_helper_functions(map: &Node, findings: &mut Findings) {
    let helpers = map
        .find("executable_knowledge")
        .and_then(|knowledge| knowledge.find("helpers"));
    let elements = helpers.and_then(Node::elements).unwrap_or_default();
    for (at, helper) in elements.iter().enumerate().take(MAX_ELEMENTS) {
        if helper
            .find("function")
            .is_some_and(|function| function.as_text().is_some())
        {
            check_function(
                helper,
                &format!("executable_knowledge.helpers[{at}]"),
                findings,
            );
        }
    }
}

pub(super) fn check(map: &Node, names: &ToolNames<'_>, findings: &mut Findings) {
    let Some(knowledge) = map.find("executable_knowledge") else {
        return;
    };
    if knowledge.entries().is_none() {
        return wrong_type(knowledge, PATH, "a mapping", findings);
    }
    report_unknown(
        knowledge,
        &SECTIONS.map(|section| section.key),
        PATH,
        findings,
    );
    for section in &SECTIONS {
        let Some(list) = knowledge.find(section.key) else {
            continue;
        };
        let mut seen = HashMap::new();
        for (path, function) in mappings_of(list, &format!("{PATH}.{}", section.key), findings) {
            require_texts(function, section.required, &path, findings);
            report_unknown(function, section.known, &path, findings);
            check_id(function, &path, &mut seen, findings);
            check_word(function, "language", "javascript", &path, findings);
            check_word(function, "runtime", "isolated_vm", &path, findings);
            check_function(function, &path, findings);
            if section.key == "validators" {
                check_validator(function, &path, names, findings);
            }
        }
    }
}

fn check_id<'n>(
    function: &'n Node,
    path: &str,
    seen: &mut HashMap<&'n str, Position>,
    findings: &mut Findings,
) {
    let Some(value) = function.find("id") else {
        return;
    };
    let Some(id) = value.as_text().filter(|id| !id.trim().is_empty()) else {
        return;
    };
    let path = format!("{path}.id");
    if !is_kebab_case(id) {
        let better = separated(&id.chars().take(60).collect::<String>(), '-');
        let suggestion = if is_kebab_case(&better) {
            format!("write `{better}`")
        } else {
            "use lower case letters and digits, separated by `-`".to_owned()
        };
        let message = format!("`{}` is not kebab-case", shown(id));
        findings
            .add(Code::NamingConvention, value.place, path.clone(), message)
            .suggest(suggestion);
    }
    if let Some(first) = seen.get(id) {
        let message = format!(
            "id `{}` is given twice, first at line {}",
            shown(id),
            first.line
        );
        findings
            .add(Code::DuplicateName, value.place, path, message)
            .suggest("give each its own id");
    } else {
        seen.insert(id, value.place);
    }
}

/// Checks a key with only one allowed value; its presence is checked elsewhere.
fn check_word(function: &Node, key: &str, only: &str, path: &str, findings: &mut Findings) {
    let Some(value) = function.find(key) else {
        return;
    };
    let Some(word) = value
        .as_text()
        .filter(|word| *word != only && !word.trim().is_empty())
    else {
        return;
    };
    findings
        .add(
            Code::InvalidEnumValue,
            value.place,
            format!("{path}.{key}"),
            format!("{key} must be `{only}`, not `{}`", shown(word)),
        )
        .suggest(format!("write `{only}`"));
}

fn check_function(function: &Node, path: &str, findings: &mut Findings) {
    let entry = function
        .find_entry("function")
        .filter(|entry| !entry.value.is_null());
    let Some(entry) = entry else {
        return missing(function, "function", path, findings);
    };
    let path = format!("{path}.function");
    let Some(code) = entry.value.as_text() else {
        return wrong_type(&entry.value, &path, "a string", findings);
    };
    if code.trim().is_empty() {
        findings
            .add(
                Code::MissingRequiredField,
                entry.place,
                path,
                "function is required",
            )
            .suggest("write the function below `function: |`");
        return;
    }
    if let Some(problem) = javascript::check_syntax(code, Dialect::Function) {
        let place = place_in(entry, code, problem.line, problem.column);
        findings
            .add(
                Code::InvalidFunctionSyntax,
                place,
                path.clone(),
                format!("syntax error: {}", problem.message),
            )
            .suggest("fix the JavaScript; it must be a complete script");
    }
    for found in javascript::forbidden(code) {
        let place = place_in(entry, code, found.line, found.column);
        findings
            .add(
                Code::ForbiddenCall,
                place,
                path.clone(),
                format!(
                    "`{}` is not available: functions must be self-contained",
                    found.name
                ),
            )
            .suggest("work with `args` only");
    }
}

/// The position in the file of a position in a function.
///
/// A block scalar begins below its key, at the first non-blank line. Other scalars may be escaped
/// or folded, so only their start is known.
pub(crate) fn place_in(entry: &NodeEntry, code: &str, line: u32, column: u32) -> Position {
    let origin = entry.value.place;
    if origin.line <= entry.place.line {
        return origin;
    }
    let blank = code
        .split('\n')
        .take_while(|line| line.trim().is_empty())
        .count();
    let first = origin
        .line
        .saturating_sub(u32::try_from(blank).unwrap_or(0));
    Position {
        line: first.saturating_add(line - 1),
        column: origin.column.saturating_add(column - 1),
    }
}

fn check_validator(validator: &Node, path: &str, names: &ToolNames<'_>, findings: &mut Findings) {
    if let Some(value) = validator.find("validates")
        && let Some(command) = value.as_text().filter(|command| !command.trim().is_empty())
    {
        let path = format!("{path}.validates");
        check_command_name(command, value, &path, findings);
        check_known_command(command, value, &path, names, findings);
    }
    let Some(checks) = validator.find("checks") else {
        return;
    };
    for (path, check) in mappings_of(checks, &format!("{path}.checks"), findings) {
        report_unknown(
            check,
            &["required_fields", "format", "field"],
            &path,
            findings,
        );
        if let Some(fields) = check.find("required_fields") {
            let path = format!("{path}.required_fields");
            for (at, field) in list_of(fields, &path, findings).iter().enumerate() {
                if field.as_text().is_none() {
                    wrong_type(field, &format!("{path}[{at}]"), "a string", findings);
                }
            }
        }
        for key in ["format", "field"] {
            if let Some(value) = check.find(key)
                && value.as_text().is_none()
            {
                wrong_type(value, &format!("{path}.{key}"), "a string", findings);
            }
        }
    }
}
