//! Restores paths. This is the only writer of the user's work tree.
//!
//! A [`RestorePlan`] contains for each path the expected and the target state. A path that has neither was
//! changed by another process and is kept. A plan can be applied repeatedly, so an interrupted roll
//! back is simply repeated. Nothing is written through a symbolic link or outside the work tree;
//! ignored files, nested repositories and large files never appear in a plan.

mod batch;

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::delta::{Delta, PermissionChange};
use super::error::CheckpointError;
use super::no_follow::{Drafts, OpenFolders, PathState, WorkTree};
use super::object::{Entry, FileMode, ObjectFormat, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::scan::{DiskKinds, Executable, Symlinks};
use super::snapshot::{PermissionKind, Snapshot};
use super::tree;
use crate::failpoint::failpoint;

#[derive(Clone, Debug, Default)]
pub struct RestorePlan {
    /// The files, sorted by path.
    pub files: Vec<Placement>,
    /// Folders to create, parents first, with their permission bits.
    pub(crate) folders_made: Vec<(RepoPath, u32)>,
    /// Folders to remove if they are empty.
    pub(crate) folders_removed: Vec<RepoPath>,
    /// Nested repositories whose commit changed; their files are not touched.
    pub(crate) repositories: Vec<RepoPath>,
    /// Permission bits to set: `before` is expected, `after` is set.
    pub(crate) permissions: Vec<PermissionChange>,
}

/// One file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub path: RepoPath,
    /// The expected entry.
    pub expected: Option<Entry>,
    /// The target entry.
    pub target: Option<Entry>,
    /// The target permission bits.
    pub(crate) permissions: u32,
    /// What may be there instead of the expected entry.
    pub(crate) instead: Instead,
}

/// What may be at a path where no file is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instead {
    #[default]
    Nothing,
    /// A pipe, socket or device that the step put there. It has no content that could be lost.
    SpecialFile,
}

impl Placement {
    /// The format of the ids. If neither side has content, any format works.
    fn format(&self) -> ObjectFormat {
        self.target
            .or(self.expected)
            .map(|entry| entry.id.format())
            .unwrap_or_default()
    }
}

/// The result of applying a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The files written or removed, now or by an earlier attempt.
    pub restored: Vec<RepoPath>,
    /// Paths that had neither the expected nor the target state, and were kept.
    pub kept: Vec<RepoPath>,
    /// Paths that the system did not allow piton to write or remove.
    pub failed: Vec<Unwritten>,
    /// Nested repositories that were left alone.
    pub repositories: Vec<RepoPath>,
    /// The paths whose entry in the index was changed.
    pub staged: BTreeSet<RepoPath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    pub path: RepoPath,
    /// The error message of the system.
    pub reason: String,
    /// Its error number, if any.
    pub(crate) errno: Option<Errno>,
}

impl RestorePlan {
    /// The inverse of a delta: restores `before` from `after`.
    pub(crate) fn inverse(
        objects: &Objects<'_>,
        before: &Snapshot,
        delta: &Delta,
    ) -> Result<Self, CheckpointError> {
        let mut plan = Self::default();
        for change in &delta.changes {
            // The commit of a nested repository is only recorded; its files are not touched.
            let gitlink =
                |entry: Option<Entry>| entry.is_some_and(|entry| entry.mode == FileMode::Gitlink);
            if gitlink(change.before) || gitlink(change.after) {
                plan.repositories.push(change.path.clone());
                continue;
            }
            let kind = change
                .before
                .and_then(|entry| PermissionKind::of(entry.mode));
            plan.files.push(Placement {
                path: change.path.clone(),
                expected: change.after,
                target: change.before,
                // A symbolic link that is stored as a file has the bits of a file.
                permissions: kind.map_or(before.permissions.file, |kind| {
                    before.permissions.of(&change.path, kind)
                }),
                instead: if change.after.is_none() && delta.not_captured.contains(&change.path) {
                    Instead::SpecialFile
                } else {
                    Instead::Nothing
                },
            });
        }
        let mut emptied: BTreeSet<RepoPath> = delta.folders_added.iter().cloned().collect();
        let removed = plan.files.iter().filter(|file| file.target.is_none());
        emptied.extend(removed.map(|file| file.path.parent()));
        plan.folders_removed = new_folders(objects, before, emptied)?;
        let bits = |path: &RepoPath| before.permissions.of(path, PermissionKind::Folder);
        plan.folders_made = delta
            .folders_removed
            .iter()
            .map(|path| (path.clone(), bits(path)))
            .collect();
        plan.permissions = delta
            .permissions
            .iter()
            .map(PermissionChange::inverse)
            .collect();
        Ok(plan)
    }

