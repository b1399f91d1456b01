//! Errors of writing and reading a journal.

use std::io;
use std::path::PathBuf;

use super::chain::Break;
use super::id::RunId;
use crate::problem::{Code, Explain, Hint, HintCall, hint};

/// What a person can do about a line of another process.
pub const FOREIGN_HINT: &str = "`piton cancel` ends the run and keeps what its steps did; a person who has read the \
     lines can accept them with `piton recover --trust-journal RUN`";
/// What a person can do about a journal without its last lines.
pub const SHORTENED_HINT: &str = "another process removed lines, or the repository was restored from a backup: a \
     person who has read the lines that are left can accept them with `piton recover --trust-journal RUN`";
/// What a person can do about a journal without tags.
pub const UNAUTHENTICATED_HINT: &str = "an earlier version wrote it, or its tags were removed: a person who has read the \
     lines can accept them with `piton recover --trust-journal RUN`";
/// What a person can do about a journal that another key authenticates.
pub const OTHER_KEY_HINT: &str = "use the home folder in which the run began; or a person who has read the lines \
     accepts them with `piton recover --trust-journal RUN`";

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
    /// A log in git that came from another repository.
    #[error("the log `{}` cannot be read: {reason}", .path.display())]
    UnreadLog {
        /// Its ref.
        path: PathBuf,
        code: Code,
        reason: String,
    },
    /// One command does not read more logs than that.
    #[error("{read} of {count} logs were read: together they hold more than {limit}")]
    UnreadLogs {
        read: u64,
        count: u64,
        limit: String,
    },
    #[error("`{}` has format {version}, which this piton does not know", .path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error("the journal `{}` was tampered with: {found}", .path.display())]
    Broken { path: PathBuf, found: Break },
    /// A process that does not have the key has written a line.
    #[error("line {line} of the journal `{}` was not written by piton", .path.display())]
    ForeignLine {
        path: PathBuf,
        /// Counted from 1.
        line: u64,
    },
    /// Another process removed lines at the end.
    #[error("the journal `{}` ends with line {lines}, and line {known} was written", .path.display())]
    Shortened {
        path: PathBuf,
        lines: u64,
        /// The number of a line that was written.
        known: u64,
    },
    /// No line has a tag, so each of them may be of another process.
    #[error("the journal `{}` is not authenticated", .0.display())]
    Unauthenticated(PathBuf),
    #[error("the journal `{}` was authenticated with a key that is not here", .0.display())]
    OtherKey(PathBuf),
    /// The file with the key has other content.
    #[error("`{}` is not a key of piton", .0.display())]
    InvalidKey(PathBuf),
    /// Another process wrote to the file or removed it.
    #[error("the journal `{}` was changed or removed during the run", .0.display())]
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
            Self::UnreadLog { code, .. } => *code,
            Self::UnreadLogs { .. } => Code::LogTooLarge,
            Self::Broken { .. } | Self::Changed(_) => Code::JournalBroken,
            Self::ForeignLine { .. } => Code::JournalForeignLine,
            Self::Shortened { .. } => Code::JournalShortened,
            Self::Unauthenticated(_) => Code::JournalUnauthenticated,
            Self::OtherKey(_) | Self::InvalidKey(_) => Code::JournalKeyMissing,
            Self::Unsure(_) | Self::Io { .. } => Code::JournalFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NoRun(_) => hint!["list the runs with ", HintCall::Log],
            Self::Exists(_) => "try again: the next run gets another name".into(),
            Self::Damaged { .. } | Self::Broken { .. } => {
                "`piton verify` shows what can still be trusted".into()
            }
            Self::UnreadLog {
                code: Code::LogTooLarge,
                path,
                ..
            } => format!(
                "`git update-ref -d {}` removes the log if it is not from a run that you know",
                path.display()
            )
            .into(),
            Self::UnreadLogs { .. } => {
                "`git update-ref -d refs/piton/runs/RUN/log` removes the log of a run that you do not need here".into()
            }
            Self::UnreadLog { .. } => "`piton verify --all` shows which logs are not valid".into(),
            Self::ForeignLine { .. } => FOREIGN_HINT.into(),
            Self::Shortened { .. } => SHORTENED_HINT.into(),
            Self::Unauthenticated(_) => UNAUTHENTICATED_HINT.into(),
            Self::OtherKey(_) => OTHER_KEY_HINT.into(),
            Self::InvalidKey(_) => "restore the file from a backup, or remove it: then piton makes a new key, and \
                a person has to accept the journals of waiting runs with `piton recover --trust-journal RUN`"
                .into(),
            Self::Changed(_) => {
                "the changes of the step stay on disk without a record: check what it ran".into()
            }
            Self::Newer { .. } => "use the piton that wrote it, or a newer one".into(),
            Self::Unsure(_) => "the next piton command recovers it".into(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some disk space".into()
            }
            Self::Io { .. } => return None,
        })
    }
}

impl JournalError {
    /// Gives what the system said a place in a sentence: ``cannot {doing} `{path}` ``.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing,
            path: path.into(),
            source,
        }
    }
}
