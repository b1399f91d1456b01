//! What state a repository is in, looked at without touching anything.
//!
//! The same questions that [`Checkpointer::require_ready`](super::checkpointer::Checkpointer::require_ready) asks
//! before a step, for whoever only wants to know: no lock is taken, no folder is made.

use std::collections::BTreeMap;
use std::ffi::OsString;

use jiff::Timestamp;

use super::error::CheckpointError;
use super::identity::Identity;
use super::repository::Repository;

impl Repository {
    /// Who would be named in a commit.
    pub fn committer(
        &self,
        environment: &BTreeMap<OsString, OsString>,
        now: Timestamp,
    ) -> Result<String, CheckpointError> {
        let identity = Identity::find(self, environment, now)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!("{} <{}>", text(identity.committer.name_bytes()), text(identity.committer.email_bytes())))
    }

    /// Refuses while the index holds conflicts.
    pub fn refuse_conflicts(&self) -> Result<(), CheckpointError> {
        let unmerged = self.load_index()?.unmerged();
        if unmerged.is_empty() { Ok(()) } else { Err(CheckpointError::Unmerged(unmerged)) }
    }

    /// Refuses while git's lock on the index is held.
    pub fn refuse_locked_index(&self, now: Timestamp) -> Result<(), CheckpointError> {
        let path = self.git_dir().join("index.lock");
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { return Ok(()) };
        let made = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(now);
        let age = now.duration_since(made).try_into().unwrap_or_default();
        Err(CheckpointError::IndexLocked { path, age })
    }

    /// Whether the history is cut off.
    pub fn is_shallow(&self) -> bool {
        self.git.is_shallow()
    }

    /// Whether this is a linked worktree.
    pub fn is_linked(&self) -> bool {
        self.git.is_worktree()
    }

    /// Whether git takes the executable bit of files seriously here.
    pub fn trusts_file_modes(&self) -> bool {
        self.flag("core.fileMode") != Some(false)
    }
}
