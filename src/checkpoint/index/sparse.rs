//! The folders of a sparse index, as the files in them.
//!
//! With `index.sparse` git keeps one entry for a whole folder that is outside of the sparse checkout. In memory such a
//! folder is expanded, as git itself does it for most commands. What is written is a full index, which git folds again.

use super::super::error::CheckpointError;
use super::super::object::{Entry, ObjectId};
use super::super::path::RepoPath;
use super::super::stat::Stat;
use super::{Index, IndexEntry};

/// Lists the files of a tree, with their paths inside of it.
pub(crate) type FilesOf<'a> = dyn Fn(ObjectId) -> Result<Vec<(RepoPath, Entry)>, CheckpointError> + 'a;

impl Index {
    /// The index with these entries, which are folders, replaced by the files in them.
    pub(super) fn expanded(self, folders: &[usize], files_of: &FilesOf<'_>) -> Result<Self, CheckpointError> {
        let mut new = Self { layout: self.layout, resolved: self.resolved.clone(), ..Self::empty(self.format) };
        let mut folders = folders.iter().copied().peekable();
        for (at, (path, entry)) in self.entries(0..self.len()).enumerate() {
            if folders.next_if_eq(&at).is_none() {
                new.push(path, *entry)?;
                continue;
            }
            let mut files = files_of(entry.id)?;
            files.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
            for (file, found) in files {
                let skipped = IndexEntry { skip_worktree: true, ..IndexEntry::new(found, Stat::default()) };
                new.push(&[path, file.as_bytes()].concat(), skipped)?;
            }
        }
        // The trees are the same; each has more entries than before.
        new.trees = self.trees;
        if let Some(mut trees) = new.trees.take() {
            trees.recount(|folder| new.below(0..new.len(), folder).len());
            new.trees = Some(trees);
        }
        Ok(new)
    }

    /// Adds an entry after all others.
    pub(super) fn push(&mut self, path: &[u8], entry: IndexEntry) -> Result<(), CheckpointError> {
        self.paths.extend_from_slice(path);
        let too_long = || CheckpointError::Unsupported { feature: "an index of this size", found: "its paths".into() };
        self.ends.push(u32::try_from(self.paths.len()).map_err(|_| too_long())?);
        self.entries.push(entry);
        Ok(())
    }
}
