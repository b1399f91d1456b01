//! Errors of writing and reading a journal.

use std::io;
use std::path::PathBuf;

use super::chain::Break;
use super::id::RunId;
use crate::problem::{Call, Code, Explain, Hint, hint};

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("there is no run `{0}`")]
    NoRun(RunId),
    #[error("there is a run `{0}` already")]
    Exists(RunId),
    /// A line before the last one cannot be parsed.
    #[error("line {line} of `{}` cannot be read: {reason}", .path.display())]
    Damaged {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        reason: String,
    },
    #[error("`{}` has format {version}, which this piton does not know", .path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error("the journal `{}` was tampered with: {found}", .path.display())]
    Broken { path: PathBuf, found: Break },
    /// Another process wrote to the file or removed it.
    #[error("the journal `{}` was changed or removed while the run went on", .0.display())]
    Changed(PathBuf),
    /// An earlier write failed, so the content on disk is unknown.
    #[error("the journal `{}` cannot be continued after a failed write", .0.display())]
    Unsure(PathBuf),
    #[error("cannot {doing} `{}`", .path.display())]
    Io {
        /// A verb phrase for the message: ``cannot {doing} `{path}` ``.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Explain for JournalError {
    fn code(&self) -> Code {
        match self {
            Self::NoRun(_) => Code::RunNotFound,
            Self::Exists(_) => Code::RunExists,
            Self::Damaged { .. } => Code::JournalDamaged,
            Self::Newer { .. } => Code::JournalNewer,
            Self::Broken { .. } | Self::Changed(_) => Code::JournalBroken,
            Self::Unsure(_) | Self::Io { .. } => Code::JournalFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NoRun(_) => hint!["list the runs with ", Call::Log],
            Self::Exists(_) => "try again: the next run gets another name".into(),
            Self::Damaged { .. } | Self::Broken { .. } => "`piton verify` says what can still be trusted".into(),
            Self::Changed(_) => {
                "what the step did stays on disk, and nothing of it is on record: look at what it ran".into()
            }
            Self::Newer { .. } => "use the piton that wrote it, or a newer one".into(),
            Self::Unsure(_) => "the next start of piton finds out what was written and recovers".into(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => "make room on the disk".into(),
            Self::Io { .. } => return None,
        })
    }
}

impl JournalError {
    /// Gives what the system said a place in a sentence: ``cannot {doing} `{path}` ``.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.into(), source }
    }
}
