//! Creates signed commits with the program in the user's settings. Never falls back to an unsigned
//! commit.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use super::{GitProgram, identity};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;

/// A commit to sign.
pub(crate) struct UnsignedCommit<'a> {
    pub(crate) tree: ObjectId,
    pub(crate) parents: &'a [ObjectId],
    pub(crate) message: &'a str,
    /// The author, with the time.
    pub(crate) author: &'a git2::Signature<'a>,
    /// The committer, with the time.
    pub(crate) committer: &'a git2::Signature<'a>,
}

/// Writes a signed commit; moves no ref.
pub(crate) fn create_signed_commit(
    git: &GitProgram,
    repository: &git2::Repository,
    commit: &UnsignedCommit<'_>,
    limit: Duration,
) -> Result<ObjectId, CheckpointError> {
    let mut arguments: Vec<OsString> = ["commit-tree", "-S", "-F", "-"]
        .map(OsString::from)
        .to_vec();
    for parent in commit.parents {
        arguments.push("-p".into());
        arguments.push(parent.to_string().into());
    }
    arguments.push(commit.tree.to_string().into());
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    let people = [
        identity("AUTHOR", commit.author),
        identity("COMMITTER", commit.committer),
    ]
    .concat();
    let variables: Vec<(&str, OsString)> = people
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    let output = match git.run(
        "commit-tree",
        &arguments,
        &variables,
        Some(commit.message.as_bytes()),
        limit,
    ) {
        Ok(output) if output.succeeded => output,
        Ok(output) => {
            return Err(CheckpointError::SigningFailed {
                reason: output.reason,
            });
        }
        Err(CheckpointError::GitProgram { reason, .. }) => {
            return Err(CheckpointError::SigningFailed { reason });
        }
        Err(error) => return Err(error),
    };
    let unexpected = |reason: &str| CheckpointError::SigningFailed {
        reason: reason.to_owned(),
    };
    let id: ObjectId = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .map_err(|_| unexpected("`git commit-tree` did not name a commit"))?;
    verify(repository, id, commit)
        .map_err(CheckpointError::git("read the signed commit"))?
        .then_some(id)
        .ok_or_else(|| unexpected("git made an unsigned or a different commit"))
}

/// Whether a commit has the requested data and a signature. `git verify-commit` checks whose
/// signature it is.
fn verify(
    repository: &git2::Repository,
    id: ObjectId,
    wanted: &UnsignedCommit<'_>,
) -> Result<bool, git2::Error> {
    let made = repository.find_commit(id.into())?;
    let signed = made
        .header_field_bytes("gpgsig")
        .is_ok_and(|signature| !signature.is_empty());
    let parents: Vec<ObjectId> = made.parent_ids().map(ObjectId::from).collect();
    Ok(signed
        && ObjectId::from(made.tree_id()) == wanted.tree
        && parents == wanted.parents
        && made.message_bytes() == wanted.message.as_bytes())
}
