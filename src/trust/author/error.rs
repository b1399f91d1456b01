//! Why items may not run because of their signatures, or why the signer is unknown.

use std::path::PathBuf;

use super::Authorship;
use crate::exec::ssh::SshError;
use crate::problem::{Code, Explain, Hint, HintCall, hint};
use crate::trust::keys::TrustError;
use crate::trust::unreviewed::UnreviewedItem;

/// Errors of the signature policy.
#[derive(Debug, thiserror::Error)]
pub enum AuthorError {
    /// Only signed items may run.
    #[error("only signed items may run, and not signed {} {}", if .0.len() == 1 { "is" } else { "are" }, quoted(.0))]
    Unsigned(Vec<PathBuf>),
    /// Only items with trusted authors may run.
    #[error("only items signed by a trusted author may run, and {}", reasons(.0))]
    Untrusted(Vec<UntrustedItem>),
    /// A directive of a waiting run may no longer run.
    #[error("only signed items may run, and `{}`, as the run began with it, {}", .0.file.display(), .0.author.reason())]
    Pinned(UntrustedItem),
    /// A tool runs a file that no signature covers.
    #[error("only signed items may run, and no stamp covers {}, which tool `{tool}` runs", quoted(.files))]
    Uncovered { tool: String, files: Vec<PathBuf> },
    /// A tool takes fields from rules or settings files that no signature covers.
    #[error("only signed items may run, and no stamp covers {}, which tool `{tool}` has fields from", quoted(.files))]
    Lent { tool: String, files: Vec<PathBuf> },
    /// A tool contains packages that no signature covers.
    #[error("only signed items may run, and no stamp covers `{}` in tool `{tool}`", .folder.display())]
    Packages { tool: String, folder: PathBuf },
    /// An agent wrote the items while the server ran.
    #[error("an agent wrote {}, and a person has to allow it before it runs", ids(.0))]
    Unreviewed(Vec<UnreviewedItem>),
    /// An item changed while a server that is limited to a directive ran.
    #[error("`{0}` has changed since the server was started, which is limited to a directive")]
    Changed(String),
    /// The trusted signers cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// `ssh-keygen` could not sign or check.
    #[error(transparent)]
    Ssh(#[from] SshError),
}

/// An item without a signature of a trusted author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrustedItem {
    /// Its file, as shown to people.
    pub file: PathBuf,
    /// The verdict on its signature.
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
            Self::Unreviewed(_) => Code::ConsentNeeded,
            Self::Changed(_) => Code::ItemChanged,
            Self::Trust(err) => err.code(),
            Self::Ssh(err) => err.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unsigned(_) => Some(
                hint!["read them, then ", HintCall::Sign(None), " them; `piton config signature.require` shows where this is asked for"],
            ),
            Self::Untrusted(items) => items.iter().find_map(|item| item.author.hint()),
            Self::Pinned(_) => {
                Some(hint!["end the run with ", HintCall::Cancel(None), ", sign the directive again, and start a new run"])
            }
            Self::Uncovered { .. } => {
                Some("move it into the folder of the tool, whose stamp covers every file, and sign the tool".into())
            }
            Self::Lent { .. } => Some("put these fields into the script itself, and sign it".into()),
            Self::Packages { .. } => Some(
                "remove it: list Python packages in `dependencies`, and move other files to a folder with another \
                 name, which the stamp covers".into(),
            ),
            Self::Unreviewed(items) => {
                let names: Vec<String> = items.iter().map(|item| format!(" --item {}", item.id)).collect();
                Some(format!("ask the person; in a terminal: `piton approve{}`", names.concat()).into())
            }
            Self::Changed(_) => {
                Some("ask the person to look at the change and to start the server anew".into())
            }
            Self::Trust(err) => err.hint(),
            Self::Ssh(err) => err.hint(),
        }
    }
}

impl AuthorError {
    /// Whether the policy forbids it.
    pub fn is_denied(&self) -> bool {
        matches!(self.code(), Code::SignatureRequired | Code::ConsentNeeded)
    }

    /// Whether the request is invalid.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Trust(err) => err.is_usage(),
            Self::Ssh(err) => matches!(err, SshError::NoKey { .. } | SshError::NotAKey(_)),
            Self::Unsigned(_)
            | Self::Untrusted(_)
            | Self::Pinned(_)
            | Self::Uncovered { .. }
            | Self::Lent { .. }
            | Self::Packages { .. }
            | Self::Unreviewed(_)
            | Self::Changed(_) => false,
        }
    }

    /// Whether the user or the caller asked to stop.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Ssh(SshError::Interrupted))
    }
}

fn reasons(items: &[UntrustedItem]) -> String {
    let reason =
        |item: &UntrustedItem| format!("`{}` {}", item.file.display(), item.author.reason());
    items.iter().map(reason).collect::<Vec<_>>().join("; ")
}

fn ids(items: &[UnreviewedItem]) -> String {
    let name = |item: &UnreviewedItem| format!("{} `{}`", item.kind, item.id);
    items.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn quoted(files: &[PathBuf]) -> String {
    files
        .iter()
        .map(|file| format!("`{}`", file.display()))
        .collect::<Vec<_>>()
        .join(", ")
}
