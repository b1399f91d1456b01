//! Whether snapshots hold a file: asked before something is done that only a snapshot could take back.
//!
//! The same rules as those of the walk over the work tree (`scan`), for one path at a time and before
//! anything is there. [`Uncovered`] is why they would not.

use std::path::Path;

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::index::IndexEntry;
use super::object::FileMode;
use super::path::RepoPath;
use super::worktree::is_safe;
use crate::problem::Code;

/// Why no snapshot holds a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// Git ignores it, and does not track it.
    Ignored,
    /// It lies in a submodule, or in another repository inside the work tree.
    NestedRepository,
    /// The user told git to overlook it: skip-worktree or assume-unchanged.
    Overlooked,
    /// It is over `checkpoint.max_file_size`.
    TooLarge,
    /// Its name could be taken for `.git`.
    Name,
}

impl Uncovered {
    /// The stable code.
    pub(super) fn code(self) -> Code {
        match self {
            Self::Ignored => Code::IgnoredByGit,
            Self::NestedRepository | Self::Overlooked | Self::TooLarge | Self::Name => Code::OutsideCheckpoints,
        }
    }

    /// What is the matter with a file, in words.
    pub fn about(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Ignored => format!("git ignores `{path}`"),
            Self::NestedRepository => format!("`{path}` lies in a repository of its own"),
            Self::Overlooked => format!("git was told to overlook `{path}`"),
            Self::TooLarge => format!("`{path}` is over `checkpoint.max_file_size`"),
            Self::Name => format!("git holds no file of the name `{path}`"),
        }
    }

    /// The way out.
    pub(super) fn hint(self) -> String {
        let mend = match self {
            Self::Ignored => "take it out of `.gitignore`",
            Self::NestedRepository => "keep the project's scripts and tools in its own repository",
            Self::Overlooked => {
                "let git look at it again with `git update-index --no-skip-worktree` or `--no-assume-unchanged`"
            }
            Self::TooLarge => "raise `checkpoint.max_file_size`",
            Self::Name => "rename it",
        };
        format!("{mend}, or go without checkpoints: `--checkpoint disabled`")
    }
}

impl Checkpointer {
    /// Why snapshots would not hold a file of some size at a path, whether it is there or not; none if they would.
    pub fn uncovered(&self, path: &RepoPath, size: u64) -> Result<Option<Uncovered>, CheckpointError> {
        let entry = |path: &RepoPath| self.index.entry_at(path);
        let is_overlooked = IndexEntry::is_overlooked;
        let own = entry(path);
        if own.is_some_and(is_overlooked) {
            return Ok(Some(Uncovered::Overlooked));
        }
        let mut folder = path.parent();
        while !folder.is_top() {
            let known = entry(&folder);
            if known.is_some_and(is_overlooked) {
                return Ok(Some(Uncovered::Overlooked));
            }
            let is_submodule = known.is_some_and(|entry| entry.mode == FileMode::Gitlink);
            let git = self.repository.top().join(folder.as_path()).join(".git");
            if is_submodule || git.symlink_metadata().is_ok() {
                return Ok(Some(Uncovered::NestedRepository));
            }
            folder = folder.parent();
        }
        if own.is_none() {
            if !is_safe(path) {
                return Ok(Some(Uncovered::Name));
            }
            let below = self.index.below(0..self.index.len(), path.as_bytes());
            if self.index.entries(below).any(|(_, entry)| is_overlooked(entry)) {
                return Ok(Some(Uncovered::Overlooked));
            }
            if !self.ignored_among([path])?.is_empty() {
                return Ok(Some(Uncovered::Ignored));
            }
        }
        let is_large = size > self.options.max_file_size && self.filter_of_large(path, size)?.is_none();
        Ok(is_large.then_some(Uncovered::TooLarge))
    }
}
