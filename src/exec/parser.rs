//! Parsers: raw output or the content of a file into JSON.
//!
//! A file `.ai/parsers/NAME.py` with `parse(content)` comes first, looked for in the project, the
//! working folder and the user's home; then the built-in ones: `text`, `json`, `jsonl`, `yaml`, `csv`
//! and `frontmatter`. A name that nothing has is `text`, with a warning.

mod builtin;
mod custom;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::call::{CallError, Machine, Starter};
use super::invocation::Text;
use crate::item::wording::shown;

/// Where custom parsers come from and run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'s> {
    /// The folders.
    pub(super) machine: &'s Machine,
    /// The variables of the tool; a parser gets those that hold nothing secret.
    pub(super) environment: &'s BTreeMap<String, Text>,
}

/// Whether a name means a parser of the project or user.
pub(super) fn is_custom(name: &str, machine: &Machine) -> bool {
    !matches!(custom::find(name, machine), Ok(None))
}

/// The file of a parser of the project or user, looked for in these folders.
pub(super) fn file_of(name: &str, folders: [Option<&Path>; 3]) -> Option<PathBuf> {
    custom::find_in(name, folders).ok().flatten()
}

/// Parses text with the parser of a name.
pub(super) fn parse(
    name: &str,
    content: &str,
    source: Source<'_>,
    starter: &mut Starter<'_>,
    warnings: &mut Vec<String>,
) -> Result<Value, CallError> {
    let failed = |reason| CallError::Parser { parser: name.to_owned(), reason };
    if let Some(file) = custom::find(name, source.machine).map_err(failed)? {
        return custom::run(name, &file, content, source, starter);
    }
    let parsed = builtin::parse(name, content).unwrap_or_else(|| {
        warnings.push(format!("there is no parser `{}`; the output was taken as text", shown(name)));
        Ok(builtin::text(content))
    });
    parsed.map_err(failed)
}
