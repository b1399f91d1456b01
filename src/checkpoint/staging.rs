//! The changes of a commit or a roll back in the user's index: only the entries of its own files.

use std::collections::BTreeMap;

use super::commit::CommitPlan;
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::index::{Index, IndexEntry};
use super::merge::{Merged, three_way};
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::snapshot::Snapshot;
use super::stat::Stat;
use super::tree;

/// Entries to replace, or to remove with `None`.
pub(crate) type IndexEdits = BTreeMap<RepoPath, Option<IndexEntry>>;

/// What to do if the user has staged other changes in the lines of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnOverlap {
    /// Make no commit.
    Refuse,
    /// The commit was already decided: keep the staged content.
    KeepStaged,
}

/// The entries of a commit's files: unstaged files follow the commit, partly staged ones get the
/// step's change on top of the staged content.
pub(crate) fn of_commit(
    objects: &Objects<'_>,
    index: &Index,
    plan: &CommitPlan,
    head_tree: ObjectId,
    stat_of: &dyn Fn(&RepoPath, Entry) -> Option<Stat>,
    on_overlap: OnOverlap,
) -> Result<IndexEdits, CheckpointError> {
    let mut edits = IndexEdits::new();
    let mut overlaps = Vec::new();
    for (path, (old, new)) in &plan.cleaned {
        let staged = staged_at(index, path);
        let staged_entry = staged.map(|entry| Entry {
            mode: entry.mode,
            id: entry.id,
        });
        let committed = tree::find(objects, head_tree, path)?;
        let wanted = if staged_entry == committed {
            tree::find(objects, plan.tree, path)?
        } else {
            match three_way(objects, *old, staged_entry, *new)? {
                Merged::Clean(entry) => entry,
                Merged::Overlap if on_overlap == OnOverlap::KeepStaged => continue,
                Merged::Overlap => {
                    overlaps.push(path.clone());
                    continue;
                }
            }
        };
        if wanted.is_some() && staged_entry.is_none() && has_in_the_way(index, plan, path) {
            if on_overlap == OnOverlap::Refuse {
                overlaps.push(path.clone());
            }
            continue;
        }
        if wanted != staged_entry {
            let stat = wanted
                .and_then(|entry| stat_of(path, entry))
                .unwrap_or_default();
            edits.insert(
                path.clone(),
                wanted.map(|entry| IndexEntry::renewed(staged, entry, stat)),
            );
        } else if let Some(entry) = wanted.filter(|entry| *new == Some(*entry)) {
            // The step committed the file itself, only touched it, or changed line ends that git
            // does not store: with a stale size git would report it as modified.
            let stat = stat_of(path, entry).unwrap_or_default();
            if staged.is_some_and(|staged| staged.stat != stat) {
                edits.insert(path.clone(), Some(IndexEntry::renewed(staged, entry, stat)));
            }
        }
    }
    if overlaps.is_empty() {
        Ok(edits)
    } else {
        Err(CheckpointError::DirtyOverlap(overlaps))
    }
}

/// Whether the user has staged something that conflicts with a new file: below it, or a file in the
/// place of its folder. A path that the commit itself removes does not block its replacement.
fn has_in_the_way(index: &Index, plan: &CommitPlan, path: &RepoPath) -> bool {
    let goes = |path: &RepoPath| plan.cleaned.get(path).is_some_and(|(_, new)| new.is_none());
    let mut below = index.entries(index.below(0..index.len(), path.as_bytes()));
    if below.any(|(below, _)| !goes(&RepoPath::from_bytes(below))) {
        return true;
    }
    let mut folder = path.parent();
    while !folder.is_top() {
        if index
            .entry_at(&folder)
            .is_some_and(|entry| !entry.intent_to_add)
            && !goes(&folder)
        {
            return true;
        }
        folder = folder.parent();
    }
    false
}

