//! Problems that piton reports to a user.
//!
//! [`Code`] identifies every problem, of files and of runs. A [`Problem`] has a code, a message,
//! the place in a file, the causes and a [`Hint`]. Each error type implements [`Explain`], which is
//! the only way from an error to a problem. This module depends on no other, so that all of them
//! can use it.

mod code;
mod hint;

use std::error::Error;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use code::{Code, CodeLevel};
pub(crate) use hint::hint;
pub use hint::{Hint, HintCall};

/// An error that can be reported to a user.
pub trait Explain: Error {
    fn code(&self) -> Code;

    /// How to fix it.
    fn hint(&self) -> Option<Hint> {
        None
    }

    /// The faulty position in a file, if any.
    fn place(&self) -> Option<Origin> {
        None
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    /// The line, starting at 1.
    pub line: u32,
    /// The column, starting at 1.
    pub column: u32,
}

/// A problem, as reported to a user and recorded in the journal.
///
/// On disk and in JSON it is `{code, message, suggestion}`: the message includes the causes, and
/// the hint is the text for the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    message: String,
    /// The faulty position in a file.
    pub place: Option<Box<Origin>>,
    /// How to fix it.
    pub hint: Option<Hint>,
    causes: Vec<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            place: None,
            hint: None,
            causes: Vec::new(),
        }
    }

    /// The problem for an error.
    pub fn of<E: Explain>(err: &E) -> Self {
        let causes = causes_of(err).map(ToString::to_string).collect();
        Self {
            code: err.code(),
            message: err.to_string(),
            place: err.place().map(Box::new),
            hint: err.hint(),
            causes,
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Hint>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn with_hint_of(self, hint: Option<Hint>) -> Self {
        Self { hint, ..self }
    }

    /// Replaces the message and drops the causes.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            ..self
        }
    }

    /// The message with its causes, in one line.
    pub fn message(&self) -> String {
        std::iter::once(&self.message)
            .chain(&self.causes)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(": ")
    }

    /// The message without its causes.
    pub fn summary(&self) -> &str {
        &self.message
    }

    /// The causes, the nearest first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// Changes every text, for example to remove secrets.
    #[must_use]
    pub fn map_texts(self, change: impl Fn(&str) -> String) -> Self {
        let hint = self.hint.map(|hint| hint.map_texts(&change));
        let causes = self.causes.iter().map(|cause| change(cause)).collect();
        Self {
            message: change(&self.message),
            hint,
            causes,
            ..self
        }
    }
}

/// The message of an error with its causes, in one line.
pub fn with_causes(err: &dyn Error) -> String {
    let mut message = err.to_string();
    for cause in causes_of(err) {
        message.push_str(": ");
        message.push_str(&cause.to_string());
    }
    message
}

fn causes_of<'e>(err: &'e (dyn Error + 'e)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(err.source(), |cause: &&'e (dyn Error + 'static)| {
        (*cause).source()
    })
}

#[derive(Serialize, Deserialize)]
struct ProblemRecord<M, H> {
    code: Code,
    message: M,
    suggestion: Option<H>,
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ProblemRecord {
            code: self.code,
            message: self.message(),
            suggestion: self.hint.as_ref(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Problem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ProblemRecord::<String, Hint> {
            code,
            message,
            suggestion,
        } = ProblemRecord::deserialize(deserializer)?;
        Ok(Self {
            hint: suggestion,
            ..Self::new(code, message)
        })
    }
}

fn serialize_path<S: Serializer>(path: &std::path::Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the journal")]
    struct Unreadable(#[source] std::io::Error);

    impl Explain for Unreadable {
        fn code(&self) -> Code {
            Code::JournalFailed
        }

        fn hint(&self) -> Option<Hint> {
            Some(hint!["see ", HintCall::Log])
        }
    }

    #[test]
    fn a_problem_on_disk_has_the_causes_in_its_message() {
        let problem = Problem::of(&Unreadable(std::io::Error::other("the disk is gone")));
        assert_eq!(
            (problem.summary(), problem.causes().len()),
            ("cannot read the journal", 1)
        );
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(
            text,
            r#"{"code":"JOURNAL_FAILED","message":"cannot read the journal: the disk is gone","suggestion":"see `piton log`"}"#
        );
        let read: Problem = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (read.code, &read.hint, read.message()),
            (problem.code, &problem.hint, problem.message())
        );
    }

    #[test]
    fn a_problem_of_a_newer_version_is_read_and_written_as_it_is() {
        let text = r#"{"code":"FROM_THE_FUTURE","message":"it is so","suggestion":null}"#;
        let read: Problem = serde_json::from_str(text).unwrap();
        assert_eq!(read.code.as_str(), "FROM_THE_FUTURE");
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