    /// Every path that it may write or remove.
    pub fn paths(&self) -> impl Iterator<Item = &RepoPath> {
        let files = self.files.iter().map(|file| &file.path);
        let made = self.folders_made.iter().map(|(path, _)| path);
        let permissions = self.permissions.iter().map(|change| &change.path);
        files
            .chain(made)
            .chain(&self.folders_removed)
            .chain(permissions)
    }

    /// The paths that have neither the expected nor the target state.
    pub(crate) fn conflicts(
        &self,
        work_tree: &WorkTree,
        kinds: DiskKinds,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let mut found = Vec::new();
        let files: Vec<&Placement> = self.files.iter().collect();
        for (file, judged) in files.iter().zip(batch::judge_all(work_tree, &files, kinds)) {
            if judged?.judgement == FileCondition::Foreign {
                found.push(file.path.clone());
            }
        }
        found.extend(self.obstructed(work_tree)?);
        Ok(found)
    }

    /// The paths that the system does not allow piton to write, checked without writing.
    pub(crate) fn unwritable(&self, work_tree: &WorkTree) -> Vec<Unwritten> {
        let folders = self
            .folders_made
            .iter()
            .map(|(path, _)| path)
            .chain(&self.folders_removed);
        let changed = self.files.iter().map(|file| &file.path).chain(folders);
        let mut opened = OpenFolders::of(work_tree);
        let refused = |path: &RepoPath| {
            let reason = opened.refusal(path)?.to_string();
            Some(Unwritten {
                path: path.clone(),
                reason,
                errno: None,
            })
        };
        changed.filter_map(refused).collect()
    }

    /// Files whose path is a folder with more content than the plan removes, such as ignored files.
    pub(crate) fn obstructed(
        &self,
        work_tree: &WorkTree,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let removed: BTreeSet<&RepoPath> = self
            .files
            .iter()
            .filter(|file| file.target.is_none())
            .map(|file| &file.path)
            .collect();
        let mut found = Vec::new();
        let mut folders = OpenFolders::of(work_tree);
        // Where a file is expected, there was no folder a moment ago; the write looks again.
        let may_be_folder = |file: &&Placement| file.target.is_some() && file.expected.is_none();
        for file in self.files.iter().filter(may_be_folder) {
            if let Some(PathState::Folder { .. }) = folders.state(&file.path)?
                && work_tree
                    .files_below(&file.path)?
                    .iter()
                    .any(|path| !removed.contains(path))
            {
                found.push(file.path.clone());
            }
        }
        Ok(found)
    }

