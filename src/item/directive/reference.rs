//! Checks the references of placeholders, once all inputs and steps are known.

use std::collections::{HashMap, HashSet};

use super::Step;
use super::reading::{DirectiveReading, PlaceholderText, UseKind};
use crate::item::expr;
use crate::item::finding::Severity;
use crate::item::template::{Placeholder, Reference, Template};
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Code;

/// More findings of this kind would not help the user.
const MAX_COMPLAINTS: usize = 100;
/// The names that a hook's expression may use.
const HOOK_NAMES: [&str; 7] = [
    "step",
    "phase",
    "error",
    "error.code",
    "error.message",
    "cost.steps",
    "cost.seconds",
];
/// How many names are compared for a suggestion.
const MAX_CANDIDATES: usize = 1000;

struct KnownNames<'k> {
    inputs: HashSet<&'k str>,
    /// In order, so that suggestions are deterministic.
    input_names: &'k [String],
    /// In order, with the first position of each name.
    steps: Vec<&'k str>,
    positions: HashMap<&'k str, usize>,
}

pub(super) fn check(steps: &[Step], inputs: &[String], reading: &mut DirectiveReading<'_>) {
    let steps: Vec<&str> = steps.iter().map(|step| &*step.name).collect();
    let positions = steps
        .iter()
        .enumerate()
        .rev()
        .map(|(index, name)| (*name, index))
        .collect();
    let known = KnownNames {
        inputs: inputs.iter().map(String::as_str).collect(),
        input_names: inputs,
        steps,
        positions,
    };
    let mut left = MAX_COMPLAINTS;
    for used in std::mem::take(&mut reading.uses) {
        let before = reading.findings.as_slice().len();
        match used.kind {
            UseKind::Template | UseKind::List => check_template(&used, &known, left, reading),
            UseKind::Expression => check_expression(&used, &known, left, reading),
            UseKind::Hook => check_hook(&used, &known, left, reading),
        }
        left = left.saturating_sub(reading.findings.as_slice().len() - before);
        if left == 0 {
            return;
        }
    }
}

fn check_template(
    used: &PlaceholderText,
    known: &KnownNames<'_>,
    left: usize,
    reading: &mut DirectiveReading<'_>,
) {
    let template = match Template::parse(&used.text.value) {
        Ok(template) => template,
        Err(errors) => {
            for error in errors.into_iter().take(left) {
                let offset = used.text.offset_at(error.offset);
                reading
                    .report(Code::InvalidTemplate, offset, &*used.path, error.message)
                    .suggest("write {input:name}, {step:name.path}, {run:id} or {env:VAR}");
            }
            return;
        }
    };
    let is_list = || serde_json::from_str::<Vec<serde_json::Value>>(&used.text.value).is_ok();
    if used.kind == UseKind::List && template.single().is_none() && !is_list() {
        let message = format!(
            "`{}` is neither one placeholder nor a JSON list",
            shown(&used.text.value)
        );
        reading
            .report(
                Code::InvalidType,
                used.text.offset_at(0),
                &*used.path,
                message,
            )
            .suggest("write e.g. foreach=\"{step:collect.files}\"");
    }
    report(template.placeholders(), used, known, left, reading);
}

fn check_expression(
    used: &PlaceholderText,
    known: &KnownNames<'_>,
    left: usize,
    reading: &mut DirectiveReading<'_>,
) {
    match expr::parse(&used.text.value) {
        Ok(expression) => report(
            expr::placeholders(&expression).into_iter(),
            used,
            known,
            left,
            reading,
        ),
        Err(error) => {
            let offset = used.text.offset_at(error.offset);
            let finding =
                reading.report(Code::InvalidExpression, offset, &*used.path, error.message);
            finding.suggest(
                error
                    .suggestion
                    .unwrap_or_else(|| "write e.g. {step:collect.count} > 0".to_owned()),
            );
        }
    }
}

