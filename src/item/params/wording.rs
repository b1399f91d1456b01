//! Validation errors in terms of parameters.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::ParamProblem;
use crate::item::wording::nearest;

/// An `enum` may have any number of options.
const MAX_MESSAGE: usize = 300;

/// How messages name the checked value.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueWording {
    whole: &'static str,
    part: &'static str,
}

pub(super) const PARAMETERS: ValueWording = ValueWording {
    whole: "the parameters",
    part: "parameter",
};
pub(super) const INPUTS: ValueWording = ValueWording {
    whole: "the inputs",
    part: "input",
};
pub(super) const RESULT: ValueWording = ValueWording {
    whole: "the result",
    part: "field",
};

/// Translates an error; each unknown parameter is a separate problem.
pub(super) fn problems(
    error: &ValidationError<'_>,
    schema: &Value,
    words: ValueWording,
) -> Vec<ParamProblem> {
    let ValueWording { whole, part } = words;
    let at = error.instance_path().as_str();
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![problem(
                child(at, name),
                format!("missing {part} `{}`", dotted(&child(at, name))),
                None,
            )]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_names(schema, error);
            unexpected
                .iter()
                .map(|name| unknown(at, name, part, &known))
                .collect()
        }
        _ if at.is_empty() => vec![problem(
            String::new(),
            error.masked_with(whole).to_string(),
            None,
        )],
        _ => {
            let name = format!("{part} `{}`", dotted(at));
            vec![problem(
                at.to_owned(),
                error.masked_with(name).to_string(),
                None,
            )]
        }
    }
}

fn unknown(at: &str, name: &str, part: &str, known: &[&str]) -> ParamProblem {
    let pointer = child(at, name);
    let suggestion = nearest(name, known.iter().copied())
        .map(|candidate| format!("did you mean `{candidate}`?"));
    let message = format!("unknown {part} `{}`", dotted(&pointer));
    problem(pointer, message, suggestion)
}

/// The properties declared beside the failed keyword.
fn known_names<'s>(schema: &'s Value, error: &ValidationError<'_>) -> Vec<&'s str> {
    let keyword = error.schema_path().as_str();
    let parent = keyword.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = schema
        .pointer(parent)
        .and_then(|parent| parent.get("properties"))
        .and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .take(200)
        .collect()
}

fn problem(pointer: String, message: String, suggestion: Option<String>) -> ParamProblem {
    let message = match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message,
    };
    ParamProblem {
        pointer,
        message,
        suggestion,
    }
}

fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// `/a/b` as `a.b`.
fn dotted(pointer: &str) -> String {
    let parts = pointer.trim_start_matches('/').split('/');
    parts
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect::<Vec<_>>()
        .join(".")
}