/// The edits that make an index equal to a tree, regardless of staged changes.
pub(crate) fn of_tree(
    objects: &Objects<'_>,
    index: &Index,
    tree: ObjectId,
    stat_of: &dyn Fn(&RepoPath, Entry) -> Option<Stat>,
) -> Result<IndexEdits, CheckpointError> {
    let announced = index
        .entries(0..index.len())
        .filter(|(_, entry)| entry.intent_to_add);
    let mut edits: IndexEdits = announced
        .map(|(path, _)| (RepoPath::from_bytes(path), None))
        .collect();
    for (path, _, wanted) in tree::differences(objects, tree::of_index(objects, index)?, tree)? {
        let entry =
            wanted.map(|entry| IndexEntry::new(entry, stat_of(&path, entry).unwrap_or_default()));
        edits.insert(path, entry);
    }
    Ok(edits)
}

/// The entries that a step staged or unstaged, as they were before; entries with later changes are
/// kept and reported.
pub(crate) fn of_roll_back(
    objects: &Objects<'_>,
    index: &Index,
    before: &Snapshot,
    delta: &Delta,
) -> Result<(IndexEdits, Vec<RepoPath>), CheckpointError> {
    let mut edits = IndexEdits::new();
    let mut kept = Vec::new();
    let differences = match delta.index {
        Some(change) => tree::differences(objects, change.before, change.after)?,
        None => Vec::new(),
    };
    for (path, before, after) in differences {
        let staged = staged_at(index, &path);
        let now = staged.map(|entry| Entry {
            mode: entry.mode,
            id: entry.id,
        });
        if now == after {
            let entry = before.map(|entry| IndexEntry::renewed(staged, entry, Stat::default()));
            edits.insert(path, entry);
        } else if now != before {
            kept.push(path);
        }
    }
    for path in &delta.announced_added {
        if !edits.contains_key(path) && is_announced(index, path) {
            edits.insert(path.clone(), None);
        }
    }
    for path in &delta.announced_removed {
        let is_vacant = index.find(path.as_bytes()).is_none();
        if is_vacant || matches!(edits.get(path), Some(None)) {
            let mode = tree::find(objects, before.tree, path)?
                .map_or(FileMode::Regular, |entry| entry.mode);
            let entry = Entry {
                mode,
                id: objects.write_blob(b"")?,
            };
            let announced = IndexEntry {
                intent_to_add: true,
                ..IndexEntry::new(entry, Stat::default())
            };
            edits.insert(path.clone(), Some(announced));
        }
    }
    Ok((edits, kept))
}

/// Copies the contents of index entries to the user's object database.
pub(crate) fn publish(objects: &Objects<'_>, edits: &IndexEdits) -> Result<(), CheckpointError> {
    let entries = edits
        .values()
        .flatten()
        .filter(|entry| entry.mode != FileMode::Gitlink);
    objects.copy_all(&entries.map(|entry| entry.id).collect())
}

/// The effect of reverting operations on the index, one after the other, newest first.
pub(crate) struct StagedReversal<'a, 'repo> {
    objects: &'a Objects<'repo>,
    index: &'a Index,
    staged: BTreeMap<RepoPath, Option<Entry>>,
    announced: BTreeMap<RepoPath, bool>,
    overlaps: Vec<RepoPath>,
}

/// The outcome of a [`StagedReversal`].
#[derive(Debug)]
pub(crate) struct Reversed {
    pub(crate) edits: IndexEdits,
    /// Files for which the user has staged other content in the same lines.
    pub(crate) overlaps: Vec<RepoPath>,
}

impl<'a, 'repo> StagedReversal<'a, 'repo> {
    pub(crate) fn new(objects: &'a Objects<'repo>, index: &'a Index) -> Self {
        Self {
            objects,
            index,
            staged: BTreeMap::new(),
            announced: BTreeMap::new(),
            overlaps: Vec::new(),
        }
    }

