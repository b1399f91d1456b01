//! The sparse checkout: which files git wants on disk.
//!
//! `git sparse-checkout` writes patterns to `info/sparse-checkout`. Git leaves files outside of them alone: it marks them as
//! skip-worktree, and `git add` refuses them. Piton does the same: what a step writes there is kept, named and can be
//! undone, and is in no commit. The patterns of the cone mode mean the same when they are read as ordinary ones.

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::files::read_if_there;
use super::ignore::{Kind, Letters, Patterns};
use super::index::{Index, IndexEntry};
use super::path::RepoPath;
use super::repository::Repository;
use super::restore::Plan;
use super::staging::IndexEdits;

/// The patterns of a sparse checkout.
#[derive(Debug)]
pub(crate) struct SparseCheckout {
    patterns: Patterns,
    letters: Letters,
}

impl SparseCheckout {
    /// Reads the patterns; none where the whole work tree is checked out.
    pub(crate) fn load(repository: &Repository) -> Result<Option<Self>, CheckpointError> {
        // Without the file git has everything on disk, whatever the settings say.
        let path = repository.git_dir().join("info").join("sparse-checkout");
        let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
        if !repository.flag_now("core.sparseCheckout") {
            return Ok(None);
        }
        let letters = match repository.flag("core.ignoreCase") {
            Some(true) => Letters::Folded,
            _ => Letters::Distinct,
        };
        Ok(Some(Self { patterns: Patterns::parse(&bytes), letters }))
    }

    /// Whether git wants a file on disk: by its own path, or by that of the nearest folder that a pattern decides about.
    pub(crate) fn has(&self, path: &RepoPath) -> bool {
        let mut kind = Kind::File;
        let mut path = path.clone();
        while !path.is_top() {
            if let Some(is_wanted) = self.patterns.decide(path.as_bytes(), kind, self.letters) {
                return is_wanted;
            }
            kind = Kind::Folder;
            path = path.parent();
        }
        false
    }
}

impl Checkpointer {
    /// Whether a file lies outside of the sparse checkout.
    pub(super) fn is_outside_sparse(&self, path: &RepoPath) -> bool {
        self.sparse.as_ref().is_some_and(|sparse| !sparse.has(path))
    }

    /// Whether git keeps a file off the disk, where it is not: it is marked as skip-worktree, or will be.
    pub(super) fn belongs_off_disk(&self, path: &RepoPath) -> bool {
        match self.index.entry_at(path) {
            Some(entry) => entry.skip_worktree,
            None => self.is_outside_sparse(path),
        }
    }

    /// Whether a plan takes files outside of the sparse checkout off the disk.
    pub(super) fn clears_outside(&self, plan: &Plan) -> bool {
        plan.files.iter().any(|file| file.target.is_none() && self.is_outside_sparse(&file.path))
    }

    /// Marks files outside of the sparse checkout that a plan took off the disk as skip-worktree again: git takes the mark
    /// away when it finds such a file.
    pub(super) fn skip_cleared(
        &self,
        index: &Index,
        plan: &Plan,
        edits: &mut IndexEdits,
    ) -> Result<(), CheckpointError> {
        let cleared = plan.files.iter().filter(|file| file.target.is_none() && self.is_outside_sparse(&file.path));
        for file in cleared {
            let staged = edits.get(&file.path).copied().unwrap_or_else(|| index.entry_at(&file.path).copied());
            if let Some(entry) = staged.filter(|entry| !entry.skip_worktree && !entry.intent_to_add)
                && self.work_tree.state(&file.path)?.is_none()
            {
                edits.insert(file.path.clone(), Some(IndexEntry { skip_worktree: true, ..entry }));
            }
        }
        Ok(())
    }

    /// Marks new entries outside of the sparse checkout as skip-worktree, unless the file is on disk.
    pub(super) fn skip_outside(&self, index: &Index, edits: &mut IndexEdits) -> Result<(), CheckpointError> {
        if self.sparse.is_none() {
            return Ok(());
        }
        for (path, entry) in edits {
            if let Some(entry) = entry
                && index.find(path.as_bytes()).is_none()
                && self.is_outside_sparse(path)
                && self.work_tree.state(path)?.is_none()
            {
                entry.skip_worktree = true;
            }
        }
        Ok(())
    }
}
