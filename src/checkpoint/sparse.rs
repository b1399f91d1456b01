//! The sparse checkout: which files git wants on disk.
//!
//! `git sparse-checkout` writes patterns to `info/sparse-checkout`. Git does not touch files
//! outside of them: it marks them as skip-worktree, and `git add` refuses them. Piton does the
//! same: files that a step writes there are kept, reported and can be undone, but are not
//! committed. Cone patterns mean the same when they are read as ordinary ones.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::files::{read_if_there, remove_if_there};
use super::ignore::{Letters, PathKind, Patterns};
use super::index::{Index, IndexEntry};
use super::path::RepoPath;
use super::repository::Repository;
use super::restore::RestorePlan;
use super::staging::IndexEdits;

/// The patterns of a sparse checkout.
#[derive(Debug)]
pub(crate) struct SparseCheckout {
    patterns: Patterns,
    letters: Letters,
}

impl SparseCheckout {
    fn parse(repository: &Repository, patterns: &[u8]) -> Self {
        let letters = match repository.flag("core.ignoreCase") {
            Some(true) => Letters::Folded,
            _ => Letters::Distinct,
        };
        Self {
            patterns: Patterns::parse(patterns),
            letters,
        }
    }

    /// Reads the patterns; `None` if the whole work tree is checked out.
    pub(crate) fn load(repository: &Repository) -> Result<Option<Self>, CheckpointError> {
        // Without the file git checks out everything, regardless of the settings.
        let path = repository.git_dir().join("info").join("sparse-checkout");
        let Some(bytes) = read_if_there(&path)? else {
            return Ok(None);
        };
        if !repository.flag_now("core.sparseCheckout") {
            return Ok(None);
        }
        Ok(Some(Self::parse(repository, &bytes)))
    }

    /// Whether git wants a file on disk: by its own path, or by the nearest parent that a pattern
    /// matches.
    pub(crate) fn has(&self, path: &RepoPath) -> bool {
        let mut kind = PathKind::File;
        let mut path = path.clone();
        while !path.is_top() {
            if let Some(is_wanted) = self.patterns.decide(path.as_bytes(), kind, self.letters) {
                return is_wanted;
            }
            kind = PathKind::Folder;
            path = path.parent();
        }
        false
    }
}

/// The settings of a sparse checkout, including those that `git sparse-checkout` moves between
/// config files.
const SETTINGS: [&str; 6] = [
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "index.sparse",
    "core.worktree",
    "core.bare",
    "extensions.worktreeconfig",
];

/// The files of the definition in the folder of the worktree: the patterns, and the settings of this worktree alone.
const FILES: [&str; 2] = ["info/sparse-checkout", "config.worktree"];

/// The definition of the sparse checkout before a step.
#[derive(Debug)]
pub(crate) struct SparseDefinition {
    /// The contents of [`FILES`].
    files: Vec<Option<Vec<u8>>>,
    /// The values of [`SETTINGS`] that all worktrees share.
    settings: Vec<Option<String>>,
    is_sparse: bool,
    /// The skip-worktree files; unknown after a crash.
    skipped: Option<BTreeSet<RepoPath>>,
}

/// A definition as a file beside the journal holds it.
#[derive(serde::Serialize, serde::Deserialize)]
struct SavedDefinition {
    files: Vec<Option<String>>,
    settings: Vec<Option<String>>,
    is_sparse: bool,
}

impl SparseDefinition {
    pub(crate) fn load(repository: &Repository, index: &Index) -> Result<Self, CheckpointError> {
        let mut files = Vec::new();
        for name in FILES {
            files.push(read_if_there(&repository.git_dir().join(name))?);
        }
        let config = shared_settings(repository)?;
        let settings = SETTINGS
            .into_iter()
            .map(|name| config.get_string(name).ok())
            .collect();
        let skipped = index
            .entries(0..index.len())
            .filter(|(_, entry)| entry.skip_worktree);
        let skipped = skipped
            .map(|(path, _)| RepoPath::from_bytes(path))
            .collect();
        Ok(Self {
            files,
            settings,
            is_sparse: SparseCheckout::load(repository)?.is_some(),
            skipped: Some(skipped),
        })
    }

