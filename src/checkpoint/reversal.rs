//! Reverts operations on top of the current files.
//!
//! An [`StepOperation`] contains what a step did to files, index and branch. [`Checkpointer::invert`]
//! plans how to revert several of them at once, newest first, without side effects;
//! [`Checkpointer::apply_inverse`] writes files and index. The commit is planned here and made by
//! the caller.

mod obstruction;
mod permission_bits;

use std::collections::{BTreeMap, BTreeSet};

use super::checkpointer::Checkpointer;
use super::commit::{CommitPlan, LeftAlone};
use super::delta::{Change, Delta, IndexChange, PermissionChange};
use super::error::CheckpointError;
use super::index::Index;
use super::merge::{Merged, three_way};
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::restore::{Instead, Placement, RestorePlan, RestoreReport, Unwritten};
use super::snapshot::{PermissionKind, Snapshot};
use super::staging::{self, OnOverlap, StagedReversal};
use super::tree::{self, Edits};

pub(super) use obstruction::blocked;
use permission_bits::Bits;

/// The effect of a step, to be reverted.
#[derive(Clone, Debug)]
pub struct StepOperation {
    /// The state before.
    pub before: Snapshot,
    /// The state after.
    pub after: Snapshot,
    /// Its changes on disk and in the index.
    pub delta: Delta,
    /// What to revert.
    pub reach: ReversalScope,
    pub committed: CommittedPart,
}

/// Which part of an operation to revert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReversalScope {
    /// The files, the index and the commit.
    Files,
    /// Only the commit: its content stays on disk.
    Commit,
}

/// Which part of an operation is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommittedPart {
    /// None.
    No,
    /// These changes, in the stored form, in its own commit.
    Own(Vec<Change>),
    /// All of it, in the commit of a later checkpoint.
    Later,
}

/// A plan to revert operations.
#[derive(Clone, Debug, Default)]
pub struct Inverse {
    /// The writes to disk.
    pub plan: RestorePlan,
    /// The commit to make; `None` if HEAD contains none of them.
    pub commit: Option<CommitPlan>,
    /// Files that get merged content: later edits of other lines stay.
    pub merged: Vec<RepoPath>,
    /// Files with later changes on disk, in the index or in HEAD that cannot be merged.
    pub conflicts: Vec<RepoPath>,
    /// Paths that the system does not allow piton to write.
    pub unwritable: Vec<Unwritten>,
    /// Nested repositories that are at another commit than before.
    pub repositories: Vec<LeftRepository>,
}

impl Inverse {
    /// Fails if the system would not allow the writes, unless there are conflicts, which take
    /// precedence.
    pub fn require_writable(self) -> Result<Self, CheckpointError> {
        if self.unwritable.is_empty() || !self.conflicts.is_empty() {
            return Ok(self);
        }
        Err(CheckpointError::Unwritable(self.unwritable))
    }
}

/// A nested repository whose files stay as they are, as with git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftRepository {
    pub path: RepoPath,
    /// Its current HEAD; `None` if it is not checked out.
    pub current: Option<Entry>,
    /// Its earlier commit; `None` if it did not exist.
    pub target: Option<Entry>,
    /// Whether the index will contain that commit.
    pub recorded: bool,
}

impl LeftRepository {
    /// A description of its state.
    pub fn place(&self) -> String {
        let path = &self.path;
        match self.current {
            Some(entry) => format!(
                "`{path}` is a repository of its own and stays at {}",
                entry.id.short()
            ),
            None => format!("`{path}` is a repository of its own and is not checked out"),
        }
    }

    /// The command that checks out the earlier commit.
    pub fn way_back(&self) -> Option<String> {
        let (path, commit) = (&self.path, self.target?.id.short());
        let command = if self.recorded || self.current.is_none() {
            format!("git submodule update --init {path}")
        } else {
            format!("git -C {path} checkout {commit}")
        };
        Some(format!("`{command}` checks out {commit} there"))
    }

