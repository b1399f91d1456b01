//! Access to the user's index for the scan: its entries sorted by path.

use std::ops::Range;

use super::super::index::Index;
use super::super::object::{FileMode, ObjectFormat, ObjectId};
use super::super::stat::Stat;

/// The tracked files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackedFiles<'i>(&'i Index);

#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackedFile {
    pub(crate) stat: Stat,
    pub(crate) mode: FileMode,
    pub(crate) id: ObjectId,
    /// The user told git not to look at it: skip-worktree or assume-unchanged.
    pub(crate) overlooked: bool,
    /// A `git add -N` entry; the index does not have its content.
    pub(crate) intent_to_add: bool,
    /// It changed so shortly before the index was written that its stat fields prove nothing.
    pub(crate) racy: bool,
}

impl<'i> TrackedFiles<'i> {
    /// The files of an index without conflicts.
    pub(crate) fn of(index: &'i Index) -> Self {
        Self(index)
    }

    pub(super) fn format(self) -> ObjectFormat {
        self.0.format()
    }

    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    /// The path of an entry; empty past the end.
    pub(super) fn path(self, at: usize) -> &'i [u8] {
        self.0.path(at)
    }

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

    /// The position of a path.
    pub(super) fn find(self, path: &[u8]) -> Option<usize> {
        self.0.find(path)
    }

    /// The entries in a range that are inside a folder.
    pub(super) fn below(self, folder: &[u8], range: Range<usize>) -> Range<usize> {
        self.0.below(range, folder)
    }
}

impl TrackedFile {
    /// Whether a file with these stat fields and this mode certainly has the content in the index.
    pub(super) fn is_proved_by(&self, mode: FileMode, stat: &Stat) -> bool {
        !self.racy && self.mode == mode && self.looks_like(stat)
    }

    /// Whether the stat fields match. The device is not compared, because it changes on a reboot.
    pub(super) fn looks_like(&self, stat: &Stat) -> bool {
        // Git sets the size of an entry that it cannot confirm to 0, which an empty file would
        // match.
        let vouched = self.stat.size != 0 || self.id.is_empty_blob();
        vouched
            && Stat {
                device: stat.device,
                ..self.stat
            } == *stat
    }
}