    fn is_same_definition(&self, other: &Self) -> bool {
        (&self.files, &self.settings) == (&other.files, &other.settings)
    }

    /// Restores the patterns and settings that a step changed.
    fn put_back(&self, repository: &Repository, now: &Self) -> Result<(), CheckpointError> {
        let writing = || CheckpointError::git("put the settings of the sparse checkout back");
        let mut config = shared_settings(repository)?;
        for ((name, value), found) in SETTINGS.iter().zip(&self.settings).zip(&now.settings) {
            match value {
                _ if value == found => {}
                Some(value) => config.set_str(name, value).map_err(writing())?,
                None => config.remove(name).map_err(writing())?,
            }
        }
        for ((name, bytes), found) in FILES.iter().zip(&self.files).zip(&now.files) {
            let path = repository.git_dir().join(name);
            match bytes {
                _ if bytes == found => {}
                Some(bytes) => {
                    let folder = path.parent().unwrap_or(&path);
                    let written = std::fs::create_dir_all(folder)
                        .and_then(|()| tempfile::NamedTempFile::new_in(folder))
                        .and_then(|mut file| file.write_all(bytes).map(|()| file))
                        .and_then(|file| file.persist(&path).map_err(|err| err.error));
                    written.map_err(CheckpointError::io("write", &path))?;
                }
                None => remove_if_there(&path)?,
            }
        }
        Ok(())
    }

    /// Whether git is to keep a file off the disk that the index has; none for what the definition does not decide.
    fn skips(
        &self,
        repository: &Repository,
        plan: &RestorePlan,
    ) -> impl Fn(&RepoPath) -> Option<bool> {
        let patterns = self.files.first().and_then(Option::as_deref);
        let sparse = patterns
            .filter(|_| self.is_sparse)
            .map(|patterns| SparseCheckout::parse(repository, patterns));
        let skipped = self.skipped.clone();
        let changed: BTreeMap<RepoPath, bool> = plan
            .files
            .iter()
            .map(|file| (file.path.clone(), file.target.is_some()))
            .collect();
        move |path| match (&skipped, changed.get(path)) {
            (Some(skipped), _) => Some(skipped.contains(path)),
            // Only files that the step brought to the disk or took from it have other marks than before.
            (None, Some(true)) => Some(false),
            (None, Some(false)) => sparse
                .as_ref()
                .is_some_and(|sparse| !sparse.has(path))
                .then_some(true),
            (None, None) => None,
        }
    }
}

fn shared_settings(repository: &Repository) -> Result<git2::Config, CheckpointError> {
    let path = repository.git.commondir().join("config");
    git2::Config::open(&path).map_err(CheckpointError::git("read the settings of git"))
}

impl Checkpointer {
    /// The changes of skip-worktree flags that go with restoring the definition of the sparse
    /// checkout.
    pub(super) fn marks_of_definition(
        &self,
        index: &Index,
        plan: &RestorePlan,
    ) -> Result<IndexEdits, CheckpointError> {
        let Some(before) = &self.definition else {
            return Ok(IndexEdits::new());
        };
        if !self.has_new_definition()? {
            return Ok(IndexEdits::new());
        }
        let skips = before.skips(&self.repository, plan);
        let differs = |(path, entry): (&[u8], &IndexEntry)| {
            let path = RepoPath::from_bytes(path);
            let skip_worktree = skips(&path)?;
            let edit = IndexEntry {
                skip_worktree,
                ..*entry
            };
            (skip_worktree != entry.skip_worktree).then_some((path, Some(edit)))
        };
        Ok(index.entries(0..index.len()).filter_map(differs).collect())
    }

    /// Puts the definition of the sparse checkout back that a step changed. The marks of the index are written before:
    /// where this is cut off, the next recovery finds that the definition differs and does both again.
    pub(super) fn put_definition_back(&self) -> Result<(), CheckpointError> {
        let Some(before) = &self.definition else {
            return Ok(());
        };
        let index = Index::empty(self.repository.format());
        before.put_back(
            &self.repository,
            &SparseDefinition::load(&self.repository, &index)?,
        )
    }

