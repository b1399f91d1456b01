//! Checks that a JSON Schema is valid, self-contained and consistent with its defaults.

use jsonschema::meta::MetaValidator;
use jsonschema::{Draft, PatternOptions, ValidationOptions, Validator};
use serde_json::{Map, Value};

use crate::item::wording;
use crate::problem::Code;

use super::survey::SchemaSurvey;
use super::{TIME_LIMIT, bounded, plain};

/// Only patterns with look-around need backtracking; this ends a hostile one within milliseconds.
const BACKTRACK_LIMIT: usize = 50_000;
/// In bytes of a compiled pattern.
const PATTERN_SIZE: usize = 1024 * 1024;
const MAX_PROBLEMS: usize = 20;

/// How much of a schema is examined for the short cut.
const MAX_PLAIN_DEPTH: usize = 16;
const MAX_PLAIN_VALUES: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaProblem {
    /// `INVALID_SCHEMA`, `REMOTE_REFERENCE` or `INVALID_DEFAULT`.
    pub code: Code,
    /// A JSON pointer into the schema.
    pub pointer: String,
    pub message: String,
}

impl SchemaProblem {
    pub(super) fn new(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            pointer: pointer.into(),
            message: message.into(),
        }
    }
}

/// Checks a schema: its own validity, that it refers to nothing outside, and its defaults.
pub fn check_schema(schema: &Value) -> Vec<SchemaProblem> {
    if is_plainly_valid(schema) {
        Vec::new()
    } else {
        check_fully(schema)
    }
}

pub(super) fn is_plainly_valid(schema: &Value) -> bool {
    plain::is_valid(schema, MAX_PLAIN_DEPTH, &mut MAX_PLAIN_VALUES.clone())
}

/// The same without the short cut.
pub(super) fn check_fully(schema: &Value) -> Vec<SchemaProblem> {
    let survey = SchemaSurvey::of(schema);
    if !survey.problems.is_empty() {
        return survey.problems;
    }
    if !survey.needs_bounds() {
        return judge(schema, &survey);
    }
    let owned = schema.clone();
    bounded(Some(TIME_LIMIT), move || {
        judge(&owned, &SchemaSurvey::of(&owned))
    })
    .unwrap_or_else(|| {
        vec![SchemaProblem::new(
            Code::InvalidSchema,
            "",
            "the schema took too long to check",
        )]
    })
}

fn judge(schema: &Value, survey: &SchemaSurvey<'_>) -> Vec<SchemaProblem> {
    let draft = draft_of(schema);
    let mut problems: Vec<SchemaProblem> = meta_errors(draft, schema);
    if !problems.is_empty() {
        problems.truncate(MAX_PROBLEMS);
        return problems;
    }
    match options(draft).build(schema) {
        Ok(_) => wrong_defaults(schema, draft, survey),
        Err(error) => vec![SchemaProblem::new(
            Code::InvalidSchema,
            error.instance_path().as_str(),
            shown(&error),
        )],
    }
}

pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    options(draft_of(schema))
        .build(schema)
        .map_err(|error| shown(&error))
}

fn options<'o>(draft: Draft) -> ValidationOptions<'o> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACK_LIMIT)
        .size_limit(PATTERN_SIZE);
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(patterns)
}

/// The draft that a schema names, or the newest that it matches.
fn draft_of(schema: &Value) -> Draft {
    let id = schema
        .get("$schema")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let named = [
        ("2020-12", Draft::Draft202012),
        ("2019-09", Draft::Draft201909),
        ("draft-07", Draft::Draft7),
        ("draft-06", Draft::Draft6),
        ("draft-04", Draft::Draft4),
    ];
    if let Some((_, draft)) = named.into_iter().find(|(name, _)| id.contains(name)) {
        return draft;
    }
    let newest = Draft::Draft202012;
    if !meta_validator(newest).is_valid(schema) && meta_validator(Draft::Draft7).is_valid(schema) {
        return Draft::Draft7;
    }
    newest
}

fn meta_validator(draft: Draft) -> MetaValidator<'static> {
    match draft {
        Draft::Draft4 => jsonschema::draft4::meta::validator(),
        Draft::Draft6 => jsonschema::draft6::meta::validator(),
        Draft::Draft7 => jsonschema::draft7::meta::validator(),
        Draft::Draft201909 => jsonschema::draft201909::meta::validator(),
        _ => jsonschema::draft202012::meta::validator(),
    }
}

fn meta_errors(draft: Draft, schema: &Value) -> Vec<SchemaProblem> {
    let validator = meta_validator(draft);
    let mut problems: Vec<SchemaProblem> = validator
        .iter_errors(schema)
        .map(|error| {
            SchemaProblem::new(
                Code::InvalidSchema,
                error.instance_path().as_str(),
                error_message(&error),
            )
        })
        .collect();
    problems.dedup();
    problems
}

fn wrong_defaults(schema: &Value, draft: Draft, survey: &SchemaSurvey<'_>) -> Vec<SchemaProblem> {
    let mut by_pointer = None;
    let mut problems = Vec::new();
    for (pointer, subschema) in &survey.defaults {
        let Some(default) = subschema.get("default") else {
            continue;
        };
        let wrong = if refers(subschema) {
            // References are relative to the whole schema, so a part cannot be compiled alone.
            let map = by_pointer.get_or_insert_with(|| options(draft).build_map(schema).ok());
            let found = map.as_ref().and_then(|map| map.get(&format!("#{pointer}")));
            found.and_then(|validator| validator.validate(default).err().map(|error| shown(&error)))
        } else {
            let alone = Value::Object((*subschema).clone());
            let built = options(draft).build(&alone).ok();
            built.and_then(|validator| validator.validate(default).err().map(|error| shown(&error)))
        };
        if let Some(message) = wrong {
            let message = format!("the default does not fit its own schema: {message}");
            problems.push(SchemaProblem::new(
                Code::InvalidDefault,
                format!("{pointer}/default"),
                message,
            ));
        }
    }
    problems.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    problems.truncate(MAX_PROBLEMS);
    problems
}

/// Whether a subschema contains a reference; the depth has been checked.
fn refers(map: &Map<String, Value>) -> bool {
    map.iter().any(|(key, value)| {
        matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") || any_refers(value)
    })
}

fn any_refers(value: &Value) -> bool {
    match value {
        Value::Object(map) => refers(map),
        Value::Array(list) => list.iter().any(any_refers),
        _ => false,
    }
}

/// The meta-schema's message, with clearer text for a wrong type.
fn error_message(error: &jsonschema::ValidationError<'_>) -> String {
    let parent = error
        .instance_path()
        .as_str()
        .strip_suffix("/type")
        .map(|parent| parent.rsplit('/').next());
    // Below these, `type` is a name, not a keyword.
    let is_keyword =
        parent.is_some_and(|name| !matches!(name, Some("properties" | "$defs" | "definitions")));
    match error.instance().as_str() {
        Some(word) if is_keyword => format!("`{}` is not a type", wording::shown(word)),
        _ => shown(error),
    }
}

fn shown(error: &jsonschema::ValidationError<'_>) -> String {
    let text = error.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
