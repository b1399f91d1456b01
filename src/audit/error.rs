//! Errors of reading the history back and of exchanging it with remotes.

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::secret::SecretHit;
use crate::journal::{JournalError, RunId};
use crate::problem::{Code, Explain, Hint, HintCall, hint};

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("`{path}` has {lines} lines")]
    NoSuchLine { path: RepoPath, lines: usize },
    #[error("the log of run `{run}` is not its journal: they differ at entry {entry}")]
    Diverged { run: RunId, entry: usize },
    /// Data that would leave the repository contains a likely secret.
    #[error("{}", secrets(.0))]
    SecretFound(Vec<(RunId, SecretHit)>),
    /// A run named by the user cannot be pushed.
    #[error("run `{run}` cannot be pushed: {reason}")]
    StaysHere { run: RunId, reason: &'static str },
}

impl Explain for AuditError {
    fn code(&self) -> Code {
        match self {
            Self::Checkpoint(err) => err.code(),
            Self::Journal(err) => err.code(),
            Self::NoSuchLine { .. } => Code::NoSuchLine,
            Self::Diverged { .. } => Code::LogMismatch,
            Self::SecretFound(_) => Code::SecretFound,
            Self::StaysHere { .. } => Code::NotPushable,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Checkpoint(err) => err.hint(),
            Self::Journal(err) => err.hint(),
            Self::NoSuchLine { .. } => Some("use line numbers that are in the file".into()),
            Self::Diverged { run, .. } => Some(format!(
                "`piton verify {run}` shows which of them matches the commits; `git update-ref -d refs/piton/runs/{run}/log` \
                 removes a forged log"
            ).into()),
            Self::SecretFound(_) => Some(
                "nothing was pushed; if it is no secret, allow it by its fingerprint with `checkpoint.secrets_allowed`".into(),
            ),
            Self::StaysHere { .. } => Some(hint![HintCall::Log, " shows which runs there are and how they ended"]),
        }
    }
}

fn secrets(hits: &[(RunId, SecretHit)]) -> String {
    let listed: Vec<String> = hits
        .iter()
        .take(5)
        .map(|(run, hit)| {
            format!(
                "{} in {} of the log of run `{run}` ({})",
                hit.rule, hit.place, hit.fingerprint
            )
        })
        .collect();
    let more = if hits.len() > 5 {
        format!(" and {} more", hits.len() - 5)
    } else {
        String::new()
    };
    format!("{}{more}", listed.join(", "))
}
