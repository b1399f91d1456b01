//! Expands the folders of a sparse index to their files.
//!
//! With `index.sparse` git keeps one entry for a whole folder outside of the sparse checkout. In
//! memory such a folder is expanded, as git does for most commands. Piton writes a full index,
//! which git collapses again.

use super::super::error::CheckpointError;
use super::super::object::{Entry, ObjectId};
use super::super::path::RepoPath;
use super::super::stat::Stat;
use super::{Index, IndexEntry};

/// Lists the files of a tree, with their relative paths.
pub(crate) type FilesOf<'a> =
    dyn Fn(ObjectId) -> Result<Vec<(RepoPath, Entry)>, CheckpointError> + 'a;

impl Index {
    /// The index with these folder entries replaced by their files.
    pub(super) fn expanded(
        self,
        folders: &[usize],
        files_of: &FilesOf<'_>,
    ) -> Result<Self, CheckpointError> {
        let mut new = Self {
            layout: self.layout,
            resolved: self.resolved.clone(),
            ..Self::empty(self.format)
        };
        let mut folders = folders.iter().copied().peekable();
        for (at, (path, entry)) in self.entries(0..self.len()).enumerate() {
            if folders.next_if_eq(&at).is_none() {
                new.push(path, *entry)?;
                continue;
            }
            let mut files = files_of(entry.id)?;
            files.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
            for (file, found) in files {
                let skipped = IndexEntry {
                    skip_worktree: true,
                    ..IndexEntry::new(found, Stat::default())
                };
                new.push(&[path, file.as_bytes()].concat(), skipped)?;
            }
        }
        // The trees are the same, with more entries.
        new.trees = self.trees;
        if let Some(mut trees) = new.trees.take() {
            trees.recount(|folder| new.below(0..new.len(), folder).len());
            new.trees = Some(trees);
        }
        Ok(new)
    }

    /// Appends an entry.
    pub(super) fn push(&mut self, path: &[u8], entry: IndexEntry) -> Result<(), CheckpointError> {
        self.paths.extend_from_slice(path);
        let too_long = || CheckpointError::Unsupported {
            feature: "an index of this size",
            found: "its paths".into(),
        };
        self.ends
            .push(u32::try_from(self.paths.len()).map_err(|_| too_long())?);
        self.entries.push(entry);
        Ok(())
    }
}
