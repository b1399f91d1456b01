//! The changes of a step: the difference of two snapshots, file by file.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use git2::Patch;
use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::snapshot::{LeftOut, LeftOutReason, PermissionKind, Snapshot};
use super::tree;

/// The changes between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The files, sorted by path.
    pub changes: Vec<Change>,
    /// New empty folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders_added: Vec<RepoPath>,
    /// Empty folders that were removed, or are no longer empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders_removed: Vec<RepoPath>,
    /// Files and folders whose permission bits changed, beyond the bit that git records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<PermissionChange>,
    /// The index before and after, if the step changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexChange>,
    /// Files that were no longer `git add -N` entries after the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced_removed: Vec<RepoPath>,
    /// Files that the step added with `git add -N`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced_added: Vec<RepoPath>,
    /// Changed files that no commit contains (too large, nested repositories, …). A file that is
    /// also among the changes can be rolled back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_captured: Vec<RepoPath>,
    /// Which of these files were too large.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_large: Vec<Oversized>,
    /// What git stored for changed files before, if the index had it and it differs from the bytes
    /// on disk because of line ends or a filter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored_before: BTreeMap<RepoPath, ObjectId>,
}

/// A file that is too large for checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oversized {
    pub path: RepoPath,
    pub size: u64,
    /// `checkpoint.max_file_size` when it was left out.
    pub limit: u64,
}

impl Oversized {
    /// A description with size and limit.
    pub fn description(&self) -> String {
        let (size, limit) = (size_text(self.size), size_text(self.limit));
        format!(
            "`{}` ({size}) is over `checkpoint.max_file_size` ({limit})",
            self.path
        )
    }
}

/// The change of one file. Contents are the raw bytes on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: RepoPath,
    /// The entry before; `None` if it was created.
    pub before: Option<Entry>,
    /// The entry after; `None` if it was deleted.
    pub after: Option<Entry>,
    /// Lines added; zero for binary files.
    pub insertions: u64,
    /// Lines removed; zero for binary files.
    pub deletions: u64,
}

impl Change {
    /// A change with its lines counted.
    pub(crate) fn counted(
        objects: &Objects<'_>,
        path: RepoPath,
        before: Option<Entry>,
        after: Option<Entry>,
    ) -> Result<Self, CheckpointError> {
        let (insertions, deletions) = count_lines(objects, before, after)?;
        Ok(Self {
            path,
            before,
            after,
            insertions,
            deletions,
        })
    }
}

/// A change of permission bits on a path that exists before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionChange {
    pub path: RepoPath,
    pub before: u32,
    pub after: u32,
}

/// The staged trees of two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexChange {
    pub before: ObjectId,
    pub after: ObjectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl Delta {
    /// Whether nothing changed that a checkpoint could contain or undo.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.folders_added.is_empty()
            && self.folders_removed.is_empty()
            && self.permissions.is_empty()
            && !self.changes_index()
    }

    /// Whether an attributes file changed.
    pub(crate) fn changes_attributes(&self) -> bool {
        self.changes
            .iter()
            .any(|change| super::attributes::is_attributes_file(change.path.as_bytes()))
    }

    /// What git stored for a file before the change, if that was recorded.
    pub(crate) fn stored_before(&self, change: &Change) -> Option<Entry> {
        let id = *self.stored_before.get(&change.path)?;
        change
            .before
            .filter(|entry| entry.mode.is_file())
            .map(|entry| Entry {
                mode: entry.mode,
                id,
            })
    }

    /// Whether the step changed the index.
    pub(crate) fn changes_index(&self) -> bool {
        self.index.is_some()
            || !self.announced_removed.is_empty()
            || !self.announced_added.is_empty()
    }

    pub fn insertions(&self) -> u64 {
        self.changes.iter().map(|change| change.insertions).sum()
    }

    pub fn deletions(&self) -> u64 {
        self.changes.iter().map(|change| change.deletions).sum()
    }
}

impl PermissionChange {
    /// The inverse change.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self {
            path: self.path.clone(),
            before: self.after,
            after: self.before,
        }
    }
}

