//! Putting paths back: the only writer of the user's work tree.
//!
//! A [`Plan`] says for each path what is expected there and what is to be there. A path that is
//! neither is somebody else's by now and is kept. Applying a plan twice is the same as once, so a
//! roll back that was cut off is simply done again. Nothing is written through a symbolic link and
//! nothing outside the work tree; ignored files, other repositories and large files never appear in
//! a plan.

mod batch;

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::delta::{Delta, PermissionChange};
use super::error::CheckpointError;
use super::object::{Entry, FileMode, ObjectFormat, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::scan::{DiskKinds, Executable, Symlinks};
use super::snapshot::{PermissionKind, Snapshot};
use super::tree;
use super::worktree::{Drafts, Folders, Found, WorkTree};
use crate::failpoint::failpoint;

/// What to put where.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The files, in the order of their paths.
    pub files: Vec<Placement>,
    /// Folders to make, parents first, with their permission bits.
    pub(crate) folders_made: Vec<(RepoPath, u32)>,
    /// Folders to remove if nothing is in them.
    pub(crate) folders_removed: Vec<RepoPath>,
    /// Other repositories whose commit changed; their files are their own.
    pub(crate) repositories: Vec<RepoPath>,
    /// Permission bits to set, where they are as expected: `before` is expected, `after` is set.
    pub(crate) permissions: Vec<PermissionChange>,
}

/// One file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where.
    pub path: RepoPath,
    /// What is expected there now.
    pub expected: Option<Entry>,
    /// What is to be there.
    pub target: Option<Entry>,
    /// The permission bits to be there.
    pub(crate) permissions: u32,
}

impl Placement {
    /// How the contents are named. Where no content is expected or wanted, any name differs from both.
    fn format(&self) -> ObjectFormat {
        self.target.or(self.expected).map(|entry| entry.id.format()).unwrap_or_default()
    }
}

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The files written or removed, now or by an earlier try.
    pub restored: Vec<RepoPath>,
    /// What was neither as expected nor as wanted, and was kept.
    pub kept: Vec<RepoPath>,
    /// What the system did not let piton write or remove.
    pub failed: Vec<Unwritten>,
    /// Other repositories that were left as they are.
    pub repositories: Vec<RepoPath>,
}

/// A path that cannot be written or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// The path.
    pub path: RepoPath,
    /// What the system said.
    pub reason: String,
    /// The number of that, where there is one.
    pub(crate) errno: Option<Errno>,
}

impl Plan {
    /// The inverse of a delta: what leads from `after` back to `before`.
    pub(crate) fn inverse(objects: &Objects<'_>, before: &Snapshot, delta: &Delta) -> Result<Self, CheckpointError> {
        let mut plan = Self::default();
        for change in &delta.changes {
            // The commit of another repository is only recorded; its files are its own.
            let gitlink = |entry: Option<Entry>| entry.is_some_and(|entry| entry.mode == FileMode::Gitlink);
            if gitlink(change.before) || gitlink(change.after) {
                plan.repositories.push(change.path.clone());
                continue;
            }
            let kind = change.before.and_then(|entry| PermissionKind::of(entry.mode));
            plan.files.push(Placement {
                path: change.path.clone(),
                expected: change.after,
                target: change.before,
                // Those of a link count where it is kept as a file.
                permissions: kind.map_or(before.permissions.file, |kind| before.permissions.of(&change.path, kind)),
            });
        }
        let mut emptied: BTreeSet<RepoPath> = delta.folders_added.iter().cloned().collect();
        let removed = plan.files.iter().filter(|file| file.target.is_none());
        emptied.extend(removed.map(|file| file.path.parent()));
        plan.folders_removed = new_folders(objects, before, emptied)?;
        let bits = |path: &RepoPath| before.permissions.of(path, PermissionKind::Folder);
        plan.folders_made = delta.folders_removed.iter().map(|path| (path.clone(), bits(path))).collect();
        plan.permissions = delta.permissions.iter().map(PermissionChange::inverse).collect();
        Ok(plan)
    }

