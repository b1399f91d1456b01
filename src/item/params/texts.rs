//! Texts of parameters, each converted to its declared type.

use serde_json::{Map, Value};

use super::{ParamProblem, convert};
use crate::item::directive::Directive;
use crate::item::tool::ToolManifest;
use crate::item::wording::{did_you_mean, nearest, shown};

/// The text of a parameter, from a command line or a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterText {
    pub name: String,
    /// `None` for an argument that is not `name=value`.
    pub text: Option<String>,
}

impl ParameterText {
    pub fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: Some(text.to_owned()),
        }
    }

    /// Reads arguments of the form `name=value`.
    pub fn of_arguments<W: AsRef<str>>(arguments: &[W]) -> Vec<Self> {
        let read = |argument: &str| match argument.split_once('=') {
            Some((name, text)) if !name.is_empty() => Self::new(name, text),
            _ => Self {
                name: argument.to_owned(),
                text: None,
            },
        };
        arguments.iter().map(|it| read(it.as_ref())).collect()
    }
}

/// What an item declares about its parameters or inputs.
pub struct DeclaredParameters<'d> {
    noun: &'static str,
    /// Names and types.
    names: Vec<(&'d str, &'d str)>,
    /// Names and types that every item of the kind accepts.
    common: &'static [(&'static str, &'static str)],
    schema: &'d Value,
}

impl<'d> DeclaredParameters<'d> {
    pub fn of_tool(manifest: &'d ToolManifest) -> Self {
        let names = manifest
            .parameters
            .iter()
            .map(|it| (it.name.as_str(), it.kind.as_str()))
            .collect();
        Self {
            noun: "parameter",
            names,
            common: &[("timeout", "number")],
            schema: &manifest.input_schema,
        }
    }

    pub fn of_directive(directive: &'d Directive) -> Self {
        let schema = &directive.input_schema;
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut names: Vec<(&str, &str)> = directive
            .inputs
            .iter()
            .map(|it| (&*it.name, &*it.kind))
            .collect();
        for (name, property) in properties.into_iter().flatten() {
            if names.iter().all(|(known, _)| known != name) {
                names.push((
                    name,
                    property
                        .get("type")
                        .and_then(Value::as_str)
                        .unwrap_or("string"),
                ));
            }
        }
        Self {
            noun: "input",
            names,
            common: &[],
            schema,
        }
    }

    /// Whether its schema does not mention undeclared names.
    pub fn is_silent_about_others(&self) -> bool {
        self.schema.get("additionalProperties").is_none()
    }

    /// Converts each text to the declared type.
    pub fn convert(
        &self,
        texts: &[ParameterText],
    ) -> Result<Map<String, Value>, Vec<ParamProblem>> {
        let noun = self.noun;
        let mut values = Map::new();
        let mut problems = Vec::new();
        for ParameterText { name, text } in texts {
            let Some(text) = text else {
                problems.push(problem(
                    name,
                    format!("`{}` is not `name=value`", shown(name)),
                    None,
                ));
                continue;
            };
            if values.contains_key(name) {
                problems.push(problem(
                    name,
                    format!("{noun} `{}` is given twice", shown(name)),
                    None,
                ));
                continue;
            }
            let declared = self
                .names
                .iter()
                .chain(self.common)
                .find(|(known, _)| known == name);
            let kind = declared.map_or_else(
                || {
                    problems.extend(self.unknown(name));
                    "string"
                },
                |(_, kind)| kind,
            );
            match convert(text, kind) {
                Ok(value) => {
                    values.insert(name.clone(), value);
                }
                Err(err) => {
                    let message = format!(
                        "{noun} `{}`: `{}` is not {}",
                        shown(name),
                        shown(&err.text),
                        err.expected
                    );
                    problems.push(problem(name, message, None));
                }
            }
        }
        if problems.is_empty() {
            Ok(values)
        } else {
            Err(problems)
        }
    }

    /// The problem with an undeclared value; `None` when the item accepts any.
    pub fn unknown(&self, name: &str) -> Option<ParamProblem> {
        const OPEN: [&str; 8] = [
            "patternProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "$ref",
            "if",
            "dependentSchemas",
            "not",
        ];
        let takes_any = match self.schema.get("additionalProperties") {
            Some(Value::Bool(takes)) => *takes,
            Some(_) => true,
            // An item that declares nothing accepts everything.
            None => self.names.is_empty() || OPEN.iter().any(|key| self.schema.get(key).is_some()),
        };
        if takes_any
            || self
                .names
                .iter()
                .chain(self.common)
                .any(|(known, _)| *known == name)
        {
            return None;
        }
        let known = self.names.iter().map(|(name, _)| *name);
        let names: Vec<String> = known
            .clone()
            .map(|name| format!("`{}`", shown(name)))
            .collect();
        let otherwise = if names.is_empty() {
            "it takes none".to_owned()
        } else {
            format!("it takes {}", names.join(", "))
        };
        let suggestion = did_you_mean(nearest(name, known), &otherwise);
        Some(problem(
            name,
            format!("unknown {} `{}`", self.noun, shown(name)),
            Some(suggestion),
        ))
    }
}

fn problem(name: &str, message: String, suggestion: Option<String>) -> ParamProblem {
    ParamProblem {
        pointer: format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        message,
        suggestion,
    }
}
