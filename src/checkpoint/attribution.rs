//! Telling what a step changed from what somebody else changed at the same time.
//!
//! The work tree belongs to people, too: they edit files while a tool runs. Where it is known which
//! files the step has touched, the others are taken out of its delta and of the snapshot after it, so
//! that they are neither committed in its name nor put back. For the next step they are simply there.

use super::checkpointer::Checkpointer;
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::object::FileMode;
use super::objects::Objects;
use super::path::RepoPath;
use super::snapshot::Snapshot;
use super::tree::{self, Edits};

/// What a step did, without what others did meanwhile.
#[derive(Debug)]
pub struct Attributed {
    /// The work tree as it would be if only the step had changed it.
    pub after: Snapshot,
    /// What the step changed.
    pub delta: Delta,
    /// The files that somebody else changed.
    pub outside: Vec<RepoPath>,
}

/// What of the changes is a step's own.
#[derive(Clone, Copy)]
pub struct Ownership<'o> {
    /// Whether it touched a file or folder.
    pub has: &'o dyn Fn(&RepoPath) -> bool,
    /// Whether it touched what is staged.
    pub index: bool,
}

impl Ownership<'_> {
    /// Nothing is known, so that everything counts as the step's.
    pub const EVERYTHING: Self = Self { has: &|_| true, index: true };
}

impl Checkpointer {
    /// Takes out of a delta what is not the step's own.
    pub fn attribute(
        &self,
        before: &Snapshot,
        after: Snapshot,
        delta: Delta,
        own: Ownership<'_>,
    ) -> Result<Attributed, CheckpointError> {
        // What happens inside another repository is not watched at its own path.
        let is_link =
            |change: &Change| [change.before, change.after].iter().flatten().any(|it| it.mode == FileMode::Gitlink);
        let (own_changes, foreign): (Vec<&Change>, Vec<&Change>) =
            delta.changes.iter().partition(|change| (own.has)(&change.path) || is_link(change));
        // A folder became empty, or has something in it now, by what happened inside it.
        let is_own_folder =
            |folder: &RepoPath| (own.has)(folder) || own_changes.iter().any(|change| change.path.is_inside(folder));
        let foreign_permissions = delta.permissions.iter().map(|change| &change.path).filter(|path| !(own.has)(path));
        let folders = delta.folders_added.iter().chain(&delta.folders_removed);
        let mut outside: Vec<RepoPath> =
            foreign.iter().map(|change| &change.path).chain(foreign_permissions).cloned().collect();
        outside.extend(folders.filter(|folder| !is_own_folder(folder)).cloned());
        outside.sort();
        outside.dedup();
        let stages = !own.index && (before.index_tree != after.index_tree || before.announced != after.announced);
        if outside.is_empty() && !stages {
            return Ok(Attributed { after, delta, outside });
        }
        let edits: Edits = foreign.iter().map(|change| (change.path.clone(), change.before)).collect();
        let (index_tree, announced) = if own.index {
            (after.index_tree, after.announced.clone())
        } else {
            (before.index_tree, before.announced.clone())
        };
        let objects = Objects::of(self.repository())?;
        let tree = tree::edit(&objects, after.tree, &edits)?;
        objects.stage()?;
        let mut permissions = after.permissions.clone();
        for path in &outside {
            permissions.exceptions.remove(path);
            if let Some(bits) = before.permissions.exceptions.get(path) {
                permissions.exceptions.insert(path.clone(), *bits);
            }
        }
        let after = Snapshot { tree, index_tree, commit: None, permissions, announced, ..after };
        let mut found = self.delta(before, &after)?;
        found.permissions.retain(|change| !outside.contains(&change.path));
        found.folders_added.retain(|folder| !outside.contains(folder));
        found.folders_removed.retain(|folder| !outside.contains(folder));
        Ok(Attributed { after, delta: found, outside })
    }
}
