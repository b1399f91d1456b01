//! What the scan asks of the user's index: its entries in the order of their paths.

use std::ops::Range;

use super::super::index::Index;
use super::super::object::{FileMode, ObjectFormat, ObjectId};
use super::super::stat::Stat;

/// The tracked files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked<'i>(&'i Index);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackedFile {
    pub(crate) stat: Stat,
    pub(crate) mode: FileMode,
    pub(crate) id: ObjectId,
    /// The user told git not to look at it: skip-worktree or assume-unchanged.
    pub(crate) overlooked: bool,
    /// It is announced only (`git add -N`); the index has no content of it.
    pub(crate) intent_to_add: bool,
    /// It was changed so shortly before the index was written that its stat proves nothing.
    pub(crate) racy: bool,
}

impl<'i> Tracked<'i> {
    /// The files of an index without conflicts.
    pub(crate) fn of(index: &'i Index) -> Self {
        Self(index)
    }

    /// How objects are named.
    pub(super) fn format(self) -> ObjectFormat {
        self.0.format()
    }

    /// How many there are.
    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    /// The path of one; nothing past the end.
    pub(super) fn path(self, at: usize) -> &'i [u8] {
        self.0.path(at)
    }

    /// One of them.
    pub(super) fn entry(self, at: usize) -> Option<TrackedFile> {
        let entry = self.0.get(at)?;
        Some(TrackedFile {
            stat: entry.stat,
            mode: entry.mode,
            id: entry.id,
            overlooked: entry.is_overlooked(),
            intent_to_add: entry.intent_to_add,
            racy: self.0.is_racy(entry),
        })
    }

    /// Where a path is.
    pub(super) fn find(self, path: &[u8]) -> Option<usize> {
        self.0.find(path)
    }

    /// The entries in a range that are inside a folder.
    pub(super) fn below(self, folder: &[u8], range: Range<usize>) -> Range<usize> {
        self.0.below(range, folder)
    }
}

impl TrackedFile {
    /// Whether a file with this stat and mode is certainly the one that the index knows.
    pub(super) fn is_proved_by(&self, mode: FileMode, stat: &Stat) -> bool {
        !self.racy && self.mode == mode && self.looks_like(stat)
    }

    /// Whether the stat is the recorded one. The device is not compared: it changes when a machine starts.
    pub(super) fn looks_like(&self, stat: &Stat) -> bool {
        // Git empties the size of an entry that it cannot vouch for; an empty file would match it.
        let vouched = self.stat.size != 0 || self.id.is_empty_blob();
        vouched && Stat { device: stat.device, ..self.stat } == *stat
    }
}
