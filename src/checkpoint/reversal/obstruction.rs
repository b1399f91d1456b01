//! Content in the way of files that a plan writes.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::FileMode;
use crate::checkpoint::objects::Objects;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::restore::RestorePlan;
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::tree;

/// Files whose path is blocked by unrecorded content: a folder with other files in it.
pub(in crate::checkpoint) fn blocked(
    objects: &Objects<'_>,
    now: &Snapshot,
    plan: &RestorePlan,
) -> Result<Vec<RepoPath>, CheckpointError> {
    let removed = plan.files.iter().filter(|file| file.target.is_none());
    let removed: BTreeSet<&RepoPath> = removed.map(|file| &file.path).collect();
    let removed = |path: &RepoPath| removed.contains(path);
    let mut found = Vec::new();
    let mut parents = BTreeMap::new();
    for file in plan.files.iter().filter(|file| file.target.is_some()) {
        if file.expected.is_none() && tree::has_folder(objects, now.tree, &file.path)? {
            let inside = tree::everything(objects, now.tree)?;
            let foreign = inside
                .iter()
                .filter(|path| path.is_inside(&file.path))
                .any(|path| !removed(path) && !inside.iter().any(|other| other.is_inside(path)));
            if foreign {
                found.push(file.path.clone());
            }
        }
        let mut parent = file.path.parent();
        while !parent.is_top() {
            let in_the_way = if let Some(known) = parents.get(&parent) {
                *known
            } else {
                let entry = tree::find(objects, now.tree, &parent)?;
                let is_file = entry.is_some_and(|entry| entry.mode != FileMode::Gitlink);
                *parents
                    .entry(parent.clone())
                    .or_insert(is_file && !removed(&parent))
            };
            if in_the_way {
                found.push(file.path.clone());
            }
            parent = parent.parent();
        }
    }
    Ok(found)
}
