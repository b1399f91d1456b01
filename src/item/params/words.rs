//! Values from command-line arguments, each converted to its declared type.

use serde_json::{Map, Value};

use super::{ParamProblem, convert};
use crate::item::directive::Directive;
use crate::item::tool::ToolManifest;
use crate::item::wording::{did_you_mean, nearest, shown};

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

    /// Parses `name=value` arguments; each value is converted to its declared type.
    pub fn from_words<W: AsRef<str>>(
        &self,
        words: &[W],
    ) -> Result<Map<String, Value>, Vec<ParamProblem>> {
        let noun = self.noun;
        let mut values = Map::new();
        let mut problems = Vec::new();
        for word in words.iter().map(AsRef::as_ref) {
            let Some((name, text)) = word.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                problems.push(problem(
                    word,
                    format!("`{}` is not `name=value`", shown(word)),
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
                .find(|(known, _)| *known == name);
            let kind = declared.map_or_else(
                || {
                    problems.extend(self.unknown(name));
                    "string"
                },
                |(_, kind)| kind,
            );
            match convert(text, kind) {
                Ok(value) => {
                    values.insert(name.to_owned(), value);
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
