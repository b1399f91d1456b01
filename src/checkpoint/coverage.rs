//! Whether snapshots cover a file, checked before an operation that only a snapshot could undo.
//!
//! The rules are those of the walk over the work tree (`scan`), for a single path that need not
//! exist. [`Uncovered`] is the reason why a snapshot would not cover it.

use std::path::Path;

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::index::IndexEntry;
use super::no_follow::is_safe;
use super::object::FileMode;
use super::path::RepoPath;
use crate::problem::Code;

/// Why no snapshot covers a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// Git ignores it and does not track it.
    Ignored,
    /// It is in a submodule or another nested repository.
    NestedRepository,
    /// The user told git to overlook it: skip-worktree or assume-unchanged.
    Overlooked,
    /// It is over `checkpoint.max_file_size`.
    TooLarge,
    /// Its name could be taken for `.git`.
    Name,
}

impl Uncovered {
    pub(super) fn code(self) -> Code {
        match self {
            Self::Ignored => Code::IgnoredByGit,
            Self::NestedRepository | Self::Overlooked | Self::TooLarge | Self::Name => {
                Code::OutsideCheckpoints
            }
        }
    }

    /// A message about a file.
    pub fn about(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Ignored => format!("git ignores `{path}`"),
            Self::NestedRepository => format!("`{path}` is in a nested repository"),
            Self::Overlooked => format!("git was told to overlook `{path}`"),
            Self::TooLarge => format!("`{path}` is over `checkpoint.max_file_size`"),
            Self::Name => format!("git cannot store a file with the name `{path}`"),
        }
    }

    /// How to fix it.
    pub(super) fn hint(self) -> String {
        let mend = match self {
            Self::Ignored => "take it out of `.gitignore`",
            Self::NestedRepository => "keep the project's scripts and tools in its own repository",
            Self::Overlooked => {
                "track it again with `git update-index --no-skip-worktree` or `--no-assume-unchanged`"
            }
            Self::TooLarge => "raise `checkpoint.max_file_size`",
            Self::Name => "rename it",
        };
        format!("{mend}, or turn checkpoints off: `--checkpoint disabled`")
    }
}

impl Checkpointer {
    /// Why snapshots would not cover a file with this size at a path, existing or not; `None` if
    /// they would.
    pub fn uncovered(
        &self,
        path: &RepoPath,
        size: u64,
    ) -> Result<Option<Uncovered>, CheckpointError> {
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
            if self
                .index
                .entries(below)
                .any(|(_, entry)| is_overlooked(entry))
            {
                return Ok(Some(Uncovered::Overlooked));
            }
            if !self.ignored_among([path])?.is_empty() {
                return Ok(Some(Uncovered::Ignored));
            }
        }
        let is_large =
            size > self.options.max_file_size && self.filter_of_large(path, size)?.is_none();
        Ok(is_large.then_some(Uncovered::TooLarge))
    }
}
