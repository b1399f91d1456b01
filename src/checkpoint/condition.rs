//! Inspects the state of a repository without side effects.
//!
//! These are the checks of
//! [`Checkpointer::require_ready`](super::checkpointer::Checkpointer::require_ready), for callers
//! that only want to know: they take no lock and create no folder.

use std::collections::BTreeMap;
use std::ffi::OsString;

use jiff::Timestamp;

use super::error::CheckpointError;
use super::identity::Identity;
use super::repository::Repository;

impl Repository {
    /// The committer of a commit.
    pub fn committer(
        &self,
        environment: &BTreeMap<OsString, OsString>,
        now: Timestamp,
    ) -> Result<String, CheckpointError> {
        let identity = Identity::find(self, environment, now)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!(
            "{} <{}>",
            text(identity.committer.name_bytes()),
            text(identity.committer.email_bytes())
        ))
    }

    /// Fails if the index has conflicts.
    pub fn refuse_conflicts(&self) -> Result<(), CheckpointError> {
        let unmerged = self.load_index()?.unmerged();
        if unmerged.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::Unmerged(unmerged))
        }
    }

    /// Fails if git's lock on the index exists.
    pub fn refuse_locked_index(&self, now: Timestamp) -> Result<(), CheckpointError> {
        let path = self.git_dir().join("index.lock");
        let Ok(metadata) = std::fs::symlink_metadata(&path) else {
            return Ok(());
        };
        let made = metadata
            .modified()
            .ok()
            .and_then(|time| Timestamp::try_from(time).ok())
            .unwrap_or(now);
        let age = now.duration_since(made).try_into().unwrap_or_default();
        Err(CheckpointError::IndexLocked { path, age })
    }

    /// Whether the clone is shallow.
    pub fn is_shallow(&self) -> bool {
        self.git.is_shallow()
    }

    /// Whether this is a linked worktree.
    pub fn is_linked(&self) -> bool {
        self.git.is_worktree()
    }

    /// Whether git honours the executable bit of files here.
    pub fn trusts_file_modes(&self) -> bool {
        self.flag("core.fileMode") != Some(false)
    }
}
