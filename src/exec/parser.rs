//! Parsers: turn output or file content into JSON.
//!
//! A file `.ai/parsers/NAME.py` with `parse(content)` comes first, searched in the project, the
//! working folder and the user's home; then the built-in ones: `text`, `json`, `jsonl`, `yaml`,
//! `csv` and `frontmatter`. An unknown name falls back to `text` with a warning.

mod builtin;
mod custom;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::call::{CallError, Machine, Starter};
use super::invocation::MaskedText;
use crate::item::wording::shown;

/// What a custom parser needs to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParserEnvironment<'s> {
    pub(super) machine: &'s Machine,
    /// The variables of the tool; a parser gets only those without secrets.
    pub(super) environment: &'s BTreeMap<String, MaskedText>,
    /// Where its file is searched.
    pub(super) folders: [Option<&'s Path>; 3],
}

/// Whether a name means a parser of the project or user.
pub(super) fn is_custom(name: &str, folders: [Option<&Path>; 3]) -> bool {
    !matches!(custom::find_in(name, folders), Ok(None))
}

/// The file of a custom parser, searched in these folders.
pub(super) fn file_of(name: &str, folders: [Option<&Path>; 3]) -> Option<PathBuf> {
    custom::find_in(name, folders).ok().flatten()
}

pub(super) fn parse(
    name: &str,
    content: &str,
    source: ParserEnvironment<'_>,
    starter: &mut Starter<'_>,
    warnings: &mut Vec<String>,
) -> Result<Value, CallError> {
    let failed = |reason| CallError::Parser {
        parser: name.to_owned(),
        reason,
    };
    if let Some(file) = custom::find_in(name, source.folders).map_err(failed)? {
        return custom::run(name, &file, content, source, starter);
    }
    let parsed = builtin::parse(name, content).unwrap_or_else(|| {
        warnings.push(format!(
            "there is no parser `{}`; the output was taken as text",
            shown(name)
        ));
        Ok(builtin::text(content))
    });
    parsed.map_err(failed)
}
