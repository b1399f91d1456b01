//! The steps of a directive.
//!
//! A step does one thing: an executable element, or the prose of `<action>` (also bare, or in the
//! `<render>` and `<instruction>` of RYE's guides). Prose beside an executable element is its
//! description. Where other programs write several calls into one step, each becomes a step: `NAME`,
//! `NAME_2` and so on. Inside a step with `foreach`, `{input:NAME}` with the name from `as` (default
//! `item`) is the element.

use std::collections::HashMap;

use super::quantity::{ON_FAILURE, choice, parse_seconds, seconds};
use super::reading::{DirectiveReading, PlaceholderScope, UseKind, join};
use super::xml::{Element, XmlText};
use super::{OnFailure, Retry, Step, StepAction, action};
use crate::item::finding::{Finding, Severity, Strength};
use crate::item::wording::{nearest, shown};
use crate::problem::Code;

const ATTRIBUTES: [&str; 9] = [
    "name",
    "when",
    "foreach",
    "as",
    "retry",
    "backoff",
    "timeout",
    "on_failure",
    "description",
];
/// Attributes that only tell a reader something.
const REMARKS: [&str; 4] = ["number", "id", "order", "title"];
/// Elements of a step that only tell a reader something.
const DOCUMENTATION: [&str; 12] = [
    "expected_output",
    "expected",
    "expected_result",
    "output",
    "outputs",
    "success_criteria",
    "verify",
    "note",
    "notes",
    "rationale",
    "purpose",
    "tips",
];
/// Elements that group steps.
const GROUPS: [&str; 5] = ["wave", "phase", "stage", "group", "steps"];
const ELEMENTS: [&str; 18] = [
    "description",
    "action",
    "verification",
    "execute",
    "search",
    "load",
    "sign",
    "migrate",
    "tool_call",
    "tool_calls",
    "calls",
    "checkpoint",
    "tool",
    "parameters",
    "retry",
    "when",
    "render",
    "instruction",
];
const MAX_BACKOFF: f64 = 86_400.0;

pub(super) fn read(element: &Element, reading: &mut DirectiveReading<'_>, steps: &mut Vec<Step>) {
    reading.check_attributes(element, "process", &[]);
    collect(element, reading, steps);
    let mut seen = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        if let Some(line) = seen.insert(&*step.name, step.place.line) {
            let message = format!(
                "step `{}` is defined twice, first on line {line}",
                shown(&step.name)
            );
            let path = format!("process.step[{index}].name");
            reading
                .findings
                .add(Code::DuplicateName, step.place, path, message)
                .suggest("give each step its own name");
        }
    }
}

fn collect(element: &Element, reading: &mut DirectiveReading<'_>, steps: &mut Vec<Step>) {
    for child in element.children() {
        let index = steps.len();
        let path = format!("process.step[{index}]");
        match &*child.name {
            "step" => read_step(child, &path, index, reading, steps),
            // A gate may stand between steps.
            "checkpoint" => steps.push(read_gate(child, &path, index, reading)),
            group if GROUPS.contains(&group) => {
                let path = format!("process.{group}");
                let has_steps = child
                    .children()
                    .any(|it| it.name == "step" || GROUPS.contains(&&*it.name));
                let what = if has_steps {
                    "its steps run one after the other"
                } else {
                    "it is taken as a step"
                };
                let message = format!("`<{group}>` is not known; {what}");
                reading
                    .report(Code::UnknownElement, child.span.start, path, message)
                    .suggest("put its steps directly into <process>");
                if has_steps {
                    collect(child, reading, steps);
                } else {
                    let path = format!("process.step[{index}]");
                    read_step(child, &path, index, reading, steps);
                }
            }
            _ if child.is_opaque() => reading.keep_note(child, "process"),
            _ => reading.keep_unknown(child, "process", &["step", "checkpoint"]),
        }
    }
}

fn read_gate(
    element: &Element,
    path: &str,
    index: usize,
    reading: &mut DirectiveReading<'_>,
) -> Step {
    reading.scope = PlaceholderScope {
        earlier: index,
        element: None,
    };
    let name = element
        .attribute("name")
        .map(|it| it.value.value.trim().to_owned());
    let place = reading.place(element.span.start);
    Step {
        name: name
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| format!("checkpoint_{}", index + 1)),
        description: String::new(),
        action: action::checkpoint(element, path, reading),
        verification: Vec::new(),
        when: None,
        foreach: None,
        element: None,
        retry: None,
        timeout: None,
        on_failure: None,
        place,
    }
}