/// Hooks written for other programs may use names that piton does not know: they get a warning and
/// have no effect.
fn check_hook(
    used: &PlaceholderText,
    known: &KnownNames<'_>,
    left: usize,
    reading: &mut DirectiveReading<'_>,
) {
    let expression = match expr::parse_hook(&used.text.value) {
        Ok(expression) => expression,
        Err(error) => {
            let offset = used.text.offset_at(error.offset);
            let message = format!("{}; the hook never runs", error.message);
            reading
                .report(Code::InvalidExpression, offset, &*used.path, message)
                .with_severity(Severity::Warning)
                .suggest(
                    error
                        .suggestion
                        .unwrap_or_else(|| "write e.g. cost.steps > 10".to_owned()),
                );
            return;
        }
    };
    report(
        expr::placeholders(&expression).into_iter(),
        used,
        known,
        left,
        reading,
    );
    for name in expr::names(&expression).into_iter().take(left) {
        let written = name.path.join(".");
        if !HOOK_NAMES.contains(&&*written) {
            let message = format!(
                "piton does not know `{}`: it is always null here",
                shown(&written)
            );
            let suggestion = did_you_mean(
                nearest(&written, HOOK_NAMES),
                &format!("known are: {}", HOOK_NAMES.join(", ")),
            );
            reading
                .report(
                    Code::UnknownReference,
                    used.text.offset_at(name.offset),
                    &*used.path,
                    message,
                )
                .with_severity(Severity::Warning)
                .suggest(suggestion);
        }
    }
}

fn report<'p>(
    placeholders: impl Iterator<Item = &'p Placeholder>,
    used: &PlaceholderText,
    known: &KnownNames<'_>,
    left: usize,
    reading: &mut DirectiveReading<'_>,
) {
    let complaints = placeholders
        .filter_map(|it| complaint(&it.reference, used, known).map(|found| (it, found)));
    for (placeholder, (message, suggestion)) in complaints.take(left) {
        let offset = used.text.offset_at(placeholder.range.start);
        reading
            .report(Code::UnknownReference, offset, &*used.path, message)
            .suggest(suggestion);
    }
}

/// Returns what is wrong with a reference, and a suggestion.
fn complaint(
    reference: &Reference,
    used: &PlaceholderText,
    known: &KnownNames<'_>,
) -> Option<(String, String)> {
    match reference {
        Reference::RunId | Reference::Env { .. } => None,
        Reference::Input { name, .. } => {
            if known.inputs.contains(&**name) || used.scope.element.as_ref() == Some(name) {
                return None;
            }
            let candidates = known
                .input_names
                .iter()
                .map(String::as_str)
                .take(MAX_CANDIDATES);
            let meant = nearest(name, candidates.chain(used.scope.element.as_deref()));
            let suggestion = match meant {
                Some(meant) => format!("did you mean `{{input:{meant}}}`?"),
                None => format!("add <input name=\"{name}\" type=\"string\"> to <inputs>"),
            };
            Some((format!("there is no input `{name}`"), suggestion))
        }
        Reference::Step { name, .. } => match known.positions.get(&**name) {
            Some(position) if *position < used.scope.earlier => None,
            Some(_) => {
                let message = format!("step `{name}` does not come before this one");
                Some((
                    message,
                    "refer to an earlier step, or move that step up".to_owned(),
                ))
            }
            None => {
                let earlier = known
                    .steps
                    .get(..used.scope.earlier)
                    .unwrap_or(&known.steps);
                let suggestion = match nearest(name, earlier.iter().copied().take(MAX_CANDIDATES)) {
                    Some(meant) => format!("did you mean `{{step:{meant}…}}`?"),
                    None if earlier.is_empty() => "the first step has no step before it".to_owned(),
                    None => {
                        let names: Vec<String> = earlier
                            .iter()
                            .take(10)
                            .map(|name| format!("`{name}`"))
                            .collect();
                        format!("earlier steps are: {}", names.join(", "))
                    }
                };
                Some((format!("there is no step `{name}`"), suggestion))
            }
        },
    }
}
