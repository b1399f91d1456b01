//! Resets tracked files, index and branch to a commit: the hard roll back.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::{self, Conversion, find_filtering, is_attributes_file, judge};
use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::index::IndexEntry;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::reference;
use super::restore::{Instead, Placement, RestorePlan};
use super::snapshot::{PermissionKind, Snapshot};
use super::staging::IndexEdits;
use super::stat::Stat;
use super::tree;

/// The plan of a reset.
#[derive(Clone, Debug, Default)]
pub struct Reset {
    plan: RestorePlan,
    /// Files with uncommitted changes that will be replaced or removed.
    pub discarded: Vec<RepoPath>,
    /// Tracked files outside of checkpoints: no snapshot covers them, so they stay as they are.
    pub left: Vec<RepoPath>,
}

impl Checkpointer {
    /// Plans how the tracked files become those of a commit. Fails if files without a snapshot
    /// (ignored ones) are in the way.
    pub fn plan_reset(&self, before: &Snapshot, to: ObjectId) -> Result<Reset, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let (wanted, committed) = (
            self.repository.tree_of(Some(to))?,
            self.repository.tree_of(before.head.commit)?,
        );
        let outside = |path: &RepoPath| {
            before
                .left_out
                .iter()
                .any(|left| left.path == *path || path.is_inside(&left.path))
        };
        let is_gitlink =
            |entry: Option<Entry>| entry.is_some_and(|entry| entry.mode == FileMode::Gitlink);
        let mut reset = Reset::default();
        let differences = tree::differences(&objects, before.tree, wanted)?;
        let conversion =
            self.conversion_for(&objects, wanted, differences.iter().map(|(path, ..)| path))?;
        let kept = differences
            .iter()
            .filter(|(path, ..)| !self.is_overlooked(path) && !outside(path));
        self.clean_together(&objects, kept.map(|(path, current, _)| (path, *current)))?;
        for (path, current, target) in differences {
            // A snapshot has the bytes on disk, the commit the stored form.
            let head = tree::find(&objects, committed, &path)?;
            let clean = self.stored_form(&objects, &path, current, &[target, head])?;
            if clean == target {
                continue;
            }
            let is_tracked = self.is_staged(&path) || head.is_some();
            if target.is_none() && !is_tracked {
                continue;
            }
            if self.is_overlooked(&path) {
                // Like `git reset --hard`: the user has an untracked file there, or nothing.
                if current.is_some() {
                    reset.left.push(path);
                }
                continue;
            }
            if is_gitlink(current) || is_gitlink(target) || outside(&path) {
                reset.left.push(path);
                continue;
            }
            if current.is_some() && clean != head {
                reset.discarded.push(path.clone());
            }
            let permissions =
                target.map_or(0, |target| permissions(before, &path, current, target));
            reset.plan.files.push(Placement {
                path,
                expected: current,
                target,
                permissions,
                instead: Instead::Nothing,
            });
        }
        if conversion != Conversion::None {
            self.convert(&objects, to, &mut reset.plan)?;
        }
        objects.stage()?;
        let conflicts = reset.plan.conflicts(&self.work_tree, self.disk_kinds())?;
        if !conflicts.is_empty() {
            return Err(CheckpointError::ChangedSince(conflicts));
        }
        let unwritable = reset.plan.unwritable(&self.work_tree);
        if !unwritable.is_empty() {
            return Err(CheckpointError::Unwritable(unwritable));
        }
        reset.plan.remove_emptied_folders(&objects, wanted)?;
        Ok(reset)
    }

    /// Writes the tracked files. Index and branch stay as they are.
    pub fn reset_files(&self, before: &Snapshot, reset: &Reset) -> Result<(), CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let bits = |folder: &RepoPath| before.permissions.of(folder, PermissionKind::Folder);
        let report = reset
            .plan
            .apply(&objects, &self.work_tree, self.disk_kinds(), bits)?;
        report.shortfall().map_or(Ok(()), Err)
    }

    /// Makes the index equal to a commit; removes `git add -N` entries.
    pub fn reset_index(&self, to: ObjectId) -> Result<(), CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let wanted = self.repository.tree_of(Some(to))?;
        let lock = self.lock_index()?;
        let index = self.repository.load_index()?;
        let staged = tree::of_index(&objects, &index)?;
        let mut edits: IndexEdits = tree::differences(&objects, staged, wanted)?
            .into_iter()
            .map(|(path, _, target)| {
                let old = index.entry_at(&path);
                let entry = target.map(|entry| IndexEntry::renewed(old, entry, Stat::default()));
                (path, entry)
            })
            .collect();
        for (path, entry) in index.entries(0..index.len()) {
            let path = RepoPath::from_bytes(path);
            if entry.intent_to_add && !edits.contains_key(&path) {
                edits.insert(path, None);
            }
        }
        self.skip_outside(&index, &mut edits)?;
        let lock = lock.dated(self.add_stats(&mut edits));
        lock.write(&index.edited(&edits).to_bytes())?.commit()
    }

    /// Moves the branch to a commit if it has not moved meanwhile.
    pub fn reset_branch(&self, before: &Snapshot, to: ObjectId) -> Result<(), CheckpointError> {
        let target = before.head.branch.as_deref().unwrap_or("HEAD");
        if before.head.commit == Some(to) {
            return Ok(());
        }
        reference::move_ref(
            &self.repository,
            target,
            before.head.commit,
            to,
            "piton: rollback --hard",
        )?;
        reference::sync_ref(&self.repository, target)
    }

    /// Whether the index has a file; a `git add -N` entry belongs to the user alone.
    fn is_staged(&self, path: &RepoPath) -> bool {
        self.index
            .entry_at(path)
            .is_some_and(|entry| !entry.intent_to_add)
    }

    /// Converts stored content to its form on disk.
    fn convert(
        &self,
        objects: &Objects<'_>,
        to: ObjectId,
        plan: &mut RestorePlan,
    ) -> Result<(), CheckpointError> {
        // Attributes that the commit does not have count as well.
        let is_file = |file: &Placement| {
            file.target.is_some_and(|entry| entry.mode.is_file())
                || is_attributes_file(file.path.as_bytes())
        };
        let files: Vec<RepoPath> = plan
            .files
            .iter()
            .filter(|file| is_file(file))
            .map(|file| file.path.clone())
            .collect();
        let converted = self.converted(objects, to, &files)?;
        for file in &mut plan.files {
            if let (Some(target), Some(id)) = (&mut file.target, converted.get(&file.path)) {
                // As with git: a file that was just checked out counts as unchanged.
                self.filters.note(&file.path, *id, target.id);
                target.id = *id;
            }
        }
        Ok(())
    }

    /// Files of a commit or tree in their form on disk.
    pub(super) fn converted(
        &self,
        objects: &Objects<'_>,
        of: ObjectId,
        files: &[RepoPath],
    ) -> Result<BTreeMap<RepoPath, ObjectId>, CheckpointError> {
        let tree = match self.repository.git.find_commit(of.into()) {
            Ok(commit) => ObjectId::from(commit.tree_id()),
            Err(_) => of,
        };
        let filtered = self.filtered_in(objects, tree, files)?;
        let mut converted = self.smudged(objects, tree, &filtered)?;
        for file in files.iter().filter(|file| !filtered.contains_key(*file)) {
            if let Some(entry) = tree::find(objects, tree, file)? {
                let id = attributes::checked_out(&self.repository, objects, file, entry.id)?;
                converted.insert(file.clone(), id);
            }
        }
        Ok(converted)
    }

    /// The conversion here, and in a tree that may change attributes files.
    pub(super) fn conversion_for<'p>(
        &self,
        objects: &Objects<'_>,
        tree: ObjectId,
        changed: impl Iterator<Item = &'p RepoPath>,
    ) -> Result<Conversion, CheckpointError> {
        let mut conversion = self.conversion;
        for path in changed.filter(|path| is_attributes_file(path.as_bytes())) {
            if let Some(entry) =
                tree::find(objects, tree, path)?.filter(|entry| entry.mode.is_file())
            {
                conversion = conversion.max(judge(&objects.read(entry.id)?));
            }
        }
        Ok(conversion)
    }

    /// The files of a tree that only git converts. If attributes change too, git decides about all
    /// of them.
    fn filtered_in(
        &self,
        objects: &Objects<'_>,
        tree: ObjectId,
        files: &[RepoPath],
    ) -> Result<BTreeMap<RepoPath, Entry>, CheckpointError> {
        let mut filtered = BTreeMap::new();
        let conversion = self.conversion_for(objects, tree, files.iter())?;
        // The attributes on disk are not those of the tree.
        let attributes_change = files.iter().any(|path| is_attributes_file(path.as_bytes()));
        if conversion < Conversion::Filtered && !attributes_change {
            return Ok(filtered);
        }
        let all = attributes_change || conversion == Conversion::ByGit;
        for path in files {
            if (all || find_filtering(&self.repository, path)?.is_some())
                && let Some(entry) = tree::find(objects, tree, path)?
            {
                filtered.insert(path.clone(), entry);
            }
        }
        Ok(filtered)
    }
}

/// The permission bits of a file: its own, unless its kind changes.
pub(super) fn permissions(
    before: &Snapshot,
    path: &RepoPath,
    current: Option<Entry>,
    target: Entry,
) -> u32 {
    let usual = &before.permissions;
    match PermissionKind::of(target.mode) {
        Some(kind) if current.is_some_and(|current| current.mode == target.mode) => {
            usual.of(path, kind)
        }
        Some(PermissionKind::Executable) => usual.executable,
        // A symbolic link that is stored as a file has the bits of a file.
        Some(_) | None => usual.file,
    }
}

impl RestorePlan {
    /// Adds the folders that lose their last file to the removed ones.
    pub(super) fn remove_emptied_folders(
        &mut self,
        objects: &Objects<'_>,
        wanted: ObjectId,
    ) -> Result<(), CheckpointError> {
        let mut folders = BTreeSet::new();
        for file in self.files.iter().filter(|file| file.target.is_none()) {
            let mut folder = file.path.parent();
            while !folder.is_top() && !tree::has_folder(objects, wanted, &folder)? {
                let parent = folder.parent();
                folders.insert(folder);
                folder = parent;
            }
        }
        self.folders_removed = folders.into_iter().rev().collect();
        Ok(())
    }
}