fn read_step(
    element: &Element,
    path: &str,
    index: usize,
    reading: &mut DirectiveReading<'_>,
    steps: &mut Vec<Step>,
) {
    check_attributes(element, path, reading);
    let attribute = |name: &str| element.attribute(name).map(|it| it.value.clone());
    let foreach = attribute("foreach").map(|text| text.trimmed());
    let bound = read_element_name(element, foreach.is_some(), path, reading);
    reading.scope = PlaceholderScope {
        earlier: index,
        element: None,
    };
    let when =
        attribute("when").or_else(|| element.child("when").map(|it| it.own_text().trimmed()));
    if let Some(foreach) = &foreach {
        reading.uses(foreach, UseKind::List, join(path, "foreach"));
    }
    reading.scope.element.clone_from(&bound);
    if let Some(when) = &when {
        reading.uses(when, UseKind::Expression, join(path, "when"));
    }
    let (description, actions) = read_actions(element, path, index, foreach.is_some(), reading);
    reading.scope.earlier = index + actions.len().saturating_sub(1);
    let name = read_name(element, path, index, reading);
    let last = Step {
        name: name.clone(),
        description,
        action: StepAction::Prose {
            instruction: String::new(),
            quoted: Vec::new(),
        },
        verification: read_verification(element, path, reading),
        when: when.map(|text| text.value),
        foreach: foreach.map(|text| text.value),
        element: bound,
        retry: read_retry(element, path, reading),
        timeout: attribute("timeout")
            .and_then(|text| seconds(reading, &text, &join(path, "timeout"))),
        on_failure: attribute("on_failure").and_then(|text| read_on_failure(&text, path, reading)),
        place: reading.place(element.span.start),
    };
    let count = actions.len();
    for (at, (action, offset)) in actions.into_iter().enumerate() {
        steps.push(Step {
            name: match at {
                0 => name.clone(),
                _ => format!("{name}_{}", at + 1),
            },
            action,
            verification: if at + 1 == count {
                last.verification.clone()
            } else {
                Vec::new()
            },
            place: reading.place(if at == 0 { element.span.start } else { offset }),
            ..last.clone()
        });
    }
}

fn check_attributes(element: &Element, path: &str, reading: &mut DirectiveReading<'_>) {
    let is_lenient = reading.findings.strength() == Strength::Lenient;
    let is_remark = |name: &str| is_lenient && REMARKS.contains(&name);
    for attribute in element
        .attributes
        .iter()
        .filter(|it| !ATTRIBUTES.contains(&&*it.name) && !is_remark(&it.name))
    {
        let finding = reading.unknown_attribute(element, attribute, path, &ATTRIBUTES);
        if matches!(&*attribute.name, "condition" | "if") {
            finding
                .suggest("write `when` with an expression, e.g. when=\"{step:collect.count} > 0\"");
        }
    }
    // What is part of the work in words, or only tells a reader something, is no mistake.
    let is_call = action::calls(element).next().is_some();
    let is_part = |child: &Element| {
        let is_mistyped = nearest(&child.name, ELEMENTS).is_some();
        is_lenient && !is_mistyped && (!is_call || DOCUMENTATION.contains(&&*child.name))
    };
    for child in element
        .children()
        .filter(|child| !ELEMENTS.contains(&&*child.name) && !child.is_opaque() && !is_part(child))
    {
        reading.keep_unknown(child, path, &ELEMENTS);
    }
}

fn read_name(
    element: &Element,
    path: &str,
    index: usize,
    reading: &mut DirectiveReading<'_>,
) -> String {
    let name = element
        .attribute("name")
        .map(|it| it.value.trimmed())
        .filter(|name| !name.is_blank());
    let Some(name) = name else {
        let name = format!("step_{}", index + 1);
        let severity = match reading.findings.strength() {
            Strength::Lenient => Severity::Warning,
            Strength::Strict => Severity::Error,
        };
        reading
            .missing(element, path, "name")
            .with_severity(severity)
            .suggest(format!("write <{} name=\"{name}\">", element.name));
        return name;
    };
    if !name
        .value
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    {
        let message = format!(
            "step `{}` cannot be referred to by a placeholder",
            shown(&name.value)
        );
        reading
            .report(
                Code::NamingConvention,
                name.offset_at(0),
                join(path, "name"),
                message,
            )
            .suggest("use letters, digits and `_`");
    }
    name.value
}

