//! What a step did: the difference of two snapshots, file by file.

use std::collections::{BTreeMap, BTreeSet};

use git2::Patch;
use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::snapshot::{LeftOut, LeftOutReason, PermissionKind, Snapshot};
use super::tree;

/// What changed between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The files, in the order of their paths.
    pub changes: Vec<Change>,
    /// Empty folders that came into being.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders_added: Vec<RepoPath>,
    /// Empty folders that went away, or have something in them now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders_removed: Vec<RepoPath>,
    /// Files and folders whose permission bits changed beyond what git records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<PermissionChange>,
    /// What was staged before and after, where the step changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexChange>,
    /// Files that were announced with `git add -N` before and are not any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced_removed: Vec<RepoPath>,
    /// Files that the step announced with `git add -N`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced_added: Vec<RepoPath>,
    /// Files that changed and are outside of checkpoints (too large, nested repositories, …).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_captured: Vec<RepoPath>,
    /// Which of these files were left out for their size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_large: Vec<Oversized>,
    /// What git stored for changed files before, where the index said so and it is not the bytes on disk: line ends
    /// or a filter convert them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored_before: BTreeMap<RepoPath, ObjectId>,
}

/// A file that is larger than checkpoints take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oversized {
    /// The file.
    pub path: RepoPath,
    /// Its size in bytes.
    pub size: u64,
    /// `checkpoint.max_file_size` when it was left out.
    pub limit: u64,
}

impl Oversized {
    /// The file with its size and the limit, in words.
    pub fn in_words(&self) -> String {
        let (size, limit) = (size_in_words(self.size), size_in_words(self.limit));
        format!("`{}` ({size}) is over `checkpoint.max_file_size` ({limit})", self.path)
    }
}

/// What happened to one file. Contents are raw: the bytes on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The file.
    pub path: RepoPath,
    /// What was there before; none when it was created.
    pub before: Option<Entry>,
    /// What is there after; none when it was deleted.
    pub after: Option<Entry>,
    /// Lines added; zero for binary files.
    pub insertions: u64,
    /// Lines removed; zero for binary files.
    pub deletions: u64,
}

/// Permission bits that changed on a path that exists before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionChange {
    /// The file or folder.
    pub path: RepoPath,
    /// The bits before.
    pub before: u32,
    /// The bits after.
    pub after: u32,
}

/// The staged trees of two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexChange {
    /// The tree of the index before.
    pub before: ObjectId,
    /// The tree of the index after.
    pub after: ObjectId,
}

/// What happened to a file, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It came into being.
    Added,
    /// Its content or mode changed.
    Modified,
    /// It went away.
    Deleted,
}

impl Delta {
    /// Whether nothing that a checkpoint could hold or undo has changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.folders_added.is_empty()
            && self.folders_removed.is_empty()
            && self.permissions.is_empty()
            && !self.changes_index()
    }

    /// Whether attributes files are among the changes.
    pub(crate) fn changes_attributes(&self) -> bool {
        self.changes.iter().any(|change| super::attributes::is_attributes_file(change.path.as_bytes()))
    }

    /// What git stored for a file before the change, where that was written down.
    pub(crate) fn stored_before(&self, change: &Change) -> Option<Entry> {
        let id = *self.stored_before.get(&change.path)?;
        change.before.filter(|entry| entry.mode.is_file()).map(|entry| Entry { mode: entry.mode, id })
    }

    /// Whether the step changed what is staged or announced.
    pub(crate) fn changes_index(&self) -> bool {
        self.index.is_some() || !self.announced_removed.is_empty() || !self.announced_added.is_empty()
    }

    /// The lines added in all files.
    pub fn insertions(&self) -> u64 {
        self.changes.iter().map(|change| change.insertions).sum()
    }

    /// The lines removed in all files.
    pub fn deletions(&self) -> u64 {
        self.changes.iter().map(|change| change.deletions).sum()
    }
}

impl PermissionChange {
    /// The change that takes this one back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { path: self.path.clone(), before: self.after, after: self.before }
    }
}

impl Change {
    /// The change that takes this one back.
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

    /// What happened to the file.
    pub fn kind(&self) -> ChangeKind {
        match (self.before, self.after) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        }
    }
}