impl Change {
    /// The inverse change.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self {
            path: self.path.clone(),
            before: self.after,
            after: self.before,
            insertions: self.deletions,
            deletions: self.insertions,
        }
    }

    pub fn kind(&self) -> ChangeKind {
        match (self.before, self.after) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        }
    }
}

/// A readable size: exact below a KiB, rounded down to a tenth above.
pub fn size_text(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} bytes"),
        Some((unit, name)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
    }
}

/// "3 files, +5 −1".
pub fn stat(count: u64, insertions: u64, deletions: u64) -> String {
    format!("{}, +{insertions} −{deletions}", files(count))
}

/// A number of files with its unit.
pub fn files(count: u64) -> String {
    format!("{count} {}", if count == 1 { "file" } else { "files" })
}

/// The changes between two snapshots.
pub(crate) fn between(
    objects: &Objects<'_>,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<Delta, CheckpointError> {
    let outside = Outside::of(before, after);
    let mut changes = Vec::new();
    for (path, old, new) in captured_differences(objects, before, after)? {
        changes.push(Change::counted(objects, path, old, new)?);
    }
    let known: BTreeSet<&RepoPath> = changes.iter().map(|change| &change.path).collect();
    let permissions = permission_changes(objects, before, after)?
        .into_iter()
        .filter(|change| !known.contains(&change.path) && !outside.covers(&change.path))
        .collect();
    let index = (before.index_tree != after.index_tree).then_some(IndexChange {
        before: before.index_tree,
        after: after.index_tree,
    });
    Ok(Delta {
        folders_added: without(&after.empty_folders, &before.empty_folders),
        folders_removed: without(&before.empty_folders, &after.empty_folders),
        announced_added: without(&after.announced, &before.announced),
        announced_removed: without(&before.announced, &after.announced),
        permissions,
        index,
        not_captured: outside.changed,
        too_large: Vec::new(),
        stored_before: BTreeMap::new(),
        changes,
    })
}

/// The files in which two snapshots differ, without those outside of checkpoints.
pub(crate) fn captured_differences(
    objects: &Objects<'_>,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<Vec<tree::Difference>, CheckpointError> {
    let outside = Outside::of(before, after);
    let mut found = tree::differences(objects, before.tree, after.tree)?;
    found.retain(|(path, ..)| !outside.covers(path));
    Ok(found)
}

/// The contents before and after a change; `None` for what is no file.
type Versions = (Option<ObjectId>, Option<ObjectId>);

/// Lines that were counted before: a step counts the same changes for its record, its commit and the
/// check of an undo.
#[derive(Default)]
pub(crate) struct LineCounts(RefCell<HashMap<Versions, (u64, u64)>>);

impl LineCounts {
    /// The maximum number of remembered changes.
    const REMEMBERED: usize = 200_000;

    fn find(&self, versions: Versions) -> Option<(u64, u64)> {
        self.0.borrow().get(&versions).copied()
    }

    fn note(&self, versions: Versions, count: (u64, u64)) {
        let mut counts = self.0.borrow_mut();
        if counts.len() >= Self::REMEMBERED {
            counts.clear();
        }
        counts.insert(versions, count);
    }
}

/// Lines added and removed in a file; zero for links, gitlinks and binary files.
pub(crate) fn count_lines(
    objects: &Objects<'_>,
    old: Option<Entry>,
    new: Option<Entry>,
) -> Result<(u64, u64), CheckpointError> {
    if [old, new]
        .into_iter()
        .flatten()
        .any(|entry| objects.is_elsewhere(entry.id))
    {
        return Ok((0, 0));
    }
    if old.map(|entry| entry.id) == new.map(|entry| entry.id) {
        return Ok((0, 0));
    }
    let version = |entry: Option<Entry>| {
        let file = entry.filter(|entry| entry.mode.is_file());
        file.map(|entry| entry.id)
    };
    let versions = (version(old), version(new));
    if let Some(known) = objects.line_counts().find(versions) {
        return Ok(known);
    }
    let content = |id: Option<ObjectId>| id.map_or_else(|| Ok(Vec::new()), |id| objects.read(id));
    let (old, new) = (content(versions.0)?, content(versions.1)?);
    let counting = || CheckpointError::git("compare two versions of a file");
    let patch = Patch::from_buffers(&old, None, &new, None, None).map_err(counting())?;
    let (_, insertions, deletions) = patch.line_stats().map_err(counting())?;
    let count = (insertions as u64, deletions as u64);
    objects.line_counts().note(versions, count);
    Ok(count)
}

