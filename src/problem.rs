//! What piton can tell a user that went wrong.
//!
//! [`Code`] names every problem, of files and of runs alike. [`Problem`] is one of them: its code, what happened, the
//! place in a file, the causes and a [`Hint`]. Each error type implements [`Explain`], which is the only way from an
//! error to a problem. This module knows nothing of the others, so that all of them can use it.

mod code;
mod hint;

use std::error::Error;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use code::{Code, Level};
pub(crate) use hint::hint;
pub use hint::{Call, Hint};

/// An error that a user can be told about.
pub trait Explain: Error {
    /// The stable code.
    fn code(&self) -> Code;

    /// The way out.
    fn hint(&self) -> Option<Hint> {
        None
    }

    /// The place in a file that is at fault, where there is one.
    fn place(&self) -> Option<Origin> {
        None
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The file.
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    /// The line, starting at 1.
    pub line: u32,
    /// The column, starting at 1.
    pub column: u32,
}

/// What went wrong, as a user is told and as the journal records it.
///
/// On disk and in JSON it is `{code, message, suggestion}`: the causes are a part of the message, the hint is in the
/// words of the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    message: String,
    /// The place in a file that is at fault.
    pub place: Option<Box<Origin>>,
    /// The way out.
    pub hint: Option<Hint>,
    causes: Vec<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), place: None, hint: None, causes: Vec::new() }
    }

    /// The problem that an error is.
    pub fn of<E: Explain>(err: &E) -> Self {
        let causes = causes_of(err).map(ToString::to_string).collect();
        Self { code: err.code(), message: err.to_string(), place: err.place().map(Box::new), hint: err.hint(), causes }
    }

    /// The same with a way out.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Hint>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same with a way out, where there is one.
    #[must_use]
    pub fn with_hint_of(self, hint: Option<Hint>) -> Self {
        Self { hint, ..self }
    }

    /// The same with another message, which stands for the causes as well.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), ..self }
    }

    /// What happened and why, in one line.
    pub fn message(&self) -> String {
        std::iter::once(&self.message).chain(&self.causes).map(String::as_str).collect::<Vec<_>>().join(": ")
    }

    /// What happened, without the causes.
    pub fn summary(&self) -> &str {
        &self.message
    }

    /// What caused it, the nearest cause first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// The same with every text changed, for example to remove secrets.
    #[must_use]
    pub fn map_texts(self, change: impl Fn(&str) -> String) -> Self {
        let hint = self.hint.map(|hint| hint.map_texts(&change));
        let causes = self.causes.iter().map(|cause| change(cause)).collect();
        Self { message: change(&self.message), hint, causes, ..self }
    }
}

/// What happened and why, in one line.
pub fn with_causes(err: &dyn Error) -> String {
    let mut message = err.to_string();
    for cause in causes_of(err) {
        message.push_str(": ");
        message.push_str(&cause.to_string());
    }
    message
}

fn causes_of<'e>(err: &'e (dyn Error + 'e)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(err.source(), |cause: &&'e (dyn Error + 'static)| (*cause).source())
}

/// The fields of a problem on disk.
#[derive(Serialize, Deserialize)]
struct Record<M, H> {
    code: Code,
    message: M,
    suggestion: Option<H>,
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Record { code: self.code, message: self.message(), suggestion: self.hint.as_ref() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Problem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Record::<String, Hint> { code, message, suggestion } = Record::deserialize(deserializer)?;
        Ok(Self { hint: suggestion, ..Self::new(code, message) })
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
            Some(hint!["see ", Call::Log])
        }
    }

    #[test]
    fn a_problem_on_disk_has_the_causes_in_its_message() {
        let problem = Problem::of(&Unreadable(std::io::Error::other("the disk is gone")));
        assert_eq!((problem.summary(), problem.causes().len()), ("cannot read the journal", 1));
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(
            text,
            r#"{"code":"JOURNAL_FAILED","message":"cannot read the journal: the disk is gone","suggestion":"see `piton log`"}"#
        );
        let read: Problem = serde_json::from_str(&text).unwrap();
        assert_eq!((read.code, &read.hint, read.message()), (problem.code, &problem.hint, problem.message()));
    }

    #[test]
    fn a_problem_of_a_newer_version_is_read_and_written_as_it_is() {
        let text = r#"{"code":"FROM_THE_FUTURE","message":"it is so","suggestion":null}"#;
        let read: Problem = serde_json::from_str(text).unwrap();
        assert_eq!(read.code.as_str(), "FROM_THE_FUTURE");
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
