//! What validation has to say about a file.
//!
//! A [`Finding`] is one complaint with a stable [`Code`], a place and, where
//! possible, a way out. [`Findings`] collects those of one file; rules never stop at the first.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::position::Position;
use crate::problem::{Code, CodeLevel, Hint};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The item cannot be used as it is.
    Error,
    /// The item works, but something about it deserves attention.
    Warning,
}

/// How closely the letter of the specification is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strength {
    /// What files in the wild do is accepted with a warning.
    #[default]
    Lenient,
    /// Deviations that are tolerated otherwise are errors.
    Strict,
}

/// One complaint about one place in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The stable code; each has a section in `docs/reference/codes.md`.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The file, relative to the project where it lies inside.
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    /// The line, starting at 1.
    pub line: u32,
    /// The column in characters, starting at 1.
    pub column: u32,
    /// The field, e.g. `config.method` or `process.step[2].execute`; empty for the whole file.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub suggestion: Option<Hint>,
}

/// Collects the findings of one file.
#[derive(Clone, Debug)]
pub struct Findings {
    file: PathBuf,
    strength: Strength,
    list: Vec<Finding>,
}

impl Findings {
    /// Starts an empty collection for a file.
    pub fn new(file: &Path, strength: Strength) -> Self {
        Self {
            file: file.to_path_buf(),
            strength,
            list: Vec::new(),
        }
    }

    /// The file the findings are about.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The strength that was asked for; rules that differ by more than severity look at it.
    pub fn strength(&self) -> Strength {
        self.strength
    }

    /// Adds a finding with the severity its code has.
    pub fn add(
        &mut self,
        code: Code,
        place: Position,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Finding {
        let severity = match (code.level(), self.strength) {
            (CodeLevel::Warning, _) | (CodeLevel::ErrorWhenStrict, Strength::Lenient) => {
                Severity::Warning
            }
            (CodeLevel::Error | CodeLevel::RunTime, _)
            | (CodeLevel::ErrorWhenStrict, Strength::Strict) => Severity::Error,
        };
        self.list.push(Finding {
            code,
            severity,
            file: self.file.clone(),
            line: place.line.max(1),
            column: place.column.max(1),
            path: path.into(),
            message: message.into(),
            suggestion: None,
        });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Takes over findings made elsewhere.
    pub fn extend(&mut self, others: impl IntoIterator<Item = Finding>) {
        self.list.extend(others);
    }

    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.list
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// The findings so far.
    pub fn as_slice(&self) -> &[Finding] {
        &self.list
    }

    /// Hands the findings over.
    pub fn into_vec(self) -> Vec<Finding> {
        self.list
    }
}

impl Finding {
    /// Adds the way out.
    pub fn suggest(&mut self, suggestion: impl Into<Hint>) -> &mut Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Overrides the severity for the few rules whose severity depends on the case.
    pub fn with_severity(&mut self, severity: Severity) -> &mut Self {
        self.severity = severity;
        self
    }
}

/// Writes a path for a reader; bytes that are no text do not make the whole report fail.
pub fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
