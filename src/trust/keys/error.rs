//! Errors of the trusted signers.

use std::io;
use std::path::PathBuf;

use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::{Code, Explain, Hint};

/// A problem with a key, a name or a file of trusted signers.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no folder for the files.
    #[error("there is no home folder for your trusted keys")]
    NoHome,
    /// A repository could change the file.
    #[error("`{}` is inside the repository, which must not choose whom you trust", .0.display())]
    InRepository(PathBuf),
    /// A file cannot be read.
    #[error("cannot read `{}`", .file.display())]
    Unreadable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", .file.display())]
    Unwritable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The key file does not exist.
    #[error("cannot read the key `{}`", shown(&.file.to_string_lossy()))]
    NoKeyFile {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A private key was given.
    #[error("this is a private key, which must stay with its owner; it was not stored")]
    PrivateKey,
    /// Several keys were given.
    #[error("these are several keys")]
    SeveralKeys,
    /// The text is not a key.
    #[error("this is not a public SSH key")]
    NotAKey,
    /// The key has no name.
    #[error("the key does not say whose it is")]
    NoName,
    /// The name could match other signers too.
    #[error("`{}` is not a name", shown(.0))]
    InvalidName(String),
    /// The key was revoked.
    #[error("the key {fingerprint} was revoked")]
    Revoked {
        fingerprint: String,
        /// The file with the revocation.
        file: PathBuf,
    },
    /// No signer has this name.
    #[error("no trusted key has the name `{}`", shown(.name))]
    Unknown {
        name: String,
        /// The known names.
        known: Vec<String>,
    },
}

impl Explain for TrustError {
    fn code(&self) -> Code {
        match self {
            Self::NoHome => Code::NoHome,
            Self::InRepository(_) => Code::TrustInRepository,
            Self::Unreadable { .. } => Code::UnreadableFile,
            Self::Unwritable { .. } => Code::UnwritableFile,
            Self::NoKeyFile { .. } | Self::SeveralKeys | Self::NotAKey => Code::InvalidKey,
            Self::PrivateKey => Code::PrivateKey,
            Self::NoName | Self::InvalidName(_) => Code::InvalidName,
            Self::Revoked { .. } => Code::KeyRevoked,
            Self::Unknown { .. } => Code::NotFound,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NoHome => "set HOME".into(),
            Self::InRepository(_) => {
                "keep it in your home folder; `piton config signature.allowed_signers` shows where it is set".into()
            }
            Self::Unreadable { .. } | Self::Unwritable { .. } => {
                "check that it exists, and its permissions and those of its folder".into()
            }
            Self::NoKeyFile { .. } => "name a `.pub` file, a line `ssh-ed25519 AAAA… name`, or `-` to read one".into(),
            Self::PrivateKey => "give the public half, the file that ends in `.pub`".into(),
            Self::SeveralKeys => "add them one by one, each with its name".into(),
            Self::NotAKey => {
                "a public key is one line such as `ssh-ed25519 AAAA… name`, in a file that ends in `.pub`".into()
            }
            Self::NoName => "say so with `--as NAME`, e.g. `--as ada@example.com`".into(),
            Self::InvalidName(_) => {
                "write a name such as `ada@example.com`: no blanks, commas, quotes or patterns".into()
            }
            Self::Revoked { file, .. } => {
                format!("ask for a new key; if it was revoked by mistake, take its line out of `{}`", file.display())
                    .into()
            }
            Self::Unknown { name, known } => did_you_mean(
                nearest(name, known.iter().map(String::as_str)),
                "`piton trust list` shows names and fingerprints",
            )
            .into(),
        })
    }
}

impl TrustError {
    /// Whether the request is invalid.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Unreadable { .. } | Self::Unwritable { .. })
    }
}
