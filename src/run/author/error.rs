//! Why items may not run as they are signed, or why nobody can say who signed them.

use std::path::PathBuf;

use super::Authorship;
use crate::exec::ssh::SshError;
use crate::problem::{Call, Code, Explain, Hint, hint};
use crate::run::error::RunError;
use crate::run::trust::TrustError;

/// What the signature policy has to say.
#[derive(Debug, thiserror::Error)]
pub enum AuthorError {
    /// Only signed items may run.
    #[error("only signed items may run, and not signed {} {}", if .0.len() == 1 { "is" } else { "are" }, quoted(.0))]
    Unsigned(Vec<PathBuf>),
    /// Only items may run whose authors are trusted.
    #[error("only items signed by somebody you trust may run, and {}", reasons(.0))]
    Untrusted(Vec<UntrustedItem>),
    /// A directive of a run that waited may not run any more.
    #[error("only signed items may run, and `{}`, as the run began with it, {}", .0.file.display(), .0.author.reason())]
    Pinned(UntrustedItem),
    /// A tool runs a file that no signature covers.
    #[error("only signed items may run, and no stamp covers {}, which tool `{tool}` runs", quoted(.files))]
    Uncovered {
        /// The tool.
        tool: String,
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Rules or settings that no signature covers give a tool fields.
    #[error("only signed items may run, and no stamp covers {}, which tool `{tool}` has fields from", quoted(.files))]
    Lent {
        /// The tool.
        tool: String,
        /// The files.
        files: Vec<PathBuf>,
    },
    /// A tool holds packages that no signature covers.
    #[error("only signed items may run, and no stamp covers `{}` in tool `{tool}`", .folder.display())]
    Packages {
        /// The tool.
        tool: String,
        /// Where they are.
        folder: PathBuf,
    },
    /// Whom to trust cannot be told.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// `ssh-keygen` could not sign or check.
    #[error(transparent)]
    Ssh(#[from] SshError),
}

/// An item that nobody signed who is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrustedItem {
    /// Its file, as people know it.
    pub file: PathBuf,
    /// What the signature beside it is worth.
    pub author: Authorship,
}

impl Explain for AuthorError {
    fn code(&self) -> Code {
        match self {
            Self::Unsigned(_)
            | Self::Untrusted(_)
            | Self::Pinned(_)
            | Self::Uncovered { .. }
            | Self::Lent { .. }
            | Self::Packages { .. } => Code::SignatureRequired,
            Self::Trust(err) => err.code(),
            Self::Ssh(err) => err.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unsigned(_) => Some(
                hint!["read them, then ", Call::Sign(None), " them; `piton config signature.require` shows where this is asked for"],
            ),
            Self::Untrusted(items) => items.iter().find_map(|item| item.author.hint()),
            Self::Pinned(_) => {
                Some(hint!["end the run with ", Call::Cancel(None), ", sign the directive anew, and start it again"])
            }
            Self::Uncovered { .. } => {
                Some("put it into the folder of the tool, whose stamp covers every file, and sign that".into())
            }
            Self::Lent { .. } => Some("write these fields into the script itself, and sign that".into()),
            Self::Packages { .. } => Some(
                "remove it: name packages of Python in `dependencies`, and keep what else the tool needs in a folder with \
                 another name, which its stamp covers".into(),
            ),
            Self::Trust(err) => err.hint(),
            Self::Ssh(err) => err.hint(),
        }
    }
}

impl AuthorError {
    /// Whether the policy forbids it.
    pub fn is_denied(&self) -> bool {
        self.code() == Code::SignatureRequired
    }

    /// Whether what was asked for does not exist or makes no sense.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Trust(err) => err.is_usage(),
            Self::Ssh(err) => matches!(err, SshError::NoKey { .. } | SshError::NotAKey(_)),
            Self::Unsigned(_)
            | Self::Untrusted(_)
            | Self::Pinned(_)
            | Self::Uncovered { .. }
            | Self::Lent { .. }
            | Self::Packages { .. } => false,
        }
    }

    /// Whether the user or the caller asked to stop.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Ssh(SshError::Interrupted))
    }
}

impl From<TrustError> for RunError {
    fn from(err: TrustError) -> Self {
        Self::Author(err.into())
    }
}

impl From<SshError> for RunError {
    fn from(err: SshError) -> Self {
        Self::Author(err.into())
    }
}

fn reasons(items: &[UntrustedItem]) -> String {
    let reason = |item: &UntrustedItem| format!("`{}` {}", item.file.display(), item.author.reason());
    items.iter().map(reason).collect::<Vec<_>>().join("; ")
}

fn quoted(files: &[PathBuf]) -> String {
    files.iter().map(|file| format!("`{}`", file.display())).collect::<Vec<_>>().join(", ")
}