/// A number of bytes for people: exact below a KiB, rounded down to a tenth above.
pub fn size_in_words(bytes: u64) -> String {
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

/// So many files.
pub fn files(count: u64) -> String {
    format!("{count} {}", if count == 1 { "file" } else { "files" })
}

/// What changed from one snapshot to another.
pub(crate) fn between(objects: &Objects<'_>, before: &Snapshot, after: &Snapshot) -> Result<Delta, CheckpointError> {
    let outside = Outside::of(before, after);
    let mut changes = Vec::new();
    for (path, old, new) in captured_differences(objects, before, after)? {
        let (insertions, deletions) = count_lines(objects, old, new)?;
        changes.push(Change { path, before: old, after: new, insertions, deletions });
    }
    let known: BTreeSet<&RepoPath> = changes.iter().map(|change| &change.path).collect();
    let permissions = permission_changes(objects, before, after)?
        .into_iter()
        .filter(|change| !known.contains(&change.path) && !outside.covers(&change.path))
        .collect();
    let index = (before.index_tree != after.index_tree)
        .then_some(IndexChange { before: before.index_tree, after: after.index_tree });
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

/// The files in which two snapshots differ, except what lies outside of checkpoints.
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

/// Lines added and removed in one file; none for links, other repositories and binary files.
pub(crate) fn count_lines(
    objects: &Objects<'_>,
    old: Option<Entry>,
    new: Option<Entry>,
) -> Result<(u64, u64), CheckpointError> {
    if [old, new].into_iter().flatten().any(|entry| objects.is_elsewhere(entry.id)) {
        return Ok((0, 0));
    }
    let content = |entry: Option<Entry>| match entry.filter(|entry| entry.mode.is_file()) {
        Some(entry) => objects.read(entry.id),
        None => Ok(Vec::new()),
    };
    if old.map(|entry| entry.id) == new.map(|entry| entry.id) {
        return Ok((0, 0));
    }
    let (old, new) = (content(old)?, content(new)?);
    let counting = || CheckpointError::git("compare two versions of a file");
    let patch = Patch::from_buffers(&old, None, &new, None, None).map_err(counting())?;
    let (_, insertions, deletions) = patch.line_stats().map_err(counting())?;
    Ok((insertions as u64, deletions as u64))
}

/// What lies outside of checkpoints before or after, and which of it changed.
struct Outside {
    paths: BTreeSet<RepoPath>,
    /// Repositories of their own and folders that cannot be read: nothing in them counts.
    closed: Vec<RepoPath>,
    changed: Vec<RepoPath>,
}

impl Outside {
    fn of(before: &Snapshot, after: &Snapshot) -> Self {
        let table = |snapshot: &Snapshot| -> BTreeMap<RepoPath, LeftOutReason> {
            snapshot.left_out.iter().map(|LeftOut { path, reason }| (path.clone(), reason.clone())).collect()
        };
        let (before, after) = (table(before), table(after));
        let paths: BTreeSet<RepoPath> = before.keys().chain(after.keys()).cloned().collect();
        let is_closed = |path: &&RepoPath| {
            let closed = [Some(&LeftOutReason::NestedRepository), Some(&LeftOutReason::Unreadable)];
            [&before, &after].iter().any(|table| closed.contains(&table.get(*path)))
        };
        Self {
            closed: paths.iter().filter(is_closed).cloned().collect(),
            changed: paths.iter().filter(|path| before.get(*path) != after.get(*path)).cloned().collect(),
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
    let mut paths: BTreeSet<RepoPath> = old.exceptions.keys().chain(new.exceptions.keys()).cloned().collect();
    if (old.file, old.executable, old.folder) != (new.file, new.executable, new.folder) {
        paths.extend(tree::everything(objects, after.tree)?);
        paths.extend(after.empty_folders.iter().cloned());
    }
    let mut changes = Vec::new();
    for path in paths {
        let kind = |snapshot: &Snapshot| kind_at(objects, snapshot, &path);
        let (Some(one), Some(other)) = (kind(before)?, kind(after)?) else { continue };
        let (was, is) = (old.of(&path, one), new.of(&path, other));
        if was != is {
            changes.push(PermissionChange { path, before: was, after: is });
        }
    }
    Ok(changes)
}

/// What kind of thing a snapshot has at a path, as far as permissions are concerned.
pub(super) fn kind_at(
    objects: &Objects<'_>,
    snapshot: &Snapshot,
    path: &RepoPath,
) -> Result<Option<PermissionKind>, CheckpointError> {
    if let Some(entry) = tree::find(objects, snapshot.tree, path)? {
        return Ok(PermissionKind::of(entry.mode));
    }
    let is_folder = tree::has_folder(objects, snapshot.tree, path)?
        || snapshot.empty_folders.iter().any(|folder| folder == path || folder.is_inside(path));
    Ok(is_folder.then_some(PermissionKind::Folder))
}

fn without(all: &[RepoPath], others: &[RepoPath]) -> Vec<RepoPath> {
    let others: BTreeSet<&RepoPath> = others.iter().collect();
    all.iter().filter(|path| !others.contains(path)).cloned().collect()
}