    /// The paths that are neither as expected nor as wanted.
    pub(crate) fn conflicts(&self, work_tree: &WorkTree, kinds: DiskKinds) -> Result<Vec<RepoPath>, CheckpointError> {
        let mut found = Vec::new();
        let files: Vec<&Placement> = self.files.iter().collect();
        for (file, judged) in files.iter().zip(batch::judge_all(work_tree, &files, kinds)) {
            if judged?.judgement == Judgement::Foreign {
                found.push(file.path.clone());
            }
        }
        found.extend(self.obstructed(work_tree)?);
        Ok(found)
    }

    /// The paths that the system does not let piton write, found out without writing anything.
    pub(crate) fn unwritable(&self, work_tree: &WorkTree) -> Vec<Unwritten> {
        let folders = self.folders_made.iter().map(|(path, _)| path).chain(&self.folders_removed);
        let changed = self.files.iter().map(|file| &file.path).chain(folders);
        let mut opened = Folders::of(work_tree);
        let refused = |path: &RepoPath| {
            let reason = opened.refusal(path)?.to_string();
            Some(Unwritten { path: path.clone(), reason, errno: None })
        };
        changed.filter_map(refused).collect()
    }

    /// Files whose place is taken by a folder that holds more than the plan removes, such as ignored files.
    pub(crate) fn obstructed(&self, work_tree: &WorkTree) -> Result<Vec<RepoPath>, CheckpointError> {
        let removed: BTreeSet<&RepoPath> =
            self.files.iter().filter(|file| file.target.is_none()).map(|file| &file.path).collect();
        let mut found = Vec::new();
        let mut folders = Folders::of(work_tree);
        for file in self.files.iter().filter(|file| file.target.is_some()) {
            if let Some(Found::Folder { .. }) = folders.state(&file.path)?
                && work_tree.files_below(&file.path)?.iter().any(|path| !removed.contains(path))
            {
                found.push(file.path.clone());
            }
        }
        Ok(found)
    }

