//! Git's index: the staged files, with the stat fields that show whether they changed.
//!
//! This is a codec of its own for versions 2 to 4, because libgit2's is ten times slower and drops
//! unknown data. [`Index`] is one file in memory and immutable; [`Index::edited`] makes a new one.
//! Split and sparse files are joined and expanded on reading ([`split`], [`sparse`]), and written
//! as full ones. All writes go through [`lock::IndexLock`], git's own lock.

mod edit;
pub(crate) mod lock;
mod parse;
mod sparse;
mod split;
#[cfg(test)]
mod tests;
mod tree_cache;
mod write;

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::error::CheckpointError;
use super::object::{Entry, FileMode, ObjectFormat, ObjectId};
use super::path::RepoPath;
use super::stat::Stat;
use tree_cache::TreeCache;

/// The content of an index file.
///
/// Invariant: the entries are sorted by path and stage, as in the file, without duplicates.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The hash of its entries and its checksum.
    format: ObjectFormat,
    layout: EntryLayout,
    entries: Vec<IndexEntry>,
    /// All paths concatenated.
    paths: Vec<u8>,
    /// The end of each entry's path in `paths`; it begins at the end of the one before.
    ends: Vec<u32>,
    trees: Option<TreeCache>,
    /// The resolved conflicts, as git wrote them.
    resolved: Option<Vec<u8>>,
    stamp: Option<Stamp>,
    /// Whether the file is split or sparse.
    is_folded: bool,
}

/// The data of one file, apart from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The stat fields of the file when its content was `id`.
    pub(crate) stat: Stat,
    pub(crate) mode: FileMode,
    pub(crate) id: ObjectId,
    /// 0, or the side of a conflict: 1 is the common ancestor, 2 is ours, 3 is theirs.
    pub(crate) stage: u8,
    /// The user told git that the file does not change.
    pub(crate) assume_unchanged: bool,
    /// The file is not expected in the work tree.
    pub(crate) skip_worktree: bool,
    /// `git add -N`: the path is known, its content is not staged.
    pub(crate) intent_to_add: bool,
}

/// The layout of the entries in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryLayout {
    /// Versions 2 and 3: whole paths with padding; the version follows from the flags in use.
    Padded,
    /// Version 4: paths without the prefix that they share with the previous one.
    Compressed,
}

/// Identifies an index file. Git never writes into an index: it replaces the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    modified: (u32, u32),
}

impl Index {
    /// An index without files, as in a repository where nothing was ever staged.
    pub(crate) fn empty(format: ObjectFormat) -> Self {
        Self {
            format,
            layout: EntryLayout::Padded,
            entries: Vec::new(),
            paths: Vec::new(),
            ends: Vec::new(),
            trees: None,
            resolved: None,
            stamp: None,
            is_folded: false,
        }
    }

