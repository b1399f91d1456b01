//! Rules for `api_complexity` and `anti_patterns`.

use crate::item::finding::{Findings, Severity, Strength};
use crate::item::node::{Node, NodeEntry};
use crate::problem::Code;

use super::ToolNames;
use super::fields::{
    MAX_ELEMENTS, check_length, mappings_of, reference, report_unknown, require_texts, shown,
    similar_or, wrong_type,
};

const PATH: &str = "tool.api_complexity";
const CATEGORIES: [&str; 5] = [
    "api_usage",
    "validation",
    "error_handling",
    "performance",
    "security",
];

pub(super) fn check(map: &Node, names: &ToolNames<'_>, findings: &mut Findings) {
    if let Some(complexity) = map.find("api_complexity") {
        if complexity.entries().is_some() {
            check_complexity(complexity, names, findings);
        } else {
            wrong_type(complexity, PATH, "a mapping", findings);
        }
    }
    if let Some(patterns) = map.find("anti_patterns") {
        check_anti_patterns(patterns, findings);
    }
}

fn check_complexity(complexity: &Node, names: &ToolNames<'_>, findings: &mut Findings) {
    report_unknown(
        complexity,
        &["payload_schemas", "field_mappings", "api_quirks"],
        PATH,
        findings,
    );
    if let Some(schemas) = complexity.find("payload_schemas") {
        for (path, schema) in mappings_of(schemas, &format!("{PATH}.payload_schemas"), findings) {
            require_texts(
                schema,
                &["type", "detection", "payload_path"],
                &path,
                findings,
            );
            report_unknown(
                schema,
                &["type", "detection", "payload_path", "description", "note"],
                &path,
                findings,
            );
            check_detection(schema, &path, findings);
        }
    }
    if let Some(mappings) = complexity.find("field_mappings") {
        check_mappings(mappings, names, findings);
    }
    if let Some(quirks) = complexity.find("api_quirks") {
        for (path, quirk) in mappings_of(quirks, &format!("{PATH}.api_quirks"), findings) {
            require_texts(
                quirk,
                &["quirk", "description", "mitigation"],
                &path,
                findings,
            );
            report_unknown(
                quirk,
                &["quirk", "description", "mitigation", "impact"],
                &path,
                findings,
            );
        }
    }
}

fn check_detection(schema: &Node, path: &str, findings: &mut Findings) {
    let Some(value) = schema.find("detection") else {
        return;
    };
    let Some(text) = value
        .as_text()
        .filter(|text| !text.trim().is_empty() && !is_checkable(text))
    else {
        return;
    };
    let message = format!("`{}` cannot be evaluated", shown(text));
    findings
        .add(
            Code::UncheckableDetection,
            value.place,
            format!("{path}.detection"),
            message,
        )
        .suggest("write `<name> field exists`, or a JSONPath like `$.event`");
}

/// Whether a detection is `X field`, `X field exists` or a path that begins with `$`.
pub(super) fn is_checkable(text: &str) -> bool {
    let text = text.trim();
    if let Some(path) = text.strip_prefix('$') {
        return path.is_empty() || path.starts_with(['.', '[']);
    }
    let name = text
        .strip_suffix("exists")
        .map_or(text, str::trim_end)
        .strip_suffix("field")
        .map(str::trim_end);
    name.is_some_and(|name| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_-.[]".contains(c))
    })
}

fn check_mappings(mappings: &Node, names: &ToolNames<'_>, findings: &mut Findings) {
    let path = format!("{PATH}.field_mappings");
    let Some(entries) = mappings.entries() else {
        return wrong_type(mappings, &path, "a mapping", findings);
    };
    check_length(entries.len(), mappings, &path, findings);
    for entry in entries.iter().take(MAX_ELEMENTS) {
        let path = format!("{path}.{}", shown(&entry.key));
        let inner = entry.value.entries().unwrap_or_default();
        // Mappings may be grouped, e.g. in `custom_fields`.
        if !is_mapping(&entry.value) && inner.iter().any(|inner| is_mapping(&inner.value)) {
            check_length(inner.len(), &entry.value, &path, findings);
            for inner in inner.iter().take(MAX_ELEMENTS) {
                check_mapping(
                    inner,
                    &format!("{path}.{}", shown(&inner.key)),
                    names,
                    findings,
                );
            }
        } else {
            check_mapping(entry, &path, names, findings);
        }
    }
}

fn is_mapping(value: &Node) -> bool {
    value.find("structure").is_some() || value.find("extraction").is_some()
}

fn check_mapping(entry: &NodeEntry, path: &str, names: &ToolNames<'_>, findings: &mut Findings) {
    if entry.value.entries().is_none() {
        return wrong_type(&entry.value, path, "a mapping", findings);
    }
    if !is_mapping(&entry.value) {
        // Existing files use this for notes.
        let severity = if findings.strength() == Strength::Strict {
            Severity::Error
        } else {
            Severity::Warning
        };
        findings
            .add(
                Code::MissingRequiredField,
                entry.place,
                path,
                "structure or extraction is required",
            )
            .with_severity(severity)
            .suggest("add `structure:`, or `extraction: helpers.<id>`");
    }
    if let Some(extraction) = entry.value.find("extraction") {
        reference(
            extraction,
            &format!("{path}.extraction"),
            &names.helpers,
            findings,
        );
    }
}

fn check_anti_patterns(patterns: &Node, findings: &mut Findings) {
    let known = [
        "pattern",
        "description",
        "category",
        "wrong",
        "correct",
        "rationale",
    ];
    for (path, pattern) in mappings_of(patterns, "tool.anti_patterns", findings) {
        require_texts(
            pattern,
            &["pattern", "description", "wrong", "correct"],
            &path,
            findings,
        );
        report_unknown(pattern, &known, &path, findings);
        let path = format!("{path}.category");
        let Some(value) = pattern.find("category") else {
            let message = format!("category is recommended: one of {}", CATEGORIES.join(", "));
            findings
                .add(Code::MissingRecommendedField, pattern.place, path, message)
                .suggest("add `category:`");
            continue;
        };
        match value.as_text() {
            None => wrong_type(value, &path, "a string", findings),
            Some(category) if CATEGORIES.contains(&category) => {}
            Some(category) => {
                let message = format!(
                    "category must be one of {}, not `{}`",
                    CATEGORIES.join(", "),
                    shown(category)
                );
                let suggestion = similar_or(category, &CATEGORIES, "use the nearest of these");
                findings
                    .add(Code::UnknownEnumValue, value.place, path, message)
                    .suggest(suggestion);
            }
        }
    }
}
