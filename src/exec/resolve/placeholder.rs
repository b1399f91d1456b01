//! `{parameter}` and `${VARIABLE}` in settings.
//!
//! Each text is read once, from left to right. Inserted values are never read again, so a caller's
//! value may contain braces. `{{` and `}}` are plain braces, `${NAME:-default}` has a default, and
//! a brace that begins no name is itself. A placeholder without a value is an error.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::environment::is_public;
use super::error::ResolveError;
use super::settings::SettingOrigin;
use super::surroundings::Surroundings;
use super::{CallEnvironment, as_text};
use crate::exec::invocation::MaskedText;
use crate::item::params::ParamProblem;
use crate::item::store::Layer;
use crate::item::tool::ToolManifest;
use crate::item::wording::{did_you_mean, nearest};

/// The values of placeholders in one call.
#[derive(Debug)]
pub(super) struct Vocabulary<'c> {
    pub(super) manifest: &'c ToolManifest,
    pub(super) parameters: &'c Map<String, Value>,
    pub(super) around: &'c CallEnvironment,
    pub(super) script: Option<String>,
    pub(super) tool_dir: String,
    pub(super) surroundings: Surroundings,
}

/// A text with its placeholders filled in.
#[derive(Clone, Debug, Default)]
pub(super) struct FilledText {
    pub(super) text: MaskedText,
    /// The inserted parameters.
    pub(super) parameters: Vec<String>,
    /// The inserted variables.
    pub(super) variables: Vec<String>,
    pub(super) script: bool,
    /// Describes the placeholder if the text is exactly one.
    whole: Option<String>,
    /// The text parameter that it begins with.
    pub(super) leading: Option<String>,
}

impl FilledText {
    pub(super) fn origin(&self, source: &SettingOrigin<'_>) -> String {
        self.whole.clone().unwrap_or_else(|| source.describe())
    }

    /// Whether a built-in tool gave the text.
    pub(super) fn is_built_in(&self, source: &SettingOrigin<'_>) -> bool {
        self.whole.is_none() && source.link.layer == Layer::Builtin
    }
}

/// What all placeholders of a call have used.
#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) parameters: BTreeSet<String>,
    pub(super) variables: BTreeSet<String>,
    pub(super) script: bool,
}

impl Used {
    pub(super) fn add(&mut self, filled: &FilledText) {
        self.parameters.extend(filled.parameters.iter().cloned());
        self.variables.extend(filled.variables.iter().cloned());
        self.script |= filled.script;
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Literal(&'t str),
    Parameter(&'t str),
    Variable {
        name: &'t str,
        default: Option<&'t str>,
    },
    Malformed(&'t str),
}

/// A value that is about to be inserted.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlaceholderValue<'g> {
    Parameter(&'g Value),
    /// From the environment, or a default.
    Variable(&'g str),
}

impl PlaceholderValue<'_> {
    /// The value as text; lists and objects as JSON.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Parameter(value) => as_text(value),
            Self::Variable(value) => (*value).to_owned(),
        }
    }
}

/// Formats a value for its position, given the text before it; an error says why it does not fit.
pub(super) type Put<'p> = dyn FnMut(&str, PlaceholderValue<'_>) -> Result<String, String> + 'p;

impl Vocabulary<'_> {
    /// Fills in all placeholders; `None` for a text that is exactly one parameter which was not
    /// given.
    pub(super) fn fill(
        &self,
        text: &str,
        field: &str,
        source: &SettingOrigin<'_>,
    ) -> Result<Option<FilledText>, ResolveError> {
        self.fill_with(text, field, source, &mut |_, given| Ok(given.text()))
    }

