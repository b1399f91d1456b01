//! The outputs and success criteria of a directive.
//!
//! In `<success>` and `<failure>` a line `name: type` declares and `name: {template}` assigns;
//! other lines are kept as prose.

use super::reading::{DirectiveReading, PlaceholderScope, UseKind, join};
use super::xml::{Element, XmlText};
use super::{DirectiveOutputs, OutputField};

pub(super) fn read(
    element: &Element,
    reading: &mut DirectiveReading<'_>,
    outputs: &mut DirectiveOutputs,
) {
    reading.check_attributes(element, "outputs", &[]);
    // Outputs are evaluated at the end, after every step.
    reading.scope = PlaceholderScope {
        earlier: usize::MAX,
        element: None,
    };
    outputs.prose.extend(
        element
            .own_text()
            .lines()
            .into_iter()
            .map(|line| line.value),
    );
    for child in element.children() {
        match &*child.name {
            "success" => read_fields(
                child,
                "outputs.success",
                reading,
                &mut outputs.success,
                &mut outputs.prose,
            ),
            "failure" => read_fields(
                child,
                "outputs.failure",
                reading,
                &mut outputs.failure,
                &mut outputs.prose,
            ),
            "output" => outputs
                .success
                .extend(read_output(child, "outputs", reading)),
            _ if child.is_opaque() => outputs.prose.push(child.own_text().value),
            _ => reading.keep_unknown(child, "outputs", &["success", "failure", "output"]),
        }
    }
}

pub(super) fn criteria(element: &Element, reading: &mut DirectiveReading<'_>) -> Vec<String> {
    let mut criteria: Vec<String> = element
        .own_text()
        .lines()
        .into_iter()
        .map(|line| line.value)
        .collect();
    for child in element.children() {
        match &*child.name {
            "criterion" | "criteria" | "check" => {
                let text = reading.text(child, "success_criteria").trimmed().value;
                criteria.extend(Some(text).filter(|text| !text.is_empty()));
            }
            _ => reading.keep_unknown(child, "success_criteria", &["criterion"]),
        }
    }
    criteria
}

fn read_fields(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
    fields: &mut Vec<OutputField>,
    prose: &mut Vec<String>,
) {
    for line in element.own_text().lines() {
        match field(&line) {
            Some((name, value)) => {
                reading.uses(&value, UseKind::Template, join(path, &name));
                fields.push(OutputField {
                    name,
                    place: reading.place(line.offset_at(0)),
                    value: value.value,
                });
            }
            None => prose.push(line.value),
        }
    }
    for child in element.children() {
        match &*child.name {
            "output" => fields.extend(read_output(child, path, reading)),
            _ if child.is_opaque() => prose.push(child.own_text().value),
            _ => reading.keep_unknown(child, path, &["output"]),
        }
    }
}

/// Reads `<output name type>`, or `<output name value>`.
fn read_output(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Option<OutputField> {
    reading.check_attributes(
        element,
        path,
        &["name", "type", "value", "description", "required"],
    );
    let name = element
        .attribute("name")
        .map(|it| it.value.value.trim().to_owned())
        .filter(|name| !name.is_empty());
    let Some(name) = name else {
        reading.missing(element, &join(path, "output"), "name");
        return None;
    };
    let value = element
        .attribute("value")
        .or(element.attribute("type"))
        .map(|it| it.value.clone());
    if let Some(value) = &value {
        reading.uses(value, UseKind::Template, join(path, &name));
    }
    let value = value.map_or_else(|| "string".to_owned(), |value| value.value);
    Some(OutputField {
        name,
        value,
        place: reading.place(element.span.start),
    })
}

fn field(line: &XmlText) -> Option<(String, XmlText)> {
    let dash = if line.value.starts_with("- ") { 2 } else { 0 };
    let written = line.value.get(dash..)?;
    let colon = written.find(':')?;
    let name = written.get(..colon)?.trim();
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let value = line.slice(dash + colon + 1..line.value.len()).trimmed();
    (is_name && !value.is_blank()).then(|| (name.to_owned(), value))
}
