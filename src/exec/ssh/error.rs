//! Errors of `ssh-keygen`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::exec::subprocess::SubprocessError;
use crate::item::wording::shown;
use crate::problem::{Code, Explain, Hint};

#[derive(Debug, thiserror::Error)]
pub enum SshError {
    #[error("signatures of authors need the program `ssh-keygen`, which is not on the search path")]
    NoProgram,
    /// It does not support signatures.
    #[error("this `ssh-keygen` is too old to make or check signatures")]
    TooOld,
    #[error("cannot read the key `{}`", .key.display())]
    NoKey {
        key: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is not an SSH key", .0.display())]
    NotAKey(PathBuf),
    /// Other users may read the private key, so it is refused.
    #[error("others may read the private key `{}`", .0.display())]
    OpenToOthers(PathBuf),
    /// Only the public key exists.
    #[error("the private half of `{}` is neither beside it nor in an agent", .0.display())]
    NoPrivateHalf(PathBuf),
    /// The passphrase was wrong, or there was no terminal to ask at.
    #[error("the key `{}` is locked, and its passphrase was wrong or not given", .0.display())]
    Locked(PathBuf),
    #[error("the agent refused to sign with `{}`", .0.display())]
    Refused(PathBuf),
    #[error("`ssh-keygen` did not sign with `{}`: {reason}", .key.display())]
    NotSigned { key: PathBuf, reason: String },
    /// A signal or the client asked to stop.
    #[error("interrupted while `ssh-keygen` was running")]
    Interrupted,
    #[error("`ssh-keygen` took more than {} s", .0.as_secs())]
    TooLong(Duration),
    #[error(transparent)]
    Subprocess(#[from] SubprocessError),
    #[error("cannot give `ssh-keygen` its files")]
    Files(#[from] io::Error),
}

impl Explain for SshError {
    fn code(&self) -> Code {
        match self {
            Self::NoProgram | Self::TooOld => Code::SshKeygenMissing,
            Self::NoKey { .. } | Self::NotAKey(_) => Code::InvalidKey,
            Self::OpenToOthers(_) | Self::NoPrivateHalf(_) | Self::Locked(_) | Self::Refused(_) => {
                Code::KeyNotUsable
            }
            Self::NotSigned { .. } | Self::TooLong(_) | Self::Files(_) => Code::SshKeygenFailed,
            Self::Interrupted => Code::Interrupted,
            Self::Subprocess(err) => err.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        let hint = match self {
            Self::NoProgram => {
                "install OpenSSH 8.2 or later; relative folders of the search path and those of the project do not count".into()
            }
            Self::TooOld => "install OpenSSH 8.2 or later".into(),
            Self::NoKey { .. } => "name a private key such as `~/.ssh/id_ed25519`, or a `.pub` whose private half an \
                                   agent holds; `ssh-keygen -t ed25519` makes one".into(),
            Self::NotAKey(_) => "name a private key, or the `.pub` of one that an agent holds".into(),
            Self::OpenToOthers(key) => format!("`chmod 600 '{}'`", key.display()).into(),
            Self::NoPrivateHalf(_) => "add it to an agent with `ssh-add`, or name the private key".into(),
            Self::Locked(key) => {
                // `ssh-add` takes the private half.
                let private = if key.extension().is_some_and(|ending| ending == "pub") { key.with_extension("") } else { key.clone() };
                let private = private.display();
                format!("do it at a terminal, where it is asked for, or unlock it with `ssh-add '{private}'`").into()
            }
            Self::Refused(_) => "confirm when the agent or the key asks for it; `ssh-add -l` lists its keys".into(),
            Self::NotSigned { .. } | Self::TooLong(_) => {
                "try it by hand: `echo | ssh-keygen -Y sign -n piton-content -f KEY`".into()
            }
            Self::Interrupted => return None,
            Self::Subprocess(err) => return err.hint(),
            Self::Files(_) => "check the disk space of the folder for temporary files".into(),
        };
        Some(hint)
    }
}

impl SshError {
    /// Finds the reason in the program's message.
    pub(super) fn not_signed(key: &Path, said: &str) -> Self {
        let (said_any, key) = (
            |words: &[&str]| words.iter().any(|words| said.contains(words)),
            key.to_path_buf(),
        );
        if super::is_too_old(said) {
            Self::TooOld
        } else if said_any(&["incorrect passphrase"]) {
            Self::Locked(key)
        } else if said_any(&["agent refused", "device not found", "invalid PIN"]) {
            Self::Refused(key)
        } else if said_any(&["UNPROTECTED", "bad permissions"]) {
            Self::OpenToOthers(key)
        } else if said_any(&[
            "No private key found",
            "agent contains no identities",
            "agent failed",
        ]) {
            Self::NoPrivateHalf(key)
        } else {
            let last = said
                .lines()
                .rfind(|line| !line.trim().is_empty())
                .unwrap_or("it said nothing");
            Self::NotSigned {
                key,
                reason: shown(last.trim()),
            }
        }
    }
}
