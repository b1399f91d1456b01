//! References of a directive to other items.

use serde_json::{Map, Value};

use super::schema;
use crate::item::directive::{Directive, Param, Step, StepAction};
use crate::item::finding::Findings;
use crate::item::params::{self, DeclaredParameters};
use crate::item::position::Position;
use crate::item::store::{Item, ItemKind, ItemStore, LookupError};
use crate::item::template::Template;
use crate::problem::{Code, Explain};

/// Checks that every named item exists and accepts the given parameters.
pub(super) fn check(directive: &Directive, store: &ItemStore, findings: &mut Findings) {
    for (at, step) in directive.steps.iter().enumerate() {
        let path = format!("process.step[{at}]");
        match &step.action {
            StepAction::Tool {
                item_id, params, ..
            } => {
                if let Some(item) =
                    named(store, ItemKind::Tool, item_id, step.place, &path, findings)
                    && let Some(tool) = item.as_tool()
                {
                    let hint = format!("see what it takes with `piton tool show {}`", item.id);
                    unknown(
                        &DeclaredParameters::of_tool(&tool.manifest),
                        params,
                        &path,
                        findings,
                    );
                    arguments(
                        &tool.manifest.input_schema,
                        params,
                        step,
                        (&path, &hint),
                        findings,
                    );
                }
            }
            StepAction::Directive { item_id, params } => {
                if let Some(item) = named(
                    store,
                    ItemKind::Directive,
                    item_id,
                    step.place,
                    &path,
                    findings,
                ) && let Some(callee) = item.as_directive()
                {
                    let hint = format!("see what it takes with `piton directive show {}`", item.id);
                    unknown(
                        &DeclaredParameters::of_directive(callee),
                        params,
                        &path,
                        findings,
                    );
                    arguments(&callee.input_schema, params, step, (&path, &hint), findings);
                }
            }
            StepAction::Checkpoint { .. }
            | StepAction::Item { .. }
            | StepAction::Human { .. }
            | StepAction::Prose { .. } => {}
        }
    }
    for id in &directive.relationships.requires {
        named(
            store,
            ItemKind::Directive,
            id,
            Position::START,
            "metadata.relationships.requires",
            findings,
        );
    }
    for hook in &directive.hooks {
        named(
            store,
            ItemKind::Directive,
            &hook.directive,
            hook.place,
            "metadata.hooks.hook",
            findings,
        );
    }
    let place = directive
        .inputs
        .first()
        .map_or(Position::START, |input| input.place);
    let locate = |pointer: &str| (format!("inputs{}", pointer.replace('/', ".")), place);
    schema::report(&directive.input_schema, locate, findings);
}

fn named<'s>(
    store: &'s ItemStore,
    kind: ItemKind,
    id: &str,
    place: Position,
    path: &str,
    findings: &mut Findings,
) -> Option<&'s Item> {
    // An id with placeholders is known at run time; a missing one is reported when it is read.
    if id.contains('{') || id.is_empty() {
        return None;
    }
    match store.find(kind, id) {
        Ok(item) => Some(item),
        Err(err) => {
            let code = match err {
                LookupError::Invalid { .. } => Code::InvalidId,
                _ => Code::UnknownItem,
            };
            let hint = err.hint();
            let finding = findings.add(code, place, path, err.to_string());
            if let Some(hint) = hint {
                finding.suggest(hint);
            }
            None
        }
    }
}

/// Reports parameters that the callee does not accept. If the schema mentions additional
/// properties, its own check reports them.
fn unknown(
    declared: &DeclaredParameters<'_>,
    given: &[Param],
    path: &str,
    findings: &mut Findings,
) {
    for param in given.iter().filter(|_| declared.is_silent_about_others()) {
        if let Some(problem) = declared.unknown(&param.name) {
            let finding = findings.add(Code::InvalidParameter, param.place, path, problem.message);
            finding.suggest(problem.suggestion.unwrap_or_else(|| "remove it".to_owned()));
        }
    }
}

/// Checks literal parameters; those with placeholders are checked at run time.
///
/// `callee` is the path of the step, and the hint how to see what is expected.
fn arguments(
    schema: &Value,
    given: &[Param],
    step: &Step,
    callee: (&str, &str),
    findings: &mut Findings,
) {
    let (path, hint) = callee;
    let place_of = |name: &str| {
        given
            .iter()
            .find(|param| param.name == name)
            .map_or(step.place, |param| param.place)
    };
    let mut values = Map::new();
    let mut open: Vec<&str> = Vec::new();
    for param in given {
        let has_placeholder =
            Template::parse(&param.value).is_ok_and(|text| text.placeholders().next().is_some());
        match params::convert(&param.value, declared_type(schema, &param.name)) {
            _ if has_placeholder => open.push(&param.name),
            Ok(value) => {
                values.insert(param.name.clone(), value);
            }
            Err(err) => {
                let message = format!("parameter `{}`: {err}", param.name);
                findings
                    .add(Code::InvalidParameter, param.place, path, message)
                    .suggest(hint);
                open.push(&param.name);
            }
        }
    }
    let problems = params::validate(schema, &Value::Object(values))
        .err()
        .unwrap_or_default();
    for problem in problems {
        let name = problem.pointer.split('/').nth(1).unwrap_or_default();
        if open.contains(&name) {
            continue;
        }
        let finding = findings.add(
            Code::InvalidParameter,
            place_of(name),
            path,
            problem.message,
        );
        finding.suggest(problem.suggestion.unwrap_or_else(|| hint.to_owned()));
    }
}

fn declared_type<'s>(schema: &'s Value, name: &str) -> &'s str {
    let property = schema
        .get("properties")
        .and_then(|properties| properties.get(name));
    property
        .and_then(|property| property.get("type"))
        .and_then(Value::as_str)
        .unwrap_or("string")
}