    /// Applies the plan, except to paths that another process has changed.
    pub(crate) fn apply(
        &self,
        objects: &Objects<'_>,
        work_tree: &WorkTree,
        kinds: DiskKinds,
        permissions_of_folder: impl Fn(&RepoPath) -> u32,
    ) -> Result<RestoreReport, CheckpointError> {
        let mut report = RestoreReport {
            repositories: self.repositories.clone(),
            ..RestoreReport::default()
        };
        let opened = self.open_folders(work_tree)?;
        let (writes, removals): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|file| file.target.is_some());
        let remove = |file: &Placement| match judge(work_tree, file, kinds)? {
            FileCondition::Expected => work_tree
                .remove_file(&file.path)
                .map(|()| PlacementState::Yes),
            judged => Ok(PlacementState::of(judged)),
        };
        if removals.len() >= batch::MANY {
            batch::remove(work_tree, &removals, kinds, &mut report, &remove)?;
        } else {
            for file in removals {
                let removed = remove(file);
                failpoint("restore-path");
                report.note(&file.path, removed)?;
            }
        }
        for folder in &self.folders_removed {
            let removed = work_tree.remove_folder_if_empty(folder);
            failpoint("restore-path");
            report.attempted(folder, removed)?;
        }
        let write = |file: &Placement| match judge(work_tree, file, kinds)? {
            FileCondition::Expected => {
                place(objects, work_tree, file, kinds, &permissions_of_folder)
            }
            judged => Ok(PlacementState::of(judged)),
        };
        let drafts = if writes.len() >= batch::MANY {
            Drafts::of(work_tree)?
        } else {
            None
        };
        if let Some(drafts) = drafts {
            let places = (objects, work_tree, &drafts);
            batch::write(
                places,
                &writes,
                kinds,
                &permissions_of_folder,
                &mut report,
                &write,
            )?;
        } else {
            for file in writes {
                let written = write(file);
                failpoint("restore-path");
                report.note(&file.path, written)?;
            }
        }
        for (folder, bits) in &self.folders_made {
            let made = make_parents(work_tree, folder, &permissions_of_folder).and_then(|()| {
                let is_there = work_tree.state(folder)?.is_some();
                if is_there {
                    Ok(())
                } else {
                    work_tree.make_folder(folder, *bits)
                }
            });
            failpoint("restore-path");
            report.attempted(folder, made)?;
        }
        for (folder, bits) in opened.iter().rev() {
            if let Some(PathState::Folder { .. }) = work_tree.state(folder)? {
                work_tree.set_permissions(folder, *bits)?;
            }
        }
        for change in &self.permissions {
            if work_tree
                .state(&change.path)?
                .and_then(|found| found.permissions())
                == Some(change.before)
            {
                let set = work_tree.set_permissions(&change.path, change.after);
                failpoint("restore-path");
                report.attempted(&change.path, set)?;
            }
        }
        work_tree.stage_names()?;
        report.restored.sort();
        report.kept.sort();
        Ok(report)
    }

    /// Makes the folders that will change writable for the owner, because a step may have removed
    /// that permission. Returns the changed folders, parents first, with their old bits.
    fn open_folders(&self, work_tree: &WorkTree) -> Result<Vec<(RepoPath, u32)>, CheckpointError> {
        const OWNERS: u32 = 0o700;
        let bits_of = |path: &RepoPath| match work_tree.state(path)? {
            Some(PathState::Folder { permissions }) => Ok(Some(permissions)),
            _ => Ok::<_, CheckpointError>(None),
        };
        for change in self
            .permissions
            .iter()
            .filter(|change| change.after & OWNERS == OWNERS)
        {
            if bits_of(&change.path)? == Some(change.before) {
                // If this fails, the write inside it reports it.
                let _ = work_tree.set_permissions(&change.path, change.after);
            }
        }
        // The step's own folders will be removed: open the outermost first, because the inner ones
        // are unreachable otherwise.
        for folder in self.folders_removed.iter().rev() {
            if let Some(bits) = bits_of(folder)?.filter(|bits| bits & OWNERS != OWNERS) {
                let _ = work_tree.set_permissions(folder, bits | OWNERS);
            }
        }
        let files = self.files.iter().map(|file| &file.path);
        let folders = self
            .folders_removed
            .iter()
            .chain(self.folders_made.iter().map(|(path, _)| path));
        let changing: BTreeSet<RepoPath> = files.chain(folders).map(RepoPath::parent).collect();
        let mut opened = Vec::new();
        for folder in changing.into_iter().filter(|folder| !folder.is_top()) {
            if let Some(bits) = bits_of(&folder)?.filter(|bits| bits & OWNERS != OWNERS)
                && work_tree.set_permissions(&folder, bits | OWNERS).is_ok()
            {
                opened.push((folder, bits));
            }
        }
        Ok(opened)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlacementState {
    Yes,
    No,
}

impl PlacementState {
    fn of(judgement: FileCondition) -> Self {
        if judgement == FileCondition::Done {
            Self::Yes
        } else {
            Self::No
        }
    }
}

impl RestoreReport {
    /// Why the target is not fully reached; `None` if it is.
    pub fn shortfall(&self) -> Option<CheckpointError> {
        match (self.failed.is_empty(), self.kept.is_empty()) {
            (true, true) => None,
            (false, _) => Some(CheckpointError::Unwritable(self.failed.clone())),
            (true, false) => Some(CheckpointError::ChangedSince(self.kept.clone())),
        }
    }

    /// All paths that did not reach the target.
    pub fn not_restored(&self) -> Vec<RepoPath> {
        let mut paths: Vec<RepoPath> = self
            .failed
            .iter()
            .map(|file| &file.path)
            .chain(&self.kept)
            .cloned()
            .collect();
        paths.sort();
        paths
    }

    /// Records the result of a file.
    fn note(
        &mut self,
        path: &RepoPath,
        placed: Result<PlacementState, CheckpointError>,
    ) -> Result<(), CheckpointError> {
        match placed {
            Ok(PlacementState::Yes) => self.restored.push(path.clone()),
            Ok(PlacementState::No) => self.kept.push(path.clone()),
            Err(err) => self.attempted(path, Err(err))?,
        }
        Ok(())
    }

    /// Records a refused write with its reason; only a full disk stops everything, because the user
    /// can free space.
    fn attempted(
        &mut self,
        path: &RepoPath,
        done: Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        match done {
            Ok(()) => {}
            Err(err) if err.is_about_room() => return Err(err),
            Err(err) => {
                let reason = std::error::Error::source(&err)
                    .map_or_else(|| err.to_string(), ToString::to_string);
                self.failed.push(Unwritten {
                    path: path.clone(),
                    reason,
                    errno: err.errno(),
                });
            }
        }
        Ok(())
    }
}

fn place(
    objects: &Objects<'_>,
    work_tree: &WorkTree,
    file: &Placement,
    kinds: DiskKinds,
    permissions_of_folder: &impl Fn(&RepoPath) -> u32,
) -> Result<PlacementState, CheckpointError> {
    if !has_room(work_tree, &file.path, permissions_of_folder)? {
        return Ok(PlacementState::No);
    }
    write(objects, work_tree, file, kinds)?;
    Ok(PlacementState::Yes)
}

/// The state of one file of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileCondition {
    Expected,
    Done,
    Foreign,
}

