//! Stat fields for new index entries, so that git does not read the files again.
//!
//! An entry gets the stat fields of its file only if the file was read just now and has the content that the entry
//! stores. The index is dated by the time before the reading, so that git checks every file that was written since.

use rayon::prelude::*;

use super::checkpointer::Checkpointer;
use super::index::IndexEntry;
use super::no_follow::{OpenFolders, PathState};
use super::object::{FileMode, ObjectFormat, ObjectId};
use super::path::RepoPath;
use super::staging::IndexEdits;
use super::stat::Stat;

/// How many adjacent files one core reads.
const NEIGHBOURS: usize = 64;

impl Checkpointer {
    /// Gives the entries without stat fields those of their files. Returns the date of the index; zero if it is unknown.
    ///
    /// A file that cannot be read costs git another look at it, and is no error.
    pub(super) fn add_stats(&self, edits: &mut IndexEdits) -> (u32, u32) {
        let is_wanted = |entry: &IndexEntry| {
            entry.stat == Stat::default()
                && entry.mode != FileMode::Gitlink
                && !entry.intent_to_add
                && !entry.skip_worktree
        };
        let mut wanted: Vec<(&RepoPath, &mut IndexEntry)> = edits
            .iter_mut()
            .filter_map(|(path, entry)| Some((path, entry.as_mut().filter(|it| is_wanted(it))?)))
            .collect();
        if wanted.is_empty() {
            return (0, 0);
        }
        let Ok(began) = self.work_tree.now() else {
            return (0, 0);
        };
        let work_tree = &self.work_tree;
        let neighbours = wanted.par_chunks(NEIGHBOURS).map(|files| {
            let mut folders = OpenFolders::of(work_tree);
            let read = files
                .iter()
                .map(|(path, entry)| read(&mut folders, path, entry.mode, entry.id.format()));
            read.collect::<Vec<_>>()
        });
        let found: Vec<Option<(ObjectId, Stat)>> = neighbours.flatten_iter().collect();
        for ((path, entry), found) in wanted.iter_mut().zip(found) {
            let is_stored =
                |raw: ObjectId| raw == entry.id || self.filters.find(path, raw) == Some(entry.id);
            if let Some((_, stat)) = found.filter(|(raw, _)| is_stored(*raw)) {
                entry.stat = stat;
            }
        }
        began
    }
}

/// The id of the bytes on disk with the stat fields at that moment, if the file is of the kind of an entry.
fn read(
    folders: &mut OpenFolders<'_>,
    path: &RepoPath,
    mode: FileMode,
    format: ObjectFormat,
) -> Option<(ObjectId, Stat)> {
    let (bytes, stat) = match folders.state(path).ok()?? {
        PathState::File { .. } => match folders.read(path).ok()?? {
            (bytes, PathState::File { stat, .. }) => (bytes, stat),
            _ => return None,
        },
        before @ PathState::Symlink { stat } if mode == FileMode::Symlink => {
            let target = folders.read_link(path).ok()??;
            let is_same = folders.state(path).ok()? == Some(before);
            is_same.then_some((target, stat))?
        }
        _ => return None,
    };
    let id = format.name(git2::ObjectType::Blob, &bytes).ok()?;
    Some((id, stat))
}
