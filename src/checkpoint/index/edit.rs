//! Makes a new index from an old one: replaces some paths and copies the rest in ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::path::RepoPath;
use super::{Index, IndexEntry};

impl Index {
    /// The index with these paths replaced, or removed if there is no entry.
    ///
    /// A file that replaces a folder removes the folder's entries, and vice versa. All sides of a
    /// conflict are replaced. An edit that only sets new stat fields keeps the cached trees valid:
    /// a caller uses it to confirm a file that [`Self::is_racy_to_git`]. All other racy files get
    /// the size 0, so that git checks their content: the new index file will be younger than they
    /// are, and git would otherwise trust stat fields from before a change in the same second.
    ///
    /// The paths must be valid in git: not empty, without a zero byte.
    pub(crate) fn edited(&self, edits: &BTreeMap<RepoPath, Option<IndexEntry>>) -> Self {
        self.edited_vouching(edits, &|_, _| false)
    }

    /// As [`Self::edited`], but keeps the size of racy entries that the caller confirms, because it
    /// has read the file in a later second than it was written.
    pub(crate) fn edited_vouching(
        &self,
        edits: &BTreeMap<RepoPath, Option<IndexEntry>>,
        is_vouched: &dyn Fn(&[u8], &IndexEntry) -> bool,
    ) -> Self {
        let mut trees = self.trees.clone();
        let mut steps = Vec::with_capacity(edits.len());
        for (path, entry) in edits {
            let path = path.as_bytes();
            let old = self.stages(0..self.len(), path);
            match (entry, old.is_empty()) {
                (None, true) => continue,
                (Some(_), true) => {
                    steps.extend(
                        self.in_the_way(path)
                            .map(|gone| IndexEdit { gone, added: None }),
                    );
                }
                _ => {}
            }
            let is_refresh = old.len() == 1
                && matches!((self.get(old.start), entry), (Some(old), Some(new)) if old.is_same_content(new));
            if let Some(trees) = trees.as_mut().filter(|_| !is_refresh) {
                trees.invalidate(path);
            }
            let added = entry
                .as_ref()
                .filter(|_| !has_file_inside(edits, path))
                .map(|entry| (path, entry));
            steps.push(IndexEdit { gone: old, added });
        }
        // A stable sort: edits at one position stay sorted by path.
        steps.sort_by_key(|step| step.gone.start);

        let added: usize = steps
            .iter()
            .filter_map(|step| step.added)
            .map(|(path, _)| path.len())
            .sum();
        let mut new = Self {
            format: self.format,
            layout: self.layout,
            entries: Vec::with_capacity(self.len() + edits.len()),
            paths: Vec::with_capacity(self.paths.len() + added),
            ends: Vec::with_capacity(self.len() + edits.len()),
            trees,
            resolved: self.resolved.clone(),
            // Keep the old file's time: older files cannot have changed unseen, all others may
            // have.
            stamp: self.stamp,
            is_folded: false,
        };
        let mut copied = 0;
        for step in steps {
            new.copy(self, copied..step.gone.start, is_vouched);
            copied = copied.max(step.gone.end);
            if let Some((path, entry)) = step.added {
                new.paths.extend_from_slice(path);
                new.ends.push(offset(new.paths.len()));
                new.entries.push(*entry);
            }
        }
        new.copy(self, copied..self.len(), is_vouched);
        new
    }

    /// The entries that a new file replaces: a folder with its name, or a file in the place of a
    /// parent folder.
    fn in_the_way<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        let folders = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .filter_map(|(at, _)| path.get(..at));
        folders
            .map(|folder| self.stages(0..self.len(), folder))
            .chain([self.below(0..self.len(), path)])
            .filter(|gone| !gone.is_empty())
    }

    /// Appends entries of another index; marks racy ones so that git checks the file.
    fn copy(
        &mut self,
        from: &Self,
        range: Range<usize>,
        is_vouched: &dyn Fn(&[u8], &IndexEntry) -> bool,
    ) {
        let (Some(entries), Some(ends)) = (
            from.entries.get(range.clone()),
            from.ends.get(range.clone()),
        ) else {
            return; // Already copied or taken away: an edit lies inside of what another one removed.
        };
        let bytes = from.path_start(range.start)..from.path_start(range.end);
        let shift = offset(self.paths.len()).wrapping_sub(offset(bytes.start));
        self.paths
            .extend_from_slice(from.paths.get(bytes).unwrap_or_default());
        self.ends
            .extend(ends.iter().map(|end| end.wrapping_add(shift)));
        self.entries.extend(range.zip(entries).map(|(at, entry)| {
            let mut entry = *entry;
            if from.is_racy_to_git(&entry) && !is_vouched(from.path(at), &entry) {
                entry.stat.size = 0;
            }
            entry
        }));
    }
}

/// One position of the old index: the removed and the new entries.
struct IndexEdit<'a> {
    gone: Range<usize>,
    added: Option<(&'a [u8], &'a IndexEntry)>,
}

/// Whether the edits put a file inside the folder with this name, so that it cannot be a file.
fn has_file_inside(edits: &BTreeMap<RepoPath, Option<IndexEntry>>, path: &[u8]) -> bool {
    let mut inside = path.to_vec();
    inside.push(b'/');
    edits
        .range(RepoPath::from_bytes(inside.as_slice())..)
        .take_while(|(other, _)| other.as_bytes().starts_with(&inside))
        .any(|(_, entry)| entry.is_some())
}

/// An offset in the arena. Indexes with four gigabytes of paths are refused on reading, and no edit
/// adds as much.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