fn judge(
    work_tree: &WorkTree,
    file: &Placement,
    kinds: DiskKinds,
) -> Result<FileCondition, CheckpointError> {
    Ok(judge_found(
        &entry_on_disk(work_tree, &file.path, file.format())?,
        file,
        kinds,
    ))
}

fn judge_found(now: &OnDisk, file: &Placement, kinds: DiskKinds) -> FileCondition {
    let is = |entry: Entry, other: Option<Entry>| {
        let any_file = |other: Entry| {
            kinds.executable == Executable::FromIndex
                && entry.mode.is_file()
                && other.mode.is_file()
        };
        let as_file = |other: Entry| {
            kinds.symlinks == Symlinks::Files
                && entry.mode.is_file()
                && other.mode == FileMode::Symlink
        };
        let fits = |other: Entry| other.mode == entry.mode || any_file(other) || as_file(other);
        other.is_some_and(|other| other.id == entry.id && fits(other))
    };
    match now {
        OnDisk::File(entry, bits) if is(*entry, file.target) => {
            // The content was restored earlier, but not the permission bits.
            match file
                .target
                .and_then(|target| PermissionKind::of(target.mode))
            {
                Some(_) if *bits != file.permissions => FileCondition::Expected,
                _ => FileCondition::Done,
            }
        }
        OnDisk::File(entry, _) if is(*entry, file.expected) => FileCondition::Expected,
        OnDisk::Nothing if file.target.is_none() => FileCondition::Done,
        OnDisk::Nothing if file.expected.is_none() => FileCondition::Expected,
        OnDisk::Special if file.instead == Instead::SpecialFile && file.target.is_some() => {
            FileCondition::Expected
        }
        // A folder where a file was expected to be absent: the step created files below it, which
        // have their own entries in the plan.
        OnDisk::Folder if file.expected.is_none() && file.target.is_some() => {
            FileCondition::Expected
        }
        OnDisk::Folder if file.target.is_none() => FileCondition::Done,
        _ => FileCondition::Foreign,
    }
}

/// The current state of a path, with the id of its content.
enum OnDisk {
    Nothing,
    Folder,
    Special,
    File(Entry, u32),
}

fn blob_id(format: ObjectFormat, content: &[u8]) -> Result<ObjectId, CheckpointError> {
    format
        .name(git2::ObjectType::Blob, content)
        .map_err(CheckpointError::git("name the content of a file"))
}