fn read_element_name(
    element: &Element,
    repeats: bool,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Option<String> {
    let name = element
        .attribute("as")
        .map(|it| it.value.value.trim().to_owned())
        .filter(|name| !name.is_empty());
    if name.is_some() && !repeats {
        reading
            .missing(element, path, "foreach")
            .suggest("`as` names the element of a `foreach`; add one or remove `as`");
    }
    repeats.then(|| name.unwrap_or_else(|| "item".to_owned()))
}

/// Reads the description, and what the step does with the position of each part: one thing, except where
/// other programs write several calls into one step.
fn read_actions(
    element: &Element,
    path: &str,
    index: usize,
    repeats: bool,
    reading: &mut DirectiveReading<'_>,
) -> (String, Vec<(StepAction, usize)>) {
    let described = element
        .child("description")
        .map(|it| reading.text(it, &join(path, "description")).trimmed());
    let described = described.or_else(|| {
        element
            .attribute("description")
            .map(|it| it.value.trimmed())
    });
    let description = described
        .as_ref()
        .map(|text| text.value.clone())
        .unwrap_or_default();

    let actions: Vec<&Element> = element
        .children()
        .filter(|child| child.name == "action")
        .collect();
    let wrapped = actions.iter().filter(|it| action::is_only_calls(it));
    let mut executables: Vec<&Element> = action::calls(element)
        .chain(wrapped.flat_map(|it| action::calls(it)))
        .collect();
    executables.sort_by_key(|it| it.span.start);
    let prose: Vec<&Element> = actions
        .iter()
        .copied()
        .filter(|it| !action::is_only_calls(it))
        .collect();
    let second_prose = prose.get(1).filter(|_| executables.is_empty());
    if let Some(second) = executables.get(1).or(second_prose) {
        // The calls for one element of a list belong together, so they cannot be taken apart.
        let is_lenient = reading.findings.strength() == Strength::Lenient;
        let finding = report_second(second, path, reading);
        if is_lenient && executables.len() > 1 && !repeats {
            finding.with_severity(Severity::Warning);
            finding.message.push_str("; each call becomes a step");
        } else {
            executables.truncate(1);
        }
    }
    let acted = prose
        .first()
        .map(|first| reading.text(first, &join(path, "action")).unframed())
        .unwrap_or_default();
    let instructions = action::instructions(element, path, reading);
    for text in [&acted, &instructions] {
        reading.uses(text, UseKind::Template, join(path, "action"));
    }
    if !executables.is_empty() {
        let description = joined([&*description, &*acted.value, &*instructions.value]);
        let mut read = Vec::new();
        for (at, call) in executables.into_iter().enumerate() {
            reading.scope.earlier = index + at;
            read.push((action::read(call, element, path, reading), call.span.start));
        }
        return (description, read);
    }
    // Other programs have elements of their own for parts of the work: the agent gets each as written.
    let others: Vec<String> = element
        .children()
        .filter(|child| !ELEMENTS.contains(&&*child.name) && !child.is_opaque())
        .map(|child| {
            let written = child.written(reading.text);
            reading.uses(&written, UseKind::Template, join(path, &child.name));
            written.value
        })
        .collect();
    let mut instruction = joined([&*acted.value, &*instructions.value]);
    if instruction.is_empty() {
        let described = described.unwrap_or_default();
        reading.uses(&described, UseKind::Template, join(path, "action"));
        instruction = described.value;
    }
    instruction = joined([&*instruction, &*others.join("\n\n")]);
    let opaque = element.children().filter(|child| child.is_opaque());
    let quoted: Vec<String> = opaque
        .map(|child| {
            reading
                .text
                .get(child.span.clone())
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    if instruction.trim().is_empty() && quoted.is_empty() {
        reading.report(Code::AmbiguousStep, element.span.start, path, "the step does nothing").suggest(
            "add <action>…</action>, <execute item_type=\"tool\" item_id=\"…\"/> or <checkpoint operation=\"…\"/>",
        );
    }
    let work = StepAction::Prose {
        instruction,
        quoted,
    };
    (description, vec![(work, element.span.start)])
}

fn report_second<'f>(
    second: &Element,
    path: &str,
    reading: &'f mut DirectiveReading<'_>,
) -> &'f mut Finding {
    let message = format!(
        "a step does one thing, and `<{}>` is a second one",
        second.name
    );
    reading
        .report(Code::AmbiguousStep, second.span.start, path, message)
        .suggest("put it into a step of its own")
}

/// Joins the non-blank parts as paragraphs.
fn joined<const N: usize>(parts: [&str; N]) -> String {
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect();
    parts.join("\n\n")
}

fn read_verification(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Vec<String> {
    let mut checks = Vec::new();
    for verification in element
        .children()
        .filter(|child| child.name == "verification")
    {
        let path = join(path, "verification");
        for line in verification.own_text().lines() {
            reading.uses(&line, UseKind::Template, &*path);
            checks.push(line.value);
        }
        for child in verification.children() {
            if child.name == "check" {
                let check = reading.text(child, &path).trimmed();
                reading.uses(&check, UseKind::Template, &*path);
                checks.push(check.value);
            } else {
                reading.keep_unknown(child, &path, &["check"]);
            }
        }
    }
    checks.retain(|check| !check.is_empty());
    checks
}

fn read_on_failure(
    text: &XmlText,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Option<OnFailure> {
    choice(reading, text, &join(path, "on_failure"), &ON_FAILURE)
}

/// Reads `retry="3"`, `retry="count=3 backoff=2"`, `retry="3" backoff="2"` or `<retry count backoff/>`.
fn read_retry(element: &Element, path: &str, reading: &mut DirectiveReading<'_>) -> Option<Retry> {
    let path = join(path, "retry");
    let (count, backoff) = if let Some(child) = element.child("retry") {
        reading.check_attributes(child, &path, &["count", "backoff"]);
        let count = child
            .attribute("count")
            .map_or_else(|| child.own_text().trimmed(), |it| it.value.clone());
        (count, child.attribute("backoff").map(|it| it.value.clone()))
    } else if let Some(attribute) = element.attribute("retry") {
        let (count, backoff) = split_retry(&attribute.value);
        (
            count,
            backoff.or_else(|| element.attribute("backoff").map(|it| it.value.clone())),
        )
    } else {
        if element.attribute("backoff").is_some() {
            reading.missing(element, path.trim_end_matches(".retry"), "retry");
        }
        return None;
    };
    let backoff = match backoff {
        None => 0.0,
        Some(text) => {
            let value = Some(0.0)
                .filter(|_| text.value.trim() == "0")
                .or_else(|| parse_seconds(text.value.trim()));
            let Some(value) = value.filter(|value| *value <= MAX_BACKOFF) else {
                let message = format!("`{}` is not a time to wait", shown(&text.value));
                reading
                    .report(
                        Code::InvalidType,
                        text.offset_at(0),
                        join(&path, "backoff"),
                        message,
                    )
                    .suggest(
                        "write seconds, or a number with `ms`, `s`, `m` or `h`, at most a day",
                    );
                return None;
            };
            value
        }
    };
    match count.value.trim().parse::<u32>() {
        Ok(count) if count <= 1000 => Some(Retry { count, backoff }),
        _ => {
            let message = format!("`{}` is not a number of repetitions", shown(&count.value));
            reading
                .report(Code::InvalidType, count.offset_at(0), path, message)
                .suggest("write a whole number up to 1000, e.g. retry=\"3\" backoff=\"2\"");
            None
        }
    }
}

fn split_retry(text: &XmlText) -> (XmlText, Option<XmlText>) {
    let mut count = text.trimmed();
    let mut backoff = None;
    let mut at = 0;
    for word in text.value.split([' ', ',', ';']) {
        let value = |prefix: &str| {
            word.strip_prefix(prefix)
                .map(|value| text.slice(at + prefix.len()..at + prefix.len() + value.len()))
        };
        if let Some(value) = value("count=") {
            count = value;
        } else if let Some(value) = value("backoff=") {
            backoff = Some(value);
        }
        at += word.len() + 1;
    }
    (count, backoff)
}
