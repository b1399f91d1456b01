//! Named values: `<param name value/>`, `<param name>text</param>`, or an element per name.

use super::Param;
use super::call::json_fields;
use super::reading::{DirectiveReading, UseKind, join};
use super::xml::{Element, XmlText};
use crate::item::wording::shown;
use crate::problem::Code;

/// Reads the parameters of an element, including those in a nested `<parameters>`.
pub(super) fn read_params(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Vec<Param> {
    let mut params = Vec::new();
    collect(element, path, reading, &mut params);
    params
}

/// Reads the parameters of a call beside elements that mean something else.
pub(super) fn read_params_beside(
    element: &Element,
    path: &str,
    others: &[&str],
    reading: &mut DirectiveReading<'_>,
) -> Vec<Param> {
    let mut params = Vec::new();
    collect_beside(element, path, others, reading, &mut params);
    params
}

/// Adds a parameter unless there is one of the same name.
pub(super) fn add_param(
    params: &mut Vec<Param>,
    name: String,
    value: &XmlText,
    path: &str,
    offset: usize,
    reading: &mut DirectiveReading<'_>,
) {
    let path = join(path, &shown(&name));
    if params.iter().any(|param| param.name == name) {
        reading
            .report(
                Code::DuplicateName,
                offset,
                path,
                format!("parameter `{}` is given twice", shown(&name)),
            )
            .suggest("keep one of the two");
        return;
    }
    reading.uses(value, UseKind::Template, path);
    params.push(Param {
        name,
        value: value.value.clone(),
        place: reading.place(value.offset_at(0)),
    });
}

/// Elements that hold parameters.
const CONTAINERS: [&str; 5] = ["parameters", "params", "inputs", "arguments", "args"];

fn collect(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
    params: &mut Vec<Param>,
) {
    collect_beside(element, path, &[], reading, params);
}

fn collect_beside(
    element: &Element,
    path: &str,
    others: &[&str],
    reading: &mut DirectiveReading<'_>,
    params: &mut Vec<Param>,
) {
    let is_container = CONTAINERS.contains(&&*element.name);
    let text = element.own_text().trimmed();
    if is_container && let Some(fields) = json_fields(&text.value) {
        for (name, value) in fields {
            let value = text.replaced(value);
            add_param(params, name, &value, path, element.span.start, reading);
        }
    }
    for child in element.children() {
        match &*child.name {
            name if others.contains(&name) => {}
            name if CONTAINERS.contains(&name) => collect(child, path, reading, params),
            "param" | "parameter" | "input" => {
                reading.check_attributes(child, path, &["name", "value", "type"]);
                let name = child
                    .attribute("name")
                    .map(|it| it.value.value.trim().to_owned());
                let Some(name) = name.filter(|name| !name.is_empty()) else {
                    reading.missing(child, path, "name");
                    continue;
                };
                let text = reading.text(child, path);
                let value = match child.attribute("value") {
                    Some(attribute) => {
                        if !text.is_blank() {
                            let message =
                                format!("parameter `{}` has a value and a text", shown(&name));
                            reading
                                .report(
                                    Code::ConflictingField,
                                    text.trimmed().offset_at(0),
                                    path,
                                    message,
                                )
                                .suggest("remove the text; the attribute counts");
                        }
                        attribute.value.clone()
                    }
                    None => text.unframed(),
                };
                add_param(params, name, &value, path, child.span.start, reading);
            }
            _ if is_container => {
                let value = reading.text(child, path).unframed();
                add_param(
                    params,
                    child.name.clone(),
                    &value,
                    path,
                    child.span.start,
                    reading,
                );
            }
            _ => reading.keep_unknown(child, path, &["param"]),
        }
    }
}
