//! A validation report as SARIF 2.1.0, the format code hosts read.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::item::finding::{Finding, Severity};
use crate::problem::{Code, CodeLevel};
use crate::validation::ValidationReport;

/// Turns a report into a SARIF log.
pub(super) fn log(report: &ValidationReport) -> Value {
    let rules: Vec<Value> = Code::of_findings().map(rule).collect();
    let results: Vec<Value> = report.findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "piton", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(code: Code) -> Value {
    let level = match code.level() {
        CodeLevel::Error | CodeLevel::RunTime => "error",
        CodeLevel::Warning | CodeLevel::ErrorWhenStrict => "warning",
    };
    json!({
        "id": code.as_str(),
        "shortDescription": {"text": code.summary()},
        "defaultConfiguration": {"level": level},
    })
}

fn result(finding: &Finding) -> Value {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut text = finding.message.clone();
    if let Some(suggestion) = &finding.suggestion {
        text.push_str("; ");
        text.push_str(&suggestion.to_string());
    }
    json!({
        "ruleId": finding.code.as_str(),
        "ruleIndex": Code::of_findings().position(|code| code == finding.code),
        "level": level,
        "message": {"text": text},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": uri(finding)},
                "region": {"startLine": finding.line, "startColumn": finding.column},
            },
        }],
    })
}

/// The file as a relative or `file:` URI, with escapes.
fn uri(finding: &Finding) -> String {
    let path = finding.file.to_string_lossy();
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    if finding.file.is_absolute() {
        format!("file://{escaped}")
    } else {
        escaped
    }
}
