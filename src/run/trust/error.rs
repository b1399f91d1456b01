//! Why it cannot be said whom to trust.

use std::io;
use std::path::PathBuf;

use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::{Code, Explain, Hint};

/// What is wrong with a key, a name or a file of those who are trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no place for the files.
    #[error("there is no home folder to keep in whom you trust")]
    NoHome,
    /// A repository could say whom to trust.
    #[error("`{}` lies in the repository, which must not choose whom you trust", .0.display())]
    InRepository(PathBuf),
    /// A file cannot be read.
    #[error("cannot read `{}`", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", .file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no file with a key.
    #[error("cannot read the key `{}`", shown(&.file.to_string_lossy()))]
    NoKeyFile {
        /// What was named.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The secret half was given.
    #[error("this is a private key, which nobody but its owner may have; nothing of it was kept")]
    PrivateKey,
    /// Several keys were given.
    #[error("these are several keys")]
    SeveralKeys,
    /// Something else was given.
    #[error("this is not a public SSH key")]
    NotAKey,
    /// Nobody said whose key it is.
    #[error("the key does not say whose it is")]
    NoName,
    /// The name could mean others as well.
    #[error("`{}` is not a name", shown(.0))]
    InvalidName(String),
    /// The key was revoked.
    #[error("the key {fingerprint} was revoked")]
    Revoked {
        /// Its fingerprint.
        fingerprint: String,
        /// Where it says so.
        file: PathBuf,
    },
    /// There is nobody with this name.
    #[error("nobody whom you trust is called `{}`", shown(.name))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those who are there.
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
                "keep it in your home; `piton config signature.allowed_signers` shows who has set it".into()
            }
            Self::Unreadable { .. } | Self::Unwritable { .. } => {
                "see that it is there, and check its permissions and those of its folder".into()
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
    /// Whether what was asked for makes no sense, rather than that it failed.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Unreadable { .. } | Self::Unwritable { .. })
    }
}