    /// Like [`Vocabulary::fill`], with values formatted for their position.
    pub(super) fn fill_with(
        &self,
        text: &str,
        field: &str,
        source: &SettingOrigin<'_>,
        put: &mut Put<'_>,
    ) -> Result<Option<FilledText>, ResolveError> {
        let wrong = |name: &str, reason: String| ResolveError::Parameters {
            id: self.manifest.tool_id.clone(),
            problems: vec![ParamProblem {
                pointer: format!("/{name}"),
                message: format!("parameter `{name}` {reason}"),
                suggestion: Some(format!("give another value; it is used in `{field}`")),
            }],
        };
        let fault = |placeholder: String, reason: &str, hint: String| ResolveError::Placeholder {
            placeholder,
            field: field.to_owned(),
            reason: reason.to_owned(),
            hint,
            at: Box::new(source.origin()),
        };
        let pieces = pieces(text);
        let alone = pieces.len() == 1;
        let mut filled = FilledText::default();
        for (at, piece) in pieces.iter().enumerate() {
            match *piece {
                Piece::Literal(literal) => filled.text.push(&MaskedText::plain(literal)),
                Piece::Malformed(written) => {
                    let hint =
                        "write `${NAME}` or `${NAME:-default}`; `${{` is a plain `${`".to_owned();
                    return Err(fault(written.to_owned(), "is not a placeholder", hint));
                }
                Piece::Variable { name, .. }
                    if let Some(program) = self.surroundings.interpreters.get(name) =>
                {
                    let value = put(&filled.text.value, PlaceholderValue::Variable(program))
                        .map_err(|reason| wrong(name, reason))?;
                    filled.text.push(&MaskedText::plain(value));
                }
                Piece::Variable { name, default } => {
                    filled.variables.push(name.to_owned());
                    let text = self.variable(name, default).map_err(|reason| {
                        fault(
                            format!("${{{name}}}"),
                            reason,
                            format!("set `{name}`, or write `${{{name}:-default}}`"),
                        )
                    })?;
                    let value = put(&filled.text.value, PlaceholderValue::Variable(&text.value))
                        .map_err(|reason| {
                            fault(
                                format!("${{{name}}}"),
                                &reason,
                                format!("set `{name}` to another value"),
                            )
                        })?;
                    filled.text.push(&if text.has_secret() {
                        MaskedText::secret(value)
                    } else {
                        MaskedText::plain(value)
                    });
                    filled.whole = alone.then(|| format!("environment variable {name}"));
                }
                Piece::Parameter(name) => {
                    let given = self.parameters.get(name).filter(|value| !value.is_null());
                    let known;
                    let value = match given {
                        Some(value) => {
                            filled.parameters.push(name.to_owned());
                            if at == 0 && !value.is_number() {
                                filled.leading = Some(name.to_owned());
                            }
                            filled.whole = alone.then(|| format!("parameter {name}"));
                            value
                        }
                        None if self.declares(name) && alone => return Ok(None),
                        None if self.declares(name) => {
                            let hint = "give it, or give it a default in the tool".to_owned();
                            return Err(fault(
                                format!("{{{name}}}"),
                                "is a parameter that was not given",
                                hint,
                            ));
                        }
                        None => {
                            let Some(word) = self.known_word(name) else {
                                return Err(self.unknown(name, &fault));
                            };
                            filled.script |= is_script(name);
                            known = Value::String(word);
                            &known
                        }
                    };
                    let text = put(&filled.text.value, PlaceholderValue::Parameter(value))
                        .map_err(|reason| wrong(name, reason))?;
                    filled.text.push(&MaskedText::plain(text));
                }
            }
        }
        Ok(Some(filled))
    }

    /// Whether a parameter can be any text, unlike numbers and booleans.
    pub(super) fn is_text(&self, name: &str) -> bool {
        self.parameters
            .get(name)
            .is_some_and(|value| !value.is_number() && !value.is_boolean())
    }

    fn declares(&self, name: &str) -> bool {
        self.manifest
            .parameters
            .iter()
            .any(|parameter| parameter.name == name)
            || self.parameters.contains_key(name)
    }