    /// The number of entries; a path in conflict has several.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn format(&self) -> ObjectFormat {
        self.format
    }

    /// Whether the file is split or sparse, which libgit2 cannot read.
    pub(crate) fn is_folded(&self) -> bool {
        self.is_folded
    }

    /// The files that were added with `git add -N`.
    pub(crate) fn announced(&self) -> Vec<RepoPath> {
        let announced = |at: &usize| self.get(*at).is_some_and(|entry| entry.intent_to_add);
        (0..self.len())
            .filter(announced)
            .map(|at| RepoPath::from_bytes(self.path(at)))
            .collect()
    }

    /// The path of an entry; empty beyond the last one.
    pub(crate) fn path(&self, at: usize) -> &[u8] {
        let end = self.ends.get(at).map_or(0, |end| *end as usize);
        self.paths.get(self.path_start(at)..end).unwrap_or_default()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&IndexEntry> {
        self.entries.get(at)
    }

    /// The entries of a range with their paths.
    pub(crate) fn entries(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (&[u8], &IndexEntry)> {
        range.map_while(|at| Some((self.path(at), self.get(at)?)))
    }

    /// The position of a path that is not in conflict.
    pub(crate) fn find(&self, path: &[u8]) -> Option<usize> {
        self.find_in(0..self.len(), path)
    }

    /// The entry of a path that is not in conflict.
    pub(crate) fn entry_at(&self, path: &RepoPath) -> Option<&IndexEntry> {
        self.find(path.as_bytes()).and_then(|at| self.get(at))
    }

    /// As [`Self::find`], among the entries of a range.
    pub(crate) fn find_in(&self, range: Range<usize>, path: &[u8]) -> Option<usize> {
        let found = self.stages(range, path);
        self.get(found.start)
            .filter(|entry| !found.is_empty() && entry.stage == 0)?;
        Some(found.start)
    }

    /// The entries inside a folder, searched in a range that contains all of them.
    ///
    /// A walk narrows the range folder by folder: start with `0..len()` and the top (an empty
    /// path).
    pub(crate) fn below(&self, range: Range<usize>, folder: &[u8]) -> Range<usize> {
        if folder.is_empty() {
            return range;
        }
        let start = self.partition(range.clone(), |path| {
            order_to_inside(path, folder) == Ordering::Less
        });
        let end = self.partition(start..range.end, |path| {
            order_to_inside(path, folder) == Ordering::Equal
        });
        start..end
    }

    /// The paths in conflict.
    pub(crate) fn unmerged(&self) -> Vec<RepoPath> {
        let mut paths: Vec<RepoPath> = self
            .entries(0..self.len())
            .filter(|(_, entry)| entry.stage > 0)
            .map(|(path, _)| RepoPath::from_bytes(path))
            .collect();
        paths.dedup();
        paths
    }

    /// When the file was last written (seconds and nanoseconds); `None` if there is no file.
    pub(crate) fn modified(&self) -> Option<(u32, u32)> {
        self.stamp.map(|stamp| stamp.modified)
    }

    /// Whether a file with unchanged stat fields, nanoseconds included, may have changed, because
    /// it was written at the same time as the index or later.
    pub(crate) fn is_racy(&self, entry: &IndexEntry) -> bool {
        let Some((seconds, nanos)) = self.modified() else {
            return true;
        };
        let file = entry.stat;
        // Zero nanoseconds mean a file system (or a program) that only records seconds.
        if nanos == 0 || file.modified_nanos == 0 {
            return self.is_racy_to_git(entry);
        }
        entry.mode != FileMode::Gitlink
            && (file.modified_seconds, file.modified_nanos) >= (seconds, nanos)
    }

    /// As [`Self::is_racy`] for a git that compares whole seconds only, as most builds do.
    ///
    /// [`Self::edited`] makes git check these files, because a later index would confirm them.
    pub(crate) fn is_racy_to_git(&self, entry: &IndexEntry) -> bool {
        entry.mode != FileMode::Gitlink
            && self
                .modified()
                .is_none_or(|(seconds, _)| entry.stat.modified_seconds >= seconds)
    }

    /// The tree of everything staged, if git has already written it.
    pub(crate) fn cached_tree(&self) -> Option<ObjectId> {
        self.cached_tree_of(b"")
    }

    /// The tree of a staged folder, if git has already written it.
    pub(crate) fn cached_tree_of(&self, folder: &[u8]) -> Option<ObjectId> {
        let tree = self.trees.as_ref()?.find(folder)?;
        // Git trusts the count too; a wrong one would give the tree of other files.
        (self.below(0..self.len(), folder).len() == tree.entries as usize).then_some(tree.id)
    }

    /// Whether the file on disk is still the one that was read.
    pub(crate) fn is_current(&self, path: &Path) -> Result<bool, CheckpointError> {
        match fs::metadata(path) {
            Ok(found) => Ok(self.stamp == Some(Stamp::of(&found))),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(self.stamp.is_none()),
            Err(err) => Err(CheckpointError::io("look at", path)(err)),
        }
    }

    /// Whether both were read from the same file at the same state.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.stamp.is_some() && self.stamp == other.stamp
    }

    /// All entries of one path: one, up to three in conflict, or an empty range at its position.
    fn stages(&self, range: Range<usize>, path: &[u8]) -> Range<usize> {
        let start = self.partition(range.clone(), |other| other < path);
        let count = self
            .entries(start..range.end)
            .take_while(|(other, _)| *other == path)
            .count();
        start..start + count
    }

    /// The first entry of a range whose path does not satisfy `is_before`.
    fn partition(&self, range: Range<usize>, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (range.start, range.end.max(range.start));
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.path(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn path_start(&self, at: usize) -> usize {
        at.checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |end| *end as usize)
    }
}

impl IndexEntry {
    /// A staged file without flags.
    pub(crate) fn new(entry: Entry, stat: Stat) -> Self {
        Self {
            stat,
            mode: entry.mode,
            id: entry.id,
            stage: 0,
            assume_unchanged: false,
            skip_worktree: false,
            intent_to_add: false,
        }
    }

    /// A staged file that replaces another: the user's flags of the path stay.
    pub(crate) fn renewed(old: Option<&Self>, entry: Entry, stat: Stat) -> Self {
        Self {
            assume_unchanged: old.is_some_and(|old| old.assume_unchanged),
            skip_worktree: old.is_some_and(|old| old.skip_worktree),
            ..Self::new(entry, stat)
        }
    }

    /// Whether the user told git not to look at the file: skip-worktree or assume-unchanged.
    pub(crate) fn is_overlooked(&self) -> bool {
        self.skip_worktree || self.assume_unchanged
    }

    /// Whether both have the same content in a tree, regardless of stat fields.
    fn is_same_content(&self, other: &Self) -> bool {
        (self.mode, self.id, self.stage, self.intent_to_add)
            == (other.mode, other.id, other.stage, other.intent_to_add)
    }
}

impl Stamp {
    fn of(found: &fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (truncated(found.mtime()), truncated(found.mtime_nsec())),
        }
    }
}

/// Whether a path sorts before, among or after those inside a folder.
fn order_to_inside(path: &[u8], folder: &[u8]) -> Ordering {
    match path.split_at_checked(folder.len()) {
        Some((start, rest)) => start
            .cmp(folder)
            .then_with(|| rest.first().cmp(&Some(&b'/'))),
        None => path.cmp(folder),
    }
}

/// The lower 32 bits: git stores no more of a time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "git truncates in the same way"
)]
fn truncated(number: i64) -> u32 {
    number as u32
}