    /// Both, in one line.
    pub fn note(&self) -> String {
        self.way_back()
            .map_or_else(|| self.place(), |way| format!("{}; {way}", self.place()))
    }
}

impl StepOperation {
    /// Whether a change of a file is committed.
    fn has_committed(&self) -> impl Fn(&RepoPath) -> bool {
        let own: BTreeSet<&RepoPath> = match &self.committed {
            CommittedPart::No | CommittedPart::Later => BTreeSet::new(),
            CommittedPart::Own(changes) => changes.iter().map(|change| &change.path).collect(),
        };
        move |path| self.committed == CommittedPart::Later || own.contains(path)
    }

    /// Its changes on disk, by path.
    fn changes_by_path(&self) -> BTreeMap<&RepoPath, &Change> {
        self.delta
            .changes
            .iter()
            .map(|change| (&change.path, change))
            .collect()
    }

    /// The opposite operation: reverting it applies this one again.
    #[must_use]
    pub fn inverse(self) -> Self {
        let Self {
            before,
            after,
            delta,
            reach,
            committed,
        } = self;
        let swapped = |changes: Vec<Change>| changes.iter().map(Change::inverse).collect();
        let delta = Delta {
            changes: swapped(delta.changes),
            folders_added: delta.folders_removed,
            folders_removed: delta.folders_added,
            permissions: delta
                .permissions
                .iter()
                .map(PermissionChange::inverse)
                .collect(),
            index: delta.index.map(|index| IndexChange {
                before: index.after,
                after: index.before,
            }),
            announced_added: delta.announced_removed,
            announced_removed: delta.announced_added,
            not_captured: delta.not_captured,
            too_large: delta.too_large,
            stored_before: BTreeMap::new(),
        };
        let committed = match committed {
            CommittedPart::Own(changes) => CommittedPart::Own(swapped(changes)),
            other => other,
        };
        Self {
            before: after,
            after: before,
            delta,
            reach,
            committed,
        }
    }
}

