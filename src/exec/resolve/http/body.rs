//! The body of a request.
//!
//! `body` or `payload` may be a mapping or a list, filled in at every depth: a text that is just
//! one placeholder becomes the parameter with its type. A text is a template of the content type:
//! values inside JSON and forms are escaped, so that no value can add a field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::RequestBuilder;
use super::address::encoded;
use super::fields::Headers;
use crate::exec::invocation::MaskedText;
use crate::exec::resolve::as_text;
use crate::exec::resolve::error::ResolveError;
use crate::exec::resolve::placeholder::PlaceholderValue;
use crate::exec::resolve::settings::{SettingData, ToolSetting};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const TEXT: &str = "text/plain; charset=utf-8";

/// A body and its default content type.
#[derive(Debug)]
pub(super) struct ResolvedBody {
    pub(super) text: MaskedText,
    pub(super) kind: &'static str,
}

/// Whether a text is exactly one parameter.
enum WholeParameter {
    Given(Value),
    /// The parameter was not given.
    Missing,
    No,
}

/// A value with placeholders filled in, and the same without secrets.
struct Both {
    value: Value,
    shown: Value,
}

impl RequestBuilder<'_, '_> {
    /// The `body` setting, or else `payload`.
    pub(super) fn body(
        &mut self,
        method: &str,
        headers: &Headers,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<Option<ResolvedBody>, ResolveError> {
        let found = ["body", "payload"]
            .iter()
            .find_map(|key| Some((format!("config.{key}"), self.find(key)?)));
        let Some((field, setting)) = found else {
            return Ok(None);
        };
        if method == "HEAD" {
            let hint = "remove it, or use another method";
            return Err(setting.error(&field, "is sent by no request whose method is HEAD", hint));
        }
        let kind = headers.content_type();
        let content = match &setting.data {
            SettingData::Scalar(Value::String(template)) => {
                self.text(template, &field, setting, kind)?
            }
            _ => self
                .value(setting, &field)?
                .map(|both| of_value(&both.value, &both.shown, kind)),
        };
        if content.is_some() {
            origins.insert("action.body".to_owned(), setting.source.describe());
        }
        Ok(content)
    }

    fn text(
        &mut self,
        template: &str,
        field: &str,
        setting: &ToolSetting<'_>,
        kind: Option<&str>,
    ) -> Result<Option<ResolvedBody>, ResolveError> {
        match self.whole(template) {
            WholeParameter::Given(Value::String(text)) => {
                return Ok(Some(ResolvedBody {
                    text: MaskedText::plain(text),
                    kind: TEXT,
                }));
            }
            WholeParameter::Given(value) => return Ok(Some(of_value(&value, &value, kind))),
            WholeParameter::Missing => return Ok(None),
            WholeParameter::No => {}
        }
        let begins = template.trim_start();
        let is_json = kind.map_or_else(|| begins.starts_with(['{', '[']), is_json);
        let is_form = kind.is_some_and(is_form);
        let encoded_secrets = &mut self.encoded_secrets;
        let filled =
            self.words
                .fill_with(template, field, &setting.source, &mut |before, given| {
                    let text = match () {
                        () if is_json => in_json(before, given),
                        () if is_form => encoded(&given.text()),
                        () => given.text(),
                    };
                    if matches!(given, PlaceholderValue::Variable(..)) {
                        encoded_secrets.push(text.clone());
                    }
                    Ok(text)
                })?;
        let Some(filled) = filled else {
            return Ok(None);
        };
        self.used.add(&filled);
        if is_json && let Err(err) = serde_json::from_str::<Value>(&filled.text.value) {
            let hint = "write the body as a mapping: then it is always JSON";
            return Err(setting.error(
                field,
                format!("is not JSON once it is filled in: {err}"),
                hint,
            ));
        }
        Ok(Some(ResolvedBody {
            text: filled.text,
            kind: if is_json { JSON } else { TEXT },
        }))
    }

    /// The parameter, if the text is exactly one placeholder.
    fn whole(&mut self, template: &str) -> WholeParameter {
        let Some(name) = template
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        else {
            return WholeParameter::No;
        };
        let is_declared = self
            .words
            .manifest
            .parameters
            .iter()
            .any(|parameter| parameter.name == name);
        match self.words.parameters.get(name) {
            Some(value) if !value.is_null() => {
                self.used.parameters.insert(name.to_owned());
                WholeParameter::Given(value.clone())
            }
            Some(_) => WholeParameter::Missing,
            None if is_declared => WholeParameter::Missing,
            None => WholeParameter::No,
        }
    }

    /// A value filled in at every depth; `None` when it is a parameter that was not given.
    fn value(
        &mut self,
        setting: &ToolSetting<'_>,
        field: &str,
    ) -> Result<Option<Both>, ResolveError> {
        let both = match &setting.data {
            SettingData::Map(entries) => {
                let (mut value, mut shown) = (Map::new(), Map::new());
                for (key, entry) in entries {
                    if let Some(both) = self.value(entry, &format!("{field}.{key}"))? {
                        value.insert(key.clone(), both.value);
                        shown.insert(key.clone(), both.shown);
                    }
                }
                Both {
                    value: Value::Object(value),
                    shown: Value::Object(shown),
                }
            }
            SettingData::List(elements) => {
                let (mut value, mut shown) = (Vec::new(), Vec::new());
                for (at, element) in elements.iter().enumerate() {
                    if let Some(both) = self.value(element, &format!("{field}[{at}]"))? {
                        value.push(both.value);
                        shown.push(both.shown);
                    }
                }
                Both {
                    value: Value::Array(value),
                    shown: Value::Array(shown),
                }
            }
            SettingData::Scalar(Value::String(template)) => {
                match self.whole(template) {
                    WholeParameter::Given(value) => {
                        return Ok(Some(Both {
                            shown: value.clone(),
                            value,
                        }));
                    }
                    WholeParameter::Missing => return Ok(None),
                    WholeParameter::No => {}
                }
                let Some(filled) = self.words.fill(template, field, &setting.source)? else {
                    return Ok(None);
                };
                self.used.add(&filled);
                let shown = Value::from(filled.text.shown());
                Both {
                    value: Value::from(filled.text.value),
                    shown,
                }
            }
            SettingData::Scalar(scalar) => Both {
                value: scalar.clone(),
                shown: scalar.clone(),
            },
        };
        Ok(Some(both))
    }
}

/// The value as JSON, or as a form if the content type says so.
pub(super) fn of_value(value: &Value, shown: &Value, kind: Option<&str>) -> ResolvedBody {
    let written = |value: &Value| match value {
        Value::Object(fields) if kind.is_some_and(is_form) => form(fields),
        Value::String(text) if !kind.is_none_or(is_json) => text.clone(),
        value => value.to_string(),
    };
    let (text, told) = (written(value), written(shown));
    let text = if text == told {
        MaskedText::plain(text)
    } else {
        MaskedText::partly_secret(text, told)
    };
    ResolvedBody {
        text,
        kind: if kind.is_some_and(is_form) {
            FORM
        } else {
            JSON
        },
    }
}

fn form(fields: &Map<String, Value>) -> String {
    let mut pairs = Vec::new();
    for (name, value) in fields {
        let single = std::slice::from_ref(value);
        let values = value.as_array().map_or(single, Vec::as_slice);
        for value in values.iter().filter(|value| !value.is_null()) {
            pairs.push(format!("{}={}", encoded(name), encoded(&as_text(value))));
        }
    }
    pairs.join("&")
}

fn is_json(kind: &str) -> bool {
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    kind == JSON || kind.ends_with("+json") || kind.ends_with("/json")
}

fn is_form(kind: &str) -> bool {
    kind.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case(FORM)
}

/// The value inside JSON: escaped within a string, otherwise a complete value.
fn in_json(before: &str, given: PlaceholderValue<'_>) -> String {
    let (mut is_inside, mut is_escaped) = (false, false);
    for byte in before.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_inside => is_escaped = true,
            b'"' => is_inside = !is_inside,
            _ => {}
        }
    }
    if is_inside {
        let quoted = Value::from(given.text()).to_string();
        return quoted
            .get(1..quoted.len() - 1)
            .unwrap_or_default()
            .to_owned();
    }
    match given {
        PlaceholderValue::Parameter(value) => value.to_string(),
        PlaceholderValue::Variable(text) => Value::from(text).to_string(),
    }
}