    /// Puts everything where it belongs, except what is somebody else's by now.
    pub(crate) fn apply(
        &self,
        objects: &Objects<'_>,
        work_tree: &WorkTree,
        kinds: DiskKinds,
        permissions_of_folder: impl Fn(&RepoPath) -> u32,
    ) -> Result<Report, CheckpointError> {
        let mut report = Report { repositories: self.repositories.clone(), ..Report::default() };
        let opened = self.open_folders(work_tree)?;
        let (writes, removals): (Vec<_>, Vec<_>) = self.files.iter().partition(|file| file.target.is_some());
        let remove = |file: &Placement| match judge(work_tree, file, kinds)? {
            Judgement::Expected => work_tree.remove_file(&file.path).map(|()| Placed::Yes),
            judged => Ok(Placed::of(judged)),
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
            Judgement::Expected => place(objects, work_tree, file, kinds, &permissions_of_folder),
            judged => Ok(Placed::of(judged)),
        };
        let drafts = if writes.len() >= batch::MANY { Drafts::of(work_tree)? } else { None };
        if let Some(drafts) = drafts {
            let places = (objects, work_tree, &drafts);
            batch::write(places, &writes, kinds, &permissions_of_folder, &mut report, &write)?;
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
                if is_there { Ok(()) } else { work_tree.make_folder(folder, *bits) }
            });
            failpoint("restore-path");
            report.attempted(folder, made)?;
        }
        for (folder, bits) in opened.iter().rev() {
            if let Some(Found::Folder { .. }) = work_tree.state(folder)? {
                work_tree.set_permissions(folder, *bits)?;
            }
        }
        for change in &self.permissions {
            if work_tree.state(&change.path)?.and_then(|found| found.permissions()) == Some(change.before) {
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

    /// Lets the owner write in the folders that are going to change: a step may have forbidden it.
    /// Returns those that had to be opened, parents first, with the bits they had.
    fn open_folders(&self, work_tree: &WorkTree) -> Result<Vec<(RepoPath, u32)>, CheckpointError> {
        const OWNERS: u32 = 0o700;
        let bits_of = |path: &RepoPath| match work_tree.state(path)? {
            Some(Found::Folder { permissions }) => Ok(Some(permissions)),
            _ => Ok::<_, CheckpointError>(None),
        };
        for change in self.permissions.iter().filter(|change| change.after & OWNERS == OWNERS) {
            if bits_of(&change.path)? == Some(change.before) {
                // One that cannot be opened shows when something in it is written.
                let _ = work_tree.set_permissions(&change.path, change.after);
            }
        }
        // The folders of the step itself go away: outermost first, or those inside cannot be reached.
        for folder in self.folders_removed.iter().rev() {
            if let Some(bits) = bits_of(folder)?.filter(|bits| bits & OWNERS != OWNERS) {
                let _ = work_tree.set_permissions(folder, bits | OWNERS);
            }
        }
        let files = self.files.iter().map(|file| &file.path);
        let folders = self.folders_removed.iter().chain(self.folders_made.iter().map(|(path, _)| path));
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

/// Whether a file is where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    Yes,
    No,
}

impl Placed {
    fn of(judgement: Judgement) -> Self {
        if judgement == Judgement::Done { Self::Yes } else { Self::No }
    }
}

impl Report {
    /// Why not everything is as the plan wants it; none when it is.
    pub fn shortfall(&self) -> Option<CheckpointError> {
        match (self.failed.is_empty(), self.kept.is_empty()) {
            (true, true) => None,
            (false, _) => Some(CheckpointError::Unwritable(self.failed.clone())),
            (true, false) => Some(CheckpointError::ChangedSince(self.kept.clone())),
        }
    }

    /// Everything that is not as the plan wants it.
    pub fn not_restored(&self) -> Vec<RepoPath> {
        let mut paths: Vec<RepoPath> = self.failed.iter().map(|file| &file.path).chain(&self.kept).cloned().collect();
        paths.sort();
        paths
    }

    /// Writes down what became of a file.
    fn note(&mut self, path: &RepoPath, placed: Result<Placed, CheckpointError>) -> Result<(), CheckpointError> {
        match placed {
            Ok(Placed::Yes) => self.restored.push(path.clone()),
            Ok(Placed::No) => self.kept.push(path.clone()),
            Err(err) => self.attempted(path, Err(err))?,
        }
        Ok(())
    }

    /// Writes down that the system did not let go of something, with the reason; only a disk without room stops
    /// everything, because room can be made.
    fn attempted(&mut self, path: &RepoPath, done: Result<(), CheckpointError>) -> Result<(), CheckpointError> {
        match done {
            Ok(()) => {}
            Err(err) if err.is_about_room() => return Err(err),
            Err(err) => {
                let reason = std::error::Error::source(&err).map_or_else(|| err.to_string(), ToString::to_string);
                self.failed.push(Unwritten { path: path.clone(), reason, errno: err.errno() });
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
) -> Result<Placed, CheckpointError> {
    if !has_room(work_tree, &file.path, permissions_of_folder)? {
        return Ok(Placed::No);
    }
    write(objects, work_tree, file, kinds)?;
    Ok(Placed::Yes)
}

/// How the work tree stands to one file of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Expected,
    Done,
    Foreign,
}

fn judge(work_tree: &WorkTree, file: &Placement, kinds: DiskKinds) -> Result<Judgement, CheckpointError> {
    Ok(judge_found(&entry_on_disk(work_tree, &file.path, file.format())?, file, kinds))
}

fn judge_found(now: &OnDisk, file: &Placement, kinds: DiskKinds) -> Judgement {
    let is = |entry: Entry, other: Option<Entry>| {
        let any_file =
            |other: Entry| kinds.executable == Executable::FromIndex && entry.mode.is_file() && other.mode.is_file();
        let as_file =
            |other: Entry| kinds.symlinks == Symlinks::Files && entry.mode.is_file() && other.mode == FileMode::Symlink;
        let fits = |other: Entry| other.mode == entry.mode || any_file(other) || as_file(other);
        other.is_some_and(|other| other.id == entry.id && fits(other))
    };
    match now {
        OnDisk::File(entry, bits) if is(*entry, file.target) => {
            // Content put back before the permission bits were: still to be done.
            match file.target.and_then(|target| PermissionKind::of(target.mode)) {
                Some(_) if *bits != file.permissions => Judgement::Expected,
                _ => Judgement::Done,
            }
        }
        OnDisk::File(entry, _) if is(*entry, file.expected) => Judgement::Expected,
        OnDisk::Nothing if file.target.is_none() => Judgement::Done,
        OnDisk::Nothing if file.expected.is_none() => Judgement::Expected,
        // A folder where a file was expected to be absent: the step made files below it, which
        // are removed by their own lines of the plan.
        OnDisk::Folder if file.expected.is_none() && file.target.is_some() => Judgement::Expected,
        OnDisk::Folder if file.target.is_none() => Judgement::Done,
        _ => Judgement::Foreign,
    }
}

/// What is at a path now, with the name its content would have in git.
enum OnDisk {
    Nothing,
    Folder,
    Special,
    File(Entry, u32),
}

fn blob_id(format: ObjectFormat, content: &[u8]) -> Result<ObjectId, CheckpointError> {
    format.name(git2::ObjectType::Blob, content).map_err(CheckpointError::git("name the content of a file"))
}

fn entry_on_disk(work_tree: &WorkTree, path: &RepoPath, format: ObjectFormat) -> Result<OnDisk, CheckpointError> {
    Ok(match work_tree.state(path)? {
        None => OnDisk::Nothing,
        Some(Found::Folder { .. }) => OnDisk::Folder,
        Some(Found::Special) => OnDisk::Special,
        Some(Found::Symlink { .. }) => {
            let Some(target) = work_tree.read_link(path)? else { return Ok(OnDisk::Nothing) };
            let id = blob_id(format, &target)?;
            OnDisk::File(Entry { mode: FileMode::Symlink, id }, 0)
        }
        Some(Found::File { permissions, .. }) => {
            let Some(bytes) = work_tree.read_if_file(path)? else { return Ok(OnDisk::Nothing) };
            let id = blob_id(format, &bytes)?;
            let mode = if permissions & 0o100 == 0 { FileMode::Regular } else { FileMode::Executable };
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
    let Some(target) = file.target else { return Ok(()) };
    if let OnDisk::File(now, _) = entry_on_disk(work_tree, &file.path, target.id.format())?
        && now.id == target.id
        && now.mode.is_file()
        && target.mode.is_file()
    {
        // Only its permission bits changed: its time has not, and stays.
        return work_tree.set_permissions(&file.path, file.permissions);
    }
    let content = objects.read(target.id)?;
    match target.mode {
        FileMode::Symlink if kinds.symlinks == Symlinks::Links => work_tree.write_link(&file.path, &content),
        _ => work_tree.write_file(&file.path, &content, file.permissions),
    }
}

/// Makes room for a file. A folder in its place that holds something else, such as ignored files,
/// stays, and so does whatever is in the place of its own folder.
fn has_room(
    work_tree: &WorkTree,
    path: &RepoPath,
    permissions_of_folder: &impl Fn(&RepoPath) -> u32,
) -> Result<bool, CheckpointError> {
    make_parents(work_tree, path, permissions_of_folder)?;
    work_tree.remove_folder_if_empty(path)?;
    let parent = path.parent();
    let is_folder = |path: &RepoPath| Ok(matches!(work_tree.state(path)?, Some(Found::Folder { .. })));
    Ok((parent.is_top() || is_folder(&parent)?) && !is_folder(path)?)
}

fn make_parents(
    work_tree: &WorkTree,
    path: &RepoPath,
    permissions_of_folder: &impl Fn(&RepoPath) -> u32,
) -> Result<(), CheckpointError> {
    let parent = path.parent();
    if parent.is_top() || matches!(work_tree.state(&parent)?, Some(Found::Folder { .. })) {
        return Ok(());
    }
    make_parents(work_tree, &parent, permissions_of_folder)?;
    if work_tree.state(&parent)?.is_none() {
        work_tree.make_folder(&parent, permissions_of_folder(&parent))?;
    }
    Ok(())
}

/// What was found, or a stand-in where the object that says it is gone.
fn found_or<T>(stand_in: T, found: Result<T, CheckpointError>) -> Result<T, CheckpointError> {
    match found {
        Err(CheckpointError::Missing { .. }) => Ok(stand_in),
        found => found,
    }
}

/// These folders and those around them that the snapshot does not have, deepest first.
fn new_folders(
    objects: &Objects<'_>,
    before: &Snapshot,
    folders: BTreeSet<RepoPath>,
) -> Result<Vec<RepoPath>, CheckpointError> {
    let mut new = BTreeSet::new();
    for folder in folders {
        let mut folder = folder;
        while !folder.is_top() && !new.contains(&folder) {
            // A folder whose tree git has pruned counts as new: it is only removed if it is empty.
            let known = found_or(false, tree::has_folder(objects, before.tree, &folder))?
                || before.empty_folders.iter().any(|empty| *empty == folder || empty.is_inside(&folder));
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