impl Checkpointer {
    /// Includes the files of operations in later snapshots even if git ignores them now, and
    /// remembers their stored form, so that restored files are committed as before.
    pub fn expect_back(&mut self, operations: &[StepOperation]) -> Result<(), CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let mut returning: BTreeMap<RepoPath, BTreeSet<ObjectId>> = BTreeMap::new();
        for operation in operations {
            let mut trees = Vec::new();
            for commit in [operation.before.head.commit, operation.after.head.commit]
                .into_iter()
                .flatten()
            {
                // The commit may have been pruned.
                if self.repository.find_commit(commit)?.is_some() {
                    trees.push(self.repository.tree_of(Some(commit))?);
                }
            }
            for change in &operation.delta.changes {
                let stored = returning.entry(change.path.clone()).or_default();
                for tree in &trees {
                    match tree::find(&objects, *tree, &change.path) {
                        Err(CheckpointError::Missing { .. }) => {}
                        found => stored.extend(found?.map(|entry| entry.id)),
                    }
                }
            }
            if let CommittedPart::Own(changes) = &operation.committed {
                for change in changes {
                    let entries = [change.before, change.after].into_iter().flatten();
                    returning
                        .entry(change.path.clone())
                        .or_default()
                        .extend(entries.map(|entry| entry.id));
                }
            }
        }
        self.returning = returning;
        Ok(())
    }

    /// Plans how to revert operations, newest first, given the current state.
    pub fn invert(
        &self,
        now: &Snapshot,
        operations: &[StepOperation],
    ) -> Result<Inverse, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let mut inverse = Inverse::default();
        self.invert_files(&objects, now, operations, &mut inverse)?;
        let head_tree = self.repository.tree_of(now.head.commit)?;
        let mut heads: BTreeMap<RepoPath, Option<Entry>> = BTreeMap::new();
        for operation in operations {
            for change in self.committed_changes(&objects, operation)? {
                let current = match heads.get(&change.path) {
                    Some(entry) => *entry,
                    None => tree::find(&objects, head_tree, &change.path)?,
                };
                match three_way(&objects, change.after, current, change.before)? {
                    Merged::Overlap => inverse.conflicts.push(change.path),
                    Merged::Clean(next) => {
                        heads.insert(change.path, next);
                    }
                }
            }
        }
        for left in &mut inverse.repositories {
            left.recorded |= heads.get(&left.path) == Some(&left.target);
        }
        inverse.commit =
            self.plan_inverse(&objects, now, operations, &heads, &mut inverse.conflicts)?;
        let reversed = self.reversed_index(&objects, &self.index, operations)?;
        inverse.conflicts.extend(reversed.overlaps);
        if let Some(commit) = &inverse.commit {
            let index = self.index.edited(&reversed.edits);
            match staging::of_commit(
                &objects,
                &index,
                commit,
                head_tree,
                &|_, _| None,
                OnOverlap::Refuse,
            ) {
                Ok(_) => {}
                Err(CheckpointError::DirtyOverlap(staged)) => inverse.conflicts.extend(staged),
                Err(err) => return Err(err),
            }
        }
        objects.stage()?;
        inverse.conflicts.sort();
        inverse.conflicts.dedup();
        Ok(inverse)
    }

    /// Writes files and index; files that another process changed meanwhile are kept and reported.
    /// The index stays as it is if a file could not be written.
    pub fn apply_inverse(
        &self,
        inverse: &Inverse,
        operations: &[StepOperation],
    ) -> Result<RestoreReport, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        // Folders get their old bits, not the current ones.
        let oldest = operations
            .last()
            .map(|operation| &operation.before.permissions);
        let bits = |folder: &RepoPath| {
            oldest.map_or(0o755, |bits| bits.of(folder, PermissionKind::Folder))
        };
        let mut report = inverse
            .plan
            .apply(&objects, &self.work_tree, self.disk_kinds(), bits)?;
        if report.shortfall().is_some() {
            return Ok(report);
        }
        let reversed = self.reversed_index(&objects, &self.index, operations)?;
        if !reversed.edits.is_empty() || self.clears_outside(&inverse.plan) {
            let lock = self.lock_index()?;
            let index = self.current_index()?;
            let objects = Objects::of_user(&self.repository)?;
            let mut reversed = self.reversed_index(&objects, &index, operations)?;
            self.skip_outside(&index, &mut reversed.edits)?;
            // Git reads staged content from the user's object database, which may have pruned it.
            staging::publish(&objects, &reversed.edits)?;
            objects.stage()?;
            self.skip_cleared(&index, &inverse.plan, &mut reversed.edits)?;
            let lock = lock.dated(self.add_stats(&mut reversed.edits));
            lock.write(&index.edited(&reversed.edits).to_bytes())?
                .commit()?;
            report.staged = reversed.edits.into_keys().collect();
            report.kept.extend(reversed.overlaps);
        }
        Ok(report)
    }

    fn invert_files(
        &self,
        objects: &Objects<'_>,
        now: &Snapshot,
        operations: &[StepOperation],
        inverse: &mut Inverse,
    ) -> Result<(), CheckpointError> {
        let mut files: BTreeMap<RepoPath, (Option<Entry>, Placement)> = BTreeMap::new();
        let mut made = BTreeMap::new();
        let mut removed = BTreeSet::new();
        let mut bits = Bits {
            objects,
            now,
            reached: BTreeMap::new(),
        };
        let mut repositories: BTreeMap<RepoPath, Option<Entry>> = BTreeMap::new();
        for operation in operations
            .iter()
            .filter(|operation| operation.reach == ReversalScope::Files)
        {
            let plan = RestorePlan::inverse(objects, &operation.before, &operation.delta)?;
            let has_committed = operation.has_committed();
            for file in plan.files {
                let current = match files.get(&file.path) {
                    Some((current, _)) => *current,
                    None => tree::find(objects, now.tree, &file.path)?,
                };
                // A committed file left the disk with the sparse checkout: only HEAD and the index
                // change.
                let was_there = file.expected.is_some() || has_committed(&file.path);
                if current.is_none() && was_there && self.belongs_off_disk(&file.path) {
                    continue;
                }
                match three_way(objects, file.expected, current, file.target)? {
                    Merged::Overlap => inverse.conflicts.push(file.path),
                    Merged::Clean(target) => {
                        let kind = file
                            .expected
                            .and_then(|entry| PermissionKind::of(entry.mode));
                        let left =
                            kind.map(|kind| operation.after.permissions.of(&file.path, kind));
                        bits.take_back(&file.path, left, target.map(|_| file.permissions))?;
                        files.insert(file.path.clone(), (target, file));
                    }
                }
            }
            for folder in plan.folders_removed {
                made.remove(&folder);
                removed.insert(folder);
            }
            for (folder, bits) in plan.folders_made {
                removed.remove(&folder);
                made.insert(folder, bits);
            }
            for change in plan.permissions {
                bits.take_back(&change.path, Some(change.before), Some(change.after))?;
            }
            let links = operation
                .delta
                .changes
                .iter()
                .filter(|change| plan.repositories.contains(&change.path));
            repositories.extend(links.map(|change| (change.path.clone(), change.before)));
        }
        let mut plan = RestorePlan {
            folders_made: made.into_iter().collect(),
            folders_removed: removed.into_iter().rev().collect(),
            repositories: repositories.keys().cloned().collect(),
            ..RestorePlan::default()
        };
        place_files(&files, &bits, &mut plan, inverse)?;
        plan.permissions = bits.changes(|path| !files.contains_key(path))?;
        inverse.repositories = self.left_repositories(objects, now, repositories)?;
        inverse.conflicts.extend(blocked(objects, now, &plan)?);
        inverse.conflicts.extend(plan.obstructed(&self.work_tree)?);
        inverse.unwritable = plan.unwritable(&self.work_tree);
        inverse.plan = plan;
        Ok(())
    }

    /// The nested repositories that are not at the commit that reverting them asks for.
    fn left_repositories(
        &self,
        objects: &Objects<'_>,
        now: &Snapshot,
        repositories: BTreeMap<RepoPath, Option<Entry>>,
    ) -> Result<Vec<LeftRepository>, CheckpointError> {
        let mut left = Vec::new();
        for (path, target) in repositories {
            let current = tree::find(objects, now.tree, &path)?;
            if current != target {
                let staged = self.index.entry_at(&path);
                let recorded = staged
                    .is_some_and(|staged| target.is_some_and(|target| target.id == staged.id));
                left.push(LeftRepository {
                    path,
                    current,
                    target,
                    recorded,
                });
            }
        }
        Ok(left)
    }

    /// The committed changes of an operation, in the stored form.
    fn committed_changes(
        &self,
        objects: &Objects<'_>,
        operation: &StepOperation,
    ) -> Result<Vec<Change>, CheckpointError> {
        let clean = |change: &Change| {
            let clean = |raw| self.stored_form(objects, &change.path, raw, &[]);
            let before = match operation.delta.stored_before(change) {
                Some(known) => Some(known),
                None => clean(change.before)?,
            };
            Ok(Change {
                before,
                after: clean(change.after)?,
                ..change.clone()
            })
        };
        match &operation.committed {
            CommittedPart::No => Ok(Vec::new()),
            CommittedPart::Own(changes) => Ok(changes.clone()),
            CommittedPart::Later => operation.delta.changes.iter().map(clean).collect(),
        }
    }

    /// The commit that gives HEAD these files; `None` if it already has them.
    fn plan_inverse(
        &self,
        objects: &Objects<'_>,
        now: &Snapshot,
        operations: &[StepOperation],
        heads: &BTreeMap<RepoPath, Option<Entry>>,
        conflicts: &mut Vec<RepoPath>,
    ) -> Result<Option<CommitPlan>, CheckpointError> {
        let head_tree = self.repository.tree_of(now.head.commit)?;
        let edits: Edits = heads
            .iter()
            .map(|(path, entry)| (path.clone(), *entry))
            .collect();
        let tree = tree::edit(objects, head_tree, &edits)?;
        let mut changes = Vec::new();
        let mut cleaned = BTreeMap::new();
        // The index entries of a commit whose content stays on disk are restored separately.
        let stays = operations
            .iter()
            .filter(|operation| operation.reach == ReversalScope::Commit);
        let stays: BTreeSet<&RepoPath> = stays
            .flat_map(|operation| &operation.delta.changes)
            .map(|change| &change.path)
            .collect();
        for (path, before, after) in tree::differences(objects, head_tree, tree)? {
            // A file replaced a folder or vice versa: HEAD has something else there by now.
            if !edits.contains_key(&path) {
                conflicts.push(path.clone());
            }
            if !stays.contains(&path) {
                cleaned.insert(path.clone(), (before, after));
            }
            changes.push(Change::counted(objects, path, before, after)?);
        }
        if changes.is_empty() {
            return Ok(None);
        }
        let parents = now.head.commit.into_iter().collect();
        let (head, adopted, left_alone, warnings) = (
            now.head.clone(),
            Vec::new(),
            LeftAlone::default(),
            Vec::new(),
        );
        Ok(Some(CommitPlan {
            head,
            parents,
            adopted,
            changes,
            tree,
            left_alone,
            warnings,
            cleaned,
        }))
    }

    fn reversed_index(
        &self,
        objects: &Objects<'_>,
        index: &Index,
        operations: &[StepOperation],
    ) -> Result<staging::Reversed, CheckpointError> {
        let mut staged = StagedReversal::new(objects, index);
        for operation in operations {
            let committed = self.committed_changes(objects, operation)?;
            match operation.reach {
                ReversalScope::Files => {
                    staged.take_back(&operation.delta)?;
                    for made in committed {
                        staged.merge(&made.path, made.after, made.before)?;
                    }
                }
                ReversalScope::Commit => {
                    let recorded = operation.changes_by_path();
                    for made in committed {
                        let clean = |raw| {
                            self.stored_form(objects, &made.path, raw, &[made.before, made.after])
                        };
                        let selected = match recorded.get(&made.path) {
                            Some(change) => match operation.delta.stored_before(change) {
                                Some(known) => (Some(known), clean(change.after)?),
                                None => (clean(change.before)?, clean(change.after)?),
                            },
                            None => (made.before, made.after),
                        };
                        staged.uncommit(&operation.before, &made, selected)?;
                    }
                }
            }
        }
        staged.finish(operations.last().map(|operation| &operation.before))
    }
}

/// Plans the files that differ from what reverting the operations makes of them.
fn place_files(
    files: &BTreeMap<RepoPath, (Option<Entry>, Placement)>,
    bits: &Bits<'_, '_>,
    plan: &mut RestorePlan,
    inverse: &mut Inverse,
) -> Result<(), CheckpointError> {
    let (objects, now) = (bits.objects, bits.now);
    for (path, (target, file)) in files {
        let current = tree::find(objects, now.tree, path)?;
        let kind = target.and_then(|entry| PermissionKind::of(entry.mode));
        let permissions = kind.map_or(file.permissions, |_| {
            bits.reached.get(path).copied().unwrap_or(file.permissions)
        });
        let is_there = current.and_then(|entry| PermissionKind::of(entry.mode));
        let has_bits = kind.is_none()
            || is_there.map(|kind| now.permissions.of(path, kind)) == Some(permissions);
        if *target == current && has_bits {
            continue;
        }
        if *target != file.target {
            inverse.merged.push(path.clone());
        }
        plan.files.push(Placement {
            path: path.clone(),
            expected: current,
            target: *target,
            permissions,
            instead: Instead::Nothing,
        });
    }
    Ok(())
}