fn entry_on_disk(
    work_tree: &WorkTree,
    path: &RepoPath,
    format: ObjectFormat,
) -> Result<OnDisk, CheckpointError> {
    Ok(match work_tree.state(path)? {
        None => OnDisk::Nothing,
        Some(PathState::Folder { .. }) => OnDisk::Folder,
        Some(PathState::Special) => OnDisk::Special,
        Some(PathState::Symlink { .. }) => {
            let Some(target) = work_tree.read_link(path)? else {
                return Ok(OnDisk::Nothing);
            };
            let id = blob_id(format, &target)?;
            OnDisk::File(
                Entry {
                    mode: FileMode::Symlink,
                    id,
                },
                0,
            )
        }
        Some(PathState::File { permissions, .. }) => {
            let Some(bytes) = work_tree.read_if_file(path)? else {
                return Ok(OnDisk::Nothing);
            };
            let id = blob_id(format, &bytes)?;
            let mode = if permissions & 0o100 == 0 {
                FileMode::Regular
            } else {
                FileMode::Executable
            };
            OnDisk::File(Entry { mode, id }, permissions)
        }
    })
}

fn write(
    objects: &Objects<'_>,
    work_tree: &WorkTree,
    file: &Placement,
    kinds: DiskKinds,
) -> Result<(), CheckpointError> {
    let Some(target) = file.target else {
        return Ok(());
    };
    if let OnDisk::File(now, _) = entry_on_disk(work_tree, &file.path, target.id.format())?
        && now.id == target.id
        && now.mode.is_file()
        && target.mode.is_file()
    {
        // Only the permission bits changed: keep the timestamp.
        return work_tree.set_permissions(&file.path, file.permissions);
    }
    let content = objects.read(target.id)?;
    match target.mode {
        FileMode::Symlink if kinds.symlinks == Symlinks::Links => {
            work_tree.write_link(&file.path, &content)
        }
        _ => work_tree.write_file(&file.path, &content, file.permissions),
    }
}

/// Makes room for a file. A folder at its path that contains something else, such as ignored files,
/// stays, and so does anything at the path of its own folder.
fn has_room(
    work_tree: &WorkTree,
    path: &RepoPath,
    permissions_of_folder: &impl Fn(&RepoPath) -> u32,
) -> Result<bool, CheckpointError> {
    make_parents(work_tree, path, permissions_of_folder)?;
    work_tree.remove_folder_if_empty(path)?;
    let parent = path.parent();
    let is_folder = |path: &RepoPath| {
        Ok(matches!(
            work_tree.state(path)?,
            Some(PathState::Folder { .. })
        ))
    };
    Ok((parent.is_top() || is_folder(&parent)?) && !is_folder(path)?)
}

fn make_parents(
    work_tree: &WorkTree,
    path: &RepoPath,
    permissions_of_folder: &impl Fn(&RepoPath) -> u32,
) -> Result<(), CheckpointError> {
    let parent = path.parent();
    if parent.is_top() || matches!(work_tree.state(&parent)?, Some(PathState::Folder { .. })) {
        return Ok(());
    }
    make_parents(work_tree, &parent, permissions_of_folder)?;
    if work_tree.state(&parent)?.is_none() {
        work_tree.make_folder(&parent, permissions_of_folder(&parent))?;
    }
    Ok(())
}

/// The result, or a default if its object is missing.
fn found_or<T>(stand_in: T, found: Result<T, CheckpointError>) -> Result<T, CheckpointError> {
    match found {
        Err(CheckpointError::Missing { .. }) => Ok(stand_in),
        found => found,
    }
}

/// These folders and their parents that the snapshot does not have, deepest first.
fn new_folders(
    objects: &Objects<'_>,
    before: &Snapshot,
    folders: BTreeSet<RepoPath>,
) -> Result<Vec<RepoPath>, CheckpointError> {
    let mut new = BTreeSet::new();
    for folder in folders {
        let mut folder = folder;
        while !folder.is_top() && !new.contains(&folder) {
            // A folder whose tree git has pruned counts as new: it is removed only if it is empty.
            let known = found_or(false, tree::has_folder(objects, before.tree, &folder))?
                || before
                    .empty_folders
                    .iter()
                    .any(|empty| *empty == folder || empty.is_inside(&folder));
            if known {
                break;
            }
            let parent = folder.parent();
            new.insert(folder);
            folder = parent;
        }
    }
    Ok(new.into_iter().rev().collect())
}