    /// Whether git keeps some files off the disk.
    pub fn is_sparse(&self) -> bool {
        self.sparse.is_some()
    }

    /// The definition of the sparse checkout before the step, to be read by [`Self::expect_definition`] after a crash.
    pub fn saved_definition(&self) -> Option<Vec<u8>> {
        let definition = self.definition.as_ref()?;
        let text = |bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => String::from_utf8(bytes.clone()).map(Some),
            None => Ok(None),
        };
        let files = definition.files.iter().map(text);
        let saved = SavedDefinition {
            files: files.collect::<Result<_, _>>().ok()?,
            settings: definition.settings.clone(),
            is_sparse: definition.is_sparse,
        };
        serde_json::to_vec(&saved).ok()
    }

    /// Lets a roll back put a saved definition of the sparse checkout back.
    pub fn expect_definition(&mut self, saved: &[u8]) {
        let saved: Option<SavedDefinition> = serde_json::from_slice(saved).ok();
        let is_whole = |saved: &SavedDefinition| {
            (saved.files.len(), saved.settings.len()) == (FILES.len(), SETTINGS.len())
        };
        if let Some(saved) = saved.filter(is_whole) {
            let bytes = |text: Option<String>| text.map(String::into_bytes);
            self.definition = Some(SparseDefinition {
                files: saved.files.into_iter().map(bytes).collect(),
                settings: saved.settings,
                is_sparse: saved.is_sparse,
                skipped: None,
            });
        }
    }

    /// Leaves the definition of the sparse checkout alone: the step did not touch it.
    pub fn leave_definition(&mut self) {
        self.definition = None;
    }

    /// Whether a step changed the definition of the sparse checkout.
    pub(super) fn has_new_definition(&self) -> Result<bool, CheckpointError> {
        let Some(before) = &self.definition else {
            return Ok(false);
        };
        Ok(!before.is_same_definition(&SparseDefinition::load(
            &self.repository,
            &Index::empty(self.repository.format()),
        )?))
    }

    /// Whether a file is outside of the sparse checkout.
    pub(super) fn is_outside_sparse(&self, path: &RepoPath) -> bool {
        self.sparse.as_ref().is_some_and(|sparse| !sparse.has(path))
    }

    /// Whether git keeps a missing file off the disk: it is marked as skip-worktree, or will be.
    pub(super) fn belongs_off_disk(&self, path: &RepoPath) -> bool {
        match self.index.entry_at(path) {
            Some(entry) => entry.skip_worktree,
            None => self.is_outside_sparse(path),
        }
    }

    /// Whether a plan removes files outside of the sparse checkout from disk.
    pub(super) fn clears_outside(&self, plan: &RestorePlan) -> bool {
        plan.files
            .iter()
            .any(|file| file.target.is_none() && self.is_outside_sparse(&file.path))
    }

    /// Marks files outside of the sparse checkout that a plan removed from disk as skip-worktree
    /// again: git clears the flag when it finds such a file.
    pub(super) fn skip_cleared(
        &self,
        index: &Index,
        plan: &RestorePlan,
        edits: &mut IndexEdits,
    ) -> Result<(), CheckpointError> {
        let cleared = plan
            .files
            .iter()
            .filter(|file| file.target.is_none() && self.is_outside_sparse(&file.path));
        for file in cleared {
            let staged = edits
                .get(&file.path)
                .copied()
                .unwrap_or_else(|| index.entry_at(&file.path).copied());
            if let Some(entry) = staged.filter(|entry| !entry.skip_worktree && !entry.intent_to_add)
                && self.work_tree.state(&file.path)?.is_none()
            {
                edits.insert(
                    file.path.clone(),
                    Some(IndexEntry {
                        skip_worktree: true,
                        ..entry
                    }),
                );
            }
        }
        Ok(())
    }

    /// Marks new entries outside of the sparse checkout as skip-worktree, unless the file is on
    /// disk.
    pub(super) fn skip_outside(
        &self,
        index: &Index,
        edits: &mut IndexEdits,
    ) -> Result<(), CheckpointError> {
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