/// The paths outside of snapshots before or after, and which of them changed.
struct Outside {
    /// The paths whose content a side does not have.
    paths: BTreeSet<RepoPath>,
    /// Nested repositories and unreadable folders: nothing in them counts.
    closed: Vec<RepoPath>,
    /// Everything that changed and that a side left out, held or not.
    changed: Vec<RepoPath>,
}

impl Outside {
    fn of(before: &Snapshot, after: &Snapshot) -> Self {
        let table = |snapshot: &Snapshot| -> BTreeMap<RepoPath, LeftOut> {
            let left_out = snapshot.left_out.iter();
            left_out
                .map(|left| (left.path.clone(), left.clone()))
                .collect()
        };
        let (before, after) = (table(before), table(after));
        let all: BTreeSet<RepoPath> = before.keys().chain(after.keys()).cloned().collect();
        let reason_in = |table: &BTreeMap<RepoPath, LeftOut>, path: &RepoPath| {
            table.get(path).map(|left| left.reason.clone())
        };
        let is_missing = |path: &RepoPath| {
            let sides = [before.get(path), after.get(path)];
            sides.into_iter().flatten().any(|left| !left.held)
        };
        let is_closed = |path: &RepoPath| {
            let closed = [
                Some(LeftOutReason::NestedRepository),
                Some(LeftOutReason::Unreadable),
            ];
            [&before, &after]
                .iter()
                .any(|table| closed.contains(&reason_in(table, path)))
        };
        let paths: BTreeSet<RepoPath> = all
            .iter()
            .filter(|path| is_missing(path))
            .cloned()
            .collect();
        Self {
            closed: paths
                .iter()
                .filter(|path| is_closed(path))
                .cloned()
                .collect(),
            changed: all
                .iter()
                .filter(|path| reason_in(&before, path) != reason_in(&after, path))
                .cloned()
                .collect(),
            paths,
        }
    }

    fn covers(&self, path: &RepoPath) -> bool {
        self.paths.contains(path) || self.closed.iter().any(|folder| path.is_inside(folder))
    }
}

fn permission_changes(
    objects: &Objects<'_>,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<Vec<PermissionChange>, CheckpointError> {
    let (old, new) = (&before.permissions, &after.permissions);
    let mut paths: BTreeSet<RepoPath> = old
        .exceptions
        .keys()
        .chain(new.exceptions.keys())
        .cloned()
        .collect();
    if (old.file, old.executable, old.folder) != (new.file, new.executable, new.folder) {
        paths.extend(tree::everything(objects, after.tree)?);
        paths.extend(after.empty_folders.iter().cloned());
    }
    let mut changes = Vec::new();
    for path in paths {
        let kind = |snapshot: &Snapshot| kind_at(objects, snapshot, &path);
        let (Some(one), Some(other)) = (kind(before)?, kind(after)?) else {
            continue;
        };
        let (was, is) = (old.of(&path, one), new.of(&path, other));
        if was != is {
            changes.push(PermissionChange {
                path,
                before: was,
                after: is,
            });
        }
    }
    Ok(changes)
}

/// The kind of a path in a snapshot, for its permissions.
pub(super) fn kind_at(
    objects: &Objects<'_>,
    snapshot: &Snapshot,
    path: &RepoPath,
) -> Result<Option<PermissionKind>, CheckpointError> {
    if let Some(entry) = tree::find(objects, snapshot.tree, path)? {
        return Ok(PermissionKind::of(entry.mode));
    }
    let is_folder = tree::has_folder(objects, snapshot.tree, path)?
        || snapshot
            .empty_folders
            .iter()
            .any(|folder| folder == path || folder.is_inside(path));
    Ok(is_folder.then_some(PermissionKind::Folder))
}

fn without(all: &[RepoPath], others: &[RepoPath]) -> Vec<RepoPath> {
    let others: BTreeSet<&RepoPath> = others.iter().collect();
    all.iter()
        .filter(|path| !others.contains(path))
        .cloned()
        .collect()
}