    /// Reverts what a step itself staged or added with `git add -N`.
    pub(crate) fn take_back(&mut self, delta: &Delta) -> Result<(), CheckpointError> {
        let differences = match delta.index {
            Some(change) => tree::differences(self.objects, change.before, change.after)?,
            None => Vec::new(),
        };
        for (path, before, after) in differences {
            self.merge(&path, after, before)?;
        }
        self.announced.extend(
            delta
                .announced_added
                .iter()
                .map(|path| (path.clone(), false)),
        );
        self.announced.extend(
            delta
                .announced_removed
                .iter()
                .map(|path| (path.clone(), true)),
        );
        Ok(())
    }

    /// Restores what was staged before a checkpoint committed a file. `selected` is the change that
    /// it was to commit.
    pub(crate) fn uncommit(
        &mut self,
        before: &Snapshot,
        made: &Change,
        selected: (Option<Entry>, Option<Entry>),
    ) -> Result<(), CheckpointError> {
        let then = tree::find(self.objects, before.index_tree, &made.path)?;
        let (old, new) = selected;
        // The entry that the checkpoint left: see `of_commit`.
        let left = if then == made.before {
            made.after
        } else {
            match three_way(self.objects, old, then, new)? {
                Merged::Clean(entry) => entry,
                Merged::Overlap => then,
            }
        };
        if before.announced.contains(&made.path) {
            self.announced.insert(made.path.clone(), true);
        }
        self.merge(&made.path, left, then)
    }

    /// The entries to write, given the oldest restored state.
    pub(crate) fn finish(self, oldest: Option<&Snapshot>) -> Result<Reversed, CheckpointError> {
        let mut edits = IndexEdits::new();
        for (path, wanted) in self.staged {
            if wanted != staged_entry(self.index, &path) {
                let staged = staged_at(self.index, &path);
                let entry = wanted.map(|entry| IndexEntry::renewed(staged, entry, Stat::default()));
                edits.insert(path, entry);
            }
        }
        for (path, is_wanted) in self.announced {
            let is_vacant = edits
                .get(&path)
                .map_or(self.index.find(path.as_bytes()).is_none(), Option::is_none);
            if is_wanted && is_vacant {
                let found = oldest
                    .map(|before| tree::find(self.objects, before.tree, &path))
                    .transpose()?;
                let mode = found
                    .flatten()
                    .map_or(FileMode::Regular, |entry| entry.mode);
                let entry = Entry {
                    mode,
                    id: self.objects.write_blob(b"")?,
                };
                let announced = IndexEntry {
                    intent_to_add: true,
                    ..IndexEntry::new(entry, Stat::default())
                };
                edits.insert(path, Some(announced));
            } else if !is_wanted && !edits.contains_key(&path) && is_announced(self.index, &path) {
                edits.insert(path, None);
            }
        }
        Ok(Reversed {
            edits,
            overlaps: self.overlaps,
        })
    }

    /// Moves a file from one entry to another; changes that the user has staged on top stay.
    pub(crate) fn merge(
        &mut self,
        path: &RepoPath,
        from: Option<Entry>,
        to: Option<Entry>,
    ) -> Result<(), CheckpointError> {
        let current = self
            .staged
            .get(path)
            .copied()
            .unwrap_or_else(|| staged_entry(self.index, path));
        match three_way(self.objects, from, current, to)? {
            Merged::Clean(next) => {
                self.staged.insert(path.clone(), next);
            }
            Merged::Overlap => self.overlaps.push(path.clone()),
        }
        Ok(())
    }
}

fn staged_entry(index: &Index, path: &RepoPath) -> Option<Entry> {
    staged_at(index, path).map(|entry| Entry {
        mode: entry.mode,
        id: entry.id,
    })
}

fn is_announced(index: &Index, path: &RepoPath) -> bool {
    index
        .entry_at(path)
        .is_some_and(|entry| entry.intent_to_add)
}

/// The staged entry of a file, unless it is a `git add -N` entry.
fn staged_at<'index>(index: &'index Index, path: &RepoPath) -> Option<&'index IndexEntry> {
    index.entry_at(path).filter(|entry| !entry.intent_to_add)
}
