//! Rules for `examples`: scenarios of each command.

use crate::item::finding::{Findings, Severity, Strength};
use crate::item::node::{Node, NodeEntry};
use crate::problem::Code;

use super::fields::{
    MAX_ELEMENTS, check_length, mappings_of, missing, shown, similar_or, wrong_type,
};
use super::{ToolNames, check_command_name, check_known_command};

const SCENARIOS: [&str; 4] = [
    "success",
    "failure_invalid_param",
    "failure_api_error",
    "edge_case",
];

pub(super) fn check(map: &Node, names: &ToolNames<'_>, findings: &mut Findings) {
    let Some(examples) = map.find("examples") else {
        return;
    };
    let Some(commands) = examples.entries() else {
        return wrong_type(
            examples,
            "tool.examples",
            "a mapping of commands to lists",
            findings,
        );
    };
    check_length(commands.len(), examples, "tool.examples", findings);
    for command in commands.iter().take(MAX_ELEMENTS) {
        let path = format!("tool.examples.{}", shown(&command.key));
        let key = Node::text(command.key.as_str(), command.place);
        check_command_name(&command.key, &key, &path, findings);
        check_known_command(&command.key, &key, &path, names, findings);
        if command.value.elements().is_none() {
            wrong_type(&command.value, &path, "a list of scenarios", findings);
            continue;
        }
        let scenarios: Vec<&str> = mappings_of(&command.value, &path, findings)
            .into_iter()
            .filter_map(|(path, example)| {
                check_example(example, &path, findings);
                example.find("scenario")?.as_text()
            })
            .collect();
        report_missing(command, &scenarios, &path, findings);
    }
}

fn check_example(example: &Node, path: &str, findings: &mut Findings) {
    let scenario = match example.find("scenario") {
        None => {
            // Existing files have whole workflows here, as a list of steps.
            let is_workflow = example.find("steps").is_some();
            for key in ["scenario", "input"] {
                if example.find(key).is_none() {
                    require(example, key, path, is_workflow, findings);
                }
            }
            return;
        }
        Some(value) => {
            let Some(scenario) = value.as_text() else {
                return wrong_type(value, &format!("{path}.scenario"), "a string", findings);
            };
            if !SCENARIOS.iter().any(|known| is_kind(scenario, known))
                && !scenario.starts_with("failure_")
            {
                let message = format!(
                    "scenario must be success, failure_invalid_param, failure_api_error or edge_case_*, not `{}`",
                    shown(scenario)
                );
                let suggestion = similar_or(
                    scenario,
                    &SCENARIOS,
                    "begin it with `failure_` or `edge_case_`",
                );
                findings
                    .add(
                        Code::UnknownEnumValue,
                        value.place,
                        format!("{path}.scenario"),
                        message,
                    )
                    .suggest(suggestion);
            }
            scenario
        }
    };
    if example.find_entry("input").is_none() {
        missing(example, "input", path, findings);
    }
    let is_given = |key: &str| example.find(key).is_some_and(|value| !value.is_null());
    if is_given("output") && is_given("error") {
        let severity = match findings.strength() {
            Strength::Strict => Severity::Error,
            Strength::Lenient => Severity::Warning,
        };
        let message = "an example has either output or error, not both";
        findings
            .add(Code::ConflictingField, example.place, path, message)
            .with_severity(severity)
            .suggest("keep what the command does for this input");
    }
    let has = |key: &str| example.find_entry(key).is_some();
    match scenario {
        "success" if !has("output") => missing(example, "output", path, findings),
        _ if scenario.starts_with("failure_") && !has("error") => {
            missing(example, "error", path, findings);
        }
        _ if !has("output") && !has("error") => {
            findings
                .add(
                    Code::MissingRequiredField,
                    example.place,
                    path,
                    "output or error is required",
                )
                .suggest("add what the command returns, or how it fails");
        }
        _ => {}
    }
}

fn require(example: &Node, key: &str, path: &str, is_tolerated: bool, findings: &mut Findings) {
    let severity = if is_tolerated && findings.strength() == Strength::Lenient {
        Severity::Warning
    } else {
        Severity::Error
    };
    findings
        .add(
            Code::MissingRequiredField,
            example.place,
            format!("{path}.{key}"),
            format!("{key} is required"),
        )
        .with_severity(severity)
        .suggest(format!("add `{key}:`"));
}

/// Whether a scenario is of a kind; edge cases may have their own names.
fn is_kind(scenario: &str, kind: &str) -> bool {
    scenario == kind || (kind == "edge_case" && scenario.starts_with("edge_case_"))
}

fn report_missing(command: &NodeEntry, scenarios: &[&str], path: &str, findings: &mut Findings) {
    let fails = scenarios
        .iter()
        .any(|scenario| scenario.starts_with("failure_"));
    for kind in SCENARIOS {
        if scenarios.iter().any(|scenario| is_kind(scenario, kind)) {
            continue;
        }
        // Without any failure, the first kind of failure represents all.
        let (wanted, required) = match kind {
            "success" => ("success", true),
            "failure_invalid_param" if !fails => ("failure_*", true),
            "edge_case" => ("edge_case_*", false),
            _ => (kind, false),
        };
        let message = format!(
            "the examples of `{}` have no {wanted} scenario",
            shown(&command.key)
        );
        let name = if wanted == "failure_*" {
            "failure_invalid_param"
        } else {
            kind
        };
        let finding = findings.add(Code::MissingScenario, command.place, path, message);
        finding.suggest(format!("add an example with `scenario: {name}`"));
        if !required {
            finding.with_severity(Severity::Warning);
        }
    }
}
