//! The sparse checkout: which files git wants on disk.
//!
//! `git sparse-checkout` writes patterns to `info/sparse-checkout`. Git leaves files outside of them alone: it marks them as
//! skip-worktree, and `git add` refuses them. Piton does the same: what a step writes there is kept, named and can be
//! undone, and is in no commit. The patterns of the cone mode mean the same when they are read as ordinary ones.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::files::{read_if_there, remove_if_there};
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

/// The settings of a sparse checkout, and those that `git sparse-checkout` moves between files of settings.
const SETTINGS: [&str; 6] = [
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "index.sparse",
    "core.worktree",
    "core.bare",
    "extensions.worktreeconfig",
];

/// What decides which files git wants on disk, as it was before a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SparseDefinition {
    /// The patterns, and the settings of this worktree alone.
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// The settings that all worktrees share.
    settings: Vec<(&'static str, Option<String>)>,
    /// The files that git was told to keep off the disk.
    skipped: BTreeSet<RepoPath>,
}

impl SparseDefinition {
    pub(crate) fn load(repository: &Repository, index: &Index) -> Result<Self, CheckpointError> {
        let git_dir = repository.git_dir();
        let mut files = Vec::new();
        for path in [git_dir.join("info").join("sparse-checkout"), git_dir.join("config.worktree")] {
            let bytes = read_if_there(&path)?;
            files.push((path, bytes));
        }
        let config = shared_settings(repository)?;
        let settings = SETTINGS.into_iter().map(|name| (name, config.get_string(name).ok())).collect();
        let skipped = index.entries(0..index.len()).filter(|(_, entry)| entry.skip_worktree);
        let skipped = skipped.map(|(path, _)| RepoPath::from_bytes(path)).collect();
        Ok(Self { files, settings, skipped })
    }

    fn is_same_definition(&self, other: &Self) -> bool {
        (&self.files, &self.settings) == (&other.files, &other.settings)
    }

    /// Writes the patterns and the settings that a step changed as they were.
    fn put_back(&self, repository: &Repository, now: &Self) -> Result<(), CheckpointError> {
        let writing = || CheckpointError::git("put the settings of the sparse checkout back");
        let mut config = shared_settings(repository)?;
        for ((name, value), (_, found)) in self.settings.iter().zip(&now.settings).filter(|(old, now)| old != now) {
            match value {
                Some(value) => config.set_str(name, value).map_err(writing())?,
                None if found.is_some() => config.remove(name).map_err(writing())?,
                None => {}
            }
        }
        for ((path, bytes), _) in self.files.iter().zip(&now.files).filter(|(old, now)| old != now) {
            match bytes {
                Some(bytes) => {
                    let folder = path.parent().unwrap_or(path);
                    let written = std::fs::create_dir_all(folder)
                        .and_then(|()| tempfile::NamedTempFile::new_in(folder))
                        .and_then(|mut file| file.write_all(bytes).map(|()| file))
                        .and_then(|file| file.persist(path).map_err(|err| err.error));
                    written.map_err(CheckpointError::io("write", path))?;
                }
                None => remove_if_there(path)?,
            }
        }
        Ok(())
    }
}

fn shared_settings(repository: &Repository) -> Result<git2::Config, CheckpointError> {
    let path = repository.git.commondir().join("config");
    git2::Config::open(&path).map_err(CheckpointError::git("read the settings of git"))
}

impl Checkpointer {
    /// Puts the definition of the sparse checkout back that a step changed; says which marks of the index go with it.
    pub(super) fn put_definition_back(&self, index: &Index) -> Result<IndexEdits, CheckpointError> {
        // After a crash it is not known any more.
        let Some(before) = &self.definition else { return Ok(IndexEdits::new()) };
        let now = SparseDefinition::load(&self.repository, index)?;
        if before.is_same_definition(&now) {
            return Ok(IndexEdits::new());
        }
        before.put_back(&self.repository, &now)?;
        let differs = |(path, entry): (&[u8], &IndexEntry)| {
            let path = RepoPath::from_bytes(path);
            let skip_worktree = before.skipped.contains(&path);
            let edit = IndexEntry { skip_worktree, ..*entry };
            (skip_worktree != entry.skip_worktree).then_some((path, Some(edit)))
        };
        Ok(index.entries(0..index.len()).filter_map(differs).collect())
    }

    /// Whether a step changed the definition of the sparse checkout.
    pub(super) fn has_new_definition(&self) -> Result<bool, CheckpointError> {
        let Some(before) = &self.definition else { return Ok(false) };
        Ok(!before
            .is_same_definition(&SparseDefinition::load(&self.repository, &Index::empty(self.repository.format()))?))
    }

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