    fn variable(&self, name: &str, default: Option<&str>) -> Result<MaskedText, &'static str> {
        match (
            self.around.environment.get(std::ffi::OsStr::new(name)),
            default,
        ) {
            // As in a shell, the default also replaces an empty value.
            (Some(value), Some(default)) if value.is_empty() => Ok(MaskedText::plain(default)),
            (None, Some(default)) => Ok(MaskedText::plain(default)),
            (None, None) => Err("is a variable that is not set"),
            (Some(value), _) => {
                let value = value
                    .to_str()
                    .ok_or("is a variable whose value is not valid Unicode")?;
                Ok(if is_public(name) {
                    MaskedText::plain(value)
                } else {
                    MaskedText::secret(value)
                })
            }
        }
    }

    fn known_word(&self, name: &str) -> Option<String> {
        match name {
            name if is_script(name) => self.script.clone(),
            "params_json" => serde_json::to_string(self.parameters).ok(),
            "project_path" => self.around.root.to_str().map(str::to_owned),
            "tool_dir" => Some(self.tool_dir.clone()),
            "tool_parent" => {
                let parent = Path::new(&self.tool_dir).parent()?;
                parent.to_str().map(str::to_owned)
            }
            "user_space" => {
                let home = self.around.home.as_deref()?.join(".ai");
                home.to_str().map(str::to_owned)
            }
            name => self.surroundings.folders.get(name).cloned(),
        }
    }

    fn unknown(
        &self,
        name: &str,
        fault: &impl Fn(String, &str, String) -> ResolveError,
    ) -> ResolveError {
        let written = format!("{{{name}}}");
        if is_script(name) {
            return fault(
                written,
                "stands for a script, and this tool has none",
                "add `config.entrypoint`".to_owned(),
            );
        }
        let known = self
            .manifest
            .parameters
            .iter()
            .map(|parameter| parameter.name.as_str());
        let known = known.chain(self.parameters.keys().map(String::as_str));
        let known = known.chain(["entrypoint", "params_json", "project_path", "tool_dir"]);
        let meant = nearest(name, known).map(|name| format!("{{{name}}}"));
        let otherwise =
            format!("declare a parameter of that name, or write `{{{{{name}}}}}` for plain braces");
        fault(
            written,
            "is not a parameter of the tool",
            did_you_mean(meant.as_deref(), &otherwise),
        )
    }
}

fn is_script(name: &str) -> bool {
    matches!(name, "entrypoint" | "tool_path" | "script")
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut doubled = 0_usize;
    while let Some(at) = rest.find(['{', '}', '$']) {
        let (before, from) = rest.split_at(at);
        let (piece, length) = match () {
            () if from.starts_with("{{") => {
                doubled += 1;
                (Piece::Literal("{"), 2)
            }
            // Without an opening counterpart it belongs to something else, such as JSON.
            () if from.starts_with("}}") && doubled > 0 => {
                doubled -= 1;
                (Piece::Literal("}"), 2)
            }
            () if from.starts_with("${") && !from.starts_with("${{") => variable(from),
            () => match from.strip_prefix('{').and_then(name) {
                Some(name) => (Piece::Parameter(name), name.len() + 2),
                None => (Piece::Literal(from.get(..1).unwrap_or_default()), 1),
            },
        };
        if !before.is_empty() {
            pieces.push(Piece::Literal(before));
        }
        pieces.push(piece);
        rest = from.get(length..).unwrap_or_default();
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    pieces
}

/// The name up to the closing brace, if it is valid.
fn name(after_brace: &str) -> Option<&str> {
    let (name, _) = after_brace.split_once('}')?;
    let first = name.chars().next()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    ((first.is_ascii_alphabetic() || first == '_') && name.chars().all(fits)).then_some(name)
}

fn variable(from: &str) -> (Piece<'_>, usize) {
    let Some((inside, _)) = from
        .strip_prefix("${")
        .and_then(|inside| inside.split_once('}'))
    else {
        return (Piece::Malformed(from), from.len());
    };
    let length = inside.len() + 3;
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        (Piece::Variable { name, default }, length)
    } else {
        (Piece::Malformed(from.get(..length).unwrap_or(from)), length)
    }
}
