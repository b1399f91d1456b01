//! The arguments of a command line.
//!
//! A parameter is always one argument, or one option with its value. Its content cannot add
//! arguments and is never taken for an option.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::error::ResolveError;
use super::placeholder::{Used, Vocabulary};
use super::settings::{SettingData, ToolSetting, ToolSettings};
use super::{MAX_WORD, as_text};
use crate::exec::invocation::MaskedText;
use crate::item::tool::Origin;

/// One argument and its origin.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) text: MaskedText,
    pub(super) origin: String,
    /// The first text from the caller in it.
    pub(super) placed: Option<Box<CallerText>>,
}

/// A text from the caller inside an argument.
#[derive(Clone, Debug)]
pub(super) struct CallerText {
    pub(super) parameter: String,
    /// The setting that contains it.
    pub(super) field: String,
    pub(super) at: Origin,
}

impl Argument {
    pub(super) fn plain(text: impl Into<String>, origin: impl Into<String>) -> Self {
        Self {
            text: MaskedText::plain(text),
            origin: origin.into(),
            placed: None,
        }
    }
}

/// The arguments of `config.args`.
pub(super) fn configured(
    settings: &ToolSettings<'_>,
    words: &Vocabulary<'_>,
    used: &mut Used,
) -> Result<Vec<Argument>, ResolveError> {
    let Some(setting) = settings.find("args") else {
        return Ok(Vec::new());
    };
    let SettingData::List(elements) = &setting.data else {
        return Err(wrong("config.args", setting, "a list"));
    };
    filled(elements, "config.args", words, used)
}

/// The arguments from a setting that is a list, or a text with shell quoting.
///
/// A text is split before placeholders are filled in, so a parameter stays one argument.
pub(super) fn worded(
    setting: &ToolSetting<'_>,
    field: &str,
    words: &Vocabulary<'_>,
    used: &mut Used,
) -> Result<Vec<Argument>, ResolveError> {
    match &setting.data {
        SettingData::List(elements) => filled(elements, field, words, used),
        SettingData::Scalar(Value::String(text)) => {
            let split = shlex::split(text).ok_or_else(|| ResolveError::Setting {
                field: field.to_owned(),
                reason: "ends within quotes".to_owned(),
                hint: format!(
                    "write a list of words: `{}: [PROGRAM, ARGUMENT]`",
                    name_of(field)
                ),
                at: Some(Box::new(setting.source.origin())),
            })?;
            let of_word = |word| ToolSetting {
                data: SettingData::Scalar(Value::String(word)),
                source: setting.source.clone(),
            };
            filled(
                &split.into_iter().map(of_word).collect::<Vec<_>>(),
                field,
                words,
                used,
            )
        }
        _ => Err(wrong(field, setting, "a list of words")),
    }
}

fn name_of(field: &str) -> &str {
    field.rsplit('.').next().unwrap_or(field)
}

fn wrong(field: &str, at: &ToolSetting<'_>, wanted: &str) -> ResolveError {
    let name = name_of(field).split('[').next().unwrap_or(field);
    at.error(
        field,
        format!("is {}; it must be {wanted}", at.type_name()),
        format!("e.g. `{name}: [--verbose, \"{{name}}\"]`"),
    )
}

fn filled(
    elements: &[ToolSetting<'_>],
    list: &str,
    words: &Vocabulary<'_>,
    used: &mut Used,
) -> Result<Vec<Argument>, ResolveError> {
    let mut arguments: Vec<Argument> = Vec::new();
    let mut ended = false;
    for (at, element) in elements.iter().enumerate() {
        let field = format!("{list}[{at}]");
        let argument = match &element.data {
            SettingData::Scalar(Value::String(template)) => {
                let Some(filled) = words.fill(template, &field, &element.source)? else {
                    continue;
                };
                used.add(&filled);
                if let Some(parameter) = &filled.leading
                    && filled.text.value.starts_with('-')
                    && !ended
                {
                    // It is not known whether the option before it takes a value. Joined with `=`,
                    // the text can only be that value.
                    let Some(option) = arguments
                        .last_mut()
                        .filter(|last| is_long_option(&last.text.value))
                    else {
                        let at = Some(Box::new(element.source.origin()));
                        return Err(ResolveError::Dash {
                            parameter: parameter.clone(),
                            field,
                            at,
                        });
                    };
                    option.text.push(&MaskedText::plain("="));
                    option.text.push(&filled.text);
                    option.origin = filled.origin(&element.source);
                    continue;
                }
                ended |= filled.leading.is_none() && filled.text.value == "--";
                let placed = filled
                    .parameters
                    .iter()
                    .find(|name| words.is_text(name))
                    .map(|parameter| {
                        Box::new(CallerText {
                            parameter: parameter.clone(),
                            field,
                            at: element.source.origin(),
                        })
                    });
                Argument {
                    origin: filled.origin(&element.source),
                    text: filled.text,
                    placed,
                }
            }
            SettingData::Scalar(scalar) if !scalar.is_null() => {
                Argument::plain(as_text(scalar), element.source.describe())
            }
            _ => return Err(wrong(&field, element, "a text")),
        };
        arguments.push(argument);
    }
    Ok(arguments)
}

fn is_long_option(word: &str) -> bool {
    word.len() > 2 && word.starts_with("--") && !word.contains('=')
}

/// Parameters as options: `--key value`, or just `--key` for true.
pub(super) fn options(
    parameters: &Map<String, Value>,
    placed: &BTreeSet<String>,
) -> Result<Vec<Argument>, ResolveError> {
    let mut arguments = Vec::new();
    for (name, value) in parameters
        .iter()
        .filter(|(name, _)| !placed.contains(*name))
    {
        let fits = |c: char| !c.is_whitespace() && !c.is_control() && c != '=';
        if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) {
            return Err(ResolveError::OptionName(name.clone()));
        }
        let origin = format!("parameter {name}");
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => arguments.push(Argument::plain(format!("--{name}"), origin)),
            value => {
                let text = as_text(value);
                // As a separate argument it would be taken for an option.
                if text.starts_with('-') {
                    arguments.push(Argument::plain(format!("--{name}={text}"), origin));
                } else {
                    arguments.push(Argument::plain(format!("--{name}"), origin.clone()));
                    arguments.push(Argument::plain(text, origin));
                }
            }
        }
    }
    Ok(arguments)
}

/// Checks that the operating system can pass all of them.
pub(super) fn check(arguments: &[Argument]) -> Result<(), ResolveError> {
    for argument in arguments {
        let what = || match argument.origin.strip_prefix("parameter ") {
            Some(_) => argument.origin.clone(),
            None => format!("an argument ({})", argument.origin),
        };
        if argument.text.value.contains('\0') {
            return Err(ResolveError::Nul { what: what() });
        }
        if argument.text.value.len() + 1 > MAX_WORD {
            return Err(ResolveError::TooLong {
                what: what(),
                limit: MAX_WORD,
            });
        }
    }
    Ok(())
}
