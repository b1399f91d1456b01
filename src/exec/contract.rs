//! Checks a result against the promises of the manifest.
//!
//! The schema in the manifest and the one it names in `.ai/schemas/` are both checked, and every
//! problem is reported. A result file must exist in the project.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::call::CallError;
use super::invocation::Invocation;
use crate::item::id::ItemId;
use crate::item::params;
use crate::item::source::{MAX_DOCUMENT, leaves, read_bytes};
use crate::item::wording::shown;

/// The most bytes of a file that a parser gets.
const MAX_FILE: u64 = 16 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Relative to the project.
    pub(super) shown: String,
    path: PathBuf,
}

impl File {
    pub(super) fn content(&self) -> Result<String, CallError> {
        let unread = |reason: String| {
            broken(format!(
                "the file `{}` cannot be read: {reason}",
                shown(&self.shown)
            ))
        };
        let bytes = read_bytes(&self.path, MAX_FILE).map_err(|err| unread(err.to_string()))?;
        String::from_utf8(bytes).map_err(|_| unread("it is not UTF-8".to_owned()))
    }
}

/// Finds the file that a result names by its `path`; it must be in the project.
pub(super) fn file(result: &Map<String, Value>, root: &Path) -> Result<File, CallError> {
    let Some(Value::String(written)) = result.get("path") else {
        return Err(broken(
            "`outputs.format` is `file`, and the result has no `path`".to_owned(),
        ));
    };
    let says = |problem: &str| broken(format!("the file `{}` {problem}", shown(written)));
    let whole = root
        .canonicalize()
        .and_then(|root| Ok((root.join(written).canonicalize()?, root)));
    let Ok((path, root)) = whole else {
        return Err(says("does not exist"));
    };
    let Ok(inside) = path.strip_prefix(&root) else {
        return Err(says("is outside of the project"));
    };
    if !path.is_file() {
        return Err(says("is not a regular file"));
    }
    Ok(File {
        shown: inside.to_string_lossy().into_owned(),
        path,
    })
}

/// Checks a result against the schemas of its tool. A missing named schema is only a warning.
pub(super) fn check(
    value: &Value,
    invocation: &Invocation,
    root: &Path,
    warnings: &mut Vec<String>,
) -> Result<(), CallError> {
    let named = match invocation
        .outputs
        .schema
        .as_deref()
        .map(|name| (name, load_schema(name, root)))
    {
        None => None,
        Some((_, Ok(Some(schema)))) => Some(schema),
        Some((name, Ok(None))) => {
            warnings.push(format!(
                "there is no schema `{}` in `.ai/schemas/`; the result is unchecked",
                shown(name)
            ));
            None
        }
        Some((name, Err(reason))) => {
            return Err(broken(format!(
                "the schema `{}` cannot be used: {reason}",
                shown(name)
            )));
        }
    };
    let schemas = invocation.output_schema.iter().chain(&named);
    let mut problems = Vec::new();
    for problem in schemas.flat_map(|schema| params::check(schema, value)) {
        if !problems.contains(&problem.message) {
            problems.push(problem.message);
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(CallError::Contract { problems })
    }
}

pub(super) fn broken(problem: String) -> CallError {
    CallError::Contract {
        problems: vec![problem],
    }
}

/// The type of a value for messages.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Loads a schema of the project; `None` when it does not exist.
fn load_schema(name: &str, root: &Path) -> Result<Option<Value>, String> {
    let path = root
        .join(".ai")
        .join("schemas")
        .join(format!("{name}.json"));
    // A name with `/` or `..` is invalid.
    if name.parse::<ItemId>().is_err() || !path.exists() {
        return Ok(None);
    }
    if leaves(&path, root) {
        return Err("the link leaves the project".to_owned());
    }
    let bytes = read_bytes(&path, MAX_DOCUMENT).map_err(|err| err.to_string())?;
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|err| err.to_string())
}

#[cfg(test)]
mod tests;
