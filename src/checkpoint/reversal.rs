//! Undoing a step on top of what is there now.

use super::checkpointer::Checkpointer;
use super::delta::Delta;
use super::error::CheckpointError;
use super::merge::{Merged, three_way};
use super::object::{Entry, FileMode};
use super::objects::Objects;
use super::path::RepoPath;
use super::restore::{Placement, Plan};
use super::snapshot::{PermissionKind, Snapshot};
use super::tree;

/// A change to take back: from `after` to `before`, limited to the paths of the delta.
#[derive(Clone, Copy, Debug)]
pub struct Reversal<'a> {
    /// The state to go back to.
    pub before: &'a Snapshot,
    /// The state that the change led to.
    pub after: &'a Snapshot,
    /// The change.
    pub delta: &'a Delta,
}

/// How a change can be taken back.
#[derive(Clone, Debug, Default)]
pub struct Inverse {
    /// What to put where.
    pub plan: Plan,
    /// What it does to the index.
    pub delta: Delta,
    /// Files that somebody has changed in a way that cannot be merged.
    pub conflicts: Vec<RepoPath>,
}

impl Checkpointer {
    /// Works out how to take a change back, given what is there now.
    pub fn invert(&self, now: &Snapshot, reversal: &Reversal<'_>) -> Result<Inverse, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let mut plan = Plan::inverse(&objects, reversal.before, reversal.delta)?;
        let mut conflicts = Vec::new();
        let mut files = Vec::new();
        for file in std::mem::take(&mut plan.files) {
            let current = tree::find(&objects, now.tree, &file.path)?;
            match three_way(&objects, file.expected, current, file.target)? {
                Merged::Overlap => conflicts.push(file.path),
                Merged::Clean(target) if target == current => {}
                Merged::Clean(target) => {
                    let permissions = permissions_for(now, &file, current, target);
                    files.push(Placement { path: file.path, expected: current, target, permissions });
                }
            }
        }
        objects.sync()?;
        plan.files = files;
        conflicts.extend(blocked(&objects, now, &plan)?);
        conflicts.extend(plan.obstructed(&self.work_tree)?);
        conflicts.sort();
        conflicts.dedup();
        let delta = Delta {
            index: reversal.delta.index,
            announced_added: reversal.delta.announced_added.clone(),
            announced_removed: reversal.delta.announced_removed.clone(),
            ..Delta::default()
        };
        Ok(Inverse { plan, delta, conflicts })
    }
}

/// The bits of a file that was merged are those it has now; of one that is put back, those it had.
fn permissions_for(now: &Snapshot, file: &Placement, current: Option<Entry>, target: Option<Entry>) -> u32 {
    if target == file.target {
        return file.permissions;
    }
    let kind = current.and_then(|entry| PermissionKind::of(entry.mode)).unwrap_or(PermissionKind::File);
    now.permissions.of(&file.path, kind)
}

/// Files whose place is taken by something that nobody recorded: a folder with other files in it.
pub(super) fn blocked(objects: &Objects<'_>, now: &Snapshot, plan: &Plan) -> Result<Vec<RepoPath>, CheckpointError> {
    let removed = |path: &RepoPath| plan.files.iter().any(|file| file.target.is_none() && file.path == *path);
    let mut found = Vec::new();
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
            let in_the_way =
                tree::find(objects, now.tree, &parent)?.is_some_and(|entry| entry.mode != FileMode::Gitlink);
            if in_the_way && !removed(&parent) {
                found.push(file.path.clone());
            }
            parent = parent.parent();
        }
    }
    Ok(found)
}
